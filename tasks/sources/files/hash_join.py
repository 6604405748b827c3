"""Joins of answers with their questions, out of core: repeated ids left out, rows sorted by ranges of a hash."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected, read_batches

ROWS_PER_MB = 128
BATCH_ROWS = 2_000


def number_of_ranges(paths: list[str], memory_limit_mb: int) -> int:
    """Into how many ranges of the hash to split the rows of these Parquet files so that a range can be sorted within
    the memory limit, by their number of rows and their unpacked bytes. 0 where they are small.
    """
    from pyarrow import parquet

    files = [parquet.read_metadata(path) for path in paths]
    rows = sum(file.num_rows for file in files)
    unpacked = sum(file.row_group(index).total_byte_size for file in files for index in range(file.num_row_groups))
    return int(max(rows // (ROWS_PER_MB * memory_limit_mb), unpacked // (memory_limit_mb << 18)))


class Ranges:
    """Splits rows by the leading bits of `question_hash` into a power of two of ranges, more than `number`. Up to
    `max_bytes` of rows are kept in memory; more are written to files in `folder`.
    """

    def __init__(self, schema: pa.Schema, folder: Path, number: int, max_bytes: int) -> None:
        self.schema, self.folder, self.bits, self.max_bytes = schema, folder, max(1, number.bit_length()), max_bytes
        self.held: list[pa.RecordBatch] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; write all rows in memory to disk once they exceed `max_bytes`."""
        self.held.append(batch)
        self.bytes += batch.nbytes
        if self.bytes > self.max_bytes:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """The rows of each range that has any, ranges in order, rows within them unsorted. Works once: it deletes the
        files.
        """
        in_memory = dict(self._dealt())
        for index in range(1 << self.bits):
            tables = [*self._spilled(index), *([in_memory.pop(index)] if index in in_memory else [])]
            if tables:
                yield pa.concat_tables(tables)

    def _dealt(self) -> Iterator[tuple[int, pa.Table]]:
        """(index of a range, its rows) of the rows in memory, which are then no longer kept."""
        table, self.held, self.bytes = pa.Table.from_batches(self.held, self.schema), [], 0
        ranges = table["question_hash"].to_numpy() >> np.uint64(64 - self.bits)
        order = np.argsort(ranges, kind="stable")
        table = table.take(order)
        found, starts, rows = np.unique(ranges[order], return_index=True, return_counts=True)
        for index, start, length in zip(found, starts, rows, strict=True):
            yield int(index), table.slice(start, length)

    def _spill(self) -> None:
        """Append the rows in memory to the files of their ranges."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for index, table in self._dealt():
            path = self.folder / f"range-{index:05}.arrows"
            with path.open("ab") as file, pa.ipc.new_stream(file, self.schema, options=options) as stream:
                stream.write_table(table)

    def _spilled(self, index: int) -> Iterator[pa.Table]:
        """The rows in the file of a range, which is then deleted."""
        path = self.folder / f"range-{index:05}.arrows"
        if path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield pa.ipc.open_stream(file).read_all()
            path.unlink()


def marked(
    path: str, schema: pa.Schema, positions: np.ndarray, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
    """(batch, mask) of each batch of the Parquet file: the mask is true for the rows whose number within the file is in
    `positions`.
    """
    start = 0
    for batch in read_batches(path, batch_rows):
        here = np.isin(np.arange(start, start + len(batch)), positions)
        yield batch.select(schema.names).cast(schema), pa.array(here)
        start += len(batch)


def duplicate_positions(
    paths: list[str], scratch: Path, *, same: str, keep_order: str, memory_limit_mb: int
) -> dict[str, np.ndarray]:
    """File -> numbers of the rows within it that repeat another row, of this or another file; of each group of repeats
    all but one.

    Rows repeat each other where the expressions of `same` are equal; the one that sorts first by `keep_order` is not
    listed. Both are lists of SQL expressions over the columns; ties are decided by file and row number.
    """
    import duckdb

    query = f"""
        with twice as (select {same} from posts group by {same} having count(*) > 1)
        select filename, file_row_number from posts semi join twice using ({same})
        qualify row_number() over (partition by {same} order by {keep_order}, filename, file_row_number) > 1
        order by all
    """
    settings = {"memory_limit": f"{memory_limit_mb}MB", "temp_directory": str(scratch)}
    escaped = {glob.escape(path): path for path in paths}
    with duckdb.connect(config={**settings, "preserve_insertion_order": False}) as database:
        database.read_parquet(list(escaped), filename=True, file_row_number=True).create_view("posts")
        files, positions = database.sql(query).fetchnumpy().values()
    return {path: positions[files == path] for path in paths}


THREAD_ORDER = [
    ("question_hash", "ascending"),
    ("question_id", "ascending"),
    ("kind", "descending"),
    ("votes", "descending"),
    ("number", "ascending"),
]
LeftOut = Callable[[pa.RecordBatch, str], Iterator[Rejected]]


def joined(
    paths: list[str],
    scratch: Path,
    schema: pa.Schema,
    *,
    same: str,
    keep_order: str,
    kind: str,
    leave_out: LeftOut,
    masks: Callable[[pa.RecordBatch], Mapping[str, pa.BooleanArray]] = lambda rows: {},
    complete: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows,
    nest: Callable[[pa.RecordBatch, pa.RecordBatch, np.ndarray], pa.RecordBatch],
    orphan_reason: str,
    memory_limit_mb: int,
) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions joined with their answers: the batches that `nest(questions, answers, number of answers of each)`
    makes, in order of (question_hash, question_id).

    The files have rows of `schema` in any order; `kind` is what the column kind says in questions. `leave_out(rows,
    reason)` makes the Rejected of repeated ids (for `same` and `keep_order` see `duplicate_positions`), of rows that
    `masks` marks, by reason, and, for the reason `orphan_reason`, of rows whose question is missing. `complete` may
    change the sorted rows before they are nested. Memory is bounded: rows are split by hash into ranges, in files in
    `scratch`, then sorted range by range.
    """
    again = duplicate_positions(paths, scratch, same=same, keep_order=keep_order, memory_limit_mb=memory_limit_mb)
    ranges = Ranges(schema, scratch, number_of_ranges(paths, memory_limit_mb), memory_limit_mb << 18)
    for path in paths:
        for batch, is_repeated in marked(path, schema, again[path], BATCH_ROWS):
            left = pa.array(np.zeros(len(batch), bool))
            for reason, which in {"duplicate id": is_repeated, **masks(batch)}.items():
                yield from leave_out(batch.filter(pc.and_not(which, left)), reason)
                left = pc.or_(left, which)
            ranges.add(batch.filter(pc.invert(left)))
    for table in ranges.tables():
        (rows,) = table.sort_by(THREAD_ORDER).combine_chunks().to_batches()
        rows = complete(rows)
        ids = rows["question_id"]
        group = np.cumsum(np.append([True], pc.not_equal(ids[1:], ids[:-1])))
        asks = pc.equal(rows["kind"], kind).to_numpy(zero_copy_only=False)
        asked = np.isin(group, group[asks])
        yield from leave_out(rows.filter(pa.array(~asked)), orphan_reason)
        for questions, answers, counts in _families(rows.filter(pa.array(asked)), asks[asked]):
            yield nest(questions, answers, counts)


def _families(rows: pa.RecordBatch, asks: np.ndarray) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, np.ndarray]]:
    """(questions, their answers, number of answers of each) for up to BATCH_ROWS questions at a time. In `rows` a
    question stands before its answers; `asks` is true for questions.
    """
    starts = np.append(np.flatnonzero(asks), len(asks))
    for first in range(0, len(starts) - 1, BATCH_ROWS):
        cut = starts[first : first + BATCH_ROWS + 1]
        some, own = rows.slice(cut[0], cut[-1] - cut[0]), asks[cut[0] : cut[-1]]
        yield some.filter(pa.array(own)), some.filter(pa.array(~own)), np.diff(cut) - 1


def in_lists(columns: Mapping[str, pa.Array], counts: np.ndarray, type: pa.ListType) -> pa.ListArray:
    """An array of lists of structs, in order: list i has `counts[i]` structs, whose fields are the columns that `type`
    names.
    """
    fields = list(type.value_type)
    structs = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    return pa.ListArray.from_arrays(pa.array(np.append([0], np.cumsum(counts)), pa.int32()), structs, type=type)
