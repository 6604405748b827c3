"""The application of `longform serve`: security of every request and answer, errors as pages, and the two parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.page.live import routes as live
from flows.page.rendering import STATIC, render
from flows.page.work import admin_routes, task_routes
from flows.page.work import routes as work
from flows.page.work.database import opened
from flows.page.work.passwords import Passwords
from longform.errors import LongformError, UsageError
from longform.llm.price import NANO

MOST_BYTES = 1_000_000
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
PORTS = {"http": 80, "https": 443}
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
    401: "You are not logged in",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    409: "Somebody was faster",
    413: "Too large",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "This cannot be shown",
}


@dataclass(frozen=True, slots=True)
class Serving:
    """How the page is served. `origin`: what people type, e.g. https://annotate.example.org, where that is another
    address than this machine's own. `look`: who may use the part Look: everybody, people with an account, or nobody.
    `live`: the configuration of kiwi for live sessions, None: its defaults; `caps`: what an annotator's live sessions
    may take in a day, billionths of a US dollar and calls.
    """

    home: Path
    origin: str | None = None
    look: Literal["open", "accounts", "off"] = "open"
    live: Path | None = None
    caps: tuple[int, int] = (5 * NANO, 500)

    @property
    def secure(self) -> bool:
        """Whether people reach the page by https, so that cookies are sent over nothing else."""
        return urlsplit(self.origin or "").scheme == "https"


def create_app(serving: Serving) -> FastAPI:
    """The application. Its `state.serving` says how it is served; nothing is read or written before it starts."""
    app = FastAPI(title="longform", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_life)
    app.state.serving = serving
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for error in (HTTPException, RequestValidationError, LongformError, Exception):
        app.add_exception_handler(error, _error_page)
    app.state.further = [live.offers]
    for routes in (work, live, task_routes, admin_routes):
        app.include_router(routes.router)
    if serving.look != "off" and find_spec("flows.page.look") and find_spec("flows.page.look.routes"):
        needed = [Depends(work.by_accounts_alone)] if serving.look == "accounts" else []
        app.include_router(import_module("flows.page.look.routes").router, dependencies=needed)
    app.add_middleware(Guard, origin=serving.origin)
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """What the application holds while it runs: the database of the part Work, and whose turn it is to log in."""
    app.state.passwords = Passwords()
    serving: Serving = app.state.serving
    async with (
        opened(serving.home) as app.state.database,
        live.opened(app.state.database, serving.home, serving.live, serving.caps) as app.state.live,
    ):
        yield


def _error_page(request: Request, error: Exception) -> Response:
    """The page for an error: its status and one sentence. What nobody foresaw is told to the log alone."""
    if isinstance(error, HTTPException) and error.status_code == 303:
        return Response(status_code=303, headers=error.headers)
    if isinstance(error, HTTPException):
        status, sentence, headers = error.status_code, str(error.detail), error.headers
    elif isinstance(error, RequestValidationError):
        status, sentence, headers = 400, "An address or a form of this page holds a value that does not fit.", None
    elif isinstance(error, LongformError):
        status, sentence, headers = 404 if isinstance(error, UsageError) else 503, str(error), None
    else:
        status, sentence, headers = 500, "The page met an error, which its log names. Nothing of yours was lost.", None
    template = "error_fragment.html" if "hx-request" in request.headers else "error.html"
    found = render(request, template, status=status, title=TITLES.get(status, "Error"), sentence=sentence)
    found.headers.update(headers or (HEADERS if status == 500 else {}))  # 500: no middleware sees it
    return found


class TooLarge(HTTPException):
    """Raised while a request is read whose body has more than MOST_BYTES."""

    def __init__(self) -> None:
        super().__init__(413, f"More than {MOST_BYTES // 1_000:,} kB in one request: send less at a time.")


class Guard:
    """Middleware: refuses requests for another host or port, forms that do not come from this page and too large
    bodies, and adds HEADERS to every response. `origin`: as of Serving.
    """

    def __init__(self, app: ASGIApp, origin: str | None) -> None:
        self._app, self._origin = app, origin_of(origin or "")
        self._scheme = self._origin.partition("://")[0] or "http"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        app: Callable[..., object] = self._app
        host = _address(self._scheme, request.headers.get("host", ""))
        if not (host == self._origin or self._is_loopback(scope, host)):
            app = _refusal(request, 400, "This page is not served under that name: use the address `serve` printed.")
        elif request.method not in ("GET", "HEAD") and _sender(request) not in (host, self._origin or host):
            app = _refusal(request, 403, "This form was not sent from this page, and nothing was done.")
        elif int(request.headers.get("content-length") or 0) > MOST_BYTES:
            app = _refusal(request, 413, TooLarge().detail)
        await app(scope, _limited(receive), _with_headers(send, no_store="/static/" not in request.url.path))  # type: ignore[misc]

    def _is_loopback(self, scope: Scope, host: str) -> bool:
        """Whether an address names this machine and the port that the request came to."""
        _, port = scope.get("server") or ("", None)
        return host in {f"{self._scheme}://{name}:{port}" for name in LOOPBACK}


def origin_of(address: str) -> str:
    """Scheme, host and port of an address of http or https, as `https://annotate.example.org:443`; "" for what is none.
    An origin without its port has that of the scheme.
    """
    try:
        parts = urlsplit(address)
        fits = parts.scheme in PORTS and parts.hostname and parts.port != 0
    except ValueError:
        return ""
    return _address(parts.scheme, parts.netloc) if fits else ""


def _address(scheme: str, host: str) -> str:
    """Scheme, host and port in lower case, with the port of the scheme where the host names none."""
    name, _, port = host.lower().rpartition(":")
    return f"{scheme}://{host.lower()}" + ("" if name and port.isdigit() else f":{PORTS[scheme]}")


def _sender(request: Request) -> str:
    """Where a form comes from, by Origin, else by Referer; "" for one that names neither: every browser names one."""
    return origin_of(request.headers.get("origin") or request.headers.get("referer") or "")


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
