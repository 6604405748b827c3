"""Sides of questions: train or test, near-duplicates together, and stable while the data grows."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from xxhash import xxh3_64_intdigest


def assign(
    ids: Sequence[str],
    created: Sequence[datetime],
    duplicates: Iterable[tuple[int, int]],
    *,
    test_share: float,
    seed: int,
) -> list[str]:
    """train, test or overlap for each question.

    In order of (creation date, id) a question takes the side of its earlier near-duplicates
    (`duplicates`: positions of two), whichever side that is: those of an overlap question are
    overlap too. Where they disagree it is overlap; without any, its id's hash decides. So no
    question in train is a near-duplicate of one in test, and a later question changes no earlier one's side.
    """
    order = sorted(range(len(ids)), key=lambda place: (created[place], ids[place]))
    earlier = _earlier(order, duplicates)
    sides = [""] * len(ids)
    for place in order:
        taken = {sides[other] for other in earlier[place]}
        sides[place] = _agreed(taken) if taken else _hashed(ids[place], test_share, seed)
    return sides


def _earlier(order: Sequence[int], duplicates: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Of each question its near-duplicates that come before it."""
    rank = {place: number for number, place in enumerate(order)}
    earlier: list[list[int]] = [[] for _ in order]
    for pair in duplicates:
        first, second = sorted(pair, key=rank.__getitem__)
        earlier[second].append(first)
    return earlier


def _agreed(sides: set[str]) -> str:
    return next(iter(sides)) if len(sides) == 1 else "overlap"


def _hashed(question_id: str, test_share: float, seed: int) -> str:
    share = xxh3_64_intdigest(f"{seed}\x1f{question_id}".encode()) / 2**64
    return "test" if share < test_share else "train"
