"""Questions joined with their answers, out of core: answers may come before their question, or without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected
from longform.engine.stage import AtMost, PerGroup, StageContext, stage
from schemas.sources.stackexchange import POSTS, THREADS
from tasks.sources.files.found import RAW_CHARS
from tasks.sources.files.ranges import THREAD_ORDER, Ranges, families, in_lists, marked, number_of_ranges, repeated
from tasks.sources.stackexchange.posts import BATCH_ROWS
from tasks.sources.stackexchange.users import named

_COMPARED = ", ".join("left(text, 1000), md5(text)" if name == "text" else name for name in POSTS.names)


def threads(
    paths: list[str], scratch: Path, *, users: Sequence[str] = (), memory_limit_mb: int = 512
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of THREADS in order of (question_hash, question_id), from the posts of one site in any order.

    `users`: files of USERS, from which authors that a post names by number get their display names.
    Bodies are sorted in two steps, so that memory has a bound and disk is read twice at most: into ranges of the
    hash, in `scratch`, then each range in memory. Of posts with one id the first by all columns stays.
    """
    again = repeated(paths, scratch, same="number", first=_COMPARED, memory_limit_mb=memory_limit_mb)
    ranges = Ranges(POSTS, scratch, number_of_ranges(paths, memory_limit_mb), memory_limit_mb << 18)
    for path in paths:
        for batch, is_repeated in marked(path, POSTS, again[path], BATCH_ROWS):
            yield from _rejected(batch.filter(is_repeated), "duplicate id")
            ranges.add(batch.filter(pc.invert(is_repeated)))
    for table in ranges.tables():
        (sorted_posts,) = table.sort_by(THREAD_ORDER).combine_chunks().to_batches()
        yield from _nest(named(sorted_posts, users, memory_limit_mb) if users else sorted_posts)


def _nest(posts: pa.RecordBatch) -> Iterator[pa.RecordBatch | Rejected]:
    """Threads, of sorted posts whose groups are whole and begin with the question."""
    orphans, families_of = families(posts, "question", BATCH_ROWS)
    yield from _rejected(orphans, "orphan answer")
    for questions, answers, counts in families_of:
        yield _threads(questions, answers, counts)


def _rejected(posts: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    for key, text in zip(posts["post_id"].to_pylist(), posts["text"].to_pylist(), strict=True):
        yield Rejected(key, "defect", reason, raw=text[:RAW_CHARS])


def _threads(questions: pa.RecordBatch, answers: pa.RecordBatch, counts: np.ndarray) -> pa.RecordBatch:
    accepted = questions["accepted_id"].take(pa.array(np.repeat(np.arange(len(questions)), counts)))
    own = {name: answers[name] for name in POSTS.names}
    own |= {"answer_id": own["post_id"], "accepted": pc.fill_null(pc.equal(own["post_id"], accepted), False)}
    lists = in_lists(own, counts, THREADS.field("answers").type)
    columns = [lists if name == "answers" else questions[name] for name in THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=THREADS)


@stage(THREADS, revision=1, at_most=AtMost(rows=lambda of: of["posts"]))
def join_threads(context: StageContext, posts: PerGroup, users: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """Questions with their answers, in whatever order these came, authors with their names where these are known."""
    yield from threads(posts.paths, context.scratch(), users=users.paths)
