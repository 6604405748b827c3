"""The model of runs without a key: fixed rules, no network, the same words for the same request anywhere.

A dataset brings the rules for its prompts (tasks/<dataset>/offline.py). A rule reads the rendered messages and nothing
else, as a model behind an API does, and answers in the same form, end mark included. Its choices are drawn from the
sha256 of the user message. A reply that would not fit into `max_tokens` is cut off there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from longform.errors import UsageError
from longform.llm.ask.fence import unfenced
from longform.llm.ask.types import Endpoint, Request

MODEL = "offline-rules-1"
ENDPOINT = Endpoint(name="offline", model=MODEL)
CHARACTERS_PER_TOKEN = 4
END_MARK = "====="

_NUMBER = re.compile(r" \d.*")


class PromptInputs:
    """The fenced texts of a user message. `effort` "low" is a weaker writer: rules that write drafts go by it."""

    def __init__(self, task: str, message: str, effort: str = "") -> None:
        self.task, self.effort = task, effort
        self.texts = unfenced(message)

    def one(self, label: str) -> str:
        for name, text in self.texts:
            if name == label:
                return text
        raise UsageError(
            f'The offline model finds no fenced text under "{label}:" in prompt {self.task}: '
            "restore that line of the prompt, or set another model."
        )

    def passages(self) -> list[tuple[int, str]]:
        """(number, text)"""
        return self.numbered("Passage")

    def numbered(self, label: str) -> list[tuple[int, str]]:
        """(number, text) of those under `<label> 1:`, `<label> 2:` and so on."""
        start = f"{label} "
        numbered = ((name.removeprefix(start), text) for name, text in self.texts if name.startswith(start))
        return [(int(number), text) for number, text in numbered if number.isdecimal()]


class Rule(NamedTuple):
    """How one prompt is answered.

    `write` gets the prompt's inputs, 32 bytes to draw from, and how many characters fit. `reads` are the labels of the
    inputs, of numbered ones without their numbers; those in `optional` may be missing. `gives_object`: it answers in
    JSON, else in tags or plain text.
    """

    write: Callable[[PromptInputs, bytes, int], str]
    reads: Set[str]
    optional: Set[str] = frozenset()
    gives_object: bool = False


Rules = Mapping[str, Rule]


def respond(rules: Rules, request: Request, sample: int = 0, effort: str = "") -> tuple[str, str, int, int]:
    """(text, finish, input tokens, output tokens): finish is stop, or length where the reply was cut off.

    Another `sample` draws again; a rule that draws nothing says the same again. With `effort` "low" rules that write
    drafts write plainer ones, so that a weak and a strong writer can be compared without a model.
    Raises UsageError where no rule answers the prompt.
    """
    if request.task not in rules:
        known = ", ".join(rules) or "none"
        raise UsageError(
            f"The offline model has no rule for {request.task}, only for {known}: set another model for it."
        )
    message = next((content for role, content in reversed(request.messages) if role == "user"), "")
    drawn_from = f"{message}\n{sample}" if sample else message
    dice = hashlib.sha256(drawn_from.encode("utf-8", "surrogatepass")).digest()
    room = request.max_tokens * CHARACTERS_PER_TOKEN
    text = f"{rules[request.task].write(PromptInputs(request.task, message, effort), dice, room)}\n{END_MARK}"
    read = sum(len(content) for _, content in request.messages)
    finish = "length" if len(text) > room else "stop"
    return text[:room], finish, tokens(read), tokens(min(len(text), room))


def task_of(rules: Rules, messages: Iterable[tuple[str, str]]) -> str | None:
    """The prompt whose inputs the last user message holds, by their labels; None where no rule reads them."""
    message = next((content for role, content in reversed([*messages]) if role == "user"), "")
    labels = {_NUMBER.sub("", label) for label, _ in unfenced(message)}
    fits = [task for task, rule in rules.items() if labels <= rule.reads <= labels | rule.optional]
    return next((task for task in fits if rules[task].reads == labels), next(iter(fits), None))


def tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
