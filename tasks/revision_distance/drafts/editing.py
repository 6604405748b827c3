"""The edits that a reader would still make to a draft (section 3), listed by a model in the reader's role, and placed.

With a reference, the edits turn the draft into it; without one, into the text that the reader has in mind. `placing.py`
finds their places in the draft and applies them; their number is the distance.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.revision_distance import DISTANCES, EDITS
from tasks.answers import made_by, unanswered
from tasks.revision_distance.drafts.categories import category
from tasks.revision_distance.drafts.drafting import request_of
from tasks.revision_distance.drafts.measure import REQUEST_CHARACTERS, edit_request, measure, numbers_of, weight
from tasks.revision_distance.drafts.placing import Placement
from tasks.revision_distance.drafts.signature import signature

DRAFT_AND_REFERENCE_CHARACTERS = 120_000
OF_REFERENCES = ("hard", "structure")


# ---------------------------------------------------------------- edits


def _longest(of: Sizes) -> list[Request]:
    """The longest requests, one with a reference and one without, for a plan.

    Draft and reference share one limit of characters.
    """
    text, request = longest(DRAFT_AND_REFERENCE_CHARACTERS), longest(REQUEST_CHARACTERS)
    prompts = of["to_reference"], of["freely"]
    return [edit_request(text, reference, request, of["model"], *prompts) for reference in ("", None)]


@stage(EDITS, revision=2, at_most=AtMost(questions=_longest))
def propose_edits(
    context: StageContext, drafts: Rows, cases: Rows, *, model: Endpoint, to_reference: Prompt, freely: Prompt
) -> Iterator[Row | Rejected]:
    """The edits of each draft as the model lists them, towards the reference if the case has one.

    `to_reference`, `freely`: the prompts with and without a reference. A Rejected for a draft that is too long to
    compare whole, and for one without a usable reply.
    """
    of = {case["case_id"]: case for case in cases}
    asked = []
    for draft in drafts:
        case = of[draft["case_id"]]
        if too_long := long_draft(draft, case, "too long to revise"):
            yield too_long
        else:
            asked.append((draft, case))
    requests = (
        (
            (draft, freely if case["reference"] is None else to_reference),
            edit_request(draft["text"], case["reference"], request_of(case), model, to_reference, freely),
        )
        for draft, case in asked
    )
    for (draft, prompt), answer in context.ask(model, requests):
        if isinstance(answer, Failure):
            yield unanswered(draft["draft_id"], answer)
        else:
            yield {
                "edits_id": f"e_{fingerprint(draft['draft_id'])}",
                "draft_id": draft["draft_id"],
                "case_id": draft["case_id"],
                "edits": [edit.model_dump() for edit in answer.value.edits],
                "lost_edits": answer.lost,
                **made_by(answer, model, prompt),
            }


def long_draft(draft: Row, case: Row, reason: str) -> Rejected | None:
    """A Rejected, with this reason, for a draft that is too long with its reference; None for any other.

    The limit is DRAFT_AND_REFERENCE_CHARACTERS for both together. A draft is not cut to it, since that would change
    the distance.
    """
    length = len(draft["text"]) + len(case["reference"] or "")
    detail = f"{length:,} characters with its reference, at most {DRAFT_AND_REFERENCE_CHARACTERS:,}"
    too_long = length > DRAFT_AND_REFERENCE_CHARACTERS
    return Rejected(draft["draft_id"], "filtered", reason, detail=detail) if too_long else None


# ---------------------------------------------------------------- distances


@stage(DISTANCES, revision=4, at_most=AtMost(rows=lambda of: of["edits"]))
def place_edits(
    context: StageContext,
    edits: Rows,
    drafts: Rows,
    cases: Rows,
    *,
    weights: dict[str, float],
    editor: str,
) -> Iterator[Row]:
    """A row of DISTANCES for each draft whose edits were listed: its distance, and each edit with its place.

    `weights`: intention -> weight; WEIGHTS is used for those missing. `editor`: who was asked, for the signature
    (`named`).
    """
    references = {case["case_id"]: case["reference"] for case in cases}
    of = {draft["draft_id"]: draft for draft in drafts}
    for row in edits:
        draft = of[row["draft_id"]]
        reference = references[draft["case_id"]]
        found = measure(draft["text"], reference, row["edits"], weights, lost_edits=row["lost_edits"])
        yield {
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
            **numbers_of(found),
            "signature": signature(editor, row["prompt"] or "", row["prompt_hash"] or "", row["model"] or ""),
        }


def _placed(placement: Placement, task: str, weights: dict[str, float]) -> Row:
    """A row's entry for an edit: its fields, its category, weight and place, and why it is not applied, if so.

    The category is null if `task`, that of the draft, is not hard or structure. `weights`: intention -> weight.
    """
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
