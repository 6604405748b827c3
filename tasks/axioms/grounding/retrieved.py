"""What a search finds for a query: the best passages, and a draw of those far below the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from xxhash import xxh3_64_intdigest

from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from schemas.axioms.grounding import RETRIEVED
from tasks.retrieval.hits import Hit

RESERVE = 10  # passages beyond those that are shown, as some may stand on the other side
QUERIES_AT_ONCE = 64


@stage(RETRIEVED, revision=1)
def retrieve_candidates(
    context: StageContext,
    queries: Rows,
    passages: AllRows,
    *,
    backend: str,
    depth: int,
    best: int,
    far: int,
    below: float,
    seed: int,
) -> Iterator[Row]:
    """For each query, of the `depth` passages with the best scores, the first `best` and RESERVE more, and as many more
    than `far` of those with a score below the share `below` of the best one, drawn by `seed`.

    `backend`: bm25, or tantivy, with which memory does not grow with the passages. UsageError if it is not installed.
    """
    from tasks.sources.web.search import shared_index

    index = shared_index(context, passages, backend=backend)
    asked = queries.as_dicts("question_id", "text")
    while rows := list(islice(asked, QUERIES_AT_ONCE)):
        texts = [row["text"] for row in rows]
        for row, hits in zip(rows, index.search(texts, depth) if index else [[]] * len(rows), strict=True):
            key = row["question_id"]
            drawn = far_below(hits, below=below, seed=seed, key=key)
            yield {
                "question_id": key,
                "best": [hit._asdict() for hit in hits[: best + RESERVE]],
                "far": [hit._asdict() for hit in drawn[: far + RESERVE]],
                "looked_at": len(hits),
            }


def far_below(hits: Sequence[Hit], *, below: float, seed: int, key: str) -> list[Hit]:
    """The hits with a score below the share `below` of the first one's, in the order of hashes of seed, key and id.

    `hits`: best first.
    """
    found = [hit for hit in hits if hit.score < below * hits[0].score]
    start = f"{seed}\x1ffar\x1f{key}\x1f"
    return sorted(found, key=lambda hit: (xxh3_64_intdigest((start + hit.passage_id).encode()), hit.passage_id))
