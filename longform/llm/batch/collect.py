"""The replies of an ended batch, from the provider's files into the response store.

A batch's `request_counts` say how many answers it has. Files that have fewer are short: cut off on the way, not written
to the end yet, or a proxy's page. They are fetched again after growing pauses.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longform.llm.batch.remote import Remote, Say, Sleep, pauses_up_to
from longform.llm.batch.replies import LINE_BYTES, Collector, Tally
from longform.llm.responses.records import Job
from longform.llm.responses.store import ResponseStore

SHORT_SECONDS = 300.0
FILES_BYTES, SPARE_BYTES = 8 << 30, 2 << 30  # SPARE_BYTES: for lines that are too large
KINDS = {"output": "output_file_id", "error": "error_file_id"}


@dataclass(slots=True)
class Gathered:
    """What was made of a batch's files: `stored` records, and `calls` ledger lines that cost `spent` billionths of a US
    dollar. `broken` lines had no key. `files` are the ids of its files. `short` says what the files lack; "" if they
    are whole.
    """

    stored: int = 0
    calls: int = 0
    spent: int = 0
    broken: int = 0
    files: list[str] = field(default_factory=list)
    short: str = ""


class Gatherer:
    """Fetches the files of batches into `folder`, one after the other, and stores what is in them."""

    def __init__(self, remote: Remote, store: ResponseStore, folder: Path, say: Say, sleep: Sleep) -> None:
        self._remote, self._store, self._folder, self._say, self._sleep = remote, store, folder, say, sleep

    async def gather(self, job: Job, batch: dict[str, Any], collector: Collector) -> Gathered:
        """Store the replies in the files of an ended batch of the job. Files that are short are fetched again, up to
        SHORT_SECONDS later.
        """
        gathered, tallies = Gathered(), {kind: Tally() for kind in KINDS}
        waits = pauses_up_to(SHORT_SECONDS)
        while True:
            gathered.files = list(dict.fromkeys([*gathered.files, *files_of(batch).values()]))
            gathered.short = await self._fetch(job, batch, collector, tallies, gathered)
            pause = next(waits, None) if gathered.short else None
            if pause is None:
                gathered.broken = sum(tally.broken for tally in tallies.values())
                return gathered
            self._say(f"batch {job.name[:12]}: {gathered.short}; fetching them again in {pause:g} s")
            await self._sleep(pause)
            batch = await self._remote.batch(job, str(batch["id"]))

    async def _fetch(
        self, job: Job, batch: dict[str, Any], collector: Collector, tallies: Mapping[str, Tally], gathered: Gathered
    ) -> str:
        """Fetch the files once, store their replies and count them in `tallies` and `gathered`; what they lack, in
        words.
        """
        files, shorter = files_of(batch), list[str]()
        most_bytes = min(FILES_BYTES, SPARE_BYTES + job.requests * LINE_BYTES)
        for kind, file in files.items():
            path = self._folder / f"{os.getpid()}-{job.name}.{kind}"
            there = await self._remote.content(file, path, most_bytes)
            try:
                if there:
                    await self._store_file(path, collector, tallies[kind], gathered)
                if len(_places(tallies)) < job.requests and await self._is_short(file, path, tallies[kind], there):
                    shorter.append(kind)
            finally:
                path.unlink(missing_ok=True)
        if len(_places(tallies)) >= job.requests:
            return ""
        return missing_lines(batch, tallies) or (f"its {' and '.join(shorter)} file came short" if shorter else "")

    async def _store_file(self, path: Path, collector: Collector, tally: Tally, gathered: Gathered) -> None:
        """Store the replies in a file, and count them."""
        for replies in collector.groups(path, tally):
            records, paid = collector.to_store(replies, await asyncio.to_thread(self._store.get, list(replies)))
            if records or paid:
                await self._store.put(records, paid)
            gathered.stored, gathered.calls = gathered.stored + len(records), gathered.calls + len(paid)
            gathered.spent += sum(line.cost_nano or 0 for line in paid)

    async def _is_short(self, file: str, path: Path, tally: Tally, there: bool) -> bool:
        """Whether a file that was fetched to `path` is gone, smaller than the provider says, or a page in its place."""
        if not there:
            return True
        size, came = await self._remote.size(file), path.stat().st_size
        tally.whole = came == size
        if size is None:
            return tally.is_page or tally.torn
        return came < size or (tally.is_page and not tally.whole)


def files_of(batch: dict[str, Any]) -> dict[str, str]:
    """Kind (of KINDS) -> id of each file that the batch has."""
    return {kind: str(file) for kind, name in KINDS.items() if (file := batch.get(name))}


def counted(batch: dict[str, Any]) -> tuple[int, int]:
    """(completed, failed) of the batch's `request_counts`; 0 where it does not say."""
    counts = batch.get("request_counts")
    numbers = [counts.get(name) if isinstance(counts, dict) else 0 for name in ("completed", "failed")]
    completed, failed = (number if isinstance(number, int) else 0 for number in numbers)
    return completed, failed


def missing_lines(batch: dict[str, Any], tallies: Mapping[str, Tally]) -> str:
    """How many of the lines that the batch counts its files lack, in words; "" if none. Its output file must have all
    that were completed. A refused request must have a line where the batch completed, or has an error file.
    """
    completed, failed = counted(batch)
    answers, lines = tallies["output"].lines, sum(tally.lines for tally in tallies.values())
    if answers < completed:
        return f"{completed - answers:,} of {completed:,} answers that it counts are not in its output file"
    ended_whole = str(batch.get("status")).lower() == "completed" or bool(batch.get("error_file_id"))
    if ended_whole and lines < completed + failed:
        return f"{completed + failed - lines:,} of {completed + failed:,} requests that it counts are not in its files"
    return ""


def _places(tallies: Mapping[str, Tally]) -> set[int]:
    """The positions of all requests that have a line in one of the files."""
    return set().union(*(tally.places for tally in tallies.values()))
