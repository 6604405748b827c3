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
BODY = " ".join(f"word{n} of a paper about kites that {n} people flew" for n in range(60))
TEI = f"""<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt>
<title level="a" type="main">Kites as a slow means of transport over the sea</title></titleStmt>
<sourceDesc><biblStruct><analytic><author><persName><forename>Ada</forename><surname>Aloft</surname></persName></author>
</analytic></biblStruct></sourceDesc></fileDesc></teiHeader>
<text><body><div><head n="1">Introduction</head><p>{BODY} {{end}}</p></div></body></text></TEI>"""
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


# ---------------------------------------------------------------- what a takedown reaches


def test_it_is_said_whether_a_takedown_names_a_row_of_the_home(longform: Shell) -> None:
    longform("read", "reddit", "dumps", *TREES)
    said = longform(
        "takedowns", "add", "reddit/t1_a", "reddit/t1_zz", "openreview/NoSuchNote", "doi/10.5555/no", *ASKED
    )
    lines = said.splitlines()
    assert "They name 1 row of this home." in lines
    for name in ("reddit/t1_zz", "openreview/NoSuchNote", "doi/10.5555/no"):
        assert f"{name} names no row of this home: it will be left out when it comes." in lines
    assert "reddit/t1_a names no row" not in said
    document = longform.json("takedowns", "add", "reddit/t1_a", "openreview/NoSuchNote", *ASKED)
    assert document["rows"] == {"reddit/t1_a": 1, "openreview/NoSuchNote": 0}
    assert document["other_versions"] == []


def test_an_authors_posts_are_taken_down_one_by_one(longform: Shell) -> None:
    site = paths.SAMPLES / "community.example"
    longform("read", "reddit", "dumps", "--to", "r")
    longform("read", "stackexchange", site, "--to", "s")
    posts = pq.read_table(longform.folder / "s" / "read_posts.parquet").to_pylist()
    author = next(row["author_id"] for row in posts if row["author_id"])
    hers = {row["post_id"] for row in posts if row["author_id"] == author}
    hashed = pq.read_table(longform.folder / "r" / "read_items.parquet").to_pylist()[1]["author_id"]
    user, redditor = f"author/community.example/{author}", f"author/{hashed}"
    document = longform.json("takedowns", "add", user, redditor, *ASKED)
    assert {each["id"] for each in document["added"]} == {
        user,
        redditor,
        *hers,
        *(f"reddit/t1_{own}" for own in "abc"),
    }
    assert (document["rows"][user], document["rows"][redditor]) == (len(hers), 3)
    longform("read", "reddit", "dumps", "--to", "r")
    longform("read", "stackexchange", site, "--to", "s")
    assert files_with(longform.folder / "r", "taken back") == set()
    left = pq.read_table(longform.folder / "s" / "read_posts.parquet")["post_id"].to_pylist()
    assert set(left) == {row["post_id"] for row in posts} - hers
    said = longform("takedowns", "add", "author/nobody at all", *ASKED)
    assert "author/nobody at all names no row of this home: papers by this author will be left out" in said


def test_other_versions_of_a_paper_are_named(longform: Shell) -> None:
    papers = longform.folder / "tei"
    papers.mkdir()
    for name, end in (("first", ""), ("second", "Once more.")):
        (papers / f"{name}.tei.xml").write_text(TEI.format(end=end))
    longform("read", "papers", papers, "--to", "out")
    (pair,) = pq.read_table(longform.folder / "out" / "find_duplicates.parquet").to_pylist()
    one = pair["group_id"]
    ids = set(pq.read_table(longform.folder / "out" / "read_tei.parquet")["paper_id"].to_pylist())
    (other,) = ids - {one}
    said = longform("takedowns", "add", one, *ASKED)
    assert f"Also versions of these papers: {other}; take them down too with: longform takedowns add {other}" in said
    document = longform.json("takedowns", "add", one, *ASKED)
    assert document["other_versions"] == [other]
    assert "Also versions" not in longform("takedowns", "add", other, *ASKED)
