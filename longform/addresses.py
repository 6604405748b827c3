"""Addresses of the web: as they may be written down, and in one spelling."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from longform.errors import SourceError

PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = 2_000
TRACKING = re.compile(r"(utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|twclid|yclid|igshid|mc_cid|mc_eid)\Z", re.I)


def shown(url: str) -> str:
    """An address as it may be written down: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that is none"
    if not host:
        return url.partition("?")[0].rpartition("@")[2][:200]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else host


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host, port; SourceError for anything but http and https with a host and without a user."""
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
    """The address without fragment and tracking parameters, host in lower case; None where it is none of the web.

    Everything else may matter to its server and stays: order of parameters, letters of the path, a slash at its end.
    """
    url = re.sub(r"[\t\r\n]", "", url.strip()).replace(" ", "%20")
    try:
        scheme, host, port = origin(url)
    except SourceError:
        return None
    if len(url) > URL_CHARACTERS or re.search(r"[\x00-\x20\x7f<>\"\\^`{|}\ud800-\udfff]", url):
        return None
    parts, named = urlsplit(url), f"[{host}]" if ":" in host else host
    place = named if port == PORTS[scheme] else f"{named}:{port}"
    query = "&".join(one for one in parts.query.split("&") if not TRACKING.match(one.partition("=")[0]))
    return urlunsplit((scheme, place, parts.path or "/", query, ""))


def page_of(url: str) -> str | None:
    """web/<host, path and query> of a page: the same over http and https, with www. and a slash at its end.

    None where it is no address of the web.
    """
    found = None if re.search(r"\s", url.strip()) else normal_url(url)
    if found is None:
        return None
    parts = urlsplit(found)
    host = re.sub(r"\A(?:www\.)+(?=[^:]*\.)|:(?:80|443)\Z", "", parts.netloc)
    return f"web/{host}{parts.path.rstrip('/')}" + (f"?{parts.query}" if parts.query else "")
