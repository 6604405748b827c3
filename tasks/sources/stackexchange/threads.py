"""Users of a Stack Exchange dump, and questions joined with their answers, out of core, under their authors' names.

    <row Id="7" Reputation="101" CreationDate="2014-01-21T15:02:40.313" DisplayName="Hop &amp; Ale"
         WebsiteUrl="http://hop.example" Location="Ghent" AboutMe="&lt;p&gt;…" Views="3" AccountId="81" />

Of Users.xml only id and display name are read, which attribution needs: all else in it (location, website, what people
say of themselves) is personal and never read into a row. Posts.xml names users by number. Deleted users have no row
here: their posts carry a name of their own. Answers may come before their question, or without one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from lxml import etree

from longform.artifacts.rows import Rejected, Shard, Source, read_parquet
from longform.engine.stage import AtMost, PerGroup, StageContext, stage
from schemas.sources.stackexchange import POSTS, THREADS, USERS
from tasks.sources.files.batches import batch_of, batched, counted
from tasks.sources.files.hash_join import in_lists, joined
from tasks.sources.files.inputs import RAW_CHARS
from tasks.sources.stackexchange.tables import open_beside, parse_row, read_rows, row_parser, table_bytes

TABLE = "users"
LEAST_USER = '<row Id="1" DisplayName="a"/>'
BATCH_ROWS = 10_000
WITHOUT_QUESTION = "question taken down"
_COMPARED = ", ".join("left(text, 1000), md5(text)" if name == "text" else name for name in POSTS.names)


# ---------------------------------------------------------------- users


def open_users(dumps: Iterable[Source], digest: Callable[[Path], str]) -> list[Source]:
    """The sources of the users for these dumps of posts, see `open_beside`."""
    return open_beside(dumps, TABLE, digest)


@stage(
    USERS,
    revision=1,
    at_most=AtMost(bytes=lambda of: table_bytes(of["dumps"], TABLE), rows=lambda of: of.bytes / len(LEAST_USER) + 1),
)
def read_users(context: StageContext, dumps: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """The ids and display names of a site's users, and a Rejected (a defect) for every row without them."""
    found = parse_users(read_rows(dumps, TABLE), site=dumps.source.group)
    users = (user if isinstance(user, Rejected) else (user, 1) for user in found)
    yield from counted(context, batched(users, lambda names: batch_of(names, USERS), rows=BATCH_ROWS))


def parse_users(rows: Iterable[bytes], *, site: str) -> Iterator[tuple[str, str] | Rejected]:
    """(user_id, name) for each XML row, and a Rejected (a defect) for every row without an id or a display name.

    A user_id is <site>/u<number>. Nothing else of a row, which is personal, is kept, not even in a Rejected.
    """
    parser = row_parser()
    for row in rows:
        try:
            element, _ = parse_row(row, parser)
        except etree.XMLSyntaxError as error:
            yield Rejected(_unknown(row, site), "defect", "unreadable row", str(error))
        else:
            number, name = element.get("Id", ""), " ".join(element.get("DisplayName", "").split())
            if not number.lstrip("-").isdecimal():
                yield Rejected(_unknown(row, site), "defect", "missing or ill-formed Id")
            elif not name:
                yield Rejected(f"{site}/u{number}", "defect", "missing or ill-formed DisplayName")
            else:
                yield f"{site}/u{number}", name


def named(posts: pa.RecordBatch, users: Sequence[str], memory_limit_mb: int) -> pa.RecordBatch:
    """The posts of one site, with the author's display name from the files `users` where a post has none.

    It stays null if the files do not have the author either.
    """
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
    """The key of a row without a readable id: the site and a hash of the row."""
    return f"{site}/u?{xxhash.xxh3_64_hexdigest(row)}"


# ---------------------------------------------------------------- threads


def threads(
    paths: list[str],
    scratch: Path,
    *,
    users: Sequence[str] = (),
    takedowns: Collection[str] = (),
    memory_limit_mb: int = 512,
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of THREADS in order of (question_hash, question_id), from the posts of one site in any order.

    The answers to a question are in order of votes, most first, then of number. `paths`: files of POSTS; `users`: files
    of USERS, for the display names of authors that a post names by number. Of posts with one id the first by all
    columns stays; the others, and answers without a question, become Rejected (defects), answers to a question that is
    one of `takedowns` filtered ones without text. What memory does not hold is written to `scratch`.
    """
    listed = pa.array(sorted(takedowns), pa.string())
    yield from joined(
        paths,
        scratch,
        POSTS,
        same="number",
        keep_order=_COMPARED,
        kind="question",
        leave_out=_rejected,
        masks=lambda posts: {WITHOUT_QUESTION: pc.is_in(posts["question_id"], value_set=listed)},
        complete=lambda posts: named(posts, users, memory_limit_mb) if users else posts,
        nest=_threads,
        orphan_reason="orphan answer",
        memory_limit_mb=memory_limit_mb,
    )


def _rejected(posts: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    """A Rejected for each of the posts: filtered if its question is taken down, else a defect with the beginning of its
    text.
    """
    if reason == WITHOUT_QUESTION:
        yield from (Rejected(key, "filtered", reason) for key in posts["post_id"].to_pylist())
        return
    for key, text in zip(posts["post_id"].to_pylist(), posts["text"].to_pylist(), strict=True):
        yield Rejected(key, "defect", reason, raw=text[:RAW_CHARS])


def _threads(questions: pa.RecordBatch, answers: pa.RecordBatch, counts: np.ndarray) -> pa.RecordBatch:
    """The batch of THREADS for `questions`.

    `answers`: those of all of them, in order; `counts`: how many of each question.
    """
    accepted = questions["accepted_id"].take(pa.array(np.repeat(np.arange(len(questions)), counts)))
    own = {name: answers[name] for name in POSTS.names}
    own |= {"answer_id": own["post_id"], "accepted": pc.fill_null(pc.equal(own["post_id"], accepted), False)}
    lists = in_lists(own, counts, THREADS.field("answers").type)
    columns = [lists if name == "answers" else questions[name] for name in THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=THREADS)


@stage(THREADS, revision=1, at_most=AtMost(rows=lambda of: of["posts"]))
def join_threads(
    context: StageContext, posts: PerGroup, users: PerGroup, *, takedowns: Collection[str] = ()
) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions with their answers, in whatever order these came, authors with their names if these are known.

    Repeated posts and answers without a question are Rejected (defects); answers to a question that is one of
    `takedowns` are filtered.
    """
    yield from threads(posts.paths, context.scratch(), users=users.paths, takedowns=takedowns)
