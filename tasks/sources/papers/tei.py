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
from tasks.sources.files.inputs import moment, raw_text
from tasks.sources.paper_body import Cite, Paragraph, Section, UnreadableError, laid_out, papers_batch
from tasks.sources.papers.repairs import introduced, letters, numbered, repaired
from tasks.text.headings import is_front

GROUP = "file"
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
    """The row of PAPERS made from a TEI document, without paper_id and retrieved_at. UnreadableError where it is no
    paper.
    """
    try:
        return _paper(parse(content))
    except RecursionError:
        raise UnreadableError("too deeply nested") from None


def _paper(root: etree._Element) -> Row:
    """As `paper_of`, from the root of the document."""
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
    """The root of a TEI document. UnreadableError where it is ill-formed, no TEI, declares entities or has too many
    elements. Never uses the network.
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
    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )


def _name(element: etree._Element) -> str:
    """The element's name without its namespace; empty for an unresolved entity or the like."""
    tag = element.tag
    return _NAMES.get(tag) or (tag.rpartition("}")[2] if isinstance(tag, str) else "")


def _below(element: etree._Element, path: str) -> Iterator[etree._Element]:
    """The elements at this path below the element, such as `div/head`, in any namespace or none."""
    return element.iterfind(_of_any_namespace(path))


@cache
def _of_any_namespace(path: str) -> str:
    return re.sub(r"\w+", r"{*}\g<0>", path)


def _at(element: etree._Element, path: str) -> etree._Element | None:
    """The first element at this path, as of `_below`, or None."""
    return next(_below(element, path), None)


def fold(text: str) -> str:
    """As `" ".join(text.split())`, but faster where there is nothing to fold. (Of white space in ASCII, XML allows only
    space, tab, line feed and carriage return.)
    """
    folded = not ("\n" in text or "\t" in text or "\r" in text) if text.isascii() else text.isprintable()
    return text.strip() if folded and "  " not in text else " ".join(text.split())


def _all_text(element: etree._Element) -> str:
    return "".join(map(str, element.itertext())) if len(element) else element.text or ""


def _folded(element: etree._Element | None) -> str:
    """All text in the element, with white space folded; empty for None."""
    return "" if element is None else fold(_all_text(element))


def _paragraph(text: str | None) -> Paragraph | None:
    """A paragraph with the text, folded; None where there is no text."""
    folded = fold(text or "")
    return Paragraph(folded) if folded else None


# ---------------------------------------------------------------- running text


class _Flow:
    """Collects running text, piece by piece, with white space folded, and the citations in it.

    `last`: the last character so far; empty where a space follows it.
    """

    __slots__ = ("citations", "gap", "last", "length", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length, self.gap, self.last = 0, False, ""
        self.citations: list[Cite] = []

    def add(self, text: str) -> int:
        """Add text; return the offset of its first character."""
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
        text = "".join(self.parts)
        return Paragraph(text, self.citations) if text else None


class _Reader:
    """Reads sections and paragraphs of one document. Captions and footnotes are collected in `outside`, repairs are
    named in `notes`. `entries`: the ids in the bibliography.
    """

    def __init__(self, entries: set[str]) -> None:
        self.entries = entries
        self.outside: list[Paragraph] = []
        self.notes: list[str] = []

    def sections(self, element: etree._Element | None) -> list[Section]:
        """The sections below the element, in order; empty for None."""
        found: list[Section] = [Section(None, None)]
        if element is not None:
            self._walk(element, found)
        return [section for section in found if section.head or section.paragraphs]

    def back(self, element: etree._Element | None) -> list[Section]:
        """The sections of the back matter, without the references. Each division is read separately."""
        found: list[Section] = []
        for child in element if element is not None else ():
            if _name(child) == "div" and child.get("type") != "references":
                found += self.sections(child)
            elif _name(child) == "note":
                self._float(child)
        return found

    def paragraphs(self, element: etree._Element | None) -> list[Paragraph]:
        """The text below the element as paragraphs, heads included."""
        found: list[Paragraph] = []
        for section in self.sections(element):
            found += [Paragraph(section.head)] if section.head else []
            found += section.paragraphs
        return found

    def _walk(self, element: etree._Element, found: list[Section]) -> None:
        """Append the sections below the element to `found`; text without a head goes to the last section."""
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
        """Prepare for a division without a head: it continues the last section, unless that is front matter such as
        Keywords.
        """
        last = found[-1]
        if last.head and is_front(last.head):
            found.append(Section(None, None))
        elif last.head is None and last.paragraphs:
            self.notes.append("section without a head")

    def _loose(self, text: str | None, found: list[Section]) -> None:
        if text and (folded := fold(text)):
            found[-1].paragraphs.append(Paragraph(folded))

    def _add(self, paragraph: Paragraph | None, found: list[Section]) -> None:
        if paragraph:
            found[-1].paragraphs.append(paragraph)

    def _formula(self, formula: Paragraph | None, found: list[Section]) -> None:
        """Add a formula to the end of the last paragraph; it is a paragraph of its own where there is none."""
        if formula and found[-1].paragraphs:
            found[-1].paragraphs[-1].append(formula.text, formula.citations)
        else:
            self._add(formula, found)

    def _float(self, element: etree._Element) -> None:
        """Add the text of a figure (its caption) or a note to `outside`, before that of the notes inside it."""
        place = len(self.outside)
        paragraph = self._caption(element) if _name(element) == "figure" else self._read(element)
        if paragraph:
            self.outside.insert(place, paragraph)

    def _caption(self, figure: etree._Element) -> Paragraph | None:
        """The figure's description, after its label where it does not begin with that; None where it has neither."""
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
        """The element's text as one paragraph, with its citations; None where it has no text."""
        if not len(element):
            return _paragraph(element.text)
        flow = _Flow()
        self._run(element, flow)
        return flow.paragraph()

    def _run(self, element: etree._Element, flow: _Flow) -> None:
        """Add the element's text and citations to `flow`."""
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
        """Add the text of a reference to `flow`, and its citation if it cites an entry. `tail`: the text after it.
        Spaces that GROBID dropped beside it are restored.
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
        flow.space()
        self.notes.append("blank restored beside a citation")

    def _cite(self, ref: etree._Element, kind: str | None, start: int, flow: _Flow) -> None:
        """Note a citation of the text from `start` on: one for each entry of the bibliography that `ref` names, else
        one of no entry.
        """
        if kind == "formula":
            self.notes.append("citation marked as formula")
        targets = [entry[1:] for entry in (ref.get("target") or "").split() if entry[0] == "#"]
        known: list[str | None] = [entry for entry in targets if entry in self.entries]
        if len(known) < len(targets):
            self.notes.append("citation of no entry")
        flow.citations += [(start, flow.length, entry) for entry in known or [None]]


# ---------------------------------------------------------------- header


def _described(root: etree._Element) -> Row:
    """The columns of PAPERS that the header gives: title, authors, year, venue, identifiers, licence."""
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
    """The program that wrote the document and its version, such as grobid 0.8.2; unknown where it does not say."""
    application = _at(root, "teiHeader/encodingDesc/appInfo//application")
    if application is None:
        return "unknown"
    name = (application.get("ident") or "unknown").lower()[:40]
    return f"{name} {(application.get('version') or 'unknown')[:60]}"


def _level(root: etree._Element, path: str) -> tuple[str | None, list[str], int | None]:
    """(title, authors, year) of the element at this path, such as `analytic` (the article) or `monogr` (the volume)."""
    titles, people = map(_folded, _below(root, f"{path}/title")), map(_person, _below(root, f"{path}/author"))
    years = map(_year, (*_below(root, f"{path}/date"), *_below(root, f"{path}/imprint/date")))
    return next(filter(None, titles), None), [*filter(None, people)], next(filter(None, years), None)


def _person(author: etree._Element) -> str:
    """The name of an author or organisation, its parts in the order of the document; the element's own text where it
    has no such parts.
    """
    for child in author:
        if _name(child) in _PERSON:
            return fold(" ".join([part.text or "" for part in child]) or child.text or "")
    return fold(author.text or "")


def _year(date: etree._Element) -> int | None:
    """The first year from 1800 to 2099 in the date's @when, else in its text; None where there is none."""
    for text in (date.get("when"), date.text):
        if text and (match := _YEAR.search(text)):
            return int(match[0][:4])
    return None


def _identifier(idno: etree._Element) -> tuple[str, str | None]:
    """(type, identifier) of a DOI, arXiv id or MD5, without an address before it or a version after it; the identifier
    is None for other types and where it is ill-formed. In lower case, but for arXiv ids.
    """
    kind, text = (idno.get("type") or "").lower(), "".join((idno.text or "").split())
    match = _IDENTIFIERS[kind].search(text) if kind in _IDENTIFIERS else None
    return kind, match and (match[1] if kind == "arxiv" else match[1].lower())


def _licence(licence: etree._Element) -> str | None:
    """`CC BY 4.0` and the like where a Creative Commons address says so, else the element's text or address; empty
    where it has neither.
    """
    text, target = _folded(licence), licence.get("target")
    if match := _CREATIVE_COMMONS.search(f"{target} {text}"):
        return f"CC {match[1].upper()} {match[2]}" if match[1] else f"CC0 {match[4]}"
    return (text or target or "")[:200]


# ---------------------------------------------------------------- bibliography


@dataclass(slots=True)
class _Entry:
    """An entry of the bibliography while it is read. Where the document gives a field twice, the first counts."""

    ref_id: str
    authors: dict[str, list[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    year: int | None = None
    doi: str | None = None
    raw: str | None = None

    def row(self) -> Row:
        """The entry as a row of PAPERS.bibliography."""
        title, container = self.titles.get("analytic"), self.titles.get("monogr")
        people = {level: [*filter(None, map(fold, names))] for level, names in self.authors.items()}
        return {
            "ref_id": self.ref_id,
            "paper_id": None,
            "title": title or container,
            "authors": people.get("analytic") or people["monogr"],
            "year": self.year,
            "venue": container if title else None,
            "doi": self.doi,
            "raw": self.raw,
        }


def _bibliography(root: etree._Element) -> list[Row]:
    """The rows of PAPERS.bibliography; of entries with one id the first.

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
    """Set the field of `entry` that an element other than a name gives: title of this level, year, DOI or raw text."""
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
    """The row of PAPERS for a TEI file, or a Rejected that says why there is none. `licence`: for a document that names
    none.
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
    """The parsed row with the columns that depend on its file: paper_id, licence (`licence` where none was parsed),
    retrieved_at. A Rejected where parsing failed, with the file's text as `raw`.
    """
    key = f"{GROUP}/{member.sha256[:16]}"
    if isinstance(parsed, UnreadableError):
        kind: Any = "filtered" if parsed.reason == "repeated file" else "defect"
        named = f"{member.name[:200]}: {parsed.detail}" if parsed.detail else member.name[:200]
        return Rejected(key, kind, parsed.reason, named, raw)
    when = None if member.retrieved_at is None else moment(member.retrieved_at)
    return {**parsed, "paper_id": key, "licence": parsed["licence"] or licence, "retrieved_at": when}


def in_batches(items: Iterable[Row | Rejected]) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of PAPERS from rows, limited in rows and characters. A Rejected is passed on."""
    weighed = (item if isinstance(item, Rejected) else (item, len(item["text"])) for item in items)
    yield from batched(weighed, papers_batch, rows=BATCH_ROWS, size=BATCH_CHARS + 1)


@stage(PAPERS, revision=1)
def read_tei(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """Papers of TEI documents: sections, paragraphs, citations, bibliography."""
    licence = dict(files.source.facts).get("licence")
    found = members(files, endings=ENDINGS, max_bytes=MAX_BYTES)
    yield from counted(context, in_batches(read(member, licence) for member in found))
