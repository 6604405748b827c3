"""Abstentions: the words by which an answer declines to answer (ExpertQA, section 3.1).

    I'm sorry, but the passages [1][2] do not mention tin. They are about lead.    the passages do not mention
    Do you mean the metal?                                                         Do you mean the metal?
    The passages do not mention tin, but it melts at 232 degrees.                  None: it answers

An answer is cut into clauses. It abstains if one clause declines, and every other clause declines, too, or may go with
one that does: an apology, an offer, whom to ask, why it declines, what the passages are about. All phrases are in
abstentions.txt, whose head explains their grammar; TEXTS there is any word for what the answer was to be read from.
Every pattern is bounded, so that no answer can make matching slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tasks.expertqa.answers.citations import without_marks

Span = tuple[int, int]

MAX_WORDS = 150  # a longer answer that begins "I don't know" goes on to answer
MAX_CHARACTERS = 2_000  # for what is no words
FEW_WORDS = 8  # the last member of a list: "…, and the second moment of area"
_FILE = Path(__file__).with_name("abstentions.txt")

_TEXTS, _QUOTE = "\ue000", "\ue001"  # TEXTS and quotes are written over with these: one word each, of equal length
_PLAIN = str.maketrans("’‘“”„«»" + _TEXTS + _QUOTE, '\'\'"""""  ')
_BETWEEN_MARKS = re.compile(r"(?<=\]),? ?(?:(?:and|or|&) )?(?=\[\d)")
_QUOTED = re.compile(r"\"[^\"]{1,2000}\"|(?<!\w)'[^'\"\s](?:[^'\"]|'\w){0,300}'(?!\w)")
_QUOTED_SENTENCE = re.compile(r"\s*([\"'])(.{1,2000}?[.!?])\1(?!\S)")

_SHORTENED = r"(?<!\.\w\.)(?<!\b(?:dr|mr|ms|st|vs|al|cf|no)\.)(?<!\b(?:mrs|fig|art)\.)"
_BUT = r"but(?! (?:only|also|rather|instead|merely|just)\b)|yet|however|(?:even )?though(?!,)|although|whereas|while"
_SINCE = r"since|because|as(?! (?:an?|of|per|such|well|for|to)\b)|given that"
_SO = r"so(?! that\b)|therefore|thus|hence|which means"
_CUT = re.compile(
    rf"(?<=[.!?…]){_SHORTENED}[\"')\]]*\s|(?<=[;:])\s|\s[–—-]{{1,2}}\s|—"
    rf"|(?P<joint>,?\s(?=(?:{_BUT}|because|and i)\b)|,\s(?=(?:{_SO}|{_SINCE})\b|and\b(?![^.!?]{{0,300}}\?)))",
    re.IGNORECASE,
)
_BUT_HEAD = re.compile(r"\A(?:(?:but|however|yet|nevertheless|that said),? |still, )", re.IGNORECASE)
_JOINT = re.compile(rf"(?:{_SO}|and|(?:even )?though|although|whereas|while|{_SINCE})\b,? ?", re.IGNORECASE)
_REASON = re.compile(rf"(?:{_SINCE})\b", re.IGNORECASE)
_THEREFORE = re.compile(rf"(?:and )?(?:{_SO})\b", re.IGNORECASE)
_IF = r"(?:even )?(?:if|though)|although|while|whilst|when(?:ever)?|where|unless|until"
_SUBORDINATE = re.compile(
    rf"(?:(?:and|but|so|however,?|yet) )?(?:(?P<if>{_IF})\b(?P<first>[^,]*, |.*)|(?:{_SINCE})\b(?P<reason>[^,]*), )",
    re.IGNORECASE,
)
_CONDITIONS = ("if", "even if", "when", "whenever", "where", "unless", "until")
_UNDER_A_CONDITION = re.compile(r"\b(?:if|when(?:ever)?|unless|until|who)\s?\Z", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.,])(?!(?:1\d|20)\d\d(?![\d.,]?\d))\d")  # but not a year
_RELATIVE = re.compile(r", (?:which|who|whom|whose|where) (.*)", re.IGNORECASE)
_PREPOSED = re.compile(  # what may stand before ", I don't know"
    r"(?:but|yet|however|so|and|or|also|as|at|in|on|of|to|by|for|from|with|without|within|after|before|until|due|per"
    r"|\w+(?:ly|ing|ed)|given|sorry|hello|hi|thanks|thank|well|hmm|again|alas|(?:\S+ ?){1,2},\Z)\b|\W",
    re.IGNORECASE,
)
_NO_VERB = r"this|its|his|us|as|less|across|versus|various"
_FINITE = re.compile(  # "and lead melts below", but not "and its side effects", "and the recommended dose"
    r"\d|\b(?:is|are|was|were|has|have|had|can|could|may|might|will|would|should|must|does|do|did)\b"
    r"|\band (?:\S+ )+(?<!\bthe )(?<!\bits )(?<!\btheir )(?<!\bany )(?<!\ban )(?<!\ba )"
    rf"(?!(?:{_NO_VERB})\b)\w+(?:[^s\W]s|ed) (?!of\b|and\b|or\b)"
)
_AND_HOW = re.compile(
    r"and,? (?:how|what|where|whether|which|who|whom|whose|why|nor|or|when (?:the|it|he|she|they|this|that)) [^,\d]*\Z",
    re.IGNORECASE,
)


class Clause(NamedTuple):
    """A piece of an answer. `text`: in the masked form that `_masked` gives. `start`: its offset in the answer.
    `joint`: it was cut off at a conjunction (", so …", "but …") and continues the sentence of the clause before.
    """

    text: str
    start: int
    joint: bool

    @property
    def end(self) -> int:
        """The offset in the answer right after the clause."""
        return self.start + len(self.text)

    @property
    def is_question(self) -> bool:
        """Whether the clause ends in a question mark."""
        return self.text.rstrip().endswith("?")


def abstention(text: str) -> str | None:
    """The words by which an answer declines to answer, without citation marks and on one line; None if it answers.

    For an answer that only asks back these are its first question. None also for answers of more than MAX_WORDS words
    or MAX_CHARACTERS characters.
    """
    words = text.split(maxsplit=MAX_WORDS)
    if len(words) > MAX_WORDS:
        return None
    answer = " ".join(without_marks(_BETWEEN_MARKS.sub("", " ".join(words))).split())
    span = _declining_span(answer) if len(answer) <= MAX_CHARACTERS else None
    return answer[slice(*span)] if span else None


def _declining_span(answer: str) -> Span | None:
    """(start, end) of the first words by which the answer declines, or of its first question if it only asks back;
    None if a clause answers, or if no clause declines or asks.
    """
    plain = _masked(answer)
    clauses = list(_clauses(plain))
    plainly = any(_matches_section("declines plainly", clause.text) for clause in clauses)
    declining = [_declines(clause, texts_named=plainly or _TEXTS in plain[: clause.end]) for clause in clauses]
    if not all(declining[place] or _may_accompany(clauses, declining, place, plainly) for place in range(len(clauses))):
        return None
    asked = [(clause.start, clause.end) for clause in clauses if clause.is_question]
    return next(iter([span for span in declining if span] + asked), None)


def _may_accompany(clauses: list[Clause], declining: list[Span | None], place: int, plainly: bool) -> bool:
    """Whether the clause at `place`, which does not decline itself, may stand beside clauses that decline: as a
    question, as the reason before ", so I cannot say", or by the rules of `_is_beside`.

    `declining`: for each clause the span of the words by which it declines, or None. `plainly`: whether some clause
    declines plainly ("I don't know").
    """
    clause, before, after = clauses[place], clauses[:place], clauses[place + 1 : place + 2]
    follows = after and declining[place + 1] and after[0].joint and _THEREFORE.match(after[0].text)
    if clause.is_question or (follows and _is_a_reason(clause.text)):  # "The passages are old, so I cannot say"
        return True
    about_texts = any(_matches_section("TEXTS as subject", each.text) for each in before)
    sections = ["beside, about TEXTS"]
    sections += ["beside, after TEXTS"] * about_texts + ["beside, where it declines plainly"] * plainly
    return _is_beside(clause, sections)


def _masked(answer: str) -> str:
    """The answer with straight quotes, and with one sign in place of each character of a quotation and of words such
    as "the passages" (TEXTS, what the answer was to be read from). Its length stays the same, so that offsets stay
    valid.

    A quotation that is the first sentence is not masked as one: its two quotes become blanks.
    """
    plain = answer.translate(_PLAIN)
    if quoted := _QUOTED_SENTENCE.match(plain):
        plain = f"{' ' * quoted.start(2)}{quoted[2]} {plain[quoted.end() :]}"
    plain = _QUOTED.sub(lambda quote: _QUOTE * len(quote[0]), plain)
    return _patterns()["TEXTS"].sub(lambda texts: _TEXTS * len(texts[0]), plain)


def _clauses(plain: str) -> Iterator[Clause]:
    """The clauses of a masked answer, in order: cut after sentences, at semicolons, colons, dashes and some
    conjunctions.
    """
    start, joint = 0, False
    for cut in _CUT.finditer(plain):
        yield Clause(plain[start : cut.start()], start, joint)
        start, joint = cut.end(), cut["joint"] is not None
    yield Clause(plain[start:], start, joint)


def _declines(clause: Clause, *, texts_named: bool) -> Span | None:
    """(start, end) in the answer of the words by which a clause declines; None if there are none, or if the clause
    makes a statement beside them.

    Only the main part of the clause counts, and no words right after "if", "when", "unless", "until" or "who": neither
    "If I don't know the dose, I ask" nor "I ask if I don't know" declines. `texts_named`: whether TEXTS (words such as
    "the passages") were named up to this clause, or some clause declines plainly.
    """
    head = (_JOINT if clause.joint else _SUBORDINATE).match(clause.text)
    main = clause.text[head.end() :] if head else clause.text
    found = _found_in(main, texts_named)
    if not found or _UNDER_A_CONDITION.search(main[: found.start()]):
        return None
    if (head and _head_answers(head)) or _answers_before(main[: found.start()]) or _answers_after(main[found.end() :]):
        return None
    start = clause.end - len(main)
    return start + found.start(), start + found.end()


def _found_in(text: str, texts_named: bool) -> re.Match[str] | None:
    """The first phrase of the section "declines" of abstentions.txt in the text. If there is none and `texts_named` is
    set, the first phrase that declines only where words such as "the passages" were named. Else None.
    """
    found = _patterns()["declines"].search(text)
    return found or (_patterns()["declines, after TEXTS"].search(text) if texts_named else None)


def _head_answers(head: re.Match[str]) -> bool:
    """Whether the subordinate clause at the beginning of a clause makes a statement, as in "While lead melts at 327
    degrees, I don't know …"; a condition ("If …,") or a reason for declining does not.

    `head`: a match of _SUBORDINATE or _JOINT; False for a mere conjunction.
    """
    parts = head.groupdict()
    words = parts.get("reason") or (parts.get("first") if (parts.get("if") or "").lower() not in _CONDITIONS else None)
    return words is not None and not _is_a_reason(words.strip(" ,"))


def _answers_before(words: str) -> bool:
    """Whether the words before those that decline make a statement: "Lead melts over a candle, I don't know …" does,
    "From the passages, I can't tell …" does not. Words that do not end in a comma make none.
    """
    words = words.rstrip()
    return words.endswith(",") and not _PREPOSED.match(words) and not _is_a_reason(words.strip(" ,"))


def _answers_after(rest: str) -> bool:
    """Whether the words after those that decline make a statement: they have a phrase of the section "answers" of
    abstentions.txt, a number (but a year) after a comma, or a relative clause that is no reason for declining, as in
    "… do not mention tin, which melts quickly".
    """
    if _matches_section("answers", rest.lstrip()) or _NUMBER.search(rest.partition(", ")[2]):
        return True
    relative = _RELATIVE.search(rest)
    return relative is not None and not _is_a_reason(relative[1])


def _is_a_reason(text: str) -> bool:
    """Whether a text can be the reason for declining, as before ", so I cannot say": it declines itself, may stand
    beside words that decline, or is about the passages, the question or who answers. A text with a number (but a year)
    cannot.
    """
    if _NUMBER.search(text):
        return False
    sections = ("reasons", "beside", "beside, about TEXTS", "beside, after TEXTS")
    return any(_matches_section(section, text) for section in sections) or _found_in(text, texts_named=True) is not None


def _is_beside(clause: Clause, sections: list[str]) -> bool:
    """Whether a clause may go with one that declines: it has no letters or digits, continues a list of what is not
    said, or has a phrase of `beside` or of these sections of abstentions.txt. A clause with a number other than a year
    may not. A clause cut off at "because", "since" and the like may only if `_is_a_reason` holds for the rest.
    """
    text = clause.text.strip()
    if not any(map(str.isalnum, text)) or (clause.joint and _continues_a_list(text)):
        return True
    if _NUMBER.search(text):
        return False
    if clause.joint and (why := _REASON.match(text)):
        return _is_a_reason(text[why.end() :].strip())
    head = _SUBORDINATE.match(text) or _JOINT.match(text)
    texts = (text, text[head.end() :]) if head else (text,)
    if any(_matches_section("beside", _BUT_HEAD.sub("", each)) for each in texts):
        return True
    return any(_matches_section(section, each) for section in sections for each in texts)


def _continues_a_list(text: str) -> bool:
    """Whether a clause has the form of a further member of a list of things not found: "and …" of at most FEW_WORDS
    words without a finite verb or number, or "and how, what, where …" without a comma or digit: "…, and how long it
    is".
    """
    short = text.startswith("and ") and len(text.split()) <= FEW_WORDS and not _FINITE.search(text)
    return short or _AND_HOW.match(text) is not None


def _matches_section(section: str, text: str) -> bool:
    """Whether a phrase of this section of abstentions.txt is in the text."""
    return _patterns()[section].search(text) is not None


# ---------------------------------------------------------------- the data file

_TOKEN = re.compile(r"<(?P<most>\d+)>(?P<blank> ?)|(?P<name>[A-Z]{2,})|[(.]")
_SIGNS = {"(": "(?:", ".": r"(?=\W*\Z)"}
_WORD = r"[^\s,;:]{1,300}"


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Section of abstentions.txt, except `words` -> pattern that finds any of its phrases. Besides, TEXTS -> pattern
    of all words that TEXTS stands for in the file.
    """
    sections = file_sections()
    lists = _lists(sections.pop("words"))
    found = {name: _compiled([_pattern(line, lists) for line in lines]) for name, lines in sections.items()}
    return found | {"TEXTS": _compiled([lists["TEXTS"]])}


def file_sections() -> dict[str, list[str]]:
    """Section of abstentions.txt -> its lines, stripped, without comments and blank lines."""
    sections: dict[str, list[str]] = {}
    for line in map(str.strip, _FILE.read_text("utf-8").splitlines()):
        if line.startswith("== "):
            sections[line.strip("= ")] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


def _lists(lines: list[str]) -> dict[str, str]:
    """Name of a list of words, such as TEXTS -> regular expression of its words; several lines of one name are joined.

    `lines`: "NAME = a|b"; a line may use the names of lines before it. KeyError for a name that is not listed before.
    """
    lists: dict[str, str] = {}
    for line in lines:
        name, _, choices = line.partition(" = ")
        pattern = _pattern(choices, lists)
        lists[name] = f"{lists[name]}|{pattern}" if name in lists else pattern
    return lists


def _compiled(patterns: list[str]) -> re.Pattern[str]:
    """One pattern that finds any of these regular expressions as whole words, in upper or lower case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)


def _pattern(line: str, lists: dict[str, str]) -> str:
    """The regular expression of one line of abstentions.txt, in the grammar that the head of the file explains.

    `lists`: name -> regular expression of the lists that the line may use; KeyError for another name.
    """
    start = rf"\A(?:(?:{lists['OPENERS']}),? ){{0,3}}" if line.startswith("^") else ""
    return start + _TOKEN.sub(lambda token: _translated(token, lists), line.removeprefix("^"))


def _translated(token: re.Match[str], lists: dict[str, str]) -> str:
    """The regular expression of one special sign of a line: `<3>` (up to three words), the name of a list, an opening
    bracket (a group that is not captured) or a full stop (the end of the clause).

    TEXTS stands for a run of the sign by which `_masked` replaces it.
    """
    if token["most"]:
        most = int(token["most"])
        return f"(?:{_WORD} ){{0,{most}}}" if token["blank"] else f"{_WORD}(?: {_WORD}){{0,{most - 1}}}"
    if token["name"] == "TEXTS":
        return f"{_TEXTS}+"
    return f"(?:{lists[token['name']]})" if token["name"] else _SIGNS[token[0]]
