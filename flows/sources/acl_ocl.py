"""ACL OCL: papers of the ACL Anthology, their metadata and their texts."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_described_papers, admit_metadata, taken_down
from tasks.sources.files.bundles import open_bundles
from tasks.sources.files.hub import HUB, fetch_hub
from tasks.sources.files.inputs import files_in, open_files
from tasks.sources.papers import duplicates
from tasks.sources.papers.acl_ocl import ENDINGS, GROUP, read_acl_metadata, read_acl_papers
from tasks.sources.papers.paper_ids import PAPER_GROUPS

FILES_A_BUNDLE = 200
TABLE = "acl-publication-info*.parquet"

TERMS = Terms(
    what="papers of the ACL Anthology to 2022: metadata, abstracts, texts with sections and citations",
    licence="ACL's own materials CC BY 4.0 from 2016 on, CC BY-NC-SA 3.0 before, in the row; those of others: "
    "not stated. Of the collection itself the hub says MIT, its repository CC BY-NC 4.0",
    attribution="authors, title, and the address in the Anthology",
)

DEFECTS = (
    Defect(
        "Volumes themselves stand among the papers, as front matter, and are left out.",
        ("front matter of a volume",),
    ),
    Defect(
        "Some files hold no paper.",
        ("unreadable file", "no record"),
    ),
    Defect(
        "Papers have no links to the papers they cite: these are found by title.",
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(HUB, description="the hub, or a mirror of it")
    repository: str = Field("WINGNUS/ACL-OCL", description="of the hub's datasets")
    revision: str = Field("", description="commit of the repository, 40 hex digits; see its page of commits")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the table of publications (`table`), or the texts of the papers whose volumes begin with a letter."""
    for name in what or [""]:
        if name != "table" and not re.fullmatch(r"[A-Za-z0-9]", name):
            raise UsageError(
                f'"{name}" is nothing that can be fetched of {config.repository}: write table for the table of '
                "publications, or a letter such as W for the texts in Base_JSON/prefixW."
            )
    paths = [TABLE if name == "table" else f"Base_JSON/prefix{name.upper()}/*.json" for name in what]
    return fetch_hub(
        http, config.repository, config.revision, paths, folder, progress, base_url=config.base_url.rstrip("/")
    )


class Read(BaseModel):
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no side file says it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """The metadata from tables (.parquet), the papers from JSON files (also in a .zip or .tar) and folders, and the
    versions of one paper among them.
    """
    tables, texts = opened(builder, paths, config)
    papers, metadata = papers_and_metadata(builder, texts, tables)
    found = [*([metadata] if tables else []), *([papers] if texts else [])]
    return [*found, duplicates.find_duplicates_of(builder, *found)]


def opened(builder: Builder, paths: list[Path], config: Read) -> tuple[list[Source], list[Source]]:
    """(sources of the .parquet tables of publications, sources of JSON papers in bundles), from these files, folders
    and, for the papers, archives; one of the lists may be empty. UsageError if both are, SourceError for a path that
    does not exist, an empty table or a damaged archive.
    """
    files = sorted(file for path in paths for file in ([path] if path.is_file() else files_in(path)))
    files = [file for file in files if file.suffix == ".parquet"]
    texts = open_bundles(
        paths,
        group=GROUP,
        endings=ENDINGS,
        digest=builder.digests,
        mean=FILES_A_BUNDLE,
        facts=(("fetched", config.retrieved_at),),
    )
    if not (files or texts):
        raise UsageError("No .parquet and no .json file was named: give the table of publications, or folders of JSON.")
    retrieved_at, digest = config.retrieved_at, builder.digests
    tables = open_files(files, group=GROUP, endings=(), digest=digest, retrieved_at=retrieved_at) if files else []
    return tables, texts


def papers_and_metadata(builder: Builder, texts: list[Source], tables: list[Source]) -> tuple[Rows, Rows]:
    """(the papers of the JSON files with their texts, the rows of the tables of publications), both without papers that
    are taken down: by ids and authors of either.
    """
    read, described = read_acl_papers(builder, texts), read_acl_metadata(builder, tables)
    listed = taken_down(builder.store.home, PAPER_GROUPS)
    papers = admit_described_papers(builder, read, described, takedowns=listed) if listed else read
    return papers, admit(builder, admit_metadata, described, PAPER_GROUPS)
