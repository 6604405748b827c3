"""MRR, NDCG, wins, Spearman and the t-test against all orders of ties, other implementations, and values by hand."""

from __future__ import annotations

import itertools
import math
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.metrics.ranking import ndcg, pair_wins, reciprocal_rank, spearman, t_test

ANSWERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=6)
DISTINCT = st.lists(
    st.tuples(st.integers(-99, 99), st.integers(0, 9)), min_size=2, max_size=12, unique_by=lambda one: one[0]
)


def orders(answers: list[tuple[int, int]]) -> list[list[int]]:
    """The gains in each order that the scores allow, each as often as ties are broken so."""
    all_orders = itertools.permutations(answers)
    return [[gain for _, gain in one] for one in all_orders if all(a[0] >= b[0] for a, b in itertools.pairwise(one))]


def rank_of_best(gains: list[int]) -> float:
    return 1 / (1 + gains.index(max(gains)))


def gained(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


@given(ANSWERS)
def test_measures_are_the_means_over_all_orders_of_tied_answers(answers: list[tuple[int, int]]) -> None:
    assume(any(gain for _, gain in answers))
    scores, gains = zip(*answers, strict=True)
    possible = orders(answers)
    assert reciprocal_rank(scores, gains) == pytest.approx(fmean(map(rank_of_best, possible)), abs=1e-9)
    ideal = gained(sorted(gains, reverse=True))
    assert ndcg(scores, gains) == pytest.approx(fmean(map(gained, possible)) / ideal, abs=1e-9)


@given(ANSWERS)
def test_ndcg_is_that_of_scikit_learn_also_with_ties(answers: list[tuple[int, int]]) -> None:
    from sklearn.metrics import ndcg_score

    assume(len(answers) > 1 and any(gain for _, gain in answers))
    scores, gains = zip(*answers, strict=True)
    assert ndcg(scores, gains) == pytest.approx(ndcg_score([gains], [scores]), abs=1e-9)


@given(DISTINCT)
def test_without_ties_measures_are_those_of_ir_measures(answers: list[tuple[int, int]]) -> None:
    import ir_measures

    assume(any(gain for _, gain in answers))
    scores, gains = zip(*answers, strict=True)
    run = {"q": {str(place): float(score) for place, score in enumerate(scores)}}
    judged = {"q": {str(place): gain for place, gain in enumerate(gains)}}
    best = {"q": {place: int(gain == max(gains)) for place, gain in judged["q"].items()}}
    of_package = ir_measures.calc_aggregate([ir_measures.nDCG], judged, run).popitem()[1]
    assert ndcg(scores, gains) == pytest.approx(of_package)
    found = ir_measures.calc_aggregate([ir_measures.RR], best, run).popitem()[1]
    assert reciprocal_rank(scores, gains) == pytest.approx(found)


def test_values_by_hand() -> None:
    assert reciprocal_rank([3, 2, 1], [0, 5, 5]) == 0.5
    assert ndcg([3, 2, 1], [0, 5, 1]) == pytest.approx((5 / math.log2(3) + 1 / 2) / (5 + 1 / math.log2(3)), abs=1e-12)
    assert reciprocal_rank([0.5], [2]) == ndcg([0.5], [2]) == 1


@pytest.mark.parametrize("number", [2, 5, 44, 1_000])
def test_equal_scores_for_all_answers_are_no_better_than_chance(number: int) -> None:
    """One good answer among others: 1 / its rank, whose mean is the harmonic number by the answers."""
    gains = [7.0, *[0.0] * (number - 1)]
    by_chance = sum(1 / rank for rank in range(1, number + 1)) / number
    assert reciprocal_rank([0.0] * number, gains) == pytest.approx(by_chance, abs=1e-12)
    assert reciprocal_rank([0.0] * number, gains[::-1]) == pytest.approx(by_chance, abs=1e-12)
    discounts = [1 / math.log2(rank + 1) for rank in range(1, number + 1)]
    assert ndcg([0.0] * number, gains) == pytest.approx(fmean(discounts), abs=1e-12)


@pytest.mark.parametrize("gains", [[], [0.0], [0.0, 0.0, 0.0]])
def test_without_a_gain_there_is_no_measure(gains: list[float]) -> None:
    scores = list(range(len(gains)))
    assert math.isnan(reciprocal_rank(scores, gains))
    assert math.isnan(ndcg(scores, gains))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("measure", [reciprocal_rank, ndcg])
def test_what_is_no_number_is_no_score(measure, bad: float) -> None:
    with pytest.raises(ValueError, match="no number"):
        measure([1.0, bad], [1.0, 0.0])
    with pytest.raises(ValueError, match="no number"):
        measure([1.0, 0.0], [bad, 0.0])
    with pytest.raises(ValueError, match="one of each"):
        measure([1.0], [1.0, 0.0])


def test_a_negative_gain_is_refused() -> None:
    with pytest.raises(ValueError, match="gains are not negative"):
        ndcg([1, 2], [3, -1])


def test_a_tie_is_half_a_win_and_a_missing_score_none() -> None:
    wins = pair_wins([2, 1, 1, math.nan, 1], [1, 2, 1, 1, math.nan])
    assert wins[:3].tolist() == [1, 0, 0.5]
    assert np.isnan(wins[3:]).all()


def test_spearman_is_pearson_of_mean_ranks() -> None:
    one, other = [3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]
    ranks = [[(sum(b < a for b in of) + 1 + sum(b <= a for b in of)) / 2 for a in of] for of in (one, other)]
    found, p = spearman(one, other)
    assert found == pytest.approx(float(np.corrcoef(*ranks)[0, 1]), abs=1e-9)
    assert 0 < p < 1
    assert all(map(math.isnan, spearman([1, 1, 1], [1, 2, 3])))
    assert all(map(math.isnan, spearman([1, 2], [1, 2])))


def test_the_t_test_is_students() -> None:
    values = [2.0, -1.0, 4.0, 3.5, 0.5]
    found = t_test(values)
    assert found.t == pytest.approx(fmean(values) / (stdev(values) / math.sqrt(5)), abs=1e-9)
    assert found.n == 5
    share = found.t**2 / (1 + found.t**2 / 4)  # Student's distribution with 4 degrees of freedom, in closed form
    assert found.p == pytest.approx(1 - 3 / 4 * math.sqrt(share) * (1 - share / 12), abs=1e-9)
    assert math.isnan(t_test([1.0]).p)
    assert math.isnan(t_test([2.0, 2.0]).p)
