"""The stage that computes the distance of each draft and places its edits."""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.stage import AtMost, Row, Rows, StageContext, stage
from schemas.revision_distance import DISTANCES
from tasks.revision_distance.drafts.categories import category
from tasks.revision_distance.drafts.measure import Measured, measure, weight
from tasks.revision_distance.drafts.placing import Placement

OF_REFERENCES = ("hard", "structure")


@stage(DISTANCES, revision=1, at_most=AtMost(rows=lambda of: of["edits"]))
def place_edits(
    context: StageContext, edits: Rows, drafts: Rows, cases: Rows, *, weights: dict[str, float]
) -> Iterator[Row]:
    """The distance of each draft for which edits were listed, with each edit's place in it.

    `weights`: intention -> weight, overriding WEIGHTS.
    """
    references = {case["case_id"]: case["reference"] for case in cases}
    of = {draft["draft_id"]: draft for draft in drafts}
    for row in edits:
        draft = of[row["draft_id"]]
        found = measure(draft["text"], references[draft["case_id"]], row["edits"], weights)
        yield _row(row, draft, found, weights)


def _row(row: Row, draft: Row, found: Measured, weights: dict[str, float]) -> Row:
    return {
        "distance_id": f"x_{fingerprint(row['draft_id'])}",
        "edits_id": row["edits_id"],
        "draft_id": row["draft_id"],
        "case_id": draft["case_id"],
        "task": draft["task"],
        "system": draft["system"],
        "distance": found.distance,
        "weighted": found.weighted,
        "not_placed": found.not_placed,
        "not_applied": found.not_applied,
        "edits": [_placed(each, draft["task"], weights) for each in found.edits],
        "revised": found.revised,
        "reproduces": found.reproduces,
    }


def _placed(placement: Placement, task: str, weights: dict[str, float]) -> Row:
    return {
        **placement.edit.model_dump(),
        "category": category(placement.edit) if task in OF_REFERENCES else None,
        "weight": weight(placement.edit, weights),
        "placed": placement.placed,
        "start": placement.start,
        "end": placement.end,
        "at": placement.at,
        "applied": placement.applied,
        "why_not": placement.why_not,
    }
