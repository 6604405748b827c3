"""Agreement of a second labelling with the reference: by hand, by scikit-learn, and where there is nothing to say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row
from tasks.annotation.agreement import kappa, pairwise_share
from tasks.expertqa.tables.second_labelling import PROPERTIES, agreement_with_second
from tasks.expertqa.vocabulary import LABELLED

WORDS = st.sampled_from(["Complete", "Partial", "Missing"])


def labels(answer: str, usefulness: str | None, *support: str | None, who: str = "e1", **other: Any) -> Row:
    claims = [
        {"claim_id": f"{answer}#{place}", **dict.fromkeys(LABELLED), "support": word}
        for place, word in enumerate(support)
    ]
    known = {"answer_id": answer, "question_id": f"q_{answer}", "annotator_id": who}
    return {**known, "usefulness": usefulness, "claims": claims, **other}


def of(rows: list[Row], field: str | None, name: str) -> Row:
    (found,) = [row for row in rows if (row["field"], row["property"]) == (field, name)]
    return found


def test_shares_and_kappa_by_hand() -> None:
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    both = list(zip(first, second, strict=True))
    assert pairwise_share(both) == 0.7
    assert kappa(both).value == pytest.approx(0.4)  # (0.7 - 0.5) / (1 - 0.5)


def test_one_label_alone_and_nothing_have_no_kappa() -> None:
    assert (pairwise_share([]), kappa([]).value) == (None, None)
    assert (pairwise_share([("Yes", "Yes")] * 3), kappa([("Yes", "Yes")] * 3).value) == (1.0, None)
    assert kappa([("Yes", "Yes"), ("Yes", "No")]).value == 0.0


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=30))
def test_it_is_cohens_formula_and_the_order_of_the_annotators_does_not_matter(both: list[tuple[str, str]]) -> None:
    from sklearn.metrics import accuracy_score

    first, second = [one for one, _ in both], [other for _, other in both]
    assert pairwise_share(both) == pytest.approx(accuracy_score(first, second))
    chance = sum(Fraction(first.count(word) * second.count(word), len(both) ** 2) for word in {*first})
    if chance == 1:
        assert kappa(both).value is None
        return
    observed = Fraction(sum(one == other for one, other in both), len(both))
    assert kappa(both).value == pytest.approx(float((observed - chance) / (1 - chance)))
    assert kappa([(other, one) for one, other in both]).value == pytest.approx(kappa(both).value)


def test_each_property_of_each_field_with_what_was_compared() -> None:
    reference = [
        labels("a", "Useful", "Complete", "Partial", None),
        labels("b", "Useful", "Missing"),
        labels("c", "Useful", "Complete"),
    ]
    second = [
        labels("b", "Not useful at all", "Missing", who="s"),
        labels("a", "Useful", "Complete", "Missing", "Partial", who="s"),
        labels("d", "Useful", "Complete", who="s"),
    ]
    rows = agreement_with_second(
        reference, second, {"q_a": "Medicine", "q_b": "Engineering", "q_c": "Law", "q_d": "Law"}
    )
    assert [(row["field"], row["property"]) for row in rows] == [
        (field, name) for field in (None, "Engineering", "Medicine") for name in PROPERTIES
    ]
    support = of(rows, None, "support")
    assert (support["labelled"], support["agreed"], support["agreement"]) == (3, 2, pytest.approx(2 / 3))
    assert support["kappa"] == pytest.approx((2 / 3 - 3 / 9) / (1 - 3 / 9))
    assert of(rows, None, "usefulness")["agreement"] == 0.5
    assert of(rows, "Medicine", "support")["agreement"] == 0.5
    assert (of(rows, "Engineering", "support")["agreement"], of(rows, "Engineering", "support")["kappa"]) == (1.0, None)
    nothing = of(rows, "Medicine", "correctness")
    assert (nothing["labelled"], nothing["agreed"], nothing["agreement"], nothing["kappa"]) == (0, 0, None, None)


def test_of_several_reference_labellings_the_majority_counts_and_every_second_one_is_compared() -> None:
    reference = [labels("a", word, support, who=who) for who, word, support in (
        ("e1", "Not useful at all", "Missing"), ("e2", "Useful", "Partial"), ("e3", "Useful", None),
    )]  # fmt: skip
    second = [labels("a", "Useful", "Missing", who="s"), labels("a", "Not useful at all", "Missing", who="t")]
    rows = agreement_with_second(reference, second, {"q_a": "Law"})
    found = of(rows, "Law", "usefulness")
    assert (found["labelled"], found["agreed"]) == (2, 1)
    assert of(rows, "Law", "support")["labelled"] == 0, "two annotators who differ decide nothing"


def test_claims_are_matched_by_their_ids_in_whatever_order() -> None:
    reference, second = labels("a", None, "Complete", "Partial"), labels("a", None, "Complete", "Partial", who="s")
    second["claims"].reverse()
    assert of(agreement_with_second([reference], [second], {"q_a": "Law"}), None, "support")["agreement"] == 1.0


def test_nothing_to_compare() -> None:
    assert [row["labelled"] for row in agreement_with_second([labels("a", "Useful")], [], {})] == [0] * len(PROPERTIES)
