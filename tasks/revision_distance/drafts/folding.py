"""Normalised text for searching, with a mapping of its offsets back to the original text.

Runs of white space become one blank, typographic quotes and dashes plain ones, letters lower case (casefold). The
result may be longer (`ß` becomes `ss`, `ﬁ` `fi`, `…` `...`) or shorter than the original, hence the mapping.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`", "'") | dict.fromkeys("“”„‟″«»", '"') | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_ELLIPSIS = "…"
_LAST_THAT_GROWS = 0xFFFF  # no letter after it becomes more than one by casefold()


class Folded:
    """A text in normalised form (`text`) with the offsets of its characters in the original."""

    def __init__(self, text: str) -> None:
        self._at: list[int] = []  # where each segment begins in the folded text
        self._source: list[int] = []  # where it begins in the original
        self._whole: list[bool] = []  # whether its characters do not map one to one, so that it maps as a whole
        pieces: list[str] = []
        size = end = 0
        for match in _uneven().finditer(text):
            size += self._note(pieces, size, end, _even(text[end : match.start()]), whole=False)
            size += self._note(pieces, size, match.start(), _one(match[0]), whole=True)
            end = match.end()
        size += self._note(pieces, size, end, _even(text[end:]), whole=False)
        self.text = "".join(pieces)
        self._at.append(size)
        self._source.append(len(text))
        self._whole.append(False)

    def _note(self, pieces: list[str], at: int, source: int, folded: str, *, whole: bool) -> int:
        if folded:
            pieces.append(folded)
            self._at.append(at)
            self._source.append(source)
            self._whole.append(whole)
        return len(folded)

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The span in the original of `text[start:end]`, not empty; None if it cuts through an original character."""
        first, last = bisect_right(self._at, start) - 1, bisect_left(self._at, end) - 1
        if (self._whole[first] and start != self._at[first]) or (self._whole[last] and end != self._at[last + 1]):
            return None
        return self.around(start, end)

    def around(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, not empty, widened to whole original characters."""
        first, last = bisect_right(self._at, start) - 1, bisect_left(self._at, end) - 1
        begins = self._source[first] + (0 if self._whole[first] else start - self._at[first])
        ends = self._source[last + 1] if self._whole[last] else self._source[last] + end - self._at[last]
        return begins, ends

    def offset(self, source: int) -> int:
        """The offset in `text` of the original's character at `source`, or of the first one after it."""
        segment = bisect_right(self._source, source) - 1
        if segment < 0:
            return 0
        if self._whole[segment]:
            return self._at[segment] if source == self._source[segment] else self._at[segment + 1]
        return self._at[segment] + source - self._source[segment]


def folded(text: str) -> str:
    """The normalised text alone."""
    return Folded(text).text


def _even(text: str) -> str:
    """The folded form of a text in which every character becomes one character."""
    return text.translate(_PLAIN).casefold()


def _one(characters: str) -> str:
    """The folded form of a match of `_uneven`."""
    if characters == _ELLIPSIS:
        return "..."
    return " " if characters.isspace() else characters.casefold()


@cache
def _uneven() -> re.Pattern[str]:
    """A pattern of what folding does not map character by character: white space other than a single blank, and
    characters that become more than one.
    """
    growing = "".join(map(chr, (point for point in range(_LAST_THAT_GROWS + 1) if len(chr(point).casefold()) > 1)))
    return re.compile(rf"\s{{2,}}+|[^\S ]|[{_ELLIPSIS}{growing}]")
