"""The response store: every reply that was paid for, as it was received, under the key of its request.

A reply is committed before it is used, and is parsed from its stored bytes each time, so that an error in a parser can
be corrected without another call. The store is a SQLite file, which one process at a time may write, or a PostgreSQL
database, for several processes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from longform import settings
from longform.errors import StoreError
from longform.llm.responses.identity import Memory, forget
from longform.llm.responses.records import (
    ADD_ITEM,
    BY_KEY,
    DELETE_ITEMS,
    FAIL,
    FAILING,
    JOB_KEYS,
    LEDGER,
    OPEN_JOBS,
    PAGE_AFTER,
    SELECT_LATEST,
    SELECT_LEDGER,
    SELECT_LEDGER_OF,
    SELECT_SPENT,
    SELECT_STATS,
    STAGE_JOB,
    STATS,
    Holdings,
    Job,
    Line,
    Paid,
    Record,
    Row,
    Usage,
    chunks,
    is_damaged,
    record_of,
    reply_of,
    usage_of,
)
from longform.llm.responses.unstored import replay

if TYPE_CHECKING:
    from longform.llm.gate.sharing import Allowances

ROWS_PER_ADD = 256

T = TypeVar("T")


class Database(Protocol):
    """What SQLite and PostgreSQL implement each in their own way. Queries are those of
    longform/llm/responses/records.py. Errors are StoreError.

    `named` is the database's name in messages. `exclusive`: no other process can write. At most `rows_per_query`
    records are to be read or written at once. Keys are 64 hex digits, or their 32 bytes.
    """

    named: str
    exclusive: bool
    rows_per_query: int

    @property
    def allowances(self) -> Allowances | None:
        """The shares of an endpoint's concurrency among processes; None where this process has all of it."""

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query finds."""

    def change(self, query: str, *values: Any, then: Iterable[tuple[str, Sequence[Row]]] = ()) -> int:
        """Run a statement, and return how many rows it changed. If any, each statement in `then` is run for its rows,
        in the same transaction.
        """

    def write(self, statements: Iterable[tuple[str, Sequence[Row]]]) -> None:
        """Run each statement for its rows, all in one transaction."""

    def add(self, records: Sequence[tuple[str, Record]]) -> int:
        """Store those records whose keys are not stored yet; how many were new."""

    def restore(self, records: Sequence[tuple[str, Record]], lines: Sequence[Line]) -> None:
        """Store those records under whose keys there is no usable reply, and those lines of the ledger whose ids are
        not there, in one transaction.
        """

    def purge(self, keys: list[bytes]) -> int:
        """Delete the records under these keys, and count them as purged; how many there were."""

    def holdings(self, *, patient: bool = False) -> Holdings:
        """What the database holds; StoreError where it cannot be reached: at once, unless `patient`."""

    def faults(self, *, repair: bool) -> list[str]:
        """What is damaged in how the database is laid out, in its own words. With `repair` all that can be derived
        from the records is first derived anew.
        """

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid]) -> None:
        """Store records, in place of those under the same keys, and ledger lines, in one transaction, which may be
        shared with other callers; returns when committed.
        """

    async def lease(self, keys: Sequence[str], again: bool) -> set[str]:
        """Those of the keys for which this process may ask a model now; see `ResponseStore.lease`."""

    async def release(self, keys: Sequence[str]) -> None:
        """Give back those leases of these keys that this process has."""

    def unstored(self) -> str:
        """How many answers could not be stored here, and where they are kept, in sentences; empty if there is none."""

    def close(self) -> None:
        """Commit what waits, then close the database."""


class ResponseStore:
    """The store of a database. All methods may be called from any thread; `put`, `lease` and `release` from any event
    loop. Errors are StoreError.

    A record whose checksum does not match was altered where it is stored: it is never used, but a StoreError.

    `exclusive`: only this process writes, so that leases are always granted. Else `allowances` keeps each process's
    share of an endpoint. `let_go` is what `close` calls in place of the database's own `close`. `stored` is called
    after each put.
    """

    def __init__(
        self,
        database: Database,
        let_go: Callable[[], None] | None = None,
        stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._database, self._ending, self._stored = database, ExitStack(), stored
        self._ending.callback(let_go or database.close)
        self.exclusive, self.allowances = database.exclusive, database.allowances

    # reading

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """Key -> record, for those of the keys that are stored: a reply, also an unusable one, or a tombstone."""
        parts = chunks(keys, self._database.rows_per_query)
        return {key: record for chunk in parts for key, record in self._records(BY_KEY, _bytes(chunk))}

    def replies(self, keys: Sequence[str]) -> dict[str, Record]:
        """As `get`, but with empty requests: half as long again is needed to read these, too."""
        parts = chunks(keys, self._database.rows_per_query)
        return {key: record for chunk in parts for key, record in self._records(BY_KEY, _bytes(chunk), read=reply_of)}

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        """(key, record) of all records, or of those under `keys` that are stored, sorted by key; in constant memory."""
        if keys is not None:
            for chunk in chunks(sorted(set(keys)), self._database.rows_per_query):
                yield from sorted(self.get(chunk).items())
            return
        after = ""
        while page := self._records(PAGE_AFTER, bytes.fromhex(after), self._database.rows_per_query):
            yield from page
            after = page[-1][0]

    def stats(self) -> list[dict[str, Any]]:
        """A dict for each endpoint, model and task, sorted: endpoint, model, task, answers (stored replies, also
        unusable ones), errors (tombstones), input_tokens, output_tokens, cost_nano (billionths of a US dollar; unknown
        prices count as 0), bytes (as compressed).
        """
        return [dict(zip(STATS, row, strict=True)) for row in self._database.rows(SELECT_STATS)]

    def ledger(self, dataset: str, recipes: Collection[str] | None = None) -> list[dict[str, Any]]:
        """What was paid for a dataset, or for its artifacts with these `recipes` (fingerprints), in the order of first
        payment.

        A dict for each stage, endpoint, model and batch (bool): these four, calls, unanswered, input_tokens,
        cached_tokens, output_tokens, reasoning_tokens, cost_nano (billionths of a US dollar), unpriced (calls of
        unknown price).
        """
        if recipes is None:
            rows = self._database.rows(SELECT_LEDGER, dataset)
        else:
            rows = self._database.rows(SELECT_LEDGER_OF, dataset, list(recipes))
        lines = [dict(zip(LEDGER, row, strict=True)) for row in rows]
        return [{**line, "batch": bool(line["batch"])} for line in lines]

    def spent(self, dataset: str | None = None, *, without_run: str = "") -> int:
        """What was paid for a dataset, or for all (None), in billionths of a US dollar: by the lines of all runs but
        one. Calls of unknown price count nothing.
        """
        return int(self._database.rows(SELECT_SPENT, dataset, without_run)[0][0])

    def usage(self, endpoint: str, model: str, task: str) -> Usage | None:
        """What the latest answers (LATEST_ANSWERS at most) of a task and model at this endpoint used on average, of
        those that say how many tokens they used; None where there are none.
        """
        return usage_of(
            [
                (
                    len(record.request),
                    record.input_tokens or 0,
                    record.output_tokens or 0,
                    record.reasoning_tokens or 0,
                    record.milliseconds,
                )
                for _, record in self._records(SELECT_LATEST, endpoint, model, task)
            ]
        )

    def damaged(self) -> list[str]:
        """The keys of all records that are damaged, sorted; goes through the whole store."""
        found: list[str] = []
        after = b""
        while page := self._database.rows(PAGE_AFTER, after, self._database.rows_per_query):
            found += [row[0].hex() for row in page if is_damaged(row)]
            after = page[-1][0]
        return found

    def faults(self, *, repair: bool = False) -> list[str]:
        """What is damaged in the database's own layout, in its words; empty if nothing is, or where the database has
        means of its own to tell (PostgreSQL). With `repair` indexes are built anew first.
        """
        return self._database.faults(repair=repair)

    def failing(self, keys: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Key -> (in how many runs it got no usable reply, the last fault), for those of the keys that failed and were
        not answered since.
        """
        found: dict[str, tuple[int, str]] = {}
        for chunk in chunks(_bytes(sorted(set(keys))), self._database.rows_per_query):
            for key, fault in self._database.rows(FAILING, chunk):
                runs, _ = found.get(key.hex(), (0, ""))
                found[key.hex()] = (runs + 1, fault)
        return found

    def _records(
        self, query: str, *values: Any, read: Callable[[Row], tuple[str, Record]] = record_of
    ) -> list[tuple[str, Record]]:
        """(key, record) of the rows that a query finds; StoreError where one is damaged."""
        rows = self._database.rows(query, *values)
        try:
            return [read(row) for row in rows]
        except ValueError as error:
            key = next(row[0] for row in rows if is_damaged(row))
            named = key.hex() if isinstance(key, bytes) else key
            raise StoreError(
                f"{self._database.named} holds a damaged record ({error}) under key {named}: "
                "run `longform responses check`, and with --drop, to have such records asked again; or restore it."
            ) from None

    # writing

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        """Store records, in place of those under the same keys, and ledger lines, in one transaction; returns when
        committed. A StoreError says how many answers are kept beside the home's store instead, until it is opened
        again; also where nobody waits for the put any more.
        """
        await self._database.put(records, paid)
        self._stored()

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        """Those of the keys for which this process may ask a model now. Other keys are leased to another process, or
        have a usable reply stored.

        With `again` keys with a usable reply are granted too. A lease ends with the `put` of its key, with `release`,
        or about a minute after its process has died. An `exclusive` store grants all keys.
        """
        return await self._database.lease(keys, again)

    async def release(self, keys: Sequence[str]) -> None:
        """Give back this process's leases of these keys, so that another process may ask."""
        await self._database.release(keys)

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        """Store those records whose keys are not stored yet, without lines of the ledger; how many were new."""
        return sum(self._database.add(chunk) for chunk in chunks(records, ROWS_PER_ADD))

    def purge(self, keys: Collection[str]) -> int:
        """Delete the records under these keys, and overwrite their bytes where the database can do that; how many there
        were.

        The ledger keeps what was paid for them. Takedowns call it from flows/cli/shared/takedown_effects.py.
        """
        return self._database.purge(_bytes(sorted(set(keys))))

    async def note_failed(self, faults: Mapping[str, str], run: str) -> dict[str, int]:
        """Note that these keys got no usable reply in a run, and why (key -> fault); in how many runs each has failed
        so far, this one included. A `put` of a usable reply or a tombstone ends the count.
        """
        now = time.time()
        rows = [
            (bytes.fromhex(key), run, fault.encode("utf-8", "replace").decode(), now)
            for key, fault in sorted(faults.items())
        ]
        await asyncio.to_thread(self._database.write, [(FAIL, rows)])
        found = await asyncio.to_thread(self.failing, list(faults))
        return {key: runs for key, (runs, _) in found.items()}

    # batches

    def stage_job(self, job: Job, keys: Sequence[str]) -> None:
        """Store a job and its keys in one transaction, in place of a job of this name; `created` is now if it is None.
        StoreError where a job of this name is uploaded or submitted and has not ended: another process works on it.
        """
        dated = replace(job, created=time.time() if job.created is None else job.created)
        items = [(job.name, place, key) for place, key in enumerate(_bytes(keys))]
        then: list[tuple[str, list[Any]]] = [(DELETE_ITEMS, [(job.name,)]), (ADD_ITEM, items)]
        if not self._database.change(STAGE_JOB, *astuple(dated), then=then):
            raise StoreError(f"Batch {job.name} is under way in another process: wait until it has ended.")

    def update_job(self, name: str, **changes: Any) -> None:
        """Set these fields of the job of this name; without effect if there is none."""
        columns = ", ".join(f"{column} = ${place}" for place, column in enumerate(changes, 1))
        self._database.change(
            f"UPDATE longform.job SET {columns} WHERE name = ${len(changes) + 1}", *changes.values(), name
        )

    def jobs(self, endpoint: str | None = None) -> list[Job]:
        """The jobs that have not ended (state neither DONE nor GONE), of all endpoints or of one, oldest first."""
        return [Job(*row) for row in self._database.rows(OPEN_JOBS, endpoint)]

    def job_keys(self, name: str) -> list[str]:
        """The keys of the job's requests, in their order in its file."""
        return [row[0].hex() for row in self._database.rows(JOB_KEYS, name)]

    def unstored(self) -> str:
        """How many answers could not be stored here, and where they are kept, in sentences; empty if there is none."""
        return self._database.unstored()

    def close(self) -> None:
        """Give up the use of the database. The last store of this process that does so commits what waits and closes
        the database.
        """
        self._ending.close()


Place = tuple[Path | str, bool, Path | None]
IN_A_HOME = "responses.sqlite"


class _Opened:
    """A database that users of this process share. With a `folder` (that of `<home>/llm`) it is checked against what
    the home remembers, gets what ended processes could not store, and is remembered.
    """

    def __init__(self, place: Path | str, read_only: bool, folder: Path | None, say: Callable[[str], None]) -> None:
        unstored = _beside(place, folder, "unstored") if folder else None
        self._memory = Memory(_beside(place, folder, "store.json")) if folder else None
        if self._memory and isinstance(place, Path):
            from longform.llm.responses.sqlite import sqlite_named

            self._memory.check_file(place, sqlite_named(place))
        self.database = _database(place, read_only, unstored, say)
        try:
            if self._memory and unstored:
                self._memory.check(self.database)
                replay(unstored, self.database.restore)
                self._memory.note(self.database)
        except BaseException:
            self.database.close()
            raise

    def stored(self) -> None:
        """Remember now and then how much there is."""
        if self._memory:
            self._memory.note_now_and_then(self.database)

    def close(self) -> None:
        """Close the database, after a last look at how much there is."""
        if self._memory:
            self._memory.end(self.database)
        self.database.close()


_open: dict[Place, _Opened] = {}
_users: Counter[Place] = Counter()
_opening = threading.Lock()


def open_responses(
    where: Path | str,
    *,
    read_only: bool = False,
    home: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> ResponseStore:
    """The store of a SQLite file or a PostgreSQL URL. Its database is shared by all who open it in this process; each
    must close the store. BusyError where another process writes to the file, StoreError where it cannot be used or
    another machine has it. A PostgreSQL that does not answer is waited for, now and later, which is said once: by
    `say`, from any thread, or on stderr.

    `home`: where a PostgreSQL store is remembered, and answers are kept that it does not take (None: nowhere); for a
    file this is its own folder. StoreError where the home remembers another store, or more answers than this one holds:
    that store was lost, replaced or is an older copy.

    With `read_only` a file is neither locked nor written, another process of this machine may write to it (no
    BusyError), a missing file is an empty store, and nothing is remembered. On PostgreSQL this only means that nothing
    is remembered. It has no effect on a file that this process already has open for writing.
    """
    place = where if str(where).startswith(("postgresql://", "postgres://")) else Path(where).resolve()
    with _opening:
        chosen = _place(place, read_only, home)
        if chosen not in _open:
            _open[chosen] = _Opened(*chosen, say or _on_stderr)
        opened = _open[chosen]
        _users[chosen] += 1
        return ResponseStore(opened.database, partial(_let_go, chosen), opened.stored)


def forget_responses(where: Path | str, home: Path) -> bool:
    """Have the home forget which store it used, so that the one at `where` is taken as it is; whether it knew any."""
    folder = where.resolve().parent if isinstance(where, Path) else home / "llm"
    return forget(_beside(where, folder, "store.json"))


def _place(place: Path | str, read_only: bool, home: Path | None) -> Place:
    """(file or URL, whether it is only read, the folder of what is remembered), which an opened database serves."""
    if isinstance(place, Path):
        writing: Place = (place, False, place.parent)
        return (place, True, None) if read_only and writing not in _open else writing
    return place, False, (home.resolve() / "llm" if home and not read_only else None)


def _beside(place: Path | str, folder: Path, name: str) -> Path:
    """The path of this name in the folder of a store; with the store's own name where it is not the one of a home."""
    other = isinstance(place, Path) and place.name != IN_A_HOME
    return folder / (f"{Path(place).name}.{name}" if other else name)


def _let_go(place: Place) -> None:
    """Note that one user fewer has the database open; close the database after the last."""
    with _opening:
        _users[place] -= 1
        if not _users[place]:
            _open.pop(place).close()


def _on_stderr(text: str) -> None:
    """Print a line to stderr in one write."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)


def _database(place: Path | str, read_only: bool, unstored: Path | None, say: Callable[[str], None]) -> Database:
    """Open a SQLite file (a path) or a PostgreSQL database (a URL, for which `read_only` has no effect). The errors of
    `open_responses`.
    """
    if isinstance(place, Path):
        from longform.llm.responses.sqlite import SqliteDatabase

        return SqliteDatabase(place, read_only=read_only, durable=settings.durability() == "full", unstored=unstored)
    from longform.llm.responses.postgres import PostgresDatabase

    return PostgresDatabase(place, unstored=unstored, say=say)


def _bytes(keys: Iterable[str]) -> list[bytes]:
    return [bytes.fromhex(key) for key in keys]
