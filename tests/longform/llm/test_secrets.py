"""The cleaner of keys, against decoders of the standard library."""

from __future__ import annotations

import base64
import binascii
import html
import json
import quopri
import re
import string
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longform.llm.send.bodies import read_completion
from longform.llm.send.secrets import MARK, Cleaner

KEY = "sk-canary/4f6b+9d2e=0a1c-8e7d5f3b"
OTHER = "gsk_Zx81kQmW0r7YtLpA2cVbN5sDfGhJ9eUi3oR4T6aKzXw"
CLEANER = Cleaner(KEY, OTHER, None, "none")


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
        text.replace("\\/", "/"),
        text.replace("\\n", "\n"),
        re.sub("=\r?\n", "", text),
        quopri.decodestring(text.encode("utf-8", "replace")).decode("utf-8", "replace"),
        re.sub("[\\s\\x00\u200b\u00ad\u2060*]", "", text),
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
    for run in re.findall(r"(?:\d{1,3}, ?){7,}\d{1,3}", text):
        yield "".join(chr(int(number)) for number in run.split(","))


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


@pytest.mark.parametrize("form", FORMS)
def test_the_decoder_of_this_test_finds_every_form(form: str) -> None:
    assert spells(f"before {FORMS[form](KEY)} after", KEY)


# ---------------------------------------------------------------- forms


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", [KEY, OTHER])
def test_no_form_of_a_key_outlives_cleaning(form: str, key: str) -> None:
    text = f"before {FORMS[form](key)} after"
    cleaned = CLEANER.text(text)
    assert MARK in cleaned
    assert not spells(cleaned, key)
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert not spells(CLEANER.header(FORMS[form](key)) or "", key)
    for body in (
        json.dumps({"choices": [{"message": {"content": text}}], "model": FORMS[form](key)}),
        json.dumps({FORMS[form](key): 1, "é": json.dumps({"error": {"message": text}})}, ensure_ascii=False),
        '{{"choices": [{{"message": {{"content": "{}"}}}}]}}'.format(text.replace("\r", "\\r").replace("\n", "\\n")),
    ):
        clean = CLEANER.body(body.encode())
        assert json.loads(clean) is not None
        assert not spells(clean.decode(), key)
        assert not any(spells(string, key) for string in strings(json.loads(clean)))


KEYS = st.text(string.ascii_letters + string.digits + "-_./+", min_size=16, max_size=90).filter(
    lambda key: len(set(key)) > 9
)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="\\%&="), max_size=30)


@settings(max_examples=150, deadline=None)
@given(KEYS, st.sampled_from(sorted(FORMS)), AROUND, AROUND)
def test_no_random_key_outlives_cleaning(key: str, form: str, before: str, after: str) -> None:
    cleaner = Cleaner("another-key-of-this-build", key)
    text = f"{before} {FORMS[form](key)} {after}"
    assert not spells(cleaner.text(text), key)
    body = cleaner.body(json.dumps({"a": [text, {"b": text}]}).encode())
    assert not any(spells(string, key) for string in strings(json.loads(body)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(), JSON), st.booleans(), st.sampled_from([None, 2]))
@example({"t": "100%25 <b>&#39; =3D \\u0041 \\x41 sk-canary \u200b", "content": [{"text": "sk-"}]}, True, None)
def test_json_without_a_key_stays_as_it_is(document: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
    assert CLEANER.body(body) is body
    text = body.decode()
    assert CLEANER.text(text) is text
    assert CLEANER.sent(text) is text


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
@example(b"\xff\xfe" + KEY.encode())
@example(KEY.encode("utf-16"))
@example(b'{"a": ' * 5_000 + KEY.encode())
@example(b"[" * 900 + json.dumps(KEY).encode() + b"]" * 900)
@example(b'{"a": 1' + b"0" * 5_000 + b', "b": "' + KEY.encode() + b'"}')
def test_any_bytes_are_cleaned(content: bytes) -> None:
    body = CLEANER.body(content)
    assert KEY.encode() not in body.replace(b"\0", b"")
    if body is content:
        assert KEY not in content.decode("utf-8", "replace")


# ---------------------------------------------------------------- what stays, what goes


def test_what_is_around_a_key_stays() -> None:
    assert CLEANER.text(f"Bearer {KEY}, {OTHER}!") == "Bearer [key], [key]!"
    assert CLEANER.text(f"https://x/?key={quote(KEY, safe='')}&b=%20c") == "https://x/?key=[key]&b=%20c"
    basic = CLEANER.text(b64(f"user:{KEY}"))
    assert basic.startswith(b64("user"[:3]))
    document = {"a": f"ü {KEY}", "n": [1.5, 10**30, None], "z": {"b": 1, "a": 2}}
    assert json.loads(CLEANER.body(json.dumps(document).encode())) == {**document, "a": "ü [key]"}


def test_half_a_key_is_found_and_a_masked_one_stays() -> None:
    assert CLEANER.text(f"{KEY[:17]}…") == "[key]…"
    assert CLEANER.text(f"…{KEY[-17:]}") == "…[key]"
    for masked in (f"{KEY[:7]}…{KEY[-4:]}", "sk-canary", f"{KEY[:8]}*****"):
        assert CLEANER.text(masked) is masked


@pytest.mark.parametrize("word", ["none", "EMPTY", "ollama", "", "1234567"])
def test_a_word_that_a_local_server_takes_as_key_stays(word: str) -> None:
    cleaner = Cleaner(word)
    text = f"There is none of it: {word}, {word.encode().hex()}."
    assert cleaner.text(text) is text


def test_a_short_key_is_found_as_it_is_and_not_in_words() -> None:
    cleaner = Cleaner("password")
    assert cleaner.text("password, PASSWORD, Password, passwor, " + b64("a:password")).startswith(
        "[key], PASSWORD, Password, passwor, "
    )
    assert not spells(cleaner.text(b64("a:password")), "password")


def test_a_request_stays_canonical() -> None:
    sent = json.dumps({"messages": [{"role": "user", "content": f"é {KEY}"}], "t": 0.30000000000000004}).replace(
        " ", ""
    )
    assert CLEANER.sent(sent) == sent.replace(KEY, "[key]")


# ---------------------------------------------------------------- pieces


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tokens_that_spell_a_key_are_dropped(size: int) -> None:
    tokens = pieces(f"My key is {KEY}.", size)
    others = pieces(f"No, it is  {OTHER}", size)
    content = [
        {
            "token": token,
            "logprob": -0.5,
            "bytes": list(token.encode()),
            "top_logprobs": [
                {"token": token, "logprob": -0.5, "bytes": list(token.encode())},
                {"token": other, "logprob": -1.5, "bytes": list(other.encode())},
            ],
        }
        for token, other in zip(tokens, others, strict=False)
    ]
    message = {"role": "assistant", "content": "My key is secret."}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": content}}
    body = CLEANER.body(json.dumps({"model": "m", "choices": [choice]}).encode())
    completion = read_completion(body)
    assert completion is not None
    entries = completion.logprobs
    assert [entry["logprob"] for entry in entries] == [-0.5] * len(content)
    for column in (entries, [entry["top_logprobs"][0] for entry in entries]):
        assert "".join(entry["token"] for entry in column) == "My key is [key]."
        assert bytes(chain.from_iterable(entry["bytes"] for entry in column)) == b"My key is [key]."
    second = [entry["top_logprobs"][1] for entry in entries]
    assert OTHER[:20] not in "".join(entry["token"] for entry in second)
    assert OTHER[:20].encode() not in bytes(chain.from_iterable(entry["bytes"] for entry in second))


def test_bytes_alone_that_spell_a_key_are_dropped() -> None:
    entries = [{"token": "?", "bytes": list(piece.encode())} for piece in pieces(KEY, 3)]
    body = json.loads(CLEANER.body(json.dumps({"choices": [{"logprobs": {"content": entries}}]}).encode()))
    found = body["choices"][0]["logprobs"]["content"]
    assert bytes(chain.from_iterable(each["bytes"] for each in found)) == b"[key]"
    assert json.loads(CLEANER.body(json.dumps({"bytes": list(KEY.encode())}).encode())) == {"bytes": []}


def test_parts_of_content_that_join_to_a_key_are_cut() -> None:
    parts = [{"type": "text", "text": f"Say {KEY[:12]}"}, {"type": "text", "text": f"{KEY[12:]} now"}]
    body = CLEANER.body(json.dumps({"choices": [{"message": {"content": parts}}]}).encode())
    completion = read_completion(body)
    assert completion is not None
    assert completion.text == "Say [key] now"
    assert json.loads(CLEANER.body(json.dumps({"tokens": pieces(KEY, 4)}).encode()))["tokens"][0] == "[key]"


def test_a_name_that_comes_twice_hides_nothing() -> None:
    body = CLEANER.body(b'{"model": "%s", "model": "m"}' % KEY.encode())
    assert json.loads(body) == {"model": "m"}
    assert KEY.encode() not in body


def test_lines_of_a_file_are_cleaned_one_by_one() -> None:
    lines = [json.dumps({"custom_id": str(number), "body": {"x": 1}}) for number in range(4)]
    lines[2] = json.dumps({"custom_id": "2", "body": {"x": FORMS["json"](KEY)}})
    content = "\n".join([*lines, ""]).encode()
    cleaned = CLEANER.body(content).decode().split("\n")
    assert [cleaned[place] for place in (0, 1, 3, 4)] == [lines[place] for place in (0, 1, 3)] + [""]
    assert json.loads(cleaned[2]) == {"custom_id": "2", "body": {"x": "[key]"}}
