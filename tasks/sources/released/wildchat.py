"""WildChat: conversations of people with ChatGPT, as Parquet (or JSON lines), one row a conversation.

    {"conversation_hash": "0f0e0d...", "model": "gpt-4-0314", "timestamp": "2023-04-09T00:02:53Z", "turn": 1,
     "language": "English", "toxic": false, "redacted": false, "hashed_ip": "...", "state": "...", "country": "...",
     "header": {"accept-language": "...", "user-agent": "..."},
     "conversation": [{"role": "user", "content": "Name a tree.", "language": "English", "toxic": false,
                       "redacted": false, "turn_identifier": 1, "hashed_ip": "...", "header": {...}, ...},
                      {"role": "assistant", "content": "Oak.", ...}],
     "openai_moderation": [...], "detoxify_moderation": [...]}

What points at a person (hashed_ip, header, state, country, of the conversation and of its turns) is never read; of a
Parquet file only the columns that rows are made of are decoded. conversation_hash is of the content: a
conversation that was opened again is listed twice under one hash, and only the earliest record is kept. The older
release calls it conversation_id and counts time in seconds. In the moderation columns every name with "/" is there
with "_" too. The repository changed content and licence under one name: toxic conversations were removed in July 2024,
some with personal data in October 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import AllRows, AtMost, StageContext, stage
from schemas.sources.conversations import CONVERSATIONS, LOGGED, TURN
from tasks.sources.files.hash_join import duplicate_positions
from tasks.sources.files.hub import origin_of
from tasks.sources.files.inputs import retrieved_at, text_or_none
from tasks.sources.files.lines import read_lines
from tasks.sources.files.parquet import is_parquet, parquet_batches, readable
from tasks.sources.files.sizes import most_bytes, most_records

GROUP = "wildchat"
LICENCE = "ODC-BY-1.0"
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")
PIECE_BYTES = 256 << 20
BATCH_ROWS = 1_000
RAW_CHARS = 2_000
IDS = ("conversation_hash", "conversation_id")
OF_CONVERSATION = ("model", "timestamp", "language", "toxic", "redacted")
OF_TURN = tuple(field.name for field in TURN)
MILLISECONDS_FROM = 100_000_000_000
LEAST = '{"conversation_id":"a","conversation":[{"role":"","content":"a"}]}'


# ---------------------------------------------------------------- one record


def conversation(record: Any, origin: Mapping[str, Any]) -> Row:
    """The row of CONVERSATIONS for one record; it is toxic or redacted if the record or one of its turns is.

    Raises ValueError, with what is wrong, if the record is no dict, has no id, has only blank turns or none, or has an
    ill-formed turn or time. `origin`: columns of the file (licence, revision, url, retrieved_at), added to the row.
    """
    if not isinstance(record, dict):
        raise ValueError("no record")
    number = _upstream_id(record)
    if number is None:
        raise ValueError("no upstream id")
    listed_turns = record.get("conversation")
    turns = [turn_of(turn) for turn in listed_turns] if isinstance(listed_turns, list) else []
    if not any(turn["content"].strip() for turn in turns):
        raise ValueError("empty conversation")
    return {
        "conversation_id": f"{GROUP}/{number}",
        "model": text_or_none(record.get("model")),
        "created": created(record.get("timestamp")),
        "language": text_or_none(record.get("language")),
        "turns": turns,
        "toxic": bool(record.get("toxic") or any(turn["toxic"] for turn in turns)),
        "redacted": bool(record.get("redacted") or any(turn["redacted"] for turn in turns)),
        **origin,
    }


def _upstream_id(record: Any) -> str | None:
    """The value of conversation_hash, else of conversation_id: the first that is a string of 1 to 200 bytes.

    None if none is.
    """
    found = [record.get(name) for name in IDS] if isinstance(record, dict) else []
    return next((value for value in found if isinstance(value, str) and 0 < len(value.encode()) <= 200), None)


def turn_of(turn: Any) -> Row:
    """One turn as CONVERSATIONS has it, without personal fields.

    Raises ValueError if `turn` is no dict, or its role or content is no string. Other fields of another type are null.
    """
    if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
        raise ValueError("turn without a role")
    if not isinstance(turn.get("content"), str):
        raise ValueError("turn without a content")
    return {
        "role": turn["role"],
        "content": turn["content"],
        "language": text_or_none(turn.get("language")),
        "toxic": _flag(turn.get("toxic")),
        "redacted": _flag(turn.get("redacted")),
    }


def _flag(value: Any) -> bool | None:
    """The value if it is True or False, else None."""
    return value if isinstance(value, bool) else None


def created(value: Any) -> datetime | None:
    """The timestamp as a datetime with a time zone (UTC if none is written); None for null.

    From a datetime, ISO 8601 text, or a number since 1970: milliseconds from MILLISECONDS_FROM on, else seconds.
    Raises ValueError for anything else.
    """
    try:
        if value is None or isinstance(value, datetime):
            return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            return when.replace(tzinfo=when.tzinfo or UTC).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value / 1_000 if abs(value) >= MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError("no timestamp")


# ---------------------------------------------------------------- reading


Item: TypeAlias = pa.RecordBatch | Row | Rejected


def conversations(piece: Shard, repeated_positions: np.ndarray, *, toxic: bool) -> Iterator[Item]:
    """Record batches of CONVERSATIONS from a shard, and a Rejected for every record that is left out.

    A broken record is a defect. Filtered are toxic ones, unless `toxic` is true, and those at `repeated_positions`
    (from 0 in the shard), which log a conversation again. In the order of the shard, except that of each batch of a
    Parquet file the records that must be converted one by one come last. A batch may be empty.
    """
    origin = {"licence": LICENCE, **origin_of(piece.source), "retrieved_at": retrieved_at(piece.source)}
    for places, item in _read(piece, origin):
        if isinstance(item, Rejected):
            yield item
            continue
        batch = item if isinstance(item, pa.RecordBatch) else pa.RecordBatch.from_pylist([item], CONVERSATIONS)
        left = _array(batch["toxic"]) & (not toxic)
        repeated = np.isin(places, repeated_positions) & ~left
        yield batch.filter(pa.array(~(left | repeated)))
        for which, reason in ((left, "toxic"), (repeated, "same conversation logged again")):
            keys = batch["conversation_id"].filter(pa.array(which)).to_pylist()
            yield from (Rejected(key, "filtered", reason) for key in keys)


Placed: TypeAlias = tuple[np.ndarray, Item]


def _read(piece: Shard, origin: dict[str, Any]) -> Iterator[Placed]:
    """(positions, item): a batch, a row or a Rejected, and the positions of its records in the shard, from 0.

    Of a Parquet file the records of a batch that need conversion one by one come after it. `origin`: columns of the
    file, added to every row.
    """
    if is_parquet(Path(piece.source.path)):
        with readable(piece):
            yield from _of_parquet(piece, origin)
        return
    for position, line in enumerate(read_lines(piece)):
        record = _document(line)
        no_json = Rejected(f"{GROUP}/?{xxhash.xxh3_64_hexdigest(line)}", "defect", "no JSON")
        yield np.array([position]), no_json if record is None else _row(record, origin)


def _document(line: bytes) -> Any:
    """The JSON value of a line; None if the line is not JSON, or is null."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _row(record: Any, origin: dict[str, Any]) -> Row | Rejected:
    """The row of CONVERSATIONS for a record; a Rejected (a defect) if it is broken.

    Its raw text has only fields that identify no person.
    """
    try:
        return conversation(record, origin)
    except ValueError as error:
        raw = _raw(record)
        number = _upstream_id(record) or f"?{xxhash.xxh3_64_hexdigest(raw.encode())}"
        return Rejected(f"{GROUP}/{number}", "defect", str(error), raw=raw[:RAW_CHARS])


def _raw(record: Any) -> str:
    """Python's notation of the record without fields that identify a person, for a Rejected.

    "None" if the record is no dict, "nested too deep" if it cannot be written.
    """
    try:
        return repr(_public(record))
    except RecursionError:
        return "nested too deep"


def _public(record: Any) -> Any:
    """The fields of a record and of its turns that rows are made of, none of which identifies a person.

    None if it is no dict.
    """
    if not isinstance(record, dict):
        return None
    kept = {name: record[name] for name in (*IDS, *OF_CONVERSATION) if name in record}
    turns = record.get("conversation")
    if isinstance(turns, list):
        kept["conversation"] = [{name: turn.get(name) for name in OF_TURN} for turn in turns if isinstance(turn, dict)]
    return kept


# ---------------------------------------------------------------- Parquet, by columns

_COLUMNS = {
    **dict.fromkeys((*IDS, "model", "language"), pa.string()),
    **dict.fromkeys(("toxic", "redacted"), pa.bool_()),
    "conversation": pa.list_(pa.struct([(field.name, field.type) for field in TURN])),
}


def _of_parquet(piece: Shard, origin: dict[str, Any]) -> Iterator[Placed]:
    """(positions, item) as `_read` yields them, for a Parquet file.

    Records that `_rows` says are sound become batches; each of the others is converted by itself, to a row or a
    Rejected. So are all records of a batch without a column `timestamp` of a timestamp type.
    """
    start = 0
    for batch in parquet_batches(piece, _is_read, BATCH_ROWS):
        places, good = np.arange(start, start + len(batch)), np.zeros(len(batch), bool)
        if _has_times(batch):
            rows, good = _rows(batch, origin)
            yield places[good], rows.filter(pa.array(good))
        for position, record in zip(places[~good], batch.filter(pa.array(~good)).to_pylist(), strict=True):
            yield np.array([position]), _row(record, origin)
        start += len(batch)


def _is_read(path: str) -> bool:
    """Whether rows need the Parquet column of this path, e.g. conversation.list.element.content.

    Those are ids, the fields OF_CONVERSATION, and of turns the fields OF_TURN.
    """
    first, *inner = path.split(".")
    if first != "conversation":
        return not inner and first in (*IDS, *OF_CONVERSATION)
    return bool(inner) and inner[-1] in OF_TURN and "header" not in inner


def _has_times(batch: pa.RecordBatch) -> bool:
    """Whether the batch has a column `timestamp` of a timestamp type."""
    return "timestamp" in batch.schema.names and pa.types.is_timestamp(batch["timestamp"].type)


def _rows(batch: pa.RecordBatch, origin: dict[str, Any]) -> tuple[pa.RecordBatch, np.ndarray]:
    """(rows of CONVERSATIONS for all records of the batch, for each whether it is sound); rows not sound are useless.

    Sound is a record with an id of 1 to 200 bytes, a role and a content in every turn, and a turn that is not blank in
    its first 100 characters. The column `timestamp` must have a timestamp type. `origin`: columns of the file, added
    to every row.
    """
    read = {name: _column(batch, name) for name in _COLUMNS}
    ids, turns = _ids(batch), read["conversation"]
    flat, parents = turns.flatten(), pc.list_parent_indices(turns).to_numpy()
    fields = dict(zip(OF_TURN, flat.flatten(), strict=True))

    def any_turn(flags: pa.BooleanArray) -> np.ndarray:
        """For each conversation of the batch, whether `flags` (one for each turn) is true for one of its turns."""
        found = np.zeros(len(batch), bool)
        found[parents[_array(flags)]] = True
        return found

    worded = pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(fields["content"], 0, 100))), 0)
    broken = pc.or_(pc.is_null(fields["content"]), pc.is_null(fields["role"]))
    known = _array(pc.and_(pc.greater(pc.binary_length(ids), 0), pc.less_equal(pc.binary_length(ids), 200)))
    flags = {name: _array(read[name]) | any_turn(fields[name]) for name in ("toxic", "redacted")}
    inner = [*{**fields, "language": _filled(fields["language"])}.values()]
    offsets = np.append([0], np.cumsum(pc.fill_null(pc.list_value_length(turns), 0))).astype(np.int32)
    found = {
        "conversation_id": pc.binary_join_element_wise(f"{GROUP}/", ids, ""),
        "model": _filled(read["model"]),
        "created": batch["timestamp"].cast(CONVERSATIONS.field("created").type, safe=False),
        "language": _filled(read["language"]),
        "turns": pa.ListArray.from_arrays(
            pa.array(offsets), pa.StructArray.from_arrays(inner, fields=list(TURN)), CONVERSATIONS.field("turns").type
        ),
        **{name: pa.array(values) for name, values in flags.items()},
        **{n: pa.repeat(pa.scalar(value, CONVERSATIONS.field(n).type), len(batch)) for n, value in origin.items()},
    }
    rows = pa.RecordBatch.from_arrays([found[name] for name in CONVERSATIONS.names], schema=CONVERSATIONS)
    return rows, known & ~any_turn(broken) & any_turn(worded)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column, cast to its type in _COLUMNS; all null if the batch has no such column.

    So is a missing field of a turn.
    """
    return batch[name].cast(_COLUMNS[name]) if name in batch.schema.names else pa.nulls(len(batch), _COLUMNS[name])


def _ids(batch: pa.RecordBatch) -> pa.StringArray:
    """The upstream ids: conversation_hash, or conversation_id where that is null."""
    return pc.coalesce(*(_column(batch, name) for name in IDS))


def _filled(texts: pa.StringArray) -> pa.StringArray:
    """The texts, with null in place of empty ones."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _array(flags: pa.BooleanArray) -> np.ndarray:
    """The flags as a numpy array, with False in place of null."""
    values: np.ndarray = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return values


# ---------------------------------------------------------------- stages


@stage(LOGGED, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", "")))
def list_conversations(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Row]:
    """A row of LOGGED for each record, also for a broken one: the conversation's id, and when it was logged.

    The id is empty if the record has none; the time is null if it is missing or unreadable.
    """
    if is_parquet(Path(files.source.path)):
        with readable(files):
            yield from map(_listed, parquet_batches(files, lambda path: path in (*IDS, "timestamp"), BATCH_ROWS))
    else:
        yield from (_logged(_document(line)) for line in read_lines(files))


def _listed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of LOGGED for the records of a batch; the id is empty if a record has none."""
    if not _has_times(batch):
        return pa.RecordBatch.from_pylist([_logged(record) for record in batch.to_pylist()], LOGGED)
    known = pc.binary_join_element_wise(f"{GROUP}/", _filled(_ids(batch)), "")
    created = batch["timestamp"].cast(LOGGED.field("created").type, safe=False)
    return pa.RecordBatch.from_arrays([pc.fill_null(known, ""), created], schema=LOGGED)


def _logged(record: Any) -> Row:
    """The row of LOGGED for a record.

    Its id is empty if the record has none, its time null then or if it is unreadable.
    """
    number = _upstream_id(record)
    try:
        when = created(record.get("timestamp")) if number else None
    except ValueError:
        when = None
    return {"logged_id": f"{GROUP}/{number}" if number else "", "created": when}


@stage(
    CONVERSATIONS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", LEAST), keeps=True)
)
def read_conversations(
    context: StageContext, files: Shard, logged: AllRows, *, toxic: bool
) -> Iterator[pa.RecordBatch | Rejected]:
    """Conversations of the file, without personal fields. Of records with one id only the earliest may stay.

    Of equally early ones it is the first by file and position; the others are Rejected (filtered), as are toxic ones
    unless `toxic` is true; broken ones are Rejected (defects). If the earliest is toxic or broken, none stays.
    `logged`: the rows of `list_conversations` for all files, of which ids and times are compared, on disk if they do
    not fit into memory.
    """
    again = duplicate_positions(
        logged.paths, context.scratch(), same="logged_id", keep_order="created", memory_limit_mb=512
    )
    here = next(str(logged.store.rows_path(part)) for part in logged.parts or () if part.key == files.key)
    yield from conversations(files, again[here], toxic=toxic)
