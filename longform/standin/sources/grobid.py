"""GROBID: TEI of the PDFs that the stand-in made, of others from the text in them, or a refusal in GROBID's words.

    POST /api/processFulltextDocument, part `input`
        200 TEI    204 no text    400 without a file    500 "[BAD_INPUT_DATA] …", "[TOO_MANY_BLOCKS] …"

The text of a PDF that it does not know is read by pdfium: no layout, no authors, heads only where they are numbered or
well known. It is for rehearsals, and its version says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_json, as_text, plain_key
from longform.standin.sources.library import Print
from longform.standin.sources.papers import Paper, Reference, Section
from longform.standin.sources.tei import tei_of

XML = "application/xml"
SERVICE = "/api/processFulltextDocument"
MOST_PAGES = 100
CODES = {500: "[GENERAL] An exception occurred while running Grobid.", 503: ""}
_HEAD = re.compile(r"(?:(\d{1,2}(?:\.\d{1,2})*)\.? +)?([A-Z][^.!?]{2,80})")
_KNOWN = re.compile(r"abstract|introduction|(related|prior|previous) works?|background|conclusions?|references", re.I)
_ENTRY = re.compile(r"\[\d+\] ")


class Unreadable(Exception):
    """Raised for a PDF that cannot be read; `code` is GROBID's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[{code}] {message}")


class Grobid:
    """A GROBID server of this version, which knows the TEI of `prints`."""

    prefix = "/grobid"
    limited = frozenset((f"POST {SERVICE}", f"PUT {SERVICE}"))

    def __init__(self, prints: Mapping[str, Print], version: str) -> None:
        self._tei = {hashlib.sha256(one.pdf).hexdigest(): one.tei for one in prints.values() if one.tei}
        self._version = version

    def routes(self) -> Mapping[str, Answer]:
        """What the server answers."""
        return {
            "GET /api/isalive": lambda call: as_text("true"),
            "GET /api/version": lambda call: as_json({"version": self._version, "revision": "standin"}),
            "GET /api/health": lambda call: as_json({"ready": True, "pool": {"maxActive": 10}}),
            f"POST {SERVICE}": self._full_text,
            f"PUT {SERVICE}": self._full_text,
        }

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status; GROBID says nothing of when to ask again but with 429."""
        reply = as_text(CODES.get(status, ""), status)
        if seconds is not None and status == 429:
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def usage(self, url: str) -> list[str]:
        """How PDFs are read through it."""
        return [f"GROBID_URL={url} longform read papers my-papers --to out"]

    def key(self, call: Call) -> str:
        """A PDF by its SHA-256; other calls by their path."""
        pdf = call.form.get("input")
        return f"pdf {hashlib.sha256(pdf).hexdigest()}" if isinstance(pdf, bytes) else plain_key(call)

    def _full_text(self, call: Call) -> web.Response:
        """The TEI of the PDF in the form's part `input`."""
        pdf = call.form.get("input")
        if not isinstance(pdf, bytes):
            raise Refused(as_text("", 400))
        digest = hashlib.sha256(pdf).hexdigest()
        try:
            tei = self._tei.get(digest) or self._of_stranger(pdf)
        except Unreadable as error:
            raise Refused(as_text(str(error), 500)) from None
        return as_text(tei.decode(), 200, XML) if tei else web.Response(status=204)

    def _of_stranger(self, pdf: bytes) -> bytes | None:
        """The TEI of a PDF's embedded text; None if it has none. Unreadable if it is no PDF, or a long one."""
        lines = list(lines_of(pdf))
        if not lines:
            return None
        return tei_of(paper_of(lines), hashlib.md5(pdf, usedforsecurity=False).hexdigest(), self._version)


def lines_of(pdf: bytes) -> Iterator[str]:
    """The lines of a PDF's text that are not blank. Unreadable if it is no PDF, or has more than MOST_PAGES pages."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(pdf)
    except pypdfium2.PdfiumError:
        raise Unreadable("BAD_INPUT_DATA", "PDF to XML conversion failed on pdf file") from None
    with document:
        if len(document) > MOST_PAGES:
            raise Unreadable("TOO_MANY_BLOCKS", f"The document has more than {MOST_PAGES} pages")
        for page in document:
            text = page.get_textpage().get_text_bounded().replace("\ufffe\r\n", "").replace("\ufffe", "")
            yield from (line.strip() for line in text.splitlines() if line.strip())


def paper_of(lines: list[str]) -> Paper:
    """A paper of a PDF's lines: the first is its title, heads are numbered or well known, the rest is text."""
    sections = [Section("", "")]
    for line in lines[1:]:
        head = _HEAD.fullmatch(line)
        if head and (head[1] or _KNOWN.fullmatch(head[2])):
            sections.append(Section(head[1] or "", head[2], [""]))
        elif len(sections) > 1 and not line.isdecimal():
            _append(sections[-1], line)
    named = {section.head.casefold(): section for section in sections}
    back, abstract = named.get("references"), named.get("abstract")
    return Paper(
        title=lines[0],
        authors=(),
        abstract=[text for text in (abstract.paragraphs if abstract else []) if text],
        sections=[
            Section(section.number, section.head, [text for text in section.paragraphs if text])
            for section in sections[1:]
            if section is not back and section is not abstract
        ],
        references=[Reference(_ENTRY.sub("", text, count=1)) for text in (back.paragraphs if back else []) if text],
    )


def _append(section: Section, line: str) -> None:
    """Add a line to the last paragraph; an entry of the bibliography, [1], begins one."""
    if _ENTRY.match(line):
        section.paragraphs.append(line)
    else:
        section.paragraphs[-1] = f"{section.paragraphs[-1]} {line}".strip()
