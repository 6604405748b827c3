"""Batches against a small provider in this file, over real HTTP. It counts what was submitted: never twice."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import paths
import pytest
from processes import started

from longform.errors import EndpointError, Incomplete
from longform.llm.ask.keys import canonical, key_of
from longform.llm.ask.types import Endpoint
from longform.llm.batch import jobs as batches
from longform.llm.batch.jobs import Counts, Item, Reply, cancel, prefetch
from longform.llm.price import Budget
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.responses.store import open_responses
from longform.llm.send.wire import Wire

REPO = paths.ROOT
KEY = "canary-key-0123456789"
COST = 5
UPLOADED, CREATED, SUBMITTED, STORED = 8, 11, 14, 20  # steps (`Steps`) after which the first job is so far


class Provider:
    """Files and batches. `faults` are met once each, in order, by the first request that fits: (method and path, what).

    What: a status; "lost" (done, but the answer never arrives), "reset" (not done), "garbage" (done, then nonsense),
    "hold" and "hold before" (done, or not, then silent until `go_on`).
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.created: Counter[str] = Counter()
        self.uploads: list[bytes] = []
        self.sizes: list[int] = []
        self.asked: Counter[str] = Counter()
        self.log: list[str] = []
        self.once: list[str] = []
        self.faults: list[tuple[str, int | str]] = []
        self.ends: list[str | Callable[[dict[str, Any]], None]] = []
        self.answer: Callable[[str, dict[str, Any]], tuple[int, Any]] = lambda key, body: (200, completion(body))
        self.odd: Callable[[list[bytes], list[bytes]], tuple[list[bytes], list[bytes]]] = lambda out, bad: (out, bad)
        self.busy = 0
        self.absent: str | None = None
        self.gzipped = False
        self.held, self.go_on = threading.Event(), threading.Event()
        self.number = 0
        handler = type("Handler", (Handler,), {"provider": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def new_id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number:04}"

    def new_file(self, content: bytes) -> str:
        name = self.new_id("file")
        self.files[name] = content
        return name

    def listed(self) -> list[str]:
        """The ids of the batches that the list shows, the newest first."""
        return sorted(self.batches, reverse=True)

    def content(self, name: str) -> bytes | Iterator[bytes]:
        return self.files[name]

    def size(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "file"}

    def post(self, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
        return self.create(body)

    def create(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["input_file_id"] not in self.files:
            return 400, {"error": {"message": "no such file", "param": "input_file_id"}}
        assert body["endpoint"] == "/v1/chat/completions"
        assert body["completion_window"] == "24h"
        name = body["metadata"]["job"]
        self.created[name] += 1
        made = {
            "id": self.new_id("batch"),
            "object": "batch",
            "status": "validating",
            "created_at": self.number,
            **body,
        }
        self.batches[made["id"]] = made | {"output_file_id": None, "error_file_id": None, "polls": 0}
        lines = self.files[body["input_file_id"]].splitlines()
        self.sizes.append(len(lines))
        self.asked.update(json.loads(line)["custom_id"] for line in lines)
        return 200, self.batches[made["id"]]

    def poll(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["polls"] += 1
        if batch["status"] in batches.ENDED or batch["polls"] <= self.busy:
            return batch
        end = self.ends.pop(0) if self.ends else "completed"
        if callable(end):
            end(batch)
        else:
            self.finish(batch, end)
        return batch

    def finish(self, batch: dict[str, Any], status: str = "completed", most: int | None = None) -> None:
        """Answer the first `most` requests and end."""
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()][:most]
        out, bad = [], []
        for line in reversed(lines):
            assert line["method"] == "POST"
            status_code, body = self.answer(line["custom_id"], line["body"])
            request_id = f"{batch['id']}-{line['custom_id'][:8]}"
            response = {"status_code": status_code, "request_id": request_id, "body": body}
            document = {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}
            (out if status_code == 200 else bad).append(json.dumps(document).encode())
        out, bad = self.odd(out, bad)
        batch["status"] = status
        batch["output_file_id"] = self.new_file(b"\n".join(out) + b"\n") if out else self.absent
        batch["error_file_id"] = self.new_file(b"\n".join(bad)) if bad else self.absent


class Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def do_DELETE(self) -> None:
        self.serve()

    def serve(self) -> None:
        assert self.headers["authorization"] == f"Bearer {KEY}"
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path)
        named = f"{self.command} {path.path.removeprefix('/v1')}"
        with self.provider.lock:
            self.provider.log.append(named)
            self.provider.once += [key] if (key := self.headers["idempotency-key"]) else []
            fault = next((f for f in self.provider.faults if re.fullmatch(f[0], named)), None)
            if fault:
                self.provider.faults.remove(fault)
        what = fault[1] if fault else None
        if what == "hold before":
            self.provider.held.set()
            self.provider.go_on.wait(600)
            what = "reset"
        if what == "reset":
            return self.hang_up()
        if isinstance(what, int):
            return self.send(what, {"error": {"message": f"not now, {KEY}"}})
        with self.provider.lock:
            status, document = self.act(named, content, parse_qs(path.query))
        if what == "hold":
            self.provider.held.set()
            self.provider.go_on.wait(600)
        if what in ("lost", "hold"):
            return self.hang_up()
        return self.send(status, b"<html>oops</html>" if what == "garbage" else document)

    def hang_up(self) -> None:
        self.close_connection = True

    def send(self, status: int, document: Any) -> None:
        if isinstance(document, Iterator):
            return self.stream(document)
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        try:
            self.send_response(status)
            if isinstance(document, bytes) and self.provider.gzipped:
                content = gzip.compress(content)
                self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def stream(self, pieces: Iterator[bytes]) -> None:
        """Send pieces as they come, until the connection is closed."""
        self.close_connection = True
        with suppress(OSError):
            self.send_response(200)
            self.send_header("connection", "close")
            if self.provider.gzipped:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            packed = zlib.compressobj(1, wbits=31) if self.provider.gzipped else None
            for piece in pieces:
                self.wfile.write(packed.compress(piece) if packed else piece)
            self.wfile.write(packed.flush() if packed else b"")

    def act(self, named: str, content: bytes, query: dict[str, list[str]]) -> tuple[int, Any]:
        provider, (method, path) = self.provider, named.split(" ")
        kind, _, rest = path.lstrip("/").partition("/")
        name, _, verb = rest.partition("/")
        if named == "POST /files":
            provider.uploads.append(uploaded(self.headers["content-type"], content))
            return 200, {"id": provider.new_file(provider.uploads[-1]), "object": "file"}
        if named == "POST /batches":
            return provider.post(json.loads(content), self.headers["idempotency-key"])
        if named == "GET /batches":
            return 200, self.page(query)
        there = provider.files if kind == "files" else provider.batches
        if name not in there:
            return 404, {"error": {"message": "no such thing"}}
        if kind == "files":
            if method == "DELETE":
                del provider.files[name]
            return 200, provider.content(name) if verb else provider.size(name)
        batch = provider.batches[name]
        if verb == "cancel":
            batch["status"] = "cancelling"
        return 200, batch if verb else provider.poll(batch)

    def page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Two a page, the newest first."""
        every = self.provider.listed()
        after = query.get("after", [""])[0]
        start = every.index(after) + 1 if after else 0
        data = [self.provider.batches[name] for name in every[start : start + 2]]
        return {"object": "list", "data": data, "has_more": start + 2 < len(every)}


def uploaded(content_type: str, content: bytes) -> bytes:
    boundary = content_type.split("boundary=")[1].strip('"').encode()
    parts = {}
    for part in content.split(b"--" + boundary)[1:-1]:
        head, _, body = part.partition(b"\r\n\r\n")
        parts[re.search(rb'name="(\w+)"', head)[1]] = body[:-2]  # type: ignore[index]
    assert parts[b"purpose"] == b"batch"
    return parts[b"file"]


def completion(body: dict[str, Any]) -> dict[str, Any]:
    said = body["messages"][0]["content"][::-1]
    return {"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}


def items_of(number: int, *, task: str = "t", start: int = 0) -> list[Item]:
    found = []
    for n in range(start, start + number):
        sent = canonical({"model": "m", "messages": [{"role": "user", "content": f"Frage {n} – ünï\u2028code 🍺"}]})
        found.append(Item(key_of("e", "/chat/completions", sent), sent, task, f"prompt of {task}", COST))
    return found


def keep(item: Item, context: Mapping[str, Any], reply: Reply) -> tuple[Record | None, Paid | None]:
    shared = {"endpoint": "e", "model": "m", "task": item.task, "prompt": item.prompt, "request": item.sent.encode()}
    shared["request_id"] = reply.request_id
    if reply.status == 400:
        return Record(**shared, body=b"too long", state=TOMBSTONE, code="request", batch=True), None
    if reply.status != 200:
        return None, None
    if reply.too_large or "choices" not in json.loads(reply.body):
        unread = Paid("r", "d", context["stage"], "f", "e", "m", item.key, False, 0, 0, 0, item.bound_nano, batch=True)
        return Record(**shared, body=reply.body, code="unusable", batch=True), unread
    paid = Paid("r", "d", context["stage"], "f", "e", "m", item.key, True, 1, 0, 1, COST, batch=True)
    return Record(**shared, body=reply.body, batch=True, cost_nano=COST), paid


class Place:
    """A home, and runs in it as processes of their own would do them: nothing is kept but what is on disk."""

    def __init__(self, provider: Provider, folder: Path) -> None:
        self.provider, self.folder = provider, folder
        self.where = folder / "responses.sqlite"
        self.said: list[str] = []
        self.slept: list[float] = []

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("e", "m", base_url=self.provider.url, key_env="E_KEY", timeout_seconds=600)

    def run(
        self,
        items: list[Item],
        budget: Budget | None = None,
        die_at: int | None = None,
        stage: str = "s",
        sleep: Callable[[float], Any] | None = None,
        shared: Callable[[Any], Any] = lambda store: store,
        online: bool = False,
        **limits: int,
    ) -> Counts:
        async def go() -> Counts:
            wire, store = Wire(self.endpoint, KEY, None), open_responses(self.where)
            steps = Steps(die_at)
            try:
                return await prefetch(
                    Mortal(wire, steps, {"call", "download"}),
                    Mortal(shared(store), steps, {"stage_job", "update_job", "put"}),
                    self.endpoint,
                    iter(items),
                    keep,
                    budget=budget or Budget(),
                    folder=self.folder / "batches",
                    context={"stage": stage},
                    online=online,
                    api_key=KEY,
                    say=self.said.append,
                    sleep=sleep or self.sleep,
                    **limits,
                )
            finally:
                await wire.close()
                store.close()

        return asyncio.run(go())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def stored(self, items: list[Item]) -> dict[str, Record]:
        with closing(open_responses(self.where, read_only=True)) as store:
            return store.get([item.key for item in items])

    def paid(self) -> int:
        with closing(open_responses(self.where, read_only=True)) as store:
            return sum(line["calls"] for line in store.ledger("d"))

    def jobs(self) -> list[Any]:
        with closing(open_responses(self.where, read_only=True)) as store:
            return store.jobs()

    def left_on_disk(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "batches").iterdir())


class Killed(BaseException):
    pass


class Steps:
    def __init__(self, die_at: int | None) -> None:
        self.left = die_at

    def take(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


class Mortal:
    """Passes everything on; each named call is a step before and a step after it, at one of which all ends."""

    def __init__(self, inner: Any, steps: Steps, names: set[str]) -> None:
        self._inner, self._steps, self._names = inner, steps, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found
        return self._async(found) if asyncio.iscoroutinefunction(found) else self._plain(found)

    def _async(self, call: Any) -> Any:
        async def stepped(*args: Any, **named: Any) -> Any:
            self._steps.take()
            result = await call(*args, **named)
            self._steps.take()
            return result

        return stepped

    def _plain(self, call: Any) -> Any:
        def stepped(*args: Any, **named: Any) -> Any:
            self._steps.take()
            result = call(*args, **named)
            self._steps.take()
            return result

        return stepped


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def place(provider: Provider, tmp_path: Path) -> Place:
    return Place(provider, tmp_path)


def test_what_comes_back_is_stored_under_the_keys_of_single_calls_and_paid_once(place: Place) -> None:
    items = items_of(7) + items_of(3, task="other", start=7)
    counts = place.run(items)
    assert (counts.jobs, counts.sent, counts.stored, counts.missing) == (1, 10, 10, 0)
    for item, record in ((item, place.stored(items)[item.key]) for item in items):
        asked = json.loads(item.sent)["messages"][0]["content"]
        assert json.loads(record.body)["choices"][0]["message"]["content"] == asked[::-1]
        assert (record.request, record.task, record.prompt, record.batch) == (
            item.sent.encode(),
            item.task,
            f"prompt of {item.task}",
            True,
        )
    assert place.paid() == 10
    assert place.run(items) == Counts()
    assert place.paid() == 10
    assert place.provider.files == {}
    assert place.left_on_disk() == []


def test_a_job_has_a_name_of_its_own_which_stands_at_the_provider_and_in_its_idempotency_keys(place: Place) -> None:
    place.provider.answer = lambda key, body: (500, {})
    place.run(items_of(4), online=True)
    place.run(items_of(4), online=True)
    first, second = place.provider.created
    assert set(map(len, (first, second))) == {64}
    assert place.provider.once == [f"{name}-{what}-1" for name in (first, second) for what in ("file", "batch")]


def test_what_is_stored_or_asked_for_twice_is_sent_once(place: Place) -> None:
    items = items_of(6)
    place.run(items[:2])
    place.run(items + items)
    assert place.provider.sizes == [2, 4]
    assert set(place.provider.asked.values()) == {1}


def test_a_file_holds_so_many_requests_and_bytes_at_most(place: Place) -> None:
    items = items_of(10)
    assert place.run(items + items, max_requests=4).jobs == 3
    assert place.provider.sizes == [4, 4, 2]
    assert set(place.provider.asked.values()) == {1}
    more = items_of(5, start=10)
    place.run(more, max_requests=4, max_bytes=600)
    assert len(place.stored(items + more)) == 15
    assert place.provider.sizes[3:] == [2, 2, 1]


def test_a_request_larger_than_a_file_may_be_goes_alone(place: Place) -> None:
    assert place.run(items_of(2), max_bytes=10).stored == 2
    assert place.provider.sizes == [1, 1]


# killed


def test_killed_at_any_step_nothing_is_submitted_or_paid_twice(tmp_path: Path) -> None:
    items = items_of(5)
    for step in range(100):
        provider = Provider()
        place = Place(provider, tmp_path / str(step))
        try:
            place.run(items, die_at=step)
            ended = True
        except Killed:
            ended = False
        place.run(items)
        assert list(provider.created.values()) == [1], step
        assert len(place.stored(items)) == 5
        assert place.paid() == 5
        assert place.jobs() == []
        assert place.left_on_disk() == []
        provider.close()
        if ended:
            assert step > 15
            return
    raise AssertionError("it never came to its end")


@pytest.mark.check
def test_killed_twice_at_any_two_steps(tmp_path: Path) -> None:
    items = items_of(3)
    for first in range(1, 12, 3):
        for second in range(0, 12, 4):
            provider = Provider()
            place = Place(provider, tmp_path / f"{first}-{second}")
            for step in (first, second):
                with suppress(Killed):
                    place.run(items, die_at=step)
            place.run(items)
            assert (list(provider.created.values()), len(place.stored(items)), place.paid()) == ([1], 3, 3)
            provider.close()


CHILDS = {**os.environ, "PYTHONPATH": paths.PYTHONPATH}
CHILD = """
import sys
from pathlib import Path
from tests.longform.llm.batch.test_batch import Place, items_of
class Elsewhere:
    url = sys.argv[1]
Place(Elsewhere(), Path(sys.argv[2])).run(items_of(5))
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("request_", "moment"),
    [("POST /files", "hold"), ("POST /batches", "hold before"), ("POST /batches", "hold"), ("GET /batches/.*", "hold")],
)
def test_a_process_killed_in_a_window_submits_nothing_twice(
    provider: Provider, place: Place, request_: str, moment: str
) -> None:
    provider.faults = [(request_, moment)]
    try:
        with started([sys.executable, "-c", CHILD, provider.url, place.folder], cwd=REPO, env=CHILDS) as child:
            while not provider.held.wait(0.1):
                assert child.poll() is None
    finally:
        provider.go_on.set()
    assert len(place.jobs()) == 1
    place.run(items_of(5))
    assert list(provider.created.values()) == [1]
    assert (len(place.stored(items_of(5))), place.paid(), place.jobs()) == (5, 5, [])


def test_a_job_whose_file_and_folder_are_gone_is_written_again(place: Place) -> None:
    items = items_of(3)
    place.provider.faults = [("POST /batches", "hold before")]
    place.provider.go_on.set()
    with pytest.raises(Killed):
        place.run(items, die_at=UPLOADED)
    for path in (place.folder / "batches").iterdir():
        path.unlink()
    place.provider.files.clear()
    assert place.run(items).stored == 3
    assert list(place.provider.created.values()) == [1]


def test_an_upload_that_is_gone_is_uploaded_again(place: Place) -> None:
    items = items_of(3)
    with pytest.raises(Killed):
        place.run(items, die_at=UPLOADED)
    (job,) = place.jobs()
    assert job.state == "UPLOADED"
    place.provider.files.clear()
    assert place.run(items).stored == 3
    assert list(place.provider.created.values()) == [1]


def test_a_job_that_another_computer_staged_is_collected_with_its_requests(place: Place) -> None:
    items = items_of(3) + items_of(2, task="other", start=3)
    with pytest.raises(Killed):
        place.run(items, die_at=SUBMITTED)
    for path in (place.folder / "batches").iterdir():
        path.unlink()
    assert place.run(items).stored == 5
    stored = place.stored(items)
    assert [(stored[i.key].request, stored[i.key].task) for i in items] == [(i.sent.encode(), i.task) for i in items]


def test_an_earlier_job_is_collected_for_its_own_stage_but_not_waited_for(place: Place) -> None:
    early, late = items_of(3), items_of(2, start=10)
    place.provider.busy = 3
    with pytest.raises(Killed):
        place.run(early, die_at=SUBMITTED, stage="first")
    assert place.run(late, stage="second").stored in (2, 5)
    place.run(late, stage="second")
    place.run(late, stage="second")
    assert len(place.stored(early)) == 3
    with closing(open_responses(place.where, read_only=True)) as store:
        assert {line["stage"]: line["calls"] for line in store.ledger("d")} == {"first": 3, "second": 2}


# several processes


class Shared:
    """A store that other processes write to as well: they hold the leases of jobs until `until` requests for one."""

    exclusive = False

    def __init__(self, store: Any, until: int, then: Callable[[Any], None] = lambda store: None) -> None:
        self._store, self._left, self._then = store, until, then
        self.leased: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def lease(self, keys: list[str]) -> set[str]:
        held = {job.name for job in self._store.jobs()} & set(keys)
        if held and self._left:
            self._left -= 1
            return set()
        if held:
            self._then(self._store)
        self.leased |= set(keys)
        return set(keys)

    async def release(self, keys: list[str]) -> None:
        self.leased -= set(keys)


def test_a_job_of_another_process_is_waited_for_and_collected_when_that_process_has_gone(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=SUBMITTED)
    made: list[Shared] = []
    place.slept.clear()

    def shared(store: Any) -> Shared:
        made.append(Shared(store, 3))
        return made[0]

    counts = place.run(items_of(3), shared=shared)
    assert (counts.jobs, counts.stored, len(place.slept)) == (0, 3, 3)
    assert list(place.provider.created.values()) == [1]
    assert made[0].leased == set()


def test_a_job_that_another_process_has_collected_is_left_alone(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=SUBMITTED)
    (job,) = place.jobs()
    polls = place.provider.log.count(f"GET /batches/{job.remote}")

    def shared(store: Any) -> Shared:
        return Shared(store, 2, lambda there: there.update_job(job.name, state="DONE"))

    counts = place.run(items_of(3), shared=shared)
    assert (counts.jobs, counts.stored) == (0, 0)
    assert set(counts.unanswered.values()) == {"another process asked it and got no answer"}
    assert place.provider.log.count(f"GET /batches/{job.remote}") == polls


# what may go wrong at the provider


@pytest.mark.parametrize("what", ["lost", "garbage", 500, 502, 503, 429, 408, "reset"])
@pytest.mark.parametrize(
    "request_", ["POST /files", "POST /batches", "GET /batches/batch.*", "GET /files/.*/content", "DELETE /files/.*"]
)
def test_a_passing_fault_is_waited_out(place: Place, request_: str, what: int | str) -> None:
    items = items_of(3)
    place.provider.faults = [(request_, what)]
    counts = place.run(items)
    assert list(place.provider.created.values()) == [1]
    assert (counts.stored, counts.missing, counts.broken, place.paid()) == (3, 0, 0, 3)
    assert KEY not in "".join(place.said)


def test_a_create_whose_answer_is_lost_is_looked_for_although_the_list_fails_first(place: Place) -> None:
    place.provider.faults = [("POST /batches", "lost"), ("GET /batches", 500), ("GET /batches", "reset")]
    assert place.run(items_of(3)).stored == 3
    assert list(place.provider.created.values()) == [1]


def test_an_orphan_is_found_behind_others_on_a_later_page(place: Place) -> None:
    items = items_of(3)
    with pytest.raises(Killed):
        place.run(items, die_at=CREATED)
    assert place.jobs()[0].remote is None
    file = place.provider.new_file(b"")
    for number in range(5):
        place.provider.create(
            {
                "input_file_id": file,
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
                "metadata": {"job": str(number)},
            }
        )
    assert place.run(items).stored == 3
    assert set(place.provider.created.values()) == {1}


def test_both_files_are_read_and_a_refused_request_leaves_a_tombstone(place: Place) -> None:
    items = items_of(4)
    codes = {items[0].key: 400, items[1].key: 500}
    place.provider.answer = lambda key, body: (codes.get(key, 200), completion(body))
    counts = place.run(items)
    assert (counts.stored, counts.missing) == (3, 1)
    stored = place.stored(items)
    assert stored[items[0].key].state == TOMBSTONE
    assert items[1].key not in stored
    assert place.paid() == 2


@pytest.mark.parametrize("absent", [None, ""])
def test_completed_without_an_output_file_means_that_all_failed(place: Place, absent: str | None) -> None:
    place.provider.absent = absent
    place.provider.answer = lambda key, body: (500, {})
    counts = place.run(items_of(3))
    assert (counts.stored, counts.missing) == (0, 3)
    assert place.jobs() == []


@pytest.mark.parametrize("status", ["expired", "cancelled", "failed", "EXPIRED", "canceled"])
@pytest.mark.parametrize("absent", [None, ""])
def test_what_was_finished_before_an_end_is_used(place: Place, status: str, absent: str | None) -> None:
    place.provider.absent = absent
    place.provider.ends = [lambda batch: place.provider.finish(batch, status, most=2)]
    counts = place.run(items_of(5), online=True)
    assert (counts.stored, counts.missing, place.paid(), place.jobs()) == (2, 3, 2, [])
    assert place.run(items_of(5)).stored == 3


@pytest.mark.parametrize("status", ["expired", "cancelled", "failed"])
def test_what_an_end_left_unanswered_goes_into_one_more_job_and_then_waits(place: Place, status: str) -> None:
    place.provider.ends = [lambda batch: place.provider.finish(batch, status, most=2)] * 2
    counts = place.run(items_of(6))
    assert place.provider.sizes == [6, 4]
    assert (counts.stored, counts.missing, place.paid(), place.jobs()) == (4, 2, 4, [])
    assert set(counts.unanswered.values()) == {f"its batch ended as {status}"}
    assert place.left_on_disk() == []
    assert place.provider.files == {}


BAD_FILE = {"data": [{"code": "invalid_json_line", "message": "Line 1 is no JSON: Frage 0 – ünï code 🍺", "line": 1}]}


def failed(batch: dict[str, Any]) -> None:
    batch.update(status="failed", errors=BAD_FILE)


def test_a_batch_that_the_provider_does_not_validate_ends_the_run_with_its_reason(place: Place) -> None:
    place.provider.ends = [failed]
    budget = Budget(1000)
    with pytest.raises(EndpointError, match="invalid_json_line Line 1 is no JSON") as refused:
        place.run(items_of(5), budget)
    assert "Frage 0" not in str(refused.value)
    assert 'unbatched = "online"' in str(refused.value)
    assert (place.jobs(), place.provider.files, budget.reserved_nano) == ([], {}, 0)


def test_a_batch_that_is_not_validated_is_left_to_single_calls_only_with_consent(place: Place) -> None:
    place.provider.ends = [failed]
    counts = place.run(items_of(5), online=True)
    assert (counts.jobs, counts.stored, counts.missing) == (1, 0, 5)


def test_a_batch_that_failed_for_a_passing_reason_is_submitted_once_more(place: Place) -> None:
    busy = {"data": [{"code": "internal_error", "message": "try again"}]}
    place.provider.ends = [lambda batch: batch.update(status="failed", errors=busy)]
    counts = place.run(items_of(5))
    assert (counts.jobs, counts.stored, counts.missing) == (2, 5, 0)
    assert place.provider.files == {}


@pytest.mark.parametrize(("status", "code"), [(404, "model_not_found"), (401, "invalid_api_key")])
def test_where_each_request_is_refused_for_all_of_them_the_run_ends_with_the_reason(
    place: Place, status: int, code: str
) -> None:
    place.provider.answer = lambda key, body: (status, {"error": {"code": code, "message": f"no, {KEY}"}})
    with pytest.raises(EndpointError, match=code) as refused:
        place.run(items_of(3))
    assert KEY not in str(refused.value)
    assert place.provider.sizes == [3]


def test_with_too_many_tokens_queued_smaller_jobs_follow_one_at_a_time(place: Place) -> None:
    full = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
    provider, open_at_once = place.provider, []

    def end(batch: dict[str, Any]) -> None:
        size = len(provider.files[batch["input_file_id"]].splitlines())
        open_at_once.append(sum(each["status"] not in batches.ENDED for each in provider.batches.values()))
        batch.update(status="failed", errors=full) if size > 3 else provider.finish(batch)

    provider.ends = [end] * 20
    items = items_of(10)
    budget = Budget(10 * COST)
    assert place.run(items, budget).stored == 10
    assert provider.sizes == [10, 5, 2, 2, 2, 2, 2]
    assert set(open_at_once) == {1}
    assert (budget.spent_nano, budget.reserved_nano) == (10 * COST, 0)
    assert place.left_on_disk() == []
    assert place.paid() == 10


def test_where_not_even_one_request_fits_the_queue_it_is_left_unanswered(place: Place) -> None:
    full = {"data": [{"code": "token_limit_exceeded"}]}
    place.provider.ends = [lambda batch: batch.update(status="failed", errors=full)] * 20
    counts = place.run(items_of(3))
    assert (counts.stored, counts.missing) == (0, 3)
    assert place.provider.sizes == [3, 1, 1, 1]


def test_a_file_too_large_for_the_provider_is_halved(place: Place) -> None:
    place.provider.faults = [("POST /files", 413)]
    assert place.run(items_of(4)).stored == 4
    assert place.provider.sizes == [2, 2]


def test_lines_that_are_broken_unknown_or_doubled_do_no_harm(place: Place) -> None:
    items = items_of(4)

    def odd(out: list[bytes], bad: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        unknown = out[0].replace(items[3].key.encode(), b"f" * 64)
        return [unknown, b"", *out, out[0], out[1][:40], b"[1]", b'{"custom_id": 7}'], [out[2], b"\xff\xfe"]

    place.provider.odd = odd
    counts = place.run(items)
    assert (counts.stored, counts.missing, counts.broken) == (4, 0, 4)
    assert place.paid() == 4
    assert len(place.stored([Item("f" * 64, "{}")])) == 0


def test_a_reply_that_cannot_be_read_is_booked_once_and_asked_for_again(place: Place) -> None:
    place.provider.answer = lambda key, body: (200, {"odd": 1})
    with pytest.raises(Killed):
        place.run(items_of(2), die_at=STORED)
    assert (len(place.jobs()), place.paid()) == (1, 2)
    counts = place.run(items_of(2), online=True)
    assert (counts.stored, counts.missing, counts.jobs) == (2, 2, 1)
    assert place.paid() == 4
    place.provider.answer = lambda key, body: (200, completion(body))
    assert place.run(items_of(2)).missing == 0


def test_a_single_call_that_was_faster_keeps_its_record(place: Place) -> None:
    items = items_of(2)
    single = Record("e", "m", "t", "p", b"{}", b"single")

    async def meanwhile(seconds: float) -> None:
        with closing(open_responses(place.where)) as store:
            await store.put([(items[0].key, single)])

    place.run(items, sleep=meanwhile)
    assert place.stored(items)[items[0].key].body == b"single"
    assert place.paid() == 2


@pytest.mark.parametrize("status", [401, 402, 403, 404])
@pytest.mark.parametrize("request_", ["POST /files", "POST /batches", "GET /batches/batch.*"])
def test_a_refusal_stops_with_one_sentence_without_the_key_and_frees_the_money(
    place: Place, request_: str, status: int
) -> None:
    place.provider.faults = [(request_, status)]
    budget = Budget(1000)
    with pytest.raises(EndpointError) as refused:
        place.run(items_of(3), budget)
    assert f'The endpoint "e" at {place.provider.url}' in str(refused.value)
    assert f"refused {request_.partition('.')[0]}" in str(refused.value)
    assert KEY not in str(refused.value) + "".join(place.said)
    assert budget.reserved_nano == 0
    assert place.run(items_of(3)).stored == 3
    assert list(place.provider.created.values()) == [1]


def test_after_an_hour_without_an_answer_it_gives_up_until_the_next_run(place: Place) -> None:
    place.provider.faults = [("GET /batches/batch.*", 500)] * 100
    with pytest.raises(Incomplete, match="run the same command again"):
        place.run(items_of(2))
    assert 3600 <= sum(place.slept) < 4500
    place.provider.faults = []
    assert place.run(items_of(2)).stored == 2
    assert list(place.provider.created.values()) == [1]


def test_it_asks_ever_more_rarely(place: Place) -> None:
    place.provider.busy = 12
    place.run(items_of(1))
    assert place.slept[:4] == [1, 2, 4, 8]
    assert place.slept[-2:] == [300, 300]


# money


def test_a_job_is_as_large_as_the_budget_and_the_rest_follows_with_what_it_left(place: Place) -> None:
    budget = Budget(6 * COST)
    counts = place.run(items_of(10), budget)
    assert (counts.stored, counts.short_nano) == (6, COST)
    assert place.provider.sizes == [6]
    assert (budget.spent_nano, budget.reserved_nano) == (6 * COST, 0)


def test_a_budget_that_takes_no_request_sends_nothing_but_collects_what_is_open(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=SUBMITTED)
    budget = Budget(2)
    counts = place.run(items_of(3) + items_of(3, start=5), budget)
    assert (counts.stored, counts.jobs, counts.short_nano) == (3, 0, COST)
    assert budget.reserved_nano == 0


def test_what_a_job_costs_at_most_is_set_aside_again_after_a_crash(place: Place) -> None:
    place.provider.busy = 2
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=SUBMITTED)
    budget, seen = Budget(4 * COST), []

    async def watch(_: float) -> None:
        seen.append(budget.reserved_nano)

    counts = place.run(items_of(5), budget, sleep=watch)
    assert seen[0] == 4 * COST
    assert (counts.stored, counts.short_nano, budget.spent_nano) == (4, COST, 4 * COST)


# stopping


def test_cancelled_by_us_the_part_that_was_finished_is_collected(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(items_of(4), die_at=SUBMITTED)
    (job,) = place.jobs()

    async def stop() -> bool:
        wire = Wire(place.endpoint, KEY, None)
        try:
            return await cancel(wire, job, place.endpoint, api_key=KEY)
        finally:
            await wire.close()

    assert asyncio.run(stop())
    assert place.provider.batches[job.remote]["status"] == "cancelling"
    place.provider.ends = [lambda batch: place.provider.finish(batch, "cancelled", most=1)]
    counts = place.run(items_of(4))
    assert (counts.stored, counts.missing) == (4, 0)
    assert place.paid() == 4


def test_interrupted_it_says_where_the_job_is_and_the_next_run_collects_it(place: Place) -> None:
    async def interrupt(_: float) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        place.run(items_of(2), sleep=interrupt)
    assert "go on at the provider" in place.said[-1]
    assert place.run(items_of(2)).stored == 2
    assert list(place.provider.created.values()) == [1]


def cli(place: Place, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "batches", *words],
        cwd=REPO,
        env={**os.environ, "LONGFORM_RESPONSES": "", "LONGFORM_HOME": str(place.folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def at_home(provider: Provider, tmp_path: Path) -> Place:
    """Where the command line looks for it."""
    place = Place(provider, tmp_path)
    place.where = tmp_path / "llm" / "responses.sqlite"
    return place


def test_the_command_line_lists_open_jobs_while_a_build_has_the_store(at_home: Place) -> None:
    began = time.time()
    with pytest.raises(Killed):
        at_home.run(items_of(4), die_at=SUBMITTED)
    (job,) = at_home.jobs()
    with closing(open_responses(at_home.where)):
        listed = cli(at_home, "--json")
        shown = cli(at_home)
    (found,) = json.loads(listed.stdout)
    assert (found["name"], found["endpoint"], found["remote"]) == (job.name, "e", job.remote)
    assert (found["state"], found["requests"]) == ("SUBMITTED", 4)
    assert 0 <= found["age_seconds"] <= time.time() - began + 1
    assert job.name[:12] in shown.stdout


def test_the_command_line_stops_a_job_by_the_beginning_of_its_name(at_home: Place) -> None:
    with pytest.raises(Killed):
        at_home.run(items_of(4), die_at=SUBMITTED)
    (job,) = at_home.jobs()
    settings = (f"endpoints.e.base_url={at_home.provider.url}", "endpoints.e.model=m", "endpoints.e.key_env=E_KEY")
    given = [word for setting in settings for word in ("--set", setting)]
    assert cli(at_home, "--cancel", job.name[:8]).returncode == 2
    assert cli(at_home, "--cancel", "nonsense", *given, E_KEY=KEY).returncode == 2
    assert cli(at_home, "--cancel", "all", *given, E_KEY="").returncode == 3
    done = cli(at_home, "--cancel", job.name[:8], *given, E_KEY=KEY)
    assert (done.returncode, at_home.provider.batches[job.remote]["status"]) == (0, "cancelling")
    assert KEY not in done.stdout + done.stderr
    at_home.provider.batches.clear()
    assert "given up" in cli(at_home, "--cancel", "all", *given, E_KEY=KEY).stdout
    assert at_home.jobs() == []
    assert "No batch job is open" in cli(at_home).stdout
