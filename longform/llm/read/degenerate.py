"""Degenerate replies: texts that say nothing, whatever was asked.

Yes.                                          one word
It depends on the case. It depends on the …   the same words over and over
getting never of the matrix however of the …  words in no order
<<<text 5f0c1d2e3a4b …                        a text of the prompt
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from longform.llm.ask.fence import marks
from longform.llm.ask.types import Request
from longform.llm.read.salad import is_salad, may_be_salad, may_quote

ONE_WORD = "one word"
LOOP = "the same words over and over"
SALAD = "words in no order"
COPY = "a text of the prompt"

LAST_CHARACTERS = 4_000
LAST_WORDS = 200  # a reply that got stuck goes on so to its end
LEAST_WORDS = 40
WORDS_APART = 3
MOST_REPEATED = 0.6  # share of the WORDS_APART-grams of these words that occurred before, from which they are a loop
LEAST_UNSPACED = 6  # signs of a script without blanks that are more than a word
LINE_CHARACTERS = 80
PROBE = slice(-40, -24)  # characters before the end of a text that a loop has again and again
PROBE_TIMES = 3

_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_NOT_PROSE = re.compile(
    r"^(?:\s*>| {4}|\t|\s*\|)[^\n]*$|^ {0,3}(```|~~~)[^\n]*\n.*?(?:^ {0,3}\1|\Z)|^\W{0,4}\d+[.):]",
    re.MULTILINE | re.DOTALL,
)


def flaw_of(request: Request, value: Any) -> str | None:
    """Why a reply is degenerate, as of `degenerate`; None if it is not, if it abstains and the method counts that, or
    if its words are in no order as those of its prompt are. `value`: as of an Answer.
    """
    if request.abstains is not None and request.abstains(value):
        return None
    prompts = [] if request.copies else [content for _, content in request.messages]
    for text in texts_of(value):
        what = degenerate(text, *prompts)
        if what and not (what == SALAD and any(may_quote(text, content) for _, content in request.messages)):
            return what
    return None


def texts_of(value: Any) -> list[str]:
    """The texts of a reply, as it is in `Answer.value`: itself, or the fields of any text in the model it was read
    into, which verdicts and lists are not.
    """
    if isinstance(value, str):
        return [value]
    return [getattr(value, name) for name in _names_of_texts(value.__class__)]


@cache
def _names_of_texts(kind: type) -> tuple[str, ...]:
    """The names of the fields of a model that hold any text; none of another type."""
    fields = getattr(kind, "model_fields", {})
    return tuple(name for name, field in fields.items() if field.annotation is str)


def degenerate(text: str, *prompts: str) -> str | None:
    """Why a text says nothing: ONE_WORD, LOOP, SALAD, or COPY if one of `prompts`, the messages it replies to, has it
    word for word; else None. An empty text is none of these. Code, quotations and tables may repeat themselves.
    """
    if len(text.split(None, 2)) == 1 and len(_UNSPACED.findall(text)) < LEAST_UNSPACED:
        return ONE_WORD
    if prompts and _is_copy(text, prompts):
        return COPY
    if _is_loop(text):
        return LOOP
    return SALAD if may_be_salad(text) and is_salad(_NOT_PROSE.sub(" ", text)) else None


def _is_copy(text: str, prompts: tuple[str, ...]) -> bool:
    """Whether a prompt has the text word for word, or the text has one of its fences."""
    if "<<<text" in text and any(marks(text) & marks(prompt) for prompt in prompts):
        return True
    first_line = text.strip().partition("\n")[0][:LINE_CHARACTERS].strip()
    near = [prompt for prompt in prompts if first_line in prompt]
    return bool(near) and any(" ".join(text.split()) in " ".join(prompt.split()) for prompt in near)


def _is_loop(text: str) -> bool:
    """Whether most of the last words of a text repeat others among them."""
    tail = text.rstrip()[-LAST_CHARACTERS:]
    if len(tail) < LEAST_WORDS or tail.count(tail[PROBE]) < PROBE_TIMES:
        return False
    words = _WORD.findall(_NOT_PROSE.sub(" ", tail).casefold())[-LAST_WORDS:]
    if len(words) < LEAST_WORDS:
        return False
    grams = [tuple(words[at : at + WORDS_APART]) for at in range(len(words) - WORDS_APART + 1)]
    return 1 - len(set(grams)) / len(grams) >= MOST_REPEATED
