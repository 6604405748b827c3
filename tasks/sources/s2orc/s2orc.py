"""S2ORC, the full texts of Semantic Scholar: JSON lines in five shapes, told apart by their keys.

    Datasets API, s2orc: `content`
      {"corpusid": 7, "externalids": {"doi": "10.1/A", "arxiv": null, ...}, "updated": "2023-02-16T07:15:19Z",
       "content": {"source": {"pdfsha": "8f...", "oainfo": {"license": "CCBY", ...} | null, "pdfurls": [...] | null},
        "text": "Title\\n\\nIntroduction\\n\\nAs Roe (2019) shows ...",
        "annotations": {"paragraph": "[{\\"start\\": 21, \\"end\\": 90}]",
         "sectionheader": "[{\\"start\\": 7, \\"end\\": 19, \\"attributes\\": {\\"n\\": \\"1\\"}}]",
         "bibref": "[{\\"start\\": 24, \\"end\\": 34, \\"attributes\\": {\\"ref_id\\": \\"b0\\"}}]",
         "bibentry": "[{..., \\"attributes\\": {\\"id\\": \\"b0\\", \\"matched_paper_id\\": 5}}]", "table": null, ...}}}
    Datasets API, s2orc_v2: `body` and `bibliography`
      {"corpusid": 7, "title": "...", "authors": [...], "openaccessinfo": {"license": ..., "externalids": {"DOI": ...}},
       "body": {"text": "...", "annotations": {"section_header": "[...]", "paragraph": "[...]", "bib_ref": "[...]"}},
       "bibliography": {"text": "...", "annotations": {"bib_entry": "[...]"}}}
    release of 2020-07-05: `body_text`, without `metadata` (titles and authors are in files of their own)
      {"paper_id": "7", "_pdf_hash": "8f...", "abstract": [PARAGRAPH], "body_text": [PARAGRAPH],
       "bib_entries": {"BIBREF0": {"title": "...", "authors": [...], "year": 2019, "venue": "...", "link": "5" | null}}}
      PARAGRAPH is {"section": "Introduction", "text": "As Roe (2019) shows ...",
       "cite_spans": [{"start": 3, "end": 13, "text": "Roe (2019)", "ref_id": "BIBREF0"}], "ref_spans": []}
    release of 2019-09-28: `grobid_parse`
      {"paper_id": "7", "metadata": {"title": ..., ...}, "grobid_parse": {"abstract", "body_text", "bib_entries"}}
      with "links" in place of "link"
    s2orc-doc2json, ACL OCL, CORD-19: `pdf_parse`, or `body_text` with `metadata`
      {"paper_id": "x", "title": "...", "authors": [{"first", "middle": [], "last", "suffix"}], "year": "2021",
       "pdf_parse": {"abstract", "body_text", "back_matter", "bib_entries": {"BIBREF0": {"other_ids": {"DOI": [..]}}}}}
      with "sec_num" in paragraphs, and no links to papers

Annotations of the API are JSON in a string, or null; `attributes` is absent where there is nothing to say, so an
unresolved citation has none. Heads of figures are among those of sections ("Figure 2 :"). A title may have two spans,
the second being the running title. Offsets of `bib_entry` count in the bibliography's text. In the release of 2020
records without any text exist, where a paper is not open. Offsets count code points; should those of a record count
UTF-16 units or bytes, which shows in heads and paragraphs that begin within words, they are converted.
"""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import xxhash

from longform.artifacts.rows import Rejected, Row, Shard, Source
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.s2orc import RECORDS
from tasks.sources.files.batches import batched, counted
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.lines import MAX_LINE_BYTES, read_lines
from tasks.sources.files.sizes import most_bytes, most_records
from tasks.sources.paper_body import BREAK
from tasks.sources.s2orc.s2_records import (
    GROUP,
    NOTHING,
    PERMALINK,
    UNITS,
    Unusable,
    converter,
    corpus_id_of,
    doi_of,
    from_2019,
    from_2020,
    from_doc2json,
    heading_of,
    identifiers,
    linked,
    mapping,
    names_of,
    phrases,
    row_of,
    string,
    whole_number,
    words,
    year_of,
)
from tasks.text.headings import is_noise, roles

BATCH_ROWS = 500
BATCH_CHARS = 2 << 20
SPANS_LOOKED_AT = 16

Span = tuple[int, int, Mapping[str, Any]]

_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]+")
_NAME_END = " ,;\n\t"


# ---------------------------------------------------------------- which shape


def shape_of(record: Mapping[str, Any]) -> str | None:
    """The shape of a record by its keys: s2orc, s2orc_v2, s2orc_2020, s2orc_2019 or doc2json; None if unknown."""
    return next((shape for shape, keys in _SHAPES if record.keys() >= keys), None)


_SHAPES = (
    ("s2orc", {"content"}),
    ("s2orc_v2", {"body", "bibliography"}),
    ("s2orc_2019", {"grobid_parse"}),
    ("doc2json", {"pdf_parse"}),
    ("doc2json", {"latex_parse"}),
    ("doc2json", {"body_text", "metadata"}),
    ("doc2json", {"body_text", "back_matter"}),
    ("s2orc_2020", {"body_text"}),
)


def from_record(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of PAPERS for a record of any shape.

    Raises Unusable if the shape is unknown, or the record lacks its id or (in records of the API) its text, or has
    paragraphs that are all outside its text.
    """
    readers = {"s2orc": from_s2orc, "s2orc_v2": from_s2orc_v2, "s2orc_2020": from_2020, "s2orc_2019": from_2019}
    shape = shape_of(record)
    if shape is None:
        raise Unusable("unknown record shape", f"keys: {', '.join(sorted(map(str, record)))[:500]}")
    if shape in readers:
        return readers[shape](record, retrieved_at=retrieved_at)
    own = record.get("paper_id") or record.get("pdf_hash") or record.get("_pdf_hash")
    if not own:
        raise Unusable("no id")
    return from_doc2json(record, paper_id=f"{GROUP}/doc2json:{own}", retrieved_at=retrieved_at)


# ---------------------------------------------------------------- Datasets API: one text, spans beside it


def from_s2orc(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of PAPERS for a record with `content`.

    Raises Unusable if it has no corpus id or no text, or has paragraphs that are all outside its text.
    """
    corpus_id = corpus_id_of(record.get("corpusid"))
    content = mapping(record["content"])
    spans = Spans(content.get("text"), content.get("annotations"))
    source, ids = mapping(content.get("source")), mapping(record.get("externalids"))
    return row_of(
        "s2orc", "s2orc", retrieved_at,
        paper_id=f"{GROUP}/{corpus_id}",
        title=_first_words(spans.text, spans.of("title")),
        authors=_authors(spans),
        abstract=_abstract(spans),
        venue=_first_words(spans.text, spans.of("venue")),
        **_annotated(spans, spans),
        corpus_id=corpus_id,
        **identifiers(ids),
        pdf_sha=string(source.get("pdfsha")),
        licence=string(mapping(source.get("oainfo")).get("license")),
        url=f"{PERMALINK}{corpus_id}",
    )  # fmt: skip


def from_s2orc_v2(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of PAPERS for a record with `body` and `bibliography`.

    Raises Unusable if it has no corpus id or no text, or has paragraphs that are all outside its text. Title and
    authors are those of the fields, else of the annotations; the abstract is that of the annotations, else of the
    field.
    """
    corpus_id = corpus_id_of(record.get("corpusid"))
    body, listed = mapping(record["body"]), mapping(record["bibliography"])
    spans = Spans(body.get("text"), body.get("annotations"))
    access = mapping(record.get("openaccessinfo"))
    return row_of(
        "s2orc_v2", "s2orc", retrieved_at,
        paper_id=f"{GROUP}/{corpus_id}",
        title=words(string(record.get("title")) or "") or _first_words(spans.text, spans.of("title")),
        authors=names_of(record.get("authors")) or _authors(spans),
        year=year_of(record.get("year")),
        venue=string(record.get("venue")),
        abstract=_abstract(spans) or string(record.get("abstract")),
        **_annotated(spans, Spans(string(listed.get("text")) or "", listed.get("annotations"))),
        corpus_id=corpus_id,
        **identifiers({**mapping(access.get("externalids")), **mapping(record.get("externalids"))}),
        pdf_sha=string(record.get("pdfsha")),
        licence=string(access.get("license")),
        url=f"{PERMALINK}{corpus_id}",
    )  # fmt: skip


class Spans:
    """A text and its annotations. `of` returns the spans of one kind of annotation, only those within the text.

    Offsets that count another unit are converted to code points. `heads`: the spans of heads of sections;
    `paragraphs`: those of paragraphs, none of which overlaps another; `notes` counts what was converted or dropped.
    """

    def __init__(self, text: Any, annotations: Any) -> None:
        """Raises Unusable if `text` is no string (`filtered`), or if there are paragraphs and none is within the text.

        `annotations`: kind -> list of spans, as JSON in a string.
        """
        if not isinstance(text, str):
            raise Unusable("no text", filtered=True)
        self.text, self.annotations = text, mapping(annotations)
        self.notes: Counter[str] = Counter()
        self.convert: Callable[[int], int] | None = None
        raw = {name: self._parsed(name) for name in ("section_header", "paragraph")}
        if not text.isascii():
            unit, self.convert = unit_of(text, [(span[0], span[1]) for spans in raw.values() for span in spans])
            self.notes.update([f"offsets converted from {unit}"] if self.convert else [])
        self.heads = self._fitting("section_header", raw["section_header"])
        self.paragraphs = _apart(self._fitting("paragraph", raw["paragraph"]), self.notes)
        if raw["paragraph"] and not self.paragraphs:
            raise Unusable("spans beyond the text", f"{len(raw['paragraph'])} paragraphs, {len(text)} characters")

    def of(self, name: str) -> list[Span]:
        """(start, end, attributes) of each annotation of one kind, in the order of the text; [] if there is none.

        `name` is written with underscores, as in s2orc_v2 (section_header).
        """
        return self._fitting(name, self._parsed(name))

    def _parsed(self, name: str) -> list[Span]:
        """(start, end, attributes) of each annotation of one kind, unchecked; [] if there is none.

        What is unreadable is left out, and counted in `notes`.
        """
        value = self.annotations.get(name) or self.annotations.get(name.replace("_", ""))
        if not value:
            return []
        try:
            found = orjson.loads(value) if isinstance(value, str) else value
        except orjson.JSONDecodeError:
            found = None
        try:
            return [(span["start"], span["end"], span.get("attributes") or NOTHING) for span in found]
        except (TypeError, KeyError, AttributeError):  # what is readable of it
            spans = found if isinstance(found, list) else [None]
            good = [span for span in spans if isinstance(span, dict) and "start" in span and "end" in span]
            self.notes[f"unreadable {name} annotations"] += len(spans) - len(good)
            return [(span["start"], span["end"], mapping(span.get("attributes"))) for span in good]

    def _fitting(self, name: str, spans: list[Span]) -> list[Span]:
        """The spans within the text, sorted, in code points: `spans` itself, if it is so already.

        Otherwise a new list; spans that were dropped are counted in `notes`. `name`: their kind.
        """
        size, last = len(self.text), 0
        if self.convert is None:
            for start, end, _ in spans:
                if type(start) is not int or type(end) is not int or not last <= start < end <= size:
                    break
                last = start
            else:
                return spans
        return self._mended(name, spans)

    def _mended(self, name: str, spans: list[Span]) -> list[Span]:
        """The spans within the text, sorted, with offsets converted to code points.

        Dropped ones are counted in `notes`. Offsets may be digits in a string. `name`: the kind of the spans.
        """
        size, found = len(self.text), []
        for first, last, attributes in spans:
            start, end = whole_number(first), whole_number(last)
            if self.convert is not None and start >= 0 and end >= 0:
                start, end = self.convert(start), self.convert(end)
            if 0 <= start < end <= size:
                found.append((start, end, attributes if isinstance(attributes, dict) else NOTHING))
        if len(found) < len(spans):
            self.notes[f"{name} spans dropped"] += len(spans) - len(found)
        return sorted(found, key=lambda span: span[:2])


def _apart(spans: list[Span], notes: Counter[str]) -> list[Span]:
    """The sorted spans without those that begin before the end of the last one kept; these are counted in `notes`."""
    found: list[Span] = []
    for span in spans:
        if not found or span[0] >= found[-1][1]:
            found.append(span)
    if len(found) < len(spans):
        notes["paragraph spans dropped"] += len(spans) - len(found)
    return found


def unit_of(text: str, spans: Sequence[tuple[Any, Any]]) -> tuple[str, Callable[[int], int] | None]:
    """(unit that the offsets of `spans` count, function that converts them); the function is None for code points.

    Offsets are converted only if two or more of them are inside words or outside the text, and when converted at most
    an eighth as many are. If none of the last SPANS_LOOKED_AT spans has such an offset, the unit is code points: the
    error of another unit grows with every wide character. `spans`: (start, end) each.
    """
    if misfits(text, [whole_number(value) for span in spans[-SPANS_LOOKED_AT:] for value in span]):
        bounds = [whole_number(value) for span in spans for value in span]
        wrong = misfits(text, bounds)
        for unit, bytes_each in UNITS if wrong >= 2 else ():
            convert = converter(text, bytes_each)
            if misfits(text, [convert(bound) for bound in bounds]) * 8 <= wrong:
                return unit, convert
    return "code points", None


def misfits(text: str, bounds: Iterable[int]) -> int:
    """How many of the offsets are inside a word (between two letters or digits), or outside the text."""
    size = len(text)
    return sum(
        1
        for bound in bounds
        if not 0 <= bound <= size or (0 < bound < size and text[bound - 1].isalnum() and text[bound].isalnum())
    )


def _annotated(spans: Spans, listed: Spans) -> Row:
    """The columns text, sections, paragraphs, bibliography and notes.

    `spans`: the text of the paper; `listed`: the text that has the bibliography, which may be the same.
    """
    sections, paragraphs = _sections(spans)
    bibliography = _bibliography(listed)
    _cite(spans, paragraphs, bibliography)
    notes = spans.notes if listed is spans else spans.notes + listed.notes
    return {
        "text": spans.text,
        "sections": sections,
        "paragraphs": paragraphs,
        "bibliography": bibliography,
        "notes": phrases(notes),
    }


def _sections(spans: Spans) -> tuple[list[Row], list[Row]]:
    """(sections, paragraphs): the values of these columns; citations are empty lists, which `_cite` fills.

    Heads that are none, such as captions, begin no section. Paragraphs before the first head form a section without
    one. A section extends from its head to the end of its last paragraph. Roles come from the heads.
    """
    printed = ((start, end, spans.text[start:end], attributes.get("n")) for start, end, attributes in spans.heads)
    sections = [_section(start, end, *heading_of(head, n)) for start, end, head, n in printed if not is_noise(head)]
    first = spans.paragraphs[0][0] if spans.paragraphs else None
    if first is not None and (not sections or first < sections[0]["start"]):
        sections.insert(0, _section(first, first, None, None))
    heads = [(section["number"], section["head"]) for section in sections]
    for section, role in zip(sections, roles(heads), strict=True):
        section["role"] = role
    paragraphs: list[Row] = []
    at = 0
    for start, end, _ in spans.paragraphs:
        while at + 1 < len(sections) and sections[at + 1]["start"] <= start:
            at += 1
        sections[at]["end"] = max(end, sections[at]["end"])
        paragraphs.append({"section": at, "start": start, "end": end, "citations": []})
    return sections, paragraphs


def _section(start: int, end: int, number: str | None, head: str | None) -> Row:
    """An item of the column sections, without a role."""
    return {"number": number, "head": head, "role": None, "start": start, "end": end}


def _cite(spans: Spans, paragraphs: list[Row], bibliography: list[Row]) -> None:
    """Add the citations to `paragraphs`, and to `bibliography` the ids of cited papers that only citations have.

    Changes both lists. Citations outside paragraphs are left out; these, and citations of no entry, are counted in the
    notes of `spans`.
    """
    entries = {entry["ref_id"]: entry for entry in bibliography}
    at, stop = 0, len(paragraphs)
    for start, end, attributes in spans.of("bib_ref"):
        ref_id = string(attributes.get("ref_id"))
        if (matched := attributes.get("matched_paper_id")) is not None:
            ref_id = _matched(bibliography, entries, ref_id, matched)
        if ref_id is not None and ref_id not in entries:
            spans.notes["citations of no entry"] += 1
        while at < stop and paragraphs[at]["end"] <= start:
            at += 1
        if at < stop and paragraphs[at]["start"] <= start and end <= paragraphs[at]["end"]:
            paragraphs[at]["citations"].append({"start": start, "end": end, "ref_id": ref_id})
        else:
            spans.notes["citations outside paragraphs"] += 1


def _matched(bibliography: list[Row], entries: dict[str, Row], ref_id: str | None, matched: Any) -> str | None:
    """The ref_id for a citation that has the corpus id of the cited paper (`matched`): `ref_id`, else the paper's id.

    Puts the paper's id into its entry of the bibliography, unless that has one; an entry that is missing is added to
    `bibliography` and `entries`. If `matched` is no corpus id, nothing changes. `entries`: ref_id -> entry.
    """
    paper_id = linked(matched)
    if paper_id is None:
        return ref_id
    ref_id = ref_id or paper_id
    if ref_id not in entries:
        empty = dict.fromkeys(("paper_id", "title", "year", "venue", "doi", "raw"))
        entries[ref_id] = {"ref_id": ref_id, **empty, "authors": []}
        bibliography.append(entries[ref_id])
    entries[ref_id]["paper_id"] = entries[ref_id]["paper_id"] or paper_id
    return ref_id


def _bibliography(spans: Spans) -> list[Row]:
    """The column bibliography, from the annotations of entries and of their titles, venues and authors.

    [] without entries. Years are null; `raw`, the text of the entry, is null if a title is known. An entry without an
    id is ?<position>.
    """
    entries = spans.of("bib_entry")
    if not entries:
        return []
    text, found = spans.text, []
    titles, venues, authors = (_SpansInOrder(spans.of(name)) for name in ("bib_title", "bib_venue", "bib_author"))
    for n, (start, end, attributes) in enumerate(entries):
        raw = text[start:end]
        names = [text[a:b].strip(_NAME_END) for a, b, _ in authors.within(start, end)]
        doi = _DOI.search(raw)
        title = _first_words(text, titles.within(start, end))
        found.append(
            {
                "ref_id": string(attributes.get("id")) or f"?{n}",
                "paper_id": linked(attributes.get("matched_paper_id")),
                "title": title,
                "authors": names if all(names) else [name for name in names if name],
                "year": None,
                "venue": _first_words(text, venues.within(start, end)),
                "doi": doi_of(doi[0]) if doi else None,
                "raw": None if title else raw,
            }
        )
    return found


def _first_words(text: str, spans: Sequence[Span]) -> str | None:
    """The text of the first span, with single blanks for white space.

    None without a span, or if that text is blank.
    """
    return words(text[spans[0][0] : spans[0][1]]) or None if spans else None


class _SpansInOrder:
    """Finds the spans within ranges of the text.

    Spans are sorted; ranges must be asked for in order, without overlap.
    """

    def __init__(self, spans: list[Span]) -> None:
        self.spans, self.at, self.stop = spans, 0, len(spans)

    def within(self, start: int, end: int) -> Sequence[Span]:
        """The spans that begin within the range, in order, up to the first that ends beyond it; () if there is none."""
        spans, at, stop = self.spans, self.at, self.stop
        while at < stop and spans[at][0] < start:
            at += 1
        first = at
        while at < stop and spans[at][1] <= end:
            at += 1
        self.at = at
        return spans[first:at] if at > first else ()


def _authors(spans: Spans) -> list[str]:
    """Names of the authors, each once, joined from first and last names: the span of an author has affiliations too.

    An author without such a name is left out.
    """
    names = sorted(spans.of("author_first_name") + spans.of("author_last_name"), key=lambda span: span[:2])
    parts = (_SpansInOrder(names).within(start, end) for start, end, _ in spans.of("author"))
    found = (" ".join(words(spans.text[a:b]) for a, b, _ in part) for part in parts)
    return list(dict.fromkeys(name for name in found if any(map(str.isalpha, name))))


def _abstract(spans: Spans) -> str | None:
    """The text of the annotated abstract, its spans as paragraphs; None if there is none."""
    return BREAK.join(spans.text[start:end].strip() for start, end, _ in spans.of("abstract")) or None


# ---------------------------------------------------------------- files


def loaded(line: bytes) -> dict[str, Any]:
    """The JSON object in a line, read leniently where strict JSON fails. Raises Unusable if the line holds none."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        record = _leniently(line, error)
    if not isinstance(record, dict):
        raise Unusable("no JSON object")
    return record


def _leniently(line: bytes, error: Exception) -> Any:
    """The JSON value of a line, with NaN and infinity as null and lone surrogates as U+FFFD.

    Raises Unusable if there is none, or the line has MAX_LINE_BYTES or more. `error`, of the strict parser, goes into
    the exception's detail.
    """
    if len(line) >= MAX_LINE_BYTES:
        raise Unusable("line too long", f"{MAX_LINE_BYTES} bytes or more")
    try:
        text = json.dumps(json.loads(line, parse_constant=lambda name: None), ensure_ascii=False)
        return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        raise Unusable("unreadable JSON", str(error)) from None


def records_of(piece: Shard) -> Iterator[bytes]:
    """The records of a shard as bytes: its lines, or the whole file if it is one JSON document over several lines.

    Blank lines are left out. A document of MAX_LINE_BYTES or more is yielded line by line. Raises SourceError if a
    packed file is damaged.
    """
    lines = (line for line in read_lines(piece) if line.strip())
    first = next(lines, b"")
    if piece.start == 0 and first.lstrip()[:1] == b"{" and first.rstrip()[-1:] in b"{,[":
        yield from _document(first, lines)
    elif first:
        yield first
    yield from lines


def _document(first: bytes, lines: Iterator[bytes]) -> list[bytes]:
    """A list of one document, if `first` and all `lines` together are one JSON object; else of the lines read so far.

    At MAX_LINE_BYTES it stops reading; the rest stays in `lines`.
    """
    held, size = [first], len(first)
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= MAX_LINE_BYTES:
            return held
    with suppress(Unusable):
        whole = b"\n".join(held)
        loaded(whole)
        return [whole]
    return held


def updated_of(record: Mapping[str, Any]) -> int | None:
    """The field `updated` in milliseconds since 1970; None if it is missing or no date."""
    try:
        when = datetime.fromisoformat(record["updated"])
    except (KeyError, TypeError, ValueError):
        return None
    return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000)


def rejected(line: bytes, record: Mapping[str, Any], error: Unusable) -> Rejected:
    """The Rejected for a line: filtered if `error` says so, else a defect with the line's beginning as raw text.

    Its key is the paper's id if the record has one, else a hash of the line.
    """
    own = linked(record.get("corpusid") or record.get("paper_id"))
    key = own or f"{GROUP}/?{xxhash.xxh3_64_hexdigest(line)}"
    if error.filtered:
        return Rejected(key, "filtered", error.reason, error.detail)
    return Rejected(key, "defect", error.reason, error.detail, raw_text(line))


def version_of(source: Source) -> Row:
    """The columns release ("" if unknown) and change (base, update or delete) for all records of a source."""
    facts = dict(source.facts)
    return {"release": facts.get("release") or "", "change": facts.get("change") or "base"}


def converted(line: bytes, convert: Callable[[dict[str, Any]], Row]) -> Row | Rejected:
    """The row that `convert` makes of the record in a line, or a Rejected if the line or the record cannot be used.

    A record of an unforeseen form, on which `convert` fails, becomes a Rejected too: it does not stop the file.
    """
    record: dict[str, Any] = {}
    try:
        record = loaded(line)
        return convert(record)
    except Unusable as error:
        return rejected(line, record, error)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError) as error:
        return rejected(line, record, Unusable("unexpected form", f"{type(error).__name__}: {error}"[:500]))


def in_batches(items: Iterable[Row | Rejected], schema: pa.Schema) -> Iterator[pa.RecordBatch | Rejected]:
    """Rows as record batches, of at most BATCH_ROWS rows or about BATCH_CHARS characters in their column text.

    A Rejected is yielded at once, before the rows of a batch that is not yet full. Until the end Python's search for
    reference cycles is off.
    """
    weighed = (item if isinstance(item, Rejected) else (item, len(item.get("text") or "")) for item in items)
    with _no_cycles():
        yield from batched(
            weighed, lambda rows: pa.RecordBatch.from_pylist(rows, schema=schema), rows=BATCH_ROWS, size=BATCH_CHARS
        )


@contextmanager
def _no_cycles() -> Iterator[None]:
    """A context in which Python does not search for reference cycles, of which rows have none.

    That saves a tenth of the time. At its end the search goes on, if it was on before.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def deletion(record: Mapping[str, Any]) -> Row:
    """A row of PAPERS without content, for a record that says to delete a paper.

    Raises Unusable without a corpus id.
    """
    corpus_id = corpus_id_of(record.get("corpusid"))
    lists: Row = {name: [] for name in ("authors", "sections", "paragraphs", "bibliography", "notes")}
    return row_of("s2orc", "s2orc", None, paper_id=f"{GROUP}/{corpus_id}", text="", **lists)


@stage(RECORDS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", '{"corpusid":1}')))
def read_s2orc(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """One row for each record of a full text, in any of the five shapes; a Rejected for one that cannot be used.

    From a file of deletions, rows without content and with change = delete.
    """
    version, when = version_of(files.source), retrieved_at(files.source)

    def row(record: dict[str, Any]) -> Row:
        one = deletion(record) if version["change"] == "delete" else from_record(record, retrieved_at=when)
        return {**one, **version, "updated": updated_of(record)}

    yield from counted(context, in_batches((converted(line, row) for line in records_of(files)), RECORDS))
