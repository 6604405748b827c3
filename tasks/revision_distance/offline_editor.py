"""The offline model as a reader: what a request asks for, and what an editor without a reference would still change.

It finds what an assistant says about itself, doubled words, stock phrases, sentences over 45 words, repeated sentences,
a missing greeting or closing, a text that breaks off, and keywords of the request that are not in the text. Sentences
that it adds say only that something is to be said.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tasks.text.prose import COMMON, sentences

LONG_SENTENCE_WORDS = 45
REPEAT, REPEAT_WORDS, COMPARED_SENTENCES = 0.8, 5, 200
BROKEN_OFF_WORDS = 6
MAX_MISSING = 3
MAX_EDITS = 1_000
PRECEDING_CHARACTERS = 2_000
FIRST_PRECEDING = 12
TAIL_CHARACTERS, HEAD_CHARACTERS = 400, 400

Edit = dict[str, str | None]

_AS_ASSISTANT = re.compile(
    r"(?:\bAs an AI\b[^.!?\n]{0,300}[.!?]?"
    r"|\A\s{0,9}(?:Sure|Certainly|Of course|Absolutely|Great)[,!.][^\n:.!?]{0,200}[:.!]?"
    r"|\A\s{0,9}Here(?:'s|’s| is| are) (?:a|an|the|your|my|some)\b[^\n:.!?]{0,200}[:.!]"
    r"|\bI hope (?:this|that) (?:helps|is what you)[^.!?\n]{0,100}[.!?]?"
    r"|\b(?:Please )?(?:let me know|feel free)\b[^.!?\n]{0,80}"
    r"\b(?:changes|adjust\w{0,5}|modif\w{0,9}|customi[sz]e|revisions?|further assistance)\b[^.!?\n]{0,100}[.!?]?)"
    r"\s{0,9}",
    re.IGNORECASE,
)
_DOUBLED = re.compile(r"\b([^\W\d_]{1,40})((?:[ \t]{1,3}|[ \t]{0,3}\n[ \t]{0,3})\1\b)", re.IGNORECASE)
_MAY_DOUBLE = frozenset({"had", "that", "ha", "bye", "blah"})
_STOCK = {
    "in order to": "to",
    "due to the fact that": "because",
    "at this point in time": "now",
    "in the event that": "if",
    "a large number of": "many",
    "a wide range of": "many",
    "with regards to": "about",
    "with regard to": "about",
    "for the purpose of": "for",
    "in spite of the fact that": "although",
    "has the ability to": "can",
    "please do not hesitate to": "please",
    "please don't hesitate to": "please",
    "i just wanted to": "I want to",
    "delve into": "look into",
    "it is important to note that": "",
    "it's important to note that": "",
    "it is worth noting that": "",
    "it should be noted that": "",
    "needless to say,": "",
    "as a matter of fact,": "",
    "in today's fast-paced world,": "",
    "in today's world,": "",
    "last but not least,": "",
}
_STOCK_PHRASE = re.compile(
    rf"(?<!\w)({'|'.join(re.escape(phrase) for phrase in _STOCK)})(?!\w)([ \t]{{0,3}}\w?)", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_BREAK = re.compile(
    r"(?:,\s{1,3}(?:and|but|so|while|whereas)\s{1,3}|;\s{1,3}"
    r"|,?\s{1,3}(?:and|but)\s{1,3}(?=(?:i|you|he|she|it|we|they|the|this|that|there)\b))([^\W\d_])",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"(?m)^\W{0,9}(?:dear|hello|hi|hey|greetings|good (?:morning|afternoon|evening|day)|to whom)\b", re.IGNORECASE
)
_SUBJECT_LINE = re.compile(r"\A\s{0,9}\W{0,4}subject\b[^\n]{0,400}\n{1,3}", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?m)^\W{0,9}(?:(?:with |kind |best |warm |many )?(?:regards|wishes|thanks)|best"
    r"|(?:yours )?(?:sincerely|faithfully|truly)|yours|respectfully|cordially|cheers|thank you|love)\b",
    re.IGNORECASE,
)


class _Proposal(NamedTuple):
    """An edit to be proposed: `draft[start:end]` becomes `revised`, which is only added if `start` is `end`.

    `action`, `why`, `level` and `intention`: action name, description, level and intention of the ProposedEdit.
    """

    start: int
    end: int
    revised: str
    action: str
    why: str
    level: str
    intention: str


def edit(draft: str, request: str) -> list[Edit]:
    """The edits for a draft, as dicts with the fields of ProposedEdit, in the order of the draft; no two overlap.

    At most MAX_EDITS; an edit whose place cannot be told from others is left out.
    """
    found = sorted(_apart(draft, _proposals(draft, request)), key=lambda proposal: (proposal.start, proposal.end))
    return [placed for proposal in found[:MAX_EDITS] if (placed := _placed(draft, proposal))]


def _proposals(draft: str, request: str) -> Iterator[_Proposal]:
    """All proposals of edits, the more important ones first; they may overlap.

    A greeting and a closing are proposed only if the request asks for an e-mail or a letter.
    """
    for rule in (_assistant, _repeats, _doubled, _stock, _long):
        yield from islice(rule(draft), MAX_EDITS)
    closing = _closing_at(draft)
    end = len(draft[:closing].rstrip())
    yield from _broken_off(draft, end)
    yield from _missing(draft, request, end)
    if asks_for(request)[1] in ("email", "letter"):
        yield from _greeting(draft)
        if closing is None:
            yield _Proposal(end, end, "\n\nKind regards", "add", "The message has no closing.", "text", "style")


def _apart(draft: str, proposals: Iterator[_Proposal]) -> Iterator[_Proposal]:
    """The proposals that do not overlap with an earlier one, then those that only add text.

    White space that two proposals share goes to the earlier one. Text to be added inside a span that is removed or
    replaced is added at its end instead.
    """
    taken: list[tuple[int, int]] = []
    added: list[_Proposal] = []
    for each in proposals:
        if each.start == each.end:
            added.append(each)
            continue
        place = bisect_right(taken, (each.start, each.end))
        before = taken[place - 1][1] if place else 0
        after = taken[place][0] if place < len(taken) else each.end
        start = before if before > each.start and draft[each.start : before].isspace() else each.start
        if before <= start < each.end <= after:
            insort(taken, (start, each.end))
            yield each._replace(start=start)
    for each in added:
        place = bisect_right(taken, (each.start, 0)) - 1
        inside = place >= 0 and taken[place][0] < each.start < taken[place][1]
        yield each._replace(start=taken[place][1], end=taken[place][1]) if inside else each


def _placed(draft: str, proposal: _Proposal) -> Edit | None:
    """The fields of a ProposedEdit for this proposal.

    `preceding_snippet` is null if the original snippet first occurs at the place, else the text that `_preceding`
    returns. None if it returns none.
    """
    original = draft[proposal.start : proposal.end]
    preceding = None
    if not original or draft.find(original) != proposal.start:
        preceding = _preceding(draft, proposal.start)
        if preceding is None:
            return None
    return {
        "action_name": proposal.action,
        "revision_description": proposal.why,
        "revision_level": proposal.level,
        "revision_intention": proposal.intention,
        "original_snippet": original,
        "revised_snippet": proposal.revised,
        "preceding_snippet": preceding,
    }


def _preceding(draft: str, at: int) -> str | None:
    """The text right before the offset `at`, long enough not to occur earlier in the draft; "" at the beginning.

    Lengths of FIRST_PRECEDING, twice as many characters and so on are tried, up to PRECEDING_CHARACTERS; None if none
    of them suffices.
    """
    size = FIRST_PRECEDING
    while size <= PRECEDING_CHARACTERS:
        begin = max(0, at - size)
        if draft.find(draft[begin:at]) == begin:
            return draft[begin:at]
        size *= 2
    return None


# what is removed or put in other words


def _assistant(draft: str) -> Iterator[_Proposal]:
    """Removals of passages in which the writer speaks as an assistant."""
    for found in _AS_ASSISTANT.finditer(draft):
        yield _Proposal(
            *found.span(),
            "",
            "remove",
            "The writer speaks as an assistant, which is no part of the text.",
            "sentence",
            "style",
        )


def _repeats(draft: str) -> Iterator[_Proposal]:
    """Removals of sentences that nearly repeat one of the sentences before them.

    Sentences of fewer than REPEAT_WORDS different words are ignored. Equal words are found anywhere before, nearly
    equal ones among the last COMPARED_SENTENCES sentences.
    """
    earlier: deque[frozenset[str]] = deque(maxlen=COMPARED_SENTENCES)
    seen: set[frozenset[str]] = set()
    for start, end in sentences(draft):
        words = frozenset(_WORD.findall(draft[start:end].lower()))
        if len(words) < REPEAT_WORDS:
            continue
        if words in seen or any(_alike(words, other) for other in earlier):
            begin = start - 1 if start and draft[start - 1] == " " else start
            yield _Proposal(
                begin,
                end,
                "",
                "remove",
                "The sentence says again what a sentence before it says.",
                "sentence",
                "coherence",
            )
        else:
            seen.add(words)
            earlier.append(words)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences, given as their sets of words, share nearly all words, and all numbers."""
    least, most = sorted((len(one), len(other)))
    if least < REPEAT * most:
        return False
    shared = len(one & other)
    return shared >= REPEAT * (least + most - shared) and not any(word.isdecimal() for word in one ^ other)


def _doubled(draft: str) -> Iterator[_Proposal]:
    """Removals of a word right after the same word, but for words that may be doubled ("that that")."""
    for found in _DOUBLED.finditer(draft):
        if found[1].lower() not in _MAY_DOUBLE:
            yield _Proposal(*found.span(2), "", "remove", "A word stands there twice.", "word", "fluency")


def _stock(draft: str) -> Iterator[_Proposal]:
    """Shorter words for stock phrases, or the removal of these.

    An initial capital is kept; if the phrase is removed, the next word gets it.
    """
    for found in _STOCK_PHRASE.finditer(draft):
        plain = _STOCK[found[1].lower()]
        revised = f"{plain}{found[2]}" if plain else found[2].lstrip()
        if found[1][0].isupper():
            revised = revised[:1].upper() + revised[1:]
        yield _Proposal(
            *found.span(),
            revised,
            "simplify",
            "A stock phrase can be said in fewer words, or not at all.",
            "phrase",
            "clarity",
        )


def _long(draft: str) -> Iterator[_Proposal]:
    """Splits of sentences over LONG_SENTENCE_WORDS words, at the place nearest to their middle.

    That is a comma or conjunction between clauses, or a semicolon, not in the first or last fifth of the sentence; a
    sentence without one stays.
    """
    for start, end in sentences(draft):
        if sum(1 for _ in islice(_WORD.finditer(draft, start, end), LONG_SENTENCE_WORDS + 1)) <= LONG_SENTENCE_WORDS:
            continue
        middle = (start + end) / 2
        places = _BREAK.finditer(draft, start + (end - start) // 5, end - (end - start) // 5)
        if place := min(places, key=lambda found: abs(found.start() - middle), default=None):
            yield _Proposal(
                *place.span(),
                f". {place[1].upper()}",
                "split",
                f"The sentence has more than {LONG_SENTENCE_WORDS} words: two are easier to read.",
                "sentence",
                "clarity",
            )


def _broken_off(draft: str, end: int) -> Iterator[_Proposal]:
    """A full stop for a text whose body, which ends at `end`, breaks off: with a letter, a digit, a comma or the like.

    Yields one proposal, or none, as it does if the body's last line has fewer than BROKEN_OFF_WORDS words.
    """
    line = draft[:end].rpartition("\n")[2][-TAIL_CHARACTERS:]
    if len(_WORD.findall(line)) < BROKEN_OFF_WORDS or not (line[-1].isalnum() or line[-1] in ",;-–"):
        return
    begin = end if line[-1].isalnum() else end - 1
    yield _Proposal(
        begin, end, ".", "complete", "The text breaks off without an end of its last sentence.", "sentence", "fluency"
    )


# what is added


def _missing(draft: str, request: str, at: int) -> Iterator[_Proposal]:
    """A sentence, to be added at `at`, on each of the first MAX_MISSING keywords of the request not in the draft.

    A keyword is in the draft if a word there begins as it does, but for endings.
    """
    stems = {word[:size] for word in set(_WORD.findall(draft.lower())) for size in range(4, min(len(word), 30) + 1)}
    absent = [word for word in keywords(request) if word.lower()[: max(4, len(word) - 3)] not in stems]
    for word in absent[:MAX_MISSING]:
        text = f"More is to be said here on {word}."
        yield _Proposal(
            at,
            at,
            f" {text}" if at else f"{text} ",
            "add",
            "A word of the request is never taken up in the text.",
            "sentence",
            "meaning",
        )


def _greeting(draft: str) -> Iterator[_Proposal]:
    """A greeting, after the subject line if there is one, for a message without a greeting.

    Only the first HEAD_CHARACTERS are searched for one.
    """
    if not _GREETING.search(draft[:HEAD_CHARACTERS]):
        subject = _SUBJECT_LINE.match(draft)
        at = subject.end() if subject else 0
        yield _Proposal(at, at, "Hello,\n\n", "add", "The message has no greeting.", "text", "style")


def _closing_at(draft: str) -> int | None:
    """The offset of the last line that is a letter's closing (`Kind regards`), near the end of the draft.

    Such a line has fewer than BROKEN_OFF_WORDS words and begins within the last TAIL_CHARACTERS, after another line.
    None without one.
    """
    begin = len(draft.rstrip())
    tail = draft[max(0, begin - TAIL_CHARACTERS) : begin]
    for line in reversed(tail.split("\n")[1:]):
        begin -= len(line)
        if _CLOSING.match(line) and len(_WORD.findall(line)) < BROKEN_OFF_WORDS:
            return begin
        begin -= 1
    return None


# what a request asks for

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_OF_REQUESTS = """
write draft compose create generate prepare craft produce make type please help email emails mail letter letters
article articles blog post essay text words word want needs need would like tone formal informal professional
short long polite friendly paragraph paragraphs number main could mention include ask explain say tell make sure
titled talk keep last next
"""
NO_SUBJECT = frozenset(_OF_REQUESTS.split())
_VERB = re.compile(
    r"\b(?:(?P<plainly>write|draft|compose|create|generate|prepare|craft|produce|pen|come up with)"
    r"|make|type|need|want|help (?:me|us) with)\b",
    re.IGNORECASE,
)
_NO_TEXT = (
    r"(?! (?:address(?:es)?|lists?|subject|titles?|headlines?|ideas?|topics?|outlines?|summar(?:y|ies)|clients?"
    r"|servers?|of the alphabet|marketing|campaigns?)\b)"
)
_KINDS = {
    "email": re.compile(rf"\b(?:e-?mails?|mails?)\b{_NO_TEXT}", re.IGNORECASE),
    "letter": re.compile(rf"\b(?:letters?)\b{_NO_TEXT}", re.IGNORECASE),
    "article": re.compile(
        rf"\b(?:articles?|blog ?(?:posts?|entry)?|press releases?|columns?|essays?|op-ed|editorial"
        rf"|news (?:stor(?:y|ies)|items?|reports?))\b{_NO_TEXT}",
        re.IGNORECASE,
    ),
    "other": re.compile(
        rf"\b(?:poems?|stor(?:y|ies)|tales?|songs?|lyrics|speech(?:es)?|toast|eulogy|reviews?|reports?|captions?|posts?"
        rf"|descriptions?|bio|biograph(?:y|ies)|paragraphs?|tweets?|scenes?|dialogues?|statements?|announcements?"
        rf"|invitations?|newsletters?|memos?|notices?|proposals?)\b{_NO_TEXT}",
        re.IGNORECASE,
    ),
}
_NO_PIECE = re.compile(
    r"\b(?:translate|proof-?read|summari[sz]e|rewrite|rephrase|paraphrase|correct|shorten|explain"
    r"|how (?:do|can|should|to)|what (?:is|are|does)|python|javascript|sql|regex|html|function|code|program"
    r"|validat\w+|parse|capital letters?)\b",
    re.IGNORECASE,
)
ASKED_CHARACTERS = 2_000
_APART, _NEAR = 80, 30


def asks_for(message: str) -> tuple[str, str]:
    """("yes" or "no", kind of writing) for a message: yes if a verb of writing is soon followed by a kind of text.

    Kinds are email, letter, article and other; with "no" the kind is other. The kind must follow in the same sentence,
    within 80 characters (30 after a verb like "make" or "need"). Words for an existing text, a question or a program
    right before it mean "no". Only the first ASKED_CHARACTERS characters are read.
    """
    asked = message[:ASKED_CHARACTERS]
    found = [
        (noun.start() - verb.end(), noun.start(), kind, asked[verb.start() : noun.end()])
        for verb in _VERB.finditer(asked)
        for kind, names in _KINDS.items()
        if (noun := names.search(asked, verb.end(), verb.end() + (_APART if verb["plainly"] else _NEAR)))
    ]
    if not found:
        return "no", "other"
    _, place, kind, between = min(found)
    before = asked[:place][-2 * _APART :]
    return ("no", "other") if _NO_PIECE.search(before) or re.search(r"[.!?]\s", between) else ("yes", kind)


def keywords(request: str) -> list[str]:
    """The words of a request that are neither common nor about writing, each once, in order.

    Only words of 4 to 30 letters. A word at the beginning of a sentence is put into lower case unless it is all
    capitals; spellings that differ only in case are one word.
    """
    found: dict[str, str] = {}
    for word in WORD.finditer(request):
        plain = word[0].lower()
        if 4 <= len(plain) <= 30 and plain not in COMMON and plain not in NO_SUBJECT:
            before = request[max(0, word.start() - 3) : word.start()].rstrip(" \"'(*-")
            first = not before or before[-1] in ".!?:\n"
            found.setdefault(plain, plain if first and not word[0].isupper() else word[0])
    return [*found.values()]
