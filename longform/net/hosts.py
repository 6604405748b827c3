"""Which addresses may be asked: those of the public web that their owners leave open to programs."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address, ip_network

import requests

from longform.addresses import origin, shown
from longform.errors import Incomplete, SourceError

PRIVATE, UNKNOWN, FORBIDDEN, NO_ADDRESS = "private address", "unknown host", "robots.txt forbids it", "no web address"
EMBEDDED_V4 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


class Refused(SourceError):
    """An address that is not asked for; `reason` is a short fixed phrase."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{shown(place)} is not asked for: {reason}.")
        self.reason = reason


def check_address(url: str, *, private_hosts: bool) -> None:
    """Refused for what is no http(s) address, and for a host of this machine or of a network that is not public.

    All addresses of its name are looked at, before anything is connected; `check_peer` looks once more at the one that
    was connected, as a name may lead elsewhere by then. Behind a proxy, which resolves names, only written addresses
    are judged.
    """
    try:
        _, host, port = origin(url)
    except SourceError:
        raise Refused(url, NO_ADDRESS) from None
    if not private_hosts and not all(map(public, _addresses(url, host, port))):
        raise Refused(url, PRIVATE)


def check_peer(host: str, address: str) -> None:
    """Refused where the IP address that `host` was connected at is not public."""
    if not public(address.partition("%")[0]):
        raise Refused(f"//{host}", PRIVATE)


def _addresses(url: str, host: str, port: int) -> list[str]:
    """IP addresses of a host; behind a proxy only one that is written in the address itself."""
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
    """Whether an IP address is one of the public internet; where it carries an IPv4 address, whether that is."""
    ip = ip_address(address)
    known = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())] if isinstance(ip, IPv6Address) else []
    known += [ip_address(int(ip) & 0xFFFFFFFF)] if any(ip in network for network in EMBEDDED_V4) else []
    carried = [each for each in known if each is not None]
    return all(one.is_global and not one.is_multicast and not one.is_reserved for one in carried or [ip])
