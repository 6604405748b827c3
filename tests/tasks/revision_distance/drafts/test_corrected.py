"""The corrected distance: what hostile lists of edits cannot do to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.revision_distance.drafts.corrected import needed
from tasks.revision_distance.drafts.measure import WEIGHTS, Revision, measure
from tasks.text.revision_edits import revise

FIRST = ["Tea is old.", "Kettles whistle loudly.", "Cups come in sizes.", "Spoons are bent.", "Milk is cold today."]
OTHER = ["Nobody knows the town.", "Harbours are far away.", "Ships sail at dawn.", "Fog hides it.", "Bells ring out."]
DRAFT = " ".join([*FIRST, *(f"Line {n} stays as it is in both." for n in range(8))])
REFERENCE = " ".join([*OTHER, *(f"Line {n} stays as it is in both." for n in range(8))])
HALF = len(DRAFT) // 2
HONEST = [
    {
        "action_name": "rewrite", "revision_description": "", "revision_level": "sentence",
        "revision_intention": "meaning", "original_snippet": one, "revised_snippet": other, "preceding_snippet": None,
    }
    for one, other in zip(FIRST, OTHER, strict=True)
]  # fmt: skip


def edit(original: str, revised: str, preceding: str | None = None) -> dict[str, Any]:
    return {**HONEST[0], "original_snippet": original, "revised_snippet": revised, "preceding_snippet": preceding}


def found(edits: list[dict[str, Any]], draft: str = DRAFT, reference: str | None = REFERENCE) -> Revision:
    return measure(draft, reference, edits, WEIGHTS)


NO_OPS = [edit("Tea is old.", "Tea is old."), edit("Tea  is", "Tea is"), edit("", " ", "Tea is old.")]
HOSTILE: dict[str, list[dict[str, Any]]] = {
    "replace all": [edit(DRAFT, REFERENCE)],
    "replace all in halves": [edit(DRAFT[:HALF], REFERENCE[:HALF]), edit(DRAFT[HALF:], REFERENCE[HALF:])],
    "remove all and add all": [edit(DRAFT, ""), edit("", REFERENCE, "")],
    "replace the part that differs": [edit(" ".join(FIRST), " ".join(OTHER))],
    "one edit": HONEST[:1],
    "nothing": [],
    "no-ops": NO_OPS,
    "a thousand no-ops": NO_OPS[:1] * 1_000,
    "duplicates": HONEST[:1] * 50,
    "white space": [edit("Tea is old. Kettles", "Tea is old.\n\nKettles")],
    "no place": [edit("no such words anywhere in it", "x")] * 20,
    "there and back": [edit(FIRST[0], FIRST[0], FIRST[1]), edit(FIRST[1], FIRST[1], "")],
    "undone": [edit("", "A new one.", FIRST[0]), edit("A new one.", "")],
    "overlapping": [edit(" ".join(pair), " ".join(pair)[:-1]) for pair in pairwise(FIRST)],
    "letter by letter": [edit(letter, letter + letter) for letter in "Tea is old. Kettles" if letter.strip()],
}


def test_the_honest_list_is_worth_what_it_says() -> None:
    numbers = found(HONEST).numbers
    assert (numbers.corrected, numbers.residual, numbers.valid, numbers.coverage) == (5, 0, True, 1.0)
    assert (numbers.no_ops, numbers.duplicates, numbers.silent, numbers.wholesale) == (0, 0, False, False)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_list_is_nearer_than_the_alignment(name: str) -> None:
    numbers = found(HOSTILE[name]).numbers
    assert numbers.corrected is not None
    assert numbers.corrected >= min(needed(DRAFT, REFERENCE), found(HONEST).numbers.corrected or 0)


def test_what_each_hostile_list_does_is_said() -> None:
    assert found(HOSTILE["replace all"]).numbers.valid
    for name in ("nothing", "no-ops", "a thousand no-ops", "white space", "no place"):
        numbers = found(HOSTILE[name]).numbers
        assert (numbers.silent, numbers.valid, numbers.coverage) == (True, False, 0.0), name
    assert found(HOSTILE["a thousand no-ops"]).numbers.no_ops == 1_000
    assert found(HOSTILE["a thousand no-ops"]).distance == 1_000
    assert found(HOSTILE["duplicates"]).numbers.duplicates == 49


def test_a_whole_text_replaced_counts_as_the_alignment_does() -> None:
    long = " ".join(f"Sentence {n} is here, and nowhere else." for n in range(30))
    moved = " ".join(f"Sentence {n} is here, and nowhere else." for n in (*range(5, 30, 2), *range(0, 30, 2)))
    for edits in ([edit(long, moved)], [edit(long, ""), edit("", moved, "")]):
        numbers = found(edits, long, moved).numbers
        assert numbers.wholesale
        assert numbers.corrected == needed(long, moved) > 2


def test_equal_texts_are_at_no_distance_and_an_empty_draft_is_a_draft() -> None:
    numbers = found([], DRAFT, DRAFT).numbers
    assert (numbers.corrected, numbers.valid, numbers.coverage, numbers.silent) == (0, True, 1.0, False)
    empty = found([], "", REFERENCE).numbers
    assert empty.silent
    assert empty.corrected == empty.residual == needed("", REFERENCE) > 0
    filled = found([edit("", REFERENCE)], "", REFERENCE).numbers
    assert (filled.valid, filled.corrected) == (True, needed("", REFERENCE))


def test_without_a_reference_what_needs_one_is_null() -> None:
    numbers = measure(DRAFT, None, [*HONEST, *NO_OPS], WEIGHTS, lost_edits=2).numbers
    assert (numbers.valid, numbers.residual, numbers.coverage, numbers.silent) == (None, None, None, False)
    assert (numbers.corrected, numbers.no_ops) == (5 + 2, 3)
    assert numbers.ter_left_out == "no reference"


@pytest.mark.parametrize("edits", [[], NO_OPS, HOSTILE["no place"]], ids=["nothing", "no-ops", "no place"])
def test_without_a_reference_a_list_without_effect_is_silent_and_edits_without_a_place_count(
    edits: list[dict[str, Any]],
) -> None:
    numbers = found(edits, reference=None).numbers
    assert numbers.silent
    assert numbers.corrected == sum(each["original_snippet"].startswith("no such") for each in edits)


TWENTY = [f"Sentence {n} says what lamp number {n} is for." for n in range(20)]
TYPOS = " ".join(each.replace("lamp", "lmap") if n in (3, 11) else each for n, each in enumerate(TWENTY))
LACKING = {
    "empty": "",
    "refused": "I am sorry, but I cannot help with that.",
    "cut after a sentence": TWENTY[0],
    "cut in the middle": " ".join(TWENTY[:10]),
    "something else": " ".join(OTHER),
    "empty, in paragraphs": "",
}


@pytest.mark.parametrize("name", LACKING)
def test_a_draft_that_lacks_most_of_its_reference_is_farther_than_one_with_two_mistakes(name: str) -> None:
    """Whoever lists the edits: the alignment, or a model that adds what is missing by one edit."""
    reference = ("\n\n" if "paragraphs" in name else " ").join(TWENTY)
    draft = LACKING[name]
    missing = (20 if "cut" not in name else 20 - draft.count(".")) - 4  # a quarter passes as one passage
    by_alignment = found([dict(each) for each in revise(draft, reference)], draft, reference).numbers
    assert by_alignment.corrected is not None
    assert by_alignment.corrected >= missing
    assert (by_alignment.valid, by_alignment.wholesale, by_alignment.silent) == (True, False, False)
    at_once = found([edit(draft, reference)], draft, reference).numbers
    assert at_once.corrected is not None
    assert at_once.corrected >= missing
    nearly = found([dict(each) for each in revise(TYPOS, " ".join(TWENTY))], TYPOS, " ".join(TWENTY)).numbers
    assert nearly.corrected == 2


@pytest.mark.parametrize("number", [2, 3, 5])
def test_sentences_rewritten_one_by_one_count_as_many_also_if_they_are_all_of_the_text(number: int) -> None:
    honest = [edit(one, other) for one, other in zip(FIRST[:number], OTHER, strict=False)]
    numbers = found(honest, " ".join(FIRST[:number]), " ".join(OTHER[:number])).numbers
    assert (numbers.corrected, numbers.valid, numbers.wholesale) == (number, True, False)


def test_one_edit_over_neighbours_counts_as_the_alignment_does() -> None:
    reworded = [each.replace("says what", "tells which").replace("is for", "shines") for each in TWENTY[4:8]]
    draft = " ".join([*TWENTY[:4], *reworded, *TWENTY[8:]])
    numbers = found([edit(" ".join(reworded), " ".join(TWENTY[4:8]))], draft, " ".join(TWENTY)).numbers
    assert (numbers.valid, numbers.wholesale) == (True, False)
    assert numbers.corrected == needed(draft, " ".join(TWENTY)) >= 4


def test_equal_additions_that_the_reference_has_are_no_duplicates() -> None:
    twice = found([edit("", "Ha.", "One."), edit("", "Ha.", "One.")], "One. Two.", "One. Ha. Ha. Two.")
    assert (twice.numbers.duplicates, twice.numbers.valid) == (0, True)
    once = found([edit("", "Ha.", "One."), edit("", "Ha.", "One.")], "One. Two.", "One. Ha. Two.")
    assert (once.numbers.duplicates, once.numbers.valid) == (1, True)


WORDS = st.sampled_from(["tea", "milk", "the", "a", "is", "hot", "cup", "2014", "茶", "很好", "ชา"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
TEXT = st.lists(SENTENCE, max_size=7).map(" ".join)
SNIPPET = st.one_of(st.just(""), WORDS, SENTENCE, st.text(max_size=4))
EDIT = st.builds(edit, SNIPPET, SNIPPET, st.none() | SNIPPET)


@settings(deadline=None)
@given(TEXT, TEXT, st.lists(EDIT, max_size=6))
def test_what_is_left_is_always_counted(draft: str, reference: str, edits: list[dict[str, Any]]) -> None:
    revision = measure(draft, reference, edits, WEIGHTS)
    numbers = revision.numbers
    assert numbers.residual == needed(revision.revised, reference) >= len(revise(revision.revised, reference))
    assert numbers.corrected is not None
    assert numbers.corrected >= numbers.residual + numbers.useful
    assert numbers.useful + numbers.no_ops + numbers.duplicates <= revision.distance
    assert numbers.coverage is not None
    assert 0 <= numbers.coverage <= 1
    assert numbers.valid == (numbers.residual == 0)


@settings(deadline=None)
@given(TEXT, TEXT, st.data())
def test_junk_changes_nothing(draft: str, reference: str, data: st.DataObject) -> None:
    """Edits without effect, twice or without place, before and after an honest list."""
    honest = [dict(each) for each in revise(draft, reference)]
    words = [draft, *draft.split()]
    same = data.draw(st.lists(st.sampled_from(words), max_size=4))
    junk = [edit(word, f" {word} ".strip()) for word in same if word] + [edit("zz zz zz zz zz", "q")]
    at = data.draw(st.integers(0, len(junk)))
    spoiled = [*junk[:at], *honest, *junk[at:], *(each for each in honest if each["original_snippet"])]
    clean, dirty = (
        measure(draft, reference, honest, WEIGHTS).numbers,
        measure(draft, reference, spoiled, WEIGHTS).numbers,
    )
    assert clean.corrected is not None
    assert dirty.corrected is not None
    assert dirty.corrected >= clean.corrected
    assert dirty.no_ops >= sum(bool(word) for word in same)


def test_one_edit_over_several_sentences_counts_as_the_alignment_inside_it_whatever_its_share() -> None:
    kept = [f"Sentence number {at} tells of the harbour and its {at} boats." for at in range(40)]
    old = ["Tea is grown on hills.", "Cups are round.", "Milk comes last.", "Sugar is sweet."]
    new = ["Tea is grown in vales.", "Cups are square.", "Milk comes first.", "Sugar is brown."]
    draft, reference = " ".join([*kept, *old]), " ".join([*kept, *new])
    told = {"action_name": "rewrite", "revision_description": "", "revision_level": "paragraph"}
    one = {**told, "revision_intention": "meaning", "original_snippet": " ".join(old), "revised_snippet": " ".join(new)}
    found = measure(draft, reference, [{**one, "preceding_snippet": None}], WEIGHTS).numbers
    assert (found.corrected, found.aligned, found.residual) == (4, 4, 0)


@pytest.mark.parametrize("put", ["old\u200b", "o\u00adld", "old\ufe0f", "\u2060old"])
def test_characters_that_are_not_seen_are_no_edit(put: str) -> None:
    told = {"action_name": "change", "revision_description": "", "revision_level": "word"}
    edit = {**told, "revision_intention": "other", "original_snippet": "old", "revised_snippet": put}
    edit |= {"preceding_snippet": None}
    found = measure("Tea is old. Cups are round.", None, [edit], WEIGHTS).numbers
    assert (found.no_ops, found.silent, found.corrected) == (1, True, 0)
