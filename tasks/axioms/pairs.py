"""Preference pairs by axiom (table 1 of the paper), as ids; `assemble` joins their texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

import pyarrow as pa
import xxhash

from longform.engine.at_most import UNKNOWN, Sizes, bound_by
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import PAIR_IDS

GENERATED_MARGIN = 0.25
BATCH_ROWS = 10_000
GENERATED = ((2, "open_book", "closed_book"), (3, "open_book", "corrupted"), (3, "closed_book", "corrupted"))
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
        (question, cap(_vote_pairs(question, answers), pairs_per_question, seed), "no votes that differ")
        for question, answers in _answers(threads)
    )


def _vote_pairs(question: str, answers: list[Row]) -> list[Pair]:
    votes, ids = ([answer[name] for answer in answers] for name in ("votes", "answer_id"))
    return [
        _pair(
            0, question, ids[high], ids[low], "human", "human", margin(votes[high], votes[low]), votes[high], votes[low]
        )
        for high, low in ordered_pairs(votes)
    ]


def ordered_pairs(votes: Sequence[int]) -> list[tuple[int, int]]:
    """Positions (preferred, rejected) of every two answers whose votes differ (axiom 0), ordered by position."""
    numbered = list(enumerate(votes))
    return [(i, j) if a > b else (j, i) for i, a in numbered for j, b in numbered[i + 1 :] if a != b]


def margin(preferred: int, rejected: int) -> float:
    """log10 of the ratio of the two votes, always finite: votes below 1 count as 1."""
    return math.log10(max(preferred, 1) / max(rejected, 1))


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
    yield from _batches(
        (
            question,
            _related_pairs(question, answers[question], negatives, with_all_answers, seed),
            "no related question",
        )
        for question, negatives in map(itemgetter("question_id", "negatives"), related.only("question_id", "negatives"))
    )


def _related_pairs(
    question: str, answers: list[Row], negatives: list[Row], with_all_answers: bool, seed: int
) -> list[Pair]:
    votes = {answer["answer_id"]: answer["votes"] for answer in answers}
    ids = sorted(votes)
    pairs = []
    for negative in negatives:
        rejected = negative["answer_id"]
        drawn = ids if with_all_answers else [choose(ids, seed=seed, key=f"{question}\x1f{rejected}")]
        pairs += [
            _pair(
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
            for preferred in drawn
        ]
    return pairs


def choose(options: Sequence[str], *, seed: int, key: str) -> str:
    """One of the options (at least one), each equally likely, drawn by `seed` and `key`.

    The order of the options does not matter; an added option changes the result only if it is drawn itself.
    """
    start = f"{seed}\x1fchoose\x1f{key}\x1f"
    return min(options, key=lambda option: (xxhash.xxh3_64_intdigest((start + option).encode()), option))


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: 3 * sizes["threads"]))
def pair_generated(
    context: StageContext, threads: Rows, open_book: Rows, closed_book: Rows, corrupted: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 2: open-book is preferred to closed-book. Axiom 3: both are preferred to the corrupted open-book answer."""
    tables = {"open_book": open_book, "closed_book": closed_book, "corrupted": corrupted}
    ids = {
        name: {row["question_id"]: row[rows.key] for row in rows.only("question_id", rows.key)}
        for name, rows in tables.items()
    }
    yield from _batches(
        (question, _generated_pairs(question, ids), "fewer than two generated answers")
        for question in map(itemgetter("question_id"), threads.only("question_id"))
    )


def _generated_pairs(question: str, ids: dict[str, dict[str, str]]) -> list[Pair]:
    """The pairs of a question's generated answers, as far as they exist."""
    return [
        _pair(axiom, question, ids[better][question], ids[worse][question], better, worse, GENERATED_MARGIN)
        for axiom, better, worse in GENERATED
        if question in ids[better] and question in ids[worse]
    ]


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: sizes.records))
def pair_combined(
    context: StageContext, threads: Rows, combined: Rows, splits: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 5: the combined answer is preferred, in training to answers with fewer votes than both of its parents, in
    the test split to its two parents.
    """
    combined_by_question = {row["question_id"]: row for row in combined}
    test = {row["question_id"] for row in splits if row["split"] == "test"}
    yield from _batches(
        (
            key,
            _combined_pairs(answers, combined_by_question[key], key in test),
            "no answer to compare the combined answer with",
        )
        if key in combined_by_question
        else (key, [], "no combined answer")
        for key, answers in _answers(threads)
    )


def _combined_pairs(answers: list[Row], combined: Row, test: bool) -> list[Pair]:
    parents = [answer for answer in answers if answer["answer_id"] in (combined["first_id"], combined["second_id"])]
    lowest = min(answer["votes"] for answer in parents)
    ids = combined["question_id"], combined["combined_id"]
    return [
        _pair(5, *ids, answer["answer_id"], "combined", "human", GENERATED_MARGIN, None, answer["votes"])
        for answer in (parents if test else answers)
        if test or answer["votes"] < lowest
    ]


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


def _batches(questions: Iterable[tuple[str, list[Pair], str]]) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs as record batches, then a Rejected for each question without any.

    `questions`: (question id, its pairs, why it has none if these are none).
    """
    without_pairs: list[Rejected] = []

    def pairs() -> Iterator[Pair]:
        for question, own, why in questions:
            if not own:
                without_pairs.append(Rejected(question, "filtered", why))
            yield from own

    rest = pairs()
    while chunk := list(islice(rest, BATCH_ROWS)):
        columns = zip(zip(*chunk, strict=True), PAIR_IDS, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=PAIR_IDS)
    yield from without_pairs


def _answers(threads: Rows) -> Iterator[tuple[str, list[Row]]]:
    """(question id, its answers with only id and votes) of each thread."""
    columns = ("question_id", "answers.list.element.answer_id", "answers.list.element.votes")
    return map(itemgetter("question_id", "answers"), threads.only(*columns))
