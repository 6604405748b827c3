"""Papers on your own disk: TEI documents and PDFs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.settings import grobid_url
from tasks.sources.admission import admit, admit_metadata, admit_papers
from tasks.sources.files.bundles import open_bundles
from tasks.sources.files.inputs import open_files
from tasks.sources.papers import duplicates, tei
from tasks.sources.papers import grobid as server
from tasks.sources.papers.metadata import ENDINGS, read_metadata
from tasks.sources.papers.paper_ids import PAPER_GROUPS
from tasks.sources.papers.papers import admit_once, find_repeated, gather_papers, split_paragraphs
from tasks.sources.papers.pdf import pdfium

TERMS = Terms(
    what="papers of your own: TEI documents that GROBID wrote, and PDFs",
    licence="each paper's own, where its TEI names it, else the one given in the setting licence",
    attribution="authors and title, with the DOI where there is one",
)
METADATA = "metadata"

DEFECTS = (
    Defect(
        "GROBID writes TEI without a body for papers that it cannot take apart, and rarely ill-formed XML.",
        ("empty body", "ill-formed XML"),
    ),
    Defect(
        "PDFs of scans hold no text.",
        ("no text",),
    ),
    Defect(
        "Without GROBID, heads of a PDF are found by rules; a paper in which none is found has no roles.",
        ("no head found",),
    ),
    Defect(
        "Some PDFs do not tell the letters of their glyphs.",
        ("unreadable text", "text unreadable in part"),
    ),
    Defect(
        "A paper may be there several times: in two archives, as two PDFs of one note, as PDF and TEI. One row stays.",
        ("repeated paper",),
    ),
    Defect(
        "DOIs that a parser took from a reference or a volume make pairs of papers doubtful.",
        ("doubtful",),
    ),
)


class Read(BaseModel):
    only: Literal["tei", "pdf"] | None = Field(
        None, description="read only these; unset: TEI and PDFs, each as a paper"
    )
    parser: Literal["auto", "grobid", "pdfium"] = Field(
        "auto", description="of PDFs; auto: the GROBID server of the setting grobid or of GROBID_URL, else pdfium"
    )
    grobid: str | None = Field(None, description="address of a GROBID server, e.g. http://localhost:8070")
    concurrency: int = Field(server.CONCURRENCY, ge=1, le=64, description="PDFs that the server is given at once")
    pages: int = Field(pdfium.PAGES, ge=1, le=5_000, description="pdfium: PDFs with more pages are rejected")
    seconds: float | None = Field(None, gt=0, description="a PDF may take as long; unset: pdfium 60, grobid 300")
    patience: float = Field(server.PATIENCE_SECONDS, gt=0, description="seconds to wait for a busy server")
    licence: str | None = Field(None, description="of papers that do not name theirs, e.g. CC BY 4.0")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Papers, each once, and their paragraphs, from TEI and PDF files, folders or archives, which may hold both; and
    which of the papers are versions of one.
    """
    documents = [] if config.only == "pdf" else _opened(builder, paths, config, tei.ENDINGS, tei.FILES_PER_BUNDLE)
    prints = [] if config.only == "tei" else _opened(builder, paths, config, pdfium.ENDINGS, pdfium.FILES_PER_BUNDLE)
    if not (documents or prints):
        raise UsageError(
            f"{', '.join(map(str, paths)) or 'Nothing'} holds no paper: give .tei.xml, .xml or .pdf files, folders of "
            "them, or a .zip or .tar."
        )
    found = [tei.read_tei(builder, documents)] if documents else []
    found += [pdfium.read_pdfs(builder, prints, parser=parser_of(config))] if prints else []
    admitted = [admit(builder, admit_papers, papers, PAPER_GROUPS) for papers in found]
    repeated = find_repeated(builder, admitted[0], admitted[-1])
    once = [admit_once(builder, papers, repeated) for papers in admitted]
    tables = [rows for papers in once for rows in (papers, split_paragraphs(builder, papers))]
    return [*tables, duplicates.find_duplicates_of(builder, *once)]


def gathered(builder: Builder, paths: list[Path], config: Read) -> Rows:
    """The papers of these files, folders and archives as one table, without those that are taken down: each once, from
    its TEI where that is there, else from its PDF. An empty table if there is no such file.
    """
    documents = _opened(builder, paths, config, tei.ENDINGS, tei.FILES_PER_BUNDLE) if paths else []
    prints = _opened(builder, paths, config, pdfium.ENDINGS, pdfium.FILES_PER_BUNDLE) if paths else []
    parser = parser_of(config) if prints else pdfium.Pdfium()
    read = tei.read_tei(builder, documents), pdfium.read_pdfs(builder, prints, parser=parser)
    return admit(builder, admit_papers, gather_papers(builder, *read), PAPER_GROUPS)


def metadata(builder: Builder, paths: list[Path], retrieved_at: str | None) -> Rows:
    """The metadata of papers in these .jsonl files, without those that are taken down; an empty table if there is no
    file. `retrieved_at`: when files were fetched of which no side file says it.
    """
    found = (
        open_files(paths, group=METADATA, endings=ENDINGS, digest=builder.digests, retrieved_at=retrieved_at)
        if paths
        else []
    )
    return admit(builder, admit_metadata, read_metadata(builder, found), PAPER_GROUPS)


def parser_of(config: Read) -> server.Grobid | pdfium.Pdfium:
    """The PDF parser that the settings choose. `auto`: GROBID if it has an address (the setting `grobid`, else
    GROBID_URL), else pdfium. Waits until the GROBID server is ready. UsageError if GROBID is chosen without an address,
    SourceError if no GROBID server answers there, Incomplete if it is still starting after two minutes.
    """
    url = config.grobid or grobid_url()
    if config.parser == "pdfium" or (config.parser == "auto" and not url):
        return pdfium.Pdfium(pages=config.pages, seconds=config.seconds or pdfium.SECONDS)
    if not url:
        raise UsageError("parser=grobid needs a server: set grobid=http://localhost:8070, or GROBID_URL.")
    return server.connect(
        url,
        concurrency=config.concurrency,
        seconds=config.seconds or server.SECONDS,
        patience_seconds=config.patience,
    )


def _opened(builder: Builder, paths: list[Path], config: Read, endings: tuple[str, ...], mean: int) -> list[Source]:
    """Sources of the files with one of `endings` in these files, folders and archives: bundles of about `mean` files,
    and each archive by itself. All have the setting `licence` as a fact; [] if there is no such file.
    """
    return open_bundles(
        paths,
        group=tei.GROUP,
        endings=endings,
        digest=builder.digests,
        mean=mean,
        facts=(("licence", config.licence),),
    )
