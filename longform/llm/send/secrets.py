"""Keys in what servers send and in what is shown: found in any usual encoding, and replaced by "[key]".

A key is a run of characters that may be spelled in four ways, also one inside the other:

    as it is         also in capitals or small letters, or its first or last half alone
    sign by sign     JSON \\u0073, \\u{73}, \\x73, \\163, %73, %u0073, =73, &#115; &#x73;, a backslash before a slash:
                     any of its characters
    as a whole       base64 (both alphabets, anywhere in a longer text), base32, hex, a list of byte values
    apart            white space, zero-width and control characters, what steers a terminal, soft hyphens between its
                     characters, or over the tokens and parts of a reply

Nearly all texts hold no key, so these are told apart first: a text is clean unless it has eight characters of a
spelling in a row, or an escape of one of the key's characters. pydantic's regular expressions, which are Rust's, look
for all of these at once, with SIMD instructions: 3 us a kilobyte at most, where Python's take a hundred times that.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from longform.settings import secrets

SHORTEST_KEY = 8
MARK = "[key]"
PARTIAL_FROM = 16  # keys of so many characters are also found by halves, and in other case
BLOCK = 8
DEPTH = 4

_APART = (
    "\x00-\x20\x7f-\xa0\\s\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f*`"
)
_STEERS = r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,80}(?:\x07|\x1b\\)"  # a terminal
_JUNK = re.compile(f"(?:{_STEERS}|[{_APART}])+")
_HEX = "[0-9a-fA-F]"
_ESCAPES = (
    rf"\\+(?:u(?P<u>{_HEX}{{4}})|x(?P<x>{_HEX}{{2}})|u\{{0*(?P<j>{_HEX}{{2,4}})\}}|U0000(?P<l>{_HEX}{{4}})"
    rf"|(?P<o>[01][0-7]{{2}})|(?P<c>[nrtbf/\"']))|%(?:25)*(?:(?P<p>[0-7]{_HEX})|u(?P<v>{_HEX}{{4}}))"
    rf"|&(?:amp;)*(?P<e>#\d{{2,7}};?|#[xX]{_HEX}{{2,8}};?|[A-Za-z]{{2,8}};)"
)
_ESCAPE = re.compile(_ESCAPES)
_PRINTABLE = re.compile(rf"{_ESCAPES}|=(?:3[dD])*(?P<q>[2-7]{_HEX})|=(?P<w>\r?\n)")
_SPLIT = r'"token|"bytes|"content":\[|"content": \['  # where a reply has its text in pieces

Span = tuple[int, int]
Found = Callable[[bytes | str], bool]


class Cleaner:
    """Replaces keys by "[key]". Keys of fewer than SHORTEST_KEY characters are kept: local servers take ordinary words
    ("none", "EMPTY") as keys. What holds no key is returned as the same object.
    """

    def __init__(self, *keys: str | None) -> None:
        known = [key for key in dict.fromkeys(keys) if key and len(key) >= SHORTEST_KEY]
        self._spellings = [spelling for key in known for spelling in _spellings(key)]
        self._spelled = [each for key in known for each in _literals(key)]
        escapes = [_finder(each) for each in _escapes("".join(known))]
        self._filters = self._spelled + escapes
        self._in_json = self._spelled + escapes[:-2]
        self._pieces = [_finder([_SPLIT])] if known else []

    def text(self, text: str) -> str:
        """The text without keys, in whatever encoding they are spelled."""
        return self._apart([text])[0] if self._suspicious(text) else text

    def header(self, value: str | None) -> str | None:
        """The value of a header without keys; None for None."""
        return None if value is None else self.text(value)

    def sent(self, sent: str) -> str:
        """The body of a request in canonical form, without keys and in canonical form."""
        plain = sent.isascii() and "\x7f" not in sent  # then JSON has what is not printed in escapes only
        if not _any(self._in_json, sent) if plain else not self._suspicious(sent):
            return sent
        content = sent.encode()
        clean = self.body(content)
        return sent if clean is content else clean.decode()

    def body(self, content: bytes) -> bytes:
        """A reply's body without keys, also where the decoded strings of its JSON hold them, or its tokens or parts of
        content when joined. JSON stays JSON (then in ASCII), also line by line; other content stays text.
        """
        text = content if content.isascii() else content.decode("utf-8", "replace")
        if not _any(self._filters, text) and not _any(self._pieces, text):
            return content
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            return self._lines(content)
        try:
            clean = self._value(document)
            if clean == document and not self._spans(content.decode("utf-8", "replace")):
                return content
            return json.dumps(clean, separators=(",", ":")).encode()
        except RecursionError:
            return json.dumps(MARK).encode()

    def _suspicious(self, text: str) -> bool:
        """Whether the text may hold a key; False is sure."""
        return _any(self._filters, text if text.isascii() else text.encode("utf-8", "replace"))

    def _lines(self, content: bytes) -> bytes:
        """Content that is no JSON document without keys: line by line, if its lines are, else as text."""
        if b"\n" in content.strip():
            return b"\n".join(self.body(line) for line in content.split(b"\n"))
        text = content.decode("utf-8", "surrogateescape")
        clean = self._apart([text])[0]
        return content if clean is text else clean.encode("utf-8", "surrogateescape")

    def _value(self, value: Any) -> Any:
        """A JSON value whose strings hold no key, alone or joined with their neighbours in a list."""
        if isinstance(value, str):
            return value if len(value) < SHORTEST_KEY else self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self._value(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each) for each in self._joined(list(value))]
        return value

    def _joined(self, values: list[Any]) -> list[Any]:
        """The values of a list without keys that only show once its strings, its numbers, or fields of the same name
        of its objects are joined.
        """
        if all(isinstance(each, str) for each in values):
            return self._apart(values) if len(values) > 1 else values
        if _are_bytes(values):
            return [] if self._spans(_latin(values)) else values
        if not all(isinstance(each, dict) for each in values):
            return values
        for name in dict.fromkeys(name for each in values for name in each):
            column = [each.get(name) for each in values]
            for place, clean in enumerate(self._column(column)):
                if clean is not column[place]:
                    values[place] = {**values[place], name: clean}
                    if name == "token" and "bytes" in values[place]:
                        values[place]["bytes"] = list(clean.encode("utf-8", "replace"))
        return values

    def _column(self, column: list[Any]) -> list[Any]:
        """The fields of one name of the objects in a list, without keys that show once they are joined: strings, byte
        values of tokens, or the alternatives of the same rank at each token.
        """
        if any(isinstance(each, str) for each in column):
            strings = [each if isinstance(each, str) else "" for each in column]
            return [new if isinstance(old, str) else old for old, new in zip(column, self._apart(strings), strict=True)]
        lists = [each if isinstance(each, list) else [] for each in column]
        if all(map(_are_bytes, lists)):
            cut = self._apart([_latin(each) for each in lists])
            return [
                old if new == _latin(ints) else list(new.encode("latin-1"))
                for old, ints, new in zip(column, lists, cut, strict=True)
            ]
        if any(each and isinstance(each[0], dict) for each in lists):
            return self._ranks(column, lists)
        return column

    def _ranks(self, column: list[Any], lists: list[list[Any]]) -> list[Any]:
        """The lists of objects `lists`, of which the first objects are joined, the second ones, and so on."""
        lists = [list(each) for each in lists]
        changed = set()
        for rank in range(max(map(len, lists))):
            places = [place for place, each in enumerate(lists) if len(each) > rank and isinstance(each[rank], dict)]
            objects = [lists[place][rank] for place in places]
            for place, old, new in zip(places, objects, self._joined(list(objects)), strict=True):
                if new is not old:
                    lists[place][rank] = new
                    changed.add(place)
        return [lists[place] if place in changed else old for place, old in enumerate(column)]

    def _apart(self, texts: list[str]) -> list[str]:
        """The texts without keys that are in their concatenation; each that stays is the same object."""
        while spans := self._spans("".join(texts)):  # each round makes the texts shorter
            texts = _cut_apart(texts, spans)
        return texts

    def _spans(self, text: str) -> list[Span]:
        """Where the text spells keys: (start, end), in order, without overlaps. Only those of the least decoding that
        shows any.
        """
        for view in _views(text):
            if _any(self._spelled, view.text.encode("utf-8", "replace")):
                found = view.spans(self._spellings)
                if found:
                    return _merged(found)
        return []


def cleaner_of(*keys: str | None) -> Cleaner:
    """A cleaner of these keys and of all secrets that this process has read from its environment so far: a gateway may
    repeat the key of another endpoint.
    """
    return _cleaner(tuple(dict.fromkeys([*filter(None, keys), *secrets()])))


def without_secrets(text: str) -> str:
    """The text, which is to be shown, without any secret that this process has read from its environment."""
    return cleaner_of().text(text) if secrets() else text


def filter_record(record: logging.LogRecord) -> bool:
    """True, after taking the secrets out of the record of a log: a filter for loggers of libraries, which write status
    lines and addresses.
    """
    text = record.getMessage()
    clean = without_secrets(text)
    if clean is not text:
        record.msg, record.args = clean, ()
    return True


@lru_cache(maxsize=16)
def _cleaner(keys: tuple[str, ...]) -> Cleaner:
    """A cleaner of the keys."""
    return Cleaner(*keys)


class _Spelling(NamedTuple):
    """A text that spells a key. Runs of `least` of its characters are found by their `blocks`, (offset, BLOCK
    characters).
    """

    text: str
    least: int
    blocks: list[tuple[int, str]]


class _View:
    """A text, or what becomes of the view `parent` where `edit` replaces each match of the pattern."""

    def __init__(self, text: str, parent: _View | None = None, edits: list[tuple[int, int, str]] | None = None) -> None:
        self.text, self._parent, self._edits = text, parent, edits or []

    def edited(self, pattern: re.Pattern[str], edit: Callable[[re.Match[str]], str]) -> _View | None:
        """The view after this edit; None where nothing changes."""
        edits = [(*match.span(), new) for match in pattern.finditer(self.text) if (new := edit(match)) != match[0]]
        return _View(_edited(self.text, edits), self, edits) if edits else None

    def spans(self, spellings: Iterable[_Spelling]) -> list[Span]:
        """Where in the first text the spellings are."""
        found = [span for spelling in spellings for span in _runs(self.text, spelling)]
        if not found:
            return []
        starts, ends = self.places()
        return [(starts[start], ends[end - 1]) for start, end in found]

    def places(self) -> tuple[Sequence[int], Sequence[int]]:
        """Where each character begins and ends in the first text."""
        if self._parent is None:
            return range(len(self.text)), range(1, len(self.text) + 1)
        before, after = self._parent.places()
        starts, ends, at = list[int](), list[int](), 0
        for begin, end, new in self._edits:
            starts += [*before[at:begin], *[before[begin]] * len(new)]
            ends += [*after[at:begin], *[after[end - 1]] * len(new)]
            at = end
        return [*starts, *before[at:]], [*ends, *after[at:]]


def _views(text: str) -> Iterator[_View]:
    """The text, and what it becomes by decoding its escapes, up to DEPTH times, each also without what may stand
    between characters.
    """
    for pattern in (_ESCAPE, _PRINTABLE):
        view: _View | None = _View(text)
        for depth in range(DEPTH + 1):
            if view is None:
                break
            if depth or pattern is _ESCAPE:
                yield view
                bare = view.edited(_JUNK, lambda _: "")
                if bare:
                    yield bare
            view = view.edited(pattern, _decoded)


def _decoded(escape: re.Match[str]) -> str:
    """The text that an escape means; the escape itself where it means none."""
    kind, value = escape.lastgroup, escape[escape.lastgroup or 0]
    if kind == "c":
        return {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(value, value)
    if kind == "e":
        return html.unescape(f"&{value}")
    return "" if kind == "w" else chr(int(value, 8 if kind == "o" else 16))


def _runs(text: str, spelling: _Spelling) -> Iterator[Span]:
    """Where at least `least` characters of the spelling are in a row."""
    whole = spelling.text
    for offset, block in spelling.blocks:
        at = text.find(block)
        while at >= 0:
            start, end = at, at + len(block)
            before, after = offset, offset + len(block)
            while start and before and text[start - 1] == whole[before - 1]:
                start, before = start - 1, before - 1
            while end < len(text) and after < len(whole) and text[end] == whole[after]:
                end, after = end + 1, after + 1
            if end - start >= spelling.least:
                yield start, end
            at = text.find(block, end)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; those that overlap or touch are one."""
    merged: list[Span] = []
    for start, end in sorted(set(spans)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cut_apart(texts: list[str], spans: list[Span]) -> list[str]:
    """The texts without the spans of their concatenation, with MARK where a span begins."""
    begins, at = [], 0
    for text in texts:
        begins.append(at)
        at += len(text)
    edits: dict[int, list[tuple[int, int, str]]] = {}
    for start, end in spans:
        place, mark = bisect_right(begins, start) - 1, MARK
        while place < len(texts) and begins[place] < end:
            local = max(0, start - begins[place]), min(len(texts[place]), end - begins[place])
            if local[0] < local[1]:
                edits.setdefault(place, []).append((*local, mark))
                mark = ""
            place += 1
    return [_edited(text, edits[place]) if place in edits else text for place, text in enumerate(texts)]


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """The text with the range of each edit (start, end, new text) replaced; the edits are in order."""
    pieces, at = [], 0
    for start, end, new in edits:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def _are_bytes(values: list[Any]) -> bool:
    """Whether all values are whole numbers from 0 to 255; True for none."""
    return all(type(each) is int and 0 <= each < 256 for each in values)


def _latin(values: list[int]) -> str:
    """A character for each byte value."""
    return bytes(values).decode("latin-1")


# ---------------------------------------------------------------- how a key may be spelled


def _spellings(key: str) -> list[_Spelling]:
    """Every spelling of the key that is not sign by sign."""
    whole = len(key)
    half = min(PARTIAL_FROM, max(SHORTEST_KEY, -(-whole // 2))) if whole >= PARTIAL_FROM else whole
    cases = [key, key.upper(), key.lower()] if whole >= PARTIAL_FROM else [key]
    texts = [*cases, key.replace("/", "\\/"), *_once(key), *_twice(key), *_listed(key)]
    return [_Spelling(text, max(BLOCK, len(text) * half // whole), _blocks(text)) for text in dict.fromkeys(texts)]


def _once(key: str) -> list[str]:
    """The key in base64, base32 and hex, also after it was percent-encoded, or in UTF-16."""
    forms = dict.fromkeys([key.encode(), quote(key, safe="").encode(), key.replace("/", "\\/").encode()])
    wide = [*_base64(key.encode("utf-16-le")), key.encode("utf-16-le").hex()]
    return [text for data in forms for text in (*_base64(data), *_base32(data), *_hex(data))] + wide


def _twice(key: str) -> list[str]:
    """The key in base64 or hex, and that in base64 or hex again."""
    inner = [*_base64(key.encode()), *_hex(key.encode())]
    return [text for each in inner for text in (*_base64(each.encode()), *_hex(each.encode()))]


def _listed(key: str) -> list[str]:
    """The key as a list of byte values, and its hex digits in pairs."""
    data = key.encode()
    decimal = [sign.join(map(str, data)) for sign in (",", ", ", " ", ";")]
    pairs = [digits[at : at + 2] for digits in _hex(data) for at in range(0, len(digits), 2)]
    prefixed = [
        f"0x{f'{sign}0x'.join(own)}" for own in (pairs[: len(data)], pairs[len(data) :]) for sign in (" ", ", ")
    ]
    return [*decimal, *prefixed, *(data.hex(sign) for sign in " :-,")]


def _base64(data: bytes) -> list[str]:
    """The characters that the data gives in base64, in both alphabets, by the place of its first byte in a group of
    three; those at its ends that depend on its neighbours are left out.
    """
    standard = [_within(base64.b64encode, data, shift, 6) for shift in range(3)]
    return list(dict.fromkeys([*standard, *(text.translate(str.maketrans("+/", "-_")) for text in standard)]))


def _base32(data: bytes) -> list[str]:
    """As `_base64`, in base32: five texts."""
    return [_within(base64.b32encode, data, shift, 5) for shift in range(5)]


def _hex(data: bytes) -> list[str]:
    """The data in hex, in small letters and in capitals."""
    return [data.hex(), data.hex().upper()]


def _within(encode: Callable[[bytes], bytes], data: bytes, shift: int, bits: int) -> str:
    """The characters of the encoded data that depend on nothing else, if `shift` bytes come before it; a character has
    so many bits.
    """
    text = encode(b"\0" * shift + data).decode()
    return text[math.ceil(shift * 8 / bits) : (shift + len(data)) * 8 // bits]


def _blocks(text: str) -> list[tuple[int, str]]:
    """(offset, BLOCK characters) of pieces of the text: the first, the last and those between, at most 18."""
    last = len(text) - BLOCK
    step = BLOCK * max(1, -(-last // (16 * BLOCK)))
    offsets = dict.fromkeys([*range(0, last, step), min(BLOCK, last), last])
    return [(offset, text[offset : offset + BLOCK]) for offset in sorted(offsets)]


# ---------------------------------------------------------------- what tells that there may be a key


def _literals(key: str) -> list[Found]:
    """Checks of a text of which one at least is true where the text spells the key other than sign by sign."""
    cases = [key.upper(), key.lower()] if len(key) >= PARTIAL_FROM else []
    spaced = [sign.join(key[at : at + 5]) for sign in (" ", "\\n", "\n") for at in (0, len(key) - 5)]
    plain = [text for _, text in _spread(key, 7)] + [text for case in cases for _, text in _spread(case, 2)]
    once = [text for each in _once(key) for _, text in _spread(each, 2)]  # so that a line may break in one
    others = [text for each in (*_listed(key), *_twice(key)) for _, text in _spread(each, 1)]
    literals = list(dict.fromkeys([*plain, *spaced, *once, *others]))
    return [_finder(map(re.escape, literals[at : at + 48])) for at in range(0, len(literals), 48)]


def _spread(text: str, most: int) -> list[tuple[int, str]]:
    """At most so many of the text's blocks, the first and the last among them where there is room; of one or two,
    those that have letters and digits only, if there are any.
    """
    blocks = _blocks(text)
    if most <= 2:
        blocks = [each for each in blocks if each[1].isalnum()] or blocks
    if most == 1 or len(blocks) <= most:
        return blocks[len(blocks) // 2 :][:1] if most == 1 else blocks
    return [blocks[0], *(blocks[place * (len(blocks) - 1) // (most - 1)] for place in range(1, most))]


def _escapes(characters: str) -> list[list[str]]:
    """Patterns of escapes that may stand for one of the characters, or hide such an escape, and last two lists of what
    may stand between them unescaped. Those of one list begin alike, which is what makes it quick.
    """
    if not characters:
        return []
    codes = sorted(set(characters.encode()))
    digits = "|".join(_any_case(f"{code:02x}") for code in codes)
    numbers = "|".join(str(code) for code in codes)
    codes_apart = r"20[026][0-9a-fA-F]|[fF][eE][fF][fF]|00[aA][dD]|00[0189][0-9a-fA-F]|[dD][bB]40|007[fF]"
    hidden = rf"\\u00(?:25|5[cC]|26|3[dD])(?:\\|u00|x|[2-7]|#|amp)|\\+u(?:{codes_apart})"
    octals = "|".join(f"{code:03o}" for code in codes)
    signs = [rf"\\(?:u00|x|U000000)(?:{digits})|\\u\{{0*(?:{digits})\}}|\\(?:{octals})", hidden]
    percent = [rf"%(?:25)*(?:u00)?(?:{digits})|%5[cC](?:u00|x)|%26(?:#|%23|amp)|%3[dD][2-7]"]
    entities = [
        rf"&(?:amp;)*#0*(?:(?:{numbers}|92|37|38|61|173|8203)\b|[xX]0*(?:{digits}|5[cC]|25|26|3[dD]|[aA][dD]|200[bB]))"
    ]
    shown_by_none = (0xAD, 0x9B, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF)
    apart = ["|".join(map(chr, (0, *shown_by_none)))]
    steers = ["[\x01-\x08\x0e-\x1f\x7f\U000e0000-\U000e007f]"]
    return [signs, percent, entities, [rf"=(?:3[dD])*(?:{digits})|=\r?\n"], apart, steers]


def _any_case(digits: str) -> str:
    """A pattern of hex digits in any case."""
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _any(finders: Iterable[Found], text: bytes | str) -> bool:
    """Whether one of the finders finds something in the text, or in these bytes in UTF-8."""
    for found in finders:  # noqa: SIM110 - any() takes longer
        if found(text):
            return True
    return False


def _finder(patterns: Iterable[str]) -> Found:
    """Whether a text, or bytes in UTF-8, has a match of one of the patterns."""
    from pydantic_core import SchemaValidator, core_schema

    schema = core_schema.str_schema(pattern="|".join(patterns), regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


NO_KEYS = Cleaner()
