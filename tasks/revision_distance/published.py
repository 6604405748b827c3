"""The published tables: a row per draft with its case, scores and judgements, a row per edit, and the sources.

DuckDB joins the rows behind the drafts, part by part, with 512 MB and a folder to spill to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import read_parquet
from longform.engine.stage import AllRows, Rejected, Row, Rows, StageContext, stage
from schemas.revision_distance import ORIGINS, PUBLISHED_DRAFTS, PUBLISHED_EDITS
from tasks.sources.author_names import names_authors
from tasks.sources.papers.related import OF_SUBMISSION

BATCH_ROWS = 500
PAPER = ("paper_id", "title", "authors", "licence", "url", "retrieved_at", *OF_SUBMISSION)
KINDS = {"easy": "request", "free": "request", "hard": "paragraph", "structure": "structure"}

_DRAFTS = """
    SELECT
        d.draft_id, d.case_id, d.task, c.kind, c.rule, c.checked, c.checked_kind, d.system,
        c.request, c.title, c.abstract, c.cited,
        d.text AS draft, c.reference,
        x.distance, x.weighted, x.not_placed, x.not_applied, x.edits, x.revised, x.reproduces,
        x.lost_edits, x.aligned, x.no_ops, x.duplicates, x.residual, x.valid, x.coverage, x.silent, x.wholesale,
        x.corrected, x.normalised, x.ter, x.ter_left_out, x.signature,
        s.rouge1, s.rouge2, s."rougeL", s.bertscore, s.bertscore_left_out, r.gpt_score, g.score AS source_score,
        j.experts_better, j.experts,
        c.licence, c.url, c.source_id, c.venue, c.note_id, c.decision, c.file,
        d.writer, c.reference_by, d.model, d.response,
        e.model AS editor, e.response AS editor_response,
        CASE WHEN r.gpt_score IS NOT NULL THEN r.model END AS rater,
        d.task AS split
    FROM (SELECT *, row_number() OVER () AS place FROM drafts) AS d
    JOIN cases AS c USING (case_id)
    LEFT JOIN distances AS x USING (draft_id)
    LEFT JOIN edits AS e USING (draft_id)
    LEFT JOIN scores AS s USING (draft_id)
    LEFT JOIN ratings AS r USING (draft_id)
    LEFT JOIN (SELECT case_id, unnest(given, recursive := true) FROM cases) AS g
        ON g.case_id = d.case_id AND g.system = d.system
    LEFT JOIN (
        SELECT draft_id, count_if(better = draft_id)::INTEGER AS experts_better, count(*)::INTEGER AS experts
        FROM (SELECT better, unnest([first, second]) AS draft_id FROM judgements) GROUP BY draft_id
    ) AS j USING (draft_id)
    ORDER BY place
"""
_EDITS = """
    SELECT x.*, e.model AS editor, e.response AS editor_response
    FROM (SELECT *, row_number() OVER () AS place FROM distances) AS x JOIN edits AS e USING (edits_id)
    ORDER BY place
"""


@stage(PUBLISHED_DRAFTS, revision=3, split_by="split")
def publish_drafts(
    context: StageContext,
    drafts: Rows,
    cases: Rows,
    distances: Rows,
    edits: Rows,
    scores: Rows,
    ratings: Rows,
    judgements: AllRows,
) -> Iterator[Row]:
    """A row of PUBLISHED_DRAFTS for each draft, with its case, edits, scores and judgements.

    What a draft lacks is null (its edits are []); no draft is left out.
    """
    tables = {"drafts": drafts, "cases": cases, "distances": distances, "edits": edits}
    for row in _joined(context, _DRAFTS, {**tables, "scores": scores, "ratings": ratings, "judgements": judgements}):
        yield {**row, "edits": row["edits"] or []}


@stage(PUBLISHED_EDITS, revision=1, split_by="split")
def publish_edits(context: StageContext, distances: Rows, edits: Rows) -> Iterator[Row | Rejected]:
    """Each edit of each draft, in the editor's order; a Rejected for a draft whose list of edits is empty.

    Drafts without a row in `distances` are not mentioned.
    """
    for found in _joined(context, _EDITS, {"distances": distances, "edits": edits}):
        shared = {
            name: found[name]
            for name in ("draft_id", "distance_id", "case_id", "task", "system", "editor", "editor_response")
        }
        for position, edit in enumerate(found["edits"]):
            key = f"{found['draft_id']}#{position}"
            yield {"edit_id": key, **shared, "position": position, **edit, "split": found["task"]}
        if not found["edits"]:
            yield Rejected(found["distance_id"], "filtered", "no edit")


def _joined(context: StageContext, query: str, tables: dict[str, Rows]) -> Iterator[Row]:
    """The rows of an SQL query, as dicts, computed by DuckDB with limited memory and read in batches.

    `tables`: name of a table in the query -> its rows, which may be none.
    """
    config: dict[str, Any] = {"memory_limit": "512MB", "threads": 1, "temp_directory": str(context.scratch())}
    with duckdb.connect(config=config) as database:
        for name, rows in tables.items():
            if rows.paths:
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM {read_parquet(rows.paths)}")
            else:
                database.register(name, rows.schema.empty_table())
        for batch in database.sql(query).to_arrow_reader(BATCH_ROWS):
            yield from batch.to_pylist()


# ---------------------------------------------------------------- sources


@stage(ORIGINS, revision=2)
def name_sources(context: StageContext, cases: Rows, papers: AllRows, metadata: AllRows) -> Iterator[Row]:
    """Rows of ORIGINS: the source record of each case, and each cited paper whose title or abstract a model read.

    What the paper's records in `papers` and `metadata` do not say is null or empty.
    """
    for batch in cases.batches(["case_id", "task", "cited", "source_id", *_ORIGIN, *OF_SUBMISSION]):
        rows = batch.to_pylist()
        known = _papers((papers, metadata), {paper_id for row in rows for paper_id in _paper_ids(row)})
        for row in rows:
            yield from origins(row, known)


_ORIGIN = ("licence", "url", "revision", "retrieved_at")


def origins(case: Row, known: dict[str, Row]) -> Iterator[Row]:
    """Rows of ORIGINS of a case: its source record, then its cited papers with a title or an abstract, each once.

    `known`: paper id -> metadata; what it lacks is null or empty.
    """
    own = known.get(paper_of(case["source_id"]), {}) if case["task"] == "hard" else {}
    columns = {name: own.get(name) if case.get(name) is None else case[name] for name in (*_ORIGIN, *OF_SUBMISSION)}
    yield _origin(case["case_id"], KINDS[case["task"]], case["source_id"], own.get("title"), own, columns)
    for paper in _cited_with_texts(case):
        cited = known.get(paper["paper_id"], {})
        columns = {name: cited.get(name) for name in (*_ORIGIN, *OF_SUBMISSION)}
        columns["note_id"] = columns["note_id"] or _note_of(paper["paper_id"])
        yield _origin(case["case_id"], "cited", paper["paper_id"], paper["title"], cited, columns)


def _origin(case_id: str, kind: str, record_id: str, title: str | None, paper: Row, columns: Row) -> Row:
    """The row of ORIGINS of a record, with its authors only if the licence requires naming them.

    `kind`: what the record is to the case, "cited" for a cited paper. `paper`: its metadata, {} if unknown; `columns`:
    the values of _ORIGIN and OF_SUBMISSION.
    """
    return {
        "origin_id": f"o_{fingerprint([case_id, kind, record_id])}",
        "case_id": case_id,
        "kind": kind,
        "record_id": record_id,
        "title": title,
        "authors": (paper.get("authors") or []) if names_authors(columns["licence"]) else [],
        **columns,
    }


def _note_of(paper_id: str) -> str | None:
    """The note's id in the id of a submission to OpenReview, of which perhaps only metadata is there; else None."""
    group, _, own = paper_id.partition("/")
    return own if group == "openreview" else None


def paper_of(related_id: str) -> str:
    """The paper id in the id of a paragraph, <paper_id>#<position>; an id without # unchanged."""
    return related_id.split("#", 1)[0]


def _cited_with_texts(case: Row) -> list[Row]:
    """The cited papers with a title or an abstract, which requests show to models, each once."""
    found: dict[str, Row] = {}
    for paper in case["cited"]:
        if paper["title"] or paper["abstract"]:
            found.setdefault(paper["paper_id"], paper)
    return list(found.values())


def _paper_ids(case: Row) -> Iterator[str]:
    """The ids of the papers whose metadata the rows of ORIGINS of a case need.

    For a hard case its own paper; for any case the cited papers with a title or an abstract.
    """
    if case["task"] == "hard":
        yield paper_of(case["source_id"])
    yield from (paper["paper_id"] for paper in _cited_with_texts(case))


def _papers(tables: Iterable[Rows], ids: set[str]) -> dict[str, Row]:
    """paper_id -> metadata (the columns PAPER) of the papers with these ids; papers without a record are left out.

    Values that are null or empty in a paper's first record are taken from the next, in the order of the tables.
    """
    found: dict[str, Row] = {}
    wanted = pa.array(sorted(ids), pa.string())
    for rows in tables:
        columns = [name for name in PAPER if name in rows.schema.names]
        for batch in rows.batches(columns, 20_000) if ids else ():
            for row in batch.filter(pc.is_in(batch.column("paper_id"), wanted)).to_pylist():
                before = found.get(row["paper_id"], {})
                found[row["paper_id"]] = {name: before.get(name) or row.get(name) for name in PAPER}
    return found
