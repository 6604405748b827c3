"""Batch mode: requests that are not stored yet go through the provider's Batch API, at half price, before they are due.

    {"custom_id": KEY, "method": "POST", "url": "/v1/chat/completions", "body": {...}}                  what is uploaded
    {"custom_id": KEY, "response": {"status_code": 200, "request_id": ..., "body": {...}}, "error": null}   what comes

What comes back is stored under the keys that a single call would use, so that whoever asks afterwards finds it there.
Lines come in any order, in an output and an error file; either may be missing, and a batch that failed, expired or was
cancelled may still have both. What did not come is left to single calls.

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
import io
import json
import os
import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from longform.errors import EndpointError, Incomplete, StoreError
from longform.llm.budget import Budget
from longform.llm.completion import read_json
from longform.llm.faults import Fault, fault_of
from longform.llm.records import Job, Paid, Record, ResponseStore
from longform.llm.types import Endpoint
from longform.llm.wire import Outcome

URL = "/v1/chat/completions"
MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
AT_ONCE = 500
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0
PATIENCE_SECONDS = 3600.0
LOOKS_FOR_A_FILE = 3
ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})

_HEAD, _MIDDLE = b'{"custom_id":"', f'","method":"POST","url":"{URL}","body":'.encode()
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_BODY = len(_HEAD) + 64 + len(_MIDDLE)

Sleep = Callable[[float], Awaitable[None]]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Item:
    """A request: its key, its body in canonical form, what its record says of it, and the most it can cost."""

    key: str
    sent: str
    task: str = ""
    prompt: str = ""
    bound_nano: int = 0


class Reply(NamedTuple):
    """What came for a request: the HTTP status it would have had, and its body."""

    status: int
    body: bytes
    request_id: str | None


Keep = Callable[[Item, Mapping[str, Any], Reply], tuple[Record | None, Paid | None]]


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


class Caller(Protocol):
    """wire.Wire, as far as it is used here."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None = None,
        files: Any = None,
        params: dict[str, Any] | None = None,
    ) -> Outcome: ...


async def prefetch(
    wire: Caller,
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
) -> Counts:
    """Have every item answered that is not stored, and store what comes; returns when all of their jobs have ended.

    Jobs of an earlier run are taken up first. `keep` makes a record and a line of the ledger of a reply, or None where
    it is worth nothing; it is given the `context` that its job was written down with. `folder` keeps what was
    uploaded until its job has ended. One call at a time an endpoint. Raises EndpointError where the endpoint refuses,
    Incomplete where it cannot be reached for an hour; jobs go on at the provider in either case.
    """
    remote = Remote(wire, endpoint, api_key, say, sleep)
    work = _Prefetch(remote, store, endpoint, items, keep, budget, folder, dict(context), say, clock, sleep)
    try:
        await work.run()
    except asyncio.CancelledError:
        work.say_where_it_is()
        raise
    finally:
        work.free_money()
    return work.counts


async def cancel(
    wire: Caller, job: Job, endpoint: Endpoint, *, api_key: str | None = None, say: Say = lambda _: None
) -> bool:
    """Ask the provider to stop a job; what it finished until then is collected by the next run.

    False where the provider knows no such job, so that it can be given up.
    """
    remote = Remote(wire, endpoint, api_key, say, asyncio.sleep)
    found = job.remote or str((await remote.find({job.name})).get(job.name, {}).get("id", ""))
    return bool(found) and await remote.cancel(found)


class Remote:
    """The provider's files and batches. What fails for a passing reason is asked again; other refusals are raised."""

    def __init__(self, wire: Caller, endpoint: Endpoint, api_key: str | None, say: Say, sleep: Sleep) -> None:
        self._wire, self._endpoint, self._api_key, self._say, self._sleep = wire, endpoint, api_key, say, sleep

    async def upload(self, path: Path) -> str | None:
        """The file's id; None where it is larger than the provider takes."""
        outcome = await self._answer(lambda: self._post_file(path), names_something)
        return None if outcome.status == 413 else str(self._document(outcome, "POST /files")["id"])

    async def create(self, name: str, file: str) -> dict[str, Any]:
        """The new batch; after an answer that was lost, the one that it may have made."""
        body = {"input_file_id": file, "endpoint": URL, "completion_window": "24h", "metadata": {"job": name}}
        pauses = self._pauses()
        while True:
            outcome = await self._wire.call("POST", "/batches", body=body)
            if not self._passing(outcome, names_something):
                return self._document(outcome, "POST /batches")
            await self._wait(pauses, outcome)
            made = (await self.find({name})).get(name)
            if made:
                return made

    async def find(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """name -> the batch that carries it; the latest, and rather one that did not fail."""
        found: dict[str, dict[str, Any]] = {}
        async for batch in self._batches():
            metadata = batch.get("metadata")
            name = metadata.get("job") if isinstance(metadata, dict) else None
            if name in names and (name not in found or _rank(batch) > _rank(found[name])):
                found[name] = batch
        return found

    async def batch(self, job: Job) -> dict[str, Any]:
        what = f"GET /batches/{job.remote}, of job {job.name[:12]} (`longform batches --cancel` gives a job up)"
        return self._document(await self._get(f"/batches/{job.remote}", names_something), what)

    async def cancel(self, remote: str) -> bool:
        """Whether the batch is there; one that has ended already is left as it is."""
        outcome = await self._answer(lambda: self._wire.call("POST", f"/batches/{remote}/cancel"), anything, {409})
        if outcome.status not in (200, 400, 404, 409):
            self._document(outcome, f"POST /batches/{remote}/cancel")
        return outcome.status != 404

    async def content(self, file: str) -> bytes | None:
        """None where the file is gone, looked for several times."""
        for _ in range(LOOKS_FOR_A_FILE):
            outcome = await self._get(f"/files/{file}/content", anything)
            if outcome.status == 200:
                return outcome.body
            if outcome.status not in (404, 410):
                self._document(outcome, f"GET /files/{file}/content")
            await self._sleep(FIRST_PAUSE_SECONDS)
        return None

    async def has_file(self, file: str) -> bool:
        outcome = await self._get(f"/files/{file}", names_something)
        return outcome.status not in (404, 410) and bool(self._document(outcome, f"GET /files/{file}"))

    async def delete(self, files: Iterable[str]) -> None:
        """As far as possible."""
        for file in files:
            await self._wire.call("DELETE", f"/files/{file}")

    async def _post_file(self, path: Path) -> Outcome:
        with path.open("rb") as content:
            files = {"file": (path.name, content, "application/jsonl")}
            return await self._wire.call("POST", "/files", body={"purpose": "batch"}, files=files)

    async def _batches(self) -> Any:
        seen: set[str] = set()
        params: dict[str, Any] = {"limit": 100}
        while True:
            page = read_json((await self._listed(params)).body)
            batches = [batch for batch in page.get("data") or [] if isinstance(batch, dict) and batch.get("id")]
            new = [batch for batch in batches if batch["id"] not in seen]
            for batch in new:
                yield batch
            if not new or not page.get("has_more"):
                return
            seen.update(batch["id"] for batch in new)
            params = {"limit": 100, "after": batches[-1]["id"]}

    async def _listed(self, params: dict[str, Any]) -> Outcome:
        outcome = await self._answer(lambda: self._wire.call("GET", "/batches", params=params), lists_something)
        if outcome.status != 200:
            self._document(outcome, "GET /batches")
        return outcome

    async def _get(self, path: str, sense: Callable[[bytes], bool]) -> Outcome:
        return await self._answer(lambda: self._wire.call("GET", path), sense)

    async def _answer(
        self,
        send: Callable[[], Awaitable[Outcome]],
        sense: Callable[[bytes], bool],
        final: Iterable[int] = (),
    ) -> Outcome:
        """The first answer that settles it: a success that makes sense, or a refusal for good."""
        pauses = self._pauses()
        while True:
            outcome = await send()
            if outcome.status in final or not self._passing(outcome, sense):
                return outcome
            await self._wait(pauses, outcome)

    def _passing(self, outcome: Outcome, sense: Callable[[bytes], bool]) -> bool:
        if 200 <= outcome.status < 300:
            return not sense(outcome.body)
        return self._fault(outcome).then == "again"

    def _fault(self, outcome: Outcome) -> Fault:
        return fault_of(outcome.status, outcome.body, self._api_key)

    def _pauses(self) -> Iterator[float]:
        """Growing, with an end to all patience."""
        passed = 0.0
        for pause in pauses():
            if passed >= PATIENCE_SECONDS:
                return
            passed += pause
            yield pause

    async def _wait(self, pauses: Iterator[float], outcome: Outcome) -> None:
        told = self._fault(outcome).message if outcome.status >= 300 or not outcome.status else "an unreadable answer"
        pause = next(pauses, None)
        if pause is None:
            raise Incomplete(
                f'The batches of endpoint "{self._endpoint.name}" gave no answer for an hour (at last: {told}): '
                "jobs go on at the provider, run the same command again to collect them."
            )
        pause = max(pause, min(outcome.retry_after or 0.0, LONGEST_PAUSE_SECONDS))
        self._say(f"batches of {self._endpoint.name}: {told}; asking again in {pause:g} s")
        await self._sleep(pause)

    def _document(self, outcome: Outcome, what: str) -> dict[str, Any]:
        if 200 <= outcome.status < 300:
            return read_json(outcome.body)
        named = f'The endpoint "{self._endpoint.name}"'
        raise EndpointError(
            f"{named} refused {what} ({self._fault(outcome).message}): check the key, the account and whether it "
            'offers batches, or set mode = "online". What was answered is stored.'
        )


def names_something(body: bytes) -> bool:
    """Whether this is an object of the API: what tells a proxy's page from an answer."""
    return isinstance(read_json(body).get("id"), str)


def lists_something(body: bytes) -> bool:
    return isinstance(read_json(body).get("data"), list)


def anything(_: bytes) -> bool:
    return True


def pauses() -> Iterator[float]:
    """Seconds: 1, 2, 4 ... 300, 300 ..."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


@dataclass(slots=True)
class _Chunk:
    """Requests on their way into a file."""

    path: Path
    most_requests: int
    keys: dict[str, int] = field(default_factory=dict)
    kinds: dict[tuple[str, str], int] = field(default_factory=dict)
    bytes: int = 0
    bound_nano: int = 0
    reserved: int = 0

    def has_room(self, item: Item) -> bool:
        full = len(self.keys) >= self.most_requests or self.bytes + len(_line(item)) > MOST_BYTES
        return not self.keys or not full

    def add(self, item: Item, file: Any, reserved: int) -> None:
        self.bytes += file.write(_line(item))
        self.keys[item.key] = self.kinds.setdefault((item.task, item.prompt), len(self.kinds))
        self.bound_nano += item.bound_nano
        self.reserved += reserved

    def named(self) -> str:
        return hashlib.sha256("\n".join(sorted(self.keys)).encode()).hexdigest()

    def context(self, given: Mapping[str, Any]) -> str:
        """With what each request is, in the order of the keys."""
        which = list(self.keys.values()) if len(self.kinds) > 1 else []
        return json.dumps({"given": given, "kinds": list(self.kinds), "which": which})


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
    ) -> None:
        self.counts = Counts()
        self._remote, self._store, self._endpoint, self._keep = remote, store, endpoint, keep
        self._items, self._budget, self._folder, self._context = iter(items), budget, folder, context
        self._say, self._clock, self._sleep = say, clock, sleep
        self._open: dict[str, _Open] = {}
        self._ready: deque[Item] = deque()
        self._most_requests = MOST_REQUESTS
        self._crowded = False
        self._pauses = pauses()

    async def run(self) -> None:
        """Send while there is something to send and room for it; then wait for a job to end; and so on."""
        self._tidy()
        await self._adopt()
        while True:
            while await self._send_next():
                pass
            awaited = [each for each in self._open.values() if each.wanted or (each.ours and self.counts.short_nano)]
            if not awaited:
                break
            await self._sleep(next(self._pauses))
            await self._look()
        await self._let_go()

    def say_where_it_is(self) -> None:
        if any(each.job.remote for each in self._open.values()):
            self._say(
                f"Batch jobs of {self._endpoint.name} go on at the provider: the same command collects them, "
                "`longform batches --cancel all` stops them."
            )

    def free_money(self) -> None:
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
            if (
                path.suffix in (".jsonl", ".part", ".again")
                and path.name not in needed
                and not path.name.startswith(ours)
            ):
                path.unlink(missing_ok=True)

    async def _adopt(self) -> None:
        """Take up the jobs of earlier runs: find those whose batch nobody wrote down, submit those that have none."""
        for job in await asyncio.to_thread(self._store.jobs, self._endpoint.name):
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            self._open[job.name] = _Open(job, _numbers(keys), ours=False, wanted=False)
        for each in list(self._open.values()):
            await self._take(each)
        nameless = {each.job.name for each in self._open.values() if each.ours and not each.job.remote}
        found = await self._remote.find(nameless) if nameless else {}
        for name in sorted(nameless):
            await self._resume(self._open[name], found.get(name))
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
            await self._lease(each)

    async def _lease(self, each: _Open) -> None:
        if not self._store.exclusive:
            await self._store.lease(await asyncio.to_thread(self._store.job_keys, each.job.name))

    async def _resume(self, each: _Open, batch: dict[str, Any] | None) -> None:
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
        if self._crowded and self._open:
            return False
        chunk = await self._chunk()
        if chunk is None:
            return False
        try:
            each = await self._staged(chunk)
        except BaseException:
            self._budget.settle(chunk.reserved, 0, calls=0)
            raise
        self.counts.jobs += 1
        self.counts.sent += each.job.requests
        await self._submit(each)
        self._pauses = pauses()
        return True

    async def _chunk(self) -> _Chunk | None:
        chunk = _Chunk(self._folder / f"{os.getpid()}-{id(self)}.part", self._most_requests)
        try:
            with chunk.path.open("wb") as file:
                while (item := await self._next(chunk)) is not None:
                    reserved = self._budget.reserve(item.bound_nano) if chunk.has_room(item) else None
                    if reserved is None:
                        self._ready.appendleft(item)
                        break
                    chunk.add(item, file, reserved)
        except OSError as error:
            self._drop(chunk)
            raise _unwritable(self._folder, error) from None
        except BaseException:
            self._drop(chunk)
            raise
        if chunk.keys:
            return chunk
        self._drop(chunk)
        self.counts.short_nano = max(1, self._ready[0].bound_nano) if self._ready else 0
        return None

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
            wanted = [key for key in group if not _usable(stored.get(key)) and key not in chunk.keys]
            missing = [key for key in wanted if not self._on_its_way(key)]
            granted = await self._store.lease(missing) if missing else set()
            self._ready.extend(group[key] for key in missing if key in granted)
        return self._ready.popleft()

    def _on_its_way(self, key: str) -> bool:
        number = _number(key)
        for each in self._open.values():
            if each.holds(number):
                each.wanted = True
                return True
        return False

    async def _staged(self, chunk: _Chunk) -> _Open:
        """Written down, with its requests on disk; nothing sent."""
        job = Job(
            name=chunk.named(),
            endpoint=self._endpoint.name,
            state="STAGED",
            requests=len(chunk.keys),
            reserved_nano=chunk.bound_nano,
            created=self._clock(),
            context=chunk.context(self._context),
        )
        chunk.path.replace(self._spool(job))
        await self._store.lease([job.name])
        await asyncio.to_thread(self._store.stage_job, job, list(chunk.keys))
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
            if each.job.name not in self._open or not each.ours:
                continue
            batch = await self._remote.batch(each.job)
            if _status(batch) in ENDED:
                await self._collect(each, batch)
                self._pauses = pauses()

    async def _collect(self, each: _Open, batch: dict[str, Any]) -> None:
        """Store what the batch made, whatever it ended as."""
        if _status(batch) == "failed" and "token_limit_exceeded" in json.dumps(batch.get("errors")):
            await self._split(each, "the provider has too many tokens queued")
            return
        made = [str(file) for name in ("output_file_id", "error_file_id") if (file := batch.get(name))]
        collector = await self._collector(each)
        stored = spent = calls = 0
        for file in made:
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
        self._say(_ended(each.job, _status(batch), stored, missing))
        await self._end(each, "DONE", spent, calls)
        await self._remote.delete([*([each.job.input_file] if each.job.input_file else []), *made])

    async def _collector(self, each: _Open) -> _Collector:
        """With the requests as they were sent: from this computer's file, else from the provider's."""
        spool = self._spool(each.job)
        if not spool.exists() and each.job.input_file:
            content = await self._remote.content(each.job.input_file)
            if content is not None:
                spool.write_bytes(content)
        keys = await asyncio.to_thread(self._store.job_keys, each.job.name)
        return _Collector(spool, keys, json.loads(each.job.context), self._keep)

    async def _split(self, each: _Open, why: str) -> None:
        """Send its requests again in jobs of half the size, one at a time; a single one is left to a single call."""
        job, spool = each.job, self._spool(each.job)
        self._most_requests, self._crowded = max(1, min(self._most_requests, job.requests) // 2), True
        again = each.wanted and job.requests > 1 and spool.exists()
        if again:
            moved = spool.replace(spool.with_name(f"{os.getpid()}-{job.name}.again"))
            keys = await asyncio.to_thread(self._store.job_keys, job.name)
            bound_nano = -(-job.reserved_nano // job.requests)
            self._items = chain(_reread(moved, keys, json.loads(job.context), bound_nano), self._items)
        self.counts.missing += 0 if again else job.requests
        self._say(f"batch {job.name[:12]}: {why}; {'smaller ones follow' if again else 'it is left'}")
        await self._end(each, "GONE", 0, 0)

    async def _end(self, each: _Open, state: str, spent: int, calls: int) -> None:
        await self._update(each, state=state)
        self._budget.settle(each.reserved, spent, calls=calls)
        self._spool(each.job).unlink(missing_ok=True)
        if not self._store.exclusive:
            await self._store.release(await asyncio.to_thread(self._store.job_keys, each.job.name))
        each.reserved = 0
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


class _Collector:
    """Reads the lines of a job's files into records and lines of the ledger."""

    def __init__(self, spool: Path, keys: Sequence[str], context: dict[str, Any], keep: Keep) -> None:
        self.places = {key: place for place, key in enumerate(keys)}
        self.answered: set[str] = set()
        self.broken = 0
        self._context, self._keep, self._spool = context, keep, spool
        self._lines = _index(spool)

    def groups(self, content: bytes) -> Iterator[dict[str, Reply]]:
        """Replies by key, some hundreds at a time; of several to one request the first."""
        group: dict[str, Reply] = {}
        for line in io.BytesIO(content):
            found = self._read(line) if line.strip() else None
            if found:
                group.setdefault(*found)
            if len(group) >= AT_ONCE:
                yield group
                group = {}
        if group:
            yield group

    def worth(
        self, replies: dict[str, Reply], stored: Mapping[str, Record]
    ) -> tuple[list[tuple[str, Record]], list[Paid]]:
        """What is to be written: nothing twice, and nothing in place of what a single call has stored meanwhile."""
        records: list[tuple[str, Record]] = []
        lines: list[Paid] = []
        sent = self._sent(replies)
        for key, reply in replies.items():
            there = stored.get(key)
            if _usable(there):
                self.answered.add(key)
            if there is not None and there.batch and _usable(there):
                continue
            record, paid = self._keep(self._item(key, sent[key]), self._context["given"], reply)
            if record is not None and not _usable(there):
                records.append((key, record))
                self.answered.add(key)
            if paid is not None:
                lines.append(paid)
        return records, lines

    def _read(self, line: bytes) -> tuple[str, Reply] | None:
        document = read_json(line)
        key, response = document.get("custom_id"), document.get("response")
        if not isinstance(key, str):
            self.broken += 1
        elif key in self.places and isinstance(response, dict) and isinstance(response.get("status_code"), int):
            request_id = response.get("request_id")
            told = request_id if isinstance(request_id, str) else None
            return key, Reply(response["status_code"], _bytes(response.get("body")), told)
        return None

    def _sent(self, keys: Iterable[str]) -> dict[str, str]:
        """The requests as they were sent; `{}` where that is not known any more."""
        places = {key: self._lines.get(key) for key in keys}
        if not any(places.values()):
            return dict.fromkeys(places, "{}")
        with self._spool.open("rb") as file:
            return {key: _body_at(file, *place) if place else "{}" for key, place in places.items()}

    def _item(self, key: str, sent: str) -> Item:
        return Item(key, sent, *_kind(self._context, self.places[key]))


def _kind(context: dict[str, Any], place: int) -> tuple[str, str]:
    task, prompt = context["kinds"][context["which"][place] if context["which"] else 0]
    return task, prompt


def _reread(path: Path, keys: Sequence[str], context: dict[str, Any], bound_nano: int) -> Iterator[Item]:
    """The items of a job's file, which is removed after the last."""
    places = {key: place for place, key in enumerate(keys)}
    with path.open("rb") as file:
        for line in file:
            key = line[_KEY].decode()
            yield Item(key, line[_BODY:-2].decode(), *_kind(context, places[key]), bound_nano)
    path.unlink(missing_ok=True)


def _line(item: Item) -> bytes:
    return b"".join((_HEAD, item.key.encode(), _MIDDLE, item.sent.encode(), b"}\n"))


def _index(spool: Path) -> dict[str, tuple[int, int]]:
    """key -> where the line of that request begins, and its length."""
    found: dict[str, tuple[int, int]] = {}
    offset = 0
    if spool.exists():
        with spool.open("rb") as file:
            for line in file:
                if line.startswith(_HEAD):
                    found[line[_KEY].decode()] = offset, len(line)
                offset += len(line)
    return found


def _body_at(file: Any, offset: int, size: int) -> str:
    file.seek(offset)
    return str(file.read(size)[_BODY:].rstrip()[:-1].decode())


def _bytes(body: Any) -> bytes:
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _usable(record: Record | None) -> bool:
    return record is not None and record.code != "unusable"


def _number(key: str) -> int:
    return int(key[:16], 16)


def _numbers(keys: Iterable[str]) -> array[int]:
    """The first 64 bits of each key, in order: eight bytes a request, however many are on their way."""
    return array("Q", sorted(map(_number, keys)))


def _rank(batch: dict[str, Any]) -> tuple[bool, float]:
    created = batch.get("created_at")
    return batch.get("status") != "failed", created if isinstance(created, int | float) else 0


def _status(batch: dict[str, Any]) -> str:
    return str(batch.get("status")).lower()


def _ended(job: Job, status: str, stored: int, missing: int) -> str:
    left = f", {missing:,} of {job.requests:,} left to single calls" if missing else ""
    return f"batch {job.name[:12]} {status}: {stored:,} answers stored{left}"


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"The folder {folder} cannot be written ({error}): check disk space and rights.")
