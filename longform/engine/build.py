"""A build: every stage that is called with it is made or reused, independent ones side by side.

Who runs what is told by three arguments: `tasks` runs stages and their parts (Prefect, or threads without it), in
threads that wait; `runner` makes parts (processes, Dask, Ray); `models` asks models for all of them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from longform.artifacts.recipe import Recipe
from longform.artifacts.store import Artifact, Digests, Part, Store
from longform.engine.bounds import records_at_most
from longform.engine.dry import walk
from longform.engine.execute import STOP, Meter, execute_with, told_fraction
from longform.engine.jobs import Job, hash_of_inputs, jobs_of
from longform.engine.method import Method, UntilReached
from longform.engine.runners import Runner
from longform.engine.stage import Stage, StageCall
from longform.errors import Incomplete, LongformError, LostWorker
from longform.files import remove
from longform.llm.ask.types import Endpoint, Request, broken_off
from longform.llm.models import Models
from longform.llm.price.budget import NANO
from longform.machines import temporary

MODEL_REASON = "model: "
MODEL_PARTS_AT_ONCE = 8
SMALL_BYTES = 1 << 18
ALLOWANCE_BYTES = 24 << 20

Watch = Callable[[], dict[str, Any]]


class Progress(Protocol):
    """Where a build says what it does, from several threads.

    `watch` tells the fraction that is done, and how calls go: see Models.status.
    """

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None: ...
    def advance(self, stage: str, parts: list[Part]) -> None: ...
    def end(self, entry: StageRun) -> None: ...
    def say(self, text: str) -> None: ...


class Making(Protocol):
    """A stage that was handed to `tasks`: waits for it, and raises what it ended with."""

    def result(self) -> StageRun: ...


class Ended(Protocol):
    """A part that was handed to `tasks`: its parts, or what it ended with is raised."""

    def result(self) -> list[Part]: ...
    def add_done_callback(self, fn: Callable[[Any], None], /) -> None: ...


class Tasks(Protocol):
    """Who runs stages and parts, each in a thread that may wait."""

    def stage(self, call: StageCall, upstream: Mapping[str, Making], run: Callable[[], StageRun]) -> Making:
        """Run a stage once those upstream are made; where one of them failed it does not run."""
        ...

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> Ended:
        """Run one of its parts, again where it failed for a passing reason."""
        ...

    def watch(self, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Call `stop` with the reason when the build has to end, by whoever's wish; `say` is for what lies ahead."""

    def close(self) -> None: ...


@dataclass(slots=True)
class StageRun:
    """What one build did for one stage; kept in runs/, as it holds times."""

    stage: str
    artifact: Artifact
    state: str
    seconds: float
    units_run: int = 0
    units_reused: int = 0
    spent_nano: int = 0

    @property
    def sentence(self) -> str:
        """What it made, e.g. `189 rows · 2 filtered · 1 rejected · 3 of 4 parts reused · USD 0.12`."""
        kinds: Counter[str] = Counter()
        for (kind, _), number in self.artifact.rejected().items():
            kinds["filtered" if kind == "filtered" else "rejected"] += number
        units = self.units_run + self.units_reused
        phrases = [f"{self.artifact.rows:,} rows", *(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))]
        phrases += [f"{self.units_reused} of {units} parts reused"] if self.units_reused else []
        phrases += [f"USD {self.spent_nano / NANO:,.2f}"] if self.spent_nano else []
        return " · ".join(phrases)

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "fingerprint": self.artifact.fingerprint,
            "state": self.state,
            "seconds": round(self.seconds, 3),
            "units_run": self.units_run,
            "units_reused": self.units_reused,
        }


class Build:
    """A builder that makes what is called with it, or what a `Method` noted."""

    def __init__(
        self,
        store: Store,
        *,
        tasks: Tasks,
        runner: Runner,
        progress: Progress,
        models: Models,
        force: str | None = None,
        until: str | None = None,
        batch: Collection[str] = (),
        anywhere: bool = False,
    ) -> None:
        """`anywhere`: parts that ask models may be made by any worker, as the response store is shared."""
        self.store, self.tasks, self.runner, self.progress, self.models = store, tasks, runner, progress, models
        self.force, self.until, self.batch, self.anywhere = force, until, batch, anywhere
        self.digests = Digests(store.home)
        self.shared = store.home / temporary()
        self.small_bytes = SMALL_BYTES
        self.stopping, self.failed = threading.Event(), threading.Event()
        self.calls: list[StageCall] = []
        self.publication: Any = None
        self._making: dict[str, Making] = {}
        self._runs: dict[str, StageRun] = {}
        self._errors: list[Exception] = []
        self._meters: dict[str, Meter] = {}
        self._allowance = Allowance(ALLOWANCE_BYTES)
        self._ended_by: LongformError | None = None
        tasks.watch(self._end_by, progress.say)

    @property
    def done(self) -> list[StageRun]:
        """The stages that are made or reused, in the order of the flow."""
        return [self._runs[mark] for call in self.calls if (mark := call.recipe.fingerprint) in self._runs]

    def make(self, method: Method) -> None:
        """Make all that a method called; returns when it is there. Raises what went wrong."""
        self.publication = method.publication
        for call in method.calls:
            self.add(call)
        self.finish()

    def add(self, call: StageCall) -> None:
        """Have a stage made, once those it takes rows from are."""
        marks = {name: rows.fingerprint for name, rows in call.upstream.items()}
        upstream = {name: self._making[mark] for name, mark in marks.items() if mark in self._making}
        self.calls.append(call)
        making = self.tasks.stage(call, upstream, partial(self._stage, call))
        self._making[call.recipe.fingerprint] = making
        call.rows.made_by(lambda: making.result().artifact.parts)
        if call.name == self.until:
            raise UntilReached

    def finish(self) -> None:
        """Wait for all stages.

        Raises the reason why somebody ended the build, else its first error, else Incomplete where rows are missing.
        """
        others = [error for making in self._making.values() if (error := _error_of(making))]
        if self._ended_by:
            raise self._ended_by
        if errors := self._errors or others:
            raise _worst(errors)

    # one stage

    def _stage(self, call: StageCall) -> StageRun:
        try:
            run = self._made_or_reused(call)
        except Exception as error:
            self._errors.append(error)
            if not isinstance(error, Incomplete):
                self.failed.set()
            raise
        self._runs[call.recipe.fingerprint] = run
        self.progress.end(run)
        return run

    def _made_or_reused(self, call: StageCall) -> StageRun:
        started = time.monotonic()
        input_hash = hash_of_inputs(call.inputs)
        artifact = self._known(call.stage, call.recipe, input_hash)
        if artifact:
            return StageRun(call.name, artifact, "reuse", 0.0)
        if self._ends:
            raise self._left(call)
        run = self._make(call, input_hash)
        run.seconds = time.monotonic() - started
        return run

    def _known(self, work: Stage, recipe: Recipe, input_hash: str) -> Artifact | None:
        if work.name == self.force:
            return None
        artifact = self.store.artifact(work.name, recipe.fingerprint)
        if artifact is None or artifact.input_hash != input_hash:
            return None
        return None if self.models.retry_errors and failed(artifact.parts) else artifact

    def _make(self, call: StageCall, input_hash: str) -> StageRun:
        jobs = [self._sent(call, job) for job in jobs_of(self.store, call)]
        made = {job.unit: self._made(call.stage, job) for job in jobs}
        todo = {job.unit: job for job in jobs if made[job.unit] is None}
        endpoint = next(iter(call.endpoints), None)
        calls = sum(job.rows for job in todo.values()) if endpoint and not call.stage.fan_out else 0
        weights = {unit: max(1, job.bytes) for unit, job in todo.items()}
        self.progress.begin(
            call.name, len(todo), calls, endpoint.name if endpoint else None, partial(self._status, call, weights, made)
        )
        if call.online and call.name in self.batch:
            self._prefetch(call, list(todo.values()))
        self._run(call, todo, made)
        parts = [part for job in jobs for part in made[job.unit] or ()]
        rows_in = {name: rows.count for name, rows in call.upstream.items()}
        units, records = [job.unit for job in jobs], records_at_most(call)
        artifact = Artifact(call.recipe.fingerprint, call.recipe, input_hash, rows_in, parts, units, records)
        self.store.commit_artifact(artifact)
        spent = self.models.budget.spent_by(call.name)
        return StageRun(call.name, artifact, "run", 0.0, len(todo), len(jobs) - len(todo), spent)

    def _sent(self, call: StageCall, job: Job) -> Job:
        """A job with what a worker needs for it, wherever that is."""
        rules = self.models.offline if call.endpoints else {}
        return replace(job, shared=self.shared, responses=self.models.where, offline=rules)

    def _status(self, call: StageCall, weights: dict[str, int], made: dict[str, list[Part] | None]) -> dict[str, Any]:
        """How far a stage is, by the bytes of its units, and how its calls go, if it makes any."""
        done = sum(self._fraction(unit, made[unit]) * weight for unit, weight in weights.items())
        return {**(self.models.status() if call.online else {}), "fraction": done / max(1, sum(weights.values()))}

    def _fraction(self, unit: str, parts: list[Part] | None) -> float:
        if parts is not None:
            return 1.0
        meter = self._meters.get(unit)
        return meter.fraction() if meter else told_fraction(self.shared, unit)

    def _made(self, work: Stage, job: Job) -> list[Part] | None:
        if work.name == self.force:
            return None
        parts = self.store.unit(work.name, job.unit)
        return None if parts and self.models.retry_errors and failed(parts) else parts

    # its parts

    def _run(self, call: StageCall, todo: dict[str, Job], made: dict[str, list[Part] | None]) -> None:
        """Make these units; returns when all that were begun have ended."""
        waiting, at_work = deque(todo.values()), dict[str, Ended]()
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        errors: list[Exception] = []
        room = MODEL_PARTS_AT_ONCE if call.online else max(2, self.runner.workers + 1)
        while waiting or at_work:
            while waiting and len(at_work) < room and not self._given_up(errors):
                job = waiting.popleft()
                future = at_work[job.unit] = self.tasks.part(call, job.label, partial(self._part, call, job))
                future.add_done_callback(partial(_note_end, ended, job.unit))
            if not at_work:
                raise _worst(errors or [self._left(call)])
            unit = ended.get()
            try:
                made[unit] = at_work.pop(unit).result()
                self.progress.advance(call.name, made[unit] or [])
            except Exception as error:
                errors.append(error)
        if errors:
            raise _worst(errors)

    def _given_up(self, errors: Iterable[Exception]) -> bool:
        return self._ends or any(not isinstance(error, Incomplete) for error in errors)

    @property
    def _ends(self) -> bool:
        """Whether nothing more is begun: broken off, or a stage failed; in that case what is begun is finished."""
        return self.stopping.is_set() or self.failed.is_set()

    def _left(self, call: StageCall) -> Incomplete:
        if self.stopping.is_set():
            return broken_off()
        return Incomplete(f"{call.name} was left unfinished, as another stage failed: run the same command again.")

    def _part(self, call: StageCall, job: Job) -> list[Part]:
        if self.stopping.is_set():
            raise broken_off()
        if self._is_made_here(call, job):
            meter = self._meters[job.unit] = Meter(job)
            return execute_with(job, self.models, self.stopping, meter)
        try:
            with self._allowance.hold(call.name, job.bytes if call.stage.sees_more_than_a_part else 0):
                return self.runner.run(job)
        except LostWorker:
            if self.stopping.is_set():  # it was told to end
                raise broken_off() from None
            raise

    def _is_made_here(self, call: StageCall, job: Job) -> bool:
        """In the flow's process: what holds to one gate there, and what is too small to be sent away."""
        if call.one_process or (call.online and not self.anywhere):
            return True
        return self.runner.near and job.bytes < self.small_bytes and not call.online

    # batch mode

    def _prefetch(self, call: StageCall, jobs: list[Job]) -> None:
        """Ask the questions of all these units by the provider's Batch API, so that the units find them answered."""
        folder = self.store.home / "llm" / "batches"
        for endpoint in call.endpoints if jobs else []:
            if not endpoint.offline:
                self.models.prefetch(
                    endpoint,
                    self._questions(call.stage, jobs, endpoint),
                    stage=call.name,
                    recipe=call.recipe.fingerprint,
                    folder=folder,
                    say=self.progress.say,
                )

    def _questions(self, work: Stage, jobs: list[Job], endpoint: Endpoint) -> Iterator[Request]:
        for job in jobs:
            asked: list[Request] = []
            walk(self.store, work, job, partial(_note, asked, endpoint), lambda *_: None)
            yield from asked

    # its end

    def _end_by(self, reason: LongformError) -> None:
        self._ended_by = reason
        self.stop()

    def stop(self) -> None:
        """Break off: no part is begun any more, models are asked no more, workers at work are told to end."""
        self.stopping.set()
        with suppress(OSError):  # of a disk that is full or gone nothing more is asked
            self.shared.mkdir(exist_ok=True)
            (self.shared / STOP).touch()
        self.models.close()
        self.runner.stop()

    def close(self) -> None:
        """End what is still at work, and clean up."""
        self.stop()
        self.tasks.close()
        self.runner.close()
        remove(self.shared)


class Allowance:
    """Memory that stages which join or index share, by the bytes of what their units read.

    It keeps such stages from working side by side where they would need more together. Units of one stage do not
    wait for each other: how many of them are made at once is the runner's matter, as it is for every stage.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._held: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, stage: str, wanted: int) -> Iterator[None]:
        """Returns once the stage may read so many bytes."""
        if not wanted:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self._free or not self._held.keys() - {stage})
            self._free -= wanted
            self._held[stage] += 1
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._held -= Counter((stage,))  # which drops a stage that holds nothing any more
                self._changed.notify_all()


def _note_end(ended: queue.SimpleQueue[str], unit: str, _: object) -> None:
    ended.put(unit)


def _error_of(making: Making) -> Exception | None:
    try:
        making.result()
    except Exception as error:
        return error
    return None


def _worst(errors: list[Exception]) -> Exception:
    """What to end with: an error of which another run would not be rid by itself goes before one of which it would."""
    return sorted(errors, key=lambda error: isinstance(error, Incomplete))[0]


def _note(asked: list[Request], wanted: Endpoint, endpoint: Endpoint, request: Request) -> None:
    if endpoint == wanted:
        asked.append(request)


def failed(parts: Iterable[Part]) -> int:
    """Rows that were rejected because a model could not answer."""
    return sum(n for part in parts for _, reason, n in part.rejected if reason.startswith(MODEL_REASON))
