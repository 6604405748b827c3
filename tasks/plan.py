"""What a build would do, said without doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longform.recipe import Recipe, fingerprint
from longform.rows import Rows
from longform.store import Artifact, Store
from tasks.build import Stopped
from tasks.stage import Stage
from tasks.units import contents_of, jobs_of


@dataclass(frozen=True, slots=True)
class Planned:
    """What a build would do for one stage."""

    stage: str
    state: str
    why: str
    rows: str
    calls: int | None
    calls_exact: bool
    endpoint: str | None
    fingerprint: str

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Plan:
    """A plan: says of every stage called with it whether it would run, and why. Sends and writes nothing."""

    def __init__(self, store: Store, *, force: str | None = None, until: str | None = None) -> None:
        self.store, self.force, self.until = store, force, until
        self.stages: list[Planned] = []

    def stage(self, work: Stage, inputs: dict[str, Any], arguments: dict[str, Any]) -> Rows:
        recipe = work.recipe(inputs, arguments)
        artifact = self._reusable(work, recipe, inputs)
        rows = self._rows(work, recipe, inputs, artifact)
        endpoint = work.endpoint(arguments)
        state, why = ("reuse", "") if artifact else self._why(work, recipe, inputs, arguments)
        calls = None if endpoint is None else 0 if artifact else _known_rows(inputs)
        planned = Planned(
            work.name,
            state,
            why,
            _rows_text(work, inputs, artifact),
            calls,
            all(_is_known(value) for value in inputs.values()),
            endpoint.name if endpoint else None,
            recipe.fingerprint,
        )
        self.stages.append(planned)
        if work.name == self.until:
            raise Stopped
        return rows

    @property
    def nothing_to_do(self) -> bool:
        return all(planned.state == "reuse" for planned in self.stages)

    def _reusable(self, work: Stage, recipe: Recipe, inputs: dict[str, Any]) -> Artifact | None:
        if work.name == self.force or not all(_is_known(value) for value in inputs.values()):
            return None
        artifact = self.store.artifact(recipe.stage, recipe.fingerprint)
        contents = fingerprint({name: contents_of(value) for name, value in inputs.items()})
        return artifact if artifact and artifact.contents == contents else None

    def _rows(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], artifact: Artifact | None) -> Rows:
        parts = artifact.parts if artifact else None
        first = next(iter(inputs.values()))
        same = isinstance(first, Rows) and first.key == work.schema.metadata[b"key"].decode()
        bound = _most(first) if same else None
        return Rows(self.store, work.schema, work.name, recipe.fingerprint, parts, bound)

    def _why(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]) -> tuple[str, str]:
        if work.name == self.force:
            return "run", "forced"
        earlier = self.store.artifacts(work.name)
        if not earlier:
            return "run", "first build"
        changes = min((recipe.differences(other.recipe) for other in earlier), key=len)
        own = [change for change in changes if not change.startswith("its input")]
        known = all(_is_known(value) for value in inputs.values())
        if not known and not own:
            names = ", ".join(name for name, value in inputs.items() if not _is_known(value))
            return "unknown", f"until {names} {'is' if ',' not in names else 'are'} built"
        parts = self._parts_left(work, recipe, inputs, arguments) if known else ""
        why = "; ".join(changes) or "its parts or inputs are gone or changed"
        return "run", f"{why}{parts}"

    def _parts_left(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]) -> str:
        jobs = list(jobs_of(self.store, work, recipe, inputs, arguments))
        made = sum(self.store.unit(work.name, job.unit) is not None for job in jobs)
        return f" ({made} of {len(jobs)} parts are there)" if made else ""


def _is_known(value: Any) -> bool:
    return not isinstance(value, Rows) or value.parts is not None


def _most(value: Rows) -> int | None:
    return value.count if value.parts is not None else value.at_most


def _known_rows(inputs: dict[str, Any]) -> int | None:
    first = next(iter(inputs.values()))
    return _most(first) if isinstance(first, Rows) else None


def _rows_text(work: Stage, inputs: dict[str, Any], artifact: Artifact | None) -> str:
    if artifact:
        return f"{artifact.rows:,}"
    first = next(iter(inputs.values()))
    if not isinstance(first, Rows):
        return "unknown until read"
    most = _most(first)
    if most is None:
        return f"unknown until {first.stage}"
    return f"{most:,} in" if first.parts is not None else f"up to {most:,} in"
