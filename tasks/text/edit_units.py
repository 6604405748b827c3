"""What one edit treats as a whole: sentences that were merged or split, passages, and blocks that move.

`joined` comes before sentences are aligned, `grouped` after it. Both give sentences again, of which some stand for
several.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from operator import eq

from tasks.text.alignment import Alignment, compared, heaviest_chain, words_of
from tasks.text.edit_sentences import Sentence

_PART = 0.6
_WHOLE = 0.7
_PART_WORDS = 2
_RAREST, _MOST_OWNERS = 4, 40
_STEPS = ((1, 1), (1, 2), (2, 1), (2, 2))


# ---------------------------------------------------------------- merged and split sentences


def joined(text: str, own: list[Sentence], other: list[Sentence]) -> list[Sentence]:
    """`own`, the sentences of `text`, with neighbours as one where one sentence of `other` has the words of all.

    Only white space may be between them, and neither they nor that one are in both texts.
    """
    shared = {sentence.key for sentence in own} & {sentence.key for sentence in other}
    owner = _Owners([sentence.key for sentence in other if sentence.key not in shared and not sentence.is_code])
    found: list[Sentence] = []
    target = None
    for sentence in own:
        best = None if sentence.key in shared or sentence.is_code else owner.of(sentence.key)
        last = found[-1] if found else None
        if last and best is not None and best == target and not text[last.end : sentence.start].strip():
            parts = [*owner.parts, sentence.key] if last.inner else [last.key, sentence.key]
            if owner.has_all(best, parts):
                owner.parts = parts
                found[-1] = merged(last, sentence)
                continue
        found.append(sentence)
        target = best
    return found


def merged(first: Sentence, last: Sentence) -> Sentence:
    """Two neighbours as one sentence. `inner`: where the parts of both end, but for the last."""
    key = f"{first.key} {last.key}"
    return first._replace(end=last.end, key=key, inner=(*first.inner, first.end, *last.inner))


class _Owners:
    """Finds the sentence that has the words of another. `parts`: for the caller, those that were joined last."""

    def __init__(self, keys: list[str]) -> None:
        self._words = [Counter(words_of(key)) for key in keys]
        self._having: dict[str, list[int]] = defaultdict(list)
        self.parts: list[str] = []
        for at, words in enumerate(self._words):
            for word in words:
                self._having[word].append(at)

    def of(self, key: str) -> int | None:
        """The index of the sentence with most words of `key`, if these are _PART of them; it has more words.

        Only sentences that have one of the _RAREST words are compared.
        """
        own = Counter(words_of(key))
        known = sorted((len(self._having[word]), word) for word in own if word in self._having)
        likely = {at for number, word in known[:_RAREST] if number <= _MOST_OWNERS for at in self._having[word]}
        scored = [(-(own & self._words[at]).total(), at) for at in likely]
        if own.total() < _PART_WORDS or not scored:
            return None
        shared, best = min(scored)
        return best if -shared >= _PART * own.total() and self._words[best].total() > own.total() else None

    def has_all(self, at: int, parts: list[str]) -> bool:
        """Whether the sentence `at` is made of the parts: _PART of each is in it and in no other part, and they make up
        _WHOLE of it.
        """
        rest, total = Counter(self._words[at]), 0
        counts = [Counter(words_of(part)) for part in parts]
        taken = 0
        for own in counts:
            shared = (own & rest).total()
            if shared < _PART * own.total():
                return False
            rest -= own
            taken += shared
            total += own.total()
        return 2 * taken >= _WHOLE * (total + self._words[at].total())


# ---------------------------------------------------------------- passages and blocks


def grouped(
    mine: list[Sentence], theirs: list[Sentence], alignment: Alignment
) -> tuple[list[Sentence], list[Sentence], Alignment]:
    """(sentences of the draft, of the reference, their alignment), each run that one edit treats as one sentence.

    Neighbours of one paragraph that are all removed, or all added, are one; so are those that move together, even if
    one among them goes or comes. A single sentence that is removed where a single one is added is rewritten to it, if
    both or neither begin a paragraph, or both or neither end one; so is a whole paragraph.
    """
    replaced = list(_replaced(mine, theirs, alignment))
    becomes, stays = list(alignment.becomes), list(alignment.stays)
    for (first, last), (start, _) in replaced:
        becomes[first : last + 1] = [start] * (last + 1 - first)
        stays[first : last + 1] = [True] * (last + 1 - first)
    come = {j for _, span in replaced for j in range(span[0], span[1] + 1)}
    matched = come | {j for j in becomes if j is not None}
    blocks = list(_blocks(becomes, stays, matched))
    in_block = {i for first, last, _, _ in blocks for i in range(first, last + 1)}
    in_other = {j for _, _, first, last in blocks for j in range(first, last + 1)}
    removed = [i for i, j in enumerate(becomes) if j is None and i not in in_block]
    added = [j for j in range(len(theirs)) if j not in matched and j not in in_other]
    spans = [block[:2] for block in blocks] + [span for span, _ in replaced] + _runs(removed, mine)
    other_spans = [block[2:] for block in blocks] + [span for _, span in replaced] + _runs(added, theirs)
    units, place = _as_units(mine, spans)
    other_units, other_place = _as_units(theirs, other_spans)
    new: list[int | None] = [None] * len(units)
    staying = [False] * len(units)
    for i, j in enumerate(becomes):
        if j is not None:
            new[place[i]], staying[place[i]] = other_place[j], stays[i]
    return units, other_units, Alignment(new, staying)


def _replaced(
    mine: list[Sentence], theirs: list[Sentence], alignment: Alignment
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """((first, last), (first, last) in the reference) of what is rewritten: between the same two that stay, in order.

    As many as may be, in order.
    """
    matched = {j for j in alignment.becomes if j is not None}
    staying = [(i, j) for i, j in enumerate(alignment.becomes) if alignment.stays[i] and j is not None]
    for (a, b), (c, d) in pairwise([(-1, -1), *staying, (len(mine), len(theirs))]):
        removed = _runs([i for i in range(a + 1, c) if alignment.becomes[i] is None], mine)
        added = _runs([j for j in range(b + 1, d) if j not in matched], theirs)
        likely = ((removed[x], added[y]) for x, y in compared(len(removed), len(added)))
        pairs = [(one, other) for one, other in likely if _may_replace(mine, one, theirs, other)]
        chain = set(heaviest_chain([(one[0], other[0], 1.0) for one, other in pairs]))
        yield from ((one, other) for one, other in pairs if (one[0], other[0]) in chain)


def _may_replace(mine: list[Sentence], one: tuple[int, int], theirs: list[Sentence], other: tuple[int, int]) -> bool:
    """Whether a run (first, last) of the draft's sentences may be rewritten to one of the reference's.

    Both are whole paragraphs, but not all of a text, or both are single sentences.
    """
    edges, other_edges = _edges(mine, one), _edges(theirs, other)
    if one[0] == one[1] and other[0] == other[1]:
        return any(map(eq, edges, other_edges))
    is_all = one[1] - one[0] + 1 == len(mine) or other[1] - other[0] + 1 == len(theirs)
    return all(edges) and all(other_edges) and not is_all


def _edges(own: list[Sentence], run: tuple[int, int]) -> tuple[bool, bool]:
    """(whether the run (first, last) begins a paragraph, whether it ends one)."""
    first, last = run
    begins = not first or own[first - 1].paragraph != own[first].paragraph
    return begins, last + 1 == len(own) or own[last + 1].paragraph != own[last].paragraph


def _runs(members: list[int], own: list[Sentence]) -> list[tuple[int, int]]:
    """(first, last) of the runs of neighbours among `members`, sorted indices, each within one paragraph."""
    found: list[tuple[int, int]] = []
    for at in members:
        if found and found[-1][1] == at - 1 and own[at - 1].paragraph == own[at].paragraph:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


def _blocks(becomes: list[int | None], stays: list[bool], matched: set[int]) -> Iterator[tuple[int, int, int, int]]:
    """(first, last, first in the reference, last there) of the runs of sentences that move together.

    Between two that do, one sentence may be removed, one added.
    """
    moved = {i: j for i, j in enumerate(becomes) if j is not None and not stays[i]}
    at = 0
    while at < len(becomes):
        if at not in moved:
            at += 1
            continue
        first, last = at, at
        while (following := _following(last, moved, becomes, matched)) is not None:
            last = following
        yield first, last, moved[first], moved[last]
        at = last + 1


def _following(i: int, moved: dict[int, int], becomes: list[int | None], matched: set[int]) -> int | None:
    """The next sentence that moves together with sentence i; None if there is none."""
    for step, other_step in _STEPS:
        if moved.get(i + step) != moved[i] + other_step:
            continue
        if (step == 1 or becomes[i + 1] is None) and (other_step == 1 or moved[i] + 1 not in matched):
            return i + step
    return None


def _as_units(own: list[Sentence], spans: list[tuple[int, int]]) -> tuple[list[Sentence], list[int]]:
    """(the sentences, those from the first to the last of each span as one; for each old index the new one)."""
    last_of = dict(spans)
    units: list[Sentence] = []
    place: list[int] = []
    at = 0
    while at < len(own):
        last = last_of.get(at, at)
        parts = own[at : last + 1]
        key = " ".join(part.key for part in parts)
        whole = parts[0]._replace(end=parts[-1].end, key=key, inner=(), parts=len(parts))
        units.append(whole if last > at else parts[0])
        place += [len(units) - 1] * len(parts)
        at = last + 1
    return units, place
