"""Which stored responses were made from a question that is taken down."""

from __future__ import annotations

from collections.abc import Collection

import duckdb

from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.publishing.responses_made_from import first_column, queries_of, register, responses_in


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses whose headline is of one of these posts."""
    with duckdb.connect() as database:
        register(database, "listed", ids)
        listed = "post_id IN (SELECT id FROM listed)"
        queries = queries_of(store, ["write_headlines"], lambda rows: f"{responses_in(rows)} WHERE {listed}")
        return set(first_column(database, queries))
