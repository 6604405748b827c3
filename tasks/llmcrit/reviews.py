"""Reviews of criteria and demonstrations by people, read from filled-in sheets, and what becomes of what they review.

Most reviewers decide, where an edit accepts; of several edits that of the first annotator by id counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, grouped
from longform.engine.stage import Shard, StageContext, stage
from schemas.llmcrit import CRITERIA, DEMONSTRATIONS, REVIEWS
from tasks.annotation.files import Rejectable, open_sheets, read_sheets
from tasks.annotation.labelling import Checked
from tasks.annotation.values import Unfit
from tasks.llmcrit.criteria import shown
from tasks.llmcrit.form import CRITERION_FORM, DEMONSTRATION_FORM, criterion_tasks, demonstration_tasks

TWICE = "the same person has said it already"
REJECTED = "rejected by its reviewers"
NOT_REVIEWED = "not accepted by reviewers"
CRITERION_COLUMNS = {"new_name": "name", "new_check": "text"}  # field -> column of REVIEWS
DEMONSTRATION_COLUMNS = {"new_input": "input", "new_output": "text"}
open_reviews = partial(open_sheets, group="reviews")


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
    """The row of REVIEWS of each thing that these sheets review, the first of each person. A Rejected for each further
    one, one without a verdict, an edit without a new text, and a new text without an edit.

    `columns`: field of the form for a new text -> the column it goes to.
    """

    def read(sheet: Checked) -> list[Row | Unfit]:
        return [_review(sheet, item, columns) for item in dict.fromkeys(item for item, _ in sheet.values)]

    yield from first_of(rows_of(found, read), "review_id", "item_id")


def _review(found: Checked, item: str, columns: Mapping[str, str]) -> Row | Unfit:
    own = {name: value for (place, name), value in found.values.items() if place == item}
    item_id, verdict = item or found.task.id, own.get("verdict")
    new = {column: own[name].strip() for name, column in columns.items() if name in own}
    if verdict is None:
        return Unfit("no verdict", item_id)
    if (verdict == "edit") != bool(new):
        return Unfit("a new text without an edit" if new else "an edit without a new text", item_id)
    ids = {"review_id": f"r_{fingerprint([item_id, found.annotator])}", "item_id": item_id}
    texts = {column: new.get(column) for column in ("name", "text", "input")}
    return {**ids, "annotator_id": found.annotator, "verdict": verdict, **texts}


def reviewed(
    items: Iterable[Row], reviews: Iterable[Row], key: str, edited: Callable[[Row, Row], Row], only: bool
) -> Rejectable:
    """The items that their reviewers do not reject, or `only` those that they accept or edit, with their state,
    numbered anew within each aspect. One without reviews, or with as many for it as against it, keeps its state. A
    Rejected for each that is left out, and for each review that comes twice.

    `key`: the items' key. `edited`: (item, review) -> the columns that this edit changes.
    """
    counted = list(first_of(reviews, "review_id", "item_id"))
    yield from (review for review in counted if isinstance(review, Rejected))
    of_item = grouped((review for review in counted if not isinstance(review, Rejected)), "item_id")
    for own in grouped(items, "aspect_id").values():
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


def _edited_criterion(item: Row, review: Row) -> Row:
    new = {"name": review["name"] or item["name"], "check": review["text"] or item["check"]}
    return {**new, "proposed": shown(item)}


def _edited_demonstration(item: Row, review: Row) -> Row:
    return {"input": review["input"] or item["input"], "output": review["text"] or item["output"]}


# ---------------------------------------------------------------- stages


@stage(REVIEWS, revision=1)
def read_criterion_reviews(context: StageContext, files: Shard, criteria: AllRows, aspects: AllRows) -> Rejectable:
    """Reviews of criteria from one file, the first of each person on each. A Rejected for what is no review.
    SourceError, after the last row, for a file without one.
    """
    known = {task.id: task for task in criterion_tasks(aspects, criteria)}
    yield from read_sheets(CRITERION_FORM, files, known, partial(review_rows, columns=CRITERION_COLUMNS))


@stage(REVIEWS, revision=1)
def read_demonstration_reviews(context: StageContext, files: Shard, demonstrations: AllRows) -> Rejectable:
    """Reviews of demonstrations from one file; as `read_criterion_reviews`."""
    known = {task.id: task for task in demonstration_tasks(demonstrations)}
    yield from read_sheets(DEMONSTRATION_FORM, files, known, partial(review_rows, columns=DEMONSTRATION_COLUMNS))


@stage(CRITERIA, revision=1, split_by="task")
def review_criteria(context: StageContext, criteria: AllRows, reviews: AllRows, *, reviewed_only: bool) -> Rejectable:
    """The criteria as their reviewers leave them: see `reviewed`. An edited one keeps its id."""
    yield from reviewed(criteria, reviews, "criterion_id", _edited_criterion, reviewed_only)


@stage(DEMONSTRATIONS, revision=1, split_by="task")
def review_demonstrations(
    context: StageContext, demonstrations: AllRows, reviews: AllRows, *, reviewed_only: bool
) -> Rejectable:
    """The demonstrations as their reviewers leave them: see `reviewed`. An edited one keeps its id."""
    yield from reviewed(demonstrations, reviews, "demonstration_id", _edited_demonstration, reviewed_only)
