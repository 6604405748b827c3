"""Table schemas of an evaluation of scorers on an axioms version: what is scored, and the scores."""

import pyarrow as pa

from schemas import column, table

SCORED_TEXT = pa.struct(
    [
        column("answer_id", pa.string(), "id of the answer in the version; preferred and rejected of comparisons"),
        column("text", pa.string(), "the answer"),
    ]
)

GROUPS = table(
    "groups",
    column("group_id", pa.string(), "<set> <question id>, and the evidence id where there is evidence"),
    column("set", pa.string(), "stackexchange, eli5, msmarco, pairs, webgpt or people"),
    column("question_id", pa.string(), "id of the question; of a comparison its own"),
    column("question", pa.string(), "the question"),
    column("evidence_id", pa.string(), "hash of the evidence; empty without evidence"),
    column("evidence", pa.list_(pa.string()), "passages shown with the question; empty: the answers alone are scored"),
    column("answers", pa.list_(SCORED_TEXT), "answers to score, by id, each once"),
    key="group_id",
    cut="question_id",
    parents={"question_id": []},
)

SCORE = pa.struct(
    [
        column("answer_id", pa.string(), "the answer"),
        column("score", pa.float64(), "the higher the better; null where there is none", null=True),
        column("reason", pa.string(), "why there is none", null=True),
    ]
)

SCORES = table(
    "scores",
    column("group_id", pa.string(), "parent: groups.group_id"),
    column("set", pa.string(), "as in groups"),
    column("question_id", pa.string(), "as in groups"),
    column("evidence_id", pa.string(), "as in groups"),
    column("scores", pa.list_(SCORE), "of each answer of the group, in its order"),
    key="group_id",
    cut="question_id",
    parents={"question_id": []},
)

WORD_COUNT = pa.struct(
    [
        column("word", pa.string(), "a word of a question"),
        column("texts", pa.int64(), "answers that have it"),
    ]
)

WORD_COUNTS = table(
    "word_counts",
    column("set", pa.string(), "as in groups"),
    column("texts", pa.int64(), "different answers of the set"),
    column("words", pa.int64(), "their words, together"),
    column("counts", pa.list_(WORD_COUNT), "of the words of the set's questions, by word"),
    key="set",
)

SCORES_FILE = table(
    "scores",
    column("set", pa.string(), "stackexchange, eli5, msmarco, pairs, webgpt or people"),
    column("question_id", pa.string(), "id of the question, or of the comparison"),
    column("answer_id", pa.string(), "id of the answer; preferred and rejected of comparisons"),
    column("evidence", pa.string(), "hash of the evidence that the answer was read with; empty without"),
    column("score", pa.float64(), "the higher the better"),
    column("scorer", pa.string(), "as the command names it"),
    key="answer_id",
)

METRICS_FILE = table(
    "metrics",
    column("set", pa.string(), "as in scores.parquet"),
    column("subset", pa.string(), "all, a site, an axiom, or a type of pair"),
    column("metric", pa.string(), "MRR, NDCG, accuracy, …: shares in percent, changes of scores in the scorer's unit"),
    column("value", pa.float64(), "null if all was left out", null=True),
    column("low", pa.float64(), "of its 95 % interval; null for fewer than two questions", null=True),
    column("high", pa.float64(), "of its 95 % interval; null for fewer than two questions", null=True),
    column("n", pa.int64(), "questions or pairs"),
    column("scorer", pa.string(), "as in scores.parquet"),
    column("against", pa.string(), "the scorer whose value is subtracted; null for a value itself", null=True),
    column("p", pa.float64(), "that it is 50 % or 0, by a t-test, where one is made", null=True),
    column("left_out", pa.int64(), "questions or pairs without a score, or that tell nothing"),
    key="metric",
)
