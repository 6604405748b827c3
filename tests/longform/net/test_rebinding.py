"""Names that lead elsewhere the second time: the address that was judged is the one that is connected to.

Here 127.0.0.2 and 127.0.0.3 play the public internet, and 127.0.0.1 is this machine.
"""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate
from http_server import Answer, Server, serve
from raw_server import raw_server, read_request

from longform.errors import Incomplete, SourceError, UsageError
from longform.net import hosts
from longform.net.download import Downloader
from longform.net.hosts import PublicHosts, Refused

NAME = "rebound.example"
JUDGE = hosts.public


class Resolver:
    """Answers for NAME with the next of the given lists of addresses, the last one for ever; else as the machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self.asked, self._answers = 0, chain(answers, repeat(answers[-1]))
        self._resolve = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)
        monkeypatch.setattr(hosts, "public", lambda ip: ip in ("127.0.0.2", "127.0.0.3") or JUDGE(ip))

    def __call__(self, host: Any, *args: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return self._resolve(host, *args, **options)
        self.asked += 1
        return [found for ip in next(self._answers).split() for found in self._resolve(ip, *args, **options)]


@pytest.fixture
def outside() -> Iterator[Server]:
    with serve("127.0.0.2") as server:
        server.on("*", Answer(body=b"outside"))
        yield server


@pytest.fixture
def inside(outside: Server) -> Iterator[Server]:
    """On this machine, at the same port."""
    with serve("127.0.0.1", outside.http.server_port) as server:
        server.on("*", Answer(body=b"secret"))
        yield server


def client(**options: Any) -> Downloader:
    return Downloader(**{"sleep": lambda seconds: None, "tries": 2, "timeout_seconds": (2, 2), **options})


def test_one_look_up_is_judged_and_connected_to(
    outside: Server, inside: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look-up would lead to this machine."""
    resolver = Resolver(monkeypatch, "127.0.0.2", "127.0.0.1")
    url = f"http://{NAME}:{outside.http.server_port}/a"
    assert client().get(url, public_only=True).content == b"outside"
    assert resolver.asked == 1
    assert outside.asked[0].headers["host"] == f"{NAME}:{outside.http.server_port}"
    with pytest.raises(Refused, match="private address"):
        client().get(url, public_only=True)
    assert inside.asked == []


@pytest.mark.parametrize("answers", [["127.0.0.2", "127.0.0.1"], ["127.0.0.2", "127.0.0.2 127.0.0.1"]])
def test_a_download_of_a_public_name_is_not_gone_on_with_on_this_machine(
    answers: list[str], outside: Server, inside: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Resolver(monkeypatch, *answers)
    outside.on("/a.bin", Answer(body=bytes(50_000), etag='"1"', ranges=True, drop_after=20_000))
    with pytest.raises(SourceError, match="private address"):
        client().download(f"http://{NAME}:{outside.http.server_port}/a.bin", tmp_path / "a.bin")
    assert inside.asked == []
    assert not (tmp_path / "a.bin").exists()


def test_of_a_name_that_leads_to_both_only_the_public_address_is_asked(
    outside: Server, inside: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    Resolver(monkeypatch, "127.0.0.1 127.0.0.2")
    url = f"http://{NAME}:{outside.http.server_port}/a"
    assert client().get(url).content == b"outside"
    with pytest.raises(Refused, match="private address"):
        client().get(url, public_only=True)
    assert inside.asked == []


def test_a_dead_address_is_passed_over(outside: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at 127.0.0.3."""
    Resolver(monkeypatch, "127.0.0.3 127.0.0.2")
    assert client(tries=1).get(f"http://{NAME}:{outside.http.server_port}/a").content == b"outside"


@pytest.mark.parametrize("name", [NAME, NAME + ".", NAME.upper()])
@pytest.mark.parametrize("target", ["http://127.0.0.1:{port}/a", "http://[::1]:{port}/a", "http://2130706433:{port}/a"])
def test_a_public_host_redirects_to_no_private_address(
    target: str, name: str, outside: Server, inside: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Resolver(monkeypatch, "127.0.0.2")
    port = outside.http.server_port
    outside.on("/a.bin", Answer(302, headers={"Location": f"http://{name}:{port}/b"}))
    outside.on("/b", Answer(302, headers={"Location": target.format(port=port)}))
    with pytest.raises(SourceError):
        client().download(f"http://{name}:{port}/a.bin", tmp_path / "a.bin")
    assert inside.asked == []


def test_a_mirror_in_the_users_own_network_may_redirect_there(inside: Server, outside: Server) -> None:
    inside.on("/a", Answer(302, headers={"Location": f"http://localhost:{inside.http.server_port}/b"}))
    assert client().get(f"{inside.url}/a").content == b"secret"


@pytest.mark.parametrize("certified", [NAME, "127.0.0.2"])
def test_tls_asks_for_the_name_and_holds_the_certificate_against_it(
    certified: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str | None]()
    context = certificate(tmp_path, host=certified)
    context.sni_callback = lambda connection, name, _: names.append(name)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "cert.pem"))
    Resolver(monkeypatch, "127.0.0.2")
    with serve("127.0.0.2") as server:
        server.on("*", Answer(body=b"{}"))
        server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
        url = f"https://{NAME}:{server.http.server_port}/a"
        if certified == NAME:
            assert client().get(url, public_only=True).content == b"{}"
            assert server.asked[0].headers["host"] == f"{NAME}:{server.http.server_port}"
        else:
            with pytest.raises(SourceError, match="certificate"):
                client().get(url, public_only=True)
            assert server.asked == []
    assert names[0] == NAME


LITERALS = "127.0.0.1 10.0.0.1 169.254.169.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 fe80::1 0.0.0.0 127.1"


@pytest.mark.parametrize("literal", LITERALS.split())
def test_literal_addresses_are_judged_too(literal: str) -> None:
    with pytest.raises(Refused, match="private address"):
        PublicHosts().addresses(literal, 80, public_only=True)


def test_a_reply_that_drips_or_unpacks_without_end_is_bounded(outside: Server) -> None:
    outside.on("/head", Answer(body=b"{}", head_drip=0.2))
    outside.on("/bomb", Answer(body=gzip.compress(bytes(60_000_000)), headers={"Content-Encoding": "gzip"}))
    began = time.monotonic()
    with pytest.raises(Incomplete, match="no whole head"):
        client(tries=1, timeout_seconds=(1, 0.5)).get(f"{outside.url}/head")
    assert time.monotonic() - began < 10
    with pytest.raises(SourceError, match="more than 1,000,000 bytes"):
        client(tries=1).get(f"{outside.url}/bomb", max_bytes=1_000_000)


def test_trailers_without_end_are_bounded_and_are_no_end_of_the_file(tmp_path: Path) -> None:
    """A byte a moment never lets a read time out, and a chunked reply that is cut in its trailers parses as whole."""

    def trailing(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
        for _ in range(600):
            connection.sendall(b"X: y\r\n")
            time.sleep(0.1)

    began = time.monotonic()
    with raw_server(trailing) as port, pytest.raises(Incomplete, match="nothing for too long"):
        client(tries=1, timeout_seconds=(1, 0.6)).download(f"http://127.0.0.1:{port}/a.bin", tmp_path / "a.bin")
    assert time.monotonic() - began < 30
    assert not (tmp_path / "a.bin").exists()


def test_certificates_that_the_environment_names_wrongly_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/own.pem")
    with pytest.raises(UsageError, match=r"names /nowhere/own\.pem, which is not there"):
        client().get("https://127.0.0.1:1/a")
