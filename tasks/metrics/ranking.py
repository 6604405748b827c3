"""How well scores order the answers to a question, or tell the better answer of a pair.

Equal scores say nothing of the order: every measure is then the mean over all orders of the tied answers, so that equal
scores for all answers are as good as an order by chance. Without ties the measures are those of trec_eval and
scikit-learn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class TTest(NamedTuple):
    """The two-sided t-test of Student that a mean is 0: `t`, `p` and the number of values `n`. `t` and `p` are NaN for
    fewer than two values, or if all are equal.
    """

    t: float
    p: float
    n: int


def reciprocal_rank(scores: ArrayLike, gains: ArrayLike) -> float:
    """1 / the rank, from 1, of the first of the best answers, those of the greatest gain, by descending score: in
    (0, 1].

    Of tied answers the mean over all their orders. NaN unless some gain is above 0. Both arrays are (answers,) and
    finite; ValueError otherwise.
    """
    score, gain = _checked(scores, gains)
    if not gain.size or gain.max() <= 0:
        return math.nan
    best = gain == gain.max()
    highest = score[best].max()
    before, tied = int((score > highest).sum()), score == highest
    return _mean_over_orders(before, int((best & tied).sum()), int(tied.sum()))


def _mean_over_orders(before: int, best: int, tied: int) -> float:
    """The mean of 1 / the rank of the first of `best` answers among `tied` ones in any order, behind `before` others.

    The first of them is at the place j of these with the probability C(tied - j, best - 1) / C(tied, best).
    """
    left, found = 1.0, 0.0  # `left`: the chance that no place so far has a best answer
    for place in range(1, tied - best + 2):
        chance = best / (tied - place + 1)
        found += left * chance / (before + place)
        left *= 1 - chance
    return found


def ndcg(scores: ArrayLike, gains: ArrayLike) -> float:
    """The normalized discounted cumulative gain (Järvelin and Kekäläinen 2002) of all answers by descending score: in
    [0, 1]. Gains are linear, the discount of rank r is log2(r + 1).

    Tied answers share the mean of their gains, which is the mean over all their orders (McSherry and Najork 2008). NaN
    unless some gain is above 0. Both arrays are (answers,), finite, the gains not negative; ValueError otherwise.
    """
    score, gain = _checked(scores, gains)
    if gain.size and gain.min() < 0:
        raise ValueError(f"a gain is {gain.min()}: gains are not negative")
    discounts = 1 / np.log2(np.arange(2, gain.size + 2))
    ideal = float(np.sort(gain)[::-1] @ discounts)
    if ideal <= 0:
        return math.nan
    _, block, sizes = np.unique(-score, return_inverse=True, return_counts=True)
    means = np.bincount(block, weights=gain) / sizes
    return float(np.repeat(means, sizes) @ discounts) / ideal


def pair_wins(preferred: ArrayLike, rejected: ArrayLike) -> Floats:
    """For each pair 1 if the preferred answer has the higher score, 0 if it has the lower, 0.5 if both are equal; NaN
    where a score is. Both arrays are (pairs,).
    """
    difference = np.asarray(preferred, np.float64) - np.asarray(rejected, np.float64)
    found: Floats = (np.sign(difference) + 1) / 2
    return found


def spearman(one: ArrayLike, other: ArrayLike) -> tuple[float, float]:
    """(Spearman's rank correlation, in [-1, 1], p value of the two-sided test that it is 0), ties at their mean rank;
    both NaN for fewer than three values, or if one of the arrays has only equal ones. Both are (values,).
    """
    from scipy.stats import spearmanr

    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if first.size < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan, math.nan
    found = spearmanr(first, second)
    return float(found.statistic), float(found.pvalue)


def t_test(differences: ArrayLike) -> TTest:
    """The t-test that the mean of the differences is 0: a paired test, if they are those of pairs."""
    from scipy.stats import ttest_1samp

    values = np.asarray(differences, np.float64)
    if values.size < 2 or np.ptp(values) == 0:
        return TTest(math.nan, math.nan, int(values.size))
    found = ttest_1samp(values, 0.0)
    return TTest(float(found.statistic), float(found.pvalue), int(values.size))


def _checked(scores: ArrayLike, gains: ArrayLike) -> tuple[Floats, Floats]:
    """Both as arrays of floats; ValueError unless they are equally long and finite."""
    score, gain = np.asarray(scores, np.float64), np.asarray(gains, np.float64)
    if score.shape != gain.shape or score.ndim != 1:
        raise ValueError(f"{score.shape} scores for {gain.shape} gains: give one of each for an answer")
    if not (np.isfinite(score).all() and np.isfinite(gain).all()):
        raise ValueError("a score or gain is no number")
    return score, gain
