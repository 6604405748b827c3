"""Markdown as a document: the fields between --- lines at its beginning, and its sections."""

from __future__ import annotations

import re
from collections import Counter

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(\w+)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_MARKS = re.compile(r"(?<!\w)[*_`]+|[*_`]+(?!\w)")
_FENCE = re.compile(r"\A(`{3,}|~{3,})[\w+-]*[ \t]*\r?\n(?P<inside>.*?)(?:\r?\n)?\1\s*\Z", re.DOTALL)


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """(the fields between --- lines at the beginning, without quotes around them; the text after them)."""
    text = re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff"))
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    return {name: value.strip("\"'") for name, value in _FIELD.findall(found[1])}, text[found.end() :]


def sections(markdown: str) -> list[tuple[str, str]]:
    """(heading as plain text, the section with its heading) of each section of the highest level that occurs more than
    once, else of the lowest level there is; [] for a text without headings. A # inside of code is no heading.
    """
    from markdown_it import MarkdownIt

    markdown = re.sub(r"\r\n?", "\n", markdown)
    tokens = MarkdownIt().parse(markdown)
    heads = [
        (int(token.tag[1:]), token.map[0], tokens[place + 1].content)
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    count = Counter(level for level, _, _ in heads)
    repeated = [level for level, number in count.items() if number > 1]
    chosen = min(repeated) if repeated else max(count, default=0)
    lines = markdown.split("\n")
    found = []
    for place, (level, start, heading) in enumerate(heads):
        if level == chosen:
            end = next((at for other, at, _ in heads[place + 1 :] if other <= chosen), len(lines))
            found.append((" ".join(_MARKS.sub("", heading).split()), "\n".join(lines[start:end])))
    return found


def unfenced(text: str) -> str | None:
    """What is inside of a code fence around the whole of a text; None if there is none."""
    found = _FENCE.match(text.strip())
    whole = found is not None and not re.search(rf"^{found[1]}", found["inside"], re.MULTILINE)
    return found["inside"] if found and whole else None


def without_fence(reply: str, original: str) -> str:
    """A reply without the code fence around the whole of it, which models put around code; as it is if the text it was
    made from has such a fence.
    """
    inside = unfenced(reply)
    return reply if inside is None or unfenced(original) is not None else inside


def slug_of(name: str) -> str:
    """A name as a part of an id: lower case, hyphens between its words; `section` if nothing is left."""
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-")[:60].strip("-") or "section"
