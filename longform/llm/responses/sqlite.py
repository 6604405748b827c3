"""The response store in a SQLite file: its tables and migrations, its lease, its one connection, its compression.

One process at a time may write. It has a lease beside the database (see longform/leases.py), and uses one connection
for all threads, because two that write at once could damage a WAL database under SQLite older than 3.51.3. Other
processes of the same machine may read meanwhile. Processes of another machine may not even read, because the log's
index is in shared memory: several machines need PostgreSQL. PRAGMA user_version is the version of the tables.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from longform.errors import BusyError, StoreError
from longform.leases import SECONDS, Lease, holder_elsewhere
from longform.llm.ask.keys import KEY_VERSION
from longform.llm.responses.groups import Groups
from longform.llm.responses.records import (
    ADD,
    COLUMNS,
    COUNT_PURGED,
    FORGET_FAILED,
    HOLDINGS,
    PAID,
    PAY_ONCE,
    PLAIN,
    PURGE,
    PUT,
    PUT_UNLESS_USABLE,
    Holdings,
    Line,
    Paid,
    Record,
    Row,
    checksum_of,
    chunks,
    insert,
    ledger_row_of,
    line_of,
    row_of,
    settled_keys,
    storable,
)
from longform.llm.responses.unstored import Unstored

FORMAT = 3
PLAIN_BYTES = 1_280
SMALL_BYTES = 8_192

_RESPONSE = """(
  key BLOB PRIMARY KEY, created REAL, endpoint TEXT, model TEXT, task TEXT, prompt TEXT,
  state INTEGER NOT NULL, finish TEXT, code TEXT,
  ptok INTEGER, cached_tok INTEGER, ctok INTEGER, rtok INTEGER, tok_limit INTEGER,
  cost_nano INTEGER, batch INTEGER, ms INTEGER,
  request_id TEXT, served_model TEXT, fingerprint TEXT, request BLOB, body BLOB NOT NULL{})"""
_LEDGER = """(
  created REAL, run TEXT, dataset TEXT, stage TEXT, recipe TEXT, endpoint TEXT, model TEXT, key BLOB,
  answered INTEGER, ptok INTEGER, cached_tok INTEGER, ctok INTEGER, cost_nano INTEGER, batch INTEGER{})"""
_JOB = """(
  name TEXT PRIMARY KEY, endpoint TEXT, state TEXT, requests INTEGER, reserved_nano INTEGER,
  remote TEXT, input_file TEXT, created REAL, context TEXT)"""
_JOB_ITEM = "(job TEXT, place INTEGER, key BLOB, PRIMARY KEY(job, place)) WITHOUT ROWID"
_FAILING = "(key BLOB, run TEXT, fault TEXT, updated REAL, PRIMARY KEY(key, run)) WITHOUT ROWID"
_TABLES = {
    "response": _RESPONSE.format(", checksum INTEGER"),
    "meta": "(k TEXT PRIMARY KEY, v TEXT)",
    "ledger": _LEDGER.format(", id BLOB, rtok INTEGER"),
    "job": _JOB,
    "job_item": _JOB_ITEM,
    "failing": _FAILING,
}
_NEW_IN_2 = f"""
CREATE TABLE ledger{_LEDGER.format("")};
CREATE TABLE job{_JOB};
CREATE TABLE job_item{_JOB_ITEM};
CREATE INDEX ledger_dataset ON ledger(dataset);
CREATE INDEX response_task ON response(endpoint, model, task);
"""
_NEW_IN_3 = f"""
ALTER TABLE response ADD COLUMN checksum INTEGER;
UPDATE response SET checksum = {{checksum}};
DROP INDEX response_task;
CREATE INDEX response_task ON response(endpoint, model, task, created);
ALTER TABLE ledger ADD COLUMN id BLOB;
ALTER TABLE ledger ADD COLUMN rtok INTEGER;
CREATE UNIQUE INDEX ledger_id ON ledger(id) WHERE id IS NOT NULL;
CREATE TABLE failing{_FAILING};
INSERT INTO meta VALUES ('id', lower(hex(randomblob(16)))), ('purged', '0');
PRAGMA user_version = {FORMAT};
"""
_NEW = f"""
CREATE TABLE response{_RESPONSE.format("")};
CREATE TABLE meta{_TABLES["meta"]};
INSERT INTO meta VALUES ('key_version', '{KEY_VERSION}');
"""
_STEPS = {0: _NEW + _NEW_IN_2 + _NEW_IN_3, 1: _NEW_IN_2 + _NEW_IN_3, 2: _NEW_IN_3, FORMAT: ""}

_HERE = {
    "longform.": "",
    "created DESC": "created DESC, rowid DESC",
    "min(number)": "min(rowid)",
    **{"input_tokens": "ptok", "cached_tokens": "cached_tok", "output_tokens": "ctok", "reasoning_tokens": "rtok"},
    **{"token_limit": "tok_limit", "milliseconds": "ms"},
}
_ELSEWHERE = re.compile(rf"= ANY\(\$\d+\)|\$\d+|{'|'.join(map(re.escape, _HERE))}")
_PAY = insert("ledger", ["created", *PAID])
_SETTLE = "DELETE FROM failing WHERE key = ?"

Entry = tuple[Sequence[tuple[str, Record]], Sequence[Paid]]


class SqliteDatabase:
    """The store in a SQLite file, as a `Database` (longform/llm/responses/store.py). Only this process may write the
    file; with `read_only` it is neither written nor locked, and changes raise StoreError.

    BusyError where another process writes to it, StoreError where it cannot be used or another machine has it.
    `durable`: a commit is on the disk when a put returns; else it outlives the process, but perhaps not a power cut.
    `unstored`: the folder for answers that cannot be stored; None: they are lost. `machine` and `lease_seconds` are for
    tests, which simulate a second machine.
    """

    exclusive = True
    allowances = None
    rows_per_query = 64

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        durable: bool = True,
        unstored: Path | None = None,
        machine: str | None = None,
        lease_seconds: float = SECONDS,
    ) -> None:
        self.named, self._path = sqlite_named(path), path
        self._lock, self._lease = threading.Lock(), None if read_only else _leased(path, machine, lease_seconds)
        with ExitStack() as ending, _errors_named(path):
            if self._lease:
                ending.callback(self._lease.give_back)
            else:
                _check_elsewhere(path, machine)
            opened = _reader(path) if read_only else _writer(path, durable)
            self._connection = ending.enter_context(closing(opened))
            self._unstored = ending.enter_context(closing(Unstored(unstored)))
            self._puts = Groups(self.named, self._put_all, self._keep)
            self._ending = ending.pop_all()

    def rows(self, query: str, *values: Any) -> list[Any]:
        with _errors_named(self._path), self._lock:
            try:
                return self._connection.execute(*_statement(query, values)).fetchall()
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
            self._connection.text_factory = _any_text  # a damaged text: its row is found by its checksum
            try:
                return self._connection.execute(*_statement(query, values)).fetchall()
            finally:
                self._connection.text_factory = str

    def change(self, query: str, *values: Any, then: Iterable[tuple[str, Sequence[Row]]] = ()) -> int:
        with self._transaction() as connection:
            changed = connection.execute(*_statement(query, values)).rowcount
            for statement, rows in then if changed else ():
                connection.executemany(_in_sqlite(statement), rows)
            return changed

    def add(self, records: Sequence[tuple[str, Record]]) -> int:
        with self._transaction() as connection:
            return connection.executemany(_in_sqlite(ADD), _rows(records)).rowcount

    def write(self, statements: Iterable[tuple[str, Sequence[Row]]]) -> None:
        with self._transaction() as connection:
            for statement, rows in statements:
                connection.executemany(_in_sqlite(statement), rows)

    def restore(self, records: Sequence[tuple[str, Record]], lines: Sequence[Line]) -> None:
        rows = [row_of(key, record, _packed, _storable) for key, record in records]
        paid = [_storable([number.bytes, *ledger_row_of(line, created)]) for number, created, line in lines]
        with self._transaction() as connection:
            _write(connection, PUT_UNLESS_USABLE, rows, PAY_ONCE, paid)

    def purge(self, keys: list[bytes]) -> int:
        self.rows("PRAGMA secure_delete = ON")  # deleted bytes become zeros
        with self._transaction() as connection:
            deleted = 0
            for some in chunks(keys, self.rows_per_query):
                deleted += connection.execute(*_statement(PURGE, [some])).rowcount
                connection.execute(*_statement(FORGET_FAILED, [some]))
            connection.execute(*_statement(COUNT_PURGED, [deleted]))
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def holdings(self, *, patient: bool = False) -> Holdings:
        number, records, purged, lines = self.rows(HOLDINGS)[0]
        return Holdings(str(number), records, int(purged or 0), lines)

    def faults(self, *, repair: bool) -> list[str]:
        if repair:
            with self._transaction() as connection:
                connection.execute("REINDEX")
        return [fault for (fault,) in self.rows("PRAGMA integrity_check") if fault != "ok"]

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid]) -> None:
        await self._puts.ask((records, paid))

    async def lease(self, keys: Sequence[str], again: bool) -> set[str]:
        return set(keys)

    async def release(self, keys: Sequence[str]) -> None:
        """Do nothing: no other process could be granted the keys."""

    def unstored(self) -> str:
        return self._unstored.said()

    def close(self) -> None:
        self._puts.close()
        with self._lock:
            self._ending.close()

    # writing

    def _put_all(self, entries: list[Entry], *, as_storable: bool = False) -> list[StoreError | None]:
        """Commit all entries (records, ledger lines) in one transaction. Where that fails, commit each by itself and
        with `as_storable`, so that one cannot spoil the others. The result has None or an error for each entry.
        `as_storable`: texts and integers that SQLite cannot store are replaced (see `_storable`), and nothing is tried
        again.
        """
        try:
            rows = _rows(chain(*(records for records, _ in entries)), as_storable)
            lines: list[Row] = [ledger_row_of(line) for _, paid in entries for line in paid]
            if as_storable:
                lines = list(map(_storable, lines))
            with self._transaction() as connection:
                _write(connection, PUT, rows, _PAY, lines)
            return [None] * len(entries)
        except Exception as error:
            if not as_storable:
                return [self._put_all([entry], as_storable=True)[0] for entry in entries]
            return [error if isinstance(error, StoreError) else _unusable(self._path, error)]

    def _keep(self, entries: list[Entry], errors: list[Exception]) -> list[Exception]:
        """Keep what could not be stored; the errors to raise."""
        return self._unstored.keep([(records, list(map(line_of, paid))) for records, paid in entries], errors)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, in a transaction that is committed at the end of the block, or rolled back if it raises.
        StoreError where the file is read-only, its lease was taken over, or SQLite fails.
        """
        if self._lease is None:
            raise StoreError(f"{self.named} is open to read.")
        with _errors_named(self._path), self._lock:
            if taker := self._lease.taken_by(within_seconds=self._lease.seconds / 2):
                raise StoreError(
                    f"{self.named} was taken over by {taker}, as this process did not renew its lease "
                    "for a minute (it slept, or was stopped): run this again when that one has ended."
                )
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


# queries and rows


def _statement(query: str, values: Iterable[Any]) -> tuple[str, list[Any]]:
    """(SQL, values) for SQLite of a PostgreSQL query; each list among the values becomes one value for each item."""
    lists = [value if isinstance(value, list) else [value] for value in values]
    return _in_sqlite(query, *map(len, lists)), list(chain(*lists))


@lru_cache
def _in_sqlite(query: str, *lengths: int) -> str:
    """A PostgreSQL query in SQLite's SQL: names of columns and placeholders are replaced. `lengths` has the number of
    items for each placeholder in turn, as `= ANY($n)` becomes a list of so many.
    """
    sizes = iter(lengths)

    def here(found: re.Match[str]) -> str:
        if found[0] in _HERE:
            return _HERE[found[0]]
        marks = ", ".join("?" * next(sizes, 1))
        return f"IN ({marks})" if found[0].startswith("=") else marks

    return _ELSEWHERE.sub(here, query)


def _write(connection: sqlite3.Connection, put: str, rows: Sequence[Row], pay: str, lines: Sequence[Row]) -> None:
    """Store rows of records and of the ledger by these statements, and forget what failed before under their keys."""
    connection.executemany(_in_sqlite(put), rows)
    connection.executemany(_in_sqlite(pay), lines)
    connection.executemany(_SETTLE, [(key,) for key in settled_keys(rows)])


def _rows(records: Iterable[tuple[str, Record]], as_storable: bool = False) -> list[Row]:
    """The records as rows, request and body compressed; `as_storable` as of `SqliteDatabase._put_all`."""
    return [row_of(key, record, _packed, _storable if as_storable else list) for key, record in records]


def _storable(row: Row) -> list[Any]:
    """The row, with "?" for halves of surrogate pairs in texts, and None for integers of more than 64 bits."""
    texts = (value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for value in row)
    return storable(texts)


def _any_text(content: bytes) -> str:
    """The text, also if it is damaged."""
    return content.decode("utf-8", "replace")


def _packed(content: bytes) -> bytes:
    """The bytes to store: content of up to PLAIN_BYTES plain after a zero byte, because decompressing it costs more
    than reading it; longer content compressed with zlib, with a small window up to 8 KiB, whose set-up is faster.
    """
    if len(content) <= PLAIN_BYTES:
        return PLAIN + content
    packer = zlib.compressobj(1, zlib.DEFLATED, *((13, 6) if len(content) <= SMALL_BYTES else (15, 8)))
    return packer.compress(content) + packer.flush()


# the file


def sqlite_named(path: Path) -> str:
    """The name of the store in a file, for messages."""
    return f"The response store {path}"


def _leased(path: Path, machine: str | None, seconds: float) -> Lease:
    """The lease beside the database, now held by this process; it ends by `give_back` or with the process. BusyError
    where another process has it, StoreError where another machine has it or it cannot be written.
    """
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
    """Raise StoreError where a process of another machine has the lease."""
    if holder := holder_elsewhere(_lease_of(path), machine):
        raise StoreError(
            f"The response store {path} is in use by {holder}, and a SQLite file serves one machine at a time: set "
            "LONGFORM_RESPONSES to the URL of a PostgreSQL database on all of them, or wait until that one has ended."
        )


def _lease_of(path: Path) -> Path:
    """The path of the lease beside a database."""
    return path.with_name(f"{path.name}.lease")


def _writer(path: Path, durable: bool) -> sqlite3.Connection:
    """A connection that may write, its tables created or migrated. StoreError where this release cannot read the
    format. A migration goes through all records once, and needs as much free disk as the file has.
    """
    with _closed_on_error(_connected(path)) as connection:
        version = _version(path, connection)
        for setting in ("journal_mode=WAL", f"synchronous={'FULL' if durable else 'NORMAL'}", "cache_size=-16000"):
            connection.execute(f"PRAGMA {setting}")
        if _STEPS[version]:
            steps = _STEPS[version].format(checksum=_with_checksum(connection))
            connection.executescript(f"BEGIN IMMEDIATE;{steps}COMMIT;")
        return connection


def _reader(path: Path) -> sqlite3.Connection:
    """A read-only connection, with an empty temporary table for each table that an older format lacks, and with the
    columns that it lacks. StoreError where this release cannot read the format.
    """
    with _closed_on_error(_opened_to_read(path)) as connection:
        version = _version(path, connection)
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        connection.execute("PRAGMA temp_store=MEMORY")
        for name, columns in _TABLES.items():
            if name not in there:
                connection.execute(f"CREATE TEMP TABLE {name}{columns}")
        if 0 < version < FORMAT:
            checksum = _with_checksum(connection)
            connection.execute(
                f"CREATE TEMP VIEW response AS SELECT rowid AS rowid, *, {checksum} AS checksum FROM main.response"
            )
        if "ledger" in there and version < FORMAT:
            connection.execute("CREATE TEMP VIEW ledger AS SELECT rowid AS rowid, *, NULL AS rtok FROM main.ledger")
        return connection


def _with_checksum(connection: sqlite3.Connection) -> str:
    """An SQL expression for the checksum of a row of `response`, which this connection can compute."""
    connection.create_function("checksum_of", len(COLUMNS), lambda *row: checksum_of(row), deterministic=True)
    return _in_sqlite(f"checksum_of({', '.join(COLUMNS)})")


def _opened_to_read(path: Path) -> sqlite3.Connection:
    """A read-only connection; an empty database in memory if there is no file.

    Where the folder is not writable, so that not even the index of the write-ahead log can be made, the file is opened
    as immutable, as nobody can be writing to it. sqlite3.OperationalError where it cannot be opened otherwise, or that
    log is not empty.
    """
    if not path.exists():
        return _connected(":memory:")
    try:
        with _closed_on_error(_connected(f"{path.as_uri()}?mode=ro")) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
    except sqlite3.OperationalError:
        log = path.with_name(f"{path.name}-wal")
        if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
            raise
    return _connected(f"{path.as_uri()}?mode=ro&immutable=1")


def _connected(where: Path | str) -> sqlite3.Connection:
    """A connection to a file or a `file:` URI, for all threads, which waits up to 5 seconds for a lock; no transaction
    begins by itself.
    """
    return sqlite3.connect(where, timeout=5, isolation_level=None, check_same_thread=False, uri=True)


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The connection for the block; it is closed if the block raises."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """The format of the file, 0 where it is new. StoreError where this release cannot read its format or its keys."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        return 0
    row = connection.execute("SELECT v FROM meta WHERE k = 'key_version'").fetchone() if version in _STEPS else None
    if row != (str(KEY_VERSION),):
        raise StoreError(
            f"The response store {path} has format {version} and keys of version {row[0] if row else 'unknown'}; "
            f"this release reads formats 1 to {FORMAT} with keys of version {KEY_VERSION}: "
            f"use the release that wrote it."
        )
    return int(version)


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Turns errors of SQLite inside the block into a StoreError that names the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the words of a damaged file may stand in SQLite's own
        raise _unusable(path, error) from None


def _unusable(path: Path, error: Exception) -> StoreError:
    """The StoreError for a file that cannot be used, with SQLite's reason."""
    return StoreError(
        f"The response store {path} cannot be used ({error}): check disk space and rights, or restore it."
    )
