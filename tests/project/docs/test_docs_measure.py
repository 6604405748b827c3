"""Commands and code printed in docs/measure.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pages import commands, page, typed
from standin_server import serve

from schemas.measured import MEASURED
from tasks.revision_distance.drafts.corrected import LARGEST_ADDITION, LARGEST_SHARE, PER_WORDS
from tasks.revision_distance.faults import CEILINGS
from tasks.revision_distance.own.records import LONGEST
from tasks.revision_distance.own.selftest import cases

pytestmark = pytest.mark.check

PAGE = page("measure")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    records = [
        {"id": f"q{n}", "system": name, "draft": f"{draft} {n}.", "reference": f"Tea is new, says number {n}."}
        for n in range(3)
        for name, draft in (("a", "Tea is new, says number"), ("b", "Cups are round and blue"))
    ]
    (tmp_path / "drafts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    with serve() as server:
        (settings,) = TOML.findall(PAGE)
        (tmp_path / "editor.toml").write_text(settings.replace("http://127.0.0.1:8000/v1", server.url))
        for line in commands(PAGE):
            done = typed(line, tmp_path)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    for folder, rows in (("scored", 6), ("repeated", 18), ("both", 12)):
        assert pq.read_metadata(tmp_path / folder / "drafts.parquet").num_rows == rows


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = PYTHON.findall(PAGE)
    exec(compile(code, "docs/measure.md", "exec"), {})
    assert capsys.readouterr().out == "[1]\n0.0 1.0\n"


def test_numbers_and_names_of_the_page_are_the_programs() -> None:
    assert f"{LONGEST:,} characters together" in PAGE
    assert (LARGEST_SHARE, LARGEST_ADDITION) == (0.1, 0.25)
    assert f"per {PER_WORDS} words" in PAGE
    assert f"{len(cases())} short drafts in eight languages" in PAGE
    assert len({each.language for each in cases()}) == 8
    assert sum(each.hostile for each in cases()) == 3
    for name in CEILINGS:
        assert f"`{name}`" in PAGE
    columns = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    named = {name for line in columns for name in re.findall(r"`([a-z_]+)`", line)}
    assert named <= set(MEASURED.names), named - set(MEASURED.names)
