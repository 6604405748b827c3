"""The lineage of a published row: the stage rows and model calls that made it, all stages, and the source files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from longform.artifacts.recipe import Recipe
from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import UsageError
from longform.llm.price import NANO
from longform.settings import responses

Line = tuple[str, str]
Record = dict[str, Any]

SHOWN = 160


def rows_where(paths: Sequence[Path], condition: str, *values: str) -> list[Record]:
    """The rows of Parquet files that meet an SQL condition, as dicts with dates and times as ISO strings.

    Each `?` in the condition stands for one of `values`, in order. [] without files.
    """
    if not paths:
        return []
    with duckdb.connect() as database:
        cursor = database.execute(f"SELECT * FROM {read_parquet(paths)} WHERE {condition}", list(values))
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]


def _plain(value: Any) -> Any:
    """A date or time as an ISO string; any other value unchanged."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def published_row(version: Version, row_id: str) -> tuple[str, Record]:
    """(config, row) of the published row with this id or, if there is none, of the only row whose id begins with it.

    All configs are searched but views, which have the ids of others. UsageError if no id, or more than one, begins with
    it.
    """
    found: list[tuple[str, Record]] = []
    tables = {config: paths for config, paths in version.tables().items() if config not in version.views}
    for config, paths in tables.items():
        key = version.key(config)
        rows = rows_where(paths, f"starts_with({key}, ?) ORDER BY {key} LIMIT 2", row_id)
        if rows and rows[0][key] == row_id:
            return config, rows[0]
        found += [(config, row) for row in rows]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"More than one row of {version.dataset} {version.name} begins with {row_id}: give more of it."
        )
    keys = " or ".join(dict.fromkeys(f"a {version.key(config)}" for config in tables))
    raise UsageError(
        f"{version.dataset} {version.name} has no row {row_id}: "
        f"take {keys} of its Parquet files, or the beginning of one."
    )


def stage_rows_where(store: Store, version: Version, stage: str, condition: str, *values: str) -> list[Record]:
    """The rows of a stage of this version that meet an SQL condition (see `rows_where`); [] if it has no such stage.

    StoreError if the rows of the stage are no longer in the store.
    """
    if stage not in version.stages:
        return []
    paths = [store.rows_path(part) for part in artifact(store, version, stage).parts if part.rows]
    return rows_where(paths, condition, *values)


def calls_of(store: Store, keys: Sequence[str]) -> dict[str, Record]:
    """response key -> {input_tokens, output_tokens, cost_nano, batch} of the call that the response came from.

    `cost_nano`: billionths of a US dollar, None if unknown; `batch`: whether the call was in a batch. A key without a
    stored response is left out; {} without keys.
    """
    from longform.llm.responses.store import open_responses

    if not keys:
        return {}
    with closing(open_responses(responses(store.home), read_only=True)) as stored:
        found = stored.get(list(keys))
    names = ("input_tokens", "output_tokens", "cost_nano", "batch")
    return {key: {name: getattr(record, name) for name in names} for key, record in found.items()}


def lines_on_model(made: Record | None, calls: Mapping[str, Record]) -> Iterator[Line]:
    """Lines (label "", text) on who wrote a text: model, endpoint, prompt and response, then tokens and cost.

    `made`: a row with the columns of MADE_BY; no line if it is None or names no response. `calls`: as `calls_of`
    returns them; without the response's call there is no second line.
    """
    if made and made["response"]:
        prompt = f"prompt {made['prompt']}@{made['prompt_hash'][:12]}"
        yield "", f"{made['model']} via {made['endpoint']} · {prompt} · response {made['response'][:16]}…"
        if call := calls.get(made["response"]):
            yield "", tokens_and_cost(call)


def tokens_and_cost(call: Record) -> str:
    """The tokens and the cost of a call as text: `1,200 + 85 tokens · USD 0.0123, in a batch`.

    The first number is of the input, the second of the output, 0 if unknown; an unknown cost is `price unknown`.
    `call`: a value of `calls_of`.
    """
    cost = "price unknown" if call["cost_nano"] is None else f"USD {call['cost_nano'] / NANO:.4f}"
    tokens = f"{call['input_tokens'] or 0:,} + {call['output_tokens'] or 0:,} tokens"
    return f"{tokens} · {cost}{', in a batch' if call['batch'] else ''}"


def built_by(store: Store, version: Version, stage: str, group: str | None = None) -> list[str]:
    """`<stage> <fingerprint>` for a stage and all stages it was made from, the last first; then the source files.

    Fingerprints are cut to 8 characters. The source files are one entry of the list, which is missing if there are
    none; with `group`, only those of this group are named. StoreError if the rows of a stage are gone.
    """
    recipes = {name: artifact(store, version, name).recipe for name in version.stages}
    behind = ancestors(stage, recipes, {mark: name for name, mark in version.stages.items()})
    links = [f"{name} {mark[:8]}" for name, mark in reversed(version.stages.items()) if name in behind]
    return [*links, *_sources([recipes[name] for name in version.stages if name in behind], group)]


def ancestors(stage: str, recipes: dict[str, Recipe], names: dict[str, str]) -> set[str]:
    """The names of the stage and of all stages that it was made from, directly or indirectly.

    `recipes`: stage -> recipe; `names`: fingerprint -> stage.
    """
    found, left = {stage}, [stage]
    while left:
        inputs = recipes[left.pop()].inputs.values()
        new = {names[mark] for mark in inputs if isinstance(mark, str)} - found
        found |= new
        left += new
    return found


def _sources(recipes: Sequence[Recipe], group: str | None) -> list[str]:
    """A list of one text that names the source files of the recipes by group and start of hash; [] without any.

    `group`: only the files of this group, None for all.
    """
    given = [one for recipe in recipes for mark in recipe.inputs.values() if not isinstance(mark, str) for one in mark]
    named = dict.fromkeys(
        f"{one['group']} sha256 {one['sha256'][:12]}…" for one in given if group in (None, one["group"])
    )
    return [", ".join(named)] if named else []


def short(text: str) -> str:
    """The first SHOWN characters of a text, on one line, followed by `…` if it is longer."""
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"


def traced(store: Store, version: Version, stage: str, lines: Iterable[Line], **shown: Any) -> dict[str, Any]:
    """What a trace shows: `shown`, the `stages` of the version, and `lines`, of which a last one says by which stages
    and from which files the row of `stage` was built.
    """
    built = ("built by", " <- ".join(built_by(store, version, stage)))
    return {**shown, "stages": version.stages, "lines": [*lines, built]}
