"""Revision Distance without a model: the edits that make a draft its reference. A lexical baseline: words, no meaning.

`revise(draft, reference)` lists what the prompt for the edits to a reference asks for: a passage that moves, a passage
of one paragraph that is removed or added, a sentence that is rewritten, two that are merged, one that is split, words
that change in one place. White space, kinds of quotation marks and the composition of letters (NFC) are no edit. But
for these, the edits applied to the draft give the reference, always. Snippets carry the white space and list marks
around their sentences, so that the white space, too, is the reference's wherever it is the same around the sentences
that stay.
"""

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category, combining, normalize

from longform.errors import UsageError
from tasks.text.alignment import Alignment, Moves, align, words_of
from tasks.text.edit_sentences import Sentence, sentences, split_alike
from tasks.text.edit_units import grouped, joined
from tasks.text.words import Difference, Token, common_prefix_length, differences, folded, tokens

Edit = dict[str, str | None]

MAX_SENTENCES = 50_000
MOVES: tuple[Moves, ...] = ("all", "single", "none")
_CHANGED = 0.45
_QUOTED = 60
_CONTEXT = 24
_SPARE_CONTEXT = 2_000_000
_COMPARED_WORDS = 400
_COMPARED_CHARACTERS = 4_000
_SLIGHT = 0.34
_SPELLING = 0.7
_BLANKS = re.compile(r"\s*")
_JOINERS = "\u200c\u200d"
_VIRAMA = 9

_SAYS = {
    "move": ("coherence", "The {unit} {quote} stands at another place in the reference."),
    "remove": ("meaning", "The reference does not have the {unit} {quote}."),
    "add": ("meaning", "The draft lacks the {unit} {quote} of the reference."),
    "change": ("", "The reference words the sentence {quote} otherwise."),
    "mark": ("fluency", "The sentence {quote} has another mark before it in the reference."),
    "merge": ("coherence", "The reference says in one sentence what the draft says in more: {quote}."),
    "split": ("coherence", "The reference says in more sentences what the draft says in one: {quote}."),
    "rewrite": ("meaning", "Where the draft says {quote}, the reference says something else."),
    "move and change": ("coherence", "The {unit} {quote} stands elsewhere in the reference, in other words."),
}


class _Piece(NamedTuple):
    """One edit by offsets: cuts draft[start:end] out, and puts `text` in at `at`, an offset in the draft, too.

    `action`: a key of _SAYS; `old` and `new`: the sentence before and after, for the description, "" if there is none;
    `parts`: of how many sentences the passage is.
    """

    action: str
    start: int
    end: int
    at: int
    text: str
    old: str
    new: str
    level: str = "sentence"
    parts: int = 1


class _Seam(NamedTuple):
    """Where the white space and list marks between two neighbouring sentences are in a text."""

    start: int
    end: int


class _KeptSeam(NamedTuple):
    """The seam (white space and list mark between two sentences) of the draft that is kept where sentences come or go.

    `place`: its index in the gap; new text goes in after its first `split` characters. `head`, `tail`: how many
    characters at the beginning of the first and at the end of the last seam of the reference are not put in, as the
    kept seam has them.
    """

    place: int
    split: int
    head: int
    tail: int


@dataclass
class _Gap:
    """What is between two sentences that stay: the sentences `mine` are removed from it, `theirs` come into it.

    `seams`: white space and list marks before, between and after `mine` in the draft; `wanted`: the texts of those in
    the reference around `theirs`. `cuts`: the span to cut for each of `mine`; `chunks`: the text to put in at `at` for
    each of `theirs`; `replacement`: text in place of what is removed; `anchor`: the edits of the second of the two
    sentences.
    """

    mine: list[int]
    theirs: list[int]
    seams: list[_Seam]
    wanted: list[str]
    cuts: dict[int, tuple[int, int]] = field(default_factory=dict)
    chunks: dict[int, str] = field(default_factory=dict)
    at: int = 0
    replacement: str = ""
    anchor: list[_Piece] = field(default_factory=list)


def revise(draft: str, reference: str) -> list[Edit]:
    """The edits that make the draft the reference, in the order of the reference; none if both are alike when `folded`.

    Each is a dict of seven fields: action_name, revision_description, revision_level, revision_intention and three
    snippets. It refers to the draft before any edit. `preceding_snippet` is the text right before the place, as much
    as is needed to find it; null if original_snippet is replaced where it first occurs outside earlier edits. If no
    such edits can be found, one edit rewrites everything. Raises UsageError if a text has more than MAX_SENTENCES
    sentences.
    """
    if folded(draft) == folded(reference):
        return []
    mine, theirs = sentences(draft), sentences(reference)
    if (most := max(len(mine), len(theirs))) > MAX_SENTENCES:
        raise UsageError(
            f"The offline editor compares texts of at most {MAX_SENTENCES:,} sentences, not of {most:,}: give a part."
        )
    mine, theirs = joined(draft, mine, theirs), joined(reference, theirs, mine)
    mine, theirs = split_alike(draft, mine, theirs), split_alike(reference, theirs, mine)
    found, least = None, 0
    for pieces in _plans(draft, reference, mine, theirs):
        describer = _Describer(draft)
        edits = describer.edits(pieces)
        if edits is not None and folded(_applied(draft, pieces)) == folded(reference):
            if len(edits) == len(pieces) and found is None:
                return edits
            if found is None or describer.cost < least:
                found, least = edits, describer.cost
    whole = _Piece("rewrite", 0, len(draft), 0, reference.strip(), draft, reference, "text")
    return found or [_edit(whole, draft.strip(), None)]


def _plans(draft: str, reference: str, mine: list[Sentence], theirs: list[Sentence]) -> Iterator[list[_Piece]]:
    """Lists of edits by offsets, the best list first.

    In later ones fewer sentences move (all of MOVES are tried): snippets cannot always show the move of a sentence
    that has copies. For each choice items of lists are first edited by lines, then by sentences; a list that equals
    the one before it is left out.
    """
    last = None
    for moves in MOVES:
        alignment = align([each.key for each in mine], [each.key for each in theirs], moves=moves)
        units = grouped(mine, theirs, alignment)
        for by_lines in (True, False):
            pieces = list(_pieces(draft, reference, *units, by_lines=by_lines))
            if pieces != last:
                yield pieces
            last = pieces


def _pieces(
    draft: str, reference: str, mine: list[Sentence], theirs: list[Sentence], alignment: Alignment, *, by_lines: bool
) -> Iterator[_Piece]:
    """The edits of an alignment: before each sentence that stays removals and what comes in, then its own change.

    `by_lines`: in lists, whole items with their marks are cut and put in where possible.
    """
    gaps = list(_gaps(draft, reference, mine, theirs, alignment, by_lines=by_lines))
    source = {j: i for i, j in enumerate(alignment.becomes) if j is not None}
    cuts = {i: span for gap in gaps for i, span in gap.cuts.items()}
    for gap in gaps:
        replacement = gap.replacement
        for i in gap.mine:
            if alignment.becomes[i] is None:
                start, end = gap.cuts[i]
                yield _Piece("remove", start, end, start, replacement, mine[i].key, "", _level(mine[i]), mine[i].parts)
                replacement = ""
        for j in gap.theirs:
            new = theirs[j].key
            if j in source:
                start, end = cuts[source[j]]
                old = mine[source[j]].key
                action, moved = "move" if old == new else "move and change", mine[source[j]]
                yield _Piece(action, start, end, gap.at, gap.chunks[j], old, new, _level(moved), moved.parts)
            else:
                yield _Piece("add", gap.at, gap.at, gap.at, gap.chunks[j], "", new, _level(theirs[j]), theirs[j].parts)
        yield from gap.anchor


def _level(sentence: Sentence) -> str:
    """paragraph for a passage, else sentence."""
    return "paragraph" if sentence.parts > 1 else "sentence"


def _gaps(
    draft: str, reference: str, mine: list[Sentence], theirs: list[Sentence], alignment: Alignment, *, by_lines: bool
) -> Iterator[_Gap]:
    """What is before, between and after the sentences that stay, in order, with what is cut from it and put into it.

    `by_lines`: in lists, whole items with their marks are cut and put in where possible.
    """
    last, reference_last = -1, -1
    staying = [(i, j) for i, j in enumerate(alignment.becomes) if alignment.stays[i] and j is not None]
    for i, j in [*staying, (len(mine), len(theirs))]:
        gap = _Gap(
            list(range(last + 1, i)),
            list(range(reference_last + 1, j)),
            _seams(draft, mine, last, i),
            [reference[start:end] for start, end in _seams(reference, theirs, reference_last, j)],
        )
        lead = mark = 0
        by_line = by_lines and _fill_by_lines(gap, draft, reference, theirs)
        if not by_line and not _edit_gap(gap, draft, reference, mine, theirs, alignment):
            lead, mark = _give_mark(gap, draft)
            _edit_gap(gap, draft, reference, mine, theirs, alignment)
        if i < len(mine) and (lead or mark):
            start, end = mine[i].start - lead, mine[i].end
            text = reference[theirs[j].start - mark : theirs[j].end]
            old, new = folded(draft[start:end]), folded(text)
            action = _action_of_change(old, new) if mine[i].key != theirs[j].key else "mark"
            gap.anchor = [_Piece(action, start, end, start, text, old, new)]
        elif i < len(mine) and mine[i].key != theirs[j].key:
            gap.anchor = _changes(draft, reference, mine[i], theirs[j])
        yield gap
        last, reference_last = i, j


def _seams(text: str, own: list[Sentence], first: int, last: int) -> list[_Seam]:
    """The spans between neighbouring sentences (white space and list marks), from sentence `first` to `last`.

    Both are indices in `own`, the sentences of `text`; -1 is the beginning of the text, len(own) its end.
    """
    begin = own[first].end if first >= 0 else len(text) - len(text.lstrip())
    starts = [begin, *(sentence.end for sentence in own[first + 1 : last])]
    ends = [sentence.start for sentence in own[first + 1 : last + 1]]
    return list(map(_Seam, starts, ends if last < len(own) else [*ends, starts[-1]]))


def _edit_gap(
    gap: _Gap, draft: str, reference: str, mine: list[Sentence], theirs: list[Sentence], alignment: Alignment
) -> bool:
    """Set what is cut from the gap and put into it (`cuts`, `at`, `chunks`, `replacement`); False if that cannot be.

    A seam (white space and list mark between two sentences) of the draft is kept if it fits the reference. If none
    does, all are cut with the sentences beside them; that needs a sentence of the gap that is removed, or some that
    leave while others come in. Else a seam is kept that differs from the reference's only in its white space. If there
    is none, the gap is unchanged.
    """
    stays = _kept_seam(gap, draft)
    if stays is None and (ends := _ends_that_stay(gap, draft)):
        _set_cuts(gap, mine, None)
        first, last = gap.mine[0], gap.mine[-1]
        gap.cuts[first] = (gap.cuts[first][0] + ends[0], gap.cuts[first][1])
        gap.cuts[last] = (gap.cuts[last][0], gap.cuts[last][1] - ends[1])
        return True
    if stays is None and not (gap.mine and (gap.theirs or any(alignment.becomes[i] is None for i in gap.mine))):
        stays = _staying_in_words(gap, draft)
        if stays is None:
            return False
    _set_cuts(gap, mine, stays and stays.place)
    place, split, head, tail = stays or _KeptSeam(0, 0, 0, 0)
    gap.at = gap.seams[place].start + split
    _put(gap, reference, theirs, head, tail)
    if not gap.theirs and stays is None:
        gap.replacement = gap.wanted[0]
    return True


def _fill_by_lines(gap: _Gap, draft: str, reference: str, theirs: list[Sentence]) -> bool:
    """Set what is cut from the gap and put into it, for a list: whole items with their marks and line ends.

    Returns False, without a change, if the gap is in no list or the white space around the items would not fit.
    """
    lines = _line_starts(gap, draft)
    if not lines:
        return False
    gap.cuts = dict(zip(gap.mine, pairwise(lines), strict=True))
    gap.at = lines[0]
    _put(gap, reference, theirs, lines[0] - gap.seams[0].start, gap.seams[-1].end - lines[-1])
    return True


def _put(gap: _Gap, reference: str, theirs: list[Sentence], head: int, tail: int) -> None:
    """Set `gap.chunks`: the sentences that come in, each with white space and list marks beside it.

    Of these the first `head` and the last `tail` characters of all are left out, as the draft has them. No change if
    none comes in.
    """
    if gap.theirs:
        bodies = [reference[theirs[j].start : theirs[j].end] for j in gap.theirs]
        last = gap.wanted[-1]
        wanted = [gap.wanted[0][head:], *gap.wanted[1:-1], last[: len(last) - tail]]
        gap.chunks = dict(zip(gap.theirs, _chunks(bodies, wanted), strict=True))


def _line_starts(gap: _Gap, draft: str) -> list[int] | None:
    """For each seam of a gap in a list the offset at which the line of its list mark begins, without a mark its end.

    None: it is no list (the first or last seam has no mark), or what would be left of these two is not as in the
    reference. A seam is the white space and list mark between two sentences.
    """
    starts = [_line_start(seam, draft) for seam in gap.seams]
    if None in (starts[0], starts[-1]) or any(start == end for start, end in gap.seams[1:-1]):
        return None
    lines = [seam.end if start is None else start for seam, start in zip(gap.seams, starts, strict=True)]
    head, tail = draft[gap.seams[0].start : lines[0]], draft[lines[-1] : gap.seams[-1].end]
    if gap.theirs:
        return lines if gap.wanted[0].startswith(head) and gap.wanted[-1].endswith(tail) else None
    return lines if gap.mine and gap.wanted[0] == head + tail else None


def _line_start(seam: _Seam, draft: str) -> int | None:
    """The offset of the line that the list mark in the seam is on; None: the seam has no list mark."""
    text = draft[seam.start : seam.end]
    start = max(text.rfind("\n"), text.rfind("\r")) + 1
    return seam.start + start if text[start:].strip() else None


def _kept_seam(gap: _Gap, draft: str) -> _KeptSeam | None:
    """The seam of the draft to keep, so that all seams become those of the reference; None if there is no such seam.

    A seam is the white space and list mark between two sentences; the first that fits is taken.
    """
    first, last = gap.wanted[0], gap.wanted[-1]
    for place, (start, end) in enumerate(gap.seams):
        seam = draft[start:end]
        split = 0 if last.endswith(seam) else common_prefix_length(seam, first)
        if last.endswith(seam[split:]) if gap.theirs else seam == first:
            return _KeptSeam(place, split, split, len(seam) - split)
    return None


def _ends_that_stay(gap: _Gap, draft: str) -> tuple[int, int] | None:
    """(characters of the first seam's beginning, characters of the last one's end) that make up the wanted seam.

    A seam is the white space and list mark between two sentences. None: nothing does, sentences come into the gap, or
    none leaves it.
    """
    if gap.theirs or not gap.mine:
        return None
    wanted = gap.wanted[0]
    first, last = (draft[start:end] for start, end in (gap.seams[0], gap.seams[-1]))
    for split in range(len(wanted) + 1):
        bare = wanted[:split][-1:].isspace() and wanted[split:][:1].isspace()
        if not bare and first.startswith(wanted[:split]) and last.endswith(wanted[split:]):
            return split, len(wanted) - split
    return None


def _staying_in_words(gap: _Gap, draft: str) -> _KeptSeam | None:
    """The seam of the draft to keep, the first that equals one of the reference but for its white space.

    None if none does. A seam is the white space and list mark between two sentences. The reference's are its last seam
    in the gap and, if sentences come in, its first.
    """
    for place, (start, end) in enumerate(gap.seams):
        seam = folded(f"x{draft[start:end]}x")
        if seam == folded(f"x{gap.wanted[-1]}x"):
            return _KeptSeam(place, 0, 0, len(gap.wanted[-1]))
        if gap.theirs and end > start and seam == folded(f"x{gap.wanted[0]}x"):
            return _KeptSeam(place, end - start, len(gap.wanted[0]), 0)
    return None


def _set_cuts(gap: _Gap, mine: list[Sentence], stays: int | None) -> None:
    """Set `gap.cuts`: for each sentence that leaves the gap its span, with a seam (white space and list mark).

    Sentences before the kept seam, which has the index `stays`, take the seam before them, the others the one after
    them. None: no seam is kept, so the first sentence takes the seams on both sides.
    """
    for place, i in enumerate(gap.mine):
        before = stays is not None and place < stays
        start = gap.seams[place].start if before or (stays is None and not place) else mine[i].start
        gap.cuts[i] = (start, mine[i].end if before else gap.seams[place + 1].end)


def _chunks(bodies: list[str], seams: list[str]) -> list[str]:
    """Each sentence with the white space and list mark (seam) after it; if there is text before the first, before it.

    Then the last sentence also has the seam after it. `seams`: one more than `bodies`, which are the sentences.
    """
    if not seams[0]:
        return [body + seam for body, seam in zip(bodies, seams[1:], strict=True)]
    chunks = [seam + body for seam, body in zip(seams, bodies, strict=False)]
    return [*chunks[:-1], chunks[-1] + seams[-1]]


def _give_mark(gap: _Gap, draft: str) -> tuple[int, int]:
    """Shorten the last seams (white space and list mark before the next sentence) to the white space both begin with.

    Returns (length of what is cut off in the draft, the same in the reference), which is edited with the next
    sentence. Changes `gap`.
    """
    (start, end), wanted = gap.seams[-1], gap.wanted[-1]
    shared = wanted[: common_prefix_length(draft[start:end], wanted)]
    same = len(shared) - len(shared.lstrip())
    gap.seams[-1], gap.wanted[-1] = _Seam(start, start + same), wanted[:same]
    return end - start - same, len(wanted) - same


def _changes(draft: str, reference: str, mine: Sentence, theirs: Sentence) -> list[_Piece]:
    """The edits of a sentence that stays and changes: one for each place where a few of its words do, or one for all.

    One for all if it shares little, or if more than _SLIGHT of its words change, in several places.
    """
    parts = max(mine.parts, theirs.parts)
    joining = _joining(mine, theirs)
    action = "rewrite" if parts > 1 else joining or _action_of_change(mine.key, theirs.key)
    text, level = reference[theirs.start : theirs.end], "paragraph" if parts > 1 else "sentence"
    whole = [_Piece(action, mine.start, mine.end, mine.start, text, mine.key, theirs.key, level, parts)]
    if action == "rewrite":
        return whole
    own, other = tokens(draft, mine.start, mine.end), tokens(reference, theirs.start, theirs.end)
    found = differences([token.key for token in own], [token.key for token in other]) or []
    changed = sum(max(each.end - each.start, each.other_end - each.other_start) for each in found)
    if not found or (len(found) > 1 and changed > _SLIGHT * max(len(own), len(other))):
        return whole
    pieces = [
        _described_in_full(_change(draft, reference, own, other, each), draft, mine, len(found)) for each in found
    ]
    if joining:
        at = _joining_place(mine, theirs, found, own, other)
        pieces[at] = pieces[at]._replace(action=joining, level="sentence")
    return pieces


def _joining(mine: Sentence, theirs: Sentence) -> str:
    """merge or split, if one of two sentences stands for more sentences than the other; else ""."""
    more = len(mine.inner) - len(theirs.inner)
    return ("merge" if more > 0 else "split") if more else ""


def _joining_place(
    mine: Sentence, theirs: Sentence, found: list[Difference], own: list[Token], other: list[Token]
) -> int:
    """The index of the first difference that reaches over the end of a sentence within `mine` or `theirs`; else 0."""
    ends = [*mine.inner, *theirs.inner]
    side = own if mine.inner else other
    spans = [(each.start, each.end) if mine.inner else (each.other_start, each.other_end) for each in found]
    for at, (first, last) in enumerate(spans):
        start, end = side[max(0, first - 1)].start, side[min(len(side) - 1, last)].start
        if any(start <= place <= end for place in ends):
            return at
    return 0


def _change(draft: str, reference: str, own: list[Token], other: list[Token], each: Difference) -> _Piece:
    """The edit of one difference between two sentences, given as tokens. What only puts in also shows a word beside."""
    first, last, new_first, new_last = each
    if first == last and first:
        back = next((back for back in (1, 2, 3) if back == first or own[first - back].key[-1].isalnum()), 3)
        first, new_first = first - back, new_first - back
    elif first == last:
        last, new_last = last + 1, new_last + 1
    blank, new_blank = (keys[at].key[0] == " " for keys, at in ((own, first), (other, min(new_first, len(other) - 1))))
    if first and (new_first == new_last or blank != new_blank):
        start, new_start = own[first - 1].end, other[new_first - 1].end
    else:
        start, new_start = own[first].start, other[min(new_first, len(other) - 1)].start
    end = own[last - 1].end
    text = reference[new_start : other[new_last - 1].end] if new_first < new_last else ""
    level = "word" if max(last - first, new_last - new_first) <= 1 else "phrase"
    return _Piece("change", start, end, start, text, folded(draft[start:end]), folded(text), level)


def _described_in_full(piece: _Piece, draft: str, sentence: Sentence, number: int) -> _Piece:
    """The piece, which changes a part of a sentence, with `old` and `new` as the whole sentence before and after it.

    Unless the sentence is long and there are several such (their `number`).
    """
    if number > 1 and len(sentence.key) > _COMPARED_CHARACTERS:
        return piece
    new = draft[sentence.start : piece.start] + piece.text + draft[piece.end : sentence.end]
    return piece._replace(old=sentence.key, new=folded(new))


def _action_of_change(old: str, new: str) -> str:
    """The action for a sentence that changes: change if `old` and `new` share _CHANGED of their words, or rewrite."""
    mine, theirs = Counter(words_of(old)), Counter(words_of(new))
    shared = 2 * (mine & theirs).total()
    return "change" if shared >= _CHANGED * (mine.total() + theirs.total()) else "rewrite"


def _applied(draft: str, pieces: list[_Piece]) -> str:
    """The draft after all these edits, of which each refers to the draft before any of them."""
    steps = [(piece.at, 0, order, piece.at, piece.text) for order, piece in enumerate(pieces)]
    steps += [(piece.start, 1, 0, piece.end, "") for piece in pieces if piece.end > piece.start]
    parts, at = [], 0
    for place, _, _, end, text in sorted(steps):
        parts += [draft[at:place], text]
        at = max(at, end)
    return "".join([*parts, draft[at:]])


class _Describer:
    """Turns edits by offsets into edits whose place is named by snippets of the draft.

    `cost`: how many edits there are, where a passage that goes or comes counts as its sentences.
    """

    def __init__(self, draft: str) -> None:
        self.cost = 0
        self._draft = draft
        self._spare = _SPARE_CONTEXT + 4 * len(draft)
        self._spans: list[tuple[int, int]] = []
        self._next: dict[str, int] = {}

    def edits(self, pieces: list[_Piece]) -> list[Edit] | None:
        """The edits in order; None: the snippets before their places would take too much text.

        A move that snippets cannot show becomes a removal and an addition.
        """
        found = []
        for piece in pieces:
            steps = [piece]
            if piece.action.startswith("move") and not self._snippets_show_move(piece):
                steps = [
                    piece._replace(action="remove", at=piece.start, text="", new=""),
                    piece._replace(action="add", start=piece.at, end=piece.at, old=""),
                ]
            for step in steps:
                original = self._draft[step.start : step.end]
                preceding = (
                    None if self._is_found(step, original) else self._tail(step.at, step.at) or self._draft[: step.at]
                )
                self._spare -= len(preceding or "")
                if self._spare < 0:
                    return None
                if original:
                    insort(self._spans, (step.start, step.end))
                self.cost += 1 if step.action.startswith("move") else step.parts
                found.append(_edit(step, original, preceding))
        return found

    def _snippets_show_move(self, piece: _Piece) -> bool:
        """Whether snippets alone can name this move: a search finds the sentence, and no copy is at the target.

        A search finds it if every earlier copy in the draft is covered by an earlier edit.
        """
        original = self._draft[piece.start : piece.end]
        here = _BLANKS.match(self._draft, piece.at)
        taken = here is not None and self._draft.startswith(original.strip(), here.end())
        return not taken and self._first(original, piece.start)

    def _is_found(self, step: _Piece, original: str) -> bool:
        """Whether an edit needs no preceding snippet: the first `original` in the draft is the one that it replaces.

        Or earlier edits cover all that come before that one, and no short text right before it is unique. False for
        additions and moves.
        """
        if not original or step.action.startswith("move"):
            return False
        is_first = self._draft.find(original) == step.start
        return is_first or (self._tail(step.at, 8 * _CONTEXT) is None and self._first(original, step.start))

    def _first(self, original: str, start: int) -> bool:
        """Whether the `original` at `start` is the first in the draft that no earlier edit covers.

        False if the first hundred copies do not decide it.
        """
        at = self._draft.find(original, self._next.get(original, 0))
        for _ in range(100):
            if at >= start or at < 0:
                return at == start
            place = bisect_left(self._spans, (at + len(original), 0)) - 1
            if place < 0 or self._spans[place][1] <= at:
                return False
            self._next[original] = at + 1
            at = self._draft.find(original, at + 1)
        return False

    def _tail(self, at: int, limit: int) -> str | None:
        """The text right before `at`, as short as possible, that occurs nowhere earlier in the draft.

        None if none is found. Tried are _CONTEXT characters, twice and four times that and so on, up to about `limit`,
        each from the beginning of a word if that is near. All the text before `at` may be the last resort.
        """
        length = _CONTEXT
        while length < at and length <= limit:
            start = at - length
            while start and not self._draft[start - 1].isspace() and at - start < length + _CONTEXT:
                start -= 1
            tail = self._draft[start:at]
            if not tail.isspace() and self._draft.find(tail) == start:
                return tail
            length *= 2
        return None if length <= limit or at > limit else self._draft[:at]


def _edit(piece: _Piece, original: str, preceding: str | None) -> Edit:
    """An edit with its seven fields, of which `original` and `preceding` are two of the snippets.

    The action mark (another list mark) is given as change.
    """
    intention, says = _SAYS[piece.action]
    unit = "passage" if piece.level == "paragraph" else "sentence"
    return {
        "action_name": "change" if piece.action == "mark" else piece.action,
        "revision_description": says.format(quote=f'"{_quote(piece.old or piece.new)}"', unit=unit),
        "revision_level": piece.level,
        "revision_intention": intention or _intention(piece.old, piece.new),
        "original_snippet": original,
        "revised_snippet": piece.text,
        "preceding_snippet": preceding,
    }


def _quote(text: str) -> str:
    """The beginning of a text for a description, up to _QUOTED characters, with blanks for control characters.

    Zero-width joiners are kept within words and emoji. A text that is cut ends in an ellipsis.
    """
    text = folded(text[: 2 * _QUOTED])
    quote = "".join(sign if sign.isprintable() or _joins(text, at) else " " for at, sign in enumerate(text))
    return quote if len(quote) <= _QUOTED else quote[: _QUOTED - 1].rstrip(" " + _JOINERS) + "…"


def _joins(text: str, at: int) -> bool:
    """Whether the character at `at` is a zero-width joiner in its place.

    That is between two letters or emoji, or after a letter without its vowel (with a virama).
    """
    if text[at] not in _JOINERS or not at:
        return False
    return _is_joined(text[at - 1]) and (_is_joined(text[at + 1 : at + 2]) or combining(text[at - 1]) == _VIRAMA)


def _is_joined(sign: str) -> bool:
    """Whether a character is a letter, a mark on one, or an emoji; False for ""."""
    return bool(sign) and (category(sign)[0] in "LM" or category(sign) in ("So", "Sk"))


def _intention(old: str, new: str) -> str:
    """fluency, clarity or meaning: what an edit that turns `old` into `new` is for.

    fluency: only case, punctuation or the spelling of one or two words differs. clarity: at most three words are
    added, or at most three dropped, none of them a number or a capitalised word (except at the beginning); order is
    ignored. Else, or above _COMPARED_WORDS words in both together, meaning.
    """
    mine, theirs = (re.findall(r"\w+", normalize("NFC", text)) for text in (old, new))
    if len(mine) + len(theirs) > _COMPARED_WORDS:
        return "meaning"
    small, theirs_small = [word.lower() for word in mine], [word.lower() for word in theirs]
    if small == theirs_small or (len(mine) == len(theirs) and _misspelt(small, theirs_small)):
        return "fluency"
    dropped, added = Counter(small) - Counter(theirs_small), Counter(theirs_small) - Counter(small)
    named = {word.lower() for words in (mine, theirs) for word in words[1:] if word[0].isupper() or word[0].isdigit()}
    if (not dropped or not added) and (dropped + added).total() <= 3 and not named & set(dropped + added):
        return "clarity"
    return "meaning"


def _misspelt(mine: list[str], theirs: list[str]) -> bool:
    """Whether at most two words differ, each from one much like it (_SPELLING), both of letters only."""
    others = [(one, other) for one, other in zip(mine, theirs, strict=True) if one != other]
    return len(others) <= 2 and all(
        one.isalpha() and other.isalpha() and SequenceMatcher(None, one, other, False).ratio() >= _SPELLING
        for one, other in others
    )
