"""Fuzzy search: spans of a text within a small edit distance of a snippet, at most one character in ten.

Candidate windows are those that share enough 5-grams with the snippet; each is confirmed with Myers' bit-vector
algorithm (Hyyrö's form). Time is bounded by the number of windows per snippet and of characters compared per text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

LEAST_CHARACTERS, MOST_CHARACTERS = 20, 10_000
CHARACTERS_PER_ERROR = 10

_GRAM = 5  # with one error in ten characters, 20 or more characters have six correct ones in a row
_MOST_VOTES = 2_000
_MOST_WINDOWS = 4
_CHARACTERS_AT_ONCE = 512
_MOST_COMPARED = 4_000_000


class FuzzySearch:
    """An index of a text's 5-grams, to search the text for any number of snippets.

    All searches together compare at most a fixed number of characters; then nothing more is found.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _MOST_COMPARED
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for at in range(len(text) - _GRAM + 1):
            self._places[text[at : at + _GRAM]].append(at)

    def find(self, snippet: str) -> Iterator[tuple[int, int]]:
        """Spans (start, end) of the text that are close to the snippet, without blanks at their ends.

        Close: an edit distance of at most one for every CHARACTERS_PER_ERROR characters of the snippet. At most four
        spans, those first that share more 5-grams with the snippet. None for a snippet of fewer than LEAST_CHARACTERS
        or more than MOST_CHARACTERS, or when the text's budget of compared characters is spent.
        """
        if not LEAST_CHARACTERS <= len(snippet) <= MOST_CHARACTERS:
            return
        for low, high in self._windows(snippet):
            self._left -= (high - low) * (1 + len(snippet) // _CHARACTERS_AT_ONCE)
            if self._left < 0:
                return
            span = nearest_span(snippet, self._text[low:high], len(snippet) // CHARACTERS_PER_ERROR)
            if span:
                yield self._trimmed(low + span[0], low + span[1])

    def _windows(self, snippet: str) -> list[tuple[int, int]]:
        """At most four windows (start, end) of the text that may hold the snippet, the likeliest first.

        The 5-grams of a match lie on diagonals (offset in the text minus offset in the snippet) that differ by at most
        the number of errors. They are counted in bands of that width; two neighbouring bands hold a whole match.
        """
        errors = len(snippet) // CHARACTERS_PER_ERROR
        width = errors + 1
        votes, least = self._votes(snippet, width, errors)
        scored = sorted((-(count + votes.get(band + 1, 0)), band) for band, count in votes.items())
        likely = [band for score, band in scored if -score >= least][:_MOST_WINDOWS]
        size, reach = len(self._text), len(snippet) + errors
        return [(max(0, band * width - errors), min(size, (band + 2) * width + reach)) for band in likely]

    def _votes(self, snippet: str, width: int, errors: int) -> tuple[Counter[int], int]:
        """(band -> number of the snippet's 5-grams in it, least number that the bands of a match have).

        A band is a range of `width` diagonals; `errors`: most edits of a match. At most 2,000 occurrences are counted,
        those of rare 5-grams first.
        """
        places = [(self._places.get(snippet[at : at + _GRAM], []), at) for at in range(len(snippet) - _GRAM + 1)]
        places.sort(key=lambda found: len(found[0]))
        before = accumulate((len(found) for found, _ in places), initial=0)
        counted = sum(number < _MOST_VOTES for number, _ in zip(before, places, strict=False))
        bands = ((place - at) // width for found, at in places for place in found)
        return Counter(islice(bands, _MOST_VOTES)), max(1, counted - _GRAM * errors)

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        """The span (start, end) of the text, without the blanks at its ends."""
        found = self._text[start:end]
        return end - len(found.lstrip(" ")), start + len(found.rstrip(" "))


def nearest_span(snippet: str, text: str, most: int) -> tuple[int, int] | None:
    """The non-empty span (start, end) of the text with the least edit distance from a non-empty snippet.

    None if that distance exceeds `most`. Of several such spans the one with the last end that cuts no word (the last
    end if all do), and then likewise with the first start. An end more than 2 * `most` after the first is ignored.
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
    """The first of the offsets that is not inside a word; the first of all if every one is."""
    return next((at for at in offsets if not (text[at - 1 : at].isalnum() and text[at : at + 1].isalnum())), offsets[0])


def edit_distances(snippet: str, text: str, *, anywhere: bool) -> Iterator[int]:
    """For each character of the text, the edit distance between the snippet and the text that ends with it.

    `anywhere`: the compared text may begin anywhere (the least distance is taken); else it begins at the first
    character. The snippet must not be empty.
    """
    size = len(snippet)
    full, top = (1 << size) - 1, 1 << (size - 1)
    positions: defaultdict[str, int] = defaultdict(int)
    for place, character in enumerate(snippet):
        positions[character] |= 1 << place
    more, less, score = full, 0, size  # bits of rows that are one more, one less than the row above; the last row
    carried = 0 if anywhere else 1
    for character in text:
        equal = positions.get(character, 0)
        same = ((((equal & more) + more) ^ more) | equal | less) & full
        rises, falls = less | (full & ~(same | more)), same & more
        score += bool(rises & top) - bool(falls & top)
        rises = (rises << 1 | carried) & full
        more = (falls << 1 & full) | (full & ~(same | rises))
        less = same & rises
        yield score
