"""Sheets of the expert study: two paragraphs on the same papers, side by side, and what an expert says of them.

One sheet is one line, or one row of a spreadsheet; what nobody filled in yet is null, or an empty cell:

    {"sheet_id": "s_4f…", "case_id": "hard/acl/2020.acl-main.7#3", "title": "On Tea", "abstract": "We boil water.",
     "cited": ["Kettles", "Leaves"], "text_a": "…", "text_b": "…",
     "expert": null, "better": null, "content_a": null, "content_b": null, "structure_a": null, "structure_b": null,
     "argument_a": null, "argument_b": null}

`expert` is a number or a pseudonym, `better` A, B or neither, the others 1 to 5 or nothing. No sheet says which system
wrote which text, or what became of it. `sheet_id` names the two drafts whichever of them is text A, which is drawn by a
hash of seed and sheet: read back, the texts themselves tell it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

import orjson

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row
from tasks.sources.files.csv_cells import harmless

SYSTEMS = ("vanilla", "cot")
RATED = ("content", "structure", "argument")
RATINGS = tuple(f"{name}_{side}" for name in RATED for side in "ab")
FILLED_IN = ("expert", "better", *RATINGS)
COLUMNS = ("sheet_id", "case_id", "title", "abstract", "cited", "text_a", "text_b", *FILLED_IN)
SHOWN = ("draft_id", "case_id", "system", "title", "abstract", "cited", "draft")
MOST = 20
FORMATS = ("jsonl", "csv")
MARK = "\ufeff"  # without it spreadsheets take UTF-8 for something else


def sheets(drafts: Iterable[Row], *, most: int = MOST, seed: int = 0) -> list[Row]:
    """A sheet for each of at most so many cases, empty, in the order they are drawn in: by hash of seed and case.

    `drafts`: rows of PUBLISHED_DRAFTS, with the columns SHOWN at least. A smaller draw begins a larger one.
    """
    drawn = sorted(pairs(drafts), key=lambda pair: _drawn(pair, seed))
    return [sheet(*sides(pair, seed)) for pair in drawn[:most]]


def pairs(drafts: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """The two systems' drafts of each case that has both; those that read the same are no choice."""
    of_case: dict[str, dict[str, Row]] = {}
    for draft in drafts:
        if draft["system"] in SYSTEMS:
            of_case.setdefault(draft["case_id"], {})[draft["system"]] = draft
    for found in of_case.values():
        if len(found) == len(SYSTEMS):
            first, second = (found[system] for system in SYSTEMS)
            if folded(first["draft"]) != folded(second["draft"]):
                yield first, second


def folded(text: str) -> str:
    """What a spreadsheet leaves of a text: white space does not count."""
    return " ".join(text.split())


def sheet_id(one: str, other: str) -> str:
    """Of the two drafts with these ids, in whichever order."""
    return f"s_{fingerprint(sorted([one, other]))}"


def sides(pair: tuple[Row, Row], seed: int) -> tuple[Row, Row]:
    """Text A and text B."""
    name = sheet_id(*(draft["draft_id"] for draft in pair))
    first, second = sorted(pair, key=lambda draft: str(draft["draft_id"]))
    return (first, second) if key_hash(f"side\x1f{seed}\x1f{name}") & 1 else (second, first)


def _drawn(pair: tuple[Row, Row], seed: int) -> tuple[int, str]:
    case_id = pair[0]["case_id"]
    return key_hash(f"{seed}\x1f{case_id}"), case_id


def sheet(first: Row, second: Row) -> Row:
    return {
        "sheet_id": sheet_id(first["draft_id"], second["draft_id"]),
        **{name: first[name] for name in ("case_id", "title", "abstract")},
        "cited": [paper["title"] for paper in first["cited"] if paper["title"]],
        "text_a": first["draft"],
        "text_b": second["draft"],
        **dict.fromkeys(FILLED_IN),
    }


def sheet_file(found: Sequence[Row], format: str) -> bytes:
    """JSON lines; or CSV with a byte order mark, titles one a line, and no cell that a spreadsheet would run."""
    if format == "jsonl":
        return b"".join(orjson.dumps(one) + b"\n" for one in found)
    written = io.StringIO(newline="")
    lines = csv.writer(written)
    lines.writerow(COLUMNS)
    lines.writerows([harmless(_cell(one[name])) for name in COLUMNS] for one in found)
    return (MARK + written.getvalue()).encode()


def _cell(value: str | list[str] | None) -> str:
    return "\n".join(value) if isinstance(value, list) else value or ""
