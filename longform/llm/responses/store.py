"""The response store: every reply that was paid for, as it came, under the key of its request.

A reply is committed before anybody reads it, and read from its bytes each time: a parser that errs costs nothing.
It lies in a SQLite file, which one process at a time may write, or in a PostgreSQL database, for several.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
    """What SQLite and PostgreSQL each do in their own way. Queries are those of `records.py`. Errors: StoreError.

    `named` is what messages call it; `rows_per_query` are read or written at once.
    """

    named: str
    exclusive: bool
    rows_per_query: int

    @property
    def allowances(self) -> Allowances | None:
        """What tells how much of an endpoint is this process's; None where all of it is."""

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows that a query finds."""

    def change(self, query: str, *values: Any, then: Iterable[tuple[str, Sequence[Row]]] = ()) -> int:
        """How many rows a statement changed; where any, what is to be done `then` was, in the same transaction."""

    def add(self, records: Sequence[tuple[str, Record]]) -> int:
        """Store what is not there yet; how many were new."""

    def purge(self, keys: list[bytes]) -> int:
        """Delete these records; how many there were."""

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid]) -> None:
        """Store both in one transaction, which may be shared with others who put meanwhile."""

    async def lease(self, keys: Sequence[str], again: bool) -> set[str]:
        """Those keys that are granted."""

    async def release(self, keys: Sequence[str]) -> None:
        """Give back what was granted."""

    def close(self) -> None:
        """Write what waits, then let go."""


class ResponseStore:
    """Every method may be called from any thread; `put` and `lease` from any event loop. Errors: StoreError.

    `exclusive`: only this process writes here, so that leases are always granted. Else `allowances` tell what of an
    endpoint is this process's.
    """

    def __init__(self, database: Database, let_go: Callable[[], None] | None = None) -> None:
        self._database, self._ending = database, ExitStack()
        self._ending.callback(let_go or database.close)
        self.exclusive, self.allowances = database.exclusive, database.allowances

    # reading

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """The records of those keys that are there."""
        chunks = _chunks(keys, self._database.rows_per_query)
        return {key: record for chunk in chunks for key, record in self._records(BY_KEY, _bytes(chunk))}

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        """All records, or those of these keys, in the order of their keys; in constant memory."""
        if keys is not None:
            for chunk in _chunks(sorted(set(keys)), self._database.rows_per_query):
                yield from sorted(self.get(chunk).items())
            return
        after = ""
        while page := self._records(PAGE_AFTER, bytes.fromhex(after), self._database.rows_per_query):
            yield from page
            after = page[-1][0]

    def stats(self) -> list[dict[str, Any]]:
        """A dict for each endpoint, model and task: answers, errors, input_tokens, output_tokens, cost_nano, bytes."""
        return [dict(zip(STATS, row, strict=True)) for row in self._database.rows(SELECT_STATS)]

    def ledger(self, dataset: str, recipes: Collection[str] | None = None) -> list[dict[str, Any]]:
        """What was paid for a dataset, or for these recipes of it, in the order of first payment.

        A dict for each stage, endpoint, model and batch (bool): calls, unanswered, input_tokens, cached_tokens,
        output_tokens, cost_nano, unpriced (calls of unknown price).
        """
        if recipes is None:
            rows = self._database.rows(SELECT_LEDGER, dataset)
        else:
            rows = self._database.rows(SELECT_LEDGER_OF, dataset, list(recipes))
        lines = [dict(zip(LEDGER, row, strict=True)) for row in rows]
        return [{**line, "batch": bool(line["batch"])} for line in lines]

    def usage(self, endpoint: str, model: str, task: str) -> Usage | None:
        """Of the latest answers (a few hundred), None where there is none."""
        rows = self._database.rows(SELECT_LATEST, endpoint, model, task)
        return usage_of(self._readable(rows, lambda row: (len(unpacked(row[0])), *tuple(row)[1:])))

    def _records(self, query: str, *values: Any) -> list[tuple[str, Record]]:
        return self._readable(self._database.rows(query, *values), record_of)

    def _readable(self, rows: list[Any], read: Callable[[Any], T]) -> list[T]:
        try:
            return [read(row) for row in rows]
        except zlib.error as error:
            named = self._database.named
            raise StoreError(f"{named} holds a damaged record ({error}): restore it from a backup.") from None

    # writing

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        """Store in place of what was there, with the ledger's lines, in one transaction; returns when committed."""
        await self._database.put(records, paid)

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        """Those keys that this process may ask a model for now; the others are being asked for by another process.

        Keys that have an answer are not granted, unless they are to be asked `again`. A lease ends with the `put` of
        its key, with `release`, or some minutes after its process has gone.
        """
        return await self._database.lease(keys, again)

    async def release(self, keys: Sequence[str]) -> None:
        await self._database.release(keys)

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        """Store what is not there yet, without the ledger; how many were new."""
        return sum(self._database.add(chunk) for chunk in _chunks(records, ROWS_PER_ADD))

    def purge(self, keys: Collection[str]) -> int:
        """Delete these records, beyond recovery where the database can do that; how many there were.

        The ledger keeps what was paid for them. Takedowns call it from flows/cli/shared/takedown_effects.py.
        """
        return self._database.purge(_bytes(sorted(set(keys))))

    # batches

    def stage_job(self, job: Job, keys: Sequence[str]) -> None:
        """Write down a job and its keys in one transaction."""
        dated = replace(job, created=time.time() if job.created is None else job.created)
        items = [(job.name, place, key) for place, key in enumerate(_bytes(keys))]
        then: list[tuple[str, list[Any]]] = [(DELETE_ITEMS, [(job.name,)]), (ADD_ITEM, items)]
        if not self._database.change(STAGE_JOB, *astuple(dated), then=then):
            raise StoreError(f"Batch {job.name} is under way in another process: wait until it has ended.")

    def update_job(self, name: str, **changes: Any) -> None:
        columns = ", ".join(f"{column} = ${place}" for place, column in enumerate(changes, 1))
        self._database.change(
            f"UPDATE longform.job SET {columns} WHERE name = ${len(changes) + 1}", *changes.values(), name
        )

    def jobs(self, endpoint: str | None = None) -> list[Job]:
        """Jobs that have not ended (state neither DONE nor GONE), oldest first."""
        return [Job(*row) for row in self._database.rows(OPEN_JOBS, endpoint)]

    def job_keys(self, name: str) -> list[str]:
        return [row[0].hex() for row in self._database.rows(JOB_KEYS, name)]

    def close(self) -> None:
        """Let go of the database; the last one in this process to do so writes what waits and closes it."""
        self._ending.close()


Place = tuple[Path | str, bool]

_open: dict[Place, Database] = {}
_users: Counter[Place] = Counter()
_opening = threading.Lock()


def open_responses(where: Path | str, *, read_only: bool = False) -> ResponseStore:
    """The store of this SQLite file or PostgreSQL URL, shared by all who open it in this process; each closes it.

    With `read_only` it is neither locked nor written, may be open in another process, and a missing file is an
    empty store. BusyError where another process writes to the file, StoreError where it cannot be used.
    """
    place = where if str(where).startswith(("postgresql://", "postgres://")) else Path(where).resolve()
    with _opening:
        chosen = place, read_only and isinstance(place, Path) and (place, False) not in _open
        if chosen not in _open:
            _open[chosen] = _database(*chosen)
        _users[chosen] += 1
        return ResponseStore(_open[chosen], partial(_let_go, chosen))


def _let_go(place: Place) -> None:
    with _opening:
        _users[place] -= 1
        if not _users[place]:
            _open.pop(place).close()


def _database(place: Path | str, read_only: bool) -> Database:
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
