"""A TCP relay: the address of a server that can go away and come back at once, as another process. An HTTP proxy before
a Prefect server that answers some requests itself, with 503, as the server does while its database is locked.
"""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEFT_OUT = ("host", "connection", "content-length", "transfer-encoding", "upgrade", "accept-encoding", "server", "date")


class Relay:
    """Listens at `port` of 127.0.0.1 and passes what it gets to another port of it, both ways."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._listening: socket.socket | None = None
        self._open: list[socket.socket] = []

    def start(self, target: int) -> None:
        """Listen, and pass each connection to the port `target`."""
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", self.port))
        self._listening.listen(64)
        threading.Thread(target=self._accept, args=(self._listening, target), daemon=True).start()

    def stop(self) -> None:
        """Close all connections; from now on they are refused."""
        if self._listening is not None:
            _close(self._listening)
        for each in self._open:
            _close(each)
        self._listening, self._open = None, []

    def _accept(self, listening: socket.socket, target: int) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", target))
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    _close(sink)


def _close(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)  # which wakes a thread that waits in accept or recv
    each.close()


class BusyProxy(ThreadingHTTPServer):
    """`busy` says of a path whether its request gets 503 now; `refused` counts these by path."""

    daemon_threads = True

    def __init__(self, target: str, busy: Callable[[str], bool]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.busy, self.refused = target, busy, Counter[str]()

    @property
    def url(self) -> str:
        """Its address, in place of the server's."""
        return f"http://127.0.0.1:{self.server_address[1]}/api"


@contextmanager
def busy_proxy(target: str, busy: Callable[[str], bool]) -> Iterator[BusyProxy]:
    """A context with a proxy before the Prefect API at `target`."""
    proxy = BusyProxy(target, busy)
    threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BusyProxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.removeprefix("/api")
        if self.server.busy(path):
            self.server.refused[path] += 1
            return self._reply(
                503, {"content-type": "application/json"}, b'{"exception_message": "Service Unavailable"}'
            )
        headers = {name: value for name, value in self.headers.items() if name.lower() not in LEFT_OUT}
        asked = urllib.request.Request(f"{self.server.target}{path}", body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                self._reply(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as error:
            self._reply(error.code, dict(error.headers), error.read())

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in LEFT_OUT:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _pass  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass
