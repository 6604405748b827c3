"""The published rows: pairs of ids joined with their texts, authors, licences and model calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import read_parquet
from longform.engine.stage import AtMost, PerGroup, Row, Rows, StageContext, stage
from schemas.axioms import PAIRS
from tasks.axioms.answers import question_text
from tasks.sources.permalinks import permalink, profile

ROWS_PER_BATCH = 2_000
SIDE = (
    pa.field("text", pa.string()),
    pa.field("url", pa.string()),
    pa.field("author", pa.string()),
    pa.field("author_url", pa.string()),
    pa.field("licence", pa.string()),
    pa.field("parent_ids", pa.list_(pa.string())),
    pa.field("scrubbed", pa.int32()),
    pa.field("response", pa.string()),
    pa.field("prompt", pa.string()),
    pa.field("endpoint", pa.string()),
    pa.field("model", pa.string()),
)


@stage(
    PAIRS,
    revision=1,
    split_by="split",
    at_most=AtMost(rows=lambda of: of["votes"] + of["related"] + of["generated"] + of["combined_pairs"]),
)
def assemble_pairs(
    context: StageContext,
    threads: Rows,
    votes: Rows,
    related: Rows,
    generated: Rows,
    combined_pairs: Rows,
    open_book: Rows,
    closed_book: Rows,
    corrupted: Rows,
    combined: Rows,
    passages: Rows,
    splits: Rows,
    site: PerGroup,
) -> Iterator[pa.RecordBatch]:
    """All pairs of a part with all they need to be read and checked on their own, question after question."""
    pairs = _in_question_order(threads, [votes, related, generated, combined_pairs])
    if not pairs.num_rows:
        return
    evidence = {row["question_id"]: row["passages"] for row in passages}
    asked = {thread["question_id"]: thread for thread in threads}
    human = _human(asked.values(), _foreign(context, pairs, passages, asked, site))
    made = [
        (open_book, "answer_id"),
        (closed_book, "answer_id"),
        (corrupted, "corrupted_id"),
        (combined, "combined_id"),
    ]
    texts = Texts({**human, **_written(made, asked, evidence, human)})
    questions = Questions(asked, evidence, {row["question_id"]: row["split"] for row in splits})
    for start in range(0, pairs.num_rows, ROWS_PER_BATCH):
        yield _batch(pairs.slice(start, ROWS_PER_BATCH), texts, questions)


def _in_question_order(threads: Rows, inputs: list[Rows]) -> pa.Table:
    """All pairs, questions in the order of the threads, within one by axiom and then by id."""
    table = pa.concat_tables([rows.table() for rows in inputs])
    order = threads.table(["question_id"])["question_id"].combine_chunks()
    places = pc.index_in(table["question_id"], value_set=order)
    keys = pa.table({"place": places, "axiom": table["axiom"], "pair_id": table["pair_id"]})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def _foreign(
    context: StageContext, pairs: pa.Table, passages: Rows, asked: dict[str, Row], site: PerGroup
) -> list[Row]:
    """The answers of other threads that these pairs or passages need, from the whole site."""
    own = {answer["answer_id"] for thread in asked.values() for answer in thread["answers"]}
    wanted = {value for value in pairs["rejected_id"].to_pylist() if "/" in value}
    wanted |= {passage["answer_id"] for row in passages for passage in row["passages"]}
    ids = pa.table({"answer_id": sorted(wanted - own)})
    if not ids.num_rows:
        return []
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        query = f"""
            SELECT answer.* FROM (SELECT unnest(answers) AS answer FROM {read_parquet(site.paths)})
            WHERE answer.answer_id IN (SELECT answer_id FROM ids)
        """
        return [row for batch in database.sql(query).to_arrow_reader() for row in batch.to_pylist()]


def _human(threads: Iterable[Row], foreign: list[Row]) -> dict[str, dict[str, Any]]:
    answers = [answer for thread in threads for answer in thread["answers"]] + foreign
    return {answer["answer_id"]: _human_side(answer) for answer in answers}


def _human_side(answer: Row) -> dict[str, Any]:
    host = answer["answer_id"].split("/", 1)[0]
    return {
        "text": answer["text"],
        "url": permalink(answer["answer_id"], "answer"),
        "author": answer["author"],
        "author_url": profile(host, answer["author_id"]),
        "licence": answer["licence"],
        "parent_ids": [],
        "scrubbed": answer["scrubbed"],
    }


def _written(
    made: list[tuple[Rows, str]], asked: dict[str, Row], evidence: dict[str, list[Row]], human: dict[str, Row]
) -> dict[str, Row]:
    """The generated answers by id. Their licence is the newest of the human texts they were made from:
    share-alike lets an adaptation take a later version."""
    found = {}
    for rows, key in made:
        for row in rows:
            parents = _parents(row, evidence)
            licences = [asked[row["question_id"]]["licence"], *(human[parent]["licence"] for parent in parents)]
            found[row[key]] = {
                "text": row["text"],
                "licence": max(licences),
                "parent_ids": parents,
                "response": row["response"],
                "prompt": f"{row['prompt']}@{row['prompt_hash'][:12]}",
                "endpoint": row["endpoint"],
                "model": row["model"],
            }
    return found


def _parents(row: Row, evidence: dict[str, list[Row]]) -> list[str]:
    """The answers it was made from, each once."""
    if "first_id" in row:
        return [row["first_id"], row["second_id"]]
    if row.get("kind") == "closed_book":
        return []
    return list(dict.fromkeys(passage["answer_id"] for passage in evidence.get(row["question_id"], ())))


def _batch(pairs: pa.Table, texts: Texts, questions: Questions) -> pa.RecordBatch:
    pairs = pairs.combine_chunks()
    columns: dict[str, Any] = {name: pairs[name] for name in pairs.column_names}
    columns |= _side("preferred", texts.take(pairs["preferred_id"].to_pylist()))
    columns |= _side("rejected", texts.take(pairs["rejected_id"].to_pylist()))
    columns |= questions.take(pairs["question_id"], pc.equal(pairs["preferred_source"], "open_book"))
    columns["source"] = pa.repeat("stackexchange", pairs.num_rows)
    return pa.RecordBatch.from_arrays([_array(columns[field.name]) for field in PAIRS], schema=PAIRS)


def _side(name: str, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    return {name if column == "text" else f"{name}_{column}": values for column, values in columns.items()}


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return values


class Questions:
    """What pairs tell of their questions, as columns that rows are taken from; one more row has no evidence."""

    def __init__(self, asked: dict[str, Row], evidence: dict[str, list[Row]], sides: dict[str, str]) -> None:
        threads = list(asked.values())
        columns: dict[str, list[Any]] = {
            "question": [question_text(thread) for thread in threads],
            "split": [sides[question] for question in asked],
            "question_url": [permalink(question, "question") for question in asked],
            "question_author": [thread["author"] for thread in threads],
            "question_author_url": [profile(thread["site"], thread["author_id"]) for thread in threads],
            "question_licence": [thread["licence"] for thread in threads],
            "question_scrubbed": [thread["scrubbed"] for thread in threads],
            **{name: [thread[name] for thread in threads] for name in ("site", "tags", "retrieved_at")},
        }
        shown = [evidence.get(question, []) for question in asked]
        given = {
            "evidence": [*([passage["text"] for passage in found] for found in shown), []],
            "evidence_ids": [*([passage["passage_id"] for passage in found] for found in shown), []],
        }
        self.ids, self.none = pa.array(list(asked), pa.string()), len(threads)
        self.columns = {name: pa.array(values, PAIRS.field(name).type) for name, values in columns.items()}
        self.evidence = {name: pa.array(values, PAIRS.field(name).type) for name, values in given.items()}

    def take(self, questions: pa.ChunkedArray, with_evidence: pa.ChunkedArray) -> dict[str, pa.Array]:
        """The columns of these questions, a row each; evidence only where it was given to who wrote the answer."""
        places = pc.index_in(questions, value_set=self.ids)
        given = pc.if_else(with_evidence, places, pa.scalar(self.none, pa.int32()))
        taken = {name: column.take(_array(places)) for name, column in self.columns.items()}
        return taken | {name: column.take(_array(given)) for name, column in self.evidence.items()}


class Texts:
    """Answers by id, as columns that rows are taken from."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self.places = {answer: place for place, answer in enumerate(answers)}
        columns = [pa.array([fields.get(f.name) for fields in answers.values()], f.type) for f in SIDE]
        self.columns = {field.name: column for field, column in zip(SIDE, columns, strict=True)}

    def take(self, ids: list[str]) -> dict[str, pa.Array]:
        places = pa.array([self.places[answer] for answer in ids], pa.int32())
        return {name: column.take(places) for name, column in self.columns.items()}
