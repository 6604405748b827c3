"""What is asked of a database while it is at work waits, and is done together: one commit serves all who wait."""

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
    """Work done in groups, in a thread of its own: what is asked while one is being worked on makes the next one.

    `work` returns one result for each of the group, or an error to be raised to the one who asked. Whoever asks only
    notifies: waking an event loop instead would hand the interpreter over at once, and groups would be small. The
    thread begins with the first who asks. `named` is what messages call the database.
    """

    def __init__(self, named: str, work: Callable[[list[Any]], list[Any]]) -> None:
        self._named, self._work = named, work
        self._waiting: deque[Asked] = deque()
        self._arrived = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def ask(self, what: Any) -> Any:
        """From any event loop. StoreError once it is closed."""
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
        while group := self._next_group():
            try:
                results = self._work([what for what, _ in group])
            except Exception as error:
                results = [error] * len(group)
            _answer(group, results)

    def _next_group(self) -> list[Asked]:
        """All that waits, up to a limit; empty once it is closed and everything is done."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._closed)
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_A_GROUP))]

    def close(self, seconds: float | None = None) -> None:
        """Returns when all that was asked for is done, or after so many seconds."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if self._thread:
            self._thread.join(seconds)


def closed(named: str) -> StoreError:
    return StoreError(f"{named} is closed.")


def _answer(group: list[Asked], results: list[Any]) -> None:
    """Wake all who wait, with one call into each of their event loops."""
    of_loop = defaultdict(list)
    for (_, done), result in zip(group, results, strict=True):
        of_loop[done.get_loop()].append((done, result))
    for loop, pairs in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, result in pairs:
        if not done.done() and isinstance(result, Exception):
            done.set_exception(result)
        elif not done.done():
            done.set_result(result)
