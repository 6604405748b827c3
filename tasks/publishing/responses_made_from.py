"""Finding the stored responses that were made from a text: by the rows of stages, and by the text's words in a request.

Takedowns delete what is found (flows/cli/shared/takedown_effects.py).

A request is found by a piece of WINDOW letters of the text (see `windows_of`). A shorter text is found only where it is
the whole of a fenced text or of a text to embed, since its words could be anybody's. So short texts must be given here
exactly as stages send them: scrubbed, and cut to the stage's limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.llm.ask.fence import mark_of, marks
from longform.llm.responses.store import ResponseStore

WINDOW = 60
Queries = Iterable[tuple[Collection[str], str]]  # stages, and SQL where {} stands for what reads the rows of each
_NO_WORD = re.compile(r"[\W_]+")


def files_of(store: Store, stage: str) -> list[Path]:
    """The Parquet files with the rows of a stage, of all builds in the store."""
    return sorted(store.stage(stage).glob("parts/[!.]*/rows.parquet"))


def queries_of(store: Store, stages: Collection[str], query: Callable[[str], str]) -> Iterator[str]:
    """An SQL query for each of the stages that has rows in the store, in their order.

    `query` makes it from the SQL expression that reads the stage's files.
    """
    yield from (query(read_parquet(files)) for stage in stages if (files := files_of(store, stage)))


def responses_in(rows: str) -> str:
    """An SQL query for the distinct response keys in rows. `rows`: the SQL expression that reads these rows."""
    return f"SELECT DISTINCT response FROM {rows}"


def register(database: duckdb.DuckDBPyConnection, name: str, ids: Iterable[str]) -> None:
    """Make the ids, each once and sorted, available to SQL as a table `name` with one text column, `id`."""
    database.register(name, pa.table({"id": sorted(set(ids))}, schema=pa.schema([("id", pa.string())])))


def first_column(database: duckdb.DuckDBPyConnection, queries: Iterable[str]) -> Iterator[Any]:
    """The values in the first column of each query's result, query by query, without nulls and empty values."""
    for query in queries:
        for batch in database.sql(query).to_arrow_reader():
            yield from filter(None, batch.column(0).to_pylist())


def first_values(database: duckdb.DuckDBPyConnection, store: Store, queries: Queries) -> Iterator[Any]:
    """The first column of the results of queries over rows of stages, of all builds in the store.

    `queries`: (stages, SQL in which {} stands for the rows of a stage); each query is made for each of its stages that
    has rows. Nulls and empty values are left out.
    """
    made = (queries_of(store, stages, query.format) for stages, query in queries)
    return first_column(database, chain.from_iterable(made))


def words_of(text: str) -> str:
    """The letters and digits of a text in lower case, without anything between them.

    So a post, a passage cut from it and a prompt that shows it can be compared whatever their markup and white space.
    """
    return _NO_WORD.sub("", text).lower()


def windows_of(texts: Iterable[str]) -> set[str]:
    """Pieces of WINDOW letters and digits that cover each text, so that any passage of twice that length holds one.

    Pieces are of `words_of` the text. A text with fewer letters and digits has no piece, since its words could be
    anybody's.
    """
    long = [words for words in map(words_of, texts) if len(words) >= WINDOW]
    return {
        words[start : start + WINDOW]
        for words in long
        for start in (*range(0, len(words) - WINDOW + 1, WINDOW), len(words) - WINDOW)
    }


def by_words(responses: ResponseStore, texts: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield the keys of stored responses that are not in `known` and whose request shows one of the texts.

    A text is shown if the request contains one of its pieces (`windows_of`). A text too short for a piece is shown
    only if it is a whole fenced text or a whole text to embed; one without a letter or digit never is.
    """
    texts = set(texts)
    windows, short = windows_of(texts), {mark_of(text) for text in texts if 0 < len(words_of(text)) < WINDOW}
    if not windows and not short:
        return
    for key, record in responses.scan():
        if key not in known and _shows(record.request, windows, short):
            yield key


def _shows(request: bytes, windows: set[str], short: set[str]) -> bool:
    """Whether a request contains one of the windows, or a whole fenced or embedded text that is one of the short ones.

    `windows`: as `windows_of` makes them; `short`: the hashes (`mark_of`) of the short texts.
    """
    asked, embedded = _asked(request)
    by_itself = bool(short) and not short.isdisjoint(marks(asked) | set(map(mark_of, embedded)))
    return by_itself or (bool(windows) and contains_window(asked, windows))


def contains_window(text: str, windows: set[str]) -> bool:
    """Whether a text, by its letters and digits alone, contains one of the windows that `windows_of` made."""
    words = words_of(text)
    return any(words[start : start + WINDOW] in windows for start in range(len(words) - WINDOW + 1))


def _asked(request: bytes) -> tuple[str, list[str]]:
    """(all strings of a request, joined by blanks; its texts to embed, which are those under `input`).

    A request that is no JSON counts as one string, without texts to embed.
    """
    try:
        body = orjson.loads(request)
    except orjson.JSONDecodeError:
        return request.decode(errors="replace"), []
    embedded = body.get("input") if isinstance(body, dict) else None
    return " ".join(strings_in(body)), list(strings_in(embedded))


def strings_in(value: object) -> Iterator[str]:
    """All strings in a JSON value, at any depth; keys are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)
