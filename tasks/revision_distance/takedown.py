"""Finding the stored model responses to delete when a conversation, an instruction or a paper is taken down.

    a conversation, an instruction   responses with the check of its request, its drafts, their edits and ratings
    a paper                          the same, and knowledge and segments, of cases from its paragraphs or citing it

Responses are found by the case ids in the rows of the model stages. Those that no row names (of rejected rows,
interrupted builds, `longform revise`) are found by the words of the record, the reference or derived texts in a
request; a text of a few words must be a whole fenced or embedded text (tasks.publishing.responses_made_from). In doubt
a response is deleted, since it can be requested again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.publishing.responses_made_from import by_words, first_column, queries_of, register, responses_in
from tasks.revision_distance.cases.draws import MESSAGE_CHARACTERS
from tasks.revision_distance.drafts.drafting import paper_text
from tasks.revision_distance.drafts.measure import REQUEST_CHARACTERS

DRAFTED = ("write_weak", "write_strong", "write_vanilla", "recall_knowledge", "write_segments", "write_cot")
ASKED = ("check_requests", *DRAFTED, "propose_edits", "rate_drafts")
CASES = ("select_conversations", "select_preferences", "find_cited", "draw_candidates", "take_cases")
CITING = ("find_cited", "draw_candidates", "take_cases")
PARAGRAPHS = ("related_paragraphs",)
TEXTS = ("take_given", *DRAFTED)

RECORD = "split_part(substr(case_id, strpos(case_id, '/') + 1), '#', 1)"  # <task>/<id of the record>#<paragraph>
OWN, IN_TOUCHED = f"{RECORD} IN (SELECT id FROM listed)", "case_id IN (SELECT id FROM touched)"
OF_LISTED_PAPERS = "SEMI JOIN listed ON paper_id = id"
CITED = "(SELECT case_id, unnest(cited) AS one FROM {}) WHERE one.paper_id IN (SELECT id FROM listed)"
CUT = f"left(request, {MESSAGE_CHARACTERS}), left(request, {REQUEST_CHARACTERS})"

# stages -> a query of their rows, {}

TOUCHED = (  # the ids of cases derived from a listed record or citing a listed paper
    ((*CASES, *ASKED), f"SELECT DISTINCT case_id FROM {{}} WHERE {OWN}"),
    (CITING, f"SELECT DISTINCT case_id FROM {CITED}"),
)
NAMED = ((ASKED, f"{responses_in('{}')} WHERE {IN_TOUCHED}"),)  # the responses that the rows of these cases name
# Texts that occur only in requests derived from a listed record. For a case that cites a listed paper, its own abstract
# and those of its other cited papers are left out, because requests of unrelated cases may contain them too.
DERIVED = (
    (CASES, f"SELECT unnest([request, {CUT}, abstract]) FROM {{}} WHERE {OWN}"),
    (CASES, f"SELECT reference FROM {{}} WHERE {IN_TOUCHED}"),
    (CASES, f"SELECT unnest(given).text FROM {{}} WHERE {IN_TOUCHED}"),
    (PARAGRAPHS, f"SELECT unnest([text, abstract]) FROM {{}} {OF_LISTED_PAPERS}"),
    (CITING, f"SELECT one.abstract FROM {CITED}"),
    (TEXTS, f"SELECT text FROM {{}} WHERE {IN_TOUCHED}"),
)
_PAPER = "SELECT {{'title': title, 'abstract': abstract}} FROM {}"
PAPERS = (  # title and abstract of listed papers, which requests show as one text
    (CASES, f"{_PAPER} WHERE {OWN}"),
    (PARAGRAPHS, f"{_PAPER} {OF_LISTED_PAPERS}"),
    (CITING, f"SELECT one FROM {CITED}"),
)


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from the source records with these ids; deletes nothing.

    `ids`: of conversations, instructions or papers. In doubt a response is included.
    """
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "touched", first_column(database, _of(store, TOUCHED)))
        named = set(first_column(database, _of(store, NAMED)))
        texts = set(first_column(database, _of(store, DERIVED)))
        texts |= {paper_text(paper) for paper in first_column(database, _of(store, PAPERS))}
        known = set(first_column(database, queries_of(store, ASKED, responses_in)))
    return named | set(by_words(responses, texts, known))


def _of(store: Store, queries: Iterable[tuple[Collection[str], str]]) -> Iterator[str]:
    """The SQL queries of these pairs (stages, query): one for each stage that has rows in the store.

    In a query {} stands for the rows of its stage.
    """
    for stages, query in queries:
        yield from queries_of(store, stages, query.format)
