"""Batch mode: requests without a stored reply go through the provider's Batch API, at half price, before they are due.

Replies are stored under the keys that single calls use, so that a later single call finds its reply stored. A batch has
an output file and an error file. Either may be missing, and a batch that failed, expired or was cancelled may still
have both. Requests without a reply go into one more batch; what that leaves is left to the next run or, with consent,
to single calls at full price.

A job is written to the response store before anything is sent, and its name is in the metadata of the provider's batch.
So a process that was killed at any moment finds its job again instead of paying twice:

    STAGED      in the store; its requests are in FOLDER/NAME.jsonl
    UPLOADED    the provider has the file
    CREATING    the provider may have the batch: it is looked for, with patience, before another is created
    SUBMITTED   the provider has the batch and works on it
    COLLECTING  the batch has ended, but its files came short: nothing is deleted, the next run collects again
    DONE        the replies of the batch are stored, or given up
    GONE        the batch never ran, or cannot be found

Where the answer to a creation is lost, the provider's list is searched for SEARCH_SECONDS; then the same creation is
sent again, with the same idempotency key. A provider that does not know such keys, and lists a batch later than that,
has two: one is kept, the others are cancelled as soon as they are seen, and what they finished is paid and collected.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
import uuid
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from longform.errors import EndpointError, Incomplete, StoreError
from longform.llm.ask.types import Endpoint
from longform.llm.batch.collect import FILES_BYTES, Gathered, Gatherer, counted
from longform.llm.batch.files import (
    AT_ONCE,
    Collector,
    Item,
    Keep,
    Reply,
    again_of,
    answers,
    body_of_line,
    is_answered,
    line_of,
    reread,
)
from longform.llm.batch.progress import Progress, is_perhaps_created, progress_of
from longform.llm.batch.remote import SEARCH_SECONDS, Remote, Say, Sleep, pauses
from longform.llm.price import Budget
from longform.llm.responses.records import Job
from longform.llm.responses.store import ResponseStore
from longform.llm.send.faults import Fault
from longform.llm.send.wire import Wire

__all__ = ["Counts", "Item", "Keep", "Reply", "cancel", "prefetch"]

MAX_REQUESTS, MAX_BYTES = 50_000, 190_000_000
LEFTOVERS = (".jsonl", ".part", ".again", ".output", ".error")
CREATIONS = 3
SHORT_RUNS = 3
TWIN_SECONDS = 900.0
ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
FURTHEST = ("completed", "finalizing", "in_progress", "validating", "expired", "cancelling", "cancelled", "canceled")

_IN_HAND: set[str] = set()  # names of the jobs that a prefetch of this process collects
_STAGING: WeakKeyDictionary[Wire, asyncio.Lock] = WeakKeyDictionary()  # one of an endpoint's prefetches stages a job


@dataclass(slots=True)
class Counts:
    """What a prefetch did: `sent` requests in `jobs` new jobs, and `stored` records.

    `unanswered`: key -> why no batch answered this request of the prefetch, in words; `useless` are the keys of those
    of them whose replies came and cannot be used. `broken` lines of the provider's
    files had no key. `gone` jobs of earlier runs were never submitted and have no file of requests any more.
    `short_nano` is the upper bound of the cost of the next request (billionths of a US dollar, at least 1) where the
    budget had no room for it, else 0.
    """

    jobs: int = 0
    sent: int = 0
    stored: int = 0
    broken: int = 0
    gone: int = 0
    short_nano: int = 0
    unanswered: dict[str, str] = field(default_factory=dict)
    useless: set[str] = field(default_factory=set)

    @property
    def missing(self) -> int:
        """The number of requests that no batch answered."""
        return len(self.unanswered)


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
    online: bool = False,
    api_key: str | None = None,
    say: Say = lambda _: None,
    clock: Callable[[], float] = time.time,
    sleep: Sleep = asyncio.sleep,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
) -> Counts:
    """Have batch jobs answer the items that have no stored reply, store the replies, and return what was done when
    these jobs have ended. Items that another process is asking meanwhile are waited for. Where the budget has no
    room for an item, it and later ones are not sent (`Counts.short_nano`).

    What a job leaves unanswered is put into one more job; with `online`, which says that it may be asked by single
    calls, it is left to these at once.

    Jobs of earlier runs that have not ended are looked at first; those that have ended at the provider are collected.
    `keep` turns an item, the `context` and a reply into (record, ledger line), each None where there is nothing to
    write. `context` is stored with the job as JSON; its `stage` is the stage that pays. Request files are kept in
    `folder` until their job has ended. A file has at most `max_requests` requests and `max_bytes` bytes, or a single
    larger request. `say` gets messages for the user.

    Raises EndpointError where the endpoint refuses, also a batch as a whole, Incomplete where it gives no answer for
    an hour, or none to the creation of a batch, and StoreError where files cannot be written to the folder. Jobs that
    the provider has go on there, and the next run collects them.
    """
    remote = Remote(wire, endpoint, api_key, say, sleep)
    boundaries = dict(context), say, clock, sleep, max_requests, max_bytes
    staging = _STAGING.setdefault(wire, asyncio.Lock())
    work = _Prefetch(remote, store, endpoint, items, keep, budget, folder, online, staging, *boundaries)
    try:
        await work.run()
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be used ({error}): check disk space and rights.") from None
    return work.counts


async def cancel(
    wire: Wire,
    job: Job,
    endpoint: Endpoint,
    *,
    api_key: str | None = None,
    say: Say = lambda _: None,
    sleep: Sleep = asyncio.sleep,
) -> bool:
    """Ask the provider to cancel a job, with all batches of it; the next run collects the replies that were finished
    before. A batch that may have been created is looked for as `prefetch` does.

    False where the provider has no batch of this job: then the caller can mark the job as ended. EndpointError where
    the provider refuses, Incomplete where it gives no answer for an hour.
    """
    remote, progress = Remote(wire, endpoint, api_key, say, sleep), progress_of(job)
    found = await remote.search(job) if is_perhaps_created(job) else []
    found += await remote.batches(job) if job.remote and progress.unsure else []
    known = [job.remote] if job.remote else []
    ids = dict.fromkeys([*known, *progress.twins, *(str(batch["id"]) for batch in found)])
    return any([await remote.cancel(each) for each in ids])


@dataclass(slots=True)
class _Chunk:
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


@dataclass(slots=True)
class _Open:
    """A job that has not ended. `keys`: the first 64 bits of each of its requests' keys, sorted. `progress`: how far it
    is at the provider.

    `ours`: this process collects it, no other one. `wanted`: it has requests of this prefetch, which therefore waits
    for it. `left`: why it is left to the next run; "" while it is looked at. `reserved`: money set aside for it in this
    run's budget; `spent`: what its `calls` replies cost that were stored in this run; both in billionths of a US
    dollar. `waited`: seconds that twins were waited for. `refused`: why one of its requests was refused, in words.
    `flaws`: key -> why the reply to this request is of no use, in words.
    """

    job: Job
    keys: array[int]
    progress: Progress
    reserved: int = 0
    ours: bool = True
    wanted: bool = True
    left: str = ""
    spent: int = 0
    calls: int = 0
    waited: float = 0.0
    refused: Fault | None = None
    flaws: dict[str, str] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The job, in messages."""
        return f"batch {self.job.name[:12]}"

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
        online: bool,
        staging: asyncio.Lock,
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
        self._online, self._staging, self._say, self._clock, self._sleep = online, staging, say, clock, sleep
        self._gatherer = Gatherer(remote, store, folder, say, sleep)
        self._open: dict[str, _Open] = {}
        self._ready: deque[Item] = deque()
        self._second: set[str] = set()
        self._elsewhere: set[str] = set()
        self._patience = SEARCH_SECONDS
        self._in_hand: set[str] = set()
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._crowded = False
        self._pauses = pauses()

    async def run(self) -> None:
        """Load the open jobs of earlier runs and check them. Send new jobs while items and budget last; then check the
        open jobs after growing pauses, and go on sending when one has ended. Ends when no open job that is looked at
        has requests of this prefetch and, where the budget was short, this process has no open job whose end could
        free money. Then leases are released, and what other processes are asking is waited for.

        In any case money reserved for jobs that are still open is given back. If the run is cancelled, the user is
        told that jobs go on at the provider.
        """
        try:
            self._tidy()
            await self._adopt()
            while True:
                while await self._send_next():
                    pass
                looked_at = [each for each in self._open.values() if not each.left]
                if not any(each.wanted or (each.ours and self.counts.short_nano) for each in looked_at):
                    break
                await self._pause(looked_at)
                await self._look()
            await self._note_left()
            await self._release_leases()
            await self._wait_for_others()
        except asyncio.CancelledError:
            if any(each.job.remote for each in self._open.values()):
                self._say(
                    f"Batch jobs of {self._endpoint.name} go on at the provider: the same command collects them, "
                    "`longform batches --cancel all` with its configuration stops them."
                )
            raise
        finally:
            for each in self._open.values():
                self._settle(each)
            self._open.clear()
            _IN_HAND.difference_update(self._in_hand)

    async def _pause(self, looked_at: list[_Open]) -> None:
        """Sleep before the next look at the open jobs."""
        pause = next(self._pauses)
        await self._sleep(pause)
        for each in looked_at:
            each.waited += pause if each.job.remote in each.progress.collected else 0.0

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
            if path.suffix in LEFTOVERS and not path.name.startswith(ours) and path.name not in needed:
                path.unlink(missing_ok=True)

    async def _adopt(self) -> None:
        """Load this endpoint's jobs of earlier runs from the store, those that have not ended, and check each one
        (`_look`). Those that may have been created are looked for together: SEARCH_SECONDS in all.
        """
        await self._load()
        await self._look()
        self._patience = SEARCH_SECONDS

    async def _load(self) -> None:
        """Load the jobs of this endpoint that are in the store, have not ended, and are not loaded yet."""
        for job in await asyncio.to_thread(self._store.jobs, self._endpoint.name):
            if job.name in self._open:
                continue
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            self._open[job.name] = _Open(job, _numbers(keys), progress_of(job), ours=False, wanted=False)

    async def _take_over(self, each: _Open) -> None:
        """Make this process the one that collects the job, if it is not yet, by a lease on the job's name. Nothing
        changes where another process has that lease.

        Then the job is read from the store again. If it has ended meanwhile, it is removed from the open jobs. Else
        its money is reserved, if the budget has room for it, and its keys are leased if the store is shared.
        """
        name = each.job.name
        if each.ours or name in _IN_HAND:
            return
        self._take(name)
        if not await self._store.lease([name]):
            _IN_HAND.discard(name)
        else:
            still = await asyncio.to_thread(self._store.jobs, self._endpoint.name)
            found = next((job for job in still if job.name == name), None)
            each.job, each.ours = found or each.job, True
            each.progress = progress_of(each.job)
            if found is None:
                self._elsewhere.update(await asyncio.to_thread(self._store.job_keys, name) if each.wanted else [])
                await self._forget(each)
                return
            each.reserved = self._budget.reserve(each.job.reserved_nano) or 0
            if not self._store.exclusive:
                await self._store.lease(await asyncio.to_thread(self._store.job_keys, each.job.name))

    def _take(self, name: str) -> None:
        """Note that this prefetch collects the job, so that no other one of this process does."""
        _IN_HAND.add(name)
        self._in_hand.add(name)

    async def _resume(self, each: _Open) -> None:
        """Resume a job whose batch is not known. If it may have been created, it is looked for. If the provider does
        not have it, the job is submitted, if its file of requests is still in the folder or uploaded; else it ends as
        GONE.
        """
        found: list[dict[str, Any]] = []
        if is_perhaps_created(each.job):
            found = await self._search(each, self._patience)
            self._patience = self._patience if found else 0.0
        if found:
            await self._use(each, found)
        elif self._spool(each.job).exists() or await self._is_uploaded(each.job):
            await self._submit(each)
        else:
            self.counts.gone += 1
            self._say(f"{each.named}: it was never submitted and its file is gone; its requests go into a new one")
            await self._end(each, "GONE")

    async def _search(self, each: _Open, seconds: float = SEARCH_SECONDS) -> list[dict[str, Any]]:
        """The batches of a job that may have been created, looked for as `Remote.search` does; from now on it is looked
        for twins.
        """
        if not each.progress.unsure:
            each.progress.unsure = True
            await self._save(each)
        return await self._remote.search(each.job, seconds)

    async def _use(self, each: _Open, found: list[dict[str, Any]]) -> None:
        """Write down which of the provider's batches of a job is kept, and which are twins of it; a kept batch whose
        replies are stored stays that. Those that are no twins yet are cancelled at the next look (`_look_at`).
        """
        there = {str(batch["id"]): batch for batch in found}
        if each.job.remote and each.job.remote not in there:
            there[each.job.remote] = await self._remote.batch(each.job, each.job.remote)
        kept = each.job.remote if each.progress.collected else None
        kept = kept or max(there, key=lambda name: (_rank(there[name]), name == each.job.remote))
        known = {kept, *each.progress.twins}
        new = [name for name in there if name not in known]
        each.progress.twins = [name for name in [*each.progress.twins, *new] if name != kept]
        file = there[kept].get("input_file_id") if kept in there else None
        await self._save(each, state="SUBMITTED", remote=kept, input_file=file or each.job.input_file)
        if new:
            others = ", ".join(each.progress.twins)
            self._say(f"{each.named}: the provider created it more than once; {kept} is kept, cancelled: {others}")

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
            async with self._staging:  # what one prefetch of this process has read, no other one reads
                await self._load()
                await self._fill(chunk)
                each = await self._staged(chunk) if chunk.keys else None
        except BaseException:
            self._drop(chunk)
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
            due = [key for key, item in group.items() if item.again or not is_answered(stored.get(key))]
            missing = [key for key in due if key not in chunk.keys and not self._claim_open_job(key)]
            granted = await self._lease([group[key] for key in missing])
            self._elsewhere.update(key for key in missing if key not in granted)
            self._ready.extend(group[key] for key in missing if key in granted)
        return self._ready.popleft()

    async def _lease(self, items: list[Item]) -> set[str]:
        """The keys of those items that this process may ask now."""
        granted: set[str] = set()
        for again in (False, True):
            if keys := [item.key for item in items if item.again == again]:
                granted |= await (self._store.lease(keys, again=True) if again else self._store.lease(keys))
        return granted

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
            name=_new_name(chunk.keys),
            endpoint=self._endpoint.name,
            state="STAGED",
            requests=len(chunk.keys),
            reserved_nano=chunk.bound_nano,
            created=self._clock(),
            context=json.dumps(
                {"given": self._context, "kinds": list(chunk.kinds), "which": which, "again": chunk.again}
            ),
        )
        self._take(job.name)
        await self._store.lease([job.name])
        await asyncio.to_thread(self._store.stage_job, job, list(chunk.keys))
        chunk.path.replace(self._spool(job))
        each = self._open[job.name] = _Open(job, _numbers(chunk.keys), Progress(), chunk.reserved)
        return each

    async def _submit(self, each: _Open) -> None:
        """Upload the job's file, unless the provider has it, and create the batch. A job whose file is too large for
        the provider is split instead. Incomplete where CREATIONS creations got no sure answer.
        """
        file = await self._uploaded(each)
        if file is None:
            await self._split(each, "its file is larger than the provider takes")
            return
        for _ in range(CREATIONS):
            await self._save(each, state="CREATING")
            try:
                batch = await self._remote.create(each.job.name, file, self._once(each, "batch"))
            except EndpointError:
                await self._save(each, state="CREATING" if each.progress.unsure else "UPLOADED")
                raise
            found = [batch] if batch else await self._search(each)
            if found:
                await self._use(each, found)
                self._say(f"{each.named}: {each.job.requests:,} requests sent to {self._endpoint.name}")
                return
        raise Incomplete(
            f'The endpoint "{self._endpoint.name}" gave no readable answer to the creation of {each.named} '
            f"{CREATIONS} times, and does not list it: run the same command again, which looks for it first."
        )

    async def _uploaded(self, each: _Open) -> str | None:
        """The provider's id of the job's file of requests, which is uploaded unless the provider has it; None where it
        is larger than the provider takes.
        """
        file = each.job.input_file
        if file is None or not await self._is_uploaded(each.job):
            each.progress.uploads += 1
            await self._save(each)
            file = await self._remote.upload(self._spool(each.job), self._once(each, "file"))
            if file is not None:
                await self._save(each, state="UPLOADED", input_file=file)
        return file

    def _once(self, each: _Open, what: str) -> str:
        """The idempotency key of a step of the job: the same until its file is uploaded anew."""
        return f"{each.job.name}-{what}-{each.progress.uploads}"

    async def _is_uploaded(self, job: Job) -> bool:
        """Whether the provider has the job's file of requests."""
        return job.input_file is not None and await self._remote.has_file(job.input_file)

    # collecting

    async def _look(self) -> None:
        """Check every open job once: take it over; if its batch is not known, resume it; look at its batch, and collect
        it if it has ended. Jobs that other processes collect, and those left to the next run, are left alone.
        """
        for each in [each for each in self._open.values() if not each.left]:
            await self._take_over(each)
            if each.ours and each.job.remote is None and each.job.name in self._open:
                await self._resume(each)
            if each.ours and each.job.remote and each.job.name in self._open:
                await self._look_at(each)

    async def _look_at(self, each: _Open) -> None:
        """Look at the batches of a job, of which there may be several where it is unsure: cancel twins, and collect
        those that have ended. The job ends when all are collected, or, where it has every answer, TWIN_SECONDS later.
        """
        found = await self._remote.batches(each.job) if each.progress.unsure else []
        if {str(batch["id"]) for batch in found} - {each.job.remote, *each.progress.twins}:
            await self._use(each, found)
        batches = [str(each.job.remote), *each.progress.twins]
        for remote in [remote for remote in batches if remote not in each.progress.collected]:
            batch = await self._remote.batch(each.job, remote)
            if _status(batch) in ENDED:
                await self._collect(each, remote, batch)
                self._pauses = pauses()
            elif remote != each.job.remote and _status(batch) != "cancelling":
                await self._remote.cancel(remote)
            if each.left:
                return
        if each.job.remote not in each.progress.collected:
            return
        missing = await self._missing(each.job)
        late = [remote for remote in batches if remote not in each.progress.collected]
        if late and (missing or each.waited < TWIN_SECONDS):
            return
        if late:
            self._say(f"{each.named}: has every answer; {', '.join(late)} has not ended yet and is left")
        await self._finish(each, missing)

    async def _collect(self, each: _Open, remote: str, batch: dict[str, Any]) -> None:
        """Store the replies of an ended batch of a job, whatever its status, and write down that they are. Where its
        files stay short, the job is left to the next run, up to SHORT_RUNS times; with consent to single calls it is
        not.
        """
        twin = remote != each.job.remote
        collector = await self._collector(each, remote, twin=twin, works=counted(batch)[0] > 0)
        gathered = await self._gatherer.gather(each.job, batch, collector)
        self.counts.stored += gathered.stored
        self.counts.broken += gathered.broken
        each.spent, each.calls = each.spent + gathered.spent, each.calls + gathered.calls
        each.flaws |= collector.flaws
        if collector.refused:
            reply, sent = collector.refused
            each.refused = self._remote.fault(reply.status, reply.body, sent)
        each.progress.booked |= {remote: sorted(collector.booked)} if collector.booked else {}
        if gathered.short and not await self._give_up(each, gathered):
            return
        each.progress.collected.append(remote)
        each.progress.files += [] if gathered.short and not self._online else gathered.files
        await self._save(each)
        self._say(f"{each.named} {_status(batch)}: {gathered.stored:,} answers stored")

    async def _give_up(self, each: _Open, gathered: Gathered) -> bool:
        """Whether the answers that a batch's files lack are given up: with consent to single calls, or in the run
        number SHORT_RUNS. Else the job is left to the next run.
        """
        each.progress.short_runs += 1
        given_up = self._online or each.progress.short_runs >= SHORT_RUNS
        then = "given up" if given_up else "nothing is deleted at the provider, the next run collects again"
        self._say(f"{each.named}: {gathered.short}; {then}")
        await self._save(each, state="COLLECTING")
        each.left = "" if given_up else f"the files of its batch are short: {gathered.short}"
        return given_up

    async def _finish(self, each: _Open, missing: list[str]) -> None:
        """End a job whose batches are collected, and delete its files at the provider. The requests `missing` an answer
        (keys) are put into another job, or noted as unanswered. A batch that failed as a whole is handled by
        `_failed`.
        """
        job = each.job
        status = "completed"
        if missing:
            batch = await self._remote.batch(job, str(job.remote))
            status = _status(batch)
            if status == "failed" and len(missing) == job.requests:
                await self._failed(each, batch)
                return
            self._say(f"{each.named} {status}: {len(missing):,} of {job.requests:,} came without an answer")
        refused_whole = bool(each.refused and each.refused.then == "stop" and len(missing) == job.requests)
        why = f"its batch {'ended as ' + status if status != 'completed' else 'completed without it'}"
        why = f"{why} ({each.refused.message})" if each.refused else why
        if self._online or not refused_whole:
            await self._put_back(each, missing, why)
        await self._end(each, "DONE")
        if each.refused and refused_whole:
            self._refuse(each, each.refused.message)

    async def _failed(self, each: _Open, batch: dict[str, Any]) -> None:
        """End a job whose batch failed as a whole, so that none of its requests was asked. It is split if the provider
        has too many tokens queued; if the reason may pass, its requests go into another job. Else EndpointError, where
        this prefetch wants it and single calls are not allowed.
        """
        if "token_limit_exceeded" in json.dumps(batch.get("errors")):
            await self._split(each, "the provider has too many tokens queued")
            return
        spool = self._spool(each.job)
        problem = self._remote.problem(batch, lambda line: body_of_line(spool, line))
        message = problem.message if problem else "no reason given"
        passing = problem is not None and problem.then == "again"
        if passing or self._online:
            self._say(f"{each.named} failed: {message}")
            await self._put_back(each, await self._missing(each.job), f"its batch failed ({message})")
        await self._end(each, "GONE")
        if not passing:
            self._refuse(each, message)

    def _refuse(self, each: _Open, message: str) -> None:
        """Raise EndpointError where this prefetch wants the job that the endpoint refused, and single calls are not
        allowed; else say so.
        """
        refused = f'The endpoint "{self._endpoint.name}" refused {each.named} ({message})'
        if each.wanted and not self._online:
            raise EndpointError(
                f'{refused}: correct the model or its settings and run the command again, or set unbatched = "online", '
                "which asks singly, at full price. Nothing of it was charged."
            )
        self._say(f"{refused}.")

    async def _put_back(self, each: _Open, missing: list[str], why: str) -> None:
        """Put requests (keys) of a job that this prefetch wants back, to be sent in one more job. Those that were put
        back before, all where single calls are allowed, and those whose file is gone are noted as unanswered,
        with `why`.
        """
        if not missing or not each.wanted:
            return
        again = set() if self._online or not self._spool(each.job).exists() else set(missing) - self._second
        if again:
            await self._reread(each, again)
            self._second |= again
        for key in (key for key in missing if key not in again):
            self.counts.unanswered[key] = each.flaws.get(key, why)
            self.counts.useless |= {key} & each.flaws.keys()

    async def _reread(self, each: _Open, wanted: set[str]) -> None:
        """Make these requests (keys) of a job the next items, read from its file."""
        spool = self._spool(each.job)
        moved = spool.replace(spool.with_name(f"{os.getpid()}-{each.job.name}.again"))
        keys = await asyncio.to_thread(self._store.job_keys, each.job.name)
        self._items = chain(reread(each.job, moved, keys, wanted), self._items)

    async def _missing(self, job: Job) -> list[str]:
        """The keys of a job's requests that have no stored answer, in their order."""

        def missing() -> list[str]:
            keys, again = enumerate(self._store.job_keys(job.name)), again_of(json.loads(job.context))
            found: list[str] = []
            while chunk := list(islice(keys, AT_ONCE)):
                stored = self._store.get([key for _, key in chunk])
                found += [key for place, key in chunk if not answers(stored.get(key), job, again=place in again)]
            return found

        return await asyncio.to_thread(missing)

    async def _collector(self, each: _Open, remote: str, *, twin: bool, works: bool) -> Collector:
        """A Collector with the job's requests as they were sent: from the file in the folder, else downloaded from the
        provider into that file; without the requests' bodies where neither has the file.
        """
        spool = self._spool(each.job)
        if not spool.exists() and each.job.input_file:
            part = spool.with_name(f"{os.getpid()}-{each.job.name}.part")
            if await self._remote.content(each.job.input_file, part, FILES_BYTES):
                part.replace(spool)
        keys = await asyncio.to_thread(self._store.job_keys, each.job.name)
        booked = set(each.progress.booked.get(remote, []))
        return Collector(each.job, spool, keys, self._keep, booked=booked, twin=twin, works=works)

    async def _split(self, each: _Open, why: str) -> None:
        """End the job as GONE and put its requests back, to be sent in jobs of half the size, one job at a time. `why`
        is shown to the user.

        The requests of a job of one request, of one that is not wanted, or of one whose file is gone are not put back
        but noted as unanswered.
        """
        job = each.job
        self._max_requests, self._crowded = max(1, min(self._max_requests, job.requests) // 2), True
        again = each.wanted and job.requests > 1 and self._spool(job).exists()
        keys = await asyncio.to_thread(self._store.job_keys, job.name)
        if again:
            await self._reread(each, set(keys))
        elif each.wanted:
            self.counts.unanswered |= dict.fromkeys(keys, why)
        self._say(f"{each.named}: {why}; {'smaller ones follow' if again else 'it is left'}")
        await self._end(each, "GONE")

    async def _end(self, each: _Open, state: str) -> None:
        """Delete the job's files at the provider, record its final `state`, settle its money, delete its file, release
        the leases of its keys and its name, and remove it from the open jobs.
        """
        upload = [each.job.input_file] if each.job.input_file else []
        await self._remote.delete(dict.fromkeys([*upload, *each.progress.files]))
        await self._update(each, state=state)
        self._settle(each)
        self._spool(each.job).unlink(missing_ok=True)
        if not self._store.exclusive:
            await self._store.release(await asyncio.to_thread(self._store.job_keys, each.job.name))
        await self._forget(each)

    def _settle(self, each: _Open) -> None:
        """Replace the money that is reserved for the job by what its replies cost in this run."""
        reserved, each.reserved = each.reserved, 0
        spent, calls, each.spent, each.calls = each.spent, each.calls, 0, 0
        self._budget.settle(reserved, spent, calls=calls, stage=self._context["stage"])

    async def _forget(self, each: _Open) -> None:
        """Remove the job from the open jobs, and release the lease on its name."""
        del self._open[each.job.name]
        _IN_HAND.discard(each.job.name)
        await self._store.release([each.job.name])

    async def _note_left(self) -> None:
        """Note the requests without an answer of the jobs that are left to the next run as unanswered."""
        for each in [each for each in self._open.values() if each.left and each.wanted]:
            self.counts.unanswered |= dict.fromkeys(await self._missing(each.job), each.left)

    async def _release_leases(self) -> None:
        """Release this process's leases for other processes: of the keys of items that were read but not sent, and of
        the names and keys of those open jobs that this process collects.
        """
        await self._store.release([item.key for item in self._ready])
        for each in [each for each in self._open.values() if each.ours]:
            keys = [] if self._store.exclusive else await asyncio.to_thread(self._store.job_keys, each.job.name)
            await self._store.release([each.job.name, *keys])

    async def _wait_for_others(self) -> None:
        """Unless single calls are allowed: wait until the requests that other processes were asking are answered, or
        are asked by nobody any more; these are noted as unanswered.
        """
        waits = pauses()
        while self._elsewhere and not self._online:
            keys = sorted(self._elsewhere)
            stored = await asyncio.to_thread(self._store.get, keys)
            waiting = [key for key in keys if not is_answered(stored.get(key))]
            free = await self._store.lease(waiting) if waiting else set()
            await self._store.release(sorted(free))
            self.counts.unanswered |= dict.fromkeys(free, "another process asked it and got no answer")
            self._elsewhere = set(waiting) - free
            if self._elsewhere:
                await self._sleep(next(waits))

    async def _save(self, each: _Open, **fields: Any) -> None:
        """Write the job's progress to the store, with these of its fields."""
        await self._update(each, context=each.progress.into(each.job), **fields)

    async def _update(self, each: _Open, **fields: Any) -> None:
        """Write these fields of the job to the store, and to `each.job`."""
        await asyncio.to_thread(self._store.update_job, each.job.name, **fields)
        each.job = replace(each.job, **fields)

    def _spool(self, job: Job) -> Path:
        """The path of the job's file of requests."""
        return self._folder / f"{job.name}.jsonl"


def _new_name(keys: Iterable[str]) -> str:
    """A name for a new job of these requests (keys), unlike that of any job that had them before: 64 hex digits."""
    return hashlib.sha256("\n".join([uuid.uuid4().hex, *keys]).encode()).hexdigest()


def _rank(batch: dict[str, Any]) -> int:
    """A sort key of a provider's batch, greater the further it is; the least for one that failed."""
    status = _status(batch)
    return -FURTHEST.index(status) if status in FURTHEST else -len(FURTHEST)


def _number(key: str) -> int:
    """The first 64 bits of a key in hex digits."""
    return int(key[:16], 16)


def _numbers(keys: Iterable[str]) -> array[int]:
    """The first 64 bits of each key, sorted. An array takes 8 bytes a request, however many requests are open."""
    return array("Q", sorted(map(_number, keys)))


def _status(batch: dict[str, Any]) -> str:
    """The status of a provider's batch in lower case; "none" where it has none."""
    return str(batch.get("status")).lower()
