"""The report of expertqa: every figure counted again by pandas, on generated rows and on the released file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import paths
import pytest
from expertqa_tables import Home, answer, claim_label, filled, label, question
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from lxml import etree

from longform.artifacts.rows import Row, Rows
from schemas.expertqa import (
    ANSWERS,
    ATTRIBUTIONS,
    CITED_PAGES,
    DOMAIN_SPLIT,
    ENTAILED,
    LABELS,
    PREDICTIONS,
    PUBLISHED_CLAIMS,
    QUESTIONS,
    RANDOM_SPLIT,
    SAMPLES,
)
from tasks.expertqa.estimates.predictions import why_no_qafacteval
from tasks.expertqa.report import (
    LONGEST,
    attribution_note,
    disagreements,
    factscore_note,
    figures,
    labels_table,
    second_labelling,
    shortened,
    sources_of,
    tables,
)
from tasks.expertqa.tables.figures import plots, shown
from tasks.expertqa.tables.label_counts import (
    By,
    Labels,
    figure_5_by_system,
    figure_8_types_by_field,
    figures_9_and_10,
    label_counts,
    types_table,
)
from tasks.expertqa.tables.paper_tables import table_2_question_types
from tasks.publishing.card import Figure, ReportTable, figure

PLOTTED = ("questions", "claims", "labels", "second_labels")
REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
PROPERTIES = ("support", "informativeness", "worthiness", "correctness", "reliability")
SYSTEMS = ["gpt4", "bing_chat", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4"]
TYPES = ["I", "II", "III", "IV", "V", "VI", "VII"]
FULL = {
    "Directed question that has a single unambiguous answer": "I",
    "Open-ended question that is potentially ambiguous": "II",
    "Summarization of information on a topic": "III",
    "Advice or suggestions on how to approach a problem": "IV",
    "Question that describes a hypothetical scenario and asks a question based on this scenario": "V",
    "Request for a list of resources where one can find more information": "VI",
    "Request for opinion on a topic": "VII",
}


def by_group(table: ReportTable) -> dict[str, dict[str, Any]]:
    """group -> column -> cell"""
    return {str(row[0]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


def by_systems(answers: list[Row], claims: list[Row]) -> list[ReportTable]:
    return list(map(labels_table, figure_5_by_system(pandas.DataFrame(answers), pandas.DataFrame(claims))))


def by_groups(claims: list[Row], by: By) -> list[ReportTable]:
    columns = ["system", "field", "question_types", *PROPERTIES]
    return list(map(labels_table, figures_9_and_10(pandas.DataFrame(claims, columns=columns), by)))


def types_by_field(asked: list[Row]) -> ReportTable:
    return ReportTable("", "", types_table(figure_8_types_by_field(pandas.DataFrame(asked))))


def agrees(table: ReportTable, frame: pandas.DataFrame, name: str, by: str, what: str = "claims") -> None:
    """Every cell of a table of labels is what pandas counts, and no cell is missing."""
    found = by_group(table)
    groups = {str(group): rows[name] for group, rows in frame.groupby(by)}
    assert set(found) == {*groups, "all"}
    for group, cells in found.items():
        values = groups[group] if group != "all" else frame.loc[~frame.index.duplicated(), name]
        counts = values.value_counts().to_dict()
        labels = [column for column in cells if f"{column} %" in cells]
        assert {label: cells[label] for label in labels if cells[label]} == counts
        assert cells[f"{what} labelled"] == values.notna().sum()
        assert cells["without a label"] == values.isna().sum()
        for one in labels:
            share = 100 * counts.get(one, 0) / values.notna().sum() if values.notna().any() else None
            assert cells[f"{one} %"] == (None if share is None else pytest.approx(share))


# ---------------------------------------------------------------- the released file


@pytest.fixture(scope="module")
def released() -> tuple[list[Row], list[Row], list[Row]]:
    """Questions, answers and claims, read from the JSON without the project."""
    if not REAL.exists():
        pytest.skip("the released file is not beside the project")
    records = [json.loads(line) for line in REAL.read_text().splitlines()]
    asked, answers, claims = [], [], []
    for number, record in enumerate(records):
        about = record["metadata"]
        types = sorted({FULL[" ".join(text.split())] for text in about["question_type"].split("|")}, key=TYPES.index)
        asked.append({"question_id": number, "field": about["field"], "question_types": types})
        for system, given in record["answers"].items():
            answers.append({"system": system, "usefulness": given["usefulness"]})
            for one in given["claims"]:
                said = {name: one.get(name) for name in PROPERTIES}
                claims.append({**asked[-1], "system": system, "answer_id": (number, system), **said})
    return asked, answers, claims


def test_support_is_counted_as_published(released: tuple[list[Row], list[Row], list[Row]]) -> None:
    tables = {table.title: table for table in by_systems(released[1], released[2])}
    everything = by_group(tables["Support by system, all claims (figure 5)"])["all"]
    published = {"Complete": 715, "Missing": 216, "Incomplete": 196, "Partial": 58, "N/A": 49}
    assert {name: everything[name] for name in published} == published
    assert (everything["claims labelled"], everything["without a label"]) == (1234, 3)


def test_figures_5_9_and_10_are_what_pandas_counts(released: tuple[list[Row], list[Row], list[Row]]) -> None:
    _, answers, claims = released
    frame, usefulness = pandas.DataFrame(claims), pandas.DataFrame(answers)
    first, worthy, *all_claims = by_systems(answers, claims)
    agrees(first, usefulness, "usefulness", "system", "answers")
    agrees(worthy, frame[frame.worthiness == "Yes"], "support", "system")
    of_types = frame.explode("question_types")
    tables = by_groups(claims, "field"), by_groups(claims, "question_types")
    for name, system, field, type in zip(PROPERTIES, all_claims, *tables, strict=True):
        assert system.title.lower().startswith(f"{name} by system")
        agrees(system, frame, name, "system")
        agrees(field, frame, name, "field")
        agrees(type, of_types, name, "question_types")


def test_a_share_is_rounded_as_the_exact_fraction_is() -> None:
    """23 of 160 are 14.375 %, which a float holds: half to even is 14.38, also where 23 / 160 is a little less."""
    claims = [{"system": "gpt4", "support": "Complete" if n < 23 else "Missing"} for n in range(160)]
    counts = label_counts(pandas.DataFrame(claims), "support", "system")
    table = labels_table(Labels("support", "system", "claims", "", counts))
    assert figure(by_group(table)["gpt4"]["Complete %"]) == "14.38"


def test_table_2_and_figure_8_are_what_pandas_counts(released: tuple[list[Row], list[Row], list[Row]]) -> None:
    frame = pandas.DataFrame(released[0])
    counts = frame.explode("question_types").question_types.value_counts()
    assert table_2_question_types(frame).set_index("type").questions[:7].to_dict() == counts.to_dict()
    found = by_group(types_by_field(released[0]))
    types = frame.explode("question_types", ignore_index=True)
    crossed = pandas.crosstab(types.field, types.question_types)
    for field, row in crossed.iterrows():
        questions = int((frame.field == field).sum())
        assert found[str(field)]["questions"] == questions
        assert [found[str(field)][name] for name in crossed.columns] == list(row)
        assert [found[str(field)][f"{name} %"] for name in crossed.columns] == pytest.approx(
            list(100 * row / questions)
        )
    assert found["all"]["questions"] == 217


def test_the_order_of_systems_is_the_papers_and_fields_come_largest_first(
    released: tuple[list[Row], list[Row], list[Row]],
) -> None:
    _, answers, claims = released
    assert [row[0] for row in by_systems(answers, claims)[0].rows] == [*SYSTEMS, "all"]
    sizes = pandas.DataFrame(claims).field.value_counts()
    fields = [row[0] for row in by_groups(claims, "field")[0].rows[:-1]]
    assert [sizes[field] for field in fields] == sorted(sizes, reverse=True)


# ---------------------------------------------------------------- properties

LABELLED = st.lists(
    st.fixed_dictionaries({
        "system": st.sampled_from(SYSTEMS),
        "field": st.sampled_from(["Law", "Music", "Own <field>"]),
        "question_types": st.lists(st.sampled_from(TYPES), max_size=3, unique=True),
        "support": st.sampled_from(["Complete", "Partial", "N/A", None]),
        "worthiness": st.sampled_from(["Yes", "No", None]),
        **{name: st.sampled_from(["Missing", None]) for name in ("informativeness", "correctness", "reliability")},
    }),
    max_size=30,
)  # fmt: skip


@settings(max_examples=12)
@drawn(LABELLED)
def test_no_claim_is_counted_twice_or_lost(claims: list[Row]) -> None:
    for by in ("field", "question_types"):
        for table in by_groups(claims, by):  # type: ignore[arg-type]
            found = by_group(table)
            total = found.pop("all")
            assert total["claims labelled"] + total["without a label"] == len(claims)
            times = sum(max(1, len(row["question_types"])) if by == "question_types" else 1 for row in claims)
            assert sum(row["claims labelled"] + row["without a label"] for row in found.values()) == times


@settings(max_examples=12)
@drawn(LABELLED.filter(bool))
def test_labels_of_any_rows_are_what_pandas_counts(claims: list[Row]) -> None:
    frame = pandas.DataFrame(claims)
    of_types = frame.assign(question_types=[types or ["none"] for types in frame.question_types])
    of_types = of_types.explode("question_types")
    for table, name in zip(by_groups(claims, "question_types"), PROPERTIES, strict=True):
        agrees(table, of_types, name, "question_types")


# ---------------------------------------------------------------- tables by hand


def test_table_2_says_how_many_have_no_type_and_what_the_paper_counts() -> None:
    asked = [{"question_types": types} for types in (["I", "V"], ["V"], [], ["V"])]
    table = ReportTable("", "", table_2_question_types(pandas.DataFrame(asked)))
    rows = {row[0] or row[1]: row[2:] for row in table.rows}
    assert table.headings == ["type", "meaning", "questions", "paper", "difference", "%"]
    assert rows["I"] == (1, 444, -443, 25.0)
    assert rows["V"] == (3, 853, -850, 75.0)
    assert rows["VII"] == (0, 207, -207, 0.0)
    assert rows["no type"] == (1, None, None, 25.0)
    assert rows["all questions"] == (4, None, None, 100.0)
    assert "no type" not in list(table_2_question_types(pandas.DataFrame(asked[:2])).meaning)


def test_texts_of_table_7_are_on_one_line_and_short() -> None:
    assert shortened(" Tea\n is <b>hot</b> ") == "Tea is <b>hot</b>"
    assert shortened(" \n") is shortened(None) is None
    assert len(shortened("long " * 200) or "") == LONGEST == 400
    assert (shortened("long " * 200) or "").endswith("…")


def test_a_released_file_without_estimates_is_not_taken_for_nothing_estimated() -> None:
    claims = pandas.DataFrame({"autoais": [True, None], "autoais_backend": "released"})
    unscored = claims.assign(autoais=None)
    assert attribution_note(unscored).startswith("The released file holds no estimates")
    assert attribution_note(claims).startswith("By released. Of claims with complete support")
    assert attribution_note(unscored.assign(autoais_backend="lexical-1")).startswith("By lexical-1.")
    assert attribution_note(claims.assign(autoais_backend=None)).startswith("Nothing was estimated.")
    assert "the released file holds no estimates" in factscore_note(())
    assert factscore_note({"m", "a"}).startswith("Judged by a, m.")


# ---------------------------------------------------------------- of stages

OTHERS = (
    "train",
    "validation",
    "train",
    "overlap",
)  # sides of claims that an entailment model may have been trained on


@pytest.fixture
def stages(tmp_path: Path) -> dict[str, Rows]:
    """Two labelled answers and one that is not; the second has two annotators."""
    home = Home(tmp_path)
    asked = [question("q1", question_types=["I", "V"]), question("q2", field="Law", question_types=[])]
    answers = [answer("a_1", "q1"), answer("a_2", "q2", system="bing_chat"), answer("a_3", "q2")]

    def claim(key: str, question: int, **given: Any) -> Row:
        field, types = (asked[question - 1][name] for name in ("field", "question_types"))
        given = {
            "system": "bing_chat" if key.startswith("a_2") else "gpt4",
            "split": "full",
            "random_split": "test",
            **given,
        }
        answer_id, position = key.split("#")
        where = {"question_id": f"expertqa/q{question}", "answer_id": answer_id, "position": int(position)}
        return filled(PUBLISHED_CLAIMS, claim_id=key, field=field, question_types=types, **where, **given)

    lexical = {"autoais_backend": "lexical-1"}
    two = {"evidence": ["Tea is old.", "https://tea.example"], "evidence_urls": ["", "https://tea.example"]}
    claims = [
        claim(
            "a_1#0", 1, support="Complete", worthiness="Yes", autoais=False, claim="Tea is hot [1].", **lexical, **two
        ),
        claim("a_1#1", 1, support="Missing", worthiness="No", autoais=None, fact_score=1.0, fact_score_model="m"),
        claim("a_2#0", 2, support="Partial", worthiness="Yes", correctness="Unsure", autoais=True, **lexical),
        claim("a_3#0", 2),
        *[claim(f"a_3#{n}", 2, support="Complete", random_split=side) for n, side in enumerate(OTHERS, start=1)],
    ]
    said = [{name: row[name] for name in ("support", "worthiness", "correctness")} for row in claims]
    first = [claim_label("a_1#0", **said[0]), claim_label("a_1#1", **said[1])]
    labels = [
        label("a_1", "e1", "q1", first, usefulness="Useful"),
        label("a_2", "e9", "q2", [claim_label("a_2#0", support="Complete")], system="bing_chat", usefulness="Useful"),
        label("a_2", "e2", "q2", [claim_label("a_2#0", **said[2])], system="bing_chat", usefulness="Not useful at all"),
    ]
    second = [
        label("a_1", "r1", "q1", [claim_label("a_1#0", support="Partial", worthiness="Yes")], usefulness="Useful")
    ]
    scores = [
        filled(ATTRIBUTIONS, claim_id="a_1#0", backend="lexical-1", attributable=False, score=0.2, evidence="It is."),
        filled(ATTRIBUTIONS, claim_id="a_2#0", backend="lexical-1", attributable=True, score=0.9, evidence="Cold."),
    ]
    split = filled(RANDOM_SPLIT, row_id="l_1", question_id="expertqa/q1", split="test")
    predicted = filled(PREDICTIONS, prediction_id="p", question_id="expertqa/q1", model="small", config="random")
    sampled = [
        filled(SAMPLES, **{name: row[name] for name in ("answer_id", "question_id", "system")}) for row in answers
    ]
    return {
        "questions": home.table(QUESTIONS, asked),
        "answers": home.table(ANSWERS, answers),
        "samples": home.table(SAMPLES, sampled),
        "cited": home.table(CITED_PAGES, []),
        "claims": home.table(PUBLISHED_CLAIMS, claims[:2], claims[2:]),
        "attributions": home.table(ATTRIBUTIONS, scores),
        "labels": home.table(LABELS, labels),
        "second_labels": home.table(LABELS, second),
        "entailed": home.table(
            ENTAILED,
            [
                {"entailed_id": "e_1", "claim_id": "a_1#0", "model": "tuned", "attributable": True},
                {"entailed_id": "e_2", "claim_id": "a_2#0", "model": "tuned", "attributable": True},
                *[
                    {"entailed_id": f"e_{n + 2}", "claim_id": f"a_3#{n}", "model": "tuned", "attributable": False}
                    for n in range(1, 5)
                ],
            ],
        ),
        "predictions": home.table(PREDICTIONS, [predicted | {"rouge1": 0.3}]),
        "random": home.table(RANDOM_SPLIT, [split, split | {"row_id": "l_2", "split": "train"}]),
        "domain": home.table(DOMAIN_SPLIT, []),
    }


def titled(found: Sequence[ReportTable], words: str) -> ReportTable:
    (table,) = [table for table in found if words in table.title]
    return table


def test_the_report_has_every_table_and_figure_of_the_paper(stages: dict[str, Rows]) -> None:
    numbers = [
        found[0] for table in tables(**stages) if (found := re.findall(r"\((table|figure) (\d+)\)", table.title))
    ]
    assert numbers[:10] == [("table", n) for n in ("2", "4", "5", "6", "6", "7", "8", "9", "14")] + [("figure", "4")]
    assert numbers[10:] == [("figure", n) for n in ["5"] * 7 + ["8"] + ["9"] * 5 + ["10"] * 5]


def test_the_majority_of_the_labels_counts_and_of_two_that_differ_none(stages: dict[str, Rows]) -> None:
    found = by_group(titled(tables(**stages), "Usefulness"))
    assert (found["bing_chat"]["Not useful at all"], found["bing_chat"]["Useful"]) == (0, 0)
    assert found["bing_chat"]["without a label"] == 1
    assert (found["gpt4"]["Useful"], found["gpt4"]["without a label"]) == (1, 1)


def test_qafacteval_is_left_out_of_the_tables_with_a_reason(tmp_path: Path, stages: dict[str, Rows]) -> None:
    note = "QAFactEval is left out: its package is not installed."
    assert note in titled(tables(**stages), "(table 9)").note
    checked = [{**row, "qafacteval": 2.0} for row in stages["predictions"]]
    found = tables(**{**stages, "predictions": Home(tmp_path).table(PREDICTIONS, checked)})
    assert note not in titled(found, "(table 9)").note


def test_a_disagreement_over_two_texts_says_that_its_sources_are_several(tmp_path: Path) -> None:
    home = Home(tmp_path)
    said = {"support": "Complete", "worthiness": "Yes", "autoais": False, "question_types": []}
    texts = {"claim": "Tea is hot.", "evidence": ["Tea.", "Cold."], "evidence_urls": ["", ""]}
    claims = home.table(PUBLISHED_CLAIMS, [filled(PUBLISHED_CLAIMS, claim_id="a#0", **said, **texts)])
    scores = home.table(ATTRIBUTIONS, [filled(ATTRIBUTIONS, claim_id="a#0", evidence="Tea. Cold.", score=0.5)])
    judged = claims.to_pandas(["claim_id", "system", "support", "worthiness", "autoais"])
    (row,) = disagreements(judged, claims, scores).to_dict("records")
    assert (row["sources"], row["shared words, %"], row["evidence that was read"]) == ("several", 50.0, "Tea. Cold.")


def test_disagreements_carry_their_texts(stages: dict[str, Rows]) -> None:
    missed, granted = titled(tables(**stages), "(table 7)").rows
    assert missed[1:6] == ("gpt4", "a_1#0", "Tea is hot [1].", "It is.", "Complete")
    assert missed[8:] == ("one", 50.0), "of tea and hot the evidence has tea"
    assert (granted[2], granted[7]) == ("a_2#0", 0.9)
    assert granted[8:] == ("one", None), "no text of evidence"


def test_agreement_and_predictions_come_through(stages: dict[str, Rows]) -> None:
    found = tables(**stages)
    agreed = {tuple(row[:2]): row[2:4] for row in titled(found, "(figure 4)").rows}
    assert agreed["all", "usefulness"] == (1, 100.0)
    assert agreed["all", "support"] == (1, 0.0)
    assert titled(found, "(table 9)").rows[0] == ("random", "small", pytest.approx(30.0), 0.0, 0.0, None, 1, 1)
    assert titled(found, "(table 8)").note.startswith("Judged by m.")


def test_an_imported_model_is_judged_over_the_claims_it_predicts(stages: dict[str, Rows]) -> None:
    found = titled(tables(**stages), "Imported entailment models")
    rows = {tuple(row[:4]): dict(zip(found.columns, row, strict=True)) for row in found.rows}
    figures = ("precision, %", "recall, %", "scored", "unscored")
    assert [rows["tuned", "all", "labelled", "all"][name] for name in figures] == [50.0, 20.0, 6, 1]
    assert [rows["tuned", "test", "labelled", "all"][name] for name in figures] == [50.0, 100.0, 2, 1]
    assert rows["tuned", "test", "labelled", "bing_chat"]["recall, %"] is None, "no claim of it is complete"


def test_a_sampled_answer_without_claims_and_labels_is_counted_as_not_labelled(
    tmp_path: Path, stages: dict[str, Rows]
) -> None:
    silent = [filled(SAMPLES, answer_id=f"a_{n}", question_id="expertqa/q2", system="gpt4") for n in (8, 9)]
    sampled = [*(row for batch in stages["samples"].batches() for row in batch.to_pylist()), *silent]
    found = by_group(titled(tables(**{**stages, "samples": Home(tmp_path).table(SAMPLES, sampled)}), "Usefulness"))
    assert (found["gpt4"]["answers labelled"], found["gpt4"]["without a label"]) == (1, 3)
    assert found["all"]["without a label"] == 4, "the two annotators of a_2 differ"


def test_agreement_that_is_all_chance_has_a_kappa_of_zero_without_a_sign() -> None:
    """Both raters say each word as often as chance wants: by hand (49/121 - 49/121) / (1 - 49/121)."""
    words = ("Useful", "Partially useful", "Not useful at all")
    shown = set()
    for a, b, c in ((7, 2, 2), (5, 3, 1), (4, 4, 3), (9, 1, 1), (6, 5, 2)):
        one = [word for word, times in zip(words, (a, b, c), strict=True) for _ in range(times * (a + b + c))]
        other = [
            word for _ in range(a + b + c) for word, times in zip(words, (a, b, c), strict=True) for _ in range(times)
        ]
        reference = [label(f"a_{n}", "e", "q1", [], usefulness=word) for n, word in enumerate(one)]
        second = [label(f"a_{n}", "f", "q1", [], usefulness=word) for n, word in enumerate(other)]
        (row, *_) = second_labelling(reference, second, {"expertqa/q1": "Law"}).rows
        shown.add(figure(row[4]))
    assert shown == {"0.00"}


def test_second_labellings_by_the_annotator_of_the_first_are_reported(tmp_path: Path, stages: dict[str, Rows]) -> None:
    second = list(stages["second_labels"])
    own = label("a_1", "e1", "q1", [claim_label("a_1#0", support="Complete")], usefulness="Useful")
    found = titled(tables(**{**stages, "second_labels": Home(tmp_path).table(LABELS, [*second, own])}), "(figure 4)")
    assert {tuple(row[:2]): row[2:4] for row in found.rows}["all", "support"] == (2, 50.0), "that of e1 and of r1"
    assert found.note.endswith("By an annotator of the first: 1 second labellings.")


def test_nothing_at_all_is_still_a_report_without_plots(tmp_path: Path, stages: dict[str, Rows]) -> None:
    home = Home(tmp_path / "empty")
    empty = {name: home.table(rows.schema, []) for name, rows in stages.items()}
    assert len(tables(**empty)) == 31
    assert figures(*(empty[name] for name in PLOTTED)) == []


def test_qafacteval_is_left_out_for_want_of_its_package_or_of_its_models(tmp_path: Path) -> None:
    assert (
        why_no_qafacteval(tmp_path, "no_such_package")
        == why_no_qafacteval(None, "no_such_package")
        == "its package is not installed"
    )
    assert "LONGFORM_QAFACTEVAL_MODELS" in (why_no_qafacteval(None, "json") or "")
    assert "LONGFORM_QAFACTEVAL_MODELS" in (why_no_qafacteval(tmp_path, "json") or "")


def test_sources_are_texts_each_once_and_not_addresses() -> None:
    url = "https://tea.example"
    assert sources_of({"evidence": ["a", "a", url, " ", "b"], "evidence_urls": ["", "", url, "", url]}) == ["a", "b"]


# ---------------------------------------------------------------- plots


def texts(figure: Figure) -> list[str]:
    return [node.text or "" for node in etree.fromstring(figure.svg.encode()).iter("{*}text")]


def drawn_plots(asked: Sequence[Row] = (), answers: Sequence[Row] = (), claims: Sequence[Row] = ()) -> list[Figure]:
    return plots(
        pandas.DataFrame(asked, columns=["field", "question_types"]),
        pandas.DataFrame(answers, columns=["system", "usefulness"]),
        pandas.DataFrame(claims, columns=["system", "field", "question_types", *PROPERTIES]),
        [],
    )


def test_plots_show_the_shares_of_the_tables(stages: dict[str, Rows]) -> None:
    found = {figure.name: texts(figure) for figure in figures(*(stages[name] for name in PLOTTED))}
    names = ("4-agreement", "5-systems", "8-question-types", "9-fields", "10-question-types")
    assert list(found) == [f"figure-{name}" for name in names]
    assert {"all fields", "Geography", "usefulness", "worthiness", "100%"} <= set(found["figure-4-agreement"])
    assert {"gpt4", "bing_chat", "Complete", "Support (cite-worthy claims)", "50%"} <= set(found["figure-5-systems"])
    assert {"Geography", "Law", "I", "V"} <= set(found["figure-8-question-types"])
    assert "none" in found["figure-10-question-types"], "claims of a question without a type"


def places(figure: Figure, text: str) -> list[tuple[float, float]]:
    """Where a text stands, in points."""
    found = []
    for node in etree.fromstring(figure.svg.encode()).iter("{*}text"):
        moved = re.search(r"translate\(([\d.]+) ([\d.]+)\)", node.get("transform") or "")
        x, y = (moved[1], moved[2]) if moved else (node.get("x"), node.get("y"))
        found += [(float(x), float(y))] if node.text == text else []
    return found


def test_a_plot_is_one_named_image_and_its_numbers_say_what_they_count(stages: dict[str, Rows]) -> None:
    for plot in figures(*(stages[name] for name in PLOTTED)):
        root = etree.fromstring(plot.svg.encode())
        assert root.get("role") == "img"
        assert [node.text for node in root.iter("{*}title")] == [plot.title]
        assert {"answers", "claims", "labels", "questions"} & set(texts(plot)), plot.name


def test_figure_8_ends_its_bars_with_the_questions_and_counts_types_at_round_numbers() -> None:
    asked = [{"field": "Law", "question_types": TYPES}] * 8 + [{"field": "Music", "question_types": ["V"]}] * 13
    (figure,) = drawn_plots(asked=asked)
    assert figure.name == "figure-8-question-types"
    music, law = places(figure, "13"), places(figure, "8")
    assert len(music) == len(law) == 1, "56 types of 8 questions"
    assert law[0][1] > music[0][1], "13 questions stand above 8"
    assert {"0", "10", "20", "30", "40", "50"} <= set(texts(figure))


def test_figure_9_of_all_fields_fits_a_screen_and_counts_stand_off_the_bars() -> None:
    said = dict.fromkeys(PROPERTIES)
    rows = [{**said, "support": "Complete", "field": f"Field {n}", "question_types": ["I"]} for n in range(32)]
    rows = [{**row, "system": "gpt4", "worthiness": "Yes"} for row in rows for _ in range(16)]
    figure = next(figure for figure in drawn_plots(claims=rows) if figure.name == "figure-9-fields")
    root = etree.fromstring(figure.svg.encode())
    assert float(root.get("width").removesuffix("pt")) < 900
    assert float(root.get("height").removesuffix("pt")) < 1300
    edges = {x for x, _ in places(figure, "100%")}
    ends = {x for x, _ in places(figure, "16")}
    assert len(ends) == 2, "only support and worthiness are labelled"
    assert all(any(25 < end - edge < 40 for edge in edges) for end in ends), "16 takes 10 points, and ends there"


def test_a_field_that_somebody_made_up_cannot_break_a_plot() -> None:
    hostile = ["<script>alert(1)</script>", "$\\frac{1}{0}$", "a\x00b\x1bc", "茶" * 80, ""]
    asked = [{"field": field, "question_types": ["I"]} for field in hostile]
    (figure,) = drawn_plots(asked=asked)
    said = texts(figure)
    assert "<script>alert(1)</script>" in said
    assert "$\\frac{1}{0}$" in said
    assert "abc" in said
    assert shown("茶" * 80) in said
    assert len(shown("茶" * 80)) == 30
    assert shown("a\ud800b") == "ab"
    assert "<script" not in figure.svg


def test_equal_rows_give_equal_bytes_in_any_order_of_the_rows(released: tuple[list[Row], list[Row], list[Row]]) -> None:
    asked, answers, claims = (rows[:60] for rows in released)
    first, again = (drawn_plots(asked[::step], answers[::step], claims[::step]) for step in (1, -1))
    assert [figure.svg for figure in first] == [figure.svg for figure in again]
