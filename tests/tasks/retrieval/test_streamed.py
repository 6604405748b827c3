"""BM25 of a collection that is read in batches, against the index in memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tasks.retrieval.bm25 import Index
from tasks.retrieval.streamed import top_streamed

WORDS = [f"w{number}" for number in range(60)]


@pytest.mark.parametrize("size", [1, 7, 40, 500])
@pytest.mark.parametrize("k", [1, 5, 50])
def test_batches_of_any_size_give_what_one_index_of_all_passages_gives(size: int, k: int) -> None:
    draw = random.Random(3)
    weights = [1 / (1 + place) for place in range(len(WORDS))]
    texts = [" ".join(draw.choices(WORDS, weights, k=draw.randint(0, 25))) for _ in range(300)]
    texts[100:110] = texts[10:20]  # equal scores: the first comes first
    queries = [" ".join(draw.choices(WORDS, weights, k=draw.randint(1, 6))) for _ in range(25)] + ["nothing here", ""]
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    found, scores = top_streamed(queries, lambda: batches, k)
    groups = np.arange(len(texts))
    best, exact = Index(texts, groups).top(queries, np.full(len(queries), -1), k)
    assert found.tolist() == best.tolist()
    np.testing.assert_allclose(scores, exact, atol=2e-4)


def test_an_empty_collection_has_no_passage() -> None:
    found, scores = top_streamed(["tea"], lambda: [], 3)
    assert found.tolist() == [[-1] * 3]
    assert scores.tolist() == [[0.0] * 3]
