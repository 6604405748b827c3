"""Quotations in remarks on a text: which stand in the text, and the sentences around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tasks.text.copies.shingles import words
from tasks.text.prose import sentences_of

QUOTATION = re.compile(r"“.+?”(?!\w)|`[^`\n]+`|\"[^\"\n]{3,}\"")
_SUGGESTED = re.compile(r"\b(?:such as|like|e\.g\.|add|write|use|name|call|raise|with|to|instead of)[ :,]*\Z", re.I)


def sentences_and_bare(text: str) -> Iterator[tuple[str, str]]:
    """(sentence, the same with its quotations blanked out)."""
    bare = QUOTATION.sub(lambda found: found[0][0] + "_" * (len(found[0]) - 2) + found[0][-1], text)
    for line in re.finditer(r"[^\s*-].*", bare):
        yield from ((text[slice(*span)], bare[slice(*span)]) for span in sentences_of(bare, *line.span()))


@lru_cache(maxsize=1_024)
def folded(text: str) -> str:
    """The words of a text in lower case, with a blank before, between and behind them."""
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])


def quotations_found(feedback: str, text: str) -> list[bool]:
    """Whether each quotation of the feedback stands in the text; what it suggests to write is none. One that ends in …
    may be cut off within a word.
    """
    lines = feedback.splitlines()
    found = [
        each[0] for line in lines for each in QUOTATION.finditer(line) if not _SUGGESTED.search(line[: each.start()])
    ]
    return [folded(quote)[: -1 if "…" in quote[-3:] else None] in folded(text) for quote in found]


def is_drawn_from(text: str, extraction: str) -> bool:
    """Whether an extraction has words, and at least half of them stand in the text that it is to be drawn from."""
    own = set(words(extraction))
    return 2 * len(own & set(words(text))) >= len(own) > 0
