"""Which kind of instruction a turn has, and how a neutral or bad one went wrong, by a model (KIWI, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request
from schemas.kiwi import LABELS
from schemas.replies import ErrorCategory, InstructionCategory, Reply
from tasks.answers import answered, made_by

CATEGORIES = (
    "more information", "expand coverage", "clarification", "remove", "specific edit", "condense", "reorganize",
    "others",
)  # fmt: skip
ERRORS = ("unrequested change", "ignored", "constraint failure", "poor integration", "others")
CATEGORY, ERROR = "category", "error"
LONGEST = 2_000  # characters of an instruction or comment that a plan reckons with


def _longest(of: Sizes, reply: type[Reply]) -> list[Request]:
    """The longest request of a stage that labels, by a reply of this form."""
    return [of["prompt"].request(of["model"], reply=reply, **dict.fromkeys(of["prompt"].inputs, longest(LONGEST)))]


def _bound(reply: type[Reply]) -> AtMost:
    return AtMost(rows=lambda of: of["turns"], questions=partial(_longest, reply=reply))


@stage(LABELS, revision=1, at_most=_bound(InstructionCategory))
def label_instructions(
    context: StageContext, turns: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """The category of each turn's instruction; the model sees question and instruction (A.3)."""

    def request(turn: Row) -> Request:
        texts = {name: turn[name] for name in ("question", "instruction")}
        return prompt.request(model, reply=InstructionCategory, **texts)

    yield from _labelled(context, turns, CATEGORY, model, prompt, request)


@stage(LABELS, revision=1, at_most=_bound(ErrorCategory))
def label_errors(context: StageContext, turns: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """How each turn went wrong, by instruction and comment (A.4); a Rejected for a good one, or without a comment."""
    asked = []
    for turn in turns:
        if turn["rating"] == "good" or not turn["comment"].strip():
            reason = "a good turn" if turn["rating"] == "good" else "no comment"
            yield Rejected(turn["turn_id"], "filtered", reason)
        else:
            asked.append(turn)

    def request(turn: Row) -> Request:
        texts = {name: turn[name] for name in ("instruction", "comment")}
        return prompt.request(model, reply=ErrorCategory, **texts)

    yield from _labelled(context, asked, ERROR, model, prompt, request)


def _labelled(
    context: StageContext,
    turns: Iterable[Row],
    what: str,
    model: Endpoint,
    prompt: Prompt,
    request: Callable[[Row], Request],
) -> Iterator[Row | Rejected]:
    """A row of LABELS for each turn; a Rejected for one without a usable reply."""
    for turn, found in answered(context, model, ((turn["turn_id"], turn, request(turn)) for turn in turns)):
        if isinstance(found, Rejected):
            yield found
            continue
        yield {
            "label_id": f"{turn['turn_id']}/{what}",
            "turn_id": turn["turn_id"],
            "question_id": turn["question_id"],
            "what": what,
            "label": found[0].value.category,
            **made_by(found[0], model, prompt),
        }
