"""TER: values by hand, the package sacrebleu where it is installed, and its bounds."""

from __future__ import annotations

import random
import time

import pytest

from tasks.metrics.ter import MOST_WORDS, ter


@pytest.mark.parametrize(
    ("text", "reference", "score"),
    [
        ("a b c", "a b c", 0),
        ("A b", "a B", 0),
        ("a b x d", "a b c d", 25),
        ("a b d", "a b c d", 25),
        ("", "a b", 100),
        ("", "", 0),
        ("c d e a b", "a b c d e", 20),  # one shift
        ("今天天气很好", "今天天气很好了", 100 / 7),
        ("我们 去公园", "我们去公园", 0),
        ("ภาษาไทย", "ภาษาไท", 100 / 6),
    ],
)
def test_values_by_hand(text: str, reference: str, score: float) -> None:
    assert ter(text, reference).score == pytest.approx(score)


def test_what_has_no_value_says_why() -> None:
    assert ter("a", "") == (None, "the reference has no words")
    assert ter("a", "a " * (MOST_WORDS + 1)) == (None, "more than 1,000 words in one of the texts")


def test_reordered_words_take_no_time() -> None:
    chance = random.Random(1)
    words = [f"w{n}" for n in range(800)]
    began = time.process_time()
    for other in (words[400:] + words[:400], chance.sample(words, 800)):
        assert ter(" ".join(other), " ".join(words)).score is not None
    assert time.process_time() - began < 3


def test_it_is_that_of_sacrebleu_but_for_ties() -> None:
    metric = pytest.importorskip("sacrebleu.metrics").TER()
    chance = random.Random(3)
    equal = 0
    for _ in range(60):
        reference = chance.choices("abcdefghijklmnopqrstuvw", k=20)
        at = chance.randrange(15)
        text = reference[:at] + reference[at + 4 :] + reference[at : at + 4]
        given, wanted = " ".join(text), " ".join(reference)
        equal += abs((ter(given, wanted).score or 0) - metric.sentence_score(given, [wanted]).score) < 1e-6
    assert equal >= 54
