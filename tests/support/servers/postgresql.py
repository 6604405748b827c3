"""A real PostgreSQL server for the tests: a cluster of its own in a temporary folder, gone when they end.

PostgreSQL refuses to run as root; there it runs as the user `postgres`, whom Debian's package makes.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ports import held_port

USER = "postgres"
START_SECONDS = 600.0


class Server:
    """A server with one superuser, `owner`, who needs the password."""

    def __init__(self, binaries: Path, folder: Path, port: int) -> None:
        self.binaries, self.folder, self.data, self.port = binaries, folder, folder / "data", port
        self.password = f"p@/:#{secrets.token_hex(8)}"
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", *, user: str = "owner", password: str | None = None) -> str:
        secret = quote(password or self.password, safe="")
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{secrets.token_hex(8)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, url: str | None = None) -> list[Any]:
        import asyncpg

        async def execute() -> list[Any]:
            connection = await asyncpg.connect(url or self.url())
            try:
                return list(await connection.fetch(statement))
            finally:
                await connection.close()

        return asyncio.run(execute())

    def create(self) -> None:
        """A cluster that does not wait for the disk: a test's data need not outlive a loss of power."""
        secret = self.folder / "password"
        secret.write_text(self.password)
        os.chown(secret, *_runs_as())
        ways = ["-U", "owner", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C", "--no-sync"]
        with (self.folder / "log").open("ab") as log:
            program = [self.binaries / "initdb", "-D", self.data, *ways]
            done = subprocess.run(program, cwd=self.folder, stdout=log, stderr=log, check=False, **_as_user())
        if done.returncode:
            raise RuntimeError(f"initdb failed: {self.log()}")
        lines = ["listen_addresses = '127.0.0.1'", f"port = {self.port}", f"unix_socket_directories = '{self.folder}'"]
        lines += ["fsync = off", "max_connections = 60", "shared_buffers = 16MB"]
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join([*lines, ""]))

    def start(self) -> None:
        """Start the server; returns when it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            program = [self.binaries / "postgres", "-D", self.data]
            self.process = subprocess.Popen(program, cwd=self.folder, stdout=log, stderr=log, **_as_user())
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"postgres does not start: {self.log()}")
            time.sleep(0.02)

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT closes every connection, SIGQUIT simulates a crash."""
        if self.process is None:
            return
        self.process.send_signal(by)
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill(self) -> None:
        """Kill all its processes at once, as a power cut would; `start` starts it again."""
        assert self.process
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process = None
        (self.data / "postmaster.pid").unlink()  # it would look as if the server were ready

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, parent first."""
        assert self.process
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for each in (self.process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(each, number)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """A block in which all its processes sleep: it takes connections and answers nothing."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """A block in which it is gone, as after a power cut."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A block in which it is gone, as after a crash (`pg_ctl stop -m immediate`)."""
        self.stop(signal.SIGQUIT)
        try:
            yield
        finally:
            self.start()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _ready(self) -> bool:
        try:
            return (self.data / "postmaster.pid").read_text().split("\n")[7].strip() == "ready"
        except (OSError, IndexError):
            return False


@contextmanager
def running() -> Iterator[Server]:
    """A separate server, for tests that stop and start it. Skips the test if PostgreSQL cannot run."""
    binaries = _binaries()
    folder = Path(tempfile.mkdtemp(prefix="longform-pg-"))
    with held_port() as port:
        server = Server(binaries, folder, port)
        try:
            os.chown(folder, *_runs_as())
            try:
                server.create()
                server.start()
            except (RuntimeError, OSError) as error:
                pytest.skip(f"PostgreSQL does not start here: {error}")
            yield server
        finally:
            server.stop(signal.SIGQUIT)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """The URL of a new, empty database."""
    return postgres.database()


def _binaries() -> Path:
    """Where initdb and postgres lie; skips if there are none, or this user may not run them."""
    in_path = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    of_debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: int(place.parent.name))
    places = [place for place in [*in_path, *reversed(of_debian)] if (place / "postgres").exists()]
    if not places:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if os.geteuid() == 0 and not _exists(USER):
        pytest.skip(f"PostgreSQL refuses to run as root, and there is no user {USER} to run it as")
    return places[0]


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _runs_as() -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam(USER)
    return entry.pw_uid, entry.pw_gid


def _as_user() -> dict[str, Any]:
    """The arguments that start a program as the user who runs the server."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    user, group = _runs_as()
    return {"env": clean} | ({"user": user, "group": group, "extra_groups": []} if os.geteuid() == 0 else {})
