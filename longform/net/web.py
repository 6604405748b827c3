"""Asking the web: what was fetched once is replayed, what fails for good is known, what may pass is asked again.

    with open_web(home) as web:
        visitor = web.visitor(Manners())
        for row, page in visitor.each(rows, lambda row: visitor.get(Ask(row["url"]))):
            ...

Every reply is in the store (longform/net/pages.py) before anybody sees it, and so is every lasting failure. A call that
failed for a passing reason raises Incomplete once all others were tried, so that the part it is for stays open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from longform.errors import HttpError, Incomplete, SourceError
from longform.net.ahead import in_order
from longform.net.hosts import FORBIDDEN, PRIVATE, Refused, Robots, check_address
from longform.net.http import Http, Reply
from longform.net.pages import Page, PageStore, key_of

UNREACHABLE, UNUSABLE = "not reachable", "no usable reply"
KEPT_HEADERS = ("content-type", "content-language", "last-modified")
HEADER_CHARACTERS = 200
DETAIL_CHARACTERS = 500
LOCKS = 64
MAX_BYTES = 10_000_000
ROBOTS_BYTES = 2_000_000

T = TypeVar("T")
R = TypeVar("R")


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
