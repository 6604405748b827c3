"""Table schemas of the axioms dataset (Axiomatic Preference Modeling). Each table has the ids of the rows it derives
from.
"""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

NEGATIVE = pa.struct(
    [
        column("answer_id", pa.string(), "an answer to a related question"),
        column("question_id", pa.string(), "the related question"),
        column("votes", pa.int32(), "votes of that answer, its weight in the draw"),
        column("similarity", pa.float32(), "cosine similarity of the two questions"),
    ]
)

RELATED = table(
    "related",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("neighbours", pa.list_(pa.string()), "related questions, nearest first; at most k"),
    column("similarities", pa.list_(pa.float32()), "similarity to each neighbour, below the paraphrase threshold"),
    column("negatives", pa.list_(NEGATIVE), "hard negatives in the order they were drawn"),
    key="question_id",
)

PASSAGE = pa.struct(
    [
        column("passage_id", pa.string(), "<answer id>#<position>"),
        column("answer_id", pa.string(), "the answer it was cut from"),
        column("question_id", pa.string(), "the thread it is from; never that of the question it was retrieved for"),
        column("title", pa.string(), "title of that thread"),
        column("text", pa.string(), "the passage"),
        column("score", pa.float32(), "BM25 score"),
    ]
)

PASSAGES = table(
    "passages",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("passages", pa.list_(PASSAGE), "best first; numbered from 1 in prompts and citations"),
    key="question_id",
)

GENERATED = (
    column("cut", pa.list_(pa.string()), "ids of the texts of which the prompt held only the beginning"),
    column("response", pa.string(), "key of the model's response"),
    column("prompt", pa.string(), "name of the prompt file"),
    column("prompt_hash", pa.string(), "hash of the prompt file"),
    column("endpoint", pa.string(), "name of the endpoint"),
    column("model", pa.string(), "model that answered, as it named itself"),
)

VERDICTS = table(
    "verdicts",
    column("verdict_id", pa.string(), "<question_id> <answer_id>"),
    column("question_id", pa.string(), "the question that was judged"),
    column("answer_id", pa.string(), "a hard negative of it: an answer to the related question"),
    column("related_question_id", pa.string(), "the related question"),
    column("answers", pa.bool_(), "whether the answer answers the question after all"),
    column("score", pa.float64(), "of a cross-encoder, in [0, 1]; null for an endpoint", null=True),
    *(field.with_nullable(field.name not in ("cut", "model")) for field in GENERATED),
    key="verdict_id",
    cut="question_id",
    parents={"question_id": []},
)

ANSWERS = table(
    "answers",
    column("answer_id", pa.string(), "hash of question, kind and response"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("kind", pa.string(), "open_book, closed_book or irrelevant_grounding"),
    column("text", pa.string(), "the answer, without its end mark"),
    column("cites", pa.list_(pa.int32()), "numbers of the passages it cites, from 1, in order, each once"),
    *GENERATED,
    key="answer_id",
    cut="question_id",
)

CORRUPTED = table(
    "corrupted",
    column("corrupted_id", pa.string(), "hash of answer_id and response"),
    column("answer_id", pa.string(), "parent: answers.answer_id, the open-book answer"),
    column("question_id", pa.string(), "question of that answer"),
    column("claims", pa.list_(pa.string()), "claims the model found in the answer"),
    column("corrupted_claims", pa.list_(pa.string()), "the claims that the model changed, after the change"),
    column("text", pa.string(), "the answer rewritten with the changed claims"),
    *GENERATED,
    key="corrupted_id",
    cut="question_id",
)

COMBINED = table(
    "combined",
    column("combined_id", pa.string(), "hash of question and response"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("first_id", pa.string(), "the answer with most votes"),
    column("second_id", pa.string(), "the answer with the next most votes, by another author"),
    column("text", pa.string(), "the combined answer"),
    column("utilization", pa.float64(), "share of the n-grams of each answer that it uses, summed: in [0, 2]"),
    *GENERATED,
    key="combined_id",
    cut="question_id",
)

SIGNATURES = table(
    "signatures",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("created", MOMENT, "when the question was asked, UTC"),
    column("head", pa.string(), "title and the beginning of the text, by which similar questions are found"),
    column("shingles", pa.list_(pa.uint64()), "hashes of the word 3-grams of title and text, sorted, each once"),
    key="question_id",
)

PARAPHRASES = table(
    "paraphrases",
    column("paraphrase_id", pa.string(), "<question_id> <other_id>"),
    column("question_id", pa.string(), "a question"),
    column("other_id", pa.string(), "a question of the same site"),
    column("similarity", pa.float32(), "cosine similarity of the two, at or above the paraphrase bound"),
    key="paraphrase_id",
    cut="question_id",
    parents={"question_id": []},
)

SAME = table(
    "same",
    column("same_id", pa.string(), "<question_id> <same_as>"),
    column("question_id", pa.string(), "the later of two questions that count as the same"),
    column("same_as", pa.string(), "the earlier one: of a site named earlier, else asked earlier"),
    column("reasons", pa.list_(pa.string()), "declared (by the site), near-duplicate, paraphrase"),
    column("similarity", pa.float32(), "cosine similarity of paraphrases", null=True),
    key="same_id",
    cut="question_id",
    parents={"question_id": []},
)

SPLITS = table(
    "splits",
    column("question_id", pa.string(), "parent: signatures.question_id"),
    column("split", pa.string(), "train, test or overlap"),
    column("duplicate_of", pa.list_(pa.string()), "earlier questions that count as the same, whose split it shares"),
    column("group", pa.string(), "the first of all questions that it is the same as, directly or by others"),
    key="question_id",
)

TEXTS = table(
    "texts",
    column("text_id", pa.string(), "<question id> or <answer id> of a whole text, <answer id>#<position> of a passage"),
    column("question_id", pa.string(), "the question of the thread"),
    column("split", pa.string(), "train, test or overlap"),
    column("created", MOMENT, "when the post was written, UTC; null for generated answers", null=True),
    column("hash", pa.uint64(), "of its words, by which equal texts are found"),
    key="text_id",
    cut="question_id",
    parents={"question_id": []},
    level=1,
)

COPIES = table(
    "copies",
    column("text_id", pa.string(), "a text that stands on the other side of the split first"),
    column("question_id", pa.string(), "the question of its thread"),
    column("copy_of", pa.string(), "the text on the other side"),
    key="text_id",
    cut="question_id",
    parents={"text_id": []},
)

OF_CANDIDATE = pa.struct(
    [
        column("answer_id", pa.string(), "<site>/<upstream id>"),
        column("text", pa.string(), "Markdown"),
        column("votes", pa.int32(), "upvotes minus downvotes"),
        column("created", MOMENT, "UTC"),
        column("author_id", pa.string(), "upstream user id", null=True),
        column("author", pa.string(), "display name, where known", null=True),
        column("licence", pa.string(), "of the answer"),
        column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced"),
        column("copied", pa.list_(pa.int32()), "passages whose text stands on the other side, by position"),
    ]
)

CANDIDATES = table(
    "candidates",
    column("candidate_id", pa.string(), "id of a question whose answers may be shown with other questions"),
    column("split", pa.string(), "the side on which they may"),
    column("group", pa.string(), "the first question that it is the same as, itself if there is none"),
    column("title", pa.string(), "title, plain text"),
    column("head", pa.string(), "title and the beginning of the text, by which similar questions are found"),
    column("created", MOMENT, "when the question was asked, UTC"),
    column("answers", pa.list_(OF_CANDIDATE), "those whose text does not stand on the other side"),
    key="candidate_id",
    parents={"question_id": []},
    level=1,
)

PAIR_IDS = table(
    "pair_ids",
    column("pair_id", pa.string(), "hash of pair type, question_id, preferred_id and rejected_id"),
    column("question_id", pa.string(), "parent: threads.question_id, or a query of MS MARCO"),
    column("preferred_id", pa.string(), "<site>/<id> of a human answer, else the id of a generated one"),
    column("rejected_id", pa.string(), "<site>/<id> of a human answer, else the id of a generated one"),
    column("axiom", pa.int8(), "number of the axiom, 0 to 5; -1: none, of pairs for validation alone"),
    column("pair_type", pa.string(), "preferred_source > rejected_source, with the rule that paired them"),
    column(
        "margin",
        pa.float64(),
        "log10 of the ratio of votes (votes below 1 count as 1) for human answers, else 0.25",
    ),
    column("preferred_source", pa.string(), "human, open_book, closed_book, combined, passage"),
    column("rejected_source", pa.string(), "human, closed_book, corrupted, irrelevant_grounding, passage"),
    column("preferred_votes", pa.int32(), "raw votes; human answers only", null=True),
    column("rejected_votes", pa.int32(), "raw votes; human answers only", null=True),
    column("related_question_id", pa.string(), "axiom 1: the question that the rejected answer answers", null=True),
    column("related_similarity", pa.float32(), "axiom 1: cosine similarity of the two questions", null=True),
    key="pair_id",
    cut="question_id",
)


def _side(name: str) -> tuple[pa.Field, ...]:
    """The columns of one answer of a pair; `name`, "preferred" or "rejected", begins the names of the columns."""
    return (
        column(f"{name}_id", pa.string(), "<site>/<id> of a human answer or a passage, else the id of a generated one"),
        column(name, pa.string(), "text, Markdown"),
        column(
            f"{name}_source",
            pa.string(),
            "human, open_book, closed_book, corrupted, combined, irrelevant_grounding or passage",
        ),
        column(f"{name}_votes", pa.int32(), "raw votes; human answers only", null=True),
        column(f"{name}_url", pa.string(), "permalink; human answers only", null=True),
        column(f"{name}_created", MOMENT, "when it was written, UTC; human answers only", null=True),
        column(f"{name}_author", pa.string(), "display name; human answers only, where known", null=True),
        column(f"{name}_author_url", pa.string(), "author's profile; human answers only, where known", null=True),
        column(f"{name}_licence", pa.string(), "licence of the answer, or of the human texts it was generated from"),
        column(
            f"{name}_parent_ids",
            pa.list_(pa.string()),
            "posts besides the question that a generated answer was written from: evidence, combined answers",
        ),
        column(
            f"{name}_scrubbed",
            pa.int32(),
            "mail addresses, phone numbers and handles replaced in a human answer or passage; null for generated ones",
            null=True,
        ),
        column(
            f"{name}_cut",
            pa.list_(pa.string()),
            "posts, passages and answers of which the prompt of a generated answer held only the beginning",
        ),
        column(f"{name}_response", pa.string(), "key of the model's response; generated only", null=True),
        column(f"{name}_prompt", pa.string(), "prompt name@hash; generated only", null=True),
        column(f"{name}_endpoint", pa.string(), "name of the endpoint; generated only", null=True),
        column(f"{name}_model", pa.string(), "model that wrote it, as it named itself; generated only", null=True),
    )


PAIRS = table(
    "pairs",
    column("pair_id", pa.string(), "hash of pair type, question_id, preferred_id and rejected_id"),
    column("question_id", pa.string(), "<site>/<upstream id>; msmarco/q<qid>"),
    column("question", pa.string(), "title, blank line, body as Markdown; a query of MS MARCO"),
    column(
        "evidence",
        pa.list_(pa.string()),
        "passages in the prompt of the preferred answer, in their order; may be empty",
    ),
    column("evidence_ids", pa.list_(pa.string()), "ids of these passages, <answer id>#<position> or msmarco/p<pid>"),
    *_side("preferred"),
    *_side("rejected"),
    column("related_question_id", pa.string(), "axiom 1: the question that the rejected answer answers", null=True),
    column("related_similarity", pa.float32(), "axiom 1: cosine similarity of the two questions", null=True),
    column(
        "utilization",
        pa.float64(),
        "axiom 5: shares of the n-grams of the two answers (preferred_parent_ids) that the combined one uses, summed",
        null=True,
    ),
    column(
        "axiom",
        pa.int8(),
        "0 usefulness, 1 relevance, 2 groundedness, 3 truthfulness, 4 relevant grounding, 5 thoroughness",
    ),
    column("pair_type", pa.string(), "preferred source > rejected source"),
    column(
        "margin",
        pa.float64(),
        "log10 of the ratio of votes (votes below 1 count as 1) for human answers, else 0.25",
    ),
    *(
        column(
            f"{side}_score", pa.float64(), "1 to 100, by the critic; null if it did not score both answers", null=True
        )
        for side in ("preferred", "rejected")
    ),
    column(
        "critic_margin",
        pa.float64(),
        "(preferred_score - rejected_score) / 100; null where that is too small or below 0, or a score is null",
        null=True,
    ),
    column("split", pa.string(), "train, test or overlap"),
    column("source", pa.string(), "stackexchange or msmarco"),
    column("site", pa.string(), "current host name of the site; msmarco"),
    column("tags", pa.list_(pa.string()), "tags of the question"),
    column("question_url", pa.string(), "permalink of the question; null for queries of MS MARCO", null=True),
    column("question_created", MOMENT, "when it was asked, UTC; null for queries of MS MARCO", null=True),
    column("question_author", pa.string(), "display name of the asker, where known", null=True),
    column("question_author_url", pa.string(), "address of the asker's profile, where known", null=True),
    column("question_licence", pa.string(), "licence of the question, e.g. CC BY-SA 4.0"),
    column("question_scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in title and body"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where known", null=True),
    key="pair_id",
    cut="question_id",
)

ATTRIBUTION = table(
    "attribution",
    column("post_id", pa.string(), "<site>/<upstream id>; msmarco/q<qid> or msmarco/p<pid>"),
    column("question_id", pa.string(), "parent: threads.question_id; of a passage the first query that shows it"),
    column("kind", pa.string(), "question or answer; query or passage"),
    column("site", pa.string(), "current host name of the site; msmarco"),
    column("title", pa.string(), "title of the question"),
    column("url", pa.string(), "permalink; null for MS MARCO, which does not say of which page", null=True),
    column("author", pa.string(), "display name, where the source row carries one", null=True),
    column("author_url", pa.string(), "address of the author's profile; null for deleted users", null=True),
    column("licence", pa.string(), "e.g. CC BY-SA 4.0"),
    column("created", MOMENT, "when the post was written, UTC; null for MS MARCO", null=True),
    column("retrieved_at", MOMENT, "when the dump was fetched, where known", null=True),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in title and text"),
    key="post_id",
    cut="question_id",
    parents={"question_id": []},
)

MESSAGE = pa.struct(
    [
        column("role", pa.string(), "user or assistant"),
        column("content", pa.string(), "text, Markdown"),
    ]
)


def _preference(name: str, text: pa.DataType, form: tuple[str, str]) -> pa.Schema:
    """The schema of the pairs as trainers read them: `text` is the type of prompt, chosen and rejected, `form` what a
    prompt is and what an answer is. The provenance columns of PAIRS follow; those of the preferred answer begin with
    `chosen`.
    """
    shown = {"question", "evidence", "preferred", "rejected"}
    own = (
        column("pair_id", pa.string(), "of the pair, in the config pairs"),
        column("question_id", pa.string(), "<site>/<upstream id>"),
        column("prompt", text, f"{form[0]}: the question; where the pair has evidence its passages follow, numbered"),
        column("chosen", text, f"{form[1]}: the preferred answer"),
        column("rejected", text, f"{form[1]}: the other answer"),
        PAIRS.field("margin"),
        PAIRS.field("axiom"),
        PAIRS.field("pair_type"),
        PAIRS.field("split"),
        column(
            "weight",
            pa.float64(),
            "1 / number of rows of its question, which sum to 1",
        ),
        column("draw", pa.int32(), "place, from 1, in the order in which the pairs of its question are drawn"),
        column("chosen_tokens", pa.int32(), "estimated tokens of prompt and preferred answer together"),
        column("rejected_tokens", pa.int32(), "estimated tokens of prompt and other answer together"),
    )
    carried = (
        field.with_name(field.name.replace("preferred_", "chosen_"))
        for field in PAIRS
        if field.name not in shown | {field.name for field in own}
    )
    return table(name, *own, *carried, key="pair_id", cut="question_id")


PREFERENCE = _preference("preference", pa.list_(MESSAGE), ("a user's message", "an assistant's message"))
PREFERENCE_TEXT = _preference("preference_text", pa.string(), ("text that ends with an empty line", "text"))
