"""spaCy's English tokenizer, with its own rules and patterns, but in time linear in the text.

`spacy.blank("en").tokenizer` strips punctuation from both ends of a word one sign at a time and hashes and searches
what is left each time: a word of 8,000 brackets takes it 5 seconds, one of 100,000 an hour. Here the same
patterns see only the end they can match, no text is kept in a vocabulary, and there is no limit of length.
tests/tasks/text/test_sentences.py compares the two token by token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

Spans = list[tuple[int, int]]

WINDOW = 16  # signs; no affix of the patterns is longer but a run of full stops
_RUNS = re.compile(r"\S++|\s++")
_USER = r"(?:\S+(?::\S*)?@)?"  # quadratic; the same words without white space as the one below
_USER_ONCE = r"(?:\S+@)?"


class English:
    """A tokenizer that makes the same tokens of a text as spaCy's.

    `specials`: special word (emoticon, abbreviation) -> its tokens; the rest are spaCy's patterns. `phrases`: the
    special words that the patterns cut up, as the tokens they are cut into.
    """

    def __init__(self, specials: dict[str, tuple[str, ...]], prefix: Any, suffix: Any, infix: Any, url: Any) -> None:
        self._prefix, self._suffix, self._infix, self._url = prefix, suffix, infix, url
        self._specials: dict[str, tuple[str, ...]] = {}
        self._longest = max(map(len, specials))
        phrases = {
            tuple(word[start:end] for start, end in self.raw(word)) for word in specials if self._has_affix(word)
        }
        self._specials = specials
        self.phrases = sorted(phrases - {()})
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for phrase in self.phrases:
            self._by_first.setdefault(phrase[0], []).append(phrase)

    def _has_affix(self, word: str) -> bool:
        """Whether the patterns may cut the word up: it has a prefix, suffix or infix of theirs, or a blank."""
        return bool(self._prefix(word) or any(self._infix(word)) or self._suffix(word) or " " in word)

    def tokens(self, text: str) -> Spans:
        """(start, end) of each token, in order.

        A run of white space is a token; unless it begins the text, without a blank at its beginning, so that a single
        blank is none.
        """
        return self.rejoined(text, self.raw(text))

    def raw(self, text: str) -> Spans:
        """(start, end) of each token, as in `tokens`, except that special words may be cut up.

        These are emoticons and abbreviations with prefixes, suffixes or infixes, which `rejoined` puts together again.
        """
        found: Spans = []
        for run in _RUNS.finditer(text):
            start, end = run.span()
            if text[start].isspace():
                start += text[start] == " " and start > 0
                found += [(start, end)] if start < end else []
            else:
                found += self._word(text[start:end], start)
        return found

    def _word(self, word: str, at: int) -> Iterator[tuple[int, int]]:
        """(start, end) in the text of each token of `word`, which has no white space and starts at `at`."""
        prefixes, (low, high), suffixes = self._stripped(word)
        core = self._core_tokens(word[low:high], low) if low < high else ()
        for start, end in (*prefixes, *core, *reversed(suffixes)):
            if start < end:
                yield at + start, at + end

    def _stripped(self, word: str) -> tuple[Spans, tuple[int, int], Spans]:
        """(prefixes, what is left, suffixes) as (start, end) in the word; suffixes from the outside in.

        Prefixes and suffixes are taken off until there are none, or a special word (emoticon, abbreviation) is left.
        """
        prefixes: Spans = []
        suffixes: Spans = []
        low, high = 0, len(word)
        while low < high and not self._is_special(word, low, high):
            first = self._prefix_length(word, low, high)
            if first and self._is_special(word, low + first, high):
                return [*prefixes, (low, low + first)], (low + first, high), suffixes
            last = self._suffix_length(word, low + first, high)
            if last and self._is_special(word, low, high - last):
                return prefixes, (low, high - last), [*suffixes, (high - last, high)]
            if not first and not last:
                break
            prefixes += [(low, low + first)] if first else []
            suffixes += [(high - last, high)] if last else []
            low, high = low + first, high - last
        return prefixes, (low, high), suffixes

    def _is_special(self, word: str, low: int, high: int) -> bool:
        """Whether word[low:high] is a special word: an emoticon or abbreviation with tokens of its own."""
        return high - low <= self._longest and word[low:high] in self._specials

    def _prefix_length(self, word: str, low: int, high: int) -> int:
        """How many characters of word[low:high] from `low` on are one prefix (an opening sign, full stops).

        0 if there is none.
        """
        match = self._prefix(word[low : min(high, low + WINDOW)])
        end = low + match.end() if match else low
        while low + WINDOW <= end < high and word[end] == ".":
            end += 1
        return end - low

    def _suffix_length(self, word: str, low: int, high: int) -> int:
        """How many characters of word[low:high] before `high` are one suffix (a closing sign, 's, full stops).

        0 if there is none.
        """
        begin = max(low, high - WINDOW)
        match = self._suffix(word[begin:high])
        start = begin + match.start() if match else high
        while low < start <= begin and word[start - 1] == ".":
            start -= 1
        return high - start

    def _core_tokens(self, core: str, at: int) -> Iterable[tuple[int, int]]:
        """(start, end) in the word of each token of `core`, the word without prefixes and suffixes; some may be empty.

        A special word (emoticon, abbreviation) has its own tokens, an address of the web is one token, anything else
        is cut at infixes. `at`: where `core` starts in the word.
        """
        if len(core) <= self._longest and core in self._specials:
            return _laid(self._specials[core], at)
        edges = [at]
        for infix in () if self._url(core) else self._infix(core):
            if infix.start():
                edges += [at + infix.start(), at + infix.end()]
        return pairwise([*edges, at + len(core)])

    def rejoined(self, text: str, raw: Spans) -> Spans:
        """The spans `raw`, with special words that the patterns cut up replaced by their own tokens, longest first.

        If two overlap, the longer one counts. Tokens with a blank between them (`: )` for `:)`) are not replaced, but
        shorter special words that overlap them are not, either.
        """
        chosen = self._chosen([text[start:end] for start, end in raw])
        found, at = [], 0
        for first, last in chosen:
            begin, end = raw[first][0], raw[last - 1][1]
            if tokens := self._specials.get(text[begin:end]):
                found += [*raw[at:first], *_laid(tokens, begin)]
                at = last
        return found + raw[at:]

    def _chosen(self, words: list[str]) -> list[tuple[int, int]]:
        """(first, last) of each special word (emoticon, abbreviation) among the tokens `words`, in order.

        `last` is exclusive. First and last are indices of tokens. Of special words that overlap the longest counts, of
        equally long ones the first; one that is left out for that still keeps out shorter ones that overlap it.
        """
        matches = [
            (len(phrase), -at)
            for at, word in enumerate(words)
            for phrase in self._by_first.get(word, ())
            if tuple(words[at : at + len(phrase)]) == phrase
        ]
        seen: set[int] = set()
        chosen = []
        for length, negative in sorted(matches, reverse=True):
            first, last = -negative, length - negative
            if first not in seen and last - 1 not in seen:
                chosen.append((first, last))
            seen.update(range(first, last))
        return sorted(chosen)


def _laid(tokens: tuple[str, ...], at: int) -> Iterator[tuple[int, int]]:
    """(start, end) of tokens that follow each other without blanks from `at`."""
    for token in tokens:
        yield at, at + len(token)
        at += len(token)


@cache
def english() -> English:
    """The tokenizer of `spacy.blank("en")`, built once (half a second, most of it importing spaCy)."""
    import spacy
    from spacy.symbols import ORTH  # type: ignore[import-not-found]

    theirs: Any = spacy.blank("en").tokenizer
    specials = {word: tuple(piece[ORTH] for piece in pieces) for word, pieces in theirs.rules.items()}
    url = theirs.url_match.__self__.pattern.replace(_USER, _USER_ONCE)
    return English(
        specials,
        theirs.prefix_search.__self__.match,
        theirs.suffix_search,
        theirs.infix_finditer,
        re.compile(url).match,
    )
