"""Questions that a Stack Exchange site closed as duplicates: by PostLinks.xml, and by the banner in old questions.

    <row Id="518" CreationDate="2018-05-20T17:02:28.207" PostId="79" RelatedPostId="119" LinkTypeId="3" />

LinkTypeId 3 says that PostId is a duplicate of RelatedPostId, 1 only that its text links it. Rows are in no order, and
either post may be deleted, or be linked twice. Until 2013 the site wrote into the text of what it closed instead, for
which PostLinks.xml has no more than a link of type 1:

    > **Possible Duplicate:**
    > [Write an Elevator Pitch](https://cstheory.meta.stackexchange.com/questions/463/write-an-elevator-pitch-tagline)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from lxml import etree

from longform.artifacts.parts import key_hash
from longform.artifacts.rows import Rejected, Shard, Source, read_parquet
from longform.engine.stage import AtMost, PerGroup, Rows, StageContext, stage
from schemas.sources.stackexchange import DUPLICATES, LINKS
from tasks.sources.files.batches import batch_of, batched, counted
from tasks.sources.files.inputs import raw_text
from tasks.sources.stackexchange.posts import host_of_today
from tasks.sources.stackexchange.tables import (
    POSTLINKS,
    milliseconds,
    moment_of,
    open_beside,
    parse_row,
    read_rows,
    row_parser,
    table_bytes,
)

DUPLICATE = "3"
SHORTEST_ROW = '<row Id="1" PostId="1" LinkTypeId="3"/>'
BATCH_ROWS = 10_000
MEMORY_LIMIT_MB = 512
MOST_NAMED = 10  # originals that a banner names
BANNER = "> **Possible Duplicate"

_ID = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_QUESTION = re.compile(
    r"\]\((?:https?://(?P<host>[\w.-]+))?/q(?:uestions)?/(?P<number>[1-9][0-9]{0,17})(?=[/?#)])", re.ASCII
)

Link = tuple[str, str, str, int]


def open_links(dumps: Iterable[Source], digest: Callable[[Path], str]) -> list[Source]:
    """The sources of the links between posts for these dumps of posts, see `open_beside`."""
    return open_beside(dumps, POSTLINKS, digest)


@stage(
    LINKS,
    revision=1,
    at_most=AtMost(
        bytes=lambda of: table_bytes(of["dumps"], POSTLINKS), rows=lambda of: of.bytes / len(SHORTEST_ROW) + 1
    ),
)
def read_links(context: StageContext, dumps: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """The questions that a site closed as duplicates of others, one row a link, and a Rejected for every other row.

    Neither question need be in the dump, and the same two may be linked again: see `join_duplicates`.
    """
    found = parse_links(read_rows(dumps, POSTLINKS), site=dumps.source.group)
    links = (link if isinstance(link, Rejected) else (link, 1) for link in found)
    yield from counted(context, batched(links, lambda some: batch_of(some, LINKS), rows=BATCH_ROWS))


def parse_links(rows: Iterable[bytes], *, site: str) -> Iterator[Link | Rejected]:
    """(link_id, question_id, duplicate_of, created) for each XML row that links a duplicate with its original, and a
    Rejected for every other row: filtered if it is a link of another kind, else a defect.

    created: milliseconds since 1970.
    """
    parser = row_parser()
    for row in rows:
        try:
            element, _ = parse_row(row, parser)
        except etree.XMLSyntaxError as error:
            yield Rejected(_unknown(row, site), "defect", "unreadable row", str(error), raw_text(row))
        else:
            yield _link(element.get, row, site)


def _link(get: Callable[..., str], row: bytes, site: str) -> Link | Rejected:
    """The link of a row, or the Rejected for it. `get`: the `get` of the row's XML element."""
    number, kind = get("Id", ""), get("LinkTypeId", "")
    key = f"{site}/l{number}" if _ID.fullmatch(number) else _unknown(row, site)
    if kind.isdecimal() and kind != DUPLICATE:
        return Rejected(key, "filtered", "not a duplicate", f"LinkTypeId {kind}")
    question, original, created = get("PostId", ""), get("RelatedPostId", ""), moment_of(get("CreationDate", ""))
    checks = (
        ("LinkTypeId", kind == DUPLICATE),
        ("Id", _ID.fullmatch(number)),
        ("PostId", _ID.fullmatch(question)),
        ("RelatedPostId", _ID.fullmatch(original)),
    )
    wrong = next((name for name, fine in checks if not fine), None)
    if wrong or created is None:
        reason = f"missing or ill-formed {wrong or 'CreationDate'}"
    elif question == original:
        reason = "duplicate of itself"
    else:
        return key, f"{site}/{question}", f"{site}/{original}", milliseconds(created)
    return Rejected(key, "defect", reason, None, raw_text(row))


def _unknown(row: bytes, site: str) -> str:
    """The key of a row without a readable id: the site and a hash of the row."""
    return f"{site}/l?{xxhash.xxh3_64_hexdigest(row)}"


# ---------------------------------------------------------------- duplicates


@stage(DUPLICATES, revision=1, at_most=AtMost(rows=lambda of: of["links"] + MOST_NAMED * of["posts"]))
def join_duplicates(context: StageContext, posts: PerGroup, links: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """The questions of a site that it closed as duplicates, each once with each of its originals, by hash of
    question_id: those that are linked, and those whose text begins with the banner.

    A Rejected for a link that another one repeats (the earliest stays), and for one of which neither question is among
    the posts. Either may be missing: two duplicates of a question that is not there are duplicates of each other.
    """
    found = _joined(links.table(), _named(posts), posts.paths, context.scratch())
    hashes = np.array([key_hash(key) for key in found["question_id"].to_pylist()], np.uint64)
    found = found.take(np.argsort(hashes, kind="stable"))
    for reason in ("repeated link", "no such question"):
        left_out = found.filter(pc.equal(found["reason"], reason))["link_id"].drop_null()
        yield from (Rejected(key, "filtered", reason) for key in left_out.to_pylist())
    kept = found.filter(pc.is_null(found["reason"]))
    ids = pc.binary_join_element_wise(kept["question_id"], kept["duplicate_of"], " ")
    columns = [ids if field.name == "duplicate_id" else kept[field.name].cast(field.type) for field in DUPLICATES]
    yield from pa.Table.from_arrays(columns, schema=DUPLICATES).to_batches(BATCH_ROWS)


def _joined(linked: pa.Table, named: pa.Table, posts: list[str], scratch: Path) -> pa.Table:
    """All rows of `linked` and `named`, by question, original, time and link, with one more column: `reason`, why a row
    is left out, else null. `posts`: files of POSTS.
    """
    import duckdb

    query = f"""
        with pairs as (select * from linked union all select * from named),
        ends as (select question_id as post_id from pairs union select duplicate_of from pairs),
        known as (
            select distinct post_id from {read_parquet(posts)} semi join ends using (post_id) where kind = 'question'
        )
        select pairs.*, case
            when one.post_id is null and other.post_id is null then 'no such question'
            when row_number() over (partition by question_id, duplicate_of order by created, link_id) > 1
            then 'repeated link' end as reason
        from pairs
        left join known one on question_id = one.post_id
        left join known other on duplicate_of = other.post_id
        order by question_id, duplicate_of, created, link_id
    """
    with duckdb.connect(config={"memory_limit": f"{MEMORY_LIMIT_MB}MB", "temp_directory": str(scratch)}) as database:
        database.execute("SET threads = 1")
        database.register("linked", linked)
        database.register("named", named)
        database.execute("SET TimeZone = 'UTC'")
        return database.sql(query).to_arrow_table()


def _named(posts: Rows) -> pa.Table:
    """A table of LINKS with what the banners of closed questions say; link_id and created are null."""
    ends: tuple[list[str], list[str]] = ([], [])
    for batch in posts.batches(["question_id", "kind", "closed", "site", "text"]):
        asked = pc.and_(batch["closed"], pc.equal(batch["kind"], "question"))
        for row in batch.filter(pc.and_(asked, pc.starts_with(batch["text"], BANNER))).to_pylist():
            for original in named_originals(row["text"], row["site"]):
                if original != row["question_id"]:
                    ends[0].append(row["question_id"])
                    ends[1].append(original)
    nulls = {name: pa.nulls(len(ends[0]), LINKS.field(name).type) for name in ("link_id", "created")}
    return pa.table({**nulls, "question_id": ends[0], "duplicate_of": ends[1]}).select(LINKS.names)


def named_originals(text: str, site: str) -> list[str]:
    """The ids of the questions of the site `site` that the banner names with which a text in Markdown begins, in order,
    each once, at most MOST_NAMED; empty without a banner.
    """
    if not text.startswith(BANNER):
        return []
    lines = takewhile(lambda line: line.startswith(">"), text.split("\n"))
    links = (link for line in lines for link in _QUESTION.finditer(line))
    own = (link["number"] for link in links if link["host"] is None or host_of_today(link["host"].lower()) == site)
    return [f"{site}/{number}" for number in dict.fromkeys(islice(own, MOST_NAMED))]
