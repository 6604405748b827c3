"""Papers from PDFs by any parser, and the built-in parser, which needs no server: PDFium's lines and a heuristic.

The heuristic finds heads, paragraphs and references by how lines look:

    12.0 bold     "1 Introduction"                          a head: numbered or known, bold or large, on its own
    10.9          "The goal of this work is to facilitate"  its text: most lines have this size
    10.9 at 83.1  "In this paper, we focus on"              begins a paragraph: indented, the next line is not
     9.0          "Table 1: Features."                      smaller: a caption, a footnote; stands outside the sections
    10.9          "84"                                      page numbers and running heads: dropped

It is a way to begin, no full parser: authors are not read, citations are not resolved, columns of a page come in the
order of the file. The column `parser` says so. PDFium runs in a process of its own, one for many PDFs: a PDF that
crashes or hangs it, or takes too much memory, becomes a rejected row.
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
from tasks.sources.files.child import WorkerProcess
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
    """A line of a PDF's text with its font size, boldness and position in points (see tasks.sources.papers.pdf_lines);
    `page` counts from 0.
    """

    text: str
    size: float
    bold: bool
    left: float
    right: float
    top: float
    page: int

    @property
    def rows(self) -> int:
        """How many printed lines it consists of: PDFium joins two lines at a word that is broken between them."""
        return self.text.count("\ufffe") + 1


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
        """What identifies the parser in a recipe: its version, and how many pages a PDF may have."""
        return {"parser": self.name, "pages": self.pages}

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
            row = paper_of([line for number, page in enumerate(self._pages()) for line in lines_of(page, number)])
        except UnreadableError as error:
            return error
        return {
            **row,
            "parser": self.parser.name,
            "pdf_sha": hashlib.md5(member.content, usedforsecurity=False).hexdigest(),
        }

    def _pages(self) -> list[list[list[Any]]]:
        """The lines of each page of the PDF in the folder, as the process answers: [text, size, bold, left, right, top]
        each. UnreadableError if it takes too long, breaks the process, or is one that the process cannot read.
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
        pages: list[list[list[Any]]] = reply["pages"]
        return pages


def check(member: Member) -> None:
    """UnreadableError if the file has a fault, such as being empty or too large, or if its first MAGIC_WITHIN bytes do
    not say that it is a PDF.
    """
    if member.fault:
        raise UnreadableError(member.fault)
    if b"%PDF-" not in member.content[:MAGIC_WITHIN]:
        raise UnreadableError("no PDF")


# ---------------------------------------------------------------- the paper


def lines_of(page: Sequence[Sequence[Any]], number: int) -> list[Line]:
    """The lines of the page with this number (from 0). `page`: [text, size, bold, left, right, top] of each line.
    Control characters become spaces, and texts are stripped.
    """
    return [
        Line(text.translate(_CONTROL).strip(), size, bold, left, right, top, number)
        for text, size, bold, left, right, top in page
    ]


def paper_of(lines: Sequence[Line]) -> Row:
    """A row of PAPERS made from the lines of a PDF, without paper_id, parser, pdf_sha and retrieved_at: title,
    abstract, sections, paragraphs and the texts of references; what this parser does not read is null or empty. `notes`
    says if no head was found. UnreadableError if no line has a letter.
    """
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
    """The lines that are not empty, without page numbers and running heads. Both are looked for only among the two
    highest and the two lowest lines of each page; a running head is a text that is there three times or more in all,
    whatever its digits.
    """
    ends = {id(line) for _, page in groupby(lines, key=attrgetter("page")) for line in _ends(list(page))}
    seen = Counter(_pattern(line.text) for line in lines if id(line) in ends)
    return [line for line in lines if line.text and not (id(line) in ends and _is_running(line.text, seen))]


def _ends(page: list[Line]) -> list[Line]:
    """The two highest and the two lowest lines of a page, by `top`; some twice on a page of fewer than four."""
    by_height = sorted(page, key=lambda line: line.top)
    return [*by_height[:2], *by_height[-2:]]


def _pattern(text: str) -> str:
    """The text with # for each run of digits, and single blanks."""
    return re.sub(r"\d+", "#", " ".join(text.split()))


def _is_running(text: str, seen: Counter[str]) -> bool:
    """Whether the text is a page number, also as "Page 3 of 9", or its pattern (`_pattern`) was seen three times or
    more. `seen`: pattern -> how often.
    """
    pattern = _pattern(text)
    return pattern in ("#", "– # –", "- # -", "Page #", "# of #", "Page # of #") or seen[pattern] >= 3


class _Layout:
    """Sorts the lines of a paper: `title` is its text; `abstract`, `body`, `references` and `appendix` are lines, from
    which `sections`, `bibliography` and `joined` make sections, entries and text. The
    references begin below the last head of that name and end at a head Appendix or the like, where the appendix begins.

    `outside`: captions and small print, which `sections` collects. `size`: the font size of the body's text; `leading`:
    the distance between lines, in points. `numbered`: whether three or more bold or larger lines begin with a number.
    `heads`: the ids of the Line objects that are heads. `words`: word -> how often the paper has it.
    """

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
        """Set the title and the abstract; return the index of the line where the body begins. `heads`: the indexes of
        lines that are heads.

        The abstract goes from a line on the first two pages that begins with Abstract or Summary to the next head,
        where the body begins. Without such a line it is empty, and the body begins at the first head if that is
        Introduction or Related work, else at the first line, as it does if no head follows the abstract. The title is
        looked for on the first page, above the abstract, else above the first head.
        """
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
        """The text of the first run of lines in the largest font size among `lines`; "" if that is not at least _LARGER
        points above the body's.
        """
        largest = max((line.size for line in lines), default=0.0)
        if largest < self.size + _LARGER:
            return ""
        runs = (list(run) for size, run in groupby(lines, key=attrgetter("size")) if size == largest)
        return self.joined(next(runs))

    # ---- heads

    def _style(self, line: Line) -> bool:
        """Whether a line is bold, or its font at least _LARGER points larger than that of the body's text."""
        return line.bold or line.size >= self.size + _LARGER

    def is_head(self, line: Line, following: Line | None) -> bool:
        """Whether a line is the head of a section: short, no caption, not ending in `.`, `,` or `;`, and one of these.

        A usual head (Methods, References ...) of any size that is bold, larger, numbered, or in capitals or title case.
        Else, at most _SMALLER points smaller than the text and without a colon at the end: one with a number that is
        bold, larger or in capitals; or, in a paper that does not number its heads, a bold or larger one that begins
        with a capital and is mostly letters, with plain text in the line `following`.
        """
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
        """The sections that the lines make, in order, without empty ones; text before the first head is a section
        without head. Captions, footnotes and other small print are appended to `outside`; pieces of it without a word
        of three letters, such as scraps of formulae, are dropped.
        """
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
        """Append a section with this head to `found`; or add the line to the head of the last section, if that has no
        text yet and the line, bold or larger, has no number, and neither is a usual head by itself (Related work is one
        only as the line, not as the head before it).
        """
        number, printed = split_number(line.text)
        head, before = self.rejoined(printed or line.text), found[-1]
        two = not before.paragraphs and number is None and before.head is not None and self._style(line)
        if two and not (role_of(head) or _KNOWN.fullmatch(plain(head)) or _KNOWN.fullmatch(plain(before.head or ""))):
            before.head = f"{before.head} {head}"
        else:
            found.append(Section(number, head))

    def _goes_on(self, before: Line, line: Line) -> bool:
        """Whether a line of small print continues the caption or footnote that ends with the line `before`: on the same
        page, close below it, and of about its font size.
        """
        near = 0 <= before.top - line.top < self.leading * (before.rows + 0.8)
        return line.page == before.page and near and abs(line.size - before.size) < 0.6

    def _end(self, paragraphs: list[Paragraph], lines: list[Line]) -> None:
        """Append the paragraphs that `lines` make to `paragraphs`, then empty the list `lines`. In `self.outside` only
        paragraphs with a word of three letters are kept.
        """
        for group in _groups(lines, lambda held, line, following: self._begins(held[-1], line, following)):
            text = self.joined(group)
            if text and (paragraphs is not self.outside or _WORD.search(text)):
                paragraphs.append(Paragraph(text))
        lines.clear()

    def _begins(self, before: Line, line: Line, following: Line | None) -> bool:
        """Whether a line begins a paragraph. Below a gap: the line before ends a sentence, or this one does not begin
        in lower case. Without a gap: it is indented against the line before and the one following, if that is on the
        same page. At the top of a page or column: the line before ends a sentence, and this one is indented against the
        one following, which must exist (one on another page always counts as less indented).
        """
        indent = line.left - following.left if following and following.page == line.page else self.size
        indented, ends = 0.4 * self.size < indent < 4 * self.size, before.text.rstrip(_QUOTES)[-1:] in _ENDS
        if line.page != before.page or line.top >= before.top:
            return ends and following is not None and indented
        if before.top - line.top > self.leading * (before.rows + 0.7):
            return ends or not line.text[:1].islower()
        return indented and 0.4 * self.size < line.left - before.left < 4 * self.size and line.left < before.right

    # ---- references

    def bibliography(self) -> list[Row]:
        """The rows of PAPERS.bibliography: for each reference an id (b0, b1, ...) and its text as `raw`; nothing else
        is read.
        """
        entries = [self.joined(group) for group in self._entries()]
        empty: Row = {"paper_id": None, "title": None, "authors": [], "year": None, "venue": None, "doi": None}
        return [{"ref_id": f"b{n}", **empty, "raw": entry} for n, entry in enumerate(e for e in entries if e)]

    def _entries(self) -> Iterator[list[Line]]:
        """The lines of each reference. If the first has a label such as [1] or 1., each reference begins with one; else
        they are told apart by indentation.
        """
        if self.references and _ENTRY.match(self.references[0].text):
            return _groups(self.references, lambda held, line, following: _ENTRY.match(line.text) is not None)
        return _groups(self.references, self._hangs)

    def _hangs(self, held: list[Line], line: Line, following: Line | None) -> bool:
        """Whether a line begins a reference, by its indentation: it is further left than the line before, if `held`,
        the lines of the reference so far, are more than one; at the top of a page or column, or after a first line,
        further left than the line following. Without a line to compare with: if it is as far left as the first of
        `held`, and they are more than one.
        """
        before = held[-1]
        if line.page == before.page and before.top > line.top and len(held) > 1:
            return line.left < before.left - 0.3 * self.size
        if following is not None and following.page == line.page and abs(following.left - line.left) < 60:
            return line.left < following.left - 0.3 * self.size
        return len(held) > 1 and abs(line.left - held[0].left) < 1

    # ---- text

    def joined(self, lines: Sequence[Line]) -> str:
        """The lines as one text, with single blanks; words that were broken at the ends of lines are whole again, as in
        `rejoined`.
        """
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
        """The text, with single blanks, in which words broken at a line's end (U+FFFE stands at the break) are whole. A
        hyphen is put at the break if the paper writes the word more often with it than without.
        """

        def whole(match: re.Match[str]) -> str:
            joined, hyphened = match[1] + match[2], f"{match[1]}-{match[2]}"
            return hyphened if self.words[hyphened] > self.words[joined] else joined

        return " ".join(_BROKEN.sub(whole, text).replace("\ufffe", "").split())


def _groups(lines: Sequence[Line], begins: Callable[[list[Line], Line, Line | None], bool]) -> Iterator[list[Line]]:
    """The lines in groups, in order. Each line for which `begins(group so far, line, next line or None)` is true begins
    a new group; no group is empty.
    """
    held: list[Line] = []
    for position, line in enumerate(lines):
        if held and begins(held, line, _next(lines, position)):
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _next(lines: Sequence[Line], position: int) -> Line | None:
    """The line after the one at `position`; None after the last."""
    return lines[position + 1] if position + 1 < len(lines) else None


def _number(text: str) -> str | None:
    """The number that begins a head, such as 2.1; one not in digits, such as IV, only if the head is in capitals. None
    if there is no such number, or if no capital or digit follows it.
    """
    number, rest = split_number(text)
    if number is None or not rest or not (rest[0].isupper() or rest[0].isdigit()):
        return None
    return number if number[0].isdigit() or text.isupper() else None


def _usual_size(lines: Sequence[Line]) -> float:
    """The font size that most characters of the lines (at least one) have."""
    sizes = Counter(chain.from_iterable(repeat(line.size, len(line.text)) for line in lines))
    return sizes.most_common(1)[0][0]


def _leading(lines: Sequence[Line]) -> float:
    """Median distance from one line to the next below it on the same page, in points; 0 if there are no such lines."""
    steps = [(a.top - b.top) / a.rows for a, b in pairwise(lines) if a.page == b.page and a.top > b.top]
    return statistics.median(steps) if steps else 0.0
