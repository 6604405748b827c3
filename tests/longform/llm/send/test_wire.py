"""One request to a model's endpoint gives one outcome, whatever the server does: with real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver
from certificates import certificate
from http_server import Answer, Server, serve
from ports import nobody
from raw_server import Says, raw_server, read_request

from longform.errors import StoreError
from longform.llm.ask.types import Endpoint
from longform.llm.send.reply_body import MOST_MEMBERS, BodyError, read_body
from longform.llm.send.wire import Outcome, Wire, address_of

KEY = "sk-canary-0123456789abcdef"
PATH = "/chat/completions"
MB = 1 << 20


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


def with_wire(url: str, use: Callable[[Wire], object], seconds: float = 20, **options: object) -> None:
    async def go() -> None:
        wire = Wire(Endpoint("one", "m", base_url=url, timeout_seconds=seconds), KEY, **{"transport": None, **options})  # type: ignore[arg-type]
        try:
            await use(wire)  # type: ignore[misc]
        finally:
            await wire.close()

    asyncio.run(go())


def posted(url: str, *, most_bytes: int | None = None, seconds: float = 20, **options: object) -> Outcome:
    found: list[Outcome] = []

    async def post(wire: Wire) -> None:
        found.append(await wire.post(PATH, "{}", most_bytes=most_bytes))

    with_wire(url, post, seconds, **options)
    assert KEY not in repr(found)
    return found[0]


def called(url: str, method: str = "GET", path: str = "/batches", seconds: float = 20, **content: object) -> Outcome:
    found: list[Outcome] = []

    async def call(wire: Wire) -> None:
        found.append(await wire.call(method, path, **content))  # type: ignore[arg-type]

    with_wire(url, call, seconds)
    assert KEY not in repr(found)
    return found[0]


def downloaded(url: str, to: Path, *, most_bytes: int = MB, seconds: float = 20) -> Outcome:
    found: list[Outcome] = []

    async def download(wire: Wire) -> None:
        found.append(await wire.download("/files/f/content", to, most_bytes=most_bytes))

    with_wire(url, download, seconds)
    return found[0]


def answered(port: int, answer: Callable[[str], Outcome] = posted) -> Outcome:
    return answer(f"http://127.0.0.1:{port}/v1")


def head(*lines: str, status: str = "200 OK") -> bytes:
    return ("\r\n".join([f"HTTP/1.1 {status}", *lines]) + "\r\n\r\n").encode()


def bomb(megabytes: int) -> bytes:
    """Gzip of so many megabytes of zeros: a block that was flushed whole may be repeated as it is."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(bytes(MB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return start + megabytes * block


# what is sent


def test_a_question_is_sent_once_with_its_key_and_its_body_and_nothing_of_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password other\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    server.on("/v1/chat/completions", Answer(body=b"{}", headers={"Set-Cookie": "a=b", "x-request-id": "r-1"}))

    async def ask(wire: Wire) -> None:
        first = await wire.post(PATH, '{"a": "ä"}', idempotency_key="row-1")
        second = await wire.post(PATH, "{}")
        assert (first.status, first.body, first.request_id, second.status) == (200, b"{}", "r-1", 200)
        assert first.headers["X-REQUEST-ID"] == "r-1"

    with_wire(f"{server.url}/v1/?api-version=7", ask)
    one, two = server.asked
    assert one.body == '{"a": "ä"}'.encode()
    assert one.query == {"api-version": "7"}
    assert one.headers["authorization"] == f"Bearer {KEY}"
    assert one.headers["content-type"] == "application/json"
    assert one.headers["idempotency-key"] == "row-1"
    assert one.headers["accept-encoding"] == "gzip, identity"
    assert one.headers["user-agent"].startswith("longform/")
    assert not {"cookie", "idempotency-key"} & set(two.headers)


def test_files_and_batches_are_sent_with_their_query_and_their_parts(server: Server, tmp_path: Path) -> None:
    server.on("*", Answer(body=b"{}"))
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    url = f"{server.url}/v1?api-version=7"
    with (tmp_path / "a.jsonl").open("rb") as content:
        called(url, "POST", "/files", data={"purpose": "batch"}, files={"file": ("a.jsonl", content, "application/j")})
    called(url, "POST", "/batches", json={"input_file_id": "f"}, idempotency_key="job-1")
    called(url, params={"limit": 100, "after": "b 1"})
    called(url, path="/batches/b?x#y")
    upload, create, listed, odd = server.asked
    assert b'name="purpose"\r\n\r\nbatch' in upload.body
    assert b'filename="a.jsonl"' in upload.body
    assert json.loads(create.body) == {"input_file_id": "f"}
    assert create.headers["idempotency-key"] == "job-1"
    assert listed.query == {"api-version": "7", "limit": "100", "after": "b 1"}
    assert odd.path == "/v1/batches/b%3Fx%23y"
    assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {KEY}"}


def test_user_and_password_of_an_address_are_neither_sent_nor_shown(server: Server) -> None:
    server.on("*", Answer(body=b"{}"))
    host = server.url.removeprefix("http://")
    assert posted(f"http://bob:{KEY}@{host}/v1?api_key={KEY}#{KEY}").status == 200
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    wire = Wire(Endpoint("one", "m", base_url=f"http://bob:{KEY}@{host}/v1?api_key={KEY}#{KEY}"), KEY, None)
    assert wire.address == f"http://{host}/v1"
    assert address_of("http://[::1") == "(no address)"
    assert KEY not in f"{wire!r}{wire}"


def test_a_proxy_of_the_environment_gets_its_password_and_says_nothing_of_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server.on("*", Answer(body=b"{}"))
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://bob:secret@"))
    assert posted("http://models.invalid/v1").status == 200
    assert server.asked[0].headers["proxy-authorization"] == "Basic Ym9iOnNlY3JldA=="
    with nobody() as nowhere:
        monkeypatch.setenv("http_proxy", nowhere.replace("http://", "http://bob:secret@"))
        outcome = posted("http://models.invalid/v1")
    assert outcome.body.decode() == f"nothing listens at {nowhere.removeprefix('http://')}: connection refused"
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    assert posted("http://models.invalid/v1").status == 0


# bounds


def test_a_megabyte_of_gzip_that_unpacks_to_a_gigabyte_is_broken_off_in_little_memory(
    server: Server, tmp_path: Path
) -> None:
    content = bomb(1024)
    assert 0.9 * MB < len(content) < 2 * MB
    server.on("*", Answer(body=content, headers={"Content-Encoding": "gzip"}))
    posted(server.url), downloaded(server.url, tmp_path / "f")  # imports are not counted
    peaks = []
    for ask in (lambda: posted(server.url, most_bytes=2 * MB), lambda: downloaded(server.url, tmp_path / "f")):
        tracemalloc.start()
        outcome = ask()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (outcome.status, outcome.too_large) == (200, True)
    assert max(peaks) < 8 * MB
    assert called(server.url).body == b"200 with more than 67,108,864 bytes"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=bytes(40 * MB)),
        Answer(body=bytes(40 * MB), chunked=True),
        Answer(body=gzip.compress(bytes(MB + 1), mtime=0), headers={"Content-Encoding": "gzip"}),
        Answer(body=gzip.compress(random.Random(1).randbytes(2 * MB)), headers={"Content-Encoding": "gzip"}),
        Answer(body=bytes(MB + 1), status=503, headers={"Retry-After": "7"}),
    ],
    ids=["plain", "chunked", "gzip", "gzip of noise", "an error"],
)
def test_a_reply_of_more_bytes_than_allowed_is_broken_off_and_its_head_is_kept(server: Server, answer: Answer) -> None:
    server.on("*", answer)
    outcome = posted(server.url, most_bytes=MB)
    assert (outcome.status, outcome.too_large, outcome.sent, outcome.final) == (answer.status, True, True, False)
    assert outcome.body.decode() == f"{answer.status} with more than 1,048,576 bytes"
    assert outcome.retry_after == (7 if answer.status == 503 else None)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "GZIP", "x-gzip", "deflate", "bare deflate"])
def test_a_reply_of_as_many_bytes_as_allowed_is_kept_however_it_is_packed(
    server: Server, encoding: str, chunked: bool
) -> None:
    content = random.Random(2).randbytes(MB // 8) + bytes(MB - MB // 8)
    bare = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = {"": content, "identity": content, "deflate": zlib.compress(content)}
    packed["bare deflate"] = bare.compress(content) + bare.flush()
    body = packed.get(encoding) or gzip.compress(content, mtime=0)
    server.on("*", Answer(body=body, chunked=chunked, headers={"Content-Encoding": encoding.removeprefix("bare ")}))
    outcome = posted(server.url, most_bytes=MB)
    assert (outcome.status, outcome.body == content, outcome.too_large) == (200, True, False)


def test_any_cut_of_packed_bytes_unpacks_to_the_same() -> None:
    async def unpack(packed: bytes, cuts: list[int], most: int) -> bytes:
        chunks = [packed[start:end] for start, end in zip([0, *cuts], [*cuts, len(packed)], strict=True) if start < end]

        async def next_chunk() -> bytes:
            return chunks.pop(0) if chunks else b""

        return await read_body("gzip", next_chunk, most)

    dice = random.Random(3)
    for size in (0, 1, 258, MB - 1, MB, MB + 1, 2 * MB + 100):
        content = dice.choice([bytes(size), b"abc" * (size // 3), dice.randbytes(size // 4)])
        members = gzip.compress(content, mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(b"end", mtime=0)
        cuts = sorted(dice.randrange(len(members)) for _ in range(dice.choice([0, 1, 5])))
        assert asyncio.run(unpack(members, cuts, len(members) + len(content) + 3)) == content + b"end"
        with pytest.raises(BodyError, match="more than"):
            asyncio.run(unpack(members, cuts, len(content) + 2))
    with pytest.raises(BodyError, match="no valid gzip"):
        asyncio.run(unpack(gzip.compress(b"", mtime=0) * (MOST_MEMBERS + 1), [], MB))


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("br", b"\x0b\x02\x80{}\x03", "200 with a body in a content-encoding that was not asked for"),
        (
            "gzip, gzip",
            gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
            "200 with a body in a content-encoding that was not asked for",
        ),
        ("gzip", b"{}", "200 with a body that is no valid gzip"),
        ("gzip", gzip.compress(b"{}" * 99, mtime=0)[:-5], "200 with a body that is no valid gzip"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-8] + bytes(8), "200 with a body that is no valid gzip"),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"{}", "200 with a body that is no valid gzip"),
        ("deflate", b"{}", "200 with a body that is no valid deflate"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_an_unusable_reply(
    server: Server, encoding: str, body: bytes, words: str
) -> None:
    server.on("*", Answer(body=body, headers={"Content-Encoding": encoding}))
    for outcome in (posted(server.url), called(server.url)):
        assert (outcome.status, outcome.body.decode(), outcome.too_large) == (200, words, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * MB,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(10_000)),
        b"HTTP/1.1 200 " + b"O" * MB,
    ],
    ids=["a header without end", "ten thousand headers", "a status line without end"],
)
@pytest.mark.parametrize("ask", [posted, called])
def test_a_head_without_end_is_broken_off(answer: bytes, ask: Callable[[str], Outcome]) -> None:
    with raw_server(Says(answer)) as port:
        outcome = answered(port, ask)
    assert (outcome.status, outcome.body, outcome.sent) == (0, b"its headers are too large", True)


# replies that are not whole


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Says(), "the connection was lost before a reply"),
        (Says(reset=True), "the connection was lost before a reply"),
        (Says(b"HTTP/1.1 2"), "the connection was lost before a reply"),
        (Says(b"HTTP/1.1 200 OK\r\nContent-Le"), "the connection was lost before a reply"),
        (Says(head("Content-Length: 4096") + bytes(1024)), "the connection was lost after 1,024 bytes"),
        (Says(head("Transfer-Encoding: chunked") + b"2\r\n{}\r\n"), "the connection was lost after 2 bytes"),
        (Says(head("Transfer-Encoding: chunked") + b"2\r\n{}\r\nzz\r\n"), "its reply is no valid HTTP"),
        (Says(head("Content-Length: x")), "its reply is no valid HTTP"),
        (Says(b"SSH-2.0-OpenSSH_9.6\r\n"), "its reply is no valid HTTP"),
    ],
    ids=["close", "reset", "half a status line", "half a head", "short", "short chunks", "bad chunk", "length", "ssh"],
)
@pytest.mark.parametrize("ask", [posted, called])
def test_a_reply_that_is_not_whole_may_have_been_billed(
    script: Says, words: str, ask: Callable[[str], Outcome]
) -> None:
    with raw_server(script) as port:
        outcome = answered(port, ask)
    assert (outcome.status, outcome.body.decode(), outcome.sent, outcome.final) == (0, words, True, False)


def test_a_reply_that_is_longer_than_it_says_ends_there_and_the_rest_is_nobodys() -> None:
    late = threading.Event()

    def says_too_much(connection: socket.socket) -> None:
        for number in (1, 2):
            if not read_request(connection):
                return
            connection.sendall(head("Content-Length: 1") + b"%d" % number)
            time.sleep(0.05)
            connection.sendall(head("Content-Length: 5") + b"stale")
            late.set()

    async def ask(wire: Wire) -> None:
        said = []
        for _ in range(4):
            said.append((await wire.post(PATH, "{}")).body)
            await asyncio.to_thread(late.wait, 20)
            await asyncio.sleep(0.05)
            late.clear()
        assert said == [b"1"] * 4

    with raw_server(says_too_much) as port:
        with_wire(f"http://127.0.0.1:{port}", ask, idle_seconds=600)


def test_a_connection_is_used_again_after_any_whole_reply_and_closed_after_one_that_is_broken_off() -> None:
    gzipped = gzip.compress(b"{}", mtime=0)
    whole = [
        head("Content-Length: 2") + b"{}",
        head(status="204 No Content"),
        head("Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        head("Content-Encoding: gzip", f"Content-Length: {len(gzipped)}") + gzipped,
        head("Content-Length: 0", status="429 Too Many Requests"),
    ]
    left = threading.Event()

    def says_all(connection: socket.socket) -> None:
        for answer in whole:
            read_request(connection)
            connection.sendall(answer)
        read_request(connection)
        connection.sendall(head("Content-Length: 1000000") + bytes(1_000))
        assert connection.recv(1) == b""
        left.set()

    async def ask(wire: Wire) -> None:
        said = [await wire.post(PATH, "{}") for _ in whole]
        assert [each.status for each in said] == [200, 200, 200, 200, 429]
        broken_off = asyncio.create_task(wire.post(PATH, "{}"))
        await asyncio.sleep(0.3)
        broken_off.cancel()
        await asyncio.wait([broken_off])
        assert await asyncio.to_thread(left.wait, 20)

    with raw_server(says_all, Says()) as port:
        with_wire(f"http://127.0.0.1:{port}", ask, idle_seconds=600)


def test_statuses_are_told_as_they_are_and_redirects_not_followed(server: Server) -> None:
    server.on("/moved/chat/completions", Answer(302, headers={"Location": f"{server.url}/other"}, body=b"moved"))
    server.on("/none/chat/completions", Answer(204, length=-1))
    server.on("/made/chat/completions", Answer(201, body=b"{}"))
    server.on("/odd/chat/completions", Answer(429, headers={"x-request-id": "r\xff", "Retry-After": "2"}))
    moved, none, made, odd = (posted(f"{server.url}/{name}") for name in ("moved", "none", "made", "odd"))
    said = f"redirects to {server.url}/other".encode()
    assert (moved.status, moved.body, none.status, none.body, made.status) == (302, said, 200, b"", 200)
    assert (odd.status, odd.request_id, odd.retry_after) == (429, "r\ufffd", 2)
    assert "/other" not in server.paths()


def test_no_cookie_of_a_server_is_sent_back(server: Server) -> None:
    server.on("*", Answer(body=b"{}", headers={"Set-Cookie": "a=\x02b"}))

    async def ask(wire: Wire) -> None:
        for _ in range(2):
            assert (await wire.post(PATH, "{}")).status == 200
            assert (await wire.call("GET", "/batches")).status == 200

    with_wire(server.url, ask)
    assert not any("cookie" in request.headers for request in server.asked)


# time-outs


@pytest.mark.parametrize("answer", [Answer(delay=600), Answer(head_drip=0.1), Answer(body=bytes(99), drip=0.1)])
@pytest.mark.parametrize("ask", [posted, called])
def test_the_time_out_is_on_the_whole_reply(server: Server, answer: Answer, ask: Callable[..., Outcome]) -> None:
    server.on("*", answer)
    started = time.monotonic()
    outcome = ask(server.url, seconds=0.5)
    assert time.monotonic() - started < 3
    assert (outcome.status, outcome.body.decode()) == (0, "no whole answer within 0.5 seconds")
    assert (outcome.sent, outcome.final) == (True, False)


# files


def test_a_file_that_keeps_coming_is_downloaded_however_long_it_takes(server: Server, tmp_path: Path) -> None:
    server.on("*", Answer(body=bytes(12), drip=0.1))
    outcome = downloaded(server.url, tmp_path / "new" / "f", seconds=0.6)
    assert (outcome.status, outcome.body, (tmp_path / "new" / "f").read_bytes()) == (200, b"", bytes(12))
    server.on("*", Answer(body=bytes(12), drip=600))
    outcome = downloaded(server.url, tmp_path / "g", seconds=0.5)
    assert (outcome.status, outcome.body.decode()) == (0, "nothing came for 0.5 seconds")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["f"]


def test_a_large_file_takes_little_memory(server: Server, tmp_path: Path) -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([*(deflate.compress(bytes(MB)) for _ in range(64)), deflate.flush()])
    server.on("*", Answer(body=packed, headers={"Content-Encoding": "gzip"}))
    downloaded(server.url, tmp_path / "f")
    tracemalloc.start()
    outcome = downloaded(server.url, tmp_path / "f", most_bytes=64 * MB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (outcome.status, (tmp_path / "f").stat().st_size) == (200, 64 * MB)
    assert peak < 8 * MB


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=bytes(MB + 1)),
        Answer(body=bytes(100), drop_after=50),
        Answer(body=gzip.compress(bytes(100), mtime=0)[:-1], headers={"Content-Encoding": "gzip"}),
        Answer(404, body=b"gone"),
    ],
    ids=["too large", "cut off", "cut off before it was sent", "gone"],
)
def test_a_download_that_fails_leaves_the_file_that_was_there(server: Server, tmp_path: Path, answer: Answer) -> None:
    server.on("*", answer)
    (tmp_path / "f").write_bytes(b"before")
    outcome = downloaded(server.url, tmp_path / "f")
    assert outcome.body
    assert (outcome.too_large, outcome.status == 404) == (len(answer.body) > MB, answer.status == 404)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"before")]


def test_a_file_that_cannot_be_written_is_no_fault_of_the_server(server: Server, tmp_path: Path) -> None:
    server.on("*", Answer(body=b"{}"))
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(StoreError, match="Cannot write"):
        downloaded(server.url, tmp_path / "f" / "g")


# no connection


class Names(AbstractResolver):
    """A resolver that fails in one way."""

    def __init__(self, code: int) -> None:
        self.error = socket.gaierror(code, "as the test wants")

    async def resolve(self, *_: object, **__: object) -> list[aiohttp.abc.ResolveResult]:
        raise self.error

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "words", "final"),
    [
        (socket.EAI_NONAME, "the name models.example cannot be found", True),
        (socket.EAI_NODATA, "the name models.example cannot be found", True),
        (socket.EAI_AGAIN, "the name models.example cannot be looked up at present", False),
        (socket.EAI_FAIL, "the name models.example cannot be looked up at present", False),
    ],
)
def test_a_name_that_is_not_found_is_final_unless_it_is_only_not_found_now(code: int, words: str, final: bool) -> None:
    outcome = posted("http://models.example/v1", transport=lambda: aiohttp.TCPConnector(resolver=Names(code)))
    assert (outcome.status, outcome.body.decode(), outcome.sent, outcome.final) == (0, words, False, final)


@pytest.mark.parametrize("ask", [posted, called])
def test_a_port_where_nothing_listens(ask: Callable[[str], Outcome]) -> None:
    with nobody() as nowhere:
        outcome = ask(f"{nowhere}/v1")
        several = ask(f"{nowhere.replace('127.0.0.1', 'localhost')}/v1")
    where = nowhere.removeprefix("http://")
    assert outcome.body.decode() == f"nothing listens at {where}: connection refused"
    assert (outcome.sent, outcome.final, several.sent, several.final) == (False, True, False, True)


@pytest.mark.parametrize(
    "url", ["http://", "ftp://127.0.0.1/v1", "http://a b/v1", "http://[::1/v1", f"http://{'a' * 99}.b"]
)
@pytest.mark.parametrize("ask", [posted, called])
def test_an_address_that_is_none_is_an_outcome_too(url: str, ask: Callable[[str], Outcome]) -> None:
    outcome = ask(url)
    assert (outcome.status, outcome.sent) == (0, False)


@pytest.mark.parametrize("ask", [posted, called])
def test_a_certificate_that_nobody_trusts_is_refused_before_the_key_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], Outcome]
) -> None:
    heads: list[bytes] = []

    def hears(connection: socket.socket) -> None:
        heads.append(read_request(connection))
        connection.sendall(head("Content-Length: 2") + b"{}")

    with raw_server(hears, tls=certificate(tmp_path)) as port:
        refused = ask(f"https://127.0.0.1:{port}/v1")
        assert heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        trusted = ask(f"https://127.0.0.1:{port}/v1")
        other_name = ask(f"https://localhost:{port}/v1")
    assert refused.body.decode() == "the certificate of 127.0.0.1 is not valid: self-signed certificate"
    assert (refused.status, refused.sent, refused.final) == (0, False, True)
    assert (trusted.status, trusted.body, len(heads)) == (200, b"{}", 1)
    assert other_name.body.startswith(b"the certificate of localhost is not valid: Hostname mismatch")


@pytest.mark.parametrize("ask", [posted, called])
def test_tls_to_a_port_that_speaks_plain_http_is_final(server: Server, ask: Callable[[str], Outcome]) -> None:
    outcome = ask(server.url.replace("http:", "https:"))
    assert outcome.body.decode().startswith(f"{server.url.removeprefix('http://')} does not speak TLS as asked: ")
    assert (outcome.status, outcome.sent, outcome.final, server.asked) == (0, False, True, [])
