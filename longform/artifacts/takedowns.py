"""Takedowns: records that must not be used. `<home>/takedowns.jsonl` has one JSON object a line:

    {"id": "cooking.stackexchange.com/4711", "date": "2026-11-20", "reason": "its author asked", "added_at": "..."}

`date` is the day of the request. The file is written whole, under a lock. A line that cannot be read is an error, as an
overlooked takedown would let its record be used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from longform.addresses import page_of
from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.errors import StoreError, UsageError
from longform.files import write_bytes

FILE = "takedowns.jsonl"
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Takedown:
    """A record that must not be used: its id, the day of the request (YYYY-MM-DD), the reason, and the time it was
    added.
    """

    id: str
    date: str
    reason: str
    added_at: str


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where a taken-down record's id occurs: a column of a Parquet file. `id`: that of the record."""

    id: str
    file: Path
    column: str


def load(home: Path) -> list[Takedown]:
    """All takedowns of a home, in the order they were added; empty if there is no file. StoreError if the file is
    damaged or unreadable.
    """
    path = home / FILE
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable.") from None
    return [_read(path, number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]


def _read(path: Path, number: int, line: bytes) -> Takedown:
    """The takedown on one line of the file. StoreError if the line is no JSON object of non-empty strings, or has
    other fields than a takedown. `path` and `number`, that of the line, are for the message.
    """
    names = [field.name for field in fields(Takedown)]
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) and value for value in values.values()):
        raise StoreError(
            f"Line {number} of {path} is damaged: correct it, or put the file back from a copy; "
            "nothing is built or published until then."
        )
    if odd := sorted(set(names) ^ values.keys()):
        what = "has the unknown field" if odd[0] in values else "lacks the field"
        raise StoreError(f"Line {number} of {path} {what} {odd[0]}: it takes {', '.join(names)}; correct it.")
    return Takedown(**values)


def add(home: Path, wanted: Iterable[tuple[str, str, str]]) -> tuple[list[Takedown], list[Takedown]]:
    """Add takedowns to the file of a home, which is created if there is none; `wanted`: (id, date, reason), of which
    the first with an id counts. Returns (the takedowns that were added, those of the wanted ids that the file had
    before, which stay as they are).

    UsageError for a malformed date or an empty reason of a new id; then nothing is written. Waits PATIENCE_SECONDS
    (five minutes) for the lock, then BusyError. StoreError if the file is damaged or cannot be written.
    """
    store = Store(home)
    store.prepare()
    with store.lock("takedowns", doing="written", patience_seconds=PATIENCE_SECONDS):
        before = {takedown.id: takedown for takedown in load(home)}
        listed, wanted = dict(before), list(wanted)
        for record, day, reason in wanted:
            if record not in listed:
                added_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
                listed[record] = Takedown(record, _day(day), _checked_reason(reason), added_at)
        if len(listed) > len(before):
            lines = [json.dumps(asdict(takedown), ensure_ascii=False) + "\n" for takedown in listed.values()]
            write_bytes(home / FILE, "".join(lines).encode("utf-8", "backslashreplace"))
    known = dict.fromkeys(record for record, *_ in wanted if record in before)
    return [takedown for record, takedown in listed.items() if record not in before], [before[each] for each in known]


def _day(text: str) -> str:
    """The day as YYYY-MM-DD; UsageError if the text is no ISO date of ten characters."""
    try:
        if len(text) != 10:
            raise ValueError
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f'"{text}" is no day: write YYYY-MM-DD, e.g. 2026-11-20.') from None


def _checked_reason(reason: str) -> str:
    """The reason with single blanks for its white space and none around it; UsageError if it is empty."""
    if not reason.split():
        raise UsageError("A takedown needs its reason, e.g. --reason 'its author asked'.")
    return " ".join(reason.split())


def mentions(
    paths: Sequence[Path],
    ids: Collection[str],
    ids_of_url: Callable[[str], Collection[str | None]] = lambda url: [page_of(url)],
) -> list[Mention]:
    """The places where these Parquet files mention one of the ids: a Mention for each file, column and id, in the
    order of `paths`.

    Searched are columns of ids (strings `*_id`, lists `*_ids`; of `post#passage` only `post` counts), and columns of
    URLs: a list `x_urls` beside a list of texts `x`, without the entries whose text is only their URL, and `url` of
    texts of one's own (`source_id` own/...). `ids_of_url` gives the record ids that a URL stands for, by default
    only the id of its web page (`page_of`); None among them is ignored.
    """
    import duckdb
    import pyarrow.parquet as pq

    found: list[Mention] = []
    wanted = set(ids)
    if not ids:
        return found
    with duckdb.connect() as database:
        database.register("listed", pa.table({"id": sorted(ids)}))
        for path in paths:
            for name, values in _id_columns(pq.read_schema(path)):
                query = (
                    f"SELECT id FROM listed SEMI JOIN (SELECT {values} AS id FROM {read_parquet([path])}) USING (id)"
                )
                rows = database.execute(f"{query} ORDER BY id").fetchall()
                found += [Mention(record, path, name) for (record,) in rows]
            for name, query in _address_columns(pq.read_schema(path)):
                urls = database.execute(query.format(read_parquet([path]))).fetchall()
                named = {record for (url,) in urls for record in ids_of_url(url)}
                found += [Mention(record, path, name) for record in sorted(wanted & named)]
    return found


def _id_columns(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """(name, DuckDB expression for its ids) for each column that holds record ids: strings named `*_id`, and lists of
    strings named `*_ids`, each list item giving a row. The expression cuts `#passage` off each id.
    """
    for field in schema:
        quoted = '"' + field.name.replace('"', '""') + '"'
        if field.name.endswith("_id") and pa.types.is_string(field.type):
            yield field.name, f"split_part({quoted}, '#', 1)"
        elif field.name.endswith("_ids") and pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            yield field.name, f"split_part(unnest({quoted}), '#', 1)"


def _address_columns(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """(name, DuckDB query for its URLs) for each list `x_urls` beside a list of texts `x`, and for `url` beside
    `source_id`, of texts of one's own. The query has a `{}` for
    the table; it gives each URL once, without empty ones and those equal to their text.
    """
    for name in schema.names:
        text = name.removesuffix("_urls")
        if text != name and text in schema.names:
            pairs = f'SELECT unnest("{name}") AS url, unnest("{text}") AS text FROM {{}}'
            yield name, f"SELECT DISTINCT url FROM ({pairs}) WHERE url <> '' AND text <> url"
    if {"url", "source_id"} <= {*schema.names}:
        yield "url", "SELECT DISTINCT url FROM {} WHERE url <> '' AND starts_with(source_id, 'own/')"
