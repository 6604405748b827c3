"""Table schemas of LLMCrit: aspects of guidelines, their criteria, demonstrations, texts, feedback, and its judgements.

A task is a kind of writing, such as introductions of papers: its name stands in the column `task` of every table. All
tables from TEXTS on that have a column `text_id` are divided into the same parts as TEXTS.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.sources.stackexchange import MOMENT

TASK = column("task", pa.string(), "name of the task: what kind of writing this is")

ASPECTS = table(
    "aspects",
    column("aspect_id", pa.string(), "<task>/<name as in the guideline, or id as in the released file>"),
    TASK,
    column("position", pa.int32(), "place among the aspects of its task, from 1"),
    column("name", pa.string(), "heading of the section"),
    column("guideline", pa.string(), "the section of the guideline, Markdown"),
    column("origin", pa.string(), "guideline (a section of a document) or released (an imported file)"),
    column("file", pa.string(), "name of the file that holds it"),
    column("licence", pa.string(), "of the guideline; null where an imported file does not say", null=True),
    column("source", pa.string(), "who wrote the guideline, or its address", null=True),
    key="aspect_id",
    cut="task",
)

CRITERIA = table(
    "criteria",
    column("criterion_id", pa.string(), "hash of aspect, name and check as proposed"),
    column("aspect_id", pa.string(), "parent: aspects.aspect_id"),
    TASK,
    column("position", pa.int32(), "place among the criteria of its aspect, from 1"),
    column("name", pa.string(), "short name, as reviewed; may be empty in imported files"),
    column("check", pa.string(), "what is checked, as reviewed"),
    column("state", pa.string(), "proposed, accepted, edited or rejected: what people said of it"),
    column("reviewers", pa.int32(), "how many people reviewed it"),
    column("proposed", pa.string(), "name and check before a person edited them, as **name**: check", null=True),
    *MADE_BY,
    key="criterion_id",
    cut="task",
)

CRITERION = pa.struct(
    [
        column("criterion_id", pa.string(), "criteria.criterion_id"),
        column("name", pa.string(), "criteria.name"),
        column("check", pa.string(), "criteria.check"),
        column(
            "satisfied",
            pa.bool_(),
            "the satisfaction vector: whether the text is to meet it; null: as it is",
            null=True,
        ),
    ]
)

REVIEWS = table(
    "reviews",
    column("review_id", pa.string(), "hash of item and reviewer"),
    column("item_id", pa.string(), "criteria.criterion_id, or demonstrations.demonstration_id"),
    column("annotator_id", pa.string(), "a number or a pseudonym"),
    column("verdict", pa.string(), "accept, edit or reject"),
    column("name", pa.string(), "new name of a criterion", null=True),
    column("text", pa.string(), "new check of a criterion, or new feedback of a demonstration", null=True),
    column("input", pa.string(), "new text of a demonstration", null=True),
    column("seconds", pa.float64(), "time taken, where noted", null=True),
    key="review_id",
)

_FROM = (
    column("source_id", pa.string(), "the record it was taken from: <group>/<upstream id>"),
    column("licence", pa.string(), "of the text, as its source says", null=True),
    column("url", pa.string(), "permalink", null=True),
    column("authors", pa.list_(pa.string()), "as the licence demands; empty where none is to be named"),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
)
_PARENTS = {name: ["source_id"] for name in ("paper_id", "commit_id", "post_id")}

CANDIDATES = table(
    "candidates",
    column("text_id", pa.string(), "<task>/<source_id>"),
    TASK,
    column("text", pa.string(), "the text as it is shown to models"),
    column("stratum", pa.string(), "what the draw is balanced over, e.g. the decision on a paper; may be empty"),
    column("popularity", pa.int64(), "votes, where the most popular are drawn from", null=True),
    *_FROM,
    key="text_id",
    parents=_PARENTS,
    level=1,
)

DRAWN = table(
    "drawn",
    *CANDIDATES,
    column("use", pa.string(), "test, or demonstration: its text may become one"),
    column("modified", pa.bool_(), "whether it is to be modified before feedback on it is asked for"),
    key="text_id",
    level=1,
)

CHANGES = table(
    "changes",
    column("change_id", pa.string(), "hash of text, aspect, kind and satisfaction vector"),
    column("text_id", pa.string(), "parent: drawn.text_id"),
    column("aspect_id", pa.string(), "parent: aspects.aspect_id"),
    TASK,
    column("use", pa.string(), "test or demonstration"),
    column("kind", pa.int32(), "1 violate every criterion, 2 meet at least some, 3 violate some, 4 meet all or stay"),
    column("position", pa.int32(), "place among the demonstrations of its aspect, from 1"),
    column("criteria", pa.list_(CRITERION), "all criteria of the aspect, with the satisfaction vector"),
    column("original", pa.string(), "the text before"),
    key="change_id",
    level=1,
)

CHANGED = table(
    "changed",
    *CHANGES,
    column("text", pa.string(), "the text after"),
    column("unchanged", pa.bool_(), "the text was left as it was, which only kind 4 may do"),
    *MADE_BY,
    key="change_id",
    level=1,
)

COMPLIANCE = table(
    "compliance",
    column("compliance_id", pa.string(), "<change_id>#<criterion_id>"),
    column("change_id", pa.string(), "parent: changed.change_id"),
    column("criterion_id", pa.string(), "criteria.criterion_id"),
    column("wanted", pa.bool_(), "the satisfaction vector: whether the text is to meet it"),
    column("verdict", pa.string(), "of the judge: met, violated or not applicable"),
    column("reasoning", pa.string(), "of the judge", null=True),
    *MADE_BY,
    key="compliance_id",
    cut="change_id",
)

DEMONSTRATIONS = table(
    "demonstrations",
    column("demonstration_id", pa.string(), "hash of aspect, text and feedback as generated or imported"),
    column("aspect_id", pa.string(), "parent: aspects.aspect_id"),
    TASK,
    column("position", pa.int32(), "place among the demonstrations of its aspect, from 1"),
    column("kind", pa.int32(), "as in changes; null for imported ones", null=True),
    column("criteria", pa.list_(CRITERION), "the satisfaction vector; empty for imported ones"),
    column("input", pa.string(), "the text, as reviewed"),
    column("output", pa.string(), "the feedback on it, as reviewed"),
    column("violations", pa.int32(), "criteria that the text was to violate"),
    column("verified", pa.int32(), "of these, how many the judge found violated"),
    column("state", pa.string(), "proposed, accepted, edited or rejected: what people said of it"),
    column("reviewers", pa.int32(), "how many people reviewed it"),
    column("change_id", pa.string(), "parent: changed.change_id; null for imported ones", null=True),
    column("text_id", pa.string(), "the text it was made from; null for imported ones", null=True),
    column("changed_by", pa.string(), "key of the response that holds the text", null=True),
    *MADE_BY,
    key="demonstration_id",
    cut="task",
)

TEXTS = table(
    "texts",
    column("text_id", pa.string(), "<task>/<source_id>"),
    TASK,
    column("text", pa.string(), "the text on which feedback is asked for"),
    column("stratum", pa.string(), "as in candidates"),
    column("modified", pa.bool_(), "whether it was modified to violate criteria"),
    column("original", pa.string(), "the text before; null where it was not modified", null=True),
    column("aspect_id", pa.string(), "the aspect of which it violates criteria", null=True),
    column("violated", pa.list_(pa.string()), "criterion ids that it was made to violate; may be empty"),
    *_FROM,
    *MADE_BY,
    key="text_id",
    level=1,
)

SAMPLE = pa.struct(
    [
        column("text", pa.string(), "the reply"),
        column("response", pa.string(), "key of the model's response"),
    ]
)
_ASKED = (
    column("feedback_id", pa.string(), "hash of text, strategy, granularity, aspect or criterion, and model"),
    column("text_id", pa.string(), "parent: texts.text_id"),
    TASK,
    column("strategy", pa.string(), "base, crit, icl or cricl"),
    column("granularity", pa.string(), "text (base), aspect, or criterion: what one call is asked about"),
    column("aspect_id", pa.string(), "aspect it was asked about; null for base", null=True),
    column("criteria", pa.list_(pa.string()), "criterion ids it is judged on: of the aspect, of the task for base"),
)
_SHOWN = column("demonstrations", pa.list_(pa.string()), "demonstration ids shown with it, in this order; may be empty")

SAMPLES = table(
    "samples",
    *_ASKED,
    _SHOWN,
    column("samples", pa.list_(SAMPLE), "the replies that can be read"),
    *MADE_BY,
    key="feedback_id",
    cut="text_id",
    level=1,
)

REMARK = pa.struct(
    [
        column("criterion_id", pa.string(), "the criterion it belongs to; null where none is told", null=True),
        column("by", pa.string(), "how that is told: name (it names the criterion), words (it shares them), none"),
        column("text", pa.string(), "the remark"),
    ]
)

FEEDBACK = table(
    "feedback",
    *_ASKED,
    _SHOWN,
    column("feedback", pa.string(), "the sample that is most similar to the others"),
    column("remarks", pa.list_(REMARK), "its remarks, in their order"),
    column("similarity", pa.float64(), "its mean cosine to the other samples; null where there is none", null=True),
    column("samples", pa.int32(), "how many samples it was chosen from"),
    column("embedding", pa.string(), "by what samples were compared: tfidf, a model's name"),
    *MADE_BY,
    key="feedback_id",
    cut="text_id",
    level=1,
)

PLANTED = table(
    "planted",
    *_ASKED,
    column("feedback", pa.string(), "the feedback"),
    column(
        "planted",
        pa.string(),
        "advice, other text, praise, vague or own: how it was made right or wrong; null: real feedback",
        null=True,
    ),
    key="feedback_id",
    cut="text_id",
    level=1,
)

_JUDGED = (
    column("text_id", pa.string(), "texts.text_id"),
    TASK,
    column("planted", pa.string(), "how it was planted as a check of the judge; null: real feedback", null=True),
)

VALIDITY = table(
    "validity",
    column("feedback_id", pa.string(), "feedback.feedback_id, or planted.feedback_id"),
    *_JUDGED,
    column("verdict", pa.string(), "specific or not specific"),
    column("reasoning", pa.string(), "of the judge", null=True),
    *MADE_BY,
    key="feedback_id",
    cut="text_id",
)

CONTEXT = table(
    "context",
    column("feedback_id", pa.string(), "feedback.feedback_id, or planted.feedback_id"),
    *_JUDGED,
    column("verdict", pa.string(), "match, not match or unsure"),
    column("reasoning", pa.string(), "of the judge", null=True),
    *MADE_BY,
    key="feedback_id",
    cut="text_id",
)

CRITIQUES = table(
    "critiques",
    column("critique_id", pa.string(), "<feedback_id>#<criterion_id>"),
    column("feedback_id", pa.string(), "parent: feedback.feedback_id, or planted.feedback_id"),
    *_JUDGED,
    column("criterion_id", pa.string(), "criteria.criterion_id"),
    column("extraction", pa.string(), "what criticises the text or suggests a change; may be empty"),
    column("constructive", pa.bool_(), "whether there is such a critique"),
    column("helpful", pa.bool_(), "whether it helps; null where there is no critique", null=True),
    column("reasoning", pa.string(), "of the judge", null=True),
    *MADE_BY,
    key="critique_id",
    cut="text_id",
)

JUDGEMENTS = table(
    "judgements",
    column("judgement_id", pa.string(), "hash of layer, item and annotator"),
    column("layer", pa.string(), "validity, context, constructive or helpful"),
    column("item_id", pa.string(), "feedback_id, or critique_id"),
    TASK,
    column("annotator_id", pa.string(), "a number or a pseudonym"),
    column("label", pa.string(), "what the person says, in the judge's words; yes or no of the last two layers"),
    column("judge", pa.string(), "what the judge says of the same item"),
    column("seconds", pa.float64(), "time taken, where noted", null=True),
    key="judgement_id",
)

PUBLISHED_FEEDBACK = table(
    "published_feedback",
    *FEEDBACK,
    column("aspect", pa.string(), "heading of the aspect", null=True),
    column("text", pa.string(), "the text that the feedback is on"),
    column("modified", pa.bool_(), "whether the text was modified to violate criteria"),
    column("validity", pa.string(), "specific or not specific; null where it was not judged", null=True),
    column("context", pa.string(), "match, not match or unsure; null where it was not judged", null=True),
    column("judged", pa.int32(), "criteria on which its critique was judged"),
    column("touched", pa.int32(), "of these, criteria on which it criticises or suggests"),
    column("helped", pa.int32(), "of these, criteria on which that helps"),
    *_FROM,
    column("split", pa.string(), "the task"),
    key="feedback_id",
    cut="text_id",
    level=3,
)

PUBLISHED_CRITIQUES = table(
    "published_critiques",
    *CRITIQUES,
    column("strategy", pa.string(), "of the feedback: base, crit, icl or cricl"),
    column("granularity", pa.string(), "of the feedback: text, aspect or criterion"),
    column("writer", pa.string(), "model that wrote the feedback", null=True),
    column("criterion", pa.string(), "name of the criterion, or its check where it has no name"),
    column("violated", pa.bool_(), "whether the text was made to violate this criterion"),
    column("split", pa.string(), "the task"),
    key="critique_id",
    cut="text_id",
)

CHECKS = table(
    "checks",
    column("check_id", pa.string(), "<layer>/<feedback_id of the planted feedback>"),
    column("feedback_id", pa.string(), "parent: planted.feedback_id"),
    column("text_id", pa.string(), "texts.text_id"),
    TASK,
    column("layer", pa.string(), "validity, context, constructive or helpful"),
    column("planted", pa.string(), "how the feedback was made: advice, other text, praise, vague or own"),
    column("feedback", pa.string(), "the planted feedback"),
    column("expected", pa.string(), "the right verdict"),
    column("verdict", pa.string(), "the judge's"),
    column("hit", pa.bool_(), "whether they agree"),
    column("model", pa.string(), "the judge", null=True),
    column("split", pa.string(), "the task"),
    key="check_id",
    cut="text_id",
)

ORIGINS = table(
    "origins",
    column("origin_id", pa.string(), "hash of text or aspect, and record"),
    column("used_by", pa.string(), "texts.text_id or the text of a demonstration; aspects.aspect_id of a guideline"),
    TASK,
    column("kind", pa.string(), "test, demonstration or guideline"),
    column("record_id", pa.string(), "source_id of the text; file of the guideline"),
    column("licence", pa.string(), "as the source says", null=True),
    column("url", pa.string(), "permalink", null=True),
    column("authors", pa.list_(pa.string()), "as the licence demands; may be empty"),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    key="origin_id",
)
