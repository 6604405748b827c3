"""The faults that the stand-in server can simulate, by name, and the choice of requests that get them: at random by
share, or in the order of a script.

    {"fault": "429", "retry_after": 0.5}
    {}
    {"fault": "drip", "seconds": 3}
    {"fault": "500", "path": "POST /v1/batches"}

Each line of a script is for one completion or embedding request, in order of arrival; {} lets it pass. A line with
`path` is for the next request to that path instead, written as in the counters. After the last line shares apply again.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import struct
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from longform.errors import UsageError
from longform.hints import hint
from longform.standin.questions import as_json, error_document

FAULTS = {
    "429": "too many requests, with Retry-After",
    "429-bare": "too many requests, without Retry-After",
    "quota": "429 insufficient_quota: no money left",
    "401": "the key is refused",
    "401-echo": "the key is refused, and the message repeats the Authorization header",
    "404": "the model is unknown",
    "context": "400 context_length_exceeded",
    "filter": "400 content_filter: the prompt is held back",
    "parameter": "400 unknown parameter",
    "500": "server error",
    "502": "bad gateway, as HTML",
    "503": "overloaded, with Retry-After",
    "reset": "connection reset instead of the answer",
    "reset-early": "connection reset before the request was read",
    "drip": "the answer comes in drops, for longer than a time-out",
    "truncated": "the body ends before its content-length",
    "broken": "200, but the JSON breaks off",
    "shape": "200 and JSON, but no completion",
    "slow": "ten times the latency, at least a second",
    "length": "the reply breaks off, finish_reason length",
    "whitespace": "the reply is white space up to its limit",
    "filtered": "the reply is held back, finish_reason content_filter",
    "refusal": "the model declines",
    "empty": "the reply is empty",
}
BATCH_FAULTS = {"expired": "half done", "failed": "nothing done", "cancelled": "half done"}

LOST = frozenset(("reset", "reset-early", "drip", "truncated"))
UNREADABLE = frozenset(("broken", "shape"))
EMPTY_REPLIES = frozenset(("whitespace", "empty"))
REPLY_FAULTS = frozenset(("length", "whitespace", "filtered", "refusal", "empty"))

RETRY_AFTER_SECONDS = 1.0
SLOW_FACTOR, SLOW_SECONDS = 10, 1.0
DRIP_SECONDS = 300.0
PAUSE_SECONDS = 0.2

_HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_WRONG_SHAPE = {"object": "chat.completion", "result": "ok"}
_ERRORS: dict[str, tuple[int, str, str, str | None, str | None]] = {
    "429": (429, "Rate limit reached. Please try again later.", "requests", None, "rate_limit_exceeded"),
    "429-bare": (429, "Rate limit reached. Please try again later.", "requests", None, "rate_limit_exceeded"),
    "quota": (429, "You exceeded your current quota.", "insufficient_quota", None, "insufficient_quota"),
    "401": (401, "Incorrect API key provided.", "invalid_request_error", None, "invalid_api_key"),
    "404": (404, "The model does not exist.", "invalid_request_error", "model", "model_not_found"),
    "context": (
        400,
        "This model's maximum context length is exceeded by your messages.",
        "invalid_request_error",
        "messages",
        "context_length_exceeded",
    ),
    "filter": (400, "The prompt was held back by a content filter.", "invalid_request_error", None, "content_filter"),
    "parameter": (400, "Unknown parameter: 'seed'.", "invalid_request_error", "seed", "unknown_parameter"),
    "500": (500, "The server had an error while processing your request.", "server_error", None, None),
    "503": (503, "The engine is overloaded, please try again later.", "server_error", None, None),
}
REFUSALS = frozenset((*_ERRORS, "401-echo", "502"))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name in FAULTS. `seconds`: how long a `drip` or `slow` answer takes, None: the default of that
    fault. `retry_after`: seconds in the Retry-After header of the faults 429 and 503.
    """

    name: str
    seconds: float | None = None
    retry_after: float = RETRY_AFTER_SECONDS


class Faults:
    """Chooses the fault of each request: by script while lines are left, then at random by share, drawn by `seed`.
    `shares`: fault name -> share of requests; `batches`: final status -> share of batches; `known`: the names of
    faults that there are. UsageError as in `set_shares`.
    """

    def __init__(
        self,
        shares: Mapping[str, float],
        batches: Mapping[str, float],
        seed: int,
        known: Mapping[str, str] = FAULTS,
    ) -> None:
        self._known = known
        self.set_shares(shares)
        self.set_batch_shares(batches)
        self._random = random.Random(seed)
        self._script = defaultdict[str | None, deque[dict[str, Any]]](deque)

    def set_shares(self, shares: Mapping[str, float]) -> None:
        """Set the shares of requests, by fault name. UsageError for an unknown fault, a share outside [0, 1], or
        shares that add up to more than 1.
        """
        self._shares = checked_shares(shares, self._known)

    def set_batch_shares(self, shares: Mapping[str, float]) -> None:
        """Set the shares of batches that end as expired, failed or cancelled. UsageError as in `set_shares`."""
        self._batch_shares = checked_shares(shares, BATCH_FAULTS)

    def add_script(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines to the script, such as {"fault": "429", "path": "POST /v1/batches"} or {}; the module's
        docstring describes them. UsageError at the first ill-formed line; the lines before it are appended.
        """
        for number, line in enumerate([*lines], 1):
            checked = _checked_line(number, dict(line), self._known)
            self._script[checked.pop("path", None)].append(checked)

    def draw(self, path: str, *, asks_model: bool) -> Fault | None:
        """The fault of the next request to `path` ("POST /v1/batches"), None: it passes. Uses up a script line with
        this path or, with `asks_model` (a completion or embedding request), one without a path; if there is none, the
        fault is drawn by share with `asks_model`, else None.
        """
        waiting = self._script[path] or (self._script[None] if asks_model else None)
        if waiting:
            line = waiting.popleft()
            name = line.pop("fault", None)
            return Fault(name, **line) if name else None
        return self.draw_line() if asks_model else None

    def draw_line(self) -> Fault | None:
        """The fault of one request of a batch, None: it passes. Drawn by share; the script is not used."""
        name = _drawn(self._shares, self._random)
        return Fault(name) if name else None

    def draw_batch(self) -> str | None:
        """The final status of a new batch: expired, failed, cancelled, or None: completed. Drawn by share."""
        return _drawn(self._batch_shares, self._random)


def _drawn(shares: Mapping[str, float], dice: random.Random) -> str | None:
    """A name drawn with the probability of its share; None with the probability that is left."""
    if not shares:
        return None
    none = max(0.0, 1 - sum(shares.values()))
    return dice.choices([*shares, None], [*shares.values(), none])[0]


def error_reply(fault: Fault, authorization: str) -> web.Response:
    """The error response of a fault in REFUSALS. `authorization` is the request's Authorization header, which
    "401-echo" repeats in its message.
    """
    if fault.name == "502":
        return web.Response(body=_HTML, status=502, content_type="text/html")
    if fault.name == "401-echo":
        message = f"Incorrect API key provided: {authorization}."
        return as_json(error_document(message, code="invalid_api_key"), 401)
    status, message, kind, parameter, code = _ERRORS[fault.name]
    reply = as_json(error_document(message, kind, parameter, code), status)
    if fault.name in ("429", "503"):
        reply.headers["retry-after"] = f"{fault.retry_after:g}"
    return reply


def slow_seconds(fault: Fault | None, latency_seconds: float) -> float:
    """The least seconds that a reply takes under the fault `slow`: those of the fault, by default SLOW_FACTOR times
    the usual `latency_seconds` and at least SLOW_SECONDS. 0 without a fault or under another.
    """
    if fault is None or fault.name != "slow":
        return 0.0
    return max(SLOW_FACTOR * latency_seconds, SLOW_SECONDS) if fault.seconds is None else fault.seconds


def unreadable(name: str, body: Any) -> bytes:
    """The bytes sent in place of `body` under a fault in UNREADABLE: its first half for "broken", JSON of another
    shape for "shape".
    """
    return bytes(body[: len(body) // 2]) if name == "broken" else json.dumps(_WRONG_SHAPE).encode()


def with_fault(fault: Fault | None, request: web.Request, response: web.Response) -> web.StreamResponse:
    """The response as the fault lets it through: the connection reset, the body unreadable, truncated or sent slowly;
    unchanged without a fault or under any other. `response` itself is changed.
    """
    name = fault.name if fault else ""
    body: Any = response.body
    if name == "reset":
        return reset(request)
    if name in UNREADABLE:
        response.body = unreadable(name, body)
    if fault and name == "drip":
        response.body = _drops(body, DRIP_SECONDS if fault.seconds is None else fault.seconds)
    elif name == "truncated":
        response.body = body[: len(body) // 2]
        response.force_close()
    if name in ("drip", "truncated"):
        response.headers["Content-Length"] = str(len(body))
    return response


def reset(request: web.Request) -> web.Response:
    """Abort the connection with a TCP reset, not an orderly close. The response returned is never sent."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()


async def _drops(body: bytes, seconds: float) -> AsyncIterator[bytes]:
    """The body in small pieces, about one every PAUSE_SECONDS for `seconds`, so that no single read of the client
    times out.
    """
    size = math.ceil(len(body) / max(1, round(seconds / PAUSE_SECONDS))) or 1
    starts = range(0, len(body), size)
    for start in starts:
        await asyncio.sleep(seconds / len(starts))
        yield body[start : start + size]


def faulty_message(name: str, text: str, limit: int) -> tuple[dict[str, Any], str]:
    """(fields that replace those of the completion's message, finish reason) under the fault `name` of REPLY_FAULTS.
    `text` is the reply without the fault; `limit` the request's token limit, up to which "whitespace" writes.
    """
    messages: dict[str, tuple[dict[str, Any], str]] = {
        "length": ({"content": text[: len(text) // 2]}, "length"),
        "whitespace": ({"content": "{" + "\n \t " * limit}, "length"),
        "filtered": ({"content": None}, "content_filter"),
        "refusal": ({"content": None, "refusal": "I am sorry, but I cannot help with that."}, "stop"),
        "empty": ({"content": ""}, "stop"),
    }
    return messages[name]


def checked_shares(shares: Mapping[str, float], known: Mapping[str, str]) -> dict[str, float]:
    """The shares, as a dict. UsageError for a name that is not in `known`, a share outside [0, 1] or a sum above 1."""
    for name, share in shares.items():
        if name not in known:
            raise UsageError(f'There is no fault "{name}": {hint(name, known, "there are")}')
        if not 0 <= share <= 1:
            raise UsageError(f"The share {share} of fault {name} is not between 0 and 1.")
    total = sum(shares.values())
    if total > 1 + 1e-9:
        raise UsageError(f"The shares of {', '.join(shares)} add up to {total:g}: they must not exceed 1.")
    return dict(shares)


def shares_of(words: Iterable[str]) -> dict[str, float]:
    """The shares in words of the form NAME=SHARE, such as 429=0.05, by name; the last one for a name given twice.
    UsageError for a word without a number. Names and sums are not checked.
    """
    shares = {}
    for word in words:
        name, _, share = word.partition("=")
        try:
            shares[name] = float(share)
        except ValueError:
            raise UsageError(f'The fault "{word}" has no share: write it as {name}=0.05.') from None
    return shares


def read_script(path: Path, known: Mapping[str, str] = FAULTS) -> list[dict[str, Any]]:
    """The lines of a script file (JSON lines), parsed. UsageError if it cannot be read, or with the number of the
    first ill-formed line, also one with a fault that is not in `known`.
    """
    try:
        written = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"The script {path} cannot be read: it must be a text file of JSON lines.") from None
    lines = []
    for number, line in enumerate(written, 1):
        try:
            lines.append(json.loads(line))
        except ValueError:
            lines.append(None)
        _checked_line(number, lines[-1], known)
    return lines


def _checked_line(number: int, line: Any, known: Mapping[str, str]) -> dict[str, Any]:
    """The line, if it is a valid line of a script; else UsageError with its `number`."""
    if not isinstance(line, dict) or line.keys() - {"fault", "seconds", "retry_after", "path"}:
        raise UsageError(
            f'Line {number} of the script is no line of a script: {{}} or {{"fault": "500"}}, with seconds, '
            "retry_after and path where wanted."
        )
    if str(line.get("fault", "500")) not in known:
        raise UsageError(f"Line {number} of the script names no fault: there are {', '.join(known)}.")
    for name in ("seconds", "retry_after"):
        if type(line.get(name, 0)) not in (int, float) or line.get(name, 0) < 0:
            raise UsageError(f"Line {number} of the script: {name} must be a number of seconds.")
    return line
