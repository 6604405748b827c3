"""Questions of Reddit as answers to rank (ELI5): an evaluation set alone, never trained on.

The rules are those of Stack Exchange's held-out questions: two answers or more, a clear difference of votes, and hard
negatives among the answers. Reddit's own come before: no links, bots, notices of removal, deleted or removed posts, few
votes or words (tasks/sources/reddit). Authors have no names here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longform.engine.stage import AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import ATTRIBUTION, RELATED
from schemas.axioms.evaluation import RANKING
from schemas.sources.reddit import REDDIT_THREADS
from tasks.axioms.answers import question_text
from tasks.axioms.evaluation.ranking import answers_of, ranked, ranking_row
from tasks.axioms.questions import rejection_reason, share
from tasks.axioms.related import BLOCK, Pool, related_batch
from tasks.axioms.sealed.same import groups, head

ELI5 = "eli5"
SUBREDDITS = ("askhistorians", "askscience", "explainlikeimfive")
MIN_SCORE, MIN_WORDS = 2, 8
OF_POST = ("url", "licence", "created")


@stage(REDDIT_THREADS, revision=1, at_most=AtMost(rows=lambda sizes: float(sizes["threads"]), keeps=True))
def select_discussions(
    context: StageContext, threads: Rows, *, min_answers: int, min_vote_ratio: float, questions: int
) -> Iterator[Row | Rejected]:
    """The questions with enough answers and a clear difference of votes (tasks/axioms/questions.py), at most
    `questions` of a subreddit, those of the lowest hashes; a Rejected for each other one.
    """
    cap = share(questions, threads.parts[0].key if threads.parts else "-/0-00000")
    kept: dict[str, int] = {}
    for thread in threads:
        votes = [answer["votes"] for answer in thread["answers"]]
        reason = rejection_reason(votes, min_answers=min_answers, min_vote_ratio=min_vote_ratio)
        if reason is None and kept.get(thread["site"], 0) >= cap:
            reason = "over the cap of its subreddit"
        if reason:
            yield Rejected(thread["question_id"], "filtered", reason)
        else:
            kept[thread["site"]] = kept.get(thread["site"], 0) + 1
            yield thread


@stage(RELATED, revision=1)
def find_related_discussions(
    context: StageContext, threads: PerGroup, *, k: int, below: float, same: float, negatives: int, seed: int
) -> Iterator[pa.RecordBatch]:
    """For each question its k nearest of the same subreddit by TF-IDF, and hard negatives drawn from their answers, as
    `find_related` draws them. Those with a similarity of `below` or more, or that share so much of their word 3-grams
    as `same` (Jaccard), count as the same question.
    """
    from tasks.retrieval.nearest import nearest_tfidf, padded
    from tasks.text.copies.duplicates import near_duplicates
    from tasks.text.copies.shingles import shingle_hashes

    names = ["question_id", "site", "title", "text"]
    names += [f"answers.list.element.{name}" for name in ("answer_id", "votes")]
    rows = list(threads.as_dicts(*names))
    pool = _pool(rows)
    neighbours, similarities = padded(len(rows), k)
    for side in range(int(pool.sides.max(initial=-1)) + 1):
        own = np.flatnonzero(pool.sides == side)
        shingles = [shingle_hashes(question_text(rows[place]), 3) for place in own]
        apart = groups(own.size, near_duplicates(shingles, same)).astype(np.int64)
        found, similarities[own] = nearest_tfidf([pool.heads[place] for place in own], k, below, groups=apart)
        neighbours[own] = np.where(found >= 0, own[found], -1)
    for start in range(0, len(rows), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(rows)))
        yield related_batch(pool, block, neighbours[block], similarities[block], negatives, seed)


def _pool(rows: Sequence[Row]) -> Pool:
    """The questions, each subreddit a side of its own."""
    sides = np.unique([row["site"] for row in rows] or np.zeros(0, "U1"), return_inverse=True)[1]
    answers = [[(answer["answer_id"], answer["votes"]) for answer in row["answers"]] for row in rows]
    heads = [head(row["title"], row["text"]) for row in rows]
    return Pool([row["question_id"] for row in rows], heads, sides, np.arange(len(rows)), answers)


@stage(RANKING, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: float(sizes["threads"])))
def rank_discussions(
    context: StageContext, threads: Rows, related: Rows, others: PerGroup, *, regions: list[str]
) -> Iterator[Row]:
    """Each question with its answers of people and its hard negatives, which are answers to `others`. `regions`: as of
    `scrub`; without any, texts are not scrubbed.
    """
    negatives = {
        row["question_id"]: [negative["answer_id"] for negative in row["negatives"]]
        for row in related.as_dicts("question_id", "negatives")
    }
    texts = answers_of(others, {answer for ids in negatives.values() for answer in ids})

    def shown(answer: Row, source: str, gain: float) -> Row:
        text, _ = scrubbed(answer["text"], regions)
        credit = {"author": None, "url": answer["url"], "licence": answer["licence"]}
        return ranked({**answer, "text": text}, source, gain, **credit)

    for thread in threads:
        key = thread["question_id"]
        own = [shown(answer, "human", float(max(answer["votes"], 0))) for answer in thread["answers"]]
        yield ranking_row(
            ELI5,
            key,
            scrubbed(question_text(thread), regions)[0],
            [*own, *(shown(texts[answer], "related", 0.0) for answer in negatives[key])],
            author=None,
            **{name: thread[name] for name in ("site", "url", "licence", "retrieved_at")},
        )


@stage(ATTRIBUTION, revision=1)
def attribute_discussions(context: StageContext, threads: Rows, *, regions: list[str]) -> Iterator[Row]:
    """A row for every question and answer, with permalink and licence; nobody is named. `regions`: as of `scrub`."""
    for thread in threads:
        shared: dict[str, Any] = {name: thread[name] for name in ("question_id", "site", "title", "retrieved_at")}
        shared["title"] = scrubbed(thread["title"], regions)[0]
        posts = [(thread["question_id"], "question", thread, question_text(thread))]
        posts += [(answer["answer_id"], "answer", answer, answer["text"]) for answer in thread["answers"]]
        for key, kind, post, text in posts:
            own = {"post_id": key, "kind": kind, "author": None, "author_url": None}
            yield shared | own | {name: post[name] for name in OF_POST} | {"scrubbed": scrubbed(text, regions)[1]}


def scrubbed(text: str, regions: Sequence[str]) -> tuple[str, int]:
    """(the text with marks in place of mail addresses, phone numbers and handles, their number); the text itself, and
    0, if `regions` is empty.
    """
    from tasks.text.scrub import scrub

    if not regions:
        return text, 0
    found = scrub(text, regions)
    return found.text, found.marks
