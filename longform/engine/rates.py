"""What earlier builds of a stage made of what they were given: the rates that a plan estimates new rows by."""

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
class Before:
    """An earlier artifact by group: rows of the first input (of sources: records at most), rows made, answers read."""

    artifact: Artifact
    rows_in: dict[str, int]
    rows_out: dict[str, int]
    answers: dict[str, int] | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Rate:
    """`rows` and `calls` a row of the first input; `full`: rows were as many as their bound allowed.

    `like` are the groups that it is of, `stored` the rows whose answers are stored: the earlier build had them, too.
    `otherwise`: a setting has changed since, of the stage or of one before it.
    """

    rows: float
    full: bool
    calls: float | None
    stored: int
    like: frozenset[str]
    otherwise: bool

    def rows_about(self, rows_in: float, most: float, *, most_is_about: bool) -> float | None:
        """Of so many rows at most so many; None where settings have changed and the bound does not tell either.

        `most_is_about`: the bound is of estimates, not of bounds, of what all inputs hold.
        """
        if self.full and most_is_about and most != UNKNOWN:
            return most
        return self._trusted(self.rows * rows_in, most)

    def calls_about(self, rows_in: float, most: float, seen: int) -> float | None:
        """Likewise, without those whose answers are stored; so many of these are of rows that are not among these."""
        if self.calls is None:
            return None
        about = self._trusted(self.calls * rows_in, most)
        return about if about is None else max(0.0, about - self.calls * max(0, self.stored - seen))

    def _trusted(self, about: float, most: float) -> float | None:
        return None if self.otherwise and about < NEAR_ITS_BOUND * most else min(about, most)


class Rates:
    """Earlier artifacts of a home; each is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._artifacts: dict[str, list[Artifact]] = {}
        self._before: dict[str, Before] = {}
        self._calls: dict[str, StageCall] = {}
        self._changed: dict[tuple[str, str], tuple[int, int]] = {}

    def note(self, call: StageCall) -> None:
        """Remember what makes the rows of a later stage's input."""
        self._calls[call.recipe.fingerprint] = call

    def artifacts(self, stage: str) -> list[Artifact]:
        """Of a stage, newest first."""
        if stage not in self._artifacts:
            self._artifacts[stage] = self.store.artifacts(stage)
        return self._artifacts[stage]

    def of(self, call: StageCall, group: str) -> Rate | None:
        """Of the group, else of all groups together, in the earlier build that is most like this one; None: no build.

        Group "" is all of a stage that sees all rows at once.
        """
        alike = sorted(self.artifacts(call.name), key=lambda artifact: self._changes(call, artifact))
        found = [before for artifact in alike if sum((before := self._of(call, artifact)).rows_in.values())]
        own = next(((before, groups) for before in found if (groups := _groups_alike(before, group))), None)
        if own is not None:
            return self._rate(call, *own, own=True)
        return self._rate(call, found[0], list(found[0].rows_in), own=False) if found else None

    def _rate(self, call: StageCall, before: Before, groups: list[str], *, own: bool) -> Rate:
        given, made = (sum(counts.get(group, 0) for group in groups) for counts in (before.rows_in, before.rows_out))
        most = self._most_then(call, before.artifact, given)
        answers = self._answers(call, before)
        asked = sum(answers.get(group, 0) for group in groups)
        stored = given if asked and own and self._asked_the_same(call, before.artifact) else 0
        full = made > 0 and most != UNKNOWN and made >= AT_ITS_BOUND * most
        otherwise = self._changes(call, before.artifact)[0] > 0
        return Rate(made / given, full, asked / given if asked else None, stored, frozenset(groups), otherwise)

    # what an earlier build was given

    def _of(self, call: StageCall, artifact: Artifact) -> Before:
        if artifact.fingerprint not in self._before:
            groups = _all_as_one if call.stage.shape is Shape.ALL else group_of
            made: Counter[str] = Counter()
            for part in artifact.parts:
                made[groups(part.key)] += part.rows
            given = self._rows_in(call, artifact, groups)
            self._before[artifact.fingerprint] = Before(artifact, given, dict(made))
        return self._before[artifact.fingerprint]

    def _rows_in(self, call: StageCall, artifact: Artifact, groups: Callable[[str], str]) -> dict[str, int]:
        name, first = next(iter(call.inputs.items()))
        if not isinstance(first, Rows):
            return artifact.records_at_most
        made = self._recorded(first.stage, artifact.recipe.inputs.get(name))
        given: Counter[str] = Counter()
        for part in made.parts if made else ():
            given[groups(part.key)] += part.rows
        if made is None and call.stage.shape is Shape.ALL:
            given[""] = artifact.rows_in.get(name, 0)
        return dict(given)

    def _recorded(self, stage: str, fingerprint: object) -> Artifact | None:
        found = (artifact for artifact in self.artifacts(stage) if artifact.fingerprint == fingerprint)
        return next(found, None)

    def _most_then(self, call: StageCall, artifact: Artifact, rows_in: int) -> float:
        """The bound that its arguments of then gave it, where that is of numbers only."""
        first, *others = call.inputs
        if call.stage.shape is Shape.SHARD or call.stage.at_most.rows is None:
            return UNKNOWN
        upstream = {}
        for name, rows in call.upstream.items():
            made = self._recorded(rows.stage, artifact.recipe.inputs.get(name))
            upstream[name] = made.recipe.arguments if made else {}
        given: dict[str, Any] = {name: float(artifact.rows_in.get(name, UNKNOWN)) for name in others}
        given |= {**artifact.recipe.arguments, first: float(rows_in)}
        sizes = Sizes(given, len(artifact.units), upstream=upstream)
        try:
            return rows_at_most(call.stage, sizes, UNKNOWN)
        except (KeyError, TypeError, AttributeError):  # of arguments that it had not, or that are no numbers
            return UNKNOWN

    def _answers(self, call: StageCall, before: Before) -> dict[str, int]:
        """Group -> responses that its units looked at."""
        if before.answers is None:
            read: Counter[str] = Counter()
            for unit in before.artifact.units if call.endpoints else ():
                parts = self.store.unit(call.name, unit)
                if parts:
                    group = "" if call.stage.shape is Shape.ALL else group_of(parts[0].key)
                    read[group] += self.store.responses_read(call.name, unit)
            before.answers = dict(read)
        return before.answers

    # what has changed since

    def _changes(self, call: StageCall, artifact: Artifact) -> tuple[int, int]:
        """Settings, and prompts and models, that are others now, of the stage and of all before it."""
        pair = call.recipe.fingerprint, artifact.fingerprint
        if pair not in self._changed:
            settings, models = _changed_arguments(call, artifact)
            for name, rows in call.upstream.items():
                more = self._changes_upstream(rows, artifact.recipe.inputs.get(name))
                settings, models = settings + more[0], models + more[1]
            self._changed[pair] = settings, models
        return self._changed[pair]

    def _changes_upstream(self, rows: Rows, then: object) -> tuple[int, int]:
        if rows.fingerprint == then:
            return 0, 0
        call, artifact = self._calls.get(rows.fingerprint), self._recorded(rows.stage, then)
        return self._changes(call, artifact) if call and artifact else (1, 0)

    # whether answers of then are answers of now

    def _asked_the_same(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether it asked the same of each row that is still there: all that changed is which rows there are."""
        return not _own_changes(call, artifact) and self._same_rows(call, artifact)

    def _same_rows(self, call: StageCall, artifact: Artifact) -> bool:
        return all(self._same_input(value, artifact.recipe.inputs.get(name)) for name, value in call.inputs.items())

    def _same_input(self, value: object, then: object) -> bool:
        if not isinstance(value, Rows):
            return isinstance(value, list) and isinstance(then, list) and _holds_all(value, then)
        if value.fingerprint == then:
            return True
        call, artifact = self._calls.get(value.fingerprint), self._recorded(value.stage, then)
        if call is None or artifact is None:
            return False
        keeps = call.stage.at_most.keeps
        changed = not keeps and (_own_changes(call, artifact) or self._sees_others(call, artifact))
        return not changed and self._same_rows(call, artifact)

    def _sees_others(self, call: StageCall, artifact: Artifact) -> bool:
        """Whether each of its rows is made of many, which are others now."""
        return any(
            rows.fingerprint != artifact.recipe.inputs.get(name)
            for name, rows in call.upstream.items()
            if call.stage.inputs[name] is not Shape.PART
        )


def _own_changes(call: StageCall, artifact: Artifact) -> list[str]:
    return [change for change in call.recipe.differences(artifact.recipe) if not change.startswith("its input")]


def _groups_alike(before: Before, group: str) -> list[str]:
    """The group among those of an earlier build; all of them where rows of all groups are one, now or then."""
    if before.rows_in.get(group):
        return [group]
    return list(before.rows_in) if ALL_GROUP in (group, *before.rows_in) else []


def _changed_arguments(call: StageCall, artifact: Artifact) -> tuple[int, int]:
    """(settings, prompts and models) of a stage alone; another revision of it counts as a setting."""
    now, then = call.recipe, artifact.recipe
    names = [name for name in now.arguments if now.arguments[name] != then.arguments.get(name)]
    asked = sum(isinstance(call.arguments[name], Prompt | Endpoint) for name in names)
    return len(names) - asked + (now.revision != then.revision), asked


def _holds_all(sources: list[Source], then: list[Any]) -> bool:
    """Whether all sources of then are still there."""
    now = [source.identity() for source in sources]
    return all(source in now for source in then)


def _all_as_one(key: str) -> str:
    return ""
