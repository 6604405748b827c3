"""Reading what builds left: stages, rejected rows, comparisons, checks, the summary of a version."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from flows.builds.building import durations
from flows.cli.shared.arguments import named_splits
from flows.cli.shared.tracing import example_row_id
from flows.registry import module_of, stages_of
from longform.artifacts.conservation import check_conservation
from longform.artifacts.rows import Rows, read_batches, read_parquet
from longform.artifacts.store import Artifact, Store
from longform.artifacts.versions import Version, artifact, problems
from longform.engine.stage import Stage
from longform.errors import ConservationError

WIDTH, INDENT = 100, "    "
ROWS_AT_ONCE = 1_000
WORDS = {"defect": "rejected", "filtered": "filtered"}  # the kinds of rows left out, as people read them


def describe(store: Store, version: Version) -> list[dict[str, Any]]:
    """One dict a stage, in order: fingerprint, rows in and out, left out by kind and reason, counters, seconds."""
    seconds = durations(store.home, version.dataset)
    return [_stage(artifact(store, version, name), seconds) for name in version.stages]


def _stage(made: Artifact, seconds: dict[str, float]) -> dict[str, Any]:
    reasons = [{"kind": kind, "reason": reason, "rows": n} for (kind, reason), n in made.rejected().items()]
    counts = made.counts()
    rows_in = next(iter(made.rows_in.values()), counts.get("read"))
    return {
        "stage": made.recipe.stage,
        "fingerprint": made.fingerprint,
        "rows_in": rows_in,
        "rows_out": made.rows,
        "filtered": sum(r["rows"] for r in reasons if r["kind"] == "filtered"),
        "rejected": sum(r["rows"] for r in reasons if r["kind"] == "defect"),
        "reasons": reasons,
        "counts": counts,
        "seconds": seconds.get(made.fingerprint),
        "parts": len(made.parts),
        "arguments": made.recipe.arguments,
    }


def rejected_rows(
    store: Store, version: Version, stage: str | None, kinds: Sequence[str] = tuple(WORDS)
) -> Iterator[dict[str, Any]]:
    """Every row left out with its stage, kind by kind; of one stage, or of all in order."""
    made = {name: artifact(store, version, name) for name in ([stage] if stage else version.stages)}
    for kind in kinds:
        for name, found in made.items():
            yield from ({"stage": name, **row} for row in _of_kind(store, found, kind))


def rejected_number(store: Store, version: Version, stage: str | None, kinds: Sequence[str] = tuple(WORDS)) -> int:
    """How many rows `rejected_rows` gives, without reading them."""
    made = [artifact(store, version, name) for name in ([stage] if stage else version.stages)]
    return sum(number for each in made for (kind, _), number in each.rejected().items() if kind in kinds)


def _of_kind(store: Store, made: Artifact, kind: str) -> Iterator[dict[str, Any]]:
    for part in made.parts:
        if any(of == kind for of, _, _ in part.rejected):
            for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE):
                yield from (row for row in batch.to_pylist() if row["kind"] == kind)


def trace_lines(found: dict[str, Any]) -> Iterator[str]:
    """A trace for people."""
    for title, text in found["lines"]:
        yield f"{title:<11}{text}".replace("\n", " ")


def compare(store: Store, before: Version, after: Version) -> dict[str, Any]:
    """Recipes stage by stage, and rows by split and id."""
    return {
        "before": f"{before.dataset}@{before.name}",
        "after": f"{after.dataset}@{after.name}",
        "same_recipe": before.recipe == after.recipe,
        "stages": list(_stage_changes(store, before, after)),
        "splits": [_split_change(before, after, *named) for named in _splits(before, after)],
    }


def _stage_changes(store: Store, before: Version, after: Version) -> Iterator[dict[str, str]]:
    """The stages whose own recipe or source differs; those made from them follow without a word."""
    for name in dict.fromkeys([*before.stages, *after.stages]):
        old, new = before.stages.get(name), after.stages.get(name)
        if old is None or new is None:
            yield {"stage": name, "why": "only in " + (after.name if old is None else before.name)}
        elif old != new:
            was, now = (artifact(store, version, name).recipe for version in (before, after))
            is_source = not all(isinstance(mark, str) for mark in now.inputs.values())
            changes = [c for c in now.differences(was) if is_source or not c.startswith("its input")]
            if changes:
                yield {"stage": name, "why": "; ".join(changes)}


def _splits(before: Version, after: Version) -> list[tuple[str | None, str]]:
    """(config, split), with None for the default config: versions from before there were several do not name it."""
    return list(
        dict.fromkeys(
            (config if number else None, split)
            for version in (before, after)
            for number, (config, splits) in enumerate(version.configs.items())
            for split in splits
        )
    )


def _split_change(before: Version, after: Version, config: str | None, split: str) -> dict[str, Any]:
    counts = [version.configs.get(_named(version, config), {}).get(split, 0) for version in (before, after)]
    sides = [_hashed(version, _named(version, config), split) for version in (before, after)]
    query = f"""
        SELECT count(*) FILTER (WHERE a.id IS NULL), count(*) FILTER (WHERE b.id IS NULL),
               count(*) FILTER (WHERE a.hash <> b.hash)
        FROM ({sides[0]}) AS a FULL OUTER JOIN ({sides[1]}) AS b ON a.id = b.id
    """
    with duckdb.connect() as database:
        added, removed, changed = database.execute(query).fetchone() or (0, 0, 0)
    numbers = {"before": counts[0], "after": counts[1], "added": added, "removed": removed, "changed": changed}
    return {"split": split if config is None else f"{config}/{split}", **numbers}


def _named(version: Version, config: str | None) -> str:
    return next(iter(version.configs)) if config is None else config


def _hashed(version: Version, config: str, split: str) -> str:
    paths = version.files(config, split) if config in version.configs else []
    if not paths:
        return "SELECT NULL::VARCHAR AS id, NULL::UBIGINT AS hash LIMIT 0"
    return f"SELECT {version.key(config)} AS id, hash(rows) AS hash FROM {read_parquet(paths)} AS rows"


def check(store: Store, version: Version) -> Iterable[str]:
    """What is wrong with a version: files, checksums, schemas, stages, conservation."""
    found = list(problems(store, version))
    yield from found
    if not found:
        yield from _unconserved(store, version)


def _unconserved(store: Store, version: Version) -> Iterator[str]:
    stages = stages_of(version.dataset)
    made = {name: artifact(store, version, name) for name in version.stages}
    by_fingerprint = {a.fingerprint: a for a in made.values()}
    for name, found in made.items():
        work = stages[name]
        inputs = {
            parameter: _rows(store, stages, by_fingerprint[mark])
            for parameter, mark in found.recipe.inputs.items()
            if isinstance(mark, str)
        }
        try:
            kept, looked_up = work.conserved(inputs), work.side_inputs(inputs)
            check_conservation(store, name, work.schema, found.parts, kept, looked_up)
        except ConservationError as error:
            yield str(error)


def _rows(store: Store, stages: dict[str, Stage], made: Artifact) -> Rows:
    name = made.recipe.stage
    return Rows(store, stages[name].schema, name, made.fingerprint, made.parts)


def summary_lines(version: Version, seconds: float) -> Iterator[str]:
    """What a finished build says: where the files are, what is in them, what to do next."""
    name, folder = version.dataset, shown(version.folder)
    splits = ", ".join(f"{rows:,} {split}" for split, rows in named_splits(version))
    offline = " · rows of the offline model are marked" if version.manifest["offline"] else ""
    yield ""
    yield f"{name} {version.name} · {splits} · {seconds:.0f} s{offline}"
    yield ""
    yield f"  {folder}/"
    yield from textwrap.wrap("  ".join(_files(version)), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
    yield ""
    yield f"  look      longform show {name}"
    yield f"  why       longform trace {name} {example_row_id(version)}"
    names = [split for split, _ in named_splits(version)]
    yield f'  load      pandas.read_parquet("{folder}/{"train" if "train" in names else names[0]}")'
    settings = f"longform config {name} > {name}.toml"
    to_set = module_of(name).ABOUT.to_set
    yield f"  real      {settings}   then set {to_set}, and: longform plan {name} --config {name}.toml"


def _files(version: Version) -> list[str]:
    splits = [f"{split}/*.parquet" for split, _ in named_splits(version)]
    plots = ["figures/*.svg"] if any(name.startswith("figures/") for name in version.manifest["files"]) else []
    return [*splits, *plots, *(name for name in version.manifest["files"] if "/" not in name)]


def shown(path: Path) -> str:
    """A path as short as it can be typed from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
