"""Metrics of frames of scores: by hand, by an independent implementation, with what is missing, tied or constant."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from tasks.axioms.scoring.evaluate import METRICS, evaluate, left_out

Scores = dict[tuple[str, str], float]
RANKING = {"q1": {"a": 5.0, "b": 1.0, "c": 0.0}, "q2": {"a": 0.0, "b": 2.0}, "q3": {"a": 7.0, "b": 7.0, "c": 0.0}}


def ranking(gains: dict[str, dict[str, float]], subset: str = "tea.example") -> pd.DataFrame:
    rows = [
        {"set": "stackexchange", "subset": subset, "question_id": question, "answer_id": answer, "gain": gain}
        for question, answers in gains.items()
        for answer, gain in answers.items()
    ]
    return pd.DataFrame(rows, columns=["set", "subset", "question_id", "answer_id", "gain"])


def scores(found: Scores, scorer: str = "one", of_set: str = "stackexchange", evidence: str = "") -> pd.DataFrame:
    rows = [
        {"scorer": scorer, "set": of_set, "question_id": q, "answer_id": a, "evidence": evidence, "score": score}
        for (q, a), score in found.items()
    ]
    return pd.DataFrame(rows, columns=["scorer", "set", "question_id", "answer_id", "evidence", "score"])


def everywhere(value: float) -> Scores:
    return {(question, answer): value for question, answers in RANKING.items() for answer in answers}


def pairs(rows: list[dict[str, object]]) -> pd.DataFrame:
    default = {"set": "pairs", "axiom": 2, "pair_type": "x > y", "parent": None}
    default |= {"question_id": "q", "preferred_id": "a", "rejected_id": "b"}
    default |= {"preferred_evidence": "", "rejected_evidence": ""}
    return pd.DataFrame([default | row for row in rows], columns=list(default))


def value(metrics: pd.DataFrame, metric: str, subset: str = "all", scorer: str = "one") -> float:
    found = metrics[(metrics["metric"] == metric) & (metrics["subset"] == subset) & (metrics["scorer"] == scorer)]
    (row,) = found[found["against"].isna()].to_dict("records")
    return float(row["value"])


def test_mrr_and_ndcg_are_means_over_questions_in_percent() -> None:
    found = scores(
        {("q1", "a"): 1, ("q1", "b"): 2, ("q1", "c"): 3, ("q2", "a"): 0, ("q2", "b"): 9}
        | {("q3", "a"): 0, ("q3", "b"): 1, ("q3", "c"): 2}
    )
    metrics = evaluate(found, ranking=ranking(RANKING))
    assert list(metrics.columns) == list(METRICS)
    assert value(metrics, "MRR") == pytest.approx(100 * fmean([1 / 3, 1, 1 / 2]), abs=1e-9)
    discount = [1 / math.log2(rank + 1) for rank in (1, 2, 3)]
    by_hand = [
        (0 * discount[0] + 1 * discount[1] + 5 * discount[2]) / (5 * discount[0] + 1 * discount[1]),
        1.0,
        (7 * discount[1] + 7 * discount[2]) / (7 * discount[0] + 7 * discount[1]),
    ]
    assert value(metrics, "NDCG") == pytest.approx(100 * fmean(by_hand), abs=1e-9)


def test_a_constant_scorer_is_as_good_as_random_ones() -> None:
    """The trap: a constant scorer must not find the best answer first."""
    gains = {f"q{n}": {"a": 3.0, **{f"n{place}": 0.0 for place in range(9)}} for n in range(40)}
    asked = [(question, answer) for question, answers in gains.items() for answer in answers]
    constant = evaluate(scores(dict.fromkeys(asked, 1.0)), ranking=ranking(gains))
    dice = np.random.default_rng(3)
    drawn = [evaluate(scores({key: dice.random() for key in asked}), ranking=ranking(gains)) for _ in range(20)]
    for metric in ("MRR", "NDCG"):
        assert value(constant, metric) == pytest.approx(fmean(value(each, metric) for each in drawn), abs=2.5)
    assert value(constant, "MRR") == pytest.approx(100 * sum(1 / rank for rank in range(1, 11)) / 10, abs=1e-9)
    both = pd.concat([scores({("q", "a"): 1.0, ("q", "b"): 1.0}, of_set="pairs")])
    assert value(evaluate(both, pairs=pairs([{}])), "accuracy") == 50


def test_questions_that_say_nothing_are_left_out_and_counted() -> None:
    gains = RANKING | {
        "none": {"a": 0.0, "b": 0.0},
        "alone": {"a": 4.0},
        "equal": {"a": 2.0, "b": 2.0},
        "half": {"a": 1.0, "b": 0.0},
    }
    found = everywhere(0) | {
        ("none", "a"): 1,
        ("none", "b"): 2,
        ("alone", "a"): 1,
        ("equal", "a"): 1,
        ("equal", "b"): 0,
    }
    found |= {("half", "a"): 1}
    metrics = evaluate(scores(found), ranking=ranking(gains))
    (row,) = metrics[metrics["metric"] == "MRR"].to_dict("records")
    assert (row["n"], row["left_out"]) == (3, 4)
    assert list(left_out(metrics)) == [("one", "stackexchange", 4, 7)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_no_number_leaves_its_question_out(bad: float) -> None:
    metrics = evaluate(scores(everywhere(1.0) | {("q2", "b"): bad}), ranking=ranking(RANKING))
    (row,) = metrics[metrics["metric"] == "NDCG"].to_dict("records")
    assert (row["n"], row["left_out"]) == (2, 1)


def test_the_order_of_scores_and_answers_changes_nothing() -> None:
    dice = np.random.default_rng(4)
    found = scores({key: float(dice.integers(3)) for key in everywhere(0)})
    one = evaluate(found, ranking=ranking(RANKING))
    other = evaluate(found.sample(frac=1, random_state=1), ranking=ranking(RANKING).sample(frac=1, random_state=2))
    pd.testing.assert_frame_equal(one, other)


def test_without_scores_or_items_there_are_no_figures() -> None:
    assert evaluate(scores({}), ranking=ranking(RANKING)).empty
    assert evaluate(scores(everywhere(1.0))).empty
    metrics = evaluate(scores({("elsewhere", "a"): 1.0}), ranking=ranking(RANKING))
    assert metrics["value"].isna().all()
    assert set(metrics["left_out"]) == {3}


def test_sites_are_subsets_where_a_set_has_several() -> None:
    gains = pd.concat([ranking(RANKING), ranking({"p1": {"a": 1.0, "b": 0.0}}, "beer.example")])
    found = scores(everywhere(1.0) | {("p1", "a"): 2.0, ("p1", "b"): 1.0})
    metrics = evaluate(found, ranking=gains)
    assert value(metrics, "MRR", "beer.example") == 100
    assert list(dict.fromkeys(metrics["subset"])) == ["all", "beer.example", "tea.example"]
    assert set(evaluate(found, ranking=ranking(RANKING))["subset"]) == {"all"}


def test_accuracy_is_by_axiom_type_and_parent_with_and_without_evidence() -> None:
    rows = [
        {"question_id": "q1", "preferred_evidence": "e", "rejected_evidence": "e"},
        {"question_id": "q2", "preferred_evidence": "e", "rejected_evidence": "e"},
        {"question_id": "q3", "axiom": 5, "pair_type": "combined > human", "parent": "first"},
        {"question_id": "q3", "axiom": 5, "pair_type": "combined > human", "parent": "second", "rejected_id": "c"},
    ]
    bare = {("q1", "a"): 2, ("q1", "b"): 1, ("q2", "a"): 1, ("q2", "b"): 1}
    bare |= {("q3", "a"): 5, ("q3", "b"): 9, ("q3", "c"): 4}
    shown = {("q1", "a"): 5, ("q1", "b"): 1.5, ("q2", "a"): 2, ("q2", "b"): 1}
    found = pd.concat([scores(bare, of_set="pairs"), scores(shown, of_set="pairs", evidence="e")])
    metrics = evaluate(found, pairs=pairs(rows))
    assert value(metrics, "accuracy") == pytest.approx(100 * (1 + 0.5 + 0 + 1) / 4, abs=1e-9)
    assert value(metrics, "accuracy", "axiom 2") == value(metrics, "accuracy", "x > y") == 75
    assert value(metrics, "accuracy", "combined > human") == 50
    assert [value(metrics, "accuracy", f"combined > {parent}") for parent in ("first", "second")] == [0, 100]
    assert value(metrics, "accuracy with evidence") == 100
    assert value(metrics, "change of preferred") == pytest.approx((3 + 1) / 2, abs=1e-9)
    assert value(metrics, "change of rejected") == pytest.approx((0.5 + 0) / 2, abs=1e-9)
    assert "accuracy with evidence" not in set(metrics[metrics["subset"] == "axiom 5"]["metric"])
    assert metrics["p"].isna().all()


def test_pairs_of_no_axiom_are_in_no_part_by_axiom() -> None:
    rows: list[dict[str, object]] = [{"set": "people", "axiom": -1}, {"set": "people", "axiom": 3, "question_id": "q2"}]
    found = {(question, answer): score for question in ("q", "q2") for answer, score in (("a", 2.0), ("b", 1.0))}
    metrics = evaluate(scores(found, of_set="people"), pairs=pairs(rows))
    assert set(metrics["subset"]) == {"all", "axiom 3", "x > y"}


def test_the_interval_of_pairs_draws_questions_and_not_pairs() -> None:
    """Ten questions of 20 equal pairs each are as uncertain as ten coin tosses."""
    rows = [{"question_id": f"q{n}", "preferred_id": f"a{m}", "rejected_id": "b"} for n in range(10) for m in range(20)]
    found = {(f"q{n}", f"a{m}"): float(n % 2) for n in range(10) for m in range(20)}
    found |= {(f"q{n}", "b"): 0.5 for n in range(10)}
    metrics = evaluate(scores(found, of_set="pairs"), pairs=pairs(rows))
    (row,) = metrics[(metrics["metric"] == "accuracy") & (metrics["subset"] == "all")].to_dict("records")
    assert row["value"] == 50
    assert row["n"] == 200
    assert row["high"] - row["low"] == pytest.approx(100 * 2 * 1.96 * math.sqrt(0.25 / 10), abs=12)


def test_webgpt_is_tested_against_chance_and_its_scores_in_pairs() -> None:
    from scipy.stats import ttest_1samp, ttest_rel

    dice = np.random.default_rng(5)
    preferred, rejected = dice.normal(0.4, 1, 60), dice.normal(0, 1, 60)
    rows = [{"set": "webgpt", "question_id": f"q{n}", "axiom": None, "pair_type": None} for n in range(60)]
    found = {(f"q{n}", "a"): preferred[n] for n in range(60)} | {(f"q{n}", "b"): rejected[n] for n in range(60)}
    metrics = evaluate(scores(found, of_set="webgpt"), pairs=pairs(rows))
    by_metric = {row["metric"]: row for row in metrics.to_dict("records")}
    assert set(metrics["subset"]) == {"all"}
    wins = (preferred > rejected).astype(float)
    assert by_metric["accuracy"]["value"] == pytest.approx(100 * wins.mean(), abs=1e-9)
    assert by_metric["accuracy"]["p"] == pytest.approx(ttest_1samp(wins, 0.5).pvalue, abs=1e-9)
    assert by_metric["score difference"]["p"] == pytest.approx(ttest_rel(preferred, rejected).pvalue, abs=1e-9)


def test_scorers_are_compared_on_what_both_have_scored() -> None:
    from scipy.stats import ttest_rel

    gains = {f"q{n}": {"a": 2.0, "b": 1.0, "c": 0.0} for n in range(8)}
    dice = np.random.default_rng(6)
    first = {(question, answer): dice.random() for question in gains for answer in gains[question]}
    second = {key: dice.random() for key in first if key != ("q3", "b")}
    both = pd.concat([scores(first), scores(second, "two")])
    metrics = evaluate(both, ranking=ranking(gains))
    (row,) = metrics[metrics["against"].notna() & (metrics["metric"] == "MRR")].to_dict("records")

    def ranks(found: Scores) -> list[float]:
        questions = [question for question in gains if question != "q3"]
        return [1 / (1 + sum(found[q, a] > found[q, "a"] for a in "bc")) for q in questions]

    assert (row["scorer"], row["against"], row["n"], row["left_out"]) == ("two", "one", 7, 1)
    assert row["value"] == pytest.approx(100 * (fmean(ranks(second)) - fmean(ranks(first))), abs=1e-9)
    assert row["p"] == pytest.approx(ttest_rel(ranks(second), ranks(first)).pvalue, abs=1e-9)
    assert row["low"] <= row["value"] <= row["high"]
