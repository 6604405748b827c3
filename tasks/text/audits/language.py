"""The language a text is written in, as far as its prose shows it.

    language_of("Die Fässer lagern bei zwölf Grad in einem Keller unter dem Brauhaus.")    de
    language_of("x = [n ** 2 for n in range(10)]  # 42")                                  None: undetermined
    other_language("How cold is a cask?", "Die Fässer lagern bei zwölf Grad …")            de
    other_language("How cold is a cask? Answer in German.", "Die Fässer lagern …")         None

Code, quotations, links and markup do not count, and too little of the rest is undetermined. The judgement is that of
`py3langid`, a naive Bayes classifier of byte sequences, over the languages in LANGUAGES.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

READ_CHARACTERS = 2_000  # of a text; prose beyond them is not read
PROSE_CHARACTERS = 480  # of the prose; more makes no judgement surer
LEAST_LETTERS = 40
LEAST_UNSPACED = 12
SURE = 0.9
HALVES = 240  # letters from which both halves of the prose must be of the same language

LANGUAGES = [
    "af", "ar", "az", "be", "bg", "bn", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "eu", "fa",
    "fi", "fr", "ga", "gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "kk", "km", "kn",
    "ko", "la", "lt", "lv", "mk", "ml", "mr", "ms", "ne", "nl", "nn", "no", "pa", "pl", "pt", "ro", "ru", "si",
    "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "th", "tl", "tr", "uk", "ur", "uz", "vi", "zh",
]  # fmt: skip
_ALIKE = (  # groups of languages that are hard to tell apart
    ("no", "nn", "da", "sv"),
    ("hr", "sr", "bs", "sl", "mk", "bg"),
    ("cs", "sk"),
    ("gl", "pt", "es", "ca"),
    ("id", "ms"),
    ("az", "tr"),
    ("hi", "mr", "ne"),
    ("af", "nl"),
)
_NAMES = {
    "ar": "arabic|arabisch|arabe|árabe|العربية", "bg": "bulgarian", "cs": "czech|tschechisch", "da": "danish|dänisch",
    "de": "german|deutsch|allemand|alemán|tedesco|alemão|duits|niemiec\\w+|немецк\\w+|德语|德文|ドイツ語|독일어",
    "el": "greek|griechisch|grec|griego", "en": "english|englisch|anglais|inglés|inglese|inglês|engels|angielsk\\w+"
    "|английск\\w+|англійськ\\w+|ingilizce|الإنجليزية|अंग्रेज़ी|अंग्रेजी|英语|英文|英語|영어",
    "fa": "persian|farsi", "es": "spanish|spanisch|espagnol|español|castellano|spagnolo|espanhol|spaans"
    "|испанск\\w+|西班牙语",
    "fi": "finnish", "fr": "french|französisch|français|francés|francese|francês|frans"
    "|francusk\\w+|французск\\w+|法语|法文|フランス語|프랑스어",
    "he": "hebrew", "hi": "hindi|हिन्दी|हिंदी", "hu": "hungarian", "id": "indonesian", "it": "italian|italienisch"
    "|italien|italiano", "ja": "japanese|japanisch|japonais|japonés|日本語|日语|日文", "ko": "korean|koreanisch|한국어",
    "la": "latin|latein|latín|latino", "no": "norwegian", "nl": "dutch|niederländisch|néerlandais|holandés|nederlands",
    "pl": "polish|polnisch|polonais|polaco|polsk\\w+", "pt": "portuguese|portugiesisch|portugais|portugués|português",
    "ro": "romanian", "ru": "russian|russisch|russe|ruso|русск\\w+", "sv": "swedish|schwedisch", "th": "thai",
    "tr": "turkish|türkisch|turc|turco|türkçe", "uk": "ukrainian|ukrainisch|українськ\\w+", "vi": "vietnamese",
    "zh": "chinese|mandarin|chinesisch|chinois|chino|cinese|中文|汉语|漢語",
}  # fmt: skip
_MAY_HAVE_FENCE = re.compile(r"^ {0,3}(```|~~~)[^\n]*\n.*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(
    r"^(?: {0,3}>| {4}|\t|\|)[^\n]*$"  # quoted lines, indented code, tables
    r"|`[^`\n]{1,400}`|<[^<>\n]{1,400}>|https?://\S{1,400}|\$[^$\n]{1,400}\$|\]\([^)\s]{0,400}\)|\b\w[\w.-]*@\S{1,80}"
    r"|[\"“„«»][^\"“”„«»\n]{1,400}[\"”“»«]|「[^」\n]{1,400}」|(?<!\w)‘[^’\n]{1,400}’"
    r"|(?<!\S)[^\s\d_/\\{}=#@]{0,80}[\d_/\\{}=#@]\S*",
    re.MULTILINE,
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u1780-\u17ff]")
_NOT_LETTER = re.compile(r"[\W\d_]+")


def language_of(text: str) -> str | None:
    """The language of a text's prose, as ISO 639-1 code; None if there is too little of it, or it is of several."""
    prose = _prose(text)
    letters = len(_NOT_LETTER.sub("", prose))
    unspaced = len(_UNSPACED.findall(prose)) if not prose.isascii() else 0
    if letters < (LEAST_UNSPACED if 2 * unspaced > letters else LEAST_LETTERS):
        return None
    if letters < HALVES:
        return _classified(prose)
    middle = prose.find(" ", len(prose) // 2)
    middle = len(prose) // 2 if middle < 0 else middle
    first = _classified(prose[:middle])
    return first if first == _classified(prose[middle:]) else None


def other_language(question: str, text: str, asked: str | None = None) -> str | None:
    """The language of a text if it is another than it should be: than `asked`, or without that than its question's and
    all that the question names. None where one of the two is undetermined, and for languages that are hard to tell
    apart, such as Danish and Norwegian.
    """
    found, expected = language_of(text), asked or language_of(question)
    if found is None or expected is None:
        return None
    alike = {each for group in _ALIKE if found in group for each in group} | {found}
    if expected in alike or (asked is None and alike & named_languages(question)):
        return None
    return found


def named_languages(question: str) -> set[str]:
    """The languages that a question names, as ISO 639-1 codes: it may ask for a text in any of them."""
    plain = question.casefold()
    return {language for language, names in _names().items() if names.search(plain)}


def _prose(text: str) -> str:
    """The text without what is of no language: code, markup, links, quotations, and words with digits or signs. At most
    PROSE_CHARACTERS characters.
    """
    text = text[:READ_CHARACTERS]
    if "```" in text or "~~~" in text:
        text = _MAY_HAVE_FENCE.sub(" ", text)
    return " ".join(_NOT_PROSE.sub(" ", text).split())[:PROSE_CHARACTERS]


def _classified(prose: str) -> str | None:
    """The language of prose; None if the classifier is not sure."""
    language, probability = _identifier().classify(prose)
    return str(language) if probability >= SURE else None


@cache
def _identifier() -> Any:
    """The classifier, restricted to LANGUAGES; loaded once (about a second)."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier


@cache
def _names() -> dict[str, re.Pattern[str]]:
    """Language -> pattern of its names in a question."""
    return {
        language: re.compile(
            "|".join(rf"(?<!\w)(?:{name})(?!\w)" if name.isascii() else name for name in names.split("|"))
        )
        for language, names in _NAMES.items()
    }
