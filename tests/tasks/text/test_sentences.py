"""Sentences: the same as spaCy's on any text, in time linear in it; and the splitter that knows lists."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import paths
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.claims import PLANTED, SIGNS, WORDS, random_texts
from tasks.text.english import WINDOW, english
from tasks.text.lists import listed_spans
from tasks.text.sentences import Folded, Sentences, folded_spans, sentence_spans

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
Spans = list[tuple[int, int]]


@cache
def theirs() -> Any:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp


def their_spans(text: str) -> Spans:
    return [(sentence.start_char, sentence.end_char) for sentence in theirs()(text).sents]


def their_tokens(text: str) -> Spans:
    return [(token.idx, token.idx + len(token.text)) for token in theirs().tokenizer(text)]


@cache
def marks() -> list[str]:
    """What ends a sentence."""
    from spacy.pipeline import Sentencizer

    return list(Sentencizer.default_punct_chars)


@cache
def atoms() -> list[str]:
    """What texts are put together from: marks, words, the tokenizer's exceptions, and blanks of every kind."""
    blanks = [*" " * 40, "  ", "\n", "\n\n", "\t", "\u00a0", "\u200b", "\x1c", "\x85", "\0"]
    return [*SIGNS, *marks(), *WORDS, *theirs().tokenizer.rules, *blanks]


HAND = [
    "",
    " ",
    "  ",
    ".",
    ". ",
    ".  ",
    " . ",
    "\n",
    "a",
    "a. ",
    "a.  b",
    "a.\nb. \n c",
    "One. Two? Three!",
    'He said "No." Then left. (Really.) [1] Yes',
    "See e.g. Dr. Vane at 10 a.m. in the U.S. of A. now.",
    "v1.2.3 costs 3.5. Or 4",
    "end.Start again.And again",
    "你好。再见。 a",
    "Wait... what?! No.",
    "http://a.com/b.c?d=e. Next",
    "e\u0301.\u00a0Next.\u2003More",
    "logbook[17]. - Conduct checks",
]
# One word does something to the next: a longer emoticon over a blank keeps an abbreviation from being put together.
OVER_BLANKS = ["foo/o. O yes. No", "x-o. O? Y", "foo/o. O? Y", "foo/a. _. Bar", "a/o. O.", "foo/a. _ . Bar"]


@pytest.mark.parametrize("text", [*HAND, *OVER_BLANKS])
def test_sentences_are_those_of_spacy(text: str) -> None:
    assert sentence_spans(text) == their_spans(text)
    assert english().tokens(text) == their_tokens(text)


class OneByOne(Sentences):
    """Each word cut as if no other were there."""

    def _reaches(self, text: str, begin: int, end: int) -> bool:
        return False


def test_an_emoticon_over_a_blank_changes_where_a_sentence_ends() -> None:
    alone = OneByOne(english(), frozenset(marks()))
    assert alone.spans("foo/o. O? Y") != their_spans("foo/o. O? Y") == sentence_spans("foo/o. O? Y")


@given(st.lists(st.deferred(lambda: st.sampled_from(atoms())), max_size=20).map("".join))
@settings(max_examples=400)
def test_sentences_of_any_mixture_are_those_of_spacy(text: str) -> None:
    assert sentence_spans(text) == their_spans(text)


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_sentences_of_any_text_are_those_of_spacy(text: str) -> None:
    assert sentence_spans(text) == their_spans(text)


def test_thousands_of_random_strings_have_the_tokens_and_sentences_of_spacy() -> None:
    chance = random.Random(11)
    for text in random_texts(3_000, chance):
        assert sentence_spans(text) == their_spans(text), text
    for _ in range(3_000):
        text = "".join(chance.choices(atoms(), k=chance.randrange(1, 24)))
        assert sentence_spans(text) == their_spans(text), text
        assert english().tokens(text) == their_tokens(text), text


def test_words_longer_than_the_window_have_the_tokens_of_spacy() -> None:
    chance = random.Random(12)
    affixes = [
        *"()[]{}\"'.!?:;-_*…",
        "...",
        "'s",
        "km",
        "5km",
        "a.m.",
        ":)",
        "ab",
        "1",
        ",",
        "US$",
        "😀",
        "foo/",
        "@",
        "a.com",
    ]
    for _ in range(400):
        word = "".join(chance.choices(affixes, k=chance.randrange(10, 60)))
        word += chance.choice(["", "." * (3 * WINDOW), ")" * (2 * WINDOW)])
        word = chance.choice(["", "." * (3 * WINDOW), "(" * (2 * WINDOW)]) + word
        assert english().tokens(word) == their_tokens(word), word
        assert sentence_spans(word + " B.") == their_spans(word + " B."), word


def test_addresses_are_recognised_as_spacy_does() -> None:
    """Their pattern for the user before an @ is quadratic; ours is another that takes the same words."""
    chance = random.Random(13)
    pattern = theirs().tokenizer.url_match
    parts = ["a", "@", ":", ".", "http://", "b.com", "1.2.3.4", "/", "?", "x@y.org", "é", "#", "-", "_", ":80", "//"]
    words = ["".join(chance.choices(parts, k=chance.randrange(1, 12))) for _ in range(5_000)]
    assert [bool(english()._url(word)) for word in words] == [bool(pattern(word)) for word in words]
    assert sum(bool(pattern(word)) for word in words) > 100


@pytest.mark.skipif(not REAL.exists(), reason="the real answers are not beside the project")
def test_sentences_of_real_answers_are_those_of_spacy() -> None:
    answers = [
        answer for line in REAL.read_text("utf-8").splitlines() for answer in json.loads(line)["answers"].values()
    ]
    for answer in answers:
        for text in (
            answer["answer_string"],
            " ".join(answer["answer_string"].split()),
            answer["revised_answer_string"],
        ):
            assert sentence_spans(text) == their_spans(text)


HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: "(" * n + ".",
    "closing brackets": lambda n: "a." + ")" * n,
    "marks": lambda n: "!?" * (n // 2),
    "quotes": lambda n: '"' * n + "!",
    "emoji": lambda n: "😀" * n + ".",
    "smiles": lambda n: ":)" * (n // 2) + ".",
    "colons": lambda n: "a:" * (n // 2) + ".a",
    "query": lambda n: "http://a.b/" + "?." * (n // 2),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_word_costs_time_in_proportion_to_its_length(kind: str) -> None:
    """spaCy takes 5 to 13 seconds for 8,000 such signs, and four times that for 16,000."""
    sentence_spans("A warm start.")
    text = HOSTILE[kind](16_000)
    started = time.process_time()
    assert sentence_spans(text)
    assert time.process_time() - started < 4


def test_there_is_no_limit_of_length() -> None:
    text = "It is so. " * 120_000
    assert len(text) > 1_000_000
    assert len(sentence_spans(text)) == 120_000


def test_what_is_remembered_is_bounded() -> None:
    kept = Sentences(english(), frozenset(marks()), max_words=10)
    text = " ".join(f"word{number}. A" for number in range(100))
    assert kept.spans(text) == their_spans(text)
    assert kept._remembered.cache_info().currsize <= 10


@given(st.text(alphabet="ab. \n\t\u00a0[1]", max_size=60))
def test_folded_text_knows_where_its_words_were(text: str) -> None:
    folded = Folded(text, [])
    assert folded.text == " ".join(text.split())
    for start, end in sentence_spans(folded.text):
        low, high = folded.span(start, end)
        assert " ".join(text[low:high].split()) == folded.text[start:end]


def test_what_is_hidden_stays_with_the_sentence_before_it() -> None:
    text = "Tin melts.^1^  Lead ^2^ too.\n^3^ ^4^ Zinc"
    marks = [(at, at + 3) for at in range(len(text)) if text[at] == "^" and text[at + 2 : at + 3] == "^"]
    spans = folded_spans(text, marks)
    assert [text[start:end] for start, end in spans] == ["Tin melts.^1^", "Lead ^2^ too.\n^3^ ^4^", "Zinc"]


# ---------------------------------------------------------------- lists and tables


def listed(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in listed_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("---\n***\n", []),
        ("One. Two.", ["One.", "Two."]),
        ("Steps:\n1. Cut\n2. Glue\nThen wait.", ["Steps:", "Cut", "Glue", "Then wait."]),
        ("- one\n  more\n- two", ["one more", "two"]),
        ("- one\nand more\n\nText", ["one and more", "Text"]),
        ("Needs: 1) Oil 2) Heat", ["Needs:", "Oil", "Heat"]),
        ("Needs (1) oil (2) heat.", ["Needs (1) oil (2) heat."]),
        ("See part 1. It is short. Part 2. Is long.", ["See part 1.", "It is short.", "Part 2.", "Is long."]),
        ("| a | b |\n|:--|--:|\n| 1. | 2 |", ["a | b", "1. | 2"]),
        ("# Title\nText goes\non.", ["Text goes on."]),
        ("A wide - and - flat plain.", ["A wide - and - flat plain."]),
    ],
)  # fmt: skip
def test_items_and_rows_stand_apart(text: str, expected: list[str]) -> None:
    assert listed(text) == expected


def test_a_very_long_sentence_is_cut_at_its_semicolons() -> None:
    part = "a part of the list that goes on for more than a hundred signs, because it has so very much to say about it"
    assert listed(f"These are: {part}; {part}; {part}.") == [f"These are: {part};", f"{part};", f"{part}."]
    assert listed("Short: a; b; c.") == ["Short: a; b; c."]


@given(
    st.lists(st.sampled_from([*'ab.:;-*|#1()[]"', "1. ", "2. ", "- ", "\n", " ", "\n\n", "| "]), max_size=40).map(
        "".join
    )
)
@settings(max_examples=300)
def test_listed_spans_are_in_order_apart_and_lose_no_word(text: str) -> None:
    spans = listed_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    kept = sum(text.count(letter, *span) for span in spans for letter in "ab")
    assert kept == text.count("a") + text.count("b")


def test_planted_lists_are_found_better_than_by_the_plain_splitter() -> None:
    def recall(spans: Callable[[str], Spans]) -> float:
        found = [{" ".join(text[start:end].split()) for start, end in spans(text)} for text, _ in PLANTED]
        return sum(len(set(named) & had) for (_, named), had in zip(PLANTED, found, strict=True))

    assert recall(listed_spans) > 2 * recall(folded_spans)


@pytest.mark.parametrize(
    "text", ["1. " * 30_000, "| " * 50_000, "- A " * 30_000, "\n" * 100_000, "> " * 50_000, "#" * 99_999]
)
def test_hostile_lists_cost_little(text: str) -> None:
    started = time.process_time()
    listed_spans(text)
    assert time.process_time() - started < 5
