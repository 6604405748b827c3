"""Log-in and log-out, and the page /work: what there is to do."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from flows.page.rendering import render
from flows.page.work.access import cookie_name, current_account, posted, token_of
from flows.page.work.assignment import done_by_round
from flows.page.work.database import Database, database
from flows.page.work.rounds import rounds
from flows.page.work.sessions import IDLE, LONGEST, Account, Throttled, account_of, csrf_of, log_in, log_out

router = APIRouter(prefix="/work")

THROTTLED = "Too many log-ins failed, or too many wait: try again in a quarter of an hour."
WRONG = "Name and password do not fit together, or the account is disabled."


@dataclass(frozen=True, slots=True)
class Offer:
    """A card of the page /work: what it is called, where it leads, and how many of its tasks are done, of how many."""

    title: str
    text: str
    address: str
    done: int
    total: int


@router.get("")
async def home(request: Request, account: Account = Depends(current_account)) -> Response:  # noqa: B008
    if account.administers:
        return RedirectResponse("/work/admin", 303)
    found = [*await offers(database(request), account)]
    for further in request.app.state.further:
        found += await further(request, account)
    return render(request, "work/home.html", part="work", offers=found)


async def offers(database: Database, account: Account) -> list[Offer]:
    """The rounds that this account can work on. Further kinds of work stand in `app.state.further`."""
    done = await done_by_round(database, account.id)
    return [
        Offer(of.title, of.form.guidance, f"/work/rounds/{of.id}", done.get(of.id, 0), of.tasks)
        for of in await rounds(database)
        if of.open and of.is_for(account.role)
    ]


# ---------------------------------------------------------------- log-in


@router.get("/log-in")
async def log_in_page(request: Request, to: str = "/work") -> Response:
    token = token_of(request)
    if token and await account_of(database(request), token):
        return RedirectResponse(_inside(to), 303)
    return _log_in_form(request, token or secrets.token_urlsafe(32), to)


def _log_in_form(request: Request, token: str, to: str, error: str = "", status: int = 200) -> Response:
    values = {"csrf": csrf_of(token), "to": _inside(to), "error": error, "part": "work"}
    found = render(request, "work/log_in.html", status=status, **values)
    _set_cookie(request, found, token, IDLE // 1_000)
    return found


def _set_cookie(request: Request, response: Response, token: str, seconds: int) -> None:
    secure = request.app.state.serving.secure
    response.set_cookie(
        cookie_name(request), token, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure
    )


@router.post("/log-in")
async def begin_session(request: Request) -> Response:
    fields = await posted(request, None)
    to, address = fields.get("to", ""), request.client.host if request.client else ""
    try:
        token = await log_in(
            database(request), request.app.state.passwords, fields.get("name", ""), fields.get("password", ""), address
        )
    except Throttled:
        return _log_in_form(request, token_of(request), to, THROTTLED, 429)
    if token is None:
        return _log_in_form(request, token_of(request), to, WRONG, 401)
    found = RedirectResponse(_inside(to), 303)
    _set_cookie(request, found, token, LONGEST // 1_000)
    return found


@router.post("/log-out")
async def end_session(request: Request, account: Account = Depends(current_account)) -> Response:  # noqa: B008
    await posted(request, account)
    await log_out(database(request), token_of(request))
    found = RedirectResponse("/work/log-in", 303)
    found.delete_cookie(cookie_name(request), path="/", httponly=True, secure=request.app.state.serving.secure)
    return found


def _inside(to: str) -> str:
    """A path of the part Work to go to after the log-in: the given one, unless it leads elsewhere."""
    plain = to.isprintable() and not any(sign in to for sign in ("\\", "//", ".."))
    return to if plain and (to == "/work" or to.startswith("/work/")) and to != "/work/log-in" else "/work"


async def by_accounts_alone(request: Request) -> None:
    """A dependency of the part Look where it is for people with an account: leads others to the log-in."""
    token = token_of(request)
    request.state.account = await account_of(database(request), token) if token else None
    if request.state.account is None:
        raise HTTPException(303, headers={"location": "/work/log-in"})
