"""Near-duplicates, runs of words and short questions in common, against sets of n-grams made by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.text.copies.contamination import COMMON, NEAR, OVERLAP, RUN, SAME, Index, Match, Text, plain_words

WORDS = [f"w{number}" for number in range(400)]


def evaluated(*texts: str, asks: bool = False) -> list[Text]:
    return [Text(text, number, 0, asks) for number, text in enumerate(texts)]


def found(index: Index, text: str, *, asks: bool = False) -> Match | None:
    return index.matches([(text, asks)])[0]


def drawn(seed: int, size: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=size))


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


def expected(text: str, others: list[str], similarity: float) -> str | None:
    """The measure by which a text is one with another, by sets."""
    own, long = grams(text, 3), [other for other in others if len(other.split()) >= RUN]
    if len(text.split()) >= RUN and any(
        len(own & grams(other, 3)) / len(own | grams(other, 3)) >= similarity for other in long
    ):
        return NEAR
    return OVERLAP if any(grams(text, RUN) & grams(other, RUN) for other in others) else None


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.8, 1.0])
def test_what_is_found_is_what_sets_of_grams_say(similarity: float, tmp_path: Path) -> None:
    draw = random.Random(7)
    others = [drawn(seed, draw.randint(3, 60)) for seed in range(120)]
    texts = []
    for seed in range(400):
        words = draw.choice(others).split()
        start, size = draw.randrange(len(words)), draw.randint(10, 16)
        for _ in range(draw.randint(0, 8)):
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        planted = [*drawn(1_000 + seed, 20).split(), *draw.choice(others).split()[start : start + size], "end"]
        texts.append(" ".join(draw.choice([words, planted])))
    index = Index.of(evaluated(*others), similarity)
    index.save(tmp_path / "index")
    for each in (index, Index.load(tmp_path / "index", similarity)):
        matches = each.matches([(text, False) for text in texts])
        assert [match and match.measure for match in matches] == [expected(text, others, similarity) for text in texts]
        for text, match in zip(texts, matches, strict=True):
            if match:
                assert expected(text, [others[match.number]], similarity) == match.measure
    kinds = {match and match.measure for match in matches}
    assert kinds == ({NEAR, OVERLAP, None} if similarity < 1 else kinds)


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=30), min_size=1, max_size=5), st.data())
def test_few_words_that_repeat_are_found_as_sets_say(texts: list[list[str]], data: st.DataObject) -> None:
    others = [" ".join(words) for words in texts]
    text = " ".join(data.draw(st.lists(st.sampled_from("abcd"), max_size=30)))
    match = found(Index.of(evaluated(*others), 0.5), text)
    assert (match and match.measure) == expected(text, others, 0.5)


@pytest.mark.parametrize("size", [RUN - 1, RUN, RUN + 4])
def test_a_run_of_thirteen_words_counts_and_one_of_twelve_does_not(size: int) -> None:
    other = drawn(1, 80)
    index = Index.of(evaluated(drawn(2, 50), other), 0.5)
    match = found(index, f"{drawn(3, 40)} here {' '.join(other.split()[30 : 30 + size])} there {drawn(4, 40)}")
    assert match == (None if size < RUN else Match(1, OVERLAP, float(size)))


@pytest.mark.parametrize(
    "changed",
    [
        "The **salt** water _on the road_ freezes at a [lower temperature](https://ice.example/a/b) than plain water does in my cellar",  # noqa: E501
        "the salt-water on the road freezes at a lower temperature than plain water does in my cellar",
        "THE SALT WATER ON THE ROAD, FREEZES AT A ‘LOWER’ TEMPERATURE: THAN PLAIN WATER; DOES IN MY CELLAR",
        "the salt water on the ro\u00adad freezes at a lower temp\u200berature than plain water does in my cellar",
        "> the salt water on the road\n> freezes at a lower temperature\n> than plain water does in my cellar",
        "the ｓａｌｔ water on the road freezes at a lower temperature than plain water does in my cellar",
    ],
)
def test_how_a_text_is_set_hides_nothing(changed: str) -> None:
    plain = "the salt water on the road freezes at a lower temperature than plain water does in my cellar"
    index = Index.of(evaluated(f"{drawn(1, 60)} {plain} {drawn(2, 60)}"), 0.5)
    match = found(index, f"{drawn(3, 60)} {changed} {drawn(4, 60)}")
    assert match is not None
    assert match.measure == OVERLAP


def test_composed_and_decomposed_letters_are_the_same_words() -> None:
    assert plain_words("Cafe\u0301 cr\u00e8me") == plain_words("caf\u00e9 cre\u0300me") == ["café", "crème"]


def test_a_short_phrase_in_common_is_none() -> None:
    index = Index.of(evaluated("To be or not to be, that is the question.", f"{drawn(1, 30)} to be or not to be"), 0.5)
    assert found(index, f"{drawn(2, 30)} to be or not to be that is the question {drawn(3, 30)}") is None
    assert found(index, "To be or not to be, that is the question.") is None  # no question, and short


def test_a_run_that_stands_in_many_texts_of_one_set_is_common() -> None:
    licence = drawn(1, RUN)
    texts = [Text(f"{drawn(seed, 40)} {licence} {drawn(-seed - 1, 40)}", seed, 0, False) for seed in range(COMMON + 1)]
    asked = f"{drawn(500, 40)} {licence} {drawn(501, 40)}"
    assert found(Index.of(texts, 0.5), asked) is None
    assert found(Index.of(texts[:-1], 0.5), asked) == Match(0, OVERLAP, float(RUN))
    of_one_post = [text._replace(group=0) for text in texts]
    of_two_sets = [text._replace(family=number % 2) for number, text in enumerate(texts)]
    assert all(found(Index.of(each, 0.5), asked) for each in (of_one_post, of_two_sets))


def test_a_short_question_or_a_title_is_the_same_question() -> None:
    index = Index.of(evaluated("Why is the sky blue?", f"How do I reset a router?\n\n{drawn(1, 40)}", asks=True), 0.5)
    assert found(index, f"why is the sky blue\n\n{drawn(2, 60)}", asks=True) == Match(0, SAME, 5.0)
    other = found(index, "How do I reset a router", asks=True)
    assert other == Match(1, SAME, 6.0)
    assert found(index, "Why is the sky blue?") is None  # an answer
    assert found(index, "How do I reset a password?", asks=True) is None
    assert found(Index.of(evaluated("Any ideas?", asks=True), 0.5), "Any ideas?", asks=True) is None


def test_an_index_without_texts_and_texts_without_words_find_nothing() -> None:
    assert Index.of([], 0.5).matches([("", True), (drawn(1, 40), False)]) == [None, None]
    index = Index.of(evaluated("", "?", drawn(1, 40)), 0.5)
    assert index.matches([("", True), ("!", False)]) == [None, None]
    assert index.matches([]) == []


def test_batches_change_nothing() -> None:
    index = Index.of(evaluated(*(drawn(seed, 50) for seed in range(50))), 0.5)
    texts = [(f"{drawn(seed, 50)} more {seed}", False) for seed in range(0, 100, 3)]
    assert index.matches(texts) == [found(index, text) for text, _ in texts]
