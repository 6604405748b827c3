"""Worker processes: how they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from psutil import wait_procs

from longform.errors import StoreError
from tasks.units import Job
from tasks.workers import Workers

HELD: list[object] = []


def hold() -> int:
    """What libraries do that show progress: a semaphore, which the operating system keeps until somebody removes it."""
    HELD.append(multiprocessing.RLock())
    return len(HELD)


def held_by_a_worker() -> None:
    workers = Workers()
    assert workers.submit(hold).result() == 1
    workers.close()


def stopped_at_work() -> None:
    workers = Workers()
    workers.submit(hold).result()
    sleeping = [workers.submit(time.sleep, 600) for _ in range(4)]
    while not sleeping[0].running():
        time.sleep(0.01)
    workers.close()


def interrupted_while_they_start() -> None:
    workers = Workers()
    first = workers.submit(hold)
    while not first.done():
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGINT)
        time.sleep(0.005)
    assert first.result() == 1
    workers.close()


@pytest.mark.parametrize("ending", ["held_by_a_worker", "stopped_at_work", "interrupted_while_they_start"])
def test_workers_leave_nothing_behind(ending: str) -> None:
    command = [sys.executable, "-c", f"import test_workers; test_workers.{ending}()"]
    done = subprocess.run(command, cwd=Path(__file__).parent, text=True, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_unit_that_comes_after_a_worker_has_died_ends_with_the_same_sentence(tmp_path: Path) -> None:
    workers, job = Workers(), Job("toy_stages", "read", tmp_path, "unit", "tea", [], {}, {}, "recipe")
    with pytest.raises(BrokenProcessPool):
        workers.submit(os._exit, 1).result()
    with pytest.raises(StoreError, match="A worker died while it made read of tea"):
        workers.run(job)
    workers.close()


def test_workers_at_work_are_stopped() -> None:
    before = set(psutil.Process().children(recursive=True))
    workers = Workers()
    workers.submit(hold).result()
    sleeping = workers.submit(time.sleep, 600)
    while not sleeping.running():
        time.sleep(0.01)
    begun = [each for each in psutil.Process().children(recursive=True) if each not in before and _works(each)]
    assert begun
    workers.close()
    assert wait_procs(begun, timeout=600)[1] == []


def _works(process: psutil.Process) -> bool:
    """It is a worker, not the tracker of resources that Python keeps beside them."""
    return "resource_tracker" not in " ".join(process.cmdline())
