"""The reply to prompts/axioms/corrupt.md: claims, the corrupted ones and the rewritten answer, each in its tags.

<claim>Casks are served at 12 degrees.</claim>
<corrupted_claim>Casks are served at 2 degrees.</corrupted_claim>
<corrupted_answer>Casks are served at 2 degrees, so ...</corrupted_answer>
=====
"""

import re

from schemas.replies import Corruption

_ANSWER = r"\s{0,3}corrupted[ _-]?answer\s{0,3}>"
_OPEN_ANSWER = re.compile("<" + _ANSWER, re.IGNORECASE)
_CLOSE_ANSWER = re.compile(r"<\s{0,3}/" + _ANSWER, re.IGNORECASE)
_CLAIM_TAG = re.compile(r"<\s{0,3}(/?)\s{0,3}(corrupted[ _-]?)?claim\s{0,3}>", re.IGNORECASE)


def parse_corruption(text: str) -> Corruption | str:
    """The reply, read, or the reason why it cannot be. The answer may itself hold tags; claims may not."""
    opened = _OPEN_ANSWER.search(text)
    if opened is None:
        return "no corrupted answer in the reply"
    closed = _last(_CLOSE_ANSWER, text, opened.end())
    if closed is None:
        return "the corrupted answer is not closed"
    answer = text[opened.end() : closed.start()].strip("\r\n").rstrip()
    claims = _claims(text[: opened.start()])
    if not answer.strip():
        return "the corrupted answer is empty"
    if claims is None:
        return "no claim tags in the reply"
    return Corruption(claims=claims[0], corrupted_claims=claims[1], answer=answer)


def _claims(text: str) -> tuple[list[str], list[str]] | None:
    """(claims, corrupted claims), empty ones dropped; None where no claim is tagged, not even as empty."""
    found: tuple[list[str], list[str]] = ([], [])
    opened: re.Match[str] | None = None
    tagged = False
    for tag in _CLAIM_TAG.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None and bool(opened[2]) == bool(tag[2]):
            tagged = tagged or not tag[2]
            claim = " ".join(text[opened.end() : tag.start()].split())
            found[bool(tag[2])].extend([claim] if claim else [])
            opened = None
    return found if tagged else None


def _last(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text, start):
        last = match
    return last
