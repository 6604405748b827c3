"""The audits of ExpertQA: answers and revisions by models that are no answers.

`collect_answers` applies those of answers, before their claims are judged, `split_randomly` and `split_by_field` those
of revisions. An answer that abstains is a row: table 4 counts it. Released and commercial answers, and what people
revised, are not looked at; of an answer that is left out, there are no claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.answers.abstentions import abstention
from tasks.expertqa.answers.dangling import remains_in
from tasks.expertqa.answers.plain import marks_in
from tasks.publishing.audits import Audit, rejected_by
from tasks.publishing.generated import audits_of_texts, generated, is_generated

LONGEST = 300  # characters of what a finding says
MARKED = 0.01


def _answers(row: Row) -> Iterator[tuple[str, str, str]]:
    if is_generated(row["response"], row["model"]):
        yield "answer", row["question"], row["answer"]


def _revisions(row: Row) -> Iterator[tuple[str, str, str]]:
    return _answers(row) if row["revised_by"] == "model" else iter(())


def _marked(row: Row) -> str | None:
    """The marks that an answer to train on still holds, and what their removal broke; None if there is neither."""
    known = {source["number"] for source in row["sources"] if source["number"] is not None}
    found = marks_in(row["answer"], known) or remains_in(row["answer"], row["cited_answer"])
    return f"marks in the answer: {', '.join(found[:3])}"[:LONGEST] if found else None


OF_ANSWERS = audits_of_texts(_answers, generated(), abstains=abstention, whole=True)
OF_REVISIONS = (
    *audits_of_texts(_revisions, f"revised_by = 'model' AND {generated()}", abstains=abstention, whole=True),
    Audit("marks", MARKED, _marked),
)


def audited_answer(answer: Row, question: str) -> Rejected | None:
    """The Rejected of a row of ANSWERS that an audit finds; None if none does. `question`: its text."""
    return rejected_by({**answer, "question": question, "answer": answer["text"]}, OF_ANSWERS, "answer_id")
