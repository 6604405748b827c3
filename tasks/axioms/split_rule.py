"""The rule that assigns questions to splits: by hash, near-duplicates together, and stable while the data grows."""

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
    """The split of each question: train, test or overlap.

    In order of (creation date, id), a question takes the split of its earlier near-duplicates (`duplicates`: pairs of
    positions), also if that is overlap. If they disagree it is overlap; without any, the hash of its id decides between
    train and test. So no question in train is a near-duplicate of one in test, and a later question never changes the
    split of an earlier one.
    """
    order = sorted(range(len(ids)), key=lambda position: (created[position], ids[position]))
    earlier = _earlier(order, duplicates)
    splits = [""] * len(ids)
    for position in order:
        earlier_splits = {splits[duplicate] for duplicate in earlier[position]}
        splits[position] = (
            _common_split(earlier_splits) if earlier_splits else _split_by_hash(ids[position], test_share, seed)
        )
    return splits


def _earlier(order: Sequence[int], duplicates: Iterable[tuple[int, int]]) -> list[list[int]]:
    """For each question, the positions of its near-duplicates that come before it."""
    rank = {place: number for number, place in enumerate(order)}
    earlier: list[list[int]] = [[] for _ in order]
    for pair in duplicates:
        first, second = sorted(pair, key=rank.__getitem__)
        earlier[second].append(first)
    return earlier


def _common_split(splits: set[str]) -> str:
    """The one split in a set, or overlap if it holds more than one."""
    return next(iter(splits)) if len(splits) == 1 else "overlap"


def _split_by_hash(question_id: str, test_share: float, seed: int) -> str:
    """test for a share of `test_share` of all ids, by their hash with the seed; else train."""
    share = xxh3_64_intdigest(f"{seed}\x1f{question_id}".encode()) / 2**64
    return "test" if share < test_share else "train"
