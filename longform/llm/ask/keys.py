"""The key of a request in the response store: the sha256 of what goes on the wire, in a canonical form.

    sha256([version, endpoint name, path, body as sent, sample, attempt])

Fields that do not change the reply are left out by name, so that a field nobody thought of counts. Only the top
level is sorted: the order inside (of messages, of a JSON schema's properties) is part of what the model reads.
The address and the key of an endpoint are no part of it.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

KEY_VERSION = 1

LEFT_OUT = frozenset(
    {
        "metadata",
        "user",
        "safety_identifier",
        "store",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "stream",
        "stream_options",
    }
)

_encode = json.JSONEncoder(separators=(",", ":")).encode
_name = lru_cache(maxsize=256)(_encode)


class Encoded(dict[str, Any]):
    """A part of many bodies that never changes, such as a schema: its JSON is made once."""

    __slots__ = ("json",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.json = _encode(value)


def canonical(body: Mapping[str, Any]) -> str:
    """The JSON of a request's body as far as it changes the reply: what is hashed, and what is stored of it."""
    pieces = (
        f"{_name(name)}:{value.json if type(value) is Encoded else _encode(value)}"
        for name, value in sorted(body.items())
        if name not in LEFT_OUT
    )
    return "{" + ",".join(pieces) + "}"


def key_of(endpoint: str, path: str, sent: str, *, sample: int = 0, attempt: int = 0) -> str:
    """64 hex digits, of a body in its canonical form.

    `sample` tells apart wanted repetitions, `attempt` a repeated question after a bad reply.
    """
    document = f"[{KEY_VERSION},{_name(endpoint)},{_name(path)},{sent},{sample},{attempt}]"
    return hashlib.sha256(document.encode()).hexdigest()
