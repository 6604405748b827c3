"""Answers of the systems that ExpertQA compares (section 3, B.1): closed-book, retrieve-and-read, post-hoc.

A question with released answers is not sent to any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from longform.addresses import without_logins
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import grouped
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Flaw, Request
from longform.llm.read.refusals import DECLINES, refusal_in
from schemas.expertqa import ANSWERS, POST_HOC
from schemas.made_by import MADE_BY
from tasks.answers import made_by, unanswered
from tasks.expertqa.answers.abstentions import abstention
from tasks.expertqa.answers.audits import audited_answer
from tasks.expertqa.answers.citations import cited_numbers, without_marks
from tasks.expertqa.answers.references import cited_sources

CLOSED_BOOK = "gpt4"
_COLLECTED = ("released", "closed", "read", "post_hoc", "commercial")
HAS_ANSWERS, NOT_ASKED = "has released answers", "system not asked"
CORPORA = {"rr_sphere_gpt4": "sphere", "rr_gs_gpt4": "gs"}
SYSTEMS = (CLOSED_BOOK, *CORPORA, "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4", "bing_chat")
ANSWER_TOKENS = 2_048
QUESTION_CHARACTERS = 8_000
FIELD_CHARACTERS = 500
PASSAGE_CHARACTERS = 40_000


def _longest(of: Sizes, **texts: Any) -> list[Request]:
    """The longest request that can be sent for an answer, in a list of one, for the token bound of a plan. `of`: the
    sizes and arguments of the stage. `texts`: further prompt inputs.
    """
    asked = {"field": longest(FIELD_CHARACTERS), "question": longest(QUESTION_CHARACTERS), **texts}
    return [of["prompt"].request(of["model"], max_tokens=ANSWER_TOKENS, **asked)]


def _longest_reading(of: Sizes) -> list[Request]:
    """The longest request that can be sent for an answer from passages, in a list of one, for the token bound of a
    plan. `of`: the sizes and arguments of the stage.
    """
    search = of.arguments_of("found")["search"]
    return _longest(of, passages=[longest(PASSAGE_CHARACTERS)] * max(search.corpus_k, search.pages_k))


@stage(
    ANSWERS,
    revision=6,
    at_most=AtMost(calls=lambda of: of["questions"] if CLOSED_BOOK in of["systems"] else 0, questions=_longest),
)
def write_closed_book(
    context: StageContext, questions: Rows, *, systems: list[str], model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Answers that the model writes from memory, with web addresses as citations: LLM(q) of the paper.

    `text` leaves out the list of references at the end; `cited` holds its entries and the sources cited in the text. A
    Rejected for questions with released answers, for all questions if `systems` lacks gpt4, and for those whose reply
    is unusable or nothing but references.
    """
    asked = []
    for question in questions:
        if question["answers"] or CLOSED_BOOK not in systems:
            yield Rejected(question["question_id"], "filtered", HAS_ANSWERS if question["answers"] else NOT_ASKED)
        else:
            asked.append(question)
    requests = (
        (
            question["question_id"],
            prompt.request(
                model,
                max_tokens=ANSWER_TOKENS,
                check=_flaw_of_closed_book,
                **_abstaining(CLOSED_BOOK),
                **_inputs(question),
            ),
        )
        for question in asked
    )
    for key, answer in context.ask(model, requests):
        yield _closed_book(key, answer, model, prompt)


def _flaw_of_closed_book(reply: str) -> Flaw | None:
    """What is wrong with a reply that is nothing but references, or declines in words that are no abstention."""
    if not cited_sources(reply)[0].strip():
        return "empty", "the reply is nothing but references"
    return _flaw(reply)


def _flaw(reply: str) -> Flaw | None:
    """What is wrong with a reply that declines in words which `abstention` does not know, such as those of another
    language: nothing would count it. Table 4 counts abstentions.
    """
    declines = not _abstains(reply) and refusal_in(cited_sources(reply)[0] or reply) is not None
    return ("refusal", DECLINES) if declines else None


def flaw_of_reading(reply: str, passages: int) -> Flaw | None:
    """What is wrong with a reply that declines, or whose citations are all of none of the `passages` (their number)."""
    cited = cited_numbers(cited_sources(reply)[0])
    if cited and not any(1 <= number <= passages for number in cited):
        return "invalid", f"it cites {', '.join(f'[{number}]' for number in cited[:3])}, of {passages} passages"
    return _flaw(reply)


def _abstains(reply: str) -> bool:
    """Whether a reply abstains in words that table 4 counts."""
    return abstention(cited_sources(reply)[0] or reply) is not None


def _abstaining(system: str) -> Row:
    """The arguments of a request to a system whose abstentions are counted, and stay answers."""
    return {"declines": True, "abstains": _abstains, "system": system}


def _closed_book(key: str, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    """The row of ANSWERS of a closed-book answer; a Rejected if the model gave no usable reply. `key`: the question's
    id.
    """
    if isinstance(answer, Failure):
        return unanswered(key, answer)
    body, cited = cited_sources(without_logins(answer.value))
    return _written(key, CLOSED_BOOK, "closed_book", body, cited, made_by(answer, model, prompt))


@stage(
    ANSWERS,
    revision=7,
    at_most=AtMost(
        rows=lambda of: of["questions"] * len(of["systems"]),
        calls=lambda of: of["questions"] * len(of["systems"]),
        questions=_longest_reading,
    ),
)
def write_from_passages(
    context: StageContext, questions: Rows, found: Rows, *, systems: list[str], model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Answers that the model writes for each system from the passages of that system's corpus, cited by number: LLM(P,
    q) of the paper.

    `found`: the passages of each question, in the order of the questions. A system without a passage for a question
    writes no answer; such cases are counted as `rr_gs_gpt4: no passage found`. A Rejected for each question that no
    system answers for lack of passages or of systems, or that has released answers; and for each unusable reply.
    """
    asked = []
    for question, row in zip(questions, found, strict=True):
        by_system = {} if question["answers"] else _passages_by_system(context, row["passages"], systems)
        asked += [(question, system, passages) for system, passages in by_system.items()]
        if not by_system:
            why = HAS_ANSWERS if question["answers"] else "no passage found" if systems else NOT_ASKED
            yield Rejected(question["question_id"], "filtered", why)
    requests = (
        ((question["question_id"], system, passages), _reading(question, system, passages, model, prompt))
        for question, system, passages in asked
    )
    for (key, system, passages), answer in context.ask(model, requests):
        yield _from_passages(key, system, passages, answer, model, prompt)


def _passages_by_system(context: StageContext, passages: list[Row], systems: Iterable[str]) -> dict[str, list[Row]]:
    """System -> the passages of its corpus. Systems without a passage are left out, and counted in `context`.

    KeyError for a system that is not in CORPORA.
    """
    found = {system: [each for each in passages if each["corpus"] == CORPORA[system]] for system in systems}
    for system in found:
        if not found[system]:
            context.count(f"{system}: no passage found", 1)
    return {system: texts for system, texts in found.items() if texts}


def _reading(question: Row, system: str, passages: list[Row], model: Endpoint, prompt: Prompt) -> Request:
    """The request for a system's answer to the question from these passages, each cut to PASSAGE_CHARACTERS."""
    texts = [passage["text"][:PASSAGE_CHARACTERS] for passage in passages]
    return prompt.request(
        model,
        max_tokens=ANSWER_TOKENS,
        check=partial(flaw_of_reading, passages=len(texts)),
        subject=question["question_id"],
        **_abstaining(system),
        passages=texts,
        **_inputs(question),
    )


def _from_passages(
    key: str, system: str, passages: list[Row], answer: Answer | Failure, model: Endpoint, prompt: Prompt
) -> Row | Rejected:
    """The row of ANSWERS of an answer from passages, without the list of references at its end, unless it is nothing
    else; a Rejected that names the system if the model gave no usable reply. `key`: the question's id. `passages`:
    those it was asked with.
    """
    if isinstance(answer, Failure):
        return _of_system(system, unanswered(key, answer))
    text = without_logins(answer.value)
    body, _ = cited_sources(text)  # a list of references says what the passages' numbers say
    body = body or text
    return _written(key, system, "retrieve_and_read", body, numbered(passages), made_by(answer, model, prompt))


def _of_system(system: str, rejected: Rejected) -> Rejected:
    """The Rejected with the system's name, and a colon if there is a detail, in front of its detail."""
    return replace(rejected, detail=f"{system}: {rejected.detail}" if rejected.detail else system)


def numbered(passages: Iterable[Row]) -> list[Row]:
    """Passages as rows of CITED, numbered from 1."""
    names = ("url", "passage_id", "title", "text")
    return [{"number": at, **{name: passage[name] for name in names}} for at, passage in enumerate(passages, 1)]


def _inputs(question: Row) -> Row:
    """The prompt inputs `field` and `question`, cut to FIELD_CHARACTERS and QUESTION_CHARACTERS."""
    return {"field": question["field"][:FIELD_CHARACTERS], "question": question["question"][:QUESTION_CHARACTERS]}


@stage(POST_HOC, revision=3, at_most=AtMost(rows=lambda of: of["closed"] * len(of["systems"])))
def answer_post_hoc(context: StageContext, closed: Rows, *, systems: list[str]) -> Iterator[Row | Rejected]:
    """For each post-hoc system a copy of the closed-book answer without its citations.

    Evidence for the claims of these copies is retrieved later (`find_for_claims`). A Rejected for an answer that is
    nothing but citations, and for all answers if there are no `systems`.
    """
    for answer in closed:
        text = without_marks(answer["text"])
        if not text.strip() or not systems:
            yield Rejected(answer["answer_id"], "filtered", "nothing but citations" if systems else NOT_ASKED)
            continue
        origin = {each.name: answer[each.name] for each in MADE_BY}
        for system in systems:
            row = _written(answer["question_id"], system, "post_hoc", text, [], origin)
            yield row | {"closed_id": answer["answer_id"]}


def _written(question: str, system: str, kind: str, text: str, cited: list[Row], origin: Row) -> Row:
    """A row of ANSWERS that a model of ours wrote; `abstention` is still null. `question`: the question's id. `cited`:
    rows of CITED. `origin`: the columns of MADE_BY.
    """
    return {
        "answer_id": f"a_{fingerprint([question, system, text])}",
        "question_id": question,
        "system": system,
        "kind": kind,
        "text": text,
        "abstention": None,
        "attribution": [f"[{each['number']}] {each['url'] or each['title']}" for each in cited],
        "cited": cited,
        "original": None,
        "claims": None,
        **origin,
    }


@stage(ANSWERS, revision=5, at_most=AtMost(rows=lambda of: sum(of[name] for name in _COLLECTED)))
def collect_answers(
    context: StageContext,
    questions: Rows,
    released: Rows,
    closed: Rows,
    read: Rows,
    post_hoc: Rows,
    commercial: AllRows,
) -> Iterator[Row | Rejected]:
    """One answer of each system to each question, in the order of the questions, then of the systems (see
    `collected`), with the words by which it abstains, if any.

    If a system has several answers, the first in the order of the inputs is kept; a Rejected for each other one, for
    each that an audit finds, and for a question without an answer. Commercial answers to other questions are ignored.
    """
    asked = {row["question_id"]: row["question"] for row in questions.as_dicts("question_id", "question")}
    imported = (answer for answer in commercial if answer["question_id"] in asked)
    answers = grouped(chain(released, closed, read, post_hoc, imported), "question_id")
    for key, question in asked.items():
        audited = [audited_answer(answer, question) or answer for answer in answers[key]]
        yield from (each for each in audited if isinstance(each, Rejected))
        yield from collected(key, [each for each in audited if not isinstance(each, Rejected)])


def collected(question: str, answers: list[Row]) -> Iterator[Row | Rejected]:
    """One answer of each system to a question: in the order of SYSTEMS, then other systems by name. Each is a new row
    of ANSWERS with `abstention` filled in: the words by which it declines, or None.

    `question`: the question's id. If a system has several answers, the first is kept. A Rejected for each further
    answer of a system, and for a question without any answer; the Rejecteds come first.
    """
    if not answers:
        yield Rejected(question, "filtered", "no answer")
    first: dict[str, Row] = {}
    for answer in answers:
        if first.setdefault(answer["system"], answer) is not answer:
            detail, raw = answer["system"], answer["text"]
            yield Rejected(answer["answer_id"], "filtered", "a second answer of this system", detail, raw)
    others = sorted(first.keys() - set(SYSTEMS))
    for system in (*(system for system in SYSTEMS if system in first), *others):
        answer = first[system]
        yield {column: answer[column] for column in ANSWERS.names} | {"abstention": abstention(answer["text"])}
