"""CommitPackFT: commits to single files, with their contents before and after."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_commits
from tasks.sources.files.hub import HUB, fetch_hub
from tasks.sources.files.inputs import open_files
from tasks.sources.released.commitpackft import GROUP, REPOSITORY, read_commits

TERMS = Terms(
    what="commits to single files of public repositories: contents before and after, and the message",
    licence="the set MIT; each file its repository's, in the row",
    attribution="the repository and the commit",
)

DEFECTS = (
    Defect(
        "Commits come several times, for each of their repositories.",
        ("commit and file seen before",),
    ),
    Defect(
        "Some commits change nothing of the file, or do not name it.",
        ("contents unchanged", "no name of the file"),
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(HUB, description="the hub, or a mirror of it")
    repository: str = Field(REPOSITORY, description="of the hub's datasets")
    revision: str = Field("", description="commit of the repository, 40 hex digits; see its page of commits")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the files of these languages, named as the hub's folders are: python, c++."""
    if odd := [name for name in what if not re.fullmatch(r"[A-Za-z0-9+#._ '()-]+", name) or name.strip(".") == ""]:
        raise UsageError(f'"{odd[0]}" is no language of {config.repository}: write python, for data/python/data.jsonl.')
    if not what:
        raise UsageError("Name the languages to fetch, as the hub's folders name them, e.g. python.")
    paths = [f"data/{name.lower()}/data.jsonl" for name in what]
    return fetch_hub(
        http, config.repository, config.revision, paths, folder, progress, base_url=config.base_url.rstrip("/")
    )


class Read(BaseModel):
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no side file says it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    return [commits(builder, paths, config.retrieved_at)]


def commits(builder: Builder, paths: list[Path], retrieved_at: str | None) -> Rows:
    """The commits of these files, without those that are taken down; an empty table if there is no file.
    `retrieved_at`: when files were fetched of which no side file says it.
    """
    endings = (".jsonl", ".jsonl.gz", ".jsonl.zst")
    sources = (
        open_files(paths, group=GROUP, endings=endings, digest=builder.digests, retrieved_at=retrieved_at)
        if paths
        else []
    )
    return admit(builder, admit_commits, read_commits(builder, sources), [GROUP])
