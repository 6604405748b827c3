"""A small published version, for cards, reports and plots."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.axioms import PAIRS
from tasks.publishing.card import (
    Config,
    File,
    Paper,
    Split,
    VersionFacts,
    table_of,
)

ASKED = datetime(2014, 2, 3, 12, tzinfo=UTC)
HUMAN = {
    "source": "human", "votes": 7, "url": "https://tea.example/a/2", "author": "Ann",
    "author_url": "https://tea.example/users/1", "licence": "CC BY-SA 4.0",
    "created": ASKED, "parent_ids": [], "scrubbed": 0, "cut": [],
    "response": None, "prompt": None, "endpoint": None, "model": None,
}  # fmt: skip


MODEL = {
    "source": "closed_book", "votes": None, "url": None, "author": None, "author_url": None,
    "licence": "CC BY-SA 4.0", "created": None, "parent_ids": ["tea.example/9"],
    "scrubbed": None, "cut": [],
    "response": "51aa", "prompt": "axioms/closed_book@9c1f",
    "endpoint": "offline", "model": "offline-rules-1",
}  # fmt: skip


def pair(number: int, **changes: Any) -> dict[str, Any]:
    """A row of PAIRS, written for these tests: a human answer preferred to a generated one."""
    row = {
        "pair_id": f"p_{number}",
        "question_id": f"tea.example/{number}",
        "question": "Why is tea bitter?\n\nIt is: <b>very</b>, naïve — 茶.",
        "evidence": ["Tannins taste bitter.", "Hot water draws more of them."],
        "evidence_ids": ["tea.example/9#0", "tea.example/9#1"],
        "preferred_id": f"tea.example/{number + 1}",
        "preferred": "Because of tannins.",
        **{f"preferred_{name}": value for name, value in HUMAN.items()},
        "rejected_id": f"c_{number}",
        "rejected": "Nobody knows.",
        **{f"rejected_{name}": value for name, value in MODEL.items()},
        "related_question_id": None,
        "related_similarity": None,
        "utilization": None,
        "axiom": 2,
        "pair_type": "human > closed_book",
        "margin": 0.25,
        "preferred_score": None,
        "rejected_score": None,
        "critic_margin": None,
        "split": "train",
        "source": "stackexchange",
        "site": "tea.example",
        "tags": ["tea"],
        "question_url": f"https://tea.example/q/{number}",
        "question_created": ASKED,
        "question_author": "Bo",
        "question_author_url": "https://tea.example/users/2",
        "question_licence": "CC BY-SA 3.0",
        "question_scrubbed": 0,
        "retrieved_at": datetime(2026, 11, 20, 6, 30, 0, 125000, tzinfo=UTC),
    }
    return row | changes


ROWS = {
    "train/a1.parquet": [pair(1), pair(2, evidence=[], evidence_ids=[])],
    "train/b2.parquet": [pair(3, preferred_author=None, preferred_author_url=None, preferred_votes=-3)],
    "test/c3.parquet": [pair(4, split="test", retrieved_at=None, question_author=None), pair(5, split="test")],
}


def write_files(folder: Path) -> dict[str, File]:
    """The Parquet files of ROWS, written under the folder."""
    files = {}
    for path, rows in ROWS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=PAIRS), folder / path)
        data = (folder / path).read_bytes()
        files[path] = File(path, len(data), hashlib.sha256(data).hexdigest())
    return files


TABLES = [table_of("Pairs by axiom", "", ("axiom", "train", "test"), [("groundedness", 3, 2)])]


def version_of(files: dict[str, File], **changes: Any) -> VersionFacts:
    splits = [
        Split("train", 3, [files["train/a1.parquet"], files["train/b2.parquet"]]),
        Split("test", 2, [files["test/c3.parquet"]]),
    ]
    version = VersionFacts(
        dataset="axioms",
        version="2026.11.20.2",
        title="Axioms: preference pairs",
        summary="Pairs of long answers to questions, one preferred to the other by a stated principle.",
        paper=Paper("Axiomatic Preference Modeling", "Axiomatic Preference Modeling, 2023, tables 7 and 10."),
        licence=["CC BY-SA 3.0", "CC BY-SA 4.0"],
        offline=True,
        configs=[Config("pairs", True, splits, PAIRS)],
        sites=["tea.example", "beer.stackexchange.com"],
        stages=[("read_posts", "6a11" * 16, 1044, 8, 3), ("pairs", "3d90" * 16, 5, 0, 0)],
        date_published="2026-11-20",
        offline_kinds=["closed_book"],
    )
    return dataclasses.replace(version, **changes)


def example_version() -> VersionFacts:
    """A version whose files need not exist."""
    return version_of({path: File(path, 1000 + place, "0" * 64) for place, path in enumerate(ROWS)})
