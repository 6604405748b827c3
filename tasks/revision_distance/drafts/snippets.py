"""Search for the snippets of edits in a draft, which models do not always quote exactly.

A snippet is searched exactly, then in normalised form, then, from 20 characters on, with small differences
(fuzzy_match.py, reported as `nearly`). Normalised, runs of white space become one blank, typographic quotes and dashes
plain ones, letters lower case (casefold). The result may be longer (`ß` becomes `ss`, `ﬁ` `fi`, `…` `...`) or shorter
than the original, so its offsets are mapped back.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Literal, NamedTuple

from tasks.revision_distance.drafts.fuzzy_match import FuzzySearch

How = Literal["exactly", "folded", "nearly", "not"]

_MOST_CUT_CHARACTERS = 1_000
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`", "'") | dict.fromkeys("“”„‟″«»", '"') | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_ELLIPSIS = "…"
_LAST_THAT_GROWS = 0xFFFF  # no letter after it becomes more than one by casefold()


class Found(NamedTuple):
    """The span of a snippet in the draft, `draft[start:end]`, and how it was matched.

    `how`: "exactly"; "folded", in normalised form; "nearly", with small differences.
    """

    how: How
    start: int
    end: int


class Spans:
    """A set of non-empty spans (start, end) of a text, in which overlapping ones are merged."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add a span; it is merged with those that it overlaps."""
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def overlapped(self, start: int, end: int) -> int | None:
        """The end of the last span that overlaps the non-empty span (start, end); None if none does."""
        last = bisect_left(self._starts, end) - 1
        return self._ends[last] if last >= 0 and self._ends[last] > start else None

    def around(self, at: int) -> bool:
        """Whether an offset lies strictly inside one of the spans."""
        last = bisect_left(self._starts, at) - 1
        return last >= 0 and at < self._ends[last]


class SearchedDraft:
    """A draft to be searched for snippets: `first` finds the first occurrence, `free` rather one that no edit uses.

    `take` marks the spans that edits use; `draft` is the text.
    """

    def __init__(self, draft: str) -> None:
        self.draft = draft
        self._taken = Spans()
        self._first: dict[tuple[How, str], Found] = {}
        self._from: dict[tuple[How, str], int] = {}  # no free occurrence begins before
        self._fuzzy: dict[str, list[Found]] = {}

    def take(self, start: int, end: int) -> None:
        """Mark a span as used by an edit, so that `free` prefers other occurrences. An empty span is ignored."""
        if start < end:
            self._taken.add(start, end)

    def first(self, snippet: str) -> Found | None:
        """The first exact occurrence of a non-empty snippet, else the first in normalised form; None if there is none.

        If there is neither, the likeliest one with small differences, for a snippet of the lengths that
        `FuzzySearch.find` takes.
        """
        return self._find(snippet, free=False)

    def free(self, snippet: str, *, at: int | None = None) -> Found | None:
        """The first occurrence of a snippet that `take` has not marked, else its first one; None if there is none.

        An exact one if possible, even if marked, else one in normalised form, else the likeliest one with small
        differences (see `FuzzySearch.find`). If `at` is given, an exact or normalised one at this offset, or after
        white space there, is preferred, marked or not.
        """
        return self._find(snippet, free=True, at=at)

    def after_white_space(self, at: int) -> int:
        """The offset of the first character from `at` on that is not white space; the draft's length without one."""
        return len(self.draft) - len(self.draft[at:].lstrip())

    def _find(self, snippet: str, *, free: bool, at: int | None = None) -> Found | None:
        """The exact occurrence of a snippet, else one in normalised form, else one with small differences; else None.

        `free`: rather one that `take` has not marked. `at`: the offset whose occurrence is preferred, None for no such
        offset.
        """
        return (
            (None if at is None else self._exactly_at(snippet, at))
            or self._occurrence("exactly", self.draft, snippet, lambda start, end: (start, end), lambda at: at, free)
            or (None if at is None else self._folded_at(snippet, at))
            or self._find_folded(snippet, free)
            or self._find_fuzzy(snippet, free)
        )

    def _exactly_at(self, snippet: str, at: int) -> Found | None:
        """The exact occurrence of a snippet at an offset or after white space there; else None."""
        starts = (start for start in (at, self.after_white_space(at)) if self.draft.startswith(snippet, start))
        return next((Found("exactly", start, start + len(snippet)) for start in starts), None)

    def _folded_at(self, snippet: str, at: int) -> Found | None:
        """The occurrence of a snippet in normalised form at an offset or after a blank there; else None.

        If need be, blanks at the ends of the snippet are ignored.
        """
        whole, text, start = normalised(snippet), self._folded, self._folded.offset(at)
        behind = start + text.text.startswith(" ", start)
        for needle, begin in ((whole, start), (whole.strip(), start), (whole.strip(), behind)):
            span = text.span(begin, begin + len(needle)) if needle and text.text.startswith(needle, begin) else None
            if span:
                return Found("folded", *span)
        return None

    def _find_folded(self, snippet: str, free: bool) -> Found | None:
        """The first occurrence of a snippet in normalised form, if need be without blanks at its ends; else None.

        `free`: rather one that `take` has not marked.
        """
        whole, text = normalised(snippet), self._folded
        for needle in filter(None, dict.fromkeys((whole, whole.strip()))):
            if found := self._occurrence("folded", text.text, needle, text.span, text.offset, free):
                return found
        return None

    def _occurrence(
        self,
        how: How,
        text: str,
        needle: str,
        span: Callable[[int, int], tuple[int, int] | None],
        offset: Callable[[int], int],
        free: bool,
    ) -> Found | None:
        """The first occurrence of `needle` in `text`, as a span of the draft; None if there is none.

        `text`: the draft, or the draft in normalised form. `span` maps spans of `text` to the draft (None for one that
        cuts through a character), `offset` maps offsets of the draft to `text`. With `free`, an occurrence that `take`
        has not marked is preferred. `how` goes into the result. The search ends after _MOST_CUT_CHARACTERS spans that
        cut.
        """
        key = (how, needle)
        if not free and key in self._first:
            return self._first[key]
        at, cut = self._from.get(key, 0), 0
        while cut <= _MOST_CUT_CHARACTERS and (at := text.find(needle, at)) >= 0:
            place = span(at, at + len(needle))
            if place is None:
                at, cut = at + 1, cut + 1
                continue
            found = Found(how, *place)
            self._first.setdefault(key, found)
            taken = self._taken.overlapped(*place) if free else None
            if taken is None:
                if free:
                    self._from[key] = at
                return found
            at = max(at + 1, offset(taken))
        self._from[key] = len(text) + 1
        return self._first.get(key)

    def _find_fuzzy(self, snippet: str, free: bool) -> Found | None:
        """The likeliest occurrence of a snippet with small differences; None if there is none.

        With `free`, rather one that `take` has not marked.
        """
        core = normalised(snippet).strip()
        if core not in self._fuzzy:
            spans = dict.fromkeys(self._fuzzy_search.find(core))
            self._fuzzy[core] = [Found("nearly", *self._folded.around(start, end)) for start, end in spans]
        places = self._fuzzy[core]
        untaken = (each for each in places if self._taken.overlapped(each.start, each.end) is None)
        return next(untaken if free else iter(places), None) or next(iter(places), None)

    @cached_property
    def _folded(self) -> Folded:
        """The draft in normalised form, made once."""
        return Folded(self.draft)

    @cached_property
    def _fuzzy_search(self) -> FuzzySearch:
        """The search for similar snippets in the normalised draft, made once."""
        return FuzzySearch(self._folded.text)


# ---------------------------------------------------------------- normalised text


class Folded:
    """A text in normalised form, which is in `text`, and the place in the original of each of its characters.

    Normalised: runs of white space become one blank, typographic quotes and dashes plain ones, `…` three dots, letters
    lower case.
    """

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._begins, self._ends = array("q"), array("q")
        at = 0
        for start, end in [*(match.span() for match in _uneven().finditer(text)), (len(text), len(text))]:
            even, one = text[at:start].translate(_PLAIN).casefold(), _normalised_run(text[start:end])
            pieces += even, one
            self._begins.extend([*range(at, start), *[start] * len(one)])
            self._ends.extend([*range(at + 1, start + 1), *[end] * len(one)])
            at = end
        self.text = "".join(pieces)

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The span in the original of `text[start:end]`, which is not empty.

        None if it begins or ends inside what one character of the original, or one run of white space, became.
        """
        begins = self._begins
        cuts = any(0 < at < len(begins) and begins[at] == begins[at - 1] for at in (start, end))
        return None if cuts else self.around(start, end)

    def around(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, not empty, widened to whole original characters."""
        return self._begins[start], self._ends[end - 1]

    def offset(self, source: int) -> int:
        """The offset in `text` of the original's character at `source`, or of the first one after it.

        The length of `text` if there is none.
        """
        return bisect_left(self._begins, source)


@lru_cache(maxsize=256)
def normalised(text: str) -> str:
    """The text in normalised form, as in `Folded`."""
    return Folded(text).text


def _normalised_run(characters: str) -> str:
    """The normalised form of white space (one blank), of "…" ("...") or of a character that casefold lengthens.

    "" for "".
    """
    if characters == _ELLIPSIS:
        return "..."
    return " " if characters.isspace() else characters.casefold()


@cache
def _uneven() -> re.Pattern[str]:
    """A pattern of what is not normalised character by character.

    That is white space other than a single blank, "…", and characters that casefold turns into more than one.
    """
    growing = "".join(map(chr, (point for point in range(_LAST_THAT_GROWS + 1) if len(chr(point).casefold()) > 1)))
    return re.compile(rf"\s{{2,}}+|[^\S ]|[{_ELLIPSIS}{growing}]")
