"""Takedowns from the command line, as a user meets them: what is read again no longer holds them, and what each
reaches is said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import paths
import pyarrow.parquet as pq
import pytest
from reddit_lines import COMMENT, SUBMISSION, line

LONGFORM = str(Path(sys.executable).with_name("longform"))
TREES = ("--set", "subreddits=explainlikeimfive", "--set", "trees=true")
ASKED = ("--reason", "its author asked")


class Shell:
    """`longform` in a folder of its own, with its home there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGFORM")}

    def __call__(self, *words: object) -> str:
        command = [LONGFORM, *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self.folder, env=self.environment, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *words: object) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def longform(tmp_path: Path) -> Shell:
    lines = [
        line(SUBMISSION),
        line(COMMENT, id="a", body="a wish that was taken back, of at least eight words", score=9),
        line(COMMENT, id="b", parent_id="t1_a", body="a reply to it"),
        line(COMMENT, id="c", body="another answer that has enough words to be kept", score=8),
    ]
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "RC_2024-01.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return Shell(tmp_path)


def files_with(folder: Path, text: str) -> set[str]:
    tables = sorted(folder.glob("*.parquet"))
    return {path.name for path in tables if text in str(pq.read_table(path).to_pylist())}


# ---------------------------------------------------------------- tables of an earlier read


def test_no_table_of_an_earlier_read_keeps_what_was_taken_down(longform: Shell) -> None:
    out = longform.folder / "out"
    assert "Removed" not in longform("read", "reddit", "dumps", *TREES, "--to", "out")
    assert files_with(out, "taken back") == {"read_items.parquet", "grow_trees.parquet", "join_reddit.parquet"}
    longform("takedowns", "add", "reddit/t1_a", *ASKED)
    said = longform("read", "reddit", "dumps", "--set", "preset=eli5", "--to", "out")
    assert files_with(out, "taken back") == set()
    assert not list(out.glob("grow_trees*"))
    (removed,) = [each for each in said.splitlines() if each.startswith("Removed from out")]
    assert "grow_trees.parquet" in removed
    assert "read_items" not in removed


def test_only_what_longform_wrote_and_nobody_changed_is_removed(longform: Shell) -> None:
    out = longform.folder / "out"
    longform("read", "reddit", "dumps", *TREES, "--to", "out")
    longform("read", "stackexchange", paths.SAMPLES / "community.example", "--to", "out")
    (out / "own.parquet").write_bytes(b"mine")
    (out / "join_reddit.parquet").write_bytes(b"changed")
    before = {path.name for path in out.iterdir()}
    said = longform.json("read", "reddit", "dumps", "--set", "preset=eli5", "--to", "out")
    names = {Path(path).name for path in said["removed"]}
    assert "grow_trees.parquet" in names
    assert all(name.startswith(("grow_trees", "join_reddit")) for name in names)
    assert names.isdisjoint({"own.parquet", "join_reddit.parquet"})
    assert before - {path.name for path in out.iterdir()} == names
    assert longform.json("read", "reddit", "dumps", "--set", "preset=eli5", "--to", "out")["removed"] == []


@pytest.mark.parametrize("record", ['{"reddit": {"../dumps/own.parquet": "00"}}', "[]", '{"reddit": ["x"]}'])
def test_a_record_that_is_none_removes_nothing(longform: Shell, record: str) -> None:
    (longform.folder / "out").mkdir()
    (longform.folder / "out" / ".longform-read.json").write_text(record)
    with pytest.raises(AssertionError, match="is no record of what"):
        longform("read", "reddit", "dumps", "--to", "out")
