"""HTTP/1.1 for the stand-in, by hand, because it must also break it: resets, drips, bodies that end too early."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

HEAD_BYTES = 64 << 10
JSON_BYTES = 32 << 20
CHUNK_DIGITS = 16
DRIP_SECONDS = 0.2
LINGER_SECONDS = 2.0

Way = Literal["whole", "truncated", "drip", "reset"]


@dataclass(slots=True)
class Reply:
    """What is sent, and how: whole, cut in the middle, over so many `seconds`, or as a reset of the connection."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"
    way: Way = "whole"
    seconds: float = 0.0


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def as_json(document: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(document, separators=(",", ":")).encode())


def error_document(
    message: str, kind: str = "invalid_request_error", parameter: str | None = None, code: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def refusal(status: int, message: str, parameter: str | None = None, code: str | None = None) -> Refused:
    """An error of the caller, in OpenAI's shape."""
    return Refused(as_json(error_document(message, "invalid_request_error", parameter, code), status))


@dataclass(slots=True)
class Asked:
    """A request whose head has come; names of headers are in small letters."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    kept_open: bool
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    unread: bool = True

    async def read(self, limit: int = JSON_BYTES) -> bytes:
        """The body. Raises Refused with 413 above `limit` bytes, 400 where its length makes no sense."""
        if "100-continue" in self.headers.get("expect", "").lower():
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        coding = self.headers.get("transfer-encoding", "").strip().lower()
        if coding and coding != "chunked":
            raise refusal(501, f"The transfer encoding {coding[:40]} is not known here.")
        body = await (_chunked(self.reader, limit) if coding else self._counted(limit))
        self.unread = False
        return body

    async def _counted(self, limit: int) -> bytes:
        length = self.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise refusal(400, "The content-length is no number.")
        if len(length) > CHUNK_DIGITS or int(length) > limit:
            raise _too_large(limit)
        return await self.reader.readexactly(int(length))


Handle = Callable[[Asked], Awaitable[Reply]]


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handle) -> None:
    """Answer one request after the other until either side closes the connection."""
    try:
        while await _answered(reader, writer, handle):
            pass
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handle) -> bool:
    """Whether the connection stays open."""
    asked: Asked | None = None
    try:
        asked = await _head(reader, writer)
        if asked is None:
            return False
        reply = await handle(asked)
    except Refused as refused:
        reply = refused.reply
    if reply.way == "reset":
        _reset(writer)
        return False
    stays = asked is not None and asked.kept_open and _is_read(asked)
    await _send(writer, reply, stays, bodiless=asked is not None and asked.method == "HEAD")
    if not stays:
        await _linger(reader, writer)
    return stays and reply.way != "truncated"


async def _head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    """The next request; None where the other side closed the connection instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise refusal(431, f"The head of the request is longer than {HEAD_BYTES} bytes.") from None
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise
        return None
    first, *lines = head.decode("latin-1").lstrip("\r\n").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise refusal(400, "This is no HTTP/1.1 request.")
    method, target, version = words
    path, _, query = target.partition("?")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    kept = headers.get("connection", "").lower() != "close" and version == "HTTP/1.1"
    return Asked(method, unquote(path), dict(parse_qsl(query)), headers, kept, reader, writer)


def _is_read(asked: Asked) -> bool:
    sent = asked.headers.get("content-length", "0") != "0" or "transfer-encoding" in asked.headers
    return not (asked.unread and sent)


async def _chunked(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = bytearray()
    try:
        while size := await _chunk_size(reader):
            if len(body) + size > limit:
                raise _too_large(limit)
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readuntil(b"\r\n")).strip():
            pass
    except (ValueError, asyncio.LimitOverrunError):
        raise refusal(400, "The chunks of the body make no sense.") from None
    return bytes(body)


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    digits = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
    if not digits or len(digits) > CHUNK_DIGITS:
        raise ValueError
    return int(digits, 16)


def _too_large(limit: int) -> Refused:
    return refusal(413, f"The body is larger than {limit >> 20} MB.", code="request_too_large")


async def _send(writer: asyncio.StreamWriter, reply: Reply, stays: bool, *, bodiless: bool) -> None:
    headers = {"content-type": reply.media, "content-length": str(len(reply.body)), **reply.headers}
    if not stays or reply.way == "truncated":
        headers["connection"] = "close"
    phrase = HTTPStatus(reply.status).phrase
    lines = [f"HTTP/1.1 {reply.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
    body = b"" if bodiless else reply.body
    if reply.way == "drip":
        writer.write(head)
        await _drip(writer, body, reply.seconds)
    else:
        writer.write(head + (body[: len(body) // 2] if reply.way == "truncated" else body))
    await writer.drain()


async def _drip(writer: asyncio.StreamWriter, body: bytes, seconds: float) -> None:
    """A little every fifth of a second, so that no single read takes long."""
    drops = max(1, round(seconds / DRIP_SECONDS))
    size = -(-len(body) // drops)
    pause = seconds / max(1, -(-len(body) // max(1, size)))
    for at in range(0, len(body), max(1, size)):
        await asyncio.sleep(pause)
        writer.write(body[at : at + size])
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Abort the connection so that the other side sees a reset, not an end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read on for a while what the other side still sends: closing at once would take the reply from it."""
    if writer.can_write_eof() and not writer.transport.is_closing():
        writer.write_eof()
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while await reader.read(HEAD_BYTES):
                pass
    except TimeoutError:
        pass
