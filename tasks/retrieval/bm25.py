"""BM25 in Lucene's form (no negative weights), k1 1.5 and b 0.75, exact: `Index` in memory, `FixedIndex` in a folder.

A FixedIndex is made by bm25s for a corpus that does not change, and read by memory map. One sparse product answers all
queries, as bm25s's own lookups are slower (numpy) or need 170 MB more to install (numba), and order equal scores by
chance.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.retrieval.counts import count_known, count_words
from tasks.retrieval.hits import Hit, index_words
from tasks.retrieval.nearest import Positions, Scores, top_products

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

K1, B = 1.5, 0.75
DECIMALS = 4  # of a score: the noise of float32 sums does not order passages
IDS, VOCABULARY = "ids.json", "words.json"
QUERIES_AT_ONCE = 4_096


class Index:
    """A BM25 index of `passages` in memory, searched by `top`; results name passages by their positions in `passages`.

    `groups` (n,): the group of each passage, e.g. its thread.
    """

    def __init__(self, passages: Sequence[str], groups: NDArray[np.int64]) -> None:
        self._groups = groups
        counts, self._words = count_words(passages)
        self._weights = _weights(counts).T.tocsr()

    def top(self, queries: Sequence[str], groups_of_queries: NDArray[np.int64], k: int) -> tuple[Positions, Scores]:
        """For each query the k best passages outside its own group: (positions, scores), both arrays (queries, k).

        `groups_of_queries`: the group of each query. Best first, ties (after rounding to DECIMALS) by position; padded
        with -1 and 0 where fewer passages share a word with the query. A word that a query repeats counts each time.
        """
        asked = count_known(queries, self._words)
        return top_products(
            asked, self._weights, k, lambda row, column, score: self._groups[column] != groups_of_queries[row], DECIMALS
        )


def _weights(counts: csr_matrix) -> csr_matrix:
    """The BM25 weights of counts (passages, words) as float32: idf * tf / (tf + norm); overwrites the counts.

    norm = K1 * (1 - B + B * length / mean length); idf = ln(1 + (n - m + 0.5) / (m + 0.5)) for a word that m of n
    passages have.
    """
    passages, words = counts.shape
    lengths = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    mean = lengths.sum() / max(passages, 1) or 1.0
    with_word = np.bincount(counts.indices, minlength=words)
    idf = np.log1p((passages - with_word + 0.5) / (with_word + 0.5))
    norms = np.repeat(K1 * (1 - B + B * lengths / mean), np.diff(counts.indptr))
    counts.data = (idf[counts.indices] * counts.data / (counts.data + norms)).astype(np.float32)
    return counts


class FixedIndex:
    """A BM25 index that `build` made in a folder, mapped into memory, for `search`; FileNotFoundError without one.

    Its words are those of `hits.index_words`.
    """

    def __init__(self, folder: Path) -> None:
        self._ids: list[str] = json.loads((folder / IDS).read_bytes())
        self._vocabulary: dict[str, int] = json.loads((folder / VOCABULARY).read_bytes())
        self._weights = _mapped(folder, (len(self._vocabulary), len(self._ids)))

    @classmethod
    def build(cls, passages: Iterable[tuple[str, str]], folder: Path) -> FixedIndex:
        """Index (id, text) pairs in the folder and open the index. The folder appears when the index is complete.

        The folder must not exist, or be empty (else OSError). ValueError for a repeated id. While the index is made,
        memory holds a number for each word of the corpus.
        """
        coded, vocabulary = _numbered_words(passages)
        making = folder.with_name(f"{folder.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        (making / VOCABULARY).write_text(json.dumps(vocabulary))
        (making / IDS).write_text(json.dumps(list(coded)))
        if vocabulary:
            _save(list(coded.values()), vocabulary, making)
        os.rename(making, folder)
        return cls(folder)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query the k best hits, best first, ties by id; fewer if fewer passages share a word with the query.

        A word that a query repeats counts each time. Scores are rounded to DECIMALS.
        """
        starts = range(0, len(queries), QUERIES_AT_ONCE)
        return [hits for start in starts for hits in self._block(queries[start : start + QUERIES_AT_ONCE], k)]

    def _block(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The hits of each of at most QUERIES_AT_ONCE queries, as `search` returns them; none if k is 0 or less."""
        asked, most = count_known(queries, self._vocabulary, index_words), min(max(k, 0), len(self._ids))
        found = top_products(asked, self._weights, most, lambda row, column, score: score > 0, DECIMALS)
        return [
            [Hit(self._ids[at], round(score, DECIMALS)) for at, score in zip(*row, strict=True) if at >= 0]
            for row in zip(*(each.tolist() for each in found), strict=True)
        ]


def _numbered_words(passages: Iterable[tuple[str, str]]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """(passage id -> its words as numbers, word -> number), from (id, text) pairs. ValueError for a repeated id.

    Numbers start at 0. Passages are sorted by id, so that ties by position are ties by id.
    """
    vocabulary: dict[str, int] = {}
    coded: dict[str, list[int]] = {}
    for name, text in passages:
        if name in coded:
            raise ValueError(f"two passages have the id {name!r}")
        coded[name] = [vocabulary.setdefault(word, len(vocabulary)) for word in index_words(text)]
    return dict(sorted(coded.items())), vocabulary


def _save(coded: list[list[int]], vocabulary: dict[str, int], folder: Path) -> None:
    """Index passages by bm25s and save the index to the folder.

    `coded`: each passage as the numbers of its words; `vocabulary`: word -> number.
    """
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG itself
    index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="scipy")
    index.index((coded, vocabulary), create_empty_token=False, show_progress=False)
    index.save(folder, show_progress=False)


def _mapped(folder: Path, shape: tuple[int, int]) -> csr_matrix:
    """The weights that bm25s saved in the folder, as a matrix (words, passages) mapped into memory.

    `shape`: (number of words, number of passages); an empty matrix without words. The mapping is copy-on-write, as the
    sparse product takes no read-only arrays; the file is not changed.
    """
    from scipy.sparse import csr_matrix

    if not shape[0]:
        return csr_matrix(shape, dtype=np.float32)
    names = ("data", "indices", "indptr")
    arrays = tuple(np.load(folder / f"{name}.csc.index.npy", mmap_mode="c") for name in names)
    return csr_matrix(arrays, shape=shape, copy=False)
