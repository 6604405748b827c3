"""BM25 over a corpus that stays as it is: a bm25s index, built once into a folder, read from it by memory map.

Weights are bm25s's (Lucene's form, k1 1.5, b 0.75), stored as a sparse matrix of words by passages. It is searched by
one sparse product for all queries, as its own lookups are slower (numpy) or need 170 MB more to install (numba), and
order equal scores by chance.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.retrieval.bm25 import DECIMALS, K1, B
from tasks.retrieval.hits import Hit, words
from tasks.retrieval.nearest import top_products

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

IDS, VOCABULARY = "ids.json", "vocab.index.json"
QUERIES_AT_ONCE = 4_096


class FixedIndex:
    """The index in a folder that `build` made."""

    def __init__(self, folder: Path) -> None:
        self._ids: list[str] = json.loads((folder / IDS).read_bytes())
        self._vocabulary: dict[str, int] = {}
        self._weights: csr_matrix | None = None
        if (folder / VOCABULARY).exists():
            self._vocabulary = json.loads((folder / VOCABULARY).read_bytes())
            self._weights = _mapped(folder, len(self._ids))

    @classmethod
    def build(cls, passages: Iterable[tuple[str, str]], folder: Path) -> FixedIndex:
        """Index (id, text) pairs. Memory holds a number for every word; the folder is whole or not there."""
        ids, coded, vocabulary = _coded(passages)
        making = folder.with_name(f"{folder.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        if vocabulary:
            _save(coded, vocabulary, making)
        (making / IDS).write_text(json.dumps(ids))
        os.rename(making, folder)
        return cls(folder)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """A word that a query repeats counts each time."""
        if self._weights is None or k <= 0:
            return [[] for _ in queries]
        starts = range(0, len(queries), QUERIES_AT_ONCE)
        return [hits for start in starts for hits in self._block(queries[start : start + QUERIES_AT_ONCE], k)]

    def _block(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        assert self._weights is not None
        asked = self._counts(queries)
        positions, scores = top_products(
            asked, self._weights, min(k, len(self._ids)), lambda row, column, score: score > 0, DECIMALS
        )
        found = zip(positions.tolist(), scores.tolist(), strict=True)
        return [
            [Hit(self._ids[at], round(score, DECIMALS)) for at, score in zip(*row, strict=True) if at >= 0]
            for row in found
        ]

    def _counts(self, queries: Sequence[str]) -> csr_matrix:
        """(queries, words) float32: how often each known word is asked for."""
        from scipy.sparse import csr_matrix

        known = [
            Counter(self._vocabulary[word] for word in words(text) if word in self._vocabulary) for text in queries
        ]
        ends = np.cumsum([0, *map(len, known)], dtype=np.int32)
        columns = np.fromiter((word for row in known for word in sorted(row)), np.int32, ends[-1])
        counts = np.fromiter((row[word] for row in known for word in sorted(row)), np.float32, ends[-1])
        assert self._weights is not None
        return csr_matrix((counts, columns, ends), shape=(len(queries), self._weights.shape[0]))


def _coded(passages: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[int]], dict[str, int]]:
    """Ids in their order, so that ties by position are ties by id; the words of each as numbers; the numbers."""
    vocabulary: dict[str, int] = {}
    coded = {
        name: [vocabulary.setdefault(word, len(vocabulary)) for word in words(text)] for name, text in _once(passages)
    }
    ids = sorted(coded)
    return ids, [coded.pop(name) for name in ids], vocabulary


def _once(passages: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for name, text in passages:
        if name in seen:
            raise ValueError(f"two passages have the id {name!r}")
        seen.add(name)
        yield name, text


def _save(coded: list[list[int]], vocabulary: dict[str, int], folder: Path) -> None:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG itself
    index = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy", csc_backend="scipy")
    index.index((coded, vocabulary), create_empty_token=False, show_progress=False)
    index.save(folder, show_progress=False)


def _mapped(folder: Path, passages: int) -> csr_matrix:
    """bm25s's columns of words, read as rows; copy-on-write, as the product takes nothing that is read-only."""
    from scipy.sparse import csr_matrix

    data, indices, indptr = (_array(folder, name) for name in ("data", "indices", "indptr"))
    return csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, passages), copy=False)


def _array(folder: Path, name: str) -> Any:
    return np.load(folder / f"{name}.csc.index.npy", mmap_mode="c")
