"""The boundary to the OpenAI SDK, which is used as transport only: one request, one outcome, never an exception.

Exceptions of the SDK hold the key, so none leaves this file. The SDK runs in an event loop in a thread of its own,
so that answers keep coming in while the caller works on earlier ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from longform.llm.types import Endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

NO_KEY = "none"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back. `status` is 0 where nothing did; then `body` says why."""

    status: int
    body: bytes
    milliseconds: int
    retry_after: float | None = None
    request_id: str | None = None


class Wire:
    """An endpoint's connections. `slots` bounds the requests in flight."""

    def __init__(self, endpoint: Endpoint, api_key: str | None, transport: httpx2.AsyncBaseTransport | None) -> None:
        self._timeout_seconds = endpoint.timeout_seconds
        self._sdk = _sdk(endpoint, api_key, transport)
        self.slots = asyncio.Semaphore(endpoint.concurrency)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"endpoint {endpoint.name}", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def post(self, path: str, body: dict[str, Any]) -> Outcome:
        """Send once. The time-out is on the whole request, not on each read."""
        import aiohttp
        import httpx2
        from openai import APIStatusError, OpenAIError

        started, why = time.monotonic(), ""
        response: httpx2.Response | None = None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._sdk.post(path, cast_to=httpx2.Response, body=body)
        except APIStatusError as error:
            response = error.response
        except TimeoutError:
            why = f"no whole answer within {self._timeout_seconds:g} seconds"
        except (OpenAIError, httpx2.HTTPError, httpx2.StreamError, aiohttp.ClientError, OSError) as error:
            why = f"the connection was lost ({type(error).__name__})"
        passed = round((time.monotonic() - started) * 1000)
        return Outcome(0, why.encode(), passed) if response is None else _outcome(response, passed)

    def close(self) -> None:
        """Cancel what is in flight, close the connections, end the thread."""
        self.submit(self._finish()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._sdk.close()


def _sdk(endpoint: Endpoint, api_key: str | None, transport: httpx2.AsyncBaseTransport | None) -> AsyncOpenAI:
    """The SDK with its retries off, and with nothing of what it reads from the environment by itself."""
    from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient

    settings: dict[str, Any] = {"timeout": endpoint.timeout_seconds, "follow_redirects": False}
    http = DefaultAsyncHttpxClient(transport=transport, **settings) if transport else DefaultAioHttpClient(**settings)
    sdk = AsyncOpenAI(
        api_key=api_key or NO_KEY,
        admin_api_key=NO_KEY,
        base_url=endpoint.base_url,
        timeout=endpoint.timeout_seconds,
        max_retries=0,
        http_client=http,
    )
    sdk.organization = sdk.project = None
    sdk._custom_headers = {}
    return sdk


def _outcome(response: httpx2.Response, milliseconds: int) -> Outcome:
    return Outcome(
        status=response.status_code,
        body=response.content,
        milliseconds=milliseconds,
        retry_after=seconds_to_wait(response.headers.get("retry-after"), response.headers.get("retry-after-ms")),
        request_id=response.headers.get("x-request-id"),
    )


def seconds_to_wait(header: str | None, milliseconds: str | None = None) -> float | None:
    """Of a Retry-After header, which holds seconds or a date; None where it is missing or makes no sense."""
    try:
        if milliseconds is not None:
            return _sensible(float(milliseconds) / 1000)
        return _sensible(float(header)) if header is not None else None
    except ValueError:
        return _until(header) if header is not None else None


def _sensible(seconds: float) -> float | None:
    return seconds if 0 <= seconds < float("inf") else None


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
