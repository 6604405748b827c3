"""Upper bounds that a stage declares of the rows it makes and the model calls it makes, so that a plan can use them
before the stage's inputs are built.

    @stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda sizes: 3 * sizes["threads"]))

Bounds are no part of a stage's identity: a tighter bound does not make its rows again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longform.llm.ask.tokens import TOKENS_A_REQUEST
from longform.llm.ask.types import Endpoint, Request

UNKNOWN = math.inf


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the bounds of a stage are computed from. `sizes[parameter]` is, for an input of rows, the largest number of
    rows it can have; for a source, its shard; else the argument's value.

    `units`: number of units of work. `bytes`: upper bound of the unpacked bytes of the sources that the first input
    goes back to; `records`: upper bound of the rows that the source stage makes of them. Unknown numbers are infinite.
    `upstream`: input -> arguments of the stage that made it.
    """

    values: Mapping[str, Any]
    units: float = UNKNOWN
    bytes: float = UNKNOWN
    records: float = UNKNOWN
    upstream: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The value of a parameter, as the class says: a number of rows, a shard or an argument. KeyError if there is
        none.
        """
        return self.values[name]

    def arguments_of(self, name: str) -> Mapping[str, Any]:
        """The arguments of the stage that made the input of this name; empty if that stage is unknown."""
        return self.upstream.get(name, {})


Most = Callable[[Sizes], float]


@dataclass(frozen=True, slots=True)
class AtMost:
    """Upper bounds that a stage declares, as functions of `Sizes`. For a bound that is left out, a plan uses the
    default below, else infinity.

    `rows`: rows made of one group (source stages: of one shard). Default: the rows of the first input, if it has the
    same key column or the stage asks a model.
    `calls`: calls to each of its models for one group. Default: one for each row of the first input.
    `questions`: requests as long as the longest it can send, with texts made by `longest()`. Without them a plan has
    no bound of tokens.
    `kinds`: in place of `calls` times the longest of `questions`, for a stage whose requests differ much in length:
    (endpoint, how many for one group, the longest request) of each kind of them.
    `tokens`: for a stage that embeds texts, all tokens of one group, in place of `questions`.
    `bytes`: for a source stage, the unpacked bytes of one shard.
    `keeps`: true if its rows are unchanged rows of its first input, of which it only leaves some out.
    """

    rows: Most | None = None
    calls: Most | None = None
    questions: Callable[[Sizes], Sequence[Request]] | None = None
    kinds: Callable[[Sizes], Sequence[tuple[Endpoint, float, Request]]] | None = None
    tokens: Most | None = None
    bytes: Most | None = None
    keeps: bool = False

    def kinds_of(self, endpoint: Endpoint, sizes: Sizes) -> list[tuple[float, Request]] | None:
        """(how many, the longest request) of each kind that goes to this endpoint; None if no kinds are declared."""
        if self.kinds is None:
            return None
        return [(number, request) for to, number, request in self.kinds(sizes) if to.name == endpoint.name]


def bound(declared: Most | None, sizes: Sizes, default: float) -> float:
    """The declared bound for these sizes, rounded down and at least 0; infinity if the declaration gives NaN or
    infinity. `default`, unchanged, if nothing is declared.
    """
    if declared is None:
        return default
    most = declared(sizes)
    return UNKNOWN if math.isnan(most) or most == UNKNOWN else max(0, math.floor(most))


def unbounded(sizes: Sizes) -> float:
    """Infinity: the bound of `rows` for a stage that can make any number of rows of one row."""
    return UNKNOWN


def bound_by(value: float | None) -> float:
    """A setting that limits a number, as a bound: its value, or infinity if it is None."""
    return UNKNOWN if value is None else value


def longest(characters: int) -> str:
    """A text of `characters` characters that has the most bytes in UTF-8 (four for each character)."""
    return "\U0001f600" * characters


def tokens_at_most(request: Request) -> int:
    """An upper bound of the tokens of a request's prompt: the bytes of its messages, as a token of a byte-level
    vocabulary is at least one byte, and TOKENS_A_REQUEST; for a structured reply as JSON also the characters of its
    JSON schema.
    """
    tokens = sum(len(content.encode()) for _, content in request.messages) + TOKENS_A_REQUEST
    if request.reply is None or request.form != "json":
        return tokens
    from longform.llm.read.structured import response_format

    return tokens + len(str(response_format(request.reply)))


def embedding_calls(texts: float, units: float) -> float:
    """Upper bound of the calls that embed `texts` texts, TEXTS_PER_CALL a call, if each of `units` units starts a new
    call. It need not be a whole number.
    """
    from longform.llm.client import TEXTS_PER_CALL

    return texts / TEXTS_PER_CALL + min(units, texts)
