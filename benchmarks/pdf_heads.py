"""Precision and recall of the section heads that the embedded PDF parser finds, over a folder of PDFs with their truth.

    python -m benchmarks.pdf_heads FOLDER

Beside `name.pdf` stands `name.tei.xml`, whose <head> elements of <div>s count, or `name.heads`, UTF-8, one head a line,
with or without its number. Abstract and References count on neither side. A head found is right if its letters and
digits are those of a head of the truth, which counts once, or differ in a tenth at most (`ALIKE`): a truth written for
LaTeX and a printed head differ in formulae. Its number is not compared. A section with a head whose text begins with
a word in lower case counts as `broken`. Files are read in the order of their names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory

from lxml import etree

from longform.artifacts.rows import Row
from tasks.sources.files.bundles import Member
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.pdf.pdfium import Pdfium, Reader
from tasks.text.headings import split_number

ALIKE = 0.9
FRONT_AND_END = frozenset(("abstract", "summary", "references", "bibliography"))
TEI = "{http://www.tei-c.org/ns/1.0}"


@dataclass(frozen=True, slots=True)
class Score:
    """How many heads were found, are in the truth, and are both; `broken`: sections that begin in mid-sentence."""

    found: int = 0
    true: int = 0
    right: int = 0
    broken: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.found + other.found, self.true + other.true, self.right + other.right, self.broken + other.broken
        )

    def __str__(self) -> str:
        precision, recall = self.right / (self.found or 1), self.right / (self.true or 1)
        counts = f"{self.right:4} right of {self.found:4} found, {self.true:4} true; {self.broken} broken"
        return f"precision {precision:.2f}  recall {recall:.2f}  {counts}"


def letters(head: str) -> str:
    """The letters and digits of a head without its number, casefolded."""
    return "".join(filter(str.isalnum, split_number(head)[1] or "")).casefold()


def truth(pdf: Path) -> list[str] | None:
    """The true heads of a PDF, from the file beside it; None if there is none."""
    tei, plain = pdf.with_suffix(".tei.xml"), pdf.with_suffix(".heads")
    if tei.exists():
        heads = etree.parse(tei).iterfind(f".//{TEI}text//{TEI}div/{TEI}head")
        return ["".join(map(str, head.itertext())) for head in heads]
    return plain.read_text(encoding="utf-8").splitlines() if plain.exists() else None


def compared(found: Sequence[str], true: Sequence[str]) -> tuple[list[str], list[str], int]:
    """(heads found that are wrong, true heads that were missed, number of heads that are right)."""
    missed = [head for head in true if letters(head) and letters(head) not in FRONT_AND_END]
    wrong, right = [], 0
    for head in found:
        alike = next((other for other in missed if letters(other) == letters(head)), None)
        alike = alike or next((other for other in missed if _alike(letters(other), letters(head))), None)
        if alike is not None:
            missed.remove(alike)
            right += 1
        elif letters(head) not in FRONT_AND_END:
            wrong.append(head)
    return wrong, missed, right


def _alike(one: str, other: str) -> bool:
    """Whether two texts differ in a tenth at most."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= ALIKE


def score(row: Row, true: Sequence[str], *, tell: bool) -> Score:
    """The score of a row of PAPERS. `tell`: whether wrong and missed heads are printed."""
    heads = [section["head"] for section in row["sections"] if section["head"]]
    wrong, missed, right = compared(heads, true)
    if tell:
        print(*(f"    wrong   {head}" for head in wrong), *(f"    missed  {head}" for head in missed), sep="\n")
    return Score(right + len(wrong), right + len(missed), right, _broken(row))


def _broken(row: Row) -> int:
    """How many sections with a head have a first paragraph that begins with a word in lower case."""
    first = {p["section"]: p["start"] for p in reversed(row["paragraphs"]) if p["section"] is not None}
    words = {n: row["text"][start : start + 60].split()[0] for n, start in first.items() if row["sections"][n]["head"]}
    return sum(word.isalpha() and word.islower() for word in words.values())


def main(arguments: Sequence[str]) -> None:
    """Print the score of each PDF of a folder that has a truth, then of all. `--tell` also prints each wrong and missed
    head.
    """
    folder, total, number = Path(arguments[0]), Score(), 0
    with TemporaryDirectory() as place, closing(Reader(Pdfium(), Path(place))) as reader:
        for pdf in sorted(folder.glob("*.pdf")):
            true = truth(pdf)
            if true is None:
                continue
            row = reader.paper(Member(pdf.name, "0" * 64, pdf.read_bytes(), None, None))
            if isinstance(row, UnreadableError):
                print(f"{pdf.stem}: {row.reason}")
                continue
            own = score(row, true, tell="--tell" in arguments)
            print(f"{own}  {pdf.stem}")
            total, number = total + own, number + 1
    print(f"{total}  all {number}")


if __name__ == "__main__":
    main(sys.argv[1:])
