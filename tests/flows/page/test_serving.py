"""How the page is served: under which addresses, from where forms are taken, and what `longform serve` refuses."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from ports import held_port
from typer.testing import CliRunner

from flows.cli.main import app
from flows.page.application import Serving, create_app
from longform.errors import UsageError

HERE = "http://127.0.0.1:8010"
PROXY = "https://annotate.example.org"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Callable[[str | None], TestClient]]:
    """Makes a client of a page at port 8010 with this `origin`."""
    with ExitStack() as stack:
        yield lambda origin: stack.enter_context(TestClient(create_app(Serving(tmp_path, origin)), base_url=HERE))


@pytest.mark.parametrize("host", ["127.0.0.1:8010", "localhost:8010", "LOCALHOST:8010", "[::1]:8010"])
def test_this_machine_is_served_under_its_names_and_its_port(
    client: Callable[[str | None], TestClient], host: str
) -> None:
    assert client(None).get("/work/log-in", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8011", "localhost", "127.0.0.1:80", "", ":8010", "localhost:", "localhost:8010:8010",
        "localhost:8010/x", "me@localhost:8010", "localhost.:8010", "evil.example:8010", "localhost:８０１０",
    ],
)  # fmt: skip
def test_a_request_for_another_name_or_port_is_refused(client: Callable[[str | None], TestClient], host: str) -> None:
    for origin in (None, PROXY):
        found = client(origin).get("/work/log-in", headers=[(b"host", host.encode())])
        assert found.status_code == 400


@pytest.mark.parametrize(
    ("origin", "host"),
    [(PROXY, "annotate.example.org"), (PROXY, "annotate.example.org:443"), ("http://localhost:9000", "localhost:9000")],
)
def test_a_proxy_or_a_tunnel_is_served_under_the_address_that_people_type(
    client: Callable[[str | None], TestClient], origin: str, host: str
) -> None:
    page = client(origin)
    for name in (host, "127.0.0.1:8010"):
        assert page.get("/work/log-in", headers={"host": name}).status_code == 200
        sent = page.post("/work/log-in", headers={"host": name, "origin": origin})
        assert "another session" in sent.text, "the form is refused for its token alone"


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"origin": ""}, {"origin": "null"}, {"origin": "http://127.0.0.1:8011"}, {"origin": "https://127.0.0.1:8010"},
        {"origin": "http://[bad"}, {"origin": "http://127.0.0.1:8010:1"}, {"origin": "http://127.0.0.1:99999"},
        {"origin": "http://localhost:8010"}, {"origin": "http://127.0.0.1:8010@evil.example"},
        {"referer": "http://evil.example/127.0.0.1:8010"}, {"origin": "null", "referer": f"{HERE}/work"},
    ],
)  # fmt: skip
def test_a_form_that_does_not_say_that_it_comes_from_this_page_is_refused(
    client: Callable[[str | None], TestClient], headers: dict[str, str]
) -> None:
    answer = client(None).post("/work/log-in", headers=headers)
    assert (answer.status_code, "was not sent from this page" in answer.text) == (403, True)


@pytest.mark.parametrize("headers", [{"origin": HERE}, {"referer": f"{HERE}/work/log-in"}])
def test_a_form_of_this_page_is_read(client: Callable[[str | None], TestClient], headers: dict[str, str]) -> None:
    assert "another session" in client(None).post("/work/log-in", headers=headers).text


def test_cookies_of_a_page_behind_https_go_by_https_alone(client: Callable[[str | None], TestClient]) -> None:
    for origin, secure in ((PROXY, True), ("http://localhost:9000", False), (None, False)):
        cookie = client(origin).get("/work/log-in").headers["set-cookie"]
        assert ("Secure" in cookie, cookie.startswith("__Host-")) == (secure, secure)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--look", "some"], "it takes open, accounts, off"),
        (["--host", "0.0.0.0", "--look", "off"], "--origin is not given"),
        (["--origin", "annotate.example.org", "--look", "off"], "--origin is annotate.example.org"),
        (["--origin", "https://annotate.example.org:99999", "--look", "off"], "--origin is https"),
        (["--origin", "http://annotate.example.org", "--look", "off"], "by https alone"),
        (["--origin", PROXY], "add --look accounts"),
        (["--host", "0.0.0.0", "--origin", "http://localhost:9000"], "add --look accounts"),
    ],
)
def test_serving_others_takes_their_address_and_a_word_on_look(tmp_path: Path, words: list[str], said: str) -> None:
    found = CliRunner().invoke(app, ["serve", "--home", str(tmp_path), *words])
    assert isinstance(found.exception, UsageError)
    assert said in str(found.exception)


def test_a_port_that_is_taken_and_a_wrong_configuration_end_the_command_with_a_sentence(tmp_path: Path) -> None:
    with held_port() as port, socket.create_server(("127.0.0.1", port)):
        for words, said in (
            (["--port", str(port)], "Address already in use"),
            (["--live", str(tmp_path / "none.toml")], "There is no configuration"),
        ):
            found = CliRunner().invoke(app, ["serve", "--home", str(tmp_path), *words])
            assert isinstance(found.exception, UsageError)
            assert said in str(found.exception)
    assert not (tmp_path / "page").exists()
