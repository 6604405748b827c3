"""Papers from PDFs by any parser, and the built-in parser, which needs no server: PDFium's lines, read by rules.

PDFium runs in a process of its own (tasks/sources/papers/pdf/lines.py), one for many PDFs: a PDF that crashes or hangs
it, or takes too much memory, becomes a rejected row. Its lines become a paper in paper.py. The column `parser` says
which parser it was.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import PAPERS
from tasks.sources.files.batches import counted
from tasks.sources.files.bundles import Member, members
from tasks.sources.files.child import WorkerProcess
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.pdf import lines as pdf_lines
from tasks.sources.papers.pdf.layout import lines_of
from tasks.sources.papers.pdf.paper import paper_of
from tasks.sources.papers.tei import in_batches, row_of

ENDINGS = (".pdf",)
MAX_BYTES = 128 << 20
FILES_PER_BUNDLE = 64
PAGES = 200
SECONDS = 60.0
MAX_REPLY_BYTES = 256 << 20
MAGIC_WITHIN = 1_024
RULES = 4


# ---------------------------------------------------------------- the stage


class Parser(Protocol):
    """What turns PDFs into rows of PAPERS. `identity` is its part of the recipe of the stage `read_pdfs`. `papers`
    yields for each PDF, in their order, (PDF, its row without paper_id and retrieved_at, or the error that says why
    there is none); `home` is the folder of the build.
    """

    def identity(self) -> Any: ...
    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]: ...


@stage(PAPERS, revision=2)
def read_pdfs(context: StageContext, files: Shard, *, parser: Parser) -> Iterator[pa.RecordBatch | Rejected]:
    """A row of PAPERS for each PDF, in order; a Rejected for a PDF that cannot be read or repeats another. If the
    parser's server stays busy or is gone, Incomplete is raised, and a later run makes the part.
    """
    licence = dict(files.source.facts).get("licence")
    found = parser.papers(members(files, endings=ENDINGS, max_bytes=MAX_BYTES), context.store.home)
    yield from counted(context, in_batches(row_of(member, parsed, licence) for member, parsed in found))


# ---------------------------------------------------------------- the process


class Pdfium:
    """The parser that needs no server: PDFium in a process of its own, through which `papers` reads PDFs. `pages`: how
    many a PDF may have; `seconds`: how long one may take.
    """

    def __init__(self, *, pages: int = PAGES, seconds: float = SECONDS) -> None:
        self.pages, self.seconds = pages, seconds

    @property
    def name(self) -> str:
        """The value of the column `parser`: "pdfium" and the version of pypdfium2."""
        return f"pdfium {version('pypdfium2')}"

    def identity(self) -> dict[str, Any]:
        """What identifies the parser in a recipe: its version, that of our rules, how many pages a PDF may have, and
        how long it may take, as a longer deadline may give rows for PDFs that were too slow.
        """
        return {"parser": self.name, "rules": RULES, "pages": self.pages, "seconds": self.seconds}

    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]:
        """(PDF, the row of PAPERS, without paper_id and retrieved_at, or the error that says why there is none) for
        each PDF, in their order. `home` is not used.
        """
        with TemporaryDirectory(prefix="pdf-") as folder, closing(Reader(self, Path(folder))) as reader:
            for member in members:
                yield member, reader.paper(member)


class Reader(WorkerProcess):
    """Reads PDFs one by one in a child process, to which each is passed as a file in `folder`. A PDF that crashes or
    hangs the process costs no other.
    """

    def __init__(self, parser: Pdfium, folder: Path) -> None:
        super().__init__([sys.executable, "-P", pdf_lines.__file__], max_bytes=MAX_REPLY_BYTES)
        self.parser, self.place = parser, folder / "input.pdf"

    def paper(self, member: Member) -> Row | UnreadableError:
        """The row of PAPERS made from a PDF, without paper_id and retrieved_at; or the UnreadableError (returned) that
        says why there is none.
        """
        try:
            check(member)
            self.place.write_bytes(member.content)
            reply = self._reply()
            lines = [line for number, page in enumerate(reply["pages"]) for line in lines_of(page, number)]
            row = paper_of(lines, [(title, page) for title, page in reply["outline"]])
        except UnreadableError as error:
            return error
        return {
            **row,
            "parser": self.parser.name,
            "pdf_sha": hashlib.md5(member.content, usedforsecurity=False).hexdigest(),
        }

    def _reply(self) -> dict[str, Any]:
        """What the process answers for the PDF in the folder: "pages", the lines of each, and "outline", (title, page)
        of each bookmark. UnreadableError if it takes too long, breaks the process, or is one that the process cannot
        read.
        """
        wanted = {"path": str(self.place), "pages": self.parser.pages, "seconds": self.parser.seconds}
        try:
            reply = self.ask(wanted, self.parser.seconds)
        except TimeoutError:
            raise UnreadableError("too slow", f"more than {self.parser.seconds:g} seconds") from None
        except EOFError:
            raise UnreadableError("breaks the reader") from None
        if "fault" in reply:
            raise UnreadableError(reply["fault"], reply["detail"])
        answer: dict[str, Any] = reply
        return answer


def check(member: Member) -> None:
    """UnreadableError if the file has a fault, such as being empty or too large, or if its first MAGIC_WITHIN bytes do
    not say that it is a PDF.
    """
    if member.fault:
        raise UnreadableError(member.fault)
    if b"%PDF-" not in member.content[:MAGIC_WITHIN]:
        raise UnreadableError("no PDF")
