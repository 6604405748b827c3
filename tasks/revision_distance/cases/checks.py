"""A model's check of the writing requests that the rules selected (appendix A); optional."""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.replies import WritingCheck
from schemas.revision_distance import CHECKED
from tasks.answers import NO_MODEL, made_by, refused
from tasks.revision_distance.cases.draws import CHECKED_TASKS, candidates_of

MESSAGE_CHARACTERS = 20_000


def _checks_at_most(of: Sizes) -> float:
    drawn = of.arguments_of("candidates")
    most = (candidates_of(task, drawn.get("numbers", {}), drawn.get("spare", 1.0)) for task in CHECKED_TASKS)
    return float(min(of["candidates"], sum(most)))


def _longest(of: Sizes) -> list[Request]:
    return [of["prompt"].request(of["model"], reply=WritingCheck, message=longest(MESSAGE_CHARACTERS))]


@stage(
    CHECKED,
    revision=1,
    at_most=AtMost(rows=lambda of: of["candidates"], calls=_checks_at_most, questions=_longest),
)
def check_requests(
    context: StageContext, candidates: Rows, *, model: Endpoint | None, prompt: Prompt | None
) -> Iterator[Row | Rejected]:
    """The model's verdict on each request, yes or no, and the kind of writing it asks for.

    Null without a model, and for related work, which comes from papers.
    """
    asked = []
    for candidate in candidates:
        if model is not None and candidate["task"] in CHECKED_TASKS:
            asked.append(candidate)
        else:
            yield _checked(candidate, None, None, NO_MODEL)
    if model is None or prompt is None:
        return
    requests = (
        (
            candidate,
            prompt.request(model, reply=WritingCheck, message=(candidate["request"] or "")[:MESSAGE_CHARACTERS]),
        )
        for candidate in asked
    )
    for candidate, answer in context.ask(model, requests):
        yield _by_answer(candidate, answer, model, prompt)


def _by_answer(candidate: Row, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(candidate["case_id"], answer)
    return _checked(candidate, answer.value.verdict, answer.value.kind, made_by(answer, model, prompt))


def _checked(candidate: Row, verdict: str | None, kind: str | None, origin: Row) -> Row:
    key = candidate["case_id"]
    return {"check_id": f"c_{fingerprint(key)}", "case_id": key, "checked": verdict, "checked_kind": kind, **origin}
