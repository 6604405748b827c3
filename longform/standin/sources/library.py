"""The papers that the stand-in holds: PDFs made of short texts, or PDFs of yours, each with the TEI of its parser."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_file, as_json, as_text, plain_key
from longform.standin.sources.papers import read_paper
from longform.standin.sources.pdf import pdf_of
from longform.standin.sources.tei import tei_of

PDF = "application/pdf"
TEI_ENDINGS = (".grobid.tei.xml", ".tei.xml")


@dataclass(frozen=True, slots=True)
class Print:
    """A PDF, and the TEI that its parser writes of it; None where only the PDF is at hand."""

    pdf: bytes
    tei: bytes | None


def prints_of(folders: Sequence[Path], version: str) -> dict[str, Print]:
    """Name -> the PDF of each `<name>.md` and `<name>.pdf` in these folders; the first folder that has a name counts,
    and in it a PDF before a text. TEI beside a PDF (`<name>.tei.xml`) is its own; `version`: of the GROBID that is said
    to have written the TEI of a text.
    """
    found: dict[str, Print] = {}
    for folder in folders:
        for path in [*sorted(folder.glob("*.pdf")), *sorted(folder.glob("*.md"))]:
            if path.stem not in found and path.name != "README.md":
                found[path.stem] = _of_pdf(path) if path.suffix == ".pdf" else _of_text(path, version)
    return found


def _of_text(path: Path, version: str) -> Print:
    """The PDF and TEI of a paper's text."""
    paper = read_paper(path.read_text())
    pdf = pdf_of(paper)
    return Print(pdf, tei_of(paper, hashlib.md5(pdf, usedforsecurity=False).hexdigest(), version))


def _of_pdf(path: Path) -> Print:
    """A PDF with the TEI beside it, if there is one."""
    beside = (path.with_name(path.stem + ending) for ending in TEI_ENDINGS)
    return Print(path.read_bytes(), next((file.read_bytes() for file in beside if file.is_file()), None))


class Library:
    """Serves PDFs of papers by their names, so that there are some to read."""

    prefix = "/papers"
    limited: frozenset[str] = frozenset()
    key: Callable[[Call], str] = staticmethod(plain_key)

    def __init__(self, prints: Mapping[str, Print]) -> None:
        self._prints = prints

    def routes(self) -> Mapping[str, Answer]:
        """The list of names, and the file of each."""
        return {
            "GET /": lambda call: as_json({"papers": [f"{name}.pdf" for name in self._prints]}),
            "GET /{name}": self._paper,
        }

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status."""
        reply = as_text(f"{status}", status)
        if seconds is not None:
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def usage(self, url: str) -> list[str]:
        """How the papers are fetched."""
        return [f"longform fetch url {' '.join(self.addresses(url, list(self._prints)[:3]))} --to my-papers"]

    @staticmethod
    def addresses(url: str, names: Iterable[str]) -> list[str]:
        """The addresses of the papers with these names."""
        return [f"{url}/{name}.pdf" for name in names]

    def _paper(self, call: Call) -> web.Response:
        """The PDF that the path names. Refused (404) if there is none."""
        name = call.match["name"].removesuffix(".pdf")
        if name not in self._prints:
            raise Refused(self.error(404, None))
        return as_file(self._prints[name].pdf, PDF)
