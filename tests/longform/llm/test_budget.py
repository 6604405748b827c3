"""The budget: what is spent and on its way never exceeds the cap, whatever replies cost in the end."""

from __future__ import annotations

import json
import random
import threading
from contextlib import closing
from pathlib import Path

import pytest
from http_server import Answer, Asked, document, serve
from hypothesis import given
from hypothesis import strategies as st

from longform.errors import BudgetError, UsageError
from longform.llm.ask.types import Endpoint, Price, Request
from longform.llm.models import Models
from longform.llm.price import Budget
from longform.llm.responses.store import open_responses

COSTS = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), max_size=200)


@given(cap=st.integers(0, 20_000), costs=COSTS, seed=st.integers(0, 99))
def test_what_is_spent_stays_below_the_cap_when_bounds_are_bounds(
    cap: int, costs: list[tuple[int, int]], seed: int
) -> None:
    budget, flying, dice = Budget(cap), [], random.Random(seed)
    for bound, cost in costs:
        reserved = budget.reserve(bound)
        if reserved is not None:
            flying.append((reserved, min(cost, bound)))
        assert budget.spent_nano + budget.reserved_nano <= cap
        if flying and dice.random() < 0.5:
            budget.settle(*flying.pop(dice.randrange(len(flying))))
            assert budget.spent_nano + budget.reserved_nano <= cap
    for reserved, cost in flying:
        budget.settle(reserved, cost)
    assert budget.spent_nano <= cap
    assert budget.reserved_nano == 0


def test_a_reply_dearer_than_its_bound_raises_what_is_set_aside_later() -> None:
    budget = Budget(1_000)
    first = budget.reserve(100)
    assert first == 100
    budget.settle(first, 150)
    assert budget.reserve(100) == 150


def test_without_a_cap_it_only_counts() -> None:
    budget = Budget()
    for _ in range(3):
        reserved = budget.reserve(10**15)
        assert reserved is not None
        budget.settle(reserved, 7)
    assert (budget.spent_nano, budget.calls) == (21, 3)


def test_who_waits_for_money_is_woken_once_when_some_is_freed() -> None:
    budget, woken = Budget(100), []
    first = budget.reserve(100)
    assert first is not None
    assert budget.reserve(1) is None
    budget.freed.append(lambda: woken.append(1))
    budget.settle(first, 10)
    budget.settle(0, 0)
    assert woken == [1]
    assert budget.reserve(90) == 90


def test_many_threads_together_keep_below_the_cap() -> None:
    budget = Budget(10_000)

    def spend() -> None:
        for _ in range(500):
            reserved = budget.reserve(13)
            if reserved is not None:
                budget.settle(reserved, 7)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.reserved_nano == 0
    assert budget.spent_nano <= 10_000
    spend()  # what the threads kept from each other to the end
    assert 10_000 - 13 < budget.spent_nano <= 10_000


def test_a_cap_without_a_price_is_refused_every_time_it_is_asked(tmp_path: Path) -> None:
    endpoint = Endpoint(name="mine", model="m", base_url="http://127.0.0.1:9/v1")
    request = Request((("user", "why?"),), "axioms/closed_book")
    with Models(tmp_path / "r.sqlite", max_cost=1.0) as models:
        for _ in range(2):
            with pytest.raises(UsageError, match="price of model m"):
                list(models.client(endpoint).ask([(0, request)]))


def thinks(asked: Asked) -> Answer:
    """A reply of ten tokens after three times as much reasoning as its limit allows for the reply."""
    thought = 3 * json.loads(asked.body)["max_tokens"]
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": thought + 10,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    choice = {"message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}
    return document({"model": "thinker", "choices": [choice], "usage": usage})


def test_reasoning_beside_the_limit_never_exceeds_a_cap(tmp_path: Path) -> None:
    """Each call costs USD 0.00301, and a cap of 0.02 has room for six."""
    cap, where = 0.02, tmp_path / "r.sqlite"
    with serve() as server:
        server.on("/v1/chat/completions", thinks)
        endpoint = Endpoint(
            "mine", "m", base_url=f"{server.url}/v1", limit_field="max_tokens", concurrency=8, price=Price(0.0, 1.0),
            capabilities=frozenset({"reasoning"}),
        )  # fmt: skip
        requests = [(n, Request((("user", f"why {n}?"),), "t", max_tokens=1_000)) for n in range(40)]
        with Models(where, max_cost=cap, run="r", dataset="d") as models, pytest.raises(BudgetError):
            list(models.client(endpoint).ask(requests))
        asked = len(server.asked)
    with closing(open_responses(where, read_only=True)) as store:
        (line,) = store.ledger("d")
    assert asked == line["calls"] == 6
    assert line["cost_nano"] == 6 * 3_010_000 <= cap * 1e9
    assert (line["output_tokens"], line["reasoning_tokens"]) == (6 * 3_010, 6 * 3_000)


def test_without_the_capability_such_reasoning_is_a_lie_that_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    with serve() as server:
        server.on("/v1/chat/completions", thinks)
        endpoint = Endpoint("mine", "m", base_url=f"{server.url}/v1", limit_field="max_tokens", price=Price(0.0, 1.0))
        with Models(tmp_path / "r.sqlite", max_cost=1.0, say=said.append) as models:
            request = Request((("user", "why?"),), "t", max_tokens=1_000)
            list(models.client(endpoint).ask([(0, request)]))
            assert models.budget.spent_nano == 1_016_000
    assert 'add "reasoning" to its capabilities' in " ".join(said)


def claims_the_most(asked: Asked) -> Answer:
    """A reply that claims all that is believed of it: more than that is cut to the most."""
    number = json.loads(asked.body).get("n", 1)
    usage = {
        "prompt_tokens": 10**9,
        "completion_tokens": 10**9,
        "completion_tokens_details": {"reasoning_tokens": 10**9},
    }
    usage |= {"prompt_tokens_details": {"cached_tokens": 10**9}} if len(asked.body) % 2 else {}
    choice = {"message": {"role": "assistant", "content": "So."}, "finish_reason": "stop"}
    choices = [{"index": n, **choice} for n in range(number)]
    return document({"model": "m", "choices": choices, "usage": usage})


@pytest.mark.parametrize("capabilities", [(), ("n",), ("reasoning",), ("n", "reasoning")])
@pytest.mark.parametrize("cached_input", [None, 0.1, 9.0])
def test_a_server_that_always_claims_the_most_never_exceeds_a_cap(
    tmp_path: Path, capabilities: tuple[str, ...], cached_input: float | None
) -> None:
    """After a long question come short ones, whose claims are much more than what was sent."""
    texts = ["why? " + "ü€" * 150, *(f"why {n}" for n in range(200))]
    requests = [(n, Request((("user", text),), "t", max_tokens=8, samples=3)) for n, text in enumerate(texts)]
    with serve() as server:
        server.on("/v1/chat/completions", claims_the_most)
        endpoint = Endpoint(
            "mine", "m", base_url=f"{server.url}/v1", limit_field="max_tokens", concurrency=16,
            price=Price(1.0, 3.0, cached_input=cached_input), capabilities=frozenset(capabilities),
        )  # fmt: skip
        with Models(tmp_path / "r.sqlite", max_cost=0.05, run="r", dataset="d") as models:
            with pytest.raises(BudgetError):
                list(models.client(endpoint).ask(requests))
            assert 20_000_000 < models.budget.spent_nano <= 50_000_000
    with closing(open_responses(tmp_path / "r.sqlite", read_only=True)) as store:
        (line,) = store.ledger("d")
    assert line["cost_nano"] == models.budget.spent_nano
    assert line["calls"] >= 2


def test_texts_to_embed_never_exceed_a_cap(tmp_path: Path) -> None:
    def embedded(asked: Asked) -> Answer:
        texts = json.loads(asked.body)["input"]
        data = [{"index": n, "embedding": [1.0, 2.0]} for n in range(len(texts))]
        return document({"model": "m", "data": data, "usage": {"prompt_tokens": 10**9}})

    with serve() as server:
        server.on("/v1/embeddings", embedded)
        endpoint = Endpoint("mine", "m", base_url=f"{server.url}/v1", concurrency=16, price=Price(1.0, 3.0))
        with Models(tmp_path / "r.sqlite", max_cost=0.05) as models:
            with pytest.raises(BudgetError):
                models.client(endpoint).embed([f"text {n} " + "ü" * 40 for n in range(9_000)])
            assert 0 < models.budget.spent_nano <= 50_000_000
