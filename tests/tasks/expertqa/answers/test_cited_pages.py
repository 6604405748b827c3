"""Pages that answers cite: fetched from a server that fails in many ways, or among given pages."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest
from expertqa_tables import Home, claim, evidence
from http_server import Answer, Server, serve

from longform.engine.stage import Row, Rows
from longform.net.web import Manners
from schemas.expertqa import CLAIMS, DOCUMENTS
from tasks.expertqa.answers.cited_pages import link_cited_pages, month_of, read_cited_pages
from tasks.expertqa.answers.evidence import Search
from tasks.expertqa.tables.paper_tables import cited_pages
from tasks.sources.web.web import Crawl

QUICK = Manners(per_second=None, tries=1, patience_seconds=1.0, timeout_seconds=(5.0, 5.0), give_up=True)
OPEN = Crawl(private_hosts=True, robots=True, manners=QUICK)
SENTENCE = "Water of {0} is heated until it boils, and then it is poured over the leaves of {0}, which stay in it. "


def html(word: str, *, status: int = 200, kind: str = "text/html; charset=utf-8") -> Answer:
    text = SENTENCE.format(word) * 5
    body = f"<html><head><title>Of {word}</title></head><body><article><p>{text}</p></article>".encode()
    return Answer(status, body=body, headers={"Content-Type": kind})


def of(address: str, number: int = 1, **more: Any) -> Row:
    return evidence(number=number, url=address, **more)


def claims_of(home: Home, *cited: list[Row], system: str = "gpt4") -> Rows:
    rows = [
        claim("a", place, "q", system=system, text=f"Tea leaves stay in water {place} [1].", evidence=own)
        for place, own in enumerate(cited)
    ]
    return home.table(CLAIMS, rows)


def pages_of(home: Home, *pages: tuple[str, str, datetime | None]) -> Rows:
    rows = [
        {
            "passage_id": f"d{place}#0",
            "url": url,
            "title": f"Page {place}",
            "text": text,
            "start": 0,
            "licence": None,
            "retrieved_at": moment,
        }
        for place, (url, text, moment) in enumerate(pages)
    ]
    return home.table(DOCUMENTS, rows, keys=())


def read(home: Home, claims: Rows, pages: Rows, crawl: Crawl | None) -> tuple[list[Row], list[Row]]:
    """The rows of cited pages, and the claims with their evidence."""
    found = home.run(read_cited_pages, claims, pages, search=Search(size=40, overlap=10), crawl=crawl)
    return list(found), list(home.run(link_cited_pages, claims, found))


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def home(tmp_path: Any) -> Home:
    return Home(tmp_path / "home")


def states(rows: list[Row]) -> list[tuple[str, str | None]]:
    return [(page["state"], page["reason"]) for row in rows for page in row["pages"]]


def test_pages_are_fetched_once_and_their_best_windows_are_evidence(home: Home, server: Server) -> None:
    server.on("/tea", html("tea"))
    address = f"{server.url}/tea"
    claims = claims_of(home, [of(address)], [of(f"{address}#part", 2)], [])
    rows, linked = read(home, claims, pages_of(home), OPEN)
    assert states(rows) == [("read", None)] * 2
    assert [len(row["evidence"]) for row in linked] == [2, 2, 0]
    for row in linked[:2]:
        assert all("poured over the leaves of tea" in one["text"] or "heated" in one["text"] for one in row["evidence"])
        assert {one["url"] for one in row["evidence"]} <= {address, f"{address}#part"}
        assert len({one["passage_id"] for one in row["evidence"]}) == 2
    assert [asked.path for asked in server.asked].count("/tea") == 1
    assert rows[0]["pages"][0]["month"] == month_of(datetime.now(UTC))
    assert rows[0]["pages"][0]["title"] == "Of tea"


@pytest.mark.parametrize(
    ("answer_", "state"),
    [
        (Answer(404), "dead"),
        (Answer(500), "dead"),
        (html("x", kind="application/pdf"), "unreadable"),
        (Answer(200, body=b"", headers={"Content-Type": "text/html"}), "unreadable"),
        (Answer(200, body=b"\x00\xff" * 500, headers={"Content-Type": "image/png"}), "unreadable"),
        (Answer(302, headers={"Location": "/nowhere"}), "dead"),
    ],
)
def test_a_page_that_cannot_be_had_or_read_says_so_and_leaves_the_address(
    home: Home, server: Server, answer_: Answer, state: str
) -> None:
    server.on("/x", answer_)
    rows, linked = read(home, claims_of(home, [of(f"{server.url}/x", given="[1] given")]), pages_of(home), OPEN)
    ((found, reason),) = states(rows)
    assert found == state
    assert reason
    (one,) = linked[0]["evidence"]
    assert (one["text"], one["given"]) == (None, "[1] given")
    asked = len(server.asked)
    again, _ = read(home, claims_of(home, [of(f"{server.url}/x")]), pages_of(home), OPEN)
    assert states(again) == states(rows)
    assert len(server.asked) == asked, "a failure is kept as well"


WALLS = {
    "page not found": ("Page not found", "Sorry, the page you requested could not be found. Please go back."),
    "cookie wall": ("Before you continue", "We value your privacy. Accept all cookies to continue."),
    "paywall": ("Otters", "Subscribe to continue reading. This article is for subscribers only."),
    "parked domain": ("tea.example", "Diese Domain steht zum Verkauf. Angebot an den Inhaber senden."),
    "login wall": ("Log in", "You must be logged in to view this. Forgot your password?"),
    "needs javascript": ("App", "Chargement en cours…"),
    "bot check": ("Just a moment...", "Checking your browser. Complete the captcha below to continue."),
}


@pytest.mark.parametrize("kind", WALLS)
def test_a_wall_that_is_answered_as_a_page_is_unreadable_and_no_evidence(home: Home, server: Server, kind: str) -> None:
    title, text = WALLS[kind]
    body = f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1><p>{text}</p></article></body>"
    server.on("/x", Answer(200, body=body.encode(), headers={"Content-Type": "text/html"}))
    claims = claims_of(home, [of(f"{server.url}/x")], [of(f"{server.url}/x")])
    rows, linked = read(home, claims, pages_of(home), OPEN)
    assert states(rows) == [("unreadable", kind)] * 2
    assert all(one["text"] is None for row in linked for one in row["evidence"])
    given = pages_of(home, (f"{server.url}/x", text, None))
    assert states(read(home, claims, given, None)[0]) == [("unreadable", kind)] * 2


def test_a_page_counts_once_an_answer(home: Home, server: Server) -> None:
    server.on("/tea", html("tea"))
    claims = claims_of(home, [of(f"{server.url}/tea")], [of(f"{server.url}/tea"), of(f"{server.url}/gone", 2)])
    found = home.run(read_cited_pages, claims, pages_of(home), search=Search(size=40, overlap=10), crawl=OPEN)
    counts = {name: number for part in found.parts or () for name, number in part.counts}
    assert counts == {"cited pages read": 1, "cited pages dead": 1}


def test_a_robots_txt_is_obeyed_and_private_addresses_are_not_fetched(home: Home, server: Server) -> None:
    server.on("/robots.txt", Answer(200, body=b"User-agent: *\nDisallow: /no", headers={"Content-Type": "text/plain"}))
    server.on("/no", html("tea"))
    server.on("/yes", html("tea"))
    rows, _ = read(home, claims_of(home, [of(f"{server.url}/no"), of(f"{server.url}/yes", 2)]), pages_of(home), OPEN)
    assert [state for state, _ in states(rows)] == ["dead", "read"]
    asked = len(server.asked)
    public = Crawl(manners=QUICK)
    rows, _ = read(home, claims_of(home, [of(f"{server.url}/other")]), pages_of(home), public)
    assert [state for state, _ in states(rows)] == ["dead"]
    assert len(server.asked) == asked


@pytest.mark.parametrize("address", ["http://", "https://[::1", "ftp://a.example", "mailto:a@b.example"])
def test_what_is_no_address_of_a_page_is_dead_and_never_fetched(home: Home, server: Server, address: str) -> None:
    rows, linked = read(home, claims_of(home, [of(address)]), pages_of(home), OPEN)
    assert states(rows) == [("dead", "no address of a page")]
    assert linked[0]["evidence"][0]["url"] == address
    assert server.asked == []


@pytest.mark.parametrize("login", ["user:secret@", "secret@", "user:se/cr:et@", "user:s@secret@", "user:secret%40"])
def test_a_cited_page_is_fetched_without_user_and_password_which_stand_nowhere(
    home: Home, server: Server, login: str
) -> None:
    server.on("/tea", html("tea"))
    host = server.url.removeprefix("http://")
    address = f"http://{login}{host}/tea"
    claims = claims_of(home, [of(address, given=f"[1] {address}")], [of(f"HTTP://{host}/tea")])
    rows, linked = read(home, claims, pages_of(home), OPEN)
    assert states(rows) == [("read", None)] * 2
    assert {one["url"] for row in linked for one in row["evidence"]} == {f"http://{host}/tea"}
    assert "secret" not in f"{rows}{linked}"
    assert all("Authorization" not in asked.headers for asked in server.asked)
    stored = [path for path in home.store.home.rglob("*") if path.is_file() and path.parts[-2] == "web"]
    assert stored
    assert not any(b"secret" in path.read_bytes() for path in stored)


def test_addresses_without_a_scheme_are_those_of_their_pages(home: Home) -> None:
    pages = pages_of(
        home,
        ("https://www.tea.example/x", "Tea leaves stay in water.", None),
        ("https://doi.org/10.1000/xyz", "Tea is a drink.", None),
    )
    cited = [of("www.tea.example/x"), of("doi:10.1000/xyz", 2), of("https://doi.org/10.1000/xyz", 3)]
    rows, linked = read(home, claims_of(home, cited), pages, None)
    assert states(rows) == [("read", None)] * 2
    assert {one["url"] for one in linked[0]["evidence"]} == {"https://www.tea.example/x", "https://doi.org/10.1000/xyz"}


@pytest.mark.parametrize("robots", [True, False])
def test_a_host_that_does_not_answer_is_dead_for_what_happened(home: Home, robots: bool) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
        crawl = replace(OPEN, robots=robots)
        claims = claims_of(home, [of(refusing), of("http://vanished.invalid/x", 2)])
        rows, _ = read(home, claims, pages_of(home), crawl)
    assert states(rows) == [("dead", "connection refused"), ("dead", "unknown host")]
    frame = pd.DataFrame([{**row, "answer_id": "a", "system": "gpt4"} for row in rows])
    (counted,) = cited_pages(frame).to_dict("records")
    assert (counted["dead"], counted["reasons"]) == (2, "connection refused 1, unknown host 1")


def test_a_robots_txt_that_cannot_be_read_forbids_and_says_so(home: Home, server: Server) -> None:
    server.on("/robots.txt", Answer(503))
    rows, _ = read(home, claims_of(home, [of(f"{server.url}/x")]), pages_of(home), OPEN)
    assert states(rows) == [("dead", "robots.txt cannot be read")]


def test_taken_down_pages_are_not_fetched_nor_followed(home: Home, server: Server) -> None:
    server.on("/tea", html("tea"))
    server.on("/moved", Answer(302, headers={"Location": "/tea"}))
    crawl = Crawl(private_hosts=True, takedowns=(f"web/{server.url.removeprefix('http://')}/tea",), manners=QUICK)
    rows, linked = read(
        home, claims_of(home, [of(f"{server.url}/tea")], [of(f"{server.url}/moved")]), pages_of(home), crawl
    )
    assert [state for state, _ in states(rows)] == ["taken down"] * 2
    assert all(one["text"] is None for row in linked for one in row["evidence"])


def test_given_pages_stand_in_for_the_web(home: Home, server: Server) -> None:
    when = datetime(2026, 4, 11, tzinfo=UTC)
    pages = pages_of(
        home,
        ("https://a.example/tea", "Tea leaves stay in water.", when),
        ("https://a.example/tea", "A second window of the page.", when),
        ("https://a.example/ale", "Ale is brewed.", None),
    )
    claims = claims_of(
        home,
        [of("https://A.example/tea#top"), of("https://a.example/gone", 2)],
        [of("https://a.example/ale", given="[1] https://a.example/ale"), of("https://b.example", 2, text="known")],
    )
    rows, linked = read(home, claims, pages, None)
    assert states(rows) == [
        ("read", None),
        ("not among the pages", "no such page is given"),
        ("read", None),
    ]
    assert [page["month"] for row in rows for page in row["pages"]] == ["2026-04", None, None]
    first, second = ([(one["url"], one["text"]) for one in row["evidence"]] for row in linked)
    assert first == [
        ("https://A.example/tea#top", "Tea leaves stay in water."),
        ("https://A.example/tea#top", "A second window of the page."),
        ("https://a.example/gone", None),
    ] or first[0] == ("https://A.example/tea#top", "Tea leaves stay in water.")
    assert second == [("https://a.example/ale", "Ale is brewed."), ("https://b.example", "known")]
    assert linked[1]["evidence"][0]["given"] == "[1] https://a.example/ale"
    assert server.asked == []


def test_dead_pages_are_counted_by_system_and_month() -> None:
    def page(url: str, state: str, month: str | None, reason: str | None = None) -> Row:
        return {"url": url, "state": state, "reason": reason, "month": month, "title": None, "windows": []}

    frame = pd.DataFrame([
        {"answer_id": "a", "system": "gpt4", "pages": [
            page("u", "read", "2026-03"), page("v", "dead", "2026-03", "404")]},
        {"answer_id": "a", "system": "gpt4", "pages": [page("v", "dead", "2026-03", "404")]},
        {"answer_id": "b", "system": "gpt4", "pages": [page("v", "dead", "2026-04", "404")]},
        {"answer_id": "c", "system": "bing_chat", "pages": [page("w", "not among the pages", None, "no such page")]},
        {"answer_id": "d", "system": "rr", "pages": []},
    ])  # fmt: skip
    found = cited_pages(frame).to_dict("records")
    assert [(row["system"], row["month"], row["cited"], row["read"], row["dead"], row["reasons"]) for row in found] == [
        ("bing_chat", "unknown", 1, 0, 0, "no such page 1"),
        ("gpt4", "2026-03", 2, 1, 1, "404 1"),
        ("gpt4", "2026-04", 1, 0, 1, "404 1"),
    ]
    assert len(cited_pages(frame[frame.system == "rr"])) == 0
