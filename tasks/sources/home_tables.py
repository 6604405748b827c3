"""The tables of a home: which Parquet files of its stages have which columns, and queries of many of them at once.

A home may have a hundred thousand parts, whose footers hold few different schemas. The start of a footer, which has the
schema alone, is therefore compared as bytes, and read only where it is new. What was found is kept until a part is
added or removed, as the times of the folders of parts say; parts themselves never change.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from longform.artifacts.rows import read_parquet
from tasks.sources.parquet_footers import schema_bytes

FILES, ROWS = 1_000, 10_000


@dataclass(frozen=True, slots=True)
class Table:
    """The files that have the same schema, of all stages of a home, sorted."""

    schema: pa.Schema
    paths: list[str] = field(default_factory=list)

    def has(self, columns: Collection[str]) -> bool:
        """Whether it has all these columns."""
        return set(columns) <= set(self.schema.names)


_KNOWN: dict[Path, tuple[tuple[tuple[str, int], ...], list[Table]]] = {}


def tables_of(home: Path) -> list[Table]:
    """The tables of a home's stages, one for each schema; StoreError for a file that is no Parquet file."""
    folders = sorted((home / "stages").glob("*/parts"))
    state = tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders)
    if _KNOWN.get(home, (None, []))[0] != state:
        _KNOWN.clear()
        _KNOWN[home] = state, _read(folders)
    return _KNOWN[home][1]


def _read(folders: list[Path]) -> list[Table]:
    """The tables of these folders of parts."""
    import pyarrow.parquet as pq

    found: dict[bytes, Table] = {}
    for folder in folders:
        for path in _files(folder):
            start = schema_bytes(path, found)
            if start is not None and start not in found:
                found[start] = Table(pq.read_schema(path).remove_metadata())
            if start is not None:
                found[start].paths.append(path)
    return list(found.values())


def _files(folder: Path) -> list[str]:
    """Where the rows of a folder's parts are, sorted; a part that is being written, whose name starts with a dot, is
    none of them.
    """
    names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    return [f"{folder}/{name}/rows.parquet" for name in names]


def batches_of(query: str, paths: list[str], listed: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a DuckDB query of these Parquet files of one schema, FILES of them at once, so that a query that
    joins, groups or says DISTINCT does so among these. {} in the query stands for the files, and `listed` for a table
    whose column `id` has these texts.
    """
    import duckdb

    if not paths:
        return
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        database.register("listed", pa.table({"id": pa.array(sorted(listed), pa.string())}))
        for first in range(0, len(paths), FILES):
            files = read_parquet(paths[first : first + FILES])
            yield from database.sql(query.replace("{}", files)).to_arrow_reader(ROWS)


def rows_of(query: str, paths: list[str], listed: Collection[str] = ()) -> Iterator[tuple[str, ...]]:
    """As `batches_of`, a tuple for each row."""
    for batch in batches_of(query, paths, listed):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
