"""Feedback taken apart into remarks, and the criterion of each: by the name it begins with, else by shared words.

1. **One line**:                       the criterion of this name
    - The title runs over two lines.
The second paragraph says it again.    the criterion that shares most of its rarer words, if it shares enough
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tasks.text.copies.shingles import words
from tasks.text.prose import COMMON

LEAST_SHARED = 3  # rarer words that a remark has in common with its criterion
BY_NAME, BY_WORDS, BY_NOTHING = "name", "words", "none"
_MARK = r"^(?P<indent>[ \t]*)(?P<mark>#{1,6}\s+(?:\(?\d{1,3}[.)]\s+)?|\(?\d{1,3}[.)]\s+|[-*•]\s+)"
_BOLD = re.compile(
    _MARK + r"?(?P<bold>\*\*|__)(?P<name>[^\n]{1,120}?)(?P=bold)[ \t]*(?P<colon>[:：–—-]|(?=\s*$))?\s*", re.MULTILINE
)
_PLAIN = re.compile(_MARK + r"(?P<name>[^\n:]{3,80})(?::\s*|$)", re.MULTILINE)
_NUMBERED = re.compile(r"(?:criterion|check|item|point)?\s*\(?\d{1,3}[.):]\)?\s+(?=\S)", re.IGNORECASE)
_BEHIND = re.compile(r"\n[ \t]*\n(?=[^\s*•-])")

Criterion = Mapping[str, str]
Remark = dict[str, str | None]


def remarks(feedback: str, criteria: Sequence[Criterion]) -> list[Remark]:
    """The remarks of a feedback, in order, each with `criterion_id`, `by` (how that is told) and `text`. `criteria`: it
    was given on, with criterion_id, name and check. Items that name no criterion, and paragraphs outside of items, are
    remarks of their own; one that only introduces or ends the feedback may belong to none.
    """
    by_name = {_folded(each["name"] or each["check"]): each["criterion_id"] for each in reversed(criteria)}
    found = []
    for name, text in _parts(feedback):
        named = by_name.get(_folded(name)) or by_name.get(_folded(_NUMBERED.sub("", name, count=1))) if name else None
        told = (named, BY_NAME) if named else _by_words(f"{name} {text}", criteria)
        if text or named is None:
            whole = text if named or not name else f"{name}: {text}".rstrip(": ")
            found.append({"criterion_id": told[0], "by": told[1], "text": whole})
    return found


def _parts(feedback: str) -> list[tuple[str, str]]:
    """(the name that it begins with, or "", its text) of each part of a feedback: an item with a name, or a paragraph
    before, behind or without them.
    """
    heads = _heads(feedback)
    starts = [head.start() for head in heads]
    ends = [*starts[1:], len(feedback)][: len(heads)]
    parts = [("", part) for part in _paragraphs(feedback[: starts[0]] if heads else feedback)]
    for head, end in zip(heads, ends, strict=True):
        parts.append((head["name"].strip(" :：*_"), feedback[head.end() : end]))
    if heads and (heads[-1]["mark"] or "#")[0] != "#":  # behind a list an unindented paragraph is no part of its item
        name, last = parts.pop()
        own, *behind = _BEHIND.split(last, maxsplit=1)
        parts += [(name, own), *(("", part) for rest in behind for part in _paragraphs(rest))]
    return [(name, _text(part)) for name, part in parts if name or part.strip()]


def _heads(feedback: str) -> list[re.Match[str]]:
    """The beginnings of items with a name, that are not items below others: in bold, else behind a mark."""
    bold = [head for head in _BOLD.finditer(feedback) if head["mark"] or head["colon"] is not None or _ends(head)]
    heads = bold or list(_PLAIN.finditer(feedback))
    least = min((len(head["indent"].expandtabs(4)) for head in heads), default=0)
    return [head for head in heads if len(head["indent"].expandtabs(4)) <= least + 1]


def _ends(head: re.Match[str]) -> bool:
    """Whether a name in bold ends as names do."""
    return head["name"].rstrip().endswith((":", "：", "."))


def _paragraphs(text: str) -> list[str]:
    return re.split(r"\n\s*\n", text)


def _text(part: str) -> str:
    """A part without the marks of list items at its beginning and the indents of its lines."""
    lines = [re.sub(r"^\s*(?:[-*•]\s+)?", "", line).rstrip() for line in part.strip().split("\n")]
    return "\n".join(line for line in lines if line)


def _by_words(text: str, criteria: Sequence[Criterion]) -> tuple[str | None, str]:
    """(the criterion that shares most words with a remark, BY_WORDS), if it shares LEAST_SHARED that no other has; else
    (None, BY_NOTHING).
    """
    own = [set(words(f"{each['name']} {each['check']}")) for each in criteria]
    common = {word for word, number in Counter(word for each in own for word in each).items() if number > 1}
    said = set(words(text)) - common - COMMON
    shared = [len(said & each) for each in own]
    if len(criteria) == 1 and text.strip():
        return criteria[0]["criterion_id"], BY_WORDS
    best = max(range(len(own)), key=shared.__getitem__, default=None)
    if best is None or shared[best] < LEAST_SHARED or shared.count(shared[best]) > 1:
        return None, BY_NOTHING
    return criteria[best]["criterion_id"], BY_WORDS


def _folded(name: str) -> str:
    """A name by which remarks and criteria are compared."""
    return " ".join(re.sub(r"[*_`\"'“”‘’.:]", "", name).split()).casefold()
