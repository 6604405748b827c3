"""The tables of a version's report, as its tables.json holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from longform.artifacts.versions import Version
from longform.errors import StoreError
from longform.files import read_json
from tasks.publishing.card import figure

Cell = str | int | float | bool | None
MOST_ROWS = 300


class Stored(BaseModel):
    """A table in tables.json."""

    model_config = ConfigDict(extra="ignore")

    title: str
    note: str = ""
    rows: list[dict[str, Cell]] = []


@dataclass(frozen=True, slots=True)
class Heading:
    """A column: its name; whether it holds numbers; `role`: `paper` or `difference` for columns with the paper's value
    and the difference from it, else "".
    """

    name: str
    numeric: bool
    role: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A table as a page shows it: at most MOST_ROWS rows of texts; `left`: how many more there are."""

    title: str
    note: str
    columns: list[Heading]
    rows: list[list[str]]
    left: int

    @property
    def compared(self) -> bool:
        """Whether the paper's values stand beside ours."""
        return any(column.role == "paper" for column in self.columns)


def tables_of(version: Version) -> list[Shown]:
    """The tables of a version's report; [] if it has none. StoreError if tables.json is damaged."""
    path = version.folder / "tables.json"
    try:
        stored = TypeAdapter(list[Stored]).validate_python(read_json(path) or [])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise StoreError(
            f"{path} does not hold tables ({first['msg']} at {'.'.join(map(str, first['loc']))[:80]}): put it back "
            "from a copy, or withdraw the version and build again."
        ) from None
    return [_shown(table) for table in stored]


def _shown(table: Stored) -> Shown:
    names = list(dict.fromkeys(name for row in table.rows for name in row))
    columns = [Heading(name, _numeric(table.rows, name), _role(name, names)) for name in names]
    rows = [[_text(row.get(name)) for name in names] for row in table.rows[:MOST_ROWS]]
    return Shown(table.title, table.note, columns, rows, max(0, len(table.rows) - MOST_ROWS))


def _numeric(rows: list[dict[str, Any]], name: str) -> bool:
    cells = [cell for row in rows if (cell := row.get(name)) is not None]
    return bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def _role(name: str, names: list[str]) -> str:
    """`paper` or `difference` if the name is that of another column with this word after it."""
    before, _, last = name.rpartition(" ")
    return last if last in ("paper", "difference") and before in names else ""


def _text(cell: Cell) -> str:
    return str(cell).lower() if isinstance(cell, bool) else figure(cell)
