"""Pages that were answered as if they were there, but hold a notice in place of a text: not found, a cookie wall, a
paywall, a check for bots. What they say is in walls.toml.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

LONGEST = 1_500  # characters of a text that may be no more than a notice
LEAST_SHARE = 0.5
_PHRASES = Path(__file__).with_name("walls.toml")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]*")


class Wall(NamedTuple):
    """What a page is instead of a text. `kind`: page not found, cookie wall, paywall or bot check; `phrase`: by which
    it is known.
    """

    kind: str
    phrase: str


def wall_of(title: str | None, text: str) -> Wall | None:
    """The wall that a page is; None for one with a text of its own.

    Only a text of at most LONGEST characters can be one, of which sentences that speak of the wall make up LEAST_SHARE
    or more, so that an article which merely mentions cookies or a subscription stays.
    """
    if len(text) > LONGEST:
        return None
    said, name = _plain(text), _plain(title or "")
    for kind, (tells, says) in _walls().items():
        known = tells.search(said) or tells.search(name)
        if known and _share(said, tells, says, name) >= LEAST_SHARE:
            return Wall(kind, known[0])
    return None


def _share(text: str, tells: re.Pattern[str], says: re.Pattern[str], title: str) -> float:
    """The share (0 to 1) of the text's characters that are in sentences with a phrase, or that repeat the title."""
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(text)]
    length = sum(map(len, sentences))
    found = [each for each in sentences if tells.search(each) or says.search(each) or (title and each in title)]
    return sum(map(len, found)) / length if length else 0.0


def _plain(text: str) -> str:
    """The text in lower case, with straight apostrophes and single blanks; its lines stay apart."""
    lines = (" ".join(line.split()) for line in text.replace("’", "'").casefold().splitlines())
    return "\n".join(filter(None, lines))


@cache
def _walls() -> dict[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    """kind -> (phrases that tell it, phrases that it says, too)."""
    kinds: dict[str, dict[str, list[str]]] = tomllib.loads(_PHRASES.read_text(encoding="utf-8"))
    return {kind: (_pattern(of["tells"]), _pattern(of["says"])) for kind, of in kinds.items()}


def _pattern(phrases: list[str]) -> re.Pattern[str]:
    """A pattern of any of these phrases; between letters of Latin or Cyrillic script a phrase is no part of a word."""
    return re.compile("|".join(_whole(phrase.casefold()) for phrase in phrases))


def _whole(phrase: str) -> str:
    ends = (r"(?<!\w)" if phrase[0] < "\u2e80" else "", r"(?!\w)" if phrase[-1] < "\u2e80" else "")
    return f"{ends[0]}{re.escape(phrase)}{ends[1]}"
