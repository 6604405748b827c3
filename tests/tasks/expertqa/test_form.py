"""What experts are shown, in the three formats; and the command that writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring
from expertqa_toys import (
    answer,
    claim,
    collect_answers,
    link_cited_pages,
    question,
    read_questions,
    toy_source,
)
from toy_stages import building
from typer.testing import CliRunner

from flows.cli.main import app
from longform.errors import UsageError
from longform.files import write_json
from tasks.annotation.files import FORMATS, Format, sheet_files
from tasks.annotation.form import Task, arranged, draw
from tasks.expertqa.answers.sampling import sample_answers
from tasks.expertqa.form import FORM, NO_EVIDENCE, shown, tasks

NASTY = '</Text><Choice value="x"/>$question {{idx}} <script>alert(1)</script> **b** http://ale.example'
EVIDENCE = {"number": 2, "url": "https://ale.example/casks", "passage_id": None, "text": "Casks.", "given": None}
TABLE_3 = {
    "usefulness": ["Useful", "Partially useful", "Not useful at all"],
    "support": ["Complete", "Partial", "Incomplete", "Missing", "N/A"],
    "informativeness": ["Very relevant", "A bit relevant", "Not too important", "Uninformative"],
    "worthiness": ["Yes", "No"],
    "correctness": ["Definitely correct", "Probably correct", "Unsure", "Likely incorrect", "Definitely incorrect"],
    "reliability": ["Reliable", "Somewhat reliable", "Not reliable at all", "Missing", "N/A"],
}


def some() -> list[Task]:
    """Two answers: one of an expert, with two claims; and one of nobody known, whose texts are full of markup."""
    first, second = answer("q1", text="Casks at 12 degrees [2]. Kegs colder."), answer("q2", "bing_chat", text=NASTY)
    claims = [
        claim(first, 0, "Casks at 12 degrees [2].", evidence=[EVIDENCE]),
        claim(first, 1, "Kegs colder."),
        claim(second, 0, NASTY, evidence=[{**EVIDENCE, "number": None, "text": NASTY}]),
    ]
    questions = [question("q2", None, question=NASTY), question("q1", "e1")]
    return arranged(FORM, tasks(questions, [second, first], claims), 0)


def files_of(format: Format) -> dict[str, Any]:
    found = sheet_files(FORM, some(), format)
    return {name: content.decode() if name.endswith(".xml") else json.loads(content) for name, content in found.items()}


def test_a_sheet_shows_question_answer_claims_and_evidence_and_not_which_system_it_was() -> None:
    (sheet, _) = map(json.loads, sheet_files(FORM, some(), "jsonl")["sheets.jsonl"].splitlines())
    assert sheet["claims"][0] == {
        "claim_id": "a_q1_gpt4#0",
        "claim": "Casks at 12 degrees [2].",
        "evidence": "[2] https://ale.example/casks\nCasks.",
        "support": None,
        "reason_missing_support": None,
        "informativeness": None,
        "worthiness": None,
        "correctness": None,
        "reliability": None,
        "left_out": None,
        "revised_claim": None,
        "revised_evidence": None,
    }
    assert sheet["ratings"] == {**TABLE_3, "left_out": ["Yes", "No"]}
    assert (sheet["annotator_id"], sheet["field"], sheet["question"]) == ("e1", "Brewing", "Why q1?")
    assert (sheet["question_id"], sheet["usefulness"], sheet["labelled_at"]) == ("expertqa/q1", None, None)


@pytest.mark.parametrize("format", FORMATS)
def test_no_file_says_which_system_answered(format: Format) -> None:
    one = answer("q1", answer_id="a_1", system="post_hoc_sphere_gpt4", model="big-model")
    (task,) = tasks([question("q1")], [one], [claim(one, 0)])
    for content in sheet_files(FORM, [task], format).values():
        for word in ("system", "gpt4", "sphere", "big-model", "seed"):
            assert word not in content.decode()


def test_sheets_come_by_expert_and_those_of_nobody_last_in_an_order_that_the_seed_draws() -> None:
    names = [f"{name}{number}" for name in "abcd" for number in range(9)]
    askers = {"a": "e9", "b": None, "c": "e1", "d": "e9"}
    questions = [question(name, askers[name[0]]) for name in names]
    found = {seed: arranged(FORM, tasks(questions, [answer(n) for n in names], []), seed) for seed in (0, 1)}
    for of_seed in found.values():
        assert [task.annotator for task in of_seed] == ["e1"] * 9 + ["e9"] * 18 + [None] * 9
        own = [task.id for task in of_seed if task.annotator == "e9"]
        assert own != sorted(own)
    assert [task.id for task in found[0]] != [task.id for task in found[1]]
    again = arranged(FORM, tasks(questions, [answer(n) for n in reversed(names)], []), 0)
    assert [task.id for task in again] == [task.id for task in found[0]]


def test_evidence_as_one_text() -> None:
    bare = {"number": 3, "url": "https://keg.example", "text": None}
    assert shown([EVIDENCE, bare]) == "[2] https://ale.example/casks\nCasks.\n\n[3] https://keg.example"
    assert shown([]) == NO_EVIDENCE
    notebook = {"number": None, "url": None, "passage_id": None, "text": None, "given": "my notebook"}
    assert shown([notebook]) == "my notebook"


def test_questions_for_a_second_labelling_are_drawn_by_field() -> None:
    names = [f"{field}{number}" for field in ("Beer", "Tea", "Wine") for number in range(30)]
    questions = [question(name, field=name.rstrip("0123456789")) for name in names]
    every = list(tasks(questions, [answer(name) for name in names], []))
    chosen = draw([task for task in every if task.stratum != "Wine"], 12, seed=1)
    assert [sum(task.stratum == field for task in chosen) for field in ("Beer", "Tea", "Wine")] == [12, 12, 0]
    fewer = [task for task in every if task.group not in ("expertqa/Wine3", chosen[0].group)]
    again = draw(fewer, 12, seed=1)
    assert [task for task in chosen[1:] if task not in again] == []
    assert draw(every, 12, seed=2) != draw(every, 12, seed=1)
    assert draw(every, None, seed=1) == every


# ---------------------------------------------------------------- tools


def named(view: Element, *tags: str) -> Iterator[Element]:
    return (element for element in view.iter() if element.tag in tags)


@pytest.mark.parametrize(
    ("part", "offers"), [("answers", {"usefulness"}), ("claims", {*TABLE_3, "left_out"} - {"usefulness"})]
)
def test_controls_of_label_studio_point_at_texts_of_the_task_and_offer_table_3(part: str, offers: set[str]) -> None:
    files = files_of("label-studio")
    view: Element = fromstring(files[f"{part}/config.xml"])
    shown_as = {element.get("name"): element.get("value") for element in named(view, "Text")}
    assert {element.get("valueType") for element in named(view, "Text")} == {"text"}
    assert not list(named(view, "Repeater", "HyperText", "Paragraphs"))
    for task in files[f"{part}/tasks.json"]:
        assert all(isinstance(task["data"][str(value)[1:]], str) for value in shown_as.values())
    for element in named(view, "Choices", "TextArea"):
        assert element.get("toName") in shown_as
    names = [element.get("name") for element in named(view, "Text", "Choices", "TextArea")]
    assert len(names) == len({*names})
    offered = {
        str(element.get("name")): [choice.get("value") for choice in element] for element in named(view, "Choices")
    }
    assert offered == {name: {**TABLE_3, "left_out": ["Yes", "No"]}[name] for name in offers}


def test_texts_are_shown_as_they_are_and_configurations_hold_nothing_of_them() -> None:
    files = files_of("label-studio")
    data = files["claims/tasks.json"][-1]["data"]
    assert (data["answer"], data["question"], data["claim"]) == (NASTY, NASTY, NASTY)
    assert (
        sheet_files(FORM, some(), "label-studio")["claims/config.xml"]
        == sheet_files(FORM, [], "label-studio")["claims/config.xml"]
    )


def test_argilla_has_one_record_a_claim_with_its_questions_and_ids_that_annotators_do_not_see() -> None:
    files = files_of("argilla")
    records, settings = files["claims/records.json"], files["claims/.argilla/settings.json"]
    assert [one["id"] for one in records] == ["a_q1_gpt4#0", "a_q1_gpt4#1", "a_q2_bing_chat#0"]
    assert [one["name"] for one in settings["questions"]] == [field.name for field in FORM.asked(of_item=True)]
    assert len(files["answers/.argilla/settings.json"]["questions"]) == 2
    assert [one["id"] for one in files["answers/records.json"]] == ["a_q1_gpt4", "a_q2_bing_chat"]
    fields = {one["name"]: one["required"] for one in settings["fields"]}
    for one in records:
        assert {name for name, required in fields.items() if required} <= one["fields"].keys() <= fields.keys()
        assert one["metadata"].keys() <= {each["name"] for each in settings["metadata"]}
    assert records[0]["fields"]["evidence"] == "[2] https://ale.example/casks\nCasks."
    assert records[0]["metadata"] == {
        "answer_id": "a_q1_gpt4",
        "question_id": "expertqa/q1",
        "annotator_id": "e1",
        "claim_id": "a_q1_gpt4#0",
    }
    assert not any(one["visible_for_annotators"] for one in settings["metadata"])
    assert not any(one["settings"]["use_markdown"] for one in settings["fields"])
    assert files["claims/.argilla/dataset.json"]["name"] == "expertqa-claims"


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version with three questions: two drawn answers of two fields, and a question whose answer abstains."""
    folder = tmp_path_factory.mktemp("sheets")
    questions = [question("q1", "e2"), question("q2", "e1", field="Tea"), question("q3")]
    answers = [answer("q1"), answer("q2"), answer("q3", abstention="I don't know")]
    claims = [claim(answers[0], 0, evidence=[EVIDENCE]), claim(answers[1], 0), claim(answers[1], 1)]
    with building(folder / "home") as run:
        asked = read_questions(run, [toy_source(folder)], rows=questions)
        told = collect_answers(run, asked, rows=answers)
        linked = link_cited_pages(run, told, rows=claims)
        drawn = sample_answers(run, asked, told, linked, most_claims=10, seed=0)
    stages = {rows.stage: rows.fingerprint for rows in (asked, told, linked, drawn)}
    manifest = {"number": 1, "recipe": "r", "stages": stages, "splits": {}, "offline": True, "files": {}}
    write_json(folder / "home" / "datasets" / "expertqa" / "v1" / "manifest.json", manifest)
    return folder / "home"


def run(home: Path, *words: str) -> Any:
    result = CliRunner().invoke(app, ["sheets", "expertqa", "--home", str(home), *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("format", FORMATS)
def test_the_command_writes_a_sheet_for_each_sampled_answer_the_same_every_time(
    home: Path, tmp_path: Path, format: str
) -> None:
    said = json.loads(run(home, "--format", format, "--to", str(tmp_path / "a"), "--json").stdout)
    assert (said["sheets"], said["claims"], said["experts"]) == (2, 3, 2)
    written = [Path(path) for path in said["written"]]
    assert sorted(written) == sorted(path for path in (tmp_path / "a").rglob("*") if path.is_file())
    run(home, "--format", format, "--to", str(tmp_path / "a"))
    run(home, "--format", format, "--to", str(tmp_path / "b"))
    for path in written:
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_jsonl_goes_to_a_file_of_any_name_sorted_by_expert(home: Path, tmp_path: Path) -> None:
    run(home, "--to", str(tmp_path / "mine.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()]
    assert [(one["annotator_id"], one["answer_id"], len(one["claims"])) for one in lines] == [
        ("e1", "a_q2_gpt4", 2),
        ("e2", "a_q1_gpt4", 1),
    ]
    assert lines[1]["claims"][0]["evidence"].startswith("[2] https://ale.example/casks")


def test_only_some_fields(home: Path, tmp_path: Path) -> None:
    run(home, "--field", "Tea", "--most", "1", "--to", str(tmp_path))
    assert "a_q1_gpt4" not in (tmp_path / "sheets.jsonl").read_text()
    with pytest.raises(UsageError, match="Brewing, Tea"):
        run(home, "--field", "Coffee", "--to", str(tmp_path / "none"))


def test_filled_in_sheets_are_never_written_over(home: Path, tmp_path: Path) -> None:
    run(home, "--format", "label-studio", "--to", str(tmp_path))
    (tmp_path / "claims" / "tasks.json").write_text("labels")
    (tmp_path / "answers" / "config.xml").unlink()
    with pytest.raises(UsageError, match="may hold labels"):
        run(home, "--format", "label-studio", "--to", str(tmp_path))
    assert (tmp_path / "claims" / "tasks.json").read_text() == "labels"
    assert not (tmp_path / "answers" / "config.xml").exists()


def test_wrong_words_are_reported(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="label-studio"):
        run(home, "--format", "excel", "--to", str(tmp_path))
    with pytest.raises(UsageError, match="folder"):
        run(home, "--format", "argilla", "--to", str(tmp_path / "records.json"))
    write_json(
        home / "datasets" / "axioms" / "v1" / "manifest.json",
        {"number": 1, "recipe": "r", "stages": {}, "splits": {}, "offline": True, "files": {}},
    )
    result = CliRunner().invoke(app, ["sheets", "axioms", "--home", str(home), "--to", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
