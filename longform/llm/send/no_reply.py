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
TOO_LARGE = "its headers are too large"
PERHAPS_TLS = "if that port speaks TLS, begin base_url with https://"
PERHAPS_PLAIN = "if that port speaks plain HTTP, begin base_url with http://"
AUTHORITY = "check base_url or, for a private authority, set SSL_CERT_FILE to the file with its certificate"
EXPIRED = "have the server's certificate renewed"
PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


class NoReply(NamedTuple):
    """Why no whole reply came. `sent`: the server may have got the request. `final`: it cannot pass by itself. `hint`:
    what to change, where that may help.
    """

    words: str
    sent: bool = True
    final: bool = False
    hint: str = ""


def no_reply(error: BaseException, *, timed_out: str, received: int | None, tls: bool = False) -> NoReply:
    """Why no whole reply came, by the error or those that it came from. `timed_out`: the words for a time-out;
    `received`: bytes of the body that had come, None where the head had not. `tls`: the address has https.
    """
    known = (_cause(each, timed_out, tls) for each in _chain(error))
    found = next((cause for cause in known if cause), NoReply(_lost(received)))
    perhaps_tls = not tls and received is None and found.sent and not found.hint and found.words != TOO_LARGE
    return found._replace(hint=PERHAPS_TLS) if perhaps_tls else found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, the one that it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cause(error: BaseException, timed_out: str, tls: bool) -> NoReply | None:
    """What this error says by itself; None where it says only that the connection is lost."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return NoReply("no connection was made in time", sent=False, hint=PERHAPS_PLAIN if tls else "")
        case TimeoutError():
            return NoReply(timed_out, hint="raise timeout_seconds if the model needs longer")
        case aiohttp.ClientConnectorError():
            return _no_connection(error)
        case aiohttp.ClientHttpProxyError():
            return NoReply(f"the proxy refused the connection ({error.status})", sent=False)
        case BadHttpMessage() if not isinstance(error, PayloadEncodingError):
            too_large = isinstance(error, LineTooLong) or "Too many headers" in error.message
            return NoReply(TOO_LARGE if too_large else "its reply is no valid HTTP")
        case aiohttp.NonHttpUrlClientError() | ValueError():
            return NoReply("its address, or its proxy's, cannot be used", sent=False, final=True, hint="check both")
    return None


def _no_connection(error: aiohttp.ClientConnectorError) -> NoReply:
    """Why no connection was made."""
    why, where = error.os_error, at(error.host, error.port)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        if why.errno in NO_SUCH_NAME:
            return NoReply(f"the name {error.host} cannot be found", sent=False, final=True, hint="check base_url")
        return NoReply(f"the name {error.host} cannot be looked up at present", sent=False)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        invalid = error.certificate_error
        reason = getattr(invalid, "verify_message", "").rstrip(".") or type(invalid).__name__
        hint = EXPIRED if "expired" in reason else AUTHORITY
        return NoReply(f"the certificate of {error.host} is not valid: {reason}", sent=False, final=True, hint=hint)
    if isinstance(why, ssl.SSLError) and not isinstance(why, PASSING_TLS):
        reason = (why.reason or "no handshake").replace("_", " ").lower()
        return NoReply(f"{where} does not speak TLS as asked: {reason}", sent=False, final=True, hint=PERHAPS_PLAIN)
    if why.errno == errno.ECONNREFUSED:
        hint = "start the server, or check base_url"
        return NoReply(f"nothing listens at {where}: connection refused", sent=False, final=True, hint=hint)
    reason = os.strerror(why.errno).lower() if why.errno and why.errno > 0 else type(why).__name__
    return NoReply(f"no connection to {where}: {reason}", sent=False)


def _lost(received: int | None) -> str:
    """The words for a connection that was lost."""
    return f"the connection was lost {'before a reply' if received is None else f'after {received:,} bytes'}"


def at(host: str, port: int | None) -> str:
    """Host and port in messages."""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
