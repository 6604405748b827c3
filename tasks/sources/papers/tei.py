"""TEI as GROBID 0.5 to 0.9 writes it: one XML document a paper.

    <TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
      <titleStmt><title level="a" type="main">On Kites</title></titleStmt>
      <publicationStmt><publisher/><availability status="unknown"><licence/></availability></publicationStmt>
      <sourceDesc><biblStruct><analytic><author><persName><forename type="first">A</forename><surname>B</surname>
        </persName></author></analytic><monogr><imprint><date/></imprint></monogr><idno type="MD5">0C1A…</idno>
      </biblStruct></sourceDesc></fileDesc>
      <encodingDesc><appInfo><application version="0.8.2" ident="GROBID"/></appInfo></encodingDesc>
      <profileDesc><abstract><div><p>We fly kites.</p></div></abstract></profileDesc></teiHeader>
    <text><body>
      <div><head n="1">Introduction</head><p>Kites fly <ref type="bibr" target="#b0">(Moss, 1999)</ref>.</p></div>
      <figure xml:id="fig_0"><head>Figure 1 :</head><label>1</label><figDesc>Figure 1: A kite.</figDesc></figure>
      <note place="foot" n="1">Of paper.</note></body>
    <back><div type="references"><listBibl><biblStruct xml:id="b0"><analytic><title level="a" type="main">Wind</title>
      …</biblStruct></listBibl></div></back></text></TEI>

What GROBID gets wrong: an introduction has no head, or was taken for the abstract; two heads are one ("Model 2.1
Overview"); the rest of a sentence, or of a caption, is a head ("supplement 1).", "Continued"); after a float the heads
are repeated; @n is "1" or "1."; heads have no text below, or begin their paragraph ("Related work. Moss flew ..."); a
citation names no entry, or is called a formula, or the blank behind it is gone; divs are flat, in old versions nested;
the namespace is declared anew inside, or not at all; a paper that could not be read is a document with an empty body.
Words that were broken at a line's end keep their hyphen ("In-foTabS"): as printed or not cannot be told, so they stay.
Cells of tables are no text and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
from lxml import etree

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import PAPERS
from tasks.sources.files.batches import batched, counted
from tasks.sources.files.bundles import Member, members
from tasks.sources.files.inputs import raw_text
from tasks.sources.paper_body import Cite, Paragraph, Section, UnreadableError, laid_out, papers_batch
from tasks.sources.papers.origin import FILES, completed, paper_id_of
from tasks.sources.papers.repairs import introduced, letters, numbered, repaired
from tasks.text.headings import is_front

GROUP = FILES
ENDINGS = (".xml", ".tei")
MAX_BYTES = 32 << 20
MAX_TAGS = 1_000_000
BATCH_ROWS = 16
BATCH_CHARS = 32 << 20
FILES_PER_BUNDLE = 512

_TEI = "{http://www.tei-c.org/ns/1.0}"
_NAMES = {
    f"{_TEI}{name}": name
    for name in (
        *("div", "head", "p", "s", "ref", "formula", "label", "figure", "figDesc", "note", "list", "item", "table"),
        *("title", "author", "persName", "forename", "surname", "orgName", "analytic", "monogr", "imprint", "date"),
        *("series", "biblStruct", "biblScope", "idno", "ptr", "publisher", "meeting", "editor", "rs", "hi"),
    )
}
_ID = "{http://www.w3.org/XML/1998/namespace}id"
_SUBSET = re.compile(rb"<!DOCTYPE[^>\[]*\[")
_LEVELS = ("analytic", "monogr", "series")
_PARTS_OF_NAMES = ("forename", "surname", "genName", "orgName", "name")
_NAME_PARTS = frozenset(tag for name in _PARTS_OF_NAMES for tag in (name, f"{_TEI}{name}"))
_AUTHOR = frozenset(("author", f"{_TEI}author"))
_OF_BIBLIOGRAPHY = [
    f"{{*}}{name}"
    for name in (
        *("biblStruct", "author", "editor", "title", "date", "idno", "note"),
        *_LEVELS,
        *_PARTS_OF_NAMES,
    )
]
_PERSON = frozenset(("persName", "orgName", "name"))
_FLOATS = frozenset(("figure", "note"))
_SILENT = frozenset(("graphic", "table", "listBibl", "listOrg", "ptr", "fw", "pb"))
_APART = frozenset(("s", "p", "item", "label", "head", "div", "row", "cell", "lb", "figDesc"))
_YEAR = re.compile(r"(?<!\d)(?:18|19|20)\d\d[a-z]?(?!\d)")
_FOOT_ID = re.compile(r"foot_\d+")
_OPEN_ENDED = frozenset("-–—(/[‘“\"'") | {""}
_WORD = re.compile(r"[^\W\d_]{2,}|[AIa]\s")
_IDENTIFIERS = {
    "doi": re.compile(r"(10\.\d{4,9}/\S+)"),
    "arxiv": re.compile(r"\A(?:arxiv:)?((?:[a-z.-]+/)?\d{4}\.?\d{3,5})(?:v\d+)?", re.IGNORECASE),
    "md5": re.compile(r"(.{1,64})"),
}
_CREATIVE_COMMONS = re.compile(
    r"creativecommons\.org/(?:licenses/([a-z-]+)/(\d\.\d)|publicdomain/(zero)/(\d\.\d))", re.IGNORECASE
)


# ---------------------------------------------------------------- a document


def paper_of(content: bytes) -> Row:
    """The row of PAPERS made from a TEI document, without paper_id and retrieved_at. UnreadableError if it cannot be
    parsed (`parse`), nests too deep, or has no paragraph in body and back matter.
    """
    try:
        return _paper(parse(content))
    except RecursionError:
        raise UnreadableError("too deeply nested") from None


def _paper(root: etree._Element) -> Row:
    """The row of PAPERS made from a TEI document, by its root element, without paper_id and retrieved_at.
    UnreadableError if it has no paragraph in body and back matter, RecursionError if it nests too deep.
    """
    bibliography = _bibliography(root)
    reader = _Reader({entry["ref_id"] for entry in bibliography})
    abstract = reader.paragraphs(_at(root, "teiHeader/profileDesc/abstract"))
    body, back = reader.sections(_at(root, "text/body")), reader.back(_at(root, "text/back"))
    if not any(section.paragraphs for section in (*body, *back)):
        raise UnreadableError("empty body")
    described = _described(root)
    body = repaired(body, described["title"], reader.notes)
    abstract = introduced(abstract, body, reader.notes)
    return {
        **described,
        "abstract": "\n\n".join(paragraph.text for paragraph in abstract) or None,
        **laid_out(body, numbered(back), reader.outside),
        "bibliography": bibliography,
        "notes": [*dict.fromkeys(reader.notes)],
    }


def parse(content: bytes) -> etree._Element:
    """The root element of a TEI document. UnreadableError if it is ill-formed, no TEI, has a DOCTYPE with
    declarations in it, or more than MAX_TAGS tags. Never uses the network.
    """
    if b"<!DOCTYPE" in content and _SUBSET.search(content):
        raise UnreadableError("document type declaration")
    if len(content) > 4 * MAX_TAGS and content.count(b"<") > MAX_TAGS:
        raise UnreadableError("too many elements", f"more than {MAX_TAGS:,}")
    try:
        root = etree.fromstring(content, _hardened())
    except etree.XMLSyntaxError as error:
        raise UnreadableError("ill-formed XML", str(error)[:200]) from error
    subset: Any = root.getroottree().docinfo.internalDTD
    if subset is not None and next(subset.iterentities(), None) is not None:
        raise UnreadableError("document type declaration")
    if _name(root) != "TEI":
        raise UnreadableError("no TEI", f"root element {_name(root)[:60]}")
    return root


@cache
def _hardened() -> etree.XMLParser:
    """An XML parser that resolves no entities, uses no network, keeps lxml's limits, and drops comments and processing
    instructions.
    """
    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )


def _name(element: etree._Element) -> str:
    """The element's name without its namespace; "" for a node that is no element, such as an unresolved entity."""
    tag = element.tag
    return _NAMES.get(tag) or (tag.rpartition("}")[2] if isinstance(tag, str) else "")


def _below(element: etree._Element, path: str) -> Iterator[etree._Element]:
    """The elements at this path below the element, such as `div/head`, in any namespace or none."""
    return element.iterfind(_of_any_namespace(path))


@cache
def _of_any_namespace(path: str) -> str:
    """The path, such as `div/head`, in lxml's form that matches each name in any namespace or none."""
    return re.sub(r"\w+", r"{*}\g<0>", path)


def _at(element: etree._Element, path: str) -> etree._Element | None:
    """The first element at this path below the element, such as `div/head`, in any namespace or none; else None."""
    return next(_below(element, path), None)


def fold(text: str) -> str:
    """The text stripped, with each run of white space as one space: `" ".join(text.split())`, but faster if there is
    nothing to fold. (Of white space in ASCII, XML allows only space, tab, line feed and carriage return.)
    """
    folded = not ("\n" in text or "\t" in text or "\r" in text) if text.isascii() else text.isprintable()
    return text.strip() if folded and "  " not in text else " ".join(text.split())


def _all_text(element: etree._Element) -> str:
    """All text in the element and the elements inside it, as it stands; "" if there is none."""
    return "".join(map(str, element.itertext())) if len(element) else element.text or ""


def _folded(element: etree._Element | None) -> str:
    """All text in the element, with white space folded (`fold`); "" for None."""
    return "" if element is None else fold(_all_text(element))


def _paragraph(text: str | None) -> Paragraph | None:
    """A paragraph with the text, its white space folded (`fold`); None if there is no text."""
    folded = fold(text or "")
    return Paragraph(folded) if folded else None


# ---------------------------------------------------------------- running text


class _Flow:
    """Collects running text, piece by piece, with white space folded (`fold`), and the citations in it.

    `parts`: the pieces, `length`: their characters together. `gap`: whether a space belongs before the next piece.
    `last`: the last character so far; "" if a space follows it or there is none.
    """

    __slots__ = ("citations", "gap", "last", "length", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length, self.gap, self.last = 0, False, ""
        self.citations: list[Cite] = []

    def add(self, text: str) -> int:
        """Add text, with a space before it if one stands there or is due; return the offset of its first character. A
        blank text only makes a space due before the next one.
        """
        folded, start = fold(text), self.length
        if not folded:
            self.gap, self.last = True, ""
            return start
        if start and (self.gap or text[0] != folded[0]):
            self.parts.append(" ")
            start += 1
        self.parts.append(folded)
        self.length = start + len(folded)
        self.gap = text[-1] != folded[-1]
        self.last = "" if self.gap else folded[-1]
        return start

    def space(self) -> None:
        """Put a space before the text that comes next."""
        self.gap, self.last = True, ""

    def paragraph(self) -> Paragraph | None:
        """The text so far as a paragraph, with its citations; None if there is no text."""
        text = "".join(self.parts)
        return Paragraph(text, self.citations) if text else None


class _Reader:
    """Reads `sections`, `back` (matter) and `paragraphs` of one TEI document. `entries`: the ids in its bibliography,
    by which citations are resolved. Reading appends captions and footnotes to `outside`, and a fixed phrase for each
    repair to `notes`.
    """

    def __init__(self, entries: set[str]) -> None:
        self.entries = entries
        self.outside: list[Paragraph] = []
        self.notes: list[str] = []

    def sections(self, element: etree._Element | None) -> list[Section]:
        """The sections below the element, in order, without those that have neither head nor text; text before the
        first head is a section without head. Empty for None.
        """
        found: list[Section] = [Section(None, None)]
        if element is not None:
            self._walk(element, found)
        return [section for section in found if section.head or section.paragraphs]

    def back(self, element: etree._Element | None) -> list[Section]:
        """The sections of the divisions directly below the back matter, in order, without the references; its notes go
        to `outside`. Each division is read separately, so that text without a head never continues the division before.
        Empty for None.
        """
        found: list[Section] = []
        for child in element if element is not None else ():
            if _name(child) == "div" and child.get("type") != "references":
                found += self.sections(child)
            elif _name(child) == "note":
                self._float(child)
        return found

    def paragraphs(self, element: etree._Element | None) -> list[Paragraph]:
        """The text below the element as paragraphs, in order; each head is one, too. Empty for None."""
        found: list[Paragraph] = []
        for section in self.sections(element):
            found += [Paragraph(section.head)] if section.head else []
            found += section.paragraphs
        return found

    def _walk(self, element: etree._Element, found: list[Section]) -> None:
        """Append a section to `found` for each head below the element; text goes to the last section of `found`, which
        must not be empty. Figures and notes go to `outside`, tables and reference lists are left out.
        """
        self._loose(element.text, found)
        for child in element:
            name = _name(child)
            if name in ("div", "list"):
                if name == "div" and _at(child, "head") is None:
                    self._unheaded(found)
                self._walk(child, found)
            elif name == "head":
                found.append(Section(child.get("n"), _folded(child)))
            elif name == "formula":
                self._formula(self._read(child), found)
            elif name in _FLOATS:
                self._float(child)
            elif name and name not in _SILENT:
                self._add(self._read(child), found)
            self._loose(child.tail, found)

    def _unheaded(self, found: list[Section]) -> None:
        """Prepare for a division without a head. It continues the last section of `found`, which is noted if that has
        text, but no head either; after front matter such as Keywords, a section without head is appended for it.
        """
        last = found[-1]
        if last.head and is_front(last.head):
            found.append(Section(None, None))
        elif last.head is None and last.paragraphs:
            self.notes.append("section without a head")

    def _loose(self, text: str | None, found: list[Section]) -> None:
        """Append the text, if any, to the last section of `found` as a paragraph."""
        if text and (folded := fold(text)):
            found[-1].paragraphs.append(Paragraph(folded))

    def _add(self, paragraph: Paragraph | None, found: list[Section]) -> None:
        """Append the paragraph, if any, to the last section of `found`."""
        if paragraph:
            found[-1].paragraphs.append(paragraph)

    def _formula(self, formula: Paragraph | None, found: list[Section]) -> None:
        """Add a formula, if any, to the end of the last section's last paragraph; a paragraph of its own if there is
        none.
        """
        if formula and found[-1].paragraphs:
            found[-1].paragraphs[-1].append(formula.text, formula.citations)
        else:
            self._add(formula, found)

    def _float(self, element: etree._Element) -> None:
        """Add the text of a note, or the caption of a figure, to `outside`, before that of the notes and figures inside
        it. Nothing if it has no text.
        """
        place = len(self.outside)
        paragraph = self._caption(element) if _name(element) == "figure" else self._read(element)
        if paragraph:
            self.outside.insert(place, paragraph)

    def _caption(self, figure: etree._Element) -> Paragraph | None:
        """The caption of a figure: its label (the head) and its description, the label only once if the description
        begins with it; one of them if the other is missing, None if both are. Adds the notes and figures inside it to
        `outside`.
        """
        label, description = _folded(_at(figure, "head")), _at(figure, "figDesc")
        for child in figure:
            if _name(child) in _FLOATS:
                self._float(child)
        caption = None if description is None else self._read(description)
        if caption is None:
            return _paragraph(label)
        if not label or letters(caption.text[: 2 * len(label) + 40]).startswith(letters(label)):
            return caption
        whole = Paragraph(label)
        whole.append(caption.text, caption.citations)
        return whole

    def _read(self, element: etree._Element) -> Paragraph | None:
        """The element's text as one paragraph, with its citations; None if it has no text. Figures and notes inside it
        go to `outside`.
        """
        if not len(element):
            return _paragraph(element.text)
        flow = _Flow()
        self._run(element, flow)
        return flow.paragraph()

    def _run(self, element: etree._Element, flow: _Flow) -> None:
        """Add the element's text and citations to `flow`, with spaces around elements that stand apart, such as items.
        Figures and notes inside it go to `outside`, tables and the like are left out.
        """
        if text := element.text:
            flow.add(text)
        for child in element:
            name, tail = _NAMES.get(child.tag) or _name(child), child.tail
            if name == "ref":
                self._ref(child, flow, tail)
            elif name in _FLOATS:
                self._float(child)
            elif name and name not in _SILENT:
                if name in _APART:
                    flow.space()
                self._run(child, flow)
                if name in _APART:
                    flow.space()
            if tail:
                flow.add(tail)

    def _ref(self, ref: etree._Element, flow: _Flow, tail: str | None) -> None:
        """Add the text of a `ref` element to `flow`, and a citation if it cites literature: its type is bibr, or it is
        called a formula, but has a year. The mark of a footnote becomes a space. `tail`: the text after the element.
        Spaces that GROBID dropped before or after it are restored.
        """
        kind, text = ref.get("type"), _all_text(ref)
        if not text or text.isspace() or (kind == "foot" and _FOOT_ID.fullmatch(text)):
            if text:
                flow.space()
            return
        cites = kind == "bibr" or (kind == "formula" and _YEAR.search(text) is not None)
        if cites and flow.last and (flow.last in ";,)]" or (text[0] in "([" and flow.last.isalnum())):
            self._restore(flow)
        start = flow.add(text)
        if cites:
            self._cite(ref, kind, start, flow)
        if tail and tail[0].isalpha() and flow.last not in _OPEN_ENDED and _WORD.match(tail):
            self._restore(flow)

    def _restore(self, flow: _Flow) -> None:
        """Put a space before the text that `flow` gets next, and note it as a repair."""
        flow.space()
        self.notes.append("blank restored beside a citation")

    def _cite(self, ref: etree._Element, kind: str | None, start: int, flow: _Flow) -> None:
        """Add to `flow` a citation that spans its text from `start` to its end: one for each entry of the bibliography
        that `ref` names, else one of no entry (None). Targets that are no entry, and a citation whose type (`kind`) is
        formula, are noted as repairs.
        """
        if kind == "formula":
            self.notes.append("citation marked as formula")
        end, known = flow.length, False
        for entry in (ref.get("target") or "").split():
            if entry[1:] in self.entries and entry[0] == "#":
                flow.citations.append((start, end, entry[1:]))
                known = True
            elif entry[0] == "#":
                self.notes.append("citation of no entry")
        if not known:
            flow.citations.append((start, end, None))


# ---------------------------------------------------------------- header


def _described(root: etree._Element) -> Row:
    """The columns of PAPERS that the header gives: source, parser, title, authors, year, venue, identifiers, licence,
    url. What it does not say is None (authors: empty).
    """
    file, structure = "teiHeader/fileDesc", "teiHeader/fileDesc/sourceDesc/biblStruct"
    numbers = [_identifier(idno) for idno in _below(root, f"{structure}//idno")]
    number = {kind: text for kind, text in reversed(numbers) if text}
    doi, arxiv = number.get("doi"), number.get("arxiv")
    title, authors, _ = _level(root, f"{structure}/analytic")
    venue, _, year = _level(root, f"{structure}/monogr")
    return {
        "source": "tei",
        "parser": _parser(root),
        "title": _level(root, f"{file}/titleStmt")[0] or title,
        "authors": authors,
        "year": year or _level(root, f"{file}/publicationStmt")[2],
        "venue": venue,
        "corpus_id": None,
        "doi": doi,
        "arxiv_id": arxiv,
        "acl_id": None,
        "pdf_sha": number.get("md5"),
        "licence": next(
            filter(None, map(_licence, _below(root, f"{file}/publicationStmt/availability//licence"))), None
        ),
        "url": f"https://doi.org/{doi}" if doi else f"https://arxiv.org/abs/{arxiv}" if arxiv else None,
    }


def _parser(root: etree._Element) -> str:
    """The program that wrote the document and its version, such as "grobid 0.8.2"; "unknown" if it names no program."""
    application = _at(root, "teiHeader/encodingDesc/appInfo//application")
    if application is None:
        return "unknown"
    name = (application.get("ident") or "unknown").lower()[:40]
    return f"{name} {(application.get('version') or 'unknown')[:60]}"


def _level(root: etree._Element, path: str) -> tuple[str | None, list[str], int | None]:
    """(title, authors, year) of the first element at this path, such as `analytic` (the article) or `monogr` (the
    volume): the first title and year that are not empty, and the names of all authors. None, [] or None if there is
    none.
    """
    level = _at(root, path)
    if level is None:
        return None, [], None
    titles, people = map(_folded, _below(level, "title")), map(_person, _below(level, "author"))
    years = map(_year, (*_below(level, "date"), *_below(level, "imprint/date")))
    return next(filter(None, titles), None), [*filter(None, people)], next(filter(None, years), None)


def _person(author: etree._Element) -> str:
    """The name of an author or organisation, its parts in the order of the document, with white space folded; the
    element's own text if no name is marked in it. "" if there is neither.
    """
    for child in author:
        if _name(child) in _PERSON:
            return fold(" ".join([part.text or "" for part in child]) or child.text or "")
    return fold(author.text or "")


def _year(date: etree._Element) -> int | None:
    """The first year from 1800 to 2099 in the date's @when, else in its text; None if there is none."""
    for text in (date.get("when"), date.text):
        if text and (match := _YEAR.search(text)):
            return int(match[0][:4])
    return None


def _identifier(idno: etree._Element) -> tuple[str, str | None]:
    """(type, identifier) of an `idno` element. The type is in lower case, "" if it has none. The identifier of a DOI is
    without what stands before it, that of an arXiv id without its version; DOI and MD5 are in lower case. It is None
    for other types, and if it is ill-formed.
    """
    kind, text = (idno.get("type") or "").lower(), "".join((idno.text or "").split())
    match = _IDENTIFIERS[kind].search(text) if kind in _IDENTIFIERS else None
    return kind, match and (match[1] if kind == "arxiv" else match[1].lower())


def _licence(licence: etree._Element) -> str | None:
    """`CC BY 4.0`, `CC0 1.0` and the like if the element has a Creative Commons address; else the first 200 characters
    of its text, or of its address if it has no text; "" if it has neither.
    """
    text, target = _folded(licence), licence.get("target")
    if match := _CREATIVE_COMMONS.search(f"{target} {text}"):
        return f"CC {match[1].upper()} {match[2]}" if match[1] else f"CC0 {match[4]}"
    return (text or target or "")[:200]


# ---------------------------------------------------------------- bibliography


@dataclass(slots=True)
class _Entry:
    """An entry of the bibliography while it is read. `authors` and `titles` are by level: analytic (the article),
    monogr (the volume) or series. If the document gives a field twice, the first counts.
    """

    ref_id: str
    authors: dict[str, list[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    year: int | None = None
    doi: str | None = None
    raw: str | None = None

    def row(self) -> Row:
        """The entry as a row of PAPERS.bibliography, its paper_id None. Title and authors are the article's, else the
        volume's; the venue is the volume's title, if the article has one.
        """
        title, container = self.titles.get("analytic"), self.titles.get("monogr")
        return {
            "ref_id": self.ref_id,
            "paper_id": None,
            "title": title or container,
            "authors": self._people("analytic") or self._people("monogr"),
            "year": self.year,
            "venue": container if title else None,
            "doi": self.doi,
            "raw": self.raw,
        }

    def _people(self, level: str) -> list[str]:
        """The authors' names of a level, with white space folded; empty ones are left out."""
        return [name for author in self.authors.get(level, ()) if (name := fold(author))]


def _bibliography(root: etree._Element) -> list[Row]:
    """The rows of PAPERS.bibliography: all entries in the document's lists of references, in order; of entries with one
    id the first. An entry without an id is b<its position, from 0>.

    One pass over all entries, as they have most of a document's elements, and most of those are names.
    """
    entries: list[_Entry] = []
    for listed in root.iter("{*}listBibl"):
        entry, level, naming = _Entry(""), "monogr", False
        authors: list[str] = []
        for element in listed.iter(*_OF_BIBLIOGRAPHY):
            tag = element.tag
            if tag in _NAME_PARTS:
                if naming and (part := element.text):
                    authors[-1] += f" {part}"
            elif tag in _AUTHOR:
                authors.append(element.text or "")
                naming = True
            else:
                name, naming = _NAMES.get(tag) or _name(element), False
                if name == "biblStruct":
                    entry, name = _Entry(element.get(_ID) or f"b{len(entries)}"), "monogr"
                    entries.append(entry)
                if name in _LEVELS:
                    level, authors = name, entry.authors.setdefault(name, [])
                else:
                    _set_field(element, name, entry, level)
    found: dict[str, _Entry] = {}
    for entry in entries:
        found.setdefault(entry.ref_id, entry)
    return [entry.row() for entry in found.values()]


def _set_field(element: etree._Element, name: str, entry: _Entry, level: str) -> None:
    """Set the field of `entry` that this element with the name `name` gives: title of this level, year, DOI or raw
    text. Nothing if the field is set already, or for any other element.
    """
    if name == "title":
        if level not in entry.titles and (title := _folded(element)):
            entry.titles[level] = title
    elif name == "date":
        entry.year = entry.year or _year(element)
    elif name == "idno":
        kind, number = _identifier(element)
        entry.doi = entry.doi or (number if kind == "doi" else None)
    elif name == "note" and element.get("type") == "raw_reference":
        entry.raw = entry.raw or _folded(element) or None


# ---------------------------------------------------------------- stage


def read(member: Member, licence: str | None) -> Row | Rejected:
    """The row of PAPERS for a TEI file, or a Rejected that says why there is none: filtered for a repeated file, else a
    defect. `licence`: for a document that names none.
    """
    try:
        if member.fault:
            raise UnreadableError(member.fault)
        return row_of(member, paper_of(member.content), licence)
    except UnreadableError as error:
        return row_of(member, error, licence, raw=None if member.fault else raw_text(member.content))


def row_of(
    member: Member, parsed: Row | UnreadableError, licence: str | None, *, raw: str | None = None
) -> Row | Rejected:
    """The parsed row with the columns that depend on its file (tasks.sources.papers.origin); `licence` if none is
    known. If `parsed` is an error, a Rejected with its reason: filtered for a repeated file, else a defect.
    `raw`: text of the file, for the Rejected.
    """
    if isinstance(parsed, UnreadableError):
        kind: Any = "filtered" if parsed.reason == "repeated file" else "defect"
        named = f"{member.name[:200]}: {parsed.detail}" if parsed.detail else member.name[:200]
        return Rejected(paper_id_of(member), kind, parsed.reason, named, raw)
    return completed(parsed, member, licence)


def in_batches(items: Iterable[Row | Rejected]) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of PAPERS from rows, in order; a batch ends with BATCH_ROWS rows, or once their texts have more
    than BATCH_CHARS characters. A Rejected is passed on at once.
    """
    weighed = (item if isinstance(item, Rejected) else (item, len(item["text"])) for item in items)
    yield from batched(weighed, papers_batch, rows=BATCH_ROWS, size=BATCH_CHARS + 1)


@stage(PAPERS, revision=2)
def read_tei(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row of PAPERS for each TEI document, in order; a Rejected for a document that cannot be read or repeats
    another.
    """
    licence = dict(files.source.facts).get("licence")
    found = members(files, endings=ENDINGS, max_bytes=MAX_BYTES)
    yield from counted(context, in_batches(read(member, licence) for member in found))
