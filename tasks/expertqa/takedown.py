"""What a takedown of a question or a document removes: rows, at admission, and stored model responses.

The list of takedowns names a question by the part of its id before #, so that all its copies are removed, and a
document by its address or by the id of the record at that address. An imported answer that quotes a listed document
("[1] https://… In hot water …") is removed, and a question with such a released answer; an answer that cites the
address alone stays.

Responses to delete:

    a question   responses with its answers, their claims, atomic claims, judgements and revisions
    a document   answers written from a passage of it, and all responses derived from these; judgements of claims and
                 atomic claims that read such a passage, and revisions of their answers

Responses are found by the ids in the rows of the model stages. Responses that no row names (of rejected rows,
interrupted builds, embeddings) are found by the words of the question, the document, or derived claims in a request; a
text of a few words must be a whole fenced or embedded text (tasks/publishing/responses_made_from.py). In doubt a
response is deleted, since it can be requested again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

import duckdb
import pyarrow as pa

from longform.artifacts.store import Store
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.responses.store import ResponseStore
from schemas.expertqa import ANSWERS, DOCUMENTS, QUESTIONS
from tasks.expertqa.answers import revised
from tasks.expertqa.answers.answers import QUESTION_CHARACTERS
from tasks.expertqa.estimates import autoais, factscore
from tasks.publishing.responses_made_from import Queries, by_words, first_values, register, strings_in
from tasks.sources.admission import REASON, Admitted
from tasks.sources.permalinks import ids_of_address

_QUOTED = re.compile(r"\s*(?:\[\^?\d+\^?\][:\s]*)?(https?://\S+)(.*)", re.DOTALL | re.IGNORECASE)

# ---------------------------------------------------------------- rows


@stage(QUESTIONS, revision=2, at_most=AtMost(keeps=True))
def admit_questions(context: StageContext, questions: Rows, *, takedowns: list[str]) -> Admitted:
    """The questions, with their released answers, that are not taken down and whose released answers quote no document
    that is; a Rejected for each other question. `takedowns`: ids of questions and records, and addresses.
    """
    listed = set(takedowns)
    yield from _admitted(questions, lambda row: _is_listed(row, _released(row), listed))


@stage(ANSWERS, revision=2, at_most=AtMost(keeps=True))
def admit_commercial(context: StageContext, answers: Rows, *, takedowns: list[str]) -> Admitted:
    """The answers of a commercial system whose question is not taken down, and that quote no document that is; a
    Rejected for each other answer.
    """
    listed = set(takedowns)
    yield from _admitted(answers, lambda row: _is_listed(row, _quoting_texts(row), listed))


@stage(DOCUMENTS, revision=2, at_most=AtMost(keeps=True))
def admit_corpus(context: StageContext, documents: Rows, *, takedowns: list[str]) -> Admitted:
    """The passages of the local corpus whose documents are not taken down; a Rejected for each other passage."""
    yield from _of_addresses(documents, takedowns)


@stage(DOCUMENTS, revision=2, at_most=AtMost(keeps=True))
def admit_pages(context: StageContext, documents: Rows, *, takedowns: list[str]) -> Admitted:
    """The passages of pages (in place of a web search) that are not taken down; a Rejected for each other passage."""
    yield from _of_addresses(documents, takedowns)


def is_listed(url: str, listed: Collection[str]) -> bool:
    """Whether the document at an address is taken down, by its address or the id of its record. `listed`: the
    takedowns, ids and addresses.
    """
    return any(name in listed for name in ids_of_address(url))


def question_of(question_id: str) -> str:
    """The part of a question id before #, which all copies of the question share."""
    return question_id.partition("#")[0]


def _of_addresses(documents: Rows, takedowns: list[str]) -> Admitted:
    """The passages whose address is not taken down, in batches, and a Rejected for each other."""
    listed = set(takedowns)
    leaves = lru_cache(maxsize=1)(lambda url: is_listed(url, listed))  # windows of a document follow one another
    yield from _admitted(documents, lambda row: leaves(row["url"]), ["url"])


def _admitted(rows: Rows, leaves: Callable[[Row], bool], columns: list[str] | None = None) -> Admitted:
    """The rows that stay, in batches, and a Rejected for each that leaves. `leaves`: whether a row does. `columns`:
    those that `leaves` gets of a row, None for all.
    """
    for batch in rows.batches():
        read = batch.select(columns) if columns else batch
        gone = [leaves(row) for row in read.to_pylist()]
        yield batch.filter(pa.array([not each for each in gone])) if any(gone) else batch
        for key in batch.column(rows.key).filter(pa.array(gone, pa.bool_())).to_pylist():
            yield Rejected(key, "filtered", REASON)


def _is_listed(row: Row, texts: Iterable[str], listed: Collection[str]) -> bool:
    """Whether the row's question is taken down, or one of the texts begins with a taken-down address (after a mark
    such as [1]) and has words of the document after it.
    """
    quoted = (match[1] for match in map(_QUOTED.match, texts) if match and re.search(r"\w", match[2]))
    return question_of(row["question_id"]) in listed or any(is_listed(url, listed) for url in quoted)


def _released(question: Row) -> Iterator[str]:
    """All texts of a question's released answers, at any depth of their JSON; none if it has no released answers."""
    return strings_in(json.loads(question["answers"])) if question["answers"] else iter(())


def _quoting_texts(answer: Row) -> Iterator[str]:
    """The texts of a commercial system's answer that may quote a document: each entry of its list of sources, and
    "address text" for each cited source with an address.
    """
    yield from answer["attribution"]
    yield from (f"{each['url']} {each['text'] or ''}" for each in answer["cited"] if each["url"])


# ---------------------------------------------------------------- responses

FROM_ANSWERS = ("estimate_attribution", "break_claims", "judge_facts", "revise_answers")
ASKED = ("write_closed_book", "write_from_passages", *FROM_ANSWERS)
DOCUMENTS_READ = ("read_corpus", "read_pages")
PASSAGES = ("find_for_questions", "find_for_claims", "find_for_facts")
EVIDENCE = ("link_cited_pages", "link_evidence", "take_claims")

OF_LISTED = "split_part(question_id, '#', 1) IN (SELECT id FROM listed)"
DERIVED = "answer_id IN (SELECT id FROM answers)"
READERS = "IN (SELECT id FROM readers)"
LISTED_URL = "url IN (SELECT id FROM listed_urls)"
RESPONSES = "SELECT DISTINCT response FROM {}"


def _sql_of_cuts(column: str, *limits: int) -> str:
    """SQL that yields a row for each row's whole `column`, and one for its first `limit` characters for each of
    `limits`.
    """
    return f"unnest([{', '.join([column, *(f'left({column}, {limit})' for limit in limits)])}])"


def _sql_of_readers(key: str, column: str) -> str:
    """SQL for the values of `key` of rows that have a listed document in `column`, a list of passages or of evidence;
    {} stands for the table.
    """
    return f"SELECT id FROM (SELECT {key} AS id, unnest({column}) AS one FROM {{}}) WHERE one.{LISTED_URL}"


ADDRESSES: Queries = [  # of documents, retrieved passages and evidence
    (DOCUMENTS_READ, "SELECT DISTINCT url FROM {}"),
    (PASSAGES, "SELECT DISTINCT url FROM (SELECT unnest(passages).url AS url FROM {}) WHERE url IS NOT NULL"),
    (EVIDENCE, "SELECT DISTINCT url FROM (SELECT unnest(evidence).url AS url FROM {}) WHERE url IS NOT NULL"),
]
READING: Queries = [  # ids of questions, claims and atomic claims with a listed document among passages or evidence
    (["find_for_questions"], _sql_of_readers("question_id", "passages")),
    (["find_for_claims"], _sql_of_readers("claim_id", "passages")),
    (["find_for_facts"], _sql_of_readers("fact_id", "passages")),
    (EVIDENCE, _sql_of_readers("claim_id", "evidence")),
]
ANSWERS_READING: Queries = [  # ids of answers written from passages that include a listed document
    (["write_from_passages"], f"SELECT answer_id FROM {{}} WHERE question_id {READERS}")
]
CITING: Queries = [(EVIDENCE, f"SELECT answer_id FROM {{}} WHERE claim_id {READERS}")]  # answers, by their claims
NAMED: Queries = [  # responses of rows that name a listed question, or texts derived from a listed document
    (ASKED, f"{RESPONSES} WHERE {OF_LISTED}"),
    (("write_from_passages", *FROM_ANSWERS), f"{RESPONSES} WHERE {DERIVED}"),
    (["estimate_attribution"], f"{RESPONSES} WHERE claim_id {READERS}"),
    (["judge_facts"], f"{RESPONSES} WHERE fact_id {READERS}"),
    (["revise_answers"], f"{RESPONSES} WHERE answer_id IN (SELECT id FROM citing)"),
]
TEXT = _sql_of_cuts("text", factscore.PASSAGE_CHARACTERS, revised.EVIDENCE_CHARACTERS, autoais.EVIDENCE_CHARACTERS)
TEXTS: Queries = [  # of listed questions and documents, cut as requests cut them
    (
        ("read_questions", "admit_questions", "take_questions"),
        f"SELECT {_sql_of_cuts('question', QUESTION_CHARACTERS)} FROM {{}} WHERE {OF_LISTED}",
    ),
    (DOCUMENTS_READ, f"SELECT {TEXT} FROM {{}} WHERE {LISTED_URL}"),
    (PASSAGES, f"SELECT {TEXT} FROM (SELECT unnest(passages, recursive := true) FROM {{}}) WHERE {LISTED_URL}"),
    (EVIDENCE, f"SELECT {TEXT} FROM (SELECT unnest(evidence, recursive := true) FROM {{}}) WHERE {LISTED_URL}"),
]
# Of claims and atomic claims derived from listed questions and documents. Claims with a listed document as evidence are
# included: their requests join all evidence in one fenced text, in which a short document could not be found.
CLAIMS: Queries = [
    (
        ("split_claims", *EVIDENCE, "break_claims"),
        f"SELECT text FROM {{}} WHERE {OF_LISTED} OR {DERIVED} OR claim_id {READERS}",
    )
]


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the model responses derived from the questions and documents in `ids` (question ids, addresses and ids
    of records): those that rows of model stages in `store` name, and those in `responses` whose request shows words of
    these or of claims derived from them.
    """
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(
            database, "listed_urls", (url for url in first_values(database, store, ADDRESSES) if is_listed(url, ids))
        )
        register(database, "readers", first_values(database, store, READING))
        register(database, "answers", first_values(database, store, ANSWERS_READING))
        register(database, "citing", first_values(database, store, CITING))
        named, texts = set(first_values(database, store, NAMED)), set(first_values(database, store, TEXTS))
        for claim in first_values(database, store, CLAIMS):
            texts |= {claim, autoais.judged_text({"text": claim})}
        known = set(first_values(database, store, [(ASKED, RESPONSES)]))
    return named | set(by_words(responses, texts, known))
