"""What stands on which side of the split: texts that two sides would share, and the answers that a side may show.

A text belongs to the side where it stands first, by the order of the sites, then by date. Where the same text (but for
how it is set, see tasks/text/audits/equality.py) stands on another side as well, it is a copy there, and not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import duckdb
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from longform.artifacts.parts import group_of, key_hash
from longform.artifacts.rows import read_parquet
from longform.engine.at_most import unbounded
from longform.engine.stage import AllRows, AtMost, Row, Rows, StageContext, stage
from schemas.axioms import CANDIDATES, COPIES, TEXTS
from tasks.axioms.answers import question_text
from tasks.axioms.sealed.same import head

ANSWER = ("answer_id", "text", "votes", "created", "author_id", "author", "licence", "scrubbed")
Text = tuple[str, str, str, datetime | None, int]
WHOLE = -1  # in place of a passage's position


@stage(TEXTS, revision=2, at_most=AtMost(rows=unbounded))
def list_texts(context: StageContext, threads: Rows, splits: Rows, *, words: int) -> Iterator[pa.RecordBatch]:
    """A hash of every text of people that a row may show: of each question with a split, of each answer to it, and of
    each passage of about `words` words of that.
    """
    from tasks.text.passages import cut

    side_of = _sides(splits)
    names = ["question_id", "title", "text", "created"]
    names += [f"answers.list.element.{name}" for name in ("answer_id", "text", "created")]
    for batch in threads.batches(names):
        rows: list[Text] = []
        for thread in batch.to_pylist():
            key = thread["question_id"]
            if key not in side_of:
                continue
            rows.append((key, key, side_of[key], thread["created"], text_hash(question_text(thread))))
            for answer in thread["answers"]:
                texts = {answer["answer_id"]: answer["text"]}
                texts |= {f"{answer['answer_id']}#{n}": text for n, text in enumerate(cut(answer["text"], words=words))}
                rows += [(name, key, side_of[key], answer["created"], text_hash(text)) for name, text in texts.items()]
        yield texts_of(rows)


@stage(TEXTS, revision=1, at_most=AtMost(rows=lambda sizes: 4 * sizes["splits"]))
def list_generated(
    context: StageContext, splits: Rows, open_book: Rows, closed_book: Rows, corrupted: Rows, combined: Rows
) -> Iterator[pa.RecordBatch]:
    """A hash of every generated answer."""
    side_of = _sides(splits)
    for rows in (open_book, closed_book, corrupted, combined):
        for batch in rows.batches([rows.key, "question_id", "text"]):
            found = zip(*(batch.column(name).to_pylist() for name in batch.schema.names), strict=True)
            yield texts_of([(name, key, side_of[key], None, text_hash(text)) for name, key, text in found])


def _sides(splits: Rows) -> dict[str, str]:
    """question id -> its split."""
    return {row["question_id"]: row["split"] for row in splits.as_dicts("question_id", "split")}


def text_hash(text: str) -> int:
    """The same for texts that are equal but for how they are set."""
    from tasks.text.audits.equality import bare

    return xxh3_64_intdigest((bare(text) or text).encode("utf-8", "surrogatepass"))


def texts_of(rows: list[Text]) -> pa.RecordBatch:
    """The rows of TEXTS as a batch."""
    columns = zip(*rows, strict=True) if rows else [()] * len(TEXTS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, TEXTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TEXTS)


@stage(COPIES, revision=2, at_most=AtMost(rows=lambda sizes: sizes["texts"]))
def find_copies(context: StageContext, texts: AllRows, *, sites: list[str]) -> Iterator[Row]:
    """The answers and passages that stand on another side first: as a question, then by the order of `sites`, date and
    id, and in overlap last.
    """
    yield from copies_among(context, texts, texts.paths, sites)


@stage(COPIES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["generated"]))
def find_generated_copies(
    context: StageContext, generated: AllRows, texts: AllRows, *, sites: list[str]
) -> Iterator[Row]:
    """The generated answers that stand on another side first, as `find_copies`, where people's count as earlier."""
    yield from copies_among(context, generated, texts.paths, sites)


def copies_among(context: StageContext, texts: Rows, others: list[str], sites: list[str]) -> Iterator[Row]:
    """The rows of COPIES for `texts`, in the order of their parts; `others`: further files of TEXTS, which count as
    earlier.
    """
    if not texts.count:
        return
    with duckdb.connect(
        config={"memory_limit": "512MB", "threads": 2, "temp_directory": str(context.scratch())}
    ) as database:
        rank = """struct_pack(
            o := split = 'overlap', q := text_id <> question_id,
            s := list_position($sites, split_part(question_id, '/', 1)), c := created, t := text_id
        )"""
        query = f"""
            WITH texts AS (FROM {read_parquet([*texts.paths, *others])}),
            firsts AS (
                SELECT hash, arg_min(split, {rank}) AS side, arg_min(text_id, {rank}) AS copy_of
                FROM texts GROUP BY hash HAVING count(DISTINCT split) > 1
            )
            SELECT text_id, question_id, copy_of FROM {read_parquet(texts.paths)} JOIN firsts USING (hash)
            WHERE split <> side AND text_id <> question_id
        """
        found = database.sql(query, params={"sites": sites}).fetchall()
    place = {group_of(part.key): number for number, part in enumerate(texts.parts or ())}
    found.sort(key=lambda row: (place[group_of(row[1])], key_hash(row[1]), row[0]))
    yield from (dict(zip(COPIES.names, row, strict=True)) for row in found)


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
