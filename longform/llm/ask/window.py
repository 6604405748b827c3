"""Whether a request fits into the window of an endpoint's model: what it may read and write together, in tokens."""

from __future__ import annotations

import math

from longform.llm.ask.tokens import count
from longform.llm.ask.types import Endpoint, Request

ERROR = 0.1  # by how much the count of a prompt may be too low
TOKENS_A_MESSAGE = 4


def over_window(endpoint: Endpoint, request: Request) -> str | None:
    """By how much a request is too long for the endpoint's window, as a sentence; None if it fits, or if the endpoint
    has no `window`. The prompt's tokens are an estimate, a tenth more than they are counted, as a server that is given
    too much may cut it in silence.
    """
    if endpoint.window is None:
        return None
    counted = sum(count(content) + TOKENS_A_MESSAGE for _, content in request.messages)
    prompt = math.ceil(counted * (1 + ERROR))
    if prompt + request.max_tokens <= endpoint.window:
        return None
    return f"some {prompt:,} tokens and {request.max_tokens:,} of the reply; the window has {endpoint.window:,}"
