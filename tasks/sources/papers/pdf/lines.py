"""Lines of PDFs, read through PDFium in a process of its own: a PDF that crashes or hangs the library costs no other.

Run as a script, it reads a line of JSON for each PDF, {"path": ..., "pages": ..., "seconds": ...}, and answers with
one: {"pages": [[line, ...], ...], "outline": [[title, page], ...]}, or {"fault": phrase, "detail": text}. A line is
[text, size, bold, left, right, top, font, low], in points; `top` is that of its first character, `low` the top of its
last, `size` the larger font size of its first and its middle one, `font` the name of the font of the last one. The
outline are the bookmarks. On the first page a small raised letter behind a name (Moss with a raised a) is the Unicode
superscript of that letter.
PDFium writes U+FFFE for the hyphen of a word broken at a line's end and goes on, so a line may be several printed
ones. The numbers that review copies print beside each line, which PDFium takes for words of it, are left out. The
script imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from statistics import median
from typing import IO, Any, NamedTuple

MEMORY_BYTES = 1 << 30
MAX_CHARS = 8_000_000
BOLD_WEIGHT = 600
BOLD_NAME = re.compile(r"bold|medi(?!um|a)|heavy|black|cmbx|cmssbx|demi|sfbx|-b$|ptmb|phvb|semb", re.IGNORECASE)
PLAIN_NAME = re.compile(r"roma|regu|regular|book|ital|oblique|^cm|^sf|lmroman|times|light", re.IGNORECASE)
NAME_BYTES = 128
MAX_BOOKMARKS = 1_000
MAYBE_MARK = re.compile(r"(?<=[^\W\d_])[a-h](?![^\W\d_])")
LINE_NUMBER = re.compile(r"^(?P<left>\d{1,4})(?: +|$)| +(?P<right>\d{1,4}) *$")
MIN_LINE_NUMBERS, MIN_FIFTHS, NUMBERED_PAGES, PAGES_LOOKED_AT = 8, 4, 0.5, 8
SUPERSCRIPTS = dict(zip("abcdefgh", "ᵃᵇᶜᵈᵉᶠᵍʰ", strict=True))

Line = tuple[str, float, bool, float, float, float, str, float]
Edge = tuple[str, int]
Names = dict[bytes, tuple[str, bool | None]]


class LineNumber(NamedTuple):
    """A number that a printed line begins or ends with: its value; `edges`, where numbers of its side line up: ("left",
    x of its right end), or ("right", x of its left end) and ("end", x of its right end), in whole points; `y`, its base
    line; `at` and `end`, its place in the page's text.
    """

    value: int
    edges: tuple[Edge, ...]
    y: float
    at: int
    end: int


class FaultError(Exception):
    """Raised for a PDF that cannot be read. Its arguments: a short fixed phrase, and a detail or None."""


def main() -> None:
    """Answer the requests on standard input, one a line, on standard output, until the input ends; in at most
    MEMORY_BYTES of memory.
    """
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the library must not write among the replies
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    answer(sys.stdin.buffer, replies)


def answer(requests: IO[bytes], replies: IO[bytes]) -> None:
    """For each request, a line of JSON {"path": of a PDF, "pages": how many it may have, "seconds": ...}, write a line
    of JSON, {"pages": [[line, ...], ...], "outline": [[title, page], ...]} or {"fault": phrase, "detail": text or
    null}. A request that takes more than about twice its `seconds` of processor time ends the process.
    """
    for request in requests:
        wanted = json.loads(request)
        _limit(resource.RLIMIT_CPU, int(time.process_time() + 2 * wanted["seconds"] + 2))
        replies.write(json.dumps(reply(wanted["path"], wanted["pages"])).encode() + b"\n")
        replies.flush()


def reply(path: str, pages: int) -> dict[str, Any]:
    """The answer for one PDF: {"pages": the lines of each page, "outline": its bookmarks}, or {"fault": phrase,
    "detail": text or None} if it cannot be read. `pages`: how many it may have.
    """
    try:
        document = _opened(path, pages)
        return {"pages": list(_pages(document)), "outline": list(_outline(document))}
    except FaultError as fault:
        return {"fault": fault.args[0], "detail": fault.args[1]}
    except MemoryError:
        return {"fault": "too much memory", "detail": None}


def _opened(path: str, most: int) -> Any:
    """The PDF. FaultError if it cannot be opened or has more than `most` pages."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD or "password" in str(error).lower()
        raise FaultError("encrypted" if locked else "broken PDF", str(error)[:200]) from error
    if len(document) > most:
        raise FaultError("too many pages", f"{len(document):,}, more than {most:,}")
    return document


def _pages(document: Any) -> Iterator[list[Line]]:
    """The lines of each page of the PDF, in order, without line numbers. FaultError if it has more than MAX_CHARS
    characters.
    """
    chars, names, numbered = 0, Names(), _numbered_edges(document)
    for index in range(len(document)):
        lines = list(_lines(document, index, names, numbered))
        chars += sum(len(line[0]) for line in lines)
        if chars > MAX_CHARS:
            raise FaultError("too much text", f"more than {MAX_CHARS:,} characters")
        yield lines


def _outline(document: Any) -> Iterator[tuple[str, int]]:
    """(title, page from 0) of the bookmarks, the first MAX_BOOKMARKS; those that lead nowhere are left out."""
    import pypdfium2

    try:
        for bookmark in islice(document.get_toc(max_depth=4), MAX_BOOKMARKS):
            target = bookmark.get_dest()
            page = target.get_index() if target else None
            if page is not None:
                yield bookmark.get_title()[:300], page
    except (pypdfium2.PdfiumError, RecursionError, ValueError):
        return


def _lines(document: Any, index: int, names: Names, numbered: frozenset[Edge]) -> Iterator[Line]:
    """The lines of the page at `index` that are not blank, in the order of the file; none if the page cannot be read.
    `names`: of the fonts met so far in the document, which grows. `numbered`: the edges at which line numbers stand.
    """
    with _read(document, index) as (raw_page, text):
        measure = _Measure(raw_page, names)
        numbers = [n for n in measure.line_numbers(text) if not numbered.isdisjoint(n.edges)] if numbered else []
        for place, end, line in _without(text, numbers):
            if line.strip():
                whole = len(line) == end - place
                yield measure.marked(line, place) if index == 0 and whole else line, *measure.line(place, end - place)


@contextmanager
def _read(document: Any, index: int) -> Iterator[tuple[Any, str]]:
    """(PDFium's handle of the page's text, the text) of the page at `index`; (None, "") if the page cannot be read."""
    import pypdfium2

    try:
        page = document[index]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        yield None, ""
        return
    yield text_page.raw, text_page.get_text_range(errors="ignore")
    text_page.close()
    page.close()


# ---------------------------------------------------------------- line numbers


def _numbered_edges(document: Any) -> frozenset[Edge]:
    """The edges at which the document has line numbers; none unless half of the pages that are looked at have them."""
    step = max(1, -(-len(document) // PAGES_LOOKED_AT)) | 1  # odd: left and right pages may differ
    found, pages = list[set[Edge]](), 0
    for index in range(0, len(document), step):
        with _read(document, index) as (raw_page, text):
            rows = text.count("\r\n") + text.count("\ufffe") + 1
            pages += rows >= MIN_LINE_NUMBERS
            found.append(line_number_edges(_Measure(raw_page, {}).line_numbers(text), rows))
    own = {edge for edges in found for edge in edges}
    return frozenset(own) if sum(map(bool, found)) >= max(1, NUMBERED_PAGES * pages) else frozenset()


def line_number_edges(numbers: list[LineNumber], rows: int) -> set[Edge]:
    """The edges, and those a point beside them, at which the numbers of a page of `rows` printed lines count its lines:
    MIN_LINE_NUMBERS or more (of each fifth line MIN_FIFTHS), beside a third of the lines, each as much higher than the
    one above as the others, and mostly as far below it.
    """
    held = defaultdict[Edge, list[LineNumber]](list)
    for number in numbers:
        for side, x in number.edges:
            for near in (x - 1, x, x + 1):
                held[side, near].append(number)
    return {edge for edge, column in held.items() if len(column) >= MIN_FIFTHS and _counts(column, rows)}


def _counts(column: list[LineNumber], rows: int) -> bool:
    """Whether numbers that stand above one another count lines."""
    steps = [(b.value - a.value, a.y - b.y) for a, b in pairwise(sorted(column, key=lambda number: -number.y))]
    step, often = Counter(value for value, _ in steps).most_common(1)[0]
    usual = median(gap for _, gap in steps)
    level = sum(abs(gap - usual) < 0.15 * usual for _, gap in steps)
    if len(column) < (MIN_LINE_NUMBERS if step < 5 else MIN_FIFTHS):
        return False
    return 0 < step <= 10 and often >= 0.8 * len(steps) and level >= 0.6 * len(steps) and len(column) * step * 3 >= rows


def _without(text: str, numbers: list[LineNumber]) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) of the lines of a page's text without these numbers: start and end are places in the text."""
    place = 0
    for line in text.split("\r\n"):
        start, end = place, place + len(line)
        place = end + 2
        inside = [number for number in numbers if start <= number.at and number.end <= end]
        for number in reversed(inside):
            line = line[: number.at - start] + line[number.end - start :]
        if inside and inside[0].at == start:
            start = inside[0].end
        if inside and inside[-1].end == end and inside[-1].at >= start:
            end = inside[-1].at
        yield start, end, line


class _Measure:
    """Reads font size, boldness, position (left, right, top) and font of the lines on one PDF page, through pdfium.
    `names`: a font's name in the file -> its name without the mark of a subset, and whether it says bold (None: neither
    bold nor not).
    """

    def __init__(self, page: Any, names: Names) -> None:
        from pypdfium2 import raw

        self.page, self.raw, self.names = page, raw, names
        self.scales: dict[float, float] = {}
        self.box, self.matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self.name, self.flags = ctypes.create_string_buffer(NAME_BYTES), ctypes.c_int()

    def line(self, place: int, length: int) -> tuple[float, bool, float, float, float, str, float]:
        """(size, bold, left, right, top, font, low), in points, of the line of `length` characters that begins at index
        `place` of the page's text. The size is the larger of its first and its middle character; it is bold if the
        first, the middle and the last are; `left` and `top` are those of the first, `right` and `low` right and top of
        the last.
        """
        index_of = self.raw.FPDFText_GetCharIndexFromTextIndex
        first, last = index_of(self.page, place), index_of(self.page, place + length - 1)
        middle = (first + last) // 2
        self.raw.FPDFText_GetLooseCharBox(self.page, first, self.box)
        left, top = self.box.left, self.box.top
        self.raw.FPDFText_GetLooseCharBox(self.page, last, self.box)
        size = max(self.size(first), self.size(middle))
        font, bold = self.font(last)
        bold = bold and self.font(first)[1] and self.font(middle)[1]
        return (
            round(size, 1),
            bold,
            round(left, 1),
            round(self.box.right, 1),
            round(top, 1),
            font,
            round(self.box.top, 1),
        )

    def line_numbers(self, text: str) -> list[LineNumber]:
        """The numbers that the printed lines of the page's text begin or end with, in its order."""
        found, place = list[LineNumber](), 0
        for line in text.split("\r\n"):
            for piece in line.split("\ufffe"):
                found += [self._line_number(match, place) for match in LINE_NUMBER.finditer(piece)]
                place += len(piece) + 1
            place += 1
        return found

    def _line_number(self, match: re.Match[str], place: int) -> LineNumber:
        """The number that was found in the printed line which begins at index `place`."""
        side = "left" if match["left"] else "right"
        first, last = (place + at for at in match.span(side))
        index_of, y = self.raw.FPDFText_GetCharIndexFromTextIndex, ctypes.c_double()
        index = index_of(self.page, last - 1)
        self.raw.FPDFText_GetCharOrigin(self.page, index, ctypes.c_double(), y)
        self.raw.FPDFText_GetLooseCharBox(self.page, index, self.box)
        end = round(self.box.right)
        self.raw.FPDFText_GetLooseCharBox(self.page, index_of(self.page, first), self.box)
        begin, alone = round(self.box.left), match[0] == match.string
        right = (("right", begin), ("end", end)) if alone or side == "right" else ()
        left = (("left", end),) if alone or side == "left" else ()
        return LineNumber(int(match[side]), (*left, *right), y.value, place + match.start(), place + match.end())

    def marked(self, text: str, place: int) -> str:
        """The text, which begins at index `place` of the page's, with raised letters a to h at the ends of words as
        Unicode's superscripts: marks of affiliations.
        """

        def mark(match: re.Match[str]) -> str:
            return SUPERSCRIPTS[match[0]] if self.raised(place + match.start()) else match[0]

        return MAYBE_MARK.sub(mark, text)

    def raised(self, place: int) -> bool:
        """Whether the character at index `place` of the page's text is smaller than the one before it, and higher."""
        index_of, y = self.raw.FPDFText_GetCharIndexFromTextIndex, ctypes.c_double()
        index, before = index_of(self.page, place), index_of(self.page, place - 1)
        size = self.size(before)
        if self.size(index) > 0.85 * size:
            return False
        self.raw.FPDFText_GetCharOrigin(self.page, before, ctypes.c_double(), y)
        base = y.value
        self.raw.FPDFText_GetCharOrigin(self.page, index, ctypes.c_double(), y)
        return bool(0.1 * size < y.value - base < size)

    def size(self, index: int) -> float:
        """The font size, as displayed, of the character at `index`, in points, at most 10,000: some files set size 1
        and scale the text. The scale is read once for each size that is set on the page.
        """
        set_to = self.raw.FPDFText_GetFontSize(self.page, index)
        if set_to not in self.scales:
            found = self.raw.FPDFText_GetMatrix(self.page, index, self.matrix)
            self.scales[set_to] = (self.matrix.b**2 + self.matrix.d**2) ** 0.5 or 1.0 if found else 1.0
        return float(min(max(0.0, set_to * self.scales[set_to]), 10_000.0))

    def font(self, index: int) -> tuple[str, bool]:
        """(name, bold) of the font of the character at `index`. Bold by the name; if that says neither that it is bold
        nor that it is not, by the weight, which PDFium guesses from the width of stems and is wrong for many fonts.
        """
        self.raw.FPDFText_GetFontInfo(self.page, index, self.name, NAME_BYTES, self.flags)
        name = self.name.value
        if name not in self.names:
            self.names[name] = _named(name)
        known, bold = self.names[name]
        return known, self.raw.FPDFText_GetFontWeight(self.page, index) >= BOLD_WEIGHT if bold is None else bold


def _named(name: bytes) -> tuple[str, bool | None]:
    """The name of a font without the mark of a subset ("ABCDEF+"), and whether it says that the font is bold; None if
    it says neither.
    """
    whole = name.decode("utf-8", "replace")
    known = whole[7:] if whole[6:7] == "+" else whole
    if BOLD_NAME.search(known):
        return known, True
    return known, False if PLAIN_NAME.search(known) else None


def _limit(kind: int, value: int) -> None:
    """Set this process's soft limit of a resource (`kind`: resource.RLIMIT_...); nothing if the system refuses."""
    try:
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))
    except (ValueError, OSError):
        return


if __name__ == "__main__":
    main()
