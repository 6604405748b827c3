"""What a model is asked for the edits of one draft, and what its reply says.

No stage here: `longform revise` starts without what stages need.
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
    """What the model is asked: by `to_reference` where there is a reference, else by `freely`, with the request.

    Draft and reference are never cut, whatever their length: see `editing.too_long`.
    """
    tokens = edit_tokens(len(draft) + len(reference or ""), model)
    if reference is None:
        asked = request[:REQUEST_CHARACTERS]
        return freely.request(model, max_tokens=tokens, reply=RevisionEdits, request=asked, draft=draft)
    return to_reference.request(model, max_tokens=tokens, reply=RevisionEdits, draft=draft, reference=reference)


def edits_of(answer: Answer) -> list[ProposedEdit]:
    """In the editor's order; all of them, also those that change nothing or cannot be placed."""
    return list(answer.value.edits)


def edit_tokens(characters: int, model: Endpoint) -> int:
    """The limit of a reply by the characters of draft and reference, all of which its edits may quote.

    A model gets a token for two of them, within bounds (a reply that is cut off is asked for again with twice the
    room); the offline model, whose tokens cost nothing, more than any list of edits needs.
    """
    if model.offline:
        return max(OFFLINE_TOKENS, OFFLINE_TOKENS_A_CHARACTER * characters)
    return min(max(LEAST_TOKENS, characters // 2), MOST_TOKENS)
