"""A provider's files and batches over HTTP. Batches are found again by the job name in their metadata.

A request that creates something has an idempotency key, the same at each repetition, for providers that know it. When
batches are submitted and collected is decided in jobs.py beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from longform.errors import EndpointError, Incomplete
from longform.llm.ask.types import Endpoint
from longform.llm.batch.files import URL
from longform.llm.responses.records import Job
from longform.llm.send.bodies import read_json
from longform.llm.send.faults import Fault, fault_of, unusable, without_question
from longform.llm.send.secrets import cleaner_of
from longform.llm.send.wire import BATCHES, Outcome, Wire

FIRST_PAUSE_SECONDS, LONGEST_BATCH_PAUSE_SECONDS = 1.0, 300.0
PATIENCE_SECONDS = 3600.0
SEARCH_SECONDS = 600.0  # a batch may be in the provider's list some minutes after it was created
SEEN_SINCE = 1_000_000_000  # an earlier time of a batch, in seconds since 1970, is none
DAY_SECONDS = 86_400
PASSING = re.compile(r"internal|server.?error|time.?out|unavailable|try again|rate.?limit|overloaded", re.IGNORECASE)

Sleep = Callable[[float], Awaitable[None]]
Say = Callable[[str], None]


class Remote:
    """Calls of the provider's API for files and batches. A call that fails for a passing reason is repeated, with
    growing pauses, about which `say` tells the user; after an hour of pauses Incomplete is raised. Any other refusal
    raises EndpointError.
    """

    def __init__(self, wire: Wire, endpoint: Endpoint, api_key: str | None, say: Say, sleep: Sleep) -> None:
        self._wire, self._endpoint, self._say, self._sleep = wire, endpoint, say, sleep
        self._cleaner = cleaner_of(api_key)
        self._was_reached = False

    async def upload(self, path: Path, key: str) -> str | None:
        """Upload a file; its id at the provider, or None where the file is larger than the provider takes (413). `key`
        is the idempotency key.
        """
        outcome = await self._answer(lambda: self._post_file(path, key), is_api_object)
        return None if outcome.status == 413 else str(self._json_or_refused(outcome, "POST /files")["id"])

    async def create(self, name: str, file: str, key: str) -> dict[str, Any] | None:
        """Create a batch from an uploaded file; the provider's JSON of it, or None where nobody knows whether it was
        created, as no readable answer came. `name` is the job's, `file` the id of the file, `key` the idempotency key.
        """
        body = {"input_file_id": file, "endpoint": URL, "completion_window": "24h", "metadata": {"job": name}}
        pauses = self._pauses()
        while True:
            outcome = await self._wire.call("POST", BATCHES, json=body, idempotency_key=key)
            if not self._is_transient(outcome, is_api_object):
                return self._json_or_refused(outcome, "POST /batches")
            if outcome.sent and outcome.status != 429:
                self._say(f"batches of {self._endpoint.name}: {self._reason(outcome)}; the batch may have been created")
                return None
            await self._wait(pauses, outcome)

    async def search(self, job: Job, seconds: float = SEARCH_SECONDS) -> list[dict[str, Any]]:
        """The batches of a job, as soon as the provider lists one; looks for one after growing pauses, for so many
        seconds. [] if there is none.
        """
        waits = pauses_up_to(seconds)
        while not (found := await self.batches(job)):
            pause = next(waits, None)
            if pause is None:
                break
            if pause == FIRST_PAUSE_SECONDS:
                self._say(f"batch {job.name[:12]}: looking for it at the provider, up to {seconds / 60:g} minutes")
            await self._sleep(pause)
        return found

    async def batches(self, job: Job) -> list[dict[str, Any]]:
        """The provider's JSON of the batches that it lists under the job's name, without those that were created a day
        or more before the job: an earlier release gave equal jobs equal names.
        """
        return [batch async for batch in self._batches() if _name(batch) == job.name and not _is_older(batch, job)]

    async def batch(self, job: Job, remote: str) -> dict[str, Any]:
        """The provider's JSON of a batch of the job as it is now, with its status. EndpointError where the provider
        does not know the batch.
        """
        what = f"GET /batches/{remote}, of job {job.name[:12]} (`longform batches --cancel` gives a job up)"
        return self._json_or_refused(await self._get(f"/batches/{remote}", is_api_object), what)

    async def cancel(self, remote: str) -> bool:
        """Cancel the batch with this id. False where the provider does not know it (404); else True, also where it has
        ended, which cannot be changed.
        """
        outcome = await self._answer(lambda: self._wire.call("POST", f"/batches/{remote}/cancel"), anything, {409})
        if outcome.status not in (200, 400, 404, 409):
            self._json_or_refused(outcome, f"POST /batches/{remote}/cancel")
        return outcome.status != 404

    async def content(self, file: str, to: Path, most_bytes: int) -> bool:
        """Download a file to the path `to`; False where it is gone (404, 410). One that comes broken, or with more
        than `most_bytes` bytes, is requested again.
        """
        path = f"/files/{file}/content"
        outcome = await self._answer(lambda: self._wire.download(path, to, most_bytes=most_bytes), nothing)
        if outcome.status not in (200, 404, 410):
            self._json_or_refused(outcome, f"GET {path}")
        return outcome.status == 200

    async def size(self, file: str) -> int | None:
        """The size of a file in bytes, as the provider says; None where it does not, or the file is gone."""
        outcome = await self._get(f"/files/{file}", anything)
        size = read_json(outcome.body).get("bytes")
        return size if isinstance(size, int) and outcome.status == 200 else None

    async def has_file(self, file: str) -> bool:
        """Whether the provider has the file with this id."""
        outcome = await self._get(f"/files/{file}", is_api_object)
        return outcome.status not in (404, 410) and bool(self._json_or_refused(outcome, f"GET /files/{file}"))

    async def delete(self, files: Iterable[str]) -> None:
        """Delete the files at the provider. A deletion that fails is ignored."""
        for file in files:
            await self._wire.call("DELETE", f"/files/{file}")

    async def _post_file(self, path: Path, key: str) -> Outcome:
        """Upload the file by one call, without repeating it."""
        with path.open("rb") as content:
            files = {"file": (path.name, content, "application/jsonl")}
            data = {"purpose": "batch"}
            return await self._wire.call("POST", "/files", data=data, files=files, idempotency_key=key)

    async def _batches(self) -> AsyncIterator[dict[str, Any]]:
        """The provider's JSON of each batch of the account, page after page, each once; entries without an id are left
        out.
        """
        seen: set[str] = set()
        params: dict[str, Any] = {"limit": 100}
        while True:
            outcome = await self._answer(partial(self._wire.call, "GET", "/batches", params=params), is_api_list)
            page = self._json_or_refused(outcome, "GET /batches")
            batches = [batch for batch in page.get("data") or [] if isinstance(batch, dict) and batch.get("id")]
            new = [batch for batch in batches if batch["id"] not in seen]
            for batch in new:
                yield batch
            if not new or not page.get("has_more"):
                return
            seen.update(batch["id"] for batch in new)
            params = {"limit": 100, "after": batches[-1]["id"]}

    async def _get(self, path: str, is_valid: Callable[[bytes], bool]) -> Outcome:
        """The final outcome of a GET, repeated as `_answer` says."""
        return await self._answer(lambda: self._wire.call("GET", path), is_valid)

    async def _answer(
        self,
        send: Callable[[], Awaitable[Outcome]],
        is_valid: Callable[[bytes], bool],
        final: Iterable[int] = (),
    ) -> Outcome:
        """Call `send` until its outcome is final, and return that: a status in `final`, a 2xx reply whose body passes
        the check `is_valid`, or a refusal that no retry helps, which is not raised here. Incomplete after an hour of
        pauses.
        """
        pauses = self._pauses()
        while True:
            outcome = await send()
            if outcome.status in final or not self._is_transient(outcome, is_valid):
                return outcome
            await self._wait(pauses, outcome)

    def _is_transient(self, outcome: Outcome, is_valid: Callable[[bytes], bool]) -> bool:
        """Whether the call should be repeated: a 2xx reply that fails `is_valid`, or a fault that may pass. An address
        that cannot be reached is final until it was reached once.
        """
        self._was_reached = self._was_reached or outcome.status != 0
        if outcome.final and not self._was_reached:
            return False
        if 200 <= outcome.status < 300:
            return not is_valid(outcome.body)
        return self._fault(outcome).then == "again"

    def _fault(self, outcome: Outcome) -> Fault:
        """What an outcome that is not 2xx means, with a message that has no API key."""
        return fault_of(outcome.status, outcome.body, self._cleaner)

    def _pauses(self) -> Iterator[float]:
        """Seconds to wait: 1, 2, 4 ... 256, 300, 300 ..., until they add up to an hour."""
        return pauses_up_to(PATIENCE_SECONDS)

    async def _wait(self, pauses: Iterator[float], outcome: Outcome) -> None:
        """Tell the user the reason, and sleep for the next of the pauses, or longer if Retry-After says so (at most
        300 s). Incomplete where no pause is left.
        """
        reason = self._reason(outcome)
        pause = next(pauses, None)
        if pause is None:
            raise Incomplete(
                f'The batches of endpoint "{self._endpoint.name}" at {self._wire.address} gave no answer for an hour '
                f"(at last: {reason}): jobs go on at the provider; run the same command again to collect them."
            )
        pause = max(pause, min(outcome.retry_after or 0.0, LONGEST_BATCH_PAUSE_SECONDS))
        self._say(f"batches of {self._endpoint.name}: {reason}; asking again in {pause:g} s")
        await self._sleep(pause)

    def _reason(self, outcome: Outcome) -> str:
        """Why a call has to be repeated, in words without the API key."""
        return self._fault(outcome).message if outcome.status >= 300 or not outcome.status else unusable(outcome.body)

    def problem(self, batch: dict[str, Any], body_of_line: Callable[[int], str]) -> Fault | None:
        """The first of the errors for which the provider failed the batch, as a fault without the API key and without
        passages of the request that it is about; None where it gives none. `body_of_line` returns the body of a request
        by the number of its line.
        """
        errors = batch.get("errors")
        first = next(iter((errors.get("data") if isinstance(errors, dict) else None) or [{}]))
        if not isinstance(first, dict) or not (first.get("code") or first.get("message")):
            return None
        passing = PASSING.search(f"{first.get('code')} {first.get('message')}")
        line = first.get("line")
        sent = body_of_line(line) if isinstance(line, int) else "{}"
        words = {"code": first.get("code"), "message": first.get("message") or "no message"}
        fault = self.fault(503 if passing else 400, json.dumps({"error": words}).encode(), sent)
        return fault._replace(message=fault.message.partition(" ")[2])

    def fault(self, status: int, body: bytes, sent: str) -> Fault:
        """What a refusal means, with a message that has neither the API key nor passages of the request `sent`."""
        fault = fault_of(status, body, self._cleaner)
        return fault._replace(message=without_question(fault.message, sent))

    def _json_or_refused(self, outcome: Outcome, what: str) -> dict[str, Any]:
        """The JSON of a 2xx reply, {} if it is no object; else EndpointError, in which `what` names the call that was
        refused.
        """
        if 200 <= outcome.status < 300:
            return read_json(outcome.body)
        named = f'The endpoint "{self._endpoint.name}" at {self._wire.address}'
        if outcome.status == 0:
            raise EndpointError(f"{named} cannot be reached ({self._fault(outcome).message}): {outcome.hint}.")
        raise EndpointError(
            f"{named} refused {what} ({self._fault(outcome).message}): check the key, the account and whether it "
            'offers batches, or set mode = "online". What was answered is stored.'
        )


def is_api_object(body: bytes) -> bool:
    """Whether the body is a JSON object with an `id` that is a string, as the API returns: a proxy's page is not."""
    return isinstance(read_json(body).get("id"), str)


def is_api_list(body: bytes) -> bool:
    """Whether the body is a JSON object with a list `data`, as the API returns."""
    return isinstance(read_json(body).get("data"), list)


def nothing(body: bytes) -> bool:
    """Whether the body is empty: that of a file that was downloaded whole."""
    return not body


def anything(_: bytes) -> bool:
    """True: any body is accepted."""
    return True


def pauses() -> Iterator[float]:
    """Seconds to wait, without end: 1, 2, 4 ... 256, 300, 300 ..."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_BATCH_PAUSE_SECONDS)


def pauses_up_to(seconds: float) -> Iterator[float]:
    """Seconds to wait: 1, 2, 4 ... 256, 300, 300 ..., the last one shorter, until they add up to `seconds`."""
    left = seconds
    for pause in pauses():
        if left <= 0:
            return
        yield min(pause, left)
        left -= pause


def status_of(batch: dict[str, Any]) -> str:
    """The status of a provider's batch in lower case; "none" where it has none."""
    return str(batch.get("status")).lower()


def _name(batch: dict[str, Any]) -> Any:
    """The job name in the metadata of a provider's batch; None if it has none."""
    metadata = batch.get("metadata")
    return metadata.get("job") if isinstance(metadata, dict) else None


def _is_older(batch: dict[str, Any], job: Job) -> bool:
    """Whether the batch was created a day or more before the job; False where its time is not to be believed."""
    created = batch.get("created_at")
    if not isinstance(created, int | float) or created < SEEN_SINCE:
        return False
    return created < (job.created or 0) - DAY_SECONDS
