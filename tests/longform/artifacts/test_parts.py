"""Writing parts: what is refused, where rows are cut, what the Parquet files are like."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from longform.artifacts.parts import GROUP_ROWS, Parts, part_keys
from longform.artifacts.rows import Rejected, Row
from longform.artifacts.store import Part, Store
from longform.errors import SchemaError
from longform.files import sha256_of
from schemas import column, table

MARK = pa.struct(
    [
        column("start", pa.int32(), "characters"),
        column("name", pa.string(), "a word"),
        column("weight", pa.float32(), "any", null=True),
    ]
)
NOTES = table(
    "notes",
    column("note_id", pa.string(), "<site>/<number>"),
    column("kind", pa.string(), "one of few"),
    column("text", pa.string(), "long"),
    column("votes", pa.int32(), "may be absent", null=True),
    column("share", pa.float64(), "any number"),
    column("marks", pa.list_(MARK), "any number of them"),
    column("first", MARK, "one of them, or none", null=True),
    key="note_id",
)
WHOLE_KEY = ["ale/0-00000"]


def note(number: int = 0, site: str = "ale", **changed: Any) -> Row:
    row: Row = {"note_id": f"{site}/{number}", "kind": "short", "text": "t", "votes": 1, "share": 0.5}
    return {**row, "marks": [mark()], "first": mark(), **changed}


def mark(**changed: Any) -> Row:
    return {"start": 0, "name": "n", "weight": 0.5, **changed}


def xxh3(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())


def write(
    home: Path, items: Iterable[Any], keys: list[str] = WHOLE_KEY, split_by: str | None = None
) -> tuple[Store, list[Part]]:
    store = Store(home)
    parts = Parts(store, "notes", NOTES, keys, split_by)
    for item in items:
        parts.add(item)
    return store, parts.finish()


@pytest.mark.parametrize(("rows", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (4, [3, 1]), (9, [3, 3, 3]), (2_500, None)])
def test_parts_of_so_many_rows_each_keep_the_order(rows: int, sizes: list[int] | None, tmp_path: Path) -> None:
    each = 3 if sizes else 999  # rows are handed on in batches of 1,000
    parts = Parts(store := Store(tmp_path), "notes", NOTES, WHOLE_KEY, None, each)
    for number in range(rows):
        parts.add(note(number))
        if number == 4:
            parts.add(Rejected("ale/odd", "defect", "odd"))
    done = parts.finish()
    assert [part.rows for part in done] == (sizes or [999, 999, 502])
    assert [part.key for part in done] == ["ale/0-00000", *(f"ale/0-00000.{n:05d}" for n in range(1, len(done)))]
    assert [name for part in done for name in ids(store, part)] == [f"ale/{number}" for number in range(rows)]
    assert sum(n for part in done for _, _, n in part.rejected) == (rows > 4)


def ids(store: Store, part: Part) -> list[str]:
    return list(pq.read_table(store.rows_path(part)).column("note_id").to_pylist())


# ---------------------------------------------------------------- what is refused

WRONG = {
    "the column text is missing": ({"text": ...}, "columns text"),
    "an unknown column": ({"title": "T"}, "columns title"),
    "a fraction": ({"votes": 1.5}, "votes takes whole numbers, not 1.5"),
    "a whole number as a float": ({"votes": 2.0}, "votes takes whole numbers"),
    "a fraction of numpy": ({"votes": np.float32(1.5)}, "votes takes whole numbers"),
    "a decimal fraction": ({"votes": Decimal("1.5")}, "votes takes whole numbers"),
    "a fraction in a struct": ({"first": mark(start=0.5)}, "first.start takes whole numbers"),
    "a fraction in a list": ({"marks": [mark(), mark(start=0.5)]}, "marks.start takes whole numbers"),
    "null": ({"text": None}, "text holds null"),
    "null in a struct": ({"first": mark(name=None)}, "first.name holds null"),
    "null in a list of structs": ({"marks": [mark(), mark(name=None)]}, "marks.name holds null"),
    "no number": ({"share": math.nan}, "share holds NaN"),
    "infinite": ({"share": math.inf}, "share holds NaN or an infinite"),
    "negative infinite": ({"share": -math.inf}, "share holds NaN or an infinite"),
    "no number in a struct": ({"first": mark(weight=math.nan)}, "first.weight holds NaN"),
    "infinite in a list of structs": ({"marks": [mark(weight=math.inf)]}, "marks.weight holds NaN"),
    "a missing field of a struct": ({"first": {"start": 1, "name": "n"}}, "first and its schema differ in weight"),
    "an unknown field in a list": ({"marks": [mark(end=2)]}, "marks and its schema differ in end"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_row_that_breaks_its_schema_is_refused(wrong: str, tmp_path: Path) -> None:
    changes, sentence = WRONG[wrong]
    row = {name: value for name, value in note(**changes).items() if value is not ...}
    with pytest.raises(SchemaError, match=sentence):
        write(tmp_path, [note(), row])
    assert not (tmp_path / "stages" / "notes" / "parts").exists() or published(tmp_path) == []


def published(home: Path) -> list[str]:
    return [path.name for path in (home / "stages" / "notes" / "parts").glob("[!.]*")]


@pytest.mark.parametrize("changed", [{"votes": None}, {"first": None}, {"first": mark(weight=None)}, {"marks": []}])
def test_what_the_schema_allows_to_be_absent_may_be(changed: Row, tmp_path: Path) -> None:
    rows = [note(1), note(2, **changed)]
    store, (part,) = write(tmp_path, rows)
    assert pq.read_table(store.rows_path(part)).to_pylist() == rows


def test_a_batch_is_checked_as_rows_are(tmp_path: Path) -> None:
    sound = pa.RecordBatch.from_pylist([note()], NOTES)
    other = [sound.drop_columns(["text"]), sound.append_column("title", pa.array(["T"]))]
    other.append(pa.RecordBatch.from_pylist([note(votes=None)], NOTES.set(3, pa.field("votes", pa.int64()))))
    for batch in other:
        with pytest.raises(SchemaError, match="its schema says"):
            write(tmp_path, [batch])
    for row in (note(share=math.nan), note(text=None), note(marks=[mark(weight=math.nan)])):
        with pytest.raises(SchemaError):
            write(tmp_path, [pa.RecordBatch.from_pylist([row], NOTES)])
    assert write(tmp_path, [sound])[1][0].rows == 1


# ---------------------------------------------------------------- where rows are cut


@settings(max_examples=25)
@given(
    st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), max_size=40), st.integers(0, 3)
)
def test_every_row_is_in_the_part_of_its_range_of_the_hash(names: set[str], bits: int) -> None:
    rows = sorted((note(site="ale", number=name) for name in names), key=lambda row: xxh3(row["note_id"]))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as home:
        store, parts = write(Path(home), rows, part_keys("ale", bits))
        assert [part.key for part in parts] == [f"ale/{bits}-{index:05d}" for index in range(2**bits)]
        found = [ids(store, part) for part in parts]
    expected: list[list[str]] = [[] for _ in range(2**bits)]
    for row in rows:
        expected[xxh3(row["note_id"]) * 2**bits // 2**64].append(row["note_id"])
    assert found == expected


def test_rows_out_of_the_order_of_their_hash_are_refused(tmp_path: Path) -> None:
    rows = sorted((note(number) for number in range(20)), key=lambda row: xxh3(row["note_id"]), reverse=True)
    with pytest.raises(SchemaError, match="out of the order of note_id: sort them by its hash"):
        write(tmp_path, rows, part_keys("ale", 1))


def test_parts_without_rows_are_there_too(tmp_path: Path) -> None:
    last = next(number for number in range(100) if xxh3(f"ale/{number}") * 4 // 2**64 == 3)
    store, parts = write(tmp_path, [note(last)], part_keys("ale", 2))
    assert [part.rows for part in parts] == [0, 0, 0, 1]
    assert [pq.read_schema(store.rows_path(part)).equals(NOTES) for part in parts] == [True] * 4
    store, parts = write(tmp_path, [], part_keys("ale", 2))
    assert [part.rows for part in parts] == [0, 0, 0, 0]


def test_several_groups_in_one_unit_keep_their_own_cut(tmp_path: Path) -> None:
    sites = {"ale": 1, "coffee": 0, "tea": 2}
    keys = [key for site, bits in sites.items() for key in part_keys(site, bits)]
    rows = [
        row
        for site in ("ale", "tea")  # coffee has none
        for row in sorted((note(number, site) for number in range(30)), key=lambda row: xxh3(row["note_id"]))
    ]
    store, parts = write(tmp_path, rows, keys)
    assert [part.key for part in parts] == keys
    for part in parts:
        site, index = part.key.split("/")[0], int(part.key[-5:])
        inside = {f"{site}/{n}" for n in range(30) if xxh3(f"{site}/{n}") * 2 ** sites[site] // 2**64 == index}
        assert set(ids(store, part)) == (set() if site == "coffee" else inside)


def test_split_by_cuts_a_part_once_more_by_a_column(tmp_path: Path) -> None:
    kinds = ["short", "long", "short", "odd"]
    store, parts = write(tmp_path, [note(n, kind=kind) for n, kind in enumerate(kinds)], split_by="kind")
    assert {part.key: ids(store, part) for part in parts} == {
        "ale/0-00000/long": ["ale/1"],
        "ale/0-00000/odd": ["ale/3"],
        "ale/0-00000/short": ["ale/0", "ale/2"],
    }


def test_the_id_of_a_part_is_its_content_and_key(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def part_id(key: str, *items: Row | Rejected) -> str:
        parts = Parts(store, "notes", NOTES, [key], None)
        for item in items:
            parts.add(item)
        return parts.finish()[0].id

    same = part_id("ale/0-00000", note(1)), part_id("ale/0-00000", note(1))
    assert same[0] == same[1]
    others = (
        part_id("ale/0-00000", note(2)),
        part_id("ale/1-00000", note(1)),
        part_id("ale/0-00000", note(1), Rejected("ale/3", "defect", "x")),
        part_id("ale/0-00000"),
    )
    assert len({same[0], *others}) == 5


# ---------------------------------------------------------------- rejected rows and counters


def test_rejected_rows_keep_their_raw_text(tmp_path: Path) -> None:
    raw = '<row Id="1"\n\tBody="é \x0b 日本" />'
    rejects = [
        Rejected("ale/1", "defect", "no score", raw=raw),
        Rejected("ale/2", "filtered", "short", detail="3 words"),
    ]
    store, (part,) = write(tmp_path, [rejects[0], note(), rejects[1], rejects[1]])
    assert part.rejected == (("defect", "no score", 1), ("filtered", "short", 2))
    assert part.rejected_sha256 == sha256_of(store.rejected_path(part))
    rows = pq.read_table(store.rejected_path(part)).to_pylist()
    assert [(row["key"], row["kind"], row["detail"], row["raw"]) for row in rows] == [
        ("ale/1", "defect", None, raw),
        ("ale/2", "filtered", "3 words", None),
        ("ale/2", "filtered", "3 words", None),
    ]


def test_many_rejected_rows_are_all_there_and_no_file_where_there_are_none(tmp_path: Path) -> None:
    rejects = [Rejected(f"ale/{number}", "filtered", "short") for number in range(2_500)]
    store, (part,) = write(tmp_path / "many", rejects)
    assert pq.read_table(store.rejected_path(part)).column("key").to_pylist() == [r.key for r in rejects]
    store, (part,) = write(tmp_path / "none", [note()])
    assert part.rejected_sha256 is None
    assert not store.rejected_path(part).exists()


def test_counters_are_of_the_part_that_was_being_written(tmp_path: Path) -> None:
    rows = sorted((note(number) for number in range(20)), key=lambda row: xxh3(row["note_id"]))
    parts = Parts(Store(tmp_path), "notes", NOTES, part_keys("ale", 1), None)
    for row in rows:
        parts.add(pa.RecordBatch.from_pylist([row], NOTES))
        parts.counts["upper" if xxh3(row["note_id"]) >= 2**63 else "lower"] += 1
    first, second = parts.finish()
    upper = sum(xxh3(row["note_id"]) >= 2**63 for row in rows)
    assert (first.counts, second.counts) == ((("lower", 20 - upper),), (("upper", upper),))


# ---------------------------------------------------------------- files


def test_the_bytes_are_equal_when_written_again(tmp_path: Path) -> None:
    items = [
        item for n in range(3_000) for item in (note(n, text=f"text {n}"), Rejected(f"ale/{n}", "defect", "x", raw="r"))
    ]
    made = [write(tmp_path / name, items) for name in ("one", "two")]
    (one, (first,)), (two, (second,)) = made
    assert first == second
    for path in ("rows_path", "rejected_path"):
        assert getattr(one, path)(first).read_bytes() == getattr(two, path)(second).read_bytes()


def test_rows_come_back_as_they_were_however_they_were_given(tmp_path: Path) -> None:
    rows = [note(number, votes=number - 5, text="é" * number) for number in range(10)]
    batch = pa.RecordBatch.from_pylist(rows[3:8], NOTES)
    store, (part,) = write(tmp_path, [*rows[:3], batch, *rows[8:]])
    assert pq.read_table(store.rows_path(part)).to_pylist() == rows
    assert (part.rows, part.bytes) == (10, store.rows_path(part).stat().st_size)
    assert part.sha256 == sha256_of(store.rows_path(part))


def test_files_are_zstd_with_dictionaries_for_all_but_long_texts(tmp_path: Path) -> None:
    rows = [note(number, text=f"text {number % 3}") for number in range(100)]
    store, (part,) = write(tmp_path, [*rows, Rejected("ale/200", "defect", "x", raw="r")])
    chunks = columns_of(store.rows_path(part))
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}
    assert sorted(name for name, chunk in chunks.items() if not chunk.has_dictionary_page) == ["text"]
    assert {"kind", "votes", "marks.list.element.name", "first.name"} < set(chunks)
    chunks = columns_of(store.rejected_path(part))
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}
    assert "raw" in [name for name, chunk in chunks.items() if not chunk.has_dictionary_page]
    assert chunks["reason"].has_dictionary_page


def columns_of(path: Path) -> dict[str, Any]:
    group = pq.read_metadata(path).row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([note(number) for number in range(7_000)], NOTES)
    store, (part,) = write(tmp_path, [batch] * 7)
    metadata = pq.read_metadata(store.rows_path(part))
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(sizes) == 49_000
    assert max(sizes) <= GROUP_ROWS


def test_the_documentation_of_columns_changes_no_byte(tmp_path: Path) -> None:
    store, (part,) = write(tmp_path, [note()])
    found = pq.read_schema(store.rows_path(part))
    assert found.metadata is None
    assert found.field("votes").metadata is None


def test_discarded_parts_leave_nothing(tmp_path: Path) -> None:
    parts = Parts(Store(tmp_path), "notes", NOTES, WHOLE_KEY, "kind")
    for item in (note(1), note(2, kind="long"), Rejected("ale/3", "defect", "x")):
        parts.add(item)
    parts.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
