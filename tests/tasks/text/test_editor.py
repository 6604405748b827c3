"""The offline editor: what its edits are, how many, and that they make the draft its reference.

`applied` writes the rule by which edits apply a second time, for snippets that stand in the draft to the letter.
Edit distances are held against a table of Levenshtein's, and against changes that were planted one by one.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from longform.errors import UsageError
from schemas.replies import ProposedEdit
from tasks.revision_distance.drafts.placing import apply, place
from tasks.text.edit_sentences import sentences
from tasks.text.revision_edits import Edit, revise

Words = list[str]
FIELDS = set(ProposedEdit.model_fields)


QUOTES = str.maketrans(dict.fromkeys('"`´“”„‟‘’‚‛«»‹›「」『』〝〞＂＇', "'"))


def folded(text: str) -> str:
    return " ".join(normalize("NFC", text).translate(QUOTES).split())


def free_place(draft: str, snippet: str, spans: list[tuple[int, int]]) -> int:
    at = draft.find(snippet)
    assert at >= 0, f"{snippet!r} is not in the draft"
    while any(at < end and start < at + len(snippet) for start, end in spans):
        at = draft.find(snippet, at + 1)
        assert at >= 0, f"no free {snippet!r} is in the draft"
    return at


def applied(draft: str, edits: list[Edit]) -> str:
    """The draft with the edits; fails where two overlap, or a snippet is not there to the letter."""
    spans: list[tuple[int, int]] = []
    puts: list[tuple[int, str]] = []
    for edit in edits:
        original, revised = edit["original_snippet"] or "", edit["revised_snippet"] or ""
        preceding = edit["preceding_snippet"]
        if preceding is None:
            assert original
            start = at = free_place(draft, original, spans)
        else:
            start = at = draft.index(preceding) + len(preceding)
            behind = len(draft) - len(draft[at:].lstrip())
            if original and not draft.startswith(original, at):
                start = behind if draft.startswith(original, behind) else free_place(draft, original, spans)
                at = behind if start == behind else at
        if original:
            assert not any(start < end and other < start + len(original) for other, end in spans)
            spans.append((start, start + len(original)))
        puts.append((at, revised))
    assert not any(start < at < end for start, end in spans for at, _ in puts)
    return "".join(
        "".join(text for at, text in puts if at == place)
        + ("" if any(start <= place < end for start, end in spans) else draft[place : place + 1])
        for place in range(len(draft) + 1)
    )


def applied_by_the_metric(draft: str, reference: str, edits: list[Edit]) -> str:
    placements = place(draft, [ProposedEdit.model_validate(edit) for edit in edits], reference)
    assert all(each.applied and each.placed == "exactly" for each in placements)
    return apply(draft, placements)


def actions(edits: list[Edit]) -> list[str | None]:
    return [edit["action_name"] for edit in edits]


# ------------------------------------------------------------- it reproduces

SENTENCES = [
    *("A.", "B.", "No.", "It is.", "One fish swims here.", "One fish swims there.", "Two birds fly over the pond."),
    *("Ode et al. (2014) say so, e.g. here.", 'He said "stop." and left.', "Is it 3.5 m?", "See [1] (cf. Fig. 2)."),
    *("你好。", "世界。", "\u05d0\u05d1 \u05d2.", "e\u0301 \U0001f600!", "A heading", "x", "\0.", "\ud800 z."),
]
BLANKS = ["\n", "\n\n", "  ", "\t", "\r\n", "\u00a0", "\n- ", "\n1. ", "\n2. ", "\n## ", ""]


@st.composite
def texts(draw: st.DrawFn, blanks: tuple[str, ...] | None = None) -> str:
    alphabet = draw(st.sampled_from([SENTENCES[:2], SENTENCES[:6], SENTENCES[4:7], SENTENCES, SENTENCES[11:13]]))
    between = st.just(" ") | st.sampled_from(blanks or BLANKS)
    chosen = draw(st.lists(st.tuples(st.sampled_from(alphabet), between), max_size=9))
    return draw(st.sampled_from(["", "", " ", "\n", "1. "])) + "".join(text + blank for text, blank in chosen)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(texts(), texts())
@example("", "A.")
@example("A.", "")
@example(" \n", "A. B.")
@example("A. B. A.", "A. A. B.")
@example("1. One.\n2. Two.", "1. Two.\n2. One.")
@example("你好。 世界。", "你好。世界。再见。")
def test_the_edits_make_the_draft_its_reference_word_for_word(draft: str, reference: str) -> None:
    edits = revise(draft, reference)
    assert all(set(edit) == FIELDS for edit in edits)
    assert folded(applied(draft, edits)) == folded(reference)
    assert folded(applied_by_the_metric(draft, reference, edits)) == folded(reference)
    assert (edits == []) == (folded(draft) == folded(reference))


@settings(max_examples=200)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_do(draft: str, reference: str) -> None:
    edits = revise(draft, reference)
    assert folded(applied(draft, edits)) == folded(reference)
    assert folded(applied_by_the_metric(draft, reference, edits)) == folded(reference)


@settings(max_examples=300)
@given(st.sampled_from([" ", "\n", "\n\n", "  ", "\n- "]), st.data())
def test_it_is_the_reference_to_the_letter_where_the_white_space_is_the_same(blank: str, data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(SENTENCES[:11]), max_size=9).map(blank.join)
    draft, reference = data.draw(some), data.draw(some)
    edits = revise(draft, reference)
    assert applied(draft, edits).strip() == reference.strip()
    assert applied_by_the_metric(draft, reference, edits).strip() == reference.strip()


PARAGRAPHS = "First one here. Second one here.\n\nThird one here. Fourth one here.\n\n- Fifth one\n- Sixth one\n"


@pytest.mark.parametrize(
    "reference",
    [
        "First one here.\n\nThird one here. Fourth one here.\n\n- Fifth one\n- Sixth one",
        "First one here. Second one here.\n\nFourth one here.\n\n- Fifth one\n- Sixth one",
        "First one here. Second one here. Another one.\n\nThird one here. Fourth one here.\n\n- Fifth one\n- Sixth one",
        "First one here. Second one here.\n\nOne more.\n\nThird one here. Fourth one here.\n\n- Fifth one\n- Sixth one",
        "First one here. Second one here.\n\nThird one here. Fourth one here.\n\n- Sixth one\n- Fifth one",
        "First one here.\n\nThird one here. Second one here. Fourth one here.\n\n- Fifth one\n- Sixth one",
        "First one here. Second one here.\n\nThird one here. Fourth one here.\n\n- Fifth one\n- New one\n- Sixth one",
        "First one here. Second one here.\n\nThird one here. Fourth one here.\n\n- Fifth one",
    ],
)
def test_one_edit_among_paragraphs_and_list_items_leaves_them_as_they_are(reference: str) -> None:
    edits = revise(PARAGRAPHS, reference)
    assert len(edits) == 1
    assert applied(PARAGRAPHS, edits).strip() == reference
    back = revise(reference, PARAGRAPHS)
    assert len(back) == 1
    assert applied(reference, back).strip() == PARAGRAPHS.strip()


@given(texts())
def test_a_text_is_at_no_distance_from_itself(text: str) -> None:
    assert revise(text, text) == []


@given(st.lists(st.sampled_from(SENTENCES[4:12]), max_size=8), st.data())
def test_white_space_alone_is_no_edit(chosen: Words, data: st.DataObject) -> None:
    blanks = st.sampled_from([" ", "\n", "\n\n", "  ", "\t"])
    draft, reference = ("".join(text + data.draw(blanks) for text in chosen) for _ in range(2))
    assert revise(draft, reference) == []


# --------------------------------------------------------- how many edits

PLACES = ["harbour", "mill", "orchard", "quarry", "lighthouse", "bakery", "chapel", "tannery", "smithy", "ferry"]
DOINGS = ["closed", "flooded", "reopened", "burned", "expanded", "moved", "doubled", "vanished"]
PEOPLE = ["Ash", "Birch", "Cedar", "Dogwood", "Elder", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper", "Larch", "Maple"]
THINGS = ["salt", "linen", "copper", "barley", "wool", "amber", "tar", "honey", "timber", "glass", "hemp", "wax"]


def prose(at: int, pick: random.Random) -> str:
    """A sentence of its own: hardly a word of it is certain to be in another."""
    words = " ".join("".join(pick.choices("abdegiklmnoprstu", k=pick.randrange(3, 9))) for _ in range(10))
    return f"The {pick.choice(PLACES)} of {words.title()[:7].strip()}{at} {pick.choice(DOINGS)} when {words}."


def template(at: int, pick: random.Random) -> str:
    return f"Sentence number {at} speaks of {THINGS[at % len(THINGS)]}."


def one_word(at: int, pick: random.Random) -> str:
    return f"In the year {1500 + at} the town sold its old mill to a merchant for a sum that nobody remembers."


def scholarly(at: int, pick: random.Random) -> str:
    who, other = PEOPLE[at % len(PEOPLE)], pick.choice(PEOPLE)
    year, thing = 1950 + at, pick.choice(THINGS)
    return pick.choice(
        [
            f"{who} et al. ({year}) weigh {thing} by hand, e.g. in sacks no. {at} (cf. Fig. {at}.2).",
            f'As J. R. {who} puts it, "{thing} keeps {at} years" ({other} et al., {year}; {who} and {other}, {year}b).',
            f"Does {thing} of grade {at}.5 last (see Sec. {at}) [{at}, {at + 1}]?",
            f"{who} & {other} ({year}) sold approx. {at}.75 kg of {thing} vs. {at} kg of wax, i.e. more than Dr. Vane.",
            f"In {year}, the U.S. bought {thing} from {who} Inc. at {at} p.m. [{at}]",
        ]
    )


def short(at: int, pick: random.Random) -> str:
    return f"Item {at} was sold."


KINDS: dict[str, Callable[[int, random.Random], str]] = {
    "prose": prose,
    "template": template,
    "one_word": one_word,
    "scholarly": scholarly,
    "short": short,
}


def replaced_word(sentence: str, pick: random.Random, at: int) -> str:
    words = sentence.split()
    middle = [place for place, word in enumerate(words) if word.isalpha() and 0 < place < len(words) - 1]
    words[pick.choice(middle)] = f"otherwise{at}"
    return " ".join(words)


def dropped_word(sentence: str, pick: random.Random, at: int) -> str:
    words = sentence.split()
    middle = [place for place, word in enumerate(words) if word.isalpha() and place < len(words) - 1]
    del words[pick.choice(middle)]
    return " ".join(words)


def longer(sentence: str, pick: random.Random, at: int) -> str:
    return f"{sentence.rstrip('.?]')}, as clerk {at}x noted down in the book of the guild."


def other_number(sentence: str, pick: random.Random, at: int) -> str:
    return f"{sentence[:-1]} {7000 + at}{sentence[-1]}"


def another(sentence: str, pick: random.Random, at: int) -> str:
    return f"Nobody{at} ever wondered{at} why."


CHANGES = (replaced_word, dropped_word, longer, other_number, another)
BIG = 60


def planted(reference: Words, pick: random.Random, number: int, kinds: tuple[str, ...]) -> Words:
    """A draft that so many changes lead from: each in a place of its own, with a sentence between that stays.

    Changes beside each other may be fewer than they were: a sentence removed beside one added is one rewritten, two
    that each move over the other are one move, and one that moves to where another left may be one that was rewritten.
    """
    places = sorted(pick.sample(range((len(reference) - 1) // 4), number))
    homes = [4 * place + 1 for place in places]
    spare = [4 * place + 1 for place in range((len(reference) - 1) // 4) if place not in places]
    steps: dict[int, Words] = {}
    for order, home in enumerate(homes):
        kind, sentence = pick.choice(kinds), reference[home]
        if kind == "remove":
            steps[home] = []
        elif kind == "add":
            steps[home] = [f"Here{home} stands{home} a stranger{home}.", sentence]
        elif kind == "swap":
            steps[home], steps[home + 1] = [reference[home + 1]], [sentence]
        elif kind == "move" and spare:
            target = spare.pop(pick.randrange(len(spare)))
            steps[home], steps[target] = [], [sentence, reference[target]]
        else:
            steps[home] = [pick.choice(CHANGES)(sentence, pick, order)]
    return [sentence for place, own in enumerate(reference) for sentence in steps.get(place, [own])]


@pytest.mark.parametrize("blank", [" ", "\n\n", "\n", "mixed"])
@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_edits_as_changes_were_planted(kind: str, number: int, blank: str) -> None:
    for seed in range(6):
        pick = random.Random(f"{kind} {number} {blank} {seed}")
        reference = [KINDS[kind](at, pick) for at in range(1, BIG)]
        draft = planted(reference, pick, number, ("change", "change", "remove", "add", "move", "swap"))
        one, other = (join(words, blank) for words in (draft, reference))
        edits = revise(one, other)
        assert len(edits) == number, (one, other, edits)
        assert folded(applied(one, edits)) == folded(other)
        assert len(revise(other, one)) == number


def join(words: Words, blank: str) -> str:
    if blank != "mixed":
        return blank.join(words)
    return "".join(word + ("\n\n" if len(word) % 4 == 0 else " ") for word in words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["change", "remove", "add"])
@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_changes_of_one_kind_count_also_beside_each_other(kind: str, change: str, number: int) -> None:
    for seed in range(10):
        pick = random.Random(f"{kind} {change} {number} {seed}")
        reference = [KINDS[kind](at, pick) for at in range(1, 20)]
        places = set(pick.sample(range(19), number))
        draft: Words = []
        for at, sentence in enumerate(reference):
            if at not in places:
                draft.append(sentence)
            elif change == "change":
                draft.append(pick.choice(CHANGES[:-1])(sentence, pick, at))
            elif change == "add":
                draft += [sentence, f"Here{at} stands{at} a stranger{at}."]
        passages = sum(at - 1 not in places for at in places)
        wanted = passages if change == "remove" else number
        assert len(revise(" ".join(draft), " ".join(reference))) == wanted
        if change == "remove":
            paragraphs = revise("\n\n".join(draft), "\n\n".join(reference))
            assert actions(paragraphs) == ["add"] * number


def test_unrelated_neighbours_are_one_passage_that_goes_and_one_that_comes() -> None:
    draft = "Kites fly high. The mill burned. An otter swam by. Nine bells rang. We left at dawn."
    reference = "Kites fly high. Sugar was dear. Her uncle sold maps. We left at dawn."
    edits = revise(draft, reference)
    assert [(edit["action_name"], edit["revision_level"]) for edit in edits] == [
        ("remove", "paragraph"),
        ("add", "paragraph"),
    ]
    assert edits[0]["original_snippet"].strip() == "The mill burned. An otter swam by. Nine bells rang."
    assert edits[1]["revised_snippet"].strip() == "Sugar was dear. Her uncle sold maps."
    assert applied(draft, edits) == reference


def test_the_distance_grows_by_one_with_every_change_that_is_planted() -> None:
    pick = random.Random(4)
    reference = [scholarly(at, pick) for at in range(1, 40)]
    draft = list(reference)
    for number, at in enumerate(range(1, 39, 3), 1):
        draft[at] = pick.choice(CHANGES)(draft[at], pick, at)
        assert len(revise(" ".join(draft), " ".join(reference))) == number


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_that_lost_its_end_or_its_beginning_is_one_edit(kind: str) -> None:
    pick = random.Random(kind)
    reference = [KINDS[kind](at, pick) for at in range(1, 20)]
    for at in range(19):
        for cut in (slice(-1), slice(1, None)):
            draft = [*reference[:at], " ".join(reference[at].split()[cut]), *reference[at + 1 :]]
            assert len(revise(" ".join(draft), " ".join(reference))) == 1


def levenshtein(first: Words, second: Words) -> int:
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, 1):
        new = [i]
        for j, other in enumerate(second, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (one != other)))
        row = new
    return row[-1]


def test_copies_that_no_snippet_tells_apart_do_not_cost_more_than_without_moves() -> None:
    draft = [f"{name} trees grow in the park." for name in ("Ash", "Ash", "Cedar", "Ash", "Ash", "Ash", "Birch")]
    reference = [f"{name} trees grow in the park." for name in ("Ash", "Ash", "Birch", "Cedar", "Birch", "Ash")]
    assert len(revise(" ".join(draft), " ".join(reference))) == 4 == levenshtein(draft, reference)


@settings(max_examples=500)
@given(st.integers(2, 12), st.data())
def test_it_is_never_more_than_the_edit_distance_without_moves(size: int, data: st.DataObject) -> None:
    some = st.lists(st.sampled_from([f"{name} trees grow in the park." for name in PEOPLE[:size]]), max_size=12)
    draft, reference = data.draw(some), data.draw(some)
    assert len(revise(" ".join(draft), " ".join(reference))) <= levenshtein(draft, reference)


@settings(max_examples=300)
@given(st.permutations(range(9)))
def test_reordered_sentences_are_moves_of_all_but_a_longest_chain_in_order(order: list[int]) -> None:
    reference = [f"{name} trees grow in the park." for name in PEOPLE[:9]]
    chain = [1] * 9
    for at in range(9):
        chain[at] = 1 + max((chain[before] for before in range(at) if order[before] < order[at]), default=0)
    edits = revise(" ".join(reference[at] for at in order), " ".join(reference))
    assert actions(edits) == ["move"] * len(edits)
    assert len(edits) <= 9 - max(chain)


# ------------------------------------------------------------ what they say


@pytest.mark.parametrize(
    "draft",
    [
        "Rowan (2011) pulls. Ash (2009) ties knots. Fir and Elm (2015) let go.",
        "Fir and Elm (2015) let go. Rowan (2011) pulls. Ash (2009) ties knots.",
        "Ash (2009) ties knots. Fir and Elm (2015) let go. Rowan (2011) pulls.",
    ],
)
def test_reordered_references_are_moves_although_rouge_sees_no_difference(draft: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    reference = "Ash (2009) ties knots. Rowan (2011) pulls. Fir and Elm (2015) let go."
    assert RougeScorer(["rouge1"]).score(reference, draft)["rouge1"].fmeasure == 1
    edits = revise(draft, reference)
    assert edits
    assert set(actions(edits)) == {"move"}
    assert {edit["revision_intention"] for edit in edits} == {"coherence"}


def test_references_that_change_places_behind_their_ordinals_move_too() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    reference = "First, group A ties the rope in a bow. Second, group B cuts the cord with shears."
    draft = "First, group B cuts the cord with shears. Second, group A ties the rope in a bow."
    assert RougeScorer(["rouge1"]).score(reference, draft)["rouge1"].fmeasure == 1
    assert sorted(map(str, actions(revise(draft, reference)))) == ["change", "move and change"]


def test_an_edit_shows_what_goes_and_what_comes_with_its_white_space() -> None:
    draft = "The mill burned. The inn closed early. The ferry sank in 1890."
    reference = "The ferry sank in 1891. The mill burned. Nobody was hurt."
    assert revise(draft, reference) == [
        {
            "action_name": "move and change",
            "revision_description": 'The sentence "The ferry sank in 1890." stands elsewhere in the reference, '
            "in other words.",
            "revision_level": "sentence",
            "revision_intention": "coherence",
            "original_snippet": " The ferry sank in 1890.",
            "revised_snippet": "The ferry sank in 1891. ",
            "preceding_snippet": "",
        },
        {
            "action_name": "rewrite",
            "revision_description": 'Where the draft says "The inn closed early.", the reference says something else.',
            "revision_level": "sentence",
            "revision_intention": "meaning",
            "original_snippet": "The inn closed early.",
            "revised_snippet": "Nobody was hurt.",
            "preceding_snippet": None,
        },
    ]


@pytest.mark.parametrize(
    ("draft", "reference", "intention"),
    [
        ("The ferry leaves at the brigde.", "The ferry leaves at the bridge.", "fluency"),
        ("the ferry leaves, at noon.", "The ferry leaves at noon.", "fluency"),
        ("The ferry always leaves at noon.", "The ferry leaves at noon.", "clarity"),
        ("The ferry leaves Lund at noon.", "The ferry leaves at noon.", "meaning"),
        ("The ferry leaves at 12.", "The ferry leaves at 13.", "meaning"),
        ("The ferry leaves at noon.", "The ferry leaves at night.", "meaning"),
    ],
)
def test_the_intention_of_a_change_is_by_its_words(draft: str, reference: str, intention: str) -> None:
    (edit,) = revise(draft, reference)
    assert (edit["action_name"], edit["revision_intention"]) == ("change", intention)


def test_repeated_sentences_are_distinguished_by_what_precedes_them() -> None:
    draft = "Alda paid. It was late. Bruno paid. It was late. Clara paid. It was late."
    reference = "Alda paid. It was late. Bruno paid. It was early. Clara paid. It was late."
    (edit,) = revise(draft, reference)
    before = str(edit["preceding_snippet"])
    assert draft.index(before) + len(before) == draft.index("Bruno paid. It was late.") + len("Bruno paid. It was ")
    assert (edit["original_snippet"], edit["revised_snippet"]) == ("late", "early")
    assert applied(draft, [edit]) == reference


def test_descriptions_carry_no_control_characters() -> None:
    (edit,) = revise("Ring the \x1b[31m bell\x07 now, please.", "Nothing \x1b]0;x\x07 of the sort.")
    assert str(edit["revision_description"]).isprintable()


@pytest.mark.parametrize(
    "word",
    [
        "\u0645\u06cc\u200c\u0631\u0648\u0645",
        "\u0915\u094d\u200d\u0937",
        "\u0d28\u0d4d\u200d",
        "\U0001f469\u200d\U0001f33e",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\U0001f469\U0001f3fd\u200d\U0001f680",
    ],
)
def test_descriptions_keep_the_joiners_of_words_and_emoji(word: str) -> None:
    (edit,) = revise(f"One {word} is here.", "Nothing of the sort.")
    assert f'"One {word} is here."' in str(edit["revision_description"])


@pytest.mark.parametrize(
    "sign", ["\u200d", "\u200c", "a \u200db", "\u200e", "\u202e", "\u2066", "a\u202eb", "\x9b", "\u200d\u200d"]
)
def test_descriptions_carry_no_stray_joiner_and_no_sign_that_turns_the_text_round(sign: str) -> None:
    (edit,) = revise(f"One {sign} is here.", "Nothing of the sort.")
    assert str(edit["revision_description"]).isprintable()


# ------------------------------------------------------------------ lists

LIST = "Bring:\n\n- a warm coat\n- a rope\n- a lamp\n"


@pytest.mark.parametrize(
    ("draft", "reference", "original", "revised"),
    [
        (LIST, "Bring:\n\n- a rope\n- a lamp\n", "- a warm coat\n", ""),
        (LIST, "Bring:\n\n- a warm coat\n- a lamp\n", "- a rope\n", ""),
        ("- a warm coat\n- a rope", "- a rope", "- a warm coat\n", ""),
        ("* a warm coat\r\n* a rope", "* a rope", "* a warm coat\r\n", ""),
        ("Bring:\n\n- a rope\n- a lamp\n", LIST, "", "- a warm coat\n"),
        (LIST, "Bring:\n\n- a lamp\n- a warm coat\n- a rope\n", "\n- a lamp", "- a lamp\n"),
        (LIST, "Bring:\n\n- a rope\n- a lamp\n- a warm coat\n", "- a warm coat\n", "\n- a warm coat"),
    ],
)
def test_a_list_item_goes_and_comes_with_its_mark(draft: str, reference: str, original: str, revised: str) -> None:
    (edit,) = revise(draft, reference)
    assert (edit["original_snippet"], edit["revised_snippet"]) == (original, revised)
    assert (
        applied(draft, [edit]).strip() == applied_by_the_metric(draft, reference, [edit]).strip() == reference.strip()
    )


def test_two_items_that_go_are_two_whole_lines() -> None:
    edits = revise(LIST, "Bring:\n\n- a lamp\n")
    assert [edit["original_snippet"] for edit in edits] == ["- a warm coat\n", "- a rope\n"]


def test_an_item_moves_past_its_copy_in_one_edit() -> None:
    draft, reference = "* x\n* two hooks\n* x\n* a map\n\nDone.", "* two hooks\n* x\n* x\n* a map\n\nDone."
    edits = revise(draft, reference)
    assert actions(edits) == ["move"]
    assert applied_by_the_metric(draft, reference, edits) == reference


def test_an_item_that_is_only_numbered_otherwise_is_fluency() -> None:
    draft, reference = "1. a warm coat\n2. a rope\n3. a lamp", "1. a rope\n2. a lamp"
    edits = revise(draft, reference)
    assert [(edit["action_name"], edit["revision_intention"]) for edit in edits] == [
        ("remove", "meaning"),
        ("change", "fluency"),
    ]
    assert applied_by_the_metric(draft, reference, edits) == reference
    (edit,) = revise("It has 3 doors.", "It has 2 doors.")
    assert edit["revision_intention"] == "meaning"


LISTED = [
    "a rope",
    "a lamp",
    "x",
    "two hooks",
    "Bring the map. Fold it",
    "你好。世界",
    "```\na. B.\n```",
    "u. a. Bäcker",
]


@settings(max_examples=400)
@given(st.sampled_from(["- ", "  * ", "1. ", "# ", "> ", ""]), st.sampled_from(["", "Bring:\n", "Go.\n\n"]), st.data())
def test_lists_are_reproduced(mark: str, head: str, data: st.DataObject) -> None:
    items = st.lists(st.sampled_from(LISTED), max_size=7).map(lambda some: "".join(f"{mark}{item}\n" for item in some))
    draft, reference = (head + data.draw(items) + data.draw(st.sampled_from(["", "\nDone."])) for _ in range(2))
    edits = revise(draft, reference)
    assert folded(applied(draft, edits)) == folded(reference)
    assert folded(applied_by_the_metric(draft, reference, edits)) == folded(reference)


# ------------------------------------------------- the same in every process

PAIRS = """
import hashlib, json, random, sys
from tasks.text.revision_edits import revise
pick, found = random.Random(5), []
def some(number):
    return ["".join(pick.choices("abdegiklmnorstu", k=pick.randrange(2, 8))) for _ in range(number)]
def said(words):
    return " ".join(pick.sample(words, len(words))).capitalize() + "."
for _ in range(300):
    stays, shared = some(6), some(pick.randrange(5, 12))
    alike = [said(shared + some(7)) for _ in range(pick.randrange(2, 5))]
    theirs = shared + some(7)
    alike += [said(theirs) for _ in range(pick.randrange(2, 5))]
    draft, reference = [said(stays), said(shared + some(7)), said(stays[1:])], [said(stays), *alike, said(stays[1:])]
    reference[0] = draft[0]
    blank = pick.choice([" ", "\\n\\n", "\\n- "])
    found.append(revise(blank.join(draft), blank.join(reference)))
print(len(found), sum(map(len, found)), hashlib.sha256(json.dumps(found).encode()).hexdigest())
"""


def test_the_edits_are_the_same_whatever_order_sets_have() -> None:
    told = set()
    for seed in ("0", "1", "2", "3", "77"):
        done = subprocess.run(
            [sys.executable, "-c", PAIRS], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1
    number, edits, _ = told.pop().split()
    assert (number, int(edits) > 600) == ("300", True)


# --------------------------------------------------------- composed letters


def test_how_letters_are_composed_and_which_quotation_marks_stand_is_no_edit() -> None:
    reference = "Élodie a cueilli des « mûres » près du château. L\u2019un dit : \u201coui\u201d. Gisèle répète."
    draft = normalize("NFD", reference).replace("\u2019", "'").replace("« ", '"').replace(" »", '"')
    assert draft != reference
    assert revise(draft, reference) == revise(reference, draft) == []
    moved = "L'un dit : 'oui'. " + draft[: draft.index("L'un")] + draft[draft.index("Gis") :]
    (edit,) = revise(moved, reference)
    assert edit["action_name"] == "move"
    (edit,) = revise(draft.replace("oui", "non"), reference)
    assert (edit["original_snippet"], edit["revised_snippet"]) == ("non", "oui")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'Yes,' she said.", '"Yes," she said.'),
        ("\u201eJa\u201c, sagte sie.", "»Ja«, sagte sie."),
        ("She said ``yes''.", 'She said "yes".'),
        ("他说“好”。", "他说「好」。"),
        ("他说 Python 很好。", "他说Python很好。"),
        ("One.  Two.\r\nThree.", "One.\nTwo. Three."),
    ],
)
def test_kinds_of_quotation_marks_and_white_space_are_no_edit(one: str, other: str) -> None:
    assert revise(one, other) == revise(other, one) == []


# ------------------------------------------------------------- its sentences


@pytest.mark.parametrize(
    "text",
    [
        "Ash et al. (2014) agree.| Elm et al., 2015, do not.| See Fig. 3 and Sec. 4.2, e.g. the inset.| It is small.",
        "J. R. Vane wrote it.| Take vitamin C.| It helps.| He met Dr. Lind at 5 p.m. on Dec. 4.| All left.",
        "It cost 3.5 marks in 1890.| Two mills burned [1].| Rust forms. [2]| Paint helps.",
        'She asked "Why?" and left.| "Go on!"| He went.| really.| Wait... what?| Oh…| Fine.',
        "Sentence A.| Sentence B.| Sentence C.",
        "A.| B.| C.",
        "Dear Ms. Lind,|\nThe boiler failed.|\n\nYours,|\nA. Oak|\nFlat 3",
        "Bring:|\n1. |A rope|\n2. |Two hooks.| Big ones.|\n- |A lamp",
        "A line that is wrapped by hand after some seventy characters, as mail\nwas, is one sentence.| So it is.",
        "你好。|世界！| Hello.|\n# |A heading|\nThe text.",
        "Man nimmt z. B. Bäcker, d. h. die Leute.| Das gilt i. d. R. für alle.| Brot o. Ä. Bäcker u. a. Müller.",
        "D. h. die Mühle steht.| Es sind v. a. Frauen (z. B. „Ida“ u.\u00a0a. mehr), o. A\u0308. wie hier.| Ende.",
        "Er starb 44 v. Chr. in Rom.| Dies war 44 v. Chr.| Danach kam er.",
        "Il pleut, p. ex. le soir.| P. ex. ici, p. ex. Paul.| Fin.",
        "Take Plan B.| The next is worse.| Buy vitamin C.| It helps.| Solve it for x.| Then stop.",
        "Он жил в д. 5, кв. 3.| См. рис. 3.| Там видно.| Стоит 100 р.| Дорого.",
        "قال د. أحمد إن ذلك صحيح.| انظر ص. 12.| ثم ذهب.",
        "Er sagte: „So ist es.“| Die Tür war zu.| »Nein!«| Gut.",
        "Il dit : « C’est ainsi. »| La porte était close.| « Ah ! »",
        "The U. S. is big.| By P. Oak, p. 12.| He came at 5 p. m.| The mill stood, e. g. here.",
        "Run this:|\n```py|\na = 1. B = 2.|\n\n# c. D.|\n- d|\n```|\nIt prints 2.| So.",
        "~~~~|\nA. B.|\n~~~|\nC.|\n~~~~ ",
        "- |```|\n  a. Then b.|\n  ```|\n- |x|\n~~~|\nNothing ends this.| So it is text.",
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str) -> None:
    wanted = [part.strip() for part in text.split("|")]
    bare = text.replace("|", "")
    found = [bare[each.start : each.end] for each in sentences(bare)]
    assert found == [part for part in wanted if part not in ("1.", "2.", "-", "#")]


# ------------------------------------------------------------------- its cost


def seconds(draft: str, reference: str) -> float:
    started = time.process_time()
    revise(draft, reference)
    return time.process_time() - started


def words(number: int, seed: int) -> Words:
    pick = random.Random(seed)
    return [prose(at, pick) for at in range(number // 15)]


def test_five_thousand_words_take_less_than_a_second_whatever_became_of_them() -> None:
    reference = words(5_000, 1)
    shuffled = random.Random(2).sample(reference, len(reference))
    for draft in (words(5_000, 3), shuffled, reference[::-1], reference[::2], [*words(2_500, 4), *reference[::3]]):
        taken = (seconds(" ".join(draft), " ".join(reference)) for _ in range(10))
        assert any(each < 1 for each in taken), "not even once"


HOSTILE = {
    "one sentence": ("a b " * 250_000, "a c " * 250_000),
    "one word": ("a" * 1_000_000, "b" * 1_000_000),
    "dots": ("." * 1_000_000 + "b", "b"),
    "blanks": (" " * 500_000 + "a", "b" + "\n" * 500_000),
    "brackets": ("x." + "[1]" * 100_000, "y." + ".)" * 100_000),
    "marks": ("- " * 100_000, "* " * 100_000),
    "initials": ("A. " * 30_000, "B. " * 30_000),
    "equal sentences": ("Yes. " * 50_000, "Yes. " * 20_000),
    "two sentences in turn": ("A b. C d. " * 10_000, "C d. A b. " * 10_000),
    "few sentences, all mixed": (
        " ".join(f"Say {random.Random(at).randrange(90)}." for at in range(8_000)),
        " ".join(f"Say {random.Random(-at).randrange(95)}." for at in range(8_000)),
    ),
    "list marks": ("- a\n" * 20_000, "* a\n" * 20_000),
    "NUL and surrogates": ("\0. " * 20_000, "\ud800. " * 20_000),
    "fences": ("```x\n" * 50_000, "~~~\n```\n" * 25_000),
    "spaced letters": ("u. a. z. B. " * 20_000, "p. ex. A. " * 20_000),
    "joiners": ("\u200d" * 300_000, "a\u200c" * 300_000),
    "no blanks": ("你好。" * 20_000, "世界。" * 20_000),
}


@pytest.mark.check
@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_shapes_take_seconds_at_most(shape: str) -> None:
    draft, reference = HOSTILE[shape]
    assert seconds(draft, reference) < 60


def test_it_loads_nothing_heavy() -> None:
    script = "import sys, json, tasks.text.revision_edits; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "spacy", "pydantic", "pyarrow", "prefect", "openai"} & set(json.loads(done.stdout))


def test_more_sentences_than_any_text_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"at most 50,000 sentences, not of 50,001: give a part"):
        revise("It is. " * 50_001, "It was.")
    assert len(revise("It is. " * 50_000, "It is. " * 49_999)) == 1
