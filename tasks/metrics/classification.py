"""Precision, recall and F1 of yes-or-no predictions, and how sure they are: bootstrap intervals over clusters.

All functions take arrays of counts, one entry a table cell or a resampled data set, and divide them at once. What is
not defined (no positives, nothing to count) is NaN in arrays and None in tables: never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # (samples, k) sums of columns -> (samples,)

RESAMPLES = 1_000
LEVEL = 0.95
DRAWS_AT_ONCE = 4_000_000
DECIMALS_OF_TOTALS, DECIMALS = 9, 6  # what the order of a sum can change is neither drawn by nor shown

TP, FP, FN, TN = range(4)


def outcomes(predicted: Sequence[bool], actual: Sequence[bool]) -> Floats:
    """(n, 4): one 1 a row, under true positive, false positive, false negative or true negative."""
    said, true = np.asarray(predicted, bool), np.asarray(actual, bool)
    if said.shape != true.shape:
        raise ValueError(f"{said.size} predictions for {true.size} labels: each label needs its own")
    return np.stack([said & true, said & ~true, ~said & true, ~said & ~true], axis=1).astype(np.float64)


def precision(counts: Floats) -> Floats:
    """Of counts (…, 4): the share of predicted positives that are positive; NaN where none is predicted."""
    return ratio(counts[..., TP], counts[..., TP] + counts[..., FP])


def recall(counts: Floats) -> Floats:
    """The share of positives that are predicted; NaN where there are none."""
    return ratio(counts[..., TP], counts[..., TP] + counts[..., FN])


def f1(counts: Floats) -> Floats:
    """2 TP / (2 TP + FP + FN); NaN where nothing is positive and nothing is predicted so.

    0 where there are positives and none of them is predicted, although precision is then not defined.
    """
    return ratio(2 * counts[..., TP], 2 * counts[..., TP] + counts[..., FP] + counts[..., FN])


def f1_of_negatives(counts: Floats) -> Floats:
    """F1 with the classes exchanged."""
    return f1(counts[..., [TN, FN, FP, TP]])


def accuracy(counts: Floats) -> Floats:
    """The share that is predicted right: of two classes the micro-averaged F1 as well; NaN of nothing."""
    return ratio(counts[..., TP] + counts[..., TN], counts.sum(axis=-1))


def ratio(part: Any, whole: Any) -> Floats:
    """part / whole; NaN where whole is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    shares: Floats = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
    return shares


def mean_of(sums: Floats) -> Floats:
    """Of columns (sum of values, how many): their mean."""
    return ratio(sums[..., 0], sums[..., 1])


def defined(value: Any) -> float | None:
    """A number of a table; None where it is not defined."""
    number = float(value)
    return None if math.isnan(number) else number


def cluster_totals(clusters: Sequence[Hashable], values: Floats) -> Floats:
    """(clusters, k): the rows of `values` summed by cluster, in the order in which the clusters first come."""
    places: dict[Hashable, int] = {}
    index = [places.setdefault(name, len(places)) for name in clusters]
    totals = np.zeros((len(places), values.shape[1]))
    np.add.at(totals, index, values)
    return totals


def interval(totals: Floats, statistic: Statistic, *, level: float = LEVEL) -> tuple[float | None, float | None]:
    """Percentile bootstrap over clusters: bounds between which the statistic lies in `level` of the resamples.

    `totals` is (clusters, k); a resample draws as many clusters with replacement and sums their rows. The generator
    is seeded by the totals themselves, in sorted order: equal data, equal bounds, in whatever order they come.
    Resamples without a defined value are left out. (None, None) where fewer than two clusters can be drawn from.
    """
    if len(totals) < 2:
        return None, None
    totals = totals.round(DECIMALS_OF_TOTALS) + 0.0
    totals = totals[np.lexsort(totals.T[::-1])]
    values = statistic(_resampled(totals))
    values = values[~np.isnan(values)]
    if not values.size:
        return None, None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]).round(DECIMALS) + 0.0
    return float(low), float(high)


def _resampled(totals: Floats) -> Floats:
    """(RESAMPLES, k) sums."""
    seed = xxh3_64_intdigest(np.ascontiguousarray(totals, "<f8").tobytes())
    dice, clusters = np.random.Generator(np.random.PCG64(seed)), len(totals)
    block = max(1, DRAWS_AT_ONCE // clusters)
    sizes = [min(block, RESAMPLES - start) for start in range(0, RESAMPLES, block)]
    shares = np.full(clusters, 1 / clusters)
    return np.concatenate([dice.multinomial(clusters, shares, size=size) @ totals for size in sizes])
