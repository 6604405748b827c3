"""A table of labels: every annotator's, one row a label; what most of them say, and how far they are.

Columns: task_id, item_id ("" for the task as a whole), field, annotator_id, value, labelled_at, source. Lists are
joined as one text. In forms with sides, values are those of the task's own order of the two texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from longform.artifacts.rows import Rejected, Row
from tasks.annotation.form import NEITHER, Form, Task
from tasks.annotation.labelling import Checked
from tasks.annotation.values import joined

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("task_id", "item_id", "field", "annotator_id", "value", "labelled_at", "source")
UNIT = ["task_id", "item_id", "field"]
_OTHER = {"A": "B", "B": "A", NEITHER: NEITHER}


def table(form: Form, found: Iterable[Checked]) -> pd.DataFrame:
    """The labels of these labellings. Of two labels of one annotator in a field the later counts where both are dated,
    else the first."""
    import pandas as pd

    kept: dict[tuple[str, ...], Row] = {}
    for labelling in found:
        for row in _rows(form, labelling):
            key = tuple(row[name] for name in (*UNIT, "annotator_id"))
            kept[key] = later(kept[key], row) if key in kept else row
    frame = pd.DataFrame(kept.values(), columns=list(COLUMNS))
    return frame.assign(labelled_at=pd.to_datetime(frame["labelled_at"], unit="ms", utc=True))


def later(first: Row, second: Row) -> Row:
    """Of two labellings by one annotator the one that counts, by `labelled_at`."""
    dated = first["labelled_at"] is not None and second["labelled_at"] is not None
    return second if dated and second["labelled_at"] > first["labelled_at"] else first


def _rows(form: Form, found: Checked) -> Iterator[Row]:
    common = {"annotator_id": found.annotator, "labelled_at": found.given.at, "source": found.given.source}
    for (item, name), value in found.said.items():
        if found.swapped:
            value = _OTHER[value] if name in form.pairwise() else value
            name = _other_side(form, name)
        text = joined(value) if isinstance(value, list) else value
        yield {"task_id": found.task.id, "item_id": item, "field": name, "value": text, **common}


def _other_side(form: Form, name: str) -> str:
    other = {"_a": "_b", "_b": "_a"}.get(name[-2:])
    return f"{name[:-2]}{other}" if other and any(each.name == f"{name[:-2]}{other}" for each in form.fields) else name


def majorities(labels: pd.DataFrame) -> pd.DataFrame:
    """Of each field with labels: units that two annotators or more labelled; those of which more than half of the
    labels are the same; and ties, of which two values or more have the most labels."""
    votes = labels.groupby([*UNIT, "value"], sort=False).size().groupby(UNIT, sort=False)
    units = votes.agg(labels="sum", most="max", alike=lambda counts: (counts == counts.max()).sum()).query("labels > 1")
    counted = units.assign(units=1, majority=2 * units["most"] > units["labels"], tied=units["alike"] > 1)
    by_field: pd.DataFrame = counted.groupby("field", sort=False)[["units", "majority", "tied"]].sum()
    return by_field.astype(int).reset_index()


def reasons(found: Iterable[Checked | Rejected]) -> dict[str, int]:
    """How often labels were rejected for which reason, the most frequent first."""
    return dict(Counter(each.reason for each in found if isinstance(each, Rejected)).most_common())


def progress(form: Form, tasks: Iterable[Task], labels: pd.DataFrame) -> pd.DataFrame:
    """How much of each field is labelled: units in all, by one annotator, by two or more, and labels.

    One row a field, in the order of the form; units are tasks, or their items.
    """
    import pandas as pd

    counted = list(tasks)
    units = {False: len(counted), True: sum(len(task.items) for task in counted)}
    found = []
    for field in form.fields:
        sizes = labels[labels["field"] == field.name].groupby(["task_id", "item_id"]).size()
        counts = {"units": units[field.of_item], "by one": int((sizes == 1).sum()), "by more": int((sizes > 1).sum())}
        found.append({"field": field.name, **counts, "labels": int(sizes.sum())})
    return pd.DataFrame(found)


def by_annotator(labels: pd.DataFrame) -> pd.DataFrame:
    """Of each annotator, by name: tasks with a label of theirs, and labels."""
    return labels.groupby("annotator_id").agg(tasks=("task_id", "nunique"), labels=("value", "size")).reset_index()
