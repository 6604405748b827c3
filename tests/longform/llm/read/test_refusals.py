"""Replies that decline, and replies that only sound so: by hand, in sixteen languages, and of real people."""

from __future__ import annotations

import re
import time
from collections import Counter
from html import unescape

import paths
import pytest

from longform.llm.read.refusals import refusal_in

REFUSAL = "I'm sorry, but I can't help with that."
LANGUAGES = {"en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "tr", "ar", "hi", "zh", "ja", "ko"}
SITES = paths.REAL_DATA / "stackexchange"


def written(name: str) -> list[tuple[str, str, str]]:
    """(label, language, text) of a file of our own sentences: `refusal` or `answer`."""
    lines = (paths.TEST_DATA / name).read_text("utf-8").splitlines()
    return [
        (label, language, text.replace("\\n", "\n")) for label, language, text in (each.split("\t") for each in lines)
    ]


def rates(name: str) -> tuple[float, float]:
    """(precision, recall) on a file of our own sentences."""
    counted = Counter((label, refusal_in(text) is not None) for label, _, text in written(name))
    right = counted["refusal", True]
    return right / (right + counted["answer", True]), right / (right + counted["refusal", False])


def test_refusals_are_told_from_answers_in_sentences_that_no_phrase_was_chosen_for() -> None:
    precision, recall = rates("refusals_held_out.tsv")
    assert precision >= 0.97
    assert recall >= 0.9


def test_refusals_are_told_from_answers_in_the_sentences_they_were_chosen_for() -> None:
    assert rates("refusals.tsv") == (1.0, 1.0)


@pytest.mark.parametrize("name", ["refusals.tsv", "refusals_held_out.tsv"])
def test_the_sentences_to_measure_by_have_all_languages(name: str) -> None:
    for label in ("refusal", "answer"):
        assert {language for each, language, _ in written(name) if each == label} == LANGUAGES


def test_no_sentence_to_measure_by_is_in_both_files() -> None:
    texts = [text for name in ("refusals.tsv", "refusals_held_out.tsv") for _, _, text in written(name)]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "  \n{}\n",
        "Sure! Here is my response:\n\n{}",
        "<think>It asks for a lie.</think>\n\nHere's the rewritten passage:\n{}",
        "Natürlich, hier ist der Text:\n\n{}",
        "好的，以下是我的回答：{}",
        "**{}**",
        "*{}*",
        '"{}"',
        "“{}”",
        "```\n{}\n```",
        "```text\n{}\n```",
        "# Answer\n\n{}",
        "**Answer:** {}",
        "Response: {}",
        "🙏 {}",
        "{}\n=====",
        "<think>Shall I? No.</think>\n{}",
        "Shall I? No.\n</think>\n\n{}",
        '{{"answer": "{}"}}',
        '{{"claim": [], "text": "{}"}}',
        "{} Please let me know if there is anything else I can do for you.",
        "{}\n\nI'd be happy to help with something else, such as checking the text for errors.",
    ],
)
@pytest.mark.parametrize("apostrophe", ["'", "’"])
def test_a_refusal_is_found_whatever_stands_around_it(around: str, apostrophe: str) -> None:
    assert refusal_in(around.format(REFUSAL).replace("'", apostrophe)) == "i'm sorry, but i can't help"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "=====",
        "</think>",
        '"',
        "{",
        '{"a": ' * 2_000,
        "[1, 2]",
        f'"{REFUSAL}" is what it said each time. Restart it.',
        f"> {REFUSAL}\n\nTurn the filter off.",
        f"- {REFUSAL}\n- I will not come.\n- No.",
        f"You should say: {REFUSAL}",
        f'Here is what to say:\n\n"{REFUSAL}"',
        f"{REFUSAL} However, usually the fuse is blown: open the case and check it.",
        f"{REFUSAL}\n\n" + "The kettle takes two litres of water and boils it in four minutes. " * 12,
        f"{REFUSAL}\n\n```python\nprint(1)\n```",
    ],
)
def test_what_quotes_a_refusal_or_goes_on_to_answer_is_none(text: str) -> None:
    assert refusal_in(text) is None


def test_answers_of_real_people_are_no_refusals() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    bodies = [
        unescape(unescape(body))
        for path in sorted(SITES.glob("*_20*/Posts.xml"))
        for body in re.findall(r'PostTypeId="2"[^>]*? Body="([^"]*)"', path.read_text("utf-8-sig"))
    ]
    assert len(bodies) > 1_900
    assert [body for body in bodies if refusal_in(re.sub(r"<[^>]*>", "", body))] == []


@pytest.mark.parametrize(
    "unit",
    [
        "i understand ,",
        "sorry ",
        "sorry, but ",
        "thank you for a, ",
        "i cannot simply ",
        "ich kann nicht ",
        "bu ",
        "その",
        '"',
        "# a\n",
    ],
)
def test_no_reply_makes_the_search_slow(unit: str) -> None:
    started = time.perf_counter()
    refusal_in(unit * 20_000)
    assert time.perf_counter() - started < 0.5


@pytest.mark.check
def test_a_stored_answer_costs_some_microseconds() -> None:
    text = "Brown spots on the leaves of a basil plant mean that it stood in water for too long. " * 12
    refusal_in(text)
    rounds = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(500):
            refusal_in(text)
        rounds.append((time.perf_counter() - started) / 500)
    assert min(rounds) < 10e-6
