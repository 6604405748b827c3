"""Which stored responses were made from a taken-down post: from its own text, or from texts made from it.

    a question   every answer to it, and rows made from those answers
    an answer    answers combined from it; open-book answers that had it as evidence, and their corruptions

They are found by the ids in the rows of all model stages in the home, whichever build made them. Responses that no row
names (the reply of a rejected row, of an interrupted build, of stages that `gc` removed; embeddings) are found by the
post's words in the request, where a text of a few words must be a whole text of the request (tasks.publishing.purging).
In doubt a response is included: it can be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import duckdb

from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.llm.responses.store import ResponseStore
from tasks.axioms.answers import ANSWER_CHARACTERS, QUESTION_CHARACTERS
from tasks.axioms.related import QUESTION_CHARACTERS as EMBEDDED_CHARACTERS
from tasks.publishing.purging import by_words, each, files_of, first_column, register, responses_in

FROM_EVIDENCE = ("answer_open_book", "corrupt_answers")
MODEL_STAGES = (*FROM_EVIDENCE, "answer_closed_book", "combine_answers")
POSTS = ("read_posts", "admit_posts", "scrub_posts")
PASSAGES = ("retrieve_passages",)


def responses_of(store: Store, ids: Collection[str], responses: ResponseStore) -> set[str]:
    """The keys of the stored responses that were made from these posts."""
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        register(database, "listed", ids)
        by_id = set(first_column(database, _queries_by_id(store)))
        texts = set(first_column(database, _queries_of_texts(store)))
        known = set(first_column(database, each(store, MODEL_STAGES, responses_in)))
    return by_id | set(by_words(responses, texts, known))


def _queries_by_id(store: Store) -> Iterator[str]:
    """DuckDB queries for the responses of rows that name a listed post as question, parent or evidence."""
    listed = "IN (SELECT id FROM listed)"
    yield from each(store, MODEL_STAGES, lambda rows: f"{responses_in(rows)} WHERE question_id {listed}")
    parents = f"first_id {listed} OR second_id {listed}"
    yield from each(store, ["combine_answers"], lambda rows: f"{responses_in(rows)} WHERE {parents}")
    if passages := files_of(store, "retrieve_passages"):
        evidence = f"SELECT question_id, unnest(passages).answer_id AS id FROM {read_parquet(passages)}"
        questions = f"SELECT question_id FROM ({evidence}) SEMI JOIN listed USING (id)"
        yield from each(store, FROM_EVIDENCE, lambda rows: f"{responses_in(rows)} WHERE question_id IN ({questions})")


def _queries_of_texts(store: Store) -> Iterator[str]:
    """DuckDB queries for the texts that requests contain of the listed posts and their passages."""
    request_texts = (
        f"left(title || chr(10) || chr(10) || text, {QUESTION_CHARACTERS})",
        f"title || chr(10) || left(text, {EMBEDDED_CHARACTERS})",
        f"if(title IS NULL, left(text, {ANSWER_CHARACTERS}), NULL)",
        "coalesce(title, '') || ' ' || text",
    )
    posts = f"SELECT unnest([{', '.join(request_texts)}]) FROM"
    yield from each(store, POSTS, lambda rows: f"{posts} {rows} SEMI JOIN listed ON post_id = id")
    passages = "SELECT unnest(passages) AS one FROM"
    yield from each(
        store,
        PASSAGES,
        lambda rows: f"SELECT DISTINCT one.text FROM ({passages} {rows}) SEMI JOIN listed ON one.answer_id = id",
    )
