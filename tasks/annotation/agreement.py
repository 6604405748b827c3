"""Agreement of annotators who label the same things: shares, Cohen, Fleiss, Krippendorff, with bootstrap intervals.

Units are lists of the labels that one thing has. All measures are 1 for agreement and 0 for chance; None where there is
nothing to compare, or where one label alone was given, which chance agrees on as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from tasks.annotation.form import Field, Form
from tasks.metrics.intervals import RESAMPLES, Bounds, Floats, bootstrap, ratio

Units = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A measure of what units have in sum. `rows`: a row a unit; `of`: sums of rows -> the measure, NaN for none."""

    rows: Floats
    of: Callable[[Floats], Floats]

    @property
    def value(self) -> float | None:
        found = float(self.of(self.rows.sum(axis=0)))
        return None if math.isnan(found) else found

    def interval(self, *, seed: int = 0, draws: int = RESAMPLES) -> Bounds:
        """95 % bounds by bootstrap over units; NaN of fewer than two units, or without a value."""
        return bootstrap(self.rows, self.of, seed=seed, draws=draws)


def units(labels: pd.DataFrame) -> list[list[Any]]:
    """Of each thing with two labels or more its labels, by annotator; from the labels of one field (labels.py)."""
    of_unit = labels.sort_values("annotator_id").groupby(["task_id", "item_id"])["value"]
    return [list(values) for _, values in of_unit if len(values) > 1]


def pairwise_share(units: Units) -> float | None:
    """Share of the pairs of labels of one thing that are alike, over all such pairs, in [0, 1]."""
    pairs = [one == other for labels in units for one, other in combinations(labels, 2)]
    return sum(pairs) / len(pairs) if pairs else None


def alpha(units: Units, *, ordinal: bool = False, interval: bool = False) -> Measure:
    """Krippendorff's alpha (2011) of any number of labels a thing: nominal, or ordinal or interval of numbers.

    Things with fewer than two labels count nowhere.
    """
    labels = _labels(labels for labels in units if len(labels) > 1)
    if ordinal:
        labels = labels.rank()  # labels are as far apart as many lie between them, half of their own counted
    return Measure(_differences(labels, numbers=ordinal or interval), partial(_corrected, fewer=1))


def fleiss(units: Units) -> Measure:
    """Fleiss' kappa (1971) of the units with as many labels as most units have; whose labels they are is no matter."""
    sizes = Counter(len(labels) for labels in units if len(labels) > 1)
    size = max(sizes, key=sizes.__getitem__, default=0)
    labels = _labels(labels for labels in units if len(labels) == size)
    return Measure(_differences(labels, numbers=False), partial(_corrected, fewer=0))


def _labels(units: Iterable[Sequence[Any]]) -> pd.Series[Any]:
    """Each label, with the number of its unit as the index."""
    found = [(number, label) for number, labels in enumerate(units) for label in labels]
    return pd.Series([label for _, label in found], index=[number for number, _ in found], dtype=object).infer_objects()


def _differences(labels: pd.Series[Any], *, numbers: bool) -> Floats:
    """Of each unit with m labels: the squared differences of its pairs over m - 1; m; squares of labels; their sums.

    A label that is no number is a point, 1 on an axis of its own.
    """
    points = (labels - labels.mean()).to_frame() if numbers else pd.get_dummies(labels, dtype=float)
    sums, size = points.groupby(level=0).sum(), points.groupby(level=0).size()
    squares = (points**2).sum(axis=1).groupby(level=0).sum()
    return np.column_stack([(size * squares - (sums**2).sum(axis=1)) / (size - 1), size, squares, sums]).astype(float)


def _corrected(sums: Floats, *, fewer: int) -> Floats:
    """1 - observed / expected differences; of n labels these are of n(n - 1) pairs for alpha, of n² for kappa."""
    observed, number, squares, totals = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3:]
    expected = number * squares - (totals**2).sum(axis=-1)
    return 1 - ratio((number - fewer) * observed, expected.round(9))


def kappa(units: Units) -> Measure:
    """Cohen's kappa (1960), unweighted, of two annotators: of units with two labels, always in the same order."""
    points = pd.get_dummies(_labels(labels for labels in units if len(labels) == 2), dtype=float).to_numpy()
    first, second = points[::2], points[1::2]
    return Measure(np.column_stack([(first * second).sum(axis=1), first, second]), _cohen)


def _cohen(sums: Floats) -> Floats:
    agreed, (first, second) = sums[..., 0], np.split(sums[..., 1:], 2, axis=-1)
    number = first.sum(axis=-1)
    return 1 - ratio(number * (number - agreed), number**2 - (first * second).sum(axis=-1))


def agreement(form: Form, labels: pd.DataFrame, *, seed: int = 0, draws: int = RESAMPLES) -> pd.DataFrame:
    """One row a field of choices or numbers: units with two labels or more, labels of these, the share of pairs that
    agree, Krippendorff's alpha (of numbers by interval) with its interval, and both kappas with theirs.

    Cohen's is of labels by exactly two annotators, else None.
    """
    asked = [field for field in form.fields if field.offered or field.kind == "number"]
    return pd.DataFrame([_agreed(field, labels[labels["field"] == field.name], seed, draws) for field in asked])


def _agreed(field: Field, labels: pd.DataFrame, seed: int, draws: int) -> dict[str, Any]:
    of = units(labels)
    of_two = of if labels["annotator_id"].nunique() == 2 else []
    measures = {"alpha": alpha(of, interval=field.kind == "number"), "cohen": kappa(of_two), "fleiss": fleiss(of)}
    found = {"field": field.name, "units": len(of), "labels": sum(map(len, of)), "agreed": pairwise_share(of)}
    for name, measure in measures.items():
        low, high = measure.interval(seed=seed, draws=draws)
        found |= {name: measure.value, f"{name} from": low, f"{name} to": high}
    return found
