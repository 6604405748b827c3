"""Faults of servers, byte for byte: each download ends with the right bytes or with a clear error, and never leaves a
wrong file under the file's name.

A fault is the replies of one server, a reply a connection; the last one repeats. What happens after the fault is a
healthy server in most cases, as it is the reply after a fault that makes a corrupt file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from raw_server import raw_server, read_request

from longform.errors import LongformError
from longform.net.download import Downloader

FILE = Random(17).randbytes(40_000)
OTHER = Random(18).randbytes(40_000)
SHORT = OTHER[:25_000]
TAG = 'ETag: "one"'
STAMP = ("Last-Modified: Mon, 05 Jan 2026 10:00:00 GMT", "Date: Mon, 05 Jan 2026 12:00:00 GMT")
Reply = Callable[[bytes], bytes]


def head(status: int, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} Said", "Connection: close", *lines, "", ""]).encode()


def full(body: bytes = FILE, *lines: str, sent: int | None = None, length: int | None = None) -> Reply:
    """200 with a Content-Length (`length`: another than the body's), of which the first `sent` bytes come."""
    announced = f"Content-Length: {len(body) if length is None else length}"
    return lambda request: head(200, announced, *lines) + body[:sent]


def endless(body: bytes = FILE, *lines: str, sent: int | None = None) -> Reply:
    """200 without a length, ended by closing the connection."""
    return lambda request: head(200, *lines) + body[:sent]


def chunked(body: bytes = FILE, *lines: str, ending: bytes = b"0\r\n\r\n", step: int = 9_000) -> Reply:
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return lambda request: head(200, "Transfer-Encoding: chunked", *lines) + sent + ending


def asked_from(request: bytes) -> int | None:
    found = re.search(rb"(?im)^range: bytes=(\d+)-", request)
    return int(found[1]) if found else None


def healthy(body: bytes = FILE, *lines: str) -> Reply:
    """A good server: 206 to a Range whose If-Range (if any) names this version, 416 beyond the end, else 200."""

    def reply(request: bytes) -> bytes:
        start, condition = asked_from(request), re.search(rb"(?im)^if-range: (.*?)\r", request)
        same = condition is None or any(condition[1].decode() in line for line in lines)
        if start is None or not same:
            return full(body, *lines)(request)
        if start >= len(body):
            return head(416, f"Content-Range: bytes */{len(body)}", "Content-Length: 0", *lines)
        return part(body, *lines)(request)

    return reply


def part(body: bytes = FILE, *lines: str, shift: int = 0, total: Any = None, sent: int | None = None) -> Reply:
    """206 from the byte that was asked for; the body `shift` bytes off, and the `total` as told."""

    def reply(request: bytes) -> bytes:
        start = asked_from(request)
        if start is None:
            return full(body, *lines)(request)
        told = f"Content-Range: bytes {start}-{len(body) - 1}/{len(body) if total is None else total}"
        rest = body[start + shift :] + bytes(max(0, shift))
        return head(206, told, f"Content-Length: {len(rest)}", *lines) + rest[:sent]

    return reply


def said(status: int, *lines: str, body: bytes = b"") -> Reply:
    """Whatever was asked for: this status, these lines, this body."""
    return lambda request: head(status, f"Content-Length: {len(body)}", *lines) + body


def raw(answer: bytes) -> Reply:
    return lambda request: answer


def ranged(status: int, value: str, body: bytes) -> Reply:
    """Content-Range as given to a request with a Range; a healthy 200 without one."""

    def reply(request: bytes) -> bytes:
        if asked_from(request) is None:
            return full(FILE, TAG)(request)
        return said(status, f"Content-Range: {value}", TAG, body=body)(request)

    return reply


@dataclass(frozen=True)
class Fault:
    """`ends`: the bytes of the file, or a word of the error. `name`: the file's. `known`: what the caller knows."""

    name: str
    replies: list[Reply]
    ends: bytes | str
    file: str = "a.bin"
    known: dict[str, Any] = field(default_factory=dict)


BROKEN = full(FILE, TAG, sent=15_000)
UNTAGGED = full(FILE, sent=15_000)
DATED = full(FILE, *STAMP, sent=15_000)
SIZE: dict[str, Any] = {"size": len(FILE)}
SHA256: dict[str, Any] = {"sha256": hashlib.sha256(FILE).hexdigest()}
TWICE = gzip.compress(gzip.compress(FILE, mtime=0), mtime=0)

FAULTS = [
    Fault("connection closed early", [BROKEN, healthy(FILE, TAG)], FILE),
    Fault(
        "always closed at the same byte", [lambda asked: part(FILE, TAG, sent=100)(asked)[:15_000]], "before the end"
    ),
    Fault("closed before the reply", [raw(b""), healthy()], FILE),
    Fault("closed within the head", [raw(b"HTTP/1.1 200 OK\r\nContent-Le"), healthy()], FILE),
    Fault("no HTTP at all", [raw(b"220 ftp ready\r\n"), healthy()], FILE),
    Fault("a head without end", [raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5_000), healthy()], FILE),
    # ---- one ETag, two lengths
    Fault("same strong ETag, shorter 200", [BROKEN, full(SHORT, TAG)], "same ETag"),
    Fault("same strong ETag, longer 200", [BROKEN, full(FILE + SHORT, TAG)], "same ETag"),
    Fault("same strong ETag, shorter by its own bytes", [BROKEN, full(FILE[:30_000], TAG)], "same ETag"),
    Fault("same strong ETag, another total of 206", [BROKEN, part(FILE[:30_000], TAG)], "same ETag"),
    Fault("same strong ETag by If-Range alone, another total", [BROKEN, part(FILE[:30_000])], "same ETag"),
    Fault("same strong ETag, shrunk by 416", [BROKEN, ranged(416, "bytes */9000", b"")], "same ETag"),
    Fault("same strong ETag, 416 at what came", [BROKEN, ranged(416, "bytes */15000", b"")], "same ETag"),
    Fault("same strong ETag, chunked and shorter", [BROKEN, chunked(SHORT, TAG)], "sent only"),
    Fault("same strong ETag, chunked and longer", [BROKEN, chunked(FILE + SHORT, TAG)], "more than"),
    Fault("same strong ETag, chunked and right", [BROKEN, chunked(FILE, TAG)], FILE),
    Fault("wrong bytes, then another length", [BROKEN, part(OTHER, TAG), full(SHORT, TAG)], "same ETag"),
    Fault("same strong ETag, no length, cut", [BROKEN, endless(FILE, TAG, sent=20_000)], "sent only"),
    Fault("same strong ETag, no length, whole", [BROKEN, endless(FILE, TAG)], FILE),
    # ---- files that did change
    Fault("new ETag and length", [BROKEN, healthy(SHORT, 'ETag: "two"')], SHORT),
    Fault("new ETag in a 206", [BROKEN, part(OTHER, 'ETag: "two"'), healthy(OTHER, 'ETag: "two"')], OTHER),
    Fault("new weak ETag", [full(FILE, 'ETag: W/"1"', sent=15_000), healthy(SHORT, 'ETag: W/"2"')], SHORT),
    Fault("changed without ETag", [UNTAGGED, part(OTHER), healthy(OTHER)], OTHER),
    Fault("shrunk to less than what came", [UNTAGGED, healthy(FILE[:9_000])], FILE[:9_000]),
    Fault("shrunk to what came", [UNTAGGED, healthy(FILE[:15_000])], FILE[:15_000]),
    Fault("shrunk to a little more than what came", [UNTAGGED, healthy(FILE[:15_100])], FILE[:15_100]),
    Fault("grown", [UNTAGGED, healthy(FILE + OTHER)], FILE + OTHER),
    Fault("same date, other bytes", [DATED, part(OTHER, *STAMP), healthy(OTHER, *STAMP)], OTHER),
    # ---- ranges
    Fault("200 to a Range", [BROKEN, full(FILE, TAG)], FILE),
    Fault("206 from another byte", [BROKEN, ranged(206, "bytes 0-39999/40000", FILE), healthy(FILE, TAG)], FILE),
    Fault("206 with shifted bytes", [BROKEN, part(FILE, TAG, shift=1), healthy(FILE, TAG)], FILE),
    Fault("206 without Content-Range", [BROKEN, said(206, body=FILE[14_744:]), healthy(FILE, TAG)], FILE),
    Fault("206 without any total", [BROKEN, part(FILE, TAG, total="*")], FILE),
    Fault("206 that ends before its start", [BROKEN, ranged(206, "bytes 14744-3/40000", FILE), healthy()], FILE),
    Fault("206 that ends after its total", [BROKEN, ranged(206, "bytes 14744-50000/40000", FILE), healthy()], FILE),
    Fault(
        "206 with more bytes than its range",
        [BROKEN, ranged(206, "bytes 14744-39999/40000", FILE[14_744:] + b"more"), healthy(FILE, TAG)],
        FILE,
    ),
    Fault("206 of a little, again and again", [BROKEN, part(FILE, TAG, sent=9_000)], FILE),
    Fault(
        "206 in several parts", [BROKEN, said(206, "Content-Type: multipart/byteranges", body=OTHER), healthy()], FILE
    ),
    Fault("206 to no Range", [said(206, "Content-Range: bytes 0-39999/40000", body=FILE)], "206 to a request for all"),
    Fault("206 always from another byte", [BROKEN, said(206, "Content-Range: bytes 1-39999/40000", body=FILE)], "206"),
    Fault("416 without a total", [UNTAGGED, said(416), healthy()], FILE),
    Fault("416 for ever", [UNTAGGED, said(416, "Content-Range: bytes */7")], "416"),
    Fault("416 that says there is no more", [UNTAGGED, said(416, "Content-Range: bytes */15000"), healthy()], FILE),
    # ---- lengths
    Fault("no length, nothing known", [endless()], "does not say where its file ends"),
    Fault("no length, cut, size known", [endless(FILE, sent=30_000), healthy()], FILE, known=SIZE),
    Fault("no length, always cut, size known", [endless(FILE, sent=30_000)], "sent only", known=SIZE),
    Fault("no length, too much, size known", [endless(FILE + OTHER)], "more than", known=SIZE),
    Fault("no length, whole, digest known", [endless()], FILE, known=SHA256),
    Fault("no length, cut, digest known", [endless(FILE, sent=30_000)], "sha256", known=SHA256),
    Fault("a 206 without length, cut", [BROKEN, lambda r: part(FILE, TAG)(r).replace(b"ength", b"")[:9_000]], FILE),
    Fault("less than announced", [full(FILE, TAG, length=40_100)], "100 bytes before the end"),
    Fault("more than announced", [full(FILE, TAG, length=39_000)], "more than the 39,000"),
    Fault("announced length is another than known", [full(SHORT)], "25,000 bytes where 40,000", known=SIZE),
    Fault("two lengths", [said(200, "Content-Length: 7", body=FILE), healthy()], FILE),
    Fault("a length that is no number", [raw(head(200, "Content-Length: many") + FILE)], "where its file ends"),
    Fault("a negative length", [raw(head(200, "Content-Length: -5") + FILE)], "where its file ends"),
    Fault("right length, wrong bytes, digest known", [full(OTHER)], "sha256", known=SHA256),
    # ---- chunks
    Fault("chunks without the last one", [chunked(FILE, TAG, ending=b""), healthy(FILE, TAG)], FILE),
    Fault("always without the last chunk", [chunked(FILE, TAG, ending=b"")], "dropped the connection"),
    Fault("a chunk whose size is none", [chunked(FILE, ending=b"xyz\r\n"), healthy()], FILE),
    Fault("a chunk that is cut", [chunked(FILE, ending=b"ffff\r\nabc"), healthy()], FILE),
    Fault("chunks and a length", [lambda r: chunked(FILE, "Content-Length: 9")(r)], FILE),
    # ---- packing and pages
    Fault("packed unasked", [full(gzip.compress(FILE), "Content-Encoding: gzip")], "packed"),
    Fault("packed unasked in another way", [full(FILE, "Content-Encoding: br")], "packed"),
    Fault("packed twice", [full(TWICE, "Content-Encoding: gzip")], "packed", file="a.gz"),
    Fault("packed by its transfer", [full(gzip.compress(FILE), "Transfer-Encoding: gzip")], "packed"),
    Fault(
        "packed chunks by their transfer",
        [lambda r: chunked(zlib.compress(FILE))(r).replace(b"chunked", b"deflate, chunked")],
        "packed",
    ),
    Fault("gzip cut, length announced", [full(TWICE, sent=-8)], "8 bytes before the end", file="a.gz"),
    Fault("a page of a login", [said(200, "Content-Type: text/html", body=b"<html>log in</html>")], "a page"),
    Fault("a page to a Range", [BROKEN, said(200, "Content-Type: text/html", body=b"<html>")], "a page"),
    Fault("no content", [said(204)], "204"),
    Fault("not modified", [BROKEN, said(304, TAG)], "304"),
    Fault("early hints for an answer", [raw(b"HTTP/1.1 103 Hints\r\n\r\n")], "103"),
    Fault("empty for a moment", [raw(head(200)), healthy()], FILE),
    # ---- errors in between
    Fault("busy, then the rest", [BROKEN, said(503, "Retry-After: 0"), healthy(FILE, TAG)], FILE),
    Fault("an error with a long body", [BROKEN, said(500, body=OTHER * 3), healthy(FILE, TAG)], FILE),
    Fault("gone in the middle", [BROKEN, said(404)], "404"),
    Fault("redirected to nowhere", [BROKEN, said(302, "Location: http://")], "redirects"),
    Fault("redirected for ever", [said(302, "Location: /again")], "more than 5 redirects"),
    Fault("redirected to a file", [said(302, "Location: file:///etc/hostname")], "not followed"),
]


def server_of(replies: list[Reply]) -> Any:
    def script(reply: Reply) -> Callable[[socket.socket], None]:
        def answer(connection: socket.socket) -> None:
            connection.sendall(reply(read_request(connection)))

        return answer

    return raw_server(*map(script, replies))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_ends_in_the_right_bytes_or_a_clear_error(fault: Fault, tmp_path: Path) -> None:
    place = tmp_path / fault.file
    client = Downloader(sleep=lambda seconds: None, tries=3, timeout_seconds=(5, 5))
    with server_of(fault.replies) as port:
        url = f"http://127.0.0.1:{port}/{fault.file}"
        if isinstance(fault.ends, bytes):
            assert client.download(url, place, **fault.known).path.read_bytes() == fault.ends
            noted = json.loads((tmp_path / f"{fault.file}.fetch.json").read_text())
            assert noted["sha256"] == hashlib.sha256(fault.ends).hexdigest()
            return
        with pytest.raises(LongformError, match=re.escape(fault.ends)):
            client.download(url, place, **fault.known)
    assert not place.exists()
    assert not (tmp_path / f"{fault.file}.fetch.json").exists()


def test_two_lengths_under_one_etag_are_refused_by_the_next_run_too_until_the_part_is_deleted(tmp_path: Path) -> None:
    place, errors = tmp_path / "a.bin", []
    with server_of([BROKEN, full(SHORT, TAG)]) as port:
        for _ in range(2):
            with pytest.raises(LongformError) as refused:
                Downloader(sleep=lambda seconds: None).download(f"http://127.0.0.1:{port}/a.bin", place)
            errors.append(str(refused.value))
            assert not place.exists()
        assert all("25,000 bytes, and 40,000 before" in error for error in errors)
        (tmp_path / "a.bin.part").unlink()
        fetched = Downloader().download(f"http://127.0.0.1:{port}/a.bin", place)
        assert fetched.path.read_bytes() == SHORT


def test_a_connection_that_is_reset_is_gone_on_with(tmp_path: Path) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(BROKEN(read_request(connection)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def rest(connection: socket.socket) -> None:
        connection.sendall(healthy(FILE, TAG)(read_request(connection)))

    with raw_server(reset, rest) as port:
        client = Downloader(sleep=lambda seconds: None)
        fetched = client.download(f"http://127.0.0.1:{port}/a.bin", tmp_path / "a.bin")
    assert fetched.path.read_bytes() == FILE


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [1, 4, 8, 200])
def test_a_packed_reply_without_its_ending_is_no_reply(encoding: str, cut: int) -> None:
    """The length is right, but what is packed in it breaks off."""
    text = json.dumps(list(range(2_000))).encode()
    packed = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)
    replies = [full(packed[:-cut], f"Content-Encoding: {encoding}"), full(packed, f"Content-Encoding: {encoding}")]
    with server_of(replies) as port:
        assert Downloader(sleep=lambda seconds: None).get(f"http://127.0.0.1:{port}/a").content == text
    with server_of(replies[:1]) as port, pytest.raises(LongformError, match="without its ending"):
        Downloader(sleep=lambda seconds: None).get(f"http://127.0.0.1:{port}/a")


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(FILE)),
        ("gzip", gzip.compress(FILE[:10_000]) + gzip.compress(FILE[10_000:])),
        ("x-gzip", gzip.compress(FILE) + bytes(12)),
        ("deflate", zlib.compress(FILE)),
        ("deflate", raw_deflate(FILE)),
    ],
)
def test_packed_replies_of_all_kinds_are_read_whole(encoding: str, packed: bytes) -> None:
    with server_of([full(packed, f"Content-Encoding: {encoding}")]) as port:
        assert Downloader().get(f"http://127.0.0.1:{port}/a").content == FILE
