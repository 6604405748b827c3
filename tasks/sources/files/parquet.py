"""Parquet files in batches: only the columns that are asked for are read, and only the row groups of a piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from longform.artifacts.rows import Shard
from longform.errors import SourceError
from tasks.sources.files.bombs import refuse_bomb
from tasks.sources.files.inputs import WHOLE

MAGIC = b"PAR1"
BUFFER_BYTES = 1 << 20
BATCH_BYTES = 16 << 20
ROWS_AT_ONCE, FEWEST_ROWS = 40, 8
USUAL_RATIO = 16


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def rows_of(piece: Shard) -> int:
    """The number of rows in the row groups of a piece, from the footer of its Parquet file. SourceError if the file is
    damaged.
    """
    from pyarrow import parquet

    with readable(piece), parquet.ParquetFile(piece.source.path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return sum(group.num_rows for group in groups if _is_in(piece, group))


def parquet_batches(piece: Shard, wanted: Callable[[str], bool], rows: int) -> Iterator[pa.RecordBatch]:
    """Record batches of about `rows` rows, fewer if these reach BATCH_BYTES, with the columns for whose paths (such as
    conversation.list.element.role) `wanted` is true.

    A piece that is a byte range has the row groups that start in it. SourceError if the file is damaged, has no such
    column, unpacks to far more than text does (`refuse_bomb`), or a text in it is no UTF-8. Of a row group, however
    large, only a page of each column is in memory.
    """
    from pyarrow import parquet

    path = piece.source.path
    with readable(piece), parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
        refuse_bomb(path, sum(chunk.total_uncompressed_size for chunk in chunks), Path(path).stat().st_size)
        names = [file.schema.column(index).path for index in range(len(file.schema))]
        columns = [name for name in names if wanted(name)]
        if not columns:
            raise SourceError(f"{path} has none of the columns that rows are made of: is it of this source?")
        if own := [number for number, group in enumerate(groups) if _is_in(piece, group)]:
            grown = (chunk.total_uncompressed_size / max(1, chunk.total_compressed_size) for chunk in chunks)
            at_once = FEWEST_ROWS if max(grown) > USUAL_RATIO else ROWS_AT_ONCE
            few = file.iter_batches(at_once, row_groups=own, columns=columns, use_threads=False)
            yield from _gathered(few, rows, path)


def _gathered(few: Iterable[pa.RecordBatch], rows: int, path: str) -> Iterator[pa.RecordBatch]:
    """The small batches `few`, joined until they have `rows` rows or more, or BATCH_BYTES bytes or more; the last may
    have fewer. ArrowInvalid if a batch is ill-formed; SourceError if the batches of the file at `path` have far more
    bytes than its size allows (`refuse_bomb`).

    A dictionary holds a long text once for any number of rows, and no figure of the file says how large these become:
    so few rows are decoded at once, and their bytes are counted.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = unpacked = 0
    packed = Path(path).stat().st_size
    for batch in few:
        batch.validate(full=True)
        held.append(batch)
        held_rows, held_bytes, unpacked = held_rows + len(batch), held_bytes + batch.nbytes, unpacked + batch.nbytes
        refuse_bomb(path, unpacked, packed)
        if held_rows >= rows or held_bytes >= BATCH_BYTES:
            yield pa.concat_batches(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.concat_batches(held)


@contextmanager
def readable(piece: Shard) -> Iterator[None]:
    """A context in which what Arrow raises for a damaged file, or for columns of another type than expected, becomes a
    SourceError on the piece's file.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise SourceError(
            f"{piece.source.path} is no whole Parquet file of this source ({why}): fetch it again."
        ) from error


def _is_in(piece: Shard, group: Any) -> bool:
    """Whether the row group starts in the piece's byte range; True if the piece is the whole file."""
    if (piece.start, piece.end) == WHOLE:
        return True
    column = group.column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    return bool(piece.start <= start < piece.end)
