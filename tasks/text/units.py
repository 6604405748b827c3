"""The units of a text that one can point at: sentences, headings and lines of lists; of program code its lines."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from tasks.text.prose import Block, Span, blocks, sentences_of

_CODE_LINE = re.compile(r"^[ \t]*(?:import \w|from \S+ import |def \w+ ?\(|class \w+.*:$|[\w.]+ = |return\b)", re.M)


@lru_cache(maxsize=256)
def is_code(text: str) -> bool:
    """Whether a text is program code (of Python, or like it): two lines or more look like it, and nothing is fenced."""
    return "```" not in text and len(_CODE_LINE.findall(text)) > 1


@lru_cache(maxsize=256)
def units_of(text: str) -> tuple[Span, ...]:
    """Where the lines of code are, without indentation; of other texts sentences, headings and lines of lists."""
    found: list[Span] = []
    for kind, start, end in [Block("code", 0, len(text))] if is_code(text) else blocks(text):
        lines = (Span(*line.span()) for line in re.compile(r"(?<!`)(?!```)\S.*").finditer(text, start, end))
        found += sentences_of(text, start, end) if kind == "prose" else lines
    return tuple(found) or (Span(0, len(text)),)


def lines_of_code(text: str) -> int:
    """The number of lines that are neither blank nor a comment of #."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


@lru_cache(maxsize=512)
def parses(code: str) -> bool:
    """Whether program code can be parsed as Python."""
    try:
        ast.parse(re.sub(r"\\(\\|[^\n'\"])", "//", code))  # it warns of unknown escapes
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
