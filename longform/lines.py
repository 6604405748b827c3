"""Texts of models, servers and sources on one short line, as messages show them."""

from __future__ import annotations

import re
import unicodedata

WORD_CHARACTERS = 20  # a text is cut before a word, if that is no longer
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|\x1b.?")
_JOINERS = "\u200c\u200d"  # of Persian words, and of emoji


def one_line(text: str) -> str:
    """The text on one line, without what steers a terminal and without characters that show nothing."""
    plain = _TERMINAL.sub(" ", text)
    return " ".join("".join(sign if _is_shown(sign) else " " for sign in plain).split())


def beginning(text: str, most: int) -> str:
    """The beginning of a text as `one_line`: at most so many characters, if possible whole words."""
    line = one_line(text[: 20 * most])
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    word = cut.rfind(" ") if line[most - 1] != " " else -1
    return f"{(cut[:word] if word >= most - 1 - WORD_CHARACTERS else cut).rstrip()}…"


def _is_shown(sign: str) -> bool:
    """Whether a character shows something, and does nothing else."""
    return unicodedata.category(sign)[0] != "C" or sign in _JOINERS
