"""The store of web calls: every reply that was fetched, as it came, under the key of its request. SQLite.

    <home>/web/pages.sqlite     page: one row a request: status, final address, headers, body (zstd), when; or the
                                      lasting reason why there is none
    <home>/web/pages.lock       held while somebody writes

A reply is committed before anybody reads it: a kill loses no more than what was on its way. Several processes may
use one store; what is stored first stays. Writes exclude each other by the lock file, as two connections that write
a WAL database at once could damage it under SQLite older than 3.51.3.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longform.errors import StoreError

FORMAT = 1
KEY_VERSION = 1
LEVEL = 3
BUSY_SECONDS = 60.0
_NEW = f"""
CREATE TABLE page(
  key BLOB PRIMARY KEY, url TEXT NOT NULL, final TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL,
  error TEXT, detail TEXT, fetched_at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX page_url ON page(url);
PRAGMA user_version = {FORMAT};
"""
_COLUMNS = "url, final, status, headers, error, detail, fetched_at, body"


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
        self.path = path
        self._lock = threading.Lock()
        with self._telling():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._turn = path.with_suffix(".lock").open("a")
        try:
            with self._telling(), self._alone():
                self._database = _opened(path)
        except BaseException:
            self._turn.close()
            raise

    def get(self, key: bytes) -> Page | None:
        with self._telling(), self._lock:
            row = self._database.execute(f"SELECT {_COLUMNS} FROM page WHERE key = ?", (key,)).fetchone()
        with self._telling():
            return _page(row) if row else None

    def put(self, key: bytes, page: Page, *, instead_of: Collection[str] = ()) -> Page:
        """Store a reply, and return the one that is stored: another's, where that came first.

        One whose error is among `instead_of` is replaced.
        """
        with self._telling(), self._lock, self._alone(), self._transaction():
            self._database.executemany("DELETE FROM page WHERE key = ? AND error = ?", [(key, e) for e in instead_of])
            values = (key, *_row(page))
            self._database.execute(f"INSERT OR IGNORE INTO page(key, {_COLUMNS}) VALUES ({_marks(values)})", values)
        stored = self.get(key)
        assert stored is not None
        return stored

    def forget(self, urls: Iterable[str]) -> int:
        """Remove what came from these addresses, asked or final; the number of replies."""
        chosen = [(url, url) for url in urls]
        with self._telling(), self._lock, self._alone(), self._transaction():
            return self._database.executemany("DELETE FROM page WHERE url = ? OR final = ?", chosen).rowcount

    def close(self) -> None:
        with self._lock, self._alone():
            self._database.close()
        self._turn.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _telling(self) -> Iterator[None]:
        from backports.zstd import ZstdError

        try:
            yield
        except (sqlite3.Error, OSError, ZstdError, ValueError, EOFError) as error:
            raise StoreError(
                f"The store of web pages {self.path} cannot be used ({error}): mend it, free some space, "
                "or move it away to fetch again."
            ) from error


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise StoreError(f"The store of web pages {path} is of a later version of longform: use that one.")
        if version == 0:
            database.executescript(f"BEGIN; {_NEW} COMMIT;")
    except BaseException:
        database.close()
        raise
    return database


def _row(page: Page) -> tuple[Any, ...]:
    from backports import zstd

    headers = json.dumps(page.headers, sort_keys=True)
    body = zstd.compress(page.content, level=LEVEL)
    texts = (_storable(text) for text in (page.url, page.final))
    return (*texts, page.status, headers, page.error, _storable(page.detail), page.fetched_at, body)


def _page(row: tuple[Any, ...]) -> Page:
    from backports import zstd

    url, final, status, headers, error, detail, fetched_at, body = row
    return Page(url, final, status, fetched_at, json.loads(headers), zstd.decompress(body), error, detail)


def _storable(text: str | None) -> str | None:
    """Without half characters, which no database holds."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))
