"""Judgements of experts: filled-in sheets read back, as JSON lines or as CSV, of one expert or of several in one file.

A sheet counts where it is of two drafts of this build: it is found by its `sheet_id`, and its texts are compared (white
space aside), which also tells which of the drafts is text A. See tasks/revision_distance/sheets/sheets.py for the form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, Source
from longform.engine.stage import Shard, StageContext, stage
from longform.errors import SourceError
from schemas.revision_distance import JUDGEMENTS
from tasks.revision_distance.sheets.sheets import FILLED_IN, RATED, SYSTEMS, folded, pairs, sheet_id
from tasks.sources.files.csv_cells import as_meant, csv_rows
from tasks.sources.files.found import open_files, raw_text
from tasks.sources.files.lines import read_lines

GROUP = "judgements"
ENDINGS = tuple(f"{plain}{packed}" for plain in (".jsonl", ".csv") for packed in ("", ".gz", ".zst", ".bz2", ".xz"))
CALLED = {"a": 0, "b": 1, "neither": None}
TWICE = "the expert has judged this sheet already"
LONGEST_EXPERT = 64
_RATING = re.compile(r"([1-5])(?:[.,]0+)?")
_NUMBERED = re.compile(r"([0-9]+)[.,]0+")

Pair = tuple[Row, Row]


def open_judgements(paths: Iterable[Path | str], digest: Callable[[Path], str]) -> list[Source]:
    """Files of filled-in sheets, and those in folders: JSON lines or CSV, plain or packed."""
    return open_files(paths, group=GROUP, endings=ENDINGS, digest=digest)


class Unfit(ValueError):
    """A judgement that cannot be taken: `reason`, and the words in question."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


# ---------------------------------------------------------------- one sheet


def judgement_row(record: Row, known: dict[str, Pair]) -> Row | None:
    """The row of JUDGEMENTS; None of a sheet that nobody filled in; Unfit for what is no judgement of this build.

    `known`: sheet_id -> its drafts. An `expert` alone is no judgement: whoever handed out the sheets may have put it.
    """
    if not any(_said(record.get(name)) for name in FILLED_IN if name != "expert"):
        return None
    name, expert = record.get("sheet_id"), _expert(record.get("expert"))
    if not isinstance(name, str) or name not in known:
        raise Unfit("no sheet of this build", None if name is None else str(name)[:80])
    drafts = _sides(record, known[name])
    place = _better(record.get("better"))
    return {
        "judgement_id": f"j_{fingerprint([name, expert])}",
        "sheet_id": name,
        "case_id": drafts[0]["case_id"],
        "expert": expert,
        "better": None if place is None else drafts[place]["draft_id"],
        **{rated: _ratings(record, rated) for rated in RATED},
        "first": drafts[0]["draft_id"],
        "second": drafts[1]["draft_id"],
    }


def _said(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def _expert(value: Any) -> str:
    """A pseudonym, or a whole number without the .0 that pandas adds to a column with empty cells."""
    if not _said(value):
        raise Unfit("no expert")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit("ill-formed expert", str(value)[:80])
    name = str(value).strip()
    if whole := _NUMBERED.fullmatch(name):
        name = whole[1]
    elif isinstance(value, float):
        raise Unfit("ill-formed expert", name)
    if len(name) > LONGEST_EXPERT or not name.isprintable() or "@" in name:
        raise Unfit("ill-formed expert", f"a number or a pseudonym of at most {LONGEST_EXPERT} characters")
    return name


def _sides(record: Row, pair: Pair) -> Pair:
    """Text A and text B, by the texts of the sheet."""
    texts = tuple(folded(text) if isinstance(text := record.get(name), str) else "" for name in ("text_a", "text_b"))
    for first, second in (pair, pair[::-1]):
        if texts == (folded(first["draft"]), folded(second["draft"])):
            return first, second
    raise Unfit("texts that are not those of this build")


def _better(value: Any) -> int | None:
    word = value.strip().lower() if isinstance(value, str) else value
    if not _said(value):
        raise Unfit("no better text named", "A, B or neither")
    if not isinstance(word, str) or word not in CALLED:
        raise Unfit("better is none of A, B and neither", str(value)[:80])
    return CALLED[word]


def _ratings(record: Row, rated: str) -> list[int]:
    """1 to 5, of both texts; empty where none is given."""
    given = [record.get(f"{rated}_{side}") for side in "ab"]
    if not any(map(_said, given)):
        return []
    if not all(map(_said, given)):
        raise Unfit("a rating of one text only", rated)
    return [_rating(value, rated) for value in given]


def _rating(value: Any, rated: str) -> int:
    found = None if isinstance(value, bool) else _RATING.fullmatch(str(value).strip())
    if found is None:
        raise Unfit("a rating that is none of 1 to 5", f"{rated} {str(value)[:80]!r}")
    return int(found[1])


# ---------------------------------------------------------------- files


def parse_judgements(
    records: Iterable[tuple[Row | Rejected | None, str]], known: dict[str, Pair]
) -> Iterator[Row | Rejected]:
    """Rows of JUDGEMENTS, and a Rejected for each record that is none. `records`: each with its text; None: blank."""
    taken: set[str] = set()
    for number, (record, raw) in enumerate(records, 1):
        item = _item(record, raw, f"record {number}", known)
        if isinstance(item, dict) and item["judgement_id"] in taken:
            item = Rejected(item["judgement_id"], "defect", TWICE, raw=raw)
        taken |= {item["judgement_id"]} if isinstance(item, dict) else set()
        yield item


def _item(record: Row | Rejected | None, raw: str, key: str, known: dict[str, Pair]) -> Row | Rejected:
    if isinstance(record, Rejected):
        return replace(record, key=key)
    if record is not None and isinstance(name := record.get("sheet_id"), str) and name in known:
        key = name
    try:
        row = judgement_row(record, known) if record is not None else None
    except Unfit as error:
        named = error.reason == "ill-formed expert"  # which may be a name: it is written down nowhere
        return Rejected(key, "defect", error.reason, error.detail, None if named else raw)
    return row or Rejected(key, "filtered", "not filled in")


def jsonl_records(lines: Iterable[bytes]) -> Iterator[tuple[Row | Rejected | None, str]]:
    for line in lines:
        raw = raw_text(line)
        try:
            record = orjson.loads(line) if line.strip() else None
        except orjson.JSONDecodeError as error:
            yield Rejected("", "defect", "ill-formed JSON", str(error), raw), raw
            continue
        yield (
            (record if record is None or isinstance(record, dict) else Rejected("", "defect", "no sheet", raw=raw)),
            raw,
        )


def csv_records(lines: Iterable[bytes], subject: str) -> Iterator[tuple[Row | Rejected | None, str]]:
    """By the headers, in whatever order; columns of other names are not read."""
    first, lines = _first_line(lines)
    rows = csv_rows(chain([first], lines), subject)
    headers = next(rows, Rejected("", "defect", ""))
    columns = headers if isinstance(headers, list) else []
    columns = [column.strip().lower() for column in columns]
    if missing := [name for name in ("sheet_id", "text_a", "text_b", "expert", "better") if name not in columns]:
        raise SourceError(f"{subject} {_instead(first, missing[0])}")
    for row in rows:
        yield (row, row.raw or "") if isinstance(row, Rejected) else _of_cells(columns, row)


def _first_line(lines: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    rest = iter(lines)
    return next(rest, b""), rest


def _instead(first: bytes, missing: str) -> str:
    """What a first line without that column is, and what to do."""
    if b"\0" in first:
        return "is no UTF-8, but UTF-16 as it seems: save it as CSV UTF-8."
    if first.startswith(b"{"):
        return "holds JSON lines: give it the ending .jsonl."
    return (
        f'has no column "{missing}" in its first line: give the sheets filled in, '
        "with the first line that `longform sheets` wrote."
    )


def _of_cells(columns: list[str], cells: list[str]) -> tuple[Row | Rejected | None, str]:
    raw = raw_text("\t".join(cells))
    if not any(cell.strip() for cell in cells):
        return None, raw
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        return Rejected("", "defect", "no UTF-8", raw=raw), raw
    if any(cell.strip() for cell in cells[len(columns) :]):
        return Rejected("", "defect", "more cells than the first line", raw=raw), raw
    return {column: as_meant(cell) for column, cell in zip(columns, cells, strict=False)}, raw


# ---------------------------------------------------------------- stages


@stage(JUDGEMENTS, revision=1)
def read_judgements(context: StageContext, files: Shard, drafts: AllRows) -> Iterator[Row | Rejected]:
    """What experts said of pairs of drafts, of one file."""
    lines, path = read_lines(files), files.source.path
    records = csv_records(lines, path) if ".csv" in Path(path.lower()).suffixes[-2:] else jsonl_records(lines)
    yield from parse_judgements(records, sheets_of(drafts))


def sheets_of(drafts: Rows) -> dict[str, Pair]:
    """sheet_id -> the two drafts that it can be of."""
    columns = ["draft_id", "case_id", "system", "text"]
    rows = (
        {**row, "draft": row["text"]}
        for batch in drafts.batches(columns)
        for row in batch.to_pylist()
        if row["system"] in SYSTEMS
    )
    return {sheet_id(first["draft_id"], second["draft_id"]): (first, second) for first, second in pairs(rows)}


@stage(JUDGEMENTS, revision=1)
def collect_judgements(context: StageContext, judgements: AllRows) -> Iterator[Row | Rejected]:
    """The judgements of all files: of an expert who judged a sheet in several of them the first."""
    taken: set[str] = set()
    for row in judgements:
        if row["judgement_id"] in taken:
            yield Rejected(row["judgement_id"], "defect", TWICE, raw=orjson.dumps(row).decode())
        else:
            taken.add(row["judgement_id"])
            yield row
