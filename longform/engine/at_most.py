"""What a stage makes and asks at most, as it declares it: what a plan knows before anything is read.

    @stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda of: 3 * of["threads"]))

No identity: a bound may be made tighter without a row being made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longform.llm.ask.tokens import TOKENS_A_REQUEST
from longform.llm.ask.types import Request

UNKNOWN = math.inf


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a stage is called with, by parameter: of rows their number at most, of a source the shard, else the value.

    `units`: how many units of work that is. `bytes`: of the sources that the first input goes back to, unpacked, at
    most; `records`: rows of the stage that reads these, at most. What is not known is infinite. `arguments_of` are
    those of the stage that made an input.
    """

    given: Mapping[str, Any]
    units: float = UNKNOWN
    bytes: float = UNKNOWN
    records: float = UNKNOWN
    upstream: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def arguments_of(self, name: str) -> Mapping[str, Any]:
        return self.upstream.get(name, {})


Most = Callable[[Sizes], float]


@dataclass(frozen=True, slots=True)
class AtMost:
    """Bounds of a stage; of those that are left out a plan knows what follows from the shape, or nothing.

    `rows`: that it makes of one group (of sources: of one shard); else those of its first input, where they have one
    key, or it asks a model.
    `calls`: questions it asks each of its models of one group; else one a row of its first input.
    `questions`: the longest questions that it may ask, texts filled with `longest`; else a plan knows no tokens.
    `tokens`: instead of them, of a stage that has texts embedded, all tokens of one group.
    `bytes`: of a stage of sources, those of one shard, unpacked.
    `keeps`: its rows are rows of its first input as they are, whatever else it is given: it only leaves some out.
    """

    rows: Most | None = None
    calls: Most | None = None
    questions: Callable[[Sizes], Sequence[Request]] | None = None
    tokens: Most | None = None
    bytes: Most | None = None
    keeps: bool = False


def unbounded(of: Sizes) -> float:
    """For `rows` of a stage of which nothing says how many it makes of a row."""
    return UNKNOWN


def bound_by(value: float | None) -> float:
    """A setting that may be unset as a bound: unset bounds nothing."""
    return UNKNOWN if value is None else value


def longest(characters: int) -> str:
    """A text of so many characters that takes the most bytes."""
    return "\U0001f600" * characters


def tokens_at_most(request: Request) -> int:
    """Of the prompt of a request: a token of a byte-level vocabulary is at least one byte."""
    sent = sum(len(content.encode()) for _, content in request.messages) + TOKENS_A_REQUEST
    if request.reply is None or request.form != "json":
        return sent
    from longform.llm.read.structured import response_format

    return sent + len(str(response_format(request.reply)))


def embedding_calls(texts: float, units: float) -> float:
    """Calls that so many texts take, 64 a call, where each of so many units begins anew."""
    from longform.llm.client import TEXTS_PER_CALL

    return texts / TEXTS_PER_CALL + min(units, texts)
