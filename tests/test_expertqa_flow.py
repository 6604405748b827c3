"""The whole flow offline: equal byte by byte; released examples come back to the letter."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas
import pytest
from conftest import Silent

from flows.building import Options, build
from flows.expertqa import SAMPLES, SYSTEMS, ExpertqaConfig
from longform.store import sha256_of
from longform.versions import Version
from tasks.build import Build
from tasks.workers import Threads

RELEASED = Path(__file__).parents[1].parent / "shared" / "data" / "expertqa" / "rand_val.jsonl"
SIX = {*SYSTEMS, "bing_chat"}


def make(home: Path, **settings: Any) -> tuple[Version, Silent, Build]:
    progress = Silent()
    published, run = build(
        "expertqa", ExpertqaConfig(**settings), Options(home, "v1"), runner=Threads(), progress=progress
    )
    assert published is not None
    return published.version, progress, run


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version, Build]:
    home = tmp_path_factory.mktemp("expertqa") / "home"
    version, _, run = make(home)
    return home, version, run


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    """The released examples, imported: nobody is asked for an answer."""
    if not RELEASED.exists():
        pytest.skip("the released examples are not beside the project")
    home = tmp_path_factory.mktemp("released") / "home"
    version, _, _ = make(home, questions=str(RELEASED), licence="MIT", systems=[], commercial=[], factscore=False)
    return home, version


def rows_of(run: Build, stage: str) -> pandas.DataFrame:
    (entry,) = [entry for entry in run.done if entry.stage == stage]
    paths = [run.store.rows_path(part) for part in entry.artifact.parts]
    return pandas.concat([pandas.read_parquet(path) for path in paths]).reset_index(drop=True)


def hashes(version: Version) -> dict[str, str]:
    left = {
        path
        for path in version.folder.rglob("*")
        if path.is_file() and path.suffix in (".parquet", ".svg", ".json", ".md")
    }
    return {str(path.relative_to(version.folder)): sha256_of(path) for path in left if path.name != "manifest.json"}


def test_all_six_systems_answer_and_a_repetition_is_equal_byte_by_byte(
    sample: tuple[Path, Version, Build], tmp_path: Path
) -> None:
    _, version, run = sample
    answers = rows_of(run, "collect_answers")
    assert set(answers["system"]) == SIX
    assert answers.groupby("system").size()["gpt4"] == 20
    again, _, _ = make(tmp_path / "home")
    assert hashes(again) == hashes(version)


def test_a_second_build_has_nothing_to_do(sample: tuple[Path, Version, Build]) -> None:
    home, version, _ = sample
    again, progress, _ = make(home)
    assert again.folder == version.folder
    assert not any(progress.begun.values())


def test_claims_stand_where_they_say(sample: tuple[Path, Version, Build]) -> None:
    _, version, _ = sample
    claims = pandas.read_parquet(version.folder / "claims")
    assert len(claims) > 50
    for claim in claims.itertuples():
        assert " ".join(claim.answer[int(claim.start) : int(claim.end)].split()) == claim.claim


def test_splits_are_80_10_10_and_share_no_question(sample: tuple[Path, Version, Build]) -> None:
    _, version, _ = sample
    sides = {
        split: set(pandas.read_parquet(version.folder / split)["question_id"])
        for split in ("train", "validation", "test")
    }
    assert sum(map(len, sides.values())) == len(set().union(*sides.values()))
    total = sum(map(len, sides.values()))
    assert abs(len(sides["train"]) - 0.8 * total) < 1
    assert abs(len(sides["test"]) - 0.1 * total) < 1


def test_the_command_line_takes_less_than_a_minute(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "longform"), "build", "expertqa", "--home", str(tmp_path / "home")]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=180, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expertqa" in done.stdout


# ---------------------------------------------------------------- released examples


def test_released_examples_come_back_equal(released: tuple[Path, Version], tmp_path: Path) -> None:
    home, _ = released
    out = tmp_path / "back.jsonl"
    command = [str(Path(sys.executable).parent / "longform"), "export", "expertqa", "--format", "expertqa-jsonl"]
    done = subprocess.run([*command, "--to", str(out), "--home", str(home)], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    given = [json.loads(line) for line in RELEASED.read_text().splitlines()]
    assert [json.loads(line) for line in out.read_text().splitlines()] == given


def test_labels_and_estimates_recomputed_from_the_released_file(released: tuple[Path, Version]) -> None:
    """Distributions of labels from the file itself, and AutoAIS's tables 5 and 6 from the published rows."""
    _, version = released
    claims = pandas.read_parquet(version.folder / "claims")
    counted: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    for line in RELEASED.read_text().splitlines():
        for answer in json.loads(line)["answers"].values():
            for claim in answer["claims"]:
                for name in ("support", "informativeness", "worthiness", "correctness"):
                    counted[name][claim[name]] += 1
    for name, numbers in counted.items():
        found = claims[name].value_counts(dropna=False)
        assert {None if isinstance(key, float) and math.isnan(key) else key: n for key, n in found.items()} == numbers


def test_the_samples_are_those_of_this_project() -> None:
    assert len((SAMPLES / "questions.jsonl").read_text().splitlines()) == 20
