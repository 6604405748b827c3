"""Heads of sections among the lines of a PDF, by general rules:

    14.3 bold  "2.1 Overview"            numbered: its number goes on from the heads before it, and it looks like them
    12.0 bold  "Related Work"            without number: isolated, in a style that only heads have, text follows below
    10.0       "II. RELATED WORK"        in the body's own font: capitals, a Roman number, isolated
    10.9 bold  "as was shown before in"  in mid-sentence: the line before ends none, or the next goes on in lower case

A bookmark of the document counts if a line on its page has its text; if most do, what they leave out is no head unless
it is numbered or a usual head.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.sources.papers.pdf.layout import LARGER, Body, Line, unreadable_share
from tasks.text.headings import is_noise, plain, role_of, split_number

MAX_CHARS, MAX_WORDS, MAX_LINES = 180, 26, 3
MAX_WORDS_WITH_DOT = 8
MAX_LINES_OF_FIGURE = 30
MIN_CHAIN = 3
MAX_CANDIDATES = 600
MAX_UNREADABLE = 0.2
MIN_BOOKMARKS, BOOKMARKS_FOUND = 3, 0.6

_ENDS = frozenset('.!?:;”"’)]')
_QUOTES = '"”’)]'
_LETTER = re.compile(r"[^\W\d_]")
_CODE = re.compile(r"[=<>{}|\\~^]|\w\(|\$\w|::|^[R>+#]+\s|\w_\w")
_TABLE_OF_CONTENTS = re.compile(r"(?:\. ?){4,}|…{2,}|\.{4,}")
_SENTENCES = re.compile(r"[a-z]{3}[)\]]?[.!?] [A-Z][a-z]* ")
_CHAPTER = re.compile(r"(?:chapter|appendix)\s+(?:\d{1,2}|[A-Z])", re.IGNORECASE)
_IN_SENTENCE = re.compile(r"(?:appendix|appendices|section|chapter)\s+[\dA-Z][\d.]*\s+(?-i:[a-z])", re.IGNORECASE)
_DIMENSIONS = re.compile(r"[1-4]-?D\b")
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|does|did|do|will|would|can|could|should|may|not)\b")
_CELLS = re.compile(r"(?:\s[\d.,:%±–-]*\d%?){2,}$")
FIGURE = re.compile(r"(?:figure|fig\.)\s*[A-Z]?\d", re.IGNORECASE)
_DATE = re.compile(r".{0,10}\b(?:19|20)\d\d\b.{0,12}")
_ENDS_IN_PAGE = re.compile(r"\s\d{1,3}$")
CAPTION = re.compile(
    r"(?:figure|fig\.|table|tab\.|algorithm|listing|scheme|box|plate|supplementary (?:figure"
    r"|table))\s*[A-Z]?\d+[\d.]*\s*"
    r"(?:[.:|—–-]|$|(?-i:[A-Z]))",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"(?:theorem|lemma|proposition|corollary|definition|proof|example|remark|claim|assumption|step|case|exercise"
    r"|question|hypothesis)\b\.?\s*[\dIVX]*(?:\.\d+)*\s*(?:[.:(].*)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?:(?:section|chapter|appendix(?=\s+[A-Z]\b)|§)\s*)?(\d{1,2}(?:\.\d{1,2}){0,3}|[IVX]{1,5}"
    r"|[A-Z](?:\.\d{1,2}){0,3})"
    r"(?P<mark>[.):|]*)(?P<space>\s+)(?=\S)",
    re.IGNORECASE,
)
_ROMAN = re.compile(r"(?=[IVX])X{0,2}(?:IX|IV|V?I{0,3})")
REFERENCES = re.compile(r"references?(?: and notes| cited)?|bibliography|literature cited|works cited|literature")
APPENDIX = re.compile(r"(?:appendi(?:x|ces)|supplement).*")
ABSTRACT = re.compile(r"(?:abstract|summary)(?:$|[.:—–-])")
_KNOWN = re.compile(
    r"abstract|summary|introduction|background|preliminaries|(?:materials? and "
    r"|patients and )?methods?(?: and materials?)?"
    r"|methodology|(?:our )?approach|models?|data|datasets?|experiments?|experimental (?:set-?up|results|settings?)"
    r"|evaluation|results?(?: and discussions?)?|analysis|discussions?|limitations|conclusions?(?: and .*)?"
    r"|concluding remarks|discussions? and .*|future (?:work|directions)|acknowledge?ments?"
    r"|ethic.{0,40}|broader impacts?"
    r"|funding(?: .{0,20})?|data availability.{0,12}|author contributions?|conflicts? of interests?"
    r"|competing interests?"
    r"|notations?|problem (?:formulation|statement|setup)|implementation(?: details)?|motivation|overview"
    r"|computational details|reproducibility statement"
)
_FRONT = re.compile(r"contents|table of contents|keywords?.*|index terms.*|key ?points|highlights")


@dataclass(frozen=True, slots=True)
class Head:
    """A head: the indexes of its first line and of the line after its last, its printed number and its text."""

    start: int
    end: int
    number: str | None
    text: str


@dataclass(slots=True)
class _Block:
    """One to three lines that may be a head. `number`: (series, levels), e.g. ("1", (2, 1)), ("I", (2,)), ("A", (1, 2))
    for 2.1, II and A.2; None without. `look`: font, size and whether it is in capitals. `apart`: whether white space, a
    new column or page is above it; `follows`: the line of running text below it, None if there is none before the next
    page but one; `text_below`: whether the very next line is text; `stacked`: whether another block is directly below.
    """

    start: int
    end: int
    text: str
    printed: str | None
    name: str
    number: tuple[str, tuple[int, ...]] | None
    look: tuple[str, float, bool]
    styled: bool
    distinct: bool
    apart: bool
    ends_before: bool
    follows: Line | None
    text_below: bool
    stacked: bool = False

    @property
    def known(self) -> bool:
        """Whether papers usually have this head."""
        return is_known(self.name)

    @property
    def capitals(self) -> bool:
        """Whether it is in capitals."""
        return self.look[2]


def is_known(name: str) -> bool:
    """Whether papers usually have this head, given in the form that `plain` returns."""
    return bool(role_of(name) or any(form.fullmatch(name) for form in (_KNOWN, REFERENCES, APPENDIX)))


def heads_of(lines: Sequence[Line], body: Body, bookmarks: Sequence[tuple[str, int]] = ()) -> list[Head]:
    """The heads among the lines of a paper, in order; none if more than MAX_UNREADABLE of the text is unreadable.
    `bookmarks`: (title, page from 0) of the document's outline.
    """
    if unreadable_share(lines) > MAX_UNREADABLE:
        return []
    blocks = _blocks(lines, body)
    numbered = _numbered(blocks)
    chosen = {block.start: block for block in numbered}
    chosen |= {block.start: block for block in _unnumbered(blocks, numbered, lines, body)}
    marked = _marked(blocks, lines, body, bookmarks)
    if marked is not None:
        chosen = {start: block for start, block in chosen.items() if _beside(block, marked)}
        chosen |= {block.start: block for block in marked}
    return [
        Head(block.start, block.end, block.printed, block.text)
        for block in sorted(chosen.values(), key=lambda b: b.start)
    ]


def _beside(block: _Block, marked: Sequence[_Block]) -> bool:
    """Whether a head that no bookmark names is one beside those that they name: numbered or a usual head, in a style of
    theirs or smaller than all.
    """
    return block.known or (block.number is not None and block.look in {other.look for other in marked})


# ---------------------------------------------------------------- candidates


def _blocks(lines: Sequence[Line], body: Body) -> list[_Block]:
    """What may be a head by its form: no caption, no sentence, text or another head below."""
    toc, found, position = _contents(lines), list[_Block](), 0
    while position < len(lines):
        end = _end(lines, position, body)
        if position not in toc and (block := _block(lines, position, end, body)):
            found.append(block)
        position = end
    starts = {block.start for block in found}
    for block in found:
        block.stacked = block.end in starts
    return [block for block in found if block.follows is not None or block.stacked or block.known]


def _contents(lines: Sequence[Line]) -> set[int]:
    """The indexes of the lines of tables of contents."""
    found = {n for n, line in enumerate(lines) if _TABLE_OF_CONTENTS.search(line.text)}
    inside, missed = False, 0
    for n, line in enumerate(lines):
        if plain(line.text) in ("contents", "table of contents"):
            inside, missed = True, 0
            found.add(n)
        elif inside:
            listed = n in found or bool(_ENDS_IN_PAGE.search(line.text) and not _CHAPTER.fullmatch(line.text))
            missed = 0 if listed else missed + 1
            inside = missed < 3
            if listed:
                found.add(n)
    return found


def _end(lines: Sequence[Line], start: int, body: Body) -> int:
    """The index after the last line of what begins at `start`: lines in one style close below one another, if that is
    not the body's; else one line.
    """
    first, end = lines[start], start + 1
    if _CHAPTER.fullmatch(first.text) and end < len(lines) and _titled(first, lines[end], body):
        return _end(lines, end, body)
    if not body.distinct(first) and not first.text.isupper():
        return end
    while end < len(lines) and _same(lines[end - 1], lines[end], body):
        end += 1
    return end


def _titled(number: Line, line: Line, body: Body) -> bool:
    """Whether a line below "Chapter 2" alone is the title of that chapter: in its style or larger."""
    below = 0 < number.last_top - line.top < 4 * max(number.size, body.size) and number.page == line.page
    styled = body.styled(number) and body.styled(line) and line.size > number.size - LARGER
    return below and (styled or (number.text.isupper() and line.text.isupper()))


def _same(before: Line, line: Line, body: Body) -> bool:
    """Whether a line looks like the one before and is close below it, without a number of its own."""
    small_capitals = 0.35 * before.size
    near = small_capitals if line.text.isupper() else 0.3
    alike = line.font == before.font and abs(line.size - before.size) < near and line.bold == before.bold
    below = 0 < before.last_top - line.top < 1.55 * max(line.size, body.size)
    upper = before.text.isupper() == line.text.isupper()
    return alike and upper and below and line.page == before.page and number_of(line.text)[0] is None


def _block(lines: Sequence[Line], start: int, end: int, body: Body) -> _Block | None:
    """The lines as a block; None if they can be no head by their form."""
    first = lines[start]
    if any(line.unreadable for line in lines[start:end]):
        return None
    if first.text[0].islower() or lines[end - 1].text[-1] in ",;":
        return None
    text = body.joined(lines[start:end])
    printed, rest, number = split_head(text)
    if end - start > MAX_LINES or not _is_short(rest) or first.size < body.size - 1.6:
        return None
    name = plain(rest)
    if not _may_be_head(rest, number is not None, is_known(name) or body.large(first)) or _runs_in(lines, end, body):
        return None
    follows = _following(lines, end, body)
    if (follows is not None and _goes_on_below(follows)) or (number is None and _in_figure(lines, end, body)):
        return None
    look = (first.font, round(first.size, 1), rest.isupper())
    apart, ends = _apart(lines, start, body), _ends_before(lines, start, body)
    if not ends and not (apart and (number is not None or body.styled(first))):
        return None
    styled, distinct, below = body.styled(first), body.distinct(first), _text_below(lines, end, body)
    return _Block(start, end, rest, printed, name, number, look, styled, distinct, apart, ends, follows, below)


def _is_short(text: str) -> bool:
    """Whether a text has the length of a head, and at least three letters."""
    letters = len(_LETTER.findall(text))
    return len(text) <= MAX_CHARS and len(text.split()) <= MAX_WORDS and letters >= 3 and letters > 0.45 * len(text)


def _runs_in(lines: Sequence[Line], end: int, body: Body) -> bool:
    """Whether what ends before the line at `end` fills its line to the right end, and goes on in the body's text at the
    body's distance: a head that begins a paragraph, or bold words in it.
    """
    if end >= len(lines):
        return False
    before, line = lines[end - 1], lines[end]
    close = 0 < before.last_top - line.top < 1.1 * body.leading and line.page == before.page
    return close and abs(before.right - line.right) < 2 and abs(before.size - line.size) < LARGER


def _may_be_head(text: str, numbered: bool, known: bool) -> bool:
    """Whether a text, without its number, has the form of a head: it begins with a capital or, after a number, with a
    digit or letter; does not end as a sentence does, or hold the end of one; is no caption and no code. `known`: a
    usual head or in large print.
    """
    if _SENTENCES.search(text) or (text[-1] == "." and (_VERB.search(text) or len(text.split()) > MAX_WORDS_WITH_DOT)):
        return False
    if not numbered and (_IN_SENTENCE.match(text) or _DATE.fullmatch(text) or _CELLS.search(text)):
        return False
    if CAPTION.match(text) or is_noise(text) or _TABLE_OF_CONTENTS.search(text) or _FRONT.fullmatch(plain(text)):
        return False
    if text[-1] in ",;" or (text[-1] in ".:" and not known and not (numbered and len(text) < 60)):
        return False
    first = text.lstrip("“\"'‘(")[:1]
    if not numbered and (not first.isupper() or (_STATEMENT.fullmatch(text) and not known)):
        return False
    return known or not (_CODE.search(text) and not numbered)


def _following(lines: Sequence[Line], start: int, body: Body) -> Line | None:
    """The next line of running text in the body's size, past captions, small print and larger lines; None if another
    page is reached first but one.
    """
    if start >= len(lines):
        return None
    page = lines[start].page
    for line in lines[start : start + 80]:
        if line.page > page + 1:
            return None
        if abs(line.size - body.size) < 0.6 and len(line.text) >= 20 and not CAPTION.match(line.text):
            return line
    return None


def _in_figure(lines: Sequence[Line], start: int, body: Body) -> bool:
    """Whether the caption of a figure comes below before any line of running text: then what is above it is lettering
    of the figure.
    """
    for line in lines[start : start + MAX_LINES_OF_FIGURE]:
        if line.page != lines[start - 1].page or (not body.small(line) and len(line.text) >= 40):
            return FIGURE.match(line.text) is not None and line.page == lines[start - 1].page
        if FIGURE.match(line.text) and CAPTION.match(line.text):
            return True
    return False


def _text_below(lines: Sequence[Line], end: int, body: Body) -> bool:
    """Whether the next line is one of text: of the body's size at least, mostly letters, no caption."""
    if end >= len(lines):
        return False
    line = lines[end]
    letters = sum(map(str.isalpha, line.text))
    return not body.small(line) and letters >= max(15, 0.6 * len(line.text)) and not CAPTION.match(line.text)


def _goes_on_below(line: Line) -> bool:
    """Whether a line goes on with a sentence: it begins in lower case, and with a word, not with code."""
    word = line.text.split()[0]
    return word == word.lower() and word[:1].islower() and word.rstrip(",;").isalpha() and "(" not in line.text[:30]


def _apart(lines: Sequence[Line], start: int, body: Body) -> bool:
    """Whether there is white space above a line, or it is the first of a page or column."""
    if start == 0:
        return True
    before, line = lines[start - 1], lines[start]
    if line.page != before.page or line.top > before.top:
        return True
    return before.last_top - line.top > 1.2 * max(body.leading, line.size)


def _ends_before(lines: Sequence[Line], start: int, body: Body) -> bool:
    """Whether the running text above a line ends a sentence, or there is none on its page; small print is passed over.
    A line that is far from the right end of its column also ends one.
    """
    line = lines[start]
    for before in reversed(lines[max(0, start - 60) : start]):
        if before.page < line.page - 1:
            return True
        if body.small(before) or CAPTION.match(before.text):
            continue
        text = before.text.rstrip(_QUOTES)
        return text[-1:] in _ENDS or body.distinct(before) or before.text[-1] in _QUOTES or len(before.text) < 35
    return True


# ---------------------------------------------------------------- numbers


def number_of(text: str) -> tuple[tuple[str, tuple[int, ...]] | None, str | None, str]:
    """((series, levels), printed number, rest) of a text that begins with a number; (None, None, text) without one. The
    series are "1", "I" and "A" for Arabic and Roman numbers and letters.
    """
    match = _NUMBER.match(text)
    if match is None:
        return None, None, text
    printed, rest = match[1], text[match.end() :]
    if not _LETTER.match(rest.lstrip("“\"'‘(")) and not rest[0].isdigit():
        return None, None, text
    if printed[0].isdigit():
        if rest[0].isdigit() and not match["mark"] and not _DIMENSIONS.match(rest):
            return None, None, text
        return ("1", tuple(map(int, printed.split(".")))), printed, rest
    if not printed[0].isupper() or (not rest[0].isupper() and not rest[0].isdigit()):
        return None, None, text
    if _ROMAN.fullmatch(printed) and (match["mark"] or len(printed) > 1 or rest.isupper()):
        return ("I", (_roman(printed),)), printed, rest
    if len(printed) == 1 and not match["mark"] and not text[: match.start(1)] and split_number(text)[0] is None:
        return (("A", _lettered(printed)), printed, rest) if _is_appendix(printed, rest) else (None, None, text)
    return ("A", _lettered(printed)), printed, rest


def _is_appendix(letter: str, rest: str) -> bool:
    """Whether a lone letter may be the number of an appendix: not the article, and what follows is no initial."""
    return letter != "I" and rest[1:2] != "." and len(rest.split()[0]) > 2


def split_head(text: str) -> tuple[str | None, str, tuple[str, tuple[int, ...]] | None]:
    """(printed number, the rest, (series, levels)) of a head; both None if it has no number."""
    number, printed, rest = number_of(text)
    return printed, rest, number


def _lettered(printed: str) -> tuple[int, ...]:
    """(1, 2) for A.2."""
    first, *others = printed.split(".")
    return (ord(first.upper()) - 64, *map(int, others))


def _roman(printed: str) -> int:
    """The value of a Roman number below 40."""
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in printed]
    later = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, later, strict=True))


def _numbered(blocks: Sequence[_Block]) -> list[_Block]:
    """The blocks that are heads by their numbers: those of the chain that weighs most, in Arabic numbers or Roman ones,
    and lettered ones below Roman ones or after the rest (appendices) that look like others of them.
    """
    best = max((_chain([b for b in blocks if _series(b) == series]) for series in "1I"), key=_weighed)
    out = sum(block.distinct or block.capitals for block in best)
    if not any(block.known for block in best) and (len(best) < MIN_CHAIN or out < 0.7 * len(best)):
        return []
    best = _of_one_look(best)
    letters = (
        [b for b in blocks if _series(b) == "A" or (_series(b) == "I" and _series(best[0]) == "I")] if best else []
    )
    return best + _lettered_below(best, letters)


def _series(block: _Block) -> str | None:
    """The kind of the block's number: "1", "I" or "A"; None without one."""
    return block.number[0] if block.number else None


def _weighed(chain: Iterable[_Block]) -> float:
    """How much speaks for the blocks."""
    return sum(map(_weight, chain))


def _weight(block: _Block) -> float:
    """How much speaks for a numbered block: its style, white space above it, a usual name."""
    plainly = 0.2 if not (block.distinct or block.capitals) else 1.0
    return plainly * (1 + block.styled + block.look[1] / 100) + 1.5 * block.apart + 3 * block.known - 0.9


def _chain(blocks: Sequence[_Block]) -> list[_Block]:
    """The blocks, in order, whose numbers go on from one to the next and that weigh most together. A chain begins with
    0 or 1; a number that is missing costs.
    """
    kept = sorted(sorted(blocks, key=_weight, reverse=True)[:MAX_CANDIDATES], key=lambda block: block.start)
    weights, before = list[float](), list[int | None]()
    for position, block in enumerate(kept):
        assert block.number
        levels, best, link = block.number[1], -4.0 if levels_begin(block.number[1]) is False else 0.0, None
        for other in range(position):
            other_number = kept[other].number
            assert other_number
            cost = _step_cost(other_number[1], levels)
            if cost is not None and weights[other] - cost > best:
                best, link = weights[other] - cost, other
        weights.append(best + _weight(block))
        before.append(link)
    if not weights:
        return []
    at: int | None = max(range(len(weights)), key=weights.__getitem__)
    chain: list[_Block] = []
    while at is not None:
        chain.append(kept[at])
        at = before[at]
    return chain[::-1]


def levels_begin(levels: tuple[int, ...]) -> bool:
    """Whether a chain of numbers may begin with this one."""
    return levels in ((0,), (1,), (1, 1))


def _step_cost(before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
    """What it costs that a number follows another: 0 if it is the next one, 2 if one is missing; None if it cannot."""
    if len(after) == len(before) + 1 and after[:-1] == before:
        return 0.0 if after[-1] == 1 else 2.0 if after[-1] == 2 else None
    depth = len(after)
    if depth > len(before) or after[:-1] != before[: depth - 1]:
        if depth == 2 and after[0] == before[0] + 1 and after[1] == 1:
            return 2.0
        return None
    step = after[-1] - before[depth - 1]
    return 0.0 if step == 1 else 2.0 if step == 2 else None


def _of_one_look(chain: Sequence[_Block]) -> list[_Block]:
    """The blocks whose style most at their depth have; usual heads of any style."""
    return [block for block in chain if _fits(block, _looks(chain)[_depth(block)])]


def _looks(chain: Iterable[_Block]) -> dict[int, Counter[tuple[str, float]]]:
    """For each depth of numbers, how often each style is there."""
    looks = defaultdict[int, Counter[tuple[str, float]]](Counter)
    for block in chain:
        looks[_depth(block)][block.look[:2]] += 1
    return looks


def _depth(block: _Block) -> int:
    """How many levels its number has; lettered ones below Roman ones are counted by the caller."""
    return len(block.number[1]) if block.number else 0


def _fits(block: _Block, looks: Counter[tuple[str, float]]) -> bool:
    """Whether the block's style is the most frequent, has a third of the blocks, or is bold or larger."""
    return block.known or block.styled or looks[block.look[:2]] * 3 >= looks.total()


def _lettered_below(chain: Sequence[_Block], letters: Sequence[_Block]) -> list[_Block]:
    """Blocks with letters as numbers that are heads: after each head of a Roman chain A, B, ... again; after the last
    of an Arabic chain once, as appendices, in a style of the chain. They are isolated, and distinct from the text.
    """
    roman = bool(chain) and _series(chain[0]) == "I"
    looks = {block.look[:2] for block in chain}
    starts, found, last = {block.start for block in chain}, list[_Block](), 0
    places = sorted([*chain, *(b for b in letters if b.start not in starts)], key=lambda block: block.start)
    for block in places:
        if block.start in starts:
            last = 0 if roman else last
            continue
        first = _as_letter(block)
        due = first in ((last + 1,) if len(block.number[1] if block.number else ()) == 1 else (last, last + 1))
        own = (block.distinct or block.capitals) if roman else block.look[:2] in looks and block.start > chain[-1].start
        if due and block.apart and own:
            found.append(block)
            last = first
    return found


def _as_letter(block: _Block) -> int:
    """The position in the alphabet of the first letter of its number, also of I, V and X read as Roman."""
    return ord((block.printed or "@")[0].upper()) - 64


# ---------------------------------------------------------------- heads without numbers


def _unnumbered(
    blocks: Sequence[_Block], numbered: Sequence[_Block], lines: Sequence[Line], body: Body
) -> list[_Block]:
    """The blocks without numbers that are heads. In a paper with numbered ones: usual heads, and those that look like a
    numbered one. In one without: also all in a style that looks like that of heads (`_head_looks`).
    """
    front = _front(blocks, lines, body)
    own = [b for b in blocks if b.known or (b.number is None and b.apart and b.start >= front and _is_led(b))]
    looks = {block.look[:2] for block in numbered if block.distinct}
    sized = {block.look[1] for block in numbered if block.styled}
    if len(numbered) < MIN_CHAIN:
        looks |= _head_looks(own)
        looks |= _lower_looks(own, looks) if looks else set()
    return [block for block in own if _is_usual(block, looks, sized) or (block.look[:2] in looks and block.distinct)]


def _is_led(block: _Block) -> bool:
    """Whether text or another head is directly below."""
    return block.text_below or block.stacked


def _front(blocks: Sequence[_Block], lines: Sequence[Line], body: Body) -> int:
    """The index of the line where heads that are not usual ones may begin: below the abstract's first line on the first
    two pages; without it below title, authors and date, directly above the first three long lines of text.
    """
    for position, line in enumerate(lines):
        if line.page > 1:
            break
        if ABSTRACT.match(plain(line.text)):
            return position
    text = [abs(line.size - body.size) < LARGER and len(line.text) >= 40 for line in lines]
    first = next((n for n in range(len(lines) - 2) if all(text[n : n + 3])), 0)
    above = next((block.start for block in blocks if block.end == first and block.styled), first)
    largest = max((line.size for line in lines[: first + 1] if line.page == 0), default=0.0)
    return above if lines and lines[above].size < largest else first


def _is_usual(block: _Block, looks: set[tuple[str, float]], sizes: set[float]) -> bool:
    """Whether a block is a usual head that stands out, or stands on its own in capitals or as one of the last heads."""
    out = block.styled or block.look[:2] in looks or block.capitals or (block.distinct and block.apart)
    return block.known and (block.ends_before or (block.apart and block.styled)) and (out or _stands_alone(block))


def _stands_alone(block: _Block) -> bool:
    """Whether a usual head in the body's own font is on a line of its own: below white space, without a number, above
    text; the word References in any case.
    """
    plainly = block.number is None and block.text_below and block.ends_before
    return block.apart and (plainly or bool(REFERENCES.fullmatch(block.name)))


def _head_looks(blocks: Sequence[_Block]) -> set[tuple[str, float]]:
    """The styles that look like those of heads: larger or bold, or, if a usual head is in it, distinct otherwise; with
    two blocks or a usual head, most of which have text below them.
    """
    groups = defaultdict[tuple[str, float], list[_Block]](list)
    for block in blocks:
        groups[block.look[:2]].append(block)
    return {look for look, group in groups.items() if _is_head_look(group)}


def _lower_looks(blocks: Sequence[_Block], higher: set[tuple[str, float]]) -> set[tuple[str, float]]:
    """The styles of heads below those in the styles `higher`: distinct, there three times or more, always with white
    space above and text or a head of `higher` around.
    """
    groups = defaultdict[tuple[str, float], list[_Block]](list)
    for block in blocks:
        groups[block.look[:2]].append(block)
    return {
        look
        for look, group in groups.items()
        if look not in higher and len(group) >= 3 and all(b.distinct and b.apart and b.ends_before for b in group)
    }


def _is_head_look(group: Sequence[_Block]) -> bool:
    """Whether the blocks of one style look like heads."""
    below = sum(block.follows is not None or block.stacked for block in group)
    known = sum(block.known for block in group)
    if (not known and len(group) < 2) or below < 0.7 * len(group):
        return False
    return all(block.distinct for block in group) and (known > 0 or all(block.styled for block in group))


# ---------------------------------------------------------------- bookmarks


def _marked(
    blocks: Sequence[_Block], lines: Sequence[Line], body: Body, bookmarks: Sequence[tuple[str, int]]
) -> list[_Block] | None:
    """The blocks that bookmarks name, on the page that each names; None if there are few bookmarks or most name no
    block, so that they say nothing on what is a head.
    """
    places = defaultdict[tuple[str, int], list[_Block]](list)
    for block in blocks:
        places[letters(block.text), lines[block.start].page].append(block)
    found = [places[letters(title), page] or places[_bare(title), page] for title, page in bookmarks]
    named = [named[0] for named in found if named]
    if len(bookmarks) < MIN_BOOKMARKS or len(named) < BOOKMARKS_FOUND * len(bookmarks):
        return None
    return [block for block in named if block.distinct or block.number or block.capitals or block.apart]


def _bare(title: str) -> str:
    """The letters of a bookmark's title without its number."""
    return letters(split_head(title)[1])


def letters(text: str) -> str:
    """The letters and digits of a text, casefolded."""
    return "".join(filter(str.isalnum, text)).casefold()
