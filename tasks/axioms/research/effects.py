"""What an answer in the making asks for, and what it leaves behind. Nothing here asks a model or the web.

A `Process` is a generator that makes one answer. It yields what it needs next (`Ask`, `Score`, `Search` or `Read`), is
sent what came of it, and returns a `Result`; `running.run` does what many of them need at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["draft", "query", "result", "page", "passage", "update", "answer", "review", "repair"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found. `page_id`: hash of its address or content; `licence`: None where it is unknown;
    `retrieved_at`: when it was fetched, in milliseconds since 1970, None if it was not yet or that is unknown.
    """

    page_id: str
    url: str
    title: str
    snippet: str
    licence: str | None = None
    retrieved_at: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no reply, search result or page: a short fixed phrase, and what was said. `passing`: another try may
    succeed.
    """

    reason: str
    detail: str | None = None
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Replied:
    """A model's reply: a text, or the class that it was read into; the key of its response, and the model's name."""

    value: Any
    response: str
    model: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of evidence, and the page that it is from."""

    text: str
    page: Hit


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to the model by the prompt of this name, one for each of `inputs`; sent: a list of Replied | Failed."""

    prompt: str
    inputs: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Texts to score as answers to the question; sent: a list of scores, None where there is no usable one."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """Queries to search for; sent: for each a list of hits, best first, or Failed."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Pages to read; sent: for each its text or Failed."""

    hits: tuple[Hit, ...]


Effect = Ask | Score | Search | Read


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, seen or decided on the way to an answer. `text`: the query, snippet, passage, problem or answer.
    `kept`: whether it was used further; if not, `reason` says why, and so it may where something failed. `score`: what
    the scorer gave it, `before`: what it had given the answer that an update was to better.
    """

    kind: Kind
    text: str
    kept: bool
    reason: str | None = None
    detail: str | None = None
    url: str | None = None
    title: str | None = None
    before: float | None = None
    score: float | None = None
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer that a process ended with. `evidence`: the passages that were shown for it, which it cites by their
    places, from 1; `score`: the scorer's, None without one; `prompt`: the name of the prompt that the text replies to.
    Without a text, `failed` says why there is none.
    """

    text: str = ""
    evidence: tuple[Passage, ...] = ()
    score: float | None = None
    prompt: str = ""
    reply: Replied | None = None
    failed: Failed | None = None
    steps: list[Step] = field(default_factory=list)

    def left_out(self, reason: str, detail: str | None = None) -> Result:
        """This result, but without an answer, for this reason."""
        return replace(self, failed=Failed(reason, detail))


Process = Generator[Effect, Any, Result]
