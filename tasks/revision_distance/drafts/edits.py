"""The request for the edits of one draft, and the edits in its reply.

This module imports no stage, so that `longform revise` starts without what stages need.
"""

from __future__ import annotations

from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Request
from schemas.replies import ProposedEdit, RevisionEdits

REQUEST_CHARACTERS = 20_000
LEAST_TOKENS, MOST_TOKENS = 4_096, 16_384
OFFLINE_TOKENS, OFFLINE_TOKENS_A_CHARACTER = 8_192, 128


def edit_request(
    draft: str, reference: str | None, request: str, model: Endpoint, to_reference: Prompt, freely: Prompt
) -> Request:
    """The request for a draft's edits: by the prompt `to_reference`, or by `freely` if there is no reference.

    Draft and reference are never cut (see `editing.too_long`); `request`, which only `freely` shows, is.
    """
    tokens = edit_tokens(len(draft) + len(reference or ""), model)
    if reference is None:
        asked = request[:REQUEST_CHARACTERS]
        return freely.request(model, max_tokens=tokens, reply=RevisionEdits, request=asked, draft=draft)
    return to_reference.request(model, max_tokens=tokens, reply=RevisionEdits, draft=draft, reference=reference)


def edits_of(answer: Answer) -> list[ProposedEdit]:
    """All edits of a reply in the editor's order, also those that change nothing or cannot be placed."""
    return list(answer.value.edits)


def edit_tokens(characters: int, model: Endpoint) -> int:
    """The token limit of a reply, from the number of characters of draft and reference, which edits may quote.

    One token for two characters, from LEAST_TOKENS to MOST_TOKENS (a reply that is cut off is requested again with
    twice the limit). The offline model, whose tokens are free, gets more than any list of edits needs.
    """
    if model.offline:
        return max(OFFLINE_TOKENS, OFFLINE_TOKENS_A_CHARACTER * characters)
    return min(max(LEAST_TOKENS, characters // 2), MOST_TOKENS)
