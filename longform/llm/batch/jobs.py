"""Batch mode: requests that are not stored yet go through the provider's Batch API, at half price, before they are due.

What comes back is stored under the keys that a single call would use, so that whoever asks afterwards finds it there.
There are an output and an error file; either may be missing, and a batch that failed, expired or was cancelled may
still have both. What did not come is left to single calls.

A job is written down before anything is sent and carries its name to the provider, so that a process that was killed
at any moment finds it again instead of paying twice:

    STAGED     written down, its requests lie in FOLDER/NAME.jsonl
    UPLOADED   the provider has the file
    SUBMITTED  the provider has the batch, and works
    DONE       what it made is stored             GONE   it never ran, or cannot be found
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from longform.errors import StoreError
from longform.llm.ask.types import Endpoint
from longform.llm.batch.files import AT_ONCE, Collector, Item, Keep, Reply, line_of, reread, usable
from longform.llm.batch.remote import Remote, Say, Sleep, pauses
from longform.llm.price import Budget
from longform.llm.responses.records import Job
from longform.llm.responses.store import ResponseStore
from longform.llm.send.wire import Wire

__all__ = ["Counts", "Item", "Keep", "Reply", "cancel", "prefetch"]

MAX_REQUESTS, MAX_BYTES = 50_000, 190_000_000
ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})


@dataclass(slots=True)
class Counts:
    """`sent` requests in `jobs` new jobs; `stored` records; `missing`: requests of ended jobs that got none; `broken`
    lines. `short_nano` is what the next request may cost, where the budget could not take it, else 0."""

    jobs: int = 0
    sent: int = 0
    stored: int = 0
    missing: int = 0
    broken: int = 0
    short_nano: int = 0


async def prefetch(
    wire: Wire,
    store: ResponseStore,
    endpoint: Endpoint,
    items: Iterable[Item],
    keep: Keep,
    *,
    budget: Budget,
    folder: Path,
    context: Mapping[str, Any],
    api_key: str | None = None,
    say: Say = lambda _: None,
    clock: Callable[[], float] = time.time,
    sleep: Sleep = asyncio.sleep,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
) -> Counts:
    """Have every item answered that is not stored, and store what comes; returns when all of their jobs have ended.

    Jobs of an earlier run are taken up first. `keep` makes a record and a line of the ledger of a reply, or None where
    it is worth nothing; it is given the `context` that its job was written down with. `folder` keeps what was
    uploaded until its job has ended. A file holds at most `max_requests` requests and `max_bytes`, or a single larger
    request. One call at a time an endpoint. Raises EndpointError where the endpoint refuses, Incomplete where it
    cannot be reached for an hour; jobs go on at the provider in either case.
    """
    remote = Remote(wire, endpoint, api_key, say, sleep)
    boundaries = dict(context), say, clock, sleep, max_requests, max_bytes
    work = _Prefetch(remote, store, endpoint, items, keep, budget, folder, *boundaries)
    await work.run()
    return work.counts


async def cancel(
    wire: Wire, job: Job, endpoint: Endpoint, *, api_key: str | None = None, say: Say = lambda _: None
) -> bool:
    """Ask the provider to stop a job; what it finished until then is collected by the next run.

    False where the provider knows no such job, so that it can be given up.
    """
    remote = Remote(wire, endpoint, api_key, say, asyncio.sleep)
    there = job.remote or (await remote.find(job.name) or {}).get("id")
    return there is not None and await remote.cancel(str(there))


@dataclass(slots=True)
class _Chunk:
    """Requests on their way into a file."""

    path: Path
    max_requests: int
    max_bytes: int
    keys: dict[str, int] = field(default_factory=dict)
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    bytes: int = 0
    bound_nano: int = 0
    reserved: int = 0

    def has_room(self, item: Item) -> bool:
        full = len(self.keys) >= self.max_requests or self.bytes + len(line_of(item)) > self.max_bytes
        return not self.keys or not full

    def add(self, item: Item, file: Any, reserved: int) -> None:
        self.bytes += file.write(line_of(item))
        self.keys[item.key] = self.kinds.setdefault((item.task, item.prompt), len(self.kinds))
        self.bound_nano += item.bound_nano
        self.reserved += reserved


@dataclass(slots=True)
class _Open:
    """A job that has not ended. `ours`: no other process collects it; `wanted`: it holds some of our items."""

    job: Job
    keys: array[int]
    reserved: int = 0
    ours: bool = True
    wanted: bool = True

    def holds(self, number: int) -> bool:
        place = bisect_left(self.keys, number)
        return place < len(self.keys) and self.keys[place] == number


class _Prefetch:
    def __init__(
        self,
        remote: Remote,
        store: ResponseStore,
        endpoint: Endpoint,
        items: Iterable[Item],
        keep: Keep,
        budget: Budget,
        folder: Path,
        context: dict[str, Any],
        say: Say,
        clock: Callable[[], float],
        sleep: Sleep,
        max_requests: int,
        max_bytes: int,
    ) -> None:
        self.counts = Counts()
        self._remote, self._store, self._endpoint, self._keep = remote, store, endpoint, keep
        self._items, self._budget, self._folder, self._context = iter(items), budget, folder, context
        self._say, self._clock, self._sleep = say, clock, sleep
        self._open: dict[str, _Open] = {}
        self._ready: deque[Item] = deque()
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._crowded = False
        self._pauses = pauses()

    async def run(self) -> None:
        """Send while there is something to send and room for it; then wait for a job to end; and so on."""
        try:
            self._tidy()
            await self._adopt()
            while True:
                while await self._send_next():
                    pass
                jobs = self._open.values()
                if not any(each.wanted or (each.ours and self.counts.short_nano) for each in jobs):
                    break
                await self._sleep(next(self._pauses))
                await self._look()
            await self._let_go()
        except asyncio.CancelledError:
            if any(each.job.remote for each in self._open.values()):
                self._say(
                    f"Batch jobs of {self._endpoint.name} go on at the provider: the same command collects them, "
                    "`longform batches --cancel all` with its configuration stops them."
                )
            raise
        finally:
            for each in self._open.values():
                self._budget.settle(each.reserved, 0, calls=0)
            self._open.clear()

    # earlier runs

    def _tidy(self) -> None:
        """Remove files that a killed process left and no job needs, where no other process can be at work."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._store.exclusive:
            return
        needed = {f"{job.name}.jsonl" for job in self._store.jobs()}
        ours = f"{os.getpid()}-"
        for path in self._folder.iterdir():
            leftover = path.suffix in (".jsonl", ".part", ".again") and not path.name.startswith(ours)
            if leftover and path.name not in needed:
                path.unlink(missing_ok=True)

    async def _adopt(self) -> None:
        """Take up the jobs of earlier runs, before there are new ones."""
        for job in await asyncio.to_thread(self._store.jobs, self._endpoint.name):
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            self._open[job.name] = _Open(job, _numbers(keys), ours=False, wanted=False)
        await self._look()

    async def _take(self, each: _Open) -> None:
        """Make the job ours, unless another process collects it or has done so."""
        if each.ours:
            return
        if await self._store.lease([each.job.name]):
            still = await asyncio.to_thread(self._store.jobs, self._endpoint.name)
            found = next((job for job in still if job.name == each.job.name), None)
            each.job, each.ours = found or each.job, True
            if found is None:
                await self._forget(each)
                return
            each.reserved = self._budget.reserve(each.job.reserved_nano) or 0
            if not self._store.exclusive:
                await self._store.lease(await asyncio.to_thread(self._store.job_keys, each.job.name))

    async def _resume(self, each: _Open) -> None:
        """Go on with a job of which no batch is known: it may have one, and if not, can be submitted."""
        batch = await self._remote.find(each.job.name)
        if batch is not None:
            file = batch.get("input_file_id") or each.job.input_file
            await self._update(each, state="SUBMITTED", remote=str(batch["id"]), input_file=file)
        elif self._spool(each.job).exists() or await self._is_uploaded(each.job):
            await self._submit(each)
        else:
            await self._end(each, "GONE", 0, 0)

    # sending

    async def _send_next(self) -> bool:
        """Stage and submit one more job, of what fits into a file and the budget; False where there is none."""
        self.counts.short_nano = 0
        if self._crowded and any(each.wanted for each in self._open.values()):
            return False
        chunk = _Chunk(self._folder / f"{os.getpid()}-{id(self)}.part", self._max_requests, self._max_bytes)
        try:
            await self._fill(chunk)
            each = await self._staged(chunk) if chunk.keys else None
        except BaseException as error:
            self._drop(chunk)
            if isinstance(error, OSError):
                unwritable = f"The folder {self._folder} cannot be written ({error}): check disk space and rights."
                raise StoreError(unwritable) from None
            raise
        if each is None:
            self._drop(chunk)
            self.counts.short_nano = max(1, self._ready[0].bound_nano) if self._ready else 0
            return False
        self.counts.jobs += 1
        self.counts.sent += each.job.requests
        await self._submit(each)
        self._pauses = pauses()
        return True

    async def _fill(self, chunk: _Chunk) -> None:
        with chunk.path.open("wb") as file:
            while (item := await self._next(chunk)) is not None:
                reserved = self._budget.reserve(item.bound_nano) if chunk.has_room(item) else None
                if reserved is None:
                    self._ready.appendleft(item)
                    break
                chunk.add(item, file, reserved)

    def _drop(self, chunk: _Chunk) -> None:
        self._budget.settle(chunk.reserved, 0, calls=0)
        chunk.path.unlink(missing_ok=True)

    async def _next(self, chunk: _Chunk) -> Item | None:
        """The next item that is neither stored nor on its way."""
        while not self._ready:
            group = {item.key: item for item in await asyncio.to_thread(lambda: list(islice(self._items, AT_ONCE)))}
            if not group:
                return None
            stored = await asyncio.to_thread(self._store.get, list(group))
            wanted = [key for key in group if not usable(stored.get(key)) and key not in chunk.keys]
            missing = [key for key in wanted if not self._claim_open_job(key)]
            granted = await self._store.lease(missing) if missing else set()
            self._ready.extend(group[key] for key in missing if key in granted)
        return self._ready.popleft()

    def _claim_open_job(self, key: str) -> bool:
        """Whether an open job asks for this key; that job is then wanted."""
        number = _number(key)
        for each in self._open.values():
            if each.holds(number):
                each.wanted = True
                return True
        return False

    async def _staged(self, chunk: _Chunk) -> _Open:
        """Written down, then its requests put where they are found by its name; nothing sent."""
        which = (
            list(chunk.keys.values()) if len(chunk.kinds) > 1 else []
        )  # what each request is, in the order of the keys
        job = Job(
            name=hashlib.sha256("\n".join(sorted(chunk.keys)).encode()).hexdigest(),
            endpoint=self._endpoint.name,
            state="STAGED",
            requests=len(chunk.keys),
            reserved_nano=chunk.bound_nano,
            created=self._clock(),
            context=json.dumps({"given": self._context, "kinds": list(chunk.kinds), "which": which}),
        )
        await self._store.lease([job.name])
        await asyncio.to_thread(self._store.stage_job, job, list(chunk.keys))
        chunk.path.replace(self._spool(job))
        each = self._open[job.name] = _Open(job, _numbers(chunk.keys), chunk.reserved)
        return each

    async def _submit(self, each: _Open) -> None:
        file = each.job.input_file
        if file is None or not await self._is_uploaded(each.job):
            file = await self._remote.upload(self._spool(each.job))
            if file is None:
                await self._split(each, "its file is larger than the provider takes")
                return
            await self._update(each, state="UPLOADED", input_file=file)
        batch = await self._remote.create(each.job.name, file)
        await self._update(each, state="SUBMITTED", remote=str(batch["id"]))
        self._say(f"batch {each.job.name[:12]}: {each.job.requests:,} requests sent to {self._endpoint.name}")

    async def _is_uploaded(self, job: Job) -> bool:
        return job.input_file is not None and await self._remote.has_file(job.input_file)

    # collecting

    async def _look(self) -> None:
        """Ask after every open job once; collect those that have ended."""
        for each in list(self._open.values()):
            await self._take(each)
            if each.ours and each.job.remote is None:
                await self._resume(each)
            if each.ours and each.job.name in self._open:
                batch = await self._remote.batch(each.job)
                if _status(batch) in ENDED:
                    await self._collect(each, batch)
                    self._pauses = pauses()

    async def _collect(self, each: _Open, batch: dict[str, Any]) -> None:
        """Store what the batch made, whatever it ended as."""
        if _status(batch) == "failed" and "token_limit_exceeded" in json.dumps(batch.get("errors")):
            await self._split(each, "the provider has too many tokens queued")
            return
        files = [str(file) for name in ("output_file_id", "error_file_id") if (file := batch.get(name))]
        collector = await self._collector(each)
        stored = spent = calls = 0
        for file in files:
            content = await self._remote.content(file)
            for replies in collector.groups(content or b""):
                records, paid = collector.worth(replies, await asyncio.to_thread(self._store.get, list(replies)))
                await self._store.put(records, paid)
                stored, calls = stored + len(records), calls + len(paid)
                spent += sum(line.cost_nano or 0 for line in paid)
        missing = len(collector.places) - len(collector.answered)
        self.counts.stored += stored
        self.counts.missing += missing
        self.counts.broken += collector.broken
        left = f", {missing:,} of {each.job.requests:,} came without an answer" if missing else ""
        self._say(f"batch {each.job.name[:12]} {_status(batch)}: {stored:,} answers stored{left}")
        await self._end(each, "DONE", spent, calls)
        await self._remote.delete([*([each.job.input_file] if each.job.input_file else []), *files])

    async def _collector(self, each: _Open) -> Collector:
        """With the requests as they were sent: from this computer's file, else from the provider's."""
        spool = self._spool(each.job)
        if not spool.exists() and each.job.input_file:
            content = await self._remote.content(each.job.input_file)
            if content is not None:
                spool.write_bytes(content)
        keys = await asyncio.to_thread(self._store.job_keys, each.job.name)
        return Collector(each.job, spool, keys, self._keep)

    async def _split(self, each: _Open, why: str) -> None:
        """Send its requests again in jobs of half the size, one at a time; a single one is left to a single call."""
        job, spool = each.job, self._spool(each.job)
        self._max_requests, self._crowded = max(1, min(self._max_requests, job.requests) // 2), True
        again = each.wanted and job.requests > 1 and spool.exists()
        if again:
            moved = spool.replace(spool.with_name(f"{os.getpid()}-{job.name}.again"))
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            self._items = chain(reread(job, moved, keys), self._items)
        self.counts.missing += 0 if again else job.requests
        self._say(f"batch {job.name[:12]}: {why}; {'smaller ones follow' if again else 'it is left'}")
        await self._end(each, "GONE", 0, 0)

    async def _end(self, each: _Open, state: str, spent: int, calls: int) -> None:
        await self._update(each, state=state)
        reserved, each.reserved = each.reserved, 0
        self._budget.settle(reserved, spent, calls=calls, stage=self._context["stage"])
        self._spool(each.job).unlink(missing_ok=True)
        if not self._store.exclusive:
            await self._store.release(await asyncio.to_thread(self._store.job_keys, each.job.name))
        await self._forget(each)

    async def _forget(self, each: _Open) -> None:
        del self._open[each.job.name]
        await self._store.release([each.job.name])

    async def _let_go(self) -> None:
        """What is left for others: requests that were not sent, jobs that hold nothing of ours."""
        await self._store.release([item.key for item in self._ready])
        for each in [each for each in self._open.values() if each.ours]:
            keys = [] if self._store.exclusive else await asyncio.to_thread(self._store.job_keys, each.job.name)
            await self._store.release([each.job.name, *keys])

    async def _update(self, each: _Open, **fields: Any) -> None:
        await asyncio.to_thread(self._store.update_job, each.job.name, **fields)
        each.job = replace(each.job, **fields)

    def _spool(self, job: Job) -> Path:
        return self._folder / f"{job.name}.jsonl"


def _number(key: str) -> int:
    return int(key[:16], 16)


def _numbers(keys: Iterable[str]) -> array[int]:
    """The first 64 bits of each key, in order: eight bytes a request, however many are on their way."""
    return array("Q", sorted(map(_number, keys)))


def _status(batch: dict[str, Any]) -> str:
    return str(batch.get("status")).lower()
