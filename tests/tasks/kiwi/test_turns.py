"""Turns and their sides: what is dropped, splits by question and by turn, edit distances by another library."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row
from schemas.kiwi import ASKED, QUESTIONS, SESSIONS, TURN, TURNS
from tasks.kiwi.sessions.turns import collect_sessions, list_turns, measure_edits, side_of_question, split_turns
from tasks.sources.papers.named import title_id


def turn(session: str, position: int, **given: Any) -> Row:
    own = {"question_id": session, "question": f"What is {session}?", "origin": "released", "rating": "good"}
    return filled(TURNS, turn_id=f"{session}#{position}", session_id=session, position=position, **{**own, **given})


def session(key: str, *turns: Row, **given: Any) -> Row:
    own = {"question_id": f"q_{key}", "question": f"What is {key}?", "origin": "released", "turns": list(turns)}
    return filled(SESSIONS, session_id=key, **{**own, **given})


def shown(passage_id: str | None, title: str) -> Row:
    return {"passage_id": passage_id, "title": title, "text": "So."}


def of(position: int, rating: str, edited: str | None = None, **given: Any) -> Row:
    return filled(TURN, position=position, rating=rating, edited=edited, **given)


# ---------------------------------------------------------------- sessions


def test_a_session_takes_the_id_of_the_question_with_the_same_words(tmp_path: Path) -> None:
    home = Home(tmp_path)
    questions = [filled(QUESTIONS, question_id="mine", question="what is A"), filled(QUESTIONS, question_id="q_b")]
    read = [session("a", question="What is a?"), session("b"), session("c")]
    made = home.run(
        collect_sessions,
        home.table(SESSIONS, read),
        home.table(SESSIONS, [], [session("a", origin="simulated")]),
        home.table(QUESTIONS, questions),
        home.table(ASKED, []),
    )
    assert {row["session_id"]: row["question_id"] for row in made} == {"a": "mine", "b": "q_b", "c": "q_c"}
    assert home.rejected(made) == {"a": "a session that comes again"}


@pytest.mark.parametrize(
    ("passage", "is_gone"),
    [
        (shown("q_a/s2/1#0", ""), True),
        (shown("q_a/s2/11#0", ""), False),
        (shown("other/s2/1#0", ""), False),
        (shown(None, "Paper ONE"), True),
        (shown(None, "Paper two"), False),
        (shown("q_a/doi/10.1/x#y#3", ""), True),
        (shown(None, "Listed by title"), True),
    ],
)
@pytest.mark.parametrize("of_turn", [True, False])
def test_a_session_that_shows_a_passage_of_a_paper_that_is_taken_down_is_rejected(
    tmp_path: Path, passage: Row, is_gone: bool, of_turn: bool
) -> None:
    home = Home(tmp_path)
    row = session("a", of(1, "good", passages=[passage] if of_turn else []), passages=[] if of_turn else [passage])
    asked = filled(ASKED, question_id="q_z", evidence=[{"paper_id": "s2/1", "title": "paper one"}])
    made = home.run(
        collect_sessions,
        home.table(SESSIONS, [row]),
        home.table(SESSIONS, []),
        home.table(QUESTIONS, []),
        home.table(ASKED, [asked]),
        takedowns=["s2/1", "doi/10.1/x#y", title_id("Listed by title")],
    )
    assert home.rejected(made) == ({"a": "taken down"} if is_gone else {})
    assert made.count == (not is_gone)


def test_turns_say_whether_their_answer_is_dropped() -> None:
    row = session("a", of(1, "bad"), of(2, "bad", "As I want it."), of(3, "neutral"), of(4, "good"))
    assert [(each["turn_id"], each["dropped"]) for each in list_turns.body(None, [row])] == [
        ("a#1", True), ("a#2", False), ("a#3", False), ("a#4", False),
    ]  # fmt: skip


# ---------------------------------------------------------------- sides


def split(path: Path, rows: list[Row], split_by: str, seed: int = 0) -> dict[str, str]:
    home = Home(path)
    made = home.run(split_turns, home.table(TURNS, rows), split_by=split_by, seed=seed)
    return {row["turn_id"]: row["split"] for row in made}


@pytest.mark.parametrize("seed", [0, 4])
def test_1260_turns_are_split_by_turns_as_in_the_paper_and_simulated_ones_do_not_count(
    tmp_path: Path, seed: int
) -> None:
    real = [turn(f"s{n}", place) for n in range(252) for place in range(1, 6)]
    sides = split(tmp_path, [*real, *(turn(f"x{n}", 1, origin="simulated") for n in range(40))], "turns", seed)
    assert Counter(sides.values()) == {"train": 888, "validation": 186, "test": 186, "simulated": 40}


def test_all_turns_of_a_question_stand_on_one_side_and_new_ones_move_nothing(tmp_path: Path) -> None:
    rows = [turn(f"s{n}", place, question=f"What is {n % 80}?") for n in range(200) for place in (1, 2)]
    before = split(tmp_path / "a", rows[:240], "questions")
    after = split(tmp_path / "b", rows, "questions")
    assert {name: after[name] for name in before} == before
    of_question = {}
    for row in rows:
        assert of_question.setdefault(row["question"], after[row["turn_id"]]) == after[row["turn_id"]]


def test_sides_of_questions_have_the_papers_shares_on_average_whatever_case_and_marks() -> None:
    sides = Counter(side_of_question(f"What is {n}?", 1) for n in range(20_000))
    for side in ("validation", "test"):
        assert sides[side] / 20_000 == pytest.approx(186 / 1_260, abs=0.01)
    assert all(side_of_question(f"What is {n}?", 1) == side_of_question(f"  what is {n}", 1) for n in range(300))


# ---------------------------------------------------------------- edits


def measured(before: str, answer: str, **given: Any) -> list[Any]:
    row = turn("a", 1, before=before, answer=answer, instruction="Say more of it.", **given)
    return list(measure_edits.body(None, kept_as_table([row])))


class kept_as_table(list[Row]):  # noqa: N801
    """Rows with the one method of Rows that is used."""

    def as_dicts(self, *names: str) -> list[Row]:
        return [{name: row[name] for name in names} for row in self]


@pytest.mark.parametrize(
    ("before", "answer", "distance"),
    [
        ("one two three", "one two three", 0),
        ("one two three", "one three", 1),
        ("one two three", "one 2 three", 1),
        ("one two three", "three two one", 2),
        ("one two  three\n", "one two three four five", 2),
        ("", "one two", 2),
        ("One.", "one.", 1),
    ],
)
def test_an_edit_is_measured_in_words_between_white_space(before: str, answer: str, distance: int) -> None:
    (row,) = measured(before, answer)
    words, after = len(before.split()), len(answer.split())
    assert (row["edit_distance"], row["source_words"], row["target_words"], row["instruction_words"]) == (
        distance, words, after, 4,
    )  # fmt: skip
    assert row["edit_ratio"] == (distance / words if words else None)
    assert row["length_ratio"] == (after / words if words else None)


@pytest.mark.parametrize(
    ("rating", "edited", "target"),
    [
        ("good", None, "answer"),
        ("good", "Edited.", "edited"),
        ("neutral", "Edited.", "edited"),
        ("bad", "Edited.", "edited"),
        ("neutral", None, None),
        ("bad", None, None),
    ],
)
def test_the_target_is_the_edited_answer_else_a_good_one(rating: str, edited: str | None, target: str | None) -> None:
    items = measured("Before.", "Answer here.", rating=rating, edited=edited)
    assert [row["target"] for row in kept(items)] == ([target] if target else [])
    assert refused(items) == ([] if target else [("a#1", "neither good nor edited")])
    assert [row["target_words"] for row in kept(items)] == ([2 if target == "answer" else 1] if target else [])


WORDS = st.lists(st.sampled_from("abc"), max_size=7)


@given(WORDS, WORDS)
def test_the_distance_is_nltks_and_a_metric(one: list[str], other: list[str]) -> None:
    from nltk.metrics.distance import edit_distance

    (row,) = measured(" ".join(one), " ".join(other))
    (back,) = measured(" ".join(other), " ".join(one))
    assert row["edit_distance"] == back["edit_distance"] == edit_distance(one, other)
    assert abs(len(one) - len(other)) <= row["edit_distance"] <= max(len(one), len(other))
