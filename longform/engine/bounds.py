"""The most rows that a stage makes, and the most calls that it makes, while its inputs are not built."""

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
    """A placeholder for a part that is not built yet: it has a key, but no id and no rows."""
    return Part(stage, key, "", 0, 0, "")


def cut_is_unknown(key: str) -> bool:
    """Whether a part key has the placeholder `?` for its range, as nobody knows yet how its group will be cut."""
    return NOT_CUT in key


@dataclass(frozen=True, slots=True)
class UnbuiltRows:
    """Rows that a group will have besides those that are built.

    `most`: the upper bound. `about`: an estimate, None if there is none. `like`: the groups of earlier builds whose
    rates the estimate uses.
    """

    most: float
    about: float | None
    like: frozenset[str] = frozenset()


class KnownRows:
    """What a plan knows of a stage's rows: its parts in order, and bounds of what is not built yet.

    `rest` is by group; the key "" stands for all groups together.
    """

    def __init__(self, parts: list[Part], rest: dict[str, UnbuiltRows] | None = None) -> None:
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
        """The number of rows that are built, of one group or of all."""
        return self._rows.total() if group is None else self._rows[group]

    def most(self, group: str | None = None) -> float:
        """The most rows there can be, of one group or of all."""
        return self.rows(group) + sum(unbuilt.most for unbuilt in self._rest(group))

    def about(self, group: str | None = None) -> float | None:
        """An estimate of the rows, of one group or of all; None if nothing allows one."""
        rest = [unbuilt.about for unbuilt in self._rest(group) if unbuilt.about is not None]
        return None if len(rest) < len(self._rest(group)) else self.rows(group) + sum(rest)

    def like(self, group: str | None = None) -> frozenset[str]:
        """The groups of earlier builds whose rates the estimate uses."""
        return frozenset[str]().union(*(unbuilt.like for unbuilt in self._rest(group)))

    def _rest(self, group: str | None) -> list[UnbuiltRows]:
        if group is None:
            return list(self.rest.values())
        return [self.rest[name] for name in (group, "") if name in self.rest]


def rows_at_most(stage: Stage, sizes: Sizes, rows_in: float) -> float:
    """The most rows that a stage makes of inputs of these sizes; `rows_in` if it declares no bound."""
    declared = stage.at_most.rows
    return _whole(declared(sizes)) if declared else rows_in


def calls_at_most(stage: Stage, sizes: Sizes, rows_in: float) -> float:
    """The most calls that a stage makes to each of its models; `rows_in` if it declares no bound."""
    declared = stage.at_most.calls
    return _whole(declared(sizes)) if declared else rows_in


def _whole(bound: float) -> float:
    """The bound rounded down and at least 0; infinity if it is unknown."""
    return UNKNOWN if math.isnan(bound) or bound == UNKNOWN else max(0, math.floor(bound))


def shard_sizes(call: StageCall, shard: Shard, others: dict[str, float]) -> Sizes:
    """The sizes that one unit of a source stage is called with; `others` are the numbers of rows of its other
    inputs.
    """
    first = next(iter(call.inputs))
    sizes = Sizes({**call.arguments, **others, first: shard}, units=1)
    declared = call.stage.at_most.bytes
    return Sizes(sizes.values, units=1, bytes=declared(sizes)) if declared else sizes


def records_at_most(call: StageCall) -> dict[str, int]:
    """group -> the most rows that its sources can hold. Groups without a bound are left out; empty for other stages."""
    if call.stage.shape is not Shape.SHARD:
        return {}
    found: Counter[str] = Counter()
    unknown: set[str] = set()
    others = {name: float(rows.count) for name, rows in call.upstream.items()}
    for source in next(iter(call.inputs.values())):
        for shard in source.shards:
            bound = rows_at_most(call.stage, shard_sizes(call, shard, others), UNKNOWN)
            if bound == UNKNOWN:
                unknown.add(source.group)
            else:
                found[source.group] += int(bound)
    return {group: number for group, number in found.items() if group not in unknown}


def bytes_by_group(call: StageCall) -> dict[str, float]:
    """group -> the most bytes, unpacked, of the sources that a source stage reads."""
    found: dict[str, float] = {}
    for source in next(iter(call.inputs.values())):
        unpacked = sum(shard_sizes(call, shard, {}).bytes for shard in source.shards)
        found[source.group] = found.get(source.group, 0.0) + unpacked
    return found


def default_rows_in(call: StageCall, rows_in: float) -> float:
    """The bound of a stage that declares none: `rows_in` if its rows have the key of its first input or a model makes
    them.
    """
    first = next(iter(call.inputs.values()))
    return rows_in if isinstance(first, Rows) and (first.key == call.stage.key or call.endpoints) else UNKNOWN
