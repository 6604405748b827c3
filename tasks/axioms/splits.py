"""The stages that assign questions to splits: by hash, near-duplicates together, and stable while the data grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from schemas.axioms import SIGNATURES, SPLITS


@stage(SIGNATURES, revision=1)
def sign_questions(context: StageContext, threads: Rows) -> Iterator[pa.RecordBatch]:
    """For each question, its creation time and the hashes of the word 3-grams of its title and text, by which
    `assign_splits` finds near-duplicates.
    """
    from tasks.text.shingles import shingle_hashes

    for batch in threads.batches(["question_id", "created", "title", "text"]):
        pairs = zip(batch.column("title").to_pylist(), batch.column("text").to_pylist(), strict=True)
        hashes = pa.array([shingle_hashes(f"{title}\n{text}", 3) for title, text in pairs], pa.list_(pa.uint64()))
        arrays = [batch.column("question_id"), batch.column("created"), hashes]
        yield pa.RecordBatch.from_arrays(arrays, schema=SIGNATURES)


@stage(SPLITS, revision=1)
def assign_splits(
    context: StageContext, signatures: AllRows, *, test_share: float, similarity: float, seed: int
) -> Iterator[Row]:
    """The split (train, test or overlap) of every question, by the rules of `assign`, with the sorted ids of its
    earlier near-duplicates. Questions of all sites are compared, as cross-posts must be in the same split.

    `test_share`: share of the questions, 0 to 1, to put in test. `similarity`: Jaccard similarity of the 3-grams from
    which two questions are near-duplicates.
    """
    from tasks.text.duplicates import near_duplicates

    table = signatures.table()
    ids, created = table.column("question_id").to_pylist(), table.column("created").to_pylist()
    duplicates = near_duplicates([row.values.to_numpy() for row in table.column("shingles")], similarity)
    splits = assign(ids, created, duplicates, test_share=test_share, seed=seed)
    earlier = _earlier(ids, created, duplicates)
    for place, question in enumerate(ids):
        same = sorted(ids[other] for other in earlier[place])
        yield {"question_id": question, "split": splits[place], "duplicate_of": same}


def assign(
    ids: Sequence[str],
    created: Sequence[datetime],
    duplicates: Iterable[tuple[int, int]],
    *,
    test_share: float,
    seed: int,
) -> list[str]:
    """The split of each question: train, test or overlap. `duplicates`: pairs of positions of near-duplicate
    questions. `test_share`: probability of test, 0 to 1.

    Questions are decided in order of (creation date, id). A question takes the split of its earlier near-duplicates,
    also if that is overlap; if their splits differ, it is overlap. Without such duplicates a hash of `seed` and its id
    decides between train and test. So no question in train is a near-duplicate of one in test, and a later question
    never changes the split of an earlier one.
    """
    earlier = _earlier(ids, created, duplicates)
    splits = [""] * len(ids)
    for place in sorted(range(len(ids)), key=lambda place: (created[place], ids[place])):
        found = {splits[other] for other in earlier[place]} or {_split_by_hash(ids[place], test_share, seed)}
        splits[place] = found.pop() if len(found) == 1 else "overlap"
    return splits


def _earlier(
    ids: Sequence[str], created: Sequence[datetime], duplicates: Iterable[tuple[int, int]]
) -> defaultdict[int, list[int]]:
    """Position of a question -> positions of its near-duplicates that come before it by (creation date, id). A
    position without such duplicates has no key; looking it up gives [].
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    for pair in duplicates:
        first, last = sorted(pair, key=lambda place: (created[place], ids[place]))
        found[last].append(first)
    return found


def _split_by_hash(question_id: str, test_share: float, seed: int) -> str:
    """The split "test" if the hash of seed and id, as a number from 0 to 1, is below `test_share`; else "train"."""
    share = xxh3_64_intdigest(f"{seed}\x1f{question_id}".encode()) / 2**64
    return "test" if share < test_share else "train"
