"""Which split a question is on: by hash, near-duplicates together, stable under growth."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from schemas.axioms import SIGNATURES, SPLITS


@stage(SIGNATURES, revision=1)
def sign_questions(context: StageContext, threads: Rows) -> Iterator[pa.RecordBatch]:
    """The word 3-grams of title and text, hashed: what near-duplicates are found by."""
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
    """Train, test or overlap for every question of all sites, as cross-posts must stay on one side."""
    from tasks.axioms.splits import assign
    from tasks.text.duplicates import near_duplicates

    table = signatures.table()
    ids, created = table.column("question_id").to_pylist(), table.column("created").to_pylist()
    duplicates = near_duplicates([row.values.to_numpy() for row in table.column("shingles")], similarity)
    sides = assign(ids, created, duplicates, test_share=test_share, seed=seed)
    earlier = _earlier(ids, created, duplicates)
    for question, side in zip(ids, sides, strict=True):
        yield {"question_id": question, "split": side, "duplicate_of": sorted(earlier.get(question, ()))}


def _earlier(ids: list[str], created: list[object], duplicates: list[tuple[int, int]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in duplicates:
        first, last = sorted(pair, key=lambda place: (created[place], ids[place]))
        found.setdefault(ids[last], []).append(ids[first])
    return found
