"""Listening of a stand-in: a web application is served at an address until its block ends or the process is stopped."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from anyio.from_thread import BlockingPortal

from longform.errors import UsageError

BACKLOG = 1024
SHUTDOWN_SECONDS = 0.1


@asynccontextmanager
async def listening(application: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """Yield the server's URL, without a path, while it listens; afterwards close all connections. Port 0 takes a free
    one. UsageError if it cannot listen there.
    """
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        except (OSError, OverflowError) as error:
            raise UsageError(_cannot_listen(host, port, error)) from None
        taken = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{taken}"
    finally:
        await runner.cleanup()


async def until_stopped() -> None:
    """Return when the process gets SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def _cannot_listen(host: str, port: int, error: OSError | OverflowError) -> str:
    """The message of a UsageError: why the server cannot listen there, and what to choose."""
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken by another program: choose another one with --port."
    why = getattr(error, "strerror", None) or str(error)
    return f"The stand-in cannot listen on port {port} of {host} ({why}): choose others with --host and --port."


class Running:
    """A stand-in that runs in a thread of its own; `url` is its address."""

    def __init__(self, standin: Any, url: str, portal: BlockingPortal) -> None:
        self.url, self._standin, self._portal = url, standin, portal

    def counters(self) -> dict[str, Any]:
        """The counters, as GET /standin/counters returns them."""
        found: dict[str, Any] = self._portal.call(self._standin.counters)
        return found

    def reset(self) -> None:
        """Set all counters to zero."""
        self._portal.call(self._standin.reset)

    def set_faults(self, shares: Mapping[str, float]) -> None:
        """Set the shares of requests that get each fault from now on; {} for none. UsageError for an unknown fault, or
        shares that are not in [0, 1] or add up to more than 1.
        """
        self._portal.call(self._standin.faults.set_shares, shares)

    def script(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines to the script, which says what happens to the next requests one by one; faults.py describes
        them. UsageError for an ill-formed line.
        """
        self._portal.call(self._standin.faults.add_script, lines)
