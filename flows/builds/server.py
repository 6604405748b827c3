"""The Prefect server that a build reports to: the configured one, else a temporary one, which ends with the build.

The temporary server is Prefect's application in a process of this module (`python -m flows.builds.server FD`). Its
socket is bound before it starts, so that no other process can take the port. It ends when its standard input closes,
that is when the build ends, however that happens. All temporary servers share the database of PREFECT_HOME.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import UUID

from longform import settings
from longform.errors import ServerError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

START_SECONDS = 120.0
CHECK_SECONDS = 10.0
DRAIN_SECONDS = 120.0
STOP_SECONDS = 5.0


@contextmanager
def connected(say: Callable[[str], None], meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """A context in which flow runs report to a Prefect server: the one that Prefect's settings name, else a temporary
    one, which ends with the context. ServerError if the server does not answer.

    `say` is called with one line about the server. `meanwhile` is called once, before the context begins; if a
    temporary server is starting, while it does. From here on log handlers of this process that fail print nothing.
    """
    logging.raiseExceptions = False  # logs that a lost server does not take are not printed, one message for each
    with ExitStack() as stack:
        temporary = None if settings.prefect_api_url() else stack.enter_context(temporary_server())
        from prefect.settings import get_current_settings

        meanwhile()
        if url := get_current_settings().api.url:
            stack.close()  # a profile or a file names a server: its own is not needed
            say(f"reporting to Prefect at {check(url)}")
        elif temporary:
            say("starting a Prefect server for this build (set PREFECT_API_URL to use one that runs)")
            stack.enter_context(temporary.in_use())
        yield


def configured() -> str:
    """The address of the Prefect server that Prefect's settings name, without secrets. ServerError if they name none,
    or if the server does not answer within 10 seconds.
    """
    from prefect.settings import get_current_settings

    if url := get_current_settings().api.url:
        return check(url)
    raise ServerError(
        "No Prefect server is configured: start one (`make server`), then name it in PREFECT_API_URL, or with "
        "`prefect config set PREFECT_API_URL=http://127.0.0.1:4200/api`."
    )


def check(url: str) -> str:
    """The address `url` without user, password and query, for messages. ServerError if the server of Prefect's
    settings does not answer within 10 seconds.
    """
    from longform.addresses import shown

    if error := _unreachable():
        raise ServerError(
            f"The Prefect server at {shown(url)} does not answer ({str(error) or type(error).__name__}): start it "
            "(`make server`), or take PREFECT_API_URL out of the environment and the Prefect profile "
            "(`prefect config unset PREFECT_API_URL`), and the build starts one of its own."
        )
    return shown(url)


def check_still_reachable(error: Exception) -> None:
    """Raise ServerError if the server of Prefect's settings, which the build reported to, no longer answers, or if the
    error that ended the build is one of its.
    """
    from longform.engine.prefect_tasks import SERVER_ERRORS, lost_server

    if isinstance(error, SERVER_ERRORS) or _unreachable():
        raise lost_server() from None


def _unreachable() -> Exception | None:
    """The error that a health check of the server of Prefect's settings gives, after at most 10 seconds; None if it
    answers.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    once = temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0})
    with once, get_client(httpx_settings={"timeout": CHECK_SECONDS}, sync_client=True) as client:
        return client.api_healthcheck()


class TemporaryServer:
    """A process that serves Prefect's API on `port` of this machine, with the file `log` that its output goes to.
    `wait` waits until it answers; `in_use` makes this process report to it.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
        self.process, self.port, self.log = process, port, log

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A context in which this process reports to the server. Waits for the server at the start (ServerError as by
        `wait`); at the end, if its process still runs, until it has stored everything (see `drain`).
        """
        self.wait()
        with _reporting_to(f"http://127.0.0.1:{self.port}/api"):
            try:
                yield
            finally:
                if self.process.poll() is None:
                    drain()

    def wait(self) -> None:
        """Return when the server answers a health check; ServerError if its answer is an error, if the process ends,
        or if there is no answer within 120 seconds.

        One request is enough: the server's socket listens before the process starts, so the request waits until it is
        served.
        """
        import httpx
        from prefect.settings import get_current_settings

        health = f"http://127.0.0.1:{self.port}/api/health"
        try:
            httpx.get(health, timeout=START_SECONDS, trust_env=False).raise_for_status()
        except httpx.HTTPError:
            raise ServerError(
                f"Prefect's server for this build did not start ({self.reason()}): see to its database in "
                f"{get_current_settings().home} (PREFECT_HOME), or set PREFECT_API_URL to a server that runs."
            ) from None

    def reason(self) -> str:
        """Why the server did not start: the last line of the process's output that names an error, else that there was
        no answer in time.
        """
        self.log.seek(0)
        errors = re.findall(r"^\w[\w.]*(?:Error|Exception)\b.*$", self.log.read().decode(errors="replace"), re.M)
        return errors[-1] if errors else f"no answer within {START_SECONDS:.0f} s"


@contextmanager
def temporary_server() -> Iterator[TemporaryServer]:
    """A context that starts a process with Prefect's server on a free port of this machine, does not wait until it
    answers, and ends it at exit (by force after 5 seconds).

    The process has a session of its own, so that a signal to the process group of the build does not end it first.
    """
    with tempfile.TemporaryFile() as log, socket.create_server(("127.0.0.1", 0)) as listening:
        command = [sys.executable, "-P", "-m", "flows.builds.server", str(listening.fileno())]
        process = subprocess.Popen(
            command,
            env=settings.server_environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
        server = TemporaryServer(process, listening.getsockname()[1], log)
        listening.close()  # where the process ends, whoever waits for it must hear of it
        try:
            yield server
        finally:
            assert process.stdin
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _reporting_to(url: str) -> Iterator[None]:
    """A context in which Prefect's settings name the server at `url`, for all threads and for processes started from
    here; at exit PREFECT_API_URL is unset.

    Heartbeats of flow runs are off: nobody watches them, and to end their thread takes a second.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    settings.set_prefect_api_url(url)
    refresh_global_settings_context()
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield
    finally:
        settings.set_prefect_api_url(None)
        refresh_global_settings_context()


def drain() -> None:
    """Wait until the server has stored everything that was sent, at most 120 seconds; raises nothing if that is not
    enough.

    The server stores task runs in order, so a last one is sent, waited for, and deleted.
    """
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from prefect.client.orchestration import get_client
    from prefect.logging.handlers import APILogHandler

    last = task(name="drain", cache_policy=NO_CACHE, persist_result=False)(lambda: None)
    run = last(return_state=True).state_details.task_run_id
    assert run
    with get_client(sync_client=True) as client:
        end = time.monotonic() + DRAIN_SECONDS
        while not (ended := _has_ended(client, run)) and time.monotonic() < end:
            time.sleep(0.05)
        if ended:
            client.delete_task_run(run)
    APILogHandler().flush()


def _has_ended(client: SyncPrefectClient, task_run: UUID) -> bool:
    """Whether the server has stored the task run of this id in a final state; False if it does not know the id."""
    from prefect.exceptions import ObjectNotFound

    with suppress(ObjectNotFound):
        state = client.read_task_run(task_run).state
        return bool(state and state.is_final())
    return False


def serve(descriptor: int) -> None:
    """Serve Prefect's API at the listening socket with this file descriptor, until standard input closes."""
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            with _startup_lock():
                await super().startup(sockets)

    config = uvicorn.Config(
        create_app(ephemeral=True, final=True), log_level="error", lifespan="on", timeout_graceful_shutdown=2
    )
    Server(config).run(sockets=[socket.socket(fileno=descriptor)])


def _end_with_standard_input() -> None:
    """Wait until standard input closes, then end this process: by SIGTERM and, if it still runs 5 seconds later, at
    once.
    """
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(1)


@contextmanager
def _startup_lock() -> Iterator[None]:
    """A context that holds a file lock in PREFECT_HOME: servers start one at a time, so that none sees a database that
    another is creating.
    """
    from prefect.settings import get_current_settings

    with Path(get_current_settings().home, "longform-server.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    serve(int(sys.argv[1]))
