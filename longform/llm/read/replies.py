"""What any reply may hold: a thought before it, the end mark that proves it whole, citations of numbered passages.

Fields are read in structured.py; what a provider marks as refused or filtered is judged in client.py.
"""

import re

THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_LIST = r"[\d,;&\s]{1,80}"
_CITATION = re.compile(rf"\(\s{{0,3}}passages?({_LIST}(?:(?:and|passages?){_LIST}){{0,20}})\)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)")
_QUOTES = "\"'“”‘’*"
_MARK_LINE = re.compile(r"\n=====[ \t]*(?:\n|\Z)")
_STANDS_ALONE = r"[-*•+#|>`~$<]|\d{1,3}[.)]|\(?\w[.)]\s|\[\^?\d|https?://"
_UNFINISHED = re.compile(rf"[,;(\[{{=]\Z|^(?!{_STANDS_ALONE}).*[\w:&/–—-]\Z")
_CLOSED = "</think>"


def whole_reply(text: str) -> str | None:
    """A reply that the model ended by itself, without end mark and thought; None where it seems cut off all the same.

    Not every model writes the mark, and some go on behind it. Without it a reply seems cut off where it ends in the
    middle of a sentence; a list, a table, code or an address may end as it likes.
    """
    marked = strip_end_mark(text)
    if marked is not None:
        return marked
    body = without_thought(text).strip("\r\n").rstrip()
    for mark in _MARK_LINE.finditer(body):
        before = body[: mark.start()].rstrip()
        if not _seems_cut_off(before) and len(before) > len(body) - mark.end():  # else it underlines a heading
            return before
    return None if body.lstrip().startswith("<think>") or _seems_cut_off(body) else body


def _seems_cut_off(body: str) -> bool:
    return not body or _UNFINISHED.search(body.rpartition("\n")[2].strip()[-2_000:]) is not None


def strip_end_mark(text: str) -> str | None:
    """The reply without the `=====` that ends it and without a thought; None where the mark is missing.

    A full stop, quotes or asterisks around the mark (models echo how the prompt wrote it) go with it.
    """
    whole = text.rstrip()
    marked = whole.rstrip(_QUOTES + ". \t\r\n")
    if not marked.endswith("====="):
        return None
    quoted = any(sign in _QUOTES for sign in whole[len(marked) :])
    body = without_thought(marked.rstrip("="))
    return (body.rstrip(_QUOTES) if quoted else body).rstrip().strip("\r\n")


def without_thought(text: str) -> str:
    """Without what a model thinks before it speaks, <think>…</think>, which a server may have opened in the prompt."""
    if thought := THOUGHT.match(text):
        return text[thought.end() :]
    before, closed, after = text.partition(_CLOSED)
    ends_a_line = after.lstrip(" \t")[:1] in ("\r", "\n")
    return after if closed and ends_a_line and "<think>" not in before else text


def cited_passages(text: str) -> list[int]:
    """Passage numbers as written, each once, in order: `(Passage 4)`, `(Passages 4, 5)`, `(Passage 4 and 5)`."""
    lists = (match[1] for match in _CITATION.finditer(text))
    numbers = (int(number) for cited in lists for number in _NUMBER.findall(cited))
    return list(dict.fromkeys(numbers))


def writable(text: str) -> str:
    """The text with halves of surrogate pairs, which UTF-8 cannot hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
