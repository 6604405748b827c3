"""The end of a job: its replies are stored, what they lack is put into another one, or said to be missing."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from longform.errors import EndpointError
from longform.llm.batch.collect import FILES_BYTES, Gathered, Gatherer, counted
from longform.llm.batch.files import body_of_line
from longform.llm.batch.items import Items
from longform.llm.batch.open_jobs import Desk, OpenJob
from longform.llm.batch.remote import status_of
from longform.llm.batch.replies import Collector

SHORT_RUNS = 3


class Ending:
    """Collects batches that have ended, and ends their jobs."""

    def __init__(self, desk: Desk, items: Items) -> None:
        self._desk, self._items = desk, items
        self._gatherer = Gatherer(desk.remote, desk.store, desk.folder, desk.say, desk.sleep)

    async def collect(self, each: OpenJob, remote: str, batch: dict[str, Any]) -> None:
        """Store the replies of an ended batch of a job, whatever its status, and write down that they are. Where its
        files stay short, the job is left to the next run, up to SHORT_RUNS times; with consent to single calls it is
        not.
        """
        several = bool(each.progress.twins)
        collector = await self._collector(each, remote, several=several, works=counted(batch)[0] > 0)
        gathered = await self._gatherer.gather(each.job, batch, collector)
        self._desk.counts.stored += gathered.stored
        self._desk.counts.broken += gathered.broken
        each.spent, each.calls = each.spent + gathered.spent, each.calls + gathered.calls
        each.flaws |= collector.flaws
        if collector.refused:
            reply, sent = collector.refused
            each.refused = self._desk.remote.fault(reply.status, reply.body, sent)
        each.progress.booked |= {remote: sorted(collector.booked)} if collector.booked else {}
        if gathered.short and not await self._give_up(each, gathered):
            return
        each.progress.collected.append(remote)
        each.progress.files += [] if gathered.short and not self._desk.online else gathered.files
        await self._desk.save(each)
        self._desk.say(f"{each.named} {status_of(batch)}: {gathered.stored:,} answers stored")

    async def _give_up(self, each: OpenJob, gathered: Gathered) -> bool:
        """Whether the answers that a batch's files lack are given up: with consent to single calls, or in the run
        number SHORT_RUNS. Else the job is left to the next run.
        """
        each.progress.short_runs += 1
        given_up = self._desk.online or each.progress.short_runs >= SHORT_RUNS
        then = "given up" if given_up else "nothing is deleted at the provider, the next run collects again"
        self._desk.say(f"{each.named}: {gathered.short}; {then}")
        await self._desk.save(each, state="COLLECTING")
        each.left = "" if given_up else f"the files of its batch are short: {gathered.short}"
        return given_up

    async def finish(self, each: OpenJob, missing: list[str]) -> None:
        """End a job whose batches are collected, and delete its files at the provider. The requests `missing` an answer
        (keys) are put into another job, or noted as unanswered. A batch that failed as a whole is handled by
        `_failed`.
        """
        job = each.job
        status = "completed"
        if missing:
            batch = await self._desk.remote.batch(job, str(job.remote))
            status = status_of(batch)
            if status == "failed" and len(missing) == job.requests:
                await self._failed(each, batch)
                return
            self._desk.say(f"{each.named} {status}: {len(missing):,} of {job.requests:,} came without an answer")
        refused_whole = bool(each.refused and each.refused.then == "stop" and len(missing) == job.requests)
        why = f"its batch {'ended as ' + status if status != 'completed' else 'completed without it'}"
        why = f"{why} ({each.refused.message})" if each.refused else why
        if self._desk.online or not refused_whole:
            await self._items.put_back(each, missing, why)
        await self._desk.end(each, "DONE")
        if each.refused and refused_whole:
            self._refuse(each, each.refused.message)

    async def _failed(self, each: OpenJob, batch: dict[str, Any]) -> None:
        """End a job whose batch failed as a whole, so that none of its requests was asked. It is split if the provider
        has too many tokens queued; if the reason may pass, its requests go into another job. Else EndpointError, where
        this prefetch wants it and single calls are not allowed.
        """
        if "token_limit_exceeded" in json.dumps(batch.get("errors")):
            await self._items.split(each, "the provider has too many tokens queued")
            return
        spool = self._desk.spool(each.job)
        problem = self._desk.remote.problem(batch, lambda line: body_of_line(spool, line))
        message = problem.message if problem else "no reason given"
        passing = problem is not None and problem.then == "again"
        if passing or self._desk.online:
            self._desk.say(f"{each.named} failed: {message}")
            await self._items.put_back(each, await self._desk.missing(each.job), f"its batch failed ({message})")
        await self._desk.end(each, "GONE")
        if not passing:
            self._refuse(each, message)

    def _refuse(self, each: OpenJob, message: str) -> None:
        """Raise EndpointError where this prefetch wants the job that the endpoint refused, and single calls are not
        allowed; else say so.
        """
        refused = f'The endpoint "{self._desk.endpoint.name}" refused {each.named} ({message})'
        if each.wanted and not self._desk.online:
            raise EndpointError(
                f'{refused}: correct the model or its settings and run the command again, or set unbatched = "online", '
                "which asks singly, at full price. Nothing of it was charged."
            )
        self._desk.say(f"{refused}.")

    async def _collector(self, each: OpenJob, remote: str, *, several: bool, works: bool) -> Collector:
        """A Collector with the job's requests as they were sent: from the file in the folder, else downloaded from the
        provider into that file; without the requests' bodies where neither has the file.
        """
        spool = self._desk.spool(each.job)
        if not spool.exists() and each.job.input_file:
            part = spool.with_name(f"{os.getpid()}-{each.job.name}.part")
            if await self._desk.remote.content(each.job.input_file, part, FILES_BYTES):
                part.replace(spool)
        keys = await asyncio.to_thread(self._desk.store.job_keys, each.job.name)
        booked = set(each.progress.booked.get(remote, []))
        return Collector(each.job, spool, keys, self._desk.keep, booked=booked, several=several, works=works)
