"""Where a row can be looked up: its id, and its address or that of the row it was made from.

A row has an address where a column of its table is documented as a permalink, or where its table has a `link` that is
filled in with the parts of its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Row, Rows

PERMALINK = "permalink"
LONGEST_ADDRESS = 300


def id_of(item: Any, inputs: Iterable[Rows]) -> str | None:
    """The id of the row that a request was made for, by the item that its stage knows it by: the id itself, a row, or
    a tuple that begins with one of these. None where it is none of them.
    """
    first = item[0] if isinstance(item, tuple) and item else item
    if isinstance(first, Mapping):
        first = next((first[rows.key] for rows in inputs if rows.key in first), None)
    return first if isinstance(first, str) else None


def addresses(ids: Iterable[str], inputs: Sequence[Rows]) -> dict[str, str]:
    """id -> the address of the row of one of the inputs that has this id, else of a row of another input that it names
    as its parent. Rows without one are left out.
    """
    wanted, found = set(ids), dict[str, str]()
    for rows in inputs if wanted else ():
        others = [other for other in inputs if other.key != rows.key]
        parents: dict[str, list[str]] = {}
        for row in _rows_with(rows, wanted, [other.key for other in others]):
            if address := _own_address(rows.schema, row):
                found[row[rows.key]] = address
            else:
                parents[row[rows.key]] = [row[other.key] for other in others if row.get(other.key)]
        of_parents = addresses(chain.from_iterable(parents.values()), others)
        for key, candidates in parents.items():
            known = [of_parents[parent] for parent in candidates if parent in of_parents]
            found.update({key: known[0]} if known else {})
    return found


def _rows_with(rows: Rows, ids: set[str], parents: Iterable[str]) -> Iterator[Row]:
    """The rows with these ids, with the columns of their ids, of addresses and of their `parents`."""
    columns = {rows.key, _permalink(rows.schema) or rows.key, *parents} & set(rows.schema.names)
    wanted, left = pa.array(sorted(ids), pa.string()), len(ids)
    for batch in rows.of(rows.parts).batches(sorted(columns)):
        hits = batch.filter(pc.is_in(batch.column(rows.key), value_set=wanted)).to_pylist()
        yield from hits
        left -= len(hits)
        if left <= 0:
            return


def _permalink(schema: pa.Schema) -> str | None:
    """The name of the column with the permalink of a row."""
    docs = ((field.name, (field.metadata or {}).get(b"doc", b"").decode()) for field in schema)
    return next((name for name, doc in docs if doc.startswith(PERMALINK)), None)


def _own_address(schema: pa.Schema, row: Row) -> str | None:
    """The address of a row, from its own columns; None where they hold none that can be shown."""
    link, name = (schema.metadata or {}).get(b"link", b"").decode(), _permalink(schema)
    parts = str(row[schema.metadata[b"key"].decode()]).split("/")
    address = row.get(name) if name else link.format(*parts) if len(parts) == link.count("{") > 0 else None
    if not isinstance(address, str) or len(address) > LONGEST_ADDRESS or " " in address or not address.isprintable():
        return None
    return address if address.startswith(("https://", "http://")) else None
