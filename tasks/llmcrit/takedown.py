"""Finding the stored responses to delete when the record of a text is taken down: by its rows, and by its words."""

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
from tasks.sources.permalinks import ids_of_address

JUDGED = ("judge_validity", "judge_context", "judge_critiques")
WITH_TEXT = ("change_texts", "write_demonstrations", "choose_feedback", *JUDGED)
CANDIDATES = ("section_texts", "code_texts", "post_texts", "own_texts")
ADDRESSES = ((("own_texts",), "SELECT DISTINCT url FROM {}"),)
TOUCHED = (
    (CANDIDATES, "SELECT text_id FROM {} WHERE source_id IN (SELECT id FROM listed)"),
    (("own_texts",), "SELECT text_id FROM {} WHERE url IN (SELECT id FROM addresses)"),
)
IN_TOUCHED = "text_id IN (SELECT id FROM touched)"
NAMED = (
    (WITH_TEXT, f"{responses_in('{}')} WHERE {IN_TOUCHED}"),
    (("give_feedback",), f"SELECT unnest(samples).response FROM {{}} WHERE {IN_TOUCHED}"),
)
TEXTS = (
    (CANDIDATES, f"SELECT text FROM {{}} WHERE {IN_TOUCHED}"),
    (("change_texts",), f"SELECT text FROM {{}} WHERE {IN_TOUCHED}"),
)


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from the records with these ids, of papers, commits, posts or own
    texts (by id or address); deletes nothing. Those that no row names are found by the words of the text; in doubt one
    is included.
    """
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        urls = (url for url in first_values(database, store, ADDRESSES) if {*ids} & {*ids_of_address(url)})
        register(database, "addresses", urls)
        register(database, "touched", first_values(database, store, TOUCHED))
        named, texts = (set(first_values(database, store, queries)) for queries in (NAMED, TEXTS))
        known = set(first_column(database, chain(queries_of(store, ["verify_changes", *WITH_TEXT], responses_in))))
    return named | set(by_words(responses, texts, known - named))
