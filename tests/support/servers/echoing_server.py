"""A model server that repeats the API key in every field and header of its replies, each time in other forms."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from endpoint_server import Handler, Server, Verdict
from key_forms import FORMS

FIELDS = ("id", "object", "model", "system_fingerprint", "service_tier", "provider")
HEADERS = ("x-request-id", "set-cookie", "retry-after", "retry-after-ms", "x-ratelimit-limit-requests", "server",
           "x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests", "openai-organization", "etag")  # fmt: skip


class EchoingHandler(Handler):
    server: EchoingServer

    def send_response(self, code: int, message: str | None = None) -> None:
        super().send_response(code, self.server.reason())


class EchoingServer(Server):
    """Answers by the offline model's rules; every seventh request is refused. `planted`: (place, form) of all that was
    sent so far.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        self.RequestHandlerClass = EchoingHandler
        self.key, self.planted = key, set[tuple[str, str]]()
        self._forms = itertools.cycle(FORMS)
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()

    def answer(self, raw: bytes) -> Verdict:
        with self._guard:
            number = next(self._numbers)
            headers = {name: _one_line(self._plant(name)) for name in HEADERS}
            if number % 7 == 0:
                error = {"message": self._plant("message"), "code": None, "type": self._plant("type")}
                status = (400, 429, 500)[number // 7 % 3]
                quick = {"retry-after": "0.01", "retry-after-ms": "10"}
                return status, headers | quick, json.dumps({"error": error}).encode()
            status, _, body = super().answer(raw)
            return status, headers, json.dumps(self._filled(json.loads(body))).encode()

    def reason(self) -> str:
        """The words of a status line, which repeat the key."""
        with self._guard:
            return _one_line(self._plant("reason"))

    def _filled(self, document: dict[str, Any]) -> dict[str, Any]:
        """The reply with a form of the key in each of its fields, and in the middle of its text."""
        choice = document["choices"][0]
        message = choice["message"]
        begin, blank, end = message["content"].partition(" ")
        message["content"] = f"{begin} {self._plant('content')}{blank}{end}"
        message["reasoning_content"] = self._plant("reasoning")
        message["tool_calls"] = [{"id": self._plant("call"), "function": {"arguments": self._plant("arguments")}}]
        tokens = [self.key[at : at + 3] for at in range(0, len(self.key), 3)]
        choice["logprobs"] = {"content": [{"token": each, "bytes": list(each.encode())} for each in tokens]}
        self.planted.add(("logprobs", "tokens"))
        document |= {name: self._plant(name) for name in FIELDS}
        document["usage"][self._plant("name")] = {"note": [self._plant("nested")]}
        return document

    def _plant(self, place: str) -> str:
        form = next(self._forms)
        self.planted.add((place, form))
        return FORMS[form](self.key)


def _one_line(text: str) -> str:
    """The text as a header may have it."""
    return text.replace("\r\n", " ").replace("\n", " ").encode("latin-1", "ignore").decode("latin-1")


@contextmanager
def echoing(key: str) -> Iterator[EchoingServer]:
    server = EchoingServer(key)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
