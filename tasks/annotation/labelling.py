"""What one annotator says of a task or of a part of it: as a file gives it, then checked against form and build.

Every format is read into a `Labelling`; `check` makes of it a `Checked` one, or says in an `Unfit` why it cannot be
taken. What of it does not fit is named and costs no other label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from longform.artifacts.rows import Rejected
from tasks.annotation.form import Form, Task
from tasks.annotation.values import (
    ILL_FORMED,
    Unfit,
    annotator_name,
    filled,
    folded,
    read_value,
    refuse_near_misses,
    seconds,
    taken,
)

RAW_CHARS = 2_000
NOT_LABELLED = "not labelled"
WHOLE = ""
_NUMBERED = re.compile(r"(.+?)_(\d{1,6})")

ITEMS = TypeAdapter(list[dict[str, Any]])
IDS = TypeAdapter(list[str])

Place = str | int
Cells = dict[tuple[Place, str], Any]


@dataclass(frozen=True, slots=True)
class Labelling:
    """`values` and `shown`: by item and field or text; an item is its id, its place in the sheet from 0, or WHOLE for
    the task. `void`: why it does not count. `at`: milliseconds since 1970. Values are not yet checked."""

    source: str
    task: str
    annotator: Any
    values: Cells
    shown: Cells = field(default_factory=dict)
    at: int | None = None
    seconds: Any = None
    void: str | None = None

    @property
    def key(self) -> str:
        named = isinstance(self.annotator, int | str) and filled(self.annotator) and "@" not in str(self.annotator)
        return f"{self.task}/{self.annotator}" if named else self.task


@dataclass(frozen=True, slots=True)
class Checked:
    """A labelling that fits. `values`: by item id (WHOLE: of the task) and field, choices in the form's spelling;
    `as_written`: the word that was written, where it differs. `items`: those that the sheet has. `swapped`: it shows
    the sides the other way round than the task. `wrong`: what of it is no label. `raw`: its text in the file."""

    labelling: Labelling
    task: Task
    annotator: str
    values: dict[tuple[str, str], Any]
    as_written: dict[tuple[str, str], str]
    items: frozenset[str]
    swapped: bool
    seconds: float | None
    wrong: list[Unfit]
    raw: str

    @property
    def key(self) -> str:
        return f"{self.task.id}/{self.annotator}"

    def rejected(self, why: Unfit) -> Rejected:
        return Rejected(self.key, "defect", why.reason, why.detail, self.raw)


def noun(column: str) -> str:
    """What an id column is of: answer_id -> answer."""
    return column.removesuffix("_id")


# ---------------------------------------------------------------- of records


def task_id(form: Form, record: Mapping[str, Any]) -> str:
    """The id of the task that a record is of."""
    found = record.get(form.key)
    if not isinstance(found, str) or not found:
        raise Unfit(f"no {form.key}")
    return found


def item_ids(form: Form, record: Mapping[str, Any]) -> list[str]:
    """The ids of the items that a record lists, in its order; none where it lists none."""
    listed = ITEMS.validate_python((record.get(form.items) if form.items else None) or [])
    found = IDS.validate_python([item.get(form.item_key) for item in listed])
    if len({*found}) < len(found):
        raise Unfit(f"{noun(form.item_key)} given twice")
    return found


def answers(form: Form, pairs: Iterable[tuple[Any, Any]], item: str | None) -> Cells:
    """The values, from (control, value) of a tool's record, which is of an item or of none; () is no value.

    A control that ends in a number is of the item at that place. Others that the form does not have are left alone, but
    for those that are called nearly as one that it has.
    """
    values: Cells = {}
    asked = {each.name: each.of_item for each in form.fields}
    for name, value in pairs:
        cell = _cell(asked, name, item)
        if cell is None:
            refuse_near_misses([name], (), [*asked], "the form")
        elif cell in values or value == ():
            raise Unfit("a field given twice" if cell in values else "ill-formed value", name)
        else:
            values[cell] = value
    return {cell: value for cell, value in values.items() if filled(value)}


def texts(form: Form, record: Mapping[str, Any], item: str | None) -> Cells:
    """The texts that a tool's record shows."""
    shown = {each.name: each.of_item for each in form.shown}
    cells = ((_cell(shown, name, item), text) for name, text in record.items())
    return {cell: text for cell, text in cells if cell is not None and text is not None}


def _cell(of_item: Mapping[str, bool], name: Any, item: str | None) -> tuple[Place, str] | None:
    """Where a name belongs; None for one that the form does not have, or that is of an item which nothing names."""
    if not isinstance(name, str):
        return None
    if name in of_item:
        place = item if of_item[name] else WHOLE
        return None if place is None else (place, name)
    numbered = _NUMBERED.fullmatch(name)
    return (int(numbered[2]), numbered[1]) if numbered and of_item.get(numbered[1]) else None


# ---------------------------------------------------------------- against the build


def check(
    form: Form, labelling: Labelling, known: Mapping[str, Task], accounts: Mapping[str, str], raw: str
) -> Checked:
    """The labelling as the form has it; Unfit for one that is of no known task, of nobody, or says nothing."""
    if labelling.void or not labelling.values:
        raise Unfit(labelling.void or NOT_LABELLED, kind="filtered")
    task = known.get(labelling.task)
    if task is None:
        raise Unfit(f"unknown {noun(form.key)}")
    annotator, items = annotator_name(labelling.annotator, accounts), _items(form, task, labelling)
    swapped = _compare(form, task, labelling.shown, items)
    wrong: list[Unfit] = []
    fields = {each.name: each for each in form.fields}
    values, as_written = {}, {}
    for (place, name), value in labelling.values.items():
        cell = items[place], name
        if (ours := taken(wrong, read_value, fields[name], value, items[place] or task.id)) is not None:
            values[cell] = ours
            if fields[name].offered and isinstance(ours, str) and ours != value:
                as_written[cell] = value
    time = taken(wrong, seconds, labelling.seconds, task.id)
    found = frozenset(items.values()) - {WHOLE}
    return Checked(labelling, task, annotator, values, as_written, found, swapped, time, wrong, raw)


def _items(form: Form, task: Task, labelling: Labelling) -> dict[Place, str]:
    """Place -> id of each item that is shown or labelled; Unfit for one that the task does not have."""
    ids = [item.id for item in task.items]
    of: dict[Place, str] = {WHOLE: WHOLE, **dict(enumerate(ids)), **{name: name for name in ids}}
    places = dict.fromkeys(place for place, _ in (*labelling.values, *labelling.shown))
    for place in places:
        if place not in of:
            reason = f"unknown {noun(form.item_key)}" if ids else f"{noun(form.key)} not drawn, or without {form.items}"
            raise Unfit(reason, f"{place} of {task.id}")
    return {place: of[place] for place in places}


def _compare(form: Form, task: Task, shown: Cells, items: Mapping[Place, str]) -> bool:
    """Whether the sides are the other way round; Unfit where a text that is shown is not that of the build."""
    sides = form.sides()
    ours = {item.id: item.texts for item in task.items} | {WHOLE: task.texts}
    for (place, name), text in shown.items():
        known = ours[items[place]].get(name)
        if name not in sides and known is not None and isinstance(text, str) and folded(known) != folded(text):
            raise Unfit(f"the {name} had another text", items[place] or task.id)
    pair = [folded(str(shown.get((WHOLE, name)))) for name in sides]
    known_pair = [folded(task.texts[name]) for name in sides]
    if pair not in (known_pair, known_pair[::-1]):
        raise Unfit("texts that are not those of this build", task.id)
    return pair != known_pair


Found = Iterator[Labelling | Rejected]
Made = TypeVar("Made")


def attempt(key: str, raw: str, read: Callable[..., Made], *what: Any) -> Made | Rejected:
    """What `read` makes of a record or a part of it, or a Rejected that says why it is none."""
    try:
        return read(*what)
    except (Unfit, ValidationError) as error:
        return refused(key, raw, error)


def refused(key: str, raw: str, error: Unfit | ValidationError) -> Rejected:
    """A record that is none of the form; of one in another shape, where and what is expected there."""
    if isinstance(error, Unfit):
        return Rejected(key, error.kind, error.reason, error.detail, None if error.reason == ILL_FORMED else raw)
    first = error.errors()[0]
    return Rejected(key, "defect", "ill-formed record", f"{'.'.join(map(str, first['loc']))}: {first['msg']}", raw)


def read_back(
    form: Form,
    found: Iterable[tuple[Labelling | Rejected, str]],
    known: Mapping[str, Task],
    accounts: Mapping[str, str],
) -> Iterator[Checked | Rejected]:
    """The labellings that say something, and a Rejected for whatever of a file is no label.

    `found`: each with its text in the file. `accounts`: account of a tool -> annotator; where there are any, what
    another account says is rejected.
    """
    for labelling, raw in found:
        if isinstance(labelling, Rejected):
            yield labelling
            continue
        fitting = attempt(labelling.key, raw, check, form, labelling, known, accounts, raw)
        yield from map(fitting.rejected, fitting.wrong) if isinstance(fitting, Checked) else ()
        if isinstance(fitting, Rejected) or fitting.values:
            yield fitting
