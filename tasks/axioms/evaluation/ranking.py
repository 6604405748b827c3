"""Held-out questions of Stack Exchange as answers to rank: people's own, and hard negatives among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import duckdb
import pyarrow as pa

from longform.artifacts.parts import group_of
from longform.artifacts.rows import read_parquet
from longform.engine.stage import AllRows, AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.axioms.evaluation import RANKING
from tasks.axioms.answers import question_text
from tasks.axioms.questions import credit
from tasks.axioms.sealed.same import site_of

HELD_OUT, SPLIT = "stackexchange", "test"
LESS_THAN_TWO, NO_BEST = "fewer than two answers to rank", "no answer with positive votes left"
SHOWN = ("author", "url", "licence")


@stage(RANKING, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: float(sizes["threads"])))
def rank_held_out(
    context: StageContext, threads: Rows, related: Rows, splits: Rows, copies: Rows, candidates: PerGroup
) -> Iterator[Row | Rejected]:
    """Each question of the test split with its answers of people and its hard negatives; a Rejected for one of which
    fewer than two answers are left, or none with positive votes.

    Everything shown stands on the test side: an answer that is a copy of a text of another side is left out.
    `related`: the hard negatives; a question that it lacks has none. `candidates`: of the site, whose answers these
    are.
    """
    yield from _held_out(context, threads, related, splits, copies, candidates)


@stage(RANKING, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: float(sizes["threads"])))
def rank_held_out_across_sites(
    context: StageContext, threads: Rows, related: Rows, splits: Rows, copies: Rows, candidates: AllRows
) -> Iterator[Row | Rejected]:
    """As `rank_held_out`, with hard negatives from all sites."""
    yield from _held_out(context, threads, related, splits, copies, candidates)


def _held_out(
    context: StageContext, threads: Rows, related: Rows, splits: Rows, copies: Rows, candidates: Rows
) -> Iterator[Row | Rejected]:
    """See `rank_held_out`."""
    test = {row["question_id"] for row in splits.as_dicts("question_id", "split") if row["split"] == SPLIT}
    copied = {row["text_id"] for row in copies.as_dicts("text_id")}
    negatives = {
        row["question_id"]: [negative["answer_id"] for negative in row["negatives"]]
        for row in related.as_dicts("question_id", "negatives")
        if row["question_id"] in test
    }
    others = answers_of(candidates, {answer for ids in negatives.values() for answer in ids})
    for thread in threads:
        key = thread["question_id"]
        if key not in test:
            continue
        own = [answer for answer in thread["answers"] if answer["answer_id"] not in copied]
        context.count("answers left out that stand on another side", len(thread["answers"]) - len(own))
        shown = [others[answer] for answer in negatives.get(key, ()) if answer in others]
        yield why_not(key, own) or ranking_row(
            HELD_OUT,
            key,
            question_text(thread),
            [*map(_own, own), *map(_negative, shown)],
            site=thread["site"],
            retrieved_at=thread["retrieved_at"],
            **{name: credit(key, "question", thread)[name] for name in SHOWN},
        )


def why_not(question: str, own: list[Row]) -> Rejected | None:
    """A Rejected if these answers of people, with their votes, are nothing to rank; else None."""
    if len(own) < 2:
        return Rejected(question, "filtered", LESS_THAN_TWO)
    return None if max(answer["votes"] for answer in own) > 0 else Rejected(question, "filtered", NO_BEST)


def ranking_row(name: str, question_id: str, question: str, answers: Iterable[Row], **others: object) -> Row:
    """A row of RANKING of the set `name`. `answers`: rows of RANKED, in any order; `others`: its further columns."""
    return {
        "ranking_id": f"{name} {question_id}",
        "set": name,
        "question_id": question_id,
        "question": question,
        "answers": sorted(answers, key=lambda answer: answer["answer_id"]),
        "split": SPLIT,
        **others,
    }


def ranked(answer: Mapping[str, object], source: str, gain: float, **shown: object) -> Row:
    """A row of RANKED; `negative` unless the source is human. `shown`: author, url and licence."""
    return {
        "answer_id": answer["answer_id"],
        "text": answer["text"],
        "source": source,
        "votes": answer["votes"],
        "gain": gain,
        "negative": source != "human",
        **shown,
    }


def _own(answer: Row) -> Row:
    """A row of RANKED for an answer to the question itself."""
    return ranked(answer, "human", float(max(answer["votes"], 0)), **_credit(answer))


def _negative(answer: Row) -> Row:
    """A row of RANKED for an answer to a related question."""
    return ranked(answer, "related", 0.0, **_credit(answer))


def _credit(answer: Row) -> Row:
    """Author, permalink and licence of an answer."""
    of_post = credit(answer["answer_id"], "answer", answer)
    return {name: of_post[name] for name in SHOWN}


def answers_of(candidates: Rows, ids: set[str]) -> dict[str, Row]:
    """id -> the answer, for those answers to the candidates that have these ids; only the parts of their sites are
    read.
    """
    sites = {site_of(answer) for answer in ids}
    candidates = candidates.of([part for part in candidates.parts or () if group_of(part.key) in sites])
    if not candidates.paths:
        return {}
    wanted = pa.table({"answer_id": pa.array(sorted(ids), pa.string())})
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("wanted", wanted)
        query = f"""
            SELECT answer.* FROM (SELECT unnest(answers) AS answer FROM {read_parquet(candidates.paths)})
            WHERE answer.answer_id IN (SELECT answer_id FROM wanted)
        """
        rows = [row for batch in database.sql(query).to_arrow_reader() for row in batch.to_pylist()]
    return {row["answer_id"]: row for row in rows}
