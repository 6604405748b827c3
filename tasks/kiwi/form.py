"""What people fill in beside live sessions: questions for related-work paragraphs, second ratings, categories, errors,
and what retrieval found (KIWI, 3.1, 4 and 5).

No sheet shows which model wrote an answer, or what another person or a model said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from longform.artifacts.rows import Row, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows
from tasks.annotation.form import Field, Form, Sheets, Shown, Task
from tasks.kiwi.audits import SIMULATED
from tasks.kiwi.interaction import INFORMATION, RATINGS
from tasks.kiwi.labels import CATEGORIES, ERRORS

MOST = {"ratings": 65, "categories": 40, "errors": 22, "failures": 20}  # sheets, as in the paper
FOUND = ("relevant", "partly", "none")

_form = partial(Form, annotator="annotator_id")
_required = partial(Field, kind="choice", required=True)

QUESTION_FORM = _form(
    name="kiwi-questions",
    guidance=(
        "Write a question that this paragraph answers. It takes several sentences to answer, can be understood "
        "without the paragraph, and names no paper. At least four of the cited papers must help to answer it. "
        "Leave the sheet out if there is no such question."
    ),
    key="related_id",
    context=("source_id",),
    shown=(Shown("title", required=False), Shown("paragraph"), Shown("papers")),
    fields=(
        Field("question", "The question", "text", required=True),
        Field("evidence", "Titles of the papers that help to answer it, one each", "texts"),
        Field("topic", "Its topic", "text"),
    ),
)
RATING_FORM = _form(
    name="kiwi-ratings",
    guidance=(
        "Was the instruction followed? Good: in full. Neutral: in part. Bad: not at all, or the answer is worse "
        "than before. Give your reason."
    ),
    key="turn_id",
    shown=(Shown("question"), Shown("before"), Shown("instruction"), Shown("answer")),
    fields=(
        _required("rating", "How well was the instruction followed?", choices=RATINGS),
        Field("comment", "Why?", "text", required=True),
    ),
    unfit=lambda values: None if "rating" in values else "no verdict",
)
CATEGORY_FORM = _form(
    name="kiwi-categories",
    guidance=(
        "Which kind of instruction is it? More information: something beside the answer proper, such as an "
        "example, a result or a limit. Expand coverage: more that answers the question itself. Clarification: "
        "what something means that is there already, or whether it holds. Remove: take something out. Specific "
        "edit: the words to put in are given. Condense: shorten or sum up. Reorganize: move, group or order what "
        "is there. Others: none of these."
    ),
    key="turn_id",
    shown=(Shown("question"), Shown("instruction")),
    fields=(_required("category", "Kind of instruction", choices=CATEGORIES),),
)
ERROR_FORM = _form(
    name="kiwi-errors",
    guidance=(
        "What went wrong, by the reader's comment? Unrequested change: something was changed, added or lost that "
        "nobody mentioned. Ignored: next to nothing was done. Constraint failure: a length, number, place or form"
        " is missed. Poor integration: the new part does not fit in. Others: anything else, such as something "
        "vague or wrong."
    ),
    key="turn_id",
    shown=(Shown("instruction"), Shown("comment")),
    fields=(_required("error", "Kind of error", choices=ERRORS),),
)
FAILURE_FORM = _form(
    name="kiwi-failures",
    guidance=(
        "Do the passages hold what the instruction asks for? Relevant: enough to follow it. Partly: some of it. "
        "None: nothing of it."
    ),
    key="turn_id",
    shown=(Shown("question"), Shown("instruction"), Shown("passages")),
    fields=(_required("failure", "What was retrieved is", choices=FOUND),),
)

# ---------------------------------------------------------------- tasks


def question_tasks(documents: Iterable[Row]) -> Iterator[Task]:
    """A task for each document set."""
    for row in documents:
        papers = "\n".join(each["title"] for each in row["documents"])
        texts = {"title": row["title"] or "", "paragraph": row["text"], "papers": papers}
        yield Task(row["related_id"], texts, context={"source_id": row["paper_id"]}, group=row["related_id"])


def turn_tasks(turns: Iterable[Row], *texts: str, again: bool = False) -> Iterator[Task]:
    """A task for each turn, which shows these columns; `again`: by others than the reader of its session."""
    for row in turns:
        shown = {name: row[name] for name in texts if name != "passages"}
        if "passages" in texts:
            shown["passages"] = "\n\n".join(f"{each['title']}\n{each['text']}" for each in row["passages"])
        yield Task(row["turn_id"], shown, not_for=row["annotator_id"] if again else None, group=row["turn_id"])


def _of_people(turn: Row) -> bool:
    return bool(turn["origin"] != SIMULATED)


def _went_wrong(turn: Row) -> bool:
    return bool(turn["rating"] != "good" and turn["comment"].strip())


def _searched(turn: Row) -> bool:
    return bool(turn["rating"] != "good" and turn["kind"] == INFORMATION and turn["passages"])


OF_TURNS: dict[str, tuple[Form, tuple[str, ...], Callable[[Row], bool], str]] = {
    "ratings": (RATING_FORM, ("question", "before", "instruction", "answer"), _of_people, "second_ratings"),
    "categories": (CATEGORY_FORM, ("question", "instruction"), _of_people, "category_labels"),
    "errors": (ERROR_FORM, ("instruction", "comment"), _went_wrong, "error_labels"),
    "failures": (FAILURE_FORM, ("question", "instruction", "passages"), _searched, "failure_labels"),
}  # form name -> form, what it shows, of which turns, the setting in which its sheets are named

# ---------------------------------------------------------------- sheets of a version


def _turns(version: Version) -> Iterator[Row]:
    for path in version.tables().get("turns", []):
        for batch in read_batches(path, 1_000, None):
            yield from batch.to_pylist()


def _sheets_of_turns(name: str, store: Store, version: Version) -> Sheets:
    form, texts, wanted, setting = OF_TURNS[name]
    turns = [turn for turn in _turns(version) if wanted(turn)]
    tasks = turn_tasks([*filter(_of_people, turns)] or turns, *texts, again=name == "ratings")
    missing = f"{version.dataset} {version.name} has no turns for this form: build a version that has, or name another."
    return Sheets(form, list(tasks), setting, missing, MOST[name])


def _sheets_of_questions(store: Store, version: Version) -> Sheets:
    tasks = list(question_tasks(stage_rows(store, version, "find_documents")))
    missing = f"{version.dataset} {version.name} has no related-work paragraph with papers: build it of papers."
    return Sheets(QUESTION_FORM, tasks, "written_questions", missing)


FORMS: dict[str, Callable[[Store, Version], Sheets]] = {
    "questions": _sheets_of_questions,
    **{name: partial(_sheets_of_turns, name) for name in OF_TURNS},
}
