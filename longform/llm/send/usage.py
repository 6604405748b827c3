"""How much of a server's usage can be true. A broken or lying server may claim any number of tokens, and a cost is made
of them.

    input   at most `ask.tokens.upper_bound` of what was sent
    cached  at most the input
    output  at most `most_output` of the limit, reasoning included

The same bounds are reserved before a call, so that no claim makes it dearer than what was set aside. Servers may stop a
few tokens late (SLACK_TOKENS). Most limits are those of all that is billed; some servers mean the answer alone, and
bill reasoning beside it. Where an endpoint is said to be one of these (the capability `reasoning`), the reasoning that
the usage names may come on top, up to REASONING_FACTOR times the limit.
"""

from __future__ import annotations

import math
from typing import Any

from longform.llm.ask.types import Endpoint

REASONING_FACTOR = 3
SLACK_TOKENS = 16

Tokens = tuple[int, int, int]


def most_output(endpoint: Endpoint, limit: int, number: int) -> int:
    """The most tokens that `number` replies, of up to `limit` tokens together, may be billed with, reasoning beside the
    limit included; 0 for a limit of 0 (texts to embed).
    """
    beside = REASONING_FACTOR * limit if "reasoning" in endpoint.capabilities else 0
    return limit + SLACK_TOKENS * number + beside if limit else 0


def bounded_usage(
    tokens: tuple[Any, Any, Any],
    reasoning: Any,
    *,
    endpoint: Endpoint,
    most_input: int,
    limit: int,
    number: int = 1,
) -> tuple[Tokens, int, str | None]:
    """((input, cached, output) tokens, reasoning tokens, what was untrue in a few words or None).

    `tokens` and `reasoning` are as the server claims: what is no whole number from 0 on counts as 0, what is above its
    bound as the bound. `most_input`: the upper bound of the input; `limit`: that of all `number` choices together, 0
    for embeddings.
    """
    claimed_input, claimed_cached, claimed_output = tokens
    beside = most_output(endpoint, limit, number) - limit - SLACK_TOKENS * number if limit else 0
    most = limit + SLACK_TOKENS * number + min(_count(reasoning), beside) if limit else 0
    read, written = min(_count(claimed_input), most_input), min(_count(claimed_output), most)
    cached, thought = min(_count(claimed_cached), read), min(_count(reasoning), written)
    untrue = [
        _untrue("input", claimed_input, read, f"{most_input:,} can be"),
        _untrue("cached", claimed_cached, cached, f"the input has {read:,}"),
        _untrue("output", claimed_output, written, f"{limit:,} were allowed"),
        _untrue("reasoning", reasoning, thought, f"the output has {written:,}"),
    ]
    first = next(filter(None, untrue), None)
    return (read, cached, written), thought, f"usage claims {first}" if first else None


def _untrue(name: str, claimed: Any, counted: int, why: str) -> str | None:
    """`10^30 output tokens where 512 were allowed`, if the number claimed is not the one that counts; else None. A
    missing number is none.
    """
    if claimed is None or (type(claimed) is int and claimed == counted):
        return None
    return f"{_shown(claimed)} {name} tokens where {why}"


def _shown(claimed: Any) -> str:
    """A number in a few characters: large ones as a power of ten; "no number of" for another value."""
    if type(claimed) is not int:
        return "no number of"
    if abs(claimed) < 10**9:
        return f"{claimed:,}"
    return f"{'-' if claimed < 0 else ''}10^{round(math.log10(abs(claimed)))}"


def _count(value: Any) -> int:
    """The value if it is a whole number from 0 on, else 0."""
    return value if type(value) is int and value > 0 else 0
