"""Whether a text has nothing of what it was asked for: none of the words that say what its question is about.

    off_topic("How cold should a cask of ale be kept?", "The treaty of 1648 ended a war of thirty years, …")      True
    off_topic("How cold should a cask of ale be kept?", "Casks are kept at twelve degrees, …")                   False

Words are compared by their first letters, so that the forms of a word are the same; the frequent words of the language,
which are spaCy's, are left out. Not judged, so False: questions with few other words, short texts, texts in another
language than their question's, and languages that write without blanks or of which spaCy has no list.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec

from tasks.text.audits.language import language_of

READ_CHARACTERS = 20_000
LEAST_ASKED = 4  # different words of a question that are not frequent
LEAST_SAID = 15  # likewise of a text
STEM = 5  # first letters by which words are compared

_WORD = re.compile(r"[^\W\d_]{3,}")
_WITHOUT_BLANKS = ("ja", "km", "ko", "lo", "my", "th", "zh")


def off_topic(question: str, text: str) -> bool:
    """Whether a text shares none of the words of its question that are not frequent."""
    language = language_of(text)
    if language is None or language in _WITHOUT_BLANKS or language_of(question) not in (None, language):
        return False
    frequent = _frequent(language)
    asked, said = _stems(question, frequent), _stems(text, frequent)
    return bool(frequent) and len(asked) >= LEAST_ASKED and len(said) >= LEAST_SAID and not asked & said


def _stems(text: str, frequent: frozenset[str]) -> set[str]:
    """The first STEM letters of each word of the text, but for the frequent ones."""
    return {word[:STEM] for word in _WORD.findall(text[:READ_CHARACTERS].casefold()) if word not in frequent}


@cache
def _frequent(language: str) -> frozenset[str]:
    """The frequent words of a language (ISO 639-1 code); none if spaCy has no such language."""
    if find_spec(f"spacy.lang.{language}") is None:
        return frozenset()
    from spacy.util import get_lang_class

    return frozenset(word.casefold() for word in get_lang_class(language).Defaults.stop_words)
