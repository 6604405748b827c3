"""Stages and parts as Prefect task runs: the graph of a flow run is the graph of its stages.

A stage is a task with the stage's name, whose parameters are the stages upstream; a unit of work, which makes parts, is
a task `<stage>.part`. Prefect keeps no results and caches nothing: the artifact store alone keeps what was made.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

import httpx
from prefect import Task, states
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.concurrency.asyncio import AcquireConcurrencySlotTimeoutError, ConcurrencySlotAcquisitionError
from prefect.context import FlowRunContext
from prefect.exceptions import MissingContextError
from prefect.futures import PrefectFuture, PrefectTaskRunFuture
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, get_current_settings, temporary_settings
from prefect.states import Completed, Failed, Pending
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.tasks import exponential_backoff

from longform.addresses import shown
from longform.artifacts.store import Part
from longform.engine.build import LEFT_OUT, StageFuture, StageRun, TaskFuture
from longform.engine.stage import Shape, StageCall
from longform.errors import Cancelled, Incomplete, LongformError, PassingError, ServerError
from longform.llm.send.secrets import without_secrets
from longform.settings import Retries

THREADS = 1_024  # they wait for workers and models; each stage bounds its own parts
SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_OF_SILENCE = 15.0
SERVER_ERRORS = (ConcurrencySlotAcquisitionError, AcquireConcurrencySlotTimeoutError, httpx.HTTPError)
REPORT_RETRIES = 3  # of a request that stages wait for and only people look at
CANCELLED = "The run was cancelled: what was finished is kept; run the same command again to go on."


def task_runner() -> Any:
    """A new pool of THREADS threads. Each stage and each part has a thread of its own, as stages that wait for their
    parts would else take the threads that the parts need.
    """
    return ThreadPoolTaskRunner(max_workers=THREADS)


class PrefectTasks:
    """Runs stages and parts as task runs of the current flow run. `dataset` is one of their tags and begins the keys
    of the tables that are shown for stages. `retries`: how often, and after how many seconds, a part is tried again.

    `on_loss` is called with the error when the server is lost, as Prefect itself would retry its requests for minutes.
    """

    def __init__(
        self, dataset: str, retries: Retries, *, on_loss: Callable[[LongformError], None] = lambda _: None
    ) -> None:
        self.dataset, self.retries, self._on_loss = dataset, retries, on_loss
        self.cancelled = threading.Event()
        self._closed = threading.Event()
        self._parts = task_runner()
        self._parts.__enter__()

    def stage(self, call: StageCall, upstream: Mapping[str, StageFuture], run: Callable[[], StageRun]) -> StageFuture:
        """Submit a stage as a task run that starts once the stages upstream (input -> future) have succeeded; returns
        its future at once. `run` makes the stage.
        """

        def body(**_: StageRun) -> State[Any]:
            return self._state(call, run)

        _set_signature(body, call.name, upstream)
        task = Task(
            body,
            name=call.name,
            task_run_name=call.name,
            tags=self._tags(call),
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        futures: dict[str, Any] = {**upstream}
        return _StageFuture(task.submit(**futures))

    def part(self, call: StageCall, label: str, run: Callable[[], list[Part]]) -> TaskFuture[list[Part]]:
        """Submit a unit of work as a task run, which is retried after a PassingError; returns its future at once. If
        the flow run was cancelled, an error of the project ends it as Cancelled, not Failed. `run` makes the unit's
        parts; `label` names the unit.
        """

        def body() -> list[Part] | State[Any]:
            try:
                return run()
            except LongformError as error:
                if self.cancelled.is_set():
                    return states.Cancelled(message=str(error))
                raise

        _set_signature(body, f"{call.name}_part", ())
        task = Task(
            body,
            name=f"{call.name}.part",
            task_run_name=f"{call.name} {label}",
            tags=self._tags(call),
            retries=self.retries.times,
            retry_delay_seconds=exponential_backoff(self.retries.seconds),
            retry_jitter_factor=0.5,
            retry_condition_fn=_should_retry,
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        return _PartFuture(self._parts.submit(task, parameters={}))

    def watch(self, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Start a thread that calls `stop` as soon as the flow run is cancelled, which Prefect does not signal to a
        process of the command line. Without a flow run, nothing is started.

        It also calls `stop` if nobody answers at the server's address for SECONDS_OF_SILENCE (15) seconds, as nothing
        could be reported to the server any more; `say` warns before that.
        """
        context = FlowRunContext.get()
        if context is not None and context.flow_run is not None:
            run = context.flow_run.id
            watching = threading.Thread(target=copy_context().run, args=(self._watch, run, stop, say), daemon=True)
            watching.start()

    def _watch(self, run: Any, stop: Callable[[LongformError], None], say: Callable[[str], None]) -> None:
        """Ask the server for the state of the flow run with the id `run` every two seconds, until `close` is called.
        Call `stop` and return if the run is cancelled, or if no connection to the server succeeds for more than
        SECONDS_OF_SILENCE seconds (then `on_loss` is called, too); `say` warns after four seconds. Other errors of the
        server are ignored.
        """
        silent_seconds = 0.0
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
            while not self._closed.wait(SECONDS_BETWEEN_LOOKS):
                try:
                    state = client.read_flow_run(run).state
                    silent_seconds = 0.0
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    silent_seconds += SECONDS_BETWEEN_LOOKS
                    if silent_seconds == 2 * SECONDS_BETWEEN_LOOKS:
                        say("The Prefect server does not answer; the build ends unless it is back soon.")
                    if silent_seconds > SECONDS_OF_SILENCE:
                        lost = lost_server()
                        self._on_loss(lost)
                        return stop(lost)
                    continue
                except Exception:  # a server that is busy, or says nothing of use, is asked again
                    continue
                if state is not None and (state.is_cancelling() or state.is_cancelled()):
                    self.cancelled.set()
                    return stop(Cancelled(CANCELLED))

    def close(self) -> None:
        """Stop watching, drop the parts that have not begun, wait for those that run, and end their threads. Does
        nothing when called again.
        """
        if not self._closed.is_set():
            self._closed.set()
            self._parts.__exit__(None, None, None)

    def _state(self, call: StageCall, run: Callable[[], StageRun]) -> State[Any]:
        """Run a stage, log how it ended, and return its final state: Completed (named Reused if nothing was made),
        Failed, or Cancelled if the flow run is. A failure is returned, not raised, so that the stage's finished parts
        do not show as rolled back.
        """
        try:
            stage_run = run()
        except Exception as error:
            expected = isinstance(error, LongformError)
            message = str(error) if expected else f"{type(error).__name__}: {error}"
            level = logging.WARNING if isinstance(error, Incomplete) else logging.ERROR
            if self.cancelled.is_set():
                return states.Cancelled(message=CANCELLED)
            log(level, f"{call.name} failed: {message}", None if expected else error)
            return Failed(message=message, data=error)
        counts = [f"{number:,} {why}" for (_, why), number in stage_run.artifact.rejected().items()]
        reasons = f" ({'; '.join(counts)})" if counts else ""
        log(logging.INFO, f"{stage_run.stage} ended: {stage_run.sentence}{reasons}")
        self._tabulate(stage_run)
        return Completed(
            name="Reused" if stage_run.state == "reuse" else None, message=stage_run.sentence, data=stage_run
        )

    def _tabulate(self, stage_run: StageRun) -> None:
        """Send a table of the stage's rows, rejections and counters to the server, as a Prefect artifact. HTTP errors
        are ignored.
        """
        artifact = stage_run.artifact
        rows = [{"kind": "rows", "reason": "", "rows": artifact.rows}]
        rows += [{"kind": LEFT_OUT[kind], "reason": why, "rows": n} for (kind, why), n in artifact.rejected().items()]
        rows += [{"kind": "counted", "reason": name, "rows": n} for name, n in artifact.counts().items()]
        key = f"{self.dataset}-{stage_run.stage}".replace("_", "-").lower()
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: REPORT_RETRIES}), ignoring_server_errors():
            create_table_artifact(table=rows, key=key, description=f"{stage_run.stage}: {stage_run.sentence}")

    def _tags(self, call: StageCall) -> set[str]:
        """The tags of a stage's task runs: `dataset:<name>`, `kind:<model, source, join or rows>`, and
        `endpoint:<name>` for each of its endpoints.
        """
        endpoints = {f"endpoint:{endpoint.name}" for endpoint in call.endpoints}
        return {f"dataset:{self.dataset}", f"kind:{_kind(call)}", *endpoints}


class _StageFuture(PrefectTaskRunFuture[StageRun]):
    """The future of a stage, which may be a parameter of another stage's task: its state is pending until the stage has
    ended.

    With a plain future Prefect would ask the server for the state of every edge of the graph, and show a running stage
    as the parent of the stage that waits for it.
    """

    def __init__(self, future: PrefectFuture[Any]) -> None:
        super().__init__(future.task_run_id)
        self._future, self._ended = future, threading.Event()
        future.add_done_callback(lambda _: self._ended.set())

    @property
    def state(self) -> State[Any]:
        """Pending until the stage has ended, then its final state."""
        if not self._ended.is_set():
            return Pending()
        self._future.wait()
        return self._future.state

    def add_done_callback(self, fn: Callable[[PrefectFuture[Any]], None]) -> None:
        self._future.add_done_callback(fn)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the stage has ended, or `timeout` seconds have passed."""
        self._ended.wait(timeout)

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> Any:
        with losing_the_server():
            return self._future.result(timeout, raise_on_failure)


class _PartFuture:
    """The future of a unit of work; an error of the server, as Prefect raises it, is that of a lost server."""

    def __init__(self, future: PrefectFuture[Any]) -> None:
        self._future = future

    def result(self) -> list[Part]:
        with losing_the_server():
            parts: list[Part] = self._future.result()
        return parts

    def add_done_callback(self, fn: Callable[[PrefectFuture[Any]], None]) -> None:
        self._future.add_done_callback(fn)


@contextmanager
def losing_the_server() -> Iterator[None]:
    """A context in which errors that Prefect's client raises where the server refuses or does not answer, after all
    its attempts, are `lost_server`.
    """
    try:
        yield
    except SERVER_ERRORS:
        raise lost_server() from None


def lost_server() -> ServerError:
    """The error of a build whose Prefect server is lost; its message names the server's address."""
    address = shown(get_current_settings().api.url or "")
    return ServerError(
        f"The Prefect server at {address} was lost while the build reported to it. What was finished is kept: run the "
        "same command again, after starting the server if it is yours."
    )


def ignoring_server_errors() -> suppress:
    """A context that ignores HTTP errors of the Prefect server, for reports that only people look at: the stage goes on
    without them.
    """
    return suppress(httpx.HTTPError)


def log(level: int, text: str, error: Exception | None = None) -> None:
    """Write into the log of the current task or flow run, with the traceback of `error` if it is given; does nothing
    outside of a run. `level`: as in `logging`. Secrets that this process has read are replaced.
    """
    with suppress(MissingContextError):
        get_run_logger().log(level, without_secrets(text), exc_info=error)


def _kind(call: StageCall) -> str:
    """The kind of a stage, for its tag: `model` if it asks one, `source` if it reads sources, `join` if a unit reads
    more than one part, else `rows`.
    """
    if call.endpoints:
        return "model"
    return "source" if call.stage.shape is Shape.SHARD else "join" if call.stage.sees_more_than_a_part else "rows"


def _set_signature(body: Any, name: str, parameters: Any) -> None:
    """Give a task's function the name and the keyword parameters (an iterable of names) from which Prefect derives the
    task's key and its graph.
    """
    body.__name__ = body.__qualname__ = name
    kinds = [inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    body.__signature__ = inspect.Signature(kinds)


def _should_retry(_: Any, __: Any, state: State[Any]) -> bool:
    """Whether Prefect should retry a task, by its final state: only if it ended with a PassingError. Model calls have
    their own retries.
    """
    return isinstance(state.data, PassingError)
