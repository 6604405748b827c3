"""Lists of named items, in the forms in which models and people write them.

    1. **Contents on the label**: Does the label say what is in the jar?
    2. **Date of filling**: Check that the label gives the day on which the jar was filled.

Numbers may be of any kind or none, names in bold or not; there may be bullets, sub-items below an item, lines that go
on, headings, and words around the list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tasks.text.markdown.document import unfenced

NAME_WORDS, LABEL_WORDS = 10, 6

_NUMBER = re.compile(
    r"(?:#{1,6}\s+)?(?P<bold>\*\*|__)?(?:(?:criterion|check)\s*)?(?P<number>\(?\d{1,3}(?:(?:\.\d{1,3})*\\?[.):]\)?|(?:\.\d{1,3})+)|\(?[ivx]{1,5}[.)])"
    r"(?P<close>(?P=bold))?(?:\s+|(?=\*\*|__))",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*+•–]|[a-z][.)]|\[[ x]\])\s+(?:\[[ x]\]\s+)?", re.IGNORECASE)
_BOLD = re.compile(
    r"(?P<mark>\*\*|__|\*)(?P<name>[^\n]{1,120}?)(?P=mark)\s*(?P<colon>[:：–—-])?\s*(?P<check>.*)", re.DOTALL
)
_PLAIN = re.compile(r"(?P<name>[A-Z][^:?\n]{1,80}):\s+(?P<check>\S.*)", re.DOTALL)
_HEADING = re.compile(r"#{1,6}\s")


@dataclass(slots=True)
class _Item:
    """An item of a list: its text, and the items below it."""

    lines: list[str]
    below: list[_Item] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.lines).split())

    @property
    def whole(self) -> str:
        """Its text and those of the items below it."""
        return " ".join([self.text, *(item.whole for item in self.below)])


def named_items(text: str) -> list[tuple[str, str]]:
    """(name, rest) of each item of a list, in its order; the name is "" where there is none. [] for a text that is no
    list. Sub-items belong to the rest of their item; where an item is but a heading of sub-items that have names of
    their own, these are the items.
    """
    items = _items((unfenced(text) or text).replace("\r\n", "\n").expandtabs(4).split("\n"))
    found = [_named(each) for item in items for each in _leaves(item)]
    return [(name, check) for name, check in found if name or check]


def _leaves(item: _Item) -> list[_Item]:
    """The item itself, or the items below it where it is a heading of named ones."""
    is_heading = len(item.below) > 1 and _is_label(item.text)
    return item.below if is_heading and all(all(_split(each.whole)) for each in item.below) else [item]


def _is_label(text: str) -> bool:
    """Whether the text of an item is but a name."""
    name, check = _split(text)
    return not check or (not name and len(check.split()) <= LABEL_WORDS and check[-1] not in ".?!")


def _named(item: _Item) -> tuple[str, str]:
    """(name, check) of an item; the items below belong to its check."""
    name, check = _split(item.text)
    return name, " ".join(filter(None, [check, *(each.whole for each in item.below)]))


def _split(text: str) -> tuple[str, str]:
    """(name, check) of the text of an item; the name is "" if none is told from the check, the check if there is only
    a name.
    """
    bold = _BOLD.match(text)
    if bold and (bold["colon"] or bold["name"].rstrip().endswith((":", "：")) or bold["mark"] != "*"):
        return bold["name"].strip(" :：.*_"), bold["check"].strip()
    plain = _PLAIN.match(text)
    if plain and len(plain["name"].split()) <= NAME_WORDS:
        return plain["name"].strip(" *_"), plain["check"].strip()
    return "", text.strip()


def _items(lines: list[str]) -> list[_Item]:
    """The items of the list in these lines, nested as they are indented or numbered. If there are numbered items,
    bullets and bold names on their level belong to the item before them; else bold names begin items, unless bullets
    have names of their own.
    """
    marked = [_marked(line) for line in lines]
    top = _kind_of_items(marked)
    base = min((indent for indent, kind, _, _ in marked if kind == top), default=0)
    items: list[_Item] = []
    current: _Item | None = None
    gap = False
    for indent, kind, dots, text in marked:
        if not text:
            gap = True
            continue
        inside = indent >= base + 2
        if kind == "heading" or (kind == "name" and top == "bullet"):
            current = None
        elif kind == top and not inside and not (dots and items):
            current = _Item([text])
            items.append(current)
        elif kind != "text" and items and current is not None:
            current = _Item([text])
            items[-1].below.append(current)
        elif current is not None and (not gap or inside or not _split(current.text)[1]):
            current.lines.append(text)
        else:
            current = None
        gap = False
    return items


def _kind_of_items(marked: list[tuple[int, str, int, str]]) -> str:
    """What begins the items of a list: number, name or bullet."""
    kinds = {kind for _, kind, _, _ in marked}
    if "number" in kinds:
        return "number"
    named_bullets = any(kind == "bullet" and _split(text)[0] for _, kind, _, text in marked)
    return "bullet" if "name" not in kinds or ("bullet" in kinds and named_bullets) else "name"


def _marked(line: str) -> tuple[int, str, int, str]:
    """(indent, kind, dots inside its number, text without its mark) of a line; kind: number, bullet, name (in bold, at
    the beginning of a line without a mark), heading or text.
    """
    text = line.strip()
    indent = len(line) - len(line.lstrip())
    if (numbered := _NUMBER.match(text)) and (numbered["number"] or numbered["bold"]):
        rest = text[numbered.end() :].strip()
        rest = f"**{rest}**" if text[0] == "#" and "**" not in rest else rest
        if numbered["bold"] and not numbered["close"]:
            rest = f"{numbered['bold']}{rest}"
        return indent, "number", numbered["number"].strip(".():\\").count("."), rest
    if bullet := _BULLET.match(text):
        return indent, "bullet", 0, text[bullet.end() :].strip()
    if _HEADING.match(text):
        return indent, "heading", 0, text
    return indent, "name" if _BOLD.match(text) and text.startswith(("**", "__")) else "text", 0, text
