"""Whether a number in brackets or raised cites, or is the index, interval, exponent or name that it looks like.

`[1]` after a word is a citation in prose and an index in code, and answers hold both. What decides is evidence: what is
glued to the bracket, what stands around it, and whether the answer has a source of this number.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tasks.expertqa.answers.citations import ANY_URL, HIGHEST, numbers_of

LONGEST_FUNCTION = 4  # letters; after longer names `word[1](` is prose
_LABELS = r"(?:psalms?|page|pp?\.|chapter|verse|fig\.|eq\.|vol\.|no\.)"
_INTERVAL = re.compile(
    r"(?:\b(?:intervals?|ranges?|between|bounds?|domain|CI|confidence interval|scale|values)|[∈∉⊂⊆=×<>≤≥]"
    r"|(?<!\w)[a-z](?= in\s))"
    r"(?:\s(?:of|from|in|over|on|is))?[:\s(]{0,3}\Z",
    re.IGNORECASE,
)
_ANOTHER = re.compile(
    r"\[\s?-?\d[\d.]{0,9},\s?\d[\d.]{0,9}\s?\](?:[^.!?\n]|\.(?=\d)){0,120}\b(?:and|or|to|but not|not|in|with|∪|∩)\s\Z"
)
_VALUES = re.compile(
    r"\b(?:list|array|vector|tuple|sequence|chord|triad|yields?|returns?|prints?|outputs?|gives?|produces)\s\Z",
    re.IGNORECASE,
)
_SCALES = re.compile(r"\b(?:scales?|ranges?|rat(?:ed|ing)|scores?|intervals?)\s(?:of\s|from\s)?\Z", re.IGNORECASE)
_NAMED_BY_WORD = re.compile(
    r"\b(?:mod(?:ulo)?|press|hit|dial|type|key|button)\s\Z|\bpress \[[^.!?\n]{1,80}\b(?:or|and|then)\s\Z", re.IGNORECASE
)
_STEP = re.compile(r"\bfrom\s\Z|\bfrom \[\d{1,2}\] \([^()\n]{1,40}\) to\s\Z", re.IGNORECASE)
_EXPLAINED = re.compile(r"\s\((?!see\b|e\.g\.|cf\.)[a-z][^()\[\]\n]{0,60}\)")
_PART_OF_WORD = re.compile(r"-?[a-z]{4}|\^\{?\w")
_SPAN_OF_YEARS = re.compile(r"[-–]\d{1,5}\[")
_PAIR = re.compile(r"\[\s?\d{1,9},\s?\d{1,9}\s?\]")
_INDEXED = re.compile(
    r"(?<![\w)\]])(?P<name>[^\W\d]\w{0,60})(?P<call>\([^()\n]{0,40}\))?(?P<chain>(?:\[\w{1,20}\]){0,9})\Z"
)
_ASSIGNED = re.compile(r"(?:\[\w{1,20}\]){0,9}(?:\s?(?:[-+*/]|[=!<>])?=(?!>)|\()")
_CALLED = re.compile(r"(?:\[\w{1,20}\]){0,9}\.\w{1,30}\(")
_ARRAYS = re.compile(
    r"\b(?:arrays?|matrix|matrices|vectors?|tensors?|elements?|entry|entries|index|indices|variables?)\s\Z", re.I
)
_GRADES = re.compile(
    r"(?:\b(?:vitamins?|types?|hepatitis|groups?|class|grades?|plan|appendix|section|part|figure|option|schedule|phase"
    r"|influenza|antigen|war|level|category|stage|form|version|model|series|vessel|point|line|ward|zone)"
    r"|\d\s?|\w-|\w\.|[’'])\s?\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?!(?:Let|The|Then|In|For|Set|And|If|When|Where|Each|An|With|Take|Call|But|So|Here|That)\b)[A-Z]\w{1,30}\s\Z"
)
_SHORT = re.compile(
    r"arr|lst|vec|mat|buf|argv?s?|argc|obj|tmp|idx|ptr|nums|df|str|dict|tbl|xs|ys|zs|res|vals|cols|elems?|dims|coords"
    r"|params|kwargs|dp|seq|ary"
)
_PLURAL = re.compile(r"\((?:s|es|ies|ed|ing)\)")
_CAMEL = re.compile(r"[a-z]{2,}[a-z0-9]*[A-Z][a-z]\w*")
_NUMBERED_NAME = re.compile(r"[a-z]{1,8}\d{1,3}")
_SCHOLARLY = re.compile(r"[A-Za-z]\Z")
_NAMES_NUMBER = re.compile(
    rf"(?:(?:\A|[\n.!?,;:(\"“]\s?|\b(?:and|or|on|in|see|of|from|to|at|by|cf\.|with|read|recite|sing|both)\s)(?i:{_LABELS})"
    rf"|(?-i:\b(?:Psalms?|Pages?|Chapters?|Verses?|Figures?|Tables?|Equations?|Volumes?|Theorems?|Lemmas?|Exercises?)))\s\Z",
    re.IGNORECASE,
)
_OPERATOR_BEFORE = re.compile(r"\d\s?[-–+*/×=<>≤≥]\Z|\w\s?[+×=≤≥]\s?\Z")
_OPERATOR_AFTER = re.compile(r"\s?[+*×=≤≥]\s?\w|[-–]\d|/\d")
_POWER = re.compile(r"\^?\{?[2²3³]\}?\Z")
_QUANTITY = re.compile(
    r"\b(?:radius|mass|velocity|speed|distance|width|height|length|depth|time|side|error|variance|current|voltage"
    r"|diameter|pressure|force|period|frequency|amplitude|age|weight|size|base|axis|term|residual|deviation)\Z",
    re.IGNORECASE,
)
_IN_FORMULA = re.compile(r"(?:[=+*/×·÷√−]|\bper)\s?(?:\w{1,30}\s)?\w{1,30}\Z")
_FORMULA_AFTER = re.compile(r"\s?[=+*/×·÷−](?!\*)")


def cites(text: str, start: int, end: int, known: Collection[int] = ()) -> bool:
    """Whether what citations.py takes for a mark, text[start:end] with blanks before it, is one in this text.

    False for an interval, an index, a year, a power, and a number that names what stands before it (`Psalm [23]`) or
    is counted with (`1-[5]`). `known`: numbers of the answer's sources, which decide where both would read well.
    """
    mark = text[start:end]
    begin = end - len(mark.lstrip())
    mark, before = text[begin:end], text[max(0, begin - 160) : begin]
    numbers = numbers_of(mark) if not ANY_URL.search(mark) else []
    if not numbers:
        return True  # an address, or a file
    if all(number >= HIGHEST for number in numbers):
        return False
    sure = bool(known) and set(numbers) <= set(known)
    if mark[0] not in "[［〔⟦❲〚":
        return not _is_power(mark, before, text[end : end + 8], sure=sure)
    if mark[0] != "[" or not mark.endswith("]"):
        return True
    if not mark[1:2].isdigit():
        return not (mark.startswith("[[") and re.search(r"(?<!\w)(?:[a-zA-Z]|[a-z]{1,8}[_.]\w{1,20})\Z", before))
    return not (
        _is_interval(mark, before)
        or _is_value(mark, numbers, before, text[end : end + 80])
        or _is_operand(text, begin, end, before)
        or _is_index(text, begin, end, sure, unlisted=bool(known) and not set(numbers) & set(known))
    ) and (sure or not _NAMES_NUMBER.search(before, max(0, len(before) - 30)))


def _is_interval(mark: str, before: str) -> bool:
    """Whether numbers with a comma are the ends of an interval, or follow one in the same sentence."""
    if "," not in mark:
        return False
    return _INTERVAL.search(before[-40:]) is not None or (
        _PAIR.fullmatch(mark) is not None and _ANOTHER.search(before) is not None
    )


def _is_value(mark: str, numbers: list[int], before: str, after: str) -> bool:
    """Whether the numbers are what the words around them speak of: the values of a list or scale, a step of a scale, a
    score, a key, or part of a chemical name.
    """
    if "," in mark and (_VALUES.search(before[-20:]) or len({*numbers}) < len(numbers)):
        return True
    if re.fullmatch(r"\[\d{1,3}[-–]\d{1,3}\]", mark) and (_SCALES.search(before[-20:]) or numbers[0] > numbers[-1]):
        return True
    if _NAMED_BY_WORD.search(before, max(0, len(before) - 100)) or (_STEP.search(before) and _EXPLAINED.match(after)):
        return True
    return before[-1:] in ("", " ", "\n", "(") and _PART_OF_WORD.match(after) is not None


def _is_operand(text: str, start: int, end: int, before: str) -> bool:
    """Whether an operator right before or after the bracket would be left without its other side."""
    return _OPERATOR_BEFORE.search(before) is not None or (
        _OPERATOR_AFTER.match(text, end) is not None
        and not before[-1:].isalpha()
        and before.rstrip()[-1:] not in (".", "!", "?")
        and not (before[-1:].isdigit() and _SPAN_OF_YEARS.match(text, end))
    )


def _is_index(text: str, start: int, end: int, sure: bool, *, unlisted: bool) -> bool:
    """Whether the bracket is glued to what a program or a formula calls so: `a[1]`, `my_list[2]`, `f(x)[1]`, `n[1] =`.

    `sure`: the answer has sources of these numbers, so that only plain signs of code say otherwise; `unlisted`: it has
    sources, and of none of these.
    """
    glued = _INDEXED.search(text, max(0, start - 320), start)
    if glued is None:
        return False
    name, call = glued["name"], glued["call"]
    before = text[max(0, glued.start() - 40) : glued.start()]
    if call is not None:
        short = _SHORT.fullmatch(name) is not None and not _PLURAL.fullmatch(call)
        return len(name) == 1 or call == "()" or (short and not sure)
    assigned = _ASSIGNED.match(text, end) if name[-1] != "_" else None
    if _CALLED.match(text, end) or (assigned and (assigned[0][-1] != "(" or len(name) < LONGEST_FUNCTION)):
        return True
    if re.search(r"\[[^\W\d]\w*\]", glued["chain"]):
        return True
    if len(name) == 1 and _SCHOLARLY.match(name):
        named = name.isupper() and _NAMED.search(before) and not _ARRAYS.search(before)
        if _GRADES.search(before) or (named and not unlisted):
            return False
        return name.islower() or _ARRAYS.search(before) is not None or not sure
    if name.startswith("_") and name.endswith("_"):
        return False  # emphasis
    if _SHORT.fullmatch(name.strip("_")) or (name.endswith("_") and len(name) < 4):
        return True
    is_code = "_" in name.strip("_") or _CAMEL.fullmatch(name) or _NUMBERED_NAME.fullmatch(name)
    return bool(is_code) and not sure


def _is_power(mark: str, before: str, after: str, *, sure: bool) -> bool:
    """Whether a raised 2 or 3 is the power of a quantity, or stands within a formula."""
    if _POWER.fullmatch(mark) is None:
        return False
    if _IN_FORMULA.search(before) or _FORMULA_AFTER.match(after):
        return True
    return _QUANTITY.search(before) is not None and not sure
