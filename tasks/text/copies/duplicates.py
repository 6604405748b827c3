"""Near-duplicates: every pair of texts whose sets of shingles are alike enough, none missed.

An exact set similarity join by prefix filtering (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and
Srikant 2007): two sets of Jaccard similarity t overlap in t or more of each, so among the rarest
shingles of either, all but that many, they have one in common. Only sets that do are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Integers = NDArray[np.int64]
Shingles = NDArray[np.uint64]

CELLS = 2**18  # candidate pairs in memory at a time
PAIRS = 2**12  # of which so many are compared at a time


def near_duplicates(shingles: Sequence[Shingles], threshold: float) -> list[tuple[int, int]]:
    """(i, j), i < j, ascending, of all texts with Jaccard similarity >= `threshold`, which is above 0.

    `shingles`: for each text the hashes of its shingles, sorted, each once. A text without shingles is similar to no
    other.
    """
    sizes = np.array([one.size for one in shingles], np.int64)
    if not sizes.any():
        return []
    least: Integers = np.ceil(threshold * sizes - 1e-6).astype(np.int64)  # of a set with any that is alike; the noise
    # of 0.7 * 10 must not raise it
    texts, ranks = _shared(shingles, sizes)
    shared, found = _matrix(texts, ranks, sizes.size), list[tuple[int, int]]()
    for i, j in _sharing(_rarest(texts, ranks, sizes, least), sizes, least):
        both = shared[i].multiply(shared[j]).sum(axis=1)
        alike = both / (sizes[i] + sizes[j] - both) >= threshold
        found += zip(i[alike].tolist(), j[alike].tolist(), strict=True)
    return found


def _matrix(texts: Integers, ranks: Integers, size: int) -> csr_array:
    """A sparse matrix of texts by ranks: 1 at each (text, rank), else 0. `size`: the number of texts.

    A rank stands for a shingle.
    """
    from scipy.sparse import csr_array

    return csr_array((np.ones(texts.size, np.int32), (texts, ranks)), shape=(size, ranks.max(initial=0) + 1))


def _shared(shingles: Sequence[Shingles], sizes: Integers) -> tuple[Integers, Integers]:
    """(texts, ranks): an item for every shingle of a text that another text has too, sorted by text, then rank.

    A rank stands for a shingle, from 0: the fewer texts have it, the lower. `sizes`: the number of shingles of each
    text.
    """
    _, which, counts = np.unique(np.concatenate(shingles), return_inverse=True, return_counts=True)
    by_count = np.argsort(counts, kind="stable")
    ranks = np.empty_like(by_count)
    ranks[by_count] = np.arange(counts.size)
    shared = counts[which] > 1
    texts = np.repeat(np.arange(sizes.size), sizes)[shared]
    texts, places = np.divmod(np.sort(texts * counts.size + ranks[which[shared]]), counts.size)
    return texts, places


def _rarest(texts: Integers, ranks: Integers, sizes: Integers, least: Integers) -> csr_array:
    """A sparse matrix of texts by ranks: 1 for the rarest shingles of each text (all but `least` - 1 of them), else 0.

    `texts`, `ranks`: what `_shared` returns. Shingles that only one text has count as its rarest, but are not in the
    matrix. `sizes`: the number of shingles of each text; `least`: how many of them it must share with a similar one.
    """
    shared = np.bincount(texts, minlength=sizes.size)
    place = np.arange(texts.size) - np.repeat(np.cumsum(shared) - sizes, shared)
    rare = place < (sizes - least + 1)[texts]
    return _matrix(texts[rare], ranks[rare], sizes.size)


def _sharing(rare: csr_array, sizes: Integers, least: Integers) -> Iterator[tuple[Integers, Integers]]:
    """(i's, j's), i < j, ascending, in batches: texts that share a rare shingle and whose sizes do not rule them out.

    `rare`: the matrix of `_rarest`; `sizes`: the number of shingles of each text; `least`: how many it must share with
    a similar one. A batch has at most PAIRS pairs.
    """
    texts = rare.T.tocsr()
    cells = np.cumsum(rare @ np.diff(texts.indptr))
    starts = np.unique(cells // CELLS, return_index=True)[1].tolist()
    for start, end in pairwise([*starts, sizes.size]):
        common = (rare[start:end] @ texts).tocoo()
        i, j = common.row.astype(np.int64) + start, common.col.astype(np.int64)
        fits = (i < j) & (sizes[i] >= least[j]) & (sizes[j] >= least[i])
        i, j = i[fits], j[fits]
        order = np.lexsort((j, i))
        for first in range(0, order.size, PAIRS):
            some = order[first : first + PAIRS]
            yield i[some], j[some]
