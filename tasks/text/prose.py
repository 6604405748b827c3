"""Markdown cut into blocks, and its prose into sentences: what the offline rules read, move and change.

Everything here is linear in the text, also for texts without a line break or a full stop.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

READ_CHARACTERS = 20_000

_COMMON_WORDS = """
a about after all also am an and another any anyone are as at be because been before being between both but by
can could did different do does doing for from had has have having how i if in into is it its just know like
make many may me might more most much my need no not of off on one only or other our out over really same
should since so some someone something such than that the their them then there these they thing things this
those through to too use used using very want was way we were what when where which while who why will with
without would you your
"""
COMMON = frozenset(_COMMON_WORDS.split())

_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]{1,4}(?=\S)", re.MULTILINE)
_FENCE = re.compile(r"[ \t]*+(`{3,}+(?!.*`)|~{3,}+)")
_RULE = re.compile(r"(?:[-*_=][ \t]{0,3}){3,}\Z")
_REFERENCE = re.compile(r"\[[^\]]{1,80}\]:")
_SENTENCE_END = re.compile(  # one set of characters in front, as the engine looks for it at once
    r"[.!?。！？](?:(?<=[。！？])|(?<!\b[A-Za-z]\.)(?<!\b(?:vs|Dr|Mr|Ms|St|cf|No)\.)(?<!\b(?:etc|Mrs|Fig)\.)"
    r"[\"'”’)\]*_]{0,4}(?=\s{1,3}[^\sa-z]))"
)
_WORD = re.compile(r"\w+")


class Block(NamedTuple):
    """Where a block of a Markdown text is.

    `kind`: prose (a paragraph), list, code, or other (heading, table, quotation, HTML, reference, rule).
    """

    kind: str
    start: int
    end: int


class Span(NamedTuple):
    """Where something, such as a sentence, is in a text: text[start:end]."""

    start: int
    end: int


def words(text: str) -> set[str]:
    """The words of a text in lower case, each once."""
    return set(_WORD.findall(text.lower()))


def shared_words(wanted: set[str], text: str) -> int:
    """How many of the words `wanted`, in lower case, a text has."""
    return len(wanted.intersection(_WORD.findall(text.lower())))


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text in order, without the blank lines between them; [] for a blank text.

    All items of a list are one block, also with blank lines and indented code between them; so are lines of indented
    code. Fenced code that is not closed ends with the text.
    """
    found: list[Block] = []
    kind, start, end, at, fence, gap = "", 0, 0, 0, "", False
    for line in text.split("\n"):
        if fence:
            end = at + len(line)
            if _closes(line, fence):
                fence, gap = "", True
                if kind == "code":
                    found.append(Block(kind, start, end))
                    kind = ""
        elif not line or line.isspace():
            gap = True
        else:
            fence = _opened_fence(line)
            new = _kind(line, kind, gap, fence)
            if new == "heading of the line before":
                kind = "other"
            elif new != kind or (fence and kind == "code") or (gap and kind in ("prose", "other")):
                if kind:
                    found.append(Block(kind, start, end))
                kind, start = new, at
            end, gap = at + len(line), False
        at += len(line) + 1
    return [*found, Block(kind, start, end)] if kind else found


def sentences(text: str) -> list[Span]:
    """The spans of the sentences in paragraphs and list items, in order; nothing of code, tables or headings.

    Of an item only the first line counts, and no item of a list that holds fenced code.
    """
    found: list[Span] = []
    for block in blocks(text):
        if block.kind == "prose":
            found += sentences_of(text, block.start, block.end)
        elif block.kind == "list":
            found += _item_sentences(text, block)
    return found


def sentences_of(text: str, start: int, end: int) -> list[Span]:
    """The spans of the sentences of one paragraph, text[start:end], without white space at their ends."""
    bounds = [start, *(mark.end() for mark in _SENTENCE_END.finditer(text, start, end)), end]
    spans = (_trimmed(text, *bound) for bound in pairwise(bounds))
    return [span for span in spans if span.start < span.end]


def balanced(sentence: str) -> bool:
    """Whether a sentence is complete by itself: no code, emphasis, link or bracket begins or ends outside of it.

    Its backticks and asterisks must be even in number, and its brackets as many opening as closing.
    """
    return (
        sentence.count("`") % 2 == 0
        and sentence.count("*") % 2 == 0
        and sentence.count("(") == sentence.count(")")
        and sentence.count("[") == sentence.count("]")
    )


def _kind(line: str, before: str, gap: bool, fence: str) -> str:
    """The kind of block that a line belongs to: prose, list, code or other.

    A line of = or - right after a paragraph is "heading of the line before". `before`: the kind of the block before
    the line ("": none), after a blank line if `gap`; `fence`: the fence that the line opens, or "".
    """
    bare = line.lstrip()
    if fence:
        return "list" if before == "list" and line[0] in " \t" else "code"
    if line[:4] == "    " or line[0] == "\t":
        return before if before == "list" or (before == "prose" and not gap) else "code"
    if before == "prose" and not gap and set(bare.rstrip()) in ({"="}, {"-"}):
        return "heading of the line before"
    if _RULE.match(bare):
        return "other"
    if _ITEM.match(line) or (before == "list" and line[0] == " "):
        return "list"
    if bare[0] in "#|><" or _REFERENCE.match(bare):
        return "other"
    return "list" if before == "list" and not gap else "prose"


def _opened_fence(line: str) -> str:
    """The fence that the line opens, e.g. ```; "" if it opens none."""
    fence = _FENCE.match(line)
    return fence[1] if fence else ""


def _closes(line: str, fence: str) -> bool:
    """Whether the line closes the code block that `fence` opened."""
    bare = line.strip()
    return bare.startswith(fence) and not bare.strip(fence[0])


def _item_sentences(text: str, block: Block) -> Iterator[Span]:
    """The spans of the sentences in the first line of each list item, in order; none if the list holds fenced code."""
    if "```" in text[block.start : block.end] or "~~~" in text[block.start : block.end]:
        return
    for marker in _ITEM.finditer(text, block.start, block.end):
        line_end = text.find("\n", marker.end(), block.end)
        yield from sentences_of(text, marker.end(), line_end if line_end >= 0 else block.end)


def _trimmed(text: str, start: int, end: int) -> Span:
    """The span of text[start:end] without white space at its ends.

    Of white space alone the result ends where it begins, or before.
    """
    shown = text[start:end]
    return Span(start + len(shown) - len(shown.lstrip()), start + len(shown.rstrip()))


def fit_to_quote(ranked: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Of (score, passage number, sentence) those whose sentence can stand alone, in order, each sentence once.

    A sentence is put on one line. Questions, what ends in a colon or comma, images, HTML, and sentences that are not
    `balanced` are left out. A sentence must not be blank.
    """
    seen = set()
    for score, number, raw in ranked:
        sentence = " ".join(raw.split())
        whole = sentence[-1] not in "?:," and "![" not in sentence and "<" not in sentence and balanced(sentence)
        if whole and sentence not in seen:
            seen.add(sentence)
            yield score, number, sentence


@lru_cache(maxsize=2_048)
def sentences_by_paragraph(text: str) -> tuple[tuple[str, ...], ...]:
    """The sentences of each paragraph of a text."""
    return tuple(
        tuple(part[span.start : span.end].strip() for span in sentences(part)) or (part.strip(),)
        for part in re.split(r"\n\s*\n", text)
        if part.strip()
    )


def paragraphs_joined(parts: list[list[str]]) -> str:
    """The sentences of paragraphs as one text, without empty paragraphs."""
    return "\n\n".join(" ".join(part) for part in parts if part)
