"""A provider's files and batches over HTTP. Batches are found again by the job name in their metadata.

When batches are submitted and collected is decided in jobs.py beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from longform.errors import EndpointError, Incomplete
from longform.llm.ask.types import Endpoint
from longform.llm.batch.files import URL
from longform.llm.responses.records import Job
from longform.llm.send.bodies import read_json
from longform.llm.send.faults import Fault, fault_of
from longform.llm.send.secrets import cleaner_of
from longform.llm.send.wire import Outcome, Wire

FIRST_PAUSE_SECONDS, LONGEST_BATCH_PAUSE_SECONDS = 1.0, 300.0
PATIENCE_SECONDS = 3600.0
LOOKS_FOR_A_FILE = 3

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

    async def upload(self, path: Path) -> str | None:
        """Upload a file; its id at the provider, or None where the file is larger than the provider takes (413)."""
        outcome = await self._answer(lambda: self._post_file(path), is_api_object)
        return None if outcome.status == 413 else str(self._json_or_refused(outcome, "POST /files")["id"])

    async def create(self, name: str, file: str) -> dict[str, Any]:
        """Create a batch from an uploaded file, and return the provider's JSON of it. `name` is the job's, `file` the
        id of the file. After a call that failed for a passing reason, a batch of this name is looked up, and returned
        if there is one, before another is created.
        """
        body = {"input_file_id": file, "endpoint": URL, "completion_window": "24h", "metadata": {"job": name}}
        pauses = self._pauses()
        while True:
            outcome = await self._wire.call("POST", "/batches", json=body)
            if not self._is_transient(outcome, is_api_object):
                return self._json_or_refused(outcome, "POST /batches")
            await self._wait(pauses, outcome)
            found = await self.find(name)
            if found is not None:
                return found

    async def find(self, name: str) -> dict[str, Any] | None:
        """The provider's JSON of the batch with this job name, None if there is none. Of several: the latest that did
        not fail, else the latest.
        """
        found = [batch async for batch in self._batches() if _name(batch) == name]
        return max(found, key=_rank, default=None)

    async def batch(self, job: Job) -> dict[str, Any]:
        """The provider's JSON of the job's batch as it is now, with its status. EndpointError where the provider does
        not know the batch.
        """
        what = f"GET /batches/{job.remote}, of job {job.name[:12]} (`longform batches --cancel` gives a job up)"
        return self._json_or_refused(await self._get(f"/batches/{job.remote}", is_api_object), what)

    async def cancel(self, remote: str) -> bool:
        """Cancel the batch with this id. False where the provider does not know it (404); else True, also where it has
        ended, which cannot be changed.
        """
        outcome = await self._answer(lambda: self._wire.call("POST", f"/batches/{remote}/cancel"), anything, {409})
        if outcome.status not in (200, 400, 404, 409):
            self._json_or_refused(outcome, f"POST /batches/{remote}/cancel")
        return outcome.status != 404

    async def content(self, file: str) -> bytes | None:
        """The bytes of a file; None where it is gone (404, 410). Where it is gone, or its first line is no JSON object
        (a proxy's page), it is requested up to LOOKS_FOR_A_FILE times, and the last reply is returned.
        """
        content = None
        for _ in range(LOOKS_FOR_A_FILE):
            outcome = await self._get(f"/files/{file}/content", anything)
            if outcome.status not in (200, 404, 410):
                self._json_or_refused(outcome, f"GET /files/{file}/content")
            content = outcome.body if outcome.status == 200 else None
            if content is not None and begins_with_a_line(content):
                break
            await self._sleep(FIRST_PAUSE_SECONDS)
        return content

    async def has_file(self, file: str) -> bool:
        """Whether the provider has the file with this id."""
        outcome = await self._get(f"/files/{file}", is_api_object)
        return outcome.status not in (404, 410) and bool(self._json_or_refused(outcome, f"GET /files/{file}"))

    async def delete(self, files: Iterable[str]) -> None:
        """Delete the files at the provider. A deletion that fails is ignored."""
        for file in files:
            await self._wire.call("DELETE", f"/files/{file}")

    async def _post_file(self, path: Path) -> Outcome:
        """Upload the file by one call, without repeating it."""
        with path.open("rb") as content:
            files = {"file": (path.name, content, "application/jsonl")}
            return await self._wire.call("POST", "/files", data={"purpose": "batch"}, files=files)

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
        """Whether the call should be repeated: a 2xx reply that fails `is_valid`, or a fault that may pass."""
        if 200 <= outcome.status < 300:
            return not is_valid(outcome.body)
        return self._fault(outcome).then == "again"

    def _fault(self, outcome: Outcome) -> Fault:
        """What an outcome that is not 2xx means, with a message that has no API key."""
        return fault_of(outcome.status, outcome.body, self._cleaner)

    def _pauses(self) -> Iterator[float]:
        """Seconds to wait: 1, 2, 4 ... 256, 300, 300 ..., until they add up to an hour."""
        passed = 0.0
        for pause in pauses():
            if passed >= PATIENCE_SECONDS:
                return
            passed += pause
            yield pause

    async def _wait(self, pauses: Iterator[float], outcome: Outcome) -> None:
        """Tell the user the reason, and sleep for the next of the pauses, or longer if Retry-After says so (at most
        300 s). Incomplete where no pause is left.
        """
        reason = self._fault(outcome).message if outcome.status >= 300 or not outcome.status else "an unreadable answer"
        pause = next(pauses, None)
        if pause is None:
            raise Incomplete(
                f'The batches of endpoint "{self._endpoint.name}" gave no answer for an hour (at last: {reason}): '
                "jobs go on at the provider, run the same command again to collect them."
            )
        pause = max(pause, min(outcome.retry_after or 0.0, LONGEST_BATCH_PAUSE_SECONDS))
        self._say(f"batches of {self._endpoint.name}: {reason}; asking again in {pause:g} s")
        await self._sleep(pause)

    def _json_or_refused(self, outcome: Outcome, what: str) -> dict[str, Any]:
        """The JSON of a 2xx reply, {} if it is no object; else EndpointError, in which `what` names the call that was
        refused.
        """
        if 200 <= outcome.status < 300:
            return read_json(outcome.body)
        named = f'The endpoint "{self._endpoint.name}"'
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


def begins_with_a_line(content: bytes) -> bool:
    """Whether the content is empty, or its first line is a JSON object."""
    return not content or bool(read_json(content.partition(b"\n")[0]))


def anything(_: bytes) -> bool:
    """True: any body is accepted."""
    return True


def pauses() -> Iterator[float]:
    """Seconds to wait, without end: 1, 2, 4 ... 256, 300, 300 ..."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_BATCH_PAUSE_SECONDS)


def _name(batch: dict[str, Any]) -> Any:
    """The job name in the metadata of a provider's batch; None if it has none."""
    metadata = batch.get("metadata")
    return metadata.get("job") if isinstance(metadata, dict) else None


def _rank(batch: dict[str, Any]) -> tuple[bool, float]:
    """A sort key that is highest for the batch that `find` prefers: those that did not fail, then the later ones."""
    created = batch.get("created_at")
    return batch.get("status") != "failed", created if isinstance(created, int | float) else 0
