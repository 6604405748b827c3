"""Asking the web: what was fetched once is replayed, what fails for good is known, what may pass is asked again.

    with open_web(home) as web:
        visitor = web.visitor(Manners())
        for row, page in visitor.each(rows, lambda row: visitor.get(Ask(row["url"]))):
            ...

Every reply is in the store before anybody sees it, and so is every lasting failure. A call that failed for a passing
reason raises Incomplete once all others were tried, so that the part it is for stays open.

    <home>/web/pages.sqlite     page: one row a request: status, final address, headers, body (zstd), when; or the
                                      lasting reason why there is none
    <home>/web/pages.lock       held while somebody writes

A kill loses no more than what was on its way. Processes may share a store; what is stored first stays. Writes exclude
each other by the lock file, as two connections that write a WAL database at once could damage it under SQLite older
than 3.51.3; with a rollback journal each takes five times as long.
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
from longform.net.hosts import FORBIDDEN, PRIVATE, Refused, check_address
from longform.net.http import Http, Reply

UNREACHABLE, UNUSABLE = "not reachable", "no usable reply"
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
        try:
            yield
        except (sqlite3.Error, OSError, zstd.ZstdError, ValueError, EOFError) as error:
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
    headers, body = json.dumps(page.headers, sort_keys=True), zstd.compress(page.content, level=LEVEL)
    url, final, detail = map(_storable, (page.url, page.final, page.detail))
    return url, final, page.status, page.fetched_at, headers, body, page.error, detail


def _page(row: tuple[Any, ...]) -> Page:
    page = Page(*row)
    return replace(page, headers=json.loads(row[4]), content=zstd.decompress(page.content))


def _storable(text: str | None) -> str | None:
    """Without half characters, which no database holds."""
    return None if text is None else text.encode("utf-8", "replace").decode()


class Robots:
    """What hosts allow (RFC 9309), as protego reads it.

    `fetch` gives the robots.txt at an address. One that is not there (4xx) allows everything; one that cannot be had
    forbids it. The rules of the last HOSTS hosts are kept.
    """

    def __init__(self, fetch: Callable[[str], Page]) -> None:
        self._rules = lru_cache(HOSTS)(lambda place: _rules(fetch(place)))

    def check(self, url: str) -> None:
        """Refused where the host's robots.txt forbids it."""
        if not self._rules(urljoin(url, "/robots.txt")).can_fetch(url, AGENT):
            raise Refused(url, FORBIDDEN)


def _rules(page: Page) -> Protego:
    lines = page.content.decode("utf-8", "replace").splitlines()[:LINES]
    if page.error is not None:
        lines = [] if 400 <= page.status < 500 else ["User-agent: *", "Disallow: /"]
    return Protego.parse("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Manners:
    """How the web is asked; no part of what is asked. `at_once` bounds calls on their way, `per_second` those to one
    host. With `give_up` a page that cannot be reached now counts as one that never can."""

    at_once: int = 8
    per_second: float | None = 1.0
    tries: int = 3
    patience_seconds: float = 60.0
    timeout_seconds: tuple[float, float] = (10.0, 20.0)
    give_up: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """A GET request. A `service` (a search API) is known by that name in place of its address, so that it may move.

    A service's refusal stops everything: it is raised, not stored. A page's is stored. `private_hosts` allows
    addresses that are not public, `robots` asks robots.txt first; both are for pages. `settled` says of a reply of a
    service whether it is one to keep.
    """

    url: str
    params: tuple[tuple[str, str], ...] = ()
    service: str | None = None
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    max_bytes: int = MAX_BYTES
    private_hosts: bool = False
    robots: bool = True
    settled: Callable[[Reply], bool] = lambda reply: True

    @property
    def key(self) -> bytes:
        return key_of("GET", self.service or self.url, self.params)


class Web(AbstractContextManager["Web"]):
    """The store of a home, and who asks with which manners. `open_web` gives it; each user closes it once."""

    def __init__(self, home: Path) -> None:
        self.home, self.users = home, 0
        self.store = PageStore(home / "web" / "pages.sqlite")
        self._visitors: dict[Manners, Visitor] = {}
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    def visitor(self, manners: Manners) -> Visitor:
        """The one with these manners, shared by all who have them."""
        with self._lock:
            if manners not in self._visitors:
                self._visitors[manners] = Visitor(self.store, manners)
            return self._visitors[manners]

    def close(self) -> None:
        with _opening:
            self.users -= 1
            if self.users:
                return
            del _open[self.home]
        for visitor in self._visitors.values():
            visitor.close()
        self.store.close()


_open: dict[Path, Web] = {}
_opening = threading.Lock()


def open_web(home: Path) -> Web:
    """The web as a home knows it, shared by all who open it in this process, until the last of them closes it."""
    home = home.resolve()
    with _opening:
        web = _open[home] if home in _open else _open.setdefault(home, Web(home))
        web.users += 1
        return web


def in_order(pool: Executor, work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[tuple[T, Future[R]]]:
    """Each item with the future of `work` of it, which is waited for; `ahead` more are on their way."""
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


class Visitor:
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
        """Each item with what `work` made of it, in the order of the items, some at a time.

        Raises Incomplete, after all others were tried, where `work` did; another error at once.
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

    def get(self, ask: Ask) -> Page:
        """What is stored, else fetched and stored. Incomplete where the call failed for a passing reason."""
        key, lifted = ask.key, self._lifted(ask)
        with self._locks[ask.robots][key[0] % LOCKS]:
            page = self.store.get(key)
            if page is not None and page.error not in lifted:
                return page
            return self.store.put(key, self._fetched(ask), instead_of=lifted)

    def _lifted(self, ask: Ask) -> list[str]:
        """Stored refusals that no longer hold, as who asks now allows more, or wants to try again."""
        lifted = {PRIVATE: ask.private_hosts, FORBIDDEN: not ask.robots, UNREACHABLE: not self.manners.give_up}
        return [reason for reason, no_longer in lifted.items() if no_longer]

    def _fetched(self, ask: Ask) -> Page:
        try:
            return self._answered(ask)
        except (SourceError, Incomplete) as error:
            if ask.service or (isinstance(error, Incomplete) and not self.manners.give_up):
                raise
            status = error.status if isinstance(error, HttpError) else 0
            return Page(ask.url, ask.url, status, _now(), error=_reason(error), detail=str(error)[:DETAIL_CHARACTERS])

    def _answered(self, ask: Ask) -> Page:
        reply = self.http.get(
            ask.url,
            params=dict(ask.params) or None,
            credentials=ask.credentials,
            max_bytes=ask.max_bytes,
            check=None if ask.service else lambda url: self._check(ask, url),
            public_only=not (ask.service or ask.private_hosts),
        )
        if not ask.settled(reply):
            raise Incomplete(f"{ask.service} had no answer to give for now: run this again.")
        headers = {name: value for name in KEPT_HEADERS if (value := reply.headers.get(name, "")[:HEADER_CHARACTERS])}
        final = ask.url if ask.service else reply.url
        return Page(ask.url, final, reply.status, _now(), headers, reply.content)

    def _check(self, ask: Ask, url: str) -> None:
        check_address(url, private_hosts=ask.private_hosts)
        if ask.robots:
            self._robots[ask.private_hosts].check(url)

    def _robots_txt(self, private_hosts: bool, url: str) -> Page:
        return self.get(Ask(url, max_bytes=ROBOTS_BYTES, private_hosts=private_hosts, robots=False))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.http.close()


def _reason(error: SourceError | Incomplete) -> str:
    """Why a page cannot be had, as a short phrase."""
    if isinstance(error, HttpError):
        return f"status {error.status}"
    if isinstance(error, Incomplete):
        return UNREACHABLE
    return error.reason if isinstance(error, Refused) else UNUSABLE


def _now() -> int:
    return int(time.time() * 1000)
