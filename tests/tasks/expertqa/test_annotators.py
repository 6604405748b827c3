"""Labels of several annotators: majorities against counts by hand, agreement, calibration against scikit-learn."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from expertqa_tables import Home, claim_label, label
from hypothesis import given
from hypothesis import strategies as st

from schemas.expertqa import LABELS
from tasks.annotation.labels import aggregate
from tasks.expertqa.annotators import agreement_of_annotators, decided, majority, publish_labels, usefulness_of
from tasks.expertqa.tables.calibration import BINS, calibration, compared, trust

VALUES = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=7)


@given(VALUES)
def test_a_majority_is_the_label_of_more_than_half_in_any_order(values: list[str | None]) -> None:
    given = [value for value in values if value]
    best = [name for name in "abc" if given.count(name) > len(given) - given.count(name)]
    expected = (best[0], False) if best else (None, bool(given))
    assert majority(values) == expected
    assert all(majority(order) == expected for order in list(permutations(values))[:20])


@given(st.lists(st.sampled_from(["Complete", "Partial", "Missing"]), min_size=1, max_size=7))
def test_published_labels_are_those_that_longform_labels_counts(said: list[str]) -> None:
    unit = {"task_id": "a", "item_id": "a#0", "field": "support"}
    together = aggregate(pd.DataFrame([{**unit, "annotator_id": f"e{n}", "value": one} for n, one in enumerate(said)]))
    row = decided("a#0", labelled(*said))
    counted = None if pd.isna(together["value"][0]) else together["value"][0]
    assert (row["support"], row["undecided"]) == (counted, [] if counted else ["support"])


def labelled(*supports: str | None, **more: Any) -> list[dict[str, Any]]:
    return [
        label(
            "a",
            f"e{place}",
            "q",
            [claim_label("a#0", support=support, **(more if place == 1 else {}))],
            usefulness="Useful",
        )
        for place, support in enumerate(supports)
    ]


def test_texts_are_of_the_first_annotator_who_wrote_any() -> None:
    row = decided("a#0", labelled("Partial", "Complete", "Complete", revised_claim="Better.", revised_evidence=["x"]))
    assert (row["support"], row["revised_claim"], row["annotator_id"], row["annotators"]) == (
        "Complete",
        "Better.",
        "e1",
        3,
    )
    assert row["undecided"] == []
    assert decided("a#0", labelled("Partial", "Complete"))["undecided"] == ["support"]
    assert decided("a#0", []) | {"revised_evidence": None, "undecided": None, "annotators": None} == dict.fromkeys(row)


def test_usefulness_is_by_majority_of_each_answer() -> None:
    rows = [label("a", who, "q", [], usefulness=said) for who, said in (("x", "Useful"), ("y", None), ("z", "Useful"))]
    rows += [
        label("b", who, "q", [], usefulness=said, system="s")
        for who, said in (("x", "Useful"), ("y", "Not useful at all"))
    ]
    assert {answer: said for answer, (_, said) in usefulness_of(rows).items()} == {"a": "Useful", "b": None}


def test_every_annotators_labels_are_published(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = [*labelled("Partial", "Complete", None), label("b", "e9", "q", [], usefulness="Useful")]
    made = home.run(publish_labels, home.table(LABELS, rows))
    assert [(row["annotator_id"], row["support"], row["usefulness"]) for row in made] == [
        ("e0", "Partial", "Useful"), ("e1", "Complete", "Useful"), ("e2", None, "Useful"),
    ]  # fmt: skip
    assert home.rejected(made) == {"b/e9": "no claim"}


def test_alpha_of_a_textbook_example(tmp_path: Path) -> None:
    """The nominal example of Krippendorff (2011), 0.691 of two observers over ten units."""
    one, other = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    words = ("Complete", "Missing")
    rows = [
        label(f"a{unit}", who, "q", [claim_label(f"a{unit}#0", support=words[value])])
        for who, values in (("x", one), ("y", other))
        for unit, value in enumerate(values)
    ]
    found = agreement_of_annotators(Home(tmp_path).table(LABELS, rows)).set_index("property")
    assert found.alpha["support"] == pytest.approx(0.095, abs=5e-4), "his binary data: alpha 0.095"
    assert found["agreement, %"]["support"] == pytest.approx(60)
    assert (found["labelled twice or more"]["support"], found["no majority"]["support"]) == (10, 4)
    assert found["alpha from"]["support"] < 0.095 < found["alpha to"]["support"]
    assert found["labelled twice or more"]["usefulness"] == 0
    assert found.alpha.isna()["usefulness"]


def test_calibration_is_what_sklearn_says() -> None:
    from sklearn.metrics import brier_score_loss, precision_recall_fscore_support

    chance = random.Random(5)
    scores = [chance.random() for _ in range(200)]
    supports = [chance.choice(["Complete", "Partial", "Missing", "N/A", None]) for _ in scores]
    names = [f"c{place}" for place in range(len(scores))]
    claims = pd.DataFrame({"claim_id": names, "support": supports})
    attributions = pd.DataFrame({
        "claim_id": names, "backend": "lexical-1", "score": scores, "attributable": [score >= 0.65 for score in scores],
    })  # fmt: skip
    attributions.loc[:9, "score"] = None
    found = compared(claims, attributions)
    kept = [
        (score, support == "Complete")
        for score, support in list(zip(scores, supports, strict=True))[10:]
        if support in ("Complete", "Partial", "Missing")
    ]
    table = calibration(found)
    whole = table[table.score == "all"].iloc[0]
    truth = [complete for _, complete in kept]
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, [score >= 0.65 for score, _ in kept], average="binary"
    )
    assert whole.claims == len(kept)
    assert [whole.precision, whole.recall, whole.F1] == pytest.approx([precision, recall, f1])
    assert pytest.approx(brier_score_loss(truth, [score for score, _ in kept])) == whole.Brier
    bins = [[(score, right) for score, right in kept if int(score * BINS) == number] for number in range(BINS)]
    gaps = [abs(sum(score for score, _ in own) - sum(right for _, right in own)) / len(kept) for own in bins if own]
    assert pytest.approx(sum(gaps)) == whole.ECE
    assert len(table) == len([own for own in bins if own]) + 1
    assert f"lexical-1 against people's labels of {len(kept)} claims: precision {precision:.2f}" in trust(found)
    assert "Nobody has compared" in trust(found.iloc[:0])
    assert "few" in trust(found.iloc[:9])
