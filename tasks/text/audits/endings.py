"""Whether a text breaks off: a last line of prose that stops without the end of a sentence.

    Careful records reduce errors that arise from haste, whi    breaks off
    ## Further reading                                          a heading, as any short line, may end a text
    - copper, tin and                                           so may an item of a list, a row, a quotation, code

Only texts are judged whose other sentences have ends, in scripts that mark them.
"""

from __future__ import annotations

import re

LEAST_WORDS = 8  # of the last line; a shorter one may be a title or a name
LEAST_UNSPACED = 16  # signs, in scripts without blanks between words
READ_CHARACTERS = 2_000  # of the end of a text

_UNMARKED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_STANDS_ALONE = re.compile(r"\s{4}|\t|\s*(?:[-*•+#|>`~$<–—]|\(?\d{1,3}[.):]|\(?\w[.)]\s|\[\^?\d|\\|https?://|www\.)")
_REFERENCES = re.compile(
    r"(?:\[\^?\d{1,3}(?:[ ,;–-]{1,2}\d{1,3})*\]:?|\(passages? [\d, and]+\)|[\s*_])+\Z", re.IGNORECASE
)
_ENDED = re.compile(r"[.!?…。！？।॥؟۔։。]['\"”’»)\]」』*_]{0,4}(?:\s|\[|\(|\Z|(?<=[。！？]))")
_OPEN_END = re.compile(r"(?:(?<![^\s，、；：(“\"'«])[^\W\d_]+(?:['’-][^\W\d_]+)*|[,;:(\[{=&،、，；：–—-])\Z")
_ADDRESS = re.compile(
    r"(?:https?://|www\.)\S*\Z|\S+@\S+\Z|\b[\w-]+\.(?:com|org|net|edu|gov|html?|pdf)\Z", re.IGNORECASE
)


def unfinished(text: str) -> bool:
    """Whether a text breaks off in the middle of a sentence."""
    body = text.rstrip()[-READ_CHARACTERS:]
    line = body.rpartition("\n")[2]
    if _STANDS_ALONE.match(line) or body.count("```") % 2 or _UNMARKED.search(line) or _ADDRESS.search(line):
        return False
    if _REFERENCES.search(line) or not _OPEN_END.search(line):
        return False
    return _ENDED.search(body) is not None and _is_long(line)


def _is_long(line: str) -> bool:
    """Whether a line is more than a title or a name."""
    return len(line.split()) >= LEAST_WORDS or len(_UNSPACED.findall(line)) >= LEAST_UNSPACED
