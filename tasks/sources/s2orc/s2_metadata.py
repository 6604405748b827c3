"""What Semantic Scholar says of papers besides their texts: titles, authors, identifiers, abstracts, citations.

    Datasets API, papers
      {"corpusid": 7, "externalids": {"DOI": "10.1/A", "ArXiv": null, "ACL": null, "CorpusId": "7", ...},
       "title": "...", "authors": [{"authorId": "1", "name": "R. Roe"}], "venue": "", "year": 2019,
       "journal": {"name": ...} | null, "s2fieldsofstudy": [...] | null, "updated": "2022-01-27T02:09:01.123Z", ...}
    Datasets API, abstracts
      {"corpusid": 7, "openaccessinfo": {"license": "CCBY" | null, "externalids": {...}, ...}, "abstract": "...", ...}
    Datasets API, citations: ids are strings here, and numbers elsewhere; the cited one may be null
      {"citingcorpusid": "7", "citedcorpusid": "5" | null, "contexts": ["..."] | null, "isinfluential": false, ...}
    release of 2020-07-05, metadata
      {"paper_id": "7", "title": "...", "authors": [{"first", "middle": [], "last", "suffix"}],
       "abstract": "..." | null, "year": 2019 | null, "doi": ..., "arxiv_id": ..., "venue": ..., "journal": ..., ...}

Many abstracts are withheld by their publishers. In those of the release of 2020, ::: stands for a new line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from longform.artifacts.parts import key_hash
from longform.artifacts.rows import PerGroup, Rejected, Row, Rows, Shard, read_parquet
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import METADATA
from schemas.sources.s2orc import CITATIONS, METADATA_RECORDS
from tasks.sources.files.batches import counted
from tasks.sources.files.found import retrieved_at
from tasks.sources.s2orc.doc2json import described
from tasks.sources.s2orc.s2_releases import RANK, REASON, database, quoted
from tasks.sources.s2orc.s2_values import GROUP, PERMALINK, Unusable, corpus_id_of, linked, names_of, newlines, year_of
from tasks.sources.s2orc.s2orc import converted, in_batches, records_of, updated_of, version_of

if TYPE_CHECKING:
    import duckdb

ROWS_PER_RANGE = 200_000
MOST_RANGES = 1_024
ROWS_AT_ONCE = 2_000


# ---------------------------------------------------------------- records


def from_metadata(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of METADATA, and its dataset, of a record of any of the three shapes. Unusable where there is none."""
    if "corpusid" not in record:
        values = {**_NOTHING, **described(record), "abstract": newlines(record.get("abstract") or None)}
        return _row(record, record.get("paper_id"), "metadata", retrieved_at, values)
    if "abstract" in record and "title" not in record:
        return _row(record, record["corpusid"], "abstracts", retrieved_at, _of_abstracts(record))
    if "title" in record:
        return _row(record, record["corpusid"], "papers", retrieved_at, _of_papers(record))
    raise Unusable("unknown record shape", f"keys: {', '.join(sorted(map(str, record)))[:500]}")


def _row(record: Mapping[str, Any], own: Any, dataset: str, retrieved_at: int | None, values: Row) -> Row:
    corpus_id = corpus_id_of(own)
    paper_id = f"{GROUP}/{corpus_id}"
    return {
        "paper_id": paper_id,
        "corpus_id": corpus_id,
        **values,
        "url": f"{PERMALINK}{corpus_id}",
        "retrieved_at": retrieved_at,
        "dataset": dataset,
        "paper_hash": key_hash(paper_id),
        "updated": updated_of(record),
    }


_NOTHING: Row = {
    **dict.fromkeys(("title", "year", "venue", "abstract", "doi", "arxiv_id", "acl_id", "licence")),
    "authors": [],
}


def _of_papers(record: Mapping[str, Any]) -> Row:
    journal = record.get("journal")
    fields = {
        "title": record.get("title"),
        "venue": record.get("venue") or (journal.get("name") if isinstance(journal, dict) else None),
        "identifiers": record.get("externalids"),
    }
    authors, year = names_of(record.get("authors")), year_of(record.get("year"))
    return {**_NOTHING, **described(fields), "authors": authors, "year": year}


def _of_abstracts(record: Mapping[str, Any]) -> Row:
    access = record.get("openaccessinfo")
    access = access if isinstance(access, dict) else {}
    abstract = record["abstract"]
    ids = described({"identifiers": access.get("externalids")})
    return {
        **_NOTHING,
        **{name: ids[name] for name in ("doi", "arxiv_id", "acl_id")},
        "abstract": abstract if isinstance(abstract, str) and abstract.strip() else None,
        "licence": access.get("license") or None,
    }


@stage(METADATA_RECORDS, revision=1)
def read_s2_metadata(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """The records of files of papers, abstracts and metadata, of any mix; those of deletions as rows that say so."""
    version, facts = version_of(files.source), dict(files.source.facts)
    when = retrieved_at(files.source)

    def row(record: dict[str, Any]) -> Row:
        if version["change"] == "delete":
            return {
                **_row(record, record.get("corpusid"), (facts.get("dataset") or "papers"), None, _NOTHING),
                **version,
            }
        return {**from_metadata(record, retrieved_at=when), **version}

    yield from counted(context, in_batches((converted(line, row) for line in records_of(files)), METADATA_RECORDS))


# ---------------------------------------------------------------- put together


_RANKED = f"""
    create or replace temp table ranked as
    select *, {REASON} as reason, case dataset when 'papers' then 0 when 'metadata' then 1 else 2 end as rank
    from (
        select *, row_number() over w as place,
            first(change) over w as first_change, first(release) over w as first_release
        from {{rows}} window w as (partition by paper_id, dataset order by {RANK}, title, abstract)
    )
"""
_MERGED = """
    select paper_id, any_value(corpus_id) as corpus_id, {first}, max(authors order by rank) as authors,
        first(abstract order by abstract is null, rank desc) as abstract, any_value(url) as url
    from ranked where reason is null group by paper_id, paper_hash order by paper_hash, paper_id
"""
_FIRST = ("title", "year", "venue", "doi", "arxiv_id", "acl_id", "licence", "retrieved_at")


@stage(METADATA, revision=1)
def merge_metadata(context: StageContext, records: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """One row a paper, of what its newest records in all files say: title and authors of papers, text of abstracts."""
    yield from merged(records, context.scratch())


def merged(
    records: Rows, scratch: Path, *, rows_per_range: int = ROWS_PER_RANGE
) -> Iterator[pa.RecordBatch | Rejected]:
    """Batches of METADATA, and the records that do not count, about `rows_per_range` records held at once."""
    with database(scratch) as connection:
        for rows in _ranges(connection, records, scratch, rows_per_range):
            connection.execute(_RANKED.format(rows=rows))
            yield from _lost(connection)
            yield from _merged(connection)


def _lost(connection: duckdb.DuckDBPyConnection) -> Iterator[Rejected]:
    """The records that do not count."""
    found = connection.execute("select paper_id, reason from ranked where reason is not null order by all")
    while some := found.fetchmany(ROWS_AT_ONCE):
        for paper_id, reason in some:
            yield Rejected(paper_id, "filtered", reason)


def _merged(connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    first = ", ".join(f"first({name} order by {name} is null, rank) as {name}" for name in _FIRST)
    for batch in connection.sql(_MERGED.format(first=first)).to_arrow_reader(ROWS_AT_ONCE):
        yield batch.select(METADATA.names).cast(METADATA)


def _ranges(connection: duckdb.DuckDBPyConnection, records: Rows, scratch: Path, rows_per_range: int) -> Iterator[str]:
    """The records in ranges of paper_hash, each small enough to be held."""
    if not records.paths:
        return
    bits = max(0, min(MOST_RANGES, records.count // rows_per_range).bit_length())
    if bits == 0:
        yield read_parquet(records.paths)
        return
    folder = scratch / "ranges"
    connection.execute(
        f"copy (select *, (paper_hash >> {64 - bits})::integer as range from {read_parquet(records.paths)}) "
        f"to {quoted(str(folder))} (format parquet, partition_by (range), compression lz4)"
    )
    for number in range(1 << bits):
        if files := sorted((folder / f"range={number}").glob("*.parquet")):
            yield f"(select * exclude (range) from {read_parquet(files)})"


# ---------------------------------------------------------------- citations


@stage(CITATIONS, revision=1)
def read_citations(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """The records of files of citations."""
    yield from counted(context, in_batches((converted(line, citation) for line in records_of(files)), CITATIONS))


def citation(record: Mapping[str, Any]) -> Row:
    """The row of CITATIONS of a record. Unusable where it names no citing paper."""
    citing, cited = linked(record.get("citingcorpusid")), linked(record.get("citedcorpusid"))
    if citing is None:
        raise Unusable("no id", f"{record.get('citingcorpusid')!r}"[:100])
    contexts, influential = record.get("contexts"), record.get("isinfluential")
    return {
        "citation_id": f"{citing}-{cited.removeprefix(GROUP + '/') if cited else '?'}",
        "paper_id": citing,
        "cited_id": cited,
        "contexts": len(contexts) if isinstance(contexts, list) else 0,
        "influential": influential if isinstance(influential, bool) else None,
    }
