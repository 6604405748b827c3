"""Labels of annotators: read back from files of sheets, and merged with the released ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from longform.addresses import without_logins_in
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.stage import AtMost, Shard, StageContext, stage
from schemas.expertqa import LABELS
from tasks.annotation import argilla, label_studio
from tasks.annotation.files import open_sheets, read_sheets
from tasks.annotation.form import Item, Task
from tasks.annotation.labelling import NOT_LABELLED, RAW_CHARS, WHOLE, Checked
from tasks.annotation.labels import later
from tasks.expertqa.answers.released import labels_of
from tasks.expertqa.form import ANSWER_PROPERTIES, CLAIM_PROPERTIES, FORM
from tasks.expertqa.vocabulary import LABELLED

SUPERSEDED = "labelled again by the same annotator"
NOT_SHOWN = "claims left out of a sheet"
IN_TWO = (label_studio.SOURCE, argilla.SOURCE)  # whose projects of answers show no claims
open_labels = partial(open_sheets, group="expertqa")


def label_row(found: Checked) -> Row:
    """The row of LABELS for one filled-in sheet. It has every claim of the answer; labels that the sheet lacks are
    null. Addresses in what was written have no user and password.
    """
    row = {
        "label_id": found.key,
        "answer_id": found.task.id,
        "question_id": found.task.context["question_id"],
        "system": found.task.context["system"],
        "annotator_id": found.annotator,
        **{name: found.values.get((WHOLE, name)) for name in ANSWER_PROPERTIES},
        "usefulness_said_as": found.as_written.get((WHOLE, "usefulness")),
        "annotation_time": found.seconds,
        "labelled_at": found.labelling.at,
        "claims": [_claim(found, item.id) for item in found.task.items],
        "source": found.labelling.source,
    }
    return {**row, **without_logins_in({name: row[name] for name in (*ANSWER_PROPERTIES, "claims")})}


def _claim(found: Checked, claim_id: str) -> Row:
    """The labels of one claim, an element of LABELS.claims. `revised_claim` is empty for a claim to be left out."""
    as_written = {name: found.as_written[claim_id, name] for name in LABELLED if (claim_id, name) in found.as_written}
    values = {name: found.values.get((claim_id, name)) for name in CLAIM_PROPERTIES}
    if found.values.get((claim_id, "left_out")) == "Yes":
        values["revised_claim"] = ""
    as_json = orjson.dumps(as_written, option=orjson.OPT_SORT_KEYS).decode() if as_written else None
    return {"claim_id": claim_id, **values, "said_as": as_json}


def says_something(row: Row) -> bool:
    """Whether a row of LABELS has any property of the answer, or of one of its claims, filled in (not null)."""
    return _answered(row) or any(map(_labelled, row["claims"]))


def _answered(row: Row) -> bool:
    """Whether a row of LABELS has any property of the whole answer filled in."""
    return any(row[name] is not None for name in ANSWER_PROPERTIES)


def _labelled(claim: Row) -> bool:
    """Whether any property of a claim is filled in."""
    return any(claim[name] is not None for name in CLAIM_PROPERTIES)


def merged(rows: Iterable[Row]) -> dict[str, tuple[Row, int]]:
    """label_id -> (one row of LABELS merged from all rows with this id, number of rows that contribute nothing to it).

    The properties of the answer are taken from one row, and those of each claim from one row, among the rows that
    label them: the first, or a later one if both are dated and the later one has the later date. Annotation times of
    the contributing rows are summed; `labelled_at` is their latest date.
    """
    return {name: _merged(found) for name, found in grouped(rows, "label_id").items()}


def _merged(rows: list[Row]) -> tuple[Row, int]:
    """(the merged row of `rows`, which have one label_id; the number of rows that contribute nothing to it), by the
    rules of `merged`.
    """
    answered = _latest([row for row in rows if _answered(row)])
    whole = answered or rows[0]
    places = range(len(whole["claims"]))
    sources = [_latest([row for row in rows if _labelled(row["claims"][place])]) for place in places]
    counted = [row for row in rows if any(row is each for each in (answered, *sources))]
    times = [row["annotation_time"] for row in counted if row["annotation_time"] is not None]
    dates = [row["labelled_at"] for row in counted if row["labelled_at"] is not None]
    claims = [(row or whole)["claims"][place] for place, row in zip(places, sources, strict=True)]
    times_and_dates = {"annotation_time": sum(times) if times else None, "labelled_at": max(dates, default=None)}
    return {**whole, **times_and_dates, "claims": claims}, len(rows) - len(counted)


def _latest(rows: list[Row]) -> Row | None:
    """The row that counts among rows by one annotator: the first, or a later one if both are dated and it has the
    later date. None if there are no rows.
    """
    return reduce(later, rows) if rows else None


# ---------------------------------------------------------------- stages


@stage(LABELS, revision=7)
def read_labels(context: StageContext, files: Shard, claims: AllRows, answers: AllRows) -> Iterator[Row | Rejected]:
    """Labels of annotators for answers and their claims, read from files of filled-in sheets, a row for each annotator
    and answer; a Rejected for every sheet or value that is no label, and for superseded sheets. SourceError, after the
    last row, for a file that gives no row.
    """
    yield from read_sheets(FORM, files, labelled(answers, claims), partial(label_rows, count=context.count))


@stage(LABELS, revision=7)
def read_second_labels(
    context: StageContext, files: Shard, claims: AllRows, answers: AllRows
) -> Iterator[Row | Rejected]:
    """Labels of a second labelling, read as by `read_labels` and used only to compute the agreement of annotators
    (section 4.2).
    """
    yield from read_sheets(FORM, files, labelled(answers, claims), partial(label_rows, count=context.count))


def label_rows(
    found: Iterable[Checked | Rejected], count: Callable[[str, int], None] = lambda name, number: None
) -> Iterator[Row | Rejected]:
    """Rows of LABELS, one for each annotator and answer. A Rejected for every sheet or value that is no label, and for
    each sheet superseded by another of the same annotator. A sheet without any label gives no row.

    `count`: called for each row with NOT_SHOWN and the number of claims of the answer that the annotator's sheets
    lack; not for a row of a tool's records of answers alone, which have none by design.
    """
    rows: list[Row] = []
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for each in found:
        if isinstance(each, Rejected):
            yield each
            continue
        row = label_row(each)
        if says_something(row):
            rows.append(row)
            if each.items or each.labelling.source not in IN_TWO:
                shown[row["label_id"]] |= each.items
    for name, (row, lost) in merged(rows).items():
        yield from [Rejected(name, "filtered", SUPERSEDED)] * lost
        if name in shown:
            count(NOT_SHOWN, len(row["claims"]) - len(shown[name]))
        yield row


def labelled(answers: Rows, claims: Rows) -> dict[str, Task]:
    """Answer id -> the labelling task of this answer and its claims, against which files of sheets are checked. An
    answer without claims has a task without items.
    """
    claims_of = grouped(claims.as_dicts("answer_id", "claim_id", "text"), "answer_id")
    items = {
        answer_id: tuple(Item(claim["claim_id"], {"claim": claim["text"]}) for claim in own)
        for answer_id, own in claims_of.items()
    }
    return {
        row["answer_id"]: Task(row["answer_id"], items=items.get(row["answer_id"], ()), context=row)
        for row in answers.as_dicts("answer_id", "question_id", "system")
    }


@stage(LABELS, revision=3, at_most=AtMost(rows=lambda of: of["answers"] + of["given"]))
def collect_labels(context: StageContext, answers: Rows, claims: Rows, given: AllRows) -> Iterator[Row | Rejected]:
    """The labels of each answer, a row for each annotator, from sheets (`given`) and from the released file; answers
    in their order, annotators by id.

    Sheets replace the released labels of the same annotator. A Rejected for each released value that is no label, and
    for each answer without labels (unless it has such a value).
    """
    claims_of = grouped(claims, "answer_id")
    for batch in answers.batches():
        wanted = pa.array(batch["answer_id"])
        filtered = (rows.filter(pc.is_in(rows["answer_id"], wanted)) for rows in given.batches())
        from_sheets = grouped((row for rows in filtered for row in rows.to_pylist()), "answer_id")
        for answer in batch.to_pylist():
            key = answer["answer_id"]
            yield from _collected(context, answer, claims_of[key], from_sheets[key])


def _collected(
    context: StageContext, answer: Row, claims: list[Row], from_sheets: list[Row]
) -> Iterator[Row | Rejected]:
    """The labels of one answer, ordered by annotator; Rejecteds as in `collect_labels`. `from_sheets`: rows of LABELS
    of this answer. Counts labellings that another one replaces.
    """
    taken = merged(from_sheets)
    found, lost = {name: row for name, (row, _) in taken.items()}, sum(lost for _, lost in taken.values())
    released, wrong = released_labels(answer, claims)
    yield from wrong
    if released is not None:
        lost += released["label_id"] in found
        found.setdefault(released["label_id"], released)
    context.count("labellings by an annotator who has a later or a given one", lost)
    yield from sorted(found.values(), key=lambda row: str(row["annotator_id"]))
    if not found and not wrong:
        yield Rejected(answer["answer_id"], "filtered", NOT_LABELLED)


def released_labels(answer: Row, claims: list[Row]) -> tuple[Row | None, list[Rejected]]:
    """(row of LABELS of a released answer, a Rejected for each of its values that is no label). The row is None if the
    answer has no label or was not released.
    """
    if answer["kind"] != "released":
        return None, []
    row, wrong = labels_of(answer, [claim for claim in claims if claim["original"] is not None])
    rejected = [
        Rejected(answer["answer_id"], "defect", each.reason, each.detail, (answer["claims"] or "")[:RAW_CHARS])
        for each in wrong
    ]
    return ({**row, "labelled_at": None} if says_something(row) else None), rejected
