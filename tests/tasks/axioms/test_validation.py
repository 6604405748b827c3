"""Validation of pair types: majorities, rates and kappa against other packages, the sample, the gate's decisions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row
from longform.engine.health import Gate
from schemas.axioms import PAIRS
from schemas.axioms.validation import JUDGEMENTS
from tasks.axioms.validation.gate import collect_both_judgements, decide_pair_types, gates, leave_out_pair_types
from tasks.axioms.validation.rates import (
    Counted,
    counted,
    equal_scores,
    evidence_of,
    flagged,
    kappa,
    majority,
    mean_difference,
    same_in_both_orders,
)
from tasks.axioms.validation.sample import sample_validation
from tasks.axioms.validation.tables import table_6_preferences, table_8_flaws

P, R = "preferred", "rejected"


def judgement(pair: str, better: str, annotator: str = "ann", **more: Any) -> Row:
    told = {"who": "people", "pair_type": "a > b", "points": 1 if better == P else -1, "shown_first": P, **more}
    key = f"{told['who']} {pair} {annotator} {told['shown_first']}"
    return filled(JUDGEMENTS, judgement_id=key, pair_id=pair, better=better, annotator_id=annotator, **told)


def said(*pairs: str, **more: Any) -> list[Row]:
    """A judgement for each letter: "ppr" is a pair that two prefer and one does not."""
    sides = {"p": P, "r": R}
    return [
        judgement(f"p_{number}", sides[letter], f"a{place}", **more)
        for number, letters in enumerate(pairs)
        for place, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("better", "least", "expected"),
    [
        ([P], 1, P),
        ([P, R, R], 1, R),
        ([P, R], 1, None),
        ([P, P, R, R], 1, None),
        ([P], 2, None),
        ([P, P], 2, P),
        ([], 1, None),
    ],
)
def test_the_majority_is_more_than_half_of_the_judgements(better: list[str], least: int, expected: str | None) -> None:
    assert majority(better, least=least) == expected


def test_undecided_pairs_count_neither_for_nor_against() -> None:
    found = counted(said("ppp", "ppr", "prr", "pr", "p"))
    assert found == Counted(3, 1, 1, (1, 3))
    assert (found.judged, found.decided, found.rate) == (5, 4, 0.75)


def test_a_judge_decides_only_what_it_says_in_both_orders() -> None:
    always_first = [
        judgement(f"p_{number}", first, who="judge", shown_first=first) for number in range(9) for first in (P, R)
    ]
    assert counted(always_first) == Counted(undecided=9, raters=(2, 2))
    assert same_in_both_orders(always_first) == 0
    once = [judgement("p_1", P, who="judge")]
    assert counted(once) == Counted(undecided=1, raters=(1, 1)), "one order tells nothing"
    assert same_in_both_orders(once) is None


@pytest.mark.parametrize(
    ("preferred", "rejected", "under"), [(7, 3, False), (69, 31, True), (63, 27, False), (0, 0, False)]
)
def test_exactly_the_share_asked_for_is_not_under_it(preferred: int, rejected: int, under: bool) -> None:
    assert Counted(preferred, rejected).is_under(0.7) is under


@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 99))
def test_a_rate_is_under_a_share_of_percents_as_whole_numbers_say(preferred: int, rejected: int, percent: int) -> None:
    assert Counted(preferred, rejected).is_under(percent / 100) is (100 * preferred < percent * (preferred + rejected))


def test_interval_and_p_value_are_those_of_other_packages() -> None:
    from statsmodels.stats.proportion import proportion_confint

    found = Counted(11, 9)
    assert found.bounds == pytest.approx(proportion_confint(11, 20, method="wilson"), abs=1e-9)
    # two-sided, of 20 fair coins 11 heads or more, or 9 or fewer
    assert found.p_value == pytest.approx(0.8238029479980469, abs=1e-12)
    assert (Counted().bounds, Counted().p_value, Counted().rate) == ((None, None), None, None)


def statsmodels_kappa(units: list[list[str]]) -> float:
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    return float(fleiss_kappa(aggregate_raters(np.array(units))[0], method="fleiss"))


def test_kappa_of_three_raters_is_that_of_statsmodels_for_side_and_scale() -> None:
    random = np.random.default_rng(5)
    points = random.choice([-3, -2, -1, 1, 2, 3], size=(30, 3), p=[0.05, 0.1, 0.15, 0.3, 0.3, 0.1])
    rows = [
        judgement(f"p_{pair}", P if value > 0 else R, f"a{rater}", points=int(value))
        for pair, of in enumerate(points)
        for rater, value in enumerate(of)
    ]
    assert kappa(rows) == (pytest.approx(statsmodels_kappa((points > 0).tolist()), abs=1e-9), 30, 3)
    assert kappa(rows, "points") == (pytest.approx(statsmodels_kappa(points.tolist()), abs=1e-9), 30, 3)


def test_kappa_is_of_the_pairs_with_the_most_frequent_number_of_raters() -> None:
    rows = said("ppp", "ppr", "prr", "rrr", "pr", "pp", "p", "p", "p", "p", "p")
    three = [list("ppp"), list("ppr"), list("prr"), list("rrr")]
    assert kappa(rows) == (pytest.approx(statsmodels_kappa(three), abs=1e-9), 4, 3)
    as_many_of_two = said("ppp", "ppr", "pr", "rr")
    assert kappa(as_many_of_two)[1:] == (2, 3), "of as frequent numbers the largest"
    assert kappa(said("p", "r")) == (None, 0, 0)
    assert kappa(said("ppp", "ppp")) == (None, 2, 3), "only one value: chance agrees as well"


def test_people_decide_before_a_judge_if_they_decided_enough_pairs() -> None:
    of = {"people": Counted(6, 4), "judge": Counted(20, 0)}
    assert evidence_of(of, 10) == "people"
    assert evidence_of(of, 11) == "judge"
    assert evidence_of({"people": Counted(5, 4, 11), "judge": Counted()}, 10) == "unvalidated"


def test_a_flaw_counts_if_any_rater_flags_it() -> None:
    rows = [
        judgement("p_1", P, "a", preferred_flaws=["unclear"], rejected_flaws=["too broad", "unclear"]),
        judgement("p_1", P, "b", rejected_flaws=["too broad"]),
        judgement("p_2", R, "a"),
    ]
    assert (flagged(rows, P, "unclear"), flagged(rows, R, "too broad"), flagged(rows, R, "inaccurate")) == (0.5, 0.5, 0)


def test_score_difference_is_of_judgements_that_score_both() -> None:
    rows = [
        judgement("p_1", P, preferred_score=8, rejected_score=5),
        judgement("p_2", P, preferred_score=4, rejected_score=4),
        judgement("p_3", P, preferred_score=9),
    ]
    assert mean_difference(rows) == 1.5
    assert equal_scores(rows[:2]) == 0.5
    assert (mean_difference([]), equal_scores([])) == (None, None)


# ---------------------------------------------------------------- sample


def pair(key: str, kind: str, question: str, split: str = "train", **more: Any) -> Row:
    texts = {"preferred": f"Good {key}.", "rejected": f"Poor {key}.", **more}
    return filled(PAIRS, pair_id=key, pair_type=kind, question_id=f"s/{question}", split=split, **texts)


def drawn(home: Home, pairs: list[Row], further: list[Row] = [], each: int = 4, seed: int = 1) -> list[Row]:  # noqa: B006
    keys = ["s/1-00000/train", "s/1-00001/train"]
    tables = [home.table(PAIRS, of[::2], of[1::2], keys=keys) for of in (pairs, further)]
    return list(home.run(sample_validation, *tables, each=each, seed=seed))


def test_a_sample_has_so_many_of_each_type_from_as_many_questions_as_there_are(tmp_path: Path) -> None:
    home = Home(tmp_path)
    pairs = [pair(f"p_{n}", "a > b", f"q{n % 3}") for n in range(40)] + [pair("p_x", "c > d", "q1")]
    pairs += [pair(f"p_o{n}", "a > b", f"o{n}", split="overlap") for n in range(20)]
    found = drawn(home, pairs, [pair(f"p_f{n}", "top > e", f"q{n}") for n in range(9)])
    assert Counter(row["pair_type"] for row in found) == {"a > b": 4, "c > d": 1, "top > e": 4}
    of_question = Counter(row["question_id"] for row in found if row["pair_type"] == "a > b")
    assert sorted(of_question.values()) == [1, 1, 2], "a second pair of a question only after one of each"
    assert {row["split"] for row in found} == {"validation"}
    assert {row["pair_split"] for row in found} == {"train"}
    assert all(row["validation_id"] == row["pair_id"].replace("p_", "v_") for row in found)


def test_a_sample_depends_on_seed_and_ids_alone_and_grows(tmp_path: Path) -> None:
    home = Home(tmp_path)
    pairs = [pair(f"p_{n}", "a > b", f"q{n}") for n in range(60)]
    ids = [row["pair_id"] for row in drawn(home, pairs, each=10)]
    assert ids == [row["pair_id"] for row in drawn(home, pairs[::-1], each=10)]
    assert {*ids} < {row["pair_id"] for row in drawn(home, pairs, each=20)}
    assert ids != [row["pair_id"] for row in drawn(home, pairs, each=10, seed=2)]
    # further pairs of the same questions change no draw but of pairs that they outrank
    assert len({*ids} & {row["pair_id"] for row in drawn(home, pairs[:50], each=10)}) >= 7


def test_pairs_of_equal_texts_are_not_shown(tmp_path: Path) -> None:
    same = [pair("p_1", "a > b", "q1", preferred="So  it is.", rejected="So it is."), pair("p_2", "a > b", "q2")]
    assert [row["pair_id"] for row in drawn(Home(tmp_path), same)] == ["p_2"]


# ---------------------------------------------------------------- gate


def decided(home: Home, pairs: list[Row], judgements: list[Row], least_pairs: int = 10) -> tuple[Any, Any]:
    table = home.table(PAIRS, pairs, keys=["s/0-00000/train"])
    found = home.run(
        decide_pair_types, table, home.table(JUDGEMENTS, judgements), at_least=0.7, least_pairs=least_pairs
    )
    return table, found


def of_type(kind: str, preferred: int, rejected: int, **more: Any) -> list[Row]:
    return [
        {
            **row,
            "pair_id": f"{kind} {row['pair_id']}",
            "judgement_id": f"{kind} {row['judgement_id']}",
            "pair_type": kind,
        }
        for row in said(*["p"] * preferred, *["r"] * rejected, **more)
    ]


def both_orders(kind: str, preferred: int, rejected: int) -> list[Row]:
    return [
        row | {"judgement_id": f"{row['judgement_id']} {first}", "shown_first": first}
        for row in of_type(kind, preferred, rejected, who="judge")
        for first in (P, R)
    ]


def test_types_under_the_share_leave_train_and_nothing_else_does(tmp_path: Path) -> None:
    home = Home(tmp_path)
    kinds = ("exact", "over", "under", "unjudged", "few", "by judge")
    pairs = [pair(f"p_{kind}_{n}", kind, f"q{n}", split=("train", "test")[n == 0]) for kind in kinds for n in range(3)]
    judgements = [
        *of_type("exact", 7, 3),
        *of_type("over", 20, 0),
        *of_type("under", 6, 4),
        *of_type("few", 0, 9),
        *both_orders("by judge", 3, 17),
        *both_orders("over", 0, 20),
        *of_type("never trained", 0, 20),
    ]
    table, decisions = decided(home, pairs, judgements)
    rows = {row["pair_type"]: row for row in decisions}
    assert {kind: row["evidence"] for kind, row in rows.items()} == {
        **dict.fromkeys(("exact", "over", "under", "never trained"), "people"),
        "by judge": "judge",
        **dict.fromkeys(("few", "unjudged"), "unvalidated"),
    }
    assert {kind for kind, row in rows.items() if row["left_out"]} == {"under", "by judge"}
    assert (rows["under"]["rate"], rows["under"]["trained"], rows["under"]["judged"]) == (0.6, 2, 10)
    kept = home.run(leave_out_pair_types, table, decisions)
    gone = home.rejected(kept)
    assert {*gone} == {f"p_{kind}_{n}" for kind in ("under", "by judge") for n in (1, 2)}
    assert {*gone.values()} == {"its pair type is not preferred often enough"}
    assert [row["pair_id"] for row in kept] == [row["pair_id"] for row in table if row["pair_id"] not in gone]


def test_what_was_left_out_is_told_with_its_evidence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    pairs = [pair(f"p_{kind}", kind, "q") for kind in ("under", "by judge", "unjudged")]
    table, decisions = decided(home, pairs, [*of_type("under", 11, 9), *both_orders("by judge", 3, 17)])
    sentences = [gate.sentence for gate in gates(table, decisions)]
    assert sentences == [
        "validation: 17 of 20 pairs of by judge are not preferred, so that the type is left out of training: preferred "
        "by the judge in 15 % of 20 pairs (95 % interval 5.2 % to 36 %; 2 judgements a pair) (85 %)",
        "validation: 9 of 20 pairs of under are not preferred, so that the type is left out of training: preferred by "
        "people in 55 % of 20 pairs (95 % interval 34.2 % to 74.2 %; 1 judgement a pair) (45 %)",
        "validation: 1 of 3 pair types of train are unvalidated (33.3 %)",
    ]
    assert not any(gate.is_above for gate in gates(table, decisions)), "a gate of validation refuses no version"
    (nobody,) = gates(table, None)
    assert nobody == Gate("validation", "version", "pair types of train are unvalidated", 3, 3, 1.0)


def test_a_judgement_that_comes_twice_counts_once_and_people_and_judge_are_kept_apart(tmp_path: Path) -> None:
    home = Home(tmp_path)
    people, judge = said("pp", "r"), [judgement("p_0", R, "m", who="judge")]
    tables = [home.table(JUDGEMENTS, people, people[:1]), home.table(JUDGEMENTS, judge)]
    found = home.run(collect_both_judgements, *tables)
    assert len(home.rejected(found)) == 1
    by_split = {part.key.rsplit("/", 1)[1]: part.rows for part in found.parts or ()}
    assert {name: rows for name, rows in by_split.items() if rows} == {"people": 3, "judge": 1}


# ---------------------------------------------------------------- tables


def test_table_6_has_people_and_judge_side_by_side_with_the_papers_figures() -> None:
    rows = of_type("open_book > closed_book", 12, 8, preferred_score=6.0, rejected_score=4.0)
    rows += both_orders("open_book > closed_book", 15, 5)
    frame = table_6_preferences(rows)
    first, last = frame.to_dict("records")
    assert last["pair type"] == "all pair types"
    assert first["people: preferred %"] == 60
    assert first["people: preferred % paper"] == 57.4
    assert first["people: preferred % difference"] == pytest.approx(2.6)
    assert first["people: score difference"] == 2
    assert (first["judge: preferred %"], first["judge: preferred % paper"]) == (75, 71.2)
    assert first["judge: same in both orders %"] == 100
    assert not [name for name in frame if name.startswith("judge: kappa")]


def test_table_8_has_a_row_for_each_answer_of_a_pair_type() -> None:
    frame = table_8_flaws([judgement("p_1", P, "a", preferred_flaws=["unclear"], preferred_source="human")])
    first, second = frame.to_dict("records")
    assert [(row["answer"], row["unclear %"], row["pairs"]) for row in (first, second)] == [(P, 100, 1), (R, 0, 1)]
    assert first["written as"] == "human"
