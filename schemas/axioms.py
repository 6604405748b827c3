"""Tables of the axioms dataset (Axiomatic Preference Modeling). Columns carry their parents' ids."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

NEGATIVE = pa.struct(
    [
        column("answer_id", pa.string(), "an answer to a related question"),
        column("question_id", pa.string(), "the related question"),
        column("votes", pa.int32(), "votes of that answer: the weight of the draw"),
        column("similarity", pa.float32(), "of the two questions, dot product of unit vectors"),
    ]
)

RELATED = table(
    "related",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("neighbours", pa.list_(pa.string()), "related questions, nearest first; at most k"),
    column("similarities", pa.list_(pa.float32()), "to each neighbour, below the paraphrase threshold"),
    column("negatives", pa.list_(NEGATIVE), "hard negatives in the order they were drawn"),
    key="question_id",
)

PASSAGE = pa.struct(
    [
        column("passage_id", pa.string(), "<answer id>#<position>"),
        column("answer_id", pa.string(), "the answer it was cut from"),
        column("question_id", pa.string(), "the thread it is from; never the asking one"),
        column("title", pa.string(), "title of that thread"),
        column("text", pa.string(), "the passage"),
        column("score", pa.float32(), "BM25"),
    ]
)

PASSAGES = table(
    "passages",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("passages", pa.list_(PASSAGE), "best first; numbered from 1 in prompts and citations"),
    key="question_id",
)

GENERATED = (
    column("response", pa.string(), "key of the model's response"),
    column("prompt", pa.string(), "name of the prompt file"),
    column("prompt_hash", pa.string(), "of the prompt file"),
    column("endpoint", pa.string(), "name of the endpoint"),
    column("model", pa.string(), "model that answered, as it named itself"),
)

ANSWERS = table(
    "answers",
    column("answer_id", pa.string(), "hash of question, kind and response"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("kind", pa.string(), "open_book or closed_book"),
    column("text", pa.string(), "the answer, without its end mark"),
    column("cites", pa.list_(pa.int32()), "passage numbers it cites, 1-based, as written, each once"),
    *GENERATED,
    key="answer_id",
    cut="question_id",
)

CORRUPTED = table(
    "corrupted",
    column("corrupted_id", pa.string(), "hash of answer_id and response"),
    column("answer_id", pa.string(), "parent: answers.answer_id, the open-book answer"),
    column("question_id", pa.string(), "of that answer"),
    column("claims", pa.list_(pa.string()), "claims the model found in the answer"),
    column("corrupted_claims", pa.list_(pa.string()), "the claims it changed, as changed"),
    column("text", pa.string(), "the answer rewritten from them"),
    *GENERATED,
    key="corrupted_id",
    cut="question_id",
)

COMBINED = table(
    "combined",
    column("combined_id", pa.string(), "hash of question and response"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("first_id", pa.string(), "the answer with most votes"),
    column("second_id", pa.string(), "the next one"),
    column("text", pa.string(), "the combined answer"),
    column("utilization", pa.float64(), "share of each answer's n-grams it uses, summed: in [0, 2]"),
    *GENERATED,
    key="combined_id",
    cut="question_id",
)

SIGNATURES = table(
    "signatures",
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("created", MOMENT, "of the question"),
    column("shingles", pa.list_(pa.uint64()), "hashes of the word 3-grams of title and text, sorted, each once"),
    key="question_id",
)

SPLITS = table(
    "splits",
    column("question_id", pa.string(), "parent: signatures.question_id"),
    column("split", pa.string(), "train, test or overlap"),
    column("duplicate_of", pa.list_(pa.string()), "earlier near-duplicates, whose side it takes"),
    key="question_id",
)

PAIR_IDS = table(
    "pair_ids",
    column("pair_id", pa.string(), "hash of pair type, question_id, preferred_id and rejected_id"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("preferred_id", pa.string(), "<site>/<id> of a human answer, else the id of a generated one"),
    column("rejected_id", pa.string(), "likewise"),
    column("axiom", pa.int8(), "0 to 5"),
    column("pair_type", pa.string(), "preferred_source > rejected_source, with how they were chosen"),
    column("margin", pa.float64(), "log10 of the votes' ratio (votes below 1 count as 1), else 0.25"),
    column("preferred_source", pa.string(), "human, open_book, closed_book, combined"),
    column("rejected_source", pa.string(), "human, closed_book, corrupted"),
    column("preferred_votes", pa.int32(), "raw votes; human answers only", null=True),
    column("rejected_votes", pa.int32(), "raw votes; human answers only", null=True),
    key="pair_id",
    cut="question_id",
)


def _side(name: str) -> tuple[pa.Field, ...]:
    return (
        column(f"{name}_id", pa.string(), "<site>/<id> of a human answer, else the id of a generated one"),
        column(name, pa.string(), "text, Markdown"),
        column(f"{name}_source", pa.string(), "human, open_book, closed_book, corrupted or combined"),
        column(f"{name}_votes", pa.int32(), "raw votes; human answers only", null=True),
        column(f"{name}_url", pa.string(), "permalink; human answers only", null=True),
        column(f"{name}_author", pa.string(), "display name; human answers only, where known", null=True),
        column(f"{name}_author_url", pa.string(), "profile; human answers only, where known", null=True),
        column(f"{name}_licence", pa.string(), "of the human answer, or of the human texts it was made from"),
        column(
            f"{name}_parent_ids",
            pa.list_(pa.string()),
            "posts besides the question that a generated answer was made from: evidence, combined answers",
        ),
        column(f"{name}_scrubbed", pa.int32(), "marks put into a human answer for mails, phones, handles", null=True),
        column(f"{name}_response", pa.string(), "key of the model's response; generated only", null=True),
        column(f"{name}_prompt", pa.string(), "prompt name@hash; generated only", null=True),
        column(f"{name}_endpoint", pa.string(), "endpoint; generated only", null=True),
        column(f"{name}_model", pa.string(), "model that answered; generated only", null=True),
    )


PAIRS = table(
    "pairs",
    column("pair_id", pa.string(), "hash of pair type, question_id, preferred_id and rejected_id"),
    column("question_id", pa.string(), "<site>/<upstream id>"),
    column("question", pa.string(), "title, blank line, body as Markdown"),
    column(
        "evidence",
        pa.list_(pa.string()),
        "passages the preferred answer was given, in their order; may be empty",
    ),
    column("evidence_ids", pa.list_(pa.string()), "passage ids, <answer id>#<position>"),
    *_side("preferred"),
    *_side("rejected"),
    column("axiom", pa.int8(), "0 usefulness, 1 relevance, 2 groundedness, 3 truthfulness, 5 thoroughness"),
    column("pair_type", pa.string(), "preferred source > rejected source"),
    column("margin", pa.float64(), "log10 of the votes' ratio (votes below 1 count as 1), else 0.25"),
    column("split", pa.string(), "train, test or overlap"),
    column("source", pa.string(), "stackexchange"),
    column("site", pa.string(), "host of today"),
    column("tags", pa.list_(pa.string()), "of the question"),
    column("question_url", pa.string(), "permalink"),
    column("question_author", pa.string(), "display name, where known", null=True),
    column("question_author_url", pa.string(), "profile, where known", null=True),
    column("question_licence", pa.string(), "e.g. CC BY-SA 4.0"),
    column("question_scrubbed", pa.int32(), "marks put into title and body for mails, phones, handles"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where known", null=True),
    key="pair_id",
    cut="question_id",
)
