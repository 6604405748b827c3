"""The files of a batch, one JSON document a line: the requests that are uploaded, the replies that come back.

    {"custom_id": KEY, "method": "POST", "url": "/v1/chat/completions", "body": {...}}
    {"custom_id": KEY, "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}

Replies come in any order. A line without a response is for a request that was never worked on, as the batch expired or
was cancelled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from longform.llm.responses.records import Job, Paid, Record
from longform.llm.send.bodies import read_json

URL = "/v1/chat/completions"
AT_ONCE = 500

_HEAD, _MIDDLE = b'{"custom_id":"', f'","method":"POST","url":"{URL}","body":'.encode()
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_BODY = len(_HEAD) + 64 + len(_MIDDLE)


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch: its key, its body in canonical form (`sent`), the task and prompt that are stored with
    the reply, and the upper bound of its cost in billionths of a US dollar.
    """

    key: str
    sent: str
    task: str = ""
    prompt: str = ""
    bound_nano: int = 0


class Reply(NamedTuple):
    """The reply to one request of a batch: the HTTP status that it would have had by itself, its body, and the
    provider's id of the request (None if it gives none).
    """

    status: int
    body: bytes
    request_id: str | None


Keep = Callable[[Item, Mapping[str, Any], Reply], tuple[Record | None, Paid | None]]


class Collector:
    """Turns the replies in a job's files into records of the response store and lines of the ledger.

    `spool`: the file of the job's requests, which may be gone. `keys`: the keys of the requests, in their order.
    `keep` gives (record, ledger line) for a reply, with None for what is not to be stored. `answered`: keys of the
    replies seen so far that have an answering record, now or from before. `broken`: number of lines without a key.
    `places`: key -> position of the request in the job.
    """

    def __init__(self, job: Job, spool: Path, keys: Sequence[str], keep: Keep) -> None:
        self.places = {key: place for place, key in enumerate(keys)}
        self.answered: set[str] = set()
        self.broken = 0
        self._job, self._spool, self._keep = job, spool, keep
        self._context = json.loads(job.context)
        self._lines = _index(spool)

    def groups(self, content: bytes) -> Iterator[dict[str, Reply]]:
        """The replies in a file's content, in groups of at most AT_ONCE, each key -> reply; of several replies to one
        request in a group the first. Lines without a response and its status, or with a key that is not the job's, are
        left out; so are lines that are no JSON object or have no key, which are added to `broken`.
        """
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

    def to_store(
        self, replies: dict[str, Reply], stored: Mapping[str, Record]
    ) -> tuple[list[tuple[str, Record]], list[Paid]]:
        """(records with their keys, ledger lines) to be stored for these replies (key -> reply). `stored`: key -> the
        record that the store already has.

        A reply that was collected before is left out: the store has a batch's record that is an answer, or is not
        older than the job. Where a single call has meanwhile stored an answer, there is a ledger line only. Adds the
        keys that have an answer to `answered`.
        """
        records: list[tuple[str, Record]] = []
        lines: list[Paid] = []
        sent = self._sent(replies)
        for key, reply in replies.items():
            there = stored.get(key)
            item = Item(key, sent[key], *kind_of(self._context, self.places[key]), mean_bound_nano(self._job))
            record, paid = self._keep(item, self._context["given"], reply)
            if is_answered(there) or is_answered(record):
                self.answered.add(key)
            if (
                there is not None
                and there.batch
                and (is_answered(there) or (there.created or 0) >= (self._job.created or 0))
            ):
                continue
            if record is not None and not is_answered(there):
                records.append((key, record))
            if paid is not None:
                lines.append(paid)
        return records, lines

    def _read(self, line: bytes) -> tuple[str, Reply] | None:
        """(key, reply) on a line; None if it has no key (counted in `broken`), no response, or a key of another job."""
        document = read_json(line)
        key, response = document.get("custom_id"), document.get("response")
        if not isinstance(key, str):
            self.broken += 1
        elif key in self.places and isinstance(response, dict) and isinstance(response.get("status_code"), int):
            request_id = response.get("request_id")
            request_id = request_id if isinstance(request_id, str) else None
            return key, Reply(response["status_code"], _bytes(response.get("body")), request_id)
        return None

    def _sent(self, keys: Iterable[str]) -> dict[str, str]:
        """key -> body of the request as it was sent; "{}" where the file of requests does not have it any more."""
        places = {key: self._lines.get(key) for key in keys}
        if not any(places.values()):
            return dict.fromkeys(places, "{}")
        with self._spool.open("rb") as file:
            return {key: _body_at(file, *place) if place else "{}" for key, place in places.items()}


def kind_of(context: dict[str, Any], place: int) -> tuple[str, str]:
    """(task, prompt) of the request at this position of a job, from the job's context."""
    task, prompt = context["kinds"][context["which"][place] if context["which"] else 0]
    return task, prompt


def reread(job: Job, path: Path, keys: Sequence[str]) -> Iterator[Item]:
    """The items of a job's file of requests, in the order of its lines, each with the mean of the job's cost bounds.
    `keys`: the job's keys in their order. The file is deleted after the last item is taken.
    """
    context, bound_nano = json.loads(job.context), mean_bound_nano(job)
    places = {key: place for place, key in enumerate(keys)}
    with path.open("rb") as file:
        for line in file:
            key = line[_KEY].decode()
            yield Item(key, line[_BODY:-2].decode(), *kind_of(context, places[key]), bound_nano)
    path.unlink(missing_ok=True)


def mean_bound_nano(job: Job) -> int:
    """The mean upper bound of the cost of a job's requests, in billionths of a US dollar, rounded up."""
    return -(-job.reserved_nano // job.requests)


def line_of(item: Item) -> bytes:
    """The line of the upload file for a request, with its line break."""
    return b"".join((_HEAD, item.key.encode(), _MIDDLE, item.sent.encode(), b"}\n"))


def _index(spool: Path) -> dict[str, tuple[int, int]]:
    """key -> (offset, length) in bytes of the request's line in the file; empty if there is no file. Lines that do not
    begin as `line_of` writes them are left out.
    """
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
    """The body of the request in the line of `size` bytes that begins at this offset of an open file of requests."""
    file.seek(offset)
    return str(file.read(size)[_BODY:].rstrip()[:-1].decode())


def _bytes(body: Any) -> bytes:
    """A reply's body as bytes in UTF-8: a string as it is, any other value as JSON."""
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def is_answered(record: Record | None) -> bool:
    """Whether there is a record that answers its request: a reply that could be read, or a permanent error (a
    tombstone).
    """
    return record is not None and record.code != "unusable"
