"""The jobs of one prefetch that have not ended: who collects them, what is known of them, how they end."""

from __future__ import annotations

import asyncio
import json
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from longform.llm.ask.types import Endpoint
from longform.llm.batch.files import AT_ONCE, Item, again_of, answers, is_answered
from longform.llm.batch.progress import Progress, progress_of
from longform.llm.batch.remote import Remote, Say, Sleep, pauses
from longform.llm.batch.replies import Keep
from longform.llm.price import Budget
from longform.llm.responses.records import Job
from longform.llm.responses.store import ResponseStore
from longform.llm.send.faults import Fault

LEFTOVERS = (".jsonl", ".part", ".again", ".output", ".error")

_IN_HAND: set[str] = set()  # names of the jobs that a prefetch of this process collects


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


@dataclass(slots=True)
class OpenJob:
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


@dataclass(slots=True)
class Desk:
    """What one prefetch works with, and its jobs that have not ended (`open`: name -> job).

    `elsewhere`: keys of requests that other processes ask. `in_hand`: names of jobs that this prefetch collects.
    `pauses`: seconds until the next looks at the open jobs. The other fields are as of `prefetch`.
    """

    remote: Remote
    store: ResponseStore
    endpoint: Endpoint
    keep: Keep
    budget: Budget
    folder: Path
    online: bool
    context: dict[str, Any]
    say: Say
    clock: Callable[[], float]
    sleep: Sleep
    counts: Counts = field(default_factory=Counts)
    open: dict[str, OpenJob] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    in_hand: set[str] = field(default_factory=set)
    pauses: Iterator[float] = field(default_factory=pauses)

    def tidy(self) -> None:
        """Create the folder, and delete the files in it that a killed process left and that no job in the store needs
        which has not ended. Deletes only where no other process can use the store (`exclusive`).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.store.exclusive:
            return
        needed = {f"{job.name}.jsonl" for job in self.store.jobs()}
        ours = f"{os.getpid()}-"
        for path in self.folder.iterdir():
            if path.suffix in LEFTOVERS and not path.name.startswith(ours) and path.name not in needed:
                path.unlink(missing_ok=True)

    async def load(self) -> None:
        """Load the jobs of this endpoint that are in the store, have not ended, and are not loaded yet."""
        for job in await asyncio.to_thread(self.store.jobs, self.endpoint.name):
            if job.name in self.open:
                continue
            keys = await asyncio.to_thread(self.store.job_keys, job.name)
            self.open[job.name] = OpenJob(job, numbers_of(keys), progress_of(job), ours=False, wanted=False)

    async def take_over(self, each: OpenJob) -> None:
        """Make this process the one that collects the job, if it is not yet, by a lease on the job's name. Nothing
        changes where another process has that lease.

        Then the job is read from the store again. If it has ended meanwhile, it is removed from the open jobs. Else
        its money is reserved, if the budget has room for it, and its keys are leased if the store is shared.
        """
        name = each.job.name
        if each.ours or name in _IN_HAND:
            return
        self.take(name)
        if not await self.store.lease([name]):
            _IN_HAND.discard(name)
        else:
            still = await asyncio.to_thread(self.store.jobs, self.endpoint.name)
            found = next((job for job in still if job.name == name), None)
            each.job, each.ours = found or each.job, True
            each.progress = progress_of(each.job)
            if found is None:
                self.elsewhere.update(await asyncio.to_thread(self.store.job_keys, name) if each.wanted else [])
                await self.forget(each)
                return
            each.reserved = self.budget.reserve(each.job.reserved_nano) or 0
            if not self.store.exclusive:
                await self.store.lease(await asyncio.to_thread(self.store.job_keys, each.job.name))

    def take(self, name: str) -> None:
        """Note that this prefetch collects the job, so that no other one of this process does."""
        _IN_HAND.add(name)
        self.in_hand.add(name)

    def claim_open_job(self, key: str) -> bool:
        """Whether an open job has the request with this key; if so, that job is marked as wanted."""
        number = _number(key)
        for each in self.open.values():
            if each.holds(number):
                each.wanted = True
                return True
        return False

    def spool(self, job: Job) -> Path:
        """The path of the job's file of requests."""
        return self.folder / f"{job.name}.jsonl"

    async def is_uploaded(self, job: Job) -> bool:
        """Whether the provider has the job's file of requests."""
        return job.input_file is not None and await self.remote.has_file(job.input_file)

    async def save(self, each: OpenJob, **fields: Any) -> None:
        """Write the job's progress to the store, with these of its fields."""
        await self.update(each, context=each.progress.into(each.job), **fields)

    async def update(self, each: OpenJob, **fields: Any) -> None:
        """Write these fields of the job to the store, and to `each.job`."""
        await asyncio.to_thread(self.store.update_job, each.job.name, **fields)
        each.job = replace(each.job, **fields)

    async def missing(self, job: Job) -> list[str]:
        """The keys of a job's requests that have no stored answer, in their order."""

        def missing() -> list[str]:
            keys, again = enumerate(self.store.job_keys(job.name)), again_of(json.loads(job.context))
            found: list[str] = []
            while chunk := list(islice(keys, AT_ONCE)):
                stored = self.store.get([key for _, key in chunk])
                found += [key for place, key in chunk if not answers(stored.get(key), job, again=place in again)]
            return found

        return await asyncio.to_thread(missing)

    async def note_left(self) -> None:
        """Note the requests without an answer of the jobs that are left to the next run as unanswered."""
        for each in [each for each in self.open.values() if each.left and each.wanted]:
            self.counts.unanswered |= dict.fromkeys(await self.missing(each.job), each.left)

    async def end(self, each: OpenJob, state: str) -> None:
        """Delete the job's files at the provider, record its final `state`, settle its money, delete its file, release
        the leases of its keys and its name, and remove it from the open jobs.
        """
        upload = [each.job.input_file] if each.job.input_file else []
        await self.remote.delete(dict.fromkeys([*upload, *each.progress.files]))
        await self.update(each, state=state)
        self.settle(each)
        self.spool(each.job).unlink(missing_ok=True)
        if not self.store.exclusive:
            await self.store.release(await asyncio.to_thread(self.store.job_keys, each.job.name))
        await self.forget(each)

    def settle(self, each: OpenJob) -> None:
        """Replace the money that is reserved for the job by what its replies cost in this run."""
        reserved, each.reserved = each.reserved, 0
        spent, calls, each.spent, each.calls = each.spent, each.calls, 0, 0
        self.budget.settle(reserved, spent, calls=calls, stage=self.context["stage"])

    async def forget(self, each: OpenJob) -> None:
        """Remove the job from the open jobs, and release the lease on its name."""
        del self.open[each.job.name]
        _IN_HAND.discard(each.job.name)
        await self.store.release([each.job.name])

    async def release_leases(self, unsent: Iterable[Item]) -> None:
        """Release this process's leases for other processes: of the keys of items that were read but not sent, and of
        the names and keys of those open jobs that this process collects.
        """
        await self.store.release([item.key for item in unsent])
        for each in [each for each in self.open.values() if each.ours]:
            keys = [] if self.store.exclusive else await asyncio.to_thread(self.store.job_keys, each.job.name)
            await self.store.release([each.job.name, *keys])

    async def wait_for_others(self) -> None:
        """Unless single calls are allowed: wait until the requests that other processes were asking are answered, or
        are asked by nobody any more; these are noted as unanswered.
        """
        waits = pauses()
        while self.elsewhere and not self.online:
            keys = sorted(self.elsewhere)
            stored = await asyncio.to_thread(self.store.get, keys)
            waiting = [key for key in keys if not is_answered(stored.get(key))]
            free = await self.store.lease(waiting) if waiting else set()
            await self.store.release(sorted(free))
            self.counts.unanswered |= dict.fromkeys(free, "another process asked it and got no answer")
            self.elsewhere = set(waiting) - free
            if self.elsewhere:
                await self.sleep(next(waits))

    def let_go(self) -> None:
        """Settle the money of all open jobs, and collect none of them any more."""
        for each in self.open.values():
            self.settle(each)
        self.open.clear()
        _IN_HAND.difference_update(self.in_hand)


def _number(key: str) -> int:
    """The first 64 bits of a key in hex digits."""
    return int(key[:16], 16)


def numbers_of(keys: Iterable[str]) -> array[int]:
    """The first 64 bits of each key, sorted. An array takes 8 bytes a request, however many requests are open."""
    return array("Q", sorted(map(_number, keys)))
