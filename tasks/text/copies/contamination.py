"""Texts that hold what an evaluation text holds: near-duplicates, and runs of words in common.

An index of the evaluation texts is searched with others, a batch at a time; it holds numbers alone and can be mapped
into memory. Two texts count as one by three measures:

    near-duplicate   both have RUN words or more, and their sets of word 3-grams are alike (Jaccard)
    overlap          RUN words in a row are the same, and these are not common
    same question    a short question, or the title of a question, has the very words of another

RUN is 13, as in GPT-3's paper (Brown et al. 2020, appendix C) and the tools that followed it. A run that stands in many
evaluation texts (more than COMMON, in one set) is common, as a licence or an error message is, and shows nothing.
Near-duplicates are found by prefix filtering, exactly (see duplicates.py); the rarest words are those of fewest
evaluation texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

RUN, SHINGLE, COMMON, SHORTEST = 13, 3, 10, 4
NEAR, OVERLAP, SAME = MEASURES = ("near-duplicate", "overlap", "same question")
CELLS = 2**22  # candidate pairs in memory at a time
COMPARED = 2**12  # of which so many are compared at a time

_WORD = re.compile(r"[^\W_]+")
_TARGET = re.compile(r"\]\([^()\s]*\)")
_SEEDS = np.array([xxh3_64_intdigest(bytes([place])) | 1 for place in range(64)], np.uint64)


class Text(NamedTuple):
    """An evaluation text. `group`: a number that texts share which count once for what is common; `family`: the number
    of its set; `asks`: it is a question, whose first line is its title.
    """

    text: str
    group: int
    family: int
    asks: bool


class Match(NamedTuple):
    """What an index found for a text: the number of the evaluation text, the measure, and for near-duplicates the
    similarity, else the number of words in common.
    """

    number: int
    measure: str
    value: float


def plain_words(text: str) -> list[str]:
    """The words of a text in NFKC and lower case, in order, without Markdown's marks, targets of links, and characters
    that nobody sees.
    """
    text = _TARGET.sub("] ", text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(one for one in text if unicodedata.category(one) != "Cf")
    return _WORD.findall(text.casefold())


@lru_cache(2**18)
def _hash(word: str) -> int:
    return xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))


class _Words(NamedTuple):
    """The words of texts as hashes, one text after the other; `ends`: of each text."""

    hashes: Hashes
    ends: Numbers

    @property
    def sizes(self) -> Numbers:
        """The number of words of each text."""
        return np.diff(self.ends, prepend=0)

    def grams(self, n: int) -> tuple[Hashes, Numbers]:
        """(hash, text) of each n-gram, in order; texts of fewer than n words have none."""
        size = self.hashes.size - n + 1
        if size <= 0:
            return np.zeros(0, np.uint64), np.zeros(0, np.int64)
        found = np.zeros(size, np.uint64)
        for place in range(n):
            found += self.hashes[place : place + size] * _SEEDS[place]
        found ^= found >> np.uint64(29)
        found *= _SEEDS[63]
        found ^= found >> np.uint64(32)
        texts = np.repeat(np.arange(self.ends.size), self.sizes)
        whole = texts[:size] == texts[n - 1 :]
        return found[whole], texts[:size][whole]


def _words_of(words: Iterable[Sequence[str]]) -> _Words:
    """The words of each text as hashes."""
    hashes, ends = list[int](), list[int]()
    for own in words:
        hashes += map(_hash, own)
        ends.append(len(hashes))
    return _Words(np.array(hashes, np.uint64), np.array(ends, np.int64))


def _short(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """(hash, number of words) of what a question counts as the same by: its words if it is short, and those of its
    title.
    """
    title = plain_words(text.split("\n", 1)[0])
    both = [own for own in (words, title) if SHORTEST <= len(own) < RUN]
    return [(xxh3_64_intdigest(" ".join(own).encode("utf-8", "surrogatepass")), len(own)) for own in both]


class Index:
    """Evaluation texts as sorted hashes, searched by `matches`."""

    def __init__(self, similarity: float, arrays: dict[str, NDArray[Any]]) -> None:
        self.similarity, self._arrays = similarity, arrays
        self._runs: Hashes = arrays["runs"]
        self._known: Hashes = arrays["known"]
        self._short: Hashes = arrays["short"]
        self._is_run, self._shift = _sieve(self._runs)
        self._run_texts, self._rank, self._short_texts = (arrays[name] for name in ("run_texts", "rank", "short_texts"))
        self._sizes, self._starts, self._ranks = (arrays[name] for name in ("sizes", "starts", "ranks"))
        self._rare_starts, self._rare_texts = (arrays[name] for name in ("rare_starts", "rare_texts"))

    @classmethod
    def of(cls, texts: Iterable[Text], similarity: float) -> Index:
        """The index of these texts, which are numbered in their order. `similarity`: the least of near-duplicates."""
        words, groups, families, short = list[list[str]](), list[int](), list[int](), list[tuple[int, int]]()
        for number, one in enumerate(texts):
            words.append(plain_words(one.text))
            groups.append(one.group)
            families.append(one.family)
            short += ((key, number) for key, _ in _short(words[-1], one.text) if one.asks)
        hashed = _words_of(words)
        runs = _runs(hashed, np.array(groups, np.int64), np.array(families, np.int64))
        keys = np.array([key for key, _ in short], np.uint64)
        first = np.unique(keys, return_index=True)
        numbers = np.array([number for _, number in short], np.int64)
        arrays = {"runs": runs[0], "run_texts": runs[1], "short": first[0], "short_texts": numbers[first[1]]}
        return cls(similarity, arrays | _shingles(hashed, similarity))

    def save(self, folder: Path) -> None:
        """Write the arrays to the folder, which is made."""
        folder.mkdir(parents=True)
        for name, array in self._arrays.items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def load(cls, folder: Path, similarity: float) -> Index:
        """The index that `save` wrote, mapped into memory."""
        return cls(similarity, {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))})

    def matches(self, texts: Sequence[tuple[str, bool]]) -> list[Match | None]:
        """For each (text, whether it asks) the first evaluation text that it counts as one with, by the first measure
        that says so; None if there is none.
        """
        words = [plain_words(text) for text, _ in texts]
        hashed = _words_of(words)
        near, run = self._near(hashed), self._shared(hashed)
        return [
            near.get(place) or run.get(place) or (self._same(words[place], text) if asks else None)
            for place, (text, asks) in enumerate(texts)
        ]

    def _same(self, words: Sequence[str], text: str) -> Match | None:
        """The first question that is the same as this one."""
        for key, size in _short(words, text):
            place = int(np.searchsorted(self._short, np.uint64(key)))
            if place < self._short.size and self._short[place] == key:
                return Match(int(self._short_texts[place]), SAME, float(size))
        return None

    def _shared(self, words: _Words) -> dict[int, Match]:
        """text -> the evaluation text with which it has the first run in common, and how long that is at least."""
        grams, texts = words.grams(RUN)
        maybe = self._is_run[(grams >> self._shift).astype(np.int64)]
        grams, texts, order = grams[maybe], texts[maybe], np.flatnonzero(maybe)
        hit, places = _found(self._runs, grams)
        found = dict[int, Match]()
        owners = self._run_texts[places[hit]].tolist()
        last = (-1, -1, -1)
        for at, text, owner in zip(order[hit].tolist(), texts[hit].tolist(), owners, strict=True):
            if text not in found:
                found[text], last = Match(owner, OVERLAP, float(RUN)), (at, text, owner)
            elif last == (at - 1, text, owner):
                found[text], last = Match(owner, OVERLAP, found[text].value + 1), (at, text, owner)
        return found

    def _near(self, words: _Words) -> dict[int, Match]:
        """text -> the evaluation text of which it is a near-duplicate: the most similar, of equal ones the first."""
        found = dict[int, Match]()
        for texts, others, scores in self._alike(words):
            for text, other, score in zip(texts.tolist(), others.tolist(), scores.tolist(), strict=True):
                known = found.get(text)
                if known is None or (score, -other) > (known.value, -known.number):
                    found[text] = Match(other, NEAR, score)
        return found

    def _alike(self, words: _Words) -> Iterable[tuple[Numbers, Numbers, NDArray[np.float64]]]:
        """(texts, evaluation texts, similarities), in batches, of all near-duplicates."""
        texts, hashes = _distinct(*words.grams(SHINGLE))
        long = words.sizes[texts] >= RUN
        texts, hashes = texts[long], hashes[long]
        sizes = np.bincount(texts, minlength=words.ends.size)
        hit, places = _found(self._known, hashes)
        texts, ranks = texts[hit], self._rank[places[hit]].astype(np.int64)
        order = np.lexsort((ranks, texts))
        texts, ranks = texts[order], ranks[order]
        known = np.bincount(texts, minlength=sizes.size)
        prefix = sizes - _least(sizes, self.similarity) + 1 - (sizes - known)
        rare = np.arange(texts.size) - np.repeat(np.cumsum(known) - known, known) < prefix[texts]
        own = _Sets(texts, ranks, sizes.size)
        for some, others in self._candidates(texts[rare], ranks[rare], sizes):
            both = own.shared(some, others, self._starts, self._ranks)
            scores = both / (sizes[some] + self._sizes[others] - both)
            alike = scores >= self.similarity
            yield some[alike], others[alike], scores[alike]

    def _candidates(self, texts: Numbers, ranks: Numbers, sizes: Numbers) -> Iterable[tuple[Numbers, Numbers]]:
        """(texts, evaluation texts) that share a rare shingle and whose sizes do not rule them out, each pair once in
        a batch of at most COMPARED. `texts`, `ranks`: rare shingles, sorted by text.
        """
        starts = self._rare_starts[ranks].astype(np.int64)
        counts = self._rare_starts[ranks + 1].astype(np.int64) - starts
        cells = np.cumsum(counts)
        last_of_text = (
            np.append(np.flatnonzero(np.diff(texts)), texts.size - 1) if texts.size else np.zeros(0, np.int64)
        )
        first = 0
        while first < texts.size:
            limit = (cells[first - 1] if first else 0) + CELLS
            ends = last_of_text[last_of_text >= first]
            end = int(ends[max(0, np.searchsorted(cells[ends], limit, side="right") - 1)]) + 1
            own = slice(first, end)
            number = counts[own]
            offsets = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
            others = self._rare_texts[np.repeat(starts[own], number) + offsets].astype(np.int64)
            width = max(self._sizes.size, 1)
            pairs = np.unique(np.repeat(texts[own], number) * width + others)
            some, others = np.divmod(pairs, width)
            own_sizes, their_sizes = sizes[some], self._sizes[others]
            larger, smaller = np.maximum(own_sizes, their_sizes), np.minimum(own_sizes, their_sizes)
            fits = smaller >= _least(larger, self.similarity)
            some, others = some[fits], others[fits]
            for start in range(0, some.size, COMPARED):
                yield some[start : start + COMPARED], others[start : start + COMPARED]
            first = end


class _Sets:
    """Sets of ranks, one of each text; `texts`, `ranks`: their members, sorted by text, then rank."""

    def __init__(self, texts: Numbers, ranks: Numbers, size: int) -> None:
        self.ranks = ranks
        self.starts = np.searchsorted(texts, np.arange(size + 1))

    def shared(self, some: Numbers, others: Numbers, starts: Numbers, ranks: Numbers) -> Numbers:
        """How many ranks the set of each of `some` shares with that of each of `others`, which `starts` and `ranks`
        hold in the same way.
        """
        pair, own = _members(some, self.starts, self.ranks)
        other_pair, theirs = _members(others, starts, ranks)
        width = np.int64(max(own.max(initial=0), theirs.max(initial=0)) + 1)
        both = np.intersect1d(pair * width + own, other_pair * width + theirs, assume_unique=True) // width
        return np.bincount(both, minlength=some.size)


def _members(sets: Numbers, starts: Numbers, ranks: Numbers) -> tuple[Numbers, Numbers]:
    """(position in `sets`, rank) of each member of each of these sets."""
    first = starts[sets].astype(np.int64)
    sizes = starts[sets + 1].astype(np.int64) - first
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(np.arange(sets.size), sizes), ranks[np.repeat(first, sizes) + offsets].astype(np.int64)


def _least(sizes: Numbers, similarity: float) -> Numbers:
    """How many shingles a set of each size must share with one that is similar."""
    least: Numbers = np.ceil(similarity * sizes - 1e-6).astype(np.int64)  # the noise of 0.7 * 10 must not raise it
    return least


def _found(known: Hashes, hashes: Hashes) -> tuple[NDArray[np.bool_], Numbers]:
    """(whether each hash is among the sorted `known`, its place there)."""
    if not known.size:
        return np.zeros(hashes.size, np.bool_), np.zeros(hashes.size, np.int64)
    places = np.searchsorted(known, hashes)
    places[places == known.size] = 0
    return known[places] == hashes, places


def _sieve(known: Hashes) -> tuple[NDArray[np.bool_], np.uint64]:
    """(a table that is false at `hash >> shift` of most hashes that are not known, shift): a look at it is many times
    as fast as a search among all.
    """
    bits = min(26, max(1, int(16 * known.size).bit_length()))
    table, shift = np.zeros(1 << bits, np.bool_), np.uint64(64 - bits)
    table[(known >> shift).astype(np.int64)] = True
    return table, shift


def _distinct(hashes: Hashes, texts: Numbers) -> tuple[Numbers, Hashes]:
    """(text, hash) of each hash of each text, once, sorted."""
    order = np.lexsort((hashes, texts))
    texts, hashes = texts[order], hashes[order]
    new = np.ones(texts.size, np.bool_)
    new[1:] = (np.diff(texts) != 0) | (hashes[1:] != hashes[:-1])
    return texts[new], hashes[new]


def _runs(words: _Words, groups: Numbers, families: Numbers) -> tuple[Hashes, Numbers]:
    """(hashes of the runs that are not common, sorted, each once; the first text of each)."""
    hashes, texts = words.grams(RUN)
    order = np.lexsort((texts, hashes))
    hashes, texts = hashes[order], texts[order]
    known, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    owner = np.stack([inverse, families[texts], groups[texts]])
    each = np.unique(owner, axis=1)[:2] if texts.size else owner[:2]
    of_set, number = np.unique(each, axis=1, return_counts=True) if texts.size else (each, np.zeros(0, np.int64))
    rare = np.ones(known.size, np.bool_)
    rare[of_set[0][number > COMMON]] = False
    return known[rare], texts[first[rare]]


def _shingles(words: _Words, similarity: float) -> dict[str, NDArray[Any]]:
    """The arrays of an index by which near-duplicates are found."""
    texts, hashes = _distinct(*words.grams(SHINGLE))
    long = words.sizes[texts] >= RUN
    texts, hashes = texts[long], hashes[long]
    size = words.ends.size
    known, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    rank = np.empty(known.size, np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(known.size)
    ranks = rank[inverse]
    order = np.lexsort((ranks, texts))
    texts, ranks = texts[order], ranks[order]
    sizes = np.bincount(texts, minlength=size)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    rare = np.arange(texts.size) - starts[texts] < (sizes - _least(sizes, similarity) + 1)[texts]
    by_rank = np.argsort(ranks[rare], kind="stable")
    rare_starts = np.searchsorted(ranks[rare][by_rank], np.arange(known.size + 1))
    return {
        "known": known,
        "rank": rank.astype(np.uint32),
        "sizes": sizes,
        "starts": starts,
        "ranks": ranks.astype(np.uint32),
        "rare_starts": rare_starts.astype(np.int64),
        "rare_texts": texts[rare][by_rank].astype(np.uint32),
    }
