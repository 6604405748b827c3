"""Margins from a critic's scores: the scores of both answers beside each pair, and the rows for trainers whose margin
is their difference.

The margin is the difference of the two scores by SCALE, so from critic_min_difference / 100 to 0.99: of the size of the
margins that it stands beside (0.25 for generated pairs; log10 of the ratio of votes, 0.3 for twice the votes), so that
a margin loss is not dominated by either, and linear in the scores. The paper prints no scale.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from longform.engine.stage import AtMost, Rejected, Rows, StageContext, stage
from schemas.axioms import PAIRS, PREFERENCE
from tasks.axioms.judging.critic import SIDES

SCALE = 100.0
NOT_SCORED = "the critic did not score both answers"
TOO_NEAR = "the critic's scores are too near to each other"
DISAGREES = "the critic prefers the rejected answer"


@stage(PAIRS, revision=1, at_most=AtMost())
def score_pairs(
    context: StageContext, pairs: Rows, critiques: Rows, *, min_difference: int
) -> Iterator[pa.RecordBatch]:
    """All pairs, unchanged but for the critic's scores of both answers, where it scored both, and the margin that comes
    from them, where the preferred answer has at least `min_difference` points more.

    `critiques`: those of the pairs' questions. Texts, order and all other columns stay, so that every margin can be
    computed again from the row.
    """
    scores = {
        (row["question_id"], row["answer_id"]): float(row["score"])
        for row in critiques.as_dicts("question_id", "answer_id", "score")
    }
    for batch in pairs.batches():
        yield _scored(batch, scores, min_difference)


def _scored(batch: pa.RecordBatch, scores: dict[tuple[str, str], float], min_difference: int) -> pa.RecordBatch:
    """The batch with the columns by the critic."""
    questions, *ids = (batch.column(name).to_pylist() for name in ("question_id", *(f"{side}_id" for side in SIDES)))
    found: list[tuple[float | None, float | None, float | None]] = []
    for question, preferred, rejected in zip(questions, *ids, strict=True):
        first, second = scores.get((question, preferred)), scores.get((question, rejected))
        if first is None or second is None:
            found.append((None, None, None))
        else:
            margin = (first - second) / SCALE if first - second >= min_difference else None
            found.append((first, second, margin))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for place, name in enumerate(("preferred_score", "rejected_score", "critic_margin")):
        columns[name] = pa.array([each[place] for each in found], pa.float64())
    return pa.RecordBatch.from_arrays([columns[name] for name in PAIRS.names], schema=PAIRS)


@stage(PREFERENCE, revision=1, at_most=AtMost())
def take_critic_margins(context: StageContext, chats: Rows) -> Iterator[pa.RecordBatch | Rejected]:
    """The rows that have a margin by the critic, with it in `margin`; `draw` and `weight` are those among the rows that
    are left of their question. A Rejected for each other row: the critic did not score both answers, it gave the
    rejected one more points, or not as many less as a margin needs.

    `chats`: rows for trainers; a part holds a question whole.
    """
    kept = chats.table(["pair_id", "question_id", "draw", "critic_margin"])
    kept = kept.filter(pc.is_valid(kept["critic_margin"]))
    draws, weights = _among_those(kept)
    for batch in chats.batches():
        has_margin = pc.is_valid(batch.column("critic_margin"))
        yield from map(_rejected, batch.filter(pc.invert(has_margin)).select(OF_REJECTED).to_pylist())
        rows = batch.filter(has_margin)
        if rows.num_rows:
            ids = rows.column("pair_id").to_pylist()
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            columns["margin"] = rows.column("critic_margin")
            columns["draw"] = pa.array([draws[key] for key in ids], pa.int32())
            columns["weight"] = pa.array([weights[key] for key in ids], pa.float64())
            yield pa.RecordBatch.from_arrays([columns[name] for name in PREFERENCE.names], schema=PREFERENCE)


OF_REJECTED = ["pair_id", "chosen_score", "rejected_score"]


def _rejected(row: dict[str, object]) -> Rejected:
    """The Rejected of a row without a margin by the critic."""
    key, chosen, rejected = (row[name] for name in OF_REJECTED)
    if not isinstance(chosen, float) or not isinstance(rejected, float):
        return Rejected(str(key), "filtered", NOT_SCORED)
    reason = DISAGREES if chosen < rejected else TOO_NEAR
    return Rejected(str(key), "filtered", reason, detail=f"{chosen:.0f} and {rejected:.0f}")


def _among_those(rows: pa.Table) -> tuple[dict[str, int], dict[str, float]]:
    """(pair id -> draw, pair id -> weight) of these rows alone, whose `draw` is that among more of them."""
    questions: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for key, question, draw in zip(*(rows[name].to_pylist() for name in rows.column_names[:3]), strict=True):
        questions[question].append((draw, key))
    draws: dict[str, int] = {}
    weights: dict[str, float] = {}
    for own in questions.values():
        for place, (_, key) in enumerate(sorted(own), start=1):
            draws[key], weights[key] = place, 1 / len(own)
    return draws, weights
