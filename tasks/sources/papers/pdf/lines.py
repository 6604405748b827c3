"""Lines of PDFs, read through PDFium in a process of its own: a PDF that crashes or hangs the library costs no other.

Run as a script, it reads a line of JSON for each PDF, {"path": ..., "pages": ..., "seconds": ...}, and answers with
one: {"pages": [[line, ...], ...], "outline": [[title, page], ...]}, or {"fault": phrase, "detail": text}. A line is
[text, size, bold, left, right, top, font, low], in points; `top` is that of its first character, `low` the top of its
last, `size` the larger font size of its first and its middle one, `font` the name of the font of the last one. The
outline are the bookmarks. On the first page a small raised letter behind a name (Moss with a raised a) is the Unicode
superscript of that letter.
PDFium writes U+FFFE for the hyphen of a word broken at a line's end and goes on, so a line may be several printed
ones. The script imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

MEMORY_BYTES = 1 << 30
MAX_CHARS = 8_000_000
BOLD_WEIGHT = 600
BOLD_NAME = re.compile(r"bold|medi(?!um|a)|heavy|black|cmbx|cmssbx|demi|sfbx|-b$|ptmb|phvb|semb", re.IGNORECASE)
PLAIN_NAME = re.compile(r"roma|regu|regular|book|ital|oblique|^cm|^sf|lmroman|times|light", re.IGNORECASE)
NAME_BYTES = 128
MAX_BOOKMARKS = 1_000
MAYBE_MARK = re.compile(r"(?<=[^\W\d_])[a-h](?![^\W\d_])")
SUPERSCRIPTS = dict(zip("abcdefgh", "ᵃᵇᶜᵈᵉᶠᵍʰ", strict=True))

Line = tuple[str, float, bool, float, float, float, str, float]
Names = dict[bytes, tuple[str, bool | None]]


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
    """The lines of each page of the PDF, in order. FaultError if it has more than MAX_CHARS characters."""
    chars, names = 0, Names()
    for index in range(len(document)):
        lines = list(_lines(document, index, names))
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


def _lines(document: Any, index: int, names: Names) -> Iterator[Line]:
    """The lines of the page at `index` that are not blank, in the order of the file; none if the page cannot be read.
    `names`: of the
    fonts met so far in the document, which grows.
    """
    import pypdfium2

    try:
        page = document[index]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return
    measure, place = _Measure(text_page.raw, names), 0
    for line in text_page.get_text_range(errors="ignore").split("\r\n"):
        if line.strip():
            text = measure.marked(line, place) if index == 0 else line
            yield text, *measure.line(place, len(line))
        place += len(line) + 2
    text_page.close()
    page.close()


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
