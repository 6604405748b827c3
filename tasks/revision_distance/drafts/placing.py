"""Places of the edits in a draft, and the draft with these edits applied.

All edits refer to the original draft, not to the result of other edits. An edit removes `original_snippet` and inserts
`revised_snippet` in its place, or, if `preceding_snippet` is not null, right after these words. The latter adds text
(nothing is removed), moves it, or selects one of repeated snippets (the one right after these words).

Snippets bring their own white space, but models omit blanks: a blank is inserted where an edit would join two words,
and of two blanks around removed words one is kept.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from schemas.replies import ProposedEdit
from tasks.revision_distance.drafts.snippets import Found, How, SearchedDraft, Spans
from tasks.text.words import UNSEEN

NO_PLACE = "it names no place in the draft"
NO_ORIGINAL = "its original_snippet is not in the draft"
NO_PRECEDING = "its preceding_snippet is not in the draft"
OVERLAPS = "it overlaps with an edit before it"
NO_CHANGE = "it changes no word"
REPEATS = "it repeats an edit before it"

_WORST_LAST: tuple[How, ...] = ("exactly", "folded", "nearly")
_BLANK: dict[str, Any] = dict.fromkeys(ProposedEdit.model_fields.keys() - {"revised_snippet"}, "")
_NEAR = 4  # characters on either side of a seam that decide whether it joins words
_ENDS, _CLOSING, _OPENING, _JOINING = ".!?…,;:", "\"'”’»)]", '"“‘«([', "-‐‑'’/_"
_THAI_AND_LAO = ("\u0e01", "\u0edf")
_UNSPACED = (  # scripts without blanks between words: South East Asian, East Asian, their wide and half-wide forms
    ("\u0e00", "\u0fff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u2e80", "\u31ff"),
    ("\u3400", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\uff00", "\uffef"),
    ("\U00020000", "\U0003ffff"),
)


@dataclass(frozen=True, slots=True)
class Placement:
    """An edit with its place in the draft; `start`, `end` and `at` are offsets, all None if it has no place.

    `draft[start:end]` is removed (nothing if they are equal), `revised_snippet` is inserted at `at`. `placed`: how its
    snippets were found ("not" if it has no place). `why_not`: the reason why it is not applied; None if it is.
    """

    edit: ProposedEdit
    start: int | None
    end: int | None
    at: int | None
    placed: How
    why_not: str | None

    @property
    def applied(self) -> bool:
        """Whether the edit is applied: it has a place, changes words, and neither repeats an edit that is applied
        before it nor overlaps with one.
        """
        return self.why_not is None


# ---------------------------------------------------------------- placing


def place(
    draft: str, edits: Iterable[ProposedEdit | Mapping[str, Any]], reference: str | None = None
) -> list[Placement]:
    """A Placement for each edit, in their order.

    An edit is not applied if it has no place, changes no word, repeats an edit that is applied before it, or overlaps
    with one; `why_not` says so. Of equal additions at one place as many are applied as `reference` has room for: it
    holds the added words that often more than the draft. `edits`: as dicts with the fields of ProposedEdit, or as such
    objects.
    """
    searched, applied = SearchedDraft(draft), AppliedEdits()
    before, room = Counter[tuple[int, int, int, str]](), _Room(draft, reference)
    placements = []
    for each in edits:
        edit = each if isinstance(each, ProposedEdit) else ProposedEdit.model_construct(**each)
        found = _find(searched, edit)
        if isinstance(found, str):
            placements.append(Placement(edit, None, None, None, "not", found))
            continue
        (how, start, end), at = found
        identity = (start, end, at, edit.revised_snippet)
        if _changes_nothing(draft, start, end, at, edit.revised_snippet):
            why_not: str | None = NO_CHANGE
        elif before[identity] and (start < end or before[identity] > room.for_more(edit.revised_snippet)):
            why_not = REPEATS
        else:
            searched.take(start, end)
            why_not = None if applied.add(start, end, at) else OVERLAPS
            before[identity] += why_not is None
        placements.append(Placement(edit, start, end, at, how, why_not))
    return placements


def _find(searched: SearchedDraft, edit: ProposedEdit) -> tuple[Found, int] | str:
    """(the span that an edit removes, the offset where it inserts); or the reason why it has no place.

    The span is empty for an edit that only adds text. The reason is NO_PLACE (neither snippet is given, and the draft
    is not empty), NO_ORIGINAL or NO_PRECEDING.
    """
    original, preceding = edit.original_snippet, edit.preceding_snippet
    if preceding is None:
        if not original:
            return NO_PLACE if searched.draft else (Found("exactly", 0, 0), 0)
        found = searched.free(original)
        return (found, found.start) if found else NO_ORIGINAL
    before = searched.first(preceding) if preceding else Found("exactly", 0, 0)
    if before is None:
        return NO_PRECEDING
    if not original:
        return Found(before.how, before.end, before.end), before.end
    return _find_after(searched, before, original)


def _find_after(searched: SearchedDraft, before: Found, original: str) -> tuple[Found, int] | str:
    """(span to remove, offset to insert at) of an edit that gives both snippets; NO_ORIGINAL without a place.

    `before`: the place of the preceding snippet. If `original` is right after it, but for white space, or reaches
    across its end, the insertion is where `original` begins; else it is at the end of the preceding snippet (text is
    moved). The span's `how` is the worse one of both snippets.
    """
    at = before.end
    found = searched.free(original, at=at)
    if found is None:
        return NO_ORIGINAL
    stands = at <= found.start <= searched.after_white_space(at) or found.start < at < found.end
    how = max(before.how, found.how, key=_WORST_LAST.index)
    return found._replace(how=how), found.start if stands else at


def _changes_nothing(draft: str, start: int, end: int, at: int, revised: str) -> bool:
    """Whether an edit leaves the words of the draft as they are, in their order: at most white space differs, and
    characters that are not seen.

    It removes the span from `start` to `end` and inserts `revised` at `at`.
    """
    removed, added = draft[start:end].translate(UNSEEN), revised.translate(UNSEEN)
    if removed.split() != added.split():
        return False
    if start <= at <= end:
        spaced = (removed[:1].isspace(), removed[-1:].isspace()) == (added[:1].isspace(), added[-1:].isspace())
        return spaced or _same_words_around(draft, start, end, at, revised)
    between = draft[end:at] if at > end else draft[at:start]
    return removed.split() + between.split() == between.split() + removed.split()


def _same_words_around(draft: str, start: int, end: int, at: int, revised: str) -> bool:
    """Whether an edit leaves the words as they are, seen from a few characters before it to a few after it."""
    first, last = max(0, start - 2 * _NEAR), end + 2 * _NEAR
    edit, seen = ProposedEdit.model_construct(**_BLANK, revised_snippet=revised), draft[first:last]
    placement = Placement(edit, start - first, end - first, at - first, "exactly", None)
    return apply(seen, [placement]).translate(UNSEEN).split() == seen.translate(UNSEEN).split()


class _Room:
    """How much room a reference has for additions: how much more often it holds words than the draft does."""

    def __init__(self, draft: str, reference: str | None) -> None:
        self._draft, self._reference = draft, reference
        self._found: dict[str, int] = {}

    def for_more(self, added: str) -> int:
        """How often more an addition may stand in the text after the first time; 0 without a reference, or less."""
        if self._reference is None:
            return 0
        if added not in self._found:
            words = " ".join(added.split())
            in_draft, wanted = (" ".join(text.split()).count(words) for text in (self._draft, self._reference))
            self._found[added] = wanted - in_draft - 1
        return self._found[added]


class AppliedEdits:
    """The edits that are applied so far: the spans they remove and the offsets of their insertions."""

    def __init__(self) -> None:
        self._removed = Spans()
        self._insertions: list[int] = []

    def add(self, start: int, end: int, at: int) -> bool:
        """Add an edit that removes the span from `start` to `end` (nothing if equal) and inserts at `at`.

        Returns True. If the edit overlaps with one added before, adds nothing and returns False. An overlap is a
        common removed character, or an insertion strictly inside a removed span; spans may touch.
        """
        if self._removed.around(at):
            return False
        if start < end:
            following = bisect_right(self._insertions, start)
            inside = any(offset < end for offset in self._insertions[following : following + 1])
            if inside or self._removed.overlapped(start, end) is not None:
                return False
            self._removed.add(start, end)
        insort(self._insertions, at)
        return True


# ---------------------------------------------------------------- applying


class Piece(NamedTuple):
    """A piece of the revised text. `inserted`: it comes from an edit, not from the draft.

    `left`, `right`: whether a blank may be put between it and its neighbour on that side. `between`: it stands where
    the draft has a blank, or ends, so that Thai and Lao, whose sentences blanks part, take one. `after_cut`: words were
    removed right before it, so that the white space on both sides of them may meet.
    """

    text: str
    inserted: bool = False
    left: bool = True
    right: bool = True
    between: bool = False
    after_cut: bool = False


def apply(draft: str, placements: Sequence[Placement]) -> str:
    """The draft with all applied edits; the draft itself if none is.

    Insertions at one offset come in the order of their edits, before the text of the draft that begins there. A blank
    is added where an edit would join two words, or two sentences of Thai or Lao; where removed words leave white space
    on both sides, that of one side is kept.
    """
    written: list[str] = []
    before = Piece("")
    for piece in _pieces(draft, placements):
        text = _with_one_white_space(written, piece.text) if piece.after_cut else piece.text
        may_part = (before.inserted or piece.inserted) and before.right and piece.left
        joins = _joins_words(_tail(written), text) or (
            (before.between or piece.between) and _joins_thai_or_lao(_tail(written), text)
        )
        if may_part and joins:
            written.append(" ")
        if text:
            written.append(text)
            before = piece
    return "".join(written)


def _pieces(draft: str, placements: Sequence[Placement]) -> Iterator[Piece]:
    """The pieces of the revised text in order; the last one, which may be empty, is of the draft."""
    at, after_cut = 0, False
    for position, removes, _, placement in sorted(_steps(placements), key=lambda step: step[:3]):
        if at < position:
            yield Piece(draft[at:position], after_cut=after_cut)
            at, after_cut = position, False
        if not removes:
            yield _insertion(draft, placement, after_cut)
            after_cut = False
        elif placement.end is not None:
            leaves_a_gap = not placement.edit.revised_snippet or placement.at != placement.start
            removed = draft[at : placement.end]
            after_cut = after_cut or (leaves_a_gap and removed == removed.strip())
            at = placement.end
    yield Piece(draft[at:], after_cut=after_cut)


def _steps(placements: Sequence[Placement]) -> Iterator[tuple[int, bool, int, Placement]]:
    """(offset, whether text is removed there, position of the edit, its placement), for each step of applied edits.

    An edit is one step if it only inserts or only removes, else two. Sorted, insertions at an offset come before
    removals.
    """
    for order, each in enumerate(placements):
        if not each.applied or each.start is None or each.end is None or each.at is None:
            continue
        if each.edit.revised_snippet:
            yield each.at, False, order, each
        if each.start < each.end:
            yield each.start, True, order, each


def _insertion(draft: str, placement: Placement, after_cut: bool) -> Piece:
    """The Piece that an applied edit inserts. `after_cut`: as in Piece.

    No blank may be put at a side of it where the draft or the edit joins words on purpose.
    """
    text, at = placement.edit.revised_snippet, placement.at or 0
    start, end = placement.start or 0, placement.end or 0
    before, between = draft[max(0, at - _NEAR) : at], False
    if start == at < end:
        taken, after = draft[start:end], draft[end : end + _NEAR]
        left, right = (
            _may_have_blank(before, taken[:_NEAR], taken[0]),
            _may_have_blank(taken[-_NEAR:], after, taken[-1]),
        )
    else:
        left = right = not _joins_words(before, draft[at : at + _NEAR])
        between = not before[-1:].strip() or not draft[at : at + 1].strip()
    return Piece(text, inserted=True, left=left, right=right, between=between, after_cut=after_cut)


def _may_have_blank(before: str, after: str, edge: str) -> bool:
    """Whether a blank may be put at one end of a text that replaces words of the draft.

    `edge`: the replaced character at this end; `before`, `after`: the draft's text on the two sides of this end. No if
    `edge` is white space or a sign that joins words, or if the draft joins words there.
    """
    return not (edge.isspace() or edge in _JOINING or _joins_words(before, after))


def _joins_words(before: str, after: str) -> bool:
    """Whether `before` ends with a word and `after` goes on with one, or with a letter after a sign like `.` or `,`.

    Quotes and brackets between them are ignored; a blank between them means no. Only for words of scripts that are
    written with blanks.
    """
    last = (before.rstrip(_CLOSING) or before)[-1:]
    first = (after.lstrip(_OPENING) or after)[:1]
    return bool(last) and _is_spaced(first) and (_is_spaced(last) or (last in _ENDS and first.isalpha()))


def _joins_thai_or_lao(before: str, after: str) -> bool:
    """Whether `before` ends with a word and `after` begins with one, of which one is Thai or Lao."""
    last, first = (before.rstrip(_CLOSING) or before)[-1:], (after.lstrip(_OPENING) or after)[:1]
    ours = [low <= each <= high for each in (last, first) for low, high in [_THAI_AND_LAO]]
    return any(ours) and all(own or each.isalnum() for own, each in zip(ours, (last, first), strict=True))


def _is_spaced(character: str) -> bool:
    """Whether a character is a letter or a digit of a script that is written with blanks between words."""
    return character.isalnum() and not any(low <= character <= high for low, high in _UNSPACED)


def _tail(written: list[str]) -> str:
    """At most the last four characters of the text that `written` is in pieces."""
    return "".join([*islice(filter(None, reversed(written)), _NEAR)][::-1])[-_NEAR:]


def _with_one_white_space(written: list[str], text: str) -> str:
    """The text to append to `written` after a removal, so that white space of only one side of it remains.

    That is the one with more line breaks (see `_kept_white_space`). May change the end of `written`. At the beginning
    and the end of the revised text no white space remains.
    """
    right = text[: len(text) - len(text.lstrip())]
    if not any(written):
        return text[len(right) :]
    if text and not right:
        return text
    left = _cut_white_space(written)
    written.append(_kept_white_space(left, right) if left and text else "")
    return text[len(right) :] if left or not text else text


def _kept_white_space(left: str, right: str) -> str:
    """Of two runs of white space the one with more line breaks, `right` if they have as many.

    In either case with the indentation of `right`. If `right` has no line break, `left`.
    """
    if "\n" not in right:
        return left
    if left.count("\n") > right.count("\n"):
        return left[: left.rindex("\n") + 1] + right[right.rindex("\n") + 1 :]
    return right


def _cut_white_space(written: list[str]) -> str:
    """Remove the white space at the end of the text that `written` is in pieces, in place; return it."""
    cut = ""
    while written:
        last = written.pop()
        stripped = last.rstrip()
        cut = last[len(stripped) :] + cut
        if stripped:
            written.append(stripped)
            break
    return cut
