"""Versions of one paper in one or several sources, as a table of pairs with what they were found by (`versions.py`).

Not all pairs are compared, but those that share a key: an identifier, a title, the exact text, or two of the smallest
hashes of their texts' word triples (the more alike two texts are, the more of these they share). Of a key that more
than MOST_IN_BLOCK papers share, each is compared with the first of them and with the next one, in the order of their
texts, so that the number of comparisons grows with the number of papers only. DuckDB joins within its memory limit and
spills to disk; in memory are a few thousand sketches at a time, and the ids of papers that have versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from longform.artifacts.rows import AllRows, Row, Rows, read_batches, read_parquet
from longform.engine.stage import Builder, StageContext, stage
from longform.errors import SourceError, UsageError
from longform.lines import one_line
from schemas.sources.papers import DUPLICATES, SKETCHES
from tasks.sources.papers.sketches import LEAST_TRIPLES, PAPERS_AT_ONCE, TEXTS, sketch_of, sketch_papers
from tasks.sources.papers.versions import Compared, compared, verdict
from tasks.sources.s2orc.s2_releases import database

if TYPE_CHECKING:
    import duckdb

MOST_IN_BLOCK = 20
BLOCKING_HASHES = 32
LEAST_COMMON_HASHES = 2
PAIRS_AT_ONCE = 2_000

_ONE_A_PAPER = """
    create table papers as
    select *, coalesce(text[1], abstract[1], 0) as place from {files}
    qualify row_number() over (partition by paper_id order by text_size desc, abstract_size desc,
        len(words) desc, len(surnames) desc, doi nulls last, md5(to_json(t)::varchar)) = 1
"""
_KEYS = """
    create table keys as
    select 'doi' as kind, hash(doi) as key, paper_id, place from papers where doi is not null
    union all select 'arxiv', hash(arxiv_id), paper_id, place from papers where arxiv_id is not null
    union all select 'acl', hash(acl_id), paper_id, place from papers where acl_id is not null
    union all select 'corpus', hash(corpus_id), paper_id, place from papers where corpus_id is not null
    union all select 'file', hash(pdf_sha), paper_id, place from papers where pdf_sha is not null
    union all select 'title', hash(array_to_string(words, '')), paper_id, place from papers where len(words) > 0
    union all select 'text', hash(text), paper_id, place from papers where text_size >= {least}
    union all select 'abstract', hash(abstract), paper_id, place from papers where abstract_size >= {least}
    union all select 'triple', unnest(text[1:{hashes}]), paper_id, place from papers where text_size >= {least}
    union all select 'abstract triple', unnest(abstract[1:{hashes}]), paper_id, place
        from papers where abstract_size >= {least}
"""
_MEMBERS = """
    create table members as
    select *, row_number() over (partition by kind, key order by place, paper_id) as number,
        count(*) over (partition by kind, key) as size
    from keys qualify size > 1
"""
_PAIRS = """
    create table pairs as
    select least(first, second) as first, greatest(first, second) as second from (
        select a.kind, a.paper_id as first, b.paper_id as second from members a join members b using (kind, key)
            where a.size <= {most} and b.size <= {most} and a.number < b.number
        union all
        select a.kind, a.paper_id, b.paper_id
            from (select * from members where number = 1 and size > {most}) a join members b using (kind, key)
            where b.number > 1
        union all
        select a.kind, a.paper_id, b.paper_id
            from (select *, number + 1 as next from members where size > {most}) a
            join members b on a.kind = b.kind and a.key = b.key and a.next = b.number
    )
    group by all
    having count(*) filter (kind in ('triple', 'abstract triple')) >= {common}
        or bool_or(kind not in ('triple', 'abstract triple'))
"""


def find_duplicates_of(builder: Builder, *tables: Rows) -> Rows:
    """The rows of DUPLICATES for papers, metadata or submissions of one or two tables, which may share ids: a record
    of a paper in both is one. Calls the stages `sketch_papers` and `find_duplicates`.
    """
    sketches = [sketch_papers(builder, table) for table in tables]
    return find_duplicates(builder, sketches[0], sketches[-1])


@stage(DUPLICATES, revision=1)
def find_duplicates(context: StageContext, sketches: AllRows, others: AllRows) -> Iterator[Row]:
    """Pairs of versions of one paper among the papers of both tables, by id; doubtful ones with the reason. `others`
    may be the same table.
    """
    for row in duplicates([*dict.fromkeys([*sketches.paths, *others.paths])], context.scratch()):
        context.count(row["verdict"], 1)
        yield row


def duplicates(paths: Sequence[str], scratch: Path) -> Iterator[Row]:
    """The rows of DUPLICATES among the rows of SKETCHES in these Parquet files, by first and second id. Of rows with
    the same paper_id the one with the longest text counts. Temporary files are written into `scratch`.
    """
    import pyarrow.parquet as pq

    if not paths:
        return
    spool, groups = scratch / "duplicates.parquet", Groups()
    with database(scratch) as connection, pq.ParquetWriter(spool, DUPLICATES) as writer:
        for rows in _compared(connection, paths):
            for row in rows:
                if row["verdict"] == "same":
                    groups.join(row["first_id"], row["second_id"])
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=DUPLICATES))
    for batch in read_batches(spool, PAIRS_AT_ONCE):
        for row in batch.to_pylist():
            yield {**row, "group_id": groups.smallest(row["first_id"]) if row["verdict"] == "same" else None}
    spool.unlink()


def _compared(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> Iterator[list[Row]]:
    """Rows of DUPLICATES, still without group, for the pairs that share a key and are the same or doubtful; by first
    and second id, up to PAIRS_AT_ONCE at a time.
    """
    connection.execute(_ONE_A_PAPER.format(files=read_parquet(paths) + " t"))
    connection.execute(_KEYS.format(least=LEAST_TRIPLES, hashes=BLOCKING_HASHES))
    connection.execute(_MEMBERS)
    connection.execute(_PAIRS.format(most=MOST_IN_BLOCK, common=LEAST_COMMON_HASHES))
    pairs = connection.cursor().execute("select distinct first, second from pairs order by all")
    while some := pairs.fetchmany(PAIRS_AT_ONCE):
        sketches = _sketches(connection, {paper_id for pair in some for paper_id in pair})
        yield [row for first, second in some if (row := row_of(sketches[first], sketches[second]))]


def _sketches(connection: duckdb.DuckDBPyConnection, paper_ids: Iterable[str]) -> dict[str, Row]:
    """paper_id -> its row of SKETCHES."""
    connection.register("wanted", pa.table({"paper_id": pa.array(sorted(paper_ids), pa.string())}))
    table = connection.sql("select * exclude (place) from papers semi join wanted using (paper_id)").to_arrow_table()
    return {row["paper_id"]: row for row in table.to_pylist()}


def row_of(first: Mapping[str, Any], second: Mapping[str, Any]) -> Row | None:
    """The row of DUPLICATES for two rows of SKETCHES, the one with the smaller id first, without group; None if
    nothing speaks for one paper.
    """
    pair = compared(first, second)
    found = verdict(pair)
    if found is None:
        return None
    return {
        "pair_id": f"{first['paper_id']}={second['paper_id']}",
        "first_id": first["paper_id"],
        "second_id": second["paper_id"],
        "verdict": found[0],
        "reason": found[1],
        "found_by": found_by(pair),
        "title_similarity": pair.title_similarity,
        "abstract_similarity": pair.abstract_similarity,
        "text_similarity": pair.text_similarity,
        "shared_authors": pair.shared_authors,
        "group_id": None,
    }


def found_by(pair: Compared) -> list[str]:
    """What is the same in two records: names of identifiers, then title, then text."""
    titled, texts = pair.titles == "equal" and pair.specific, pair.texts == "agree"
    return [*pair.identifiers, *(["title"] if titled else []), *(["text"] if texts else [])]


def duplicates_in_files(files: Sequence[Path], scratch: Path) -> Iterator[Row]:
    """The rows of DUPLICATES among all papers, metadata and submissions in these Parquet files, as `longform read --to`
    writes them; of several sources, too. UsageError for a file of other rows, SourceError for one that is no Parquet.
    """
    import pyarrow.parquet as pq

    sketches = scratch / "sketches.parquet"
    with pq.ParquetWriter(sketches, SKETCHES) as writer:
        for file in files:
            columns = [name for name in ("paper_id", "submission_id", *TEXTS) if name in _columns(file)]
            for batch in read_batches(file, PAPERS_AT_ONCE, columns):
                rows = [sketch_of(row) for row in batch.to_pylist()]
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=SKETCHES))
    yield from duplicates([str(sketches)], scratch)


def _columns(file: Path) -> list[str]:
    """The columns of a Parquet file of papers, metadata or submissions. UsageError if it holds something else,
    SourceError if it cannot be read.
    """
    import pyarrow.parquet as pq

    try:
        names: list[str] = pq.read_schema(file).names
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(
            f"{file} cannot be read as Parquet ({one_line(str(error))}): give files of `longform read --to`."
        ) from None
    if not ({"paper_id", "submission_id"} & set(names) and {"title", "authors", "abstract"} <= set(names)):
        raise UsageError(
            f"{file} holds no papers: give tables of papers, metadata or submissions, as `longform read SOURCE "
            "PATH --to DIR` writes them."
        )
    return names


class Groups:
    """Groups of ids that pairs link, directly or through others (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def join(self, first: str, second: str) -> None:
        """Make one group of the groups of these two ids."""
        small, large = sorted((self.smallest(first), self.smallest(second)))
        self._parents[large] = small

    def smallest(self, name: str) -> str:
        """The smallest id of the group; the id itself if it is in none."""
        while (parent := self._parents.get(name, name)) != name:
            self._parents[name] = self._parents.get(parent, parent)
            name = parent
        return name
