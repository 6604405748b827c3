"""Pages that were answered as if they were there, but hold a notice in place of a text: not found, a cookie wall, a
paywall, a form to log in, a check for bots, a page that JavaScript fills, a domain for sale. What they say is in
walls.toml.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LONGEST, BRIEF = 1_500, 120  # characters of a text that may be no more than a notice, and that hardly is more
LEAST_SHARE = 0.5
GAP = r"[^.!?。！？\n]{0,40}?"  # for `…` in a phrase
_PHRASES = Path(__file__).with_name("walls.toml")
_SENTENCE = re.compile(r"(?:[^.!?。！？…\n]|[.!?](?=\w))+[.!?。！？…\n]*")
_QUOTED = re.compile(r"[“„«][^“”„«»\n]{1,300}[”“»]|「[^「」\n]{1,300}」|『[^『』\n]{1,300}』|\"[^\"\n]{1,300}\"")
_PARTS = re.compile(r"\s[|·–—-]\s|[|·:：]")


class Wall(NamedTuple):
    """What a page is instead of a text. `kind`: one of those in walls.toml; `phrase`: by which it is known."""

    kind: str
    phrase: str


class _Kind(NamedTuple):
    tells: re.Pattern[str]
    short: re.Pattern[str]
    says: re.Pattern[str]
    brief: list[re.Pattern[str]]


def wall_of(title: str | None, text: str) -> Wall | None:
    """The wall that a page is; None for one with a text of its own.

    Only a text of at most LONGEST characters can be one, of which sentences that speak as the wall does make up
    LEAST_SHARE or more, so that an article about cookies or a subscription stays. One of at most BRIEF characters needs
    but one sentence with words that belong to the wall.
    """
    if len(text) > LONGEST:
        return None
    said, name = _plain(text), _plain(title or "")
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(said)]
    for kind, phrases in _walls().items():
        known = next(filter(None, (_told(each, phrases) for each in (*sentences, *_PARTS.split(name)))), None)
        if known and _share(sentences, phrases, name) >= LEAST_SHARE:
            return Wall(kind, known)
        if _width(said) <= BRIEF and (known := _known_in_brief(sentences, phrases.brief)):
            return Wall(kind, known)
    return None


def _known_in_brief(sentences: list[str], lists: list[re.Pattern[str]]) -> str | None:
    """The words of each list with which a sentence of a very short text tells a kind of wall; None if none has one of
    each.
    """
    for sentence in sentences:
        found = [words[0] for words in (pattern.search(sentence) for pattern in lists) if words]
        if found and len(found) == len(lists):
            return " … ".join(found)
    return None


def _told(sentence: str, kind: _Kind) -> str | None:
    """The phrase by which a sentence, or a part of a title, tells this kind of wall; None if it does not."""
    if told := kind.tells.search(sentence):
        return told[0]
    found = [match[0] for match in kind.short.finditer(sentence)]
    return found[0] if found and sum(map(_letters, found)) >= LEAST_SHARE * _letters(sentence) else None


def _width(text: str) -> int:
    """The number of characters, of which those of scripts that part no words count twice."""
    return len(text) + sum(character >= "\u2e80" for character in text)


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _share(sentences: list[str], kind: _Kind, title: str) -> float:
    """The share (0 to 1) of the characters that are in sentences of the wall, or that repeat the title."""
    found = [each for each in sentences if _told(each, kind) or kind.says.search(each) or (title and each in title)]
    return sum(map(len, found)) / max(1, sum(map(len, sentences)))


def _plain(text: str) -> str:
    """The text in lower case, with straight apostrophes and single blanks, without what is quoted; its lines stay
    apart.
    """
    lines = (" ".join(line.split()) for line in _QUOTED.sub("", text.replace("’", "'").casefold()).splitlines())
    return "\n".join(filter(None, lines))


@cache
def _walls() -> dict[str, _Kind]:
    """Kind of wall -> its phrases."""
    kinds: dict[str, dict[str, Any]] = tomllib.loads(_PHRASES.read_text(encoding="utf-8"))
    return {
        kind: _Kind(
            _pattern(of["tells"]), _pattern(of["short"]), _pattern(of["says"]), [*map(_stems, of.get("brief", []))]
        )
        for kind, of in kinds.items()
    }


def _pattern(phrases: list[str]) -> re.Pattern[str]:
    """A pattern of any of these phrases, the longest first; between letters of Latin or Cyrillic script a phrase is no
    part of a word.
    """
    return re.compile("|".join(_whole(phrase.casefold()) for phrase in sorted(phrases, key=len, reverse=True)))


def _stems(words: list[str]) -> re.Pattern[str]:
    """A pattern of the beginnings of words; of parts of a text in a script that parts no words."""
    return re.compile("|".join((r"(?<!\w)" if word[0] < "\u2e80" else "") + re.escape(word) for word in words))


def _whole(phrase: str) -> str:
    ends = (r"(?<!\w)" if phrase[0] < "\u2e80" else "", r"(?!\w)" if phrase[-1] < "\u2e80" else "")
    return ends[0] + re.escape(phrase).replace("…", GAP) + ends[1]
