"""Corrupting an answer by rule: a claim gets another number, the opposite meaning, or another name.

These are the three ways of the paper's corrupting prompt (Axiomatic Preference Modeling, C.2), without a model. Code,
links, addresses, HTML, formulas and citations inside a sentence stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from tasks.text.prose import Span, balanced, sentences

MAX_CLAIMS = 12
MAX_TERMS = 40

_PROTECTED = re.compile(
    r"`[^`\n]{0,400}`|\]\([^)\s]{0,400}\)|https?://\S{1,400}|<[^<>\n]{0,400}>|\$[^$\n]{1,400}\$"
    r"|\(passages?[^)]{0,80}\)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]{0,20}(?:\.\d{1,9})?(?!\w)")
_TOKEN = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_CAPITALISED = r"[A-Z][a-zA-Z]{1,20}(?:['’-][a-zA-Z]{1,20}){0,2}"
_NAME = re.compile(rf"(?<=[a-z,;:(] ){_CAPITALISED}(?: {_CAPITALISED}){{0,2}}(?!\w)")
_TERM = re.compile(r"\b[a-z]{6,20}\b")

_OPPOSITES = """
more less, higher lower, high low, increase decrease, increases decreases, increased decreased, always never,
before after, better worse, best worst, larger smaller, large small, good bad, easy hard, easier harder, early late,
earlier later, first last, hot cold, warm cool, old new, older newer, above below, often rarely, many few, long short,
longer shorter, strong weak, stronger weaker, cheap expensive, fast slow, faster slower, minimum maximum, with without,
possible impossible, true false, inside outside, positive negative, usually seldom
"""
_NEGATED = """
cannot can, can't can, won't will, isn't is, aren't are, wasn't was, weren't were, doesn't does, don't do, didn't did,
shouldn't should, couldn't could, wouldn't would, hasn't has, haven't have
"""
_NEGATABLE = "is are was were can will should must may could would"


def _pairs(text: str) -> list[tuple[str, str]]:
    """The pairs of words in a text such as "more less, higher lower"."""
    return [(pair.split()[0], pair.split()[1]) for pair in text.split(",")]


_INVERSE: dict[str, str] = {
    **{word: f"{word} not" for word in _NEGATABLE.split()},
    **dict(_pairs(_NEGATED)),
    **{other: word for word, other in _pairs(_OPPOSITES)},
    **dict(_pairs(_OPPOSITES)),
    "not": "",
}


class Edit(NamedTuple):
    """A replacement in a sentence: `text` takes the place of the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    text: str


def corrupt(answer: str, evidence: str, random_bytes: bytes, *, read: int) -> tuple[list[str], list[str], str]:
    """(all claims, the changed claims after the change, the answer with these changes); claims are on one line each.

    Claims are statements (`is_claim`) among the sentences of the first `read` characters of the answer, at most
    MAX_CLAIMS. At most half of them (rounded up) are changed, as far as a rule applies; `random_bytes` draw which, and
    how. `evidence` provides names and terms to replace others. An answer without claims is returned unchanged.
    """
    claims = [span for span in sentences(answer[:read]) if is_claim(answer[span.start : span.end])]
    claims = claims[:MAX_CLAIMS]
    replacements = _Replacements(answer[:read], evidence)
    edits: dict[int, Edit] = {}
    for number in _order(len(claims), random_bytes[0]):
        if len(edits) < (len(claims) + 1) // 2:
            sentence = answer[claims[number].start : claims[number].end]
            edit = _edit(sentence, replacements, random_bytes, number)
            edits |= {number: edit} if edit else {}
    changed = [_apply(_text(answer, claims[number]), edits[number]) for number in sorted(edits)]
    texts = [_text(answer, claim) for claim in claims]
    return list(map(_one_line, texts)), list(map(_one_line, changed)), _rewritten(answer, claims, edits)


def is_claim(sentence: str) -> bool:
    """Whether a sentence looks like a statement: 20 to 400 characters, at least four words, not ending in a question
    mark or colon, no HTML or image, no code, emphasis or bracket cut off.
    """
    return (
        20 <= len(sentence) <= 400
        and sentence[-1] not in "?:"
        and sentence.count(" ") >= 3
        and "<" not in sentence
        and "![" not in sentence
        and balanced(sentence)
    )


def _order(claims: int, start: int) -> Iterator[int]:
    """The indices of all claims in the order they are tried: every second one, then those between; an even `start`
    begins at 0, an odd one at 1.
    """
    yield from range(start % 2, claims, 2)
    yield from range(1 - start % 2, claims, 2)


def _edit(sentence: str, replacements: _Replacements, random_bytes: bytes, number: int) -> Edit | None:
    """The edit by the first of the three rules (another number, the opposite meaning, another name) that applies to
    the sentence, beginning with a rule chosen by the random bytes; None if none applies. `number` is the claim's
    index.
    """
    protected = [Span(*match.span()) for match in _PROTECTED.finditer(sentence)]
    drawn = random_bytes[(number + 1) % len(random_bytes)]
    for shift in range(3):
        edit = _RULES[(drawn + shift) % 3](sentence, protected, replacements, drawn // 3)
        if edit:
            return edit
    return None


def _other_number(sentence: str, protected: list[Span], replacements: _Replacements, drawn: int) -> Edit | None:
    """An edit of the first number that is not in a protected span: it changes the first digit, or the third digit of a
    year, so that it stays a year. None if there is no such number. `drawn` chooses the digit.
    """
    for match in _NUMBER.finditer(sentence):
        if _is_unprotected(match.start(), protected):
            number = match[0]
            year = len(number) == 4 and number.isdigit() and number[0] in "12"
            position = 2 if year else 0
            digit = (
                str((int(number[position]) + 1 + drawn % 8) % 10) if year else str(1 + (int(number[0]) + drawn % 8) % 9)
            )
            return Edit(match.start() + position, match.start() + position + 1, digit)
    return None


def _opposite(sentence: str, protected: list[Span], replacements: _Replacements, drawn: int) -> Edit | None:
    """An edit that adds or removes a negation or replaces a word by its opposite, outside the protected spans; `drawn`
    chooses one of the first three possible. None if there is none.
    """
    candidates: list[Edit] = []
    for match in _TOKEN.finditer(sentence):
        inverse = _INVERSE.get(match[0].lower().replace("’", "'"))
        if inverse is not None and len(candidates) < 3 and _is_unprotected(match.start(), protected):
            candidates += _inverted(sentence, match, inverse)
    return candidates[drawn % len(candidates)] if candidates else None


def _inverted(sentence: str, match: re.Match[str], inverse: str) -> list[Edit]:
    """The edit that puts `inverse` in place of the matched word, in a list; [] if it does not fit there: a negation
    that would be doubled or split a word, or a word to remove with no blank before it. An empty `inverse` removes the
    word.
    """
    start, end = match.span()
    if not inverse:
        return [Edit(start - 1, end, "")] if sentence[start - 1 : start] == " " else []
    if inverse.endswith(" not") and (
        sentence[end : end + 4].lower() == " not" or sentence[end : end + 1] in ("'", "’", "-")
    ):
        return []
    return [Edit(start, end, inverse.capitalize() if match[0][0].isupper() else inverse)]


def _other_name(sentence: str, protected: list[Span], replacements: _Replacements, drawn: int) -> Edit | None:
    """An edit that replaces a name by another from the evidence or the answer; if no name can be replaced, a word of 6
    to 20 lower-case letters by one of the evidence with the same last three letters. None if neither is possible.
    Protected spans stay. `drawn` chooses the replacement.
    """
    for pattern, pool, ending in ((_NAME, "names", 0), (_TERM, "words", 3)):
        for match in pattern.finditer(sentence):
            end = match[0][len(match[0]) - ending :]
            candidates = [
                term
                for term in getattr(replacements, pool)
                if term.endswith(end) and term not in sentence and match[0] not in term
            ]
            if candidates and _is_unprotected(match.start(), protected):
                return Edit(match.start(), match.end(), candidates[drawn % len(candidates)])
    return None


class _Replacements:
    """Names of the evidence and the answer, and words of the evidence, as replacements; collected on first use."""

    def __init__(self, answer: str, evidence: str) -> None:
        self._answer, self._evidence = answer, evidence

    @cached_property
    def names(self) -> list[str]:
        """The names in the evidence, then those in the answer, at most MAX_TERMS of each."""
        return _distinct(_NAME, self._evidence) + _distinct(_NAME, self._answer)

    @cached_property
    def words(self) -> list[str]:
        """The words of 6 to 20 lower-case letters in the evidence, at most MAX_TERMS."""
        return _distinct(_TERM, self._evidence)


def _distinct(pattern: re.Pattern[str], text: str) -> list[str]:
    """The first MAX_TERMS distinct matches of a pattern in a text, in order."""
    found: dict[str, None] = {}
    for match in pattern.finditer(text):
        found[match[0]] = None
        if len(found) == MAX_TERMS:
            break
    return list(found)


def _is_unprotected(position: int, protected: list[Span]) -> bool:
    """Whether a position in a sentence is outside the spans (code, links, formulas, citations) that must not change."""
    return not any(start <= position < end for start, end in protected)


def _rewritten(answer: str, claims: list[Span], edits: dict[int, Edit]) -> str:
    """The answer with the edits applied. `claims`: the spans of the claims in the answer; `edits`: index of a claim ->
    the edit of this sentence.
    """
    for number in sorted(edits, reverse=True):
        start, end = claims[number]
        answer = answer[:start] + _apply(answer[start:end], edits[number]) + answer[end:]
    return answer


def _apply(sentence: str, edit: Edit) -> str:
    """The sentence with an edit applied."""
    return sentence[: edit.start] + edit.text + sentence[edit.end :]


def _text(answer: str, span: Span) -> str:
    """The text of a span of the answer."""
    return answer[span.start : span.end]


def _one_line(claim: str) -> str:
    """The claim with single blanks for white space, and none at its ends."""
    return " ".join(claim.split())


_RULES = (_other_number, _opposite, _other_name)
