"""Finding the stored responses that were made from a text: by the rows of stages, and by its words in a request.

Takedowns delete what is found (flows/cli/shared/takedown_effects.py).

A request shows a text where it holds WINDOW letters of it, one after the other. A text of fewer letters must be all
that stands between two fences, or all that is embedded: its words could be part of anybody's. So such texts are given
here as they are asked, scrubbed and cut to what a stage asks at most.
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
    """The rows of a stage, whichever build made them."""
    return sorted(store.stage(stage).glob("parts/[!.]*/rows.parquet"))


def each(store: Store, stages: Collection[str], query: Callable[[str], str]) -> Iterator[str]:
    """A query of each stage that has rows, made of what reads these."""
    yield from (query(read_parquet(files)) for stage in stages if (files := files_of(store, stage)))


def responses_in(rows: str) -> str:
    """A query for the keys of the responses that rows name."""
    return f"SELECT DISTINCT response FROM {rows}"


def register(database: duckdb.DuckDBPyConnection, name: str, ids: Iterable[str]) -> None:
    """A table `name` of one column, `id`."""
    database.register(name, pa.table({"id": sorted(set(ids))}, schema=pa.schema([("id", pa.string())])))


def first_column(database: duckdb.DuckDBPyConnection, queries: Iterable[str]) -> Iterator[Any]:
    for query in queries:
        for batch in database.sql(query).to_arrow_reader():
            yield from filter(None, batch.column(0).to_pylist())


def found(database: duckdb.DuckDBPyConnection, store: Store, queries: Queries) -> Iterator[Any]:
    """What these queries find in the rows of their stages, whichever build made them: the first column."""
    made = (each(store, stages, query.format) for stages, query in queries)
    return first_column(database, chain.from_iterable(made))


def words_of(text: str) -> str:
    """Letters and digits alone: the same in a post, in a passage cut from it and in a prompt."""
    return _NO_WORD.sub("", text).lower()


def windows_of(texts: Iterable[str]) -> set[str]:
    """Pieces of WINDOW letters, one after the other, so that any passage of twice the length holds one whole.

    A shorter text gives none: its words could be anybody's.
    """
    long = [words for words in map(words_of, texts) if len(words) >= WINDOW]
    return {
        words[start : start + WINDOW]
        for words in long
        for start in (*range(0, len(words) - WINDOW + 1, WINDOW), len(words) - WINDOW)
    }


def by_words(responses: ResponseStore, texts: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Keys of the stored responses, other than the known ones, whose request shows one of the texts."""
    texts = set(texts)
    windows, short = windows_of(texts), {mark_of(text) for text in texts if 0 < len(words_of(text)) < WINDOW}
    if not windows and not short:
        return
    for key, record in responses.scan():
        if key not in known and _shows(record.request, windows, short):
            yield key


def _shows(request: bytes, windows: set[str], short: set[str]) -> bool:
    asked, embedded = _asked(request)
    by_itself = bool(short) and not short.isdisjoint(marks(asked) | set(map(mark_of, embedded)))
    return by_itself or (bool(windows) and holds(asked, windows))


def holds(text: str, windows: set[str]) -> bool:
    words = words_of(text)
    return any(words[start : start + WINDOW] in windows for start in range(len(words) - WINDOW + 1))


def _asked(request: bytes) -> tuple[str, list[str]]:
    """All strings of a request, and of these the texts to embed; one that is no JSON as it stands."""
    try:
        body = orjson.loads(request)
    except orjson.JSONDecodeError:
        return request.decode(errors="replace"), []
    embedded = body.get("input") if isinstance(body, dict) else None
    return " ".join(_strings(body)), list(_strings(embedded))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
