"""Cells of CSV files: reading that goes on after ill-formed lines, and writing that no spreadsheet takes for a formula.

A spreadsheet takes a cell that begins with = + - @ for a formula and runs it. `harmless` puts an apostrophe before such
a text, and before one that begins with apostrophes and then such a sign: so `as_meant` restores every text exactly.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from longform.artifacts.rows import Rejected
from longform.errors import SourceError
from tasks.sources.files.inputs import raw_text

RECORD_CHARS = 256 << 10
MOST_BROKEN = 1_000
_FORMULA = r"(?:[\t\r]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])"
_RUNS = re.compile(rf"'*{_FORMULA}")
_MARKED = re.compile(rf"'+{_FORMULA}")


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: the text, with an apostrophe before it if it begins as a formula
    does, or has only apostrophes before such a beginning. A formula begins with = + - or @ (also full-width, and after
    white space), or with a tab or carriage return.
    """
    return f"'{text}" if _RUNS.match(text) else text


def as_meant(cell: str) -> str:
    """Undoes `harmless`: the cell without its first apostrophe if what follows its apostrophes begins as a formula
    does; any other cell unchanged.
    """
    return cell[1:] if _MARKED.match(cell) else cell


def csv_rows(lines: Iterable[bytes], subject: str, most_broken: int = MOST_BROKEN) -> Iterator[list[str] | Rejected]:
    """The cells of each CSV record, in order, beginning with the headers. Empty records are left out.

    `lines` come without line feeds; a quoted cell may extend over several. The separator is the most frequent of , ;
    and tab in the first line, of equally frequent ones the first of these. Bytes that are no UTF-8 become lone
    surrogates. A line at which no record of at most RECORD_CHARS characters can be parsed becomes a Rejected (a defect,
    its key always "record 0"), and reading goes on with the next line.
    SourceError, which names `subject`, for more than `most_broken` such lines.
    """
    texts = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    first = next(texts, "")
    separator = max(",;\t", key=first.count)
    yield from _rows(chain([first], texts), separator, subject, most_broken)


def _rows(lines: Iterator[str], separator: str, subject: str, most_broken: int) -> Iterator[list[str] | Rejected]:
    """The cells of each CSV record that is not empty, in order, from decoded lines that end in a line feed; `separator`
    stands between cells. A line that cannot be parsed becomes a Rejected (a defect), and reading goes on with the next.
    SourceError, which names `subject`, for more than `most_broken` such lines.
    """
    for _ in range(most_broken + 1):
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
    """The lines, each also appended to `consumed`, which the caller empties after every record. csv.Error if the lines
    of one record have more than RECORD_CHARS characters.
    """
    held = 0
    for line in lines:
        held = (held if consumed else 0) + len(line)
        consumed.append(line)
        if held > RECORD_CHARS:
            raise csv.Error("a record that does not end, as after a quote that is not closed")
        yield line
