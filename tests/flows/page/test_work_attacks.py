"""What hostile requests to a real server of the page meet: refused or harmless, and it still answers."""

from __future__ import annotations

import concurrent.futures
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from page_server import PASSWORD, Client, PageServer, add_account, hidden, served
from toy_form import FILLED, open_round, sheets
from typer.testing import CliRunner

from flows.cli.main import app

SCRIPT = '"><script src="//evil.example/x.js"></script><img src=x onerror=alert(1)>{{ 40961 * 40961 }}'


@dataclass
class Site:
    server: PageServer
    round_id: str
    adjudicated: str
    home: Path

    def client(self, name: str = "") -> Client:
        client = Client(self.server.address)
        if name:
            assert client.logged_in(name).status_code == 303
        return client


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("home")
    for name, role in (("ann", "annotator"), ("bob", "annotator"), ("root", "administrator"), ("gone", "annotator")):
        add_account(home, name, role)
    round_id = open_round(home, sheets(60, SCRIPT))
    adjudicated = open_round(home, sheets(5), role="adjudicator", seed=1)
    with served(home) as server:
        yield Site(server, round_id, adjudicated, home)
        assert httpx.get(f"{server.address}/work/log-in").status_code == 200
        assert "Traceback" not in server.log()


def test_nobody_sees_anything_without_a_log_in(site: Site) -> None:
    client = site.client()
    for path in (
        "/work",
        "/work/admin",
        f"/work/rounds/{site.round_id}",
        "/work/tasks/1",
        f"/work/admin/rounds/{site.round_id}",
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (303, "")
        assert answer.headers["location"].startswith("/work/log-in")
    for path in ("/work/tasks/1", "/work/tasks/1/draft", "/work/admin/rounds", "/work/log-out"):
        assert client.post(path, data={"csrf": "x"}).status_code == 401


def test_another_annotators_task_and_forged_ids_are_not_found(site: Site) -> None:
    ann, bob = site.client("ann"), site.client("bob")
    address = ann.next_task(site.round_id)
    assert ann.get(address).status_code == 200
    csrf = hidden(bob.get("/work/rounds/" + site.round_id), "csrf")
    forged = [address, f"/work/tasks/{secrets.token_hex(8)}", "/work/tasks/1 OR 1=1", "/work/tasks/..%2f..%2fadmin"]
    for path in forged:
        assert bob.get(path).status_code == 404
        for end in ("", "/draft"):
            answer = bob.post(path + end, data={"csrf": csrf, "submission": "0" * 32, **FILLED})
            assert answer.status_code == 404
    assert "Useful" not in re.findall(r'value="([^"]*)" checked', ann.get(address).text)


@pytest.mark.parametrize("path", ["/work/admin", "/work/admin/rounds/{}"])
def test_annotators_cannot_administer(site: Site, path: str) -> None:
    ann = site.client("ann")
    csrf = hidden(ann.get("/work"), "csrf")
    assert ann.get(path.format(site.round_id)).status_code == 403
    assert ann.post(path.format(site.round_id), data={"csrf": csrf, "do": "close"}).status_code in (403, 405)
    assert ann.post("/work/admin/rounds", data={"csrf": csrf}).status_code == 403


def test_a_form_for_adjudicators_is_hidden_from_annotators(site: Site) -> None:
    ann = site.client("ann")
    assert site.adjudicated not in ann.get("/work").text
    assert ann.get(f"/work/rounds/{site.adjudicated}").status_code == 404
    csrf = hidden(ann.get("/work"), "csrf")
    assert ann.post(f"/work/rounds/{site.adjudicated}/next", data={"csrf": csrf}).status_code == 404


def test_scripts_in_texts_and_answers_stay_text(site: Site) -> None:
    ann, root = site.client("ann"), site.client("root")
    address = ann.next_task(site.round_id)
    texts = {"task.remark": SCRIPT, "task.minutes": SCRIPT, "0.sources": SCRIPT, "task.usefulness": SCRIPT}
    refused = ann.submit(address, {**FILLED, **texts})
    assert refused.status_code == 422
    assert ann.submit(address, {**FILLED, "task.remark": SCRIPT, "0.sources": SCRIPT}).status_code == 303
    pages = [
        refused,
        ann.get(address),
        ann.get(f"/work/rounds/{site.round_id}"),
        root.get(f"/work/admin/rounds/{site.round_id}"),
    ]
    for page in pages:
        assert '<script src="//' not in page.text
        assert "<img" not in page.text
        assert "1677803521" not in page.text
    assert "&lt;script src=" in ann.get(address).text


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example"]
)
def test_a_form_of_another_origin_is_refused(site: Site, origin: str) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    page = ann.get(address)
    data = {"csrf": hidden(page, "csrf"), "submission": hidden(page, "submission"), **FILLED}
    assert ann.post(address, data=data, headers={"origin": origin}).status_code == 403
    referred = ann.post(address, data=data, headers={"origin": "", "referer": f"{origin}/page"})
    assert referred.status_code == 403
    assert "submitted this one" not in ann.get(address).text


@pytest.mark.parametrize("csrf", [None, "", "0" * 64, "é"])
def test_a_form_without_the_token_of_its_session_is_refused(site: Site, csrf: str | None) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    data = {"submission": "0" * 32, **FILLED, **({} if csrf is None else {"csrf": csrf})}
    assert ann.post(address, data=data).status_code == 403
    bobs = hidden(site.client("bob").get("/work"), "csrf")
    assert ann.post(address, data={**data, "csrf": bobs}).status_code == 403


def test_a_session_cannot_be_fixed_before_the_log_in(site: Site) -> None:
    planted = "planted-by-somebody-else"
    client = site.client()
    client.cookies.set("longform-session", planted, domain="127.0.0.1", path="/")
    assert client.logged_in("ann").status_code == 303
    assert client.cookies["longform-session"] != planted
    other = site.client()
    other.cookies.set("longform-session", planted)
    assert other.get("/work").status_code == 303


def test_a_session_ends_with_its_log_out_and_cannot_be_replayed(site: Site) -> None:
    ann = site.client("ann")
    token = ann.cookies["longform-session"]
    assert ann.post("/work/log-out", data={"csrf": hidden(ann.get("/work"), "csrf")}).status_code == 303
    again = site.client()
    again.cookies.set("longform-session", token)
    assert again.get("/work").status_code == 303


def test_a_session_ends_when_its_account_is_disabled_or_gets_a_password(site: Site) -> None:
    for words, text in ((["password", "gone"], "another password"), (["disable", "gone"], "")):
        client = site.client()
        assert client.logged_in("gone", PASSWORD if words[0] == "password" else "another password").status_code == 303
        done = CliRunner().invoke(app, ["users", *words, "--home", str(site.home)], input=text)
        assert done.exit_code == 0, done.output
        assert client.get("/work").status_code == 303
    assert site.client().logged_in("gone", "another password").status_code == 401


def test_the_cookie_is_for_this_site_and_no_script(site: Site) -> None:
    said = site.client().logged_in("ann").headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said


def test_log_ins_are_throttled_by_name_also_of_nobody(site: Site) -> None:
    for name in ("bob", "nobody"):
        client = site.client()
        codes = [client.logged_in(name, f"guess {n}").status_code for n in range(10)]
        assert codes == [401] * 8 + [429] * 2
        assert client.logged_in(name).status_code == 429
    assert site.client().logged_in("ann").status_code == 303


@pytest.mark.parametrize(
    "to", ["https://evil.example", "//evil.example", "/work/../evil", "/\\evil.example", "/work\n//x"]
)
def test_a_log_in_leads_nowhere_else(site: Site, to: str) -> None:
    client = site.client()
    page = client.get("/work/log-in", params={"to": to})
    data = {"csrf": hidden(page, "csrf"), "name": "ann", "password": PASSWORD, "to": to}
    assert client.post("/work/log-in", data=data).headers["location"] == "/work"


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused_and_the_page_still_answers(site: Site, chunked: bool) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    csrf = hidden(ann.get(address), "csrf")
    body = f"csrf={csrf}&submission={'0' * 32}&task.remark=".encode() + b"x" * 10_000_000
    form = {"content-type": "application/x-www-form-urlencoded"}
    for end in ("", "/draft"):
        content: Any = (body[at : at + 65_536] for at in range(0, len(body), 65_536)) if chunked else body
        try:
            assert ann.post(address + end, content=content, headers=form).status_code == 413
        except httpx.WriteError:  # the server closed the connection on the way
            assert chunked
    assert ann.get(address).status_code == 200


def test_a_million_fields_and_broken_bytes_are_refused(site: Site) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    csrf = hidden(ann.get(address), "csrf")
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in (
        b"a&" * 400_000,
        b"\xff\xfe=1",
        f"csrf={csrf}&task.remark=%00%ff%ed%a0%80&submission={'1' * 32}".encode(),
    ):
        assert ann.post(address, content=body, headers=form).status_code in (200, 303, 400, 403)
    assert ann.post(address, json={"csrf": csrf}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:80:80"])
def test_a_request_for_another_host_is_refused(site: Site, host: str) -> None:
    assert site.client().get("/work/log-in", headers={"host": host}).status_code == 400


def test_every_answer_carries_the_policy(site: Site) -> None:
    client = site.client("ann")
    for path in ("/work", "/work/none", "/static/style.css", "/static/../application.py"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/work").headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", client.get("/work").text)


def test_ids_of_submissions_are_those_that_were_shown(site: Site) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    page = ann.get(address)
    data = {"csrf": hidden(page, "csrf"), **FILLED}
    for number in ("", "x", "'; drop table tasks; --", "0" * 400):
        assert ann.post(address, data={**data, "submission": number}).status_code == 400


def test_a_form_that_is_sent_twice_counts_once(site: Site) -> None:
    ann = site.client("ann")
    address = ann.next_task(site.round_id)
    page = ann.get(address)
    data = {"csrf": hidden(page, "csrf"), "submission": hidden(page, "submission"), "seconds": "1e99", **FILLED}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ann.post(address, data=data).headers["location"], range(8)))
    assert len(set(answers)) == 1
    assert answers[0] != address


def test_time_is_never_more_than_has_passed(site: Site) -> None:
    ann = site.client("ann")
    began = time.monotonic()
    address = ann.next_task(site.round_id)
    assert ann.submit(address, FILLED, seconds="100000").status_code == 303
    passed = time.monotonic() - began
    told = re.search(r'name="seconds" value="(\d+)"', ann.get(address).text)
    assert told
    assert int(told[1]) <= passed + 1
