"""Table schemas of the validation of pair types: pairs that people and a judge compare, what they say, what follows."""

import pyarrow as pa

from schemas import column, table
from schemas.axioms import PAIRS

VALIDATION = table(
    "validation",
    column("validation_id", pa.string(), "that of the pair, with v in place of p"),
    *(field for field in PAIRS if field.name not in ("split", "critic_margin", "preferred_score", "rejected_score")),
    column("pair_split", pa.string(), "train or test: the side of the pair's question"),
    column("split", pa.string(), "always validation"),
    key="validation_id",
    cut="question_id",
    parents={"pair_id": []},
)

JUDGEMENTS = table(
    "judgements",
    column("judgement_id", pa.string(), "hash of who, pair, annotator and what was shown first"),
    column("who", pa.string(), "people or judge: a model"),
    column("pair_id", pa.string(), "validation.pair_id"),
    column("question_id", pa.string(), "of the pair"),
    column("pair_type", pa.string(), "of the pair"),
    column("axiom", pa.int8(), "of the pair"),
    *(PAIRS.field(f"{side}_{name}") for side in ("preferred", "rejected") for name in ("id", "source")),
    column("parent_ids", pa.list_(pa.string()), "posts that the two answers were written from"),
    column("annotator_id", pa.string(), "a number or a pseudonym; of a judge the endpoint"),
    column("shown_first", pa.string(), "preferred or rejected: the answer that was shown as A"),
    column("better", pa.string(), "preferred or rejected: the better answer; there is no tie"),
    column("strength", pa.string(), "slightly, moderately or strongly"),
    column("points", pa.int8(), "3 (the preferred answer is strongly better) to -3 (the other one is), never 0"),
    column("preferred_score", pa.float64(), "1 to 10; a judge's 1 to 100 by 10", null=True),
    column("rejected_score", pa.float64(), "1 to 10; a judge's 1 to 100 by 10", null=True),
    column("preferred_flaws", pa.list_(pa.string()), "flaws of the preferred answer"),
    column("rejected_flaws", pa.list_(pa.string()), "flaws of the other answer"),
    column("seconds", pa.float64(), "time taken, where noted", null=True),
    column("cut", pa.list_(pa.string()), "ids of the texts of which the judge's prompt held only the beginning"),
    column("response", pa.string(), "key of the judge's response", null=True),
    column("prompt", pa.string(), "name of the prompt file; of a judge only", null=True),
    column("prompt_hash", pa.string(), "hash of the prompt file; of a judge only", null=True),
    column("endpoint", pa.string(), "name of the endpoint; of a judge only", null=True),
    column("model", pa.string(), "model that judged, as it named itself; of a judge only", null=True),
    key="judgement_id",
    cut="question_id",
    parents={"pair_id": [], "question_id": []},
)

DECISIONS = table(
    "decisions",
    column("pair_type", pa.string(), "preferred source > rejected source"),
    column("axiom", pa.int8(), "of its pairs"),
    column("trained", pa.int64(), "pairs of the split train"),
    column("evidence", pa.string(), "people, judge, or unvalidated"),
    column("judged", pa.int64(), "pairs that were judged; this and what follows is of the evidence"),
    column("preferred", pa.int64(), "pairs of which the majority prefers the preferred answer"),
    column("rejected", pa.int64(), "pairs of which it prefers the other one"),
    column("undecided", pa.int64(), "pairs without a majority"),
    column("least_raters", pa.int64(), "fewest judgements of a pair"),
    column("most_raters", pa.int64(), "most judgements of a pair"),
    column("rate", pa.float64(), "preferred / (preferred + rejected); null without a decided pair", null=True),
    column("low", pa.float64(), "of its 95 % interval (Wilson)", null=True),
    column("high", pa.float64(), "of its 95 % interval (Wilson)", null=True),
    column("p_value", pa.float64(), "of a rate of one half, two-sided binomial test", null=True),
    column("left_out", pa.bool_(), "its pairs leave the split train"),
    key="pair_type",
    parents={"pair_id": []},
)
