"""Nothing vanishes: every input row is the parent of an output row, or is a rejected row."""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from longform.artifacts.rows import Rows, read_parquet
from longform.artifacts.store import Part, Store
from longform.errors import ConservationError
from longform.machines import temporary

if TYPE_CHECKING:
    import duckdb

NONE = "SELECT NULL::VARCHAR AS id LIMIT 0"


def check_conservation(
    store: Store,
    stage: str,
    schema: pa.Schema,
    made: list[Part],
    inputs: list[Rows],
    looked_up: Sequence[Rows] = (),
) -> None:
    """Raise ConservationError where an input row is neither a parent nor rejected, or a parent is no input row.

    Checked for every input whose key the output carries; several inputs of one key are checked together. What is
    rejected may be a row of any of them. A parent may also be a row of an input that is only looked things up in.
    What does not fit in memory spills into the home.
    """
    given, more = _by_key(inputs), _by_key(looked_up)
    for key, paths in given.items():
        columns = parent_columns(schema, key)
        if columns:
            others = {other: given.get(other, []) + more.get(other, []) for other in {**given, **more} if other != key}
            _check(store, stage, key, columns, paths, more.get(key, []), others, made)


def _by_key(tables: Sequence[Rows]) -> dict[str, list[str]]:
    """key -> the files of the tables that have it."""
    return {rows.key: [path for one in tables if one.key == rows.key for path in one.paths] for rows in tables}


def parent_columns(schema: pa.Schema, key: str) -> list[str]:
    """Where a table carries the key of its parents: paths such as `answers.answer_id`."""
    declared: dict[str, list[str]] = json.loads(schema.metadata[b"parents"])
    return declared.get(key, [key] if key in schema.names else [])


def _check(
    store: Store,
    stage: str,
    key: str,
    columns: list[str],
    given: list[str],
    more: list[str],
    others: dict[str, list[str]],
    made: list[Part],
) -> None:
    outputs = [str(store.rows_path(part)) for part in made if part.rows]
    rejected = [str(store.rejected_path(part)) for part in made if part.rejected_sha256]
    parents = [_select(column, outputs) for column in columns if outputs]
    parents += [_rejected(rejected, others)] if rejected else []
    inputs, allowed = (_select(key, paths) if paths else NONE for paths in (given, given + more))
    known = " UNION ALL ".join(parents) or NONE
    _compare(store, stage, key, inputs, known, allowed)


def _rejected(rejected: list[str], others: dict[str, list[str]]) -> str:
    """Keys of rejected rows, without those that are rows of an input of another key."""
    known = [f"(SELECT {key} AS key FROM {read_parquet(paths)}) USING (key)" for key, paths in others.items() if paths]
    return " ANTI JOIN ".join([f"SELECT key AS id FROM {read_parquet(rejected)}", *known])


@lru_cache(maxsize=1)
def _database(home: Path) -> duckdb.DuckDBPyConnection:
    """One a process: to open one takes longer than most checks."""
    import duckdb  # 60 ms and 25 MB of each worker, which stages of sources have no use for

    place = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    spill = str(place / temporary())
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "512MB",
        "threads": 2,
        "temp_directory": spill,
        "enable_external_file_cache": False,  # memory of every worker that lives as long as it
    }
    return duckdb.connect(config=settings)


atexit.register(_database.cache_clear)  # DuckDB complains of what is open later than that


def _compare(store: Store, stage: str, key: str, inputs: str, known: str, allowed: str) -> None:
    with _database(store.home).cursor() as database:
        for left, right, text in (
            (inputs, known, "is neither the parent of a row nor rejected"),
            (known, allowed, "is no row of its input"),
        ):
            query = f"SELECT count(*), min(id) FROM ({left}) AS a ANTI JOIN ({right}) AS b USING (id)"
            number, example = database.execute(query).fetchone() or (0, None)
            if number:
                raise ConservationError(f"{stage}: {key} {example} {text} ({number:,} such): a bug of this stage.")


def _select(column: str, paths: list[str]) -> str:
    if "." not in column:
        return f"SELECT {column} AS id FROM {read_parquet(paths)}"
    outer, inner = column.split(".")
    return f"SELECT unnest({outer}).{inner} AS id FROM {read_parquet(paths)}"
