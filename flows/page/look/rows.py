"""What the address of a page of rows asks, and the addresses of its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from flows.page.look.tables import Column, Filter, Question, Table
from longform.errors import UsageError

MOST_FILTERS, MOST_CHARACTERS = 8, 500
SHOWN = 8
DETAILS = ("_id", "_ids", "_hash", "_response", "_prompt", "_url", "_urls")


def question_of(
    columns: Sequence[str],
    hows: Sequence[str],
    values: Sequence[str],
    *,
    search: str = "",
    sort: str = "",
    down: bool = False,
    number: int = 1,
    shown: Sequence[str] = (),
) -> Question:
    """The question of an address. Filters without a column or, unless they look for what is missing, without a value
    are left out. UsageError for more filters or longer values than anybody needs.
    """
    filters = [
        Filter(column, how, value)
        for column, how, value in zip(columns, hows, values, strict=False)
        if column and (value or how == "missing")
    ]
    if len(filters) > MOST_FILTERS or any(len(text) > MOST_CHARACTERS for text in [search, *values]):
        raise UsageError(f"Rows are filtered by at most {MOST_FILTERS} values of {MOST_CHARACTERS} characters.")
    return Question(tuple(filters), search, sort, down, number, tuple(dict.fromkeys(shown)))


def with_columns(table: Table, asked: Question) -> Question:
    """The question with the columns to show: those it names, else the key and the first few that tell most."""
    if asked.columns or not table.columns:
        return asked
    plain = [column for column in table.columns if column.kind != "other" and not f"_{column.name}".endswith(DETAILS)]
    telling = sorted(plain, key=lambda column: "_" in column.name)[:SHOWN]
    named = [column.name for column in table.columns if column.name == table.key or column in telling]
    first = [table.key] if table.key in named else []
    return replace(asked, columns=tuple(dict.fromkeys([*first, *named])))


def query_of(asked: Question, **changes: Any) -> str:
    """The question as the end of an address, with these fields changed; it begins with `?`."""
    now = replace(asked, **changes)
    pairs: list[tuple[str, str]] = []
    for each in now.filters:
        pairs += [("column", each.column), ("how", each.how), ("value", each.value)]
    pairs += [("q", now.search)] if now.search else []
    pairs += [("sort", now.sort)] if now.sort else []
    pairs += [("down", "1")] if now.down else []
    pairs += [("page", str(now.number))] if now.number != 1 else []
    pairs += [("show", name) for name in now.columns]
    return f"?{urlencode(pairs)}"


def without(asked: Question, filtered: Filter) -> Question:
    """The question without one of its filters."""
    return replace(asked, filters=tuple(each for each in asked.filters if each is not filtered), number=1)


def sorted_by(asked: Question, column: Column) -> str:
    """The address for the heading of a column: sorted by it or, if it is that already, the other way round."""
    again = asked.sort == column.name
    return query_of(asked, sort=column.name, down=again and not asked.down, number=1)
