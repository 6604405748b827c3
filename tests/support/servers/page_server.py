"""The page as people reach it: `longform serve` in a process of its own, accounts, and clients that log in."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from ports import held_port

from flows.page.work import accounts, rounds
from flows.page.work.database import opened

PASSWORD = "a long password"
START_SECONDS = 60


@dataclass
class PageServer:
    """`longform serve` of a home, which can be killed and started again at the same port."""

    home: Path
    port: int
    words: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    said: str = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("longform"))
        command = [program, "serve", "--port", str(self.port), "--home", str(self.home), *self.words]
        environment = {**os.environ, **self.environment}
        with (self.home / "serve.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, text=True, env=environment)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log()
            try:
                httpx.get(f"{self.address}/static/style.css")
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise TimeoutError(self.log())

    def log(self) -> str:
        return (self.home / "serve.log").read_text()

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def served(home: Path, *words: str, **environment: str) -> Iterator[PageServer]:
    """The page of a home, killed at the end."""
    with held_port() as port:
        server = PageServer(home, port, words, environment)
        server.start()
        try:
            yield server
        finally:
            if server.process and server.process.poll() is None:
                server.kill()


def add_account(home: Path, name: str, role: str = "annotator", pseudonym: str | None = None) -> str:
    """Add an account with PASSWORD and return its pseudonym."""

    async def adding() -> str:
        async with opened(home) as database:
            return await accounts.add(database, name, role, PASSWORD, pseudonym)

    return _run(adding())


def open_form(home: Path, address: str, form: str | None = None, **options: Any) -> str:
    """Open a form to annotators and return the id of its round."""
    chosen: dict[str, Any] = {"overlap": 1, "most": None, "seed": 0, "role": "annotator", **options}

    async def saving() -> str:
        async with opened(home) as database:
            return await rounds.save(database, *rounds.drawn(home, address, form, **chosen))

    return _run(saving())


def _run(coroutine: Coroutine[Any, Any, str]) -> str:
    """What a coroutine returns, run in a thread of its own: Playwright keeps an event loop in the test's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class Client(httpx.Client):
    """A browser without a screen: it follows no redirect by itself, and knows the forms of the page it saw last."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(base_url=address, timeout=60, limits=httpx.Limits(max_keepalive_connections=0), **options)
        self.headers["origin"] = address

    def logged_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        page = self.get("/work/log-in")
        return self.post("/work/log-in", data={"csrf": hidden(page, "csrf"), "name": name, "password": password})

    def next_task(self, round_id: str) -> str:
        """The address of the task that the annotator gets; that of the round where there is none."""
        page = self.get(f"/work/rounds/{round_id}")
        gone = self.post(f"/work/rounds/{round_id}/next", data={"csrf": hidden(page, "csrf")})
        return gone.headers["location"]

    def submit(self, address: str, values: dict[str, Any], **more: Any) -> httpx.Response:
        """Send the form of a task with these values of its fields."""
        page = self.get(address)
        data = {name: hidden(page, name) for name in ("csrf", "submission")}
        return self.post(address, data={**data, "seconds": "1", **values, **more})


def hidden(page: httpx.Response, name: str) -> str:
    """The value of a hidden field in the page's last form that has one of this name."""
    found = re.findall(rf'<input type="hidden" name="{name}" value="([^"]*)">', page.text)
    assert found, page.text
    return found[-1]
