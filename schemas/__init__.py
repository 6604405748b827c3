"""Schemas: Arrow schemas of the rows of stages (this package) and pydantic models of model replies
(schemas/replies.py).

Arrow is imported only by modules that declare Arrow schemas, so that reading a model reply does not load it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def column(name: str, type: pa.DataType, doc: str, *, null: bool = False) -> pa.Field:
    """A field of a schema with its documentation in the metadata (`doc`); `null=True` if values may be missing."""
    import pyarrow as pa

    return pa.field(name, type, nullable=null, metadata={"doc": doc})


def table(
    name: str,
    *columns: pa.Field,
    key: str,
    cut: str | None = None,
    parents: dict[str, list[str]] | None = None,
    level: int = 3,
    link: str | None = None,
) -> pa.Schema:
    """The Arrow schema of a stage's rows; all options are kept in its metadata.

    `key` names the column that identifies a row. A column of this name in a later table refers to the row it was
    derived from; where the names differ, `parents` maps the key of an earlier table to the columns of this table that
    hold it, as paths (`answers.answer_id`). Rows are divided into parts by the hash of the column `cut` (default: the
    key). `level` is zstd's: 1 for long texts that later stages write again (twice the speed, a third more bytes), 0 (no
    compression) for tables that the next stage reads once and writes again. `link`: the address of a row, with `{0}`,
    `{1}`, ... for the parts of its key between slashes, where it is in no column.
    """
    import pyarrow as pa

    metadata = {"name": name, "key": key, "cut": cut or key, "parents": json.dumps(parents or {}), "level": str(level)}
    return pa.schema(columns, metadata={**metadata, **({"link": link} if link else {})})
