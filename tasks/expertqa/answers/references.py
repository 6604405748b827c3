"""The list of sources at the end of an answer, with the rule before it and the notes on its numbers.

Lists: `[1] https://…`, `[^1]: https://…`, `1. https://…`, or under a heading (closings.toml) numbered lines, bullets,
rows of a table, or entries on the heading's own line (`References: [1] Roe 2010, [2] Doe 2012`); an entry may go on in
the next line. Lists of other things have headings such as "Sources" or "Notes", too: there half of the entries must
look like sources, or be cited by their numbers.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tasks.expertqa.answers.citations import (
    ANY_URL,
    HIGHEST,
    LINK,
    MARK,
    RAISED,
    URL,
    addresses_in,
    cited_numbers,
    numbered_addresses,
    numbers_of,
    urls,
)

Row = dict[str, Any]
Line = tuple[int, str]  # offset in the text, the line without its end

LONGEST_HEADING, LONGEST_ENTRY, LONGEST_NOTE = 80, 1_000, 300  # characters
LEAST_SHARE = 0.5
LONGEST_LIST = 2_000  # lines
MOST_LISTS = 5
_ENTRY = re.compile(
    r"[ \t]{0,12}(?:[-*•]\s{1,3})?"
    rf"(?:(?P<square>\[\s?(?P<note>\^?)(?P<one>\d{{1,6}})\^?\s?\]|(?P<raised>[{RAISED}]{{1,4}}))(?P<colon>:?)"
    r"|\(?(?P<two>\d{1,6})[.):])[ \t]{0,8}(?P<rest>.*)"
)
_BULLET = re.compile(r"[ \t]{0,12}(?P<mark>[-*•]\s{1,3})?(?P<rest>.*)")
_ITEM = re.compile(r"[ \t]{0,12}(?:[-*•]\s|\[\s?\^?\d|\(?\d{1,6}[.):])")
_RULE = re.compile(r"[-*_=–—]{3,80}|(?:[-*_]\s){2,20}[-*_]")
_BIBLIOGRAPHIC = re.compile(
    r"\b(?:doi|isbn|issn|vol\.|pp\.|et al\b|retrieved|accessed)|(?:\b(?:1[89]|20)\d\d[a-z]?[)\]]?\.?\s{0,3}\Z)"
    r"|\((?:1[89]|20)\d\d[a-z]?(?:,\s[^()]{1,30})?\)|\b(?:1[89]|20)\d\d;\s?\d"
    r"|[\"“«][^\"”»]{3,300}[\"”»][^\n]{0,80}\b(?:1[89]|20)\d\d\b",
    re.IGNORECASE,
)
_DECORATED = re.compile(r"[ \t>]{0,12}(?:#{1,6}\s|[*_]{2}|<)|.{1,80}[:：][*_ ]{0,6}\Z")
_QUOTED = re.compile(r"\A[ \t]{0,3}(?:>[ \t]?){1,3}")
_TAGS = re.compile(r"<[^<>]{1,80}>")
_FOR_ANSWER = re.compile(
    r"(?: used| cited| consulted)?(?: (?:in|for) (?:this|the|my) (?:answer|text|response)| above)\Z"
)
_NUMBERING = re.compile(r"[\s>#*_]{0,12}\d{1,2}[.)]\s|.{0,80}(?=[(\[]\d{1,4}[)\]]\W{0,12}\Z)")
_SPLIT_NUMBER = re.compile(r"(?:(?<=\s)|\A)(?:\[\^?(?P<one>\d{1,4})\^?\]|\((?P<three>\d{1,4})\)|(?P<two>\d{1,4})[.)])")
_SPLIT_ADDRESS = re.compile(rf"[,;]?\s{{1,4}}(?:and\s)?(?=<?{URL})")
_DOMAIN = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}(?:/[^\s,;\[\]<>()\"]{0,500})?")
_GOES_ON = re.compile(r"(?:[,;:&–-]|\b(?:and|of|the|in|for|on|a|an|to|und|der|die|et|de|la|y|e|del))\Z", re.IGNORECASE)
_SIGNS = ' \t-–—:,.()<>[]*"'


class Source(NamedTuple):
    """An entry of a list of references: its address, and as `title` its other words, each None if there is none."""

    url: str | None
    title: str | None


class _Entry(NamedTuple):
    """An entry of a list as it stands there: its number, None without; whether its form is that of a reference
    (`[1]`, `[^1]:`, `¹`); and its words.
    """

    number: int | None
    marked: bool
    words: str


def references(text: str) -> tuple[int, dict[int, Source]]:
    """(offset where the list of references at the end of the text begins, number -> source). (len(text), {}) if there
    is no list; (offset of the heading, {}) if there is a heading at the end without entries.

    Of several lists the sources are those of all. A rule before a list, what closes the answer after it, and a note on
    the answer's numbers belong to it.
    """
    end, sources = len(text), dict[int, Source]()
    for _ in range(MOST_LISTS):
        if (found := _last_list(text, end)) is None:
            break
        end, sources = found[0], _together(found[1], sources)
    if (noted := _before_notes(text, end, _is_note)) < end and (sources or cited_numbers(text[:noted])):
        end = noted
    return end, sources


def _together(first: dict[int, Source], second: dict[int, Source]) -> dict[int, Source]:
    """The sources of two lists; what has the number of another in the second list gets the next free one."""
    found = dict(first)
    for number, source in second.items():
        found[max(found) + 1 if number in found else number] = source
    return found


def _last_list(text: str, end: int) -> tuple[int, dict[int, Source]] | None:
    """(offset, number -> source) of the last list of text[:end], with the rule before it; None if there is none."""
    for stop in dict.fromkeys((end, _before_notes(text, end, _is_closing))):
        body = text[:stop]
        if found := _under_heading(body) or _without_heading(body) or _table(body):
            return _before_rules(text, found[0]), found[1]
    return None


def cited_sources(text: str) -> tuple[str, list[Row]]:
    """(the text without its list of references, the sources of this list and of citations in the text as rows of
    CITED, by number). Without a list the text is unchanged.

    Addresses in brackets or links without a number, as far as no source has them yet, get the numbers after the
    highest that the text lists or cites; cited numbers from HIGHEST on are ignored here.
    """
    end, sources = references(text)
    body = text[:end].rstrip() if end < len(text) else text
    for number, url in numbered_addresses(body):
        sources.setdefault(number, Source(url, None))
    listed = {source.url for source in sources.values()}
    following = max([0, *sources, *(number for number in cited_numbers(body) if number < HIGHEST)]) + 1
    for number, url in enumerate((url for url in addresses_in(body) if url not in listed), following):
        sources[number] = Source(url, None)
    return body, [
        {"number": number, "url": url, "passage_id": None, "title": title, "text": None}
        for number, (url, title) in sorted(sources.items())
    ]


# ---------------------------------------------------------------- under a heading


def _under_heading(text: str) -> tuple[int, dict[int, Source]] | None:
    """(offset of the heading, number -> source) of the list under the last heading of the text; None if anything else
    stands under it, or its entries are no sources.
    """
    below: list[Line] = []
    for start, line in _lines_upwards(text):
        name = _name(line)
        if name in _headings():
            alone = not any(under.strip() for _, under in below)
            if alone and not _stands_alone(text, start, line):
                return None
            return _accepted(text, start, name, _entries(below[::-1]))
        if headed := _heading_of_line(line):
            return _accepted(text, start + headed[0], headed[1], _entries([*_split(headed[2]), *below[::-1]]))
        below.append((start, _QUOTED.sub("", line)))
        if len(below) > LONGEST_LIST:
            break
    return None


def _stands_alone(text: str, start: int, line: str) -> bool:
    """Whether a heading without entries is one, and no item or last line of something else."""
    item = _ENTRY.fullmatch(line) or ((bullet := _BULLET.fullmatch(line)) and bullet["mark"])
    return not item and (_DECORATED.match(line.rstrip()) is not None or text[:start].endswith(("\n\n", "\r\n\r\n")))


def _accepted(text: str, start: int, name: str, entries: list[_Entry] | None) -> tuple[int, dict[int, Source]] | None:
    """(start, number -> source) of a list under the heading `name`; None if it is no list, or one of other things."""
    if entries is None or any(len(entry.words) > LONGEST_ENTRY for entry in entries):
        return None
    numbered = [entry for entry in entries if entry.number is not None]
    sure = _headings()[name] and (numbered or not entries)
    if not sure and entries and _share_of_sources(entries, text[:start]) < LEAST_SHARE:
        return None
    listed = numbered or [entry._replace(number=number) for number, entry in enumerate(entries, 1)]
    return start, _sources(listed)


def _share_of_sources(entries: list[_Entry], body: str) -> float:
    """The share of entries that are sources by their looks, or are cited in the answer before them."""
    cited = {*cited_numbers(body)}
    return sum(entry.marked or entry.number in cited or _is_source(entry.words) for entry in entries) / len(entries)


def _is_source(words: str) -> bool:
    """Whether words have an address, or name a publication as lists of references do."""
    return ANY_URL.search(words) is not None or _BIBLIOGRAPHIC.search(words) is not None


def _sources(entries: Iterable[_Entry]) -> dict[int, Source]:
    """Number -> source of entries with numbers, in their order; of several with one number the first is kept."""
    found: dict[int, Source] = {}
    for number, _, words in entries:
        if number is not None:
            found.setdefault(number, _source(words))
    return found


def _source(words: str) -> Source:
    """The source that an entry names. `title`: its words without addresses and outer punctuation."""
    said = LINK.sub(lambda link: link[1], words)
    found = urls(words)
    return Source(found[0] if found else None, ANY_URL.sub("", said).strip(_SIGNS) or None)


def _entries(lines: list[Line]) -> list[_Entry] | None:
    """The entries in the lines under a heading, in order; None if one of the lines is none, and part of none."""
    found: list[_Entry] = []
    continued, weak, parted, items = set[int](), None, True, False
    for _, line in lines:
        said = line.strip()
        if not said or _RULE.fullmatch(said):
            parted = True
            continue
        if (entry := _row(said) if said.startswith("|") else _entry(line)) is not None:
            found += [entry] if entry.words or entry.number is not None else []
        elif (alone := _address_alone(line)) and found and not urls(found[-1].words):
            found[-1] = found[-1]._replace(words=f"{found[-1].words} {said}")
        elif other := _Entry(None, False, said) if alone else _unnumbered(line, goes_on=items and not parted):
            found.append(other)
        elif found and not (parted and not line[:2].isspace()):
            if not _continues(found[-1].words, line):
                weak = len(found) - 1
            continued.add(len(found) - 1)
            found[-1] = found[-1]._replace(words=f"{found[-1].words} {said}")
        else:
            return None
        parted, items = False, items or _ITEM.match(line) is not None
    return None if weak == len(found) - 1 and continued == {weak} else found


def _continues(words: str, line: str) -> bool:
    """Whether a line goes on with the entry of these words, rather than being the text after a list."""
    said = line.strip()
    return bool(line[:2].isspace() or said[:1].islower() or _is_source(said) or _GOES_ON.search(words.rstrip()))


def _entry(line: str) -> _Entry | None:
    """The numbered entry of a line; None if it is none."""
    if (entry := _ENTRY.fullmatch(line)) is None:
        return None
    number = entry["one"] or entry["two"] or numbers_of(entry["raised"])[0]
    return _Entry(int(number), entry["two"] is None, entry["rest"].strip())


def _row(line: str) -> _Entry | None:
    """The entry of a row of a table, one without words of its head or the line under that; None of a row that cites."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if all(re.fullmatch(r":?-*:?", cell) for cell in cells) or _is_head(cells):
        return _Entry(None, False, "")
    first = _entry(cells[0]) or _entry(f"{cells[0]}.") or _Entry(None, False, cells[0])
    words = " ".join(filter(None, (first.words, *cells[1:])))
    return None if MARK.search(words) else first._replace(words=words)


def _is_head(cells: list[str]) -> bool:
    """Whether these are the names of the columns of a table of sources."""
    names = [cell.strip("*_ ").casefold() for cell in cells]
    return any(names) and all(name in _columns() or name in _headings() for name in names)


def _address_alone(line: str) -> bool:
    """Whether a line is an address, with or without a bullet, and nothing else."""
    bullet = _BULLET.fullmatch(line)
    return bullet is not None and ANY_URL.fullmatch(bullet["rest"].strip().strip("<>")) is not None


def _unnumbered(line: str, *, goes_on: bool) -> _Entry | None:
    """The entry of a line without a number: a link, also with few words after it, or a bullet, or words that name a
    publication, unless they may go on with the item before them (`goes_on`). None for other lines, and for those that
    cite.
    """
    bullet = _BULLET.fullmatch(line)
    rest = bullet["rest"].strip() if bullet else ""
    link = LINK.match(rest)
    listed = (
        (bullet and bullet["mark"]) or (link and len(rest) - link.end() <= 80) or (not goes_on and _is_source(rest))
    )
    return _Entry(None, False, rest) if rest and listed and not MARK.search(rest) else None


# ---------------------------------------------------------------- headings


def _name(line: str) -> str:
    """The words of a line as those of a heading, in lower case, without signs, tags and numbers around; "" for a line
    that is too long.
    """
    if len(line) > LONGEST_HEADING:
        return ""
    said = _TAGS.sub("", line).replace("(s)", "s").strip("| ")
    if numbering := _NUMBERING.match(said):
        said = said[numbering.end() :] if numbering[0].rstrip().endswith((".", ")")) else numbering[0]
    name = " ".join(re.sub(r"\A[\W_]+|[\W_]+\Z", "", said).casefold().split())
    return name if name in _headings() else _FOR_ANSWER.sub("", name)


def _heading_of_line(line: str) -> tuple[int, str, str] | None:
    """(offset, name, the rest of the line) of the last heading within a line that is followed by entries; None if there
    is none: `References: [1] Roe 2010` at its beginning or after a sentence.
    """
    *_, last = (None, *_inline_headings().finditer(line))
    return (last.start(), last["name"].casefold(), line[last.end() :].strip()) if last else None


@cache
def _inline_headings() -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(filter(None, _headings()), key=len, reverse=True)))
    return re.compile(
        rf"(?:\A[ \t>]{{0,12}}|(?<=[.!?…。)\]”\"*_] ))[#*_(]{{0,6}}\s?(?P<name>{names})[*_]{{0,3}}\s?[:：][*_]{{0,3}}"
        rf"(?=\s{{0,4}}\S)\s{{0,4}}",
        re.IGNORECASE,
    )


def _split(said: str) -> list[Line]:
    """The entries on the line of a heading, each as a line of its own; one that is none of a list stays none."""
    marks = list(_SPLIT_NUMBER.finditer(said))
    if marks and marks[0].start() == 0:
        kind, starts, number = marks[0].lastgroup, [0], int(marks[0][marks[0].lastgroup or 0])
        for mark in marks[1:]:
            if mark.lastgroup == kind and int(mark[kind or 0]) == number + 1:
                starts, number = [*starts, mark.start()], number + 1
        parts = [said[a:b].strip(" \t,;") for a, b in zip(starts, [*starts[1:], len(said)], strict=True)]
        named = all(re.sub(r"\A\W*\d+\W*", "", part)[:1].isupper() or _is_named(part) for part in parts)
        return [(0, part if named else f"| {part} [1]") for part in parts]
    parts = _SPLIT_ADDRESS.split(said) if ANY_URL.match(said.lstrip("<")) else re.split(r";\s", said)
    return [(0, f"- {part.strip(' ,;')}" if _is_source(part) else f"| {part} [1]") for part in parts]


def _is_named(part: str) -> bool:
    """Whether an entry of a list on one line names a source although no capital begins it."""
    words = re.sub(r"\A\W*\d+[\W_]*", "", part)
    return _is_source(part) or _DOMAIN.match(words) is not None


@cache
def _closings() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_name("closings.toml").read_text(encoding="utf-8"))


@cache
def _headings() -> dict[str, bool]:
    """Heading of a list of sources -> whether lists of other things have none such."""
    lists = _closings()["headings"]
    return dict.fromkeys(lists["if_sources"], False) | dict.fromkeys(lists["always"], True)


@cache
def _columns() -> frozenset[str]:
    return frozenset(_closings()["columns"]["names"])


# ---------------------------------------------------------------- without a heading


def _without_heading(text: str) -> tuple[int, dict[int, Source]] | None:
    """(offset, number -> source) of the last lines that are `[1]` with an address, which may be on the line below, or
    `1.` with an address alone, notes such as `[^1]: …`, and what `[1]` names under a rule, or with a title and a year
    if the text cites it. None if there are none.
    """
    start_of_sure, sure = len(text), 0
    entries: list[tuple[int, Source]] = []
    below: list[str] = []
    certain = in_brackets = True
    often = Counter(number for match in MARK.finditer(text) for number in numbers_of(match[0]))
    for start, line in _lines_upwards(text):
        if entry := _ENTRY.fullmatch(line):
            entries.append(_with_below(entry, below))
            number, source = entries[-1]
            certain = certain and (_is_sure(entry, source) or (often[number] > 1 and _is_bibliographic(entry)))
            in_brackets = in_brackets and entry["two"] is None
            start_of_sure, sure = (start, len(entries)) if certain else (start_of_sure, sure)
        elif _RULE.fullmatch(line.strip()) and entries and (certain or in_brackets):
            start_of_sure, sure = start, len(entries)
            break
        elif _address_alone(line) or (line[:2].isspace() and line.strip()):
            below.append(line.strip())
        elif line.strip():
            break
    return (start_of_sure, _in_order(entries[:sure])) if sure else None


def _in_order(upwards: list[tuple[int, Source]]) -> dict[int, Source]:
    """Number -> source in the order of the text. `upwards`: (number, source) of the entries, the last in the text
    first. Of entries with the same number the first in the text is kept.
    """
    first = dict(upwards)
    return {number: first[number] for number, _ in reversed(upwards)}


def _lines_upwards(text: str) -> Iterator[Line]:
    """(offset, line) of each line, from the last to the first; without the line end."""
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        yield start, text[start:end].rstrip("\r")
        end = start - 1


def _with_below(entry: re.Match[str], below: list[str]) -> tuple[int, Source]:
    """(number, source) of an entry, whose words go on in the lines `below`, the nearest last; these are removed."""
    own = _entry(entry[0]) or _Entry(0, False, "")
    words = " ".join([own.words, *reversed(below)])
    below.clear()
    return own.number or 0, _source(words)


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


def _table(text: str) -> tuple[int, dict[int, Source]] | None:
    """(offset, number -> source) of a table at the end whose columns are those of sources, and half of whose rows have
    an address or a number that is cited; None if there is none.
    """
    rows: list[Line] = []
    for start, line in _lines_upwards(text):
        if line.strip().startswith("|"):
            rows.append((start, line))
        elif rows or line.strip():
            break
    if not rows or not _is_head([cell.strip() for cell in rows[-1][1].strip().strip("|").split("|")]):
        return None
    entries, cited = _entries(rows[::-1]) or [], {*cited_numbers(text)}
    named = [entry for entry in entries if entry.marked or entry.number in cited or ANY_URL.search(entry.words)]
    return (
        _accepted(text, rows[-1][0], "sources", entries) if len(named) >= LEAST_SHARE * max(1, len(entries)) else None
    )


# ---------------------------------------------------------------- rules and notes


def _before_rules(text: str, end: int) -> int:
    """The offset of the rules and blanks before `end`, if there are any rules."""
    for start, line in _lines_upwards(text[:end].rstrip()):
        if not _RULE.fullmatch(line.strip()):
            break
        end = start
    return end


def _before_notes(text: str, end: int, belongs: Any) -> int:
    """The offset of the last lines of text[:end] that belong to no text by `belongs`, with rules before them; `end` if
    there are none.
    """
    found = False
    for start, line in _lines_upwards(text[:end]):
        if line.strip() and not _RULE.fullmatch(line.strip()):
            if not belongs(line):
                break
            end, found = start, True
        elif not line.strip() and not found:
            continue
    return _before_rules(text, end) if found else end


def _is_closing(line: str) -> bool:
    """Whether a line is what may stand after a list of sources."""
    said = _plain(line)
    return _is_note(line) or (len(said) <= LONGEST_NOTE and said.startswith(_starts()) and not MARK.search(line))


def _is_note(line: str) -> bool:
    """Whether a line says what the numbers of an answer refer to."""
    return len(line) <= LONGEST_NOTE and _note().match(_plain(line)) is not None


def _plain(line: str) -> str:
    """The line in lower case, with straight apostrophes, without the signs before it."""
    return re.sub(r"\A[\W_]+", "", line.casefold().replace("’", "'"))


@cache
def _starts() -> tuple[str, ...]:
    return tuple(_closings()["closers"]["starts"])


@cache
def _note() -> re.Pattern[str]:
    subjects, verbs, objects = (_any_of(_closings()["notes"][name]) for name in ("subjects", "verbs", "objects"))
    return re.compile(
        rf"[^.!?。\n]{{0,40}}?{subjects}[^.!?。\n]{{0,60}}?{verbs}[^.!?。\n]{{0,60}}?{objects}[^\n]{{0,120}}\Z"
    )


def _any_of(words: list[str]) -> str:
    """A pattern of any of these words, which are whole words where the script parts words."""
    return "(?:" + "|".join(rf"\b{re.escape(w)}\b" if w[0] < "\u2e80" else re.escape(w) for w in words) + ")"
