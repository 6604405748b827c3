"""How many bytes an honest reply may have, by what was asked: more is broken off while it streams.

The bounds are generous. No token of a known vocabulary has more than 128 bytes, and a byte takes six characters of JSON
at most (`\\u0000`). With log-probabilities each position has the chosen token and its alternatives, each as

    {"token": "...", "logprob": -1.2345678901234567, "bytes": [32, 32, ...]}

which is 1,500 bytes for the longest token, and less than 2,048 for one of 48 bytes with each number on a line of its
own. Numbers of a vector have at most 24 characters, and may have a line of their own.
"""

from __future__ import annotations

FRAME_BYTES = 64 << 10  # names, usage, and what proxies add
REASONING_BYTES = 1 << 20  # some servers show a reasoning that they do not count in the limit of tokens
TOKEN_BYTES = 6 * 128
ALTERNATIVE_BYTES = 2048
CHOICE_BYTES = 4 << 10  # its frame, and annotations of filters
NUMBER_BYTES = 40
MOST_DIMENSIONS = 16_384
LARGEST_REPLY_BYTES = 256 << 20


def chat_bound(max_tokens: int, n: int = 1, top_logprobs: int | None = None) -> int:
    """The most bytes of a chat completion with `n` choices of up to `max_tokens` tokens each. `top_logprobs`: the
    alternatives asked for at each position (0: only the chosen token's probability; None: no probabilities).
    """
    alternatives = 0 if top_logprobs is None else 1 + top_logprobs
    choice = CHOICE_BYTES + REASONING_BYTES + max_tokens * (TOKEN_BYTES + alternatives * ALTERNATIVE_BYTES)
    return min(LARGEST_REPLY_BYTES, FRAME_BYTES + n * choice)


def embeddings_bound(inputs: int, dimensions: int | None = None) -> int:
    """The most bytes of a reply with a vector for each of so many inputs. `dimensions`: of a vector, as asked for;
    None: the model decides, up to MOST_DIMENSIONS.
    """
    vector = CHOICE_BYTES + (dimensions or MOST_DIMENSIONS) * NUMBER_BYTES
    return min(LARGEST_REPLY_BYTES, FRAME_BYTES + inputs * vector)
