"""What of a published version is scored, and against what: groups, evidence, the majority of people, pilots."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evaluation_versions import QUESTIONS, comparison_rows, pair_rows, ranking_rows, write_version

from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.engine.stage import StageContext
from tasks.axioms.scoring.reading import items_of, read_groups, sets_in, sources_of


def groups(home: Path, limit: int | None = None, **configs: Any) -> list[Row]:
    version = write_version(home, **configs)
    context = StageContext(Store(home), None, "read_groups", "r", lambda name, number: None)
    shards = [source.shards[0] for source in sources_of(version, sets_in(version), limit)]
    return [row for shard in shards for row in read_groups.body(context, shard)]


def test_each_set_is_read_and_every_answer_once_a_group(tmp_path: Path) -> None:
    found = groups(tmp_path)
    assert Counter(row["set"] for row in found if not row["evidence"]) == {
        "stackexchange": QUESTIONS,
        "eli5": 2 * QUESTIONS,
        "pairs": QUESTIONS,
        "webgpt": QUESTIONS,
        "people": QUESTIONS - 1,
    }
    assert len({row["group_id"] for row in found}) == len(found)
    for row in found:
        ids = [each["answer_id"] for each in row["answers"]]
        assert ids == sorted(set(ids))
        assert (row["evidence_id"] == "") == (row["evidence"] == [])


def test_the_groups_of_pairs_hold_all_answers_bare_and_those_with_evidence_beside_it(tmp_path: Path) -> None:
    found = [row for row in groups(tmp_path) if row["set"] == "pairs" and row["question_id"] == "tea.example/2"]
    bare, shown = sorted(found, key=lambda row: len(row["evidence"]))
    own = [row for row in pair_rows() if row["question_id"] == "tea.example/2"]
    texts = {row[f"{side}_id"]: row[side] for row in own for side in ("preferred", "rejected")}
    assert {each["answer_id"]: each["text"] for each in bare["answers"]} == texts
    assert shown["evidence"] == ["Tea 2 keeps a year."]
    assert [each["answer_id"] for each in shown["answers"]] == ["closed_book202", "open_book2"]


def test_each_answer_of_a_comparison_is_shown_with_its_own_evidence(tmp_path: Path) -> None:
    found = [row for row in groups(tmp_path) if row["set"] == "webgpt" and row["question_id"] in ("w0", "w1")]
    shown = {
        (row["question_id"], tuple(each["answer_id"] for each in row["answers"])): row["evidence"] for row in found
    }
    assert shown == {
        ("w0", ("preferred", "rejected")): [],
        ("w0", ("rejected",)): ["Said of 1."],
        ("w1", ("preferred", "rejected")): [],
        ("w1", ("preferred",)): ["Said of 1."],
        ("w1", ("rejected",)): ["Said of 2."],
    }


def test_what_most_people_prefer_is_the_preferred_answer_and_a_tie_is_none(tmp_path: Path) -> None:
    version = write_version(tmp_path)
    items = items_of("people", sets_in(version)["people"])
    found = {row["question_id"]: row for row in items.to_dict("records")}
    assert list(found) == [f"tea.example/{number}" for number in range(QUESTIONS) if number != 1]
    assert found["tea.example/0"]["preferred_id"] == "closed_book200"
    assert found["tea.example/2"]["preferred_id"] == "open_book2"
    assert found["tea.example/0"]["preferred_evidence"].startswith("e_")


def test_without_people_there_is_no_such_set(tmp_path: Path) -> None:
    judged_only = [{"judgement_id": "j", "who": "judge", "pair_id": "p_020", "better": "preferred"}]
    assert "people" not in sets_in(write_version(tmp_path / "a", judged=False))
    assert "people" not in sets_in(write_version(tmp_path / "b", judgements=judged_only))
    assert list(sets_in(write_version(tmp_path / "c", ranking=[], comparisons=[]))) == ["pairs", "people"]
    assert sets_in(write_version(tmp_path / "d", ranking=[], comparisons=[], judged=False, pairs=[])) == {}


def test_items_are_the_gains_and_pairs_of_the_version(tmp_path: Path) -> None:
    version = write_version(tmp_path)
    files = sets_in(version)
    ranked = items_of("eli5", files["eli5"])
    gains = [each["gain"] for row in ranking_rows() if row["set"] == "eli5" for each in row["answers"]]
    assert sorted(ranked["gain"]) == sorted(gains)
    assert set(ranked["subset"]) == {"reddit.com/r/a", "reddit.com/r/b"}
    pairs = items_of("pairs", files["pairs"])
    assert len(pairs) == len(pair_rows())
    parents = pairs[pairs["axiom"] == 5].set_index("rejected_id")["parent"].to_dict()
    assert (parents["human500"], parents["human510"]) == ("first", "second")
    assert pairs[pairs["axiom"] != 5]["parent"].isna().all()
    assert len(items_of("webgpt", files["webgpt"])) == len(comparison_rows())


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_pilot_is_part_of_a_larger_one(limit: int, tmp_path: Path) -> None:
    chosen, more, all_of_it = (
        {(row["set"], row["question_id"]) for row in groups(tmp_path / str(most), most)} for most in (limit, 5, 99)
    )
    assert Counter(name for name, _ in chosen)["pairs"] == limit
    assert chosen <= more <= all_of_it
    assert all_of_it == {(row["set"], row["question_id"]) for row in groups(tmp_path / "all")}
