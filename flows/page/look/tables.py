"""Rows of Parquet files for a page: filtered, sorted and cut into pages by DuckDB, within bounds.

A query has MEMORY and SECONDS; QUERIES run at a time, and others wait. It reads no file outside the home. Values are
bound, never part of the SQL; a name of a column is part of it only if the files have that column.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.rows import read_parquet
from longform.errors import BusyStore, StoreError, UsageError
from longform.hints import hint
from tasks.publishing.card import doc_of, type_name

MEMORY, THREADS, SPILLED = "512MB", 2, "8GB"
SECONDS, WAIT_SECONDS, QUERIES = 30.0, 30.0, 2
PAGE_ROWS = 50
CELL = 240
CONTAINS = "regexp_matches({}, ?, 'il')"  # in either case, the pattern taken to the letter: four times lower()'s rate
HOWS = {
    "contains": "contains",
    "equals": "is exactly",
    "least": "is at least",
    "most": "is at most",
    "missing": "is missing",
}

Kind = Literal["text", "number", "flag", "time", "other"]
Row = dict[str, Any]

_turns = threading.BoundedSemaphore(QUERIES)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, Arrow type in words, what kind of values it has, and what its schema says of it."""

    name: str
    type: str
    kind: Kind
    about: str = ""

    @property
    def sql(self) -> str:
        """The name as SQL has it."""
        return '"' + self.name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a column; `how` is one of HOWS."""

    column: str
    how: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Parquet files with the same columns, inside a home. `name`: what they are, for errors. `key`: the column that
    identifies a row.
    """

    home: Path
    name: str
    files: tuple[Path, ...]
    key: str
    columns: tuple[Column, ...] = ()

    def column(self, name: str) -> Column:
        """The column of this name; UsageError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise UsageError(f'{self.name} has no column "{name[:80]}"; {hint(name[:80], names, "it has")}')


@dataclass(frozen=True, slots=True)
class Page:
    """A page of rows. `cells`: column -> text, at most CELL characters of it (None: missing); `number` from 1; `rows`:
    how many the filters let through.
    """

    cells: list[dict[str, str | None]]
    number: int
    pages: int
    rows: int


@dataclass(frozen=True, slots=True)
class Question:
    """What a page asks of a table. `search`: a text that some text column contains. `sort`: a column, "" for the order
    of the files.
    """

    filters: tuple[Filter, ...] = ()
    search: str = ""
    sort: str = ""
    down: bool = False
    number: int = 1
    columns: tuple[str, ...] = field(default=())


def table_of(home: Path, name: str, files: Sequence[Path], key: str) -> Table:
    """The table that these files make. StoreError if the first of them cannot be read. Without files, or with rows in
    none of them, it has no column.
    """
    if not files:
        return Table(home, name, (), key)
    with readable(name):
        schema = pq.read_schema(files[0])
    return Table(home, name, tuple(files), key, tuple(map(_column, schema)))


def _column(found: pa.Field) -> Column:
    return Column(found.name, type_name(found.type), _kind(found.type), doc_of(found))


def _kind(type: pa.DataType) -> Kind:
    is_of = pa.types
    if is_of.is_string(type) or is_of.is_large_string(type):
        return "text"
    if is_of.is_integer(type) or is_of.is_floating(type):
        return "number"
    if is_of.is_boolean(type):
        return "flag"
    return "time" if is_of.is_timestamp(type) or is_of.is_date(type) else "other"


def page_of(table: Table, asked: Question) -> Page:
    """The rows that a question asks for. UsageError for an unknown column or a value that does not fit its column;
    StoreError if a file is damaged, or if this takes longer than SECONDS or more than MEMORY.
    """
    shown = [table.column(name) for name in asked.columns]
    condition, values = _condition(table, asked)
    if not table.files:
        return Page([], 1, 1, 0)
    order = f"{table.column(asked.sort).sql} {'DESC' if asked.down else 'ASC'} NULLS LAST," if asked.sort else ""
    with reading(table) as database:
        places = read_parquet(table.files)
        if condition:  # the columns that it needs are read once, whatever is done with what it finds
            kept = ", ".join(["filename", "file_row_number", *([table.column(asked.sort).sql] if asked.sort else [])])
            query = f"CREATE TEMP TABLE places AS SELECT {kept} FROM {places} WHERE {condition}"
            database.execute(query, values)
            places = "places"
        ((rows,),) = _fetch(database, f"SELECT count(*) FROM {places}")
        pages = max(1, -(-rows // PAGE_ROWS))
        number = min(max(1, asked.number), pages)
        found = _fetch(
            database,
            f"SELECT filename, file_row_number FROM {places} "
            + (f"ORDER BY {order} filename, file_row_number " if order else "")
            + f"LIMIT {PAGE_ROWS} OFFSET {(number - 1) * PAGE_ROWS}",
        )
        return Page(_cells(database, shown, found), number, pages, rows)


def _cells(
    database: duckdb.DuckDBPyConnection, shown: Sequence[Column], found: Sequence[tuple[str, int]]
) -> list[dict[str, str | None]]:
    """The shown columns of the rows at these places (file, number of the row), in this order. Only these rows are
    read of columns that neither filter nor order needed.
    """
    by_file: dict[str, list[int]] = {}
    for file, number in found:
        by_file.setdefault(file, []).append(int(number))
    texts = ", ".join(["file_row_number", *map(_shortened, shown)])
    cells: dict[tuple[str, int], dict[str, str | None]] = {}
    for file, numbers in by_file.items():
        listed = ", ".join(map(str, numbers))
        query = f"SELECT {texts} FROM {read_parquet([file])} WHERE file_row_number IN ({listed})"
        for number, *values in _fetch(database, query):
            cells[file, number] = dict(zip((column.name for column in shown), values, strict=True))
    return [cells[place] for place in found]


def _shortened(column: Column) -> str:
    """SQL for the beginning of a column's value as text."""
    value = column.sql if column.kind == "text" else f"CAST({column.sql} AS VARCHAR)"
    return f"left({value}, {CELL + 1})"


def _condition(table: Table, asked: Question) -> tuple[str, list[Any]]:
    """(an SQL condition, the values of its question marks); "" if nothing is asked."""
    pieces, values = list[str](), list[Any]()
    for each in asked.filters:
        piece, value = _compared(table.column(each.column), each)
        pieces.append(piece)
        values += value
    if asked.search:
        texts = [column for column in table.columns if column.kind == "text"]
        found = " OR ".join(CONTAINS.format(column.sql) for column in texts) or "false"
        pieces.append(f"({found})")
        values += [asked.search] * len(texts)
    return " AND ".join(pieces), values


def _compared(column: Column, asked: Filter) -> tuple[str, list[Any]]:
    """(SQL for one filter, its values). UsageError for an unknown way to compare, or a value that does not fit."""
    if asked.how == "missing":
        return f"{column.sql} IS NULL", []
    if asked.how == "contains" or column.kind == "other":
        return CONTAINS.format(_searched(column)), [asked.value]
    signs = {"equals": "=", "least": ">=", "most": "<="}
    if asked.how not in signs:
        raise UsageError(f'A column is not compared by "{asked.how[:40]}": take one of {", ".join(HOWS)}.')
    return f"{column.sql} {signs[asked.how]} ?", [_value(column, asked.value)]


def _searched(column: Column) -> str:
    """SQL for a column's value as the text in which another is looked for."""
    if column.type == "list of string":
        return f"array_to_string({column.sql}, chr(10))"
    return column.sql if column.kind == "text" else f"CAST({column.sql} AS VARCHAR)"


def _value(column: Column, text: str) -> Any:
    """The value that a person wrote, in the type of its column. UsageError if it does not fit."""
    try:
        if column.kind == "number":
            return _number(text)
        if column.kind == "flag":
            return {"true": True, "yes": True, "false": False, "no": False}[text.strip().lower()]
        if column.kind == "time":
            return datetime.fromisoformat(text.strip()) if "timestamp" in column.type else date.fromisoformat(text)
    except (ValueError, KeyError, OverflowError):
        kinds = {"number": "numbers", "flag": "true or false", "time": "dates, as 2026-11-20"}
        raise UsageError(f'{column.name} holds {kinds[column.kind]}, and "{text[:40]}" is none.') from None
    return text


def _number(text: str) -> int | float:
    cleaned = text.strip().replace(",", "")
    try:
        whole = int(cleaned)
    except ValueError:
        return float(cleaned)
    return whole if abs(whole) < 2**63 else float(whole)


def counted(table: Table, column: str, most: int = 50) -> list[tuple[Any, int]]:
    """(value, number of rows) of a column's values, the commonest first, at most `most` of them."""
    if not table.files:
        return []
    name = table.column(column).sql
    query = f"SELECT {name}, count(*) FROM {read_parquet(table.files)} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {most}"
    with reading(table) as database:
        return _fetch(database, query)


def rows_named(table: Table, columns: Sequence[str], values: Sequence[str], most: int) -> list[Row]:
    """At most `most` whole rows of which one of the columns has one of the values."""
    if not (table.files and columns and values):
        return []
    named = " OR ".join(f"{table.column(name).sql} IN (SELECT unnest(?))" for name in columns)
    with reading(table) as database:
        query = f"SELECT * FROM {read_parquet(table.files)} WHERE {named} LIMIT {most}"
        found = database.execute(query, [list(values)] * len(columns))
        names = [each[0] for each in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def exactly(table: Table, filters: Mapping[str, str], most: int, first: int) -> list[Row]:
    """Whole rows, `most` from the one with the number `first` (from 0), in which each column has its value; with
    `filename`, the file that holds the row.
    """
    if not table.files:
        return []
    condition = " AND ".join(["true", *(f"{table.column(name).sql} = ?" for name in filters)])
    with reading(table) as database:
        query = f"SELECT *, filename FROM {read_parquet(table.files)} WHERE {condition} LIMIT {most} OFFSET {first}"
        found = database.execute(query, list(filters.values()))
        names = [each[0] for each in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _fetch(database: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return database.execute(query).fetchall()


@contextmanager
def taking_turns() -> Iterator[None]:
    """A context for what reads many rows: QUERIES of them at a time. BusyStore after WAIT_SECONDS of waiting."""
    if not _turns.acquire(timeout=WAIT_SECONDS):
        raise BusyStore("Other pages read rows at this moment, and this one waited long: load it again.")
    try:
        yield
    finally:
        _turns.release()


@contextmanager
def reading(table: Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that may read files of the table's home, within the bounds. Errors of DuckDB become StoreErrors."""
    bounds: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": THREADS,
        "temp_directory": str(Path(tempfile.gettempdir()) / "longform-page"),
        "max_temp_directory_size": SPILLED,
        "autoload_known_extensions": False,
    }
    folders = ", ".join("'" + str(each).replace("'", "''") + "'" for each in (table.home, table.home.resolve()))
    with taking_turns(), readable(table.name), duckdb.connect(config=bounds) as database:
        database.execute(f"SET allowed_directories = [{folders}]")
        database.execute("SET enable_external_access = false")
        timer = threading.Timer(SECONDS, database.interrupt)
        timer.start()
        try:
            yield database
        finally:
            timer.cancel()


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns what DuckDB and Arrow raise into a StoreError that says what to do."""
    try:
        yield
    except duckdb.InterruptException:
        raise BusyStore(
            f"{name}: this took more than {SECONDS:.0f} seconds. Filter by a shorter column first, or read the files "
            "with DuckDB."
        ) from None
    except duckdb.OutOfMemoryException:
        raise BusyStore(f"{name}: this takes more than {MEMORY}. Show fewer columns, or filter first.") from None
    except (duckdb.Error, OSError, pa.ArrowInvalid, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())[:300]
        raise StoreError(
            f"A file of {name} cannot be read ({said}). `longform verify` says which files are damaged: put them back "
            "from a copy, or build again."
        ) from None
