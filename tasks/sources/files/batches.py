"""Rows collected into Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

import pyarrow as pa

from longform.artifacts.rows import Rejected, bitmap, text_array
from longform.engine.stage import StageContext

__all__ = ["batch_of", "batched", "bitmap", "counted", "text_array"]

T = TypeVar("T")
Built = TypeVar("Built")


def batch_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows as one record batch; each row has its values in the order of the schema's columns. ValueError without
    rows, or for a row with too few or too many values.
    """
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(values, field.type) for values, field in columns], schema=schema)


def counted(context: StageContext, items: Iterable[pa.RecordBatch | Rejected]) -> Iterator[pa.RecordBatch | Rejected]:
    """The items, unchanged. Each is added to the stage's counter "read": a batch by its number of rows, a Rejected as
    one.
    """
    for item in items:
        context.count("read", item.num_rows if isinstance(item, pa.RecordBatch) else 1)
        yield item


def batched(
    items: Iterable[tuple[T, int] | Rejected],
    build: Callable[[list[T]], Built],
    *,
    rows: int,
    size: float = inf,
) -> Iterator[Built | Rejected]:
    """What `build` returns for each list of consecutive rows; nothing if there are no rows. A Rejected is yielded at
    once, unchanged, before the rows that were not yet built.

    Each item is (row, weight), or a Rejected. A list ends when it has `rows` rows, when its weights add up to `size` or
    more, or with the items.
    """
    held, weight = list[T](), 0
    for item in items:
        if isinstance(item, Rejected):
            yield item
            continue
        held.append(item[0])
        weight += item[1]
        if len(held) == rows or weight >= size:
            yield build(held)
            held, weight = [], 0
    if held:
        yield build(held)
