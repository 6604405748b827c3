"""Which web addresses may be requested: http(s) addresses of hosts on the public internet. Refused says why not."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network

import requests

from longform.addresses import origin, shown
from longform.errors import Incomplete, SourceError

PRIVATE, UNKNOWN, FORBIDDEN, NO_ADDRESS = "private address", "unknown host", "robots.txt forbids it", "no web address"
UNRESOLVED, CLOSED, SILENT, UNREACHABLE = "host name not resolved", "connection refused", "no answer", "not reachable"
PASSING = (UNRESOLVED, CLOSED, SILENT, UNREACHABLE)
NO_RULES = "robots.txt cannot be read"
EMBEDDED_V4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


class Refused(SourceError):
    """Raised for an address that this program does not request. `place` is the address; `reason`: "private address",
    "unknown host", "robots.txt forbids it", "robots.txt cannot be read" or "no web address", or one of PASSING where
    the host of a robots.txt is given up.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{shown(place)} is not asked for: {reason}.")
        self.reason = reason


class Unreached(Incomplete):
    """Raised for a request that got no usable answer for a reason that may pass. `reason`: one of PASSING, or "unknown
    host".
    """

    def __init__(self, message: str, reason: str = UNREACHABLE) -> None:
        super().__init__(message)
        self.reason = reason


def check_address(url: str, *, private_hosts: bool) -> None:
    """Raise Refused for a URL that is no http(s) address or holds a user or password and, unless `private_hosts`, for
    a host that is unknown or has an IP address that is not public; Unreached if its name cannot be looked up for now.

    All IP addresses of the host are checked before a connection is made. As the name may lead elsewhere by then, the
    connection judges the addresses of its own look-up again (`PublicHosts`), and connects to one of these. Behind a
    proxy, which resolves names, only an IP address written in the URL is checked.
    """
    try:
        _, host, port = origin(url)
    except SourceError:
        raise Refused(url, NO_ADDRESS) from None
    if not private_hosts and not all(map(public, _addresses(url, host, port))):
        raise Refused(url, PRIVATE)


class PublicHosts:
    """Judges the IP addresses that connections are made to, one look-up a connection, and remembers the names that led
    to the public internet. Threads may share it.

    Such a name leads to no private address later, and nothing there redirects to one: else whoever owns the name could
    point it at this machine between two look-ups.
    """

    def __init__(self) -> None:
        self._names = set[str]()

    def __contains__(self, host: str) -> bool:
        """Whether this name or address has led to the public internet."""
        return host in self._names

    def addresses(self, host: str, port: int, *, public_only: bool) -> list[str]:
        """The IP addresses to connect to, in the order of the look-up. Of a host that has public and private ones only
        the public ones. Refused if one is private and the host was public before, or `public_only` is set;
        socket.gaierror if the name is not known, UnicodeError if it is ill-formed.
        """
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        reachable = [address for address in addresses if public(address.partition("%")[0])]
        if len(reachable) < len(addresses) and (public_only or host in self):
            raise Refused(f"//{host}", PRIVATE)
        if reachable:
            self._names.add(host)
        return reachable or addresses


def _addresses(url: str, host: str, port: int) -> list[str]:
    """The IP addresses of the host of `url`. Behind a proxy only an address that is written as such in the URL, else
    []. Refused if the host is unknown or its name ill-formed, Unreached if the name cannot be looked up for now.
    """
    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    flags = socket.AI_NUMERICHOST if proxy else 0
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:
        raise Refused(url, NO_ADDRESS) from None
    except socket.gaierror as error:
        if flags:
            return []
        if error.errno == socket.EAI_NONAME:
            raise Refused(url, UNKNOWN) from None
        message = f"{shown(url)} has a host whose address cannot be looked up now: run this again."
        raise Unreached(message, UNRESOLVED) from None
    return [str(address[0]).partition("%")[0] for *_, address in found]


def public(address: str) -> bool:
    """Whether an IP address belongs to the public internet: global, not multicast, not reserved. An IPv6 address that
    embeds IPv4 addresses (mapped, 6to4, Teredo, NAT64) is public if all of these are.
    """
    ip = ip_address(address)
    known = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())] if isinstance(ip, IPv6Address) else []
    known += [ip_address(int(ip) & 0xFFFFFFFF)] if any(ip in network for network in EMBEDDED_V4) else []
    carried = [each for each in known if each is not None]
    return all(one.is_global and not one.is_multicast and not one.is_reserved for one in carried or [ip])
