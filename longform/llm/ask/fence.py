"""Text from sources is data: it stands in a prompt between fences that its author cannot forge.

    Question:
    <<<text 5f0c1d2e3a4b
    How long does an opened keg keep?
    5f0c1d2e3a4b text>>>

The mark is the start of the sha256 of the text, so equal texts give equal prompts (and stored replies),
yet nobody can write the mark of his own text into it. What only looks like a fence is taken out.
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
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def marks(message: str) -> set[str]:
    """Of all fences in a message, and of what looks like one."""
    return set(_MARK.findall(message))


def fenced(text: str) -> str:
    mark = mark_of(text)
    if "<<<" in text or ">>>" in text:
        text = _LOOKALIKE.sub("[fence removed]", text)
    return f"<<<text {mark}\n{text}\n{mark} text>>>"


def unfenced(message: str) -> list[tuple[str, str]]:
    """(label, text) of each fence in order; the label is the line before it, without its colon."""
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
