"""UltraFeedback: answers of several models to an instruction, each rated."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_completions
from tasks.sources.files.hub import HUB, fetch_hub, pinned
from tasks.sources.files.inputs import open_files
from tasks.sources.released import ultrafeedback

TERMS = Terms(
    what="64,000 instructions, each with up to four models' answers and their ratings by GPT-4",
    licence="MIT for the set; its texts are outputs of GPT-4, Bard, Llama and others, whose terms may say more",
    attribution="cite Cui et al. 2023, UltraFeedback: Boosting Language Models with High-quality Feedback",
)

DEFECTS = (
    Defect(
        "Instructions of a benchmark (TruthfulQA) stand among the others, and are left out.",
        ("source is a benchmark",),
    ),
    Defect(
        "An overall score of 10 may stand for 1; a fine-grained score may lie outside 1 to 5 and is then null.",
        ("10 given for 1", "10 may stand for 1", "fine-grained score outside 1 to 5"),
    ),
    Defect(
        "Ratings are a model's.",
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(HUB, description="the hub, or a mirror of it")
    repository: str = Field(ultrafeedback.REPOSITORY, description="of the hub's datasets")
    revision: str = Field(
        ultrafeedback.CORRECTED,
        description="commit of the repository, 40 hex digits; the default is the one that corrected overall scores",
    )


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the files of the named sources (evol_instruct, false_qa, flan, sharegpt, ultrachat), or of all these; the
    benchmark truthful_qa is not part of `all`.
    """
    if odd := [name for name in what if not name.replace("_", "").isalnum()]:
        raise UsageError(f'"{odd[0]}" is no source of {config.repository}: write e.g. evol_instruct.')
    paths = [f"{name}.jsonl" for name in what or SOURCES]
    return fetch_hub(
        http, config.repository, config.revision, paths, folder, progress, base_url=config.base_url.rstrip("/")
    )


SOURCES = ("evol_instruct", "false_qa", "flan", "sharegpt", "ultrachat")


class Read(BaseModel):
    revision: str | None = Field(None, description="commit that the files are of, where no fetch noted it")
    retrieved_at: str | None = Field(None, description="ISO 8601 date of the download, where no fetch noted it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    return [completions(builder, opened(builder, paths, config))]


def opened(builder: Builder, paths: list[Path], config: Read) -> list[Source]:
    """The files as sources, each with the facts `repository` and `revision` (a commit) that its fetch noted beside it;
    without such a note the repository is None, the revision that of `config`. UsageError if `paths` is empty, or if
    `config.revision` is not None and no full hash of a commit; SourceError for a file that is missing or empty, and a
    folder without files of this source.
    """
    files = open_files(
        paths,
        group=ultrafeedback.GROUP,
        endings=ultrafeedback.ENDINGS,
        digest=builder.digests,
        retrieved_at=config.retrieved_at,
    )
    return pinned(files, repository=None, revision=config.revision)


def completions(builder: Builder, files: list[Source]) -> Rows:
    """The instructions in these files, one row each, with the answers of several models and their ratings; without
    records that are taken down.
    """
    return admit(builder, admit_completions, ultrafeedback.read_instructions(builder, files), [ultrafeedback.GROUP])
