"""Citations in an answer: marks such as [1], and addresses. The lists of sources are in references.py.

Marks: [1] · [1] [2] · [1, 2] · [1-3] · [^1^] (Bing Chat) · [^1] (Markdown) · [Passage 2] · (Passage ID: 2) ·
[1](https://…) · [1](#ref1) · [cite: 1, 2] (Gemini, with [cite_start]) · 【1†source】 · 【2:3†file】 · 〔1〕 · ⟦1⟧ ·
&#91;1&#93; · <sup>[1]</sup> · <a href="#c1">[1]</a> · word¹ (but no km², no SO₄²⁻) · word^1.
Addresses: [https://…] · (https://…) · <https://…> · [words](https://…) · a bare one at the end of a sentence that does
not speak of it (`It lives there https://…. Next`, but no `Go to https://….`). `HTTP://…`, `www.a.example/…`,
`doi:10.1000/…` and `doi.org/10.1000/…` are addresses, too.
All repetitions in the patterns are bounded, so that no answer can make matching slow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from longform.addresses import without_logins

Spans = list[tuple[int, int]]

LONGEST_RANGE = 50  # numbers; a longer range cites its two ends only
LEAST_WORDS = 4  # of a line before a bare address; fewer are the name of what is there
HIGHEST = 1_000  # numbers from here on are ignored when a new source gets the next free number

_TO = r"(?:\s?[-‐‑–—]\s?|\sto\s)"
_SCHEME = r"(?i:https?)://"
_NO_SCHEME = (
    r"(?:(?<![\w@./-])(?i:www)\.(?=[^\W_][\w-]{0,62}\.[^\W\d])"
    r"|(?<![\w/])(?i:doi)(?:\.org/|:\s?|\s)(?=10\.\d{4,9}/))"
)
URL = (
    rf"(?:{_SCHEME}|{_NO_SCHEME})"
    r"[^\s\[\]<>\"()]{1,2000}(?:\([^\s()\[\]<>\"]{0,200}\)[^\s\[\]<>\"()]{0,2000}){0,5}"
)
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

MARK = re.compile(_NUMBERS, re.IGNORECASE)
LINK = re.compile(rf"\[([^\[\]\n]{{1,300}})\]{LINKED}")
_CITATION = re.compile(rf"[ \t{_ZERO}]{{0,8}}(?:(?:{_NUMBERS})(?:{LINKED})?|{_ADDRESS})", re.IGNORECASE)
_NUMBERED = re.compile(rf"({_NUMBERS}):?[ \t]{{0,2}}[(<]?({URL})", re.IGNORECASE)
ANY_URL = re.compile(URL)
_WITHOUT_SCHEME = re.compile(r"(?P<doi>doi(?:\.org/|:?\s?)(?=10\.))|www\.", re.IGNORECASE)
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
_GLUED = re.compile(rf"[,;](?={_SCHEME})")
_NUMBER = re.compile(rf"(\d{{1,9}})(?:{_TO}(\d{{1,9}}))?")
_NO_NUMBER = re.compile(r"<[^<>]{0,400}>|&#?\w{1,6};")
_BARE_NUMBERS = str.maketrans(RAISED + "⁻", "0123456789-", "^[]")
_CARETS = re.compile(r"\s?\[\^[^\[\]\n]{1,60}\^\]|\[cite_(?:start|end)\]\s?")
_UNSEEN = re.compile(rf"(?<=[.!?…])(?:\[\s?{_ITEMS}\s?\])++(?=[\"'”’»›)\]}}])|{_CARETS.pattern}", re.IGNORECASE)
_ENDED = re.compile(r"[.!?…][\"'”’»)]{0,2}\s{0,5}\Z")

_ACRONYM = re.compile(r"(?<!\w)(?:\w{1,3}\.){2,4}\Z")


# ---------------------------------------------------------------- marks


def cited_numbers(text: str) -> list[int]:
    """Numbers that the text cites by marks such as [1], in order, each once. Marks with a 0, as the interval `[0, 1]`,
    are no citations; a range of more than LONGEST_RANGE numbers, or one that runs down, cites its two ends.
    """
    return list(dict.fromkeys(number for match in MARK.finditer(text) for number in numbers_of(match[0])))


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
    taken = [match.span() for match in LINK.finditer(text)] if "](" in text else []
    links = [start for start, _ in taken]
    for run in _BARE_RUN.finditer(text):
        start, end = run.start(), run.start() + len(_stripped(run[0]))
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
    mark = MARK.match(citation.lstrip(f" \t{_ZERO}"))
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
    text = LINK.sub(lambda link: link[0] if MARK.fullmatch(f"[{link[1]}]") else link[1], text)
    bounds = [(0, 0), *citation_spans(text), (len(text), len(text))]
    return "".join(text[end:start] for (_, end), (start, _) in pairwise(bounds))


def urls(text: str) -> list[str]:
    """Addresses in a text, in order, each once, as `address` writes them. Two that only a comma or semicolon separates
    are two.
    """
    found = (url for match in ANY_URL.finditer(text) for url in _GLUED.split(match[0]))
    return list(dict.fromkeys(map(address, found)))


def address(written: str) -> str:
    """The address `in_full` of one as an answer writes it, without punctuation at its end."""
    return in_full(_stripped(written))


def in_full(address: str) -> str:
    """The address as it can be fetched: without user and password, with https:// before `www.`, https://doi.org/ in
    place of `doi:`, and its scheme in lower case.
    """
    url = without_logins(address)
    if found := _WITHOUT_SCHEME.match(url):
        return f"https://doi.org/{url[found.end() :]}" if found["doi"] else f"https://{url}"
    scheme, colon, rest = url.partition("://")
    return f"{scheme.lower()}{colon}{rest}" if colon else url


def _stripped(url: str) -> str:
    """The address without punctuation at its end."""
    return url.rstrip(".,;:!?'*_`|}’”»。")


def addresses_in(text: str) -> list[str]:
    """Addresses in brackets, in Markdown links, or bare ones that cite, by place in the text, each once."""
    marks, links = ([match.span() for match in pattern.finditer(text)] for pattern in (_CITATION, LINK))
    places = sorted([*marks, *links, *_bare_spans(text, marks)])
    return list(dict.fromkeys(url for start, end in places for url in urls(text[start:end])))


def numbered_addresses(text: str) -> list[tuple[int, str]]:
    """(number, address) of each mark of one number with an address after it, such as `[1] https://…`, in order."""
    found = ((numbers_of(mark), url) for mark, url in _NUMBERED.findall(text))
    return [(numbers[0], address(url)) for numbers, url in found if len(numbers) == 1]
