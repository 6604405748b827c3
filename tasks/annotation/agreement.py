"""Inter-annotator agreement: share of equal pairs, two kappas, Krippendorff's alpha, with bootstrap intervals.

A unit is a task or item with the list of the labels that annotators gave it in one field. Kappa and alpha are 1 for
full agreement and 0 for chance; None where no unit has enough labels, or where only one label value occurs, so that
chance agrees fully as well.
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
    """An agreement measure that is a function of sums over units. `rows`: an array with one row a unit; `of`: column
    sums of `rows` -> the measure, NaN if it is undefined; it also takes the sums of many samples at once, along
    leading axes.
    """

    rows: Floats
    of: Callable[[Floats], Floats]

    @property
    def value(self) -> float | None:
        """The measure over all units; None if it is undefined."""
        found = float(self.of(self.rows.sum(axis=0)))
        return None if math.isnan(found) else found

    def bounds(self, *, seed: int = 0, draws: int = RESAMPLES) -> Bounds:
        """(lower, upper) bound of the 95 % bootstrap interval over units, from those of `draws` resamples in which the
        measure is defined; both NaN if it is in none, or with fewer than two units.
        """
        return bootstrap(self.rows, self.of, seed=seed, draws=draws)


def units(labels: pd.DataFrame) -> list[list[Any]]:
    """For every task or item with two labels or more, the list of these labels, ordered by annotator id; tasks and
    items ordered by id. `labels`: the rows of one field in a table of tasks/annotation/labels.py.
    """
    of_unit = labels.sort_values("annotator_id").groupby(["task_id", "item_id"])["value"]
    return [list(values) for _, values in of_unit if len(values) > 1]


def pairwise_share(units: Units) -> float | None:
    """Share of equal pairs among all pairs of labels within a unit, over all units, from 0 to 1; None if no unit has
    two labels.
    """
    pairs = [one == other for labels in units for one, other in combinations(labels, 2)]
    return sum(pairs) / len(pairs) if pairs else None


def alpha(units: Units, *, ordinal: bool = False, interval: bool = False) -> Measure:
    """Krippendorff's alpha (2011), nominal by default; `ordinal` or `interval` for labels that are numbers.

    Units may have any number of labels; those with fewer than two are ignored.
    """
    labels = _labels(labels for labels in units if len(labels) > 1)
    if ordinal:
        labels = labels.rank()  # labels are as far apart as many lie between them, half of their own counted
    return Measure(_sums_by_unit(labels, numbers=ordinal or interval), partial(_corrected, fewer=1))


def fleiss(units: Units) -> Measure:
    """Fleiss' kappa (1971) over the units that have the same number of labels: the most frequent number, of two or
    more; of several as frequent ones the largest. Other units are ignored. The order of labels within a unit does not
    matter.
    """
    sizes = Counter(len(labels) for labels in units if len(labels) > 1)
    size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    labels = _labels(labels for labels in units if len(labels) == size)
    return Measure(_sums_by_unit(labels, numbers=False), partial(_corrected, fewer=0))


def _labels(units: Iterable[Sequence[Any]]) -> pd.Series[Any]:
    """All labels in one series; its index is the position of the label's unit, from 0."""
    found = [(number, label) for number, labels in enumerate(units) for label in labels]
    return pd.Series([label for _, label in found], index=[number for number, _ in found], dtype=object).infer_objects()


def _sums_by_unit(labels: pd.Series[Any], *, numbers: bool) -> Floats:
    """An array with one row a unit, for units of two labels or more. Its columns: the sum of squared differences of
    the pairs of the unit's m labels, divided by m - 1; m; the sum of squares; then the sum of each coordinate. A label
    is one coordinate (its distance from the mean of all) if `numbers`, else one-hot encoded. `labels`: as returned by
    `_labels`.
    """
    points = (labels - labels.mean()).to_frame() if numbers else pd.get_dummies(labels, dtype=float)
    sums, size = points.groupby(level=0).sum(), points.groupby(level=0).size()
    squares = (points**2).sum(axis=1).groupby(level=0).sum()
    return np.column_stack([(size * squares - (sums**2).sum(axis=1)) / (size - 1), size, squares, sums]).astype(float)


def _corrected(sums: Floats, *, fewer: int) -> Floats:
    """1 - observed / expected disagreement, from column sums of `_sums_by_unit`; NaN if none is expected. `fewer`:
    expected disagreement is over n(n - 1) pairs of the n labels (1, for alpha) or over n² (0, for Fleiss' kappa).
    """
    observed, number, squares, totals = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3:]
    expected = number * squares - (totals**2).sum(axis=-1)
    return 1 - ratio((number - fewer) * observed, expected.round(9))


def kappa(units: Units) -> Measure:
    """Cohen's kappa (1960), unweighted, over the units with exactly two labels; other units are ignored. The labels of
    every unit must be in the same order of the two annotators.
    """
    points = pd.get_dummies(_labels(labels for labels in units if len(labels) == 2), dtype=float).to_numpy()
    first, second = points[::2], points[1::2]
    return Measure(np.column_stack([(first * second).sum(axis=1), first, second]), _cohen)


def _cohen(sums: Floats) -> Floats:
    """Cohen's kappa from column sums: the number of agreements, then the counts of each label by the first annotator,
    then those by the second. NaN if chance alone agrees fully.
    """
    agreed, (first, second) = sums[..., 0], np.split(sums[..., 1:], 2, axis=-1)
    number = first.sum(axis=-1)
    return 1 - ratio(number * (number - agreed), number**2 - (first * second).sum(axis=-1))


def agreement(form: Form, labels: pd.DataFrame, *, seed: int = 0, draws: int = RESAMPLES) -> pd.DataFrame:
    """One row for each field of choices or numbers: `field`, `units` with two labels or more, the number of `labels`
    in them, `agreed` (share of equal pairs), and `alpha`, `cohen` and `fleiss`, each with its 95 % interval (`alpha
    from`, `alpha to`) from `draws` resamples. A figure that is undefined is None, its bounds NaN. `labels`: a table as
    tasks/annotation/labels.py makes it.

    Alpha is interval for numbers, else nominal. Cohen's kappa is None unless exactly two annotators labelled the
    field.
    """
    asked = [field for field in form.fields if field.offered or field.kind == "number"]
    return pd.DataFrame([_agreed(field, labels[labels["field"] == field.name], seed, draws) for field in asked])


def _agreed(field: Field, labels: pd.DataFrame, seed: int, draws: int) -> dict[str, Any]:
    """The row of `agreement` for this field. `labels`: the rows of this field in the table of labels."""
    of = units(labels)
    of_two = of if labels["annotator_id"].nunique() == 2 else []
    measures = {"alpha": alpha(of, interval=field.kind == "number"), "cohen": kappa(of_two), "fleiss": fleiss(of)}
    found = {"field": field.name, "units": len(of), "labels": sum(map(len, of)), "agreed": pairwise_share(of)}
    for name, measure in measures.items():
        low, high = measure.bounds(seed=seed, draws=draws)
        found |= {name: measure.value, f"{name} from": low, f"{name} to": high}
    return found
