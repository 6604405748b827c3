"""Units of work as Prefect task runs: one a stage and one a part, never one a row or a call."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed
from prefect.task_runners import ThreadPoolTaskRunner

from longform.store import Part
from tasks.workers import Result, units_at_once


def task_runner() -> Any:
    """Threads: they wait for worker processes, or for a model."""
    return ThreadPoolTaskRunner(max_workers=units_at_once())


def task_of(work: Callable[[], Any], name: str, run_name: str) -> Any:
    """A task that keeps nothing: the store is the only owner of results."""
    return task(name=name, task_run_name=run_name, cache_policy=NO_CACHE, persist_result=False)(work)


class PrefectRunner:
    """Inside a flow run: stages are task runs, their parts are task runs below them."""

    def stage(self, name: str, work: Callable[[], Any]) -> Any:
        return task_of(work, name, name)()

    def units(self, work: dict[str, Callable[[], list[Part]]]) -> Iterator[tuple[str, Result]]:
        submitted = {_submit(label, run): label for label, run in work.items()}
        for future in as_completed(list(submitted)):
            yield submitted[future], _Result(future)


def _submit(label: str, run: Callable[[], list[Part]]) -> Any:
    return task_of(run, "part", label).submit()


class _Result:
    """A Prefect future with the one method of a standard future that a build uses."""

    def __init__(self, future: Any) -> None:
        self.future = future

    def result(self) -> list[Part]:
        parts: list[Part] = self.future.result(raise_on_failure=True)
        return parts


def prepare_server() -> None:
    """Have the server that Prefect starts for a flow, if it does, be one that lives and dies with this process.

    Prefect itself ends it at a normal exit only: a killed build would leave one behind, of 200 MB each. And a signal
    to the whole group (Ctrl-C in a terminal, `timeout`) would end it before the flow has said that it was interrupted.
    """
    from prefect.server.api.server import SubprocessASGIServer

    class Server(SubprocessASGIServer):
        def _run_uvicorn_command(self) -> subprocess.Popen[Any]:
            with _held(signal.SIGINT, signal.SIGTERM):
                with patch.object(subprocess, "Popen", _Apart):  # Prefect's call takes no options
                    process = super()._run_uvicorn_command()
                _end_with_this_process(process)
            return process

    Server()  # from now on the one that Prefect finds


class _Apart(subprocess.Popen[bytes]):
    """A process in a session of its own, which gets no signal of the group."""

    def __init__(self, args: Any, **options: Any) -> None:
        super().__init__(args, start_new_session=True, **options)


@contextmanager
def _held(*numbers: signal.Signals) -> Iterator[None]:
    """Signals that come in here are handled at its end: a server that is started is never left without its guard."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda which, _: came.append(which)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for which in came:
            signal.raise_signal(which)


def _end_with_this_process(process: subprocess.Popen[Any]) -> None:
    if shutil.which("sh"):
        guard = subprocess.Popen(
            ["sh", "-c", f"cat > /dev/null; kill {process.pid}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        GUARDS.append(guard)  # its pipe closes when this process ends, however it ends


GUARDS: list[subprocess.Popen[bytes]] = []
