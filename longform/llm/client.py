"""Ask a model many things: in order, a bounded number at a time, and never pay for an answer twice.

    with Client(endpoint, home / "llm" / "responses.sqlite", api_key=key) as client:
        for row, answer in client.ask((row, request_for(row)) for row in rows):
            ...

Here is the only retry loop. A request that fails for a passing reason is sent again up to six times; one that can
never be answered becomes a Failure and is remembered; a refused key, an empty account or an unknown model stops
everything. Before an error is raised, what is in flight is waited for and stored.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from longform.errors import EndpointError, Incomplete, LongformError, UsageError
from longform.llm import offline
from longform.llm.completion import Completion, read_completion, read_embeddings, read_json
from longform.llm.faults import Fault, fault_of, scrub, without
from longform.llm.keys import request_key
from longform.llm.store import TOMBSTONE, Record, Responses, open_responses
from longform.llm.types import Answer, Endpoint, Failure, Request
from longform.llm.wire import Outcome, Wire

if TYPE_CHECKING:
    import httpx2

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"
RETRIES = 6
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_RETRY_AFTER_SECONDS = 900.0
TEXTS_PER_CALL = 64
UNSURE_AT_FIRST = 3
TOLD = (
    "finish",
    "served_model",
    "fingerprint",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
)

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Halt:
    """Shared by the requests of one call: once it holds an error nothing more is sent."""

    error: LongformError | None = None

    def stop(self, error: LongformError) -> LongformError:
        self.error = self.error or error
        return self.error


class Client:
    """`transport` takes the place of the network; `first_pause_seconds` is before the first retry, at most."""

    def __init__(
        self,
        endpoint: Endpoint,
        store_path: Path,
        *,
        api_key: str | None,
        transport: httpx2.AsyncBaseTransport | None = None,
        first_pause_seconds: float = 1.0,
    ) -> None:
        self.endpoint = endpoint
        self._store_path, self._api_key, self._transport = store_path, api_key, transport
        self._first_pause_seconds = first_pause_seconds
        self._lock = RLock()
        self._flying: dict[str, Future[Answer | Failure]] = {}
        self._store: Responses | None = None
        self._wire: Wire | None = None
        self._answered = False
        self._unsure = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        wire, self._wire = self._wire, None
        store, self._store = self._store, None
        if wire:
            wire.close()
        if store:
            store.close()

    def ask(self, items: Iterable[tuple[T, Request]]) -> Iterator[tuple[T, Answer | Failure]]:
        """Each item with its answer, in the order of the items, of which it reads 2 x concurrency ahead.

        Raises EndpointError where the endpoint refuses to work at all, Incomplete where a request got no answer for
        a passing reason: what came in until then is stored.
        """
        if self.endpoint.offline:
            return ((item, self._offline(request)) for item, request in items)
        halt = _Halt()
        return self._in_order(((item, self._begin(request, halt)) for item, request in items), halt)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in the order of the texts; stored by text, asked for 64 texts a call."""
        if self.endpoint.offline:
            raise UsageError(f"The endpoint {self.endpoint.name} has no embeddings: set one with a base_url for them.")
        keys = [request_key(self.endpoint.name, EMBEDDINGS, self._embedding_body(text)) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        vectors = {key: vector for key in wanted if (vector := self._stored_vector(key)) is not None}
        missing = [(key, text) for key, text in wanted.items() if key not in vectors]
        halt = _Halt()
        calls = (missing[at : at + TEXTS_PER_CALL] for at in range(0, len(missing), TEXTS_PER_CALL))
        started = ((call, self._connected().submit(self._embed(call, halt))) for call in calls)
        for call, found in self._in_order(started, halt):
            vectors |= {key: vector for (key, _), vector in zip(call, found, strict=True)}
        return [vectors[key] for key in keys]

    # one request

    def _offline(self, request: Request) -> Answer | Failure:
        key = request_key(self.endpoint.name, CHAT, self._body(request))
        text, finish, input_tokens, output_tokens = offline.respond(request)
        if finish == "length":
            return _too_long(key, text, request.max_tokens)
        return Answer(text, key, offline.MODEL, finish, input_tokens, output_tokens)

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self.endpoint.model,
            "messages": [{"role": role, "content": content} for role, content in request.messages],
            self.endpoint.limit_field: request.max_tokens,
            **dict(self.endpoint.parameters),
        }

    def _embedding_body(self, texts: str | list[str]) -> dict[str, Any]:
        return {"model": self.endpoint.model, "input": texts, **dict(self.endpoint.parameters)}

    def _begin(self, request: Request, halt: _Halt) -> Future[Answer | Failure]:
        """The answer to come: stored, already asked for by somebody, or asked for now."""
        body = self._body(request)
        key = request_key(self.endpoint.name, CHAT, body)
        with self._lock:
            if key in self._flying:
                return self._flying[key]
            stored = self._stored(key, request)
            if stored is not None:
                return _done(stored)
            future = self._connected().submit(self._answer(key, request, body, halt))
            self._flying[key] = future
        future.add_done_callback(lambda _: self._flying.pop(key, None))
        return future

    def _stored(self, key: str, request: Request) -> Answer | Failure | None:
        record = self._opened().get(key)
        if record is None:
            return None
        if record.state == TOMBSTONE:
            return Failure("filter" if record.code == "filter" else "request", record.body.decode(), key)
        completion = read_completion(record.body)
        return self._reply(key, request, completion, cached=True) if completion else None

    def _reply(self, key: str, request: Request, completion: Completion, *, cached: bool) -> Answer | Failure:
        if completion.refusal or completion.finish == "content_filter":
            why = completion.refusal or "the reply was held back by a filter"
            return Failure("filter", scrub(why, self._api_key), key, {"text": completion.text})
        if completion.finish == "length":
            return _too_long(key, completion.text, request.max_tokens)
        return Answer(
            text=completion.text,
            key=key,
            model=completion.served_model or self.endpoint.model,
            finish=completion.finish,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cached=cached,
        )

    async def _answer(self, key: str, request: Request, body: dict[str, Any], halt: _Halt) -> Answer | Failure:
        record = self._record(body, request.task, prompt=request.prompt, token_limit=request.max_tokens)

        def accept(outcome: Outcome) -> Answer | Failure | None:
            body = self._clean(outcome.body)
            completion = read_completion(body)
            told = {name: getattr(completion, name) for name in TOLD} if completion else {}
            self._opened().put(key, replace(record, body=body, **_measured(outcome), **told))
            return self._reply(key, request, completion, cached=False) if completion else None

        sent: Answer | Failure | Fault = await self._send(CHAT, body, accept, halt)
        if not isinstance(sent, Fault):
            return sent
        if sent.then == "never" or self._answered:
            self._opened().put(key, replace(record, state=TOMBSTONE, code=sent.kind, body=sent.message.encode()))
        return Failure(sent.kind, sent.message, key)

    async def _embed(self, call: list[tuple[str, str]], halt: _Halt) -> list[list[float]]:
        body = self._embedding_body([text for _, text in call])

        def accept(outcome: Outcome) -> list[list[float]] | None:
            vectors = read_embeddings(outcome.body, len(call))
            for (key, text), vector in zip(call, vectors or [], strict=False):
                one = json.dumps({"embedding": vector}, separators=(",", ":")).encode()
                self._opened().put(key, replace(self._record(self._embedding_body(text), "embeddings"), body=one))
            return vectors

        sent = await self._send(EMBEDDINGS, body, accept, halt)
        if isinstance(sent, Fault):
            raise halt.stop(EndpointError(f"{self._named()} embeds none of {len(call)} texts: {sent.message}."))
        return sent

    # sending

    async def _send(
        self, path: str, body: dict[str, Any], accept: Callable[[Outcome], R | None], halt: _Halt
    ) -> R | Fault:
        """What `accept` makes of the reply (None: unusable, ask again), or why there will never be one."""
        wire = self._connected()
        async with wire.slots:
            for retry in range(RETRIES + 1):
                if halt.error:
                    raise halt.error
                outcome = await wire.post(path, body)
                accepted = accept(outcome) if outcome.status == 200 else None
                if accepted is not None:
                    self._answered = True
                    return accepted
                fault = self._fault(outcome)
                if fault.then == "stop":
                    raise halt.stop(EndpointError(self._stopped(fault)))
                if fault.then in ("never", "unsure"):
                    return fault
                if retry == RETRIES or (outcome.retry_after or 0) > LONGEST_RETRY_AFTER_SECONDS:
                    break
                await self._pause(retry, outcome.retry_after, halt)
        raise halt.stop(Incomplete(self._gave_up(fault)))

    def _fault(self, outcome: Outcome) -> Fault:
        """Requests refused for no known reason are the endpoint's fault if nothing has worked yet."""
        if outcome.status == 200:
            return Fault("again", "request", "200 without a usable answer")
        fault = fault_of(outcome.status, outcome.body, self._api_key)
        self._unsure += fault.then == "unsure"
        if fault.then == "unsure" and not self._answered and self._unsure >= UNSURE_AT_FIRST:
            return fault._replace(then="stop")
        return fault

    async def _pause(self, retry: int, retry_after: float | None, halt: _Halt) -> None:
        """Full jitter, doubling; at least what the endpoint asked for, up to a quarter more."""
        jittered = random.uniform(0, min(LONGEST_PAUSE_SECONDS, self._first_pause_seconds * 2**retry))
        until = time.monotonic() + max(jittered, (retry_after or 0) * random.uniform(1, 1.25))
        while halt.error is None and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.2))

    def _in_order(self, started: Iterable[tuple[T, Future[R]]], halt: _Halt) -> Iterator[tuple[T, R]]:
        """Results in the order they were started. However it ends, what is in flight is waited for."""
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for pair in started:
                waiting.append(pair)
                if len(waiting) >= 2 * self.endpoint.concurrency:
                    yield waiting[0][0], waiting[0][1].result()
                    waiting.popleft()
            while waiting:
                yield waiting[0][0], waiting[0][1].result()
                waiting.popleft()
        finally:
            halt.stop(Incomplete(f"The questions to {self._named()} were broken off: run the same command again."))
            wait([future for _, future in waiting])

    # what is opened when first needed

    def _opened(self) -> Responses:
        with self._lock:
            self._store = self._store or open_responses(self._store_path)
            return self._store

    def _connected(self) -> Wire:
        with self._lock:
            if self._wire is None:
                check_key(self.endpoint, self._api_key)
                self._wire = Wire(self.endpoint, self._api_key, self._transport)
            return self._wire

    def _stored_vector(self, key: str) -> list[float] | None:
        record = self._opened().get(key)
        vector = read_json(record.body).get("embedding") if record else None
        return vector if isinstance(vector, list) else None

    def _clean(self, content: bytes) -> bytes:
        """Without the key, which some gateways echo."""
        return without(self._api_key, content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _record(self, body: dict[str, Any], task: str, *, prompt: str = "", token_limit: int | None = None) -> Record:
        return Record(
            endpoint=self.endpoint.name,
            model=self.endpoint.model,
            task=task,
            prompt=prompt,
            request=self._clean(json.dumps(body, separators=(",", ":")).encode()),
            token_limit=token_limit,
        )

    # messages

    def _named(self) -> str:
        return f'The endpoint "{self.endpoint.name}"'

    def _stopped(self, fault: Fault) -> str:
        advice = f"check the key {self.endpoint.key_env}, " if self.endpoint.key_env else "check "
        return (
            f"{self._named()} refused a request for the model {self.endpoint.model} ({fault.message}): "
            f"{advice}the account, the model's name and the parameters. Answers so far are stored."
        )

    def _gave_up(self, fault: Fault) -> str:
        return (
            f"{self._named()} gave no answer in {RETRIES + 1} tries (at last: {fault.message}): "
            "answers so far are stored, run the same command again."
        )


def check_key(endpoint: Endpoint, api_key: str | None) -> None:
    """Raise EndpointError where the endpoint needs a key and there is none."""
    if endpoint.key_env and not api_key:
        raise EndpointError(
            f'The key {endpoint.key_env} of endpoint "{endpoint.name}" is not set. Set it, or use another endpoint.'
        )


def _too_long(key: str, text: str, limit: int) -> Failure:
    return Failure("length", f"the reply is cut off at {limit} tokens", key, {"text": text})


def _measured(outcome: Outcome) -> dict[str, Any]:
    return {"milliseconds": outcome.milliseconds, "request_id": outcome.request_id}


def _done(result: R) -> Future[R]:
    future: Future[R] = Future()
    future.set_result(result)
    return future
