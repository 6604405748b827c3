"""What leaks from one side of a split to the other, on files written for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from longform.artifacts.rows import read_parquet
from tasks.publishing.leaks import Memorised, SharedQuestions, SharedTexts, memory_of_train

TEXTS = SharedTexts("pairs", "pair_id", ("question", "preferred", "rejected"), ("evidence",))
QUESTIONS = SharedQuestions("pairs", "question_id", "question")
LONG = "How long does a pot of green tea stay fresh in the fridge before it turns bitter"


def row(number: int, question: str, preferred: str, rejected: str, evidence: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "pair_id": f"p{number:05}",
        "question_id": f"q{number:05}",
        "question": question,
        "preferred": preferred,
        "rejected": rejected,
        "evidence": list(evidence),
        "axiom": number % 2,
    }


def files(folder: Path, **sides: list[dict[str, Any]]) -> dict[str, dict[str, list[Path]]]:
    found = {}
    for side, rows in sides.items():
        found[side] = [folder / f"{side}.parquet"]
        pd.DataFrame(rows).to_parquet(found[side][0])
    return {"pairs": found}


CLEAN = [row(0, "What is tea?", "A leaf.", "A root."), row(1, "Who drinks it?", "People.", "Fish.", ("They do.",))]


@pytest.mark.parametrize(
    ("leak", "place"),
    [
        (row(2, "Why?", " a  LEAF.", "No."), "preferred"),
        (row(2, "Why?", "No.", "Fish."), "rejected"),
        (row(2, "Why?", "No.", "So.", ("They\ndo.", "Else.")), "evidence"),
        (row(2, "Why?", "No.", "So.", ("A root.",)), "evidence"),
        (row(2, "What is tea?", "No.", "So."), "question"),
        (row(2, "Why?", "They do.", "So."), "preferred"),
    ],
)
def test_a_text_of_test_that_stands_in_train_wherever_is_found(
    tmp_path: Path, leak: dict[str, Any], place: str
) -> None:
    (found,) = TEXTS(files(tmp_path, train=CLEAN, test=[row(9, "Where?", "Here.", "There."), leak], overlap=CLEAN))
    assert (found.split, found.key, found.what) == ("test", "p00002", f"{place}: stands in train too")


def test_other_texts_and_a_version_of_one_side_are_clean(tmp_path: Path) -> None:
    both = files(tmp_path, train=CLEAN, test=[row(9, LONG, "A leaf", "A root!")])
    for audit in (TEXTS, QUESTIONS, Memorised("pairs", "axiom")):
        assert [*audit(both), *audit({"pairs": {"train": both["pairs"]["train"]}}), *audit({})] == []


def test_a_question_in_nearly_the_same_words_is_found_on_the_other_side_only(tmp_path: Path) -> None:
    asked = [row(0, LONG, "a", "b"), row(1, LONG + " though", "c", "d")]
    (found,) = QUESTIONS(files(tmp_path, train=asked[:1], test=asked[1:]))
    assert (found.key, found.what) == ("q00001", "nearly the words of q00000 of train")
    assert list(QUESTIONS(files(tmp_path, train=asked, test=CLEAN))) == []


def test_the_worth_of_a_memory_is_counted_with_ties_as_one_half(tmp_path: Path) -> None:
    train = [row(n, f"q{n}", "good" if n % 4 == 0 else f"a{n}", f"b{n}") for n in range(40)]
    test = [
        row(100, "x", "good", "new"),
        row(102, "y", "new", "good"),
        row(104, "z", "good", "other"),
        row(101, "v", "n", "m"),
    ]
    sides = files(tmp_path, train=train, test=test)["pairs"]
    shares = {
        value: (pairs, share)
        for value, pairs, share, _ in memory_of_train(
            *(read_parquet(sides[name]) for name in ("train", "test")), "axiom"
        )
    }
    assert shares == {0: (3, pytest.approx(2 / 3)), 1: (1, 0.5)}


def test_a_memory_that_is_worth_something_is_found_per_axiom(tmp_path: Path) -> None:
    train = [row(n, f"q{n}", f"a{n}", f"shared {n // 2}") for n in range(0, 400, 2)]
    leaky = [row(n, f"t{n}", f"shared {(n - 1000) // 2}", f"c{n}") for n in range(1000, 1400, 2)]
    (found,) = Memorised("pairs", "axiom")(files(tmp_path, train=train, test=leaky))
    assert (found.key, found.what) == ("axiom 0", "who remembers train is right on 0.0% of 200 pairs")
    few = leaky[:1] + [row(n, f"t{n}", f"x{n}", f"y{n}") for n in range(2000, 2200, 2)]
    assert list(Memorised("pairs", "axiom")(files(tmp_path, train=train, test=few))) == []
