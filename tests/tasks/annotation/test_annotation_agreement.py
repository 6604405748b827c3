"""Agreement against published examples, and the table of labels: who said what, what most say, how far they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.annotation.agreement import agreement, alpha, fleiss, kappa, units
from tasks.annotation.form import Field, Form, Item, Shown, Task
from tasks.annotation.labels import UNIT, aggregate, by_annotator, decision_counts, later, progress

FORM = Form(
    "toys",
    "",
    "task_id",
    "who",
    (Shown("text"), Shown("step", of_item=True)),
    (
        Field("verdict", "Right?", "choice", ("a", "b", "c"), of_item=True),
        Field("score", "How good?", "number", scale=(1, 5)),
        Field("remark", "Else?", "text"),
    ),
    items="steps",
    item_key="step_id",
)
KRIPPENDORFF = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""  # of Computing Krippendorff's Alpha-Reliability (2011), section C
FLEISS = """0 0 0 0 14
0 2 6 4 2
0 0 3 5 6
0 3 9 2 0
2 2 8 1 1
7 7 0 0 0
3 2 6 3 0
2 5 3 2 2
6 5 2 1 0
0 2 2 3 7"""  # 14 raters, 5 categories: kappa 0.210 (Fleiss' kappa, the worked example)


def labels(*rows: tuple[str, str, str, str, Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*UNIT, "annotator_id", "value"]).assign(labelled_at=None, source="jsonl")


def test_alpha_is_that_of_krippendorffs_example_from_a_table_of_labels() -> None:
    table = labels(
        *(
            (f"t{unit}", "", "score", f"coder {coder}", int(cell))
            for coder, line in enumerate(KRIPPENDORFF.splitlines())
            for unit, cell in enumerate(line.split())
            if cell != "."
        )
    )
    found = units(table)
    assert (len(found), sum(map(len, found))) == (11, 40)
    assert alpha(found).value == pytest.approx(0.743, abs=5e-4)
    assert alpha(found, ordinal=True).value == pytest.approx(0.815, abs=5e-4)
    assert alpha(found, interval=True).value == pytest.approx(0.849, abs=5e-4)
    row = agreement(FORM, table, draws=200).set_index("field").loc["score"]
    assert (row["units"], row["labels"]) == (11, 40)
    assert row["alpha"] == pytest.approx(0.849, abs=5e-4)
    assert row["alpha from"] < row["alpha"] < row["alpha to"] <= 1
    assert pd.isna(row["cohen"])


def test_fleiss_kappa_is_that_of_the_worked_example_and_leaves_other_sizes_out() -> None:
    counts = [[int(cell) for cell in line.split()] for line in FLEISS.splitlines()]
    rated = [[category for category, number in enumerate(row) for _ in range(number)] for row in counts]
    assert fleiss(rated).value == pytest.approx(0.210, abs=5e-4)
    assert fleiss([*rated, [1, 2], [3]]).value == pytest.approx(0.210, abs=5e-4)
    twice = [[1, 1], [1, 2], *[[3, 3]] * (len(rated) - 2)]
    assert fleiss([*rated, *twice]).value == fleiss([*twice, *rated]).value == fleiss(rated).value
    assert fleiss([["a", "a"], ["a", "a"]]).value is None
    assert fleiss([]).value is None


def test_intervals_are_of_the_measure_the_same_for_a_seed_and_narrower_for_more_units() -> None:
    some = [("a", "a"), ("b", "b"), ("a", "b"), ("b", "b"), ("a", "a"), ("b", "a")] * 5
    low, high = kappa(some).bounds(draws=300)
    assert low < kappa(some).value < high  # type: ignore[operator]
    assert kappa(some).bounds(draws=300) == (low, high)
    assert kappa(some).bounds(draws=300, seed=1) != (low, high)
    wide = kappa(some[:12]).bounds(draws=300)
    assert wide[1] - wide[0] > high - low
    assert kappa([("a", "a"), ("b", "b")] * 9).bounds(draws=100) == (1.0, 1.0)
    assert all(map(math.isnan, kappa([("a", "a")] * 9).bounds()))
    assert all(map(math.isnan, kappa([("a", "b")]).bounds()))


UNITS = st.lists(st.lists(st.integers(1, 4), max_size=5), max_size=12)


def of_nltk(units: Sequence[Sequence[int]], distance: str | Callable[[int, int], float]) -> float:
    """Alpha with a distance of nltk, by name, or with another."""
    from nltk.metrics import agreement
    from nltk.metrics import distance as distances

    data = [(coder, unit, label) for unit, labels in enumerate(units) for coder, label in enumerate(labels)]
    by = getattr(distances, distance) if isinstance(distance, str) else distance
    return float(agreement.AnnotationTask(data=data, distance=by).alpha())


def of_scikit_learn(units: Sequence[Sequence[int]]) -> float:
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(*zip(*units, strict=True)))


def rank_distance(counts: Counter[int]) -> Callable[[int, int], float]:
    """Krippendorff's ordinal difference, from how many labels have each value."""

    def distance(one: int, other: int) -> float:
        low, high = sorted((one, other))
        return (sum(counts[value] for value in range(low, high + 1)) - (counts[low] + counts[high]) / 2) ** 2

    return distance


@settings(max_examples=60, deadline=None)
@given(UNITS)
def test_alpha_is_nltks(units: list[list[int]]) -> None:
    compared = [labels for labels in units if len(labels) > 1]
    counts = Counter(label for labels in compared for label in labels)
    if len(counts) < 2:
        assert (alpha(units).value, alpha(units, ordinal=True).value, alpha(units, interval=True).value) == (None,) * 3
        return
    assert alpha(units).value == pytest.approx(of_nltk(compared, "binary_distance"))
    assert alpha(units, interval=True).value == pytest.approx(of_nltk(compared, "interval_distance"))
    assert alpha(units, ordinal=True).value == pytest.approx(of_nltk(compared, rank_distance(counts)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=12))
def test_fleiss_kappa_is_that_of_statsmodels(units: list[list[int]]) -> None:
    from statsmodels.stats.inter_rater import fleiss_kappa

    counts = [[labels.count(value) for value in range(4)] for labels in units]
    if len({label for labels in units for label in labels}) > 1:
        assert fleiss(units).value == pytest.approx(fleiss_kappa(counts))


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (alpha, lambda units: of_nltk(units, "binary_distance")),
        (partial(alpha, interval=True), lambda units: of_nltk(units, "interval_distance")),
        (kappa, of_scikit_learn),
    ],
)
def test_intervals_are_of_what_libraries_make_of_each_resample(measure: Any, value: Any) -> None:

    units = [[1, 1], [2, 2], [1, 2], [3, 3], [2, 2], [1, 1], [3, 1]] * 5
    rng = np.random.default_rng(11)
    found = [value([units[place] for place in rng.integers(35, size=35)]) for _ in range(500)]
    assert measure(units).bounds() == pytest.approx(np.quantile(found, [0.025, 0.975]), abs=0.05)


def test_agreement_of_each_field_with_cohens_kappa_where_two_annotate() -> None:
    rows = [("t", str(n), "verdict", who, "ab"[n % 2]) for n in range(8) for who in ("ann", "bob")]
    rows[-1] = ("t", "7", "verdict", "bob", "a")
    found = agreement(FORM, labels(*rows), draws=100).set_index("field")
    assert list(found.index) == ["verdict", "score"]
    verdict = found.loc["verdict"]
    assert (verdict["units"], verdict["labels"], verdict["agreed"]) == (8, 16, 7 / 8)
    assert verdict["cohen"] == pytest.approx((7 / 8 - 1 / 2) / (1 - 1 / 2))  # chance: 4/8 * 5/8 + 4/8 * 3/8
    assert found.loc["score"]["units"] == 0
    assert pd.isna(found.loc["score"]["agreed"])


VOTES = labels(
    ("t", "1", "verdict", "ann", "a"),
    ("t", "1", "verdict", "bob", "a"),
    ("t", "1", "verdict", "cy", "b"),
    ("t", "2", "verdict", "ann", "a"),
    ("t", "2", "verdict", "bob", "b"),
    ("t", "3", "verdict", "ann", "c"),
    ("t", "4", "verdict", "ann", "a"),
    ("t", "4", "verdict", "bob", "a"),
    ("t", "4", "verdict", "cy", "b"),
    ("t", "4", "verdict", "di", "c"),
)


def test_progress_counts_units_by_how_many_labelled_them() -> None:
    tasks = [Task("t", items=tuple(Item(str(n), {}) for n in range(1, 7))), Task("u")]
    found = progress(FORM, tasks, VOTES).set_index("field")
    assert list(found.loc["verdict"]) == [6, 1, 3, 10]
    assert list(found.loc["score"]) == [2, 0, 0, 0]
    assert [tuple(row) for row in by_annotator(VOTES).to_numpy()] == [
        ("ann", 1, 4),
        ("bob", 1, 3),
        ("cy", 1, 2),
        ("di", 1, 1),
    ]


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("majority", ["a", None, "c", None]),
        ("plurality", ["a", None, "c", "a"]),
        ("unanimous", [None, None, "c", None]),
    ],
)
def test_aggregate_has_a_value_where_the_rule_is_met_and_ties_stand_apart(rule: Any, values: list[str | None]) -> None:
    """Of units 1 to 4: two of three, one of each, one alone, two of four (more than any other, but no majority)."""
    found = aggregate(VOTES, rule=rule)
    assert [None if pd.isna(value) else value for value in found["value"]] == values
    assert list(found["tied"]) == [False, True, False, False]
    assert list(found["votes"]) == [2, 1, 1, 2]
    counts = {"majority": ("verdict", 3, 1, 1), "plurality": ("verdict", 3, 2, 1), "unanimous": ("verdict", 3, 0, 1)}
    assert [tuple(row) for row in decision_counts(found).to_numpy()] == [counts[rule]]
    assert decision_counts(aggregate(VOTES[:0], rule=rule)).empty


@pytest.mark.parametrize(("first", "second", "kept"), [(1, 2, 2), (2, 1, 1), (1, 1, 1), (None, 2, 1), (1, None, 1)])
def test_the_later_of_two_counts_if_both_are_dated(first: int | None, second: int | None, kept: int) -> None:
    assert later({"labelled_at": first, "place": 1}, {"labelled_at": second, "place": 2})["place"] == kept
