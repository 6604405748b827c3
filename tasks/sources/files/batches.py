"""Rows as record batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from longform.artifacts.arrays import bitmap, text_array

__all__ = ["batch_of", "bitmap", "text_array"]


def batch_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, whose values stand in the order of the schema's columns, as a batch."""
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(values, field.type) for values, field in columns], schema=schema)
