"""What people say of feedback, layer by layer, read from filled-in sheets, and how far the judge says the same.

The frames hold rows of JUDGEMENTS. An item is a feedback text, or one with a criterion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row
from longform.engine.stage import AtMost, Shard, StageContext, stage
from schemas.llmcrit import JUDGEMENTS
from tasks.annotation.files import Rejectable, open_sheets, read_sheets
from tasks.annotation.form import Task
from tasks.annotation.labelling import Checked
from tasks.annotation.reviews import first_of, rows_of
from tasks.annotation.values import Unfit
from tasks.llmcrit.form import CONTEXT_FORM, CRITIQUE_FORM, VALIDITY_FORM, critique_tasks, feedback_tasks

if TYPE_CHECKING:
    import pandas as pd


LAYERS = ("validity", "context", "constructive", "helpful")
POSITIVE = ("specific", "match", "yes")
ALL = "all tasks"
open_judgements = partial(open_sheets, group="judgements")


def judgement_rows(found: Iterable[Checked | Rejected]) -> Rejectable:
    """The rows of JUDGEMENTS of these sheets, the first of each person on each item of each layer; Rejecteds."""
    yield from first_of(rows_of(found, _rows), "judgement_id", "judgement_id")


def _rows(found: Checked) -> list[Row | Unfit]:
    """A row for each layer of which the person and the judge both say something; an Unfit if there is none. Whether a
    critique helps counts only where the person says that there is one.
    """
    said, judge = {layer: label for (_, layer), label in found.values.items()}, found.task.context
    if said.get("constructive") != "yes":
        said.pop("helpful", None)
    ids = {"item_id": found.task.id, "annotator_id": found.annotator}
    rows: list[Row | Unfit] = [
        {"judgement_id": f"j_{fingerprint([layer, *ids.values()])}", "layer": layer, "task": judge["task"], **ids}
        | {"label": label, "judge": judge[layer]}
        for layer, label in said.items()
        if judge[layer] is not None
    ]
    return rows or [Unfit("no verdict")]


def _judged(tasks: Iterable[Task], judge: Mapping[str, Row]) -> dict[str, Task]:
    """id -> task, of those that were judged; their contexts hold the judge's verdict of each layer."""
    return {task.id: replace(task, context={**task.context, **judge[task.id]}) for task in tasks if task.id in judge}


def _verdicts(judged: AllRows, layer: str) -> dict[str, Row]:
    """feedback_id -> {layer: the judge's verdict}, of real feedback."""
    rows = judged.as_dicts("feedback_id", "planted", "verdict")
    return {row["feedback_id"]: {layer: row["verdict"]} for row in rows if row["planted"] is None}


def _with_texts(feedback: AllRows, texts: AllRows) -> Iterator[Row]:
    of_id = {row["text_id"]: row["text"] for row in texts.as_dicts("text_id", "text")}
    rows = feedback.as_dicts("feedback_id", "text_id", "task", "feedback")
    return ({**row, "text": of_id[row["text_id"]]} for row in rows)


# ---------------------------------------------------------------- stages


@stage(JUDGEMENTS, revision=2)
def read_validity_judgements(context: StageContext, files: Shard, feedback: AllRows, validity: AllRows) -> Rejectable:
    """What people say of the validity of feedback, from one file, the first of each on each. A Rejected for what is no
    judgement. SourceError, after the last row, for a file without one.
    """
    tasks = feedback_tasks(feedback.as_dicts("feedback_id", "task", "feedback"), "feedback")
    yield from read_sheets(VALIDITY_FORM, files, _judged(tasks, _verdicts(validity, "validity")), judgement_rows)


@stage(JUDGEMENTS, revision=2)
def read_context_judgements(
    context: StageContext, files: Shard, feedback: AllRows, texts: AllRows, judged: AllRows
) -> Rejectable:
    """Whether feedback belongs to its text, as `read_validity_judgements`. `judged`: rows of CONTEXT."""
    tasks = feedback_tasks(_with_texts(feedback, texts), "text", "feedback")
    yield from read_sheets(CONTEXT_FORM, files, _judged(tasks, _verdicts(judged, "context")), judgement_rows)


@stage(JUDGEMENTS, revision=2)
def read_critique_judgements(
    context: StageContext, files: Shard, critiques: AllRows, feedback: AllRows, texts: AllRows, criteria: AllRows
) -> Rejectable:
    """Whether there is a critique, and whether it helps where the person and the judge see one: a row for each."""
    rows = list(critiques.as_dicts("critique_id", "feedback_id", "criterion_id", "task", "planted", *LAYERS[2:]))
    words = {True: "yes", False: "no", None: None}
    judge = {row["critique_id"]: {layer: words[row[layer]] for layer in LAYERS[2:]} for row in rows}
    tasks = critique_tasks(rows, _with_texts(feedback, texts), criteria.as_dicts("criterion_id", "name", "check"))
    yield from read_sheets(CRITIQUE_FORM, files, _judged(tasks, judge), judgement_rows)


@stage(
    JUDGEMENTS,
    revision=1,
    split_by="task",
    at_most=AtMost(rows=lambda of: of["validity"] + of["context_"] + of["critiques"]),
)
def collect_judgements(context: StageContext, validity: AllRows, context_: AllRows, critiques: AllRows) -> Rejectable:
    """The judgements of all files, the first of each person on each item of each layer; a Rejected for others."""
    yield from first_of(chain(validity, context_, critiques), "judgement_id", "judgement_id")


# ---------------------------------------------------------------- agreement


def agreement_by_layer(judgements: pd.DataFrame) -> pd.DataFrame:
    """How far people agree, and the judge with them (`judge_figures`): a row for each layer and task, and one ALL of
    each layer, with the paper's figures beside it; empty without judgements.
    """
    import pandas as pd

    from tasks.annotation.judges import judge_figures
    from tasks.llmcrit.tables import PRINTED
    from tasks.publishing.printed import beside, printed

    rows: list[Row] = []
    for layer in LAYERS:
        own = judgements[judgements["layer"] == layer]
        for task in [*sorted(own["task"].unique()), ALL] if len(own) else []:
            of_task = own if task == ALL else own[own["task"] == task]
            rows.append({"layer": layer, "task": task, **judge_figures(of_task, POSITIVE)})
    return beside(pd.DataFrame(rows), printed(PRINTED, "judges"), on=["layer", "task"]) if rows else pd.DataFrame()


def doubted(judgements: pd.DataFrame, least: float) -> dict[str, str]:
    """layer -> a sentence for its tables, if its judge is right on less than the share `least` of `agreed_items`."""
    found = {}
    for row in agreement_by_layer(judgements).to_dict("records"):
        if row["task"] == ALL and row["accuracy, %"] < 100 * least:
            low, high = row["accuracy, % from"], row["accuracy, % to"]
            found[row["layer"]] = (
                f"In doubt: the judge of this layer ({row['layer']}) says as people do of {row['accuracy, %']:.1f} % "
                f"(95 % interval {low:.1f} to {high:.1f}) of the {row['compared']:,} items on which they agree "
                f"(annotators: {row['people']}), less than {100 * least:g} %."
            )
    return found
