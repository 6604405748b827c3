"""Preference pairs by axiom (table 1 of the paper), as ids; `assemble` joins their texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa
import xxhash

from longform.engine.at_most import UNKNOWN, Sizes, bound_by
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import PAIR_IDS
from tasks.axioms.negatives import choose
from tasks.axioms.votes import margin, ordered_pairs

GENERATED_MARGIN = 0.25
Pair = tuple[str, str, str, str, int, str, float, str, str, int | None, int | None]


def _vote_pairs_at_most(sizes: Sizes) -> float:
    """The most pairs that these threads can yield: `pairs_per_question` each, or every two posts."""
    return min(float(sizes["threads"] * bound_by(sizes["pairs_per_question"])), sizes.records * (sizes.records - 1) / 2)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_vote_pairs_at_most))
def pair_by_votes(
    context: StageContext, threads: Rows, *, pairs_per_question: int | None, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 0: all pairs of a question's answers whose votes differ; the one with more votes is preferred."""
    yield from _batches(
        pair for thread in _answers(threads) for pair in cap(list(_vote_pairs(*thread)), pairs_per_question, seed)
    )


def _vote_pairs(question: str, answers: list[Row]) -> Iterator[Pair]:
    votes = [answer["votes"] for answer in answers]
    for high, low in ordered_pairs(votes):
        ids = answers[high]["answer_id"], answers[low]["answer_id"]
        distance = margin(votes[high], votes[low])
        yield _pair(0, question, *ids, "human", "human", distance, votes[high], votes[low])


def cap(pairs: list[Pair], max_pairs: int | None, seed: int) -> list[Pair]:
    """At most `max_pairs` of a question's pairs, in their order: those with the lowest hashes of seed and pair id."""
    if max_pairs is None or len(pairs) <= max_pairs:
        return pairs
    drawn = sorted(pairs, key=lambda pair: xxhash.xxh3_64_intdigest(f"{seed}\x1f{pair[0]}".encode()))[:max_pairs]
    kept = {pair[0] for pair in drawn}
    return [pair for pair in pairs if pair[0] in kept]


def _related_pairs_at_most(sizes: Sizes) -> float:
    """One pair for each hard negative; unbounded if every answer of a question is paired."""
    most = bound_by(sizes.arguments_of("related").get("negatives"))
    return UNKNOWN if sizes["with_all_answers"] else float(sizes["related"] * most)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_related_pairs_at_most))
def pair_with_related(
    context: StageContext, related: Rows, threads: Rows, *, with_all_answers: bool, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 1: an answer of the question, drawn by the seed (or every answer), is preferred to each hard negative."""
    answers = dict(_answers(threads))
    without_pairs: list[str] = []
    yield from _batches(
        pair
        for question, negatives in _negatives(related, without_pairs)
        for pair in _related_pairs(question, answers[question], negatives, with_all_answers, seed)
    )
    yield from (Rejected(question, "filtered", "no related question") for question in without_pairs)


def _negatives(related: Rows, without_pairs: list[str]) -> Iterator[tuple[str, list[Row]]]:
    """(question id, its hard negatives) of each row; ids of questions without any are appended to `without_pairs`."""
    for batch in related.batches(["question_id", "negatives"]):
        for row in batch.to_pylist():
            if not row["negatives"]:
                without_pairs.append(row["question_id"])
            yield row["question_id"], row["negatives"]


def _related_pairs(
    question: str, answers: list[Row], negatives: list[Row], with_all_answers: bool, seed: int
) -> Iterator[Pair]:
    votes = {answer["answer_id"]: answer["votes"] for answer in answers}
    ids = sorted(votes)
    for negative in negatives:
        rejected = negative["answer_id"]
        drawn = ids if with_all_answers else [choose(ids, seed=seed, key=f"{question}\x1f{rejected}")]
        for preferred in drawn:
            yield _pair(
                1,
                question,
                preferred,
                rejected,
                "human",
                "human",
                GENERATED_MARGIN,
                votes[preferred],
                negative["votes"],
                pair_type="human > related",
            )


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: 3 * sizes["threads"]))
def pair_generated(
    context: StageContext, threads: Rows, open_book: Rows, closed_book: Rows, corrupted: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 2: open-book is preferred to closed-book. Axiom 3: both are preferred to the corrupted open-book answer."""
    ids = {
        "open_book": _id_by_question(open_book, "answer_id"),
        "closed_book": _id_by_question(closed_book, "answer_id"),
        "corrupted": _id_by_question(corrupted, "corrupted_id"),
    }
    orders = ((2, "open_book", "closed_book"), (3, "open_book", "corrupted"), (3, "closed_book", "corrupted"))
    without_pairs: list[str] = []
    questions = _column(threads, "question_id")
    yield from _batches(
        pair for question in questions for pair in _generated_pairs(question, ids, orders, without_pairs)
    )
    yield from (Rejected(question, "filtered", "fewer than two generated answers") for question in without_pairs)


def _generated_pairs(
    question: str, ids: dict[str, dict[str, str]], orders: Iterable[tuple[int, str, str]], without_pairs: list[str]
) -> Iterator[Pair]:
    """The pairs of a question's generated answers, as far as they exist; without any, its id goes to
    `without_pairs`.
    """
    pairs = [
        _pair(axiom, question, ids[better][question], ids[worse][question], better, worse, GENERATED_MARGIN)
        for axiom, better, worse in orders
        if question in ids[better] and question in ids[worse]
    ]
    if not pairs:
        without_pairs.append(question)
    yield from pairs


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: sizes.records))
def pair_combined(
    context: StageContext, threads: Rows, combined: Rows, splits: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 5: the combined answer is preferred, in training to answers with fewer votes than both of its parents, in
    the test split to its two parents.
    """
    combined_by_question = {row["question_id"]: row for row in combined}
    test = {row["question_id"] for row in splits if row["split"] == "test"}
    without_pairs: list[str] = []
    yield from _batches(
        pair
        for question, answers in _answers(threads)
        for pair in _combined_pairs(
            question, answers, combined_by_question.get(question), question in test, without_pairs
        )
    )
    for question in without_pairs:
        why = (
            "no answer to compare the combined answer with"
            if question in combined_by_question
            else "no combined answer"
        )
        yield Rejected(question, "filtered", why)


def _combined_pairs(
    question: str, answers: list[Row], combined: Row | None, test: bool, without_pairs: list[str]
) -> Iterator[Pair]:
    """The pairs of a question's combined answer; without any, the question's id goes to `without_pairs`."""
    rejected = _below_combined(answers, combined, test) if combined else []
    if not rejected or not combined:
        without_pairs.append(question)
        return
    for answer in rejected:
        ids = combined["combined_id"], answer["answer_id"]
        yield _pair(5, question, *ids, "combined", "human", GENERATED_MARGIN, None, answer["votes"])


def _below_combined(answers: list[Row], combined: Row, test: bool) -> list[Row]:
    """The answers to which the combined one is preferred: its parents in the test split, else those with
    fewer votes.
    """
    parents = [answer for answer in answers if answer["answer_id"] in (combined["first_id"], combined["second_id"])]
    if test:
        return parents
    lowest = min(answer["votes"] for answer in parents)
    return [answer for answer in answers if answer["votes"] < lowest]


def _pair(
    axiom: int,
    question: str,
    preferred: str,
    rejected: str,
    better: str,
    worse: str,
    distance: float,
    preferred_votes: int | None = None,
    rejected_votes: int | None = None,
    pair_type: str | None = None,
) -> Pair:
    """The columns of one pair, in the order of PAIR_IDS; its id is a hash of its kind, question and answers."""
    kind = pair_type or f"{better} > {worse}"
    name = f"{kind}\x1f{question}\x1f{preferred}\x1f{rejected}"
    pair_id = f"p_{xxhash.xxh3_128_hexdigest(name.encode())[:20]}"
    return (
        pair_id, question, preferred, rejected, axiom, kind, distance, better, worse, preferred_votes, rejected_votes,
    )  # fmt: skip


def _batches(pairs: Iterable[Pair], size: int = 10_000) -> Iterator[pa.RecordBatch]:
    """The pairs as record batches of at most `size` rows."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, size)):
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), PAIR_IDS, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PAIR_IDS)


def _answers(threads: Rows) -> Iterator[tuple[str, list[Row]]]:
    """(question id, its answers with only id and votes) of each thread."""
    columns = ["question_id", "answers.list.element.answer_id", "answers.list.element.votes"]
    for batch in threads.batches(columns):
        yield from zip(batch.column("question_id").to_pylist(), batch.column("answers").to_pylist(), strict=True)


def _column(rows: Rows, name: str) -> Iterator[str]:
    """The values of one column."""
    for batch in rows.batches([name]):
        yield from batch.column(name).to_pylist()


def _id_by_question(rows: Rows, name: str) -> dict[str, str]:
    """question id -> the value of the id column `name`."""
    found: dict[str, str] = {}
    for batch in rows.batches(["question_id", name]):
        found.update(zip(batch.column("question_id").to_pylist(), batch.column(name).to_pylist(), strict=True))
    return found
