"""Bootstrap and Wilson intervals against all resamples, the normal's, coverage, and values worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.metrics.intervals import mean_interval, ratio_interval, share_interval


def test_bounds_are_those_of_all_resamples_where_these_can_be_listed() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    means = sorted(sum(one) / 5 for one in itertools.product(values, repeat=5))
    for bound, level in zip(mean_interval(values), (0.025, 0.975), strict=True):
        low, high = (means[round(len(means) * (level + step))] for step in (-0.015, 0.015))
        assert low <= bound <= high


def test_bounds_of_many_values_are_those_of_the_normal() -> None:
    values = np.random.default_rng(5).exponential(10, 900)
    middle, error = values.mean(), values.std() / 30
    assert mean_interval(values) == pytest.approx((middle - 1.96 * error, middle + 1.96 * error), abs=0.35 * error)


def test_whole_answers_are_drawn_and_not_claims() -> None:
    """40 answers of 25 equal claims each: as uncertain as 40 coin tosses, five times as wide as 1,000 would be."""
    low, high = ratio_interval([25.0] * 20 + [0.0] * 20, [25.0] * 40)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), abs=0.06)


@pytest.mark.check
def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    dice = np.random.default_rng(5)
    bounds = [mean_interval(dice.binomial(1, 0.4, 80)) for _ in range(200)]
    assert 178 <= sum(low <= 0.4 <= high for low, high in bounds) <= 199


@settings(max_examples=20, deadline=None)  # the first call imports scipy
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=2, max_size=12), st.randoms())
def test_the_order_of_the_answers_changes_nothing(rows: list[tuple[int, int]], random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert ratio_interval(*zip(*rows, strict=True)) == ratio_interval(*zip(*shuffled, strict=True))


def test_an_interval_is_the_same_in_every_run() -> None:
    assert mean_interval([0.1, 0.5, 0.7, 1.0, 1.0, 0.25]) == (0.325, 0.85)


@pytest.mark.parametrize(
    ("parts", "wholes", "expected"),
    [
        ([], [], (math.nan, math.nan)),
        ([1.0], [2.0], (math.nan, math.nan)),
        ([0.0, 0.0], [0.0, 0.0], (math.nan, math.nan)),  # no resample has a ratio
        ([1.0, 0.0], [1.0, 0.0], (1.0, 1.0)),  # a quarter of the resamples have none and are left out
        ([3.0, 3.0], [1.0, 1.0], (3.0, 3.0)),
    ],
)
def test_too_little_has_no_interval_and_what_never_differs_no_width(
    parts: list[float], wholes: list[float], expected: tuple[float, float]
) -> None:
    assert ratio_interval(parts, wholes) == pytest.approx(expected, nan_ok=True)


def test_resamples_are_those_of_scipy() -> None:
    from scipy.stats import bootstrap as scipy_bootstrap

    values = np.sort(np.random.default_rng(5).exponential(10, 90))
    bounds = scipy_bootstrap((values,), np.mean, n_resamples=1_000, method="percentile", rng=0).confidence_interval
    assert mean_interval(values) == pytest.approx(bounds, abs=1e-6)


def test_bounds_of_many_answers() -> None:
    low, high = mean_interval(np.arange(9_000) % 2)
    assert (low + high) / 2 == pytest.approx(0.5, abs=0.002)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 9_000), rel=0.1)


def test_wilsons_interval_of_31_in_41_by_hand() -> None:
    # z² = 3.841459: centre 32.920729 / 44.841459 = 0.734158, half 0.139546 / 1.093694 = 0.127592
    assert share_interval(31, 41) == pytest.approx((0.734158 - 0.127592, 0.734158 + 0.127592), abs=2e-6)
    assert share_interval(0, 5)[0] == 0.0
    assert share_interval(0, 0) == pytest.approx((math.nan, math.nan), nan_ok=True)
