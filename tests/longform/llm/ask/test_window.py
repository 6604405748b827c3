"""Whether a request fits into a model's window, and what a window changes of an endpoint."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flows.config.endpoints import EndpointConfig, endpoint_of
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint, Price, Request
from longform.llm.ask.window import over_window

SERVED = Endpoint("mine", "m", base_url="http://127.0.0.1:1/v1")
PROSE = (
    "The bitterness units of a beer tell you how much iso-alpha acid it holds, not how bitter it tastes. A stout with "
    "60 IBU may seem milder than a pale ale with 40, because roasted malt and residual sugar hide the hops. If you "
    "want to compare two beers, look at the ratio of bitterness to original gravity instead."
)  # 70 tokens, in o200k_base as in cl100k_base


def over(window: int | None, messages: list[str], max_tokens: int = 100) -> str | None:
    said = tuple(("user", message) for message in messages)
    return over_window(replace(SERVED, window=window), Request(said, "t", max_tokens))


@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([], 0),
        ([""], 5),  # 4 of the message, and a tenth, rounded up
        (["", ""], 9),
        (["123" * 16], 22),  # a token for three digits: 1.1 · (16 + 4)
        (["123" * 96] * 10, 1_100),
    ],
)
def test_a_request_fits_if_a_tenth_more_than_its_prompt_and_its_reply_do(messages: list[str], prompt: int) -> None:
    assert over(prompt + 100, messages) is None
    assert over(prompt + 99, messages) is not None
    assert over(prompt + 2_000, messages, 2_000) is None
    assert over(prompt + 1_999, messages, 2_000) is not None


def test_the_room_for_a_prompt_is_above_what_real_vocabularies_count_but_not_by_much() -> None:
    assert over(70 + 100, [PROSE]) is not None
    assert over(95 + 100, [PROSE]) is None


def test_what_is_said_names_prompt_reply_and_window() -> None:
    said = over(3_000, ["123" * 996] * 10, 2_048)
    assert said == "some 11,000 tokens and 2,048 of the reply; the window has 3,000"


@given(st.lists(st.text(max_size=200)), st.integers(1, 10_000))
def test_without_a_window_everything_fits(messages: list[str], max_tokens: int) -> None:
    assert over(None, messages, max_tokens) is None


@given(st.lists(st.text(max_size=80), max_size=4), st.text(max_size=80), st.integers(1, 900), st.integers(1, 1_000))
def test_more_to_read_or_write_never_fits_where_less_does_not(
    messages: list[str], more: str, max_tokens: int, window: int
) -> None:
    if over(window, messages, max_tokens):
        assert over(window, [*messages, more], max_tokens)
        assert over(window, messages, max_tokens + 1)
        assert over(window - 1, messages, max_tokens)
    else:
        assert over(window + 1, messages, max_tokens) is None


# ---------------------------------------------------------------- identity and setting


OTHERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "parameters": {"parameters": (("temperature", 0.5),)},
    "schema": {"capabilities": frozenset({"json_schema"})},
    "responses": {"api": "responses"},
    "limits": {"rpm": 3, "tpm": 4, "price": Price(1, 2), "concurrency": 2, "timeout_seconds": 3.0},
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_the_identity_of_an_endpoint_changes_only_where_a_window_is_set(others: dict[str, Any]) -> None:
    before = replace(SERVED, **others)
    assert "window" not in before.identity()
    windows = [replace(before, window=window).identity() for window in (8_192, 8_193)]
    assert windows == [{**before.identity(), "window": window} for window in (8_192, 8_193)]


def test_the_identity_of_an_endpoint_without_a_window_is_that_of_earlier_releases() -> None:
    assert SERVED.identity() == {"endpoint": "mine", "model": "m", "parameters": {}}


def configured(**settings: Any) -> Endpoint:
    config = EndpointConfig.model_validate({"base_url": "http://127.0.0.1:1/v1", "model": "m", **settings})
    return endpoint_of("mine", {"mine": config})


def test_the_setting_window_of_an_endpoint_is_its_window_and_none_by_default() -> None:
    assert configured(window=8_192).window == 8_192
    assert configured(window=8_192) == replace(configured(), window=8_192)
    assert configured().window is None
    assert configured() == SERVED
    assert endpoint_of("offline", {}).window is None


@pytest.mark.parametrize("window", [0, -1, 1.5, 8_192.0, "8192", True, [8_192]])
def test_a_window_that_is_no_whole_number_of_tokens_is_refused_by_its_name(window: Any) -> None:
    with pytest.raises(ValidationError) as error:
        configured(window=window)
    (found,) = error.value.errors()
    assert found["loc"] == ("window",)


def test_a_window_of_an_unknown_endpoint_is_no_setting() -> None:
    with pytest.raises(UsageError, match=re.escape('There is no endpoint "other"; there is offline, mine.')):
        endpoint_of("other", {"mine": EndpointConfig(base_url="http://127.0.0.1:1/v1", model="m", window=1)})
