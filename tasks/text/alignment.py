"""Which sentence of a draft becomes which of its reference, with the fewest edits.

An edit moves a run of sentences, or changes, removes or adds one: the edit distance over sentences, with moves. Equal
sentences are matched first, then those that are clearly the same in other words. Which of these stay where they are,
and which move, is chosen so that the edits are fewest; then, so that the least text moves. What is between two that
stay is matched by what it has in common, in order; what has too little in common is matched with nothing.
"""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import accumulate, groupby, pairwise
from typing import Literal, NamedTuple

from tasks.text.words import CLUSTERED, Pairs, common_prefix_length, common_subsequence, word_pattern

Moves = Literal["all", "single", "none"]

SAME_WORDS = 0.65
GROWN, GROWN_WORDS = 0.9, 4
RELATED, RELATED_WORDS = 0.25, 0.5
_EXACT_CELLS = 50_000_000
_LOOK_BACK = 250
_LONGER = 0.5
_COMPARED_BLOCKS = 1_500_000
_COMPARED = 40_000
_SUBSTITUTED_CELLS = 150_000
_MARKER = re.compile(
    r"(?:(?:and|but|then|also|next|later|finally|lastly|last|first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|"
    r"fifth(?:ly)?|however|moreover|furthermore|in addition|additionally|similarly|meanwhile|therefore|thus|hence|"
    r"besides|subsequently|more recently|recently|in contrast|by contrast|on the other hand|for example),?\s+){1,2}",
    re.IGNORECASE,
)
_CLUSTER = re.compile(f"[{CLUSTERED}]")


class Alignment(NamedTuple):
    """What becomes of each sentence of the draft.

    `becomes[i]`: the position in the reference of the sentence that sentence i becomes; None: it is removed.
    `stays[i]`: whether it keeps its place. Sentences that keep their place have the same order in draft and reference.
    """

    becomes: list[int | None]
    stays: list[bool]


class _Plan(NamedTuple):
    """The pairs (i in the draft, j in the reference) that stay (`kept`) and that move (`moved`).

    `edits`: how many edits make the draft the reference with these.
    """

    edits: int
    kept: Pairs
    moved: Pairs


class _Block(NamedTuple):
    """A run of `length` pairs of sentences that follow each other in both texts.

    `start`, `reference_start`: the positions of the first pair in draft and reference.
    """

    start: int
    reference_start: int
    length: int


def words_of(sentence: str) -> list[str]:
    """The words of a sentence (NFC) in lower case, in order; of Chinese, Japanese and Korean each character.

    Of Thai, Lao, Khmer and Burmese each two neighbouring characters. Up to two leading words such as "First," or
    "However," are left out.
    """
    marker = _MARKER.match(sentence)
    found = word_pattern(hangul_by_letter=True).findall(sentence[marker.end() if marker else 0 :].lower())
    if not _CLUSTER.search(sentence):
        return found
    runs = ((is_clustered, list(run)) for is_clustered, run in groupby(found, lambda word: bool(_CLUSTER.match(word))))
    return [
        word
        for is_clustered, run in runs
        for word in (map("".join, pairwise(run)) if is_clustered and len(run) > 1 else run)
    ]


def align(draft: list[str], reference: list[str], *, moves: Moves = "all") -> Alignment:
    """The alignment of two texts, each a list of sentences with single blanks for white space, composed (NFC).

    `moves`: which sentences may move. all; single: only those that the draft has once, as it is hard to say which of
    two copies is meant; none.
    """
    weights = _Weights(draft + reference)
    equal = equal_pairs(draft, reference)
    similar = _similar_pairs(draft, reference, equal, weights)
    kept = _pairs_that_stay(draft, reference, sorted(equal + similar))
    most = {"all": len(draft), "single": 1, "none": 0}[moves]
    copies = Counter(draft)
    movable = [(i, j) for i, j in equal + similar if copies[draft[i]] <= most]
    best = _with_moves(draft, reference, kept, movable)
    if (substituted := _levenshtein_pairs(draft, reference, best.edits)) is not None:
        best = min(best, _with_moves(draft, reference, substituted, []), key=lambda plan: plan.edits)
    stays = dict(best.kept + _related(draft, reference, best, weights))
    becomes = dict(best.moved) | stays
    return Alignment([becomes.get(i) for i in range(len(draft))], [i in stays for i in range(len(draft))])


def equal_pairs(draft: list[str], reference: list[str]) -> Pairs:
    """(i, j) of equal sentences, i in the draft and j in the reference, each in one pair; not sorted.

    First those of a longest common subsequence, then any other copies. With more than _EXACT_CELLS pairs of sentences
    to compare between the common beginning and end of the texts, only these two stand for the former.
    """
    tail = common_prefix_length(draft[::-1], reference[::-1])
    n, m = len(draft) - tail, len(reference) - tail
    head = common_prefix_length(draft[:n], reference[:m])
    pairs = [(i, i) for i in range(head)] + [(n + i, m + i) for i in range(tail)]
    shared = set(draft[head:n]) & set(reference[head:m])
    mine = [i for i in range(head, n) if draft[i] in shared]
    theirs = [j for j in range(head, m) if reference[j] in shared]
    if len(mine) * len(theirs) <= _EXACT_CELLS:
        common = common_subsequence([draft[i] for i in mine], [reference[j] for j in theirs])
        pairs += [(mine[i], theirs[j]) for i, j in common]
    return pairs + _other_copies(draft, reference, pairs)


def _other_copies(draft: list[str], reference: list[str], pairs: Pairs) -> Pairs:
    """(i, j) of equal sentences that are in none of `pairs`, each in one pair, sorted by i.

    First copies are paired first.
    """
    taken, matched = {i for i, _ in pairs}, {j for _, j in pairs}
    free: dict[str, list[int]] = defaultdict(list)
    for j in range(len(reference) - 1, -1, -1):
        if j not in matched:
            free[reference[j]].append(j)
    return [(i, free[draft[i]].pop()) for i in range(len(draft)) if i not in taken and free.get(draft[i])]


class _Weights:
    """Likeness of sentences by their words, which weigh the less the more sentences of both texts have them."""

    def __init__(self, sentences: list[str]) -> None:
        """`sentences`: those of both texts together."""
        self._sentences, self.words = sentences, cache(words_of)
        self._set = cache(lambda sentence: frozenset(self.words(sentence)))
        self._weight_of = cache(lambda sentence: self._weight(self._set(sentence)))

    def features(self, sentence: str) -> set[str]:
        """The words of a sentence, and its pairs of neighbouring words, each pair with a blank between."""
        words = self.words(sentence)
        return {*words, *map(" ".join, pairwise(words))}

    @cached_property
    def seen(self) -> Counter[str]:
        """For each word and each pair of neighbouring words, the number of sentences in both texts that have it."""
        return Counter(feature for sentence in self._sentences for feature in self.features(sentence))

    def likeness(self, one: str, other: str) -> float:
        """0 to 1: twice the weight of the common words over the weights of both sentences.

        It is SAME_WORDS at least if nearly all of one sentence (GROWN of its weight) is in the other, as when
        something was added to it, and both have GROWN_WORDS different words or more. Of sentences without any weight
        it is 1 if they have the same words, else 0.
        """
        first, second = self._set(one), self._set(other)
        mine, theirs, common = self._weight_of(one), self._weight_of(other), self._weight(first & second)
        alike = 2 * common / (mine + theirs) if mine + theirs else float(first == second)
        grown = min(len(first), len(second)) >= GROWN_WORDS and common >= GROWN * min(mine, theirs) > 0
        return max(alike, SAME_WORDS) if grown else alike

    def relation(self, one: str, other: str) -> float:
        """0 if two sentences have little in common, else the more the more they have: up to 2.

        Little: a likeness under RELATED, and under RELATED_WORDS of their words, whatever these weigh.
        """
        mine, theirs = self._set(one), self._set(other)
        if mine.isdisjoint(theirs):
            return 0.0
        shared = 2 * len(mine & theirs) / (len(mine) + len(theirs))
        likeness = self.likeness(one, other)
        return likeness + shared if likeness >= RELATED or shared >= RELATED_WORDS else 0.0

    def _weight(self, words: frozenset[str]) -> float:
        """The sum of the weights of these words.

        The weight of a word is the logarithm of (number of sentences + 1) / (number of those that have it).
        """
        return math.fsum(map(self._logarithms.__getitem__, words))  # exact, in whatever order a set has

    @cached_property
    def _logarithms(self) -> dict[str, float]:
        """The weight of each word, and of each pair of neighbouring words."""
        number = len(self._sentences) + 1
        return {feature: math.log(number / seen) for feature, seen in self.seen.items()}


def _similar_pairs(draft: list[str], reference: list[str], equal: Pairs, weights: _Weights) -> Pairs:
    """(i, j) of unequal sentences with a likeness of SAME_WORDS or more, each in one pair, the most alike first.

    Only sentences that are in none of the pairs `equal` are compared, and of these only two that share a word, or a
    pair of neighbouring words, which no third sentence of either text has.
    """
    taken, matched = {i for i, _ in equal}, {j for _, j in equal}
    mine = [i for i in range(len(draft)) if i not in taken]
    theirs = [j for j in range(len(reference)) if j not in matched]
    if not mine or not theirs:
        return []
    seen = weights.seen
    owner = {f: j for j in theirs for f in weights.features(reference[j]) if seen[f] == 2}
    likely = {(i, owner[f]) for i in mine for f in weights.features(draft[i]) if f in owner}
    scored = ((weights.likeness(draft[i], reference[j]), i, j) for i, j in likely)
    found: Pairs = []
    for _, i, j in sorted((row for row in scored if row[0] >= SAME_WORDS), key=lambda row: (-row[0], row[1], row[2])):
        if i not in taken and j not in matched:
            found.append((i, j))
            taken.add(i)
            matched.add(j)
    return found


def _pairs_that_stay(draft: list[str], reference: list[str], pairs: Pairs) -> Pairs:
    """Those of `pairs` that stay in place so that the other edits are fewest.

    Of equal choices, those with the most text. `pairs`: matched sentences, sorted. Runs of pairs (blocks) stay or move
    as a whole. Between two that stay, every block in either text counts as half of what it costs to move it; the
    sentences in none count as many edits as the text with more of them has.
    Exact for up to some hundred blocks; beyond, a block is only compared with the nearest ones before it, and with the
    one before it in a longest chain.
    """
    blocks = _blocks(pairs)
    mine, theirs = _counts(len(draft), {i for i, _ in pairs}), _counts(len(reference), {j for _, j in pairs})
    unequal = {pair for pair in pairs if draft[pair[0]] != reference[pair[1]]}
    moves, reference_moves = _halves(len(draft), blocks, unequal), _halves(len(reference), blocks, unequal, of=1)
    changed = _counts(len(draft), {i for i, _ in unequal})
    size = list(accumulate((len(key) + 1 for key in draft), initial=0))
    longest = _longest_chain(blocks)
    look_back = min(_LOOK_BACK, 10 + _COMPARED_BLOCKS // (len(blocks) + 1))
    best: list[tuple[float, int]] = []
    for at, (start, reference_start, length) in enumerate([*blocks, _Block(len(draft), len(reference), 0)]):
        others, halves = start - mine[start], moves[start] + reference_moves[reference_start]
        reference_others = reference_start - theirs[reference_start]
        cost, choice = float(halves + 2 * max(others, reference_others)), -1
        nearest = range(max(0, at - look_back) if at < len(blocks) else 0, at)
        for earlier in (*nearest, *longest[at : at + 1]):
            if earlier >= 0 and (e := blocks[earlier]).reference_start + e.length <= reference_start:
                i, j = e.start + e.length, e.reference_start + e.length
                gap = (
                    halves
                    - moves[i]
                    - reference_moves[j]
                    + 2 * max(others - i + mine[i], reference_others - j + theirs[j])
                )
                if best[earlier][0] + gap < cost:
                    cost, choice = best[earlier][0] + gap, earlier
        end = start + length
        best.append((cost + 2 * (changed[end] - changed[start]) - (size[end] - size[start]) / (size[-1] + 1), choice))
    chosen: Pairs = []
    at = best[-1][1]
    while at >= 0:
        chosen += _pairs_of([blocks[at]])
        at = best[at][1]
    return sorted(chosen)


def _blocks(pairs: Pairs) -> list[_Block]:
    """The sorted pairs as runs in which both positions go up by one."""
    starts = [at for at, (i, j) in enumerate(pairs) if not at or pairs[at - 1] != (i - 1, j - 1)]
    return [_Block(*pairs[start], end - start) for start, end in pairwise([*starts, len(pairs)])]


def _counts(number: int, members: set[int]) -> list[int]:
    """For each position from 0 to `number`, both included, how many of `members` are below it."""
    return list(accumulate((place in members for place in range(number)), initial=0))


def _halves(number: int, blocks: list[_Block], unequal: set[tuple[int, int]], of: int = 0) -> list[float]:
    """For each position from 0 to `number`, both included, what moving the blocks below it costs.

    One for the first sentence, _LONGER for each further one, and one more for each that also changes in a block of
    several. `of`: 0 for positions in the draft, 1 for those in the reference.
    """
    costs = [0.0] * number
    for block in blocks:
        for at, pair in enumerate(_pairs_of([block])):
            changes = block.length > 1 and pair in unequal
            costs[pair[of]] = (_LONGER if at else 1.0) + changes
    return list(accumulate(costs, initial=0.0))


def _longest_chain(blocks: list[_Block]) -> list[int]:
    """For each block the index of the one before it in a longest chain of blocks that ends with it; -1: none.

    The blocks are sorted by `start`; in a chain the reference has them in the same order.
    """
    ends: list[int] = []
    last: list[int] = []
    found = []
    for at, block in enumerate(blocks):
        place = bisect_left(ends, block.reference_start)
        found.append(last[place - 1] if place else -1)
        ends[place : place + 1], last[place : place + 1] = [block.reference_start], [at]
    return found


def _with_moves(draft: list[str], reference: list[str], kept: Pairs, pairs: Pairs) -> _Plan:
    """The plan in which the pairs `kept` stay: which of the other `pairs` move, and how many edits that takes.

    Pairs that have a sentence in common with `kept` are left out. A run of pairs moves as one. A single pair does not
    move if that spares no edit: its sentence can be rewritten to another one of the reference at its old place, and
    another sentence of the draft can be rewritten at its new place.
    """
    mine, theirs = {i for i, _ in kept}, {j for _, j in kept}
    others = _blocks(sorted(pair for pair in pairs if pair[0] not in mine and pair[1] not in theirs))
    starts, ends = sorted(mine), sorted(theirs)
    from_gap = [bisect_left(starts, block.start) for block in others]
    to_gap = [bisect_left(ends, block.reference_start) for block in others]
    sizes = [(c - a - 1, d - b - 1) for (a, b), (c, d) in pairwise([(-1, -1), *kept, (len(draft), len(reference))])]
    changed = sum(draft[i] != reference[j] for i, j in kept)
    plans = []
    for at_first in (True, False):
        old, new = [size for size, _ in sizes], [size for _, size in sizes]
        moved: list[_Block] = []
        for block, start, end in zip(others, from_gap, to_gap, strict=True):
            if at_first or block.length > 1:
                old[start] -= block.length
                new[end] -= block.length
        step = 1 if at_first else -1
        for block, start, end in zip(others, from_gap, to_gap, strict=True):
            better = step * (new[start] - old[start]) > 0 and step * (old[end] - new[end]) > 0
            moves = block.length > 1 or start == end or better != at_first
            if moves:
                moved.append(block)
            if block.length == 1 and moves != at_first:
                old[start] += step
                new[end] += step
        plans.append(_Plan(sum(map(max, old, new)) + len(moved) + changed, kept, _pairs_of(moved)))
    return min(plans, key=lambda plan: plan.edits)


def _pairs_of(blocks: list[_Block]) -> Pairs:
    """The pairs that are in the blocks."""
    return [(b.start + k, b.reference_start + k) for b in blocks for k in range(b.length)]


def _levenshtein_pairs(draft: list[str], reference: list[str], most: int) -> Pairs | None:
    """The equal pairs of a Levenshtein alignment of the sentences with at most `most` edits, in order.

    None: it takes more edits, the texts are too long for it (_SUBSTITUTED_CELLS), or `most` is below 2. It is better
    than other alignments where sentences are repeated and nothing moves.
    """
    head = common_prefix_length(draft, reference)
    n, m = len(draft) - head, len(reference) - head
    width = min(m, 2 * most) + 1
    if n * width > _SUBSTITUTED_CELLS or abs(n - m) > most or most <= 1:
        return None
    far = most + 1
    row = [min(j, far) for j in range(m + 1)]
    rows = [row]
    for i in range(1, n + 1):
        low, high = max(1, i - most), min(m, i + most)
        new = [min(i, far)] + [far] * m
        last = new[low - 1]
        key = draft[head + i - 1]
        for j in range(low, high + 1):
            cost = row[j - 1] if key == reference[head + j - 1] else 1 + min(row[j - 1], row[j], last)
            new[j] = last = cost
        rows.append(new)
        row = new
    if row[m] > most:
        return None
    found: Pairs = []
    i, j = n, m
    while i and j:
        if draft[head + i - 1] == reference[head + j - 1]:
            i, j = i - 1, j - 1
            found.append((head + i, head + j))
        elif rows[i][j] == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
        elif rows[i][j] == rows[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return [(place, place) for place in range(head)] + found[::-1]


def _related(draft: list[str], reference: list[str], plan: _Plan, weights: _Weights) -> Pairs:
    """(i, j) of other sentences that have something in common, both between the same two that stay; in order.

    Between each two that stay those are taken that are in the same order in both texts, with the greatest relation in
    sum.
    """
    taken, matched = {i for i, _ in plan.moved}, {j for _, j in plan.moved}
    found: Pairs = []
    for (a, b), (c, d) in pairwise([(-1, -1), *plan.kept, (len(draft), len(reference))]):
        mine = [i for i in range(a + 1, c) if i not in taken]
        theirs = [j for j in range(b + 1, d) if j not in matched]
        likely = ((mine[x], theirs[y]) for x, y in compared(len(mine), len(theirs)))
        scored = [(i, j, score) for i, j in likely if (score := weights.relation(draft[i], reference[j]))]
        found += heaviest_chain(scored)
    return found


def compared(mine: int, theirs: int) -> Iterator[tuple[int, int]]:
    """(x, y) to compare, of all up to `mine` and `theirs`, in order.

    All, if these are at most _COMPARED; else for each x those y that are nearest to the same place in the text.
    """
    reach = max(1, _COMPARED // (2 * mine)) if mine * theirs > _COMPARED else theirs
    for x in range(mine):
        middle = x * theirs // mine
        yield from ((x, y) for y in range(max(0, middle - reach), min(theirs, middle + reach + 1)))


def heaviest_chain(scored: list[tuple[int, int, float]]) -> Pairs:
    """Those (i, j) that go up in both, with the greatest sum of scores. `scored`: (i, j, score), sorted."""
    places = {j: at for at, j in enumerate(sorted({j for _, j, _ in scored}), 1)}
    best: list[tuple[float, int]] = [(0.0, -1)] * (len(places) + 1)  # a Fenwick tree of maxima over j
    before: list[int] = []
    for _, row in groupby(enumerate(scored), lambda found: found[1][0]):
        new = []
        for at, (_, j, score) in row:
            place, (total, last) = places[j] - 1, (0.0, -1)
            while place:
                total, last = max((total, last), best[place])
                place &= place - 1
            before.append(last)
            new.append((total + score, at, places[j]))
        for total, at, place in new:
            while place < len(best):
                best[place] = max(best[place], (total, at))
                place += place & -place
    at = max(best)[1]
    found: Pairs = []
    while at >= 0:
        found.append(scored[at][:2])
        at = before[at]
    return found[::-1]
