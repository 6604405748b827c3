"""Making one unit of work, from its job to its committed parts: every engine calls this."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from longform.artifacts.conservation import check_conservation
from longform.artifacts.parts import Parts
from longform.artifacts.rows import Rows, Shard
from longform.artifacts.store import Part, Store
from longform.engine.context import StageContext
from longform.engine.jobs import Job
from longform.engine.stage import Stage
from longform.errors import BusyStore, LongformError, StoreError
from longform.files import busy, full, unwritable
from longform.llm.ask.types import broken_off
from longform.llm.models import Models

OBJECTS_BETWEEN_COLLECTIONS = 200_000
STOP = "stop"  # a file in the folder of the build: whoever works for it ends
SECONDS_BETWEEN_LOOKS = 1.0


class Stop(Protocol):
    """An event that is set when the build is stopped."""

    def is_set(self) -> bool: ...


class Meter:
    """How much of a unit of work is done: by the rows of its first input that were read, or by the position in its
    source.
    """

    def __init__(self, job: Job) -> None:
        self.name, self.first = next(iter(job.inputs.items()))
        self.read = 0

    def inputs(self, job: Job) -> dict[str, Any]:
        """The inputs of the job; reading the first one is metered."""
        return job.inputs | ({self.name: self.first.metered(self._add)} if isinstance(self.first, Rows) else {})

    def _add(self, rows: int) -> None:
        self.read += rows

    def fraction(self) -> float:
        """From 0 to 1; ignores that rows may be read twice, and the work after the last row."""
        if isinstance(self.first, Rows):
            return min(1.0, self.read / max(1, self.first.count))
        shard: Shard = self.first
        return min(1.0, max(0.0, (_read_position(shard.source.path) - shard.start) / max(1, shard.end - shard.start)))


def execute(job: Job) -> list[Part]:
    """Make one unit of work in a worker, and commit its parts. Incomplete if the build is stopped meanwhile."""
    where, meter = job.responses or job.home / "llm" / "responses.sqlite", Meter(job)
    with Models(where, offline=job.offline) as models, _watched(job, models, meter) as stop:
        return execute_with(job, models, stop, meter)


def execute_with(job: Job, models: Models, stop: Stop, meter: Meter) -> list[Part]:
    """As `execute`, with the caller's models and meter. Errors of disk, memory and locks become StoreErrors."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)  # rows hold no cycles: looking for some took a tenth of the time
    work: Stage = getattr(import_module(job.module), job.stage)
    store = Store(job.home)
    try:
        return _make(job, work, store, models, stop, meter)
    except StoreError:
        raise
    except Exception as error:
        if full(error):
            raise unwritable(job.home, OSError(28, str(error))) from None
        if busy(error):
            raise BusyStore(
                f"A file or the disk was busy while {job.stage} worked on {job.label} ({error}): "
                "what was finished is kept; run the same command again."
            ) from None
        if isinstance(error, PermissionError):
            raise unwritable(job.home, error) from None
        if _out_of_memory(error):
            raise StoreError(
                f"DuckDB had too little memory while {job.stage} worked on {job.label} ({_first_line(error)}): "
                "what was finished is kept; free some memory, or give the sources as smaller files, "
                "and run the command again."
            ) from None
        if not isinstance(error, LongformError):
            check_inputs(job, store)
        raise


def _make(job: Job, work: Stage, store: Store, models: Models, stop: Stop, meter: Meter) -> list[Part]:
    """Run a stage's body, and write and check its parts; on an error the unfinished parts are deleted."""
    parts = Parts(store, work.name, work.schema, job.keys, work.split_by, work.max_rows_per_part)
    context = StageContext(store, models, work.name, job.recipe, parts.count, job.shared)
    try:
        for item in work.body(context, **meter.inputs(job), **job.arguments):
            parts.add(item)
            if stop.is_set():
                raise broken_off()
        done = parts.finish()
        kept, side_inputs = work.conserved(job.inputs), work.side_inputs(job.inputs)
        check_conservation(store, work.name, work.schema, done, kept, side_inputs)
        store.commit_unit(work.name, job.unit, done, context.responses)
        return done
    except BaseException:
        parts.discard()
        raise
    finally:
        context.close()


def reported_fraction(shared: Path, unit: str) -> float:
    """The fraction of a unit of work that is done, as its worker last reported; 0 without a report."""
    try:
        return float((shared / f"{unit}.progress").read_text())
    except (OSError, ValueError):
        return 0.0


@contextmanager
def _watched(job: Job, models: Models, meter: Meter) -> Iterator[threading.Event]:
    """Report the job's progress in the build's folder, and yield an event that is set once the build's stop file is
    there.

    The models are then closed as well, which ends waiting for replies.
    """
    stop, finished = threading.Event(), threading.Event()

    def watch() -> None:
        while job.shared is not None and not finished.wait(SECONDS_BETWEEN_LOOKS):
            if (job.shared / STOP).exists():
                stop.set()
                models.close()
                return
            _report_fraction(job.shared, job.unit, meter)

    threading.Thread(target=watch, name="watch", daemon=True).start()
    try:
        yield stop
    finally:
        finished.set()


def _report_fraction(shared: Path, unit: str, meter: Meter) -> None:
    """Write the unit's progress to its file in the build's folder."""
    with suppress(OSError):
        shared.mkdir(exist_ok=True)
        (shared / f"{unit}.progress").write_text(f"{meter.fraction():.4f}")


def _read_position(path: str) -> int:
    """How far this process has read in a file, in bytes, where the system tells: the farthest of its open positions."""
    wanted, places = os.path.realpath(path), [0]
    with suppress(OSError):
        for entry in os.listdir("/proc/self/fd"):
            with suppress(OSError, ValueError, StopIteration):
                if os.readlink(f"/proc/self/fd/{entry}") == wanted:
                    lines = Path(f"/proc/self/fdinfo/{entry}").read_text().splitlines()
                    places.append(next(int(line.split()[1]) for line in lines if line.startswith("pos:")))
    return max(places)


def check_inputs(job: Job, store: Store) -> None:
    """Raise StoreError if an input part no longer matches its checksum, which explains why a stage failed."""
    for rows in job.inputs.values():
        for part in (rows.parts or ()) if isinstance(rows, Rows) else ():
            if not store.intact(part):
                raise StoreError(
                    f"{store.part(part)} is damaged, {job.stage} cannot read it: "
                    f"build again with --force {part.stage}, which makes it again."
                ) from None


def _out_of_memory(error: Exception) -> bool:
    import duckdb  # only where a stage failed

    return isinstance(error, duckdb.OutOfMemoryException)


def _first_line(error: Exception) -> str:
    """The error's first line; the rest is advice on DuckDB's own settings."""
    return next(iter(str(error).splitlines()), "").removeprefix("Out of Memory Error: ")
