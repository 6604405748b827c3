"""A model server for tests that answers by the offline model's rules and counts requests."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from offline_rules import respond

from flows.axioms import PROMPTS
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Request
from tasks.axioms.judging.requests import JUDGE_PROMPTS

NAMES = ("open_book", "closed_book", "corrupt", "combine", "judge_negative", "irrelevant_book", *JUDGE_PROMPTS)


Verdict = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Counts every request by its body; `fails` decides which requests are refused, and how; `names` are the fields
    by which a reply says what served it.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: Counter[bytes] = Counter()
        self.fails: Callable[[dict[str, Any]], Verdict | None] = lambda body: None
        self.names: Callable[[dict[str, Any]], dict[str, str]] = lambda body: {"model": "stand-in-1"}
        self.tasks = {load_prompt(f"axioms/{name}", PROMPTS).system.strip(): f"axioms/{name}" for name in NAMES}

    def answer(self, raw: bytes) -> Verdict:
        self.bodies[raw] += 1
        body = json.loads(raw)
        failure = self.fails(body)
        if failure:
            return failure
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        text, finish, sent, made = respond(Request(messages, task=self.tasks[messages[0][1].strip()]))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        usage = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
        return 200, {}, json.dumps({**self.names(body), "choices": [choice], "usage": usage}).encode()


def says(text: str) -> Callable[[dict[str, Any]], Verdict]:
    """For `fails`: every request gets this text as its reply."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
    verdict = 200, {}, json.dumps({"model": "stand-in-1", "choices": [choice], "usage": usage}).encode()
    return lambda body: verdict


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        status, headers, body = self.server.answer(raw)
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
