"""Argilla 2: writes data set folders for `rg.Dataset.from_disk`, and reads exported records, flattened or nested.

    {"id": "a_4f…#0", "claim": "…", "evidence": "…", "answer_id": "a_4f…", "claim_id": "a_4f…#0", "status": "pending",
     "support.responses": ["Partial"], "support.responses.users": ["3f9c…"], "support.responses.status": ["submitted"]}

    {"id": "a_4f…#0", "fields": {"claim": "…"}, "metadata": {"answer_id": "a_4f…", "claim_id": "a_4f…#0"},
     "responses": {"support": [{"value": "Partial", "user_id": "3f9c…"}]}, "status": "completed"}

Only submitted responses count. Flattened records (`to_list(flatten=True)`) have a status for each response. Nested ones
(`records.to_json`, `to_disk`) have not: if a record is completed and has a single user, that user's responses count,
else none. A form with items has two data sets, one of tasks and one of items. In records of older sheets the name of a
question or field ends in the index of its item, from 0. Fields show plain texts, not Markdown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter

from longform.artifacts.rows import Rejected, Row
from tasks.annotation.form import Field, Form
from tasks.annotation.labelling import NOT_LABELLED, Cells, Found, Labelling, answers, or_rejected, task_id, texts
from tasks.annotation.sheets import Part, as_json, title
from tasks.annotation.values import Unfit

SOURCE = "argilla"
RESPONSES = ".responses"
SETTINGS = ".argilla"
UNKNOWN_STATE = "whether it was submitted is unknown: export the records with to_list(flatten=True)"
RATINGS = range(11)  # what a question of the kind rating can offer

OF_QUESTIONS = TypeAdapter(dict[str, list[dict[str, Any]] | None])
COLUMNS = TypeAdapter(dict[str, list[Any]])


def files(part: Part, records: Iterable[Row]) -> dict[str, bytes]:
    """The files of a data set folder for Argilla: path within it -> content. `records`: those of `sheets.records` for
    this part.
    """
    name = "-".join(filter(None, (part.form.name, part.folder)))
    dataset = {"name": name, "guidelines": part.form.guidance, "allow_extra_metadata": False}
    return {
        "records.json": as_json([_record(row) for row in records]),
        f"{SETTINGS}/dataset.json": as_json(dataset),
        f"{SETTINGS}/settings.json": as_json(_settings(part)),
    }


def _record(row: Row) -> Row:
    """A record to import, without fields whose text is empty. `row`: one of `sheets.records`."""
    texts = {name: text for name, text in row["texts"].items() if text}
    return {"id": row["id"], "fields": texts, "metadata": row["ids"], "suggestions": {}, "responses": {}, "vectors": {}}


def _settings(part: Part) -> Row:
    """Argilla's settings of the data set. Argilla demands a required question: if the form has none, the first is made
    so.
    """
    form = part.form
    first = None if any(field.required for field in part.fields) else part.fields[0].name
    ids = [form.key, *form.context, form.annotator, *([form.item_key] if part.of_item else [])]
    return {
        "guidelines": form.guidance,
        "allow_extra_metadata": False,
        "fields": [_text(each.name, title(each.name), each.required) for each in part.shown],
        "questions": [_question(field, field.required or field.name == first) for field in part.fields],
        "metadata": [_metadata(name) for name in dict.fromkeys(ids)],
        "vectors": [],
    }


def _text(name: str, title: str, required: bool) -> Row:
    """Argilla's object for a field or question of plain text."""
    return {"name": name, "title": title, "required": required, "settings": {"type": "text", "use_markdown": False}}


def _question(field: Field, required: bool) -> Row:
    """Argilla's question for a field of the form: a selection if choices are offered, a rating if its scale lies
    within 0 to 10, else a text.
    """
    asked = {**_text(field.name, field.question, required), "description": field.guidance or None}
    options = [{"value": value, "text": value} for value in field.offered]
    if options:
        kind = "multi_label_selection" if field.kind == "choices" else "label_selection"
        return {**asked, "settings": {"type": kind, "options": options, "visible_options": max(3, len(options))}}
    if field.scale and {*field.scale} <= {*RATINGS}:
        values = [{"value": value} for value in range(field.scale[0], field.scale[1] + 1)]
        return {**asked, "settings": {"type": "rating", "options": values}}
    return asked


def _metadata(name: str) -> Row:
    """Argilla's metadata property for an id column, hidden from annotators."""
    kind = {"type": "terms", "visible_for_annotators": False}
    return {"name": name, "title": name, **kind, "settings": {**kind, "values": None}}


# ---------------------------------------------------------------- read back


class Response(BaseModel):
    """The response of one user to one question. `status` (submitted, draft or discarded) is None if the record does
    not say, as nested records do not.
    """

    question: str
    value: Any = None
    user_id: Any = None
    status: str | None = None


RESPONSE_LISTS = TypeAdapter(list[Response])


def is_record(record: Row) -> bool:
    """Whether a JSON object is an exported Argilla record, nested or flattened."""
    nested = isinstance(record.get("fields"), dict) and "responses" in record
    return nested or any(name.endswith(RESPONSES) for name in record)


def read_record(form: Form, record: Row, raw: str) -> Found:
    """One Labelling for each user who responded to a record, or a Rejected if the responses of this user do not fit
    the form; one Rejected ("not labelled") if nobody responded. The task's id is that in the metadata, else the
    record's own id. Responses without a user are taken as of one user, None. `raw`: the record's text in its file.

    Unfit for a record without a task id or with lists of responses that differ in length, ValidationError for
    responses of another form than Argilla's.
    """
    fields = record["fields"] if isinstance(record.get("fields"), dict) else record
    metadata = record["metadata"] if isinstance(record.get("metadata"), dict) else record
    task = task_id(form, {form.key: metadata.get(form.key) or record.get("id")})
    of: defaultdict[Any, list[Response]] = defaultdict(list)
    for response in RESPONSE_LISTS.validate_python(_nested(record) if "responses" in record else _flattened(record)):
        of[response.user_id if isinstance(response.user_id, str | int) else None].append(response)
    alone = len(of) == 1 and record.get("status") == "completed"
    item = metadata.get(form.item_key) if form.item_key else None
    for user, responses in of.items():
        yield or_rejected(task, raw, _read, form, task, item, user, responses, texts(form, fields, item), alone)
    if not of:
        yield Rejected(task, "filtered", NOT_LABELLED)


def _read(
    form: Form, task: str, item: str | None, user: Any, responses: list[Response], shown: Cells, alone: bool
) -> Labelling:
    """The labelling by one user, void unless all its responses are submitted. `item`: the id of the item that the
    record is about, None: the task. `alone`: this is the only user of a completed record, so that responses without a
    status count as submitted. `shown`: the texts of the record.
    """
    values, wrong = answers(form, ((response.question, response.value) for response in responses), item)
    states = {"submitted" if response.status is None and alone else response.status for response in responses}
    return Labelling(SOURCE, task, user, values, shown, void=_void(states), wrong=wrong)


def _void(states: set[str | None]) -> str | None:
    """Why responses with these statuses do not count: one is discarded or a draft, or a status is missing or unknown.
    None if all are submitted.
    """
    if unfinished := next((state for state in ("discarded", "draft") if state in states), None):
        return f"{unfinished} by its annotator"
    return None if states <= {"submitted"} else UNKNOWN_STATE


def _nested(record: Row) -> list[Row]:
    """The responses of a nested record, each with its question. ValidationError if they have another form."""
    responses = OF_QUESTIONS.validate_python(record["responses"] or {})
    return [{**each, "question": question} for question, of in responses.items() for each in of or []]


def _flattened(record: Row) -> list[Row]:
    """The responses of a flattened record, each with its question; without a list of statuses the status is None.
    Unfit if the lists of values, users and statuses differ in length, ValidationError if they are no lists.
    """
    found = []
    for column, values in record.items():
        if column.endswith(RESPONSES) and values is not None:
            users, states = record.get(f"{column}.users"), record.get(f"{column}.status")
            columns = COLUMNS.validate_python(
                {"value": values, "user_id": users, "status": states or [None] * len(users or ())}
            )
            if len({len(each) for each in columns.values()}) > 1:
                raise Unfit("ill-formed responses", column)
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            found += [{"question": column.removesuffix(RESPONSES), **row} for row in rows]
    return found
