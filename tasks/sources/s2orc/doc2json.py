"""Papers as lists of paragraphs: the releases of S2ORC of 2019 and 2020, and what s2orc-doc2json writes.

Their records are shown in tasks.sources.s2orc.s2orc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from longform.artifacts.rows import Row
from tasks.sources.s2orc.s2_values import (
    GROUP,
    PERMALINK,
    UNITS,
    arxiv_of,
    converter,
    corpus_id_of,
    doi_of,
    heading_of,
    linked,
    listed,
    mapping,
    names_of,
    newlines,
    phrases,
    row_of,
    string,
    texts,
    whole_number,
    with_roles,
    words,
    year_of,
)
from tasks.text.headings import is_noise

BLANK_LINE = "\n\n"

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
    if not assembled["abstract"]:
        text = abstract if isinstance(abstract, str) else BLANK_LINE.join(texts(abstract))
        assembled["abstract"] = text or None
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
    ids = mapping(fields.get("identifiers"))
    ids = {str(name).lower().removesuffix("_id"): value for name, value in ids.items()}
    return {
        "title": words(string(fields.get("title")) or "") or None,
        "authors": names_of(fields.get("authors")),
        "year": year_of(fields.get("year")),
        "venue": string(fields.get("venue")) or string(fields.get("journal")),
        "doi": doi_of(fields.get("doi") or ids.get("doi")),
        "arxiv_id": arxiv_of(fields.get("arxiv_id") or ids.get("arxiv")),
        "acl_id": string(fields.get("acl_id") or ids.get("acl")),
    }


def _assembled(parse: Mapping[str, Any], *, link: str | None) -> Row:
    """abstract, text, sections, paragraphs, bibliography and notes of a parse that lists paragraphs.

    The text is heads and paragraphs, parted by blank lines.
    """
    body = _Assembly()
    for key in ("body_text", "back_matter"):
        for paragraph in listed(parse.get(key)):
            body.add(paragraph)
    bibliography = [_entry(ref_id, entry, link) for ref_id, entry in _entries(parse.get("bib_entries"))]
    known = {entry["ref_id"] for entry in bibliography}
    dangling = sum(ref_id is not None and ref_id not in known for ref_id in body.cited)
    body.notes.update({"citations of no entry": dangling} if dangling else {})
    return {
        "abstract": BLANK_LINE.join(texts(parse.get("abstract"))) or None,
        "text": BLANK_LINE.join(body.parts),
        "sections": with_roles(body.sections),
        "paragraphs": body.paragraphs,
        "bibliography": bibliography,
        "notes": phrases(body.notes),
    }


class _Assembly:
    """A text that grows by paragraphs, with the offsets of all that is in it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.sections: list[Row] = []
        self.paragraphs: list[Row] = []
        self.notes: Counter[str] = Counter()
        self.cited: list[str | None] = []
        self.last: tuple[str | None, str | None] | None = None
        self.place: tuple[Any, Any] | None = None  # section and number, as the last paragraph has them

    def add(self, paragraph: Any) -> None:
        text = paragraph.get("text") if isinstance(paragraph, dict) else None
        if not isinstance(text, str):
            self.notes["unreadable paragraphs"] += 1
            return
        if not text.strip():
            return
        section, number = paragraph.get("section"), paragraph.get("sec_num")
        plain = type(section) is str and (number is None or type(number) is str)
        if not plain or (section, number) != self.place:
            self._section(*_section_of(paragraph))
            self.place = section, number
        start = self._part(text)
        spans = cite_spans(text, paragraph.get("cite_spans"), self.notes)
        citations = [{"start": start + a, "end": start + b, "ref_id": ref_id} for a, b, ref_id in spans]
        self.cited += [ref_id for _, _, ref_id in spans]
        self.sections[-1]["end"] = self.size
        self.paragraphs.append(
            {"section": len(self.sections) - 1, "start": start, "end": self.size, "citations": citations}
        )

    def _part(self, text: str) -> int:
        """Its offset."""
        start = self.size + len(BLANK_LINE) if self.parts else 0
        self.parts.append(text)
        self.size = start + len(text)
        return start

    def _section(self, number: str | None, head: str | None) -> None:
        noise = head is not None and is_noise(head)
        if (number, head) == self.last or (noise and self.sections):
            return  # a caption goes on in the section where it stands
        self.last = (number, head)
        if noise:
            number = head = None
        start = self._part(head) if head else self.size + (len(BLANK_LINE) if self.parts else 0)
        self.sections.append({"number": number, "head": head, "role": None, "start": start, "end": self.size})


def _section_of(paragraph: Mapping[str, Any]) -> tuple[str | None, str | None]:
    found = paragraph.get("section")
    if isinstance(found, list):  # parses of LaTeX: [["2", "Related work"], ["2.1", "Parsers"]]
        found = found[-1] if found else None
        if isinstance(found, list):
            return _section_of(
                {"sec_num": found[0] if len(found) > 1 else None, "section": found[-1] if found else None}
            )
    if not isinstance(found, str) or not found.strip():
        return None, None
    return heading_of(found, paragraph.get("sec_num"))


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
    if not isinstance(other, dict) or not other:
        return None
    doi = {str(name).lower(): value for name, value in other.items()}.get("doi")
    return doi[0] if isinstance(doi, list) and doi else doi
