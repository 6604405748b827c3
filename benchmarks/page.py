"""How quickly the part Work of the page answers many annotators, with nothing beside it and beside a build.

    python benchmarks/page.py [--sessions 50] [--seconds 60] [--alone] [--json]

Each session makes a request every two seconds: it opens a task, saves a draft, submits it, and looks at its round, over
and over. The build is `longform build axioms` in another home, again and again, with as many processes as there are
processors. Log-ins come before and do not count. `p50_ms`, `p95_ms`: of requests while nothing else runs;
`beside_p95_ms`: beside the build; `ratio_to_limit`: that figure over the promised 200 ms (below 1 is kept);
`ratio_to_alone`: over `p95_ms`. `requests`, `answered` (those that did not fail): of both together. `--alone` leaves
the build out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import aiohttp  # noqa: E402

from flows.page.work import accounts, rounds  # noqa: E402
from flows.page.work.database import opened  # noqa: E402
from tasks.annotation.form import Field, Form, Item, Sheets, Shown, Task  # noqa: E402

LIMIT_MS = 200
EVERY = 2.0
PASSWORD = "a password for benchmarks"
FORM = Form(
    name="benchmark",
    guidance="Judge the answer and its claims.",
    key="answer_id",
    annotator="annotator_id",
    shown=(Shown("question"), Shown("answer"), Shown("claim", of_item=True), Shown("evidence", of_item=True)),
    items="claims",
    item_key="claim_id",
    fields=(
        Field("usefulness", "How useful is it?", "choice", ("Useful", "Not useful"), required=True),
        Field("support", "Is it supported?", "choice", ("Yes", "No"), of_item=True, required=True),
        Field("remark", "A remark", "text", of_item=True),
    ),
)
CLAIMS = 8


def made_tasks(number: int) -> list[Task]:
    chance = random.Random(1)
    words = ["".join(chance.choices("abdefgiklmnoprstuvw", k=chance.randrange(2, 10))) for _ in range(2_000)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    def items(task: int) -> tuple[Item, ...]:
        return tuple(Item(f"a{task}#{n}", {"claim": text(20), "evidence": text(150)}) for n in range(CLAIMS))

    return [Task(f"a{n}", {"question": text(15), "answer": text(200)}, items(n), group=f"a{n}") for n in range(number)]


async def prepare(home: Path, sessions: int, tasks: int) -> str:
    """A home with an account for each session and an open round; the round's id."""
    of = Sheets(FORM, made_tasks(tasks), "labels", "")
    row, rows = rounds.handed_out(of, "expertqa", "v1", "", overlap=2, most=None, seed=1, role="annotator")
    async with opened(home) as database:
        for number in range(sessions):
            await accounts.add(database, f"annotator{number}", "annotator", PASSWORD)
        return await rounds.save(database, row, rows)


@contextmanager
def served(home: Path) -> Any:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "flows.cli.main", "serve", "--port", str(port), "--home", str(home)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextmanager
def building(folder: Path) -> Any:
    """Builds of axioms, one after the other, each in a home of its own."""
    loop = f'n=0; while :; do n=$((n+1)); "{sys.executable}" -m flows.cli.main build axioms --home "{folder}/$n"; done'
    build = subprocess.Popen(
        ["bash", "-c", loop], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        time.sleep(8)  # it imports, then it builds
        yield
    finally:
        os.killpg(build.pid, signal.SIGKILL)
        build.wait()


class Annotator:
    """A session that makes a request every two seconds and notes how long each took, and those that failed."""

    def __init__(self, session: aiohttp.ClientSession, round_id: str, number: int) -> None:
        self.session, self.round, self.number = session, f"/work/rounds/{round_id}", number
        self.took: list[float] = []
        self.failed: list[str] = []

    async def log_in(self) -> None:
        page = await self._text("GET", "/work/log-in")
        data = {"csrf": hidden(page, "csrf"), "name": f"annotator{self.number}", "password": PASSWORD}
        await self._text("POST", "/work/log-in", data)
        self.took.clear()

    async def work(self, until: float) -> None:
        await asyncio.sleep(random.random() * EVERY)
        while time.monotonic() < until:
            page = await self._paced("GET", self.round)
            gone = await self._paced("POST", f"{self.round}/next", {"csrf": hidden(page, "csrf")})
            address, page = gone, await self._paced("GET", gone)
            names = dict(re.findall(r'type="radio" name="([^"]+)" value="([^"]+)"', page))
            data = {name: hidden(page, name) for name in ("csrf", "submission")} | {"seconds": "5", **names}
            await self._paced("POST", f"{address}/draft", data | {"0.remark": "as far as it goes " * 20})
            await self._paced("POST", address, data)

    async def _paced(self, method: str, address: str, data: dict[str, str] | None = None) -> str:
        began = time.monotonic()
        found = await self._text(method, address, data)
        self.took.append(time.monotonic() - began)
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))
        return found

    async def _text(self, method: str, address: str, data: dict[str, str] | None = None) -> str:
        """The page; of an answer that leads elsewhere, where to."""
        async with self.session.request(method, address, data=data, allow_redirects=False) as answer:
            if answer.status not in (200, 303):
                self.failed.append(f"{method} {address}: {answer.status}")
            text = await answer.text()
            return answer.headers.get("location", text)


def hidden(page: str, name: str) -> str:
    return re.findall(rf'<input type="hidden" name="{name}" value="([^"]*)">', page)[-1]


async def measured(address: str, round_id: str, sessions: int, seconds: float) -> list[Annotator]:
    """Sessions that logged in and then worked for so many seconds."""
    clients = [
        aiohttp.ClientSession(address, cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"origin": address})
        for _ in range(sessions)
    ]
    people = [Annotator(client, round_id, number) for number, client in enumerate(clients)]
    try:
        await asyncio.gather(*(each.log_in() for each in people))
        until = time.monotonic() + seconds
        await asyncio.gather(*(each.work(until) for each in people))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return people


def quantile(people: list[Annotator], share: float) -> float:
    took = sorted(second for each in people for second in each.took)
    return round(1_000 * took[min(len(took) - 1, int(share * len(took)))], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        tasks = max(100, int(options.sessions * options.seconds / EVERY))
        round_id = asyncio.run(prepare(home, options.sessions, tasks))
        with served(home) as address:
            time.sleep(6)
            alone = asyncio.run(measured(address, round_id, options.sessions, options.seconds))
            beside = alone
            if not options.alone:
                with building(Path(folder, "builds")):
                    beside = asyncio.run(measured(address, round_id, options.sessions, options.seconds))
    every = alone + (beside if beside is not alone else [])
    found = {
        "sessions": options.sessions,
        "requests": sum(len(each.took) for each in every),
        "answered": sum(len(each.took) for each in every) - sum(len(each.failed) for each in every),
        "p50_ms": quantile(alone, 0.5),
        "p95_ms": quantile(alone, 0.95),
        "beside_p95_ms": quantile(beside, 0.95),
        "ratio_to_limit": round(quantile(beside, 0.95) / LIMIT_MS, 2),
        "ratio_to_alone": round(quantile(beside, 0.95) / quantile(alone, 0.95), 2),
        "cores": os.cpu_count(),
    }
    print(json.dumps(found) if options.json else "\n".join(f"{name:<16} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
