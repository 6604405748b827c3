"""Splits of long-form questions (section 6): at random, and by field.

A split keeps together all revised answers of a question, and all questions of the same text (white space and case
aside). Questions are ranked by a hash and the ranks cut into splits, so that the order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from longform.artifacts.parts import key_hash
from longform.errors import UsageError

SPLITS = ("train", "validation", "test")


def random_splits(texts: Iterable[str], *, seed: int, shares: Sequence[float]) -> dict[str, str]:
    """Text -> split (train, validation or test), of the distinct texts, ranked by a hash of `seed` and text. Sizes are
    the shares rounded by largest remainder; of equal remainders the earlier split is rounded up.

    UsageError if `shares` are not three of 0 or more that sum to 1.
    """
    ranked = _ranked(texts, seed)
    return _assigned(ranked, apportioned(len(ranked), _exact(shares), [Fraction(0)] * len(SPLITS)))


def field_splits(texts: Iterable[tuple[str, str]], *, seed: int, shares: Sequence[float]) -> dict[str, str]:
    """Text -> split (train, validation or test), of (text, field) pairs; in each field the sizes are its shares,
    rounded up or down, and texts are ranked by a hash of `seed` and text.

    Fields are taken in the order of their names. Rounded up is the split that is furthest below its share over the
    fields so far, the earlier one of equals. So fields of 1 to 9 questions, which cannot be cut 80/10/10, go to train
    first, and all fields together come closest to the shares. A text with two fields counts in the first by name.
    UsageError if `shares` are not three of 0 or more that sum to 1.
    """
    exact, owed = _exact(shares), [Fraction(0)] * len(SPLITS)
    fields: dict[str, str] = {}
    for text, field in texts:
        fields[text] = min(field, fields.get(text, field))
    splits: dict[str, str] = {}
    for field in sorted(set(fields.values())):
        ranked = _ranked((text for text, own in fields.items() if own == field), seed)
        sizes = apportioned(len(ranked), exact, owed)
        owed = [debt + share * len(ranked) - size for debt, share, size in zip(owed, exact, sizes, strict=True)]
        splits |= _assigned(ranked, sizes)
    return splits


def apportioned(n: int, shares: Sequence[Fraction], owed: Sequence[Fraction]) -> list[int]:
    """The sizes of the splits: whole numbers that sum to n, each its share of n rounded up or down.

    Rounded up are those for which the fraction that rounding down drops, plus `owed`, is largest, of equals the first.
    `owed`: for each split how many rows it is short of its share by earlier roundings.
    """
    sizes = [int(share * n) for share in shares]
    rest = [share * n - size for share, size in zip(shares, sizes, strict=True)]
    inexact = [place for place, remainder in enumerate(rest) if remainder]
    inexact.sort(key=lambda place: (-(rest[place] + owed[place]), place))
    for place in inexact[: n - sum(sizes)]:
        sizes[place] += 1
    return sizes


def folded(text: str) -> str:
    """The text in lower case with runs of white space as one blank: questions with equal results count as one."""
    return " ".join(text.split()).casefold()


def _exact(shares: Sequence[float]) -> list[Fraction]:
    """The shares as fractions; UsageError if they are not three of 0 or more that sum to 1."""
    exact = [Fraction(str(share)) for share in shares]
    if len(exact) != len(SPLITS) or sum(exact) != 1 or min(exact) < 0:
        raise UsageError(
            f"The shares {list(shares)} are no split: give three of 0 or more that sum to 1, such as 0.8, 0.1 and 0.1."
        )
    return exact


def _ranked(texts: Iterable[str], seed: int) -> list[str]:
    """The distinct texts, ordered by the hash of seed and text."""
    return sorted(set(texts), key=lambda text: (key_hash(f"{seed}\x1f{text}"), text))


def _assigned(ranked: Sequence[str], sizes: Sequence[int]) -> dict[str, str]:
    """Text -> split: the first texts go to train, as many as its size, the next to validation, the last to test."""
    splits = [split for split, size in zip(SPLITS, sizes, strict=True) for _ in range(size)]
    return dict(zip(ranked, splits, strict=True))
