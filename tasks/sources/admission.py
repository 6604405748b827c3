"""Admission: listed takedowns leave each source's records before anything is made of them; nothing else changes.

One stage a table. `takedowns` are the ids that concern the groups of the input (`taken_down`), so
that a takedown elsewhere changes nothing. A record is listed by its own id; what hangs on it (the answers to a
question, the paragraphs of a paper) is left without its parent, and the stage that joins them says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected
from longform.artifacts.takedowns import load
from longform.engine.stage import AtMost, Builder, Rows, StageContext, stage
from schemas.sources.code import COMMITS
from schemas.sources.conversations import CONVERSATIONS
from schemas.sources.msmarco import PASSAGES
from schemas.sources.openreview import SUBMISSIONS
from schemas.sources.papers import METADATA, PAPERS
from schemas.sources.preferences import COMPARISONS, COMPLETIONS
from schemas.sources.reddit import ITEMS
from schemas.sources.stackexchange import POSTS
from tasks.sources.permalinks import names_of

REASON = "taken down"
Admitted = Iterator[pa.RecordBatch | Rejected]


def taken_down(home: Path, groups: Collection[str] | None = None) -> list[str]:
    """The ids of all takedowns, or of those that concern these groups, sorted; under each name of their site."""
    ids = {name for takedown in load(home) for name in names_of(takedown.id)}
    return sorted(name for name in ids if groups is None or name.split("/", 1)[0] in groups)


class Admission(Protocol):
    """A stage that leaves listed records out."""

    def __call__(self, builder: Builder, rows: Rows, /, *, takedowns: list[str]) -> Rows: ...


def admit(builder: Builder, work: Admission, rows: Rows, groups: Collection[str] | None = None) -> Rows:
    """The rows without the listed records of these groups, else of all, by a stage; as they are, if none is listed.

    So large sources are not copied for nothing.
    """
    listed = taken_down(builder.store.home, groups)
    return work(builder, rows, takedowns=listed) if listed else rows


def admitted(batch: pa.RecordBatch, ids: Collection[str], columns: Sequence[str]) -> Admitted:
    """The rows none of whose `columns` names a listed record, then a Rejected for each other, without its text.

    The first column is the key of the rows.
    """
    listed = pa.array(sorted(ids), pa.string())
    hit = pa.array([False] * len(batch), pa.bool_())
    for name in columns:
        hit = pc.or_(hit, pc.is_in(batch.column(name), value_set=listed))
    yield batch.filter(pc.invert(hit)) if pc.any(hit, min_count=0).as_py() else batch
    yield from (Rejected(key, "filtered", REASON) for key in batch.column(columns[0]).filter(hit).to_pylist())


def _admit(rows: Rows, takedowns: list[str], schema: pa.Schema) -> Admitted:
    key = schema.metadata[b"key"].decode()
    for batch in rows.batches():
        yield from admitted(batch.cast(schema), takedowns, [key])


@stage(POSTS, revision=1, at_most=AtMost(keeps=True))
def admit_posts(context: StageContext, posts: Rows, *, takedowns: list[str]) -> Admitted:
    """Stack Exchange posts. The answers to a question that is taken down are orphan answers from here on."""
    yield from _admit(posts, takedowns, POSTS)


@stage(ITEMS, revision=1, at_most=AtMost(keeps=True))
def admit_items(context: StageContext, items: Rows, *, takedowns: list[str]) -> Admitted:
    """Reddit submissions and comments."""
    yield from _admit(items, takedowns, ITEMS)


@stage(PAPERS, revision=1, at_most=AtMost(keeps=True))
def admit_papers(context: StageContext, papers: Rows, *, takedowns: list[str]) -> Admitted:
    """Papers with their texts, whatever they were read from."""
    yield from _admit(papers, takedowns, PAPERS)


@stage(METADATA, revision=1, at_most=AtMost(keeps=True))
def admit_metadata(context: StageContext, metadata: Rows, *, takedowns: list[str]) -> Admitted:
    """Titles and abstracts."""
    yield from _admit(metadata, takedowns, METADATA)


@stage(SUBMISSIONS, revision=1, at_most=AtMost(keeps=True))
def admit_submissions(context: StageContext, submissions: Rows, *, takedowns: list[str]) -> Admitted:
    """Submissions to conferences."""
    yield from _admit(submissions, takedowns, SUBMISSIONS)


@stage(PASSAGES, revision=1, at_most=AtMost(keeps=True))
def admit_passages(context: StageContext, passages: Rows, *, takedowns: list[str]) -> Admitted:
    """MS MARCO passages."""
    yield from _admit(passages, takedowns, PASSAGES)


@stage(COMMITS, revision=1, at_most=AtMost(keeps=True))
def admit_commits(context: StageContext, commits: Rows, *, takedowns: list[str]) -> Admitted:
    """Commits with their files."""
    yield from _admit(commits, takedowns, COMMITS)


@stage(CONVERSATIONS, revision=1, at_most=AtMost(keeps=True))
def admit_conversations(context: StageContext, conversations: Rows, *, takedowns: list[str]) -> Admitted:
    """Conversations with models."""
    yield from _admit(conversations, takedowns, CONVERSATIONS)


@stage(COMPARISONS, revision=1, at_most=AtMost(keeps=True))
def admit_comparisons(context: StageContext, comparisons: Rows, *, takedowns: list[str]) -> Admitted:
    """Comparisons of two answers."""
    yield from _admit(comparisons, takedowns, COMPARISONS)


@stage(COMPLETIONS, revision=1, at_most=AtMost(keeps=True))
def admit_completions(context: StageContext, completions: Rows, *, takedowns: list[str]) -> Admitted:
    """Instructions with several models' answers."""
    yield from _admit(completions, takedowns, COMPLETIONS)
