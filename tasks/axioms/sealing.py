"""What stands on which side of the split: texts that two sides would share, and the answers that a side may show.

A text belongs to the side where it stands first, by the order of the sites, then by date. Where the same text (but for
how it is set, see tasks/text/audits/equality.py) stands on another side as well, it is a copy there, and not shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import read_parquet
from longform.engine.at_most import unbounded
from longform.engine.stage import AllRows, AtMost, Row, Rows, StageContext, stage
from schemas.axioms import CANDIDATES, COPIES, TEXTS
from tasks.axioms.same import head

ANSWER = ("answer_id", "text", "votes", "created", "author_id", "author", "licence", "scrubbed")
BATCH_ROWS = 10_000
WHOLE = -1  # in place of a passage's position


@stage(TEXTS, revision=1, at_most=AtMost(rows=unbounded))
def list_texts(context: StageContext, threads: Rows, splits: Rows, *, words: int) -> Iterator[pa.RecordBatch]:
    """A hash of every text that a row may show: of each answer of a question with a split, and of each passage of it
    of about `words` words.
    """
    side_of = {row["question_id"]: row["split"] for row in splits.as_dicts("question_id", "split")}
    names = ["question_id", *(f"answers.list.element.{name}" for name in ("answer_id", "text", "created"))]
    for batch in threads.batches(names):
        rows = []
        for thread in batch.to_pylist():
            key = thread["question_id"]
            for answer in thread["answers"] if key in side_of else ():
                of_answer = key, side_of[key], answer["created"]
                rows += [(name, *of_answer, hash_) for name, hash_ in _hashes(answer, words)]
        columns = zip(*rows, strict=True) if rows else [()] * len(TEXTS)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, TEXTS, strict=True)], schema=TEXTS
        )


def _hashes(answer: Row, words: int) -> Iterator[tuple[str, int]]:
    """(id, hash) of an answer's text and, where there are several, of each of its passages."""
    from tasks.text.audits.equality import bare
    from tasks.text.passages import cut

    texts = [(answer["answer_id"], answer["text"])]
    texts += [
        (f"{answer['answer_id']}#{position}", text) for position, text in enumerate(cut(answer["text"], words=words))
    ]
    for name, text in texts:
        yield name, xxh3_64_intdigest((bare(text) or text).encode("utf-8", "surrogatepass"))


@stage(COPIES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["texts"]))
def find_copies(context: StageContext, texts: AllRows, *, sites: list[str]) -> Iterator[pa.RecordBatch]:
    """The texts that stand on another side first: by the order of `sites`, then by date and id, and in overlap last."""
    if not texts.count:
        return
    with duckdb.connect(
        config={"memory_limit": "512MB", "threads": 2, "temp_directory": str(context.scratch())}
    ) as database:
        rank = """struct_pack(
            o := split = 'overlap', s := list_position($sites, split_part(text_id, '/', 1)), c := created, t := text_id
        )"""
        query = f"""
            WITH texts AS (FROM {read_parquet(texts.paths)}),
            firsts AS (
                SELECT hash, arg_min(split, {rank}) AS side, arg_min(text_id, {rank}) AS copy_of
                FROM texts GROUP BY hash HAVING count(DISTINCT split) > 1
            )
            SELECT text_id, question_id, copy_of FROM texts JOIN firsts USING (hash)
            WHERE split <> side ORDER BY text_id
        """
        rows = database.sql(query, params={"sites": sites})
        for batch in rows.to_arrow_reader(BATCH_ROWS):
            yield batch.cast(COPIES)


@stage(CANDIDATES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["splits"]))
def list_candidates(context: StageContext, threads: Rows, splits: Rows, copies: Rows) -> Iterator[pa.RecordBatch]:
    """The questions that have a split, with the answers that rows of their side may show, without those whose whole
    text is a copy.
    """
    own = {row["question_id"]: row for row in splits.as_dicts("question_id", "split", "group")}
    copied: dict[str, list[int]] = {}
    for text in copies.table(["text_id"])["text_id"].to_pylist():
        answer, _, position = text.partition("#")
        copied.setdefault(answer, []).append(int(position or WHOLE))
    names = ["question_id", "title", "text", "created", *(f"answers.list.element.{name}" for name in ANSWER)]
    for batch in threads.batches(names):
        rows = []
        for thread in batch.to_pylist():
            if found := own.get(thread["question_id"]):
                answers = [
                    answer | {"copied": positions}
                    for answer in thread["answers"]
                    if WHOLE not in (positions := copied.get(answer["answer_id"], []))
                ]
                rows.append(
                    {
                        "candidate_id": thread["question_id"],
                        "split": found["split"],
                        "group": found["group"],
                        "title": thread["title"],
                        "head": head(thread["title"], thread["text"]),
                        "created": thread["created"],
                        "answers": answers,
                    }
                )
        yield pa.RecordBatch.from_pylist(rows, schema=CANDIDATES)
