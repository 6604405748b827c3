"""Web requests with a persistent store. A stored reply is returned without a request. Lasting failures are stored as
well; passing failures are not, and are requested again in the next run.

    with open_web(home) as web:
        client = web.client(Manners())
        for row, page in client.each(rows, lambda row: client.get(PageRequest(row["url"]))):
            ...

Replies and lasting failures are stored before they are returned. After a passing failure `each` raises Incomplete once
all other items were tried, so that the part of the dataset that needs them is built again later.

    <home>/web/pages.sqlite     page: one row a request: status, final address, headers, body (zstd), when; or the
                                      lasting reason why there is none
    <home>/web/pages.lock       locked while a process writes

A killed process loses only requests in flight. Processes may share a store; of two replies to one request the first
stored stays. The lock file lets one connection write at a time, as two that write a WAL database at once could damage
it under SQLite older than 3.51.3; with a rollback journal each write takes five times as long.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

from backports import zstd
from protego import Protego

from longform.errors import HttpError, Incomplete, SourceError, StoreError
from longform.net.hosts import (
    FORBIDDEN,
    NO_RULES,
    PASSING,
    PRIVATE,
    UNREACHABLE,
    Refused,
    Unreached,
    check_address,
)
from longform.net.http import Http, Reply

UNUSABLE = "no usable reply"
KEPT_HEADERS = ("content-type", "content-language", "last-modified")
HEADER_CHARACTERS = 200
DETAIL_CHARACTERS = 500
LOCKS = 64
MAX_BYTES = 10_000_000
ROBOTS_BYTES = 2_000_000
AGENT = "longform"
HOSTS = 1_024
LINES = 20_000
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

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page:
    """A stored reply, or a stored failure: then `error` is its short reason, `detail` the message, `content` empty.

    `url` is the requested address, `final_url` the address after redirects (for a failure or a service, the requested
    one); `status` is 0 for a failure that is no HTTP error status; `fetched_at` is in milliseconds since 1970, UTC.
    Header names are in lower case; only KEPT_HEADERS are kept, cut to HEADER_CHARACTERS.
    """

    url: str
    final_url: str
    status: int
    fetched_at: int
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    error: str | None = None
    detail: str | None = None


def key_of(method: str, place: str, params: Iterable[tuple[str, str]] = (), body: str = "") -> bytes:
    """The key of a request in the store: a SHA-256 of the arguments, which hold no credentials. `place` is a URL, or
    the name of a service. The order of `params` does not matter.
    """
    request = [KEY_VERSION, method, place, sorted(map(list, params)), body]
    return hashlib.sha256(json.dumps(request, ensure_ascii=True).encode()).digest()


class PageStore:
    """The SQLite file of pages, by request key; created if missing. Threads and processes may share it. StoreError if
    the file cannot be read or written, or a later version of longform wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._database = _opened(path)

    def get(self, key: bytes) -> Page | None:
        """The page or failure stored under this key; None if there is none. StoreError if the file cannot be read."""
        with self._explained(), self._lock:
            row = self._database.execute(_SELECT, (key,)).fetchone()
            return _page(row) if row else None

    def put(self, key: bytes, page: Page, *, instead_of: Collection[str] = ()) -> Page:
        """Store a page under `key` unless one is stored already; return the page that is stored afterwards. A stored
        failure whose `error` is among `instead_of` is replaced.
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
        """Hold the lock file for the block, so that one thread or process at a time writes."""
        with self.path.with_suffix(".lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite, zstd and the file system that the block raises into StoreError."""
        try:
            yield
        except (sqlite3.Error, OSError, zstd.ZstdError, ValueError, EOFError) as error:
            raise StoreError(
                f"The store of web pages {self.path} cannot be used ({error}): free some space if the disk is full, "
                "else move it away to fetch again."
            ) from error


def _opened(path: Path) -> sqlite3.Connection:
    """A connection to the SQLite file of pages, which is created if missing. StoreError if a later version of longform
    wrote it; errors of SQLite are passed on.
    """
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
    """A page as the values of _COLUMNS, its body compressed."""
    headers, body = json.dumps(page.headers, sort_keys=True), zstd.compress(page.content, level=LEVEL)
    url, final_url, detail = map(_storable, (page.url, page.final_url, page.detail))
    return url, final_url, page.status, page.fetched_at, headers, body, page.error, detail


def _page(row: tuple[Any, ...]) -> Page:
    """The page in a row of _COLUMNS, its body unpacked."""
    page = Page(*row)
    return replace(page, headers=json.loads(row[4]), content=zstd.decompress(page.content))


def _storable(text: str | None) -> str | None:
    """The text with lone surrogates, which SQLite cannot store, as question marks; None for None."""
    return None if text is None else text.encode("utf-8", "replace").decode()


class Robots:
    """Checks addresses against the robots.txt of their host (RFC 9309), parsed by protego.

    `fetch` returns the page at the URL of a robots.txt. A robots.txt that does not exist (4xx) allows everything; where
    there is none for another reason, nothing is requested. Rules of the HOSTS most recently used hosts are kept in
    memory.
    """

    def __init__(self, fetch: Callable[[str], Page]) -> None:
        self._rules = lru_cache(HOSTS)(lambda place: _rules(fetch(place)))

    def check(self, url: str) -> None:
        """Raise Refused if the robots.txt of the URL's host forbids the URL to longform, cannot be read, or could not
        be asked for, as its host does not answer; also what `fetch` raises.
        """
        if not self._rules(urljoin(url, "/robots.txt")).can_fetch(url, AGENT):
            raise Refused(url, FORBIDDEN)


def _rules(page: Page) -> Protego:
    """The parsed rules of a robots.txt, of its first LINES lines. A page with an error allows everything if its status
    is 4xx; of any other error Refused is raised, with the reason that the host gave.
    """
    lines = page.content.decode("utf-8", "replace").splitlines()[:LINES]
    if page.error is not None:
        if not 400 <= page.status < 500:
            raise Refused(page.url, NO_RULES if page.error in (UNREACHABLE, UNUSABLE) else page.error)
        lines = []
    return Protego.parse("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Manners:
    """How requests are made; no part of a request's key in the store. `at_once`: most requests at a time;
    `per_second`: most requests to one host, None: no limit; `tries`, `patience_seconds` and `timeout_seconds` as in
    Http. With `give_up` a page that is still unreachable after the retries is stored as a failure instead of raising
    Incomplete.
    """

    at_once: int = 8
    per_second: float | None = 1.0
    tries: int = 3
    patience_seconds: float = 60.0
    timeout_seconds: tuple[float, float] = (10.0, 20.0)
    give_up: bool = False


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A GET request for a page of the web, or for a search API: then `service` is the API's name, which the store's
    key has in place of the URL, so that the API's address may change.

    A lasting failure of a page is stored; a failure of a service is raised and not stored. Only for pages:
    `private_hosts` allows addresses that are not public, `robots` checks robots.txt first. `is_storable(reply)` is
    False for a reply that must not be stored: it is raised as Incomplete.
    """

    url: str
    params: tuple[tuple[str, str], ...] = ()
    service: str | None = None
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    max_bytes: int = MAX_BYTES
    private_hosts: bool = False
    robots: bool = True
    is_storable: Callable[[Reply], bool] = lambda reply: True

    @property
    def key(self) -> bytes:
        """The key of this request in the page store."""
        return key_of("GET", self.service or self.url, self.params)


class Web(AbstractContextManager["Web"]):
    """The page store of a home folder, with one PageClient for each Manners in use. Made by `open_web`, which counts
    its users; each user closes it once, and the last close closes the file.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.users = home, 0
        self.store = PageStore(home / "web" / "pages.sqlite")
        self._clients: dict[Manners, PageClient] = {}
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    def client(self, manners: Manners) -> PageClient:
        """The PageClient with these manners, shared by all callers with equal ones."""
        with self._lock:
            if manners not in self._clients:
                self._clients[manners] = PageClient(self.store, manners)
            return self._clients[manners]

    def close(self) -> None:
        """End one use of the store. The last user's call waits for running requests, cancels those that have not
        started, and closes the file.
        """
        with _opening:
            self.users -= 1
            if self.users:
                return
            del _open[self.home]
        for client in self._clients.values():
            client.close()
        self.store.close()


_open: dict[Path, Web] = {}
_opening = threading.Lock()


def open_web(home: Path) -> Web:
    """The Web of a home folder, shared by all who open it in this process. Close it after use: `with open_web(home) as
    web`. StoreError if its file cannot be used.
    """
    home = home.resolve()
    with _opening:
        web = _open[home] if home in _open else _open.setdefault(home, Web(home))
        web.users += 1
        return web


def in_order(pool: Executor, work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[tuple[T, Future[R]]]:
    """(item, future of `work(item)`) in the order of the items. Up to `ahead` further items are submitted before a
    pair is yielded; its future may still be running. When the caller stops early, work that has not started is
    cancelled.
    """
    waiting: deque[tuple[T, Future[R]]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()


class PageClient:
    """Requests pages with fixed manners; a page that is in the store is not requested. Threads may share it."""

    def __init__(self, store: PageStore, manners: Manners) -> None:
        self.store, self.manners = store, manners
        self.http = Http(
            tries=manners.tries,
            patience_seconds=manners.patience_seconds,
            per_second=manners.per_second,
            timeout_seconds=manners.timeout_seconds,
        )
        self._pool = ThreadPoolExecutor(manners.at_once, thread_name_prefix="web")
        self._locks = [[threading.Lock() for _ in range(LOCKS)] for _ in range(2)]
        self._robots = {private: Robots(partial(self._robots_txt, private)) for private in (False, True)}

    def each(self, items: Iterable[T], work: Callable[[T], R]) -> Iterator[tuple[T, R]]:
        """(item, result of `work(item)`) in the order of the items; `at_once` calls run in threads at a time.

        If `work` raises Incomplete, its item is left out, and Incomplete is raised after all other items; any other
        exception is raised when its item's turn comes.
        """
        failures: list[Incomplete] = []
        for item, future in in_order(self._pool, work, items, 2 * self.manners.at_once):
            try:
                result = future.result()
            except Incomplete as error:
                failures.append(error)
            else:
                yield item, result
        if failures:
            raise Incomplete(
                f"{len(failures):,} web calls got no answer, all others are stored: run the same command again, "
                f"which asks only for what is missing. The first: {failures[0]}"
            )

    def get(self, request: PageRequest) -> Page:
        """The stored page, else the page fetched now, which is then stored. A failure that lasts is a page with an
        `error`; a stored one is fetched again if these settings avoid its cause (`_ignored_errors`). Nothing is stored
        if this raises: Incomplete if the request failed for a reason that may pass (for a page with `give_up`, this is
        a stored failure instead); SourceError if a service refuses; StoreError if the store cannot be used.
        """
        key, lifted = request.key, self._ignored_errors(request)
        with self._locks[request.robots][key[0] % LOCKS]:
            page = self.store.get(key)
            if page is not None and page.error not in lifted:
                return page
            return self.store.put(key, self._fetched(request), instead_of=lifted)

    def _ignored_errors(self, request: PageRequest) -> list[str]:
        """The `error` values of stored failures that do not count for this request, which is then sent again: "private
        address" if it allows such hosts, those of robots.txt if it does not ask robots.txt, and those of PASSING and an
        unread robots.txt unless `give_up` is set.
        """
        lifted = dict.fromkeys((*PASSING, NO_RULES), not self.manners.give_up)
        lifted |= {PRIVATE: request.private_hosts, FORBIDDEN: not request.robots}
        lifted[NO_RULES] |= not request.robots
        return [reason for reason, no_longer in lifted.items() if no_longer]

    def _fetched(self, request: PageRequest) -> Page:
        """The page as the server answers now, or a page that describes the failure. For a service every failure is
        raised; for a page only Incomplete, and only without `give_up`.
        """
        try:
            return self._answered(request)
        except (SourceError, Incomplete) as error:
            if request.service or (isinstance(error, Incomplete) and not self.manners.give_up):
                raise
            status = error.status if isinstance(error, HttpError) else 0
            detail = str(error)[:DETAIL_CHARACTERS]
            return Page(request.url, request.url, status, _now(), error=_reason(error), detail=detail)

    def _answered(self, request: PageRequest) -> Page:
        """The page in the server's reply, not yet stored. Raises Incomplete or SourceError if the request fails or is
        refused, and Incomplete for a reply that is not storable.
        """
        reply = self.http.get(
            request.url,
            params=dict(request.params) or None,
            credentials=request.credentials,
            max_bytes=request.max_bytes,
            check=None if request.service else lambda url: self._check(request, url),
            public_only=not (request.service or request.private_hosts),
        )
        if not request.is_storable(reply):
            raise Incomplete(f"{request.service} had no answer to give for now: run this again.")
        headers = {name: value for name in KEPT_HEADERS if (value := reply.headers.get(name, "")[:HEADER_CHARACTERS])}
        final_url = request.url if request.service else reply.url
        return Page(request.url, final_url, reply.status, _now(), headers, reply.content)

    def _check(self, request: PageRequest, url: str) -> None:
        """Raise Refused if this address must not be requested: no public web address (unless `private_hosts`), or,
        with `robots`, forbidden by robots.txt. Incomplete if its host or its robots.txt cannot be looked up for now.
        """
        check_address(url, private_hosts=request.private_hosts)
        if request.robots:
            self._robots[request.private_hosts].check(url)

    def _robots_txt(self, private_hosts: bool, url: str) -> Page:
        """The page at the URL of a robots.txt, from the store or fetched now."""
        return self.get(PageRequest(url, max_bytes=ROBOTS_BYTES, private_hosts=private_hosts, robots=False))

    def close(self) -> None:
        """Wait for running requests, cancel those that have not started, and close all connections."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.http.close()


def _reason(error: SourceError | Incomplete) -> str:
    """The short reason for Page.error: "status 404" and the like, the reason of a Refused or Unreached, "not reachable"
    for any other Incomplete, or "no usable reply".
    """
    if isinstance(error, HttpError):
        return f"status {error.status}"
    if isinstance(error, Refused | Unreached):
        return error.reason
    return UNREACHABLE if isinstance(error, Incomplete) else UNUSABLE


def _now() -> int:
    """Milliseconds since 1970, UTC."""
    return int(time.time() * 1000)
