"""How far to trust a list of edits, and the distance when it is corrected for what the list does wrong.

The paper counts the edits that are listed. So an editor that replaces the whole draft by one edit finds a distance of
1, one that lists nothing 0, and one that lists a thousand edits without effect 1,000. The corrected distance is

    the edits that are applied (none without effect, none twice; one that has no place or is in another's way is none)
    — one of several sentences, or of more than `LARGEST_ADDITION` of a text, as many as an alignment needs for what it
      puts in the place of what; and all together at least as many as the alignment needs for what they bring about, if
      such ones replace more than `LARGEST_SHARE` of the draft —
    and the edits that the alignment still needs from the revised draft to the reference (the residual).

An edit of the alignment may add a whole passage; of all that they add, each sentence beyond `LARGEST_ADDITION` of the
text counts as one more. Else an empty draft, which one addition makes its reference, were nearer to it than a draft
with two mistakes. The alignment is that of tasks/text/revision_edits.py, a lexical baseline, which sees no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.metrics.ter import ter
from tasks.revision_distance.drafts.placing import NO_CHANGE, REPEATS, Placement
from tasks.text.edit_sentences import sentences
from tasks.text.revision_edits import Edit, revise
from tasks.text.words import word_pattern

LARGEST_SHARE = 0.1
LARGEST_ADDITION = 0.25
NEARLY_ALL, MOST = 0.9, 0.5
ALIGNED_CHARACTERS = 240_000
PER_WORDS = 100
NO_REFERENCE = "no reference"
NOT_ASKED_FOR = "not asked for"

_ADDING = ("add", "rewrite", "move and change")
_OF_ALIGNMENT = ("aligned", "wholesale", "silent", "residual", "valid", "coverage", "corrected", "normalised")


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a list of edits is worth.

    `useful`: edits that are applied. `aligned`: edits that the alignment needs from the untouched draft. `no_ops`:
    edits that change no word; `duplicates`: edits that repeat one before them. `wholesale`: the alignment needs more
    edits for what they bring about, and one of them replaces nearly all of the draft, or they replace most of it and
    the alignment needs more than twice as many. `silent`: nothing useful is listed, although draft and reference differ
    in words, or there is no reference. `residual`: edits that the alignment still needs to the reference; `valid`: it
    is 0, the edits give the words of the reference; `coverage`: the share of the alignment's edits of the untouched
    draft that need not be made any more, 0 to 1. These three, and `aligned`, are None without a reference.
    `corrected`: see above; `normalised`: per PER_WORDS words of the reference, else of the draft, of scripts without
    blanks between words per as many characters. All of these are None where the texts are too long to align. `ter`,
    `ter_left_out`: TER of the draft, or why there is none.
    """

    useful: int
    aligned: int | None
    no_ops: int
    duplicates: int
    wholesale: bool | None
    silent: bool | None
    residual: int | None
    valid: bool | None
    coverage: float | None
    corrected: int | None
    normalised: float | None
    ter: float | None
    ter_left_out: str | None


def corrected(
    draft: str,
    reference: str | None,
    placements: Sequence[Placement],
    revised: str,
    *,
    lost_edits: int = 0,
    with_ter: bool = True,
) -> Corrected:
    """The worth of edits that are placed in a draft. `revised`: the draft with those applied that can be.

    `lost_edits`: edits of the list that could not be read. With a reference the residual holds what they, and those
    without a place, would have done; without one they count as edits. `with_ter`: else TER is not computed.
    """
    useful = sum(each.applied for each in placements)
    no_ops, duplicates = (sum(each.why_not == reason for each in placements) for reason in (NO_CHANGE, REPEATS))
    score, why_not = _ter(draft, reference, with_ter)
    counts: dict[str, Any] = {"useful": useful, "no_ops": no_ops, "duplicates": duplicates}
    if len(draft) + max(len(reference or ""), len(revised)) > ALIGNED_CHARACTERS:
        nothing: dict[str, Any] = dict.fromkeys(_OF_ALIGNMENT)
        return Corrected(**counts, **nothing, ter=score, ter_left_out=why_not)
    shares = _shares(draft, reference, placements)
    large = _large(shares, placements)
    aligned = revise(draft, revised) if sum(share for share, _ in large) > LARGEST_SHARE else []
    inside = sum(_inside(draft, each) - 1 for _, each in large)
    done = max(useful + inside, _count(aligned, revised))
    residual = before = coverage = None
    if reference is not None:
        before = needed(draft, reference)
        residual = before if revised == draft else needed(revised, reference)
        coverage = max(0.0, 1 - residual / before) if residual and before else float(not residual)
    unmade = lost_edits + len(placements) - useful - no_ops - duplicates
    total = done + (unmade if residual is None else residual)
    return Corrected(
        **counts,
        aligned=before,
        wholesale=len(aligned) > useful and _replaces_most(shares, twice=len(aligned) > 2 * useful),
        silent=useful == 0 and residual != 0,
        residual=residual,
        valid=None if residual is None else residual == 0,
        coverage=coverage,
        corrected=total,
        normalised=per_words(total, draft if reference is None else reference),
        ter=score,
        ter_left_out=why_not,
    )


def needed(draft: str, reference: str) -> int:
    """How many edits the alignment needs from one text to another, and of what they add one more for each sentence
    beyond LARGEST_ADDITION of the reference's sentences; 0 if both have the same words.
    """
    return 0 if draft == reference else _count(revise(draft, reference), reference)


def _count(edits: Sequence[Edit], reference: str) -> int:
    """The number of these edits of the alignment to the reference, counted as in `needed`; passages that are removed
    where others come count with the sentences that come.
    """
    added = [len(sentences(str(each["revised_snippet"]))) for each in edits if each["action_name"] in _ADDING]
    if sum(added) == len(added):
        return len(edits)
    passing = max(len(added), int(LARGEST_ADDITION * len(sentences(reference))))
    removed = sum(each["action_name"] == "remove" for each in edits)
    replaced = min(removed, sum(number > 1 for number in added))
    return len(edits) + max(0, sum(added) - passing - replaced)


def _shares(draft: str, reference: str | None, placements: Sequence[Placement]) -> list[float]:
    """The share of the draft that each applied edit replaces: what it removes, by the characters of the draft, or what
    it adds, by those of the reference (without one of the draft), whichever is more.
    """
    before = max(1, len(draft))
    after = before if reference is None else max(1, len(reference))
    return [
        max(((each.end or 0) - (each.start or 0)) / before, len(each.edit.revised_snippet) / after)
        for each in placements
        if each.applied
    ]


def _large(shares: Sequence[float], placements: Sequence[Placement]) -> list[tuple[float, Placement]]:
    """(share, edit) of the applied edits of several sentences, or of more than LARGEST_ADDITION of a text."""
    return [
        (share, each)
        for share, each in zip(shares, (each for each in placements if each.applied), strict=True)
        if share > LARGEST_ADDITION
        or any(len(sentences(text)) > 1 for text in (each.edit.original_snippet, each.edit.revised_snippet))
    ]


def _inside(draft: str, placement: Placement) -> int:
    """How many edits the alignment needs for what one edit puts in the place of what; 1 at least."""
    removed, put = draft[placement.start or 0 : placement.end or 0], placement.edit.revised_snippet
    return max(1, len(revise(removed, put))) if removed and put else 1


def _replaces_most(shares: Sequence[float], *, twice: bool) -> bool:
    """Whether one edit replaces NEARLY_ALL of the draft or, with `twice`, all together MOST of it."""
    return max(shares, default=0.0) > NEARLY_ALL or (twice and sum(shares) > MOST)


def per_words(number: int, text: str) -> float:
    """A number per PER_WORDS words of a text, which counts as having one word at least."""
    return PER_WORDS * number / max(1, len(word_pattern().findall(text)))


def _ter(draft: str, reference: str | None, wanted: bool) -> tuple[float | None, str | None]:
    """(TER of the draft, None), or (None, why there is none)."""
    if reference is None:
        return None, NO_REFERENCE
    if not wanted:
        return None, NOT_ASKED_FOR
    score, why_not = ter(draft, reference)
    return score, why_not
