"""Citations in an answer: marks such as [1], and the sources it lists.

Marks: [1] · [1] [2] · [1, 2] · [1-3] · [^1^] (Bing Chat) · [^1] (Markdown) · [Passage 2] · (Passage ID: 2) ·
[1](https://…) · [1](#ref1) · [cite: 1, 2] (Gemini, with [cite_start]) · 【1†source】 · 【2:3†file】 · 〔1〕 · ⟦1⟧ ·
&#91;1&#93; · <sup>[1]</sup> · <a href="#c1">[1]</a> · word¹ (but no km², no SO₄²⁻) · word^1.
Addresses: [https://…] · (https://…) · <https://…> · [words](https://…) · a bare one at the end of a sentence that does
not speak of it (`It lives there https://…. Next`, but no `Go to https://….`).
Lists at the end: `[1] https://…`, `[^1]: https://…`, `1. https://…`, or any numbered list under "References".
All repetitions in the patterns are bounded, so that no answer can make matching slow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Row = dict[str, Any]
Spans = list[tuple[int, int]]

LONGEST_RANGE = 50  # numbers; a longer range cites its two ends only
LEAST_WORDS = 4  # of a line before a bare address; fewer are the name of what is there
HIGHEST = 1_000  # numbers from here on are ignored when a new source gets the next free number

_TO = r"(?:\s?[-‐‑–—]\s?|\sto\s)"
URL = r"https?://[^\s\[\]<>\"()]{1,2000}(?:\([^\s()\[\]<>\"]{0,200}\)[^\s\[\]<>\"()]{0,2000}){0,5}"
_ZERO = "\u200b\u200c\u200d\u2060\ufeff"
_GAP = rf"[\s{_ZERO}]{{0,3}}"
_THING = r"(?:passages?|sources?|documents?|docs?|refs?|references?|citations?|cites?|ids?)"
_NAME = rf"(?:{_THING}\.?(?:[\s_](?:ids?|numbers?))?[\s:#_]{{0,3}})"
_ITEM = rf"\^?\d{{1,9}}\^?(?:{_TO}\^?\d{{1,9}}\^?)?"
_ITEMS = rf"{_ITEM}(?:\s{{0,2}}(?:[,;&]|and\s)\s{{0,2}}(?:and\s)?{_NAME}?{_ITEM}){{0,60}}"
_SQUARE = (
    rf"\[\d{{1,9}}\]{_TO}\[\d{{1,9}}\]|\[\[{_GAP}{_ITEMS}{_GAP}\]\]|\[{_GAP}{_NAME}?{_ITEMS}{_GAP}\]"
    rf"|[〔⟦〚❲［]{_GAP}{_ITEMS}{_GAP}[〕⟧〛❳］]"
    rf"|&(?:\#91|\#x5b|lsqb|lbrack);{_GAP}{_ITEMS}{_GAP}&(?:\#93|\#x5d|rsqb|rbrack);"
)
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_UNITS = (
    *("feet", "foot", "inch", "inches", "mile", "miles", "yard", "yards", "acre", "acres"),
    *("metre", "metres", "meter", "meters", "second", "seconds", "sec", "mol", "squared", "cubed"),
    *("log", "sin", "cos", "tan", "chi", "sigma", "lambda", "alpha", "beta", "gamma", "delta"),
)
_NO_UNIT = "".join(rf"(?<!{unit})" for unit in _UNITS)
_LETTER = rf"[^\W\d_₀-₉{RAISED}]"
_WORD_BEFORE = (
    rf"(?:(?<={_LETTER}{{3}})|(?<={_LETTER}{{3}}[\s*_\"”’»])|(?<={_LETTER}{{3}}[*_]{{2}})"
    rf"|(?<=[.!?,;:…])|(?<=[.!?,;:…][*_\"'”’»)\]])){_NO_UNIT}"
)
_SUPER = rf"{_WORD_BEFORE}[{RAISED}]{{1,4}}(?:\s?[,⁻–-]\s?[{RAISED}]{{1,4}}){{0,20}}(?![\w⁺⁻])"
_CARETED = (
    rf"(?:(?<={_LETTER}{{3}})|(?<={_LETTER}{{3}}[.,;:!?])){_NO_UNIT}"
    r"\^(?:\{\d{1,3}(?:,\s?\d{1,3}){0,9}\}|\d{1,3}(?:,\d{1,3}){0,9}(?![\w^{(]|\.\d))"
)
_A = r"<a\b[^<>]{0,300}>"
_SUP = r"<sup\b[^<>]{0,100}>"
_TAGGED = (
    rf"{_SUP}\s?(?:\[\s?{_ITEMS}\s?\]\s?){{1,20}}</sup>|{_WORD_BEFORE}<sup>\s?{_ITEMS}\s?</sup>"
    rf"|{_SUP}\s?{_A}\s?\[?\s?{_ITEMS}\s?\]?\s?</a>\s?</sup>"
    rf"|{_A}\s?(?:<sup>)?\s?(?:{_SQUARE})\s?(?:</sup>)?\s?</a>|{_A}\s?<sup>\s?{_ITEMS}\s?</sup>\s?</a>"
)
_NOTE = r"(?:†[^\[\]【】\n]{0,100})?"
_NOTED = rf"【{_GAP}{_ITEMS}(?::\d{{1,9}})?{_NOTE}{_GAP}】|\[\s?{_ITEMS}{_NOTE}\]"
_NUMBERS = rf"{_SQUARE}|\(\s?{_NAME}{_ITEMS}\s?\)|{_NOTED}|{_TAGGED}|{_SUPER}|{_CARETED}"
_TITLE = r"(?:\s{1,2}\"[^\"\n]{0,300}\")?"
LINKED = rf"\(\s?<?(?:{URL}|\#[^\s()<>\[\]]{{1,200}})>?{_TITLE}\s?\)"
_LABEL = r"(?:[A-Za-z ]{1,30}(?::\s?|\s)|\d{1,9}[:,.]?\s)?"
_URLS = rf"{_LABEL}<?{URL}>?(?:\s{{1,2}}(?:and\s)?<?{URL}>?){{0,20}}"
_ADDRESS = rf"\[\s?{_URLS}\s?\](?:{LINKED})?|\(\s?{_URLS}\s?\)|<{URL}>"

_MARK = re.compile(_NUMBERS, re.IGNORECASE)
_LINK = re.compile(rf"\[([^\[\]\n]{{1,300}})\]{LINKED}")
_CITATION = re.compile(rf"[ \t{_ZERO}]{{0,8}}(?:(?:{_NUMBERS})(?:{LINKED})?|{_ADDRESS})", re.IGNORECASE)
_NUMBERED = re.compile(rf"({_NUMBERS}):?[ \t]{{0,2}}[(<]?({URL})", re.IGNORECASE)
_ANY_URL = re.compile(URL)
_BARE_RUN = re.compile(rf"(?<![\w(\[<\"'`={{/])(?<!\]\()(?:{URL})(?:(?:,\s|;\s|\s)(?:and\s)?(?:{URL})){{0,20}}")
_SENTENCE_ENDS = re.compile(
    r"[.!?]{0,3}(?:[\"”’)]{0,2}[ \t]{0,8}(?:\n|\Z)|\s{1,8}[\"“‘(*\[]{0,3}(?:[A-Z]|\d{1,2}\.\s))"
)
_OBJECT = re.compile(
    r"(?:\b(?:to|at|from|on|in|of|via|with|by|under|for|through|into|using|than|as|like|and|or|is|are|was|were|be"
    r"|see|also|visit|open|read|try|use|check|check out|consult|browse|click|download|called|named|the|a|an|this|your"
    r"|their|our|its|sites?|websites?|web|page|pages|webpage|homepage|portal|blog|links?|urls?|address|addresses|here|e\.g\."
    r"|i\.e\.|cf\.|eg|ie|via|type|enter|paste|run|get|post|curl|wget|clone)"
    r"|\b(?:site|website|page|homepage|portal|blog|link|url|address)(?:\s\w{1,20}){0,2},)[*_]{0,2}\Z",
    re.IGNORECASE,
)
_ITEM_MARK = re.compile(r"\A[ \t]{0,12}(?:[-*•>]|\d{1,3}[.)])\s")
_GLUED = re.compile(r"[,;](?=https?://)")
_NUMBER = re.compile(rf"(\d{{1,9}})(?:{_TO}(\d{{1,9}}))?")
_NO_NUMBER = re.compile(r"<[^<>]{0,400}>|&#?\w{1,6};")
_BARE_NUMBERS = str.maketrans(RAISED + "⁻", "0123456789-", "^[]")
_CARETS = re.compile(r"\s?\[\^[^\[\]\n]{1,60}\^\]|\[cite_(?:start|end)\]\s?")
_UNSEEN = re.compile(rf"(?<=[.!?…])(?:\[\s?{_ITEMS}\s?\])++(?=[\"'”’»›)\]}}])|{_CARETS.pattern}", re.IGNORECASE)
_ENDED = re.compile(r"[.!?…][\"'”’»)]{0,2}\s{0,5}\Z")

_ACRONYM = re.compile(r"(?<!\w)(?:\w{1,3}\.){2,4}\Z")

_HEADING = re.compile(
    r"[ \t#*_]{0,12}(?:references?|sources?|citations?|bibliography|works cited|footnotes|reference list|source list"
    r"|urls|links|références|bibliographie|quellen(?:angaben|verzeichnis)?|literatur(?:verzeichnis|angaben)?"
    r"|einzelnachweise|referenzen|referencias|fuentes|bibliograf[íi]a|riferimenti|fonti|referências|fontes|bronnen"
    r"|referenties|источники|(?:список )?литератур[аы]|参考文献|參考文獻|参考资料|來源|来源|出典|참고 ?문헌|출처"
    r"|المراجع|المصادر)"
    r"(?:\s?\[\d{1,4}\])?[ \t:：*_#]{0,12}",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"[ \t]{0,12}(?:[-*•]\s{1,3})?"
    rf"(?:(?P<square>\[\s?(?P<note>\^?)(?P<one>\d{{1,6}})\^?\s?\]|(?P<raised>[{RAISED}]{{1,4}}))(?P<colon>:?)"
    r"|\(?(?P<two>\d{1,6})[.):])[ \t]{0,8}(?P<rest>.*)"
)
_RULE = re.compile(r"[-*_=–—]{3,80}")
_BIBLIOGRAPHIC = re.compile(
    r"\b(?:doi|isbn|issn|vol\.|pp\.)|(?:\b(?:1[89]|20)\d\d[)\]]?\.?\s{0,3}\Z)"
    r"|[\"“«][^\"”»]{3,300}[\"”»][^\n]{0,80}\b(?:1[89]|20)\d\d\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[ \t]{0,12}(?:[-*•]\s{1,3})?(?P<rest>.*)")
_ONE_LINE = re.compile(
    r"(?<!\w)(?:references?|sources?|citations?)[*_]{0,2}:[*_]{0,2}\s{1,4}(?=\[?\^?\d{1,6}\^?[\].):]|<?https?://)",
    re.IGNORECASE,
)
_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?:/[^\s,;\[\]<>()\"]{0,500})?"
_BARE = rf"\s{{0,4}}<?(?P<url>{URL}|{_DOMAIN})>?[,;.]?\s{{0,4}}"
_ONE_ENTRY = re.compile(rf"\s{{0,4}}(?:\[\^?(?P<one>\d{{1,6}})\^?\]:?|(?P<two>\d{{1,6}})[.):]){_BARE}")
_BARE_ENTRY = re.compile(_BARE)


# ---------------------------------------------------------------- marks


def cited_numbers(text: str) -> list[int]:
    """Numbers that the text cites by marks such as [1], in order, each once. Marks with a 0, as the interval `[0, 1]`,
    are no citations; a range of more than LONGEST_RANGE numbers, or one that runs down, cites its two ends.
    """
    return list(dict.fromkeys(number for match in _MARK.finditer(text) for number in numbers_of(match[0])))


def numbers_of(mark: str) -> list[int]:
    """The numbers that one mark cites, in order, repeated ones too. A range is written out; one of more than
    LONGEST_RANGE numbers, or one that runs down, is its two ends. None if 0 is among them, as in the interval [0, 1].
    """
    found: list[int] = []
    if mark.startswith("【") and ":" in mark:
        return []  # a file that the answer was given, under no number of its own
    shown = _NO_NUMBER.sub("", mark.partition("†")[0])
    for first, last in _NUMBER.findall(shown.translate(_BARE_NUMBERS)):
        low, high = int(first), int(last or first)
        found += range(low, high + 1) if 0 <= high - low < LONGEST_RANGE else (low, high)
    return [] if 0 in found else found


def citation_spans(text: str) -> Spans:
    """(start, end) of each citation by number or address, in order, including up to 8 blanks or tabs before it.
    Intervals such as [0, 1] are left out, and so are bare addresses, unless they end a sentence that does not speak of
    them.
    """
    marks = [match.span() for match in _CITATION.finditer(text)]
    bare = _bare_spans(text, marks)
    return sorted([span for span in marks if not _is_interval(text[slice(*span)])] + bare)


def _bare_spans(text: str, marks: Spans) -> Spans:
    """(start, end) of bare addresses at the end of a sentence that cite, in order, including blanks before them.
    `marks`: what is a citation anyway, in order; an address in it is none of these.
    """
    found: Spans = []
    starts = [start for start, _ in marks]
    taken = [match.span() for match in _LINK.finditer(text)] if "http" in text else []
    links = [start for start, _ in taken]
    for run in _BARE_RUN.finditer(text):
        start, end = run.start(), run.start() + len(_clean(run[0]))
        if _within(start, marks, starts) or _within(start, taken, links) or not _SENTENCE_ENDS.match(text, end):
            continue
        line = text[text.rfind("\n", 0, start) + 1 : start]
        if _cites_bare(line[-400:], len(line) > 400):
            end += _ENDED.search(line[-9:]) is not None and text.startswith(".", end)  # its own stop, after another
            found.append((start - len(line[-8:]) + len(line[-8:].rstrip(" \t")), end))
    return found


def _within(at: int, spans: Spans, starts: list[int]) -> bool:
    """Whether the offset is in one of the spans, which are in order and begin at `starts`."""
    place = bisect_right(starts, at) - 1
    return place >= 0 and at < spans[place][1]


def _cites_bare(before: str, cut: bool) -> bool:
    """Whether an address after these words of its line cites, rather than being what its sentence speaks of.

    `cut`: the line has more before them. A short line without a verb in sight (`1. World Bank https://…`) is an entry.
    """
    said = before.rstrip()
    if not said or before[-1] in "/=\"'`({<|" or said[-1] in ":-–—`(|>=" or _OBJECT.search(said):
        return False
    if _ENDED.search(said) or said.endswith("]"):
        return True
    return cut or len(_ITEM_MARK.sub("", said).split()) >= LEAST_WORDS


def _citation_runs(text: str) -> Spans:
    """(start, end) of runs of citations, in order: neighbours are merged where only white space, commas or semicolons
    separate them.
    """
    runs: Spans = []
    for start, end in citation_spans(text):
        if runs and not text[runs[-1][1] : start].strip(" \t\r\n,;"):
            start = runs.pop()[0]
        runs.append((start, end))
    return runs


def _is_interval(citation: str) -> bool:
    """Whether a citation mark has a 0 among its numbers, as the interval [0, 1], and so cites nothing. False for
    addresses.
    """
    mark = _MARK.match(citation.lstrip(f" \t{_ZERO}"))
    return mark is not None and mark[0][0] not in "【<" and not numbers_of(mark[0])


def caret_spans(text: str) -> Spans:
    """(start, end) of each mark of the form [^1^], including one white-space character before it, and of [cite_start],
    including one after it.
    """
    return [match.span() for match in _CARETS.finditer(text)]


def unseen_spans(text: str) -> Spans:
    """(start, end) of citations to hide from the sentence splitter, which would cut inside or before them; in order,
    overlapping ones merged.

    These are marks such as [^1^], marks before the quote or bracket that closes a sentence (`asked "Why?[2]"`, in
    released post-hoc answers), and citations after the end of a sentence (`Tin melts. [1] Lead does, too.`). A full
    stop before a citation that ends no sentence (`Acme Inc. [1]. Moreover`, `Smith et al. [3] found`) is hidden.
    """
    following = [
        _hidden(text, start, end)
        for start, end in _citation_runs(text)
        if _ENDED.search(text[max(0, start - 9) : start])
    ]
    spans: Spans = []
    for start, end in sorted([match.span() for match in _UNSEEN.finditer(text)] + following):
        if spans and start <= spans[-1][1]:
            start, end = spans[-1][0], max(spans.pop()[1], end)
        spans.append((start, end))
    return spans


def _hidden(text: str, start: int, end: int) -> tuple[int, int]:
    """(start, end) of what to hide of the citations in text[start:end], which follow a stop: they, or the full stop if
    it ends no sentence, or nothing if spaCy knows that it ends none.
    """
    stop = len(text[:start].rstrip())
    after = text[end : end + 2].lstrip()[:1]
    if text[stop - 1] != "." or not (after.islower() or (after and after in ".!?")):
        return start, end
    known = _ACRONYM.search(text[max(0, stop - 9) : stop])
    return stop - (not known), stop


def without_marks(text: str) -> str:
    """The text without its citations and the blanks before them. A link `[words](https://…)` is replaced by its words,
    or left out as a citation if these are a number; intervals such as [0, 1] stay.
    """
    text = _LINK.sub(lambda link: link[0] if _MARK.fullmatch(f"[{link[1]}]") else link[1], text)
    bounds = [(0, 0), *citation_spans(text), (len(text), len(text))]
    return "".join(text[end:start] for (_, end), (start, _) in pairwise(bounds))


def urls(text: str) -> list[str]:
    """Addresses in a text, in order, each once, without punctuation at their ends. Two that only a comma or semicolon
    separates are two.
    """
    found = (url for match in _ANY_URL.finditer(text) for url in _GLUED.split(match[0]))
    return list(dict.fromkeys(map(_clean, found)))


def _clean(url: str) -> str:
    """The address without punctuation at its end."""
    return url.rstrip(".,;:!?'*_`|}’”»。")


# ---------------------------------------------------------------- sources


class Source(NamedTuple):
    """An entry of a list of references: its address, and as `title` its other words, each None if there is none."""

    url: str | None
    title: str | None


def references(text: str) -> tuple[int, dict[int, Source]]:
    """(offset where the list of references at the end of the text begins, number -> source). (len(text), {}) if there
    is no list; (offset of the heading, {}) if there is a heading at the end without entries.
    """
    return _one_line(text) or _one_entry_a_line(text)


def cited_sources(text: str) -> tuple[str, list[Row]]:
    """(the text without its list of references, the sources of this list and of citations in the text as rows of
    CITED, by number). Without a list the text is unchanged.

    Addresses in brackets or links without a number, as far as no source has them yet, get the numbers after the
    highest that the text lists or cites; cited numbers from HIGHEST on are ignored here.
    """
    end, sources = references(text)
    body = text[:end].rstrip() if end < len(text) else text
    for mark, url in _NUMBERED.findall(body):
        if len(numbers := numbers_of(mark)) == 1:
            sources.setdefault(numbers[0], Source(_clean(url), None))
    listed = {source.url for source in sources.values()}
    following = max([0, *sources, *(number for number in cited_numbers(body) if number < HIGHEST)]) + 1
    for number, url in enumerate((url for url in addresses_in(body) if url not in listed), following):
        sources[number] = Source(url, None)
    return body, [
        {"number": number, "url": url, "passage_id": None, "title": title, "text": None}
        for number, (url, title) in sorted(sources.items())
    ]


def addresses_in(text: str) -> list[str]:
    """Addresses in brackets, in Markdown links, or bare ones that cite, by place in the text, each once."""
    marks, links = ([match.span() for match in pattern.finditer(text)] for pattern in (_CITATION, _LINK))
    places = sorted([*marks, *links, *_bare_spans(text, marks)])
    return list(dict.fromkeys(url for start, end in places for url in urls(text[start:end])))


def _one_line(text: str) -> tuple[int, dict[int, Source]] | None:
    """(offset, number -> source) of a list on one line at the end: `References: [1] https://… [2] https://…` or
    `Source: https://…`, whose addresses are numbered from 1; a numbered `a.example` is a title. None if there is none,
    or if anything follows it.
    """
    headings = list(_ONE_LINE.finditer(text))
    if not headings:
        return None
    heading = headings[-1]
    entries: dict[int, Source] = {}
    at = heading.end()
    bare = text.startswith(("http", "<http"), at)
    while entry := (_BARE_ENTRY if bare else _ONE_ENTRY).match(text, at):
        number, said = len(entries) + 1 if bare else int(entry["one"] or entry["two"]), _clean(entry["url"])
        source = Source(said, None) if _ANY_URL.match(said) else Source(None, said)
        entries.setdefault(number, source)
        at = entry.end()
    start = heading.start()
    start -= len(text[:start]) - len(text[:start].rstrip("*_#"))
    return (start, entries) if entries and at == len(text) else None


def _one_entry_a_line(text: str) -> tuple[int, dict[int, Source]]:
    """(offset, number -> source) of a list of references with one entry a line at the end of the text, read from its
    last line upwards; (len(text), {}) if there is none. Reading stops at a line that is neither blank, an entry nor an
    address.

    Under a heading such as "References" every numbered line is an entry (there may be none); if no line is numbered,
    addresses, links and bibliographic bullets are the entries. Without a heading the list is the last lines that are
    `[1]` with an address, which may be on the line below, or `1.` with an address alone, notes such as `[^1]: …`, and
    what `[1]` names under a rule, or with a title and a year if the text cites it.
    """
    start_of_sure, sure = len(text), 0
    entries: list[tuple[int, Source]] = []
    listed: list[Source] = []
    bare: list[str] = []
    certain = in_brackets = True
    often = Counter(number for match in _MARK.finditer(text) for number in numbers_of(match[0]))
    for start, line in _lines_upwards(text):
        if _HEADING.fullmatch(line.strip()):
            return start, _in_order(entries or list(enumerate(reversed(listed), 1))[::-1])
        if entry := _ENTRY.fullmatch(line):
            entries.append(_entry(entry, bare))
            number, source = entries[-1]
            certain = certain and (_is_sure(entry, source) or (often[number] > 1 and _is_bibliographic(entry)))
            in_brackets = in_brackets and entry["two"] is None
            start_of_sure, sure = (start, len(entries)) if certain else (start_of_sure, sure)
        elif (other := _unnumbered(line)) is not None:
            listed.append(other)
            bare += [other.url] if other.url and other.title is None else []
        elif _RULE.fullmatch(line.strip()):
            start_of_sure, sure = (
                (start, len(entries)) if entries and (certain or in_brackets) else (start_of_sure, sure)
            )
            break
        elif line.strip():
            break
    return start_of_sure, _in_order(entries[:sure])


def _in_order(upwards: list[tuple[int, Source]]) -> dict[int, Source]:
    """Number -> source in the order of the text. `upwards`: (number, source) of the entries, the last in the text
    first. Of entries with the same number the first in the text is kept.
    """
    first = dict(upwards)
    return {number: first[number] for number, _ in reversed(upwards)}


def _lines_upwards(text: str) -> Iterator[tuple[int, str]]:
    """(offset, line) of each line, from the last to the first; without the line end."""
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        yield start, text[start:end].rstrip("\r")
        end = start - 1


def _entry(entry: re.Match[str], bare: list[str]) -> tuple[int, Source]:
    """(number, source) of an entry. If it has no address, it takes the nearest of those on lines of their own below
    it: the last of `bare`, which is removed there. `title`: its words without addresses and outer punctuation.
    """
    rest = entry["rest"].strip()
    found = urls(rest) or ([bare.pop()] if bare else [])
    title = _ANY_URL.sub("", rest).strip(' \t-–—:,.()<>[]*"') or None
    number = entry["one"] or entry["two"] or entry["raised"].translate(_BARE_NUMBERS)
    return int(number), Source(found[0] if found else None, title)


def _is_sure(entry: re.Match[str], source: Source) -> bool:
    """Whether a numbered line is an entry even without a heading: `[1]` with an address, `1.` with an address alone, or
    a note, `[^1]: words` or `¹ words`.
    """
    if entry["two"] is not None:
        return source.url is not None and source.title is None
    noted = entry["raised"] is not None or (entry["note"] and entry["colon"])
    return source.url is not None or (bool(noted) and source.title is not None)


def _is_bibliographic(entry: re.Match[str]) -> bool:
    """Whether a line is a `[1]` with a title and a year."""
    rest = entry["rest"]
    return entry["square"] is not None and not rest[:1].islower() and _BIBLIOGRAPHIC.search(rest) is not None


def _unnumbered(line: str) -> Source | None:
    """The source of a line without a number: an address or a link, also with few words after it, or a bullet with an
    address, or with a title and a year. None for other lines, and for those that cite.
    """
    bullet = _BULLET.fullmatch(line)
    rest = bullet["rest"].strip() if bullet else ""
    if not rest:
        return None
    address = _ANY_URL.fullmatch(rest.strip("<>"))
    if address:
        return Source(_clean(address[0]), None)
    link = _LINK.match(rest)
    named = bullet is not None and line.lstrip() != rest and (_ANY_URL.search(rest) or _BIBLIOGRAPHIC.search(rest))
    if _MARK.search(rest) or not (named or (link and len(rest) - link.end() <= 80)):
        return None
    said = _LINK.sub(lambda found: found[1], rest)
    found = urls(rest)
    return Source(found[0] if found else None, _ANY_URL.sub("", said).strip(' \t-–—:,.()<>[]*"') or None)
