"""Lines of a PDF as the built-in parser works on them: in reading order, without running heads and page numbers, with
the measures of the body's text; and lines joined to text, words that were broken at their ends whole again.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise, repeat
from operator import attrgetter
from typing import Any

SMALLER = 0.8
LARGER = 0.5
MIN_LINES_PER_COLUMN = 8
MAX_JUMPS = 6

_CONTROL = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_LIGATURES = dict(zip("\x1b\x1c\x1d\x1e\x1f", ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
_WITH_LIGATURE = re.compile(r"(?:[^\W\d_]|[\x1b-\x1f])*[\x1b-\x1f](?:[^\W\d_]|[\x1b-\x1f])*")
_SHORT_WORDS = frozenset(("o\x1b", "\x1ct", "\x1cx"))
_UNREADABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff\u2700-\u27bf]|(?<=\w)[\u2600-\u26ff]")
_BROKEN = re.compile(r"(\w+)\ufffe\s*(\w+)")
_WORDS = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_CHAPTER_NUMBER = re.compile(
    r"^(?:\d+ )?(?:(?:chapter|appendix|section)\s+[\dA-Z]+\b\.?|[A-Z](?:\.\d+)*\.? (?=[A-Z]))", re.IGNORECASE
)
_BARE_NUMBERS = ("#", "– # –", "- # -", "— # —", "Page #", "page #", "# of #", "Page # of #", "#/#")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a PDF's text with its font size, boldness and position in points (see tasks.sources.papers.pdf.lines);
    `page` counts from 0; `font` is the name of the font of its last character,
    `low` the top of that; `unreadable`: many of its characters are glyphs whose letters the file does not tell.
    """

    text: str
    size: float
    bold: bool
    left: float
    right: float
    top: float
    page: int
    font: str = ""
    low: float | None = None
    unreadable: bool = False

    @property
    def rows(self) -> int:
        """How many printed lines it consists of: PDFium joins two lines at a word that is broken between them."""
        return self.text.count("\ufffe") + 1

    @property
    def last_top(self) -> float:
        """The top of the last of its printed lines."""
        if self.rows == 1:
            return self.top
        return self.low if self.low is not None else self.top - 1.2 * self.size * (self.rows - 1)


# ---------------------------------------------------------------- pages


def lines_of(page: Sequence[Sequence[Any]], number: int) -> list[Line]:
    """The lines of the page with this number (from 0), in reading order, pieces of one printed line joined. `page`:
    [text, size, bold, left, right, top, font, low] of each line. Ligatures that are control characters become letters,
    other control characters spaces, and texts are stripped.
    """
    lines = [_line(with_ligatures(text), number, *measures) for text, *measures in page]
    return in_reading_order(_rows([line for line in lines if line.text]))


def _line(text: str, page: int, size: float, bold: bool, *rest: Any) -> Line:
    """The line with this text, in which control characters become spaces. `rest`: left, right, top, font, low."""
    left, right, top, font, low = rest
    plain = text.translate(_CONTROL).strip()
    return Line(plain, size, bold, left, right, top, page, font, low, _is_unreadable(text))


def with_ligatures(text: str) -> str:
    """The text with ff, fi, fl, ffi and ffl for the control characters 1B to 1F, their places in TeX's T1 fonts, in
    words: of three further letters, or two around them, or off, fit and fix. Elsewhere they may be signs of formulae.
    Unchanged if it is unreadable even so.
    """
    spelt = _WITH_LIGATURE.sub(_spelt, text)
    return text if _is_unreadable(spelt) else spelt


def _spelt(word: re.Match[str]) -> str:
    """The word with letters for its ligatures, if it is sure to be a word."""
    letters = sum(map(str.isalpha, word[0]))
    if letters > 2 or (letters == 2 and word[0][-1].isalpha()) or word[0] in _SHORT_WORDS:
        return "".join(_LIGATURES.get(character, character) for character in word[0])
    return word[0]


def _is_unreadable(text: str) -> bool:
    """Whether three characters or more, and a twentieth of all, are no text: control characters, private-use ones,
    dingbats.
    """
    return len(_UNREADABLE.findall(text)) >= max(3, 0.05 * len(text))


def unreadable_share(lines: Sequence[Line]) -> float:
    """The share of the characters that is in unreadable lines, from 0 to 1."""
    unreadable = sum(len(line.text) for line in lines if line.unreadable)
    return unreadable / max(1, sum(len(line.text) for line in lines))


def _rows(lines: list[Line]) -> list[Line]:
    """The lines, those that go on at the height and the right end of the one before joined to it: PDFium ends a line at
    a formula or an index.
    """
    found: list[Line] = []
    for line in lines:
        if found and _goes_on(found[-1], line):
            before = found.pop()
            space = " " if line.left - before.right > 0.15 * before.size else ""
            end, bold, unreadable = line.right, before.bold and line.bold, line.unreadable
            line = replace(
                _larger(before, line), text=f"{before.text}{space}{line.text}", left=before.left, low=line.low
            )
            unreadable = before.unreadable or unreadable
            line = replace(line, top=before.top, right=max(before.right, end), bold=bold, unreadable=unreadable)
        found.append(line)
    return found


def _goes_on(before: Line, line: Line) -> bool:
    """Whether a line is at the height of the one before, and begins close to its right end."""
    size = max(before.size, line.size)
    level = abs(before.last_top - line.top) < 0.6 * size
    return level and -0.3 * size < line.left - before.right < 1.2 * size


def _larger(one: Line, other: Line) -> Line:
    """The line with the larger font; the longer of two with the same."""
    return max(one, other, key=lambda line: (line.size, len(line.text)))


def in_reading_order(page: list[Line]) -> list[Line]:
    """The lines of one page. If the file has them row by row across two columns, the left column comes before the
    right one, and lines over both columns stay between what is above and below; else unchanged.
    """
    gutter = _gutter(page)
    if gutter is None:
        return page
    sides = [_side(line, gutter) for line in page]
    if sum(a == 1 and b == -1 for a, b in pairwise(sides)) <= MAX_JUMPS:
        return page
    found, band = list[Line](), list[Line]()
    for line in sorted(page, key=lambda line: (-line.top, line.left)):
        if _side(line, gutter) == 0:
            found += [*_by_column(band, gutter), line]
            band = []
        else:
            band.append(line)
    return [*found, *_by_column(band, gutter)]


def _gutter(page: Sequence[Line]) -> float | None:
    """Where the white space between two columns is, in points from the left; None if the page is not in two columns."""
    if len(page) < 2 * MIN_LINES_PER_COLUMN:
        return None
    middle = (min(line.left for line in page) + max(line.right for line in page)) / 2
    sides = Counter(_side(line, middle) for line in page)
    two = min(sides[-1], sides[1]) >= MIN_LINES_PER_COLUMN and sides[0] * 4 < len(page)
    return middle if two else None


def _side(line: Line, gutter: float) -> int:
    """-1 for a line left of the gutter, 1 right of it, 0 across it."""
    return -1 if line.right <= gutter + 2 else 1 if line.left >= gutter - 2 else 0


def _by_column(band: list[Line], gutter: float) -> list[Line]:
    """The lines with those left of the gutter first."""
    return sorted(band, key=lambda line: _side(line, gutter))


def without_running_heads(lines: Sequence[Line]) -> list[Line]:
    """The lines without page numbers and running heads. Both are looked for only among the two highest and the two
    lowest lines of each page; a running head is a text that is there three times or more in all, whatever its digits,
    if it is not larger than the text: then only with the same digits; or the head of a section in larger print, on top
    of a page again in plain print.
    """
    ends = {id(line) for _, page in groupby(lines, key=attrgetter("page")) for line in _ends(list(page))}
    seen, size = Counter(_pattern(line.text) for line in lines if id(line) in ends), _usual_size(lines)
    same = Counter(line.text for line in lines if id(line) in ends and line.size > size + LARGER)
    large = {text for text, number in same.items() if number < 3}
    printed = {_bare_head(line.text) for line in lines if line.size > size + LARGER}
    again = {
        id(line)
        for line in lines
        if id(line) in ends and line.size <= size + LARGER and not line.bold and _bare_head(line.text) in printed
    }
    return [
        line
        for line in lines
        if line.text and id(line) not in again and not (id(line) in ends and _is_running(line.text, seen, large))
    ]


def _bare_head(text: str) -> str:
    """The letters of a head without its number, casefolded; the whole text if these are fewer than four."""
    letters = "".join(filter(str.isalpha, _CHAPTER_NUMBER.sub("", text))).casefold()
    return letters if len(letters) > 3 else text


def _usual_size(lines: Sequence[Line]) -> float:
    """The font size that most characters have; 0 without lines."""
    sizes = Counter(chain.from_iterable(repeat(line.size, len(line.text)) for line in lines))
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _ends(page: list[Line]) -> list[Line]:
    """The two highest and the two lowest lines of a page, by `top`, and those at their height; some twice on a page of
    fewer than four.
    """
    by_height = sorted(page, key=lambda line: line.top)
    chosen = [*by_height[:2], *by_height[-2:]]
    return [line for line in page if any(abs(line.top - end.top) < 2 for end in chosen)]


def _pattern(text: str) -> str:
    """The text with # for each run of digits, and single blanks."""
    return re.sub(r"\d+", "#", " ".join(text.split()))


def _is_running(text: str, seen: Counter[str], large: set[str]) -> bool:
    """Whether the text is a page number, also as "Page 3 of 9", or its pattern (`_pattern`) was seen three times or
    more. `seen`: pattern -> how often; `large`: texts that are none.
    """
    pattern = _pattern(text)
    return pattern in _BARE_NUMBERS or (seen[pattern] >= 3 and text not in large)


# ---------------------------------------------------------------- measures


class Body:
    """What the body's text looks like: `size` of its font and `font`, those that most characters have; `leading`, the
    distance between lines in points; `bold`, whether that font is bold. `words`: word -> how often the paper has it.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.size = _usual_size(lines)
        fonts = Counter[tuple[str, bool]]()
        for line in lines:
            if abs(line.size - self.size) < LARGER:
                fonts[line.font, line.bold] += len(line.text)
        self.font, self.bold = fonts.most_common(1)[0][0]
        self.share = {font: number / fonts.total() for (font, _), number in fonts.items()}
        steps = [a.last_top - b.top for a, b in pairwise(lines) if a.page == b.page and a.last_top > b.top]
        self.leading = statistics.median(steps) if steps else self.size * 1.2
        self.words = Counter(word for line in lines for word in _WORDS.findall(line.text))

    def large(self, line: Line) -> bool:
        """Whether the line's font is larger than the body's."""
        return line.size >= self.size + LARGER

    def small(self, line: Line) -> bool:
        """Whether the line's font is smaller than the body's, as in captions and footnotes."""
        return line.size < self.size - SMALLER

    def styled(self, line: Line) -> bool:
        """Whether the line is larger than the body's text, or bold where that is not."""
        return self.large(line) or (line.bold and not self.bold)

    def distinct(self, line: Line) -> bool:
        """Whether the line is styled, or in a font that little of the body's text is in, such as italics."""
        return self.styled(line) or (line.font != self.font and self.share.get(line.font, 0.0) < 0.1)

    # ---- text

    def joined(self, lines: Sequence[Line]) -> str:
        """The lines as one text, with single blanks; words that were broken at the ends of lines are whole again, as in
        `rejoined`.
        """
        found: list[str] = []
        for line in lines:
            whole = " ".join(line.text.split())
            before = found[-1] if found else ""
            if before.endswith("-") and before[-3:-1].isalpha() and len(before) > 2 and whole[:1].islower():
                found[-1] = f"{before[:-1]}\ufffe{whole}"
            else:
                found.append(whole)
        return self.rejoined(" ".join(found))

    def rejoined(self, text: str) -> str:
        """The text, with single blanks, in which words broken at a line's end (U+FFFE stands at the break) are whole. A
        hyphen is put at the break if the paper writes the word more often with it than without.
        """

        def whole(match: re.Match[str]) -> str:
            joined, hyphened = match[1] + match[2], f"{match[1]}-{match[2]}"
            return hyphened if self.words[hyphened] > self.words[joined] else joined

        return " ".join(_BROKEN.sub(whole, text).replace("\ufffe", "").split())


def grouped(lines: Sequence[Line], begins: Callable[[list[Line], Line, Line | None], bool]) -> Iterator[list[Line]]:
    """The lines in groups, in order. Each line for which `begins(group so far, line, next line or None)` is true begins
    a new group; no group is empty.
    """
    held: list[Line] = []
    for position, line in enumerate(lines):
        if held and begins(held, line, lines[position + 1] if position + 1 < len(lines) else None):
            yield held
            held = []
        held.append(line)
    if held:
        yield held
