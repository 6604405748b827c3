"""Sentences of text with lists, tables and quotes: none goes beyond an item or row; marks of items are left out.

Headings and blocks of code are no sentences; a bold lead of up to three words goes with the sentence after it.

The plain splitter runs over line ends: `includes: 1. A wire 2. A coil` is one sentence or ends in a bare `1.`, and
items without a full stop become one sentence of 600 characters. Here text is cut at lines first; lists that were folded
into one line are recognised by their running numbers, or by bullets after a colon or a full stop.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tasks.text.edit_sentences import prose_spans
from tasks.text.sentences import Folded, Span, Spans, with_what_follows

OVER_LONG = 300  # signs; a longer sentence is cut at its semicolons

_LINE = re.compile(r"[^\n]*+\n?")
_ITEM = re.compile(r"[ \t>]*+(?:[-*+•‣◦▪●–—]|\(?\d{1,3}[.)]|\(?[a-z]\))[ \t]++(?=\S)")
_HEAD = re.compile(r"[ \t]*+#{1,6}[ \t]++(?=\S)")
_QUOTED = re.compile(r"[ \t]*+>[> \t]*+")
_BOLD_HEAD = re.compile(r"[ \t]*+(\*\*|__)(?!\s)[^*_\n]{1,120}+(?<![.!?…])(?:\1:?|:\1)\s*+$")
_LEAD = re.compile(r"(\*\*|__)\S+(?: \S+){0,2}[.!?]\1$")
_FENCE = re.compile(r"[ \t>]*+(?:```|~~~)")
_QUOTE_MARK = re.compile(rf"^{_QUOTED.pattern}", re.MULTILINE)
_INNER_QUOTE = re.compile(rf"\n{_QUOTED.pattern}")
_RULE = re.compile(r"[\s|:+=*_-]*+$")
_GOES_ON = re.compile(r"[ \t]|[^\W\d_A-Z]|[,;)]")
_OPENS_LIST = re.compile(r"(?:[:.;!?]|[:.;!?][\])\"”’*]{1,3}) ?$")
_NUMBER = re.compile(r"(?<!\S)(?:\((\d{1,2})\)|(\d{1,2})[.)]) (?=\S)")
_BULLET = re.compile(r"(?<!\S)([-*•‣●–]) (?=[\"“(*\[]{0,3}[A-Z0-9])")
_OPENING = re.compile(r" ([*_]{1,3}|[\"“‘(\[])$")
_SEMICOLON = re.compile(r"; ")


class Block(NamedTuple):
    """Where a paragraph, list item, heading or table row is in the text: no sentence goes on beyond its end."""

    start: int
    end: int
    is_row: bool = False


def listed_spans(text: str, hidden: Sequence[Span] = ()) -> Spans:
    """(start, end) in `text` of each sentence and table row, in order; headings, code and marks of items are in none.

    A heading begins with #, or is a bold line of its own without a full stop. A list item ends a sentence, also in a
    list folded into one line; a sentence of over OVER_LONG characters is cut at its semicolons if it has two or more.
    Pieces without a letter or digit are left out. `hidden` spans (sorted, not overlapping: citation marks) are ignored
    when text is cut, and belong to the span right before them.
    """
    found: Spans = []
    unseen = sorted([*hidden, *(mark.span() for mark in _QUOTE_MARK.finditer(text))])
    for block in _blocks(text):
        within = unseen[bisect_left(unseen, (block.start, 0)) : bisect_left(unseen, (block.end, 0))]
        folded = Folded(text, within, block.start, block.end)
        pieces = [(0, len(folded.text))] if block.is_row else _pieces(folded.text)
        found += [folded.span(start, end) for start, end in pieces if any(map(str.isalnum, folded.text[start:end]))]
    return with_what_follows(text, found, hidden)


def without_quote_marks(text: str) -> str:
    """The text without the `>` that begin its lines, the first line excepted."""
    return _INNER_QUOTE.sub("\n", text)


def _blocks(text: str) -> list[Block]:
    """The blocks of a text, in order, without headings and fenced code.

    Marks of items and quotes, rules and the bars at the ends of a table row are in none. A line after that of an item
    belongs to the item if it is indented, or begins in the middle of a sentence.
    """
    found: list[Block] = []
    begun_by, was_quoted, in_code = "none", False, False
    for line in _LINE.finditer(text):
        fence = _FENCE.match(line[0]) is not None
        in_code, is_code = in_code != fence, in_code or fence
        quote = _QUOTED.match(line[0])
        bare = line[0][quote.end() :] if quote else line[0]
        kind, start, end = ("none", 0, 0) if is_code else _read(bare, line.end() - len(bare))
        goes_on = begun_by == "text" or (begun_by == "item" and _GOES_ON.match(bare))
        goes_on = goes_on and was_quoted == bool(quote) and not (begun_by == "item" and _leads(text, found[-1], bare))
        if kind == "text" and goes_on:
            found[-1] = found[-1]._replace(end=end)
        else:
            begun_by, was_quoted = kind, bool(quote)
            found += [Block(start, end, kind == "row")] if kind not in ("none", "head") else []
    return found


def _leads(text: str, item: Block, following: str) -> bool:
    """Whether an item is a bold lead alone, and the line after it begins a sentence."""
    return following.lstrip()[:1].isupper() and _BOLD_HEAD.match(text[item.start : item.end]) is not None


def _read(line: str, at: int) -> tuple[str, int, int]:
    """(kind, start, end) of the content of a line; kind is none (blank, or a rule), row, head, item or text.

    `at`: where the line starts, from which offsets count. The content is without the mark of an item.
    """
    end = at + len(line.rstrip())
    if _RULE.match(line):
        return "none", at, end
    if _HEAD.match(line) or _BOLD_HEAD.match(line):
        return "head", at, end
    if line.count("|") > 1:
        bare = line.strip().strip("|").strip()
        start = at + line.index(bare)
        return "row", start, start + len(bare)
    if mark := _ITEM.match(line):
        return "item", at + mark.end(), end
    return "text", at + len(line) - len(line.lstrip()), end


# ---------------------------------------------------------------- within a block, white space folded


def _pieces(text: str) -> Spans:
    """(start, end) of the sentences in the text of a block, cut also at the items of lists that were folded into it.

    Marks of these items are in none.
    """
    marks = sorted({*_running_numbers(text), *_bullets(text)})
    bounds = [(0, 0), *marks, (len(text), len(text))]
    return [span for (_, start), (end, _) in pairwise(bounds) for span in _sentences(text, start, end)]


def _running_numbers(text: str) -> Spans:
    """(start, end) of the numbers of items in a list that was folded into one line.

    [] unless two or more are in order. They count from 1. `1.` counts at the beginning, after a colon, a semicolon or
    the end of a sentence, `2.` and so on anywhere.
    """
    found: Spans = []
    for mark in _NUMBER.finditer(text):
        number = int(mark[1] or mark[2])
        if number == 1 and len(found) < 2 and _may_open(text, mark.start()):
            found = [mark.span()]
        elif found and number == len(found) + 1:
            found.append(mark.span())
    return found if len(found) > 1 else []


def _may_open(text: str, at: int) -> bool:
    """Whether a list may begin at `at`: at the start of the text, after a colon or semicolon, or after a sentence."""
    return at == 0 or _OPENS_LIST.search(text, max(0, at - 5), at) is not None


def _bullets(text: str) -> Spans:
    """(start, end) of the bullets of items in a list that was folded into one line: two or more of one kind; else [].

    The first must be at the beginning, after a colon, a semicolon or the end of a sentence.
    """
    found: dict[str, Spans] = {}
    for mark in _BULLET.finditer(text):
        if mark[1] in found or _may_open(text, mark.start()):
            found.setdefault(mark[1], []).append(mark.span())
    return [span for spans in found.values() if len(spans) > 1 for span in spans]


def _sentences(text: str, start: int, end: int) -> Spans:
    """(start, end) of the sentences in text[start:end], with over-long ones cut at their semicolons.

    What opens a sentence (a quote, a bracket, `**`) goes with it.
    """
    region = text[start:end]
    start += len(region) - len(region.lstrip())
    spans = [(start + low, start + high) for low, high in prose_spans(region.strip())]
    return [part for span in _led(text, _opened(text, spans)) for part in _cut_at_semicolons(text, *span)]


def _led(text: str, spans: Spans) -> Spans:
    """The spans, with a first one that is a bold lead (`**Cost.** It is low.`) joined to the second."""
    if len(spans) > 1 and _LEAD.match(text[slice(*spans[0])]):
        return [(spans[0][0], spans[1][1]), *spans[2:]]
    return spans


def _opened(text: str, spans: Spans) -> Spans:
    """The spans, with an opening quote, bracket or `**` at the end of one moved to the next."""
    found: Spans = []
    begin = None
    for place, (start, end) in enumerate(spans):
        start = start if begin is None else begin
        opening = _OPENING.search(text, max(start, end - 4), end) if place + 1 < len(spans) else None
        begin = opening.start(1) if opening else None
        found.append((start, opening.start() if opening else end))
    return [(start, end) for start, end in found if start < end]


def _cut_at_semicolons(text: str, start: int, end: int) -> Spans:
    """The span, or its parts if it has more than OVER_LONG characters and two or more semicolons before a blank.

    Each part ends with its semicolon.
    """
    cuts = [mark.span() for mark in _SEMICOLON.finditer(text, start, end)] if end - start > OVER_LONG else []
    bounds = [(start, start), *((low + 1, high) for low, high in cuts), (end, end)]
    return [(begin, stop) for (_, begin), (stop, _) in pairwise(bounds)] if len(cuts) > 1 else [(start, end)]
