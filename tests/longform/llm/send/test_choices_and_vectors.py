"""Faults in replies that have several parts: choices of one call (`n`), vectors of many texts, log-probabilities. Of
such a reply what can be used is used, and only the rest is bought again.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from shop_server import choice, honest, shop, vector, wanted

from longform.errors import EndpointError, Incomplete
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models

QUESTIONS, SAMPLES = 6, 3
Spoil = Callable[[dict[str, Any]], dict[str, Any]]


def endpoint(url: str, *capabilities: str) -> Endpoint:
    return Endpoint("mine", "m", base_url=url, concurrency=4, capabilities=frozenset(capabilities), timeout_seconds=20)


def questions(number: int = QUESTIONS, samples: int = SAMPLES, **more: Any) -> Iterator[tuple[int, Request]]:
    for n in range(number):
        yield n, Request((("user", f"Question {n}"),), task="x", max_tokens=64, samples=samples, **more)


def ask(where: Path, url: str, *capabilities: str, **more: Any) -> list[tuple[int, Answer | Failure]]:
    with Models(where, first_pause_seconds=0.01) as models:
        return list(models.client(endpoint(url, *capabilities)).ask(questions(**more)))


def of_each_first(spoil: Spoil) -> Callable[[dict[str, Any], int], dict[str, Any] | None]:
    """A script: the first reply to each question is spoilt."""
    seen: set[str] = set()

    def answer(asked: dict[str, Any], place: int) -> dict[str, Any] | None:
        what = str(wanted(asked)[0])
        if what in seen:
            return None
        seen.add(what)
        return spoil(honest(asked))

    return answer


def changed(place: int, **fields: Any) -> Spoil:
    """The choice at this place has other fields."""

    def spoil(document: dict[str, Any]) -> dict[str, Any]:
        document["choices"][place] |= fields
        return document

    return spoil


def replaced(place: int, by: Any) -> Spoil:
    def spoil(document: dict[str, Any]) -> dict[str, Any]:
        document["choices"][place] = by
        return document

    return spoil


def only(number: int) -> Spoil:
    return lambda document: {**document, "choices": document["choices"][:number]}


CHOICES: dict[str, tuple[Spoil, int]] = {
    "one choice": (only(1), 2),
    "two choices": (only(2), 1),
    "null": (replaced(1, None), 1),
    "a text": (replaced(0, "Question"), 1),
    "no message": (changed(0, message=None), 1),
    "a message that is a text": (changed(2, message="so"), 1),
    "broken off": (changed(1, finish_reason="error"), 1),
    "an error": (changed(1, error={"message": "overloaded"}), 1),
    "content is a number": (changed(2, message={"content": 7}), 1),
    "two are malformed": (lambda document: replaced(0, None)(replaced(2, {})(document)), 2),
}


@pytest.mark.parametrize("fault", CHOICES)
def test_of_a_reply_with_too_few_usable_choices_only_the_others_are_bought_again(fault: str, tmp_path: Path) -> None:
    spoil, missing = CHOICES[fault]
    with shop(of_each_first(spoil)) as sells:
        came = ask(tmp_path / "r.sqlite", sells.url, "n")
        assert Counter(n for n, _ in came) == dict.fromkeys(range(QUESTIONS), SAMPLES)
        assert all(isinstance(each, Answer) and each.text.startswith(f"Question {n}") for n, each in came)
        assert set(sells.sold.values()) == {SAMPLES + missing}
        calls = len(sells.calls)
        again = ask(tmp_path / "r.sqlite", sells.url, "n")
        assert len(sells.calls) == calls
    assert [each.text for _, each in again if isinstance(each, Answer)] == [
        each.text for _, each in came if isinstance(each, Answer)
    ]


WHOLE: dict[str, Spoil] = {
    "more choices": lambda d: {**d, "choices": d["choices"] + [choice(9, "extra")] * 5},
    "in other order": lambda d: {**d, "choices": d["choices"][::-1]},
    "without index": lambda d: {
        **d,
        "choices": [{k: v for k, v in each.items() if k != "index"} for each in d["choices"]],
    },
    "equal indexes": lambda d: {**d, "choices": [{**each, "index": 0} for each in d["choices"]]},
    "index is a text": lambda d: {**d, "choices": [{**each, "index": "first"} for each in d["choices"]]},
    "no usage": lambda d: {k: v for k, v in d.items() if k != "usage"},
    "usage null": lambda d: {**d, "usage": None},
    "usage in each choice": lambda d: {**d, "choices": [{**each, "usage": d["usage"]} for each in d["choices"]]},
    "usage is a list": lambda d: {**d, "usage": [d["usage"], d["usage"]]},
}


@pytest.mark.parametrize("oddity", WHOLE)
def test_choices_that_are_only_odd_are_used(oddity: str, tmp_path: Path) -> None:
    with shop(of_each_first(WHOLE[oddity])) as sells:
        came = ask(tmp_path / "r.sqlite", sells.url, "n")
        assert set(sells.sold.values()) == {SAMPLES}
    assert len(came) == QUESTIONS * SAMPLES
    texts = {each.text for _, each in came if isinstance(each, Answer)}
    assert texts == {f"Question {n}: {sample}." for n in range(QUESTIONS) for sample in range(SAMPLES)}


def test_one_filtered_choice_is_a_failure_and_the_others_are_answers(tmp_path: Path) -> None:
    spoil = changed(1, finish_reason="content_filter", message={"role": "assistant", "content": None})
    with shop(of_each_first(spoil)) as sells:
        came = ask(tmp_path / "r.sqlite", sells.url, "n")
        assert set(sells.sold.values()) == {SAMPLES}
    assert Counter(type(each).__name__ for _, each in came) == {"Answer": 2 * QUESTIONS, "Failure": QUESTIONS}
    assert {each.kind for _, each in came if isinstance(each, Failure)} == {"filter"}


def test_one_cut_off_choice_is_asked_alone_with_more_room(tmp_path: Path) -> None:
    with shop(of_each_first(changed(2, finish_reason="length"))) as sells:
        came = ask(tmp_path / "r.sqlite", sells.url, "n")
        assert all(isinstance(each, Answer) for _, each in came)
        assert set(sells.sold.values()) == {SAMPLES + 1}


def test_a_server_that_never_gives_a_usable_choice_is_given_up(tmp_path: Path) -> None:
    with shop(lambda asked, place: {"choices": [None] * asked.get("n", 1)}) as sells:
        with pytest.raises(Incomplete, match="questions got no answer"):
            ask(tmp_path / "r.sqlite", sells.url, "n", number=2)
        assert max(sells.sold.values()) <= 4 * SAMPLES


# ---------------------------------------------------------------- vectors

TEXTS = [f"text {'x' * n}" for n in range(70)]


def embed(where: Path, url: str, texts: list[str] = TEXTS) -> list[list[float]]:
    with Models(where, first_pause_seconds=0.01) as models:
        return models.client(endpoint(url)).embed(texts)


def item(place: int, **fields: Any) -> Spoil:
    def spoil(document: dict[str, Any]) -> dict[str, Any]:
        document["data"][place] |= fields
        return document

    return spoil


def packed(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


SPOILT_VECTORS: dict[str, Spoil] = {
    "one missing": lambda d: {**d, "data": d["data"][:3] + d["data"][4:]},
    "the last missing": lambda d: {**d, "data": d["data"][:-1]},
    "null": item(2, embedding=None),
    "empty": item(2, embedding=[]),
    "texts": item(2, embedding=["a", "b"]),
    "not a number": item(2, embedding=[math.nan, 1.0]),
    "infinite": item(2, embedding=[1e999, 1.0]),
    "longer than the others": item(2, embedding=[1.0, 2.0, 3.0]),
    "an index twice": item(2, index=1),
    "an index beyond": item(2, index=1_000),
}


@pytest.mark.parametrize("fault", SPOILT_VECTORS)
def test_of_a_reply_with_an_unusable_vector_only_its_text_is_bought_again(fault: str, tmp_path: Path) -> None:
    spoil, seen = SPOILT_VECTORS[fault], []

    def answer(asked: dict[str, Any], place: int) -> bytes | None:
        if seen:
            return None
        seen.append(asked)
        return json.dumps(spoil(honest(asked))).encode()

    with shop(answer) as sells:
        assert embed(tmp_path / "r.sqlite", sells.url) == [vector(text) for text in TEXTS]
        again = sum(sells.sold.values()) - len(TEXTS)
        calls = len(sells.calls)
        embed(tmp_path / "r.sqlite", sells.url)
        assert len(sells.calls) == calls
    assert again <= (2 if fault == "an index twice" else 1)


ODD_VECTORS: dict[str, Spoil] = {
    "in other order": lambda d: {**d, "data": d["data"][::-1]},
    "without index": lambda d: {**d, "data": [{"embedding": each["embedding"]} for each in d["data"]]},
    "base64": lambda d: {**d, "data": [{**each, "embedding": packed(each["embedding"])} for each in d["data"]]},
    "whole numbers": lambda d: {
        **d,
        "data": [{**each, "embedding": list(map(int, each["embedding"]))} for each in d["data"]],
    },
    "no usage": lambda d: {"data": d["data"]},
}


@pytest.mark.parametrize("oddity", ODD_VECTORS)
def test_vectors_that_are_only_odd_are_used(oddity: str, tmp_path: Path) -> None:
    with shop(lambda asked, place: ODD_VECTORS[oddity](honest(asked))) as sells:
        assert embed(tmp_path / "r.sqlite", sells.url) == [vector(text) for text in TEXTS]
        assert set(sells.sold.values()) == {1}


def test_vectors_of_other_lengths_in_later_replies_are_an_error_that_names_both(tmp_path: Path) -> None:
    def answer(asked: dict[str, Any], place: int) -> dict[str, Any]:
        document = honest(asked)
        for each in document["data"] if place else []:
            each["embedding"].append(1.0)
        return document

    with shop(answer) as sells, pytest.raises(EndpointError, match="vectors of 2 and of 3 numbers"):
        embed(tmp_path / "r.sqlite", sells.url)


def test_a_server_that_gives_only_the_first_of_many_vectors_is_given_up(tmp_path: Path) -> None:
    """Else each call would bring one text on, and buy the others once more."""
    with shop(lambda asked, place: {"data": honest(asked)["data"][:1]}) as sells:
        with pytest.raises(Incomplete, match="tries"):
            embed(tmp_path / "r.sqlite", sells.url, TEXTS[:40])
        assert max(sells.sold.values()) <= 4


def test_two_threads_that_embed_the_same_texts_buy_each_once(tmp_path: Path) -> None:
    with shop() as sells, Models(tmp_path / "r.sqlite") as models:
        found: list[list[list[float]]] = []

        def work() -> None:
            found.append(models.client(endpoint(sells.url)).embed(TEXTS))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert found == [[vector(text) for text in TEXTS]] * 4
        assert set(sells.sold.values()) == {1}


# ---------------------------------------------------------------- log-probabilities

LOGPROBS: dict[str, Any] = {
    "missing": {},
    "null": {"logprobs": None},
    "a list": {"logprobs": []},
    "content null": {"logprobs": {"content": None}},
    "content a text": {"logprobs": {"content": "no"}},
    "minus infinity": {
        "logprobs": {"content": [{"token": "a", "logprob": -9999.0, "bytes": None, "top_logprobs": []}]}
    },
    "entries null": {"logprobs": {"content": [None, 7]}},
}


@pytest.mark.parametrize("fault", LOGPROBS)
def test_log_probabilities_that_are_odd_do_not_cost_an_answer(fault: str, tmp_path: Path) -> None:
    with shop(lambda asked, place: changed(0, **LOGPROBS[fault])(honest(asked))) as sells:
        came = ask(tmp_path / "r.sqlite", sells.url, "logprobs", samples=1, logprobs=5)
        assert len(came) == QUESTIONS
        assert set(sells.sold.values()) == {1}


def test_log_probabilities_that_are_too_many_are_broken_off_and_paid_once(tmp_path: Path) -> None:
    entry = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    huge = {"logprobs": {"content": [entry] * 200_000}}
    with shop(lambda asked, place: changed(0, **huge)(honest(asked))) as sells:
        for _ in range(2):
            ((_, failure),) = ask(tmp_path / "r.sqlite", sells.url, "logprobs", samples=1, logprobs=0, number=1)
            assert isinstance(failure, Failure)
            assert failure.kind == "oversized"
            assert "more than" in failure.message
        assert sum(sells.sold.values()) == 1
