"""Reviews: what people accept, edit or reject, read from filled-in sheets, and what becomes of what they review.

A form of reviews has a field `verdict` with the choices VERDICTS, and fields for new texts. Most reviewers decide, and
an edit accepts; of several edits that of the first annotator by id counts. A reviewed item has a `state`: proposed,
accepted, edited or rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, grouped
from tasks.annotation.files import Rejectable
from tasks.annotation.labelling import Checked
from tasks.annotation.values import Unfit

VERDICTS = ("accept", "edit", "reject")
TWICE = "the same person has said it already"
REJECTED = "rejected by its reviewers"
NOT_REVIEWED = "not accepted by reviewers"


def first_of(rows: Iterable[Row | Rejected], key: str, rejected_as: str) -> Rejectable:
    """The first row of each value of the column `key`; for each further one a Rejected with the key that its column
    `rejected_as` holds. A Rejected in `rows` is passed on.
    """
    taken: set[str] = set()
    for row in rows:
        if isinstance(row, Rejected) or row[key] not in taken:
            taken |= set() if isinstance(row, Rejected) else {row[key]}
            yield row
        else:
            yield Rejected(row[rejected_as], "defect", TWICE, row["annotator_id"], orjson.dumps(row).decode())


def rows_of(found: Iterable[Checked | Rejected], read: Callable[[Checked], list[Row | Unfit]]) -> Rejectable:
    """The rows that `read` makes of each sheet, among which the time it took is shared evenly; a Rejected for each
    Unfit. A Rejected in `found` is passed on.
    """
    for each in found:
        if isinstance(each, Rejected):
            yield each
            continue
        for row in (made := read(each)):
            seconds = each.seconds and each.seconds / len(made)
            yield each.rejected(row) if isinstance(row, Unfit) else {**row, "seconds": seconds}


def review_rows(found: Iterable[Checked | Rejected], columns: Mapping[str, str]) -> Rejectable:
    """The review of each thing that these sheets review, the first of each person; a Rejected for each further one.

    `columns`: field of the form for a new text -> the column it goes to.
    """

    def read(sheet: Checked) -> list[Row | Unfit]:
        return [_review(sheet, item, columns) for item in dict.fromkeys(item for item, _ in sheet.values)]

    yield from first_of(rows_of(found, read), "review_id", "item_id")


def no_review(values: Mapping[str, Any], new: Collection[str]) -> str | None:
    """Why the values of a form of reviews are no review: without a verdict, an edit without a new text, a new text
    without an edit. `new`: the fields for new texts.
    """
    if "verdict" not in values:
        return "no verdict"
    edited, given = values["verdict"] == "edit", any(name in values for name in new)
    return None if edited == given else "an edit without a new text" if edited else "a new text without an edit"


def _review(found: Checked, item: str, columns: Mapping[str, str]) -> Row:
    own = {name: value for (place, name), value in found.values.items() if place == item}
    item_id = item or found.task.id
    new = {column: own[name].strip() for name, column in columns.items() if name in own}
    ids = {"review_id": f"r_{fingerprint([item_id, found.annotator])}", "item_id": item_id}
    said = {"annotator_id": found.annotator, "verdict": own["verdict"]}
    return {**ids, **said, **dict.fromkeys(columns.values()), **new}


def reviewed(
    items: Iterable[Row], reviews: Iterable[Row], key: str, within: str, edited: Callable[[Row, Row], Row], only: bool
) -> Rejectable:
    """The items that their reviewers do not reject, or `only` those that they accept or edit, with their state and
    numbered anew (`position`) within each value of a column. One without reviews, or with as many for it as against
    it, keeps its state. A Rejected for each that is left out, and for each review that comes twice.

    `key`: the items' key; `within`: that column. `edited`: (item, review) -> the columns that this edit changes.
    """
    counted = list(first_of(reviews, "review_id", "item_id"))
    yield from (review for review in counted if isinstance(review, Rejected))
    of_item = grouped((review for review in counted if not isinstance(review, Rejected)), "item_id")
    for own in grouped(items, within).values():
        position = 0
        for item in sorted(own, key=lambda row: row["position"]):
            row = _with_state(item, of_item[item[key]], edited)
            if row["state"] == "rejected" or (only and row["state"] == "proposed"):
                yield Rejected(item[key], "filtered", REJECTED if row["state"] == "rejected" else NOT_REVIEWED)
            else:
                position += 1
                yield {**row, "position": position}


def _with_state(item: Row, reviews: list[Row], edited: Callable[[Row, Row], Row]) -> Row:
    """The item as these reviews leave it, each of which is another person's."""
    edits = sorted((row for row in reviews if row["verdict"] == "edit"), key=lambda row: row["annotator_id"])
    margin = sum(-1 if row["verdict"] == "reject" else 1 for row in reviews)
    found = {**item, "reviewers": len(reviews)}
    if margin <= 0:
        return {**found, "state": "rejected" if margin else item["state"]}
    return {**found, **(edited(item, edits[0]) if edits else {}), "state": "edited" if edits else "accepted"}
