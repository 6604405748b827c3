"""The model of runs without an API key: fixed rules, no network, and the same reply to the same request on any machine.

A dataset has the rules for its prompts (tasks/<dataset>/offline.py). A rule reads only the rendered messages, as a
model behind an API does, and answers in the form that the prompt asks for, with the end mark. Its choices are drawn
from the sha256 of the user message. A reply that is longer than `max_tokens` is cut off there.
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
OWN_NAMES = ("offline-", "lexical-", "released")  # begin what rows say of what no server wrote
SERVED_AS = "served:"
CHARACTERS_PER_TOKEN = 4
END_MARK = "====="

_NUMBER = re.compile(r" \d.*")


def recorded_name(endpoint: Endpoint, served: str | None) -> str:
    """What rows say of the model that wrote a reply: the name that the server gives (`served`), else the endpoint's.

    A name by which rows tell the offline model, rules and released labels from models (OWN_NAMES) is said of these
    alone: of a server it begins with SERVED_AS, so that no server decides that its replies need no gate.
    """
    name = served or endpoint.model
    return name if endpoint.offline or not name.startswith(OWN_NAMES) else f"{SERVED_AS}{name}"


class PromptInputs:
    """The fenced texts in the user message of one prompt: `texts`, as (label, text). `task` is the prompt's name.
    `effort` "low" asks rules that write drafts for plainer ones.
    """

    def __init__(self, task: str, message: str, effort: str = "") -> None:
        self.task, self.effort = task, effort
        self.texts = unfenced(message)

    def one(self, label: str) -> str:
        """The first text with this label; UsageError if there is none."""
        for name, text in self.texts:
            if name == label:
                return text
        raise UsageError(
            f'The offline model finds no fenced text under "{label}:" in prompt {self.task}: '
            "restore that line of the prompt, or set another model."
        )

    def passages(self) -> list[tuple[int, str]]:
        """(number, text) of the texts labelled `Passage 1`, `Passage 2` and so on."""
        return self.numbered("Passage")

    def numbered(self, label: str) -> list[tuple[int, str]]:
        """(number, text) of the texts labelled `<label> 1`, `<label> 2` and so on, in the order of the message; empty
        if none.
        """
        start = f"{label} "
        numbered = ((name.removeprefix(start), text) for name, text in self.texts if name.startswith(start))
        return [(int(number), text) for number, text in numbered if number.isdecimal()]


class Rule(NamedTuple):
    """How the offline model answers one prompt.

    `write` gets the prompt's inputs, 32 bytes from which to draw choices, and how many characters fit; it returns the
    reply without its end mark. `reads` are the labels of the prompt's inputs (numbered ones without number); those in
    `optional` may be missing. `gives_object`: the reply is JSON, else tags or plain text.
    """

    write: Callable[[PromptInputs, bytes, int], str]
    reads: Set[str]
    optional: Set[str] = frozenset()
    gives_object: bool = False


Rules = Mapping[str, Rule]


def respond(rules: Rules, request: Request, sample: int = 0, effort: str = "") -> tuple[str, str, int, int]:
    """(text, finish, input tokens, output tokens) of the rule for the request's prompt. The text ends with the end
    mark, a line `=====`. `finish` is "stop", or "length" where the text was cut off at the request's `max_tokens`. A
    token is counted for every four characters, rounded up.

    Another `sample` draws again; a rule that draws nothing says the same again. With `effort` "low" rules that write
    drafts write plainer ones, so that a weak and a strong writer can be compared without a model. Raises UsageError
    where no rule answers the prompt, or where its message lacks a text that the rule needs.
    """
    if request.task not in rules:
        known = ", ".join(rules) or "none"
        raise UsageError(
            f"The offline model has no rule for {request.task}, only for {known}: set another model for it."
        )
    message = next((content for role, content in reversed(request.messages) if role == "user"), "")
    drawn_from = f"{message}\n{sample}" if sample else message
    random_bytes = hashlib.sha256(drawn_from.encode("utf-8", "surrogatepass")).digest()
    max_characters = request.max_tokens * CHARACTERS_PER_TOKEN
    inputs = PromptInputs(request.task, message, effort)
    text = f"{rules[request.task].write(inputs, random_bytes, max_characters)}\n{END_MARK}"
    read = sum(len(content) for _, content in request.messages)
    finish = "length" if len(text) > max_characters else "stop"
    return text[:max_characters], finish, tokens(read), tokens(min(len(text), max_characters))


def task_of(rules: Rules, messages: Iterable[tuple[str, str]]) -> str | None:
    """The name of the rule whose labels are those of the fenced texts in the last user message (numbers after labels
    are ignored); else of the first rule that has all of these labels, and of whose other labels all are optional; None
    where no rule fits.
    """
    message = next((content for role, content in reversed([*messages]) if role == "user"), "")
    labels = {_NUMBER.sub("", label) for label, _ in unfenced(message)}
    fits = [task for task, rule in rules.items() if labels <= rule.reads <= labels | rule.optional]
    return next((task for task in fits if rules[task].reads == labels), next(iter(fits), None))


def tokens(characters: int) -> int:
    """How many tokens so many characters count as: one for each 4, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)
