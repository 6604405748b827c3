"""Units of work: how a stage's inputs are cut into jobs, and what each job is called."""

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
    """One unit of work, as it is sent to a worker: it pickles, and names its stage by module and name.

    `responses`: where answers of models are kept; `shared`: the folder of the build, None outside of one;
    `offline`: the rules of the offline model.
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
        """Of its inputs as they are stored: Parquet, or the range of a source."""
        return sum(map(_bytes_of, self.inputs.values()))

    @property
    def rows(self) -> int:
        """Of its first input."""
        first = next(iter(self.inputs.values()))
        return first.count if isinstance(first, Rows) else 0


def jobs_of(store: Store, call: StageCall, inputs: dict[str, Any] | None = None) -> Iterator[Job]:
    """The units of work of a call, in order, each with its identity. `inputs`: instead of those of the call."""
    work = call.stage
    for label, keys, unit_inputs in _units_of(work, call.inputs if inputs is None else inputs):
        hashes = {name: input_hashes(value) for name, value in unit_inputs.items()}
        unit = call.recipe.unit({**hashes, "keys": keys})
        named = (work.module, work.name, store.home, unit, label, keys)
        yield Job(*named, unit_inputs, call.arguments, call.recipe.fingerprint)


def _units_of(work: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(label, keys of the output parts, inputs) of each unit, by the shape of the first input."""
    first = next(iter(inputs.values()))
    if work.shape is Shape.SHARD:
        yield from _shards(inputs)
        return
    parts = {name: _by_unit(rows, work.inputs[name]) for name, rows in inputs.items()}
    for number, (unit, own) in enumerate(_by_unit(first, work.shape).items()):
        chosen = {name: _narrowed(rows, work.inputs[name], parts[name], unit) for name, rows in inputs.items()}
        numbered = [f"{group_of(unit)}/{NUMBERED}{number:03d}"] if work.max_rows_per_part else None
        yield unit or "all", numbered or _keys_of(work, unit, own), chosen


def _shards(inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    (name, sources), *others = inputs.items()
    seen = {other: rows.of(rows.parts) for other, rows in others}
    for source in sources:
        for index in range(len(source.pieces)):
            shard = Shard(source, index)
            yield shard.key, [shard.key], {name: shard, **seen}


def _by_unit(rows: Rows, kind: Shape) -> dict[str, list[Part]]:
    """The parts by what one unit of work sees of them: a part, a group, or all ("")."""
    found: dict[str, list[Part]] = {} if kind is not Shape.ALL else {"": []}
    for part in rows.parts or ():
        found.setdefault(_unit_of(part.key, kind), []).append(part)
    return found


def _unit_of(key: str, kind: Shape) -> str:
    return "" if kind is Shape.ALL else group_of(key) if kind is Shape.GROUP else key


def _narrowed(rows: Rows, kind: Shape, parts: dict[str, list[Part]], unit: str) -> Rows:
    return rows.of(parts.get(_unit_of(unit, kind), []))


def _keys_of(work: Stage, unit: str, parts: list[Part]) -> list[str]:
    """The keys of the parts that a unit makes."""
    if work.shape is Shape.GROUP:
        return _output_keys(unit, parts)
    return _all_rows_keys(parts) if work.shape is Shape.ALL else _keys(parts)


def _keys(parts: list[Part]) -> list[str]:
    return [part.key for part in parts]


def _all_rows_keys(parts: list[Part]) -> list[str]:
    """Keep the cut of the first input, where there is one: several parts of a source, or none, become one part."""
    keys = _keys(parts)
    kept = len(keys) == 1 or (keys and all(CUT.fullmatch(key.split("/")[1]) for key in keys))
    return keys if kept else [ALL_ROWS_KEY]


def _output_keys(group: str, parts: list[Part]) -> list[str]:
    """Keep the cut of the first input; where it is a source's, choose one by the number of rows."""
    keys = _keys(parts)
    if all(CUT.fullmatch(key.split("/")[1]) for key in keys):
        return keys
    rows, (least, most) = sum(part.rows for part in parts), ROWS_PER_PART
    each = min(max(rows / PARTS, least), most)
    return part_keys(group, math.ceil(math.log2(max(1, rows / each))))


def input_hashes(value: Any) -> list[str]:
    """What an input holds: hashes of its parts, or of its sources."""
    if isinstance(value, Rows):
        return [f"{part.key} {part.sha256}" for part in value.parts or ()]
    if isinstance(value, Shard):
        return [fingerprint(value.source.identity()), str(value.index)]
    return [fingerprint(source.identity()) for source in value]


def hash_of_inputs(inputs: dict[str, Any]) -> str:
    """One hash of what all inputs of a call hold."""
    return fingerprint({name: input_hashes(value) for name, value in inputs.items()})


def _bytes_of(value: Any) -> int:
    if isinstance(value, Rows):
        return sum(part.bytes for part in value.parts or ())
    return value.end - value.start if isinstance(value, Shard) else 0
