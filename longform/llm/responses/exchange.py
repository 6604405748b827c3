"""Stored responses as one Parquet file, which is published with a dataset, so that it can be rebuilt without any call.

    key 64 hex digits | created | endpoint | model | task | prompt | state | ... | request | response

The rows are sorted by key, and the same responses give the same bytes. The file has no HTTP headers, request ids or
account keys. An import need not trust the file: a file with a row whose key does not match its request is refused, so
that no answer can be passed off as the answer to another question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longform.errors import UsageError
from longform.files import full, sync, unwritable
from longform.llm.ask.keys import KEY_VERSION, canonical, key_of
from longform.llm.responses.records import REPLY, TOMBSTONE, Record
from longform.llm.responses.store import ResponseStore
from longform.machines import temporary
from schemas import column

FORMAT = "1"
FORMAT_NAME, KEYS_NAME = b"longform.responses", b"longform.key_version"
GROUP_ROWS = 10_000
GROUP_BYTES = 32 << 20
READ_ROWS = 500
SAMPLES, ATTEMPTS = 1_024, 4
PATHS = ("/chat/completions", "/embeddings", "/responses")
HEX = re.compile(r"[0-9a-f]{64}")


SCHEMA = pa.schema(
    [
        column("key", pa.string(), "sha256 of the request, which sample and which attempt it is, as 64 hex digits"),
        column("created", pa.timestamp("ms", tz="UTC"), "when it was stored"),
        column("endpoint", pa.string(), "name of the endpoint in the config"),
        column("model", pa.string(), "model that was asked for"),
        column("task", pa.string(), "what for"),
        column("prompt", pa.string(), "hash of the prompt file; empty where there is none"),
        column("state", pa.int8(), "0 a reply, 1 a tombstone: the request can never be answered"),
        column("code", pa.string(), "of a tombstone: the kind of failure", null=True),
        column("finish", pa.string(), "why the model stopped, in its words", null=True),
        column("served_model", pa.string(), "model that says it answered", null=True),
        column("fingerprint", pa.string(), "the provider's name for its configuration", null=True),
        column("input_tokens", pa.int64(), "tokens of the prompt", null=True),
        column("cached_tokens", pa.int64(), "of these, tokens the provider had cached", null=True),
        column("output_tokens", pa.int64(), "tokens of the reply", null=True),
        column("reasoning_tokens", pa.int64(), "of these, tokens not shown", null=True),
        column("token_limit", pa.int64(), "most tokens the reply was allowed", null=True),
        column("milliseconds", pa.int64(), "from sending to the whole reply", null=True),
        column("cost_nano", pa.int64(), "price in billionths of a US dollar; null: unknown", null=True),
        column("batch", pa.bool_(), "whether it was asked in a batch"),
        column("request", pa.binary(), "JSON that was sent, without what does not change the reply"),
        column("response", pa.binary(), "bytes as they came; of a tombstone the message"),
    ],
    metadata={FORMAT_NAME: FORMAT, KEYS_NAME: str(KEY_VERSION)},
)
_PLAIN = [
    field.name for field in SCHEMA if field.name not in ("key", "created", "state", "batch", "request", "response")
]
_REPEATED = ["endpoint", "model", "task", "prompt", "state", "code", "finish", "served_model", "fingerprint"]


def export_parquet(store: ResponseStore, path: Path, keys: Collection[str] | None = None) -> int:
    """Write all stored responses to the file, or those of `keys` that are stored; returns how many. The file appears
    only when it is complete. UsageError where it cannot be written, StoreError where the disk is full.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name the file to write.")
    beside = path.with_name(temporary())
    try:
        rows = _write(beside, store.scan(keys))
        beside.replace(path)
    except OSError as error:
        if full(error):
            raise unwritable(path, error) from None
        raise UsageError(f"Cannot write {path} ({error.strerror or error}): give another file.") from None
    finally:
        beside.unlink(missing_ok=True)
    return rows


def _write(path: Path, records: Iterable[tuple[str, Record]]) -> int:
    """Write the records to a new Parquet file, flush it to disk, and return how many rows it has."""
    with pq.ParquetWriter(
        path,
        SCHEMA,
        compression="zstd",
        use_dictionary=_REPEATED,
        write_statistics=["key", "created"],
        write_page_checksum=True,
    ) as writer:
        for rows in _groups(records):
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), row_group_size=GROUP_ROWS)
    sync(path)
    return int(pq.read_metadata(path).num_rows)


def _groups(records: Iterable[tuple[str, Record]]) -> Iterator[list[dict[str, Any]]]:
    """The records as rows, in lists for one Parquet row group each: GROUP_ROWS rows, or fewer as soon as their
    requests and replies come to GROUP_BYTES.
    """
    rows: list[dict[str, Any]] = []
    size = 0
    for key, record in records:
        rows.append(_row(key, record))
        size += len(record.request) + len(record.body)
        if len(rows) == GROUP_ROWS or size >= GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _row(key: str, record: Record) -> dict[str, Any]:
    """The row of a record, with `created` in milliseconds since 1970."""
    return {
        **{name: _text(getattr(record, name)) for name in _PLAIN},
        "key": key,
        "created": round((record.created or 0) * 1000),
        "state": record.state,
        "batch": record.batch,
        "request": record.request,
        "response": record.body,
    }


def _text(value: Any) -> Any:
    """A string with "?" for each half of a surrogate pair, which a server may send and UTF-8 cannot encode; any other
    value unchanged.
    """
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def import_parquet(store: ResponseStore, path: Path) -> tuple[int, int]:
    """Add the responses in a file to the store. Returns (new, present): how many were added, and how many keys were in
    the store already, whose records are unchanged.

    All rows are checked before any is stored. UsageError where the file is missing, no export that this release can
    import, damaged, or has a row whose key does not match its request or whose state is unknown.
    """
    with _opened(path) as file:
        for row in _rows(file):
            _check(path, row)
        added = store.add((row["key"], _record(row)) for row in _rows(file))
        return added, file.metadata.num_rows - added


def check_export(path: Path) -> None:
    """Raise UsageError where the file is missing, or no export that this release can import. Its rows are not looked
    at.
    """
    with _opened(path):
        pass


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """The open file, its schema checked. UsageError where it is missing or no export that this release can import, or
    where reading it in the block fails.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_schema(path, file.schema_arrow)
            yield file
    except FileNotFoundError:
        raise UsageError(f"There is no {path}: give a file that `longform responses export` made.") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} cannot be read as an export of responses ({why}): fetch it again.") from None


def _check_schema(path: Path, schema: pa.Schema) -> None:
    """Raise UsageError where the schema is not that of an export, or is of another version of the format or of the
    keys.
    """
    metadata = schema.metadata or {}
    form, key_version = (metadata.get(name, b"").decode("utf-8", "replace") for name in (FORMAT_NAME, KEYS_NAME))
    if not form:
        raise UsageError(f"{path} is no export of responses: give a file that `longform responses export` made.")
    if (form, key_version) != (FORMAT, str(KEY_VERSION)):
        raise UsageError(
            f"{path} has format {form} and keys of version {key_version or 'unknown'}; this release imports "
            f"format {FORMAT} with keys of version {KEY_VERSION}: use the release that wrote it."
        )
    if not schema.equals(SCHEMA):
        names = [field.name for field in SCHEMA if field not in list(schema)] or ["the order of columns"]
        raise UsageError(f"{path} is not as an export is written: see {', '.join(names)}. Fetch it again.")


def _rows(file: pq.ParquetFile) -> Iterator[dict[str, Any]]:
    """Each row as a dict, with `created` in milliseconds since 1970."""
    for batch in file.iter_batches(batch_size=READ_ROWS):
        created = batch.column("created").cast(pa.int64()).to_pylist()
        for row, milliseconds in zip(batch.drop_columns(["created"]).to_pylist(), created, strict=True):
            yield {**row, "created": milliseconds}


def _check(path: Path, row: dict[str, Any]) -> None:
    """Raise UsageError where the row's key is not that of its request, or its key or state is malformed."""
    if not HEX.fullmatch(row["key"]):
        raise UsageError(f"{path} has a row whose key is not 64 hex digits: nothing was imported.")
    if row["state"] not in (REPLY, TOMBSTONE):
        raise UsageError(f"{path} has state {row['state']} at key {row['key']}, not 0 or 1: nothing was imported.")
    if not _asks(row["request"], row["endpoint"], row["key"]):
        raise UsageError(
            f"{path} holds at key {row['key']} a request of another key, so it was altered: nothing was imported."
        )


def _asks(request: bytes, endpoint: str, key: str) -> bool:
    """Whether `key` is the key of this request to the endpoint of this name, as any of SAMPLES samples and any of
    ATTEMPTS attempts.

    The canonical form of the body is tried as well: an older release stored it in the order in which it was sent.
    """
    try:
        sent = request.decode()
        if _is_key(sent, endpoint, key, 1):
            return True
        document = json.loads(sent)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    forms = {sent, canonical(document)}
    return any(_is_key(form, endpoint, key, samples) for samples in (1, SAMPLES) for form in forms)


def _is_key(sent: str, endpoint: str, key: str, samples: int) -> bool:
    """Whether `key` is that of this body, for any of the first `samples` samples, any attempt and any path."""
    return any(
        key_of(endpoint, path, sent, sample=sample, attempt=attempt) == key
        for sample, attempt, path in product(range(samples), range(ATTEMPTS), PATHS)
    )


def _record(row: dict[str, Any]) -> Record:
    """The record of a row of an export."""
    return Record(
        **{name: row[name] for name in _PLAIN},
        state=row["state"],
        batch=row["batch"],
        request=row["request"],
        body=row["response"],
        created=row["created"] / 1000,
    )
