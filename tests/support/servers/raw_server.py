"""A server on this machine that writes what a test gives it, byte for byte: heads without end, resets, plain TLS.

    with raw_server(Says(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")) as port: ...

Each connection gets the next script, the last one all later connections.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, repeat

Script = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Says:
    """Reads a request, and answers it with these bytes; `reset`: then resets the connection instead of closing it."""

    answer: bytes = b""
    reset: bool = False

    def __call__(self, connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(self.answer)
        if self.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_request(connection: socket.socket) -> bytes:
    """The request on the connection, head and body, by its Content-Length; empty where the client has left."""
    came = b""
    while b"\r\n\r\n" not in came:
        chunk = connection.recv(65_536)
        if not chunk:
            return b""
        came += chunk
    head, _, body = came.partition(b"\r\n\r\n")
    _, _, length = head.lower().partition(b"\r\ncontent-length:")
    while len(body) < int(length.partition(b"\r\n")[0] or 0):
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(*scripts: Script, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of such a server."""
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for script in chain(scripts, repeat(scripts[-1])):
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                threads.append(threading.Thread(target=_talk, args=(script, connection, tls), daemon=True))
                threads[-1].start()

        accepting = threading.Thread(target=serve, daemon=True)
        accepting.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _talk(script: Script, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    with suppress(OSError), connection, tls.wrap_socket(connection, server_side=True) if tls else connection as spoken:
        script(spoken)
