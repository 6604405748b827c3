"""What a stage gets for a reply of a model, as the client judges it, without a server."""

from __future__ import annotations

from longform.llm.ask.types import Answer, Failure, Request
from longform.llm.client import PendingRequest, judge
from longform.llm.offline import ENDPOINT
from longform.llm.send.bodies import Completion


def replied(request: Request, text: str, key: str) -> Answer | Failure:
    completion = Completion("stop", "served", None, (1, 0, 1), 0, text, "", None)
    result = judge(PendingRequest(request, 0, "", key), completion, ENDPOINT, cached=False)
    assert not isinstance(result, str)
    return result
