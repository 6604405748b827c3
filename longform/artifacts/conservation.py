"""The check that no row vanishes: every input row is the parent of an output row, or is a rejected row."""

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
    parts: list[Part],
    inputs: list[Rows],
    side_inputs: Sequence[Rows] = (),
    only: str | None = None,
) -> None:
    """Raise ConservationError if a row of `inputs` is neither the parent of a row in `parts` nor rejected, or if a
    parent or a rejected row is a row of no input. `stage`: its name, for the message. `schema`: of the rows in
    `parts`; its columns with keys of input rows name their parents.

    Inputs with the same key column are checked together. Inputs whose keys no column of the schema holds are not
    checked. A rejected row may come from any input. A parent may also come from `side_inputs`, whose rows need not all
    be used. A null parent is a row of no input. `only`: SQL condition of the rows of the first input that the stage is
    for; the others may be in no output. DuckDB spills what does not fit in memory to the store's home.
    """
    input_files, side_files = _by_key(inputs), _by_key(side_inputs)
    outputs = [str(store.rows_path(part)) for part in parts if part.rows]
    rejected = [str(store.rejected_path(part)) for part in parts if part.rejected_sha256]
    for key, paths in input_files.items():
        if columns := parent_columns(schema, key):
            others = {
                other: input_files.get(other, []) + side_files.get(other, []) for other in {**input_files, **side_files}
            }
            del others[key]
            known = [_select(column, outputs) for column in columns if outputs]
            known += [_rejected(rejected, others)] if rejected else []
            read, allowed = (
                _select(key, files) if files else NONE for files in (paths, paths + side_files.get(key, []))
            )
            if only is not None and key == inputs[0].key:
                read = _select_only(key, inputs, only)
            _check_ids(store, stage, key, read, " UNION ALL ".join(known) or NONE, allowed)


def _select_only(key: str, inputs: Sequence[Rows], only: str) -> str:
    """A DuckDB query for the keys of the first input's rows for which the condition is true, and for all of the other
    inputs with the same key column, as `id`.
    """
    first, *others = (rows for rows in inputs if rows.key == key)
    queries = [f"{_select(key, first.paths)} WHERE {only}"] if first.paths else []
    queries += [_select(key, rows.paths) for rows in others if rows.paths]
    return " UNION ALL ".join(queries) or NONE


def _by_key(tables: Sequence[Rows]) -> dict[str, list[str]]:
    """key column -> the paths of the Parquet files of all tables whose rows are identified by this column."""
    return {rows.key: [path for table in tables if table.key == rows.key for path in table.paths] for rows in tables}


def parent_columns(schema: pa.Schema, key: str) -> list[str]:
    """The columns of an output schema that hold values of the input's key column `key`: those that the schema's
    metadata (`parents`) names for it, e.g. `answers.answer_id` inside a list of structs; else the column `key` itself.
    Empty if the schema has none.
    """
    declared: dict[str, list[str]] = json.loads(schema.metadata[b"parents"])
    return declared.get(key, [key] if key in schema.names else [])


def _rejected(rejected: list[str], other_files: dict[str, list[str]]) -> str:
    """A DuckDB query for the keys in the Parquet files `rejected`, as `id`, without keys of inputs that have another
    key column. `other_files`: the key column of such inputs -> their Parquet files.
    """
    queries = [
        f"(SELECT {key} AS key FROM {read_parquet(paths)}) USING (key)" for key, paths in other_files.items() if paths
    ]
    return " ANTI JOIN ".join([f"SELECT key AS id FROM {read_parquet(rejected)}", *queries])


@lru_cache(maxsize=1)
def _database(home: Path) -> duckdb.DuckDBPyConnection:
    """The DuckDB connection of this process, opened once, as opening takes longer than most checks: two threads, 512
    MB of memory. It spills to a temporary folder in `home`, or in the system's temporary folder if `home` is
    read-only.
    """
    import duckdb  # 60 ms and 25 MB of each worker, which stages of sources have no use for

    place = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    return duckdb.connect(
        config={
            "memory_limit": "512MB",
            "threads": 2,
            "temp_directory": str(place / temporary()),
            "enable_external_file_cache": False,  # memory of every worker that lives as long as it
        }
    )


atexit.register(_database.cache_clear)  # DuckDB complains of what is open later than that


def _check_ids(store: Store, stage: str, key: str, input_ids: str, output_ids: str, allowed_ids: str) -> None:
    """Raise ConservationError if the query `input_ids` yields an id that `output_ids` does not, or `output_ids` yields
    one that `allowed_ids` does not. All three are DuckDB queries with a column `id`. `stage` and `key`, the name of
    the key column, are for the message.
    """
    with _database(store.home).cursor() as database:
        for left, right, text in (
            (input_ids, output_ids, "is neither the parent of a row nor rejected"),
            (output_ids, allowed_ids, "is no row of its input"),
        ):
            query = f"SELECT count(*), min(id) FROM ({left}) AS a ANTI JOIN ({right}) AS b USING (id)"
            number, example = database.execute(query).fetchone() or (0, None)
            if number:
                raise ConservationError(f"{stage}: {key} {example} {text} ({number:,} such): a bug of this stage.")


def _select(column: str, paths: list[str]) -> str:
    """A DuckDB query for the values of a column in Parquet files, as `id`. The column may be a field of a list of
    structs (`answers.answer_id`), which gives a row for each struct.
    """
    if "." not in column:
        return f"SELECT {column} AS id FROM {read_parquet(paths)}"
    outer, inner = column.split(".")
    return f"SELECT unnest({outer}).{inner} AS id FROM {read_parquet(paths)}"
