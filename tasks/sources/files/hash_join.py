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
    the memory limit (in MB): one for each ROWS_PER_MB rows a MB, or for a quarter of the limit in unpacked bytes,
    whichever gives more. Rounded down: 0 if there are fewer rows and bytes than one range takes.
    """
    from pyarrow import parquet

    files = [parquet.read_metadata(path) for path in paths]
    rows = sum(file.num_rows for file in files)
    unpacked = sum(file.row_group(index).total_byte_size for file in files for index in range(file.num_row_groups))
    return int(max(rows // (ROWS_PER_MB * memory_limit_mb), unpacked // (memory_limit_mb << 18)))


class Ranges:
    """Splits the rows that `add` takes by the leading bits of their column `question_hash` into ranges, which `tables`
    gives. Their number is the smallest power of two above `number` and above 1. Up to `max_bytes` bytes of rows are
    kept in memory; with more, all are written to files in `folder`.
    """

    def __init__(self, schema: pa.Schema, folder: Path, number: int, max_bytes: int) -> None:
        self.schema, self.folder, self.bits, self.max_bytes = schema, folder, max(1, number.bit_length()), max_bytes
        self.held: list[pa.RecordBatch] = []
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of `schema`; if the rows in memory then exceed `max_bytes` bytes, write all of them to disk."""
        self.held.append(batch)
        self.bytes += batch.nbytes
        if self.bytes > self.max_bytes:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """One table for each range that has rows, ranges in order; the rows of a range are not sorted. Works once: it
        deletes the files and forgets the rows.
        """
        in_memory = dict(self._dealt())
        for index in range(1 << self.bits):
            tables = [*self._spilled(index), *([in_memory.pop(index)] if index in in_memory else [])]
            if tables:
                yield pa.concat_tables(tables)

    def _dealt(self) -> Iterator[tuple[int, pa.Table]]:
        """(index of a range, its rows) for each range with rows in memory, in order; they are then no longer kept."""
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
        """The rows in the file of the range with this index, a table for each time they were written; the file is then
        deleted. Nothing if there is no file.
        """
        path = self.folder / f"range-{index:05}.arrows"
        if path.exists():
            with path.open("rb") as file:
                while file.peek(1):
                    yield pa.ipc.open_stream(file).read_all()
            path.unlink()


def marked(
    path: str, schema: pa.Schema, positions: np.ndarray, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
    """(batch, mask) for each batch of at most `batch_rows` rows of the Parquet file, with the columns of `schema` and
    cast to it. The mask is true for the rows whose number within the file (from 0) is in `positions`.
    """
    start = 0
    for batch in read_batches(path, batch_rows):
        here = np.isin(np.arange(start, start + len(batch)), positions)
        yield batch.select(schema.names).cast(schema), pa.array(here)
        start += len(batch)


def duplicate_positions(
    paths: list[str], scratch: Path, *, same: str, keep_order: str, memory_limit_mb: int
) -> dict[str, np.ndarray]:
    """File -> numbers (from 0) of the rows within it that repeat another row of this or another of the Parquet files;
    of each group of repeats all but one are listed. A file without repeats has an empty array.

    `same`: the names of columns, parted by commas; rows repeat each other if these are equal, and never if one is null.
    `keep_order`: SQL as after "order by"; the row of a group that sorts first is not listed, ties are decided by file
    name and row number. DuckDB works within the memory limit, with temporary files in `scratch`.
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
    """Questions joined with their answers: the batches that `nest(questions, answers, number of answers of each
    question)` makes of up to BATCH_ROWS questions, in order of (question_hash, question_id); the answers to a question
    by votes, most first and unknown last, then by number. In between the Rejecteds of `leave_out`.

    `paths`: Parquet files with rows of `schema` in any order. `kind`: what the column kind says in questions.
    `leave_out(rows, reason)` makes the Rejecteds of rows that are not used, each for one reason: "duplicate id" (for
    `same` and `keep_order` see `duplicate_positions`), else the first reason in `masks(rows)` whose mask is true, else
    `orphan_reason` if the row's question is missing. `complete` may change the sorted rows before they are joined.

    Memory is bounded: rows are split by hash into ranges, in files in `scratch` if they are many, then sorted range by
    range.
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
    """(questions, their answers, number of answers of each question) for up to BATCH_ROWS questions at a time. In
    `rows` each question stands before its answers, and a question comes first; `asks` is true for the rows that are
    questions.
    """
    starts = np.append(np.flatnonzero(asks), len(asks))
    for first in range(0, len(starts) - 1, BATCH_ROWS):
        cut = starts[first : first + BATCH_ROWS + 1]
        some, own = rows.slice(cut[0], cut[-1] - cut[0]), asks[cut[0] : cut[-1]]
        yield some.filter(pa.array(own)), some.filter(pa.array(~own)), np.diff(cut) - 1


def in_lists(columns: Mapping[str, pa.Array], counts: np.ndarray, type: pa.ListType) -> pa.ListArray:
    """An Arrow array of lists of structs: list i has the next `counts[i]` structs. A struct has the fields that `type`
    names; their values are in the columns of these names, a value for each struct of all lists.
    """
    fields = list(type.value_type)
    structs = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    return pa.ListArray.from_arrays(pa.array(np.append([0], np.cumsum(counts)), pa.int32()), structs, type=type)
