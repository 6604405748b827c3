"""The distance of each draft: the number of its edits (section 3), and what the paper leaves for later.

Beyond the paper: each edit is placed in the draft, those that can be are applied, and the edits are weighted by what
they are for ("each generated revision item is assigned equal weight": its limitations).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from longform.recipe import fingerprint
from schemas.replies import ProposedEdit
from schemas.revision_distance import DISTANCES
from tasks.revision_distance.categories import category
from tasks.revision_distance.placing import Placement, apply, place
from tasks.stage import Row, Rows, Run, stage

WEIGHTS = {"fluency": 0.5, "style": 0.5, "clarity": 1.0, "coherence": 1.0, "meaning": 1.0, "other": 1.0}
OF_REFERENCES = ("hard", "structure")

Reproduces = Literal["exactly", "words", "no"]


@dataclass(frozen=True, slots=True)
class Measured:
    """`distance` is the number of edits, placed or not; `not_applied` counts those that are not placed as well."""

    distance: int
    weighted: float
    not_placed: int
    not_applied: int
    edits: list[Placement]
    revised: str
    reproduces: Reproduces | None


@stage(DISTANCES, revision=1)
def place_edits(run: Run, edits: Rows, drafts: Rows, cases: Rows, *, weights: dict[str, float]) -> Iterator[Row]:
    """The distance of each draft that has edits, with their places. `weights` by intention, others as in WEIGHTS."""
    references = {case["case_id"]: case["reference"] for case in cases}
    of = {draft["draft_id"]: draft for draft in drafts}
    for row in edits:
        draft = of[row["draft_id"]]
        found = measure(draft["text"], references[draft["case_id"]], row["edits"], weights)
        yield _row(row, draft, found, weights)


def measure(
    draft: str,
    reference: str | None,
    edits: Iterable[ProposedEdit | Mapping[str, Any]],
    weights: Mapping[str, float],
) -> Measured:
    placements = place(draft, edits)
    revised = apply(draft, placements)
    return Measured(
        distance=len(placements),
        weighted=float(sum(weight(each.edit, weights) for each in placements)),
        not_placed=sum(each.placed == "not" for each in placements),
        not_applied=sum(not each.applied for each in placements),
        edits=placements,
        revised=revised,
        reproduces=None if reference is None else reproduces(revised, reference),
    )


def weight(edit: ProposedEdit, weights: Mapping[str, float]) -> float:
    intention = edit.revision_intention
    return weights.get(intention, WEIGHTS[intention])


def reproduces(revised: str, reference: str) -> Reproduces:
    """Whether a text is the reference; `words`: but for white space."""
    if revised.strip() == reference.strip():
        return "exactly"
    return "words" if revised.split() == reference.split() else "no"


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
