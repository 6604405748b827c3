"""PDFs as papers, by the parser at hand; and the one that needs no server: PDFium's lines, and a heuristic over them.

It finds heads, paragraphs and references by how lines look:

    12.0 bold     "1 Introduction"                          a head: numbered or known, bold or large, on its own
    10.9          "The goal of this work is to facilitate"  its text: most lines have this size
    10.9 at 83.1  "In this paper, we focus on"              begins a paragraph: indented, the next line is not
     9.0          "Table 1: Features."                      smaller: a caption, a footnote; stands outside the sections
    10.9          "84"                                      page numbers and running heads: dropped

It is a way to begin, not a parser: authors are not read, citations are not resolved, columns come as the file has
them. The column `parser` says so. PDFium runs in a process of its own, one for many PDFs: what breaks, hangs or bloats
it costs that PDF, which becomes a rejected row.
"""

from __future__ import annotations

import hashlib
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain, groupby, pairwise, repeat
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import PAPERS
from tasks.sources.files.batches import counted
from tasks.sources.files.bundles import Member, members
from tasks.sources.files.child import Child
from tasks.sources.paper_body import Paragraph, Section, UnreadableError, laid_out
from tasks.sources.papers import pdf_lines
from tasks.sources.papers.tei import in_batches, row_of
from tasks.text.headings import plain, role_of, split_number

ENDINGS = (".pdf",)
MAX_BYTES = 128 << 20
FILES_PER_BUNDLE = 64
PAGES = 200
SECONDS = 60.0
MAX_REPLY_BYTES = 256 << 20
MAGIC_WITHIN = 1_024

_MAX_HEAD_CHARS = 120
_MAX_HEAD_WORDS = 14
_SMALLER = 0.8
_LARGER = 0.8
_CONTROL = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_BROKEN = re.compile(r"(\w+)\ufffe\s*(\w+)")
_QUOTES, _ENDS = '"”’)', frozenset(".!?:")
_WORD = re.compile(r"[^\W\d_]{3}")
_WORDS = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_ABSTRACT = re.compile(r"(?:abstract|summary)\b[\s.:—–-]*", re.IGNORECASE)
_REFERENCES = re.compile(r"references(?: and notes)?|bibliography|literature cited|works cited")
_APPENDIX = re.compile(r"(?:appendi(?:x|ces)|supplement).*")
_CAPTION = re.compile(r"(?:figure|fig\.|table|algorithm|listing|scheme)\s*[A-Z]?\d+\s*[.:|]", re.IGNORECASE)
_ENTRY = re.compile(r"\[\w{1,12}\]\s|\(?\d{1,3}[.)]\s+\D")
_KNOWN = re.compile(
    r"abstract|introduction|background|preliminaries|(?:materials? and )?methods?|methodology|approach|model|data"
    r"|datasets?|experiments?|experimental (?:setup|results)|evaluation|results?(?: and discussion)?|analysis"
    r"|discussion|limitations|conclusions?(?: and .*)?|future work|acknowledge?ments?|ethic.{0,30}|funding"
    r"|data availability.{0,9}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with where and how it stands; see pdf_lines."""

    text: str
    size: float
    bold: bool
    left: float
    right: float
    top: float
    page: int

    @property
    def rows(self) -> int:
        """Printed lines it was put together from."""
        return self.text.count("\ufffe") + 1


# ---------------------------------------------------------------- the stage


class Parser(Protocol):
    """What makes papers of PDFs. Its identity is part of the stage's."""

    def identity(self) -> Any: ...
    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]: ...


@stage(PAPERS, revision=1)
def read_pdfs(context: StageContext, files: Shard, *, parser: Parser) -> Iterator[pa.RecordBatch | Rejected]:
    """Papers of PDFs. What breaks a parser costs its own row; a server that is not there leaves the part open."""
    licence = dict(files.source.facts).get("licence")
    found = parser.papers(members(files, endings=ENDINGS, max_bytes=MAX_BYTES), context.store.home)
    yield from counted(context, in_batches(row_of(member, parsed, licence) for member, parsed in found))


# ---------------------------------------------------------------- the process


class Pdfium:
    """The parser that is always there. Identity: its version and how many pages a PDF may have."""

    def __init__(self, *, pages: int = PAGES, seconds: float = SECONDS) -> None:
        self.pages, self.seconds = pages, seconds

    @property
    def name(self) -> str:
        return f"pdfium {version('pypdfium2')}"

    def identity(self) -> dict[str, Any]:
        return {"parser": self.name, "pages": self.pages}

    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]:
        """What each PDF says, in their order."""
        with TemporaryDirectory(prefix="pdf-") as folder, closing(Reader(self, Path(folder))) as reader:
            for member in members:
                yield member, reader.paper(member)


class Reader(Child):
    """Reads PDFs one by one, in a process of their own. `folder` is for what does not stay in memory."""

    def __init__(self, parser: Pdfium, folder: Path) -> None:
        super().__init__([sys.executable, "-P", pdf_lines.__file__], max_bytes=MAX_REPLY_BYTES)
        self.parser, self.place = parser, folder / "input.pdf"

    def paper(self, member: Member) -> Row | UnreadableError:
        try:
            check(member)
            self.place.write_bytes(member.content)
            row = paper_of([line for number, page in enumerate(self._pages()) for line in lines_of(page, number)])
        except UnreadableError as error:
            return error
        return {
            **row,
            "parser": self.parser.name,
            "pdf_sha": hashlib.md5(member.content, usedforsecurity=False).hexdigest(),
        }

    def _pages(self) -> list[list[list[Any]]]:
        wanted = {"path": str(self.place), "pages": self.parser.pages, "seconds": self.parser.seconds}
        try:
            reply = self.ask(wanted, self.parser.seconds)
        except TimeoutError:
            raise UnreadableError("too slow", f"more than {self.parser.seconds:g} seconds") from None
        except EOFError:
            raise UnreadableError("breaks the reader") from None
        if "fault" in reply:
            raise UnreadableError(reply["fault"], reply["detail"])
        pages: list[list[list[Any]]] = reply["pages"]
        return pages


def check(member: Member) -> None:
    """UnreadableError for what is no PDF at all."""
    if member.fault:
        raise UnreadableError(member.fault)
    if b"%PDF-" not in member.content[:MAGIC_WITHIN]:
        raise UnreadableError("no PDF")


# ---------------------------------------------------------------- the paper


def lines_of(page: Sequence[Sequence[Any]], number: int) -> list[Line]:
    """The lines of a page as its reader gives them, without control characters."""
    return [
        Line(text.translate(_CONTROL).strip(), size, bold, left, right, top, number)
        for text, size, bold, left, right, top in page
    ]


def paper_of(lines: Sequence[Line]) -> Row:
    """The columns of PAPERS that the lines tell. UnreadableError where there is no text."""
    clean = _without_running_heads(lines)
    if not any(character.isalpha() for line in clean for character in line.text):
        raise UnreadableError("no text")
    text = _Layout(clean)
    sections, back = text.sections(text.body), text.sections(text.appendix)
    return {
        "source": "pdf",
        "title": text.title or None,
        "authors": [],
        "year": None,
        "venue": None,
        "abstract": text.joined(text.abstract) or None,
        **laid_out(sections, back, text.outside),
        "bibliography": text.bibliography(),
        "corpus_id": None,
        "doi": None,
        "arxiv_id": None,
        "acl_id": None,
        "licence": None,
        "url": None,
        "notes": [] if sections and any(section.head for section in sections) else ["no head found"],
    }


def _without_running_heads(lines: Sequence[Line]) -> list[Line]:
    """Without page numbers, and without what stands at the top or bottom of three pages or more."""
    ends = {id(line) for _, page in groupby(lines, key=attrgetter("page")) for line in _ends(list(page))}
    seen = Counter(_pattern(line.text) for line in lines if id(line) in ends)
    return [line for line in lines if line.text and not (id(line) in ends and _is_running(line.text, seen))]


def _ends(page: list[Line]) -> list[Line]:
    by_height = sorted(page, key=lambda line: line.top)
    return [*by_height[:2], *by_height[-2:]]


def _pattern(text: str) -> str:
    return re.sub(r"\d+", "#", " ".join(text.split()))


def _is_running(text: str, seen: Counter[str]) -> bool:
    pattern = _pattern(text)
    return pattern in ("#", "– # –", "- # -", "Page #", "# of #", "Page # of #") or seen[pattern] >= 3


class _Layout:
    """The lines of a paper by what they are."""

    def __init__(self, lines: list[Line]) -> None:
        self.outside: list[Paragraph] = []
        self.words = Counter(word for line in lines for word in _WORDS.findall(line.text))
        self.size = _usual_size(lines)
        self.leading = _leading(lines) or self.size * 1.2
        self.numbered = sum(self._style(line) and _number(line.text) is not None for line in lines) >= 3
        heads = [position for position, line in enumerate(lines) if self.is_head(line, _next(lines, position))]
        start = self._front(lines, heads)
        end = next((p for p in reversed(heads) if _REFERENCES.fullmatch(plain(lines[p].text))), len(lines))
        after = next((p for p in heads if p > end and _APPENDIX.fullmatch(plain(lines[p].text))), len(lines))
        self.heads = {id(lines[position]) for position in heads}
        self.body, self.references, self.appendix = lines[start:end], lines[end + 1 : after], lines[after:]

    # ---- front matter

    def _front(self, lines: list[Line], heads: list[int]) -> int:
        """Read title and abstract; where the body begins."""
        begins = next((p for p, line in enumerate(lines) if line.page <= 1 and _ABSTRACT.match(line.text)), None)
        first = next((p for p in heads if begins is None or p > begins), None)
        self.title = self._title([line for line in lines[: begins or first or 30] if line.page == 0])
        if begins is None or first is None:
            self.abstract: list[Line] = []
            return first if first is not None and role_of(lines[first].text) else 0
        rest = _ABSTRACT.sub("", lines[begins].text, count=1)
        own = [replace(lines[begins], text=rest)] if rest else []
        self.abstract = [*own, *lines[begins + 1 : first]]
        return first

    def _title(self, lines: list[Line]) -> str:
        """The largest lines that stand together."""
        largest = max((line.size for line in lines), default=0.0)
        if largest < self.size + _LARGER:
            return ""
        runs = (list(run) for size, run in groupby(lines, key=attrgetter("size")) if size == largest)
        return self.joined(next(runs))

    # ---- heads

    def _style(self, line: Line) -> bool:
        return line.bold or line.size >= self.size + _LARGER

    def is_head(self, line: Line, following: Line | None) -> bool:
        text = line.text
        if len(text) > _MAX_HEAD_CHARS or len(text.split()) > _MAX_HEAD_WORDS or _CAPTION.match(text):
            return False
        styled = self._style(line)
        if not (styled or text[0].isdigit() or text.isupper() or text.istitle()):
            return False
        name, number = plain(text), _number(text)
        if role_of(text) or _KNOWN.fullmatch(name) or _REFERENCES.fullmatch(name) or _APPENDIX.fullmatch(name):
            return (styled or number is not None or text.isupper() or text.istitle()) and text[-1] not in ".,;"
        if text[-1] in ".,;:" or not text[-1:].strip() or line.size < self.size - _SMALLER:
            return False
        if number is not None:
            return styled or text.isupper()
        letters = sum(map(str.isalpha, text))
        plain_below = following is not None and not self._style(following) and following.size > self.size - _SMALLER
        return not self.numbered and styled and text[0].isupper() and letters > 0.6 * len(text) and plain_below

    # ---- running text

    def sections(self, lines: Sequence[Line]) -> list[Section]:
        """Sections; what stands outside them (captions, footnotes, small print, no scraps of formulae) is put apart."""
        found, held, small = [Section(None, None)], list[Line](), list[Line]()
        caption = False
        for line in lines:
            is_head, begins = id(line) in self.heads, _CAPTION.match(line.text) is not None
            goes_on = bool(small) and self._goes_on(small[-1], line)
            caption = not is_head and (begins or (caption and goes_on))
            if is_head:
                self._end(found[-1].paragraphs, held)
                self._head(line, found)
            elif caption or line.size < self.size - _SMALLER:
                if begins or not goes_on:
                    self._end(self.outside, small)
                small.append(line)
            else:
                self._end(self.outside, small)
                held.append(line)
        self._end(found[-1].paragraphs, held)
        self._end(self.outside, small)
        return [section for section in found if section.head or section.paragraphs]

    def _head(self, line: Line, found: list[Section]) -> None:
        """A new section, or the second line of the head before."""
        number, printed = split_number(line.text)
        head, before = self.rejoined(printed or line.text), found[-1]
        two = not before.paragraphs and number is None and before.head is not None and self._style(line)
        if two and not (role_of(head) or _KNOWN.fullmatch(plain(head)) or _KNOWN.fullmatch(plain(before.head or ""))):
            before.head = f"{before.head} {head}"
        else:
            found.append(Section(number, head))

    def _goes_on(self, before: Line, line: Line) -> bool:
        """Whether a line of small print is of the same piece."""
        near = 0 <= before.top - line.top < self.leading * (before.rows + 0.8)
        return line.page == before.page and near and abs(line.size - before.size) < 0.6

    def _end(self, paragraphs: list[Paragraph], lines: list[Line]) -> None:
        for group in _groups(lines, lambda held, line, following: self._begins(held[-1], line, following)):
            text = self.joined(group)
            if text and (paragraphs is not self.outside or _WORD.search(text)):
                paragraphs.append(Paragraph(text))
        lines.clear()

    def _begins(self, before: Line, line: Line, following: Line | None) -> bool:
        """Whether a line begins a paragraph: it is indented and the next is not, or a gap is above."""
        indent = line.left - following.left if following and following.page == line.page else self.size
        indented, ends = 0.4 * self.size < indent < 4 * self.size, before.text.rstrip(_QUOTES)[-1:] in _ENDS
        if line.page != before.page or line.top >= before.top:
            return ends and following is not None and indented
        if before.top - line.top > self.leading * (before.rows + 0.7):
            return ends or not line.text[:1].islower()
        return indented and 0.4 * self.size < line.left - before.left < 4 * self.size and line.left < before.right

    # ---- references

    def bibliography(self) -> list[Row]:
        entries = [self.joined(group) for group in self._entries()]
        empty: Row = {"paper_id": None, "title": None, "authors": [], "year": None, "venue": None, "doi": None}
        return [{"ref_id": f"b{n}", **empty, "raw": entry} for n, entry in enumerate(e for e in entries if e)]

    def _entries(self) -> Iterator[list[Line]]:
        """The lines of each reference: its first has a mark, or stands left of the others."""
        if self.references and _ENTRY.match(self.references[0].text):
            return _groups(self.references, lambda held, line, following: _ENTRY.match(line.text) is not None)
        return _groups(self.references, self._hangs)

    def _hangs(self, held: list[Line], line: Line, following: Line | None) -> bool:
        before = held[-1]
        if line.page == before.page and before.top > line.top and len(held) > 1:
            return line.left < before.left - 0.3 * self.size
        if following is not None and following.page == line.page and abs(following.left - line.left) < 60:
            return line.left < following.left - 0.3 * self.size
        return len(held) > 1 and abs(line.left - held[0].left) < 1

    # ---- text

    def joined(self, lines: Sequence[Line]) -> str:
        """One text; words broken at the ends of lines are whole again."""
        found: list[str] = []
        for line in lines:
            whole = " ".join(line.text.split())
            before = found[-1] if found else ""
            if before.endswith("-") and before[-3:-1].isalpha() and len(before) > 2 and whole[:1].islower():
                found[-1] = f"{before[:-1]}\ufffe{whole}"
            else:
                found.append(whole)
        return self.rejoined(" ".join(found))

    def rejoined(self, text: str) -> str:
        """Broken words whole: with a hyphen only where the paper writes them so elsewhere."""

        def whole(match: re.Match[str]) -> str:
            joined, hyphened = match[1] + match[2], f"{match[1]}-{match[2]}"
            return hyphened if self.words[hyphened] > self.words[joined] else joined

        return " ".join(_BROKEN.sub(whole, text).replace("\ufffe", "").split())


def _groups(lines: Sequence[Line], begins: Callable[[list[Line], Line, Line | None], bool]) -> Iterator[list[Line]]:
    """Runs of lines: a new one where `begins` says so of the run so far, a line and the one after it."""
    held: list[Line] = []
    for position, line in enumerate(lines):
        if held and begins(held, line, _next(lines, position)):
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _next(lines: Sequence[Line], position: int) -> Line | None:
    return lines[position + 1] if position + 1 < len(lines) else None


def _number(text: str) -> str | None:
    """The number of a head that has one with digits, or a Roman one."""
    number, rest = split_number(text)
    if number is None or not rest or not (rest[0].isupper() or rest[0].isdigit()):
        return None
    return number if number[0].isdigit() or text.isupper() else None


def _usual_size(lines: Sequence[Line]) -> float:
    """The size that most characters have."""
    sizes = Counter(chain.from_iterable(repeat(line.size, len(line.text)) for line in lines))
    return sizes.most_common(1)[0][0]


def _leading(lines: Sequence[Line]) -> float:
    """Usual distance of one line to the next, in points; 0 where no two follow each other."""
    steps = [(a.top - b.top) / a.rows for a, b in pairwise(lines) if a.page == b.page and a.top > b.top]
    return statistics.median(steps) if steps else 0.0
