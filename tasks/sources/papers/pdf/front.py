"""Title and authors of a paper, from the lines above its abstract: "Waleed Ammar, Dirk Groeneveld and Iz Beltagy".

Names count only if they are certain: lines of nothing but names directly below the title, before addresses begin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from tasks.sources.papers.pdf.layout import Body, Line
from tasks.text.headings import plain

MAX_AUTHORS = 200
TITLE_LARGER = 0.8

_MARKS = re.compile(r"(?:[\d*†‡§¶∗⋆♣♦♥♠♯⋄¹²³⁴⁵⁶⁷⁸⁹⁰ᵃᵇᶜᵈᵉᶠᵍʰ#^]|(?<=[\s,\d])[a-h](?=[\s,]|$))+")
_BETWEEN = re.compile(r"\s*(?:,|;|·|•|\||&|\s{3,}|(?:(?<=\s)|^)(?:and|AND|und|et)(?=\s|$))\s*")
_PART = r"(?:[A-ZÀ-ÞŁŚŽČŠ](?:[\w’'`-]*[^\W\d_]|\.(?:[A-Z]\.)*)(?:-[A-Z]\.)?"
_PART += r"|(?:van|von|de|der|den|del|della|da|di|dos|la|le|ten|ter|el|bin|al))"
_NAME = re.compile(rf"(?:{_PART}|[A-Z]) (?:(?:{_PART}|[A-Z]) ){{0,3}}[A-ZÀ-ÞŁŚŽČŠ][\w’'-]*[^\W\d_]")
_PLACE = re.compile(
    r"universit|institut|department|dept|school|college|laborator|\blabs?\b|research|centre|center|faculty|academy|inc\b"
    r"|corp|gmbh|ltd|google|microsoft|facebook|amazon|allen|deepmind|hospital|clinic|foundation|@|http|\bUSA\b|germany|china"
    r"|canada|france|technolog|sciences?\b|group|team|division|november|january|february|march|april|may \d|june|july"
    r"|august|september|october|december|version|journal|conference|proceedings|association|street|avenue|associates"
    r"|\b(?:society|report|documentation|manual|guide|packages?|project|press|committee|consortium|office|company"
    r"|agency|council|ministry|preprint|draft|thesis|tex)\b",
    re.IGNORECASE,
)


def title_of(lines: Sequence[Line], body: Body) -> tuple[str, list[Line]]:
    """(title, the lines below it): the first run of lines in the largest font size; ("", []) if that is not at least
    TITLE_LARGER points above the body's, is unreadable, or is the word Contents.
    """
    largest = max((line.size for line in lines), default=0.0)
    if largest < body.size + TITLE_LARGER:
        return "", []
    start = next(n for n, line in enumerate(lines) if line.size >= largest - 0.1)
    run = [lines[start]]
    for line in lines[start + 1 :]:
        if line.size < largest - 0.1 and not _small_capitals(run[-1], line, largest):
            break
        run.append(line)
    if any(line.unreadable for line in run) or plain(run[0].text) in ("contents", "table of contents"):
        return "", []
    return body.joined(run), list(lines[start + len(run) :])


def _small_capitals(before: Line, line: Line, largest: float) -> bool:
    """Whether a line goes on with the title in small capitals: its first letter may be one, so it looks smaller."""
    alike = before.text.isupper() and line.text.isupper() and line.font == before.font and line.size > 0.7 * largest
    return alike and 0 < before.last_top - line.top < 1.6 * largest


def authors_of(lines: Sequence[Line], body: Body) -> list[str]:
    """The names in the lines below the title, in order; empty if they are not certain: if the first line is not all
    names, or a line of its size below the names has further ones, or a name is there twice.
    """
    if not lines or not _names(lines[0].text):
        return []
    texts = [line.text for line in lines if abs(line.size - lines[0].size) < 0.1 and not _PLACE.search(line.text)]
    sure = list(takewhile(bool, map(_names, texts)))
    rest = texts[len(sure) :]
    if any(map(_names, rest)) or any(map(_is_name, _parts(rest[0]) if rest else ())):
        return []
    found = [" ".join(name.split()) for names in sure for name in names]
    return found if len(set(found)) == len(found) <= MAX_AUTHORS else []


def _names(text: str) -> list[str]:
    """The names that a line consists of; empty if anything else is in it."""
    if _PLACE.search(text):
        return []
    names = _parts(text)
    return names if all(_is_name(name) for name in names) else []


def _parts(text: str) -> list[str]:
    """What stands between marks, commas and "and" in a line."""
    parts = [part for piece in _MARKS.split(f"{text} ") for part in _BETWEEN.split(piece.strip())]
    return [part.strip(" .,") if not part.endswith("Jr.") else part for part in parts if part.strip(" .,")]


def _is_name(text: str) -> bool:
    """Whether a text is one name; not if it may be two side by side: four words or more in full."""
    words = [word for word in text.split() if len(word.rstrip(".")) > 1 and word[0].isupper()]
    return _NAME.fullmatch(text) is not None and len(words) < 4
