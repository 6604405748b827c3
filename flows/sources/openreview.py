"""OpenReview: submissions to a conference with their decisions and ratings, and their PDFs."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from schemas.sources.openreview import DECISIONS
from tasks.sources.admission import admit, admit_submissions
from tasks.sources.files.inputs import open_files
from tasks.sources.openreview.openreview_api import (
    API_V1,
    API_V2,
    Api,
    Wanted,
    fetch_year,
    query_answered_by,
    submissions_queries,
    years,
)
from tasks.sources.openreview.openreview_pdfs import fetch_pdfs, papers
from tasks.sources.openreview.submissions import GROUP, REPLIES, Replies, read_submissions
from tasks.sources.papers import duplicates
from tasks.sources.papers.paper_ids import PAPER_GROUPS

TERMS = Terms(
    what="submissions to ICLR from 2018 on: titles, abstracts, authors, decisions, ratings, reviews, PDFs",
    licence="each submission's own (API v2 names it, mostly CC BY 4.0; API v1 names none); OpenReview's terms of use",
    attribution="authors, title, and the address of the forum",
)

DEFECTS = (
    Defect(
        "API v1 tells the decision in several places, which may disagree or say nothing: such a decision is unknown.",
    ),
    Defect(
        "Listings hold reviews and comments, and some notes twice.",
        ("a reply, not a submission", "seen before in this file"),
    ),
    Defect(
        "Licences are named by API v2 only.",
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(API_V2, description="API v2 of OpenReview")
    base_url_v1: str | None = Field(None, description="API v1; unset: OpenReview's, or base_url where that is another")
    venue: str = Field("ICLR.cc", pattern=r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", description="group of the conference")
    ratings: bool = Field(True, description="also fetch the replies (reviews, decision notes): small pages, so slow")
    replies_page: int = Field(25, ge=1, le=1_000, description="submissions a page, where their replies come with them")
    limit: int | None = Field(None, ge=1, description="at most so many submissions of each kind a year; unset: all")
    refresh: bool = Field(False, description="ask again for submissions and decisions that are there, as they change")
    pdfs: bool = Field(False, description="also fetch the PDFs: OpenReview gives out few an hour, so run it again")
    decisions: list[str] = Field([], description=f"PDFs of these only: {', '.join(DECISIONS)}; empty: all")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the submissions of these years as JSON lines; with `pdfs` also their PDFs, into the folder pdfs."""
    if odd := sorted(set(config.decisions) - set(DECISIONS)):
        raise UsageError(f'OpenReview has no decision "{odd[0]}": choose of {", ".join(DECISIONS)}.')
    v1 = config.base_url_v1 or (API_V1 if config.base_url == API_V2 else config.base_url)
    apis = {1: Api(http, v1.rstrip("/"), 1), 2: Api(http, config.base_url.rstrip("/"), 2)}
    found: list[Path] = []
    for year in years(what):
        wanted = Wanted(config.venue, year, config.ratings, config.replies_page, config.limit, config.refresh)
        files = fetch_year(apis, wanted, folder, progress)
        found += files
        if config.pdfs:
            query = query_answered_by(files[0], submissions_queries(wanted))
            notes = [file for file in files if not file.name.endswith(REPLIES)]
            replies = Replies({str(file): "" for file in files if file.name.endswith(REPLIES)})
            chosen = papers(notes, replies, frozenset(config.decisions))
            found += fetch_pdfs(apis[query.version if query else 2], chosen, folder, progress, refresh=config.refresh)
    return found


class Read(BaseModel):
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no side file says it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Submissions, and which of them are versions of one paper: submitted again, to another year."""
    sources = open_files(
        paths, group=GROUP, endings=(".jsonl", ".jsonl.gz"), digest=builder.digests, retrieved_at=config.retrieved_at
    )
    reply_files = [source for source in sources if REPLIES in source.path]
    notes = [source for source in sources if source not in reply_files]
    if not notes:
        raise UsageError("Only replies were named: name the files of submissions too.")
    replies = Replies({source.path: source.sha256 for source in reply_files})
    submissions = admit(builder, admit_submissions, read_submissions(builder, notes, replies=replies), PAPER_GROUPS)
    return [submissions, duplicates.find_duplicates_of(builder, submissions)]
