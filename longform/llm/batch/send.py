"""Making a job of requests: it is staged in the store, its file is uploaded, its batch is created."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import Iterable
from typing import Any

from longform.errors import EndpointError, Incomplete
from longform.llm.batch.find import Finder
from longform.llm.batch.items import Chunk, Items
from longform.llm.batch.open_jobs import Desk, OpenJob, numbers_of
from longform.llm.batch.progress import Progress, is_perhaps_created
from longform.llm.batch.remote import pauses
from longform.llm.responses.records import Job

CREATIONS = 3


class Sender:
    """Sends new jobs, and those that a killed process did not get to the provider. One prefetch of an endpoint stages a
    job at a time (`staging`).
    """

    def __init__(self, desk: Desk, items: Items, finder: Finder, staging: asyncio.Lock) -> None:
        self._desk, self._items, self._finder, self._staging = desk, items, finder, staging

    async def send_next(self) -> bool:
        """Stage and submit one new job with as many items as fit into a file and the budget; whether a job was made.

        False where no items are left, where the budget has no room for the next one (then `counts.short_nano` is set),
        or where, after a job was split, one with requests of this prefetch is still open. StoreError where the folder
        cannot be written.
        """
        self._desk.counts.short_nano = 0
        if self._items.crowded and any(each.wanted for each in self._desk.open.values()):
            return False
        chunk = Chunk(
            self._desk.folder / f"{os.getpid()}-{id(self)}.part", self._items.max_requests, self._items.max_bytes
        )
        try:
            async with self._staging:  # what one prefetch of this process has read, no other one reads
                await self._desk.load()
                await self._items.fill(chunk)
                each = await self._staged(chunk) if chunk.keys else None
        except BaseException:
            self._items.drop(chunk)
            raise
        if each is None:
            self._items.drop(chunk)
            self._desk.counts.short_nano = max(1, self._items.ready[0].bound_nano) if self._items.ready else 0
            return False
        self._desk.counts.jobs += 1
        self._desk.counts.sent += each.job.requests
        await self._submit(each)
        self._desk.pauses = pauses()
        return True

    async def _staged(self, chunk: Chunk) -> OpenJob:
        """The chunk as a new open job: its name is leased, it is written to the store as STAGED, and its file is
        renamed to the job's name. Nothing is sent.
        """
        which = (
            list(chunk.keys.values()) if len(chunk.kinds) > 1 else []
        )  # what each request is, in the order of the keys
        job = Job(
            name=_new_name(chunk.keys),
            endpoint=self._desk.endpoint.name,
            state="STAGED",
            requests=len(chunk.keys),
            reserved_nano=chunk.bound_nano,
            created=self._desk.clock(),
            context=json.dumps(
                {"given": self._desk.context, "kinds": list(chunk.kinds), "which": which, "again": chunk.again}
            ),
        )
        self._desk.take(job.name)
        await self._desk.store.lease([job.name])
        await asyncio.to_thread(self._desk.store.stage_job, job, list(chunk.keys))
        chunk.path.replace(self._desk.spool(job))
        each = self._desk.open[job.name] = OpenJob(job, numbers_of(chunk.keys), Progress(), chunk.reserved)
        return each

    async def _submit(self, each: OpenJob) -> None:
        """Upload the job's file, unless the provider has it, and create the batch. A job whose file is too large for
        the provider is split instead. Incomplete where CREATIONS creations got no sure answer.
        """
        file = await self._uploaded(each)
        if file is None:
            await self._items.split(each, "its file is larger than the provider takes")
            return
        for _ in range(CREATIONS):
            await self._desk.save(each, state="CREATING")
            try:
                batch = await self._desk.remote.create(each.job.name, file, self._once(each, "batch"))
            except EndpointError:
                await self._desk.save(each, state="CREATING" if each.progress.unsure else "UPLOADED")
                raise
            found = [batch] if batch else await self._finder.search(each)
            if found:
                await self._finder.use(each, found)
                self._desk.say(f"{each.named}: {each.job.requests:,} requests sent to {self._desk.endpoint.name}")
                return
        raise Incomplete(
            f'The endpoint "{self._desk.endpoint.name}" gave no readable answer to the creation of {each.named} '
            f"{CREATIONS} times, and does not list it: run the same command again, which looks for it first."
        )

    async def _uploaded(self, each: OpenJob) -> str | None:
        """The provider's id of the job's file of requests, which is uploaded unless the provider has it; None where it
        is larger than the provider takes.
        """
        file = each.job.input_file
        if file is None or not await self._desk.is_uploaded(each.job):
            each.progress.uploads += 1
            await self._desk.save(each)
            file = await self._desk.remote.upload(self._desk.spool(each.job), self._once(each, "file"))
            if file is not None:
                await self._desk.save(each, state="UPLOADED", input_file=file)
        return file

    def _once(self, each: OpenJob, what: str) -> str:
        """The idempotency key of a step of the job: the same until its file is uploaded anew."""
        return f"{each.job.name}-{what}-{each.progress.uploads}"

    async def resume(self, each: OpenJob) -> None:
        """Resume a job whose batch is not known. If it may have been created, it is looked for. If the provider does
        not have it, the job is submitted, if its file of requests is still in the folder or uploaded; else it ends as
        GONE.
        """
        found: list[dict[str, Any]] = []
        if is_perhaps_created(each.job):
            found = await self._finder.search(each, self._finder.patience)
            self._finder.patience = self._finder.patience if found else 0.0
        if found:
            await self._finder.use(each, found)
        elif self._desk.spool(each.job).exists() or await self._desk.is_uploaded(each.job):
            await self._submit(each)
        else:
            self._desk.counts.gone += 1
            self._desk.say(f"{each.named}: it was never submitted and its file is gone; its requests go into a new one")
            await self._desk.end(each, "GONE")


def _new_name(keys: Iterable[str]) -> str:
    """A name for a new job of these requests (keys), unlike that of any job that had them before: 64 hex digits."""
    return hashlib.sha256("\n".join([uuid.uuid4().hex, *keys]).encode()).hexdigest()
