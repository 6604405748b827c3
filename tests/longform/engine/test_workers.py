"""Worker processes: what they are given, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import paths
import psutil
import pytest
from processes import wait_for
from psutil import wait_procs

from longform.artifacts.rows import Shard, Source
from longform.artifacts.store import Part
from longform.engine.jobs import Job
from longform.engine.runners import Processes
from longform.errors import LostWorker

pytestmark = pytest.mark.check

HELD: list[object] = []


def lost() -> LostWorker:
    return LostWorker("lost")


def hold() -> int:
    """What libraries do that show progress: a semaphore, which the operating system keeps until somebody removes it."""
    HELD.append(multiprocessing.RLock())
    return len(HELD)


def note_and_sleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def noted(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def held_by_a_worker(_: Path) -> None:
    workers = Processes(2)
    assert workers.call(hold, lost=lost) == 1
    workers.close()


def stopped_at_work(folder: Path) -> None:
    workers = Processes(2)
    workers.call(hold, lost=lost)
    for _ in range(4):
        threading.Thread(target=sleep_in, args=(workers, folder)).start()
    wait_for(lambda: len(noted(folder)) == 2, seconds=600)
    workers.close()


def interrupted_while_they_start(_: Path) -> None:
    workers = Processes(1)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(workers.call, hold, lost=lost)
        while not first.done():
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.send_signal(signal.SIGINT)
            time.sleep(0.005)
        assert first.result() == 1
    workers.close()


def sleep_in(workers: Processes, folder: Path) -> None:
    with suppress(LostWorker):
        workers.call(note_and_sleep, str(folder), lost=lost)


@pytest.mark.parametrize("ending", ["held_by_a_worker", "stopped_at_work", "interrupted_while_they_start"])
def test_workers_leave_nothing_behind(ending: str, tmp_path: Path) -> None:
    module = "tests.longform.engine.test_workers"
    code = f"import pathlib, {module} as t; t.{ending}(pathlib.Path({str(tmp_path)!r}))"
    env = {**os.environ, "PYTHONPATH": paths.PYTHONPATH}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=paths.ROOT, env=env, text=True, capture_output=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def noted_job(folder: Path, job: Job) -> list[Part]:
    with (folder / "made").open("a") as file:
        file.write(f"{job.unit} ")
    return []


def test_what_the_longest_chain_of_stages_waits_for_goes_first_then_the_largest(tmp_path: Path) -> None:
    def job(stages_after: int, size: int) -> Job:
        shard = Shard(Source("g", "file", "0" * 64, (), ((0, size),)), 0)
        unit = f"{stages_after}-{size}"
        return Job("", "", tmp_path, unit, "", [], {"files": shard}, {}, "", stages_after=stages_after)

    workers = Processes(1, make=partial(noted_job, tmp_path))
    with closing(workers), ThreadPoolExecutor() as threads:
        threads.submit(workers.call, time.sleep, 2, lost=lost)
        time.sleep(0.5)  # until the only worker is taken
        for each in (job(0, 900), job(2, 10), job(1, 500), job(2, 30)):
            threads.submit(workers.run, each)
        threads.shutdown()
    assert (tmp_path / "made").read_text().split() == ["2-30", "2-10", "1-500", "0-900"]


def test_a_worker_that_dies_costs_its_own_call_and_is_replaced(tmp_path: Path) -> None:
    workers = Processes(2)
    with ThreadPoolExecutor() as threads:
        other = threads.submit(workers.call, time.sleep, 5, lost=lost)
        with pytest.raises(LostWorker, match="lost"):
            workers.call(os._exit, 1, lost=lost)
        assert {workers.call(os.getpid, lost=lost) for _ in range(4)}.isdisjoint({os.getpid()})
        assert other.result() is None
    workers.close()


def test_a_call_goes_to_a_worker_that_has_worked_before() -> None:
    workers = Processes(2)
    assert len({workers.call(os.getpid, lost=lost) for _ in range(5)}) == 1
    workers.close()


def test_after_the_end_nothing_is_called() -> None:
    workers = Processes(1)
    workers.close()
    with pytest.raises(LostWorker):
        workers.call(os.getpid, lost=lost)


def test_workers_at_work_are_stopped(tmp_path: Path) -> None:
    workers = Processes(2)
    with ThreadPoolExecutor() as threads:
        sleeping = threads.submit(workers.call, note_and_sleep, str(tmp_path), lost=lost)
        wait_for(lambda: len(noted(tmp_path)) == 1, seconds=600)
        begun = [psutil.Process(number) for number in noted(tmp_path)]
        workers.close()
        with pytest.raises(LostWorker):
            sleeping.result()
    assert wait_procs(begun, timeout=600)[1] == []


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be suspended here")
def test_a_worker_that_hangs_is_killed(tmp_path: Path) -> None:
    workers = Processes(1, seconds_to_end=0.5)
    with ThreadPoolExecutor() as threads:
        sleeping = threads.submit(workers.call, note_and_sleep, str(tmp_path), lost=lost)
        wait_for(lambda: len(noted(tmp_path)) == 1, seconds=600)
        (number,) = noted(tmp_path)
        os.kill(number, signal.SIGSTOP)
        begun = [psutil.Process(number)]
        workers.close()
        with pytest.raises(LostWorker):
            sleeping.result()
    assert wait_procs(begun, timeout=600)[1] == []
