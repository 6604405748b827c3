"""The boundary to HTTP: one request gives one outcome, never an exception of a client's.

Questions go through aiohttp itself; files and batches, which are few, through the HTTP client of the OpenAI SDK, which
builds forms and queries, and takes more processor time for it. The clients' exceptions contain the request with the API
key, so none of them leaves this module.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from longform import __version__
from longform.llm.ask.types import Endpoint
from longform.llm.send.reply_body import ACCEPTED_ENCODINGS, BodyError, NextChunk, read_body, save_body
from longform.llm.send.secrets import Cleaner, cleaner_of, filter_record

if TYPE_CHECKING:
    import aiohttp
    import httpx2
    from yarl import URL

    from longform.llm.send.connections import Transport

    Reply = aiohttp.ClientResponse | httpx2.Response

NO_KEY = "none"
USER_AGENT = f"longform/{__version__}"
IDEMPOTENCY = "Idempotency-Key"
FILES = "/files"
BATCHES = "/batches"
FILE_SECONDS = 900.0
CREATE_SECONDS = 300.0  # a provider may take minutes to create a batch, and a batch created unseen is bought twice
IDLE_SECONDS = 1.0
MOST_BYTES = 64 << 20
AN_INSTANT = 1e8
NOT_WHOLE, SILENT = "no whole answer within {:g} seconds", "nothing came for {:g} seconds"


@dataclass(slots=True)  # not frozen: it would take three times as long to make
class Outcome:
    """The result of one HTTP request. Any status of success (2xx) is given as 200. `status` is 0 where no whole reply
    came; then `body` is the reason in words, `sent` is whether the server may have got the request, and bill it, and
    `final` whether the reason cannot pass by itself: the name, the port or the certificate is wrong. (A server that
    restarts refuses connections for a moment, too.)

    `retry_after` is in seconds, None if the reply does not say. `request_id` is the server's. `too_large`: the reply
    had more bytes than allowed and was broken off; where it was, or could not be unpacked, `body` says so in words, and
    of a redirect it says where to. `hint`: what to change, where no reply came.
    Neither it nor the id contains a key (longform/llm/send/secrets.py); `headers`, which may, are for the gate only.
    """

    status: int
    body: bytes
    milliseconds: int
    retry_after: float | None = None
    request_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: bool = True
    final: bool = False
    too_large: bool = False
    hint: str = ""


class Wire:
    """An endpoint's connections, for one event loop.

    `transport` makes the connections of questions, None: the network. A connection that was unused for `idle_seconds`
    is not used again: servers close theirs after 2 or 5 seconds, and a request sent at that moment would count as lost
    on the way, so as paid. Redirects are not followed, so that the API key goes to no other host.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        api_key: str | None,
        transport: Transport | None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._endpoint, self._transport, self._idle_seconds = endpoint, transport, idle_seconds
        self._cleaner = cleaner_of(api_key)
        self._headers = {
            "Authorization": f"Bearer {api_key or NO_KEY}",
            "Accept": "application/json",
            "Accept-Encoding": ACCEPTED_ENCODINGS,
            "User-Agent": USER_AGENT,
        }
        self._urls: dict[str, URL] = {}  # of questions: few paths are, many are files
        self._session: aiohttp.ClientSession | None = None
        self._sdk: httpx2.AsyncClient | None = None

    @property
    def address(self) -> str:
        """The endpoint's address for messages, without user, password and query."""
        return address_of(self._endpoint.base_url or "")

    async def post(
        self, path: str, body: str, *, most_bytes: int | None = None, idempotency_key: str | None = None
    ) -> Outcome:
        """Send the JSON text `body` once to a path of the API. The endpoint's time-out is on the whole request, not on
        each read. A reply of more than `most_bytes` bytes (None: MOST_BYTES) is broken off.
        """
        content, headers = body.encode(), {IDEMPOTENCY: idempotency_key} if idempotency_key else None
        started, reply = time.monotonic(), None
        try:
            session = self._session or self._open_session()
            reply = await session.post(self._url(path), data=content, headers=headers, allow_redirects=False)
            try:
                kept = await read_body(_encoding(reply), reply.content.readany, most_bytes or MOST_BYTES)
            except BaseException:
                reply.close()  # a whole reply has given its connection back
                raise
        except _failures() as error:
            return self._failed(error, started, NOT_WHOLE.format(self._endpoint.timeout_seconds), reply)
        return _outcome(reply.status, reply.headers, kept, started, self._cleaner)

    async def call(self, method: str, path: str, *, idempotency_key: str | None = None, **content: Any) -> Outcome:
        """Send any other request of the API once, for files and batches. `content` are arguments of the SDK's HTTP
        client: `json`, `data` and `files`, or `params`. The time-out is the endpoint's, for paths of files at least
        FILE_SECONDS, to create a batch at least CREATE_SECONDS. A reply of more than MOST_BYTES bytes is broken off.
        """
        create = CREATE_SECONDS if (method, path) == ("POST", BATCHES) else 0.0
        seconds = max(self._endpoint.timeout_seconds, FILE_SECONDS if path.startswith(FILES) else create)
        headers = {IDEMPOTENCY: idempotency_key} if idempotency_key else {}
        started, reply = time.monotonic(), None
        try:
            async with (
                asyncio.timeout(seconds),
                self._stream(method, path, headers=headers, timeout=seconds, **content) as reply,
            ):
                kept = await read_body(_encoding(reply), _chunks(reply), MOST_BYTES)
        except _failures() as error:
            return self._failed(error, started, NOT_WHOLE.format(seconds), reply)
        return _outcome(reply.status_code, reply.headers, kept, started, self._cleaner)

    async def download(self, path: str, to: Path, *, most_bytes: int) -> Outcome:
        """Get a file of the API into the file `to`, which is replaced only by a whole one; the outcome's body is
        empty then. It takes little memory, however large the file is. The endpoint's time-out is on the time in which
        no byte comes; a file of more than `most_bytes` bytes is broken off. StoreError where it cannot be written.
        """
        seconds, kept = self._endpoint.timeout_seconds, b""
        started, reply = time.monotonic(), None
        try:
            async with self._stream("GET", path, timeout=seconds) as reply:
                if reply.is_success:
                    await save_body(_encoding(reply), _chunks(reply), most_bytes, to)
                else:
                    kept = await read_body(_encoding(reply), _chunks(reply), MOST_BYTES)
        except _failures() as error:
            return self._failed(error, started, SILENT.format(seconds), reply)
        return _outcome(reply.status_code, reply.headers, kept, started, self._cleaner)

    def _failed(self, error: Exception, started: float, timed_out: str, reply: Reply | None) -> Outcome:
        """The outcome of a request that failed. `timed_out` are the words for a time-out; `reply` has the head that
        came, None where none did.
        """
        from longform.llm.send.no_reply import no_reply

        status, received = _came(reply)
        if isinstance(error, BodyError) and reply is not None:
            body = f"{status} {error}".encode()
            return _outcome(status, reply.headers, body, started, self._cleaner, too_large=error.too_large)
        tls = (self._endpoint.base_url or "").lower().startswith("https:")
        words, sent, final, hint = no_reply(error, timed_out=timed_out, received=received, tls=tls)
        took = round((time.monotonic() - started) * 1000)
        return Outcome(0, words.encode(), took, sent=sent, final=final, hint=hint)

    async def close(self) -> None:
        """Close the connections."""
        if self._session:
            await self._session.close()
        if self._sdk:
            await self._sdk.aclose()

    def _open_session(self) -> aiohttp.ClientSession:
        """Open the session for questions, in the event loop of the first one."""
        from longform.llm.send.connections import open_session

        headers = {**self._headers, "Content-Type": "application/json"}
        self._session = open_session(self._transport, self._base, headers, self._endpoint, self._idle_seconds)
        return self._session

    def _stream(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        """A request for files and batches, by the SDK's client, and the reply, its body unread. `params` are added to
        the query of the endpoint's address.
        """
        from longform.llm.send.connections import open_sdk

        if self._sdk is None:
            logging.getLogger("httpx2").addFilter(filter_record)  # it logs status lines, which servers write
            self._sdk = open_sdk(self._base, self._headers, self._idle_seconds)
        return self._sdk.stream(method, str(self._below(path).update_query(params or {})), **options)

    @cached_property
    def _base(self) -> URL:
        """The endpoint's address, without user and password."""
        from yarl import URL

        return URL(self._endpoint.base_url or "").with_user(None)

    def _url(self, path: str) -> URL:
        """The URL of a path for questions, which are few: kept."""
        return self._urls.get(path) or self._urls.setdefault(path, self._below(path))

    def _below(self, path: str) -> URL:
        """The URL of a path of the API: the path is appended to the endpoint's base URL, whose query is kept."""
        below = self._base.raw_path.rstrip("/") + quote(path, safe="/%:@")
        return self._base.with_path(below, encoded=True, keep_query=True)


def _failures() -> tuple[type[Exception], ...]:
    """What may be raised for a request whose reply is not whole, or not kept."""
    from longform.llm.send.no_reply import FAILURES

    return (BodyError, *FAILURES)


def _encoding(reply: Reply) -> str | None:
    """The Content-Encoding of a reply."""
    encoding: str | None = reply.headers.get("Content-Encoding")
    return encoding


def _chunks(reply: httpx2.Response) -> NextChunk:
    """A function that returns the next bytes of a body as they come, none at the end."""
    return partial(anext, reply.aiter_raw(), b"")


def _outcome(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    started: float,
    cleaner: Cleaner,
    *,
    too_large: bool = False,
) -> Outcome:
    """The outcome of a reply; `cleaner` takes keys out of its body and id."""
    request_id, after, after_ms = headers.get("x-request-id"), headers.get("retry-after"), headers.get("retry-after-ms")
    return Outcome(
        200 if 200 <= status < 300 else status,
        cleaner.body(_redirect(headers) or body if 300 <= status < 400 else body),
        round((time.monotonic() - started) * 1000),
        seconds_to_wait(after, after_ms) if after or after_ms else None,
        cleaner.header(request_id if request_id is None or request_id.isascii() else _text(request_id)),
        headers,
        too_large=too_large,
    )


def _redirect(headers: Mapping[str, str]) -> bytes:
    """Where a redirect leads to, in words, without user, password and query; empty where it does not say."""
    location = headers.get("location")
    return f"redirects to {address_of(_text(location))}".encode() if location else b""


def _came(reply: Reply | None) -> tuple[int, int | None]:
    """(status, bytes of the body that came) of a reply that failed; (0, None) where its head did not come."""
    import httpx2

    if reply is None:
        return 0, None
    if isinstance(reply, httpx2.Response):
        return reply.status_code, reply.num_bytes_downloaded
    return reply.status, reply.content.total_bytes


def address_of(base_url: str) -> str:
    """An endpoint's address for messages: without user, password, query and fragment."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return "(no address)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _text(header: str) -> str:
    """A header as text that can be stored: bytes that are no UTF-8 become U+FFFD."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def seconds_to_wait(header: str | None, milliseconds: str | None = None) -> float | None:
    """Seconds to wait by retry-after-ms (`milliseconds`), or else by a Retry-After header, which contains seconds, a
    date or seconds since 1970; 0 for a time that is past. None where neither is there, or both are negative or cannot
    be read.
    """
    seconds = _number(milliseconds, 1000) if milliseconds else None
    if seconds is None and header:
        seconds = _number(header, 1)
        return _until(header) if seconds is None else seconds
    return seconds


def _number(header: str, parts: int) -> float | None:
    """The seconds that a header says in so many parts of a second, or as seconds since 1970; None where it is no
    number from 0 on.
    """
    try:
        seconds = float(header) / parts
    except ValueError:
        return None
    if AN_INSTANT < seconds < float("inf"):
        return max(0.0, seconds - time.time())
    return seconds if 0 <= seconds < float("inf") else None


def _until(date: str) -> float | None:
    """Seconds from now until an HTTP date, 0 if it is past; None where it is no date."""
    try:
        moment = parsedate_to_datetime(date)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
