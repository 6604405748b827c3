"""Answers that a database does not take are kept beside the home's store until it does, each exactly once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import paths
import pytest
from postgresql import Server
from processes import started
from stored_responses import key, paid, put

from longform.errors import StoreError
from longform.llm.responses.records import Line, Record
from longform.llm.responses.store import ResponseStore, open_responses
from longform.llm.responses.unstored import Unstored

ANSWER = Record(
    "test",
    "m",
    "t",
    "p",
    b'{"a": 1}',
    bytes(range(256)),
    finish="stop \ud800",
    cost_nano=2**40,
    created=1_700_000_000.25,
)
ERROR = StoreError("The store is away.")


def answers(*numbers: int) -> list[tuple[str, Record]]:
    return [(key(n), replace(ANSWER, body=b"%d" % n)) for n in numbers]


def line(number: int) -> Line:
    return uuid.UUID(int=number), 1_700_000_000.5, paid(number)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def where(request: pytest.FixtureRequest, home: Path) -> Path | str:
    sqlite = request.param == "sqlite"
    return home / "llm" / "responses.sqlite" if sqlite else str(request.getfixturevalue("postgres_url"))


def kept_in(home: Path) -> list[Path]:
    return sorted((home / "llm" / "unstored").glob("*.jsonl"))


@contextmanager
def spool(home: Path) -> Iterator[Unstored]:
    with closing(Unstored(home / "llm" / "unstored")) as opened:
        yield opened


# ---------------------------------------------------------------- the file


def test_what_was_kept_is_stored_when_the_store_is_next_opened(home: Path, where: Path | str) -> None:
    with spool(home) as unstored:
        (first,) = unstored.keep([(answers(1, 2), [line(1), line(2)])], [ERROR])
        (second,) = unstored.keep([(answers(3), [line(3)])], [ERROR])
        (path,) = kept_in(home)
        assert str(first) == f"{ERROR} Kept until it is opened again, in {path}: 2 answers that were paid for."
        assert str(second).endswith(f"{path}: 3 answers that were paid for.")
        assert path.stat().st_mode & 0o777 == 0o600
        with closing(open_responses(where, home=home)) as store:
            assert store.get([key(1)]) == {}  # the process that keeps it still runs
    with closing(open_responses(where, read_only=True)) as store:
        assert store.get([key(1)]) == {}
    with closing(open_responses(where, home=home)) as store:
        found = dict(store.scan())
        assert {name: record.body for name, record in found.items()} == {key(n): b"%d" % n for n in (1, 2, 3)}
        assert {record.created for record in found.values()} == {ANSWER.created}
        assert store.ledger("axioms")[0]["calls"] == 3
    assert kept_in(home) == []


def test_bytes_and_texts_come_back_as_they_were(home: Path, postgres_url: str) -> None:
    with spool(home) as unstored:
        unstored.keep([([(key(1), ANSWER)], [])], [ERROR])
    with closing(open_responses(postgres_url, home=home)) as store:
        assert store.get([key(1)]) == {key(1): ANSWER}


def test_what_is_stored_twice_is_there_once(home: Path, where: Path | str) -> None:
    """A kill between storing and deleting leaves the file."""
    with spool(home) as unstored:
        unstored.keep([(answers(1), [line(1)])], [ERROR])
    (path,) = kept_in(home)
    again = path.read_bytes()
    for _ in range(2):
        path.write_bytes(again)
        open_responses(where, home=home).close()
    with closing(open_responses(where, home=home)) as store:
        assert store.ledger("axioms")[0]["calls"] == 1


def test_a_usable_reply_stays_and_an_unusable_one_is_replaced(home: Path, where: Path | str) -> None:
    with closing(open_responses(where, home=home)) as store:
        usable, unusable = (key(1), replace(ANSWER, finish="a")), (key(2), replace(ANSWER, finish="b", code="unusable"))
        asyncio.run(store.put([usable, unusable]))
        asyncio.run(store.note_failed({key(2): "no JSON"}, "r"))
    with spool(home) as unstored:
        unstored.keep([(answers(1, 2), [])], [ERROR])
    with closing(open_responses(where, home=home)) as store:
        found = store.get([key(1), key(2)])
        assert (found[key(1)].finish, found[key(2)].body) == ("a", b"2")
        assert store.failing([key(2)]) == {}


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_line_that_a_kill_cut_off_is_passed_over_and_whole_ones_are_not(home: Path, cut: int) -> None:
    with spool(home) as unstored:
        for number in (1, 2):
            unstored.keep([(answers(number), [line(number)])], [ERROR])
    (path,) = kept_in(home)
    path.write_bytes(path.read_bytes()[:-cut])
    with closing(open_responses(home / "llm" / "responses.sqlite")) as store:
        assert set(store.get([key(1), key(2)])) == {key(1)} | ({key(2)} if cut == 1 else set())
    assert kept_in(home) == []


def test_without_a_home_answers_are_said_to_be_lost() -> None:
    (error,) = Unstored(None).keep([(answers(1, 2), [])], [ERROR])
    assert str(error) == f"{ERROR} Lost: 2 answers that were paid for (no home is given to keep them in)."


def test_on_a_full_disk_the_answers_that_are_lost_are_counted_and_the_others_kept(small_disk: Path) -> None:
    big = [(key(n), replace(ANSWER, body=os.urandom(200_000))) for n in range(9)]

    async def fill() -> list[BaseException | None]:
        return [*await asyncio.gather(*[store.put([entry]) for entry in big], return_exceptions=True)]

    with closing(open_responses(small_disk / "llm" / "responses.sqlite")) as store:
        outcomes = asyncio.run(fill())
        failed = [str(outcome) for outcome in outcomes if outcome]
        assert failed
        assert all("is full" in text or "full" in text for text in failed)
        assert any("Lost: " in text and "(No space left on device)" in text for text in failed)
        stored = set(store.get([name for name, _ in big]))
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    with closing(open_responses(small_disk / "llm" / "responses.sqlite")) as store:
        assert set(dict(store.scan())) >= stored
        assert store.damaged() == []


TAKEN_OVER = """
import asyncio, sys
from pathlib import Path
from longform.errors import StoreError
from longform.llm.responses.records import Paid, Record
from longform.llm.responses.sqlite import SqliteDatabase
from longform.llm.responses.store import ResponseStore
path = Path(sys.argv[1])
store = ResponseStore(SqliteDatabase(path, machine="elsewhere", lease_seconds=2, unstored=path.parent / "unstored"))
print("opened", flush=True)
sys.stdin.readline()
async def puts():
    keys = [f"{n:064x}" for n in range(1, 6)]
    paid = {key: Paid("r", "d", "s", "x", "e", "m", key, True, 1, 0, 1, 1) for key in keys}
    each = [store.put([(key, Record("e", "m", "t", "p", b"{}"))], [paid[key]]) for key in keys]
    return await asyncio.gather(*each, return_exceptions=True)
print(asyncio.run(puts())[0], flush=True)
sys.stdin.readline()
"""


@pytest.mark.check
def test_answers_of_a_process_whose_store_was_taken_over_are_kept_also_if_it_is_killed(home: Path) -> None:
    path = home / "llm" / "responses.sqlite"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with started([sys.executable, "-c", TAKEN_OVER, path], cwd=paths.ROOT, **pipes) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == "opened\n"
        other.send_signal(signal.SIGSTOP)
        store = opened_in_time(path)
        other.send_signal(signal.SIGCONT)
        other.stdin.write("\n")
        other.stdin.flush()
        said = other.stdout.readline()
        assert "was taken over by" in said
        assert "answers that were paid for." in said
        store.close()
        with closing(open_responses(path)) as store:
            assert list(store.scan()) == []
        other.kill()
        other.wait()
    with closing(open_responses(path)) as store:
        assert len(list(store.scan())) == 5
        assert store.ledger("d")[0]["calls"] == 5
    assert kept_in(home) == []


def opened_in_time(path: Path) -> ResponseStore:
    deadline = time.monotonic() + 600
    while True:
        try:
            return open_responses(path)
        except StoreError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# ---------------------------------------------------------------- a database that dies


class Putting:
    """Threads that put one answer after the other, until one is not taken."""

    def __init__(self, store: ResponseStore, threads: int) -> None:
        self.store, self.over, self.asked = store, threading.Event(), set[int]()
        self.failed: list[tuple[float, BaseException]] = []
        self.threads = [threading.Thread(target=asyncio.run, args=[self.put_on(n)]) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    async def put_on(self, thread: int) -> None:
        await asyncio.gather(*[self.put_each(10_000_000 * thread + 100_000 * caller) for caller in range(25)])

    async def put_each(self, number: int) -> None:
        while not self.over.is_set():
            number += 1
            self.asked.add(number)
            try:
                await self.store.put(answers(number), [paid(number)])
            except StoreError as error:
                self.failed.append((time.monotonic(), error))
                return

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def all_there(store: ResponseStore, numbers: set[int]) -> bool:
    return set(dict(store.scan())) == {key(n) for n in numbers} and store.ledger("axioms")[0]["calls"] == len(numbers)


@pytest.mark.check
def test_puts_go_on_when_a_killed_server_is_back_after_five_seconds(dying: Server, home: Path) -> None:
    with closing(open_responses(dying.database(), home=home)) as store:
        putting = Putting(store, 2)
        time.sleep(0.5)
        dying.kill()
        time.sleep(5)
        dying.start()
        time.sleep(2)
        putting.over.set()
        putting.join()
        assert putting.failed == []
        assert all_there(store, putting.asked)
    assert kept_in(home) == []


@pytest.mark.check
@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_all_fail_at_once_when_a_server_is_gone_for_good_and_nothing_is_lost(
    dying: Server, home: Path, how: str
) -> None:
    url = dying.database()
    store = open_responses(url, home=home)
    putting = Putting(store, 2)
    time.sleep(0.5)
    died = time.monotonic()
    with dying.hanging() if how == "hanging" else dying.killed():
        putting.join()
        times = [at - died for at, _ in putting.failed]
        assert len(times) == 50
        assert max(times) < 45, times
        assert "answers that were paid for." in str(putting.failed[-1][1])
        before = time.monotonic()
        for number in (1, 2, 3):
            with pytest.raises(StoreError, match="answers that were paid for"):
                put(store, answers(900_000_000 + number), [paid(900_000_000 + number)])
        assert time.monotonic() - before < 3
        before = time.monotonic()
        store.close()
        assert time.monotonic() - before < 30
        assert "answers that were paid for." in store.unstored()
    (path,) = kept_in(home)
    assert len(path.read_text().splitlines()) >= 53
    with closing(open_responses(url, home=home)) as store:
        assert all_there(store, {*putting.asked, 900_000_001, 900_000_002, 900_000_003})
    assert kept_in(home) == []


@pytest.mark.check
def test_answers_that_wait_for_a_dead_server_are_kept_when_the_store_is_closed(dying: Server, home: Path) -> None:
    url = dying.database()
    store = open_responses(url, home=home)
    putting = Putting(store, 1)
    time.sleep(0.5)
    dying.kill()
    time.sleep(1)
    store.close()
    putting.join()
    dying.start()
    with closing(open_responses(url, home=home)) as store:
        assert all_there(store, putting.asked)
