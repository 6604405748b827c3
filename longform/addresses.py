"""Web addresses (URLs): the normal form, in which equal pages have equal addresses, and the form that messages show."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from longform.errors import SourceError

PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = 2_000
TRACKING = re.compile(r"(utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|twclid|yclid|igshid|mc_cid|mc_eid)\Z", re.I)


def shown(url: str) -> str:
    """The URL as it may be shown and stored: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that is none"
    if not host:
        return url.partition("?")[0].rpartition("@")[2][:200]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else host


def origin(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of a URL, the port by default that of the scheme. SourceError if it is not http or https, or
    has no host, or has a user or password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SourceError(f"{shown(url)} is no address: correct it.") from None
    if parts.scheme not in PORTS or not host:
        raise SourceError(
            f"{shown(url)!r} is no address of the web: it must begin with http:// or https:// and a host."
        )
    if "@" in parts.netloc:
        raise SourceError(f"The address {shown(url)} holds a user or password: give it without.")
    return parts.scheme, host, PORTS[parts.scheme] if port is None else port


def normal_url(url: str) -> str | None:
    """The URL with host in lower case and without fragment, tracking parameters and default port; None if it is no
    valid http(s) URL.

    Everything else stays, as it may matter to the server: the order of parameters, the case of the path, a slash at its
    end.
    """
    url = re.sub(r"[\t\r\n]", "", url.strip()).replace(" ", "%20")
    try:
        scheme, host, port = origin(url)
    except SourceError:
        return None
    if len(url) > URL_CHARACTERS or re.search(r"[\x00-\x20\x7f<>\"\\^`{|}\ud800-\udfff]", url):
        return None
    parts, host_text = urlsplit(url), f"[{host}]" if ":" in host else host
    netloc = host_text if port == PORTS[scheme] else f"{host_text}:{port}"
    query = "&".join(
        parameter for parameter in parts.query.split("&") if not TRACKING.match(parameter.partition("=")[0])
    )
    return urlunsplit((scheme, netloc, parts.path or "/", query, ""))


def page_of(url: str) -> str | None:
    """The id of the page at a URL, `web/<host, path and query>`: the same for http and https, with or without `www.` or
    a slash at the end. None if it is no valid http(s) URL.
    """
    normal = None if re.search(r"\s", url.strip()) else normal_url(url)
    if normal is None:
        return None
    parts = urlsplit(normal)
    host = re.sub(r"\A(?:www\.)+(?=[^:]*\.)|:(?:80|443)\Z", "", parts.netloc)
    return f"web/{host}{parts.path.rstrip('/')}" + (f"?{parts.query}" if parts.query else "")
