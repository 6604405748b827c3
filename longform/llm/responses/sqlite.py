"""The response store: every reply that was paid for, as it came, under the key of its request. SQLite.

    response   one row a request: the reply's bytes as received, or the permanent error it met (a tombstone)
    ledger     one row a call that was, or may have been, billed; only ever added to
    job        one row a batch; job_item its keys
    meta       key_version; the version of the tables is in PRAGMA user_version

A reply is committed before anybody reads it, and read from its bytes each time: a parser that errs costs nothing.
One process at a time may write (its lease lies beside the database, see leases.py), and in it one connection serves
everybody, as two that write at once could damage a WAL database under SQLite older than 3.51.3. What is put while a
transaction is being written goes into the next one, all of it. Others of the same machine may read meanwhile; another
machine may not even that, as the log of a WAL database is shared in memory: it takes PostgreSQL for several.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from functools import cache
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from longform.errors import BusyError, StoreError
from longform.leases import SECONDS, Lease, holder_elsewhere
from longform.llm.ask.keys import KEY_VERSION
from longform.llm.responses.records import REPLY, TOMBSTONE, Job, Paid, Record, ResponseStore, Usage, usage_of

FORMAT = 2
ENTRIES_PER_COMMIT = 512
KEYS_PER_QUERY = 64
ROWS_PER_ADD = 256
LATEST_ANSWERS = 300
PLAIN_BYTES = 1_280
SMALL_BYTES = 8_192
PLAIN = b"\0"

_RESPONSE = """(
  key BLOB PRIMARY KEY, created REAL, endpoint TEXT, model TEXT, task TEXT, prompt TEXT,
  state INTEGER NOT NULL, finish TEXT, code TEXT,
  ptok INTEGER, cached_tok INTEGER, ctok INTEGER, rtok INTEGER, tok_limit INTEGER,
  cost_nano INTEGER, batch INTEGER, ms INTEGER,
  request_id TEXT, served_model TEXT, fingerprint TEXT, request BLOB, body BLOB NOT NULL)"""
_LEDGER = """(
  created REAL, run TEXT, dataset TEXT, stage TEXT, recipe TEXT, endpoint TEXT, model TEXT, key BLOB,
  answered INTEGER, ptok INTEGER, cached_tok INTEGER, ctok INTEGER, cost_nano INTEGER, batch INTEGER)"""
_JOB = """(
  name TEXT PRIMARY KEY, endpoint TEXT, state TEXT, requests INTEGER, reserved_nano INTEGER,
  remote TEXT, input_file TEXT, created REAL, context TEXT)"""
_JOB_ITEM = "(job TEXT, place INTEGER, key BLOB, PRIMARY KEY(job, place)) WITHOUT ROWID"
_TABLES = {
    "response": _RESPONSE,
    "meta": "(k TEXT PRIMARY KEY, v TEXT)",
    "ledger": _LEDGER,
    "job": _JOB,
    "job_item": _JOB_ITEM,
}
_NEW_IN_2 = f"""
CREATE TABLE ledger{_LEDGER};
CREATE TABLE job{_JOB};
CREATE TABLE job_item{_JOB_ITEM};
CREATE INDEX ledger_dataset ON ledger(dataset);
CREATE INDEX response_task ON response(endpoint, model, task);
PRAGMA user_version = 2;
"""
_NEW = f"""
CREATE TABLE response{_RESPONSE};
CREATE TABLE meta{_TABLES["meta"]};
INSERT INTO meta VALUES ('key_version', '{KEY_VERSION}');
{_NEW_IN_2}
"""
_STEPS = {0: _NEW, 1: _NEW_IN_2, FORMAT: ""}

_RENAMED = {
    **{"input_tokens": "ptok", "cached_tokens": "cached_tok", "output_tokens": "ctok", "reasoning_tokens": "rtok"},
    **{"token_limit": "tok_limit", "milliseconds": "ms"},
}
_RECORD = [field.name for field in fields(Record)]
_REQUEST, _BODY, _BATCH = map(_RECORD.index, ("request", "body", "batch"))
_PAID = [field.name for field in fields(Paid)]
_RESPONSE_COLUMNS = ", ".join(["key", *(_RENAMED.get(name, name) for name in _RECORD)])
_LEDGER_COLUMNS = ", ".join(["created", *(_RENAMED.get(name, name) for name in _PAID)])
_JOB_COLUMNS = ", ".join(field.name for field in fields(Job))

_SELECT = f"SELECT {_RESPONSE_COLUMNS} FROM response"
_INTO_RESPONSE = f"INTO response({_RESPONSE_COLUMNS}) VALUES ({', '.join('?' * (1 + len(_RECORD)))})"
_PUT = f"INSERT OR REPLACE {_INTO_RESPONSE}"
_ADD = f"INSERT OR IGNORE {_INTO_RESPONSE}"
_PAY = f"INSERT INTO ledger({_LEDGER_COLUMNS}) VALUES ({', '.join('?' * (1 + len(_PAID)))})"

_named = attrgetter(*_RECORD[:_REQUEST])
_told = attrgetter(*_RECORD[_BODY + 1 : -1])

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class _Shared:
    store: ResponseStore
    users: int = 0


_open: dict[tuple[Path | str, bool], _Shared] = {}
_opening = threading.Lock()


def open_responses(where: Path | str, *, read_only: bool = False) -> ResponseStore:
    """The store of this SQLite file or PostgreSQL URL, shared by all who open it in this process; each closes it.

    With `read_only` it is neither locked nor written, may be open in another process, and a missing file is an
    empty store. BusyError where another process writes to the file, StoreError where it cannot be used.
    """
    place = where if _is_url(where) else Path(where).resolve()
    with _opening:
        mode = read_only and isinstance(place, Path) and (place, False) not in _open
        shared = _open.get((place, mode)) or _Shared(_made(place, mode))
        shared.users += 1
        _open[place, mode] = shared
    return cast(ResponseStore, _Hold(place, mode, shared.store))


def _is_url(where: Path | str) -> bool:
    return isinstance(where, str) and where.startswith(("postgresql://", "postgres://"))


def _made(place: Path | str, read_only: bool) -> ResponseStore:
    if isinstance(place, Path):
        return Responses(place, read_only=read_only)
    from longform.llm.responses.postgres import PostgresResponses

    return PostgresResponses(place)


class _Hold:
    """One opener's share of a store, which is closed with the last of them."""

    def __init__(self, place: Path | str, mode: bool, store: ResponseStore) -> None:
        self._where, self._store, self._closed = (place, mode), store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def close(self) -> None:
        with _opening:
            if self._closed:
                return
            self._closed = True
            shared = _open[self._where]
            shared.users -= 1
            if shared.users == 0:
                del _open[self._where]
                shared.store.close()


@dataclass(slots=True)
class _Entry:
    """What one `put` waits for."""

    records: Sequence[tuple[str, Record]]
    paid: Sequence[Paid]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]

    def rows(self) -> tuple[Rows, Rows]:
        now = time.time()
        return [_row(key, record, now) for key, record in self.records], [_line(paid, now) for paid in self.paid]


class Responses:
    exclusive = True
    allowances = None

    """The file of one process. `machine` and `lease_seconds` are for tests, which need a second machine soon."""

    def __init__(
        self, path: Path, *, read_only: bool = False, machine: str | None = None, lease_seconds: float = SECONDS
    ) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._arrived = threading.Condition()
        self._pending: deque[_Entry] = deque()
        self._writer: threading.Thread | None = None
        self._closed = False
        self._read_only = read_only
        self._lease = None if read_only else _owned(path, machine, lease_seconds)
        if read_only:
            _check_elsewhere(path, machine)
        try:
            with _telling(path):
                self._database = _reader(path) if read_only else _writer(path)
        except BaseException:
            self._let_go()
            raise

    # reading

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for start in range(0, len(keys), KEYS_PER_QUERY):
            chunk = [bytes.fromhex(key) for key in keys[start : start + KEYS_PER_QUERY]]
            found.update(self._records(_by_key(len(chunk)), chunk))
        return found

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        if keys is not None:
            ordered = sorted(set(keys))
            for start in range(0, len(ordered), KEYS_PER_QUERY):
                yield from sorted(self.get(ordered[start : start + KEYS_PER_QUERY]).items())
            return
        after = ""
        while page := self._records(
            f"{_SELECT} WHERE key > ? ORDER BY key LIMIT {KEYS_PER_QUERY}", [bytes.fromhex(after)]
        ):
            yield from page
            after = page[-1][0]

    def stats(self) -> list[dict[str, Any]]:
        return self._dicts(
            f"""
            SELECT endpoint, model, task, sum(state = {REPLY}) AS answers, sum(state = {TOMBSTONE}) AS errors,
                   coalesce(sum(ptok), 0) AS input_tokens, coalesce(sum(ctok), 0) AS output_tokens,
                   coalesce(sum(cost_nano), 0) AS cost_nano, sum(length(request) + length(body)) AS bytes
            FROM response GROUP BY endpoint, model, task ORDER BY endpoint, model, task
            """
        )

    def ledger(self, dataset: str, recipes: Collection[str] | None = None) -> list[dict[str, Any]]:
        chosen = list(recipes or ())
        which = "" if recipes is None else f"AND recipe IN ({', '.join('?' * len(chosen))})"
        lines = self._dicts(
            f"""
            SELECT stage, endpoint, model, batch, count(*) AS calls, sum(NOT answered) AS unanswered,
                   sum(ptok) AS input_tokens, sum(cached_tok) AS cached_tokens, sum(ctok) AS output_tokens,
                   coalesce(sum(cost_nano), 0) AS cost_nano, sum(cost_nano IS NULL) AS unpriced
            FROM ledger WHERE dataset = ? {which}
            GROUP BY stage, endpoint, model, batch ORDER BY min(rowid)
            """,
            [dataset, *chosen],
        )
        return [{**line, "batch": bool(line["batch"])} for line in lines]

    def usage(self, endpoint: str, model: str, task: str) -> Usage | None:
        rows = self._rows(
            f"""
            SELECT request, ptok, coalesce(ctok, 0), ms FROM response
            WHERE endpoint = ? AND model = ? AND task = ? AND state = {REPLY} AND ptok > 0
            ORDER BY rowid DESC LIMIT {LATEST_ANSWERS}
            """,
            [endpoint, model, task],
        )
        with _telling(self.path):
            return usage_of([(len(_unpacked(row[0])), row[1], row[2], row[3]) for row in rows])

    def _records(self, query: str, values: Sequence[Any]) -> list[tuple[str, Record]]:
        rows = self._rows(query, values)
        with _telling(self.path):
            return [(row[0].hex(), _record(row)) for row in rows]

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Rows:
        with _telling(self.path), self._lock:
            return self._database.execute(query, values).fetchall()

    def _dicts(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with _telling(self.path), self._lock:
            cursor = self._database.execute(query, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    # writing

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        loop = asyncio.get_running_loop()
        entry = _Entry(records, paid, loop, loop.create_future())
        self._enqueue(entry)
        await entry.done

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        return set(keys)

    async def release(self, keys: Sequence[str]) -> None:
        pass

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        records, added = iter(records), 0
        while batch := list(islice(records, ROWS_PER_ADD)):
            now = time.time()
            rows = [_row(key, record, now) for key, record in batch]
            with _telling(self.path), self._transaction() as database:
                added += database.executemany(_ADD, rows).rowcount
        return added

    def purge(self, keys: Collection[str]) -> int:
        if self._read_only:
            raise StoreError(f"The response store {self.path} is open to read.")
        ordered, deleted = [bytes.fromhex(key) for key in sorted(set(keys))], 0
        with _telling(self.path):
            with self._lock:
                self._database.execute("PRAGMA secure_delete = ON")  # deleted bytes become zeros
            with self._transaction() as database:
                for start in range(0, len(ordered), KEYS_PER_QUERY):
                    chunk = ordered[start : start + KEYS_PER_QUERY]
                    deleted += database.execute(
                        f"DELETE FROM response WHERE key IN ({_marks(len(chunk))})", chunk
                    ).rowcount
            with self._lock:
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return deleted

    def _enqueue(self, entry: _Entry) -> None:
        with self._arrived:
            if self._closed or self._read_only:
                raise StoreError(f"The response store {self.path} is {'closed' if self._closed else 'open to read'}.")
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_on, name="responses", daemon=True)
                self._writer.start()
            self._pending.append(entry)
            self._arrived.notify()

    def _write_on(self) -> None:
        while batch := self._taken():
            _resolve(batch, self._written(batch))

    def _taken(self) -> list[_Entry]:
        """All that waits, up to a limit; empty once the store is closed and everything is written."""
        with self._arrived:
            while not self._pending and not self._closed:
                self._arrived.wait()
            return [self._pending.popleft() for _ in range(min(len(self._pending), ENTRIES_PER_COMMIT))]

    def _written(self, batch: list[_Entry]) -> list[StoreError | None]:
        """Commit all entries at once; where that fails each by itself, so that one cannot spoil the others."""
        try:
            entries = [entry.rows() for entry in batch]
            self._write([row for rows, _ in entries for row in rows], [line for _, lines in entries for line in lines])
        except Exception:
            return [self._alone(entry) for entry in batch]
        return [None] * len(batch)

    def _alone(self, entry: _Entry) -> StoreError | None:
        try:
            rows, lines = entry.rows()
            self._write([tuple(map(_storable, row)) for row in rows], [tuple(map(_storable, line)) for line in lines])
        except Exception as error:
            return _unusable(self.path, error)
        return None

    def _write(self, rows: Rows, lines: Rows) -> None:
        with self._transaction() as database:
            if rows:
                database.executemany(_PUT, rows)
            if lines:
                database.executemany(_PAY, lines)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._check_ours()
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    # batches

    def stage_job(self, job: Job, keys: Sequence[str]) -> None:
        values = [time.time() if value is None and name == "created" else value for name, value in _fields(job)]
        items = [(job.name, place, bytes.fromhex(key)) for place, key in enumerate(keys)]
        with _telling(self.path), self._transaction() as database:
            database.execute(f"INSERT OR REPLACE INTO job({_JOB_COLUMNS}) VALUES ({_marks(len(values))})", values)
            database.execute("DELETE FROM job_item WHERE job = ?", (job.name,))
            database.executemany("INSERT INTO job_item VALUES (?, ?, ?)", items)

    def update_job(self, name: str, **changes: Any) -> None:
        columns = ", ".join(f"{column} = ?" for column in changes)
        with _telling(self.path), self._transaction() as database:
            database.execute(f"UPDATE job SET {columns} WHERE name = ?", [*changes.values(), name])

    def jobs(self, endpoint: str | None = None) -> list[Job]:
        query = (
            f"SELECT {_JOB_COLUMNS} FROM job WHERE state NOT IN ('DONE', 'GONE') AND endpoint = coalesce(?, endpoint)"
        )
        return [Job(*row) for row in self._rows(f"{query} ORDER BY created, rowid", [endpoint])]

    def job_keys(self, name: str) -> list[str]:
        rows = self._rows("SELECT key FROM job_item WHERE job = ? ORDER BY place", [name])
        return [row[0].hex() for row in rows]

    def close(self) -> None:
        """Write what waits, then let go of the file."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if self._writer:
            self._writer.join()
        with self._lock:
            self._database.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._lease:
            self._lease.give_back()

    def _check_ours(self) -> None:
        """Raise StoreError where another machine has taken the file over, as this process slept."""
        if self._lease and (taker := self._lease.taken_by(within_seconds=self._lease.seconds / 2)):
            raise StoreError(
                f"The response store {self.path} was taken over by {taker}, as this process did not renew its lease "
                "for a minute (it slept, or was stopped): run this again when that one has ended."
            )


# rows


@cache
def _by_key(number: int) -> str:
    return f"{_SELECT} WHERE key IN ({_marks(number)})"


def _marks(number: int) -> str:
    return ", ".join("?" * number)


def _fields(job: Job) -> Iterable[tuple[str, Any]]:
    return zip((field.name for field in fields(Job)), astuple(job), strict=True)


def _row(key: str, record: Record, now: float) -> tuple[Any, ...]:
    created = now if record.created is None else record.created
    content = _packed(record.request), _packed(record.body)
    return (bytes.fromhex(key), *_named(record), *content, *_told(record), created)


def _record(row: tuple[Any, ...]) -> Record:
    values = list(row[1:])
    values[_REQUEST], values[_BODY] = _unpacked(values[_REQUEST]), _unpacked(values[_BODY])
    values[_BATCH] = bool(values[_BATCH])
    return Record(*values)


def _line(paid: Paid, now: float) -> tuple[Any, ...]:
    return (now, *(bytes.fromhex(paid.key) if name == "key" else getattr(paid, name) for name in _PAID))


def _storable(value: Any) -> Any:
    """A value that a server made up, as far as a database can hold it: no half characters, no endless numbers."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _packed(content: bytes) -> bytes:
    """Short ones plain behind a zero byte, as unpacking costs more than reading them; others with zlib.

    For texts of usual length it is given little memory, whose preparation would take longer than the work.
    """
    if len(content) <= PLAIN_BYTES:
        return PLAIN + content
    packer = zlib.compressobj(1, zlib.DEFLATED, *((13, 6) if len(content) <= SMALL_BYTES else (15, 8)))
    return packer.compress(content) + packer.flush()


def _unpacked(content: bytes) -> bytes:
    return content[1:] if content[:1] == PLAIN else zlib.decompress(content)


def _resolve(batch: list[_Entry], errors: list[StoreError | None]) -> None:
    """Wake all who wait, with one call into each of their event loops."""
    of_loop = defaultdict(list)
    for entry, error in zip(batch, errors, strict=True):
        of_loop[entry.loop].append((entry.done, error))
    for loop, outcomes in of_loop.items():
        with suppress(RuntimeError):  # a loop that is closed has nobody waiting
            loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[tuple[asyncio.Future[None], StoreError | None]]) -> None:
    for done, error in outcomes:
        if done.done():
            continue
        if error:
            done.set_exception(error)
        else:
            done.set_result(None)


# the file


def _owned(path: Path, machine: str | None, seconds: float) -> Lease:
    """The lease beside the database, held by this process until it gives it back or ends."""
    lease = Lease(_lease_of(path), machine=machine, seconds=seconds)
    _check_elsewhere(path, machine)
    try:
        holder = lease.take()
    except OSError as error:
        raise _unusable(path, error) from None
    if holder is None:
        return lease
    _check_elsewhere(path, machine)
    raise BusyError(f"The response store {path} is in use by {holder}: wait for it to end, or stop it.")


def _check_elsewhere(path: Path, machine: str | None) -> None:
    if holder := holder_elsewhere(_lease_of(path), machine):
        raise StoreError(
            f"The response store {path} is in use by {holder}, and a SQLite file serves one machine at a time: set "
            "LONGFORM_RESPONSES to the URL of a PostgreSQL database on all of them, or wait until that one has ended."
        )


def _lease_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


def _writer(path: Path) -> sqlite3.Connection:
    database = _connected(path)
    try:
        version = _version(path, database)
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-16000"):
            database.execute(f"PRAGMA {setting}")
        if _STEPS[version]:
            database.executescript(f"BEGIN IMMEDIATE;{_STEPS[version]}COMMIT;")
    except BaseException:
        database.close()
        raise
    return database


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, with empty tables in place of those that an older format does not have."""
    database = _opened_to_read(path)
    try:
        _version(path, database)
        there = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        database.execute("PRAGMA temp_store=MEMORY")
        for name, columns in _TABLES.items():
            if name not in there:
                database.execute(f"CREATE TEMP TABLE {name}{columns}")
    except BaseException:
        database.close()
        raise
    return database


def _opened_to_read(path: Path) -> sqlite3.Connection:
    """Where nothing may be made in the folder, not even the index of the write-ahead log, nobody can be writing."""
    if not path.exists():
        return _connected(":memory:")
    database = _connected(f"{path.as_uri()}?mode=ro")
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return database
    except sqlite3.OperationalError:
        database.close()
        log = path.with_name(f"{path.name}-wal")
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    except BaseException:
        database.close()
        raise
    return _connected(f"{path.as_uri()}?mode=ro&immutable=1")


def _connected(where: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(where, timeout=5, isolation_level=None, check_same_thread=False, uri=True)


def _version(path: Path, database: sqlite3.Connection) -> int:
    """The format of the file, 0 where it is new. StoreError where this release cannot read it."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        return 0
    row = database.execute("SELECT v FROM meta WHERE k = 'key_version'").fetchone() if version in _STEPS else None
    if row != (str(KEY_VERSION),):
        raise StoreError(
            f"The response store {path} has format {version} and keys of version {row[0] if row else 'unknown'}; "
            f"this release reads formats 1 to {FORMAT} with keys of version {KEY_VERSION}: "
            f"use the release that wrote it."
        )
    return int(version)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error) as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The response store {path} cannot be used ({error}): check disk space and rights, or restore it."
    )
