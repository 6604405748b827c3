"""Lossless JSON: a document that is read and written again is equal, with its keys in the same order.

Integers of any size stay integers, `1.0` stays a float, NaN and Infinity (which Python writes) are kept. IllFormed for
documents that could not be written again equal or in UTF-8: a key twice in one object, half a surrogate pair, numbers
of more than 4,300 digits, and more than 100 levels of nesting.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

MOST_LEVELS = 100

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class IllFormed(ValueError):
    """A text that is no JSON document, or one that cannot be kept losslessly; the message says why."""


def read_exact(text: str | bytes) -> Any:
    """The value of a JSON text, bytes as UTF-8. IllFormed if it is no JSON, or could not be written again equal: a key
    twice in one object, half a surrogate pair, numbers of over 4,300 digits, more than MOST_LEVELS levels.
    """
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
    """The value as one line of JSON without blanks between its parts, which `read_exact` reads as an equal value."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of these pairs of key and value; IllFormed if a key comes twice."""
    held = dict(pairs)
    if len(held) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise IllFormed(f'the key "{twice[:80]}" comes twice')
    return held


def _levels(document: Any) -> int:
    """The number of nested levels of objects and lists; 0 for a plain value."""
    levels, open_ = 0, [document]
    while open_ := [one for one in open_ if isinstance(one, dict | list)]:
        levels += 1
        open_ = [inner for one in open_ for inner in (one.values() if isinstance(one, dict) else one)]
    return levels


def _encodable(document: Any) -> bool:
    """Whether the document can be written as UTF-8; half a surrogate pair cannot."""
    try:
        write_exact(document).encode()
    except UnicodeEncodeError:
        return False
    return True
