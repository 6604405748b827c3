"""The form by which experts write questions, and its sheets as files of the question bank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from longform.artifacts.rows import Rejected, Shard
from longform.files import sha256_of
from tasks.annotation.files import open_sheets, read_file, sheet_files
from tasks.annotation.form import arranged
from tasks.annotation.labelling import Checked
from tasks.expertqa.bank import open_banks, read_questions
from tasks.expertqa.form import QUESTION_FORM, question_sheets
from tasks.expertqa.vocabulary import type_texts

QUESTIONS = [
    ("Why does copper turn green in some towns and black in others?", ["I", "II"]),
    ("", []),
    ("How do bakers tell whether a dough has risen enough?", ["IV"]),
]


class Counting:
    """A context that counts nothing."""

    def count(self, name: str, number: int) -> None:
        pass


def bank(path: Path) -> list[Any]:
    return list(read_questions.body(Counting(), Shard(open_banks([path], digest=sha256_of)[0], 0), licence=None))


@pytest.fixture
def sheet() -> dict[str, Any]:
    """A sheet as it is handed out, for one of the fields."""
    of = question_sheets(None, None)  # type: ignore[arg-type]
    (task,) = [task for task in of.tasks if task.id == "Chemistry"]
    (content,) = sheet_files(of.form, arranged(of.form, [task], 0), "jsonl").values()
    found: dict[str, Any] = orjson.loads(content)
    return found


def filled(sheet: dict[str, Any]) -> dict[str, Any]:
    items = []
    for item, (question, types) in zip(sheet["questions"], [*QUESTIONS, ("", []), ("", [])], strict=True):
        texts = [type_texts()[each] for each in types]
        items.append({**item, "question": question or None, "question_types": texts or None})
    return {**sheet, "annotator_id": "e7", "questions": items}


def test_a_sheet_has_five_questions_of_which_the_last_two_are_scenarios(sheet: dict[str, Any]) -> None:
    wanted = [item["wanted"] for item in sheet["questions"]]
    assert len(wanted) == 5
    assert [("scenario" in text) for text in wanted] == [False, False, False, True, True]


def test_the_questions_of_a_filled_in_sheet_are_questions_of_the_bank(tmp_path: Path, sheet: dict[str, Any]) -> None:
    path = tmp_path / "written.jsonl"
    path.write_bytes(orjson.dumps(filled(sheet)))
    rows = bank(path)
    assert [(row["question"], row["question_types"], row["field"], row["annotator_id"]) for row in rows] == [
        (question, types, "Chemistry", "e7") for question, types in QUESTIONS if question
    ]
    assert len({row["question_id"] for row in rows}) == 2


def test_a_sheet_beside_questions_of_ones_own_is_read_and_a_broken_one_costs_no_other(
    tmp_path: Path, sheet: dict[str, Any]
) -> None:
    path = tmp_path / "both.jsonl"
    broken = {**filled(sheet), "questions": [{"question": "Why?", "question_types": ["no such kind"]}, 7, None]}
    own = {"question": "Why is the sky blue?", "field": "Physics and Astronomy"}
    path.write_bytes(b"\n".join(map(orjson.dumps, [own, broken, filled(sheet)])))
    items = bank(path)
    assert [item.reason for item in items if isinstance(item, Rejected)] == ["unknown question type"]
    assert len([item for item in items if not isinstance(item, Rejected)]) == 3


def test_the_sheets_are_those_of_the_form_for_labels_too(tmp_path: Path, sheet: dict[str, Any]) -> None:
    path = tmp_path / "written.jsonl"
    path.write_bytes(orjson.dumps(filled(sheet)))
    known = {task.id: task for task in question_sheets(None, None).tasks}  # type: ignore[arg-type]
    (source,) = open_sheets([path], sha256_of, group="labels", accounts={})
    (found,) = read_file(QUESTION_FORM, Shard(source, 0), known)
    assert isinstance(found, Checked)
    assert {place for place, _ in found.values} == {"1", "3"}
