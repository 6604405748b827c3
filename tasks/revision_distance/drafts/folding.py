"""Normalised text for searching, with a mapping of its offsets back to the original text.

Runs of white space become one blank, typographic quotes and dashes plain ones, letters lower case (casefold). The
result may be longer (`ß` becomes `ss`, `ﬁ` `fi`, `…` `...`) or shorter than the original, hence the mapping.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from functools import cache, lru_cache

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`", "'") | dict.fromkeys("“”„‟″«»", '"') | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_ELLIPSIS = "…"
_LAST_THAT_GROWS = 0xFFFF  # no letter after it becomes more than one by casefold()


class Folded:
    """A text in normalised form (`text`); for each of its characters the span of the original that it stands for."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._begins, self._ends = array("q"), array("q")
        at = 0
        for start, end in [*(match.span() for match in _uneven().finditer(text)), (len(text), len(text))]:
            even, one = text[at:start].translate(_PLAIN).casefold(), _one(text[start:end])
            pieces += even, one
            self._begins.extend([*range(at, start), *[start] * len(one)])
            self._ends.extend([*range(at + 1, start + 1), *[end] * len(one)])
            at = end
        self.text = "".join(pieces)

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The span in the original of `text[start:end]`, not empty; None if it cuts through an original character."""
        begins = self._begins
        cuts = any(0 < at < len(begins) and begins[at] == begins[at - 1] for at in (start, end))
        return None if cuts else self.around(start, end)

    def around(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, not empty, widened to whole original characters."""
        return self._begins[start], self._ends[end - 1]

    def offset(self, source: int) -> int:
        """The offset in `text` of the original's character at `source`, or of the first one after it."""
        return bisect_left(self._begins, source)


@lru_cache(maxsize=256)
def folded(text: str) -> str:
    """The normalised text alone."""
    return Folded(text).text


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
