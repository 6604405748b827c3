"""Requests of LLMCrit: what is too long for an endpoint, the longest that a plan reckons with, replies as texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from longform.artifacts.rows import Rejected, Row
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import StageContext
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.tokens import count
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.ask.window import over_window
from tasks.answers import unanswered
from tasks.llmcrit.guidelines import MOST_CHARACTERS
from tasks.text.markdown.document import unfenced

Item = TypeVar("Item")
Voices = dict[str, Row]  # task -> the inputs of prompts that say what its texts are, and who speaks

TOO_LONG = "longer than the endpoint's window"
REPLY_TOKENS = 2_048
CRITERION_CHARACTERS = 1_000
BOUND = 8  # criteria, examples and grounds of a request, where a plan does not know how many there are


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


def tokens_to_rewrite(text: str) -> int:
    """The limit of a reply that writes a text again, in tokens: twice the text's, and REPLY_TOKENS."""
    return REPLY_TOKENS + 2 * count(text)


def unfenced_reply(reply: str, original: str) -> str:
    """A reply without the code fence around the whole of it, which models put around code; as it is if the text it was
    made from has such a fence.
    """
    inside = unfenced(reply)
    return reply if inside is None or unfenced(original) is not None else inside


def longest_request(model: Endpoint, prompt: Prompt, **options: Any) -> Request:
    """A request as long as they come, for a plan whose inputs are not built. `options`: of the request."""
    text, criterion = longest(MOST_CHARACTERS), longest(CRITERION_CHARACTERS)
    lists = ("criteria", "required", "violated", "unhelpful", "specific", "not_specific")
    known: dict[str, Any] = dict.fromkeys(("guideline", "text", "feedback"), text)
    known |= dict.fromkeys(lists, [criterion] * BOUND)
    known["examples"] = [text] * BOUND
    return prompt.request(model, **options, **{name: known.get(name, criterion) for name in prompt.inputs})


def longest_of_prompt(sizes: Sizes) -> list[Request]:
    """The longest request of a stage with one prompt, in a list, for a plan."""
    return [longest_request(sizes["model"], sizes["prompt"])]
