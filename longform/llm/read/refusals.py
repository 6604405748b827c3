"""Refusals: the words by which a model declines to answer.

    I'm sorry, but I can't help with that.                                    i'm sorry, but i can't help
    I can't see your photo, but brown spots on basil mean too much water.     None: it answers
    "I can't help with that," the clerk said.                                 None: it quotes

A refusal begins the reply, after an apology at most, and no answer follows it. The phrases of each language are in
refusals.toml, whose head explains their grammar. An abstention ("The passages do not say") is no refusal.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from longform.llm.read.replies import without_thought

DECLINES = "the reply declines to answer"
HEAD_CHARACTERS = 400
FIRST_CHARACTERS = 40  # an alphabet other than the Latin one shows in them
LONGEST_REST = 600  # characters after the words that decline; a longer reply goes on to answer
LONGEST_REST_UNSPACED = 240
LONGEST_JSON = 8_000
LONGEST_HEADING = 80

_FILE = Path(__file__).with_name("refusals.toml")
_UNSPACED = ("zh", "ja", "ko")
_NOT_LATIN = ("ru", "uk", "ar", "hi", *_UNSPACED)
_HEADING = re.compile(
    r"\s*(?:#{1,6} [^\n]{0,60}\n|[*_]{0,2}(?:response|answer|reply|assistant)[*_]{0,2}[:\n])\s*", re.IGNORECASE
)
_PREAMBLE = re.compile(
    r"\s*(?:sure|certainly|of course|absolutely|okay|ok|here(?: is| are|'s|’s)|natürlich|gerne?|hier (?:ist|sind)"
    r"|bien sûr|voici|claro|por supuesto|aquí (?:está|tienes|tiene)|certo|ecco)\b[^\n]{0,120}[:：]\s*\n\s*(?=\w)"
    r"|\s*(?:当然|好的|以下是)[^\n]{0,80}[:：]\s*(?=\w)",
    re.IGNORECASE,
)
_BARE = re.compile(r"[^\w>(\[{<•-]*")
_OPENING, _CLOSING = "\"'“„«»「『‘", "\"'”“«»」』’"
_TAIL = " \t\r\n=*_.。!"
_SENTENCE_END = re.compile(r"[.!?。！？।\n]")
_NAME = re.compile("[A-Z]{2,}")
_QUOTE_SIGNS = (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'))


class _Patterns(NamedTuple):
    """What declines at the beginning of a reply: of all languages, and (`latin`) of those that a text in ASCII may
    be in. By language: what makes its sentence decline nothing (`unless`), what an answer may follow (`but`), and what
    follows that if none does (`offers`).
    """

    declines: re.Pattern[str]
    latin: re.Pattern[str]
    unless: dict[str, re.Pattern[str]]
    but: dict[str, re.Pattern[str]]
    offers: dict[str, re.Pattern[str]]


def refusal_in(text: str) -> str | None:
    """The words by which a reply declines to answer, in lower case; None if it answers, abstains or is empty.

    Looked for are they at the beginning of the reply, behind its thought, a heading, a preamble ("Sure! Here is my
    answer:"), and quotes, a fence or JSON around the whole.
    """
    body = _bare(text)
    head = _folded(body[:HEAD_CHARACTERS])
    patterns = _patterns()
    found = (patterns.latin if head[:FIRST_CHARACTERS].isascii() else patterns.declines).match(head)
    if found is None or found.lastgroup is None or _answers(head, found, len(body)):
        return None
    return found[0].strip()


def _bare(text: str) -> str:
    """The reply from its first word on: without thought, heading, preamble, emphasis, and what is around the whole. ""
    if it begins with a quotation that is not the whole reply, which declines nothing.
    """
    if "</think>" in text:
        text = without_thought(text)
    first = text[:HEAD_CHARACTERS]
    if "\n" in first or ":" in first or "：" in first:
        if heading := _HEADING.match(text, 0, LONGEST_HEADING):
            text = text[heading.end() :]
        if preamble := _PREAMBLE.match(text):
            text = text[preamble.end() :]
    if text[:1].isalpha():
        return text
    body = text.lstrip()
    if body.startswith("{"):
        return _longest_string(body)
    if body.startswith("```"):
        body = body.partition("\n")[2]
        return body.rstrip(_TAIL).removesuffix("```") if body.rstrip(_TAIL).endswith("```") else ""
    begin = _BARE.match(body)
    assert begin is not None
    if any(sign in _OPENING for sign in begin[0]) and body.rstrip(_TAIL)[-1:] not in _CLOSING:
        return ""
    return body[begin.end() :]


def _longest_string(body: str) -> str:
    """The longest text in a JSON object; "" if the text is none, or a longer one than a refusal needs."""
    try:
        value: Any = json.loads(body) if len(body) <= LONGEST_JSON else None
    except (ValueError, RecursionError):
        return ""
    texts = [each for each in value.values() if isinstance(each, str)] if isinstance(value, dict) else []
    return max(texts, key=len, default="")


def _folded(head: str) -> str:
    """The text in lower case, with straight quotes and single blanks instead of white space on one line, in NFKC."""
    if not head.isascii():
        for sign, plain in _QUOTE_SIGNS:
            head = head.replace(sign, plain)
        if not unicodedata.is_normalized("NFKC", head):
            head = unicodedata.normalize("NFKC", head)
    return head.casefold()


def _answers(head: str, found: re.Match[str], length: int) -> bool:
    """Whether an answer follows the words that decline: much text, code, or "but …" that is no offer; or their sentence
    says why the answer is short of something. `length`: characters of the reply.
    """
    language, end = str(found.lastgroup), found.end()
    longest = LONGEST_REST_UNSPACED if language in _UNSPACED else LONGEST_REST
    if length - end > longest or "```" in head[end:]:
        return True
    patterns = _patterns()
    stop = _SENTENCE_END.search(head, end)
    if patterns.unless[language].search(head, found.start(language), stop.start() if stop else len(head)):
        return True
    turns = patterns.but[language].finditer(head, end)
    return any(not patterns.offers[language].match(head, turn.end()) for turn in turns)


# the file


@cache
def _patterns() -> _Patterns:
    """The patterns of refusals.toml, read and compiled once (some 50 ms)."""
    tables = tomllib.loads(_folded_names(_FILE.read_text("utf-8")))
    lists = {language: {name: _lines(lines) for name, lines in table.items()} for language, table in tables.items()}
    return _Patterns(
        _declining(lists),
        _declining({language: own for language, own in lists.items() if language not in _NOT_LATIN}),
        *(
            {language: re.compile(_joined(language, name, lists)) for language in lists}
            for name in ("unless", "but", "offers")
        ),
    )


def _declining(lists: dict[str, dict[str, list[str]]]) -> re.Pattern[str]:
    """The pattern of words that decline, after at most five of `sorry`. The group that matched has its language's
    name.
    """
    sorry = "|".join(
        _joined(language, "sorry", lists) + ("" if language in _UNSPACED else r"(?!\w)") for language in lists
    )
    declines = "|".join(f"(?P<{language}>{_joined(language, 'declines', lists)})" for language in lists)
    return re.compile(rf"(?:(?:{sorry})\W{{0,4}}){{0,5}}(?:{declines})")


def _folded_names(text: str) -> str:
    """The file in NFKC, as the texts that are compared with it."""
    return unicodedata.normalize("NFKC", text)


def _lines(text: str) -> list[str]:
    """The lines of a list, without blank ones."""
    return [line for line in text.splitlines() if line.strip()]


def _joined(language: str, name: str, lists: dict[str, dict[str, list[str]]]) -> str:
    """One regular expression for the lines of a list. Where words are written apart, each begins and ends with one."""
    own = lists[language]
    either = "|".join(f"(?:{_expression(line, own)})" for line in own[name])
    return f"(?:{either})" if language in _UNSPACED or name not in ("unless", "but") else rf"(?<!\w)(?:{either})"


def _expression(line: str, lists: dict[str, list[str]]) -> str:
    """The regular expression of one line, with the names of other lists and the signs ~ and … written out."""
    whole = _NAME.sub(lambda name: "(?:" + "|".join(lists[name[0].lower()]) + ")", line)
    whole = _NAME.sub(lambda name: "(?:" + "|".join(lists[name[0].lower()]) + ")", whole)
    return whole.replace("~", r"(?:\S{1,40} ){0,3}?").replace("...", r"[^.!?。！？।\n]{0,80}?")
