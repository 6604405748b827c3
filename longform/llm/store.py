"""The response store: every reply that was paid for, as it came, under the key of its request. SQLite.

    response   one row a request: the reply's bytes as received, or the permanent error it met (a tombstone)
    meta       key_version; the version of the tables is in PRAGMA user_version

A reply is committed before anybody reads it, and read from its bytes each time: a parser that errs costs nothing.
One process at a time has the file (a second writer could damage a WAL database under SQLite older than 3.51.3);
inside it everybody shares one connection. Columns that nothing fills yet belong to prices and batches.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from longform.errors import BusyError, StoreError
from longform.llm.keys import KEY_VERSION

FORMAT = 1
REPLY, TOMBSTONE = 0, 1

_TABLES = """
CREATE TABLE response(
  key BLOB PRIMARY KEY, created REAL, endpoint TEXT, model TEXT, task TEXT, prompt TEXT,
  state INTEGER NOT NULL, finish TEXT, code TEXT,
  ptok INTEGER, cached_tok INTEGER, ctok INTEGER, rtok INTEGER, tok_limit INTEGER,
  cost_nano INTEGER, batch INTEGER, ms INTEGER,
  request_id TEXT, served_model TEXT, fingerprint TEXT, request BLOB, body BLOB NOT NULL);
CREATE TABLE meta(k TEXT PRIMARY KEY, v TEXT);
"""

_open: dict[Path, Responses] = {}
_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class Record:
    """What is stored under a key. Of a tombstone `code` is the kind of failure and `body` its message."""

    endpoint: str
    model: str
    task: str
    prompt: str
    request: bytes
    body: bytes = b""
    state: int = REPLY
    code: str | None = None
    finish: str | None = None
    served_model: str | None = None
    fingerprint: str | None = None
    request_id: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_limit: int | None = None
    milliseconds: int | None = None


# column of the table -> field of a Record; request and body are compressed
_COLUMNS = {
    **{name: name for name in ("endpoint", "model", "task", "prompt", "state", "code", "finish")},
    **{name: name for name in ("served_model", "fingerprint", "request_id")},
    **{"ptok": "input_tokens", "cached_tok": "cached_tokens", "ctok": "output_tokens"},
    **{"rtok": "reasoning_tokens", "tok_limit": "token_limit", "ms": "milliseconds"},
    **{"request": "request", "body": "body"},
}
_GET = f"SELECT {', '.join(_COLUMNS)} FROM response WHERE key = ?"
_PUT = (
    f"INSERT OR REPLACE INTO response(key, created, {', '.join(_COLUMNS)}) "
    f"VALUES (?, ?, {', '.join('?' * len(_COLUMNS))})"
)


def open_responses(path: Path) -> Responses:
    """The store of this file, shared by all who open it in this process; each closes it once."""
    path = path.absolute()
    with _opening:
        responses = _open.get(path) or Responses(path)
        responses.users += 1
        _open[path] = responses
    return responses


class Responses:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self._lock = threading.Lock()
        self._owner = _owned(path)
        try:
            self._database = _connected(path)
        except BaseException:
            _release(self._owner)
            raise

    def get(self, key: str) -> Record | None:
        with self._lock, self._readable():
            row = self._database.execute(_GET, (bytes.fromhex(key),)).fetchone()
            if row is None:
                return None
            found = dict(zip(_COLUMNS.values(), row, strict=True))
            return Record(**{**found, "request": _unpacked(found["request"]), "body": _unpacked(found["body"])})

    def put(self, key: str, record: Record) -> None:
        """Store under the key, in place of what was there; committed when this returns."""
        packed = {name: zlib.compress(getattr(record, name), 1) for name in ("request", "body")}
        values = [packed.get(field) or getattr(record, field) for field in _COLUMNS.values()]
        with self._lock, self._readable():
            self._database.execute(_PUT, (bytes.fromhex(key), time.time(), *values))

    def close(self) -> None:
        with _opening:
            self.users -= 1
            if self.users == 0:
                del _open[self.path]
                self._database.close()
                _release(self._owner)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, zlib.error) as error:
            raise _unusable(self.path, error) from None


def _unpacked(content: bytes) -> bytes:
    return zlib.decompress(content)


def _owned(path: Path) -> TextIO:
    """The lock file beside the database, locked for this process until it is closed or the process ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(f"{path.name}.lock").open("a+")
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise BusyError(f"The response store {path} is in use by {owner}: wait for it to end, or stop it.") from None
    file.truncate(0)
    file.write(f"process {os.getpid()}")
    file.flush()
    return file


def _release(owner: TextIO) -> None:
    """Unlock even if a child process still has the file open."""
    fcntl.flock(owner, fcntl.LOCK_UN)
    owner.close()


def _connected(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000"):
                database.execute(f"PRAGMA {setting}")
            _prepare(path, database)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise _unusable(path, error) from None
    return database


def _prepare(path: Path, database: sqlite3.Connection) -> None:
    """Make the tables of a new file; check the versions of an old one."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        insert = f"INSERT INTO meta VALUES ('key_version', '{KEY_VERSION}');"
        database.executescript(f"BEGIN;{_TABLES}{insert}PRAGMA user_version = {FORMAT};COMMIT;")
        return
    found = database.execute("SELECT v FROM meta WHERE k = 'key_version'").fetchone() if version == FORMAT else None
    if version != FORMAT or found != (str(KEY_VERSION),):
        raise StoreError(
            f"The response store {path} has format {version} and keys of version {found[0] if found else 'unknown'}; "
            f"this release reads format {FORMAT} with keys of version {KEY_VERSION}: use the release that wrote it."
        )


def _unusable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The response store {path} cannot be used ({error}): check disk space and rights, or restore it."
    )
