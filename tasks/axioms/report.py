"""Tables 7 and 10 of the paper for a version's report, streamed from its stages."""

from __future__ import annotations

from longform.artifacts.rows import Row, Rows
from tasks.axioms.tables import Table10, questions_by_axiom
from tasks.publishing.card import Cell, ReportTable

AXIOMS = {0: "usefulness", 1: "relevance", 2: "groundedness", 3: "truthfulness", 5: "thoroughness"}


def tables(threads: Rows, pairs: Rows) -> list[ReportTable]:
    """Tables 7 (questions and added answers by axiom and split) and 10 (sites) of the published rows."""
    return [_table7(pairs), _table10(threads)]


def _table7(pairs: Rows) -> ReportTable:
    cells = [
        (f"{row['axiom']} {AXIOMS[row['axiom']]}", row["split"], row["questions"], *_moments(row, "answers_added"))
        for row in questions_by_axiom(pairs.paths)
    ]
    return ReportTable(
        title="Questions by axiom (table 7 of the paper)",
        note="Answers added: those of a question's pairs that no lower axiom has.",
        columns=("axiom", "split", "questions", "answers added", "standard deviation"),
        rows=cells,
    )


def _table10(threads: Rows) -> ReportTable:
    counted = Table10()
    columns = ["site", "answers.list.element.text", "answers.list.element.votes"]
    for batch in threads.batches(columns):
        for thread in batch.to_pylist():
            counted.add(thread["site"], ((answer["text"], answer["votes"]) for answer in thread["answers"]))
    names = ("answers_per_question", "words_per_answer", "votes_per_answer")
    cells = [
        (row["site"], row["questions"], *(cell for name in names for cell in _moments(row, name)))
        for row in counted.rows()
    ]
    return ReportTable(
        title="Questions and answers by site (table 10 of the paper)",
        note="Words are separated by white space. Each mean is followed by its standard deviation.",
        columns=("site", "questions", "answers", "±", "words an answer", "±", "votes an answer", "±"),
        rows=cells,
    )


def _moments(row: Row, name: str) -> tuple[Cell, Cell]:
    return _rounded(row[name]), _rounded(row[f"{name}_std"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
