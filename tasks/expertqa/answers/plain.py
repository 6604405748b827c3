"""Answers to train on: the text without citation marks, and the sources that the marks meant.

Left out are marks by number (`[1]`, `[1] [2]`, `[^1^]`, `[cite: 1, 2]`, `【1†L3】`, `<sup>1</sup>`, `word.¹`),
addresses in brackets or on lines of their own, and the list of references at the end; links keep their words.
What reads alike stays: numbers in round brackets, intervals, code, exponents (`Z²`, `km²`), an address that a sentence
names. Where a mark goes, no bracket, comma or blank is left over from it, and nothing else of the text changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from longform.artifacts.rows import Row
from tasks.expertqa.answers.citations import HIGHEST, LINKED, RAISED, URL, citation_spans, cited_numbers, references

Spans = list[tuple[int, int]]

_LIST = r"\d{1,3}(?:\s?[-–—,;&]\s?\d{1,3}){0,40}"
_OTHERS = (
    r"\[cite(?:_start|_end)?\]",
    rf"\\\[\s?{_LIST}\s?\\\]|［\s?{_LIST}\s?］|\[#\d{{1,3}}\]",
    rf"\[{_LIST},\s?(?:pp?\.|§|ch\.|chapter|section|page)\s?[^\[\]\n]{{1,30}}\]",
    rf"\^\[{_LIST}\]\^?",
    rf"⁽[{RAISED}]{{1,3}}⁾",
)
_OTHER = re.compile(rf"[ \t]{{0,8}}(?:{'|'.join(_OTHERS)})", re.IGNORECASE)
_LINK = re.compile(rf"(?<!!)\[([^\[\]\n]{{1,300}})\]{LINKED}")
_ONLY_NUMBERS = re.compile(rf"\^?{_LIST}\^?")
_LONE_ADDRESS = re.compile(rf"^[ \t]*(?:\[\^?\d{{1,3}}\^?\]:?[ \t]*)?<?{URL}>?[ \t]*$", re.MULTILINE)
_GLUED_ADDRESS = re.compile(rf"(?<=[.!?\]]){URL}(?=\.?[ \t]*$)", re.MULTILINE)
_BETWEEN = re.compile(r"[ \t]*(?:[,;&]|,?[ \t]*and)?[ \t]*")
_INTERVAL = re.compile(
    r"(?:\b(?:intervals?|ranges?|between|bounds?|domain|CI|confidence interval|scale|values)|[∈∉⊂⊆=×<>≤≥])"
    r"(?:\s(?:of|from|in|over|on|is))?[:\s(]{0,3}\Z",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"(?P<f>```|~~~)[\s\S]*?(?:(?P=f)|\Z)|(?P<t>`{1,2})[^`\n]{1,400}(?P=t)|\$\$[\s\S]{1,2000}?\$\$"
    r"|!\[[^\[\]\n]{0,300}\]\([^()\s]{1,2000}\)"
)
_INDEX = re.compile(r"[A-Za-z_]\w*(?:\[\w+\])*\Z")
_ASSIGNED = re.compile(r"(?:\[\w+\])*\s?(?:[-+*/]?=|\()")
_EMPTY = re.compile(
    r"[ \t]*(?:\((?:(?:see|cf\.?|e\.g\.,?|see also|source|sources|ref|refs)[\s:]*)?[\s,;]*\)|\[[\s,;]*\])", re.I
)
_EMPHASIS = re.compile(r"[ \t]*(?<![*_\w])(?:\*{4}|\*{6}|_{4})(?![*_\w])")
_LINE_HEAD = re.compile(r"[ \t]*(?:(?:[-*•>#]+|\d{1,3}[.)])[ \t]*)?")
_LINE_TAIL = re.compile(r"[ \t]*[.,;:]?[ \t]*(?=\n|\Z)")


def plain(text: str) -> str:
    """The text without marks and references; "" if nothing else is there. Of a text without any it is the text itself,
    so that applying it again changes nothing.
    """
    for _ in range(5):  # what removals bring together may be a mark in turn
        before, text = text, _once(text)
        if text == before:
            break
    return text


def marks_in(text: str) -> list[str]:
    """The marks, references and addresses that `plain` would leave out, in order, without blanks around them."""
    end, _ = references(text)
    found = [text[start:stop].strip() for start, stop in mark_spans(text[:end])]
    return [*found, *([text[end:].strip()] if end < len(text) else [])]


def mark_spans(text: str) -> Spans:
    """(start, end) of the marks in a text, in order, with the blanks before them; overlapping ones are merged."""
    code = [match.span() for match in _CODE.finditer(text)]
    found = [span for span in citation_spans(text) if _cites(text, *span)]
    found += [match.span() for match in _OTHER.finditer(text)]
    found += [match.span() for match in _LONE_ADDRESS.finditer(text)]
    found += [match.span() for match in _GLUED_ADDRESS.finditer(text)]
    spans: Spans = []
    for start, end in sorted(found):
        if any(start < stop and first < end for first, stop in code):
            continue
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return spans


def _once(text: str) -> str:
    """The text without its references, marks and what is left over from them."""
    end, _ = references(text)
    body = text[:end].rstrip() if end < len(text) else text
    body = _LINK.sub(lambda link: link[0] if _ONLY_NUMBERS.fullmatch(link[1]) else link[1], body)
    runs = _runs(body)
    if not runs:
        return body
    kept, at = "", 0
    for start, stop in runs:
        if line := _whole_line(body, start, stop):
            kept, at = kept + body[at : max(at, line[0])], line[1]
            continue
        kept = _joined(kept + body[at:start], body[stop:])
        at = stop + _skipped(kept, body, stop)
    kept += body[at:]
    return _without_remains(kept, body) if kept.strip() else ""


def _runs(text: str) -> Spans:
    """(start, end) of runs of marks: neighbours with only blanks, a comma, a semicolon or `and` between them."""
    runs: Spans = []
    for start, end in mark_spans(text):
        if runs and _BETWEEN.fullmatch(text, runs[-1][1], start):
            start = runs.pop()[0]
        runs.append((start, end))
    return runs


def _whole_line(text: str, start: int, end: int) -> tuple[int, int] | None:
    """(start, end) of the lines of a run of marks, with the line end before them, if nothing else than a bullet or a
    number stands on them; else None.
    """
    first = text.rfind("\n", 0, start) + 1
    tail = _LINE_TAIL.match(text, end)
    if tail is None or not _LINE_HEAD.fullmatch(text, first, start):
        return None
    return (first - 1, tail.end()) if first else (0, min(tail.end() + 1, len(text)))


def _joined(before: str, after: str) -> str:
    """The text before a mark, with a blank at its end if the mark alone parted it from the word after it."""
    return f"{before} " if before[-1:].strip() and before[-1:] not in "([{" and after[:1].isalnum() else before


def _skipped(before: str, text: str, at: int) -> int:
    """How many characters after a mark go with it: blanks before a sign or at the start of a line, and the full stop of
    a mark that stands after one.
    """
    blanks = len(text[at:]) - len(text[at:].lstrip(" \t"))
    rest = text[at + blanks : at + blanks + 1]
    at_start = not before or before[-1] in "\n([{"
    if rest == "." and before[-1:] in (".", "!", "?") and text[at + blanks : at + blanks + 3] != "...":
        return blanks + 1
    return blanks if rest in (".", ",", ";", ":", "!", "?", ")", "") or at_start or before[-1] == " " else 0


def _without_remains(text: str, original: str) -> str:
    """The text without brackets and emphasis that the removal of marks emptied. `original`: before that."""
    for pattern in (_EMPTY, _EMPHASIS):
        if len(pattern.findall(text)) > len(pattern.findall(original)):
            text = pattern.sub("", text)
    return text


def _cites(text: str, start: int, end: int) -> bool:
    """Whether a mark that citations.py finds is one here: no interval, no index of an array, no year."""
    mark = text[start:end]
    before = text[max(0, start - 40) : start + len(mark) - len(mark.lstrip())]
    numbers = cited_numbers(mark)
    if not numbers:
        return True  # an address
    if ("," in mark and _INTERVAL.search(before)) or all(number >= HIGHEST for number in numbers):
        return False
    return not (_INDEX.search(before) and _ASSIGNED.match(text, end))


# ---------------------------------------------------------------- sources


def sources_of(cited_answer: str, listed: Iterable[Row], claims: Iterable[Row]) -> list[Row]:
    """The sources that an answer cites by number, in their order: number, url, title and text, each null where it is
    not known. An answer that cites no number has the addresses of the evidence that was found for its claims, without
    numbers.

    `listed`: its rows of CITED. `claims`: its rows with `evidence`, which may have the text of a listed source.
    """
    evidence = [one for claim in claims for one in claim["evidence"]]
    numbers = cited_numbers(cited_answer)
    if not numbers:
        found = dict.fromkeys(one["url"] for one in evidence if one["url"] and one["number"] is None)
        return [{"number": None, "url": url, "title": None, "text": None} for url in found]
    return [row for number in sorted(numbers) for row in _source(number, listed, evidence)]


def _source(number: int, listed: Iterable[Row], evidence: Iterable[Row]) -> Iterator[Row]:
    """The source of this number; nothing if none has it."""
    own = next((row for row in listed if row["number"] == number), {})
    texts = [one for one in evidence if one["number"] == number]
    url = own.get("url") or next((one["url"] for one in texts if one["url"]), None)
    text = own.get("text") or next((one["text"] for one in texts if one["text"]), None)
    if own or texts:
        yield {"number": number, "url": url, "title": own.get("title"), "text": text}
