"""Finding the stored responses to delete when a paper is taken down: by its questions, passages and sessions."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.publishing.responses_made_from import (
    by_words,
    first_column,
    first_values,
    queries_of,
    register,
    responses_in,
)

PROPOSED = ("propose_questions", "check_answerable", "collect_questions")
OF_TURNS = ("label_instructions", "label_errors")
OF_SESSIONS = ("simulate_sessions", "collect_sessions")
LISTED = "IN (SELECT id FROM listed)"
TOUCHED = (
    (("collect_questions",), f"SELECT question_id FROM {{}} WHERE source_id {LISTED}"),
    (("split_passages",), f"SELECT question_id FROM {{}} WHERE paper_id {LISTED}"),
)
IN_TOUCHED = "question_id IN (SELECT id FROM touched)"
NAMED = (
    (PROPOSED, f"{responses_in('{}')} WHERE {IN_TOUCHED} OR source_id {LISTED}"),
    (("answer_first", *OF_TURNS), f"{responses_in('{}')} WHERE {IN_TOUCHED}"),
    (OF_SESSIONS, f"SELECT unnest(turns).response FROM {{}} WHERE {IN_TOUCHED}"),
    (OF_SESSIONS, f"{responses_in('{}')} WHERE {IN_TOUCHED}"),
)
TEXTS = (
    (("find_documents",), f"SELECT text FROM {{}} WHERE paper_id {LISTED}"),
    (("evidence_paragraphs",), f"SELECT text FROM {{}} WHERE paper_id {LISTED}"),
    (("answer_first",), f"SELECT answer FROM {{}} WHERE {IN_TOUCHED}"),
    (OF_SESSIONS, f"SELECT unnest(turns).answer FROM {{}} WHERE {IN_TOUCHED}"),
)


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from the papers with these ids: from a related-work paragraph, from
    passages, and from answers that show these; deletes nothing. Those that no row names are found by the words of the
    texts; in doubt one is included.
    """
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        register(database, "touched", first_values(database, store, TOUCHED))
        named, texts = (set(first_values(database, store, queries)) for queries in (NAMED, TEXTS))
        known = set(first_column(database, chain(queries_of(store, ["answer_first", *OF_TURNS], responses_in))))
    return named | set(by_words(responses, texts, known - named))
