"""What is said of every fault of a server: the endpoint, its address, the cause and the next step, in plain words."""

from __future__ import annotations

import gzip
import json
import re
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate
from ports import nobody
from raw_server import Says, Script, raw_server, read_request

from longform.errors import EndpointError, Incomplete, LongformError
from longform.llm.ask.types import Endpoint, Failure, Request
from longform.llm.models import Models

KEY = "sk-canary-0123456789abcdef"
AGAIN = "answers so far are stored; run the same command again."
LEFT_OUT = "; after 3 runs without an answer, this was number 1, it is left out"


def head(status: str, *lines: str) -> bytes:
    return ("\r\n".join([f"HTTP/1.1 {status}", *lines]) + "\r\n\r\n").encode()


def reply(status: str, body: bytes | dict[str, Any] = b"", *lines: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(status, f"Content-Length: {len(content)}", "Connection: close", *lines) + content


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


def page(title: str) -> bytes:
    return f"<html><head><title>{title}</title></head><body>nginx</body></html>".encode()


def completion(**choice: Any) -> bytes:
    whole = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"} | choice
    return json.dumps(
        {"model": "m", "choices": [whole], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    ).encode()


OK = completion()
AWAY = f"Location: https://me:{KEY}@elsewhere.example/v1/chat/completions?api_key={KEY}"
API = f"answers so far are stored; look whether base_url is that of a model's API, and {AGAIN.partition('; ')[2]}"
HTTPS = (
    f"answers so far are stored; if that port speaks TLS, begin base_url with https://, and {AGAIN.partition('; ')[2]}"
)
MUCH = (
    f"answers so far are stored; look why the server sends more than it was asked for, and {AGAIN.partition('; ')[2]}"
)
STORED = "Answers so far are stored."

# what the server says -> what is said of it, and what is to be done
STOPS: dict[str, tuple[bytes, str, str]] = {
    "401": (reply("401 x", error(f"Incorrect API key: {KEY}", "invalid_api_key")),
            "401 invalid_api_key Incorrect API key: [key]", "check the key MY_KEY."),
    "401 without a word": (reply("401 x"), "401 Unauthorized", "check the key MY_KEY."),
    "402": (reply("402 x"), "402 Payment Required", "add credit to its account, or raise the limit there."),
    "403": (reply("403 x", page("Access denied")), '403 Forbidden, a page titled "Access denied"',
            "check the key MY_KEY, and whether its account may use this model."),
    "404": (reply("404 x", {"detail": "Not Found"}), "404 Not Found", "check the model's name and base_url."),
    "405": (reply("405 x"), "405 Method Not Allowed", "check base_url."),
    "415": (reply("415 x"), "415 Unsupported Media Type", "check base_url."),
    "501": (reply("501 x"), "501 Not Implemented", "check base_url."),
    "quota": (reply("429 x", error("You exceeded your quota", "insufficient_quota")),
              "429 insufficient_quota You exceeded your quota", "add credit to its account, or raise the limit there."),
    "redirect": (reply("301 x", b"", AWAY), "301 redirects to https://elsewhere.example/v1/chat/completions",
                 "check base_url, and whether it begins with https://."),
    "http to nginx's https": (reply("400 x", page("400 The plain HTTP request was sent to HTTPS port")),
                              '400 Bad Request, a page titled "400 The plain HTTP request was sent to HTTPS port"',
                              "begin base_url with https://, as that port speaks TLS."),
    "http to Go's https": (reply("400 x", b"Client sent an HTTP request to an HTTPS server.\n"),
                           "400 Client sent an HTTP request to an HTTPS server.",
                           "begin base_url with https://, as that port speaks TLS."),
}  # fmt: skip
PASSES: dict[str, tuple[bytes | Script, str, str]] = {
    "408": (reply("408 x"), "408 Request Timeout", AGAIN),
    "409": (reply("409 x", error("conflict")), "409 conflict", AGAIN),
    "500": (reply("500 x"), "500 Internal Server Error", AGAIN),
    "502": (reply("502 x", page("502 Bad Gateway")), "502 Bad Gateway, a page", AGAIN),
    "503": (reply("503 x", b"<!DOCTYPE html><p>later"), "503 Service Unavailable, a page", AGAIN),
    "529": (reply("529 x"), "529 Overloaded", AGAIN),
    "599": (reply("599 x"), "599 without a word on why", AGAIN),
    "an error in a 200": (reply("200 x", error("No provider")), "500 No provider", AGAIN),
    "nothing": (reply("200 x"), "200 with an empty body", API),
    "a page": (reply("200 x", page("Welcome to nginx!")), '200 with a page titled "Welcome to nginx!"', API),
    "words": (reply("200 x", b"Hello"), "200 with a body that is no JSON", API),
    "a list": (reply("200 x", b"[1]"), "200 with JSON that is no object", API),
    "no choices": (reply("200 x", {"model": "m"}), "200 with JSON that is no answer of a model", API),
    "empty choices": (reply("200 x", {"choices": []}),
                      "200 with a list `choices` that is empty or cannot be read", AGAIN),
    "truncated": (reply("200 x", OK[:40]), "200 with JSON that breaks off, or is broken", AGAIN),
    "two documents": (reply("200 x", OK + OK), "200 with more than one JSON document", MUCH),
    "events": (reply("200 x", b"data: {}\n\n"), "200 with a stream of events, which was not asked for", AGAIN),
    "too short": (head("200 x", "Content-Length: 500") + OK, f"the connection was lost after {len(OK)} bytes", AGAIN),
    "too long": (head("200 x", "Content-Length: 10") + OK, "its reply is no valid HTTP", HTTPS),
    "reset": (Says(head("200 x", "Content-Length: 5000") + OK, reset=True),
              f"the connection was lost after {len(OK)} bytes", AGAIN),
    "closed": (b"", "the connection was lost before a reply", HTTPS),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "its reply is no valid HTTP", HTTPS),
    "many headers": (head("200 x", *(f"X-{n}: a" for n in range(300))) + OK, "its headers are too large", AGAIN),
    "large header": (head("200 x", f"X: {'a' * 100_000}") + OK, "its headers are too large", AGAIN),
    "no gzip": (reply("200 x", b"no", "Content-Encoding: gzip"), "200 with a body that is no valid gzip", AGAIN),
    "cut gzip": (reply("200 x", gzip.compress(OK)[:-9], "Content-Encoding: gzip"),
                 "200 with a body that is no valid gzip", AGAIN),
    "steering": (reply("500 x", error("\x1b[31mred\x1b]0;t\x07 \u202eabc\r\n" + "word " * 99)), "500 red abc( word)+…",
                 AGAIN),
}  # fmt: skip
REFUSED = {
    "413": (reply("413 x", page("413 Request Entity Too Large")), "413 Request Entity Too Large, a page"),
    "422": (reply("422 x", {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}),
            "422 messages field required"),
    "400": (reply("400 x"), "400 Bad Request"),
    "bomb": (head("200 x", "Content-Encoding: gzip") + gzip.compress(bytes(20_000_000)),
             "200 with more than 1,167,360 bytes"),
    "content null": (reply("200 x", completion(message={"role": "assistant", "content": None})), "the reply is empty"),
}  # fmt: skip


def said(url: str, folder: Path, seconds: float = 5.0) -> LongformError | Failure | None:
    """What one question to this address ends with; None for an answer."""
    endpoint = Endpoint("mine", "gpt", base_url=url, timeout_seconds=seconds, key_env="MY_KEY")
    with Models(folder / "r.sqlite", first_pause_seconds=1e-6, key_of=lambda _: KEY) as models:
        try:
            ((_, result),) = models.client(endpoint).ask(
                [(1, Request((("user", "Question"),), task="x", max_tokens=64))]
            )
        except LongformError as error:
            return error
    return result if isinstance(result, Failure) else None


def told(script: bytes | Script, folder: Path, seconds: float = 5.0) -> tuple[str, LongformError | Failure | None]:
    """(the address of a server that behaves so, what a question to it ends with)."""
    with raw_server(script if callable(script) else Says(script)) as port:
        url = f"http://127.0.0.1:{port}/v1"
        return url, said(url, folder, seconds)


@pytest.mark.parametrize("fault", STOPS)
def test_what_stops_an_endpoint_is_said_with_its_address_cause_and_next_step(fault: str, tmp_path: Path) -> None:
    script, cause, step = STOPS[fault]
    url, error = told(script, tmp_path)
    assert isinstance(error, EndpointError)
    assert str(error) == f'The endpoint "mine" at {url} refused a request for the model gpt ({cause}): {step} {STORED}'


@pytest.mark.parametrize("fault", PASSES)
def test_what_may_pass_is_said_with_its_address_cause_and_next_step(fault: str, tmp_path: Path) -> None:
    script, cause, step = PASSES[fault]
    url, error = told(script, tmp_path)
    assert isinstance(error, Incomplete)
    begin = f'The endpoint "mine" at {url} gave no answer in '
    wanted = cause if "[" in cause or "+" in cause else re.escape(cause)
    assert re.fullmatch(
        rf"{re.escape(begin)}\d+ tries \(at last: {wanted}\): {re.escape(step[:-1])}(?:{re.escape(LEFT_OUT)})?\.",
        str(error),
    ), error


@pytest.mark.parametrize("fault", REFUSED)
def test_why_a_question_is_rejected_is_said_in_words(fault: str, tmp_path: Path) -> None:
    script, message = REFUSED[fault]
    _, failure = told(script, tmp_path)
    assert isinstance(failure, Failure)
    assert failure.message == message


@pytest.mark.parametrize(("seconds", "words"), [(86_400, "24 hours"), (1_200, "20 minutes"), (400_000, "5 days")])
def test_an_endpoint_that_asks_for_a_long_pause_is_named_with_its_address(
    seconds: int, words: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    url, error = told(reply("429 x", error_of_day(), f"Retry-After: {seconds}"), tmp_path)
    assert time.monotonic() - began < 10
    assert str(error) == (
        f'The endpoint "mine" at {url} asks to be left alone for {words} (429 Daily limit): answers so far are stored; '
        "run the same command again then."
    )


def error_of_day() -> dict[str, Any]:
    return error("Daily limit")


def test_a_reply_that_drips_takes_no_longer_than_its_time_out_and_names_the_setting(tmp_path: Path) -> None:
    def drips(connection: Any) -> None:
        read_request(connection)
        connection.sendall(head("200 x", "Content-Length: 1000"))
        while True:
            connection.sendall(b" ")
            time.sleep(0.05)

    began = time.monotonic()
    _, error = told(drips, tmp_path, seconds=0.4)
    assert time.monotonic() - began < 8
    assert "(at last: no whole answer within 0.4 seconds): answers so far are stored; raise timeout_seconds" in str(
        error
    )


def test_an_address_that_cannot_be_reached_is_said_with_its_cause_and_what_to_check(tmp_path: Path) -> None:
    begin = 'The endpoint "mine" at {} cannot be reached ('
    with nobody() as free:
        url, where = f"{free}/v1", free.removeprefix("http://")
        assert str(said(url, tmp_path)) == (
            f"{begin.format(url)}nothing listens at {where}: connection refused): start the server, or check base_url."
        )
    url = "https://no-such-name.invalid/v1"
    assert str(said(url, tmp_path)) == (
        f"{begin.format(url)}the name no-such-name.invalid cannot be found): check base_url."
    )


def at_tls(context: ssl.SSLContext, folder: Path, scheme: str = "https") -> str:
    with raw_server(Says(reply("200 x", OK)), tls=context) as port:
        return str(said(f"{scheme}://127.0.0.1:{port}/v1", folder))


def test_a_certificate_of_a_private_authority_is_said_with_the_variable_that_names_it(tmp_path: Path) -> None:
    sentence = at_tls(certificate(tmp_path), tmp_path)
    assert sentence.endswith(
        "(the certificate of 127.0.0.1 is not valid: self-signed certificate): check base_url or, for a private "
        "authority, set SSL_CERT_FILE to the file with its certificate."
    )


def test_a_certificate_that_has_expired_is_to_be_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = certificate(tmp_path, datetime.now(UTC) - timedelta(days=9))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    sentence = at_tls(context, tmp_path)
    assert sentence.endswith("is not valid: certificate has expired): have the server's certificate renewed.")


@pytest.mark.parametrize(("scheme", "other"), [("http", "https"), ("https", "http")])
def test_the_wrong_scheme_is_told_with_the_right_one(
    scheme: str, other: str, tmp_path: Path, plain_server: Callable[[], Any]
) -> None:
    if scheme == "http":
        sentence = at_tls(certificate(tmp_path), tmp_path, "http")
    else:
        sentence = str(said(f"https://{plain_server()}/v1", tmp_path))
    assert f"begin base_url with {other}://" in sentence


@pytest.fixture
def plain_server() -> Any:
    from http_server import serve

    with serve() as server:
        yield lambda: server.url.removeprefix("http://")
