"""Records whose fields have several spellings: which column each field is of, and what no column holds whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from longform.artifacts.rows import Row

Fields = Mapping[str, tuple[Callable[[Any], Any], tuple[str, ...]]]  # column -> how it is read, spellings
EMPTY: tuple[Any, ...] = (None, "", [], {})


def as_text(value: Any) -> str | None:
    """A text without white space around it; None for what has no words."""
    return (value.strip() or None) if isinstance(value, str) else None


def as_name(value: Any) -> str | None:
    """A text or a whole number as a text; None for others."""
    return as_text(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None


def as_number(value: Any) -> float | None:
    """A number; None for others."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_list(value: Any) -> list[Any] | None:
    """A list, or the values of an object; None for others and where there are none."""
    return (list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None) or None


def first_text(record: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these fields of a record that is a text with words, stripped; None if there is none."""
    found = (record.get(name) for name in names)
    return next((text.strip() for text in found if isinstance(text, str) and text.strip()), None)


def read_fields(
    record: Row, fields: Fields, apart: Iterable[str] = (), is_whole: Callable[[str, Any], bool] = lambda *_: True
) -> tuple[Row, Row]:
    """(column -> what the first of its fields that can be read says, None without one; the fields that no column holds
    whole). `apart`: fields that belong to none of the columns, though they have a name of theirs; `is_whole`: (column,
    value) -> whether reading loses nothing.
    """
    found, held = dict.fromkeys(fields), {*apart}
    for column, (read, names) in fields.items():
        name = next((name for name in names if name not in held and read(record.get(name)) is not None), None)
        if name is not None:
            found[column] = read(record[name])
            held |= {name} if is_whole(column, record[name]) else set()
    known = {name for _, names in fields.values() for name in names} | {*apart}
    rest = {
        name: value for name, value in record.items() if name not in held and not (name in known and value in EMPTY)
    }
    return found, rest


def is_filled_text(value: object) -> TypeGuard[str]:
    """Whether the value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def first_fault(faults: Mapping[str, bool]) -> str | None:
    """The first reason that holds, None if none does. `faults`: reason -> whether it holds."""
    return next((reason for reason, holds in faults.items() if holds), None)
