"""What every search backend answers with, and how all of them see words.

A backend has `search(queries, k)`: of each query the k best passages, best first, equal scores in order of their ids.
Nothing that a query holds is syntax, so no query can be wrong; one without a known word finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tasks.retrieval.counts import STOP_WORDS, WORD

WORD_CHARACTERS = 200  # of a longer word (a key, an address, a line without blanks) the start counts


class Hit(NamedTuple):
    passage_id: str
    score: float


class Searcher(Protocol):
    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]: ...


def words(text: str) -> list[str]:
    """Lower-case runs of letters, digits and `_`, without the 33 commonest English words; not stemmed.

    As tasks/retrieval/bm25.py has them. Languages that are written without blanks are not cut into words.
    """
    return [word[:WORD_CHARACTERS] for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


def best(found: dict[str, float], k: int) -> list[Hit]:
    """The k with the highest scores, ties by id."""
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Hit(name, score) for name, score in ranked[: max(k, 0)]]
