import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import paths
import pytest
from offline_rules import RULES
from processes import started

from longform.errors import EndpointError, Incomplete, UsageError
from longform.llm import offline
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.client import Client
from longform.llm.models import Models
from longform.llm.responses.store import open_responses
from longform.llm.send.machine import TRIES
from longform.llm.send.wire import seconds_to_wait

CANARY = "sk-canary-0123456789abcdef"
REPO = paths.ROOT


class Server:
    """An endpoint on 127.0.0.1. `script` maps a question to the faults it meets before it is answered."""

    def __init__(self) -> None:
        self.script: dict[str, list[Callable[[Any], None]]] = {}
        self.always: Callable[[Any], None] | None = None
        self.latency: Callable[[str], float] = lambda question: 0.0
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.flying = self.most_flying = 0
        self.over = over = threading.Event()
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536

            def do_POST(self) -> None:
                server.handle(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            test_is_over = over

            def handle_error(self, *_: Any) -> None:
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle(self, handler: Any) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        question = body["messages"][-1]["content"] if "messages" in body else "embeddings"
        with self.lock:
            self.asked.append(question)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.bodies.append(body)
            self.flying += 1
            self.most_flying = max(self.most_flying, self.flying)
            faults = self.script.get(question, [])
            fault = self.always or (faults.pop(0) if faults else None)
        time.sleep(self.latency(question))
        with self.lock:
            self.flying -= 1
        if fault:
            fault(handler)
        else:
            send(handler, 200, embedded(body) if "input" in body else completion(f"answer to {question}"))

    def close(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()


def completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    return {
        "choices": [choice],
        "model": "served-1",
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def embedded(body: dict[str, Any]) -> dict[str, Any]:
    vectors = [{"index": place, "embedding": [float(len(text)), 0.5]} for place, text in enumerate(body["input"])]
    return {"data": list(reversed(vectors)), "model": "served-1"}


def send(handler: Any, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)


def says(status: int, body: Any, **headers: str) -> Callable[[Any], None]:
    return lambda handler: send(handler, status, body, {k.replace("_", "-"): v for k, v in headers.items()})


def error(status: int, **fields: Any) -> Callable[[Any], None]:
    return says(status, {"error": {"message": "no", **fields}})


def reset(handler: Any) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    handler.close_connection = True
    handler.connection.close()


def truncated(handler: Any) -> None:
    send(handler, 200, b'{"choices": [', {"Content-Length": "5000"})
    handler.close_connection = True


def slow(handler: Any) -> None:
    """A byte now and then, so that no single read takes long."""
    send(handler, 200, b" ", {"Content-Length": "50000"})
    while not handler.server.test_is_over.wait(0.2):
        handler.wfile.write(b" ")
        handler.wfile.flush()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "llm" / "responses.sqlite"


def endpoint(server: Server, **changes: Any) -> Endpoint:
    settings = {"concurrency": 4, "timeout_seconds": 600.0, "key_env": "SOME_KEY", **changes}
    return Endpoint(name="test", model="model-x", base_url=server.url, **settings)


@contextmanager
def asking(endpoint: Endpoint, store: Path, api_key: str | None, **settings: Any) -> Iterator[Client]:
    with Models(store, key_of=lambda variable: api_key, first_pause_seconds=0.01, **settings, offline=RULES) as models:
        yield models.client(endpoint)


@contextmanager
def client_of(server: Server, store: Path, **changes: Any) -> Iterator[Client]:
    with asking(endpoint(server, **changes), store, CANARY) as client:
        yield client


def request(question: str) -> Request:
    return Request(messages=(("system", "You answer."), ("user", question)), task="axioms/closed_book", max_tokens=99)


def ask(client: Client, *questions: str) -> list[tuple[str, Answer | Failure]]:
    return list(client.ask((question, request(question)) for question in questions))


def one(client: Client, question: str) -> Answer | Failure:
    return ask(client, question)[0][1]


def everything_on_disk(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(store.parent.rglob("*")) if path.is_file())


def test_answers_come_in_the_order_of_the_items_whichever_is_ready_first(server: Server, store: Path) -> None:
    server.latency = lambda question: {"0": 0.3, "1": 0.1}.get(question, 0.0)
    with client_of(server, store) as client:
        answers = ask(client, *map(str, range(20)))
    assert [item for item, _ in answers] == [str(n) for n in range(20)]
    assert [answer.text for _, answer in answers if isinstance(answer, Answer)] == [f"answer to {n}" for n in range(20)]


def test_an_answer_tells_who_answered_and_what_it_took(server: Server, store: Path) -> None:
    with client_of(server, store) as client:
        answer = one(client, "why?")
    assert server.headers[0]["authorization"] == f"Bearer {CANARY}"
    assert isinstance(answer, Answer)
    told = (answer.model, answer.finish, answer.input_tokens, answer.output_tokens, answer.cached)
    assert told == ("served-1", "stop", 7, 3, False)


@pytest.mark.parametrize("name", ["offline-rules-1", "offline-other", "lexical-1", "released"])
def test_a_server_cannot_name_itself_as_what_is_no_model(name: str) -> None:
    real = Endpoint("mine", "asked", base_url="http://a.example/v1")
    assert (
        offline.recorded_name(real, name) == offline.recorded_name(replace(real, model=name), None) == f"served:{name}"
    )
    assert offline.recorded_name(real, None) == "asked"
    assert offline.recorded_name(real, "gpt-offline-1") == "gpt-offline-1"
    assert offline.recorded_name(offline.ENDPOINT, None) == "offline-rules-1"


def test_the_body_holds_model_messages_limit_and_parameters_and_nothing_else(server: Server, store: Path) -> None:
    with client_of(server, store, parameters=(("seed", 1),)) as client:
        one(client, "why?")
    with client_of(server, store, limit_field="max_tokens") as client:
        one(client, "why?")
    messages = [{"role": "system", "content": "You answer."}, {"role": "user", "content": "why?"}]
    assert server.bodies == [
        {"model": "model-x", "messages": messages, "max_completion_tokens": 99, "seed": 1},
        {"model": "model-x", "messages": messages, "max_tokens": 99},
    ]


def test_a_second_run_makes_no_call_and_needs_no_key(server: Server, store: Path) -> None:
    with client_of(server, store) as client:
        first = ask(client, "a", "b", "c")
    server.asked.clear()
    with asking(endpoint(server), store, None) as client:
        second = ask(client, "a", "b", "c")
    assert server.asked == []
    assert [(item, answer.text, answer.key) for item, answer in first if isinstance(answer, Answer)] == [
        (item, answer.text, answer.key) for item, answer in second if isinstance(answer, Answer) and answer.cached
    ]


PASSING = {
    "429 with Retry-After 0": says(429, {"error": {"message": "slow down", "code": "rate_limit"}}, Retry_After="0"),
    "500": error(500),
    "503 in HTML": says(503, b"<html>busy</html>"),
    "408": error(408),
    "reset": reset,
    "truncated": truncated,
    "HTML with 200": says(200, b"<html>hello</html>"),
    "no choices": says(200, {"choices": []}),
    "wrong shape": says(200, {"choices": [{"message": "hello"}]}),
    "a list": says(200, [1, 2]),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_a_passing_fault_is_tried_again(server: Server, store: Path, fault: Callable[[Any], None]) -> None:
    server.script["q"] = [fault, fault]
    with client_of(server, store) as client:
        answer = one(client, "q")
    assert isinstance(answer, Answer)
    assert answer.text == "answer to q"
    assert server.asked == ["q"] * 3


def test_the_timeout_is_on_the_whole_request(server: Server, store: Path) -> None:
    server.script["q"] = [slow]
    with client_of(server, store, timeout_seconds=3.0) as client:  # three more tries have as long
        answer = one(client, "q")
    assert isinstance(answer, Answer)
    assert answer.text == "answer to q"
    assert server.asked.count("q") >= 2


def test_retry_after_is_honoured(server: Server, store: Path) -> None:
    server.script["q"] = [says(429, {"error": {"message": "slow down"}}, Retry_After="0.5")]
    with client_of(server, store) as client:
        started = time.monotonic()
        one(client, "q")
    assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize(
    ("header", "milliseconds", "seconds"),
    [
        ("3", None, 3.0),
        ("0", None, 0.0),
        ("3", "250", 0.25),
        ("Sat, 01 Jan 2000 00:00:00 GMT", None, 0.0),
        (None, None, None),
        ("soon", None, None),
        ("-4", None, None),
        ("nan", None, None),
        ("inf", None, None),
        ("3", "soon", 3.0),
        ("3", "", 3.0),
        ("3", "-5", 3.0),
        ("3", "nan", 3.0),
        ("3", "inf", 3.0),
        ("Sat, 01 Jan 2000 00:00:00 GMT", "soon", 0.0),
        (None, "soon", None),
        (None, "1500", 1.5),
        ("Sat, 01 Jan 99999 00:00:00 GMT", None, None),
        ("Sat, 01 Jan 0001 00:00:00 +2359", None, 0.0),
        ("Sat, 01 Jan 2000 00:00:00 +999999", None, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(
    header: str | None, milliseconds: str | None, seconds: float | None
) -> None:
    assert seconds_to_wait(header, milliseconds) == seconds


def test_when_tries_run_out_the_run_is_incomplete_and_the_rest_in_flight_is_stored(server: Server, store: Path) -> None:
    server.script["bad"] = [error(503, message="overloaded")] * 20
    server.latency = lambda question: 0.0 if question == "bad" else 0.3
    with client_of(server, store) as client, pytest.raises(Incomplete) as raised:
        ask(client, "bad", "1", "2", "3")
    assert "503 overloaded" in str(raised.value)
    assert "run the same command again" in str(raised.value)
    assert server.asked.count("bad") == TRIES["server"] + 1
    server.script.clear()
    server.asked.clear()
    with client_of(server, store) as client:
        assert len(ask(client, "bad", "1", "2", "3")) == 4
    assert server.asked == ["bad"]


STOPPING = {
    "401": (error(401, message=f"Incorrect API key provided: {CANARY}"), "SOME_KEY"),
    "403": (error(403, message="not for you"), "not for you"),
    "404": (error(404, code="model_not_found", message="no model-x"), "no model-x"),
    "402": (error(402, message="pay first"), "pay first"),
    "quota": (error(429, code="insufficient_quota", message="You exceeded your quota"), "exceeded your quota"),
    "parameter": (error(400, param="temperature", message="not with this model"), "not with this model"),
    "redirect": (says(307, b"", Location="http://127.0.0.1:9/v1"), "307"),
}


@pytest.mark.parametrize(("fault", "told"), STOPPING.values(), ids=STOPPING.keys())
def test_a_refusing_endpoint_stops_the_run_at_once(
    server: Server, store: Path, fault: Callable[[Any], None], told: str
) -> None:
    server.always = fault
    with client_of(server, store) as client, pytest.raises(EndpointError, match=told) as raised:
        ask(client, *map(str, range(50)))
    assert len(server.asked) <= 4
    assert CANARY not in str(raised.value)
    assert raised.value.exit_code == 3


TOO_LONG = error(400, code="context_length_exceeded", message="maximum context is 8192")
FILTERED = error(400, code="content_filter", message="held back")


@pytest.mark.parametrize(
    ("fault", "kind"), [(TOO_LONG, "request"), (FILTERED, "filter"), (error(413), "request")], ids=["400", "f", "413"]
)
def test_what_can_never_be_answered_is_a_failure_and_is_not_asked_again(
    server: Server, store: Path, fault: Callable[[Any], None], kind: str
) -> None:
    server.script["long"] = [fault]
    with client_of(server, store) as client:
        first = one(client, "long")
    with client_of(server, store) as client:
        second = one(client, "long")
    assert isinstance(first, Failure)
    assert first == second
    assert first.kind == kind
    assert server.asked == ["long"]


REPLIES = {
    "length": (completion("half an ans", "length"), "length"),
    "filter": (completion("", "content_filter"), "filter"),
    "refusal": (completion(None, refusal="I cannot help."), "refusal"),
    "reasoning only": (completion(None, "length"), "length"),
    "nothing said": (completion(None), "empty"),
    "white space": (completion(" \n "), "empty"),
}


@pytest.mark.parametrize(("reply", "kind"), REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_that_is_no_answer_is_a_failure_that_was_paid_once(
    server: Server, store: Path, reply: dict[str, Any], kind: str
) -> None:
    server.always = says(200, reply)
    with client_of(server, store) as client:
        first = one(client, "q")
        asked = len(server.asked)
        second = one(client, "q")
    assert isinstance(first, Failure)
    assert first == second
    assert first.kind == kind
    assert len(server.asked) == asked
    assert asked == (2 if kind in ("length", "empty") else 1)


def test_a_cut_off_reply_keeps_the_text(server: Server, store: Path) -> None:
    server.always = says(200, completion("half an ans", "length"))
    with client_of(server, store) as client:
        failure = one(client, "q")
    assert isinstance(failure, Failure)
    assert failure.detail == {"text": "half an ans"}


def test_when_the_first_requests_are_all_refused_for_no_stated_reason_the_setting_is_blamed(
    server: Server, store: Path
) -> None:
    server.always = error(400, message="bad request")
    with client_of(server, store, concurrency=1) as client, pytest.raises(EndpointError, match="bad request"):
        ask(client, *map(str, range(9)))
    assert len(server.asked) == 3
    server.always = None
    with client_of(server, store, concurrency=1) as client:
        assert all(isinstance(answer, Answer) for _, answer in ask(client, "0", "1", "2"))


def test_a_refusal_for_no_stated_reason_is_a_failure_once_others_were_answered(server: Server, store: Path) -> None:
    server.script["odd"] = [error(400, message="bad request")]
    with client_of(server, store, concurrency=1) as client:
        assert isinstance(ask(client, "fine", "odd")[1][1], Failure)
        assert isinstance(one(client, "odd"), Failure)
    assert server.asked == ["fine", "odd"]


def test_no_more_are_in_flight_than_allowed_and_a_bounded_number_is_read_ahead(server: Server, store: Path) -> None:
    def until_all_came(question: str) -> float:
        while server.most_flying < 3 and not server.over.wait(0.002):
            pass
        return 0.002

    server.latency = until_all_came
    read = 0

    def items() -> Iterator[tuple[int, Request]]:
        nonlocal read
        for number in range(600):
            read += 1
            yield number, request(str(number))

    with client_of(server, store, concurrency=3) as client:
        for done, _ in enumerate(client.ask(items())):
            assert read <= done + 5 * 64
    assert server.most_flying == 3


@pytest.mark.parametrize("room", [-5, 0, 1, 30])
def test_no_more_are_read_ahead_than_there_is_room_for_and_who_collects_gets_all(
    server: Server, store: Path, room: int
) -> None:
    read = done = 0

    def items() -> Iterator[tuple[int, Request]]:
        nonlocal read
        for number in range(40):
            read += 1
            yield number, request(str(number))

    def left() -> int:
        return room - (read - done)

    with client_of(server, store, concurrency=3) as client:
        for number, _ in client.ask(items(), room=left):
            assert read <= number + max(1, room) + 1
            done += 1
        collected = dict(client.ask(((n, request(f"other {n}")) for n in range(40)), room=lambda: room))
    assert (done, len(collected)) == (40, 40)


def test_who_still_asks_when_the_models_are_closed_hears_that_it_was_broken_off(server: Server, store: Path) -> None:
    with client_of(server, store) as client:
        left, asking_on = (client.ask((n, request(f"{who} {n}")) for n in range(900)) for who in "ab")
        next(left)
        next(asking_on)
    left.close()  # type: ignore[attr-defined]
    with pytest.raises(Incomplete, match="broken off"):
        list(asking_on)
    asked = len(server.asked)
    with pytest.raises(Incomplete, match="broken off"):
        list(client.ask([(0, request("later"))]))
    assert len(server.asked) == asked < 900


def unanswered(server: Server, *, after: int = 0) -> None:
    """Have no question answered behind so many, until the test is over."""
    server.latency = lambda question: 0.0 if len(server.asked) <= after else float(server.over.wait(600))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.mark.check
def test_who_waits_for_an_answer_when_the_models_are_closed_hears_of_it_although_their_loop_hangs(
    server: Server, store: Path
) -> None:
    unanswered(server)
    goes_on = threading.Event()
    with ThreadPoolExecutor(2) as pool, asking(endpoint(server), store, CANARY, loop_seconds=0.5) as client:
        waiting = [pool.submit(ask, client, question) for question in ("a", "b")]
        wait_for(lambda: len(server.asked) == 2)
        loop = client.models.loop
        loop.call_soon_threadsafe(goes_on.wait, 600)
        client.models.close()
        for each in waiting:
            with pytest.raises(Incomplete, match="broken off"):
                each.result(600)
    assert not loop.is_closed()
    goes_on.set()
    wait_for(loop.is_closed)


def test_a_caller_who_is_collected_in_the_thread_of_the_loop_does_not_hold_it_up(server: Server, store: Path) -> None:
    unanswered(server, after=100)
    let_go = threading.Event()
    with client_of(server, store) as client:
        answers = client.ask((n, request(str(n))) for n in range(900))
        next(answers)
        wait_for(lambda: len(server.asked) > 100)
        client.models.loop.call_soon_threadsafe(lambda: (answers.close(), let_go.set()))  # type: ignore[attr-defined]
        assert let_go.wait(600)
        assert server.flying > 0


def test_equal_requests_in_flight_are_sent_once(server: Server, store: Path) -> None:
    server.latency = lambda question: 0.2
    with client_of(server, store) as client:
        answers = ask(client, "same", "same", "same", "other")
    assert Counter(server.asked) == {"same": 1, "other": 1}
    assert len(answers) == 4


def test_a_caller_who_stops_listening_loses_nothing_that_was_in_flight(server: Server, store: Path) -> None:
    server.latency = lambda question: 0.02
    with client_of(server, store) as client:
        answers = client.ask((n, request(str(n))) for n in range(900))
        next(answers)
        answers.close()  # type: ignore[attr-defined]
    asked = list(server.asked)
    assert len(asked) < 500
    with client_of(server, store) as client:
        ask(client, *asked)
    assert server.asked == asked


def test_a_missing_key_is_reported_before_anything_is_sent(server: Server, store: Path) -> None:
    with asking(endpoint(server), store, None) as client, pytest.raises(EndpointError, match="SOME_KEY"):
        one(client, "q")
    assert server.asked == []


def test_a_local_server_without_a_key_is_asked_without_one(server: Server, store: Path) -> None:
    with asking(endpoint(server, key_env=None), store, None) as client:
        assert isinstance(one(client, "q"), Answer)
    assert server.headers[0]["authorization"] == "Bearer none"


def test_the_key_is_in_no_file_error_or_log_even_if_the_endpoint_echoes_it(
    server: Server, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"your Authorization was Bearer {CANARY}"
    server.script = {
        "200": [says(200, completion(echo))],
        "500": [error(500, message=echo), reset, truncated],
        "400": [error(400, code="context_length_exceeded", message=echo)],
        "refusal": [says(200, completion(None, refusal=echo))],
        "html": [says(200, echo.encode())],
        "401": [error(401, message=echo, code=CANARY)],
    }
    with client_of(server, store) as client:
        answers = ask(client, "200", "500", "400", "refusal", "html")
        with pytest.raises(EndpointError) as raised:
            one(client, "401")
        kept = everything_on_disk(store)
    stored = pickle.loads(pickle.dumps(raised.value))
    assert str(stored) == str(raised.value)
    assert CANARY not in repr(answers) + str(stored) + repr(raised.value.__context__) + caplog.text
    assert CANARY.encode() not in kept
    assert CANARY not in " ".join(map(repr, stored_bodies(store)))
    assert "[key]" in repr(answers)


def stored_bodies(store: Path) -> list[bytes]:
    responses = open_responses(store, read_only=True)
    found = [content for _, record in responses.scan() for content in (record.request, record.body)]
    responses.close()
    assert found
    return found


CHILD = """
import sys
from pathlib import Path
from longform.llm.models import Models
from longform.llm.ask.types import Endpoint, Request
url, store, first, last, key = sys.argv[1:]
endpoint = Endpoint(name="test", model="model-x", base_url=url, concurrency=4)
with Models(Path(store), key_of=lambda variable: key) as models:
    items = ((n, Request((("user", str(n)),), "axioms/closed_book")) for n in range(int(first), int(last)))
    print(len(list(models.client(endpoint).ask(items))))
"""


def child(server: Server, store: Path, count: int, **environment: str) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-c", CHILD, server.url, str(store), "0", str(count), CANARY]
    inherited = {**os.environ, "PYTHONPATH": str(REPO), **environment}
    return started(command, env=inherited, stdout=subprocess.PIPE, text=True)


def said(process: AbstractContextManager[subprocess.Popen[str]]) -> str:
    with process as running:
        return running.communicate(timeout=600)[0]


@pytest.mark.check
def test_after_a_kill_only_what_was_in_flight_is_asked_again(server: Server, store: Path) -> None:
    dead = threading.Event()
    server.latency = lambda question: 0.05 if len(server.asked) < 30 else 0.05 * dead.wait(600)
    with child(server, store, 60) as killed:
        wait_for(lambda: len(server.asked) >= 30 or killed.poll() is not None)
        killed.kill()
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
    dead.set()
    assert said(child(server, store, 60)) == "60\n"
    repeated = sum(times - 1 for times in Counter(server.asked).values())
    assert set(server.asked) == {str(n) for n in range(60)}
    assert 1 <= repeated <= 4


def test_nothing_of_the_environment_is_sent(server: Server, store: Path) -> None:
    secrets = {
        "OPENAI_API_KEY": "secret-of-another-host",
        "OPENAI_ADMIN_KEY": "secret-admin",
        "OPENAI_ORG_ID": "secret-organisation",
        "OPENAI_PROJECT_ID": "secret-project",
        "OPENAI_CUSTOM_HEADERS": "X-Extra: secret-header",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/secret",
    }
    assert said(child(server, store, 1, **secrets)) == "1\n"
    assert "secret" not in repr(server.headers)


def test_embeddings_keep_their_order_and_are_paid_once_a_text(server: Server, store: Path) -> None:
    texts = ["x" * (n % 130 + 1) for n in range(150)]
    with client_of(server, store) as client:
        vectors = client.embed(texts)
        assert sorted(len(body["input"]) for body in server.bodies) == [2, 64, 64]
        server.bodies.clear()
        more = client.embed([*texts[:3], "new text", *texts[3:]])
    assert vectors == [[float(len(text)), 0.5] for text in texts]
    assert more == [*vectors[:3], [8.0, 0.5], *vectors[3:]]
    assert [body["input"] for body in server.bodies] == [["new text"]]


def test_embeddings_that_do_not_fit_the_texts_are_asked_again(server: Server, store: Path) -> None:
    one_short = {"data": [{"index": 0, "embedding": [1.0]}]}
    server.script["embeddings"] = [says(200, one_short), says(200, {"data": [{"index": 0}, {"index": 1}]})]
    with client_of(server, store) as client:
        assert client.embed(["a", "bb"]) == [[1.0, 0.5], [2.0, 0.5]]


def test_a_text_that_cannot_be_embedded_is_an_error_of_the_endpoint(server: Server, store: Path) -> None:
    server.script["embeddings"] = [TOO_LONG]
    with client_of(server, store) as client, pytest.raises(EndpointError, match="maximum context"):
        client.embed(["a"])


def test_the_offline_endpoint_answers_in_process_and_stores_nothing(store: Path) -> None:
    message = f"Question:\n<<<text {'0' * 12}\nWhy beer?\n{'0' * 12} text>>>"
    items = [(n, Request((("user", message),), "axioms/closed_book")) for n in range(3)]
    before = set(threading.enumerate())
    with asking(Endpoint(name="offline", model="offline"), store, None) as client:
        answers = [answer for _, answer in client.ask(items)]
        with pytest.raises(UsageError, match="base_url"):
            client.embed(["a"])
        assert set(threading.enumerate()) <= before
    assert not store.parent.exists()
    assert {answer.model for answer in answers if isinstance(answer, Answer)} == {offline.MODEL}
    assert len({answer.key for answer in answers}) == 1


def test_offline_and_online_keys_of_the_same_request_are_made_alike(server: Server, store: Path) -> None:
    message = f"Question:\n<<<text {'0' * 12}\nWhy beer?\n{'0' * 12} text>>>"
    question = request(message)
    with asking(Endpoint(name="test", model="model-x"), store, None) as client:
        ((_, here),) = client.ask([(0, question)])
    with client_of(server, store) as client:
        ((_, there),) = client.ask([(0, question)])
    assert here.key == there.key


def test_importing_the_client_loads_neither_the_sdk_nor_a_template_engine() -> None:
    code = (
        "import longform.llm.client, longform.llm.ask.prompts, sys;"
        "print({'openai', 'aiohttp', 'httpx2', 'jinja2', 'pydantic'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_what_only_routes_a_call_is_sent_and_neither_stored_nor_in_its_key(server: Server, store: Path) -> None:
    asked = replace(request("why?"), prompt="ab" * 32)
    with client_of(server, store) as client:
        list(client.ask([(0, asked)]))
    assert "prompt_cache_key" not in server.bodies[0]
    routed = {"capabilities": frozenset({"prompt_cache_key"}), "parameters": (("service_tier", "flex"),)}
    with client_of(server, store, **routed) as client:
        ((_, known), (_, new)) = client.ask([(0, asked), (1, replace(asked, messages=(("user", "how?"),)))])
        client.embed(["malt"])
        record = client.models.store.get([new.key])[new.key]
    assert (known.cached, new.cached) == (True, False)  # type: ignore[union-attr]
    assert (server.bodies[1]["prompt_cache_key"], server.bodies[1]["service_tier"]) == ("ab" * 32, "flex")
    assert ("prompt_cache_key" in server.bodies[2], server.bodies[2]["service_tier"]) == (False, "flex")
    assert json.loads(record.request).keys() == {"max_completion_tokens", "messages", "model"}
    own = {**routed, "parameters": (("prompt_cache_key", "mine"),)}
    with client_of(server, store, **own) as client:
        list(client.ask([(0, replace(asked, messages=(("user", "when?"),)))]))
    assert server.bodies[3]["prompt_cache_key"] == "mine"


def test_a_server_that_does_not_know_the_cache_key_is_told_apart(server: Server, store: Path) -> None:
    server.always = error(400, message="Unrecognized request argument supplied: prompt_cache_key")
    with (
        client_of(server, store, capabilities=frozenset({"prompt_cache_key"})) as client,
        pytest.raises(EndpointError, match='take "prompt_cache_key" out of its capabilities'),
    ):
        list(client.ask([(0, replace(request("why?"), prompt="ab" * 32))]))
