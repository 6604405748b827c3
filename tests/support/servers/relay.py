"""A TCP relay: the address of a server that can go away and come back at once, as another process."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


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
