"""What builds left, for inspection: stages, rows left out, comparisons and checks of versions,
the summary of a build.
"""

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
KIND_NAMES = {"defect": "rejected", "filtered": "filtered"}  # the kinds of rows left out, as people read them


def describe(store: Store, version: Version) -> list[dict[str, Any]]:
    """A dict for each stage of a version, in the order of the flow: fingerprint, rows in and out, rows left out by kind
    and reason, counters, seconds of the last run, parts, arguments.
    """
    seconds = durations(store.home, version.dataset)
    return [_stage(artifact(store, version, name), seconds) for name in version.stages]


def _stage(built: Artifact, seconds: dict[str, float]) -> dict[str, Any]:
    reasons = [{"kind": kind, "reason": reason, "rows": n} for (kind, reason), n in built.rejected().items()]
    counts = built.counts()
    rows_in = next(iter(built.rows_in.values()), counts.get("read"))
    return {
        "stage": built.recipe.stage,
        "fingerprint": built.fingerprint,
        "rows_in": rows_in,
        "rows_out": built.rows,
        "filtered": sum(r["rows"] for r in reasons if r["kind"] == "filtered"),
        "rejected": sum(r["rows"] for r in reasons if r["kind"] == "defect"),
        "reasons": reasons,
        "counts": counts,
        "seconds": seconds.get(built.fingerprint),
        "parts": len(built.parts),
        "arguments": built.recipe.arguments,
    }


def rejected_rows(
    store: Store, version: Version, stage: str | None, kinds: Sequence[str] = tuple(KIND_NAMES)
) -> Iterator[dict[str, Any]]:
    """Every row that a version's stages left out, as a dict with its stage: first all rows of the first kind, stage by
    stage, then the next kind. `stage` None: all stages.
    """
    artifacts = {name: artifact(store, version, name) for name in ([stage] if stage else version.stages)}
    for kind in kinds:
        for name, built in artifacts.items():
            yield from ({"stage": name, **row} for row in _rejected_of_kind(store, built, kind))


def rejected_number(store: Store, version: Version, stage: str | None, kinds: Sequence[str] = tuple(KIND_NAMES)) -> int:
    """The number of rows that `rejected_rows` yields, without reading them."""
    artifacts = [artifact(store, version, name) for name in ([stage] if stage else version.stages)]
    return sum(number for built in artifacts for (kind, _), number in built.rejected().items() if kind in kinds)


def _rejected_of_kind(store: Store, built: Artifact, kind: str) -> Iterator[dict[str, Any]]:
    for part in built.parts:
        if any(part_kind == kind for part_kind, _, _ in part.rejected):
            for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE):
                yield from (row for row in batch.to_pylist() if row["kind"] == kind)


def trace_lines(found: dict[str, Any]) -> Iterator[str]:
    """The `lines` of a trace (see `trace_row`) as text: each title padded to 11 characters,
    then its text on one line.
    """
    for title, text in found["lines"]:
        yield f"{title:<11}{text}".replace("\n", " ")


def compare(store: Store, before: Version, after: Version) -> dict[str, Any]:
    """The differences of two versions as a JSON value: `stages` whose recipe changed and why, and for each of the
    `splits` the numbers of rows before, after, added, removed and changed, compared by id.
    """
    return {
        "before": f"{before.dataset}@{before.name}",
        "after": f"{after.dataset}@{after.name}",
        "same_recipe": before.recipe == after.recipe,
        "stages": list(_stage_changes(store, before, after)),
        "splits": [_split_change(before, after, *split) for split in _splits(before, after)],
    }


def _stage_changes(store: Store, before: Version, after: Version) -> Iterator[dict[str, str]]:
    """{stage, why} for each stage that is in one version only, or whose own recipe or source files differ; stages that
    differ only by their inputs are left out.
    """
    for name in dict.fromkeys([*before.stages, *after.stages]):
        old, new = before.stages.get(name), after.stages.get(name)
        if old is None or new is None:
            yield {"stage": name, "why": "only in " + (after.name if old is None else before.name)}
        elif old != new:
            then, now = (artifact(store, version, name).recipe for version in (before, after))
            is_source = not all(isinstance(fingerprint, str) for fingerprint in now.inputs.values())
            changes = [c for c in now.differences(then) if is_source or not c.startswith("its input")]
            if changes:
                yield {"stage": name, "why": "; ".join(changes)}


def _splits(before: Version, after: Version) -> list[tuple[str | None, str]]:
    """(config, split) of all splits of both versions. The default config is None, as old versions do not name it."""
    return list(
        dict.fromkeys(
            (config if number else None, split)
            for version in (before, after)
            for number, (config, splits) in enumerate(version.configs.items())
            for split in splits
        )
    )


def _split_change(before: Version, after: Version, config: str | None, split: str) -> dict[str, Any]:
    """Numbers of rows of a split in both versions, and of rows added, removed and changed, compared by id."""
    counts = [version.configs.get(_config_name(version, config), {}).get(split, 0) for version in (before, after)]
    hashes = [_row_hashes(version, _config_name(version, config), split) for version in (before, after)]
    query = f"""
        SELECT count(*) FILTER (WHERE a.id IS NULL), count(*) FILTER (WHERE b.id IS NULL),
               count(*) FILTER (WHERE a.hash <> b.hash)
        FROM ({hashes[0]}) AS a FULL OUTER JOIN ({hashes[1]}) AS b ON a.id = b.id
    """
    with duckdb.connect() as database:
        added, removed, changed = database.execute(query).fetchone() or (0, 0, 0)
    numbers = {"before": counts[0], "after": counts[1], "added": added, "removed": removed, "changed": changed}
    return {"split": split if config is None else f"{config}/{split}", **numbers}


def _config_name(version: Version, config: str | None) -> str:
    """The config's name in a version; None stands for its default config."""
    return next(iter(version.configs)) if config is None else config


def _row_hashes(version: Version, config: str, split: str) -> str:
    """A DuckDB query for the id and a hash of each row of a split; without result if the version lacks the split."""
    paths = version.files(config, split) if config in version.configs else []
    if not paths:
        return "SELECT NULL::VARCHAR AS id, NULL::UBIGINT AS hash LIMIT 0"
    return f"SELECT {version.key(config)} AS id, hash(rows) AS hash FROM {read_parquet(paths)} AS rows"


def check(store: Store, version: Version) -> Iterable[str]:
    """What is wrong with a version, one sentence each: files, checksums, schemas, stages; only if none of these is
    wrong, also rows that a stage lost.
    """
    found = list(problems(store, version))
    yield from found
    if not found:
        yield from _conservation_problems(store, version)


def _conservation_problems(store: Store, version: Version) -> Iterator[str]:
    """A message for each stage of a version with an input row that is neither the parent of an
    output row nor rejected.
    """
    stages = stages_of(version.dataset)
    artifacts = {name: artifact(store, version, name) for name in version.stages}
    by_fingerprint = {a.fingerprint: a for a in artifacts.values()}
    for name, built in artifacts.items():
        stage = stages[name]
        inputs = {
            parameter: _rows(store, stages, by_fingerprint[fingerprint])
            for parameter, fingerprint in built.recipe.inputs.items()
            if isinstance(fingerprint, str)
        }
        try:
            kept, side_inputs = stage.conserved(inputs), stage.side_inputs(inputs)
            check_conservation(store, name, stage.schema, built.parts, kept, side_inputs)
        except ConservationError as error:
            yield str(error)


def _rows(store: Store, stages: dict[str, Stage], built: Artifact) -> Rows:
    name = built.recipe.stage
    return Rows(store, stages[name].schema, name, built.fingerprint, built.parts)


def summary_lines(version: Version, seconds: float) -> Iterator[str]:
    """The lines that a finished build prints: rows of each split, the folder and its files, and commands to go on with.
    `seconds`: how long the build took.
    """
    name, folder = version.dataset, short_path(version.folder)
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
    settings_to_fill = module_of(name).ABOUT.first_settings
    yield f"  real      {settings}   then set {settings_to_fill}, and: longform plan {name} --config {name}.toml"


def _files(version: Version) -> list[str]:
    splits = [f"{split}/*.parquet" for split, _ in named_splits(version)]
    plots = ["figures/*.svg"] if any(name.startswith("figures/") for name in version.manifest["files"]) else []
    return [*splits, *plots, *(name for name in version.manifest["files"] if "/" not in name)]


def short_path(path: Path) -> str:
    """The path relative to the current folder if it is inside it, else unchanged."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
