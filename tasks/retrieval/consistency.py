"""Self-consistency: of several texts to one question the one that is most like the others (Jain et al. 2023)."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tasks.text.copies.shingles import words

DECIMALS = 9
Vectors = NDArray[np.float64]


def tfidf(texts: list[str]) -> Vectors:
    """TF-IDF vectors of texts over these texts alone, (texts, words): count · (1 + ln((1 + n) / (1 + texts with the
    word))), as scikit-learn's with smoothing, but not of length 1; words of one letter and stop words count as well.
    """
    counts = [Counter(words(text)) for text in texts]
    with_word = Counter(word for each in counts for word in each)
    column = {word: place for place, word in enumerate(sorted(with_word))}
    found = np.zeros((len(texts), max(1, len(column))))
    for place, each in enumerate(counts):
        for word, number in each.items():
            found[place, column[word]] = number * (1 + np.log((1 + len(texts)) / (1 + with_word[word])))
    return found


def most_central(vectors: Vectors) -> tuple[int, float | None]:
    """(the place of the vector with the highest mean cosine to the others, the first of equals; that mean, None for a
    single vector). A vector of 0 has the cosine 0 to all. `vectors`: (texts, width).
    """
    if len(vectors) < 2:
        return 0, None
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    means = ((unit @ unit.T).sum(axis=1) - (unit * unit).sum(axis=1)) / (len(vectors) - 1)
    rounded = means.round(DECIMALS) + 0.0
    place = int(rounded.argmax())
    return place, float(rounded[place])
