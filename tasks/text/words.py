"""The words of a text in any script, and where two texts differ in them.

A word is a run of letters, digits and their marks. Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without
blanks between words: there each character (with the marks on it) counts as one.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple
from unicodedata import category, normalize

Pairs = list[tuple[int, int]]

HAN_AND_KANA = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
CLUSTERED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
HANGUL = "\uac00-\ud7af"
QUOTES = "\"'`´“”„‟‘’‚‛«»‹›「」『』〝〞＂＇"
UNSEEN = {
    point: None
    for low, high in ((0xAD, 0xAD), (0x180B, 0x180F), (0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E),
                      (0x2060, 0x206F), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xE0000, 0xE0FFF))
    for point in range(low, high + 1)
}  # fmt: skip
_FOLDED_AWAY = {point: None for point in UNSEEN if not 0xFE00 <= point <= 0xFE0F}  # which choose between emoji
_LAST_MARK = 0x11FFF
_JOINERS = "\u200c\u200d"
_WITHOUT_BLANKS = f"[{HAN_AND_KANA}\u3001-\u3003\u3008-\u301f\uff00-\uff20\uff3b-\uff40\uff5b-\uff65]"
_BLANK_BESIDE_HAN = re.compile(rf"(?<={_WITHOUT_BLANKS}) | (?={_WITHOUT_BLANKS})")
_HAN = re.compile(_WITHOUT_BLANKS)
_QUOTE = re.compile(rf"«\s|\s»|‹\s|\s›|``|''|[{QUOTES}]")
_LATIN_OR_DIGIT = re.compile(r"[a-zA-Z0-9_\xaa-\u02af\u1d00-\u1dbf\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff]")
_FOREIGN = 0.2
_COMPARED_BITS = 400_000_000
_NEAR = 3


class Difference(NamedTuple):
    """Words old[start:end] of one text that stand as new[other_start:other_end] in another; either may be empty."""

    start: int
    end: int
    other_start: int
    other_end: int


class Token(NamedTuple):
    """A word or another sign of a text, from `start` to `end`. `key`: what it is compared by."""

    start: int
    end: int
    key: str


@cache
def word_pattern(*, hangul_by_letter: bool = False) -> re.Pattern[str]:
    """The pattern of a word; an underscore is part of one. `hangul_by_letter`: each syllable of Korean is a word."""
    single = HAN_AND_KANA + (HANGUL if hangul_by_letter else "")
    marks = f"[{_marks()}{_JOINERS}]"
    return re.compile(
        rf"(?=\w)[{single}{CLUSTERED}]{marks}*|[^\W{single}{CLUSTERED}](?:[^\W{single}{CLUSTERED}]|{marks})*"
    )


@cache
def _marks() -> str:
    """The characters that are marks on letters, as ranges of a character class."""
    codes = [code for code in range(0x300, _LAST_MARK) if category(chr(code))[0] == "M"]
    runs = ([code for _, code in run] for _, run in groupby(enumerate(codes), lambda found: found[1] - found[0]))
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


@cache
def _token_pattern() -> re.Pattern[str]:
    return re.compile(rf"{word_pattern().pattern}|\S")


def words(text: str) -> list[str]:
    """The words of a text in order, composed (NFC), as they are written."""
    return [normalize("NFC", word) for word in word_pattern().findall(text)]


def folded(text: str) -> str:
    """The text but for what is no edit when it changes.

    Composed (NFC), all quotation marks and apostrophes as one sign, runs of white space as one blank: none at the ends,
    inside of guillemets, and beside Chinese or Japanese; no characters that are not seen (UNSEEN, for `translate`: soft
    hyphens, marks of direction), but for variants of emoji and the joiners that shape Arabic and Indic letters.
    """
    if text.isascii():
        return " ".join(_QUOTE.sub("'", text).split())
    return _BLANK_BESIDE_HAN.sub("", " ".join(_QUOTE.sub("'", normalize("NFC", text.translate(_FOLDED_AWAY))).split()))


def tokens(text: str, start: int = 0, end: int = sys.maxsize) -> list[Token]:
    """The words of text[start:end] and its other signs but white space, in order.

    The key is the token as `folded`, with a blank before it where a blank makes a difference.
    """
    found: list[Token] = []
    for match in _token_pattern().finditer(text, start, min(end, len(text))):
        key = folded(match[0])
        spaced = found and found[-1].end < match.start() and not (_HAN.match(key) or _HAN.match(found[-1].key[-1:]))
        found.append(Token(*match.span(), f" {key}" if spaced else key))
    return found


def is_latin(text: str) -> bool:
    """Whether a text is in Latin script, but for at most _FOREIGN of its words, such as names and quotations."""
    if text.isascii():
        return True
    found = word_pattern().findall(text)
    return sum(not _LATIN_OR_DIGIT.match(word) for word in found) <= _FOREIGN * len(found)


# ---------------------------------------------------------------- differences


def differences(mine: Sequence[str], theirs: Sequence[str]) -> list[Difference] | None:
    """Where two lists of words differ, in order: runs of words that are removed, put in, or replaced by others.

    Runs with at most three common words between them are one. None if the lists are too long to be compared.
    """
    head = common_prefix_length(mine, theirs)
    tail = common_prefix_length(mine[head:][::-1], theirs[head:][::-1])
    n, m = len(mine) - tail, len(theirs) - tail
    if (n - head) * (m - head) > _COMPARED_BITS:
        return None
    common = common_subsequence(mine[head:n], theirs[head:m])
    found: list[Difference] = []
    i, j = head, head
    for a, b in [*((head + a, head + b) for a, b in common), (n, m)]:
        if (i, j) != (a, b):
            found = _with(found, Difference(i, a, j, b))
        i, j = a + 1, b + 1
    return found


def _with(found: list[Difference], new: Difference) -> list[Difference]:
    """The differences and a further one, which is joined to the last of them if that is near."""
    if found and new.start - found[-1].end <= _NEAR:
        last = found.pop()
        new = Difference(last.start, new.end, last.other_start, new.other_end)
    found.append(new)
    return found


def common_prefix_length(first: Sequence[str], second: Sequence[str]) -> int:
    """How many characters, words or sentences two sequences have in common at their beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def subsequence_rows(first: Sequence[str], second: Sequence[str]) -> Iterator[int]:
    """The table of longest common subsequences as bit vectors: one for each prefix of `first`, the empty one included.

    A row is one number with a bit for each item of `second`: 0 where the subsequence grows (Hyyrö, 2004).
    """
    masks: dict[str, int] = defaultdict(int)
    for j, key in enumerate(second):
        masks[key] |= 1 << j
    ones = row = (1 << len(second)) - 1
    yield row
    for key in first:
        taken = row & masks[key]
        row = ((row + taken) | (row - taken)) & ones
        yield row


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """(i, j) of the items in a longest common subsequence, i in `first` and j in `second`, in order."""
    rows = list(subsequence_rows(first, second))
    found: Pairs = []
    i, j = len(first), len(second)
    while i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
        else:
            i -= 1
            if rows[i] >> (j - 1) & 1:
                j -= 1
                found.append((i, j))
    return found[::-1]
