"""A build: stages made or reused, one after the other, their units of work in parallel."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from longform.errors import Incomplete
from longform.llm.models import Models
from longform.llm.types import Endpoint, Request
from longform.recipe import Recipe, fingerprint
from longform.rows import Rows
from longform.store import Artifact, Part, Store, remove, temporary
from tasks.dry import walk
from tasks.stage import Stage, execute
from tasks.units import Job, contents_of, jobs_of
from tasks.workers import Runner, Workers

MODEL_REASON = "model: "


Watch = Callable[[], dict[str, Any]]


class Progress(Protocol):
    """Where a build says what it does. `watch` tells how the calls of a stage go: see Models.status."""

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch | None = None) -> None: ...
    def advance(self, stage: str, parts: list[Part]) -> None: ...
    def end(self, entry: StageRun) -> None: ...
    def say(self, text: str) -> None: ...


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
        models: Models,
        force: str | None = None,
        until: str | None = None,
        batch: Collection[str] = (),
    ) -> None:
        self.store, self.runner, self.progress, self.models = store, runner, progress, models
        self.force, self.until, self.batch = force, until, batch
        self.workers = Workers()
        self.shared = store.home / temporary()
        self.done: list[StageRun] = []

    def stage(self, work: Stage, inputs: dict[str, Any], arguments: dict[str, Any]) -> Rows:
        recipe = work.recipe(inputs, arguments)
        started = time.monotonic()
        contents = fingerprint({name: contents_of(value) for name, value in inputs.items()})
        artifact = self._known(work, recipe, contents)
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

    def _known(self, work: Stage, recipe: Recipe, contents: str) -> Artifact | None:
        if work.name == self.force:
            return None
        artifact = self.store.artifact(work.name, recipe.fingerprint)
        if artifact is None or artifact.contents != contents:
            return None
        return None if self.models.retry_errors and failed(artifact.parts) else artifact

    def _make(
        self, work: Stage, recipe: Recipe, contents: str, inputs: dict[str, Any], arguments: dict[str, Any]
    ) -> StageRun:
        found = jobs_of(self.store, work, recipe, inputs, arguments)
        jobs = [replace(job, shared=self.shared) for job in found]
        made = {job.unit: self._made(work, job) for job in jobs}
        todo = {job.unit: job for job in jobs if made[job.unit] is None}
        endpoint = work.endpoint(arguments)
        online = any(not model.offline for model in work.endpoints(arguments))
        calls = _rows_in(todo.values()) if endpoint and not work.several else 0
        watch = self.models.status if online else None
        self.progress.begin(work.name, len(todo), calls, endpoint.name if endpoint else None, watch)
        if online and work.name in self.batch:
            self._prefetch(work, recipe, list(todo.values()))
        self._run(work, todo, made, alone=len(todo) == 1 or online or work.one_process(arguments))
        parts = [part for job in jobs for part in made[job.unit] or ()]
        rows_in = {name: value.count for name, value in inputs.items() if isinstance(value, Rows)}
        artifact = Artifact(recipe.fingerprint, recipe, contents, rows_in, parts, [job.unit for job in jobs])
        self.store.commit_artifact(artifact)
        return StageRun(work.name, artifact, "run", 0.0, len(todo), len(jobs) - len(todo))

    def _prefetch(self, work: Stage, recipe: Recipe, jobs: list[Job]) -> None:
        """Ask the questions of all these units by the provider's Batch API, so that the units find them answered."""
        for endpoint in work.endpoints(jobs[0].arguments if jobs else {}):
            if not endpoint.offline:
                asked = self._questions(work, jobs, endpoint)
                folder = self.store.home / "llm" / "batches"
                self.models.prefetch(
                    endpoint, asked, stage=work.name, recipe=recipe.fingerprint, folder=folder, say=self.progress.say
                )

    def _questions(self, work: Stage, jobs: list[Job], endpoint: Endpoint) -> Iterator[Request]:
        for job in jobs:
            asked: list[Request] = []
            walk(self.store, work, job, partial(_note, asked, endpoint), lambda *_: None)
            yield from asked

    def _made(self, work: Stage, job: Job) -> list[Part] | None:
        if work.name == self.force:
            return None
        parts = self.store.unit(work.name, job.unit)
        return None if parts and self.models.retry_errors and failed(parts) else parts

    def _run(self, work: Stage, todo: dict[str, Job], made: dict[str, list[Part] | None], *, alone: bool) -> None:
        run = partial(execute, models=self.models) if alone else self.workers.run
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
        self.models.close()
        remove(self.shared)


def _note(asked: list[Request], wanted: Endpoint, endpoint: Endpoint, request: Request) -> None:
    if endpoint == wanted:
        asked.append(request)


def failed(parts: Iterable[Part]) -> int:
    """Rows that were rejected because a model could not answer."""
    return sum(n for part in parts for _, reason, n in part.rejected if reason.startswith(MODEL_REASON))


def _rows_in(jobs: Iterable[Job]) -> int:
    return sum(rows.count for job in jobs if isinstance(rows := next(iter(job.inputs.values())), Rows))
