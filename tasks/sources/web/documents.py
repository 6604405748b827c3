"""Documents to search: JSONL (plain, .gz, .zst) or Parquet, one document a record.

    {"url": "https://tea.example/steep", "title": "Steeping", "text": "Leaves are left in hot water …",
     "id": "7", "licence": "CC BY 4.0", "retrieved_at": "2024-05-01"}

`url` and `text` are required; `license` is read as `licence`; `id` is used only to name a rejected record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import xxhash

from longform.artifacts.rows import Rejected, Shard
from longform.engine.stage import StageContext
from longform.errors import SourceError, UsageError
from tasks.sources.files.inputs import moment, open_files, raw_text
from tasks.sources.files.lines import read_lines
from tasks.sources.files.parquet import is_parquet, parquet_batches
from tasks.sources.files.spellings import first_fault, is_filled_text
from tasks.sources.web.extraction import clean

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
COLUMNS = ("url", "title", "text", "id", "licence", "license", "retrieved_at")
PIECE_BYTES = 64 << 20
BATCH_ROWS = 1_000
URL_CHARACTERS, TITLE_CHARACTERS, RAW_CHARACTERS = 2_000, 500, 2_000
_RUNS_CODE = re.compile(r"(javascript|data|vbscript)\s*:", re.IGNORECASE)


class Document(NamedTuple):
    """A document of a corpus. `retrieved_at`: when it was fetched, in milliseconds since 1970; None if unknown."""

    url: str
    title: str | None
    text: str
    licence: str | None
    retrieved_at: int | None


open_corpora = partial(open_files, endings=ENDINGS, piece_bytes=PIECE_BYTES)


def document_of(record: Any, retrieved_at: int | None) -> Document | str:
    """The document of a record of a corpus; or, as a text, the reason why the record is none: `no record`, or a
    missing or ill-formed field.

    `retrieved_at`: time of retrieval, in milliseconds since 1970, of records that do not have their own. The address
    must not run code (javascript:, data:, vbscript:) or exceed URL_CHARACTERS. Address, title and licence are put on
    one line without control characters; title and licence are cut to TITLE_CHARACTERS, blank ones are None.
    """
    if not isinstance(record, dict):
        return "no record"
    licence = record.get("license") if record.get("licence") is None else record["licence"]
    has_url, has_text = (is_filled_text(record.get(name)) for name in ("url", "text"))
    url = clean(record["url"], one_line=True) if has_url else ""
    unusable = not url or len(url) > URL_CHARACTERS or _RUNS_CODE.match(url) is not None
    faults = {
        "missing or ill-formed url": not has_url or (has_text and unusable),  # a missing text is told first
        "missing or ill-formed text": not has_text,
        "missing or ill-formed title": not isinstance(record.get("title"), str | None),
        "missing or ill-formed licence": not isinstance(licence, str | None),
    }
    if fault := first_fault(faults):
        return fault
    try:
        fetched = _moment(record.get("retrieved_at"))
    except (UsageError, ValueError, OverflowError):
        return "missing or ill-formed retrieved_at"
    title = clean(record.get("title") or "", one_line=True)[:TITLE_CHARACTERS]
    licence = clean(licence or "", one_line=True)[:TITLE_CHARACTERS]
    return Document(url, title or None, record["text"], licence or None, retrieved_at if fetched is None else fetched)


def documents(context: StageContext, files: Shard) -> Iterator[Document | Rejected]:
    """The documents of a file; a Rejected for ill-formed ones, and for those whose address and text the file has had
    before. Counts documents. SourceError for a damaged file.
    """
    fetched = dict(files.source.facts).get("retrieved_at")
    retrieved, seen = None if fetched is None else moment(fetched), set[int]()
    for key, record, raw in _records(files):
        document = record if isinstance(record, str) else document_of(record, retrieved)
        if isinstance(document, str):
            yield Rejected(key, "defect", document, _named(record), raw)
            continue
        digest = xxhash.xxh3_64_intdigest(f"{document.url}\n{document.text}".encode())
        if digest in seen:
            yield Rejected(key, "filtered", "url and text seen before", document.url)
            continue
        seen.add(digest)
        context.count("documents", 1)
        yield document


def _records(files: Shard) -> Iterator[tuple[str, Any, str]]:
    """(key, record, raw text) of each record of a file, blank lines skipped. An unreadable record is the text
    "unreadable line" instead, JSON that is no object is None.
    """
    if is_parquet(Path(files.source.path)):
        yield from _parquet(files)
    else:
        lines = ((number, line) for number, line in enumerate(read_lines(files), start=1) if line.strip())
        yield from ((f"{files.key}/line {number}", _loaded(line), raw_text(line)) for number, line in lines)


def _loaded(line: bytes) -> Any:
    """The object of a line of JSON; None for other JSON, the text "unreadable line" for what is no JSON."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "unreadable line"
    return record if isinstance(record, dict) else None


def _parquet(files: Shard) -> Iterator[tuple[str, Any, str]]:
    """(key, record, raw text) of each row of a Parquet file, with the columns COLUMNS alone. SourceError for a damaged
    file, one without such a column, and a date that Python cannot hold.
    """
    number = 0
    for batch in parquet_batches(files, lambda path: path.split(".")[0] in COLUMNS, BATCH_ROWS):
        for record in _rows(batch, files):
            number += 1
            yield f"{files.key}/row {number}", record, _raw(record)


def _rows(batch: pa.RecordBatch, files: Shard) -> list[Any]:
    """The records of a batch as dicts. SourceError for a date that Python cannot hold."""
    try:
        return list(batch.to_pylist())
    except (ValueError, OverflowError) as error:
        raise SourceError(f"{files.source.path} holds a date that is none ({error}): fix its dates.") from error


def _raw(record: dict[str, Any]) -> str:
    """The record as JSON, each text and the whole cut to RAW_CHARACTERS."""
    shown = {name: value[:RAW_CHARACTERS] if isinstance(value, str) else value for name, value in record.items()}
    return json.dumps(shown, ensure_ascii=False, default=str)[:RAW_CHARACTERS]


def _named(record: Any) -> str | None:
    """The record's `id` as a text of at most 100 characters; None if it has none that is a text or whole number."""
    name = record.get("id") if isinstance(record, dict) else None
    return str(name)[:100] if isinstance(name, str | int) else None


def _moment(value: Any) -> int | None:
    """Milliseconds since 1970 of a date, with or without a time, as ISO 8601 text or Parquet value, in UTC where it
    names no zone; None for None and an empty text.

    UsageError for other texts, ValueError for other types.
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return int(value.replace(tzinfo=value.tzinfo or UTC).timestamp() * 1000)
    if isinstance(value, str | date):
        return moment(str(value))
    raise ValueError(f"{type(value).__name__} is no date")
