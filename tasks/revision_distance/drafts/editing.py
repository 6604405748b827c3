"""The edits that a reader would still make to a draft (section 3), listed by a model in the reader's role.

With a reference, the edits turn the draft into it; without one, into the text that the reader has in mind. `placing.py`
finds their places in the draft and applies them.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.revision_distance import EDITS
from tasks.answers import made_by, refused
from tasks.revision_distance.drafts.drafting import request_of
from tasks.revision_distance.drafts.edits import REQUEST_CHARACTERS, edit_request, edits_of

DRAFT_AND_REFERENCE_CHARACTERS = 120_000


def _longest(of: Sizes) -> list[Request]:
    """The longest requests with a reference and without one. Draft and reference share one limit of characters."""
    text, request = longest(DRAFT_AND_REFERENCE_CHARACTERS), longest(REQUEST_CHARACTERS)
    prompts = of["to_reference"], of["freely"]
    return [edit_request(text, reference, request, of["model"], *prompts) for reference in ("", None)]


@stage(EDITS, revision=1, at_most=AtMost(questions=_longest))
def propose_edits(
    context: StageContext, drafts: Rows, cases: Rows, *, model: Endpoint, to_reference: Prompt, freely: Prompt
) -> Iterator[Row | Rejected]:
    """The edits of each draft as the model lists them; drafts too long to compare whole are rejected."""
    of = {case["case_id"]: case for case in cases}
    asked = []
    for draft in drafts:
        case = of[draft["case_id"]]
        if too_long(draft["text"], case["reference"]):
            yield long_draft(draft, case, "too long to revise")
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
        yield _listed(draft, answer, model, prompt)


def _listed(draft: Row, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(draft["draft_id"], answer)
    return {
        "edits_id": f"e_{fingerprint(draft['draft_id'])}",
        "draft_id": draft["draft_id"],
        "case_id": draft["case_id"],
        "edits": [edit.model_dump() for edit in edits_of(answer)],
        **made_by(answer, model, prompt),
    }


def too_long(draft: str, reference: str | None) -> bool:
    """Whether draft and reference together exceed the limit of a request; cutting them would change the distance."""
    return len(draft) + len(reference or "") > DRAFT_AND_REFERENCE_CHARACTERS


def long_draft(draft: Row, case: Row, reason: str) -> Rejected:
    """A Rejected for a draft that is `too_long`, with its length in the detail."""
    length = len(draft["text"]) + len(case["reference"] or "")
    detail = f"{length:,} characters with its reference, at most {DRAFT_AND_REFERENCE_CHARACTERS:,}"
    return Rejected(draft["draft_id"], "filtered", reason, detail=detail)
