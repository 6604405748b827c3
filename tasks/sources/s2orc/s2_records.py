"""Records of Semantic Scholar: their ids, names, dates and numbers; papers as lists of paragraphs, as the releases of
S2ORC of 2019 and 2020 have them, and what s2orc-doc2json writes.

The records are shown in tasks.sources.s2orc.s2orc.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from longform.artifacts.rows import Row
from tasks.sources.paper_body import BREAK, Paragraph, Section, laid_out
from tasks.text.headings import is_noise, split_number

GROUP = "s2"
PERMALINK = "https://api.semanticscholar.org/CorpusID:"
UNITS = (("UTF-16", "utf-16-le", 2), ("bytes", "utf-8", 1))
NOTHING: Mapping[str, Any] = {}

_DOI_PREFIX = re.compile(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", re.IGNORECASE)
_PARTS = itemgetter("first", "middle", "last", "suffix")
_ARXIV_VERSION = re.compile(r"v\d+$")


class Unusable(Exception):
    """Why a record cannot become a paper."""

    def __init__(self, reason: str, detail: str | None = None, *, filtered: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.filtered = reason, detail, filtered


def row_of(shape: str, parser: str, retrieved_at: int | None, **values: Any) -> Row:
    return {**_EMPTY, "source": shape, "parser": parser, "retrieved_at": retrieved_at, **values}


_EMPTY: Row = {
    "title": None, "year": None, "venue": None, "abstract": None, "corpus_id": None, "doi": None, "arxiv_id": None,
    "acl_id": None, "pdf_sha": None, "licence": None, "url": None,
}  # fmt: skip


def heading_of(printed: str, number: Any) -> tuple[str | None, str | None]:
    head = " ".join(printed.split())
    text = str(number).strip(" .):\n") if number is not None else ""
    return (text, head) if text else split_number(head)


def corpus_id_of(value: Any) -> int:
    """A corpus id, which is an int in some files and digits in others."""
    number = whole_number(value)
    if number < 0 or isinstance(value, float):
        raise Unusable("no id", f"{value!r}"[:100])
    return number


def linked(value: Any) -> str | None:
    """The paper's id in our tables, of a corpus id as records name it; None where it is none."""
    number = whole_number(value)
    return f"{GROUP}/{number}" if number >= 0 else None


def doi_of(value: Any) -> str | None:
    """Lower case, without address and trailing punctuation."""
    doi = _DOI_PREFIX.sub("", value.strip()).lower().rstrip(".,;") if isinstance(value, str) else ""
    return doi if doi.startswith("10.") else None


def arxiv_of(value: Any) -> str | None:
    return _ARXIV_VERSION.sub("", value.strip()) or None if isinstance(value, str) else None


def identifiers(ids: Mapping[str, Any]) -> Row:
    """doi, arxiv_id and acl_id; keys come in lower case (s2orc), as DOI, ArXiv, ACL (others), and as arxiv_id."""
    named = {str(name).lower().removesuffix("_id"): value for name, value in ids.items()}
    return {
        "doi": doi_of(named.get("doi")),
        "arxiv_id": arxiv_of(named.get("arxiv")),
        "acl_id": string(named.get("acl")),
    }


def year_of(value: Any) -> int | None:
    """A year, which may be digits in a string, or empty."""
    year = whole_number(value)
    return year if 1000 <= year <= 2999 else None


def names_of(authors: Any) -> list[str]:
    """Full names of authors: strings, {"name"}, or {"first", "middle", "last", "suffix"}."""
    return [name for name in map(_name, listed(authors)) if name]


def _name(author: Any) -> str:
    try:
        first, middle, last, suffix = _PARTS(author)
        if type(middle) is list and "name" not in author:
            return " ".join(" ".join([first, *middle, last, suffix]).split())
    except (KeyError, TypeError):
        pass
    return _other_name(author)


def _other_name(author: Any) -> str:
    """Of an author who is not written with all parts, or with odd ones."""
    if not isinstance(author, dict):
        return words(author) if isinstance(author, str) else ""
    if isinstance(author.get("name"), str):
        return words(author["name"])
    middle = author.get("middle")
    names = [author.get("first"), *(middle if isinstance(middle, list) else [middle]), author.get("last")]
    return words(" ".join([part for part in [*names, author.get("suffix")] if isinstance(part, str)]))


def newlines(text: str | None) -> str | None:
    """The releases write ::: where a structured abstract begins a new line."""
    return None if text is None else text.replace(":::", "\n")


def texts(paragraphs: Any) -> list[str]:
    texts = (one.get("text") for one in listed(paragraphs) if isinstance(one, dict))
    return [text for text in texts if isinstance(text, str) and text.strip()]


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else NOTHING


def string(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def words(text: str) -> str:
    """The text with single blanks, and none at its ends."""
    return text.strip(" ") if text.isprintable() and "  " not in text else " ".join(text.split())


def phrases(notes: Counter[str]) -> list[str]:
    """Notes with their numbers, where they are of more than one thing."""
    return [f"{phrase}: {number}" if number > 1 else phrase for phrase, number in sorted(notes.items()) if number]


def whole_number(value: Any) -> int:
    """The number that is meant; -1 where it is none."""
    if type(value) is int:
        return value if value < 1 << 63 else -1
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return int(value) if isinstance(value, float) and value.is_integer() else -1


def converter(text: str, encoding: str, bytes_each: int) -> Callable[[int], int]:
    """Offsets in units of an encoding as code points; -1 for one inside a character or past the end."""
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
    """The row of a record of the release of 2020; title and authors come from the release's metadata."""
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
    """The row of a record of the release of 2019."""
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
    """The row of PAPERS of what s2orc-doc2json writes, in all its variants; raises Unusable where it is none.

    `paper_id` is the row's id; columns that the caller knows better may be set in the row.
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
    """title, authors, year, venue and identifiers, as the metadata of the releases names them."""
    own = {name: fields[name] for name in ("doi", "arxiv_id", "acl_id") if fields.get(name)}
    return {
        "title": words(string(fields.get("title")) or "") or None,
        "authors": names_of(fields.get("authors")),
        "year": year_of(fields.get("year")),
        "venue": string(fields.get("venue")) or string(fields.get("journal")),
        **identifiers({**mapping(fields.get("identifiers")), **own}),
    }


def _assembled(parse: Mapping[str, Any], *, link: str | None) -> Row:
    """abstract, text, sections, paragraphs, bibliography and notes of a parse that lists paragraphs."""
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
    """Body and back matter: paragraphs that follow each other under one head; captions go on where they stand."""
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
    head, number = paragraph.get("section"), paragraph.get("sec_num")
    if isinstance(head, list):  # parses of LaTeX: [["2", "Related work"], ["2.1", "Parsers"]]
        head = head[-1] if head else None
    if isinstance(head, list):
        number, head = (head[0] if len(head) > 1 else None), (head[-1] if head else None)
    return heading_of(head, number) if isinstance(head, str) and head.strip() else (None, None)


def cite_spans(text: str, spans: Any, notes: Counter[str]) -> list[tuple[int, int, str | None]]:
    """(start, end, ref_id) of those that are where they say, sorted and apart.

    One whose own text stands at offsets of UTF-16 units or bytes is converted; others are dropped and noted.
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
    start, end, quoted = whole_number(span.get("start")), whole_number(span.get("end")), span.get("text")
    inside = 0 <= start < end <= len(text)
    if inside and (not isinstance(quoted, str) or not quoted or text[start:end] == quoted):
        return start, end
    if isinstance(quoted, str) and quoted and not text.isascii():
        for unit, encoding, bytes_each in UNITS:
            convert = converter(text, encoding, bytes_each)
            if 0 <= convert(start) < convert(end) and text[convert(start) : convert(end)] == quoted:
                notes[f"offsets converted from {unit}"] += 1
                return convert(start), convert(end)
    return None


def _entries(entries: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    named = entries.items() if isinstance(entries, dict) else ((None, entry) for entry in listed(entries))
    for n, (name, entry) in enumerate(named):
        fields = mapping(entry)
        yield str(name or fields.get("ref_id") or f"?{n}"), fields


def _entry(ref_id: str, fields: Mapping[str, Any], link: str | None) -> Row:
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
    doi = {str(name).lower(): value for name, value in mapping(other).items()}.get("doi")
    return doi[0] if isinstance(doi, list) and doi else doi
