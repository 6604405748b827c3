"""The replies in the files of a batch that has ended, one JSON document a line.

    {"custom_id": KEY, "response": {"status_code": 200, "request_id": "...", "body": {...}}, "error": null}

Replies come in any order. A line without a response is for a request that was never worked on, as the batch expired or
was cancelled. A line may be as large as the reply to its own request may be (longform/llm/send/reply_size.py); of a
larger one only both ends are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from longform.llm.batch.files import (
    AT_ONCE,
    UNUSABLE,
    Item,
    again_of,
    answers,
    body_at,
    index_of,
    is_newer,
    kind_of,
    mean_bound_nano,
)
from longform.llm.responses.records import Job, Paid, Record
from longform.llm.send.bodies import read_json
from longform.llm.send.reply_size import chat_bound

BYTES_AT_ONCE = 4 << 20
LINE_BYTES = 8 << 20  # of a reply to a request that is not known any more, or has no limit of tokens
SHORT_LINE_BYTES = chat_bound(0)  # which every reply may have
END_BYTES = 4096

_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([0-9a-f]{64})"')
_STATUS = re.compile(rb'"status_code"\s*:\s*(\d{3})\b')
_LIMITS = ("max_completion_tokens", "max_tokens")


class Reply(NamedTuple):
    """The reply to one request of a batch: the HTTP status that it would have had by itself, its body, and the
    provider's id of the request (None if it gives none). `others_answered`: the batch has answers to other requests, so
    that the endpoint and its settings work. `too_large`: the bytes that a reply to its request may have, where it has
    more, and the body only says so; else 0.
    """

    status: int
    body: bytes
    request_id: str | None
    others_answered: bool = False
    too_large: int = 0


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
    requests whose reply is in the ledger but not in the store, as the store had another answer; it grows. `several`:
    the job has more than one batch. `works`: the batch counts answers.

    `refused`: the first reply of which nothing was stored, with the body of its request. `flaws`: key -> why the reply
    to this request was of no use, in words.
    """

    def __init__(
        self,
        job: Job,
        spool: Path,
        keys: Sequence[str],
        keep: Keep,
        *,
        booked: set[int] | None = None,
        several: bool = False,
        works: bool = False,
    ) -> None:
        self.places = {key: place for place, key in enumerate(keys)}
        self.booked = set() if booked is None else booked
        self.refused: tuple[Reply, str] | None = None
        self.flaws: dict[str, str] = {}
        self._job, self._spool, self._keep, self._several, self._works = job, spool, keep, several, works
        self._context = json.loads(job.context)
        self._again = again_of(self._context)
        self._lines = index_of(spool)
        self._done: set[int] = set()

    def groups(self, path: Path, tally: Tally) -> Iterator[dict[str, Reply]]:
        """The replies in a file, in groups of at most AT_ONCE and about BYTES_AT_ONCE, each key -> reply; of several
        replies to one request the first that is no error. Lines without a response and its status, or with a key that
        is not the job's, are left out; so are lines that are no JSON object or have no key. What the lines are is added
        to `tally`.
        """
        group: dict[str, Reply] = {}
        size = 0
        tally.start()
        with path.open("rb") as file:
            for line, most in lines_of(file, self._most_bytes):
                found = self._read(line, most, tally) if line.strip() else None
                if found and self.places[found[0]] not in self._done:
                    key, reply = found
                    if key not in group or group[key].status != 200 == reply.status:
                        group[key] = reply
                    size += len(reply.body)
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
        older than the job (of a job with several batches: it must be of the same request id). Where the store has
        another answer, there is a ledger line only, once (`booked`).
        """
        records: list[tuple[str, Record]] = []
        lines: list[Paid] = []
        sent = self._sent(replies)
        for key, reply in replies.items():
            there, place = stored.get(key), self.places[key]
            if place in self.booked or self._is_collected(there, reply, place):
                continue
            item = Item(key, sent[key], *kind_of(self._context, place), mean_bound_nano(self._job))
            record, paid = self._keep(item, self._context["given"], reply)
            if record is not None or paid is not None:
                self._done.add(place)
            elif self.refused is None:
                self.refused = reply, item.sent
            if paid is not None:
                lines.append(paid)
            if record is not None and record.code == UNUSABLE:
                self.flaws[key] = _flaw(reply)
            if answers(there, self._job, again=place in self._again):
                self.booked.update([place] if paid else [])
            elif record is not None:
                records.append((key, record))
        return records, lines

    def _is_collected(self, there: Record | None, reply: Reply, place: int) -> bool:
        """Whether the stored record is this reply."""
        if there is None or not there.batch:
            return False
        if self._several and (reply.request_id is None or there.request_id != reply.request_id):
            return False
        return answers(there, self._job, again=place in self._again) or is_newer(there, self._job)

    def _read(self, line: bytes, most: int, tally: Tally) -> tuple[str, Reply] | None:
        """(key, reply) on a line; None if it has no key, no response, or a key of another job. Where it had more bytes
        than `most`, which is else 0, only its ends are given. Adds the line to `tally`.
        """
        document = _ends(line) if most else _document(line)
        key, response = document.get("custom_id"), document.get("response")
        if not isinstance(key, str):
            tally.broken += 1
            tally.torn = not line.endswith(b"\n") and not most
            return None
        tally.good += 1
        if key not in self.places:
            return None
        tally.places.add(self.places[key])
        if not isinstance(response, dict) or not isinstance(response.get("status_code"), int):
            return None
        request_id = response.get("request_id")
        request_id = request_id if isinstance(request_id, str) else None
        body = f"200 with more than {most:,} bytes".encode() if most else _bytes(response.get("body"))
        return key, Reply(response["status_code"], body, request_id, self._works, most)

    def _most_bytes(self, beginning: bytes) -> int:
        """The most bytes that a line with this beginning may have: by the request that it names; by the one that may
        have the largest reply, where it names none.
        """
        key = _CUSTOM_ID.search(beginning)
        if key is None:
            return self._largest
        return most_bytes_of(self._sent([key[1].decode()])[key[1].decode()])

    @cached_property
    def _largest(self) -> int:
        """The most bytes that a line of the job's replies may have."""
        keys = list(self._lines)
        groups = (self._sent(keys[at : at + AT_ONCE]) for at in range(0, len(keys), AT_ONCE))
        return max((most_bytes_of(sent) for group in groups for sent in group.values()), default=LINE_BYTES)

    def _sent(self, keys: Iterable[str]) -> dict[str, str]:
        """key -> body of the request as it was sent; "{}" where the file of requests does not have it any more."""
        places = {key: self._lines.get(key) for key in keys}
        if not any(places.values()):
            return dict.fromkeys(places, "{}")
        with self._spool.open("rb") as file:
            return {key: body_at(file, *place) if place else "{}" for key, place in places.items()}


def lines_of(file: BinaryIO, most_bytes: Callable[[bytes], int]) -> Iterator[tuple[bytes, int]]:
    """(line with its line break, 0) of each line of a file; of a line that is too large (its two ends, the size that it
    may have). `most_bytes` says of the beginning of a line of more than SHORT_LINE_BYTES how large it may be.
    """
    while line := file.readline(SHORT_LINE_BYTES):
        most = 0
        if len(line) == SHORT_LINE_BYTES and not line.endswith(b"\n"):
            most = most_bytes(line)
            line += file.readline(most - len(line))
        if most and len(line) == most and not line.endswith(b"\n"):
            yield line[:END_BYTES] + b"\0" + _rest_of_line(file, line)[-END_BYTES:], most
        else:
            yield line, 0


def _rest_of_line(file: BinaryIO, end: bytes) -> bytes:
    """Read to the end of a line; its last bytes. `end`: what was read of it."""
    while not end.endswith(b"\n") and (more := file.readline(SHORT_LINE_BYTES)):
        end = end[-END_BYTES:] + more
    return end


def most_bytes_of(sent: str) -> int:
    """The most bytes of a line with the reply to a request with this body."""
    body = read_json(sent.encode("utf-8", "surrogatepass"))
    limit = limit_of(body)
    if limit is None:
        return LINE_BYTES
    top = body.get("top_logprobs")
    alternatives = (top if isinstance(top, int) else 0) if body.get("logprobs") else None
    return chat_bound(limit, choices_of(body), alternatives)


def limit_of(body: Mapping[str, Any]) -> int | None:
    """The limit of tokens of each reply in the body of a request; None if it has none."""
    return max((body[name] for name in _LIMITS if isinstance(body.get(name), int)), default=None)


def choices_of(body: Mapping[str, Any]) -> int:
    """How many replies the body of a request asks for."""
    return body["n"] if isinstance(body.get("n"), int) else 1


def _document(line: bytes) -> dict[str, Any]:
    """The JSON object on a line; bytes that are no UTF-8 become U+FFFD, as the reply is paid. {} if it is none."""
    return read_json(line) or read_json(line.decode("utf-8", "replace").encode())


def _ends(line: bytes) -> dict[str, Any]:
    """The key and the status (200 if it is not there) of a line of which only the ends were read; {} without a key."""
    key, status = _CUSTOM_ID.search(line), _STATUS.search(line)
    if key is None:
        return {}
    return {"custom_id": key[1].decode(), "response": {"status_code": int(status[1]) if status else 200}}


def _bytes(body: Any) -> bytes:
    """A reply's body as bytes in UTF-8: a string as it is, any other value as JSON."""
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _flaw(reply: Reply) -> str:
    """Why a reply is of no use, in words."""
    if reply.too_large:
        return f"its reply has more than {reply.too_large:,} bytes, the most that was asked for"
    return "its reply cannot be read"
