"""Commands printed in docs/research.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from axioms_builds import build_axioms
from pages import commands, page, typed
from paths import ROOT

from flows.axioms import AxiomsConfig
from flows.builds.answering import MODES
from tasks.axioms.research.answers import CONDITIONS

pytestmark = pytest.mark.check

PAGE = page("research")
SAMPLES = ROOT / "data" / "samples" / "research"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("research-page")
    (folder / "notes").mkdir()
    shutil.copy(SAMPLES / "pages.jsonl", folder / "notes")
    build_axioms(folder / "data", eli5=[], webgpt=[], limit=3, research_questions=str(SAMPLES / "questions.jsonl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def test_answers_and_sheets_are_written(folder: Path) -> None:
    assert "(Passage 1)" in (folder / "lamps.md").read_text()
    assert any((folder / "sheets").iterdir())


def test_every_mode_condition_and_setting_of_the_page_is_one() -> None:
    modes = re.findall(r"^\| `(\w+)` \| (?:a draft|the same|the guided|the draft)", PAGE, re.MULTILINE)
    assert sorted(modes) == sorted(MODES)
    assert all(f"`{each}`" in PAGE for each in CONDITIONS)
    named = set(re.findall(r"`(research_\w+)`", PAGE)) - {"research_steps"}
    assert named - {"research_judgements", "research_pairs"} <= set(AxiomsConfig.model_fields)
