"""The start of a Parquet file's footer: its version and schema, as bytes that are equal for equal schemas.

A footer is a struct of Thrift's compact protocol: field 1 is the version, field 2 the schema, and what follows (number
of rows, row groups) differs from file to file. Format: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from longform.errors import StoreError

TAIL = 16 << 10
_BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


def schema_bytes(path: str, known: Iterable[bytes] = ()) -> bytes | None:
    """The start of the footer of a Parquet file, up to the end of its schema; None if there is no such file. If it is
    among the `known` ones it is found without being read. StoreError if the file is no Parquet file.
    """
    try:
        footer = _footer(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    for start in known:
        if footer.startswith(start):
            return start
    try:
        return footer[: _end_of_schema(footer)]
    except IndexError:
        raise StoreError(f"{path} is no Parquet file, as its footer is damaged: run longform verify.") from None


def _footer(path: str) -> bytes:
    """The footer of a Parquet file. StoreError if the file has none."""
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        tail = file.read()
        length = int.from_bytes(tail[-8:-4], "little")
        if tail[-4:] != b"PAR1" or length + 8 > size:
            raise StoreError(f"{path} is no Parquet file, as it does not end as one: run longform verify.")
        if length + 8 > len(tail):
            file.seek(size - length - 8)
            tail = file.read()
        return tail[-8 - length : -8]


def _end_of_schema(footer: bytes) -> int:
    """The position after the schema, which is field 2 of the footer. IndexError if the footer is cut short."""
    at, number = 0, 0
    while number < 2:
        number, at = number + (footer[at] >> 4), _after(footer, at + 1, footer[at] & 15)
    footer[at]  # something follows
    return at


def _after(data: bytes, at: int, kind: int, held: bool = False) -> int:
    """The position after the value of this kind that starts at `at`. `held`: it stands in a list, where also a truth
    value takes a byte.
    """
    if kind in _INTEGERS:
        return _number(data, at)[1]
    if kind == _BINARY:
        length, at = _number(data, at)
        return at + length
    if kind in (_LIST, _SET):
        return _after_list(data, at)
    if kind == _STRUCT:
        while data[at]:  # 0 ends a struct; a field's number is written after its kind if it is not near the last
            at = _after(data, at + 1 if data[at] >> 4 else _number(data, at + 1)[1], data[at] & 15)
        return at + 1
    return at + {_BYTE: 1, _DOUBLE: 8}.get(kind, int(held))


def _after_list(data: bytes, at: int) -> int:
    """The position after the list that starts at `at`."""
    size, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if size == 15:
        size, at = _number(data, at)
    for _ in range(size):
        at = _after(data, at, kind, held=True)
    return at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number without sign that starts at `at`, seven bits a byte, and the position after it."""
    number, shift = 0, 0
    while True:
        number, shift, at = number | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return number, at
