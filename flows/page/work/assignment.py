"""Who gets which task: leases that end, no more annotators a task than its round's overlap, nothing submitted twice.

An assignment belongs to one annotator. While it is open its lease is renewed with every draft; when it has ended,
somebody else may take its place (`slot`), and what was written stays with its writer. One that was submitted can be
changed and submitted again, as long as the round is open; every submission is kept.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from flows.page.work.database import Database, now
from flows.page.work.rounds import OF_TASK, Round
from flows.page.work.tables import ACCOUNTS, ASSIGNMENTS, ROUNDS, SUBMISSIONS, TASKS
from tasks.annotation.form import Task

LEASE = 45 * 60_000
ATTEMPTS = 20
Pairs = list[tuple[str, str]]
Entries = dict[tuple[str, str], Any]
Outcome = Literal["submitted", "taken", "closed"]
own = ASSIGNMENTS.c


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task of a round in the hands of an annotator. `draft`: names and values of the form as last saved, None if
    there is nothing to save; `entries`: what was submitted, None before; `lost`: somebody else has its place.
    """

    id: str
    round_id: str
    position: int
    task: Task
    state: str
    draft: Pairs | None
    entries: Entries | None
    seconds: float
    lost: bool
    touched_at: int
    submitted_at: int | None


def as_json(entries: Entries) -> str:
    """Checked values as they are stored."""
    return json.dumps([[item, name, value] for (item, name), value in entries.items()], ensure_ascii=False)


def from_json(text: str) -> Entries:
    """(item id, or "" for the task; field name) -> value, as `as_json` stored them."""
    return {(item, name): value for item, name, value in json.loads(text)}


def _assignment(row: Any) -> Assignment:
    return Assignment(
        row.assignment_id,
        row.round_id,
        row.position,
        OF_TASK.validate_json(row.task),
        row.state,
        None if row.draft is None else [(name, value) for name, value in json.loads(row.draft)],
        None if row.entries is None else from_json(row.entries),
        row.seconds,
        row.slot is None and row.state == "open",
        row.touched_at,
        row.submitted_at,
    )


_WITH_TASK = select(ASSIGNMENTS, TASKS.c.task).join(
    TASKS, and_(TASKS.c.round_id == own.round_id, TASKS.c.position == own.position)
)


async def found(database: Database, assignment_id: str, annotator_id: str) -> Assignment | None:
    """The annotator's assignment with this id; None if there is none, or it is somebody else's."""
    query = _WITH_TASK.where(own.assignment_id == assignment_id, own.annotator_id == annotator_id)
    async with database.reading() as connection:
        row = (await connection.execute(query)).one_or_none()
    return None if row is None else _assignment(row)


async def of_annotator(database: Database, round_id: str, annotator_id: str) -> list[Assignment]:
    """The annotator's assignments in a round, the last touched first."""
    query = _WITH_TASK.where(own.round_id == round_id, own.annotator_id == annotator_id)
    async with database.reading() as connection:
        rows = await connection.execute(query.order_by(own.touched_at.desc()))
        return [_assignment(row) for row in rows]


# ---------------------------------------------------------------- the next task


async def next_task(database: Database, of: Round, annotator_id: str) -> str | None:
    """The id of the assignment that the annotator has open in this round, else of a new one; None if there is none for
    them, or the round is closed.
    """
    for _ in range(ATTEMPTS):
        try:
            async with database.writing() as connection:
                return await _next(connection, of, annotator_id)
        except IntegrityError:  # two at once took the same place; one of them gets another
            continue
    return None


async def _next(connection: AsyncConnection, of: Round, annotator_id: str) -> str | None:
    mine = and_(own.round_id == of.id, own.annotator_id == annotator_id, own.state == "open", own.slot.is_not(None))
    held = (await connection.execute(select(own.assignment_id).where(mine).order_by(own.opened_at).limit(1))).scalar()
    if held is not None:
        await _touch(connection, held)
        return str(held)
    position = await _free_position(connection, of, annotator_id)
    if position is None or (slot := await _free_slot(connection, of.id, position, of.overlap)) is None:
        return None
    at, assignment_id = now(), secrets.token_hex(8)
    row = {"assignment_id": assignment_id, "round_id": of.id, "position": position, "annotator_id": annotator_id}
    times = {"lease_until": at + LEASE, "opened_at": at, "touched_at": at, "seconds": 0}
    await connection.execute(insert(ASSIGNMENTS).values(**row, **times, slot=slot, state="open"))
    return assignment_id


def _counts() -> ColumnElement[bool]:
    """Whether an assignment takes up one of its task's places: it was submitted, or its lease lasts."""
    return and_(own.slot.is_not(None), or_(own.state == "submitted", own.lease_until > now()))


async def _free_position(connection: AsyncConnection, of: Round, annotator_id: str) -> int | None:
    """The position of the first task that this annotator never had and that has a place: one meant for them before
    others. One that is meant for somebody with an account here waits for that person.
    """
    others = select(ACCOUNTS.c.account_id).where(~ACCOUNTS.c.disabled, ACCOUNTS.c.account_id != annotator_id)
    here = and_(own.round_id == TASKS.c.round_id, own.position == TASKS.c.position)
    had = select(own.assignment_id).where(here, own.annotator_id == annotator_id).exists()
    taken = select(func.count()).select_from(ASSIGNMENTS).where(here, _counts()).scalar_subquery()
    is_open = select(ROUNDS.c.round_id).where(ROUNDS.c.round_id == of.id, ROUNDS.c.open).exists()
    others_work = or_(TASKS.c.not_for.is_(None), func.lower(TASKS.c.not_for) != annotator_id.lower())
    free = select(TASKS.c.position).where(TASKS.c.round_id == of.id, is_open, ~had, others_work, taken < of.overlap)
    for meant in (
        TASKS.c.meant_for == annotator_id,
        or_(TASKS.c.meant_for.is_(None), TASKS.c.meant_for.not_in(others)),
    ):
        first = free.where(meant).order_by(TASKS.c.position).limit(1)
        position: int | None = (await connection.execute(first)).scalar()
        if position is not None:
            return position
    return None


async def _free_slot(connection: AsyncConnection, round_id: str, position: int, overlap: int) -> int | None:
    """The lowest free place of a task, after those were freed whose lease has ended; None if all are taken."""
    here = and_(own.round_id == round_id, own.position == position)
    ended = and_(here, own.state == "open", own.slot.is_not(None), own.lease_until <= now())
    await connection.execute(update(ASSIGNMENTS).where(ended).values(slot=None))
    taken = set((await connection.execute(select(own.slot).where(here, own.slot.is_not(None)))).scalars())
    return next((slot for slot in range(overlap) if slot not in taken), None)


async def _touch(connection: AsyncConnection, assignment_id: str, **values: Any) -> None:
    at = now()
    changed = {"lease_until": at + LEASE, "touched_at": at, **values}
    await connection.execute(update(ASSIGNMENTS).where(own.assignment_id == assignment_id).values(**changed))


# ---------------------------------------------------------------- what annotators do


async def _locked(connection: AsyncConnection, assignment_id: str, annotator_id: str) -> Any:
    """The annotator's assignment with `open` and `overlap` of its round, locked until the transaction ends."""
    query = (
        select(ASSIGNMENTS, ROUNDS.c.open, ROUNDS.c.overlap)
        .join(ROUNDS, ROUNDS.c.round_id == own.round_id)
        .where(own.assignment_id == assignment_id, own.annotator_id == annotator_id)
    )
    return (await connection.execute(query.with_for_update(of=ASSIGNMENTS))).one()


def _seconds(row: Any, claimed: float) -> float:
    """The seconds spent on an assignment, of which the browser says how many: never fewer than before, and never more
    than have passed since.
    """
    passed = (now() - row.touched_at) / 1_000
    return float(max(row.seconds, min(claimed, row.seconds + passed)))


async def save_draft(
    database: Database, assignment_id: str, annotator_id: str, pairs: Pairs, seconds: float, submission_id: str
) -> bool:
    """Keep what an annotator wrote so far, and renew the lease; False if somebody else has the task's place since. A
    draft of a form that was submitted meanwhile is dropped.
    """
    async with database.writing() as connection:
        row = await _locked(connection, assignment_id, annotator_id)
        if await _submitted(connection, submission_id):
            return True
        draft, lease = json.dumps(pairs, ensure_ascii=False), {} if row.slot is not None else {"lease_until": 0}
        await _touch(connection, assignment_id, draft=draft, seconds=_seconds(row, seconds), **lease)
        return row.slot is not None or row.state != "open"


async def _submitted(connection: AsyncConnection, submission_id: str) -> bool:
    query = select(SUBMISSIONS.c.submission_id).where(SUBMISSIONS.c.submission_id == submission_id)
    return (await connection.execute(query)).scalar() is not None


async def submit(
    database: Database, assignment_id: str, annotator_id: str, entries: Entries, seconds: float, submission_id: str
) -> Outcome:
    """Submit checked values. `taken`: the lease had ended and somebody else has the place; `closed`: the round is. The
    same `submission_id` counts once.
    """
    async with database.writing() as connection:
        row = await _locked(connection, assignment_id, annotator_id)
        if await _submitted(connection, submission_id):
            return "submitted"
        if not row.open:
            return "closed"
        slot = row.slot
        if slot is None and (slot := await _free_slot(connection, row.round_id, row.position, row.overlap)) is None:
            return "taken"
        done = {"at": now(), "entries": as_json(entries), "seconds": _seconds(row, seconds)}
        keys = {"submission_id": submission_id, "assignment_id": assignment_id}
        await connection.execute(insert(SUBMISSIONS).values(**keys, **done))
        changed = {"slot": slot, "state": "submitted", "draft": None, "submitted_at": done["at"]}
        await _touch(connection, assignment_id, entries=done["entries"], seconds=done["seconds"], **changed)
        return "submitted"


async def skip(database: Database, assignment_id: str, annotator_id: str, pairs: Pairs, seconds: float) -> None:
    """Give an open task's place to others; what was written stays, and its annotator may come back to it."""
    async with database.writing() as connection:
        row = await _locked(connection, assignment_id, annotator_id)
        if row.state == "open":
            kept = {"draft": json.dumps(pairs, ensure_ascii=False), "seconds": _seconds(row, seconds)}
            await _touch(connection, assignment_id, state="skipped", slot=None, **kept)


# ---------------------------------------------------------------- counts


async def done_by_round(database: Database, annotator_id: str) -> dict[str, int]:
    """round_id -> how many tasks this annotator submitted."""
    query = select(own.round_id, func.count()).where(own.annotator_id == annotator_id, own.state == "submitted")
    async with database.reading() as connection:
        return dict((await connection.execute(query.group_by(own.round_id))).tuples().all())


async def submitted_by_round(database: Database) -> dict[str, int]:
    """round_id -> how many annotations were submitted."""
    query = select(own.round_id, func.count()).where(own.entries.is_not(None)).group_by(own.round_id)
    async with database.reading() as connection:
        return dict((await connection.execute(query)).tuples().all())
