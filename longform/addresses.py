"""Web addresses (URLs): the normal form, in which equal pages have equal addresses, and the form that messages show."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from longform.errors import SourceError

PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = 2_000
TRACKING = re.compile(r"(utm_\w+|gclid|dclid|gbraid|wbraid|fbclid|msclkid|twclid|yclid|igshid|mc_cid|mc_eid)\Z", re.I)
_LOGIN = re.compile(
    r"(?P<scheme>(?:https?|ftps?)://)(?:[^\s/?#\"<>]{1,4000}@|[^\s/?#@:\"<>]{1,200}:(?!\d{1,5}(?:[/?#\W]|\Z))"
    r"(?:[^\s/?#\"<>]{0,4000}%40|[^\s\"<>]{0,4000}@))",  # an escaped @; `/`, `?` and `#` in a password
    re.IGNORECASE,
)
_MOST_LOGINS = 20  # in one address


def without_logins(text: str) -> str:
    """The text with each web address in it (http, https, ftp) without its user and password, also where the password
    holds signs that an address must escape; `https://example.org/@name` and mail addresses stay.
    """
    for _ in range(_MOST_LOGINS):
        text, found = _LOGIN.subn(r"\g<scheme>", text) if "@" in text or "%40" in text else (text, 0)
        if not found:
            break
    return text


def without_logins_in(value: Any) -> Any:
    """The value, as JSON has them, with all its texts `without_logins`; names in objects stay."""
    if isinstance(value, str):
        return without_logins(value)
    if isinstance(value, list):
        return [without_logins_in(one) for one in value]
    return {name: without_logins_in(one) for name, one in value.items()} if isinstance(value, dict) else value


def shown(url: str) -> str:
    """The URL as it may be shown and stored: without user, password, query and fragment.

    Without a host, the first 200 characters of what stands before a `?` or `#` and after the last `@`. Without a
    scheme, the host alone. `an address that is none` if the URL cannot be parsed.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that is none"
    if not host:
        return url.partition("?")[0].partition("#")[0].rpartition("@")[2][:200]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else host


def origin(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of a URL: scheme and host in lower case, an IPv6 host without brackets, the port of the
    scheme (80 or 443) if the URL names none.

    SourceError if the URL cannot be parsed, is not http or https, has no host, or has a user or password.
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
    """The URL in its normal form, in which equal pages have equal URLs: host in lower case, no fragment, no tracking
    parameters (TRACKING), no default port, the path `/` if there is none. None if it is no valid http or https URL
    (`origin`), holds a user or password, a control character or one of `<>"\\^`{|}`, or is longer than URL_CHARACTERS.

    First white space around it, and tabs and line breaks inside it, are dropped, and blanks become `%20`. Everything
    else stays, as it may matter to the server: the order of parameters, the case of the path, a slash at its end.
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
    """The id of the page at a URL, `web/<host, path and query>`: the same for http and https, with or without `www.`
    before a host with a further dot, the port 80 or 443, or slashes at the end of the path. None if the URL has no
    normal form (`normal_url`) or has white space inside it; white space around it is ignored.
    """
    normal = None if re.search(r"\s", url.strip()) else normal_url(url)
    if normal is None:
        return None
    parts = urlsplit(normal)
    host = re.sub(r"\A(?:www\.)+(?=[^:]*\.)|:(?:80|443)\Z", "", parts.netloc)
    return f"web/{host}{parts.path.rstrip('/')}" + (f"?{parts.query}" if parts.query else "")
