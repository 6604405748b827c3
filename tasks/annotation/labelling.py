"""Labellings: what one annotator entered for a task or for one item of it. First as read from a file, then checked
against the form and the tasks of the build.

Every format is read into a `Labelling`; `check` returns it as `Checked` or raises Unfit. A single value that does not
fit is listed in `Checked.wrong`, and the other values are kept.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from longform.artifacts.rows import Rejected
from tasks.annotation.form import Form, Task
from tasks.annotation.values import (
    ILL_FORMED,
    Unfit,
    alone,
    annotator_name,
    as_shown,
    collecting_unfit,
    folded,
    is_answered,
    near_misses,
    read_value,
    seconds,
)

RAW_CHARS = 2_000
NOT_LABELLED = "not labelled"
OWN_WORK = "of the annotator's own work"
WHOLE = ""
_NUMBERED = re.compile(r"(.+?)_(\d{1,6})")

ITEMS = TypeAdapter(list[dict[str, Any]])
IDS = TypeAdapter(list[str])

Place = str | int
Cells = dict[tuple[Place, str], Any]


@dataclass(frozen=True, slots=True)
class Labelling:
    """What one annotator entered for a task, not yet checked. `source`: the format it was read from. `values`: (item,
    field name) -> value; `shown`: (item, text name) -> text. An item is given by its id, by its index in the task from
    0, or WHOLE for the task itself. `at`: milliseconds since 1970. `seconds`: time taken. `void`: why the labelling
    does not count, such as skipped; None if it does. `wrong`: an Unfit for each part of its record that is in neither,
    as it cannot be read.
    """

    source: str
    task: str
    annotator: Any
    values: Cells
    shown: Cells = field(default_factory=dict)
    at: int | None = None
    seconds: Any = None
    void: str | None = None
    wrong: tuple[Unfit, ...] = ()

    @property
    def key(self) -> str:
        """A name for reports: task/annotator; only the task if the annotator is blank, no number or text, or has an
        "@", as mail addresses do.
        """
        named = isinstance(self.annotator, int | str) and is_answered(self.annotator) and "@" not in str(self.annotator)
        return f"{self.task}/{self.annotator}" if named else self.task


@dataclass(frozen=True, slots=True)
class Checked:
    """A labelling of a known task, checked against form and build. `values`: (item id, or WHOLE for the task itself;
    field name) -> valid value, choices in the form's spelling; `as_written`: the choice as the annotator wrote it,
    only if it differs. `items`: ids of the items that the sheet shows or labels. `swapped`: the sheet shows the two
    sides in the opposite order of the task's. `seconds`: time taken, None if not given or invalid. `wrong`: an Unfit
    for each value that was left out as invalid. `raw`: the labelling's text in its file.
    """

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
        """A name for reports: task/annotator."""
        return f"{self.task.id}/{self.annotator}"

    def rejected(self, why: Unfit) -> Rejected:
        """The rejected row for one of the Unfit in `wrong`."""
        return Rejected(self.key, "defect", why.reason, why.detail, self.raw)


def noun(column: str) -> str:
    """An id column without its ending, for messages: answer_id -> answer."""
    return column.removesuffix("_id")


# ---------------------------------------------------------------- of records


def task_id(form: Form, record: Mapping[str, Any]) -> str:
    """The task id in a record; Unfit if it has none, or one that is no text."""
    found = record.get(form.key)
    if not isinstance(found, str) or not found:
        raise Unfit(f"no {form.key}")
    return found


def item_ids(form: Form, record: Mapping[str, Any]) -> list[str]:
    """The ids of the items that a record lists, in its order; [] if it lists none. Unfit if an id occurs twice,
    ValidationError if the list is ill-formed or an item has no id.
    """
    items, twice = listed_items(form, record)
    if twice:
        raise Unfit(f"{noun(form.item_key)} given twice")
    return [*items]


def listed_items(form: Form, record: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """(item id -> the item's own record, of those that a record lists, in its order; the ids that occur twice, whose
    items are left out). ValidationError if the list is ill-formed or an item has no id.
    """
    listed = ITEMS.validate_python((record.get(form.items) if form.items else None) or [])
    ids = Counter(IDS.validate_python([item.get(form.item_key) for item in listed]))
    once = {item[form.item_key]: item for item in listed if ids[item[form.item_key]] == 1}
    return once, [name for name, times in ids.items() if times > 1]


def answers(form: Form, pairs: Iterable[tuple[Any, Any]], item: str | None) -> tuple[Cells, tuple[Unfit, ...]]:
    """((item, field name) -> value, an Unfit for each that is left out), from the (control name, value) pairs of a
    tool's record; blank values are left out. `item`: the id of the item that the record is about, None: the task. A
    value of () means that none was found in the control.

    A control whose name ends in a number belongs to the item with that index. Controls that the form does not have, or
    that are asked about an item when none is known, are ignored. Unfit are a name that is nearly a field's, a field
    given twice (all its values), and a value of ().
    """
    given: defaultdict[tuple[Place, str], list[Any]] = defaultdict(list)
    names: dict[tuple[Place, str], Any] = {}
    asked = {each.name: each.of_item for each in form.fields}
    wrong: list[Unfit] = []
    for name, value in pairs:
        cell = _cell(asked, name, item)
        if cell is None:
            wrong += near_misses([name], (), [*asked], "the form")
        else:
            given[cell].append(value)
            names[cell] = name
    twice = [Unfit("a field given twice", names[cell]) for cell, of in given.items() if len(of) > 1]
    blank = [Unfit("ill-formed value", names[cell]) for cell, of in given.items() if of == [()]]
    values = {cell: of[0] for cell, of in given.items() if len(of) == 1 and of != [()] and is_answered(of[0])}
    return values, (*wrong, *twice, *blank)


def texts(form: Form, record: Mapping[str, Any], item: str | None) -> Cells:
    """(place, text name) -> text, for the form's texts in a tool's record; null ones are left out.

    Place: WHOLE for a text of the task; for a text of an item `item`, the id of the record's item. A name that the
    form lacks and that ends in _<number>, as support_2, is (2, "support"), 2 being the item's index. With `item` None
    other texts of items are left out.
    """
    shown = {each.name: each.of_item for each in form.shown}
    cells = ((_cell(shown, name, item), text) for name, text in record.items())
    return {cell: text for cell, text in cells if cell is not None and text is not None}


def _cell(of_item: Mapping[str, bool], name: Any, item: str | None) -> tuple[Place, str] | None:
    """(item, name) for the name of a control or text: (`item` or WHOLE, name), or (2, "support") for support_2.
    `of_item`: name in the form -> whether it belongs to items. None for a name that the form does not have, or that
    belongs to an item if neither `item` nor the name says which.
    """
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
    """The labelling checked against form and build. Left out and listed in its `wrong` are invalid values, those of a
    task or an item that do not go together, and all those of an item that the task does not have or that had another
    text. `known`: tasks of the build by id; `accounts`: account in a tool -> annotator id; `raw`: the labelling's text
    in its file.

    Unfit for one that is void or empty, of an unknown task or one without the items, without a valid annotator, or
    whose sheet shows other texts of the task than the build.
    """
    if labelling.void or not (labelling.values or labelling.wrong):
        raise Unfit(labelling.void or NOT_LABELLED, kind="filtered")
    task = known.get(labelling.task)
    if task is None:
        raise Unfit(f"unknown {noun(form.key)}")
    annotator = annotator_name(labelling.annotator, accounts)
    wrong = [*labelling.wrong]
    items = _items(form, task, labelling, wrong)
    if task.not_for is not None and annotator.casefold() == task.not_for.casefold():
        raise Unfit(OWN_WORK, annotator)
    swapped = _is_swapped(form, task, labelling.shown)
    fields = {each.name: each for each in form.fields}
    values, as_written = {}, {}
    for (place, name), value in labelling.values.items():
        if place not in items:
            continue
        cell = items[place], name
        if (ours := collecting_unfit(wrong, read_value, fields[name], value, items[place] or task.id)) is not None:
            values[cell] = ours
            if fields[name].offered and isinstance(ours, str) and ours != alone(value):
                as_written[cell] = alone(value)
    for cell in _side_by_side(form, task, values, wrong):
        del values[cell]
    for place in _unfit_places(form, task, values, wrong):
        values = {cell: value for cell, value in values.items() if cell[0] != place}
    time = collecting_unfit(wrong, seconds, labelling.seconds, task.id)
    found = frozenset(items.values()) - {WHOLE}
    return Checked(labelling, task, annotator, values, as_written, found, swapped, time, wrong, raw)


def _side_by_side(
    form: Form, task: Task, values: Mapping[tuple[str, str], Any], wrong: list[Unfit]
) -> set[tuple[str, str]]:
    """The cells of the fields that are answered beside a choice which they exclude (`not_beside`), and of that choice;
    an Unfit for each is appended to `wrong`.
    """
    found: set[tuple[str, str]] = set()
    excluding = {each.name: each.not_beside for each in form.fields if each.not_beside}
    for (place, name), value in values.items():
        other, choice = excluding.get(name, ("", ""))
        if other and is_answered(value) and values.get((place, other)) == choice:
            wrong.append(Unfit(f"{name} beside {other} {choice}", place or task.id))
            found |= {(place, name), (place, other)}
    return found


def _unfit_places(form: Form, task: Task, values: Mapping[tuple[str, str], Any], wrong: list[Unfit]) -> list[str]:
    """The places (item ids, WHOLE) whose values do not go together by the form; the reasons are appended to `wrong`."""
    places = []
    for place in dict.fromkeys(place for place, _ in values):
        if form.unfit and (reason := form.unfit({name: value for (of, name), value in values.items() if of == place})):
            wrong.append(Unfit(reason, place or task.id))
            places.append(place)
    return places


def _items(form: Form, task: Task, labelling: Labelling, wrong: list[Unfit]) -> dict[Place, str]:
    """Item as the labelling gives it (id, index or WHOLE) -> item id (WHOLE for the task itself), for each item that
    is shown or labelled. Those that the task does not have, or that had another text, are left out, and an Unfit for
    each is appended to `wrong`. Unfit for an item of a task without any.
    """
    texts = {item.id: item.texts for item in task.items}
    of: dict[Place, str] = {WHOLE: WHOLE, **dict(enumerate(texts)), **{name: name for name in texts}}
    found: dict[Place, str] = {}
    for place in dict.fromkeys(place for place, _ in (*labelling.values, *labelling.shown)):
        if place not in of:
            if not texts:
                raise Unfit(f"{noun(form.key)} not drawn, or without {form.items}", f"{place} of {task.id}")
            wrong.append(Unfit(f"unknown {noun(form.item_key)}", f"{place} of {task.id}"))
        elif changed := _changed(texts.get(of[place], {}), labelling.shown, place):
            wrong.append(Unfit(f"the {changed} had another text", of[place]))
        else:
            found[place] = of[place]
    return found


def _changed(ours: Mapping[str, str], shown: Cells, place: Place) -> str | None:
    """The name of the first text that a sheet shows at a place and that is not ours, white space aside; None if there
    is none.
    """
    return next(
        (
            name
            for (at, name), text in shown.items()
            if at == place and name in ours and isinstance(text, str) and folded(ours[name]) != folded(text)
        ),
        None,
    )


def _is_swapped(form: Form, task: Task, shown: Cells) -> bool:
    """Whether the sheet shows the two sides in the opposite order of the task's; False for a form without sides. Unfit
    if a shown text of the task is not that of the build, white space aside; only sides must be shown.
    """
    sides = form.sides()
    if changed := _changed({name: text for name, text in task.texts.items() if name not in sides}, shown, WHOLE):
        raise Unfit(f"the {changed} had another text", task.id)
    pair = [folded(str(shown.get((WHOLE, name)))) for name in sides]
    known_pair = [folded(task.texts[name]) for name in sides]
    if pair not in (known_pair, known_pair[::-1]):
        raise Unfit("texts that are not those of this build", task.id)
    return pair != known_pair


Found = Iterator[Labelling | Rejected]
Made = TypeVar("Made")


def or_rejected(key: str, raw: str, read: Callable[..., Made], *what: Any) -> Made | Rejected:
    """The result of `read(*what)`, or a Rejected (key `key`, text `raw`) if it raises Unfit or ValidationError."""
    try:
        return read(*what)
    except (Unfit, ValidationError) as error:
        return rejected_for(key, raw, error)


def rejected_for(key: str, raw: str, error: Unfit | ValidationError) -> Rejected:
    """The rejected row for a record or labelling that does not fit: with the reason of an Unfit, or for a
    ValidationError "ill-formed record", with the path in the record and what is expected there. For an ill-formed
    annotator, which may be a name, `raw` is left out.
    """
    if isinstance(error, Unfit):
        return Rejected(key, error.kind, error.reason, error.detail, None if error.reason == ILL_FORMED else raw)
    first = error.errors()[0]
    return Rejected(key, "defect", "ill-formed record", f"{'.'.join(map(str, first['loc']))}: {first['msg']}", raw)


def check_all(
    form: Form,
    found: Iterable[tuple[Labelling | Rejected, str]],
    known: Mapping[str, Task],
    accounts: Mapping[str, str],
) -> Iterator[Checked | Rejected]:
    """A Checked for each labelling with at least one valid value; before it, a Rejected for each of its invalid
    values, and in rows of CSV for each value of a task that contradicts an earlier row of the same annotator. A
    labelling without a valid value yields only these. A Rejected also for each labelling that does not fit; those in
    `found` are passed on.

    `found`: (labelling or Rejected, its text in the file). `accounts`: account in a tool -> annotator id; if there are
    any, labellings of other accounts are rejected.
    """
    said: dict[tuple[str, str, str], tuple[Any, int | None]] = {}
    for labelling, raw in found:
        if isinstance(labelling, Rejected):
            yield labelling
            continue
        fitting = or_rejected(labelling.key, raw, check, form, labelling, known, accounts, raw)
        if isinstance(fitting, Checked) and labelling.source == "csv" and form.items:
            fitting = _without_contradictions(fitting, said)
        yield from map(fitting.rejected, fitting.wrong) if isinstance(fitting, Checked) else ()
        if isinstance(fitting, Rejected) or fitting.values:
            yield fitting


def _without_contradictions(found: Checked, said: dict[tuple[str, str, str], tuple[Any, int | None]]) -> Checked:
    """A row of CSV without the values of its task that are others in an earlier row of the same annotator, unless both
    rows are dated and differ in that; an Unfit for each of these values is in `wrong`.

    `said`: (task, annotator, field) -> (value, date) of earlier rows; those of this row are added.
    """
    values, wrong = dict(found.values), [*found.wrong]
    for (place, name), value in found.values.items():
        if place == WHOLE:
            key, at = (found.task.id, found.annotator, name), found.labelling.at
            earlier, dated = said.setdefault(key, (value, at))
            if value != earlier and (at is None or dated is None or at == dated):
                wrong.append(Unfit("another value in an earlier row", f"{name} {as_shown(value)} of {found.task.id}"))
                del values[place, name]
    return replace(found, values=values, wrong=wrong)
