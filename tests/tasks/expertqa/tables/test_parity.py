"""The authors' rules by hand, and the comparison of every printed figure with its tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pytest

from longform.errors import UsageError
from tasks.expertqa.tables.paper_tables import (
    BY_PARITY,
    HEADLINE,
    table_5_autoais,
    table_6_autoais_against_people,
    table_8_factscore,
)
from tasks.expertqa.tables.parity import (
    DRIFT,
    LEAST,
    NOT_COMPARED,
    TOLERANCES,
    WITHIN,
    Cell,
    compared,
    frames_of,
    lacking,
    read_tolerances,
    tolerance_of,
)
from tasks.expertqa.tables.reasons import NOTHING, QUESTIONS, Facts, facts_of, with_reasons
from tasks.expertqa.tables.rules import PARITY, flagged, is_small_talk

ALL = Facts(questions=QUESTIONS, claimed=QUESTIONS, tested=True)
PLAIN: dict[str, Any] = {
    **{"system": "gpt4", "support": "Complete", "worthiness": "Yes", "correctness": "Probably correct"},
    **{"autoais": True, "autoais_backend": "released", "fact_score": 1.0, "fact_score_model": "released"},
    **{"has_evidence": True, "address_only": False, "abstains": False, "void": False},
    **{"domain_split": "test", "domain_split_from": "released", "random_split": "train", "random_split_from": "hash"},
}


def claims_of(*rows: dict[str, Any]) -> pandas.DataFrame:
    """Claims that are PLAIN but for what is given; each of its own answer, if none is named."""
    return pandas.DataFrame(
        [
            {**PLAIN, "claim_id": f"c{at}", "answer_id": f"a{at}", "question_id": f"q{at}", **row}
            for at, row in enumerate(rows)
        ]
    )


def row_of(frame: pandas.DataFrame, **keys: str) -> dict[str, Any]:
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    (row,) = frame.to_dict("records")
    return {str(name): value for name, value in row.items()}


# ---------------------------------------------------------------- rules


def test_table_5_takes_complete_and_cite_worthy_claims_whose_evidence_has_a_text() -> None:
    claims = claims_of(
        {"answer_id": "a", "autoais": True},
        {"answer_id": "a", "autoais": False},
        {"answer_id": "b", "autoais": None},  # no released label: not attributable
        {"worthiness": "No"},
        {"support": "Partial"},
        {"address_only": True},
        {"has_evidence": False},
        {"system": "bing_chat", "address_only": True},
    )
    found = row_of(table_5_autoais(claims, PARITY), **{"claims with": HEADLINE, "system": "gpt4"})
    assert (found["macro, %"], found["claims"], found["macro, % paper"]) == (25.0, 3, 15.6)
    bing = row_of(table_5_autoais(claims, PARITY), **{"claims with": HEADLINE, "system": "bing_chat"})
    assert (bing["macro, %"], bing["claims"]) == (100.0, 1)


def test_where_no_label_of_a_system_was_released_its_claims_are_unscored() -> None:
    found = row_of(table_5_autoais(claims_of({"autoais": None}), PARITY), **{"claims with": HEADLINE, "system": "gpt4"})
    assert (found["claims"], found["unscored"]) == (0, 1)


def test_table_6_takes_the_test_questions_and_leaves_out_what_was_called_unworthy() -> None:
    claims = claims_of(
        {"autoais": True},
        {"autoais": False},
        {"autoais": True, "support": "Missing", "worthiness": None},
        {"autoais": True, "support": "Missing", "worthiness": "No"},
        {"autoais": True, "support": "Missing", "domain_split": "train"},
        {"autoais": True, "support": "Missing", "domain_split_from": "hash"},
    )
    found = row_of(table_6_autoais_against_people(claims, PARITY), claims=BY_PARITY, system="gpt4")
    assert (found["precision, %"], found["recall, %"], found["scored"]) == (50.0, 50.0, 3)
    assert found["precision, % paper"] == 33


def test_table_8_counts_one_half_as_factual_and_leaves_out_abstentions_and_small_talk() -> None:
    claims = claims_of(
        {"fact_score": 0.5},
        {"fact_score": 0.5, "correctness": "Unsure"},
        {"fact_score": 0.0, "abstains": True},
        {"fact_score": 0.0, "void": True},
    )
    found = row_of(table_8_factscore(claims, PARITY), system="gpt4")
    assert (found["F1 overall, %"], found["labelled and scored"]) == (50.0, 2)
    assert found["F1 true, %"] == pytest.approx(100 * 2 / 3)
    own = row_of(table_8_factscore(claims), system="gpt4")
    assert (own["F1 overall, %"], own["labelled and scored"]) == (25.0, 4)


def test_flags_are_read_from_the_texts_of_published_claims() -> None:
    shared = {"evidence": ["https://a.example"], "evidence_urls": ["https://a.example"]}
    rows = [
        {"claim_id": "c0", "answer_id": "a", "answer": "I don't know.", "claim": "Tin melts.", **shared},
        {"claim_id": "c1", "answer_id": "b", "answer": "Tin melts.", "claim": "I hope this helps!", "evidence": [],
         "evidence_urls": []},
    ]  # fmt: skip
    first, second = flagged(rows).to_dict("records")
    assert (first["has_evidence"], first["address_only"], first["abstains"], first["void"]) == (True, True, True, False)
    assert (second["has_evidence"], second["abstains"], second["void"]) == (False, False, True)


@pytest.mark.parametrize(
    ("claim", "void"),
    [
        ("Hello, this is Bing.", True),
        ("I hope this answers your question!", True),
        ("I can provide more details if you like.", True),
        ("That's an interesting question.", True),
        ("Is tin soft?", False),
        ("Patients can provide consent [1].", False),
        ("The tribing of metals is old.", False),
    ],
)
def test_small_talk_is_what_a_chatbot_says_of_itself(claim: str, void: bool) -> None:
    assert is_small_talk(claim) is void


# ---------------------------------------------------------------- comparison


def cells(frames: dict[str, pandas.DataFrame], facts: Facts = ALL, **given: Any) -> dict[str, Cell]:
    tolerances = {**read_tolerances(None), **given}
    return {f"{cell.table} · {cell.cell}": cell for cell in compared(frames, facts, tolerances)}


def test_every_printed_figure_has_a_cell_and_what_cannot_be_compared_says_why() -> None:
    found = cells({})
    assert len(found) == 7 + 2 * 6 + 2 * 6 + 2 * 3 * 7 + 3 * 7 + 4 * 14  # tables 2, 4, 5, 6, 8 and 14
    assert {cell.verdict for cell in found.values()} == {NOT_COMPARED}
    assert all(cell.why for cell in found.values())


@pytest.mark.parametrize(("ours", "verdict"), [(15.6, WITHIN), (19.6, WITHIN), (19.7, DRIFT), (11.5, DRIFT)])
def test_a_figure_beyond_its_tolerance_drifts(ours: float, verdict: str) -> None:
    frame = pandas.DataFrame([{"system": "gpt4", "macro, %": ours, "claims": 149}])
    found = cells({"table_5": frame}, table_5={"macro, %": 4.0, "claims": 0})
    cell = found["table 5 · gpt4 · macro, %"]
    assert (cell.verdict, cell.paper, cell.tolerance) == (verdict, 15.6, 4.0)
    assert cell.difference == pytest.approx(ours - 15.6)
    assert found["table 5 · gpt4 · claims"].verdict == WITHIN


def test_of_a_part_of_the_questions_counts_are_not_compared_and_intervals_widen_tolerances() -> None:
    frame = pandas.DataFrame(
        [{"system": "gpt4", "macro, %": 25.0, "macro, % from": 15.0, "macro, % to": 35.0, "claims": 15}]
    )
    found = cells({"table_5": frame}, Facts(questions=QUESTIONS, claimed=200), table_5={"macro, %": 1.0, "claims": 0})
    assert found["table 5 · gpt4 · macro, %"].tolerance == 11.0
    assert found["table 5 · gpt4 · macro, %"].verdict == WITHIN
    assert found["table 5 · gpt4 · macro, %"].why == "200 of the paper's 2,177 questions"
    assert found["table 5 · gpt4 · claims"].verdict == NOT_COMPARED


def test_of_several_tuned_models_each_is_compared() -> None:
    rows = [{"model": name, "system": "all", "precision, %": 82.0, "recall, %": 91.0, "F1, %": 86.0} for name in "ab"]
    found = cells({"table_6_finetuned": pandas.DataFrame(rows)})
    assert {f"table 6 finetuned · all {name} · F1, %" for name in "ab"} <= found.keys()


def test_tolerances_of_a_row_go_before_those_of_its_table_and_a_file_before_both(tmp_path: Path) -> None:
    known = read_tolerances(None)
    assert tolerance_of(known, "table_6_zero_shot", "gpt4", "precision, %", 33) == 35.0
    assert tolerance_of(known, "table_6_zero_shot", "bing_chat", "precision, %", 97) == 6.0
    assert tolerance_of(known, "table_5", "gpt4", "claims", 149) == pytest.approx(0.15 * 149)
    file = tmp_path / "mine.toml"
    file.write_text('[table_6_zero_shot]\n"precision, %" = 1.5\n[table_5.gpt4]\nclaims = 0\n')
    own = read_tolerances(file)
    assert tolerance_of(own, "table_6_zero_shot", "gpt4", "precision, %", 33) == 1.5
    assert tolerance_of(own, "table_6_zero_shot", "gpt4", "recall, %", 2) == 6.0
    assert tolerance_of(own, "table_5", "gpt4", "claims", 149) == 0
    assert tolerance_of(own, "table_5", "bing_chat", "claims", 100) == 15


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[table_5]\n"makro, %" = 4.0\n', '"makro, %", which is no figure of table_5: did you mean "macro, %"?'),
        ('[table_5.gpt5]\n"macro, %" = 4.0\n', '"gpt5", which is no row of table_5: did you mean "gpt4"?'),
        ("[table_5.gpt4]\nclaim = 4.0\n", '"claim", which is no figure of table_5: did you mean "claims"?'),
        ('[table_55]\nclaims = "3 %"\n', '"table_55", which is no table: did you mean "table_5"?'),
        ("", "sets no tolerance: write it as "),
        ("# nothing\n[table_5]\n[table_8.gpt4]\n", "sets no tolerance: write it as "),
    ],
)  # fmt: skip
def test_a_tolerance_of_nothing_that_the_paper_prints_is_an_error_with_the_nearest_name(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_tolerances(tmp_path / "t.toml")
    assert said in str(caught.value)


def test_the_tolerances_that_come_with_the_project_name_only_what_the_paper_prints(tmp_path: Path) -> None:
    assert read_tolerances(TOLERANCES) == read_tolerances(None)
    (tmp_path / "t.toml").write_text(
        '["table_14"."random FlanT5-11B False"]\nROUGE-1 = 1\n[table_2.VII]\nquestions = 1\n'
    )
    with pytest.raises(UsageError, match="is no row of table_14"):
        read_tolerances(tmp_path / "t.toml")


def test_questions_that_are_not_the_papers_count_nowhere() -> None:
    own = {"random_split_from": "hash", "domain_split_from": "near-duplicate", "autoais": False}
    claims = claims_of({}, {"question_id": "mine", **own}, {"question_id": "mine2", **own})
    facts = facts_of(claims.assign(model=None), 3)
    assert (facts.claimed, facts.others, facts.questions) == (1, 2, 3)
    frames = frames_of(claims, "[]")
    assert row_of(frames["table_5"], system="gpt4")["macro, %"] == 100.0
    found = cells(
        {**frames, "table_4": pandas.DataFrame([{"system": "gpt4", "sampled": 3, "abstention rate, %": 0.0}])}, facts
    )
    assert found["table 5 · gpt4 · macro, %"].why == "1 of the paper's 2,177 questions"
    assert found["table 4 · gpt4 · abstention rate, %"].why == "of all 3 questions of the bank, 1 are the paper's"
    shown = with_reasons(table_5_autoais(claims, PARITY), "table_5", facts)
    assert "1 of the paper's 2,177 questions; 2 other questions among them" in set(shown.reason)


def test_without_the_papers_questions_or_with_few_figures_nothing_is_known_of_parity() -> None:
    few = [Cell("table 5", f"{n}", 1.0, 1.0, 0.0, 1.0, WITHIN, "") for n in range(LEAST - 1)]
    said = lacking("expertqa v1", few, Facts(questions=45, others=45))
    assert said.startswith("expertqa v1 has claims of none of the paper's 2,177 questions")
    assert "released_splits" in said
    said = lacking("expertqa v1", few, Facts(questions=QUESTIONS, claimed=4))
    assert said.startswith(f"Of expertqa v1 {LEAST - 1} of {LEAST - 1} figures could be compared, of {LEAST} that are")
    assert lacking("expertqa v1", few + few, ALL) == ""


@pytest.mark.parametrize("value", [-1, "much", "3", None, True, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_an_error_that_names_the_cell(value: Any) -> None:
    with pytest.raises(UsageError, match='The tolerance of table_5, gpt4, "claims" is'):
        tolerance_of({"table_5": {"claims": value}}, "table_5", "gpt4", "claims", 149)


@pytest.mark.parametrize("text", ["[table_3]\nx = 1\n", "not toml", "table_5 = 1\n"])
def test_a_file_without_tolerances_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(UsageError):
        read_tolerances(tmp_path / "t.toml")


def test_frames_are_made_anew_by_the_authors_rules_or_read_of_the_report() -> None:
    report = (
        '[{"title": "Question types (table 2)", "rows": [{"type": "I", "questions": 444}]},'
        ' {"title": "Imported entailment models against people (table 6)", "rows": []}]'
    )
    frames = frames_of(claims_of({}, {"system": "bing_chat"}), report)
    assert set(frames) == {"table_2", "table_5", "table_6_zero_shot", "table_8"}
    assert cells(frames)["table 2 · I · questions"].verdict == WITHIN
    assert cells(frames)["table 5 · gpt4 · macro, %"].verdict == DRIFT


# ---------------------------------------------------------------- reasons


def test_rows_that_differ_say_why_as_far_as_it_is_known() -> None:
    claims = claims_of({"autoais_backend": "lexical-1"})
    facts = Facts(QUESTIONS, QUESTIONS, {"gpt4": ["m-1"]}, ["lexical-1"], (), tested=True)
    found = row_of(
        with_reasons(table_5_autoais(claims, PARITY), "table_5", facts), **{"claims with": HEADLINE, "system": "gpt4"}
    )
    assert found["reason"] == "gpt4 is m-1 here; AutoAIS by lexical-1, in the paper by t5_xxl_true_nli_mixture"
    released = with_reasons(table_5_autoais(claims, PARITY), "table_5", ALL)
    assert set(released.reason) == {""}
    plain = pandas.DataFrame({"system": ["gpt4"], "claims": [1]})
    assert "reason" not in with_reasons(plain, "table_5", facts)


def test_a_system_of_which_nothing_can_be_scored_has_a_row_that_says_so_and_is_not_compared() -> None:
    claims = claims_of({"address_only": True}, {"system": "bing_chat"})
    table = table_5_autoais(claims, PARITY)
    found = row_of(with_reasons(table, "table_5", ALL), **{"claims with": HEADLINE, "system": "gpt4"})
    assert (found["claims"], found["reason"]) == (0, NOTHING)
    compared = cells(frames_of(claims, "[]"))
    assert {compared[f"table 5 · gpt4 · {name}"].verdict for name in ("macro, %", "claims")} == {NOT_COMPARED}
