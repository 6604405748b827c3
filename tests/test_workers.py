"""Worker processes: how they end."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from psutil import wait_procs

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


@pytest.mark.parametrize("ending", ["held_by_a_worker", "stopped_at_work"])
def test_workers_leave_nothing_behind(ending: str) -> None:
    command = [sys.executable, "-c", f"import test_workers; test_workers.{ending}()"]
    done = subprocess.run(command, cwd=Path(__file__).parent, text=True, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


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
    assert wait_procs(begun, timeout=60)[1] == []


def _works(process: psutil.Process) -> bool:
    """It is a worker, not the tracker of resources that Python keeps beside them."""
    return "resource_tracker" not in " ".join(process.cmdline())
