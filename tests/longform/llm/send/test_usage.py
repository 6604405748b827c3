"""The bounds of a server's usage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.llm.send.usage import bounded_usage

ASKED = {"sent_bytes": 1_000, "max_tokens": 512, "n": 1, "messages": 2}


def test_true_usage_stays() -> None:
    assert bounded_usage((250, 100, 512), 300, **ASKED) == ((250, 100, 512), 300, None)
    assert bounded_usage((0, 0, 0), 0, **ASKED) == ((0, 0, 0), 0, None)
    assert bounded_usage((40, 0, 4 * 512), 0, **{**ASKED, "n": 4}) == ((40, 0, 2_048), 0, None)
    assert bounded_usage((900, 0, 0), 0, sent_bytes=1_000, max_tokens=0) == ((900, 0, 0), 0, None)


def test_a_template_may_add_some_hundred_tokens() -> None:
    assert bounded_usage((310, 0, 5), 0, sent_bytes=90, max_tokens=8)[2] is None


def test_reasoning_that_a_server_counts_beside_the_limit_stays() -> None:
    beside = {**ASKED, "reasoning_beside": True}
    assert bounded_usage((9, 0, 1_900), 1_400, **beside) == ((9, 0, 1_900), 1_400, None)
    assert bounded_usage((9, 0, 9_900), 9_800, **beside)[0] == (9, 0, 4 * 512 + 16)
    assert bounded_usage((9, 0, 1_900), 1_400, **ASKED)[0] == (9, 0, 528)
    assert bounded_usage((9, 0, 4_500), 0, **ASKED) == (
        (9, 0, 528),
        0,
        "usage says 4,500 output tokens where 512 were allowed",
    )


@pytest.mark.parametrize(
    ("tokens", "reasoning", "counted", "lie"),
    [
        ((10, 0, 10**30), 0, (10, 0, 528), "usage says 10^30 output tokens where 512 were allowed"),
        ((10**30, 0, 5), 0, (1_544, 0, 5), "usage says 10^30 input tokens where 1,000 bytes were sent"),
        ((10, 11, 5), 0, (10, 10, 5), "usage says 11 cached tokens where the input has 10"),
        ((-3, 0, 5), 0, (0, 0, 5), "usage says -3 input tokens where 1,000 bytes were sent"),
        ((10, 0, 5.5), 0, (10, 0, 0), "usage says no number of output tokens where 512 were allowed"),
        ((10, 0, "5"), 0, (10, 0, 0), "usage says no number of output tokens where 512 were allowed"),
        ((10, 0, True), 0, (10, 0, 0), "usage says no number of output tokens where 512 were allowed"),
        ((10, 0, 5), 6, (10, 0, 5), "usage says 6 reasoning tokens where the output has 5"),
        ((10, 0, 10**30), 10**30, (10, 0, 528), "usage says 10^30 output tokens where 512 were allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_true_counts_as_the_bound_and_is_named(
    tokens: tuple[Any, Any, Any], reasoning: int, counted: tuple[int, int, int], lie: str
) -> None:
    found, _, said = bounded_usage(tokens, reasoning, **ASKED)
    assert (found, said) == (counted, lie)


NUMBER = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**40)


@given(st.tuples(NUMBER, NUMBER, NUMBER), NUMBER, st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 8))
def test_no_usage_leaves_its_bounds(
    tokens: tuple[Any, Any, Any], reasoning: Any, sent_bytes: int, max_tokens: int, n: int
) -> None:
    asked = {"sent_bytes": sent_bytes, "max_tokens": max_tokens, "n": n}
    (read, cached, written), thought, lie = bounded_usage(tokens, reasoning, **asked)
    assert 0 <= cached <= read <= sent_bytes + 600
    assert 0 <= thought <= written <= max_tokens * n + 16 * n
    assert bounded_usage((read, cached, written), thought, **asked) == ((read, cached, written), thought, None)
    assert lie is None or len(lie) < 100
    if all(type(each) is int for each in (*tokens, reasoning)) and lie is None:
        assert (read, cached, written, thought) == (*tokens, reasoning)
