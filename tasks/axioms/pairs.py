"""Preference pairs by axiom (table 1), as ids: texts are joined in `assemble`."""

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


def _by_votes(of: Sizes) -> float:
    """So many a question, or one of any two posts."""
    return min(float(of["threads"] * bound_by(of["pairs_per_question"])), of.records * (of.records - 1) / 2)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_by_votes))
def pair_by_votes(
    context: StageContext, threads: Rows, *, pairs_per_question: int | None, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 0: all pairs of a question's answers whose votes differ, the higher preferred."""
    yield from _batches(
        pair for thread in _answers(threads) for pair in cap(list(_vote_pairs(*thread)), pairs_per_question, seed)
    )


def _vote_pairs(question: str, answers: list[Row]) -> Iterator[Pair]:
    votes = [answer["votes"] for answer in answers]
    for high, low in ordered_pairs(votes):
        ids = answers[high]["answer_id"], answers[low]["answer_id"]
        distance = margin(votes[high], votes[low])
        yield _pair(0, question, *ids, "human", "human", distance, votes[high], votes[low])


def cap(pairs: list[Pair], most: int | None, seed: int) -> list[Pair]:
    """At most `most` of a question's pairs, those with the lowest hash of seed and pair id, in their order."""
    if most is None or len(pairs) <= most:
        return pairs
    drawn = sorted(pairs, key=lambda pair: xxhash.xxh3_64_intdigest(f"{seed}\x1f{pair[0]}".encode()))[:most]
    kept = {pair[0] for pair in drawn}
    return [pair for pair in pairs if pair[0] in kept]


def _with_related(of: Sizes) -> float:
    """A pair for each hard negative; with all answers nothing says how many."""
    most = bound_by(of.arguments_of("related").get("negatives"))
    return UNKNOWN if of["with_all_answers"] else float(of["related"] * most)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_with_related))
def pair_with_related(
    context: StageContext, related: Rows, threads: Rows, *, with_all_answers: bool, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 1: an answer of the question before each hard negative, drawn by the seed (or every answer)."""
    answers = dict(_answers(threads))
    bare: list[str] = []
    yield from _batches(
        pair
        for question, negatives in _negatives(related, bare)
        for pair in _related_pairs(question, answers[question], negatives, with_all_answers, seed)
    )
    yield from (Rejected(question, "filtered", "no related question") for question in bare)


def _negatives(related: Rows, bare: list[str]) -> Iterator[tuple[str, list[Row]]]:
    for batch in related.batches(["question_id", "negatives"]):
        for row in batch.to_pylist():
            if not row["negatives"]:
                bare.append(row["question_id"])
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


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda of: 3 * of["threads"]))
def pair_generated(
    context: StageContext, threads: Rows, open_book: Rows, closed_book: Rows, corrupted: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 2: open-book before closed-book. Axiom 3: both before the corrupted open-book answer."""
    ids = {
        "open_book": _id_by_question(open_book, "answer_id"),
        "closed_book": _id_by_question(closed_book, "answer_id"),
        "corrupted": _id_by_question(corrupted, "corrupted_id"),
    }
    orders = ((2, "open_book", "closed_book"), (3, "open_book", "corrupted"), (3, "closed_book", "corrupted"))
    bare: list[str] = []
    questions = _column(threads, "question_id")
    yield from _batches(pair for question in questions for pair in _generated_pairs(question, ids, orders, bare))
    yield from (Rejected(question, "filtered", "not two generated answers") for question in bare)


def _generated_pairs(
    question: str, ids: dict[str, dict[str, str]], orders: Iterable[tuple[int, str, str]], bare: list[str]
) -> Iterator[Pair]:
    pairs = [
        _pair(axiom, question, ids[better][question], ids[worse][question], better, worse, GENERATED_MARGIN)
        for axiom, better, worse in orders
        if question in ids[better] and question in ids[worse]
    ]
    if not pairs:
        bare.append(question)
    yield from pairs


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda of: of.records))
def pair_combined(
    context: StageContext, threads: Rows, combined: Rows, splits: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 5: in training the combined answer before answers with fewer votes than both it was made from,
    in the test split before these two themselves."""
    made = {row["question_id"]: row for row in combined}
    test = {row["question_id"] for row in splits if row["split"] == "test"}
    bare: list[str] = []
    yield from _batches(
        pair
        for question, answers in _answers(threads)
        for pair in _combined_pairs(question, answers, made.get(question), question in test, bare)
    )
    for question in bare:
        why = "no answer to set the combined one against" if question in made else "no combined answer"
        yield Rejected(question, "filtered", why)


def _combined_pairs(
    question: str, answers: list[Row], combined: Row | None, test: bool, bare: list[str]
) -> Iterator[Pair]:
    rejected = _below_combined(answers, combined, test) if combined else []
    if not rejected or not combined:
        bare.append(question)
        return
    for answer in rejected:
        ids = combined["combined_id"], answer["answer_id"]
        yield _pair(5, question, *ids, "combined", "human", GENERATED_MARGIN, None, answer["votes"])


def _below_combined(answers: list[Row], combined: Row, test: bool) -> list[Row]:
    parents = [answer for answer in answers if answer["answer_id"] in (combined["first_id"], combined["second_id"])]
    if test:
        return parents
    least = min(answer["votes"] for answer in parents)
    return [answer for answer in answers if answer["votes"] < least]


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
    kind = pair_type or f"{better} > {worse}"
    name = f"{kind}\x1f{question}\x1f{preferred}\x1f{rejected}"
    pair_id = f"p_{xxhash.xxh3_128_hexdigest(name.encode())[:20]}"
    return (
        pair_id, question, preferred, rejected, axiom, kind, distance, better, worse, preferred_votes, rejected_votes,
    )  # fmt: skip


def _batches(pairs: Iterable[Pair], size: int = 10_000) -> Iterator[pa.RecordBatch]:
    pairs = iter(pairs)
    while chunk := list(islice(pairs, size)):
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), PAIR_IDS, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PAIR_IDS)


def _answers(threads: Rows) -> Iterator[tuple[str, list[Row]]]:
    """(question id, its answers with id and votes only) of each thread."""
    columns = ["question_id", "answers.list.element.answer_id", "answers.list.element.votes"]
    for batch in threads.batches(columns):
        yield from zip(batch.column("question_id").to_pylist(), batch.column("answers").to_pylist(), strict=True)


def _column(rows: Rows, name: str) -> Iterator[str]:
    for batch in rows.batches([name]):
        yield from batch.column(name).to_pylist()


def _id_by_question(rows: Rows, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for batch in rows.batches(["question_id", name]):
        found.update(zip(batch.column("question_id").to_pylist(), batch.column(name).to_pylist(), strict=True))
    return found
