"""Table schema of what a critic says of the answers of pairs, from which their margins come."""

import pyarrow as pa

from schemas import column, table
from schemas.axioms import GENERATED

OF_PAIR = pa.struct([column("pair_id", pa.string(), "a pair of the question")])

CRITIQUES = table(
    "critiques",
    column("critique_id", pa.string(), "<question_id> <answer_id>"),
    column("question_id", pa.string(), "the question that the answers were judged by"),
    column("answer_id", pa.string(), "<site>/<id> of a human answer, else the id of a generated one"),
    column("split", pa.string(), "train or test: that of its pairs"),
    column("score", pa.int32(), "1 to 100"),
    column("strengths", pa.list_(pa.string()), "what is good about the answer"),
    column("weaknesses", pa.list_(pa.string()), "what is bad about it"),
    column("missing", pa.list_(pa.string()), "what it leaves out"),
    column("explanation", pa.string(), "which of the answers that were shown are better, and why"),
    column("place", pa.int32(), "place of the answer among those that were shown, from 1; by the seed"),
    column("shown", pa.int32(), "answers that were shown together and scored in one call"),
    column("pairs", pa.list_(OF_PAIR), "pairs that have the answer, and whose other answer was shown, too"),
    column(
        "parent_ids", pa.list_(pa.string()), "posts besides the question whose words were shown, or stand behind it"
    ),
    column("licences", pa.list_(pa.string()), "of the question and the answers that were shown, each once"),
    *GENERATED,
    key="critique_id",
    cut="question_id",
    parents={"question_id": [], "pair_id": ["pairs.pair_id"]},
)
