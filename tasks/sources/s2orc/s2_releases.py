"""Releases of Semantic Scholar and the differences between them: which record of a paper is the one that counts.

Differences are files of records to put in and of records to delete, from one release to the next. By the API's own
instructions the records of a difference are put in first, then deleted, by corpus id. Here all files are read, and one
record of each corpus id counts: that of the newest release; within a release a deletion, then the record that was
updated last, then the first. The release of a file is read from its folders, as `longform fetch s2orc` makes them:

    2025-01-07/s2orc/x.jsonl.gz                        a release
    2025-01-07-to-2025-01-14/s2orc/update/y.jsonl.gz   a difference
    2025-01-07-to-2025-01-14/s2orc/delete/z.jsonl.gz

Also read here are records without full text: titles, authors, identifiers, abstracts, citations.

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

Many abstracts are withheld by their publishers. In abstracts of the release of 2020, ::: stands for a new line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.parts import key_hash
from longform.artifacts.rows import AllRows, PerGroup, Rejected, Row, Rows, Shard, Source, read_parquet
from longform.engine.stage import StageContext, stage
from longform.errors import SourceError, UsageError
from schemas.sources.papers import METADATA, PAPERS
from schemas.sources.s2orc import CITATIONS, METADATA_RECORDS
from tasks.sources.files.batches import counted
from tasks.sources.files.inputs import NOTES, open_files, retrieved_at
from tasks.sources.files.lines import split_lines, unpacked
from tasks.sources.s2orc.s2_records import (
    GROUP,
    PERMALINK,
    Unusable,
    corpus_id_of,
    described,
    linked,
    mapping,
    names_of,
    newlines,
    year_of,
)
from tasks.sources.s2orc.s2orc import converted, in_batches, records_of, shape_of, updated_of, version_of

if TYPE_CHECKING:
    import duckdb

Kind = Literal["papers", "metadata", "citations"]
ENDINGS = (".jsonl", ".json", ".gz", ".zst", ".bz2", ".xz")
MANIFEST = "manifest.json"
SNIFFED_LINES = 20
PIECE_BYTES = 64 << 20
MEMORY_MB = 512
PAPERS_AT_ONCE = 5_000
ROWS_PER_RANGE = 200_000
MOST_RANGES = 1_024
ROWS_AT_ONCE = 2_000
DESCRIBED = ("title", "authors", "year", "venue", "abstract", "doi", "arxiv_id", "acl_id", "licence")

_RELEASE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIFFERENCE = re.compile(r"(\d{4}-\d{2}-\d{2})-to-(\d{4}-\d{2}-\d{2})")
_KINDS: dict[str, Kind] = {
    "s2orc": "papers",
    "s2orc_v2": "papers",
    "papers": "metadata",
    "abstracts": "metadata",
    "citations": "citations",
}

RANK = "release desc, change = 'delete' desc, updated desc nulls last"
REASON = """case
        when change = 'delete' then 'deletion record'
        when place = 1 then null
        when first_change = 'delete' then 'deleted upstream'
        when first_release > release then 'replaced upstream'
        else 'duplicate id' end"""
_STANDING = """
    with own as (select distinct {key} from {own})
    select file_row_number, {reason} as reason
    from (
        select *, row_number() over w as place,
            first(change) over w as first_change, first(release) over w as first_release
        from (select filename, file_row_number, {key}, release, change, updated from {all} semi join own using ({key}))
        window w as (
            partition by {key}
            order by {rank}, list_position({files}, filename), file_row_number
        )
    )
    where filename = {file} and reason is not null
    order by file_row_number
"""


# ---------------------------------------------------------------- files


def open_release(
    paths: Iterable[Path], *, digest: Callable[[Path], str], retrieved_at: str | None = None
) -> dict[Kind, list[Source]]:
    """The sources for the files in `paths`, by the kind of their records (papers, metadata, citations).

    Every kind is a key. The kind is what the names of a file's folders say, else that of its first record. Of files
    with the same content, release, change and dataset only the first counts. The facts of a source have its release,
    its dataset, and whether it adds or deletes records (`change`: base, update or delete), if the names of its folders
    say so. `digest` computes the SHA-256 of a file; `retrieved_at` is used for files whose fetch noted no time. Raises
    UsageError if `paths` is empty, SourceError for a file that is missing or empty, or a folder without data.
    """
    found: dict[Kind, list[Source]] = {"papers": [], "metadata": [], "citations": []}
    for file in _files(paths):
        kind, facts = _place(file)
        found[kind or kind_of(file)] += open_files(
            [file],
            group=GROUP,
            endings=ENDINGS,
            digest=digest,
            retrieved_at=retrieved_at,
            facts=tuple(facts.items()),
            piece_bytes=PIECE_BYTES,
        )
    return {
        kind: list({(source.sha256, source.facts[2:]): source for source in sources}.values())
        for kind, sources in found.items()
    }


def _files(paths: Iterable[Path]) -> list[Path]:
    """The files in `paths` and all JSON Lines in its folders, without the manifest and notes that a fetch writes.

    Raises SourceError for a folder without any, UsageError if `paths` is empty.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(file for file in path.rglob("*") if _is_data(file)) if path.is_dir() else [path]
        if not inside:
            raise SourceError(f"{path} holds no JSON lines ({', '.join(ENDINGS)}): give the files themselves.")
        found += inside
    if not found:
        raise UsageError("No file was named: give a file or folder of Semantic Scholar's.")
    return list(dict.fromkeys(found))


def _is_data(file: Path) -> bool:
    """Whether a file holds JSON Lines, by its ending: not a hidden file, a manifest or the notes of a fetch."""
    beside = file.name.startswith((".", MANIFEST)) or file.name.endswith(NOTES)
    return file.is_file() and not file.is_symlink() and file.name.lower().endswith(ENDINGS) and not beside


def _place(file: Path) -> tuple[Kind | None, dict[str, str]]:
    """(kind, facts) by the names of the file's folders: the facts are release, change and dataset.

    The folders are <release>/<dataset> or <from>-to-<to>/<dataset>/update or delete; any others, or an unknown dataset
    in a release, give (None, {}). Of an unknown dataset in a difference only the kind is None.
    """
    folders = file.absolute().parent.parts
    if len(folders) > 2 and folders[-1] in ("update", "delete") and (found := _DIFFERENCE.fullmatch(folders[-3])):
        return _KINDS.get(folders[-2]), {"release": found[2], "change": folders[-1], "dataset": folders[-2]}
    if len(folders) > 1 and _RELEASE.fullmatch(folders[-2]) and folders[-1] in _KINDS:
        return _KINDS[folders[-1]], {"release": folders[-2], "change": "base", "dataset": folders[-1]}
    return None, {}


def kind_of(file: Path) -> Kind:
    """The kind of records in a file, by the first of its first SNIFFED_LINES lines that is a JSON object.

    papers if none of them is, or the file is missing or empty. Raises SourceError if a packed file is damaged.
    """
    if not file.is_file() or not file.stat().st_size:
        return "papers"  # open_files says what is wrong with it
    lines = islice(split_lines(unpacked(file), file), SNIFFED_LINES)
    return next(filter(None, map(_kind, lines)), "papers")


def _kind(line: bytes) -> Kind | None:
    """The kind of the record in a line, by its keys; None if the line is no JSON object.

    Citations have a citingcorpusid. Records with a title or an abstract, but in no shape of full texts, are metadata;
    all others are papers.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    if "citingcorpusid" in record:
        return "citations"
    return "papers" if shape_of(record) or not {"title", "abstract"} & record.keys() else "metadata"


# ---------------------------------------------------------------- which record counts


@contextmanager
def database(scratch: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with MEMORY_MB of memory, closed at the end; what does not fit is written to `scratch`."""
    import duckdb

    settings: dict[str, Any] = {"memory_limit": f"{MEMORY_MB}MB", "temp_directory": str(scratch), "threads": 2}
    with duckdb.connect(config={**settings, "preserve_insertion_order": False}) as connection:
        yield connection


def reasons_not_counted(connection: duckdb.DuckDBPyConnection, file: str, files: Sequence[str]) -> dict[int, str]:
    """For each row of `file` that does not count, by its position from 0, the reason, e.g. "replaced upstream".

    Of all rows in `files` with the same paper_id one counts, unless it is a deletion: that of the newest release,
    there first a deletion, then the row that was updated last, then the first by the order of `files`. `file` is one
    of `files`; all are Parquet.
    """
    query = _STANDING.format(
        key="paper_id",
        rank=RANK,
        reason=REASON,
        own=read_parquet([file]),
        all=read_parquet(files).removesuffix(")") + ", filename=true, file_row_number=true)",
        files="[" + ", ".join(map(quoted, files)) + "]",
        file=quoted(file),
    )
    return dict(connection.execute(query).fetchall())


def quoted(path: str) -> str:
    """The path as a string literal of SQL."""
    return "'" + path.replace("'", "''") + "'"


@stage(PAPERS, revision=1)
def newest_papers(
    context: StageContext, records: Rows, versions: AllRows, metadata: AllRows
) -> Iterator[pa.RecordBatch | Rejected]:
    """One row a paper: its newest record, with columns that it lacks filled from `metadata`.

    Every other record is Rejected (filtered), deletions too. `records` is one part of all records, `versions`, among
    which the newest is found.
    """
    with database(context.scratch()) as connection:
        for file in records.paths:
            lost = reasons_not_counted(connection, file, versions.paths)
            asked = f"select paper_id from {read_parquet([file])}"
            known = Known(connection, context.scratch(), ids_query=asked, tables=[metadata], columns=DESCRIBED)
            yield from _counting(records, lost, known)


def _counting(records: Rows, lost: dict[int, str], known: Known) -> Iterator[pa.RecordBatch | Rejected]:
    """The rows of `records` that count, with what they lack filled from `known`; a Rejected for each of the others.

    `lost`: position of a row that does not count, from 0 -> the reason.
    """
    start = 0
    for batch in records.batches(size=PAPERS_AT_ONCE):
        start, first = start + batch.num_rows, start
        places = [place for place in range(batch.num_rows) if first + place in lost]
        for place in places:
            yield Rejected(batch["paper_id"][place].as_py(), "filtered", lost[first + place])
        if places:
            batch = batch.take(pa.array(sorted(set(range(batch.num_rows)) - set(places)), pa.int64()))
        if batch.num_rows:
            yield known.completed(batch.select(PAPERS.names).cast(PAPERS))


class Known:
    """Columns of papers, looked up by paper_id in the files of `tables`: one row a paper.

    Null never counts as known. If a paper has several values for a column, it is the smallest; of lists, the largest.
    The rows of the papers in question are copied into `folder` once, and looked up there. `of` returns them for some
    papers, `completed` fills a batch of papers with them.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Path,
        *,
        ids_query: str,
        tables: Sequence[Rows],
        columns: Sequence[str],
    ) -> None:
        """`ids_query`: an SQL query for the paper_ids that will be looked up.

        `columns`: those that are wanted, without paper_id.
        """
        self.connection = connection
        names = ", ".join(("paper_id", *columns))
        rows = " union all ".join(f"select {names} from {read_parquet(table.paths)}" for table in tables if table.paths)
        self.rows = None
        if rows:
            file = folder / "known.parquet"
            picked = f"select * from ({rows}) semi join ({ids_query}) using (paper_id)"
            connection.execute(f"copy ({picked}) to {quoted(str(file))} (format parquet, compression lz4)")
            self.rows = read_parquet([file])
        self.columns = {name: "max" if pa.types.is_list(PAPERS.field(name).type) else "min" for name in columns}

    def of(self, ids: pa.Array) -> pa.Table:
        """A table of paper_id and the columns, with one row for each of `ids` that the files have.

        Empty if there are no files.
        """
        if self.rows is None:
            return pa.schema([PAPERS.field(name) for name in ("paper_id", *self.columns)]).empty_table()
        self.connection.register("wanted", pa.table({"paper_id": ids.unique()}))
        values = ", ".join(f"{function}({name}) as {name}" for name, function in self.columns.items())
        query = f"select paper_id, {values} from {self.rows} semi join wanted using (paper_id) group by paper_id"
        return self.connection.sql(query).to_arrow_table()

    def completed(self, papers: pa.RecordBatch) -> pa.RecordBatch:
        """The batch of papers, with known values in place of nulls and empty lists in the columns looked up."""
        found = self.of(papers["paper_id"])
        places = pc.index_in(papers["paper_id"], value_set=found["paper_id"].combine_chunks())
        if places.null_count == len(places):
            return papers
        columns = {name: papers[name] for name in papers.schema.names}
        for name in self.columns:
            values = found[name].combine_chunks().take(places).cast(PAPERS.field(name).type)
            columns[name] = _filled(columns[name], values)
        return pa.RecordBatch.from_pydict(columns, schema=papers.schema)


def _filled(own: pa.Array, known: pa.Array) -> pa.Array:
    """The column `own`, with the value of `known` where it is null or, in a column of lists, an empty list."""
    if pa.types.is_list(own.type):
        return pc.if_else(pc.and_(pc.equal(pc.list_value_length(own), 0), pc.is_valid(known)), known, own)
    return pc.coalesce(own, known)


# ---------------------------------------------------------------- records


def from_metadata(record: Mapping[str, Any], *, retrieved_at: int | None = None) -> Row:
    """The row of METADATA_RECORDS, without release and change, for a record of any of three shapes.

    The column `dataset` says which: papers, abstracts or (of 2020) metadata. Raises Unusable for any other record, or
    if there is no corpus id.
    """
    if "corpusid" not in record:
        values = {**_NOTHING, **described(record), "abstract": newlines(record.get("abstract") or None)}
        return _row(record, record.get("paper_id"), "metadata", retrieved_at, values)
    if "abstract" in record and "title" not in record:
        return _row(record, record["corpusid"], "abstracts", retrieved_at, _of_abstracts(record))
    if "title" in record:
        return _row(record, record["corpusid"], "papers", retrieved_at, _of_papers(record))
    raise Unusable("unknown record shape", f"keys: {', '.join(sorted(map(str, record)))[:500]}")


def _row(record: Mapping[str, Any], own: Any, dataset: str, retrieved_at: int | None, values: Row) -> Row:
    """The row of METADATA_RECORDS, without release and change. Raises Unusable if `own` is no corpus id.

    `own`: the corpus id as the record has it; `values`: the columns that describe the paper.
    """
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
    """The columns that describe a paper (title, authors, year, ...), from a record of papers.

    Abstract and licence are null.
    """
    journal = record.get("journal")
    fields = {
        "title": record.get("title"),
        "venue": record.get("venue") or (journal.get("name") if isinstance(journal, dict) else None),
        "identifiers": record.get("externalids"),
    }
    authors, year = names_of(record.get("authors")), year_of(record.get("year"))
    return {**_NOTHING, **described(fields), "authors": authors, "year": year}


def _of_abstracts(record: Mapping[str, Any]) -> Row:
    """The columns that describe a paper, from a record of abstracts: abstract, identifiers and licence.

    All others are null, authors []. A blank abstract is null.
    """
    access = mapping(record.get("openaccessinfo"))
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
    """One row for each record of papers, abstracts or metadata; for a deletion a row with change = delete.

    That row has nothing that describes the paper. A Rejected (a defect) for a record that cannot be read, has none of
    the three shapes (except for a deletion) or has no corpus id.
    """
    version, facts = version_of(files.source), dict(files.source.facts)
    when = retrieved_at(files.source)

    def row(record: dict[str, Any]) -> Row:
        if version["change"] != "delete":
            return {**from_metadata(record, retrieved_at=when), **version}
        return {**_row(record, record.get("corpusid"), facts.get("dataset") or "papers", None, _NOTHING), **version}

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
    select paper_id, any_value(corpus_id) as corpus_id, {first},
        first(authors order by len(authors) > 0 desc, rank) as authors,
        first(abstract order by abstract is null, rank desc) as abstract, any_value(url) as url
    from ranked where reason is null group by paper_id, paper_hash order by paper_hash, paper_id
"""
_FIRST = ("title", "year", "venue", "doi", "arxiv_id", "acl_id", "licence", "retrieved_at")


@stage(METADATA, revision=2)
def merge_metadata(context: StageContext, records: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """One row a paper, merged from its newest record in each dataset; a Rejected (filtered) for each other record.

    Titles and authors are those of the dataset papers, abstracts those of abstracts; if that has none, of another
    dataset. A newest record that is a deletion adds nothing; a paper of which all are deletions has no row.
    """
    yield from merged(records, context.scratch())


def merged(
    records: Rows, scratch: Path, *, rows_per_range: int = ROWS_PER_RANGE
) -> Iterator[pa.RecordBatch | Rejected]:
    """Batches of METADATA, one row a paper, and a Rejected (filtered) for each record that does not count.

    Of each dataset the newest record counts, unless it is a deletion. The records are dealt out to ranges of about
    `rows_per_range` rows in files in `scratch`; one range is in memory at a time.
    """
    with database(scratch) as connection:
        for rows in _ranges(connection, records, scratch, rows_per_range):
            connection.execute(_RANKED.format(rows=rows))
            yield from _lost(connection)
            yield from _merged(connection)


def _lost(connection: duckdb.DuckDBPyConnection) -> Iterator[Rejected]:
    """A Rejected (filtered) for each record in the table `ranked` that has a reason not to count."""
    found = connection.execute("select paper_id, reason from ranked where reason is not null order by all")
    for paper_id, reason in iter(found.fetchone, None):
        yield Rejected(paper_id, "filtered", reason)


def _merged(connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    """Batches of METADATA, one row a paper, from the records in the table `ranked` that count."""
    first = ", ".join(f"first({name} order by {name} is null, rank) as {name}" for name in _FIRST)
    for batch in connection.sql(_MERGED.format(first=first)).to_arrow_reader(ROWS_AT_ONCE):
        yield batch.select(METADATA.names).cast(METADATA)


def _ranges(connection: duckdb.DuckDBPyConnection, records: Rows, scratch: Path, rows_per_range: int) -> Iterator[str]:
    """SQL for tables that together have all records: ranges of paper_hash with about `rows_per_range` rows.

    Fewer than `rows_per_range` records are one table; of more, the ranges (at most 2 * MOST_RANGES) are written to
    files in `scratch`, and those without rows left out. Nothing if there are no records.
    """
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
    """One row of CITATIONS for each record, in the order of the file, also of a file of deletions.

    A Rejected (a defect) for a record that cannot be read.
    """
    yield from counted(context, in_batches((converted(line, citation) for line in records_of(files)), CITATIONS))


def citation(record: Mapping[str, Any]) -> Row:
    """The row of CITATIONS for a record; the cited paper is null if unknown.

    Raises Unusable without a citing paper.
    """
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
