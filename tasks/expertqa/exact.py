"""JSON that is kept exactly: what is read and written again is an equal document, its keys in their order.

Whole numbers of any size stay whole, `1.0` stays a fraction, NaN and Infinity (which Python's writers leave in such
files) stay as they are. Refused is what could not come back, or would not fit in UTF-8: a key that comes twice in one
object, half a surrogate pair, numbers of more than 4,300 digits, and nesting that other readers would not follow.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

MOST_LEVELS = 100

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class IllFormed(ValueError):
    """No JSON document that could be kept: `str` says why."""


def read_exact(text: str | bytes) -> Any:
    """The document; IllFormed where it is none, or none that can be kept."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        document = json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise IllFormed(f"no UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise IllFormed(f"nested deeper than {MOST_LEVELS} levels") from None
    except ValueError as error:
        raise IllFormed(str(error)) from None
    if text.count("[") + text.count("{") > MOST_LEVELS and _levels(document) > MOST_LEVELS:
        raise IllFormed(f"nested deeper than {MOST_LEVELS} levels")
    if _SURROGATE.search(text) and not _encodable(document):
        raise IllFormed("holds half a surrogate pair")
    return document


def write_exact(document: Any) -> str:
    """In one line, read back as an equal document."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise IllFormed(f'the key "{twice[:80]}" comes twice')
    return held


def _levels(document: Any) -> int:
    """How deep objects and lists are nested."""
    levels, open_ = 0, [document]
    while open_ := [one for one in open_ if isinstance(one, dict | list)]:
        levels += 1
        open_ = [inner for one in open_ for inner in (one.values() if isinstance(one, dict) else one)]
    return levels


def _encodable(document: Any) -> bool:
    try:
        write_exact(document).encode()
    except UnicodeEncodeError:
        return False
    return True
