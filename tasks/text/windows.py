"""Windows of tokens over a text, each sharing some with the one before it: passages of long documents.

The 1,000 tokens with 200 of overlap are ExpertQA's (appendix, on retrieval), which does not name its tokenizer. Here
it has a name: `spacy-en`, the English tokenizer of spaCy without any model, or an encoding of tiktoken (cl100k_base).

`spacy-en` cuts a text word by word: each run without white space is what spaCy makes of it alone, so that a run seen
before need not be looked at again, and memory does not grow with the text. In a whole text spaCy differs where signs of
its special words meet over a blank (`tea'' ''tea`), which prose does not hold. A run of more than RUN_CHARACTERS
is none of its words (a key, a table, a script written without blanks) and would cost it the square of its length:
every RUN_TOKEN characters of it count as a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

from longform.errors import UsageError

SPACY = "spacy-en"
RUN_CHARACTERS, RUN_TOKEN = 200, 5
REMEMBERED_CHARACTERS = 40
FORGOTTEN_AFTER = 200_000

Span = tuple[int, int]
Tokens = Callable[[str], Iterator[Span]]
_RUN = re.compile(r"\S+")


def windows(text: str, *, tokenizer: str, size: int = 1000, overlap: int = 200) -> list[Span]:
    """(start, end) in characters of windows of `size` tokens, of which each shares `overlap` with the next.

    Every token is in some window; the last window may be shorter. A short text is one window, an empty one none.
    """
    check_windows(size, overlap)
    if tokenizer == SPACY and 0 < len(text) <= size:
        return [(0, len(text))]  # it has no more tokens than characters
    starts, ends, seen, end, step = [], [], 0, 0, size - overlap
    for start, end in check_tokenizer(tokenizer)(text):
        if seen % step == 0:
            starts.append(start)
        seen += 1
        if seen >= size and (seen - size) % step == 0:
            ends.append(end)
    if seen > (size + (len(ends) - 1) * step if ends else 0):
        ends.append(end)
    return list(zip(starts, ends, strict=False))  # behind the last window others could have begun


def check_windows(size: int, overlap: int) -> None:
    """Raise UsageError where windows would not move on."""
    if not 0 <= overlap < size:
        raise UsageError(
            f"Windows of {size:,} tokens cannot share {overlap:,}: the overlap must be less than the size."
        )


def check_tokenizer(name: str) -> Tokens:
    """The tokens of a text as spans of characters; UsageError where there is no such tokenizer here."""
    return _english().tokens if name == SPACY else _tiktoken(name)


# ---------------------------------------------------------------- spaCy's English


@cache
def _english() -> _English:
    return _English()


class _English:
    """spaCy's tokenizer, begun anew after so many words, as it never forgets one."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        import spacy

        self._cut: Any = spacy.blank("en").tokenizer
        self._known: dict[str, list[Span]] = {}
        self._asked = 0

    def tokens(self, text: str) -> Iterator[Span]:
        """A run of white space is a token too, but for the one blank that ends the word before it."""
        end = 0
        for run in _RUN.finditer(text):
            start = run.start()
            if end < start:
                yield from _blank(text, end, start)
            for first, last in self._words(run[0]):
                yield start + first, start + last
            end = run.end()
        yield from _blank(text, end, len(text))

    def _words(self, run: str) -> list[Span]:
        known = self._known.get(run)
        if known is not None:
            return known
        if len(run) > RUN_CHARACTERS:
            return [(at, min(at + RUN_TOKEN, len(run))) for at in range(0, len(run), RUN_TOKEN)]
        if self._asked >= FORGOTTEN_AFTER:
            self._renew()
        self._asked += 1
        words = [(token.idx, token.idx + len(token)) for token in self._cut(run)]
        if len(run) <= REMEMBERED_CHARACTERS:
            self._known[run] = words
        return words


def _blank(text: str, start: int, end: int) -> Iterator[Span]:
    start += bool(start) and text.startswith(" ", start, end)
    if start < end:
        yield start, end


# ---------------------------------------------------------------- tiktoken


@cache
def _tiktoken(name: str) -> Tokens:
    try:
        encoding = import_module("tiktoken").get_encoding(name)
    except ImportError:
        raise UsageError(
            f'The tokenizer "{name}" needs tiktoken, which is not installed: install it with `pip install tiktoken`, '
            f'or use "{SPACY}".'
        ) from None
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or ["?"])[0][:200]
        raise UsageError(
            f'The tokenizer "{name}" of tiktoken cannot be loaded ({reason}): put its file into the folder that '
            f'TIKTOKEN_CACHE_DIR names, or use "{SPACY}".'
        ) from None
    return lambda text: _spans(encoding.decode_with_offsets(encoding.encode_ordinary(text))[1], len(text))


def _spans(starts: list[int], length: int) -> Iterator[Span]:
    """From where tokens start to where the next one does; tokens that share a character each have all of it."""
    return ((start, max(start + 1, after)) for start, after in pairwise([*starts, length]))
