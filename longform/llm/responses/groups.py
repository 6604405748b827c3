"""What is asked of a database while it is at work waits, and is done together: one commit serves all who wait."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from longform.errors import StoreError

MOST_IN_A_GROUP = 512

T = TypeVar("T")


class Worker:
    """An event loop in a thread of its own, for one database; `named` is what messages call it."""

    def __init__(self, named: str) -> None:
        self.named = named
        self.loop = asyncio.new_event_loop()
        self.lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self.loop.run_forever, name="responses", daemon=True)
        self._thread.start()

    def call(self, work: Callable[..., Coroutine[Any, Any, T]], *values: Any) -> T:
        """What the work returns, done in the loop; from any other thread."""
        try:
            return self._started(work, *values).result()
        except CancelledError:
            raise self._is_closed() from None

    async def wait_for(self, work: Callable[..., Coroutine[Any, Any, T]], *values: Any) -> T:
        """As `call`, for who waits in an event loop of its own."""
        return await asyncio.wrap_future(self._started(work, *values))

    def _started(self, work: Callable[..., Coroutine[Any, Any, T]], *values: Any) -> Future[T]:
        with self.lock:
            self.check_open()
            return asyncio.run_coroutine_threadsafe(work(*values), self.loop)

    def check_open(self) -> None:
        if self._closed:
            raise self._is_closed()

    def _is_closed(self) -> StoreError:
        return StoreError(f"{self.named} is closed.")

    def close(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Take no more work, do `end` in the loop, then end the loop."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            ending = asyncio.run_coroutine_threadsafe(end(), self.loop)
        try:
            ending.result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


async def other_tasks_ended(seconds: float | None = None) -> None:
    """Wait for all other tasks of the loop; break off those that take longer."""
    others: set[asyncio.Task[Any]] = set()
    try:
        async with asyncio.timeout(seconds):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
    except TimeoutError:
        for task in others:
            task.cancel()


@dataclass(slots=True)
class _Asked:
    what: Any
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Groups:
    """Work done in groups, in a worker's loop: what is asked while one is being worked on makes the next one.

    `work` returns one result for each of the group, or an error to be raised to the one who asked.
    """

    def __init__(self, worker: Worker, work: Callable[[list[Any]], Awaitable[list[Any]]]) -> None:
        self._worker, self._work = worker, work
        self._waiting: deque[_Asked] = deque()
        self._task: asyncio.Task[None] | None = None
        self._woken = False

    async def ask(self, what: Any) -> Any:
        """From any event loop. StoreError where the worker is closed."""
        loop = asyncio.get_running_loop()
        asked = _Asked(what, loop, loop.create_future())
        with self._worker.lock:
            self._worker.check_open()
            self._waiting.append(asked)
            if not self._woken:
                self._woken = True
                self._worker.loop.call_soon_threadsafe(self._begin)
        return await asked.done

    def _begin(self) -> None:
        self._woken = False
        if self._task is None or self._task.done():
            self._task = self._worker.loop.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_A_GROUP))]
            try:
                results = await self._work([asked.what for asked in group])
            except Exception as error:
                results = [error] * len(group)
            _answer(group, results)


class ThreadGroups:
    """As Groups, in a thread of its own, for work that waits for the disk.

    Whoever asks only notifies: waking an event loop instead would hand the interpreter over at once, and groups would
    be small. The thread begins with the first who asks.
    """

    def __init__(self, named: str, work: Callable[[list[Any]], list[Any]]) -> None:
        self._named, self._work = named, work
        self._waiting: deque[_Asked] = deque()
        self._arrived = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def ask(self, what: Any) -> Any:
        """From any event loop. StoreError once it is closed."""
        loop = asyncio.get_running_loop()
        asked = _Asked(what, loop, loop.create_future())
        with self._arrived:
            if self._closed:
                raise StoreError(f"{self._named} is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="responses", daemon=True)
                self._thread.start()
            self._waiting.append(asked)
            self._arrived.notify()
        return await asked.done

    def _run(self) -> None:
        while group := self._next_group():
            _answer(group, self._work([asked.what for asked in group]))

    def _next_group(self) -> list[_Asked]:
        """All that waits, up to a limit; empty once it is closed and everything is done."""
        with self._arrived:
            while not self._waiting and not self._closed:
                self._arrived.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_A_GROUP))]

    def close(self) -> None:
        """Returns when all that was asked for is done."""
        with self._arrived:
            self._closed = True
            self._arrived.notify()
        if self._thread:
            self._thread.join()


def _answer(group: list[_Asked], results: list[Any]) -> None:
    """Wake all who wait, with one call into each of their event loops."""
    of_loop = defaultdict(list)
    for asked, result in zip(group, results, strict=True):
        of_loop[asked.loop].append((asked.done, result))
    for loop, pairs in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, result in pairs:
        if done.done():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)
