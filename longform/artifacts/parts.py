"""Writing the rows of one unit of work as parts (Parquet files): checked against the schema, and divided by ranges of a
hash.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import groupby
from numbers import Integral
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import REJECTED, Rejected, Row, text_array
from longform.artifacts.store import Part, Store
from longform.errors import SchemaError
from longform.files import sha256_of, sync

BATCH_ROWS = 1_000
GROUP_ROWS = 20_000
GROUP_BYTES = 8 << 20


def key_hash(key: str) -> int:
    """The 64-bit hash (xxh3) of a key, by which rows are ordered and divided among parts."""
    return xxhash.xxh3_64_intdigest(key.encode())


def part_keys(group: str, bits: int) -> list[str]:
    """The keys of the 2**bits parts of a group, in order: `<group>/<bits>-<index>`, the index from 0 with five digits.
    The 2**bits parts divide the 64-bit hashes into equal ranges; the part with index i holds the rows with hashes in
    range i.
    """
    return [f"{group}/{bits}-{index:05d}" for index in range(1 << bits)]


def group_of(key: str) -> str:
    """The group (e.g. a site) of a row key or part key: the text before its first slash; without a slash, the whole
    key.
    """
    return key.split("/", 1)[0]


def _ranges(keys: list[str]) -> dict[str, tuple[int, int]]:
    """group -> (position of the group's first part in `keys`, number of bits by which a row's hash is shifted right to
    give the part's index within the group). `keys`: part keys `<group>/<bits>-<index>`, group by group.
    """
    ranges: dict[str, tuple[int, int]] = {}
    for position, key in enumerate(keys):
        group, part = key.split("/")
        ranges.setdefault(group, (position, 64 - int(part.split("-")[0])))
    return ranges


class Parts:
    """Writes the rows of one unit of work into the parts named by `keys`: `add` takes rows, `finish` commits the parts
    and returns them, `discard` deletes the unfinished ones.

    With one key all rows go to its part. With more keys, each part holds a range of the hashes of one group: values of
    the schema's `cut` column begin with `<group>/`, and rows must come group by group, in the order of that column's
    hash. With `split_by` every part is also divided into one part `<key>/<value>` for each value of that column;
    rejected rows go to the part `<key>`, which is also made, empty, for a key without any rows.
    With `max_rows_per_part` rows keep their order: a part ends after that many rows, and the next part is
    `<key>.00001`.
    """

    def __init__(
        self,
        store: Store,
        stage: str,
        schema: pa.Schema,
        keys: list[str],
        split_by: str | None,
        max_rows_per_part: int | None = None,
    ) -> None:
        self.store, self.stage, self.schema = store, stage, schema
        self.keys, self.split_by, self.max_rows_per_part = list(keys), split_by, max_rows_per_part
        self.rows = 0
        self.cut = schema.metadata[b"cut"].decode()
        self.check = row_check(schema)
        self.groups = _ranges(keys) if len(keys) > 1 else {}
        self.position = 0
        self.open: dict[str, PartWriter] = {}
        self.done: list[Part] = []
        self.pending: list[Row] = []
        self.counts: Counter[str] = Counter()

    def add(self, item: Row | pa.RecordBatch | Rejected) -> None:
        """Add one row, batch or rejected row. A rejected row goes to the part that is being written.

        SchemaError if a row or batch does not fit the schema, or comes out of order; an error of Arrow if a row has a
        value of another type, KeyError if its group has no part in `keys`. Rows are collected and written BATCH_ROWS
        at a time, so an error may come up only with a later row, or in `finish`.
        """
        if isinstance(item, Rejected):
            self._flush()
            self._open(None).reject(item)
        elif isinstance(item, pa.RecordBatch):
            self._flush()
            self._batch(item)
        else:
            self.check(item)
            self.pending.append(item)
            if len(self.pending) >= BATCH_ROWS:
                self._flush()

    def count(self, name: str, number: int) -> None:
        """Add `number` to the counter `name` of the part that is being written."""
        self.counts[name] += number

    def finish(self) -> list[Part]:
        """Write what is left, commit the parts to the store and return all of them in the order of their keys, those
        without rows included. Errors as in `add`.
        """
        self._flush()
        self._advance(len(self.keys) - 1)
        self._close()
        return self.done

    def discard(self) -> None:
        """Delete the files of the parts that are not committed yet."""
        for writer in self.open.values():
            writer.discard()

    def _flush(self) -> None:
        """Write the collected rows as one batch; does nothing if there are none."""
        rows, self.pending = self.pending, []
        if rows:
            self._batch(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def _batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch to their parts, and commit the parts before them. SchemaError if the batch does
        not fit the schema or is out of order.
        """
        check_batch(batch, self.schema)
        for position, piece in self._cut(batch):
            self._advance(position)
            self._write(piece)

    def _cut(self, batch: pa.RecordBatch) -> Iterable[tuple[int, pa.RecordBatch]]:
        """(position in `keys` of the part, slice of the batch) for each run of rows that belong to the same part, in
        the order of the rows.
        """
        if self.max_rows_per_part is not None:
            yield from self._cut_by_count(batch, self.max_rows_per_part)
            return
        if len(self.keys) == 1:
            yield 0, batch
            return
        start = 0
        for place, rows in groupby(map(self._part_position, batch.column(self.cut).to_pylist())):
            number = len(list(rows))
            yield place, batch.slice(start, number)
            start += number

    def _cut_by_count(self, batch: pa.RecordBatch, most: int) -> Iterable[tuple[int, pa.RecordBatch]]:
        """(position in `keys` of the part, slice of the batch), in the order of the rows, so that no part gets more
        than `most` rows. Counts the rows in `self.rows`; when a part is full, appends the key of the next one to
        `keys`.
        """
        while batch.num_rows:
            position, filled = divmod(self.rows, most)
            if position == len(self.keys):
                self.keys.append(f"{self.keys[0]}.{position:05d}")
            piece = batch.slice(0, most - filled)
            self.rows += piece.num_rows
            yield position, piece
            batch = batch.slice(piece.num_rows)

    def _part_position(self, key: str) -> int:
        """The position in `keys` of the part that a row belongs to; KeyError if the row's group has no part. `key`:
        the row's value of the `cut` column.
        """
        first, shift = self.groups[group_of(key)]
        return first + (key_hash(key) >> shift)

    def _advance(self, position: int) -> None:
        """Make the part at `position` in `keys` the current one, and commit all parts before it, also empty ones.
        SchemaError if the position is before the current one, as rows came out of order.
        """
        if position < self.position:
            raise SchemaError(f"{self.stage} yields rows out of the order of {self.cut}: sort them by its hash.")
        while self.position < position:
            self._close()
            self.position += 1

    def _write(self, batch: pa.RecordBatch) -> None:
        """Write a batch to the current part; with `split_by`, each of its rows to the division for the row's value."""
        if self.split_by is None:
            self._open(None).write(batch)
            return
        values = batch.column(self.split_by)
        for value in sorted(pc.unique(values).to_pylist()):
            self._open(value).write(batch.filter(pc.equal(values, value)))

    def _open(self, split: str | None) -> PartWriter:
        """The writer of the current part, or of its division `split` (a value of the `split_by` column); created if
        there is none.
        """
        key = self.keys[self.position] + (f"/{split}" if split is not None else "")
        if key not in self.open:
            self.open[key] = PartWriter(self.store, self.stage, key, self.schema)
        return self.open[key]

    def _close(self) -> None:
        """Commit the current part, or its divisions in the order of their values, and add them to `done`; an empty
        part if nothing was written. The counters go to the first of them and start again.
        """
        if not self.open:
            self._open(None)
        for key in sorted(self.open):
            self.done.append(self.open[key].finish(self.counts))
            self.counts = Counter()
        self.open = {}


class PartWriter:
    """Writes the files of one part (rows.parquet, rejected.parquet if any row is rejected, part.json) in a temporary
    folder. `write` and `reject` add rows, `finish` turns the folder into the part, `discard` deletes it.
    """

    def __init__(self, store: Store, stage: str, key: str, schema: pa.Schema) -> None:
        self.store, self.stage, self.key, self.schema = store, stage, key, schema
        self.folder = store.new_folder(stage)
        self.writer: pq.ParquetWriter | None = open_parquet(self.folder / "rows.parquet", schema)
        self.rejects: pq.ParquetWriter | None = None
        self.batches: list[pa.RecordBatch] = []
        self.waiting: list[Rejected] = []
        self.buffered = 0
        self.rows = 0
        self.reasons: Counter[tuple[str, str]] = Counter()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows; the rows that wait are written once they are GROUP_ROWS rows or GROUP_BYTES bytes."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.buffered += batch.get_total_buffer_size() if batch.num_rows > BATCH_ROWS else batch.nbytes
        if self.buffered >= GROUP_BYTES or sum(len(held) for held in self.batches) >= GROUP_ROWS:
            self._write_group()

    def reject(self, item: Rejected) -> None:
        """Add a rejected row and count its reason; rejected rows are written BATCH_ROWS at a time."""
        self.reasons[item.kind, item.reason] += 1
        self.waiting.append(item)
        if len(self.waiting) >= BATCH_ROWS:
            self._write_rejected()

    def finish(self, counts: Mapping[str, int]) -> Part:
        """Write what is left, commit the part to the store and return it, with its id (a hash of its description), row
        counts, checksums and `counts` (counter -> sum).
        """
        self._write_group()
        self._write_rejected()
        self._close()
        rows, rejected = self.folder / "rows.parquet", self.folder / "rejected.parquet"
        for path in self.folder.iterdir():
            sync(path)
        part = Part(
            stage=self.stage,
            key=self.key,
            id="",
            rows=self.rows,
            bytes=rows.stat().st_size,
            sha256=sha256_of(rows),
            rejected=tuple((kind, reason, n) for (kind, reason), n in sorted(self.reasons.items())),
            rejected_sha256=sha256_of(rejected) if rejected.exists() else None,
            counts=tuple(sorted(counts.items())),
        )
        named = replace(part, id=fingerprint(asdict(part)))
        self.store.commit(self.folder, named)
        return named

    def discard(self) -> None:
        """Close the files and delete the temporary folder; errors of the operating system are ignored."""
        with suppress(OSError):
            self._close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        """Close the Parquet files; does nothing when called again."""
        for writer in (self.writer, self.rejects):
            if writer is not None:
                writer.close()
        self.writer = self.rejects = None

    def _write_group(self) -> None:
        """Write the batches that wait to rows.parquet, in row groups of at most GROUP_ROWS rows."""
        if self.batches and self.writer:
            self.writer.write_table(pa.Table.from_batches(self.batches, schema=self.schema), row_group_size=GROUP_ROWS)
        self.batches, self.buffered = [], 0

    def _write_rejected(self) -> None:
        """Write the rejected rows that wait to rejected.parquet, which is created with the first of them."""
        if self.waiting:
            self.rejects = self.rejects or open_parquet(self.folder / "rejected.parquet", REJECTED)
            columns = [text_array([getattr(item, name) for item in self.waiting]) for name in REJECTED.names]
            self.rejects.write_table(pa.Table.from_arrays(columns, schema=REJECTED))
        self.waiting = []


def open_parquet(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer of a new Parquet file at `path`, compressed with zstd at the level in the schema's metadata (`level`; 3
    if it names none; 0: uncompressed).

    Columns are dictionary-encoded, except those that by their name (`text`, `content`, `raw` and a few more) hold long
    texts, where that only costs. All metadata of the schema and its columns, such as documentation, is left out, as
    it must not change the bytes of the file.
    """
    plain = {"text", "content", "raw", "element", "rejected", "old_contents", "new_contents", "message"}
    leaves = [leaf for field in schema for leaf in _leaves(field.type, field.name)]
    coded = [leaf for leaf in leaves if leaf.rsplit(".", 1)[-1] not in plain]
    level = int((schema.metadata or {}).get(b"level", b"3"))
    return pq.ParquetWriter(
        path,
        pa.schema(map(_bare, schema)),
        use_dictionary=coded,
        compression="zstd" if level else "none",
        compression_level=level or None,
    )


def _bare(field: pa.Field) -> pa.Field:
    """The field with its name, type and nullability only: no documentation or other metadata, also not of fields
    inside it.
    """
    return pa.field(field.name, _bare_type(field.type), nullable=field.nullable)


def _bare_type(type: pa.DataType) -> pa.DataType:
    """The type without documentation and metadata of the fields inside its lists and structs."""
    if pa.types.is_list(type):
        return pa.list_(_bare(type.value_field))
    return pa.struct([_bare(field) for field in type]) if pa.types.is_struct(type) else type


def _leaves(type: pa.DataType, path: str) -> list[str]:
    """The Parquet paths of all leaf columns of a column with this type, e.g. `answers.list.element.text`; `path`: that
    of the column itself.
    """
    if pa.types.is_list(type):
        return _leaves(type.value_type, f"{path}.list.element")
    if pa.types.is_struct(type):
        return [leaf for field in type for leaf in _leaves(field.type, f"{path}.{field.name}")]
    return [path]


def check_batch(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raise SchemaError unless a batch has exactly the schema's columns and types, in this order, and neither a null
    where none is allowed nor NaN or infinity, also inside lists and structs.
    """
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        raise SchemaError(f"A batch has the columns {batch.schema.names}, its schema says {schema.names}.")
    for field, column in zip(schema, batch.columns, strict=True):
        _check_values(field.name, field, column)


def _check_values(name: str, field: pa.Field, values: pa.Array) -> None:
    """Raise SchemaError if the values of a column, or values inside its lists and structs, hold null where `field`
    allows none, NaN or infinity. `name`: of the column, for the message.
    """
    if not field.nullable and values.null_count:
        raise SchemaError(f"Column {name} holds null, but its schema allows none.")
    if pa.types.is_floating(field.type) and not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise SchemaError(f"Column {name} holds NaN or an infinite number.")
    if pa.types.is_list(field.type):
        _check_values(name, field.type.value_field, values.flatten())
    if pa.types.is_struct(field.type):
        for inner, column in zip(field.type, values.drop_null().flatten(), strict=True):
            _check_values(f"{name}.{inner.name}", inner, column)


def row_check(schema: pa.Schema) -> Callable[[Row], None]:
    """A function that checks one row, and raises SchemaError unless it has exactly the schema's columns and only whole
    numbers (an int; not 1.0) or null in integer columns, also inside lists and structs. Other values are not checked.

    Arrow itself silently drops unknown keys and truncates fractions.
    """
    return _fields_check(schema, "", "A row and its schema differ in the columns")


def _fields_check(fields: Iterable[pa.Field], path: str, problem: str) -> Callable[[Any], None]:
    """A function that raises SchemaError if a mapping does not have exactly these fields, or if a value in it fails
    `_value_check`; it accepts None. `path` is put before field names in messages; `problem` begins the message about
    missing and unknown fields.
    """
    checks = {field.name: _value_check(field.type, f"{path}{field.name}") for field in fields}
    needed = [(name, check) for name, check in checks.items() if check]

    def check_fields(value: Any) -> None:
        if value is None:
            return
        if value.keys() != checks.keys():
            raise SchemaError(f"{problem} {', '.join(sorted(value.keys() ^ checks.keys()))}.")
        for name, check in needed:
            check(value[name])

    return check_fields


def _value_check(type: pa.DataType, name: str) -> Callable[[Any], None] | None:
    """A function that raises SchemaError if a value has something else than an int in place of an integer, or a struct
    with wrong fields, at any depth. None if the type holds neither integers nor structs. `name`: of the column, for
    the message.
    """
    if pa.types.is_integer(type):
        return lambda value: _no_fraction(value, name)
    if pa.types.is_list(type):
        inner = _value_check(type.value_type, name)
        return _each(inner) if inner else None
    differ = f"{name} and its schema differ in"
    return _fields_check(type, f"{name}.", differ) if pa.types.is_struct(type) else None


def _each(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """A function that calls `check` with each item of a list; a null list has none."""

    def check_values(values: Any) -> None:
        for value in values or ():
            check(value)

    return check_values


def _no_fraction(value: Any, name: str) -> None:
    """Raise SchemaError unless a value is None or of an integer type; 1.0 is not. `name`: of the column, for the
    message.
    """
    if value is not None and not isinstance(value, Integral):
        raise SchemaError(f"Column {name} takes whole numbers, not {value}.")
