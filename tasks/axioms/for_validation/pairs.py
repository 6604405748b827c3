"""Pairs of table 6 of the paper: types of pairs that people and judges compare, whether or not they are trained on.

    top human > open_book     no axiom says so: people preferred the open-book answer
    open_book > worst human   axiom 2, validated and not trained on

They have the columns of the published pairs and are not published. The other types of the table are in these: open_book
> closed_book, closed_book > corrupted, open_book > corrupted, open_book > irrelevant_grounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from longform.engine.stage import AllRows, AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import PAIR_IDS, PAIRS
from tasks.axioms.pairs import GENERATED_MARGIN, Pair, batches_of, margin, pair_of
from tasks.axioms.published import in_question_order, with_texts
from tasks.axioms.questions import share

NONE = -1  # in place of an axiom
TYPES = (
    (0, "top human", "worst human"),
    (NONE, "top human", "open_book"),
    (NONE, "top human", "closed_book"),
    (1, "top human", "related"),
    (1, "closed_book", "related"),
    (NONE, "closed_book", "worst human"),
    (1, "open_book", "related"),
    (2, "open_book", "worst human"),
    (3, "top human", "corrupted"),
    (5, "combined", "top human"),
    (5, "combined", "second best"),
)  # (axiom, better, worse); open_book > related is of axioms 1 and 2


class Side(NamedTuple):
    """An answer of a pair: its id, its source, its votes if a person wrote it, and, if it answers a related question,
    that question with its similarity.
    """

    id: str
    source: str
    votes: int | None = None
    related: tuple[str | None, float | None] = (None, None)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda sizes: len(TYPES) * sizes["threads"]))
def pair_for_validation(
    context: StageContext,
    threads: Rows,
    related: Rows,
    open_book: Rows,
    closed_book: Rows,
    corrupted: Rows,
    combined: Rows,
    *,
    questions_per_site: int,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs of TYPES for each question, as far as it has both answers; one pair of a type for a question.

    The top human answer is the one with most votes, the worst the one with fewest; an answer to a related question is
    the hard negative that was drawn first; top human and second best of a combined answer are those it was made from.
    A Rejected for each question over the cap: `questions_per_site`, divided among the parts of a site as by
    `select_questions`.
    """
    made = {
        name: {row["question_id"]: row[rows.key] for row in rows.as_dicts("question_id", rows.key)}
        for name, rows in (("open_book", open_book), ("closed_book", closed_book), ("corrupted", corrupted))
    }
    both = {row["question_id"]: row for row in combined.as_dicts("question_id", "combined_id", "first_id", "second_id")}
    negatives = {row["question_id"]: row["negatives"] for row in related.as_dicts("question_id", "negatives")}
    left = share(questions_per_site, threads.parts[0].key if threads.parts else "-/0-00000")
    columns = ("question_id", "answers.list.element.answer_id", "answers.list.element.votes")

    def pairs() -> Iterator[tuple[str, list[Pair], str]]:
        for number, thread in enumerate(threads.as_dicts(*columns)):
            key = thread["question_id"]
            if number >= left:
                yield key, [], "over the cap of its site"
                continue
            sides = _humans(thread["answers"], both.get(key))
            sides |= {name: Side(ids[key], name) for name, ids in made.items() if key in ids}
            for negative in negatives.get(key, [])[:1]:
                of_question = negative["question_id"], negative["similarity"]
                sides["related"] = Side(negative["answer_id"], "human", negative["votes"], of_question)
            yield key, _pairs(key, sides), "no two answers to compare"

    yield from batches_of(pairs())


def _humans(answers: list[Row], combined: Row | None) -> dict[str, Side]:
    """Name in TYPES -> answer, of people's answers to a question and of the one that combines two of them (None: there
    is none). `answers`: at least two, most votes first.
    """
    votes = {answer["answer_id"]: answer["votes"] for answer in answers}
    named = {"top human": answers[0]["answer_id"], "worst human": answers[-1]["answer_id"]}
    sides = {name: Side(key, "human", votes[key]) for name, key in named.items()}
    if combined:
        sides["combined"] = Side(combined["combined_id"], "combined")
        sides["second best"] = Side(combined["second_id"], "human", votes[combined["second_id"]])
    return sides


def _pairs(question: str, sides: dict[str, Side]) -> list[Pair]:
    """The pairs of TYPES of one question of which both answers are in `sides` (name -> answer). The margin is that of
    votes for two human answers to the question, else GENERATED_MARGIN.
    """
    return [
        pair_of(
            axiom,
            question,
            better.id,
            worse.id,
            better.source,
            worse.source,
            margin(better.votes or 0, worse.votes or 0) if axiom == 0 else GENERATED_MARGIN,
            better.votes,
            worse.votes,
            pair_type=f"{names[0]} > {names[1]}",
            related=worse.related,
        )
        for axiom, *names in TYPES
        for better, worse in [(sides.get(names[0]), sides.get(names[1]))]
        if better and worse and better.id != worse.id
    ]


@stage(PAIRS, revision=1, split_by="split")
def assemble_validation_pairs(
    context: StageContext,
    pairs: Rows,
    threads: Rows,
    open_book: Rows,
    closed_book: Rows,
    corrupted: Rows,
    combined: Rows,
    passages: Rows,
    splits: Rows,
    copies: Rows,
    generated_copies: Rows,
    candidates: PerGroup,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs for validation with texts, authors, licences and model calls, as `assemble_pairs` makes them. A
    Rejected for each pair that an audit finds, or of which a text stands on the other side.
    """
    ordered = in_question_order(threads, [pairs])
    questions = set(ordered["question_id"].to_pylist())
    made = (open_book, closed_book, corrupted, combined)
    for item in with_texts(ordered, threads, made, passages, splits, (copies, generated_copies), candidates):
        if not isinstance(item, Rejected) or item.key not in questions:  # a pair is rejected by its own id
            yield item


@stage(PAIRS, revision=1, split_by="split")
def assemble_validation_pairs_across_sites(
    context: StageContext,
    pairs: Rows,
    threads: Rows,
    open_book: Rows,
    closed_book: Rows,
    corrupted: Rows,
    combined: Rows,
    passages: Rows,
    splits: Rows,
    copies: Rows,
    generated_copies: Rows,
    candidates: AllRows,
) -> Iterator[pa.RecordBatch | Rejected]:
    """As `assemble_validation_pairs`; human answers from outside the part are looked up among the candidates of all
    sites.
    """
    yield from assemble_validation_pairs.body(
        context,
        pairs,
        threads,
        open_book,
        closed_book,
        corrupted,
        combined,
        passages,
        splits,
        copies,
        generated_copies,
        candidates,
    )
