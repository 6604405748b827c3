"""S2ORC and the other datasets of Semantic Scholar: from local files of any release, or from its Datasets API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.net.download import Downloader, Progress
from longform.settings import s2_api_key
from tasks.sources.admission import admit, admit_metadata, admit_papers
from tasks.sources.papers import duplicates
from tasks.sources.papers.paper_ids import PAPER_GROUPS
from tasks.sources.papers.papers import resolve_citations, split_paragraphs
from tasks.sources.s2orc import s2_api
from tasks.sources.s2orc.s2_releases import (
    merge_metadata,
    newest_papers,
    open_release,
    read_citations,
    read_s2_metadata,
)
from tasks.sources.s2orc.s2orc import read_s2orc

TERMS = Terms(
    what="full texts of open papers with sections and resolved citations; titles, authors, abstracts, citations",
    licence="ODC-BY 1.0 for the collection; each paper under its own licence, where the record says which",
    attribution="cite Lo et al. 2020, S2ORC: The Semantic Scholar Open Research Corpus, and each paper by its authors",
)

DEFECTS = (
    Defect(
        "Offsets of annotations count code points, UTF-16 units or bytes, by release; they are converted, and "
        "what fits nowhere is dropped.",
        ("paragraph spans dropped", "citation spans dropped", "spans beyond the text"),
    ),
    Defect(
        "Citations name entries that the bibliography does not have.",
        ("citations of no entry",),
    ),
    Defect(
        "Records come again in later releases, and are deleted upstream.",
        ("replaced upstream", "deleted upstream", "duplicate id"),
    ),
    Defect(
        "Many abstracts are withheld by their publishers, and some records have no text.",
        ("no text",),
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(s2_api.BASE_URL, description="the Datasets API, or a mirror of it")
    release: str = Field("latest", description="release to fetch, e.g. 2025-01-07, or latest")
    since: str | None = Field(
        None, description="a release that is there: fetch only the differences from it to `release`"
    )
    shards: int | list[int] | None = Field(
        None, description="how many files of each dataset, or which (0,2), counted from 0; unset: all"
    )

    @field_validator("shards", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        """A number or None as it is, and as list of numbers a list or a text such as 0,2; else ValueError."""
        if value is None or isinstance(value, int):
            return value
        pieces = [str(piece).strip() for piece in (value if isinstance(value, list) else str(value).split(","))]
        if not all(piece.removeprefix("-").isdecimal() for piece in pieces):
            raise ValueError("write how many, such as 1, or which, such as 0,2")
        return [int(piece) for piece in pieces]


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch files of `s2orc`, `s2orc_v2`, `papers`, `abstracts` or `citations`; s2orc_v2 if none is named."""
    api = s2_api.DatasetsApi(http, config.base_url, key=s2_api_key())
    names = s2_api.checked_datasets(what or ["s2orc_v2"])
    if config.since is not None:
        return s2_api.fetch_differences(api, names, folder, config.since, config.release, config.shards, progress)
    return s2_api.fetch_release(api, names, folder, config.release, config.shards, progress)


class Read(BaseModel):
    retrieved_at: str | None = Field(None, description="ISO 8601 date of the download, where no fetch noted it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Papers, their paragraphs, and the papers that these cite; metadata and citations if there are files of them; and
    which of the papers are versions of one.
    """
    files = open_release(paths, digest=builder.digests, retrieved_at=config.retrieved_at)
    papers, metadata = papers_and_metadata(builder, files["papers"], files["metadata"])
    paragraphs = split_paragraphs(builder, papers)
    cited = resolve_citations(builder, paragraphs, papers, metadata)
    citations, versions = read_citations(builder, files["citations"]), duplicates.find_duplicates_of(builder, papers)
    return [papers, paragraphs, cited, metadata, citations, versions]


def papers_and_metadata(builder: Builder, papers: list[Source], metadata: list[Source]) -> tuple[Rows, Rows]:
    """(the newest record of each paper, with values of the metadata where those are better; the metadata of papers),
    both without papers that are taken down. Papers are left out after they have the ids and authors of their metadata,
    as a takedown may name one that only the metadata has.
    """
    merged = merge_metadata(builder, read_s2_metadata(builder, metadata))
    records = read_s2orc(builder, papers)
    newest = newest_papers(builder, records, records, merged)
    return admit(builder, admit_papers, newest, PAPER_GROUPS), admit(builder, admit_metadata, merged, PAPER_GROUPS)
