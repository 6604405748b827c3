"""Tables 4 to 9 and 14 of ExpertQA by hand, and against counting in plain Python."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any

import pandas
import pytest

from longform.artifacts.rows import Row
from tasks.expertqa.tables.paper_tables import (
    table_4_abstentions,
    table_5_autoais,
    table_6_autoais_against_people,
    table_6_imported_against_people,
    table_7_disagreements,
    table_8_factscore,
    table_9_predictions,
    table_14_predictions,
)
from tasks.publishing.card import ReportTable

COLUMNS = ("claim_id", "answer_id", "system", "autoais", "support", "worthiness", "score", "fact_score", "correctness")
ORDER = ("gpt4", "bing_chat", "post_hoc_gs_gpt4", "other")
Cells = dict[Any, Row]


def claims_of(rows: Iterable[Row]) -> pandas.DataFrame:
    return pandas.DataFrame(
        [{**dict.fromkeys(COLUMNS), "claim_id": f"c{at}", **row} for at, row in enumerate(rows)], columns=COLUMNS
    )


def cells_of(frame: pandas.DataFrame, *keys: str) -> Cells:
    """Of each row by its keys: column -> cell, None where there is no figure."""
    found = ReportTable("", "", frame).cells.to_dict("records")
    return {tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: row for row in found}


def scored(system: str, answer: str, *values: bool | None, support: str | None = "Complete", **more: Any) -> list[Row]:
    row = {"system": system, "answer_id": answer, "support": support, "worthiness": "Yes", **more}
    return [{**row, "autoais": value} for value in values]


def labelled(number: int) -> list[Row]:
    """Random claims of four systems."""
    dice = random.Random(number)
    answers = [(f"a{n}", dice.choice(ORDER)) for n in range(max(1, number // 4))]
    return [
        {
            "claim_id": f"{answer}#{at}",
            "answer_id": answer,
            "system": system,
            "autoais": dice.choice([True, False, False, None]),
            "support": dice.choice(["Complete", "Complete", "Partial", "Incomplete", "Missing", "N/A", None]),
            "worthiness": dice.choice(["Yes", "Yes", "No", None]),
            "score": dice.choice([None, 0.25, 0.5]),
            "fact_score": dice.choice([None, 0.0, 0.25, 0.5, 2 / 3, 1.0]),
            "correctness": dice.choice(["Definitely correct", "Probably correct", "Unsure", "Likely incorrect", None]),
        }
        for at in range(number)
        for answer, system in [dice.choice(answers)]
    ]


def of_system(rows: list[Row], system: str) -> list[Row]:
    return [row for row in rows if system in (row["system"], "all")]


def percent(part: float, whole: float) -> Any:
    return pytest.approx(100 * part / whole) if whole else None


def f1(pairs: list[tuple[bool, bool]], positive: bool = True) -> Any:
    """2 TP / (2 TP + FP + FN), of (said, true)."""
    both = sum(said == true == positive for said, true in pairs)
    return percent(2 * both, sum((said == positive) + (true == positive) for said, true in pairs))


def within(row: Row, name: str) -> None:
    """The figure lies between its bounds, which are both there or both not."""
    low, high = row[f"{name} from"], row[f"{name} to"]
    assert (low is None) == (high is None)
    assert low is None or low - 1e-4 <= row[name] <= high + 1e-4


# ---------------------------------------------------------------- table 4


def test_table_4_is_of_generated_answers_alone() -> None:
    def answer(system: str, kind: str, abstention: str | None = None) -> Row:
        return {"system": system, "kind": kind, "abstention": abstention}

    answers = [answer("gpt4", "closed_book", "I don't know" if n < 3 else None) for n in range(8)]
    answers += [answer("bing_chat", "imported"), answer("gpt4", "released"), answer("rr_gs_gpt4", "released")]
    shown = [{"system": "gpt4"}, {"system": "gpt4"}, {"system": "rr_gs_gpt4"}]
    found = cells_of(table_4_abstentions(pandas.DataFrame(answers), pandas.DataFrame(shown)), "system")
    names = ("sampled", "generated", "abstaining", "abstention rate, %")
    assert {system: tuple(row[name] for name in names) for system, row in found.items()} == {
        "gpt4": (2, 8, 3, 37.5),
        "bing_chat": (0, 1, 0, 0.0),
        "rr_gs_gpt4": (1, 0, 0, None),
    }
    assert list(found) == ["gpt4", "bing_chat", "rr_gs_gpt4"], "the paper's order"
    assert (found["gpt4"]["sampled paper"], found["gpt4"]["sampled difference"]) == (174, -172)
    assert found["gpt4"]["abstention rate, % difference"] == 37.5
    assert found["rr_gs_gpt4"]["abstention rate, % paper"] == 22.69
    assert found["rr_gs_gpt4"]["abstention rate, % difference"] is None


# ---------------------------------------------------------------- tables 5 and 6


def test_table_5_by_hand() -> None:
    """Two answers, 1 of 1 and 1 of 4: macro (1 + 1/4) / 2, micro 2 of 5; what is not scored counts nowhere."""
    rows = [
        *scored("gpt4", "a", True, None),
        *scored("gpt4", "b", True, False, False, False),
        *scored("gpt4", "c", None),
        *scored("gpt4", "b", True, True, support="Partial"),
        *scored("bing_chat", "d", None),
    ]
    found = cells_of(table_5_autoais(claims_of(rows)), "claims with", "system")
    gpt4 = found["complete support", "gpt4"]
    assert (gpt4["macro, %"], gpt4["micro, %"]) == (62.5, 40.0)
    assert (gpt4["claims"], gpt4["answers"], gpt4["unscored"]) == (5, 2, 2)
    assert (gpt4["macro, % from"], gpt4["macro, % to"]) == (25.0, 100.0)
    assert (gpt4["macro, % paper"], gpt4["macro, % difference"]) == (15.6, 46.9)
    assert found["complete support, cite-worthy", "gpt4"]["claims difference"] == 5 - 149
    assert found["all claims", "gpt4"]["macro, % paper"] is None, "the paper has complete support alone"
    bing = found["complete support", "bing_chat"]
    names = ("macro, %", "macro, % from", "micro, %", "claims", "unscored", "macro, % difference")
    assert [bing[name] for name in names] == [None, None, None, 0, 1, None]
    assert found["all claims", "gpt4"]["macro, %"] == 100 * (1 + 3 / 6) / 2
    assert found["complete support", "all"]["micro, %"] == 40.0


@pytest.mark.parametrize("number", [0, 1, 7, 60, 400])
def test_table_5_is_what_plain_python_counts(number: int) -> None:
    rows = labelled(number)
    keeps: dict[str, Callable[[Row], bool]] = {
        "complete support": lambda row: row["support"] == "Complete",
        "complete support, cite-worthy": lambda row: row["support"] == "Complete" and row["worthiness"] == "Yes",
        "cite-worthy": lambda row: row["worthiness"] == "Yes",
        "all claims": lambda row: True,
    }
    found = cells_of(table_5_autoais(claims_of(rows)), "claims with", "system")
    systems = [system for system in ORDER if of_system(rows, system)] + ["all"]
    assert list(found) == [(selection, system) for selection in keeps for system in systems]
    for (selection, system), row in found.items():
        chosen = [own for own in of_system(rows, system) if keeps[selection](own)]
        answers = defaultdict(list)
        for own in chosen:
            if own["autoais"] is not None:
                answers[own["answer_id"]].append(own["autoais"])
        values = [value for of in answers.values() for value in of]
        assert (row["claims"], row["answers"], row["unscored"]) == (
            *(len(values), len(answers)),
            len(chosen) - len(values),
        )
        assert row["macro, %"] == percent(sum(map(fmean, answers.values())), len(answers))
        assert row["micro, %"] == percent(sum(values), len(values))
        assert (row["macro, % from"] is None) == (row["micro, % to"] is None) == (len(answers) < 2)
        within(row, "macro, %")
        within(row, "micro, %")


def test_table_6_by_hand() -> None:
    rows = [
        *scored("gpt4", "a", True, True, False, None),
        *scored("gpt4", "b", True, support="N/A"),
        *scored("gpt4", "b", False, True, support=None),
        *scored("gpt4", "c", False, support="Missing", worthiness="No"),
        *scored("bing_chat", "d", False),
        *scored("rr_gs_gpt4", "e", True, support="Incomplete"),
    ]
    found = cells_of(table_6_autoais_against_people(claims_of(rows)), "claims", "system")
    figures, counts = ("precision, %", "recall, %", "F1, %"), ("scored", "attributable", "complete", "unscored")
    gpt4 = found["labelled", "gpt4"]
    assert [gpt4[name] for name in figures] == pytest.approx([200 / 3] * 3)
    assert [gpt4[name] for name in counts] == [5, 3, 3, 1]
    assert [gpt4[f"{name} paper"] for name in figures] == [33, 2, 5]
    assert found["labelled, cite-worthy", "gpt4"]["scored"] == 4
    assert found["labelled, cite-worthy", "gpt4"]["F1, % paper"] is None
    assert [found["labelled", "bing_chat"][name] for name in figures] == [None, 0.0, 0.0]
    assert [found["labelled", "rr_gs_gpt4"][name] for name in figures] == [0.0, None, 0.0]


@pytest.mark.parametrize("number", [0, 5, 50, 400])
def test_table_6_is_what_plain_python_counts(number: int) -> None:
    rows = labelled(number)
    for (selection, system), row in cells_of(
        table_6_autoais_against_people(claims_of(rows)), "claims", "system"
    ).items():
        chosen = [own for own in of_system(rows, system) if own["support"] is not None]
        chosen = [own for own in chosen if own["worthiness"] == "Yes"] if "worthy" in selection else chosen
        pairs = [(own["autoais"], own["support"] == "Complete") for own in chosen if own["autoais"] is not None]
        both, said, true = sum(map(all, pairs)), sum(said for said, _ in pairs), sum(true for _, true in pairs)
        assert (row["scored"], row["attributable"], row["complete"]) == (len(pairs), said, true)
        assert row["unscored"] == len(chosen) - len(pairs)
        assert (row["precision, %"], row["recall, %"], row["F1, %"]) == (
            *(percent(both, said), percent(both, true)),
            f1(pairs),
        )
        within(row, "F1, %")


def test_imported_predictions_take_the_place_of_autoais_and_stand_beside_the_finetuned_model() -> None:
    claims = claims_of(scored("gpt4", "a", True, False, None)).assign(
        random_split=["test", "test", "train"], random_split_from="hash"
    )
    entailed = pandas.DataFrame({"claim_id": ["c0", "c2"], "model": "tuned", "attributable": [False, True]})
    found = cells_of(table_6_imported_against_people(claims, entailed), "model", "questions", "claims", "system")
    counts = ("scored", "attributable", "unscored")
    assert [found["tuned", "all", "labelled", "gpt4"][name] for name in counts] == [2, 1, 1]
    test = found["tuned", "test", "labelled", "gpt4"]
    assert [test[name] for name in counts] == [1, 0, 1]
    assert (test["recall, %"], test["recall, % paper"], test["recall, % difference"]) == (0.0, 32, -32.0)
    assert found["tuned", "all", "labelled", "gpt4"]["recall, % paper"] is None
    assert table_6_imported_against_people(claims, entailed[:0]).empty
    claims.loc[1, "random_split_from"] = "released"
    found = cells_of(table_6_imported_against_people(claims, entailed), "model", "questions", "claims", "system")
    assert [found["tuned", "test", "labelled", "gpt4"][name] for name in counts] == [0, 0, 1]


# ---------------------------------------------------------------- table 7


def test_disagreements_are_of_both_kinds_and_the_surest_of_cite_worthy_claims_come_first() -> None:
    rows = labelled(300)
    found = table_7_disagreements(claims_of(rows), 7).to_dict("records")
    missed, granted = found[:7], found[7:]
    assert len(granted) == 7
    assert all(row["support"] == "Complete" and not row["autoais"] for row in missed)
    assert all(row["support"] not in ("Complete", None) and row["autoais"] for row in granted)
    assert {row["kind"] for row in missed} == {"people: Complete, AutoAIS: 0"}
    assert {row["worthiness"] for row in found} == {"Yes"}
    assert table_7_disagreements(claims_of(rows), 0).empty


def test_a_claim_that_people_label_not_applicable_is_no_disagreement() -> None:
    base = {"system": "gpt4", "answer_id": "a", "worthiness": "Yes", "autoais": True, "score": 0.9}
    rows = [{**base, "claim_id": said, "support": said} for said in ("N/A", "Partial", "Incomplete", "Missing")]
    assert set(table_7_disagreements(claims_of(rows), 5).claim_id) == {"Partial", "Incomplete", "Missing"}


def test_ties_of_disagreements_are_ordered_by_their_id() -> None:
    base = {"system": "gpt4", "answer_id": "a", "worthiness": "Yes"}
    missed = [("x", 0.4, "Yes"), ("y", 0.1, "Yes"), ("n", None, "No"), ("z", 0.1, "Yes")]
    granted = [("v", 0.7, "Yes"), ("w", 1.0, "Yes"), ("u", 1.0, None)]
    rows = [
        {**base, "claim_id": key, "score": score, "worthiness": worthy, "autoais": said, "support": support}
        for of, said, support in ((missed, False, "Complete"), (granted, True, "Missing"))
        for key, score, worthy in of
    ]
    assert "".join(table_7_disagreements(claims_of(rows), 5).claim_id) == "yzxnwvu"


# ---------------------------------------------------------------- table 8


def judged(system: str, answer: str, score: float | None, correctness: str | None) -> Row:
    return {"system": system, "answer_id": answer, "fact_score": score, "correctness": correctness}


def test_table_8_by_hand() -> None:
    """Exactly 0.5 is not factual; unsure is not factual; what is not scored or not labelled counts nowhere."""
    rows = [
        judged("gpt4", "a", 1.0, "Definitely correct"),
        judged("gpt4", "a", 0.75, "Probably correct"),
        judged("gpt4", "a", 0.5, "Definitely correct"),
        judged("gpt4", "b", 0.6, "Unsure"),
        judged("gpt4", "b", 0.0, "Likely incorrect"),
        judged("gpt4", "b", None, "Definitely correct"),
        judged("gpt4", "c", 0.2, None),
    ]
    found = cells_of(table_8_factscore(claims_of(rows)), "system")
    assert list(found) == ["gpt4", "all"]
    gpt4 = found["gpt4"]
    assert gpt4["F1 true, %"] == pytest.approx(100 * 2 * 2 / (2 * 2 + 1 + 1))
    assert gpt4["F1 false, %"] == pytest.approx(100 * 2 * 1 / (2 * 1 + 1 + 1))
    assert gpt4["F1 overall, %"] == pytest.approx(60.0)
    assert (gpt4["labelled and scored"], gpt4["scored"], gpt4["unscored"]) == (5, 6, 1)
    assert gpt4["FActScore, %"] == pytest.approx(100 * (1 + 0.75 + 0.5 + 0.6 + 0 + 0.2) / 6)
    assert [gpt4[f"F1 {name}, % paper"] for name in ("true", "false", "overall")] == [91.9, 10.8, 85.2]
    assert gpt4["F1 overall, % difference"] == pytest.approx(60 - 85.2)
    within(gpt4, "F1 overall, %")


def test_of_nothing_table_8_says_nothing() -> None:
    nothing = cells_of(table_8_factscore(claims_of([judged("gpt4", "a", None, "Unsure")])), "system")["gpt4"]
    assert nothing["unscored"] == 1
    assert {nothing[name] for name in nothing if name.endswith(", %")} == {None}
    row = cells_of(table_8_factscore(claims_of([judged("gpt4", "a", 1.0, "Definitely correct")])), "system")["gpt4"]
    assert [row[f"F1 {name}, %"] for name in ("true", "false", "overall")] == [100.0, None, 100.0]


@pytest.mark.parametrize("number", [1, 20, 300])
def test_table_8_is_what_plain_python_counts(number: int) -> None:
    rows = labelled(number)
    for system, row in cells_of(table_8_factscore(claims_of(rows)), "system").items():
        own = of_system(rows, system)
        scores = [one["fact_score"] for one in own if one["fact_score"] is not None]
        both = [one for one in own if one["fact_score"] is not None and one["correctness"] is not None]
        pairs = [(one["fact_score"] > 0.5, one["correctness"].endswith("y correct")) for one in both]
        assert (row["scored"], row["unscored"]) == (len(scores), len(own) - len(scores))
        assert row["FActScore, %"] == percent(math.fsum(scores), len(scores))
        assert row["labelled and scored"] == len(pairs)
        assert (row["F1 true, %"], row["F1 false, %"]) == (f1(pairs), f1(pairs, positive=False))
        assert row["F1 overall, %"] == percent(sum(said == true for said, true in pairs), len(pairs))
        for name in ("F1 true, %", "F1 false, %", "F1 overall, %", "FActScore, %"):
            within(row, name)


def test_the_order_of_the_rows_changes_no_figure() -> None:
    rows = labelled(120)
    first, again = claims_of(rows), claims_of(random.Random(1).sample(rows, len(rows)))
    for table in (table_5_autoais, table_6_autoais_against_people, table_8_factscore):
        pandas.testing.assert_frame_equal(table(first), table(again), rtol=1e-12)
    pandas.testing.assert_frame_equal(table_7_disagreements(first, 5), table_7_disagreements(again, 5))


# ---------------------------------------------------------------- tables 9 and 14


def prediction(key: str, model: str, rouge1: float, config: str = "random", **other: Any) -> Row:
    scores = {"rouge1": rouge1, "rouge2": 0.25, "rougeL": 0.4, "qafacteval": None}
    return {"question_id": key, "model": model, "zero_shot": False, "config": config, **scores, **other}


def test_means_are_over_the_predicted_questions_and_say_how_many() -> None:
    rows = [
        prediction("q1", "m", 0.5),
        prediction("q2", "m", 0.25, qafacteval=2.0),
        prediction("q2", "m", 0.9),  # of another file: the first counts
        prediction("q1", "m", 0.75, config="domain"),
        prediction("q1", "m", 0.125, zero_shot=True),
        prediction("q1", "Llama2-7B", 0.5, zero_shot=False),
    ]
    table = table_14_predictions(pandas.DataFrame(rows), {"random": 4, "domain": 3})
    found = cells_of(table, "split", "model", "zero-shot")
    names = ("ROUGE-1", "QAFactEval", "predicted", "test questions")
    assert {key: tuple(row[name] for name in names) for key, row in found.items()} == {
        ("random", "Llama2-7B", "no"): (50.0, None, 1, 4),
        ("random", "m", "no"): (37.5, 2.0, 2, 4),
        ("random", "m", "yes"): (12.5, None, 1, 4),
        ("domain", "Llama2-7B", "no"): (None, None, 0, 3),
        ("domain", "m", "no"): (75.0, None, 1, 3),
        ("domain", "m", "yes"): (None, None, 0, 3),
    }
    llama = found["random", "Llama2-7B", "no"]
    assert (llama["ROUGE-1 paper"], llama["ROUGE-1 difference"], llama["QAFactEval paper"]) == (36.2, 13.8, 1.985)
    nine = table_9_predictions(pandas.DataFrame(rows), {"random": 4, "domain": 3})
    assert list(zip(nine.split, nine.model, strict=True)) == [key[:2] for key in found if key[2] == "no"]
    assert table_14_predictions(pandas.DataFrame(rows)[:0], {"random": 0, "domain": 0}).empty
