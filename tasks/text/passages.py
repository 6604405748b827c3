"""Cutting Markdown into passages: slices of the text, in order, so that no word is lost or changed."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

CODE_LIMIT = 3  # a fenced code block of up to so many passages' words stays whole

_FENCE = re.compile(r"[ \t]*+(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*+)*+(`{3,}+(?!.*`)|~{3,}+)")
_CLOSING = re.compile(r"[ \t>]*+(`{3,}+|~{3,}+)\s*+$")
_HEADING = re.compile(r"^#{1,6}[ \t][^\n]*+\s*+", re.MULTILINE)
_LEADING = re.compile(r"(?:[^\S\n]*+\n)*+")  # blank lines
_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s++")


class _Span(NamedTuple):
    """A slice of the text that is cut no further. `words`: how many it has; `heads`: whether it is a heading.

    Words are runs between white space.
    """

    start: int
    end: int
    words: int
    heads: bool


def cut(text: str, *, words: int = 120) -> list[str]:
    """The text as passages of at most `words` words (runs between white space), in order; [] if there are no words.

    A text is cut between paragraphs; where one is too long between its lines, else sentences, else words. Two things
    may make a passage longer: a fenced code block stays whole up to CODE_LIMIT times `words`, and a heading stays with
    the text after it. White space at a passage's end, and blank lines before it, are dropped.
    """
    if 0 < len(text.split()) <= words:
        return [text[_LEADING.match(text).end() :].rstrip()]  # type: ignore[union-attr]
    spans = (span for block in _blocks(text) for span in _spans(text, *block, words))
    return [text[group[0].start : group[-1].end].rstrip() for group in _packed(spans, words)]


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, code) of each paragraph (list, table, quote) and each fenced code block, in order.

    `code`: it is a code block. An unclosed one ends with the text. Some paragraphs are empty or blank.
    """
    start, fence = 0, ""
    for line in _LINE.finditer(text):
        opening = None if fence else _FENCE.match(text, *line.span())
        if opening or not (fence or line[0].strip()):
            yield start, line.start(), False
            start = line.start() if opening else line.end()
        if opening:
            fence = opening[1]
        elif fence and (closing := _CLOSING.match(line[0])) and closing[1].startswith(fence):
            yield start, line.end(), True
            start, fence = line.end(), ""
    yield start, len(text), bool(fence)


def _spans(text: str, start: int, end: int, code: bool, words: int) -> Iterator[_Span]:
    """The block text[start:end] as one slice if it has at most `words` words; if not, a slice for each line.

    If it is `code` it may have CODE_LIMIT times as many. A longer line becomes several slices. Blank ones are left
    out.
    """
    whole = _span(text, start, end)
    if whole.words <= words * (CODE_LIMIT if code else 1):
        parts = [whole]
    else:
        parts = [part for line in _LINE.finditer(text, start, end) for part in _parts(text, *line.span(), words)]
    return (part for part in parts if part.words)


def _parts(text: str, start: int, end: int, words: int) -> Iterator[_Span]:
    """A line as one slice; if it has more than `words` words its sentences, and of longer sentences runs of words."""
    line = _span(text, start, end)
    if line.words <= words:
        yield line
        return
    bounds = [start, *(found.end() for found in _SENTENCE_END.finditer(text, start, end)), end]
    for first, last in pairwise(bounds):
        sentence = _span(text, first, last)
        yield from [sentence] if sentence.words <= words else _runs(text, first, last, words)


def _runs(text: str, start: int, end: int, words: int) -> Iterator[_Span]:
    """text[start:end] in slices of `words` words; the last may have fewer."""
    run = re.compile(rf"(?:\S++\s*+){{1,{words}}}+")
    return (_span(text, *found.span()) for found in run.finditer(text, start, end))


def _span(text: str, start: int, end: int) -> _Span:
    """text[start:end] as a slice, with its number of words, and whether it is a Markdown heading."""
    heads = _HEADING.fullmatch(text, start, end) is not None
    return _Span(start, end, len(text[start:end].split()), heads)


def _packed(spans: Iterator[_Span], words: int) -> Iterator[list[_Span]]:
    """The slices in groups of at most `words` words; a slice with more, or a heading before one, makes a group longer.

    A heading that would end a group starts the next one, unless it is the last slice.
    """
    group: list[_Span] = []
    count = 0
    for span in spans:
        if count + span.words > words:
            left = [one for one in group[-1:] if one.heads]
            if len(group) > len(left):
                yield group[: len(group) - len(left)]
            group, count = left, sum(one.words for one in left)
        group.append(span)
        count += span.words
    if group:
        yield group
