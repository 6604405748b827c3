"""Replies on aiohttp's server: whole, or as a failing connection sends them."""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections.abc import AsyncIterator

from aiohttp import web

from longform.standin.faults import DRIP_SECONDS, UNREADABLE, Fault, unreadable
from longform.standin.http import Reply

PAUSE_SECONDS = 0.2


def respond(request: web.Request, reply: Reply, fault: Fault | None) -> web.StreamResponse:
    """The reply; reset, cut off in the middle, or in drops where the fault says so."""
    name = fault.name if fault else ""
    if fault and name == "reset":
        return reset(request)
    if name in UNREADABLE:
        reply.body = unreadable(name, reply.body)
    response = web.Response(body=reply.body, status=reply.status, headers=reply.headers, content_type=reply.media)
    if fault and name == "drip":
        response.body = _drops(reply.body, DRIP_SECONDS if fault.seconds is None else fault.seconds)
    elif name == "truncated":
        response.body = reply.body[: len(reply.body) // 2]
        response.force_close()
    if name in ("drip", "truncated"):
        response.headers["Content-Length"] = str(len(reply.body))
    return response


def reset(request: web.Request) -> web.Response:
    """Abort the connection so that the other side sees a reset, not an end; what is returned is never sent."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()


async def _drops(body: bytes, seconds: float) -> AsyncIterator[bytes]:
    """A little every fifth of a second, so that no single read takes long."""
    size = math.ceil(len(body) / max(1, round(seconds / PAUSE_SECONDS))) or 1
    starts = range(0, len(body), size)
    for start in starts:
        await asyncio.sleep(seconds / len(starts))
        yield body[start : start + size]
