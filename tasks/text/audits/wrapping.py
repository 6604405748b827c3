"""What a model puts around the text that it was asked for.

    Sure! Here is the revised answer:        a preamble
    ```                                      a code fence, around the whole of prose
    {"answer": "Tin melts at 232 degrees."}  JSON
    "Tin melts at 232 degrees. Lead …"       quotation marks, around the whole of more than a sentence
    Let me know if you'd like me to adjust.  a postamble: the model on its task
    We need to answer with citations. Let's  a plan: the model thinks aloud before it answers
    <p>Tin melts at 232 degrees.</p>         HTML, around the text

An answer may itself consist of code or JSON, or begin with "Here is how to …": only what speaks of the text as a text
counts as a preamble.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FIRST_CHARACTERS = 300
LAST_CHARACTERS = 400
LEAST_QUOTED = 60  # characters; a shorter quotation may be the answer
LONGEST_JSON = 200_000
CODE_SIGNS = 0.03  # share of characters from which a text without a language counts as code

PREAMBLE, FENCE, JSON, QUOTES, POSTAMBLE = "a preamble", "a code fence", "JSON", "quotation marks", "a postamble"
PLAN, HTML = "a plan", "HTML"

_FILE = Path(__file__).with_name("wrapping.toml")
_GAP = r"[^:：\n]{0,120}"
_COLON = r"(?:[:：。]|니다\.)[\s*_]*\n"
_QUOTES_CODE = re.compile(r"\s*(?:>|```|~~~|    )")  # what a text of the author's own may introduce
_FENCED = re.compile(r"\A(?P<fence>```+|~~~+)(?P<language>[\w+-]*)[ \t]*\n(?P<inside>.*)\n(?P=fence)\Z", re.DOTALL)
_TEXT = ("markdown", "md", "text", "txt", "plaintext", "plain")
_CODE_SIGN = re.compile(r"[{}();=<>$|\\\[\]_#@]|^\s+\S", re.MULTILINE)
_REFERENCE = re.compile(r"\[\d{1,3}(?: ?[,;–-] ?\d{1,3})*\]")  # to a source, in prose
_SENTENCE = re.compile(r"[^\W\d_]{2,},? [^\W\d_]{1,}[^\n]{0,400}[.!?](?:\s|\Z)")
_BLOCKS = r"p|div|html|body|article|section|main|h[1-6]|ul|ol|table|blockquote"
_BLOCK = re.compile(
    rf"(?:<!doctype[^>]{{0,80}}>\s*)?<(?P<name>{_BLOCKS})(?:\s[^<>]{{0,400}})?>(?P<inside>.{{1,4000}}?)</(?P=name)\s*>",
    re.IGNORECASE | re.DOTALL,
)
_LINES_OF_BLOCKS = re.compile(
    r"^[ ]{0,3}<p(?:\s[^<>\n]{0,400})?>(?P<inside>[^\n]{1,4000}?)</p>[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_FENCES = re.compile(r"^ {0,3}(```|~~~)[^\n]*\n.*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r"<[^<>\n]{1,400}>")
_PAIRS = {'"': '"', "“": "”", "„": "“", "«": "»", "»": "«", "「": "」", "'": "'"}
_FIELDS = re.compile(
    r"(?:\w*_)?(?:answer|response|reply|text|content|output|result|completion|draft|paragraph|essay|letter|message"
    r"|email|revision|rewrite|summary|translation)",
    re.IGNORECASE,
)


def wrapped(text: str) -> str | None:
    """What a model's text is wrapped in, as one of PREAMBLE, PLAN, FENCE, JSON, HTML, QUOTES, POSTAMBLE; None if it is
    not.
    """
    body = text.strip()
    if _is_json(body):
        return JSON
    if fenced := _FENCED.match(body):
        return _fence(fenced)
    if (found := _preamble().match(body, 0, FIRST_CHARACTERS)) and _is_of_text(body[found.end() :]):
        return PREAMBLE
    if _is_plan(body):
        return PLAN
    if _is_html(body):
        return HTML
    if _is_quoted(body):
        return QUOTES
    return POSTAMBLE if _postamble().search(body[-LAST_CHARACTERS:]) else None


def _is_of_text(rest: str) -> bool:
    """Whether what follows a preamble is the text that was asked for: prose, also in a fence, no quotation or code."""
    fenced = _FENCED.match(rest.strip())
    return _fence(fenced) is not None if fenced else _QUOTES_CODE.match(rest) is None


def _is_plan(body: str) -> bool:
    """Whether a text begins with what its author means to write: by an opener that says so, or one and a sign."""
    plans, openers, signs = _plans()
    if plans.match(body, 0, FIRST_CHARACTERS):
        return True
    opener = openers.match(body, 0, FIRST_CHARACTERS)
    return opener is not None and signs.search(body, opener.end(), opener.end() + FIRST_CHARACTERS) is not None


def _is_html(body: str) -> bool:
    """Whether a text begins with an element that is a block of prose, or has several that begin a line."""
    start = body[:LAST_CHARACTERS].lower()
    if "<" not in start and "<p>" not in body:
        return False
    first = _BLOCK.match(body)
    blocks = [first] if first else list(_LINES_OF_BLOCKS.finditer(_FENCES.sub("", body)))
    prose = [each for each in blocks if _SENTENCE.search(_TAG.sub(" ", each["inside"]))]
    return bool(first and prose) or len(prose) > 1


def _fence(fenced: re.Match[str]) -> str | None:
    """JSON or FENCE for a fence around the whole of a text; None if what is inside is code, or has a fence itself."""
    inside = fenced["inside"]
    if _is_json(inside.strip()):
        return JSON
    if fenced["fence"] in inside or fenced["language"].lower() not in ("", *_TEXT):
        return None
    if fenced["language"]:
        return FENCE
    prose = _REFERENCE.sub("", inside)
    code = len(_CODE_SIGN.findall(prose)) > CODE_SIGNS * len(prose)
    return FENCE if not code and _SENTENCE.search(prose) else None


def _is_json(body: str) -> bool:
    """Whether a text is a JSON object, or a list of one, whose longest text is in a field such as `answer`."""
    if not body.startswith(("{", "[")) or not body.endswith(("}", "]")) or len(body) > LONGEST_JSON:
        return False
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    texts = {name: each for name, each in value.items() if isinstance(each, str)} if isinstance(value, dict) else {}
    longest = max(texts, key=lambda name: len(texts[name]), default="")
    return " " in texts.get(longest, "") and _FIELDS.fullmatch(longest) is not None


def _is_quoted(body: str) -> bool:
    """Whether a text of at least LEAST_QUOTED characters stands in quotation marks as a whole."""
    closing = _PAIRS.get(body[:1])
    if closing is None or not body.endswith(closing) or len(body) < LEAST_QUOTED:
        return False
    inside = body[1:-1]
    return closing not in inside and (body[0] not in inside)


# the file


@cache
def _preamble() -> re.Pattern[str]:
    """The pattern of a preamble at the beginning of a text."""
    table = tomllib.loads(_FILE.read_text("utf-8"))
    between = r"(?: ?\S{1,40}){0,3}? ?"
    here = [
        rf"(?:¡?(?:{each['sure']}) ?[!.,،。！，、]*\s?)?(?:{each['here']}){between}(?:{each['kind']}){_GAP} ?{_COLON}"
        for each in table["here"].values()
    ]
    either = "|".join(_expression(line, table) for line in (*here, *table["preambles"].splitlines()) if line)
    return re.compile(rf"[\s*_#]*(?:{either})", re.IGNORECASE)


@cache
def _postamble() -> re.Pattern[str]:
    """The pattern of a postamble: the last paragraph, with at most twelve lines after its first."""
    table = tomllib.loads(_FILE.read_text("utf-8"))
    either = "|".join(_expression(line, table) for line in table["postambles"].splitlines() if line)
    after = r"[^\n]{0,300}(?:\n[^\n]{0,200}){0,12}\Z"
    return re.compile(rf"(?:\n\s*\n|\A)[\s*_(\[>-]*(?:{either}){after}", re.IGNORECASE)


@cache
def _plans() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The patterns of plans and openers at the beginning of a text, and of signs."""
    table = tomllib.loads(_FILE.read_text("utf-8"))

    def either(name: str) -> str:
        return "|".join(_expression(line, table) for line in table[name].splitlines() if line)

    plans, openers = (re.compile(rf"[\s*_#]*(?:{either(name)})", re.IGNORECASE) for name in ("plans", "openers"))
    return plans, openers, re.compile(rf"\b(?:{either('signs')})", re.IGNORECASE)


def _expression(line: str, table: dict[str, Any]) -> str:
    """The regular expression of a line of the file, with the names of its lists and its signs written out."""
    for name in ("kind", "changed"):
        line = line.replace(name.upper(), f"(?:{'|'.join(table[name].split())})")
    line = line.replace("STARTING", table["starting"]).replace("TASK", table["task"])
    line = line if "’" in line else line.replace("'", "['’]")
    return line.replace("_:", _COLON).replace("…", _GAP)
