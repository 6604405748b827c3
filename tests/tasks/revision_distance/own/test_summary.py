"""Rankings, differences, variance and agreement, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tasks.revision_distance.own.summary import agreement, icc, summary, within_and_between
from tasks.revision_distance.tables.differences import doubts, effect_size
from tasks.revision_distance.tables.ranking import ranking, ranking_notes

COLUMNS = {"no_ops": 0, "duplicates": 0, "not_placed": 0, "wholesale": False, "silent": False, "valid": True}


def drafts(**systems: list[float | None]) -> pd.DataFrame:
    rows = [
        {"case_id": n, "system": name, "distance": value, "corrected": value, "normalised": 1.0, **COLUMNS}
        for name, values in systems.items()
        for n, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_least_distance_is_first_and_equal_ones_share_a_rank() -> None:
    found = ranking(drafts(c=[3, 3, 4], a=[1, 2, 3], b=[3, 2, 1]))
    assert list(zip(found.systems.system, found.systems["rank"], strict=True)) == [("a", 1), ("b", 1), ("c", 3)]
    assert found.cases == 3
    row = found.pairs.set_index(["better", "worse"]).loc["a", "c"]
    assert row.difference == pytest.approx(4 / 3)
    assert (row["cases better"], row["equal"], row["worse in"]) == (3, 0, 0)


def test_only_cases_of_all_ranked_systems_count() -> None:
    found = ranking(drafts(a=[1] * 19 + [None], b=[2] * 20))
    assert found.cases == 19
    assert found.systems.set_index("system").loc["b", "drafts"] == 20


def test_systems_without_a_common_case_have_no_ranks() -> None:
    frame = drafts(a=[1, 2], b=[1, 2])
    frame["case_id"] = range(4)
    found = ranking(frame)
    assert found.systems["rank"].isna().all()
    assert {"a", "b"} == found.unranked.keys()
    assert "no case has a draft of every system" in found.unranked["a"]
    assert not len(found.pairs)


def test_a_system_with_few_cases_is_named() -> None:
    frame = drafts(a=[1.0] * 12, b=[2.0] * 12, c=[3.0, 3.0])
    note, _ = ranking_notes(ranking(frame), frame.assign(signature="s"))
    assert "c has drafts of 2 of the 12 cases only" in note
    assert "a has drafts" not in note


def test_a_system_with_hardly_a_case_is_not_ranked_and_takes_no_case_from_the_others() -> None:
    frame = drafts(a=[1.0] * 12, b=[2.0] * 12, typo=[0.0])
    found = ranking(frame)
    assert (found.cases, set(found.unranked)) == (12, {"typo"})
    assert found.unranked["typo"].startswith("it has drafts of 1 case, another system of 12")
    assert list(found.systems.system) == ["a", "b", "typo"]
    assert ranking(drafts(a=[1.0] * 10, b=[2.0])).unranked == {}, "a tenth is enough"
    assert ranking(drafts(a=[1.0], b=[2.0])).unranked == {}
    alone = ranking(drafts(a=[1.0] * 20, b=[0.0]))
    assert (alone.cases, set(alone.unranked)) == (20, {"b"}), "also where only one system is left"
    assert not len(alone.pairs)
    assert ranking(drafts(a=[1.0] * 20, b=[2.0] * 20, c=[3.0] * 20)).unranked == {}


def test_a_lead_that_only_the_lists_of_edits_show_is_doubted() -> None:
    """One editor lists one edit for a where it lists three for b, whose drafts are no worse."""
    frame = drafts(a=[2.0, 1.0, 3.0] * 10, b=[6.0, 3.0, 9.0] * 10)
    alike = pd.concat([pd.Series([3.0, 1.0, 2.0] * 10), pd.Series([2.0, 3.0, 1.0] * 10)], ignore_index=True)
    found = ranking(frame.assign(aligned=alike, ter=alike / 10))
    (doubt,) = doubts(found.pairs)
    assert doubt.startswith("a is before b by the editor's lists alone: the lexical baseline does not tell them apart")
    confirmed = ranking(frame.assign(aligned=frame.corrected, ter=alike / 10))
    assert list(doubts(confirmed.pairs)) == []
    assert list(doubts(ranking(frame).pairs)) == [], "nothing is known without them"
    assert doubt in ranking_notes(found, frame.assign(signature="s"))[1]


def test_systems_that_the_lists_do_not_part_are_doubted_where_all_else_parts_them() -> None:
    """The editor is coarser for a, whose drafts need more: so a comes out no worse than b."""
    frame = drafts(a=[2.0, 3.0] * 10, b=[3.0, 2.0] * 10)
    worse = pd.Series([4.0, 6.0] * 10 + [2.0, 3.0] * 10)
    (doubt,) = doubts(ranking(frame.assign(aligned=worse, ter=worse / 10)).pairs)
    assert "a is no worse than b by the editor's lists alone: by the lexical baseline a clearly needs more" in doubt


@pytest.mark.parametrize("fault", ["silent", "wholesale", "unusable", "invalid", "padded", "unplaced"])
def test_a_system_with_too_many_faults_is_not_ranked_and_the_reason_is_told(fault: str) -> None:
    frame = drafts(a=[0.0] * 10, b=[5.0] * 10)
    own = frame.system == "a"
    changed: dict[str, object] = {"invalid": ("valid", False), "padded": ("no_ops", 9), "unusable": ("corrected", None)}
    changed["unplaced"] = ("not_placed", 3)
    column, value = changed.get(fault, (fault, True))  # type: ignore[misc]
    frame[column] = frame[column].astype(object).mask(own, value)
    found = ranking(frame)
    assert list(found.systems.system) == ["b", "a"]
    assert found.systems.set_index("system").loc["b", "rank"] == 1
    assert found.unranked["a"].startswith("10 of 10 drafts")
    assert "a" in ranking(frame, {fault: 1.0}).systems[lambda rows: rows["rank"].notna()].system.tolist() or (
        fault == "unusable"
    )


def test_the_effect_size_is_cohens_d_of_the_differences() -> None:
    gaps = np.array([1.0, 2.0, 3.0])
    assert effect_size(gaps) == pytest.approx(2.0 / 1.0)
    assert effect_size(np.zeros(3)) == 0
    assert np.isnan(effect_size(np.ones(3)))


def test_icc_is_that_of_shrout_and_fleiss() -> None:
    """The example of their table 2: six targets, four judges, ICC(2,1) 0.29."""
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert icc(np.array(ratings, float)) == pytest.approx(0.29, abs=0.005)


def test_editors_that_say_the_same_agree() -> None:
    pairs = pd.DataFrame({"a": [1.0, 2.0, 5.0], "b": [1.0, 2.0, 5.0]})
    found = agreement(pairs)
    assert (found["Spearman"], found["ICC"], found["difference"]) == pytest.approx((1, 1, 0))
    assert np.isnan(agreement(pairs.assign(b=1.0))["Spearman"])


def test_variance_within_and_between_by_hand() -> None:
    frame = pd.DataFrame({"draft": [1, 1, 2, 2], "value": [1.0, 3.0, 5.0, 5.0]})
    assert within_and_between(frame.groupby("draft").value) == pytest.approx((1.0, 4.5))


def test_a_draft_without_a_list_counts_as_unusable() -> None:
    own = pd.DataFrame({"draft_id": ["x", "y"], "id": ["1", "1"], "system": ["a", "b"]})
    measured = pd.DataFrame([{
        "draft_id": "x", "editor": "m", "repeat": 0, "distance": 1, "corrected": 1, "normalised": 1.0, "coverage": 1.0,
        "residual": 0, "valid": True, "silent": False, "wholesale": False, "no_ops": 0, "duplicates": 0,
        "not_placed": 0, "lost_edits": 0, "aligned": 2, "ter": None, "signature": "s",
    }])  # fmt: skip
    found = summary(own, measured)
    assert found.rankings["m"].unranked.keys() == {"b"}
    assert found.signatures == ["s"]


def test_a_draft_without_a_list_counts_as_the_baseline_counts_it() -> None:
    frame = drafts(a=[2.0] * 10, b=[1.0] * 9 + [None])
    assert ranking(frame).cases == 9
    frame["stand_in"] = [np.nan] * 19 + [30.0]
    found = ranking(frame)
    assert found.cases == 10
    assert list(found.systems.system) == ["a", "b"]
    assert found.systems.set_index("system").loc["b", "corrected"] == pytest.approx(3.9)
    assert "(1 of b)" in ranking_notes(found, frame.assign(signature="s"))[0]
