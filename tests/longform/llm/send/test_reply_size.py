"""The bounds of replies: no honest reply is longer, whatever its language, and they are not much wider than that."""

from __future__ import annotations

import json
import sys

import pytest

from longform.llm.send.reply_size import LARGEST_REPLY_BYTES, chat_bound, embeddings_bound

LONGEST_TOKEN = 128  # bytes; o200k_base has one of 128 spaces
TOKENS = {
    "spaces": " " * LONGEST_TOKEN,
    "control characters": "\0" * LONGEST_TOKEN,
    "quotes": '"' * LONGEST_TOKEN,
    "German": "ß" * (LONGEST_TOKEN // 2),
    "Thai": "\u0e47" * (LONGEST_TOKEN // 3),
    "emoji": "\U0001f9e1" * (LONGEST_TOKEN // 4),
}


def alternative(token: str) -> dict[str, object]:
    return {"token": token, "logprob": -sys.float_info.max, "bytes": list(token.encode())}


def completion(token: str, tokens: int, n: int, top: int | None) -> dict[str, object]:
    """A reply as OpenAI's API gives it, with every field it has, of so many tokens."""
    position = {**alternative(token), "top_logprobs": [alternative(token)] * (top or 0)}
    choice = {
        "index": n,
        "message": {"role": "assistant", "content": token * tokens, "refusal": None, "annotations": []},
        "logprobs": None if top is None else {"content": [position] * tokens, "refusal": None},
        "finish_reason": "length",
        "content_filter_results": {name: {"filtered": False, "severity": "safe"} for name in ("hate", "violence")},
    }
    usage = {
        "prompt_tokens": 10**6,
        "completion_tokens": 10**6,
        "completion_tokens_details": {"reasoning_tokens": 10**6},
    }
    return {"id": "chatcmpl-" + "a" * 64, "created": 10**10, "model": "m" * 99, "choices": [choice] * n, "usage": usage}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize(("tokens", "n"), [(1, 1), (16, 8), (2048, 1), (1024, 3)])
@pytest.mark.parametrize("top", [None, 0, 5, 20])
def test_a_reply_of_nothing_but_the_longest_tokens_is_within_the_bound(
    token: str, tokens: int, n: int, top: int | None
) -> None:
    if tokens * n * (top or 1) > 20_000:
        tokens = 20_000 // n // (top or 1)
    reply = json.dumps(completion(token, tokens, n, top))
    assert len(reply) <= chat_bound(tokens, n, top)


@pytest.mark.parametrize("word", [" Wärme", " тепло", "温度", "\u0e47" * 16, "\U0001f9e1" * 4, " " * 48])
def test_a_reply_that_is_printed_with_one_number_a_line_is_within_the_bound(word: str) -> None:
    reply = json.dumps(completion(word, 100, 1, 20), indent=4)
    assert len(reply) <= chat_bound(100, 1, 20)


def test_a_reasoning_that_the_limit_does_not_count_is_within_the_bound() -> None:
    reply = completion(" a", 1, 2, None)
    for choice in reply["choices"]:  # type: ignore[attr-defined]
        choice["message"]["reasoning_content"] = " Überlegung" * 32_000
    assert len(json.dumps(reply)) <= chat_bound(1, 2)


def test_a_reply_far_beyond_what_was_asked_is_not() -> None:
    assert chat_bound(512) < 2_000_000
    assert chat_bound(512, 1, 20) < 24_000_000
    assert chat_bound(10**9, 100, 20) == LARGEST_REPLY_BYTES
    assert embeddings_bound(1, 1536) < 140_000


@pytest.mark.parametrize(("inputs", "dimensions"), [(1, 1), (1, None), (7, 3072), (64, 1536)])
@pytest.mark.parametrize("indent", [None, 4])
def test_vectors_of_the_longest_numbers_are_within_the_bound(
    inputs: int, dimensions: int | None, indent: int | None
) -> None:
    vector = [-sys.float_info.min] * (dimensions or 16_384)
    assert len(repr(vector[0])) == 24
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(inputs)]
    reply = json.dumps({"object": "list", "data": data, "model": "m" * 99, "usage": {"total_tokens": 9}}, indent=indent)
    assert len(reply) <= embeddings_bound(inputs, dimensions)
