"""Why a rewritten answer is not taken, whatever a scorer says of it: it lost the answer or its references.

It rains in March (Passage 1).  ->  I'm sorry, but I can't help with that.       declines
                                ->  It rains.                                    drops a reference
                                ->  It rains in March (Passage 1), or (Passage 9).   cites a passage it was not shown
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from longform.llm.read.degenerate import degenerate
from longform.llm.read.refusals import refusal_in
from longform.llm.read.replies import cited_passages
from tasks.text.audits.equality import equal_texts
from tasks.text.audits.language import other_language
from tasks.text.audits.wrapping import wrapped
from tasks.text.prose import COMMON, words

UNCHANGED = "unchanged"
UNCITED = "cites no passage"
AUDITED = ("declines", "degenerate", "in another language", "wrapped")  # what an audit finds in a published answer, too
MOST_TIMES = 4  # how many times as long as before an answer may become, beside what it was shown
QUOTED = 0.5  # share of a passage's words that must stand in its page


_TO_A_MODEL = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.!?\n]{0,40}\b(?:instructions?|prompts?|rules|guidelines)\b"
    r"|\b(?:dear|attention|hey|note to)\b[^.!?\n]{0,20}\b(?:assistants?|ai|llms?|chatbots?|language models?)\b"
    r"|\byou are (?:now )?(?:an? )?(?:ai|llm|chatbot|language model)\b|\bsystem prompt\b",
    re.IGNORECASE,
)


def speaks_to_a_model(passage: str) -> bool:
    """Whether a passage gives orders to a model that reads it. Only common phrases are known; what else a page may say
    is fenced in prompts, and an update that follows it and loses the answer is not kept.
    """
    return _TO_A_MODEL.search(passage) is not None


def unfit_text(question: str, text: str, passages: Sequence[str]) -> str | None:
    """Why a text is no answer to the question from these passages, numbered from 1; None if it may be one."""
    if not text.strip():
        return "empty"
    if refusal_in(text):
        return "declines"
    if degenerate(text):
        return "degenerate"
    if equal_texts(text, question) or any(equal_texts(text, passage) for passage in passages):
        return "copies its prompt"
    if other_language(question, text):
        return "in another language"
    if wrapped(text):
        return "wrapped"
    if any(not 1 <= number <= len(passages) for number in cited_passages(text)):
        return "cites a passage it was not shown"
    return None


def unfit_revision(
    question: str, before: str, text: str, passages: Sequence[str], *, keeps: float, references: bool = True
) -> str | None:
    """Why `text` may not take the place of the answer `before`; None if it may. `passages`: those shown, numbered from
    1. `keeps`: the least share of the words of `before`, very common ones aside, that must stand; `references`: all
    passages that `before` cites must be cited, and at least one of `passages`, else only some.
    """
    if why := unfit_text(question, text, passages):
        return why
    if equal_texts(before, text):
        return UNCHANGED
    cited, kept = set(cited_passages(before)), set(cited_passages(text))
    if cited and not (cited <= kept if references else kept):
        return "drops a reference"
    if kept_share(before, text) < keeps:
        return "loses what the answer said"
    longest = MOST_TIMES * (len(before) + sum(map(len, passages)))
    if len(text) > longest:
        return "longer than what it was made from"
    return UNCITED if references and passages and not kept else None


def kept_share(before: str, text: str) -> float:
    """The share of the words of a text, very common ones aside, that another has; 1 if it has no such word."""
    wanted = words(before) - COMMON
    return len(wanted & words(text)) / len(wanted) if wanted else 1.0


def stands_in(passage: str, page: str) -> bool:
    """Whether most words of a passage, very common ones aside, are words of the page that it is to be from."""
    return bool(words(passage) - COMMON) and kept_share(passage, page) >= QUOTED
