"""HTML of community posts as Markdown; TeX, code and Windows paths come out as the author wrote them.

    <p>Use <code>a_b</code>, \\(x_1\\)</p>   ->   Use `a_b`, \\(x_1\\)

The converter doubles every backslash outside code and escapes `1.`, `#`, `-` at a line's start, which changes
TeX. So backslashes travel as U+E000 (a private-use character, dropped where a post holds one itself), the escapes
that the converter wrote are taken away, and only `\\|` in tables stays. The converter writes each line of nested
quotes and lists once a level, so 20 KB that nest 900 deep take gigabytes: a post that nests deeper than 64, or less
where it is long, becomes plain text instead. What lies deeper the converter drops with no more than a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import unescape
from math import isqrt
from typing import Any

STAND_IN = "\ue000"
DEEPEST, LEAST_DEEPEST = 64, 8
LARGEST_NESTED = 1 << 28  # characters times the square of their depth, some seven of which take a byte of memory

_BACKSLASH = re.compile(r"&#0*92(?![0-9]);?|&#[xX]0*5[cC](?![0-9a-fA-F]);?|&bsol;")
_STAND_IN = re.compile(r"&#0*57344(?![0-9]);?|&#[xX]0*[eE]000(?![0-9a-fA-F]);?")
_ESCAPE = re.compile(r"\\(?=[!-{}~])")
_LANGUAGE = re.compile(r"<!-- language(?:-all)?: (?:lang-)?([\w#+.-]+) -->\s*<pre>")
_TAG = re.compile(r"<!?/?([a-zA-Z][a-zA-Z0-9]*+|--)[^<>]*+>")
_INLINE = re.compile(r"a|abbr|b|big|cite|code|del|em|font|ins?|i|kbd|q|s|small|span|strike|strong|su[bp]|tt|u")


def to_markdown(html: str) -> str:
    """The HTML as GitHub-flavoured Markdown; "" if there is only white space.

    It is plain text without markup if the HTML nests too deep (`_deepest`) or the converter refuses it.
    """
    guarded = _guard(html)
    convert, options, refused = _converter(_deepest(html))
    try:
        result = convert(guarded, options)
    except refused:
        return _plain(html)
    if result.warnings and any(str(warning.kind) == "depth_limit_exceeded" for warning in result.warnings):
        return _plain(html)
    text: str = _ESCAPE.sub("", result.content) if "\\" in result.content else result.content
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
        preprocessing=native.PreprocessingOptions(enabled=False),
        max_depth=deepest,
    )
    return native.convert, options, native.ConversionError


def _plain(html: str) -> str:
    """The text of the HTML without tags, a line for each block, without blank lines; linear in time on any input."""
    text = unescape(_TAG.sub(lambda tag: "" if _INLINE.fullmatch(tag[1].lower()) else "\n", html))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())
