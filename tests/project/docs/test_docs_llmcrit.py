"""Commands printed in docs/llmcrit.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import built, commands, page, typed

from flows.llmcrit import FORMS, LLMCritConfig
from flows.registry import stages_of
from longform.artifacts.versions import versions
from tasks.llmcrit.audits import AUDITS

pytestmark = pytest.mark.check

PAGE = page("llmcrit")
CRITERIA = """# Opening
1. **Purpose first**: Does the first paragraph say what the library does?

# Use
- **Example**: Is there an example of its use in code?
- **Licence**: Does it name its licence?
"""
DRAFT = "# tidytide\n\nThe best library ever.\n\n    from tidytide import read\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("llmcrit-page")
    (folder / "draft.md").write_text(DRAFT)
    (folder / "criteria.md").write_text(CRITERIA)
    drafts = ({"id": str(number), "text": f"{DRAFT}\nVersion {number}."} for number in range(3))
    (folder / "drafts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in drafts))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line, LLMCritConfig, folder)
                continue
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def test_feedback_on_many_texts_has_a_line_for_each_aspect_and_names_criteria(folder: Path) -> None:
    found = [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]
    assert {row["text"] for row in found} == {"0", "1", "2"}
    assert {row["aspect"] for row in found} == {"Opening", "Use"}
    named = {remark["criterion"] for row in found for remark in row["remarks"]}
    assert named >= {"Purpose first", "Example", "Licence"}


def test_the_export_has_a_line_for_each_aspect(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "criteria.jsonl").read_text().splitlines()]
    assert len(lines) == 10
    assert all(line["criteria"].startswith("1. **") for line in lines)


def test_every_stage_and_gate_and_form_of_the_samples_is_on_the_page(folder: Path) -> None:
    (version,) = versions(folder / "data", "llmcrit")
    for name in (*version.stages, *FORMS, *version.tables()):
        assert f"`{name}`" in PAGE, name
    for audit in AUDITS.version:
        assert f"`{audit.name}`" in PAGE, audit.name


def test_names_in_the_table_of_stages_exist() -> None:
    table = PAGE.partition("## Stages")[2].partition("## Report")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert named <= {*stages_of("llmcrit")}
