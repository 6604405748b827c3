"""A PDF made of a paper's text: one column, standard fonts, nothing embedded; the same text gives the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain

from longform.standin.sources.papers import Paper

WIDTH, HEIGHT, MARGIN = 612, 792, 90
BODY, BOLD = "F1", "F2"
_FONTS = {BODY: "Times-Roman", BOLD: "Times-Bold"}
# of Times-Roman, in thousandths, from the blank to the tilde; Times-Bold is a little wider
_WIDTHS = (
    "250 333 408 500 500 833 778 180 333 333 500 564 250 333 250 278 500 500 500 500 500 500 500 500 500 500 278 278 "
    "564 564 564 444 921 722 667 667 722 611 556 722 722 333 389 722 611 889 722 722 556 722 667 556 611 722 722 944 "
    "722 722 611 333 278 333 469 500 333 444 500 444 500 444 333 500 500 278 278 500 278 778 500 500 500 500 333 389 "
    "278 500 500 722 500 500 444 480 200 480 541"
)
_WIDTH_OF = {chr(32 + place): int(width) for place, width in enumerate(_WIDTHS.split())}
BOLDER = 1.08

Line = tuple[str, int, float, str]  # font, size, space above, text


def pdf_of(paper: Paper) -> bytes:
    """The bytes of a PDF that prints the paper; characters that its fonts lack become question marks."""
    return _file([_drawn(lines, number) for number, lines in enumerate(_pages(list(_lines(paper))), 1)], paper.title)


def _lines(paper: Paper) -> Iterator[Line]:
    """The lines of the paper, from its title to its last reference."""
    yield from _block(paper.title, BOLD, 17, 0)
    yield from _block(", ".join(paper.authors), BODY, 11, 12)
    if paper.abstract:
        yield from _block("Abstract", BOLD, 12, 18)
        yield from chain.from_iterable(_block(text, BODY, 10, 6) for text in paper.abstract)
    for section in paper.sections:
        size = 11 if "." in section.number else 12
        yield from _block(f"{section.number} {section.head}".strip(), BOLD, size, 16)
        yield from chain.from_iterable(_block(text, BODY, 10, 6) for text in section.paragraphs)
    if paper.references:
        yield from _block("References", BOLD, 12, 16)
        for number, reference in enumerate(paper.references, 1):
            yield from _block(f"[{number}] {reference.raw}", BODY, 10, 4)


def _block(text: str, font: str, size: int, above: float) -> Iterator[Line]:
    """The lines of one paragraph or head, with `above` points of space before the first."""
    line: list[str] = []
    for word in text.split():
        if line and _wide(" ".join([*line, word]), font, size) > WIDTH - 2 * MARGIN:
            yield font, size, above, " ".join(line)
            line, above = [], 0
        line.append(word)
    if line:
        yield font, size, above, " ".join(line)


def _wide(text: str, font: str, size: int) -> float:
    """The width of a text in points."""
    thousandths = sum(_WIDTH_OF.get(character, 500) for character in text)
    return thousandths * size / 1000 * (BOLDER if font == BOLD else 1)


def _pages(lines: list[Line]) -> Iterator[list[tuple[float, Line]]]:
    """Pages: (distance from the lower edge, line) of each line. A head is not the last line of its page."""
    page: list[tuple[float, Line]] = []
    at = float(HEIGHT - MARGIN)
    for line in lines:
        font, size, above, _ = line
        down = size * 1.2 + (above if page else 0)
        if page and at - down < MARGIN + (30 if font == BOLD else 0):
            yield page
            page, at, down = [], float(HEIGHT - MARGIN), size * 1.2
        at -= down
        page.append((at, line))
    yield page


def _drawn(page: list[tuple[float, Line]], number: int) -> bytes:
    """The content stream of a page, with its number at the foot."""
    drawn = [f"BT /{font} {size} Tf {MARGIN} {at:.1f} Td ".encode() + _text(text) for at, (font, size, _, text) in page]
    foot = f"BT /{BODY} 9 Tf {WIDTH / 2:.0f} {MARGIN / 2:.0f} Td ".encode() + _text(str(number))
    return b"\n".join([*drawn, foot])


def _text(text: str) -> bytes:
    """The operators that show a text and end its text object."""
    shown = text.encode("cp1252", "replace").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"(" + shown + b") Tj ET"


def _file(pages: list[bytes], title: str) -> bytes:
    """The file: a catalogue, the pages, the fonts, and the content of each page, compressed."""
    fonts = " ".join(f"/{name} {4 + place} 0 R" for place, name in enumerate(_FONTS))
    first = 4 + len(_FONTS)
    kids = " ".join(f"{first + 2 * place} 0 R" for place in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Title (" + title.encode("ascii", "replace").translate(None, b"()\\") + b") >>",
    ]
    objects += [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
        for name in _FONTS.values()
    ]
    for place, content in enumerate(pages):
        packed = zlib.compress(content, 6)
        box = f"/MediaBox [0 0 {WIDTH} {HEIGHT}] /Resources << /Font << {fonts} >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {first + 2 * place + 1} 0 R >>".encode())
        head = f"<< /Length {len(packed)} /Filter /FlateDecode >>".encode()
        objects.append(head + b"\nstream\n" + packed + b"\nendstream")
    return _assembled(objects)


def _assembled(objects: list[bytes]) -> bytes:
    """The objects, numbered from 1, with the table of their places; the first is the catalogue, the third the facts."""
    parts = [b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"]
    places, at = [], 0
    for number, content in enumerate(objects, 1):
        at += len(parts[-1])
        places.append(at)
        parts.append(b"%d 0 obj\n%b\nendobj\n" % (number, content))
    start = at + len(parts[-1])
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R /Info 3 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    )
    return b"".join(parts) + end % (size, table, size, start)
