"""Which web addresses may be requested: http(s) addresses of hosts on the public internet. Refused says why not."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network

import requests

from longform.addresses import origin, shown
from longform.errors import Incomplete, SourceError

PRIVATE, UNKNOWN, FORBIDDEN, NO_ADDRESS = "private address", "unknown host", "robots.txt forbids it", "no web address"
EMBEDDED_V4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


class Refused(SourceError):
    """Raised for an address that this program does not request. `place` is the address; `reason`: "private address",
    "unknown host", "robots.txt forbids it" or "no web address".
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{shown(place)} is not asked for: {reason}.")
        self.reason = reason


def check_address(url: str, *, private_hosts: bool) -> None:
    """Raise Refused for a URL that is no http(s) address or holds a user or password and, unless `private_hosts`, for
    a host that is unknown or has an IP address that is not public; Incomplete if its name cannot be looked up for now.

    All IP addresses of the host are checked before a connection is made; `check_peer` checks the connected one again,
    as the name may resolve to another by then. Behind a proxy, which resolves names, only an IP address written in the
    URL is checked.
    """
    try:
        _, host, port = origin(url)
    except SourceError:
        raise Refused(url, NO_ADDRESS) from None
    if not private_hosts and not all(map(public, _addresses(url, host, port))):
        raise Refused(url, PRIVATE)


def check_peer(host: str, address: str) -> None:
    """Raise Refused if `address`, the IP address to which `host` was connected, is not public."""
    if not public(address.partition("%")[0]):
        raise Refused(f"//{host}", PRIVATE)


def _addresses(url: str, host: str, port: int) -> list[str]:
    """The IP addresses of the host of `url`. Behind a proxy only an address that is written as such in the URL, else
    []. Refused if the host is unknown or its name ill-formed, Incomplete if the name cannot be looked up for now.
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
        raise Incomplete(f"{shown(url)} has a host whose address cannot be looked up now: run this again.") from None
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
