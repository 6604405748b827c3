"""Commands printed in docs/revision-distance.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import built, commands, page, typed

import longform
from flows.cli.revision.revise import MAX_BYTES
from flows.registry import stages_of
from flows.revision_distance import RevisionDistanceConfig
from longform.artifacts.versions import versions
from schemas.revision_distance import PUBLISHED_DRAFTS, PUBLISHED_EDITS
from tasks.revision_distance.audits import AUDITS
from tasks.revision_distance.offline_editor import LONG_SENTENCE_WORDS

pytestmark = pytest.mark.check

PAGE = page("revision-distance")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fill_in(sheets: Path, filled: Path) -> None:
    rows = [json.loads(line) for line in sheets.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row.update(expert="1", better="A", content_a=4, content_b=3)
    filled.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("revision-page")
    (folder / "draft.txt").write_text("Tea is old. Cups are round.")
    (folder / "final.txt").write_text("Cups are round. Tea is old.")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if "filled.jsonl" in line:
                fill_in(folder / "sheets.jsonl", folder / "filled.jsonl")
            if line.startswith("longform build"):
                built(line, RevisionDistanceConfig, folder)
                continue
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def test_the_sheets_that_were_filled_in_are_judgements_of_the_second_version(folder: Path) -> None:
    first, second = versions(folder / "data", "revision-distance")
    before, after = (
        longform.load("revision-distance", split="hard", version=version.name, home=folder / "data").to_pandas()
        for version in (first, second)
    )
    assert before["experts"].isna().all()
    assert set(after["experts"]) == {1}
    assert after.groupby("case_id")["experts_better"].sum().eq(1).all()


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGFORM_HOME", str(tmp_path / "home"))
    for code in PYTHON.findall(PAGE):
        exec(compile(code, "docs/revision-distance.md", "exec"), {})
    assert capsys.readouterr().out == "1 ['move']\n"


def test_every_stage_of_the_samples_is_on_the_page(folder: Path) -> None:
    for version in versions(folder / "data", "revision-distance"):
        for stage in version.stages:
            assert f"`{stage}`" in PAGE, stage


def test_numbers_of_the_page_are_the_programs() -> None:
    assert f"at most {MAX_BYTES // 1_000_000} MB" in PAGE
    assert f"sentences over {LONG_SENTENCE_WORDS} words" in PAGE


def test_names_of_the_page_are_the_programs() -> None:
    stages = {*stages_of("revision-distance")}
    known = {*stages, *RevisionDistanceConfig.model_fields, *PUBLISHED_DRAFTS.names, *PUBLISHED_EDITS.names}
    known |= {*AUDITS.names}
    section = PAGE.split("## Stages")[1].split("##")[0]
    for name in re.findall(r"`([a-z_]+)`", section.split("| makes |")[1]):
        if name != "papers_source":
            assert name in stages, name
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE))
    assert named <= known | {"acl_ocl", "rouge_score", "bert_score"}, named - known
