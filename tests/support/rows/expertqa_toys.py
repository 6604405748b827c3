"""Complete rows of ExpertQA's tables, of which a test sets only what matters to it, and stages that yield them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longform.artifacts.rows import Source
from longform.engine.stage import Rejected, Row, Rows, Shard, StageContext, stage
from longform.files import sha256_of
from schemas.expertqa import ANSWERS, CLAIMS, LABELS, QUESTIONS


def question(name: str, asker: str | None = "e1", field: str = "Brewing", **other: Any) -> Row:
    row = dict.fromkeys(QUESTIONS.names)
    known = {"question_id": f"expertqa/{name}", "question": f"Why {name}?", "annotator_id": asker, "field": field}
    return {**row, "question_types": ["I"], "source": "own", "position": 0, **known, **other}


def answer(question: str, system: str = "gpt4", **other: Any) -> Row:
    row = dict.fromkeys(ANSWERS.names)
    known = {"answer_id": f"a_{question}_{system}", "question_id": f"expertqa/{question}", "system": system}
    return {
        **row,
        **known,
        "kind": "closed_book",
        "text": "Copper rusts green.",
        "attribution": [],
        "cited": [],
        **other,
    }


def claim(of: Row, position: int, text: str = "Copper rusts green.", **other: Any) -> Row:
    row = dict.fromkeys(CLAIMS.names)
    known = {name: of[name] for name in ("answer_id", "question_id", "system")}
    lists: Row = {"marks": [], "unmatched": [], "evidence": []}
    return {
        **row,
        **known,
        **lists,
        "claim_id": f"{of['answer_id']}#{position}",
        "position": position,
        "text": text,
        **other,
    }


def claims(of: Row, number: int) -> list[Row]:
    return [claim(of, position, f"Claim {position}.") for position in range(number)]


@stage(QUESTIONS, revision=1)
def read_questions(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows[files.index :: len(files.source.pieces)]


@stage(ANSWERS, revision=1)
def collect_answers(context: StageContext, questions: Rows, *, rows: list[Row]) -> Iterator[Row | Rejected]:
    for one in questions:
        own = [row for row in rows if row["question_id"] == one["question_id"]]
        yield from own or [Rejected(one["question_id"], "filtered", "no answer")]


@stage(CLAIMS, revision=1)
def link_cited_pages(context: StageContext, answers: Rows, *, rows: list[Row]) -> Iterator[Row | Rejected]:
    for one in answers:
        own = [row for row in rows if row["answer_id"] == one["answer_id"]]
        yield from own or [Rejected(one["answer_id"], "filtered", "no claim")]


@stage(LABELS, revision=1)
def read_labels(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


def toy_source(folder: Path, pieces: int = 1, name: str = "toys") -> Source:
    file = folder / name
    file.write_text(name)
    ranges = tuple((number, number + 1) for number in range(pieces))
    return Source("expertqa", str(file), sha256_of(file), (), ranges)


def rejected_of(made: Rows) -> dict[str, tuple[str, str]]:
    """key -> (kind, reason) of everything a stage rejected."""
    import pyarrow.parquet as pq

    found: dict[str, tuple[str, str]] = {}
    for part in made.parts or ():
        if part.rejected_sha256:
            for row in pq.read_table(made.store.rejected_path(part)).to_pylist():
                found[row["key"]] = (row["kind"], row["reason"])
    return found
