"""The cleaner of keys, against decoders of the standard library."""

from __future__ import annotations

import asyncio
import json
import re
import string
from collections.abc import Callable
from itertools import chain
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from key_forms import FORMS, b64, spells, strings
from raw_server import Says, raw_server

from longform.llm.ask.types import Endpoint
from longform.llm.send.bodies import read_completion
from longform.llm.send.faults import fault_of
from longform.llm.send.secrets import MARK, Cleaner
from longform.llm.send.wire import Wire

KEY = "sk-canary/4f6b+9d2e=0a1c-8e7d5f3b"
OTHER = "gsk_Zx81kQmW0r7YtLpA2cVbN5sDfGhJ9eUi3oR4T6aKzXw"
CLEANER = Cleaner(KEY, OTHER, None, "none")


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
        '{{"choices": [{{"message": {{"content": "{}"}}}}]}}'.format(
            re.sub(r"[\x00-\x1f]", lambda sign: f"\\u{ord(sign[0]):04x}", text)
        ),
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


# ---------------------------------------------------------------- where servers put it

ERRORS: dict[str, Callable[[str], Any]] = {
    "message": lambda said: {"error": {"message": said, "type": "invalid_request_error", "code": 401}},
    "code": lambda said: {"error": {"message": "no", "code": said}},
    "type": lambda said: {"error": {"message": "no", "type": said}},
    "parameter": lambda said: {"error": {"message": "no", "param": said}},
    "text": lambda said: {"error": said},
    "detail": lambda said: {"detail": said},
    "details": lambda said: {"detail": [{"type": "bad", "loc": ["body", said], "msg": said}]},
    "raw": lambda said: {"error": {"message": "no", "metadata": {"raw": said}}},
    "inner": lambda said: {"error": {"message": "no", "innererror": {"code": said}}},
    "object": lambda said: {"error": {"message": {"said": [said]}}},
    "list": lambda said: [{"error": {"message": said}}],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_no_message_of_a_fault_has_the_key(form: str, status: int) -> None:
    said = f"Bad: {FORMS[form](KEY)}."
    bodies = [json.dumps(make(said)).encode() for make in ERRORS.values()]
    for body in (*bodies, said.encode(), f"<html><title>{said}</title>".encode(), b"data: " + bodies[0]):
        assert not spells(fault_of(status, body, CLEANER).message, KEY)


def test_a_message_is_cleaned_before_it_is_cut() -> None:
    for length in range(370, 400):
        body = json.dumps({"error": {"message": f"{'x' * length} {KEY}"}}).encode()
        assert "sk-canary" not in fault_of(400, body, CLEANER).message


def test_no_outcome_has_the_key() -> None:
    asyncio.run(_no_outcome_has_the_key())


def answer_with(said: str) -> Says:
    """A reply with this text in its body and its headers."""
    plain = said.encode("ascii", "replace").decode().replace("\r", "").replace("\n", "")
    body = json.dumps({"id": said}).encode()
    head = f"HTTP/1.1 200 OK\r\nx-request-id: {plain}\r\nset-cookie: {plain}\r\ncontent-length: {len(body)}\r\n"
    return Says(f"{head}connection: close\r\n\r\n".encode() + body)


async def _no_outcome_has_the_key() -> None:
    answers = [answer_with(form(KEY)) for form in FORMS.values() for _ in range(2)]
    with raw_server(*answers) as port:
        wire = Wire(Endpoint(name="one", model="m", base_url=f"http://127.0.0.1:{port}/v1"), KEY, None)
        for _ in FORMS:
            for outcome in (await wire.call("GET", "/files/x"), await wire.post("/chat/completions", "{}")):
                assert not spells(json.loads(outcome.body)["id"], KEY)
                assert not spells(outcome.request_id or "", KEY)
        await wire.close()
