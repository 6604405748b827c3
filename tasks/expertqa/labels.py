"""Labels of annotators: read back from files of sheets, and merged with the released ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.stage import AtMost, Shard, StageContext, stage
from schemas.expertqa import LABELS
from tasks.annotation.files import open_sheets, read_sheets
from tasks.annotation.form import Item, Task
from tasks.annotation.labelling import NOT_LABELLED, RAW_CHARS, WHOLE, Checked
from tasks.annotation.labels import later
from tasks.annotation.values import Unfit
from tasks.expertqa.answers.released import labels_of
from tasks.expertqa.form import ANSWER_PROPERTIES, CLAIM_PROPERTIES, FORM
from tasks.expertqa.vocabulary import LABELLED

SUPERSEDED = "labelled again by the same annotator"
NOT_SHOWN = "claims left out of a sheet"
open_labels = partial(open_sheets, group="expertqa")


def label_row(found: Checked) -> tuple[Row, list[Unfit]]:
    """The row of LABELS, with every claim of the answer; and what of it contradicts itself: null there."""
    wrong: list[Unfit] = []
    row = {
        "label_id": found.key,
        "answer_id": found.task.id,
        "question_id": found.task.context["question_id"],
        "system": found.task.context["system"],
        "annotator_id": found.annotator,
        **{name: found.said.get((WHOLE, name)) for name in ANSWER_PROPERTIES},
        "usefulness_said_as": found.said_as.get((WHOLE, "usefulness")),
        "annotation_time": found.seconds,
        "labelled_at": found.given.at,
        "claims": [_claim(found, item.id, wrong) for item in found.task.items],
        "source": found.given.source,
    }
    return row, wrong


def _claim(found: Checked, claim_id: str, wrong: list[Unfit]) -> Row:
    as_said = {name: found.said_as[claim_id, name] for name in LABELLED if (claim_id, name) in found.said_as}
    said = {name: found.said.get((claim_id, name)) for name in CLAIM_PROPERTIES}
    if found.said.get((claim_id, "left_out")) == "Yes":
        wrong += [Unfit("a claim left out and revised", claim_id)] if said["revised_claim"] else []
        said["revised_claim"] = None if said["revised_claim"] else ""
    as_json = orjson.dumps(as_said, option=orjson.OPT_SORT_KEYS).decode() if as_said else None
    return {"claim_id": claim_id, **said, "said_as": as_json}


def says_something(row: Row) -> bool:
    """Whether any property of the answer or of one of its claims is filled in."""
    return _answered(row) or any(map(_labelled, row["claims"]))


def _answered(row: Row) -> bool:
    return any(row[name] is not None for name in ANSWER_PROPERTIES)


def _labelled(claim: Row) -> bool:
    return any(claim[name] is not None for name in CLAIM_PROPERTIES)


def merged(rows: Iterable[Row]) -> dict[str, tuple[Row, int]]:
    """label_id -> the row of all that an annotator said of an answer, and how many of its rows count for nothing.

    The answer as a whole and each claim are taken from one row each, of those that say something of it: the later where
    both are dated, else the first. Times of the rows that count are summed.
    """
    of: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of[row["label_id"]].append(row)
    return {name: _merged(found) for name, found in of.items()}


def _merged(rows: list[Row]) -> tuple[Row, int]:
    whole = _latest([row for row in rows if _answered(row)]) or rows[0]
    sources = [
        _latest([row for row in rows if _labelled(row["claims"][place])]) or whole
        for place in range(len(whole["claims"]))
    ]
    counted = [row for row in rows if any(row is each for each in ([whole] if _answered(whole) else []) + sources)]
    times = [row["annotation_time"] for row in counted if row["annotation_time"] is not None]
    dates = [row["labelled_at"] for row in counted if row["labelled_at"] is not None]
    claims = [row["claims"][place] for place, row in enumerate(sources)]
    times_and_dates = {"annotation_time": sum(times) if times else None, "labelled_at": max(dates, default=None)}
    return {**whole, **times_and_dates, "claims": claims}, len(rows) - len(counted)


def _latest(rows: list[Row]) -> Row | None:
    return reduce(later, rows) if rows else None


# ---------------------------------------------------------------- stages


@stage(LABELS, revision=4)
def read_labels(context: StageContext, files: Shard, claims: AllRows, answers: AllRows) -> Iterator[Row | Rejected]:
    """What annotators said of answers and their claims."""
    yield from read_sheets(FORM, files, labelled(answers, claims), partial(label_rows, count=context.count))


@stage(LABELS, revision=4)
def read_second_labels(
    context: StageContext, files: Shard, claims: AllRows, answers: AllRows
) -> Iterator[Row | Rejected]:
    """As `read_labels`: a second labelling, which only agreement is computed with (section 4.2)."""
    yield from read_sheets(FORM, files, labelled(answers, claims), partial(label_rows, count=context.count))


def label_rows(
    found: Iterable[Checked | Rejected], count: Callable[[str, int], None] = lambda name, number: None
) -> Iterator[Row | Rejected]:
    """Rows of LABELS, one for each annotator of each answer, and a Rejected for whatever is none."""
    rows: list[Row] = []
    shown: defaultdict[str, set[str]] = defaultdict(set)
    for each in found:
        if isinstance(each, Rejected):
            yield each
            continue
        row, wrong = label_row(each)
        yield from map(each.rejected, wrong)
        if says_something(row):
            rows.append(row)
            shown[row["label_id"]] |= each.items
    for name, (row, lost) in merged(rows).items():
        yield from [Rejected(name, "filtered", SUPERSEDED)] * lost
        count(NOT_SHOWN, len(row["claims"]) - len(shown[name]))
        yield row


def labelled(answers: Rows, claims: Rows) -> dict[str, Task]:
    """The answers that labels can be of, by their ids."""
    of_answer: defaultdict[str, list[Item]] = defaultdict(list)
    for batch in claims.batches(["answer_id", "claim_id", "text"]):
        for row in batch.to_pylist():
            of_answer[row["answer_id"]].append(Item(row["claim_id"], {"claim": row["text"]}))
    return {
        row["answer_id"]: Task(row["answer_id"], items=tuple(of_answer[row["answer_id"]]), context=row)
        for batch in answers.batches(["answer_id", "question_id", "system"])
        for row in batch.to_pylist()
    }


@stage(LABELS, revision=3, at_most=AtMost(rows=lambda of: of["answers"] + of["given"]))
def collect_labels(context: StageContext, answers: Rows, claims: Rows, given: AllRows) -> Iterator[Row | Rejected]:
    """The labels of each answer, released and given ones, by annotator; a Rejected for every released one that is none.

    Given ones win over released ones of the same annotator.
    """
    of_answer: defaultdict[str, list[Row]] = defaultdict(list)
    for claim in claims:
        of_answer[claim["answer_id"]].append(claim)
    for batch in answers.batches():
        of_batch = _given(given, batch["answer_id"])
        for answer in batch.to_pylist():
            yield from _collected(context, answer, of_answer[answer["answer_id"]], of_batch[answer["answer_id"]])


def _given(given: Rows, ids: pa.Array) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for batch in given.batches():
        for row in batch.filter(pc.is_in(batch["answer_id"], pa.array(ids))).to_pylist():
            found[row["answer_id"]].append(row)
    return found


def _collected(context: StageContext, answer: Row, claims: list[Row], given: list[Row]) -> Iterator[Row | Rejected]:
    taken = merged(given)
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
    """The labels that a released answer came with, None where it has none; and what of them is no label."""
    if answer["kind"] != "released":
        return None, []
    row, wrong = labels_of(answer, [claim for claim in claims if claim["original"] is not None])
    rejected = [
        Rejected(answer["answer_id"], "defect", each.reason, each.detail, (answer["claims"] or "")[:RAW_CHARS])
        for each in wrong
    ]
    return ({**row, "labelled_at": None} if says_something(row) else None), rejected
