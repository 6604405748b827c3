"""The distance of one text, without a build.

from longform.llm.models import Models
from longform.llm.offline import ENDPOINT
from tasks.revision_distance import distance

with Models(home / "llm" / "responses.sqlite") as models:
    found = distance(draft, reference, models.client(ENDPOINT))
print(found.distance, [edit.edit.revision_description for edit in found.edits])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.errors import LongformError, UsageError
from longform.llm.prompts import Prompt, load_prompt
from longform.llm.types import Failure
from tasks.revision_distance.distances import WEIGHTS, Measured, Reproduces, measure
from tasks.revision_distance.editing import edit_request, edits_of
from tasks.revision_distance.placing import Placement

if TYPE_CHECKING:
    from longform.llm.client import Client

PROMPTS = Path(__file__).parents[2] / "prompts"
SAID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Revision:
    """`edits` in the editor's order, each with its place; `model` listed them, in the stored `response`.

    The rest is explained in `Measured`.
    """

    distance: int
    weighted: float
    edits: list[Placement]
    revised: str
    reproduces: Reproduces | None
    not_placed: int
    not_applied: int
    model: str
    response: str


def distance(
    draft: str,
    reference: str | None,
    client: Client,
    *,
    request: str = "",
    weights: Mapping[str, float] | None = None,
    to_reference: Prompt | None = None,
    freely: Prompt | None = None,
) -> Revision:
    """How many edits bring a draft to its reference, or, without one, to what its reader has in mind.

    `request` is what the draft was to be; it is asked with where there is no reference. `weights` by intention; those
    that are not given are as in WEIGHTS. The prompts are the project's where none are given. Raises LongformError
    where the model's reply is no list of edits, and what the client raises.
    """
    chosen = _weights(weights or {})
    prompts = to_reference or _prompt("edit_to_reference"), freely or _prompt("edit_freely")
    asked = edit_request(draft, reference, request, client.endpoint, *prompts)
    _, answer = next(iter(client.ask([(None, asked)])))
    if isinstance(answer, Failure):
        raise LongformError(_unusable(answer, client.endpoint.name))
    found = measure(draft, reference, edits_of(answer), chosen)
    return Revision(**_values(found), model=answer.model, response=answer.key)


def _values(found: Measured) -> dict[str, Any]:
    return {each.name: getattr(found, each.name) for each in fields(found)}


def _weights(given: Mapping[str, float]) -> dict[str, float]:
    for name, value in given.items():
        if name not in WEIGHTS:
            raise UsageError(f"There is no intention {name} to weight: there are {', '.join(WEIGHTS)}.")
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"The weight of {name} is {value}: it must be a number from 0 on.")
    return {**WEIGHTS, **given}


@cache
def _prompt(name: str) -> Prompt:
    return load_prompt(f"revision_distance/{name}", PROMPTS)


def _unusable(failure: Failure, endpoint: str) -> str:
    said = " ".join(str(failure.detail.get("text") or "").split())
    shown = f' It said: "{said[:SAID_CHARACTERS]}".' if said else ""
    return (
        f"The reply of {endpoint} (response {failure.key[:12]}) is no list of edits: {failure.kind}, "
        f"{failure.message.rstrip('.')}.{shown} Use another model, or a shorter text."
    )
