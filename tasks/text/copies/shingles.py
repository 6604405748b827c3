"""A text as the set of its word n-grams, hashed."""

import re
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The text's runs of letters, digits and underscores in lower case, in order. White space and all other characters
    are left out.
    """
    return WORD.findall(text.lower())


def shingle_hashes(text: str, n: int = 3) -> NDArray[np.uint64]:
    """xxh3 (64 bits) of every n-gram of the text's `words` (joined by blanks, UTF-8), sorted, each hash once.

    A text with fewer than n words has one n-gram, all its words; a text without words has none.
    """
    parts = [word.encode() for word in words(text)]
    joined = b" ".join(parts)
    ends = [end + place for place, end in enumerate(accumulate(map(len, parts)))]
    starts = [0, *(end + 1 for end in ends[:-1])]
    spans = zip(starts, ends[n - 1 :] or ends[-1:], strict=False)
    return np.unique(np.array([xxh3_64_intdigest(joined[start:end]) for start, end in spans], np.uint64))
