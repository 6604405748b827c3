"""Reading a source without building a dataset: running the source's stages, and writing their rows as one Parquet file
per stage.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from flows.builds.datasheet import keep_counts
from flows.builds.fetching import module_of
from longform.artifacts.rows import REJECTED, Rows, read_batches
from longform.artifacts.store import Part, Store
from longform.engine.build import Build, Progress, StageRun, Tasks
from longform.engine.runners import Processes, Runner
from longform.files import sync, unwritable
from longform.llm.models import Models
from longform.machines import temporary
from longform.settings import responses
from schemas.sources.papers import DUPLICATES
from tasks.sources.papers.duplicates import duplicates_in_files

LOCK = "sources"
BATCH_ROWS = 1_000
ADMISSION = "admit_"


def read(
    source: str,
    paths: list[Path],
    config: Any,
    home: Path,
    *,
    tasks: Tasks,
    progress: Progress,
    runner: Runner | None = None,
) -> tuple[list[Rows], list[StageRun]]:
    """Run the stages of a source on these files, reusing parts that exist already; waits until all rows are made.

    Returns (the tables that the source's `read` gives, one StageRun for each stage, intermediate ones included).
    `config`: the source's settings. UsageError if the source is unknown or cannot be read by itself, BusyError if
    another process reads a source into this home; the error of a stage that failed is raised.
    """
    module = module_of(source, "read")
    store = Store(home)
    store.prepare()
    with store.lock(LOCK):
        store.sweep()
        models = Models(responses(home), home=home)
        build = Build(store, tasks=tasks, runner=runner or Processes(), progress=progress, models=models)
        try:
            rows = module.read(build, paths, config)
            build.finish()
            build.digests.keep()
            keep_counts(home, source, rows, build.done)
            return rows, build.done
        finally:
            build.close()


def read_once(entries: list[StageRun]) -> set[str]:
    """The SHA-256 of files that were read under one set of facts; a file of S2's that two of its datasets hold is read
    for both, and is not among them.
    """
    facts = defaultdict[str, set[str]](set)
    for entry in entries:
        for files in entry.artifact.recipe.inputs.values():
            for file in files if isinstance(files, list) else ():
                facts[file["sha256"]].add(json.dumps(file["facts"], sort_keys=True))
    return {sha256 for sha256, different in facts.items() if len(different) == 1}


def described(entry: StageRun, store: Store) -> dict[str, Any]:
    """What was done for a stage, as a JSON value: state, number of rows, filtered and rejected rows by reason,
    counters, seconds, fingerprint, folder, Parquet files.
    """
    artifact = entry.artifact
    return {
        "stage": entry.stage,
        "state": entry.state,
        "rows": artifact.rows,
        "filtered": artifact.reasons("filtered"),
        "rejected": artifact.reasons("defect"),
        "counters": artifact.counts(),
        "seconds": round(entry.seconds, 2),
        "fingerprint": artifact.fingerprint,
        "folder": str(store.stage(entry.stage)),
        "files": [str(store.rows_path(part)) for part in artifact.parts],
    }


def export(tables: list[Rows], entries: list[StageRun], store: Store, folder: Path) -> list[Path]:
    """Write each table as `<stage>.parquet`, and its rejected rows as `<stage>.rejected.parquet`, even if there are
    none; return the paths. A second table of a stage is named `<stage>-2`, and so on.

    A table of which records were taken down keeps the name of the stage that read it, so that it takes the place of the
    file from before the takedown. For stages in `entries` without a table only the rejected rows are written, if there
    are any. Each file is written whole or not at all, in constant memory. StoreError if one cannot be written.
    """
    written: list[Path] = []
    count_by_stage: Counter[str] = Counter()
    shown: set[str] = set()
    for rows in tables:
        stages = _admitted_from(rows, entries)
        read_by = stages[-1].stage if stages else rows.stage
        shown |= {rows.stage, *(entry.stage for entry in stages)}
        count_by_stage[read_by] += 1
        name = read_by if count_by_stage[read_by] == 1 else f"{read_by}-{count_by_stage[read_by]}"
        parts = [part for entry in reversed(stages) for part in entry.artifact.parts] if stages else rows.parts or []
        written.append(_write(folder / f"{name}.parquet", rows.schema, rows.paths))
        written.append(_write(folder / f"{name}.rejected.parquet", REJECTED, _rejected(store, parts)))
    for entry in entries:
        if entry.stage not in shown and (rejected := _rejected(store, entry.artifact.parts)):
            written.append(_write(folder / f"{entry.stage}.rejected.parquet", REJECTED, rejected))
    return written


def export_duplicates(files: list[Path], place: Path) -> dict[str, int]:
    """Write the versions of one paper among the papers in these Parquet files to the Parquet file `place`; return the
    number of pairs by verdict. Errors as by `duplicates_in_files`; StoreError if `place` cannot be written.
    """
    with TemporaryDirectory() as folder:
        rows, counts = duplicates_in_files(files, Path(folder)), {"same": 0, "doubtful": 0}

        def batches() -> Iterator[pa.RecordBatch]:
            while some := list(islice(rows, BATCH_ROWS)):
                for row in some:
                    counts[row["verdict"]] += 1
                yield pa.RecordBatch.from_pylist(some, schema=DUPLICATES)

        _write_batches(place, DUPLICATES, batches())
    return counts


def _admitted_from(rows: Rows, entries: list[StageRun]) -> list[StageRun]:
    """The stage of a table and, if that is one that leaves rows out (`admit_…`: what was taken down or is there twice),
    the stage of its first input, and so on; empty if the table's stage is not among `entries`.
    """
    by_fingerprint = {entry.artifact.fingerprint: entry for entry in entries}
    found = [by_fingerprint[rows.fingerprint]] if rows.fingerprint in by_fingerprint else []
    while found and found[-1].stage.startswith(ADMISSION):
        inputs = found[-1].artifact.recipe.inputs.values()
        read = [by_fingerprint[one] for one in inputs if isinstance(one, str) and one in by_fingerprint]
        if not read:
            break
        found.append(read[0])
    return found


def _rejected(store: Store, parts: list[Part]) -> list[str]:
    """The paths of the Parquet files with the rejected rows of these parts; parts without rejected rows have none."""
    return [str(store.rejected_path(part)) for part in parts if part.rejected]


def _write(place: Path, schema: pa.Schema, paths: list[str]) -> Path:
    """Write the rows of the Parquet files `paths` into the one file `place`, and return it; as `_write_batches`."""
    return _write_batches(place, schema, chain.from_iterable(read_batches(path, BATCH_ROWS) for path in paths))


def _write_batches(place: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
    """Write these rows into the one file `place`, as `schema`, and return `place`. The file appears whole or not at
    all; its folder is made if missing. StoreError if it cannot be written.
    """
    import pyarrow.parquet as pq

    unfinished = place.with_name(temporary())
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.cast(schema))
        sync(unfinished)
        unfinished.replace(place)
    except OSError as error:
        raise unwritable(place, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return place
