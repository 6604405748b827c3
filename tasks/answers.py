"""What stages make of a model's reply: the columns that say which model wrote a row, or the rejected row that says why
there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from longform.addresses import without_logins
from longform.artifacts.rows import Rejected, Row
from longform.engine.stage import StageContext
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.ask.window import over_window
from longform.llm.retry import MODEL_REASON

Item = TypeVar("Item")

TOO_LONG = "longer than the endpoint's window"
NO_MODEL: Row = dict.fromkeys(("response", "prompt", "prompt_hash", "endpoint", "model"))


def unanswered(key: str, answer: Failure) -> Rejected:
    """The rejected row for the input with the id `key`, for which the model gave no usable answer: a defect with the
    reason "model: " and the kind of failure, and the reply without users and passwords in addresses.
    """
    message, reply = (text and without_logins(text) for text in (answer.message, answer.detail.get("text")))
    return Rejected(key, "defect", f"{MODEL_REASON}{answer.kind}", detail=message, raw=reply)


def made_by(answer: Answer, model: Endpoint, prompt: Prompt) -> Row:
    """The columns that say which response, prompt, endpoint and model a row was made from."""
    return {
        "response": answer.key,
        "prompt": prompt.name,
        "prompt_hash": prompt.hash,
        "endpoint": model.name,
        "model": answer.model,
    }


def answered(
    context: StageContext, model: Endpoint, items: Iterable[tuple[str, Item, Request]]
) -> Iterator[tuple[Item, list[Answer] | Rejected]]:
    """(item, its samples that can be read) of each (key, item, request); or (item, the Rejected of the key) where there
    is no such sample, and, last, for each whose request does not fit into the endpoint's window.
    """
    left_out: list[tuple[Item, Rejected]] = []

    def fitting() -> Iterator[tuple[tuple[str, Item, int], Request]]:
        for key, item, request in items:
            if over := over_window(model, request):
                left_out.append((item, Rejected(key, "filtered", TOO_LONG, detail=over)))
            else:
                yield (key, item, request.samples), request

    replies: list[Answer | Failure] = []
    for (key, item, samples), reply in context.ask(model, fitting()):
        replies.append(reply)
        if len(replies) == samples:
            answers = [each for each in replies if isinstance(each, Answer)]
            failures = [each for each in replies if isinstance(each, Failure)]
            replies = []
            yield item, answers or unanswered(key, failures[0])
    yield from left_out
