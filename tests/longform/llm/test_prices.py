"""Prices. What providers charge is written down by hand here; it changes only with the pinned list."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flows.axioms import AxiomsConfig
from flows.config.configuration import read
from flows.config.endpoints import EndpointConfig, endpoint_of
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint, Price
from longform.llm.price import cost_nano, price_of

OPENAI = "https://api.openai.com/v1"
tokens = st.integers(0, 10**9)


def hosted(base_url: str, model: str, **fields: Any) -> Endpoint:
    return Endpoint("e", model, base_url=base_url, **fields)


def test_known_providers_have_their_prices() -> None:
    assert price_of(hosted(OPENAI, "gpt-4o-mini")) == Price(0.15, 0.6, 0.075, 0.5)
    assert price_of(hosted("https://lab.openai.azure.com/openai/v1/", "gpt-4o")) == Price(2.5, 10.0, 1.25, 0.5)
    assert price_of(hosted(OPENAI, "text-embedding-3-small")) == Price(0.02, 0.0, None, 0.5)
    llama = "meta-llama/Llama-3.3-70B-Instruct-Turbo"
    assert price_of(hosted("https://api.together.ai/v1", llama)) == Price(0.88, 0.88)
    assert price_of(hosted("https://api.together.ai/v1", llama)) == price_of(
        hosted("https://api.together.xyz/v1", llama)
    )


def test_of_a_price_in_steps_the_first_is_taken() -> None:
    assert price_of(hosted(OPENAI, "gpt-6-astra")) == Price(10.0, 50.0, 1.0, 0.5)


def test_a_service_tier_has_its_own_price_or_none() -> None:
    flex = hosted(OPENAI, "gpt-6-astra", parameters=(("service_tier", "flex"),))
    assert price_of(flex) == Price(5.0, 25.0, 0.5, 0.5)
    assert price_of(hosted(OPENAI, "gpt-4o", parameters=(("service_tier", "gold"),))) is None
    assert price_of(hosted(OPENAI, "gpt-4o", parameters=(("service_tier", "auto"),))) == price_of(
        hosted(OPENAI, "gpt-4o")
    )


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        (OPENAI, "no-such-model-of-theirs"),
        ("http://127.0.0.1:8000/v1", "gpt-4o"),
        ("http://localhost:11434/v1", "llama3.3"),
        ("http://10.1.2.3/v1", "gpt-4o"),
        ("https://llm.example.org/v1", "gpt-4o"),
        ("https://api.perplexity.ai", "sonar"),  # charges for every request as well
    ],
)
def test_what_is_not_known_is_none_and_not_free(base_url: str, model: str) -> None:
    assert price_of(hosted(base_url, model)) is None


def test_the_configured_price_wins_and_the_offline_model_is_free() -> None:
    assert price_of(hosted(OPENAI, "gpt-4o", price=Price(0.0, 0.0))) == Price(0.0, 0.0)
    assert price_of(Endpoint("offline", "offline-rules-1")) == Price(0.0, 0.0)


def test_a_configured_price_loads_no_list_and_the_list_opens_no_connection() -> None:
    code = """
import socket, sys
def refuse(*_): raise AssertionError("a connection")
socket.socket.connect = refuse
from longform.llm.price import price_of
from longform.llm.ask.types import Endpoint, Price
price_of(Endpoint("a", "m", base_url="https://api.openai.com/v1", price=Price(1.0, 1.0)))
price_of(Endpoint("offline", "o"))
assert "genai_prices" not in sys.modules
assert price_of(Endpoint("a", "gpt-4o", base_url="https://api.openai.com/v1"))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_call_costs_what_it_says_on_the_label() -> None:
    price = Price(2.5, 10.0, 1.25)
    assert cost_nano(price, 1_000_000, 0, 1_000_000) == 12_500_000_000
    assert cost_nano(price, 1_000_000, 1_000_000, 0) == 1_250_000_000
    assert cost_nano(price, 1_000_000, 0, 1_000_000, batch=True) == 6_250_000_000
    assert cost_nano(Price(2.5, 10.0), 100, 100, 0) == cost_nano(Price(2.5, 10.0), 100, 0, 0)
    assert cost_nano(Price(0.0001, 0.0), 1, 0, 0) == 1
    assert cost_nano(Price(0.0, 0.0), 10**9, 0, 10**9) == 0


@given(tokens, tokens, tokens, st.integers(0, 10**8), st.integers(0, 10**8), st.booleans())
def test_the_cost_is_exact_and_rounded_up(
    sent: int, cached: int, made: int, per_in: int, per_out: int, batch: bool
) -> None:
    cached = min(cached, sent)
    price = Price(per_in / 10**6, per_out / 10**6, per_in / 10**6, 0.5)
    exact = (Fraction(per_in, 10**6) * sent + Fraction(per_out, 10**6) * made) * 1000 * (Fraction(1, 2) if batch else 1)
    assert ceil(exact) <= cost_nano(price, sent, cached, made, batch=batch) <= ceil(exact) + 1


# ---------------------------------------------------------------- configuration


def test_an_endpoint_carries_what_its_table_says() -> None:
    config = EndpointConfig(
        base_url="http://127.0.0.1:1/v1", model="m", capabilities=["n", "batch"], rpm=600, tpm=90_000,
        price={"input": 2, "output": 8.5, "batch": 0.25},
    )  # fmt: skip
    made = endpoint_of("mine", {"mine": config})
    assert (made.capabilities, made.rpm, made.tpm) == ({"n", "batch"}, 600, 90_000)
    assert made.price == Price(2.0, 8.5, None, 0.25)


def test_a_price_can_be_set_piece_by_piece() -> None:
    given = ["base_url=http://127.0.0.1:1/v1", "model=m", "price.input=2.5", "price.output=10"]
    config = read("axioms", AxiomsConfig, None, [f"endpoints.mine.{setting}" for setting in given])
    assert price_of(endpoint_of("mine", config.endpoints)) == Price(2.5, 10.0)
    assert json.loads(config.model_dump_json())["endpoints"]["mine"]["price"]["input"] == 2.5


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("price=3", r"endpoints\.mine\.price = 3 .*it takes a table, e\.g\. \{ input = 2\.5, output = 10 \}"),
        ("price.input=2.5", r'"endpoints\.mine\.price\.output" is missing'),
        ("price.inputs=2.5", r'no setting "endpoints\.mine\.price\.inputs"; did you mean "input"\?'),
        ("price.input=-1", "greater than or equal to 0"),
        ("price.input=inf", "finite"),
        ("capabilities=n", r"endpoints\.mine\.capabilities = \"n\" .*list"),
        ('capabilities=["json"]', r"capabilities = \"json\" .*'json_schema'"),
        ("rpm=0", "greater than or equal to 1"),
        ("tpm=1.5", "integer"),
    ],
)
def test_a_wrong_setting_of_an_endpoint_is_named(setting: str, said: str) -> None:
    given = ["base_url=http://127.0.0.1:1/v1", "model=m", setting]
    with pytest.raises(UsageError, match=said) as caught:
        read("axioms", AxiomsConfig, None, [f"endpoints.mine.{each}" for each in given])
    assert "\n" not in str(caught.value)


def test_a_price_is_no_identity() -> None:
    plain = hosted(OPENAI, "m")
    priced = hosted(OPENAI, "m", price=Price(1.0, 2.0), rpm=5, tpm=6)
    assert plain.identity() == priced.identity()


def test_a_batch_cannot_cost_more_than_calls_do() -> None:
    with pytest.raises(ValidationError):
        EndpointConfig(base_url="http://127.0.0.1:1/v1", model="m", price={"input": 1, "output": 1, "batch": 2})
