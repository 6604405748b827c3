"""Sentences as spaCy 3.8 finds them (`spacy.blank("en")` with its `sentencizer`), 11 times as fast.

spaCy cuts each word by itself, and a sentence begins at the first token after a sentence mark that is no punctuation.
So only words that hold a mark, and the words right after them, are cut into tokens at all, and each word is cached.
Words depend on each other only in emoticons and abbreviations that seem to reach over a blank (`o. O`). They are rare;
a text that holds one beside a word with a mark is cut into tokens as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import category

from tasks.text.english import English, english

Span = tuple[int, int]
Spans = list[Span]

COMMON_MARKS = ".!?"  # to look for these three alone takes a twentieth of the time
REMEMBERED_WORDS = 200_000
REMEMBERED_SIGNS = 40  # of a word; longer ones come once
_WORD = re.compile(r"\S++")
REACH = 24  # signs; no emoticon with blanks in it is longer


class Word(NamedTuple):
    """What one word means for the sentences around it. `starts`: offsets in the word at which sentences begin.

    `marked`: a sentence has ended in it, and the next has not begun. `joins`: it holds an emoticon or abbreviation,
    whose tokens may depend on the words beside it.
    """

    starts: tuple[int, ...]
    marked: bool
    joins: bool


def sentence_spans(text: str) -> Spans:
    """(start, end) of each sentence, in order: `(s.start_char, s.end_char)` of `nlp(text).sents`.

    A sentence begins with the white space before it; if that begins with a blank, without this (except at the beginning
    of the text). Time is linear in the text, whatever it holds, and there is no limit of length (spaCy's is 1,000,000
    characters).
    """
    return _shared().spans(text)


def splitter() -> Sentences:
    """A new splitter, which has no words cached."""
    from spacy.pipeline import Sentencizer

    return Sentences(english(), frozenset(Sentencizer.default_punct_chars))


_shared = cache(splitter)


class Sentences:
    """Splits texts into sentences. It caches up to `max_words` words, so a process should keep one.

    `marks`: the characters that end sentences.
    """

    def __init__(self, cutter: English, marks: frozenset[str], max_words: int = REMEMBERED_WORDS) -> None:
        self._cutter, self._marks = cutter, marks
        self._rare = marks - set(COMMON_MARKS)
        self._common_marks, self._all_marks = _from_mark(COMMON_MARKS), _from_mark(marks)
        self._white = re.compile(r"\s++").match
        self._reaching = _reaching(cutter.phrases)
        self._remembered = lru_cache(max_words)(self._read_word)

    def spans(self, text: str) -> Spans:
        """(start, end) of each sentence, in order; [] for "".

        Of white space between two sentences a blank at its beginning is in none, the rest in the later. All white space
        at the beginning of the text is in the first. At the end of the text a single blank is in none; other white
        space there is a sentence of its own, if a sentence ended before it.
        """
        starts = self._starts(text)
        ends = [start - 1 if text[start - 1] == " " else start for start in starts[1:]]
        single = len(text) > 1 and text[-1] == " " and not text[-2].isspace()
        return list(zip(starts, [*ends, len(text) - single], strict=True)) if text else []

    def _starts(self, text: str) -> list[int]:
        """Offsets at which sentences begin, in order; the first is 0."""
        starts = [0]
        at = 0
        marked = self._common_marks if text.isascii() or self._rare.isdisjoint(text) else self._all_marks
        while match := marked.search(text, at):
            begin = _word_start(text, at, match.start())
            at = self._follow(text, begin, match.end(), starts)
            if at < 0:
                return [0, *self._of_tokens(text, self._cutter.tokens(text), marked=False)[0]]
        return starts

    def _follow(self, text: str, begin: int, end: int, starts: list[int]) -> int:
        """Append to `starts` where sentences begin in text[begin:end], a word with a sentence mark, and after it.

        Returns the offset from which to look for the next mark; -1: the text must be cut into tokens as a whole, since
        an emoticon or abbreviation may reach over a blank.
        """
        marked, size = False, len(text)
        while True:
            read = self._remembered if end - begin <= REMEMBERED_SIGNS else self._read_word
            word = read(text[begin:end], marked)
            if word.joins and self._reaches(text, begin, end):
                return -1
            for start in word.starts:  # mostly none: a comprehension costs more
                starts.append(begin + start)
            if not word.marked or end == size:
                return end
            begin = end + 1
            if text[end] != " " or (begin < size and text[begin].isspace()):
                white = self._white(text, end)  # of more than one blank: a token, with which a sentence begins
                assert white
                starts.append(end + (text[end] == " "))
                return white.end()
            if begin == size:
                return begin
            sign = text[begin]
            if sign.isalnum() or not (sign in self._marks or category(sign)[0] == "P"):  # whatever its tokens
                starts.append(begin)
                return begin
            marked, following = True, _WORD.match(text, begin)
            assert following
            end = following.end()

    def _read_word(self, word: str, marked: bool) -> Word:
        """What a word means for the sentences around it.

        `marked`: a sentence has ended before it, and the next has not begun.
        """
        raw = self._cutter.raw(word)
        tokens = self._cutter.rejoined(word, raw)
        starts, marked = self._of_tokens(word, tokens, marked=marked)
        return Word(tuple(starts), marked, tokens != raw)

    def _of_tokens(self, text: str, tokens: Spans, *, marked: bool) -> tuple[list[int], bool]:
        """(offsets at which sentences begin, whether a sentence has ended after which none has begun).

        By the sentencizer's rule: after a mark a sentence begins at the first token that is neither mark nor
        punctuation. `tokens`: (start, end) in `text`; `marked`: a sentence has ended before them, and the next has not
        begun.
        """
        starts = []
        for start, end in tokens:
            token = text[start:end]
            if token in self._marks:
                marked = True
            elif marked and any(category(sign)[0] != "P" for sign in token):
                starts.append(start)
                marked = False
        return starts, marked

    def _reaches(self, text: str, begin: int, end: int) -> bool:
        """Whether an emoticon or abbreviation may reach over the blank before or after the word text[begin:end]."""
        return any(self._reaching.search(text, max(0, blank - REACH), blank + 1 + REACH) for blank in (begin - 1, end))


def _from_mark(marks: Iterable[str]) -> re.Pattern[str]:
    """A pattern for one of the marks and the rest of its word."""
    return re.compile(f"[{''.join(map(re.escape, sorted(marks)))}]\\S*+")


def _word_start(text: str, at: int, mark: int) -> int:
    """Where the word begins that has a mark at the offset `mark`; `at` at the earliest."""
    if mark == at or text[mark - 1].isspace():
        return mark
    return mark - len(text[at:mark].rsplit(None, 1)[-1])


def _reaching(phrases: list[tuple[str, ...]]) -> re.Pattern[str]:
    """A pattern for phrases with a blank between two of their tokens, and one blank or none between the others."""
    splits = ((phrase[:at], phrase[at:]) for phrase in phrases for at in range(1, len(phrase)))
    return re.compile("|".join(f"{_spaced(before)} {_spaced(after)}" for before, after in splits))


def _spaced(tokens: tuple[str, ...]) -> str:
    """A pattern for tokens with one blank or none between two of them."""
    return " ?".join(map(re.escape, tokens))


# ---------------------------------------------------------------- white space folded


class Folded:
    """`text`: the part of a text from `start` to `end`, with single blanks for white space and without `hidden` spans.

    `span` maps offsets back to the original. The hidden spans are sorted and do not overlap.
    """

    def __init__(self, text: str, hidden: Sequence[Span], start: int = 0, end: int | None = None) -> None:
        parts = _visible(hidden, start, len(text) if end is None else end)
        shown = "".join(text[low:high] for low, high in parts)
        self._sources = [low for low, _ in parts]
        self._parts = list(accumulate((high - low for low, high in parts), initial=0))
        words = list(_WORD.finditer(shown))
        self._words = [word.start() for word in words]
        self._at = list(accumulate((len(word[0]) + 1 for word in words), initial=0))
        self.text = " ".join(word[0] for word in words)

    def span(self, start: int, end: int) -> Span:
        """The span in the original text of self.text[start:end], which must not begin or end with a blank."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, at: int) -> int:
        """The offset in the original text of the character at `at` in self.text, which is no blank."""
        word = bisect_right(self._at, at) - 1
        shown = self._words[word] + at - self._at[word]
        part = bisect_right(self._parts, shown) - 1
        return self._sources[part] + shown - self._parts[part]


def _visible(hidden: Sequence[Span], start: int, end: int) -> Spans:
    """(start, end) of the parts of `start` to `end` that no hidden span covers.

    `hidden` is sorted and does not overlap.
    """
    inside = [(max(low, start), min(high, end)) for low, high in hidden if high > start and low < end]
    bounds = [(start, start), *inside, (end, end)]
    return [(low, high) for (_, low), (high, _) in pairwise(bounds) if low < high]


def folded_spans(text: str, hidden: Sequence[Span] = ()) -> Spans:
    """(start, end) in `text` of its sentences, which are found after white space is folded to single blanks.

    ExpertQA's claims were found so (newlines replaced by blanks): a newline after a full stop is no token then.
    `hidden` spans (sorted, not overlapping: citation marks) are left out for that, and belong to the sentence before
    them.
    """
    folded = Folded(text, hidden)
    spans = [folded.span(start, end) for start, end in sentence_spans(folded.text)]
    return with_what_follows(text, spans, hidden)


def with_what_follows(text: str, spans: Spans, hidden: Sequence[Span]) -> Spans:
    """The spans, each extended by the hidden spans right after it, with only white space before each of these."""
    found = []
    for start, end in spans:
        mark = bisect_left(hidden, (end, 0))
        while mark < len(hidden) and not text[end : hidden[mark][0]].strip():
            end = hidden[mark][1]
            mark += 1
        found.append((start, end))
    return found
