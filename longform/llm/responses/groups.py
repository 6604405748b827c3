"""Group commit: writes that arrive while the database is busy wait, and are then committed together."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from longform.errors import StoreError

MOST_IN_A_GROUP = 512


Asked = tuple[Any, asyncio.Future[Any]]


class Groups:
    """Runs requests to a database in groups, in a thread of its own. Requests that arrive while one group is being
    worked on form the next group.

    `work` gets the requests of a group and returns one result for each; an Exception as a result is raised to the
    caller of that request. Callers only notify the thread: waking an event loop would hand over the interpreter at
    once, and groups would be small. The thread starts with the first request. `named` is the name of the database in
    messages.
    """

    def __init__(self, named: str, work: Callable[[list[Any]], list[Any]]) -> None:
        self._named, self._work = named, work
        self._waiting: deque[Asked] = deque()
        self._arrived = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def ask(self, what: Any) -> Any:
        """Add a request to the next group, and return its result, or raise its error, once the group is done. For any
        event loop. StoreError after `close`.
        """
        done = asyncio.get_running_loop().create_future()
        with self._arrived:
            if self._closed:
                raise closed(self._named)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="responses", daemon=True)
                self._thread.start()
            self._waiting.append((what, done))
            self._arrived.notify()
        return await done

    def _run(self) -> None:
        """The thread: work on group after group. If `work` raises, that error is the result of each request of the
        group.
        """
        while group := self._next_group():
            try:
                results = self._work([what for what, _ in group])
            except Exception as error:
                results = [error] * len(group)
            _answer(group, results)

    def _next_group(self) -> list[Asked]:
        """Wait for requests, and return those that are there, MOST_IN_A_GROUP at most; empty after `close` once none
        are left.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._closed)
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_A_GROUP))]

    def close(self, seconds: float | None = None) -> None:
        """Refuse new requests, and return when all earlier ones are done, or after so many seconds (None: no limit)."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if self._thread:
            self._thread.join(seconds)


def closed(named: str) -> StoreError:
    """The StoreError for a database that is used after it was closed."""
    return StoreError(f"{named} is closed.")


def _answer(group: list[Asked], results: list[Any]) -> None:
    """Set the result of each request of a group, by one call into each event loop that waits for any; closed loops are
    passed over.
    """
    of_loop = defaultdict(list)
    for (_, done), result in zip(group, results, strict=True):
        of_loop[done.get_loop()].append((done, result))
    for loop, pairs in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    """Give each future its result, or its error if that is an Exception; those that are done are left as they are."""
    for done, result in pairs:
        if not done.done() and isinstance(result, Exception):
            done.set_exception(result)
        elif not done.done():
            done.set_result(result)
