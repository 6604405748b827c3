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

from longform.artifacts.takedowns import load
from tasks.sources.home_tables import Table, rows_of, tables_of
from tasks.sources.papers.paper_ids import PAPER_GROUPS, papers_meant
from tasks.sources.permalinks import ids_of_address, ids_with_former

AUTHOR = "author/"
_STACKEXCHANGE = {"post_id", "site", "author_id", "author"}
_DOCUMENTS = {"passage_id", "url", "text", "start"}
_REDDIT = {"post_id", "subreddit", "author_id"}
_AUTHORS = (
    (_STACKEXCHANGE, ("site || '/' || author_id", "site || '/' || author")),
    (_REDDIT, ("author_id",)),
)
_NO_ADDRESS = ("author/", "filename/", "sha256/", "file/", "title/")
_VERSIONS = {"first_id", "second_id", "verdict", "group_id", "found_by"}


def rows_reached(home: Path, ids: Iterable[str]) -> dict[str, list[str]]:
    """id -> keys of the rows of a home's stages that a takedown of it leaves out, sorted; [] where it names no row. An
    author's are papers and posts.
    """
    ids = list(dict.fromkeys(ids))
    keys = [name for name in ids if name.split("/", 1)[0] not in PAPER_GROUPS]
    parts = papers_meant(home, ids), _rows_named(home, keys, ids), _passages(home, ids)
    return {name: sorted({key for found in parts for key in found.get(name, ())}) for name in ids}


def posts_of_authors(home: Path, ids: Iterable[str]) -> dict[str, list[str]]:
    """author id -> ids of the posts of Stack Exchange and Reddit by this author, sorted, as the rows of a home's stages
    say. Ids of other things, and authors of no post, are left out.
    """
    return {author: sorted(posts) for author, posts in _rows_named(home, [], ids).items()}


def other_versions(home: Path, ids: Collection[str]) -> list[str]:
    """The ids of the papers that a home's tables of duplicates say are versions of one of these papers (not those that
    are doubtful), sorted, without these and those that are taken down.
    """
    query = (
        "WITH pairs AS (SELECT filename, group_id, first_id, second_id FROM {} WHERE verdict = 'same'), "
        "groups AS (SELECT DISTINCT filename, group_id FROM pairs "
        "WHERE first_id IN (FROM listed) OR second_id IN (FROM listed)) "
        "SELECT DISTINCT unnest([first_id, second_id]) FROM pairs SEMI JOIN groups USING (filename, group_id)"
    )
    tables = [table for table in tables_of(home) if table.has(_VERSIONS)] if ids else []
    found = {name for table in tables for (name,) in rows_of(query, table.paths, ids)}
    return sorted(found - set(ids) - {takedown.id for takedown in load(home)})


def _rows_named(home: Path, keys: Collection[str], authors: Iterable[str]) -> dict[str, set[str]]:
    """id -> the keys of the rows that have one of `keys`, and the ids of the posts by one of `authors` (what is no
    author/... among these is left out), all of them looked for in one read of each table.
    """
    names = {former: name for name in keys for former in ids_with_former(name)}
    asked = {
        f"{AUTHOR}{name}": author
        for author in authors
        if author.startswith(AUTHOR)
        for name in ids_with_former(author[7:])
    }
    found: dict[str, set[str]] = {}
    for table in tables_of(home) if names or asked else []:
        if query := _query_of(table, bool(names), bool(asked)):
            for name, post in rows_of(query, table.paths, {*names, *asked}):
                if name in names:
                    found.setdefault(names[name], set()).add(name)
                elif post is not None:
                    found.setdefault(asked[name], set()).add(post)
    return found


def _query_of(table: Table, by_key: bool, by_author: bool) -> str | None:
    """The query of (listed id, post) for the rows of a table that are named: by their key, which is its first column,
    and then without a post if it is none of posts, or by the author of a post. None if it has neither.
    """
    key = table.schema.field(0)
    keyed = by_key and key.name.endswith("_id") and (pa.types.is_string(key.type) or pa.types.is_large_string(key.type))
    names = [name for columns, of in _AUTHORS if by_author and table.has(columns) for name in of]
    if not names:
        query = f'SELECT DISTINCT id, NULL FROM listed JOIN {{}} ON id = "{key.name}"'
        return query if keyed else None
    listed = ", ".join([*(f"'author/' || lower({name})" for name in names), *([f'"{key.name}"'] if keyed else [])])
    return (
        f"SELECT DISTINCT id, post_id FROM (SELECT post_id, unnest([{listed}]) AS name FROM {{}}) "
        "JOIN listed ON id = name"
    )


def _passages(home: Path, ids: Collection[str]) -> dict[str, set[str]]:
    """id -> ids of the passages of documents (pages of the web, papers, posts) whose address stands for it."""
    wanted, found = {name for name in ids if not name.startswith(_NO_ADDRESS)}, dict[str, set[str]]()
    for table in tables_of(home) if wanted else []:
        if table.has(_DOCUMENTS):
            meant = _addresses(table, wanted)
            query = "SELECT DISTINCT url, passage_id FROM {} WHERE url IN (FROM listed)"
            for url, passage in rows_of(query, table.paths, meant) if meant else ():
                for name in meant[url]:
                    found.setdefault(name, set()).add(passage)
    return found


def _addresses(table: Table, ids: set[str]) -> dict[str, set[str]]:
    """address -> those of the ids that it stands for, for the addresses in a table of documents that have any."""
    found: dict[str, set[str]] = {}
    for (url,) in rows_of("SELECT DISTINCT url FROM {} WHERE url IS NOT NULL", table.paths):
        if names := ids.intersection(ids_of_address(url)):
            found[url] = names
    return found
