"""Answers to queries of MS MARCO from relevant passages (D) and from irrelevant ones (F), and their pairs (axiom 4).

D > F                each passage > each: two of P+ over two of P-
D > a passage        two passages of P-
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pyarrow as pa

from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request
from schemas.axioms import ANSWERS, COPIES, PAIR_IDS, TEXTS
from tasks.axioms.answers import answer_row, cut_texts, shown
from tasks.axioms.pairs import GENERATED_MARGIN, Pair, batches_of, pair_of
from tasks.axioms.sealed.sealing import copies_among, text_hash, texts_of
from tasks.sources.released.msmarco import GROUP

AXIOM = 4
EACH = 2  # passages of P+, and of P-, that are in pairs
PAIRS_A_QUERY = 1 + EACH + EACH * EACH
RELEVANT, IRRELEVANT = "relevant", "irrelevant"
OPEN_BOOK, UNGROUNDED, PASSAGE = "open_book", "irrelevant_grounding", "passage"


def _longest(sizes: Sizes, most: str, times: int) -> list[Request]:
    """The longest request that a stage may send, in a list; it has `times` as many passages as the argument `most` of
    the stage that chose them.
    """
    text = longest(sizes["characters"])
    passages = [text] * (times * sizes.arguments_of("asked")[most])
    return [sizes["prompt"].request(sizes["model"], question=text, passages=passages)]


@stage(ANSWERS, revision=2, at_most=AtMost(questions=lambda sizes: _longest(sizes, "k", 2)))
def answer_from_relevant(
    context: StageContext, asked: Rows, *, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """D = LLM(P+, q): an answer to each query from its relevant passages, which it cites. A Rejected for a query
    without a usable reply. `characters`: of longer texts the prompt holds the beginning (see `shown`).
    """
    yield from _answers(context, asked, RELEVANT, OPEN_BOOK, model, prompt, characters)


@stage(ANSWERS, revision=2, at_most=AtMost(questions=lambda sizes: _longest(sizes, "irrelevant", 1)))
def answer_from_irrelevant(
    context: StageContext, asked: Rows, *, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """F = LLM(P-, q): as `answer_from_relevant`, from passages that are not relevant."""
    yield from _answers(context, asked, IRRELEVANT, UNGROUNDED, model, prompt, characters)


def _answers(
    context: StageContext, asked: Rows, column: str, kind: str, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """The rows of ANSWERS of this kind from the passages in `column`."""
    passages = (f"{column}.list.element.{name}" for name in ("passage_id", "text"))
    requests = (
        (
            row,
            prompt.request(
                model,
                question=shown(row["text"], characters),
                passages=[shown(passage["text"], characters) for passage in row[column]],
            ),
        )
        for row in asked.as_dicts("question_id", "text", *passages)
    )
    for row, answer in context.ask(model, requests):
        question = {name: row[name] for name in ("question_id", "text")}
        cut = cut_texts(characters, question, *row[column])
        yield answer_row(row["question_id"], kind, answer, model, prompt, cut)


@stage(PAIR_IDS, revision=1, at_most=AtMost(rows=lambda sizes: PAIRS_A_QUERY * sizes["asked"]))
def pair_by_evidence(
    context: StageContext, asked: Rows, relevant: Rows, irrelevant: Rows
) -> Iterator[pa.RecordBatch | Rejected]:
    """Axiom 4: the answer from relevant passages is preferred to the one from irrelevant passages, and to each of two
    of the latter; each of two relevant passages is preferred to each of these two.

    Of P+ those with a label come first; else both are in their order. `relevant`, `irrelevant`: the answers from such
    passages; a query may lack them.
    """
    ids = [
        {row["question_id"]: row["answer_id"] for row in rows.as_dicts("question_id", "answer_id")}
        for rows in (relevant, irrelevant)
    ]
    fields = ("passage_id", "labelled")
    columns = [f"{name}.list.element.{field}" for name in (RELEVANT, IRRELEVANT) for field in fields]
    yield from batches_of(
        (row["question_id"], _pairs(row, *(of.get(row["question_id"]) for of in ids)), "no pair")
        for row in asked.as_dicts("question_id", *columns)
    )


def _pairs(row: Row, relevant: str | None, irrelevant: str | None) -> list[Pair]:
    """The pairs of a query. `relevant`, `irrelevant`: the ids of its two answers, None for one that it lacks."""
    better, worse = paired(row)
    kinds = [(relevant, OPEN_BOOK, irrelevant, UNGROUNDED)]
    kinds += [(relevant, OPEN_BOOK, name, PASSAGE) for name in worse]
    kinds += [(one, PASSAGE, name, PASSAGE) for one, name in product(better, worse)]
    return [
        pair_of(AXIOM, row["question_id"], one, other, of_one, of_other, GENERATED_MARGIN)
        for one, of_one, other, of_other in kinds
        if one and other
    ]


def paired(row: Row) -> tuple[list[str], list[str]]:
    """The ids of the EACH passages of P+ and of P- that are in pairs: of P+ those with a label first."""
    labelled_first = sorted(row[RELEVANT], key=lambda passage: not passage["labelled"])
    better, worse = ([passage["passage_id"] for passage in of[:EACH]] for of in (labelled_first, row[IRRELEVANT]))
    return better, worse


@stage(TEXTS, revision=1, at_most=AtMost(rows=lambda sizes: 2 * sizes["asked"]))
def list_grounded(context: StageContext, asked: Rows, relevant: Rows, irrelevant: Rows) -> Iterator[pa.RecordBatch]:
    """A hash of every answer from passages of MS MARCO."""
    side_of = {row["question_id"]: row["split"] for row in asked.as_dicts("question_id", "split")}
    for rows in (relevant, irrelevant):
        yield texts_of([
            (row["answer_id"], row["question_id"], side_of[row["question_id"]], None, text_hash(row["text"]))
            for row in rows.as_dicts("answer_id", "question_id", "text")
        ])  # fmt: skip


@stage(COPIES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["grounded"]))
def find_grounded_copies(
    context: StageContext, grounded: AllRows, texts: AllRows, generated: AllRows, *, sites: list[str]
) -> Iterator[Row]:
    """The answers from passages that stand on another side first, where people's texts of community sites (`texts`) and
    answers generated for these (`generated`) count as earlier, see `find_copies`.
    """
    yield from copies_among(context, grounded, [*texts.paths, *generated.paths], [*sites, GROUP])
