"""The stages that assign questions to splits: by hash, near-duplicates together."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from schemas.axioms import SIGNATURES, SPLITS


@stage(SIGNATURES, revision=1)
def sign_questions(context: StageContext, threads: Rows) -> Iterator[pa.RecordBatch]:
    """Hashes of the word 3-grams of each question's title and text, by which near-duplicates are found."""
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
    """The split (train, test or overlap) of every question; all sites together, as cross-posts must be in the same
    split.
    """
    from tasks.axioms.split_rule import assign
    from tasks.text.duplicates import near_duplicates

    table = signatures.table()
    ids, created = table.column("question_id").to_pylist(), table.column("created").to_pylist()
    duplicates = near_duplicates([row.values.to_numpy() for row in table.column("shingles")], similarity)
    splits = assign(ids, created, duplicates, test_share=test_share, seed=seed)
    earlier = _earlier(ids, created, duplicates)
    for question, split in zip(ids, splits, strict=True):
        yield {"question_id": question, "split": split, "duplicate_of": sorted(earlier.get(question, ()))}


def _earlier(ids: list[str], created: list[object], duplicates: list[tuple[int, int]]) -> dict[str, list[str]]:
    """question id -> ids of its near-duplicates that were created before it."""
    found: dict[str, list[str]] = {}
    for pair in duplicates:
        first, last = sorted(pair, key=lambda place: (created[place], ids[place]))
        found.setdefault(ids[last], []).append(ids[first])
    return found
