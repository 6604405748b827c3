"""Matrices of word counts: how often each word occurs in each text. TF-IDF and BM25 are computed from them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from tasks.text.copies.shingles import words as every_word

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STOP_WORDS = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not",
        "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was",
        "will", "with",
    }
)  # fmt: skip


def count_words(texts: Iterable[str]) -> tuple[csr_matrix, dict[str, int]]:
    """(matrix of counts (texts, words) as float32, word -> its column); columns are in alphabetical order.

    Words are lower-cased runs of letters, digits and `_`; those in STOP_WORDS are left out.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a word seen first gets the next number
    counts = _counted((map(numbers.__getitem__, every_word(text)) for text in texts), numbers)
    words = sorted(numbers.keys() - STOP_WORDS)
    chosen = counts[:, [numbers[word] for word in words]]
    chosen.sort_indices()
    return chosen, {word: column for column, word in enumerate(words)}


def count_known(
    texts: Iterable[str], columns: dict[str, int], words_of: Callable[[str], list[str]] = every_word
) -> csr_matrix:
    """A matrix (texts, words) as float32: how often each text has each word of `columns`; other words are left out.

    `columns`: word -> column, as `count_words` returns it. `words_of` splits a text into words.
    """
    known = (filter(columns.__contains__, words_of(text)) for text in texts)
    return _counted((map(columns.__getitem__, words) for words in known), columns)


def _counted(numbered: Iterable[Iterable[int]], columns: dict[str, int]) -> csr_matrix:
    """A matrix of counts (texts, words) as float32. `numbered`: for each text the column numbers of its words.

    `columns`: word -> column; it is read last, so `numbered` may add to it. Its length is the width of the matrix.
    """
    from scipy.sparse import csr_matrix

    numbers, ends = array("i"), array("q", [0])
    for words in numbered:
        numbers.extend(words)
        ends.append(len(numbers))
    kind = np.int32 if len(numbers) < 2**31 else np.int64
    cells = np.asarray(numbers, kind), np.asarray(ends, kind)
    counts = csr_matrix((np.ones(len(numbers), np.float32), *cells), shape=(len(ends) - 1, len(columns)))
    counts.sum_duplicates()
    return counts
