"""Marks that are words of their sentence (`According to [1], …`), which would break where the mark alone goes.

Three things are done, and nothing is put in a mark's place: a phrase that only names a source goes as a whole, and the
sentence goes on without it; brackets that hold nothing but a reference (`see [1]; but cf. [2]`) go; any other sentence
that needs its mark is left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from tasks.expertqa.answers.stumps import (
    AND,
    NAMES_SOURCE,
    NAMES_SOURCE_AFTER,
    NAMES_SOURCE_BEFORE,
    SEE,
    leaves_stump,
    stumps_in,
)
from tasks.text.lists import listed_spans

Spans = list[tuple[int, int]]

_HOLE = "\0"
_M = rf"{_HOLE}{{1,4000}}+(?:(?:[ \t]?(?:[,;&/、，]|,?[ \t]?{AND})[ \t]?|[ \t]{{0,2}}){_HOLE}{{1,4000}}+){{0,20}}+"
_SAID = (
    r"(?:noted|shown|described|reported|discussed|given|stated|mentioned|explained|seen|cited|listed|summari[sz]ed"
    r"|reviewed|detailed|documented|demonstrated|outlined|suggested|argued|indicated|observed|defined|proposed|presented"
    r"|illustrated|depicted|established|pointed out|recommended|quoted|claimed|evidenced|set out|highlighted|concluded)"
)
_SAYS = (
    r"(?:show(?:s|ed)?|says?|said|reports?|reported|finds?|found|states?|stated|notes?|noted|argue[sd]?|suggest(?:s|ed)?"
    r"|describe[sd]?|claim(?:s|ed)?|explain(?:s|ed)?|mention(?:s|ed)?|indicate[sd]?|conclude[sd]?|demonstrate[sd]?"
    r"|discuss(?:es|ed)?|provide[sd]?|gives?|gave|lists|listed|define[sd]?|propose[sd]?|recommend(?:s|ed)?|points? out"
    r"|pointed out|confirm(?:s|ed)?|support(?:s|ed)?|agrees?|agreed|estimate[sd]?|observe[sd]?|presents|presented"
    r"|calls?|called|terms|refers? to|reveal(?:s|ed)?|emphasi[sz]e[sd]?|highlight(?:s|ed)?|warn(?:s|ed)?|writes?|wrote"
    r"|tells? us|puts? it|adds|added)"
)
_NAMED = (
    rf"(?:(?:according to (?:both )?|{NAMES_SOURCE} ){_M}"
    rf"|as (?:(?:also|is|was|has been|previously|first|already|further) ){{0,2}}{_SAID} (?:in|by|on|at|from|under)"
    rf" (?:(?:refs?\.?|references?|sources?|both) )?{_M}"
    rf"|as (?:both )?{_M} (?:(?:both|also|all) )?{_SAYS}(?: it)?)(?: (?:above|below|here))?"
)
_LOOSE = rf"(?:{_NAMED}|(?:(?:as )?per|as in|based on|citing|quoting|following) {_M})"
_START = (
    r"(?:(?<=\n)|(?<![\s\S])|(?<=[.!?…]\s)|(?<=[.!?…][\"'”’)\]]\s)|(?<=\n[-*•]\s)"
    r"|(?<=\n\d[.)]\s)|(?<=\n\d\d[.)]\s)|(?<=^[-*•]\s))"
)
_OPENS = re.compile(rf"{_START}{_LOOSE},[ \t]{{1,4}}(?=\w)", re.IGNORECASE)
_AFTER_WORD = re.compile(
    rf"(?<=\b)(?P<word>and|but|so|yet|because|while|since|although|that) {_LOOSE},(?=[ \t]\w)", re.I
)
_MIDDLE = re.compile(rf",[ \t]{{1,4}}{_LOOSE},(?=[ \t]\w)", re.IGNORECASE)
_SCRIPT = re.compile(
    rf"{NAMES_SOURCE_BEFORE}\s?{_M}(?:的\w{{1,4}})?\s?[,，、]\s?|(?<!{_HOLE}){_M}\s?{NAMES_SOURCE_AFTER}\s?[,，、]?\s?"
)
_OPENING = re.compile(
    rf"{_START}(?:(?:however|moreover|furthermore|thus|therefore|hence|also|today|here|first|second|third|then|still"
    r"|instead|otherwise|overall|\w{2,20}ly)|(?:in|on|at|by|for|during|after|before|since|until|from|with|under)\b"
    r"[^.!?,\n]{1,60})\Z",
    re.IGNORECASE,
)
_CLOSES = re.compile(rf"(?:,[ \t]{{1,4}}{_LOOSE}|[ \t]{{1,4}}{_NAMED})(?=[ \t]?(?:[.;!?)]|\n|\Z))", re.IGNORECASE)
_GLUE = (
    rf"(?:{_SAID}|see|also|cf|but|and|or|e\.g|i\.e|eg|ie|for|examples?|instance|details?|more|further|information|an?|the"
    r"|review|overview|discussion|in|from|via|per|by|refs?|references?|sources?|citations?|cited?|as|according|to|based|on"
    r"|both|compare|contrast|again|especially|particularly|esp|most|recently|above|below|therein|ibid|respectively"
    rf"|{SEE}|{NAMES_SOURCE}|{AND}|nach|por|par"
    r"|(?:pages?|pp?\.?|chapters?|ch\.?|sections?|sec\.?|s\.|стр\.|с\.|páginas?|págs?\.)\s?\d{1,4}(?:[-–]\d{1,4})?)"
)
_FILL = rf"[\s,;:&/.、，；：{_HOLE}*_]"
_BRACKETED = re.compile(
    rf"[ \t]{{0,4}}(?:[(（](?P<in>(?:{_FILL}|\b{_GLUE}\b){{1,300}}+)[)）]"
    rf"|\[(?P<also>(?:{_FILL}|\b{_GLUE}\b){{1,300}}+)\])",
    re.I,
)
_THING = r"(?:refs?\.?|references?|sources?|study|studies|papers?|articles?|documents?|passages?|citations?)"
_PAPER = r"(?:work|study|studies|authors?|view|findings?|results?|conclusions?|data|analysis|method|approach)"
_STRONG = re.compile(
    rf"(?:\b(?:according to(?: both)?|see(?: also)?|cf\.?|refer to|consult|{_SAID} (?:in|by|on|at|from|under)"
    r"|(?:can|may|could|to) be found (?:in|at|on)|e\.g\.,?|i\.e\.,?|unlike|sources?:|references?:|refs?:|based on"
    rf"|the (?:\w{{1,20}} )?{_PAPER} (?:of|in|from|by|with)"
    rf"|(?:in|by|from|of|to|with|see|per|both|and) {_THING}"
    r"|(?:on|in|see|at|from|of|to) (?:page|chapter|verse))"
    rf"|{_START}{_THING})[ \t]{{0,3}}\Z",
    re.IGNORECASE,
)
_LISTS = re.compile(r"\b(?:such as|including)[ \t]{1,3}\Z", re.IGNORECASE)
_OBJECT = re.compile(
    r"\b(?:(?:builds?|relies|draws?) on|in line with|contrary to|similar to)[ \t]{1,3}\Z", re.IGNORECASE
)
_ET_AL = re.compile(r"\bet al\.?,?[ \t]{1,3}\Z")
_PREPOSITION = re.compile(r"\b(?:in|from|by|of|to|with|on|at|for|about|than|like|between)[ \t]{1,3}\Z", re.IGNORECASE)
_IS = r"(?:is|are|was|were|has|have|had|does|do|did|can|could|will|would|may|might|must|should|also|both|all)"
VERB_AFTER = re.compile(
    rf"[ \t]{{1,3}}(?:{_IS}|{_SAYS}|uses?|used|makes?|made|takes?|focus(?:es)?|compares?|offers?|covers?)\b"
)
_ON_AFTER = re.compile(rf"[ \t]{{1,3}}(?:(?:and|or|but) |as well|above|below|that\b|which\b|who\b|{_IS}\b|{_SAYS}\b)")
_SAYS_AFTER = re.compile(rf"[ \t]{{1,3}}(?:both |also |all |further )?{_SAYS}\b")
_OF_IT = re.compile(r"['’]s?\b")
_CLAUSE = re.compile(
    r"(?:,|;|:|\b(?:while|whereas|because|that|and|but|as|if|since|although|though|when|where|which|what"
    r"|how|whom|than|both))[ \t]{1,3}\Z",
    re.I,
)
_SURE_CLAUSE = re.compile(r"(?:;|\b(?:while|whereas|because|that|if|although|though))[ \t]{1,3}\Z", re.I)
_FIRST = re.compile(rf"{_START}(?:both )?[\"“(]?\Z", re.IGNORECASE)
_END_AFTER = re.compile(r"[ \t]{0,3}(?:[.,;:!?)]|\n|\Z)")
_REACH, _LONGEST = 200, 80


def masked(text: str, marks: Spans) -> str:
    """The text with a hole for each character of its marks, the blanks before them excepted; as long as the text."""
    shown = text.replace(_HOLE, " ")
    parts, at = [], 0
    for start, end in marks:
        bare = end - len(text[start:end].lstrip())
        parts += [shown[at:bare], _HOLE * (end - bare)]
        at = end
    return "".join([*parts, shown[at:]])


def without_phrases(text: str, marks: Spans) -> str:
    """The text without phrases that only say where the sentence comes from: `According to [1],`, `, as [2] shows`."""
    holes = masked(text, marks)
    cuts: list[tuple[int, int, str]] = []
    for match in _OPENS.finditer(holes):
        following = text[match.end() :]
        raised = match[0][0].isupper() and not re.match(r"[a-z]{1,20}[A-Z]", following)
        cuts.append((match.start(), match.end() + raised, following[0].upper() if raised else ""))
    cuts += [(match.end("word"), match.end(), "") for match in _AFTER_WORD.finditer(holes)]
    for match in _MIDDLE.finditer(holes):
        opening = _OPENING.search(holes[max(0, match.start() - 90) : match.start()])
        cuts.append((*match.span(), "," if opening else ""))
    cuts += [(*match.span(), "") for pattern in (_CLOSES, _SCRIPT) for match in pattern.finditer(holes)]
    kept, at = [], 0
    for start, end, put in sorted(cuts):
        if start >= at:
            kept += [text[at:start], put]
            at = end
    return "".join([*kept, text[at:]])


def widened(text: str, marks: Spans) -> Spans:
    """The marks in order, those in brackets that hold nothing else as these brackets, those that their sentence needs
    as this sentence; overlapping ones are merged.
    """
    holes = masked(text, marks)
    found = [match.span() for match in _BRACKETED.finditer(holes) if _HOLE in match[0]]
    starts = [start for start, _ in found]
    rest = [span for span in marks if not _inside(span, found, starts)]
    broken = [run for run in _runs(holes, rest) if _is_noun(holes, *run)]
    if broken:
        sentences = _sentences(text, rest, broken)
        found += [_sentence(text, run, sentences) for run in broken]
    return merged([*found, *marks])


def _sentences(text: str, marks: Spans, nouns: Spans) -> Spans:
    """(start, end) of the sentences of a text, in order. `nouns`: runs of marks that count as words; `marks`: all."""
    starts = [start for start, _ in nouns]
    hidden = [(end - len(text[start:end].lstrip()), end) for start, end in marks]
    shown, at = [], 0
    for start, end in nouns:
        letters = "0" if leaves_stump(text[max(0, start - 8) : start].rpartition("\n")[2], "x") else "Nn"
        shown += [text[at:start], letters[0] + letters[-1] * (end - start - 1)]
        at = end
    return listed_spans("".join([*shown, text[at:]]), [span for span in hidden if not _inside(span, nouns, starts)])


def merged(spans: Sequence[tuple[int, int]]) -> Spans:
    """The spans in order; overlapping ones are one."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _inside(span: tuple[int, int], found: Spans, starts: list[int]) -> bool:
    """Whether the end of a span is in one of `found`, which are in order and begin at `starts`."""
    place = bisect_right(starts, span[1] - 1) - 1
    return place >= 0 and span[1] <= found[place][1]


def _runs(holes: str, marks: Spans) -> Spans:
    """(start, end) of runs of marks without the blanks before them: neighbours with a comma, `and` or so between."""
    runs: Spans = []
    for start, end in marks:
        bare = end - len(holes[start:end].lstrip())
        if runs and re.fullmatch(rf"[ \t]{{0,8}}(?:[,;&/、，]|,?[ \t]?{AND})?[ \t]{{0,8}}", holes[runs[-1][1] : bare]):
            bare = runs.pop()[0]
        runs.append((bare, end))
    return runs


def _is_noun(holes: str, start: int, end: int) -> bool:
    """Whether the sentence would be broken without the run of marks holes[start:end]."""
    before, after = holes[max(0, start - _REACH) : start], holes[end : end + 60]
    line = before[before.rfind("\n") :] if "\n" in before else before
    at_end = _END_AFTER.match(after) is not None
    if _ET_AL.search(line):
        return False  # it cites whom the sentence names
    if _STRONG.search(line, max(0, len(line) - _LONGEST)) or _OF_IT.match(after):
        return True
    if leaves_stump(line, after):
        return True
    if not (line == "" or line[-1:].isspace() or line[-1:] in '("“'):
        return False  # glued to a word: a citation of it
    if _FIRST.search(line) or line.strip() in ("", "-", "*", "•"):
        return VERB_AFTER.match(after) is not None
    if _CLAUSE.search(line) and _SAYS_AFTER.match(after):
        return True
    if _SURE_CLAUSE.search(line) and VERB_AFTER.match(after):
        return True
    if at_end:
        return _OBJECT.search(line) is not None
    if _LISTS.search(line):
        return VERB_AFTER.match(after) is not None
    return _PREPOSITION.search(line) is not None and _ON_AFTER.match(after) is not None


def _sentence(text: str, run: tuple[int, int], sentences: Spans) -> tuple[int, int]:
    """(start, end) of the sentence that a run of marks is in, with the blanks before it; of the cell in a table, of the
    line where no sentence is. Brackets and quotes that reach beyond it stay.
    """
    place = bisect_right(sentences, (run[0], len(text))) - 1
    start, end = sentences[place] if place >= 0 and run[0] < sentences[place][1] else _line(text, run)
    first, last = _line(text, run)
    if text.count("|", first, last) > 1:
        start, end = max(first, text.rfind("|", first, run[0]) + 1), text.find("|", run[1], last)
        end = end if end >= 0 else last
        return start, end - (text[end - 1] == " " and end > run[1])
    said = text[start:end]
    for opening, closing in pairwise("()[]{}“”"):
        start += said[0] == opening and said.count(opening) > said.count(closing)
        end -= said[-1] == closing and said.count(closing) > said.count(opening)
    start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
    return start, max(end, run[1])


def _line(text: str, run: tuple[int, int]) -> tuple[int, int]:
    """(start, end) of the lines that a run of marks is on."""
    last = text.find("\n", run[1])
    return text.rfind("\n", 0, run[0]) + 1, last if last >= 0 else len(text)


# ---------------------------------------------------------------- what an audit looks for

_BROKEN = re.compile(
    r"[ \t][,;:!?)](?!\w)|[ \t]\.(?![.\w])|\([\s,;]{0,5}\)|\[[\s,;]{0,5}\]|,,|;;"
    r"|<a\b[^<>]{0,300}>\s{0,3}</a>|<sup\b[^<>]{0,100}>\s{0,3}</sup>|\(\#\w"
    r"|\((?:see|cf\.?|see also|e\.g\.,?)[\s;,)]"
    rf"|\baccording to[,.;)]|\bas (?:shows?|{_SAID} (?:in|by)(?: (?:above|below))?)[,.;)]|\bsee(?: also)?[.;,)]"
    rf"|\b{_SAID} in (?:above|below)\b|\bcf\.?[;,)]",
    re.IGNORECASE,
)
_ODD = re.compile(
    r"[【〔⟦〚❲［]\W{0,3}\d{1,4}|†|↩|oai_citation|<\|?/?(?:cite|co)\b|\[citation needed"
    r"|&(?:\#91|\#x5b|lsqb|lbrack);|\[cite"
    r"|\bturn\d{1,3}(?:search|view|news)\d{1,3}"
    r"|\[[^\w\[\]\n]{1,6}\d{1,3}[^\w\[\]\n]{0,6}\](?!\()",
    re.IGNORECASE,
)


def remains_in(text: str, original: str) -> list[str]:
    """What is broken or looks like a mark in a text without marks, and was not so in the original: each as it reads.

    Each kind of remains counts where the text has more of it than the original.
    """
    broken = [match[0].strip() for match in _BROKEN.finditer(text)]
    new = [
        one
        for one in dict.fromkeys(broken)
        if broken.count(one) > sum(m[0].strip() == one for m in _BROKEN.finditer(original))
    ]
    return [*new, *stumps_in(text, original), *(match[0] for match in _ODD.finditer(text))]
