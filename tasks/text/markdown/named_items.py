"""Lists of named items, in the forms in which models and people write them.

    1. **Contents on the label**: Does the label say what is in the jar?
    2. **Date of filling**: Check that the label gives the day on which the jar was filled.

Numbers may be of any kind or none, names in bold or not; there may be bullets, sub-items below an item, lines that go
on, headings, and words around the list.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from tasks.text.markdown.document import unfenced

MOST_OF_A_LINE = 200  # characters of an item among plain lines
NAME_WORDS, LABEL_WORDS = 10, 6

_NUMBER = re.compile(
    r"(?P<bold>\*\*|__)?(?:(?:criterion|check)\s*)?"
    r"(?P<number>\(?\d{1,3}(?:(?:\.\d{1,3})*\\?[.):]\)?|(?:\.\d{1,3})+)|\(?[ivx]{1,5}[.)])"
    r"(?P<close>(?P=bold))?(?:\s+|(?=\*\*|__))",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*+•–]|[a-z][.)]|\[[ x]\])\s+(?:\[[ x]\]\s+)?", re.IGNORECASE)
_BOLD = re.compile(
    r"(?P<mark>\*{1,3}|__)(?P<name>[^\s*][^\n]{0,119}?)(?P=mark)\s*(?P<colon>[:：–—-])?\s*(?P<check>.*)", re.DOTALL
)
_PLAIN = re.compile(r"(?P<name>[^:?\n]{2,80}):(?:\s+(?P<check>\S.*)|\Z)", re.DOTALL)
_CHECKS = re.compile(r"(?:is|are|do|does|has|have|can|could|should|check|verify|ensure|make sure)\b", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+")
_RULE = re.compile(r"(?:[-*_]\s*){3,}|(?:`{3,}|~{3,})[\w+-]*")


@dataclass(slots=True)
class _Item:
    """An item of a list: its number, its text, and the items below it."""

    number: str
    lines: list[str]
    below: list[_Item] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.lines).split())

    @property
    def whole(self) -> str:
        """Its text and those of the items below it."""
        return " ".join([self.text, *(item.whole for item in self.below)])


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a list. `kind`: number, bullet, name (in bold, at the beginning of a line without a mark), title (a
    heading with a number), heading, rule, or text. `indent`, `column`: where its mark and its text begin. `number`: of
    an item, e.g. 1.2.
    """

    kind: str
    indent: int
    column: int
    number: str
    text: str


def named_items(text: str) -> list[tuple[str, str]]:
    """(name, rest) of each item of a list, in its order; the name is "" where there is none. [] for a text that is no
    list. Sub-items belong to the rest of their item; where an item is but a heading of sub-items that have names of
    their own, these are the items.
    """
    lines = re.split(r"\r\n?|\n", unfenced(text) or text)
    items = _items([_line(line.expandtabs(4)) for line in lines])
    groups = [_is_group(item) for item in items]
    below = [{_split(each.whole)[0] for each in item.below} for item, group in zip(items, groups, strict=True) if group]
    names = Counter(chain.from_iterable(below))
    if (
        max(names.values(), default=0) > 1
    ):  # names of several items' items, such as Question and Why, are parts of items
        groups = [False] * len(items)
    found = [
        each
        for item, group in zip(items, groups, strict=True)
        for each in (item.below if group and (len(item.below) > 1 or all(groups)) else [item])
    ]
    named = [(_split(each.text), [below.whole for below in each.below]) for each in found]
    whole = [(name, " ".join(filter(None, [check, *below]))) for (name, check), below in named]
    return [(name, check) for name, check in whole if name or check]


def items_of_lines(body: str) -> str | list[str]:
    """A body without any list as a list of its lines, if they are as short as items are."""
    lines = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith("#")]
    return body if named_items(body) or any(len(line) > MOST_OF_A_LINE for line in lines) else lines


def _is_group(item: _Item) -> bool:
    """Whether an item is but a heading of items with names of their own."""
    name, check = _split(item.text)
    is_label = not check or (not name and len(check.split()) <= LABEL_WORDS and check[-1] not in ".?!")
    return bool(item.below) and is_label and all(all(_split(each.whole)) for each in item.below)


def _split(text: str) -> tuple[str, str]:
    """(name, check) of the text of an item; the name is "" if none is told from the check, the check if there is only
    a name.
    """
    bold = _BOLD.match(text)
    if bold and (bold["colon"] or bold["name"].rstrip().endswith((":", "：")) or bold["mark"] != "*"):
        return bold["name"].strip(" :：.*_"), bold["check"].strip()
    plain = _PLAIN.match(text)
    if plain and len(plain["name"].split()) <= NAME_WORDS and not plain["name"][0].islower():
        is_check = _CHECKS.match(plain["name"]) or (not plain["check"] and len(plain["name"].split()) > LABEL_WORDS)
        if not is_check:
            return plain["name"].strip(" *_"), (plain["check"] or "").strip()
    return "", text.strip()


def _items(lines: list[_Line]) -> list[_Item]:
    """The items of the list in these lines, nested as they are indented or numbered. If there are numbered items,
    bullets belong to the item before them; else bold names begin items, unless bullets have names of their own.
    """
    top = _kind_of_items(lines)
    marks = [line for line in lines if line.kind == top]
    indent, column = (min((getattr(line, name) for line in marks), default=0) for name in ("indent", "column"))
    dots = min((line.number.count(".") for line in marks), default=0)
    items: list[_Item] = []
    current: _Item | None = None
    gap = False
    for line in lines:
        if not line.text:
            gap = True
            continue
        inside = (line.indent >= indent + 2 and line.column >= column + 2) or line.number.count(".") > dots
        goes_on = bool(items) and line.kind == "number" and _follows(line.number, items[-1])
        if line.kind != top and (
            line.kind in ("heading", "title", "rule")
            or (line.kind == "name" and not inside and (gap or top == "bullet"))
        ):
            current = None
        elif line.kind == top and (not inside or goes_on):
            current = _Item(line.number, [line.text])
            items.append(current)
        elif line.kind in ("number", "bullet") and current is not None and _belongs(line, items[-1]):
            current = _Item(line.number, [line.text])
            items[-1].below.append(current)
        elif current is not None and (not gap or inside or not _split(current.text)[1]):
            current.lines.append(line.text if line.kind != "number" else f"{line.number} {line.text}")
        else:
            current = None
        gap = False
    return items


def _follows(number: str, item: _Item) -> bool:
    """Whether a number is the next one after an item's, which has no numbered items below."""
    plain = number.isdecimal() and item.number.isdecimal() and int(number) == int(item.number) + 1
    return plain and not any(each.number for each in item.below)


def _belongs(line: _Line, item: _Item) -> bool:
    """Whether a line can be an item below this one: a number with dots begins with the item's number."""
    return "." not in line.number or line.number.rpartition(".")[0] == item.number


def _kind_of_items(lines: list[_Line]) -> str:
    """What begins the items of a list: number, title, name or bullet."""
    kinds = {line.kind for line in lines}
    for kind in ("number", "title"):
        if kind in kinds:
            return kind
    named_bullets = any(line.kind == "bullet" and _split(line.text)[0] for line in lines)
    if "name" in kinds and not named_bullets:
        return "name"
    return "bullet"


def _line(line: str) -> _Line:
    """What a line of a list is."""
    text = line.strip()
    indent = len(line) - len(line.lstrip())
    if _RULE.fullmatch(text):
        return _Line("rule", indent, indent, "", text)
    heading = _HEADING.match(text)
    text = text[heading.end() :] if heading else text
    if numbered := _NUMBER.match(text):
        rest = text[numbered.end() :].strip()
        opened = numbered["bold"] if numbered["bold"] and not numbered["close"] else ""
        whole = f"**{rest}**" if heading and "**" not in rest else f"{opened}{rest}"
        column = indent + numbered.end()
        return _Line("title" if heading else "number", indent, column, numbered["number"].strip("():\\."), whole)
    if heading:
        return _Line("heading", indent, indent, "", text)
    if bullet := _BULLET.match(text):
        return _Line("bullet", indent, indent + bullet.end(), "", text[bullet.end() :].strip())
    return _Line("name" if text.startswith(("**", "__")) and _BOLD.match(text) else "text", indent, indent, "", text)
