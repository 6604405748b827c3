"""BM25 over a collection that is read twice and never held: for few queries and many passages.

The first reading counts the passages that have a word of the queries, the second scores them, a batch at a time.
Weights and order are those of `bm25.Index`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.retrieval.bm25 import DECIMALS, K1, B
from tasks.retrieval.counts import STOP_WORDS, count_known, count_words
from tasks.retrieval.nearest import Positions, Scores, padded, top_products
from tasks.text.copies.shingles import words as every_word

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Batches = Callable[[], Iterable[Sequence[str]]]


def top_streamed(queries: Sequence[str], batches: Batches, k: int) -> tuple[Positions, Scores]:
    """For each query the k best passages: (positions, scores), both (queries, k), best first, ties by position; padded
    with -1 and 0 where fewer passages share a word with the query. A word that a query repeats counts each time.

    `batches()` gives the texts of the collection, in the same batches each time; positions count all of them. Memory:
    the queries, one batch, and 2 k cells a query.
    """
    asked, words = count_words(queries)
    lengths, weights = _idf(batches, words)
    mean = float(lengths.sum()) / max(lengths.size, 1) or 1.0
    best, scores = padded(len(queries), k)
    start = 0
    for texts in batches():
        counts = count_known(texts, words)
        norms = K1 * (1 - B + B * lengths[start : start + len(texts)] / mean)
        right = _weighted(counts, norms, weights).T.tocsr()
        own, found = top_products(asked, right, k, lambda row, column, score: score > 0, DECIMALS)
        best, scores = _merged(best, scores, np.where(own >= 0, own + start, -1), found)
        start += len(texts)
    return best, scores


def _idf(batches: Batches, words: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """(number of counted words of each passage, inverse document frequency of each of `words`)."""

    lengths, with_word = [np.zeros(0)], np.zeros(len(words), np.int64)
    for texts in batches():
        split = [[word for word in every_word(text) if word not in STOP_WORDS] for text in texts]
        lengths.append(np.array([len(own) for own in split], np.float64))
        known = [words[word] for own in split for word in set(own) if word in words]
        with_word += np.bincount(np.array(known, np.int64), minlength=len(words))
    every = np.concatenate(lengths)
    return every, np.log1p((every.size - with_word + 0.5) / (with_word + 0.5))


def _weighted(counts: csr_matrix, norms: np.ndarray, idf: np.ndarray) -> csr_matrix:
    """The BM25 weights of counts (passages, words) as float32; overwrites the counts."""
    each = np.repeat(norms, np.diff(counts.indptr))
    counts.data = (idf[counts.indices] * counts.data / (counts.data + each)).astype(np.float32)
    return counts


def _merged(best: Positions, scores: Scores, others: Positions, theirs: Scores) -> tuple[Positions, Scores]:
    """The k best of both, (queries, k) each; of equal scores the first, as the positions of `others` are higher."""
    k = best.shape[1]
    both, values = np.hstack([best, others]), np.hstack([scores, theirs])
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(both, order, 1), np.take_along_axis(values, order, 1)
