"""Stages and parts without Prefect: in threads that overlap, or one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from longform.artifacts.store import Part
from longform.engine.build import Making, StageRun
from longform.engine.stage import StageCall
from longform.errors import LongformError

THREADS = 1_024  # they wait for workers and models; each stage bounds its own parts


class Threads:
    """Each stage and each part in a thread; independent stages side by side."""

    def __init__(self) -> None:
        self._stages = ThreadPoolExecutor(THREADS, "stage")
        self._parts = ThreadPoolExecutor(THREADS, "part")

    def stage(self, call: StageCall, upstream: Mapping[str, Making], run: Callable[[], StageRun]) -> Making:
        def after() -> StageRun:
            for making in upstream.values():
                making.result()
            return run()

        return self._stages.submit(after)

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> Future[list[Part]]:
        return self._parts.submit(run)

    def watch(self, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Nobody asks for the end of a build that has no flow run."""

    def close(self) -> None:
        self._stages.shutdown(cancel_futures=True)
        self._parts.shutdown(cancel_futures=True)


class InTurn(Threads):
    """A stage is made when it is called, so that what it raises is raised there; its parts side by side."""

    def stage(self, call: StageCall, upstream: Mapping[str, Making], run: Callable[[], StageRun]) -> Making:
        done: Future[StageRun] = Future()
        done.set_result(run())
        return done
