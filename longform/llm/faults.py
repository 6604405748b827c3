"""What an endpoint's refusal means: ask again, never ask this again, or stop asking anything.

again   429, 408, 409, 425, 5xx, lost connection, time-out
never   413, and 400 or 422 about this very request: too long, or refused by a filter
stop    key (401, 403), money (402, 429 with insufficient_quota), unknown model or path (404), a parameter that
        the endpoint does not take (400), anything else
unsure  400 or 422 without a word on what is wrong: never, unless the first requests all end so
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from longform.llm.completion import read_json

AGAIN = frozenset({0, 408, 409, 425, 429})
QUOTA = re.compile(r"insufficient_quota|billing|quota_exceeded|insufficient_credit", re.IGNORECASE)
FILTER = re.compile(r"content_filter|content_policy|safety", re.IGNORECASE)
SETTING = re.compile(r"(?:unsupported|unknown|invalid)_(?:parameter|value|model)|model_not_found", re.IGNORECASE)
TOO_LONG = re.compile(
    r"context_length|string_above_max_length|context length|maximum context|too long|too many tokens|"
    r"exceeds? the (?:model|context|maximum)",
    re.IGNORECASE,
)
SHORTEST_KEY = 8
SECRET = re.compile(r"(?:sk-|Bearer )[\w.-]{8,200}")


class Fault(NamedTuple):
    """`kind` is what to tell of a request that gets no answer; `message` is free of keys."""

    then: Literal["again", "never", "stop", "unsure"]
    kind: Literal["request", "filter"]
    message: str


def fault_of(status: int, body: bytes, key: str | None) -> Fault:
    """`status` is 0 where no answer came; then `body` says why."""
    code, parameter, message = _told(body)
    kind: Literal["request", "filter"] = "filter" if FILTER.search(code) else "request"
    told = scrub(f"{status} {code} {message}".replace("  ", " ") if status else message, key)
    return Fault(_then(status, code, parameter, message), kind, told)


def scrub(text: str, key: str | None) -> str:
    """At most 300 characters on one line, without the key or what looks like one."""
    return SECRET.sub("[key]", " ".join(without(key, text).split()))[:300].strip()


def without(key: str | None, text: str) -> str:
    """What a local server takes as a key ("none", "EMPTY") is an ordinary word, and stays."""
    return text.replace(key, "[key]") if key and len(key) >= SHORTEST_KEY else text


def _then(status: int, code: str, parameter: str, message: str) -> Literal["again", "never", "stop", "unsure"]:
    if status in AGAIN or status >= 500:
        return "stop" if status == 429 and QUOTA.search(code) else "again"
    if status == 413:
        return "never"
    if status not in (400, 422):
        return "stop"
    if FILTER.search(code) or TOO_LONG.search(code) or TOO_LONG.search(message[:1000]):
        return "never"
    about_settings = parameter and not parameter.startswith(("messages", "input"))
    return "stop" if about_settings or SETTING.search(code) or QUOTA.search(code) else "unsure"


def _told(body: bytes) -> tuple[str, str, str]:
    """(code and type, parameter, message) of an error body, in any of the forms that servers use."""
    document = read_json(body)
    error = document.get("error") or document
    if not isinstance(error, dict):
        return "", "", str(error)
    code = " ".join(str(error[name]) for name in ("code", "type") if isinstance(error.get(name), str))
    parameter = error.get("param")
    message = error.get("message") or error.get("detail") or body[:1000].decode("utf-8", "replace")
    return code, parameter if isinstance(parameter, str) else "", _plain(message)


def _plain(message: Any) -> str:
    return message if isinstance(message, str) else repr(message)
