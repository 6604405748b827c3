"""What takedowns reach in a home, compared with a walk through all rows of all files in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longform.errors import StoreError
from tasks.sources import home_tables
from tasks.sources.papers.paper_ids import all_ids
from tasks.sources.parquet_footers import schema_bytes
from tasks.sources.reach import other_versions, posts_of_authors, rows_reached

SITE = "cooking.stackexchange.com"
VOTES = pa.list_(pa.struct([("kind", pa.string()), ("marks", pa.list_(pa.int64()))]))
Row = dict[str, Any]


def reddit(rng: random.Random) -> Row:
    return {
        "post_id": f"reddit/t1_{rng.randrange(300):x}",
        "subreddit": "kites",
        "author_id": rng.choice([f"{rng.randrange(9):024x}", None]),
        "votes": [{"kind": "up", "marks": [1, 2]}],
    }


def stackexchange(rng: random.Random) -> Row:
    author = rng.choice([str(rng.randrange(1, 9)), None])
    return {
        "post_id": f"{SITE}/{rng.randrange(1, 300)}",
        "site": SITE,
        "author_id": author,
        "author": rng.choice([None, "Ann"]) if author is None else "Ben",
        "votes": rng.choice([None, []]),
    }


def pair(rng: random.Random) -> Row:
    return {**stackexchange(rng), "pair_id": f"{SITE}/{rng.randrange(1, 300)}"}


def thread(rng: random.Random) -> Row:
    post = stackexchange(rng)["post_id"]
    return {"question_id": post, "answers": [{"post_id": f"{SITE}/{rng.randrange(300)}", "texts": ["a", "b"]}]}


def paper(rng: random.Random) -> Row:
    number = rng.randrange(1, 200)
    return {
        "paper_id": f"s2/{number}",
        "doi": rng.choice([None, f"10.5555/K{number}"]),
        "authors": rng.choice([[], None, ["Ada  Aloft", "Bo Breeze"], ["Cy Clone"]]),
        "sections": [{"title": "x", "paragraphs": ["y"]}],
    }


def passage(rng: random.Random) -> Row:
    number = rng.randrange(1, 60)
    url = rng.choice([f"https://kites.example/{number}", f"https://{SITE}/q/{number}", "https://[bad"])
    return {"passage_id": f"p/{rng.randrange(999)}", "url": url, "text": "x", "start": 0}


def version(rng: random.Random) -> Row:
    first = rng.randrange(1, 200)
    return {
        "first_id": f"s2/{first}",
        "second_id": f"s2/{rng.randrange(1, 200)}",
        "verdict": rng.choice(["same", "doubtful"]),
        "group_id": f"s2/{first % 20}",
        "found_by": rng.choice([["title"], []]),
    }


KINDS = {
    "read_items": [reddit, stackexchange],  # two schemas in a stage, as after a change of its code
    "read_posts": [stackexchange],
    "make_pairs": [pair],
    "join_threads": [thread],
    "read_papers": [paper],
    "cut_passages": [passage],
    "find_duplicates": [version],
}
NESTED = {"votes": VOTES, "authors": pa.list_(pa.string()), "found_by": pa.list_(pa.string())}


def write(path: Path, rows: list[Row], group: int = 7) -> None:
    path.parent.mkdir(parents=True)
    fields = pa.Table.from_pylist(rows).schema
    schema = pa.schema([(each.name, NESTED.get(each.name) or _texts(each.type)) for each in fields])
    pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=group)


def _texts(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(kind) else kind


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = random.Random(3)
    for stage, kinds in KINDS.items():
        for number in range(6):
            rows = [kinds[number % len(kinds)](rng) for _ in range(20)]
            write(tmp_path / "stages" / stage / "parts" / f"{number:04}'[x]" / "rows.parquet", rows)
        write(tmp_path / "stages" / stage / "parts" / ".new" / "rows.parquet", rows)
        (tmp_path / "stages" / stage / "parts" / "gone").mkdir()
    return tmp_path


def walk(home: Path) -> Iterator[list[Row]]:
    for path in home.glob("stages/*/parts/*/rows.parquet"):
        if not path.parent.name.startswith("."):
            yield pq.read_table(path).to_pylist()


def expected(home: Path, asked: str) -> set[str]:
    """The keys of the rows that an id means, by the rules that docs/sources.md states of them."""
    found: set[str] = set()
    for row in (row for rows in walk(home) for row in rows):
        key = next(iter(row))
        if key in ("post_id", "question_id", "passage_id") and row[key] == asked:
            found.add(asked)
        if "author_id" in row and row["author_id"] and asked == f"author/{row['author_id']}" and "subreddit" in row:
            found.add(row["post_id"])
        if "site" in row and asked in [f"author/{SITE}/{row['author_id']}", f"author/{SITE}/{row['author']}".lower()]:
            found.add(row["post_id"])
        if key == "paper_id":
            names = [f"author/{' '.join(name.lower().split())}" for name in row["authors"] or []]
            if asked in [row["paper_id"], f"doi/{row['doi']}".lower(), *names]:
                found.add(row["paper_id"])
        if "passage_id" in row:
            page = {f"https://kites.example/{n}": f"web/kites.example/{n}" for n in range(60)}
            post = {f"https://{SITE}/q/{n}": f"{SITE}/{n}" for n in range(60)}
            if asked in [page.get(row["url"]), post.get(row["url"])]:
                found.add(row["passage_id"])
    return found


ASKED = [
    *(f"reddit/t1_{n:x}" for n in range(0, 320, 9)),
    *(f"{SITE}/{n}" for n in range(1, 320, 7)),
    *(f"author/{SITE}/{n}" for n in range(12)),
    f"author/{SITE}/ann",
    *(f"author/{n:024x}" for n in range(11)),
    *(f"s2/{n}" for n in range(1, 220, 9)),
    *(f"doi/10.5555/k{n}" for n in range(1, 220, 9)),
    "author/ada aloft",
    "author/cy clone",
    "author/no one",
    *(f"web/kites.example/{n}" for n in range(60)),
]


@pytest.mark.parametrize("files", [1_000, 2])
def test_rows_are_those_of_a_walk_for_one_id_and_for_all_at_once(
    home: Path, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_tables, "FILES", files)
    by_walk = {name: sorted(expected(home, name)) for name in ASKED}
    assert rows_reached(home, ASKED) == by_walk
    assert sum(map(bool, by_walk.values())) > 100
    for name in ASKED[::17]:
        assert rows_reached(home, [name]) == {name: by_walk[name]}
    authors = {name: rows for name, rows in by_walk.items() if name.startswith("author/") and rows}
    posts = {name: rows for name, rows in authors.items() if not rows[0].startswith("s2/")}
    assert posts_of_authors(home, ASKED) == posts


def test_other_versions_are_those_of_a_walk(home: Path) -> None:
    for asked in ({"s2/3"}, {"s2/5", "s2/77"}, {f"s2/{n}" for n in range(1, 40)}, {"s2/none"}):
        found: set[str] = set()
        for rows in walk(home):
            same = [row for row in rows if row.get("verdict") == "same"]
            groups = {row["group_id"] for row in same if asked & {row["first_id"], row["second_id"]}}
            found |= {row[end] for row in same if row["group_id"] in groups for end in ("first_id", "second_id")}
        assert other_versions(home, asked) == sorted(found - asked)


def test_the_other_ids_of_a_paper_are_found(home: Path) -> None:
    rows = [row for rows in walk(home) for row in rows if row.get("doi")]
    doi = f"doi/{rows[0]['doi']}".lower()
    assert set(all_ids(home, [doi])) == {doi, rows[0]["paper_id"]}


def test_a_part_that_comes_later_is_seen(home: Path) -> None:
    asked = "reddit/t1_zzzz"
    assert rows_reached(home, [asked]) == {asked: []}
    row = {**reddit(random.Random(1)), "post_id": asked}
    write(home / "stages" / "read_items" / "parts" / "later" / "rows.parquet", [row])
    assert rows_reached(home, [asked]) == {asked: [asked]}
    write(home / "stages" / "other" / "parts" / "a" / "rows.parquet", [{"x_id": "reddit/t1_yyyy", "n": 1}])
    assert rows_reached(home, ["reddit/t1_yyyy"]) == {"reddit/t1_yyyy": ["reddit/t1_yyyy"]}


def test_a_home_without_stages_has_nothing(tmp_path: Path) -> None:
    assert rows_reached(tmp_path, ["s2/1", "author/a", "reddit/t1_a"]) == {
        "s2/1": [],
        "author/a": [],
        "reddit/t1_a": [],
    }
    assert other_versions(tmp_path, ["s2/1"]) == []


# ---------------------------------------------------------------- footers

SCHEMAS = [
    pa.schema([("a_id", pa.string())]),
    pa.schema([("a_id", pa.string()), ("b", pa.string())]),
    pa.schema([("a_id", pa.string()), ("b", pa.int64())]),
    pa.schema([("a_id", pa.string()), ("b", pa.int8()), ("when", pa.timestamp("us", "UTC")), ("d", pa.date32())]),
    pa.schema([("a_id", pa.string()), ("b", pa.decimal128(9, 2)), ("c", pa.binary(5)), ("t", pa.time64("ns"))]),
    pa.schema([(f"column_{n}", VOTES) for n in range(40)]),
    pa.schema([pa.field("a_id", pa.string(), nullable=False), ("m", pa.map_(pa.string(), pa.list_(pa.float32())))]),
]


def test_files_have_the_same_start_if_they_have_the_same_schema(tmp_path: Path) -> None:
    starts = []
    for number, schema in enumerate(SCHEMAS):
        found = set()
        for rows, groups in ((0, 1), (5, 5), (3_000, 2)):
            path = tmp_path / f"{number}-{rows}.parquet"
            table = pa.Table.from_arrays([pa.nulls(rows, each.type) for each in schema], names=schema.names)
            if not schema.field(0).nullable:
                table = table.set_column(0, schema.field(0), pa.array(["x"] * rows, pa.string()))
            pq.write_table(table, path, row_group_size=groups)
            found.add(schema_bytes(str(path)))
            assert schema_bytes(str(path), starts) == schema_bytes(str(path))
        assert len(found) == 1
        starts += found
    assert len(set(starts)) == len(SCHEMAS)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"\x15\x04\x19\xfc" + b"\x04\0\0\0PAR1"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "stages" / "read_items" / "parts" / "a" / "rows.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"rows\.parquet is no Parquet file.*longform verify"):
        rows_reached(tmp_path, ["reddit/t1_a"])
