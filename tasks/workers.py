"""Where units of work run: in worker processes, and in threads that wait for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.util import _exit_function  # type: ignore[attr-defined]
from typing import Any, Protocol, TypeVar

from longform.errors import StoreError
from longform.store import Part
from tasks.stage import execute
from tasks.units import Job

UNITS_WAITING = 8
SECONDS_TO_END = 10
Made = TypeVar("Made")


class Result(Protocol):
    """What became of a unit of work: its parts, or the error it ended with is raised."""

    def result(self) -> list[Part]: ...


class Runner(Protocol):
    """How units of work are run: as plain threads, or as Prefect task runs."""

    def stage(self, name: str, work: Callable[[], Any]) -> Any: ...
    def units(self, work: dict[str, Callable[[], list[Part]]]) -> Iterator[tuple[str, Result]]: ...


class Workers:
    """Spawned processes, started with the first unit that is sent to them, gone when their parent is."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None
        self.lock = threading.Lock()
        self.at_work: set[Future[Any]] = set()

    def run(self, job: Job) -> list[Part]:
        try:
            return self.submit(execute, job).result()
        except BrokenProcessPool:
            raise StoreError(
                f"A worker died while it made {job.stage} of {job.label} (killed, or out of memory): "
                "what was finished is kept; run the same command again."
            ) from None

    def submit(self, work: Callable[..., Made], *arguments: Any) -> Future[Made]:
        with self.lock:
            if self.pool is None:
                self.pool = ProcessPoolExecutor(
                    processors(), mp_context=get_context("spawn"), initializer=_leave_with, initargs=(os.getpid(),)
                )
            with _without_ctrl_c():
                future = self.pool.submit(work, *arguments)
            self.at_work.add(future)
        future.add_done_callback(self.at_work.discard)
        return future

    def close(self) -> None:
        """Workers that have nothing to do end by themselves, and clean up; those at work, or that hang, are stopped."""
        if self.pool is None:
            return
        workers, idle = list((self.pool._processes or {}).values()), not self.at_work
        ending = threading.Thread(target=self.pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
        ending.start()
        ending.join(SECONDS_TO_END if idle else 0)
        if ending.is_alive():
            for worker in workers:
                worker.terminate()


def units_at_once() -> int:
    """Units of work that are begun: most wait for a worker process or a model, so more than there are processors."""
    return max(UNITS_WAITING, processors())


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """A worker that starts in here is deaf to Ctrl-C until `_leave_with` has told it what to do about it."""
    resource_tracker.ensure_running()  # which else starts with the first worker, and lets SIGINT through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C goes to every process; the parent ends its workers itself
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=watch, daemon=True).start()


def _leave(*_: object) -> None:
    """At once, but for the semaphores that libraries hold, which Python would report as leaked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the pool sends another as soon as one worker is gone
    _exit_function()
    os._exit(1)


class Threads:
    """Runs units as plain threads: for tests, and wherever no flow is wanted."""

    def stage(self, name: str, work: Callable[[], Any]) -> Any:
        return work()

    def units(self, work: dict[str, Callable[[], list[Part]]]) -> Iterator[tuple[str, Result]]:
        with ThreadPoolExecutor(units_at_once()) as pool:
            futures = {pool.submit(run): label for label, run in work.items()}
            try:
                yield from _as_done(futures)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _as_done(futures: dict[Future[list[Part]], str]) -> Iterator[tuple[str, Result]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield futures[future], future
