"""What stages make of a model's reply: the columns that say which model wrote a row, or the rejected row that says why
there is none.
"""

from __future__ import annotations

from longform.artifacts.rows import Rejected, Row
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure
from longform.llm.read.refusals import refusal_in
from longform.llm.read.replies import whole_reply

NO_MODEL: Row = dict.fromkeys(("response", "prompt", "prompt_hash", "endpoint", "model"))


def unanswered(key: str, answer: Failure) -> Rejected:
    """The rejected row for the input with the id `key`, for which the model gave no usable answer: a defect with the
    reason "model: " and the kind of failure.
    """
    return Rejected(key, "defect", f"model: {answer.kind}", detail=answer.message, raw=answer.detail.get("text"))


def usable(key: str, answer: Answer) -> str | Rejected:
    """The text of a reply without its end mark and the model's thought, or a rejected row (for the input with the id
    `key`) if the reply seems cut off or is empty.
    """
    text = whole_reply(answer.text)
    if text is None:
        return Rejected(key, "defect", "the reply is cut off", raw=answer.text)
    return text if text.strip() else Rejected(key, "defect", "the reply is empty", raw=answer.text)


def refused(key: str, text: str) -> Rejected | None:
    """The rejected row for the input with the id `key`, if the text that a model wrote for it declines to answer; else
    None. For texts that the client lets pass: of a request that says `declines`, or in lists of a structured reply.
    """
    if refusal_in(text) is None:
        return None
    return Rejected(key, "defect", "model: refusal", detail="the reply declines to answer", raw=text)


def made_by(answer: Answer, model: Endpoint, prompt: Prompt) -> Row:
    """The columns that say which response, prompt, endpoint and model a row was made from."""
    return {
        "response": answer.key,
        "prompt": prompt.name,
        "prompt_hash": prompt.hash,
        "endpoint": model.name,
        "model": answer.model,
    }
