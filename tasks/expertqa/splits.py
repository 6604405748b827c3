"""Sides of questions in the splits of long-form QA (section 6): the released ones, and new ones that never move.

A question that the paper's authors released keeps its released side. Any other takes the side of the near-duplicates
that are decided before it: all released questions, then those that stand earlier in the bank. Without such, a hash of
its own text decides, so that no question moves when others are added after it. Where near-duplicates are on different
sides, the question goes to `overlap`, which is used by none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from longform.artifacts.parts import key_hash
from longform.errors import UsageError
from tasks.text.copies.duplicates import near_duplicates
from tasks.text.copies.shingles import shingle_hashes, words

SPLITS = ("train", "validation", "test")
OVERLAP = "overlap"
RELEASED, NEAR, BY_HASH = "released", "near-duplicate", "hash"
ALIKE = {1: 0.75, 3: 0.7}  # words of an n-gram -> least Jaccard similarity of near-duplicates
AROUND, LEAST = 4, 3  # words
WHOLE = 4  # words of a question that counts as contained in another, however much stands around it
ASKED = {  # ways to ask -> the plain one; of 2,507 real questions they bring no further pair together
    "how": r"(?:in|by|through) (?:what|which) (?:way|ways|manner|means|method|methods)|by means of what",
    "why": r"how come|(?:for|from|out of) (?:what|which) (?:reason|reasons|cause|causes)",
    "when": r"(?:at|in|on) (?:what|which) (?:time|date|point in time)",
    "where": r"(?:at|in) (?:what|which) (?:place|places|location|locations)",
    "what": "which",
    "is": r"would be|(?<=what )s|(?<=how )s|(?<=who )s|(?<=where )s",
}
SAFEST_FIRST = ("test", "validation", "train")


class Side(NamedTuple):
    """A question's split (train, validation, test or overlap), and what decided it: RELEASED, NEAR or BY_HASH."""

    split: str
    decided_by: str


def deal(
    texts: Iterable[str],
    released: Mapping[str, Collection[str]],
    near: Mapping[str, Collection[str]],
    *,
    salt: str,
    shares: Sequence[float],
) -> dict[str, Side]:
    """Text -> its side. `texts`: those of the bank (`folded`), in its order. `released`: text -> its released splits.
    `near`: text -> its near-duplicates among all texts. `salt`: goes into the hash.

    Of several released splits of one text the first of SAFEST_FIRST counts. UsageError for `shares` that are not three
    of 0 or more that sum to 1.
    """
    limits = _limits(shares)
    sides: dict[str, Side] = {}
    for text in dict.fromkeys(texts):
        if own := released.get(text):
            sides[text] = Side(min(own, key=SAFEST_FIRST.index), RELEASED)
    for text in dict.fromkeys(texts):
        if text not in sides:
            decided = [*(released.get(other, ()) for other in near.get(text, ()))]
            earlier = (sides[other].split for other in near.get(text, ()) if other in sides)
            found = {split for of in (*decided, earlier) for split in of} - {OVERLAP}
            alone = Side(_by_hash(f"{salt}\x1f{text}", limits), BY_HASH)
            sides[text] = Side(found.pop() if len(found) == 1 else OVERLAP, NEAR) if found else alone
    return sides


def near_questions(texts: Sequence[str]) -> dict[str, set[str]]:
    """Text -> the other texts that are near-duplicates of it; texts without any are left out.

    Near-duplicates share three of four words, in any order, or 70 % of their word 3-grams (Jaccard, ALIKE), or one is
    the other with at most AROUND words before and after it, or with any number if it has WHOLE words or more; case,
    punctuation and how a question is asked (ASKED) do not count.
    """
    plain = [unicodedata.normalize("NFKC", text) for text in texts]
    asked = [_plainly_asked(text) for text in plain]
    pairs = {
        pair
        for n, least in ALIKE.items()
        for own in (plain, asked)
        for pair in near_duplicates([shingle_hashes(text, n) for text in own], least)
    }
    inside = {pair for own in (plain, asked) for pair in _contained([tuple(words(text)) for text in own])}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in sorted(pairs | inside):
        found[texts[one]].add(texts[other])
        found[texts[other]].add(texts[one])
    return dict(found)


def _plainly_asked(text: str) -> str:
    """The words of a text, with blanks between, asked in the plain way (ASKED)."""
    said = " ".join(words(text))
    for plain, ways in ASKED.items():
        said = re.sub(rf"\b(?:{ways})\b", plain, said)
    return said


def _contained(texts: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """(i, j) of all texts, given as their words, of which i has at least LEAST words and stands whole in j, with up to
    AROUND words around it, or any number where i has at least WHOLE words.
    """
    known: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, own in enumerate(texts):
        if len(own) >= LEAST:
            known[own[:LEAST]].append(place)
    for place, own in enumerate(texts):
        for start in range(len(own) - LEAST + 1):
            for other in known.get(own[start : start + LEAST], ()):
                inside = texts[other]
                around = len(own) - len(inside)
                enough = other != place and (len(inside) >= WHOLE or around <= AROUND)
                if enough and own[start : start + len(inside)] == inside:
                    yield other, place


def folded(text: str) -> str:
    """The text in lower case with runs of white space as one blank: questions with equal results count as one."""
    return " ".join(text.split()).casefold()


def _limits(shares: Sequence[float]) -> list[Fraction]:
    """The shares summed up from the first; UsageError if they are not three of 0 or more that sum to 1."""
    exact = [Fraction(str(share)) for share in shares]
    if len(exact) != len(SPLITS) or sum(exact) != 1 or min(exact) < 0:
        raise UsageError(
            f"The shares {list(shares)} are no split: give three of 0 or more that sum to 1, such as 0.8, 0.1 and 0.1."
        )
    return list(accumulate(exact))


def _by_hash(key: str, limits: Sequence[Fraction]) -> str:
    """The first split below whose limit the hash of the key lies, as a number from 0 to 1."""
    place = Fraction(key_hash(key), 2**64)
    return next(split for split, limit in zip(SPLITS, limits, strict=True) if place < limit)
