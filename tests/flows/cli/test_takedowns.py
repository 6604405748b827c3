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

from flows.cli.shared.takedown_effects import Reached

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


def test_the_page_of_a_user_and_the_name_of_a_redditor_name_their_posts(longform: Shell) -> None:
    with pytest.raises(AssertionError, match="wrote no Reddit post"):
        longform("takedowns", "add", "u/somebody", *ASKED)
    longform("read", "reddit", "dumps")
    longform("read", "stackexchange", paths.SAMPLES / "community.example")
    name = json.loads(line(COMMENT))["author"]
    for form in (f"u/{name}", f"/u/{name}/", f"https://old.reddit.com/user/{name}/comments/?sort=new"):
        assert {"reddit/t1_a", "reddit/t1_b", "reddit/t1_c"} <= ids_of(longform.json("takedowns", "add", form, *ASKED))
    page = "https://community.example/users/267/ann?tab=answers"
    found = ids_of(longform.json("takedowns", "add", page, *ASKED))
    assert {"author/community.example/267", "community.example/2"} <= found
    assert ids_of(longform.json("takedowns", "add", "https://tea.example/users/267", *ASKED)) == {
        "web/tea.example/users/267"
    }
    with pytest.raises(AssertionError, match="a page of the whole network"):
        longform("takedowns", "add", "https://stackexchange.com/users/1/ann", *ASKED)


def ids_of(document: Any) -> set[str]:
    """The ids in the answer of `takedowns add`, those listed before too."""
    return {each["id"] for each in [*document["added"], *document["known"]]}


LATER = {
    "arXiv:2101.00001v2": ("DOI", "10.48550/arXiv.2101.00001"),
    "acl/2020.acl-main.77": ("DOI", "10.18653/v1/2020.acl-main.77"),
    "10.5555/sails": ("DOI", "10.5555/SAILS."),
    "cs/0101001": ("arXiv", "arXiv:cs.CL/0101001v1"),
    "author/Ada  ALOFT": ("DOI", "10.5555/other"),
}


@pytest.mark.parametrize("given", LATER)
def test_a_paper_that_comes_after_its_takedown_is_left_out_by_any_spelling(longform: Shell, given: str) -> None:
    longform("takedowns", "add", given, *ASKED)
    (longform.folder / "tei").mkdir()
    kind, number = LATER[given]
    idno = f'<idno type="{kind}">{number}</idno>'
    own = TEI.replace("</biblStruct></sourceDesc>", f"{idno}</biblStruct></sourceDesc>")
    other = TEI.replace("Ada", "Bea").replace("Kites as", "Sleds as").replace("word", "term")
    (longform.folder / "tei" / "own.tei.xml").write_text(own.format(end=""))
    (longform.folder / "tei" / "other.tei.xml").write_text(other.format(end=""))
    longform("read", "papers", "tei", "--to", "out")
    papers = pq.read_table(longform.folder / "out" / "read_tei.parquet").to_pylist()
    assert [row["title"] for row in papers] == ["Sleds as a slow means of transport over the sea"]
    assert files_with(longform.folder / "out", "Ada Aloft") == set()


def test_a_paper_that_only_its_metadata_names_is_left_out_with_its_text(longform: Shell) -> None:
    longform("takedowns", "add", "author/Cy Bo", "s2/1001", "10.5555/sensors.2019.7", *ASKED)
    for source in ("acl_ocl", "s2orc"):
        longform("read", source, paths.SAMPLES / source, "--to", source)
    acl = pq.read_table(longform.folder / "acl_ocl" / "read_acl_papers.parquet")["paper_id"].to_pylist()
    s2 = pq.read_table(longform.folder / "s2orc" / "newest_papers.parquet")["paper_id"].to_pylist()
    assert acl == []
    assert {"s2/1003", "s2/1004"} <= set(s2)
    assert {"s2/1001", "s2/1002"}.isdisjoint(s2)


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


# ---------------------------------------------------------------- the home


def test_the_home_stands_before_the_group_after_it_or_after_the_command(longform: Shell) -> None:
    for place, words in enumerate((
        ("--home", "h0", "takedowns", "add", "reddit/t1_a", *ASKED),
        ("takedowns", "--home", "h1", "add", "reddit/t1_a", *ASKED),
        ("takedowns", "add", "reddit/t1_a", *ASKED, "--home", "h2"),
        ("--home", "other", "takedowns", "--home", "h3", "add", "reddit/t1_a", *ASKED),
    )):  # fmt: skip
        longform(*words)
        assert (longform.folder / f"h{place}").is_dir()
        assert "reddit/t1_a" in longform("takedowns", "list", "--home", f"h{place}")
    assert not (longform.folder / "other").exists()


def test_what_only_a_published_version_holds_is_not_said_to_be_nowhere() -> None:
    reached = Reached({"web/a.example/x": 0, "web/a.example/y": 0}, 0, [])
    (said,) = reached.sentences({"web/a.example/x"})
    assert said.startswith("web/a.example/y names no row of this home")
