"""The records of a response store, its tables and queries in SQL, and how a record becomes a row; for both databases.

    response   one row for each request: the reply's bytes as received, or the permanent error (a tombstone)
    ledger     one row for each call that was, or may have been, billed; rows are only added
    job        one row for each batch; job_item has its keys
    failing    one row for each key and run in which it got no usable reply, until it has one
    meta       versions of the tables and of the keys, the store's id, how many records were purged

The queries are written for PostgreSQL; longform/llm/responses/sqlite.py translates them. A row of `response` has the
key's 32 bytes, then the fields of Record in their order (`request` and `body` are compressed), then the checksum of all
these.
"""

from __future__ import annotations

import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import orjson
from xxhash import xxh3_64_intdigest

REPLY, TOMBSTONE = 0, 1

T = TypeVar("T")


@dataclass(slots=True)  # not frozen: it would take three times as long to make
class Record:
    """What is stored under a key: a reply, or a tombstone (`state`), whose `code` is the kind of failure and `body` its
    message.

    `request` and `body` are JSON as bytes. `cost_nano` is in billionths of a US dollar (None: price unknown). `created`
    is in seconds since 1970, set by the store where it is None. A reply with `code` "unusable" could not be read.
    """

    endpoint: str
    model: str
    task: str
    prompt: str
    request: bytes
    body: bytes = b""
    state: int = REPLY
    code: str | None = None
    finish: str | None = None
    served_model: str | None = None
    fingerprint: str | None = None
    request_id: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_limit: int | None = None
    milliseconds: int | None = None
    cost_nano: int | None = None
    batch: bool = False
    created: float | None = None


@dataclass(frozen=True, slots=True)
class Paid:
    """A line of the ledger: one call that was, or may have been, billed.

    `recipe` is the fingerprint of the stage that made it, `key` the first of the keys that the call asked for.
    `answered` is False for a call whose reply was lost or unusable. `cost_nano` is in billionths of a US dollar, None
    where the price is unknown. `reasoning_tokens` are part of `output_tokens`.
    """

    run: str
    dataset: str
    stage: str
    recipe: str
    endpoint: str
    model: str
    key: str
    answered: bool
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nano: int | None
    batch: bool = False
    reasoning_tokens: int = 0


Line = tuple[uuid.UUID, float, Paid]  # with the line's id, and when it was paid, in seconds since 1970


@dataclass(frozen=True, slots=True)
class Job:
    """A batch of so many `requests`. `name` is our own name, the hash of its keys; `remote` is the provider's id of
    the batch, and `input_file` that of its file (each None until known). `state` is STAGED (nothing sent), UPLOADED,
    CREATING (the batch is perhaps created), SUBMITTED, COLLECTING (some replies are not stored yet), or a final one:
    DONE (all its replies are stored, or given up) or GONE (it never ran, or cannot be found).
    `reserved_nano` is the upper bound of its cost in billionths of a US dollar, `created` is in seconds since 1970,
    `context` is JSON that says what each request is and who pays.
    """

    name: str
    endpoint: str
    state: str
    requests: int
    reserved_nano: int = 0
    remote: str | None = None
    input_file: str | None = None
    created: float | None = None
    context: str = "{}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What stored answers of one task and model used, on average: tokens of the prompt per byte of the request's body
    as stored; tokens of a reply, and their 90th percentile; milliseconds of a call, 0 where none are known. `answers`
    is how many answers these are, `reasoning` the share of all their tokens that is reasoning.
    """

    answers: int
    input_tokens_per_byte: float
    output_tokens: float
    output_tokens_p90: float
    milliseconds: float
    reasoning: float = 0.0


def usage_of(answers: Sequence[tuple[int, int, int, int, int | None]]) -> Usage | None:
    """The usage of answers, each given as (bytes of the request, tokens in, tokens out, of these reasoning,
    milliseconds); None if there are none.
    """
    if not answers:
        return None
    outputs = sorted(received for _, _, received, *_ in answers)
    took = [milliseconds for *_, milliseconds in answers if milliseconds is not None]
    return Usage(
        answers=len(answers),
        input_tokens_per_byte=sum(sent for _, sent, *_ in answers) / max(1, sum(size for size, *_ in answers)),
        output_tokens=sum(outputs) / len(answers),
        output_tokens_p90=outputs[(9 * len(answers) + 9) // 10 - 1],
        milliseconds=sum(took) / len(took) if took else 0.0,
        reasoning=sum(thought for *_, thought, _ in answers) / max(1, sum(outputs)),
    )


@dataclass(frozen=True, slots=True)
class Holdings:
    """A store's id, how many records it holds and how many were purged, how many lines its ledger has."""

    id: str
    records: int
    purged: int
    lines: int


LATEST_ANSWERS = 300
PLAIN = b"\0"

RECORD = [field.name for field in fields(Record)]
PAID = [field.name for field in fields(Paid)]
JOB = [field.name for field in fields(Job)]
COLUMNS = ["key", *RECORD]

_REQUEST, _BODY, _BATCH, _CREATED = map(COLUMNS.index, ("request", "body", "batch", "created"))
_STATE, _CODE = COLUMNS.index("state"), COLUMNS.index("code")
_plain_fields = itemgetter(*sorted(set(range(1, len(COLUMNS))) - {_REQUEST, _BODY, _BATCH, _CREATED}))
_time_bytes = struct.Struct("<d").pack
_record_fields = attrgetter(*RECORD)
_paid_fields = attrgetter(*PAID)

Row = Sequence[Any]


def insert(table: str, names: Sequence[str]) -> str:
    """An INSERT statement for these columns of a table of schema `longform`, with placeholders $1, $2 ..."""
    marks = ", ".join(f"${place}" for place in range(1, len(names) + 1))
    return f"INSERT INTO longform.{table}({', '.join(names)}) VALUES ({marks})"


def _replaced(names: Iterable[str]) -> str:
    """The assignments of an upsert that take these columns from the new row."""
    return ", ".join(f"{name} = excluded.{name}" for name in names)


_STORED = [*COLUMNS, "checksum"]
_SELECT = f"SELECT {', '.join(_STORED)} FROM longform.response"
BY_KEY = f"{_SELECT} WHERE key = ANY($1)"
PAGE_AFTER = f"{_SELECT} WHERE key > $1 ORDER BY key LIMIT $2"
ADD = f"{insert('response', _STORED)} ON CONFLICT (key) DO NOTHING"
PUT = f"{insert('response AS there', _STORED)} ON CONFLICT (key) DO UPDATE SET {_replaced(_STORED[1:])}"
PUT_UNLESS_USABLE = f"{PUT} WHERE there.state <> {REPLY} OR there.code IS NOT NULL"
PURGE = "DELETE FROM longform.response WHERE key = ANY($1)"
COUNT_PURGED = "UPDATE longform.meta SET v = CAST(CAST(v AS bigint) + $1 AS text) WHERE k = 'purged'"
PAY_ONCE = f"{insert('ledger', ['id', 'created', *PAID])} ON CONFLICT DO NOTHING"
HOLDINGS = """
SELECT (SELECT v FROM longform.meta WHERE k = 'id'), (SELECT count(*) FROM longform.response),
  (SELECT v FROM longform.meta WHERE k = 'purged'), (SELECT count(*) FROM longform.ledger)
"""

STATS = {
    **{name: name for name in ("endpoint", "model", "task")},
    "answers": f"count(*) FILTER (WHERE state = {REPLY})",
    "errors": f"count(*) FILTER (WHERE state = {TOMBSTONE})",
    **{name: f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in ("input_tokens", "output_tokens", "cost_nano")},
    "bytes": "sum(length(request) + length(body))",
}
SELECT_STATS = f"""
SELECT {", ".join(STATS.values())} FROM longform.response
GROUP BY endpoint, model, task ORDER BY endpoint, model, task
"""

_SUMS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_nano")
LEDGER = {
    **{name: name for name in ("stage", "endpoint", "model", "batch")},
    "calls": "count(*)",
    "unanswered": "count(*) FILTER (WHERE NOT answered)",
    **{name: f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in _SUMS},
    "unpriced": "count(*) FILTER (WHERE cost_nano IS NULL)",
}
_BY_STAGE = "GROUP BY stage, endpoint, model, batch ORDER BY min(number)"
SELECT_LEDGER = f"SELECT {', '.join(LEDGER.values())} FROM longform.ledger WHERE dataset = $1 {_BY_STAGE}"
SELECT_SPENT = """
SELECT CAST(coalesce(sum(cost_nano), 0) AS bigint) FROM longform.ledger
WHERE dataset = coalesce($1, dataset) AND run <> $2
"""
SELECT_LEDGER_OF = SELECT_LEDGER.replace("$1", "$1 AND recipe = ANY($2)")

SELECT_LATEST = f"""
{_SELECT}
WHERE endpoint = $1 AND model = $2 AND task = $3 AND state = {REPLY} AND input_tokens > 0
ORDER BY created DESC LIMIT {LATEST_ANSWERS}
"""

STAGE_JOB = f"""
{insert("job AS there", JOB)}
ON CONFLICT (name) DO UPDATE SET {_replaced(JOB[1:])} WHERE there.state IN ('STAGED', 'DONE', 'GONE')
"""
DELETE_ITEMS = "DELETE FROM longform.job_item WHERE job = $1"
ADD_ITEM = insert("job_item", ["job", "place", "key"])
OPEN_JOBS = f"""
SELECT {", ".join(JOB)} FROM longform.job
WHERE state NOT IN ('DONE', 'GONE') AND endpoint = coalesce($1, endpoint) ORDER BY created, name
"""
FAIL = f"""
{insert("failing", ["key", "run", "fault", "updated"])}
ON CONFLICT (key, run) DO UPDATE SET fault = excluded.fault, updated = excluded.updated
"""
FAILING = "SELECT key, fault FROM longform.failing WHERE key = ANY($1) ORDER BY updated, run"
FORGET_FAILED = "DELETE FROM longform.failing WHERE key = ANY($1)"
JOB_KEYS = "SELECT key FROM longform.job_item WHERE job = $1 ORDER BY place"


def row_of(
    key: str, record: Record, pack: Callable[[bytes], bytes], storable: Callable[[list[Any]], list[Any]] = list
) -> list[Any]:
    """The row of a record: the key as bytes, then the fields of Record, request and body compressed by `pack`, and
    `created` now if it is None; all as `storable` returns them; then their checksum.
    """
    row = [bytes.fromhex(key), *_record_fields(record)]
    row[_REQUEST], row[_BODY] = pack(record.request), pack(record.body)
    row[_CREATED] = time.time() if record.created is None else float(record.created)
    row = storable(row)
    row.append(checksum_of(row))
    return row


def checksum_of(row: Row) -> int:
    """A checksum of a row's columns as they are stored (a last one, the stored checksum, is left out), of 63 bits: for
    damage and edits by hand, not against those who would compute it anew.
    """
    try:
        plain = orjson.dumps(_plain_fields(row))
    except TypeError:  # half of a surrogate pair, which only PostgreSQL stores
        plain = repr(_plain_fields(row)).encode()
    digest = xxh3_64_intdigest(row[0] + _time_bytes(row[_CREATED] or 0.0), row[_BATCH] or 0)
    digest = xxh3_64_intdigest(row[_REQUEST], xxh3_64_intdigest(plain, digest))
    return xxh3_64_intdigest(row[_BODY], digest) >> 1


def record_of(row: Row) -> tuple[str, Record]:
    """(key in hex digits, record) of a row with its checksum. ValueError where the row is damaged."""
    key, record = reply_of(row)
    try:
        return key, replace(record, request=unpacked(row[_REQUEST]))
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from None


def reply_of(row: Row) -> tuple[str, Record]:
    """As `record_of`, but with an empty request, which takes a third of the time to unpack and is rarely needed."""
    try:
        if checksum_of(row) != row[-1]:
            raise ValueError("its checksum is another one")
        key, *values, _ = row
        values[_REQUEST - 1], values[_BODY - 1] = b"", unpacked(values[_BODY - 1])
        values[_BATCH - 1] = bool(values[_BATCH - 1])
        return key.hex(), Record(*values)
    except (zlib.error, struct.error, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


def is_damaged(row: Row) -> bool:
    """Whether a row's checksum does not match, or its content cannot be read."""
    try:
        record_of(row)
    except ValueError:
        return True
    return False


def settled_keys(rows: Iterable[Row]) -> list[bytes]:
    """The keys of those rows that answer for good: usable replies and tombstones."""
    return [row[0] for row in rows if row[_STATE] == TOMBSTONE or row[_CODE] is None]


def line_of(paid: Paid) -> Line:
    """The line of the ledger, paid now, with a new id."""
    return uuid.uuid4(), time.time(), paid


def ledger_row_of(paid: Paid, created: float | None = None) -> list[Any]:
    """The row of a line of the ledger: when it was paid (None: now), then the fields of Paid in their order, the key
    as bytes.
    """
    row = [time.time() if created is None else created, *_paid_fields(paid)]
    row[1 + PAID.index("key")] = bytes.fromhex(paid.key)
    return row


def unpacked(content: bytes) -> bytes:
    """The stored bytes, which are plain after a zero byte, else compressed with zlib. Raises zlib.error if damaged."""
    return content[1:] if content[:1] == PLAIN else zlib.decompress(content)


def storable(values: Iterable[Any]) -> list[Any]:
    """The values, with None in place of integers that need more than 64 bits, which a server may send."""
    return [None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value for value in values]


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`; the last one may be shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
