"""Commands printed in docs/axioms-validation.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import built, commands, page, typed

from flows.axioms import AxiomsConfig
from flows.registry import stages_of
from longform.artifacts.versions import versions

pytestmark = pytest.mark.check

PAGE = page("axioms-validation")
SMALL = " --set 'msmarco=[]' --set 'eli5=[]' --set 'webgpt=[]'"


def fill(folder: Path) -> None:
    """Three people's sheets, who find the shorter text a little better."""
    sheets = [json.loads(line) for line in (folder / "sheets.jsonl").read_text().splitlines()]
    (folder / "filled").mkdir()
    for who in ("ann", "bob", "cy"):
        said = [
            {**sheet, "annotator_id": who, "preference": "AB"[len(sheet["text_a"]) > len(sheet["text_b"])]}
            | {"strength": "slightly", "score_a": 5, "score_b": 5}
            for sheet in sheets
        ]
        (folder / "filled" / f"{who}.jsonl").write_text("\n".join(map(json.dumps, said)))


def test_the_commands_of_the_page_lead_from_a_build_to_one_without_what_people_do_not_prefer(tmp_path: Path) -> None:
    printed = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line + SMALL, AxiomsConfig, tmp_path)
                continue
            if line.startswith("longform labels"):
                fill(tmp_path)
            done = typed(line, tmp_path)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            printed[line.split()[1]] = done.stdout
    first, second = sorted(versions(tmp_path / "data", "axioms"), key=lambda version: version.manifest["number"])
    assert "judgements" not in first.configs
    assert second.configs["judgements"].keys() == {"people"}
    assert "left out of training: preferred by people in" in printed["show"]
    assert "leave_out_pair_" in printed["rejects"]
    assert sum(first.configs["pairs"].values()) > sum(second.configs["pairs"].values())


def test_the_stages_and_settings_of_the_page_exist() -> None:
    settings, stages = (PAGE.partition(f"| {name} |")[2].partition("\n\n")[0] for name in ("setting", "stage"))
    first_cells = [re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for table in (settings, stages)]
    named = [set(re.findall(r"`(\w+)`", " ".join(cells))) for cells in first_cells]
    assert named[0] <= {*AxiomsConfig.model_fields}
    assert named[0] >= {name for name in AxiomsConfig.model_fields if name.startswith("validation_")}
    assert named[1] <= {*stages_of("axioms")}
    assert len(named[1]) == 7
