"""Pages on which annotators do the tasks of a round. They see and change what is assigned to them, nothing else."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from flows.page.rendering import render
from flows.page.work import assignment, entries, view
from flows.page.work.access import Fields, current_account, posted
from flows.page.work.assignment import Assignment
from flows.page.work.database import database
from flows.page.work.rounds import Round, round_of, rule_of
from flows.page.work.sessions import Account

router = APIRouter(prefix="/work")

NOT_YOURS = "There is no such task, or it is not yours."
MOST_LISTED = 100
CURRENT = Depends(current_account)


async def _round(request: Request, round_id: str, account: Account) -> Round:
    """The round with this id; status 404 if there is none for this account's role."""
    found = await round_of(database(request), round_id)
    if found is None or not found.is_for(account.role):
        raise HTTPException(404, "There is no such form, or it is not for you.")
    return replace(found, form=found.form.seen_by(account.role))  # type: ignore[arg-type]


async def _mine(request: Request, assignment_id: str, account: Account) -> tuple[Assignment, Round]:
    """An assignment of this account, and its round; status 404 if it is another's, or there is none."""
    found = await assignment.found(database(request), assignment_id, account.id)
    if found is None:
        raise HTTPException(404, NOT_YOURS)
    return found, await _round(request, found.round_id, account)


@router.get("/rounds/{round_id}")
async def show_round(request: Request, round_id: str, account: Account = CURRENT) -> Response:
    of = await _round(request, round_id, account)
    mine = await assignment.of_annotator(database(request), round_id, account.id)
    done = sum(each.state == "submitted" for each in mine)
    values: dict[str, Any] = {"of": of, "mine": mine[:MOST_LISTED], "done": done, "excerpt": view.excerpt}
    return render(request, "work/round.html", part="work", finished="finished" in request.query_params, **values)


@router.post("/rounds/{round_id}/next")
async def begin_task(request: Request, round_id: str, account: Account = CURRENT) -> Response:
    await posted(request, account)
    return await _to_next(request, await _round(request, round_id, account), account)


async def _to_next(request: Request, of: Round, account: Account) -> Response:
    following = await assignment.next_task(database(request), of, account.id)
    return RedirectResponse(f"/work/tasks/{following}" if following else f"/work/rounds/{of.id}?finished", 303)


@router.get("/tasks/{assignment_id}")
async def show_task(request: Request, assignment_id: str, account: Account = CURRENT) -> Response:
    mine, of = await _mine(request, assignment_id, account)
    if mine.draft is not None:
        held = entries.by_control(mine.draft)
    else:
        held = entries.given(of.form, mine.task, mine.entries or {})
    return await _page(request, mine, of, account, held, {})


async def _page(
    request: Request,
    mine: Assignment,
    of: Round,
    account: Account,
    held: dict[str, list[str]],
    errors: dict[str, str],
    status: int = 200,
    seconds: float | None = None,
) -> Response:
    """The page of a task whose controls hold these texts, with messages beside them."""
    done = (await assignment.done_by_round(database(request), account.id)).get(of.id, 0)
    values: dict[str, Any] = {
        "of": of,
        "mine": mine,
        "whole": view.whole(of.form, mine.task, held, errors),
        "items": view.items(of.form, mine.task, held, errors),
        "errors": errors,
        "seconds": mine.seconds if seconds is None else seconds,
        "submission_id": secrets.token_hex(16),
        "done": done,
    }
    return render(request, "work/task.html", part="work", status=status, **values)


@router.post("/tasks/{assignment_id}/draft")
async def save_draft(request: Request, assignment_id: str, account: Account = CURRENT) -> Response:
    mine, of = await _mine(request, assignment_id, account)
    fields = await posted(request, account)
    pairs = entries.own_pairs(of.form, mine.task, fields)
    kept = await assignment.save_draft(
        database(request), mine.id, account.id, pairs, _seconds(fields), _submission_id(fields)
    )
    return render(request, "work/saved.html", kept=kept, part="work")


@router.post("/tasks/{assignment_id}")
async def submit_task(request: Request, assignment_id: str, account: Account = CURRENT) -> Response:
    mine, of = await _mine(request, assignment_id, account)
    fields = await posted(request, account)
    pairs, seconds = entries.own_pairs(of.form, mine.task, fields), _seconds(fields)
    if fields.get("do") == "skip":
        await assignment.skip(database(request), mine.id, account.id, pairs, seconds)
        return await _to_next(request, of, account)
    rule = await rule_of(request.app.state.serving.home, of)
    read = entries.read(replace(of.form, unfit=rule), mine.task, account.id, pairs)
    submission_id = _submission_id(fields)
    if read.errors:
        await assignment.save_draft(database(request), mine.id, account.id, pairs, seconds, submission_id)
        status = 422 if read.forged else 200
        return await _page(request, mine, of, account, entries.by_control(pairs), read.errors, status, seconds)
    outcome = await assignment.submit(database(request), mine.id, account.id, read.values, seconds, submission_id)
    if outcome == "submitted":
        return await _to_next(request, of, account)
    await assignment.save_draft(database(request), mine.id, account.id, pairs, seconds, submission_id)
    return await _page(request, mine, of, account, entries.by_control(pairs), {"": REFUSED[outcome]}, 409, seconds)


REFUSED = {
    "taken": "Your lease ended and somebody else has this task now. What you wrote is kept, but not counted.",
    "closed": "This form was closed meanwhile. What you wrote is kept, but not counted.",
}


def _seconds(fields: Fields) -> float:
    """The seconds that the browser counted; 0 for what is no number."""
    try:
        found = float(fields.get("seconds", "0"))
    except ValueError:
        return 0.0
    return found if 0 <= found < 1e7 else 0.0


def _submission_id(fields: Fields) -> str:
    """The id that the form was shown with; status 400 for anything else."""
    found = fields.get("submission", "")
    if len(found) != 32 or not found.isalnum():
        raise HTTPException(400, "This form lacks its number: load the page again.")
    return found
