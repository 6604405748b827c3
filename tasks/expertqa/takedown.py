"""Which stored responses were made from a question or a document that is taken down, or from texts made from it.

    a question   its answers, their claims and facts, judgements, revisions
    a document   answers that were given a passage of it, and all that was made from those; judgements of claims and of
                 facts that read one, and revisions of their answers

Found by the ids in the rows of the model stages; what no row names (the reply of a rejected row, of a build that was
interrupted, embeddings) by the words of the question, of the document, or of claims that were made from them or judged
by it, in a request, where a text of a few words must stand by itself (tasks.publishing.purging). In doubt a response
goes: it can be asked for again.
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


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from these questions, or from what stands at these addresses."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "gone", (url for url in first_column(database, _addresses(store)) if is_listed(url, ids)))
        register(database, "told", first_column(database, _told(store)))
        register(database, "answers", first_column(database, _answers(store)))
        named = set(first_column(database, _named(store)))
        texts = set(first_column(database, _texts(store)))
        for claim in first_column(database, _claims(store)):
            texts |= {claim, judged_text({"text": claim})}
        known = set(first_column(database, each(store, ASKED, responses_in)))
    return named | set(by_words(responses, texts, known))


def _addresses(store: Store) -> Iterator[str]:
    """Of documents, of what was found, and of evidence."""
    yield from each(store, DOCUMENTS, lambda rows: f"SELECT DISTINCT url FROM {rows}")
    yield from each(store, PASSAGES, lambda rows: _unnested("passages", rows))
    yield from each(store, EVIDENCE, lambda rows: _unnested("evidence", rows))


def _unnested(column: str, rows: str) -> str:
    return f"SELECT DISTINCT url FROM (SELECT unnest({column}).url AS url FROM {rows}) WHERE url IS NOT NULL"


def _told(store: Store) -> Iterator[str]:
    """Queries for the ids of questions, claims and facts that were given a listed document."""

    def given(key: str, column: str) -> Callable[[str], str]:
        told = f"SELECT {key} AS id, unnest({column}) AS one FROM"
        return lambda rows: f"SELECT id FROM ({told} {rows}) WHERE one.url IN (SELECT id FROM gone)"

    for stage, key in zip(PASSAGES, ("question_id", "claim_id", "fact_id"), strict=True):
        yield from each(store, [stage], given(key, "passages"))
    yield from each(store, EVIDENCE, given("claim_id", "evidence"))


def _answers(store: Store) -> Iterator[str]:
    """Queries for the ids of answers that were made from a listed document, or have it as evidence."""
    yield from each(
        store,
        ["write_from_passages"],
        lambda rows: f"SELECT answer_id FROM {rows} WHERE question_id IN (SELECT id FROM told)",
    )


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses of rows that name a listed question, or what was made from a listed document."""
    yield from each(store, ASKED, lambda rows: f"{responses_in(rows)} WHERE {OF_LISTED}")
    made = ("write_from_passages", *FROM_ANSWERS)
    yield from each(store, made, lambda rows: f"{responses_in(rows)} WHERE {DERIVED}")
    told = "IN (SELECT id FROM told)"
    yield from each(store, ["estimate_attribution"], lambda rows: f"{responses_in(rows)} WHERE claim_id {told}")
    yield from each(store, ["judge_facts"], lambda rows: f"{responses_in(rows)} WHERE fact_id {told}")
    yield from _of_revisions(store)


def _of_revisions(store: Store) -> Iterator[str]:
    """Of answers that have a claim whose evidence is listed."""
    claims = [path for stage in EVIDENCE for path in files_of(store, stage)]
    if claims:
        having = f"SELECT answer_id FROM {read_parquet(claims)} WHERE claim_id IN (SELECT id FROM told)"
        yield from each(store, ["revise_answers"], lambda rows: f"{responses_in(rows)} WHERE answer_id IN ({having})")


def _texts(store: Store) -> Iterator[str]:
    """Queries for listed questions and documents as they are asked."""
    question = _cut("question", QUESTION_CHARACTERS)
    yield from each(store, QUESTIONS, lambda rows: f"SELECT {question} FROM {rows} WHERE {OF_LISTED}")
    text = _cut("text", factscore.PASSAGE_CHARACTERS, revised.EVIDENCE_CHARACTERS, autoais.EVIDENCE_CHARACTERS)
    gone = "WHERE url IN (SELECT id FROM gone)"
    yield from each(store, DOCUMENTS, lambda rows: f"SELECT {text} FROM {rows} {gone}")
    passage, evidence = (f"SELECT unnest({column}, recursive := true) FROM" for column in ("passages", "evidence"))
    yield from each(store, PASSAGES, lambda rows: f"SELECT {text} FROM ({passage} {rows}) {gone}")
    yield from each(store, EVIDENCE, lambda rows: f"SELECT {text} FROM ({evidence} {rows}) {gone}")


def _cut(column: str, *limits: int) -> str:
    """The column whole, and cut to so many characters each."""
    return f"unnest([{', '.join([column, *(f'left({column}, {limit})' for limit in limits)])}])"


def _claims(store: Store) -> Iterator[str]:
    """Queries for the claims and facts of listed questions and of answers made from listed documents, and for the
    claims that were given one: of several texts of evidence, which are asked as one, none stands by itself."""
    made = f"{OF_LISTED} OR {DERIVED} OR claim_id IN (SELECT id FROM told)"
    yield from each(store, CLAIMS, lambda rows: f"SELECT text FROM {rows} WHERE {made}")
