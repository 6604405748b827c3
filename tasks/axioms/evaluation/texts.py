"""The texts of all evaluation sets, with which no training text may be one (`decontaminate`).

Of a ranking these are the questions and their own answers or relevant passages; hard negatives are answers to other
questions, or passages that nobody labelled. Of the version's own test split it is all that people wrote.
A further set is a further input: rows of EVALUATION_TEXTS, added in `list_evaluation_texts`.

Files of one's own hold one text a line (.txt), or rows (.jsonl, .parquet) with any of the columns COLUMNS, whose values
are texts or lists of texts, and perhaps `id`:

    {"id": "q7", "question": "Why is the sky blue?", "answers": ["Air scatters short waves most."]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import xxhash

from longform.artifacts.rows import Source
from longform.engine.at_most import unbounded
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Shard, StageContext, stage
from longform.errors import SourceError
from schemas.axioms.evaluation import EVALUATION_TEXTS
from tasks.axioms.evaluation.ranking import SPLIT
from tasks.sources.files.inputs import open_files, raw_text, with_distinct_names
from tasks.sources.files.lines import read_lines
from tasks.sources.files.parquet import parquet_batches

GROUP, RESEARCH = "evaluation", "research"
ASKING = ("question", "title", "prompt", "query")
COLUMNS = (*ASKING, "text", "answer", "answers", "chosen", "rejected", "evidence", "passages")
AT_ONCE = 1_000  # rows
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt", ".txt.gz")
NO_TEXT = f"no text in {', '.join(COLUMNS)}"
OF_PAIRS = tuple(
    ["question_id", "question", "evidence_ids", "evidence", "source"]
    + [f"{side}{name}" for side in ("preferred", "rejected") for name in ("_id", "", "_model")]
)


def open_texts(paths: Iterable[Path], digest: Callable[[Path], str]) -> list[Source]:
    """Files of evaluation texts as sources, in one piece each. Errors as in `open_files`."""
    return with_distinct_names(open_files(paths, group=GROUP, endings=ENDINGS, digest=digest))


@stage(EVALUATION_TEXTS, revision=1)
def read_evaluation_texts(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The texts of a file of one's own; a Rejected for a row without any. The set is the file's name. SourceError for a
    file without any text, with which nothing would be compared.
    """
    read = 0
    name = str(dict(files.source.facts)["name"])
    for number, record in enumerate(_records(files), start=1):
        texts = list(_texts(record)) if isinstance(record, dict) else []
        own = str(record["id"]) if isinstance(record, dict) and record.get("id") is not None else str(number)
        if not texts:
            yield Rejected(f"{name} {own}", "defect", NO_TEXT, raw=raw_text(repr(record).encode()))
        for place, (asks, text) in enumerate(texts):
            read += 1
            yield _row(name, f"{number}#{place}", own, asks, text)
    if not read:
        raise SourceError(f"{files.source.path} has {NO_TEXT}: name the columns so, or leave the file out.")


def _records(files: Shard) -> Iterator[Any]:
    """The records of a file: rows as dicts, lines of text as {"text": line}, lines that are no JSON as they are."""
    path = Path(files.source.path)
    if path.name.lower().endswith(".parquet"):
        for batch in parquet_batches(files, lambda name: name.split(".")[0] in {*COLUMNS, "id"}, AT_ONCE):
            yield from batch.to_pylist()
        return
    plain = ".txt" in path.suffixes
    for line in read_lines(files):
        if line.strip():
            yield {"text": line.decode(errors="replace")} if plain else _json(line)


def _json(line: bytes) -> Any:
    """The value of a line of JSON; the line itself if it is none."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return line


def _texts(record: Row) -> Iterator[tuple[bool, str]]:
    """(whether it asks, text) of all texts of a record."""
    for name in COLUMNS:
        values = record.get(name)
        for text in values if isinstance(values, list) else [values]:
            if isinstance(text, str) and text.strip():
                yield name in ASKING, text


@stage(EVALUATION_TEXTS, revision=1, at_most=AtMost(rows=unbounded))
def list_evaluation_texts(
    context: StageContext,
    own: AllRows,
    held_out: AllRows,
    discussions: AllRows,
    passages: AllRows,
    compared: AllRows,
    research: AllRows,
    pairs: AllRows,
) -> Iterator[Row]:
    """The texts of all sets, each once by its id: of files of one's `own`, of the rankings (`held_out`, `discussions`,
    `passages`), of `compared` answers, of questions for `research`, and of the test split of the `pairs` themselves.
    """
    test = pairs.of([part for part in pairs.parts or () if part.key.endswith(f"/{SPLIT}")])
    yield from own
    yield from _once(
        chain(
            (text for rows in (held_out, discussions, passages) for row in rows for text in texts_of_ranking(row)),
            (text for row in compared for text in texts_of_comparison(row)),
            map(text_of_research, research.as_dicts("research_question_id", "question")),
            (text for row in test.as_dicts(*OF_PAIRS) for text in texts_of_pair(row)),
        )
    )


def texts_of_ranking(row: Row) -> Iterator[Row]:
    """The rows of EVALUATION_TEXTS of a row of RANKING."""
    yield _row(row["set"], row["question_id"], row["question_id"], True, row["question"])
    for answer in row["answers"]:
        if not answer["negative"]:
            yield _row(row["set"], answer["answer_id"], answer["answer_id"], False, answer["text"])


def texts_of_comparison(row: Row) -> Iterator[Row]:
    """The rows of EVALUATION_TEXTS of a row of COMPARISONS; what is common to all comparisons of a question counts
    once.
    """
    of = xxhash.xxh3_64_hexdigest(row["question"].encode("utf-8", "surrogatepass"))
    yield _row(row["set"], of, of, True, row["question"])
    for side in ("preferred", "rejected"):
        for place, text in enumerate([row[side]["text"], *row[side]["evidence"]]):
            yield _row(row["set"], f"{row['comparison_id']} {side}#{place}", of, False, text)


def text_of_research(row: Row) -> Row:
    """The row of EVALUATION_TEXTS of a question for research."""
    key = row["research_question_id"]
    return _row(RESEARCH, key, key, True, row["question"])


def texts_of_pair(row: Row) -> Iterator[Row]:
    """The rows of EVALUATION_TEXTS of a pair of the test split, without answers that a model wrote: it says the same of
    many questions, and what is equal on both sides is left out before (`find_generated_copies`).
    """
    name = row["source"]
    yield _row(name, row["question_id"], row["question_id"], True, row["question"])
    for side in ("preferred", "rejected"):
        if row[f"{side}_model"] is None:
            yield _row(name, row[f"{side}_id"], row[f"{side}_id"], False, row[side])
    for key, text in zip(row["evidence_ids"], row["evidence"], strict=True):
        yield _row(name, key, key.partition("#")[0], False, text)


def _row(name: str, key: str, of: str, asks: bool, text: str) -> Row:
    """A row of EVALUATION_TEXTS."""
    return {"text_id": f"{name} {key}", "set": name, "of": of, "asks": asks, "text": text}


def _once(texts: Iterable[Row]) -> Iterator[Row]:
    """The first text of each id."""
    seen = set[str]()
    for text in texts:
        if text["text_id"] not in seen:
            seen.add(text["text_id"])
            yield text
