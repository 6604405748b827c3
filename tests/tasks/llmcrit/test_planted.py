"""Planted feedback: how it is made, and what judges are worth by what they say of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row, Rows
from schemas.llmcrit import CONTEXT, CRITERIA, CRITIQUES, FEEDBACK, PLANTED, TEXTS, VALIDITY
from tasks.llmcrit.feedback.planted import _line, check_judges, mix_planted, plant_feedback

KINDS = ["advice", "other text", "praise", "vague", "own"]
ALONE = [kind for kind in KINDS if kind != "other text"]
NOUNS = {"jars": "label", "lids": "lid"}
RIGHT = {  # kind -> layer -> what is right of it, as the dataset's description has it
    "advice": {"validity": "not specific"},
    "other text": {"validity": "specific", "context": "not match"},
    "praise": {"constructive": "no"},
    "vague": {"constructive": "yes", "helpful": "no"},
    "own": {"validity": "specific", "context": "match"},
}


def text(key: str, content: str = "", task: str = "jars") -> Row:
    content = content or f"# {key}\n\nThe jar of {key} holds {key} plums from the garden of {key}.\nShort line."
    return filled(TEXTS, text_id=f"{task}/{key}", task=task, text=content)


def criterion(key: str, task: str = "jars", name: str = "Date") -> Row:
    told = {"name": name, "check": f"Is there a {key}?", "aspect_id": f"{task}/labels", "task": task}
    return filled(CRITERIA, criterion_id=key, **told)


def planted(path: Path, texts: list[Row], criteria: list[Row], number: int = 10, seed: int = 0) -> tuple[Rows, Home]:
    home, told = Home(path), {"number": number, "nouns": NOUNS, "seed": seed}
    table = home.table(TEXTS, texts)
    return home.run(plant_feedback, table, table, home.table(CRITERIA, criteria), **told), home


def test_each_drawn_text_gets_feedback_of_each_kind_on_one_criterion_of_its_task(tmp_path: Path) -> None:
    texts = [text(f"t{n}", task=task) for n in range(6) for task in ("jars", "lids")]
    criteria = [criterion("a"), criterion("b"), criterion("c", "lids", name="")]
    rows, home = planted(tmp_path, texts, criteria, number=4)
    of_text = defaultdict(list)
    for row in rows:
        of_text[row["text_id"]].append(row)
        assert row["aspect_id"] == f"{row['task']}/labels"
    assert Counter(key.split("/")[0] for key in of_text) == {"jars": 4, "lids": 4}
    for own in of_text.values():
        assert [row["planted"] for row in own] == KINDS
        ((chosen,),) = {tuple(row["criteria"]) for row in own}
        assert chosen in ({"a", "b"} if own[0]["task"] == "jars" else {"c"})
    assert len({row["feedback_id"] for row in rows}) == rows.count == 40
    assert list(home.rejected(rows).values()) == ["nothing is planted on it"] * 4


def test_planted_feedback_says_what_its_kind_is_for(tmp_path: Path) -> None:
    texts = [text(key) for key in ("plums", "figs", "pears")]
    rows, _ = planted(tmp_path, texts, [criterion("date")])
    contents = {row["text_id"]: row["text"] for row in texts}
    for row in rows:
        own, others = contents[row["text_id"]], [of for key, of in contents.items() if key != row["text_id"]]
        quotes = re.findall("“(.+?)”", row["feedback"])
        assert len(quotes) == (row["planted"] in ("own", "other text"))
        for quote in quotes:
            assert (quote in own) is (row["planted"] == "own")
            assert any(quote in other for other in others) is (row["planted"] == "other text")
            assert 20 <= len(quote) <= 160
        assert ("**Date**" in row["feedback"]) is (row["planted"] != "advice")
        assert ("Is there a date?" in row["feedback"]) is (row["planted"] == "advice")
        assert ("label" in row["feedback"]) is (row["planted"] not in ("advice", "vague"))


@pytest.mark.parametrize(
    ("contents", "kinds"),
    [
        (["The jar of plums holds plums."], [ALONE]),
        (["The jar of plums holds plums."] * 2, [ALONE] * 2),
        (["short", "The jar of figs holds figs."], [KINDS[:-1], ALONE]),
        (["“The jar” of “plums” holds plums."], [ALONE[:-1]]),
        ([" "], [ALONE[:-1]]),
    ],
)  # fmt: skip
def test_nothing_is_quoted_where_no_line_can_be(tmp_path: Path, contents: list[str], kinds: list[list[str]]) -> None:
    texts = [text(f"t{n}", content) for n, content in enumerate(contents)]
    rows, _ = planted(tmp_path, texts, [criterion("date")])
    assert [[row["planted"] for row in rows if row["text_id"] == of["text_id"]] for of in texts] == kinds


@pytest.mark.parametrize(("number", "criteria"), [(0, [criterion("a")]), (9, []), (9, [criterion("a", "lids")])])
def test_without_number_or_criteria_nothing_is_planted(tmp_path: Path, number: int, criteria: list[Row]) -> None:
    rows, home = planted(tmp_path, [text("a"), text("b")], criteria, number)
    assert rows.count == 0
    assert len(home.rejected(rows)) == 2


def test_a_further_text_takes_at_most_one_place_of_those_drawn(tmp_path: Path) -> None:
    texts = [text(f"t{n}") for n in range(12)]
    drawn = [
        {row["text_id"] for row in planted(tmp_path / f"{n}", of, [criterion("a")], 5, seed)[0]}
        for n, (of, seed) in enumerate([(texts[:11], 0), (texts, 0), (texts[::-1], 0), (texts, 1)])
    ]
    assert len(drawn[0] - drawn[1]) <= 1
    assert drawn[1] == drawn[2] != drawn[3]
    assert {len(of) for of in drawn} == {5}


LINES = st.lists(st.text(st.sampled_from("ab c."), min_size=18, max_size=40) | st.just("“So”, said the jar of jam."))


@given(LINES.map("\n".join), LINES.map(" ".join))
def test_a_quoted_line_stands_in_its_text_alone_and_has_no_quotation_mark(own: str, other: str) -> None:
    line = _line(own, other)
    if line:
        assert line in own
        assert not other or line not in other
        assert "“" not in line
        assert 20 <= len(line) <= 160


def test_real_and_planted_feedback_is_mixed_and_all_of_it_is_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    real = [filled(FEEDBACK, feedback_id=f"f_{n}", text_id="t", task="jars", feedback=f"Real {n}.") for n in range(60)]
    checks = [filled(PLANTED, feedback_id=f"p_{n}", text_id="t", task="jars", planted="own") for n in range(60)]
    mixed = list(home.run(mix_planted, home.table(FEEDBACK, real), home.table(PLANTED, checks)))
    assert {row["feedback_id"] for row in mixed if row["planted"]} == {row["feedback_id"] for row in checks}
    assert {row["feedback_id"] for row in mixed if not row["planted"]} == {row["feedback_id"] for row in real}
    changes = sum(one["planted"] != other["planted"] for one, other in pairwise(mixed))
    assert 35 < changes < 85  # 60 of 119 expected of a shuffle


def checked(path: Path, says: Callable[[str, str], str | None]) -> tuple[list[Row], dict[str, str]]:
    """The checks of a judge who says of planted feedback of a kind, in a layer, what `says` returns (None: nothing)."""
    home, model = Home(path), {"model": "judge"}
    rows = [
        filled(PLANTED, feedback_id=f"p_{kind}{n}", text_id="jars/t", task="jars", planted=kind, criteria=["a"])
        for kind in KINDS
        for n in range(3)
    ]
    real = [{**row, "feedback_id": f"f_{row['feedback_id']}", "planted": None} for row in rows]
    verdicts: dict[Any, list[Row]] = {VALIDITY: [], CONTEXT: [], CRITIQUES: []}
    for row in [*rows, *real]:
        own = {name: row[name] for name in ("feedback_id", "text_id", "task", "planted")} | model
        of = row["planted"] or "own"
        for schema, layer in ((VALIDITY, "validity"), (CONTEXT, "context")):
            if says(layer, of):
                verdicts[schema].append(filled(schema, **own, verdict=says(layer, of)))
        if said := says("constructive", of):
            helpful = says("helpful", of) == "yes" if said == "yes" else None
            told = {"criterion_id": "a", "critique_id": f"{row['feedback_id']}#a"}
            verdicts[CRITIQUES].append(filled(CRITIQUES, **own, **told, constructive=said == "yes", helpful=helpful))
    made = home.run(check_judges, home.table(PLANTED, rows), *(home.table(of, rows) for of, rows in verdicts.items()))
    return list(made), home.rejected(made)


def always_yes(layer: str, kind: str) -> str:
    return {"validity": "specific", "context": "match"}.get(layer, "yes")


def test_a_judge_that_says_yes_hits_only_where_yes_is_right(tmp_path: Path) -> None:
    rows, silent = checked(tmp_path, always_yes)
    hits = Counter((row["planted"], row["layer"]) for row in rows if row["hit"])
    misses = Counter((row["planted"], row["layer"]) for row in rows if not row["hit"])
    right = [("other text", "validity"), ("vague", "constructive"), ("own", "validity"), ("own", "context")]
    wrong = [("advice", "validity"), ("other text", "context"), ("praise", "constructive"), ("vague", "helpful")]
    assert (hits, misses) == (dict.fromkeys(right, 3), dict.fromkeys(wrong, 3))
    assert silent == {}


def test_a_perfect_judge_hits_in_all_layers_that_a_kind_checks_and_in_no_other(tmp_path: Path) -> None:
    rows, silent = checked(tmp_path, lambda layer, kind: RIGHT[kind].get(layer))
    assert all(row["hit"] and row["verdict"] == row["expected"] == RIGHT[row["planted"]][row["layer"]] for row in rows)
    assert Counter((row["planted"], row["layer"]) for row in rows) == {
        (kind, layer): 3 for kind, of in RIGHT.items() for layer in of
    }
    assert {(row["model"], row["task"], row["split"]) for row in rows} == {("judge", "jars", "jars")}
    assert {row["check_id"] for row in rows} == {f"{row['layer']}/{row['feedback_id']}" for row in rows}
    assert silent == {}


def test_planted_feedback_without_a_verdict_is_rejected(tmp_path: Path) -> None:
    rows, silent = checked(tmp_path, lambda layer, kind: "specific" if (layer, kind) == ("validity", "own") else None)
    assert [(row["planted"], row["layer"]) for row in rows] == [("own", "validity")] * 3
    assert list(silent.values()) == ["no judge has said anything of it"] * 12


def test_a_judge_that_finds_no_critique_has_said_nothing_of_its_help(tmp_path: Path) -> None:
    rows, _ = checked(tmp_path, lambda layer, kind: "no" if layer in ("constructive", "helpful") else None)
    assert {(row["planted"], row["layer"]) for row in rows} == {("praise", "constructive"), ("vague", "constructive")}
