"""Which texts are changed and how, what becomes of the replies, and what is a test text then."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given
from hypothesis import strategies as st
from revision_drafts import SAID, Scripted
from revision_rows import fields

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row, Rows
from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Request
from schemas.llmcrit import ASPECTS, CHANGED, CRITERIA, CRITERION, DRAWN
from tasks.llmcrit.texts.changes import change_texts, plan_changes, satisfaction, take_texts, verify_changes

NAMES = ("violate", "meet", "meet_or_leave", "verify")
PROMPT = {name: load_prompt(f"llmcrit/{name}", PROMPTS) for name in NAMES}
VOICES = {"jars": {"role": "a cook", "noun": "label"}}
IDS = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=8, unique=True)
ALL = {"jars": [1, 2, 3, 4], "lids": [1, 2]}


@given(st.integers(1, 4), IDS, st.text(max_size=4))
def test_a_satisfaction_vector_has_the_values_of_its_kind_in_any_order(kind: int, ids: list[str], draw: str) -> None:
    vector = satisfaction(kind, ids, draw)
    assert satisfaction(kind, ids[::-1], draw) == vector[::-1]
    assert len(vector) == len(ids)
    if kind in (1, 4):
        assert set(vector) == {kind == 4}
    else:
        assert set(vector) <= {None, kind == 2}
        assert 1 <= len(vector) - vector.count(None) <= max(1, len(ids) - 1)


@pytest.mark.parametrize("number", [2, 3, 5, 11])
def test_over_many_draws_each_criterion_is_drawn_in_half_of_them_and_each_set_occurs(number: int) -> None:
    ids, draws = [f"c{n}" for n in range(number)], 4_000
    vectors = [satisfaction(3, ids, f"{draw}") for draw in range(draws)]
    from scipy.stats import binom

    low, high = binom.ppf([1e-6, 1 - 1e-6], draws, 0.5)
    assert all(low <= sum(vector[n] is False for vector in vectors) <= high for n in range(number))
    assert all(0 < vector.count(None) < number for vector in vectors)
    assert number > 5 or len(set(map(tuple, vectors))) == 2**number - 2


def text(key: str, use: str = "demonstration", task: str = "jars", **given: Any) -> Row:
    return filled(DRAWN, text_id=f"{task}/{key}", task=task, use=use, text=f"Text {key}.", source_id=key, **given)


def aspect(key: str, task: str = "jars") -> Row:
    return filled(ASPECTS, aspect_id=f"{task}/{key}", task=task, name=key, guideline=f"How to {key}.")


def criterion(key: str, of: Row, position: int) -> Row:
    told = {"name": key.title(), "check": f"Is it {key}?", "aspect_id": of["aspect_id"], "task": of["task"]}
    return filled(CRITERIA, criterion_id=key, position=position, **told)


A, B, BARE, LID = aspect("fill"), aspect("label"), aspect("bare"), aspect("close", "lids")
CRITERIA_ROWS = [criterion("a2", A, 2), criterion("b1", B, 1), criterion("a1", A, 1), criterion("l1", LID, 1)]


def planned(path: Path, drawn: list[Row], kinds: dict[str, list[int]] = ALL, seed: int = 0) -> tuple[Rows, Home]:
    home = Home(path)
    tables = home.table(ASPECTS, [A, B, BARE, LID]), home.table(CRITERIA, CRITERIA_ROWS)
    return home.run(plan_changes, home.table(DRAWN, drawn), *tables, kinds=kinds, seed=seed), home


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9])
def test_each_aspect_gets_a_demonstration_of_each_kind_of_other_texts(tmp_path: Path, number: int) -> None:
    drawn = [text(f"t{n}") for n in range(number)] + [text("t0", task="lids")]
    rows, home = planned(tmp_path, drawn)
    by_aspect = defaultdict(list)
    for row in rows:
        by_aspect[row["aspect_id"]].append((row["kind"], row["position"], row["text_id"]))
        assert (row["use"], row["original"]) == ("demonstration", f"Text {row['text_id'].split('/')[1]}.")
        assert row["task"] == row["text_id"].split("/")[0] == row["aspect_id"].split("/")[0]
    assert by_aspect.keys() == {"jars/fill", "jars/label", "lids/close"}
    for of, changes in by_aspect.items():
        kinds = ALL[of.split("/")[0]]
        assert sorted(each[:2] for each in changes) == [(kind, place) for place, kind in enumerate(kinds, 1)]
        uses = Counter(each[2] for each in changes)
        assert len(uses) == min(len(kinds), number if "jars" in of else 1)
        assert max(uses.values()) - min(uses.values()) <= 1
    assert len({row["change_id"] for row in rows}) == rows.count == 10
    assert set(home.rejected(rows)) == {row["text_id"] for row in drawn}.difference(row["text_id"] for row in rows)


def test_a_change_has_all_criteria_of_its_aspect_in_order_with_what_is_wanted(tmp_path: Path) -> None:
    rows, _ = planned(tmp_path, [text(f"t{n}") for n in range(4)])
    wanted = {row["kind"]: row["criteria"] for row in rows if row["aspect_id"] == "jars/fill"}
    names = [("a1", "A1", "Is it a1?"), ("a2", "A2", "Is it a2?")]
    assert all([tuple(each.values())[:3] for each in criteria] == names for criteria in wanted.values())
    vectors = {kind: [each["satisfied"] for each in criteria] for kind, criteria in wanted.items()}
    assert {kind: Counter(vector) for kind, vector in vectors.items()} == {
        1: {False: 2}, 2: {True: 1, None: 1}, 3: {False: 1, None: 1}, 4: {True: 2},
    }  # fmt: skip


def test_each_test_text_to_be_modified_violates_some_of_one_aspect_that_is_drawn(tmp_path: Path) -> None:
    drawn = [text(f"t{n}", "test", modified=n % 2 == 0) for n in range(400)]
    rows, home = planned(tmp_path, drawn, {})
    assert [row["text_id"] for row in rows] == [row["text_id"] for row in drawn if row["modified"]]
    assert {(row["kind"], row["position"], row["use"]) for row in rows} == {(3, 1, "test")}
    from scipy.stats import binom

    low, high = binom.ppf([1e-6, 1 - 1e-6], 200, 0.5)
    count = Counter(row["aspect_id"] for row in rows)
    assert low <= count["jars/fill"] == 200 - count["jars/label"] <= high
    assert Counter(home.rejected(rows).values()) == {"not to be modified": 200}


def test_the_plan_does_not_depend_on_the_order_of_the_texts_but_on_the_seed(tmp_path: Path) -> None:
    drawn = [text(f"t{n}") for n in range(12)] + [text(f"m{n}", "test", modified=True) for n in range(12)]
    shuffled = drawn[::2] + drawn[-1::-2]
    plans = [planned(tmp_path / f"{n}", rows, seed=n // 2)[0] for n, rows in enumerate((drawn, shuffled, drawn))]
    ids = [{row["change_id"] for row in rows} for rows in plans]
    assert ids[0] == ids[1] != ids[2]


def change(kind: int, *satisfied: bool | None, original: str = "Plums, 1999. Keep it cool.", **given: Any) -> Row:
    criteria = [
        filled(fields(CRITERION), criterion_id=f"c{n}", name=f"C{n}", check=f"Is it {n}?", satisfied=value)
        for n, value in enumerate(satisfied, 1)
    ]
    own = {"change_id": f"x{kind}", "text_id": "jars/t", "aspect_id": "jars/fill", "task": "jars", "text": original}
    own |= {"kind": kind, "criteria": criteria, "original": original, "use": "demonstration"}
    return filled(CHANGED, **own | given)


class InMemory(list[Row]):
    def as_dicts(self, *columns: str) -> Any:
        return ({name: row[name] for name in columns} for row in self)


def changed(reply: str, *changes: Row) -> tuple[list[Any], list[Request]]:
    spoken, prompts = Scripted(lambda _: f"{reply}\n====="), {name: PROMPT[name] for name in NAMES[:3]}
    items = change_texts.body(spoken, changes, InMemory([A]), model=SAID, voices=VOICES, **prompts)
    return list(items), spoken.requests


@pytest.mark.parametrize(
    ("kind", "satisfied", "prompt", "told"),
    [
        (1, [False, False], "violate", ["Criterion 1: C1", "Criterion 2: C2"]),
        (3, [None, False], "violate", ["Criterion 1: C2"]),
        (2, [None, True], "meet", ["Criterion 1: C1", "Criterion 2: C2", "Required 1: C2"]),
        (4, [True, True], "meet_or_leave", ["Criterion 1: C1", "Criterion 2: C2"]),
    ],
)
def test_a_model_is_told_what_to_violate_or_meet(kind: int, satisfied: list[Any], prompt: str, told: list[str]) -> None:
    items, (request,) = changed("Figs, no date at all. Eat it soon.", change(kind, *satisfied))
    inside = [(name, of) for name, of in unfenced(request.messages[1][1]) if "**" in of]
    assert [f"{name}: {of.split('**')[1]}" for name, of in inside] == told
    assert "How to fill." in request.messages[1][1]
    found = [(row["text"], row["unchanged"], row["prompt"]) for row in kept(items)]
    assert found == [("Figs, no date at all. Eat it soon.", False, f"llmcrit/{prompt}")]


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_only_kind_4_may_leave_the_text_as_it_was(kind: int) -> None:
    of = change(kind, kind in (2, 4))
    items, _ = changed(f"```\n{of['original']}\n```", of)
    if kind == 4:
        assert [(row["text"], row["unchanged"]) for row in kept(items)] == [(of["original"], True)]
    else:
        assert refused(items) == [(f"x{kind}", "model: invalid")]


def test_a_judge_is_asked_of_each_criterion_with_a_wish_in_demonstrations_alone() -> None:
    spoken = Scripted(lambda _: "<reasoning>So.</reasoning><verdict>violated</verdict>\n=====")
    rows = [change(2, None, True), change(1, False, False), change(3, False, use="test", change_id="test")]
    items = list(verify_changes.body(spoken, rows, model=SAID, prompt=PROMPT["verify"], voices=VOICES))
    found = [(row["compliance_id"], row["wanted"], row["verdict"]) for row in kept(items)]
    assert found == [("x2#c2", True, "violated"), ("x1#c1", False, "violated"), ("x1#c2", False, "violated")]
    assert refused(items) == [("test", "a test text, which is not verified")]


def test_test_texts_are_those_to_be_modified_that_were_and_all_others_as_they_are(tmp_path: Path) -> None:
    drawn = [text("demo"), text("plain", "test"), *(text(key, "test", modified=True) for key in ("done", "undone"))]
    made = change(3, None, False, True, use="test", text_id="jars/done", text="Worse.", model="m", response="k")
    home = Home(tmp_path)
    table = home.table(CHANGED, [made, change(1, False, text_id="jars/demo")])
    rows = home.run(take_texts, home.table(DRAWN, drawn), table)
    names = ("text_id", "text", "modified", "original", "aspect_id", "violated", "model", "source_id")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("jars/plain", "Text plain.", False, None, None, [], None, "plain"),
        ("jars/done", "Worse.", True, "Text done.", "jars/fill", ["c2"], "m", "done"),
    ]
    assert list(home.rejected(rows).values()) == ["kept for demonstrations", "it was not modified as planned"]
