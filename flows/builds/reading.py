"""Reading a source without building a dataset: its stages, and their rows as one Parquet file each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.builds.fetching import module_of
from longform.artifacts.rows import REJECTED, Rows, read_batches
from longform.artifacts.store import Store
from longform.engine.build import Build, Progress, StageRun, Tasks
from longform.engine.runners import Processes, Runner
from longform.files import unwritable
from longform.llm.models import Models
from longform.machines import temporary
from longform.settings import responses

LOCK = "sources"
BATCH_ROWS = 1_000


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
    """(the rows of the source's stages, what was done for each stage); parts that exist already are reused."""
    module = module_of(source, "read")
    store = Store(home)
    store.prepare()
    with store.lock(LOCK):
        store.sweep()
        models = Models(responses(home))
        build = Build(store, tasks=tasks, runner=runner or Processes(), progress=progress, models=models)
        try:
            rows = module.read(build, paths, config)
            build.finish()
            build.digests.keep()
            return rows, build.done
        finally:
            build.close()


def described(entry: StageRun, store: Store) -> dict[str, Any]:
    """A stage as a JSON value: rows, filtered and rejected rows by reason, counters, seconds, Parquet files."""
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
    """Write `<stage>.parquet` and `<stage>.rejected.parquet` of each table, whole or not at all, in constant memory.

    Of intermediate stages only the rejected rows are written, if there are any.
    """
    written: list[Path] = []
    count_by_stage: Counter[str] = Counter()
    for rows in tables:
        count_by_stage[rows.stage] += 1
        name = rows.stage if count_by_stage[rows.stage] == 1 else f"{rows.stage}-{count_by_stage[rows.stage]}"
        rejected = [str(rows.store.rejected_path(part)) for part in rows.parts or () if part.rejected]
        written.append(_write(folder / f"{name}.parquet", rows.schema, rows.paths))
        written.append(_write(folder / f"{name}.rejected.parquet", REJECTED, rejected))
    for entry in entries:
        if entry.stage not in count_by_stage and (rejected := _rejected(store, entry)):
            written.append(_write(folder / f"{entry.stage}.rejected.parquet", REJECTED, rejected))
    return written


def _rejected(store: Store, entry: StageRun) -> list[str]:
    return [str(store.rejected_path(part)) for part in entry.artifact.parts if part.rejected]


def _write(place: Path, schema: pa.Schema, paths: list[str]) -> Path:
    """Write a Parquet file from parts; StoreError if it cannot be written."""
    import pyarrow.parquet as pq

    try:
        with _beside(place) as path, pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in _batches(paths):
                writer.write_batch(batch.cast(schema))
    except OSError as error:
        raise unwritable(place, error) from None
    return place


def _batches(paths: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from read_batches(path, BATCH_ROWS)


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """A temporary path to write to, which is renamed to `place` once everything is written."""
    place.parent.mkdir(parents=True, exist_ok=True)
    path = place.with_name(temporary())
    try:
        yield path
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        path.replace(place)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
