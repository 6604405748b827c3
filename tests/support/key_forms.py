"""The forms in which a server may repeat a key, and a decoder of them made of the standard library alone."""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import quote, unquote


def each(key: str, form: str) -> str:
    return "".join(form.format(code=ord(sign), sign=sign) for sign in key)


def some(key: str, form: str, every: int = 3) -> str:
    return "".join(sign if place % every else form.format(code=ord(sign), sign=sign) for place, sign in enumerate(key))


def b64(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "capitals": str.upper,
    "small letters": str.lower,
    "json": lambda key: each(key, "\\u{code:04x}"),
    "json, capitals": lambda key: each(key, "\\u{code:04X}"),
    "json, some": lambda key: some(key, "\\u{code:04x}"),
    "json, slash": lambda key: key.replace("/", "\\/"),
    "json twice": lambda key: each(key, "\\\\u{code:04x}"),
    "json three times": lambda key: each(key, "\\\\\\\\u{code:04x}"),
    "percent": lambda key: quote(key, safe=""),
    "percent, all": lambda key: each(key, "%{code:02X}"),
    "percent, small": lambda key: each(key, "%{code:02x}"),
    "percent, some": lambda key: some(key, "%{code:02x}", 2),
    "percent twice": lambda key: each(key, "%25{code:02X}"),
    "percent in json": lambda key: each(key, "\\u0025{code:02x}"),
    "json in percent": lambda key: each(key, "%5Cu{code:04x}"),
    "backslash x": lambda key: each(key, "\\x{code:02x}"),
    "html": lambda key: each(key, "&#{code};"),
    "html, hex": lambda key: each(key, "&#x{code:02X};"),
    "html, zeros": lambda key: each(key, "&#0{code};"),
    "html, some": lambda key: some(key, "&#x{code:x};"),
    "html twice": lambda key: each(key, "&amp;#{code};"),
    "html, named": lambda key: key.replace("/", "&sol;").replace("+", "&plus;").replace("=", "&equals;"),
    "html in json": lambda key: each(key, "\\u0026#{code};"),
    "quoted-printable": lambda key: each(key, "={code:02X}"),
    "quoted-printable, wrapped": lambda key: f"{key[:11]}=\r\n{key[11:]}",
    "base64": b64,
    "base64, after one": lambda key: b64("u" + key),
    "base64, after two": lambda key: b64("u:" + key),
    "base64, bearer": lambda key: b64(f"Bearer {key}"),
    "base64, inside": lambda key: b64(f'{{"user": "me", "token": "{key}", "more": true}}'),
    "base64url": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode().rstrip("="),
    "base64, wrapped": lambda key: "\r\n".join(re.findall(".{1,20}", b64(f"Bearer {key}"))),
    "base64, utf-16": lambda key: b64(key.encode("utf-16")),
    "base64 twice": lambda key: b64(b64(key)),
    "base64 of hex": lambda key: b64(key.encode().hex()),
    "base64 of percent": lambda key: b64(quote(key, safe="")),
    "base64 in percent": lambda key: quote(b64(key), safe=""),
    "base64 in json": lambda key: each(b64(key), "\\u{code:04x}"),
    "base32": lambda key: base64.b32encode(key.encode()).decode(),
    "base32, inside": lambda key: base64.b32encode(f"abc{key}d".encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "hex, capitals": lambda key: key.encode().hex().upper(),
    "hex, colons": lambda key: key.encode().hex(":"),
    "hex of base64": lambda key: b64(key).encode().hex(),
    "bytes": lambda key: str(list(key.encode())),
    "spaced": " ".join,
    "lines": "\n".join,
    "one line break": lambda key: f"{key[:13]}\n{key[13:]}",
    "json line break": lambda key: f"{key[:13]}\\n{key[13:]}",
    "zero width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "word joiner, escaped": "\\u2060".join,
    "json, mixed case": lambda key: "".join(f"\\u{ord(sign):04{'xX'[place % 2]}}" for place, sign in enumerate(key)),
    "braces": lambda key: each(key, "\\u{{{code:x}}}"),
    "long": lambda key: each(key, "\\U{code:08x}"),
    "octal": lambda key: each(key, "\\{code:03o}"),
    "percent u": lambda key: each(key, "%u{code:04x}"),
    "bytes, prefixed": lambda key: ", ".join(f"0x{code:02x}" for code in key.encode()),
    "bytes, blanks": lambda key: " ".join(map(str, key.encode())),
    "colours": "\x1b[0m".join,
    "a title": lambda key: f"{key[:9]}\x1b]0;x\x07{key[9:]}",
    "control": "\x02".join,
    "directions": "\u202e\u2066".join,
    "emphasis": lambda key: f"{key[:9]}**{key[9:17]}**{key[17:]}",
}  # fmt: skip


# ---------------------------------------------------------------- an independent decoder


def decoded(text: str, depth: int = 3) -> Iterator[str]:
    """The text, and everything that the standard library's decoders make of it, up to three times."""
    yield text
    if not depth:
        return
    for other in {
        unquote(text),
        html.unescape(text),
        re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text),
        re.sub(r"\\+x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text),
        re.sub(r"\\+u\{([0-9a-fA-F]+)\}", lambda found: chr(int(found[1], 16)), text),
        re.sub(r"\\+U0000([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text),
        re.sub(r"\\+([01][0-7]{2})", lambda found: chr(int(found[1], 8)), text),
        re.sub(r"%u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text),
        re.sub(r"\x1b\[[0-9;]*m|\x1b\].*?\x07", "", text),
        text.replace("\\/", "/"),
        text.replace("\\n", "\n"),
        re.sub("=\r?\n", "", text),
        quopri.decodestring(text.encode("utf-8", "replace")).decode("utf-8", "replace"),
        re.sub("[\\s\\x00-\\x08\u200b\u00ad\u2060\u202e\u2066*]", "", text),
        *unpacked(text),
    } - {text}:
        yield from decoded(other, depth - 1)


def unpacked(text: str) -> Iterator[str]:
    """What long runs in base64, base32 or hex say, at every place where they may begin, and lists of byte values."""
    for run in re.findall(r"[A-Za-z0-9+/_-]{12,}", text):
        for start in range(4):
            cut = run[start:].replace("-", "+").replace("_", "/") + "AAA"
            yield base64.b64decode(cut[: len(cut) // 4 * 4]).replace(b"\0", b"").decode("latin-1")
    for run in re.findall(r"[A-Z2-7]{12,}", text):
        for start in range(8):
            cut = run[start:] + "A" * 7
            yield base64.b32decode(cut[: len(cut) // 8 * 8]).decode("latin-1")
    for run in re.findall(r"(?:[0-9a-fA-F]{2}[ :-]?){12,}", text):
        for start in range(2):
            cut = re.sub("[ :-]", "", run)[start:]
            yield binascii.unhexlify(cut[: len(cut) // 2 * 2]).decode("latin-1")
    for run in re.findall(r"(?:\d{1,3}(?:, ?| )){7,}\d{1,3}", text):
        yield "".join(chr(int(number)) for number in re.findall(r"\d+", run))
    for run in re.findall(r"(?:0x[0-9a-fA-F]{2},? ?){7,}", text):
        yield "".join(chr(int(number, 16)) for number in re.findall(r"0x(..)", run))


def spells(text: str, key: str) -> bool:
    return any(key.lower() in each.lower() for each in decoded(text))


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, and the strings of each list joined."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(strings, [*value, *value.values()]))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(strings, value))
