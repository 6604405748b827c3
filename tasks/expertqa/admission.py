"""Admission: removes questions, documents and imported answers that are on the list of takedowns.

The list names a question by the part of its id before #, so that all its copies are removed, and a document by its
address or by the id of the record at that address. An imported answer that quotes a listed document
("[1] https://… In hot water …") is removed, and a question with such a released answer; an answer that cites the
address alone stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.expertqa import ANSWERS, DOCUMENTS, QUESTIONS
from tasks.sources.admission import REASON
from tasks.sources.permalinks import names_of_address

_EVIDENCE = re.compile(r"\s*(?:\[\^?\d+\^?\][:\s]*)?(https?://\S+)(.*)", re.DOTALL | re.IGNORECASE)


@stage(QUESTIONS, revision=1, at_most=AtMost(keeps=True))
def admit_questions(
    context: StageContext, questions: Rows, *, takedowns: list[str]
) -> Iterator[pa.RecordBatch | Rejected]:
    """The questions, with their released answers, that are not taken down."""
    listed = set(takedowns)
    yield from _admitted(questions, lambda row: _is_asked(row, listed) or _quotes_listed(_released(row), listed))


@stage(ANSWERS, revision=1, at_most=AtMost(keeps=True))
def admit_commercial(
    context: StageContext, answers: Rows, *, takedowns: list[str]
) -> Iterator[pa.RecordBatch | Rejected]:
    """The answers of a commercial system that are not taken down."""
    listed = set(takedowns)
    yield from _admitted(answers, lambda row: _is_asked(row, listed) or _quotes_listed(_imported(row), listed))


@stage(DOCUMENTS, revision=1, at_most=AtMost(keeps=True))
def admit_corpus(
    context: StageContext, documents: Rows, *, takedowns: list[str]
) -> Iterator[pa.RecordBatch | Rejected]:
    """The passages of the local corpus whose documents are not taken down."""
    yield from _of_addresses(documents, takedowns)


@stage(DOCUMENTS, revision=1, at_most=AtMost(keeps=True))
def admit_pages(context: StageContext, documents: Rows, *, takedowns: list[str]) -> Iterator[pa.RecordBatch | Rejected]:
    """The passages of pages (in place of a web search) that are not taken down."""
    yield from _of_addresses(documents, takedowns)


def is_listed(url: str, listed: Collection[str]) -> bool:
    """Whether the document at an address is taken down, by its address or the id of its record."""
    return any(name in listed for name in names_of_address(url))


def question_of(question_id: str) -> str:
    """The part of a question id before #, which all copies of the question share."""
    return question_id.partition("#")[0]


def _of_addresses(documents: Rows, takedowns: list[str]) -> Iterator[pa.RecordBatch | Rejected]:
    listed, gone = set(takedowns), dict[str, bool]()

    def leaves(row: Row) -> bool:
        url = row["url"]
        if url not in gone:
            gone.clear()  # windows of a document follow one another
            gone[url] = is_listed(url, listed)
        return gone[url]

    yield from _admitted(documents, leaves, ["url"])


def _admitted(
    rows: Rows, leaves: Callable[[Row], bool], columns: list[str] | None = None
) -> Iterator[pa.RecordBatch | Rejected]:
    for batch in rows.batches():
        read = batch.select(columns) if columns else batch
        gone = [leaves(row) for row in read.to_pylist()]
        yield batch.filter(pa.array([not each for each in gone])) if any(gone) else batch
        for key in batch.column(rows.key).filter(pa.array(gone, pa.bool_())).to_pylist():
            yield Rejected(key, "filtered", REASON)


def _is_asked(row: Row, listed: Collection[str]) -> bool:
    return question_of(row["question_id"]) in listed


def _released(question: Row) -> Iterator[str]:
    """All texts of a question's released answers."""
    return _strings(json.loads(question["answers"])) if question["answers"] else iter(())


def _imported(answer: Row) -> Iterator[str]:
    yield from answer["attribution"]
    yield from (f"{each['url']} {each['text'] or ''}" for each in answer["cited"] if each["url"])


def _quotes_listed(texts: Iterable[str], listed: Collection[str]) -> bool:
    """Whether one of the texts is a listed address followed by words of the document there."""
    found = filter(None, map(_EVIDENCE.match, texts))
    return any(is_listed(match[1], listed) for match in found if re.search(r"\w", match[2]))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
