"""Admission: records that are taken down are removed from each source's table before any stage uses it.

There is one stage per table. Each yields the table's rows without those whose key is among `takedowns`, and a Rejected
(`filtered`, "taken down") for each row left out. `takedowns` are the ids of the groups in the input (`taken_down`), so
that a takedown in another group changes no stage. A record is removed by its own id, a paper by any of its ids, its
file's name or an author (tasks.sources.papers.paper_ids); what belongs to it (the answers
to a question, the paragraphs of a paper) stays without its parent, and the stage that joins the two reports that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected
from longform.artifacts.takedowns import load
from longform.engine.stage import AllRows, AtMost, Builder, Rows, StageContext, stage
from schemas.sources.code import COMMITS
from schemas.sources.conversations import CONVERSATIONS
from schemas.sources.msmarco import PASSAGES, QUERIES
from schemas.sources.openreview import SUBMISSIONS
from schemas.sources.papers import METADATA, PAPERS
from schemas.sources.preferences import COMPARISONS, COMPLETIONS
from schemas.sources.reddit import ITEMS
from schemas.sources.stackexchange import POSTS
from tasks.sources.papers.paper_ids import is_listed
from tasks.sources.permalinks import ids_with_former

REASON = "taken down"
Admitted = Iterator[pa.RecordBatch | Rejected]


def taken_down(home: Path, groups: Collection[str] | None = None) -> list[str]:
    """The ids of all takedowns of a home, sorted; with `groups`, only the ids whose part before the first slash is one
    of these groups. Empty if there are none; StoreError if the file of takedowns is damaged or unreadable.

    An id whose Stack Exchange site was renamed is also listed under the site's old names.
    """
    ids = {name for takedown in load(home) for name in ids_with_former(takedown.id)}
    return sorted(name for name in ids if groups is None or name.split("/", 1)[0] in groups)


class AdmissionStage(Protocol):
    """A stage that leaves out the rows whose key is one of the ids in `takedowns`, such as `admit_posts`."""

    def __call__(self, builder: Builder, rows: Rows, /, *, takedowns: list[str]) -> Rows: ...


def admit(builder: Builder, stage: AdmissionStage, rows: Rows, groups: Collection[str] | None = None) -> Rows:
    """The rows that remain when `stage` removes the records that are taken down; with `groups`, only the takedowns of
    these groups count. `rows` itself if there is no such takedown, so that large sources are not copied for nothing.
    StoreError if the file of takedowns is damaged or unreadable.
    """
    listed = taken_down(builder.store.home, groups)
    return stage(builder, rows, takedowns=listed) if listed else rows


def listed_in(home: Path, groups: Collection[str]) -> dict[str, list[str]]:
    """The argument `takedowns` of a stage that takes it only where something of these groups is taken down in a home;
    {} if nothing is, so that the recipes of other homes stay. Errors as by `taken_down`.
    """
    listed = taken_down(home, groups)
    return {"takedowns": listed} if listed else {}


def without_listed(batch: pa.RecordBatch, ids: Collection[str], columns: Sequence[str]) -> Admitted:
    """First the batch (perhaps empty) without the rows in which one of `columns` equals one of the ids; then a Rejected
    (`filtered`, "taken down", without text) for each of those rows, with the first of `columns` as its key.
    """
    listed = pa.array(sorted(ids), pa.string())
    hit = pa.array([False] * len(batch), pa.bool_())
    for name in columns:
        hit = pc.or_(hit, pc.is_in(batch.column(name), value_set=listed))
    yield batch.filter(pc.invert(hit)) if pc.any(hit, min_count=0).as_py() else batch
    yield from (Rejected(key, "filtered", REASON) for key in batch.column(columns[0]).filter(hit).to_pylist())


def _admit(rows: Rows, takedowns: list[str], schema: pa.Schema) -> Admitted:
    """The table's batches, cast to `schema`, without the rows whose key is one of `takedowns`; after each batch a
    Rejected for each row left out of it. The key is the column that the schema's metadata names as `key`.
    """
    key = schema.metadata[b"key"].decode()
    for batch in rows.batches():
        yield from without_listed(batch.cast(schema), takedowns, [key])


def _admit_papers(rows: Rows, takedowns: list[str], schema: pa.Schema) -> Admitted:
    """As `_admit`, for tables of papers: a row is left out if one of `takedowns` is any of its paper's ids, the name of
    its file, or one of its authors (tasks.sources.papers.paper_ids).
    """
    key = schema.metadata[b"key"].decode()
    for batch in rows.batches():
        hit = is_listed(batch, takedowns)
        yield batch.cast(schema).filter(pc.invert(hit))
        yield from (Rejected(name, "filtered", REASON) for name in batch.column(key).filter(hit).to_pylist())


@stage(POSTS, revision=1, at_most=AtMost(keeps=True))
def admit_posts(context: StageContext, posts: Rows, *, takedowns: list[str]) -> Admitted:
    """Stack Exchange posts that are not taken down, and a Rejected for each other one. Answers to a removed question
    stay, without their question.
    """
    yield from _admit(posts, takedowns, POSTS)


@stage(ITEMS, revision=1, at_most=AtMost(keeps=True))
def admit_items(context: StageContext, items: Rows, *, takedowns: list[str]) -> Admitted:
    """Reddit submissions and comments that are not taken down, and a Rejected for each other one."""
    yield from _admit(items, takedowns, ITEMS)


@stage(PAPERS, revision=3, at_most=AtMost(keeps=True))
def admit_papers(context: StageContext, papers: Rows, *, takedowns: list[str]) -> Admitted:
    """Papers of any source, with their texts, that are not taken down, and a Rejected for each other one."""
    yield from _admit_papers(papers, takedowns, PAPERS)


@stage(PAPERS, revision=1, at_most=AtMost(keeps=True))
def admit_described_papers(
    context: StageContext, papers: Rows, publications: AllRows, *, takedowns: list[str]
) -> Admitted:
    """As `admit_papers`, also without papers of which `publications` (metadata before admission) has a row
    that is taken down: it may have ids and authors that the paper's row lacks.
    """
    batches = (batch["paper_id"].filter(is_listed(batch, takedowns)) for batch in publications.batches())
    named = {name for ids in batches for name in ids.to_pylist()}
    yield from _admit_papers(papers, sorted({*takedowns, *named}), PAPERS)


@stage(METADATA, revision=3, at_most=AtMost(keeps=True))
def admit_metadata(context: StageContext, metadata: Rows, *, takedowns: list[str]) -> Admitted:
    """Metadata (title, abstract and the like) of papers that are not taken down, and a Rejected for each other one."""
    yield from _admit_papers(metadata, takedowns, METADATA)


@stage(SUBMISSIONS, revision=3, at_most=AtMost(keeps=True))
def admit_submissions(context: StageContext, submissions: Rows, *, takedowns: list[str]) -> Admitted:
    """Submissions to conferences that are not taken down, and a Rejected for each other one."""
    yield from _admit_papers(submissions, takedowns, SUBMISSIONS)


@stage(PASSAGES, revision=1, at_most=AtMost(keeps=True))
def admit_passages(context: StageContext, passages: Rows, *, takedowns: list[str]) -> Admitted:
    """MS MARCO passages that are not taken down, and a Rejected for each other one."""
    yield from _admit(passages, takedowns, PASSAGES)


@stage(QUERIES, revision=1, at_most=AtMost(keeps=True))
def admit_queries(context: StageContext, queries: Rows, *, takedowns: list[str]) -> Admitted:
    """MS MARCO queries that are not taken down, and a Rejected for each other one."""
    yield from _admit(queries, takedowns, QUERIES)


@stage(COMMITS, revision=1, at_most=AtMost(keeps=True))
def admit_commits(context: StageContext, commits: Rows, *, takedowns: list[str]) -> Admitted:
    """Commits, with their files, that are not taken down, and a Rejected for each other one."""
    yield from _admit(commits, takedowns, COMMITS)


@stage(CONVERSATIONS, revision=1, at_most=AtMost(keeps=True))
def admit_conversations(context: StageContext, conversations: Rows, *, takedowns: list[str]) -> Admitted:
    """Conversations with models that are not taken down, and a Rejected for each other one."""
    yield from _admit(conversations, takedowns, CONVERSATIONS)


@stage(COMPARISONS, revision=1, at_most=AtMost(keeps=True))
def admit_comparisons(context: StageContext, comparisons: Rows, *, takedowns: list[str]) -> Admitted:
    """Comparisons of two answers that are not taken down, and a Rejected for each other one."""
    yield from _admit(comparisons, takedowns, COMPARISONS)


@stage(COMPLETIONS, revision=1, at_most=AtMost(keeps=True))
def admit_completions(context: StageContext, completions: Rows, *, takedowns: list[str]) -> Admitted:
    """Instructions with several models' answers that are not taken down, and a Rejected for each other one."""
    yield from _admit(completions, takedowns, COMPLETIONS)
