"""Files of drafts to measure: JSON lines, a JSON array, CSV, Parquet, or a folder of pairs.

    drafts.jsonl   {"id": "q7", "system": "b", "draft": "...", "reference": "..."}     see records.py
    drafts.csv     id,system,draft,reference,reference_2
    folder/        references/q7.txt, a/q7.txt, b/q7.txt      a folder for each system, a file for each draft
                   references/q7/one.txt, references/q7/two.txt      several references of a draft

Whatever the file, its records become one file of JSON lines in the home, so that they are read in one way, and its
content is what identifies a run:

    {"row": 1, "record": {...}}      {"row": 2, "bad": ["the line is no JSON", "{...", null]}
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longform.artifacts.rows import Row, read_batches
from longform.errors import SourceError, UsageError
from longform.files import unwritable
from longform.hints import hint
from longform.lines import beginning
from longform.machines import temporary
from tasks.revision_distance.own.records import (
    A_LINK,
    COLUMNS,
    NO_UNICODE,
    RAW_CHARACTERS,
    Bad,
    has_reference,
    records_of,
)
from tasks.sources.files.lines import BYTE_ORDER_MARK, split_lines, unpacked

LINES, ARRAY, TABLES, PARQUET = (".jsonl", ".ndjson"), (".json",), {".csv": ",", ".tsv": "\t"}, (".parquet",)
PACKED = (".gz", ".zst", ".bz2", ".xz")
REFERENCES = "references"
TEXT_ENDINGS = (".txt", ".md")
NUMBERED = "reference_"  # reference_2, reference_3, ...: further references in a table
BATCH_ROWS = 200
MOST_NAMES = 200
HAS_CHARACTERS = 400
FIELD_CHARACTERS = 64 << 20
ARRAY_BYTES = 512 << 20
TEXT_BYTES = 1 << 20

Record = tuple[int, dict[str, Any] | Bad]


@dataclass(frozen=True, slots=True)
class Kept:
    """The records of what was given, as JSON lines. `with_references`: one of them has a reference."""

    path: Path
    records: int
    with_references: bool


def keep(given: Path, folder: Path, columns: Mapping[str, str]) -> Kept:
    """Write the records of a file or a folder of pairs into `folder`, as a file named by its content, and return it.

    `columns`: one of COLUMNS -> what it is called in the file. SourceError for a file that is missing, empty, damaged
    or has no column of drafts; UsageError for another kind of file or an unknown column; StoreError where `folder`
    cannot be written to.
    """
    for name in columns:
        if name not in COLUMNS:
            raise UsageError(f'There is no column "{name}" to name; {hint(name, COLUMNS, "there are")}')
    unfinished, digest, number, with_references = folder / temporary(), hashlib.sha256(), 0, False
    seen = _Seen({*COLUMNS, *columns.values()})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            for row, record in (_renamed(seen.add(each), columns) for each in _read(given, columns)):
                line = _line(row, record)
                file.write(line)
                digest.update(line)
                number += 1
                with_references = with_references or (not isinstance(record, Bad) and has_reference(record))
        if not number:
            raise SourceError(f"{given} holds no draft, it is empty: give a file with a draft in each line or row.")
        if seen.records:
            _check_columns(given, [*seen.names], columns)
        path = folder / f"{digest.hexdigest()[:20]}.jsonl"
        os.replace(unfinished, path)
    except OSError as error:
        raise unwritable(folder, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return Kept(path, number, with_references)


@dataclass(slots=True)
class _Seen:
    """Which names the records of a file have: all of those `wanted`, and of others the first ones."""

    wanted: set[str]
    records: int = 0
    names: dict[str, None] = field(default_factory=dict)

    def add(self, record: Record) -> Record:
        """The record, noted."""
        if not isinstance(found := record[1], Bad):
            self.records += 1
            known = (name for name in found if len(self.names) < MOST_NAMES or name in self.wanted)
            self.names.update(dict.fromkeys(known))
        return record


def kept_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """The records in the lines of a file that `keep` wrote."""
    for line in lines:
        if line.strip():
            found = json.loads(line)
            yield found["row"], Bad(*found["bad"]) if "bad" in found else found["record"]


def _read(given: Path, columns: Mapping[str, str]) -> Iterator[Record]:
    """`records_in`; SourceError also where the system lets nothing be read."""
    try:
        yield from records_in(given, columns)
    except OSError as error:
        raise SourceError(
            f"{error.filename or given} cannot be read ({error.strerror}): make it readable, or leave it out."
        ) from None


def as_lines(records: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Records that are at hand, numbered from 1."""
    return ((number, dict(record)) for number, record in enumerate(records, start=1))


def records_in(given: Path, columns: Mapping[str, str]) -> Iterator[Record]:
    """The records of a file or folder, with their places from 1. Errors as of `keep`."""
    if not given.exists():
        raise SourceError(f"{given} does not exist: give a file of drafts, or a folder of pairs.")
    if given.is_dir():
        return _pairs(given)
    name = given.name.lower()
    if packing := next((ending for ending in PACKED if name.endswith(ending)), None):
        name = name.removesuffix(packing)
    ending = Path(name).suffix
    if ending in PARQUET and not packing:
        return _parquet(given, columns)
    if ending in TABLES:
        return _table(given, TABLES[ending], columns)
    if ending in ARRAY:
        return _array(given)
    if ending in LINES:
        return records_of(_without_mark(split_lines(unpacked(given), given)))
    endings = ", ".join((*LINES, *ARRAY, *TABLES, *PARQUET))
    raise UsageError(f"{given} is no file of drafts by its name: it has to end in {endings}, or be a folder of pairs.")


def _without_mark(lines: Iterator[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(BYTE_ORDER_MARK)


def _array(given: Path) -> Iterator[Record]:
    """The records of a JSON array of objects; of JSON lines, whatever the ending."""
    size = given.stat().st_size
    if size > ARRAY_BYTES:
        raise SourceError(f"{given} has {size:,} bytes, more than a JSON array may: write it as JSON lines (.jsonl).")
    content = b"".join(unpacked(given)).removeprefix(BYTE_ORDER_MARK)
    if not content.lstrip().startswith(b"["):
        yield from records_of(iter(content.split(b"\n")))
        return
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{given} is no JSON ({error}): correct it, or write a record in each line (.jsonl)."
        ) from None
    for number, each in enumerate(found, start=1):
        yield (
            number,
            each if isinstance(each, dict) else Bad("the record is no JSON object", str(each)[:RAW_CHARACTERS]),
        )


def _table(given: Path, delimiter: str, columns: Mapping[str, str]) -> Iterator[Record]:
    """The records of a CSV or TSV file, whose first row names the columns."""
    csv.field_size_limit(FIELD_CHARACTERS)
    rows = csv.reader(_text_lines(given), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_columns(given, header, columns)
        for number, values in enumerate(rows, start=1):
            if not values:
                continue
            record: Row = dict(zip(header, values, strict=False))
            if len(values) > len(header):
                yield number, Bad("more fields than columns", str(values)[:RAW_CHARACTERS])
            else:
                yield number, _with_numbered(record)
    except csv.Error as error:
        raise SourceError(f"{given} is no CSV at line {rows.line_num:,} ({error}): save it as CSV in UTF-8.") from None


def _text_lines(given: Path) -> Iterator[str]:
    """The lines of a text file with their ends, also the carriage returns within quoted fields."""
    for number, line in enumerate(split_lines(unpacked(given), given), start=1):
        try:
            yield (line if number > 1 else line.removeprefix(BYTE_ORDER_MARK)).decode() + "\n"
        except UnicodeDecodeError:
            raise SourceError(f"{given} is no UTF-8 in line {number:,}: save it as CSV in UTF-8.") from None


def _with_numbered(record: Row) -> Row:
    """A record of a table in which reference_2, reference_3 and so on are further references."""
    more = [value for name, value in record.items() if name.startswith(NUMBERED) and str(value or "").strip()]
    if not more:
        return record
    first = [record["reference"]] if str(record.get("reference") or "").strip() else []
    return {**record, "reference": None, "references": [*first, *more]}


def _parquet(given: Path, columns: Mapping[str, str]) -> Iterator[Record]:
    """The records of a Parquet file, read in small batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(given).names
        _check_columns(given, names, columns)
        wanted = [name for name in names if name in {*COLUMNS, *columns.values()} or name.startswith(NUMBERED)]
        number = 0
        for batch in read_batches(given, BATCH_ROWS, wanted):
            for record in batch.to_pylist():
                number += 1
                yield number, _decoded(_with_numbered(record))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{given} is no Parquet file that can be read ({error}): write it again.") from None


def _decoded(record: Row) -> Row | Bad:
    """A record with its bytes, which some writers of Parquet put for texts, as texts."""
    try:
        return {name: _text(value) for name, value in record.items()}
    except UnicodeDecodeError:
        return Bad("no UTF-8", "")


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _check_columns(given: Path, names: list[str], columns: Mapping[str, str]) -> None:
    """Raise SourceError if a table has no column of drafts, or lacks one that was named, if one that is read stands
    there twice, or if one that is lacking is there in other letters (`Id`).
    """
    for name in (columns.get(each, each) for each in COLUMNS):
        if names.count(name) > 1:
            raise SourceError(f"{given} has {names.count(name)} columns {name}, and one is read: rename the others.")
    for name in set(COLUMNS) - {"draft", *columns} - {*names}:
        if other := next((each for each in names if each.casefold() == name), None):
            raise SourceError(f"{given} has a column {other}, and {name} is read: add --column {name}={other}.")
    for name in ("draft", *columns):
        if columns.get(name, name) not in names:
            has = beginning(", ".join(names), HAS_CHARACTERS) if names else "no columns"
            step = "its texts to measure stand in `draft`, or say which column that is with --column draft=NAME"
            step = step if name == "draft" else f"name one of these with --column {name}=NAME, or leave that out"
            raise SourceError(f"{given} has no column {columns.get(name, name)} (it has {has}): {step}.")


def _pairs(folder: Path) -> Iterator[Record]:
    """The records of a folder of pairs: a draft is FOLDER/SYSTEM/NAME.txt, its reference FOLDER/references/NAME.txt, or
    each file in FOLDER/references/NAME/. A reference without a draft is no record.

    No link in the folder is followed, as what it leads to may be no part of what was given; a Bad record says so.
    """
    systems = sorted(each for each in folder.iterdir() if each.is_dir() and each.name != REFERENCES and _is_seen(each))
    references = folder / REFERENCES
    number = 0
    for system in systems:
        linked = system.is_symlink()
        files = [system] if linked else [each for each in system.iterdir() if each.suffix in TEXT_ENDINGS]
        for file in sorted(filter(_is_seen, files)):
            number += 1
            yield number, _linked(file, folder) if linked else _pair(file, references)
    if not number:
        raise SourceError(
            f"{folder} holds no draft: put drafts into a folder for each system, e.g. {folder}/a/letter.txt, and "
            f"references beside them, e.g. {references}/letter.txt."
        )


def _pair(file: Path, references: Path) -> dict[str, Any] | Bad:
    """The record of a draft in a file; a Bad one, which names the file, if it, or a reference, is a link or no text."""
    own, folder = references / file.stem, references.parent
    found = [references / f"{file.stem}{ending}" for ending in TEXT_ENDINGS]
    for path in (file, references, own, *found):
        if path.is_symlink():
            return _linked(path, folder)
    found += sorted(each for each in own.iterdir() if each.suffix in TEXT_ENDINGS) if own.is_dir() else []
    texts = []
    for path in (file, *(each for each in found if each.is_file() or each.is_symlink())):
        name = str(path.relative_to(folder))
        try:
            if path.is_symlink():
                return _linked(path, folder)
            if path.stat().st_size > TEXT_BYTES:
                return Bad("a file of more than 1 MB", "", name)
            texts.append(path.read_bytes().decode("utf-8-sig"))
        except UnicodeDecodeError:
            return Bad("no UTF-8", "", name)
        except OSError as error:
            return Bad("cannot be read", "", f"{name}, {error.strerror}")
    return {"id": file.stem, "system": file.parent.name, "draft": texts[0], "references": texts[1:]}


def _linked(path: Path, folder: Path) -> Bad:
    """The record of a link."""
    return Bad(A_LINK, "", str(path.relative_to(folder)))


def _is_seen(path: Path) -> bool:
    return not path.name.startswith(".")


def _renamed(record: Record, columns: Mapping[str, str]) -> Record:
    """A record with the names of COLUMNS, and nothing else."""
    row, found = record
    if isinstance(found, Bad):
        return record
    taken = {name: found.get(columns.get(name, name)) for name in COLUMNS}
    return row, {name: value for name, value in taken.items() if value is not None}


def _line(row: int, record: dict[str, Any] | Bad) -> bytes:
    """A line of the file of `keep`."""
    said = {"bad": [record.reason, record.raw, record.detail]} if isinstance(record, Bad) else {"record": record}
    try:
        return json.dumps({"row": row, **said}, ensure_ascii=False, default=str).encode() + b"\n"
    except UnicodeEncodeError:
        bad = [NO_UNICODE, str(record)[:RAW_CHARACTERS].encode(errors="replace").decode(), None]
        return json.dumps({"row": row, "bad": bad}, ensure_ascii=False).encode() + b"\n"
