"""The stand-in: the offline model behind a real OpenAI-compatible server, which fails as it is told to and counts.

    with serve(faults={"429": 0.05, "reset": 0.01}, rpm=600) as server:
        ...                          # base_url = server.url
        server.counters()["repeated"]

It serves completions, embeddings, models, files and batches under /v1, what it counted under /standin/counters. It is
what a build is rehearsed against before money is spent: docs/standin.md.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import json
import math
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from longform.errors import UsageError
from longform.llm.offline import MODEL, Rules
from longform.standin.batches import MOST_FILE_BYTES, Batches, Line, form_fields
from longform.standin.faults import (
    LOST,
    REFUSING,
    SAYS_NOTHING,
    SPOKEN,
    UNREADABLE,
    Fault,
    Faults,
    damaged,
    error_reply,
    unreadable,
)
from longform.standin.http import (
    HEAD_BYTES,
    JSON_BYTES,
    Asked,
    Refused,
    Reply,
    as_json,
    converse,
    error_document,
    refusal,
)
from longform.standin.limits import Limits
from longform.standin.replies import Question, Said, Texts, complete, embed, read_question, read_texts

CHAT, EMBEDDINGS, FILES = "/v1/chat/completions", "/v1/embeddings", "/v1/files"
ASKS_MODEL = frozenset((f"POST {CHAT}", f"POST {EMBEDDINGS}"))
FORM_BYTES = 64 << 10
UNUSABLE = LOST | UNREADABLE | SAYS_NOTHING
BACKLOG = 1024
PARTS_WITH_NAMES = ("files", "batches", "models")
CAPABILITIES = '["json_schema", "n", "logprobs", "batch"]'

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the stand-in behaves. `faults` and `batch_faults` are shares by name; `script` its lines, first to last.

    `burst` is how many requests may come at once under `rpm` (else a minute's). `model` is the only one served, else
    any is; `key` the only one accepted, else any is. `say` is said to every question instead of the offline model's
    reply, for measuring clients. `rules` are the offline model's.
    """

    latency_seconds: float = 0.0
    rpm: float | None = None
    tpm: float | None = None
    burst: float | None = None
    headers: bool = True
    faults: Mapping[str, float] = field(default_factory=dict)
    script: Iterable[Mapping[str, Any]] = ()
    model: str | None = None
    key: str | None = None
    seed: int = 0
    batch_seconds: float = 1.0
    batch_faults: Mapping[str, float] = field(default_factory=dict)
    say: str | None = None
    rules: Rules = field(default_factory=dict)


class Counts:
    """What happened so far. Requests are told apart by the sha256 of their JSON with sorted fields."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.batch_lines: Counter[str] = Counter()
        self.tokens = {"prompt": 0, "completion": 0}
        self.repeated: dict[str, int] = {}
        self.in_flight_highest = self.best_second = 0
        self._answers: Counter[bytes] = Counter()
        self._second, self._now, self._last = 0, 0, 0

    def arrive(self, name: str, in_flight: int) -> None:
        self.requests[name] += 1
        self.in_flight_highest = max(self.in_flight_highest, in_flight)
        if name in ASKS_MODEL:
            self._tick()
            self._now += 1
            self.best_second = max(self.best_second, self._now)

    def bill(self, said: Said) -> None:
        self.tokens["prompt"] += said.prompt_tokens
        self.tokens["completion"] += said.completion_tokens

    def answer(self, digest: bytes) -> None:
        """A usable answer to this request went out."""
        self._answers[digest] += 1
        if self._answers[digest] > 1:
            self.repeated[digest.hex()] = self._answers[digest]

    def document(self, in_flight: int, jobs: Counter[str]) -> dict[str, Any]:
        self._tick()
        return {
            "requests": dict(self.requests),
            "outcomes": dict(self.outcomes),
            "batch_lines": dict(self.batch_lines),
            "answered_bodies": len(self._answers),
            "repeated": self.repeated.copy(),
            "in_flight": in_flight,
            "in_flight_highest": self.in_flight_highest,
            "tokens": self.tokens.copy(),
            "last_second": self._last,
            "best_second": self.best_second,
            "jobs": dict(jobs),
        }

    def _tick(self) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._last = self._now if second == self._second + 1 else 0
            self._second, self._now = second, 0


class Standin:
    """Answers requests. To be used in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = Limits(settings.rpm, settings.tpm, settings.burst, time.monotonic)
        self.faults = Faults(settings.faults, settings.batch_faults, settings.seed)
        self.faults.add_script(settings.script)
        self.batches = Batches(settings.batch_seconds, self._batch_line, self.faults.draw_batch)
        self._counts, self._in_flight = Counts(), 0
        self._others = self._routes()

    def counters(self) -> dict[str, Any]:
        return self._counts.document(self._in_flight, self.batches.created)

    def reset(self) -> None:
        """All counters to zero; files and batches stay."""
        self._counts = Counts()
        self.batches.created.clear()

    async def handle(self, asked: Asked) -> Reply:
        name, identifier = _route(asked)
        if name not in ASKS_MODEL and name not in self._others:
            raise self._unknown(asked, name)
        if name.partition(" ")[2].startswith("/standin/"):
            await asked.read()
            return self._others[name](identifier, asked, b"")
        self._in_flight += 1
        self._counts.arrive(name, self._in_flight)
        try:
            return await self._served(asked, name, identifier)
        except Refused as refused:
            if name in ASKS_MODEL:
                self._counts.outcomes["refused" if refused.reply.status == 401 else "invalid"] += 1
            raise
        finally:
            self._in_flight -= 1

    async def _served(self, asked: Asked, name: str, identifier: str) -> Reply:
        fault = self.faults.draw(name, asks_model=name in ASKS_MODEL)
        if fault and fault.name == "reset-early":
            self._counts.outcomes[fault.name] += 1
            return Reply(0, way="reset")
        uploads = name == f"POST {FILES}"
        body = await asked.read(MOST_FILE_BYTES + FORM_BYTES if uploads else JSON_BYTES)
        self._check_key(asked)
        if name in ASKS_MODEL:
            reply = await self._modelled(asked, name.removeprefix("POST "), body, fault)
        else:
            reply = self._managed(asked, name, identifier, body, fault)
            await asyncio.sleep(_before(reply))
        reply.headers["x-request-id"] = f"req_{random.getrandbits(96):024x}"
        return reply

    def _managed(self, asked: Asked, name: str, identifier: str, body: bytes, fault: Fault | None) -> Reply:
        """Files, batches, models."""
        if fault:
            self._counts.outcomes[fault.name] += 1
            if fault.name in REFUSING:
                return error_reply(fault, asked.headers.get("authorization", ""))
        reply = self._others[name](identifier, asked, body)
        return damaged(fault, reply, 0.0) if fault else reply

    async def _modelled(self, asked: Asked, url: str, body: bytes, fault: Fault | None) -> Reply:
        """Completions and embeddings."""
        started = time.monotonic()
        question, digest = self._read(url, _json(body))
        short = self._limits.admit(question.tokens_admitted)
        if short:
            self._counts.outcomes["limited"] += 1
            reply = _limited(*short)
        else:
            reply = self._answered(question, digest, fault, asked.headers.get("authorization", ""))
            latency = max(self._settings.latency_seconds, _before(reply))
            await asyncio.sleep(max(0.0, started + latency - time.monotonic()))
        if self._settings.headers:
            reply.headers |= self._limits.headers()
        return reply

    def _answered(self, question: Question | Texts, digest: bytes, fault: Fault | None, authorization: str) -> Reply:
        name = _named(fault, question)
        if fault and name in REFUSING:
            reply = error_reply(fault, authorization)
        else:
            reply = as_json(self._said(question, digest, name).document)
        self._counts.outcomes[name or "answered"] += 1
        return damaged(fault, reply, self._settings.latency_seconds) if fault else reply

    def _said(self, question: Question | Texts, digest: bytes, fault: str | None) -> Said:
        if isinstance(question, Texts):
            said = embed(question)
        else:
            said = complete(question, self._settings.rules, fault, self._settings.say)
        self._counts.bill(said)
        if fault not in UNUSABLE:
            self._counts.answer(digest)
        return said

    def _batch_line(self, url: str, asked: dict[str, Any]) -> Line:
        """One request of a batch: under the same shares of faults, without limits and latency."""
        fault = self.faults.draw_line()
        try:
            question, digest = self._read(url, asked)
            name = _named(fault, question)
            if fault and name in REFUSING:
                self._counts.batch_lines[fault.name] += 1
                return _refused_line(error_reply(fault, ""))
            said = self._said(question, digest, name)
        except Refused as refused:
            self._counts.batch_lines["invalid"] += 1
            return _refused_line(refused.reply)
        self._counts.batch_lines[name or "answered"] += 1
        written = as_json(said.document).body
        if name in UNREADABLE:
            written = unreadable(name, written)
        return Line(200, None if name in LOST else written, said.prompt_tokens, said.completion_tokens)

    def _read(self, url: str, body: Any) -> tuple[Question | Texts, bytes]:
        digest = _digest(body)
        question = read_question(body, digest) if url == CHAT else read_texts(body)
        if self._settings.model not in (None, question.model):
            message = f"The model '{question.model[:100]}' does not exist; there is {self._settings.model}."
            raise refusal(404, message, "model", "model_not_found")
        return question, digest

    def _check_key(self, asked: Asked) -> None:
        if self._settings.key is None:
            return
        given = asked.headers.get("api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode("latin-1", "replace"), self._settings.key.encode()):
            raise refusal(401, "Incorrect API key provided.", None, "invalid_api_key")

    def _unknown(self, asked: Asked, name: str) -> Refused:
        path = name.partition(" ")[2]
        allowed = sorted(each.partition(" ")[0] for each in [*ASKS_MODEL, *self._others] if each.endswith(f" {path}"))
        if not allowed:
            return refusal(404, f"Unknown request URL: {asked.method[:20]} {asked.path[:200]}.", code="unknown_url")
        refused = refusal(405, f"Not allowed to {asked.method[:20]} on {path}.", code="method_not_supported")
        refused.reply.headers["allow"] = ", ".join(allowed)
        return refused

    def _routes(self) -> dict[str, Callable[[str, Asked, bytes], Reply]]:
        batches = self.batches
        return {
            "GET /v1/models": lambda name, asked, body: as_json({"object": "list", "data": [self._model()]}),
            "GET /v1/models/{id}": lambda name, asked, body: self._one_model(name),
            "POST /v1/files": lambda name, asked, body: batches.upload(
                form_fields(asked.headers.get("content-type", ""), body)
            ),
            "GET /v1/files": lambda name, asked, body: batches.files(asked.query),
            "GET /v1/files/{id}": lambda name, asked, body: batches.file(name),
            "DELETE /v1/files/{id}": lambda name, asked, body: batches.delete(name),
            "GET /v1/files/{id}/content": lambda name, asked, body: batches.content(name),
            "POST /v1/batches": lambda name, asked, body: batches.create(_json(body)),
            "GET /v1/batches": lambda name, asked, body: batches.batches(asked.query),
            "GET /v1/batches/{id}": lambda name, asked, body: batches.batch(name),
            "POST /v1/batches/{id}/cancel": lambda name, asked, body: batches.cancel(name),
            "GET /standin/counters": lambda name, asked, body: as_json(self.counters()),
            "POST /standin/reset": lambda name, asked, body: self._reset(),
        }

    def _reset(self) -> Reply:
        self.reset()
        return as_json(self.counters())

    def _model(self) -> dict[str, Any]:
        return {"id": self._settings.model or MODEL, "object": "model", "created": 0, "owned_by": "longform"}

    def _one_model(self, name: str) -> Reply:
        if name != self._model()["id"]:
            raise refusal(404, f"The model '{name[:100]}' does not exist.", "model", "model_not_found")
        return as_json(self._model())


def _route(asked: Asked) -> tuple[str, str]:
    """(method and path with {id} in it, the id)"""
    steps = asked.path.strip("/").split("/")
    identifier = ""
    if len(steps) > 2 and steps[0] == "v1" and steps[1] in PARTS_WITH_NAMES:
        identifier, steps[2] = steps[2], "{id}"
    return f"{asked.method} /{'/'.join(steps)}", identifier


def _digest(body: Any) -> bytes:
    try:
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    except RecursionError:
        raise refusal(400, "The body is nested too deeply.") from None


def _named(fault: Fault | None, question: Question | Texts) -> str | None:
    """What goes wrong with this question; embeddings know nothing of what a model says."""
    spoken = fault is not None and fault.name in SPOKEN and isinstance(question, Texts)
    return None if fault is None or spoken else fault.name


def _refused_line(reply: Reply) -> Line:
    html = reply.media == "text/html"
    return Line(reply.status, json.dumps(reply.body.decode()).encode() if html else reply.body)


def _before(reply: Reply) -> float:
    """How long a reply is held back before it is sent."""
    return reply.seconds if reply.way == "whole" else 0.0


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise refusal(400, "The body could not be read as JSON.") from None


def _limited(name: str, seconds: float) -> Reply:
    if math.isinf(seconds):
        message = f"Request too large: it needs more {name} than are allowed a minute."
    else:
        message = f"Rate limit reached for {name}. Please try again in {seconds:.3f}s."
    reply = as_json(error_document(message, name, None, "rate_limit_exceeded"), 429)
    if not math.isinf(seconds):
        reply.headers["retry-after"] = str(math.ceil(seconds))
        reply.headers["retry-after-ms"] = str(math.ceil(seconds * 1000))
    return reply


# running it


class Server:
    """A stand-in that runs in a thread of its own. `url` is what a configuration calls base_url: it ends in /v1."""

    def __init__(self, standin: Standin, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.url, self._standin, self._loop = url, standin, loop

    def counters(self) -> dict[str, Any]:
        """As GET /standin/counters gives them."""
        return self._do(self._standin.counters)

    def reset(self) -> None:
        self._do(self._standin.reset)

    def set_faults(self, shares: Mapping[str, float]) -> None:
        """From now on; {} for none. A script that is not used up still comes first."""
        self._do(lambda: self._standin.faults.set_shares(shares))

    def set_batch_faults(self, shares: Mapping[str, float]) -> None:
        """Of batches that are created from now on."""
        self._do(lambda: self._standin.faults.set_batch_shares(shares))

    def script(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """What happens to the next requests, behind what is scripted already."""
        self._do(lambda: self._standin.faults.add_script(lines))

    def _do(self, work: Callable[[], T]) -> T:
        async def done() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()


@contextmanager
def serve(*, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> Iterator[Server]:
    """A stand-in in this process, with the fields of Settings; port 0 takes a free one."""
    standin = Standin(Settings(**settings))
    ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        stop = asyncio.Event()
        try:
            async with _listening(standin, host, port) as url:
                ready.set_result((url, asyncio.get_running_loop(), stop))
                await stop.wait()
        except UsageError as error:
            ready.set_exception(error)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="standin", daemon=True)
    thread.start()
    try:
        url, loop, stop = ready.result()
        try:
            yield Server(standin, url, loop)
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join()


def run(settings: Settings, host: str, port: int) -> None:
    """Serve until the process is told to stop, and print how to use it. Raises UsageError where it cannot listen."""
    asyncio.run(_run(Standin(settings), settings, host, port))


async def _run(standin: Standin, settings: Settings, host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _listening(standin, host, port) as url:
        print(told(settings, url), flush=True)
        await stop.wait()


def told(settings: Settings, url: str) -> str:
    """Where it listens, and the lines of a configuration that ask it."""
    lines = [
        f"Listening on {url} (Ctrl-C stops; counters: {url.removesuffix('/v1')}/standin/counters).",
        'For a configuration, with model = "standin" on top:',
        "",
        "[endpoints.standin]",
        f'base_url = "{url}"',
        f'model = "{settings.model or MODEL}"',
        *(['key_env = "STANDIN_KEY"'] if settings.key is not None else []),
        f"capabilities = {CAPABILITIES}",
        "price = {input = 0.0, output = 0.0}",
    ]
    return "\n".join(lines)


@asynccontextmanager
async def _listening(standin: Standin, host: str, port: int) -> AsyncIterator[str]:
    """The server's URL, while it listens; at the end every connection is closed and every task over."""
    conversations: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        task.add_done_callback(conversations.discard)
        try:
            await converse(reader, writer, standin.handle)
        except asyncio.CancelledError:  # the server stops; Python 3.11 would log it as an error
            writer.transport.abort()

    try:
        server = await asyncio.start_server(connected, host, port, limit=HEAD_BYTES, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise UsageError(_cannot_listen(host, port, error)) from None
    try:
        taken = server.sockets[0].getsockname()[1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{taken}/v1"
    finally:
        server.close()
        await standin.batches.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        await server.wait_closed()


def _cannot_listen(host: str, port: int, error: OSError | OverflowError) -> str:
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken by another program: choose another one with --port."
    why = getattr(error, "strerror", None) or str(error)
    return f"The stand-in cannot listen on port {port} of {host} ({why}): choose others with --host and --port."
