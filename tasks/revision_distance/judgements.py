"""Judgements of experts, read from filled-in sheets. A sheet counts only if it compares two drafts of this build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.stage import Shard, StageContext, stage
from schemas.revision_distance import JUDGEMENTS
from tasks.annotation.files import open_sheets, read_sheets
from tasks.annotation.form import NEITHER, Task
from tasks.annotation.labelling import Checked
from tasks.annotation.values import Unfit
from tasks.revision_distance.form import FORM, RATED, SYSTEMS, pairs, sheet_id

TWICE = "the expert has judged this sheet already"
open_judgements = partial(open_sheets, group="judgements")


def judgement_row(found: Checked) -> Row:
    """The row of JUDGEMENTS of a filled-in sheet, with `first` as the draft that the expert saw as text A.

    Raises Unfit for a sheet that has a wrong value, names no better text, or rates only one of the texts.
    """
    values = {name: value for (_, name), value in found.values.items()}
    if found.wrong:
        raise found.wrong[0]
    if "better" not in values:
        raise Unfit("no better text named", "A, B or neither")
    sides = [found.task.context["first"], found.task.context["second"]]
    first, second = reversed(sides) if found.swapped else sides
    return {
        "judgement_id": f"j_{fingerprint([found.task.id, found.annotator])}",
        "sheet_id": found.task.id,
        "case_id": found.task.context["case_id"],
        "expert": found.annotator,
        "better": {"A": first, "B": second, NEITHER: None}[values["better"]],
        **{rated: _ratings(values, rated) for rated in RATED},
        "first": first,
        "second": second,
    }


def _ratings(values: Row, rated: str) -> list[int]:
    """[rating of text A, rating of text B] for the property `rated`, 1 to 5; [] if neither is rated.

    Raises Unfit if only one is rated. `values`: field name -> value.
    """
    ratings = [values[name] for side in "ab" if (name := f"{rated}_{side}") in values]
    if len(ratings) == 1:
        raise Unfit("a rating of one text only", rated)
    return ratings


def judgement_rows(found: Iterable[Checked | Rejected]) -> Iterator[Row | Rejected]:
    """The row of JUDGEMENTS of each sheet in `found`; a Rejected in `found` is passed on.

    A Rejected for a sheet that names no better text, or rates only one of the two. A sheet with `wrong` values yields
    nothing: `found` has Rejecteds for these already.
    """
    for each in found:
        try:
            yield each if isinstance(each, Rejected) else judgement_row(each)
        except Unfit as error:
            yield from [each.rejected(error)] if isinstance(each, Checked) and not each.wrong else []


@stage(JUDGEMENTS, revision=3)
def read_judgements(context: StageContext, files: Shard, drafts: AllRows) -> Iterator[Row | Rejected]:
    """Experts' judgements of pairs of drafts from one file, the first of each expert on each sheet.

    A Rejected for a repeated or unusable one. SourceError, after the last row, for a file without a usable one.
    """
    yield from read_sheets(FORM, files, judged(drafts), lambda found: first_of(judgement_rows(found)))


def judged(drafts: Rows) -> dict[str, Task]:
    """sheet_id -> the task of judging a pair of drafts: their texts, and in its context case_id, `first`, `second`.

    Text A is that of the draft `first`. `drafts`: rows of DRAFTS, of which the pairs by both SYSTEMS are taken.
    """
    rows = ({**row, "draft": row["text"]} for row in drafts.as_dicts("draft_id", "case_id", "system", "text"))
    found = {}
    for first, second in pairs(row for row in rows if row["system"] in SYSTEMS):
        name = sheet_id(first["draft_id"], second["draft_id"])
        context = {"case_id": first["case_id"], "first": first["draft_id"], "second": second["draft_id"]}
        found[name] = Task(name, {"text_a": first["draft"], "text_b": second["draft"]}, context=context)
    return found


@stage(JUDGEMENTS, revision=2)
def collect_judgements(context: StageContext, judgements: AllRows) -> Iterator[Row | Rejected]:
    """The judgements of all files, the first of each expert on each sheet; a Rejected for each further one."""
    yield from first_of(judgements)


def first_of(rows: Iterable[Row | Rejected]) -> Iterator[Row | Rejected]:
    """The first judgement of each sheet by each expert; a Rejected for each further one.

    A Rejected in `rows` is passed on.
    """
    taken: set[str] = set()
    for row in rows:
        if isinstance(row, Rejected) or row["judgement_id"] not in taken:
            taken |= set() if isinstance(row, Rejected) else {row["judgement_id"]}
            yield row
        else:
            yield Rejected(row["judgement_id"], "defect", TWICE, raw=orjson.dumps(row).decode())
