"""The records of a file of JSON that people write by hand: JSON lines, one array, or one object over many lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Any

import orjson

from longform.artifacts.rows import Row, Shard
from tasks.sources.files.lines import read_lines


def json_values(files: Shard) -> Iterator[tuple[Any, str]]:
    """(value, what it was read from) of each record: of each line that is not blank, of each item of the array that a
    file is, or of the one object. A line that is no JSON is a text. JSON lines are streamed if the first is an object.
    """
    lines: Iterator[bytes] = (line for line in read_lines(files) if line.strip())
    first = next(lines, b"")
    if not isinstance(_value(first), dict):
        rest = list(lines)
        whole = _value(b"\n".join([first, *rest]))
        if isinstance(whole, list | dict):
            yield from ((each, orjson.dumps(each).decode()) for each in (whole if isinstance(whole, list) else [whole]))
            return
        lines = iter(rest)
    for line in chain([first] if first else [], lines):
        yield _value(line), line.decode("utf-8", "replace")


def text_records(files: Shard) -> Iterator[tuple[str, str, Row, str]]:
    """(its place, its id or "", its fields, what it was read from) of each text of a file: of JSON (.jsonl, .json) each
    object, with its `id` or `text_id`; {} for what is none. Any other file is one text, with the file's name as its id.
    """
    name = dict(files.source.facts)["name"] or ""
    if not files.source.path.lower().endswith((".jsonl", ".json")):
        text = b"\n".join(read_lines(files)).decode("utf-8", "replace")
        yield name, name, {"text": text}, text
        return
    for number, (value, raw) in enumerate(json_values(files), start=1):
        record = value if isinstance(value, dict) else {}
        key = record.get("id", record.get("text_id"))
        yield f"{name}#{number}", "" if key is None else str(key), record, raw


def json_or_csv(files: Shard) -> Iterator[Row]:
    """The records of a file of JSON or, by its ending, CSV."""
    if files.source.path.lower().endswith(".csv"):
        text = b"\n".join(read_lines(files)).decode("utf-8-sig", "replace")
        yield from csv.DictReader(StringIO(text))
    else:
        yield from (value if isinstance(value, dict) else {} for value, _ in json_values(files))


def _value(text: bytes) -> Any:
    """The value of a JSON text; the text itself if it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.decode("utf-8", "replace")
