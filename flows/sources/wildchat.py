"""WildChat: conversations of people with ChatGPT."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_conversations
from tasks.sources.files.hub import HUB, fetch_hub, pinned
from tasks.sources.files.inputs import open_files
from tasks.sources.released import wildchat

TERMS = Terms(
    what="up to a million conversations of people with ChatGPT, most without what was found toxic",
    licence=f"{wildchat.LICENCE} (since 2024-06-26, also for what was fetched before)",
    attribution="cite Zhao et al. 2024, WildChat: 1M ChatGPT Interaction Logs in the Wild; name the revision",
)

DEFECTS = (
    Defect(
        "Some conversations have no time, no id, or turns without a role or content.",
        ("no timestamp", "no upstream id", "turn without a role", "turn without a content"),
    ),
    Defect(
        "Languages are detected by a model, and wrong for short or mixed texts.",
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(HUB, description="the hub, or a mirror of it")
    repository: str = Field("allenai/WildChat-1M", description="of the hub's datasets")
    revision: str | None = Field(
        None,
        description="commit of the repository, 40 hex digits: take the newest, older ones hold conversations that "
        "were removed since",
    )


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch `all` Parquet files, or named ones: data/train-00000-of-00014.parquet, or a pattern with *."""
    if odd := [name for name in what if not name.endswith(".parquet")]:
        raise UsageError(f'"{odd[0]}" is no file of {config.repository}: write data/train-00000-of-00014.parquet.')
    paths = what or ["data/*.parquet"]
    return fetch_hub(
        http, config.repository, config.revision or "", paths, folder, progress, base_url=config.base_url.rstrip("/")
    )


class Read(BaseModel):
    toxic: bool = Field(False, description="keep conversations that were flagged as toxic")
    revision: str | None = Field(None, description="commit that the files are of, where no fetch noted it")
    retrieved_at: str | None = Field(None, description="ISO 8601 date of the download, where no fetch noted it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    return [conversations(builder, opened(builder, paths, config), toxic=config.toxic)]


def opened(builder: Builder, paths: list[Path], config: Read) -> list[Source]:
    """The files as sources, each with the facts `repository` and `revision` (a commit) that its fetch noted beside it;
    without such a note the repository is None, the revision that of `config`. UsageError if `paths` is empty, or if
    `config.revision` is not None and no full hash of a commit; SourceError for a file that is missing or empty, and a
    folder without files of this source.
    """
    files = open_files(
        paths,
        group=wildchat.GROUP,
        endings=wildchat.ENDINGS,
        digest=builder.digests,
        retrieved_at=config.retrieved_at,
        piece_bytes=wildchat.PIECE_BYTES,
    )
    return pinned(files, repository=None, revision=config.revision)


def conversations(builder: Builder, files: list[Source], *, toxic: bool) -> Rows:
    """The conversations in these files, one row each, without records that are taken down. `toxic`: keep those that
    were flagged as toxic.
    """
    logged = wildchat.list_conversations(builder, files)
    read = wildchat.read_conversations(builder, files, logged, toxic=toxic)
    return admit(builder, admit_conversations, read, [wildchat.GROUP])
