"""The file of requests of a job, one JSON document a line, as it is uploaded; and what answers a request.

{"custom_id": KEY, "method": "POST", "url": "/v1/chat/completions", "body": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longform.llm.responses.records import Job, Record

URL = "/v1/chat/completions"
AT_ONCE = 500
UNUSABLE = "unusable"

_HEAD, _MIDDLE = b'{"custom_id":"', f'","method":"POST","url":"{URL}","body":'.encode()
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_BODY = len(_HEAD) + 64 + len(_MIDDLE)


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch: its key, its body in canonical form (`sent`), the task and prompt that are stored with
    the reply, and the upper bound of its cost in billionths of a US dollar. `again`: it is asked although the store has
    an answer, which the new one replaces.
    """

    key: str
    sent: str
    task: str = ""
    prompt: str = ""
    bound_nano: int = 0
    again: bool = False


def kind_of(context: dict[str, Any], place: int) -> tuple[str, str]:
    """(task, prompt) of the request at this position of a job, from the job's context."""
    task, prompt = context["kinds"][context["which"][place] if context["which"] else 0]
    return task, prompt


def reread(job: Job, path: Path, keys: Sequence[str], wanted: Collection[str]) -> Iterator[Item]:
    """The items of a job's file of requests that are `wanted` (keys), in the order of its lines, each with the mean of
    the job's cost bounds. `keys`: the job's keys in their order. The file is deleted after the last item is taken.
    """
    context, bound_nano = json.loads(job.context), mean_bound_nano(job)
    places, again = {key: place for place, key in enumerate(keys)}, again_of(context)
    with path.open("rb") as file:
        for line in file:
            key = line[_KEY].decode()
            if key in wanted:
                place = places[key]
                yield Item(key, line[_BODY:-2].decode(), *kind_of(context, place), bound_nano, place in again)
    path.unlink(missing_ok=True)


def mean_bound_nano(job: Job) -> int:
    """The mean upper bound of the cost of a job's requests, in billionths of a US dollar, rounded up."""
    return -(-job.reserved_nano // job.requests)


def line_of(item: Item) -> bytes:
    """The line of the upload file for a request, with its line break."""
    return b"".join((_HEAD, item.key.encode(), _MIDDLE, item.sent.encode(), b"}\n"))


def body_of_line(path: Path, number: int) -> str:
    """The body of the request in this line of a file of requests, counted from 1; "{}" where there is none."""
    if path.exists():
        with path.open("rb") as file:
            for place, line in enumerate(file, 1):
                if place == number and line.startswith(_HEAD):
                    return line[_BODY:].rstrip()[:-1].decode()
    return "{}"


def index_of(spool: Path) -> dict[str, tuple[int, int]]:
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


def body_at(file: Any, offset: int, size: int) -> str:
    """The body of the request in the line of `size` bytes that begins at this offset of an open file of requests."""
    file.seek(offset)
    return str(file.read(size)[_BODY:].rstrip()[:-1].decode())


def is_answered(record: Record | None) -> bool:
    """Whether there is a record that answers its request: a reply that could be read, or a permanent error (a
    tombstone).
    """
    return record is not None and record.code != UNUSABLE


def answers(record: Record | None, job: Job, *, again: bool) -> bool:
    """Whether a stored record answers a request of the job. With `again` an older one does not."""
    return is_answered(record) and not (again and record is not None and not is_newer(record, job))


def is_newer(record: Record, job: Job) -> bool:
    """Whether the record is not older than the job."""
    return (record.created or 0) >= (job.created or 0)


def again_of(context: Mapping[str, Any]) -> frozenset[int]:
    """The positions of the requests of a job that are asked although the store had an answer, from the job's
    context.
    """
    return frozenset(context.get("again", ()))
