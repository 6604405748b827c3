"""Papers with their texts and the metadata of papers, from any source of papers that a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from flows.sources import acl_ocl, s2orc
from flows.sources import papers as own_papers
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from tasks.sources.s2orc.s2_releases import open_release

PapersSource = Literal["acl_ocl", "s2orc", "files"]


def texts_and_metadata(
    builder: Builder, source: PapersSource, paths: list[Path], metadata: list[Path], retrieved_at: str | None
) -> tuple[Rows, Rows]:
    """(papers with their texts, metadata of papers: also of some whose texts are not there), from files of this source,
    without papers that are taken down; empty tables without a file. `metadata`: further files, for source "files".
    """
    if source == "s2orc":
        files = open_release(paths, digest=builder.digests, retrieved_at=retrieved_at) if paths else {}
        return s2orc.papers_and_metadata(builder, files.get("papers", []), files.get("metadata", []))
    if source == "files":
        known = own_papers.metadata(builder, metadata, retrieved_at)
        return own_papers.gathered(builder, paths, own_papers.Read()), known
    reading = acl_ocl.Read(retrieved_at=retrieved_at)
    tables, texts = acl_ocl.opened(builder, paths, reading) if paths else ([], [])
    return acl_ocl.papers_and_metadata(builder, texts, tables)
