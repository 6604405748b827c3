"""What a form's fields are called in HTML, and the values that a posted form gives, checked as those of sheets are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.page.work.access import Fields
from tasks.annotation.form import Field, Form, Task
from tasks.annotation.labelling import WHOLE, Cells, Labelling, check
from tasks.annotation.values import Unfit, is_answered, joined, read_value

SOURCE = "page"
KIND = {
    "choice": "Choose one of the answers.",
    "choices": "Choose among the answers.",
    "pairwise": "Choose A, B or neither.",
    "text": "Write plain text.",
    "texts": "Write plain text, divided by lines of three dashes.",
    "number": "Give a number.",
}


@dataclass(frozen=True, slots=True)
class Read:
    """A posted form: `values` as in `labelling.Checked`, and messages: of a control by its HTML name, of a part of the
    form by its place (the prefix of its controls), of the whole by "". `forged`: a value that no control offers.
    """

    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    forged: list[str] = field(default_factory=list)


def control(place: int | None, name: str) -> str:
    """The HTML name of a field: of the item at this index, or of the task as a whole (None)."""
    return f"{prefix(place)}{name}"


def prefix(place: int | None) -> str:
    """What the HTML names of an item's fields, or of those of the task as a whole (None), begin with."""
    return "task." if place is None else f"{place}."


def places(task: Task) -> dict[int | None, str]:
    """None -> WHOLE, and the index of each item -> its id."""
    return {None: WHOLE, **dict(enumerate(item.id for item in task.items))}


def given(form: Form, task: Task, entries: Mapping[tuple[str, str], Any]) -> dict[str, list[str]]:
    """HTML name -> the texts that its control holds, for submitted values."""
    of = {item: place for place, item in places(task).items()}
    return {
        control(of[item], name): [joined(value)] if _is_texts(form, name) else [str(each) for each in _listed(value)]
        for (item, name), value in entries.items()
        if item in of
    }


def _is_texts(form: Form, name: str) -> bool:
    return any(each.name == name and each.kind == "texts" for each in form.fields)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def by_control(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """HTML name -> its values, in the order of the form."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def own_pairs(form: Form, task: Task, fields: Fields) -> list[tuple[str, str]]:
    """The (HTML name, value) pairs of a posted form that are fields of the annotation form."""
    names = {control(place, each.name) for place in places(task) for each in form.asked(of_item=place is not None)}
    return [(name, value) for name, value in fields.multi_items() if name in names]


def read(form: Form, task: Task, annotator: str, pairs: Iterable[tuple[str, str]]) -> Read:
    """The values of a posted form, and a message for each that does not fit. `pairs`: as `own_pairs` gives them."""
    found, posted = Read(), by_control(pairs)
    for place, item in places(task).items():
        for each in form.asked(of_item=place is not None):
            name = control(place, each.name)
            value, message = _value(each, posted.get(name, []), item or task.id)
            if message:
                found.errors[name] = message
                found.forged.extend([name] if each.offered and any(posted.get(name, [])) else [])
            elif value is not None:
                found.values[item, each.name] = value
        _check_together(form, place, item, found)
    if not found.errors:
        _check_as_sheet(form, task, annotator, found)
    return found


def _value(asked: Field, posted: list[str], of: str) -> tuple[Any, str]:
    """(the value, None if there is none; a message, "" if it fits)."""
    texts = [text for text in posted if is_answered(text)]
    if not texts:
        return None, "This needs an answer." if asked.required else ""
    try:
        value = read_value(asked, texts if asked.kind == "choices" or len(texts) > 1 else texts[0], of)
    except Unfit:
        return None, _message(asked)
    return (value if is_answered(value) else None), ""


def _message(asked: Field) -> str:
    if asked.kind == "number" and asked.scale:
        return f"Give a whole number from {asked.scale[0]} to {asked.scale[1]}."
    return f"Choose {' or '.join(asked.choices)}." if asked.kind == "pairwise" and asked.choices else KIND[asked.kind]


def _check_together(form: Form, place: int | None, item: str, found: Read) -> None:
    """Add a message for the values of one place if the form says that they do not go together."""
    own = {name: value for (of, name), value in found.values.items() if of == item}
    if form.unfit and (own or item == WHOLE) and form.asked(of_item=place is not None):
        reason = form.unfit(own)
        named = any(name.startswith(prefix(place)) for name in found.errors)
        if reason and not named:
            found.errors[prefix(place)] = f"These answers do not go together: {reason}."


def _check_as_sheet(form: Form, task: Task, annotator: str, found: Read) -> None:
    """Add a message for the whole if a sheet with these values would not be taken back, or for having none."""
    shown: Cells = {(WHOLE, name): task.texts[name] for name in form.sides()}
    values: Cells = {}
    for (item, name), value in found.values.items():
        values[item, name] = value
    try:
        wrong = check(form, Labelling(SOURCE, task.id, annotator, values, shown), {task.id: task}, {}, "").wrong
    except Unfit as error:
        wrong = [error]
    if wrong:
        found.errors[""] = "Nothing is filled in." if not found.values else f"This does not fit: {wrong[0].reason}."
