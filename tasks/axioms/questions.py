"""Selecting questions whose votes show a preference (section 3 of the paper), and crediting their authors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from longform.engine.at_most import Sizes
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import ATTRIBUTION
from schemas.sources.stackexchange import THREADS
from tasks.axioms.votes import rejection_reason
from tasks.sources.permalinks import permalink, profile


def _kept_at_most(sizes: Sizes) -> float:
    """The most questions that can be kept: each needs `min_answers` answers, and all of them are posts."""
    return float(min(sizes["threads"], sizes["questions_per_site"], sizes.records / (1 + sizes["min_answers"])))


@stage(THREADS, revision=1, at_most=AtMost(rows=_kept_at_most, keeps=True))
def select_questions(
    context: StageContext,
    threads: Rows,
    *,
    min_answers: int,
    min_vote_ratio: float,
    closed: bool,
    wiki: bool,
    questions_per_site: int,
) -> Iterator[pa.RecordBatch | Rejected]:
    """The questions with enough answers and a clear difference of votes, at most `questions_per_site` of a site.

    The cap is divided evenly among a site's parts, which keep the questions with the lowest hashes; so a site that
    grows keeps the questions it had. `closed` and `wiki` keep such posts. A wiki answer that is left out is counted,
    but is no rejected row.
    """
    remaining = share(questions_per_site, threads.parts[0].key if threads.parts else "-/0-00000")
    for batch in threads.batches():
        if not wiki:
            batch = without_wiki_answers(context, batch)
        reasons = [
            _reason(row, votes, min_answers, min_vote_ratio, closed, wiki)
            for row, votes in zip(_flags(batch), votes_of(batch), strict=True)
        ]
        for position, reason in enumerate(reasons):
            if reason is None and remaining <= 0:
                reasons[position] = "over the cap of its site"
            remaining -= reasons[position] is None
        yield batch.filter(pa.array([reason is None for reason in reasons]))
        ids = batch.column("question_id").to_pylist()
        yield from (Rejected(key, "filtered", why) for key, why in zip(ids, reasons, strict=True) if why)


def share(cap: int, key: str) -> int:
    """The part of a cap of `cap` questions that goes to the part `<site>/<bits>-<index>`; a site's shares sum
    to `cap`.
    """
    bits, index = map(int, key.split("/")[1].split("-"))
    return (cap * (index + 1) >> bits) - (cap * index >> bits)


def _reason(
    flags: tuple[bool, bool], votes: list[int], min_answers: int, min_vote_ratio: float, closed: bool, wiki: bool
) -> str | None:
    """Why a question is left out (closed, community wiki, or its votes); None if it is kept."""
    if flags[0] and not closed:
        return "closed"
    if flags[1] and not wiki:
        return "community wiki"
    return rejection_reason(votes, min_answers=min_answers, min_vote_ratio=min_vote_ratio)


def _flags(batch: pa.RecordBatch) -> Iterator[tuple[bool, bool]]:
    """(closed, wiki) of each question."""
    return zip(batch.column("closed").to_pylist(), batch.column("wiki").to_pylist(), strict=True)


def votes_of(batch: pa.RecordBatch) -> list[list[int]]:
    """The votes of each thread's answers, in their order."""
    answers = batch.column("answers")
    votes = answers.flatten().field("votes").to_pylist()
    ends = np.cumsum(answers.value_lengths().to_numpy(zero_copy_only=False))
    return [votes[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if len(ends) else []


def without_wiki_answers(context: StageContext, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The threads without community wiki answers, which are counted."""
    rows = batch.to_pylist()
    for row in rows:
        kept = [answer for answer in row["answers"] if not answer["wiki"]]
        context.count("wiki answers left out", len(row["answers"]) - len(kept))
        row["answers"] = kept
    return pa.RecordBatch.from_pylist(rows, schema=THREADS)


SHARED = ("question_id", "site", "title", "retrieved_at")
CREDITED = ("author", "author_id", "licence", "created", "scrubbed")


@stage(ATTRIBUTION, revision=1, at_most=AtMost(rows=lambda sizes: sizes.records))
def attribute_posts(context: StageContext, threads: Rows) -> Iterator[Row]:
    """Every question and answer that the dataset may contain, with its author and licence, as CC BY-SA demands."""
    answers = (f"answers.list.element.{name}" for name in ("answer_id", *CREDITED))
    for thread in threads.only(*SHARED, *CREDITED, *answers):
        shared = {name: thread[name] for name in SHARED}
        yield {**shared, "kind": "question", **_credit(thread["question_id"], "question", thread)}
        for answer in thread["answers"]:
            yield {**shared, "kind": "answer", **_credit(answer["answer_id"], "answer", answer)}


def _credit(post_id: str, kind: str, post: Row) -> Row:
    """The columns that credit a post's author."""
    site = post_id.split("/", 1)[0]
    return {
        "post_id": post_id,
        "url": permalink(post_id, kind),
        "author": post["author"],
        "author_url": profile(site, post["author_id"]),
        "licence": post["licence"],
        "created": post["created"],
        "scrubbed": post["scrubbed"],
    }
