"""What all search backends share: their interface and results, how they split texts into words, and their fusion.

A backend has `search(queries, k)`: for each query the k best passages, best first, equal scores in order of their ids.
Queries are plain text without syntax, so no query is invalid. Searches by words find nothing for a query without a
known word; a search by embeddings finds nothing only for an empty query.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tasks.retrieval.counts import STOP_WORDS
from tasks.text.copies.shingles import words as every_word

WORD_CHARACTERS = 200  # of a longer word (a key, an address, a line without blanks) the start counts
CONSTANT = 60  # of reciprocal rank fusion, section 2 of the paper
DEPTH = 100
DECIMALS = 12


class Hit(NamedTuple):
    """A passage that a search found; the higher the score, the better."""

    passage_id: str
    score: float


class Searcher(Protocol):
    """A search backend. `search`: for each query the k best hits, best first, ties by id."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]: ...


def index_words(text: str) -> list[str]:
    """Lower-case runs of letters, digits and `_`, without the 33 words in STOP_WORDS; not stemmed.

    FixedIndex and GrowingIndex index these words. Each is cut to its first WORD_CHARACTERS characters. Languages that
    are written without blanks are not split into words.
    """
    return [word[:WORD_CHARACTERS] for word in every_word(text) if word not in STOP_WORDS]


def best(found: dict[str, float], k: int) -> list[Hit]:
    """The k hits with the highest scores, best first, ties by id; [] if k is 0 or less. `found`: id -> score."""
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Hit(name, score) for name, score in ranked[: max(k, 0)]]


class Hybrid:
    """A backend that fuses the rankings of other backends by `fuse`.

    Each backend is asked for at least `depth` passages per query.
    """

    def __init__(self, backends: Sequence[Searcher], depth: int = DEPTH) -> None:
        self._backends, self._depth = backends, depth

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query the k best passages of all backends by `fuse`, best first, ties by id."""
        rankings = [backend.search(queries, max(k, self._depth)) for backend in self._backends]
        return [fuse(of_query, k) for of_query in zip(*rankings, strict=True)]


def fuse(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """The k best passages of several rankings by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

    The score of a passage is the sum of 1 / (60 + rank) over the rankings that have it, ranks from 1, rounded to
    DECIMALS. Best first, ties by id; the scores in the rankings do not count.
    """
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            shares[hit.passage_id].append(1 / (CONSTANT + rank))
    return best({name: round(math.fsum(found), DECIMALS) for name, found in shares.items()}, k)
