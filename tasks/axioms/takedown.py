"""Which stored responses were made from a record that is taken down: its own text, or texts made from it.

    a question   every answer to it, and what was made from those
    an answer    what was combined from it; open-book answers that had it as evidence, and their corruptions

Found by the ids in the rows of the model stages, all that lie in the home, whichever build made them. What no row
names (the reply of a rejected row, of a build that was interrupted, of stages that `gc` removed) is found by the
record's words in the request. In doubt a response goes: it can be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import duckdb
import pyarrow as pa

from longform.llm.records import ResponseStore
from longform.rows import read_parquet
from longform.store import Store
from tasks.purging import by_words, files_of, first_column, windows_of

ANSWERED = ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers")
FROM_EVIDENCE = ("answer_open_book", "corrupt_answers")
POSTS = ("read_posts", "admit_posts", "scrub_posts")


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """Keys of the stored responses that were made from these posts."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        database.register("listed", pa.table({"id": sorted(ids)}, schema=pa.schema([("id", pa.string())])))
        named = set(first_column(database, _named(store)))
        windows = windows_of(first_column(database, _texts(store)))
        known = set(first_column(database, _all_named(store)))
    return named | set(by_words(responses, windows, known))


def _named(store: Store) -> Iterator[str]:
    """Queries for the responses of rows that name a listed record as question, parent or evidence."""
    passages = files_of(store, "retrieve_passages")
    for stage in ANSWERED:
        if files := files_of(store, stage):
            rows = f"SELECT response FROM {read_parquet(files)}"
            yield f"{rows} WHERE question_id IN (SELECT id FROM listed)"
            if stage == "combine_answers":
                yield f"{rows} WHERE first_id IN (SELECT id FROM listed) OR second_id IN (SELECT id FROM listed)"
            if stage in FROM_EVIDENCE and passages:
                evidence = f"SELECT question_id, unnest(passages).answer_id AS id FROM {read_parquet(passages)}"
                yield f"{rows} WHERE question_id IN (SELECT question_id FROM ({evidence}) SEMI JOIN listed USING (id))"


def _all_named(store: Store) -> Iterator[str]:
    for stage in ANSWERED:
        if files := files_of(store, stage):
            yield f"SELECT DISTINCT response FROM {read_parquet(files)}"


def _texts(store: Store) -> Iterator[str]:
    for stage in POSTS:
        if files := files_of(store, stage):
            posts = f"SELECT coalesce(title, '') || ' ' || text FROM {read_parquet(files)}"
            yield f"{posts} SEMI JOIN listed ON post_id = id"
