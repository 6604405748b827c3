"""Edits that are planted in texts of eleven languages are found: as many, each of its kind, at its place."""

import random
from itertools import pairwise

import pytest
from planting import CODE, KINDS, LANGUAGES, Planted, merged, plant, text

from schemas.replies import ProposedEdit
from tasks.revision_distance.drafts.placing import apply, place
from tasks.text.revision_edits import Edit, revise
from tasks.text.words import folded

LANGUAGE_NAMES = list(LANGUAGES)


def reproduces(draft: str, reference: str, edits: list[Edit]) -> bool:
    placements = place(draft, [ProposedEdit.model_validate(edit) for edit in edits])
    return all(each.applied for each in placements) and folded(apply(draft, placements)) == folded(reference)


def fits(edit: Edit, planted: Planted) -> bool:
    """Whether an edit is of the planted kind, and its snippets hold the words that go and come."""
    return (
        edit["action_name"] == planted.kind
        and planted.old in str(edit["original_snippet"])
        and planted.new in str(edit["revised_snippet"])
    )


def check(draft: str, reference: str, planted: list[Planted]) -> None:
    edits = revise(draft, reference)
    assert reproduces(draft, reference, edits)
    left = list(planted)
    for edit in edits:
        found = next((each for each in left if fits(edit, each)), None)
        assert found, (edit, left)
        left.remove(found)
    assert left == []


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_edit_is_found(name: str, kind: str) -> None:
    for seed in range(12):
        check(*plant(LANGUAGES[name], [kind], random.Random(f"{name} {kind} {seed}")))


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_several_planted_edits_are_found(name: str, number: int) -> None:
    for seed in range(20):
        pick = random.Random(f"{name} {number} {seed}")
        kinds = pick.sample(KINDS, number)
        check(*plant(LANGUAGES[name], kinds, pick))


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_block_that_moves_is_one_edit_even_if_a_word_in_it_changes(name: str) -> None:
    language = LANGUAGES[name]
    own = language.sentences
    block = language.blank.join(own[1:4])
    moved = [own[0], *own[4:12], *own[1:4], *own[12:]]
    draft, reference = language.blank.join(own), language.blank.join(moved)
    (edit,) = edits = revise(draft, reference)
    assert (edit["action_name"], edit["revision_level"]) == ("move", "paragraph")
    assert folded(str(edit["original_snippet"])).strip() == folded(block)
    assert reproduces(draft, reference, edits)
    changed = own[2][: len(own[2]) // 2] + language.word + own[2][len(own[2]) // 2 :]
    reference = reference.replace(own[2], changed)
    (edit,) = edits = revise(draft, reference)
    assert edit["action_name"] == "move and change"
    assert reproduces(draft, reference, edits)


@pytest.mark.parametrize("name", LANGUAGES)
def test_paragraphs_that_change_places_are_one_move(name: str) -> None:
    language = LANGUAGES[name]
    one, two, three = (language.blank.join(language.sentences[at : at + 5]) for at in (0, 5, 10))
    draft, reference = f"{one}\n\n{two}\n\n{three}", f"{one}\n\n{three}\n\n{two}"
    (edit,) = edits = revise(draft, reference)
    assert edit["action_name"] == "move"
    assert str(edit["original_snippet"]).strip() in (two, three)
    assert reproduces(draft, reference, edits)


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_passage_of_one_paragraph_goes_or_comes_in_one_edit_and_paragraphs_in_one_each(name: str) -> None:
    language = LANGUAGES[name]
    own = {at: [sentence] for at, sentence in enumerate(language.sentences)}
    whole = text(language, own, language.items, CODE)
    shorter = text(language, own | {at: [] for at in (1, 2, 3)}, language.items, CODE)
    for draft, reference, action in ((whole, shorter, "remove"), (shorter, whole, "add")):
        (edit,) = edits = revise(draft, reference)
        assert (edit["action_name"], edit["revision_level"]) == (action, "paragraph")
        assert reproduces(draft, reference, edits)
    gone = text(language, own | {at: [] for at in range(10)}, language.items, CODE).strip()
    assert [edit["action_name"] for edit in revise(whole, gone)] == ["remove", "remove"]


@pytest.mark.parametrize(("name", "other"), list(pairwise([*LANGUAGE_NAMES, LANGUAGE_NAMES[0]])))
def test_a_text_of_mixed_scripts_is_edited_like_any_other(name: str, other: str) -> None:
    first, second = LANGUAGES[name], LANGUAGES[other]
    mixed = [sentence for pair in zip(first.sentences, second.sentences, strict=True) for sentence in pair]
    draft = "\n".join(mixed)
    reference = "\r\n".join([*mixed[:4], *mixed[5:20], second.spare[0], *mixed[20:]])
    edits = revise(draft, reference)
    assert [edit["action_name"] for edit in edits] == ["remove", "add"]
    assert reproduces(draft, reference, edits)


@pytest.mark.parametrize("name", LANGUAGES)
def test_two_sentences_merged_at_a_word_are_one_edit_at_their_border(name: str) -> None:
    language = LANGUAGES[name]
    own = language.sentences
    whole = merged(language, own[6], own[7])
    draft, reference = language.blank.join(own), language.blank.join([*own[:6], whole, *own[8:]])
    (edit,) = revise(draft, reference)
    (back,) = revise(reference, draft)
    assert (edit["action_name"], back["action_name"]) == ("merge", "split")
    assert len(str(edit["original_snippet"])) < len(own[6])
