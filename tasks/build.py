"""A build: stages made or reused, one after the other, their units of work in parallel."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from longform.errors import Incomplete
from longform.recipe import Recipe, fingerprint
from longform.rows import Rows
from longform.store import Artifact, Part, Store
from tasks.stage import Stage, execute
from tasks.units import Job, contents_of, jobs_of
from tasks.workers import Runner, Workers


class Progress(Protocol):
    """Where a build says what it does."""

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None) -> None: ...
    def advance(self, stage: str, parts: list[Part]) -> None: ...
    def end(self, entry: StageRun) -> None: ...


@dataclass(slots=True)
class StageRun:
    """What one build did for one stage; kept in runs/, as it holds times."""

    stage: str
    artifact: Artifact
    state: str
    seconds: float
    units_run: int = 0
    units_reused: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "fingerprint": self.artifact.fingerprint,
            "state": self.state,
            "seconds": round(self.seconds, 3),
            "units_run": self.units_run,
            "units_reused": self.units_reused,
        }


class Stopped(Exception):
    """The stage that `--until` names is done."""


class Build:
    """A build: every stage called with it is made or reused."""

    def __init__(
        self,
        store: Store,
        *,
        runner: Runner,
        progress: Progress,
        force: str | None = None,
        until: str | None = None,
    ) -> None:
        self.store, self.runner, self.progress = store, runner, progress
        self.force, self.until = force, until
        self.workers = Workers()
        self.done: list[StageRun] = []

    def stage(self, work: Stage, inputs: dict[str, Any], arguments: dict[str, Any]) -> Rows:
        recipe = work.recipe(inputs, arguments)
        started = time.monotonic()
        contents = fingerprint({name: contents_of(value) for name, value in inputs.items()})
        artifact = self._known(recipe, contents)
        entry = StageRun(work.name, artifact, "reuse", 0.0) if artifact else None
        if entry is None:
            make = lambda: self._make(work, recipe, contents, inputs, arguments)  # noqa: E731
            entry = self.runner.stage(work.name, make)
            entry.seconds = time.monotonic() - started
        self.done.append(entry)
        self.progress.end(entry)
        if work.name == self.until:
            raise Stopped
        return Rows(self.store, work.schema, work.name, recipe.fingerprint, entry.artifact.parts)

    def _known(self, recipe: Recipe, contents: str) -> Artifact | None:
        if recipe.stage == self.force:
            return None
        artifact = self.store.artifact(recipe.stage, recipe.fingerprint)
        return artifact if artifact and artifact.contents == contents else None

    def _make(
        self, work: Stage, recipe: Recipe, contents: str, inputs: dict[str, Any], arguments: dict[str, Any]
    ) -> StageRun:
        jobs = list(jobs_of(self.store, work, recipe, inputs, arguments))
        made = {job.unit: self.store.unit(work.name, job.unit) for job in jobs}
        if work.name == self.force:
            made = dict.fromkeys(made)
        todo = {job.unit: job for job in jobs if made[job.unit] is None}
        endpoint = work.endpoint(arguments)
        self.progress.begin(
            work.name, len(todo), _rows_in(todo.values()) if endpoint else 0, endpoint.name if endpoint else None
        )
        self._run(work, todo, made, alone=len(todo) == 1 or (endpoint is not None and not endpoint.offline))
        parts = [part for job in jobs for part in made[job.unit] or ()]
        rows_in = {name: value.count for name, value in inputs.items() if isinstance(value, Rows)}
        artifact = Artifact(recipe.fingerprint, recipe, contents, rows_in, parts)
        self.store.commit_artifact(artifact)
        return StageRun(work.name, artifact, "run", 0.0, len(todo), len(jobs) - len(todo))

    def _run(self, work: Stage, todo: dict[str, Job], made: dict[str, list[Part] | None], *, alone: bool) -> None:
        run = execute if alone else self.workers.run
        labels = {job.label: job for job in todo.values()}
        unfinished: Incomplete | None = None
        for label, future in self.runner.units({label: partial(run, job) for label, job in labels.items()}):
            try:
                made[labels[label].unit] = future.result()
                self.progress.advance(work.name, made[labels[label].unit] or [])
            except Incomplete as error:
                unfinished = error
        if unfinished is not None:
            raise unfinished

    def close(self) -> None:
        self.workers.close()


def _rows_in(jobs: Iterable[Job]) -> int:
    return sum(rows.count for job in jobs if isinstance(rows := next(iter(job.inputs.values())), Rows))
