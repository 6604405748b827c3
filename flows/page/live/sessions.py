"""Live sessions in the database: begun under a lease, turns asked, written and rated, one step a transaction; finished
ones are written into the home, where a build takes them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import RowMapping, and_, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from flows.page.live.study import Study
from flows.page.live.tables import LIVE_SESSIONS, LIVE_TOPICS, LIVE_TURNS
from flows.page.live.writing import Cost
from flows.page.work.database import Database, now
from longform.artifacts.rows import Row
from longform.files import write_bytes
from tasks.answers import NO_MODEL
from tasks.kiwi.interaction import MOST_TURNS, current

LEASE = 3 * 24 * 3_600_000  # milliseconds: a session that rests so long may go to somebody else
DAY = 24 * 3_600_000
Caps = tuple[int, int]  # billionths of a US dollar, and calls, of an annotator in a day


@dataclass(frozen=True)
class Live:
    """A session with its turns, as its reader sees it."""

    row: RowMapping
    turns: list[Row]

    @property
    def id(self) -> str:
        return str(self.row["session_id"])

    @property
    def question(self) -> Row:
        """The row of the question."""
        return dict(json.loads(self.row["question"]))

    @property
    def first(self) -> Row:
        """The row of the first answer."""
        return dict(json.loads(self.row["answer"]))

    @property
    def titles(self) -> list[str]:
        return list(json.loads(self.row["titles"]))

    @property
    def rated(self) -> list[Row]:
        return [turn for turn in self.turns if turn["state"] == "rated"]

    @property
    def pending(self) -> Row | None:
        """The turn that is not rated yet; None if there is none."""
        return next((turn for turn in self.turns if turn["state"] != "rated"), None)

    @property
    def now(self) -> str:
        """The answer as it stands."""
        answer = str(self.first["answer"])
        for turn in self.rated:
            answer = current(answer, turn)
        return answer

    @property
    def passages(self) -> list[list[tuple[int, Row]]]:
        """(number, passage) of what was retrieved, for each step that did, the last first."""
        found = [list(enumerate(self.first["passages"]))]
        found += [list(enumerate(turn["passages"], turn["references"])) for turn in self.turns if turn.get("passages")]
        return found[::-1]

    @property
    def draft(self) -> Row:
        """What the fields of the next step hold as they were last saved, and `seconds`."""
        return dict(json.loads(self.row["draft"] or "{}"))

    @property
    def number(self) -> int:
        """The number of the turn that is at hand, or of the last one."""
        return min(len(self.rated) + int(self.row["state"] == "open"), MOST_TURNS)

    @property
    def next_reference(self) -> int:
        """The number of the first passage of a next turn."""
        return len(self.first["passages"]) + sum(len(turn.get("passages") or ()) for turn in self.turns)

    @property
    def takes_more(self) -> bool:
        """Whether a further instruction may be given."""
        return self.row["state"] == "open" and self.pending is None and len(self.turns) < MOST_TURNS


def _turn(row: RowMapping) -> Row:
    written = json.loads(row["written"]) if row["written"] else {}
    return {**row, **written}


async def found(database: Database, session_id: str, annotator_id: str) -> Live | None:
    """A session of this annotator; None if there is none, or it is another's."""
    async with database.reading() as connection:
        return await _found(connection, session_id, annotator_id)


async def _found(connection: AsyncConnection, session_id: str, annotator_id: str) -> Live | None:
    own = and_(LIVE_SESSIONS.c.session_id == session_id, LIVE_SESSIONS.c.annotator_id == annotator_id)
    row = (await connection.execute(select(LIVE_SESSIONS).where(own))).mappings().first()
    return None if row is None else Live(row, await _turns(connection, session_id))


async def _turns(connection: AsyncConnection, session_id: str) -> list[Row]:
    query = select(LIVE_TURNS).where(LIVE_TURNS.c.session_id == session_id).order_by(LIVE_TURNS.c.position)
    return [_turn(row) for row in (await connection.execute(query)).mappings()]


async def of_annotator(database: Database, annotator_id: str) -> list[RowMapping]:
    """The sessions of an annotator, the newest first."""
    query = select(LIVE_SESSIONS).where(LIVE_SESSIONS.c.annotator_id == annotator_id)
    async with database.reading() as connection:
        rows = await connection.execute(query.order_by(LIVE_SESSIONS.c.begun_at.desc()))
        return list(rows.mappings())


# ---------------------------------------------------------------- which question


async def topics_of(database: Database, annotator_id: str) -> set[str]:
    """The topics that an annotator prefers; empty: any."""
    async with database.reading() as connection:
        query = select(LIVE_TOPICS.c.topic).where(LIVE_TOPICS.c.annotator_id == annotator_id)
        return set((await connection.execute(query)).scalars())


async def prefer(database: Database, annotator_id: str, topics: set[str]) -> None:
    """Keep these topics as those that an annotator prefers."""
    async with database.writing() as connection:
        await connection.execute(LIVE_TOPICS.delete().where(LIVE_TOPICS.c.annotator_id == annotator_id))
        for topic in sorted(topics):
            await connection.execute(insert(LIVE_TOPICS).values(annotator_id=annotator_id, topic=topic))


async def begin(database: Database, study: Study, annotator_id: str) -> str | None:
    """The id of a session of this annotator that is open, or of a new one: on a question that they have not had, of a
    topic they prefer where there is one, with a system that nobody has it with. None if there is none.
    """
    preferred = await topics_of(database, annotator_id)
    async with database.writing() as connection:
        await _release(connection)
        mine = select(LIVE_SESSIONS).where(LIVE_SESSIONS.c.annotator_id == annotator_id)
        rows = list((await connection.execute(mine)).mappings())
        if going := next((row for row in rows if row["state"] == "open" and row["held"]), None):
            return str(going["session_id"])
        held = select(LIVE_SESSIONS.c.question_id, LIVE_SESSIONS.c.system).where(LIVE_SESSIONS.c.held == 1)
        taken = {tuple(row) for row in await connection.execute(held)}
        had = {row["question_id"] for row in rows} | study.read_by(annotator_id)
        chosen = _chosen(study, had, taken, preferred, annotator_id)
        if chosen is None:
            return None
        question_id, system = chosen
        question = study.questions[question_id]
        titles = [each["title"] for each in question["documents"]]
        session_id, at = secrets.token_hex(16), now()
        await connection.execute(
            insert(LIVE_SESSIONS).values(
                session_id=session_id,
                annotator_id=annotator_id,
                question_id=question_id,
                system=system,
                held=1,
                state="open",
                answer=_json(study.answers[question_id][system]),
                question=_json(question),
                titles=_json(titles),
                begun_at=at,
                touched_at=at,
            )
        )
        return session_id


def _chosen(
    study: Study, had: set[str], taken: set[Any], preferred: set[str], annotator_id: str
) -> tuple[str, str] | None:
    """(question, system) of the next session of an annotator: of preferred topics first, then in an order that a hash
    draws for each annotator.
    """
    free = [
        (question_id, system)
        for question_id, systems in study.answers.items()
        for system in systems
        if question_id not in had and (question_id, system) not in taken
    ]

    def rank(pair: tuple[str, str]) -> tuple[bool, str]:
        draw = hashlib.sha256("\x1f".join([annotator_id, *pair]).encode()).hexdigest()
        return bool(preferred) and study.questions[pair[0]]["topic"] not in preferred, draw

    return min(free, key=rank, default=None)


async def _release(connection: AsyncConnection) -> None:
    """Free the questions of open sessions that rested longer than their lease."""
    rested = and_(
        LIVE_SESSIONS.c.state == "open", LIVE_SESSIONS.c.held == 1, LIVE_SESSIONS.c.touched_at < now() - LEASE
    )
    await connection.execute(update(LIVE_SESSIONS).where(rested).values(held=None))


async def save_draft(database: Database, session_id: str, annotator_id: str, fields: Row) -> None:
    """Keep what the fields of an open session's next step hold."""
    own = and_(
        LIVE_SESSIONS.c.session_id == session_id,
        LIVE_SESSIONS.c.annotator_id == annotator_id,
        LIVE_SESSIONS.c.state == "open",
    )
    async with database.writing() as connection:
        await connection.execute(update(LIVE_SESSIONS).where(own).values(draft=_json(fields)))


async def _touch(connection: AsyncConnection, live: Live) -> bool:
    """Note that a session goes on, which ends its draft; False if its lease was lost, and somebody else has its
    question and system now.
    """
    own = LIVE_SESSIONS.c.session_id == live.id
    try:
        async with connection.begin_nested():
            await connection.execute(update(LIVE_SESSIONS).where(own).values(held=1, touched_at=now(), draft=None))
    except IntegrityError:
        return False
    return True


# ---------------------------------------------------------------- turns


Outcome = Literal["done", "lost", "not now", "spent"]


async def ask(
    database: Database,
    session_id: str,
    annotator_id: str,
    kind: str,
    instruction: str,
    caps: Caps,
    seconds: float = 0.0,
) -> Outcome:
    """Note an instruction, which begins a turn. "not now": a turn is not rated yet, or there are ten; "spent": the
    annotator has used up the day's cap; "lost": the lease ended and somebody else has the question.
    """
    async with database.writing() as connection:
        live = await _found(connection, session_id, annotator_id)
        if live is None or not live.takes_more:
            return "not now"
        if _over(await _spent(connection, annotator_id), caps):
            return "spent"
        if not await _touch(connection, live):
            return "lost"
        await connection.execute(
            insert(LIVE_TURNS).values(
                session_id=session_id,
                position=len(live.turns) + 1,
                state="asked",
                kind=kind,
                instruction=instruction,
                before=live.now,
                references=live.next_reference,
                seconds=seconds,
                asked_at=now(),
            )
        )
        return "done"


def _over(spent: tuple[int, int], caps: Caps) -> bool:
    return spent[0] >= caps[0] or spent[1] >= caps[1]


async def _spent(connection: AsyncConnection, annotator_id: str) -> tuple[int, int]:
    """(billionths of a US dollar, calls) of an annotator's turns in the last day."""
    query = (
        select(func.coalesce(func.sum(LIVE_TURNS.c.cost_nano), 0), func.coalesce(func.sum(LIVE_TURNS.c.calls), 0))
        .join(LIVE_SESSIONS, LIVE_SESSIONS.c.session_id == LIVE_TURNS.c.session_id)
        .where(LIVE_SESSIONS.c.annotator_id == annotator_id, LIVE_TURNS.c.asked_at > now() - DAY)
    )
    nano, calls = (await connection.execute(query)).one()
    return int(nano), int(calls)


async def keep(
    database: Database, session_id: str, position: int, written: Row | None, cost: Cost, error: str | None
) -> None:
    """Keep what came of a turn that was asked: a revision, or why there is none."""
    own = and_(LIVE_TURNS.c.session_id == session_id, LIVE_TURNS.c.position == position, LIVE_TURNS.c.state != "rated")
    values: dict[str, Any] = {
        "state": "written" if written else "failed",
        "written": _json(written) if written else None,
        "error": error,
        "cost_nano": LIVE_TURNS.c.cost_nano + cost.nano,
        "calls": LIVE_TURNS.c.calls + cost.calls,
    }
    async with database.writing() as connection:
        await connection.execute(update(LIVE_TURNS).where(own).values(**values))


async def ask_again(
    database: Database,
    session_id: str,
    annotator_id: str,
    kind: str,
    instruction: str,
    caps: Caps,
    seconds: float = 0.0,
) -> Outcome:
    """Put another instruction in the place of one that no model answered; outcomes as of `ask`."""
    async with database.writing() as connection:
        live = await _found(connection, session_id, annotator_id)
        pending = live.pending if live else None
        if live is None or pending is None or pending["state"] != "failed":
            return "not now"
        if _over(await _spent(connection, annotator_id), caps):
            return "spent"
        if not await _touch(connection, live):
            return "lost"
        own = and_(LIVE_TURNS.c.session_id == session_id, LIVE_TURNS.c.position == pending["position"])
        values: Row = {"state": "asked", "kind": kind, "instruction": instruction, "error": None, "asked_at": now()}
        values["seconds"] = LIVE_TURNS.c.seconds + seconds
        await connection.execute(update(LIVE_TURNS).where(own).values(**values))
        return "done"


async def rate(
    database: Database,
    session_id: str,
    annotator_id: str,
    position: int,
    rating: str,
    comment: str,
    edited: str | None,
    seconds: float,
) -> Outcome:
    """Keep the rating of a turn that was written; a second one of the same turn changes nothing ("not now")."""
    async with database.writing() as connection:
        live = await _found(connection, session_id, annotator_id)
        pending = live.pending if live else None
        if live is None or pending is None or pending["position"] != position or pending["state"] != "written":
            return "not now"
        if not await _touch(connection, live):
            return "lost"
        own = and_(LIVE_TURNS.c.session_id == session_id, LIVE_TURNS.c.position == position)
        values: Row = {"rating": rating, "comment": comment, "edited": edited}
        values["seconds"] = LIVE_TURNS.c.seconds + seconds
        await connection.execute(update(LIVE_TURNS).where(own).values(state="rated", rated_at=now(), **values))
        return "done"


# ---------------------------------------------------------------- the end


async def finish(database: Database, folder: Path, session_id: str, annotator_id: str) -> Outcome:
    """End a session, whose rated turns are written to the folder; "not now" while a turn waits for its rating, and
    without a rated turn.
    """
    async with database.writing() as connection:
        live = await _found(connection, session_id, annotator_id)
        if live is None or live.row["state"] != "open" or not live.rated:
            return "not now"
        if live.pending and live.pending["state"] != "failed":
            return "not now"
        if not await _touch(connection, live):
            return "lost"
        own = LIVE_SESSIONS.c.session_id == session_id
        await connection.execute(update(LIVE_SESSIONS).where(own).values(state="finished", finished_at=now()))
    write_session(folder, live)
    return "done"


async def write_finished(database: Database, folder: Path) -> None:
    """Write the finished sessions whose files are missing, as after a server that was killed while it wrote one."""
    query = select(LIVE_SESSIONS).where(LIVE_SESSIONS.c.state == "finished")
    async with database.reading() as connection:
        for row in list((await connection.execute(query)).mappings()):
            if not (folder / f"{row['session_id']}.jsonl").exists():
                write_session(folder, Live(row, await _turns(connection, row["session_id"])))


def write_session(folder: Path, live: Live) -> None:
    """Write a session as a file that `read_sessions` reads."""
    said = ("position", "kind", "instruction", "before", "rating", "comment", "edited", "seconds")
    names = (*said, "passages", "summary", "answer", *NO_MODEL)
    first, question = live.first, live.question
    record = {
        "session_id": live.id,
        "question_id": live.row["question_id"],
        "question": question["question"],
        "origin": "page",
        "system": live.row["system"],
        "annotator_id": live.row["annotator_id"],
        "source_paper": question["source_paper"],
        "initial": first["answer"],
        "passages": first["passages"],
        "turns": [{name: turn[name] for name in names} for turn in live.rated],
        **{name: first[name] for name in NO_MODEL},
    }
    write_bytes(folder / f"{live.id}.jsonl", json.dumps(record, ensure_ascii=False).encode() + b"\n")


async def progress(database: Database) -> list[RowMapping]:
    """A row for each session, for administrators: who, question, state, rated turns, seconds and cost."""
    turns = LIVE_TURNS.c
    query = (
        select(
            LIVE_SESSIONS.c.annotator_id,
            LIVE_SESSIONS.c.question_id,
            LIVE_SESSIONS.c.system,
            LIVE_SESSIONS.c.state,
            LIVE_SESSIONS.c.held,
            LIVE_SESSIONS.c.question,
            func.count(turns.rated_at).label("rated"),
            func.coalesce(func.sum(turns.seconds), 0).label("seconds"),
            func.coalesce(func.sum(turns.cost_nano), 0).label("cost_nano"),
        )
        .join(LIVE_TURNS, turns.session_id == LIVE_SESSIONS.c.session_id, isouter=True)
        .group_by(LIVE_SESSIONS.c.session_id)
        .order_by(LIVE_SESSIONS.c.begun_at.desc())
    )
    async with database.reading() as connection:
        return list((await connection.execute(query)).mappings())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
