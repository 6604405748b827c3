"""Ask a model many things: in order, a bounded number at a time, and never pay for an answer twice.

    with Models(home / "llm" / "responses.sqlite") as models:
        for row, answer in models.client(endpoint).ask((row, request_for(row)) for row in rows):
            ...

A question is looked up in the response store; is joined to the same question that somebody is asking now; or is asked.
What comes back is read here: a reply that is cut off is asked for once more with twice the room, one that does not have
the form that was asked for is sent back once to be repaired. What is of no use even then becomes a Failure.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, Protocol, TypeVar

from longform.errors import EndpointError, Incomplete, LongformError, UsageError
from longform.llm import offline
from longform.llm.ask.keys import canonical, key_of
from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Answer, Endpoint, Failure, FailureKind, Request, broken_off
from longform.llm.responses.records import TOMBSTONE, Record
from longform.llm.responses.store import ResponseStore
from longform.llm.send.completion import Completion, Told, read_choices, read_completion, read_embeddings, read_json
from longform.llm.send.dispatch import Call, Dispatcher, Replies, Result
from longform.llm.send.faults import Fault, scrub

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"
QUESTIONS_AT_ONCE = 64
TEXTS_PER_CALL = 64

T = TypeVar("T")


def body_of(endpoint: Endpoint, request: Request, sample: int = 0) -> dict[str, Any]:
    """What is sent for one sample of a request, without `n`."""
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": role, "content": content} for role, content in request.messages],
        endpoint.limit_field: request.max_tokens,
    }
    if request.reply is not None and request.form == "json":
        from longform.llm.read.structured import response_format

        body["response_format"] = response_format(request.reply)
    if request.logprobs is not None:
        body["logprobs"] = True
        if request.logprobs:
            body["top_logprobs"] = request.logprobs
    body |= dict(endpoint.parameters)
    if sample and isinstance(body.get("seed"), int) and "n" not in endpoint.capabilities:
        body["seed"] += sample
    return body


def embedding_body(endpoint: Endpoint, texts: str | list[str]) -> dict[str, Any]:
    return {"model": endpoint.model, "input": texts, **dict(endpoint.parameters)}


class Flight:
    """A question on its way: asked for once, however many wait for it."""

    __slots__ = (
        "again",
        "event",
        "first",
        "fresh",
        "key",
        "keys",
        "limit",
        "request",
        "result",
        "sample",
        "sent",
        "step",
        "waiters",
    )

    def __init__(self, request: Request, sample: int, sent: str, key: str) -> None:
        self.request, self.sample, self.first, self.key = request, sample, sent, key
        self.fresh = self.again = False
        self.begin()
        self.result: Answer | Failure | LongformError | None = None
        self.event: threading.Event | None = None
        self.waiters = 0

    def begin(self) -> None:
        """As it is asked at first."""
        self.step, self.sent, self.keys, self.limit = "first", self.first, [self.key], self.request.max_tokens


class Shared(Protocol):
    """What the clients of a build have in common: see Models."""

    retry_errors: bool
    offline: offline.Rules

    @property
    def store(self) -> ResponseStore: ...
    def check_key(self, endpoint: Endpoint) -> None: ...
    def dispatcher(self, endpoint: Endpoint) -> Dispatcher: ...


class Client:
    """An endpoint, as one stage asks it. `note` is told the keys of the responses that were looked at."""

    def __init__(
        self, models: Shared, endpoint: Endpoint, stage: str, recipe: str, note: Callable[[Iterable[str]], None]
    ) -> None:
        self.models, self.endpoint, self.stage, self.recipe, self._note = models, endpoint, stage, recipe, note

    def ask(self, items: Iterable[tuple[T, Request]]) -> Iterator[tuple[T, Answer | Failure]]:
        """Each item with its answer, in the order of the items; so many times as its request asks for samples.

        Raises EndpointError where the endpoint refuses to work at all, BudgetError where the money is spent, and
        Incomplete, after all others were asked, where a request got no answer for a passing reason. What came in
        until then is stored.
        """
        if self.endpoint.offline:
            yield from ((item, self._offline(request, n)) for item, request in items for n in range(request.samples))
            return
        yield from self._asked(iter(items))

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in the order of the texts; stored by text, asked for 64 texts a call."""
        if self.endpoint.offline:
            raise UsageError(f"The endpoint {self.endpoint.name} has no embeddings: set one with a base_url for them.")
        dispatcher = self.dispatcher()
        sent = {text: dispatcher.clean(canonical(embedding_body(self.endpoint, text))) for text in texts}
        keys = {text: key_of(self.endpoint.name, EMBEDDINGS, body) for text, body in sent.items()}
        vectors: dict[str, list[float]] = {}
        waiting: deque[_Vectors] = deque()
        try:
            for chunk in _chunks(iter(sent), TEXTS_PER_CALL):
                found = self._stored_vectors([keys[text] for text in chunk])
                missing = [text for text in chunk if keys[text] not in found]
                vectors |= {text: found[keys[text]] for text in chunk if keys[text] in found}
                if missing:
                    waiting.append(
                        _Vectors(self, missing, [keys[text] for text in missing], [sent[t] for t in missing])
                    )
                    dispatcher.submit([waiting[-1].call])
                if len(waiting) > 2 * self.endpoint.concurrency:
                    vectors |= waiting.popleft().result()
            while waiting:
                vectors |= waiting.popleft().result()
        finally:
            for each in waiting:
                each.give_up()
        self._note(keys.values())
        return [vectors[text] for text in texts]

    # in order

    def _asked(self, items: Iterator[tuple[T, Request]]) -> Iterator[tuple[T, Answer | Failure]]:
        dispatcher = self.dispatcher()
        window: deque[tuple[T, Flight]] = deque()
        room = max(4 * self.endpoint.concurrency, 4 * QUESTIONS_AT_ONCE)
        unanswered: list[LongformError] = []
        try:
            while chunk := list(islice(items, QUESTIONS_AT_ONCE)):
                window.extend(self._begin(dispatcher, chunk))
                yield from self._landed(dispatcher, window, len(window) - room, unanswered)
            while window:
                yield from self._landed(dispatcher, window, min(len(window), QUESTIONS_AT_ONCE), unanswered)
        finally:
            self._withdraw(dispatcher, [flight for _, flight in window])
        if unanswered:
            raise _incomplete(unanswered)

    def _landed(
        self, dispatcher: Dispatcher, window: deque[tuple[T, Flight]], least: int, unanswered: list[LongformError]
    ) -> Iterator[tuple[T, Answer | Failure]]:
        """What is answered at the head of the window; at least so many are waited for."""
        if least > 0:
            self._wait(dispatcher, window[min(least, len(window)) - 1][1])
        while window and (least > 0 or window[0][1].result is not None):
            item, flight = window.popleft()
            least -= 1
            result = self._wait(dispatcher, flight)
            self._note(flight.keys)
            if isinstance(result, Incomplete) and dispatcher.halted is None:
                unanswered.append(result)
            elif isinstance(result, LongformError):
                raise result
            else:
                yield item, result

    def _wait(self, dispatcher: Dispatcher, flight: Flight) -> Answer | Failure | LongformError:
        """What became of it; that nothing is answered any more where the models are closed before it landed."""
        if flight.result is None:
            with dispatcher.lock:
                event = flight.event = flight.event or threading.Event()
                landed = flight.result is not None
            if not landed:
                dispatcher.wait(event)
        return broken_off() if flight.result is None else flight.result

    def _begin(self, dispatcher: Dispatcher, chunk: list[tuple[T, Request]]) -> list[tuple[T, Flight]]:
        """Flights of these items; what is not stored is submitted."""
        flights: list[tuple[T, Flight]] = []
        new: list[Flight] = []
        name, flying = self.endpoint.name, dispatcher.flying
        asked = [(item, request, sample) for item, request in chunk for sample in range(request.samples)]
        self._check(request for _, request in chunk)
        bodies = [dispatcher.clean(canonical(body_of(self.endpoint, request, sample))) for _, request, sample in asked]
        keys = [key_of(name, CHAT, sent, sample=asked[at][2]) for at, sent in enumerate(bodies)]
        with dispatcher.lock:
            for (item, request, sample), sent, key in zip(asked, bodies, keys, strict=True):
                flight = flying.get(key)
                if flight is None:
                    flight = flying[key] = Flight(request, sample, sent, key)
                    new.append(flight)
                flight.waiters += 1
                flights.append((item, flight))
        try:
            stored = self.models.store.get([flight.key for flight in new]) if new else {}
            missing = [flight for flight in new if not self._taken(dispatcher, flight, stored.get(flight.key), None)]
            if missing:
                self.models.check_key(self.endpoint)
            dispatcher.submit(self._calls(dispatcher, missing))
        except BaseException as error:  # whatever it is, others may have joined these flights
            for flight in (each for each in new if each.result is None):
                self._land(dispatcher, flight, dispatcher.as_ours(error))
            raise
        return flights

    def _check(self, requests: Iterable[Request]) -> None:
        if "logprobs" not in self.endpoint.capabilities and any(each.logprobs is not None for each in requests):
            raise UsageError(
                f'The endpoint "{self.endpoint.name}" is not said to give log-probabilities, which this stage needs: '
                f'add "logprobs" to [endpoints.{self.endpoint.name}] capabilities.'
            )

    def _withdraw(self, dispatcher: Dispatcher, flights: list[Flight]) -> None:
        """Let go of what nobody else waits for and is not sent yet; what is in flight is waited for."""
        if not flights:
            return
        with dispatcher.lock:
            for flight in flights:
                flight.waiters -= 1
        dispatcher.drop_unwanted()
        for flight in flights:
            if flight.waiters <= 0:
                self._wait(dispatcher, flight)

    # one question

    def _offline(self, request: Request, sample: int) -> Answer | Failure:
        key = key_of(self.endpoint.name, CHAT, canonical(body_of(self.endpoint, request, sample)), sample=sample)
        effort = str(dict(self.endpoint.parameters).get("effort", ""))
        text, finish, input_tokens, output_tokens = offline.respond(self.models.offline, request, sample, effort)
        if finish == "length":
            return _too_long(key, text, request.max_tokens, sample)
        told = Completion(finish, offline.MODEL, None, (input_tokens, 0, output_tokens), 0, text, "", None)
        flight = Flight(request, sample, "", key)
        result = self._judged(flight, key, told, cached=False)
        return result if isinstance(result, Answer | Failure) else _failed("invalid", result, key, told, sample)

    def _taken(self, dispatcher: Dispatcher, flight: Flight, record: Record | None, told: Told | None) -> bool:
        """Whether the record is of use: then the flight has landed, or goes on to its next step."""
        if record is None:
            return False
        flight.again = True
        cached = told is None
        key = flight.keys[-1]
        if record.state == TOMBSTONE:
            kind: FailureKind = "filter" if record.code == "filter" else "request"
            result: Answer | Failure | str = Failure(kind, record.body.decode(), key, sample=flight.sample)
        else:
            completion = told if isinstance(told, Completion) else read_completion(record.body)
            if completion is None:
                return False
            result = self._judged(flight, key, completion, cached=cached)
        if cached and isinstance(result, Failure) and self.models.retry_errors and not flight.fresh:
            flight.fresh = True
            flight.begin()
            return False
        if isinstance(result, str):
            assert completion is not None
            self._go_on(dispatcher, flight, completion, result)
        else:
            self._land(dispatcher, flight, result)
        return True

    def _judged(self, flight: Flight, key: str, completion: Completion, *, cached: bool) -> Answer | Failure | str:
        """The answer, or why it is none, or, where another try is due, what is wrong with it."""
        request, text = flight.request, completion.text
        if completion.finish == "content_filter":
            return _failed("filter", "the reply was held back by a filter", key, completion, flight.sample)
        if completion.refusal:
            return _failed("refusal", scrub(completion.refusal, None), key, completion, flight.sample)
        if completion.finish == "length":
            from longform.llm.read.structured import blank_tail

            blank = blank_tail(text)
            if flight.step == "first" and not self.endpoint.offline:
                return "whitespace" if blank else "length"
            why = "the reply ran into white space" if blank else "the reply is cut off, also with twice the room"
            return _failed("whitespace" if blank else "length", why, key, completion, flight.sample)
        if not text.strip() and flight.step == "first" and not self.endpoint.offline:
            return "empty"
        if not text.strip():
            return _failed("empty", "the reply is empty", key, completion, flight.sample)
        value: Any = None
        if request.reply is not None:
            from longform.llm.read.structured import read_reply

            value = read_reply(text, request.reply, _form(request))
            if isinstance(value, str):
                if flight.step != "repair":
                    return value
                return _failed("invalid", value, key, completion, flight.sample)
        return Answer(
            text,
            key,
            completion.served_model or self.endpoint.model,
            completion.finish,
            completion.tokens[0],
            completion.tokens[2],
            cached,
            value,
            flight.sample,
            completion.logprobs,
        )

    def _go_on(self, dispatcher: Dispatcher, flight: Flight, completion: Completion, why: str) -> None:
        """The next step of a question whose reply was of no use: more room, no constraint, or a repair."""
        body = json.loads(flight.sent)
        if why == "length":
            flight.step, attempt = "longer", 0
            flight.limit *= 2
            body[self.endpoint.limit_field] = flight.limit
        elif why in ("whitespace", "empty"):
            flight.step, attempt = "again", 1
            body.pop("response_format", None)
        else:
            from longform.llm.read.structured import repair_messages

            flight.step, attempt = "repair", 1
            messages = repair_messages(flight.request.messages, completion.text, why, _form(flight.request))
            body["messages"] = [{"role": role, "content": content} for role, content in messages]
        flight.sent = dispatcher.clean(canonical(body))
        flight.keys.append(key_of(self.endpoint.name, CHAT, flight.sent, sample=flight.sample, attempt=attempt))
        flight.again = flight.fresh
        stored = {} if flight.fresh else self.models.store.get([flight.keys[-1]])
        if not self._taken(dispatcher, flight, stored.get(flight.keys[-1]), None):
            dispatcher.submit(self._calls(dispatcher, [flight]))

    def _land(self, dispatcher: Dispatcher, flight: Flight, result: Answer | Failure | LongformError) -> None:
        with dispatcher.lock:
            flight.result = result
            dispatcher.flying.pop(flight.key, None)
            event = flight.event
        if event:
            event.set()

    # calls

    def _calls(self, dispatcher: Dispatcher, flights: list[Flight]) -> list[Call]:
        """One call a flight; samples of one question together where the endpoint can."""
        if "n" not in self.endpoint.capabilities or dispatcher.one_by_one:
            return [self._call(dispatcher, [flight]) for flight in flights]
        together: dict[tuple[str, str], list[Flight]] = {}
        for flight in flights:
            together.setdefault((flight.sent, flight.step), []).append(flight)
        return [self._call(dispatcher, group) for group in together.values()]

    def _call(self, dispatcher: Dispatcher, flights: list[Flight]) -> Call:
        first, number = flights[0], len(flights)
        sent = self._sown(first)
        sent = sent if number == 1 else f'{sent[:-1]},"n":{number}}}'
        base = self.base(first.sent, first.request.task, first.request.prompt, first.limit)

        def done(result: Result) -> None:
            came = len(result) if isinstance(result, list) else number
            for place, flight in enumerate(flights[:came]):
                self._came(dispatcher, flight, [result[place]] if isinstance(result, list) else result)
            if came < number:
                dispatcher.one_by_one = True
                dispatcher.submit(self._calls(dispatcher, flights[came:]))

        return Call(
            path=CHAT,
            sent=sent,
            keys=[flight.keys[-1] for flight in flights],
            bases=[base] * number,
            stage=self.stage,
            recipe=self.recipe,
            input_bound=upper_bound(sent),
            output_bound=first.limit * number,
            tokens=len(sent) // 4 + first.limit * number,
            read=_one if number == 1 else lambda body: read_choices(body, number),
            done=done,
            wanted=lambda: any(flight.waiters > 0 for flight in flights),
            again=any(flight.again for flight in flights),
        )

    def _sown(self, flight: Flight) -> str:
        """As it is sent. Where `n` is the endpoint's, a sample that is asked for by itself has a seed of its own."""
        if not flight.sample or "n" not in self.endpoint.capabilities:
            return flight.sent
        body = json.loads(flight.sent)
        if not isinstance(body.get("seed"), int):
            return flight.sent
        return canonical({**body, "seed": body["seed"] + flight.sample})

    def _came(self, dispatcher: Dispatcher, flight: Flight, result: Result) -> None:
        """What became of a call, in the loop's thread."""
        try:
            if isinstance(result, LongformError):
                self._land(dispatcher, flight, result)
            elif isinstance(result, Fault):
                self._land(
                    dispatcher, flight, Failure(result.kind, result.message, flight.keys[-1], sample=flight.sample)
                )
            elif not self._taken(dispatcher, flight, *result[0]):
                self._land(dispatcher, flight, Incomplete(f"{dispatcher.named} gave an answer that cannot be read."))
        except LongformError as error:
            self._land(dispatcher, flight, error)

    def base(self, sent: str, task: str, prompt: str, limit: int | None) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint.name,
            "model": self.endpoint.model,
            "task": task,
            "prompt": prompt,
            "request": sent.encode(),
            "token_limit": limit,
        }

    def dispatcher(self) -> Dispatcher:
        return self.models.dispatcher(self.endpoint)

    def _stored_vectors(self, keys: Sequence[str]) -> dict[str, list[float]]:
        found = {key: read_json(record.body).get("embedding") for key, record in self.models.store.get(keys).items()}
        return {key: vector for key, vector in found.items() if isinstance(vector, list)}


class _Vectors:
    """One call for the embeddings of some texts."""

    def __init__(self, client: Client, texts: list[str], keys: list[str], sent: list[str]) -> None:
        self._texts, self._event, self._result = texts, threading.Event(), None
        self._wanted = True
        self._outcome: Result | None = None
        self._named = client.endpoint.name
        self._dispatcher = client.dispatcher()
        body = self._dispatcher.clean(canonical(embedding_body(client.endpoint, texts)))
        bases = [client.base(each, "embeddings", "", None) for each in sent]
        self.call = Call(
            path=EMBEDDINGS,
            sent=body,
            keys=keys,
            bases=bases,
            stage=client.stage,
            recipe=client.recipe,
            input_bound=upper_bound(body),
            output_bound=0,
            tokens=len(body) // 4,
            read=lambda reply: read_embeddings(reply, len(texts)),
            done=self._done,
            wanted=lambda: self._wanted,
        )

    def _done(self, outcome: Result) -> None:
        self._outcome = outcome
        self._event.set()

    def give_up(self) -> None:
        self._wanted = False

    def result(self) -> dict[str, list[float]]:
        self._dispatcher.wait(self._event)
        outcome = broken_off() if self._outcome is None else self._outcome
        if isinstance(outcome, LongformError):
            raise outcome
        if isinstance(outcome, list):
            return {t: read_json(r.body)["embedding"] for t, (r, _) in zip(self._texts, outcome, strict=True)}
        raise EndpointError(f'The endpoint "{self._named}" embeds none of {len(self._texts)} texts: {outcome.message}.')


def _form(request: Request) -> Literal["json", "tags"]:
    if request.form == "json" or request.reply is None:
        return "json" if request.form == "json" else "tags"
    from longform.llm.read.structured import holds_objects

    return "json" if holds_objects(request.reply) else "tags"


def _one(body: bytes) -> Replies | None:
    completion = read_completion(body)
    return None if completion is None else [(body, completion)]


def _chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while chunk := list(islice(items, size)):
        yield chunk


def _failed(kind: FailureKind, why: str, key: str, completion: Completion, sample: int) -> Failure:
    return Failure(kind, why, key, {"text": completion.text or completion.refusal}, sample)


def _too_long(key: str, text: str, limit: int, sample: int) -> Failure:
    return Failure("length", f"the reply is cut off at {limit} tokens", key, {"text": text}, sample)


def _incomplete(errors: list[LongformError]) -> Incomplete:
    if len(errors) == 1:
        return Incomplete(str(errors[0]))
    return Incomplete(f"{len(errors):,} questions got no answer. The last: {errors[-1]}")
