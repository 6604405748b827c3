"""Why no whole reply came, in words, from the HTTP client's exceptions. These contain the request with its API key, so
nothing of their own text is taken over, but for the reason that OpenSSL gives for a certificate.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import aiohttp
import httpx2
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong, PayloadEncodingError

FAILURES = (
    aiohttp.ClientError,
    HttpProcessingError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    OSError,
    ValueError,
)
NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


class NoReply(NamedTuple):
    """Why no whole reply came. `sent`: the server may have got the request. `final`: it cannot pass by itself."""

    words: str
    sent: bool = True
    final: bool = False


def no_reply(error: BaseException, *, timed_out: str, received: int | None) -> NoReply:
    """Why no whole reply came, by the error or those that it came from. `timed_out`: the words for a time-out;
    `received`: bytes of the body that had come, None where the head had not.
    """
    known = (_cause(each, timed_out) for each in _chain(error))
    return next((cause for cause in known if cause), NoReply(_lost(received)))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, the one that it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cause(error: BaseException, timed_out: str) -> NoReply | None:
    """What this error says by itself; None where it says only that the connection is lost."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return NoReply("no connection was made in time", sent=False)
        case TimeoutError():
            return NoReply(timed_out)
        case aiohttp.ClientConnectorError():
            return _no_connection(error)
        case aiohttp.ClientHttpProxyError():
            return NoReply(f"the proxy refused the connection ({error.status})", sent=False)
        case BadHttpMessage() if not isinstance(error, PayloadEncodingError):
            too_large = isinstance(error, LineTooLong) or "Too many headers" in error.message
            return NoReply("its headers are too large" if too_large else "its reply is no valid HTTP")
        case aiohttp.NonHttpUrlClientError() | ValueError():
            return NoReply("its address, or its proxy's, cannot be used", sent=False, final=True)
    return None


def _no_connection(error: aiohttp.ClientConnectorError) -> NoReply:
    """Why no connection was made."""
    why, where = error.os_error, at(error.host, error.port)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        if why.errno in NO_SUCH_NAME:
            return NoReply(f"the name {error.host} cannot be found", sent=False, final=True)
        return NoReply(f"the name {error.host} cannot be looked up at present", sent=False)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        invalid = error.certificate_error
        reason = getattr(invalid, "verify_message", "").rstrip(".") or type(invalid).__name__
        return NoReply(f"the certificate of {error.host} is not valid ({reason})", sent=False, final=True)
    if isinstance(why, ssl.SSLError) and not isinstance(why, PASSING_TLS):
        reason = (why.reason or "no handshake").replace("_", " ").lower()
        return NoReply(f"{where} does not speak TLS as asked ({reason})", sent=False, final=True)
    if why.errno == errno.ECONNREFUSED:
        return NoReply(f"nothing listens at {where} (connection refused)", sent=False, final=True)
    reason = os.strerror(why.errno).lower() if why.errno and why.errno > 0 else type(why).__name__
    return NoReply(f"no connection to {where} ({reason})", sent=False)


def _lost(received: int | None) -> str:
    """The words for a connection that was lost."""
    return f"the connection was lost {'before a reply' if received is None else f'after {received:,} bytes'}"


def at(host: str, port: int | None) -> str:
    """Host and port in messages."""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
