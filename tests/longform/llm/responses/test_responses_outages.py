"""PostgreSQL that does not answer for a while, or for good: whoever uses it or opens it waits as long, and says so."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import paths
import pytest
from ports import held_port
from postgresql import Server
from processes import started, wait_for
from stored_responses import full, key, lease, paid, put

from longform.errors import StoreError
from longform.llm.responses.postgres import PostgresDatabase
from longform.llm.responses.store import ResponseStore, open_responses

pytestmark = pytest.mark.check

PATIENCE_SECONDS = 30.0  # as docs/models.md says
OUTAGE_SECONDS = 15.0


class Busy:
    """Threads that do each of a store's operations over and over: what they ended with, and the longest of each."""

    def __init__(self, store: ResponseStore, *names: str) -> None:
        self.store, self.over = store, threading.Event()
        self.failed: dict[str, Exception] = {}
        self.done: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        assert store.allowances
        share = store.allowances.share
        operations: dict[str, Callable[[int], object]] = {
            "put": lambda n: put(store, [full(n)], [paid(n)]),
            "lease": lambda n: lease(store, key(10**6 + n)),
            "release": lambda n: asyncio.run(store.release([key(10**6 + n)])),
            "get": lambda n: store.get([key(n)]),
            "spent": lambda _: store.spent("axioms", without_run="mine"),
            "share": lambda _: asyncio.run(share("mine", "me", total=4, wanted=2, in_use=0)),
            "note_failed": lambda n: asyncio.run(store.note_failed({key(2 * 10**6 + n): "no JSON"}, "r")),
            "failing": lambda n: store.failing([key(2 * 10**6 + n)]),
            "usage": lambda _: store.usage("test", "m", "axioms/corrupt"),
            "stats": lambda _: store.stats(),
            "jobs": lambda _: store.jobs(),
        }
        self.threads = [
            threading.Thread(target=self.work, args=[name, do])
            for name, do in operations.items()
            if not names or name in names
        ]
        for thread in self.threads:
            thread.start()

    def work(self, name: str, do: Callable[[int], object]) -> None:
        while not self.over.is_set() and name not in self.failed:
            began = time.monotonic()
            try:
                do(self.done.get(name, 0))
                self.done[name] = self.done.get(name, 0) + 1
            except StoreError as error:
                self.failed[name] = error
            self.seconds[name] = max(self.seconds.get(name, 0.0), time.monotonic() - began)
            time.sleep(0.05)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


OPEN = """
import sys
from longform.llm.responses.store import open_responses
store = open_responses(sys.argv[1])
print(len(store.jobs()), flush=True)
store.close()
"""


def opening(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OPEN, url], cwd=paths.ROOT, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("how", ["hanging", "stopped"])
def test_an_outage_of_fifteen_seconds_ends_nobody_who_works_or_opens_and_is_said_once(dying: Server, how: str) -> None:
    url, said = dying.database(), list[str]()
    with closing(open_responses(url, say=said.append)) as store:
        busy = Busy(store)
        wait_for(lambda: len(busy.done) == len(busy.threads))
        opened: list[subprocess.CompletedProcess[str]] = []
        late = threading.Thread(target=lambda: opened.append(opening(url)))
        with dying.hanging() if how == "hanging" else dying.stopped():
            late.start()
            time.sleep(OUTAGE_SECONDS)
        late.join()
        before = dict(busy.done)
        wait_for(lambda: all(number > before[name] + 1 or name in busy.failed for name, number in busy.done.items()))
        busy.end()
        assert busy.failed == {}
        place = re.escape(f"The response store at 127.0.0.1:{dying.port}/{url.rpartition('/')[2]}")
        line = rf"{place} does not answer \(\w+\): waiting for it, 30 s at most\."
        assert (opened[0].returncode, opened[0].stdout) == (0, "0\n")
        assert re.fullmatch(rf"{line}\n", opened[0].stderr)
        if how == "stopped":  # one that hangs for less than an attempt may take is not noticed
            assert len(said) == 1
        assert all(re.fullmatch(line, each) for each in said)
        assert store.ledger("axioms")[0]["calls"] == busy.done["put"]


@pytest.mark.parametrize("how", ["hanging", "stopped"])
def test_opening_ends_with_the_words_of_an_open_store_when_its_patience_is_over(dying: Server, how: str) -> None:
    url = dying.database()
    with closing(open_responses(url)) as store:
        busy = Busy(store, "put", "lease", "get", "spent", "share", "usage", "stats")
        wait_for(lambda: len(busy.done) == len(busy.threads))
        with dying.hanging() if how == "hanging" else dying.stopped():
            began = time.monotonic()
            opened = opening(url)
            took = time.monotonic() - began
            for thread in busy.threads:
                thread.join()
            assert time.monotonic() - began < PATIENCE_SECONDS + 15
        assert opened.returncode == 1
        assert PATIENCE_SECONDS - 2 < took < PATIENCE_SECONDS + 15
        place = f"The response store at 127.0.0.1:{dying.port}/{url.rpartition('/')[2]}"
        sentence = rf"{re.escape(place)} cannot be reached \(\w+\): check that PostgreSQL runs there and lets this "
        assert len(re.findall("does not answer", opened.stderr)) == 1
        assert re.search(sentence, opened.stderr)
        assert busy.failed.keys() == busy.done.keys()
        assert all(re.match(sentence, str(error)) for error in busy.failed.values())


def test_what_waiting_cannot_mend_ends_the_opening_at_once(dying: Server) -> None:
    said: list[str] = []
    for url, why in (
        (dying.url(password="wrong"), "refuses this user"),
        (dying.url("nowhere"), "has no database of this name"),
        (f"postgresql://owner:secret@nobody.invalid:{dying.port}/x", "cannot be reached \\(gaierror\\)"),
    ):
        began = time.monotonic()
        with pytest.raises(StoreError, match=why):
            open_responses(url, say=said.append)
        assert time.monotonic() - began < 10
    assert said == []


SHARE = """
import asyncio, sys
from longform.llm.responses.store import open_responses
store = open_responses(sys.argv[1])
async def share():
    while True:
        await store.allowances.share("mine", "sleeper", total=4, wanted=2, in_use=0)
asyncio.run(share())
"""


def test_a_process_that_sleeps_in_a_transaction_does_not_keep_others_from_the_store(
    postgres: Server, postgres_url: str
) -> None:
    """It holds the lock under which processes share an endpoint."""
    locks = "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
    inside = f"SELECT count(*) {locks} AND state = 'idle in transaction'"
    command = [sys.executable, "-c", SHARE, postgres_url]
    with closing(open_responses(postgres_url)) as store, started(command, cwd=paths.ROOT) as sleeper:
        assert store.allowances
        end = time.monotonic() + 60
        while not (sleeper.send_signal(signal.SIGSTOP) or settled(postgres, inside)):
            assert time.monotonic() < end
            sleeper.send_signal(signal.SIGCONT)
            time.sleep(random.uniform(0.001, 0.01))
        began = time.monotonic()
        share = asyncio.run(store.allowances.share("mine", "me", total=4, wanted=2, in_use=0))
        assert time.monotonic() - began < 14
        assert sum(share) > 0
        sleeper.send_signal(signal.SIGCONT)
        time.sleep(1)
        assert sleeper.poll() is None, "it goes on when it wakes"


def settled(server: Server, inside: str) -> bool:
    """Whether the process was stopped inside; what it had sent is done by then."""
    time.sleep(0.1)
    return bool(server.execute(inside)[0][0])


@contextmanager
def stalling(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A way to the server on which, once the event is set, connections of before carry nothing more: as where a
    firewall forgot them. Its port, and the event.
    """
    stalled, over = threading.Event(), threading.Event()

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begun_before: bool) -> None:
        with suppress(ConnectionError):
            while content := await reader.read(65536):
                if begun_before and stalled.is_set():
                    await asyncio.sleep(600)
                writer.write(content)
                await writer.drain()

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        before = not stalled.is_set()
        try:
            ways = [one_way(reader, back, before), one_way(there, writer, before)]
            with suppress(asyncio.CancelledError):  # at the end
                await asyncio.wait(map(asyncio.ensure_future, ways), return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()
            back.close()

    async def serve(own: int) -> None:
        listening = await asyncio.start_server(both_ways, "127.0.0.1", own)
        while not over.is_set():
            await asyncio.sleep(0.01)
        listening.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    with held_port() as own:
        thread = threading.Thread(target=asyncio.run, args=[serve(own)])
        thread.start()
        wait_for(lambda: _listens(own))
        try:
            yield own, stalled
        finally:
            over.set()
            thread.join()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_connections_that_were_forgotten_on_the_way_end_nobody(postgres: Server, postgres_url: str) -> None:
    with stalling(postgres.port) as (port, stalled):
        store = open_responses(postgres_url.replace(f":{postgres.port}/", f":{port}/"))
        busy = Busy(store, "put", "get", "spent", "share")
        wait_for(lambda: len(busy.done) == 4)
        before = dict(busy.done)
        stalled.set()
        wait_for(lambda: all(n > before[name] + 3 or name in busy.failed for name, n in busy.done.items()), 120)
        busy.end()
        assert busy.failed == {}
        store.close()


def test_a_lease_outlives_a_crash_of_the_server(dying: Server) -> None:
    """Who has it may be asking a model: nobody else is to ask at the same time."""
    url = dying.database()
    with (
        closing(ResponseStore(PostgresDatabase(url))) as mine,
        closing(ResponseStore(PostgresDatabase(url))) as theirs,
    ):
        for number in range(5):
            assert lease(mine, key(number)) == {key(number)}
            with dying.stopped():
                pass
            assert lease(theirs, key(number)) == set()
