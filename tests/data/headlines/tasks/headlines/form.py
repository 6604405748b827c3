"""What people fill in: whether a headline says what its question asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from schemas.headlines import LABELS

from longform.artifacts.rows import AllRows, Rejected, Row
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows
from longform.engine.stage import Shard, StageContext, stage
from tasks.annotation.files import open_sheets, read_sheets
from tasks.annotation.form import Field, Form, Sheets, Shown, Task
from tasks.annotation.labelling import WHOLE, Checked

FORM = Form(
    name="headlines",
    guidance="Read the headline alone: would you know what is asked?",
    key="headline_id",
    annotator="annotator_id",
    shown=(Shown("headline"),),
    fields=(Field("clear", "Is it clear what is asked?", "choice", ("Yes", "No"), required=True),),
)
open_labels = partial(open_sheets, group="headlines")


def sheets(store: Store, version: Version) -> Sheets:
    """The headlines of a version."""
    rows = stage_rows(store, version, "write_headlines", ["headline_id", "text"])
    return Sheets(FORM, list(map(_task, rows)), "labels", "There is no headline.")


def _task(row: Row) -> Task:
    return Task(row["headline_id"], {"headline": row["text"]})


@stage(LABELS, revision=1)
def read_labels(context: StageContext, files: Shard, headlines: AllRows) -> Iterator[Row | Rejected]:
    """What annotators say of headlines, from files of sheets."""
    tasks = {row["headline_id"]: _task(row) for row in headlines.as_dicts("headline_id", "text")}
    yield from read_sheets(FORM, files, tasks, _labels)


def _labels(found: Iterable[Checked | Rejected]) -> Iterator[Row | Rejected]:
    for each in found:
        yield each if isinstance(each, Rejected) else _label(each)


def _label(found: Checked) -> Row:
    ids = {"label_id": found.key, "headline_id": found.task.id, "annotator_id": found.annotator}
    return {**ids, "clear": found.values[WHOLE, "clear"]}
