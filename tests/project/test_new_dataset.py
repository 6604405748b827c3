"""A dataset is one folder, its prompts, its schemas, its flow and one line: the headlines of tests/data prove it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import paths
import pytest
import yaml
from processes import started

pytestmark = pytest.mark.check

NEW = paths.TEST_DATA / "headlines"
PROJECT = ("flows", "tasks", "longform", "schemas", "prompts", "data/samples", "prefect.yaml")
LINE = '    "headlines": "flows.headlines",\n'


@dataclass
class Checkout:
    """A copy of the project to which the dataset was added, and a home."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("LONGFORM", "PREFECT"))}
        env |= {"PYTHONPATH": str(self.folder), "LONGFORM_HOME": str(self.folder / "home")}
        return env | {"PREFECT_HOME": str(self.folder / "prefect"), "COLUMNS": "120"}

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "flows.cli.main", *map(str, words)]

    def __call__(self, *words: object, folder: Path | None = None) -> str:
        options = {"cwd": folder or self.folder, "env": self.environment, "capture_output": True, "text": True}
        done = subprocess.run(self.command(*words), timeout=600, **options)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def json(self, *words: object) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("checkout")
    for name in PROJECT:
        place = folder / name
        place.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (paths.ROOT / name).is_dir() else shutil.copyfile
        copy(paths.ROOT / name, place)
    shutil.copytree(NEW, folder, dirs_exist_ok=True)
    registry = folder / "flows" / "registry.py"
    text = registry.read_text()
    registry.write_text(text.replace("DATASETS = {\n", f"DATASETS = {{\n{LINE}", 1))
    return Checkout(folder)


@pytest.fixture(scope="module")
def built(checkout: Checkout) -> Path:
    """A version whose headlines were written by the stand-in server."""
    options = {"env": checkout.environment, "stdout": subprocess.PIPE, "text": True, "cwd": checkout.folder}
    with started(checkout.command("standin", "--port", "0"), **options) as server:
        printed = [server.stdout.readline() for _ in range(8)]  # the endpoint stands below two lines and an empty one
        config = checkout.folder / "headlines.toml"
        config.write_text('model = "standin"\n\n' + "".join(printed[3:]))
        checkout("build", "headlines", "--config", config, "--version", "v1")
    return checkout.folder / "home" / "datasets" / "headlines" / "v1"


def test_it_has_a_configuration_and_a_plan(checkout: Checkout) -> None:
    assert 'model = "offline"' in checkout("config", "headlines")
    plan = checkout.json("plan", "headlines")
    names = [stage["stage"] for stage in plan["stages"]]
    assert names == ["read_posts", "admit_posts", "write_headlines", "read_labels", "name_posts"]


def test_it_is_published_with_card_and_report(built: Path) -> None:
    files = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    named = {"README.md", "croissant.json", "report.html", "tables.json", "attribution.parquet", "manifest.json"}
    assert named <= files
    rows = duckdb.sql(f"SELECT split, endpoint, text FROM '{built}/*/*.parquet'").fetchall()
    assert {(split, endpoint) for split, endpoint, _ in rows} == {("train", "standin"), ("test", "standin")}
    assert all(0 < len(text.split()) <= 10 for _, _, text in rows)


def test_the_offline_model_answers_by_its_rules(checkout: Checkout, built: Path) -> None:
    checkout("build", "headlines", "--version", "offline")
    texts = {
        version: duckdb.sql(f"SELECT post_id, text FROM '{built.with_name(version)}/*/*.parquet' ORDER BY 1").fetchall()
        for version in ("v1", "offline")
    }
    assert texts["offline"] == texts["v1"]  # the stand-in server answers by the same rules


def test_it_has_versions_and_a_second_build_makes_nothing(checkout: Checkout, built: Path) -> None:
    assert "v1" in [version["version"] for version in checkout.json("ls", "headlines")]
    config = checkout.folder / "headlines.toml"
    assert checkout.json("build", "headlines", "--config", config, "--version", "v1")["new"] is False


def test_each_row_is_traced_to_its_post_and_response(checkout: Checkout, built: Path) -> None:
    (row,) = duckdb.sql(f"SELECT headline_id, post_id, response FROM '{built}/test/*.parquet' LIMIT 1").fetchall()
    text = checkout("trace", "headlines@v1", row[0])
    assert row[1] in text
    assert row[2][:16] in text


def test_people_label_it_with_the_accounts_of_its_configuration(checkout: Checkout, built: Path) -> None:
    sheets = checkout.folder / "sheets.jsonl"
    checkout("sheets", "headlines@v1", "--to", sheets)
    rows = [json.loads(line) for line in sheets.read_text().splitlines()]
    for tool, clear in (("lab", "Yes"), ("field", "No")):  # two servers, each with an account of the number 1
        filled = ({**row, "annotator_id": 1, "clear": clear} for row in rows)
        (checkout.folder / f"{tool}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in filled))
    config = checkout.folder / "labelled.toml"
    config.write_text(
        'labels = ["lab.jsonl", "field.jsonl"]\n[accounts]\n"lab.jsonl" = { 1 = "e7" }\n"field.jsonl" = { 1 = "e9" }\n'
    )
    shown = checkout.json("labels", "headlines@v1", "--config", config)
    assert {row["annotator_id"]: row["labels"] for row in shown["annotators"]} == {"e7": len(rows), "e9": len(rows)}
    assert shown["agreement"][0]["agreed"] == 0
    checkout("build", "headlines", "--config", config, "--version", "labelled")
    files = built.with_name("labelled") / "labels"
    (counted,) = duckdb.sql(f"SELECT count(DISTINCT annotator_id), count(*) FROM '{files}/*/*.parquet'").fetchall()
    assert counted == (2, 2 * len(rows))


def test_prefect_deploys_it_without_another_line(checkout: Checkout) -> None:
    folder = checkout.folder / "deployed"
    folder.mkdir()
    checkout("prefect", "init", folder=folder)
    entries = yaml.safe_load((folder / "prefect.yaml").read_text())["deployments"]
    (ours,) = (entry for entry in entries if entry["entrypoint"] == "flows.deployed.headlines")
    assert (ours["name"], ours["work_pool"]["name"]) == ("on-demand", "local")
    code = "from flows.deployed import headlines; print(headlines.name, [*headlines.parameters.properties])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=checkout.environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("headlines ['config', 'home'"), done.stderr


def test_a_takedown_reaches_its_responses_and_its_versions(checkout: Checkout, built: Path) -> None:
    (row,) = duckdb.sql(f"SELECT post_id, response FROM '{built}/train/*.parquet' LIMIT 1").fetchall()
    found = checkout.json("takedowns", "add", row[0], "--reason", "its author asked")
    assert {version["dataset"] for version in found["versions"]} == {"headlines"}
    assert found["purged"] >= 1
    checkout("build", "headlines", "--version", "v2")
    published = built.with_name("v2")
    assert not duckdb.sql(f"SELECT * FROM '{published}/*/*.parquet' WHERE post_id = '{row[0]}'").fetchall()
