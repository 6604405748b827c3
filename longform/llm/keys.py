"""The key of a request in the response store: the sha256 of what goes on the wire, in a canonical form.

    sha256([version, endpoint name, path, body as sent, sample, attempt])

Fields that do not change the reply are left out by name, so that a field nobody thought of counts. Only the top
level is sorted: the order inside (of messages, of a JSON schema's properties) is part of what the model reads.
The address and the key of an endpoint are no part of it.
"""

import hashlib
import json
from collections.abc import Mapping
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


def request_key(endpoint: str, path: str, body: Mapping[str, Any], *, sample: int = 0, attempt: int = 0) -> str:
    """64 hex digits. `sample` tells apart wanted repetitions, `attempt` a repeated question after a bad reply."""
    sent = {name: body[name] for name in sorted(body) if name not in LEFT_OUT}
    document = json.dumps([KEY_VERSION, endpoint, path, sent, sample, attempt], separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()
