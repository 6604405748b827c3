"""`longform parity expertqa` on a version that was built by the preset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.expertqa import SAMPLES, ExpertqaConfig
from longform.engine.thread_tasks import SequentialStages
from tasks.expertqa.tables.parity import DRIFT, NOT_COMPARED, WITHIN


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The released samples with an estimate of each claim, by the preset."""
    folder = tmp_path_factory.mktemp("parity")
    home, file = folder / "home", folder / "released.jsonl"
    examples = [json.loads(line) for line in (SAMPLES / "released.jsonl").read_text().splitlines()]
    for example in examples:
        for answer in example["answers"].values():
            for claim in answer["claims"]:
                claim |= {"autoais_label": "Y", "fact_score": 1.0}
    file.write_text("".join(json.dumps(example) + "\n" for example in examples))
    sides = [folder / f"{name}_lfqa_test.json" for name in ("rand", "domain")]
    for side in sides:
        side.write_text("".join(json.dumps({"question": example["question"]}) + "\n" for example in examples))
    config = ExpertqaConfig(
        questions=str(file),
        released_splits=[str(side) for side in sides],
        systems=[],
        autoais="released",
        factscore="released",
        preset="parity",
    )
    build("expertqa", config, Options(home, "v1"), tasks=SequentialStages(), progress=Silent())
    return home


def parity(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "longform"), "parity", "expertqa@v1", "--home", str(home), *more]
    return subprocess.run(command, text=True, capture_output=True, timeout=120, env={**os.environ, "COLUMNS": "200"})


def test_a_drift_ends_with_exit_code_1_and_what_is_not_compared_is_counted_with_its_reason(home: Path) -> None:
    done = parity(home)
    assert done.returncode == 1, done.stderr
    assert "expertqa v1: 150 figures of the paper: " in done.stdout
    assert "table 14: 56 not compared: no prediction of this model was imported (predictions)" in done.stdout
    assert "table 2: 7 not compared: a count of 4 of the paper's 2,177 questions" in done.stdout
    said = json.loads(parity(home, "--json").stdout)
    assert said["figures"] == len(said["cells"]) == said["within"] + said["drift"] + said["not_compared"]
    assert said["drift"]
    assert {cell["verdict"] for cell in said["cells"]} <= {WITHIN, DRIFT, NOT_COMPARED}
    assert all(cell["why"] for cell in said["cells"] if cell["verdict"] == NOT_COMPARED)


def test_wide_tolerances_of_a_file_let_everything_pass(home: Path, tmp_path: Path) -> None:
    names = {
        "table_5": ["macro, %", "claims"],
        "table_6_zero_shot": ["precision, %", "recall, %", "F1, %"],
        "table_8": ["F1 true, %", "F1 false, %", "F1 overall, %"],
    }
    lines = [f"[{table}]\n" + "".join(f'"{name}" = 100.0\n' for name in of) for table, of in names.items()]
    (tmp_path / "wide.toml").write_text("".join(lines))
    done = parity(home, "--tolerances", str(tmp_path / "wide.toml"), "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 drift, " in done.stdout


def test_the_report_of_the_preset_says_its_rules_and_reasons(home: Path) -> None:
    tables = json.loads((home / "datasets" / "expertqa" / "v1" / "tables.json").read_text())
    by_title = {table["title"]: table for table in tables}
    assert "FActScore of 0.5 or more" in by_title["FActScore against people (table 8)"]["note"]
    assert by_title["AutoAIS (table 5)"]["rows"][0]["claims with"] == "complete support, cite-worthy"
    differing = [row for row in by_title["AutoAIS (table 5)"]["rows"] if row.get("macro, % difference")]
    assert differing
    assert {row["reason"] for row in differing} == {"4 of the paper's 2,177 questions"}


def test_a_version_without_a_question_of_the_paper_fails_with_what_to_set(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text((SAMPLES / "released.jsonl").read_text())
    config = ExpertqaConfig(questions=str(file), systems=[], autoais="released", factscore="none", preset="parity")
    build("expertqa", config, Options(tmp_path, "v1"), tasks=SequentialStages(), progress=Silent())
    done = parity(tmp_path)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "expertqa v1 has claims of none of the paper's 2,177 questions" in done.stderr
    assert "`released_splits`" in done.stderr
    assert "a count of 4" not in done.stdout


def test_other_datasets_have_no_figures_to_compare() -> None:
    command = [str(Path(sys.executable).parent / "longform"), "parity", "axioms"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=120)
    assert done.returncode == 2
    assert '"axioms" has no figures to compare by `longform parity`: expertqa has.' in done.stderr
