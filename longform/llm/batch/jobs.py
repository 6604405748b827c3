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
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from longform.errors import StoreError
from longform.llm.ask.types import Endpoint
from longform.llm.batch.end import Ending
from longform.llm.batch.files import Item
from longform.llm.batch.find import Finder
from longform.llm.batch.items import Items
from longform.llm.batch.open_jobs import Counts, Desk, OpenJob
from longform.llm.batch.progress import is_perhaps_created, progress_of
from longform.llm.batch.remote import SEARCH_SECONDS, Remote, Say, Sleep, pauses, status_of
from longform.llm.batch.replies import Keep, Reply
from longform.llm.batch.send import Sender
from longform.llm.price import Budget
from longform.llm.responses.records import Job
from longform.llm.responses.store import ResponseStore
from longform.llm.send.wire import Wire

__all__ = ["Counts", "Item", "Keep", "Reply", "cancel", "prefetch"]

MAX_REQUESTS, MAX_BYTES = 50_000, 190_000_000
TWIN_SECONDS = 900.0
ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})

_STAGING: WeakKeyDictionary[Wire, asyncio.Lock] = WeakKeyDictionary()  # one of an endpoint's prefetches stages a job


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
    desk = Desk(remote, store, endpoint, keep, budget, folder, online, dict(context), say, clock, sleep)
    staging = _STAGING.setdefault(wire, asyncio.Lock())
    work = _Prefetch(desk, Items(desk, items, max_requests, max_bytes), staging)
    try:
        await work.run()
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be used ({error}): check disk space and rights.") from None
    return desk.counts


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


class _Prefetch:
    """One call of the function `prefetch`."""

    def __init__(self, desk: Desk, items: Items, staging: asyncio.Lock) -> None:
        self._desk, self._items, self._finder, self._ending = desk, items, Finder(desk), Ending(desk, items)
        self._sender = Sender(desk, items, self._finder, staging)

    async def run(self) -> None:
        """Load the open jobs of earlier runs and check them. Send new jobs while items and budget last; then check the
        open jobs after growing pauses, and go on sending when one has ended. Ends when no open job that is looked at
        has requests of this prefetch and, where the budget was short, this process has no open job whose end could
        free money. Then leases are released, and what other processes are asking is waited for.

        In any case money reserved for jobs that are still open is given back. If the run is cancelled, the user is
        told that jobs go on at the provider.
        """
        try:
            self._desk.tidy()
            await self._adopt()
            while True:
                while await self._sender.send_next():
                    pass
                looked_at = [each for each in self._desk.open.values() if not each.left]
                if not any(each.wanted or (each.ours and self._desk.counts.short_nano) for each in looked_at):
                    break
                await self._pause(looked_at)
                await self._look()
            await self._desk.note_left()
            await self._desk.release_leases(self._items.ready)
            await self._desk.wait_for_others()
        except asyncio.CancelledError:
            if any(each.job.remote for each in self._desk.open.values()):
                self._desk.say(
                    f"Batch jobs of {self._desk.endpoint.name} go on at the provider: the same command collects them, "
                    "`longform batches --cancel all` with its configuration stops them."
                )
            raise
        finally:
            self._desk.let_go()

    async def _pause(self, looked_at: list[OpenJob]) -> None:
        """Sleep before the next look at the open jobs."""
        pause = next(self._desk.pauses)
        await self._desk.sleep(pause)
        for each in looked_at:
            each.waited += pause if each.job.remote in each.progress.collected else 0.0

    async def _adopt(self) -> None:
        """Load this endpoint's jobs of earlier runs from the store, those that have not ended, and check each one
        (`_look`). Those that may have been created are looked for together: SEARCH_SECONDS in all.
        """
        await self._desk.load()
        await self._look()
        self._finder.patience = SEARCH_SECONDS

    async def _look(self) -> None:
        """Check every open job once: take it over; if its batch is not known, resume it; look at its batch, and collect
        it if it has ended. Jobs that other processes collect, and those left to the next run, are left alone.
        """
        for each in [each for each in self._desk.open.values() if not each.left]:
            await self._desk.take_over(each)
            if each.ours and each.job.remote is None and each.job.name in self._desk.open:
                await self._sender.resume(each)
            if each.ours and each.job.remote and each.job.name in self._desk.open:
                await self._look_at(each)

    async def _look_at(self, each: OpenJob) -> None:
        """Look at the batches of a job, of which there may be several where it is unsure: cancel twins, and collect
        those that have ended. The job ends when all are collected, or, where it has every answer, TWIN_SECONDS later.
        """
        found = await self._desk.remote.batches(each.job) if each.progress.unsure else []
        if {str(batch["id"]) for batch in found} - {each.job.remote, *each.progress.twins}:
            await self._finder.use(each, found)
        batches = [str(each.job.remote), *each.progress.twins]
        for remote in [remote for remote in batches if remote not in each.progress.collected]:
            batch = await self._desk.remote.batch(each.job, remote)
            if status_of(batch) in ENDED:
                await self._ending.collect(each, remote, batch)
                self._desk.pauses = pauses()
            elif remote != each.job.remote and status_of(batch) != "cancelling":
                await self._desk.remote.cancel(remote)
            if each.left:
                return
        if each.job.remote not in each.progress.collected:
            return
        missing = await self._desk.missing(each.job)
        late = [remote for remote in batches if remote not in each.progress.collected]
        if late and (missing or each.waited < TWIN_SECONDS):
            return
        if late:
            self._desk.say(f"{each.named}: has every answer; {', '.join(late)} has not ended yet and is left")
        await self._ending.finish(each, missing)
