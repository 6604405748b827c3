"""Users.xml of a Stack Exchange dump: of each user the id and the display name, which attribution needs.

    <row Id="7" Reputation="101" CreationDate="2014-01-21T15:02:40.313" DisplayName="Hop &amp; Ale"
         WebsiteUrl="http://hop.example" Location="Ghent" AboutMe="&lt;p&gt;…" Views="3" AccountId="81" />

All else in it (location, website, what people say of themselves) is personal and never read into a row.
Posts.xml names users by number. Deleted users have no row here: their posts carry a name of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from lxml import etree

from longform.artifacts.rows import Rejected, Shard, Source, read_parquet
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.stackexchange import USERS
from tasks.sources.files import archives
from tasks.sources.files.batches import batch_of, batched, counted
from tasks.sources.stackexchange.posts import PIECE_BYTES, is_archive, ranges
from tasks.sources.stackexchange.tables import check_table, file_name, parse_row, read_rows, row_parser, table_bytes

TABLE = "users"
LEAST_USER = '<row Id="1" DisplayName="a"/>'
BATCH_ROWS = 10_000


def open_users(dumps: Iterable[Source], digest: Callable[[Path], str]) -> list[Source]:
    """The users of these dumps of posts, where they stand in the same archive or beside the file of posts."""
    found = ((dump, _users_file(Path(dump.path))) for dump in dumps)
    return [_source(dump, file, digest) for dump, file in found if file is not None]


def _users_file(posts: Path) -> Path | None:
    """Users.xml beside Posts.xml, `x-Users.7z` beside `x-Posts.7z`, or the archive that holds both."""
    if not is_archive(posts):
        return _beside(posts, file_name(TABLE))
    if posts.stem.lower().endswith("-posts"):
        return _beside(posts, f"{posts.stem[:-6]}-Users.7z")
    return posts if archives.holds(posts, file_name(TABLE)) else None


def _beside(file: Path, name: str) -> Path | None:
    return next((other for other in sorted(file.parent.iterdir()) if other.name.lower() == name.lower()), None)


def _source(dump: Source, file: Path, digest: Callable[[Path], str]) -> Source:
    if is_archive(file):
        archives.check(file, file_name(TABLE))
        return Source(dump.group, str(file), digest(file), (("table", TABLE),), ((0, -1),))
    check_table(file, TABLE)
    return Source(dump.group, str(file), digest(file), (("table", TABLE),), ranges(file.stat().st_size, PIECE_BYTES))


@stage(
    USERS,
    revision=1,
    at_most=AtMost(bytes=lambda of: table_bytes(of["dumps"], TABLE), rows=lambda of: of.bytes / len(LEAST_USER) + 1),
)
def read_users(context: StageContext, dumps: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """The display names of a site's users."""
    found = parse_users(read_rows(dumps, TABLE), site=dumps.source.group)
    users = (user if isinstance(user, Rejected) else (user, 1) for user in found)
    yield from counted(context, batched(users, lambda names: batch_of(names, USERS), rows=BATCH_ROWS))


def parse_users(rows: Iterable[bytes], *, site: str) -> Iterator[tuple[str, str] | Rejected]:
    """(user_id, name) of each row, and a Rejected for every row without them. Raw text is kept of neither."""
    parser = row_parser()
    for row in rows:
        try:
            element, _ = parse_row(row, parser)
        except etree.XMLSyntaxError as error:
            yield Rejected(_unknown(row, site), "defect", "unreadable row", str(error))
            continue
        number, name = element.get("Id", ""), " ".join(element.get("DisplayName", "").split())
        if not number.lstrip("-").isdecimal():
            yield Rejected(_unknown(row, site), "defect", "missing or ill-formed Id")
        elif not name:
            yield Rejected(f"{site}/u{number}", "defect", "missing or ill-formed DisplayName")
        else:
            yield f"{site}/u{number}", name


def named(posts: pa.RecordBatch, users: Sequence[str], memory_limit_mb: int) -> pa.RecordBatch:
    """Posts of one site, with the display name of the author where they carry none and the files of users have one."""
    import duckdb

    keys = pc.binary_join_element_wise(posts["site"], posts["author_id"], "/u")
    wanted = pa.table({"user_id": keys.unique().drop_null()})
    with duckdb.connect(config={"memory_limit": f"{memory_limit_mb}MB", "threads": 1}) as database:
        database.register("wanted", wanted)
        query = f"SELECT user_id, any_value(name) AS name FROM {read_parquet(users)} SEMI JOIN wanted USING (user_id)"
        found = database.sql(f"{query} GROUP BY user_id").to_arrow_table()
    names = found["name"].combine_chunks().take(pc.index_in(keys, found["user_id"].combine_chunks()))
    place = posts.schema.get_field_index("author")
    return posts.set_column(place, posts.schema.field(place), pc.coalesce(posts["author"], names))


def _unknown(row: bytes, site: str) -> str:
    return f"{site}/u?{xxhash.xxh3_64_hexdigest(row)}"
