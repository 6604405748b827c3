"""Batch mode: requests without a stored reply go through the provider's Batch API, at half price, before they are due.

Replies are stored under the keys that single calls use, so that a later single call finds its reply stored. A batch has
an output file and an error file. Either may be missing, and a batch that failed, expired or was cancelled may still
have both. Requests without a reply are left to single calls.

A job is written to the response store before anything is sent, and its name is in the metadata of the provider's batch.
So a process that was killed at any moment finds its job again instead of paying twice:

    STAGED     in the store; its requests are in FOLDER/NAME.jsonl
    UPLOADED   the provider has the file
    SUBMITTED  the provider has the batch and works on it
    DONE       the replies of the batch are stored
    GONE       the batch never ran, or cannot be found
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
from longform.llm.batch.files import AT_ONCE, Collector, Item, Keep, Reply, is_answered, line_of, reread
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
    """What a prefetch did: `sent` requests in `jobs` new jobs, and `stored` records.

    `missing` requests got no usable reply from a batch that was collected, or were in a job that the provider did not
    take (file too large, too many tokens queued) and that could not be split. `broken` lines of the provider's files
    had no key. `short_nano` is the upper bound of the cost of the next request (billionths of a US dollar, at least 1)
    where the budget had no room for it, else 0.
    """

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
    """Have batch jobs answer the items that have no stored reply, store the replies, and return what was done when
    these jobs have ended. Items that another process is asking meanwhile are left out. Where the budget has no
    room for an item, it and later ones are not sent (`Counts.short_nano`).

    Jobs of earlier runs that have not ended are looked at first; those that have ended at the provider are collected.
    `keep` turns an item, the `context` and a reply into (record, ledger line), each None where there is nothing to
    write. `context` is stored with the job as JSON; its `stage` is the stage that pays. Request files are kept in
    `folder` until their job has ended. A file has at most `max_requests` requests and `max_bytes` bytes, or a single
    larger request. `say` gets messages for the user. A process may run only one prefetch per endpoint at a time.

    Raises EndpointError where the endpoint refuses, Incomplete where it gives no answer for an hour, and StoreError
    where requests cannot be written to the folder. Jobs that the provider has go on there, and the next run collects
    them.
    """
    remote = Remote(wire, endpoint, api_key, say, sleep)
    boundaries = dict(context), say, clock, sleep, max_requests, max_bytes
    work = _Prefetch(remote, store, endpoint, items, keep, budget, folder, *boundaries)
    await work.run()
    return work.counts


async def cancel(
    wire: Wire, job: Job, endpoint: Endpoint, *, api_key: str | None = None, say: Say = lambda _: None
) -> bool:
    """Ask the provider to cancel a job; the next run collects the replies that were finished before.

    False where the provider has no batch of this job: then the caller can mark the job as ended. EndpointError where
    the provider refuses, Incomplete where it gives no answer for an hour.
    """
    remote = Remote(wire, endpoint, api_key, say, asyncio.sleep)
    there = job.remote or (await remote.find(job.name) or {}).get("id")
    return there is not None and await remote.cancel(str(there))


@dataclass(slots=True)
class _Chunk:
    """The requests of one new job while they are written to the file `path`. `keys` maps a request's key to the number
    of its (task, prompt) in `kinds`. `bytes` is the size of the file so far, `bound_nano` the sum of the requests'
    cost bounds, `reserved` the money that the budget set aside for them; both in billionths of a US dollar.
    """

    path: Path
    max_requests: int
    max_bytes: int
    keys: dict[str, int] = field(default_factory=dict)
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
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
        self.keys[item.key] = self.kinds.setdefault((item.task, item.prompt), len(self.kinds))
        self.bound_nano += item.bound_nano
        self.reserved += reserved


@dataclass(slots=True)
class _Open:
    """A job that has not ended. `keys`: the first 64 bits of each of its requests' keys, sorted. `ours`: this process
    collects it, no other one. `wanted`: it has requests of this prefetch, which therefore waits for it. `reserved`:
    money set aside for it in this run's budget, in billionths of a US dollar.
    """

    job: Job
    keys: array[int]
    reserved: int = 0
    ours: bool = True
    wanted: bool = True

    def holds(self, number: int) -> bool:
        """Whether the job has a request whose key begins with these 64 bits."""
        place = bisect_left(self.keys, number)
        return place < len(self.keys) and self.keys[place] == number


class _Prefetch:
    """One call of the function `prefetch`: its jobs that have not ended, and the items that were read but not sent
    yet.
    """

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
        """Load the open jobs of earlier runs and check them. Send new jobs while items and budget last; then check the
        open jobs after growing pauses, and go on sending when one has ended. Ends when no open job has requests of
        this prefetch and, where the budget was short, this process has no open job whose end could free money. Then
        leases are released.

        In any case money reserved for jobs that are still open is given back. If the run is cancelled, the user is
        told that jobs go on at the provider.
        """
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
            await self._release_leases()
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
        """Create the folder, and delete the files in it that a killed process left and that no job in the store needs
        which has not ended. Deletes only where no other process can use the store (`exclusive`).
        """
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
        """Load this endpoint's jobs of earlier runs from the store, those that have not ended, and check each one
        (`_look`).
        """
        for job in await asyncio.to_thread(self._store.jobs, self._endpoint.name):
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            self._open[job.name] = _Open(job, _numbers(keys), ours=False, wanted=False)
        await self._look()

    async def _take_over(self, each: _Open) -> None:
        """Make this process the one that collects the job, if it is not yet, by a lease on the job's name. Nothing
        changes where another process has that lease.

        Then the job is read from the store again. If it has ended meanwhile, it is removed from the open jobs. Else
        its money is reserved, if the budget has room for it, and its keys are leased if the store is shared.
        """
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
        """Resume a job whose batch id was never recorded. If the provider has a batch with the job's name, that batch
        is used; else the job is submitted, if its file of requests is still in the folder or uploaded; else it ends as
        GONE.
        """
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
        """Stage and submit one new job with as many items as fit into a file and the budget; whether a job was made.

        False where no items are left, where the budget has no room for the next one (then `counts.short_nano` is set),
        or where, after a job was split, one with requests of this prefetch is still open. StoreError where the folder
        cannot be written.
        """
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
        """Write items to the chunk's file until none is left, the file is full, or the budget has no room. An item
        that does not fit is the first of the next chunk.
        """
        with chunk.path.open("wb") as file:
            while (item := await self._next(chunk)) is not None:
                reserved = self._budget.reserve(item.bound_nano) if chunk.has_room(item) else None
                if reserved is None:
                    self._ready.appendleft(item)
                    break
                chunk.add(item, file, reserved)

    def _drop(self, chunk: _Chunk) -> None:
        """Give back the money reserved for the chunk, and delete its file."""
        self._budget.settle(chunk.reserved, 0, calls=0)
        chunk.path.unlink(missing_ok=True)

    async def _next(self, chunk: _Chunk) -> Item | None:
        """The next item that has no stored answer, is neither in the chunk nor in an open job, and is not leased to
        another process; None if none is left. In a shared store the item is leased. An open job that has an item is
        marked as wanted.
        """
        while not self._ready:
            group = {item.key: item for item in await asyncio.to_thread(lambda: list(islice(self._items, AT_ONCE)))}
            if not group:
                return None
            stored = await asyncio.to_thread(self._store.get, list(group))
            wanted = [key for key in group if not is_answered(stored.get(key)) and key not in chunk.keys]
            missing = [key for key in wanted if not self._claim_open_job(key)]
            granted = await self._store.lease(missing) if missing else set()
            self._ready.extend(group[key] for key in missing if key in granted)
        return self._ready.popleft()

    def _claim_open_job(self, key: str) -> bool:
        """Whether an open job has the request with this key; if so, that job is marked as wanted."""
        number = _number(key)
        for each in self._open.values():
            if each.holds(number):
                each.wanted = True
                return True
        return False

    async def _staged(self, chunk: _Chunk) -> _Open:
        """The chunk as a new open job: its name is leased, it is written to the store as STAGED, and its file is
        renamed to the job's name. Nothing is sent.
        """
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
        """Upload the job's file, unless the provider has it, and create the batch. A job whose file is too large for
        the provider is split instead.
        """
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
        """Whether the provider has the job's file of requests."""
        return job.input_file is not None and await self._remote.has_file(job.input_file)

    # collecting

    async def _look(self) -> None:
        """Check every open job once: take it over; if its batch id is not known, resume it; ask for its batch's
        status, and collect the batch if it has ended. Jobs that other processes collect are left alone.
        """
        for each in list(self._open.values()):
            await self._take_over(each)
            if each.ours and each.job.remote is None:
                await self._resume(each)
            if each.ours and each.job.name in self._open:
                batch = await self._remote.batch(each.job)
                if _status(batch) in ENDED:
                    await self._collect(each, batch)
                    self._pauses = pauses()

    async def _collect(self, each: _Open, batch: dict[str, Any]) -> None:
        """Store the replies of an ended batch, whatever its status, add up the counts, end the job as DONE, and delete
        its files at the provider. A batch that failed because too many tokens are queued is split instead.
        """
        if _status(batch) == "failed" and "token_limit_exceeded" in json.dumps(batch.get("errors")):
            await self._split(each, "the provider has too many tokens queued")
            return
        files = [str(file) for name in ("output_file_id", "error_file_id") if (file := batch.get(name))]
        collector = await self._collector(each)
        stored = spent = calls = 0
        for file in files:
            content = await self._remote.content(file)
            for replies in collector.groups(content or b""):
                records, paid = collector.to_store(replies, await asyncio.to_thread(self._store.get, list(replies)))
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
        """A Collector with the job's requests as they were sent: from the file in the folder, else downloaded from the
        provider into that file; without the requests' bodies where neither has the file.
        """
        spool = self._spool(each.job)
        if not spool.exists() and each.job.input_file:
            content = await self._remote.content(each.job.input_file)
            if content is not None:
                spool.write_bytes(content)
        keys = await asyncio.to_thread(self._store.job_keys, each.job.name)
        return Collector(each.job, spool, keys, self._keep)

    async def _split(self, each: _Open, why: str) -> None:
        """End the job as GONE and put its requests back, to be sent in jobs of half the size, one job at a time. `why`
        is shown to the user.

        The requests of a job of one request, of one that is not wanted, or of one whose file is gone are not put back
        but counted as missing, which leaves them to single calls.
        """
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
        """Record the final `state` of the job, settle its money, delete its file, release the leases of its keys and
        its name, and remove it from the open jobs. `spent`: what its `calls` replies cost, in billionths of a US
        dollar.
        """
        await self._update(each, state=state)
        reserved, each.reserved = each.reserved, 0
        self._budget.settle(reserved, spent, calls=calls, stage=self._context["stage"])
        self._spool(each.job).unlink(missing_ok=True)
        if not self._store.exclusive:
            await self._store.release(await asyncio.to_thread(self._store.job_keys, each.job.name))
        await self._forget(each)

    async def _forget(self, each: _Open) -> None:
        """Remove the job from the open jobs, and release the lease on its name."""
        del self._open[each.job.name]
        await self._store.release([each.job.name])

    async def _release_leases(self) -> None:
        """Release this process's leases for other processes: of the keys of items that were read but not sent, and of
        the names and keys of those open jobs that this process collects.
        """
        await self._store.release([item.key for item in self._ready])
        for each in [each for each in self._open.values() if each.ours]:
            keys = [] if self._store.exclusive else await asyncio.to_thread(self._store.job_keys, each.job.name)
            await self._store.release([each.job.name, *keys])

    async def _update(self, each: _Open, **fields: Any) -> None:
        """Write these fields of the job to the store, and to `each.job`."""
        await asyncio.to_thread(self._store.update_job, each.job.name, **fields)
        each.job = replace(each.job, **fields)

    def _spool(self, job: Job) -> Path:
        """The path of the job's file of requests."""
        return self._folder / f"{job.name}.jsonl"


def _number(key: str) -> int:
    """The first 64 bits of a key in hex digits."""
    return int(key[:16], 16)


def _numbers(keys: Iterable[str]) -> array[int]:
    """The first 64 bits of each key, sorted. An array takes 8 bytes a request, however many requests are open."""
    return array("Q", sorted(map(_number, keys)))


def _status(batch: dict[str, Any]) -> str:
    """The status of a provider's batch in lower case; "none" where it has none."""
    return str(batch.get("status")).lower()
