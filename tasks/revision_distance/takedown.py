"""Stored model responses to delete when a conversation, an instruction or a paper is taken down.

    a conversation, an instruction   responses with the check of its request, its drafts, their edits and ratings
    a paper                          the same, and knowledge and segments, of cases from its paragraphs or citing it

Responses are found by the case ids in the rows of the model stages. Those that no row names (of rejected rows,
interrupted builds, `longform revise`) are found by the words of the record, the reference or derived texts in a
request; a text of a few words must be a whole fenced or embedded text (tasks.publishing.purging). In doubt a response
is deleted, since it can be requested again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.publishing.purging import by_words, each, first_column, register, responses_in
from tasks.revision_distance.cases.draws import MESSAGE_CHARACTERS
from tasks.revision_distance.drafts.drafting import paper_text
from tasks.revision_distance.drafts.edits import REQUEST_CHARACTERS

DRAFTED = ("write_weak", "write_strong", "write_vanilla", "recall_knowledge", "write_segments", "write_cot")
ASKED = ("check_requests", *DRAFTED, "propose_edits", "rate_drafts")
CASES = ("select_conversations", "select_preferences", "find_cited", "draw_candidates", "take_cases")
CITING = ("find_cited", "draw_candidates", "take_cases")
PARAGRAPHS = ("related_paragraphs",)
TEXTS = ("take_given", *DRAFTED)

RECORD = "split_part(substr(case_id, strpos(case_id, '/') + 1), '#', 1)"  # <task>/<id of the record>#<paragraph>


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses derived from the records with these ids."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "touched", first_column(database, _touched(store)))
        named = set(first_column(database, _named(store)))
        texts = set(first_column(database, _texts(store)))
        texts |= {paper_text(paper) for paper in first_column(database, _papers(store))}
        known = set(first_column(database, each(store, ASKED, responses_in)))
    return named | set(by_words(responses, texts, known))


def _touched(store: Store) -> Iterator[str]:
    """Queries for the ids of cases derived from a listed record or citing a listed paper."""
    own = f"{RECORD} IN (SELECT id FROM listed)"
    yield from each(store, (*CASES, *ASKED), lambda rows: f"SELECT DISTINCT case_id FROM {rows} WHERE {own}")
    cited = "SELECT case_id, unnest(cited).paper_id AS paper_id FROM"
    yield from each(
        store,
        CITING,
        lambda rows: f"SELECT DISTINCT case_id FROM ({cited} {rows}) WHERE paper_id IN (SELECT id FROM listed)",
    )


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses that the rows of these cases name."""
    yield from each(store, ASKED, lambda rows: f"{responses_in(rows)} WHERE case_id IN (SELECT id FROM touched)")


def _texts(store: Store) -> Iterator[str]:
    """Queries for texts that occur only in requests derived from a listed record.

    For a case that cites a listed paper, its own abstract and those of its other cited papers are left out, because
    requests of unrelated cases may contain them too.
    """
    own, touched = f"{RECORD} IN (SELECT id FROM listed)", "case_id IN (SELECT id FROM touched)"
    asked = f"request, left(request, {MESSAGE_CHARACTERS}), left(request, {REQUEST_CHARACTERS})"
    yield from each(store, CASES, lambda rows: f"SELECT unnest([{asked}, abstract]) FROM {rows} WHERE {own}")
    yield from each(store, CASES, lambda rows: f"SELECT reference FROM {rows} WHERE {touched}")
    yield from each(store, CASES, lambda rows: f"SELECT unnest(given).text FROM {rows} WHERE {touched}")
    paragraph = "SELECT unnest([text, abstract]) FROM"
    yield from each(store, PARAGRAPHS, lambda rows: f"{paragraph} {rows} SEMI JOIN listed ON paper_id = id")
    paper = "SELECT unnest(cited) AS one FROM"
    yield from each(
        store,
        CITING,
        lambda rows: f"SELECT one.abstract FROM ({paper} {rows}) WHERE one.paper_id IN (SELECT id FROM listed)",
    )
    yield from each(store, TEXTS, lambda rows: f"SELECT text FROM {rows} WHERE {touched}")


def _papers(store: Store) -> Iterator[str]:
    """Queries for title and abstract of listed papers, which requests show as one text."""
    own = "SELECT {'title': title, 'abstract': abstract} FROM"
    yield from each(store, CASES, lambda rows: f"{own} {rows} WHERE {RECORD} IN (SELECT id FROM listed)")
    yield from each(store, PARAGRAPHS, lambda rows: f"{own} {rows} SEMI JOIN listed ON paper_id = id")
    cited = "SELECT unnest(cited) AS one FROM"
    yield from each(
        store,
        CITING,
        lambda rows: f"SELECT one FROM ({cited} {rows}) WHERE one.paper_id IN (SELECT id FROM listed)",
    )
