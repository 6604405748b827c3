"""Web addresses (URLs) in one normal form, so that equal pages have equal addresses."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

URL_CHARACTERS = 2_000
TRACKING = re.compile(r"(utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|twclid|yclid|igshid|mc_cid|mc_eid)\Z", re.I)


def normal_url(url: str) -> str | None:
    """The URL without its fragment and tracking parameters, host in lower case; None if it is no valid http(s) URL.

    Everything else stays, as it may matter to the server: the order of parameters, the case of the path, a slash at its
    end.
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
    host_text = f"[{host}]" if ":" in host else host
    netloc = host_text if port in (None, {"http": 80, "https": 443}[parts.scheme]) else f"{host_text}:{port}"
    query = "&".join(
        parameter for parameter in parts.query.split("&") if not TRACKING.match(parameter.partition("=")[0])
    )
    return urlunsplit((parts.scheme, netloc, parts.path or "/", query, ""))


def page_of(url: str) -> str | None:
    """The page's id, `web/<host, path and query>`: the same for http and https, with or without `www.` or a slash at
    the end.

    None if the URL is no valid http(s) URL.
    """
    normal = None if re.search(r"\s", url.strip()) else normal_url(url)
    if normal is None:
        return None
    parts = urlsplit(normal)
    host = re.sub(r"\A(?:www\.)+(?=[^:]*\.)|:(?:80|443)\Z", "", parts.netloc)
    return f"web/{host}{parts.path.rstrip('/')}" + (f"?{parts.query}" if parts.query else "")
