"""Repairs of the sections that GROBID finds, so that they are as they were printed.

Noise is no longer a head, merged heads become two, repeated ones become one. An introduction is found where it has no
head, where its head is the paper's title or begins its first paragraph ("Introduction. Kites ..."), and at the end of
the abstract; related work where its head begins a paragraph ("Related work. Moss flew ..."). Each repair is named in
`notes`, a column of PAPERS.
"""

from __future__ import annotations

import re
from itertools import takewhile

from tasks.sources.paper_body import Paragraph, Section
from tasks.text.headings import INTRODUCTION, RELATED_WORK, is_front, is_noise, plain, role_of, split_number

LONG_ABSTRACT_CHARS = 2_500
CITED_ABSTRACT = 3
SHORTEST_ABSTRACT_CHARS = 400

_LETTER = re.compile(r"[^\W\d_]")
_LABEL_ONLY = re.compile(
    r"(?:(?:supplementary|supp\.?|extended data) )?(?:fig(?:ure|s|\.)?|tables?|scheme|box|plate)\W*s?\d+[a-z]?\W*"
    r"(?:(?:cont(?:inued|d)?\b).*)?|\W*cont(?:inued|'?d)\b\.?(?: (?:on|from) .{1,40})?\W*",
    re.IGNORECASE,
)
_REST_OF_SENTENCE = re.compile(r"[a-z)\],;].*(?:\)[.,;]?|[,;])")
_SUB_HEAD = re.compile(r"(?P<first>\S.*?)\s+(?P<number>(?P<above>\d{1,2}(?:\.\d{1,2})*)\.1)\.?\s+(?P<head>[^\W\d].*)")
_LETTERED = re.compile(r"(?P<first>\S.*?)\s+(?P<head>\((?:a|i|1)\)\s+\S.*)")
_METHODS = (
    r"(?:(?:materials?|patients|subjects|data|experimental) and )?methods?(?: and materials?)?|methodology"
    r"|experiments?|experimental(?: .{1,20})?"
)
_MAIN = re.compile(
    rf"introduction|background|{_METHODS}|results?(?: and discussions?)?|discussions?|conclusions?|findings"
)
_AFTER_INTRODUCTION = re.compile(rf"{_METHODS}|results?(?: and .{{1,30}})?|main results|findings|theory|model")

_RUN_IN_INTRODUCTION = re.compile(
    r"(?:(?P<number>1|I)[.)]?\s+)?(?P<head>INTRODUCTION|I NTRODUCTION|Introduction)(?:\s*[.:—–-]\s*|\s+)"
    r"(?=[\"“(\[]?[A-Z])"
)
_LONE_INTRODUCTION = re.compile(r"(?:(?P<number>1|I)[.)]?\s+)?(?P<head>INTRODUCTION|I NTRODUCTION|Introduction)[.:]?")
_RUN_IN_RELATED = re.compile(
    r"(?:(?P<number>\d{1,2}(?:\.\d{1,2})*)\.?\s+)?(?P<head>(?:(?:Further|Additional|Other|More) )?"
    r"(?:Related|related|RELATED|Prior|Previous) (?:[Ww]orks?|[Ll]iterature|[Rr]esearch|WORKS?))\s*[.:—–]\s+(?=\S)"
)
_NEXT_TOPIC = re.compile(
    r"[A-Z][\w’'-]*(?: [\w’'-]+){0,5}[.:] +[A-Z]|"
    r"(?:In|The (?:rest|remainder|outline|structure) of) this (?:paper|work)\b|"
    r"(?:The (?:rest|remainder)|Our (?:\w+ )?contributions?|This paper is)\b"
)


# ---------------------------------------------------------------- the body


def repaired(sections: list[Section], title: str | None, notes: list[str]) -> list[Section]:
    """The sections of a body as they were printed: heads that are none become text (labels of figures are dropped),
    merged heads become two sections, repeated ones one, and heads that begin a paragraph sections of their own; an
    introduction without a head gets this role. `title`: the paper's, which is dropped as the head of the first section.
    Changes the sections given; a fixed phrase for each repair is appended to `notes`.
    """
    found: list[Section] = []
    for section in sections:
        if section.head and not found and title and letters(section.head) == letters(title):
            section.head = section.number = None
            notes.append("title is no head")
        if _is_noise(section.head) or (section.head is None and not _all_front(found)):
            _continue(section, found, notes)
        else:
            for part in _unmerged(section, notes):
                _repeat_or_add(part, found, notes)
    found = _with_run_in_introduction(found, notes)
    _mark_introduction(found, notes)
    return [part for section in found for part in _with_run_in_related(section, notes)]


def numbered(sections: list[Section]) -> list[Section]:
    """The sections of the back matter, with the numbers split off their heads, merged heads as two sections, and text
    in a head Introduction given back to its paragraph. Changes the sections given.
    """
    return [part for section in sections for part in _unmerged(section, [])]


def letters(text: str) -> str:
    """The letters and digits of a text, casefolded: for comparing texts that differ in spaces, case or punctuation."""
    return "".join(filter(str.isalnum, text)).casefold()


def _all_front(sections: list[Section]) -> bool:
    """Whether all sections have a head of front matter, such as Highlights or Keywords; true if there are none."""
    return all(section.head is not None and is_front(section.head) for section in sections)


def _is_noise(head: str | None) -> bool:
    """Whether what GROBID took for a head is none: a caption or label of a figure or table, the rest of a sentence, or
    too long. False for None.
    """
    return head is not None and (
        is_noise(head) or bool(_LABEL_ONLY.fullmatch(head) or _REST_OF_SENTENCE.fullmatch(head))
    )


def _continue(section: Section, found: list[Section], notes: list[str]) -> None:
    """Add the paragraphs of a section without a proper head to the last section of `found`, or to a new one if there is
    none. The rest of a sentence in its head continues the paragraph before; other words in it begin the first
    paragraph; a label of a figure or table, and a head without a letter, are dropped.
    """
    if not found:
        found.append(Section(None, None))
    before, head = found[-1].paragraphs, section.head
    if head is not None:
        notes.append("head that is none")
        if before and _REST_OF_SENTENCE.fullmatch(head):
            before[-1].append(head)
        elif _LETTER.search(head) and not _LABEL_ONLY.fullmatch(head):
            before.append(Paragraph(head))
            if section.paragraphs:
                before[-1].append(section.paragraphs[0].text, section.paragraphs.pop(0).citations)
    before += section.paragraphs


def _unmerged(section: Section, notes: list[str]) -> list[Section]:
    """The section with its number split off its head; two sections if GROBID merged two heads ("Model 2.1 Overview",
    "Methods (a) Data"). If the head is Introduction with the beginning of the first paragraph, which then goes on in
    lower case, that goes back to the paragraph. Changes the section; each repair is appended to `notes`, but not that a
    number was split off.
    """
    if section.head is None:
        return [section]
    number, head = _number_and_head(section)
    section.number, section.head = number, head
    if (match := _RUN_IN_INTRODUCTION.match(head)) and section.paragraphs and section.paragraphs[0].text[0].islower():
        notes.append("head parted from its paragraph")
        paragraph = Paragraph(head[match.end() :])
        paragraph.append(section.paragraphs[0].text, section.paragraphs[0].citations)
        return [Section(number, match["head"], [paragraph, *section.paragraphs[1:]])]
    if (match := _SUB_HEAD.fullmatch(head)) and number in (None, match["above"]):
        notes.append("merged heads parted")
        return [Section(match["above"], match["first"]), Section(match["number"], match["head"], section.paragraphs)]
    if (match := _LETTERED.fullmatch(head)) and (_MAIN.fullmatch(plain(match["first"])) or role_of(match["first"])):
        notes.append("merged heads parted")
        return [Section(number, match["first"]), Section(None, match["head"], section.paragraphs)]
    return [section]


def _number_and_head(section: Section) -> tuple[str | None, str]:
    """(number, head): the number that GROBID gives, without dots at its ends, else the one split off the head, else
    None. If both are the same, it is split off the head, too.
    """
    head, printed = section.head or "", " ".join((section.number or "").split()).strip(".:) ")
    number, rest = split_number(head)
    if not printed:
        return number, rest or head
    return printed, rest if number == printed and rest else head


def _repeat_or_add(section: Section, found: list[Section], notes: list[str]) -> None:
    """Append the section to `found`, unless its head repeats an earlier one: number and head (ignoring case) are those
    of the last section, or, for a section without paragraphs, of one that only its own sub-sections follow. Then its
    paragraphs go to the last section.
    """
    for position in range(len(found) - 1, -1, -1):
        other = found[position]
        if section.number == other.number and (section.head or "").casefold() == (other.head or "").casefold():
            if position == len(found) - 1 or not section.paragraphs:
                notes.append("repeated head merged")
                found[-1].paragraphs += section.paragraphs
                return
            break
        if not (section.number and (other.number or "").startswith(f"{section.number}.")):
            break
    found.append(section)


def _mark_introduction(sections: list[Section], notes: list[str]) -> None:
    """Give the first section without a head the role of introduction, if heads follow and no head of `sections` says
    Introduction.

    In a body without any head no introduction is marked: it is a whole letter or an editorial.
    """
    first = next((n for n, section in enumerate(sections) if section.head is None), len(sections))
    if any(section.head for section in sections[first + 1 :]) and not _says_introduction(sections):
        notes.append("introduction without a head")
        sections[first].role = INTRODUCTION


def _says_introduction(sections: list[Section]) -> bool:
    """Whether the head of one of the sections says that it is the introduction."""
    return any(role_of(section.head) == INTRODUCTION for section in sections)


# ---------------------------------------------------------------- heads that begin a paragraph


def _with_run_in_introduction(sections: list[Section], notes: list[str]) -> list[Section]:
    """The sections as they are; but if no head says Introduction and a paragraph before the first proper head begins
    with this word, a section with this head begins at the first such paragraph, and has the paragraphs that follow in
    its section. (Front matter such as Keywords is no proper head.) Changes the sections given.
    """
    front = takewhile(lambda section: section.head is None or is_front(section.head), sections)
    places = ((n, at, paragraph) for n, section in enumerate(front) for at, paragraph in enumerate(section.paragraphs))
    heads = ((n, at, match) for n, at, one in places if (match := _RUN_IN_INTRODUCTION.match(one.text)))
    begins = next(heads, None)
    if begins is None or _says_introduction(sections):
        return sections
    notes.append("head parted from its paragraph")
    position, at, match = begins
    section, paragraphs = sections[position], sections[position].paragraphs
    section.paragraphs = paragraphs[:at]
    before = [section] if section.head or section.paragraphs else []
    own = Section(match["number"], match["head"], [_cut(paragraphs[at], match.end()), *paragraphs[at + 1 :]])
    return [*sections[:position], *before, own, *sections[position + 1 :]]


def _with_run_in_related(section: Section, notes: list[str]) -> list[Section]:
    """The section, split in two at each paragraph that begins with a head such as "Related work.", which becomes the
    head; and again at a later paragraph that begins the next topic, in a section without head and with the first one's
    role. Parts with neither head nor text are left out. Unchanged if the section's own head says related work; else the
    section given is changed, and each split at a head is appended to `notes`.
    """
    if role_of(section.head) == RELATED_WORK:
        return [section]
    found, whole = [section], section.paragraphs
    section.paragraphs = []
    for paragraph in whole:
        if match := _RUN_IN_RELATED.match(paragraph.text):
            notes.append("head parted from its paragraph")
            found.append(Section(match["number"], match["head"], [_cut(paragraph, match.end())], alone=True))
            continue
        if found[-1].alone and _NEXT_TOPIC.match(paragraph.text):
            found.append(Section(None, None, role=section.role))
        found[-1].paragraphs.append(paragraph)
    return [part for part in found if part.head or part.paragraphs]


def _cut(paragraph: Paragraph, at: int) -> Paragraph:
    """The paragraph from offset `at` on, with the citations that start there or later, their offsets shifted."""
    later = [(start - at, end - at, ref) for start, end, ref in paragraph.citations if start >= at]
    return Paragraph(paragraph.text[at:], later)


# ---------------------------------------------------------------- an introduction in the abstract


def introduced(abstract: list[Paragraph], body: list[Section], notes: list[str]) -> list[Paragraph]:
    """The abstract without an introduction that GROBID took for its end; unchanged if it has none.

    The introduction is inserted into `body` as its first section, together with the text of a first section without
    head, which it replaces; this is noted in `notes`.
    """
    if not _holds_introduction(abstract, body):
        return abstract
    own, found = _parted(abstract)
    if not found.paragraphs:
        return abstract
    notes.append("introduction found in the abstract")
    if body and body[0].head is None:
        found.paragraphs += body.pop(0).paragraphs
    body.insert(0, found)
    return own


def _holds_introduction(abstract: list[Paragraph], body: list[Section]) -> bool:
    """Whether the abstract seems to contain the introduction: a paragraph begins with a numbered head Introduction, or
    it has more than CITED_ABSTRACT citations, or at least one and more than LONG_ABSTRACT_CHARS characters. False if a
    head of `body` says Introduction; by citations alone only if the body begins without a head, or its first head is
    one that follows an introduction, such as Methods.
    """
    cited = sum(len(paragraph.citations) for paragraph in abstract)
    chars = sum(len(paragraph.text) for paragraph in abstract)
    headed = any((match := _begins(paragraph)) and match["number"] for paragraph in abstract)
    if not (headed or cited > CITED_ABSTRACT or (chars > LONG_ABSTRACT_CHARS and cited)) or _says_introduction(body):
        return False
    first = next((section.head for section in body if section.head), None)
    return headed or first is None or body[0].head is None or bool(_AFTER_INTRODUCTION.fullmatch(plain(first)))


def _begins(paragraph: Paragraph) -> re.Match[str] | None:
    """The match of a head Introduction that begins the paragraph, or is all of it; None if there is none."""
    return _RUN_IN_INTRODUCTION.match(paragraph.text) or _LONE_INTRODUCTION.fullmatch(paragraph.text)


def _parted(abstract: list[Paragraph]) -> tuple[list[Paragraph], Section]:
    """(abstract, introduction): split at a head Introduction (which at the very beginning must be numbered), else
    before the first paragraph with a citation, or, if that is the first of all, before its first sentence with one. One
    of these must exist.
    """
    for position, paragraph in enumerate(abstract):
        if (match := _begins(paragraph)) and (position or match["number"]):
            rest = [part for part in (_cut(paragraph, match.end()), *abstract[position + 1 :]) if part.text]
            return abstract[:position], Section(match["number"], match["head"], rest, INTRODUCTION)
    cites = next(position for position, paragraph in enumerate(abstract) if paragraph.citations)
    if cites:
        return abstract[:cites], Section(None, None, abstract[cites:], INTRODUCTION)
    first, second = _split(abstract[0])
    return ([first] if first else []), Section(None, None, [second, *abstract[1:]], INTRODUCTION)


def _split(paragraph: Paragraph) -> tuple[Paragraph | None, Paragraph]:
    """The paragraph, which must have a citation, as two, split before the sentence with its first citation; (None, the
    whole paragraph) if the first part would have fewer than SHORTEST_ABSTRACT_CHARS characters.
    """
    first = paragraph.citations[0][0]
    end = max((match.end() for match in re.finditer(r"[.!?]\s+(?=[A-Z])", paragraph.text[:first])), default=0)
    if end < SHORTEST_ABSTRACT_CHARS:
        return None, paragraph
    return Paragraph(paragraph.text[:end].rstrip()), _cut(paragraph, end)
