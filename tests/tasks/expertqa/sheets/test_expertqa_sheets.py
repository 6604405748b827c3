"""What experts are shown, in the three formats; and the command that writes it."""

from __future__ import annotations

import json
import re
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
    link_evidence,
    question,
    read_questions,
    toy_source,
)
from toy_stages import building
from typer.testing import CliRunner

from flows.cli.main import app
from longform.artifacts.rows import Row
from longform.errors import UsageError
from longform.files import write_json
from tasks.expertqa.answers.sampling import sample_answers
from tasks.expertqa.sheets import argilla, label_studio
from tasks.expertqa.sheets.sheet_files import FORMATS, sheet_files
from tasks.expertqa.sheets.sheets import NO_EVIDENCE, choose, sheets, shown

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


def some() -> list[Row]:
    """Two answers: one of an expert, with two claims; and one of nobody known, whose texts are full of markup."""
    first, second = answer("q1", text="Casks at 12 degrees [2]. Kegs colder."), answer("q2", "bing_chat", text=NASTY)
    claims = [
        claim(first, 0, "Casks at 12 degrees [2].", evidence=[EVIDENCE]),
        claim(first, 1, "Kegs colder."),
        claim(second, 0, NASTY, evidence=[{**EVIDENCE, "number": None, "text": NASTY}]),
    ]
    questions = [question("q2", None, question=NASTY), question("q1", "e1")]
    return list(sheets(questions, [second, first], claims))


def test_a_sheet_shows_question_answer_claims_and_evidence_and_not_which_system_it_was() -> None:
    sheet = some()[0]
    assert sheet["claims"][0] == {
        "claim_id": "a_q1_gpt4#0",
        "claim": "Casks at 12 degrees [2].",
        "evidence": [{"number": 2, "url": "https://ale.example/casks", "text": "Casks."}],
        "support": None,
        "reason_missing_support": None,
        "informativeness": None,
        "worthiness": None,
        "correctness": None,
        "reliability": None,
        "revised_claim": None,
        "revised_evidence": None,
    }
    assert sheet["ratings"] == TABLE_3
    assert (sheet["annotator_id"], sheet["field"], sheet["question"]) == ("e1", "Brewing", "Why q1?")
    assert "system" not in sheet


def test_sheets_come_by_expert_and_those_of_nobody_last() -> None:
    questions = [question(name, asker) for name, asker in [("a", "e9"), ("b", None), ("c", "e1"), ("d", "e9")]]
    found = sheets(questions, [answer(name) for name in "abcd"], [])
    assert [(one["annotator_id"], one["answer_id"][2]) for one in found] == [
        ("e1", "c"),
        ("e9", "a"),
        ("e9", "d"),
        (None, "b"),
    ]


def test_evidence_as_one_text() -> None:
    bare = {"number": 3, "url": "https://keg.example", "text": None}
    assert shown([EVIDENCE, bare]) == "[2] https://ale.example/casks\nCasks.\n\n[3] https://keg.example"
    assert shown([]) == NO_EVIDENCE


def test_released_evidence_that_is_no_address_is_shown_as_it_was_given() -> None:
    as_given = {"number": None, "url": None, "passage_id": None, "text": None, "given": "my notebook"}
    of = answer("q1")
    (sheet,) = sheets([question("q1")], [of], [claim(of, 0, evidence=[as_given])])
    assert sheet["claims"][0]["evidence"] == [{"number": None, "url": None, "text": "my notebook"}]


def test_questions_for_a_second_labelling_are_drawn_by_field() -> None:
    names = [f"{field}{number}" for field in ("Beer", "Tea", "Wine") for number in range(30)]
    questions = [question(name, field=name.rstrip("0123456789")) for name in names]
    every = list(sheets(questions, [answer(name) for name in names], []))
    chosen = choose(every, ["Beer", "Tea"], 12, seed=1)
    assert [sum(one["field"] == field for one in chosen) for field in ("Beer", "Tea", "Wine")] == [12, 12, 0]
    fewer = [one for one in every if one["question_id"] not in ("expertqa/Wine3", chosen[0]["question_id"])]
    again = choose(fewer, ["Beer", "Tea"], 12, seed=1)
    assert [one for one in chosen[1:] if one not in again] == []
    assert choose(every, ["Beer", "Tea"], 12, seed=2) != chosen
    assert choose(every, [], None, seed=1) == every


# ---------------------------------------------------------------- Label Studio


@pytest.fixture(scope="module")
def view() -> Element:
    found: Element = fromstring(label_studio.configuration())
    return found


def named(view: Element, *tags: str) -> Iterator[Element]:
    return (element for element in view.iter() if element.tag in tags)


def test_every_control_of_the_configuration_points_at_a_text_of_the_task(view: Element) -> None:
    texts = {element.get("name"): element.get("value") for element in named(view, "Text")}
    for element in named(view, "Choices", "TextArea"):
        assert element.get("toName") in texts
    data = label_studio.task(some()[0])["data"]
    for value in texts.values():
        found = re.fullmatch(r"\$(\w+)(?:\[\{\{idx\}\}\]\.(\w+))?", str(value))
        assert found
        assert isinstance(data[found[1]][0][found[2]] if found[2] else data[found[1]], str)
    names = [element.get("name") for element in named(view, "Text", "Choices", "TextArea")]
    assert len(names) == len({*names})


def test_controls_of_claims_are_repeated_for_each_claim_and_offer_the_ratings_of_table_3(view: Element) -> None:
    (repeater,) = named(view, "Repeater")
    assert (repeater.get("on"), repeater.get("indexFlag")) == ("$claims", "{{idx}}")
    within = {element.get("name") for element in named(repeater, "Choices", "TextArea")}
    assert all(str(name).endswith("_{{idx}}") for name in within)
    offered = {
        str(element.get("name")).removesuffix("_{{idx}}"): [choice.get("value") for choice in element]
        for element in named(view, "Choices")
    }
    assert offered == {**TABLE_3, "left_out": ["Yes", "No"]}
    assert {element.get("choice") for element in named(view, "Choices")} == {"single"}
    assert within >= {"revised_claim_{{idx}}", "revised_evidence_{{idx}}", "reason_missing_support_{{idx}}"}


def test_texts_are_shown_as_texts_and_never_fetched_or_read_as_markup(view: Element) -> None:
    assert {element.get("valueType") for element in named(view, "Text")} == {"text"}
    assert not list(named(view, "HyperText", "Paragraphs"))
    data = label_studio.task(some()[1])["data"]
    assert (data["answer"], data["question"], data["claims"][0]["claim"]) == (NASTY, NASTY, NASTY)
    files = sheet_files(some(), "label-studio")
    assert files["config.xml"] == sheet_files([], "label-studio")["config.xml"]
    assert [one["data"]["answer"] for one in json.loads(files["tasks.json"])][1] == NASTY


# ---------------------------------------------------------------- Argilla


def test_settings_of_argilla_are_what_its_server_takes() -> None:
    settings = argilla.settings(3)
    names = [one["name"] for kind in ("fields", "questions", "metadata") for one in settings[kind]]
    assert len(names) == len({*names})
    assert all(re.fullmatch(r"(?=.*[a-z0-9])[a-z0-9_-]+", name) for name in names)
    assert any(one["required"] for one in settings["questions"])
    for one in settings["questions"]:
        assert len(one["title"]) <= 500
        if one["settings"]["type"] == "label_selection":
            values = [option["value"] for option in one["settings"]["options"]]
            assert len({*values}) == len(values) >= 2
    assert {one["settings"]["type"] for one in settings["questions"]} == {"label_selection", "text"}
    assert not any(one["settings"]["use_markdown"] for one in settings["fields"])
    of_last = {one["name"]: one["settings"].get("options") for one in settings["questions"] if "_2" in one["name"]}
    assert [option["value"] for option in of_last["correctness_2"]] == TABLE_3["correctness"]
    assert "correctness_3" not in names


def test_records_have_the_fields_and_metadata_of_the_settings_and_no_others() -> None:
    files = sheet_files(some(), "argilla")
    settings, records = json.loads(files[".argilla/settings.json"]), json.loads(files["records.json"])
    fields = {one["name"]: one["required"] for one in settings["fields"]}
    for one in records:
        assert {name for name, required in fields.items() if required} <= one["fields"].keys() <= fields.keys()
        assert one["metadata"].keys() <= {each["name"] for each in settings["metadata"]}
        assert all(isinstance(value, str) for value in (*one["fields"].values(), *one["metadata"].values()))
    assert records[0]["fields"]["evidence_0"] == "[2] https://ale.example/casks\nCasks."
    assert (records[1]["id"], records[1]["fields"]["claim_0"]) == ("a_q2_bing_chat", NASTY)
    assert json.loads(files[".argilla/dataset.json"])["name"] == "expertqa"


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
        linked = link_evidence(run, told, rows=claims)
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
    assert lines[1]["claims"][0]["evidence"][0]["url"] == "https://ale.example/casks"


def test_only_some_fields(home: Path, tmp_path: Path) -> None:
    run(home, "--field", "Tea", "--most", "1", "--to", str(tmp_path))
    assert "a_q1_gpt4" not in (tmp_path / "sheets.jsonl").read_text()
    with pytest.raises(UsageError, match="Brewing, Tea"):
        run(home, "--field", "Coffee", "--to", str(tmp_path / "none"))


def test_filled_in_sheets_are_never_written_over(home: Path, tmp_path: Path) -> None:
    run(home, "--format", "label-studio", "--to", str(tmp_path))
    (tmp_path / "tasks.json").write_text("labels")
    (tmp_path / "config.xml").unlink()
    with pytest.raises(UsageError, match="may hold labels"):
        run(home, "--format", "label-studio", "--to", str(tmp_path))
    assert (tmp_path / "tasks.json").read_text() == "labels"
    assert not (tmp_path / "config.xml").exists()


def test_wrong_words_are_told(home: Path, tmp_path: Path) -> None:
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
