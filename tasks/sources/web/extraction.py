"""The text of a web page: what trafilatura keeps of HTML, plain text as it is, PDF by tasks/sources/papers/pdf.

HTML is parsed in a process of its own with little memory and time, as a page of 2 MB can keep a parser busy for
minutes (200,000 attributes in one tag: 160 s). Pages that are known to do so are refused before that, the same way on
every machine. Nothing here uses the network.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import resource
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

from longform.errors import UsageError
from tasks.sources.files.bundles import Member
from tasks.sources.files.child import WorkerProcess
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.pdf.pdfium import Pdfium, Reader

SECONDS = 30.0
MEMORY_BYTES = 3 << 30
HTML_CHARACTERS = 5_000_000
TEXT_CHARACTERS = 5_000_000
TAGS = 100_000
LONG_TAG, TAG_PARTS = 10_000, 1_000
MAX_ANSWER_BYTES = 64 << 20
SNIFFED = 1_024
SERVE = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r}); "
    "from tasks.sources.web.extraction import serve; serve()",
)
LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ufdd0-\ufdef]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})")
_META = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.I)
_HTML = re.compile(rb"<(!doctype\s+html|html|head|body|title|article|div|p|h1|meta|script|!--)", re.I)
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_WIDE = re.compile(r"[^\x00-\x7f]+")
_LONG = re.compile(rf"<[^<>]{{{LONG_TAG},}}")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_CHARSETS = re.compile(
    r"utf[-_]?(8|16|32)([-_]?[bl]e)?|us-ascii|ascii|latin[-_]?\d|iso[-_]?8859[-_]\d+|iso[-_]?2022[-_][a-z]+(-\w)?"
    r"|windows-\d+|cp\d+|koi8[-_][ru]|gb2312|gbk|gb18030|big5(-hkscs)?|hz(-gb-2312)?|euc[-_](jp|kr)|shift[-_]?jis"
    r"|sjis|tis-620|mac[-_]?(roman|cyrillic)",
    re.I,
)
_STATEFUL = re.compile(r"utf[-_]?(16|32)|iso[-_]?2022|hz", re.I)


class Unusable(UnreadableError):
    """Raised for a page without a text to use; `reason` is a short fixed phrase, `detail` what was found."""


class Text(NamedTuple):
    """The text of a page; title and language (a tag such as en or de-at) are None if unknown.

    `media`: html, text or pdf; `extractor`: the program and version that read the page.
    """

    title: str | None
    text: str
    language: str | None
    media: str
    extractor: str


class Extractor:
    """Extracts the text of pages, as a context manager. Raises UsageError if trafilatura is not installed.

    `folder`: for temporary files; `seconds`: the time limit for one page of HTML; `command`: starts the process that
    parses HTML. Processes start with the first page that needs them, and end with the context.
    """

    def __init__(self, folder: Path, *, seconds: float = SECONDS, command: Sequence[str] = SERVE) -> None:
        check_extractor()
        self._folder, self.seconds, self._child = folder, seconds, WorkerProcess(command, max_bytes=MAX_ANSWER_BYTES)
        self._pdfs: Reader | None = None
        self._named = f"trafilatura {version('trafilatura')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()
        if self._pdfs is not None:
            self._pdfs.close()

    def text(self, content: bytes, headers: Mapping[str, str]) -> Text:
        """The text of a page, from the body and headers (names in lower case) of the reply.

        Raises Unusable if it has none, is neither HTML nor plain text nor PDF, is too large, or takes the parser too
        much time or memory.
        """
        kind = media(content, headers.get("content-type", ""))
        declared = _language(headers.get("content-language", ""))
        if kind == "html":
            return self._html(decoded(content, headers.get("content-type", "")), declared)
        if kind == "text":
            return _checked_text(None, decoded(content, headers.get("content-type", "")), declared, kind, "as it is")
        if kind == "pdf":
            return self._pdf(content, declared)
        raise Unusable("not html, text or pdf", headers.get("content-type", "")[:100] or None)

    def _html(self, page: str, declared: str | None) -> Text:
        """The Text of a page of HTML. `declared`: its language by the headers, which counts if the page names none.

        Raises Unusable if it has none, is too large, or takes the parser too much time or memory.
        """
        check_html(page)
        try:
            found = self._child.ask(_SURROGATE.sub("\ufffd", page), self.seconds)
        except TimeoutError:
            raise Unusable("page too complex", f"not read in {self.seconds:g} s") from None
        except EOFError:
            raise Unusable("page too complex", "it ended the process that read it") from None
        if found is None:
            raise Unusable("no text in the page")
        return _checked_text(
            found["title"], found["text"], _language(found["language"]) or declared, "html", self._named
        )

    def _pdf(self, content: bytes, declared: str | None) -> Text:
        """The Text of a PDF. `declared`: its language by the headers.

        Raises Unusable if it cannot be read or has no text.
        """
        self._pdfs = self._pdfs or Reader(Pdfium(), self._folder)
        found = self._pdfs.paper(Member("page.pdf", "", content, None))
        if isinstance(found, UnreadableError):
            raise Unusable(f"pdf: {found.reason}", found.detail)
        return _checked_text(found["title"], found["text"], declared, "pdf", found["parser"])


def check_extractor() -> None:
    """Raise UsageError if trafilatura is not installed."""
    if find_spec("trafilatura") is None:
        raise UsageError(
            'Web pages need trafilatura: install the extra with `pip install -c constraints.txt -e ".[web]"`.'
        )


def check_html(page: str) -> None:
    """Raise Unusable for HTML that would keep a parser busy: too long, too many tags, or attributes in one tag.

    The limits are HTML_CHARACTERS, TAGS and TAG_PARTS; attributes are only counted in tags of LONG_TAG characters or
    more.
    """
    if len(page) > HTML_CHARACTERS:
        raise Unusable("page too large", f"{len(page):,} characters")
    if page.count("<") > TAGS:
        raise Unusable("page too complex", f"{page.count('<'):,} tags")
    if any(len(re.split(r"[\s/]+", _QUOTED.sub(" ", tag[0]))) > TAG_PARTS for tag in _LONG.finditer(page)):
        raise Unusable("page too complex", f"a tag with more than {TAG_PARTS:,} attributes")


def media(content: bytes, declared: str) -> str:
    """The kind of content: html, text, pdf or other.

    A PDF is known by its first bytes, whatever is declared. Otherwise `declared`, the header Content-Type, decides:
    types of HTML, of plain text or Markdown, and XML if the content begins as HTML. If it is empty, content that begins
    as HTML is html, any other text. HTML and text that look binary, and all other types, are other.
    """
    start, name = content[:SNIFFED].lstrip(codecs.BOM_UTF8 + b" \t\r\n"), declared.partition(";")[0].strip().lower()
    if start.startswith(b"%PDF-"):
        return "pdf"
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _STATEFUL.search(declared)
    odd = 0 if wide else len(_BINARY.findall(start))
    if name in ("text/html", "application/xhtml+xml") or (not name and _HTML.match(start)):
        return "other" if odd > 2 + len(start) // 20 else "html"
    if name in ("text/plain", "text/markdown", ""):
        return "other" if odd > 2 + len(start) // 100 else "text"
    return "html" if name in ("application/xml", "text/xml") and _HTML.match(start) else "other"


def decoded(content: bytes, declared: str) -> str:
    """The text of a page. `declared`: the header Content-Type, whose charset is often wrong.

    Tried in this order: the byte order mark; a charset of header or page whose bytes may look like ASCII (ISO-2022, HZ,
    of the header also UTF-16); UTF-8; the charset of the header, then of the page. If all fail: UTF-8 if most of what
    is not ASCII can be read so, else the first of these charsets, or Windows-1252; what cannot be read becomes U+FFFD.
    Unknown charsets, and UTF-16 or UTF-32 that the page itself names, are ignored.
    """
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if content.startswith(mark):
            return content.decode(name, "replace").removeprefix("\ufeff")
    of_server, of_page = _CHARSET.search(declared), _META.search(content[: 4 * SNIFFED])
    of_meta = _known(of_page[1].decode()) if of_page else None  # that of a page that can be read so far is no UTF-16
    of_meta = None if re.match(r"utf[-_]?(16|32)", of_meta or "", re.I) else of_meta
    named = [name for name in (_known(of_server[1]) if of_server else None, of_meta) if name]
    for name in [*filter(_STATEFUL.match, named), "utf-8", *named]:
        try:
            return content.decode(name)
        except (UnicodeError, LookupError):
            continue
    read = content.decode("utf-8", "replace")
    broken = read.count("\ufffd")
    if broken < sum(map(len, _WIDE.findall(read))) - broken:  # UTF-8 but for some bytes
        return read
    return content.decode(next((name for name in named if name != "utf-8"), "cp1252"), "replace")


def _known(name: str) -> str | None:
    """The name of Python's codec for a charset; None if that is unknown.

    Latin-1 and ASCII mean Windows-1252, as on the web.
    """
    if not _CHARSETS.fullmatch(name):
        return None
    if re.fullmatch(r"us-ascii|ascii|latin[-_]?1|iso[-_]?8859[-_]1", name, re.I):
        return "cp1252"
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def clean(text: str, *, one_line: bool = False) -> str:
    """The text without control characters and noncharacters, with U+FFFD for lone surrogates.

    Lines end in a line feed. Tabs stay. With `one_line` every run of white space becomes one space, and there is none
    at the ends.
    """
    text = _CONTROL.sub("", _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n")))
    return " ".join(text.split()) if one_line else text


def _language(text: str | None) -> str | None:
    """The first of the language tags in `text` (separated by commas), in lower case; None if that is no such tag."""
    found = LANGUAGE.fullmatch((text or "").split(",")[0].strip())
    return found[0].lower() if found else None


def _checked_text(title: str | None, text: str, language: str | None, kind: str, extractor: str) -> Text:
    """A Text with cleaned title (at most 500 characters, None if empty) and text.

    Raises Unusable if the text is empty or longer than TEXT_CHARACTERS.
    """
    text = clean(text).strip()
    if not text:
        raise Unusable("no text in the page")
    if len(text) > TEXT_CHARACTERS:
        raise Unusable("page too large", f"{len(text):,} characters")
    return Text(clean(title or "", one_line=True)[:500] or None, text, language, kind, extractor)


# ---------------------------------------------------------------- the process that takes HTML apart


def serve() -> None:
    """The loop of the process that parses HTML: answers each page on stdin, a JSON string a line, with a line of JSON.

    It ends with stdin. The answer is what `extract` returns. The process may use MEMORY_BYTES of memory; what else it
    prints goes to stderr.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for page in sys.stdin:
        print(json.dumps(extract(json.loads(page))), file=answers, flush=True)


def extract(page: str) -> dict[str, Any] | None:
    """{title, text, language} of a page of HTML: its first title element, the main text that trafilatura finds, and
    its root's `lang`, title and language as written. None if the page cannot be parsed or no text is found. Title and
    language are None if there is no such element or attribute.
    """
    import trafilatura
    from trafilatura.settings import Extractor as Options

    options = Options(output_format="python", comments=False, tables=True, formatting=False)
    options.max_file_size = HTML_CHARACTERS * 4
    tree = trafilatura.load_html(page)
    if tree is None:
        return None
    title, language = tree.findtext(".//title"), tree.get("lang")
    found = trafilatura.bare_extraction(tree, options=options)
    if found is None or isinstance(found, dict) or not found.text:
        return None
    return {"title": title, "text": found.text, "language": language}
