"""What people are shown of criteria, demonstrations and feedback, and what they must not see."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, find
from longform.files import write_json
from schemas.llmcrit import ASPECTS, CRITERIA, DEMONSTRATIONS, PUBLISHED_CRITIQUES, PUBLISHED_FEEDBACK
from tasks.annotation import sheets as written_as
from tasks.annotation.files import FORMATS, sheet_files
from tasks.annotation.form import Sheets, Task, arranged, draw
from tasks.llmcrit.form import FORMS

SCHEMAS = {
    "feedback": PUBLISHED_FEEDBACK,
    "critiques": PUBLISHED_CRITIQUES,
    "criteria": CRITERIA,
    "demonstrations": DEMONSTRATIONS,
    "aspects": ASPECTS,
}
HIDDEN = {"response": "0f0f", "prompt": "some-prompt", "endpoint": "some-endpoint", "model": "some-model"}


def aspect(name: str, **given: Any) -> Row:
    given = {"name": name.capitalize(), "guideline": f"How to do {name}.", "task": "jars", **given}
    return filled(ASPECTS, aspect_id=f"{given['task']}/{name}", **given)


def criterion(key: str, position: int, of: str = "jars/labels", **given: Any) -> Row:
    given = {"name": f"Name {key}", "check": f"Check {key}?", "state": "proposed", **HIDDEN, **given}
    return filled(CRITERIA, criterion_id=key, aspect_id=of, task=of.partition("/")[0], position=position, **given)


def demonstration(key: str, **given: Any) -> Row:
    given = {"input": f"Text {key}.", "output": f"Feedback on {key}.", "state": "proposed", **HIDDEN, **given}
    return filled(DEMONSTRATIONS, demonstration_id=key, aspect_id="jars/labels", task="jars", position=1, **given)


def feedback(key: str, task: str = "jars", **given: Any) -> Row:
    given = {"feedback": f"On {key}: say more.", "text": f"Jar {key}.", "strategy": "cricl", **HIDDEN, **given}
    return filled(PUBLISHED_FEEDBACK, feedback_id=key, text_id=f"{task}/{key}", task=task, split=task, **given)


def critique(feedback: str, criterion: str, **given: Any) -> Row:
    given = {"task": "jars", "extraction": "extracted words", "constructive": True, "reasoning": "thoughts", **given}
    key = f"{feedback}#{criterion}"
    return filled(
        PUBLISHED_CRITIQUES, critique_id=key, feedback_id=feedback, criterion_id=criterion, strategy="cricl", **given
    )


def version(path: Path, **tables: list[Row]) -> tuple[Store, Version]:
    """A version with these rows in each of its configs, as publishing lays it out."""
    home, folder = Home(path), path / "datasets" / "llmcrit" / "v1"
    for number, (config, schema) in enumerate(SCHEMAS.items()):
        if tables.get(config):
            place = (folder / config if number else folder) / "jars"
            place.mkdir(parents=True)
            written = Path(home.table(schema, tables[config]).paths[0])
            (place / "jars-0.parquet").write_bytes(written.read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    counts = {config: {"jars": len(tables.get(config, []))} for config in SCHEMAS}
    manifest = {"number": 1, "recipe": "r", "stages": {}, "splits": counts["feedback"], "offline": True, "files": {}}
    write_json(folder / "manifest.json", manifest | {"configs": counts})
    return home.store, find(path, "llmcrit")


def made(path: Path, form: str, **tables: list[Row]) -> Sheets:
    return FORMS[form](*version(path, **tables))


def texts(tasks: list[Task]) -> dict[str, Row]:
    return {task.id: dict(task.texts) for task in tasks}


def test_a_sheet_of_criteria_is_an_aspect_with_its_guideline_and_its_criteria_in_order(tmp_path: Path) -> None:
    edited = {"name": "New", "check": "New check?", "state": "edited", "proposed": "**Old**: Old check?"}
    criteria = [
        criterion("c3", 3, name=""),
        criterion("c1", 1),
        criterion("c2", 2, **edited),
        criterion("d1", 1, of="jars/lids"),
    ]
    of = made(tmp_path, "criteria", aspects=[aspect("labels"), aspect("empty"), aspect("lids")], criteria=criteria)
    assert [task.id for task in of.tasks] == ["jars/labels", "jars/lids"]
    sheet = written_as.sheet(of.form, next(task for task in arranged(of.form, of.tasks, 5) if "labels" in task.id))
    assert sheet == {
        "task": "jars",
        "annotator_id": None,
        "aspect_id": "jars/labels",
        "aspect": "Labels",
        "guideline": "How to do labels.",
        "criteria": [
            {"criterion_id": name, "criterion": text, "verdict": None, "new_name": None, "new_check": None}
            for name, text in (
                ("c1", "**Name c1**: Check c1?"),
                ("c2", "**Old**: Old check?"),
                ("c3", "Check c3?"),
            )
        ],
        "annotation_time": None,
        "labelled_at": None,
        "ratings": {"verdict": ["accept", "edit", "reject"]},
    }
    assert (of.setting, of.most) == ("criterion_reviews", None)


def test_a_sheet_of_a_demonstration_tells_what_its_text_is_to_violate_and_an_edited_one_has_none(
    tmp_path: Path,
) -> None:
    vector = [
        {"criterion_id": "c1", "name": "Date", "check": "Is there a date?", "satisfied": False},
        {"criterion_id": "c2", "name": "", "check": "Is it short?", "satisfied": True},
    ]
    rows = [demonstration("d1", criteria=vector), demonstration("d2"), demonstration("d3", state="edited")]
    of = made(tmp_path, "demonstrations", demonstrations=rows)
    assert texts(of.tasks) == {
        "d1": {
            "criteria": "to violate: **Date**: Is there a date?\nto meet: Is it short?",
            "input": "Text d1.",
            "output": "Feedback on d1.",
        },
        "d2": {"criteria": "", "input": "Text d2.", "output": "Feedback on d2."},
    }
    assert of.setting == "demonstration_reviews"


FEEDBACK = [
    feedback("f1", validity="specific", context="match"),
    feedback("f2", validity="not specific"),
    feedback("f3"),
]
CRITIQUES = [critique("f1", "c1"), critique("f1", "c2", planted="vague"), critique("f1", "c3", constructive=False)]
TABLES = {"feedback": FEEDBACK, "critiques": CRITIQUES, "criteria": [criterion("c1", 1), criterion("c3", 2, name="")]}


def test_each_layer_shows_what_its_judge_saw_of_the_feedback_that_was_judged(tmp_path: Path) -> None:
    shown = {form: made(tmp_path / form, form, **TABLES) for form in ("validity", "context", "critiques")}
    on_f1 = {"text": "Jar f1.", "feedback": "On f1: say more."}
    assert {form: texts(of.tasks) for form, of in shown.items()} == {
        "validity": {"f1": {"feedback": "On f1: say more."}, "f2": {"feedback": "On f2: say more."}},
        "context": {"f1": on_f1},
        "critiques": {
            "f1#c1": {**on_f1, "criterion": "**Name c1**: Check c1?"},
            "f1#c3": {**on_f1, "criterion": "Check c3?"},
        },
    }
    assert [of.setting for of in shown.values()] == [
        "validity_judgements",
        "context_judgements",
        "critique_judgements",
    ]


@pytest.mark.parametrize("form", ["validity", "context", "critiques"])
def test_no_file_tells_the_model_the_strategy_or_what_the_judge_says(tmp_path: Path, form: str) -> None:
    of = made(tmp_path, form, **TABLES)
    for format in FORMATS:
        records = b"\n".join(sheet_files(of.form, of.tasks, format).values()).decode()
        for word in ("some-", "0f0f", "cricl", "extracted", "thoughts", "planted", "vague", "judge"):
            assert word not in records, format
    for task in of.tasks:
        sheet = written_as.sheet(of.form, task)
        assert {sheet[field.name] for field in of.form.fields} == {None}


def test_a_hundred_are_drawn_of_each_task_unless_the_command_says_otherwise(tmp_path: Path) -> None:
    rows = [
        *(feedback(f"a{number}", validity="specific") for number in range(130)),
        *(feedback(f"b{number}", "lids", validity="specific") for number in range(40)),
    ]
    of = made(tmp_path, "validity", feedback=rows)
    assert Counter(task.stratum for task in draw(of.tasks, of.most, 0)) == {"jars": 100, "lids": 40}
    assert Counter(task.context["task"] for task in draw(of.tasks, 7, 0)) == {"jars": 7, "lids": 7}


@pytest.mark.parametrize("form", FORMS)
def test_a_version_without_such_rows_has_no_task_and_says_what_it_lacks(tmp_path: Path, form: str) -> None:
    of = made(tmp_path, form)
    assert of.tasks == []
    assert of.missing.startswith("llmcrit v1 has no ")


def test_all_forms_are_written_in_every_format(tmp_path: Path) -> None:
    tables = {**TABLES, "aspects": [aspect("labels")], "demonstrations": [demonstration("d1")]}
    store, of_version = version(tmp_path, **tables)
    for form in FORMS.values():
        of = form(store, of_version)
        for format in FORMATS:
            for name, content in sheet_files(of.form, of.tasks, format).items():
                assert json.loads(content) if name.endswith(".json") else content
