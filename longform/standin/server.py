"""The stand-in: an OpenAI-compatible HTTP server that answers by the offline model's rules, simulates faults and rate
limits, and counts requests.

    with serve(faults={"429": 0.05, "reset": 0.01}, rpm=600) as server:
        ...                          # base_url = server.url
        server.counters()["repeated"]

It serves completions, also as the Responses API, embeddings, models, files and batches under /v1, and its counters
under /standin/counters. Builds are rehearsed with it before they are run with a paid model: docs/standin.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from longform.llm.offline import MODEL, Rules
from longform.standin.batches import MAX_FILE_BYTES, Batches, Line
from longform.standin.faults import (
    EMPTY_REPLIES,
    LOST,
    REFUSALS,
    REPLY_FAULTS,
    UNREADABLE,
    Fault,
    Faults,
    error_reply,
    reset,
    slow_seconds,
    unreadable,
    with_fault,
)
from longform.standin.limits import Limits
from longform.standin.listening import Running, listening, until_stopped
from longform.standin.questions import (
    CHAT,
    EMBEDDINGS,
    RESPONSES,
    ErrorReply,
    Question,
    ResponsesQuestion,
    Texts,
    as_json,
    checked,
    error_document,
    refusal,
)
from longform.standin.replies import as_response, complete, embed

UPLOAD = "POST /v1/files"
ASKS_MODEL: dict[str, type[Question] | type[Texts]] = {
    f"POST {CHAT}": Question,
    f"POST {EMBEDDINGS}": Texts,
    f"POST {RESPONSES}": ResponsesQuestion,
}
JSON_BYTES = 32 << 20
UPLOAD_FRAME_BYTES = 64 << 10  # of a multipart form, beside the file
UNUSABLE = LOST | UNREADABLE | EMPTY_REPLIES
REFUSED_OUTCOMES = {401: "refused", 429: "limited"}
HTTP_CODES = {404: "unknown_url", 405: "method_not_supported"}
CAPABILITIES = '["json_schema", "n", "logprobs", "batch"]'

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the stand-in. `faults` and `batch_faults` map names to shares; `script` holds lines as described in
    longform/standin/faults.py.

    `rpm`, `tpm`: requests and tokens a minute, None: unlimited. `burst` is how many requests may come at once under
    `rpm`, by default `rpm`. `headers`: whether replies have rate limit headers. With `model` only this model is
    served, with `key` only this API key accepted; None: any. `seed` is for the draw of faults. `batch_seconds`: how
    long a batch takes. `say` is the reply to every question in place of the offline model's, for measuring clients.
    `rules` are the offline model's.
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
    """The counters of a stand-in since its start or last reset.

    `requests` are counted by route. `outcomes` count completion and embedding requests by the fault's name,
    `answered`, `limited`, `refused` or `invalid`, and other requests only if they get a fault; `batch_lines` the
    requests in batches in the same way. `answers` counts usable answers by request: the key is the sha256 of the
    request's JSON with sorted fields.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.batch_lines: Counter[str] = Counter()
        self.tokens = Counter(prompt=0, completion=0)
        self.answers: Counter[bytes] = Counter()
        self._in_flight_highest = 0
        self._seconds: Counter[int] = Counter()

    def arrive(self, name: str, in_flight: int) -> None:
        """Count a request; `name` is its route, such as "POST /v1/files", `in_flight` the requests in progress with
        this one.
        """
        self.requests[name] += 1
        self._in_flight_highest = max(self._in_flight_highest, in_flight)
        if name in ASKS_MODEL:
            self._seconds[int(time.monotonic())] += 1

    def document(self, in_flight: int, jobs: Counter[str]) -> dict[str, Any]:
        """The counters as GET /standin/counters returns them. `in_flight`: requests in progress now; `jobs`: batches
        created by job name. In the document, `repeated` are the requests that were answered more than once, by sha256;
        `last_second` and `best_second` count completion and embedding requests in one second.
        """
        return {
            "requests": dict(self.requests),
            "outcomes": dict(self.outcomes),
            "batch_lines": dict(self.batch_lines),
            "answered_bodies": len(self.answers),
            "repeated": {digest.hex(): number for digest, number in self.answers.items() if number > 1},
            "in_flight": in_flight,
            "in_flight_highest": self._in_flight_highest,
            "tokens": dict(self.tokens),
            "last_second": self._seconds[int(time.monotonic()) - 1],
            "best_second": max(self._seconds.values(), default=0),
            "jobs": dict(jobs),
        }


class Standin:
    """The application of the stand-in server with its state. Not thread-safe: it is used in one event loop. UsageError
    for settings with unknown faults, ill-formed shares or an ill-formed script.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = Limits(settings.rpm, settings.tpm, settings.burst, time.monotonic)
        self.faults = Faults(settings.faults, settings.batch_faults, settings.seed)
        self.faults.add_script(settings.script)
        self.batches = Batches(settings.batch_seconds, self._batch_line, self.faults.draw_batch)
        self._counts, self._in_flight = Counts(), 0
        self._others = self._file_routes()

    def counters(self) -> dict[str, Any]:
        """The counters, as GET /standin/counters returns them."""
        return self._counts.document(self._in_flight, self.batches.created)

    def reset(self) -> None:
        """Set all counters to zero; files and batches are kept."""
        self._counts = Counts()
        self.batches.created.clear()

    def application(self) -> web.Application:
        """The aiohttp application with all routes of the server."""
        app = web.Application(client_max_size=JSON_BYTES, middlewares=[_errors_as_json])
        app.router.add_get("/standin/counters", self._show_counters)
        app.router.add_post("/standin/reset", self._reset_counters)
        for name in [*ASKS_MODEL, *self._others]:
            (method, path), handler = name.split(" "), self._counted(name)
            app.router.add_route(method, path, handler)
            app.router.add_route(method, f"{path}/", handler)
        return app

    async def _show_counters(self, request: web.Request) -> web.StreamResponse:
        """The response to GET /standin/counters."""
        return as_json(self.counters())

    async def _reset_counters(self, request: web.Request) -> web.StreamResponse:
        """The response to POST /standin/reset: the counters after the reset."""
        self.reset()
        return await self._show_counters(request)

    def _file_routes(self) -> dict[str, Callable[[web.Request, Any], web.Response]]:
        """The routes for files, batches and models: "METHOD path" -> function of (request, body) that returns the
        response.

        The body is bytes; that of an upload is (file name, content, purpose).
        """
        batches = self.batches
        return {
            "GET /v1/models": lambda request, body: as_json({"object": "list", "data": [self._model()]}),
            "GET /v1/models/{id}": lambda request, body: self._one_model(request.match_info["id"]),
            UPLOAD: lambda request, form: batches.upload(*form),
            "GET /v1/files": lambda request, body: batches.files(request.query),
            "GET /v1/files/{id}": lambda request, body: batches.file(request.match_info["id"]),
            "DELETE /v1/files/{id}": lambda request, body: batches.delete(request.match_info["id"]),
            "GET /v1/files/{id}/content": lambda request, body: batches.content(request.match_info["id"]),
            "POST /v1/batches": lambda request, body: batches.create(
                _json(body), request.headers.get("Idempotency-Key")
            ),
            "GET /v1/batches": lambda request, body: batches.batches(request.query),
            "GET /v1/batches/{id}": lambda request, body: batches.batch(request.match_info["id"]),
            "POST /v1/batches/{id}/cancel": lambda request, body: batches.cancel(request.match_info["id"]),
        }

    def _counted(self, name: str) -> Handler:
        """A handler for the route `name` ("METHOD path"), which counts its requests and, of completion and embedding
        requests, those refused with an error.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            self._in_flight += 1
            self._counts.arrive(name, self._in_flight)
            try:
                return await self._respond(name, request)
            except ErrorReply as refused:
                if name in ASKS_MODEL:
                    self._counts.outcomes[REFUSED_OUTCOMES.get(refused.reply.status, "invalid")] += 1
                raise
            finally:
                self._in_flight -= 1

        return handle

    async def _respond(self, name: str, request: web.Request) -> web.StreamResponse:
        """The response to a request on the route `name`, under the fault drawn for it. ErrorReply for a body that
        cannot be read, a wrong key, or any other request that is refused.
        """
        fault = self.faults.draw(name, asks_model=name in ASKS_MODEL)
        if fault and fault.name == "reset-early":
            self._counts.outcomes[fault.name] += 1
            return reset(request)
        body = await _read(request, is_upload=name == UPLOAD)
        self._check_key(request)
        if name in ASKS_MODEL:
            reply = await self._ask(ASKS_MODEL[name], _json(body), fault, request)
        else:
            reply = await self._respond_files(name, request, body, fault)
        reply.headers["x-request-id"] = f"req_{random.getrandbits(96):024x}"
        return with_fault(fault, request, reply)

    async def _respond_files(self, name: str, request: web.Request, body: Any, fault: Fault | None) -> web.Response:
        """The response to a request for files, batches or models, under this fault. `body` as in `_file_routes`.
        ErrorReply for an unknown id or an invalid request.
        """
        if fault:
            self._counts.outcomes[fault.name] += 1
            if fault.name in REFUSALS:
                await asyncio.sleep(slow_seconds(fault, 0.0))
                return error_reply(fault, request.headers.get("Authorization", ""))
        reply = self._others[name](request, body)
        await asyncio.sleep(slow_seconds(fault, 0.0) if fault else 0.0)  # what is slow was done before its answer
        return reply

    async def _ask(
        self, kind: type[Question] | type[Texts], body: Any, fault: Fault | None, request: web.Request
    ) -> web.Response:
        """The response to a completion or embedding request, under this fault, after the configured latency.
        ErrorReply (429) if a rate limit is used up, (400) for an invalid body, (404) for another model than the one
        served.
        """
        started = time.monotonic()
        question, digest = self._read_question(kind, body)
        short = self._limits.admit(question.tokens_admitted)
        if short:
            raise ErrorReply(self._with_limits(_limited(*short)))
        name, reply, _ = self._answer(question, digest, fault, request.headers.get("Authorization", ""))
        self._counts.outcomes[name] += 1
        latency = max(self._settings.latency_seconds, slow_seconds(fault, self._settings.latency_seconds))
        await asyncio.sleep(max(0.0, started + latency - time.monotonic()))
        return self._with_limits(reply)

    def _with_limits(self, reply: web.Response) -> web.Response:
        """The reply, to which rate limit headers are added unless the setting `headers` is off."""
        if self._settings.headers:
            reply.headers.update(self._limits.headers())
        return reply

    def _answer(
        self, question: Question | Texts, digest: bytes, fault: Fault | None, authorization: str
    ) -> tuple[str, web.Response, Mapping[str, Any]]:
        """(name of the fault or `answered`, response, token usage: {} for an error); counts tokens and usable answers.
        Only faults that change the answer's content or status apply here: REFUSALS, and for completions REPLY_FAULTS
        (embeddings are `answered` under these).
        `authorization` is the request's Authorization header. ErrorReply (400) for a JSON schema that cannot be read.
        """
        name = fault.name if fault else None
        if name in REPLY_FAULTS and isinstance(question, Texts):
            name = None
        if fault and name in REFUSALS:
            return fault.name, error_reply(fault, authorization), {}
        if isinstance(question, Texts):
            document = embed(question)
        else:
            document = complete(question, digest, self._settings.rules, name, self._settings.say)
        usage = document["usage"]
        self._counts.tokens.update(prompt=usage["prompt_tokens"], completion=usage.get("completion_tokens", 0))
        if name not in UNUSABLE:
            self._counts.answers[digest] += 1
        if isinstance(question, ResponsesQuestion):
            document = as_response(document)
        return name or "answered", as_json(document), usage

    def _batch_line(self, url: str, body: dict[str, Any]) -> Line:
        """The answer to one request of a batch, `url` such as "/v1/embeddings". Faults are drawn by the shares in
        `Settings.faults`, as for single requests, without the script; rate limits, latency and key do not apply. An
        invalid request is an answer with an error status.
        """
        fault = self.faults.draw_line()
        try:
            question, digest = self._read_question(ASKS_MODEL[f"POST {url}"], body)
            name, reply, usage = self._answer(question, digest, fault, "")
        except ErrorReply as refused:
            name, reply, usage = "invalid", refused.reply, {}
        self._counts.batch_lines[name] += 1
        text: Any = unreadable(name, reply.body) if name in UNREADABLE else reply.body
        if reply.content_type == "text/html":
            text = json.dumps(text.decode()).encode()
        return Line(reply.status, None if name in LOST else text, usage)

    def _read_question(self, kind: type[Question] | type[Texts], body: Any) -> tuple[Question | Texts, bytes]:
        """(validated request, sha256 of its JSON with sorted fields). ErrorReply (400) for an invalid body, (404) for
        another model than the one served.
        """
        digest, question = _digest(body), checked(kind, body)
        if self._settings.model not in (None, question.model):
            message = f"The model '{question.model[:100]}' does not exist; there is {self._settings.model}."
            raise refusal(404, message, "model", "model_not_found")
        return question, digest

    def _check_key(self, request: web.Request) -> None:
        """ErrorReply (401) if the setting `key` is given and the request has another API key, in Api-Key or
        Authorization.
        """
        key = request.headers.get("Api-Key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        accepted = key if self._settings.key is None else self._settings.key
        if not hmac.compare_digest(key.encode("utf-8", "surrogateescape"), accepted.encode("utf-8", "surrogateescape")):
            raise refusal(401, "Incorrect API key provided.", None, "invalid_api_key")

    def _model(self) -> dict[str, Any]:
        """OpenAI's model object of the model that is served."""
        return {"id": self._settings.model or MODEL, "object": "model", "created": 0, "owned_by": "longform"}

    def _one_model(self, name: str) -> web.Response:
        """The model object of the model with this name. ErrorReply (404) if it is not the one served."""
        if name != self._model()["id"]:
            raise refusal(404, f"The model '{name[:100]}' does not exist.", "model", "model_not_found")
        return as_json(self._model())


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The handler's response; errors in OpenAI's shape, also those that aiohttp raises for an unknown URL or method."""
    try:
        return await handler(request)
    except ErrorReply as refused:
        return refused.reply
    except web.HTTPException as error:
        message = f"{error.reason}: {request.method[:20]} {request.path[:200]}."
        reply = as_json(error_document(message, code=HTTP_CODES.get(error.status)), error.status)
        if "Allow" in error.headers:
            reply.headers["Allow"] = error.headers["Allow"]
        return reply


async def _read(request: web.Request, *, is_upload: bool) -> Any:
    """The body as bytes, or for an upload (file name, content, purpose). ErrorReply (400) if it cannot be read or an
    upload has no file, (413) if it is larger than JSON_BYTES, an upload than MAX_FILE_BYTES and UPLOAD_FRAME_BYTES.
    """
    limit = MAX_FILE_BYTES + UPLOAD_FRAME_BYTES if is_upload else JSON_BYTES
    try:
        if (request.content_length or 0) > limit:
            raise web.HTTPRequestEntityTooLarge(limit)
        return await (_form(request.clone(client_max_size=limit)) if is_upload else request.read())
    except web.HTTPRequestEntityTooLarge:
        raise refusal(413, f"The body is larger than {limit >> 20} MB.", code="request_too_large") from None
    except (web.RequestPayloadError, ValueError):
        raise refusal(400, "The body could not be read.") from None


async def _form(request: web.BaseRequest) -> tuple[str, bytes, str]:
    """(file name, content, purpose) of an uploaded multipart form; purpose is "" if there is none. ErrorReply (400) if
    it has no file.
    """
    form = await request.post()
    file = form.get("file")
    if not isinstance(file, web.FileField):
        raise refusal(400, "'file' is a required property of a multipart form.", "file")
    with file.file as opened:
        return file.filename, opened.read(), str(form.get("purpose", ""))


def _digest(body: Any) -> bytes:
    """The sha256 of a JSON document with sorted fields. ErrorReply (400) if it is nested too deeply."""
    try:
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    except RecursionError:
        raise refusal(400, "The body is nested too deeply.") from None


def _json(body: bytes) -> Any:
    """The body parsed as JSON. ErrorReply (400) if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise refusal(400, "The body could not be read as JSON.") from None


def _limited(name: str, seconds: float) -> web.Response:
    """The 429 response for a used-up limit of `name` (requests or tokens), with the seconds to wait; infinite: the
    response says that the request is too large.
    """
    if math.isinf(seconds):
        message = f"Request too large: it needs more {name} than are allowed a minute."
        return as_json(error_document(message, name, None, "rate_limit_exceeded"), 429)
    message = f"Rate limit reached for {name}. Please try again in {seconds:.3f}s."
    reply = as_json(error_document(message, name, None, "rate_limit_exceeded"), 429)
    reply.headers.update({"retry-after": f"{math.ceil(seconds)}", "retry-after-ms": f"{math.ceil(seconds * 1000)}"})
    return reply


# running it


class Server(Running):
    """A running stand-in in a thread of its own. `url` ends in /v1 and is the base_url for clients. `reset` keeps files
    and batches; lines left in a script apply before shares.
    """

    def set_batch_faults(self, shares: Mapping[str, float]) -> None:
        """Set the shares of batches, of those created from now on, that end as expired, failed or cancelled.
        UsageError as in `set_faults`.
        """
        self._portal.call(self._standin.faults.set_batch_shares, shares)


@contextmanager
def serve(*, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> Iterator[Server]:
    """Run a stand-in in a thread of this process for the `with` block, which gets the Server. `settings` are the
    fields of Settings; port 0 chooses a free port. UsageError if it cannot listen or a setting does not fit.
    """
    standin = Standin(Settings(**settings))
    with (
        start_blocking_portal(name="standin") as portal,
        portal.wrap_async_context_manager(_listening(standin, host, port)) as url,
    ):
        yield Server(standin, url, portal)


def run(settings: Settings, host: str, port: int) -> None:
    """Serve until the process gets SIGINT or SIGTERM; prints the URL and an endpoint for a configuration file.
    UsageError if it cannot listen or a setting does not fit.
    """
    asyncio.run(_run(Standin(settings), settings, host, port))


async def _run(standin: Standin, settings: Settings, host: str, port: int) -> None:
    """Print the URL and an endpoint for a configuration file, and serve until the process gets SIGINT or SIGTERM."""
    async with _listening(standin, host, port) as url:
        print(usage_lines(settings, url), flush=True)
        await until_stopped()


def usage_lines(settings: Settings, url: str) -> str:
    """The text to print at the start: the URL, and an endpoint for a configuration file."""
    return "\n".join(
        [
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
    )


@asynccontextmanager
async def _listening(standin: Standin, host: str, port: int) -> AsyncIterator[str]:
    """Yield the server's URL (which ends in /v1) while it listens; afterwards cancel all batches and close all
    connections. UsageError if it cannot listen.
    """
    async with listening(standin.application(), host, port) as url:
        try:
            yield f"{url}/v1"
        finally:
            await standin.batches.close()
