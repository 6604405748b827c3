"""A real HTTP server on this machine that answers as a test scripts it: ranges, drops, wrong lengths, refusals.

    with serve() as server:
        server.on("/a.json", Answer(503, headers={"Retry-After": "2"}), Answer(body=b"{}"))   # the last one repeats
        server.on("/dump.7z", Answer(body=content, etag='"1"', ranges=True, drop_after=1_000))
        Http().get(server.url + "/a.json")
        assert [asked.path for asked in server.asked] == ["/a.json", "/a.json"]

An answer may also be a function of what was asked.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request that the server received; header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass(frozen=True)
class Answer:
    """What is sent. `length` is the Content-Length that is claimed: None the true one, -1 none at all.

    `drop_after` bytes of the body the connection is cut; `drip` seconds lie between single bytes; `head_drip` the
    same for the head; `ranges` answers Range, honouring If-Range against `etag` or `last_modified`.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    chunked: bool = False
    drop_after: int | None = None
    drip: float | None = None
    head_drip: float | None = None
    delay: float = 0.0
    ranges: bool = False
    etag: str | None = None
    last_modified: str | None = None


Scripted = Answer | Callable[[Asked], Answer]


def document(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer with a JSON document."""
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of 5, as it is else, a busy machine drops the connections of many threads


class Server:
    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.asked: list[Asked] = []
        self.scripts: dict[str, list[Scripted]] = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        handler = type("Handler", (_Handler,), {"script": self})
        self.http = _Listener((host, port), handler)
        self.url = f"http://{host}:{self.http.server_port}"

    def on(self, path: str, *answers: Scripted) -> None:
        """Script a path; `*` is every path that has no script."""
        self.scripts[path] = list(answers)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def next(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            script = self.scripts.get(asked.path) or self.scripts.get("*") or [Answer(404, b"not here")]
            answer = script.pop(0) if len(script) > 1 else script[0]
        return answer if isinstance(answer, Answer) else answer(asked)


@contextmanager
def serve(host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    server = Server(host, port)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle(self) -> None:
        with suppress(OSError):  # the client left
            super().handle()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body, time.monotonic())
        answer = self.script.next(asked)
        self._wait(answer.delay)
        self._send(answer, asked)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = _answer  # noqa: N815

    def _send(self, answer: Answer, asked: Asked) -> None:
        status, body, headers = answer.status, answer.body, dict(answer.headers)
        if answer.etag:
            headers["ETag"] = answer.etag
        if answer.last_modified:
            headers["Last-Modified"] = answer.last_modified
        if answer.ranges and status == 200:
            status, body, more = _ranged(answer, asked)
            headers.update(more)
        self._head(status, answer, headers, len(body))
        if asked.method != "HEAD":
            self._body(body, answer)
        if answer.length not in (None, len(body)) or answer.drop_after is not None:
            self._cut()

    def _head(self, status: int, answer: Answer, headers: Mapping[str, str], length: int) -> None:
        lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Scripted'}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if answer.chunked:
            lines.append("Transfer-Encoding: chunked")
        elif answer.length != -1:
            lines.append(f"Content-Length: {length if answer.length is None else answer.length}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        for at in range(len(head)) if answer.head_drip else ():
            self.wfile.write(head[at : at + 1])
            self._wait(answer.head_drip or 0)
        if not answer.head_drip:
            self.wfile.write(head)

    def _body(self, body: bytes, answer: Answer) -> None:
        sent = body if answer.drop_after is None else body[: answer.drop_after]
        step = 1 if answer.drip else 1 << 16
        for at in range(0, len(sent), step):
            piece = sent[at : at + step]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.chunked else piece)
            self._wait(answer.drip or 0)
        if answer.chunked and answer.drop_after is None:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self, seconds: float) -> None:
        if seconds and self.script.stopping.wait(seconds):
            raise ConnectionAbortedError("the test is over")

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


def _ranged(answer: Answer, asked: Asked) -> tuple[int, bytes, dict[str, str]]:
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.headers.get("range", ""))
    same = asked.headers.get("if-range") in (None, answer.etag, answer.last_modified)
    total = len(answer.body)
    if not found or not same:
        return 200, answer.body, {"Accept-Ranges": "bytes"}
    start, end = int(found[1]), min(int(found[2] or total - 1), total - 1)
    if start >= total:
        return 416, b"", {"Content-Range": f"bytes */{total}"}
    return 206, answer.body[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{total}"}
