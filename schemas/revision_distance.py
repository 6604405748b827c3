"""Table schemas of Revision Distance: writing cases, drafts, the edits that a reader would still make, their distance.

All tables from CASES on have a column `case_id` and are divided into the same parts as CASES. Offsets count Unicode
code points.
"""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY
from schemas.sources.papers import FROM_SUBMISSION
from schemas.sources.stackexchange import MOMENT

CITED = pa.struct(
    [
        column("paper_id", pa.string(), "<group>/<upstream id>"),
        column("title", pa.string(), "title of the cited paper", null=True),
        column("abstract", pa.string(), "abstract of the cited paper; null where it was not found", null=True),
        column("by", pa.string(), "how the paper was found: link or title of the reference"),
    ]
)

GIVEN = pa.struct(
    [
        column("system", pa.string(), "chosen, rejected or reordered"),
        column("text", pa.string(), "the draft, unchanged"),
        column("writer", pa.string(), "model that wrote it, as the source says", null=True),
        column("score", pa.float64(), "score by the source's judge", null=True),
    ]
)

_CASE = (
    column("case_id", pa.string(), "<task>/<id of the source's record>"),
    column("task", pa.string(), "easy, hard, free (no reference) or structure"),
    column("kind", pa.string(), "email, letter, article, related_work, or another kind of writing"),
    column("rule", pa.string(), "the words by which the rules found it; null for tasks without rules", null=True),
    column("request", pa.string(), "what the writer was asked; null for related work", null=True),
    column("title", pa.string(), "hard: title of the paper that the paragraph is for", null=True),
    column("abstract", pa.string(), "hard: abstract of that paper", null=True),
    column("cited", pa.list_(CITED), "hard: the papers to write about, in the order of their citations"),
    column("reference", pa.string(), "the text that drafts are compared with; null for free", null=True),
    column("reference_by", pa.string(), "who wrote it: human, or the model's name as the source says", null=True),
    column("given", pa.list_(GIVEN), "free and structure: drafts that come with the case"),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in all its texts"),
)
_ORIGIN = (
    column("licence", pa.string(), "licence of the source, where known", null=True),
    column("url", pa.string(), "permalink of the record, or address of its data set", null=True),
    column("revision", pa.string(), "commit of the data set, where known", null=True),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
)

EASY = table(
    "easy",
    *_CASE,
    column("conversation_id", pa.string(), "parent: conversations.conversation_id"),
    *_ORIGIN,
    key="case_id",
)
FREE = table(
    "free",
    *_CASE,
    column("instruction_id", pa.string(), "parent: completions.instruction_id"),
    *_ORIGIN,
    key="case_id",
)
HARD = table(
    "hard",
    *_CASE,
    column("related_id", pa.string(), "parent: related.related_id"),
    column("paper_id", pa.string(), "of that paragraph"),
    *FROM_SUBMISSION,
    *_ORIGIN,
    key="case_id",
)
STRUCTURE = table("structure", *_CASE, *_ORIGIN, key="case_id")

CASES = table(
    "cases",
    *_CASE,
    column("source_id", pa.string(), "id of the record it was made from: what a takedown names"),
    column("checked", pa.string(), "the model's verdict on the request: yes; null where it was not asked", null=True),
    column("checked_kind", pa.string(), "the kind of writing that the model sees", null=True),
    column("check_response", pa.string(), "key of that model's response", null=True),
    column("check_model", pa.string(), "model that answered, as it named itself", null=True),
    *FROM_SUBMISSION,
    *_ORIGIN,
    key="case_id",
)

CANDIDATES = table(
    "candidates",
    *_CASE,
    column("source_id", pa.string(), "id of the record it was made from: what a takedown names"),
    *FROM_SUBMISSION,
    *_ORIGIN,
    key="case_id",
)

CHECKED = table(
    "checked",
    column("check_id", pa.string(), "hash of case_id"),
    column("case_id", pa.string(), "parent: candidates.case_id"),
    column(
        "checked",
        pa.string(),
        "whether it is a writing request: yes or no; null for tasks that are not checked",
        null=True,
    ),
    column("checked_kind", pa.string(), "kind of writing: email, letter, article or other", null=True),
    *MADE_BY,
    key="check_id",
    cut="case_id",
)

KNOWLEDGE = table(
    "knowledge",
    column("knowledge_id", pa.string(), "hash of case_id"),
    column("case_id", pa.string(), "parent: cases.case_id"),
    column("text", pa.string(), "what the model recalls about the subject"),
    *MADE_BY,
    key="knowledge_id",
    cut="case_id",
)

SEGMENTS = table(
    "segments",
    column("segment_id", pa.string(), "hash of case_id and perspective"),
    column("case_id", pa.string(), "parent: cases.case_id"),
    column("perspective", pa.string(), "problems, methods or history"),
    column("text", pa.string(), "the segment"),
    *MADE_BY,
    key="segment_id",
    cut="case_id",
)

DRAFTS = table(
    "drafts",
    column("draft_id", pa.string(), "hash of case_id, system and text"),
    column("case_id", pa.string(), "parent: cases.case_id"),
    column("task", pa.string(), "task of the case"),
    column("system", pa.string(), "weak, strong, vanilla, cot, chosen, rejected or reordered"),
    column("text", pa.string(), "the draft, without its end mark"),
    column("writer", pa.string(), "writer named by the source; null for drafts by our models", null=True),
    *MADE_BY,
    key="draft_id",
    cut="case_id",
)

EDIT = (
    column("action_name", pa.string(), "kind of change, in a word or two, as the editor names it"),
    column("revision_description", pa.string(), "what changes and why, in a sentence"),
    column("revision_level", pa.string(), "word, phrase, sentence, paragraph, reference or text"),
    column("revision_intention", pa.string(), "fluency, clarity, coherence, style, meaning or other"),
    column("original_snippet", pa.string(), "words of the draft to remove; empty where text is only added"),
    column("revised_snippet", pa.string(), "words to insert; empty where text is only removed"),
    column(
        "preceding_snippet",
        pa.string(),
        "words of the draft right before the insertion of revised_snippet; empty: at the beginning; "
        "null: in place of original_snippet",
        null=True,
    ),
)

EDITS = table(
    "edits",
    column("edits_id", pa.string(), "hash of draft_id"),
    column("draft_id", pa.string(), "parent: drafts.draft_id"),
    column("case_id", pa.string(), "case of the draft"),
    column("edits", pa.list_(pa.struct(EDIT)), "as the editor listed them; empty: nothing to change"),
    column("lost_edits", pa.int32(), "edits of the list that could not be read; one more where the list is cut off"),
    *MADE_BY,
    key="edits_id",
    cut="case_id",
)

PLACED = pa.struct(
    [
        *EDIT,
        column("category", pa.string(), "for related work: order, comparison, description or other", null=True),
        column("weight", pa.float64(), "weight of its intention"),
        column(
            "placed",
            pa.string(),
            "match of its snippets: exactly, folded (white space, quotes, case), nearly (small differences), or not",
        ),
        column("start", pa.int32(), "offset in the draft where original_snippet begins; null: not placed", null=True),
        column("end", pa.int32(), "offset where it ends; equal to start where text is only added", null=True),
        column("at", pa.int32(), "offset in the draft where revised_snippet is inserted", null=True),
        column(
            "applied", pa.bool_(), "whether it is applied: false if not placed, or overlapping with an earlier edit"
        ),
        column("why_not", pa.string(), "why it is not applied", null=True),
    ]
)

NUMBERS = (
    column(
        "lost_edits",
        pa.int32(),
        "edits of the list that could not be read; one more where the list is cut off",
        null=True,
    ),
    column(
        "aligned",
        pa.int32(),
        "edits that the alignment needs from the untouched draft to the reference; null: no reference",
        null=True,
    ),
    column("no_ops", pa.int32(), "edits that change no word", null=True),
    column("duplicates", pa.int32(), "edits that repeat one before them", null=True),
    column(
        "residual",
        pa.int32(),
        "edits that the alignment of sentences still needs from the revised draft to the reference; null: no reference",
        null=True,
    ),
    column("valid", pa.bool_(), "whether the edits give the words of the reference; null: no reference", null=True),
    column(
        "coverage",
        pa.float64(),
        "share of the alignment's edits of the draft that the edits bring about, 0 to 1; null: no reference",
        null=True,
    ),
    column(
        "silent",
        pa.bool_(),
        "whether no edit has an effect, although the texts differ, or there is no reference",
        null=True,
    ),
    column(
        "wholesale",
        pa.bool_(),
        "whether the edits replace so much of the draft that they count as the alignment's edits",
        null=True,
    ),
    column(
        "corrected",
        pa.int32(),
        "corrected distance: edits with an effect, each once, large ones as the alignment counts, and the residual",
        null=True,
    ),
    column(
        "normalised", pa.float64(), "corrected distance per 100 words of the reference, else of the draft", null=True
    ),
    column("ter", pa.float64(), "translation edit rate of the draft, % of the reference's words", null=True),
    column("ter_left_out", pa.string(), "why it was not computed", null=True),
)

DISTANCES = table(
    "distances",
    column("distance_id", pa.string(), "hash of draft_id"),
    column("edits_id", pa.string(), "parent: edits.edits_id"),
    column("draft_id", pa.string(), "draft that the edits are for"),
    column("case_id", pa.string(), "case of the draft"),
    column("task", pa.string(), "task of the case"),
    column("system", pa.string(), "system that wrote the draft"),
    column("distance", pa.int32(), "number of edits"),
    column("weighted", pa.float64(), "sum of the weights of their intentions"),
    column("not_placed", pa.int32(), "edits whose snippet is not in the draft"),
    column("not_applied", pa.int32(), "edits that are not placed, or overlap with an earlier one"),
    column("edits", pa.list_(PLACED), "in the editor's order"),
    column("revised", pa.string(), "the draft with the edits applied"),
    column(
        "reproduces",
        pa.string(),
        "whether the revised draft is the reference: exactly, words, no; null: no reference",
        null=True,
    ),
    *NUMBERS,
    column("signature", pa.string(), "what the distance depends on: editor, prompt, settings, version"),
    key="distance_id",
    cut="case_id",
)

RATINGS = table(
    "ratings",
    column("rating_id", pa.string(), "hash of draft_id"),
    column("draft_id", pa.string(), "parent: drafts.draft_id"),
    column("case_id", pa.string(), "case of the draft"),
    column("gpt_score", pa.float64(), "rating by a model, 0 to 100; null where the task has no reference", null=True),
    *MADE_BY,
    key="rating_id",
    cut="case_id",
)

SCORES = table(
    "scores",
    column("score_id", pa.string(), "hash of draft_id"),
    column("draft_id", pa.string(), "parent: drafts.draft_id"),
    column("case_id", pa.string(), "case of the draft"),
    column(
        "rouge1",
        pa.float64(),
        "ROUGE-1 F, 0 to 100, words as rouge_score (Latin script); null: no reference",
        null=True,
    ),
    column("rouge2", pa.float64(), "ROUGE-2 F measure, likewise", null=True),
    column("rougeL", pa.float64(), "ROUGE-L F measure, likewise", null=True),
    column("bertscore", pa.float64(), "BERTScore F1, 0 to 100; null where it was not computed", null=True),
    column("bertscore_model", pa.string(), "model that BERTScore used", null=True),
    column(
        "bertscore_left_out", pa.string(), "why it was not computed: no reference, no model, over 512 tokens", null=True
    ),
    key="score_id",
    cut="case_id",
)

JUDGEMENTS = table(
    "judgements",
    column("judgement_id", pa.string(), "hash of sheet_id and expert"),
    column("sheet_id", pa.string(), "id of the sheet: hash of the two drafts"),
    column("case_id", pa.string(), "of the drafts"),
    column("expert", pa.string(), "number or pseudonym of the expert; never a name"),
    column("better", pa.string(), "draft_id of the better text; null: neither", null=True),
    column(
        "content",
        pa.list_(pa.int32()),
        "rating of the content, 1 to 5, of the first and the second draft; empty: not rated",
    ),
    column("structure", pa.list_(pa.int32()), "rating of the structure, likewise"),
    column("argument", pa.list_(pa.int32()), "rating of the argument, likewise"),
    column("first", pa.string(), "draft_id of text A"),
    column("second", pa.string(), "draft_id of text B"),
    key="judgement_id",
    cut="case_id",
)

PUBLISHED_DRAFTS = table(
    "published_drafts",
    column("draft_id", pa.string(), "hash of case_id, system and text"),
    column("case_id", pa.string(), "<task>/<id of the source's record>"),
    column("task", pa.string(), "easy, hard, free or structure"),
    column("kind", pa.string(), "email, letter, article, related_work, or another kind of writing"),
    column(
        "rule", pa.string(), "the words by which the rules found the request; null for tasks without rules", null=True
    ),
    column("checked", pa.string(), "the model's verdict on the request: yes; null where it was not asked", null=True),
    column("checked_kind", pa.string(), "the kind of writing that the model sees", null=True),
    column("system", pa.string(), "weak, strong, vanilla, cot, chosen, rejected or reordered"),
    column("request", pa.string(), "what the writer was asked; null for related work", null=True),
    column("title", pa.string(), "hard: title of the paper that the paragraph is for", null=True),
    column("abstract", pa.string(), "hard: abstract of that paper", null=True),
    column("cited", pa.list_(CITED), "hard: the papers to write about"),
    column("draft", pa.string(), "the text"),
    column("reference", pa.string(), "the text that the draft is compared with; null for free", null=True),
    column("distance", pa.int32(), "number of edits; null where the editor's reply could not be used", null=True),
    column("weighted", pa.float64(), "sum of the weights of their intentions", null=True),
    column("not_placed", pa.int32(), "edits whose snippet is not in the draft", null=True),
    column("not_applied", pa.int32(), "edits that were not applied, those not placed included", null=True),
    column("edits", pa.list_(PLACED), "in the editor's order; empty where distance is null"),
    column("revised", pa.string(), "the draft with the edits applied", null=True),
    column("reproduces", pa.string(), "whether the revised draft is the reference: exactly, words, no", null=True),
    *NUMBERS,
    column("signature", pa.string(), "what the distance depends on: editor, prompt, settings, version", null=True),
    column("rouge1", pa.float64(), "ROUGE-1 F, 0 to 100; words as rouge_score's in Latin script", null=True),
    column("rouge2", pa.float64(), "ROUGE-2 F measure, 0 to 100", null=True),
    column("rougeL", pa.float64(), "ROUGE-L F measure, 0 to 100", null=True),
    column("bertscore", pa.float64(), "BERTScore F1, 0 to 100", null=True),
    column("bertscore_left_out", pa.string(), "why BERTScore was not computed", null=True),
    column("gpt_score", pa.float64(), "rating by a model, 0 to 100", null=True),
    column("source_score", pa.float64(), "free: score of the draft by the source's judge", null=True),
    column("experts_better", pa.int32(), "experts who called this draft the better one; null: no study", null=True),
    column("experts", pa.int32(), "experts who compared it", null=True),
    column("licence", pa.string(), "licence of the source, where known", null=True),
    column("url", pa.string(), "permalink of the record, or address of its data set", null=True),
    column("source_id", pa.string(), "id of the record it was made from"),
    *FROM_SUBMISSION,
    column("writer", pa.string(), "writer named by the source; null for drafts by our models", null=True),
    column(
        "reference_by", pa.string(), "writer of the reference: human, or the model that the source names", null=True
    ),
    column("model", pa.string(), "model that wrote the draft", null=True),
    column("response", pa.string(), "key of that model's response", null=True),
    column("editor", pa.string(), "model that listed the edits", null=True),
    column("editor_response", pa.string(), "key of that model's response", null=True),
    column("rater", pa.string(), "model that rated the draft (gpt_score)", null=True),
    column("split", pa.string(), "the task"),
    key="draft_id",
    cut="case_id",
)

PUBLISHED_EDITS = table(
    "published_edits",
    column("edit_id", pa.string(), "<draft_id>#<position>"),
    column("draft_id", pa.string(), "draft that the edit is for"),
    column("distance_id", pa.string(), "parent: distances.distance_id"),
    column("case_id", pa.string(), "case of the draft"),
    column("task", pa.string(), "easy, hard, free or structure"),
    column("system", pa.string(), "system that wrote the draft"),
    column("position", pa.int32(), "position in the editor's list, from 0"),
    *PLACED,
    column("editor", pa.string(), "model that listed the edits", null=True),
    column("editor_response", pa.string(), "key of that model's response", null=True),
    column("split", pa.string(), "the task"),
    key="edit_id",
    cut="case_id",
)

ORIGINS = table(
    "origins",
    column("origin_id", pa.string(), "hash of case_id and the record's id"),
    column("case_id", pa.string(), "parent: cases.case_id"),
    column("kind", pa.string(), "role of the record: request, paragraph, cited (a cited paper) or structure"),
    column("record_id", pa.string(), "id of the source's record"),
    column("title", pa.string(), "title of a paper; null for others", null=True),
    column("authors", pa.list_(pa.string()), "authors of a paper whose licence requires naming them; else empty"),
    column("url", pa.string(), "permalink of the record, or address of its data set", null=True),
    *FROM_SUBMISSION,
    column("revision", pa.string(), "commit of the data set, where known", null=True),
    column("licence", pa.string(), "licence of the record, where known", null=True),
    column("retrieved_at", MOMENT, "when the source was fetched, where known", null=True),
    key="origin_id",
    cut="case_id",
)
