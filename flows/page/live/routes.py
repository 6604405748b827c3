"""Pages of live sessions: what is left to read, the session itself, its turns, and the revision as it is written."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request
from sqlalchemy import RowMapping
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse

from flows.page.live import sessions
from flows.page.live.sessions import Caps, Live
from flows.page.live.study import Study
from flows.page.live.study import opened as open_study
from flows.page.live.writing import FAILED, Cost, Unwritten, Writing
from flows.page.rendering import render
from flows.page.work.access import Fields, current_account, posted
from flows.page.work.database import Database
from flows.page.work.routes import Offer
from flows.page.work.sessions import Account
from longform.artifacts.rows import Row
from longform.errors import LongformError
from longform.llm.price import NANO
from tasks.kiwi.interaction import INFORMATION, MOST_TURNS, RATINGS, STYLE

router = APIRouter(prefix="/work/live")
CURRENT = Depends(current_account)
AT_ONCE = 16  # revisions that are written at the same time
CHARACTERS = 24  # of a revision, sent at a time
PAUSE = 0.03  # seconds between these
LOOK = 0.2  # seconds between looks at a turn that is being written
LONGEST = {"instruction": 4_000, "comment": 4_000, "edited": 40_000}
DRAFTED = ("instruction", "kind", "rating", "comment", "edited", "seconds")
TITLE = "Research answers, live"
NOTHING = "There is no further question for you at the moment. Thank you."
OUTCOMES = {
    "lost": "This session rested for so long that its question went to somebody else. What you did is kept.",
    "not now": "This was done already, or it is not the time for it: here is the session as it stands.",
    "spent": "You have used up today's share of what models may cost. Go on tomorrow; the session waits for you.",
}


@dataclass
class Work:
    """What live sessions hold while the page runs. `caps`: of each annotator in a day. `writes`: (session, position) ->
    the task that writes this turn.
    """

    database: Database
    study: Study
    writing: Writing
    caps: Caps
    writes: dict[tuple[str, int], asyncio.Task[None]] = field(default_factory=dict)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def folder(self) -> Path:
        """Where finished sessions are written."""
        from flows.kiwi import PAGE

        return self.study.store.home / PAGE

    def write(self, live: Live, turn: Row) -> None:
        """Begin to write a turn that was asked for, unless that goes on already."""
        key = (live.id, int(turn["position"]))
        if key not in self.writes:
            task = self.writes[key] = asyncio.create_task(self._write(live, turn))
            task.add_done_callback(lambda _: self.writes.pop(key, None))

    async def _write(self, live: Live, turn: Row) -> None:
        written, cost, error = None, Cost(0, 0), None
        async with self.room:
            try:
                written, cost = await asyncio.to_thread(
                    self.writing.written, str(live.row["system"]), live.question, turn
                )
            except Unwritten as found:
                error = str(found)
            except LongformError as found:
                logging.getLogger(__name__).warning("a live session got no revision: %s", found)
                error = FAILED
            except Exception:  # else the turn would stay asked, and each look at it would ask again
                logging.getLogger(__name__).exception("a live session got no revision")
                error = FAILED
        await sessions.keep(self.database, live.id, turn["position"], written, cost, error)


@asynccontextmanager
async def opened(database: Database, home: Path, config: Path | None, caps: Caps) -> AsyncIterator[Work | None]:
    """The live sessions of a home while the page runs, with the settings of a configuration file of kiwi; None if no
    version of it has what they need. Sessions whose file is missing are written. UsageError for a wrong configuration.
    """
    study = await asyncio.to_thread(open_study, home, config)
    if study is None:
        yield None
        return
    work = Work(database, study, Writing(study), caps)
    try:
        await sessions.write_finished(database, work.folder)
        yield work
    finally:
        for task in [*work.writes.values()]:
            task.cancel()
        await asyncio.to_thread(work.writing.close)


def work_of(request: Request) -> Work:
    """The live sessions of the application; status 404 if it has none."""
    found: Work | None = request.app.state.live
    if found is None:
        raise HTTPException(404, "No version of kiwi is open for live sessions here.")
    return found


async def _mine(request: Request, session_id: str, account: Account) -> Live:
    """A session of this account; status 404 if it is another's, or there is none."""
    found = await sessions.found(work_of(request).database, session_id, account.id)
    if found is None:
        raise HTTPException(404, "There is no such session, or it is not yours.")
    return found


async def offers(request: Request, account: Account) -> list[Offer]:
    """What an account can read on the page /work: live sessions, where there are some."""
    work: Work | None = request.app.state.live
    if work is None:
        return []
    mine = await sessions.of_annotator(work.database, account.id)
    done = sum(row["state"] == "finished" for row in mine)
    text = "Read an answer to a research question, have a model revise it turn by turn, and rate what it does."
    return [Offer(TITLE, text, "/work/live", done, len(work.study.answers))]


# ---------------------------------------------------------------- sessions


@router.get("")
async def show_sessions(request: Request, account: Account = CURRENT) -> Response:
    work = work_of(request)
    mine = await sessions.of_annotator(work.database, account.id)
    rows = [_with_question(row) for row in mine]
    preferred = await sessions.topics_of(work.database, account.id)
    every = [_with_question(row) for row in await sessions.progress(work.database)] if account.administers else []
    values: dict[str, Any] = {"mine": rows, "topics": work.study.topics, "preferred": preferred, "every": every}
    note = NOTHING if "nothing" in request.query_params else ""
    return render(request, "work/live.html", part="work", title=TITLE, note=note, nano=NANO, **values)


def _with_question(row: RowMapping) -> Row:
    """A row of a session with its question as text."""
    return {**row, "question": json.loads(row["question"])["question"]}


@router.post("/topics")
async def choose_topics(request: Request, account: Account = CURRENT) -> Response:
    fields, work = await posted(request, account), work_of(request)
    await sessions.prefer(work.database, account.id, {*fields.getlist("topic")} & {*work.study.topics})
    return RedirectResponse("/work/live", 303)


@router.post("/next")
async def begin_session(request: Request, account: Account = CURRENT) -> Response:
    await posted(request, account)
    work = work_of(request)
    found = await sessions.begin(work.database, work.study, account.id)
    return RedirectResponse(f"/work/live/{found}" if found else "/work/live?nothing", 303)


@router.get("/{session_id}")
async def show_session(request: Request, session_id: str, account: Account = CURRENT) -> Response:
    return _page(request, await _mine(request, session_id, account))


def _page(
    request: Request, live: Live, errors: dict[str, str] | None = None, held: Row | None = None, status: int = 200
) -> Response:
    """The page of a session; `errors`: field -> what does not fit; `held`: what its fields hold."""
    pending = live.pending
    if pending and pending["state"] == "asked":
        work_of(request).write(live, pending)
    values: dict[str, Any] = {"live": live, "pending": pending, "errors": errors or {}}
    values |= {"held": live.draft if held is None else held}
    values |= {"ratings": RATINGS, "most": MOST_TURNS, "kinds": {INFORMATION: "information", STYLE: "style"}}
    return render(request, "work/live_session.html", part="work", status=status, **values)


# ---------------------------------------------------------------- turns


@router.post("/{session_id}/turns")
async def ask(request: Request, session_id: str, account: Account = CURRENT) -> Response:
    live, work = await _mine(request, session_id, account), work_of(request)
    fields = await posted(request, account)
    held = {"instruction": fields.get("instruction", "").strip(), "kind": fields.get("kind", "")}
    held["seconds"] = fields.get("seconds", "0")
    errors = _too_long(held)
    if not held["instruction"]:
        errors["instruction"] = "Write what the answer should become."
    if held["kind"] not in (INFORMATION, STYLE):
        errors["kind"] = "Choose which of the two it is."
    if errors:
        return _page(request, live, errors, held)
    asking = sessions.ask_again if live.pending else sessions.ask
    said = held["kind"], held["instruction"]
    outcome = await asking(work.database, session_id, account.id, *said, work.caps, _seconds(fields))
    return await _after(request, outcome, session_id, account, held)


@router.post("/{session_id}/turns/{position}")
async def rate(request: Request, session_id: str, position: int, account: Account = CURRENT) -> Response:
    live, work = await _mine(request, session_id, account), work_of(request)
    fields = await posted(request, account)
    names = ("rating", "comment", "edited", "seconds")
    held = {name: fields.get(name, "").strip() for name in names}
    errors = _too_long(held)
    if held["rating"] not in RATINGS:
        errors["rating"] = "Rate the revision."
    if not held["comment"]:
        errors["comment"] = "Say why: a sentence is enough."
    if errors:
        return _page(request, live, errors, held)
    pending = live.pending or {}
    answer = str(pending.get("answer") or "").strip()
    edited = held["edited"] if held["rating"] != "good" and held["edited"] not in ("", answer) else None
    outcome = await sessions.rate(
        work.database, session_id, account.id, position, held["rating"], held["comment"], edited, _seconds(fields)
    )
    return await _after(request, outcome, session_id, account, held)


@router.post("/{session_id}/draft")
async def save_draft(request: Request, session_id: str, account: Account = CURRENT) -> Response:
    """Keep what the fields of a session's next step hold."""
    await _mine(request, session_id, account)
    fields = await posted(request, account)
    held = {name: fields[name] for name in DRAFTED if name in fields}
    if not _too_long(held):
        await sessions.save_draft(work_of(request).database, session_id, account.id, held)
    return Response(status_code=204)


@router.post("/{session_id}/finish")
async def finish(request: Request, session_id: str, account: Account = CURRENT) -> Response:
    await _mine(request, session_id, account)
    await posted(request, account)
    work = work_of(request)
    outcome = await sessions.finish(work.database, work.folder, session_id, account.id)
    return await _after(request, outcome, session_id, account, {})


async def _after(request: Request, outcome: str, session_id: str, account: Account, held: Row) -> Response:
    """The way back to a session after a step; or the session with what went wrong, and what its fields held."""
    if outcome == "done":
        return RedirectResponse(f"/work/live/{session_id}", 303)
    status = 429 if outcome == "spent" else 409
    return _page(request, await _mine(request, session_id, account), {"": OUTCOMES[outcome]}, held, status)


def _too_long(held: Row) -> dict[str, str]:
    """field -> a message, for texts with too many characters."""
    return {
        name: f"At most {LONGEST[name]:,} characters: this has {len(text):,}."
        for name, text in held.items()
        if len(text) > LONGEST.get(name, len(text))
    }


def _seconds(fields: Fields) -> float:
    """The seconds that the browser counted; 0 for what is no number."""
    try:
        found = float(fields.get("seconds", "0"))
    except ValueError:
        return 0.0
    return found if 0 <= found < 1e7 else 0.0


# ---------------------------------------------------------------- the stream


@router.get("/{session_id}/turns/{position}/stream")
async def stream(request: Request, session_id: str, position: int, account: Account = CURRENT) -> Response:
    """The revision as server-sent events: `wait` while it is written, its text piece by piece, `done`, or `failed`. A
    stream that was cut goes on behind the characters that came, by Last-Event-ID.
    """
    await _mine(request, session_id, account)
    begun = request.headers.get("last-event-id", "")
    start = int(begun) if begun.isdecimal() and len(begun) < 10 else 0
    events = _events(request, session_id, position, account, start)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _events(request: Request, session_id: str, position: int, account: Account, start: int) -> AsyncIterator[str]:
    yield "retry: 500\n\n"
    while not await request.is_disconnected():
        live = await _mine(request, session_id, account)
        turn = next((turn for turn in live.turns if turn["position"] == position), None)
        if turn is None or turn["state"] == "failed":
            yield _event("failed", "")
            return
        if turn["state"] != "asked":
            async for event in _pieces(str(turn["answer"]), start):
                yield event
            return
        work_of(request).write(live, turn)
        yield _event("wait", "")
        await asyncio.sleep(LOOK)


async def _pieces(answer: str, start: int) -> AsyncIterator[str]:
    """The events of a text from a character on."""
    for at in range(start, len(answer), CHARACTERS):
        piece = answer[at : at + CHARACTERS]
        yield f"id: {at + len(piece)}\n" + _event("text", piece)
        await asyncio.sleep(PAUSE)
    yield _event("done", "")


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
