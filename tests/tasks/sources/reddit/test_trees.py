"""Whole comment trees, compared with a parse of the same lines by json and recursion over dicts."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import paths
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from reddit_lines import COMMENT, SUBMISSION, line

from flows.sources.reddit import Read, read
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.llm.models import Models
from schemas.sources.reddit import REDDIT_TREES

SAMPLES = paths.SAMPLES / "reddit"
REAL = paths.REAL_DATA / "reddit"


def build(home: Path, *dumps: Path, **config: Any) -> tuple[list[list[dict[str, Any]]], Build]:
    made = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    tables = read(made, list(dumps), Read(**config))
    made.close()
    return [list(table) for table in tables], made


def grown(tmp_path: Path, *lines: bytes, **config: Any) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, str], int]]:
    """The rows of the trees by their ids without `reddit/`, in order, and what was left out."""
    (tmp_path / "all.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (_, trees, _), made = build(tmp_path, tmp_path / "all.jsonl", trees=True, **config)
    artifact = next(entry.artifact for entry in made.done if entry.stage == "grow_trees")
    return {row["post_id"].removeprefix("reddit/"): row for row in trees}, artifact.rejected()


def comment(own: str, parent: str, **changed: Any) -> bytes:
    return line(COMMENT, id=own, parent_id=parent, **changed)


def short(path: list[str]) -> str:
    return " ".join(each.removeprefix("reddit/") for each in path)


def test_a_thread_becomes_a_tree(tmp_path: Path) -> None:
    rows, rejected = grown(
        tmp_path,
        comment("c", "t1_b"),
        comment("b", "t3_1afw2c", score=1),
        line(SUBMISSION),
        comment("e", "t3_1afw2c", score=5),
        comment("d", "t1_b", score=99),
        comment("f", "t3_1afw2c", score=None),
    )
    assert rejected == {}
    assert [(own, row["depth"], short(row["path"]), row["replies"]) for own, row in rows.items()] == [
        ("t3_1afw2c", 0, "t3_1afw2c", 3),
        ("t1_e", 1, "t3_1afw2c t1_e", 0),
        ("t1_b", 1, "t3_1afw2c t1_b", 2),
        ("t1_d", 2, "t3_1afw2c t1_b t1_d", 0),
        ("t1_c", 2, "t3_1afw2c t1_b t1_c", 0),
        ("t1_f", 1, "t3_1afw2c t1_f", 0),
    ]
    assert {row["root_id"] for row in rows.values()} == {"reddit/t3_1afw2c"}
    assert {row["missing_id"] for row in rows.values()} == {None}


def test_orphans_stay_with_what_is_known(tmp_path: Path) -> None:
    rows, rejected = grown(
        tmp_path,
        line(SUBMISSION),
        comment("x2", "t1_x1"),
        comment("x3", "t1_x2"),
        line(COMMENT, id="y1", link_id="t3_zz", parent_id="t3_zz"),
        line(COMMENT, id="y2", link_id="t3_zz", parent_id="t1_y1"),
    )
    assert rejected == {}
    said = {own: (row["depth"], short(row["path"]), row["missing_id"]) for own, row in rows.items()}
    assert said == {
        "t3_1afw2c": (0, "t3_1afw2c", None),
        "t1_x2": (None, "t1_x1 t1_x2", "reddit/t1_x1"),
        "t1_x3": (None, "t1_x1 t1_x2 t1_x3", "reddit/t1_x1"),
        "t1_y1": (1, "t3_zz t1_y1", "reddit/t3_zz"),
        "t1_y2": (2, "t3_zz t1_y1 t1_y2", "reddit/t3_zz"),
    }


def test_what_was_deleted_is_no_row_but_keeps_the_place_of_its_replies(tmp_path: Path) -> None:
    rows, _ = grown(
        tmp_path,
        line(SUBMISSION),
        comment("a", "t3_1afw2c", body="[deleted]", author="[deleted]"),
        comment("a", "t3_1afw2c", body="[removed]"),
        comment("b", "t1_a", body="[removed]"),
        comment("c", "t1_b"),
    )
    assert set(rows) == {"t3_1afw2c", "t1_c"}
    row = rows["t1_c"]
    assert (row["depth"], short(row["path"])) == (3, "t3_1afw2c t1_a t1_b t1_c")
    assert (row["gone_above"], row["missing_id"], rows["t3_1afw2c"]["replies"]) == (2, None, 0)


def test_what_is_taken_down_is_no_row_but_keeps_the_place_of_its_replies(tmp_path: Path) -> None:
    add(tmp_path, [(f"reddit/{own}", "2026-11-21", "asked") for own in ("t1_a", "t1_b", "t3_zz")])
    rows, rejected = grown(
        tmp_path,
        line(SUBMISSION),
        comment("a", "t3_1afw2c", body="a wish taken back", author="Somebody"),
        comment("b", "t1_a", body="another"),
        comment("c", "t1_b"),
        comment("d", "t1_c"),
        line(SUBMISSION, id="zz", title="a question taken back"),
        line(COMMENT, id="z1", link_id="t3_zz", parent_id="t3_zz"),
    )
    assert rejected == {("filtered", "taken down"): 3}
    said = {own: (row["depth"], short(row["path"]), row["gone_above"], row["missing_id"]) for own, row in rows.items()}
    assert said == {
        "t3_1afw2c": (0, "t3_1afw2c", 0, None),
        "t1_c": (3, "t3_1afw2c t1_a t1_b t1_c", 2, None),
        "t1_d": (4, "t3_1afw2c t1_a t1_b t1_c t1_d", 2, None),
        "t1_z1": (1, "t3_zz t1_z1", 0, "reddit/t3_zz"),
    }
    assert rows["t3_1afw2c"]["replies"] == 0
    for path in (tmp_path / "stages" / "grow_trees").rglob("*.parquet"):
        assert "taken back" not in str(pq.read_table(path).to_pylist())


def test_parents_in_a_circle_are_rejected_with_what_hangs_on_them(tmp_path: Path) -> None:
    rows, rejected = grown(
        tmp_path,
        line(SUBMISSION),
        comment("a", "t1_b"),
        comment("b", "t1_a"),
        comment("c", "t1_b"),
        comment("self", "t1_self"),
        comment("d", "t3_1afw2c"),
    )
    assert set(rows) == {"t3_1afw2c", "t1_d"}
    assert rejected == {("defect", "parents in a circle"): 4}


def test_a_thread_as_deep_as_those_that_count_is_no_recursion(tmp_path: Path) -> None:
    lines = [comment(f"c{n}", f"t1_c{n - 1}" if n else "t3_1afw2c") for n in range(3_000)]
    Random(1).shuffle(lines)
    rows, rejected = grown(tmp_path, line(SUBMISSION), *lines)
    assert rejected == {}
    assert rows["t1_c2999"]["depth"] == 3_000
    assert len(rows["t1_c2999"]["path"]) == 3_001


# ---------------------------------------------------------------- an independent parse


def parsed(lines: list[bytes]) -> dict[str, tuple[int | None, str]]:
    """Id -> (depth, path) of everything in the lines, deleted or not, by recursion; depth None without a known way."""
    parents: dict[str, str | None] = {}
    roots: dict[str, str] = {}
    for text in lines:
        record = json.loads(text)
        if "body" in record:
            root = "t3_" + str(record["link_id"]).removeprefix("t3_")
            parent = record["parent_id"] or root
            if not str(parent).startswith(("t1_", "t3_")):  # some months write bare ids
                parent = root if root == f"t3_{parent}" else f"t1_{parent}"
            parents["t1_" + record["id"]], roots["t1_" + record["id"]] = parent, root
        else:
            own = "t3_" + record["id"]
            parents[own], roots[own] = None, own

    def path(own: str) -> list[str]:
        above = parents.get(own)
        return [*(path(above) if above else []), own]

    return {own: (len(path(own)) - 1 if path(own)[0] == roots[own] else None, " ".join(path(own))) for own in parents}


def made_up(seed: int) -> list[bytes]:
    """Threads of which some comments, and some submissions, are deleted or missing."""
    random = Random(seed)
    found: list[bytes] = []
    for thread in range(12):
        root = f"t{thread}"
        if random.random() < 0.8:
            found.append(line(SUBMISSION, id=root))
        known = [f"t3_{root}"]
        for number in range(random.randrange(40)):
            own = f"{root}c{number}"
            gone = {"body": "[removed]"} if random.random() < 0.15 else {}
            made = line(COMMENT, id=own, link_id=f"t3_{root}", parent_id=random.choice(known), score=number % 7, **gone)
            found += [made] if random.random() < 0.9 else []
            known.append(f"t1_{own}")
    random.shuffle(found)
    return found


def same_as_parsed(rows: dict[str, dict[str, Any]], lines: list[bytes]) -> None:
    expected = parsed(lines)
    for own, row in rows.items():
        assert (row["depth"], short(row["path"])) == expected[own]


@pytest.mark.parametrize("seed", range(4))
def test_the_trees_equal_those_of_a_parse_by_dicts(seed: int, tmp_path: Path) -> None:
    lines = made_up(seed)
    rows, rejected = grown(tmp_path, *lines)
    assert rejected == {}
    same_as_parsed(rows, lines)
    assert len(rows) == sum(b"[removed]" not in each for each in lines)


def test_the_trees_are_the_same_whatever_the_order_and_the_files(tmp_path: Path) -> None:
    lines = made_up(7)
    first, _ = grown(tmp_path, *lines)
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(b"\n".join(sorted(lines)[number::3]) + b"\n")
    (_, trees, _), made = build(tmp_path, *(tmp_path / f"{number}.jsonl" for number in (2, 0, 1)), trees=True)
    assert list(first.values()) == trees
    entry = next(entry for entry in made.done if entry.stage == "grow_trees")
    schema = pq.read_schema(Store(tmp_path).rows_path(entry.artifact.parts[0]))
    assert schema.names == REDDIT_TREES.names


def test_eli5_is_a_selection_of_the_trees(tmp_path: Path) -> None:
    dumps = sorted(SAMPLES.glob("R*.jsonl"))
    (_, trees, selected), made = build(tmp_path, *dumps, trees=True, preset="eli5")
    (_, plain), _ = build(tmp_path, *dumps, preset="eli5")
    assert selected == plain
    assert len(selected) == 3
    tops = {row["post_id"] for row in trees if row["depth"] == 1}
    assert {answer["answer_id"] for thread in selected for answer in thread["answers"]} <= tops
    join = next(entry.artifact for entry in made.done if entry.stage == "join_reddit")
    assert {reason for _, reason in join.rejected()} == {"reply to a comment", "no submission in these dumps"}
    same_as_parsed(
        {row["post_id"].removeprefix("reddit/"): row for row in trees},
        [text for dump in dumps for text in dump.read_bytes().splitlines() if text.startswith(b"{") and _parses(text)],
    )


def _parses(text: bytes) -> bool:
    try:
        record = json.loads(text)
    except ValueError:
        return False
    return isinstance(record.get("id"), str) and ("title" in record or "link_id" in record)


def test_what_is_gone_by_the_states_is_in_no_tree(tmp_path: Path) -> None:
    states = [
        {"id": "reddit/t1_a", "state": "deleted", "checked_at": "2026-11-01T00:00:00+00:00"},
        {"id": "reddit/t1_b", "state": "present", "votes": 77, "checked_at": "2026-11-01T00:00:00+00:00"},
    ]
    (tmp_path / "states.jsonl").write_text("".join(json.dumps(state) + "\n" for state in states))
    lines = [line(SUBMISSION), comment("a", "t3_1afw2c"), comment("b", "t1_a")]
    rows, _ = grown(tmp_path, *lines, states=str(tmp_path / "states.jsonl"))
    assert set(rows) == {"t3_1afw2c", "t1_b"}
    assert (rows["t1_b"]["votes"], short(rows["t1_b"]["path"])) == (77, "t3_1afw2c t1_a t1_b")
    assert rows["t1_b"]["gone_above"] == 1
    assert rows["t3_1afw2c"]["replies"] == 0


def test_a_submission_that_is_gone_by_the_states_is_missing_above_its_comments(tmp_path: Path) -> None:
    state = {"id": "reddit/t3_1afw2c", "state": "deleted", "checked_at": "2026-11-01T00:00:00+00:00"}
    (tmp_path / "states.jsonl").write_text(json.dumps(state) + "\n")
    lines = [line(SUBMISSION), comment("a", "t3_1afw2c"), comment("b", "t1_a")]
    rows, _ = grown(tmp_path, *lines, states=str(tmp_path / "states.jsonl"))
    told = {own: (row["missing_id"], row["gone_above"], row["replies"]) for own, row in rows.items()}
    assert told == {"t1_a": ("reddit/t3_1afw2c", 0, 1), "t1_b": ("reddit/t3_1afw2c", 0, 0)}


def test_dumps_of_a_subreddit_are_read_beside_those_of_a_month(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "explainlikeimfive_submissions.jsonl").write_bytes(line(SUBMISSION) + b"\n")
    (folder / "explainlikeimfive_comments.jsonl").write_bytes(comment("a", "t3_1afw2c") + b"\n")
    (folder / "RC_2024-02.jsonl").write_bytes(comment("b", "t1_a") + b"\n" + comment("a", "t3_1afw2c") + b"\n")
    (_, trees, threads), _ = build(tmp_path, folder, trees=True)
    assert [row["depth"] for row in trees] == [0, 1, 2]
    assert [len(thread["answers"]) for thread in threads] == [1]


@pytest.mark.skipif(not REAL.is_dir(), reason="the real lines are not here")
def test_real_lines_grow_to_what_a_parse_by_dicts_says(tmp_path: Path) -> None:
    lines = []
    for dump in sorted(REAL.glob("R*.zst")):
        unpacked = subprocess.run(["zstd", "-dc", "--long=31", str(dump)], capture_output=True, check=True).stdout
        lines += [text for text in unpacked.splitlines() if text.strip()]
    (_, trees, _), _build = build(tmp_path, *sorted(REAL.glob("R*.zst")), trees=True)
    rows = {row["post_id"].removeprefix("reddit/"): row for row in trees}
    assert len(rows) > 30
    expected = parsed(lines)
    assert Counter(row["depth"] for row in trees) == Counter(expected[own][0] for own in rows)
    same_as_parsed(rows, lines)
