"""What is derived from rows of PAPERS of any source: paragraphs, introductions, related work, resolved citations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, dropwhile, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import AllRows, Rejected, Row, Rows, read_batches, read_parquet
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.papers import CITED, PAPERS, PARAGRAPHS, REPEATED
from tasks.sources.s2orc.s2_releases import Known, database, quoted
from tasks.text.headings import INTRODUCTION, RELATED_WORK

PAPERS_AT_ONCE = 200
PARAGRAPHS_AT_ONCE = 10_000
OF_PAPER = ("venue", "note_id", "decision", "file", "licence", "url")
REPEATED_PAPER = "repeated paper"

_REPEATED = """
    select parse_path(filename)[-2] || '#' || file_row_number as row_id, paper_id as kept_id, kept from (
        select filename, file_row_number, paper_id, row_number() over w as place, first(file) over w as kept
        from {all}
        window w as (partition by paper_id order by source <> 'tei', parser not like 'grobid%' nulls last,
            retrieved_at desc nulls last, file_sha256, list_position({files}, filename), file_row_number)
    ) where place > 1 order by list_position({files}, filename), file_row_number
"""


def paragraphs_of(paper: Mapping[str, Any]) -> list[Row]:
    """The rows of PARAGRAPHS for a row of PAPERS, in order; empty if it has no paragraphs. `start` and `end` are
    offsets into the paper's text, those of citations into the paragraph's. A paragraph of no section has no number,
    head and role.
    """
    text, unheaded = paper["text"], dict.fromkeys(("number", "head", "role"))
    heads = [{name: section[name] for name in unheaded} for section in paper["sections"]]
    linked = {entry["ref_id"]: entry["paper_id"] for entry in paper["bibliography"] if entry["paper_id"]}
    return [
        {
            "paragraph_id": f"{paper['paper_id']}#{position}",
            "paper_id": paper["paper_id"],
            **(unheaded if paragraph["section"] is None else heads[paragraph["section"]]),
            "start": paragraph["start"],
            "end": paragraph["end"],
            "text": text[paragraph["start"] : paragraph["end"]],
            "citations": [_shifted(citation, paragraph["start"]) for citation in paragraph["citations"]],
            "cited": _cited(paragraph["citations"], linked),
            **{name: paper.get(name) for name in OF_PAPER},
        }
        for position, paragraph in enumerate(paper["paragraphs"])
    ]


def _shifted(citation: Row, by: int) -> Row:
    """The citation with its offsets made smaller by `by`."""
    return {**citation, "start": citation["start"] - by, "end": citation["end"] - by}


def _cited(citations: list[Row], linked: dict[str, str]) -> list[str]:
    """The ids of the papers that the citations lead to, each once, in order. `linked`: ref_id -> paper_id, for the
    entries of the bibliography whose paper is known; other citations are left out.
    """
    return list(dict.fromkeys(linked[citation["ref_id"]] for citation in citations if citation["ref_id"] in linked))


def introduction(paper: Mapping[str, Any]) -> tuple[int, int] | None:
    """(start, end) of the introduction in the text of a row of PAPERS, from its first paragraph to its last,
    sub-sections included; None if it has none.

    Related work between two paragraphs of the introduction is part of it. Of several introductions, the first.
    """
    placed = ((_role(paper, paragraph), paragraph) for paragraph in paper["paragraphs"])
    begun = dropwhile(lambda found: found[0] != INTRODUCTION, placed)
    inside = takewhile(lambda found: found[0] in (INTRODUCTION, RELATED_WORK), begun)
    found = [paragraph for role, paragraph in inside if role == INTRODUCTION]
    return (found[0]["start"], found[-1]["end"]) if found else None


def related_work(paper: Mapping[str, Any]) -> list[Row]:
    """The paragraphs, as in PAPERS.paragraphs, of a paper's sections on related work and their sub-sections, in order;
    empty if it has none.
    """
    return [paragraph for paragraph in paper["paragraphs"] if _role(paper, paragraph) == RELATED_WORK]


def _role(paper: Mapping[str, Any], paragraph: Row) -> str | None:
    """The role of the section that the paragraph is in; None if the section has no role or the paragraph no section."""
    position = paragraph["section"]
    role: str | None = paper["sections"][position]["role"] if position is not None else None
    return role


@stage(PARAGRAPHS, revision=2)
def split_paragraphs(context: StageContext, papers: Rows) -> Iterator[pa.RecordBatch | Rejected]:
    """A row for each paragraph of each paper, with its section's head and role and the papers it cites. A paper without
    paragraphs is rejected.
    """
    columns = ["paper_id", "text", "sections", "paragraphs", "bibliography", *OF_PAPER]
    for batch in papers.batches(columns, size=PAPERS_AT_ONCE):
        found: list[Row] = []
        for paper in batch.to_pylist():
            rows = paragraphs_of(paper)
            found += rows
            if not rows:
                yield Rejected(paper["paper_id"], "filtered", "no paragraphs")
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=PARAGRAPHS)


@stage(PAPERS, revision=1, at_most=AtMost(rows=lambda of: of["documents"] + of["prints"]))
def gather_papers(context: StageContext, documents: AllRows, prints: AllRows) -> Iterator[pa.RecordBatch | Rejected]:
    """The papers read from TEI (`documents`) and from PDFs (`prints`) as one table, in which each id is once: a paper
    of which both are there is the one of the TEI. A Rejected for each other row of that id.
    """
    seen: set[str] = set()
    for batch in chain(documents.batches(size=PAPERS_AT_ONCE), prints.batches(size=PAPERS_AT_ONCE)):
        ids = batch["paper_id"].to_pylist()
        first = [not (name in seen or seen.add(name)) for name in ids]  # type: ignore[func-returns-value]
        yield batch.filter(pa.array(first, pa.bool_()))
        repeated = (name for name, new in zip(ids, first, strict=True) if not new)
        yield from (Rejected(name, "filtered", "the same paper from another file") for name in repeated)


@stage(REPEATED, revision=1, at_most=AtMost(rows=lambda of: of["papers"] + of["others"]))
def find_repeated(context: StageContext, papers: AllRows, others: AllRows) -> Iterator[pa.RecordBatch]:
    """A row for each row of two tables of papers (or of one, given twice) for which another row of its paper stands: of
    a paper that is there several times (from two archives, as two PDFs of one note, as PDF and TEI) the row of a TEI
    document stays, else one that GROBID read, else the one fetched last.
    """
    if files := [*dict.fromkeys([*papers.paths, *others.paths])]:
        named = read_parquet(files).removesuffix(")") + ", filename=true, file_row_number=true)"
        listed = "[" + ", ".join(map(quoted, files)) + "]"
        with database(context.scratch()) as connection:
            found = connection.sql(_REPEATED.format(all=named, files=listed)).to_arrow_reader(PARAGRAPHS_AT_ONCE)
            yield from (batch.cast(REPEATED) for batch in found)


@stage(PAPERS, revision=1, at_most=AtMost(keeps=True))
def admit_once(context: StageContext, papers: Rows, repeated: AllRows) -> Iterator[pa.RecordBatch | Rejected]:
    """The papers without the rows in `repeated` (rows of REPEATED); a Rejected, with the file that is kept, for each of
    these.
    """
    kept = {row["row_id"]: row["kept"] for row in repeated.as_dicts("row_id", "kept")}
    for file in papers.paths:
        yield from _once(file, kept)


def _once(file: str, kept: Mapping[str, str | None]) -> Iterator[pa.RecordBatch | Rejected]:
    """The rows of a Parquet file of papers, but a Rejected for each that is in `kept`: row_id -> the file that stands
    for it.
    """
    part, start = Path(file).parent.name, 0
    for batch in read_batches(file, PAPERS_AT_ONCE):
        row_ids = [f"{part}#{place}" for place in range(start, start + batch.num_rows)]
        start += batch.num_rows
        yield batch.filter(pa.array([row_id not in kept for row_id in row_ids], pa.bool_()))
        for row_id, paper_id in zip(row_ids, batch["paper_id"].to_pylist(), strict=True):
            if row_id in kept:
                yield Rejected(paper_id, "filtered", REPEATED_PAPER, f"{kept[row_id]} is kept")


@stage(CITED, revision=1)
def resolve_citations(
    context: StageContext, paragraphs: Rows, papers: AllRows, metadata: AllRows
) -> Iterator[pa.RecordBatch | Rejected]:
    """A row for each paper that a paragraph cites, with title and abstract, null if neither `papers` nor `metadata` has
    them, the smallest of several; a Rejected for a paragraph that cites none. The join is out of core.
    """
    asked = f"select unnest(cited) as paper_id from {read_parquet(paragraphs.paths)}"
    tables, columns = [papers, metadata], ("title", "abstract")
    with database(context.scratch()) as connection:
        known = Known(connection, context.scratch(), ids_query=asked, tables=tables, columns=columns)
        for batch in paragraphs.batches(["paragraph_id", "paper_id", "cited"], size=PARAGRAPHS_AT_ONCE):
            without = pc.equal(pc.list_value_length(batch["cited"]), 0)
            for paragraph_id in batch["paragraph_id"].filter(without).to_pylist():
                yield Rejected(paragraph_id, "filtered", "no linked citation")
            yield _resolved(batch, known)


def _resolved(paragraphs: pa.RecordBatch, known: Known) -> pa.RecordBatch:
    """The rows of CITED for these paragraphs: one for each (paragraph, cited paper), in order, with whether `known` has
    a row of the paper, and its title and abstract there.
    """
    cited, places = pc.list_flatten(paragraphs["cited"]), pc.list_parent_indices(paragraphs["cited"])
    found = known.of(cited)
    at = pc.index_in(cited, value_set=found["paper_id"].combine_chunks())
    columns = [
        paragraphs["paragraph_id"].take(places),
        paragraphs["paper_id"].take(places),
        cited,
        found["title"].combine_chunks().take(at),
        found["abstract"].combine_chunks().take(at),
        pc.is_valid(at),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CITED)
