"""Answers to train on: the text without citation marks, and the sources that the marks meant.

Left out are marks by number (`[1]`, `[1] [2]`, `[^1^]`, `[cite: 1, 2]`, `【1†L3】`, `<sup>1</sup>`, `word.¹`),
addresses in brackets, at the end of a sentence or on lines of their own, and the list of references at the end; links
keep their words. What reads alike stays (readings.py): numbers in round brackets, intervals, indices, code and math,
exponents (`Z²`, `km²`), an address that a sentence speaks of. Where a mark goes, no bracket, comma or blank is left
over; a sentence that would be broken without its mark is left out (dangling.py). Nothing else of the text changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

from longform.artifacts.rows import Row
from tasks.expertqa.answers.citations import (
    LINKED,
    RAISED,
    URL,
    addresses_in,
    citation_spans,
    cited_numbers,
)
from tasks.expertqa.answers.dangling import Spans, merged, widened, without_phrases
from tasks.expertqa.answers.readings import cites
from tasks.expertqa.answers.references import references

_LIST = r"\d{1,3}(?:\s?[-–—,;&]\s?\d{1,3}){0,40}"
_OTHERS = (
    r"\[cite(?:_start|_end)?\]",
    rf"\\\[\s?{_LIST}\s?\\\]|［\s?{_LIST}\s?］|\[#\d{{1,3}}\]",
    rf"\[{_LIST},\s?(?:pp?\.|§|ch\.|chapter|section|page|table|tab\.|fig(?:ure|\.)|box"
    r"|para\.|vol\.|s\.)\s?[^\[\]\n]{1,30}\]",
    rf"\[{_LIST}\]:\d{{1,4}}(?:[-–,]\d{{1,4}}){{0,9}}(?=\s|\Z)",
    rf"\[[{RAISED}]{{1,3}}\]|(?<=[.!?,;]\[\d\])\[[a-z]\](?=\s|\Z)|↩\ufe0e?",
    r"\[(?:citation needed|citation|source|sources|ref|reference)\](?!\()",
    rf"\[(?:web|search|page|doc|result)[:_]\s?{_LIST}\]",
    rf"\((?:see(?: also)?|cf\.|according to|from)\s(?:footnote|source|passage|document|reference)s?\s{_LIST}\)",
    r"<\|[a-z_]{0,20}cit[a-z]{0,6}[_:]?\s?\d{0,3}\|>|<co:?\s?\d{1,3}(?:,\d{1,3}){0,9}>|</co:?\s?\d{0,3}>",
    r"<(?P<tag>cite|ref)\b[^<>]{0,200}(?:/>|>[^<>]{0,300}</(?P=tag)>)",
    r"(?<!\d)<sup>\s?\d{1,3}(?:\s?,\s?\d{1,3}){1,9}\s?</sup>",
    rf"\^\[{_LIST}\]\^?",
    rf"⁽[{RAISED}]{{1,3}}⁾",
    r"\ue200cite[^\ue201\n]{0,200}\ue201|(?<!\w)cite(?:turn\d{1,3}[a-z]{1,12}\d{1,3}){1,20}",
)
_OTHER = re.compile(rf"[ \t]{{0,8}}(?:{'|'.join(_OTHERS)})", re.IGNORECASE)
_SPOKEN = re.compile(
    r"(?<![\w#])(?:sources?|passages?|references?|citations?) (?:\d{1,3}(?:,? and |, )){0,9}\d{1,3}(?![\w.]\w|\s?%)",
    re.IGNORECASE,
)
_NO_BLANKS = re.compile(r"[\u3000-\u30ff\u3400-\u9fff]")  # scripts that part no words
_DIGITS = re.compile(r"\d+")
_LINK = re.compile(rf"(?<!!)\[([^\[\]\n]{{1,300}})\]{LINKED}")
_A_LINK = rf"(?<!!)\[[^\[\]\n]{{1,300}}\]{LINKED}"
_LINKS_IN_BRACKETS = re.compile(rf"[ \t]{{0,4}}\(\s?{_A_LINK}(?:(?:[,;]|\sand)?\s{{0,2}}{_A_LINK}){{0,20}}\s?\)")
_CITING_LINK = re.compile(
    r"(?<!\bthis)(?<!\bthe)(?<!\ba)(?<!\bfollowing)[ \t]{1,4}\[\(?(?:sources?|refs?|references?|citations?|link)\)?\]"
    rf"{LINKED}(?=[ \t]?(?:[.,;:!?)]|\n|\Z))"
    rf"|[ \t]{{0,4}}(?<!!)\[(?:oai_citation[^\[\]\n]{{0,300}}|[^\w\[\]\n]{{1,4}})\]{LINKED}",
    re.IGNORECASE,
)
_ONLY_NUMBERS = re.compile(rf"\^?{_LIST}\^?")
_LONE_ADDRESS = re.compile(rf"^[ \t]*(?:\[\^?\d{{1,3}}\^?\]:?[ \t]*)?<?{URL}>?[ \t]*$", re.MULTILINE)
_GLUED_ADDRESS = re.compile(rf"(?<=[.!?\]]){URL}(?=\.?[ \t]*$)", re.MULTILINE)
_BETWEEN = re.compile(r"[ \t]*(?:[,;&/]|,?[ \t]*and)?[ \t]*")
_CODE = re.compile(
    r"(?P<f>```|~~~)[\s\S]*?(?:(?P=f)|\Z)|(?P<t>`{1,2})[^`\n]{1,400}(?P=t)|\$\$[\s\S]{1,2000}?\$\$"
    r"|\$(?![\s\d$])(?=[^$\n]{0,400}[\\_^{=])[^$\n]{1,400}(?<!\s)\$(?!\d)|<code>[\s\S]{1,2000}?</code>"
    r"|\\\([^\n]{1,400}?\\\)|\\\[(?!\s?\d{1,3}[\s,;–-]{0,3}(?:\d{1,3}[\s,;–-]{0,3}){0,9}\\\])[^\n]{1,400}?\\\]"
    r"|!\[[^\[\]\n]{0,300}\]\([^()\s]{1,2000}\)"
)
_EMPTY = re.compile(
    r"[ \t]*(?:\((?:(?:see|cf\.?|e\.g\.,?|see also|source|sources|ref|refs)[\s:]*)?[\s,;]*\)|\[[\s,;]*\])", re.I
)
_EMPHASIS = re.compile(r"[ \t]*(?<![*_\w])(?:\*{4}|\*{6}|_{4})(?![*_\w])")
_LINE_HEAD = re.compile(r"[ \t]*(?:(?:[-*•>#]+|\d{1,3}[.)])[ \t]*)?")
_LINE_TAIL = re.compile(r"[ \t]*[.,;:]?[ \t]*(?=\n|\Z)")


def plain(text: str, known: Collection[int] = ()) -> str:
    """The text without marks and references; "" if nothing else is there. Of a text without any it is the text itself,
    so that applying it again changes nothing. `known`: the numbers of the answer's sources.
    """
    whole = text
    for _ in range(6):  # what removals bring together may be a mark in turn
        before, text = text, _once(text, known)
        if text == before:
            break
    return text if text == whole or whole[-1:].isspace() else text.rstrip()


def marks_in(text: str, known: Collection[int] = ()) -> list[str]:
    """The marks, references and addresses that `plain` would leave out, in order, without blanks around them."""
    end, _ = references(text)
    found = [text[start:stop].strip() for start, stop in mark_spans(text[:end], known)]
    return [*found, *([text[end:].strip()] if end < len(text) else [])]


def mark_spans(text: str, known: Collection[int] = ()) -> Spans:
    """(start, end) of the marks in a text, in order, with the blanks before them; overlapping ones are merged."""
    code = [match.span() for match in _CODE.finditer(text)]
    found = [span for span in citation_spans(text) if cites(text, *span, known)]
    found += [match.span() for match in _OTHER.finditer(text)]
    found += [match.span() for match in _SPOKEN.finditer(text) if {*map(int, _DIGITS.findall(match[0]))} <= {*known}]
    found += [match.span() for match in _LONE_ADDRESS.finditer(text)]
    found += [match.span() for match in _GLUED_ADDRESS.finditer(text)]
    return merged([span for span in found if not _overlaps(span, code)])


def _overlaps(span: tuple[int, int], code: Spans) -> bool:
    """Whether a span overlaps one of those in `code`, which are in order and do not overlap."""
    place = bisect_left(code, (span[1], 0)) - 1
    return place >= 0 and span[0] < code[place][1]


def _once(text: str, known: Collection[int]) -> str:
    """The text without its references, marks and what is left over from them."""
    end, _ = references(text)
    body = text[:end].rstrip() if end < len(text) else text
    body = _without_links(body)
    marks = mark_spans(body, known)
    if not marks:
        return body
    if (shorter := without_phrases(body, marks)) != body:
        return shorter
    kept, at = "", 0
    for start, stop in _runs(body, marks):
        if line := _whole_line(body, start, stop):
            kept, at = kept + body[at : max(at, line[0])], line[1]
            continue
        kept = _joined(kept + body[at:start], body[stop:])
        at = stop + _skipped(kept, body, stop)
    kept += body[at:]
    return _without_remains(kept, body) if kept.strip() else ""


def _without_links(text: str) -> str:
    """The text with links `[words](https://…)` replaced by their words, in code and for numbers excepted; by nothing
    where they only cite: in brackets by the names of their sites, or by a sign or a word such as `source`.
    """
    if "](" not in text:
        return text
    code = [match.span() for match in _CODE.finditer(text)]

    def left_out(cited: re.Match[str]) -> str:
        names = all(map(_names_site, _LINK.finditer(cited[0])))
        return "" if names and not _overlaps(cited.span(), code) else cited[0]

    def shown(link: re.Match[str]) -> str:
        stays = _ONLY_NUMBERS.fullmatch(link[1].strip()) or _overlaps(link.span(), code)
        return link[0] if stays else link[1]

    def nothing(cited: re.Match[str]) -> str:
        return cited[0] if _overlaps(cited.span(), code) else ""

    shorter = _CITING_LINK.sub(nothing, _LINKS_IN_BRACKETS.sub(left_out, text))
    return _LINK.sub(shown, text) if shorter == text else _without_links(shorter)


def _names_site(link: re.Match[str]) -> bool:
    """Whether a link's words are the name of its site (`NIH`, `nih.gov`), or none."""
    words = "".join(filter(str.isalnum, link[1].casefold()))
    host = re.sub(r"\A\W{0,3}(?:https?://)?(?:www\.)?", "", link[0].partition("](")[2].casefold()).split("/")[0]
    return not words or "." in link[1].strip(".") or words in host.replace(".", "") or host.split(".")[0] in words


def _runs(text: str, marks: Spans) -> Spans:
    """(start, end) of what goes: runs of marks, neighbours with only blanks, a comma, a semicolon or `and` between
    them, and the brackets and sentences that cannot be without their marks.
    """
    runs: Spans = []
    for start, end in widened(text, marks):
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
    parted = before[-1:].strip() and before[-1:] not in "([{" and after[:1].isalnum()
    return f"{before} " if parted and not _NO_BLANKS.match(after) else before


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


# ---------------------------------------------------------------- sources


def sources_of(cited_answer: str, listed: Iterable[Row], claims: Iterable[Row]) -> list[Row]:
    """The sources that an answer cites, those by number in their order, then those by address alone, without numbers:
    number, url, title and text, each null where it is not known. An answer that cites neither has the addresses of the
    evidence that was found for its claims.

    `listed`: its rows of CITED. `claims`: its rows with `evidence`, which may have the text of a listed source.
    """
    evidence = [one for claim in claims for one in claim["evidence"]]
    body = cited_answer[: references(cited_answer)[0]]
    found = [row for number in sorted(cited_numbers(body)) for row in _source(number, listed, evidence)]
    taken = {row["url"] for row in found}
    addresses = [url for url in addresses_in(body) if url not in taken]
    if not found and not addresses:
        addresses = [one["url"] for one in evidence if one["url"] and one["number"] is None]
    return [*found, *(_by_address(url, listed, evidence) for url in dict.fromkeys(addresses))]


def _by_address(url: str, listed: Iterable[Row], evidence: Iterable[Row]) -> Row:
    """The source with this address, without a number."""
    own = next((row for row in listed if row["url"] == url), {})
    text = own.get("text") or next((one["text"] for one in evidence if one["url"] == url and one["text"]), None)
    return {"number": None, "url": url, "title": own.get("title"), "text": text}


def _source(number: int, listed: Iterable[Row], evidence: Iterable[Row]) -> Iterator[Row]:
    """The source of this number; nothing if none has it."""
    own = next((row for row in listed if row["number"] == number), {})
    texts = [one for one in evidence if one["number"] == number]
    url = own.get("url") or next((one["url"] for one in texts if one["url"]), None)
    text = own.get("text") or next((one["text"] for one in texts if one["text"]), None)
    if own or texts:
        yield {"number": number, "url": url, "title": own.get("title"), "text": text}
