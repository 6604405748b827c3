"""Units of work: how a stage's inputs are divided into jobs, and how jobs and their parts are named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longform.artifacts.parts import group_of, part_keys
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rows, Shard
from longform.artifacts.store import Part, Store
from longform.engine.stage import Shape, Stage, StageCall
from longform.llm.offline import Rules

PARTS = 4  # of a group, as far as the rows of each stay within the bounds
ROWS_PER_PART = (16_384, 32_768)  # fewer cost more in Prefect than they save, more cost memory
CUT = re.compile(r"\d{1,2}-\d{5}")
ALL_ROWS_KEY = "all/0-00000"
NUMBERED = "part"  # of keys that do not change with the file they are from


@dataclass(frozen=True, slots=True)
class Job:
    """One unit of work as it is sent to a worker: it can be pickled, and names its stage by module and name.

    `responses`: the store of model responses. `shared`: the folder of the build, None outside of a build. `offline`:
    the rules of the offline model.
    """

    module: str
    stage: str
    home: Path
    unit: str
    label: str
    keys: list[str]
    inputs: dict[str, Any]
    arguments: dict[str, Any]
    recipe: str
    responses: Path | str = ""
    shared: Path | None = None
    offline: Rules = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of its inputs as stored: bytes of Parquet, or of the range of a source."""
        return sum(map(_bytes_of, self.inputs.values()))

    @property
    def rows(self) -> int:
        """The number of rows of its first input."""
        first = next(iter(self.inputs.values()))
        return first.count if isinstance(first, Rows) else 0


def jobs_of(store: Store, call: StageCall, inputs: dict[str, Any] | None = None) -> Iterator[Job]:
    """The units of work of a call, in order, each with its identity. `inputs` replaces the inputs of the call."""
    work = call.stage
    for label, keys, unit_inputs in _units_of(work, call.inputs if inputs is None else inputs):
        hashes = {name: input_hashes(value) for name, value in unit_inputs.items()}
        unit = call.recipe.unit({**hashes, "keys": keys})
        names = work.module, work.name, store.home, unit, label
        yield Job(*names, keys, unit_inputs, call.arguments, call.recipe.fingerprint)


def _units_of(work: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(label, keys of the output parts, inputs) of each unit, by the shape of the first input."""
    first = next(iter(inputs.values()))
    if work.shape is Shape.SHARD:
        yield from _shards(inputs)
        return
    parts = {name: _by_unit(rows, work.inputs[name]) for name, rows in inputs.items()}
    for number, (unit, own_parts) in enumerate(_by_unit(first, work.shape).items()):
        unit_inputs = {
            name: rows.of(parts[name].get(_unit_of(unit, work.inputs[name]), [])) for name, rows in inputs.items()
        }
        numbered_keys = [f"{group_of(unit)}/{NUMBERED}{number:03d}"] if work.max_rows_per_part else None
        yield unit or "all", numbered_keys or _keys_of(work, unit, own_parts), unit_inputs


def _shards(inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """The units of a source stage: one for each shard."""
    (name, sources), *others = inputs.items()
    side_rows = {other: rows.of(rows.parts) for other, rows in others}
    for source in sources:
        for shard in source.shards:
            yield shard.key, [shard.key], {name: shard, **side_rows}


def _by_unit(rows: Rows, shape: Shape) -> dict[str, list[Part]]:
    """unit -> the parts of an input that it sees: one part, a group's parts, or all parts (key "")."""
    found: dict[str, list[Part]] = {} if shape is not Shape.ALL else {"": []}
    for part in rows.parts or ():
        found.setdefault(_unit_of(part.key, shape), []).append(part)
    return found


def _unit_of(key: str, shape: Shape) -> str:
    """The unit that a part key belongs to."""
    return "" if shape is Shape.ALL else group_of(key) if shape is Shape.GROUP else key


def _keys_of(work: Stage, unit: str, parts: list[Part]) -> list[str]:
    """The keys of the parts that a unit makes: those of its first input, as long as that is cut by hash or the unit
    sees no more than a part; else one key for all rows, or the keys of a group that is cut by its number of rows.
    """
    keys = [part.key for part in parts]
    if work.shape is Shape.PART or (keys and all(CUT.fullmatch(key.split("/")[1]) for key in keys)):
        return keys
    if work.shape is Shape.GROUP:
        return _keys_of_group(unit, parts)
    return keys if len(keys) == 1 else [ALL_ROWS_KEY]


def _keys_of_group(group: str, parts: list[Part]) -> list[str]:
    """The keys of a group that is cut by its number of rows."""
    rows, (fewest, most) = sum(part.rows for part in parts), ROWS_PER_PART
    rows_per_part = min(max(rows / PARTS, fewest), most)
    return part_keys(group, math.ceil(math.log2(max(1, rows / rows_per_part))))


def input_hashes(value: Any) -> list[str]:
    """Hashes of what an input holds: those of its parts, or of its sources."""
    if isinstance(value, Rows):
        return [f"{part.key} {part.sha256}" for part in value.parts or ()]
    if isinstance(value, Shard):
        return [fingerprint(value.source.identity()), str(value.index)]
    return [fingerprint(source.identity()) for source in value]


def hash_of_inputs(inputs: dict[str, Any]) -> str:
    """One hash of what all inputs of a call hold."""
    return fingerprint({name: input_hashes(value) for name, value in inputs.items()})


def _bytes_of(value: Any) -> int:
    """The stored bytes of one input."""
    if isinstance(value, Rows):
        return sum(part.bytes for part in value.parts or ())
    return value.end - value.start if isinstance(value, Shard) else 0
