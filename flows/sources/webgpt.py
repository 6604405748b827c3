"""WebGPT comparisons: pairs of answers with the quotes they were written from, and which one people preferred."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_comparisons
from tasks.sources.files.inputs import open_files
from tasks.sources.released import webgpt

FILE = "comparisons.jsonl"

TERMS = Terms(
    what="19,578 comparisons of two answers to a question, most of the questions from ELI5",
    licence="none: the set's page names no licence; quotes are of other people's pages",
    attribution="cite Nakano et al. 2021, WebGPT: Browser-assisted question-answering with human feedback",
)

DEFECTS = (
    Defect(
        "Scores of the two answers of some comparisons do not cancel out.",
        ("scores do not cancel out",),
    ),
    Defect(
        "Some answers have no quotes, or quotes without their titles.",
        ("no quotes", "titles and extracts do not match"),
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(webgpt.URL.removesuffix(f"/{FILE}"), description=f"the folder of {FILE}, or of a mirror's")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch `all`: there is one file, comparisons.jsonl, of which no checksum is published."""
    if odd := [name for name in what if name != FILE]:
        raise UsageError(f'webgpt has no "{odd[0]}": it is one file, name all or {FILE}.')
    return [http.download(f"{config.base_url.rstrip('/')}/{FILE}", folder / FILE, progress=progress).path]


class Read(BaseModel):
    retrieved_at: str | None = Field(None, description="ISO 8601 date of the download, where no fetch noted it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    files = open_files(
        paths, group=webgpt.GROUP, endings=webgpt.ENDINGS, digest=builder.digests, retrieved_at=config.retrieved_at
    )
    return [read_and_admit(builder, files)]


def read_and_admit(builder: Builder, files: list[Source]) -> Rows:
    """The comparisons of these files that are not taken down."""
    return admit(builder, admit_comparisons, webgpt.read_comparisons(builder, files), [webgpt.GROUP])
