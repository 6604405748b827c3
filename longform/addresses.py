"""Addresses of pages in one spelling."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

URL_CHARACTERS = 2_000
TRACKING = re.compile(r"(utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|twclid|yclid|igshid|mc_cid|mc_eid)\Z", re.I)


def normal_url(url: str) -> str | None:
    """The address without fragment and tracking parameters, host in lower case; None where it is none of the web.

    Everything else may matter to its server and stays: order of parameters, letters of the path, a slash at its end.
    """
    url = re.sub(r"[\t\r\n]", "", url.strip()).replace(" ", "%20")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or len(url) > URL_CHARACTERS:
        return None
    if re.search(r"[\x00-\x20\x7f<>\"\\^`{|}\ud800-\udfff]", url):
        return None
    named = f"[{host}]" if ":" in host else host
    place = named if port in (None, {"http": 80, "https": 443}[parts.scheme]) else f"{named}:{port}"
    query = "&".join(one for one in parts.query.split("&") if not TRACKING.match(one.partition("=")[0]))
    return urlunsplit((parts.scheme, place, parts.path or "/", query, ""))


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
