"""What people fill in: reviews of criteria and of demonstrations, and what they say of feedback, layer by layer.

No sheet shows which model wrote a text, how it was asked, or what the judge says. Fields are named after their layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from longform.artifacts.rows import Row, grouped, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.annotation.form import Field, Form, Item, Sheets, Shown, Task
from tasks.annotation.reviews import VERDICTS, no_review
from tasks.llmcrit.criteria.criteria import shown

MOST = 100  # sheets of a layer and task
AIMS = {True: "to meet", False: "to violate", None: "as it is"}
FEEDBACK = ("feedback_id", "task", "feedback", "text", "validity", "context")
CRITIQUES = ("critique_id", "feedback_id", "criterion_id", "task", "planted")

_form = partial(Form, annotator="annotator_id", context=("task",))
_required = partial(Field, kind="choice", required=True)

CRITERION_FORM = _form(
    name="llmcrit-criteria",
    guidance=(
        "Is each criterion one check, that can be done on a text, and does the guideline ask for it? Give an edit's "
        "new name or new check; what you leave blank stays."
    ),
    key="aspect_id",
    shown=(Shown("aspect"), Shown("guideline", required=False), Shown("criterion", of_item=True)),
    items="criteria",
    item_key="criterion_id",
    ordered=True,
    fields=(
        _required("verdict", "Accept, edit or reject the criterion?", choices=VERDICTS, of_item=True),
        Field("new_name", "Its name as you would have it", "text", of_item=True),
        Field("new_check", "The check as you would have it", "text", of_item=True),
    ),
    unfit=partial(no_review, new=("new_name", "new_check")),
)
DEMONSTRATION_FORM = _form(
    name="llmcrit-demonstrations",
    guidance=(
        "Does the text violate the criteria that it is to violate, and does the feedback say so, rightly and usefully? "
        "Give an edit's new text or new feedback; what you leave blank stays."
    ),
    key="demonstration_id",
    shown=(Shown("criteria", required=False), Shown("input"), Shown("output")),
    fields=(
        _required("verdict", "Accept, edit or reject the demonstration?", choices=VERDICTS),
        Field("new_input", "The text as you would have it", "text"),
        Field("new_output", "The feedback as you would have it", "text"),
    ),
    unfit=partial(no_review, new=("new_input", "new_output")),
)
VALIDITY_FORM = _form(
    name="llmcrit-validity",
    guidance=(
        "Is it feedback on one particular text? Specific: some of it says something of a text, or that a rule is met, "
        "broken, or does not apply. Not specific: advice on writing, rules, a new version, or no feedback."
    ),
    key="feedback_id",
    shown=(Shown("feedback"),),
    fields=(_required("validity", "Is the feedback specific?", choices=("specific", "not specific")),),
)
CONTEXT_FORM = _form(
    name="llmcrit-context",
    guidance="Match: it speaks of what this text has, does or lacks. Unsure: it may belong to any text of this kind.",
    key="feedback_id",
    shown=(Shown("text"), Shown("feedback")),
    fields=(_required("context", "Does it belong to the text?", choices=("match", "not match", "unsure")),),
)
CRITIQUE_FORM = _form(
    name="llmcrit-critiques",
    guidance=(
        "Look only for what the feedback says with regard to the criterion; praise is no critique. A critique helps if "
        "it says where and how to change this text, and is right."
    ),
    key="critique_id",
    shown=(Shown("text"), Shown("feedback"), Shown("criterion")),
    fields=(
        _required("constructive", "Does it criticise, or suggest a change?", choices=("yes", "no")),
        Field("helpful", "If so: does that help the writer?", "choice", ("yes", "no")),
    ),
    unfit=lambda values: None if "constructive" in values else "no verdict",
)

# ---------------------------------------------------------------- tasks


def _task(name: str, row: Row, texts: Mapping[str, str], items: tuple[Item, ...] = ()) -> Task:
    """A task of this id, drawn by itself among those of the row's `task`."""
    return Task(name, texts, items, {"task": row["task"]}, group=name, stratum=row["task"])


def criterion_tasks(aspects: Iterable[Row], criteria: Iterable[Row]) -> Iterator[Task]:
    """A task for each aspect that has criteria. An edited criterion is shown as it was proposed, so that all reviewers
    judge the same text, and sheets of any version can be read.
    """
    of_aspect = grouped(sorted(criteria, key=lambda row: row["position"]), "aspect_id")
    for aspect in aspects:
        if own := of_aspect[aspect["aspect_id"]]:
            items = (Item(row["criterion_id"], {"criterion": row["proposed"] or shown(row)}) for row in own)
            texts = {"aspect": aspect["name"], "guideline": aspect["guideline"]}
            yield _task(aspect["aspect_id"], aspect, texts, tuple(items))


def demonstration_tasks(demonstrations: Iterable[Row]) -> Iterator[Task]:
    """A task for each demonstration, but for those that a person edited: what was proposed is no longer there."""
    for row in demonstrations:
        if row["state"] != "edited":
            aims = (f"{AIMS[each['satisfied']]}: {shown(each)}" for each in row["criteria"])
            texts = {"criteria": "\n".join(aims), "input": row["input"], "output": row["output"]}
            yield _task(row["demonstration_id"], row, texts)


def feedback_tasks(feedback: Iterable[Row], *texts: str) -> Iterator[Task]:
    """A task for each feedback, which shows these columns of its row."""
    for row in feedback:
        yield _task(row["feedback_id"], row, {name: row[name] for name in texts})


def critique_tasks(critiques: Iterable[Row], feedback: Iterable[Row], criteria: Iterable[Row]) -> Iterator[Task]:
    """A task for each critique of real feedback. `feedback`: with the column `text`, what the feedback is on."""
    of_id = {row["feedback_id"]: {"text": row["text"], "feedback": row["feedback"]} for row in feedback}
    checks = {row["criterion_id"]: shown(row) for row in criteria}
    for row in critiques:
        if row["planted"] is None:
            texts = {**of_id[row["feedback_id"]], "criterion": checks[row["criterion_id"]]}
            yield _task(row["critique_id"], row, texts)


# ---------------------------------------------------------------- sheets of a version


def _rows(version: Version, config: str, *columns: str) -> Iterator[Row]:
    """The rows of a config of a version, with these columns or all; none if it has no such config."""
    for path in version.tables().get(config, []):
        for batch in read_batches(path, 1_000, list(columns) or None):
            yield from batch.to_pylist()


def _criteria(version: Version) -> Iterator[Task]:
    return criterion_tasks(_rows(version, "aspects"), _rows(version, "criteria"))


def _demonstrations(version: Version) -> Iterator[Task]:
    return demonstration_tasks(_rows(version, "demonstrations"))


def _feedback(layer: str, version: Version) -> Iterator[Task]:
    rows = (row for row in _rows(version, "feedback", *FEEDBACK) if row[layer] is not None)
    return feedback_tasks(rows, *(("text", "feedback") if layer == "context" else ("feedback",)))


def _critiques(version: Version) -> Iterator[Task]:
    critiques, feedback = _rows(version, "critiques", *CRITIQUES), _rows(version, "feedback", *FEEDBACK)
    return critique_tasks(critiques, feedback, _rows(version, "criteria"))


def _sheets(
    form: Form, tasks: Callable[[Version], Iterator[Task]], setting: str, what: str, store: Store, version: Version
) -> Sheets:
    """A published version's sheets, of a layer at most MOST of each task. `what`: what the version may lack."""
    missing = f"{version.dataset} {version.name} has no {what}: build a version that has, or name another one."
    return Sheets(form, list(tasks(version)), setting, missing, MOST if setting.endswith("judgements") else None)


FORMS: dict[str, Callable[[Store, Version], Sheets]] = {
    name: partial(_sheets, form, tasks, setting, what)
    for name, form, tasks, setting, what in (
        ("criteria", CRITERION_FORM, _criteria, "criterion_reviews", "criteria to review"),
        ("demonstrations", DEMONSTRATION_FORM, _demonstrations, "demonstration_reviews", "demonstrations to review"),
        ("validity", VALIDITY_FORM, partial(_feedback, "validity"), "validity_judgements", "judged feedback"),
        ("context", CONTEXT_FORM, partial(_feedback, "context"), "context_judgements", "judged feedback"),
        ("critiques", CRITIQUE_FORM, _critiques, "critique_judgements", "judged feedback"),
    )
}
