"""Evidence for a question: exact BM25 over passages, those of the question's own thread left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.retrieval.counts import count_known, count_words
from tasks.retrieval.nearest import Positions, Scores, padded, top_products

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

K1, B = 1.5, 0.75
DECIMALS = 4  # of a score: the noise of float32 sums does not order passages


class Index:
    """The BM25 weight of every word in every passage, in Lucene's form (no weight is negative).

    `groups` (n,) says which passages belong together, e.g. the threads they are from.
    """

    def __init__(self, passages: Sequence[str], groups: NDArray[np.int64]) -> None:
        self._groups = groups
        counts, self._words = count_words(passages)
        self._weights = _weights(counts).T.tocsr() if self._words else None

    def top(self, queries: Sequence[str], own: NDArray[np.int64], k: int) -> tuple[Positions, Scores]:
        """Of each query the k best passages outside its `own` group: positions and scores, (queries, k).

        Best first, ties by position; padded with -1 and 0 where fewer passages share a word with
        the query. A word that a query repeats counts each time.
        """
        if self._weights is None:
            return padded(len(queries), k)
        asked = count_known(queries, self._words)
        return top_products(
            asked, self._weights, k, lambda row, column, score: self._groups[column] != own[row], DECIMALS
        )


def _weights(counts: csr_matrix) -> csr_matrix:
    """(passages, words) float32: idf * tf / (tf + K1 * (1 - B + B * length / mean length))."""
    passages, words = counts.shape
    lengths = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    with_word = np.bincount(counts.indices, minlength=words)
    idf = np.log1p((passages - with_word + 0.5) / (with_word + 0.5))
    norms = np.repeat(K1 * (1 - B + B * lengths / lengths.mean()), np.diff(counts.indptr))
    counts.data = (idf[counts.indices] * counts.data / (counts.data + norms)).astype(np.float32)
    return counts
