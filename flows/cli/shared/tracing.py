"""Tracing a published row back to the stage rows that it was made from: by the dataset's own `trace`, else by the ids
in the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.registry import module_of, stages_of
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.stage import Stage
from tasks.publishing.lineage import Line, published_row, rows_where, short, stage_rows_where

TEXTS = ("text", "question", "claim", "answer")
MODEL = ("model", "prompt", "response")


def example_row_id(version: Version) -> str:
    """The id of a published row to show as an example of a trace: what the dataset's own `example_row_id` returns; for
    a dataset without that function the lowest row id (`first_row`).
    """
    of_dataset = getattr(module_of(version.dataset), "example_row_id", None)
    return str(of_dataset(version)) if of_dataset else first_row(version)


def trace_row(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """A JSON value with the published row whose id is `row_id` or begins with it, the stage rows that it was made from,
    and `lines`, (title, text) pairs to print.

    Raises UsageError if no row has such an id, or if several ids begin with `row_id` and none is equal to it.
    """
    of_dataset = getattr(module_of(version.dataset), "trace", None)
    return (
        dict(of_dataset(store, version, row_id))
        if of_dataset
        else trace_by_ids(store, version, row_id, stages_of(version.dataset))
    )


def first_row(version: Version) -> str:
    """The lowest row id in the first config of a version that has files, mostly the default one; empty if these files
    have no row. StopIteration if no config has a file.
    """
    config, paths = next(iter(version.tables().items()))
    key = version.key(config)
    found = rows_where(paths, f"true ORDER BY {key} LIMIT 1")
    return str(found[0][key]) if found else ""


def trace_by_ids(store: Store, version: Version, row_id: str, stages: Mapping[str, Stage]) -> dict[str, Any]:
    """The result of `trace_row` for a dataset without its own `trace`: a dict of the published `row`, its `config`,
    the stage rows that it was made from (`behind`, found by the ids in the row), all `stages` (name -> fingerprint)
    and `lines`. UsageError as by `trace_row`.
    """
    config, row = published_row(version, row_id)
    behind = list(_stage_rows(store, version, row, stages))
    lines = [("row", f"{row[version.key(config)]}   {config}/{row.get('split', '')}"), *_lines(behind)]
    built = [f"{stage} {fingerprint[:8]}" for stage, fingerprint in reversed(version.stages.items())]
    lines.append(("built by", " <- ".join(built)))
    return {"row": row, "config": config, "behind": behind, "stages": version.stages, "lines": lines}


def _stage_rows(
    store: Store, version: Version, row: dict[str, Any], stages: Mapping[str, Stage]
) -> Iterator[dict[str, Any]]:
    """For each stage, in order, whose rows are identified by a column that the published row has too, with a string in
    it: the stage row with the same id, if there is one, as a dict of its columns, `stage` (the stage's name) and `key`
    (the name of that column).
    """
    for stage in version.stages:
        key = stages[stage].schema.metadata[b"key"].decode()
        if isinstance(value := row.get(key), str):
            found = stage_rows_where(store, version, stage, f"{key} = ? LIMIT 1", value)
            yield from ({"stage": stage, "key": key, **found_row} for found_row in found)


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """The printed lines (title, text) of rows as `_stage_rows` gives them.

    The title is the row's `key` (the name of its id column) without `_id`, empty if an earlier row had it. The text is
    the row's id and stage, and, beside a title that is not empty, the beginning of the first of the row's columns in
    TEXTS, if it has one. A row with a `response` is followed by a line without title: its model, prompt and response.
    """
    seen_titles: set[str] = set()
    for row in rows:
        title = row["key"].removesuffix("_id")
        words = short(next((text for name in TEXTS if isinstance(text := row.get(name), str)), ""))
        excerpt = f'   "{words}"' if words and title not in seen_titles else ""
        yield ("" if title in seen_titles else title), f"{row[row['key']]}   {row['stage']}{excerpt}"
        seen_titles.add(title)
        if row.get("response"):
            yield "", " · ".join(f"{name} {row[name]}" for name in MODEL if row.get(name))
