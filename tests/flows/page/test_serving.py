"""How the page is served: under which addresses, from where forms are taken, what `longform serve` refuses, and which
databases it opens.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from ports import held_port
from postgresql import Server
from sqlalchemy import delete, func, insert, select, text
from typer.testing import CliRunner

from flows.cli.main import app
from flows.page.application import Serving, create_app
from flows.page.work import accounts
from flows.page.work.database import opened
from flows.page.work.tables import ACCOUNTS, FORMAT, FORMATS
from longform.errors import StoreError, UsageError

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


# ---------------------------------------------------------------- the database that is opened


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose accounts and annotations are in SQLite or in PostgreSQL."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("LONGFORM_WORK", server.database())
    return tmp_path


def test_tables_of_a_newer_release_are_refused_and_left_as_they_are(home: Path) -> None:
    async def newer() -> None:
        async with opened(home) as database, database.writing() as connection:
            await connection.execute(insert(FORMATS).values(format=FORMAT + 1))
            await connection.execute(text("DROP TABLE live_topics"))

    async def tables() -> None:
        async with opened(home):
            pass

    asyncio.run(newer())
    for _ in range(2):
        with pytest.raises(StoreError, match=f"format {FORMAT + 1}, and this release knows formats up to {FORMAT}"):
            asyncio.run(tables())


def test_tables_from_before_there_were_formats_are_taken_as_the_first(home: Path) -> None:
    async def before() -> None:
        async with opened(home) as database:
            await accounts.add(database, "ann", "annotator", "a long password")
            async with database.writing() as connection:
                await connection.execute(text("DROP TABLE page_format"))

    async def after() -> tuple[int, int]:
        async with opened(home) as database, database.reading() as connection:
            number = await connection.scalar(select(func.count()).select_from(ACCOUNTS))
            return int(number or 0), int(await connection.scalar(select(func.max(FORMATS.c.format))) or 0)

    asyncio.run(before())
    assert asyncio.run(after()) == (1, FORMAT)
    assert asyncio.run(after()) == (1, FORMAT)


def test_a_database_without_its_format_gets_it_again(home: Path) -> None:
    async def without() -> int:
        async with opened(home) as database, database.writing() as connection:
            found = await connection.scalar(select(func.count()).select_from(FORMATS))
            await connection.execute(delete(FORMATS))
            return int(found or 0)

    assert [asyncio.run(without()) for _ in range(2)] == [1, 1]


def test_a_damaged_file_and_a_server_that_is_away_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_it() -> None:
        async with opened(tmp_path):
            pass

    file = tmp_path / "page" / "work.sqlite"
    file.parent.mkdir()
    file.write_bytes(b"no database at all, but longer than a header of one would be" * 40)
    with pytest.raises(StoreError, match=r"work\.sqlite cannot be used .* file is not a database"):
        asyncio.run(open_it())
    monkeypatch.setenv("LONGFORM_WORK", "postgresql://me:a-secret-word@127.0.0.1:1/none")
    with pytest.raises(StoreError, match="LONGFORM_WORK names cannot be used") as found:
        asyncio.run(open_it())
    assert "a-secret-word" not in str(found.value)
