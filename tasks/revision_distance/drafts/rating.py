"""GPT-Score: a model's rating of a draft against its reference, from 0 to 100 (table 2).

The paper prints mean ratings without prompt or scale: both are ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.replies import Rating
from schemas.revision_distance import RATINGS
from tasks.answers import NO_MODEL, made_by, refused
from tasks.revision_distance.drafts.drafting import request_of
from tasks.revision_distance.drafts.editing import DRAFT_AND_REFERENCE_CHARACTERS, long_draft, too_long
from tasks.revision_distance.drafts.edits import REQUEST_CHARACTERS


def _longest(of: Sizes) -> list[Request]:
    texts = {"request": longest(REQUEST_CHARACTERS), "reference": longest(DRAFT_AND_REFERENCE_CHARACTERS), "draft": ""}
    return [of["prompt"].request(of["model"], reply=Rating, **texts)]


@stage(RATINGS, revision=1, at_most=AtMost(rows=lambda of: of["drafts"], questions=_longest))
def rate_drafts(
    context: StageContext, drafts: Rows, cases: Rows, *, model: Endpoint | None, prompt: Prompt | None
) -> Iterator[Row | Rejected]:
    """The rating of each draft, 0 to 100; null without a model or without a reference."""
    of = {case["case_id"]: case for case in cases}
    asked = []
    for draft in drafts:
        case = of[draft["case_id"]]
        if model is None or case["reference"] is None:
            yield _rated(draft, None, NO_MODEL)
        elif too_long(draft["text"], case["reference"]):
            yield long_draft(draft, case, "too long to rate")
        else:
            asked.append((draft, case))
    if model is None or prompt is None:
        return
    requests = ((draft, prompt.request(model, reply=Rating, **_inputs(draft, case))) for draft, case in asked)
    for draft, answer in context.ask(model, requests):
        yield _by_answer(draft, answer, model, prompt)


def _inputs(draft: Row, case: Row) -> Row:
    request = request_of(case)[:REQUEST_CHARACTERS]
    return {"request": request, "reference": case["reference"], "draft": draft["text"]}


def _by_answer(draft: Row, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(draft["draft_id"], answer)
    return _rated(draft, float(answer.value.score), made_by(answer, model, prompt))


def _rated(draft: Row, score: float | None, origin: Row) -> Row:
    return {
        "rating_id": f"r_{fingerprint(draft['draft_id'])}",
        "draft_id": draft["draft_id"],
        "case_id": draft["case_id"],
        "gpt_score": score,
        **origin,
    }
