"""The stages of a version for a page: what each took in, made and left out, what it cost, and how they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.inspection.costs import paid
from flows.inspection.describe import describe
from flows.page.look.answers import check_answers
from flows.page.look.drawing import Drawing, drawing_of
from flows.page.look.tables import Table, counted, table_of
from longform.artifacts.recipe import Recipe
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import LongformError, StoreError


@dataclass(frozen=True, slots=True)
class Facts:
    """A stage of a version: `known` as `flows.inspection.describe.describe` gives it, None if its record is gone;
    `costs`: lines of what its model calls cost.
    """

    name: str
    fingerprint: str
    inputs: tuple[str, ...]
    known: dict[str, Any] | None
    costs: tuple[dict[str, Any], ...] = ()

    @property
    def calls(self) -> int:
        """The number of calls that were paid for."""
        return sum(line["calls"] for line in self.costs)

    @property
    def usd(self) -> float | None:
        """What its calls cost in US dollars; None if it made none, or the price of none is known."""
        known = [line["usd"] for line in self.costs if line["usd"] is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Stages:
    """All stages of a version, their drawing, and `problems`: why some of this is not known."""

    facts: list[Facts]
    drawing: Drawing
    problems: list[str]


def stages_of(store: Store, version: Version) -> Stages:
    """The stages of a version, in the order of the flow."""
    problems: list[str] = []
    known: dict[str, dict[str, Any]] = {}
    try:
        known = {each["stage"]: each for each in describe(store, version)}
    except StoreError as error:
        problems.append(str(error))
    costs: list[dict[str, Any]] = []
    try:
        check_answers(store.home)
        costs = paid(store.home, f"{version.dataset}@{version.name}")["stages"]
    except LongformError as error:
        problems.append(f"What was paid is not known: {error}")
    inputs = inputs_of(store, version)
    facts = [
        Facts(name, mark, inputs[name], known.get(name), tuple(line for line in costs if line["stage"] == name))
        for name, mark in version.stages.items()
    ]
    return Stages(facts, drawing_of(inputs), problems)


def inputs_of(store: Store, version: Version) -> dict[str, tuple[str, ...]]:
    """stage -> the stages that it reads from: as the manifest says or, for one of an earlier release, the recipes."""
    stated = version.manifest.get("inputs")
    if stated:
        return {name: tuple(dict.fromkeys(stated.get(name, {}).values())) for name in version.stages}
    names = {mark: name for name, mark in version.stages.items()}
    return {name: tuple(_inputs(recipe_of(store, version, name), names)) for name in version.stages}


def _inputs(recipe: Recipe | None, names: dict[str, str]) -> Iterator[str]:
    marks = recipe.inputs.values() if recipe else ()
    yield from dict.fromkeys(names[mark] for mark in marks if isinstance(mark, str) and mark in names)


def recipe_of(store: Store, version: Version, stage: str) -> Recipe | None:
    """The recipe of a stage of a version; None if its record is gone or damaged."""
    try:
        found = store.recorded(stage, version.stages[stage])
    except StoreError:
        return None
    return found.recipe if found else None


def sources_of(recipe: Recipe | None) -> list[dict[str, Any]]:
    """The source files that a stage read: dicts with group, sha256 and facts; [] for a stage that reads stages."""
    given = recipe.inputs.values() if recipe else ()
    return [one for mark in given if isinstance(mark, list) for one in mark if isinstance(one, dict)]


def stage_table(store: Store, version: Version, stage: str) -> Table:
    """The rows of a stage. UsageError if the version has no such stage, StoreError if its rows are gone."""
    made = artifact(store, version, stage)
    files = [store.rows_path(part) for part in made.parts if part.rows]
    named = {column[0]: column[1] for column in made.recipe.schema if len(column) == 2}
    key = named.get("key") or (made.recipe.schema[0][0] if made.recipe.schema else "")
    return table_of(store.home, f"{stage} of {version.dataset} {version.name}", files, key)


def left_out_table(store: Store, version: Version, stages: Sequence[str]) -> Table:
    """The rows that these stages left out, of one or several stages."""
    parts = [part for stage in stages for part in artifact(store, version, stage).parts]
    files = [store.rejected_path(part) for part in parts if part.rejected]
    return table_of(store.home, f"rows that {version.dataset} {version.name} left out", files, "key")


def split_table(home: Path, version: Version, config: str, split: str) -> Table:
    """The published rows of a split. The caller checked both names."""
    name = f"{version.dataset} {version.name} {config}/{split}"
    files = version.files(config, split)
    return table_of(home, name, files, str(version.manifest.get("keys", {}).get(config) or ""))


def licences(home: Path, version: Version) -> list[tuple[str, int]]:
    """(licence, number of sources under it) of a version's attribution.parquet, the commonest first; [] without it."""
    path = version.folder / "attribution.parquet"
    files = [path] if path.is_file() else []
    table = table_of(home, f"attribution.parquet of {version.dataset} {version.name}", files, "")
    if "licence" not in {column.name for column in table.columns}:
        return []
    return [("unknown" if value is None else str(value), rows) for value, rows in counted(table, "licence")]
