"""The key of a request in the response store: the SHA-256 of what is sent, in a canonical form.

    sha256([version, endpoint name, path, body as sent, sample, attempt])

The fields that do not change the reply are listed by name and left out, so that an unknown field counts. Only the top
level is sorted: the order inside (of messages, of a JSON schema's properties) is part of what the model reads. The
address and the API key of an endpoint are no part of the key.
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

SENT = LEFT_OUT - {"stream", "stream_options"}  # where an endpoint's parameters have them

_encode = json.JSONEncoder(separators=(",", ":")).encode
_name = lru_cache(maxsize=256)(_encode)


class Encoded(dict[str, Any]):
    """A dict that is part of many request bodies and never changes, such as a JSON schema. Its JSON text, `json`, is
    made only once.
    """

    __slots__ = ("json",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.json = _encode(value)


def canonical(body: Mapping[str, Any]) -> str:
    """The JSON text of a request's body, its top-level fields sorted, without the fields that do not change the reply
    (LEFT_OUT). The key is made of it, and it is stored with the reply.
    """
    pieces = (
        f"{_name(name)}:{value.json if type(value) is Encoded else _encode(value)}"
        for name, value in sorted(body.items())
        if name not in LEFT_OUT
    )
    return "{" + ",".join(pieces) + "}"


def key_of(endpoint: str, path: str, sent: str, *, sample: int = 0, attempt: int = 0) -> str:
    """The key of a request in the response store, 64 hex digits. `endpoint` is the endpoint's name, `path` the URL
    path of the API, `sent` the body as `canonical` gives it.

    `sample` numbers the answers, from 0, where several to one request are wanted; `attempt` is above 0 if the question
    is repeated after a reply of no use.
    """
    document = f"[{KEY_VERSION},{_name(endpoint)},{_name(path)},{sent},{sample},{attempt}]"
    return hashlib.sha256(document.encode()).hexdigest()
