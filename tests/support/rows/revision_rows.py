"""Complete rows of Revision Distance's tables, of which a test sets only what matters to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from expertqa_tables import filled

from longform.artifacts.rows import Row
from schemas.revision_distance import (
    CASES,
    CITED,
    DISTANCES,
    DRAFTS,
    EDITS,
    GIVEN,
    PLACED,
    PUBLISHED_DRAFTS,
    RATINGS,
    SCORES,
)

MADE = {"prompt": "revision_distance/write", "prompt_hash": "12345678" * 8, "endpoint": "offline", "model": "rules"}


def fields(struct: pa.DataType) -> Iterable[pa.Field]:
    return [struct.field(number) for number in range(struct.num_fields)]


def made(name: str) -> Row:
    """The columns of a row that a model wrote; its response is named after the row."""
    return {**MADE, "response": name.encode().hex().ljust(64, "0")}


def cited(paper_id: str, **given: Any) -> Row:
    return filled(fields(CITED), paper_id=paper_id, by="link", **{"title": f"On {paper_id}", **given})


def drafted(system: str, text: str, **given: Any) -> Row:
    return filled(fields(GIVEN), system=system, text=text, **given)


def case(case_id: str, **given: Any) -> Row:
    task, _, record = case_id.partition("/")
    return filled(CASES, case_id=case_id, task=task, source_id=record, **{"kind": "letter", **given})


def draft_id(case_id: str, system: str) -> str:
    """A readable draft id, made of what it is for; real ids are hashes."""
    return f"d_{case_id.rsplit('/', 1)[1].replace('#', '-')}_{system}"


def draft(of: Row, system: str, text: str = "", **given: Any) -> Row:
    own = {"draft_id": draft_id(of["case_id"], system), "case_id": of["case_id"], "task": of["task"]}
    return filled(DRAFTS, **own, system=system, text=text or f"The {system} text.", **given)


def edit(**given: Any) -> Row:
    return filled(fields(PLACED), **{"action_name": "change", "weight": 1.0, "placed": "exactly", **given})


def edits_of(of: Row, **given: Any) -> Row:
    own = {"edits_id": f"e_{of['draft_id']}", "draft_id": of["draft_id"], "case_id": of["case_id"]}
    return filled(EDITS, **own, **given)


def distance_of(of: Row, placed: list[Row], **given: Any) -> Row:
    own = {name: of[name] for name in ("draft_id", "case_id", "task", "system")}
    ids = {"distance_id": f"x_{of['draft_id']}", "edits_id": f"e_{of['draft_id']}"}
    return filled(DISTANCES, **own, **ids, distance=len(placed), edits=placed, **given)


def score_of(of: Row, **given: Any) -> Row:
    return filled(SCORES, score_id=f"r_{of['draft_id']}", draft_id=of["draft_id"], case_id=of["case_id"], **given)


def rating_of(of: Row, **given: Any) -> Row:
    return filled(RATINGS, rating_id=f"g_{of['draft_id']}", draft_id=of["draft_id"], case_id=of["case_id"], **given)


def published(case_id: str, system: str, text: str, **given: Any) -> Row:
    own = {"draft_id": draft_id(case_id, system), "case_id": case_id, "system": system, "draft": text}
    return filled(PUBLISHED_DRAFTS, **own, **{"task": "hard", "split": "hard", **given})
