"""TCP ports that no other process can take while a test uses them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 that the system gives to nobody meanwhile, and where nothing listens but who is told to.

    Linux lets a server with SO_REUSEADDR (asyncio, uvicorn, PostgreSQL) listen where another socket is only bound.
    Elsewhere the port is let go, and only likely to stay free.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
        if sys.platform != "linux":
            held.close()
        yield port


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which nothing listens and nothing can start to listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
