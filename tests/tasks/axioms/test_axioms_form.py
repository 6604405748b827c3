"""The form of axioms' pairs: what it shows and hides, what it takes, and that the page's rules are those of files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from longform.artifacts.rows import Row
from tasks.annotation import sheets as written_as
from tasks.annotation.form import arranged
from tasks.annotation.labelling import Labelling, check
from tasks.annotation.values import Unfit
from tasks.axioms.people.form import FLAWS, FORM, tasks


def pair(key: str, preferred: str = "Bake it hot.", rejected: str = "Bake it cold.") -> Row:
    told = {"question": "How hot?", "evidence": ["[1] 230 degrees."], "pair_type": "open_book > human (2)"}
    return {"pair_id": key, "preferred": preferred, "rejected": rejected, **told}


PAIRS = [pair(f"p_{number}", f"Good {number}.", f"Poor {number}.") for number in range(40)]


def test_a_sheet_shows_two_texts_in_either_order_and_nothing_that_tells_which_is_preferred() -> None:
    drawn = arranged(FORM, tasks(PAIRS), 3)
    firsts = [task.texts["text_a"].split()[0] for task in drawn]
    assert 5 < firsts.count("Good") < 35
    for task in drawn:
        shown = json.dumps(written_as.sheet(FORM, task))
        assert not [word for word in ("open_book", "human", "prefer" + "red", "votes") if word in shown]


def test_pairs_of_equal_texts_are_not_asked_about() -> None:
    assert [task.id for task in tasks([pair("p_1", "Same  text.", "Same text."), pair("p_2")])] == ["p_2"]


SAID: dict[str, Any] = {
    "preference": "A",
    "strength": "slightly",
    "score_a": "7",
    "score_b": 3,
    "flaws_b": ["too broad"],
}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"flaws_a": "unclear\n---\nrepetitive"}, None),
        ({"preference": "neither"}, "a tie: one of the two is at least slightly better"),
        ({"strength": None}, "a preference without its strength"),
        ({"score_a": 11}, "outside the scale"),
        ({"score_a": 5.5}, "outside the scale"),
        ({"flaws_a": ["boring"]}, "unknown label"),
    ],
)
def test_what_people_say_of_a_pair_is_checked(more: dict[str, Any], reason: str | None) -> None:
    (task,) = tasks([pair("p_1")])
    values = {("", name): value for name, value in {**SAID, **more}.items() if value is not None}
    labelling = Labelling(
        "jsonl", "p_1", "ann", values, {("", "text_a"): "Bake it hot.", ("", "text_b"): "Bake it cold."}
    )
    found = check(FORM, labelling, {"p_1": task}, {}, "")
    assert [unfit.reason for unfit in found.wrong] == ([reason] if reason else [])
    if reason is None:
        assert found.values["", "score_a"] == 7
        assert set(found.values["", "flaws_b"]) <= set(FLAWS)


def test_a_sheet_with_other_texts_is_refused() -> None:
    (task,) = tasks([pair("p_1")])
    shown = {("", "text_a"): "Another text.", ("", "text_b"): "Bake it cold."}
    with pytest.raises(Unfit, match="texts that are not those of this build"):
        check(FORM, Labelling("jsonl", "p_1", "ann", {("", "preference"): "A"}, shown), {"p_1": task}, {}, "")
