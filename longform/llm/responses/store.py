"""The response store: every reply that was paid for, as it was received, under the key of its request.

A reply is committed before it is used, and is parsed from its stored bytes each time, so that an error in a parser can
be corrected without another call. The store is a SQLite file, which one process at a time may write, or a PostgreSQL
database, for several processes.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from longform.errors import StoreError
from longform.llm.responses.records import (
    ADD_ITEM,
    BY_KEY,
    DELETE_ITEMS,
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
    Job,
    Paid,
    Record,
    Row,
    Usage,
    record_of,
    unpacked,
    usage_of,
)

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

    def add(self, records: Sequence[tuple[str, Record]]) -> int:
        """Store those records whose keys are not stored yet; how many were new."""

    def purge(self, keys: list[bytes]) -> int:
        """Delete the records under these keys; how many there were."""

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid]) -> None:
        """Store records, in place of those under the same keys, and ledger lines, in one transaction, which may be
        shared with other callers; returns when committed.
        """

    async def lease(self, keys: Sequence[str], again: bool) -> set[str]:
        """Those of the keys for which this process may ask a model now; see `ResponseStore.lease`."""

    async def release(self, keys: Sequence[str]) -> None:
        """Give back those leases of these keys that this process has."""

    def close(self) -> None:
        """Commit what waits, then close the database."""


class ResponseStore:
    """The store of a database. All methods may be called from any thread; `put`, `lease` and `release` from any event
    loop. Errors are StoreError.

    `exclusive`: only this process writes, so that leases are always granted. Else `allowances` keeps each process's
    share of an endpoint. `let_go` is what `close` calls in place of the database's own `close`.
    """

    def __init__(self, database: Database, let_go: Callable[[], None] | None = None) -> None:
        self._database, self._ending = database, ExitStack()
        self._ending.callback(let_go or database.close)
        self.exclusive, self.allowances = database.exclusive, database.allowances

    # reading

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """Key -> record, for those of the keys that are stored: a reply, also an unusable one, or a tombstone."""
        chunks = _chunks(keys, self._database.rows_per_query)
        return {key: record for chunk in chunks for key, record in self._records(BY_KEY, _bytes(chunk))}

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        """(key, record) of all records, or of those under `keys` that are stored, sorted by key; in constant memory."""
        if keys is not None:
            for chunk in _chunks(sorted(set(keys)), self._database.rows_per_query):
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
        cached_tokens, output_tokens, cost_nano (billionths of a US dollar), unpriced (calls of unknown price).
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
        rows = self._database.rows(SELECT_LATEST, endpoint, model, task)
        return usage_of(self._readable(rows, lambda row: (len(unpacked(row[0])), *tuple(row)[1:])))

    def _records(self, query: str, *values: Any) -> list[tuple[str, Record]]:
        """(key, record) of the rows that a query finds; StoreError where one is damaged."""
        return self._readable(self._database.rows(query, *values), record_of)

    def _readable(self, rows: list[Any], read: Callable[[Any], T]) -> list[T]:
        """The rows, each converted by `read`; StoreError where that raises zlib.error, as of a damaged record."""
        try:
            return [read(row) for row in rows]
        except zlib.error as error:
            named = self._database.named
            raise StoreError(f"{named} holds a damaged record ({error}): restore it from a backup.") from None

    # writing

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        """Store records, in place of those under the same keys, and ledger lines, in one transaction; returns when
        committed.
        """
        await self._database.put(records, paid)

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        """Those of the keys for which this process may ask a model now. Other keys are leased to another process, or
        have a usable reply stored.

        With `again` keys with a usable reply are granted too. A lease ends with the `put` of its key, with `release`,
        or about a minute after its process has died. An `exclusive` store grants all keys.
        """
        return await self._database.lease(keys, again)

    async def note_failed(self, faults: Mapping[str, str], run: str) -> dict[str, int]:
        """Note that this run has asked these keys (key -> fault) in vain; key -> number of runs that did."""
        failing = _failing.setdefault(self._database.named, {})
        for key in faults:
            failing.setdefault(key, set()).add(run)
        return {key: len(failing[key]) for key in faults}

    async def release(self, keys: Sequence[str]) -> None:
        """Give back this process's leases of these keys, so that another process may ask."""
        await self._database.release(keys)

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        """Store those records whose keys are not stored yet, without lines of the ledger; how many were new."""
        return sum(self._database.add(chunk) for chunk in _chunks(records, ROWS_PER_ADD))

    def purge(self, keys: Collection[str]) -> int:
        """Delete the records under these keys, and overwrite their bytes where the database can do that; how many there
        were.

        The ledger keeps what was paid for them. Takedowns call it from flows/cli/shared/takedown_effects.py.
        """
        return self._database.purge(_bytes(sorted(set(keys))))

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

    def close(self) -> None:
        """Give up the use of the database. The last store of this process that does so commits what waits and closes
        the database.
        """
        self._ending.close()


Place = tuple[Path | str, bool]

_open: dict[Place, Database] = {}
_failing: dict[str, dict[str, set[str]]] = {}
_users: Counter[Place] = Counter()
_opening = threading.Lock()


def open_responses(where: Path | str, *, read_only: bool = False) -> ResponseStore:
    """The store of a SQLite file or a PostgreSQL URL. Its database is shared by all who open it in this process; each
    must close the store. BusyError where another process writes to the file, StoreError where it cannot be used or
    another machine has it.

    With `read_only` a file is neither locked nor written, another process of this machine may write to it (no
    BusyError), and a missing file is an empty store. This has no effect on PostgreSQL, or on a file that this process
    already has open for writing.
    """
    place = where if str(where).startswith(("postgresql://", "postgres://")) else Path(where).resolve()
    with _opening:
        chosen = place, read_only and isinstance(place, Path) and (place, False) not in _open
        if chosen not in _open:
            _open[chosen] = _database(*chosen)
        _users[chosen] += 1
        return ResponseStore(_open[chosen], partial(_let_go, chosen))


def _let_go(place: Place) -> None:
    """Note that one user fewer has the database open; close the database after the last."""
    with _opening:
        _users[place] -= 1
        if not _users[place]:
            _open.pop(place).close()


def _database(place: Path | str, read_only: bool) -> Database:
    """Open a SQLite file (a path) or a PostgreSQL database (a URL, for which `read_only` has no effect). The errors of
    `open_responses`.
    """
    if isinstance(place, Path):
        from longform.llm.responses.sqlite import SqliteDatabase

        return SqliteDatabase(place, read_only=read_only)
    from longform.llm.responses.postgres import PostgresDatabase

    return PostgresDatabase(place)


def _bytes(keys: Iterable[str]) -> list[bytes]:
    return [bytes.fromhex(key) for key in keys]


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
