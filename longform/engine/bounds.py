"""Bounds and estimates of the rows and calls of a stage while its inputs are not built; their costs are in pricing.py.

Bounds follow from the sizes of the inputs, estimates from the rates of earlier builds of the stage: rows made and
answers read for each input row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from longform.artifacts.parts import group_of
from longform.artifacts.rows import Rows, Shard
from longform.artifacts.store import Artifact, Part, Store
from longform.engine.at_most import UNKNOWN, Sizes, bound
from longform.engine.jobs import ALL_ROWS_KEY
from longform.engine.stage import Shape, StageCall
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint

NOT_CUT = "?"  # in place of the range of a part key: how its group will be cut is not known
ALL_GROUP = group_of(ALL_ROWS_KEY)
AT_ITS_BOUND, NEAR_ITS_BOUND = 0.99, 0.9


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows a stage will have, or a group of its rows.

    `most`: the upper bound, which may be infinite. `about`: an estimate, None if there is none. `like`: the groups of
    earlier builds whose rates the estimate uses.
    """

    most: float
    about: float | None
    like: frozenset[str] = frozenset()


class KnownRows:
    """What a plan knows of a stage's rows. `parts`: its parts in order, those not built with an empty id. `built`:
    whether all rows are. `rows`: group -> number of built rows.

    `rest`: group -> number of rows that are not built yet; the group "" stands for all groups together.
    """

    def __init__(self, parts: list[Part], rest: dict[str, RowCount] | None = None) -> None:
        self.parts, self.rest = parts, rest or {}
        self.built = not self.rest and all(part.id for part in parts)
        self.keys = {part.key for part in parts}
        self.unmade = {part.key for part in parts if not part.id}
        self.unmade_groups = set(map(group_of, self.unmade))
        self.not_cut = {group_of(key) for key in self.unmade if NOT_CUT in key}
        self.rows = _rows_by_group(parts)

    def misses(self, input_shape: Shape, stage_shape: Shape, label: str) -> bool:
        """Whether a unit of work of a later stage needs rows of this stage that are not built yet. A unit that sees
        all rows of this input or of its first input, or reads a source, needs all rows; else those of its group or its
        part. True also if it is unknown into which parts the group will be divided, and `label` is none of those
        known.

        `input_shape`: how much of these rows the unit sees. `stage_shape`: how much it sees of its first input.
        `label`: the unit's label, a part key or a group.
        """
        if input_shape is Shape.ALL or stage_shape in (Shape.ALL, Shape.SHARD):
            return not self.built
        group = group_of(label)
        if input_shape is Shape.GROUP:
            return group in self.unmade_groups
        return label in self.unmade or (group in self.not_cut and label not in self.keys)

    def count(self, group: str | None = None) -> RowCount:
        """The number of rows there will be, as bound and estimate: of one group, or of all groups (None). Built rows
        count as they are; for one group, unbuilt rows of "" (see `rest`) count in full. The estimate is None if it is
        missing for some of the rows that are not built.
        """
        rows = self.rows.total() if group is None else self.rows[group]
        rest = [self.rest[name] for name in (self.rest if group is None else (group, "")) if name in self.rest]
        about = [unbuilt.about for unbuilt in rest if unbuilt.about is not None]
        return RowCount(
            rows + sum(unbuilt.most for unbuilt in rest),
            rows + sum(about) if len(about) == len(rest) else None,
            frozenset[str]().union(*(unbuilt.like for unbuilt in rest)),
        )


def _rows_by_group(parts: list[Part], group: Callable[[str], str] = group_of) -> Counter[str]:
    """group -> number of rows in its parts; `group`: the function that gives the group of a part key."""
    found: Counter[str] = Counter()
    for part in parts:
        found[group(part.key)] += part.rows
    return found


def shard_sizes(call: StageCall, shard: Shard, others: dict[str, float]) -> Sizes:
    """The sizes from which the bounds of one unit of a source stage are computed; the unit reads `shard`. `others`:
    name of each other input -> its number of rows. The unpacked bytes are infinite if the stage declares none.
    """
    sizes = Sizes({**call.arguments, **others, next(iter(call.inputs)): shard}, units=1)
    declared = call.stage.at_most.bytes
    return Sizes(sizes.values, units=1, bytes=declared(sizes)) if declared else sizes


def records_at_most(call: StageCall) -> dict[str, int]:
    """group -> upper bound of the rows that a source stage makes of the group's sources. Groups without a bound are
    left out; empty for stages that are not source stages.
    """
    if call.stage.shape is not Shape.SHARD:
        return {}
    found: dict[str, float] = {}
    others = {name: float(rows.count) for name, rows in call.upstream.items()}
    for source in next(iter(call.inputs.values())):
        sizes = [shard_sizes(call, shard, others) for shard in source.shards]
        most = sum(bound(call.stage.at_most.rows, of_shard, UNKNOWN) for of_shard in sizes)
        found[source.group] = found.get(source.group, 0) + most
    return {group: int(most) for group, most in found.items() if most != UNKNOWN}


def bytes_by_group(call: StageCall) -> dict[str, float]:
    """group -> upper bound of the unpacked bytes of its sources, for a source stage; infinite if the stage declares
    none.
    """
    found: dict[str, float] = {}
    for source in next(iter(call.inputs.values())):
        unpacked = sum(shard_sizes(call, shard, {}).bytes for shard in source.shards)
        found[source.group] = found.get(source.group, 0.0) + unpacked
    return found


@dataclass(frozen=True, slots=True)
class EarlierBuild:
    """An earlier artifact's numbers. `rows_in`: group -> rows of its first input (of source stages: upper bound of the
    rows made, as `records_at_most` gives it). `rows_out`: group -> rows made. `count_answers()`: group -> number of
    model responses read. A stage that sees all rows at once has the one group "".
    """

    artifact: Artifact
    rows_in: Mapping[str, int]
    rows_out: Mapping[str, int]
    count_answers: Callable[[], Counter[str]]


@dataclass(frozen=True, slots=True)
class Rate:
    """What an earlier build made of each row of its first input: rows (`rows`) and questions (`calls`, None if it read
    no answers).

    `at_bound`: it made at least 99 percent (AT_ITS_BOUND) of the rows that the declared bound allowed. `like`: the
    groups that the rate was measured on. `stored`: number of its input rows whose stored answers will be used again.
    `settings_changed`: a setting of the stage, or of a stage upstream, has changed since.
    """

    rows: float
    at_bound: bool
    calls: float | None
    stored: int
    like: frozenset[str]
    settings_changed: bool

    def rows_about(self, rows_in: float, most: float, *, most_is_about: bool) -> float | None:
        """The estimated number of rows made of `rows_in` rows: as many for each row as before, at most `most`; just
        `most` if the earlier build reached its bound, `most_is_about` and `most` is finite. None if settings have
        changed and the estimate is below 90 percent of `most`.

        `most_is_about`: `most` was computed from estimates of the inputs, not from their bounds.
        """
        if self.at_bound and most_is_about and most != UNKNOWN:
            return most
        return self._about_if_trusted(self.rows * rows_in, most)

    def calls_about(self, rows_in: float, most: float, seen: int) -> float | None:
        """The estimated number of new questions for `rows_in` rows, of which at most `most` are asked; those whose
        answers are stored and used again are subtracted, down to 0. None if the earlier build read no answers, or if
        settings have changed and the estimate is below 90 percent of `most`.

        `seen`: how many of the rows with stored answers are not among these `rows_in`, so that nothing is subtracted
        for them.
        """
        if self.calls is None:
            return None
        about = self._about_if_trusted(self.calls * rows_in, most)
        return about if about is None else max(0.0, about - self.calls * max(0, self.stored - seen))

    def _about_if_trusted(self, about: float, most: float) -> float | None:
        """The estimate `about`, cut to the bound `most`. None if settings have changed since the rate was measured and
        `about` is below 90 percent (NEAR_ITS_BOUND) of `most`: it is then no longer trusted.
        """
        return None if self.settings_changed and about < NEAR_ITS_BOUND * most else min(about, most)


class Rates:
    """The rates of earlier builds of the stages in a home: `rate_for` gives that of a call. `artifacts(stage)`: the
    stage's artifacts, newest first. `calls`: fingerprint -> planned call, a mapping that the caller fills while it
    plans.
    """

    def __init__(self, store: Store, calls: Mapping[str, StageCall]) -> None:
        self.store, self._calls = store, calls
        self.artifacts = cache(store.artifacts)  # of a stage, newest first
        self._builds = cache(self._similar_builds)
        self._changed: dict[tuple[str, str], tuple[int, int]] = {}

    def rate_for(self, call: StageCall, group: str) -> Rate | None:
        """The rate of a group in the most similar earlier build that had rows in it; if none had, the rate of all
        groups together in the most similar build. None if there is no earlier build. Similar builds have few changes
        of settings, then of prompts and models; of equally similar ones the newest counts.

        Group "" stands for all rows of a stage that sees all rows at once. Where rows are not divided by group (group
        `all`) now or then, the rate is that of all groups of the build.
        """
        builds = self._builds(call)
        of_group = next(((earlier, groups) for earlier in builds if (groups := _groups_alike(earlier, group))), None)
        if of_group is not None:
            return self._rate(call, *of_group, of_group=True)
        return self._rate(call, builds[0], list(builds[0].rows_in), of_group=False) if builds else None

    def _rate(self, call: StageCall, earlier: EarlierBuild, groups: list[str], *, of_group: bool) -> Rate:
        """The rate of these groups in an earlier build, which had rows in them. `of_group`: they stand for one group
        of the call; only then may its stored answers be used again, if neither the stage nor its input rows have
        changed.
        """
        rows_in, rows_out = (
            sum(counts.get(group, 0) for group in groups) for counts in (earlier.rows_in, earlier.rows_out)
        )
        most = self._earlier_bound(call, earlier.artifact, rows_in)
        answers_read = sum(earlier.count_answers()[group] for group in groups)
        still_apply = of_group and not _own_changes(call, earlier.artifact) and self._same_rows(call, earlier.artifact)
        at_bound = rows_out > 0 and most != UNKNOWN and rows_out >= AT_ITS_BOUND * most
        settings_changed = self._changes(call, earlier.artifact)[0] > 0
        return Rate(
            rows_out / rows_in,
            at_bound,
            answers_read / rows_in if answers_read else None,
            rows_in if answers_read and still_apply else 0,
            frozenset(groups),
            settings_changed,
        )

    # what an earlier build was given

    def _similar_builds(self, call: StageCall) -> list[EarlierBuild]:
        """The earlier builds of a stage that had rows to read, those with the fewest changed settings first, then
        those with the fewest changed prompts and models, then the newest.
        """
        groups = group_of if call.stage.shape is not Shape.ALL else lambda _: ""
        builds = [
            EarlierBuild(
                artifact,
                self._rows_in(call, artifact, groups),
                _rows_by_group(artifact.parts, groups),
                cache(partial(self._answers, call, artifact, groups)),
            )
            for artifact in sorted(self.artifacts(call.name), key=lambda artifact: self._changes(call, artifact))
        ]
        return [earlier for earlier in builds if sum(earlier.rows_in.values())]

    def _rows_in(self, call: StageCall, artifact: Artifact, groups: Callable[[str], str]) -> Mapping[str, int]:
        """group -> rows of the first input of an earlier artifact, and of those in `also`; for a source stage the upper
        bounds recorded with it. Empty if the input's artifact is gone, except for a stage that sees all rows at once.
        `groups` gives the group of a part key.
        """
        name, first = next(iter(call.inputs.items()))
        if not isinstance(first, Rows):
            return artifact.records_at_most
        input_artifact = self._recorded(first.stage, artifact.recipe.inputs.get(name))
        if input_artifact is None and call.stage.shape is Shape.ALL:
            return {"": artifact.rows_in.get(name, 0)}
        found = _rows_by_group(input_artifact.parts if input_artifact else [], groups)
        for also in call.stage.also:
            further = self._recorded(call.upstream[also].stage, artifact.recipe.inputs.get(also))
            found += _rows_by_group(further.parts if further else [], groups)
        return found

    def _recorded(self, stage: str, fingerprint: object) -> Artifact | None:
        """The artifact of a stage with this fingerprint; None if it is no longer recorded."""
        return next((artifact for artifact in self.artifacts(stage) if artifact.fingerprint == fingerprint), None)

    def _earlier_bound(self, call: StageCall, artifact: Artifact, rows_in: int) -> float:
        """The bound of rows that the stage's declaration gives for the earlier build's arguments and `rows_in` rows of
        the first input. Infinity for source stages, without a declaration, or if the declaration fails for these
        arguments.
        """
        first, *others = call.inputs
        if call.stage.shape is Shape.SHARD or call.stage.at_most.rows is None:
            return UNKNOWN
        upstream = {}
        for name, rows in call.upstream.items():
            input_artifact = self._recorded(rows.stage, artifact.recipe.inputs.get(name))
            upstream[name] = input_artifact.recipe.arguments if input_artifact else {}
        values: dict[str, Any] = {name: float(artifact.rows_in.get(name, UNKNOWN)) for name in others}
        values |= {**artifact.recipe.arguments, first: float(rows_in)}
        sizes = Sizes(values, len(artifact.units), upstream=upstream)
        try:
            return bound(call.stage.at_most.rows, sizes, UNKNOWN)
        except (KeyError, TypeError, AttributeError):  # of arguments that it had not, or that are no numbers
            return UNKNOWN

    def _answers(self, call: StageCall, artifact: Artifact, groups: Callable[[str], str]) -> Counter[str]:
        """group -> number of model responses that the units of an earlier build read; empty if the stage asks no
        model. Units whose parts are gone are left out. `groups` gives the group of a part key.
        """
        read: Counter[str] = Counter()
        for unit in artifact.units if call.endpoints else ():
            if parts := self.store.unit(call.name, unit):
                read[groups(parts[0].key)] += len(self.store.responses(call.name, unit))
        return read

    # what has changed since

    def _changes(self, call: StageCall, artifact: Artifact) -> tuple[int, int]:
        """(number of changed settings, number of changed prompts and models) since an artifact was made, of the stage
        and all stages upstream.
        """
        pair = call.recipe.fingerprint, artifact.fingerprint
        if pair not in self._changed:
            upstream = [(rows, artifact.recipe.inputs.get(name)) for name, rows in call.upstream.items()]
            changes = [_changed_arguments(call, artifact), *(self._changes_upstream(*each) for each in upstream)]
            settings, models = zip(*changes, strict=True)
            self._changed[pair] = sum(settings), sum(models)
        return self._changed[pair]

    def _changes_upstream(self, rows: Rows, then: object) -> tuple[int, int]:
        """`_changes` of the stage that made these rows since an earlier build; `then`: the fingerprint of the rows in
        that build. (0, 0) if they are the same rows, (1, 0) if the call or the earlier artifact is unknown.
        """
        if rows.fingerprint == then:
            return 0, 0
        call, artifact = self._calls.get(rows.fingerprint), self._recorded(rows.stage, then)
        return self._changes(call, artifact) if call and artifact else (1, 0)

    # whether answers of then are answers of now

    def _same_rows(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether every input still has all rows that it had when the artifact was made, unchanged; rows may have been
        added.
        """
        return all(self._same_input(value, artifact.recipe.inputs.get(name)) for name, value in call.inputs.items())

    def _same_input(self, value: Any, then: Any) -> bool:
        """Whether one input (`value`: rows, or a list of sources) still has all rows that it had in the earlier build,
        unchanged; rows may have been added. False if this is unknown. `then`: the input's identity in the earlier
        recipe.

        For rows, neither the stage that made them nor what it joins may have changed, and its inputs are looked at in
        the same way. If that stage only leaves out rows of its first input (AtMost.keeps), its own changes do not
        count.
        """
        if not isinstance(value, Rows):
            now = [source.identity() for source in value]
            return isinstance(then, list) and all(source in now for source in then)
        if value.fingerprint == then:
            return True
        call, artifact = self._calls.get(value.fingerprint), self._recorded(value.stage, then)
        if call is None or artifact is None:
            return False
        changed = _own_changes(call, artifact) or self._other_rows_in(call, artifact)
        return (call.stage.at_most.keeps or not changed) and self._same_rows(call, artifact)

    def _other_rows_in(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether the rows of an input of which a unit sees more than one part have changed: each output row may then
        come out otherwise.
        """
        return any(
            rows.fingerprint != artifact.recipe.inputs.get(name)
            for name, rows in call.upstream.items()
            if call.stage.inputs[name] is not Shape.PART
        )


def _own_changes(call: StageCall, artifact: Artifact) -> list[str]:
    """What changed in a stage itself since an artifact was made, as short phrases; empty if nothing did. Changes of
    its inputs are left out.
    """
    return [change for change in call.recipe.differences(artifact.recipe) if not change.startswith("its input")]


def _groups_alike(earlier: EarlierBuild, group: str) -> list[str]:
    """The groups of an earlier build that `group` is to be compared with: the same group if it had rows; else all
    groups if `group` or a group of the earlier build is `all`, in which rows are not divided by group; else none.
    """
    if earlier.rows_in.get(group):
        return [group]
    return list(earlier.rows_in) if ALL_GROUP in (group, *earlier.rows_in) else []


def _changed_arguments(call: StageCall, artifact: Artifact) -> tuple[int, int]:
    """(number of changed settings, number of changed prompts and models) of a stage alone since an artifact was made;
    a new revision counts as a setting, while a changed schema and arguments that are gone do not count.
    """
    now, then = call.recipe, artifact.recipe
    names = [name for name in now.arguments if now.arguments[name] != then.arguments.get(name)]
    asked = sum(isinstance(call.arguments[name], Prompt | Endpoint) for name in names)
    return len(names) - asked + (now.revision != then.revision), asked
