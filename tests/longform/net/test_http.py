"""HTTP against real servers on this machine: what is sent to whom, what is tried again, what is never read."""

from __future__ import annotations

import gzip
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from http_server import Answer, Asked, Server, document, serve
from ports import nobody

from longform import __version__
from longform.addresses import origin, shown
from longform.errors import HttpError, Incomplete, LongformError, SourceError, UsageError
from longform.net.http import Http, retry_after_seconds, user_agent

KEY = {"x-api-key": "s3cret-key"}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with serve("localhost") as server:
        yield server


class Sleeps(list[float]):
    """A clock that notes how long it was asked to sleep, and does not."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(**options: Any) -> tuple[Http, Sleeps]:
    sleeps = Sleeps()
    return Http(**{"sleep": sleeps, **options}), sleeps


def moved(url: str, status: int = 302) -> Answer:
    return Answer(status, b"moved", {"Location": url})


# ---------------------------------------------------------------- what is sent


def test_a_reply_is_whole_and_says_where_it_is_from(server: Server) -> None:
    server.on("/a", document({"a": [1]}, 200, **{"X-Left": "3"}))
    reply = client()[0].get(server.url + "/a", params={"limit": 5, "q": "ä b"})
    assert (reply.json(), reply.status, reply.headers["x-left"]) == ({"a": [1]}, 200, "3")
    assert server.asked[0].query == {"limit": "5", "q": "ä b"}


def test_a_connection_is_used_again(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.on("/a", Answer(body=b"text"), Answer(), Answer(503), Answer(body=b"text", chunked=True), Answer(body=b"x"))
    http, _ = client()
    for _ in range(4):
        http.get(server.url + "/a")
    assert caplog.text.count("Starting new HTTP connection") == 1
    assert "Resetting" not in caplog.text


def test_the_user_agent_cannot_be_mistaken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("/a", Answer())
    monkeypatch.setenv("LONGFORM_CONTACT", "data@example.org")
    Http().get(server.url + "/a")
    monkeypatch.delenv("LONGFORM_CONTACT")
    Http().get(server.url + "/a")
    Http(contact="https://example.org/about").get(server.url + "/a")
    assert [asked.headers["user-agent"] for asked in server.asked] == [
        f"longform/{__version__} (dataset rebuilding; {contact})"
        for contact in ("data@example.org", "no contact set", "https://example.org/about")
    ]


def test_a_contact_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(UsageError, match="LONGFORM_CONTACT"):
        user_agent("a\r\nX-Evil: 1")


def test_netrc_and_cookies_are_not_sent(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hidden\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.on("/a", Answer(headers={"Set-Cookie": "id=1; Path=/"}))
    http, _ = client()
    http.get(server.url + "/a")
    http.get(server.url + "/a")
    assert not any({"authorization", "cookie"} & set(asked.headers) for asked in server.asked)


def test_what_is_posted_arrives(server: Server) -> None:
    server.on("/a", Answer())
    http, _ = client()
    http.post(server.url + "/a", json={"q": "ä"})
    http.post(server.url + "/a", data={"grant": "x y"})
    first, second = server.asked
    assert (first.method, first.headers["content-type"], first.body) == (
        "POST",
        "application/json",
        b'{"q": "\\u00e4"}',
    )
    assert (second.headers["content-type"], second.body) == ("application/x-www-form-urlencoded", b"grant=x+y")


# ---------------------------------------------------------------- redirects and credentials


def test_credentials_stay_with_their_host(server: Server, elsewhere: Server) -> None:
    server.on("/a", moved("/b"))
    server.on("/b", moved(elsewhere.url + "/c"))
    elsewhere.on("/c", moved(server.url + "/d"))
    server.on("/d", Answer(body=b"there"))
    bearer = {"Authorization": "Bearer t0ken", "X-Plain": "1"}
    assert client()[0].get(server.url + "/a", credentials=KEY, headers=bearer).content == b"there"
    sent = [(asked.path, asked.headers.get("x-api-key"), asked.headers.get("authorization")) for asked in server.asked]
    assert sent == [
        ("/a", "s3cret-key", "Bearer t0ken"),
        ("/b", "s3cret-key", "Bearer t0ken"),
        ("/d", None, None),  # another host has chosen this address
    ]
    assert [(asked.headers.get("x-api-key"), asked.headers.get("authorization")) for asked in elsewhere.asked] == [
        (None, None)
    ]
    assert elsewhere.asked[0].headers["x-plain"] == "1"


def test_another_port_is_another_host(server: Server) -> None:
    with serve() as other:
        server.on("/a", moved(other.url + "/b"))
        other.on("/b", Answer())
        client()[0].get(server.url + "/a", credentials=KEY)
        assert "x-api-key" not in other.asked[0].headers


def test_redirects_have_an_end(server: Server) -> None:
    server.on("/a", moved("/a"))
    with pytest.raises(SourceError, match="more than 5 redirects"):
        client()[0].get(server.url + "/a")
    assert len(server.asked) == 6


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.org/x", "http://", "//[bad/", "javascript:x"])
def test_redirects_out_of_the_web_are_refused(server: Server, target: str) -> None:
    server.on("/a", moved(target))
    with pytest.raises(SourceError, match=r"/a (redirects to .*, which is no plain address|is reached by more)"):
        client()[0].get(server.url + "/a?signature=hidden")


def test_a_redirect_to_where_nobody_is_names_both(server: Server) -> None:
    with nobody() as url:
        server.on("/a", moved(url + "/b?signature=hidden"))
        with pytest.raises(Incomplete, match=rf"/a redirects to {url}/b, which refused the connection, 6 times"):
            client()[0].get(server.url + "/a")


def test_a_redirect_to_nowhere_is_named(server: Server) -> None:
    server.on("/a", Answer(302))
    with pytest.raises(HttpError, match="does not say where to"):
        client()[0].get(server.url + "/a")


def test_the_body_of_a_redirect_is_not_read(server: Server) -> None:
    server.on("/a", Answer(302, bytes(50_000), {"Location": "/b"}, length=10**12, drip=1.0))
    server.on("/b", Answer(body=b"there"))
    began = time.monotonic()
    assert client()[0].get(server.url + "/a").content == b"there"
    assert time.monotonic() - began < 600


def test_every_address_is_checked_before_it_is_asked(server: Server, elsewhere: Server) -> None:
    def check(url: str) -> None:
        if url.startswith(elsewhere.url):
            raise SourceError("not there")

    server.on("/a", moved(elsewhere.url + "/b"))
    with pytest.raises(SourceError, match="not there"):
        client()[0].get(server.url + "/a", check=check)
    assert elsewhere.asked == []


def test_a_post_is_not_sent_on_to_another_host(server: Server, elsewhere: Server) -> None:
    server.on("/a", moved(elsewhere.url + "/b", 307))
    with pytest.raises(SourceError, match="posted"):
        client()[0].post(server.url + "/a", data={"password": "x"})
    server.on("/c", moved("/d", 303))
    server.on("/d", Answer(body=b"done"))
    assert client()[0].post(server.url + "/c", data={"a": "b"}).content == b"done"
    assert elsewhere.asked == []
    assert server.asked[-1].method == "GET"
    assert server.asked[-1].body == b""


# ---------------------------------------------------------------- tries


def test_what_may_pass_is_tried_again(server: Server) -> None:
    server.on("/a", Answer(503), Answer(429), Answer(408), Answer(425), Answer(500), Answer(body=b"ok"))
    http, sleeps = client()
    assert http.get(server.url + "/a").content == b"ok"
    assert len(sleeps) == 5
    assert all(2**n / 2 <= seconds <= 2**n for n, seconds in enumerate(sleeps))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451])
def test_what_does_not_pass_is_not_tried_again(server: Server, status: int) -> None:
    server.on("/a", Answer(status, b"because"))
    with pytest.raises(HttpError, match=str(status)) as raised:
        client()[0].get(server.url + "/a", params={"key": "hidden"})
    assert (raised.value.status, raised.value.body, len(server.asked)) == (status, b"because", 1)
    assert "hidden" not in str(raised.value)


def test_tries_have_an_end(server: Server) -> None:
    server.on("/a", Answer(503))
    http, sleeps = client(tries=3)
    with pytest.raises(Incomplete, match=r"503 .*3 times"):
        http.get(server.url + "/a")
    assert (len(server.asked), len(sleeps)) == (3, 2)


def test_patience_has_an_end(server: Server) -> None:
    server.on("/a", Answer(429, headers={"Retry-After": "40"}))
    http, sleeps = client(patience_seconds=100)
    with pytest.raises(Incomplete, match="run this again after 20.. UTC".replace("..", r"\d\d-\d\d-\d\d .*")):
        http.get(server.url + "/a")
    assert sleeps == [40, 40]


def test_the_server_says_when(server: Server) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=280), usegmt=True)
    server.on(
        "/a", Answer(429, headers={"Retry-After": "7"}), Answer(503, headers={"Retry-After": date}), Answer(body=b"ok")
    )
    http, sleeps = client()
    http.get(server.url + "/a")
    assert sleeps[0] == 7
    assert 100 < sleeps[1] <= 280


def test_a_wait_longer_than_the_patience_ends_at_once(server: Server) -> None:
    server.on("/a", Answer(429, headers={"Retry-After": "86400"}))
    http, sleeps = client()
    with pytest.raises(Incomplete, match=r"again after .* UTC \(in 86,400 s\)"):
        http.get(server.url + "/a")
    assert (sleeps, len(server.asked)) == ([], 1)


def test_a_source_reads_its_own_way_of_saying_when(server: Server) -> None:
    server.on("/a", document({"resets_in": 12}, 429), Answer(body=b"ok"))
    http, sleeps = client()
    http.get(server.url + "/a", retry_after=lambda response: float(response.json()["resets_in"]))
    assert sleeps == [12.0]


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0.0), (" 5 ", 5.0), ("-5", None), ("soon", None), ("", None), ("9" * 5000, None)]
)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert retry_after_seconds(text) == seconds


def test_retry_after_in_the_past_is_now() -> None:
    assert retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_no_server_is_tried_again_and_named() -> None:
    with nobody() as url, pytest.raises(Incomplete, match="refused the connection, 6 times"):
        client()[0].get(url + "/a?key=hidden")


# ---------------------------------------------------------------- bodies


def test_a_reply_that_breaks_off_is_tried_again(server: Server) -> None:
    whole = Answer(body=b"x" * 5_000)
    server.on(
        "/a",
        Answer(body=b"x" * 5_000, drop_after=100),
        Answer(body=b"x" * 5_000, length=6_000),
        Answer(body=b"x" * 5_000, chunked=True, drop_after=4_000),
        Answer(body=b"x" * 5_000, drop_after=0, length=-1),
        Answer(body=b"x" * 5_000, headers={"Content-Length": "4999"}),  # and another Content-Length
        whole,
    )
    http, sleeps = client()
    assert http.get(server.url + "/a").content == whole.body
    assert len(sleeps) == 5


def test_chunked_and_packed_replies_are_read(server: Server) -> None:
    text = b"some text, some text, " * 1_000
    packed = gzip.compress(text[:9_000]) + gzip.compress(text[9_000:])
    server.on("/a", Answer(body=packed, headers={"Content-Encoding": "gzip"}, chunked=True))
    assert client()[0].get(server.url + "/a").content == text


def test_large_replies_are_not_read(server: Server) -> None:
    server.on("/long", Answer(body=b"x" * 2_000))
    server.on("/endless", Answer(body=b"x" * 2_000, chunked=True))
    server.on("/bomb", Answer(body=gzip.compress(bytes(50 << 20)), headers={"Content-Encoding": "gzip"}))
    http, _ = client()
    for path in ("/long", "/endless", "/bomb"):
        with pytest.raises(SourceError, match="more than 1,000 bytes"):
            http.get(server.url + path, max_bytes=1_000)
    assert len(server.asked) == 3
    assert http.get(server.url + "/long", max_bytes=2_000).content == b"x" * 2_000


def test_an_encoding_that_was_not_asked_for_is_refused(server: Server) -> None:
    server.on("/a", Answer(body=b"\x00", headers={"Content-Encoding": "br"}))
    server.on("/b", Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}))
    for path, words in (("/a", "not asked for"), ("/b", "is gzip, but it is not")):
        with pytest.raises(SourceError, match=words):
            client()[0].get(server.url + path)


def test_a_page_is_no_document(server: Server) -> None:
    server.on("/a", Answer(body=b"<html>sign in</html>"))
    server.on("/deep", Answer(body=b"[" * 100_000))
    for path in ("/a", "/deep"):
        with pytest.raises(SourceError, match="answers no JSON"):
            client()[0].get(server.url + path).json()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"x" * 30_000, drip=0.05),
        Answer(headers={"X": "x" * 30_000}, head_drip=0.05),
        Answer(delay=1_500.0),
    ],
    ids=["body", "head", "nothing"],
)
def test_a_slow_server_does_not_hold_for_ever(server: Server, answer: Answer) -> None:
    server.on("/a", answer)
    http, _ = client(tries=2, patience_seconds=0.4, timeout_seconds=(1, 0.4))
    began = time.monotonic()
    with pytest.raises(Incomplete):
        http.get(server.url + "/a")
    assert time.monotonic() - began < 600  # of 1,500 for one try


def test_a_connection_that_comes_too_late_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def late(*args: Any, **options: Any) -> Any:
        time.sleep(0.2)
        return resolve(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    server.on("*", Answer())
    with pytest.raises(Incomplete, match=r"gave no connection in 0\.1 s"):
        client(tries=2, patience_seconds=0.1)[0].get(server.url + "/a")
    assert server.asked == []


# ---------------------------------------------------------------- rates and secrets


def test_a_host_is_asked_at_a_polite_rate_also_by_threads(server: Server, elsewhere: Server) -> None:
    server.on("*", Answer())
    elsewhere.on("*", Answer())
    http, sleeps = client(per_second=0.001)
    threads = [Thread(target=http.get, args=[server.url + "/a"]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [round(seconds / 1_000) for seconds in sorted(sleeps)] == [1, 2, 3, 4, 5, 6, 7]
    assert len(server.asked) == 8
    http.get(elsewhere.url + "/a")
    assert len(sleeps) == 7, "another host has turns of its own"
    slow, _ = client(per_second=20, sleep=time.sleep)
    began = time.monotonic()
    for _ in range(3):
        slow.get(server.url + "/a")
    assert time.monotonic() - began >= 2 / 20


def refusals(server: Server) -> Iterator[Answer]:
    yield Answer(404, b"s3cret-key echoed")
    yield Answer(503)
    yield moved("http://user:s3cret-key@127.0.0.1:9/a")
    yield moved("gopher://x/?s3cret-key")
    yield Answer(headers={"Content-Encoding": "br"})
    yield Answer(body=b"x" * 100)


def test_no_error_and_no_log_holds_a_secret(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    http, _ = client(tries=2)
    for answer in refusals(server):
        server.on("/a", answer)
        with pytest.raises(LongformError) as raised:
            http.get(server.url + "/a?signature=s3cret-key", credentials=KEY, max_bytes=50)
        assert "s3cret" not in str(raised.value)
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
    server.on("/a", Answer(headers={"No Colon\r\nX": "1"}))  # urllib3 warns of such a head
    hasty, _ = client(tries=2, timeout_seconds=(5, 0.3))  # the length is lost with that head
    with suppress(LongformError):
        hasty.get(server.url + "/a?signature=s3cret-key", credentials=KEY)
    assert "s3cret" not in caplog.text
    assert "127.0.0.1" in caplog.text


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX: 1", "ключ", "key\u2603"])
def test_a_key_that_no_header_holds_is_refused_without_showing_it(server: Server, value: str) -> None:
    with pytest.raises(UsageError, match="check the key") as raised:
        client()[0].get(server.url + "/a", credentials={"x-api-key": value})
    assert value not in str(raised.value)
    assert server.asked == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "example.org/x", "http://me:pw@example.org/", "http://[", "", "http://a..b/"]
)
def test_only_addresses_of_the_web_are_asked(url: str) -> None:
    with pytest.raises(SourceError) as raised:
        client()[0].get(url)
    assert "pw" not in str(raised.value)


def test_addresses_as_they_may_be_written_down() -> None:
    assert shown("https://me:pw@example.org:8/a/b?key=1#x") == "https://example.org:8/a/b"
    assert shown("www.example.org/a#token=1") == "www.example.org/a"
    assert origin("HTTPS://Example.org/a") == ("https", "example.org", 443)
    assert origin("http://example.org:8080") == ("http", "example.org", 8080)


def test_asked_is_what_was_asked(server: Server) -> None:
    def echo(asked: Asked) -> Answer:
        return document(asked.headers)

    server.on("/a", echo)
    assert client()[0].get(server.url + "/a").json()["accept-encoding"] == "gzip"
