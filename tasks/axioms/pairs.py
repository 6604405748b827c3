"""Preference pairs of answers by axiom (table 1 of the paper), as ids; `assemble_pairs` in tasks/axioms/published.py
joins their texts.
"""

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
Pair = tuple[str, str, str, str, int, str, float, str, str, int | None, int | None, str | None, float | None]


def _vote_pairs_at_most(sizes: Sizes) -> float:
    """Upper bound of the number of pairs: `pairs_per_question` for each thread, but no more than all pairs of two
    posts. Infinite if neither is known.
    """
    return min(float(sizes["threads"] * bound_by(sizes["pairs_per_question"])), sizes.records * (sizes.records - 1) / 2)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_vote_pairs_at_most))
def pair_by_votes(
    context: StageContext, threads: Rows, *, pairs_per_question: int | None, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 0: the pairs of a question's answers whose votes differ; the answer with more votes is preferred.

    At most `pairs_per_question` pairs of each question, drawn by `seed`; all of them if it is None. A Rejected for each
    question without a pair.
    """
    yield from batches_of(
        (question, cap(_vote_pairs(question, answers), pairs_per_question, seed), "no votes that differ")
        for question, answers in _answers(threads)
    )


def _vote_pairs(question: str, answers: list[Row]) -> list[Pair]:
    """All pairs of axiom 0 (the answer with more votes is preferred) of one question, ordered as in `ordered_pairs`."""
    votes, ids = ([answer[name] for answer in answers] for name in ("votes", "answer_id"))
    return [
        pair_of(
            0, question, ids[high], ids[low], "human", "human", margin(votes[high], votes[low]), votes[high], votes[low]
        )
        for high, low in ordered_pairs(votes)
    ]


def ordered_pairs(votes: Sequence[int]) -> list[tuple[int, int]]:
    """(position of the preferred answer, position of the rejected one) of every two answers whose votes differ (axiom
    0: the one with more votes is preferred). `votes`: of each answer, in order.

    Ordered by the lower of the two positions, then by the higher one.
    """
    numbered = list(enumerate(votes))
    return [(i, j) if a > b else (j, i) for i, a in numbered for j, b in numbered[i + 1 :] if a != b]


def margin(preferred: int, rejected: int) -> float:
    """log10 of (votes of the preferred answer / votes of the rejected one). Votes below 1 count as 1, so that the
    result is finite.
    """
    return math.log10(max(preferred, 1) / max(rejected, 1))


def cap(pairs: list[Pair], max_pairs: int | None, seed: int) -> list[Pair]:
    """At most `max_pairs` pairs of a question (None: all of them), in their given order: those with the lowest hashes
    of seed and pair id.
    """
    if max_pairs is None or len(pairs) <= max_pairs:
        return pairs
    drawn = sorted(pairs, key=lambda pair: xxhash.xxh3_64_intdigest(f"{seed}\x1f{pair[0]}".encode()))[:max_pairs]
    kept = {pair[0] for pair in drawn}
    return [pair for pair in pairs if pair[0] in kept]


def _related_pairs_at_most(sizes: Sizes) -> float:
    """Upper bound of the number of pairs: for each question as many as the hard negatives that the stage before keeps.
    Infinite if their number is not limited, or if every answer of a question is paired (`with_all_answers`).
    """
    most = bound_by(sizes.arguments_of("related").get("negatives"))
    return UNKNOWN if sizes["with_all_answers"] else float(sizes["related"] * most)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=_related_pairs_at_most))
def pair_with_related(
    context: StageContext, related: Rows, threads: Rows, *, with_all_answers: bool, seed: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 1: an answer to the question is preferred to each hard negative of the question (an answer to a related
    one).

    The preferred answer is drawn by `seed` for each hard negative; with `with_all_answers`, every answer is paired with
    every hard negative. A Rejected for each question without a pair.
    """
    answers = dict(_answers(threads))
    yield from batches_of(
        (
            question,
            _related_pairs(question, answers[question], negatives, with_all_answers, seed),
            "no related question",
        )
        for question, negatives in map(
            itemgetter("question_id", "negatives"), related.as_dicts("question_id", "negatives")
        )
    )


def _related_pairs(
    question: str, answers: list[Row], negatives: list[Row], with_all_answers: bool, seed: int
) -> list[Pair]:
    """The pairs of axiom 1 of one question, in the order of its hard negatives: an answer is preferred to an answer to
    a related question. `answers`: at least one, of this question; `negatives`: the answers to related questions. With
    `with_all_answers` every answer is preferred to each, else one drawn by `seed`.
    """
    votes = {answer["answer_id"]: answer["votes"] for answer in answers}
    ids = sorted(votes)
    pairs = []
    for negative in negatives:
        rejected = negative["answer_id"]
        drawn = ids if with_all_answers else [choose(ids, seed=seed, key=f"{question}\x1f{rejected}")]
        pairs += [
            pair_of(
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
                related=(negative["question_id"], negative["similarity"]),
            )
            for preferred in drawn
        ]
    return pairs


def choose(options: Sequence[str], *, seed: int, key: str) -> str:
    """One of the options (at least one), each equally likely: the one with the lowest hash of seed, key and option.

    The order of the options does not matter; an added option changes the result only if it is chosen itself.
    """
    start = f"{seed}\x1fchoose\x1f{key}\x1f"
    return min(options, key=lambda option: (xxhash.xxh3_64_intdigest((start + option).encode()), option))


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: 3 * sizes["threads"]))
def pair_generated(
    context: StageContext, threads: Rows, open_book: Rows, closed_book: Rows, corrupted: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 2: the open-book answer is preferred to the closed-book one. Axiom 3: both are preferred to the corrupted
    open-book answer.

    At most one answer of each kind for a question. A Rejected for each question without a pair.
    """
    tables = {"open_book": open_book, "closed_book": closed_book, "corrupted": corrupted}
    ids = {
        name: {row["question_id"]: row[rows.key] for row in rows.as_dicts("question_id", rows.key)}
        for name, rows in tables.items()
    }
    yield from batches_of(
        (question, _generated_pairs(question, ids), "fewer than two generated answers")
        for question in map(itemgetter("question_id"), threads.as_dicts("question_id"))
    )


def _generated_pairs(question: str, ids: dict[str, dict[str, str]]) -> list[Pair]:
    """Pairs of one question's generated answers, for those that exist: open_book over closed_book (axiom 2), and each
    of these over corrupted (axiom 3); [] if none or only one exists.

    `ids`: kind of answer (open_book, closed_book, corrupted) -> question id -> answer id.
    """
    return [
        pair_of(axiom, question, ids[better][question], ids[worse][question], better, worse, GENERATED_MARGIN)
        for axiom, better, worse in GENERATED
        if question in ids[better] and question in ids[worse]
    ]


@stage(PAIR_IDS, revision=2, at_most=AtMost(rows=lambda sizes: sizes.records))
def pair_combined(
    context: StageContext, threads: Rows, combined: Rows, splits: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 5: the combined answer is preferred to human answers of its question.

    In the test split these are its two parents, from which it was combined; in other splits all answers with fewer
    votes than both parents. A Rejected for each question without a pair.
    """
    combined_by_question = {row["question_id"]: row for row in combined}
    test = {row["question_id"] for row in splits if row["split"] == "test"}
    yield from batches_of(
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
    """The pairs of axiom 5 of one question: the combined answer is preferred. In the test split (`test`) to its two
    parents, else to each of `answers` (the question's human answers) with fewer votes than both parents; [] if there
    is none.
    """
    parents = [answer for answer in answers if answer["answer_id"] in (combined["first_id"], combined["second_id"])]
    lowest = min(answer["votes"] for answer in parents)
    ids = combined["question_id"], combined["combined_id"]
    return [
        pair_of(5, *ids, answer["answer_id"], "combined", "human", GENERATED_MARGIN, None, answer["votes"])
        for answer in (parents if test else answers)
        if test or answer["votes"] < lowest
    ]


def pair_of(
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
    related: tuple[str | None, float | None] = (None, None),
) -> Pair:
    """One pair as a tuple of the columns of PAIR_IDS; its id is a hash of pair type, question and both answers.

    `better`, `worse`: the sources of the two answers, e.g. human or open_book. `distance`: the margin of the pair.
    `pair_type`: None means "<better> > <worse>". `related`: the question that the rejected answer answers, and how
    similar it is.
    """
    kind = pair_type or f"{better} > {worse}"
    name = f"{kind}\x1f{question}\x1f{preferred}\x1f{rejected}"
    pair_id = f"p_{xxhash.xxh3_128_hexdigest(name.encode())[:20]}"
    return (
        pair_id, question, preferred, rejected, axiom, kind, distance, better, worse, preferred_votes, rejected_votes,
        *related,
    )  # fmt: skip


def batches_of(questions: Iterable[tuple[str, list[Pair], str]]) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs as record batches of at most BATCH_ROWS rows, then a Rejected for each question without a pair.

    `questions`: (question id, its pairs, reason of its Rejected if it has no pair).
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
    """(question id, its answers with id and votes alone) of each thread, in the order of the threads."""
    columns = ("question_id", "answers.list.element.answer_id", "answers.list.element.votes")
    return map(itemgetter("question_id", "answers"), threads.as_dicts(*columns))
