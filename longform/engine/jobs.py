"""Units of work: how a stage's inputs are divided into jobs, how jobs and their parts are named, and how a job is made.

Every runner calls `execute`, which makes a job's parts and commits them; `walk` runs a job dry, to find its requests.
"""

from __future__ import annotations

import errno
import gc
import math
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.artifacts.conservation import check_conservation
from longform.artifacts.parts import Parts, group_of, part_keys
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rows, Shard
from longform.artifacts.store import Part, Store
from longform.engine.health import Ceilings, Health
from longform.engine.stage import DryContext, NeedsEmbeddings, NeedsWeb, Shape, Stage, StageCall, StageContext
from longform.errors import BusyStore, LongformError, StoreError
from longform.files import busy, full, unwritable
from longform.llm.ask.types import Endpoint, Request, broken_off
from longform.llm.models import Models
from longform.llm.offline import Rules

if TYPE_CHECKING:
    from longform.llm.batch.batched import Batched

PARTS = 4  # of a group, as far as the rows of each stay within the bounds
ROWS_PER_PART = (16_384, 32_768)  # fewer cost more in Prefect than they save, more cost memory
CUT = re.compile(r"\d{1,2}-\d{5}")
ALL_ROWS_KEY = "all/0-00000"
NUMBERED = "part"  # of keys that do not change with the file they are from
OBJECTS_BETWEEN_COLLECTIONS = 200_000
STOP = "stop"  # a file in the folder of the build: whoever works for it ends
SECONDS_BETWEEN_LOOKS = 1.0

Urgency = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Job:
    """One unit of work as it is sent to a worker: it can be pickled, and names its stage by module and name.

    `unit`: the id of the unit. `label`: its name for people. `keys`: the keys of the parts it makes. `inputs`:
    parameter -> the rows or the shard that the unit reads. `arguments`: the stage's keyword arguments. `recipe`: the
    fingerprint of the stage's recipe.
    `responses`: the path or address of the store of model responses; empty: the file in the home. `shared`: the folder
    of the build, None outside of a build. `offline`: the rules of the offline model. `stages_after`: the length of the
    longest chain of stages that wait for its stage. `asking`: further arguments of the worker's Models. `ceilings`: of
    a stage whose model's replies are judged, else None. `batched`: what the batches of a stage have done that
    may make no single calls.
    """

    module: str
    stage: str
    home: Path
    unit: str
    label: str
    keys: list[str]
    inputs: dict[str, Any]
    arguments: dict[str, Any]
    recipe: str
    responses: Path | str = ""
    shared: Path | None = None
    offline: Rules = field(default_factory=dict)
    stages_after: int = 0
    asking: dict[str, Any] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    batched: Batched | None = None

    @property
    def bytes(self) -> int:
        """The size of the job's inputs as stored: bytes of Parquet files, or of the byte range of a source."""
        return sum(
            value.end - value.start if isinstance(value, Shard) else sum(part.bytes for part in value.parts or ())
            for value in self.inputs.values()
        )

    @property
    def urgency(self) -> Urgency:
        """(length of the longest chain of stages that wait for it, bytes of its inputs): of jobs that wait for a
        worker, the one with the greatest goes first.
        """
        return self.stages_after, self.bytes

    @property
    def rows(self) -> int:
        """The number of rows of the job's first input; 0 if that is a shard of a source."""
        first = next(iter(self.inputs.values()))
        return first.count if isinstance(first, Rows) else 0


def jobs_of(store: Store, call: StageCall, inputs: dict[str, Any] | None = None) -> Iterator[Job]:
    """The jobs of a call, one for each unit of work, in order; a job's `unit` is a hash of its recipe, inputs and part
    keys. `inputs` replaces the inputs of the call.
    """
    stage = call.stage
    for label, keys, unit_inputs in _units_of(stage, call.inputs if inputs is None else inputs):
        hashes = {name: input_hashes(value) for name, value in unit_inputs.items()}
        unit = call.recipe.unit({**hashes, "keys": keys})
        recipe = call.recipe.fingerprint
        yield Job(stage.module, stage.name, store.home, unit, label, keys, unit_inputs, call.arguments, recipe)


def _units_of(stage: Stage, inputs: dict[str, Any]) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(label, keys of the output parts, inputs: parameter -> rows or shard) of each unit of work. The shape of the
    first input says what the units are: shards, parts, groups, or all rows at once (label `all`). Of the other inputs
    a unit gets the parts that belong to it; parts of inputs that the stage names in `also` are units as well. The keys
    are those of `_keys_of`, or, if the stage limits the rows of a part, `<group>/part<number of the unit>` alone; a
    shard has one part with its own key.
    """
    (name, first), *others = inputs.items()
    if stage.shape is Shape.SHARD:
        side_rows = {other: rows.of(rows.parts) for other, rows in others}
        shards = [shard for source in first for shard in source.shards]
        yield from ((shard.key, [shard.key], {name: shard, **side_rows}) for shard in shards)
        return
    parts = {name: _by_unit(rows, stage.inputs[name]) for name, rows in inputs.items()}
    units = _by_unit(first, stage.shape)
    for also in stage.also:
        units |= {unit: own for unit, own in parts[also].items() if unit not in units}
    for number, (unit, own_parts) in enumerate(units.items()):
        unit_inputs = {
            name: rows.of(parts[name].get(_unit_of(unit, stage.inputs[name]), [])) for name, rows in inputs.items()
        }
        numbered_keys = [f"{group_of(unit)}/{NUMBERED}{number:03d}"] if stage.max_rows_per_part else None
        yield unit or "all", numbered_keys or _keys_of(stage, unit, own_parts), unit_inputs


def _by_unit(rows: Rows, shape: Shape) -> dict[str, list[Part]]:
    """unit -> the parts of an input that the unit sees. With the shape PART each unit, named by the part key, sees one
    part; with GROUP it is named by the group and sees the group's parts; with ALL the one unit "" sees all parts, even
    if there are none.
    """
    found: dict[str, list[Part]] = {} if shape is not Shape.ALL else {"": []}
    for part in rows.parts or ():
        found.setdefault(_unit_of(part.key, shape), []).append(part)
    return found


def _unit_of(key: str, shape: Shape) -> str:
    """The name of the unit that reads the part `key` in this shape: the part key itself, its group, or "" for all
    rows.
    """
    return "" if shape is Shape.ALL else group_of(key) if shape is Shape.GROUP else key


def _keys_of(stage: Stage, unit: str, parts: list[Part]) -> list[str]:
    """The keys of the parts that a unit makes; `parts`: those of its first input. They are the keys of these parts if
    the unit sees one part, or if all of them are ranges of the hash.
    Else a unit that sees all rows has one key, that of its only part or ALL_ROWS_KEY; a unit of a group has new ranges
    of the hash, as many (a power of two) as its number of rows asks for (PARTS, ROWS_PER_PART).
    """
    keys = [part.key for part in parts]
    if stage.shape is Shape.PART or (keys and all(CUT.fullmatch(key.split("/", 1)[1]) for key in keys)):
        return keys
    if stage.shape is Shape.ALL:
        return keys if len(keys) == 1 else [ALL_ROWS_KEY]
    rows, (fewest, most) = sum(part.rows for part in parts), ROWS_PER_PART
    rows_per_part = min(max(rows / PARTS, fewest), most)
    return part_keys(unit, math.ceil(math.log2(max(1, rows / rows_per_part))))


def input_hashes(value: Any) -> list[str]:
    """Hashes of an input's contents: one for each part of rows, or for each source of a list of sources; two for a
    shard (source, index).
    """
    if isinstance(value, Rows):
        return [f"{part.key} {part.sha256}" for part in value.parts or ()]
    if isinstance(value, Shard):
        return [fingerprint(value.source.identity()), str(value.index)]
    return [fingerprint(source.identity()) for source in value]


def hash_of_inputs(inputs: dict[str, Any]) -> str:
    """One hash of the contents of all inputs of a call; `inputs`: parameter -> rows or list of sources."""
    return fingerprint({name: input_hashes(value) for name, value in inputs.items()})


class Meter:
    """Measures how much of a unit of work is done, by the rows of its first input that were read, or by the position
    in its source file. The stage's body has to read the inputs in `inputs`, whose rows are counted.
    """

    def __init__(self, job: Job) -> None:
        name, first = next(iter(job.inputs.items()))
        self.first = first.of(first.parts) if isinstance(first, Rows) else first
        self.inputs = {**job.inputs, name: self.first}

    def fraction(self) -> float:
        """The fraction that is done, from 0 to 1. Rows that are read twice count twice; work after the last row does
        not count.
        """
        if isinstance(self.first, Rows):
            return min(1.0, self.first.rows_read / max(1, self.first.count))
        shard: Shard = self.first
        return min(1.0, max(0.0, (_read_position(shard.source.path) - shard.start) / max(1, shard.end - shard.start)))


def execute(job: Job) -> list[Part]:
    """Make one unit of work in a worker, commit its parts and return them. Incomplete if the build is stopped
    meanwhile; other errors as in `execute_with`.
    """
    where, meter = job.responses or job.home / "llm" / "responses.sqlite", Meter(job)
    health = Health(job.stage, job.ceilings, inputs=job.inputs.values()) if job.ceilings else None
    models = Models(where, offline=job.offline, home=job.home, **job.asking)
    with models, _watched(job, models, meter) as stop:
        models.batched |= {job.stage: job.batched} if job.batched is not None else {}
        return execute_with(job, models, stop, meter, health)


def execute_with(
    job: Job, models: Models, stop: threading.Event, meter: Meter, health: Health | None = None
) -> list[Part]:
    """Make one unit of work, commit its parts and return them, with the caller's models and meter. If `stop` is set,
    the job is broken off with Incomplete; with GateError if too many of the replies that `health` counts are of no use.

    A full disk, missing permissions or memory that DuckDB lacks give a StoreError, passing locks and time-outs a
    BusyStore. Other errors are raised as they are; if they are none of the project's and an input part turns out to be
    damaged, a StoreError instead. Changes the threshold of the process's garbage collection.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)  # rows hold no cycles: looking for some took a tenth of the time
    stage: Stage = getattr(import_module(job.module), job.stage)
    store = Store(job.home)
    try:
        return _make_unit(job, stage, store, models, stop, meter, health)
    except StoreError:
        raise
    except Exception as error:
        if full(error) or isinstance(error, PermissionError):
            cause = error if isinstance(error, OSError) else OSError(errno.ENOSPC, str(error))
            raise unwritable(job.home, cause) from None
        if busy(error):
            raise BusyStore(
                f"A file or the disk was busy while {job.stage} worked on {job.label} ({error}): "
                "what was finished is kept; run the same command again."
            ) from None
        import duckdb  # only where a stage failed

        if isinstance(error, duckdb.OutOfMemoryException):
            first_line = str(error).partition("\n")[0].removeprefix("Out of Memory Error: ")  # the rest is advice
            raise StoreError(
                f"DuckDB had too little memory while {job.stage} worked on {job.label} ({first_line}): "
                "what was finished is kept; free some memory, or give the sources as smaller files, "
                "and run the command again."
            ) from None
        if not isinstance(error, LongformError):
            check_inputs(job, store)
        raise


def _make_unit(
    job: Job,
    stage: Stage,
    store: Store,
    models: Models,
    stop: threading.Event,
    meter: Meter,
    health: Health | None,
) -> list[Part]:
    """Run a stage's body, write its parts, check that no row is lost, record the unit as finished and return the
    parts. Incomplete if `stop` is set, which is looked at after each row. On any error the unfinished parts are
    deleted.
    """
    parts = Parts(store, stage.name, stage.schema, job.keys, stage.split_by, stage.max_rows_per_part)
    context = StageContext(store, models, stage.name, job.recipe, parts.count, job.shared, health)
    try:
        for item in stage.body(context, **meter.inputs, **job.arguments):
            parts.add(item)
            if health is not None:
                health.add_item(item)
            if stop.is_set():
                raise broken_off()
        done = parts.finish()
        kept, side_inputs = stage.conserved(job.inputs), stage.side_inputs(job.inputs)
        check_conservation(store, stage.name, stage.schema, done, kept, side_inputs, stage.only)
        store.commit_unit(stage.name, job.unit, done, context.responses)
        return done
    except BaseException:
        parts.discard()
        raise
    finally:
        context.close()


def walk(
    store: Store,
    stage: Stage,
    job: Job,
    asks: Callable[[Endpoint, Request, Any], None],
    embeds: Callable[[Endpoint, list[str]], None],
) -> bool:
    """Run a unit of work dry: call `asks` with each of its requests and its item, and `embeds` with its texts.
    Nothing is sent or stored.

    False if the body stopped at a web request, so that requests may be missing; else True. The body stops, too, after
    its first call for embeddings, as it gets none. Requests that depend on a reply are never found. StoreError if the
    body fails and an input part is damaged; else its own error.
    """
    context = DryContext(store, asks, embeds)
    try:
        with suppress(NeedsEmbeddings):
            deque(stage.body(context, **job.inputs, **job.arguments), maxlen=0)
        return True
    except NeedsWeb:
        return False
    except Exception:
        check_inputs(job, store)
        raise
    finally:
        context.close()


def reported_fraction(shared: Path, unit: str) -> float:
    """The fraction of a unit of work that is done, from 0 to 1, as its worker last reported in the build's folder
    `shared`; 0 without a report.
    """
    try:
        return float((shared / f"{unit}.progress").read_text())
    except (OSError, ValueError):
        return 0.0


@contextmanager
def _watched(job: Job, models: Models, meter: Meter) -> Iterator[threading.Event]:
    """A context in which a thread, once a second, writes the job's progress into the build's folder and looks for the
    build's stop file there. Yields an event; when the file appears, the event is set and the models are closed, which
    ends waiting for replies.

    For a job without a build's folder (`shared` is None) nothing happens and the event is never set.
    """
    stop, finished = threading.Event(), threading.Event()

    def watch() -> None:
        while job.shared is not None and not finished.wait(SECONDS_BETWEEN_LOOKS):
            if (job.shared / STOP).exists():
                stop.set()
                models.close()
                return
            with suppress(OSError):
                job.shared.mkdir(exist_ok=True)
                (job.shared / f"{job.unit}.progress").write_text(f"{meter.fraction():.4f}")

    threading.Thread(target=watch, name="watch", daemon=True).start()
    try:
        yield stop
    finally:
        finished.set()


def _read_position(path: str) -> int:
    """How far this process has read in a file, in bytes: the farthest position of its open handles in /proc; 0 if
    unknown.
    """
    wanted, places = os.path.realpath(path), [0]
    with suppress(OSError):
        for entry in os.listdir("/proc/self/fd"):
            with suppress(OSError, ValueError, StopIteration):
                if os.readlink(f"/proc/self/fd/{entry}") == wanted:
                    lines = Path(f"/proc/self/fdinfo/{entry}").read_text().splitlines()
                    places.append(next(int(line.split()[1]) for line in lines if line.startswith("pos:")))
    return max(places)


def check_inputs(job: Job, store: Store) -> None:
    """Raise StoreError if an input part is missing or does not match its checksum any more, which explains why a stage
    failed.
    """
    for rows in job.inputs.values():
        for part in (rows.parts or ()) if isinstance(rows, Rows) else ():
            if store.damaged(part):
                raise StoreError(
                    f"{store.part(part)} is damaged, {job.stage} cannot read it: "
                    f"build again with --force {part.stage}, which makes it again."
                ) from None
