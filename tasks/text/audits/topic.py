"""Whether a text has nothing of what it was asked for: none of the words that say what its question is about.

    off_topic("How cold should a cask of ale be kept?", "The treaty of 1648 ended a war of thirty years, …")      True
    off_topic("How cold should a cask of ale be kept?", "Casks are kept at twelve degrees, …")                   False

A short text is told alone where it speaks of itself, its asker or the question, as those that decline do ("I would
rather talk of something else", "This prompt cannot be answered"), in English.

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
LEAST_FREQUENT = 2
SHORT_WORDS = 40
STEM = 5  # first letters by which words are compared

_WORD = re.compile(r"[^\W\d_]{3,}")
_SPEAKS_OF_ITSELF = re.compile(
    r"\bI\b|\b(?:my|me|we|our|us|assistant|model|questions?|request(?:ed|s)?|prompts?|query|queries|topics?|subject"
    r"|answer(?:ing|ed|s)?|respond(?:ing)?|responses?|comply|help|policy|policies|guidelines|rules)\b",
    re.IGNORECASE,
)
_WITHOUT_BLANKS = ("ja", "km", "ko", "lo", "my", "th", "zh")


def off_topic(question: str, text: str) -> bool:
    """Whether a text shares none of the words of its question that are not frequent."""
    is_short = text.count(" ") < SHORT_WORDS
    language = language_of(text) or (_language_of_short(question) if is_short else None)
    if language is None or language in _WITHOUT_BLANKS or language_of(question) not in (None, language):
        return False
    frequent = _frequent(language)
    asked, said = _stems(question, frequent), _stems(text, frequent)
    if not frequent or len(asked) < LEAST_ASKED or asked & said:
        return False
    return len(said) >= LEAST_SAID or (is_short and language == "en" and _SPEAKS_OF_ITSELF.search(text) is not None)


def _language_of_short(question: str) -> str | None:
    """The language of a question, which may be of few words: English by two frequent ones."""
    frequent = sum(word in _frequent("en") for word in question.casefold().split())
    return language_of(question) or ("en" if frequent >= LEAST_FREQUENT else None)


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
