"""Cells of CSV files: by commas, semicolons or tabs, read on after what is broken, and written as no formula.

A spreadsheet takes a cell that begins with = + - @ for a formula and runs it. `harmless` puts an apostrophe before such
a text, and before one that begins with apostrophes and then so, so that `as_meant` gives every text back to the letter.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from longform.artifacts.rows import Rejected
from longform.errors import SourceError
from tasks.sources.files.found import raw_text

RECORD_CHARS = 256 << 10
MOST_BROKEN = 1_000
_FORMULA = r"(?:[\t\r]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])"
_RUNS = re.compile(rf"'*{_FORMULA}")
_MARKED = re.compile(rf"'+{_FORMULA}")


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if _RUNS.match(text) else text


def as_meant(cell: str) -> str:
    """The text that `harmless` made the cell of; of a cell that is none of its own, the cell."""
    return cell[1:] if _MARKED.match(cell) else cell


def csv_rows(lines: Iterable[bytes], subject: str, most_broken: int = MOST_BROKEN) -> Iterator[list[str] | Rejected]:
    """The cells of each record, the headers' first; bytes that are no UTF-8 as lone surrogates.

    The separator is as the first line shows. What cannot be read costs one line: reading goes on with the next.
    SourceError, which names the subject, after `most_broken` such lines: the file is something else.
    """
    texts = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    first = next(texts, "")
    separator = max(",;\t", key=first.count)
    yield from _rows(chain([first], texts), separator, subject, most_broken)


def _rows(lines: Iterator[str], separator: str, subject: str, most_broken: int) -> Iterator[list[str] | Rejected]:
    for _ in range(most_broken):
        consumed: list[str] = []
        reader = csv.reader(_bounded(lines, consumed), strict=True, delimiter=separator)
        try:
            for row in reader:
                consumed.clear()
                if row:
                    yield row
            return
        except csv.Error as error:
            lines = chain(consumed[1:], lines)
            yield Rejected("record 0", "defect", "ill-formed CSV", str(error), raw_text(consumed[0]))
    raise SourceError(f"{subject} has more than {most_broken:,} lines that are no CSV: give it as JSONL.")


def _bounded(lines: Iterator[str], consumed: list[str]) -> Iterator[str]:
    """The lines, those of the record at hand noted; csv.Error where it has more than RECORD_CHARS."""
    held = 0
    for line in lines:
        held = (held if consumed else 0) + len(line)
        consumed.append(line)
        if held > RECORD_CHARS:
            raise csv.Error("a record that does not end, as after a quote that is not closed")
        yield line
