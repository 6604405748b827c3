"""Listening of a stand-in: a web application is served at an address until its block ends or the process is stopped."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

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
