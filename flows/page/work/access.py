"""Who makes a request, and whether its form was made by this page: dependencies of every route of the part Work."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException

from flows.page.work.database import database
from flows.page.work.sessions import Account, account_of, csrf_of

COOKIE = "longform-session"
MOST_FIELDS = 20_000

Fields = ImmutableMultiDict[str, str]


def cookie_name(request: Request) -> str:
    """The name of the session's cookie; by its prefix a browser refuses one that another host, or http, set."""
    return f"__Host-{COOKIE}" if request.app.state.serving.secure else COOKIE


def token_of(request: Request) -> str:
    """The token in a request's cookie; "" without one."""
    return request.cookies.get(cookie_name(request), "")


async def current_account(request: Request) -> Account:
    """Who is logged in; else an answer that leads to the log-in and back, or for a form status 401."""
    token = token_of(request)
    found = await account_of(database(request), token) if token else None
    if found is None and request.method == "GET":
        raise HTTPException(303, headers={"location": f"/work/log-in?to={quote(request.url.path)}"})
    if found is None:
        raise HTTPException(401, "You are no longer logged in: log in again. What was saved before is kept.")
    request.state.account = found
    return found


async def administrator(account: Account = Depends(current_account)) -> Account:  # noqa: B008
    """The administrator who is logged in; status 403 for other accounts."""
    if not account.administers:
        raise HTTPException(403, "This page is for administrators.")
    return account


async def posted(request: Request, account: Account | None) -> Fields:
    """The fields of a form. Status 403 without the token of this account's session, or where `account` is None, of the
    browser that was shown the form; 400 for what is no form.
    """
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "What was sent is no form of this page.") from None
    fields = ImmutableMultiDict([(name, value.replace("\0", "").replace("\r\n", "\n")) for name, value in pairs])
    expected = account.csrf if account else csrf_of(token_of(request)) if token_of(request) else ""
    if not (expected and hmac.compare_digest(fields.get("csrf", "").encode(), expected.encode())):
        raise HTTPException(403, "This form is from another session: go back, load the page again, and send it again.")
    return fields
