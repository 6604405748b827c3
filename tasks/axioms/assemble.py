"""The published rows of axioms: pairs of ids joined with their texts, authors, licences and model calls."""

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
ANSWER_FIELDS = (
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
    at_most=AtMost(rows=lambda sizes: sizes["votes"] + sizes["related"] + sizes["generated"] + sizes["combined_pairs"]),
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
    """All pairs of a part, each with all columns that are needed to read and check it alone, in the order of the
    questions.
    """
    pairs = _in_question_order(threads, [votes, related, generated, combined_pairs])
    if not pairs.num_rows:
        return
    evidence = {row["question_id"]: row["passages"] for row in passages}
    threads_by_id = {thread["question_id"]: thread for thread in threads}
    human_answers = _human_answers(
        threads_by_id.values(), _answers_of_other_threads(context, pairs, passages, threads_by_id, site)
    )
    generated_rows = [
        (open_book, "answer_id"),
        (closed_book, "answer_id"),
        (corrupted, "corrupted_id"),
        (combined, "combined_id"),
    ]
    answers = AnswerColumns(
        {**human_answers, **_generated_answers(generated_rows, threads_by_id, evidence, human_answers)}
    )
    questions = QuestionColumns(threads_by_id, evidence, {row["question_id"]: row["split"] for row in splits})
    for start in range(0, pairs.num_rows, ROWS_PER_BATCH):
        yield _batch(pairs.slice(start, ROWS_PER_BATCH), answers, questions)


def _in_question_order(threads: Rows, inputs: list[Rows]) -> pa.Table:
    """All pairs in one table: in the order of the threads, within a question by axiom, then by pair id."""
    table = pa.concat_tables([rows.table() for rows in inputs])
    order = threads.table(["question_id"])["question_id"].combine_chunks()
    positions = pc.index_in(table["question_id"], value_set=order)
    keys = pa.table({"place": positions, "axiom": table["axiom"], "pair_id": table["pair_id"]})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def _answers_of_other_threads(
    context: StageContext, pairs: pa.Table, passages: Rows, threads_by_id: dict[str, Row], site: PerGroup
) -> list[Row]:
    """The answers from other threads of the site that these pairs or passages refer to."""
    own_ids = {answer["answer_id"] for thread in threads_by_id.values() for answer in thread["answers"]}
    wanted = {value for value in pairs["rejected_id"].to_pylist() if "/" in value}
    wanted |= {passage["answer_id"] for row in passages for passage in row["passages"]}
    ids = pa.table({"answer_id": sorted(wanted - own_ids)})
    if not ids.num_rows:
        return []
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        query = f"""
            SELECT answer.* FROM (SELECT unnest(answers) AS answer FROM {read_parquet(site.paths)})
            WHERE answer.answer_id IN (SELECT answer_id FROM ids)
        """
        return [row for batch in database.sql(query).to_arrow_reader() for row in batch.to_pylist()]


def _human_answers(threads: Iterable[Row], others: list[Row]) -> dict[str, dict[str, Any]]:
    """answer id -> columns of a human-written answer."""
    answers = [answer for thread in threads for answer in thread["answers"]] + others
    return {answer["answer_id"]: _human_fields(answer) for answer in answers}


def _human_fields(answer: Row) -> dict[str, Any]:
    """The columns of a human-written answer: text, address, author, licence."""
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


def _generated_answers(
    generated_rows: list[tuple[Rows, str]],
    threads_by_id: dict[str, Row],
    evidence: dict[str, list[Row]],
    human_answers: dict[str, Row],
) -> dict[str, Row]:
    """answer id -> columns of a generated answer. Its licence is the newest of the human texts it was made from, as
    share-alike lets an adaptation take a later version.
    """
    found = {}
    for rows, key in generated_rows:
        for row in rows:
            parents = _parents(row, evidence)
            licences = [
                threads_by_id[row["question_id"]]["licence"],
                *(human_answers[parent]["licence"] for parent in parents),
            ]
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
    """The ids of the human answers that a generated answer was made from, without repeats."""
    if "first_id" in row:
        return [row["first_id"], row["second_id"]]
    if row.get("kind") == "closed_book":
        return []
    return list(dict.fromkeys(passage["answer_id"] for passage in evidence.get(row["question_id"], ())))


def _batch(pairs: pa.Table, answers: AnswerColumns, questions: QuestionColumns) -> pa.RecordBatch:
    """The published columns of these pairs, both answers and the question joined."""
    pairs = pairs.combine_chunks()
    columns: dict[str, Any] = {name: pairs[name] for name in pairs.column_names}
    columns |= _prefixed("preferred", answers.take(pairs["preferred_id"].to_pylist()))
    columns |= _prefixed("rejected", answers.take(pairs["rejected_id"].to_pylist()))
    columns |= questions.take(pairs["question_id"], pc.equal(pairs["preferred_source"], "open_book"))
    columns["source"] = pa.repeat("stackexchange", pairs.num_rows)
    return pa.RecordBatch.from_arrays([_array(columns[field.name]) for field in PAIRS], schema=PAIRS)


def _prefixed(name: str, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns under their published names: `preferred`, `preferred_url`, …"""
    return {name if column == "text" else f"{name}_{column}": values for column, values in columns.items()}


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return values


class QuestionColumns:
    """The question columns of the published rows, for lookup by question id. One extra last row has no evidence."""

    def __init__(self, threads_by_id: dict[str, Row], evidence: dict[str, list[Row]], splits: dict[str, str]) -> None:
        threads = list(threads_by_id.values())
        columns: dict[str, list[Any]] = {
            "question": [question_text(thread) for thread in threads],
            "split": [splits[question] for question in threads_by_id],
            "question_url": [permalink(question, "question") for question in threads_by_id],
            "question_author": [thread["author"] for thread in threads],
            "question_author_url": [profile(thread["site"], thread["author_id"]) for thread in threads],
            "question_licence": [thread["licence"] for thread in threads],
            "question_scrubbed": [thread["scrubbed"] for thread in threads],
            **{name: [thread[name] for thread in threads] for name in ("site", "tags", "retrieved_at")},
        }
        passages = [evidence.get(question, []) for question in threads_by_id]
        evidence_columns = {
            "evidence": [*([passage["text"] for passage in found] for found in passages), []],
            "evidence_ids": [*([passage["passage_id"] for passage in found] for found in passages), []],
        }
        self.ids, self.none = pa.array(list(threads_by_id), pa.string()), len(threads)
        self.columns = {name: pa.array(values, PAIRS.field(name).type) for name, values in columns.items()}
        self.evidence = {name: pa.array(values, PAIRS.field(name).type) for name, values in evidence_columns.items()}

    def take(self, questions: pa.ChunkedArray, with_evidence: pa.ChunkedArray) -> dict[str, pa.Array]:
        """The question columns, one row for each id; the evidence only where `with_evidence` is true."""
        positions = pc.index_in(questions, value_set=self.ids)
        evidence_positions = pc.if_else(with_evidence, positions, pa.scalar(self.none, pa.int32()))
        taken = {name: column.take(_array(positions)) for name, column in self.columns.items()}
        return taken | {name: column.take(_array(evidence_positions)) for name, column in self.evidence.items()}


class AnswerColumns:
    """The answer columns of the published rows, for lookup by answer id."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self.positions = {answer: place for place, answer in enumerate(answers)}
        columns = [pa.array([fields.get(f.name) for fields in answers.values()], f.type) for f in ANSWER_FIELDS]
        self.columns = {field.name: column for field, column in zip(ANSWER_FIELDS, columns, strict=True)}

    def take(self, ids: list[str]) -> dict[str, pa.Array]:
        """The answer columns, one row for each id."""
        places = pa.array([self.positions[answer] for answer in ids], pa.int32())
        return {name: column.take(places) for name, column in self.columns.items()}
