"""The bounds of a server's usage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Endpoint
from longform.llm.send.usage import bounded_usage, most_output

PLAIN = Endpoint("mine", "m", base_url="http://m/v1")
BESIDE = replace(PLAIN, capabilities=frozenset({"reasoning"}))
ASKED: dict[str, Any] = {"endpoint": PLAIN, "most_input": 1_512, "limit": 512}


def test_true_usage_stays() -> None:
    assert bounded_usage((250, 100, 512), 300, **ASKED) == ((250, 100, 512), 300, None)
    assert bounded_usage((0, 0, 0), 0, **ASKED) == ((0, 0, 0), 0, None)
    four = {**ASKED, "limit": 2_048, "number": 4}
    assert bounded_usage((40, 0, 4 * 512), 0, **four) == ((40, 0, 2_048), 0, None)
    assert bounded_usage((900, 0, 0), 0, **{**ASKED, "limit": 0}) == ((900, 0, 0), 0, None)


def test_a_template_may_add_some_hundred_tokens() -> None:
    assert bounded_usage((310, 0, 5), 0, **{**ASKED, "most_input": upper_bound("?" * 90)})[2] is None


def test_reasoning_that_a_server_counts_beside_the_limit_stays() -> None:
    beside = {**ASKED, "endpoint": BESIDE}
    assert bounded_usage((9, 0, 1_900), 1_400, **beside) == ((9, 0, 1_900), 1_400, None)
    assert bounded_usage((9, 0, 9_900), 9_800, **beside)[0] == (9, 0, 4 * 512 + 16)
    assert bounded_usage((9, 0, 1_900), 1_400, **ASKED)[0] == (9, 0, 528)
    assert bounded_usage((9, 0, 4_500), 0, **ASKED) == (
        (9, 0, 528),
        0,
        "usage claims 4,500 output tokens where 512 were allowed",
    )


@pytest.mark.parametrize(
    ("tokens", "reasoning", "counted", "untrue"),
    [
        ((10, 0, 10**30), 0, (10, 0, 528), "usage claims 10^30 output tokens where 512 were allowed"),
        ((10**30, 0, 5), 0, (1_512, 0, 5), "usage claims 10^30 input tokens where 1,512 can be"),
        ((10, 11, 5), 0, (10, 10, 5), "usage claims 11 cached tokens where the input has 10"),
        ((-3, 0, 5), 0, (0, 0, 5), "usage claims -3 input tokens where 1,512 can be"),
        ((10, 0, 5.5), 0, (10, 0, 0), "usage claims no number of output tokens where 512 were allowed"),
        ((10, 0, "5"), 0, (10, 0, 0), "usage claims no number of output tokens where 512 were allowed"),
        ((10, 0, True), 0, (10, 0, 0), "usage claims no number of output tokens where 512 were allowed"),
        ((10, 0, 5), 6, (10, 0, 5), "usage claims 6 reasoning tokens where the output has 5"),
        ((10, 0, 10**30), 10**30, (10, 0, 528), "usage claims 10^30 output tokens where 512 were allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_true_counts_as_the_bound_and_is_named(
    tokens: tuple[Any, Any, Any], reasoning: int, counted: tuple[int, int, int], untrue: str
) -> None:
    found, _, told = bounded_usage(tokens, reasoning, **ASKED)
    assert (found, told) == (counted, untrue)


NUMBER = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**40)


@given(
    st.tuples(NUMBER, NUMBER, NUMBER),
    NUMBER,
    st.integers(0, 10**6),
    st.integers(0, 10**5),
    st.integers(1, 8),
    st.sampled_from([PLAIN, BESIDE]),
)
def test_no_usage_leaves_what_is_reserved(
    tokens: tuple[Any, Any, Any], reasoning: Any, most_input: int, limit: int, number: int, endpoint: Endpoint
) -> None:
    asked: dict[str, Any] = {"endpoint": endpoint, "most_input": most_input, "limit": limit, "number": number}
    (read, cached, written), thought, untrue = bounded_usage(tokens, reasoning, **asked)
    assert 0 <= cached <= read <= most_input
    assert 0 <= thought <= written <= most_output(endpoint, limit, number)
    assert bounded_usage((read, cached, written), thought, **asked) == ((read, cached, written), thought, None)
    assert untrue is None or len(untrue) < 100
    if all(type(each) is int for each in (*tokens, reasoning)) and untrue is None:
        assert (read, cached, written, thought) == (*tokens, reasoning)
