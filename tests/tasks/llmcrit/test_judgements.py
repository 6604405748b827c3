"""What people say of feedback: read from sheets, counted once, and compared with the judge by other libraries."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row, Rows
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.llmcrit import CONTEXT, CRITERIA, CRITIQUES, FEEDBACK, JUDGEMENTS, TEXTS, VALIDITY
from tasks.annotation import sheets as written_as
from tasks.annotation.form import Form, Task
from tasks.annotation.judges import agreed_items, macro_f1
from tasks.llmcrit.form import CONTEXT_FORM, CRITIQUE_FORM, VALIDITY_FORM, critique_tasks, feedback_tasks
from tasks.llmcrit.people.judgements import (
    agreement_by_layer,
    collect_judgements,
    doubted,
    open_judgements,
    read_context_judgements,
    read_critique_judgements,
    read_validity_judgements,
)

FEEDBACK_ROWS = [
    filled(FEEDBACK, feedback_id=key, text_id=f"jars/{key}", task="jars", feedback=f"On {key}.", model="m")
    for key in ("f1", "f2", "f3")
]
TEXT_ROWS = [filled(TEXTS, text_id=f"jars/{key}", task="jars", text=f"Jar {key}.") for key in ("f1", "f2", "f3")]
SHOWN = [{**row, "text": f"Jar {row['feedback_id']}."} for row in FEEDBACK_ROWS]
CRITERIA_ROWS = [filled(CRITERIA, criterion_id="c1", aspect_id="jars/a", task="jars", name="Date", check="A date?")]


def critique(of: str, constructive: bool, helpful: bool | None, **given: Any) -> Row:
    given |= {"constructive": constructive, "helpful": helpful, "criterion_id": "c1", "task": "jars"}
    return filled(CRITIQUES, critique_id=f"{of}#c1", feedback_id=of, text_id=f"jars/{of}", **given)


CRITIQUE_ROWS = [
    critique("f1", True, False),
    critique("f2", False, None),
    critique("f3", True, True),
    critique("planted", True, True, planted="vague"),
]


def sheet(form: Form, task: Task, who: str, **said: Any) -> Row:
    return {**written_as.sheet(form, task), "annotator_id": who, **said}


def on_critiques() -> dict[str, Task]:
    return {task.id: task for task in critique_tasks(CRITIQUE_ROWS, SHOWN, CRITERIA_ROWS)}


def on_feedback(*texts: str) -> dict[str, Task]:
    return {task.id: task for task in feedback_tasks(SHOWN, *texts)}


def judged(schema: Any, verdicts: dict[str, str], **planted: str) -> list[Row]:
    return [
        filled(schema, feedback_id=key, text_id=f"jars/{key}", task="jars", verdict=verdict, planted=planted.get(key))
        for key, verdict in verdicts.items()
    ]


def read(tmp_path: Path, stage: Any, records: list[Row], *tables: tuple[Any, list[Row]]) -> tuple[Rows, list[Row]]:
    """(judgements, rejected rows) of a file of these sheets, made as a build makes them."""
    home, path = Home(tmp_path / "home"), tmp_path / "filled.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, records)))
    sources = open_judgements([path], digest=sha256_of, accounts={})
    made = home.run(stage, sources, *(home.table(schema, rows) for schema, rows in tables))
    return made, rejected_rows(home, made)


def rejected_rows(home: Home, rows: Rows) -> list[Row]:
    paths = [home.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


COLUMNS = ("layer", "item_id", "task", "annotator_id", "label", "judge", "seconds")


def shown(rows: Rows) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in rows]


# ---------------------------------------------------------------- read


def test_what_a_person_says_of_validity_stands_beside_what_the_judge_says(tmp_path: Path) -> None:
    tasks = on_feedback("feedback")
    records = [
        sheet(VALIDITY_FORM, tasks["f1"], "ann", validity="Specific", annotation_time=4),
        sheet(VALIDITY_FORM, tasks["f1"], "bob", validity="not specific"),
        sheet(VALIDITY_FORM, tasks["f2"], "ann", validity="specific"),
    ]
    verdicts = judged(VALIDITY, {"f1": "specific", "f2": "not specific", "p1": "specific"}, p1="advice")
    made, left = read(tmp_path, read_validity_judgements, records, (FEEDBACK, FEEDBACK_ROWS), (VALIDITY, verdicts))
    assert shown(made) == [
        ("validity", "f1", "jars", "ann", "specific", "specific", 4.0),
        ("validity", "f1", "jars", "bob", "not specific", "specific", None),
        ("validity", "f2", "jars", "ann", "specific", "not specific", None),
    ]
    assert left == []
    assert len({row["judgement_id"] for row in made}) == 3


def test_feedback_that_was_not_judged_or_was_planted_is_no_task(tmp_path: Path) -> None:
    tasks = on_feedback("feedback")
    records = [sheet(VALIDITY_FORM, task, "ann", validity="specific") for task in tasks.values()]
    verdicts = judged(VALIDITY, {"f1": "specific", "f2": "specific"}, f2="praise")
    made, left = read(tmp_path, read_validity_judgements, records, (FEEDBACK, FEEDBACK_ROWS), (VALIDITY, verdicts))
    assert [row["item_id"] for row in made] == ["f1"]
    assert [row["reason"] for row in left] == ["unknown feedback"] * 2


def test_a_sheet_that_shows_another_text_than_the_build_stops_it(tmp_path: Path) -> None:
    record = sheet(CONTEXT_FORM, on_feedback("text", "feedback")["f1"], "ann", context="match", text="Another jar.")
    tables = (FEEDBACK, FEEDBACK_ROWS), (TEXTS, TEXT_ROWS), (CONTEXT, judged(CONTEXT, {"f1": "match"}))
    with pytest.raises(SourceError, match=r"yields no label \(the text had another text: 1\)"):
        read(tmp_path, read_context_judgements, [record], *tables)


def test_whether_feedback_belongs_to_its_text_is_read_with_the_texts_of_the_build(tmp_path: Path) -> None:
    tasks = on_feedback("text", "feedback")
    records = [
        sheet(CONTEXT_FORM, tasks["f1"], "ann", context="unsure"),
        sheet(CONTEXT_FORM, tasks["f2"], "ann", context="perhaps"),
    ]
    tables = (FEEDBACK, FEEDBACK_ROWS), (TEXTS, TEXT_ROWS), (CONTEXT, judged(CONTEXT, {"f1": "match", "f2": "match"}))
    made, left = read(tmp_path, read_context_judgements, records, *tables)
    assert shown(made) == [("context", "f1", "jars", "ann", "unsure", "match", None)]
    assert [row["reason"] for row in left] == ["unknown label"]


def test_whether_a_critique_helps_counts_only_where_person_and_judge_see_one(tmp_path: Path) -> None:
    tasks = on_critiques()
    assert tasks.keys() == {"f1#c1", "f2#c1", "f3#c1"}
    both, none = {"constructive": "yes", "helpful": "yes"}, {"constructive": "no", "helpful": "no"}
    records = [
        sheet(CRITIQUE_FORM, tasks["f1#c1"], "ann", **both, annotation_time=6),
        sheet(CRITIQUE_FORM, tasks["f2#c1"], "ann", **both),  # the judge sees none
        sheet(CRITIQUE_FORM, tasks["f3#c1"], "ann", **none),
        sheet(CRITIQUE_FORM, tasks["f3#c1"], "bob", constructive="yes"),
        sheet(CRITIQUE_FORM, tasks["f1#c1"], "bob", helpful="yes"),
    ]
    tables = (CRITIQUES, CRITIQUE_ROWS), (FEEDBACK, FEEDBACK_ROWS), (TEXTS, TEXT_ROWS), (CRITERIA, CRITERIA_ROWS)
    made, left = read(tmp_path, read_critique_judgements, records, *tables)
    assert sorted(shown(made)) == [
        ("constructive", "f1#c1", "jars", "ann", "yes", "yes", 3.0),
        ("constructive", "f2#c1", "jars", "ann", "yes", "no", None),
        ("constructive", "f3#c1", "jars", "ann", "no", "yes", None),
        ("constructive", "f3#c1", "jars", "bob", "yes", "yes", None),
        ("helpful", "f1#c1", "jars", "ann", "yes", "no", 3.0),
    ]
    assert [(row["key"], row["reason"]) for row in left] == [("f1#c1/bob", "no verdict")]


def test_the_first_judgement_of_a_person_on_an_item_counts_in_one_file_and_across_files(tmp_path: Path) -> None:
    task = on_feedback("feedback")["f1"]
    records = [sheet(VALIDITY_FORM, task, "ann", validity=label) for label in ("specific", "not specific")]
    tables = (FEEDBACK, FEEDBACK_ROWS), (VALIDITY, judged(VALIDITY, {"f1": "specific"}))
    made, left = read(tmp_path, read_validity_judgements, records, *tables)
    assert [row["label"] for row in made] == ["specific"]
    assert [row["reason"] for row in left] == ["the same person has said it already"]
    home, (row,) = Home(tmp_path / "home"), list(made)
    others = [row | {"label": "not specific"}], [row | {"judgement_id": "j2", "layer": "context"}]
    collected = home.run(
        collect_judgements,
        home.table(JUDGEMENTS, [row], others[0]),
        home.table(JUDGEMENTS, others[1]),
        home.table(JUDGEMENTS, []),
    )
    assert [(each["layer"], each["label"]) for each in collected] == [
        ("validity", "specific"),
        ("context", "specific"),
    ]
    assert home.rejected(collected) == {row["judgement_id"]: "the same person has said it already"}


def test_no_file_gives_no_judgement(tmp_path: Path) -> None:
    home = Home(tmp_path)
    feedback, verdicts = home.table(FEEDBACK, FEEDBACK_ROWS), home.table(VALIDITY, judged(VALIDITY, {"f1": "specific"}))
    none = home.run(read_validity_judgements, [], feedback, verdicts)
    assert list(home.run(collect_judgements, none, none, none)) == []


# ---------------------------------------------------------------- agreement


def frame(*rows: tuple[str, str, str, str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["layer", "task", "item_id", "annotator_id", "label", "judge"])


def of_items(layer: str, *items: tuple[str, str], task: str = "jars", people: int = 2) -> pd.DataFrame:
    """The judgements of items: a letter for what each person says of it (y or n), what the judge says."""
    words = {"y": "yes", "n": "no"}
    return frame(
        *(
            (layer, task, f"{task}{number}", f"p{who}", words[label], words[judge])
            for number, (labels, judge) in enumerate(items)
            for who, label in enumerate(labels[:people])
        )
    )


# of ten items people agree on eight; of these the judge is right on six: five of six that are "yes", one of two others
TEN = [("yy", "y")] * 5 + [("yy", "n"), ("nn", "n"), ("nn", "y"), ("yn", "y"), ("ny", "n")]


def test_the_figures_of_ten_items_are_those_computed_by_hand() -> None:
    found = agreement_by_layer(of_items("constructive", *TEN))
    assert list(found.task) == ["jars", "all tasks"]
    for row in found.to_dict("records"):
        assert (row["layer"], row["people"], row["judged by two or more"], row["compared"]) == (
            "constructive",
            2,
            10,
            8,
        )
        assert row["agreed, %"] == 80.0
        assert row["accuracy, %"] == 75.0
        # of yes: precision 5/6, recall 5/6; of no: 1/2 and 1/2
        assert row["macro F1, %"] == pytest.approx(100 * (5 / 6 + 1 / 2) / 2)
        assert (row["positive by people, %"], row["positive by the judge, %"]) == (75.0, 75.0)
        assert row["macro F1, % from"] < row["macro F1, %"] < row["macro F1, % to"]
    paper = {name: found[f"{name} paper"].tolist()[1] for name in ("accuracy, %", "macro F1, %", "agreed, %")}
    assert paper == {"accuracy, %": 95.22, "macro F1, %": 95.05, "agreed, %": 91.0}
    assert found["accuracy, % difference"].tolist()[1] == pytest.approx(75 - 95.22)
    assert found["accuracy, % paper"].isna().tolist() == [True, False]


def random_judgements(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    labels, rows = ["match", "not match", "unsure"], []
    for number in range(150):
        truth = rng.choice(labels, p=[0.7, 0.2, 0.1])
        judge = truth if rng.random() < 0.8 else rng.choice(labels)
        for who in rng.choice(4, size=rng.integers(1, 4), replace=False):
            label = truth if rng.random() < 0.9 else rng.choice(labels)
            rows.append(("context", ("jars", "lids")[number % 2], f"i{number}", f"p{who}", str(label), str(judge)))
    return frame(*rows)


@pytest.mark.parametrize("seed", range(3))
def test_other_libraries_find_the_same_figures(seed: int) -> None:
    from nltk.metrics.agreement import AnnotationTask
    from sklearn.metrics import accuracy_score, f1_score
    from statsmodels.stats.proportion import proportion_confint

    judgements = random_judgements(seed)
    for row in agreement_by_layer(judgements).to_dict("records"):
        own = judgements if row["task"] == "all tasks" else judgements[judgements.task == row["task"]]
        of_item = own.groupby("item_id")
        twice = own[of_item.label.transform("size") > 1]
        told = AnnotationTask(data=list(twice[["annotator_id", "item_id", "label"]].itertuples(index=False, name=None)))
        assert row["Krippendorff's alpha"] == pytest.approx(told.alpha())
        assert row["judged by two or more"] == twice.item_id.nunique()
        alike = [(labels[0], judge) for labels, judge in _agreeing(twice)]
        truth, judge = [list(each) for each in zip(*alike, strict=True)]
        assert row["compared"] == len(truth)
        assert row["accuracy, %"] == pytest.approx(100 * accuracy_score(truth, judge))
        assert row["macro F1, %"] == pytest.approx(100 * f1_score(truth, judge, average="macro"))
        hits = sum(one == other for one, other in alike)
        bounds = [100 * each for each in proportion_confint(hits, len(truth), method="wilson")]
        assert [row["accuracy, % from"], row["accuracy, % to"]] == pytest.approx(bounds)
        assert row["positive by people, %"] == pytest.approx(100 * truth.count("match") / len(truth))
        assert row["positive by the judge, %"] == pytest.approx(100 * judge.count("match") / len(truth))


def _agreeing(twice: pd.DataFrame) -> list[tuple[list[str], str]]:
    groups = ((list(own.label), own.judge.iloc[0]) for _, own in twice.groupby("item_id"))
    return [(labels, judge) for labels, judge in groups if len({*labels}) == 1]


def test_the_interval_of_macro_f1_is_that_of_resampled_items() -> None:
    from sklearn.metrics import f1_score

    items = agreed_items(random_judgements(7))
    rng, draws = np.random.default_rng(1), []
    truth, judge = items.label.to_numpy(), items.judge.to_numpy()
    for _ in range(400):
        taken = rng.integers(len(truth), size=len(truth))
        draws.append(f1_score(truth[taken], judge[taken], average="macro"))
    assert macro_f1(items).bounds() == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.03)


def test_with_one_annotator_the_judge_is_compared_with_that_one() -> None:
    (row, _) = agreement_by_layer(of_items("helpful", *TEN, people=1)).to_dict("records")
    assert (row["people"], row["judged by two or more"], row["compared"]) == (1, 0, 10)
    assert row["accuracy, %"] == 80.0  # of the first person's labels in TEN, 5 + 1 + 1 + 1 are the judge's
    assert math.isnan(row["agreed, %"])
    assert math.isnan(row["Krippendorff's alpha"])


def test_items_of_which_people_disagree_are_compared_with_no_judge() -> None:
    (row, _) = agreement_by_layer(of_items("helpful", ("yn", "y"))).to_dict("records")
    assert (row["compared"], row["agreed, %"]) == (0, 0.0)
    empty = ("accuracy, %", "accuracy, % from", "macro F1, %", "positive by people, %", "positive by the judge, %")
    assert all(math.isnan(row[name]) for name in empty)


def test_layers_stand_in_their_order_and_tasks_before_all_of_them() -> None:
    found = agreement_by_layer(
        pd.concat([
            of_items("helpful", ("yy", "y"), task="lids"),
            of_items("constructive", ("yy", "y"), task="lids"),
            of_items("constructive", ("nn", "n"), task="jars"),
        ])
    )  # fmt: skip
    assert list(zip(found.layer, found.task, strict=True)) == [
        ("constructive", "jars"),
        ("constructive", "lids"),
        ("constructive", "all tasks"),
        ("helpful", "lids"),
        ("helpful", "all tasks"),
    ]


def test_without_judgements_there_is_no_table_and_no_doubt() -> None:
    empty = frame().astype({"layer": "str", "task": "str"})
    assert agreement_by_layer(empty).empty
    assert doubted(empty, 0.9) == {}


def test_a_judge_under_the_threshold_is_in_doubt_with_its_figures() -> None:
    from statsmodels.stats.proportion import proportion_confint

    judgements = pd.concat([of_items("constructive", *TEN), of_items("helpful", ("yy", "y"), ("nn", "n"))])
    low, high = (100 * each for each in proportion_confint(6, 8, method="wilson"))
    found = doubted(judgements, 0.9)
    assert found.keys() == {"constructive"}
    for words in ("75.0 %", f"{low:.1f} to {high:.1f}", "8 items", "annotators: 2", "less than 90 %"):
        assert words in found["constructive"]
    assert doubted(judgements, 0.75) == {}
    assert doubted(of_items("helpful", ("yn", "y")), 1.0) == {}


def test_rows_of_a_build_are_read_as_a_frame(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = [
        filled(JUDGEMENTS, judgement_id=str(number), **row)
        for number, row in enumerate(of_items("constructive", *TEN).to_dict("records"))
    ]
    columns = ["layer", "task", "item_id", "annotator_id", "label", "judge"]
    made = home.table(JUDGEMENTS, rows).to_pandas(columns)
    pd.testing.assert_frame_equal(agreement_by_layer(made), agreement_by_layer(of_items("constructive", *TEN)))
    assert doubted(Home(tmp_path / "none").table(JUDGEMENTS, []).to_pandas(columns), 0.9) == {}
