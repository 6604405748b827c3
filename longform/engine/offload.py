"""Work that takes processor time, done in worker processes while a stage waits for its model.

    for result in in_workers(work, (prepared(reply) for reply in context.ask(model, requests))):
        yield result

A model stage runs in the flow's process, whose one interpreter also sends the requests: what is computed from the
replies there slows the asking down. Calls are few and large, so that sending them costs little.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from longform.engine.runners import Processes, processors
from longform.errors import LostWorker

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEMS_A_CALL = 16
AHEAD = 64  # calls that may wait for a worker


class Offload:
    """Worker processes that several threads share: started with the first call, ended when nobody uses them any more.

    `workers`: their number, by default one for each processor but the one that asks.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._number = workers or max(1, processors() - 1)
        self._lock, self._users = threading.Lock(), 0
        self._running: tuple[Processes, ThreadPoolExecutor] | None = None

    @contextmanager
    def used(self) -> Iterator[Callable[[Callable[[list[Any]], list[Any]], list[Any]], Future[list[Any]]]]:
        """A context with a function that starts `work(items)` in a worker, as soon as one is free."""
        with self._lock:
            self._users += 1
            self._running = self._running or (Processes(self._number), ThreadPoolExecutor(self._number, "offload"))
            processes, threads = self._running
        try:
            yield lambda work, items: threads.submit(processes.call, work, items, lost=_lost)
        finally:
            with self._lock:
                self._users -= 1
                ended, self._running = (None, self._running) if self._users else (self._running, None)
            if ended is not None:
                ended[0].close()
                ended[1].shutdown(cancel_futures=True)


def _lost() -> LostWorker:
    return LostWorker(
        "A worker died (killed, or out of memory): what was finished is kept; run the same command again."
    )


SHARED = Offload()


def in_workers(
    work: Callable[[list[Item]], list[Result]], items: Iterable[Item], offload: Offload = SHARED
) -> Iterator[Result]:
    """The results of `work`, a function of a list with a result for each item, in the order of the items.

    Fewer than ITEMS_A_CALL items are done here, as a worker is not worth its start; more all in workers, a few at a
    time and at most AHEAD calls ahead, so that `items` may be waited for meanwhile. Errors of `work` are raised;
    LostWorker if a worker dies.
    """
    items = iter(items)
    first = list(islice(items, ITEMS_A_CALL))
    if len(first) < ITEMS_A_CALL:
        yield from work(first)
        return
    with offload.used() as submit:
        waiting = deque([submit(work, first)])
        while chunk := list(islice(items, ITEMS_A_CALL)):
            waiting.append(submit(work, chunk))
            while waiting and (len(waiting) > AHEAD or waiting[0].done()):
                yield from waiting.popleft().result()
        for future in waiting:
            yield from future.result()
