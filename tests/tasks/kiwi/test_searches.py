"""Passages of a question: by words against another BM25, by vectors against plain cosine, both together, none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from expertqa_tables import filled

from longform.artifacts.rows import Row
from longform.errors import UsageError
from schemas.kiwi import PASSAGES
from tasks.kiwi.retrieval import check_retrieval, searching

TEXTS = [
    "Jars are closed with wax in autumn.", "Lids of tin hold for years.", "Cork swells when it is wet.",
    "Wax melts at sixty degrees.", "A cellar keeps jars cool.", "Glass breaks in frost.",
]  # fmt: skip
ROWS = [
    filled(PASSAGES, passage_id=f"q/s2/{n}#0", question_id="q", paper_id=f"s2/{n}", title=f"T{n}", text=text)
    for n, text in enumerate(TEXTS)
]
LETTERS = "aceiklorstwx"


def embed(texts: Sequence[str]) -> list[list[float]]:
    """A text's letters, counted."""
    return [[text.lower().count(letter) + 0.1 for letter in LETTERS] for text in texts]


def places(rows: list[Row]) -> list[int]:
    return [int(row["paper_id"].removeprefix("s2/")) for row in rows]


@pytest.mark.parametrize(("query", "first"), [("melts wax", 3), ("cork wet", 2), ("jars cellar cool", 4)])
def test_by_words_the_passage_that_shares_most_comes_first_and_those_that_share_nothing_do_not(
    query: str, first: int
) -> None:
    found = places(searching("bm25", ROWS, None)(query, 5))
    assert found[0] == first
    words = {*query.split()}
    assert {*found} == {n for n, text in enumerate(TEXTS) if words & {*text.lower().strip(".").split()}}


@pytest.mark.parametrize("query", ["wax", "a cold cellar", "tin"])
def test_by_vectors_passages_are_ranked_by_cosine(query: str) -> None:
    vectors = np.array(embed([f"T{n}\n{text}" for n, text in enumerate(TEXTS)]))
    (asked,) = np.array(embed([query]))
    cosines = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
    assert places(searching("dense", ROWS, embed)(query, 3)) == np.argsort(-cosines)[:3].tolist()


def test_together_a_passage_that_both_rank_first_is_first() -> None:
    search = searching("hybrid", ROWS, embed)
    query = "Lids of tin hold for years."
    assert places(searching("bm25", ROWS, None)(query, 1)) == places(searching("dense", ROWS, embed)(query, 1)) == [1]
    assert places(search(query, 5))[0] == 1
    assert len({*places(search(query, 5))}) == 5


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_the_order_of_passages_changes_nothing_and_none_gives_none(kind: Any) -> None:
    backwards = searching(kind, ROWS[::-1], embed)
    assert backwards("wax and tin", 4) == searching(kind, ROWS, embed)("wax and tin", 4)
    assert searching(kind, [], embed)("wax", 5) == []


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_embeddings_without_a_model_are_refused_with_the_next_step(kind: Any) -> None:
    with pytest.raises(UsageError, match=f"retrieval = {kind} needs an embedding: an endpoint, or"):
        check_retrieval(kind, None)
    check_retrieval("bm25", None)
