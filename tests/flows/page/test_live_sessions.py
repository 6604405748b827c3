"""Live sessions over HTTP against a model server: hostile requests, caps, many readers at once, kills while a model
writes, and what the next build of kiwi takes.
"""

from __future__ import annotations

import concurrent.futures
import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from axioms_builds import Silent
from endpoint_server import Server, server
from model_builds import mine
from page_server import Client, PageServer, add_account, hidden, served

from flows.builds.building import Options, build
from flows.kiwi import PROMPT_NAMES, KiwiConfig
from longform.artifacts.versions import Version
from longform.engine.thread_tasks import SequentialStages

pytestmark = pytest.mark.check

__all__ = ["server"]

SCRIPT = '"><script src="//evil.example/x.js"></script><img src=x onerror=alert(1)>{{ 40961 * 40961 }}'
SETTINGS: dict[str, Any] = {"turns": 0, "generate": False, "sessions": []}
TOML = """
model = "mine"
turns = 0
generate = false
sessions = []
[endpoints.mine]
base_url = "http://127.0.0.1:{port}/v1"
model = "m"
price = {{ input = 1, output = 2 }}
"""


def made(server: Server, home: Path, **more: Any) -> Version:
    config = KiwiConfig(**mine(server, "kiwi", PROMPT_NAMES, **{**SETTINGS, **more}))
    published, _ = build("kiwi", config, Options(home), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version


@dataclass
class Site:
    page: PageServer
    home: Path
    models: Server

    def client(self, name: str) -> Client:
        client = Client(self.page.address)
        assert client.logged_in(name).status_code == 303
        return client

    @property
    def asked(self) -> int:
        return sum(self.models.bodies.values())


@pytest.fixture
def site(tmp_path: Path, server: Server) -> Iterator[Site]:
    home = tmp_path / "home"
    made(server, home)
    for name in ("ann", "bob", "cat", "dan", "eve", "fay", "gus"):
        add_account(home, name, pseudonym=f"p-{name}")
    (tmp_path / "kiwi.toml").write_text(TOML.format(port=server.server_address[1]))
    with served(home, "--live", str(tmp_path / "kiwi.toml"), "--usd-a-day", "0.01", "--calls-a-day", "5") as page:
        yield Site(page, home, server)
        assert httpx.get(f"{page.address}/work/log-in").status_code == 200
        assert "Traceback" not in page.log()


def begin(client: Client) -> str:
    csrf = hidden(client.get("/work/live"), "csrf")
    return client.post("/work/live/next", data={"csrf": csrf}).headers["location"]


def ask(client: Client, address: str, instruction: str = "Say what it costs.", kind: str = "style") -> httpx.Response:
    data = {"csrf": hidden(client.get(address), "csrf"), "instruction": instruction, "kind": kind}
    return client.post(f"{address}/turns", data=data)


def rate(client: Client, address: str, position: int = 1, **values: str) -> httpx.Response:
    said = {"rating": "good", "comment": "It does.", **values}
    return client.post(f"{address}/turns/{position}", data={"csrf": hidden(client.get(address), "csrf"), **said})


def finish(client: Client, address: str) -> httpx.Response:
    return client.post(f"{address}/finish", data={"csrf": hidden(client.get(address), "csrf")})


def streamed(client: Client, address: str, position: int = 1, after: int | None = None) -> str:
    """The text of a turn as its stream sends it."""
    headers = {} if after is None else {"last-event-id": str(after)}
    text, name = "", ""
    with client.stream("GET", f"{address}/turns/{position}/stream", headers=headers) as answer:
        for line in answer.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if line.startswith("data: ") and name == "text":
                text += json.loads(line.removeprefix("data: "))
    return text


def test_another_readers_session_and_forged_ids_are_not_found_and_nothing_is_seen_without_a_log_in(site: Site) -> None:
    ann, bob, nobody = site.client("ann"), site.client("bob"), Client(site.page.address)
    address = begin(ann)
    assert ask(ann, address).status_code == 303
    csrf = hidden(bob.get("/work/live"), "csrf")
    for path in (address, f"/work/live/{secrets.token_hex(16)}", "/work/live/..%2fadmin", "/work/live/1' OR '1'='1"):
        assert bob.get(path).status_code == 404
        for end in ("/turns", "/turns/1", "/finish"):
            assert bob.post(path + end, data={"csrf": csrf, "rating": "bad", "comment": "x"}).status_code == 404
        assert bob.get(f"{path}/turns/1/stream").status_code == 404
    assert nobody.get(address).status_code == 303
    assert nobody.post(f"{address}/turns", data={"csrf": csrf}).status_code == 401
    assert ann.post(f"{address}/turns", data={"csrf": "x", "instruction": "y", "kind": "style"}).status_code == 403
    evil = {"origin": "http://evil.example"}
    assert ann.post(f"{address}/finish", data={"csrf": csrf}, headers=evil).status_code == 403


def test_scripts_of_readers_and_models_stay_texts(site: Site) -> None:
    site.models.fails = lambda body: (
        200,
        {},
        json.dumps(
            {
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": f"Tides {SCRIPT} rise [0].\n====="},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16},
            }
        ).encode(),
    )
    ann = site.client("ann")
    address = begin(ann)
    ask(ann, address, f"Say {SCRIPT}")
    assert SCRIPT in streamed(ann, address)
    for _ in range(2):
        page = ann.get(address).text
        assert '<script src="//evil' not in page
        assert "<img" not in page
        assert "1677803521" not in page
        rate(ann, address, rating="bad", comment=SCRIPT, edited=f"Edited {SCRIPT}")
    assert "&lt;script" in ann.get(address).text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"instruction": " ", "kind": "style"}, "Write what the answer should become."),
        ({"instruction": "Shorten it.", "kind": ""}, "Choose which of the two it is."),
        ({"instruction": "Shorten it.", "kind": "root"}, "Choose which of the two it is."),
        ({"instruction": "x" * 4_001, "kind": "style"}, "At most 4,000 characters"),
    ],
)
def test_an_instruction_that_does_not_fit_is_said_beside_its_field_and_asks_no_model(
    site: Site, values: dict[str, str], message: str
) -> None:
    ann = site.client("ann")
    address, before = begin(ann), site.asked
    page = ask(ann, address, **values)
    assert message in page.text
    assert 'aria-invalid="true"' in page.text
    assert values["instruction"].strip() in page.text, "what was written is still there"
    assert site.asked == before
    big = {"csrf": hidden(page, "csrf"), "instruction": "y" * 10_000_000, "kind": "style"}
    assert ann.post(f"{address}/turns", data=big).status_code == 413


def test_a_rating_needs_its_reason_and_counts_once(site: Site) -> None:
    ann = site.client("ann")
    address = begin(ann)
    ask(ann, address)
    assert streamed(ann, address)
    assert "Say why" in rate(ann, address, comment="").text
    assert "Rate the revision" in rate(ann, address, rating="great").text
    assert rate(ann, address).status_code == 303
    again = {"csrf": hidden(ann.get(address), "csrf"), "rating": "bad", "comment": "No."}
    assert ann.post(f"{address}/turns/1", data=again).status_code == 409
    assert rate(ann, address, position=7).status_code == 409
    assert finish(ann, address).status_code == 303
    assert finish(ann, address) is not None
    (file,) = (site.home / "page" / "kiwi").glob("*.jsonl")
    assert [turn["rating"] for turn in json.loads(file.read_text())["turns"]] == ["good"]


def test_seven_readers_who_begin_at_once_get_each_question_once_and_the_others_hear_that_there_is_none(
    site: Site,
) -> None:
    names = ("ann", "bob", "cat", "dan", "eve", "fay", "gus")
    clients = [site.client(name) for name in names]
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        found = list(pool.map(begin, clients))
    sessions = [address for address in found if address != "/work/live?nothing"]
    questions = {client.get(address).text.split("<h1>")[1].split("</h1>")[0]
                 for client, address in zip(clients, found, strict=True) if address in sessions}  # fmt: skip
    assert len(sessions) == len(questions) == 5, "five questions of one writer"
    assert begin(clients[0]) == found[0], "an open session is gone on with"


def test_a_days_cap_ends_what_a_reader_may_ask_and_others_go_on(site: Site) -> None:
    ann, bob = site.client("ann"), site.client("bob")
    address = begin(ann)
    for position in range(1, 6):
        assert ask(ann, address, f"Remove the last sentence, time {position}.").status_code == 303
        streamed(ann, address, position)
        rate(ann, address, position)
    page = ask(ann, address, "Once more.")
    assert page.status_code == 429
    assert "used up today" in page.text
    assert "Once more." in page.text
    assert ask(bob, begin(bob)).status_code == 303


def test_a_cut_stream_goes_on_where_it_was(site: Site) -> None:
    ann = site.client("ann")
    address = begin(ann)
    ask(ann, address)
    whole = streamed(ann, address)
    assert streamed(ann, address, after=30) == whole[30:]
    assert streamed(ann, address, after=len(whole)) == ""


def test_a_server_killed_while_a_model_writes_goes_on_without_buying_anything_twice(site: Site) -> None:
    slow = True

    def slowly(body: dict[str, Any]) -> None:
        time.sleep(3 if slow else 0)

    site.models.fails = slowly
    ann = site.client("ann")
    address, before = begin(ann), site.asked
    assert ask(ann, address).status_code == 303
    ann.get(address)
    while site.asked == before:
        time.sleep(0.05)
    site.page.kill()
    slow = False
    site.page.start()
    text = streamed(ann, address)
    assert text
    sent = site.asked - before
    assert sent <= 2, "at most what was in flight is sent again"
    site.page.kill()
    site.page.start()
    assert streamed(ann, address) == text
    assert site.asked - before == sent


def test_a_model_without_a_usable_answer_is_said_and_another_instruction_takes_its_place(site: Site) -> None:
    good = site.models.fails
    site.models.fails = lambda body: (400, {}, b'{"error": {"message": "no", "code": "content_filter"}}')
    ann = site.client("ann")
    address = begin(ann)
    ask(ann, address, "Say something dreadful.")
    assert streamed(ann, address) == ""
    page = ann.get(address)
    assert "gave no usable answer" in page.text
    site.models.fails = good
    assert ask(ann, address, "Shorten it to half.").status_code == 303
    assert streamed(ann, address)
    assert rate(ann, address).status_code == 303


def test_a_session_whose_writer_the_configuration_has_no_more_says_so_and_asks_nobody(site: Site) -> None:
    ann = site.client("ann")
    address = begin(ann)
    assert ask(ann, address).status_code == 303
    assert streamed(ann, address)
    assert rate(ann, address).status_code == 303
    site.page.kill()
    with closing(sqlite3.connect(site.home / "page" / "work.sqlite")) as database, database:
        database.execute("UPDATE live_sessions SET system = 'another'")
    site.page.start()
    asked = site.asked
    assert ask(ann, address).status_code == 303
    assert streamed(ann, address, 2) == ""
    assert "not served here any more" in ann.get(address).text
    assert site.asked == asked
    assert finish(ann, address).status_code == 303
    assert [path.suffix for path in (site.home / "page" / "kiwi").iterdir()] == [".jsonl"]


def test_finished_sessions_are_turns_of_the_next_build_which_asks_for_nothing_twice(site: Site) -> None:
    ann = site.client("ann")
    address = begin(ann)
    for position, kind in ((1, "information"), (2, "style")):
        ask(ann, address, "Add what figures the papers give." if position == 1 else "Shorten it to half.", kind)
        streamed(ann, address, position)
        rate(ann, address, position, rating="neutral", edited=f"As I would have it, {position} [0].")
    assert finish(ann, address).status_code == 303
    version = made(site.models, site.home)
    paths = [str(path) for path in version.tables()["turns"]]
    columns = "origin, annotator_id, position, kind, edited, category, response IS NOT NULL"
    rows = duckdb.sql(f"SELECT {columns} FROM read_parquet({paths}) ORDER BY position").fetchall()
    assert [row[:5] for row in rows] == [
        ("page", "p-ann", 1, "information", "As I would have it, 1 [0]."),
        ("page", "p-ann", 2, "style", "As I would have it, 2 [0]."),
    ]
    assert all(row[5] and row[6] for row in rows)
    before = site.asked
    assert made(site.models, site.home).name == version.name
    assert site.asked == before
