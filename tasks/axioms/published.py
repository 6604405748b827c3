"""The published rows of axioms: pairs of ids joined with their texts, authors, licences and model calls."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import chain

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.parts import group_of
from longform.artifacts.rows import read_parquet
from longform.engine.at_most import Sizes
from longform.engine.stage import AllRows, AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import PAIRS
from tasks.axioms.answers import question_text
from tasks.axioms.audits import audited_pairs, may_not_repeat
from tasks.axioms.questions import CREDIT, credit
from tasks.axioms.sealed.same import site_of
from tasks.sources.released.msmarco import GROUP as MSMARCO

ROWS_PER_BATCH = 2_000
ANSWER = pa.schema([
    ("answer_id", pa.string()),
    ("text", pa.string()),
    ("url", pa.string()),
    ("created", pa.timestamp("us", tz="UTC")),
    ("author", pa.string()),
    ("author_url", pa.string()),
    ("licence", pa.string()),
    ("parent_ids", pa.list_(pa.string())),
    ("scrubbed", pa.int32()),
    ("cut", pa.list_(pa.string())),
    ("response", pa.string()),
    ("prompt", pa.string()),
    ("endpoint", pa.string()),
    ("model", pa.string()),
    ("utilization", pa.float64()),
])  # fmt: skip
OF_THREAD = ("site", "tags", "retrieved_at")
BY_CRITIC = ("preferred_score", "rejected_score", "critic_margin")  # null here; see tasks/axioms/judging/margins.py
QUESTION = pa.schema([
    PAIRS.field(name)
    for name in (
        *("question_id", "question", "evidence", "evidence_ids", "split"),
        *(f"question_{name}" for name in (*CREDIT, "created")),
        *OF_THREAD,
    )
])  # fmt: skip


def _pairs_at_most(sizes: Sizes) -> float:
    """Upper bound of the number of pairs: those of all stages that pair."""
    inputs = ("votes", "related", "generated", "combined_pairs", "by_evidence")
    return float(sum(sizes[name] for name in inputs))


@stage(
    PAIRS,
    revision=5,
    split_by="split",
    also=("asked",),
    at_most=AtMost(rows=_pairs_at_most),
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
    copies: Rows,
    generated_copies: Rows,
    candidates: PerGroup,
    asked: Rows,
    by_evidence: Rows,
    relevant: Rows,
    irrelevant: Rows,
    grounded_copies: Rows,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The published rows: all pairs of a part, each with the texts, authors, licences and model calls of its question
    and answers; nothing if the part has no pair. A Rejected for each pair that an audit finds, and for a question that
    has no other.

    In the order of the questions, then by axiom and pair id. `votes`, `related`, `generated`, `combined_pairs`: pairs
    of ids, by the stage that paired them. `open_book` to `combined`: generated answers. `passages`: those retrieved
    for each question. `copies`, `generated_copies`: texts that stand on the other side, of which no pair is published.
    `candidates`: of the site, among which human answers from outside the part are looked up.

    `asked`: queries of MS MARCO with their passages, which are units of their own; `by_evidence`: their pairs of ids;
    `relevant`, `irrelevant`: the answers to them from such passages, `grounded_copies`: those that stand on the other
    side.
    """
    pairs = in_question_order(threads, [votes, related, generated, combined_pairs])
    made = (open_book, closed_book, corrupted, combined)
    yield from with_texts(pairs, threads, made, passages, splits, (copies, generated_copies), candidates)
    yield from _with_passages(in_question_order(asked, [by_evidence]), asked, (relevant, irrelevant), grounded_copies)


@stage(
    PAIRS,
    revision=3,
    split_by="split",
    also=("asked",),
    at_most=AtMost(rows=_pairs_at_most),
)
def assemble_pairs_across_sites(
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
    copies: Rows,
    generated_copies: Rows,
    candidates: AllRows,
    asked: Rows,
    by_evidence: Rows,
    relevant: Rows,
    irrelevant: Rows,
    grounded_copies: Rows,
) -> Iterator[pa.RecordBatch | Rejected]:
    """As `assemble_pairs`; human answers from outside the part are looked up among the candidates of all sites."""
    yield from assemble_pairs.body(
        context,
        threads,
        votes,
        related,
        generated,
        combined_pairs,
        open_book,
        closed_book,
        corrupted,
        combined,
        passages,
        splits,
        copies,
        generated_copies,
        candidates,
        asked,
        by_evidence,
        relevant,
        irrelevant,
        grounded_copies,
    )


def with_texts(
    pairs: pa.Table,
    threads: Rows,
    made: tuple[Rows, Rows, Rows, Rows],
    passages: Rows,
    splits: Rows,
    copies: Iterable[Rows],
    candidates: Rows,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs (rows of PAIR_IDS, in order) as batches of PAIRS; before them a Rejected for each that an audit finds
    or of which a text stands on the other side, and for each question that has no other. Nothing without a pair.

    `made`: open-book, closed-book, corrupted and combined answers. The other inputs: as for `assemble_pairs`.
    """
    if not pairs.num_rows:
        return
    evidence = {row["question_id"]: row["passages"] for row in passages}
    threads_by_id = {thread["question_id"]: thread for thread in threads}
    others = _answers_of_other_threads(pairs, passages, threads_by_id, candidates)
    human = {
        answer["answer_id"]: {**answer, **credit(answer["answer_id"], "answer", answer), "parent_ids": [], "cut": []}
        for answer in chain(chain.from_iterable(thread["answers"] for thread in threads_by_id.values()), others)
    }
    *_, corrupted, combined = made
    generated = [_generated(row, rows.key, threads_by_id, evidence, human) for rows in made for row in rows]
    made_of = may_not_repeat(corrupted.as_dicts("corrupted_id", "answer_id"), combined)
    split_of = {row["question_id"]: row["split"] for row in splits}
    questions = [_question(thread, evidence.get(key, []), split_of[key]) for key, thread in threads_by_id.items()]
    yield from _joined(pairs, questions, [*human.values(), *generated], made_of, copies, "stackexchange")


def _with_passages(
    pairs: pa.Table, asked: Rows, made: tuple[Rows, Rows], copies: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """As `with_texts`, for the pairs of axiom 4. `asked`: the queries with their passages; `made`: the answers from
    relevant and from irrelevant ones; `copies`: those of these answers that stand on the other side.
    """
    if not pairs.num_rows:
        return
    queries = {row["question_id"]: row for row in asked}
    passages = {
        passage["passage_id"]: _answer_of_passage(passage, query["licence"])
        for query in queries.values()
        for passage in (*query["relevant"], *query["irrelevant"])
    }
    answers, made_of = [], {}
    for rows, column in zip(made, ("relevant", "irrelevant"), strict=True):
        for row in rows:
            query = queries[row["question_id"]]
            made_of[row["answer_id"]] = [passage["passage_id"] for passage in query[column]]
            answers.append(_answer_by_model(row, "answer_id", query["licence"], made_of[row["answer_id"]]))
    questions = [_question_of_query(query) for query in queries.values()]
    yield from _joined(pairs, questions, [*passages.values(), *answers], made_of, [copies], MSMARCO)


def _joined(
    pairs: pa.Table,
    questions: list[Row],
    answers: list[Row],
    made_of: dict[str, list[str]],
    copies: Iterable[Rows],
    source: str,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs joined with `questions` (rows of QUESTION) and `answers` (rows of ANSWER), without those that stand on
    two sides (`copies`) or that an audit finds, of which it yields a Rejected each. `made_of`: id of a generated answer
    -> ids of the answers that it may not repeat.
    """
    if sealed := _copied(pairs, *copies):
        pairs = yield from _without(pairs, sealed, "no pair left whose texts stand on its side alone")
    texts = {question["question_id"]: question["question"] for question in questions}
    found = audited_pairs(pairs, texts, {answer["answer_id"]: answer for answer in answers}, made_of)
    if found:
        pairs = yield from _without(pairs, found, "no pair left by the audits")
    asked, answered = pa.Table.from_pylist(questions, QUESTION), pa.Table.from_pylist(answers, ANSWER)
    places = pa.table({
        "question": pc.index_in(pairs["question_id"], asked["question_id"]),
        "preferred": pc.index_in(pairs["preferred_id"], answered["answer_id"]),
        "rejected": pc.index_in(pairs["rejected_id"], answered["answer_id"]),
    })  # fmt: skip
    for start in range(0, pairs.num_rows, ROWS_PER_BATCH):
        batch, at = (table.slice(start, ROWS_PER_BATCH) for table in (pairs, places))
        sides = {name: answered.take(at[name]) for name in ("preferred", "rejected")}
        yield _batch(batch, asked.take(at["question"]), sides, source)


def _copied(pairs: pa.Table, *copies: Rows) -> list[Rejected]:
    """A Rejected for each pair of which a text stands on the other side of the split."""
    where = {row["text_id"]: row["copy_of"] for rows in copies for row in rows.as_dicts("text_id", "copy_of")}
    return [
        Rejected(pair, "filtered", "a text of it stands on the other side", detail=f"{answer} is {where[answer]}")
        for pair, *sides in zip(
            *(pairs[name].to_pylist() for name in ("pair_id", "preferred_id", "rejected_id")), strict=True
        )
        for answer in [next((side for side in sides if side in where), None)]
        if answer is not None
    ]


def _without(pairs: pa.Table, found: list[Rejected], why: str) -> Generator[Rejected, None, pa.Table]:
    """Yields what was found, and a Rejected (`why`) for each question that has no other pair. Returns the other
    pairs.
    """
    kept = pairs.filter(pc.invert(pc.is_in(pairs["pair_id"], pa.array([each.key for each in found], pa.string()))))
    yield from found
    for question in pc.unique(pairs["question_id"]).to_pylist():
        if not pc.any(pc.equal(kept["question_id"], question)).as_py():
            yield Rejected(question, "filtered", why)
    return kept


def in_question_order(threads: Rows, inputs: list[Rows]) -> pa.Table:
    """All pairs of these inputs in one table: in the order of the threads, within a question by axiom, then by pair
    id.
    """
    table = pa.concat_tables([rows.table() for rows in inputs])
    order = threads.table(["question_id"])["question_id"].combine_chunks()
    positions = pc.index_in(table["question_id"], value_set=order)
    keys = pa.table({"place": positions, "axiom": table["axiom"], "pair_id": table["pair_id"]})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def _answers_of_other_threads(
    pairs: pa.Table, passages: Rows, threads_by_id: dict[str, Row], candidates: Rows
) -> list[Row]:
    """The human answers outside `threads_by_id` that a pair has as its rejected answer, or that a passage was cut
    from, read from the candidates of their sites.

    `passages`: a row for each question, with a list of passages. `threads_by_id`: question id -> thread.
    """
    own_ids = {answer["answer_id"] for thread in threads_by_id.values() for answer in thread["answers"]}
    wanted = {value for value in pairs["rejected_id"].to_pylist() if "/" in value}
    wanted |= {passage["answer_id"] for row in passages for passage in row["passages"]}
    ids = pa.table({"answer_id": sorted(wanted - own_ids)})
    if not ids.num_rows:
        return []
    sites = {site_of(answer) for answer in wanted - own_ids}
    candidates = candidates.of([part for part in candidates.parts or () if group_of(part.key) in sites])
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        query = f"""
            SELECT answer.* FROM (SELECT unnest(answers) AS answer FROM {read_parquet(candidates.paths)})
            WHERE answer.answer_id IN (SELECT answer_id FROM ids)
        """
        return [row for batch in database.sql(query).to_arrow_reader() for row in batch.to_pylist()]


def _generated(
    row: Row, key: str, threads_by_id: dict[str, Row], evidence: dict[str, list[Row]], human: dict[str, Row]
) -> Row:
    """A row of ANSWER for a generated answer; the columns url, created, author, author_url and scrubbed are left out.

    `key`: the column of `row` that holds its id. `threads_by_id`: question id -> thread. `evidence`: question id ->
    passages. `human`: answer id -> human answer. The licence is the newest of those of the question and of the human
    answers it was made from, as share-alike lets an adaptation take a later version.
    """
    parents = _parents(row, evidence)
    licences = [threads_by_id[row["question_id"]]["licence"], *(human[parent]["licence"] for parent in parents)]
    return _answer_by_model(row, key, max(licences), parents)


def _answer_by_model(row: Row, key: str, licence: str, parents: list[str]) -> Row:
    """A row of ANSWER for a generated answer, without the columns that only people's have. `key`: the column of `row`
    that holds its id; `parents`: ids of the texts it was made from.
    """
    return {
        "answer_id": row[key],
        **{name: row[name] for name in ("text", "cut", "response", "endpoint", "model")},
        "licence": licence,
        "parent_ids": parents,
        "prompt": f"{row['prompt']}@{row['prompt_hash'][:12]}",
        "utilization": row.get("utilization"),
    }


def _parents(row: Row, evidence: dict[str, list[Row]]) -> list[str]:
    """The ids of the human answers that a generated answer was made from: the two that it combines; none for a
    closed-book answer; for any other those that the passages of its question were cut from, each once.

    `evidence`: question id -> passages.
    """
    if "first_id" in row:
        return [row["first_id"], row["second_id"]]
    if row.get("kind") == "closed_book":
        return []
    return list(dict.fromkeys(passage["answer_id"] for passage in evidence.get(row["question_id"], ())))


def _question(thread: Row, evidence: list[Row], split: str) -> Row:
    """A row of QUESTION for a thread: its text, credit and split, and texts and ids of `evidence`, the passages
    retrieved for it.
    """
    key = thread["question_id"]
    return {
        "question_id": key,
        "question": question_text(thread),
        "evidence": [passage["text"] for passage in evidence],
        "evidence_ids": [passage["passage_id"] for passage in evidence],
        "split": split,
        **{f"question_{name}": value for name, value in credit(key, "question", thread).items()},
        "question_created": thread["created"],
        **{name: thread[name] for name in OF_THREAD},
    }


def _answer_of_passage(passage: Row, licence: str) -> Row:
    """A row of ANSWER for a passage of MS MARCO, of which nobody knows who wrote it, when, or on which page."""
    of_passage = {"answer_id": passage["passage_id"], "text": passage["text"], "scrubbed": passage["scrubbed"]}
    return {**of_passage, "licence": licence, "parent_ids": [], "cut": []}


def _question_of_query(query: Row) -> Row:
    """A row of QUESTION for a query of MS MARCO; its evidence are the relevant passages."""
    return {
        **{name: query[name] for name in ("question_id", "split", "retrieved_at")},
        "question": query["text"],
        "evidence": [passage["text"] for passage in query["relevant"]],
        "evidence_ids": [passage["passage_id"] for passage in query["relevant"]],
        "question_licence": query["licence"],
        "question_scrubbed": query["scrubbed"],
        "site": MSMARCO,
        "tags": [],
    }


def _batch(pairs: pa.Table, questions: pa.Table, sides: dict[str, pa.Table], source: str) -> pa.RecordBatch:
    """The published rows (PAIRS) of these pairs. Row n of `questions`, and of both tables of `sides`, belongs to pair
    n.

    `sides`: `preferred` and `rejected` -> rows of ANSWER; `source`: what they are from. Evidence is empty unless the
    preferred answer is open-book.
    """
    columns = {name: pairs[name] for name in pairs.column_names} | {name: questions[name] for name in QUESTION.names}
    open_book = pc.equal(pairs["preferred_source"], "open_book")
    for name in ("evidence", "evidence_ids"):
        columns[name] = pc.if_else(open_book, questions[name], pa.scalar([], pa.list_(pa.string())))
    for side, answers in sides.items():
        columns |= {side if name == "text" else f"{side}_{name}": answers[name] for name in ANSWER.names}
    columns["source"] = pa.repeat(source, pairs.num_rows)
    columns["utilization"] = columns["preferred_utilization"]
    columns |= {name: pa.nulls(pairs.num_rows, pa.float64()) for name in BY_CRITIC}
    return pa.table([columns[name] for name in PAIRS.names], schema=PAIRS).combine_chunks().to_batches()[0]
