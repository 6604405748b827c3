"""Label Studio: writes a labelling configuration and tasks to import, and reads the JSON export.

    {"id": 7, "data": {"answer_id": "a_4f…", "claim_id": "a_4f…#0", "claim": "…", "evidence": "…"},
     "annotations": [{"completed_by": 3, "was_cancelled": false, "lead_time": 61.2, "updated_at": "2026-11-21T…Z",
       "result": [
         {"from_name": "support", "to_name": "claim", "type": "choices", "value": {"choices": ["Partial"]}},
         {"from_name": "revised_claim", …, "type": "textarea", "value": {"text": ["At 11 degrees."]}}]}]}

A form with items has two projects: one asks about the task as a whole, one has a Label Studio task for each item. Older
configurations used the tag Repeater, which label_studio_sdk does not expand; their exports are still read: `data` has a
list of items, and a control's name ends in the index of its item, from 0. `completed_by` is a number or an object with
an `id`. No text of a task is written into the configuration. The tag Text has valueType="text", since Label Studio
would else fetch a text that is a URL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from pydantic import BaseModel

from longform.artifacts.rows import Rejected, Row
from tasks.annotation.form import Field, Form
from tasks.annotation.labelling import (
    NOT_LABELLED,
    Cells,
    Found,
    Labelling,
    Place,
    answers,
    item_ids,
    or_rejected,
    task_id,
    texts,
)
from tasks.annotation.sheets import Part, as_json, title
from tasks.annotation.values import Unfit, collecting_unfit, moment

SOURCE = "label-studio"
_VALUES = ("choices", "text", "number", "rating")


def files(part: Part, records: Iterable[Row]) -> dict[str, bytes]:
    """The files of a project for Label Studio: name -> content, of the tasks to import and the labelling
    configuration. `records`: those of `sheets.records` for this part.
    """
    tasks = [{"data": {**record["ids"], **record["texts"]}} for record in records]
    return {"tasks.json": as_json(tasks), "config.xml": _configuration(part).encode()}


def _configuration(part: Part) -> str:
    """The labelling configuration as XML."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Style").text = ".htx-text { white-space: pre-wrap; }"
    for shown in part.shown:
        ElementTree.SubElement(view, "Header", value=title(shown.name))
        ElementTree.SubElement(
            view, "Text", name=shown.name, value=f"${shown.name}", valueType="text", selectionEnabled="false"
        )
    to = next((shown.name for shown in part.shown if shown.of_item), part.shown[-1].name)
    for field in part.fields:
        ElementTree.SubElement(view, "Header", value=f"{field.question} {field.guidance}".strip(), size="6")
        _control(view, field, to)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def _control(view: ElementTree.Element, field: Field, to: str) -> None:
    """Append the control of a field to `view`, with a name that is the field's; `to` is the name of the text it refers
    to.
    """
    named = {"name": field.name, "toName": to, "required": str(field.required).lower()}
    if field.offered:
        choice = "multiple" if field.kind == "choices" else "single"
        choices = ElementTree.SubElement(view, "Choices", named, choice=choice, showInline="true")
        for value in field.offered:
            ElementTree.SubElement(choices, "Choice", value=value)
    elif field.kind == "number":
        bounds = dict(zip(("min", "max"), map(str, field.scale), strict=True)) if field.scale else {}
        ElementTree.SubElement(view, "Number", {**named, **bounds}, step="1" if field.scale else "any")
    else:
        once = {"maxSubmissions": "1"} if field.kind == "text" else {}
        ElementTree.SubElement(view, "TextArea", {**named, "rows": "4", "editable": "true", **once})


# ---------------------------------------------------------------- read back


class Result(BaseModel):
    """The value of one control (`from_name`) in an annotation. Relations between regions have no name or value."""

    from_name: Any = None
    value: dict[str, Any] = {}


class Annotation(BaseModel):
    """All that one annotator entered for a task."""

    result: list[Result]
    completed_by: Any = None
    was_cancelled: bool | None = False
    lead_time: Any = None
    updated_at: Any = None
    created_at: Any = None


class Exported(BaseModel):
    """A task of the JSON export with its annotations."""

    data: dict[str, Any]
    annotations: list[Any] = []


def read_task(form: Form, record: Row, raw: str) -> Found:
    """One Labelling for each annotation of an exported task, or a Rejected if the annotation is ill-formed; one
    Rejected ("not labelled") if there is no annotation. `raw`: the task's text in its file.

    Unfit for a task without a task id of ours or with an item listed twice, ValidationError for an ill-formed one.
    """
    exported = Exported.model_validate(record)
    task = task_id(form, exported.data)
    items = item_ids(form, exported.data)
    for annotation in exported.annotations:
        yield or_rejected(task, raw, _read, form, task, items, exported.data, annotation)
    if not exported.annotations:
        yield Rejected(task, "filtered", NOT_LABELLED)


def _read(form: Form, task: str, items: list[str], data: Row, annotation: Any) -> Labelling:
    """The labelling of one annotation; void if its annotator skipped the task. `items`: the ids of the items that
    `data` lists, as only our older configurations do, else []. ValidationError for an ill-formed annotation.
    """
    given = Annotation.model_validate(annotation)
    who = given.completed_by
    item = data.get(form.item_key) if form.item_key else None
    wrong: list[Unfit] = []
    values, unread = answers(form, ((each.from_name, _value(each)) for each in given.result), item)
    shown = texts(form, data, item) | _texts_of_listed_items(form, items, data)
    return Labelling(
        SOURCE,
        task,
        who.get("id") if isinstance(who, dict) else who,
        {(_at(items, place), name): value for (place, name), value in values.items()},
        shown,
        collecting_unfit(wrong, moment, "updated_at", given.updated_at or given.created_at),
        given.lead_time,
        "skipped by its annotator" if given.was_cancelled else None,
        (*unread, *wrong),
    )


def _texts_of_listed_items(form: Form, items: list[str], data: Row) -> Cells:
    """(item id, text name) -> text, for a task that lists its items in one field, as our older configurations did; {}
    for any other. `items`: the ids of the listed items.
    """
    listed = zip(items, data[form.items] if items else [], strict=True)
    return {(name, each.name): item.get(each.name) for name, item in listed for each in form.texts(of_item=True)}


def _at(items: list[str], place: Place) -> Place:
    """The item id for an index into `items`, the index as text if it is out of range; an id as it is."""
    if isinstance(place, str):
        return place
    return items[place] if place < len(items) else str(place)


def _value(result: Result) -> Any:
    """The value that the annotator gave in a control; () if there is none."""
    return next((result.value[name] for name in _VALUES if name in result.value), ())
