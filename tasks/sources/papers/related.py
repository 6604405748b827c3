"""Paragraphs on related work with the papers that they cite, and the look-up of these papers.

A reference of a bibliography is resolved to a paper by its link, if the source has one, else by its title. Titles are
compared without case, punctuation and white space; years may differ by one (preprints), an unknown year matches any.
Records with the same Anthology or corpus id are one paper; a title shared by more than one paper within these years is
not resolved, unless these are versions of one paper (preprint and camera-ready, two submissions, as
tasks.sources.papers.duplicates finds them): then to the one with the smallest id, of those with an abstract. If the
linked record has no abstract, a record with this title that has one is taken instead.

Papers and metadata may hold millions of records: they are read once, by columns, and only records that may be cited are
kept. An abstract of more than LONGEST_ABSTRACT characters counts as missing. Titles are joined by hash after grouping
their years, so that a title shared by many papers costs no more than others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from longform.artifacts.rows import Rejected, Row, Rows, read_parquet
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.papers import FROM_SUBMISSION, RELATED
from tasks.sources.papers.papers import related_work

if TYPE_CHECKING:
    import duckdb

PAPERS_AT_ONCE = 100
TITLE_CHARACTERS = 1_000
LONGEST_ABSTRACT = 20_000
OF_SUBMISSION = tuple(column.name for column in FROM_SUBMISSION)
COLUMNS = (
    "paper_id", "title", "abstract", "text", "sections", "paragraphs", "bibliography", "licence", "url", "retrieved_at",
    *OF_SUBMISSION,
)  # fmt: skip
NO_RELATED = "no paragraph on related work"


# ---------------------------------------------------------------- paragraphs


@stage(RELATED, revision=2, at_most=AtMost(rows=lambda of: of.bytes))  # a paragraph is a byte of its file or more
def related_paragraphs(context: StageContext, papers: Rows) -> Iterator[Row | Rejected]:
    """A row of RELATED for each paragraph of a paper whose section has the role `related_work`.

    Sub-sections of a section on related work have this role, too, unless their own heads say another. A row has the
    references that the paragraph cites. A Rejected for a paper that has no such paragraph.
    """
    for batch in papers.batches(list(COLUMNS), size=PAPERS_AT_ONCE):
        for paper in batch.to_pylist():
            found = paragraphs_of(paper)
            yield from found
            if not found:
                yield Rejected(paper["paper_id"], "filtered", NO_RELATED)


def paragraphs_of(paper: Mapping[str, Any]) -> list[Row]:
    """The rows of RELATED of a paper: its related-work paragraphs, in order; [] if it has none.

    `paper`: a row of PAPERS, with at least the columns COLUMNS. Each row has the bibliography entries that the
    paragraph cites, each once, in the order of the citations; a citation without an entry is left out. Of entries with
    the same id the first counts.
    """
    places = {id(paragraph): place for place, paragraph in enumerate(paper["paragraphs"])}
    entries = {entry["ref_id"]: entry for entry in reversed(paper["bibliography"])}
    return [  # of the bibliography the entries that a paragraph cites, each once, in the order of the citations
        {
            "related_id": f"{paper['paper_id']}#{places[id(paragraph)]}",
            "head": None if paragraph["section"] is None else paper["sections"][paragraph["section"]]["head"],
            "text": paper["text"][paragraph["start"] : paragraph["end"]],
            "references": [
                {name: entries[ref_id][name] for name in ("ref_id", "paper_id", "title", "year")}
                for ref_id in dict.fromkeys(citation["ref_id"] for citation in paragraph["citations"])
                if ref_id in entries
            ],
            **{name: paper[name] for name in ("paper_id", "title", "abstract", "licence", "url", "retrieved_at")},
            **{name: paper.get(name) for name in OF_SUBMISSION},
        }
        for paragraph in related_work(paper)
    ]


# ---------------------------------------------------------------- resolving references

FOLDED = (  # SQL: a title without case, punctuation and white space; null if nothing is left
    f"""nullif(regexp_replace(lower(left(nfc_normalize(title), {TITLE_CHARACTERS})), '[^\\pL\\pN]+', '', 'g'), '')"""
)
_ROWS = f"""select paper_id, corpus_id, acl_id, year, nullif(trim(title), '') as title,
    case when length(abstract) <= {LONGEST_ABSTRACT} then nullif(trim(abstract), '') end as abstract from {{files}}"""
_ASKED = f"""
    create temp table asked as
    select related_id, place, reference.paper_id as link, {FOLDED} as folded, reference.year as year
    from (select related_id, reference, reference.title as title, place from (
        select related_id, unnest("references") as reference, generate_subscripts("references", 1) as place
        from {{related}}))
"""
_KNOWN = f"""
    create temp table known as
    select *, coalesce('acl/' || acl_id, 's2/' || corpus_id, paper_id) as same, same as version
    from (select *, {FOLDED} as folded from ({{rows}}))
    where folded in (select distinct folded from asked where folded is not null)
        or paper_id in (select distinct link from asked where link is not null)
        or 's2/' || corpus_id in (select distinct link from asked where link is not null)
        or paper_id in (select distinct paper_id from {{related}})
"""
_VERSIONS = """
    update known set version = groups.group_id
    from (
        select same, min(group_id) as group_id
        from known join (
            select first_id as paper_id, group_id from {duplicates} union select second_id, group_id from {duplicates}
        ) using (paper_id)
        where group_id is not null group by same
    ) groups
    where known.same = groups.same
"""
# one row a paper, with the rows of `known` that hold its title and abstract; records that have an abstract come first.
# Sorting is by beginnings and digests, since whole texts to be sorted would have to fit into memory.
_PAPERS = """
    create temp table details as
    select same, min(version) as version, bool_and(bare) as bare, first(paper_id order by bare, paper_id) as paper_id,
        first(place order by untitled, bare, paper_id, heading, title_digest) as title_place,
        first(place order by bare, paper_id, opening, digest) as abstract_place
    from (
        select same, version, paper_id, rowid as place, title is null as untitled, left(title, 100) as heading,
            md5(title) as title_digest, abstract is null as bare, left(abstract, 100) as opening,
            md5(abstract) as digest
        from known)
    group by same
"""
_LINKED = """
    create temp table linked as
    select link, min(same) as same from (
        select paper_id as link, same from known union all select 's2/' || corpus_id, same from known
    ) where link is not null group by link
"""
_TITLED = """
    -- asked titles that fit exactly one known paper or its versions, years at most one apart
    create temp table titled as
    with years as (
        select folded, year, min(version) as first, max(version) as last,
            min({'bare': abstract is null, 'same': same}) as best
        from known where folded is not null
        group by folded, year
    ), wanted as (select distinct folded, year from asked where folded is not null)
    select wanted.folded, wanted.year, min(best).same as same
    from wanted join years on wanted.folded = years.folded
        and (wanted.year is null or years.year is null or abs(wanted.year - years.year) <= 1)
    group by wanted.folded, wanted.year having min(first) = max(last)
"""
_RESOLVED = """
    create temp table resolved as
    select related_id, place,
        case when by_title then titled_same else linked_same end as same,
        case when by_title then 'title' else 'link' end as how
    from (
        select related_id, place, linked.same as linked_same, titled.same as titled_same,
            titled.same is not null
            and (linked.same is null or (l.bare and not t.bare)) as by_title
        from asked
        left join linked on asked.link = linked.link
        left join titled on asked.folded = titled.folded and asked.year is not distinct from titled.year
        left join details l on l.same = linked.same
        left join details t on t.same = titled.same
    ) where linked_same is not null or titled_same is not null
"""


Texts = tuple[str | None, str | None]


def rows_of_query(connection: duckdb.DuckDBPyConnection, query: str, rows: Rows) -> list[Any]:
    """The result of a query in which {} stands for these rows; [] if there are none."""
    return connection.execute(query.format(read_parquet(rows.paths))).fetchall() if rows.paths else []


class Cited:
    """Looks up, with DuckDB, the papers that paragraphs cite (`cited_by`) and the papers' own texts (`own_texts`).

    `related`: rows of RELATED. `tables`: where papers are looked up: rows of PAPERS, METADATA or both; without any,
    nothing is found. `duplicates`: rows of DUPLICATES, which say what are versions of one paper. All references are
    resolved when the object is made, in temporary tables that it creates in `connection`: by link; by a title that only
    one paper has (years at most one apart) if the link leads to no paper, or to one without an abstract while the title
    leads to one with it.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, related: Rows, tables: Sequence[Rows], duplicates: Rows
    ) -> None:
        self.connection = connection
        files = [read_parquet(table.paths) for table in tables if table.paths]
        self.empty = not files or not related.paths
        if self.empty:
            return
        paragraphs = read_parquet(related.paths)
        connection.execute(_ASKED.format(related=paragraphs))
        rows = " union all ".join(_ROWS.format(files=one) for one in files)
        connection.execute(_KNOWN.format(rows=rows, related=paragraphs))
        if duplicates.paths:
            connection.execute(_VERSIONS.format(duplicates=read_parquet(duplicates.paths)))
        for query in (_PAPERS, _LINKED, _TITLED, _RESOLVED):
            connection.execute(query)

    def cited_by(self, related_ids: pa.Array) -> dict[str, list[Row]]:
        """related_id -> rows of CITED (dicts) for the papers its paragraph cites, in the order of the citations.

        Each paper is there once; `by` is "link" or "title". Papers without a title, and paragraphs for which no paper
        was found, are left out.
        """
        query = """
            select related_id, same, arg_min(how, place)
            from resolved semi join wanted using (related_id)
            group by related_id, same order by related_id, min(place)
        """
        pairs = self._rows_of(query, "related_id", related_ids)
        papers = self._papers(pa.array({same for _, same, _ in pairs}, pa.string()))
        found: dict[str, dict[str, Row]] = {}
        for related_id, same, how in pairs:
            paper = papers[same]
            if paper["title"] is not None:
                found.setdefault(related_id, {}).setdefault(paper["paper_id"], {**paper, "by": how})
        return {related_id: list(rows.values()) for related_id, rows in found.items()}

    def own_texts(self, paper_ids: pa.Array) -> dict[str, Row]:
        """paper_id -> {"title", "abstract", "version"} of the papers with these ids; a text is None if no record has
        it; `version` is the id that versions of a paper share.

        `paper_ids`: ids of papers that paragraphs of `related` are from. If records of a paper differ, the
        alphabetically first text is taken. Papers without a record are left out.
        """
        query = """
            select paper_id, min(title), min(abstract), min(version)
            from known semi join wanted using (paper_id) group by paper_id
        """
        rows = self._rows_of(query, "paper_id", paper_ids)
        return {paper_id: dict(zip(("title", "abstract", "version"), found, strict=True)) for paper_id, *found in rows}

    def _papers(self, same: pa.Array) -> dict[str, Row]:
        """The id that all records of a paper share -> {"paper_id", "title", "abstract", "version"} of that paper.

        `same`: the shared ids that are looked up.
        """
        query = "select same, version, paper_id, title_place, abstract_place from details semi join wanted using (same)"
        rows = self._rows_of(query, "same", same)
        texts = self._texts([place for _, _, _, *places in rows for place in places])
        return {
            same: {"paper_id": paper_id, "title": texts[title][0], "abstract": texts[abstract][1], "version": version}
            for same, version, paper_id, title, abstract in rows
        }

    def _texts(self, places: list[int]) -> dict[int, Texts]:
        """Row id in the table `known` -> (title, abstract) of that row, either may be None. `places`: the row ids."""
        query = "select place, title, abstract from known join wanted on known.rowid = wanted.place"
        rows = self._rows_of(query, "place", pa.array(places, pa.int64()))
        return {place: (title, abstract) for place, title, abstract in rows}

    def _rows_of(self, query: str, column: str, values: pa.Array) -> list[Any]:
        """The rows that a query returns; [] if there are no tables to search.

        The query may join `wanted`, a table of the distinct `values`, whose only column is named `column`.
        """
        if self.empty:
            return []
        self.connection.register("wanted", pa.table({column: values.unique()}))
        return self.connection.execute(query).fetchall()
