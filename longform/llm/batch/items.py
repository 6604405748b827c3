"""The requests that are to go into jobs: read, leased, paid from the budget, written to a file, and put back."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from longform.llm.batch.files import AT_ONCE, Item, is_answered, line_of, reread
from longform.llm.batch.open_jobs import Desk, OpenJob


@dataclass(slots=True)
class Chunk:
    """The requests of one new job while they are written to the file `path`. `keys` maps a request's key to the number
    of its (task, prompt) in `kinds`; `again` are the positions of those whose reply replaces an answer. `bytes` is the
    size of the file so far, `bound_nano` the sum of the requests' cost bounds, `reserved` the money that the budget set
    aside for them; both in billionths of a US dollar.
    """

    path: Path
    max_requests: int
    max_bytes: int
    keys: dict[str, int] = field(default_factory=dict)
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    again: list[int] = field(default_factory=list)
    bytes: int = 0
    bound_nano: int = 0
    reserved: int = 0

    def has_room(self, item: Item) -> bool:
        """Whether the item may be added without exceeding `max_requests` or `max_bytes`. The first item always may."""
        full = len(self.keys) >= self.max_requests or self.bytes + len(line_of(item)) > self.max_bytes
        return not self.keys or not full

    def add(self, item: Item, file: Any, reserved: int) -> None:
        """Write the item's line to `file`, and count its bytes, its cost bound and the money that was `reserved` for
        it.
        """
        self.bytes += file.write(line_of(item))
        self.again += [len(self.keys)] if item.again else []
        self.keys[item.key] = self.kinds.setdefault((item.task, item.prompt), len(self.kinds))
        self.bound_nano += item.bound_nano
        self.reserved += reserved


class Items:
    """The items of a prefetch that are not in a job yet. `ready`: those that were read and may be sent. A new job has
    at most `max_requests` and `max_bytes`. `crowded`: the provider takes one job at a time.
    """

    def __init__(self, desk: Desk, items: Iterable[Item], max_requests: int, max_bytes: int) -> None:
        self._desk, self._items = desk, iter(items)
        self.max_requests, self.max_bytes = max_requests, max_bytes
        self.ready: deque[Item] = deque()
        self.crowded = False
        self._second: set[str] = set()

    async def fill(self, chunk: Chunk) -> None:
        """Write items to the chunk's file until none is left, the file is full, or the budget has no room. An item
        that does not fit is the first of the next chunk.
        """
        with chunk.path.open("wb") as file:
            while (item := await self._next(chunk)) is not None:
                reserved = self._desk.budget.reserve(item.bound_nano) if chunk.has_room(item) else None
                if reserved is None:
                    self.ready.appendleft(item)
                    break
                chunk.add(item, file, reserved)

    def drop(self, chunk: Chunk) -> None:
        """Give back the money reserved for the chunk, and delete its file."""
        self._desk.budget.settle(chunk.reserved, 0, calls=0)
        chunk.path.unlink(missing_ok=True)

    async def _next(self, chunk: Chunk) -> Item | None:
        """The next item that has no stored answer, is neither in the chunk nor in an open job, and is not leased to
        another process; None if none is left. In a shared store the item is leased. An open job that has an item is
        marked as wanted.
        """
        while not self.ready:
            group = {item.key: item for item in await asyncio.to_thread(lambda: list(islice(self._items, AT_ONCE)))}
            if not group:
                return None
            stored = await asyncio.to_thread(self._desk.store.get, list(group))
            due = [key for key, item in group.items() if item.again or not is_answered(stored.get(key))]
            missing = [key for key in due if key not in chunk.keys and not self._desk.claim_open_job(key)]
            granted = await self._lease([group[key] for key in missing])
            self._desk.elsewhere.update(key for key in missing if key not in granted)
            self.ready.extend(group[key] for key in missing if key in granted)
        return self.ready.popleft()

    async def _lease(self, items: list[Item]) -> set[str]:
        """The keys of those items that this process may ask now."""
        granted: set[str] = set()
        for again in (False, True):
            if keys := [item.key for item in items if item.again == again]:
                granted |= await (self._desk.store.lease(keys, again=True) if again else self._desk.store.lease(keys))
        return granted

    async def put_back(self, each: OpenJob, missing: list[str], why: str) -> None:
        """Put requests (keys) of a job that this prefetch wants back, to be sent in one more job. Those that were put
        back before, all where single calls are allowed, and those whose file is gone are noted as unanswered,
        with `why`.
        """
        if not missing or not each.wanted:
            return
        again = set() if self._desk.online or not self._desk.spool(each.job).exists() else set(missing) - self._second
        if again:
            await self._reread(each, again)
            self._second |= again
        for key in (key for key in missing if key not in again):
            self._desk.counts.unanswered[key] = each.flaws.get(key, why)
            self._desk.counts.useless |= {key} & each.flaws.keys()

    async def _reread(self, each: OpenJob, wanted: set[str]) -> None:
        """Make these requests (keys) of a job the next items, read from its file."""
        spool = self._desk.spool(each.job)
        moved = spool.replace(spool.with_name(f"{os.getpid()}-{each.job.name}.again"))
        keys = await asyncio.to_thread(self._desk.store.job_keys, each.job.name)
        self._items = chain(reread(each.job, moved, keys, wanted), self._items)

    async def split(self, each: OpenJob, why: str) -> None:
        """End the job as GONE and put its requests back, to be sent in jobs of half the size, one job at a time. `why`
        is shown to the user.

        The requests of a job of one request, of one that is not wanted, or of one whose file is gone are not put back
        but noted as unanswered.
        """
        job = each.job
        self.max_requests, self.crowded = max(1, min(self.max_requests, job.requests) // 2), True
        again = each.wanted and job.requests > 1 and self._desk.spool(job).exists()
        keys = await asyncio.to_thread(self._desk.store.job_keys, job.name)
        if again:
            await self._reread(each, set(keys))
        elif each.wanted:
            self._desk.counts.unanswered |= dict.fromkeys(keys, why)
        self._desk.say(f"{each.named}: {why}; {'smaller ones follow' if again else 'it is left'}")
        await self._desk.end(each, "GONE")
