"""Where a snippet stands in a text that differs from it in few signs: found by shared sequences of five signs.

At most one sign in ten may differ (edit distance). A place is looked for only where enough sequences of five point to
it, and confirmed with Myers' bit vectors (Hyyrö's form), so time is bounded: for a snippet by how many places are
tried, for a text by how many signs are compared in all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

LEAST_CHARACTERS, MOST_CHARACTERS = 20, 10_000
ALIKE = 10  # one sign in so many may differ

_GRAM = 5  # wherever one sign in ten is wrong, of 20 signs or more, six in a row are right
_MOST_VOTES = 2_000
_MOST_TRIED = 4
_SIGNS_AT_ONCE = 512
_MOST_COMPARED = 4_000_000


class NearSearch:
    """A text in which snippets are looked for, one after another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_COMPARED
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for at in range(len(text) - _GRAM + 1):
            self._places[text[at : at + _GRAM]].append(at)

    def find(self, snippet: str) -> Iterator[tuple[int, int]]:
        """Spans that are nearly the snippet, those that share most with it first; without blanks at their ends."""
        if not LEAST_CHARACTERS <= len(snippet) <= MOST_CHARACTERS:
            return
        seen: set[tuple[int, int]] = set()
        for low, high in self._windows(snippet):
            self._left -= (high - low) * (1 + len(snippet) // _SIGNS_AT_ONCE)
            if self._left < 0:
                return
            span = nearest(snippet, self._text[low:high], len(snippet) // ALIKE)
            if span and (found := self._trimmed(low + span[0], low + span[1])) not in seen:
                seen.add(found)
                yield found

    def _windows(self, snippet: str) -> list[tuple[int, int]]:
        """Where the snippet may stand, the likeliest first.

        Shared sequences lie on diagonals (place in the text less place in the snippet) that differ by at most the
        number of wrong signs: they are counted in bands of that width, of which two neighbours hold all of a match.
        """
        wrong = len(snippet) // ALIKE
        width = wrong + 1
        votes, least = self._votes(snippet, width, wrong)
        scored = sorted((-(count + votes.get(band + 1, 0)), band) for band, count in votes.items())
        likely = [band for score, band in scored if -score >= least][:_MOST_TRIED]
        size = len(self._text)
        return [(max(0, band * width - wrong), min(size, (band + 2) * width + len(snippet) + wrong)) for band in likely]

    def _votes(self, snippet: str, width: int, wrong: int) -> tuple[Counter[int], int]:
        """How many sequences point to each band, rare ones first; and how many must, where the snippet stands."""
        places = [(self._places.get(snippet[at : at + _GRAM], []), at) for at in range(len(snippet) - _GRAM + 1)]
        places.sort(key=lambda found: len(found[0]))
        votes: Counter[int] = Counter()
        room = _MOST_VOTES
        counted = 0
        for found, at in places:
            if room <= 0:
                break
            votes.update((place - at) // width for place in found[:room])
            room -= len(found)
            counted += 1
        return votes, max(1, counted - _GRAM * wrong)

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while self._text[start] == " ":
            start += 1
        while self._text[end - 1] == " ":
            end -= 1
        return start, end


def nearest(snippet: str, text: str, most: int) -> tuple[int, int] | None:
    """The span of the text at the least edit distance from the snippet, if that is at most `most`; not empty.

    Of several ends at this distance the last that ends no word in its middle, likewise the first beginning.
    """
    scores = list(edit_distances(snippet, text, anywhere=True))
    least = min(scores, default=most + 1)
    if least > most:
        return None
    first = scores.index(least) + 1
    ends = [end for end in range(first, min(first + 2 * most, len(scores)) + 1) if scores[end - 1] == least]
    end = _at_boundary(text, ends[::-1])
    back = list(edit_distances(snippet[::-1], text[:end][::-1], anywhere=False))
    starts = [end - length for length in range(len(back), 0, -1) if back[length - 1] == least]
    return _at_boundary(text, starts), end


def _at_boundary(text: str, offsets: Sequence[int]) -> int:
    """The first of these that is in the middle of no word, else the first."""
    return next((at for at in offsets if not (text[at - 1 : at].isalnum() and text[at : at + 1].isalnum())), offsets[0])


def edit_distances(snippet: str, text: str, *, anywhere: bool) -> Iterator[int]:
    """After each sign of the text the edit distance of the snippet from what ends there.

    `anywhere`: from the nearest such piece of the text; else from all of the text until there.
    """
    size = len(snippet)
    full, top = (1 << size) - 1, 1 << (size - 1)
    holds: dict[str, int] = {}
    for place, sign in enumerate(snippet):
        holds[sign] = holds.get(sign, 0) | 1 << place
    more, less, score = full, 0, size  # by how much each row of the matrix differs from the row above
    carried = 0 if anywhere else 1
    for sign in text:
        equal = holds.get(sign, 0)
        same = ((((equal & more) + more) ^ more) | equal | less) & full
        rises, falls = less | (full & ~(same | more)), same & more
        score += bool(rises & top) - bool(falls & top)
        rises = (rises << 1 | carried) & full
        more = (falls << 1 & full) | (full & ~(same | rises))
        less = same & rises
        yield score
