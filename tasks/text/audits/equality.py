"""Whether two texts are the same but for how they are set.

equal_texts("**Tin** melts at -5.5 °C!", "tin melts  at -5.5 °c")    True
equal_texts("Tin melts at -5.5 °C.", "Tin melts at 5.5 °C.")         False: a sign inside counts
"""

from __future__ import annotations

import re
import unicodedata

_EMPHASIS = re.compile(r"(?<!\w)[*_`~]+|[*_`~]+(?!\w)|^ {0,3}#{1,6} ", re.MULTILINE)
_QUOTES = re.compile("[\"'`“”‘’„‚«»「」]")
_STOPS = re.compile(r"[.,;:!?…。、]+(?=\s|\Z)")


def equal_texts(first: str, second: str) -> bool:
    """Whether two texts are equal but for case, white space, quotation marks, stops at the end of words, Markdown's
    emphasis and headings, and Unicode's compatibility forms. Texts that are nothing else are equal if they are the
    same.
    """
    if first == second:
        return True
    one, other = _bare(first), _bare(second)
    return one == other and one != ""


def _bare(text: str) -> str:
    """The words of a text in NFKC and lower case, with one blank between them, without what `equal_texts` ignores."""
    plain = _EMPHASIS.sub("", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_STOPS.sub(" ", _QUOTES.sub("", plain)).split())
