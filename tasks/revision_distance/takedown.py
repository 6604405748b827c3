"""Which stored responses were made from a conversation, an instruction or a paper that is taken down.

    a conversation, an instruction   the check of its request, drafts, their edits and ratings
    a paper                          the same, knowledge and segments of cases that its paragraphs are, or that cite it

Found by the cases in the rows of the model stages; what no row names (the reply of a rejected row, of a build that was
interrupted, `longform revise`) by the words of the record, of the reference, or of what models made of them, in a
request, where a text of a few words must stand by itself (tasks.publishing.purging). In doubt a response goes:
it can be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.publishing.purging import by_words, each, first_column, register, responses_in
from tasks.revision_distance.cases.checks import MESSAGE_CHARACTERS
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
    """Keys of the stored responses that were made from these records, or from texts made from them."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "touched", first_column(database, _touched(store)))
        named = set(first_column(database, _named(store)))
        texts = set(first_column(database, _texts(store)))
        texts |= {paper_text(paper) for paper in first_column(database, _papers(store))}
        known = set(first_column(database, each(store, ASKED, responses_in)))
    return named | set(by_words(responses, texts, known))


def _touched(store: Store) -> Iterator[str]:
    """Queries for the cases that were made from a listed record, or cite one."""
    own = f"{RECORD} IN (SELECT id FROM listed)"
    yield from each(store, (*CASES, *ASKED), lambda rows: f"SELECT DISTINCT case_id FROM {rows} WHERE {own}")
    cited = "SELECT case_id, unnest(cited).paper_id AS paper_id FROM"
    yield from each(
        store,
        CITING,
        lambda rows: f"SELECT DISTINCT case_id FROM ({cited} {rows}) WHERE paper_id IN (SELECT id FROM listed)",
    )


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses of rows of these cases."""
    yield from each(store, ASKED, lambda rows: f"{responses_in(rows)} WHERE case_id IN (SELECT id FROM touched)")


def _texts(store: Store) -> Iterator[str]:
    """Queries for words that only requests made from a listed record hold.

    Of a case that cites a listed paper these are not its own abstract and those of other papers it cites: cases that
    have nothing to do with the listed paper show these too.
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
    """Queries for the title and abstract of listed papers, which are asked together."""
    own = "SELECT {'title': title, 'abstract': abstract} FROM"
    yield from each(store, CASES, lambda rows: f"{own} {rows} WHERE {RECORD} IN (SELECT id FROM listed)")
    yield from each(store, PARAGRAPHS, lambda rows: f"{own} {rows} SEMI JOIN listed ON paper_id = id")
    cited = "SELECT unnest(cited) AS one FROM"
    yield from each(
        store,
        CITING,
        lambda rows: f"SELECT one FROM ({cited} {rows}) WHERE one.paper_id IN (SELECT id FROM listed)",
    )
