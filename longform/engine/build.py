"""A build: makes or reuses every stage that a flow calls, independent stages in parallel.

Three arguments say where work is done: `tasks` runs stages and their parts (Prefect, or plain threads), in threads that
only wait; `runner` makes parts (processes, Dask, Ray); `models` sends all model requests.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeAlias, TypeVar

from longform.artifacts.store import Artifact, Digests, Part, Store
from longform.engine.bounds import records_at_most
from longform.engine.health import PILOT, Ceilings, Gate, Health, counted_of, gate_error, gates_of, refusal
from longform.engine.jobs import STOP, Job, Meter, execute_with, hash_of_inputs, jobs_of, reported_fraction, walk
from longform.engine.runners import Runner
from longform.engine.served import Served, served_of, warnings_of
from longform.engine.stage import Method, NeedsReplies, Stage, StageCall
from longform.errors import GateError, Incomplete, LongformError, LostWorker
from longform.files import remove
from longform.llm.ask.types import Endpoint, Request, broken_off
from longform.llm.models import Models
from longform.llm.price import NANO
from longform.llm.read.repeated import Repeats
from longform.llm.retry import Retry
from longform.llm.unanswered import merged
from longform.machines import temporary

MODEL_PARTS_AT_ONCE = 4  # each prepares four times what its endpoint takes at once; more would all end together
ALLOWANCE_BYTES = 24 << 20
LEFT_OUT = {"filtered": "filtered", "defect": "rejected"}  # kinds of rows left out, as people read them

Watch = Callable[[], dict[str, Any]]
Questions = Callable[[], Iterable[tuple[Any, Request]]]
Made = TypeVar("Made", covariant=True)


class Progress(Protocol):
    """The interface through which a build reports progress, from many threads at once.

    `watch`, passed to `begin`, returns `fraction`, what is done of the stage (0 to 1), and for a stage that asks a
    real model the state of the calls (see Models.status).
    """

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        """A stage begins to make `units` units of work, with at most `calls` calls of the endpoint (0: it asks no
        model, or the number is unknown). Not called for a stage whose stored rows are reused.
        """

    def end(self, entry: StageRun) -> None:
        """A stage has ended: it was made, or its stored rows are reused; not called if it failed. `entry`: what was
        done for it.
        """

    def say(self, text: str) -> None:
        """Show a line of text to whoever watches the build."""


class TaskFuture(Protocol[Made]):
    """The future of a stage or of a unit of work that was handed to a `Tasks`."""

    def result(self) -> Made:
        """Wait until the stage or unit has ended and return what it made; raises the error it ended with."""

    def add_done_callback(self, fn: Callable[[Any], None], /) -> None:
        """Call `fn` with the future once the stage or unit has ended."""


StageFuture: TypeAlias = "TaskFuture[StageRun]"


class Tasks(Protocol):
    """The interface of what runs stages and parts (PrefectTasks, Threads), each in a thread that may wait."""

    def stage(self, call: StageCall, upstream: Mapping[str, StageFuture], run: Callable[[], StageRun]) -> StageFuture:
        """Submit a stage and return its future. `run`, which makes the stage, is called once the stages in `upstream`
        (input -> future) have succeeded; if one of them failed, it is not called.
        """

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> TaskFuture[list[Part]]:
        """Submit a unit of work and return its future. `run` makes the unit's parts; it may be called again after a
        PassingError. `label` names the unit.
        """

    def watch(self, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Call `stop` with the reason if someone outside ends the build, and `say` with a line of text if that is
        about to happen. Returns at once; the calls come later, from another thread.
        """

    def close(self) -> None:
        """End the threads."""


@dataclass(slots=True)
class StageRun:
    """What one build did for one stage. `state`: `run` (made) or `reuse`. `units_run`, `units_reused`: how many units
    of work were made, and how many were found stored; with `reuse` they and `seconds` are 0. `spent_nano`: what its
    model calls cost in this build, in billionths of a US dollar. Stored in <home>/runs/, not in the artifact, as it
    holds times.
    """

    stage: str
    artifact: Artifact
    state: str
    seconds: float
    units_run: int = 0
    units_reused: int = 0
    spent_nano: int = 0

    @property
    def served(self) -> list[Served]:
        """What served its replies; [] if it asked no real model."""
        return served_of(self.stage, self.artifact.parts)

    @property
    def sentence(self) -> str:
        """What the stage made, e.g. `189 rows · 2 filtered · 1 rejected · 3 of 4 parts reused · USD 0.12`; except for
        the rows, numbers that are 0 are left out.
        """
        units = self.units_run + self.units_reused
        left_out = {word: sum(self.artifact.reasons(kind).values()) for kind, word in LEFT_OUT.items()}
        phrases = [f"{self.artifact.rows:,} rows", *(f"{n:,} {word}" for word, n in left_out.items() if n)]
        phrases += [f"{self.units_reused} of {units} parts reused"] if self.units_reused else []
        phrases += [f"USD {self.spent_nano / NANO:,.2f}"] if self.spent_nano else []
        return " · ".join(phrases)


class Build:
    """A builder that makes the stages that a flow calls with it, or those that a `Method` has recorded (`make`). `add`
    starts a stage, `finish` waits for all, `stop` ends the build early, `close` cleans up after it.
    """

    def __init__(
        self,
        store: Store,
        *,
        tasks: Tasks,
        runner: Runner,
        progress: Progress,
        models: Models,
        force: str | None = None,
        batch: Collection[str] = (),
        unbatched_online: Collection[str] = (),
        shared_responses: bool = False,
        ceilings: Mapping[str, Ceilings] | None = None,
        accept: Collection[str] = (),
    ) -> None:
        """`force`: the stage that is made again even if it is stored. `batch`: the stages whose questions go through
        the Batch API first; `unbatched_online`: those of them whose questions may be asked by single calls where a
        batch leaves them unanswered. `shared_responses`: units that ask models may be made by workers on any machine,
        as all of them reach the response store. `ceilings`: stage -> how many of its replies may be of no use, where
        that is not the default. `accept`: gates (stages, audits) that are not to end the build.
        """
        self.store, self.tasks, self.runner, self.progress, self.models = store, tasks, runner, progress, models
        self.force, self.batch, self.shared_responses = force, batch, shared_responses
        self.unbatched_online, self.ceilings, self.accept = unbatched_online, ceilings or {}, frozenset(accept)
        self.digests = Digests(store.home)
        self.shared = store.home / temporary()
        self.stopping = threading.Event()
        self.calls: list[StageCall] = []
        self.publication: Any = None
        self._stages_after: dict[str, int] = {}
        self._stage_futures: dict[str, StageFuture] = {}
        self._runs: dict[str, StageRun] = {}
        self._stage_errors: list[Exception] = []
        self._meters: dict[str, Meter] = {}
        self._allowance = Allowance(ALLOWANCE_BYTES)
        self._ended_by: LongformError | None = None
        tasks.watch(self.stop, progress.say)

    @property
    def done(self) -> list[StageRun]:
        """The stages that are made or reused so far, in the order of the flow."""
        return [self._runs[mark] for call in self.calls if (mark := call.recipe.fingerprint) in self._runs]

    @property
    def gates(self) -> list[Gate]:
        """What the gates of the stages that asked a real model found, of those that are made so far."""
        made = [(call, self._runs.get(call.recipe.fingerprint)) for call in self.calls if call.online]
        return [
            gate
            for call, run in made
            if run is not None
            for gate in gates_of(
                call.name, run.artifact.parts, self._ceilings_of(call), accepted=call.name in self.accept
            )
        ]

    def make(self, method: Method) -> None:
        """Make all stages that a method calls; returns when they are made. Raises the error that ended the build, as
        `finish`.
        """
        self.publication = method.publication
        self._stages_after = stages_after(method.calls)
        for call in method.calls:
            self.add(call)
        self.finish()

    def add(self, call: StageCall) -> None:
        """Submit a stage to `tasks`, which starts it as soon as the stages upstream are made. Returns at once (with
        SequentialStages when the stage is made); the call's `rows` wait for the stage when their parts are needed.
        """
        upstream = {
            name: self._stage_futures[rows.fingerprint]
            for name, rows in call.upstream.items()
            if rows.fingerprint in self._stage_futures
        }
        self.calls.append(call)
        future = self.tasks.stage(call, upstream, partial(self._stage, call))
        self._stage_futures[call.recipe.fingerprint] = future
        call.rows.set_parts_source(lambda: future.result().artifact.parts)

    def finish(self) -> None:
        """Wait for all stages.

        Raises the reason if someone ended the build; else the first error that is not Incomplete; else the first
        error.
        """
        errors_of_futures: list[Exception] = []
        for future in self._stage_futures.values():
            try:
                future.result()
            except Exception as error:
                errors_of_futures.append(error)
        if self._ended_by:
            raise self._ended_by
        if errors := self._stage_errors or errors_of_futures:
            raise _error_to_raise(errors)

    # one stage

    def _stage(self, call: StageCall) -> StageRun:
        """Make or reuse one stage, and report its end to `progress`, with a warning if it was served by several models.
        Errors are raised, and kept for `finish`.
        """
        try:
            stage_run = self._make_or_reuse(call)
        except Exception as error:
            self._stage_errors.append(error)
            raise
        self._runs[call.recipe.fingerprint] = stage_run
        self.progress.end(stage_run)
        for warning in warnings_of(stage_run.served):
            self.progress.say(warning)
        return stage_run

    def _make_or_reuse(self, call: StageCall) -> StageRun:
        """The run of a stage: with its stored artifact if that can be reused, else with a newly made one. Incomplete
        if it would have to be made and the build is ending, GateError if its model's replies are too bad.
        """
        started = time.monotonic()
        input_hash = hash_of_inputs(call.inputs)
        artifact = reusable_artifact(self.store, call, input_hash, self.force, self.models.retry)
        if artifact is None and self._is_ending:
            raise self._unfinished_error(call)
        stage_run = StageRun(call.name, artifact, "reuse", 0.0) if artifact else self._make(call, input_hash)
        if self._is_judged(call) and (
            refused := refusal(
                call.name, self.store, stage_run.artifact.parts, self._ceilings_of(call), list(call.upstream.values())
            )
        ):
            raise refused
        stage_run.seconds = 0.0 if artifact else time.monotonic() - started
        return stage_run

    def _is_judged(self, call: StageCall) -> bool:
        """Whether the replies of a stage are judged: it asks a real model, and nobody accepts them as they are."""
        return call.online and call.name not in self.accept

    def _ceilings_of(self, call: StageCall) -> Ceilings:
        """How many of a stage's replies may be of no use."""
        return self.ceilings.get(call.name, Ceilings())

    def _make(self, call: StageCall, input_hash: str) -> StageRun:
        """Make the parts of a stage that cannot be reused (`reusable_parts`), write its artifact, and return the run;
        the time is left at 0. In batch mode its questions are first asked through the Batch API.
        """
        rules = self.models.offline if call.endpoints else {}
        after = self._stages_after.get(call.recipe.fingerprint, 0)
        ceilings = self._ceilings_of(call) if self._is_judged(call) else None
        asking = self.models.asking() if call.online and self.shared_responses else {}
        context: dict[str, Any] = {
            "shared": self.shared,
            "responses": self.models.where,
            "offline": rules,
            "asking": asking,
            "ceilings": ceilings,
        }
        jobs = [replace(job, **context, stages_after=after) for job in jobs_of(self.store, call)]
        parts_of = {job.unit: reusable_parts(self.store, call, job, self.force, self.models.retry) for job in jobs}
        to_make = {job.unit: job for job in jobs if parts_of[job.unit] is None}
        endpoint = next(iter(call.endpoints), None)
        calls = sum(job.rows for job in to_make.values()) if endpoint and not call.stage.fan_out else 0
        weights = {unit: max(1, job.bytes) for unit, job in to_make.items()}
        self.progress.begin(
            call.name,
            len(to_make),
            calls,
            endpoint.name if endpoint else None,
            partial(self._status, call, weights, parts_of),
        )
        if call.online and call.name in self.batch:
            self._prefetch(call, list(to_make.values()), ceilings)
            batched = self.models.batched.get(call.name)
            to_make = {unit: replace(job, batched=batched) for unit, job in to_make.items()}
        self._make_parts(call, to_make, parts_of, ceilings)
        parts = [part for job in jobs for part in parts_of[job.unit] or ()]
        rows_in = {name: rows.count for name, rows in call.upstream.items()}
        artifact = Artifact(
            call.recipe.fingerprint,
            call.recipe,
            input_hash,
            rows_in,
            parts,
            [job.unit for job in jobs],
            records_at_most(call),
        )
        self.store.commit_artifact(artifact)
        spent = self.models.budget.spent_by(call.name)
        return StageRun(call.name, artifact, "run", 0.0, len(to_make), len(jobs) - len(to_make), spent)

    def _status(
        self, call: StageCall, weights: dict[str, int], parts_of: dict[str, list[Part] | None]
    ) -> dict[str, Any]:
        """What progress shows of a stage: `fraction`, what is done (0 to 1) of the units to make, by their bytes
        (`weights`: unit -> bytes), and the state of the model calls if it asks a real model. `parts_of`: unit -> its
        parts, None while it is unfinished.
        """
        done = sum(self._fraction(unit, parts_of[unit]) * weight for unit, weight in weights.items())
        return {**(self.models.status() if call.online else {}), "fraction": done / max(1, sum(weights.values()))}

    def _fraction(self, unit: str, parts: list[Part] | None) -> float:
        """The fraction of a unit of work that is done, from 0 to 1; `parts` is None while it is unfinished."""
        if parts is not None:
            return 1.0
        meter = self._meters.get(unit)
        return meter.fraction() if meter else reported_fraction(self.shared, unit)

    # its parts

    def _make_parts(
        self,
        call: StageCall,
        to_make: dict[str, Job],
        parts_of: dict[str, list[Part] | None],
        ceilings: Ceilings | None,
    ) -> None:
        """Make the units of work in `to_make` (unit -> job), several at once, and put their parts into `parts_of`.
        Returns, or raises an error, when all units that were started have ended. With `ceilings` the model's replies
        are judged; until their pilot has passed, one unit is made at a time.

        After an error other than Incomplete, or if the build is ending, no further unit is started. Of several errors
        the first that is not Incomplete is raised, else the first; Incomplete if units are left only because the build
        is ending.
        """
        waiting, running = deque(to_make.values()), dict[str, TaskFuture[list[Part]]]()
        finished: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        errors: list[Exception] = []
        most = MODEL_PARTS_AT_ONCE if call.online else max(2, self.runner.workers + 1)
        inputs = call.upstream.values()
        health = Health(call.name, ceilings, lambda: finished.put(None), inputs) if ceilings else None
        if health is not None:
            health.add_parts(part for parts in parts_of.values() for part in parts or ())
        while waiting or running:
            max_at_once = most if health is None or health.decided else 1
            while waiting and len(running) < max_at_once and not _failed_for_good(errors) and not self._is_ending:
                job = waiting.popleft()
                make = partial(self._make_part, call, job, health)
                future = running[job.unit] = self.tasks.part(call, job.label, make)
                future.add_done_callback(partial(lambda unit, _: finished.put(unit), job.unit))
            if not running:
                raise _error_to_raise(errors or [self._unfinished_error(call)])
            unit = finished.get()
            if unit is None:  # the pilot has passed: more units may begin
                continue
            try:
                parts_of[unit] = running.pop(unit).result()
            except Exception as error:
                errors.append(error)
        if errors:
            raise _error_to_raise(errors)

    @property
    def _is_ending(self) -> bool:
        """Whether no further stage or part is started, as the build was stopped or a stage failed with an error other
        than Incomplete; parts that were started before a failure are finished.
        """
        return self.stopping.is_set() or _failed_for_good(self._stage_errors)

    def _unfinished_error(self, call: StageCall) -> Incomplete:
        """The error of a stage that could not be finished, as the build was stopped or as another stage failed."""
        if self.stopping.is_set():
            return broken_off()
        return Incomplete(f"{call.name} was left unfinished, as another stage failed: run the same command again.")

    def _make_part(self, call: StageCall, job: Job, health: Health | None) -> list[Part]:
        """Make the parts of one unit of work, in this process or by the runner, for which a unit that joins or indexes
        first waits for its share of memory (`Allowance`). Incomplete if the build is stopped.
        """
        if self.stopping.is_set():
            raise broken_off()
        if self._is_made_in_this_process(call, job):
            meter = self._meters[job.unit] = Meter(job)
            return execute_with(job, self.models, self.stopping, meter, health)
        try:
            joins = call.stage.sees_more_than_a_part
            with self._allowance.hold(call.name, job.bytes) if joins else nullcontext():
                parts = self.runner.run(job)
            if health is not None:
                health.add_parts(parts)
            return parts
        except LostWorker:
            if self.stopping.is_set():  # it was told to end
                raise broken_off() from None
            raise

    def _is_made_in_this_process(self, call: StageCall, job: Job) -> bool:
        """Whether a unit is made in the flow's process: all units of its stage must be (StageCall.one_process), or it
        asks a real model and workers do not share the responses, or its stage asks none and its input is too small to
        be worth sending (`small_bytes` of the runner).
        """
        shares_a_limit = call.one_process or (call.online and not self.shared_responses)
        return shares_a_limit or (job.bytes < self.runner.small_bytes and not call.online)

    # batch mode

    def _prefetch(self, call: StageCall, jobs: list[Job], ceilings: Ceilings | None) -> None:
        """Ask all questions of these units to real models through the provider's Batch API, so that the units find
        them answered. Waits for the batches. Does nothing without units.

        With `ceilings`, and from twice PILOT questions on, the first PILOT go in a job of their own, and GateError is
        raised if their replies are of no use.
        """
        for endpoint in [endpoint for endpoint in call.endpoints if jobs and not endpoint.offline]:
            questions = partial(self._questions, call.stage, jobs, endpoint)
            first = list(islice(questions(), 2 * PILOT))
            if ceilings is not None and len(first) == 2 * PILOT:
                pilot = first[:PILOT]
                self._send_batches(call, endpoint, partial(list, pilot))
                self._judge_pilot(call, endpoint, pilot, ceilings)
            self._send_batches(call, endpoint, questions)

    def _send_batches(self, call: StageCall, endpoint: Endpoint, questions: Questions) -> None:
        """Have the provider's Batch API answer those of these questions that have no stored reply; where none may be
        asked by a single call, also the further attempts that their replies make due.
        """
        online = call.name in self.unbatched_online
        while self.models.prefetch(
            endpoint,
            (request for _, request in questions()),
            stage=call.name,
            recipe=call.recipe.fingerprint,
            folder=self.store.home / "llm" / "batches",
            say=self.progress.say,
            online=online,
        ):
            if online:
                return

    def _judge_pilot(
        self, call: StageCall, endpoint: Endpoint, pilot: list[tuple[Any, Request]], ceilings: Ceilings
    ) -> None:
        """Raise GateError if too many replies to the questions of a pilot are of no use. Questions without a stored
        reply are asked singly, if they would be later.
        """
        health, repeats = Health(call.name, ceilings, inputs=call.upstream.values()), Repeats()
        client = self.models.client(endpoint, stage=call.name, recipe=call.recipe.fingerprint)
        with suppress(Incomplete):  # the unit meets it again, and says so
            for (item, request), reply in client.ask((each, each[1]) for each in pilot):
                checked = repeats.checked(request, reply)
                health.add_reply(checked, item, request.system, counted_of(request, checked))

    def _questions(self, stage: Stage, jobs: list[Job], endpoint: Endpoint) -> Iterator[tuple[Any, Request]]:
        """(item, request) of the requests that these units would send to an endpoint, found by running the stage's
        body dry, unit by unit. Those that depend on a reply, or come after embeddings or a web request, are not found
        (`walk`).
        """
        for job in jobs:
            requests: list[tuple[Any, Request]] = []
            with suppress(NeedsReplies):
                walk(self.store, stage, job, partial(_append_if_wanted, requests, endpoint), lambda *_: None)
            yield from requests

    # its end

    def stop(self, reason: LongformError | None = None) -> None:
        """Stop the build: start no further part, close the models, tell workers to end. `finish` then raises the first
        `reason` that was given, if any. Does not wait.
        """
        self._ended_by = self._ended_by or reason
        self.stopping.set()
        with suppress(OSError):  # of a disk that is full or gone nothing more is asked
            self.shared.mkdir(exist_ok=True)
            (self.shared / STOP).touch()
        self.models.close()
        self.runner.stop()

    def close(self) -> None:
        """Stop what is still running, and delete the build's temporary folder."""
        self.stop()
        self.tasks.close()
        self.runner.close()
        remove(self.shared)


class Allowance:
    """Limits the memory of stages that join or index, by the bytes that their units read. `total`: the bytes that they
    may read at the same time.

    Keeps such stages from running at the same time if together they would need more. Units of one stage do not wait
    for each other: how many of them run at once is the runner's decision, as for every stage.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._held: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, stage: str, size: int) -> Iterator[None]:
        """A context that reserves `size` bytes for a stage. Waits until they are free, or until no other stage has a
        reservation; size 0 reserves nothing and never waits.
        """
        if not size:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: size <= self._free or not self._held.keys() - {stage})
            self._free -= size
            self._held[stage] += 1
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._held -= Counter((stage,))  # which drops a stage that holds nothing any more
                self._changed.notify_all()


def stages_after(calls: Sequence[StageCall]) -> dict[str, int]:
    """fingerprint of a stage -> the length of the longest chain of stages that wait for it. A stage that no other
    waits for is left out.

    `calls`: in the order of the flow, each after those whose rows it takes.
    """
    longest: dict[str, int] = {}
    for call in reversed(calls):
        length = longest.get(call.recipe.fingerprint, 0) + 1
        for rows in call.upstream.values():
            longest[rows.fingerprint] = max(length, longest.get(rows.fingerprint, 0))
    return longest


def _failed_for_good(errors: Iterable[Exception]) -> bool:
    """Whether one of these errors is not Incomplete: only an Incomplete may be cured by running the same command
    again.
    """
    return any(not isinstance(error, Incomplete) for error in errors)


def _error_to_raise(errors: list[Exception]) -> Exception:
    """The first of these errors that is not Incomplete, else the first; there must be one. Where gates refuse several
    stages, or questions of several got no answer, one error names them all.
    """
    first = sorted(errors, key=lambda error: isinstance(error, Incomplete))[0]
    findings = {
        stage: found for each in errors if isinstance(each, GateError) for stage, found in each.findings.items()
    }
    if isinstance(first, GateError) and findings:
        return gate_error(findings)
    return (merged(errors) if isinstance(first, Incomplete) else None) or first


def _append_if_wanted(
    requests: list[tuple[Any, Request]], wanted: Endpoint, endpoint: Endpoint, request: Request, item: Any
) -> None:
    """Append (item, request) to `requests` if its endpoint is the wanted one."""
    if endpoint == wanted:
        requests.append((item, request))


def reusable_artifact(
    store: Store, call: StageCall, input_hash: str, force: str | None, retry: Retry
) -> Artifact | None:
    """The stored artifact of a call if it can be reused. None if there is none, if its inputs have changed, if its
    stage is `force`, or if some of its rejected rows are asked again by `retry`. `input_hash`: hash of the inputs'
    contents.
    """
    artifact = None if call.name == force else store.artifact(call.name, call.recipe.fingerprint)
    if artifact is None or artifact.input_hash != input_hash:
        return None
    return None if asked_again(artifact.parts, retry) else artifact


def reusable_parts(store: Store, call: StageCall, job: Job, force: str | None, retry: Retry) -> list[Part] | None:
    """The stored parts of a unit of work if they can be reused. None if they are not stored, if the stage is `force`,
    or if some of their rejected rows are asked again by `retry`.
    """
    parts = None if call.name == force else store.unit(call.name, job.unit)
    return None if asked_again(parts or (), retry) else parts


def asked_again(parts: Iterable[Part], retry: Retry) -> int:
    """The number of rejected rows in these parts that are asked again by `retry`."""
    return sum(retry.among(part.stage, part.rejected) for part in parts)
