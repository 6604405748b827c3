"""MS MARCO passage ranking: passages, queries and judgements."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_passages, admit_queries
from tasks.sources.files.inputs import open_files
from tasks.sources.released import msmarco

TERMS = Terms(
    what="8.8 million passages of web pages, a million queries, and which passage answers which query",
    licence=msmarco.LICENCE,
    attribution="cite Bajaj et al. 2016, MS MARCO: A Human Generated MAchine Reading COmprehension Dataset",
    decide=(
        "MS MARCO is given out for non-commercial research only, without rights in the underlying pages: "
        "read the terms at https://microsoft.github.io/msmarco/ and agree to them for your use."
    ),
)

DEFECTS = (
    Defect(
        "Passages hold UTF-8 that had been read as Latin-1; it is repaired, and rows say so.",
        ("repaired",),
    ),
    Defect(
        "Some files repeat ids, or give another text of a query.",
        ("repeated upstream id", "another text of this query"),
    ),
    Defect(
        "Judgements name one passage a query: others that answer it count as wrong.",
    ),
)

# name -> bytes, MD5; as listed by ir_datasets (etc/downloads.json)
FILES = {
    "collection": {"collectionandqueries.tar.gz": (1_057_717_952, "31644046b18952c1386cd4564ba2ae69")},
    "queries": {"queries.tar.gz": (18_882_551, "c177b2795d5f2dcc524cf00fcd973be1")},
    "qrels": {
        "qrels.train.tsv": (10_589_532, "733fb9fe12d93e497f7289409316eccf"),
        "qrels.dev.tsv": (1_201_626, "9157ccaeaa8227f91722ba5770787b16"),
    },
}


class Fetch(BaseModel):
    base_url: str = Field(
        "https://msmarco.z22.web.core.windows.net/msmarcoranking",
        description="the folder of the files: a mirror's, where the bytes are the same",
    )


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch `collection` (which also holds queries and some judgements), `queries`, `qrels`, or `all`."""
    return download(http, chosen(what), folder, config.base_url, progress)


def download(
    http: Downloader, files: dict[str, tuple[int, str]], folder: Path, base_url: str, progress: Progress | None
) -> list[Path]:
    """Download each of `files` (name -> (size in bytes, MD5)) from `<base_url>/<name>` into the folder; returns the
    paths. Size and MD5 are checked. `progress` None: none is shown.
    """
    return [
        http.download(f"{base_url.rstrip('/')}/{name}", folder / name, size=size, md5=md5, progress=progress).path
        for name, (size, md5) in files.items()
    ]


def chosen(what: list[str]) -> dict[str, tuple[int, str]]:
    """file name -> (size in bytes, MD5), for the files of the groups named in `what` (keys of FILES); of all groups if
    it is empty. UsageError for an unknown group.
    """
    for name in what:
        if name not in FILES:
            raise UsageError(f'msmarco has no "{name}": name some of {", ".join(FILES)}.')
    return {name: facts for group in what or FILES for name, facts in FILES[group].items()}


class Read(BaseModel):
    repair: bool = Field(True, description="fix UTF-8 that was read as Latin-1; rows say which text they hold")
    retrieved_at: str | None = Field(None, description="ISO 8601 date of the download, where no fetch noted it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Four tables: passages, passage ids that occur more than once, queries, judgements. Empty ones without a path."""
    return list(read_and_admit(builder, opened(builder, paths, config.retrieved_at), repair=config.repair))


def opened(builder: Builder, paths: list[Path], retrieved_at: str | None = None) -> list[Source]:
    """The files as sources. UsageError for one whose name does not say what it holds."""
    msmarco.check_names(paths)
    if not paths:
        return []
    return open_files(
        paths,
        group=msmarco.GROUP,
        endings=msmarco.ENDINGS,
        digest=builder.digests,
        retrieved_at=retrieved_at,
        piece_bytes=msmarco.PIECE_BYTES,
    )


def read_and_admit(builder: Builder, files: list[Source], *, repair: bool) -> tuple[Rows, Rows, Rows, Rows]:
    """(passages that are not taken down, passage ids that occur more than once, queries, judgements)."""
    collection = msmarco.holding(files, msmarco.COLLECTION)
    passages = msmarco.read_passages(builder, collection, repair=repair)
    repeated = msmarco.find_repeated(builder, msmarco.in_one(collection), passages)
    queries = msmarco.join_queries(builder, msmarco.read_queries(builder, msmarco.holding(files, msmarco.ASKED)))
    qrels = msmarco.join_qrels(builder, msmarco.read_qrels(builder, msmarco.holding(files, msmarco.JUDGED)))
    admitted = admit(builder, admit_passages, passages, [msmarco.GROUP])
    return admitted, repeated, admit(builder, admit_queries, queries, [msmarco.GROUP]), qrels
