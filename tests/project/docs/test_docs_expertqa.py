"""Commands printed in docs/expertqa.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent
from pages import built, commands, page, typed

import longform
from flows.builds.building import Options, build
from flows.config import configuration
from flows.expertqa import SYSTEMS, ExpertqaConfig
from flows.registry import stages_of
from longform.artifacts.versions import versions
from longform.engine.thread_tasks import SequentialStages

pytestmark = pytest.mark.check

PAGE = page("expertqa")
SAMPLES = paths.SAMPLES / "expertqa"
SAID = {
    "usefulness": "Useful",
    "support": "Complete",
    "informativeness": "Very relevant",
    "correctness": "Definitely correct",
    "reliability": "Reliable",
    "worthiness": "Yes",
}


def fill_in(sheets: Path, filled: Path) -> None:
    rows = [json.loads(line) for line in sheets.read_text().splitlines()]
    for row in rows:
        row["usefulness"] = SAID["usefulness"]
        for claim in row["claims"]:
            claim.update({name: label for name, label in SAID.items() if name != "usefulness"})
    rows[0]["annotator_id"] = "a blind taster"
    filled.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("expertqa-page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if "filled.jsonl" in line:
                fill_in(folder / "sheets.jsonl", folder / "filled.jsonl")
            if line.startswith("longform build"):
                built(line, ExpertqaConfig, folder)
                continue
            done = typed(line, folder)
            ends = 7 if line.startswith("longform parity") else 0  # samples are not the paper
            assert done.returncode == ends, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_sheets_that_were_filled_in_are_the_labels_of_the_second_version(folder: Path) -> None:
    first, second = versions(folder / "data", "expertqa")
    before, after = (
        longform.load("expertqa", config="claims", version=version.name, home=folder / "data")
        .to_pandas()
        .set_index("claim_id")
        for version in (first, second)
    )
    came = {record["question"] for record in lines_of(SAMPLES / "released.jsonl")}
    ours = ~before["question"].isin(came)
    assert before[ours]["support"].isna().all()
    for name, label in SAID.items():
        assert set(after[ours][name]) == {label}, name
    assert "a blind taster" in set(after["annotator_id"])


def test_the_exports_hold_what_their_comments_say(folder: Path) -> None:
    home = folder / "data"
    came = lines_of(SAMPLES / "released.jsonl")
    asked = {record["question"] for record in lines_of(SAMPLES / "questions.jsonl")}
    released = {example["question"]: example for example in lines_of(folder / "expertqa.jsonl")}
    assert set(released) == asked | {record["question"] for record in came}
    assert [released[record["question"]] for record in came] == came
    answered = {system for question in asked for system in released[question]["answers"]}
    assert answered == {*SYSTEMS, "bing_chat"}
    train = longform.load("expertqa", split="train", home=home).to_pylist()
    chats = [[message["content"] for message in row["messages"]] for row in lines_of(folder / "chat.jsonl")]
    assert sorted(chats) == sorted([row["question"], row["answer"]] for row in train)
    claims = longform.load("expertqa", config="claims", home=home).to_pandas().set_index("claim_id")
    entailed = lines_of(folder / "entailment.jsonl")
    assert entailed
    for row in entailed:
        claim = claims.loc[row["claim_id"]]
        assert claim["random_split"] == "train"
        assert row["evidence"]
        assert row["label"] == (claim["support"] == "Complete")


def test_without_labels_the_export_for_entailment_says_why_it_is_empty(folder: Path, tmp_path: Path) -> None:
    config = ExpertqaConfig(questions=str(SAMPLES / "questions.jsonl"))
    build("expertqa", config, Options(tmp_path / "home"), tasks=SequentialStages(), progress=Silent())
    line = f"longform export expertqa --home {tmp_path}/home --format entailment-jsonl --to {tmp_path}/none.jsonl"
    done = typed(line, folder)
    assert done.returncode == 2
    assert not (tmp_path / "none.jsonl").exists()
    assert re.search(
        r"nothing to export as entailment-jsonl of split train \(random\); [\d,]+ left out: \w+", done.stderr
    )


@pytest.mark.parametrize("other", ["--format label-studio --to tasks", "--format argilla --to records"])
def test_sheets_are_written_in_the_other_formats(folder: Path, other: str) -> None:
    done = typed(f"longform sheets expertqa {other}", folder)
    assert done.returncode == 0, done.stderr
    assert all((folder / line).exists() for line in done.stdout.splitlines()[1:-1])


def test_the_tables_of_the_page_name_the_configs_systems_and_stages(folder: Path) -> None:
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", PAGE, re.MULTILINE)
    named = {name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    configs = {"random", "domain", "claims", "labels"}
    for name in configs:
        assert longform.load("expertqa", config=name, home=folder / "data").num_rows
    stages = {*stages_of("expertqa")}
    hidden = {name for name in stages if name.startswith(("admit_", "leave_"))}
    assert stages - hidden <= named
    assert named - {*SYSTEMS, "bing_chat", *configs} <= stages


def test_settings_that_the_page_writes_out_are_taken() -> None:
    written = re.findall(r"`([a-z_]+ = [^`]+)`", PAGE)
    assert len(written) >= 3
    for setting in written:
        of_an_endpoint = "endpoints.NAME." if setting.startswith("parameters") else ""
        given = ["endpoints.NAME.base_url=http://127.0.0.1/v1", "endpoints.NAME.model=m", of_an_endpoint + setting]
        configuration.read("expertqa", ExpertqaConfig, None, given)


def test_a_csv_with_the_columns_of_the_page_is_a_bank_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    columns = ["question", "field", "specific_field", "question_types", "annotator_id"]
    assert all(f"`{name}`" in PAGE for name in columns)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerows([columns, ['Why is "this";\nso?', "Chemistry", "Dyes", "I, IV", "e1"]])
    config = ExpertqaConfig(questions=str(path))
    build("expertqa", config, Options(tmp_path, until="read_questions"), tasks=SequentialStages(), progress=Silent())
    (row,) = [row for part in (tmp_path / "stages").rglob("*.parquet") for row in read(part)]
    assert [row[name] for name in columns] == ['Why is "this";\nso?', "Chemistry", "Dyes", ["I", "IV"], "e1"]


def read(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
