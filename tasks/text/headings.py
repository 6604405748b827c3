"""The role of a paper's sections by their heads: introduction or related work, each with its sub-sections.

Sections come flat, as every parser of PDFs gives them: (number, head), e.g. ("2.1", "Neural parsers"). Some of what
parsers take for heads is none: captions ("Figure 2 :"), "Continued", a lone bracket, a sentence of 300 characters.
Numbers may be lost, printed in Roman, glued to the head, or part of it ("2 Model 2.1 Overview"); small capitals come
apart ("I NTRODUCTION").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

Heading = tuple[str | None, str | None]

INTRODUCTION, RELATED_WORK = "introduction", "related_work"
MAX_HEAD_CHARS = 200
MAX_RELATED_CHARS = 100
MAX_HEADS = 2_000
HEADS_REMEMBERED = 20_000

_NUMBER = re.compile(
    r"(?:(?i:section|chapter|sec\.)\s*|§\s*)?((?:\d{1,2}|[IVX]{1,5}|[A-Z])(?:\.\d{1,2})*)"
    r"(?:\s*\|\s*|[.):]+\s*|\s+|(?=[A-Z][a-z]{3}|[A-Z]{4}))(?=\S)",
    re.ASCII,
)
_ROMAN = re.compile(r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})")
_SPACED = re.compile(r"\b(?:[A-Z] ){2,}[A-Z]\b")
_SMALL_CAPITAL = re.compile(r"\b([A-Z]) (?=[A-Z]{2})")
_SPLIT_WORD = re.compile(r"^([A-Z]) (?=[a-z]{4})")
_MERGED = re.compile(r"\s(?=\d{1,2}(?:\.\d{1,2})+[.)]?\s+[^\W\d_])")
_EDGES = " \t\n.:;,-–—•*|■□▪◼◆●○►▶·"

_CAPTION = re.compile(
    r"c?(?:fig(?:ure|s)?|figures|tables?|tab|listing|scheme|box|chart|plate|video)\b\.?\s*(?:supplement\s*)?"
    r"(?:\(?s?[\divx]{1,4}[a-z]?\)?(?:\.\d+)*)?\s*(?:[.:–—|-].*|continued.*|\(continued\).*|supplement.*)?",
    re.DOTALL,
)
_STATEMENT = re.compile(
    r"(?:theorem|lemma|algorithm|proposition|corollary|definition|proof|example|remark|claim|equation|eq|assumption)\.?\s*"
    r"[\divx]{1,4}(?:\.\d+)*\s*[.:)]*"
)
_LEFTOVER = re.compile(r"(?:\W|\d|_)*[a-z]?(?:\W|\d|_)*|\(?continued.*|\(?cont\.?\)?|\(?supplement(?:al)? ?s?\d*\)?\.*")

_INTRODUCTION = re.compile(
    r"(?:a |an |the |general |brief |short )?introductions?(?:(?: and| &|:| to| on|,| -| –| —| of) .*| ?\(.*)?|"
    r"introductory remarks|(?:motivation|background|overview) (?:and|&) introduction"
)
_SWALLOWING = re.compile(r"(?:INTRODUCTION|Introduction) [A-Z]")  # with the sentence that follows
_WORK = r"(?:works?|researche?s?|literature|stud(?:y|ies)|approaches|efforts|methods|art)"
_BEFORE = (
    r"(?:(?:an? |the )?(?:background|motivation|comparisons?|relations?|relationships?|connections?|overview|review|"
    r"survey|discussion|summary|differences?|context|theory|preliminaries|positioning|contributions)"
    r"(?:,? and| &|,| of| to| with| from| in| on| against| w\.r\.t\.)? (?:the )?(?:other )?)?"
)
_RELATED = re.compile(
    r".*\brelated[ -](?:works?|literature|research|stud(?:y|ies)|papers?)\b.*|works? related to .*|"
    rf"{_BEFORE}(?:most |closely |some |other )?(?:related|relevant|prior|previous|existing|earlier|past|recent) "
    rf"(?:and (?:related|relevant|prior|previous|existing|concurrent) )?(?:scientific |academic )?{_WORK}\b"
    r"(?:$|(?::| on| in| of| for| and| with| about| to|,| using| &|/) ?.*)|"
    r".*\b(?:literature|bibliographic(?:al)?) (?:reviews?|surveys?|overview|background)\b.*|"
    r".*\breview of (?:the )?(?:related |relevant )?literature\b.*|literature|"
    r"(?:the )?(?:current )?state[- ]of[- ]the[- ]art(?:$| (?:in|on|of|and|review|methods|approaches|techniques)\b.*)|"
    r"(?:background|motivation) (?:and|&) (?:the )?state[- ]of[- ]the[- ]art"
)
_END = re.compile(
    r"(?:references|bibliography|acknowledge?ments?|appendi(?:x|ces)\b.*|supplement.*|conclusions?(?: .*)?|"
    r"concluding remarks|summary(?: and .*)?|future (?:work|directions)|funding|ethic.*|limitations(?: .*)?|"
    r"(?:author|competing|conflicts?|declaration|data availability|availability|abbreviations).*)"
)
_TOP_LEVEL = re.compile(
    r"(?:abstract|background(?: .*)?|preliminar(?:y|ies)(?: .*)?|"
    r"(?:materials?|patients|subjects|data) (?:and|&) methods?|"
    r"(?:the |our |proposed )?(?:methods?|methodology|methodologies|approach|algorithms?|models?|architecture|"
    r"framework|systems?|solution|dataset|corpus|task|theory)|"
    r"data|datasets|data (?:and|collection|sets?)\b.*|experiment.*|.* experiments?|evaluation(?: .*)?|results?|"
    r"results? (?:and|&) .*|(?:main|empirical|experimental|numerical) .*|findings|analysis|analyses|"
    r"discussions?(?: .*)?|"
    r"implementation(?: .*)?|case stud(?:y|ies)(?: .*)?|problem (?:formulation|statement|definition|setup|setting)|"
    r"task (?:definition|description|formulation)|theoretical (?:framework|model|analysis)|participants|procedure|"
    r"research (?:design|method.*|questions?|hypothes[ei]s)|hypothes[ei]s(?: .*)?|introduction)|"
    r"(?:our|proposed|the proposed) .*|stud(?:y|ies) [\divx]+\b.*|.* (?:set-?up|settings)"
)
_OF_INTRODUCTION = re.compile(
    r"(?:.*\b)?(?:contributions?|motivations?|outline|organi[sz]ation|roadmap|aims?|objectives?|goals?|scope|hypothes[ei]s|"
    r"research questions?|our results|problem statement|notations?|overview|structure of)\b.*"
)
_FRONT = re.compile(r"(?:abstract|summary|keywords?|key ?points|highlights|significance.*|editor.*|graphical abstract)")
_MAIN_TEXT = re.compile(
    r"main(?: text| body| part)?|text|full text|letter|open access|"
    r"(?:original |research |review )*(?:article|paper|report|research)"
)


# ---------------------------------------------------------------- one head


def split_number(head: str) -> Heading:
    """(number, rest) of a head: "2.1. Parsers" -> ("2.1", "Parsers"). The number is None if none is printed.

    The rest has single blanks for white space, and no "Section" or § before the number. In a head of more than
    MAX_HEAD_CHARS characters no number is looked for.
    """
    return _split(head) if len(head) <= MAX_HEAD_CHARS else (None, " ".join(head.split()))


@lru_cache(HEADS_REMEMBERED)
def _split(head: str) -> Heading:
    """(number, rest) of a head, the rest with single blanks; the number is None if none is printed."""
    text = " ".join(head.split())
    match = _NUMBER.match(text)
    if match is None or not _is_number(match[1], match[0].rstrip(), text[match.end() :]):
        return None, text
    return match[1], text[match.end() :]


def _is_number(number: str, printed: str, rest: str) -> bool:
    """Whether what looks like a number is one: "II Methods" and "A. Proofs" have one, "A Survey" and "E. coli" not.

    `printed`: the number with the punctuation after it; `rest`: the head after that.
    """
    if any(map(str.isdigit, number)):
        return True
    if not (rest[0].isupper() or rest[0].isdigit()):
        return False
    if len(number) > 1:
        return _ROMAN.fullmatch(number) is not None
    if printed[-1] in ".):|":
        return rest[1:2] != "."  # "U.S. law"
    if _SPACED.match(f"{number} {rest}") or _known(number + rest):
        return False
    return _known(rest) or (number in "IVX" and rest.isupper())


def _known(text: str) -> bool:
    """Whether papers usually have this head, which is given without a number."""
    return _is_usual(_joined(text).casefold().strip(_EDGES))


def _is_usual(text: str) -> bool:
    """Whether papers usually have this head, which is given in the form that `plain` returns."""
    return bool(_role(text) or _TOP_LEVEL.fullmatch(text) or _END.fullmatch(text))


def _joined(text: str) -> str:
    """The head with small and spaced capitals put together: "I NTRODUCTION" and "R E S U L T S" lose their blanks."""
    if text.isupper():
        text = _SPACED.sub(lambda found: found[0].replace(" ", ""), text)
        return _SMALL_CAPITAL.sub(r"\1", text)
    return _SPLIT_WORD.sub(r"\1", text) if text[:2] != "A " else text


def plain(head: str) -> str:
    """The head in the form that is compared: no number, lower case, single blanks, no dots or colons at its ends."""
    return _joined(split_number(head)[1] or "").casefold().strip(_EDGES)


def is_front(head: str) -> bool:
    """Whether a head is one of the front matter: Abstract, Summary, Keywords, Highlights and the like."""
    return _FRONT.fullmatch(plain(head)) is not None


def is_noise(head: str) -> bool:
    """Whether a text is no head of a section: a caption, a leftover of one (signs, digits, at most one letter; also
    ""), a bare "Theorem 1.", or more than MAX_HEAD_CHARS characters.
    """
    return len(head) > MAX_HEAD_CHARS or _is_noise(head)


@lru_cache(HEADS_REMEMBERED)
def _is_noise(head: str) -> bool:
    """Whether a text is a caption, a leftover of one (signs, digits, at most one letter) or a bare "Theorem 1."."""
    text = head.strip().casefold()
    return any(form.fullmatch(text) for form in (_LEFTOVER, _CAPTION, _STATEMENT))


def role_of(head: str | None) -> str | None:
    """The role that the head alone says: introduction, related_work or None; None also if it can be no head.

    Of a merged head ("2 Model 2.1 Related work") the last part with a role counts.
    """
    return None if not head or is_noise(head) else _own_role(head)


@lru_cache(HEADS_REMEMBERED)
def _own_role(head: str) -> str | None:
    """The role of a head that is not None and can be one: introduction, related_work or None.

    Of a merged head ("2 Model 2.1 Related work") the last part with a role counts.
    """
    for part in reversed(_parts(head)):
        swallowing = _SWALLOWING.match(split_number(part)[1] or "")
        if role := _role(plain(part)) or (INTRODUCTION if swallowing else None):
            return role
    return None


def _role(text: str) -> str | None:
    """The role (introduction or related_work) of a head in the form that `plain` returns; None if it has none.

    A head of more than MAX_RELATED_CHARS characters is no related_work.
    """
    letters = "".join(filter(str.isalpha, text))  # "introduc tion", "relatedwork", "introduction 1"
    if letters == "introduction" or _INTRODUCTION.fullmatch(text):
        return INTRODUCTION
    if letters in ("relatedwork", "relatedworks") or (len(text) <= MAX_RELATED_CHARS and _RELATED.fullmatch(text)):
        return RELATED_WORK
    return None


def _parts(head: str) -> list[str]:
    """The one or two heads in a head, with single blanks: "2 Model 2.1 Related work" is two that were merged."""
    return _MERGED.split(" ".join(head.split()), maxsplit=1)


# ---------------------------------------------------------------- the heads of a paper


@dataclass(slots=True)
class _Open:
    """A section with a role, to which later sections may belong as its sub-sections."""

    role: str
    number: str | None
    head: str


def roles(headings: Sequence[Heading]) -> list[str | None]:
    """For each section introduction, related_work or None: what its own head says, else the role of the section it
    belongs to.

    `headings`: (number, head) of each section, None where there is none. A numbered section ends at the next number
    that is not below its own, and at a head without a number that ends papers (References) or, if its numbers do not
    go on, is usual for a main section. One without a number ends at the next numbered head (unless its own number was
    lost) and at one that by its words or capitals is no sub-section.

    If no head says Introduction, one of these counts as it: a first section Main text or the like, if a head usual in
    papers follows; text before the first head, if that is no Abstract or the like and there is a usual head; a first
    section Background, as in medical journals. Sections after the first MAX_HEADS have no role.
    """
    numbered = [_numbered(number, head) for number, head in headings[:MAX_HEADS]]
    found = _walk(numbered, introduction=None)
    if INTRODUCTION not in found and (first := _instead(numbered)) is not None:
        found = _walk(numbered, introduction=first)
    return found + [None] * (len(headings) - len(found))


def _numbered(number: str | None, head: str | None) -> Heading:
    """(number, head), with the number printed in the head if there is no other; None if there is none.

    (None, None) if there is no head, or only a caption or the like.
    """
    if head is None or is_noise(head):
        return None, None
    number = (number or "").strip(" .):") or None
    return (number, head) if number else split_number(head)


def _instead(headings: Sequence[Heading]) -> int | None:
    """The index of the section that serves as introduction where none is called so; None if there is none.

    After the front matter (Abstract and the like) this is a first section called Main text or the like; text without a
    head before a first head; a first section called Background. The first two need a usual head among those that
    follow.
    """
    heads = [(i, plain(head)) for i, (_, head) in enumerate(headings) if head is not None]
    body = [(i, text) for i, text in heads if not _FRONT.fullmatch(text)]
    if not body:
        return None
    if any(_is_usual(text) for _, text in body[1:]) and _MAIN_TEXT.fullmatch(body[0][1]):
        return body[0][0]
    if headings[0][1] is None and body[0] == heads[0] and any(_is_usual(text) for _, text in body):
        return 0
    return body[0][0] if re.fullmatch(r"background(?: (?:and|&) .*)?", body[0][1]) else None


def _walk(headings: Sequence[Heading], introduction: int | None) -> list[str | None]:
    """The role of each section: its own by its head, else that of the section it belongs to; None without either.

    `introduction`: the index of the section that counts as introduction whatever its head; None: there is none.
    """
    found: list[str | None] = []
    inside: list[_Open] = []
    for i, (number, head) in enumerate(headings):
        while head is not None and inside and not _within(headings, i, inside[-1]):
            inside.pop()
        if i == introduction:
            inside = [_Open(INTRODUCTION, number, head or "Introduction")]
        elif head is not None and (own := role_of(head)):
            inside.append(_Open(own, _inner_number(head, own) or number, head))
        found.append(inside[-1].role if inside else None)
    return found


def _inner_number(head: str, role: str) -> str | None:
    """The number of the second part of a merged head, if that part has this role; else None."""
    parts = _parts(head)
    return split_number(parts[1])[0] if len(parts) > 1 and _role(plain(parts[1])) == role else None


def _within(headings: Sequence[Heading], i: int, above: _Open) -> bool:
    """Whether section `i` belongs to the section `above` as a sub-section, or is the same one, printed again.

    Side effect: if the number of `above` was lost and section `i` is numbered x.1, `above.number` becomes x.
    """
    number, head = headings[i]
    if number is None:
        return _unnumbered_within(headings, i, above, head or "")
    if above.number is None and number.endswith(".1"):
        above.number = number[:-2]  # its own number was lost
    if above.number is None:
        return False
    if number == above.number:  # printed again after a float
        return plain(head or "") == plain(above.head)
    return number.startswith(f"{above.number}.") or _below_roman(headings, i, number, above.number)


def _below_roman(headings: Sequence[Heading], i: int, number: str, above: str) -> bool:
    """Whether `number` is below `above` in a paper numbered I, A, 1: Roman numbers, then letters, then digits."""
    if not any(len(other) > 1 and _ROMAN.fullmatch(other) for other, _ in headings if other):
        return False
    if number.isdigit():
        return not above[0].isdigit()
    before = next((other for other, _ in reversed(headings[:i]) if other and other.isalpha()), "")
    follows = len(number) == 1 and (number == "A" or before == chr(ord(number) - 1) or number not in "IVX")
    return follows and _is_roman(above, headings)


def _is_roman(number: str, headings: Sequence[Heading]) -> bool:
    """Whether a number is of the top level in a paper with Roman numbers, not a letter below it."""
    if len(number) > 1:
        return _ROMAN.fullmatch(number) is not None
    letters = [other for other, _ in headings if other]
    return number in "IVX" and (number != "I" or letters.index("I") == 0 or "H" not in letters)


def _unnumbered_within(headings: Sequence[Heading], i: int, above: _Open, head: str) -> bool:
    """Whether section `i`, which has no number and this head, belongs to the section `above` as a sub-section.

    A head that ends papers (References), or begins with the letter after the number of `above`, does not. Any other
    belongs to a numbered section, if usual for a main section only where the numbers go on after it. To an
    introduction without a number belong heads such as Contributions; to related work without one, or to any section
    whose head is in capitals, all heads but those of main sections. If `above` is in capitals and has no number, no
    head in capitals belongs to it.
    """
    text = plain(head)
    if _END.fullmatch(text) or _is_next_letter(head, above.number):
        return False
    if above.number is not None:
        return not _TOP_LEVEL.fullmatch(text) or _goes_on(headings, i, above.number)
    if above.head.isupper() and head.isupper():
        return False
    usual = above.role == INTRODUCTION and _OF_INTRODUCTION.fullmatch(text)
    return bool(usual) or (not _TOP_LEVEL.fullmatch(text) and (above.head.isupper() or above.role == RELATED_WORK))


def _is_next_letter(head: str, number: str | None) -> bool:
    """Whether a head begins with the letter after `number`: "B Proofs" after an appendix A."""
    return bool(number and len(number) == 1 and head[:2] == chr(ord(number) + 1) + " ")


def _goes_on(headings: Sequence[Heading], i: int, above: str) -> bool:
    """Whether the next number from section `i` on is the one after `above`, or below it: 3 or 2.1 after 2.

    Then no number was lost in between. False if there are no more numbers.
    """
    following = next((number for number, _ in headings[i:] if number), None)
    *outer, last = above.split(".")
    after = ".".join([*outer, str(int(last) + 1)]) if last.isdigit() else None
    return following is not None and (following.startswith(f"{above}.") or following == after)
