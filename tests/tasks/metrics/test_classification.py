"""Precision, recall, F1 and their intervals, against scikit-learn, SciPy and values worked out by hand."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from tasks.metrics.classification import (
    accuracy,
    cluster_totals,
    defined,
    f1,
    f1_of_negatives,
    interval,
    mean_of,
    outcomes,
    precision,
    recall,
)

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40)


def counts(pairs: list[tuple[bool, bool]]) -> np.ndarray:
    return outcomes([said for said, _ in pairs], [true for _, true in pairs]).sum(axis=0)


def by_sklearn(score, pairs, **more) -> float | None:
    """Not defined where scikit-learn would have to be told what to say instead."""
    said, true = [s for s, _ in pairs], [t for _, t in pairs]
    value = score(true, said, zero_division=np.nan, **more) if pairs else math.nan
    return None if math.isnan(value) else pytest.approx(value)


def test_ten_claims_by_hand() -> None:
    pairs = [(True, True)] * 3 + [(True, False)] * 1 + [(False, True)] * 2 + [(False, False)] * 4
    found = counts(pairs)
    assert found.tolist() == [3, 1, 2, 4]
    assert precision(found) == 3 / 4
    assert recall(found) == 3 / 5
    assert f1(found) == 6 / 9
    assert f1_of_negatives(found) == 8 / 11
    assert accuracy(found) == 7 / 10


@given(PAIRS)
def test_scikit_learn_says_the_same(pairs: list[tuple[bool, bool]]) -> None:
    found = counts(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert defined(precision(found)) == by_sklearn(precision_score, pairs, pos_label=True, labels=[False, True])
        assert defined(recall(found)) == by_sklearn(recall_score, pairs, pos_label=True, labels=[False, True])
        assert defined(f1(found)) == by_sklearn(f1_score, pairs, pos_label=True, labels=[False, True])
        assert defined(f1_of_negatives(found)) == by_sklearn(f1_score, pairs, pos_label=False, labels=[False, True])
        if pairs:
            said, true = zip(*pairs, strict=True)
            assert accuracy(found) == pytest.approx(accuracy_score(true, said))
            assert accuracy(found) == pytest.approx(f1_score(true, said, average="micro", labels=[False, True]))


def test_what_is_not_defined_is_none_and_never_zero() -> None:
    nothing, only_true_negatives = np.zeros(4), np.array([0.0, 0, 0, 5])
    for found in (nothing, only_true_negatives):
        assert defined(precision(found)) is defined(recall(found)) is defined(f1(found)) is None
    assert defined(accuracy(nothing)) is None
    assert defined(accuracy(only_true_negatives)) == 1.0
    missed = np.array([0.0, 0, 3, 0])
    assert (defined(precision(missed)), defined(recall(missed)), defined(f1(missed))) == (None, 0.0, 0.0)


def test_many_cells_are_divided_at_once() -> None:
    cells = np.array([[3.0, 1, 2, 4], [0, 0, 0, 1], [1, 0, 0, 0]])
    assert f1(cells)[[0, 2]].tolist() == [6 / 9, 1.0]
    assert math.isnan(f1(cells)[1])


def test_each_label_needs_a_prediction() -> None:
    with pytest.raises(ValueError, match="2 predictions for 1 labels"):
        outcomes([True, False], [True])


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=30))
def test_totals_are_sums_by_cluster(given_rows: list[tuple[str, int]]) -> None:
    wanted: dict[str, list[float]] = {}
    for name, value in given_rows:
        total = wanted.setdefault(name, [0.0, 0.0])
        total[0] += value
        total[1] += 1
    values = np.array([(value, 1) for _, value in given_rows], np.float64).reshape(-1, 2)
    assert cluster_totals([name for name, _ in given_rows], values).tolist() == list(wanted.values())


# ---------------------------------------------------------------- intervals


def answers(number: int, seed: int) -> np.ndarray:
    """(sum, count) of answers with 1 to 8 claims, of which about a third are attributable."""
    dice = np.random.default_rng(seed)
    sizes = dice.integers(1, 9, number)
    return np.stack([dice.binomial(sizes, 0.35), sizes], axis=1).astype(np.float64)


def test_scipy_draws_nearly_the_same_interval_of_a_macro_mean() -> None:
    totals = answers(300, 1)
    means = np.stack([totals[:, 0] / totals[:, 1], np.ones(300)], axis=1)
    other = bootstrap((means[:, 0],), np.mean, n_resamples=4_000, method="percentile", rng=np.random.default_rng(9))
    low, high = interval(means, mean_of)
    assert (low, high) == pytest.approx((other.confidence_interval.low, other.confidence_interval.high), abs=0.005)


def test_scipy_draws_nearly_the_same_interval_of_an_f1() -> None:
    dice = np.random.default_rng(3)
    cells = dice.multinomial(6, [0.4, 0.1, 0.2, 0.3], 200).astype(np.float64)

    def f1_of(tp, fp, fn):
        return 2 * tp.sum() / (2 * tp.sum() + fp.sum() + fn.sum())

    columns = tuple(cells[:, at] for at in range(3))
    other = bootstrap(
        columns,
        f1_of,
        paired=True,
        vectorized=False,
        n_resamples=2_000,
        method="percentile",
        rng=np.random.default_rng(4),
    )
    low, high = interval(cells, f1)
    assert (low, high) == pytest.approx((other.confidence_interval.low, other.confidence_interval.high), abs=0.006)


def test_whole_answers_are_drawn_and_not_claims() -> None:
    """40 answers of 25 equal claims each: as uncertain as 40 coin tosses, five times as wide as 1,000 would be."""
    totals = np.array([[25.0, 25.0]] * 20 + [[0.0, 25.0]] * 20)
    low, high = interval(totals, mean_of)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), abs=0.06)


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    dice = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        values = dice.binomial(1, 0.4, 80)
        low, high = interval(np.stack([values, np.ones(80)], axis=1).astype(np.float64), mean_of)
        covered += low <= 0.4 <= high
    assert 178 <= covered <= 199


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=2, max_size=12), st.randoms())
def test_the_order_of_the_answers_changes_nothing(rows: list[tuple[int, int]], random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert interval(np.array(rows, float), mean_of) == interval(np.array(shuffled, float), mean_of)


def test_an_interval_is_the_same_in_every_run() -> None:
    assert interval(answers(30, 2), mean_of) == (0.338562, 0.464053)


def test_too_little_has_no_interval() -> None:
    assert interval(np.empty((0, 2)), mean_of) == (None, None)
    assert interval(np.array([[1.0, 2.0]]), mean_of) == (None, None)
    assert interval(np.array([[0.0, 0, 0, 2], [0, 0, 0, 3]]), f1) == (None, None)


def test_resamples_without_a_value_are_left_out() -> None:
    """One of two answers has a positive: a quarter of the resamples have none, all others an F1 of 1."""
    assert interval(np.array([[1.0, 0, 0, 0], [0, 0, 0, 1]]), f1) == (1.0, 1.0)


def test_many_answers_are_drawn_in_blocks_of_bounded_size() -> None:
    totals = np.stack([np.arange(9_000) % 2, np.ones(9_000)], axis=1).astype(np.float64)
    low, high = interval(totals, mean_of)
    assert (low + high) / 2 == pytest.approx(0.5, abs=0.002)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 9_000), rel=0.1)
