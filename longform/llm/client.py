"""Ask a model many things: in order, a bounded number at a time, and never pay for an answer twice.

    with Models(home / "llm" / "responses.sqlite") as models:
        for row, answer in models.client(endpoint).ask((row, request_for(row)) for row in rows):
            ...

A question is looked up in the response store; is joined to the same question that somebody is asking now; or is asked.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from longform.errors import EndpointError, Incomplete, LongformError, UsageError
from longform.llm import offline
from longform.llm.ask.keys import canonical
from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Answer, Endpoint, Failure, Request, broken_off
from longform.llm.pending import PendingRequest, PendingRequests, Shared, judge
from longform.llm.send.bodies import EMBEDDINGS, body_of, chat_key, embedding_body, embedding_key, embedding_sent
from longform.llm.send.completion import Completion, read_embeddings, read_json
from longform.llm.send.dispatch import Call, Dispatcher, Result

QUESTIONS_AT_ONCE = 64
TEXTS_PER_CALL = 64

T = TypeVar("T")


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
        yield from self._ask_online(iter(items))

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in the order of the texts; stored by text, asked for 64 texts a call."""
        if self.endpoint.offline:
            raise UsageError(f"The endpoint {self.endpoint.name} has no embeddings: set one with a base_url for them.")
        dispatcher = self.models.dispatcher(self.endpoint)
        sent = {text: dispatcher.clean(embedding_sent(self.endpoint, text)) for text in texts}
        keys = {text: embedding_key(self.endpoint, body) for text, body in sent.items()}
        vectors: dict[str, list[float]] = {}
        calls: list[_EmbeddingCall] = []
        remaining = iter(sent)
        try:
            while chunk := list(islice(remaining, TEXTS_PER_CALL)):
                stored = self.models.store.get([keys[text] for text in chunk])
                found = {t: read_json(stored[keys[t]].body).get("embedding") for t in chunk if keys[t] in stored}
                vectors |= {text: vector for text, vector in found.items() if isinstance(vector, list)}
                missing = [text for text in chunk if text not in vectors]
                if missing:
                    calls.append(_EmbeddingCall(self, dispatcher, missing, keys, sent))
                    dispatcher.submit([calls[-1].call])
            for each in calls:
                vectors |= each.result()
        finally:
            for each in calls:
                each.wanted = False
        self._note(keys.values())
        return [vectors[text] for text in texts]

    def _ask_online(self, items: Iterator[tuple[T, Request]]) -> Iterator[tuple[T, Answer | Failure]]:
        requests = PendingRequests(self.models, self.endpoint, self.stage, self.recipe)
        window: deque[tuple[T, PendingRequest]] = deque()
        room = max(4 * self.endpoint.concurrency, 4 * QUESTIONS_AT_ONCE)
        unanswered: list[LongformError] = []
        try:
            while chunk := list(islice(items, QUESTIONS_AT_ONCE)):
                window.extend(requests.begin(chunk))
                yield from self._results(requests, window, len(window) - room, unanswered)
            while window:
                yield from self._results(requests, window, min(len(window), QUESTIONS_AT_ONCE), unanswered)
        finally:
            requests.withdraw([pending for _, pending in window])
        if unanswered:
            raise _incomplete(unanswered)

    def _results(
        self,
        requests: PendingRequests,
        window: deque[tuple[T, PendingRequest]],
        least: int,
        unanswered: list[LongformError],
    ) -> Iterator[tuple[T, Answer | Failure]]:
        """What is answered at the head of the window; at least so many are waited for."""
        if least > 0:
            requests.wait(window[min(least, len(window)) - 1][1])
        while window and (least > 0 or window[0][1].result is not None):
            item, pending = window.popleft()
            least -= 1
            result = requests.wait(pending)
            self._note(pending.keys)
            if isinstance(result, Incomplete) and requests.dispatcher.halted is None:
                unanswered.append(result)
            elif isinstance(result, LongformError):
                raise result
            else:
                yield item, result

    def _offline(self, request: Request, sample: int) -> Answer | Failure:
        key = chat_key(self.endpoint, canonical(body_of(self.endpoint, request, sample)), sample)
        effort = str(dict(self.endpoint.parameters).get("effort", ""))
        text, finish, input_tokens, output_tokens = offline.respond(self.models.offline, request, sample, effort)
        completion = Completion(finish, offline.MODEL, None, (input_tokens, 0, output_tokens), 0, text, "", None)
        result = judge(PendingRequest(request, sample, "", key), completion, self.endpoint, cached=False)
        assert not isinstance(result, str), "the offline model is asked once"
        return result


class _EmbeddingCall:
    """One call for the embeddings of some texts; `keys` and `sent` are by text, also of others."""

    def __init__(
        self, client: Client, dispatcher: Dispatcher, texts: list[str], keys: dict[str, str], sent: dict[str, str]
    ) -> None:
        self.wanted = True
        self._texts, self._dispatcher, self._event = texts, dispatcher, threading.Event()
        self._result: Result | None = None
        body = dispatcher.clean(canonical(embedding_body(client.endpoint, texts)))
        self.call = Call(
            path=EMBEDDINGS,
            sent=body,
            keys=[keys[text] for text in texts],
            bases=[dispatcher.base(sent[text], "embeddings", "") for text in texts],
            stage=client.stage,
            recipe=client.recipe,
            input_bound=upper_bound(body),
            output_bound=0,
            tokens=len(body) // 4,
            read=lambda reply: read_embeddings(reply, len(texts)),
            done=self._done,
            wanted=lambda: self.wanted,
        )

    def _done(self, result: Result) -> None:
        self._result = result
        self._event.set()

    def result(self) -> dict[str, list[float]]:
        """text -> vector. Raises what the call ended with, EndpointError where the texts are refused."""
        self._dispatcher.wait(self._event)
        result = broken_off() if self._result is None else self._result
        if isinstance(result, LongformError):
            raise result
        if isinstance(result, list):
            return {t: read_json(r.body)["embedding"] for t, (r, _) in zip(self._texts, result, strict=True)}
        raise EndpointError(f"{self._dispatcher.named} embeds none of {len(self._texts)} texts: {result.message}.")


def _incomplete(errors: Sequence[LongformError]) -> Incomplete:
    if len(errors) == 1:
        return Incomplete(str(errors[0]))
    return Incomplete(f"{len(errors):,} questions got no answer. The last: {errors[-1]}")
