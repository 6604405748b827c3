"""The form that experts fill in: usefulness of an answer, and the properties of each of its claims (section 2.2, table
3).

Experts do not see which system answered. Claims are shown in the order of their answer, since a claim may refer to
those before it. `left_out` set to Yes, or in JSON a blank `revised_claim`, leaves a claim out of the revised answer.
`sheets` gives this form and its tasks; tasks/annotation/sheets.py makes records of them, argilla.py Argilla's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from longform.artifacts.rows import Row, grouped
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows
from tasks.annotation.form import Field, Form, Item, Sheets, Shown, Task
from tasks.expertqa.vocabulary import fields, ratings, spellings, type_texts

ANSWER_PROPERTIES = ("usefulness", "revised_answer")
CLAIM_PROPERTIES = (
    "support",
    "reason_missing_support",
    "informativeness",
    "worthiness",
    "correctness",
    "reliability",
    "revised_claim",
    "revised_evidence",
)
NO_EVIDENCE = "(no evidence)"
STAGES = ("read_questions", "sample_answers", "collect_answers", "link_cited_pages")


def _rating(name: str, question: str, *, of_item: bool = True) -> Field:
    """A required field of the form whose choices are the labels of the property `name`. `question`: its words in the
    form. `of_item`: it is asked of each claim, else of the answer.
    """
    return Field(name, question, "choice", ratings(name), spellings(name), of_item=of_item, required=True)


FORM = Form(
    name="expertqa",
    guidance=(
        "Judge an answer and each of its claims as an expert of the field. Pieces of evidence that you add are divided "
        "by a line of three dashes (---)."
    ),
    key="answer_id",
    annotator="annotator_id",
    context=("question_id",),
    shown=(
        Shown("field"),
        Shown("question"),
        Shown("answer"),
        Shown("claim", of_item=True),
        Shown("evidence", of_item=True),
    ),
    items="claims",
    item_key="claim_id",
    ordered=True,
    fields=(
        _rating("usefulness", "How useful is the whole answer to you?", of_item=False),
        Field("revised_answer", "The whole answer as you would have it", "text"),
        _rating("support", "How far does the evidence support the claim?"),
        Field("reason_missing_support", "If it does not support all of it: what is missing?", "text", of_item=True),
        _rating("informativeness", "How relevant is the claim to the question?"),
        _rating("worthiness", "Does the claim need a citation?"),
        _rating("correctness", "As far as you know: is the claim correct?"),
        _rating("reliability", "How reliable is the source of the evidence?"),
        Field("left_out", "Should the claim be left out of the answer?", "choice", ("Yes", "No"), of_item=True),
        Field(
            "revised_claim",
            "The claim as you would have it, where it needs a change",
            "text",
            of_item=True,
            blank=True,
            not_beside=("left_out", "Yes"),
        ),
        Field("revised_evidence", "Better evidence, as addresses or passages", "texts", of_item=True),
    ),
)


QUESTIONS = 5  # of an expert, of which at least two are scenarios (section 2.1)
QUESTION_FORM = Form(
    name="expertqa-questions",
    guidance=(
        "Write five questions of your field that you have been asked or have asked yourself, and that take research "
        "and some sentences to answer; the last two about a hypothetical scenario. Mark every kind that a question is."
    ),
    key="field_id",
    annotator="annotator_id",
    shown=(Shown("field"), Shown("wanted", of_item=True)),
    items="questions",
    item_key="number",
    ordered=True,
    fields=(
        Field("question", "The question", "text", of_item=True, required=True),
        Field("question_types", "Its kinds", "choices", tuple(type_texts().values()), of_item=True, required=True),
        Field("specific_field", "Which part of your field it is about", "text", of_item=True),
    ),
)


def question_sheets(store: Store, version: Version) -> Sheets:
    """The form by which experts write questions, and a task for each of the 32 fields; none of it is of the version.
    Filled-in sheets are files of the question bank.
    """
    wanted = ["A question of any kind"] * (QUESTIONS - 2) + ["A question about a hypothetical scenario"] * 2
    items = tuple(Item(str(number), {"wanted": text}) for number, text in enumerate(wanted, start=1))
    tasks = [Task(name, {"field": name}, items, group=name, stratum=name) for name in fields()]
    return Sheets(QUESTION_FORM, tasks, "questions", "there are no fields of study")


def sheets(store: Store, version: Version) -> Sheets:
    """The form and a task for each sampled answer of a version, in the order of the answers. No tasks if the version
    has no sampled answers or lacks one of the STAGES; `missing` of the result is the message for that case. StoreError
    if the rows of a stage are no longer stored.
    """
    missing = f"{version.dataset} {version.name} has no answer to label: build it with answers that are sampled."
    if not {*STAGES} <= version.stages.keys():
        return Sheets(FORM, [], "labels", missing)
    sampled = {row["answer_id"] for row in stage_rows(store, version, "sample_answers", ["answer_id"])}
    answers, claims = (
        (row for row in stage_rows(store, version, stage, columns) if row["answer_id"] in sampled)
        for stage, columns in (("collect_answers", ["answer_id", "question_id", "text"]), ("link_cited_pages", None))
    )
    asked = stage_rows(store, version, "read_questions", ["question_id", "annotator_id", "field", "question"])
    return Sheets(FORM, list(tasks(asked, answers, claims)), "labels", missing)


def tasks(questions: Iterable[Row], answers: Iterable[Row], claims: Iterable[Row]) -> Iterator[Task]:
    """A labelling task for each of `answers`, in order, meant for the expert who asked its question. Tasks of one
    question form a group, the field of study is their stratum.

    `questions`: must have the question of each answer, else KeyError. `answers`: the sampled ones. `claims`: their
    claims, in the order of each answer.
    """
    asked = {question["question_id"]: question for question in questions}
    claims_of = grouped(claims, "answer_id")
    for answer in answers:
        question = asked[answer["question_id"]]
        yield Task(
            answer["answer_id"],
            {"field": question["field"], "question": question["question"], "answer": answer["text"]},
            tuple(_item(claim) for claim in claims_of[answer["answer_id"]]),
            {"question_id": question["question_id"]},
            question["annotator_id"],
            group=question["question_id"],
            stratum=question["field"],
        )


def _item(claim: Row) -> Item:
    """A claim as an item of a task, with its evidence as one text, "(no evidence)" if it has none."""
    return Item(claim["claim_id"], {"claim": claim["text"], "evidence": shown(claim["evidence"])})


def shown(evidence: Sequence[Row]) -> str:
    """The evidence of a claim as one text, pieces separated by empty lines; "(no evidence)" if there is none."""
    return "\n\n".join(_one(each) for each in evidence) or NO_EVIDENCE


def _one(evidence: Row) -> str:
    """Number and address of a piece of evidence on one line, its passage on the next, as far as it has them; its
    released text if it has neither address nor passage.
    """
    number = f"[{evidence['number']}]" if evidence["number"] is not None else None
    text = evidence["text"] or (None if evidence["url"] else evidence["given"])
    head = " ".join(part for part in (number, evidence["url"]) if part)
    return "\n".join(part for part in (head, text) if part)
