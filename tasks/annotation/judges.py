"""How far a judge, such as a model, says what people say: accuracy and macro F1 where people agree, and their balance.

The frames have a row for each judgement of a person: task, item_id, annotator_id, `label` (the person's), `judge`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from longform.artifacts.rows import Row
from tasks.annotation.agreement import Measure, alpha, pairwise_share, units
from tasks.metrics.intervals import Floats, ratio, share_interval

NAN = float("nan")


def agreed_items(judgements: pd.DataFrame) -> pd.DataFrame:
    """The items of which all people say the same, with columns `label` and `judge`: of those that two or more people
    judged, or of all if no item was judged by two. `judgements`: of one judge.
    """
    labels = judgements.groupby("item_id")["label"]
    number = labels.transform("size")
    kept = (labels.transform("nunique") == 1) & (number >= min(2, number.max()))
    found: pd.DataFrame = judgements[kept].drop_duplicates("item_id")
    return found


def judge_figures(judgements: pd.DataFrame, positive: Sequence[str]) -> Row:
    """How far people agree, and the judge with them, in percent; NaN where there is no figure. Accuracy, macro F1 and
    the shares of `positive` labels are of `agreed_items`, whose number is in `compared`. Intervals (95 %): Wilson's of
    accuracy, else by bootstrap over items. `judgements`: of one judge.
    """
    twice = units(judgements.rename(columns={"task": "task_id", "label": "value"}))
    people, items = alpha(twice), agreed_items(judgements)
    f1, same = macro_f1(items), items["label"] == items["judge"]
    return {
        "people": judgements["annotator_id"].nunique(),
        "judged by two or more": len(twice),
        **_numbers("agreed, %", pairwise_share(twice)),
        **_numbers("Krippendorff's alpha", people.value, *people.bounds(), times=1),
        "compared": len(items),
        **_numbers("accuracy, %", same.mean(), *share_interval(same.sum(), len(items))),
        **_numbers("macro F1, %", f1.value, *f1.bounds()),
        **_numbers("positive by people, %", items["label"].isin(positive).mean()),
        **_numbers("positive by the judge, %", items["judge"].isin(positive).mean()),
    }


def _numbers(name: str, value: float | None, *bounds: float, times: int = 100) -> Row:
    """`name`: the value, NaN for None; `name from`, `name to`: its bounds, if given; all multiplied by `times`."""
    found = zip((name, f"{name} from", f"{name} to"), (value, *bounds), strict=False)
    return {key: NAN if each is None else times * each for key, each in found}


def macro_f1(items: pd.DataFrame) -> Measure:
    """The mean F1 of the labels that occur in the columns `label`, the truth, or `judge`."""

    def mean(sums: Floats) -> Floats:
        hits, marks = np.split(sums, 2, axis=-1)
        return ratio(np.nansum(ratio(2 * hits, marks), axis=-1), np.sum(marks > 0, axis=-1, dtype=float))

    people, judge = np.split(pd.get_dummies(pd.concat([items["label"], items["judge"]]), dtype=float).to_numpy(), 2)
    return Measure(np.column_stack([people * judge, people + judge]), mean)
