"""How often each word occurs in each text: what TF-IDF and BM25 weigh."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

WORD = re.compile(r"\w+")
STOP_WORDS = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not",
        "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was",
        "will", "with",
    }
)  # fmt: skip


def count_words(texts: Iterable[str]) -> tuple[csr_matrix, dict[str, int]]:
    """(texts, words) float32, and the column of each word, in alphabetical order.

    Case is folded, and the 33 commonest English words are left out.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a word seen first gets the next number
    counts = _counted(texts, lambda words: map(numbers.__getitem__, words), numbers)
    words = sorted(numbers.keys() - STOP_WORDS)
    chosen = counts[:, [numbers[word] for word in words]]
    chosen.sort_indices()
    return chosen, {word: column for column, word in enumerate(words)}


def count_known(texts: Iterable[str], columns: dict[str, int]) -> csr_matrix:
    """(texts, words) float32, by the columns of `count_words`; words without one do not count."""
    known = columns.__contains__
    return _counted(texts, lambda words: map(columns.__getitem__, filter(known, words)), columns)


def _counted(
    texts: Iterable[str], numbered: Callable[[list[str]], Iterable[int]], columns: dict[str, int]
) -> csr_matrix:
    from scipy.sparse import csr_matrix

    numbers, ends = array("i"), array("q", [0])
    for text in texts:
        numbers.extend(numbered(WORD.findall(text.lower())))
        ends.append(len(numbers))
    kind = np.int32 if len(numbers) < 2**31 else np.int64
    cells = np.asarray(numbers, kind), np.asarray(ends, kind)
    counts = csr_matrix((np.ones(len(numbers), np.float32), *cells), shape=(len(ends) - 1, len(columns)))
    counts.sum_duplicates()
    return counts
