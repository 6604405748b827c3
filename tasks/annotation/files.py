"""Annotation sheets as files: written in a chosen format, read back in any. The format of a record is recognised from
its keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
from pydantic import ValidationError

from longform.artifacts.rows import Rejected, Row, Shard, Source
from longform.errors import SourceError
from tasks.annotation import argilla, label_studio
from tasks.annotation.form import Field, Form, Task
from tasks.annotation.labelling import (
    WHOLE,
    Cells,
    Checked,
    Found,
    Labelling,
    check_all,
    listed_items,
    noun,
    rejected_for,
    task_id,
)
from tasks.annotation.sheets import PLAIN, TIMES, csv_file, jsonl, parts, records
from tasks.annotation.values import Unfit, collecting_unfit, is_answered, moment, near_misses
from tasks.sources.files.csv_cells import as_meant, csv_rows
from tasks.sources.files.inputs import open_files, raw_text
from tasks.sources.files.lines import read_lines

Format = Literal["jsonl", "csv", "plain-csv", "label-studio", "argilla"]
FORMATS: tuple[Format, ...] = get_args(Format)
ONE_FILE = {"jsonl": "sheets.jsonl", "csv": "sheets.csv", "plain-csv": "sheets.csv"}
PACKED = ("", ".gz", ".zst", ".bz2", ".xz")
ENDINGS = tuple(f"{plain}{packed}" for plain in (".json", ".jsonl", ".csv") for packed in PACKED)
MOST_ARRAY_BYTES = 1 << 30

Records = Iterator[tuple[Any, str, str]]
Rejectable = Iterator[Row | Rejected]


def sheet_files(form: Form, tasks: Sequence[Task], format: Format) -> dict[str, bytes]:
    """The files of these tasks for annotators: name -> content. Texts and fields that only other roles than annotator
    see are left out.
    """
    form = form.seen_by("annotator")
    if format == "jsonl":
        return {ONE_FILE[format]: jsonl(form, tasks)}
    if format in ONE_FILE:
        return {ONE_FILE[format]: csv_file(form, tasks, spreadsheet=format == "csv")}
    files = label_studio.files if format == "label-studio" else argilla.files
    return {
        str(Path(part.folder, name)): content
        for part in parts(form)
        for name, content in files(part, list(records(part, tasks))).items()
    }


# ---------------------------------------------------------------- files of a build


def open_sheets(
    paths: Iterable[Path | str], digest: Callable[[Path], str], *, group: str, accounts: Mapping[str, Mapping[str, str]]
) -> list[Source]:
    """The files at `paths`, whatever their names, and those in folders among them that end like JSON, JSON lines or
    CSV, compressed or not; of equal files the first, Argilla's settings not; [] without a path. `digest` returns the
    SHA-256 of a file. SourceError for a file that is missing, empty or may not be read, and for a folder without such
    a file.

    `accounts`: a file or folder as written in `paths` -> account in the tool -> annotator id. The accounts become the
    only `facts` of these files.
    """
    found: dict[str, Source] = {}
    names = {Path(place): tuple(sorted(of.items())) for place, of in accounts.items()}
    for path in map(Path, paths):
        for source in open_files([path], group=group, endings=ENDINGS, digest=digest):
            if Path(source.path).parent.name != argilla.SETTINGS:
                found.setdefault(source.sha256, replace(source, facts=names.get(path, ())))
    return list(found.values())


def read_sheets(
    form: Form, file: Shard, known: Mapping[str, Task], rows: Callable[[Iterator[Checked | Rejected]], Rejectable]
) -> Rejectable:
    """The rows that the function `rows` makes of the checked labellings in a file, among them a Rejected for each
    label that is not accepted. `known`: the tasks of this build by id.

    SourceError, after the last row, for a file that yields no row but rejected ones.
    """
    reasons, accepted = Counter[str](), 0
    for found in rows(read_file(form, file, known)):
        if isinstance(found, Rejected):
            reasons[found.reason] += 1
        else:
            accepted += 1
        yield found
    if not accepted:
        raise yields_no_label(file.source.path, reasons)


def yields_no_label(path: str, reasons: Mapping[str, int]) -> SourceError:
    """The error, for the caller to raise, for a file that the configuration names and that yields no label. `reasons`:
    reason -> number of rejected rows; the three most frequent are in the message.
    """
    most = sorted(reasons.items(), key=lambda entry: -entry[1])[:3]
    why = ", ".join(f"{reason}: {number:,}" for reason, number in most) or "it has no record"
    return SourceError(
        f"{path} yields no label ({why}), and a file that is named must hold labels of this build: "
        "give the filled-in sheets, or a tool's whole export as JSON, or leave the file out."
    )


def read_file(form: Form, file: Shard, known: Mapping[str, Task]) -> Iterator[Checked | Rejected]:
    """The checked labellings in a file, and a Rejected for each labelling or label that is not accepted. `known`: the
    tasks of this build by id. The file's `facts` are its accounts in a tool, with their annotator ids. SourceError as
    in `read_records`.
    """
    accounts = {account: str(name) for account, name in file.source.facts}
    records = read_records(form, read_lines(file), file.source.path)
    yield from check_all(form, labellings(form, records), known, accounts)


# ---------------------------------------------------------------- records of a file


def read_records(form: Form, lines: Iterator[bytes], path: str) -> Records:
    """(record or Rejected, its name such as "line 3", its text) for each record of a CSV file, of JSON lines or of one
    JSON array; blank lines and CSV rows have none. The Rejected is for a line that is not JSON or CSV. SourceError for
    JSON without a record, CSV without a needed column (also an empty file) or with too many lines that are no CSV, and
    an array that cannot be parsed or has more than MOST_ARRAY_BYTES. `path`: its ending tells CSV from JSON.
    """
    if ".csv" in Path(path.lower()).suffixes[-2:]:
        yield from _csv_records(form, lines, path)
        return
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise SourceError(f"{path} holds no record: give a file of labels.")
    every = chain([first], numbered)
    if first[1].lstrip().startswith(b"["):
        yield from _of_array((line for _, line in every), path)
    else:
        yield from (_of_line(line, f"line {number}") for number, line in every)


def _of_line(line: bytes, key: str) -> tuple[Any, str, str]:
    """(record, `key`, text) of a JSON line; a Rejected in place of the record if it is not JSON."""
    raw = raw_text(line)
    try:
        return orjson.loads(line), key, raw
    except orjson.JSONDecodeError as error:
        return Rejected(key, "defect", "unreadable line", str(error), raw), key, raw


def _of_array(lines: Iterable[bytes], path: str, most_bytes: int = MOST_ARRAY_BYTES) -> Records:
    """(record, "record 3", text) for each element of a JSON array that the lines form. SourceError if it has more than
    `most_bytes` or cannot be parsed.
    """
    held = bytearray()
    for line in lines:
        held += line + b"\n"
        if len(held) > most_bytes:
            raise SourceError(
                f"{path} is one JSON array of more than {most_bytes >> 20} MiB: cut it into smaller ones."
            )
    try:
        found = orjson.loads(held)
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{path} is no JSON array that can be read ({error}): export the labels again.") from None
    for number, record in enumerate(found, 1):
        yield record, f"record {number}", raw_text(orjson.dumps(record))


def _csv_records(form: Form, lines: Iterator[bytes], path: str) -> Records:
    """(record, "record 3", text) for each row of CSV that is not blank; the record has the form of a JSON line's.
    Columns may be in any order, their names in any case; blank rows count in the numbers. A Rejected in place of a
    record that cannot be read. SourceError if the column of the task's id, the item's id (in a form with items) or the
    annotator's id is missing, if a column is there twice, or for too many lines that are no CSV.
    """
    first = next(lines, b"")
    rows = csv_rows(chain([first], lines), path)
    headers = next(rows, None)
    names = [name.strip().lower() for name in headers] if isinstance(headers, list) else []
    needed = [form.key, *([form.item_key] if form.items else []), form.annotator]
    if missing := [name for name in needed if name not in names]:
        raise SourceError(f"{path} {_instead(first, names, missing[0])}")
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise SourceError(f'{path} has the column "{twice[0]}" twice in its first line: leave one of them out.')
    for number, cells in enumerate(rows, 1):
        key, raw = f"record {number}", raw_text("\t".join(cells)) if isinstance(cells, list) else cells.raw or ""
        if isinstance(cells, Rejected):
            yield replace(cells, key=key), key, raw
        elif any(cell.strip() for cell in cells):
            yield _of_cells(form, names, cells, key, raw), key, raw


def _instead(first: bytes, names: Sequence[str], missing: str) -> str:
    """Words for an error message: what a file without the column `missing` seems to be, and what to do. `first` is its
    first line, `names` its columns.
    """
    if b"\0" in first:
        return "is no UTF-8, but UTF-16 as it seems: save it as CSV UTF-8."
    if first.startswith(b"{"):
        return "holds JSON lines: give it the ending .jsonl."
    if "annotation_id" in names:
        return "is Label Studio's CSV, which mixes labels with the texts of the task: export JSON."
    return (
        f'has no column "{missing}" in its first line: give the sheets filled in, '
        "with the first line that `longform sheets` wrote."
    )


def _of_cells(form: Form, names: Sequence[str], cells: list[str], key: str, raw: str) -> Row | Rejected:
    """A row of CSV as a record: `names` -> cells, None for a blank cell, and `source`: csv. If the item's id is given,
    the cells of the item are in a list, as in JSON. A Rejected, with `key` and `raw`, for cells that are not
    UTF-8, and for filled cells beyond the columns. Unless a column `plain_csv` says that the file is plain CSV,
    apostrophes that protect a spreadsheet from formulas are removed.
    """
    text = "".join(cells)
    if text != text.encode("utf-8", "replace").decode():
        return Rejected(key, "defect", "no UTF-8", raw=raw)
    if any(cell.strip() for cell in cells[len(names) :]):
        return Rejected(key, "defect", "more cells than the first line", raw=raw)
    meant = cells if PLAIN in names else map(as_meant, cells)
    row: Row = {name: cell if is_answered(cell) else None for name, cell in zip(names, meant, strict=False)}
    if form.items and row[form.item_key] is not None:
        of_item = form.belongs_to_items() | {form.item_key: True}
        row[form.items] = [{name: row.pop(name) for name in names if of_item.get(name)}]
    return row | {"source": "csv"}


# ---------------------------------------------------------------- what a record says


def labellings(form: Form, records: Records) -> Iterator[tuple[Labelling | Rejected, str]]:
    """(Labelling or Rejected, text of its record) for each annotator of each record, in any format. A Rejected also
    for a record of no known form; those in `records` are passed on.
    """
    for record, key, raw in records:
        try:
            yield from ((each, raw) for each in _labellings(form, record, raw))
        except (Unfit, ValidationError) as error:
            yield rejected_for(key, raw, error), raw


def _labellings(form: Form, record: Any, raw: str) -> Found:
    """The labellings in one record of any format; a Rejected is passed on. Unfit for a record that is no JSON object
    or of an unsupported export; Unfit or ValidationError if it is ill-formed.
    """
    if isinstance(record, Rejected):
        yield record
    elif not isinstance(record, dict):
        raise Unfit("no record")
    elif "annotator" in record and "annotation_id" in record:
        raise Unfit("Label Studio's CSV or JSON-MIN: export JSON")
    elif isinstance(record.get("data"), dict):
        yield from label_studio.read_task(form, record, raw)
    elif argilla.is_record(record):
        yield from argilla.read_record(form, record, raw)
    else:
        yield _read_sheet(form, record)


def _read_sheet(form: Form, record: Row) -> Labelling:
    """The labelling in one filled-in sheet, a record of our own JSON or CSV format. Unfit for a missing task id,
    ValidationError for an ill-formed list of items. Values and `annotation_time` are not checked.

    Left out, with an Unfit in its `wrong`: an unknown key with a value that is nearly a field's name, all of an item
    whose id is given twice, and an ill-formed `labelled_at`.
    """
    task = task_id(form, record)
    items, twice = listed_items(form, record)
    wrong = [Unfit(f"{noun(form.item_key)} given twice", f"{item} of {task}") for item in twice]
    values: Cells = {}
    shown: Cells = {}
    for item, row in ((WHOLE, record), *items.items()):
        asked, others = form.asked(of_item=item != WHOLE), form.texts(of_item=item != WHOLE)
        wanted = [*(each.name for each in asked), *([] if item else [form.annotator, *TIMES])]
        known = {*wanted, *(each.name for each in others), form.key, form.item_key, *form.context, "ratings"}
        wrong += near_misses((name for name in row if is_answered(row[name])), known, wanted, item or task)
        values |= {(item, each.name): row[each.name] for each in asked if _says(each, row.get(each.name))}
        shown |= {(item, each.name): row.get(each.name) for each in others}
    source = "csv" if record.get("source") == "csv" else "jsonl"
    at = collecting_unfit(wrong, moment, "labelled_at", record.get("labelled_at"))
    who, time = record.get(form.annotator), record.get("annotation_time")
    return Labelling(source, task, who, values, shown, at, time, wrong=tuple(wrong))


def _says(field: Field, value: Any) -> bool:
    """Whether a value answers the field: it is not blank, or it is a text and the field accepts empty texts."""
    return is_answered(value) or (field.blank and isinstance(value, str))
