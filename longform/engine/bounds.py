"""How many rows a stage makes and how many questions it asks at most, where its inputs are not built."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from longform.artifacts.parts import group_of
from longform.artifacts.rows import Rows, Shard
from longform.artifacts.store import Part
from longform.engine.at_most import UNKNOWN, Sizes
from longform.engine.stage import Shape, Stage, StageCall

NOT_CUT = "?"  # in place of the range of a key: how its group will be cut is not known


def unmade(stage: str, key: str) -> Part:
    """What stands for a part that is not there yet: it has a key, and no id."""
    return Part(stage, key, "", 0, 0, "")


def cut_is_unknown(key: str) -> bool:
    return NOT_CUT in key


@dataclass(frozen=True, slots=True)
class Rest:
    """Rows that a group will have besides those that are built. `about` None: no estimate; `like`: whose rates."""

    most: float
    about: float | None
    like: frozenset[str] = frozenset()


class Known:
    """What a plan knows of the rows of a stage: its parts in their order, and a bound of what is not made yet.

    `rest` is by group; under "" it is of all groups together.
    """

    def __init__(self, parts: list[Part], rest: dict[str, Rest] | None = None) -> None:
        self.parts, self.rest = parts, rest or {}
        self.built = not self.rest and all(part.id for part in parts)
        self.keys = {part.key for part in parts}
        self.unmade = {part.key for part in parts if not part.id}
        self.unmade_groups = set(map(group_of, self.unmade))
        self.not_cut = {group_of(key) for key in self.unmade if cut_is_unknown(key)}
        self._rows: Counter[str] = Counter()
        for part in parts:
            self._rows[group_of(part.key)] += part.rows

    def rows(self, group: str | None = None) -> int:
        """That are there, of a group or of all."""
        return self._rows.total() if group is None else self._rows[group]

    def most(self, group: str | None = None) -> float:
        return self.rows(group) + sum(each.most for each in self._rest(group))

    def about(self, group: str | None = None) -> float | None:
        rest = [each.about for each in self._rest(group) if each.about is not None]
        return None if len(rest) < len(self._rest(group)) else self.rows(group) + sum(rest)

    def like(self, group: str | None = None) -> frozenset[str]:
        """The groups whose rates `about` goes by."""
        return frozenset[str]().union(*(each.like for each in self._rest(group)))

    def _rest(self, group: str | None) -> list[Rest]:
        if group is None:
            return list(self.rest.values())
        return [self.rest[name] for name in (group, "") if name in self.rest]


def rows_at_most(stage: Stage, sizes: Sizes, rows_in: float) -> float:
    """Rows of so many units; `rows_in` are those of the first input."""
    declared = stage.at_most.rows
    return _whole(declared(sizes)) if declared else rows_in


def calls_at_most(stage: Stage, sizes: Sizes, rows_in: float) -> float:
    """Questions that so many units ask each of their models."""
    declared = stage.at_most.calls
    return _whole(declared(sizes)) if declared else rows_in


def _whole(bound: float) -> float:
    return UNKNOWN if math.isnan(bound) or bound == UNKNOWN else max(0, math.floor(bound))


def shard_sizes(call: StageCall, shard: Shard, others: dict[str, float]) -> Sizes:
    """Of one unit of a stage of sources; `others` are the rows of its other inputs."""
    first = next(iter(call.inputs))
    sizes = Sizes({**call.arguments, **others, first: shard}, units=1)
    declared = call.stage.at_most.bytes
    return Sizes(sizes.given, units=1, bytes=declared(sizes)) if declared else sizes


def records_at_most(call: StageCall) -> dict[str, int]:
    """Group -> how many rows its sources can hold, as far as anything bounds them; empty for other stages."""
    if call.stage.shape is not Shape.SHARD:
        return {}
    found: Counter[str] = Counter()
    unknown: set[str] = set()
    others = {name: float(rows.count) for name, rows in call.upstream.items()}
    for source in next(iter(call.inputs.values())):
        for index in range(len(source.pieces)):
            bound = rows_at_most(call.stage, shard_sizes(call, Shard(source, index), others), UNKNOWN)
            if bound == UNKNOWN:
                unknown.add(source.group)
            else:
                found[source.group] += int(bound)
    return {group: number for group, number in found.items() if group not in unknown}


def bytes_by_group(call: StageCall) -> dict[str, float]:
    """Of the sources of a stage that reads them, unpacked, at most."""
    found: dict[str, float] = {}
    for source in next(iter(call.inputs.values())):
        for index in range(len(source.pieces)):
            sizes = shard_sizes(call, Shard(source, index), {})
            found[source.group] = found.get(source.group, 0.0) + sizes.bytes
    return found


def default_rows_in(call: StageCall, rows_in: float) -> float:
    """What bounds the rows of a stage that declares nothing: those of its first input, if they are the same things."""
    first = next(iter(call.inputs.values()))
    return rows_in if isinstance(first, Rows) and (first.key == call.stage.key or call.endpoints) else UNKNOWN
