"""One request and its reply on the wire: no cookies, no ~/.netrc, no redirects of its own, bounded time and bytes.

requests alone would read the body of a redirect whole, send what ~/.netrc holds, wait for ever on a server that
sends a byte now and then, and name query strings (signatures, keys) in its errors and urllib3's warnings.
Proxies and certificates of the environment (HTTPS_PROXY, NO_PROXY, REQUESTS_CA_BUNDLE) are used.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError as Urllib3Error
from urllib3.exceptions import LocationParseError

from longform.errors import SourceError, UsageError

CHUNK = 1 << 16
GZIP = 47  # zlib's word for: a gzip or zlib header, whichever is there
NO_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, LocationParseError, UnicodeError)
READ_ERRORS = (requests.RequestException, Urllib3Error, HTTPException, OSError, ValueError)


class Dropped(Exception):
    """A try that failed for a reason that may pass: `str` says which; `response` where there was one."""

    def __init__(self, why: str, response: requests.Response | None = None) -> None:
        super().__init__(why)
        self.response = response


class Overlong(Dropped):
    """More came than the server announced."""


def shown(url: str) -> str:
    """An address as it may be written down: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that is none"
    return f"{parts.scheme}://{host}{parts.path}" if host else url.partition("?")[0].rpartition("@")[2][:200]


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host, port; SourceError for anything but http and https with a host and without a user."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SourceError(f"{shown(url)} is no address: correct it.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise SourceError(
            f"{shown(url)!r} is no address of the web: it must begin with http:// or https:// and a host."
        )
    if "@" in parts.netloc:
        raise SourceError(f"The address {shown(url)} holds a user or password: give it without.")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


class _Anonymous(requests.auth.AuthBase):
    """Sends nothing; that it is there keeps requests from looking into ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:
        return None  # else requests would read the body of a redirect, however long it is


class Watch:
    """The connection that a request is sent over, which may be cut from another thread."""

    connection: Any = None
    cut = False

    def end(self) -> None:
        self.cut = True
        sock = getattr(self.connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def sees(self, connection: Any) -> None:
        """Before it connects and when it has: where the time was up already, nothing is sent."""
        self.connection = connection
        if self.cut:
            raise TimeoutError


class _InFlight(threading.local):
    watch: Watch | None = None


IN_FLIGHT = _InFlight()


def _seen(connection: Any) -> None:
    if IN_FLIGHT.watch:
        IN_FLIGHT.watch.sees(connection)


class _Connection(HTTPConnection):
    reply: HTTPResponse | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.response_class: Any = self._new_reply

    def _new_reply(self, *args: Any, **options: Any) -> HTTPResponse:
        self.reply = HTTPResponse(*args, **options)
        return self.reply

    def request(self, *args: Any, **options: Any) -> None:
        _seen(self)
        super().request(*args, **options)

    def connect(self) -> None:
        _seen(self)
        super().connect()
        _seen(self)


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _Adapter(HTTPAdapter):
    """Connections that `deadline` can reach."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager


def new_session(user_agent: str) -> requests.Session:
    session = _Session()
    session.auth = _Anonymous()
    session.cookies = RequestsCookieJar(DefaultCookiePolicy(allowed_domains=[]))
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": "gzip"})
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(pool_connections=16, pool_maxsize=32, max_retries=0))
    _quiet_queries()
    return session


def _quiet_queries() -> None:
    """Have urllib3's warnings and debug lines name no query: it may hold a key."""
    for name in ("urllib3.connectionpool", "urllib3.connection"):
        logging.getLogger(name).addFilter(_without_queries)  # once, however often it is added


def _without_queries(record: logging.LogRecord) -> bool:
    record.msg, record.args, record.exc_info = re.sub(r"\?[^\s\"')]*", "?…", record.getMessage()), (), None
    return True


def send(
    session: requests.Session, request: requests.Request, timeout: tuple[float, float], within: float
) -> requests.Response:
    """The head of the reply, whose body is still to be read; Dropped where the connection failed."""
    prepared = _prepared(session, request)
    try:
        settings = session.merge_environment_settings(prepared.url or "", {}, True, None, None)
        with deadline(within):
            return session.send(prepared, timeout=timeout, allow_redirects=False, **settings)
    except requests.exceptions.SSLError:
        raise SourceError(f"The certificate of {shown(request.url)} is not valid: nothing was asked of it.") from None
    except requests.exceptions.ProxyError:
        raise Dropped("cannot be reached through the proxy of the environment") from None
    except requests.exceptions.ConnectTimeout:
        raise Dropped(f"gave no connection in {timeout[0]:g} s") from None
    except requests.exceptions.Timeout:
        raise Dropped(f"sent nothing for {timeout[1]:g} s") from None
    except NO_ADDRESS:
        raise SourceError(f"{shown(request.url)} is no address: correct it.") from None
    except READ_ERRORS as error:
        raise Dropped(_connection_words(error)) from None


def _prepared(session: requests.Session, request: requests.Request) -> requests.PreparedRequest:
    try:
        prepared = session.prepare_request(request)
        "".join(map(str, prepared.headers.values())).encode("latin-1")  # as they are sent
        return prepared
    except (requests.exceptions.InvalidHeader, UnicodeEncodeError):
        raise UsageError(f"A header for {shown(request.url)} holds characters that none may: check the key.") from None
    except (requests.RequestException, ValueError):
        raise SourceError(f"{shown(request.url)} is no address: correct it.") from None


def _connection_words(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, requests.exceptions.InvalidHeader) or "BadStatusLine" in text:
        return "answered with a damaged head"
    if "Name or service" in text or "resolve" in text:
        return "has a host that is not known"
    return "refused the connection" if "refused" in text else "dropped the connection"


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Cut the connection of the request that is sent in here, if the head of its reply has not come by then."""
    IN_FLIGHT.watch = watch = Watch()
    timer = threading.Timer(seconds, watch.end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except READ_ERRORS:
        if not watch.cut:
            raise
    finally:
        timer.cancel()
        IN_FLIGHT.watch = None
    if watch.cut:
        raise Dropped(f"sent no whole head of a reply in {seconds:g} s")


def chunks(response: requests.Response, *, strict: bool = False) -> Iterator[bytes]:
    """The body as it comes, not decoded; Dropped where it ends before its Content-Length or its last chunk.

    `strict`: Overlong where more comes than its Content-Length, which else is left unread.
    """
    left, raw, more = promised(response), response.raw, False
    try:
        while left is None or left > 0:
            more = strict and left == 1 and _waiting(raw) > 1
            chunk = raw.read1(CHUNK if left is None else min(CHUNK, left - (left > 1)), decode_content=False)
            if not chunk:
                break
            left = None if left is None else left - len(chunk)
            yield chunk
        if left == 0:
            raw.read1(1, decode_content=False)  # nothing comes; urllib3 sees the end, and keeps the connection
    except READ_ERRORS as error:
        raise Dropped(_end_words(left, silent="timed out" in str(error))) from None
    if left:
        raise Dropped(_end_words(left))
    if more:
        raise Overlong(f"sends more than the {promised(response):,} bytes it announces")


def _end_words(left: int | None, *, silent: bool = False) -> str:
    what = "sent nothing for too long" if silent else "dropped the connection"
    return f"{what}, {left:,} bytes before the end" if left else what


def _waiting(raw: Any) -> int:
    """Bytes that have come and were not read, when the last byte of a body is to be read: 1 of an honest server."""
    reply = getattr(raw.connection, "reply", None)
    return len(reply.peek(2)) if reply is not None else 1


def promised(response: requests.Response) -> int | None:
    """The length of the body, where the server says it."""
    text = response.headers.get("Content-Length", "")
    if "chunked" in response.headers.get("Transfer-Encoding", "").lower():
        return None
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def delimited(response: requests.Response) -> bool:
    """Whether the end of the body can be told from a dropped connection."""
    return promised(response) is not None or "chunked" in response.headers.get("Transfer-Encoding", "").lower()


def body(response: requests.Response, *, limit: int, within: float) -> bytes:
    """The decoded body; SourceError where it is larger than `limit`, Dropped where it is not whole in `within` s."""
    end = time.monotonic() + within
    content, decode = bytearray(), decoder(response)
    large = SourceError(f"{shown(response.url)} answers with more than {limit:,} bytes: that is not read.")
    if (promised(response) or 0) > limit:
        raise large
    for chunk in chunks(response):
        content += decode(chunk, limit + 1 - len(content))
        if len(content) > limit:
            raise large
        if time.monotonic() > end:
            raise Dropped(f"did not send its whole reply in {within:g} s")
    if not content and not delimited(response) and response.status_code == 200:
        raise Dropped("dropped the connection before its reply")
    return bytes(content)


def decoder(response: requests.Response) -> Any:
    """(chunk, at most) -> decoded bytes: never more than asked for, however well the rest is packed."""
    name = response.headers.get("Content-Encoding", "").strip().lower()
    if name in ("", "identity"):
        return lambda chunk, at_most: chunk
    if name not in ("gzip", "x-gzip", "deflate"):
        raise SourceError(f"{shown(response.url)} answers in the encoding {name[:20]!r}, which was not asked for.")
    return _Gunzip(shown(response.url))


class _Gunzip:
    def __init__(self, where: str) -> None:
        self.where, self.packed = where, zlib.decompressobj(GZIP)

    def __call__(self, chunk: bytes, at_most: int) -> bytes:
        """Members one after the other; what follows a member and is none is left out, as gzip does."""
        out = b""
        try:
            while chunk and len(out) < at_most:
                if self.packed.eof:
                    self.packed = zlib.decompressobj(GZIP)
                out += self.packed.decompress(chunk, at_most - len(out))
                chunk = self.packed.unused_data if self.packed.eof else self.packed.unconsumed_tail
        except zlib.error:
            raise SourceError(f"{self.where} says that its answer is gzip, but it is not.") from None
        return out
