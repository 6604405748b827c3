"""The web through real servers: searches and pages fetched once, replayed, refused for good, or asked again."""

from __future__ import annotations

import gzip
import io
import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paths
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from http_server import Answer, Asked, Server, document, serve
from hypothesis import given
from hypothesis import strategies as st
from processes import started
from toy_stages import building, source

from longform.addresses import normal_url
from longform.artifacts.rows import Source
from longform.engine.stage import Row, Shard, StageContext, stage
from longform.errors import EndpointError, Incomplete, SourceError, StoreError
from longform.net.hosts import Refused, check_address, public
from longform.net.web import Manners, Page, PageRequest, PageStore, Robots, key_of, open_web
from schemas import column, table
from tasks.sources.web.extraction import Extractor, Unusable, check_html, clean, decoded, media
from tasks.sources.web.web import Crawl, Found, WebBackend, fetch_pages, read_brave, read_searxng, search_web

ROOT = paths.ROOT
QUICK = Manners(per_second=None, tries=2, patience_seconds=600.0, timeout_seconds=(600.0, 600.0))
OPEN = Crawl(private_hosts=True, robots=False, manners=QUICK)
SENTENCES = "Water is heated until it boils, and then it is poured over the leaves. They stay in it for some minutes. "
ARTICLE = f"<html lang=en-GB><head><title>Of tea</title></head><body><nav>Menu</nav><article><p>{SENTENCES * 5}</p>"

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "id"),
    column("question", pa.string(), "text"),
    key="question_id",
)


@stage(QUESTIONS, revision=1)
def read_questions(context: StageContext, file: Shard) -> Iterator[Row]:
    for name, text in json.loads(Path(file.source.path).read_text()):
        yield {"question_id": name, "question": text}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def html(text: str = ARTICLE, **headers: str) -> Answer:
    return Answer(body=text.encode(), headers={"Content-Type": "text/html; charset=utf-8", **headers})


def searxng(server: Server, *pages: list[str], **more: Any) -> Answer | Callable[[Asked], Answer]:
    """Answers with these paths of the server as results, page after page."""

    def answer(asked: Asked) -> Answer:
        number = int(asked.query["pageno"]) - 1
        paths = pages[number] if number < len(pages) else []
        found = [{"url": f"{server.url}{path}", "title": f"T {path}", "content": "c", "engine": "e"} for path in paths]
        return document({"query": asked.query["q"], "results": found, "unresponsive_engines": [], **more})

    return answer


@dataclass
class Toy:
    """Questions, and a home to search the web from."""

    folder: Path
    server: Server
    crawl: Crawl = OPEN

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def backend(self) -> WebBackend:
        return WebBackend("searxng", self.server.url, manners=QUICK)

    def questions(self, asked: dict[str, str]) -> list[Source]:
        path = self.folder / "questions"
        path.write_text(json.dumps(list(asked.items())))
        return [source(path, "toy")]

    def search(self, asked: dict[str, str], k: int = 10, backend: WebBackend | None = None) -> list[Row]:
        with building(self.home) as run:
            questions = read_questions(run, self.questions(asked))
            return list(search_web(run, questions, backend=backend or self.backend, k=k, query="question"))

    def pages(self, *paths: str, crawl: Crawl | None = None) -> tuple[dict[str, Row], dict[str, str]]:
        """Rows by path, and the reasons of the rejected by path, of one question whose results are these paths."""
        self.server.on("/search", searxng(self.server, list(paths)))
        with building(self.home) as run:
            questions = read_questions(run, self.questions({"q": "tea"}))
            results = search_web(run, questions, backend=self.backend, k=50, query="question")
            pages = fetch_pages(run, results, crawl=crawl or self.crawl)
            path_of = {row["result_id"]: row["url"].removeprefix(self.server.url) for row in results}
            files = [run.store.rejected_path(part) for part in pages.parts or () if part.rejected_sha256]
            rejected = [row for file in files for row in pq.read_table(file).to_pylist()]
            rows = {row["url"].removeprefix(self.server.url): row for row in pages}
            return rows, {path_of[row["key"]]: row["reason"] for row in rejected}

    def asked_for_pages(self) -> list[str]:
        return [path for path in self.server.paths() if path not in ("/search", "/robots.txt")]


@pytest.fixture
def toy(tmp_path: Path, server: Server) -> Toy:
    return Toy(tmp_path, server)


# ---------------------------------------------------------------- addresses and replies


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTPS://Example.ORG:443/A?b=2&a=1#part", "https://example.org/A?b=2&a=1"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org:8080/x/", "http://example.org:8080/x/"),
        ("https://e.org/?utm_source=x&id=7&fbclid=1&UTM_Medium=y", "https://e.org/?id=7"),
        ("https://e.org/?ref=book&source=print&gclidx=1", "https://e.org/?ref=book&source=print&gclidx=1"),
        ("https://e.org/a b", "https://e.org/a%20b"),
        ("https://e.org/%7Euser/%2F", "https://e.org/%7Euser/%2F"),
        ("https://e.org/\n\tx", "https://e.org/x"),
        ("https://[2001:DB8::1]:443/", "https://[2001:db8::1]/"),
        ("https://e.org/größe?q=ß", "https://e.org/größe?q=ß"),
        ("ftp://e.org/", None),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("https://user:secret@e.org/", None),
        ("https://e.org:99999/", None),
        ("http://[::1", None),
        ("https:///x", None),
        ("https://e.org/\x00", None),
        ("https://e.org/\ud800", None),
        ("https://e.org/" + "x" * 3_000, None),
        ("", None),
    ],
)
def test_an_address_is_made_one_of_its_kind(url: str, normal: str | None) -> None:
    assert normal_url(url) == normal
    if normal is not None:
        assert normal_url(normal) == normal


@given(st.text())
def test_any_text_is_an_address_or_none(text: str) -> None:
    for url in (text, f"https://{text}", f"https://e.org/{text}"):
        normal = normal_url(url)
        assert normal is None or normal_url(normal) == normal


def test_a_reply_of_searxng_is_read() -> None:
    one = {"url": "https://e.org/", "title": "T <b>", "content": "c &amp; d", "engine": "two", "engines": ["two"]}
    assert read_searxng({"results": [one, {"title": "no address"}, {"url": 7}, "x", {"url": "u", "title": None}]}) == [
        Found("https://e.org/", "T <b>", "c &amp; d", "two"),
        Found("u", "", "", "searxng"),
    ]


def test_a_reply_of_brave_is_read() -> None:
    one = {"url": "https://e.org/", "title": "A &amp; B", "description": "Is <strong>so</strong> &lt;1&gt;"}
    assert read_brave({"type": "search", "web": {"results": [one]}}) == [
        Found("https://e.org/", "A & B", "Is so <1>", "brave")
    ]


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["web", "results", "url", "title", "content", "description"]), x
), max_leaves=8)  # fmt: skip


@given(JSON)
def test_any_reply_is_read(reply: Any) -> None:
    for read in (read_searxng, read_brave):
        assert all(isinstance(part, str) for found in read(reply) for part in found)


# ---------------------------------------------------------------- searching


def test_results_are_ranked_each_address_once_over_more_than_one_page(toy: Toy) -> None:
    pages = [["/a", "/b?utm_source=x"], ["/b", "/c#x", "/a"], ["/d"], []]
    toy.server.on("/search", searxng(toy.server, *pages))
    rows = toy.search({"q1": "tea", "q2": " tea "}, k=4)
    urls = [f"{toy.server.url}/{name}" for name in "abcd"]
    assert [(row["result_id"], row["rank"], row["url"]) for row in rows if row["query_id"] == "q1"] == [
        (f"q1#{rank}", rank, url) for rank, url in enumerate(urls, start=1)
    ]
    assert [row["url"] for row in rows if row["query_id"] == "q2"] == urls
    assert [asked.query for asked in toy.server.asked] == [
        {"q": "tea", "format": "json", "pageno": str(page)} for page in (1, 2, 3)
    ]
    assert {row["engine"] for row in rows} == {"e"}
    assert len({row["fetched_at"] for row in rows}) <= 3


def test_a_search_without_a_result_and_an_empty_one_are_rejected(toy: Toy) -> None:
    toy.server.on("/search", searxng(toy.server))
    assert toy.search({"q1": "tea", "q2": " \n"}) == []
    assert len(toy.server.asked) == 1


def test_a_search_is_replayed_also_from_another_address(toy: Toy, tmp_path: Path) -> None:
    toy.server.on("/search", searxng(toy.server, ["/a"]))
    rows = toy.search({"q": "tea"}, k=1)
    with building(toy.home, force="search_web") as run:
        questions = read_questions(run, toy.questions({"q": "tea"}))
        moved = replace(toy.backend, url="http://127.0.0.1:9")
        assert list(search_web(run, questions, backend=moved, k=1, query="question")) == rows
    assert len(toy.server.asked) == 1


def test_settings_that_change_results_are_part_of_a_search(toy: Toy) -> None:
    toy.server.on("/search", searxng(toy.server, ["/a"]))
    for language in ("en", "de", "en"):
        toy.search({"q": "tea"}, k=1, backend=replace(toy.backend, parameters=(("language", language),)))
    assert [asked.query["language"] for asked in toy.server.asked] == ["en", "de"]


def test_engines_that_all_failed_leave_the_part_open(toy: Toy) -> None:
    nothing = document({"results": [], "unresponsive_engines": [["one", "timeout"]]})
    toy.server.on("/search", nothing, searxng(toy.server, ["/a"]))
    with pytest.raises(Incomplete, match="1 web calls got no answer"):
        toy.search({"q": "tea"}, k=1)
    assert len(toy.search({"q": "tea"}, k=1)) == 1


def test_a_search_api_that_refuses_is_named_at_once_and_nothing_is_stored(toy: Toy) -> None:
    toy.server.on("/search", Answer(403, b"no"), searxng(toy.server, ["/a"]))
    with pytest.raises(EndpointError, match=r"searxng refused: .* Is json allowed in its settings, search.formats\?"):
        toy.search({"q": "tea"}, k=1)
    assert len(toy.search({"q": "tea"}, k=1)) == 1


def test_a_search_api_that_answers_something_else_is_named(toy: Toy) -> None:
    toy.server.on("/search", html(), searxng(toy.server, ["/a"]))
    with pytest.raises(SourceError, match="answers no JSON"):
        toy.search({"q": "tea"}, k=1)
    assert len(toy.search({"q": "tea"}, k=1)) == 1


def test_only_questions_without_an_answer_are_asked_again(toy: Toy) -> None:
    broken = {"q3"}

    def answer(asked: Asked) -> Answer:
        return Answer(503) if asked.query["q"] in broken else searxng(toy.server, ["/a"])(asked)  # type: ignore[operator,no-any-return]

    toy.server.on("/search", answer)
    asked = {name: name for name in ("q1", "q2", "q3", "q4")}
    with pytest.raises(Incomplete):
        toy.search(asked, k=1)
    assert {one.query["q"] for one in toy.server.asked} == set(asked)
    toy.server.asked.clear()
    broken.clear()
    assert [row["query_id"] for row in toy.search(asked, k=1)] == sorted(asked)
    assert [one.query["q"] for one in toy.server.asked] == ["q3"]


KEY = "brave-key-that-nobody-may-see-7291"


def brave(asked: Asked) -> Answer:
    if asked.headers.get("x-subscription-token") != KEY:
        return document({"type": "ErrorResponse"}, 401)
    start = int(asked.query["offset"]) * int(asked.query["count"])
    found = [{"url": f"https://e.org/{n}", "title": "T", "description": "d"} for n in range(start, min(start + 20, 30))]
    return document({"type": "search", "web": {"results": found}} if found else {"type": "search"})


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BRAVE_KEY", KEY)
    return KEY


def test_brave_is_asked_with_its_key_page_after_page(toy: Toy, key: str) -> None:
    toy.server.on("/res/v1/web/search", brave)
    backend = WebBackend("brave", toy.server.url, key_env="BRAVE_KEY", manners=QUICK)
    rows = toy.search({"q": " ".join(["word"] * 200)}, k=25, backend=backend)
    assert [row["url"] for row in rows] == [f"https://e.org/{n}" for n in range(25)]
    assert [(one.query["offset"], one.query["count"]) for one in toy.server.asked] == [("0", "20"), ("1", "20")]
    assert toy.server.asked[0].query["q"] == " ".join(["word"] * 50)
    assert backend.identity() == {"kind": "brave", "parameters": {}}


def test_a_key_is_sent_to_no_other_host_and_is_in_no_file(toy: Toy, key: str) -> None:
    with serve("127.0.0.2") as other:
        other.on("*", document({"web": {"results": [{"url": "https://e.org/", "title": "", "description": ""}]}}))
        toy.server.on("/res/v1/web/search", Answer(302, headers={"Location": f"{other.url}/elsewhere"}))
        backend = WebBackend("brave", toy.server.url, key_env="BRAVE_KEY", manners=QUICK)
        assert len(toy.search({"q": "tea"}, k=1, backend=backend)) == 1
        assert toy.server.asked[0].headers["x-subscription-token"] == KEY
        assert [KEY in str(asked) for asked in other.asked] == [False]
    for file in toy.home.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_a_key_that_is_missing_or_wrong_is_named(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = WebBackend("brave", toy.server.url, key_env="BRAVE_KEY", manners=QUICK)
    with pytest.raises(EndpointError, match="The key BRAVE_KEY of the search API brave is not set"):
        toy.search({"q": "tea"}, backend=backend)
    monkeypatch.setenv("BRAVE_KEY", "wrong-key-5521")
    toy.server.on("/res/v1/web/search", brave)
    with pytest.raises(EndpointError, match=r"Is the key right\?") as error:
        toy.search({"q": "tea"}, backend=backend)
    assert "wrong-key-5521" not in str(error.value)


def test_brave_says_how_long_to_wait(toy: Toy, key: str) -> None:
    limited = Answer(429, headers={"X-RateLimit-Reset": "1, 1419704"})
    toy.server.on("/res/v1/web/search", limited, brave)
    backend = WebBackend("brave", toy.server.url, key_env="BRAVE_KEY", manners=QUICK)
    assert len(toy.search({"q": "tea"}, k=1, backend=backend)) == 1
    first, second = toy.server.asked
    assert second.at - first.at > 0.99  # a try without being told waits for less, one till the other reset for days


# ---------------------------------------------------------------- pages


def test_a_page_becomes_text_with_its_address_and_time(toy: Toy) -> None:
    toy.server.on("/tea", Answer(301, headers={"Location": "/tea.html"}))
    toy.server.on("/tea.html", html())
    before = time.time()
    rows, rejected = toy.pages("/tea")
    row = rows["/tea"]
    assert rejected == {}
    assert row["final_url"] == f"{toy.server.url}/tea.html"
    assert (row["status"], row["title"], row["language"], row["media"]) == (200, "Of tea", "en-gb", "html")
    assert "poured over the leaves" in row["text"]
    assert "Menu" not in row["text"]
    assert row["licence"] is None
    assert row["extractor"].startswith("trafilatura 2.")
    assert row["page_id"].startswith("web/")
    assert before - 1 < row["retrieved_at"].timestamp() < time.time() + 1
    assert row["found_by"] == [{"result_id": "q#1", "query_id": "q", "rank": 1}]


def test_equal_stores_give_equal_bytes_and_ask_nothing(toy: Toy) -> None:
    toy.server.on("/a", html())
    toy.server.on("/b", Answer(404))
    first, _ = toy.pages("/a", "/b", "/c")
    asked = len(toy.server.asked)
    for stages in (("search_web", "fetch_pages"),):
        for name in stages:
            for file in (toy.home / "stages" / name).glob("*.json"):
                file.unlink()
            for file in (toy.home / "stages" / name / "units").glob("*.json"):
                file.unlink()
    again, rejected = toy.pages("/a", "/b", "/c")
    assert again == first
    assert rejected == {"/b": "status 404", "/c": "status 404"}
    assert len(toy.server.asked) == asked


KINDS: dict[str, tuple[Answer, str]] = {
    "/404": (Answer(404, b"gone"), "status 404"),
    "/410": (Answer(410), "status 410"),
    "/403": (Answer(403), "status 403"),
    "/451": (Answer(451), "status 451"),
    "/image": (Answer(body=b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}), "not html, text or pdf"),
    "/zip": (Answer(body=b"PK\x03\x04" + bytes(50)), "not html, text or pdf"),
    "/bomb": (
        replace(html(), body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"}),
        "no usable reply",
    ),
    "/large": (html("<p>" + "x" * 10_000_001), "no usable reply"),
    "/notgzip": (html(ARTICLE, **{"Content-Encoding": "gzip"}), "no usable reply"),
    "/empty": (html(""), "no text in the page"),
    "/bare": (html("<html><body><script>x()</script></body></html>"), "no text in the page"),
    "/tags": (html("<i>" * 150_000), "page too complex"),
    "/attributes": (html("<p " + " ".join(f"a{n}" for n in range(50_000)) + ">x"), "page too complex"),
    "/long": (html("<p>" + "word " * 1_100_000), "page too large"),
    "/loop": (Answer(302, headers={"Location": "/loop"}), "no usable reply"),
    "/file": (Answer(302, headers={"Location": "file:///etc/passwd"}), "no usable reply"),
}  # fmt: skip


def test_pages_that_are_none_are_rejected_with_a_reason_and_never_asked_again(toy: Toy) -> None:
    for path, (answer, _) in KINDS.items():
        toy.server.on(path, answer)
    toy.server.on("/good", html())
    rows, rejected = toy.pages(*KINDS, "/good")
    assert list(rows) == ["/good"]
    expected = {path: reason for path, (_, reason) in KINDS.items()}
    assert rejected == expected | {"/file": rejected["/file"]}
    assert rejected["/file"] in ("no usable reply", "no web address")
    toy.server.asked.clear()
    for file in (toy.home / "stages" / "fetch_pages").rglob("*.json"):
        file.unlink()
    assert toy.pages(*KINDS, "/good")[1] == rejected
    assert toy.asked_for_pages() == []


def test_a_pdf_is_read_by_the_reader_of_pdfs(toy: Toy) -> None:
    from reportlab.pdfgen.canvas import Canvas

    made = io.BytesIO()
    canvas = Canvas(made)
    for line in range(20):
        canvas.drawString(72, 760 - 14 * line, "The leaves of tea are dried, and then they are rolled.")
    canvas.save()
    toy.server.on("/a.pdf", Answer(body=made.getvalue(), headers={"Content-Type": "application/pdf"}))
    toy.server.on("/broken.pdf", Answer(body=b"%PDF-1.7 and nothing else"))
    rows, rejected = toy.pages("/a.pdf", "/broken.pdf")
    assert "leaves of tea are dried" in rows["/a.pdf"]["text"]
    assert (rows["/a.pdf"]["media"], rows["/a.pdf"]["extractor"].split()[0]) == ("pdf", "pdfium")
    assert list(rejected) == ["/broken.pdf"]
    assert rejected["/broken.pdf"].startswith("pdf: ")


def test_a_page_found_twice_is_fetched_once_and_names_both(toy: Toy) -> None:
    toy.server.on("/search", searxng(toy.server, ["/tea"]))
    toy.server.on("/tea", html())
    with building(toy.home) as run:
        questions = read_questions(run, toy.questions({"q1": "tea", "q2": "more tea"}))
        results = search_web(run, questions, backend=toy.backend, k=1, query="question")
        (row,) = fetch_pages(run, results, crawl=OPEN)
    assert [each["result_id"] for each in row["found_by"]] == ["q1#1", "q2#1"]
    assert toy.asked_for_pages() == ["/tea"]


def test_a_passing_failure_leaves_the_part_open_and_only_what_is_missing_is_asked_again(toy: Toy) -> None:
    toy.server.on("*", html())
    toy.server.on("/busy", Answer(429), Answer(429), html())
    toy.server.on("/down", Answer(503), Answer(503), html())
    toy.server.on("/cut", Answer(body=b"x" * 500, drop_after=100), Answer(body=b"x" * 500, drop_after=100), html())
    paths = ["/busy", "/a", "/down", "/cut", "/b"]
    with pytest.raises(Incomplete, match="3 web calls got no answer, all others are stored: run the same command"):
        toy.pages(*paths)
    assert Counter(toy.asked_for_pages()) == {"/a": 1, "/b": 1, "/busy": 2, "/down": 2, "/cut": 2}
    assert not list((toy.home / "stages" / "fetch_pages").glob("*.json"))
    toy.server.asked.clear()
    rows, _ = toy.pages(*paths)
    assert set(rows) == set(paths)
    assert sorted(toy.asked_for_pages()) == ["/busy", "/cut", "/down"]


def test_a_short_failure_is_not_seen(toy: Toy) -> None:
    toy.server.on("/a", Answer(503), html())
    toy.server.on("/b", Answer(429, headers={"Retry-After": "1"}), html())
    rows, _ = toy.pages("/a", "/b")
    assert set(rows) == {"/a", "/b"}


def test_who_gives_up_ends_the_part_and_may_try_again(toy: Toy) -> None:
    toy.server.on("/a", html())
    toy.server.on("/never", Answer(503))
    giving_up = replace(OPEN, manners=replace(QUICK, give_up=True))
    assert giving_up.identity() == OPEN.identity()
    rows, rejected = toy.pages("/a", "/never", crawl=giving_up)
    assert (set(rows), rejected) == ({"/a"}, {"/never": "not reachable"})
    toy.server.on("/never", html())
    with open_web(toy.home) as web:
        page = web.client(QUICK).get(PageRequest(f"{toy.server.url}/never", private_hosts=True, robots=False))
    assert page.error is None


def test_a_server_that_drips_is_left_in_time(toy: Toy) -> None:
    toy.server.on("/drip", Answer(body=b"x" * 50_000, drip=0.05, headers={"Content-Type": "text/html"}))
    quick = replace(OPEN, manners=replace(QUICK, patience_seconds=0.5))
    started = time.monotonic()
    with pytest.raises(Incomplete):
        toy.pages("/drip", crawl=quick)
    assert time.monotonic() - started < 600  # of 2,500 for one try


def test_a_server_that_is_not_there_is_a_passing_failure(toy: Toy, tmp_path: Path) -> None:
    with socket.socket() as taken, open_web(tmp_path) as web:
        taken.bind(("127.0.0.1", 0))  # by somebody who does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(Incomplete, match="refused the connection, 2 times"):
            web.client(QUICK).get(PageRequest(url, private_hosts=True, robots=False))


# ---------------------------------------------------------------- addresses that are not asked


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://LocalHost/", "http://2130706433/", "http://0x7f.1/",
        "http://0/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:10.0.0.1]/", "http://10.1.2.3/",
        "http://192.168.0.1/", "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/",
        "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://100.64.0.1/",
        "http://224.0.0.1/", "http://255.255.255.255/", "http://[ff02::1]/",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(url: str) -> None:
    with pytest.raises(Refused) as error:
        check_address(url, private_hosts=False)
    assert error.value.reason == "private address"
    check_address(url, private_hosts=True)


@pytest.mark.parametrize(
    "url", ["ftp://e.org/", "file:///etc/passwd", "gopher://e.org/", "http://", "http://u:p@e.org/"]
)
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    for private in (False, True):
        with pytest.raises(Refused, match="no web address"):
            check_address(url, private_hosts=private)


def test_behind_a_proxy_only_written_addresses_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "internal.example")
    with pytest.raises(Refused, match="private address"):
        check_address("http://localhost/", private_hosts=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    check_address("http://a-host-only-the-proxy-knows.invalid/", private_hosts=False)
    with pytest.raises(Refused, match="private address"):
        check_address("http://10.0.0.1/", private_hosts=False)


def test_public_addresses_are_public() -> None:
    assert all(map(public, ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "::ffff:8.8.8.8"]))


def test_a_result_on_a_private_host_is_not_fetched_unless_allowed(toy: Toy) -> None:
    toy.server.on("/a", html())
    closed = Crawl(robots=False, manners=QUICK)
    assert toy.pages("/a", crawl=closed) == ({}, {"/a": "private address"})
    assert toy.asked_for_pages() == []
    assert set(toy.pages("/a", crawl=OPEN)[0]) == {"/a"}


def test_a_redirect_to_a_private_host_is_not_followed(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is the proxy, too: it answers for a host of the public web."""
    monkeypatch.setenv("HTTP_PROXY", toy.server.url)
    monkeypatch.setenv("NO_PROXY", "")
    toy.server.on("/a", Answer(302, headers={"Location": f"{toy.server.url}/secret"}))
    toy.server.on("/secret", html())
    with open_web(tmp_path) as web:
        page = web.client(QUICK).get(PageRequest("http://outside.example/a", robots=False))
        assert (page.error, page.content) == ("private address", b"")
        assert toy.server.paths() == ["/a"]
        followed = web.client(QUICK).get(PageRequest("http://outside.example/a", robots=False, private_hosts=True))
        assert (followed.error, toy.server.paths()) == (None, ["/a", "/a", "/secret"])


def test_a_name_that_leads_elsewhere_once_it_was_checked_is_not_asked(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, looked_up = socket.getaddrinfo, list[str]()

    def rebound(host: str, *args: Any, **options: Any) -> Any:
        """A public address at the first look-up of the name, this machine's at all later ones."""
        if host == "rebound.example":
            looked_up.append(host)
            host = "8.8.8.8" if len(looked_up) == 1 else "127.0.0.1"
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    toy.server.on("*", html())
    url = f"http://rebound.example:{toy.server.http.server_port}/a"
    with open_web(tmp_path) as web:
        refused = web.client(QUICK).get(PageRequest(url, robots=False))
        assert (refused.error, toy.server.asked) == ("private address", [])
        assert len(looked_up) == 2
        assert web.client(QUICK).get(PageRequest(url, robots=False, private_hosts=True)).error is None


def test_rules_with_patterns_are_obeyed_and_the_longest_counts() -> None:
    rules = b"User-agent: *\nDisallow: /*/private$\nDisallow: /shop\nAllow: /shop/open\n"
    robots = Robots(lambda url: Page(url, url, 200, 0, content=rules))
    for path in ("/a/private", "/shop/x"):
        with pytest.raises(Refused, match=r"robots\.txt"):
            robots.check(f"https://e.org{path}")
    for path in ("/a/private/b", "/shop/open/1", "/"):
        robots.check(f"https://e.org{path}")


def test_robots_txt_is_obeyed_fetched_once_and_replayed(toy: Toy) -> None:
    toy.server.on("*", html())
    toy.server.on("/robots.txt", Answer(body=b"User-agent: *\nDisallow: /no\n\nUser-agent: other\nDisallow: /\n"))
    obeying = replace(OPEN, robots=True)
    rows, rejected = toy.pages("/a", "/no/1", "/b", crawl=obeying)
    assert (set(rows), rejected) == ({"/a", "/b"}, {"/no/1": "robots.txt forbids it"})
    assert toy.server.paths().count("/robots.txt") == 1
    assert set(toy.pages("/a", "/no/1", "/b", crawl=OPEN)[0]) == {"/a", "/no/1", "/b"}


def test_a_redirect_does_not_lead_around_robots_txt(toy: Toy, tmp_path: Path) -> None:
    with serve("127.0.0.2") as other, open_web(tmp_path) as web:
        other.on("/robots.txt", Answer(body=b"User-agent: longform\nDisallow: /"))
        toy.server.on("/a", Answer(302, headers={"Location": f"{other.url}/x"}))
        page = web.client(QUICK).get(PageRequest(f"{toy.server.url}/a", private_hosts=True))
        assert page.error == "robots.txt forbids it"
        assert other.paths() == ["/robots.txt"]


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [(Answer(404), True), (Answer(401), True), (html(), True), (Answer(body=b"\xff\xfe\x00 nonsense"), True)],
)
def test_a_host_without_rules_allows_everything(toy: Toy, answer: Answer, allowed: bool) -> None:
    toy.server.on("/robots.txt", answer)
    toy.server.on("/a", html())
    assert set(toy.pages("/a", crawl=replace(OPEN, robots=True))[0]) == ({"/a"} if allowed else set())


def test_a_host_whose_rules_cannot_be_had_now_is_asked_later(toy: Toy) -> None:
    toy.server.on("/robots.txt", Answer(503))
    toy.server.on("/a", html())
    with pytest.raises(Incomplete):
        toy.pages("/a", crawl=replace(OPEN, robots=True))
    assert toy.asked_for_pages() == []


def test_what_is_known_of_robots_is_bounded() -> None:
    asked: list[str] = []

    def fetch(url: str) -> Page:
        asked.append(url)
        return Page(url, url, 404, 0, error="status 404")

    robots = Robots(fetch)
    for n in range(1_500):
        robots.check(f"http://h{n}.example/x")
        robots.check(f"http://h{n}.example/y")
    assert len(asked) == 1_500
    robots.check("http://h0.example/x")
    assert len(asked) == 1_501, "the rules of the first hosts were given up for later ones"


def test_one_host_is_asked_no_faster_than_said(toy: Toy, tmp_path: Path) -> None:
    toy.server.on("*", html())
    with open_web(tmp_path) as web:
        client = web.client(replace(QUICK, per_second=20.0, at_once=8))
        urls = [f"{toy.server.url}/{n}" for n in range(8)]
        began = time.monotonic()
        done = list(client.each(urls, lambda url: client.get(PageRequest(url, private_hosts=True, robots=False))))
    assert [url for url, _ in done] == urls
    times = sorted(asked.at for asked in toy.server.asked)
    assert all(at - began > number / 20 - 0.001 for number, at in enumerate(times))


# ---------------------------------------------------------------- the store


def page(url: str, content: bytes = b"x", **more: Any) -> Page:
    return Page(url, url, 200, 1_700_000_000_000, {"content-type": "text/html"}, content, **more)


def test_the_key_of_a_request_does_not_depend_on_the_order_of_its_parameters() -> None:
    assert key_of("GET", "u", [("a", "1"), ("b", "2")]) == key_of("GET", "u", [("b", "2"), ("a", "1")])
    assert len({key_of("GET", "u"), key_of("POST", "u"), key_of("GET", "v"), key_of("GET", "u", [("a", "")]),
                key_of("GET", "u", body="a"), key_of("GET", "u", [("a", "1"), ("a", "2")])}) == 6  # fmt: skip
    assert key_of("GET", "https://e.org/").hex()[:16] == "38b3680fd51f2e0a"  # stored pages must be found for ever


def test_what_is_stored_first_stays_but_for_refusals_that_no_longer_hold(tmp_path: Path) -> None:
    store, key = PageStore(tmp_path / "pages.sqlite"), key_of("GET", "u")
    assert store.get(key) is None
    assert store.put(key, page("u", b"\x00\xff" * 1_000)).content == b"\x00\xff" * 1_000
    assert store.put(key, page("u", b"later"), instead_of=["private address"]).content == b"\x00\xff" * 1_000
    other = key_of("GET", "v")
    store.put(other, replace(page("v", b""), error="private address", detail="\ud800"))
    assert store.put(other, page("v", b"now"), instead_of=["private address"]).content == b"now"
    store.close()


def test_two_stores_of_one_file_see_each_other(tmp_path: Path) -> None:
    one, two = PageStore(tmp_path / "pages.sqlite"), PageStore(tmp_path / "pages.sqlite")
    one.put(key_of("GET", "u"), page("u"))
    assert two.get(key_of("GET", "u")) == page("u")
    one.close()
    two.put(key_of("GET", "v"), page("v"))
    two.close()


WRITING = """
import sys
from pathlib import Path
from longform.net.web import Page, PageStore, key_of
store = PageStore(Path(sys.argv[1]))
for n in range(100_000):
    store.put(key_of("GET", f"{sys.argv[2]}{n}"), Page("u", "u", 200, n, {}, b"content %d" % n))
    print(n, flush=True)
"""


def test_nothing_committed_is_lost_when_one_of_two_writers_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pages.sqlite"
    command = [sys.executable, "-c", WRITING, str(path)]
    last = dict.fromkeys("ab", -1)
    with ExitStack() as stack:
        writers = [started([*command, name], stdout=subprocess.PIPE, cwd=ROOT, text=True) for name in "ab"]
        one, two = map(stack.enter_context, writers)
        for name, process, wanted in (("a", one, 60), ("b", two, 90)):
            assert process.stdout
            for line in process.stdout:
                last[name] = int(line)
                if last[name] >= wanted:
                    break
            process.kill()
            process.communicate()
    store = PageStore(path)
    for name, number in last.items():
        for n in range(number + 1):
            found = store.get(key_of("GET", f"{name}{n}"))
            assert found is not None
            assert found.content == b"content %d" % n
    store.close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_a_store_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pages.sqlite"
    path.write_bytes(b"this is no database, whatever it is called" * 100)
    with pytest.raises(StoreError, match=r"The store of web pages .* cannot be used"):
        PageStore(path)
    later = tmp_path / "later.sqlite"
    PageStore(later).close()
    with sqlite3.connect(later) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="later version of longform"):
        PageStore(later)


def test_threads_that_want_one_page_fetch_it_once(toy: Toy, tmp_path: Path) -> None:
    toy.server.on("/a", replace(html(), delay=0.2))
    found: list[Page] = []
    with open_web(tmp_path) as web, open_web(tmp_path) as same:
        ask = PageRequest(f"{toy.server.url}/a", private_hosts=True, robots=False)
        clients = [web.client(QUICK), same.client(QUICK)] * 3
        threads = [threading.Thread(target=lambda v=v: found.append(v.get(ask))) for v in clients]  # type: ignore[misc]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6
    assert len(toy.server.asked) == 1


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("content", "declared", "text"),
    [
        ("café".encode(), "text/html", "café"),
        ("café".encode(), "text/html; charset=iso-8859-1", "café"),
        ("café “x”".encode("cp1252"), "text/html; charset=utf-8", "café “x”"),
        ("café “x”".encode("cp1252"), "text/html; charset=ISO-8859-1", "café “x”"),
        ("привет".encode("cp1251"), 'text/html; charset="windows-1251"', "привет"),
        ("日本".encode("iso-2022-jp"), "text/html; charset=iso-2022-jp", "日本"),
        ("<meta charset='shift_jis'>日本".encode("shift_jis"), "text/html", "<meta charset='shift_jis'>日本"),
        ("<meta charset=utf-16>é".encode(), "text/html", "<meta charset=utf-16>é"),
        ("é".encode("utf-16"), "text/html", "é"),
        ("é".encode("utf-16-be"), "text/html; charset=utf-16be", "é"),
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=latin1", "é"),
        ("größer ".encode() * 20 + b"\xff", "text/html", "größer " * 20 + "\ufffd"),
        (b"a+AGE-", "text/html; charset=utf-7", "a+AGE-"),
        (b"\\u0041", "text/html; charset=unicode_escape", "\\u0041"),
        (b"abc", "text/html; charset=rot13", "abc"),
        (b"abc", "text/html; charset=no-such-thing", "abc"),
    ],
)
def test_the_charset_is_the_real_one(content: bytes, declared: str, text: str) -> None:
    assert decoded(content, declared) == text


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_become_clean_text(content: bytes, declared: str) -> None:
    text = clean(decoded(content, f"text/html; charset={declared}"))
    text.encode()
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text)
    assert media(content, declared) in ("html", "text", "pdf", "other")


def test_clean_text_has_no_control_characters() -> None:
    assert clean("a\x00b\x1b\x85c\r\nd\re\ud800\tf\ufffe") == "abc\nd\ne\ufffd\tf"
    assert clean(" a\n\n b\x00 ", one_line=True) == "a b"


@pytest.mark.parametrize(
    ("content", "declared", "kind"),
    [
        (b"<!DOCTYPE html><p>", "", "html"),
        (b"  \n<HTML>", "", "html"),
        (b"%PDF-1.7", "text/html", "pdf"),
        (b"plain", "", "text"),
        (b"plain", "text/plain; charset=utf-8", "text"),
        (b"<html>", "text/plain", "text"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "text/plain", "other"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "text/html; charset=utf-8", "other"),
        ("<html>\x1b$B".encode("utf-16-le"), "text/html; charset=utf-16le", "html"),
        (b"<p>" + b"\x0e!!\x0f" * 90, "text/html; charset=iso-2022-kr", "html"),
        (b"{}", "application/json", "other"),
        (b"<html xmlns='x'>", "application/xhtml+xml", "html"),
        (b"<rss>", "application/xml", "other"),
    ],
)
def test_what_a_page_is(content: bytes, declared: str, kind: str) -> None:
    assert media(content, declared) == kind


def test_a_long_tag_with_few_attributes_is_fine() -> None:
    check_html("<p><img src='data:image/png;base64," + "ab/c" * 100_000 + "'>")
    with pytest.raises(Unusable, match="page too complex"):
        check_html("<p " + "/".join(f"a{n}" for n in range(5_000)) + ">")


def test_what_a_page_says_is_text_and_nothing_else(tmp_path: Path) -> None:
    text = "&#0;&#xD800;&lt;b&gt; {{ 7*7 }} \x00 ../../etc "
    with Extractor(tmp_path) as extractor:
        found = extractor.text(f"<html><body><p>{text * 10}</p>".encode(), {"content-type": "text/html"})
        assert "<b> {{ 7*7 }}" in found.text
        assert "\x00" not in found.text
        doctype = (
            b'<!DOCTYPE html [<!ENTITY a SYSTEM "file:///etc/passwd">]><html><body><p>&a; ' + SENTENCES.encode() * 5
        )
        assert "root:" not in extractor.text(doctype, {"content-type": "text/html"}).text
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_kills_its_reader_costs_only_itself(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    with Extractor(tmp_path) as extractor:
        extractor.text(ARTICLE.encode(), {"content-type": "text/html"})
        (process,) = set(psutil.Process().children()) - before
        process.kill()
        process.wait()
        with pytest.raises(Unusable, match="page too complex"):
            extractor.text(ARTICLE.encode(), {"content-type": "text/html"})
        assert extractor.text(ARTICLE.encode(), {"content-type": "text/html"}).title == "Of tea"


def test_a_page_that_takes_too_long_costs_only_itself(tmp_path: Path) -> None:
    busy = "import sys, time; [time.sleep(600) if 'slow' in page else print('null', flush=True) for page in sys.stdin]"
    with Extractor(tmp_path, command=[sys.executable, "-c", busy]) as extractor:
        for page, seconds, detail in (("slow", 0.5, "not read in 0.5 s"), ("quick", 600.0, None)) * 2:
            extractor.seconds = seconds
            with pytest.raises(Unusable) as error:
                extractor.text(f"<html>{page}".encode(), {"content-type": "text/html"})
            assert error.value.detail == detail
