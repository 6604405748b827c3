"""Contracts: Arrow schemas of stages (this package) and pydantic models of model replies (replies.py).

Arrow is imported only by modules that declare schemas, so that reading a reply does not load it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def column(name: str, type: pa.DataType, doc: str, *, null: bool = False) -> pa.Field:
    """A field of a schema with its documentation; `null=True` if values may be missing."""
    import pyarrow as pa

    return pa.field(name, type, nullable=null, metadata={"doc": doc})


def table(
    name: str,
    *columns: pa.Field,
    key: str,
    cut: str | None = None,
    parents: dict[str, list[str]] | None = None,
    level: int = 3,
) -> pa.Schema:
    """The schema of a stage's rows.

    `key` names the column that identifies a row. A later table that has a column of this name refers with it to the
    row it was derived from; `parents` maps a key of an earlier table to the columns of this table that hold it, where
    the names differ, as paths (`answers.answer_id`). Parts are cut at the hash of the column `cut` (default: the key).
    `level` is zstd's: 1 for long texts that later stages write again (twice the speed, a third more bytes), 0 (no
    compression) for tables that the next stage reads once and writes again.
    """
    import pyarrow as pa

    metadata = {"name": name, "key": key, "cut": cut or key, "parents": json.dumps(parents or {}), "level": str(level)}
    return pa.schema(columns, metadata=metadata)
