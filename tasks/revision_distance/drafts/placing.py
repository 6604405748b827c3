"""Where the edits of a draft are, and what the draft is with these edits applied.

All edits refer to the draft as it is, none to what others make of it. An edit takes `original_snippet` away and puts
`revised_snippet` there; where `preceding_snippet` is not null, it puts it right behind these words, which adds text
(nothing is taken away), moves it, or tells repeated words apart (they stand right behind).

White space is the snippets' own. But models leave blanks out: where words would grow together that no snippet brought
together, a blank comes between, and where words are taken out between two blanks, one blank is left.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.replies import ProposedEdit
from tasks.revision_distance.drafts.snippets import Found, How, Searched, Spans

NO_PLACE = "it names no place in the draft"
NO_ORIGINAL = "its original_snippet is not in the draft"
NO_PRECEDING = "its preceding_snippet is not in the draft"
OVERLAPS = "it overlaps with an edit before it"

_WORST_LAST: tuple[How, ...] = ("exactly", "folded", "nearly")
_NEAR = 4  # signs on either side of a seam that say whether words grow together
_ENDS, _CLOSING, _OPENING, _JOINING = ".!?…,;:", "\"'”’»)]", '"“‘«([', "-‐‑'’/_"
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
    """An edit, and where it is: offsets into the draft, all null where it is not placed.

    `draft[start:end]` is taken away (nothing where they are equal), `revised_snippet` goes to `at`. `why_not` is null
    where it is applied.
    """

    edit: ProposedEdit
    start: int | None
    end: int | None
    at: int | None
    placed: How
    applied: bool
    why_not: str | None


class Place(NamedTuple):
    how: How
    start: int
    end: int
    at: int


# ---------------------------------------------------------------- placing


def place(draft: str, edits: Iterable[ProposedEdit | Mapping[str, Any]]) -> list[Placement]:
    """All edits, in their order, each with its place and whether it is applied."""
    searched, applied = Searched(draft), Applied()
    placements = []
    for given in edits:
        edit = given if isinstance(given, ProposedEdit) else ProposedEdit.model_construct(**given)
        found = _find(searched, edit)
        if isinstance(found, str):
            placements.append(Placement(edit, None, None, None, "not", applied=False, why_not=found))
            continue
        searched.take(found.start, found.end)
        fits = applied.add(found)
        why_not = None if fits else OVERLAPS
        placements.append(Placement(edit, found.start, found.end, found.at, found.how, applied=fits, why_not=why_not))
    return placements


def _find(searched: Searched, edit: ProposedEdit) -> Place | str:
    """Its place, or why it has none."""
    original, preceding = edit.original_snippet, edit.preceding_snippet
    if preceding is None:
        if not original:
            return NO_PLACE if searched.draft else Place("exactly", 0, 0, 0)
        found = searched.free(original)
        return Place(*found, at=found.start) if found else NO_ORIGINAL
    before = searched.first(preceding) if preceding else Found("exactly", 0, 0)
    if before is None:
        return NO_PRECEDING
    if not original:
        return Place(before.how, before.end, before.end, before.end)
    return _find_behind(searched, before, original)


def _find_behind(searched: Searched, before: Found, original: str) -> Place | str:
    """Words that stand right behind others, else words that move there."""
    at = before.end
    found = searched.free(original, at=at)
    if found is None:
        return NO_ORIGINAL
    stands = at <= found.start <= searched.after_white_space(at) or found.start < at < found.end
    how = max(before.how, found.how, key=_WORST_LAST.index)
    return Place(how, found.start, found.end, at=found.start if stands else at)


class Applied:
    """What is taken away and put in by the edits that are applied so far."""

    def __init__(self) -> None:
        self._taken = Spans()
        self._puts: list[int] = []

    def add(self, place: Place) -> bool:
        """Apply one more edit, unless one before is in its way."""
        if not self._fits(place):
            return False
        if place.start < place.end:
            self._taken.add(place.start, place.end)
        insort(self._puts, place.at)
        return True

    def _fits(self, place: Place) -> bool:
        if self._taken.around(place.at):
            return False
        if place.start == place.end:
            return True
        put = bisect_right(self._puts, place.start)
        free = self._taken.overlapped(place.start, place.end) is None
        return free and not (put < len(self._puts) and self._puts[put] < place.end)


# ---------------------------------------------------------------- applying


class Piece(NamedTuple):
    """A piece of the revised text. `put`: of an edit, not of the draft.

    `left`, `right`: whether a blank may come between it and its neighbour. `mends`: right before it words were taken
    out that had a blank on either side.
    """

    text: str
    put: bool = False
    left: bool = True
    right: bool = True
    mends: bool = False


def apply(draft: str, placements: Sequence[Placement]) -> str:
    """The draft with all applied edits; with none, the draft.

    What several edits put in one place comes in their order, and before the text of the draft that begins there.
    """
    written: list[str] = []
    before = Piece("")
    for piece in _pieces(draft, placements):
        text = _one_gap(written, piece.text) if piece.mends else piece.text
        if (before.put or piece.put) and before.right and piece.left and _grow_together(_tail(written), text):
            written.append(" ")
        if text:
            written.append(text)
            before = piece
    return "".join(written)


def _pieces(draft: str, placements: Sequence[Placement]) -> Iterator[Piece]:
    """Of the revised text, in order; the last one, which may be empty, is of the draft."""
    at, mends = 0, False
    for position, cuts, _, placement in sorted(_steps(placements), key=lambda step: step[:3]):
        if at < position:
            yield Piece(draft[at:position], mends=mends)
            at, mends = position, False
        if not cuts:
            yield _put(draft, placement, mends)
            mends = False
        elif placement.end is not None:
            mends = mends or (_leaves_a_gap(placement) and not _has_blanks(draft[at : placement.end]))
            at = placement.end
    yield Piece(draft[at:], mends=mends)


def _steps(placements: Sequence[Placement]) -> Iterator[tuple[int, bool, int, Placement]]:
    """(where, whether something is taken away there, order, the edit); what is put somewhere comes first."""
    for order, each in enumerate(placements):
        if not each.applied or each.start is None or each.end is None or each.at is None:
            continue
        if each.edit.revised_snippet:
            yield each.at, False, order, each
        if each.start < each.end:
            yield each.start, True, order, each


def _leaves_a_gap(placement: Placement) -> bool:
    """Whether nothing takes the place of what is taken away."""
    return not placement.edit.revised_snippet or placement.at != placement.start


def _has_blanks(text: str) -> bool:
    return text[0].isspace() or text[-1].isspace()


def _put(draft: str, placement: Placement, mends: bool) -> Piece:
    """What an edit puts in; the sides are closed where it, or the draft, has words grow together there on purpose."""
    text, at = placement.edit.revised_snippet, placement.at or 0
    start, end = placement.start or 0, placement.end or 0
    before = draft[max(0, at - _NEAR) : at]
    if start == at < end:
        taken, after = draft[start:end], draft[end : end + _NEAR]
        left, right = _may_open(before, taken[:_NEAR], taken[0]), _may_open(taken[-_NEAR:], after, taken[-1])
    else:
        left = right = not _grow_together(before, draft[at : at + _NEAR])
    return Piece(text, put=True, left=left, right=right, mends=mends)


def _may_open(before: str, after: str, edge: str) -> bool:
    """Whether a side of what is replaced, which ends with `edge`, neither has a blank nor joins words."""
    return not (edge.isspace() or edge in _JOINING or _grow_together(before, after))


def _grow_together(before: str, after: str) -> bool:
    """Whether a word, or the end of a sentence, is directly followed by a word, in a script that has blanks."""
    last = (before.rstrip(_CLOSING) or before)[-1:]
    first = (after.lstrip(_OPENING) or after)[:1]
    return bool(last) and _is_spaced(first) and (_is_spaced(last) or (last in _ENDS and first.isalpha()))


def _is_spaced(sign: str) -> bool:
    return sign.isalnum() and not any(low <= sign <= high for low, high in _UNSPACED)


def _tail(written: list[str]) -> str:
    """The last signs that were written."""
    tail = ""
    for piece in reversed(written):
        tail = piece[-_NEAR:] + tail
        if len(tail) >= _NEAR:
            break
    return tail[-_NEAR:]


def _one_gap(written: list[str], text: str) -> str:
    """Of the white space that ends what is written and that which begins the text, one is left: paragraphs stay.

    At the beginning and at the end of the text none is left.
    """
    right = text[: len(text) - len(text.lstrip())]
    if not any(written):
        return text[len(right) :]
    if text and not right:
        return text
    left = _cut_white_space(written)
    written.append(_kept_gap(left, right) if left and text else "")
    return text[len(right) :] if left or not text else text


def _kept_gap(left: str, right: str) -> str:
    """The one with more line breaks; the blanks before the first word of a line are those of the right one."""
    if "\n" not in right:
        return left
    if left.count("\n") > right.count("\n"):
        return left[: left.rindex("\n") + 1] + right[right.rindex("\n") + 1 :]
    return right


def _cut_white_space(written: list[str]) -> str:
    """Cut it from the end of what is written."""
    cut = ""
    while written:
        last = written.pop()
        stripped = last.rstrip()
        cut = last[len(stripped) :] + cut
        if stripped:
            written.append(stripped)
            break
    return cut
