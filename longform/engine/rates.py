"""Rates of earlier builds of a stage (rows made and answers read for each input row), by which a plan
estimates rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from longform.artifacts.parts import group_of
from longform.artifacts.rows import Rows, Source
from longform.artifacts.store import Artifact, Store
from longform.engine.at_most import UNKNOWN, Sizes
from longform.engine.bounds import rows_at_most
from longform.engine.jobs import ALL_ROWS_KEY
from longform.engine.stage import Shape, StageCall
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint

ALL_GROUP = group_of(ALL_ROWS_KEY)
AT_ITS_BOUND, NEAR_ITS_BOUND = 0.99, 0.9


@dataclass(slots=True)
class EarlierBuild:
    """An earlier artifact's numbers by group: rows of its first input (of sources: the most records), rows made,
    answers read.
    """

    artifact: Artifact
    rows_in: dict[str, int]
    rows_out: dict[str, int]
    answers: dict[str, int] | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows made (`rows`) and questions asked (`calls`) for each row of the first input.

    `at_bound`: as many rows were made as the declared bound allowed. `like`: the groups that the rate was measured on.
    `stored`: input rows of the earlier build whose answers are stored. `settings_changed`: a setting of the stage, or
    of one upstream, has changed since.
    """

    rows: float
    at_bound: bool
    calls: float | None
    stored: int
    like: frozenset[str]
    settings_changed: bool

    def rows_about(self, rows_in: float, most: float, *, most_is_about: bool) -> float | None:
        """The estimated rows made of `rows_in` rows, at most `most`; None if settings have changed and the bound says
        nothing.

        `most_is_about`: the bound is computed from estimates of the inputs, not from their bounds.
        """
        if self.at_bound and most_is_about and most != UNKNOWN:
            return most
        return self._trusted(self.rows * rows_in, most)

    def calls_about(self, rows_in: float, most: float, seen: int) -> float | None:
        """The estimated new questions for `rows_in` rows, at most `most`, without those whose answers are stored.

        `seen`: the rows with stored answers that are not among these.
        """
        if self.calls is None:
            return None
        about = self._trusted(self.calls * rows_in, most)
        return about if about is None else max(0.0, about - self.calls * max(0, self.stored - seen))

    def _trusted(self, about: float, most: float) -> float | None:
        """The estimate, at most `most`; None if settings have changed and it is far below the bound."""
        return None if self.settings_changed and about < NEAR_ITS_BOUND * most else min(about, most)


class Rates:
    """The rates of earlier artifacts in a home; each artifact is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._artifacts: dict[str, list[Artifact]] = {}
        self._earlier: dict[str, EarlierBuild] = {}
        self._calls: dict[str, StageCall] = {}
        self._changed: dict[tuple[str, str], tuple[int, int]] = {}

    def note(self, call: StageCall) -> None:
        """Remember a planned call, whose rows may be the input of a later stage."""
        self._calls[call.recipe.fingerprint] = call

    def artifacts(self, stage: str) -> list[Artifact]:
        """The artifacts of a stage, newest first."""
        if stage not in self._artifacts:
            self._artifacts[stage] = self.store.artifacts(stage)
        return self._artifacts[stage]

    def of(self, call: StageCall, group: str) -> Rate | None:
        """The rate of a group, else of all groups together, in the most similar earlier build; None without one.

        Group "" stands for all rows of a stage that sees all rows at once.
        """
        most_similar = sorted(self.artifacts(call.name), key=lambda artifact: self._changes(call, artifact))
        builds = [
            earlier
            for artifact in most_similar
            if sum((earlier := self._earlier_build(call, artifact)).rows_in.values())
        ]
        of_group = next(((earlier, groups) for earlier in builds if (groups := _groups_alike(earlier, group))), None)
        if of_group is not None:
            return self._rate(call, *of_group, of_group=True)
        return self._rate(call, builds[0], list(builds[0].rows_in), of_group=False) if builds else None

    def _rate(self, call: StageCall, earlier: EarlierBuild, groups: list[str], *, of_group: bool) -> Rate:
        """The rate of these groups in an earlier build."""
        rows_in, rows_out = (
            sum(counts.get(group, 0) for group in groups) for counts in (earlier.rows_in, earlier.rows_out)
        )
        bound = self._earlier_bound(call, earlier.artifact, rows_in)
        answers_of = self._answers(call, earlier)
        answers_read = sum(answers_of.get(group, 0) for group in groups)
        still_apply = of_group and not _own_changes(call, earlier.artifact) and self._same_rows(call, earlier.artifact)
        at_bound = rows_out > 0 and bound != UNKNOWN and rows_out >= AT_ITS_BOUND * bound
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

    def _earlier_build(self, call: StageCall, artifact: Artifact) -> EarlierBuild:
        """An artifact's numbers by group, computed once."""
        if artifact.fingerprint not in self._earlier:
            groups = group_of if call.stage.shape is not Shape.ALL else lambda _: ""
            rows_out: Counter[str] = Counter()
            for part in artifact.parts:
                rows_out[groups(part.key)] += part.rows
            rows_in = self._rows_in(call, artifact, groups)
            self._earlier[artifact.fingerprint] = EarlierBuild(artifact, rows_in, dict(rows_out))
        return self._earlier[artifact.fingerprint]

    def _rows_in(self, call: StageCall, artifact: Artifact, groups: Callable[[str], str]) -> dict[str, int]:
        """group -> rows of the first input of an earlier artifact; of source stages the most records."""
        name, first = next(iter(call.inputs.items()))
        if not isinstance(first, Rows):
            return artifact.records_at_most
        input_artifact = self._recorded(first.stage, artifact.recipe.inputs.get(name))
        rows_in: Counter[str] = Counter()
        for part in input_artifact.parts if input_artifact else ():
            rows_in[groups(part.key)] += part.rows
        if input_artifact is None and call.stage.shape is Shape.ALL:
            rows_in[""] = artifact.rows_in.get(name, 0)
        return dict(rows_in)

    def _recorded(self, stage: str, fingerprint: object) -> Artifact | None:
        """The artifact of a stage with this fingerprint, if it is still recorded."""
        return next((artifact for artifact in self.artifacts(stage) if artifact.fingerprint == fingerprint), None)

    def _earlier_bound(self, call: StageCall, artifact: Artifact, rows_in: int) -> float:
        """The bound that the stage's declaration gives for the earlier build's arguments; infinite if it needs more
        than numbers.
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
            return rows_at_most(call.stage, sizes, UNKNOWN)
        except (KeyError, TypeError, AttributeError):  # of arguments that it had not, or that are no numbers
            return UNKNOWN

    def _answers(self, call: StageCall, earlier: EarlierBuild) -> dict[str, int]:
        """group -> number of responses that the units of an earlier build read."""
        if earlier.answers is None:
            read: Counter[str] = Counter()
            for unit in earlier.artifact.units if call.endpoints else ():
                parts = self.store.unit(call.name, unit)
                if parts:
                    group = "" if call.stage.shape is Shape.ALL else group_of(parts[0].key)
                    read[group] += self.store.responses_read(call.name, unit)
            earlier.answers = dict(read)
        return earlier.answers

    # what has changed since

    def _changes(self, call: StageCall, artifact: Artifact) -> tuple[int, int]:
        """(changed settings, changed prompts and models) since an artifact was made, of the stage and all stages
        upstream.
        """
        pair = call.recipe.fingerprint, artifact.fingerprint
        if pair not in self._changed:
            settings, models = _changed_arguments(call, artifact)
            for name, rows in call.upstream.items():
                more = self._changes_upstream(rows, artifact.recipe.inputs.get(name))
                settings, models = settings + more[0], models + more[1]
            self._changed[pair] = settings, models
        return self._changed[pair]

    def _changes_upstream(self, rows: Rows, then: object) -> tuple[int, int]:
        """As `_changes`, for the stage that made these rows; `then` is the fingerprint they had."""
        if rows.fingerprint == then:
            return 0, 0
        call, artifact = self._calls.get(rows.fingerprint), self._recorded(rows.stage, then)
        return self._changes(call, artifact) if call and artifact else (1, 0)

    # whether answers of then are answers of now

    def _same_rows(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether all inputs hold at least the rows they held, unchanged."""
        return all(self._same_input(value, artifact.recipe.inputs.get(name)) for name, value in call.inputs.items())

    def _same_input(self, value: object, then: object) -> bool:
        """Whether one input holds at least the rows it held, unchanged; `then` is its identity in the earlier
        recipe.
        """
        if not isinstance(value, Rows):
            return isinstance(value, list) and isinstance(then, list) and _holds_all(value, then)
        if value.fingerprint == then:
            return True
        call, artifact = self._calls.get(value.fingerprint), self._recorded(value.stage, then)
        if call is None or artifact is None:
            return False
        keeps = call.stage.at_most.keeps
        changed = not keeps and (_own_changes(call, artifact) or self._other_rows_in(call, artifact))
        return not changed and self._same_rows(call, artifact)

    def _other_rows_in(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether each row is made from many input rows, which are different now."""
        return any(
            rows.fingerprint != artifact.recipe.inputs.get(name)
            for name, rows in call.upstream.items()
            if call.stage.inputs[name] is not Shape.PART
        )


def _own_changes(call: StageCall, artifact: Artifact) -> list[str]:
    """What changed in a stage itself since an artifact was made, without its inputs."""
    return [change for change in call.recipe.differences(artifact.recipe) if not change.startswith("its input")]


def _groups_alike(earlier: EarlierBuild, group: str) -> list[str]:
    """The group in a list if the earlier build had it; all its groups if rows of all groups are one, then or now."""
    if earlier.rows_in.get(group):
        return [group]
    return list(earlier.rows_in) if ALL_GROUP in (group, *earlier.rows_in) else []


def _changed_arguments(call: StageCall, artifact: Artifact) -> tuple[int, int]:
    """(changed settings, changed prompts and models) of a stage alone; a new revision counts as a setting."""
    now, then = call.recipe, artifact.recipe
    names = [name for name in now.arguments if now.arguments[name] != then.arguments.get(name)]
    asked = sum(isinstance(call.arguments[name], Prompt | Endpoint) for name in names)
    return len(names) - asked + (now.revision != then.revision), asked


def _holds_all(sources: list[Source], then: list[Any]) -> bool:
    """Whether all sources of the earlier recipe are still there."""
    now = [source.identity() for source in sources]
    return all(source in now for source in then)
