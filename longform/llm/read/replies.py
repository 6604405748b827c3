"""What any reply may have around its content: a thought before it, an end mark that shows that it is whole, and
citations of numbered passages in it.

Fields are read in longform/llm/read/structured.py; refusals and filters are judged in longform/llm/client.py.
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
    """The reply without thought and end mark. None where the mark, `=====`, is missing and the reply is empty or seems
    cut off, although the model ended it by itself. A reply that ends with the mark is whole: "" if it is empty.

    Not every model writes the mark, and some write on after it: what follows is dropped if it is shorter than the
    reply before it, and this does not seem cut off. A reply without the mark seems cut off if it ends in the middle of
    a sentence, or in its thought; a list, a table, code or an address may end anywhere.
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
    """Whether the text is empty, or its last line ends in the middle of a sentence: after a comma, a semicolon, "=" or
    an opening bracket, or, unless the line begins as one of a list, table, code or an address does, after a letter,
    digit, colon, "&", slash or dash.
    """
    return not body or _UNFINISHED.search(body.rpartition("\n")[2].strip()[-2_000:]) is not None


def strip_end_mark(text: str) -> str | None:
    """The reply without its thought and without the `=====` at its end; None where that mark is missing.

    A full stop, quotes or asterisks after the mark are removed with it, because models copy how the prompt wrote it;
    where there are quotes or asterisks after it, those before it are removed too. "" if nothing else is there.
    """
    whole = text.rstrip()
    marked = whole.rstrip(_QUOTES + ". \t\r\n")
    if not marked.endswith("====="):
        return None
    quoted = any(sign in _QUOTES for sign in whole[len(marked) :])
    body = without_thought(marked.rstrip("="))
    return (body.rstrip(_QUOTES) if quoted else body).rstrip().strip("\r\n")


def without_thought(text: str) -> str:
    """The reply without the model's thought at its beginning, <think>...</think>; unchanged if there is none. The
    opening tag may be missing, because some servers put it into the prompt; then a line break must follow the closing
    tag.
    """
    if thought := THOUGHT.match(text):
        return text[thought.end() :]
    before, closed, after = text.partition(_CLOSED)
    ends_a_line = after.lstrip(" \t")[:1] in ("\r", "\n")
    return after if closed and ends_a_line and "<think>" not in before else text


def cited_passages(text: str) -> list[int]:
    """The passage numbers in citations such as `(Passage 4)`, `(Passages 4, 5)`, `(Passage 4 and 5)`, each once, in
    the order in which they come first.
    """
    lists = (match[1] for match in _CITATION.finditer(text))
    numbers = (int(number) for cited in lists for number in _NUMBER.findall(cited))
    return list(dict.fromkeys(numbers))


def writable(text: str) -> str:
    """The text, in which halves of surrogate pairs, which UTF-8 cannot encode, are replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
