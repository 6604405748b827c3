"""Submissions joined with their top-level comments, out of core: a comment may stand in a later month's dump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected
from longform.engine.stage import PerGroup, StageContext, stage
from schemas.sources.reddit import ITEMS, REDDIT_THREADS
from tasks.sources.files.ranges import THREAD_ORDER, Ranges, families, in_lists, marked, number_of_ranges, repeated
from tasks.sources.reddit.dumps import BATCH_ROWS

_NEWEST = "seen_at desc nulls last, retrieved_at desc nulls last, votes, length(text), md5(text), title, created"


def threads(paths: list[str], scratch: Path, *, memory_limit_mb: int = 512) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of REDDIT_THREADS in order of (question_hash, question_id), from items in any order.

    Of items with one id the one that was read from Reddit last stays. Bodies are sorted in two steps: into ranges of
    the hash, in `scratch`, then each range in memory.
    """
    again = repeated(paths, scratch, same="kind, number", first=_NEWEST, memory_limit_mb=memory_limit_mb)
    ranges = Ranges(ITEMS, scratch, number_of_ranges(paths, memory_limit_mb), memory_limit_mb << 18)
    for path in paths:
        for batch, is_repeated in marked(path, ITEMS, again[path], BATCH_ROWS):
            yield from _left_out(batch.filter(is_repeated), "duplicate id")
            once = batch.filter(pc.invert(is_repeated))
            replies = pc.fill_null(pc.not_equal(once["parent_id"], once["question_id"]), False)
            yield from _left_out(once.filter(replies), "reply to a comment")
            ranges.add(once.filter(pc.invert(replies)))
    for table in ranges.tables():
        (items_in_order,) = table.sort_by(THREAD_ORDER).combine_chunks().to_batches()
        yield from _nest(items_in_order)


def _left_out(items: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    for key in items["post_id"].to_pylist():
        yield Rejected(key, "filtered", reason)


def _nest(items: pa.RecordBatch) -> Iterator[pa.RecordBatch | Rejected]:
    """Threads, of sorted items whose groups are whole and begin with the submission."""
    alone, families_of = families(items, "submission", BATCH_ROWS)
    yield from _left_out(alone, "no submission in these dumps")
    for questions, answers, counts in families_of:
        yield _threads(questions, answers, counts)


def _threads(questions: pa.RecordBatch, answers: pa.RecordBatch, counts: np.ndarray) -> pa.RecordBatch:
    own = {**{name: answers[name] for name in ITEMS.names}, "answer_id": answers["post_id"]}
    derived = {
        "site": pc.binary_join_element_wise("reddit.com/r/", questions["community"], ""),
        "answers": in_lists(own, counts, REDDIT_THREADS.field("answers").type),
    }
    columns = [derived[name] if name in derived else questions[name] for name in REDDIT_THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=REDDIT_THREADS)


@stage(REDDIT_THREADS, revision=1)
def join_reddit(context: StageContext, items: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """Submissions with the comments that answer them, in whatever order and file these came.

    A comment whose submission is not in the dumps, or was deleted or removed, is left out.
    """
    yield from threads(items.paths, context.scratch())
