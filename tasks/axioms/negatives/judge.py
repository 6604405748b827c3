"""Whether the hard negatives of axiom 1 are negatives: a judge reads each answer to a related question beside the
question itself, and an answer that answers it after all is no negative.

The judge is an endpoint, or a cross-encoder: a local model that gives two texts one score. A negative that it gives no
usable verdict on is a rejected row, and as it is not known to be one, it is no negative either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import duckdb
import pyarrow as pa

from longform.artifacts.rows import read_parquet
from longform.engine.at_most import Sizes, bound_by, longest
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.axioms import RELATED, VERDICTS
from schemas.replies import Relevance
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.axioms.answers import ASKED, cut_texts, question_text, shown
from tasks.retrieval.cross_encoder import CrossEncoderSetting, load_cross_encoder

PAIRS_AT_ONCE = 1_024
Item = tuple[str, Row, Row, Row]  # id of the verdict, question, answer, hard negative


def _verdicts_at_most(sizes: Sizes) -> float:
    """Upper bound of the verdicts: for each question as many as the hard negatives that the stage before keeps."""
    return float(sizes["related"] * bound_by(sizes.arguments_of("related").get("negatives")))


def _longest(sizes: Sizes) -> list[Request]:
    """The longest request that may be sent, in a list, by which the cost is bounded before a run."""
    text = longest(sizes["characters"])
    return [sizes["prompt"].request(sizes["model"], reply=Relevance, question=text, answer=text)]


@stage(VERDICTS, revision=1, at_most=AtMost(rows=_verdicts_at_most, calls=_verdicts_at_most, questions=_longest))
def judge_negatives(
    context: StageContext,
    related: Rows,
    threads: Rows,
    candidates: AllRows,
    *,
    model: Endpoint | None,
    prompt: Prompt | None,
    encoder: CrossEncoderSetting | None,
    above: float | None,
    characters: int,
) -> Iterator[Row | Rejected]:
    """For each hard negative of each question in `related`, whether it answers the question after all: by the endpoint
    `model`, else by whether the score that the cross-encoder `encoder` gives is more than `above`. A Rejected for a
    negative without a usable reply.

    `threads`: the questions; `candidates`: those of all sites, whose answers the negatives are. `characters`: of longer
    texts the judge gets the beginning (see `shown`); a cross-encoder cuts at a limit of its own, too. UsageError if
    there is no judge, or the cross-encoder cannot be loaded.
    """
    items = _items(related, threads, candidates)
    if model and prompt:
        yield from _by_endpoint(context, items, model, prompt, characters)
    elif encoder and above is not None:
        yield from _by_encoder(items, encoder, above, characters)
    else:
        raise UsageError("There is no judge of negatives: set negatives_judge to an endpoint or a cross-encoder.")


def _items(related: Rows, threads: Rows, candidates: AllRows) -> Iterator[Item]:
    """Each hard negative of each question, with the id of its verdict and both texts, in the order of the questions."""
    asked = list(related.as_dicts("question_id", "negatives"))
    questions = {thread["question_id"]: thread for thread in threads.as_dicts(*ASKED)}
    texts = _texts(candidates, {negative["answer_id"] for row in asked for negative in row["negatives"]})
    for row in asked:
        question = questions[row["question_id"]]
        for negative in row["negatives"]:
            answer = {"answer_id": negative["answer_id"], "text": texts[negative["answer_id"]]}
            yield f"{row['question_id']} {negative['answer_id']}", question, answer, negative


def _texts(candidates: AllRows, ids: Iterable[str]) -> dict[str, str]:
    """id -> text of those answers to the candidates that have these ids."""
    wanted = pa.table({"answer_id": pa.array(sorted(ids), pa.string())})
    if not wanted.num_rows:
        return {}
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        database.register("wanted", wanted)
        query = f"""
            SELECT answer.answer_id, answer.text
            FROM (SELECT unnest(answers) AS answer FROM {read_parquet(candidates.paths)})
            WHERE answer.answer_id IN (SELECT answer_id FROM wanted)
        """
        return dict(database.sql(query).fetchall())


def _by_endpoint(
    context: StageContext, items: Iterable[Item], model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """Rows of VERDICTS by what an endpoint says; a Rejected where it gives no usable reply."""
    requests = (
        (
            item,
            prompt.request(
                model,
                reply=Relevance,
                question=shown(question_text(item[1]), characters),
                answer=shown(item[2]["text"], characters),
            ),
        )
        for item in items
    )
    for item, reply in context.ask(model, requests):
        if isinstance(reply, Failure):
            yield unanswered(item[0], reply)
        else:
            yield _verdict(item, reply.value.verdict == "yes", None, characters) | made_by(reply, model, prompt)


def _by_encoder(
    items: Iterator[Item], encoder: CrossEncoderSetting, above: float, characters: int
) -> Iterator[Row | Rejected]:
    """Rows of VERDICTS by the scores of a cross-encoder."""
    scored = load_cross_encoder(encoder.place)
    while block := list(islice(items, PAIRS_AT_ONCE)):
        scores = scored([(question_text(item[1])[:characters], item[2]["text"][:characters]) for item in block])
        for item, score in zip(block, scores, strict=True):
            yield _verdict(item, score > above, score, characters) | NO_MODEL | {"model": encoder.name}


def _verdict(item: Item, answers: bool, score: float | None, characters: int) -> Row:
    """A row of VERDICTS without the columns that say who judged."""
    key, question, answer, negative = item
    return {
        "verdict_id": key,
        "question_id": question["question_id"],
        "answer_id": answer["answer_id"],
        "related_question_id": negative["question_id"],
        "answers": answers,
        "score": score,
        "cut": cut_texts(characters, question, answer),
    }


@stage(RELATED, revision=1)
def keep_negatives(context: StageContext, related: Rows, verdicts: Rows) -> Iterator[Row | Rejected]:
    """The questions of `related` with those hard negatives alone that are known not to answer them, by `verdicts`. A
    Rejected for a question of which none is left.
    """
    known = {row["verdict_id"] for row in verdicts.as_dicts("verdict_id", "answers") if not row["answers"]}
    for row in related:
        kept = [each for each in row["negatives"] if f"{row['question_id']} {each['answer_id']}" in known]
        if kept or not row["negatives"]:
            yield row | {"negatives": kept}
        else:
            yield Rejected(row["question_id"], "filtered", "each hard negative answers it after all, or was not judged")
