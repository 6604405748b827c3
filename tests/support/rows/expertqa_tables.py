"""Tables of ExpertQA for tests: rows with few words, stages run for real (units, parts, conservation)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from longform.artifacts.parts import Parts
from longform.artifacts.rows import Rejected, Row, Rows
from longform.artifacts.store import Store
from longform.engine.jobs import execute, jobs_of
from longform.engine.stage import Stage
from schemas.expertqa import ANSWERS, CLAIM_LABELS, CLAIMS, EVIDENCE, LABELS, QUESTIONS


def filled(columns: Iterable[pa.Field], **given: Any) -> Row:
    """A row of these columns; columns without a value are null, or empty if they must not be null."""
    known = {column.name: column for column in columns}
    assert given.keys() <= known.keys(), given.keys() - known.keys()
    empty = {
        name: None if column.nullable else _empty(column.type) for name, column in known.items() if name not in given
    }
    return {name: given[name] if name in given else empty[name] for name in known}


def _empty(type: pa.DataType) -> Any:
    if pa.types.is_timestamp(type):
        return datetime.fromtimestamp(0, UTC)
    return [] if pa.types.is_list(type) else "" if pa.types.is_string(type) else type.to_pandas_dtype()(0).item()


def question(key: str, text: str = "", **given: Any) -> Row:
    given = {"field": "Geography", "source": "own", "licence": "CC0-1.0", **given}
    return filled(QUESTIONS, question_id=f"expertqa/{key}", question=text or f"What is {key}?", **given)


def answer(key: str, question: str, **given: Any) -> Row:
    given = {"system": "gpt4", "kind": "closed_book", "text": f"It is {key}.", **given}
    return filled(ANSWERS, answer_id=key, question_id=f"expertqa/{question}", **given)


def claim(answer: str, position: int, question: str, **given: Any) -> Row:
    given = {"system": "gpt4", "text": f"Claim {position} of {answer}.", **given}
    key = f"{answer}#{position}"
    return filled(
        CLAIMS, claim_id=key, answer_id=answer, question_id=f"expertqa/{question}", position=position, **given
    )


def evidence(**given: Any) -> Row:
    return filled(EVIDENCE, **given)


def label(answer: str, who: str, question: str, claims: Sequence[Row] = (), **given: Any) -> Row:
    given = {"system": "gpt4", "source": "jsonl", "annotator_id": who, "claims": list(claims), **given}
    return filled(LABELS, label_id=f"{answer}/{who}", answer_id=answer, question_id=f"expertqa/{question}", **given)


def claim_label(key: str, **given: Any) -> Row:
    return filled(CLAIM_LABELS, claim_id=key, **given)


class Home:
    """A store with tables written into it, and a way to run stages on them."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self.store.prepare()

    def table(self, schema: pa.Schema, *parts: Sequence[Row], keys: Sequence[str] = ()) -> Rows:
        """Write a table with one part for each list of rows; part keys are those of a source unless `keys` names
        others.
        """
        name = schema.metadata[b"name"].decode()
        names = keys or [f"expertqa/{number:08x}-00000" for number in range(len(parts))]
        made = [self._part(schema, name, key, rows) for key, rows in zip(names, parts, strict=True)]
        return Rows(self.store, schema, name, "abcd", made)

    def _part(self, schema: pa.Schema, name: str, key: str, rows: Sequence[Row]) -> Any:
        parts = Parts(self.store, name, schema, [key], None)
        for row in rows:
            parts.add(row)
        return parts.finish()[0]

    def run(self, work: Stage, *given: Any, **arguments: Any) -> Rows:
        """The rows that a stage makes of these inputs, made as a build makes them."""
        inputs = dict(zip(work.inputs, given, strict=True))
        recipe = work.recipe(inputs, arguments)
        jobs = list(jobs_of(self.store, work.called(self.store, inputs, arguments)))
        parts = [part for job in jobs for part in execute(job)]
        return Rows(self.store, work.schema, work.name, recipe.fingerprint, parts)

    def rejected(self, rows: Rows) -> dict[str, str]:
        """row key -> reason."""
        import pyarrow.parquet as pq

        paths = [self.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
        return {row["key"]: row["reason"] for path in paths for row in pq.read_table(path).to_pylist()}


def kept(items: Iterable[Row | Rejected]) -> list[Row]:
    return [item for item in items if not isinstance(item, Rejected)]


def refused(items: Iterable[Row | Rejected]) -> list[tuple[str, str]]:
    return [(item.key, item.reason) for item in items if isinstance(item, Rejected)]
