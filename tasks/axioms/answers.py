"""Answers that a model writes: open-book and closed-book (axiom 2), corrupted (3), combined (5)."""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.read.replies import cited_passages
from schemas.axioms import ANSWERS, COMBINED, CORRUPTED
from schemas.replies import Corruption
from tasks.answers import made_by, refused, usable
from tasks.metrics.utilization import utilization

QUESTION_CHARACTERS = 8_000
PASSAGE_CHARACTERS = 12_000
ANSWER_CHARACTERS = 12_000
ASKED = ("question_id", "title", "text")  # columns of a thread
TEXT_OF_PASSAGES = "passages.list.element.text"


def _longest_passages(of: Sizes) -> list[str]:
    return [longest(PASSAGE_CHARACTERS)] * of.arguments_of("passages")["passages"]


def _longest_open_book(of: Sizes) -> list[Request]:
    texts = {"question": longest(QUESTION_CHARACTERS), "passages": _longest_passages(of)}
    return [of["prompt"].request(of["model"], **texts)]


def _longest_corruption(of: Sizes) -> list[Request]:
    texts = {"question": longest(QUESTION_CHARACTERS), "passages": _longest_passages(of)}
    return [of["prompt"].request(of["model"], reply=Corruption, answer=longest(ANSWER_CHARACTERS), **texts)]


@stage(ANSWERS, revision=3, at_most=AtMost(questions=_longest_open_book))
def answer_open_book(
    context: StageContext, threads: Rows, passages: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """LLM(P+, q): an answer written from numbered passages, which it cites."""
    items = []
    given = passages.only("question_id", TEXT_OF_PASSAGES)
    for thread, found in zip(threads.only(*ASKED), given, strict=True):
        if found["passages"]:
            items.append((thread["question_id"], (thread, found["passages"])))
        else:
            yield Rejected(thread["question_id"], "filtered", "no passage found")
    requests = (
        (question, prompt.request(model, question=asked(thread), passages=texts(given)))
        for question, (thread, given) in items
    )
    for question, answer in context.ask(model, requests):
        yield _answer(question, "open_book", answer, model, prompt)


@stage(
    ANSWERS,
    revision=2,
    at_most=AtMost(questions=lambda of: [of["prompt"].request(of["model"], question=longest(QUESTION_CHARACTERS))]),
)
def answer_closed_book(
    context: StageContext, threads: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """LLM(q): an answer written from nothing but the question."""
    rows = threads.only(*ASKED)
    requests = ((thread["question_id"], prompt.request(model, question=asked(thread))) for thread in rows)
    for question, answer in context.ask(model, requests):
        yield _answer(question, "closed_book", answer, model, prompt)


def _answer(question: str, kind: str, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(question, answer)
    text = usable(question, answer)
    if isinstance(text, Rejected):
        return text
    return {
        "answer_id": _name("a", question, kind, answer.key),
        "question_id": question,
        "kind": kind,
        "text": text,
        "cites": cited_passages(text) if kind == "open_book" else [],
        **made_by(answer, model, prompt),
    }


@stage(CORRUPTED, revision=2, at_most=AtMost(questions=_longest_corruption))
def corrupt_answers(
    context: StageContext, open_book: Rows, threads: Rows, passages: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """LLM-Corrupt(D, q): one call lists the claims of an open-book answer, corrupts some, and rewrites it."""
    questions = {thread["question_id"]: asked(thread) for thread in threads.only(*ASKED)}
    evidence = {row["question_id"]: texts(row["passages"]) for row in passages.only("question_id", TEXT_OF_PASSAGES)}
    requests = (
        (
            answer,
            prompt.request(
                model,
                reply=Corruption,
                question=questions[answer["question_id"]],
                passages=evidence[answer["question_id"]],
                answer=answer["text"][:ANSWER_CHARACTERS],
            ),
        )
        for answer in open_book
    )
    for answer, reply in context.ask(model, requests):
        yield _corrupted(answer, reply, model, prompt)


def _corrupted(answer: Row, reply: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    key = answer["answer_id"]
    if isinstance(reply, Failure):
        return refused(key, reply)
    corruption: Corruption = reply.value
    claims, corrupted = _said(corruption.claim), _said(corruption.corrupted_claim)
    if not claims:
        return Rejected(key, "filtered", "no claim to corrupt")
    if not corrupted or corruption.corrupted_answer.strip() == answer["text"].strip():
        return Rejected(key, "filtered", "nothing was corrupted")
    return {
        "corrupted_id": _name("c", key, reply.key),
        "answer_id": key,
        "question_id": answer["question_id"],
        "claims": claims,
        "corrupted_claims": corrupted,
        "text": corruption.corrupted_answer.strip(),
        **made_by(reply, model, prompt),
    }


def _said(claims: list[str]) -> list[str]:
    """Each on one line, empty ones left out."""
    return [" ".join(claim.split()) for claim in claims if claim.strip()]


def _longest_combination(of: Sizes) -> list[Request]:
    texts = {"first": longest(ANSWER_CHARACTERS), "second": longest(ANSWER_CHARACTERS)}
    return [of["prompt"].request(of["model"], question=longest(QUESTION_CHARACTERS), **texts)]


@stage(COMBINED, revision=2, at_most=AtMost(questions=_longest_combination))
def combine_answers(
    context: StageContext, threads: Rows, *, model: Endpoint, prompt: Prompt, above: float, below: float, n: int
) -> Iterator[Row | Rejected]:
    """LLM-Combine(q, A', A'') of the two top answers, kept where `above` < utilization < `below` (C.4)."""
    pairs = []
    for thread in threads:
        first, second = _two_best(thread)
        if second is None:
            yield Rejected(thread["question_id"], "filtered", "no second answer with positive votes")
        else:
            pairs.append((thread, first, second))
    requests = (
        (
            (thread, first, second),
            prompt.request(
                model,
                question=asked(thread),
                first=first["text"][:ANSWER_CHARACTERS],
                second=second["text"][:ANSWER_CHARACTERS],
            ),
        )
        for thread, first, second in pairs
    )
    for item, answer in context.ask(model, requests):
        yield _combined(*item, answer, model, prompt, above, below, n)


def _two_best(thread: Row) -> tuple[Row, Row | None]:
    first, second = thread["answers"][:2]
    return first, second if second["votes"] > 0 else None


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
) -> Row | Rejected:
    question = thread["question_id"]
    if isinstance(answer, Failure):
        return refused(question, answer)
    text = usable(question, answer)
    if isinstance(text, Rejected):
        return text
    used = utilization(text, first["text"], second["text"], n=n)
    if not above < used < below:
        side = "ignores its parents" if used <= above else "pastes its parents together"
        return Rejected(question, "filtered", side, detail=f"utilization {used:.3f}")
    return {
        "combined_id": _name("m", question, answer.key),
        "question_id": question,
        "first_id": first["answer_id"],
        "second_id": second["answer_id"],
        "text": text,
        "utilization": used,
        **made_by(answer, model, prompt),
    }


def question_text(thread: Row) -> str:
    """Title, blank line, body: how a question is shown."""
    return f"{thread['title']}\n\n{thread['text']}"


def asked(thread: Row) -> str:
    """The question as a prompt gets it: cut where it is very long."""
    return question_text(thread)[:QUESTION_CHARACTERS]


def texts(passages: list[Row]) -> list[str]:
    """As a prompt gets them: cut where they are very long."""
    return [passage["text"][:PASSAGE_CHARACTERS] for passage in passages]


def _name(kind: str, *parts: str) -> str:
    return f"{kind}_{fingerprint(list(parts))}"
