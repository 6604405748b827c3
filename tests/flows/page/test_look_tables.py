"""Rows are filtered, sorted and paged as an independent reading of the same files says, and within bounds."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.page.look.shown import plain, whole
from flows.page.look.tables import Filter, Question, Table, exactly, page_of, reading, table_of
from longform.errors import StoreError, UsageError

Row = dict[str, Any]
QUOTED = 'a "b" -- c'


def row(number: int) -> Row:
    return {
        "id": f"r{number:03}",
        "text": [None, "50 % of O'Brien's <b>Äpfel</b>", "a.b.c", "A\\Eb _x_"][number % 4],
        "number": None if number % 7 == 0 else number % 13,
        "share": number / 8,
        "flag": number % 3 == 0,
        "at": datetime.datetime(2024, 1, 1) + datetime.timedelta(days=number),
        "names": [f"n{number}", "all"],
        QUOTED: number,
    }


ROWS = [row(number) for number in range(130)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The rows in two files, the second with several row groups."""
    home = tmp_path_factory.mktemp("it's a home")
    whole = pa.Table.from_pylist(ROWS)
    pq.write_table(whole.slice(0, 60), home / "a.parquet")
    pq.write_table(whole.slice(60), home / "b.parquet", row_group_size=10)
    return table_of(home, "rows", [home / "a.parquet", home / "b.parquet"], "id")


def ids(table: Table, **asked: Any) -> list[str | None]:
    """The ids on all pages of a question."""
    found: list[str | None] = []
    number = 1
    while True:
        page = page_of(table, Question(columns=("id",), number=number, **asked))
        found += [cells["id"] for cells in page.cells]
        if number >= page.pages:
            assert page.rows == len(found)
            return found
        number += 1


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (Filter("text", "contains", "äPFEL"), lambda r: r["text"] and "Äpfel" in r["text"]),
        (Filter("text", "contains", "."), lambda r: r["text"] == "a.b.c"),
        (Filter("text", "contains", "%"), lambda r: r["text"] and "%" in r["text"]),
        (Filter("text", "contains", "_"), lambda r: r["text"] and "_" in r["text"]),
        (Filter("text", "contains", "\\E"), lambda r: r["text"] and "\\E" in r["text"]),
        (Filter("text", "contains", "' OR 1=1 --"), lambda r: False),
        (Filter("text", "equals", "a.b.c"), lambda r: r["text"] == "a.b.c"),
        (Filter("text", "missing"), lambda r: r["text"] is None),
        (Filter("number", "equals", "5"), lambda r: r["number"] == 5),
        (Filter("number", "least", "9.5"), lambda r: r["number"] is not None and r["number"] >= 9.5),
        (Filter("number", "most", "-1"), lambda r: False),
        (Filter("number", "most", "9" * 60), lambda r: r["number"] is not None),
        (Filter("number", "missing"), lambda r: r["number"] is None),
        (Filter("share", "equals", "1.125"), lambda r: r["share"] == 1.125),
        (Filter("flag", "equals", "Yes"), lambda r: r["flag"]),
        (Filter("at", "least", "2024-03-01"), lambda r: r["at"] >= datetime.datetime(2024, 3, 1)),
        (Filter("at", "most", "2024-01-02T00:00:00"), lambda r: r["at"] <= datetime.datetime(2024, 1, 2)),
        (Filter("names", "contains", "N12"), lambda r: any("n12" in name for name in r["names"])),
        (Filter(QUOTED, "least", "125"), lambda r: r[QUOTED] >= 125),
    ],
)
def test_a_filter_lets_the_rows_through_that_fit(table: Table, asked: Filter, fits: Callable[[Row], bool]) -> None:
    assert ids(table, filters=(asked,)) == [r["id"] for r in ROWS if fits(r)]


def test_filters_and_search_must_all_fit(table: Table) -> None:
    asked = (Filter("number", "least", "6"), Filter("flag", "equals", "false"))
    wanted = [r["id"] for r in ROWS if (r["number"] or 0) >= 6 and not r["flag"] and r["text"] == "a.b.c"]
    assert wanted
    assert ids(table, filters=asked, search="B.C") == wanted


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("column", ["number", "text", "at", QUOTED])
def test_the_whole_table_is_sorted_with_missing_values_last(table: Table, column: str, down: bool) -> None:
    known = [r for r in ROWS if r[column] is not None]
    by_bytes = lambda r: r[column].encode() if isinstance(r[column], str) else r[column]  # noqa: E731
    wanted = sorted(known, key=by_bytes, reverse=down)
    if down:  # rows that are equal stay in the order of the files
        wanted = [r for value in dict.fromkeys(map(by_bytes, wanted)) for r in known if by_bytes(r) == value]
    missing = [r["id"] for r in ROWS if r[column] is None]
    assert ids(table, sort=column, down=down) == [r["id"] for r in wanted] + missing


def test_a_page_beyond_the_last_is_the_last(table: Table) -> None:
    page = page_of(table, Question(columns=("id",), number=10**9))
    assert (page.number, page.pages, page.cells[-1]) == (3, 3, {"id": "r129"})


@pytest.mark.parametrize(
    "asked",
    [
        Question(columns=('id", (SELECT 1) AS "x',)),
        Question(sort="id; DROP TABLE x"),
        Question(filters=(Filter("nothing", "equals", "1"),)),
        Question(filters=(Filter("id", "= '' OR", "1"),)),
        Question(filters=(Filter("number", "equals", "five"),)),
        Question(filters=(Filter("flag", "equals", "perhaps"),)),
        Question(filters=(Filter("at", "least", "yesterday"),)),
    ],
)
def test_what_does_not_fit_the_columns_is_refused(table: Table, asked: Question) -> None:
    with pytest.raises(UsageError, match=r"column|compared|holds"):
        page_of(table, asked)


def test_exact_values_find_whole_rows(table: Table) -> None:
    (found,) = exactly(table, {"text": "a.b.c", "id": "r002"}, 5, 0)
    assert {**ROWS[2], "filename": str(table.files[0])} == found


def test_a_query_reads_nothing_outside_the_home(table: Table, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(StoreError, match="disabled"), reading(table) as database:
        database.execute(f"SELECT * FROM read_parquet('{tmp_path / 'x.parquet'}')")
    with pytest.raises(StoreError, match="Cannot enable"), reading(table) as database:
        database.execute("SET enable_external_access = true")
    assert duckdb.sql(f"SELECT x FROM '{tmp_path / 'x.parquet'}'").fetchall() == [(1,)]


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-200], lambda b: b[:200] + bytes(400) + b[600:]])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path, compression="zstd")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StoreError, match="longform verify"):
        page_of(table_of(tmp_path, "rows", [path], "id"), Question(columns=("id", "text"), sort="text"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.1 + 0.2, "0.3"),
        (b"abc", "3 bytes"),
        (datetime.date(2024, 2, 1), "2024-02-01"),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.timedelta(days=1), "1 day, 0:00:00"),
        ([decimal.Decimal("1.5"), "ä"], '[\n "1.5",\n "ä"\n]'),
        ({(1, 2): "map"}, "{(1, 2): 'map'}"),
    ],
)
def test_any_value_of_a_parquet_file_has_a_text(value: Any, text: str) -> None:
    assert plain(value) == text


def test_no_page_holds_more_of_a_text_than_it_can() -> None:
    assert whole("x" * 10_000_000).endswith("x\n… 9,800,000 more characters")
