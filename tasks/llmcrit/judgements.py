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
from tasks.annotation.values import Unfit
from tasks.llmcrit.form import CONTEXT_FORM, CRITIQUE_FORM, VALIDITY_FORM, critique_tasks, feedback_tasks
from tasks.llmcrit.reviews import first_of, rows_of

if TYPE_CHECKING:
    import pandas as pd

    from tasks.annotation.agreement import Measure
    from tasks.metrics.intervals import Floats

LAYERS = ("validity", "context", "constructive", "helpful")
POSITIVE = ("specific", "match", "yes")
ALL, NAN = "all tasks", float("nan")
PAPER = {  # of LLMCrit, 4.3 and its footnote on label balance, in percent, of each of LAYERS
    "agreed, %": (95.33, 92.0, 91.0, 89.67),
    "accuracy, %": (96.48, 94.23, 95.22, 88.53),
    "macro F1, %": (83.38, 70.24, 95.05, 77.25),
    "positive by people, %": (93.0, 93.0, 39.0, 82.0),
}
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


@stage(JUDGEMENTS, revision=1)
def read_validity_judgements(context: StageContext, files: Shard, feedback: AllRows, validity: AllRows) -> Rejectable:
    """What people say of the validity of feedback, from one file, the first of each on each. A Rejected for what is no
    judgement. SourceError, after the last row, for a file without one.
    """
    tasks = feedback_tasks(feedback.as_dicts("feedback_id", "task", "feedback"), "feedback")
    yield from read_sheets(VALIDITY_FORM, files, _judged(tasks, _verdicts(validity, "validity")), judgement_rows)


@stage(JUDGEMENTS, revision=1)
def read_context_judgements(
    context: StageContext, files: Shard, feedback: AllRows, texts: AllRows, judged: AllRows
) -> Rejectable:
    """Whether feedback belongs to its text, as `read_validity_judgements`. `judged`: rows of CONTEXT."""
    tasks = feedback_tasks(_with_texts(feedback, texts), "text", "feedback")
    yield from read_sheets(CONTEXT_FORM, files, _judged(tasks, _verdicts(judged, "context")), judgement_rows)


@stage(JUDGEMENTS, revision=1)
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
    """How far people agree, and the judge with them: a row for each layer and task, and one ALL of each layer, with the
    paper's figures beside it; empty without judgements. In percent; NaN where there is no figure.

    Accuracy, macro F1 and the shares of positive labels are of `agreed_items`, whose number is in `compared`. Intervals
    (95 %): Wilson's of accuracy, else by bootstrap over items.
    """
    import pandas as pd

    from tasks.publishing.printed import beside

    rows = []
    for layer in LAYERS:
        own = judgements[judgements["layer"] == layer]
        for task in [*sorted(own["task"].unique()), ALL] if len(own) else []:
            rows.append({"layer": layer, "task": task, **_figures(own if task == ALL else own[own["task"] == task])})
    paper = pd.DataFrame({"layer": LAYERS, "task": ALL, **PAPER})
    return beside(pd.DataFrame(rows), paper, on=["layer", "task"]) if rows else pd.DataFrame()


def agreed_items(judgements: pd.DataFrame) -> pd.DataFrame:
    """The items of which all people say the same, with columns `label` and `judge`: of those that two or more people
    judged, or of all if no item was judged by two. `judgements`: of one layer.
    """
    labels = judgements.groupby("item_id")["label"]
    number = labels.transform("size")
    kept = (labels.transform("nunique") == 1) & (number >= min(2, number.max()))
    found: pd.DataFrame = judgements[kept].drop_duplicates("item_id")
    return found


def _figures(judgements: pd.DataFrame) -> Row:
    """The figures of a row of `agreement_by_layer`, from the judgements that it is about."""
    from tasks.annotation.agreement import alpha, pairwise_share, units
    from tasks.metrics.intervals import share_interval

    twice = units(judgements.rename(columns={"task": "task_id", "label": "value"}))
    people, items = alpha(twice), agreed_items(judgements)
    f1, same = macro_f1(items), items["label"] == items["judge"]
    return {
        "people": judgements["annotator_id"].nunique(),
        "judged by two or more": len(twice),
        **_numbers("agreed, %", pairwise_share(twice)),
        **_numbers("Krippendorff's alpha", people.value, *people.bounds(), times=1),
        "compared": len(items),
        **_numbers("accuracy, %", same.mean(), *share_interval(same.sum(), len(items))),
        **_numbers("macro F1, %", f1.value, *f1.bounds()),
        **_numbers("positive by people, %", items["label"].isin(POSITIVE).mean()),
        **_numbers("positive by the judge, %", items["judge"].isin(POSITIVE).mean()),
    }


def _numbers(name: str, value: float | None, *bounds: float, times: int = 100) -> Row:
    """`name`: the value, NaN for None; `name from`, `name to`: its bounds, if given; all multiplied by `times`."""
    found = zip((name, f"{name} from", f"{name} to"), (value, *bounds), strict=False)
    return {key: NAN if each is None else times * each for key, each in found}


def macro_f1(items: pd.DataFrame) -> Measure:
    """The mean F1 of the labels that occur in the columns `label`, the truth, or `judge`."""
    import numpy as np
    import pandas as pd

    from tasks.annotation.agreement import Measure
    from tasks.metrics.intervals import ratio

    def mean(sums: Floats) -> Floats:
        hits, marks = np.split(sums, 2, axis=-1)
        return ratio(np.nansum(ratio(2 * hits, marks), axis=-1), np.sum(marks > 0, axis=-1, dtype=float))

    people, judge = np.split(pd.get_dummies(pd.concat([items["label"], items["judge"]]), dtype=float).to_numpy(), 2)
    return Measure(np.column_stack([people * judge, people + judge]), mean)


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
