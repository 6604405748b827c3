"""First answers, and sessions in which a model takes the reader's place, always marked as simulated (KIWI, 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from longform.artifacts.rows import Rejected, Row, Rows, grouped
from longform.engine.at_most import Sizes, embedding_calls, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Request
from schemas.kiwi import ANSWERS, SESSIONS
from schemas.replies import ReaderInstruction, ReaderRating
from tasks.answers import answered, made_by
from tasks.kiwi.audits import OF_ANSWERS, OF_TURNS, SIMULATED
from tasks.kiwi.interaction import (
    BRIEF,
    INFORMATION,
    as_shown,
    current,
    first_answer,
    revision,
    session_id_of,
    summary,
)
from tasks.kiwi.retrieval import SHOWN, Kind, Search, embedder, searching
from tasks.publishing.audits import rejected_by

LONGEST = 8_000  # characters of an answer or a passage that a plan reckons with
DONE = "done"
REPLIES = {"instruct": ReaderInstruction, "rate": ReaderRating}


def writers_of(*given: Endpoint | None) -> dict[str, Endpoint]:
    """endpoint name -> endpoint, of those that are given."""
    return {each.name: each for each in given if each is not None}


def _longest(of: Sizes, *names: str) -> list[Request]:
    """Requests as long as they come, by these prompts; each is put to every endpoint of a stage."""
    text = longest(LONGEST)
    endpoint = of["model"]
    prompts = [of["prompts"][name] for name in names] if names else [of["prompt"]]
    title = text[:300]
    shown = ["0", title, text] if names else [title, text]
    lists = {
        "passages": shown * SHOWN,
        "titles": [title] * 10,
        "earlier": [text[:1_000]] * (of["turns"] if names else 0),
    }
    replies = {of["prompts"][name].name: reply for name, reply in REPLIES.items()} if names else {}
    return [
        prompt.request(
            endpoint, reply=replies.get(prompt.name), **{name: lists.get(name, text) for name in prompt.inputs}
        )
        for prompt in prompts
    ]


def _embedded(of: Sizes, searches: float) -> float:
    """Upper bound of the calls to an endpoint that embeds the passages and the query of each search."""
    if of["retrieval"] == "bm25" or not isinstance(of["embedding"], Endpoint):
        return 0
    return embedding_calls(of["passages"], searches) + searches


@stage(
    ANSWERS,
    revision=3,
    at_most=AtMost(
        rows=lambda of: of["questions"] * len(writers_of(of["model"], of["second"], of["third"])),
        calls=lambda of: max(of["questions"], _embedded(of, of["questions"])),
        questions=_longest,
    ),
)
def answer_first(
    context: StageContext,
    questions: Rows,
    passages: Rows,
    *,
    model: Endpoint | None,
    second: Endpoint | None,
    third: Endpoint | None,
    prompt: Prompt,
    retrieval: Kind,
    embedding: str | Endpoint | None,
) -> Iterator[Row | Rejected]:
    """First answers of each writer, from the 5 nearest passages; a Rejected where there is none."""
    writers, found, lacking = writers_of(model, second, third), searches(context, passages, retrieval, embedding), []
    asked: list[Row] = []
    if retrieval != "bm25" and isinstance(embedding, Endpoint):
        context.goes_on_from_replies()
    for question in questions:
        nearest = found(question["question_id"])(question["question"], SHOWN) if writers else []
        if nearest:
            asked.append({**question, "nearest": nearest})
        else:
            reason = "no passage is near" if writers else "no model answers"
            lacking.append(Rejected(question["question_id"], "filtered", reason))
    for name, writer in writers.items():
        items = (
            (row["question_id"], row, first_answer(writer, prompt, row["question"], row["nearest"])) for row in asked
        )
        for row, replies in answered(context, writer, items):
            if isinstance(replies, Rejected):
                yield replace(replies, detail=f"{name}: {replies.detail}")
                continue
            answer = _answer(row, name, writer, replies[0], prompt)
            checked = {**answer, "origin": SIMULATED, "initial": answer["answer"]}
            yield rejected_by(checked, OF_ANSWERS, "question_id") or answer
    yield from lacking


def _answer(question: Row, name: str, writer: Endpoint, reply: Answer, prompt: Prompt) -> Row:
    """A row of ANSWERS."""
    return {
        "session_id": session_id_of(question["question_id"], name, writer.model),
        "question_id": question["question_id"],
        "question": question["question"],
        "system": name,
        "passages": as_shown(question["nearest"]),
        "answer": reply.value,
        **made_by(reply, writer, prompt),
    }


def searches(
    context: StageContext, passages: Rows, retrieval: Kind, embedding: str | Endpoint | None
) -> Callable[[str], Search]:
    """question_id -> the search of its passages, made once for each question. `passages`: rows of PASSAGES."""
    rows, embed = grouped(passages, "question_id"), embedder(context, embedding) if retrieval != "bm25" else None
    made: dict[str, Search] = {}

    def search_of(question_id: str) -> Search:
        if question_id not in made:
            made[question_id] = searching(retrieval, rows[question_id], embed)
        return made[question_id]

    return search_of


# ---------------------------------------------------------------- a reader in a model's place


@dataclass(slots=True)
class Session:
    """A session as it stands. `references`: passages shown so far; `asked`: all instructions, also of turns that were
    given up; `open`: the reader is not done yet; `turn`: the turn that is being made.
    """

    row: Row
    now: str
    references: int
    turns: list[Row] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    turn: Row = field(default_factory=dict)
    open: bool = True


@stage(
    SESSIONS,
    revision=3,
    at_most=AtMost(
        rows=lambda of: of["answers"] * bool(of["turns"]),
        calls=lambda of: max(2 * of["answers"] * of["turns"], _embedded(of, of["answers"] * of["turns"])),
        questions=lambda of: _longest(of, "instruct", "summarise", "update_information", "update_style", "rate"),
    ),
)
def simulate_sessions(
    context: StageContext,
    answers: Rows,
    passages: Rows,
    *,
    model: Endpoint,
    writer: Endpoint | None,
    second: Endpoint | None,
    third: Endpoint | None,
    prompts: dict[str, Prompt],
    turns: int,
    retrieval: Kind,
    embedding: str | Endpoint | None,
) -> Iterator[Row | Rejected]:
    """A session for each first answer, in which `model` reads, asks for up to `turns` revisions, and rates them. A
    Rejected for each turn that no model answers or that an audit finds; the session goes on without it, or, where the
    reader's own reply fails, ends. A Rejected for a session without a turn.
    """
    writers = writers_of(writer, second, third)
    search = searches(context, passages, retrieval, embedding)
    titles = {name: list(dict.fromkeys(row["title"] for row in rows)) for name, rows in grouped(
        passages.as_dicts("question_id", "title"), "question_id").items()}  # fmt: skip
    sessions = [Session(row, row["answer"], len(row["passages"])) for row in answers]
    for _ in range(turns):
        going = [session for session in sessions if session.open]
        yield from _instruct(context, going, titles, model, prompts["instruct"])
        context.goes_on_from_replies()
        going = [session for session in going if session.open]
        yield from _revise(context, going, search, writers, prompts)
        yield from _rate(context, [session for session in going if session.turn], model, prompts["rate"])
    for session in sessions:
        if session.turns:
            yield _session_row(session, model)
        else:
            yield Rejected(session.row["session_id"], "filtered", "no turn was made")


def _instruct(
    context: StageContext, sessions: list[Session], titles: dict[str, list[str]], reader: Endpoint, prompt: Prompt
) -> Iterator[Rejected]:
    """Ask for the next instruction of each session; one that is done, or has no usable reply, is closed."""

    def request(session: Session) -> Request:
        texts = {"question": session.row["question"], "answer": session.now, "earlier": session.asked}
        named = titles.get(session.row["question_id"], [])
        return prompt.request(reader, reply=ReaderInstruction, subject=BRIEF, titles=named, **texts)

    for session, found in answered(context, reader, _items(sessions, request)):
        if isinstance(found, Rejected):
            session.open = False
            yield from _given_up(session, found)
            continue
        reply = found[0].value
        text = (reply.instruction or "").strip()
        session.open = reply.kind != DONE and bool(text)
        session.asked = [*session.asked, text]
        session.turn = {"kind": reply.kind, "instruction": text, "position": len(session.turns) + 1}


def _revise(
    context: StageContext,
    sessions: list[Session],
    search: Callable[[str], Search],
    writers: dict[str, Endpoint],
    prompts: dict[str, Prompt],
) -> Iterator[Rejected]:
    """The revision of each session's turn; a turn without a usable one, or that an audit finds, is given up."""
    for session in sessions:
        find = search(session.row["question_id"]) if session.turn["kind"] == INFORMATION else None
        nearest = find(session.turn["instruction"], SHOWN) if find else []
        session.turn |= {"passages": as_shown(nearest), "summary": None}
    for name, writer in writers.items():
        own = [session for session in sessions if session.row["system"] == name]
        informed = [session for session in own if session.turn["kind"] == INFORMATION]

        def summarised(session: Session, writer: Endpoint = writer) -> Request:
            texts = session.row["question"], session.now, session.turn["instruction"]
            return summary(writer, prompts["summarise"], *texts, session.turn["passages"], session.references)

        for session, found in answered(context, writer, _items(informed, summarised)):
            if isinstance(found, Rejected):
                yield from _given_up(session, found)
            else:
                session.turn["summary"] = found[0].value
        ready = [session for session in own if session.turn]

        def revised(session: Session, writer: Endpoint = writer) -> Request:
            texts = session.row["question"], session.now, session.turn["instruction"], session.turn["summary"]
            return revision(writer, prompts, *texts)[1]

        for session, found in answered(context, writer, _items(ready, revised)):
            if isinstance(found, Rejected):
                yield from _given_up(session, found)
                continue
            used = prompts["update_information" if session.turn["kind"] == INFORMATION else "update_style"]
            made = {"before": session.now, "answer": found[0].value, **made_by(found[0], writer, used)}
            session.turn |= made
            checked = {**session.turn, "origin": SIMULATED, "question": session.row["question"]}
            checked["turn_id"] = _turn_id(session)
            if rejected := rejected_by(checked, OF_TURNS, "turn_id"):
                yield from _given_up(session, rejected)


def _rate(context: StageContext, sessions: list[Session], reader: Endpoint, prompt: Prompt) -> Iterator[Rejected]:
    """Ask for the rating of each session's turn, which is then kept; a session without a usable reply is closed."""

    def request(session: Session) -> Request:
        texts = {name: session.turn[name] for name in ("before", "instruction", "answer")}
        return prompt.request(reader, reply=ReaderRating, subject=BRIEF, question=session.row["question"], **texts)

    for session, found in answered(context, reader, _items(sessions, request)):
        if isinstance(found, Rejected):
            session.open = False
            yield from _given_up(session, found)
            continue
        reply = found[0].value
        edited = (reply.edited or "").strip() if reply.rating != "good" else ""
        said = {"rating": reply.rating, "comment": reply.comment, "seconds": None, "extra": None}
        turn = {**session.turn, **said, "edited": edited if edited and edited != session.turn["answer"] else None}
        session.turns.append(turn)
        session.references += len(turn["passages"])
        session.now, session.turn = current(session.now, turn), {}


def _items(
    sessions: Iterable[Session], request: Callable[[Session], Request]
) -> Iterator[tuple[str, Session, Request]]:
    return ((_turn_id(session), session, request(session)) for session in sessions)


def _turn_id(session: Session) -> str:
    return f"{session.row['session_id']}#{len(session.turns) + 1}"


def _given_up(session: Session, rejected: Rejected) -> Iterator[Rejected]:
    """The Rejected of a turn, under the id of its session: the session goes on without the turn."""
    session.turn = {}
    yield replace(rejected, key=session.row["session_id"], detail=f"{rejected.key}: {rejected.detail or ''}")


def _session_row(session: Session, reader: Endpoint) -> Row:
    """A row of SESSIONS."""
    kept: dict[str, Any] = {name: session.row[name] for name in SESSIONS.names if name in session.row}
    return {
        **kept,
        "origin": SIMULATED,
        "annotator_id": f"{SIMULATED}/{reader.model}",
        "source_paper": None,
        "initial": session.row["answer"],
        "turns": session.turns,
        "final": session.now,
        "licence": None,
        "extra": None,
    }
