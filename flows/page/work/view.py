"""What the templates show of a task: its texts, and its fields with what they hold and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flows.page.work.entries import control, prefix
from tasks.annotation.form import Field, Form, Shown, Task
from tasks.annotation.labelling import noun
from tasks.annotation.sheets import title

MOST_AS_CHOICES = 11


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field as a control: its HTML name, the options it offers (() for one to write in), the texts it holds."""

    field: Field
    name: str
    options: tuple[str, ...]
    held: list[str]
    error: str

    @property
    def many(self) -> bool:
        """Whether several options may be chosen."""
        return self.field.kind == "choices"


@dataclass(frozen=True, slots=True)
class Part:
    """A task as a whole, or one of its items: a heading, texts (heading, text), the two texts to compare, fields, and
    what does not go together.
    """

    heading: str
    texts: list[tuple[str, str]]
    sides: list[tuple[str, str]]
    fields: list[ShownField]
    error: str


def whole(form: Form, task: Task, held: Mapping[str, list[str]], errors: Mapping[str, str]) -> Part:
    """The task as a whole, its texts without those of the items."""
    sides = form.sides()
    texts = _texts([each for each in form.texts(of_item=False) if each.name not in sides], task.texts)
    compared = [(f"Text {name[-1].upper()}", task.texts.get(name, "")) for name in sides]
    fields = _fields(form, None, held, errors)
    return Part(title(noun(form.key)), texts, compared, fields, errors.get(prefix(None), ""))


def items(form: Form, task: Task, held: Mapping[str, list[str]], errors: Mapping[str, str]) -> list[Part]:
    """The items of the task, in its order."""
    return [
        Part(
            f"{title(noun(form.item_key))} {place + 1} of {len(task.items)}",
            _texts(form.texts(of_item=True), item.texts),
            [],
            _fields(form, place, held, errors),
            errors.get(prefix(place), ""),
        )
        for place, item in enumerate(task.items)
    ]


def excerpt(task: Task, length: int = 90) -> str:
    """The beginning of a task's most telling text, its longest, on one line."""
    text = " ".join(max([*task.texts.values(), ""], key=lambda text: len(text or "")).split()) or task.id
    return text if len(text) <= length else f"{text[: length - 1]}…"


def duration(seconds: float) -> str:
    """Seconds in words: 50 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _texts(shown: list[Shown] | tuple[Shown, ...], texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(title(each.name), texts.get(each.name) or "") for each in shown if texts.get(each.name)]


def _fields(
    form: Form, place: int | None, held: Mapping[str, list[str]], errors: Mapping[str, str]
) -> list[ShownField]:
    asked = form.asked(of_item=place is not None)
    names = [(each, control(place, each.name)) for each in asked]
    return [ShownField(each, name, _options(each), held.get(name, []), errors.get(name, "")) for each, name in names]


def _options(field: Field) -> tuple[str, ...]:
    """What a field offers: its choices, or the numbers of a short scale."""
    if field.scale and field.scale[1] - field.scale[0] < MOST_AS_CHOICES:
        return tuple(str(number) for number in range(field.scale[0], field.scale[1] + 1))
    return field.offered
