"""What an endpoint's refusal means: ask again, never ask this again, or stop asking anything.

again   429, 408, 409, 425, 5xx, lost connection, time-out
never   too long (413, or 400, 403, 422, 429, 500 that say so), or held back by a filter
stop    key (401, 403), money (402, or a code or words for it), unknown model or path (404), a parameter that the
        endpoint does not take (400, 422), anything else
unsure  400 or 422 without a word on what is wrong: never, unless the first requests all end so

Servers agree on little: {"error": {...}}, {"error": "..."}, {"object": "error", ...}, {"detail": [...]}, a list of
these, plain text, a proxy's HTML page, and any of them with status 200. Codes are believed before words, and of the
words only the first, because some servers repeat the question after them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple

from longform.llm.completion import read_json
from longform.llm.types import Endpoint

AGAIN = frozenset({0, 408, 409, 425, 429, 498, 499})
NEVER_THERE = frozenset({501, 505})
REFUSED = frozenset({400, 403, 422, 429, 451, 500})
SAID_CHARACTERS = 400
PAGE_CHARACTERS = 4_000
SHORTEST_KEY = 8
SECRET = re.compile(r"(?:sk-|Bearer )[\w.-]{8,200}")
TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


QUOTA = _any(
    r"insufficient_?(?:quota|credit|balance|fund)",
    r"billing|payment_required|arrear|budget_?exceeded|exceeded_?(?:current_?quota|budget)|quota_exceeded",
)
QUOTA_SAID = _any(
    r"insufficient (?:balance|credit|fund)|credit balance is too low|budget has been exceeded|over budget",
    r"exceededbudget|crossed budget|billing (?:hard )?limit|check your billing|spending limit",
)
FILTER = _any(r"content_?(?:filter|policy)|policy_?violation|responsibleai|safety|moderation|flagged|guardrail")
FILTER |= 0 if False else FILTER
