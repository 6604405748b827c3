"""Contracts: Arrow schemas of stages (this package) and pydantic models of model replies (replies.py).

Arrow is imported by the modules that need it: reading a reply does not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def column(name: str, type: pa.DataType, doc: str, *, null: bool = False) -> pa.Field:
    """A column whose meaning is written where it is declared; `null=True` where it may be absent."""
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

    `key` names the column that identifies a row; a later table that carries a column of this name
    says with it which row it was made from; `parents` says so where the names differ, as paths into
    this table (`answers.answer_id`). Parts are cut at the hash of `cut` (default: the key).
    `level` is that of zstd: 1 where long texts are written more than once, at twice the speed and a third more bytes;
    0, not packed at all, where the next stage reads them once and writes them again.
    """
    import pyarrow as pa

    metadata = {"name": name, "key": key, "cut": cut or key, "parents": json.dumps(parents or {}), "level": str(level)}
    return pa.schema(columns, metadata=metadata)
