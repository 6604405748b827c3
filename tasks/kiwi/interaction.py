"""What is asked in a session: the first answer, and its revisions (KIWI, 2.2 and A.1). The page asks the same.

References are numbered through a session: [0] to [4] are the passages of the first answer, those of the first
information-seeking turn go on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request

INFORMATION, STYLE = "information", "style"
RATINGS = ("good", "neutral", "bad")
MOST_TURNS = 10
REPLY_TOKENS = 2_048
SAMPLING = {"temperature": 0.7}  # of answers and revisions
BRIEF = "brief"  # subject of short replies, which may be the same for many questions


def session_id_of(question_id: str, system: str, model: str) -> str:
    """The id of the session on a question with a writer: its endpoint's name and model."""
    return f"s_{fingerprint([question_id, system, model])}"


def as_shown(passages: Iterable[Row]) -> list[Row]:
    """Rows of PASSAGES as sessions keep them (PASSAGE)."""
    return [{name: row[name] for name in ("passage_id", "title", "text")} for row in passages]


def first_answer(model: Endpoint, prompt: Prompt, question: str, passages: list[Row], **options: Any) -> Request:
    """The request for the first answer from the passages, which are documents 0, 1, …; `options`: of the request."""
    texts = [text for row in passages for text in (row["title"], row["text"])]
    return prompt.request(model, max_tokens=REPLY_TOKENS, question=question, passages=texts, **options)


def summary(
    model: Endpoint, prompt: Prompt, question: str, answer: str, instruction: str, passages: list[Row], first: int
) -> Request:
    """The request for what the passages, numbered from `first`, say of what an instruction asks for."""
    numbered = [text for n, row in enumerate(passages, first) for text in (str(n), row["title"], row["text"])]
    texts: Row = {"question": question, "answer": answer, "instruction": instruction}
    return prompt.request(model, max_tokens=REPLY_TOKENS, subject=BRIEF, passages=numbered, **texts)


def revision(
    model: Endpoint, prompts: Mapping[str, Prompt], question: str, answer: str, instruction: str, found: str | None
) -> tuple[Prompt, Request]:
    """(prompt, request) for the revised answer; `found`: the summary of an information-seeking instruction, None of a
    stylistic one. A reply that is the previous answer is one: its reader says what it is worth.
    """
    prompt = prompts["update_style" if found is None else "update_information"]
    texts: Row = {"question": question, "answer": answer, "instruction": instruction}
    texts |= {} if found is None else {"summary": found}
    return prompt, prompt.request(model, max_tokens=REPLY_TOKENS, copies=True, unchanged=_is(answer), **texts)


def _is(answer: str) -> Any:
    """Whether a reply is the answer before, word for word."""
    return lambda reply: reply.strip() == answer.strip()


def is_dropped(rating: str, edited: str | None) -> bool:
    """Whether an answer is dropped from the history: bad, and left unedited."""
    return rating == "bad" and edited is None


def current(before: str, turn: Mapping[str, Any]) -> str:
    """The answer after a turn: as edited, as the model wrote it, or the one before where that was dropped."""
    return str(before if is_dropped(turn["rating"], turn["edited"]) else turn["edited"] or turn["answer"])
