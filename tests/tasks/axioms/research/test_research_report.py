"""Tables and figures of research questions, recomputed here in another way."""

from __future__ import annotations

from itertools import permutations
from statistics import mean
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.axioms.research.report import (
    PRINTED,
    agreement_with_people,
    flaws_by_kind,
    majorities,
    mean_reciprocal_ranks,
    scores_against_length,
)
from tasks.publishing.printed import printed

KINDS = ("strong closed_book", "weak assistant_guided", "weak closed_book")


def answers(table: dict[tuple[str, str], float | None], words: dict[str, int] | None = None) -> pd.DataFrame:
    """Answers by one scorer. `table`: (question, kind) -> score."""
    return pd.DataFrame([
        {
            "research_answer_id": f"{question}/{kind}", "research_question_id": question, "question": question,
            "kind": kind, "condition": kind.split()[1], "words": (words or {}).get(question, 10), "scorer": "s",
            "score": score,
        }
        for (question, kind), score in table.items()
    ]).astype({"score": "float64"})  # fmt: skip


def by_permutations(scores: dict[str, float], kind: str) -> float:
    """The mean of 1 / the rank of a kind over all orders in which no answer stands before a better one."""
    ranks = []
    for order in permutations(scores):
        values = [scores[each] for each in order]
        if values == sorted(values, reverse=True):
            ranks.append(1 / (order.index(kind) + 1))
    return mean(ranks)


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 3))] * 3), min_size=1, max_size=6))
def test_mean_reciprocal_ranks_are_those_of_all_orders(rows: list[tuple[int | None, ...]]) -> None:
    table = {(f"q{n}", kind): score for n, row in enumerate(rows) for kind, score in zip(KINDS, row, strict=True)}
    found = mean_reciprocal_ranks(answers(table)).set_index("kind")
    for place, kind in enumerate(KINDS):
        known = [
            {name: float(score) for name, score in zip(KINDS, row, strict=True) if score is not None}
            for row in rows
            if row[place] is not None
        ]
        expected = [by_permutations(own, kind) for own in known if len(own) > 1]
        value = found.s[kind] if "s" in found else None
        assert value == pytest.approx(round(mean(expected), 3)) if expected else pd.isna(value)


def test_spearman_is_scipys() -> None:
    from scipy.stats import spearmanr

    words = {f"q{n}": length for n, length in enumerate((40, 80, 20, 160, 100, 60))}
    scores = (3.0, 5.0, 1.0, 4.0, 9.0, 4.0)
    table = {(f"q{n}", KINDS[0]): score for n, score in enumerate(scores)}
    (row,) = scores_against_length(answers(table, words)).to_dict("records")

    expected = spearmanr(list(words.values()), scores)
    assert (row["rho"], row["p"], row["answers"]) == (
        pytest.approx(expected.statistic, abs=5e-4), pytest.approx(expected.pvalue, abs=5e-5), 6,
    )  # fmt: skip


def said(*judged: tuple[str, str, str], flaws: dict[tuple[str, str], list[str]] | None = None) -> pd.DataFrame:
    """Judgements: (question, annotator, better) of the pair of the first two kinds."""
    rows: list[dict[str, Any]] = []
    for question, who, better in judged:
        sides = {"a": KINDS[0], "b": KINDS[1]}
        row = {f"kind_{side}": kind for side, kind in sides.items()}
        row |= {f"answer_{side}_id": f"{question}/{kind}" for side, kind in sides.items()}
        row |= {f"flaws_{side}": (flaws or {}).get((f"{question}{side}", who), []) for side in "ab"}
        rows.append({"research_pair_id": question, "annotator_id": who, "better": better, **row})
    return pd.DataFrame(rows)


def test_agreement_counts_majorities_and_equal_scores_by_half() -> None:
    judged = said(
        ("q0", "x", "a"), ("q0", "y", "a"), ("q0", "z", "b"),  # most prefer A, so does the scorer
        ("q1", "x", "b"), ("q1", "y", "b"), ("q1", "z", "b"),  # all prefer B, the scorer A
        ("q2", "x", "a"), ("q2", "y", "b"),  # nobody knows
        ("q3", "x", "b"), ("q3", "y", "b"), ("q3", "z", "a"),  # B; equal scores
        ("q4", "x", "a"), ("q4", "y", "a"), ("q4", "z", "a"),  # A; no score
    )  # fmt: skip
    assert list(majorities(judged).research_pair_id) == ["q0", "q1", "q3", "q4"]
    table = {(f"q{n}", kind): float(score) for n, pair in enumerate([(2, 1), (2, 1), (1, 2), (3, 3)])
             for kind, score in zip(KINDS[:2], pair, strict=True)}  # fmt: skip
    table |= {("q4", KINDS[0]): None, ("q4", KINDS[1]): 1.0}  # type: ignore[dict-item]
    rows = agreement_with_people(judged, answers(table)).set_index("A")
    row = rows.loc[KINDS[0]]
    assert (row.pairs, row["people prefer A"], row.significant) == (4, 50.0, "no")
    assert row["s prefers A"] == pytest.approx(round(100 * (1 + 1 + 0.5) / 3, 1))
    assert row["s tie"] == pytest.approx(33.3)
    assert row["s agrees"] == pytest.approx(round(100 * (1 + 0 + 0.5) / 3, 1))
    assert rows.loc["overall"]["s agrees"] == row["s agrees"]
    assert agreement_with_people(None, answers(table)).empty


def test_a_flaw_counts_if_any_person_marks_it() -> None:
    flaws = {("q0a", "x"): ["unclear"], ("q0a", "y"): ["unclear", "too broad"], ("q1b", "x"): ["inaccurate"]}
    judged = said(("q0", "x", "a"), ("q0", "y", "a"), ("q1", "x", "a"), ("q1", "y", "b"), flaws=flaws)
    found = flaws_by_kind(judged).set_index("answer")
    assert found.loc["A", ["unclear %", "too broad %", "inaccurate %"]].tolist() == [50.0, 50.0, 0.0]
    assert found.loc["B", ["unclear %", "inaccurate %"]].tolist() == [0.0, 50.0]
    assert found.pairs.tolist() == [2, 2]


def test_printed_tables_are_those_of_the_paper() -> None:
    assert len(printed(PRINTED, "table_4")) == 10
    ranks = printed(PRINTED, "table_5")
    # seven answers a question: the reciprocal ranks of a scorer sum to 1 + 1/2 + ... + 1/7
    for name in ranks.columns.drop("kind"):
        assert float(ranks[name].sum()) == pytest.approx(2.593, abs=0.03), name
