"""Sends one HTTP request: no cookies, no ~/.netrc, no redirects, limited time and bytes.

It uses the transport adapter of requests without its session, which would read the body of a redirect whole, keep
cookies and send credentials of ~/.netrc. Added are a time limit for the whole head of a reply (a read timeout limits
single reads only), the refusal of private IP addresses, judged in the very look-up whose addresses are connected to,
and messages without query strings, which may hold signatures or keys. Proxies and certificates of the environment
(HTTPS_PROXY, NO_PROXY, REQUESTS_CA_BUNDLE) are used.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.client import HTTPResponse
from math import inf
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, NameResolutionError, NewConnectionError
from urllib3.exceptions import HTTPError as Urllib3Error

from longform.addresses import shown
from longform.errors import SourceError, UsageError
from longform.net.hosts import CLOSED, SILENT, UNKNOWN, UNREACHABLE, UNRESOLVED, PublicHosts

CHUNK = 1 << 16
ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
NO_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, LocationParseError, UnicodeError)
READ_ERRORS = (requests.RequestException, Urllib3Error, OSError, ValueError)


class Dropped(Exception):
    """Raised for an attempt that failed for a reason that may pass, given as the message. `reply` is the error reply
    (an http.Reply), None if there was none; `reason`: that of Unreached.
    """

    def __init__(self, why: str, reply: Any = None, *, reason: str = UNREACHABLE) -> None:
        super().__init__(why)
        self.reply, self.reason = reply, reason


class Changed(Exception):
    """Raised if the bytes sent are not of the expected file, or not of the file whose download had begun; the message
    says why. The file has to be downloaded again from its start.
    """


class _Connection(HTTPConnection):
    """A connection that times out if connecting (name lookup included) or receiving the head of a reply takes longer
    than its timeout in all. It looks its host up once, and connects to one of the addresses that were judged; behind a
    proxy, which looks names up itself, nothing is judged.

    `hosts` judges them; `public_only`: private IP addresses are refused.
    """

    hosts: PublicHosts
    public_only = False
    server_hostname: str | None = None
    reply: HTTPResponse | None = None
    reading: socket.socket | None = None  # stays when http.client closes `sock`, as it does for the last reply

    def response_class(self, *args: Any, **options: Any) -> HTTPResponse:  # type: ignore[override]
        """The HTTPResponse that http.client is about to read. It is also kept as `reply`, so that `_bytes_at_hand` can
        see bytes after its body.
        """
        self.reply = HTTPResponse(*args, **options)
        return self.reply

    def connect(self) -> None:
        """Connect; ConnectTimeoutError if this took longer than the timeout, Refused as by `PublicHosts`."""
        end = time.monotonic() + (self.timeout or 0)
        if self.proxy:
            super().connect()
        else:
            self._connect_to_one(self._judged(), end)
        if time.monotonic() > end:
            raise ConnectTimeoutError(self, "connected too late")

    def _judged(self) -> list[str]:
        """The IP addresses of the host, judged. NameResolutionError or LocationParseError if there are none."""
        try:
            return self.hosts.addresses(self.host, self.port or self.default_port, public_only=self.public_only)
        except UnicodeError:
            raise LocationParseError(self.host) from None
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from None

    def _connect_to_one(self, addresses: list[str], end: float) -> None:
        """Connect to the first of the addresses that answers, until the time `end`. The name stays what TLS asks for
        and holds the certificate against, and what the header Host says.
        """
        name, self.server_hostname = self.host, self.server_hostname or self.host
        try:
            for address in addresses:
                self.host = address
                try:
                    return super().connect()
                except (NewConnectionError, ConnectTimeoutError):
                    if address == addresses[-1] or time.monotonic() > end:
                        raise
        finally:
            self.host = name

    def getresponse(self) -> Any:
        """The reply, its head read, its body not. TimeoutError if the head has not arrived within the timeout."""
        late, self.reading = threading.Event(), self.sock
        timer = threading.Timer(self.timeout or 0, _cut, [self.sock, late])
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()
        finally:
            timer.cancel()
            if late.is_set():  # a head that was cut parses as a whole one
                raise TimeoutError


def _cut(sock: socket.socket, late: threading.Event) -> None:
    """Set `late` and shut the socket down, which ends a read that waits for the server."""
    late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class _Watch:
    """Shuts a socket down, and sets `late`, when one read of a body takes longer than `seconds` in all: a read timeout
    limits each wait for a byte only, so that trailers or the head of a chunk could drip for ever.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self.late, self._sock, self._seconds = threading.Event(), sock, seconds
        self._end, self._over = inf, threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        """Wait for the end of the body, or of the time for one read of it."""
        while not self._over.wait(min(self._seconds, max(0.01, self._end - time.monotonic()))):
            if time.monotonic() >= self._end:
                return _cut(self._sock, self.late)
        return None

    @contextmanager
    def read(self) -> Iterator[None]:
        """For one read of the body. TimeoutError if it was cut: what is cut parses as a whole body."""
        self._end = time.monotonic() + self._seconds
        try:
            yield
        finally:
            self._end = inf
            if self.late.is_set():
                raise TimeoutError("timed out")

    def close(self) -> None:
        self._over.set()


class _Adapter(HTTPAdapter):
    """The HTTP adapter of requests, with `_Connection` as the class of its connections and without retries."""

    def __init__(self, hosts: PublicHosts, *, public_only: bool) -> None:
        judged = {"hosts": hosts, "public_only": public_only}
        self.connections = {
            "http": type("Plain", (_Connection,), judged),
            "https": type("Secure", (_Connection, HTTPSConnection), judged),
        }
        super().__init__(pool_connections=16, pool_maxsize=32, max_retries=0)

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        pool.ConnectionCls = self.connections[pool.scheme]
        return pool


class Wire:
    """Sends single requests over pooled keep-alive connections. Threads may share it. Making one also removes query
    strings from what urllib3 logs in this process.
    """

    def __init__(self, user_agent: str) -> None:
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "gzip"}
        self._environment = requests.Session()
        self.public_hosts = PublicHosts()
        self._any, self._public = (_Adapter(self.public_hosts, public_only=only) for only in (False, True))
        for name in ("urllib3.connectionpool", "urllib3.connection"):
            logging.getLogger(name).addFilter(_without_queries)  # once, however often it is added

    def send(
        self, request: requests.Request, timeout: tuple[float, float], *, public_only: bool = False
    ) -> requests.Response:
        """The reply to one attempt, redirects not followed, its body not yet read. Dropped if the connection failed or
        timed out; SourceError for an invalid address or certificate; UsageError for a header that cannot be sent; with
        `public_only` Refused if an IP address of the host is not public, without it if that of a host is not that was
        public before.

        `timeout`: seconds until connected; seconds until the head has arrived and between reads of the body.
        """
        prepared = self._prepared(request)
        adapter = self._public if public_only else self._any
        try:
            settings: Any = self._environment.merge_environment_settings(prepared.url or "", {}, True, None, None)
            _check_certificates(settings["verify"])
            return adapter.send(prepared, timeout=timeout, **settings)
        except requests.exceptions.SSLError as error:
            raise SourceError(
                f"The certificate of {shown(request.url)} is not valid ({_certificate_words(error)}), so nothing was "
                "asked: correct the address, or name the certificates of your own network in REQUESTS_CA_BUNDLE."
            ) from None
        except requests.exceptions.ProxyError:
            raise Dropped("cannot be reached through the proxy of the environment") from None
        except requests.exceptions.ConnectTimeout:
            raise Dropped(f"gave no connection in {timeout[0]:g} s", reason=SILENT) from None
        except requests.exceptions.Timeout:
            raise Dropped(f"sent no whole head of a reply in {timeout[1]:g} s") from None
        except NO_ADDRESS:
            raise SourceError(f"{shown(request.url)} is no address: correct it.") from None
        except READ_ERRORS as error:
            words = _connection_words(error)
            raise Dropped(words, reason=_REASONS.get(words, UNREACHABLE)) from None

    def _prepared(self, request: requests.Request) -> requests.PreparedRequest:
        """The request as it is sent, with User-Agent and Accept-Encoding (which its own headers override); they are
        added to `request` itself. UsageError for a header that cannot be sent, SourceError for an invalid address.
        """
        try:
            request.headers = self._headers | request.headers
            prepared = request.prepare()
            "".join(map(str, prepared.headers.values())).encode("latin-1")  # as they are sent
            return prepared
        except (requests.exceptions.InvalidHeader, UnicodeEncodeError):
            raise UsageError(
                f"A header for {shown(request.url)} holds characters that none may: check the key."
            ) from None
        except (requests.RequestException, ValueError):
            raise SourceError(f"{shown(request.url)} is no address: correct it.") from None

    def close(self) -> None:
        self._any.close()
        self._public.close()


def _without_queries(record: logging.LogRecord) -> bool:
    """A logging filter that keeps every record and removes query strings, which may hold a key, and the traceback from
    it.
    """
    record.msg, record.args, record.exc_info = re.sub(r"\?[^\s\"')]*", "?…", record.getMessage()), (), None
    return True


def _check_certificates(verify: object) -> None:
    """UsageError if the environment names certificates that are not there; `verify`: what requests made of it."""
    if isinstance(verify, str) and not Path(verify).exists():
        raise UsageError(f"REQUESTS_CA_BUNDLE (or CURL_CA_BUNDLE) names {verify}, which is not there: correct it.")


def _certificate_words(error: BaseException) -> str:
    """What OpenSSL has against a certificate, as "self-signed certificate"; "TLS failed" if it does not say."""
    found = re.search(r"certificate verify failed: ([^()\"]+?)\.? \(_ssl", str(error))
    return found[1] if found else "TLS failed"


_REASONS = {
    "has a host that is not known": UNKNOWN,
    "has a host whose name cannot be looked up now": UNRESOLVED,
    "refused the connection": CLOSED,
}


def _connection_words(error: BaseException) -> str:
    """What happened to a connection, as words for a message: "answered with a damaged head", one of _REASONS or, for
    any other error, "dropped the connection".
    """
    text = str(error)
    if isinstance(error, requests.exceptions.InvalidHeader) or "BadStatusLine" in text:
        return "answered with a damaged head"
    if "resolve" in text:
        lasting = "not known" in text or "No address associated" in text
        return "has a host that is not known" if lasting else "has a host whose name cannot be looked up now"
    return "refused the connection" if "refused" in text else "dropped the connection"


def chunks(response: requests.Response, *, strict: bool = False) -> Iterator[bytes]:
    """The body in chunks of at most CHUNK bytes, as they arrive. Dropped if it ends before its Content-Length or its
    last HTTP chunk, or a read times out.

    The bytes are those on the wire, not unpacked. `strict` raises Changed, after the body, if the server sends more
    than its Content-Length; without it such bytes stay unread.
    """
    raw, more, watch = response.raw, False, _watch(response.raw)
    try:
        while True:
            left = raw.length_remaining
            with watch.read() if watch else nullcontext():
                more = more or (strict and left == 1 and _bytes_at_hand(raw) > 1)
                chunk = raw.read1(min(CHUNK, left - 1) if strict and left and left > 1 else CHUNK, decode_content=False)
            if not chunk:
                break
            yield chunk
    except READ_ERRORS as error:
        what = "sent nothing for too long" if "timed out" in str(error) else "dropped the connection"
        left = raw.length_remaining
        raise Dropped(f"{what}, {left:,} bytes before the end" if left else what) from None
    finally:
        if watch:
            watch.close()
    if more:
        raise Changed(f"it sends more than the {int(response.headers['Content-Length']):,} bytes it announces")


def _watch(raw: Any) -> _Watch | None:
    """A watch over the connection that a body is read from; None if it is read already, or has no time limit."""
    connection = raw.connection
    if connection is None or connection.reading is None or not connection.timeout:
        return None
    return _Watch(connection.reading, connection.timeout)


def _bytes_at_hand(raw: Any) -> int:
    """How many unread bytes the connection's buffer holds; if it is empty, waits for the next bytes first. 1 if the
    buffer cannot be seen.

    Called when one byte of the body is left: more than 1 means that the server sends more than it announced.
    """
    reply = getattr(raw.connection, "reply", None)
    return len(reply.peek(2)) if reply is not None else 1


def delimited(response: requests.Response) -> bool:
    """Whether the end of the body can be told from a dropped connection: it has a Content-Length or is sent in HTTP
    chunks.
    """
    return response.raw.length_remaining is not None or response.raw.chunked


def body(response: requests.Response, *, limit: int, within: float) -> bytes:
    """The whole body, unpacked if it is gzip or deflate. SourceError if it is larger than `limit` bytes (packed or
    unpacked), damaged or in another encoding; Dropped if it is incomplete, takes longer than `within` seconds, or is
    empty in a reply of 200 that does not tell where its body ends.
    """
    end, content = time.monotonic() + within, bytearray()
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise SourceError(f"{shown(response.url)} answers in the encoding {encoding[:20]!r}, which was not asked for.")
    announced, unpack = response.raw.length_remaining or 0, unpacker(encoding)
    for chunk in chunks(response) if announced <= limit else ():
        content += _unpacked(unpack, chunk, limit + 1 - len(content), response.url)
        if len(content) > limit:
            break
        if time.monotonic() > end:
            raise Dropped(f"did not send its whole reply in {within:g} s")
    if max(announced, len(content)) > limit:
        raise SourceError(f"{shown(response.url)} answers with more than {limit:,} bytes: that is not read.")
    if unpack and unpack.begun and not unpack.ended:
        raise Dropped("sent a packed reply without its ending")
    if not content and not delimited(response) and response.status_code == 200:
        raise Dropped("dropped the connection before its reply")
    return bytes(content)


class Unpacker:
    """Unpacks gzip (of several members) or deflate (with or without the zlib header) that comes in pieces. `begun`:
    bytes came; `ended`: what came ends with the end of a member or stream.
    """

    def __init__(self, encoding: str) -> None:
        self.gzip, self.begun, self.ended = encoding != "deflate", False, False
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16 if self.gzip else zlib.MAX_WBITS)

    def add(self, chunk: bytes, limit: int) -> bytes:
        """What the piece unpacks to, at most `limit` bytes: of a bomb no more is ever unpacked. Bytes after the end
        that are no further member are passed over, as browsers and urllib3 do. zlib.error if it is damaged.
        """
        if chunk and not self.begun and not self.gzip and not _zlib_header(chunk):
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        self.begun, out = self.begun or bool(chunk), bytearray()
        while chunk and len(out) < limit:
            if self.ended:
                if not (self.gzip and chunk.startswith(b"\x1f")):
                    break
                self._stream, self.ended = zlib.decompressobj(zlib.MAX_WBITS | 16), False
            out += self._stream.decompress(chunk, limit - len(out))
            self.ended, chunk = self._stream.eof, self._stream.unused_data
        return bytes(out)


def _zlib_header(start: bytes) -> bool:
    """Whether a deflate body begins with the header of zlib (RFC 1950), by its first byte or two."""
    return start[0] & 15 == 8 and (len(start) < 2 or (start[0] << 8 | start[1]) % 31 == 0)


def unpacker(encoding: str) -> Unpacker | None:
    """An Unpacker for this Content-Encoding (one of ENCODINGS); None if the body is not packed."""
    return None if encoding in ("", "identity") else Unpacker(encoding)


def _unpacked(unpack: Unpacker | None, chunk: bytes, limit: int, url: str) -> bytes:
    """The chunk as it is, or unpacked to at most `limit` bytes. SourceError if it is not packed as the reply says."""
    try:
        return unpack.add(chunk, limit) if unpack else chunk
    except zlib.error:
        raise SourceError(f"{shown(url)} says that its answer is gzip, but it is not.") from None
