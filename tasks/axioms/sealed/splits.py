"""The stage that assigns questions to splits: by hash, those that are the same together, stable while data grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from xxhash import xxh3_64_intdigest

from longform.engine.stage import AllRows, Row, StageContext, stage
from schemas.axioms import SPLITS
from tasks.axioms.sealed.same import groups, ranks, site_of


@stage(SPLITS, revision=2)
def assign_splits(
    context: StageContext, signatures: AllRows, same: AllRows, *, test_share: float, sites: list[str], seed: int
) -> Iterator[Row]:
    """The split (train, test or overlap) of every question, by the rules of `assign`, with the sorted ids of the
    earlier questions that are the `same`.

    `test_share`: share of the questions, 0 to 1, to put in test. `sites`: in which order they count as earlier.
    """
    table = signatures.table(["question_id", "created"])
    ids, created = (table[name].to_pylist() for name in table.column_names)
    place_of = {key: place for place, key in enumerate(ids)}
    pairs = [(place_of[row["question_id"]], place_of[row["same_as"]]) for row in same]
    splits = assign(ids, created, pairs, test_share=test_share, sites=sites, seed=seed)
    earlier: defaultdict[int, list[int]] = defaultdict(list)
    for later, other in pairs:
        earlier[later].append(other)
    own = [(one, other) for one, other in pairs if site_of(ids[one]) == site_of(ids[other])]
    group, rank = groups(len(ids), own), ranks(ids, created, sites)  # a later site joins no questions of an earlier one
    first: dict[int, int] = {}
    for place in sorted(range(len(ids)), key=lambda place: rank[place]):
        first.setdefault(int(group[place]), place)
    for place, question in enumerate(ids):
        yield {
            "question_id": question,
            "split": splits[place],
            "duplicate_of": sorted(ids[other] for other in earlier[place]),
            "group": ids[first[int(group[place])]],
        }


def assign(
    ids: Sequence[str],
    created: Sequence[datetime],
    same: Iterable[tuple[int, int]],
    *,
    test_share: float,
    sites: Sequence[str],
    seed: int,
) -> list[str]:
    """The split of each question: train, test or overlap. `same`: pairs of positions of questions that are the same.
    `test_share`: probability of test, 0 to 1.

    Questions are decided by the order of their sites in `sites`, of creation date and of id. One that is the same as a
    question of an earlier site is overlap. Else it takes the split of the earlier ones of its site, also if that is
    overlap; if their splits differ, it is overlap. Without such questions a hash of `seed` and its id decides between
    train and test. So no question in train is the same as one in test, and neither a later question nor a later site
    changes the split of an earlier one.
    """
    rank = ranks(ids, created, sites)
    earlier: defaultdict[int, list[int]] = defaultdict(list)
    for pair in same:
        first, last = sorted(pair, key=lambda place: rank[place])
        earlier[last].append(first)
    splits = [""] * len(ids)
    for place in sorted(range(len(ids)), key=lambda place: rank[place]):
        if any(site_of(ids[other]) != site_of(ids[place]) for other in earlier[place]):
            splits[place] = "overlap"
            continue
        found = {splits[other] for other in earlier[place]} or {split_by_hash(ids[place], test_share, seed)}
        splits[place] = found.pop() if len(found) == 1 else "overlap"
    return splits


def split_by_hash(question_id: str, test_share: float, seed: int) -> str:
    """The split "test" if the hash of seed and id, as a number from 0 to 1, is below `test_share`; else "train"."""
    share = xxh3_64_intdigest(f"{seed}\x1f{question_id}".encode()) / 2**64
    return "test" if share < test_share else "train"
