"""PDFs as papers, by whichever parser is at hand: a GROBID server, or PDFium, which is always there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import PAPERS
from tasks.sources.files.batches import counted
from tasks.sources.files.bundles import Member, members
from tasks.sources.papers.tei import identified, in_batches, rejected
from tasks.sources.papers.unreadable import UnreadableError

ENDINGS = (".pdf",)
MAX_BYTES = 128 << 20
FILES_PER_BUNDLE = 64


class Parser(Protocol):
    """What makes papers of PDFs. Its identity is part of the stage's."""

    def identity(self) -> Any: ...
    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]: ...


@stage(PAPERS, revision=1)
def read_pdfs(context: StageContext, files: Shard, *, parser: Parser) -> Iterator[pa.RecordBatch | Rejected]:
    """Papers of PDFs. What breaks a parser costs its own row; a server that is not there leaves the part open."""
    licence = dict(files.source.facts).get("licence")
    found = parser.papers(members(files, endings=ENDINGS, max_bytes=MAX_BYTES), context.store.home)
    yield from counted(context, in_batches(_row(member, parsed, licence) for member, parsed in found))


def _row(member: Member, parsed: Row | UnreadableError, licence: str | None) -> Row | Rejected:
    if isinstance(parsed, UnreadableError):
        return rejected(member, parsed.reason, parsed.detail)
    return identified(parsed, member, licence)
