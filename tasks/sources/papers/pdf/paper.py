"""A row of PAPERS made from the lines of a PDF:

    12.0 bold     "1 Introduction"                          a head (tasks/sources/papers/pdf/heads.py)
    10.9          "The goal of this work is to facilitate"  its text: most lines have this size
    10.9 at 83.1  "In this paper, we focus on"              begins a paragraph: indented, the next line is not
     9.0          "Table 1: Features."                      smaller: a caption, a footnote; stands outside the sections
    10.9          "84"                                      page numbers and running heads: dropped

What is not certain is null or empty: the role of a section, the names of authors, the entry that a citation means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from longform.artifacts.rows import Row
from tasks.sources.paper_body import Paragraph, Section, UnreadableError, laid_out
from tasks.sources.papers.pdf.citations import Bibliography, entry_of
from tasks.sources.papers.pdf.front import authors_of, title_of
from tasks.sources.papers.pdf.heads import APPENDIX, CAPTION, REFERENCES, Head, heads_of
from tasks.sources.papers.pdf.layout import LARGER, Body, Line, grouped, unreadable_share, without_running_heads
from tasks.text.headings import INTRODUCTION, RELATED_WORK, plain, role_of, split_number

MAX_RELATED_SHARE, MAX_INTRODUCTION_SHARE = 1 / 3, 0.5
SHORT_TEXT_CHARS = 4_000
UNREADABLE, UNREADABLE_IN_PART = 0.5, 0.02

Look = tuple[float, str, bool]

_QUOTES, _ENDS = '"”’)', frozenset(".!?:")
_WORD = re.compile(r"[^\W\d_]{3}")
_MID_SENTENCE = re.compile(r"[a-z]+,? [a-z]+\b(?![.(_\[])")
_ABSTRACT = re.compile(r"(?:A(?:bstract|BSTRACT|\sBSTRACT)|S(?:ummary|UMMARY))(?:[\s.:—–-]+(?=[A-Z“\"(])|[\s.:—–-]*$)")
_ENDS_ABSTRACT = re.compile(
    r"(?:key ?words?(?: and phrases)?|index terms|ccs concepts)\b|(?:table of )?contents$", re.I
)
_ENTRY = re.compile(r"\[[\w+-]{1,12}\]|\(?\d{1,3}[.)]\s+\D|\d{1,3}\s+[A-Z]")


def paper_of(lines: Sequence[Line], bookmarks: Sequence[tuple[str, int]] = ()) -> Row:
    """A row of PAPERS made from the lines of a PDF and the bookmarks of its outline, without paper_id, parser, pdf_sha
    and retrieved_at; what this parser does not read is null or empty. `notes` says if no head was found, or text is
    unreadable in part. UnreadableError if no line has a letter, or more than half of the text is unreadable.
    """
    clean = without_running_heads(lines)
    if not any(character.isalpha() for line in clean for character in line.text):
        raise UnreadableError("no text")
    unreadable = unreadable_share(clean)
    if unreadable > UNREADABLE:
        raise UnreadableError("unreadable text", f"{unreadable:.0%} of it is glyphs without letters")
    text = _Layout(clean, bookmarks)
    bibliography = [entry_of(f"b{n}", raw) for n, raw in enumerate(text.entries())]
    sections, back = text.sections(text.body), text.sections(text.appendix)
    _cite([*sections, *back], text.outside, Bibliography(bibliography))
    return {
        "source": "pdf",
        "title": text.title or None,
        "authors": text.authors,
        "year": None,
        "venue": None,
        "abstract": text.words.joined(text.abstract) or None,
        **with_certain_roles(
            without_equal_heads(
                laid_out(sections, back, text.outside), [text.looks.get(id(section)) for section in (*sections, *back)]
            )
        ),
        "bibliography": bibliography,
        "corpus_id": None,
        "doi": None,
        "arxiv_id": None,
        "acl_id": None,
        "licence": None,
        "url": None,
        "notes": list(_notes(sections, unreadable)),
    }


def _notes(sections: Sequence[Section], unreadable: float) -> Iterator[str]:
    """The notes of a paper: no section has a head; a share of its text is unreadable."""
    if not any(section.head for section in sections):
        yield "no head found"
    if unreadable > UNREADABLE_IN_PART:
        yield "text unreadable in part"


def _cite(sections: Sequence[Section], outside: Sequence[Paragraph], bibliography: Bibliography) -> None:
    """Give each paragraph its citations."""
    for paragraph in [*(p for section in sections for p in section.paragraphs), *outside]:
        paragraph.citations = bibliography.citations(paragraph.text)


def without_equal_heads(columns: Row, looks: Sequence[Look | None]) -> Row:
    """The columns of `laid_out`, in which a section without number has the role of one before it only if its head is
    below that one's by its look: not larger, and not the same. What follows a head that is not, without a role of its
    own or a number, has none either. `looks`: of each section's head, None without one.
    """
    found, above, ended = list[Row](), None, False
    for row, look in zip(columns["sections"], looks, strict=True):
        if row["role"] and role_of(row["head"]):
            above, ended = look, False
        elif row["role"] and row["number"] is None and look and above:
            ended = ended or look == above or look[0] > above[0] + LARGER
        found.append({**row, "role": None} if ended and row["number"] is None else row)
    return {**columns, "sections": found}


def with_certain_roles(columns: Row) -> Row:
    """The columns of `laid_out`, with a role only where it is certain: related work that is more than a third of the
    sections' text, or an introduction that is more than half of it, has swallowed what follows it, and a section whose
    text begins in lower case does not begin there. Short texts are left as they are.
    """
    text, sections, paragraphs = columns["text"], columns["sections"], columns["paragraphs"]
    inside = [paragraph for paragraph in paragraphs if paragraph["section"] is not None]
    total, found = sum(map(_length, inside)), list(sections)
    for role, most in ((RELATED_WORK, MAX_RELATED_SHARE), (INTRODUCTION, MAX_INTRODUCTION_SHARE)):
        share = sum(_length(p) for p in inside if sections[p["section"]]["role"] == role)
        if total > SHORT_TEXT_CHARS and share > most * total:
            found = [{**section, "role": None} if section["role"] == role else section for section in found]
    first = {p["section"]: text[p["start"]] for p in reversed(inside)}
    found = [{**row, "role": None} if first.get(n, "A").islower() else row for n, row in enumerate(found)]
    return {**columns, "sections": found}


def _length(paragraph: Row) -> int:
    """The number of its characters."""
    length: int = paragraph["end"] - paragraph["start"]
    return length


class _Layout:
    """Sorts the lines of a paper: `title` is its text, `authors` their names; `abstract`, `body`, `references` and
    `appendix` are lines, from which `sections` and `entries` make sections and the texts of references. The references
    begin below the last head of that name and end at a head Appendix or the like, where the appendix begins.

    `outside`: captions and small print, which `sections` collects. `words`: the measures of the body's text. `heads`:
    id of the first Line of a head -> Head; `of_heads`: ids of all their lines. `looks`: id of a Section that `sections`
    returned -> size, font and capitals of its head.
    """

    def __init__(self, lines: list[Line], bookmarks: Sequence[tuple[str, int]]) -> None:
        self.outside: list[Paragraph] = []
        self.looks: dict[int, Look] = {}
        self.words = Body(lines)
        heads = _without_title(heads_of(lines, self.words, bookmarks), lines)
        self.heads = {id(lines[head.start]): head for head in heads}
        self.of_heads = {id(line) for head in heads for line in lines[head.start : head.end]}
        start = self._front(lines, heads)
        last = next((head for head in reversed(heads) if REFERENCES.fullmatch(plain(head.text))), None)
        end = last.start if last else len(lines)
        after = next(
            (h.start for h in heads if last and h.start > end and _ends_references(h, last, lines)), len(lines)
        )
        self.body, self.appendix = lines[start:end], lines[after:]
        self.references = lines[last.end : after] if last else []

    # ---- front matter

    def _front(self, lines: list[Line], heads: list[Head]) -> int:
        """Set the title, the authors and the abstract; return the index of the line where the body begins.

        The abstract goes from a line on the first two pages that begins with Abstract or Summary to keywords or the
        next head, where the body begins. Without such a line it is empty, and the body begins at the first head if that
        is Introduction or Related work, else at the first line, as it does if no head follows the abstract. The title
        is looked for on the first page, above the abstract, else above the first head.
        """
        stop = next((h.start for h in heads if role_of(h.text)), len(lines))
        begins = next((p for p, line in enumerate(lines[:stop]) if line.page <= 1 and _ABSTRACT.match(line.text)), None)
        first = next((h.start for h in heads if (begins is None or h.start > begins) and not _is_abstract(h)), None)
        front = [line for line in lines[: begins or first or 30] if line.page == 0]
        self.title, below = title_of(front, self.words)
        self.authors = authors_of(below, self.words) if begins is not None or first is not None else []
        if begins is None or first is None:
            self.abstract: list[Line] = []
            return first if first is not None and role_of(lines[first].text) else 0
        rest = _ABSTRACT.sub("", lines[begins].text, count=1)
        own = [replace(lines[begins], text=rest)] if rest else []
        keywords = next((p for p in range(begins + 1, first) if _ENDS_ABSTRACT.match(lines[p].text)), first)
        self.abstract = [*own, *_main_size(lines[begins + 1 : keywords])]
        return first

    # ---- running text

    def sections(self, lines: Sequence[Line]) -> list[Section]:
        """The sections that the lines make, in order, without empty ones; text before the first head is a section
        without head, which has no role: it may be a title page or a table of contents. Captions, footnotes and other
        small print are appended to `outside`; pieces of it without a word of three letters, such as scraps of formulae,
        are dropped.
        """
        found, held, small = [Section(None, None, alone=True)], list[Line](), list[Line]()
        caption = False
        for line in lines:
            head, begins = self.heads.get(id(line)), CAPTION.match(line.text) is not None
            goes_on = bool(small) and self._goes_on(small[-1], line)
            caption = id(line) not in self.of_heads and (begins or (caption and goes_on))
            if id(line) in self.of_heads:
                self._end(found[-1].paragraphs, held)
                if head is not None:
                    found.append(Section(*_numbered(head)))
                    self.looks[id(found[-1])] = (line.size, line.font, head.text.isupper())
            elif caption or self.words.small(line):
                if begins or not goes_on:
                    self._end(self.outside, small)
                small.append(line)
            else:
                self._end(self.outside, small)
                held.append(line)
        self._end(found[-1].paragraphs, held)
        self._end(self.outside, small)
        return _whole([section for section in found if section.head or section.paragraphs])

    def _goes_on(self, before: Line, line: Line) -> bool:
        """Whether a line of small print continues the caption or footnote that ends with the line `before`: on the same
        page, close below it, and of about its font size.
        """
        near = -1 <= before.last_top - line.top < self.words.leading * 1.3
        return line.page == before.page and near and abs(line.size - before.size) < 0.6

    def _end(self, paragraphs: list[Paragraph], lines: list[Line]) -> None:
        """Append the paragraphs that `lines` make to `paragraphs`, then empty the list `lines`. In `self.outside` only
        paragraphs with a word of three letters are kept.
        """
        for group in grouped(lines, lambda held, line, following: self._begins(held[-1], line, following)):
            text = self.words.joined(group)
            if text and (paragraphs is not self.outside or _WORD.search(text)):
                paragraphs.append(Paragraph(text))
        lines.clear()

    def _begins(self, before: Line, line: Line, following: Line | None) -> bool:
        """Whether a line begins a paragraph. Below a gap: the line before ends a sentence, or this one does not begin
        in lower case. Without a gap: it is indented against the line before and the one following, if that is on the
        same page. At the top of a page or column: the line before ends a sentence, and this one is indented against the
        one following, which must exist (one on another page always counts as less indented).
        """
        size = self.words.size
        indent = line.left - following.left if following and following.page == line.page else size
        indented, ends = 0.4 * size < indent < 4 * size, before.text.rstrip(_QUOTES)[-1:] in _ENDS
        if line.page != before.page or line.top >= before.top:
            return ends and following is not None and indented
        if before.last_top - line.top > self.words.leading * 1.7:
            return ends or not line.text[:1].islower()
        return indented and 0.4 * size < line.left - before.left < 4 * size and line.left < before.right

    # ---- references

    def entries(self) -> list[str]:
        """The text of each reference."""
        return [text for group in self._entries() if (text := self.words.joined(group))]

    def _entries(self) -> Iterator[list[Line]]:
        """The lines of each reference. If the first has a label such as [1] or 1., each reference begins with one; else
        they are told apart by indentation, or, where no line is indented, by the white space between them.
        """
        lines = _main_size(self.references)
        if lines and _ENTRY.match(lines[0].text):
            form = _label_form(lines[0].text)
            return grouped(lines, lambda held, line, following: form.match(line.text) is not None)
        if _hanging(lines) or not lines:
            return grouped(lines, self._hangs)
        return grouped(lines, lambda held, line, following: self._spaced(held[-1], line))

    def _spaced(self, before: Line, line: Line) -> bool:
        """Whether white space above a line, or a capital below the end of a sentence at a column's top, says that it
        begins a reference.
        """
        if line.page != before.page or line.top >= before.top:
            return before.text[-1] in ".)" and line.text[:1].isupper()
        return before.last_top - line.top > self.words.leading * 1.12

    def _hangs(self, held: list[Line], line: Line, following: Line | None) -> bool:
        """Whether a line begins a reference, by its indentation: it is further left than the line before, if `held`,
        the lines of the reference so far, are more than one; at the top of a page or column, or after a first line,
        further left than the line following. Without a line to compare with: if it is as far left as the first of
        `held`, and they are more than one.
        """
        before, size = held[-1], self.words.size
        if line.page == before.page and before.top > line.top and len(held) > 1:
            return line.left < before.left - 0.3 * size
        if following is not None and following.page == line.page and abs(following.left - line.left) < 60:
            return line.left < following.left - 0.3 * size
        return len(held) > 1 and abs(line.left - held[0].left) < 1


def _without_title(heads: list[Head], lines: Sequence[Line]) -> list[Head]:
    """The heads without the paper's title: a first head on the first page, without number and larger than all others,
    of which there must be one; not if it is just Introduction or the like.
    """
    if len(heads) < 2 or heads[0].number or plain(heads[0].text) in ("introduction", "related work"):
        return heads
    first, largest = lines[heads[0].start], max(lines[head.start].size for head in heads[1:])
    return heads[1:] if first.page == 0 and first.size > largest + LARGER else heads


def _whole(sections: Sequence[Section]) -> list[Section]:
    """The sections without those whose text goes on in mid-sentence: such a head is text of the section before, as are
    its paragraphs. A first section stays.
    """
    found: list[Section] = []
    for section in sections:
        if found and section.head and section.paragraphs and _MID_SENTENCE.match(section.paragraphs[0].text):
            first = Paragraph(f"{section.head} {section.paragraphs[0].text}")
            found[-1].paragraphs += [first, *section.paragraphs[1:]]
        else:
            found.append(section)
    return found


def _ends_references(head: Head, references: Head, lines: Sequence[Line]) -> bool:
    """Whether the head begins an appendix: by its name, by a letter as number, or as it looks like the head of the
    references and is styled.
    """
    one, other = lines[head.start], lines[references.start]
    alike = (
        one.font == other.font and abs(one.size - other.size) < 0.1 and head.text.isupper() == references.text.isupper()
    )
    named = bool(APPENDIX.fullmatch(plain(head.text))) or bool(head.number and head.number[0].isalpha())
    return named or (alike and one.bold)


def _is_abstract(head: Head) -> bool:
    """Whether the head is Abstract or Summary."""
    return _ABSTRACT.fullmatch(head.text) is not None


def _numbered(head: Head) -> tuple[str | None, str]:
    """(number, text) of a head; the number without trailing dot."""
    if head.number is not None:
        return head.number, head.text
    number, rest = split_number(head.text)
    return (number, rest) if rest and number else (None, head.text)


def _main_size(lines: Sequence[Line]) -> list[Line]:
    """The lines of the font size that most characters have, or larger: without footnotes, and captions in smaller
    print.
    """
    if not lines:
        return []
    by_size = [
        (size, sum(len(line.text) for line in run)) for size, run in groupby(sorted(lines, key=_size), key=_size)
    ]
    usual = max(by_size, key=lambda pair: pair[1])[0]
    return [line for line in lines if line.size > usual - 0.6]


def _size(line: Line) -> float:
    """Its font size."""
    return line.size


def _label_form(text: str) -> re.Pattern[str]:
    """The form of the labels that references have, by the first of them: [1] or [ABC99], (1), 1. or 1 alone."""
    if text.startswith("["):
        return re.compile(r"\[[\w+-]{1,12}\]")
    return re.compile(r"\(?\d{1,3}[.)]\s+\D" if re.match(r"\(?\d+[.)]", text) else r"\d{1,3}\s+[A-Z]")


def _hanging(lines: Sequence[Line]) -> bool:
    """Whether references hang: their lines have two left edges at least 4 points apart in a column, each often."""
    lefts = [round(line.left) for line in lines]
    edge = min(lefts, default=0)
    inside = sum(edge + 4 <= left <= edge + 40 for left in lefts)
    return len(lefts) < 4 or inside >= 0.15 * len(lefts)
