"""Where edits are in a draft and what they make of it: by hand, and beside an oracle that copies sign by sign."""

from __future__ import annotations

import time
from collections.abc import Iterator
from difflib import SequenceMatcher

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.replies import ProposedEdit
from tasks.revision_distance.drafts.fuzzy_match import edit_distances, nearest_span
from tasks.revision_distance.drafts.placing import (
    NO_ORIGINAL,
    NO_PLACE,
    NO_PRECEDING,
    OVERLAPS,
    Placement,
    apply,
    place,
)
from tasks.revision_distance.drafts.snippets import Folded, normalised


def edit(original: str, revised: str, preceding: str | None = None) -> ProposedEdit:
    return ProposedEdit(
        action_name="change",
        revision_description="",
        revision_level="phrase",
        revision_intention="other",
        original_snippet=original,
        revised_snippet=revised,
        preceding_snippet=preceding,
    )


def revised(draft: str, *edits: ProposedEdit) -> str:
    return apply(draft, place(draft, edits))


def where(draft: str, *edits: ProposedEdit) -> list[tuple[int | None, int | None, int | None, str, bool]]:
    return [(each.start, each.end, each.at, each.placed, each.applied) for each in place(draft, edits)]


# ---------------------------------------------------------------- which place is meant


def test_the_first_occurrence_is_replaced():
    assert where("a cat, a dog", edit("a ", "the ")) == [(0, 2, 0, "exactly", True)]
    assert revised("a cat, a dog", edit("a ", "the ")) == "the cat, a dog"


def test_equal_edits_take_one_occurrence_after_another():
    draft = "tea and tea and tea"
    assert where(draft, *[edit("tea", "milk")] * 4) == [
        (0, 3, 0, "exactly", True),
        (8, 11, 8, "exactly", True),
        (16, 19, 16, "exactly", True),
        (0, 3, 0, "exactly", False),
    ]
    assert revised(draft, *[edit("tea", "milk")] * 4) == "milk and milk and milk"


def test_a_shorter_snippet_is_looked_for_beside_the_words_that_are_taken():
    draft = "green tea, black tea"
    assert where(draft, edit("green tea", "water"), edit("tea", "milk"))[1] == (17, 20, 17, "exactly", True)


def test_text_is_added_behind_the_words_before_it():
    assert revised("One. Three.", edit("", "Two. ", "One. ")) == "One. Two. Three."
    assert where("One. Three.", edit("", "Two. ", "One. ")) == [(5, 5, 5, "exactly", True)]
    assert revised("Two.", edit("", "One. ", "")) == "One. Two."


def test_what_one_place_gets_comes_in_the_editors_order():
    assert revised("One. Four.", edit("", "Two. ", "One. "), edit("", "Three. ", "One. ")) == "One. Two. Three. Four."


def test_preceding_words_tell_repeated_words_apart():
    draft = "He saw the cat. She saw the cat."
    assert where(draft, edit("the cat", "a dog", "She saw ")) == [(24, 31, 24, "exactly", True)]
    assert where(draft, edit("the cat", "a dog", "She saw")) == [(24, 31, 24, "exactly", True)]
    assert revised(draft, edit("the cat", "a dog", "She saw")) == "He saw the cat. She saw a dog."


def test_words_found_elsewhere_move():
    draft = "One. Two. Three. "
    assert where(draft, edit("Three. ", "Three. ", "One. ")) == [(10, 17, 5, "exactly", True)]
    assert revised(draft, edit("Three. ", "Three. ", "One. ")) == "One. Three. Two. "
    assert revised(draft, edit("One. ", "At last, one. ", "Three. ")) == "Two. Three. At last, one. "


def test_two_moves_that_change_places():
    draft = "First, B. Second, A."
    assert revised(draft, edit("B.", "A.", "First, "), edit("A.", "B.", "Second, ")) == "First, A. Second, B."
    assert revised(draft, edit("First, B. ", "", None), edit("", "First, B.", "Second, A.")) == "Second, A. First, B."


def test_an_empty_draft_takes_text():
    assert revised("", edit("", "Hello.")) == revised("", edit("", "Hello.", "")) == "Hello."
    assert where("", edit("", "Hello.")) == [(0, 0, 0, "exactly", True)]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (edit("", "new"), NO_PLACE),
        (edit("milk", "tea"), NO_ORIGINAL),
        (edit("", "new", "milk"), NO_PRECEDING),
        (edit("tea", "new", "milk"), NO_PRECEDING),
        (edit("milk", "new", "tea"), NO_ORIGINAL),
    ],
)
def test_an_edit_without_a_place_counts_and_says_why(told: ProposedEdit, why: str):
    (found,) = place("a cup of tea", [told])
    assert found == Placement(told, None, None, None, "not", why)
    assert not found.applied
    assert revised("a cup of tea", told) == "a cup of tea"


def test_the_first_of_two_edits_that_overlap_is_applied():
    draft = "one two three four"
    first, second, third = edit("one two", "1 2"), edit("two three", "2 3"), edit("four", "4")
    assert [each.why_not for each in place(draft, [first, second, third])] == [None, OVERLAPS, None]
    assert revised(draft, first, second, third) == "1 2 three 4"


def test_nothing_is_put_into_words_that_are_taken_away_and_none_are_taken_around_what_is_put():
    draft = "one two three"
    taking, putting = edit("one two three", "1"), edit("", " and a half", "one")
    assert [each.applied for each in place(draft, [taking, putting])] == [True, False]
    assert [each.applied for each in place(draft, [putting, taking])] == [True, False]
    assert [each.applied for each in place(draft, [taking, edit("", " 4", "three")])] == [True, True]
    assert [each.applied for each in place(draft, [edit("", "0 ", ""), taking])] == [True, True]


def test_an_edit_that_was_not_applied_is_in_nobodys_way():
    draft = "one two three four"
    edits = [edit("one two", "1 2"), edit("two three", "2 3"), edit("three four", "3 4")]
    assert [each.applied for each in place(draft, edits)] == [True, False, True]


def test_the_same_place_is_found_for_rows_as_for_replies():
    told = edit("tea", "milk")
    assert place("a cup of tea", [told.model_dump()]) == place("a cup of tea", [told])


# ---------------------------------------------------------------- as models quote


@pytest.mark.parametrize(
    ("draft", "snippet", "start", "end", "how"),
    [
        ("It is  a\nlong  text.", "is a long text", 3, 19, "folded"),
        ("She said “no”.", 'She said "no".', 0, 14, "folded"),
        ("It’s — well — late…", "It's - well - late...", 0, 19, "folded"),
        ("The Straße is long", "the strasse is", 0, 13, "folded"),
        ("The ofﬁce is İstanbul's", "office", 4, 9, "folded"),
        ("in İstanbul now", "i̇stanbul", 3, 11, "folded"),
        ("end of text", " of text\n", 4, 11, "folded"),
        ("tea TEA", "TEA", 4, 7, "exactly"),
        ("The quick brown fox jumps over the dog.", "quick brwn fox jumps over the", 4, 34, "nearly"),
        ("See: the quick brown fox jumped. Bye.", "the quick brown fox jumps.", 5, 32, "nearly"),
    ],
)
def test_a_snippet_that_is_not_to_the_letter(draft: str, snippet: str, start: int, end: int, how: str):
    assert where(draft, edit(snippet, "")) == [(start, end, start, how, True)]


@pytest.mark.parametrize(
    ("draft", "snippet"),
    [
        ("a Faß", "s"),  # no half of a sign
        ("ﬁ", "f"),
        ("a cup of tea", "a cap of tea"),  # too short to be nearly something
        ("The quick brown fox jumps over it.", "The slow green fox jumps over it"),
        ("a cup of tea", " \n "),
    ],
)
def test_a_snippet_that_is_not_there(draft: str, snippet: str):
    assert snippet == " \n " or where(draft, edit(snippet, "")) == [(None, None, None, "not", False)]
    assert snippet != " \n " or where(draft, edit(snippet, " ")) == [(1, 2, 1, "folded", False)]


def test_the_worse_of_two_snippets_says_how_an_edit_was_placed():
    draft = "It’s one thing. It’s another thing."
    assert where(draft, edit("one", "1", "It's ")) == [(5, 8, 5, "folded", True)]
    assert where(draft, edit("ONE", "1", "It’s ")) == [(5, 8, 5, "folded", True)]


def test_fuzzy_matches_avoid_taken_spans():
    sentence = "The committee meets in the old library on Mondays."
    draft = f"{sentence} And again: {sentence}"
    told = edit("The comittee meets in the old library on Mondays.", "No meeting.")
    assert [each[:2] for each in where(draft, told, told)] == [(0, 50), (62, 112)]


# ---------------------------------------------------------------- white space, as models leave it out


@pytest.mark.parametrize(
    ("draft", "edits", "wanted"),
    [
        # taken out
        ("One. Two. Three.", [edit("Two.", "")], "One. Three."),
        ("One. Two. Three.", [edit("Two. ", "")], "One. Three."),
        ("One. Two. Three.", [edit(" Two.", "")], "One. Three."),
        ("One. Two. Three.", [edit("One.", "")], "Two. Three."),
        ("One. Two. Three.", [edit("Three.", "")], "One. Two."),
        ("One. Two. Three. Four.", [edit("Two.", ""), edit("Three.", "")], "One. Four."),
        ("One. Two. Three. Four.", [edit("Three.", ""), edit("Two.", "")], "One. Four."),
        ("One. Two.\nThree.", [edit("Two.", "")], "One.\nThree."),
        ("One.\nTwo. Three.", [edit("Two.", "")], "One.\nThree."),
        ("One.\n\nTwo.\n\nThree.", [edit("Two.", "")], "One.\n\nThree."),
        ("Intro:\n\n- one\n- two\n\nEnd.", [edit("- one", "")], "Intro:\n\n- two\n\nEnd."),
        ("Intro:\n\n- one\n- two\n\nEnd.", [edit("- two", "")], "Intro:\n\n- one\n\nEnd."),
        ("- one\n  - two\n- three", [edit("- two", "")], "- one\n- three"),
        ("a very nice day", [edit("very", "")], "a nice day"),
        ("Only this.", [edit("Only this.", "")], ""),
        # added
        ("One. Three.", [edit("", "Two.", "One.")], "One. Two. Three."),
        ("One. Three.", [edit("", "Two.", "One. ")], "One. Two. Three."),
        ("One. Three.", [edit("", " Two.", "One.")], "One. Two. Three."),
        ("One. Four.", [edit("", "Two.", "One."), edit("", "Three.", "One.")], "One. Two. Three. Four."),
        ("Two.", [edit("", "One.", "")], "One. Two."),
        ("We meet.", [edit("", "Dear all,", "")], "Dear all, We meet."),
        ("One.", [edit("", "Two.", "One.")], "One. Two."),
        ("One.\n\nThree.", [edit("", "Two.", "One.")], "One. Two.\n\nThree."),
        ("One.\n\nThree.", [edit("", "\n\nTwo.", "One.")], "One.\n\nTwo.\n\nThree."),
        ('He said "go."\nThen', [edit("", "She went.", '"go."')], 'He said "go." She went.\nThen'),
        ("the day", [edit("", "long", "the")], "the long day"),
        ("It is known (Lee, 2014).", [edit("", "and others", "(Lee, 2014)")], "It is known (Lee, 2014) and others."),
        # moved
        ("One. Two. Three.", [edit("Three.", "Three.", "One.")], "One. Three. Two."),
        ("One. Two. Three.", [edit("One.", "One.", "Three.")], "Two. Three. One."),
        ("One. Two.\n\nThree. Four.", [edit("Two.", "Two.", "Three.")], "One.\n\nThree. Two. Four."),
        ("One. Two. Three.", [edit("Two.", "Two.", "")], "Two. One. Three."),
        # replaced
        ("One, two", [edit(", two", "and two")], "One and two"),
        ("A cup. Two.", [edit("A cup.", "A cup")], "A cup Two."),
        ("One. Two.", [edit(" Two.", "")], "One."),
        # joined or cut on purpose
        ("re-use it", [edit("-use", "use")], "reuse it"),
        ("the colour", [edit("our", "or")], "the color"),
        ("the colr", [edit("", "o", "the col")], "the color"),
        ("un happy", [edit(" happy", "happy")], "unhappy"),
        ("data base of", [edit("data base", "database")], "database of"),
        # scripts without blanks
        ("你好。再见。", [edit("", "今天很好。", "你好。")], "你好。今天很好。再见。"),
        ("你好。今天很好。再见。", [edit("今天很好。", "")], "你好。再见。"),
        ("他说好", [edit("", "很", "他说")], "他说很好"),
        ("สวัสดีครับ", [edit("", "ทุกคน", "สวัสดี")], "สวัสดีทุกคนครับ"),
        ("ฝนตก แดดออก", [edit("", "ลมพัด", "ฝนตก")], "ฝนตก ลมพัด แดดออก"),
        ("ฝนตก แดดออก", [edit("", "ลมพัด", "ฝนตก ")], "ฝนตก ลมพัด แดดออก"),
        ("ฝนตก แดดออก", [edit("", " ลมพัด", "ฝนตก")], "ฝนตก ลมพัด แดดออก"),
        ("ฝนตก แดดออก", [edit("", "ลมพัด", "แดดออก")], "ฝนตก แดดออก ลมพัด"),
        ("ฝนตกปี 2020 แดดออก", [edit("", "ลมพัด", "ฝนตกปี 2020")], "ฝนตกปี 2020 ลมพัด แดดออก"),
        ("ฝนตก แดดออก ลมพัด", [edit("ลมพัด", "ลมพัด", "ฝนตก")], "ฝนตก ลมพัด แดดออก"),
        ("ฝนตก แดดออก", [edit("ฝนตก", "ฝนตกหนัก")], "ฝนตกหนัก แดดออก"),
        ("나는 간다.", [edit("", "집에", "나는")], "나는 집에 간다."),
    ],
)
def test_white_space_as_a_reader_would_have_it(draft: str, edits: list[ProposedEdit], wanted: str):
    assert revised(draft, *edits) == wanted


# ---------------------------------------------------------------- properties

SIGNS = st.text(alphabet="#%&*+", max_size=40)  # no white space, no letters: nothing is mended
TEXTS = st.text(alphabet="ab. \nß“İﬁ\x00\ud800中", max_size=60)


def snippets(draft: str) -> st.SearchStrategy[str]:
    places = st.tuples(st.integers(0, len(draft)), st.integers(0, 12))
    return places.map(lambda place: draft[place[0] : place[0] + place[1]])


@st.composite
def drafts_with_edits(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, list[ProposedEdit]]:
    draft = draw(texts)
    some = snippets(draft) | texts
    fields = st.tuples(some, some, st.none() | some)
    return draft, [construct(*each) for each in draw(st.lists(fields, max_size=8))]


def construct(original: str, revised: str, preceding: str | None) -> ProposedEdit:
    """Without pydantic, which takes no lone surrogate."""
    told = {"original_snippet": original, "revised_snippet": revised, "preceding_snippet": preceding}
    return ProposedEdit.model_construct(**edit("", "").model_dump() | told)


def copied(draft: str, placements: list[Placement]) -> str:
    """What the contract of placements says, sign by sign."""
    found = [each for each in placements if each.applied]
    out = []
    for at in range(len(draft) + 1):
        out += [each.edit.revised_snippet for each in found if each.at == at]
        taken = any(each.start <= at < each.end for each in found)  # type: ignore[operator]
        out += [] if taken else [draft[at : at + 1]]
    return "".join(out)


@given(drafts_with_edits(SIGNS))
def test_edits_without_words_come_out_to_the_letter(told: tuple[str, list[ProposedEdit]]):
    draft, edits = told
    placements = place(draft, edits)
    assert apply(draft, placements) == copied(draft, placements)


@given(drafts_with_edits(TEXTS))
@settings(max_examples=400)
def test_applying_edits_repairs_only_white_space(told: tuple[str, list[ProposedEdit]]):
    draft, edits = told
    placements = place(draft, edits)
    assert "".join(apply(draft, placements).split()) == "".join(copied(draft, placements).split())


@given(drafts_with_edits(TEXTS) | drafts_with_edits(SIGNS))
@settings(max_examples=400)
@example(("ß", [construct("s", "", None), construct("ss", "", None)]))
def test_placements(told: tuple[str, list[ProposedEdit]]):
    draft, edits = told
    placements = place(draft, edits)
    assert [each.edit for each in placements] == edits
    for each in placements:
        assert (each.why_not is None) == each.applied
        assert (each.placed == "not") == (each.start is None) == (each.end is None) == (each.at is None)
        if each.start is not None and each.end is not None and each.at is not None:
            check_place(draft, each, each.start, each.end, each.at)
    check_apart([each for each in placements if each.applied])


def check_place(draft: str, placed: Placement, start: int, end: int, at: int) -> None:
    original = placed.edit.original_snippet
    assert 0 <= start <= end <= len(draft)
    assert 0 <= at <= len(draft)
    assert not start < at < end
    assert (start == end) == (original == "")
    if placed.placed == "exactly":
        assert draft[start:end] == original
        preceding = placed.edit.preceding_snippet
        stood = draft.find(preceding or "") + len(preceding or "")
        assert preceding is None or stood == at or at == start <= stood < end or draft[stood:at].isspace()
    if placed.placed == "folded":
        assert " ".join(normalised(draft[start:end]).split()) == " ".join(normalised(original).split())


def check_apart(applied: list[Placement]) -> None:
    taken = [at for each in applied for at in range(each.start or 0, each.end or 0)]
    assert len(taken) == len(set(taken))
    for each in applied:
        inside = [other for other in applied if (other.start or 0) < (each.at or 0) < (other.end or 0)]
        assert not inside


@given(TEXTS)
def test_applying_no_edit_is_the_draft(draft: str):
    assert apply(draft, []) == draft
    assert apply(draft, place(draft, [edit("not in there at all, nowhere", "x")])) == draft


@given(drafts_with_edits(TEXTS))
def test_whoever_is_left_out_the_others_stay_where_they_are(told: tuple[str, list[ProposedEdit]]):
    draft, edits = told
    placements = place(draft, edits)
    kept = [each for each in placements if each.placed != "not"]
    assert apply(draft, kept) == apply(draft, placements)


WORDS = st.lists(st.sampled_from(["tea", "the", "cup", "is", "late", "ßa", "Two.", "One."]), min_size=1, max_size=12)


@given(st.lists(WORDS, min_size=2, max_size=6), st.data())
def test_snippets_with_their_own_blanks_come_out_to_the_letter(sentences: list[list[str]], data: st.DataObject):
    """Whole pieces that end with a blank, taken out, put in or moved: as lists of pieces are."""
    pieces = [f"{number}: {' '.join(words)} ." + " " for number, words in enumerate(sentences)]
    taken = data.draw(st.integers(0, len(pieces) - 1))
    target = data.draw(st.integers(0, len(pieces)))
    rest = [piece for at, piece in enumerate(pieces) if at != taken]
    draft = "".join(pieces)
    assert revised(draft, edit(pieces[taken], "")) == "".join(rest)
    new = "New ones. "
    with_new = "".join([*pieces[:target], new, *pieces[target:]])
    assert revised(draft, edit("", new, "".join(pieces[:target]))) == with_new
    moved = [*pieces[:target], pieces[taken] + "\0", *pieces[target:]]
    wanted = "".join(piece for at, piece in enumerate(moved) if at != taken + (target <= taken)).replace("\0", "")
    assert revised(draft, edit(pieces[taken], pieces[taken], "".join(pieces[:target]))) == wanted


# ---------------------------------------------------------------- folding


@given(st.text(alphabet="aAß İﬁ…“—\n\t\x00\ud800Δ", max_size=30), st.data())
def test_a_span_of_the_folded_text_leads_to_what_folds_to_it(text: str, data: st.DataObject):
    whole = Folded(text)
    start = data.draw(st.integers(0, len(whole.text)))
    end = data.draw(st.integers(start, len(whole.text)))
    span = whole.span(start, end) if start < end else None
    if span:
        assert normalised(text[span[0] : span[1]]) == whole.text[start:end]
        assert whole.offset(span[0]) == start
    if start < end:
        low, high = whole.around(start, end)
        assert whole.text[start:end] in normalised(text[low:high])


def test_no_letter_outside_of_the_first_plane_grows():
    growing = [point for point in range(0x110000) if len(chr(point).casefold()) > 1]
    assert len(growing) > 100
    assert max(growing) <= 0xFFFF
    text = "".join(map(chr, growing))
    assert normalised(text) == text.casefold()


# ---------------------------------------------------------------- nearly


def levenshtein(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, sign in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (sign != other))
    return row[-1]


SHORT = st.text(alphabet="abc ", max_size=12)


@given(SHORT.filter(bool), SHORT)
def test_edit_distances_are_those_of_the_table(snippet: str, text: str):
    whole = [levenshtein(snippet, text[:end]) for end in range(1, len(text) + 1)]
    assert list(edit_distances(snippet, text, anywhere=False)) == whole
    best = [min(levenshtein(snippet, text[start:end]) for start in range(end + 1)) for end in range(1, len(text) + 1)]
    assert list(edit_distances(snippet, text, anywhere=True)) == best


@given(SHORT.filter(bool), SHORT, st.integers(0, 3))
def test_the_nearest_span_has_the_least_distance(snippet: str, text: str, most: int):
    spans = [(start, end) for end in range(1, len(text) + 1) for start in range(end)]
    least = min((levenshtein(snippet, text[a:b]) for a, b in spans), default=most + 1)
    found = nearest_span(snippet, text, min(most, len(snippet) - 1))
    assert (found is not None) == (least <= min(most, len(snippet) - 1))
    if found:
        assert found[0] < found[1]
        assert levenshtein(snippet, text[found[0] : found[1]]) == least


VOCABULARY = [
    "the",
    "tea",
    "cup",
    "was",
    "late",
    "green",
    "house",
    "river",
    "stone",
    "paper",
    "light",
    "seven",
    "early",
    "yellow",
]


@given(st.lists(st.sampled_from(VOCABULARY), min_size=60, max_size=90), st.data())
@settings(max_examples=60)
def test_snippets_with_few_wrong_characters_are_found_at_their_place(words: list[str], data: st.DataObject):
    start = data.draw(st.integers(10, 30))
    numbered = [f"{word}{number}" for number, word in enumerate(words)]
    draft, snippet = " ".join(numbered), " ".join(numbered[start : start + 12])
    wrong = list(snippet)
    for at in data.draw(st.sets(st.integers(2, len(snippet) - 3), min_size=1, max_size=len(snippet) // 10)):
        wrong[at] = "#"
    placed = place(draft, [edit("".join(wrong), "x")])[0]
    low = draft.index(snippet)
    assert placed.placed == "nearly"
    assert (placed.start, placed.end) == (low, low + len(snippet))


@given(
    st.text(alphabet="abcdefgh ", min_size=30, max_size=200), st.text(alphabet="abcdefgh ", min_size=20, max_size=40)
)
def test_fuzzy_matches_are_within_the_edit_distance(draft: str, snippet: str):
    placed = place(draft, [construct(snippet, "", None)])[0]
    if placed.placed == "nearly":
        found = " ".join(draft[placed.start : placed.end].split())
        wanted = " ".join(snippet.split())
        assert levenshtein(found, wanted) <= 0.1 * max(len(found), len(wanted))
        assert SequenceMatcher(None, found, wanted, autojunk=False).ratio() > 0.5


# ---------------------------------------------------------------- size


def sentences(number: int) -> Iterator[str]:
    for at in range(number):
        yield f"Sentence {at} of this text says {VOCABULARY[at % 14]} then {VOCABULARY[at * 5 % 13]} again. "


def seconds(draft: str, edits: list[ProposedEdit]) -> float:
    began = time.process_time()
    apply(draft, place(draft, edits))
    return time.process_time() - began


def test_five_thousand_words_with_five_hundred_edits_take_seconds_at_most():
    whole = list(sentences(500))
    draft = "".join(whole)
    assert len(draft.split()) == 5_000
    exact = [edit(each, each.upper()) for each in whole]
    assert seconds(draft, exact) < 10
    quoted = [edit(each.strip().replace(" of ", "  OF "), "x") for each in whole]
    assert seconds(draft, quoted) < 10
    misquoted = [edit(each.strip().replace("again", "agian"), "x") for each in whole]
    assert all(each.placed == "nearly" for each in place(draft, misquoted[:50]))
    assert seconds(draft, misquoted) < 60
    elsewhere = [edit(f"Nothing like number {at} can be read in this place, not here.", "x") for at in range(500)]
    assert seconds(draft, elsewhere) < 60


@pytest.mark.parametrize(
    ("draft", "edits"),
    [
        ("a" * 1_000_000, [edit("a", "b")] * 10_000),
        ("ab" * 500_000, [edit("b", "c", "a")] * 5_000 + [edit("a", "")] * 5_000),
        ("ß" * 500_000, [edit("s", "b"), edit("sss", "b"), edit("S" * 301, "x")] * 3_000),
        ("x" + "İ \n" * 100_000, [edit("i̇  i̇", "b")] * 10_000),
        ("\0" * 1_000_000, [edit("\0" * 5_000 + "\1", "")] * 1_000),
        (" " * 1_000_000, [edit(" ", "")] * 10_000),
        ("word " * 200_000, [edit("word", "")] * 10_000),
        ("short", [edit("a" * 1_000_000, "b", "short")] * 200),
        ("", [edit("", "")] * 10_000),
    ],
)
def test_hostile_sizes_are_bounded(draft: str, edits: list[ProposedEdit]):
    assert seconds(draft, edits) < 60


@pytest.mark.soak
@pytest.mark.parametrize(
    ("draft", "edits"),
    [
        ("\0" * 1_000_000, [edit("\0" * (5_000 + at) + "\1", "") for at in range(300)]),
        ("word " * 200_000, [edit(f"{'word ' * 4}wort {'word ' * at}x", "") for at in range(500)]),
        ("".join(sentences(15_000)), [edit(each.replace("again", "agian"), "x") for each in sentences(2_000)]),
        ("".join(sentences(15_000)), [edit(f"no such number as {at} in any of them", "x") for at in range(10_000)]),
    ],
)
def test_long_drafts_with_many_edits_that_are_not_in_them_are_bounded(draft: str, edits: list[ProposedEdit]):
    assert seconds(draft, edits) < 60


def test_a_letter_as_a_model_edits_it():
    draft = (
        "Dear colleagues, the seminar room is closed on Monday. Please bring your own cup. We meet in the library\n"
        "instead. There will be cake, as always."
    )
    edits = [
        edit("on Monday", "on Monday and Tuesday"),
        edit("", "A pipe has burst.", "is closed on Monday."),
        edit("Please bring your own cup.", "Please bring your own cup.", "in the library instead."),
        edit("There will be cake, as always.", ""),
    ]
    assert revised(draft, *edits) == (
        "Dear colleagues, the seminar room is closed on Monday and Tuesday. A pipe has burst. We meet in the library\n"
        "instead. Please bring your own cup."
    )
