"""Selecting questions whose votes show a preference (section 3 of the paper), and crediting their authors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import pyarrow as pa

from longform.artifacts.parts import group_of
from longform.engine.at_most import Sizes
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms import ATTRIBUTION
from schemas.sources.stackexchange import THREADS
from tasks.sources.permalinks import permalink, profile


def _kept_at_most(sizes: Sizes) -> float:
    """Upper bound of the number of questions kept: the least of the number of threads, the cap of a site, and the
    number of questions that all posts read would make if each question had just `min_answers` answers.
    """
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
    """The questions with enough answers and a clear difference of votes (see `rejection_reason`), at most
    `questions_per_site` of a site; a Rejected, with the reason, for each other question.

    The cap is divided evenly among the parts of a site. Each part keeps the first ones in its order, which is by hash,
    so that a site that grows keeps the questions it had. `closed`: whether closed questions are kept. `wiki`: whether
    community wiki questions and answers are kept; such answers, if left out, are counted but not rejected.
    """
    remaining = share(questions_per_site, threads.parts[0].key if threads.parts else "-/0-00000")
    for batch in threads.batches():
        if not wiki:
            batch = without_wiki_answers(context, batch)
        reasons: list[str | None] = []
        for is_closed, is_wiki, votes in zip(*_flags_and_votes(batch), strict=True):
            reason = rejection_reason(votes, min_answers=min_answers, min_vote_ratio=min_vote_ratio)
            reason = "community wiki" if is_wiki and not wiki else reason
            reason = "closed" if is_closed and not closed else reason
            reasons.append(reason or ("over the cap of its site" if remaining <= 0 else None))
            remaining -= reasons[-1] is None
        yield batch.filter(pa.array([reason is None for reason in reasons]))
        ids = batch.column("question_id").to_pylist()
        yield from (Rejected(key, "filtered", why) for key, why in zip(ids, reasons, strict=True) if why)


def share(cap: int, key: str) -> int:
    """How many of the `cap` questions of a site one part of the site may keep; nearly as many as any other part, and
    over all parts they sum to `cap`.

    `key`: the part's key `<site>/<bits>-<index>`, part number `index`, from 0, of 2**bits parts.
    """
    bits, index = map(int, key.split("/")[1].split("-"))
    return (cap * (index + 1) >> bits) - (cap * index >> bits)


def rejection_reason(votes: Sequence[int], *, min_answers: int, min_vote_ratio: float) -> str | None:
    """Why a question whose answers have these votes is left out; None if it is kept.

    A kept question has at least `min_answers` answers and one with positive votes. Its highest votes exceed its
    lowest, and are at least `min_vote_ratio` times the lowest (a negative lowest counts as 0 here). The ratio is taken
    as the decimal that it is written as: 55 is 1.1 times 50.
    """
    if len(votes) < min_answers:
        return f"fewer than {min_answers} answers"
    highest, lowest = max(votes, default=0), min(votes, default=0)
    if highest <= 0:
        return "no answer with positive votes"
    needed = Decimal(str(min_vote_ratio)) * max(lowest, 0)
    return None if highest > lowest and highest >= needed else "no vote gap"


def _flags_and_votes(batch: pa.RecordBatch) -> tuple[list[bool], list[bool], list[list[int]]]:
    """Three lists with an entry for each question: whether it is closed, whether it is a community wiki, the votes of
    its answers in their order.
    """
    answers = batch.column("answers")
    votes = pa.ListArray.from_arrays(answers.offsets, answers.values.field("votes"))
    return batch.column("closed").to_pylist(), batch.column("wiki").to_pylist(), votes.to_pylist()


def without_wiki_answers(context: StageContext, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The threads of the batch without their community wiki answers, whose number is added to a counter of `context`.
    A thread may be left with no answer.
    """
    rows = batch.to_pylist()
    for row in rows:
        kept = [answer for answer in row["answers"] if not answer["wiki"]]
        context.count("wiki answers left out", len(row["answers"]) - len(kept))
        row["answers"] = kept
    return pa.RecordBatch.from_pylist(rows, schema=THREADS)


SHARED = ("question_id", "site", "title", "retrieved_at")
OF_POST = ("author", "author_id", "licence", "created", "scrubbed")
CREDIT = ("url", "author", "author_url", "licence", "scrubbed")


def _credited_at_most(sizes: Sizes) -> float:
    """Upper bound of the number of rows: all posts read; for each query of `asked` itself and all its passages."""
    chosen = sizes.arguments_of("asked")
    return float(sizes.records + sizes["asked"] * (1 + 2 * chosen.get("k", 0) + chosen.get("irrelevant", 0)))


@stage(ATTRIBUTION, revision=3, also=("asked",), at_most=AtMost(rows=_credited_at_most))
def attribute_posts(context: StageContext, threads: Rows, splits: Rows, asked: Rows) -> Iterator[Row]:
    """A row for every question that has a split and its answers, all of which rows may show, with author and licence,
    as CC BY-SA demands; a question comes right before its answers. For queries of MS MARCO (`asked`) a row for each,
    and one for each passage that is shown with some.
    """
    shown = set(splits.table(["question_id"])["question_id"].to_pylist())
    of_answers = (f"answers.list.element.{name}" for name in ("answer_id", *OF_POST))
    for thread in threads.as_dicts(*SHARED, *OF_POST, *of_answers):
        if thread["question_id"] not in shown:
            continue
        posts = [(thread["question_id"], "question", thread)]
        posts += [(answer["answer_id"], "answer", answer) for answer in thread["answers"]]
        shared = {name: thread[name] for name in SHARED}
        for key, kind, post in posts:
            yield {**shared, "kind": kind, "post_id": key, **credit(key, kind, post), "created": post["created"]}
    yield from _credited_passages(asked)


def _credited_passages(asked: Rows) -> Iterator[Row]:
    """The rows of ATTRIBUTION of queries of MS MARCO and of the passages that they show; nobody is known to have
    written these.
    """
    nobody = dict.fromkeys(("url", "created", "author", "author_url"))
    for query in asked:
        shared = {name: query[name] for name in ("question_id", "licence", "retrieved_at")}
        shared |= {"site": group_of(query["question_id"]), "title": query["text"], **nobody}
        yield {**shared, "post_id": query["question_id"], "kind": "query", "scrubbed": query["scrubbed"]}
        for passage in (*query["relevant"], *query["irrelevant"]):
            if passage["first"]:
                yield {**shared, "post_id": passage["passage_id"], "kind": "passage", "scrubbed": passage["scrubbed"]}


def credit(post_id: str, kind: str, post: Row) -> Row:
    """The columns CREDIT of a post: its permalink, author, address of the author's profile (None for a deleted user),
    licence, and `scrubbed`, how many mail addresses, phone numbers and handles were replaced in it.

    `post_id`: `<site>/<number>`. `kind`: question or answer. `post`: a row with author, author_id, licence and
    scrubbed.
    """
    site = post_id.split("/", 1)[0]
    return {
        "url": permalink(post_id, kind),
        "author": post["author"],
        "author_url": profile(site, post["author_id"]),
        "licence": post["licence"],
        "scrubbed": post["scrubbed"],
    }
