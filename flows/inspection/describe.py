"""What builds left, for a person to look at: stages, rows left out, a traced row, the summary of a build."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.builds.building import durations, gate_lines
from flows.inspection.tracing import example_row_id
from flows.registry import module_of
from longform.artifacts.rows import read_batches
from longform.artifacts.store import Artifact, Store
from longform.artifacts.versions import Version, artifact

WIDTH, INDENT = 100, "    "
ROWS_AT_ONCE = 1_000
KIND_NAMES = {"defect": "rejected", "filtered": "filtered"}  # the kinds of rows left out, as people read them


def describe(store: Store, version: Version) -> list[dict[str, Any]]:
    """A dict for each stage of a version, in the order of the flow: fingerprint, rows in and out, rows left out by
    kind and reason, counters, seconds of the last run (None if unknown), number of parts, arguments. StoreError if the
    artifact of a stage is gone.
    """
    seconds = durations(store.home, version.dataset)
    return [_stage(artifact(store, version, name), seconds) for name in version.stages]


def _stage(built: Artifact, seconds: dict[str, float]) -> dict[str, Any]:
    """The dict of one stage, as `describe` says. `seconds`: fingerprint -> seconds of the last run. `rows_in` counts
    the first input or, for a stage that reads sources, the counter `read`; None if there is neither.
    """
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
    """Every row that a version's stages left out, as a dict of its columns, its `stage` and, of a stage that reads
    files, the name of its `file` (else None): first all rows of the first of `kinds` (defect, filtered), stage by
    stage, then the next kind. `stage`: only of this one; None: of all. When the first row is read: UsageError for an
    unknown stage, StoreError if its artifact is gone.
    """
    artifacts = {name: artifact(store, version, name) for name in ([stage] if stage else version.stages)}
    for kind in kinds:
        for name, built in artifacts.items():
            yield from ({"stage": name, **row} for row in _rejected_of_kind(store, built, kind))


def rejected_number(store: Store, version: Version, stage: str | None, kinds: Sequence[str] = tuple(KIND_NAMES)) -> int:
    """The number of rows that `rejected_rows` yields, without reading them; with the same errors."""
    artifacts = [artifact(store, version, name) for name in ([stage] if stage else version.stages)]
    return sum(number for built in artifacts for (kind, _), number in built.rejected().items() if kind in kinds)


def _rejected_of_kind(store: Store, built: Artifact, kind: str) -> Iterator[dict[str, Any]]:
    """The rows of this kind (defect or filtered) that a stage left out, as dicts, part by part."""
    names = _file_names(built.recipe.inputs)
    for part in built.parts:
        if any(part_kind == kind for part_kind, _, _ in part.rejected):
            file = names.get(part.key.rpartition("/")[2].partition("-")[0])
            for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE):
                yield from ({"file": file, **row} for row in batch.to_pylist() if row["kind"] == kind)


def _file_names(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Beginning of a file's hash, as keys of parts have it -> its name, for the files among a recipe's inputs."""
    files = [file for given in inputs.values() if isinstance(given, list) for file in given if isinstance(file, dict)]
    named = ((file.get("sha256") or "", (file.get("facts") or {}).get("name")) for file in files)
    return {sha256[:8]: name for sha256, name in named if name}


def trace_lines(found: dict[str, Any]) -> Iterator[str]:
    """The `lines` of a trace (see `trace_row`) as text: titles padded to one width, then their texts, line breaks as
    blanks.
    """
    width = max(11, *(len(title) + 2 for title, _ in found["lines"]))
    for title, text in found["lines"]:
        yield f"{title:<{width}}{text}".replace("\n", " ")


def summary_lines(version: Version, seconds: float) -> Iterator[str]:
    """The lines that a finished build prints: rows of each split, what the gates found, the folder and its files, and
    commands to go on with; the first line is empty. `seconds`: how long the build took.
    """
    name, folder = version.dataset, short_path(version.folder)
    splits = ", ".join(f"{rows:,} {split}" for split, rows in named_splits(version))
    offline = " · rows of the offline model are marked" if version.manifest["offline"] else ""
    yield ""
    yield f"{name} {version.name} · {splits} · {seconds:.0f} s{offline}"
    yield from (f"  gate      {line}" for line in gate_lines(version.folder.parents[2], version))
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
    """The files of a version as a person looks for them: `<split>/*.parquet` for each split, `figures/*.svg` if there
    are any, and the names of the files at the top of its folder.
    """
    splits = [f"{split}/*.parquet" for split, _ in named_splits(version)]
    plots = ["figures/*.svg"] if any(name.startswith("figures/") for name in version.manifest["files"]) else []
    return [*splits, *plots, *(name for name in version.manifest["files"] if "/" not in name)]


def short_path(path: Path) -> str:
    """The path relative to the current folder if it is inside it, else unchanged."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def summary(version: Version) -> dict[str, Any]:
    """A version as a JSON value: dataset, version, rows, rows by split, offline (whether it has rows of the offline
    model), recipe (fingerprint). Splits of configs other than the default one are named `<config>/<split>`; views,
    which have the same rows in another form, are left out.
    """
    splits = dict(named_splits(version))
    return {
        "dataset": version.dataset,
        "version": version.name,
        "rows": sum(splits.values()),
        "splits": splits,
        "offline": version.manifest["offline"],
        "recipe": version.recipe,
    }


def named_splits(version: Version) -> Iterator[tuple[str, int]]:
    """Yields (split, number of rows) for all configs of a version but views, the default one first; splits of the other
    configs are named `<config>/<split>`.
    """
    for number, (config, splits) in enumerate(version.configs.items()):
        for split, rows in splits.items() if config not in version.views else ():
            yield (f"{config}/{split}" if number else split), rows


def splits_text(splits: dict[str, int]) -> str:
    """The splits with their numbers of rows: `train 9,000, test 1,000`."""
    return ", ".join(f"{name} {rows:,}" for name, rows in splits.items())
