"""HTML of community posts as Markdown; TeX, code and Windows paths come out as the author wrote them.

    <p>Use <code>a_b</code>, \\(x_1\\)</p>                        ->   Use `a_b`, \\(x_1\\)
    <blockquote class="spoiler"><p>It is Ann.</p></blockquote>   ->   >! It is Ann.

The converter doubles every backslash outside code and escapes `1.`, `#`, `-` at a line's start, which changes
TeX. So backslashes travel as U+E000 (a private-use character, dropped where a post holds one itself), the escapes
that the converter wrote are taken away, and only `\\|` in tables stays. What it does not know, spoilers (`>!`, as their
authors write them) and the alignment of columns, travels as U+E001 to U+E005. It joins quotes that follow each other:
a line break keeps them apart.

The converter writes each line of nested quotes and lists once a level, so 20 KB that nest 900 deep take gigabytes: a
post that nests deeper than 64, or less where it is long, becomes plain text instead. What lies deeper the converter
drops with no more than a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import unescape
from math import isqrt
from typing import Any

STAND_IN = "\ue000"
OPENED, CLOSED = "\ue001", "\ue002"
ALIGNED = {"left": "\ue003", "center": "\ue004", "right": "\ue005"}
UNDER = {"\ue003": " :--- ", "\ue004": " :---: ", "\ue005": " ---: "}
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
DEEPEST, LEAST_DEEPEST = 64, 8
LARGEST_NESTED = 1 << 28  # characters times the square of their depth, some seven of which take a byte of memory

_BACKSLASH = re.compile(r"&#0*92(?![0-9]);?|&#[xX]0*5[cC](?![0-9a-fA-F]);?|&bsol;")
_STAND_IN = re.compile(r"&#0*57344(?![0-9]);?|&#[xX]0*[eE]000(?![0-9a-fA-F]);?")
_ESCAPE = re.compile(r"\\(?=[!-{}~])")
_LANGUAGE = re.compile(r"<!-- language(?:-all)?: (?:lang-)?([\w#+.-]+) -->\s*<pre>")
_TAG = re.compile(r"<!?/?([a-zA-Z][a-zA-Z0-9]*+|--)[^<>]*+>")
_ADJACENT = re.compile(r"</blockquote>(?:\s|<!--[^<>]{0,200}-->)*+<blockquote\b")
_QUOTE = re.compile(r"<(?P<end>/)?blockquote\b(?P<attributes>[^<>]*+)>")
_SPOILER = re.compile(r"""\bclass\s*=\s*["']?[^"'<>]*\bspoiler\b""")
_TABLE = re.compile(r"<(?P<name>table|tr|th|td)\b(?P<attributes>[^<>]*+)>", re.IGNORECASE)
_ALIGN = re.compile(r"""\b(?:text-align\s*:\s*|align\s*=\s*["']?)(left|center|right)\b""", re.IGNORECASE)
_CELL_END = re.compile(r"(?<!\\)\|")
_MARK = re.compile("[\ue001-\ue005]|&#0*5734[5-9](?![0-9]);?|&#[xX]0*[eE]00[1-5](?![0-9a-fA-F]);?")
_INLINE = re.compile(r"a|abbr|b|big|cite|code|del|em|font|ins?|i|kbd|q|s|small|span|strike|strong|su[bp]|tt|u")


def to_markdown(html: str) -> str:
    """The HTML as GitHub-flavoured Markdown; "" if there is only white space.

    It is plain text without markup if the HTML nests too deep (`_deepest`) or the converter refuses it.
    """
    guarded = _guard(html)
    has_quotes = "<bl" in guarded
    if has_quotes:
        guarded = _ADJACENT.sub("</blockquote><br><blockquote", guarded)
    is_marked = (has_quotes and "spoiler" in guarded) or ("<tab" in guarded and "align" in guarded)
    if is_marked:
        guarded = _align_marked(_spoilers_marked(_MARK.sub("", guarded)))
    convert, options, refused = _converter(_deepest(html))
    try:
        result = convert(guarded, options)
    except refused:
        return _plain(html)
    if result.warnings and any(str(warning.kind) == "depth_limit_exceeded" for warning in result.warnings):
        return _plain(html)
    text: str = result.content
    text = _ESCAPE.sub("", text) if "\\" in text else text
    if is_marked:
        text = _MARK.sub("", _with_spoilers(_with_alignment(text)))
    return text.replace(STAND_IN, "\\").rstrip().lstrip("\n")


def _guard(html: str) -> str:
    """The HTML with STAND_IN for every backslash, and with the language of code from comments as a class of <pre>.

    Where the HTML has STAND_IN itself, it is removed.
    """
    html = html.replace(STAND_IN, "").replace("\\", STAND_IN)
    if "&#" in html or "&bsol;" in html:
        html = _BACKSLASH.sub(STAND_IN, _STAND_IN.sub("", html))
    if "<!-- language" in html:
        html = _LANGUAGE.sub(r'<pre class="lang-\1">', html)
    return html


# ---------------------------------------------------------------- what the converter does not know


def _spoilers_marked(html: str) -> str:
    """The HTML with a paragraph OPENED at the beginning of each spoiler and a paragraph CLOSED at its end."""
    pieces, at, spoilers = [], 0, list[bool]()
    for tag in _QUOTE.finditer(html):
        if not tag["end"]:
            spoilers.append(_SPOILER.search(tag["attributes"]) is not None)
            place, mark = tag.end(), OPENED if spoilers[-1] else ""
        else:
            place, mark = tag.start(), CLOSED if spoilers and spoilers.pop() else ""
        if mark:
            pieces += [html[at:place], f"<p>{mark}</p>"]
            at = place
    return "".join([*pieces, html[at:]])


def _with_spoilers(text: str) -> str:
    """The Markdown with `>!` for `>` in the lines between OPENED and CLOSED, and without the lines of these marks."""
    lines, depths, begun = list[str](), list[int](), ""
    for line in text.split("\n"):
        if begun and not line.strip(" >"):
            continue
        if begun:  # a bullet stands in the line of OPENED
            line, begun = begun + _at_quote(line, begun.count(">"))[1], ""
        if line.endswith(OPENED):
            begun = line[:-1].rstrip()
            depths.append(begun.count(">"))
        elif line.endswith(CLOSED):
            depths = depths[:-1]
            if lines and not lines[-1].strip(" >!"):
                lines.pop()
        else:
            lines.append(_hidden(line, depths))
    return "\n".join(lines)


def _hidden(line: str, depths: list[int]) -> str:
    """The line of Markdown with `!` behind the `>` of each of these depths; unchanged where it has no such quote."""
    for depth in depths:
        quote, rest = _at_quote(line, depth)
        line = f"{quote}!{rest}" if quote else line
    return line


def _at_quote(line: str, depth: int) -> tuple[str, str]:
    """(the line of Markdown up to and with the `>` of this depth, counted from 1; what follows). ("", the line) if it
    has no such `>`.
    """
    place = -1
    for _ in range(depth):
        place = line.find(">", place + 1)
        if place < 0:
            return "", line
    return line[: place + 1], line[place + 1 :]


def _align_marked(html: str) -> str:
    """The HTML with a mark of ALIGNED at the beginning of each cell of a table's first row that has an alignment."""
    pieces, at, row = [], 0, 0
    for tag in _TABLE.finditer(html):
        name = tag["name"].lower()
        if name in ("table", "tr"):
            row = 0 if name == "table" else row + 1
        elif row == 1 and (align := _ALIGN.search(tag["attributes"])):
            pieces += [html[at : tag.end()], ALIGNED[align[1].lower()]]
            at = tag.end()
    return "".join([*pieces, html[at:]])


def _with_alignment(text: str) -> str:
    """The Markdown with colons in the line below each line of cells with marks of ALIGNED."""
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        cells, under = _CELL_END.split(line), _CELL_END.split(lines[number + 1])
        marks = [next((mark for mark in UNDER if mark in cell), "") for cell in cells]
        if any(marks) and len(cells) == len(under):
            pairs = list(zip(cells, under, marks, strict=True))
            lines[number] = "|".join(f"{cell.replace(mark, '')} " if mark else cell for cell, _, mark in pairs)
            lines[number + 1] = "|".join(UNDER[mark] if mark else below for _, below, mark in pairs)
    return "\n".join(lines)


def _deepest(html: str) -> int:
    """How many levels deep HTML of this length may nest, from LEAST_DEEPEST (if long) to DEEPEST."""
    return max(LEAST_DEEPEST, min(DEEPEST, isqrt(LARGEST_NESTED // (len(html) + 1))))


@cache
def _converter(deepest: int) -> tuple[Callable[..., Any], Any, type[Exception]]:
    """(convert, options, error class) of the native library; its public wrapper builds options anew on every call.

    `deepest`: how many levels deep HTML may nest.
    """
    from html_to_markdown import _html_to_markdown as native

    options = native.ConversionOptions(
        extract_metadata=False,
        autolinks=False,
        bullets="-",
        list_indent_width=3,
        sup_symbol="<sup>",
        sub_symbol="<sub>",
        keep_inline_images_in=HEADINGS,
        preprocessing=native.PreprocessingOptions(enabled=False),
        max_depth=deepest,
    )
    return native.convert, options, native.ConversionError


def _plain(html: str) -> str:
    """The text of the HTML without tags, a line for each block, without blank lines; linear in time on any input."""
    text = unescape(_TAG.sub(lambda tag: "" if _INLINE.fullmatch(tag[1].lower()) else "\n", html))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())
