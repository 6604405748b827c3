"""Fields of Semantic Scholar's records (ids, author names, years), and rows of papers from lists of paragraphs: of the
S2ORC releases of 2019 and 2020, and of s2orc-doc2json.

tasks/sources/s2orc/s2orc.py has examples of the records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from longform.artifacts.rows import Row
from tasks.sources.paper_body import BREAK, OF_FILES, Paragraph, Section, laid_out
from tasks.text.headings import is_noise, split_number

GROUP = "s2"
PERMALINK = "https://api.semanticscholar.org/CorpusID:"
UNITS = (("UTF-16", 2), ("bytes", 1))
NOTHING: Mapping[str, Any] = {}

_DOI_PREFIX = re.compile(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", re.IGNORECASE)
_PARTS = itemgetter("first", "middle", "last", "suffix")
_ARXIV_VERSION = re.compile(r"v\d+$")


class Unusable(Exception):
    """Raised for a record that cannot become a row.

    `reason`: a short fixed phrase; `detail`: what was found instead; `filtered`: a rule leaves it out, it is no
    defect.
    """

    def __init__(self, reason: str, detail: str | None = None, *, filtered: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.filtered = reason, detail, filtered


def row_of(shape: str, parser: str, retrieved_at: int | None, **values: Any) -> Row:
    """A row of PAPERS with these values; optional columns that are not given are null.

    `shape`: the form of the record, for the column `source`; `parser`: what made the text; `retrieved_at`:
    milliseconds since 1970.
    """
    return {**_EMPTY, "source": shape, "parser": parser, "retrieved_at": retrieved_at, **values}


_EMPTY: Row = {
    "title": None, "year": None, "venue": None, "abstract": None, "corpus_id": None, "doi": None, "arxiv_id": None,
    "acl_id": None, "pdf_sha": None, "licence": None, "url": None, **OF_FILES,
}  # fmt: skip


def heading_of(printed: str, number: Any) -> tuple[str | None, str | None]:
    """(number, head) of a section, the head with single blanks; the number is None if there is none.

    It is `number` without punctuation around it. If that is None or empty, it is the number printed before the head,
    which is then taken off the head.
    """
    head = " ".join(printed.split())
    text = str(number).strip(" .):\n") if number is not None else ""
    return (text, head) if text else split_number(head)


def corpus_id_of(value: Any) -> int:
    """The corpus id as an int, from an int or digits in a string (only its first 18).

    Raises Unusable for anything else, or if it is negative or 2**63 or more.
    """
    number = whole_number(value)
    if number < 0 or isinstance(value, float):
        raise Unusable("no id", f"{value!r}"[:100])
    return number


def linked(value: Any) -> str | None:
    """The paper_id of a row, s2/<number>, for a corpus id in a record (int, whole float or digits).

    None for anything else.
    """
    number = whole_number(value)
    return f"{GROUP}/{number}" if number >= 0 else None


def doi_of(value: Any) -> str | None:
    """The DOI in lower case, without https://doi.org/ or doi: before it and punctuation after it.

    None if it is no DOI.
    """
    doi = _DOI_PREFIX.sub("", value.strip()).lower().rstrip(".,;") if isinstance(value, str) else ""
    return doi if doi.startswith("10.") else None


def arxiv_of(value: Any) -> str | None:
    """The arXiv id without its version; None if the value is no text, or empty."""
    return _ARXIV_VERSION.sub("", value.strip()) or None if isinstance(value, str) else None


def identifiers(ids: Mapping[str, Any]) -> Row:
    """The columns doi (as by `doi_of`), arxiv_id (without its version) and acl_id; null if missing. Only the DOI's
    form is checked: null if it is none. Keys of `ids` in any case, with or without _id at the end.
    """
    named = {str(name).lower().removesuffix("_id"): value for name, value in ids.items()}
    return {
        "doi": doi_of(named.get("doi")),
        "arxiv_id": arxiv_of(named.get("arxiv")),
        "acl_id": string(named.get("acl")),
    }


def year_of(value: Any) -> int | None:
    """The year as an int, from a whole number or digits in a string.

    None if it is missing, or not within 1000 to 2999.
    """
    year = whole_number(value)
    return year if 1000 <= year <= 2999 else None


def names_of(authors: Any) -> list[str]:
    """Full names of authors, given as strings, {"name"}, or {"first", "middle", "last", "suffix"}, in order.

    Authors without a name are left out; [] if `authors` is no list.
    """
    return [name for name in map(_name, listed(authors)) if name]


def _name(author: Any) -> str:
    """The full name of one author; "" if there is none.

    The usual form, with all four parts of the name, is handled here, as that is faster; any other by `_other_name`.
    """
    try:
        first, middle, last, suffix = _PARTS(author)
        if type(middle) is list and "name" not in author:
            return " ".join(" ".join([first, *middle, last, suffix]).split())
    except (KeyError, TypeError):
        pass
    return _other_name(author)


def _other_name(author: Any) -> str:
    """The full name of an author who is a string, has {"name"}, or lacks parts of the name; "" if there is none."""
    if not isinstance(author, dict):
        return words(author) if isinstance(author, str) else ""
    if isinstance(author.get("name"), str):
        return words(author["name"])
    middle = author.get("middle")
    names = [author.get("first"), *(middle if isinstance(middle, list) else [middle]), author.get("last")]
    return words(" ".join([part for part in [*names, author.get("suffix")] if isinstance(part, str)]))


def newlines(text: str | None) -> str | None:
    """The text with line feeds for :::, with which releases separate the parts of a structured abstract.

    None for None.
    """
    return None if text is None else text.replace(":::", "\n")


def texts(paragraphs: Any) -> list[str]:
    """The texts of the paragraphs, given as {"text"}, in order; blank and unreadable ones are left out.

    [] if it is no list.
    """
    texts = (one.get("text") for one in listed(paragraphs) if isinstance(one, dict))
    return [text for text in texts if isinstance(text, str) and text.strip()]


def listed(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty tuple."""
    return value if isinstance(value, list) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a dict, else NOTHING, which is empty."""
    return value if isinstance(value, dict) else NOTHING


def string(value: Any) -> str | None:
    """The value if it is a non-empty string, an int as text; None for anything else, also for a bool."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def words(text: str) -> str:
    """The text with every run of white space as one blank, and none at its ends."""
    return text.strip(" ") if text.isprintable() and "  " not in text else " ".join(text.split())


def phrases(notes: Counter[str]) -> list[str]:
    """The notes, sorted, each with its count if that is above 1: "citation spans dropped: 3".

    Those counted 0 are left out.
    """
    return [f"{phrase}: {number}" if number > 1 else phrase for phrase, number in sorted(notes.items()) if number]


def whole_number(value: Any) -> int:
    """The integer in an int, a float without a fraction or a string of digits (only its first 18); else -1.

    An int of 2**63 or more gives -1, too; negative numbers are returned as they are.
    """
    if type(value) is int:
        return value if value < 1 << 63 else -1
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return int(value) if isinstance(value, float) and value.is_integer() else -1


def converter(text: str, bytes_each: int) -> Callable[[int], int]:
    """A function that converts an offset into `text` from units of an encoding to code points.

    The function returns -1 for an offset inside a character or outside the text. `bytes_each`: 2 for UTF-16 code
    units, 1 for bytes of UTF-8.
    """
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    wide = np.array([0x10000] if bytes_each == 2 else [0x80, 0x800, 0x10000], np.uint32)
    starts = np.concatenate([[0], np.cumsum(1 + np.searchsorted(wide, codes, side="right"))])

    def convert(unit: int) -> int:
        place = int(np.searchsorted(starts, unit))
        return place if place < len(starts) and starts[place] == unit else -1

    return convert


# ---------------------------------------------------------------- papers as lists of paragraphs


_PLACE = itemgetter(0, 1)


def from_2020(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of PAPERS for a record of the release of 2020. Raises Unusable if it has no corpus id.

    Title, authors, year and identifiers are missing: they are in the metadata files of the release.
    """
    corpus_id = corpus_id_of(record.get("paper_id"))
    return row_of(
        "s2orc_2020", "s2orc", retrieved_at,
        paper_id=f"{GROUP}/{corpus_id}",
        authors=[],
        **_assembled(record, link="link"),
        corpus_id=corpus_id,
        pdf_sha=string(record.get("_pdf_hash")),
        url=f"{PERMALINK}{corpus_id}",
    )  # fmt: skip


def from_2019(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of PAPERS for a record of the release of 2019. Raises Unusable if it has no corpus id.

    Its text is the `grobid_parse`, or without one the `latex_parse`; an abstract that this lacks is that of the
    metadata.
    """
    corpus_id = corpus_id_of(record.get("paper_id"))
    fields = mapping(record.get("metadata"))
    parse = mapping(record.get("grobid_parse")) or mapping(record.get("latex_parse"))
    assembled = _assembled(parse, link="links")
    abstract = assembled.pop("abstract") or newlines(string(fields.get("abstract")))
    return row_of(
        "s2orc_2019", "s2orc", retrieved_at,
        paper_id=f"{GROUP}/{corpus_id}",
        **described(fields),
        abstract=abstract,
        **assembled,
        corpus_id=corpus_id,
        pdf_sha=string(record.get("s2_pdf_hash")) or string(record.get("_pdf_hash")),
        url=f"{PERMALINK}{corpus_id}",
    )  # fmt: skip


def from_doc2json(
    record: Mapping[str, Any],
    *,
    paper_id: str,
    retrieved_at: int | None = None,
    licence: str | None = None,
    url: str | None = None,
) -> Row:
    """The row of PAPERS for an output of s2orc-doc2json, in any of its variants.

    The text is the `pdf_parse`, the `latex_parse` or the record itself, the first that exists. Fields that describe
    the paper are those of the record, else of its `metadata`; the abstract is that of the text, else of these fields.
    `paper_id`, `licence` and `url` are columns that the caller knows.
    """
    parse = next((record[key] for key in ("pdf_parse", "latex_parse") if isinstance(record.get(key), dict)), record)
    fields = {**mapping(record.get("metadata")), **{k: v for k, v in record.items() if k in _DESCRIBED and v}}
    assembled = _assembled(parse, link=None)
    abstract = fields.get("abstract")
    text = abstract if isinstance(abstract, str) else BREAK.join(texts(abstract))
    assembled["abstract"] = assembled["abstract"] or text or None
    return row_of(
        "doc2json", "doc2json", retrieved_at,
        paper_id=paper_id,
        **described(fields),
        **assembled,
        pdf_sha=string(parse.get("_pdf_hash")) or string(record.get("pdf_hash")),
        licence=licence,
        url=url,
    )  # fmt: skip


_DESCRIBED = ("title", "authors", "year", "venue", "journal", "identifiers", "abstract", "doi", "arxiv_id", "acl_id")


def described(fields: Mapping[str, Any]) -> Row:
    """The columns title, authors, year, venue, doi, arxiv_id and acl_id, from the metadata of a record.

    What is missing is null, authors are []. The journal serves as venue if there is none; identifiers of `fields`
    itself come before those in its field `identifiers`.
    """
    own = {name: fields[name] for name in ("doi", "arxiv_id", "acl_id") if fields.get(name)}
    return {
        "title": words(string(fields.get("title")) or "") or None,
        "authors": names_of(fields.get("authors")),
        "year": year_of(fields.get("year")),
        "venue": string(fields.get("venue")) or string(fields.get("journal")),
        **identifiers({**mapping(fields.get("identifiers")), **own}),
    }


def _assembled(parse: Mapping[str, Any], *, link: str | None) -> Row:
    """The columns abstract, text, sections, paragraphs, bibliography and notes, of a parse that lists paragraphs.

    `notes` tells what was dropped or repaired, and how many citations name no entry. `link`: the field of a
    bibliography entry with the corpus id of the cited paper; None: entries have no such field.
    """
    notes: Counter[str] = Counter()
    laid = laid_out(_sections(parse, notes), (), ())
    bibliography = [_entry(ref_id, entry, link) for ref_id, entry in _entries(parse.get("bib_entries"))]
    known = {None, *(entry["ref_id"] for entry in bibliography)}
    cited = (citation["ref_id"] for paragraph in laid["paragraphs"] for citation in paragraph["citations"])
    notes["citations of no entry"] = sum(ref_id not in known for ref_id in cited)
    return {
        "abstract": BREAK.join(texts(parse.get("abstract"))) or None,
        **laid,
        "bibliography": bibliography,
        "notes": phrases(notes),
    }


def _sections(parse: Mapping[str, Any], notes: Counter[str]) -> list[Section]:
    """The sections of body and back matter: paragraphs that follow each other under the same head.

    Blank ones are left out. A text that can be no head, such as a caption, starts no section: its paragraph goes into
    the section before, or, if it is the first, into one without a head. Counts unreadable paragraphs and dropped or
    converted citations in `notes`.
    """
    found: list[Section] = []
    last: tuple[str | None, str | None] | None = None
    for paragraph in (*listed(parse.get("body_text")), *listed(parse.get("back_matter"))):
        text = paragraph.get("text") if isinstance(paragraph, dict) else None
        if not isinstance(text, str):
            notes["unreadable paragraphs"] += 1
        elif text.strip():
            number, head = _section_of(paragraph)
            noise = head is not None and (number, head) != last and is_noise(head)
            if not found or not (noise or (number, head) == last):
                found.append(Section(None, None) if noise else Section(number, head))
                last = number, head
            found[-1].paragraphs.append(Paragraph(text, cite_spans(text, paragraph.get("cite_spans"), notes)))
    return found


def _section_of(paragraph: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(number, head) of the section that a paragraph is in; (None, None) if it has no head.

    In parses of LaTeX that is the innermost section. The number is None if there is none.
    """
    head, number = paragraph.get("section"), paragraph.get("sec_num")
    if isinstance(head, list):  # parses of LaTeX: [["2", "Related work"], ["2.1", "Parsers"]]
        head = head[-1] if head else None
    if isinstance(head, list):
        number, head = (head[0] if len(head) > 1 else None), (head[-1] if head else None)
    return heading_of(head, number) if isinstance(head, str) and head.strip() else (None, None)


def cite_spans(text: str, spans: Any, notes: Counter[str]) -> list[tuple[int, int, str | None]]:
    """(start, end, ref_id) of the citations in a paragraph, in code points, sorted.

    ref_id is None if the citation has none. A span whose quoted text is at these offsets only if they count UTF-16
    units or bytes is converted. One whose text is not there in any unit, or that quotes nothing and is outside the
    text, is dropped. `notes` counts both.
    """
    found: list[tuple[int, int, str | None]] = []
    for span in listed(spans):
        placed = _placed(text, span, notes) if isinstance(span, dict) else None
        if placed is None:
            notes["citation spans dropped"] += 1
        else:
            found.append((*placed, string(span.get("ref_id"))))
    return sorted(found, key=_PLACE) if len(found) > 1 else found


def _placed(text: str, span: Mapping[str, Any], notes: Counter[str]) -> tuple[int, int] | None:
    """(start, end) of a citation in code points; None if the quoted text is not at these offsets in any unit.

    A span that quotes nothing is taken as it is, if it is within the text. A conversion from another unit is counted
    in `notes`.
    """
    start, end, quoted = whole_number(span.get("start")), whole_number(span.get("end")), span.get("text")
    inside = 0 <= start < end <= len(text)
    if inside and (not isinstance(quoted, str) or not quoted or text[start:end] == quoted):
        return start, end
    if isinstance(quoted, str) and quoted and not text.isascii():
        for unit, bytes_each in UNITS:
            convert = converter(text, bytes_each)
            if 0 <= convert(start) < convert(end) and text[convert(start) : convert(end)] == quoted:
                notes[f"offsets converted from {unit}"] += 1
                return convert(start), convert(end)
    return None


def _entries(entries: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(ref_id, fields) of each entry of a bibliography, which is a dict by ref_id or a list.

    Nothing for anything else. An entry without an id gets ?<position>, from 0; one that is no dict has no fields.
    """
    named = entries.items() if isinstance(entries, dict) else ((None, entry) for entry in listed(entries))
    for n, (name, entry) in enumerate(named):
        fields = mapping(entry)
        yield str(name or fields.get("ref_id") or f"?{n}"), fields


def _entry(ref_id: str, fields: Mapping[str, Any], link: str | None) -> Row:
    """The item of the column bibliography for an entry; what it lacks is null.

    `link`: the field with the corpus id of the cited paper, or a list of which the first counts; None: there is none.
    """
    target = fields.get(link) if link else None
    if isinstance(target, list):
        target = target[0] if target else None
    title, year, doi = (
        string(fields.get("title")),
        fields.get("year"),
        fields.get("doi") or _other_doi(fields.get("other_ids")),
    )
    return {
        "ref_id": ref_id,
        "paper_id": None if target is None else linked(target),
        "title": words(title) or None if title else None,
        "year": None if year is None else year_of(year),
        "venue": string(fields.get("venue")),
        "doi": doi_of(doi) if doi else None,
        "raw": string(fields.get("raw_text")),
        "authors": names_of(fields.get("authors")),
    }


def _other_doi(other: Any) -> Any:
    """The value of the key "doi" (in any case) in `other`, of a list the first; None if there is none."""
    doi = {str(name).lower(): value for name, value in mapping(other).items()}.get("doi")
    return doi[0] if isinstance(doi, list) and doi else doi
