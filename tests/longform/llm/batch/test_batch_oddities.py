"""Batches whose files overlap, whose counts are nonsense, that somebody else ends: each answer bought once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longform.llm.batch.collect import SHORT_SECONDS
from longform.llm.price import Budget
from tests.longform.llm.batch.test_batch import COST, Place, completion, items_of
from tests.longform.llm.batch.test_batch_faults import Faulty

NONSENSE: list[Any] = [
    None,
    [],
    "33",
    {},
    {"total": None, "completed": None, "failed": None},
    {"total": 9, "completed": "9", "failed": 0.0},
    {"total": -1, "completed": -1, "failed": -1},
    {"total": 10**30, "completed": 10**30, "failed": 10**30},
    {"total": 0, "completed": 0, "failed": 0},
]


@pytest.fixture
def provider() -> Iterator[Faulty]:
    made = Faulty()
    yield made
    made.close()


@pytest.fixture
def place(provider: Faulty, tmp_path: Path) -> Place:
    return Place(provider, tmp_path)


def line_of(key: str, status: int, body: Any) -> bytes:
    response = {"status_code": status, "request_id": "other", "body": body}
    return json.dumps({"id": "y", "custom_id": key, "response": response, "error": None}).encode()


def unanswered(key: str, code: str) -> bytes:
    """The line of a request that was never worked on."""
    return json.dumps({"id": "z", "custom_id": key, "response": None, "error": {"code": code}}).encode()


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("where", ["error file", "output file, before", "output file, after"])
def test_a_request_with_an_answer_and_an_error_has_its_answer(
    status: int, where: str, place: Place, provider: Faulty
) -> None:
    items = items_of(5)

    def odd(out: list[bytes], bad: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        errors = [line_of(item.key, status, {"error": {"message": "no"}}) for item in items[:3]]
        if where == "error file":
            return out, errors
        return (errors + out if where.endswith("before") else out + errors), bad

    provider.odd = odd
    counts = place.run(items)
    assert (counts.stored, counts.missing, counts.jobs, place.paid()) == (5, 0, 1, 5)
    assert all(json.loads(record.body)["choices"] for record in place.stored(items).values())
    assert (set(provider.bought.values()), place.jobs(), provider.files) == ({1}, [], {})


@pytest.mark.parametrize("counts", NONSENSE)
@pytest.mark.parametrize("sizes_known", [True, False])
def test_counts_that_are_nonsense_harm_no_answer(
    counts: Any, place: Place, provider: Faulty, *, sizes_known: bool
) -> None:
    def end(batch: dict[str, Any]) -> None:
        provider.finish(batch)
        batch["request_counts"] = counts

    provider.ends, provider.sizes_known = [end], sizes_known
    found = place.run(items_of(9))
    assert (found.stored, found.missing, place.paid(), place.jobs(), provider.files) == (9, 0, 9, [], {})
    assert set(provider.bought.values()) == {1}


def test_counts_above_the_number_of_requests_keep_no_expired_job_open(place: Place, provider: Faulty) -> None:
    def end(batch: dict[str, Any]) -> None:
        provider.finish(batch, "expired", most=4)
        batch["request_counts"] = {"total": 9, "completed": 4, "failed": 10**30}

    provider.ends = [end]
    counts = place.run(items_of(9))
    assert (counts.stored, counts.missing, provider.sizes) == (9, 0, [9, 5])
    assert set(provider.bought.values()) == {1}


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_lines_of_requests_that_were_never_worked_on_go_into_one_more_batch(
    code: str, place: Place, provider: Faulty
) -> None:
    items = items_of(6)

    def end(batch: dict[str, Any]) -> None:
        provider.odd = lambda out, bad: (out, [unanswered(item.key, code) for item in items[2:]])
        provider.finish(batch, code.removeprefix("batch_"), most=2)
        provider.odd = lambda out, bad: (out, bad)

    provider.ends = [end]
    counts = place.run(items)
    assert (counts.stored, counts.missing, provider.sizes, place.paid()) == (6, 0, [6, 4], 6)
    assert (set(provider.bought.values()), place.jobs(), provider.files) == ({1}, [], {})


def test_a_job_that_somebody_cancels_gives_what_it_has_and_the_rest_goes_into_one_more(
    place: Place, provider: Faulty
) -> None:
    provider.busy, provider.half = 2, 3
    provider.ends = [lambda batch: batch.update(status="cancelling")]
    counts = place.run(items_of(8))
    assert (counts.stored, counts.missing, provider.sizes, place.paid()) == (8, 0, [8, 5], 8)
    assert set(provider.bought.values()) == {1}


@pytest.mark.parametrize("status", [500, 502, 429])
def test_a_download_that_fails_three_times_is_waited_out(status: int, place: Place, provider: Faulty) -> None:
    provider.faults = [("GET /files/.*/content", status)] * 3
    counts = place.run(items_of(9))
    assert (counts.stored, counts.missing, counts.jobs) == (9, 0, 1)
    assert place.slept[-3:] == [1, 2, 4]
    assert (set(provider.bought.values()), provider.files) == ({1}, {})


@pytest.mark.parametrize("half", [0, 3])
def test_of_three_batches_of_a_job_two_are_cancelled_and_nothing_is_deleted_before_all_are_collected(
    half: int, place: Place, provider: Faulty
) -> None:
    provider.late, provider.half, provider.busy = 23, half, 20
    provider.faults = [("POST /batches", "lost")] * 2
    budget, items = Budget(10**6), items_of(4)
    assert place.run(items, budget).stored == 4
    assert list(provider.created.values()) == [3]
    assert sorted(batch["status"] for batch in provider.batches.values()) == ["cancelled", "cancelled", "completed"]
    assert place.paid() == sum(provider.bought.values()) == 4 + 2 * half
    assert (budget.spent_nano, budget.reserved_nano) == (COST * place.paid(), 0)
    assert (place.jobs(), provider.files) == ([], {})
    deleted = [number for number, call in enumerate(provider.log) if call.startswith("DELETE")]
    read = [number for number, call in enumerate(provider.log) if call.endswith("/content")]
    assert max(read) < min(deleted)


def test_an_answer_that_only_comes_with_the_last_fetch_is_not_deleted_before(place: Place, provider: Faulty) -> None:
    cuts = [lambda content: b"".join(content.splitlines(keepends=True)[:5])] * 8
    provider.cut, provider.sizes_known = list(cuts), False
    provider.answer = lambda key, body: (200, completion(body))
    assert place.run(items_of(9)).stored == 9
    assert sum(place.slept) <= SHORT_SECONDS + 10
    deletes = [number for number, call in enumerate(provider.log) if call.startswith("DELETE")]
    assert provider.log.index("POST /batches") < min(deletes)
    assert max(number for number, call in enumerate(provider.log) if call.endswith("/content")) < min(deletes)
