"""What people fill in of kiwi: what each sheet shows and hides, what comes back in any format, agreement by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from expertqa_tables import Home, filled
from look_homes import made_version

from longform.artifacts.rows import Row, Rows
from longform.artifacts.store import Store
from longform.artifacts.versions import find
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.kiwi import ASKED, DOCUMENT_SETS, LABELS, TURNS
from tasks.annotation import sheets as written_as
from tasks.annotation.files import FORMATS, sheet_files
from tasks.annotation.form import Task, arranged
from tasks.annotation.known import agreement
from tasks.kiwi.form import FORMS, MOST, OF_TURNS, QUESTION_FORM, question_tasks, turn_tasks
from tasks.kiwi.people import (
    open_said,
    read_category_labels,
    read_error_labels,
    read_failure_labels,
    read_second_ratings,
    read_written_questions,
)

HIDDEN = ("the-model", "reader-1", "0f0f", "some-endpoint")
READ = {
    "ratings": read_second_ratings,
    "categories": read_category_labels,
    "errors": read_error_labels,
    "failures": read_failure_labels,
}
FILLED = {
    "ratings": {"rating": "Good", "comment": "So it is."},
    "categories": {"category": "Remove"},
    "errors": {"error": "ignored"},
    "failures": {"failure": "PARTLY"},
}
LABEL = {"ratings": "good", "categories": "remove", "errors": "ignored", "failures": "partly"}


def turn(key: str, rating: str = "bad", **given: Any) -> Row:
    own = {
        "session_id": f"s{key}", "question_id": "q", "question": "What are jars?", "origin": "released",
        "system": HIDDEN[0], "annotator_id": HIDDEN[1], "position": 1, "instruction": f"Instruct {key}.",
        "kind": "information", "before": "Before.", "answer": f"After {key}.", "rating": rating,
        "comment": f"Comment {key}.", "response": HIDDEN[2], "endpoint": HIDDEN[3],
        "passages": [{"passage_id": "p", "title": "A title", "text": "A passage."}],
    }  # fmt: skip
    return filled(TURNS, turn_id=key, **{**own, **given})


TURNS_ROWS = [
    turn("bad"), turn("good", "good"), turn("neutral", "neutral"), turn("style", kind="style"),
    turn("silent", comment=" "), turn("bare", passages=[]), turn("simulated", origin="simulated"),
]  # fmt: skip
WANTED = {
    "ratings": {"bad", "good", "neutral", "style", "silent", "bare"},
    "categories": {"bad", "good", "neutral", "style", "silent", "bare"},
    "errors": {"bad", "neutral", "style", "bare", "simulated"},
    "failures": {"bad", "neutral", "silent", "simulated"},
}


def tasks_of(form: str) -> dict[str, Task]:
    _, texts, wanted, _ = OF_TURNS[form]
    rows = [row for row in TURNS_ROWS if wanted(row)]
    return {task.id: task for task in turn_tasks(rows, *texts, again=form == "ratings")}


def sheet(form: str, task: Task, who: str, **said: Any) -> Row:
    return {**written_as.sheet(OF_TURNS[form][0], task), "annotator_id": who, **said}


def read(
    path: Path, form: str, records: list[Row], labels: list[Row] | None = None
) -> tuple[list[Row], dict[str, str]]:
    """(rows of SAID, reason of each rejected row) of a file of these sheets."""
    home, file = Home(path / "home"), path / "filled.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, records)))
    tables: list[Rows] = [home.table(TURNS, TURNS_ROWS)]
    tables += [home.table(LABELS, labels or [])] if form in ("categories", "errors") else []
    made = home.run(READ[form], open_said([file], digest=sha256_of, accounts={}), *tables)
    return list(made), home.rejected(made)


# ---------------------------------------------------------------- handed out


@pytest.mark.parametrize("form", OF_TURNS)
def test_each_form_is_of_the_turns_that_it_is_about(form: str) -> None:
    assert {*tasks_of(form)} == WANTED[form]


@pytest.mark.parametrize("form", OF_TURNS)
def test_simulated_turns_are_handed_out_only_where_people_have_none(tmp_path: Path, form: str) -> None:
    for rows, wanted in ((TURNS_ROWS, WANTED[form] - {"simulated"}), (TURNS_ROWS[-1:], WANTED[form] & {"simulated"})):
        home = tmp_path / str(len(rows))
        made_version(home, rows, configs={"turns": {"train": len(rows)}}, keys={"turns": "turn_id"})
        sheets = FORMS[form](Store(home), find(home, "axioms@v1"))
        assert {task.id for task in sheets.tasks} == wanted


def test_as_many_sheets_are_handed_out_as_the_paper_had() -> None:
    assert MOST == {"ratings": 65, "categories": 40, "errors": 22, "failures": 20}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("form", OF_TURNS)
def test_no_sheet_in_any_format_names_model_reader_rating_or_comment_of_others(form: str, format: str) -> None:
    drawn = arranged(OF_TURNS[form][0], [*tasks_of(form).values()], 0)
    files = sheet_files(OF_TURNS[form][0], drawn, format).values()
    content = b"".join(data if isinstance(data, bytes) else str(data).encode() for data in files).decode(
        "utf-8", "replace"
    )
    assert "Instruct bad." in content
    for text in HIDDEN:
        assert text not in content
    assert ("Comment bad." in content) == (form == "errors")
    assert ("A passage." in content) == (form == "failures")


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize("form", OF_TURNS)
def test_a_filled_in_sheet_is_a_row_with_what_was_known(form: str, tmp_path: Path) -> None:
    labels = [filled(LABELS, label_id=f"bad/{form}", turn_id="bad", what="category", label="condense")]
    rows, rejected = read(tmp_path, form, [sheet(form, tasks_of(form)["bad"], "p1", **FILLED[form])], labels)
    known = {"ratings": "bad", "categories": "condense", "errors": "condense", "failures": None}
    ((found),) = rows
    assert (found["form"], found["turn_id"], found["annotator_id"], found["label"], found["known"]) == (
        form, "bad", "p1", LABEL[form], known[form],
    )  # fmt: skip
    assert rejected == {}


def test_a_reader_does_not_rate_their_own_session_again(tmp_path: Path) -> None:
    records = [sheet("ratings", tasks_of("ratings")[key], HIDDEN[1], **FILLED["ratings"]) for key in ("bad", "good")]
    other = sheet("ratings", tasks_of("ratings")["bad"], "p1", **FILLED["ratings"])
    rows, rejected = read(tmp_path, "ratings", [*records, other])
    assert [(row["turn_id"], row["annotator_id"]) for row in rows] == [("bad", "p1")]
    assert len(rejected) == 2


@pytest.mark.parametrize(
    "broken",
    [
        {"category": None},
        {"category": "shorten"},
        {"annotator_id": "a@b.example"},
        {"annotator_id": ""},
        {"turn_id": "unknown"},
        {"instruction": "Another instruction."},
    ],
    ids=str,
)
def test_what_does_not_fit_is_rejected_and_costs_no_other_label(broken: Row, tmp_path: Path) -> None:
    tasks = tasks_of("categories")
    records = [sheet("categories", tasks[key], "p1", **FILLED["categories"]) for key in ("bad", "good")]
    rows, rejected = read(tmp_path, "categories", [{**records[0], **broken}, records[1]])
    assert [row["turn_id"] for row in rows] == ["good"]
    assert len(rejected) == 1


def test_a_person_counts_once_on_a_turn_and_a_file_without_a_label_is_refused(tmp_path: Path) -> None:
    task = tasks_of("errors")["bad"]
    twice = [sheet("errors", task, "p1", error=error) for error in ("ignored", "others")]
    (tmp_path / "a").mkdir()
    rows, _ = read(tmp_path / "a", "errors", twice)
    assert [row["label"] for row in rows] == ["ignored"]
    (tmp_path / "b").mkdir()
    with pytest.raises(SourceError):
        read(tmp_path / "b", "errors", [sheet("errors", task, "p1", error="odd")])


# ---------------------------------------------------------------- questions

PAPERS = [{"paper_id": f"s2/{n}", "title": f"Paper {n}"} for n in range(5)]
SET = filled(DOCUMENT_SETS, related_id="r", paper_id="s2/9", title="On jars", text="Jars.", documents=PAPERS, cited=6)


@pytest.mark.parametrize(
    ("said", "papers"),
    [
        ({"question": "  How are jars\nclosed? "}, [0, 1, 2, 3, 4]),
        ({"question": "How are jars closed?", "evidence": ["paper 1 ", "PAPER 3", "Unknown"]}, [1, 3]),
    ],
)
def test_a_written_question_has_the_papers_that_its_writer_names_else_all(
    tmp_path: Path, said: Row, papers: list[int]
) -> None:
    (task,) = question_tasks([SET])
    home, file = Home(tmp_path / "home"), tmp_path / "filled.jsonl"
    file.write_text(json.dumps({**written_as.sheet(QUESTION_FORM, task), "annotator_id": "p1", **said}))
    sources = open_said([file], digest=sha256_of, accounts={})
    (row,) = home.run(read_written_questions, sources, home.table(DOCUMENT_SETS, [SET]))
    assert (row["question"], row["source_id"], row["paragraph"]) == ("How are jars closed?", "s2/9", "Jars.")
    assert [each["paper_id"] for each in row["evidence"]] == [f"s2/{n}" for n in papers]
    assert {*row} == {*ASKED.names}


# ---------------------------------------------------------------- agreement


def test_agreement_with_what_was_known_is_the_accuracy_of_another_library() -> None:
    from sklearn.metrics import accuracy_score

    said = pd.DataFrame(
        [("errors", f"t{n}", who, label, known)
         for n, (known, labels) in enumerate([("a", "aa"), ("a", "ab"), ("b", "bb"), ("b", "a"), (None, "ab")])
         for who, label in zip("xy", labels, strict=False)],
        columns=["form", "item_id", "annotator_id", "label", "known"],
    )  # fmt: skip
    (row,) = agreement(said).to_dict("records")
    compared = said.dropna()
    assert row["as known, %"] == pytest.approx(100 * accuracy_score(compared.known, compared.label))
    assert (row["labels"], row["items"], row["people"], row["compared"]) == (9, 5, 2, 7)
    assert row["people agree, %"] == pytest.approx(50), "of four turns that two labelled, two"
