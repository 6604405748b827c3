"""Reviews of criteria and demonstrations by people, and criteria and demonstrations as reviewed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from longform.artifacts.rows import AllRows, Rejected, Row
from longform.engine.stage import Shard, StageContext, stage
from schemas.llmcrit import CRITERIA, DEMONSTRATIONS, REVIEWS
from tasks.annotation.files import Rejectable, open_sheets, read_sheets
from tasks.annotation.labelling import Checked
from tasks.annotation.reviews import review_rows, reviewed
from tasks.llmcrit.criteria.criteria import shown
from tasks.llmcrit.form import CRITERION_FORM, DEMONSTRATION_FORM, criterion_tasks, demonstration_tasks

CRITERION_COLUMNS = {"new_name": "name", "new_check": "text"}  # field -> column of REVIEWS
DEMONSTRATION_COLUMNS = {"new_input": "input", "new_output": "text"}
open_reviews = partial(open_sheets, group="reviews")


def _rows(found: Iterable[Checked | Rejected], columns: Mapping[str, str]) -> Rejectable:
    """The rows of REVIEWS of these sheets. `columns`: field of the form for a new text -> the column it goes to."""
    for row in review_rows(found, columns):
        yield row if isinstance(row, Rejected) else {**dict.fromkeys(("name", "text", "input")), **row}


def _edited_criterion(item: Row, review: Row) -> Row:
    new = {"name": review["name"] or item["name"], "check": review["text"] or item["check"]}
    return {**new, "proposed": shown(item)}


def _edited_demonstration(item: Row, review: Row) -> Row:
    return {"input": review["input"] or item["input"], "output": review["text"] or item["output"]}


# ---------------------------------------------------------------- stages


@stage(REVIEWS, revision=2)
def read_criterion_reviews(context: StageContext, files: Shard, criteria: AllRows, aspects: AllRows) -> Rejectable:
    """Reviews of criteria from one file, the first of each person on each. A Rejected for what is no review.
    SourceError, after the last row, for a file without one.
    """
    known = {task.id: task for task in criterion_tasks(aspects, criteria)}
    yield from read_sheets(CRITERION_FORM, files, known, partial(_rows, columns=CRITERION_COLUMNS))


@stage(REVIEWS, revision=2)
def read_demonstration_reviews(context: StageContext, files: Shard, demonstrations: AllRows) -> Rejectable:
    """Reviews of demonstrations from one file; as `read_criterion_reviews`."""
    known = {task.id: task for task in demonstration_tasks(demonstrations)}
    yield from read_sheets(DEMONSTRATION_FORM, files, known, partial(_rows, columns=DEMONSTRATION_COLUMNS))


@stage(CRITERIA, revision=1, split_by="task")
def review_criteria(context: StageContext, criteria: AllRows, reviews: AllRows, *, reviewed_only: bool) -> Rejectable:
    """The criteria as their reviewers leave them: see `reviewed`. An edited one keeps its id."""
    yield from reviewed(criteria, reviews, "criterion_id", "aspect_id", _edited_criterion, reviewed_only)


@stage(DEMONSTRATIONS, revision=1, split_by="task")
def review_demonstrations(
    context: StageContext, demonstrations: AllRows, reviews: AllRows, *, reviewed_only: bool
) -> Rejectable:
    """The demonstrations as their reviewers leave them: see `reviewed`. An edited one keeps its id."""
    yield from reviewed(demonstrations, reviews, "demonstration_id", "aspect_id", _edited_demonstration, reviewed_only)
