"""A request to the stand-in for sources and the replies it gets: JSON, refusals, and files that are sent in ranges."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from aiohttp import web

BINARY = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True)
class Call:
    """A request: `line` is its method and path, `origin` the server's own address (http://host:port), `match` the parts
    of the path that its route names, `form` the fields of a form (files as bytes). `headers` can be looked up in any
    case.
    """

    line: str
    origin: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    match: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""


Answer = Callable[[Call], web.Response]


class Refused(Exception):
    """Raised for a request that is answered with an error; `reply` is that answer."""

    def __init__(self, reply: web.Response) -> None:
        self.reply = reply


class Source(Protocol):
    """A stand-in for one server. `prefix`: the path that it is served under. `limited`: the routes that a limit of
    requests counts.
    """

    prefix: str
    limited: frozenset[str]

    def routes(self) -> Mapping[str, Answer]:
        """ "METHOD /path" below the prefix -> function that answers it."""

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error that the server gives with this status. `seconds`: when to ask again, None: it does not say."""

    def usage(self, url: str) -> list[str]:
        """Lines that a user types to use it; `url` is its address, with the prefix."""

    def key(self, call: Call) -> str:
        """What a whole answer to the call is counted under, to see what was answered twice."""


def as_json(document: Any, status: int = 200, **headers: str) -> web.Response:
    """A JSON response with this document, status and headers (underscores in their names become hyphens)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json", headers=named)


def as_text(text: str, status: int = 200, media_type: str = "text/plain") -> web.Response:
    """A response with this text."""
    return web.Response(body=text.encode(), status=status, content_type=media_type, charset="utf-8")


def as_file(content: bytes, media_type: str = BINARY, name: str | None = None) -> web.Response:
    """A response with this content and a strong ETag made of it; clients may ask for ranges of it."""
    response = web.Response(body=content, content_type=media_type)
    response.headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response.headers["Accept-Ranges"] = "bytes"
    if name:
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def plain_key(call: Call) -> str:
    """The method, path and query of a call as a text, without signatures (parameters that begin with X-Amz)."""
    query = "&".join(f"{name}={value}" for name, value in sorted(call.query.items()) if not name.startswith("X-Amz"))
    return f"{call.line}?{query}" if query else call.line


def ranged(call: Call, whole: web.Response) -> web.Response:
    """The part of a whole response that the call's Range asks for, with status 206; 416 if it begins behind the end;
    `whole` itself without a Range, without an ETag, or if If-Range names another ETag.
    """
    found = _RANGE.fullmatch(call.headers.get("Range", ""))
    etag = whole.headers.get("ETag")
    body: Any = whole.body
    if not found or not etag or whole.status != 200 or call.headers.get("If-Range", etag) != etag:
        return whole
    start, end = int(found[1]), min(int(found[2] or len(body) - 1), len(body) - 1)
    if start >= len(body):
        return web.Response(status=416, headers={"Content-Range": f"bytes */{len(body)}"})
    headers = {"Content-Range": f"bytes {start}-{end}/{len(body)}", "ETag": etag}
    return web.Response(body=body[start : end + 1], status=206, content_type=whole.content_type, headers=headers)
