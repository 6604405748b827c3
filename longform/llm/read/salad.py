"""Word salad: words in a row that make no sentence.

    getting never running however of the seven never table of matrix the however …

Two signs, of which any text has at most traces. Words that cannot follow each other, such as `the of`, `a is` or `of
and`, are common where words are drawn by chance; these are known for English, which shows by its function words. And
lines of many words without any punctuation are no prose of a model, unless they are of English whose function words
stand as often, and as close to each other, as in sentences; scripts that have few or no marks, or no blanks between
words, are left out.

Not found: salads with punctuation of content words alone, or of another language than English; and well-formed
nonsense.
"""

from __future__ import annotations

import itertools
import re

READ_CHARACTERS = 6_000
LEAST_WORDS = 40
LEAST_ENGLISH = 0.08  # share of function words from which words may be English
LEAST_IMPOSSIBLE = 3  # pairs
MOST_IMPOSSIBLE = 0.1  # share of the pairs, begun by a word of _OPENERS, that cannot be
LEAST_BARE, LEAST_BARE_FOREIGN = 50, 80  # words of a line without punctuation
WORDS_A_MARK = 40  # in a line with fewer marks than this, sentences have no ends
LEAST_FUNCTION = 0.3  # share of function words of English prose, at least
MOST_BARE_IMPOSSIBLE = 1  # pair of a bare line
MOST_IN_RUNS = 0.25  # share of the words of a bare line that stand in runs of content words
LONGEST_RUN = 6  # content words that follow each other in English prose without punctuation, at most

_VERBS = "is are was were be been has have had does did could would should"
_ARTICLES = frozenset(("the", "a", "an", "my", "your", "our", "their"))
_OPENERS = _ARTICLES | {"of", "at", "from", "into", "with"}
_NEVER = f"{_VERBS} and or but also of because if than he she they we however therefore"
_NEVER_AFTER_ARTICLES = frozenset(
    f"{_NEVER} the a an to in on for with from at by as its his her him them me this that these those who while"
    " although though until during".split()
)
_NEVER_AFTER_PREPOSITIONS = frozenset(_NEVER.split())
_IMPOSSIBLE = frozenset(
    (one, other)
    for one in _OPENERS
    for other in (_NEVER_AFTER_ARTICLES if one in _ARTICLES else _NEVER_AFTER_PREPOSITIONS)
) - {("a", "while")}
_OTHERS = (
    "it not no which what when where so such do can will may might must i you us about after before between more most"
    " other some any all one there only how up out over under both each few own same too just through since never very"
    " then"
)
_FUNCTION = _OPENERS | _NEVER_AFTER_ARTICLES | frozenset(_OTHERS.split())
_UNMARKED = re.compile(r"[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_MARK = re.compile(r"[^\w\s'’-]")
_STOPS = ".,;:!?。，、؟،।"


def may_be_salad(text: str) -> bool:
    """Whether a text may be a salad: a quick look, which lets nothing that `is_salad` finds pass."""
    tokens = text[:READ_CHARACTERS].split()
    if len(tokens) < LEAST_WORDS:
        return False
    return _impossible(tokens) >= LEAST_IMPOSSIBLE or any(
        sum(map(line.count, _STOPS)) * WORDS_A_MARK <= line.count(" ")
        for line in text[:READ_CHARACTERS].splitlines()
        if line.count(" ") >= LEAST_BARE - 1
    )


def is_salad(prose: str) -> bool:
    """Whether a text is words in a row without sentences. `prose`: without code, quotations and tables."""
    lines = [line for line in prose[:READ_CHARACTERS].splitlines() if line.count(" ") >= 2]
    words = [_WORD.findall(line) for line in lines]
    total = sum(map(len, words))
    return total >= LEAST_WORDS and (_has_impossible_pairs(lines, total) or _is_bare(lines, words, total))


def may_quote(text: str, source: str) -> bool:
    """Whether a source that a salad is made from has words in no order itself: half as many impossible pairs, or a bare
    line that is no sentence.
    """
    lines = [line for line in source.splitlines() if line.count(" ") >= 2]
    impossible = sum(_impossible(line.split()) for line in lines)
    if 2 * impossible >= max(_impossible(text[:READ_CHARACTERS].split()), 1):
        return True
    words = (_WORD.findall(line) for line in lines)
    return any(
        _has_no_marks(line, len(of)) and _is_no_sentence([word.lower() for word in of])
        for line, of in zip(lines, words, strict=True)
    )


def _has_impossible_pairs(lines: list[str], total: int) -> bool:
    """Whether too many words follow each other that cannot, of lines in English."""
    tokens = [line.split() for line in lines]
    impossible = sum(map(_impossible, tokens))
    begun = sum(token in _OPENERS for line in tokens for token in line)
    functions = sum(token in _FUNCTION for line in tokens for token in line)
    enough = impossible >= LEAST_IMPOSSIBLE and impossible >= MOST_IMPOSSIBLE * begun
    return enough and functions >= LEAST_ENGLISH * total


def _impossible(tokens: list[str]) -> int:
    """The number of pairs of tokens that cannot follow each other."""
    return sum(map(_IMPOSSIBLE.__contains__, itertools.pairwise(tokens)))


def _is_bare(lines: list[str], words: list[list[str]], total: int) -> bool:
    """Whether most words stand in long lines without punctuation that are no English sentences."""
    bare = (of for line, of in zip(lines, words, strict=True) if _has_no_marks(line, len(of)))
    return 2 * sum(len(of) for of in bare if _is_no_sentence([word.lower() for word in of])) > total


def _has_no_marks(line: str, words: int) -> bool:
    """Whether a line of so many words has next to no punctuation, in a script that has some."""
    return words >= LEAST_BARE and len(_MARK.findall(line)) * WORDS_A_MARK < words and _UNMARKED.search(line) is None


def _is_no_sentence(words: list[str]) -> bool:
    """Whether the words of a line without punctuation are no English sentence. Few words of another language may be a
    sentence.
    """
    functions = sum(word in _FUNCTION for word in words)
    if functions < LEAST_ENGLISH * len(words) and len(words) < LEAST_BARE_FOREIGN:
        return False
    if functions < LEAST_FUNCTION * len(words) or _impossible(words) > MOST_BARE_IMPOSSIBLE:
        return True
    return _in_runs(words) >= MOST_IN_RUNS * len(words)


def _in_runs(words: list[str]) -> int:
    """The number of words in runs of more than LONGEST_RUN words none of which is an English function word."""
    number, run = 0, 0
    for word in (*words, "the"):
        if word not in _FUNCTION:
            run += 1
            continue
        number += run if run > LONGEST_RUN else 0
        run = 0
    return number
