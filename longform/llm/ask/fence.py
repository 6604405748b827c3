"""Fences around texts from sources in a prompt, so that a model can tell data from instructions; the author of a text
cannot forge them.

    Question:
    <<<text 5f0c1d2e3a4b
    How long does an opened keg keep?
    5f0c1d2e3a4b text>>>

The mark is the start of the SHA-256 of the text. So equal texts give equal prompts (and stored replies), yet nobody can
write the mark of a text into that text. Whatever else in a text looks like a fence is removed.
"""

import hashlib
import re

_LOOKALIKE = re.compile(
    r"<<<\s{0,3}text\s{1,3}[0-9a-f]{12}|[0-9a-f]{12}\s{1,3}text\s{0,3}>>>"
    r"|\A\s{0,3}text\s{0,3}>>>|<<<\s{0,3}text\s{0,3}\Z",  # what the marks of its own fences would complete
    re.IGNORECASE,
)


_MARK = re.compile(r"<<<text ([0-9a-f]{12})\n")


def mark_of(text: str) -> str:
    """The mark of a text's fence: the first 12 hex digits of the text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def marks(message: str) -> set[str]:
    """The marks, 12 hex digits each, of everything in a message that looks like the first line of a fence."""
    return set(_MARK.findall(message))


def fenced(text: str) -> str:
    """The text between the two lines of its fence. What looks like a fence in the text becomes `[fence removed]`; the
    mark is that of the text before this.
    """
    mark = mark_of(text)
    if "<<<" in text or ">>>" in text:
        text = _LOOKALIKE.sub("[fence removed]", text)
    return f"<<<text {mark}\n{text}\n{mark} text>>>"


def unfenced(message: str) -> list[tuple[str, str]]:
    """(label, text) of each fenced text in a message, in order. The label is the line before the fence (or what stands
    before the fence on its own line), without a colon at its end; empty if there is none. From a fence that is not
    closed on, nothing is found.
    """
    found = []
    at = 0
    while (start := message.find("<<<text ", at)) >= 0:
        mark, opened = message[start + 8 : start + 20], start + 21
        closed = message.find(f"\n{mark} text>>>", opened - 1)
        if closed < 0:
            break
        label = message[message.rfind("\n", 0, max(start - 1, 0)) + 1 : start].strip()
        found.append((label.removesuffix(":"), message[opened:closed]))
        at = closed + 1
    return found
