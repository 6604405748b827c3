"""Exact nearest neighbours of every text among the other texts, without paraphrases: related questions (axiom 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.retrieval.counts import count_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]
Usable = Callable[[Positions, Positions, Scores], NDArray[np.bool_]]

DECIMALS = 5  # of a similarity: the noise of float32 sums neither orders texts nor passes a threshold
NOISE = 1e-4  # more than the noise of a float32 product of vectors of length 1, up to 1,600 dimensions
CELLS = 2**24  # scores in memory at a time


def nearest_tfidf(
    texts: Sequence[str], k: int, below: float, *, sides: Positions | None = None, groups: Positions | None = None
) -> tuple[Positions, Scores]:
    """For each text its k nearest other texts, by TF-IDF cosine: (positions, cosines), both (n, k).

    Only texts with a cosine above 0 and less than `below` count; with `sides`, only those with the same number there;
    with `groups`, only those with another. Nearest first, ties by position; padded with -1 and 0. The weight of a word
    is (1 + log tf) * idf. Words of one letter count (C, R), and so do words that only one text has (they make it
    unlike the others, and the smallest corpus has two texts). Left out are only the 33 commonest English words: longer
    lists of stop words hold some with a meaning (fire, interest, system).
    """
    matrix = tfidf(texts)

    def within(own: Positions, apart: Positions) -> tuple[Positions, Scores]:
        rows = matrix[own]
        return top_products(
            rows,
            rows.T.tocsr(),
            k,
            lambda row, column, score: (apart[row] != apart[column]) & (score < below),
            DECIMALS,
        )

    return _by_side(len(texts), k, sides, groups, within)


def _by_side(
    size: int,
    k: int,
    sides: Positions | None,
    groups: Positions | None,
    within: Callable[[Positions, Positions], tuple[Positions, Scores]],
) -> tuple[Positions, Scores]:
    """What `within` finds for the texts of each side, put together: it gets their positions and their groups (by
    default each its own), and returns (positions among them, cosines).
    """
    columns, scores = padded(size, k)
    apart = np.arange(size) if groups is None else groups
    for side in [None] if sides is None else np.unique(sides):
        own = np.arange(size) if side is None else np.flatnonzero(sides == side)
        found, scores[own] = within(own, apart[own])
        columns[own] = np.where(found >= 0, own[found], -1) if own.size else found
    return columns, scores


def pairs_tfidf(texts: Sequence[str], at_least: float) -> Iterator[tuple[int, int, float]]:
    """(i, j, cosine), i < j, in no order, of all texts whose TF-IDF cosine (as in `nearest_tfidf`) is `at_least` or
    more, which is above 0.
    """
    matrix = tfidf(texts)
    right, rows, ask = matrix.T.tocsr(), np.arange(len(texts) if matrix.nnz else 0), 16
    while rows.size:
        ask, more = min(ask, len(texts)), []
        for block in blocks(rows, ask):
            row, column, score, floor = _largest(matrix[block], right, ask, DECIMALS)
            done = floor < at_least
            good = done[row] & (score >= at_least) & (block[row] < column)
            yield from zip(block[row[good]].tolist(), column[good].tolist(), score[good].tolist(), strict=True)
            more.append(block[~done])
        rows, ask = np.concatenate(more), 8 * ask


def pairs_dense(vectors: Scores, at_least: float) -> Iterator[tuple[int, int, float]]:
    """(i, j, cosine), i < j, of all vectors whose cosine (as in `nearest_dense`) is `at_least` or more."""
    unit = _unit(vectors)
    for block in blocks(np.arange(len(unit)), len(unit)):
        for row, cells in zip(block.tolist(), unit[block] @ unit.T, strict=True):
            near = np.flatnonzero(cells >= at_least - NOISE)
            near, exact = _exact(unit, row, near[near > row], math.inf)
            alike = exact >= at_least
            yield from zip(repeat(row), near[alike].tolist(), exact[alike].tolist())


def tfidf(texts: Iterable[str]) -> csr_matrix:
    """TF-IDF weights (texts, words) as float32, the weight of a word being (1 + log tf) * idf.

    Each row has length 1, or 0 for a text without words.
    """
    weights, words = count_words(texts)
    size = weights.shape[0]
    with_word = np.bincount(weights.indices, minlength=len(words))
    idf = (np.log((1 + size) / (1 + with_word)) + 1).astype(np.float32)
    weights.data = (1 + np.log(weights.data)) * idf[weights.indices]
    rows = np.repeat(np.arange(size), np.diff(weights.indptr))
    lengths = np.sqrt(np.bincount(rows, weights.data.astype(np.float64) ** 2, minlength=size))
    weights.data /= lengths[rows].astype(np.float32)
    return weights


def top_products(
    left: csr_matrix, right: csr_matrix, k: int, usable: Usable, decimals: int
) -> tuple[Positions, Scores]:
    """For each row of left @ right its k largest positive usable cells: (columns, scores), both (rows, k).

    `usable(rows, columns, scores)` says which cells count. Exact: largest first, ties (after rounding to `decimals`)
    by column, padded with -1 and 0. More cells of a row are computed until its k usable ones are certain or no
    positive cell is left.
    """
    columns, scores = padded(left.shape[0], k)
    rows, ask = np.arange(left.shape[0] if right.nnz else 0), 2 * k + 8
    while rows.size:
        ask, short = min(ask, right.shape[1]), []
        for block in blocks(rows, ask):
            row, column, score, floor = _largest(left[block], right, ask, decimals)
            good = (score > 0) & usable(block[row], column, score)
            settled = np.bincount(row[good & (score > floor[row])], minlength=block.size) >= k
            row, column, score = row[good], column[good], score[good]
            rank = np.arange(row.size) - np.searchsorted(row, row)
            top = rank < k
            columns[block[row[top]], rank[top]] = column[top]
            scores[block[row[top]], rank[top]] = score[top]
            short.append(block[~settled & (floor > 0)])
        rows, ask = np.concatenate(short), 4 * ask
    return columns, scores


def _largest(
    left: csr_matrix, right: csr_matrix, ask: int, decimals: int
) -> tuple[Positions, Positions, Scores, Scores]:
    """(rows, columns, scores, floors): the `ask` largest positive cells in each row of left @ right.

    The first three have an entry for each cell, sorted by row, falling score (rounded to `decimals`) and column.
    `floors` has one for each row of `left`: no cell that was left out exceeds it, but one may equal it (the library
    does not say which of the ties at the last place it keeps); it is 0 if no positive cell was left out.
    """
    from sparse_dot_topn import sp_matmul_topn

    found = sp_matmul_topn(left, right, top_n=ask, threshold=0, sort=True, n_threads=2)
    counts = np.diff(found.indptr)
    row = np.repeat(np.arange(counts.size), counts)
    score = np.round(found.data, decimals)
    floor = np.zeros(counts.size, np.float32)
    if ask < right.shape[1]:
        cut = counts == ask
        floor[cut] = score[found.indptr[1:][cut] - 1]
    order = np.lexsort((found.indices, -score, row))
    return row, found.indices[order].astype(np.int64), score[order], floor


def nearest_dense(
    vectors: Scores, k: int, below: float, *, sides: Positions | None = None, groups: Positions | None = None
) -> tuple[Positions, Scores]:
    """For each vector (n, d) its k nearest others, by cosine: (positions, cosines), both (n, k).

    As in `nearest_tfidf`, only cosines above 0 and less than `below` count, of the same of `sides` and another of
    `groups`, nearest first, ties by position, padded with -1 and 0. A zero vector is near to none. The matrix product
    only finds candidates, whose cosines are then computed in float64: it gives equal vectors unequal last digits.
    """
    unit = _unit(vectors)

    def within(own: Positions, apart: Positions) -> tuple[Positions, Scores]:
        rows = unit[own]
        columns, scores = padded(own.size, k)
        for block in blocks(np.arange(own.size), own.size):
            products = rows[block] @ rows.T
            products[apart[block][:, None] == apart[None, :]] = -1
            for row, cells in zip(block, products, strict=True):
                near, exact = _exact(rows, row, _candidates(cells, k, below), below)
                best = np.lexsort((near, -exact))[:k]
                columns[row, : best.size], scores[row, : best.size] = near[best], exact[best]
        return columns, scores

    return _by_side(len(unit), k, sides, groups, within)


def _unit(vectors: Scores) -> Scores:
    """The vectors with length 1, or 0 for zero vectors, as float32."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _candidates(cells: Scores, k: int, below: float) -> Positions:
    """Positions of the k largest cells in (0, below), and of all cells that may be among these but for NOISE.

    `cells`: the approximate cosines of one vector with all vectors.
    """
    sure = cells[cells < below - NOISE]
    least = np.partition(sure, -k)[-k] if 0 < k <= sure.size else 0
    return np.flatnonzero((cells >= max(least, 0) - NOISE) & (cells < below + NOISE))


def _exact(unit: Scores, row: int, near: Positions, below: float) -> tuple[Positions, Scores]:
    """(positions, cosines) for those of `near` whose exact cosine with the vector at `row` is in (0, below).

    `unit`: all vectors, each of length 1 or 0; `near`: positions in it. Cosines are rounded to DECIMALS.
    """
    exact = (unit[near].astype(np.float64) * unit[row]).sum(axis=1).round(DECIMALS).astype(np.float32)
    usable = (exact > 0) & (exact < below)
    return near[usable], exact[usable]


def padded(rows: int, k: int) -> tuple[Positions, Scores]:
    """(positions, scores) for k neighbours of each row, still without any: -1 and 0 everywhere, both (rows, k)."""
    return np.full((rows, k), -1, np.int64), np.zeros((rows, k), np.float32)


def blocks(rows: Positions, cells: int) -> Iterator[Positions]:
    """`rows` in order, in blocks that need at most CELLS cells; at least one row is in a block.

    `cells`: the number of cells that one row needs.
    """
    size = max(1, CELLS // max(cells, 1))
    return (rows[start : start + size] for start in range(0, rows.size, size))
