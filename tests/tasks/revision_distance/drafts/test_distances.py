"""The table of distances: what the edits of each draft count, weigh and make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row, Rows
from schemas.revision_distance import CASES, DISTANCES, DRAFTS, EDITS
from tasks.revision_distance.drafts.editing import place_edits
from tasks.revision_distance.drafts.measure import WEIGHTS, measure, reproduces

EDITOR = "mine/m(seed=41,temperature=0)"


def edit(original: str, revised: str, preceding: str | None = None, **given: str) -> Row:
    told = {
        "action_name": "change",
        "revision_description": "",
        "revision_level": "word",
        "revision_intention": "clarity",
    }
    snippets = {"original_snippet": original, "revised_snippet": revised, "preceding_snippet": preceding}
    return {**told, **snippets, **given}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def tables(home: Home, drafts: dict[str, tuple[str, str, str | None, list[Row] | None]]) -> list[Rows]:
    """draft_id -> task, draft, reference, edits; None: no row of edits."""
    cases, texts, edits = [], [], []
    for key, (task, text, reference, listed) in drafts.items():
        case = f"{task}/{key}"
        cases.append(filled(CASES, case_id=case, task=task, reference=reference))
        texts.append(filled(DRAFTS, draft_id=key, case_id=case, task=task, system="weak", text=text))
        if listed is not None:
            edits.append(filled(EDITS, edits_id=f"e_{key}", draft_id=key, case_id=case, edits=listed, lost_edits=0))
    return [home.table(EDITS, edits), home.table(DRAFTS, texts), home.table(CASES, cases)]


def test_the_distance_of_each_draft(home: Home):
    draft, reference = "Tea is hot. Milk is cold.", "Tea was hot."
    listed = [
        edit("is", "was", revision_intention="fluency"),
        edit("Milk is cold.", "", action_name="remove", revision_intention="meaning"),
        edit("coffee", "tea", revision_intention="style"),
        edit("Milk", "Cream", revision_intention="other"),
    ]
    given = tables(home, {"a": ("easy", draft, reference, listed), "b": ("free", "Fine.", None, [])})
    rows = {row["draft_id"]: row for row in home.run(place_edits, *given, weights=WEIGHTS, editor=EDITOR)}
    a, b = rows["a"], rows["b"]
    assert (a["distance"], a["weighted"], a["not_placed"], a["not_applied"]) == (4, 3.0, 1, 2)
    assert (a["revised"], a["reproduces"]) == ("Tea was hot.", "exactly")
    assert (a["edits_id"], a["case_id"], a["task"], a["system"]) == ("e_a", "easy/a", "easy", "weak")
    places = [(e["start"], e["end"], e["at"], e["placed"], e["applied"], e["weight"]) for e in a["edits"]]
    assert places == [
        (4, 6, 4, "exactly", True, 0.5),
        (12, 25, 12, "exactly", True, 1.0),
        (None, None, None, "not", False, 0.5),
        (12, 16, 12, "exactly", False, 1.0),
    ]
    assert [e["why_not"] is None for e in a["edits"]] == [True, True, False, False]
    assert [{name: e[name] for name in listed[0]} for e in a["edits"]] == listed
    assert {e["category"] for e in a["edits"]} == {None}
    assert (b["distance"], b["weighted"], b["revised"], b["reproduces"], b["edits"]) == (0, 0.0, "Fine.", None, [])


def test_edits_to_related_work_have_a_category(home: Home):
    listed = [edit("A", "B", action_name="swap"), edit("x", "y", action_name="simplify")]
    given = tables(home, {task: (task, "A x", "B y", listed) for task in ("hard", "structure", "easy", "free")})
    rows = {
        row["task"]: [e["category"] for e in row["edits"]]
        for row in home.run(place_edits, *given, weights={}, editor=EDITOR)
    }
    assert rows["hard"] == rows["structure"] == ["order", "description"]
    assert rows["easy"] == rows["free"] == [None, None]


def test_a_draft_without_edits_in_the_table_has_no_distance(home: Home):
    """Its reply could not be used: unreadable is not zero."""
    given = tables(home, {"a": ("easy", "A", "B", []), "b": ("easy", "A", "B", None)})
    assert [row["draft_id"] for row in home.run(place_edits, *given, weights=WEIGHTS, editor=EDITOR)] == ["a"]


def test_the_weights_are_by_intention():
    listed = [edit("a", "b", revision_intention=name) for name in WEIGHTS]
    assert measure("", None, listed, {}).weighted == 5.0  # 1 for each of six, half for fluency and style
    assert measure("", None, listed, {"meaning": 3.0, "other": 0.0}).weighted == 6.0
    assert measure("", None, listed, dict.fromkeys(WEIGHTS, 1.0)).weighted == measure("", None, listed, {}).distance


@pytest.mark.parametrize(
    ("revised", "reference", "said"),
    [
        ("Tea.", "Tea.", "exactly"),
        ("Tea.\n", " Tea.", "exactly"),
        ("Tea is\nhot.", "Tea  is hot.", "words"),
        ("Tea is hot.", "Tea is hot", "no"),
        ("", " ", "exactly"),
        ("Teais", "Tea is", "no"),
    ],
)
def test_whether_a_text_is_the_reference(revised: str, reference: str, said: str):
    assert reproduces(revised, reference) == said


@given(st.text(), st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4), st.none() | st.text(max_size=4))))
def test_every_edit_counts(draft: str, snippets: list[tuple[str, str, str | None]]):
    found = measure(draft, draft, [edit(*each) for each in snippets], WEIGHTS)
    assert found.distance == len(found.edits) == len(snippets)
    assert 0 <= found.not_placed <= found.not_applied <= found.distance


def test_the_schema_has_all_columns(home: Home):
    given = tables(home, {"a": ("easy", "A", "B", [edit("A", "B")])})
    row = next(iter(home.run(place_edits, *given, weights=WEIGHTS, editor=EDITOR)))
    assert list(row) == DISTANCES.names
