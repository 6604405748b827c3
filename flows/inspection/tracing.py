"""Tracing a published row back to the stage rows that it was made from: by the dataset's own `trace`, else, or for its
configs TRACED_BY_IDS, by the ids in the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.registry import module_of, stages_of
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.stage import Stage
from tasks.publishing.lineage import (
    Line,
    Record,
    calls_of,
    lines_on_model,
    published_row,
    rows_where,
    short,
    stage_rows_where,
    traced,
)

TEXTS = ("question", "claim", "answer", "feedback", "extraction", "check", "guideline", "output", "text")
SAID = ("verdict", "state", "constructive", "helpful")
FROM = ("file", "source", "licence", "url")
MOST_OF_A_LIST = 3


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
    module = module_of(version.dataset)
    of_dataset, by_ids = getattr(module, "trace", None), getattr(module, "TRACED_BY_IDS", ())
    if of_dataset and not (by_ids and published_row(version, row_id)[0] in by_ids):
        return dict(of_dataset(store, version, row_id))
    return trace_by_ids(store, version, row_id, stages_of(version.dataset))


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
    the stage rows that it was made from (`behind`, found by the ids in the row, and in these), the `calls` of models
    (as by `calls_of`), all `stages` (name -> fingerprint) and `lines`. UsageError as by `trace_row`.
    """
    config, row = published_row(version, row_id)
    behind = list(rows_behind(store, version, row, stages))
    calls = calls_of(store, sorted({each["response"] for each in behind if each.get("response")}))
    split = f"/{row['split']}" if row.get("split") else ""
    lines = [("row", f"{row[version.key(config)]}   {config}{split}"), *_lines(behind, calls)]
    last = [each["stage"] for each in behind if each["key"] == version.key(config)]
    shown = {"row": row, "config": config, "behind": behind, "calls": calls}
    return traced(store, version, last[-1] if last else [*version.stages][-1], lines, **shown)


def rows_behind(
    store: Store, version: Version, row: Record, stages: Mapping[str, Stage], most: int = MOST_OF_A_LIST
) -> Iterator[Record]:
    """The stage rows that a published row names, and those that these name in turn, each thing after what it was found
    by: the row's columns, `stage` (the stage's name) and `key` (the name of its id column).

    A column that has the name of a stage's key names one row of it; a list of texts with the name of a stage's table
    names several, of which the first `most` are taken. Stages that `stages` lacks are left out.
    """
    keys = {name: str(_metadata(stages[name], b"key")) for name in version.stages if name in stages}
    tables = {_metadata(stages[name], b"name"): key for name, key in keys.items()}
    left, seen = [row], set[tuple[str, str]]()
    while left:
        of = left.pop(0)
        listed = (
            (tables[name], each)
            for name, ids in of.items()
            if name in tables and isinstance(ids, list)
            for each in ids[:most]
        )
        named = [(key, of[key]) for key in dict.fromkeys(keys.values()) if isinstance(of.get(key), str)]
        for key, value in [*named, *listed]:
            if not isinstance(value, str) or (key, value) in seen:
                continue
            seen.add((key, value))
            for stage in (name for name in keys if keys[name] == key):
                for found in stage_rows_where(store, version, stage, f"{key} = ? LIMIT 1", value):
                    left.append({name: each for name, each in found.items() if not isinstance(each, list)})
                    yield {"stage": stage, "key": key, **found}


def _metadata(stage: Stage, name: bytes) -> str:
    return str(stage.schema.metadata[name].decode())


def _lines(rows: Sequence[Record], calls: Mapping[str, Record]) -> Iterator[Line]:
    """The printed lines (title, text) of rows as `rows_behind` gives them: of each thing its id with the beginning of
    its text and what was said of it, the stages that made it, where it is from, and its models.

    The title is the name of the id column without `_id`. The text is that of the first of the columns in TEXTS, as
    the last stage left it.
    """
    things: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        things.setdefault((row["key"], row[row["key"]]), []).append(row)
    for (key, value), of in things.items():
        texts = (text for name in TEXTS for row in reversed(of) if isinstance(text := row.get(name), str) and text)
        said = {(name, row[name]): row["stage"] for row in reversed(of) for name in SAID if row.get(name) is not None}
        excerpt = [f'"{short(text)}"' for text, _ in zip(texts, range(1), strict=False)]
        verdicts = [f"{stage}: {name} {value}" for (name, value), stage in reversed(said.items())]
        yield key.removesuffix("_id"), "   ".join([value, *excerpt])
        yield "", " · ".join(dict.fromkeys(["stages " + ", ".join(row["stage"] for row in of), *verdicts]))
        yield from (("", line) for line in dict.fromkeys(" · ".join(_origin(row)) for row in of) if line)
        yield from dict.fromkeys(line for row in of if "response" in row for line in lines_on_model(row, calls))


def _origin(row: Record) -> list[str]:
    """What a row says of its file, source, licence and address."""
    return [str(row[name]) for name in FROM if isinstance(row.get(name), str) and row[name]]
