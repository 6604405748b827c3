"""Where parts are made: threads of this process, worker processes, Dask or Ray, behind one small interface.

A runner is given jobs, which pickle, and returns the parts they made, whatever the engine. What our own code raises in
a worker comes back as a value, so whatever the engine itself raises means that a worker or the cluster is lost.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import get_context, resource_tracker
from typing import Any, ClassVar, Protocol

from longform.artifacts.store import Part
from longform.engine.execute import execute
from longform.engine.jobs import Job
from longform.errors import LongformError, LostWorker, ServerError, UsageError

SECONDS_TO_END = 10
SECONDS_TO_CONNECT = 30
SECONDS_BETWEEN_LOOKS = 5
SECONDS_TO_KNOCK = 10
SECONDS_WITHOUT_WORKERS = 60
PACKAGES = {"dask": "distributed", "ray": "ray"}
EXAMPLES = {"dask": "tcp://127.0.0.1:8786", "ray": "ray://127.0.0.1:10001"}
ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[[\da-fA-F:]+\]|[^/:\s]+):\d{1,5}/?")


class Runner(Protocol):
    """`near`: workers see nothing that this process does not, so what is small may as well be made here.

    `workers`: how many jobs are made at the same time.
    """

    near: bool

    @property
    def workers(self) -> int: ...

    def run(self, job: Job) -> list[Part]:
        """The parts of a job. LostWorker where the worker, or the cluster, went away; else what the job raised."""
        ...

    def stop(self) -> None:
        """End what is being made."""

    def close(self) -> None: ...


def check(name: str, address: str | None = None) -> None:
    """UsageError where a runner's extra is missing or its address is none; ServerError where nobody listens there."""
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
        _knock(address, SECONDS_TO_KNOCK)
    except OSError:
        raise ServerError(f"No {name.title()} cluster answers at {address}: start it, or correct --address.") from None


def runner_of(name: str, address: str | None = None) -> Runner:
    """threads, processes, dask or ray; `address` is that of a running Dask scheduler or Ray cluster. Starts nothing.

    Raises what `check` does.
    """
    check(name, address)
    if name in PACKAGES:
        return Dask(address) if name == "dask" else Ray(address)
    return Processes() if name == "processes" else Here()


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def attempt(job: Job) -> list[Part] | Exception:
    """What became of a job, as a value: no engine wraps it, and it is sure to pickle."""
    try:
        return execute(job)
    except LongformError as error:
        return error
    except Exception as error:
        error.add_note(f"in a worker, making {job.stage} of {job.label}:\n{traceback.format_exc()}")
        return error if _pickles(error) else RuntimeError(f"{type(error).__name__}: {error}")


def _pickles(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _parts_of(outcome: list[Part] | Exception) -> list[Part]:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _at(address: str | None) -> str:
    return f" at {address}" if address else ""


def _lost(job: Job, what: str) -> LostWorker:
    return LostWorker(
        f"{what} while it made {job.stage} of {job.label} (killed, or out of memory): "
        "what was finished is kept; run the same command again."
    )


class Here:
    """Threads of this process: the part's own thread does the work."""

    near = True

    def __init__(self) -> None:
        self.workers = processors()

    def run(self, job: Job) -> list[Part]:
        return execute(job)

    def stop(self) -> None: ...

    def close(self) -> None: ...


class Processes:
    """Spawned processes, each started with its first job, each an executor of its own: one that dies costs one job."""

    near = True

    def __init__(self, workers: int | None = None, *, seconds_to_end: float = SECONDS_TO_END) -> None:
        self.workers = workers or processors()
        self._seconds_to_end = seconds_to_end
        self._all = [Worker(number) for number in range(self.workers)]
        self._free = Queue(self._all)
        self._stopped = False

    def run(self, job: Job) -> list[Part]:
        return _parts_of(self.call(attempt, job, size=job.bytes, lost=lambda: _lost(job, "A worker died")))

    def call(self, work: Callable[..., Any], *arguments: Any, lost: Callable[[], LostWorker], size: int = 0) -> Any:
        """What `work` returns in a free worker, the first of those that are free; the largest `size` goes first."""
        with self._free.take(size) as worker:
            try:
                if self._stopped:
                    raise lost()
                return worker.call(work, *arguments)
            except RuntimeError as error:  # of which a broken pool is one, and one that is shut down
                worker.renew()
                raise lost() from error

    def stop(self) -> None:
        self._stopped = True
        for worker in self._all:
            worker.stop()

    def close(self) -> None:
        """Idle workers end by themselves, and clean up; those at work are stopped first."""
        self.stop()
        deadline = time.monotonic() + self._seconds_to_end
        for ended in [worker.close() for worker in self._all]:
            ended(deadline)


class Queue:
    """Who waits for a free worker: the largest job first, so that a build does not end with one that works alone."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._free = list(workers)
        self._waiting: list[tuple[int, int]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[Worker]:
        """A worker of one's own; of those that are free the first, as it has begun already."""
        with self._changed:
            ticket = (-size, next(self._numbers))
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


class Worker:
    """One process, begun with its first call."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None
        self._first: Future[int]
        self._pid: int | None = None
        self._busy = False

    def __lt__(self, other: Worker) -> bool:
        return self.number < other.number

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        with self._lock:
            executor = self._executor = self._executor or self._started()
            self._busy = True
        try:
            self._pid = self._first.result()
            return executor.submit(_interruptible, work, *arguments).result()
        finally:
            self._busy = False

    def _started(self) -> ProcessPoolExecutor:
        with _without_ctrl_c():
            executor = ProcessPoolExecutor(1, get_context("spawn"), initializer=_leave_with, initargs=(os.getpid(),))
            self._first = executor.submit(os.getpid)  # starts the process
        return executor

    def renew(self) -> None:
        with self._lock:
            executor, self._executor, self._pid = self._executor, None, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        if self._busy:
            self._signal(signal.SIGTERM)

    def close(self) -> Callable[[float], None]:
        """Have it end; returns what waits for that until a deadline, and then kills it."""
        with self._lock:
            executor = self._executor
        if executor is None:
            return lambda deadline: None
        ending = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True)
        ending.start()

        def wait(deadline: float) -> None:
            ending.join(max(0.1, deadline - time.monotonic()))
            if ending.is_alive():
                self._signal(signal.SIGKILL)
                ending.join(SECONDS_TO_END)

        return wait

    def _signal(self, number: signal.Signals) -> None:
        if self._pid is not None:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:
                self._pid = None


class _Ended(BaseException):
    """What a job in a worker is broken off with."""


_AT_WORK = threading.Event()
_TO_END = threading.Event()


def _interruptible(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a worker: SIGTERM breaks off the job, not the process, which then ends as it always does, and cleans up."""
    try:
        _AT_WORK.set()
        if _TO_END.is_set():
            raise _Ended
        return work(*arguments)
    except _Ended:
        raise RuntimeError("This worker was told to end.") from None
    finally:
        _AT_WORK.clear()


def _end(*_: object) -> None:
    if not _TO_END.is_set():
        _TO_END.set()
        if _AT_WORK.is_set():
            raise _Ended


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """A worker that starts in here is deaf to Ctrl-C: it goes to every process, and the parent ends its workers."""
    resource_tracker.ensure_running()  # which else starts with the first worker, and lets SIGINT through again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_with(parent: int) -> None:
    """A worker's first act: to end with its parent, and to break off its job when told to."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=watch, daemon=True).start()


def _outcome(
    future: Future[list[Part] | Exception], workers: Callable[[], Any], cluster: str
) -> list[Part] | Exception:
    """Waits for it, as long as the cluster has workers that may make it."""
    bare = 0
    while True:
        try:
            return future.result(timeout=SECONDS_BETWEEN_LOOKS)
        except TimeoutError:
            bare = 0 if workers() else bare + SECONDS_BETWEEN_LOOKS
            if bare > SECONDS_WITHOUT_WORKERS:
                future.cancel()
                raise LostWorker(f"{cluster} has no worker: start one.") from None


class Dask:
    """A Dask cluster: the one at `address`, else one of this machine's own, with a process a processor."""

    near = False
    LOCAL: ClassVar[dict[str, Any]] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
        "silence_logs": "CRITICAL",
    }

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """`workers`: of a cluster of its own."""
        self.address, self._own_workers = address, workers or processors()
        self._lock = threading.Lock()
        self._client: Any = None
        self._cluster: Any = None

    @property
    def workers(self) -> int:
        client = self._connected()
        try:
            threads: dict[str, int] = client.nthreads()
            return max(1, sum(threads.values()))
        except Exception:  # of a scheduler that is lost in this moment the parts tell, which are made again
            return 1

    def run(self, job: Job) -> list[Part]:
        client = self._connected()
        try:
            future = client.get_executor(pure=False).submit(attempt, job)
            outcome = _outcome(future, client.nthreads, f"The Dask cluster{_at(self.address)}")
        except LostWorker:
            raise
        except Exception as error:
            self._leave(client)
            raise _lost(job, f"Dask{_at(self.address)} lost a worker, or its scheduler,") from error
        return _parts_of(outcome)

    def _connected(self) -> Any:
        from distributed import Client, LocalCluster

        with self._lock:
            if self._client is None:
                if self.address is None:
                    with _without_ctrl_c():
                        self._cluster = LocalCluster(n_workers=self._own_workers, **self.LOCAL)
                try:
                    self._client = Client(
                        self.address or self._cluster, timeout=SECONDS_TO_CONNECT, set_as_default=False
                    )
                except OSError:
                    raise LostWorker(
                        f"No Dask scheduler answers at {self.address}: start it, or correct --address."
                    ) from None
            return self._client

    def _leave(self, client: Any) -> None:
        """Give up a client whose scheduler is gone; the next job connects anew."""
        if client.status == "running":
            return
        with self._lock:
            if self._client is client:
                self._client = None
                self._end(client)

    def _end(self, client: Any) -> None:
        cluster, self._cluster = self._cluster, None
        for each in (client, cluster):
            if each is not None:
                each.close(timeout=SECONDS_TO_END)

    def stop(self) -> None: ...

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            self._end(client)


def _knock(address: str, seconds: float) -> None:
    """OSError where nobody listens at host:port for so long, of which Ray itself is sure only after minutes."""
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    end = time.monotonic() + seconds
    while port.isdecimal():
        try:
            return socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


class Ray:
    """A Ray cluster: the one at `address`, else one of this machine's own."""

    near = False

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._attempt: Any = None

    @property
    def workers(self) -> int:
        self._connected()
        try:
            return max(1, self._processors())
        except Exception:  # as with Dask
            return 1

    def _processors(self) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 0))

    def run(self, job: Job) -> list[Part]:
        remote = self._connected()
        try:
            outcome = _outcome(remote.remote(job).future(), self._processors, f"The Ray cluster{_at(self.address)}")
        except LostWorker:
            raise
        except Exception as error:
            raise _lost(job, f"Ray{_at(self.address)} lost a worker, or its head,") from error
        return _parts_of(outcome)

    def _connected(self) -> Any:
        import ray

        with self._lock:
            if self._attempt is None:
                local = {} if self.address else {"num_cpus": processors(), "include_dashboard": False}
                try:
                    _knock(self.address or "", SECONDS_TO_CONNECT)
                    ray.init(self.address or "local", logging_level="CRITICAL", log_to_driver=False, **local)
                except (OSError, RuntimeError, ValueError):
                    raise LostWorker(
                        f"No Ray cluster answers at {self.address}: start it, or correct --address."
                    ) from None
                self._attempt = ray.remote(max_retries=0)(attempt)
            return self._attempt

    def stop(self) -> None: ...

    def close(self) -> None:
        with self._lock:
            if self._attempt is not None:
                import ray

                self._attempt = None
                ray.shutdown()
