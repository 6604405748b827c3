"""Stored responses that were made from a text: found by the rows of stages, and by its words in a request."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import duckdb
import orjson

from longform.llm.fence import mark_of, marks
from longform.llm.records import ResponseStore
from longform.store import Store

WINDOW = 60
_NO_WORD = re.compile(r"[\W_]+")


def files_of(store: Store, stage: str) -> list[Path]:
    """The rows of a stage, whichever build made them."""
    return sorted(store.stage(stage).glob("parts/[!.]*/rows.parquet"))


def first_column(database: duckdb.DuckDBPyConnection, queries: Iterable[str]) -> Iterator[str]:
    for query in queries:
        for batch in database.sql(query).to_arrow_reader():
            yield from filter(None, batch.column(0).to_pylist())


def words_of(text: str) -> str:
    """Letters and digits alone: the same in a post, in a passage cut from it and in a prompt."""
    return _NO_WORD.sub("", text).lower()


def windows_of(texts: Iterable[str]) -> set[str]:
    """Pieces of WINDOW letters, one after the other, so that any passage of twice the length holds one whole.

    A shorter text gives none: its words could be anybody's.
    """
    windows = set()
    for words in map(words_of, texts):
        windows |= {words[start : start + WINDOW] for start in range(0, len(words) - WINDOW + 1, WINDOW)}
        windows |= {words[-WINDOW:]} if len(words) >= WINDOW else set()
    return windows


def fences_of(texts: Iterable[str]) -> set[str]:
    """Marks of the fences around texts that are too short for windows: where one stands by itself, it is that text."""
    return {mark_of(text) for text in texts if 0 < len(words_of(text)) < WINDOW}


def by_words(
    responses: ResponseStore, windows: set[str], known: set[str], fences: Collection[str] = frozenset()
) -> Iterator[str]:
    """Keys of the stored responses, other than the known ones, whose request holds one of the windows or fences."""
    if not windows and not fences:
        return
    for key, record in responses.scan():
        if key not in known and _shows(_asked(record.request), windows, fences):
            yield key


def _shows(asked: str, windows: set[str], fences: Collection[str]) -> bool:
    return not marks(asked).isdisjoint(fences) or (bool(windows) and holds(asked, windows))


def holds(text: str, windows: set[str]) -> bool:
    words = words_of(text)
    return any(words[start : start + WINDOW] in windows for start in range(len(words) - WINDOW + 1))


def _asked(request: bytes) -> str:
    """All strings of a request; one that is no JSON as it stands."""
    try:
        return " ".join(_strings(orjson.loads(request)))
    except orjson.JSONDecodeError:
        return request.decode(errors="replace")


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
