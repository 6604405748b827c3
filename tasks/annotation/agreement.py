"""Agreement of annotators who label the same things: shares, Cohen, Fleiss, Krippendorff, with bootstrap intervals.

A matrix has a row for each unit and a column for each annotator, and NaN or None where nobody labelled. All measures
are 1 for agreement and 0 for chance; None where there is nothing to compare, or where one label alone was given, which
chance agrees on as well.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tasks.annotation.form import Form

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 1_000
Units = Sequence[Sequence[Any]]


def matrix(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels of one field (tasks/annotation/labels.py), units by annotators."""
    return labels.pivot(index=["task_id", "item_id"], columns="annotator_id", values="value")


def units(found: pd.DataFrame) -> list[list[Any]]:
    """Of each unit of a matrix with two labels or more, its labels."""
    rows = ([value for value in row if value == value and value is not None] for row in found.to_numpy(object))
    return [row for row in rows if len(row) > 1]


def pairwise_share(units: Units) -> float | None:
    """Share of the pairs of labels of one thing that are alike, over all such pairs, in [0, 1]."""
    pairs = [one == other for labels in units for one, other in combinations(labels, 2)]
    return sum(pairs) / len(pairs) if pairs else None


def alpha(units: Units, *, ordinal: bool = False, interval: bool = False) -> float | None:
    """Krippendorff's alpha (2011) of any number of labels a thing: nominal, or ordinal or interval of numbers.

    Things with fewer than two labels count nowhere.
    """
    compared = [labels for labels in units if len(labels) > 1]
    counts = Counter(label for labels in compared for label in labels)
    if len(counts) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask
    from nltk.metrics.distance import binary_distance, interval_distance

    apart = _rank_distance(counts) if ordinal else interval_distance if interval else binary_distance
    data = [(coder, unit, label) for unit, labels in enumerate(compared) for coder, label in enumerate(labels)]
    return float(AnnotationTask(data=data, distance=apart).alpha())


def _rank_distance(counts: Counter[Any]) -> Callable[[Any, Any], float]:
    """Between two labels: how many labels lie between them, half of their own counted, squared."""
    ranks: dict[Any, float] = {}
    below = 0
    for label in sorted(counts):
        ranks[label] = below + counts[label] / 2
        below += counts[label]
    return lambda one, other: (ranks[one] - ranks[other]) ** 2


def kappa(units: Units) -> float | None:
    """Cohen's kappa (1960), unweighted, of two annotators: of units with two labels, always in the same order."""
    first, second = ([labels[place] for labels in units if len(labels) == 2] for place in (0, 1))
    if len({*first, *second}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score([str(label) for label in first], [str(label) for label in second]))


def fleiss(units: Units) -> float | None:
    """Fleiss' kappa (1971) of the units with as many labels as most units have; whose labels they are is no matter."""
    sizes = Counter(len(labels) for labels in units if len(labels) > 1)
    rated = [labels for labels in units if sizes and len(labels) == sizes.most_common(1)[0][0]]
    values = sorted({str(label) for labels in rated for label in labels})
    if len(values) < 2:
        return None
    from statsmodels.stats.inter_rater import fleiss_kappa

    counts = [[sum(str(label) == value for label in labels) for value in values] for labels in rated]
    return float(fleiss_kappa(counts))


def interval(
    units: Units, measure: Callable[[Units], float | None], *, seed: int = 0, draws: int = DRAWS
) -> tuple[float | None, float | None]:
    """A 95 % interval of a measure by a percentile bootstrap over units (scipy); (None, None) of fewer than two units.

    Draws without a value, as where one label alone was drawn, are left out.
    """
    if len(units) < 2 or measure(units) is None:
        return None, None
    import numpy as np
    from scipy.stats import DegenerateDataWarning, bootstrap

    def of(drawn: Any) -> float:
        found = measure([units[place] for place in drawn])
        return np.nan if found is None else found

    every, rng = (np.arange(len(units)),), np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # of draws without a value
        done = bootstrap(every, of, vectorized=False, n_resamples=draws, method="percentile", rng=rng)
    low, high = np.nanpercentile(done.bootstrap_distribution, [2.5, 97.5])
    return float(low), float(high)


def _none(units: Units) -> None:
    """Cohen's kappa of other than two annotators."""


def agreement(form: Form, labels: pd.DataFrame, *, seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """One row a field of choices or numbers: units with two labels or more, labels of these, the share of pairs that
    agree, Krippendorff's alpha (of numbers by interval) with its interval, and both kappas with theirs.

    Cohen's is of labels by exactly two annotators, else None.
    """
    import pandas as pd

    rows = []
    for field in form.fields:
        if not (field.offered or field.kind == "number"):
            continue
        found = matrix(labels[labels["field"] == field.name])
        of, numbers = units(found), field.kind == "number"
        figures: dict[str, Any] = {"field": field.name, "units": len(of), "labels": sum(map(len, of))}
        figures["agreed"] = pairwise_share(of)
        measures: dict[str, Callable[[Units], float | None]] = {
            "alpha": partial(alpha, interval=numbers),
            "cohen": kappa if found.shape[1] == 2 else _none,
            "fleiss": fleiss,
        }
        for name, measure in measures.items():
            low, high = interval(of, measure, seed=seed, draws=draws)
            figures |= {name: measure(of), f"{name} from": low, f"{name} to": high}
        rows.append(figures)
    return pd.DataFrame(rows)
