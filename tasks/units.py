"""Units of work: how a stage's inputs are cut into jobs, and what each job is called.

The annotation of a stage's first input is the shape: see tasks/stage.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longform.parts import group_of, part_keys
from longform.recipe import Recipe, fingerprint
from longform.rows import Group, Piece, Rows, Whole
from longform.store import Part, Store
from tasks.stage import Stage

ROWS_PER_PART = 16_384
CUT = re.compile(r"\d{1,2}-\d{5}")
WHOLE_KEY = "all/0-00000"
NUMBERED = "part"  # of keys that do not change with the file they are from


@dataclass(frozen=True, slots=True)
class Job:
    """One unit of work, as it is sent to a worker."""

    module: str
    stage: str
    home: Path
    unit: str
    label: str
    keys: list[str]
    inputs: dict[str, Rows | Piece]
    arguments: dict[str, Any]
    recipe: str
    shared: Path | None = None


def jobs_of(
    store: Store, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]
) -> Iterator[Job]:
    """The units of work of a stage, in order, each with its identity."""
    module = work.body.__module__
    for label, keys, unit_inputs in units_of(work, inputs):
        contents = {name: contents_of(value) for name, value in unit_inputs.items()}
        unit = recipe.unit({**contents, "keys": keys})
        yield Job(module, work.name, store.home, unit, label, keys, unit_inputs, arguments, recipe.fingerprint)


def units_of(work: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(label, keys of the output parts, inputs) of each unit, by the shape of the first input."""
    first = next(iter(inputs.values()))
    if work.shape is Piece:
        yield from _pieces(work, inputs)
        return
    parts = {name: _by_unit(rows, work.inputs[name]) for name, rows in inputs.items()}
    for number, (unit, own) in enumerate(_by_unit(first, work.shape).items()):
        chosen = {name: _narrowed(rows, work.inputs[name], parts[name], unit) for name, rows in inputs.items()}
        numbered = [f"{group_of(unit)}/{NUMBERED}{number:03d}"] if work.rows_each else None
        yield unit or "all", numbered or _keys_of(work, unit, own), chosen


def _pieces(work: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    (name, sources), *others = inputs.items()
    seen = {other: _narrowed(rows, Whole, _by_unit(rows, Whole), "") for other, rows in others}
    for source in sources:
        for index in range(len(source.pieces)):
            piece = Piece(source, index)
            yield piece.key, [piece.key], {name: piece, **seen}


def _by_unit(rows: Rows, kind: type[Rows]) -> dict[str, list[Part]]:
    """The parts by what one unit of work sees of them: a part, a group, or all ("")."""
    found: dict[str, list[Part]] = {} if kind is not Whole else {"": []}
    for part in rows.parts or ():
        unit = "" if kind is Whole else group_of(part.key) if kind is Group else part.key
        found.setdefault(unit, []).append(part)
    return found


def _narrowed(rows: Rows, kind: type[Rows], parts: dict[str, list[Part]], unit: str) -> Rows:
    seen = "" if kind is Whole else group_of(unit) if kind is Group else unit
    return kind(rows.store, rows.schema, rows.stage, rows.fingerprint, parts.get(seen, []))


def _keys_of(work: Stage, unit: str, parts: list[Part]) -> list[str]:
    """The keys of the parts that a unit makes."""
    if work.shape is Group:
        return _output_keys(unit, parts)
    return _whole_keys(parts) if work.shape is Whole else _keys(parts)


def _keys(parts: list[Part]) -> list[str]:
    return [part.key for part in parts]


def _whole_keys(parts: list[Part]) -> list[str]:
    """Keep the cut of the first input, where there is one: several parts of a source, or none, become one part."""
    keys = _keys(parts)
    kept = len(keys) == 1 or (keys and all(CUT.fullmatch(key.split("/")[1]) for key in keys))
    return keys if kept else [WHOLE_KEY]


def _output_keys(group: str, parts: list[Part]) -> list[str]:
    """Keep the cut of the first input; where it is a source's, choose one by the number of rows."""
    keys = _keys(parts)
    if all(CUT.fullmatch(key.split("/")[1]) for key in keys):
        return keys
    rows = sum(part.rows for part in parts)
    return part_keys(group, max(0, math.ceil(math.log2(max(1, rows) / ROWS_PER_PART))))


def contents_of(value: Any) -> list[str]:
    if isinstance(value, Rows):
        return [f"{part.key} {part.sha256}" for part in value.parts or ()]
    if isinstance(value, Piece):
        return [fingerprint(value.source.identity()), str(value.index)]
    return [fingerprint(source.identity()) for source in value]
