"""A toy flow, in a module of its own so that spawned workers can import its stages.

A source has one item a line, a whole number:      3        its id is <site>/<line>, counted from 0
                                                  tea       no number: a defect

Stages that get `log`, a file, write a line in it for each unit of work they begin: what was really done, by whichever
process. Their other file names are switches: they are part of no row, so they stay the same from run to run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash
from offline_rules import RULES

from longform.artifacts.rows import Source
from longform.artifacts.store import Store
from longform.engine.build import Build, StageRun
from longform.engine.runners import Processes, ThreadRunner
from longform.engine.stage import AllRows, PerGroup, Rejected, Row, Rows, Shard, StageContext, stage
from longform.engine.thread_tasks import SequentialStages
from longform.errors import Incomplete
from longform.files import sha256_of
from longform.llm.models import Models
from longform.settings import responses
from schemas import column, table

ITEMS = table(
    "items",
    column("item_id", pa.string(), "<site>/<line>"),
    column("value", pa.int64(), "the number of that line"),
    key="item_id",
)
TEXTS = table(
    "texts",
    column("item_id", pa.string(), "parent: items.item_id"),
    column("text", pa.string(), "hexadecimal digits that no compression makes small"),
    key="item_id",
)


@stage(ITEMS, revision=1)
def read_items(context: StageContext, lines: Shard) -> Iterator[Row | Rejected]:
    texts = Path(lines.source.path).read_text().splitlines()
    for number in range(lines.index, len(texts), len(lines.source.pieces)):
        context.count("read", 1)
        key = f"{lines.source.group}/{number}"
        if texts[number].lstrip("-").isdigit():
            yield {"item_id": key, "value": int(texts[number])}
        else:
            yield Rejected(key, "defect", "not a number", raw=texts[number])


@stage(ITEMS, revision=1)
def order_items(context: StageContext, items: PerGroup) -> Iterator[Row]:
    yield from sorted(items, key=lambda item: xxhash.xxh3_64_intdigest(item["item_id"].encode()))


@stage(ITEMS, revision=1)
def multiply(context: StageContext, items: Rows, *, factor: int, log: str) -> Iterator[Row]:
    _note(log, items)
    for item in items:
        yield {**item, "value": item["value"] * factor}


@stage(ITEMS, revision=1)
def cap(context: StageContext, items: Rows, *, most: int) -> Iterator[Row]:
    for item in items:
        yield {**item, "value": min(item["value"], most)}


@stage(ITEMS, revision=1)
def below_mean(context: StageContext, items: Rows, site: PerGroup, *, log: str) -> Iterator[Row | Rejected]:
    """Only items below the mean of their site."""
    _note(log, items)
    values = [item["value"] for item in site]
    mean = sum(values) / max(1, len(values))
    for item in items:
        if item["value"] < mean:
            yield item
        else:
            yield Rejected(item["item_id"], "filtered", "not below the mean", detail=f"mean {mean}")


@stage(ITEMS, revision=1)
def rank(context: StageContext, items: AllRows) -> Iterator[Row]:
    """Each item's place among those of all sites, from 0."""
    values = sorted(item["value"] for item in items)
    for item in items:
        yield {**item, "value": values.index(item["value"])}


@stage(ITEMS, revision=1, also=("others",))
def join(context: StageContext, items: Rows, others: Rows, *, lost: str, log: str) -> Iterator[Row]:
    """All items of two tables, but the lost one."""
    _note(log, others if items.count == 0 else items)
    yield from (item for rows in (items, others) for item in rows if item["item_id"] != lost)


@stage(ITEMS, revision=1)
def lose(context: StageContext, items: Rows, *, lost: str) -> Iterator[Row]:
    yield from (item for item in items if item["item_id"] != lost)


@stage(ITEMS, revision=1)
def invent(context: StageContext, items: Rows, *, invented: str) -> Iterator[Row]:
    yield from items
    yield {"item_id": invented, "value": 0}


@stage(ITEMS, revision=1)
def ask(context: StageContext, items: Rows, *, closed: str, log: str) -> Iterator[Row]:
    """A stage that ends as Incomplete for the sites that the file `closed` names."""
    _note(log, items)
    names = Path(closed).read_text().split()
    for item in items:
        if item["item_id"].split("/")[0] in names:
            raise Incomplete(f"{item['item_id']} got no answer: run this again.")
        yield item


@stage(ITEMS, revision=1)
def guess(context: StageContext, items: Rows, *, mood: str) -> Iterator[Row]:
    """A stage whose rows depend on the file `mood`, as a model's replies may differ between days."""
    for item in items:
        yield {**item, "value": int(Path(mood).read_text())}


@stage(ITEMS, revision=1)
def die(context: StageContext, items: Rows, *, deadly: str, log: str) -> Iterator[Row]:
    """A stage that kills its process in the middle of the site that the file `deadly` names."""
    _note(log, items)
    for number, item in enumerate(items):
        if number == 1 and item["item_id"].split("/")[0] == Path(deadly).read_text():
            os.kill(os.getpid(), signal.SIGKILL)
        yield item


@stage(ITEMS, revision=1)
def linger(context: StageContext, items: Rows, *, slow: str, log: str) -> Iterator[Row]:
    """A stage that never ends for the sites that the file `slow` names."""
    _note(log, items)
    for number, item in enumerate(items):
        if number == 1 and item["item_id"].split("/")[0] in Path(slow).read_text().split():
            _note(f"{log}.slow", items)
            time.sleep(600)
        yield item


@stage(ITEMS, revision=1)
def scribble(context: StageContext, items: Rows, *, log: str, fails: bool) -> Iterator[pa.RecordBatch]:
    """A stage that leaves a file in its scratch folder and writes that folder's path to `log`."""
    (context.scratch() / "notes").write_text("gone soon")
    with open(log, "a") as file:
        file.write(f"{context.scratch()}\n")
    yield from items.batches()
    if fails:
        raise RuntimeError("a bug of this stage")


@stage(ITEMS, revision=1)
def hoard(context: StageContext, items: Rows, *, hoarder: str) -> Iterator[Row]:
    """A stage that asks DuckDB for more memory than it may have, for the site that the file `hoarder` names."""
    import duckdb

    for item in items:
        if item["item_id"].split("/")[0] in Path(hoarder).read_text().split():
            with duckdb.connect(config={"memory_limit": "10MB", "threads": 1, "temp_directory": ""}) as database:
                database.sql("SELECT list(range) FROM range(10_000_000)").fetchall()
        yield item


@stage(TEXTS, revision=1)
def pad(context: StageContext, items: Rows, *, digits: int) -> Iterator[Row]:
    for item in items:
        yield {"item_id": item["item_id"], "text": padding(item["item_id"], digits)}


@stage(ITEMS, revision=1)
def stumble(context: StageContext, items: Rows, *, over: int) -> Iterator[Row]:
    """A stage that fails with an error of the operating system."""
    raise OSError(over, os.strerror(over))
    yield from items


def padding(seed: str, digits: int) -> str:
    return random.Random(seed).randbytes(digits // 2).hex()


def _note(log: str, items: Rows) -> None:
    """Append one line in a single write, so that lines of parallel processes stay whole."""
    with open(log, "a") as file:
        file.write(f"{os.getpid()} {items.parts[0].key if items.parts else ''}\n")


# ---------------------------------------------------------------- building


class Silent:
    """Progress that records how many units of each stage had to be made."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Any = None) -> None:
        self.begun[stage] = units

    def end(self, entry: StageRun) -> None: ...

    def say(self, text: str) -> None: ...


def source(file: Path, site: str, pieces: int = 1) -> Source:
    ranges = tuple((number, number + 1) for number in range(pieces))
    return Source(site, str(file), sha256_of(file), (("site", site),), ranges)


@contextmanager
def building(
    home: Path, force: str | None = None, spawned: bool = False, accept: Collection[str] = ()
) -> Iterator[Build]:
    store = Store(home)
    store.prepare()
    models, runner = Models(responses(home), offline=RULES), Processes(3, small_bytes=0) if spawned else ThreadRunner()
    run = Build(
        store, tasks=SequentialStages(), runner=runner, progress=Silent(), models=models, force=force, accept=accept
    )
    try:
        yield run
    finally:
        run.close()


def rejected_by(run: Build, stage: str) -> list[tuple[str, str, int]]:
    """(kind, reason, number) of what a stage of this build rejected, part by part."""
    return [
        reason
        for entry in run.done
        if entry.stage == stage
        for part in entry.artifact.parts
        for reason in part.rejected
    ]


def linger_over(home: str, slow: str, log: str, *files: str) -> None:
    """Run a build that is going to be killed; the entry point of a child process."""
    with building(Path(home), spawned=True) as run:
        linger(run, read_items(run, [source(Path(file), Path(file).stem) for file in files]), slow=slow, log=log)
