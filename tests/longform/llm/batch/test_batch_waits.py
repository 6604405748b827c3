"""Without consent to single calls all of a stage goes through batches: repairs, second attempts, failures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import build_axioms
from pydantic import BaseModel
from standin_server import serve

from longform.errors import Incomplete
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models
from longform.llm.responses.store import open_responses
from longform.llm.retry import Retry
from tests.longform.llm.batch.test_batch import COST, KEY, Item, Killed, Place, completion, items_of
from tests.longform.llm.batch.test_batch_faults import CHAT, Faulty, Provider

NO_RETRY = Retry()


class Verdict(BaseModel):
    """What is asked for."""

    verdict: bool


@pytest.fixture
def provider() -> Iterator[Faulty]:
    made = Faulty()
    yield made
    made.close()


@pytest.fixture
def place(provider: Faulty, tmp_path: Path) -> Place:
    return Place(provider, tmp_path)


def cut_off_at_first(key: str, body: dict[str, Any]) -> tuple[int, Any]:
    """The reply is cut off unless it has twice the room."""
    return 200, says("too lo", "length") if body["max_completion_tokens"] == 50 else says("Whole.")


def questions(number: int, **more: Any) -> list[Request]:
    return [Request((("user", f"What is tea number {n}?"),), task="x", max_tokens=50, **more) for n in range(number)]


def asked(
    place: Place,
    provider: Provider,
    requests: list[Request],
    *,
    retry: Retry = NO_RETRY,
    online: bool = False,
    run: str = "1",
) -> list[Answer | Failure]:
    """The results of these questions, as a build in batch mode gets them."""
    can = frozenset({"batch", "json_schema"})
    endpoint = Endpoint("e", "m", base_url=provider.url, key_env="E", capabilities=can)
    given: dict[str, Any] = {"stage": "s", "recipe": "", "folder": place.folder / "b", "say": lambda _: None}
    with Models(place.where, key_of=lambda _: KEY, retry=retry, dataset="d", run=run) as models:
        while models.prefetch(endpoint, requests, **given, online=online) and not online:
            pass
        client = models.client(endpoint, stage="s")
        return [found for _, found in client.ask((None, each) for each in requests)]


def says(text: str, finish: str = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": {}}


def single_calls(provider: Provider) -> int:
    return provider.log.count("POST /chat/completions")


def paid_for(place: Place) -> Counter[str]:
    """How often each key was paid, by the ledger."""
    with closing(open_responses(place.where, read_only=True)) as store:
        rows = store._database.rows("SELECT hex(key), count(*) FROM ledger GROUP BY key")
    return Counter({key.lower(): number for key, number in rows})


# further attempts


def test_a_reply_that_is_cut_off_is_asked_for_with_twice_the_room_in_the_next_batch(
    place: Place, provider: Faulty
) -> None:
    provider.answer = cut_off_at_first
    found = asked(place, provider, questions(5))
    assert [each.text for each in found if isinstance(each, Answer)] == ["Whole."] * 5
    assert (provider.sizes, single_calls(provider)) == ([5, 5], 0)
    assert set(provider.bought.values()) == {1}


def test_a_reply_that_is_not_in_the_form_is_repaired_in_the_next_batch(place: Place, provider: Faulty) -> None:
    def answer(key: str, body: dict[str, Any]) -> tuple[int, Any]:
        good = len(body["messages"]) > 1 or "number 1?" in body["messages"][0]["content"]
        return 200, says('{"verdict": true}' if good else "I think so")

    provider.answer = answer
    found = asked(place, provider, questions(4, reply=Verdict, form="json"))
    assert [each.value.verdict for each in found if isinstance(each, Answer)] == [True] * 4
    assert (provider.sizes, single_calls(provider)) == ([4, 3], 0)
    assert asked(place, provider, questions(4, reply=Verdict, form="json"))
    assert provider.sizes == [4, 3]


def test_a_repair_that_a_batch_leaves_unanswered_waits_for_the_next_run(place: Place, provider: Faulty) -> None:
    provider.answer = cut_off_at_first
    provider.ends = ["completed", *[lambda batch: provider.finish(batch, "expired", most=0)] * 2]
    with pytest.raises(Incomplete, match=r"No batch answered 3 of the questions of s .*expired"):
        asked(place, provider, questions(3))
    assert (provider.sizes, single_calls(provider)) == ([3, 3, 3], 0)
    assert len(asked(place, provider, questions(3))) == 3
    assert (provider.sizes, single_calls(provider)) == ([3, 3, 3, 3], 0)
    assert set(provider.bought.values()) == {1}


def test_with_consent_a_repair_goes_online(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0, faults={"length": 1.0}) as server, Models(tmp_path / "r.sqlite") as models:
        endpoint = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset({"batch"}))
        given: dict[str, Any] = {"stage": "s", "recipe": "", "folder": tmp_path / "b", "say": lambda _: None}
        models.prefetch(endpoint, questions(2), **given, online=True)
        server.set_faults({})
        assert len(list(models.client(endpoint, stage="s").ask((None, each) for each in questions(2)))) == 2
        assert server.counters()["requests"][CHAT] == 2


def test_a_question_that_no_batch_knew_of_waits_and_the_sentence_says_what_to_set(
    place: Place, provider: Faulty
) -> None:
    endpoint = Endpoint("e", "m", base_url=provider.url, key_env="E", capabilities=frozenset({"batch"}))
    first, second = questions(2)
    with Models(place.where, key_of=lambda _: KEY) as models:
        models.prefetch(endpoint, [first], stage="s", recipe="", folder=place.folder / "b", say=lambda _: None)
        with pytest.raises(Incomplete, match=r'depends on a reply.*unbatched = "online"'):
            list(models.client(endpoint, stage="s").ask([(None, first), (None, second)]))
    assert single_calls(provider) == 0


# failures that are asked again


def refused(number: int, place: Place, provider: Faulty) -> list[Request]:
    """Questions that the model declined in a batch of an earlier run."""
    requests = questions(number)
    provider.answer = lambda key, body: (200, says("I'm sorry, but I can't help with that."))
    assert {each.kind for each in asked(place, provider, requests) if isinstance(each, Failure)} == {"refusal"}
    return requests


def test_failures_are_asked_again_in_a_batch(place: Place, provider: Faulty) -> None:
    requests = refused(4, place, provider)
    provider.answer = lambda key, body: (200, says("Yes."))
    found = asked(place, provider, requests, retry=Retry.of(True), run="2")
    assert [each.text for each in found if isinstance(each, Answer)] == ["Yes."] * 4
    assert (provider.sizes, single_calls(provider)) == ([4, 4], 0)
    assert asked(place, provider, requests, retry=Retry.of(True), run="3")
    assert provider.sizes == [4, 4]


def test_a_question_that_fails_again_is_asked_once_in_each_run(place: Place, provider: Faulty) -> None:
    requests = refused(3, place, provider)
    found = asked(place, provider, requests, retry=Retry.of(["s:refusal"]), run="2")
    assert [each.kind for each in found if isinstance(each, Failure)] == ["refusal"] * 3
    assert provider.sizes == [3, 3]
    asked(place, provider, requests, retry=Retry.of(["s:length"]), run="3")
    assert provider.sizes == [3, 3]


def test_a_failure_after_two_attempts_is_asked_again_from_the_first_on(place: Place, provider: Faulty) -> None:
    provider.answer = lambda key, body: (200, says("too lo", "length"))
    (failure,) = asked(place, provider, questions(1))
    assert isinstance(failure, Failure)
    assert provider.sizes == [1, 1]
    (failure,) = asked(place, provider, questions(1), retry=Retry.of(True), run="2")
    assert isinstance(failure, Failure)
    assert (provider.sizes, single_calls(provider)) == ([1, 1, 1, 1], 0)
    provider.answer = cut_off_at_first
    (answer,) = asked(place, provider, questions(1), retry=Retry.of(True), run="3")
    assert isinstance(answer, Answer)
    assert set(provider.bought.values()) == {3}


def test_what_is_asked_again_and_left_by_the_batches_waits_for_the_next_run(place: Place, provider: Faulty) -> None:
    requests = refused(2, place, provider)
    provider.answer = lambda key, body: (200, says("Yes."))
    provider.ends = [lambda batch: provider.finish(batch, "expired", most=0)] * 2
    with pytest.raises(Incomplete, match="No batch answered 2 of the questions"):
        asked(place, provider, requests, retry=Retry.of(True), run="2")
    assert single_calls(provider) == 0
    assert all(isinstance(each, Answer) for each in asked(place, provider, requests, retry=Retry.of(True), run="3"))
    assert set(provider.bought.values()) == {2}


def again(items: list[Item]) -> list[Item]:
    return [Item(each.key, each.sent, each.task, each.prompt, COST, again=True) for each in items]


def test_killed_at_any_step_what_is_asked_again_is_bought_once_more_only(tmp_path: Path) -> None:
    items, ended = items_of(4), False
    for step in range(100):
        provider = Faulty()
        place = Place(provider, tmp_path / str(step))
        place.run(items)
        provider.answer = lambda key, body: (200, says("again"))
        try:
            place.run(again(items), die_at=step)
            ended = True
        except Killed:
            place.run(items)  # what was staged goes on, without being asked for
        fresh = [json.loads(record.body)["choices"][0]["message"]["content"] for record in place.stored(items).values()]
        assert set(provider.bought.values()) <= {1, 2}
        assert sorted(provider.created.values()) in ([1], [1, 1])
        assert (fresh == ["again"] * 4) == (set(provider.bought.values()) == {2}), step
        assert place.paid() == sum(provider.bought.values())
        assert place.jobs() == []
        provider.close()
        if ended:
            assert step > 15
            return
    raise AssertionError("it never came to its end")


def test_a_short_file_of_what_is_asked_again_is_fetched_again_and_bought_once(place: Place, provider: Faulty) -> None:
    items = items_of(9)
    place.run(items)
    provider.answer = lambda key, body: (200, completion(body) | {"again": True})
    provider.cut = [lambda content: b"".join(content.splitlines(keepends=True)[:4])]
    counts = place.run(again(items))
    assert (counts.stored, counts.missing, provider.sizes) == (9, 0, [9, 9])
    assert all("again" in json.loads(record.body) for record in place.stored(items).values())


# a build


@pytest.mark.check
def test_a_build_in_batch_mode_makes_no_single_call_without_consent(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0, faults={"length": 0.2, "refusal": 0.05, "empty": 0.1}, seed=3) as model:
        can = ["json_schema", "batch"]
        endpoint = {"base_url": model.url, "model": "m", "capabilities": can, "concurrency": 16}
        settings = {"model": "mine", "mode": "batch", "endpoints": {"mine": endpoint}, "ceilings": OPEN}
        version, _, _ = build_axioms(tmp_path, **settings)
        assert version is not None
        model.set_faults({})
        before = sum(model.counters()["batch_lines"].values())
        again, _, _ = build_axioms(tmp_path, "v2", retry_errors=True, **settings)
        assert again is not None
        assert sum(model.counters()["batch_lines"].values()) > before
        assert CHAT not in model.counters()["requests"]


OPEN = dict.fromkeys(("refused", "cut_off", "unreadable", "not_taken"), 1.0)
