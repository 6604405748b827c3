"""The files of a batch, one JSON document a line: the requests that are uploaded, the replies that come back.

    {"custom_id": KEY, "method": "POST", "url": "/v1/chat/completions", "body": {...}}
    {"custom_id": KEY, "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}

Replies come in any order. A line without a response is for a request that was never worked on, as the batch expired or
was cancelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from longform.llm.responses.records import Job, Paid, Record
from longform.llm.send.bodies import read_json

URL = "/v1/chat/completions"
AT_ONCE = 500
BYTES_AT_ONCE = 4 << 20
LINE_BYTES = 8 << 20  # a longer line is no usable reply
BEGINNING_BYTES = 4096

_HEAD, _MIDDLE = b'{"custom_id":"', f'","method":"POST","url":"{URL}","body":'.encode()
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_BODY = len(_HEAD) + 64 + len(_MIDDLE)
_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([0-9a-f]{64})"')
_STATUS = re.compile(rb'"status_code"\s*:\s*(\d{3})\b')


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
    """The reply to one request of a batch: the HTTP status that it would have had by itself, its body (empty where it
    was too large), and the provider's id of the request (None if it gives none). `others_answered`: the batch has
    answers to other requests, so that the endpoint and its settings work.
    """

    status: int
    body: bytes
    request_id: str | None
    others_answered: bool = False


Keep = Callable[[Item, Mapping[str, Any], Reply], tuple[Record | None, Paid | None]]


@dataclass(slots=True)
class Tally:
    """What a file of replies contained, each time that it was fetched. `places`: the requests, by their position in
    the job, that have a line in it. Of the last time: `broken`, the lines without JSON or a key; `torn`, whether the
    last line is broken and has no line break; `good`, the number of other lines; `whole`, whether the file was as
    large as the provider says.
    """

    places: set[int] = field(default_factory=set)
    broken: int = 0
    torn: bool = False
    good: int = 0
    whole: bool = False

    def start(self) -> None:
        """Begin to count another time."""
        self.broken, self.torn, self.good, self.whole = 0, False, 0, False

    @property
    def is_page(self) -> bool:
        """Whether all of its lines are broken, as those of a proxy's page in its place."""
        return self.broken > 0 and not self.good

    @property
    def lines(self) -> int:
        """The number of its lines, of several for one request only one; broken ones only if it was whole."""
        return len(self.places) + (self.broken if self.whole else 0)


class Collector:
    """Turns the replies in a batch's files into records of the response store and lines of the ledger.

    `spool`: the file of the job's requests, which may be gone. `keys`: the keys of the requests, in their order.
    `keep` gives (record, ledger line) for a reply, with None for what is not to be stored. `booked`: the positions of
    requests whose reply is in the ledger but not in the store, as the store had another answer; it grows. `twin`: the
    batch is a second one of the job. `works`: the batch counts answers.

    `refused`: the first reply of which nothing was stored, with the body of its request.
    """

    def __init__(
        self,
        job: Job,
        spool: Path,
        keys: Sequence[str],
        keep: Keep,
        *,
        booked: set[int] | None = None,
        twin: bool = False,
        works: bool = False,
    ) -> None:
        self.places = {key: place for place, key in enumerate(keys)}
        self.booked = set() if booked is None else booked
        self.refused: tuple[Reply, str] | None = None
        self._job, self._spool, self._keep, self._twin, self._works = job, spool, keep, twin, works
        self._context = json.loads(job.context)
        self._lines = _index(spool)
        self._done: set[int] = set()

    def groups(self, path: Path, tally: Tally) -> Iterator[dict[str, Reply]]:
        """The replies in a file, in groups of at most AT_ONCE and about BYTES_AT_ONCE, each key -> reply; of several
        replies to one request the first. Lines without a response and its status, or with a key that is not the job's,
        are left out; so are lines that are no JSON object or have no key. What the lines are is added to `tally`.
        """
        group: dict[str, Reply] = {}
        size = 0
        tally.start()
        with path.open("rb") as file:
            for line, whole in lines_of(file):
                found = self._read(line, whole, tally) if line.strip() else None
                if found and self.places[found[0]] not in self._done:
                    group.setdefault(*found)
                    size += len(found[1].body)
                if len(group) >= AT_ONCE or size >= BYTES_AT_ONCE:
                    yield group
                    group, size = {}, 0
        if group:
            yield group

    def to_store(
        self, replies: dict[str, Reply], stored: Mapping[str, Record]
    ) -> tuple[list[tuple[str, Record]], list[Paid]]:
        """(records with their keys, ledger lines) to be stored for these replies (key -> reply). `stored`: key -> the
        record that the store already has.

        A reply that was collected before is left out: the store has a batch's record that is an answer, or is not
        older than the job (of a twin: it must be of the same request id). Where the store has another answer, there is
        a ledger line only, once (`booked`).
        """
        records: list[tuple[str, Record]] = []
        lines: list[Paid] = []
        sent = self._sent(replies)
        for key, reply in replies.items():
            there, place = stored.get(key), self.places[key]
            if place in self.booked or self._is_collected(there, reply):
                continue
            item = Item(key, sent[key], *kind_of(self._context, place), mean_bound_nano(self._job))
            record, paid = self._keep(item, self._context["given"], reply)
            if record is not None or paid is not None:
                self._done.add(place)
            elif self.refused is None:
                self.refused = reply, item.sent
            if paid is not None:
                lines.append(paid)
            if is_answered(there):
                self.booked.update([place] if paid else [])
            elif record is not None:
                records.append((key, record))
        return records, lines

    def _is_collected(self, there: Record | None, reply: Reply) -> bool:
        """Whether the stored record is this reply."""
        if there is None or not there.batch:
            return False
        if self._twin and (reply.request_id is None or there.request_id != reply.request_id):
            return False
        return is_answered(there) or (there.created or 0) >= (self._job.created or 0)

    def _read(self, line: bytes, whole: bool, tally: Tally) -> tuple[str, Reply] | None:
        """(key, reply) on a line, of which only the beginning is given if it is not `whole`; None if it has no key, no
        response, or a key of another job. Adds the line to `tally`.
        """
        document = read_json(line) if whole else _beginning(line)
        key, response = document.get("custom_id"), document.get("response")
        if not isinstance(key, str):
            tally.broken += 1
            tally.torn = not line.endswith(b"\n") and whole
            return None
        tally.good += 1
        if key not in self.places:
            return None
        tally.places.add(self.places[key])
        if not isinstance(response, dict) or not isinstance(response.get("status_code"), int):
            return None
        request_id = response.get("request_id")
        request_id = request_id if isinstance(request_id, str) else None
        body = _bytes(response.get("body")) if whole else b""
        return key, Reply(response["status_code"], body, request_id, self._works)

    def _sent(self, keys: Iterable[str]) -> dict[str, str]:
        """key -> body of the request as it was sent; "{}" where the file of requests does not have it any more."""
        places = {key: self._lines.get(key) for key in keys}
        if not any(places.values()):
            return dict.fromkeys(places, "{}")
        with self._spool.open("rb") as file:
            return {key: _body_at(file, *place) if place else "{}" for key, place in places.items()}


def lines_of(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """(line with its line break, whether it is whole) of each line of a file; of a line of LINE_BYTES or more only the
    beginning.
    """
    while line := file.readline(LINE_BYTES):
        rest = line
        while not rest.endswith(b"\n") and len(rest) == LINE_BYTES:
            rest = file.readline(LINE_BYTES)
        yield line, rest is line


def _beginning(line: bytes) -> dict[str, Any]:
    """The key and the status (200 if it is not there) of a line of which only the beginning was read; {} without a
    key.
    """
    key, status = _CUSTOM_ID.search(line[:BEGINNING_BYTES]), _STATUS.search(line[:BEGINNING_BYTES])
    if key is None:
        return {}
    return {"custom_id": key[1].decode(), "response": {"status_code": int(status[1]) if status else 200}}


def kind_of(context: dict[str, Any], place: int) -> tuple[str, str]:
    """(task, prompt) of the request at this position of a job, from the job's context."""
    task, prompt = context["kinds"][context["which"][place] if context["which"] else 0]
    return task, prompt


def reread(job: Job, path: Path, keys: Sequence[str], wanted: Collection[str]) -> Iterator[Item]:
    """The items of a job's file of requests that are `wanted` (keys), in the order of its lines, each with the mean of
    the job's cost bounds. `keys`: the job's keys in their order. The file is deleted after the last item is taken.
    """
    context, bound_nano = json.loads(job.context), mean_bound_nano(job)
    places = {key: place for place, key in enumerate(keys)}
    with path.open("rb") as file:
        for line in file:
            key = line[_KEY].decode()
            if key in wanted:
                yield Item(key, line[_BODY:-2].decode(), *kind_of(context, places[key]), bound_nano)
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
