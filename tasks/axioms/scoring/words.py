"""Two baselines that need no model: the length of the answer, and BM25 of the question against the answer.

BM25 is in Lucene's form, with the same words, k1 and b as the search (tasks/retrieval/bm25.py). A word's rarity and
the mean length are those of all different answers of the set that is evaluated, so that a score does not depend on the
other answers to its question. A word that a question repeats counts each time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import xxhash

from tasks.axioms.scoring.groups import Group
from tasks.retrieval.bm25 import K1, B
from tasks.retrieval.hits import index_words

DECIMALS = 9  # of a score: below it floating point differs from machine to machine


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 knows of a set: the number of its different answers (`texts`), of all their words (`words`), and of
    the answers that have a word (`counts`), for each word of its questions.
    """

    texts: int
    words: int
    counts: Mapping[str, int]


def count_texts(groups: Iterable[Group], asked: Iterable[str]) -> Statistics:
    """The statistics of the answers of these groups, each different text counted once. `asked`: the questions."""
    vocabulary = {word for question in asked for word in index_words(question)}
    seen, counts, words = set[int](), Counter[str](), 0
    for group in groups:
        for _, text in group.answers:
            digest = xxhash.xxh3_64_intdigest(text.encode())
            if digest not in seen:
                seen.add(digest)
                found = index_words(text)
                words += len(found)
                counts.update(vocabulary.intersection(found))
    return Statistics(len(seen), words, dict(sorted(counts.items())))


def by_length(group: Group) -> list[float]:
    """The number of words, separated by white space, of each answer."""
    return [float(len(text.split())) for _, text in group.answers]


def by_bm25(group: Group, known: Statistics) -> list[float]:
    """The BM25 score of each answer for the question; 0 if they share no word. Evidence is not read."""
    asked = [(word, _rarity(known, word)) for word in index_words(group.question)]
    mean = known.words / known.texts if known.words else 1.0
    return [_bm25(asked, index_words(text), mean) for _, text in group.answers]


def _rarity(known: Statistics, word: str) -> float:
    """ln(1 + (n - m + 0.5) / (m + 0.5)) for a word that m of n answers have."""
    have = known.counts.get(word, 0)
    return math.log1p((known.texts - have + 0.5) / (have + 0.5))


def _bm25(asked: list[tuple[str, float]], words: list[str], mean: float) -> float:
    """The sum over the asked words of rarity * tf / (tf + k1 * (1 - b + b * length / mean length))."""
    times, norm = Counter(words), K1 * (1 - B + B * len(words) / mean)
    found = math.fsum(rarity * times[word] / (times[word] + norm) for word, rarity in asked if word in times)
    return round(found, DECIMALS)
