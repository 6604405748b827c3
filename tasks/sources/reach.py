"""What the ids of a takedown reach in a home: rows of its stages, posts of an author, other versions of a paper.

Papers name their authors, posts only ids of them, so that posts are taken down one by one:

    author/cooking.stackexchange.com/1084    posts of user 1084 of a Stack Exchange site
    author/cooking.stackexchange.com/ann     posts whose row carries this name, as those of deleted users do
    author/9c0b5e71d2…                       Reddit: posts with this author_id, a keyed hash
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa

from longform.artifacts.rows import read_parquet
from longform.artifacts.takedowns import load
from tasks.sources.papers.paper_ids import PAPER_GROUPS, papers_meant
from tasks.sources.permalinks import ids_of_address, ids_with_former

AUTHOR = "author/"
_STACKEXCHANGE = {"post_id", "site", "author_id", "author"}
_DOCUMENTS = {"passage_id", "url", "text", "start"}
_REDDIT = {"post_id", "subreddit", "author_id"}
_VERSIONS = {"first_id", "second_id", "verdict", "group_id", "found_by"}


def rows_reached(home: Path, ids: Iterable[str]) -> dict[str, list[str]]:
    """id -> keys of the rows of a home's stages that a takedown of it leaves out, sorted; [] where it names no row. An
    author's are papers and posts.
    """
    ids = list(dict.fromkeys(ids))
    found = papers_meant(home, ids)
    for author, posts in posts_of_authors(home, ids).items():
        found.setdefault(author, set()).update(posts)
    names = {former: name for name in ids for former in ids_with_former(name)}
    for former in _keys(home, [name for name in names if name.split("/", 1)[0] not in PAPER_GROUPS]):
        found.setdefault(names[former], set()).add(former)
    for name, passages in _passages(home, ids).items():
        found.setdefault(name, set()).update(passages)
    return {name: sorted(found.get(name, ())) for name in ids}


def posts_of_authors(home: Path, ids: Iterable[str]) -> dict[str, list[str]]:
    """author id -> ids of the posts of Stack Exchange and Reddit by this author, sorted, as the rows of a home's stages
    say. Ids of other things, and authors of no post, are left out.
    """
    asked = {
        f"{AUTHOR}{name}": author for author in ids if author.startswith(AUTHOR) for name in ids_with_former(author[7:])
    }
    found: dict[str, set[str]] = {}
    if not asked:
        return {}
    for paths, names in (
        (_tables(home, _STACKEXCHANGE), "[site || '/' || author_id, site || '/' || author]"),
        (_tables(home, _REDDIT), "[author_id]"),
    ):
        query = (
            f"SELECT DISTINCT id, post_id FROM (SELECT post_id, unnest({names}) AS name FROM {{}}) "
            "JOIN listed ON id = 'author/' || lower(name)"
        )
        for author, post in _select(query, paths, asked):
            found.setdefault(asked[author], set()).add(post)
    return {author: sorted(posts) for author, posts in found.items()}


def other_versions(home: Path, ids: Collection[str]) -> list[str]:
    """The ids of the papers that a home's tables of duplicates say are versions of one of these papers (not those that
    are doubtful), sorted, without these and those that are taken down.
    """
    query = (
        "WITH pairs AS (SELECT * FROM {} WHERE verdict = 'same'), groups AS (SELECT DISTINCT group_id FROM pairs "
        "WHERE first_id IN (FROM listed) OR second_id IN (FROM listed)) "
        "SELECT DISTINCT unnest([first_id, second_id]) FROM pairs SEMI JOIN groups USING (group_id)"
    )
    found = {name for (name,) in _select(query, _tables(home, _VERSIONS), ids)}
    return sorted(found - set(ids) - {takedown.id for takedown in load(home)})


def _keys(home: Path, ids: Collection[str]) -> set[str]:
    """Those of the ids that are the key of a row of a home's stages, which is the first column of its table."""
    import pyarrow.parquet as pq

    by_key: dict[str, list[Path]] = {}
    for path in _rows(home) if ids else []:
        key = pq.read_schema(path).names[0]
        if key.endswith("_id"):
            by_key.setdefault(key, []).append(path)
    found: set[str] = set()
    for key, paths in by_key.items():
        query = f'SELECT id FROM listed SEMI JOIN (SELECT "{key}" AS id FROM {{}}) USING (id)'
        found |= {name for (name,) in _select(query, paths, ids)}
    return found


def _passages(home: Path, ids: Collection[str]) -> dict[str, set[str]]:
    """id -> ids of the passages of documents (pages of the web, papers, posts) whose address stands for it."""
    wanted, found = set(ids), dict[str, set[str]]()
    for passage, url in _rows_of("SELECT passage_id, url FROM {}", _tables(home, _DOCUMENTS)):
        for name in wanted.intersection(ids_of_address(url)):
            found.setdefault(name, set()).add(passage)
    return found


def _rows(home: Path) -> list[Path]:
    """The Parquet files with the rows of a home's stages."""
    return sorted((home / "stages").glob("*/parts/[!.]*/rows.parquet"))


def _tables(home: Path, columns: Collection[str]) -> list[Path]:
    """Those of `_rows` that have all these columns."""
    import pyarrow.parquet as pq

    return [path for path in _rows(home) if set(columns) <= set(pq.read_schema(path).names)]


def _select(query: str, paths: list[Path], ids: Collection[str]) -> set[tuple[str, ...]]:
    """As `_rows_of`, with a table of the ids as `listed` in the query; no rows without ids."""
    return _rows_of(query, paths, pa.table({"id": sorted(ids)}, pa.schema([("id", pa.string())]))) if ids else set()


def _rows_of(query: str, paths: list[Path], listed: pa.Table | None = None) -> set[tuple[str, ...]]:
    """The rows of a DuckDB query of each of these Parquet files; in the query {} stands for the file, and `listed` for
    this table.
    """
    import duckdb

    if not paths:
        return set()
    with duckdb.connect(config={"memory_limit": "512MB"}) as database:
        if listed is not None:
            database.register("listed", listed)
        return {row for path in paths for row in database.execute(query.format(read_parquet([path]))).fetchall()}
