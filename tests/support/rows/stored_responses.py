"""Records and lines of the ledger for tests of the response stores, and putting them there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from longform.llm.responses.records import Paid, Record
from longform.llm.responses.store import ResponseStore

FULL = Record(
    endpoint="test",
    model="m",
    task="axioms/corrupt",
    prompt="hash",
    request=b'{"model":"m"}' * 20,
    body=b'{"choices":[]}' * 200,
    finish="stop",
    served_model="m-1",
    fingerprint="fp",
    request_id="req",
    input_tokens=7,
    cached_tokens=2,
    output_tokens=3,
    reasoning_tokens=1,
    token_limit=99,
    milliseconds=12,
    cost_nano=2**40,
    batch=True,
    created=1_700_000_000.25,
)


def key(number: int) -> str:
    return f"{number:064x}"


def full(number: int) -> tuple[str, Record]:
    """A key, and a record with all fields under it, unlike those of other numbers."""
    return key(number), replace(FULL, body=b'{"n": %d}' % number)


def paid(number: int = 0, **fields: Any) -> Paid:
    line = {"run": "r", "dataset": "axioms", "stage": "corrupt", "recipe": "f1", "endpoint": "test", "model": "m"}
    tokens = {"answered": True, "input_tokens": 7, "cached_tokens": 2, "output_tokens": 3, "reasoning_tokens": 1}
    return Paid(**{**line, **tokens, "key": key(number), "cost_nano": 45, **fields})


def put(store: ResponseStore, records: Sequence[tuple[str, Record]], lines: Sequence[Paid] = ()) -> None:
    asyncio.run(store.put(records, lines))


def lease(store: ResponseStore, *keys: str) -> set[str]:
    return asyncio.run(store.lease(keys))
