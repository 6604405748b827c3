"""The boundary to the OpenAI SDK, of which only the HTTP client is used: one request gives one outcome, never an
exception.

The client's exceptions contain the request with the API key, so none of them leaves this module.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform import __version__
from longform.llm.ask.types import Endpoint

if TYPE_CHECKING:
    import httpx2

NO_KEY = "none"
USER_AGENT = f"longform/{__version__}"
FILES = "/files"
BATCHES = "/batches"
FILE_SECONDS = 900.0
CREATE_SECONDS = 300.0  # a provider may take minutes to create a batch, and a batch created unseen is bought twice
IDLE_SECONDS = 1.0
AN_INSTANT = 1e8


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one HTTP request. Any status of success (2xx) is given as 200. `status` is 0 where no whole reply
    came; then `body` is the reason in words, and `sent` is whether the server may have got the request, and bill it.
    `retry_after` is in seconds, None if the reply does not say. `request_id` is the server's.
    """

    status: int
    body: bytes
    milliseconds: int
    retry_after: float | None = None
    request_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: bool = True


class Wire:
    """An endpoint's connections, for one event loop.

    Requests are made with the SDK's HTTP client, without the rest of the SDK, which would take as much time again and
    reads environment variables by itself. `transport` replaces the network. A connection that was unused for
    `idle_seconds` is not used again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        api_key: str | None,
        transport: httpx2.AsyncBaseTransport | None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        import httpx2

        self._timeout_seconds = endpoint.timeout_seconds
        base = httpx2.URL(endpoint.base_url or "")
        self._http = _http(endpoint, transport, idle_seconds)
        self._headers = [
            (b"Host", base.netloc),
            (b"Authorization", f"Bearer {api_key or NO_KEY}".encode()),
            (b"Accept", b"application/json"),
            (b"User-Agent", USER_AGENT.encode()),
        ]
        self._json_headers = [*self._headers, (b"Content-Type", b"application/json")]
        self._below = partial(_below, base)
        self._url = cache(self._below)  # few paths are questions, many are files
        self._extensions = {"timeout": httpx2.Timeout(self._timeout_seconds).as_dict()}

    async def post(self, path: str, body: str) -> Outcome:
        """Send the JSON text `body` once to a path of the API. The endpoint's time-out is on the whole request, not on
        each read.
        """
        import httpx2

        url, content, headers = self._url(path), body.encode(), self._json_headers
        request = httpx2.Request("POST", url, headers=headers, content=content, extensions=self._extensions)
        return await self._once(self._http.send(request), self._timeout_seconds)

    async def call(self, method: str, path: str, *, idempotency_key: str | None = None, **content: Any) -> Outcome:
        """Send any other request of the API once, for files and batches. `content` are arguments of the HTTP client:
        `json`, `data` and `files`, or `params`. The time-out is the endpoint's, for paths of files at least
        FILE_SECONDS, to create a batch at least CREATE_SECONDS. `idempotency_key`: a server that knows this header
        does the same request once.
        """
        create = CREATE_SECONDS if (method, path) == ("POST", BATCHES) else 0.0
        seconds = max(self._timeout_seconds, FILE_SECONDS if path.startswith(FILES) else create)
        once = [(b"Idempotency-Key", idempotency_key.encode())] if idempotency_key else []
        headers = [*self._headers, *once]
        return await self._once(
            self._http.request(method, self._below(path), headers=headers, timeout=seconds, **content), seconds
        )

    async def download(self, path: str, to: Path, *, most_bytes: int) -> Outcome:
        """Write the reply to a GET into the file `to`, as it comes. The outcome has status 200 and no body where the
        whole reply is there; its status is 0 where the reply was lost on the way or has more than `most_bytes` bytes.
        """
        return await self._once(self._into(path, to, most_bytes), max(self._timeout_seconds, FILE_SECONDS))

    async def _into(self, path: str, to: Path, most_bytes: int) -> httpx2.Response:
        """The reply to a GET, whose body is in the file `to` if its status is 200."""
        import httpx2

        async with self._http.stream("GET", self._below(path), headers=self._headers, timeout=FILE_SECONDS) as reply:
            if not reply.is_success:
                await reply.aread()
                return reply
            size = 0
            with to.open("wb") as file:
                async for chunk in reply.aiter_bytes():
                    size += file.write(chunk)
                    if size > most_bytes:
                        raise httpx2.StreamError("too large")
            return httpx2.Response(reply.status_code)

    async def _once(self, reply: Awaitable[httpx2.Response], seconds: float) -> Outcome:
        """Await the reply, for so many seconds at most, and return its outcome; with status 0 where no whole reply
        came in time, or the connection was lost or refused.
        """
        import aiohttp
        import httpx2

        started, why, sent = time.monotonic(), "", True
        response: httpx2.Response | None = None
        try:
            async with asyncio.timeout(seconds):
                response = await reply
        except TimeoutError:
            why = f"no whole answer within {seconds:g} seconds"
        except (httpx2.HTTPError, httpx2.StreamError, aiohttp.ClientError, OSError) as error:
            sent = not _refused(error)
            why = f"the connection was {'lost' if sent else 'refused'} ({type(error).__name__})"
        passed = round((time.monotonic() - started) * 1000)
        return Outcome(0, why.encode(), passed, sent=sent) if response is None else _outcome(response, passed)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _refused(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, means that no connection was made, so that nothing was sent."""
    import aiohttp

    while error is not None:
        if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _below(base: httpx2.URL, path: str) -> httpx2.URL:
    """The URL of a path of the API: the path is appended to the endpoint's base URL, whose query is kept."""
    raw, mark, query = base.raw_path.partition(b"?")
    return base.copy_with(raw_path=raw.rstrip(b"/") + path.encode() + mark + query)


def _http(endpoint: Endpoint, transport: httpx2.AsyncBaseTransport | None, idle_seconds: float) -> httpx2.AsyncClient:
    """The SDK's HTTP client over `transport`, or over aiohttp without one. Redirects are not followed, so that the API
    key goes to no other host.

    A connection is not used again after `idle_seconds`: servers close theirs after 2 or 5 seconds, and a request sent
    at that moment would count as lost on the way, so as paid.
    """
    import httpx2
    from openai import DefaultAioHttpClient, DefaultAsyncHttpxClient

    most = endpoint.concurrency
    pool = httpx2.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=idle_seconds)
    settings: dict[str, Any] = {"timeout": endpoint.timeout_seconds, "follow_redirects": False, "limits": pool}
    return DefaultAsyncHttpxClient(transport=transport, **settings) if transport else DefaultAioHttpClient(**settings)


def _outcome(response: httpx2.Response, milliseconds: int) -> Outcome:
    """The outcome of a whole reply that took so many milliseconds."""
    return Outcome(
        status=200 if response.is_success else response.status_code,
        body=response.content,
        milliseconds=milliseconds,
        retry_after=seconds_to_wait(response.headers.get("retry-after"), response.headers.get("retry-after-ms")),
        request_id=response.headers.get("x-request-id"),
        headers=response.headers,
    )


def seconds_to_wait(header: str | None, milliseconds: str | None = None) -> float | None:
    """Seconds to wait by a Retry-After header, which contains seconds, a date or seconds since 1970, or by
    retry-after-ms (`milliseconds`), which goes first; 0 for a time that is past. None where neither is there, or the
    number is negative or cannot be read. Where retry-after-ms is no number, only a date in Retry-After counts.
    """
    try:
        seconds = float(header or "") if milliseconds is None else float(milliseconds) / 1000
    except ValueError:
        return _until(header) if header else None
    if AN_INSTANT < seconds < float("inf"):
        return max(0.0, seconds - time.time())
    return seconds if 0 <= seconds < float("inf") else None


def _until(date: str) -> float | None:
    """Seconds from now until an HTTP date, 0 if it is past; None where it is no date."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
