"""Which stored responses were made from a question or a document that is taken down, or from texts made from it.

    a question   its answers, their claims and facts, judgements, revisions
    a document   answers that were given a passage of it, and all that was made from those; judgements of claims and of
                 facts that read one, and revisions of their answers

Found by the ids in the rows of the model stages; what no row names by the words of the question, or of the document, in
a request: see tasks.purging.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import duckdb
import pyarrow as pa

from longform.llm.records import ResponseStore
from longform.rows import read_parquet
from longform.store import Store
from tasks.expertqa.admission import is_listed
from tasks.purging import by_words, files_of, first_column, windows_of

FROM_ANSWERS = ("estimate_attribution", "break_claims", "judge_facts", "revise_answers")
ASKED = ("write_closed_book", "write_from_passages", *FROM_ANSWERS)
QUESTIONS = ("read_questions", "admit_questions", "take_questions")
DOCUMENTS = ("read_corpus", "read_pages")
PASSAGES = ("find_for_questions", "find_for_claims", "find_for_facts")
EVIDENCE = ("link_evidence", "take_claims")


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from these questions, or from what stands at these addresses."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        _register(database, "listed", ids)
        _register(database, "gone", {url for url in first_column(database, _addresses(store)) if is_listed(url, ids)})
        _register(database, "told", first_column(database, _told(store)))
        _register(database, "answers", first_column(database, _answers(store)))
        named = set(first_column(database, _named(store)))
        windows = windows_of(first_column(database, _texts(store)))
        known = set(first_column(database, _all_named(store)))
    return named | set(by_words(responses, windows, known))


def _register(database: duckdb.DuckDBPyConnection, name: str, values: Collection[str] | Iterator[str]) -> None:
    database.register(name, pa.table({"id": sorted(set(values))}, schema=pa.schema([("id", pa.string())])))


def _each(store: Store, stages: Collection[str], query: Callable[[str], str]) -> Iterator[str]:
    """A query of each stage that has rows."""
    yield from (query(read_parquet(files)) for stage in stages if (files := files_of(store, stage)))


def _addresses(store: Store) -> Iterator[str]:
    """Of documents, of what was found, and of evidence."""
    yield from _each(store, DOCUMENTS, lambda rows: f"SELECT DISTINCT url FROM {rows}")
    yield from _each(store, PASSAGES, lambda rows: _unnested("passages", rows))
    yield from _each(store, EVIDENCE, lambda rows: _unnested("evidence", rows))


def _unnested(column: str, rows: str) -> str:
    return f"SELECT DISTINCT url FROM (SELECT unnest({column}).url AS url FROM {rows}) WHERE url IS NOT NULL"


def _told(store: Store) -> Iterator[str]:
    """Queries for the ids of questions, claims and facts that were given a listed document."""

    def given(key: str, column: str) -> Callable[[str], str]:
        told = f"SELECT {key} AS id, unnest({column}) AS one FROM"
        return lambda rows: f"SELECT id FROM ({told} {rows}) WHERE one.url IN (SELECT id FROM gone)"

    for stage, key in zip(PASSAGES, ("question_id", "claim_id", "fact_id"), strict=True):
        yield from _each(store, [stage], given(key, "passages"))
    yield from _each(store, EVIDENCE, given("claim_id", "evidence"))


def _answers(store: Store) -> Iterator[str]:
    """Queries for the ids of answers that were made from a listed document, or have it as evidence."""
    yield from _each(
        store,
        ["write_from_passages"],
        lambda rows: f"SELECT answer_id FROM {rows} WHERE question_id IN (SELECT id FROM told)",
    )


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses of rows that name a listed question, or what was made from a listed document."""
    question = "split_part(question_id, '#', 1) IN (SELECT id FROM listed)"
    yield from _each(store, ASKED, lambda rows: f"SELECT response FROM {rows} WHERE {question}")
    derived = "answer_id IN (SELECT id FROM answers)"
    yield from _each(
        store, ("write_from_passages", *FROM_ANSWERS), lambda rows: f"SELECT response FROM {rows} WHERE {derived}"
    )
    told = "IN (SELECT id FROM told)"
    yield from _each(store, ["estimate_attribution"], lambda rows: f"SELECT response FROM {rows} WHERE claim_id {told}")
    yield from _each(store, ["judge_facts"], lambda rows: f"SELECT response FROM {rows} WHERE fact_id {told}")
    yield from _of_revisions(store)


def _of_revisions(store: Store) -> Iterator[str]:
    """Of answers that have a claim whose evidence is listed."""
    claims = [path for stage in EVIDENCE for path in files_of(store, stage)]
    if claims:
        having = f"SELECT answer_id FROM {read_parquet(claims)} WHERE claim_id IN (SELECT id FROM told)"
        yield from _each(
            store, ["revise_answers"], lambda rows: f"SELECT response FROM {rows} WHERE answer_id IN ({having})"
        )


def _all_named(store: Store) -> Iterator[str]:
    yield from _each(store, ASKED, lambda rows: f"SELECT DISTINCT response FROM {rows}")


def _texts(store: Store) -> Iterator[str]:
    """Queries for the words of listed questions and documents."""
    question = "split_part(question_id, '#', 1) IN (SELECT id FROM listed)"
    yield from _each(store, QUESTIONS, lambda rows: f"SELECT question FROM {rows} WHERE {question}")
    yield from _each(store, DOCUMENTS, lambda rows: f"SELECT text FROM {rows} WHERE url IN (SELECT id FROM gone)")
