"""What the offline model makes of a request: whether a text is asked for, of which kind, and its keywords."""

from __future__ import annotations

import re

from tasks.text.prose import COMMON

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
    """("yes" or "no", kind) of a message: yes if a verb of writing is soon followed by a kind of text.

    Only the first 2,000 characters are read.
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

    A word that begins a sentence is in lower case.
    """
    found: dict[str, str] = {}
    for word in WORD.finditer(request):
        plain = word[0].lower()
        if 4 <= len(plain) <= 30 and plain not in COMMON and plain not in NO_SUBJECT:
            before = request[max(0, word.start() - 3) : word.start()].rstrip(" \"'(*-")
            first = not before or before[-1] in ".!?:\n"
            found.setdefault(plain, plain if first and not word[0].isupper() else word[0])
    return [*found.values()]
