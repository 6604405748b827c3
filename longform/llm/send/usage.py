"""How much of a server's usage can be true. A broken or lying server may claim any number of tokens, and a cost is made
of them.

    input   at most a token for each byte that was sent, and the frame that a chat template puts around each message
    cached  at most the input
    output  at most max_tokens for each choice, reasoning included

A token of a byte-level vocabulary is at least one byte. Templates that add a system prompt or a date take some hundred
tokens (FRAME_TOKENS). Servers may stop a few tokens late (SLACK_TOKENS). Most limits are those of all that is billed;
some servers mean the answer alone, and bill reasoning beside it. Where an endpoint is said to be one of these (the
capability `reasoning`), the reasoning that the usage names may come on top, up to REASONING_FACTOR times the limit, and
that much is set aside before a call.
"""

from __future__ import annotations

import math
from typing import Any

from longform.llm.ask.types import Endpoint

FRAME_TOKENS, MESSAGE_TOKENS = 512, 16
REASONING_FACTOR = 3
SLACK_TOKENS = 16

Tokens = tuple[int, int, int]


def most_output(endpoint: Endpoint, limit: int) -> int:
    """The most tokens that replies of up to `limit` tokens may be billed with, reasoning beside the limit included."""
    return limit * (1 + REASONING_FACTOR) if "reasoning" in endpoint.capabilities else limit


def bounded_usage(
    tokens: tuple[Any, Any, Any],
    reasoning: Any,
    *,
    sent_bytes: int,
    max_tokens: int,
    n: int = 1,
    messages: int = 1,
    reasoning_beside: bool = False,
) -> tuple[Tokens, int, str | None]:
    """((input, cached, output) tokens, reasoning tokens, what was untrue in a few words or None).

    `tokens` and `reasoning` are as the server says: what is no whole number from 0 on counts as 0, what is above its
    bound as the bound. `sent_bytes`: of the request's body; `max_tokens`: the limit of each of its `n` choices, 0 for
    embeddings; `messages`: how many it has. `reasoning_beside`: the limit is that of the answer alone.
    """
    said_input, said_cached, said_output = tokens
    frame = FRAME_TOKENS + MESSAGE_TOKENS * messages
    limit = max_tokens * n
    allowed = limit + SLACK_TOKENS * n if limit else 0
    thought = min(_count(reasoning), REASONING_FACTOR * limit) if reasoning_beside else 0
    input_tokens, output = min(_count(said_input), sent_bytes + frame), min(_count(said_output), allowed + thought)
    lies = [
        _lie("input", said_input, input_tokens, f"{sent_bytes:,} bytes were sent"),
        _lie(
            "cached", said_cached, cached := min(_count(said_cached), input_tokens), f"the input has {input_tokens:,}"
        ),
        _lie("output", said_output, output, f"{limit:,} were allowed"),
        _lie("reasoning", reasoning, thinking := min(_count(reasoning), output), f"the output has {output:,}"),
    ]
    lie = next(filter(None, lies), None)
    return (input_tokens, cached, output), thinking, f"usage says {lie}" if lie else None


def _lie(name: str, said: Any, counted: int, why: str) -> str | None:
    """`10^30 output tokens where 512 were allowed`, if the number said is not the one that counts; else None. A missing
    number is none.
    """
    if said is None or (type(said) is int and said == counted):
        return None
    return f"{_shown(said)} {name} tokens where {why}"


def _shown(said: Any) -> str:
    """A number in a few characters: large ones as a power of ten; "no number of" for another value."""
    if type(said) is not int:
        return "no number of"
    if abs(said) < 10**9:
        return f"{said:,}"
    return f"{'-' if said < 0 else ''}10^{round(math.log10(abs(said)))}"


def _count(value: Any) -> int:
    """The value if it is a whole number from 0 on, else 0."""
    return value if type(value) is int and value > 0 else 0
