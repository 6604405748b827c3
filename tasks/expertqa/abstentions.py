"""Abstentions: the words by which an answer declines (ExpertQA, section 3.1).

    I'm sorry, but the passages [1][2] do not mention tin. They are about lead.    the passages do not mention
    Do you mean the metal?                                                         Do you mean the metal?
    The passages do not mention tin, but it melts at 232 degrees.                  None: it answers

An answer is cut into clauses. One of them must decline, and each other must decline, too, or be one that stands
beside such words: an apology, an offer, whom to ask, what the passages are about. All words are in abstentions.txt,
whose head says how to add to them. Every pattern is bounded: an answer is hostile until proven otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tasks.expertqa.citations import without_marks

Span = tuple[int, int]

MOST_WORDS = 150  # a longer answer that begins "I don't know" goes on to answer
MOST_CHARACTERS = 2_000  # for what is no words
FEW_WORDS = 8  # the last member of a list: "…, and the second moment of area"
_FILE = Path(__file__).with_name("abstentions.txt")

_TEXTS, _QUOTE = "\ue000", "\ue001"  # TEXTS and quotes are written over with these: one word each, of equal length
_PLAIN = str.maketrans("’‘“”„«»" + _TEXTS + _QUOTE, '\'\'"""""  ')
_BETWEEN_MARKS = re.compile(r"(?<=\]),? ?(?:(?:and|or|&) )?(?=\[\d)")
_QUOTED = re.compile(r"\"[^\"]{1,2000}\"|(?<!\w)'[^'\"\s](?:[^'\"]|'\w){0,300}'(?!\w)")
_QUOTED_SENTENCE = re.compile(r"\s*([\"'])(.{1,2000}?[.!?])\1(?!\S)")

_SHORTENED = r"(?<!\.\w\.)(?<!\b(?:dr|mr|ms|st|vs|al|cf|no)\.)(?<!\b(?:mrs|fig|art)\.)"
_BUT = r"but(?! (?:only|also|rather|instead|merely|just)\b)|yet|however|(?:even )?though(?!,)|although|whereas|while"
_SO = r"so(?! that\b)|therefore|thus|hence|which means"
_CUT = re.compile(
    rf"(?<=[.!?…]){_SHORTENED}[\"')\]]*\s|(?<=[;:])\s|\s[–—-]{{1,2}}\s|—"
    rf"|(?P<joint>,?\s(?=(?:{_BUT})\b)|,\s(?=(?:{_SO})\b|and\b(?![^.!?]{{0,300}}\?)))",
    re.IGNORECASE,
)
_JOINT = re.compile(rf"(?:{_SO}|and|(?:even )?though|although|whereas|while)\b,? ?", re.IGNORECASE)
_THEREFORE = re.compile(rf"(?:and )?(?:{_SO})\b", re.IGNORECASE)
_IF = r"(?:even )?(?:if|though)|although|while|whilst|when(?:ever)?|where|unless|until"
_SINCE = r"since|because|as(?! (?:an?|of)\b)|given that"
_SUBORDINATE = re.compile(
    rf"(?:(?:and|but|so|however,?|yet) )?(?:(?:{_IF})\b(?:[^,]*, |.*)|(?:{_SINCE})\b[^,]*, )", re.IGNORECASE
)
_UNDER_A_CONDITION = re.compile(r"\b(?:if|when(?:ever)?|unless|until|who)\s?\Z", re.IGNORECASE)
_PREDICATE = re.compile(
    r"\d|\b(?:is|are|was|were|has|have|had|can|could|may|might|will|would|should|must|does|do|did)\b"
)
_AND_WHEN = re.compile(r"and,? (?:how|what|when|where|whether|which|who|whom|whose|why|if|nor|or|not)\b", re.IGNORECASE)


class Clause(NamedTuple):
    """A piece of an answer, and where it begins; `joint`: the sentence goes on with it (", so …", "but …")."""

    text: str
    start: int
    joint: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def abstention(text: str) -> str | None:
    """The words by which an answer declines, as they stand there, white space folded; None where it answers."""
    words = text.split(maxsplit=MOST_WORDS)
    if len(words) > MOST_WORDS:
        return None
    answer = " ".join(without_marks(_BETWEEN_MARKS.sub("", " ".join(words))).split())
    span = _declining_span(answer) if len(answer) <= MOST_CHARACTERS else None
    return answer[slice(*span)] if span else None


def _declining_span(answer: str) -> Span | None:
    plain = _written_over(answer)
    clauses = list(_clauses(plain))
    plainly = any(_patterns()["declines plainly"].search(clause.text) for clause in clauses)
    declining = [_declines(clause, texts_named=plainly or _TEXTS in plain[: clause.end]) for clause in clauses]
    reasons = {one for one, then in pairwise(zip(clauses, declining, strict=True)) if then[1] and _follows(then[0])}
    others = [each for each in zip(clauses, declining, strict=True) if not each[1] and each not in reasons]
    if not all(_is_question(clause) or _is_beside(clause, plainly) for clause, _ in others):
        return None
    asked = [(clause.start, clause.end) for clause in clauses if _is_question(clause)]
    return next(iter([span for span in declining if span] + asked), None)


def _written_over(answer: str) -> str:
    """Of equal length, with plain quotes; what is quoted is out of sight, unless it is the first sentence."""
    plain = answer.translate(_PLAIN)
    if said := _QUOTED_SENTENCE.match(plain):
        plain = f"{' ' * said.start(2)}{said[2]} {plain[said.end() :]}"
    plain = _QUOTED.sub(lambda quoted: _QUOTE * len(quoted[0]), plain)
    return _patterns()["TEXTS"].sub(lambda texts: _TEXTS * len(texts[0]), plain)


def _clauses(plain: str) -> Iterator[Clause]:
    start, joint = 0, False
    for cut in _CUT.finditer(plain):
        yield Clause(plain[start : cut.start()], start, joint)
        start, joint = cut.end(), cut["joint"] is not None
    yield Clause(plain[start:], start, joint)


def _declines(clause: Clause, *, texts_named: bool) -> Span | None:
    """Where it does, in its main clause: "If I don't know the dose, I ask" does not."""
    head = (_JOINT if clause.joint else _SUBORDINATE).match(clause.text)
    main = clause.text[head.end() :] if head else clause.text
    found = _patterns()["declines"].search(main)
    if not found and texts_named:
        found = _patterns()["declines, after TEXTS"].search(main)
    if not found or _UNDER_A_CONDITION.search(main[: found.start()]):
        return None
    if _patterns()["answers"].search(main[found.end() :].lstrip()):
        return None
    start = clause.end - len(main)
    return start + found.start(), start + found.end()


def _follows(clause: Clause) -> bool:
    """What stands before ", so I cannot say" is the reason."""
    return clause.joint and _THEREFORE.match(clause.text) is not None


def _is_question(clause: Clause) -> bool:
    return clause.text.rstrip().endswith("?")


def _is_beside(clause: Clause, plainly: bool) -> bool:
    text = clause.text.strip()
    if not any(map(str.isalpha, text)) or (clause.joint and _is_of_a_list(text)):
        return True
    head = _SUBORDINATE.match(text) or _JOINT.match(text)
    texts = (text, text[head.end() :]) if head else (text,)
    sections = ["beside", "beside, where it declines plainly"][: 1 + plainly]
    return any(_patterns()[section].search(each) for section in sections for each in texts)


def _is_of_a_list(text: str) -> bool:
    """The rest of what the texts do not say: "…, and how long it is"."""
    short = text.startswith("and ") and len(text.split()) <= FEW_WORDS and not _PREDICATE.search(text)
    return short or _AND_WHEN.match(text) is not None


# ---------------------------------------------------------------- the data file

_TOKEN = re.compile(r"<(\d{1,2})>( ?)|([A-Z]{2,})|(.)")
_SIGNS = {"(": "(?:", ")": ")", "|": "|", ".": r"(?=\W*\Z)"}
_WORD = r"[^\s,;:]{1,300}"


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """One for each section of the file, one for the words TEXTS."""
    sections = file_sections()
    lists = _lists(sections.pop("words"))
    found = {name: _compiled([_pattern(line, lists) for line in lines]) for name, lines in sections.items()}
    return found | {"TEXTS": _compiled([lists["TEXTS"]])}


def file_sections() -> dict[str, list[str]]:
    """Name -> lines of the data file, without comments."""
    sections: dict[str, list[str]] = {}
    for line in map(str.strip, _FILE.read_text("utf-8").splitlines()):
        if line.startswith("== "):
            sections[line.strip("= ")] = []
        elif line and not line.startswith("#"):
            sections[list(sections)[-1]].append(line)
    return sections


def _lists(lines: list[str]) -> dict[str, str]:
    """Name -> pattern; several lines of a name add up."""
    lists: dict[str, str] = {}
    for line in lines:
        name, _, choices = line.partition(" = ")
        pattern = _pattern(choices, lists)
        lists[name] = f"{lists[name]}|{pattern}" if name in lists else pattern
    return lists


def _compiled(patterns: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


def _pattern(line: str, lists: dict[str, str]) -> str:
    start = rf"\A(?:(?:{lists['OPENERS']}),? ){{0,3}}" if line.startswith("^") else ""
    tokens = _TOKEN.finditer(line.removeprefix("^"))
    return start + "".join(_gap(token) or _listed(token[3], lists) or _sign(token[0]) for token in tokens)


def _gap(token: re.Match[str]) -> str:
    if not token[1]:
        return ""
    most = int(token[1])
    return f"(?:{_WORD} ){{0,{most}}}" if token[2] else f"{_WORD}(?: {_WORD}){{0,{most - 1}}}"


def _listed(name: str | None, lists: dict[str, str]) -> str:
    if not name or name == "TEXTS":
        return f"{_TEXTS}+" if name else ""
    if name not in lists:
        raise ValueError(f"{_FILE.name} uses {name}, which no line above lists: write {name} = … under words")
    return f"(?:{lists[name]})"


def _sign(sign: str) -> str:
    return _SIGNS.get(sign) or re.escape(sign)
