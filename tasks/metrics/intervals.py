"""95 % intervals by scipy: of a mean or a ratio by bootstrap over clusters, of a share of trials by Wilson."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bounds = tuple[float, float]  # both NaN where there is no interval
Floats = NDArray[np.float64]

RESAMPLES = 1_000
DRAWS_AT_ONCE = 1_000_000
DECIMALS_OF_DATA, DECIMALS = 9, 6  # what the order of a sum can change neither decides the draws nor is shown
NONE: Bounds = (math.nan, math.nan)


def mean_interval(values: ArrayLike) -> Bounds:
    """Bounds of the mean; of paired means, pass the differences of the pairs."""
    found = np.asarray(values, np.float64)
    return ratio_interval(found, np.ones(len(found)))


def ratio_interval(parts: ArrayLike, wholes: ArrayLike) -> Bounds:
    """Bounds of sum(parts) / sum(wholes), by percentile bootstrap: a resample draws entries with replacement.

    An entry is a cluster, of which both sums are passed. Equal data have equal bounds, in whatever order they come.
    Resamples whose wholes sum to 0 are left out. NaN of fewer than two entries, or where every resample is left out.
    """
    from scipy.stats import DegenerateDataWarning, bootstrap

    rows = np.stack([np.asarray(parts, np.float64), np.asarray(wholes, np.float64)], axis=1).round(DECIMALS_OF_DATA)
    if len(rows) < 2:
        return NONE
    data = (rows + 0.0)[np.lexsort(rows.T[::-1])].T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # of scipy's own bounds, where a resample has no ratio
        ratios = bootstrap(
            tuple(data), _ratio, paired=True, vectorized=True, method="percentile", rng=0,
            n_resamples=RESAMPLES, batch=max(1, DRAWS_AT_ONCE // len(rows)),
        ).bootstrap_distribution  # fmt: skip
    if np.isnan(ratios).all():
        return NONE
    low, high = np.nanquantile(ratios, [0.025, 0.975]).round(DECIMALS) + 0.0
    return float(low), float(high)


def _ratio(parts: Floats, wholes: Floats, axis: int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = parts.sum(axis=axis) / wholes.sum(axis=axis)
    return np.where(np.isfinite(ratios), ratios, np.nan)


def share_interval(successes: int, trials: int) -> Bounds:
    """Wilson's bounds of successes / trials, in [0, 1], sound for few trials and shares of 0; NaN without a trial."""
    from scipy.stats import binomtest

    if not trials:
        return NONE
    bounds = binomtest(int(successes), int(trials)).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)
