"""Stages whose rows are answers written by a model: open-book and closed-book (axiom 2), corrupted (axiom 3), combined
(axiom 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Flaw, Request
from longform.llm.read.replies import cited_passages
from schemas.axioms import ANSWERS, COMBINED, CORRUPTED
from schemas.replies import Corruption
from tasks.answers import made_by, unanswered
from tasks.axioms.utilization import outside_limits, utilization

CUT = "\n[the rest is cut]"  # ends a text of which a prompt holds only the beginning
ASKED = ("question_id", "title", "text")  # columns of a thread
OF_PASSAGES = tuple(f"passages.list.element.{name}" for name in ("passage_id", "text"))


def _longest(sizes: Sizes, *texts: str, reply: type[Corruption] | None = None) -> list[Request]:
    """The longest request that a stage may send, in a list, by which its cost is bounded before a run: with the
    question and the prompt's inputs named in `texts` as long as `characters` lets them be, and as many passages as the
    stage that found them keeps. `reply`: the class of a structured reply.
    """
    inputs: dict[str, Any] = {name: longest(sizes["characters"]) for name in ("question", *texts)}
    if "passages" in inputs:
        inputs["passages"] = [inputs["passages"]] * sizes.arguments_of("passages")["passages"]
    return [sizes["prompt"].request(sizes["model"], reply=reply, **inputs)]


@stage(ANSWERS, revision=6, at_most=AtMost(questions=lambda sizes: _longest(sizes, "passages")))
def answer_open_book(
    context: StageContext, threads: Rows, passages: Rows, *, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """LLM(P+, q): an answer to each question, written from numbered passages, which it cites. A Rejected for a
    question without a passage or without a usable reply. `passages`: a row for each of `threads`, in the same order.
    `characters`: of longer texts the prompt holds the beginning (see `shown`).
    """
    items = []
    evidence = passages.as_dicts("question_id", *OF_PASSAGES)
    for thread, row in zip(threads.as_dicts(*ASKED), evidence, strict=True):
        if row["passages"]:
            items.append((thread, row["passages"]))
        else:
            yield Rejected(thread["question_id"], "filtered", "no passage found")
    requests = (
        (
            (thread, evidence),
            prompt.request(
                model,
                question=shown(question_text(thread), characters),
                passages=[shown(passage["text"], characters) for passage in evidence],
            ),
        )
        for thread, evidence in items
    )
    for (thread, evidence), answer in context.ask(model, requests):
        cut = cut_texts(characters, thread, *evidence)
        yield answer_row(thread["question_id"], "open_book", answer, model, prompt, cut)


@stage(ANSWERS, revision=5, at_most=AtMost(questions=_longest))
def answer_closed_book(
    context: StageContext, threads: Rows, *, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """LLM(q): an answer to each question, written from the question alone. A Rejected for a question without a usable
    reply. `characters`: of longer questions the prompt holds the beginning (see `shown`).
    """
    rows = threads.as_dicts(*ASKED)
    requests = ((thread, prompt.request(model, question=shown(question_text(thread), characters))) for thread in rows)
    for thread, answer in context.ask(model, requests):
        cut = cut_texts(characters, thread)
        yield answer_row(thread["question_id"], "closed_book", answer, model, prompt, cut)


def answer_row(
    question: str, kind: str, answer: Answer | Failure, model: Endpoint, prompt: Prompt, cut: list[str]
) -> Row | Rejected:
    """A row of ANSWERS from the model's reply; a Rejected if there is no usable one. `question` is the question's id,
    `kind` open_book, closed_book or irrelevant_grounding, `cut` what `cut_texts` returns.
    """
    if isinstance(answer, Failure):
        return unanswered(question, answer)
    text = answer.value
    return {
        "answer_id": _row_id("a", question, kind, answer.key),
        "question_id": question,
        "kind": kind,
        "text": text,
        "cites": [] if kind == "closed_book" else cited_passages(text),
        "cut": cut,
        **made_by(answer, model, prompt),
    }


@stage(
    CORRUPTED,
    revision=5,
    at_most=AtMost(questions=lambda sizes: _longest(sizes, "passages", "answer", reply=Corruption)),
)
def corrupt_answers(
    context: StageContext,
    open_book: Rows,
    threads: Rows,
    passages: Rows,
    *,
    model: Endpoint,
    prompt: Prompt,
    characters: int,
) -> Iterator[Row | Rejected]:
    """LLM-Corrupt(D, q): one call lists the claims of an open-book answer, corrupts some, and rewrites the answer. A
    Rejected for an answer without a usable reply, without claims, or in which nothing was corrupted. `threads` and
    `passages` have a row for the question of every answer in `open_book`. `characters`: of longer texts the prompt
    holds the beginning (see `shown`).
    """
    questions = {thread["question_id"]: thread for thread in threads.as_dicts(*ASKED)}
    evidence = {row["question_id"]: row["passages"] for row in passages.as_dicts("question_id", *OF_PASSAGES)}
    requests = (
        (
            answer,
            prompt.request(
                model,
                reply=Corruption,
                question=shown(question_text(questions[answer["question_id"]]), characters),
                passages=[shown(passage["text"], characters) for passage in evidence[answer["question_id"]]],
                answer=shown(answer["text"], characters),
                copies=True,  # of an answer without claims
                check=partial(_unchanged, answer["text"], question_text(questions[answer["question_id"]])),
            ),
        )
        for answer in open_book
    )
    for answer, reply in context.ask(model, requests):
        question = answer["question_id"]
        cut = cut_texts(characters, questions[question], *evidence[question], answer)
        yield _corrupted(answer, reply, model, prompt, cut)


def _corrupted(answer: Row, reply: Answer | Failure, model: Endpoint, prompt: Prompt, cut: list[str]) -> Row | Rejected:
    """A row of CORRUPTED from the model's reply; a Rejected if there is no usable reply, or it lists no claim. `answer`
    is the open-book row that was to be corrupted, `cut` what `cut_texts` returns.
    """
    key = answer["answer_id"]
    if isinstance(reply, Failure):
        return unanswered(key, reply)
    corruption: Corruption = reply.value
    claims, corrupted = _one_line_each(corruption.claim), _one_line_each(corruption.corrupted_claim)
    if not claims:
        return Rejected(key, "filtered", "no claim to corrupt")
    return {
        "corrupted_id": _row_id("c", key, reply.key),
        "answer_id": key,
        "question_id": answer["question_id"],
        "claims": claims,
        "corrupted_claims": corrupted,
        "text": corruption.corrupted_answer.strip(),
        "cut": cut,
        **made_by(reply, model, prompt),
    }


def _unchanged(text: str, question: str, corruption: Corruption) -> Flaw | None:
    """What is wrong with a reply in which nothing was corrupted, although it lists claims of the answer `text`: it
    lists no changed one, or its answer is from the given one or the question, or is one of several claims.
    """
    claims, corrupted = _one_line_each(corruption.claim), _one_line_each(corruption.corrupted_claim)
    answer = " ".join(corruption.corrupted_answer.split())
    copied = any(answer in " ".join(given.split()) for given in (text, question))
    if claims and (not corrupted or copied or (len(claims) > 1 and answer in (*claims, *corrupted))):
        return "invalid", "nothing was corrupted"
    return None


def _one_line_each(claims: list[str]) -> list[str]:
    """The claims with each run of white space as one blank, empty ones left out."""
    return [" ".join(claim.split()) for claim in claims if claim.strip()]


@stage(COMBINED, revision=6, at_most=AtMost(questions=lambda sizes: _longest(sizes, "first", "second")))
def combine_answers(
    context: StageContext,
    threads: Rows,
    *,
    model: Endpoint,
    prompt: Prompt,
    characters: int,
    above: float,
    below: float,
    n: int,
) -> Iterator[Row | Rejected]:
    """LLM-Combine(q, A', A''): one answer written from a question's two answers with most votes of different authors,
    kept if `above` < utilization < `below`. `n` is the length in words of the n-grams that utilization counts (C.4);
    `characters`: of longer texts the prompt holds the beginning (see `shown`).

    A Rejected for a question whose answers are all of one author, without a usable reply, or with a utilization
    outside these limits. Every thread has at least two answers, sorted by votes.
    """
    pairs = []
    for thread in threads:
        first, *others = thread["answers"]
        second = next((other for other in others if not of_one_author(first, other)), None)
        if second is not None:
            pairs.append((thread, first, second))
        else:
            yield Rejected(thread["question_id"], "filtered", "no second answer by another author")
    requests = (
        (
            (thread, first, second),
            prompt.request(
                model,
                question=shown(question_text(thread), characters),
                first=shown(first["text"], characters),
                second=shown(second["text"], characters),
            ),
        )
        for thread, first, second in pairs
    )
    for item, answer in context.ask(model, requests):
        yield _combined(*item, answer, model, prompt, above, below, n, cut_texts(characters, *item))


def of_one_author(one: Row, other: Row) -> bool:
    """Whether both answers are known to be of the same author: by the number of the user where both have one, else by
    the name.
    """
    name = "author_id" if one["author_id"] and other["author_id"] else "author"
    return one[name] is not None and one[name] == other[name]


def _combined(
    thread: Row,
    first: Row,
    second: Row,
    answer: Answer | Failure,
    model: Endpoint,
    prompt: Prompt,
    above: float,
    below: float,
    n: int,
    cut: list[str],
) -> Row | Rejected:
    """A row of COMBINED from the model's reply; a Rejected if there is no usable reply, or its utilization (measured
    by n-grams of `n` words) is not between the exclusive bounds `above` and `below`. `cut`: what `cut_texts` returns.
    """
    question = thread["question_id"]
    if isinstance(answer, Failure):
        return unanswered(question, answer)
    text = answer.value
    share = utilization(text, first["text"], second["text"], n=n)
    if reason := outside_limits(share, above=above, below=below):
        return Rejected(question, "filtered", reason, detail=f"utilization {share:.3f}")
    return {
        "combined_id": _row_id("m", question, answer.key),
        "question_id": question,
        "first_id": first["answer_id"],
        "second_id": second["answer_id"],
        "text": text,
        "utilization": share,
        "cut": cut,
        **made_by(answer, model, prompt),
    }


def question_text(thread: Row) -> str:
    """A question as text: title, blank line, body."""
    return f"{thread['title']}\n\n{thread['text']}"


def shown(text: str, characters: int) -> str:
    """The text as a prompt holds it: one of more than so many characters is cut, and ends with CUT then."""
    return text if len(text) <= characters else text[: characters - len(CUT)] + CUT


def cut_texts(characters: int, *texts: Row) -> list[str]:
    """The ids of those texts (threads, passages, answers) of which `shown` leaves something out, in their order."""
    ids = ("passage_id", "answer_id", "question_id")  # of a row that has several the first is its own
    return [
        next(row[name] for name in ids if name in row)
        for row in texts
        if len(question_text(row) if "title" in row and "passage_id" not in row else row["text"]) > characters
    ]


def _row_id(kind: str, *parts: str) -> str:
    """The id of a generated row: the letter `kind` (a, c or m), an underscore and a hash of `parts`."""
    return f"{kind}_{fingerprint(list(parts))}"
