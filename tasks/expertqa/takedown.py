"""Stored model responses to delete when a question or a document is taken down.

    a question   responses with its answers, their claims, atomic claims, judgements and revisions
    a document   answers written from a passage of it, and all responses derived from these; judgements of claims and
                 atomic claims that read such a passage, and revisions of their answers

Responses are found by the ids in the rows of the model stages. Those that no row names (of rejected rows, interrupted
builds, embeddings) are found by the words of the question, the document, or derived claims in a request; a text of a
few words must be a whole fenced or embedded text (tasks.publishing.purging). In doubt a response is deleted, since it
can be requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import duckdb

from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.expertqa.admission import is_listed
from tasks.expertqa.answers import revised
from tasks.expertqa.answers.answers import QUESTION_CHARACTERS
from tasks.expertqa.estimates import autoais, factscore
from tasks.expertqa.estimates.autoais import judged_text
from tasks.publishing.purging import by_words, each, files_of, first_column, register, responses_in

FROM_ANSWERS = ("estimate_attribution", "break_claims", "judge_facts", "revise_answers")
ASKED = ("write_closed_book", "write_from_passages", *FROM_ANSWERS)
QUESTIONS = ("read_questions", "admit_questions", "take_questions")
DOCUMENTS = ("read_corpus", "read_pages")
PASSAGES = ("find_for_questions", "find_for_claims", "find_for_facts")
EVIDENCE = ("link_evidence", "take_claims")
CLAIMS = ("split_claims", *EVIDENCE, "break_claims")

OF_LISTED = "split_part(question_id, '#', 1) IN (SELECT id FROM listed)"
DERIVED = "answer_id IN (SELECT id FROM answers)"
READERS = "IN (SELECT id FROM readers)"


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses derived from the questions and addresses in `ids`."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        listed = (url for url in first_column(database, _addresses(store)) if is_listed(url, ids))
        register(database, "listed_urls", listed)
        register(database, "readers", first_column(database, _readers(store)))
        register(database, "answers", first_column(database, _answers(store)))
        named = set(first_column(database, _named(store)))
        texts = set(first_column(database, _texts(store)))
        for claim in first_column(database, _claims(store)):
            texts |= {claim, judged_text({"text": claim})}
        known = set(first_column(database, each(store, ASKED, responses_in)))
    return named | set(by_words(responses, texts, known))


def _addresses(store: Store) -> Iterator[str]:
    """Queries for the addresses of documents, retrieved passages and evidence."""
    yield from each(store, DOCUMENTS, lambda rows: f"SELECT DISTINCT url FROM {rows}")
    yield from each(store, PASSAGES, lambda rows: _unnested("passages", rows))
    yield from each(store, EVIDENCE, lambda rows: _unnested("evidence", rows))


def _unnested(column: str, rows: str) -> str:
    return f"SELECT DISTINCT url FROM (SELECT unnest({column}).url AS url FROM {rows}) WHERE url IS NOT NULL"


def _readers(store: Store) -> Iterator[str]:
    """Queries for the ids of questions, claims and atomic claims with a listed document among passages or evidence."""

    def with_listed(key: str, column: str) -> Callable[[str], str]:
        pieces = f"SELECT {key} AS id, unnest({column}) AS one FROM"
        return lambda rows: f"SELECT id FROM ({pieces} {rows}) WHERE one.url IN (SELECT id FROM listed_urls)"

    for stage, key in zip(PASSAGES, ("question_id", "claim_id", "fact_id"), strict=True):
        yield from each(store, [stage], with_listed(key, "passages"))
    yield from each(store, EVIDENCE, with_listed("claim_id", "evidence"))


def _answers(store: Store) -> Iterator[str]:
    """Queries for the ids of answers written from passages that include a listed document."""
    yield from each(
        store,
        ["write_from_passages"],
        lambda rows: f"SELECT answer_id FROM {rows} WHERE question_id IN (SELECT id FROM readers)",
    )


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses of rows that name a listed question, or texts derived from a listed document."""
    yield from each(store, ASKED, lambda rows: f"{responses_in(rows)} WHERE {OF_LISTED}")
    derived = ("write_from_passages", *FROM_ANSWERS)
    yield from each(store, derived, lambda rows: f"{responses_in(rows)} WHERE {DERIVED}")
    yield from each(store, ["estimate_attribution"], lambda rows: f"{responses_in(rows)} WHERE claim_id {READERS}")
    yield from each(store, ["judge_facts"], lambda rows: f"{responses_in(rows)} WHERE fact_id {READERS}")
    yield from _of_revisions(store)


def _of_revisions(store: Store) -> Iterator[str]:
    """Queries for the responses with revisions of answers that have a claim with listed evidence."""
    claims = [path for stage in EVIDENCE for path in files_of(store, stage)]
    if claims:
        having = f"SELECT answer_id FROM {read_parquet(claims)} WHERE claim_id {READERS}"
        yield from each(store, ["revise_answers"], lambda rows: f"{responses_in(rows)} WHERE answer_id IN ({having})")


def _texts(store: Store) -> Iterator[str]:
    """Queries for the texts of listed questions and documents, cut as requests cut them."""
    question = _cut("question", QUESTION_CHARACTERS)
    yield from each(store, QUESTIONS, lambda rows: f"SELECT {question} FROM {rows} WHERE {OF_LISTED}")
    text = _cut("text", factscore.PASSAGE_CHARACTERS, revised.EVIDENCE_CHARACTERS, autoais.EVIDENCE_CHARACTERS)
    listed = "WHERE url IN (SELECT id FROM listed_urls)"
    yield from each(store, DOCUMENTS, lambda rows: f"SELECT {text} FROM {rows} {listed}")
    passage, evidence = (f"SELECT unnest({column}, recursive := true) FROM" for column in ("passages", "evidence"))
    yield from each(store, PASSAGES, lambda rows: f"SELECT {text} FROM ({passage} {rows}) {listed}")
    yield from each(store, EVIDENCE, lambda rows: f"SELECT {text} FROM ({evidence} {rows}) {listed}")


def _cut(column: str, *limits: int) -> str:
    """SQL for the whole column and its beginnings of `limits` characters, one row each."""
    return f"unnest([{', '.join([column, *(f'left({column}, {limit})' for limit in limits)])}])"


def _claims(store: Store) -> Iterator[str]:
    """Queries for the texts of claims and atomic claims derived from listed questions and documents.

    Claims with a listed document as evidence are included: their requests join all evidence in one fenced text, in
    which a short document could not be found.
    """
    derived = f"{OF_LISTED} OR {DERIVED} OR claim_id {READERS}"
    yield from each(store, CLAIMS, lambda rows: f"SELECT text FROM {rows} WHERE {derived}")
