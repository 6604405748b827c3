"""The revision distance of a text: the number of edits a reader would still make (section 3).

Beyond the paper, each edit is placed in the draft and applied if possible, and edits are weighted by their intention
(the paper's limitations: "each generated revision item is assigned equal weight"). The edits are a model's;
those of the offline model come from tasks/text/revision_edits.py. For one text, without a build:

from longform.llm.models import Models
from longform.llm.offline import ENDPOINT
from tasks.revision_distance import distance
from tasks.revision_distance.offline import RULES

with Models(home / "llm" / "responses.sqlite", offline=RULES) as models:
    found = distance(draft, reference, models.client(ENDPOINT))
print(found.distance, [edit.edit.revision_description for edit in found.edits])

This module imports no stage, so that `longform revise` starts without what stages need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longform.errors import LongformError, UsageError
from longform.llm.ask.prompts import Prompt, load_prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.replies import ProposedEdit, RevisionEdits
from tasks.revision_distance.drafts.corrected import Corrected, corrected
from tasks.revision_distance.drafts.placing import Placement, apply, place
from tasks.revision_distance.drafts.signature import signature_of
from tasks.text.words import folded

if TYPE_CHECKING:
    from longform.llm.client import Client

PROMPTS = Path(__file__).parents[3] / "prompts"
REPLY_CHARACTERS = 200
REQUEST_CHARACTERS = 20_000
LEAST_TOKENS, MOST_TOKENS = 4_096, 16_384
OFFLINE_TOKENS, OFFLINE_TOKENS_A_CHARACTER = 8_192, 128
WEIGHTS = {"fluency": 0.5, "style": 0.5, "clarity": 1.0, "coherence": 1.0, "meaning": 1.0, "other": 1.0}

Reproduces = Literal["exactly", "words", "no"]


@dataclass(frozen=True, slots=True)
class Revision:
    """The edits of a draft and what follows from them. `distance` is their number.

    `weighted` is the sum of their weights, `revised` the draft with the edits applied, `reproduces` whether that is the
    reference (None without one). `not_applied` includes the edits counted in `not_placed`, and those without effect.
    `numbers`: how far to trust the list, and the corrected distance. `lost_edits`: edits of the reply that could not be
    read, one more where it is cut off. `model`, `response`, `signature`: the model that listed the edits, the key of
    its stored response, and what the distance depends on; empty if no model was asked.
    """

    distance: int
    weighted: float
    edits: list[Placement]
    revised: str
    reproduces: Reproduces | None
    not_placed: int
    not_applied: int
    numbers: Corrected
    lost_edits: int = 0
    model: str = ""
    response: str = ""
    signature: str = ""


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
    """The edits that turn a draft into its reference or, without one, into the text its reader has in mind.

    `request`: what the draft was written for; sent only if there is no reference. `weights`: intention -> weight, in
    place of that in WEIGHTS. `to_reference`, `freely`: prompts with and without a reference, by default the project's.
    Asks the model of `client`, unless the reply is stored. UsageError for an unknown intention or a weight that is no
    number from 0 on; LongformError if the reply is no list of edits, besides the client's errors.
    """
    chosen = checked_weights(weights or {})
    prompts = to_reference or _prompt("edit_to_reference"), freely or _prompt("edit_freely")
    asked = edit_request(draft, reference, request, client.endpoint, *prompts)
    _, answer = next(iter(client.ask([(None, asked)])))
    if isinstance(answer, Failure):
        raise LongformError(_unusable(answer, client.endpoint.name))
    found = measure(draft, reference, answer.value.edits, chosen, lost_edits=answer.lost)
    signature = signature_of(client.endpoint, prompts[reference is None], answer.model)
    return replace(found, model=answer.model, response=answer.key, signature=signature)


def checked_weights(own: Mapping[str, float]) -> dict[str, float]:
    """WEIGHTS, with the weights of `own` in place of its own.

    UsageError for an unknown intention, or a weight that is below 0 or not finite.
    """
    for name, value in own.items():
        if name not in WEIGHTS:
            raise UsageError(f"There is no intention {name} to weight: there are {', '.join(WEIGHTS)}.")
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"The weight of {name} is {value}: it must be a number from 0 on.")
    return {**WEIGHTS, **own}


@cache
def _prompt(name: str) -> Prompt:
    """The project's prompt of this name for the revision distance."""
    return load_prompt(f"revision_distance/{name}", PROMPTS)


def _unusable(failure: Failure, endpoint: str) -> str:
    """The message for a reply that is no list of edits, with the beginning of the reply. `endpoint`: its name."""
    reply = " ".join(str(failure.detail.get("text") or "").split())
    quoted = f' It said: "{reply[:REPLY_CHARACTERS]}".' if reply and reply not in failure.message else ""
    return (
        f"The reply of {endpoint} (response {failure.key[:12]}) is no list of edits: {failure.kind}, "
        f"{failure.message.rstrip('.')}.{quoted} Use another model, or a shorter text."
    )


# ---------------------------------------------------------------- request and reply


def edit_request(
    draft: str,
    reference: str | None,
    request: str,
    model: Endpoint,
    to_reference: Prompt,
    freely: Prompt,
    *,
    samples: int = 1,
) -> Request:
    """The request for a draft's edits: by the prompt `to_reference`, or by `freely` if there is no reference.

    Draft and reference are never cut. `request`, which only `freely` shows, is cut to REQUEST_CHARACTERS. `samples`:
    how many lists are wanted.
    """
    unchanged = partial(_leaves, " ".join(draft.split())) if draft.split() != (reference or "").split() else _never
    asked = {"max_tokens": edit_tokens(len(draft) + len(reference or ""), model), "reply": RevisionEdits}
    how: dict[str, Any] = {**asked, "salvage": True, "samples": samples, "unchanged": unchanged, "draft": draft}
    if reference is None:
        return freely.request(model, request=request[:REQUEST_CHARACTERS], **how)
    return to_reference.request(model, reference=reference, **how)


def _never(reply: RevisionEdits) -> bool:
    """False: where draft and reference have the same words, nothing is to be changed."""
    return False


def _leaves(draft: str, reply: RevisionEdits) -> bool:
    """Whether no edit of a reply changes the draft, given on one line: it puts the same words in place of words, or
    changes words that the draft does not have.
    """
    folded = ((" ".join(each.original_snippet.split()), each) for each in reply.edits)
    return all(
        original not in draft or (each.original_snippet == each.revised_snippet and each.preceding_snippet is None)
        for original, each in folded
    )


def edit_tokens(characters: int, model: Endpoint) -> int:
    """The token limit of a reply, from the number of characters of draft and reference, which edits may quote.

    One token for two characters, from LEAST_TOKENS to MOST_TOKENS (a reply that is cut off is requested again with
    twice the limit). The offline model, whose tokens are free, gets more than any list of edits needs.
    """
    if model.offline:
        return max(OFFLINE_TOKENS, OFFLINE_TOKENS_A_CHARACTER * characters)
    return min(max(LEAST_TOKENS, characters // 2), MOST_TOKENS)


# ---------------------------------------------------------------- edits that are known


def measure(
    draft: str,
    reference: str | None,
    edits: Iterable[ProposedEdit | Mapping[str, Any]],
    weights: Mapping[str, float],
    *,
    lost_edits: int = 0,
    with_ter: bool = True,
) -> Revision:
    """The Revision of a draft by edits that are already listed; asks no model.

    `edits`: as dicts with the fields of ProposedEdit, or as such objects. `weights`: intention -> weight; WEIGHTS is
    used for those missing. `lost_edits`: as in Revision. `with_ter`: else TER is not computed.
    """
    placements = place(draft, edits, reference)
    revised = apply(draft, placements)
    return Revision(
        distance=len(placements),
        weighted=float(sum(weight(each.edit, weights) for each in placements)),
        not_placed=sum(each.placed == "not" for each in placements),
        not_applied=sum(not each.applied for each in placements),
        edits=placements,
        revised=revised,
        reproduces=None if reference is None else reproduces(revised, reference),
        numbers=corrected(draft, reference, placements, revised, lost_edits=lost_edits, with_ter=with_ter),
        lost_edits=lost_edits,
    )


def numbers_of(found: Revision) -> dict[str, Any]:
    """The columns NUMBERS of a Revision: what they mean is told in the schema."""
    numbers = {field.name: getattr(found.numbers, field.name) for field in fields(found.numbers)}
    return {"lost_edits": found.lost_edits, **{name: numbers[name] for name in numbers if name != "useful"}}


def weight(edit: ProposedEdit, weights: Mapping[str, float]) -> float:
    """The weight of an edit by its intention; from WEIGHTS if `weights` has none for it."""
    return weights.get(edit.revision_intention, WEIGHTS[edit.revision_intention])


def reproduces(revised: str, reference: str) -> Reproduces:
    """Whether the revised text is the reference: "exactly", "words" (equal but for white space, kinds of quotation
    marks and the composition of letters) or "no".

    White space at the beginning and the end is ignored for "exactly", too.
    """
    if revised.strip() == reference.strip():
        return "exactly"
    return "words" if folded(revised) == folded(reference) else "no"
