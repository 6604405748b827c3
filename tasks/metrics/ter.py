"""TER: translation edit rate (Snover et al. 2006), the words and moves of runs of words that a text lacks to another.

Edits are insertions, deletions and substitutions of words, and shifts: a run of words moves to another place, as one
edit. Shifts are found greedily, within the bounds of the authors' own program: runs of at most 10 words, moved by at
most 50, and at most 1,000 candidates. Words are those between white space, case aside; of scripts
without blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tasks.text.words import CLUSTERED, HAN_AND_KANA

LONGEST_SHIFT, FARTHEST_SHIFT, MOST_CANDIDATES = 10, 50, 1_000
MOST_WORDS = 1_000
TOO_LONG = f"more than {MOST_WORDS:,} words in one of the texts"
NO_WORDS = "the reference has no words"

_WORD = re.compile(rf"[{HAN_AND_KANA}{CLUSTERED}]|[^\s{HAN_AND_KANA}{CLUSTERED}]+")
_FIRST_SIGN = 0x10000  # each word is one character of a text, from here on


class Ter(NamedTuple):
    """TER in percent of the reference's words, or None and the reason why there is none."""

    score: float | None
    why_not: str | None


class _Shift(NamedTuple):
    """A run of words that stands elsewhere in the reference: where it begins in both texts, and how many words."""

    start: int
    reference_start: int
    length: int


def ter(text: str, reference: str, *, most_words: int = MOST_WORDS) -> Ter:
    """TER of a text against its reference: 100 * edits / words of the reference, 0 for equal texts, no upper bound.

    None, with a reason, for texts of more than `most_words` words, as time grows with their square, and for a
    reference without words (0 if the text has none either).
    """
    mine, theirs = _WORD.findall(text.lower()), _WORD.findall(reference.lower())
    if max(len(mine), len(theirs)) > most_words:
        return Ter(None, TOO_LONG)
    if not theirs:
        return Ter(None, NO_WORDS) if mine else Ter(0.0, None)
    signs = {word: chr(sign) for sign, word in enumerate(dict.fromkeys([*mine, *theirs]), start=_FIRST_SIGN)}
    one, other = ("".join([signs[word] for word in own]) for own in (mine, theirs))
    return Ter(100 * edits(one, other) / len(theirs), None)


def edits(words: str, reference: str) -> int:
    """The number of edits with shifts between two texts, in which each word is one character."""
    from rapidfuzz.distance import Levenshtein

    shifts = tried = 0
    distance = Levenshtein.distance(words, reference)
    while distance and tried < MOST_CANDIDATES:
        best, number = _best_shift(words, reference, MOST_CANDIDATES - tried)
        tried += number
        if best is None or best[0] >= distance or tried >= MOST_CANDIDATES:
            break
        distance, words, shifts = best[0], best[-1], shifts + 1
    return distance + shifts


def _best_shift(words: str, reference: str, most: int) -> tuple[tuple[int, int, int, int, str] | None, int]:
    """(the shift after which fewest edits are left, the number of shifts tried, of about `most` at most).

    The former as (edits left, minus the length of the run, where it begins, where it goes, the words after it), the
    least one; None if no shift can help: a run moves only if it is not all right where it stands, to a place where the
    reference lacks it.
    """
    from rapidfuzz.distance import Levenshtein

    wrong, missing, place = _alignment(words, reference)
    best: tuple[int, int, int, int, str] | None = None
    tried = 0
    for start, theirs, length in _runs(words, reference):
        if not any(wrong[start : start + length]) or not any(missing[theirs : theirs + length]):
            continue
        if start <= place[theirs] < start + length:
            continue
        targets = [0 if at < 0 else place[at] + 1 for at in range(theirs - 1, min(theirs + length, len(reference)))]
        for to in dict.fromkeys(targets):
            moved = _moved(words, start, length, to)
            tried += 1
            found = (Levenshtein.distance(moved, reference), -length, start, to, moved)
            best = found if best is None or found < best else best
        if tried >= most:
            break
    return best, tried


def _alignment(words: str, reference: str) -> tuple[list[bool], list[bool], list[int]]:
    """(which words are edited, which words of the reference are, the word at or before each word of the reference)."""
    from rapidfuzz.distance import Levenshtein

    wrong, missing, place = [False] * len(words), [False] * len(reference), [0] * len(reference)
    for each in Levenshtein.opcodes(words, reference):
        a, b, c, d = each.src_start, each.src_end, each.dest_start, each.dest_end
        if each.tag != "equal":
            wrong[a:b], missing[c:d] = [True] * (b - a), [True] * (d - c)
        if c < d:
            place[c:d] = [a - 1] * (d - c) if each.tag == "insert" else range(a, b)
    return wrong, missing, place


def _runs(words: str, reference: str) -> Iterator[_Shift]:
    """Runs of words, of up to LONGEST_SHIFT words, that also stand in the reference, at most FARTHEST_SHIFT away."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(reference):
        places[word].append(at)
    for start, word in enumerate(words):
        for theirs in places[word]:
            if theirs != start and abs(theirs - start) <= FARTHEST_SHIFT:
                for length in range(1, LONGEST_SHIFT + 1):
                    yield _Shift(start, theirs, length)
                    end, its_end = start + length, theirs + length
                    if end >= len(words) or its_end >= len(reference) or words[end] != reference[its_end]:
                        break


def _moved(words: str, start: int, length: int, to: int) -> str:
    """The words, with the run of `length` from `start` on put before the word that stood at `to`."""
    run = words[start : start + length]
    if to <= start:
        return words[:to] + run + words[to:start] + words[start + length :]
    if to >= start + length:
        return words[:start] + words[start + length : to] + run + words[to:]
    return words[:start] + words[start + length : length + to] + run + words[length + to :]
