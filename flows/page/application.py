"""The application of `longform serve`: security of every request and answer, errors as pages, and the two parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.page.rendering import STATIC, render
from longform.errors import LongformError, UsageError

MOST_BYTES = 1_000_000
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
TITLES = {
    400: "This request cannot be read",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    409: "Somebody was faster",
    413: "Too large",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "Busy",
}


@dataclass(frozen=True, slots=True)
class Serving:
    """How the page is served. `hosts`: the names that a request's Host header may give, without ports. `secure`:
    people reach it by https, so that cookies are sent over nothing else. `look`: who may use the part Look: everybody,
    people with an account, or nobody.
    """

    home: Path
    hosts: frozenset[str] = LOOPBACK
    secure: bool = False
    look: Literal["open", "accounts", "off"] = "open"


def create_app(serving: Serving) -> FastAPI:
    """The application. Its `state.serving` says how it is served; nothing is read or written before it starts."""
    app = FastAPI(title="longform", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_life)
    app.state.serving = serving
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for error in (HTTPException, RequestValidationError, LongformError, Exception):
        app.add_exception_handler(error, _error_page)
    if serving.look != "off" and find_spec("flows.page.look") and find_spec("flows.page.look.routes"):
        app.include_router(import_module("flows.page.look.routes").router)
    app.add_middleware(Guard, hosts=serving.hosts)
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """What the application holds while it runs."""
    yield


def _error_page(request: Request, error: Exception) -> Response:
    """The page for an error: its status and one sentence. What nobody foresaw is told to the log alone."""
    if isinstance(error, HTTPException):
        status, sentence, headers = error.status_code, str(error.detail), error.headers
    elif isinstance(error, RequestValidationError):
        status, sentence, headers = 400, "An address or a form of this page holds a value that does not fit.", None
    elif isinstance(error, LongformError):
        status, sentence, headers = 404 if isinstance(error, UsageError) else 503, str(error), None
    else:
        status, sentence, headers = 500, "The page met an error, which its log names. Nothing of yours was lost.", None
    found = render(request, "error.html", status=status, title=TITLES.get(status, "Error"), sentence=sentence)
    found.headers.update(headers or (HEADERS if status == 500 else {}))  # 500: no middleware sees it
    return found


class TooLarge(HTTPException):
    """Raised while a request is read whose body has more than MOST_BYTES."""

    def __init__(self) -> None:
        super().__init__(413, f"More than {MOST_BYTES // 1_000:,} kB in one request: send less at a time.")


class Guard:
    """Middleware: refuses requests for another host or with too large a body, and adds HEADERS to every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        app: Callable[..., object] = self._app
        if _host(request) not in self._hosts:
            app = _refusal(request, 400, "This page is not served under that name: use the address `serve` printed.")
        elif int(request.headers.get("content-length") or 0) > MOST_BYTES:
            app = _refusal(request, 413, TooLarge().detail)
        await app(scope, _limited(receive), _with_headers(send, no_store="/static/" not in request.url.path))  # type: ignore[misc]


def _host(request: Request) -> str:
    """The name in the Host header, without its port, in lower case; "" without a header."""
    name, _, port = request.headers.get("host", "").lower().rpartition(":")
    return name if name and port.isdigit() else request.headers.get("host", "").lower()


def _refusal(request: Request, status: int, sentence: str) -> Response:
    return render(request, "error.html", status=status, title=TITLES[status], sentence=sentence)


def _limited(receive: Receive) -> Receive:
    """`receive`, which raises TooLarge once the body has more than MOST_BYTES."""
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BYTES:
            raise TooLarge
        return message

    return limited


def _with_headers(send: Send, *, no_store: bool) -> Send:
    """`send`, which adds HEADERS, and whether a browser may keep the answer."""
    added = {**HEADERS, "cache-control": "no-store" if no_store else "no-cache"}
    pairs = [(name.encode(), value.encode()) for name, value in added.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message["headers"] if pair[0].lower().decode("latin-1") not in added]
            message = {**message, "headers": [*kept, *pairs]}
        await send(message)

    return sending
