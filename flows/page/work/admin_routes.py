"""Pages of administrators: rounds, their progress, agreement and time; a form is opened to annotators here."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from flows.page.rendering import render
from flows.page.work import accounts, exchange, rounds, view
from flows.page.work.access import Fields, administrator, posted
from flows.page.work.assignment import submitted_by_round
from flows.page.work.database import database
from flows.page.work.sessions import Account
from longform.errors import LongformError, UsageError
from tasks.annotation import agreement, labels
from tasks.annotation.form import ROLES, Form, Task

router = APIRouter(prefix="/work/admin")

ADMINISTRATOR = Depends(administrator)


@router.get("")
async def overview(request: Request, account: Account = ADMINISTRATOR) -> Response:
    return await _overview(request)


async def _overview(request: Request, error: str = "", given: Any = None) -> Response:
    base = database(request)
    values: dict[str, Any] = {
        "rounds": await rounds.rounds(base),
        "submitted": await submitted_by_round(base),
        "accounts": await accounts.listed(base),
        "choices": await anyio.to_thread.run_sync(rounds.choices, request.app.state.serving.home),
        "roles": ROLES,
        "given": given or {},
        "error": error,
    }
    return render(request, "work/admin.html", part="work", **values)


@router.post("/rounds")
async def open_round(request: Request, account: Account = ADMINISTRATOR) -> Response:
    fields = await posted(request, account)
    try:
        make = partial(rounds.drawn, request.app.state.serving.home, **_options(fields))
        round_id = await rounds.save(database(request), *await anyio.to_thread.run_sync(make))
    except LongformError as error:
        return await _overview(request, str(error), fields)
    return RedirectResponse(f"/work/admin/rounds/{round_id}", 303)


def _options(fields: Fields) -> dict[str, Any]:
    """The arguments of `rounds.drawn` that a posted form gives. UsageError for what is no whole number."""
    address, _, form_name = fields.get("form", "").partition(" ")
    try:
        numbers = {name: int(fields.get(name, "") or default) for name, default in (("overlap", 1), ("seed", 0))}
        most = int(fields["most"]) if fields.get("most", "").strip() else None
    except ValueError:
        raise UsageError("Annotators a task, the number of tasks and the seed are whole numbers.") from None
    return {"address": address, "form_name": form_name or None, "most": most, "role": fields.get("role", ""), **numbers}


@router.get("/rounds/{round_id}")
async def show_round(request: Request, round_id: str, account: Account = ADMINISTRATOR) -> Response:
    base = database(request)
    of = await _round(request, round_id)
    found = await exchange.submitted(base, round_id)
    tasks = await rounds.tasks_of(base, round_id)
    figures = await anyio.to_thread.run_sync(_figures, of.form, list(tasks.values()), found)
    people = _people(await rounds.counts(base, round_id))
    values = {"of": of, "people": people, "submitted": len(found), "duration": view.duration, **figures}
    return render(request, "work/admin_round.html", part="work", **values)


async def _round(request: Request, round_id: str) -> rounds.Round:
    found = await rounds.round_of(database(request), round_id)
    if found is None:
        raise HTTPException(404, "There is no such form: the administrator's page lists those that were opened.")
    return found


@router.post("/rounds/{round_id}")
async def change_round(request: Request, round_id: str, account: Account = ADMINISTRATOR) -> Response:
    fields = await posted(request, account)
    await _round(request, round_id)
    await rounds.set_open(database(request), round_id, fields.get("do") == "open")
    return RedirectResponse(f"/work/admin/rounds/{round_id}", 303)


def _figures(form: Form, tasks: list[Task], found: list[exchange.Annotation]) -> dict[str, Any]:
    """Tables of progress by field and of agreement, as lists of rows; agreement only of what two or more labelled."""
    table = labels.table(form, exchange.checked(form, found))
    agreed = [row for row in agreement.agreement(form, table).to_dict("records") if row["units"]] if len(table) else []
    return {
        "progress": labels.progress(form, tasks, table).to_dict("records"),
        "agreement": [{name: _figure(value) for name, value in row.items()} for row in agreed],
    }


def _figure(value: Any) -> Any:
    """A number for a table: two decimals for a fraction, "–" for one that is undefined."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else value


def _people(counted: Any) -> list[dict[str, Any]]:
    """A row an annotator: annotator_id, name, the number of tasks in each state, and seconds."""
    of: dict[str, dict[str, Any]] = {}
    for annotator_id, name, state, number, seconds in counted:
        empty = {"annotator_id": annotator_id, "name": name, "submitted": 0, "open": 0, "skipped": 0, "seconds": 0.0}
        row = of.setdefault(annotator_id, empty)
        row[state] += number
        row["seconds"] += seconds or 0.0
    return list(of.values())
