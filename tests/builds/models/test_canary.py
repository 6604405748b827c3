"""Secrets (a key, a password, recognisable posts) must appear in no file, log or message after any failure."""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import traceback
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from echoing_server import echoing
from key_forms import FORMS, spells, strings
from posts import write_posts
from standin_server import serve

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from flows.builds.console import Lines
from flows.cli.main import _run_command
from flows.cli.shared.responses import export
from longform.engine.thread_tasks import SequentialStages
from longform.errors import BudgetError, EndpointError, Incomplete, LongformError, StoreError, UsageError
from longform.llm.models import Models
from longform.llm.send.bodies import read_json
from longform.llm.send.secrets import MARK
from longform.standin.faults import BATCH_FAULTS, FAULTS

pytestmark = pytest.mark.check

KEY = "sk-canary/4f6b+9d2e=0a1c-8e7d5f3b"
OTHER_KEY = "other-canary-71c5aa0e9b"
PASSWORD = "pw-canary-55e0c1d7"
POST = "canarypost"
WORDS = "You answer questions from what you know"
CAPABILITIES = ["json_schema", "n", "logprobs", "batch"]
STOPPING = ("quota", "401", "401-echo", "404", "parameter")
SITE = "canary.example"
ROOT = paths.ROOT


def forms(secret: str) -> list[bytes]:
    """A secret in every encoding that may occur: as is, in URLs, in JSON, and in base64."""
    encoded = [base64.b64encode(b" " * shift + secret.encode()) for shift in range(3)]
    parts = [text[4:-4].rstrip(b"=") for text in encoded]
    plain = [secret, quote(secret, safe=""), quote(secret), secret.replace("/", "\\/"), secret.encode().hex()]
    return list(dict.fromkeys([*(text.encode() for text in plain), *parts]))


# ---------------------------------------------------------------- what is left on disk, unpacked


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of every file, and of the cells of Parquet and SQLite files, unpacked."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            raw = path.read_bytes()
            yield str(path), raw
            if raw[:4] == b"PAR1":
                table = pq.read_table(path)
                yield f"{path} (cells)", repr((table.schema.metadata, table.to_pylist())).encode("utf-8", "replace")
            elif raw[:15] == b"SQLite format 3":
                yield f"{path} (cells)", b"\n".join(cells(path))


def cells(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for row in database.execute(f'SELECT * FROM "{name}"'):
                yield from (unpacked(cell) for cell in row if isinstance(cell, str | bytes))


def unpacked(cell: str | bytes) -> bytes:
    try:
        return cell.encode() if isinstance(cell, str) else zlib.decompress(cell)
    except zlib.error:
        return cell if isinstance(cell, bytes) else b""


def holding(folder: Path, *secrets: str) -> list[str]:
    wanted = [form for secret in secrets for form in forms(secret)]
    return [name for name, content in contents(folder) if any(form in content for form in wanted)]


def assert_silent(text: str, *, posts: bool = False) -> None:
    """Assert that no secret occurs; without `posts` also no text of posts and prompts."""
    content = text.encode("utf-8", "replace")
    for secret in (KEY, OTHER_KEY, PASSWORD):
        assert not any(form in content for form in forms(secret))
    assert posts or not re.search(rf"{POST}|{WORDS}", text)


def test_the_search_finds_what_is_hidden(tmp_path: Path) -> None:
    hidden = {
        "plain": KEY.encode(),
        "basic": base64.b64encode(f"user:{KEY}".encode()),
        "url": quote(f"https://x/?key={KEY}").encode(),
        "escaped": json.dumps(KEY).replace("/", "\\/").encode(),
    }
    for name, content in hidden.items():
        (tmp_path / name).write_bytes(b"before " + content + b" after")
    pq.write_table(pa.table({"text": ["x" * 99, f"Bearer {KEY}"]}), tmp_path / "table", compression="zstd")
    with closing(sqlite3.connect(tmp_path / "database")) as database:
        database.execute("CREATE TABLE t(body BLOB)")
        database.execute("INSERT INTO t VALUES(?)", [zlib.compress(KEY.encode())])
        database.commit()
    (tmp_path / "nothing").write_text("sk-canary")
    assert {Path(name.split(" ")[0]).name for name in holding(tmp_path, KEY)} == {*hidden, "table", "database"}


# ---------------------------------------------------------------- builds that fail


@pytest.fixture
def dump(tmp_path: Path) -> str:
    return str(write_dump(tmp_path / "dump"))


def write_dump(folder: Path) -> Path:
    keeps = "A keg of it keeps {n} weeks when it is cold, says {post}, and {n} days when it is warm and open."
    questions = [
        {
            "title": f"How long does {POST} keep, number {n}?",
            "body": f"I have {n} kegs of {POST} and want to know how long they keep.",
            "answers": [
                {"body": f"{keeps.format(n=n + place + 2, post=POST)} Number {n}."} for place in range(2)
            ] + [{"body": f"No idea, {POST}."}],
        }
        for n in range(8)
    ]  # fmt: skip
    return write_posts(folder / "Posts.xml", questions)


class Runs:
    """Builds of one home in this process, whose errors and logs are recorded."""

    def __init__(self, home: Path, dump: str) -> None:
        self.home, self.dump = home, dump
        self.errors: list[LongformError] = []
        self.shown: list[str] = []

    def __call__(
        self,
        url: str,
        *,
        version: str = "v1",
        max_cost: float | None = None,
        timeout_seconds: float = 600.0,
        **settings: Any,
    ) -> None:
        endpoint = {
            "base_url": url,
            "model": "m",
            "key_env": "CANARY_KEY",
            "capabilities": CAPABILITIES,
            "price": {"input": 1.0, "output": 1.0},
            "timeout_seconds": timeout_seconds,
            "parameters": settings.pop("parameters", {}),
        }
        until = settings.pop("until", None)
        given = {"dump": self.dump, "site": SITE, "model": "one", "endpoints": {"one": endpoint}, **settings}
        accept = [*AxiomsConfig.MODEL_STAGES, "missing_kinds"]  # a build goes on, whatever it meets
        options = Options(self.home, version, until, None, max_cost, accept=accept)
        progress = Lines()
        try:
            build("axioms", AxiomsConfig(**given), options, tasks=SequentialStages(), progress=progress)
        except LongformError as error:
            self.errors.append(error)
            self.shown.append("".join(traceback.format_exception(error)))
        finally:
            progress.close()

    def failed(self, *arguments: Any, **settings: Any) -> LongformError:
        before = len(self.errors)
        self(*arguments, **settings)
        assert len(self.errors) == before + 1
        return self.errors[-1]

    def check(self) -> None:
        """Assert that errors contain no secret, also after pickling."""
        for error, shown in zip(self.errors, self.shown, strict=True):
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))
            assert_silent(f"{pickle.dumps(error).decode('latin-1')}{error!r}{shown}")
            assert error.__cause__ is None


@pytest.fixture
def runs(tmp_path: Path, dump: str, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("CANARY_KEY", KEY)
    return Runs(tmp_path / "home", dump)


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Logs from INFO on of all packages, from DEBUG on of ours."""
    caplog.set_level(logging.INFO)
    for name in ("longform", "flows", "tasks"):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def passing() -> list[dict[str, Any]]:
    """Script lines, one for each fault that does not stop a build."""
    more: dict[str, dict[str, Any]] = {"drip": {"seconds": 20}, "slow": {"seconds": 0.1}}
    more |= {name: {"retry_after": 0.01} for name in ("429", "503")}
    return [{"fault": name, **more.get(name, {})} for name in FAULTS if name not in STOPPING]


def test_no_fault_leaves_the_key_anywhere(
    runs: Runs, logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serve(key=KEY) as standin:
        for fault in STOPPING:
            standin.script([{"fault": fault}])
            assert isinstance(runs.failed(standin.url), EndpointError)
        assert isinstance(runs.failed(standin.url, max_cost=0.0001), BudgetError)
        standin.script(passing())
        runs(standin.url, timeout_seconds=3.0)
        runs(standin.url)
        outcomes = standin.counters()["outcomes"]
    assert set(FAULTS) <= set(outcomes)
    assert (runs.home / "datasets" / "axioms" / "v1").exists()
    (tmp_path / "exported").mkdir()
    export(runs.home, tmp_path / "exported" / "responses.parquet", None)
    runs.check()
    printed = capfd.readouterr()
    assert_silent(printed.out + printed.err + logs.text)
    assert "answer_open_book" in printed.err
    assert holding(runs.home, KEY) + holding(tmp_path / "exported", KEY) == []
    found = " ".join(holding(runs.home, POST))
    assert all(part in found for part in ("responses.sqlite (cells)", ".parquet (cells)"))
    assert holding(tmp_path / "exported", POST)


def test_an_incomplete_build_leaves_the_key_nowhere(
    runs: Runs, logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with serve(faults={"reset": 1.0}) as standin:
        assert isinstance(runs.failed(standin.url, until="answer_closed_book", limit=1), Incomplete)
    runs.check()
    printed = capfd.readouterr()
    assert_silent(printed.out + printed.err + logs.text)
    assert holding(runs.home, KEY) == []


@pytest.mark.parametrize("fault", BATCH_FAULTS)
def test_no_end_of_a_batch_leaves_the_key_anywhere(
    fault: str, runs: Runs, logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    stages = {"answer_closed_book": {"mode": "batch", "unbatched": "online"}}
    batch = {"until": "answer_closed_book", "limit": 2, "stages": stages}
    with serve(batch_seconds=0.0, batch_faults={fault: 1.0}, key=KEY) as standin:
        for path in ("POST /v1/files", "POST /v1/batches", "GET /v1/batches/{id}"):
            standin.script([{"fault": "401-echo", "path": path}])
            assert isinstance(runs.failed(standin.url, **batch), EndpointError)
        spooled = [path for path in (runs.home / "llm" / "batches").iterdir() if path.suffix == ".jsonl"]
        assert holding(spooled[0].parent, POST)
        assert holding(runs.home, KEY) == []
        runs(standin.url, **batch)
    runs.check()
    printed = capfd.readouterr()
    assert {"expired": "expired: ", "cancelled": "cancelled: ", "failed": "batch "}[fault] in printed.err
    assert_silent(printed.out + printed.err + logs.text)
    assert holding(runs.home, KEY) == []


# ---------------------------------------------------------------- a server that repeats the key in every form


def test_no_form_of_the_key_in_any_field_or_header_stays_anywhere(
    runs: Runs, logs: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with echoing(KEY) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        for version in ("v1", "v2", "v3", "v4"):  # some calls of the first are refused for good
            runs(url, version=version, parameters={"seed": int(version[1])})
    assert len({form for place, form in server.planted if place == "content"}) > 30
    assert len(server.planted) > 10 * len(FORMS)
    (tmp_path / "exported").mkdir()
    export(runs.home, tmp_path / "exported" / "responses.parquet", None)
    runs.check()
    printed = capfd.readouterr()
    shown = [printed.out, printed.err, logs.text, *runs.shown]
    there = [*contents(runs.home), *contents(tmp_path / "exported"), *(("shown", text.encode()) for text in shown)]
    planted = {name: form(KEY) for name, form in FORMS.items()}
    found = {
        (where, name)
        for name, text in planted.items()
        for where, content in there
        if any(each.encode() in content for each in (text, json.dumps(text)[1:-1], repr(text)[1:-1]))
    }
    assert found == set()
    answers = [row for path in runs.home.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    texts = {text for text in strings(json.loads(json.dumps(answers, default=str))) if MARK in text}
    assert len(texts) > 10
    assert not any(spells(text, KEY) for text in texts)
    with closing(sqlite3.connect(runs.home / "llm" / "responses.sqlite")) as database:
        rows = database.execute("SELECT request_id, served_model, fingerprint, body FROM response").fetchall()
    assert any(MARK in row[0] for row in rows if row[0])
    assert any(MARK in row[1] for row in rows if row[1])
    for *columns, body in rows[:30]:
        assert not any(spells(each, KEY) for each in columns if each)
        assert not any(spells(each, KEY) for each in strings(read_json(unpacked(body))))


# ---------------------------------------------------------------- who is sent what


class Recorder(ThreadingHTTPServer):
    """A server that records request heads and answers 200, a redirect to `away`, or an error that repeats the
    request.
    """

    daemon_threads = True

    def __init__(self, away: str = "", echo: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Recording)
        self.away, self.echo = away, echo
        self.heads: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Recording(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def answer(self) -> None:
        asked = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.heads.append(f"{self.command} {self.path}\n{self.headers}")
        status, reply = self._reply(asked)
        self.send_response(status)
        if self.server.away:
            self.send_header("location", f"{self.server.away}{self.path}")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_DELETE = do_CONNECT = answer  # noqa: N815

    def _reply(self, asked: bytes) -> tuple[int, bytes]:
        if self.server.away:
            return 307, b""
        if self.path == "/v1/files":
            return 401, b'{"error": {"message": "no files here", "code": "invalid_api_key"}}'
        if self.server.echo == "key":  # as PHP writes JSON
            error = json.dumps({"error": {"message": f"You sent {self.headers['authorization']}", "code": "nope"}})
            return 400, error.replace("/", "\\/").encode()
        if self.server.echo == "body":
            said = json.loads(asked)["messages"][-1]["content"]
            return 400, json.dumps({"error": {"message": f"Cannot take: {said}"}}).encode()
        choice = {"index": 0, "message": {"role": "assistant", "content": "Yes.\n====="}, "finish_reason": "stop"}
        return 200, json.dumps({"id": "x", "model": "m", "choices": [choice], "data": []}).encode()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def recording(**settings: Any) -> Iterator[Recorder]:
    server = Recorder(**settings)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("mode", ["online", "batch"])
def test_a_redirect_is_followed_by_nobody(mode: str, runs: Runs) -> None:
    with recording() as elsewhere, recording(away=elsewhere.url.removesuffix("/v1")) as server:
        error = runs.failed(server.url, until="answer_closed_book", stages={"answer_closed_book": {"mode": mode}})
        assert isinstance(error, EndpointError)
        assert server.heads
        assert elsewhere.heads == []
    runs.check()
    assert holding(runs.home, KEY) == []


@pytest.mark.parametrize("echo", ["key", "body"])
def test_what_a_server_repeats_is_in_no_message(echo: str, runs: Runs, capfd: pytest.CaptureFixture[str]) -> None:
    with recording(echo=echo) as server:
        assert isinstance(runs.failed(server.url, until="answer_closed_book"), EndpointError)
    runs.check()
    printed = capfd.readouterr()
    assert_silent(printed.out + printed.err)
    assert holding(runs.home, KEY) == []


FOREIGN = {
    "OPENAI_API_KEY": "leak-a",
    "OPENAI_ADMIN_KEY": "leak-b",
    "OPENAI_ORG_ID": "leak-c",
    "OPENAI_PROJECT_ID": "leak-d",
    "OPENAI_CUSTOM_HEADERS": "X-Leak: leak-e\nAuthorization: Bearer leak-l",
    "OPENAI_WEBHOOK_SECRET": "leak-f",
    "AZURE_OPENAI_API_KEY": "leak-g",
    "AZURE_OPENAI_AD_TOKEN": "leak-h",
    "ANTHROPIC_API_KEY": "leak-i",
}


def test_each_server_is_sent_its_own_key_and_nothing_else_of_the_environment(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login leak-j password leak-k\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("OTHER_KEY", OTHER_KEY)
    for name, value in {**FOREIGN, "HOME": str(tmp_path), "NETRC": str(tmp_path / ".netrc")}.items():
        monkeypatch.setenv(name, value)
    with recording() as one, recording() as two, recording() as trap, recording() as bare:
        monkeypatch.setenv("OPENAI_BASE_URL", trap.url)
        keys = {"one": (one, "CANARY_KEY"), "two": (two, "OTHER_KEY"), "bare": (bare, None)}
        endpoints = {
            name: {"base_url": server.url, "model": "m", "key_env": key, "capabilities": ["batch"]}
            for name, (server, key) in keys.items()
        }
        stages = {"answer_closed_book": {"model": "two"}, "combine_answers": {"model": "bare"}}
        runs(one.url, endpoints=endpoints, stages=stages)
        stages["combine_answers"] = {"model": "two", "mode": "batch"}
        runs.failed(two.url, endpoints=endpoints, stages=stages, version="v2")
        assert trap.heads == []
        sent = {name: "\n".join(server.heads) for name, (server, _) in keys.items()}
    said = {name: set(re.findall(r"authorization: (.*)", heads, re.IGNORECASE)) for name, heads in sent.items()}
    assert said == {"one": {f"Bearer {KEY}"}, "two": {f"Bearer {OTHER_KEY}"}, "bare": {"Bearer none"}}
    assert "/v1/files" in sent["two"]
    foreign = re.compile(r"leak-|openai-organization|openai-project", re.IGNORECASE)
    assert not any(foreign.search(heads) for heads in sent.values())


def test_a_proxy_is_used_where_the_environment_names_one_and_not_where_it_excludes_the_host(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with recording() as server, recording() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        runs(server.url, until="answer_closed_book", limit=2)
        assert (bool(proxy.heads), server.heads) == (True, [])
        proxy.heads.clear()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        runs(server.url, until="answer_closed_book", limit=2, parameters={"seed": 1})
        assert (proxy.heads, bool(server.heads)) == ([], True)
    assert runs.errors == []


def test_objects_with_a_key_do_not_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    from longform.llm.ask.types import Endpoint

    endpoint = Endpoint(name="one", model="m", base_url="http://127.0.0.1:9/v1", key_env="CANARY_KEY")
    with Models(tmp_path / "responses.sqlite") as models:
        dispatcher = models.dispatcher(endpoint)
        holders = (models, dispatcher, dispatcher.wire(), models.client(endpoint), endpoint)
        assert_silent("".join(f"{each!r}{each}" for each in holders))


# ---------------------------------------------------------------- the response store's password


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "mysql", "PostgreSQL"])
def test_the_password_of_a_database_that_fails_is_shown_nowhere(
    scheme: str, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        monkeypatch.setenv("LONGFORM_RESPONSES", f"{scheme}://bob:{PASSWORD}@127.0.0.1:{port}/x")
        monkeypatch.chdir(tmp_path)
        kind, code = (StoreError, 1) if scheme in ("postgresql", "postgres") else (UsageError, 2)
        assert isinstance(runs.failed("http://127.0.0.1:9/v1", until="answer_closed_book", limit=2), kind)
        for words in (["responses", "stats"], ["costs", "axioms"], ["batches"]):
            monkeypatch.setattr(sys, "argv", ["longform", *words, "--home", str(runs.home)])
            assert _run_command() == code
    runs.check()
    printed = capfd.readouterr()
    assert_silent(printed.out + printed.err)
    assert holding(tmp_path, PASSWORD) == []
    assert [path for path in tmp_path.rglob("*") if "bob" in str(path)] == []


# ---------------------------------------------------------------- through Prefect

CHILD = """
import json, os, sys
from flows.cli.main import _run_command
from flows.cli.shared.ending import Ending
ending = Ending()
home, dump, steps = sys.argv[1:4]
codes = []
for url, more, store in json.loads(steps):
    given = ["dump=" + dump, "site=canary.example", "model=one", "endpoints.one.base_url=" + url,
             "endpoints.one.model=m", "endpoints.one.key_env=CANARY_KEY", "endpoints.one.price.input=1.0",
             "endpoints.one.price.output=1.0", "endpoints.one.timeout_seconds=600.0"]
    sys.argv = ["longform", "build", "axioms", "--home", home, "--limit", "3", "--version", "v1",
                *(word for each in given for word in ("--set", each)), *more]
    os.environ["LONGFORM_RESPONSES"] = store
    codes.append(_run_command())
print("codes", json.dumps(codes), flush=True)
ending.leave(0)
"""
CODES = {"401-echo": 3, "quota": 3, "budget": 4, "reset": 6, "password": 1, "done": 0}
QUICK, ALL = ("401-echo", "done"), ("quota", "budget", "reset", "401-echo", "password", "done")


@pytest.mark.parametrize("steps", [QUICK, pytest.param(ALL, marks=pytest.mark.soak)], ids=["quick", "all"])
def test_prefect_keeps_neither_key_nor_posts(steps: tuple[str, ...], tmp_path: Path, dump: str) -> None:
    """Prefect's logs go to its database here, and results are kept."""
    prefect, home = tmp_path / "prefect", tmp_path / "home"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM"))}
    given = {
        "CANARY_KEY": KEY,
        "PREFECT_HOME": str(prefect),
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_TO_API_ENABLED": "true",
        "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "DEBUG",
        "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "DEBUG",
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    }
    with ExitStack() as servers, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        password = f"postgresql://bob:{PASSWORD}@127.0.0.1:{free.getsockname()[1]}/x"
        work = []
        for step in steps:
            server = servers.enter_context(serve(faults={step: 1.0} if step in FAULTS else {}))
            more = ["--max-cost", "0.0001"] if step == "budget" else []
            work.append((server.url, more, password if step == "password" else ""))
        command = [sys.executable, "-c", CHILD, str(home), dump, json.dumps(work)]
        done = subprocess.run(
            command, cwd=ROOT, env={**kept, **given}, capture_output=True, text=True, timeout=600, check=False
        )
    assert f"codes {json.dumps([CODES[step] for step in steps])}" in done.stdout, done.stdout + done.stderr
    assert_silent(done.stdout + done.stderr)
    database = b"".join(content for name, content in contents(prefect) if "cells" in name).decode("utf-8", "replace")
    assert "refused" in database
    assert ("Stopped at USD" in database) == ("budget" in steps)
    assert ("gave no answer" in database) == ("reset" in steps)
    assert holding(prefect, KEY, PASSWORD, POST, WORDS) == []
    assert holding(home, KEY, PASSWORD) == []
    assert holding(home, POST)
