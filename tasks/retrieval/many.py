"""Nearest neighbours of some texts among very many: the related questions of all sites (axiom 1).

What is near counts as in tasks/retrieval/nearest.py. `NearestWords` is exact: its time grows with the square of the
number of texts, but is small (an inverted index, of which only the k best are kept). `NearestVectors` is exact for
small sides; of larger ones it compares a vector only with those of the lists nearest to it (an inverted file, as in
FAISS, but filled and searched in float64 or list by list, so that the result does not depend on the number of threads,
and what must not be a neighbour takes no place): time grows with n ** 1.5, and all cosines are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.retrieval.nearest import (
    DECIMALS,
    NOISE,
    Positions,
    Scores,
    blocks,
    nearest_dense,
    padded,
    tfidf,
    top_products,
)

EXACT = 10_000  # vectors of a side, up to which all are compared
PROBES = 64  # lists that a vector is compared with
SPARE = 8  # candidates more than k, whose exact cosines are computed
ROUNDS = 8  # of k-means
SAMPLED = 40  # vectors a list by which the centres are found

Centres = NDArray[np.float64]


class NearestWords:
    """An index of texts by TF-IDF cosine, as `nearest_tfidf`: only texts with the same number in `sides`, and with
    another in `groups`, are near. The texts are read once and not kept.
    """

    def __init__(self, texts: Iterable[str], *, sides: Positions, groups: Positions) -> None:
        self._rows, self._sides, self._groups = tfidf(texts), sides, groups
        self._own = {side: np.flatnonzero(sides == side) for side in np.unique(sides).tolist()}
        self._words = {side: self._rows[own].T.tocsr() for side, own in self._own.items()}

    def nearest(self, asked: Positions, k: int, below: float) -> tuple[Positions, Scores]:
        """(positions, cosines), both (asked, k), for the texts at the positions `asked`: nearest first, ties by
        position, padded with -1 and 0. Only cosines above 0 and less than `below` count. Exact.
        """
        found, scores = padded(asked.size, k)
        for side in np.unique(self._sides[asked]).tolist():
            places = np.flatnonzero(self._sides[asked] == side)
            own, rows = self._own[side], asked[places]
            groups, others = self._groups[rows], self._groups[own]

            def usable(row: Positions, column: Positions, score: Scores) -> NDArray[np.bool_]:
                return np.asarray((groups[row] != others[column]) & (score < below))  # noqa: B023 (called at once)

            columns, scores[places] = top_products(self._rows[rows], self._words[side], k, usable, DECIMALS)
            found[places] = np.where(columns >= 0, own[columns], -1)
        return found, scores


class NearestVectors:
    """An index of vectors by cosine, as `nearest_dense`: only vectors with the same number in `sides`, and with another
    in `groups`, are near.

    `vectors`: (n, d), each of length 1 or 0; a memory-mapped file is read row by row, list by list. Exact for a side of
    at most `exact` vectors, else each is compared with those of the `probes` lists nearest to it.
    """

    def __init__(
        self, vectors: Scores, *, sides: Positions, groups: Positions, exact: int = EXACT, probes: int = PROBES
    ) -> None:
        self._vectors, self._sides, self._groups = vectors, sides, groups
        self._exact, self._probes = exact, probes

    def nearest(self, asked: Positions, k: int, below: float) -> tuple[Positions, Scores]:
        """As `NearestWords.nearest`, but for the lists that are not looked at. The centres of the lists are found again
        at each call, so ask for all at once.
        """
        found, scores = padded(asked.size, k)
        for side in np.unique(self._sides[asked]).tolist():
            own, places = np.flatnonzero(self._sides == side), np.flatnonzero(self._sides[asked] == side)
            if own.size <= self._exact:
                columns, near = nearest_dense(self._vectors[own], k, below, groups=self._groups[own])
                at = np.searchsorted(own, asked[places])
                found[places], scores[places] = np.where(columns >= 0, own[columns], -1)[at], near[at]
                continue
            candidates = self._candidates(own, asked[places], k + SPARE, below)
            for block in blocks(np.arange(places.size), candidates.shape[1] * self._vectors.shape[1]):
                rows = places[block]
                found[rows], scores[rows] = self._ranked(asked[rows], candidates[block], k, below)
        return found, scores

    def _candidates(self, own: Positions, asked: Positions, most: int, below: float) -> Positions:
        """(asked, most): positions of the vectors that are nearest to each of `asked` by float32 products, among those
        of the lists it is compared with, in no order; -1 where there are fewer. `own`: all of the side.
        """
        centres = _centres(self._vectors, own)
        members = _by_list(_best_lists(self._vectors, own, centres, 1))
        probed = _by_list(_best_lists(self._vectors, asked, centres, min(self._probes, len(centres))))
        found, scores = padded(asked.size, most)
        for number in range(len(centres)):
            held = own[members.get(number, _NONE)]
            listed, groups = self._vectors[held], self._groups[held]
            for block in blocks(probed.get(number, _NONE) if held.size else _NONE, held.size):
                rows = asked[block]
                products = self._vectors[rows] @ listed.T
                products[(self._groups[rows][:, None] == groups) | (products >= below + NOISE)] = 0
                best = _largest_columns(products, most)
                both = np.concatenate([scores[block], np.take_along_axis(products, best, axis=1)], axis=1)
                names = np.concatenate([found[block], held[best]], axis=1)
                kept = _largest_columns(both, most)
                scores[block] = np.take_along_axis(both, kept, axis=1)
                found[block] = np.take_along_axis(names, kept, axis=1)
        return np.where(scores > 0, found, -1)

    def _ranked(self, asked: Positions, candidates: Positions, k: int, below: float) -> tuple[Positions, Scores]:
        """The k nearest of the candidates of each of `asked`, by exact cosines; -1 in `candidates` is none."""
        held = self._vectors[np.maximum(candidates, 0)].astype(np.float64)
        exact = np.einsum("nmd,nd->nm", held, self._vectors[asked].astype(np.float64)).round(DECIMALS)
        near = exact.astype(np.float32)
        near[(candidates < 0) | (near <= 0) | (near >= below)] = 0
        order = np.lexsort((candidates, -near), axis=1)[:, :k]
        near = np.take_along_axis(near, order, axis=1)
        columns, scores = padded(asked.size, k)
        columns[:, : order.shape[1]] = np.where(near > 0, np.take_along_axis(candidates, order, axis=1), -1)
        scores[:, : order.shape[1]] = near
        return columns, scores


_NONE = np.zeros(0, np.int64)


def _centres(vectors: Scores, own: Positions) -> Centres:
    """The centres (lists, d) of the lists into which the vectors at `own` are divided, each of length 1: twice as many
    as the square root of their number, found by k-means on a sample that is evenly spread over them.
    """
    lists = 2 * math.isqrt(own.size)
    sample = own[np.linspace(0, own.size - 1, min(own.size, SAMPLED * lists)).astype(np.int64)]
    centres = vectors[sample[np.linspace(0, sample.size - 1, lists).astype(np.int64)]].astype(np.float64)
    for _ in range(ROUNDS):
        for number, rows in _by_list(_best_lists(vectors, sample, centres, 1)).items():
            mean = vectors[sample[rows]].sum(axis=0, dtype=np.float64)
            centres[number] = mean / (np.linalg.norm(mean) or 1)
    return centres


def _best_lists(vectors: Scores, rows: Positions, centres: Centres, probes: int) -> NDArray[np.int32]:
    """(rows, probes): the numbers of the centres nearest to each of the vectors at `rows`, in no order."""
    found = np.empty((rows.size, probes), np.int32)
    for block in blocks(np.arange(rows.size), 2 * (len(centres) + vectors.shape[1])):
        products = vectors[rows[block]].astype(np.float64) @ centres.T
        found[block] = _largest_columns(products, probes)
    return found


def _by_list(numbers: NDArray[np.int32]) -> dict[int, Positions]:
    """list -> the rows of `numbers` (rows, probes) in which it is."""
    lists, sizes = np.unique(numbers, return_counts=True)
    rows = np.argsort(numbers, axis=None, kind="stable")
    rows //= numbers.shape[1]
    return dict(zip(lists.tolist(), np.split(rows, np.cumsum(sizes)[:-1]), strict=True))


def _largest_columns(cells: NDArray[np.floating], most: int) -> Positions:
    """(rows, at most `most`): the columns of the largest cells of each row, in no order; of one alone the first."""
    if cells.shape[1] <= most:
        return np.broadcast_to(np.arange(cells.shape[1]), cells.shape)
    if most == 1:
        return np.asarray(cells.argmax(axis=1)[:, None])
    return np.asarray(np.argpartition(cells, -most, axis=1)[:, -most:])


def read_vectors(folder: Path, rows: int) -> Scores:
    """The vectors that `write_vectors` (tasks/retrieval/dense.py) wrote to the folder, memory-mapped, (rows, d)."""
    path = folder / "vectors.f32"
    if not rows:
        return np.zeros((0, 1), np.float32)
    return np.memmap(path, np.float32, "r").reshape(rows, -1)
