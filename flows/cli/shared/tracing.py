"""Tracing a published row back to what it was made from, by the dataset's own `trace`, else by the ids in the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from flows.registry import module_of, stages_of
from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.engine.stage import Stage
from longform.errors import UsageError

Line = tuple[str, str]
TEXTS = ("text", "question", "claim", "answer")
MAX_CHARACTERS = 160
MODEL = ("model", "prompt", "response")


def example_row_id(version: Version) -> str:
    """The id of a published row that is worth tracing: the dataset's choice, else the first by id."""
    of_dataset = getattr(module_of(version.dataset), "example_row_id", None)
    return str(of_dataset(version)) if of_dataset else first_row(version)


def trace_row(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """The published row, the stage rows behind it, and `lines` of (title, text) to print.

    Raises UsageError if no row, or more than one, begins with `row_id`.
    """
    of_dataset = getattr(module_of(version.dataset), "trace", None)
    return (
        dict(of_dataset(store, version, row_id))
        if of_dataset
        else trace_by_ids(store, version, row_id, stages_of(version.dataset))
    )


def first_row(version: Version) -> str:
    """The lowest row id of a version's default config."""
    config, paths = next(iter(version.tables().items()))
    return str(_rows(f"SELECT min({version.key(config)}) AS id FROM {read_parquet(paths)}")[0]["id"])


def trace_by_ids(store: Store, version: Version, row_id: str, stages: Mapping[str, Stage]) -> dict[str, Any]:
    """As `trace_row` for any dataset: the rows of each stage whose key column the row has."""
    config, row = published_row(version, row_id)
    stage_rows = list(_stage_rows(store, version, row, stages))
    lines = [("row", f"{row[version.key(config)]}   {config}/{row.get('split', '')}"), *_lines(stage_rows)]
    built = [f"{stage} {fingerprint[:8]}" for stage, fingerprint in reversed(version.stages.items())]
    lines.append(("built by", " <- ".join(built)))
    return {"row": row, "config": config, "behind": stage_rows, "stages": version.stages, "lines": lines}


def published_row(version: Version, row_id: str) -> tuple[str, dict[str, Any]]:
    """(config, row) of the published row whose id is or begins with `row_id`; UsageError if there is not
    exactly one.
    """
    found = []
    for config, paths in version.tables().items():
        key = version.key(config)
        query = f"SELECT * FROM {read_parquet(paths)} WHERE starts_with({key}, ?) ORDER BY {key} LIMIT 2"
        rows = [(config, row) for row in _rows(query, row_id)]
        if rows and rows[0][1][key] == row_id:
            return rows[0]
        found += rows
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"More than one row of {version.dataset} {version.name} begins with {row_id}: give more of it."
        )
    keys = " or ".join(dict.fromkeys(f"a {version.key(config)}" for config in version.tables()))
    raise UsageError(
        f"{version.dataset} {version.name} has no row {row_id}: "
        f"take {keys} of its Parquet files, or the beginning of one."
    )


def _stage_rows(
    store: Store, version: Version, row: dict[str, Any], stages: Mapping[str, Stage]
) -> Iterator[dict[str, Any]]:
    """The stage rows whose key is one of the row's ids, with their stage, in the order of the stages."""
    for stage in version.stages:
        key = stages[stage].schema.metadata[b"key"].decode()
        if isinstance(value := row.get(key), str):
            built = artifact(store, version, stage)
            paths = [store.rows_path(part) for part in built.parts if part.rows]
            found = _rows(f"SELECT * FROM {read_parquet(paths)} WHERE {key} = ? LIMIT 1", value) if paths else []
            yield from ({"stage": stage, "key": key, **found_row} for found_row in found)


def _lines(stage_rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """The lines of stage rows, with the beginning of the text at its first occurrence."""
    seen_titles: set[str] = set()
    for row in stage_rows:
        title = row["key"].removesuffix("_id")
        words = " ".join(next((text for name in TEXTS if isinstance(text := row.get(name), str)), "").split())
        excerpt = (
            f'   "{words[:MAX_CHARACTERS]}{"…" if len(words) > MAX_CHARACTERS else ""}"'
            if words and title not in seen_titles
            else ""
        )
        yield ("" if title in seen_titles else title), f"{row[row['key']]}   {row['stage']}{excerpt}"
        seen_titles.add(title)
        if row.get("response"):
            yield "", " · ".join(f"{name} {row[name]}" for name in MODEL if row.get(name))


def _rows(query: str, *values: str) -> list[dict[str, Any]]:
    with duckdb.connect() as database:
        cursor = database.execute(query, list(values))
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]


def _plain(value: Any) -> Any:
    """The value with dates as text."""
    return value.isoformat() if hasattr(value, "isoformat") else value
