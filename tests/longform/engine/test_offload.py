"""Work in worker processes: in order, with its errors, and ended when nobody uses it."""

from __future__ import annotations

import os
from itertools import count

import psutil
import pytest

from longform.engine.offload import AHEAD, ITEMS_A_CALL, Offload, in_workers
from longform.errors import UsageError


def doubled(items: list[int]) -> list[tuple[int, int]]:
    if 77 in items:
        raise UsageError("77 is refused.")
    return [(2 * item, os.getpid()) for item in items]


def test_results_come_in_order_from_workers_that_end() -> None:
    found = list(in_workers(doubled, iter(range(70)), Offload(1)))
    assert [value for value, _ in found] == [2 * item for item in range(70)]
    others = {pid for _, pid in found}
    assert os.getpid() not in others
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in others)


def test_few_items_start_no_worker() -> None:
    assert {pid for _, pid in in_workers(doubled, range(ITEMS_A_CALL - 1), Offload(1))} == {os.getpid()}
    assert list(in_workers(doubled, iter(()), Offload(1))) == []


def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    with pytest.raises(UsageError, match="77 is refused"):
        list(in_workers(doubled, range(60, 120), Offload(1)))


def test_only_so_much_is_taken_ahead() -> None:
    taken = count()
    found = in_workers(doubled, (item for item in range(100, 100_000) if next(taken) >= 0), Offload(1))
    next(found)
    assert next(taken) <= (AHEAD + 2) * ITEMS_A_CALL
    found.close()  # type: ignore[attr-defined]
