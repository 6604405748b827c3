"""The table of labels, one row for each label of each annotator; the majority label of each unit, and progress.

Columns: task_id, item_id ("" for the task as a whole), field, annotator_id, value, labelled_at, source. Values that are
lists are joined into one text. In forms with sides, values refer to the task's own order of the two texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from longform.artifacts.rows import Rejected, Row
from tasks.annotation.form import NEITHER, Form, Task
from tasks.annotation.labelling import Checked
from tasks.annotation.values import joined

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("task_id", "item_id", "field", "annotator_id", "value", "labelled_at", "source")
UNIT = ["task_id", "item_id", "field"]
Rule = Literal["majority", "plurality", "unanimous"]
_OTHER = {"A": "B", "B": "A", NEITHER: NEITHER}


def table(form: Form, found: Iterable[Checked]) -> pd.DataFrame:
    """The table of these labellings' labels (its columns: COLUMNS). If an annotator labelled a field of the same task
    or item twice, the label with the later `labelled_at` counts; if one has no date or both are equal, the first.
    """
    import pandas as pd

    kept: dict[tuple[str, ...], Row] = {}
    for labelling in found:
        for row in _rows(form, labelling):
            key = tuple(row[name] for name in (*UNIT, "annotator_id"))
            kept[key] = later(kept[key], row) if key in kept else row
    frame = pd.DataFrame(kept.values(), columns=list(COLUMNS))
    return frame.assign(labelled_at=pd.to_datetime(frame["labelled_at"], unit="ms", utc=True))


def later(first: Row, second: Row) -> Row:
    """Of two rows, the one with the later `labelled_at`; the first if either has none or both are equal."""
    dated = first["labelled_at"] is not None and second["labelled_at"] is not None
    return second if dated and second["labelled_at"] > first["labelled_at"] else first


def _rows(form: Form, found: Checked) -> Iterator[Row]:
    """The rows of one labelling. If it shows the two sides swapped, values and fields of sides are turned back to the
    task's order.
    """
    common = {"annotator_id": found.annotator, "labelled_at": found.labelling.at, "source": found.labelling.source}
    for (item, name), value in found.values.items():
        if found.swapped:
            value = _OTHER[value] if name in form.pairwise() else value
            name = _other_side(form, name)
        text = joined(value) if isinstance(value, list) else value
        yield {"task_id": found.task.id, "item_id": item, "field": name, "value": text, **common}


def _other_side(form: Form, name: str) -> str:
    """The name of this field for the other side (quality_a -> quality_b); unchanged if the form has no such field."""
    other = {"_a": "_b", "_b": "_a"}.get(name[-2:])
    return f"{name[:-2]}{other}" if other and any(each.name == f"{name[:-2]}{other}" for each in form.fields) else name


def aggregate(labels: pd.DataFrame, *, rule: Rule = "majority") -> pd.DataFrame:
    """The joint label of each task or item and field: task_id, item_id, field, value, votes, labels, tied. `votes` is
    the number of labels with the most frequent value, `labels` the number of all; `tied`: several values are that
    frequent.

    `value` is null unless it has the votes that the rule asks for: majority, more than half of the labels; plurality,
    more than any other value; unanimous, all of them.
    """
    votes = labels.groupby([*UNIT, "value"], sort=False).size().rename("votes").reset_index()
    units = votes.groupby(UNIT, sort=False)["votes"]
    votes = votes.assign(labels=units.transform("sum"), most=units.transform("max"))
    first = votes[votes["votes"] == votes["most"]].assign(tied=lambda best: best.duplicated(UNIT, keep=False))
    found = first.drop_duplicates(UNIT).drop(columns="most").reset_index(drop=True)
    enough = {
        "majority": 2 * found["votes"] > found["labels"],
        "plurality": ~found["tied"],
        "unanimous": found["votes"] == found["labels"],
    }
    return found.assign(value=found["value"].where(enough[rule], None))


def decision_counts(together: pd.DataFrame) -> pd.DataFrame:
    """One row a field: `units` (tasks or items) with two labels or more, how many of them are `decided` (`value` is
    not null), and how many `tied`. A field without such units has no row. `together` is a result of `aggregate`.
    """
    labelled_twice = together[together["labels"] > 1].assign(units=1, decided=lambda rows: rows["value"].notna())
    by_field: pd.DataFrame = labelled_twice.groupby("field", sort=False)[["units", "decided", "tied"]].sum()
    return by_field.astype(int).reset_index()


def reasons(found: Iterable[Checked | Rejected]) -> dict[str, int]:
    """Reason -> how many labels or labellings were rejected for it, the most frequent reason first."""
    return dict(Counter(each.reason for each in found if isinstance(each, Rejected)).most_common())


def progress(form: Form, tasks: Iterable[Task], labels: pd.DataFrame) -> pd.DataFrame:
    """How much of each field is labelled, one row a field in the order of the form: `field`, `units` (tasks, or their
    items), those labelled `by one` annotator and `by more`, and the number of `labels`. `labels`: the table of labels.
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
    """One row an annotator, ordered by id: annotator_id, the number of `tasks` with a label of theirs, and of their
    `labels`.
    """
    return labels.groupby("annotator_id").agg(tasks=("task_id", "nunique"), labels=("value", "size")).reset_index()
