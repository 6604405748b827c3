"""The faults that the stand-in for sources can simulate, by name, and what becomes of a response under one.

Shares and scripts are those of the stand-in for models (longform/standin/faults.py); a script's line without `path`
is for the next request to any source. Whether GROBID is there is answered without faults, but for lines of its path.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from longform.standin import faults
from longform.standin.faults import Fault
from longform.standin.sources.calls import as_text

FAULTS = {
    "429": "too many requests, with Retry-After, and in the source's own words",
    "429-bare": "too many requests, without Retry-After",
    "403": "refused",
    "500": "server error",
    "502": "bad gateway, as HTML",
    "503": "busy, with Retry-After",
    "page": "200, but a page for browsers",
    "reset": "connection reset instead of the answer",
    "reset-early": "connection reset before the request was read",
    "drip": "the answer comes in drops, for longer than a time-out",
    "truncated": "the body ends before its content-length",
    "broken": "200 and the first half of the body, as if it were the whole, under the same ETag",
    "etag": "another ETag, as of a file that was changed",
    "slow": "ten times the latency, at least a second",
}
REFUSALS = {"429": 429, "429-bare": 429, "403": 403, "500": 500, "503": 503}
LOST = frozenset(("reset", "reset-early", "drip", "truncated", "broken", "page"))
PAGE = "<!DOCTYPE html><html><head><title>One moment</title></head><body><p>Checking your browser.</p></body></html>"
BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


def retry_seconds(fault: Fault) -> float | None:
    """How many seconds the refusal under this fault asks the client to wait; None if it does not say."""
    return fault.retry_after if fault.name in ("429", "503") else None


def as_page(fault: Fault | None) -> web.Response | None:
    """The page that takes the answer's place under this fault; None under others."""
    if fault and fault.name == "502":
        return as_text(BAD_GATEWAY, 502, "text/html")
    return as_text(PAGE, 200, "text/html") if fault and fault.name == "page" else None


def with_fault(fault: Fault | None, request: web.Request, response: web.Response) -> web.StreamResponse:
    """The response as the fault lets it through; unchanged without a fault or under a refusal. `response` itself is
    changed.
    """
    if fault and fault.name == "broken":
        body: Any = response.body
        response.body = bytes(body[: len(body) // 2])
        return response
    if fault and fault.name == "etag" and "ETag" in response.headers:
        response.headers["ETag"] = '"changed-' + response.headers["ETag"].strip('"') + '"'
    return faults.with_fault(fault, request, response)
