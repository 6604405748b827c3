"""What turns a generator of rows into a stage: identity, reuse, parts, workers, conservation, Prefect runs.

    @stage(CLAIMS, revision=1)
    def split_claims(run: Run, answers: Rows, *, splitter: str) -> Iterator[Row | Rejected]: ...

Called in a flow with a `Build` it makes what is missing and returns `Rows`; called with a `Plan` it only says
what would run and why. Positional parameters after the run are inputs, keyword-only ones are identity.

The annotation of the first input is the shape. `Rows`: one unit of work a part, in parallel. `Group`: one a group
(a site), whose output is cut at ranges of the hash of the schema's `cut` column. `Whole`: one for all. `Piece`: a
source. A further input annotated `Group` or `Whole` in a stage of parts is there to look things up in.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import shutil
import signal
import threading
import time
import typing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from longform.conservation import check_conservation
from longform.errors import Incomplete, StoreError
from longform.llm.types import Answer, Endpoint, Failure, Request
from longform.parts import Parts, group_of, part_keys
from longform.recipe import Recipe, fingerprint, identity, shape
from longform.rows import Group, Piece, Rejected, Row, Rows, Source, Whole
from longform.settings import api_key
from longform.store import Artifact, Part, Store, full, unwritable

__all__ = ["Build", "Group", "Piece", "Plan", "Rejected", "Row", "Rows", "Run", "Stage", "Whole", "stage"]

ROWS_PER_PART = 16_384
CUT = re.compile(r"\d{1,2}-\d{5}")
Body = Callable[..., Iterator[Any]]
Item = TypeVar("Item")


def stage(schema: pa.Schema, *, revision: int, split_by: str | None = None) -> Callable[[Body], Stage]:
    """Make a generator of rows a stage. Raise `revision` when its code changes its meaning."""
    return lambda body: Stage(body, schema, revision, split_by)


class Stage:
    def __init__(self, body: Body, schema: pa.Schema, revision: int, split_by: str | None) -> None:
        self.body, self.schema, self.revision, self.split_by = body, schema, revision, split_by
        self.name = body.__name__
        self.__doc__ = body.__doc__
        hints = typing.get_type_hints(body)
        parameters = list(inspect.signature(body).parameters.values())[1:]
        self.inputs = {p.name: hints[p.name] for p in parameters if p.kind is not p.KEYWORD_ONLY}
        self.shape = next(iter(self.inputs.values()))

    def __call__(self, run: Build | Plan, *inputs: Any, **arguments: Any) -> Rows:
        named = dict(zip(self.inputs, inputs, strict=True))
        return run.stage(self, named, arguments)

    def recipe(self, inputs: dict[str, Any], arguments: dict[str, Any]) -> Recipe:
        given = {name: _input_identity(value) for name, value in inputs.items()}
        columns = shape(self.schema) + ([["split by", self.split_by]] if self.split_by else [])
        return Recipe(self.name, self.revision, columns, identity(arguments), given)

    def conserved(self, inputs: dict[str, Any]) -> list[Rows]:
        """The inputs of which no row may vanish: the first, and of its shape those whose rows become rows of one id.

        Others are looked things up in.
        """
        key = self.schema.metadata[b"key"].decode()
        first = next(iter(self.inputs))
        return [
            rows
            for name, rows in inputs.items()
            if isinstance(rows, Rows) and (name == first or (rows.key == key and self.inputs[name] is self.shape))
        ]

    def endpoint(self, arguments: dict[str, Any]) -> Endpoint | None:
        """The model this stage calls, if any."""
        return next((value for value in arguments.values() if isinstance(value, Endpoint)), None)


@dataclass(frozen=True, slots=True)
class Job:
    """One unit of work, as it is sent to a worker."""

    module: str
    stage: str
    home: Path
    unit: str
    label: str
    keys: list[str]
    inputs: dict[str, Rows | Piece]
    arguments: dict[str, Any]


class Run:
    """What a stage's body may use besides its inputs: counters, scratch space, model calls. Not identity."""

    def __init__(self, store: Store, parts: Parts) -> None:
        self.store = store
        self._parts = parts
        self._scratch: Path | None = None

    def count(self, name: str, number: int) -> None:
        """Add to a counter of the part, shown by `longform show`."""
        self._parts.counts[name] += number

    def scratch(self) -> Path:
        """A folder that is gone when the unit ends."""
        if self._scratch is None:
            self._scratch = self.store.new_folder(self._parts.stage)
        return self._scratch

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Item, Request]]) -> Iterator[tuple[Item, Answer | Failure]]:
        """The model's replies in the order of the items; stored before they are handed on."""
        with client(self.store, endpoint) as connection:
            yield from connection.ask(items)

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        with client(self.store, endpoint) as connection:
            vectors: list[list[float]] = connection.embed(texts)
            return vectors

    def close(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def client(store: Store, endpoint: Endpoint) -> AbstractContextManager[Any]:
    from longform.llm.client import Client

    key = api_key(endpoint.key_env) if endpoint.key_env else None
    return closing(Client(endpoint, store.home / "llm" / "responses.sqlite", api_key=key))


def execute(job: Job) -> list[Part]:
    """Do one unit of work and commit its parts. Runs in a worker or in the flow's own process."""
    work: Stage = getattr(import_module(job.module), job.stage)
    store = Store(job.home)
    try:
        return _execute(job, work, store)
    except StoreError:
        raise
    except Exception as error:
        if full(error):
            raise unwritable(job.home, OSError(28, str(error))) from None
        if isinstance(error, PermissionError):
            raise unwritable(job.home, error) from None
        _check_inputs(job, store)
        raise


def _check_inputs(job: Job, store: Store) -> None:
    """Raise StoreError where a stage failed because what it read is no longer what was written."""
    for rows in job.inputs.values():
        for part in (rows.parts or ()) if isinstance(rows, Rows) else ():
            if not store.intact(part):
                raise StoreError(
                    f"{store.part(part)} is damaged, {job.stage} cannot read it: "
                    f"build again with --force {part.stage}, which makes it anew."
                ) from None


def _execute(job: Job, work: Stage, store: Store) -> list[Part]:
    parts = Parts(store, work.name, work.schema, job.keys, work.split_by)
    run = Run(store, parts)
    try:
        for item in work.body(run, **job.inputs, **job.arguments):
            parts.add(item)
        done = parts.finish()
        check_conservation(store, work.name, work.schema, done, work.conserved(job.inputs), run.scratch())
        store.commit_unit(work.name, job.unit, done)
        return done
    except BaseException:
        parts.discard()
        raise
    finally:
        run.close()


class Progress(Protocol):
    """Where a build says what it does."""

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None) -> None: ...
    def advance(self, stage: str, parts: list[Part]) -> None: ...
    def end(self, entry: StageRun) -> None: ...


class Result(Protocol):
    """What became of a unit of work: its parts, or the error it ended with is raised."""

    def result(self) -> list[Part]: ...


class Runner(Protocol):
    """How units of work are run: as plain threads, or as Prefect task runs."""

    def stage(self, name: str, work: Callable[[], Any]) -> Any: ...
    def units(self, work: dict[str, Callable[[], list[Part]]]) -> Iterator[tuple[str, Result]]: ...


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
        contents = fingerprint({name: _contents(value) for name, value in inputs.items()})
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
        contents = fingerprint({name: _contents(value) for name, value in inputs.items()})
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


def jobs_of(
    store: Store, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]
) -> Iterator[Job]:
    """The units of work of a stage, in order, each with its identity."""
    module = work.body.__module__
    for label, keys, unit_inputs in units_of(work, inputs):
        contents = {name: _contents(value) for name, value in unit_inputs.items()}
        unit = recipe.unit({**contents, "keys": keys})
        yield Job(module, work.name, store.home, unit, label, keys, unit_inputs, arguments)


def units_of(work: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(label, keys of the output parts, inputs) of each unit, by the shape of the first input."""
    first = next(iter(inputs.values()))
    if work.shape is Piece:
        yield from _pieces(next(iter(inputs)), first)
        return
    parts = {name: _by_unit(rows, work.inputs[name]) for name, rows in inputs.items()}
    for unit, own in _by_unit(first, work.shape).items():
        chosen = {name: _narrowed(rows, work.inputs[name], parts[name], unit) for name, rows in inputs.items()}
        keys = _output_keys(unit, own) if work.shape is Group else [part.key for part in own]
        yield unit or "all", keys, chosen


def _pieces(name: str, sources: list[Source]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    for source in sources:
        for index in range(len(source.pieces)):
            key = f"{source.group}/{source.sha256[:8]}-{index:05d}"
            yield key, [key], {name: Piece(source, index)}


def _by_unit(rows: Rows, kind: type[Rows]) -> dict[str, list[Part]]:
    """The parts by what one unit of work sees of them: a part, a group, or all ("")."""
    found: dict[str, list[Part]] = {} if kind is not Whole else {"": []}
    for part in rows.parts or ():
        unit = "" if kind is Whole else group_of(part.key) if kind is Group else part.key
        found.setdefault(unit, []).append(part)
    return found


def _narrowed(rows: Rows, kind: type[Rows], parts: dict[str, list[Part]], unit: str) -> Rows:
    seen = "" if kind is Whole else group_of(unit) if kind is Group else unit
    return kind(rows.store, rows.schema, rows.stage, rows.fingerprint, parts.get(seen, []))


def _output_keys(group: str, parts: list[Part]) -> list[str]:
    """Keep the cut of the first input; where it is a source's, choose one by the number of rows."""
    keys = [part.key for part in parts]
    if all(CUT.fullmatch(key.split("/")[1]) for key in keys):
        return keys
    rows = sum(part.rows for part in parts)
    return part_keys(group, max(0, math.ceil(math.log2(max(1, rows) / ROWS_PER_PART))))


def _contents(value: Any) -> list[str]:
    if isinstance(value, Rows):
        return [f"{part.key} {part.sha256}" for part in value.parts or ()]
    if isinstance(value, Piece):
        return [fingerprint(value.source.identity()), str(value.index)]
    return [fingerprint(source.identity()) for source in value]


def _input_identity(value: Any) -> Any:
    return value.fingerprint if isinstance(value, Rows) else [source.identity() for source in value]


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


def _rows_in(jobs: Iterable[Job]) -> int:
    return sum(rows.count for job in jobs if isinstance(rows := next(iter(job.inputs.values())), Rows))


class Workers:
    """Spawned processes, started with the first unit that is sent to them, gone when their parent is."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None
        self.lock = threading.Lock()

    def run(self, job: Job) -> list[Part]:
        with self.lock:
            if self.pool is None:
                arguments = (os.getpid(),)
                self.pool = ProcessPoolExecutor(
                    processors(), mp_context=get_context("spawn"), initializer=_leave_with, initargs=arguments
                )
        try:
            return self.pool.submit(execute, job).result()
        except BrokenProcessPool:
            raise StoreError(
                f"A worker died while it made {job.stage} of {job.label} (killed, or out of memory): "
                "what was finished is kept; run the same command again."
            ) from None

    def close(self) -> None:
        if self.pool is not None:
            for process in list((self.pool._processes or {}).values()):
                process.terminate()
            self.pool.shutdown(wait=False, cancel_futures=True)


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _leave_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C goes to every process; the parent ends its workers itself
    threading.Thread(target=watch, daemon=True).start()


class Threads:
    """Runs units as plain threads: for tests, and wherever no flow is wanted."""

    def stage(self, name: str, work: Callable[[], Any]) -> Any:
        return work()

    def units(self, work: dict[str, Callable[[], list[Part]]]) -> Iterator[tuple[str, Result]]:
        with ThreadPoolExecutor(processors()) as pool:
            futures = {pool.submit(run): label for label, run in work.items()}
            try:
                yield from _as_done(futures)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _as_done(futures: dict[Future[list[Part]], str]) -> Iterator[tuple[str, Result]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield futures[future], future
