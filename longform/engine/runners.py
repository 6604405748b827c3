"""Where parts are made: threads of this process, worker processes, Dask or Ray, behind one small interface.

A runner gets jobs, which can be pickled, and returns the parts they made. Errors of our own code come back from a
worker as values, so any error that the engine itself raises means that a worker or the cluster was lost. The units of
work that were committed (`_make_unit` in jobs.py, `Store.commit_unit`) are kept and reused by the next attempt
(build.py); prefect_tasks.py makes that attempt.
"""

from __future__ import annotations

import heapq
import itertools
import os
import pickle
import re
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import get_context, resource_tracker
from typing import Any, ClassVar, Protocol

from longform.artifacts.store import Part
from longform.engine.jobs import Job, Urgency, execute
from longform.errors import LongformError, LostWorker, ServerError, UsageError

SECONDS_TO_END = 10
SECONDS_TO_CONNECT = 30
SECONDS_BETWEEN_LOOKS = 5
SECONDS_TO_KNOCK = 10
SECONDS_WITHOUT_WORKERS = 60
SMALL_BYTES = 1 << 18
PACKAGES = {"dask": "distributed", "ray": "ray"}
EXAMPLES = {"dask": "tcp://127.0.0.1:8786", "ray": "ray://127.0.0.1:10001"}
ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[[\da-fA-F:]+\]|[^/:\s]+):\d{1,5}/?")


class Runner(Protocol):
    """The interface of what makes the parts of jobs: threads, processes, Dask or Ray.

    `small_bytes`: a job with less input is made in the build's own process, as sending it takes longer. `workers`: how
    many jobs are made at the same time.
    """

    small_bytes: int

    @property
    def workers(self) -> int: ...

    def run(self, job: Job) -> list[Part]:
        """Make a job, wait for it and return its parts. LostWorker if the worker or the cluster went away; else the
        error that the job raised.
        """

    def stop(self) -> None:
        """Tell the jobs that are being made to end; does not wait for them."""

    def close(self) -> None:
        """End the workers."""


def check(name: str, address: str | None = None, *, seconds: float = SECONDS_TO_KNOCK) -> None:
    """Check that a runner can be used. For `dask` and `ray`: UsageError if the package is missing; then, unless the
    address is None or `auto`, UsageError if it is malformed and ServerError if nobody listens there within `seconds`.
    Any other name passes unchecked.
    """
    if name not in PACKAGES:
        return
    if find_spec(PACKAGES[name]) is None:
        raise UsageError(
            f"The runner {name} needs the package {PACKAGES[name]}: install the extra with "
            f'`pip install -c constraints.txt -e ".[{name}]"`.'
        )
    if address is None or address == "auto":
        return
    if not ADDRESS.fullmatch(address):
        raise UsageError(f"--address {address} is no address of a cluster: give host and port, e.g. {EXAMPLES[name]}.")
    try:
        _wait_for_port(address, seconds)
    except OSError:
        raise ServerError(f"No {name.title()} cluster answers at {address}: start it, or correct --address.") from None


def runner_of(name: str, address: str | None = None) -> Runner:
    """The runner with this name: threads, processes, dask or ray; any other name gives threads. `address` is that of a
    running Dask or Ray cluster; None: a local one. Starts nothing.

    Raises the errors of `check`.
    """
    check(name, address)
    if name in PACKAGES:
        return Dask(address) if name == "dask" else Ray(address)
    return Processes() if name == "processes" else ThreadRunner()


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attempt(job: Job) -> list[Part] | Exception:
    """Make a job in a worker: its parts, or its error as a value. The error can be pickled (if it could not be, it is
    a RuntimeError with its text), and neither Dask nor Ray puts it into an error of its own.
    """
    try:
        return execute(job)
    except LongformError as error:
        return error
    except Exception as error:
        error.add_note(f"in a worker, making {job.stage} of {job.label}:\n{traceback.format_exc()}")
        return error if _pickles(error) else RuntimeError(f"{type(error).__name__}: {error}")


Make = Callable[[Job], list[Part] | Exception]


def _pickles(error: Exception) -> bool:
    """Whether an error can be pickled and comes back as an error of the same class."""
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _parts_of(outcome: list[Part] | Exception) -> list[Part]:
    """The parts in what `attempt` returned; if that is an error, it is raised."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _lost(job: Job, what: str) -> LostWorker:
    """The error of a job whose worker was lost; `what` begins its message, e.g. `A worker died`."""
    return LostWorker(
        f"{what} while it made {job.stage} of {job.label} (killed, or out of memory): "
        "what was finished is kept; run the same command again."
    )


class ThreadRunner:
    """Makes each part in the thread that asks for it, in this process."""

    small_bytes = SMALL_BYTES

    def __init__(self) -> None:
        self.workers = processors()

    def run(self, job: Job) -> list[Part]:
        """Make the job in the calling thread; errors as in `execute`."""
        return execute(job)

    def stop(self) -> None:
        """Does nothing: the jobs look for the build's stop file."""

    def close(self) -> None:
        """Does nothing: there are no workers."""


class Processes:
    """Makes jobs in worker processes, each spawned with its first job. Each has an executor of its own, so that a
    process that dies costs only one job.

    `workers`: their number, by default one for each processor. `make` is the function that a worker calls with a job.
    `close` kills what has not ended after `seconds_to_end`. `small_bytes`: as in `Runner`.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        seconds_to_end: float = SECONDS_TO_END,
        small_bytes: int = SMALL_BYTES,
        make: Make = attempt,
    ) -> None:
        self.workers, self.small_bytes = workers or processors(), small_bytes
        self._seconds_to_end, self._make = seconds_to_end, make
        self._all = [Worker(number) for number in range(self.workers)]
        self._free, self._waiting = list(self._all), list[tuple[int, ...]]()
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False

    def run(self, job: Job) -> list[Part]:
        """Make a job in a worker, wait for it and return its parts. LostWorker if the worker dies or the runner is
        stopped; else the error that the job raised.
        """
        return _parts_of(self.call(self._make, job, lost=lambda: _lost(job, "A worker died"), urgency=job.urgency))

    def call(
        self, work: Callable[..., Any], *arguments: Any, lost: Callable[[], LostWorker], urgency: Urgency = (0, 0)
    ) -> Any:
        """Call `work` in the first free worker, wait, and return its result. Raises `lost()` if the worker dies, the
        runner is stopped, or `work` raises a RuntimeError; other errors of `work` are raised as they are.

        Of waiting calls the most urgent goes first (see Job.urgency), so that a build does not end with one job
        running alone.
        """
        with self._free_worker(urgency) as worker:
            try:
                if self._stopped:
                    raise lost()
                return worker.call(work, *arguments)
            except RuntimeError as error:  # of which a broken pool is one, and one that is shut down
                worker.renew()
                raise lost() from error

    @contextmanager
    def _free_worker(self, urgency: Urgency) -> Iterator[Worker]:
        """A context with a free worker for the caller alone: the one with the lowest number, as it is the likeliest to
        be started already. Waits until a worker is free and no more urgent call waits.
        """
        with self._changed:
            ticket = (*(-each for each in urgency), next(self._numbers))
            heapq.heappush(self._waiting, ticket)
            self._changed.wait_for(lambda: self._free and self._waiting[0] == ticket)
            heapq.heappop(self._waiting)
            worker = heapq.heappop(self._free)
            self._changed.notify_all()
        try:
            yield worker
        finally:
            with self._changed:
                heapq.heappush(self._free, worker)
                self._changed.notify_all()

    def stop(self) -> None:
        """Break off the calls that are running, without waiting for them; calls that come later raise `lost()`."""
        self._stopped = True
        for worker in self._all:
            worker.stop()

    def close(self) -> None:
        """Break off the running calls and let all workers end and clean up; kill those that do not end in
        `seconds_to_end`. Waits.
        """
        self.stop()
        with ThreadPoolExecutor(self.workers) as threads:
            list(threads.map(lambda worker: worker.close(self._seconds_to_end), self._all))


class Worker:
    """One worker process, started with its first call; it makes one call at a time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None
        self._pid: int | None = None
        self._busy = False

    def __lt__(self, other: Worker) -> bool:
        return self.number < other.number

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call `work` in the process, which is started if necessary, wait, and return its result. Raises the error of
        `work`; RuntimeError if the process dies or the call is broken off.
        """
        with self._lock:
            executor = self._executor = self._executor or self._start_process()
            self._busy = True
        try:
            self._pid = self._pid_future.result()
            return executor.submit(_interruptible, work, *arguments).result()
        finally:
            self._busy = False

    def _start_process(self) -> ProcessPoolExecutor:
        """A new executor with one process; a future of the process id is kept in `_pid_future`."""
        with _without_ctrl_c():
            executor = ProcessPoolExecutor(
                1, get_context("spawn"), initializer=_initialize_worker, initargs=(os.getpid(),)
            )
            self._pid_future: Future[int] = executor.submit(os.getpid)  # starts the process
        return executor

    def renew(self) -> None:
        """Give up the process without waiting for its end; the next call starts a new one."""
        with self._lock:
            executor, self._executor, self._pid = self._executor, None, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Tell the process to break off its call, if it has one (SIGTERM). Does not wait."""
        if self._busy:
            self._signal(signal.SIGTERM)

    def close(self, seconds: float) -> None:
        """Shut the process down, which ends it after its running call; kill it if it has not ended after `seconds`.
        Waits.
        """
        with self._lock:
            executor = self._executor
        if executor is not None:
            ending = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
            ending.start()
            ending.join(seconds)
            if ending.is_alive():
                self._signal(signal.SIGKILL)
                ending.join(SECONDS_TO_END)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; does nothing if there is none."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)


class _JobStopped(BaseException):
    """Raised inside a job whose worker gets SIGTERM, to break it off."""


_WORKING = threading.Event()
_TOLD_TO_END = threading.Event()


def _interruptible(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call `work` in a worker and return its result. SIGTERM breaks off the call, not the process, which then cleans
    up and ends normally. RuntimeError if the call was broken off, or if a SIGTERM came before it.
    """
    try:
        _WORKING.set()
        if _TOLD_TO_END.is_set():
            raise _JobStopped
        return work(*arguments)
    except _JobStopped:
        raise RuntimeError("This worker was told to end.") from None
    finally:
        _WORKING.clear()


def _on_sigterm(*_: object) -> None:
    """The worker's handler of SIGTERM: raises _JobStopped inside a running job, and makes the worker refuse later jobs
    (`_interruptible`); a second signal has no effect.
    """
    if not _TOLD_TO_END.is_set():
        _TOLD_TO_END.set()
        if _WORKING.is_set():
            raise _JobStopped


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """A context in which started workers ignore Ctrl-C, which reaches every process of the terminal; the parent ends
    its workers itself. Inside it, Ctrl-C is held back from this thread, too.
    """
    resource_tracker.ensure_running()  # which else starts with the first worker, and lets SIGINT through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _initialize_worker(parent: int) -> None:
    """Set a worker process up: it ends with its parent (a process id), ignores Ctrl-C, and breaks off its job at
    SIGTERM.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_sigterm)
    threading.Thread(target=watch, daemon=True).start()


def _wait_for_port(address: str, seconds: float) -> None:
    """Return once somebody listens at the host and port of `address`; the last OSError after `seconds`. Returns at
    once if the address has no port. Ray itself would give up only after minutes.
    """
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    end = time.monotonic() + seconds
    while port.isdecimal():
        try:
            return socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


class _Cluster:
    """Makes jobs on a cluster: the one at `address`, else a local one with `workers` workers, by default one for each
    processor. The connection is opened on first use.

    `make` is the function that a worker calls with a job. `seconds_to_connect`: how long to wait for the cluster to
    answer. `patience`: for how many seconds the cluster may be without any worker.
    """

    small_bytes = 0  # its workers may be of other machines
    name: ClassVar[str]
    head: ClassVar[str]

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        *,
        make: Make = attempt,
        seconds_to_connect: float = SECONDS_TO_CONNECT,
        patience: float = SECONDS_WITHOUT_WORKERS,
    ) -> None:
        self.address, self._own_workers = address, workers or processors()
        self._make, self._seconds_to_connect, self._patience = make, seconds_to_connect, patience
        self._at = f" at {address}" if address else ""
        self._lock = threading.Lock()
        self._connection: Any = None

    @property
    def workers(self) -> int:
        """How many jobs the cluster makes at the same time, at least 1. The first use connects, or starts a local
        cluster: LostWorker if that fails. 1 if a connected cluster cannot be counted, as when it was just lost; the
        jobs then report it.
        """
        connection = self._connected()
        try:
            return max(1, self._processors(connection))
        except Exception:  # of a cluster that is lost in this moment the parts tell, which are made again
            return 1

    def run(self, job: Job) -> list[Part]:
        """Make a job on the cluster, wait for it and return its parts. LostWorker if no cluster answers, it has no
        worker for too long, or a worker is lost; else the error that the job raised.
        """
        connection = self._connected()
        try:
            outcome = self._outcome(connection, self._submit(connection, job))
        except LostWorker:
            raise
        except Exception as error:
            self._leave(connection)
            raise _lost(job, f"{self.name}{self._at} lost a worker, or its {self.head},") from error
        return _parts_of(outcome)

    def _outcome(self, connection: Any, future: Future[list[Part] | Exception]) -> list[Part] | Exception:
        """Wait for a job's parts or error as long as the cluster has workers; LostWorker if it had none for `patience`
        seconds.
        """
        seconds_without_workers = 0
        while True:
            try:
                return future.result(timeout=SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                has_workers = self._processors(connection)
                seconds_without_workers = 0 if has_workers else seconds_without_workers + SECONDS_BETWEEN_LOOKS
                if seconds_without_workers > self._patience:
                    future.cancel()
                    raise LostWorker(f"The {self.name} cluster{self._at} has no worker: start one.") from None

    def _connected(self) -> Any:
        """The connection to the cluster, opened on first use; LostWorker if no cluster answers."""
        with self._lock:
            if self._connection is None:
                try:
                    self._connection = self._connect()
                except (OSError, RuntimeError, ValueError):
                    raise LostWorker(
                        f"No {self.name} cluster answers{self._at}: start it, or correct --address."
                    ) from None
            return self._connection

    def _connect(self) -> Any:
        """A new connection to the cluster."""

    def _processors(self, connection: Any) -> int:
        """The number of jobs that the cluster makes at the same time; 0 if it has no worker."""
        raise NotImplementedError

    def _submit(self, connection: Any, job: Job) -> Any:
        """Send a job to the cluster; returns the future of its parts or error."""

    def _leave(self, connection: Any) -> None:
        """After a failure: close the connection if its cluster is gone, so that the next job connects again. Does
        nothing by default.
        """

    def _disconnect(self, connection: Any) -> None:
        """Close a connection, and end a local cluster."""

    def stop(self) -> None:
        """Does nothing: the jobs look for the build's stop file."""

    def close(self) -> None:
        """Close the connection, if there is one, and end a local cluster."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._disconnect(connection)


class Dask(_Cluster):
    """Makes parts on a Dask cluster; a local one has one process for each worker."""

    name, head = "Dask", "scheduler"
    LOCAL: ClassVar[dict[str, Any]] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
        "silence_logs": "CRITICAL",
    }

    def _connect(self) -> Any:
        from distributed import Client, LocalCluster

        self._cluster: Any = None
        if self.address is None:
            with _without_ctrl_c():
                self._cluster = LocalCluster(n_workers=self._own_workers, **self.LOCAL)
        return Client(self.address or self._cluster, timeout=self._seconds_to_connect, set_as_default=False)

    def _processors(self, connection: Any) -> int:
        return int(sum(connection.nthreads().values()))

    def _submit(self, connection: Any, job: Job) -> Any:
        return connection.get_executor(pure=False).submit(self._make, job)

    def _leave(self, connection: Any) -> None:
        with self._lock:
            if connection is self._connection and connection.status != "running":
                self._connection = None
                self._disconnect(connection)

    def _disconnect(self, connection: Any) -> None:
        connection.close(timeout=SECONDS_TO_END)
        if self._cluster is not None:
            self._cluster.close(timeout=SECONDS_TO_END)


class Ray(_Cluster):
    """Makes parts on a Ray cluster; a local one has one processor for each worker."""

    name, head = "Ray", "head"

    def _connect(self) -> Any:
        import ray

        local = {} if self.address else {"num_cpus": self._own_workers, "include_dashboard": False}
        _wait_for_port(self.address or "", self._seconds_to_connect)
        ray.init(self.address or "local", logging_level="CRITICAL", log_to_driver=False, **local)
        return ray.remote(max_retries=0)(self._make)

    def _processors(self, connection: Any) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 0))

    def _submit(self, connection: Any, job: Job) -> Any:
        return connection.remote(job).future()

    def _disconnect(self, connection: Any) -> None:
        import ray

        ray.shutdown()
