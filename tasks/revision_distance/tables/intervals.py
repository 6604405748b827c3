"""How sure a mean, a difference of paired means or a share is: 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from tasks.metrics.classification import LEVEL, interval, mean_of

Bounds = tuple[float | None, float | None]


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return math.fsum(values) / len(values) if values else None


def mean_interval(values: Sequence[float]) -> Bounds:
    """Of their mean, by percentile bootstrap; of paired means, give the differences of the pairs.

    The dice are seeded by the values: equal ones have equal bounds, in whatever order. (None, None) of fewer than two.
    """
    return interval(np.array([(value, 1.0) for value in values], np.float64).reshape(-1, 2), mean_of)


def wilson(successes: int, trials: int, *, level: float = LEVEL) -> Bounds:
    """Of a share, in [0, 1] (Wilson 1927): without correction for continuity, sound for few trials and shares of 0."""
    if not trials:
        return None, None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)
