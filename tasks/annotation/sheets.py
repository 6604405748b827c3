"""Sheets to fill in: as JSON lines, CSV, CSV safe for spreadsheets, and the records for Label Studio and Argilla 2.

A line of JSON is a task; null is a value that nobody has filled in yet:

    {"question_id": "…", "annotator_id": "e7", "answer_id": "a_4f…", "question": "…", "answer": "…",
     "claims": [{"claim_id": "a_4f…#0", "claim": "…", "evidence": "…", "support": null, "revised_claim": null}],
     "usefulness": null, "annotation_time": null, "labelled_at": null, "ratings": {"usefulness": ["Useful", …]}}

When a sheet is read back, `annotation_time` is in seconds, `labelled_at` in ISO 8601; `ratings` lists the choices and
is not read. A row of CSV is a task, or an item of it. The tools get one record for each item, and another for each task
with what is asked about the task as a whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from longform.artifacts.rows import Row
from tasks.annotation.form import Field, Form, Item, Shown, Task
from tasks.annotation.labelling import noun
from tasks.sources.files.csv_cells import harmless

MARK = "\ufeff"  # without it spreadsheets take UTF-8 for something else
PLAIN = "plain_csv"  # a column that says that no cell was changed for spreadsheets
TIMES = ("annotation_time", "labelled_at")


@dataclass(frozen=True, slots=True)
class Part:
    """The texts and fields of one project of a tool, whose records are either tasks or items. `folder`: where its
    files go; "" for a form without items, which has one part.
    """

    form: Form
    of_item: bool
    folder: str
    shown: tuple[Shown, ...]
    fields: tuple[Field, ...]


def parts(form: Form) -> list[Part]:
    """One Part for the fields asked about the task as a whole and one for those about items, which also shows the
    task's texts; a part without fields is left out.
    """
    whole = form.texts(of_item=False)
    shown = ((False, form.key, whole), (True, form.item_key, whole + form.texts(of_item=True)))
    return [
        Part(form, of_item, f"{noun(key)}s" if form.items else "", texts, fields)
        for of_item, key, texts in shown
        if (fields := form.asked(of_item=of_item))
    ]


def records(part: Part, tasks: Sequence[Task]) -> Iterator[Row]:
    """The records of a part for a tool, one for each task or, in a part of items, for each item: {"id", "ids": id
    column -> value that is not null, "texts": name -> text, "" if it has none}.
    """
    form = part.form
    for task in tasks:
        ids = {form.key: task.id, **task.context, form.annotator: task.annotator}
        for item in task.items if part.of_item else (Item(task.id, {}),):
            of = {**ids, form.item_key: item.id} if part.of_item else ids
            texts = {**task.texts, **item.texts}
            yield {
                "id": item.id,
                "ids": {name: value for name, value in of.items() if value is not None},
                "texts": {each.name: texts.get(each.name) or "" for each in part.shown},
            }


# ---------------------------------------------------------------- our own


def sheet(form: Form, task: Task) -> Row:
    """The JSON object of a task, with null for every value to fill in."""
    items = {form.items: [_item(form, item) for item in task.items]} if form.items else {}
    return {
        **task.context,
        form.annotator: task.annotator,
        form.key: task.id,
        **{each.name: task.texts.get(each.name) for each in form.texts(of_item=False)},
        **items,
        **dict.fromkeys(each.name for each in form.asked(of_item=False)),
        **dict.fromkeys(TIMES),
        "ratings": {each.name: list(each.offered) for each in form.fields if each.offered},
    }


def _item(form: Form, item: Item) -> Row:
    """The JSON object of an item, with null for every value to fill in."""
    texts = {each.name: item.texts.get(each.name) for each in form.texts(of_item=True)}
    return {form.item_key: item.id, **texts, **dict.fromkeys(each.name for each in form.asked(of_item=True))}


def jsonl(form: Form, tasks: Sequence[Task]) -> bytes:
    """The sheets of these tasks as JSON lines."""
    return b"".join(orjson.dumps(sheet(form, task)) + b"\n" for task in tasks)


def columns(form: Form) -> list[str]:
    """The column names of the CSV file, in order."""
    ids = [form.key, *form.context, *([form.item_key] if form.items else [])]
    return [*ids, *(each.name for each in form.shown), form.annotator, *(each.name for each in form.fields)]


def rows(form: Form, tasks: Sequence[Task]) -> Iterator[Row]:
    """The rows of the CSV file, as column -> text: one for each item of a task, one for a task without items. Columns
    that have nothing to show, such as those to fill in, are missing or null.
    """
    for task in tasks:
        whole = {form.key: task.id, **task.context, form.annotator: task.annotator, **task.texts}
        yield from ({**whole, form.item_key: item.id, **item.texts} for item in task.items or (Item("", {}),))


def csv_file(form: Form, tasks: Sequence[Task], *, spreadsheet: bool) -> bytes:
    """A CSV file of these tasks, in UTF-8. `spreadsheet`: with a byte order mark, and with an apostrophe before each
    cell that a spreadsheet would run as a formula; else cells are unchanged, and a column `plain_csv` says so.
    """
    names = columns(form) + ([] if spreadsheet else [PLAIN])
    written = io.StringIO(newline="")
    write, cell = csv.writer(written).writerow, harmless if spreadsheet else str
    write(names)
    for row in rows(form, tasks):
        write([cell({PLAIN: "yes", **row}.get(name) or "") for name in names])
    return ((MARK if spreadsheet else "") + written.getvalue()).encode()


def title(name: str) -> str:
    """The name of a text or field as a heading: revised_claim -> Revised claim"""
    return name.replace("_", " ").capitalize()


def as_json(document: Any) -> bytes:
    """The document as indented JSON with a line break at its end."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
