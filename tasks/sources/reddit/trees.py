"""Whole comment trees: every submission and comment with its depth and the path of ids that leads to it.

    reddit/t3_a                          depth 0   path [t3_a]
      reddit/t1_b  replies to t3_a       depth 1   path [t3_a, t1_b]
        reddit/t1_c  replies to t1_b     depth 2   path [t3_a, t1_b, t1_c]
    reddit/t1_e  replies to t1_d, which no dump holds: depth null, path [t1_d, t1_e], missing_id t1_d

Comments whose text was deleted or removed, or that are taken down, are no rows, but the dump says what they replied to:
they stand in the paths of their replies, by id alone (`gone_above` counts them). A comment that is missing altogether,
as it is in another month's dump, begins the paths below it. Top-level comments are those of depth 1: `join_reddit` over
the rows of this table gives the threads of direct answers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from longform.artifacts.rows import PerGroup, Rejected, Row, Rows, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.reddit import ITEMS, REDDIT_GONE, REDDIT_TREES
from tasks.sources.admission import without_listed
from tasks.sources.files.hash_join import Ranges, duplicate_positions, marked, number_of_ranges
from tasks.sources.reddit.dumps import GROUP, bare_id, dump_lines, gone, is_elsewhere, kind_of, parent_of, record_of
from tasks.sources.reddit.reddit_threads import NEWEST
from tasks.sources.reddit.states import REASONS, States, refreshed

BATCH_ROWS = 2_000
BATCH_IDS = 200_000  # of the paths of a batch: threads that count are thousands of comments deep
CIRCLE = "parents in a circle"
NEW = frozenset(REDDIT_TREES.names) - set(ITEMS.names)

Link = tuple[str, str]


# ---------------------------------------------------------------- comments that are gone


def gone_links(lines: Iterable[bytes], wanted: frozenset[str]) -> Iterator[Row]:
    """Rows of REDDIT_GONE for the comments of a dump whose text was deleted or removed: their id, thread and parent,
    nothing else. `wanted`: subreddits in lower case, all if empty. Lines that cannot be read are passed over:
    `read_items` accounts for them.
    """
    for line in lines:
        if wanted and is_elsewhere(line, wanted):
            continue
        found = record_of(line)
        if found and kind_of(found[0]) == "comment" and gone(found[0]) and (row := _gone_row(found[0], wanted)):
            yield row


def _gone_row(record: Row, wanted: frozenset[str]) -> Row | None:
    """The row of REDDIT_GONE for a comment; None if it is of another subreddit, or an id is missing or ill-formed."""
    subreddit, parent_id = record.get("subreddit"), record.get("parent_id")
    if wanted and not (isinstance(subreddit, str) and subreddit.lower() in wanted):
        return None
    own = bare_id(record.get("id"), "t1_") or bare_id(record.get("name"), "t1_")
    answers = isinstance(parent_id, str) and parent_id.startswith("t3_")
    thread = bare_id(record.get("link_id"), "t3_") or (bare_id(parent_id, "t3_") if answers else None)
    parent = parent_of(parent_id, thread) if thread else None
    if own is None or parent is None:
        return None
    question_id = f"{GROUP}/t3_{thread}"
    hashed = xxhash.xxh3_64_intdigest(question_id.encode())
    return {
        "gone_id": f"{GROUP}/t1_{own}",
        "question_id": question_id,
        "question_hash": hashed,
        "parent_id": parent,
    }


@stage(REDDIT_GONE, revision=1)
def read_gone(context: StageContext, dumps: Shard, *, subreddits: list[str]) -> Iterator[Row]:
    """Where the comments stood whose text was deleted or removed: id, thread and parent, so that their replies keep
    their place. One that stands twice in the dumps has two rows, which `grow_trees` takes as one.
    """
    yield from gone_links(dump_lines(dumps), frozenset(subreddits))


# ---------------------------------------------------------------- trees


class Tree:
    """One thread as a forest. `links`: (id, parent's id; "" for a submission) of its items, `votes` and `numbers` of
    these; `gone`: comments without a row, id -> parent's id.

    `order`: positions of the items, each after its parent, the replies to one by votes, most first and unknown last,
    then by number: depth first from the submission, then from what hangs on missing comments.
    `parent`: id -> parent's id, also of comments that are gone. `circle`: positions of items that no root leads to.
    """

    def __init__(
        self, links: Sequence[Link], votes: Sequence[int | None], numbers: Sequence[int], gone: dict[str, str]
    ) -> None:
        self.parent = {**gone, **dict(links)}
        self.rows = {own: position for position, (own, _) in enumerate(links)}
        self.children: dict[str, list[str]] = defaultdict(list)
        for own, parent in self.parent.items():
            self.children[parent].append(own)

        def rank(own: str) -> tuple[bool, int, int, str]:
            position = self.rows.get(own)
            score = None if position is None else votes[position]
            return score is None, -(score or 0), _number_of(own) if position is None else numbers[position], own

        for replies in self.children.values():
            replies.sort(key=rank)
        tops = [parent for parent in self.children if parent not in self.parent and parent]
        self.order = [
            *self._below(self.children.get("", [])),
            *self._below(sorted(tops, key=lambda top: (len(top), top))),
        ]
        reached = set(self.order)
        self.circle = [position for position in range(len(links)) if position not in reached]

    def _below(self, tops: Sequence[str]) -> Iterator[int]:
        """The positions of the items at and below these ids, depth first, without recursion."""
        waiting = list(reversed(tops))
        while waiting:
            own = waiting.pop()
            if own in self.rows:
                yield self.rows[own]
            waiting += reversed(self.children.get(own, ()))

    def path(self, own: str) -> list[str]:
        """The ids from the root, or from the highest ancestor that is named, to `own`."""
        path = [own]
        while above := self.parent.get(path[-1]):
            path.append(above)
        return path[::-1]

    def columns(self, own: str, root: str) -> Row:
        """The values of the columns that REDDIT_TREES has beyond ITEMS, for the item `own` of the thread `root`."""
        path = self.path(own)
        return {
            "root_id": root,
            "depth": len(path) - 1 if path[0] == root else None,
            "path": path,
            "missing_id": None if path[0] in self.rows else path[0],
            "gone_above": sum(above not in self.rows for above in path[1:-1]),
            "replies": sum(reply in self.rows for reply in self.children.get(own, ())),
        }


WIDE = pa.schema([field.with_nullable(True).remove_metadata() for field in ITEMS])
GONE = "gone"
_ORDER = ("question_hash", "question_id", "number", "kind")


def trees(
    paths: list[str],
    gone_paths: list[str],
    scratch: Path,
    *,
    takedowns: Collection[str] = (),
    memory_limit_mb: int = 512,
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of REDDIT_TREES in order of (question_hash, question_id) and of the tree, from Parquet files of
    ITEMS and of REDDIT_GONE in any order. A Rejected for a repeated id (the item that was read from Reddit last is
    kept), for an item whose id is one of `takedowns` (filtered; of a comment its place stays), and for comments whose
    parents lead in a circle (a defect).

    Memory is bounded as in `hash_join.joined`: rows are split by hash into ranges, and a thread is grown at a time.
    """
    again = duplicate_positions(paths, scratch, same="kind, number", keep_order=NEWEST, memory_limit_mb=memory_limit_mb)
    ranges = Ranges(WIDE, scratch, number_of_ranges([*paths, *gone_paths], memory_limit_mb), memory_limit_mb << 18)
    for path in gone_paths:
        for batch, _ in marked(path, REDDIT_GONE, np.array([], np.int64), BATCH_ROWS):
            ranges.add(_as_items(batch))
    for path in paths:
        for batch, repeated in marked(path, ITEMS, again[path], BATCH_ROWS):
            for key in batch["post_id"].filter(repeated).to_pylist():
                yield Rejected(key, "filtered", "duplicate id")
            for found in without_listed(batch.filter(pc.invert(repeated)), takedowns, ["post_id"]):
                if isinstance(found, Rejected):
                    yield found
                else:
                    ranges.add(found.cast(WIDE))
            ranges.add(_as_items(_taken_down(batch, takedowns)))
    for table in ranges.tables():
        (rows,) = table.sort_by([(name, "ascending") for name in _ORDER]).combine_chunks().to_batches()
        yield from _grown(rows)


def _taken_down(items: pa.RecordBatch, takedowns: Collection[str]) -> pa.RecordBatch:
    """Rows of REDDIT_GONE for the comments among these items whose ids are listed: the ids of comment, thread and
    parent, nothing else.
    """
    listed = pc.is_in(items["post_id"], value_set=pa.array(sorted(takedowns), pa.string()))
    found = items.filter(pc.and_(listed, pc.equal(items["kind"], "comment")))
    columns = [found["post_id" if name == "gone_id" else name] for name in REDDIT_GONE.names]
    return pa.RecordBatch.from_arrays(columns, schema=REDDIT_GONE)


def _as_items(gone: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of REDDIT_GONE with the columns of ITEMS, of the kind GONE; what is not known of them is null."""
    ids = gone["gone_id"].to_pylist()
    known = {name: gone[name] for name in ("question_id", "question_hash", "parent_id")}
    known |= {"post_id": gone["gone_id"], "kind": pa.array([GONE] * len(gone))}
    known["number"] = pa.array([_number_of(own) for own in ids], pa.int64())
    columns = [known.get(field.name, pa.nulls(len(gone), field.type)) for field in WIDE]
    return pa.RecordBatch.from_arrays(columns, schema=WIDE)


def _number_of(own: str) -> int:
    """The number that an id (reddit/t1_<id>) writes in base 36."""
    return int(own.rpartition("_")[2], 36)


def _grown(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch | Rejected]:
    """Batches of REDDIT_TREES of these rows, which hold whole threads, each in one stretch."""
    held: list[tuple[int, Row]] = []
    ids = 0
    for node in _nodes(rows):
        if isinstance(node, Rejected):
            yield node
            continue
        held.append(node)
        ids += len(node[1]["path"])
        if len(held) >= BATCH_ROWS or ids >= BATCH_IDS:
            yield _batch(rows, held)
            held, ids = [], 0
    if held:
        yield _batch(rows, held)


def _nodes(rows: pa.RecordBatch) -> Iterator[tuple[int, Row] | Rejected]:
    """(position, values of the columns that REDDIT_TREES has beyond ITEMS) for each item, thread by thread in the order
    of its tree; a Rejected for each that is in or below a circle.
    """
    names = ("question_id", "post_id", "parent_id", "kind", "votes", "number")
    values = zip(*(rows[name].to_pylist() for name in names), strict=True)
    for root, group in groupby(enumerate(values), key=lambda found: found[1][0]):
        members = list(group)
        here = [(position, each) for position, each in members if each[3] != GONE]
        gone = {each[1]: each[2] for _, each in members if each[3] == GONE}
        links = [(each[1], "" if each[3] == "submission" else each[2]) for _, each in here]
        tree = Tree(links, [each[4] for _, each in here], [each[5] for _, each in here], gone)
        for index in tree.order:
            yield here[index][0], tree.columns(links[index][0], root)
        for index in tree.circle:
            yield Rejected(links[index][0], "defect", CIRCLE)


def _batch(rows: pa.RecordBatch, nodes: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
    """The batch of REDDIT_TREES for these (positions in `rows`, further columns)."""
    taken = rows.take(pa.array([position for position, _ in nodes]))
    further = [
        pa.array([columns[field.name] for _, columns in nodes], field.type)
        for field in REDDIT_TREES
        if field.name in NEW
    ]
    return pa.RecordBatch.from_arrays([*taken.columns, *further], schema=REDDIT_TREES)


@stage(REDDIT_TREES, revision=1)
def grow_trees(
    context: StageContext, items: PerGroup, gone: PerGroup, *, takedowns: Collection[str] = ()
) -> Iterator[pa.RecordBatch | Rejected]:
    """Every submission and comment with its depth and path; threads in order of (question_hash, question_id), each
    depth first, replies by votes. A Rejected for an item whose id repeats or is one of `takedowns`, and for a circle of
    parents.

    What hangs on a comment that is not in the dumps stays, with `missing_id`; its depth is not known.
    """
    yield from trees(items.paths, gone.paths, context.scratch(), takedowns=takedowns)


@stage(REDDIT_TREES, revision=2)
def refresh_trees(context: StageContext, items: Rows, *, states: States) -> Iterator[Row | Rejected]:
    """The items with the scores that Reddit showed when the states were read, in the same order; a Rejected for each
    that was gone by then. Items without a state stay as they are. `gone_above` and `replies` count again.
    """
    known = states.by_id()
    left = frozenset(own for own, state in known.items() if state["state"] != "present")
    for _, group in groupby(items, key=lambda item: item["root_id"]):
        thread = list(group)
        replies_left = Counter(item["parent_id"] for item in thread if item["post_id"] in left)
        for item in thread:
            state = known.get(item["post_id"], {})
            if item["post_id"] in left:
                yield Rejected(item["post_id"], "filtered", REASONS[state["state"]])
                continue
            context.count("refreshed", bool(state))
            yield refreshed(_recounted(item, ids_left=left, replies_left=replies_left), state)


def _recounted(item: Row, *, ids_left: Collection[str], replies_left: Counter[str]) -> Row:
    """A row of REDDIT_TREES whose counts leave out the items of `ids_left`; `replies_left`: id -> how many of its
    direct replies are among them. A submission that is among them is no comment above, but missing, as in `Tree`.
    """
    top, above = item["path"][0], sum(own in ids_left for own in item["path"][1:-1])
    return {
        **item,
        "missing_id": top if top in ids_left else item["missing_id"],
        "gone_above": item["gone_above"] + above,
        "replies": item["replies"] - replies_left[item["post_id"]],
    }
