"""The connections to an endpoint: aiohttp's pool, with the bounds, certificates and proxy of all requests.

Nothing is taken from the environment but the proxies that it names (HTTPS_PROXY, NO_PROXY and the like) and the
certificates that are trusted (SSL_CERT_FILE, SSL_CERT_DIR): no passwords of ~/.netrc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
from yarl import URL

from longform.llm.ask.types import Endpoint

FIELD_BYTES = 8190  # of the status line, and of each header
MOST_HEADERS = 128
CONNECT_SECONDS = 30.0

Transport = Callable[[], aiohttp.BaseConnector]


class Connector(aiohttp.TCPConnector):
    """aiohttp's connections, except that none is used again on which bytes came that nobody asked for: they would be
    taken for the reply to the next request.
    """

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """A connection for the request."""
        for _ in range(self.limit):
            connection = await aiohttp.TCPConnector.connect(self, req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or not protocol.should_close:
                return connection
            connection.close()
        return await aiohttp.TCPConnector.connect(self, req, traces, timeout)


def open_session(
    transport: Transport | None, base: URL, headers: Mapping[str, str], endpoint: Endpoint, idle_seconds: float
) -> aiohttp.ClientSession:
    """A session for questions to this base address, in the running event loop. `transport` makes its connections
    instead of the network. The endpoint's time-out is on a whole request; to connect may take less.
    """
    total, most = endpoint.timeout_seconds, endpoint.concurrency
    tls = httpx2.create_ssl_context() if base.scheme == "https" else True
    return aiohttp.ClientSession(
        connector=transport() if transport else Connector(limit=most, keepalive_timeout=idle_seconds, ssl=tls),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=total, sock_connect=min(CONNECT_SECONDS, 0.9 * total)),
        auto_decompress=False,
        trust_env=False,
        proxy=proxy_for(base),
        max_line_size=FIELD_BYTES,
        max_field_size=FIELD_BYTES,
        max_headers=MOST_HEADERS,
    )


def open_sdk(base: URL, headers: Mapping[str, str], idle_seconds: float) -> httpx2.AsyncClient:
    """The SDK's HTTP client over aiohttp, for files and batches. It keeps no cookies."""
    from openai import DefaultAioHttpClient

    client = DefaultAioHttpClient(
        headers=headers,
        follow_redirects=False,
        limits=httpx2.Limits(keepalive_expiry=idle_seconds),
        verify=httpx2.create_ssl_context(),
        trust_env=False,
        proxy=proxy_for(base),
    )
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def proxy_for(base: URL) -> str | None:
    """The address of the proxy that the environment names for the host, None without one."""
    proxies = getproxies()
    proxy = proxies.get(base.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(f"{base.raw_host}:{base.port}"):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
