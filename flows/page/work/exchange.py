"""Annotations of a round as filled-in sheets and tools' exports, as the readers of tasks/annotation take them back."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import and_, insert, select

from flows.page.work.assignment import Entries, as_json, from_json
from flows.page.work.database import Database, now
from flows.page.work.rounds import OF_TASK, Round
from flows.page.work.tables import ASSIGNMENTS, TASKS
from longform.artifacts.rows import Row
from tasks.annotation import labels
from tasks.annotation.files import Format, labellings
from tasks.annotation.form import Field, Form, Task
from tasks.annotation.labelling import WHOLE, Checked, check_all
from tasks.annotation.sheets import MARK, PLAIN, TIMES, Part, columns, parts, sheet
from tasks.annotation.sheets import as_json as indented
from tasks.annotation.values import joined
from tasks.sources.files.csv_cells import harmless

BATCH = 500


class Annotation:
    """What one annotator submitted for a task: `entries` as in `assignment.Entries`, `seconds` spent, `at` in
    milliseconds since 1970.
    """

    __slots__ = ("annotator", "at", "entries", "seconds", "task")

    def __init__(self, task: Task, annotator: str, entries: Entries, seconds: float, at: int) -> None:
        self.task, self.annotator, self.entries, self.seconds, self.at = task, annotator, entries, seconds, at

    @property
    def date(self) -> str:
        """When it was submitted, in ISO 8601."""
        return datetime.fromtimestamp(self.at / 1_000, UTC).isoformat(timespec="milliseconds")

    def values(self, item: str) -> dict[str, Any]:
        """Field name -> value, of an item or of the task as a whole (WHOLE)."""
        return {name: value for (of, name), value in self.entries.items() if of == item}


async def submitted(database: Database, round_id: str) -> list[Annotation]:
    """The submitted annotations of a round, by task and then by annotator."""
    own = ASSIGNMENTS.c
    query = (
        select(TASKS.c.task, own.annotator_id, own.entries, own.seconds, own.submitted_at)
        .join(TASKS, and_(TASKS.c.round_id == own.round_id, TASKS.c.position == own.position))
        .where(own.round_id == round_id, own.entries.is_not(None))
        .order_by(own.position, own.annotator_id)
    )
    async with database.reading() as connection:
        rows = (await connection.execute(query)).all()
    return [
        Annotation(OF_TASK.validate_json(task), who, from_json(text), time, at) for task, who, text, time, at in rows
    ]


# ---------------------------------------------------------------- out


def exported(form: Form, found: Sequence[Annotation], format: Format) -> bytes:
    """One file of these annotations: filled-in sheets (`jsonl`, `csv`, `plain-csv`), or what Label Studio or Argilla
    export, which `tasks.annotation.files.read_file` reads. CSV and Argilla have no place for the time spent.
    """
    if format == "jsonl":
        return b"".join(orjson.dumps(filled(form, each)) + b"\n" for each in found)
    if format in ("csv", "plain-csv"):
        return _csv(form, found, spreadsheet=format == "csv")
    record = _label_studio if format == "label-studio" else _argilla
    return indented([record(part, each, item) for part in parts(form) for each in found for item in _said(part, each)])


def filled(form: Form, of: Annotation) -> Row:
    """The JSON object of a filled-in sheet."""
    found = sheet(form, of.task)
    for item in found[form.items] if form.items else ():
        item.update(of.values(item[form.item_key]))
    times = dict(zip(TIMES, (round(of.seconds, 1), of.date), strict=True))
    return {**found, form.annotator: of.annotator, **of.values(WHOLE), **times}


def _csv(form: Form, found: Sequence[Annotation], *, spreadsheet: bool) -> bytes:
    """A row for each item of each annotation, or for the annotation of a task without items."""
    names = [*columns(form), TIMES[1], *([] if spreadsheet else [PLAIN])]
    written = io.StringIO(newline="")
    write, cell = csv.writer(written).writerow, harmless if spreadsheet else str
    write(names)
    for each in found:
        for row in _cells(form, each):
            write([cell(_text(row.get(name))) for name in names])
    return ((MARK if spreadsheet else "") + written.getvalue()).encode()


def _cells(form: Form, of: Annotation) -> Iterator[Row]:
    who = {form.key: of.task.id, form.annotator: of.annotator, TIMES[1]: of.date, PLAIN: "yes"}
    whole = {**of.task.context, **of.task.texts, **who}
    if not form.items:
        yield {**whole, **of.values(WHOLE)}
    for number, item in enumerate(of.task.items):
        said = of.values(WHOLE) if number == 0 else {}
        yield {**whole, **item.texts, form.item_key: item.id, **said, **of.values(item.id)}


def _text(value: Any) -> str:
    return joined(value) if isinstance(value, list) else "" if value is None else str(value)


def _said(part: Part, of: Annotation) -> list[str]:
    """The places of a task, item ids or WHOLE, that a part of a tool's project is about and of which anything was said;
    the time spent is shared among all of both parts.
    """
    said = dict.fromkeys(item for item, _ in of.entries)
    return [item for item in said if (item != WHOLE) == part.of_item]


def _ids_and_texts(part: Part, of: Annotation, item: str) -> tuple[Row, Row]:
    form, texts = part.form, next((each.texts for each in of.task.items if each.id == item), {})
    ids = {form.key: of.task.id, **of.task.context, **({form.item_key: item} if part.of_item else {})}
    return {name: value for name, value in ids.items() if value is not None}, {**of.task.texts, **texts}


def _label_studio(part: Part, of: Annotation, item: str) -> Row:
    ids, texts = _ids_and_texts(part, of, item)
    asked = {each.name: each for each in part.fields}
    to = next((shown.name for shown in part.shown if shown.of_item), part.shown[-1].name)
    results = [
        {"from_name": name, "to_name": to, **_control(asked[name], value)} for name, value in of.values(item).items()
    ]
    share = of.seconds / len({place for place, _ in of.entries})
    annotation = {"completed_by": of.annotator, "was_cancelled": False, "lead_time": share, "updated_at": of.date}
    return {"data": {**ids, **texts}, "annotations": [{**annotation, "result": results}]}


def _control(field: Field, value: Any) -> Row:
    """The type and the value of a Label Studio control."""
    if field.kind == "number":
        return {"type": "number", "value": {"number": value}}
    kind, name = ("choices", "choices") if field.offered else ("textarea", "text")
    return {"type": kind, "value": {name: value if isinstance(value, list) else [value]}}


def _argilla(part: Part, of: Annotation, item: str) -> Row:
    ids, texts = _ids_and_texts(part, of, item)
    said: Row = {}
    for name, value in of.values(item).items():
        response = joined(value) if isinstance(value, list) and not _offers(part, name) else value
        said |= {f"{name}.responses": [response], f"{name}.responses.users": [of.annotator]}
        said[f"{name}.responses.status"] = ["submitted"]
    return {"id": item or of.task.id, "status": "completed", **ids, **texts, **said}


def _offers(part: Part, name: str) -> bool:
    return any(each.name == name and each.offered for each in part.fields)


# ---------------------------------------------------------------- checked as sheets are


def checked(form: Form, found: Iterable[Annotation]) -> list[Checked]:
    """The annotations as a build would take them from sheets."""
    kept = list(found)
    records = ((filled(form, each), each.task.id, "") for each in kept)
    known = {each.task.id: each.task for each in kept}
    return [each for each in check_all(form, labellings(form, records), known, {}) if isinstance(each, Checked)]


# ---------------------------------------------------------------- in


async def take_in(database: Database, of: Round, form: Form, found: Sequence[Checked]) -> tuple[int, int]:
    """(how many annotations were added, how many were there already) of checked sheets: each annotator's of a task
    once, whether they came from a file or the page. They take up places of their tasks while there are any.
    """
    rows = list(_rows(form, found))
    added = 0
    for start in range(0, len(rows), BATCH):
        async with database.writing() as connection:
            for row in rows[start : start + BATCH]:
                added += await _add(connection, of, row)
    return added, len(rows) - added


def _rows(form: Form, found: Sequence[Checked]) -> Iterator[Row]:
    """A row of ASSIGNMENTS without its round and place, for each task and annotator; values are those of the sides as
    the round shows them.
    """
    seconds: dict[tuple[str, str], float] = {}
    for each in found:
        key = each.task.id, each.annotator
        seconds[key] = seconds.get(key, 0.0) + (each.seconds or 0.0)
    of: dict[tuple[str, str], list[Row]] = {}
    for row in labels.table(form, found).to_dict("records"):
        of.setdefault((row["task_id"], row["annotator_id"]), []).append({str(name): row[name] for name in row})
    many = {each.name for each in form.fields if each.kind in ("texts", "choices")}
    for (task, annotator), own in of.items():
        entries = {(row["item_id"], row["field"]): _value(row, many) for row in own}
        dates = [row["labelled_at"] for row in own if row["labelled_at"] == row["labelled_at"]]  # NaT is not itself
        at = int(max(dates).timestamp() * 1_000) if dates else now()
        yield {
            "task_id": task,
            "annotator_id": annotator,
            "entries": as_json(entries),
            "seconds": seconds[task, annotator],
            "submitted_at": at,
        }


def _value(row: Row, many: set[str]) -> Any:
    value = row["value"]
    if row["field"] in many:
        return value.split("\n---\n")
    return value.item() if hasattr(value, "item") else value


async def _add(connection: Any, of: Round, row: Row) -> bool:
    """Add an imported annotation, unless this annotator has submitted the task; whether it was added."""
    own = ASSIGNMENTS.c
    task_id = row.pop("task_id")
    here = select(TASKS.c.position).where(TASKS.c.round_id == of.id, TASKS.c.task_id == task_id)
    position = (await connection.execute(here)).scalar_one()
    of_task = select(own.annotator_id, own.slot).where(own.round_id == of.id, own.position == position)
    there = (await connection.execute(of_task)).all()
    if any(annotator == row["annotator_id"] for annotator, _ in there):
        return False
    slot = next((slot for slot in range(of.overlap) if slot not in {taken for _, taken in there}), None)
    ids = {"assignment_id": secrets.token_hex(8), "round_id": of.id, "position": position, "slot": slot}
    at = row["submitted_at"]
    times = {"lease_until": at, "opened_at": at, "touched_at": at}
    await connection.execute(insert(ASSIGNMENTS).values(**ids, **times, state="submitted", **row))
    return True
