"""The types that stages read and yield (sources, shards, rows, rejected rows), and helpers that read Parquet files and
make Arrow arrays.
"""

from __future__ import annotations

import glob
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

    from longform.artifacts.store import Part, Store

Row = dict[str, Any]

REJECTED = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=True),
        pa.field("raw", pa.string(), nullable=True),
    ]
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An input row that became no output row; a row of rejected.parquet.

    `key`: the row's key. `kind`: `filtered`, left out by a rule of the method, or `defect`, broken, with its text in
    `raw`. `reason`: a short fixed phrase, by which reports count; figures of a single row go to `detail`.
    """

    key: str
    kind: Literal["filtered", "defect"]
    reason: str
    detail: str | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A source file. Its identity is the SHA-256 of its bytes and the `facts`, (name, value), that the user states of
    it, never its path.

    `group`: the group, e.g. a site, that its rows belong to. `pieces`: the byte ranges (start, end) into which the
    file is divided, one shard each.
    """

    group: str
    path: str
    sha256: str
    facts: tuple[tuple[str, str | None], ...]
    pieces: tuple[tuple[int, int], ...]

    def identity(self) -> dict[str, Any]:
        """What identifies the source in a recipe, as a JSON value: group, SHA-256, facts and number of byte ranges,
        not the path.
        """
        return {
            "group": self.group,
            "sha256": self.sha256,
            "facts": dict(self.facts),
            "pieces": len(self.pieces),
        }

    @property
    def shards(self) -> list[Shard]:
        """One shard for each of the file's byte ranges, in order."""
        return [Shard(self, index) for index in range(len(self.pieces))]


@dataclass(frozen=True, slots=True)
class Shard:
    """What one unit of work of a source stage reads: one byte range of a source file (the whole file if it is not
    divided). `index`: that of the byte range in `source.pieces`.
    """

    source: Source
    index: int

    @property
    def key(self) -> str:
        """The key of the part that a stage makes from this shard: `<group>/<8 hex digits of the source's
        SHA-256>-<index>`.
        """
        return f"{self.source.group}/{self.source.sha256[:8]}-{self.index:05d}"

    @property
    def start(self) -> int:
        """The position of the shard's first byte in the file."""
        return self.source.pieces[self.index][0]

    @property
    def end(self) -> int:
        """The position after the shard's last byte in the file."""
        return self.source.pieces[self.index][1]


def read_parquet(paths: Iterable[str | Path]) -> str:
    """The DuckDB table expression `read_parquet([...])` for these Parquet files, with quotes and glob characters in
    their names escaped.
    """
    quoted = ", ".join("'" + glob.escape(str(path)).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{quoted}])"


def read_batches(path: str | Path, size: int, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in record batches of at most `size` rows, with all columns or only `columns`; of
    these, names that the file lacks are ignored. Reads one row group at a time; a batch never crosses row groups.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:  # such buffers are kept to the end of the file
        for number in range(file.num_row_groups):
            yield from file.read_row_group(number, columns=columns, use_threads=False).to_batches(max_chunksize=size)


class Rows:
    """The rows of a stage, or of some of its parts. Holds no rows, only where their files are; every iteration reads
    them, as dicts.

    The rows of a running build may not be finished yet: reading them, or asking for `parts`, then waits. `parts` is
    None in a plan, for rows that are not built; such Rows read as empty. `rows_read` counts the rows that were read so
    far. `fingerprint`: of the stage's recipe.
    """

    def __init__(
        self, store: Store, schema: pa.Schema, stage: str, fingerprint: str, parts: list[Part] | None = None
    ) -> None:
        self.store, self.schema, self.stage, self.fingerprint = store, schema, stage, fingerprint
        self._parts, self._making = parts, None
        self.rows_read = 0

    _making: Callable[[], list[Part]] | None

    def set_parts_source(self, make_parts: Callable[[], list[Part]]) -> None:
        """Set the function that returns the parts. It is called when the parts are first needed and may wait; if it
        raises an error, it is called again the next time.
        """
        self._making = make_parts

    @property
    def parts(self) -> list[Part] | None:
        """The parts that hold the rows, in order. None if they are not built. In a running build this waits until the
        stage is made, and raises its error if it fails.
        """
        making = self._making
        if making is not None:
            self._parts, self._making = making(), None
        return self._parts

    def of(self, parts: list[Part] | None) -> Rows:
        """The rows of only these parts of the same stage, as a new Rows; its `rows_read` starts at 0."""
        return Rows(self.store, self.schema, self.stage, self.fingerprint, parts)

    @property
    def key(self) -> str:
        """The name of the column that identifies a row."""
        return str(self.schema.metadata[b"key"].decode())

    @property
    def paths(self) -> list[str]:
        """The Parquet files of the parts, in order; empty if they are not built."""
        return [str(self.store.rows_path(part)) for part in self.parts or ()]

    @property
    def count(self) -> int:
        """The number of rows in all parts; 0 if they are not built."""
        return sum(part.rows for part in self.parts or ())

    def batches(self, columns: list[str] | None = None, size: int = 1_000) -> Iterator[pa.RecordBatch]:
        """The rows in record batches of at most `size` rows, with all columns or only `columns`; a batch never crosses
        row groups. Each batch is added to `rows_read` when the next one is asked for.
        """
        for path in self.paths:
            for batch in read_batches(path, size, columns):
                yield batch
                self.rows_read += batch.num_rows

    def table(self, columns: list[str] | None = None) -> pa.Table:
        """All rows as one Arrow table in memory, with all columns or only `columns`, cast to the stage's schema. Meant
        for single parts, and for columns that are known to be small.
        """
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches([batch.cast(schema) for batch in self.batches(columns)], schema=schema)

    def to_pandas(self, columns: list[str]) -> pd.DataFrame:
        """These columns of all rows as a DataFrame in memory; strings have pandas' own type `str`.

        Without rows each column is one empty chunk, as pandas 3.1 cannot join text columns that have no chunk.
        """
        table = self.table(columns)
        frame: pd.DataFrame = (table if table.num_rows else table.schema.empty_table()).to_pandas()
        return frame

    def as_dicts(self, *columns: str) -> Iterator[Row]:
        """The rows as dicts of these columns; no other column is read. Without arguments, all columns. Of a nested
        column single fields can be read by their Parquet path, e.g. `answers.list.element.text`.
        """
        for batch in self.batches(list(columns) or None):
            yield from batch.to_pylist()

    def __iter__(self) -> Iterator[Row]:
        """The rows as dicts of all columns, read from the files in each iteration."""
        yield from self.as_dicts()


PerGroup = Annotated[Rows, "all rows of one group (for community question answering, a site), seen whole"]
AllRows = Annotated[Rows, "all rows of the stage, seen whole"]


def distinct(rows: Iterable[Row], key: str, reason: str) -> Iterator[Row | Rejected]:
    """The first row of each value of the column `key`; for each further one a Rejected with this value and reason."""
    seen = set[Any]()
    for row in rows:
        yield Rejected(row[key], "filtered", reason) if row[key] in seen else row
        seen.add(row[key])


def grouped(rows: Iterable[Row], column: str) -> defaultdict[Any, list[Row]]:
    """value of the column -> the rows with this value, in their order. A value that no row has gives an empty list
    (defaultdict).
    """
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found


def text_array(values: Sequence[str | None]) -> pa.Array:
    """An Arrow string array of the values, None as null. OverflowError if they have 2**31 bytes or more in UTF-8,
    UnicodeEncodeError for a lone surrogate.

    Made without `pa.array`, which imports pandas (a third of a second for each process).
    """
    valid = None
    if None in values:
        if values.count(None) == len(values):
            return pa.nulls(len(values), pa.string())
        valid = bitmap(values)
        values = [value or "" for value in values]
    texts: Sequence[Any] = values
    if not all(map(str.isascii, texts)):
        texts = [text.encode() for text in texts]
    content = b"".join(texts) if texts and isinstance(texts[0], bytes) else "".join(texts).encode()
    if len(content) >= 2**31:
        raise OverflowError("a batch of 2 GB and more: make it smaller")
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(content), valid)


def bitmap(values: Sequence[Any]) -> pa.Buffer:
    """Arrow's validity bitmap of the values: a set bit for every value that is not None."""
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
