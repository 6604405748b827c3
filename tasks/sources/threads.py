"""Questions joined with their answers, out of core: answers may come before their question, or without one."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.rows import Rejected
from schemas.stackexchange import ANSWER, POSTS, THREADS
from tasks.sources.stackexchange import BATCH_ROWS, RAW_CHARS
from tasks.stage import Group, Run, stage

ROWS_PER_MB = 128
_SORT_KEYS = [
    ("question_hash", "ascending"),
    ("question_id", "ascending"),
    ("kind", "descending"),
    ("votes", "descending"),
    ("number", "ascending"),
]
_COMPARED = ", ".join("left(text, 1000), md5(text)" if name == "text" else name for name in POSTS.names)
_REPEATED = f"""
    with twice as (select number from posts group by number having count(*) > 1)
    select filename, file_row_number from posts semi join twice using (number)
    qualify row_number() over (partition by number order by {_COMPARED}, filename, file_row_number) > 1
    order by all
"""


def threads(paths: list[str], scratch: Path, *, memory_limit_mb: int = 512) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of THREADS in order of (question_hash, question_id), from the posts of one site in any order.

    Bodies are sorted in two steps, so that memory has a bound and disk is read twice at most: into ranges of the
    hash, in `scratch`, then each range in memory. Of posts with one id the first by all columns stays.
    """
    from pyarrow import parquet

    repeated = _repeated(paths, scratch, memory_limit_mb)
    posts = sum(parquet.read_metadata(path).num_rows for path in paths)
    ranges = _Ranges(scratch, posts // (ROWS_PER_MB * memory_limit_mb), memory_limit_mb << 18)
    for path in paths:
        for batch, is_repeated in _marked(path, repeated[path]):
            yield from _rejected(batch.filter(is_repeated), "duplicate id")
            ranges.add(batch.filter(pc.invert(is_repeated)))
    for table in ranges.tables():
        (sorted_posts,) = table.sort_by(_SORT_KEYS).combine_chunks().to_batches()
        yield from _nest(sorted_posts)


def _marked(path: str, positions: np.ndarray) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
    """Batches of the file, and which of their rows stand at one of `positions`."""
    from pyarrow import parquet

    start = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            yield (
                batch.select(POSTS.names).cast(POSTS),
                pa.array(np.isin(np.arange(start, start + len(batch)), positions)),
            )
            start += len(batch)


def _repeated(paths: list[str], scratch: Path, memory_limit_mb: int) -> dict[str, np.ndarray]:
    """By file, the positions of rows whose id stands elsewhere, in a row that comes first."""
    import duckdb

    settings = {"memory_limit": f"{memory_limit_mb}MB", "temp_directory": str(scratch)}
    escaped = {glob.escape(path): path for path in paths}
    with duckdb.connect(config={**settings, "preserve_insertion_order": False}) as database:
        database.read_parquet(list(escaped), filename=True, file_row_number=True).create_view("posts")
        files, positions = database.sql(_REPEATED).fetchnumpy().values()
    return {path: positions[files == path] for path in paths}


class _Ranges:
    """Rows dealt out to `number` or more ranges of question_hash; up to `max_bytes` in memory, more in `folder`."""

    def __init__(self, folder: Path, number: int, max_bytes: int) -> None:
        self.folder, self.bits, self.max_bytes = folder, max(1, number.bit_length()), max_bytes
        self.held: list[pa.RecordBatch] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)
        self.bytes += batch.nbytes
        if self.bytes > self.max_bytes:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """The ranges in order, empty ones left out."""
        in_memory = dict(self._dealt())
        for index in range(1 << self.bits):
            tables = [*self._spilled(index), *([in_memory.pop(index)] if index in in_memory else [])]
            if tables:
                yield pa.concat_tables(tables)

    def _dealt(self) -> Iterator[tuple[int, pa.Table]]:
        """(range, its rows) of what is held, which is then held no more."""
        table, self.held, self.bytes = pa.Table.from_batches(self.held, POSTS), [], 0
        ranges = table["question_hash"].to_numpy() >> np.uint64(64 - self.bits)
        order = np.argsort(ranges, kind="stable")
        table = table.take(order)
        found, starts, rows = np.unique(ranges[order], return_index=True, return_counts=True)
        for index, start, length in zip(found, starts, rows, strict=True):
            yield int(index), table.slice(start, length)

    def _spill(self) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for index, table in self._dealt():
            with self._file(index).open("ab") as file, pa.ipc.new_stream(file, POSTS, options=options) as stream:
                stream.write_table(table)

    def _spilled(self, index: int) -> Iterator[pa.Table]:
        if not self._file(index).exists():
            return
        with self._file(index).open("rb") as file:
            end = file.seek(0, 2)
            file.seek(0)
            while file.tell() < end:
                yield pa.ipc.open_stream(file).read_all()
        self._file(index).unlink()

    def _file(self, index: int) -> Path:
        return self.folder / f"range-{index:05}.arrows"


def _nest(posts: pa.RecordBatch) -> Iterator[pa.RecordBatch | Rejected]:
    """Threads, of sorted posts whose groups are whole and begin with the question."""
    ids = posts["question_id"]
    group = np.cumsum(np.append([True], pc.not_equal(ids[1:], ids[:-1])))
    asks = pc.equal(posts["kind"], "question").to_numpy(zero_copy_only=False)
    asked = np.isin(group, group[asks])
    yield from _rejected(posts.filter(pa.array(~asked)), "orphan answer")
    whole, starts = posts.filter(pa.array(asked)), np.append(np.flatnonzero(asks[asked]), asked.sum())
    for first in range(0, len(starts) - 1, BATCH_ROWS):
        cut = starts[first : first + BATCH_ROWS + 1]
        yield _threads(whole.slice(cut[0], cut[-1] - cut[0]), cut - cut[0])


def _rejected(posts: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    for key, text in zip(posts["post_id"].to_pylist(), posts["text"].to_pylist(), strict=True):
        yield Rejected(key, "defect", reason, raw=text[:RAW_CHARS])


def _threads(posts: pa.RecordBatch, starts: np.ndarray) -> pa.RecordBatch:
    """One thread from each of `starts`, whose last one is the end."""
    asks = np.isin(np.arange(len(posts)), starts)
    questions, answers, counts = posts.filter(pa.array(asks)), posts.filter(pa.array(~asks)), np.diff(starts) - 1
    accepted = questions["accepted_id"].take(pa.array(np.repeat(np.arange(len(questions)), counts)))
    given = {name: answers[name] for name in POSTS.names}
    given["answer_id"] = given["post_id"]
    given["accepted"] = pc.fill_null(pc.equal(given["post_id"], accepted), False)
    nested = pa.StructArray.from_arrays([given[field.name] for field in ANSWER], fields=list(ANSWER))
    offsets = pa.array(np.append([0], np.cumsum(counts)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, nested, type=THREADS.field("answers").type)
    columns = [lists if name == "answers" else questions[name] for name in THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=THREADS)


@stage(THREADS, revision=1)
def join_threads(run: Run, posts: Group) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions with their answers, in whatever order these came."""
    yield from threads(posts.paths, run.scratch())
