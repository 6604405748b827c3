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
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from longform.errors import EndpointError, Incomplete, LongformError, UsageError
from longform.llm import offline
from longform.llm.completion import Completion, read_completion, read_embeddings, read_json
from longform.llm.faults import Fault, fault_of, scrub
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
        self._lock = Lock()
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
        return completion and self._reply(key, request, completion, cached=True)

    def _reply(self, key: str, request: Request, completion: Completion, *, cached: bool) -> Answer | Failure:
        if completion.refusal or completion.finish == "content_filter":
            why = completion.refusal or "the reply was held back by a filter"
            return Failure("filter", scrub(why, self._api_key), key, {"text": completion.text})
        if completion.finish == "length":
            return _too_long(key, completion.text, request.max_tokens)
        return Answer(
            text=completion.text,
            key=key,
            model=completion.model or self.endpoint.model,
            finish=completion.finish,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
            cached=cached,
        )

    async def _answer(self, key: str, request: Request, body: dict[str, Any], halt: _Halt) -> Answer | Failure:
        record = Record(
            endpoint=self.endpoint.name,
            model=self.endpoint.model,
            task=request.task,
            prompt=request.prompt,
            request=json.dumps(body, separators=(",", ":")).encode(),
            token_limit=request.max_tokens,
            body=b"",
        )

        def accept(outcome: Outcome) -> Answer | Failure | None:
            completion = read_completion(self._keep(key, record, outcome))
            return completion and self._reply(key, request, completion, cached=False)

        sent = await self._send(CHAT, body, accept, halt)
        if isinstance(sent, Fault):
            if sent.then == "never" or self._answered:
                tombstone = {"state": TOMBSTONE, "code": sent.kind, "body": sent.message.encode()}
                self._opened().put(key, self._clean(record, **tombstone))
            return Failure(sent.kind, sent.message, key)
        return sent

    def _keep(self, key: str, record: Record, outcome: Outcome) -> bytes:
        """Store what came, whatever its shape, and return it."""
        completion = read_completion(outcome.body)
        told = {
            "finish": completion.finish,
            "served_model": completion.model,
            "fingerprint": completion.fingerprint,
            "input_tokens": completion.input_tokens,
            "cached_tokens": completion.cached_tokens,
            "output_tokens": completion.output_tokens,
            "reasoning_tokens": completion.reasoning_tokens,
        }
        return outcome.body
