"""Scores by a model that judges answers: all answers to a question in one call, or each in its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.ask.window import over_window
from longform.llm.retry import MODEL_REASON
from tasks.answers import TOO_LONG
from tasks.axioms.answers import shown
from tasks.axioms.judging.requests import listwise_request, pointwise_request, shuffled
from tasks.axioms.judging.scores import listwise_scores, pointwise_score
from tasks.axioms.scoring.groups import Found, Group, Missing, Scored

if TYPE_CHECKING:
    from longform.engine.stage import StageContext
    from longform.llm.ask.prompts import Prompt

MOST_IN_ONE_CALL = 100
TOO_MANY = Missing(f"more than {MOST_IN_ONE_CALL} answers to read at once")


def by_listwise(
    context: StageContext, model: Endpoint, prompt: Prompt, groups: Iterable[Group], *, characters: int, seed: int
) -> Iterator[Scored]:
    """(group, a score from 1 to 100 of each answer) for each group, whose answers are read in one call, in an order
    drawn by the seed; a Missing for each answer where there is no usable reply. Groups that are too large come last.
    """
    left_out: list[tuple[Group, Missing]] = []

    def requests() -> Iterator[tuple[tuple[Group, list[str]], Request]]:
        for group in groups:
            if len(group.answers) > MOST_IN_ONE_CALL:
                left_out.append((group, TOO_MANY))
                continue
            texts = dict(group.answers)
            order = shuffled(list(texts), seed, group.key)
            question, evidence = _shown(group, characters)
            answers = [shown(texts[answer], characters) for answer in order]
            request = listwise_request(model, prompt, question, answers, evidence)
            if over := over_window(model, request):
                left_out.append((group, Missing(TOO_LONG, over)))
            else:
                yield (group, order), request

    for (group, order), reply in context.ask(model, requests()):
        if isinstance(reply, Failure):
            yield group, [_failed(reply)] * len(group.answers)
        else:
            scores = dict(zip(order, (each.score for each in listwise_scores(reply.value)), strict=True))
            yield group, [float(scores[answer]) for answer, _ in group.answers]
    yield from ((group, [missing] * len(group.answers)) for group, missing in left_out)


def by_pointwise(
    context: StageContext, model: Endpoint, prompt: Prompt, groups: Iterable[Group], *, characters: int, seed: int
) -> Iterator[Scored]:
    """(group, a score from 1 to 100 of each answer) for each group, each answer read in a call of its own; a Missing
    where there is no usable reply. Groups with an answer that is too long come last. The seed decides nothing.
    """
    waiting: dict[str, tuple[Group, dict[str, Found]]] = {}

    def requests() -> Iterator[tuple[tuple[Group, str], Request]]:
        for group in groups:
            found: dict[str, Found] = {}
            waiting[group.key] = group, found
            question, evidence = _shown(group, characters)
            for answer, text in group.answers:
                request = pointwise_request(model, prompt, question, shown(text, characters), evidence)
                if over := over_window(model, request):
                    found[answer] = Missing(TOO_LONG, over)
                else:
                    yield (group, answer), request

    for (group, answer), reply in context.ask(model, requests()):
        _, found = waiting[group.key]
        found[answer] = float(pointwise_score(reply.value).score) if isinstance(reply, Answer) else _failed(reply)
        if len(found) == len(group.answers):
            yield _whole(*waiting.pop(group.key))
    complete = ((group, found) for group, found in waiting.values() if len(found) == len(group.answers))
    yield from (_whole(*each) for each in complete)  # in a dry run nothing is answered


def _shown(group: Group, characters: int) -> tuple[str, list[str]]:
    """(question, evidence) as a request shows them."""
    return shown(group.question, characters), [shown(text, characters) for text in group.evidence]


def _whole(group: Group, found: dict[str, Found]) -> Scored:
    """The group with its scores in the order of its answers."""
    return group, [found[answer] for answer, _ in group.answers]


def _failed(reply: Failure) -> Missing:
    """The reason for which a reply is of no use."""
    return Missing(f"{MODEL_REASON}{reply.kind}", reply.message)
