"""The store of web calls: every reply that was fetched, as it came, under the key of its request. SQLite.

    <home>/web/pages.sqlite     page: one row a request: status, final address, headers, body (zstd), when; or the
                                      lasting reason why there is none
    <home>/web/pages.lock       held while somebody writes

A reply is committed before anybody reads it: a kill loses no more than what was on its way. Processes may share
a store; what is stored first stays. Writes exclude each other by the lock file, as two connections that write a WAL
database at once could damage it under SQLite older than 3.51.3; with a rollback journal each takes five times as long.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from longform.errors import StoreError

FORMAT = 1
KEY_VERSION = 1
LEVEL = 3
BUSY_SECONDS = 60.0
_NEW = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS page(
  key BLOB PRIMARY KEY, url TEXT NOT NULL, final TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL,
  error TEXT, detail TEXT, fetched_at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS page_url ON page(url);
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_COLUMNS = "url, final, status, fetched_at, headers, body, error, detail"
_SELECT = f"SELECT {_COLUMNS} FROM page WHERE key = ?"
_INSERT = f"INSERT OR IGNORE INTO page(key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Page:
    """A stored reply. `error` is the short reason why there is none that can be used; then `content` is empty.

    `url` is what was asked, `final` where redirects led; `status` is 0 where nothing answered; `fetched_at` counts
    milliseconds since 1970, UTC. Names of headers are in lower case.
    """

    url: str
    final: str
    status: int
    fetched_at: int
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    error: str | None = None
    detail: str | None = None


def key_of(method: str, place: str, params: Iterable[tuple[str, str]] = (), body: str = "") -> bytes:
    """The key of a request: never what it proves its right with. `place` is an address, or the name of a service."""
    request = [KEY_VERSION, method, place, sorted(map(list, params)), body]
    return hashlib.sha256(json.dumps(request, ensure_ascii=True).encode()).digest()


class PageStore:
    """StoreError where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._database = _opened(path)

    def get(self, key: bytes) -> Page | None:
        with self._explained(), self._lock:
            row = self._database.execute(_SELECT, (key,)).fetchone()
            return _page(row) if row else None

    def put(self, key: bytes, page: Page, *, instead_of: Collection[str] = ()) -> Page:
        """Store a reply, and return the one that is stored: another's, where that came first.

        One whose error is among `instead_of` is replaced.
        """
        with self._explained(), self._lock, self._alone(), self._database as transaction:
            transaction.executemany("DELETE FROM page WHERE key = ? AND error = ?", [(key, e) for e in instead_of])
            transaction.execute(_INSERT, (key, *_row(page)))
            return _page(transaction.execute(_SELECT, (key,)).fetchone())

    def close(self) -> None:
        with self._lock, self._alone():
            self._database.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self.path.with_suffix(".lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from backports.zstd import ZstdError

        try:
            yield
        except (sqlite3.Error, OSError, ZstdError, ValueError, EOFError) as error:
            raise StoreError(
                f"The store of web pages {self.path} cannot be used ({error}): free some space if the disk is full, "
                "else move it away to fetch again."
            ) from error


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise StoreError(f"The store of web pages {path} is of a later version of longform: use that one.")
        if version == 0:
            database.executescript(_NEW)
    except BaseException:
        database.close()
        raise
    return database


def _row(page: Page) -> tuple[Any, ...]:
    from backports import zstd

    headers, body = json.dumps(page.headers, sort_keys=True), zstd.compress(page.content, level=LEVEL)
    url, final, detail = map(_storable, (page.url, page.final, page.detail))
    return url, final, page.status, page.fetched_at, headers, body, page.error, detail


def _page(row: tuple[Any, ...]) -> Page:
    from backports import zstd

    page = Page(*row)
    return replace(page, headers=json.loads(row[4]), content=zstd.decompress(page.content))


def _storable(text: str | None) -> str | None:
    """Without half characters, which no database holds."""
    return None if text is None else text.encode("utf-8", "replace").decode()
