"""Running stages and parts without Prefect: in parallel threads, or one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from longform.artifacts.store import Part
from longform.engine.build import StageFuture, StageRun
from longform.engine.stage import StageCall
from longform.errors import LongformError

THREADS = 1_024  # they wait for workers and models; each stage bounds its own parts


class Threads:
    """Runs each stage and each part in a thread of its own, independent stages in parallel; without retries."""

    def __init__(self) -> None:
        self._stages = ThreadPoolExecutor(THREADS, "stage")
        self._parts = ThreadPoolExecutor(THREADS, "part")

    def stage(self, call: StageCall, upstream: Mapping[str, StageFuture], run: Callable[[], StageRun]) -> StageFuture:
        """Submit a stage: a thread waits for the stages upstream, then calls `run`, which makes it. If one of them
        failed, the future has its error.
        """

        def after() -> StageRun:
            for making in upstream.values():
                making.result()
            return run()

        return self._stages.submit(after)

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> Future[list[Part]]:
        """Submit `run`, which makes the parts of one unit of work; an error is not retried."""
        return self._parts.submit(run)

    def watch(self, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Does nothing: without a flow run, nobody outside can end the build."""

    def close(self) -> None:
        """Drop what has not begun, wait for the rest, and end the threads."""
        self._stages.shutdown(cancel_futures=True)
        self._parts.shutdown(cancel_futures=True)


class SequentialStages(Threads):
    """Runs each stage when it is called, so that its errors are raised there; its parts run in parallel."""

    def stage(self, call: StageCall, upstream: Mapping[str, StageFuture], run: Callable[[], StageRun]) -> StageFuture:
        """Make the stage at once by calling `run`, whose errors are raised; returns a future that is done."""
        done: Future[StageRun] = Future()
        done.set_result(run())
        return done
