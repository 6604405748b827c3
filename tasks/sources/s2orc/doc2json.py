"""Papers as lists of paragraphs: the releases of S2ORC of 2019 and 2020, and what s2orc-doc2json writes.

Their records are shown in tasks.sources.s2orc.s2orc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from longform.artifacts.rows import Row
from tasks.sources.papers.body import BREAK, Paragraph, Section, laid_out
from tasks.sources.s2orc.s2_values import (
    GROUP,
    PERMALINK,
    UNITS,
    converter,
    corpus_id_of,
    doi_of,
    heading_of,
    identifiers,
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
    words,
    year_of,
)
from tasks.text.headings import is_noise

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
        text = abstract if isinstance(abstract, str) else BREAK.join(texts(abstract))
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
    if not isinstance(other, dict) or not other:
        return None
    doi = {str(name).lower(): value for name, value in other.items()}.get("doi")
    return doi[0] if isinstance(doi, list) and doi else doi
