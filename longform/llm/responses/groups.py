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
    messages. `failed` is called with the requests that ended in an error, and the errors; it returns those to be raised
    in their place.
    """

    def __init__(
        self,
        named: str,
        work: Callable[[list[Any]], list[Any]],
        failed: Callable[[list[Any], list[Exception]], list[Exception]] = lambda _, errors: errors,
    ) -> None:
        self._named, self._work, self._failed = named, work, failed
        self._waiting: deque[Asked] = deque()
        self._at_work: list[Asked] = []
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
            with self._arrived:
                if not self._at_work:
                    return  # `close` did not wait
                self._at_work = []
                results = self._with_failures(group, results)
            _answer(group, results)

    def _with_failures(self, group: list[Asked], results: list[Any]) -> list[Any]:
        """The results of a group, with what `failed` returns in place of errors."""
        places = [place for place, result in enumerate(results) if isinstance(result, Exception)]
        if not places:
            return results
        errors = self._failed([group[place][0] for place in places], [results[place] for place in places])
        instead = dict(zip(places, errors, strict=True))
        return [instead.get(place, result) for place, result in enumerate(results)]

    def _next_group(self) -> list[Asked]:
        """Wait for requests, and return those that are there, MOST_IN_A_GROUP at most; empty after `close` once none
        are left.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._closed)
            self._at_work = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_A_GROUP))]
            return self._at_work

    def close(self, seconds: float | None = None) -> None:
        """Refuse new requests, and return when all earlier ones are done, or after so many seconds (None: no limit):
        then those that are left end in a StoreError, also if the database still does what they ask.
        """
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if self._thread:
            self._thread.join(seconds)
        with self._arrived:
            left = [*self._at_work, *self._waiting]
            self._at_work = []
            self._waiting.clear()
            if left:
                error = StoreError(f"{self._named} did not answer before it was closed: check that it runs.")
                _answer(left, self._with_failures(left, [error] * len(left)))


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
