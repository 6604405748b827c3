"""What any reply may hold: a thought before it, the end mark that proves it whole, citations of numbered passages."""

import re

THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_LIST = r"[\d,;&\s]{1,80}"
_CITATION = re.compile(rf"\(\s{{0,3}}passages?({_LIST}(?:(?:and|passages?){_LIST}){{0,20}})\)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)")
_QUOTES = "\"'“”‘’*"
_ENDS_A_SENTENCE = re.compile(r"[.!?…。！？][\"'“”‘’*)\]»]{0,4}(?:\s?\[[\d,;\s^-]{1,40}\]){0,20}\.?\s*\Z")


def whole_reply(text: str, finish: str) -> str | None:
    """The reply without its end mark and its thought; None where it seems cut off.

    Without the mark a reply counts as whole where the server says that the model stopped by itself (`stop`) and a
    sentence ends there: not every model writes the mark.
    """
    marked = strip_end_mark(text)
    if marked is not None or finish != "stop":
        return marked
    thought = THOUGHT.match(text)
    body = text[thought.end() if thought else 0 :].strip("\r\n").rstrip()
    return None if body.lstrip().startswith("<think>") or not _ENDS_A_SENTENCE.search(body[-2_000:]) else body


def strip_end_mark(text: str) -> str | None:
    """The reply without the `=====` that ends it, or None where it is missing: the reply was cut off.

    What a model thinks before it speaks (<think>...</think>) is no part of it. A full stop, quotes or asterisks
    around the mark (models echo how the prompt wrote it) go with it.
    """
    whole = text.rstrip()
    marked = whole.rstrip(_QUOTES + ". \t\r\n")
    if not marked.endswith("====="):
        return None
    quoted = any(sign in _QUOTES for sign in whole[len(marked) :])
    body = marked.rstrip("=")
    thought = THOUGHT.match(body)
    body = body[thought.end() if thought else 0 :]
    return (body.rstrip(_QUOTES) if quoted else body).rstrip().strip("\r\n")


def cited_passages(text: str) -> list[int]:
    """Passage numbers as written, each once, in order: `(Passage 4)`, `(Passages 4, 5)`, `(Passage 4 and 5)`."""
    lists = (match[1] for match in _CITATION.finditer(text))
    numbers = (int(number) for cited in lists for number in _NUMBER.findall(cited))
    return list(dict.fromkeys(numbers))
