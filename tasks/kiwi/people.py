"""What people say of turns, and questions that they write, from filled-in sheets; how far they and models agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Shard
from longform.engine.stage import AtMost, StageContext, stage
from schemas.kiwi import ASKED, SAID
from tasks.annotation.files import Rejectable, open_sheets, read_sheets
from tasks.annotation.labelling import Checked
from tasks.annotation.reviews import first_of, rows_of
from tasks.annotation.values import Unfit
from tasks.kiwi.form import OF_TURNS, QUESTION_FORM, question_tasks, turn_tasks
from tasks.kiwi.questions import question_id_of

if TYPE_CHECKING:
    pass

RATINGS = "ratings"
open_said = partial(open_sheets, group="sheets")


def _read(name: str, files: Shard, turns: Iterable[Row], known: dict[str, str | None]) -> Rejectable:
    """The rows of SAID of a file of sheets of this form. `known`: turn_id -> what was said of it before."""
    form, texts, wanted, _ = OF_TURNS[name]
    rows = {turn["turn_id"]: turn for turn in turns if wanted(turn)}
    tasks = {task.id: task for task in turn_tasks(rows.values(), *texts, again=name == RATINGS)}

    def said(found: Checked) -> list[Row | Unfit]:
        field = form.fields[0].name
        values = {of: value for (_, of), value in found.values.items()}
        if field not in values:
            return [Unfit("no verdict", found.task.id)]
        ids = {"turn_id": found.task.id, "annotator_id": found.annotator}
        row = {"said_id": f"l_{fingerprint([name, *ids.values()])}", "form": name, **ids, "label": values[field]}
        return [{**row, "known": known.get(found.task.id), "comment": values.get("comment")}]

    yield from read_sheets(form, files, tasks, lambda found: first_of(rows_of(found, said), "said_id", "turn_id"))


@stage(SAID, revision=2)
def read_second_ratings(context: StageContext, files: Shard, turns: AllRows) -> Rejectable:
    """Second ratings of turns from one file, the first of each person on each turn; known is the first rating. A
    Rejected for what is none, and for a person who rates a turn of their own session. SourceError, after the last row,
    for a file without one.
    """
    rows = list(turns)
    yield from _read("ratings", files, rows, {turn["turn_id"]: turn["rating"] for turn in rows})


@stage(SAID, revision=2)
def read_category_labels(context: StageContext, files: Shard, turns: AllRows, labels: AllRows) -> Rejectable:
    """Categories of instructions by people, as `read_second_ratings`; known is the model's."""
    yield from _read("categories", files, turns, {row["turn_id"]: row["label"] for row in labels})


@stage(SAID, revision=2)
def read_error_labels(context: StageContext, files: Shard, turns: AllRows, labels: AllRows) -> Rejectable:
    """Errors of turns by people, as `read_second_ratings`; known is the model's."""
    yield from _read("errors", files, turns, {row["turn_id"]: row["label"] for row in labels})


@stage(SAID, revision=2)
def read_failure_labels(context: StageContext, files: Shard, turns: AllRows) -> Rejectable:
    """What retrieval found, by people, as `read_second_ratings`; nothing is known of it before."""
    yield from _read("failures", files, turns, {})


@stage(SAID, revision=1, split_by="form", at_most=AtMost(rows=lambda of: sum(of[name] for name in OF_TURNS)))
def collect_said(
    context: StageContext, ratings: AllRows, categories: AllRows, errors: AllRows, failures: AllRows
) -> Rejectable:
    """What people say of turns, of all files, the first of each person on each turn; a Rejected for others."""
    yield from first_of(chain(ratings, categories, errors, failures), "said_id", "said_id")


@stage(ASKED, revision=2)
def read_written_questions(context: StageContext, files: Shard, documents: AllRows) -> Rejectable:
    """Questions that people wrote for paragraphs, with the papers they name, else all; a Rejected for others."""
    rows = {row["related_id"]: row for row in documents}

    def questions(found: Iterable[Checked | Rejected]) -> Iterator[Row | Rejected]:
        for each in found:
            yield each if isinstance(each, Rejected) else _written(each, rows[each.task.id])

    known = {task.id: task for task in question_tasks(rows.values())}
    yield from read_sheets(QUESTION_FORM, files, known, questions)


def _written(found: Checked, documents: Row) -> Row | Rejected:
    """The row of ASKED of a sheet."""
    values = {name: value for (_, name), value in found.values.items()}
    question = " ".join(str(values.get("question", "")).split())
    if not question:
        return found.rejected(Unfit("no question", found.task.id))
    named = {title.strip().casefold() for title in values.get("evidence", [])}
    evidence = [each for each in documents["documents"] if not named or each["title"].casefold() in named]
    return {
        "question_id": question_id_of(question, documents["text"]),
        "question": question,
        "topic": (values.get("topic") or "").strip() or None,
        "source_paper": documents["title"],
        "source_id": documents["paper_id"],
        "paragraph": documents["text"],
        "evidence": evidence,
        "given": [],
        **{name: documents[name] for name in ("licence", "url", "retrieved_at")},
    }
