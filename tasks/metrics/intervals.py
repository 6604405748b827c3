"""Intervals (95 %): by bootstrap for a measure that sums of rows decide, such as a mean or a ratio; Wilson's for a
share.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bounds = tuple[float, float]  # both NaN where there is no interval
Floats = NDArray[np.float64]

RESAMPLES = 1_000
DECIMALS_OF_DATA, DECIMALS = 9, 6  # what the order of a sum can change neither decides the draws nor is shown
NONE: Bounds = (math.nan, math.nan)


def mean_interval(values: ArrayLike) -> Bounds:
    """(low, high) of the mean of the values, the 95 % interval by bootstrap; both NaN for fewer than two values. For
    the difference of two paired means, pass the differences of the pairs.
    """
    return ratio_interval(values, np.ones_like(values, np.float64))


def ratio_interval(parts: ArrayLike, wholes: ArrayLike) -> Bounds:
    """(low, high) of sum(parts) / sum(wholes), the 95 % interval by bootstrap over entries; both NaN for fewer than
    two entries or if all wholes are 0. An entry is a cluster, e.g. an answer with its claims: pass the sums over its
    members.
    """
    rows = np.stack([np.asarray(parts, np.float64), np.asarray(wholes, np.float64)], axis=1)
    return bootstrap(rows, lambda sums: ratio(sums[..., 0], sums[..., 1]))


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole elementwise, NaN where whole is 0."""
    found: Floats = np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole != 0)
    return found


def bootstrap(rows: Floats, measure: Callable[[Floats], Floats], *, seed: int = 0, draws: int = RESAMPLES) -> Bounds:
    """(low, high) of a measure, its 95 % interval by percentile bootstrap (Efron 1979): each of `draws` resamples
    draws as many rows as there are, with replacement.

    `measure` computes it from the sums of the rows of all resamples: (draws, columns) -> (draws,). The order of the
    rows does not change the bounds. Resamples without a value (NaN) are left out. Both bounds are NaN for fewer than
    two rows, or if every resample is left out.
    """
    number = len(rows)
    if number < 2:
        return NONE
    rounded, rng = rows.round(DECIMALS_OF_DATA) + 0.0, np.random.default_rng(seed)
    ordered = rounded[np.lexsort(rounded.T[::-1])]
    times_drawn = (np.bincount(rng.integers(number, size=number), minlength=number) for _ in range(draws))
    found = measure(np.stack([times @ ordered for times in times_drawn]))
    if np.isnan(found).all():
        return NONE
    low, high = np.nanquantile(found, [0.025, 0.975]).round(DECIMALS) + 0.0
    return float(low), float(high)


def share_interval(successes: int, trials: int) -> Bounds:
    """(low, high) of successes / trials, the 95 % interval of Wilson, in [0, 1], sound for few trials and shares of 0;
    both NaN without a trial.
    """
    from scipy.stats import binomtest

    if not trials:
        return NONE
    bounds = binomtest(int(successes), int(trials)).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)
