"""A text with what does not tell words apart folded away, which knows where each sign of it was.

White space runs are one blank, typographic quotes and dashes plain ones, letters without case. Folding may make a text
longer (`ß` is `ss`, `ﬁ` is `fi`, `…` is `...`) or shorter: offsets lead back into the text as it is.
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
    """`text` is the folded text."""

    def __init__(self, text: str) -> None:
        self._at: list[int] = []  # in the folded text, where each segment begins
        self._source: list[int] = []  # in the text as it is, likewise
        self._whole: list[bool] = []  # whether it came of signs that cannot be told apart in the folded text
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
        """Where `text[start:end]`, not empty, was; None where it begins or ends in the middle of a sign."""
        first, last = bisect_right(self._at, start) - 1, bisect_left(self._at, end) - 1
        if (self._whole[first] and start != self._at[first]) or (self._whole[last] and end != self._at[last + 1]):
            return None
        return self.around(start, end)

    def around(self, start: int, end: int) -> tuple[int, int]:
        """Where `text[start:end]`, not empty, was, with the whole of each sign that it begins or ends in."""
        first, last = bisect_right(self._at, start) - 1, bisect_left(self._at, end) - 1
        begins = self._source[first] + (0 if self._whole[first] else start - self._at[first])
        ends = self._source[last + 1] if self._whole[last] else self._source[last] + end - self._at[last]
        return begins, ends

    def offset(self, source: int) -> int:
        """Where in `text` what stands at this offset, or the first sign after it, came to stand."""
        segment = bisect_right(self._source, source) - 1
        if segment < 0:
            return 0
        if self._whole[segment]:
            return self._at[segment] if source == self._source[segment] else self._at[segment + 1]
        return self._at[segment] + source - self._source[segment]


def folded(text: str) -> str:
    return Folded(text).text


def _even(text: str) -> str:
    """Of a text whose signs all become one sign."""
    return text.translate(_PLAIN).casefold()


def _one(signs: str) -> str:
    if signs == _ELLIPSIS:
        return "..."
    return " " if signs.isspace() else signs.casefold()


@cache
def _uneven() -> re.Pattern[str]:
    """What does not become one sign a sign: white space but a single blank, and letters that become several."""
    growing = "".join(map(chr, (point for point in range(_LAST_THAT_GROWS + 1) if len(chr(point).casefold()) > 1)))
    return re.compile(rf"\s{{2,}}+|[^\S ]|[{_ELLIPSIS}{growing}]")
