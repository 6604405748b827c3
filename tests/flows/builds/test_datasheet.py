"""Datasheets: one a source, true to its stages, with the counts of the last read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent

from flows.builds.datasheet import datasheet, markdown, write_markdown
from flows.builds.fetching import config_of, module_of
from flows.builds.reading import read
from flows.sources import SOURCES
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import UsageError

CODE = "\n".join(file.read_text() for file in sorted((paths.ROOT / "tasks").rglob("*.py")))


def read_sample(home: Path, source: str, *files: Path) -> None:
    config = config_of(source, "read", [])
    read(source, list(files), config, home, tasks=SequentialStages(), progress=Silent(), runner=ThreadRunner())


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_a_datasheet_whose_reasons_its_stages_give(source: str, tmp_path: Path) -> None:
    sheet = datasheet(source, tmp_path)
    assert sheet["defects"]
    assert all(defect["defect"].endswith(".") for defect in sheet["defects"])
    for reason in (name for defect in module_of(source).DEFECTS for name in defect.reasons):
        assert re.search(rf"[\"'{{| ]{re.escape(reason.split(' ')[0])}", CODE), reason
        assert reason in CODE or re.sub(r"^(paragraph|citation) ", "", reason) in CODE, reason
    assert sheet["last_read"] is None
    assert "Not read in this home yet." in markdown(sheet)


def test_the_counts_are_those_of_the_last_read(tmp_path: Path) -> None:
    lines = (paths.SAMPLES / "s2orc" / "s2orc.jsonl").read_text().splitlines()
    records = [line for line in lines if line.endswith("}")]
    file = tmp_path / "s2orc.jsonl"
    empty = json.dumps({**json.loads(records[0]), "corpusid": 77, "content": {"text": None, "annotations": {}}})
    file.write_text("\n".join([*records, records[0], empty, "{"]) + "\n")
    read_sample(tmp_path / "home", "s2orc", paths.SAMPLES / "s2orc" / "s2orc.jsonl")
    read_sample(tmp_path / "home", "s2orc", file)
    sheet: dict[str, Any] = datasheet("s2orc", tmp_path / "home")
    stages = {stage["stage"]: stage for stage in sheet["last_read"]["stages"]}
    assert sheet["last_read"]["sources"] == 1
    assert stages["newest_papers"]["rows"] == len({json.loads(line)["corpusid"] for line in records})
    assert stages["newest_papers"]["filtered"]["duplicate id"] == 1
    assert stages["read_s2orc"]["filtered"]["no text"] == 1
    withheld = next(one for one in sheet["defects"] if "no text" in one["reasons"])
    assert withheld["rows"] == 1


def test_texts_are_escaped_and_stand_beside_the_tables(tmp_path: Path) -> None:
    read_sample(tmp_path / "home", "papers", paths.SAMPLES / "papers")
    file = tmp_path / "home" / "reads" / "papers.json"
    last = json.loads(file.read_text())
    last["stages"][0]["filtered"] = {"<img src=x> | **b** [a](b)": 3}
    file.write_text(json.dumps(last))
    text = write_markdown("papers", tmp_path / "home", tmp_path / "out").read_text()
    assert "3 \\<img src=x> \\| \\*\\*b\\*\\* \\[a\\](b)" in text


def test_an_unknown_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no source"):
        datasheet("paperz", tmp_path)
