"""Which addresses may be asked: those of the public web that their owners leave open to programs."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Lock
from urllib.robotparser import RobotFileParser

import requests

from longform.errors import Incomplete, SourceError
from longform.net.pages import Page
from longform.net.wire import origin, shown

PRIVATE, UNKNOWN, FORBIDDEN, NO_ADDRESS = "private address", "unknown host", "robots.txt forbids it", "no web address"
AGENT = "longform"
HOSTS = 1_024
LINES = 20_000
EMBEDDED_V4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


class Refused(SourceError):
    """An address that is not asked for; `reason` is a short fixed phrase."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{shown(url)} is not asked for: {reason}.")
        self.reason = reason


def check_address(url: str, *, private_hosts: bool) -> None:
    """Refused for what is no http(s) address, and for a host of this machine or of a network that is not public.

    A host is resolved here and again when it is asked: an owner of a domain who answers differently in between can
    still lead to a private address. Behind a proxy it resolves names, and keeps private addresses closed or not.
    """
    try:
        _, host, port = origin(url)
    except SourceError:
        raise Refused(url, NO_ADDRESS) from None
    if private_hosts:
        return
    if not all(map(public, _addresses(url, host, port))):
        raise Refused(url, PRIVATE)


def _addresses(url: str, host: str, port: int) -> list[str]:
    if requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url)):
        return [host] if _is_ip(host) else []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise Refused(url, NO_ADDRESS) from None
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            raise Refused(url, UNKNOWN) from None
        raise Incomplete(f"{shown(url)} has a host whose address cannot be looked up now: run this again.") from None
    return [str(address[0]).partition("%")[0] for *_, address in found]


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def public(address: str) -> bool:
    """Whether an IP address is one of the public internet; where it carries an IPv4 address, whether that is."""
    ip = ip_address(address)
    return all(map(_global, (_carried(ip) if isinstance(ip, IPv6Address) else []) or [ip]))


def _global(ip: IPv4Address | IPv6Address) -> bool:
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _carried(ip: IPv6Address) -> list[IPv4Address | IPv6Address]:
    known = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    known += [IPv4Address(int(ip) & 0xFFFFFFFF)] if any(ip in network for network in EMBEDDED_V4) else []
    return [each for each in known if each is not None]


class Robots:
    """What hosts allow (RFC 9309), by the standard library's reader: no `*` inside paths, first rule that fits.

    `fetch` gives the robots.txt at an address. One that is not there (4xx) allows everything; one that cannot be had
    forbids it.
    """

    def __init__(self, fetch: Callable[[str], Page]) -> None:
        self._fetch, self._lock = fetch, Lock()
        self._known: dict[str, RobotFileParser | None] = {}

    def check(self, url: str) -> None:
        """Refused where the host's robots.txt forbids it."""
        scheme, host, port = origin(url)
        named = f"[{host}]" if ":" in host else host
        place = f"{scheme}://{named}{'' if port in (80, 443) else f':{port}'}/robots.txt"
        rules = self._rules(place)
        if rules is not None and not rules.can_fetch(AGENT, url):
            raise Refused(url, FORBIDDEN)

    def _rules(self, place: str) -> RobotFileParser | None:
        with self._lock:
            if place in self._known:
                return self._known[place]
        rules = _parsed(self._fetch(place))
        with self._lock:
            while len(self._known) >= HOSTS:
                del self._known[next(iter(self._known))]
            self._known[place] = rules
        return rules


def _parsed(page: Page) -> RobotFileParser | None:
    """None where everything is allowed."""
    if page.error is not None and 400 <= page.status < 500:
        return None
    rules = RobotFileParser()
    lines = page.content.decode("utf-8", "replace").splitlines()[:LINES]
    rules.parse(lines if page.error is None else ["User-agent: *", "Disallow: /"])
    return rules
