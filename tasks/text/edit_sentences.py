"""A text cut into the sentences that an edit of it moves, changes, adds or removes.

A sentence ends at a stop before white space, at the end of a paragraph, a list item, a heading or a short line. What
decides is what stands before the stop: so changing a sentence hardly moves the ends of its neighbours. Stops of
"et al.", "e.g.", "z. B.", "Fig. 3", initials and list numbers end none. Thai and Lao, which have no stops, are cut at
blanks. A list mark ("2. ", "- ", "## ") belongs to no sentence. Each line of a fenced block of code is one. Everything
is linear in the text.
"""

import re
from typing import NamedTuple
from unicodedata import normalize

from tasks.text.words import folded

_LINE = re.compile(r"[^\r\n]+")
_MARK = re.compile(r"(?:(?:[-*+•‣▪◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z]\)|#{1,6}|>)[ \t]{1,8}){1,3}(?=\S)")
_STOP = re.compile(
    r"(?P<stop>[.!?…‽]+)(?:[\"'”“’‘»›«‹)\]}*_]|[ \u00a0\u202f][»›](?!\w))*"
    r"(?:[ \t]?\[\d{1,3}(?:[,;–-] ?\d{1,3}){0,20}\]){0,9}"
    r"|[。！？｡।॥؟۔།።։။។៕]+[」』”’»\")）]*"
)
_BLANK_STOP = re.compile(r"(?<=[\u0e01-\u0e4e\u0e81-\u0ece])[ \t\u00a0]+(?=[\u0e01-\u0e2e\u0e40-\u0e44\u0e81-\u0ec4])")
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\Z")
_NAME = re.compile(r"\s+(?:[^\W\d_]\.[\s-]?){0,3}([^\W\d_][\w'’-]+)")
_LETTER_FOLLOWS = re.compile(r"\s+([^\W\d_])\.(?!\w)")
_FENCE = re.compile(r"(`{3,20})[^`\r\n]*(?![^\r\n])|(~{3,20})(?!~)")
_COMPANY = re.compile(r"(?:Inc|Corp|Ltd|Co|LLC|GmbH|AG|PLC)\b")
_QUANTITY = re.compile(r"[(~≈<>±−-]?\d{1,12}(?:[.,]\d{1,12}){0,4}\Z")
_UNITS = frozenset("mgshlмлрсч")
_OPENING = "\"'“‘«([{*_"
_NEXT_LINE = ("\n", "\r", "\r\n")
_WRAPPED = 45


def _set(words: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(words.split())


_NEVER = _set(
    "mr mrs ms dr prof gen sen rep rev hon capt lt col sgt vs cf eg ie e.g i.e viz approx ca resp incl esp "
    "dept st mt messrs mme mlle bzw vgl evtl ggf inkl sog abb hr hrsg bspw zzgl sra srta dña ud uds ee "
    "adm maj cmdr brig sens reps supt asst natl intl op loc pvt cpl cdr msgr fr geo chas wm thos jas "
    "sig dott prof.ssa dra exmo ilmo см т.е т.к ул проф акад ср डॉ श्री"
)
_RESTS = _set("ex allg bes hd zt")
_BEFORE_NUMBERS = _set(
    "fig figs eq eqs sec secs sect no nos vol vols ch chap tab art p pp ref refs app alg def thm lem prop nr c max min "
    "jan feb mar apr jun jul aug sep sept oct nov dec kap bd núm pág págs cap pag "
    "гл д кв корп оф эт ст рис стр табл ص ج"
)
_BEFORE_SMALL = _set(
    "etc inc ltd co corp jr sr eds ed est bros esq sq ft yd lb lbs oz tbsp tsp ave blvd spp subsp "
    "chr dgl a.m p.m usw ecc jh mio mrd std str "
    "т.д т.п г гг в вв др тыс млн млрд руб коп кг"
)
_AFTER_ORDINALS = _set(
    "januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert "
    "jahrhunderts jahrhunderte jh klasse auflage lebensjahr stock weltkrieg jahrestag geburtstag"
)
_PARTICLES = _set("van von de der den del di da la le ten ter bin ibn")
_INTRODUCING = _set("by and of from with to for in as after see or than via like while &")
_STARTERS = _set(
    "the a an this that these those it its he she they we i you in on at for from with by as to of and but or so "
    "however moreover furthermore therefore thus finally then first second third next later also while although when "
    "if because since after before during there here our their his her my your what why how who where which both each "
    "some many most such other another one two unlike like recently note let all no not more yet still"
)
_GOES_ON = _set("the a an of by and in to for with that as on is are was were from at or than which")


class Sentence(NamedTuple):
    """A sentence, without the list mark that may be before it.

    `key`: its text as tasks.text.words.folded, to compare it by; `paragraph`: the number of its paragraph, list item or
    line; `is_code`: it is a line of a fenced block of code; `inner`: if it is several that were merged, the ends of all
    but the last; `parts`: for how many it stands that go, come or move together.
    """

    start: int
    end: int
    key: str
    paragraph: int = 0
    is_code: bool = False
    inner: tuple[int, ...] = ()
    parts: int = 1


def sentences(text: str) -> list[Sentence]:
    """All sentences of a text in order; [] if it is blank. Between them are only white space and list marks."""
    return [
        Sentence(start, end, folded(text[start:end]), paragraph, run.is_code)
        for paragraph, run in enumerate(_runs(text))
        for start, end in ([(run.start, run.end)] if run.is_code else _sentences_of(text, run.start, run.end))
    ]


def prose_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of one paragraph, in order, without the white space between them."""
    return _sentences_of(text, 0, len(text))


def split_alike(text: str, own: list[Sentence], other: list[Sentence]) -> list[Sentence]:
    """`own`, the sentences of `text`, each cut in two if it begins or ends with a sentence that only `other` has.

    So a sentence that lost its full stop, or a line that is wrapped elsewhere, stays apart from its neighbour. That
    other sentence has at least _EDGE characters; the longest at the end is tried first. A few opening words such as
    "First," are not cut off; sentences that `other` has and lines of code are not cut.
    """
    theirs = {sentence.key for sentence in other}
    wanted = {key for key in theirs - {sentence.key for sentence in own} if len(key) >= _EDGE}
    tails, heads = _lengths(wanted, slice(-_EDGE, None)), _lengths(wanted, slice(_EDGE))
    found: list[Sentence] = []
    for sentence in own:
        whole = sentence.key in theirs or sentence.is_code
        cut = None if whole else _edge(sentence.key, wanted, tails, heads)
        found += [sentence] if cut is None else _cut(text, sentence, cut)
    return found


_EDGE = 16


def _lengths(keys: set[str], edge: slice) -> dict[str, set[int]]:
    """Beginning or end of a key, as `edge` slices it out -> the lengths of all keys that have it."""
    found: dict[str, set[int]] = {}
    for key in keys:
        found.setdefault(key[edge], set()).add(len(key))
    return found


def _edge(key: str, wanted: set[str], tails: dict[str, set[int]], heads: dict[str, set[int]]) -> int | None:
    """The position in `key` of the blank before the wanted sentence at its end, else after the one at its beginning.

    The longest wanted sentence counts; at the end none that follows only opening words such as "First,". None: `key`
    neither ends nor begins with one of `wanted`. `tails`, `heads`: last or first _EDGE characters of a wanted sentence
    -> the lengths of all that have them.
    """
    for length in sorted(tails.get(key[-_EDGE:], ()), reverse=True):
        if len(key) > length and key[-length - 1] == " " and key[-length:] in wanted and not _opens(key[: -length - 1]):
            return len(key) - length - 1
    for length in sorted(heads.get(key[:_EDGE], ()), reverse=True):
        if len(key) > length and key[length] == " " and key[:length] in wanted:
            return length
    return None


def _opens(words: str) -> bool:
    """Whether the words only open a sentence, such as "In this work,": up to three, with a comma at the end."""
    return words.endswith(",") and words.count(" ") < 3


def _cut(text: str, sentence: Sentence, blank: int) -> list[Sentence]:
    """The sentence as two, cut at a blank of its key; as it is if its key has not all of its blanks.

    `blank`: the position of that blank in the key.
    """
    before = sentence.key.count(" ", 0, blank) + 1
    places = [match.span() for match in re.finditer(r"\S+", text[sentence.start : sentence.end])]
    if len(places) != sentence.key.count(" ") + 1:
        return [sentence]
    first, second = sentence.start + places[before - 1][1], sentence.start + places[before][0]
    return [
        sentence._replace(end=first, key=sentence.key[:blank]),
        sentence._replace(start=second, key=sentence.key[blank + 1 :]),
    ]


class _Run(NamedTuple):
    """A span of a text, from `start` to `end`, that is cut into sentences apart from what is around it.

    `is_code`: it is a line of a fenced block of code, which is one sentence.
    """

    start: int
    end: int
    is_code: bool


def _runs(text: str) -> list[_Run]:
    """The lines of a text without their list marks, those of one wrapped paragraph joined. Blank lines are left out."""
    found: list[_Run] = []
    unclosed: set[str] = set()
    line_end = block = -1
    for match in _LINE.finditer(text):
        line = match[0]
        if line.isspace():
            continue
        start = match.start() + len(line) - len(line.lstrip())
        end = match.start() + len(line.rstrip())
        if start < block:
            found.append(_Run(start, end, is_code=True))
            line_end = match.end()
            continue
        mark = _MARK.match(text, start, end)
        begin = mark.end() if mark else start
        block = _block_end(text, begin, match.end(), unclosed) or -1
        if block > 0:
            found.append(_Run(begin, end, is_code=True))
        elif found and not mark and text[line_end : match.start()] in _NEXT_LINE and _wrapped(text, found[-1], start):
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(_Run(begin, end, is_code=False))
        line_end = match.end()
    return found


def _block_end(text: str, start: int, line_end: int, unclosed: set[str]) -> int | None:
    """The end of the fenced block of code that a line opens; None: the line opens none, or nothing closes it.

    `start`, `line_end`: where the line is, without its list mark. `unclosed`: fences that nothing closes from here on;
    that of this line is added if so.
    """
    fence = _FENCE.match(text, start, line_end) if text[start] in "`~" else None
    sign = fence[1] or fence[2] if fence else ""
    if not sign or sign in unclosed:
        return None
    closing = re.compile(rf"[\r\n][ \t>]*({sign}{sign[0]}*)[ \t]*(?![^\r\n])").search(text, line_end)
    if not closing:
        unclosed.add(sign)
    return closing.end(1) if closing else None


def _wrapped(text: str, run: _Run, start: int) -> bool:
    """Whether the line that begins at `start` continues the last line of the run, in the same paragraph.

    The last line must have _WRAPPED characters or more, be no code, and not end in a colon or |; the new one must not
    begin with |, #, ` or ~. A line that begins with a capital continues it only after one of .!?…,;- or a word such as
    "the".
    """
    line = text[max(run.start, text.rfind("\n", run.start, run.end) + 1) : run.end].strip()
    if run.is_code or len(line) < _WRAPPED or text[start] in "|#`~" or line[-1] in ":|":
        return False
    last = line[line.rfind(" ") + 1 :].lower()
    return not text[start].isupper() or line[-1] in ".!?…,;-" or last in _GOES_ON


def _sentences_of(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """(start, end) of the sentences in text[start:end], part of one paragraph; white space between them is in none."""
    found = []
    at = start
    for mark in _STOP.finditer(text, start, end):
        stop = mark.end()
        if stop == end or not mark["stop"] or (text[stop].isspace() and _ends(text, at, mark, end)):
            found += _at_blanks(text, at, stop)
            at = stop
            while at < end and text[at].isspace():
                at += 1
    return found if at >= end else [*found, *_at_blanks(text, at, end)]


def _at_blanks(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """(start, end) of the parts of text[start:end] between blanks that stand between letters of Thai or Lao."""
    blanks = [blank.span() for blank in _BLANK_STOP.finditer(text, start, end)]
    return list(zip([start, *(after for _, after in blanks)], [*(before for before, _ in blanks), end], strict=True))


def _ends(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    """Whether a stop before white space ends the sentence that began at `start`.

    `mark`: the stop, with the quotes, brackets and citations right after it; `end`: the end of the paragraph.
    """
    after = normalize("NFC", text[mark.end() : min(end, mark.end() + 80)])
    following = after.lstrip()
    small = following[:1].islower()
    if mark["stop"] != ".":
        if mark[0] == "!" and _COMPANY.match(following):
            return False
        return not (small and (mark["stop"][-1] in ".…" or mark.end() > mark.end("stop")))
    if small and mark.end() > mark.end("stop"):
        return False
    before = normalize("NFC", text[max(start, mark.start() - 40) : mark.start()]).split()
    word = before[-1].lstrip(_OPENING) if before and not text[mark.start() - 1].isspace() else ""
    return _word_ends(word, before[:-1], after, cited=mark[0].endswith("]"))


def _word_ends(word: str, before: list[str], after: str, *, cited: bool) -> bool:
    """Whether a full stop after `word` ends the sentence, rather than being part of an abbreviation, number or name.

    `before`: the words before it; `after`: the text after the stop; `cited`: a citation such as [3] follows the stop.
    """
    following = after.lstrip()
    low, letter = word.lower(), _letter_before(before)
    if low in _NEVER or (letter and low in _RESTS):
        return False
    numbered = following.lstrip("(").lstrip("[")[:1].isdigit()
    if low in _BEFORE_NUMBERS and (numbered or len(word) > 1):
        return not numbered and not (word[0].isupper() and following[:1].islower())
    if low in _BEFORE_SMALL or (letter and f"{letter.lower()}.{low}" in _BEFORE_SMALL):
        return following.lstrip(_OPENING)[:1].isupper() and following[:1] not in "(["
    if low == "al" or _ACRONYM.search(word):
        return following[:1].isupper() and (cited or _first_word(following) in _STARTERS)
    if len(word) == 1 and word.islower():
        return _small_letter_ends(before, after, is_unit=word in _UNITS)
    if len(word) == 1 and word.isupper():
        return _letter_ends(word, before, after)
    if len(word) == 1 and word.isalpha():
        return False  # of a script without capitals, such as Arabic: an abbreviation
    if word.isdigit() and len(word) <= 2:
        if following[:1].islower() or _first_word(following) in _AFTER_ORDINALS:
            return False
        last = before[-1] if before else ":"
        return last[-1] not in ":;.!?" or last[:-1].lower() in _BEFORE_NUMBERS
    return True


def _letter_before(before: list[str]) -> str:
    """The letter, if the last of the words is a single letter with a full stop ("J."); else ""."""
    last = before[-1].lstrip(_OPENING) if before else ""
    return last[0] if len(last) == 2 and last[0].isalpha() and last[1] == "." else ""


def _small_letter_ends(before: list[str], after: str, *, is_unit: bool) -> bool:
    """Whether a single small letter ends the sentence ("Solve for x. Then stop."); not in an abbreviation ("u. a.").

    `before`: the words before the letter; `after`: the text after its full stop; `is_unit`: after a number it is a unit
    ("It is 3 m. Use another.").
    """
    if _letter_before(before) or _LETTER_FOLLOWS.match(after):
        return False
    if is_unit and before and _QUANTITY.match(before[-1]) and after.lstrip().lstrip(_OPENING)[:1].isupper():
        return len(before) < 2 or before[-2].lower().strip(".([") not in _BEFORE_NUMBERS
    following = after.lstrip().lstrip(_OPENING)
    word = _first_word(following)
    if not before:
        return word not in _RESTS
    return not following[:1].isalpha() or (following[0].isupper() and word in _STARTERS)


def _letter_ends(letter: str, before: list[str], after: str) -> bool:
    """Whether a single capital ends the sentence ("Take vitamin C."), and is no initial ("J. R. Vane").

    `before`: the words before the letter; `after`: the text after its full stop.
    """
    name, next_letter = _NAME.match(after), _LETTER_FOLLOWS.match(after)
    first = next_letter and (before or next_letter[1].islower())
    if first or (_letter_before(before).islower() and (letter == "B" or not name)):
        return False
    if not name or name[1] in _PARTICLES or name[1] in _RESTS:
        return not name
    last = before[-1].lstrip(_OPENING) if before else ""
    if name[1][0].islower():
        return not (last.endswith(".") or last.lower() in _INTRODUCING)
    named = last[:1].isupper() or last[-1:] in ",;.(" or last.lower() in _INTRODUCING
    return name[1].lower() in _STARTERS or last == name[1] or bool(before and not named)


def _first_word(text: str) -> str:
    """The first word of the text, in lower case; "" if it has none."""
    match = re.match(r"\W*(\w+)", text)
    return match[1].lower() if match else ""
