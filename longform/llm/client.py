"""Ask a model many questions: in order, a bounded number at a time, and never pay for an answer twice.

    with Models(home / "llm" / "responses.sqlite") as models:
        for row, answer in models.client(endpoint).ask((row, request_for(row)) for row in rows):
            ...

A question is looked up in the response store. If it is not there, it joins an equal question that is in flight, or is
sent. Each question ends as an Answer, a Failure or an error, also where several callers wait for it.

A reply that cannot be used leads to another attempt, by what was wrong with the reply:

    first ── cut off ──────────────→ longer   with twice the token limit
          ── white space, nothing ─→ again    without response_format (the JSON schema)
          ── not in the form ──────→ repair   with its reply, and what is wrong with it, in the messages

A second reply that is whole but not in the form is sent back for repair too, if it is not itself a repair. If a later
reply is of no use in any other way, the question ends as a Failure. Every attempt has a key of its own and is looked
up in the store before it is sent.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_origin

from longform.errors import EndpointError, Incomplete, LongformError, UsageError
from longform.llm import offline
from longform.llm.ask.keys import canonical
from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Answer, Endpoint, Failure, FailureKind, Request, broken_off
from longform.llm.read.degenerate import flaw_of
from longform.llm.read.refusals import DECLINES, refusal_in
from longform.llm.read.repeated import Repeats
from longform.llm.read.replies import whole_reply
from longform.llm.responses.records import TOMBSTONE, Record
from longform.llm.responses.store import ResponseStore
from longform.llm.retry import Retry
from longform.llm.send.bodies import (
    EMBEDDINGS,
    Bodies,
    Completion,
    ReplyFacts,
    body_of,
    chat_key,
    embedding_body,
    embedding_key,
    embedding_sent,
    fields_of,
    on_wire,
    path_of,
    read_choices,
    read_completion,
    read_embeddings,
    read_json,
)
from longform.llm.send.calls import Call, LookAgain, Replies, Result
from longform.llm.send.dispatch import Dispatcher
from longform.llm.send.faults import Fault, scrub
from longform.llm.send.reply_size import chat_bound, embeddings_bound
from longform.llm.unanswered import unanswered_error

QUESTIONS_AT_ONCE = 64
ALWAYS_ROOM = 1 << 30
TEXTS_PER_CALL = 64
SALVAGED_KINDS = ("invalid", "length", "whitespace", "empty")
TOMBSTONE_KINDS: dict[str, FailureKind] = {
    "filter": "filter",
    "oversized": "oversized",
    "unanswered": "unanswered",
}

if TYPE_CHECKING:
    from pydantic import BaseModel

    from longform.llm.batch.batched import Batched

T = TypeVar("T")
Embedded = tuple[Any, str | None, str | None]  # a vector, and the model and fingerprint that its reply names
Step = Literal["first", "longer", "again", "repair"]


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One sample of a request, and how far it is. `first_body` and `key` are the body and the key of its first
    attempt. `step` is the attempt it is at, `sent` the body of that and `limit` its token limit; `keys` are the keys
    of all attempts so far.

    `fresh`: stored replies are not read, because a stored failure is to be asked again. `replaces`: the store has
    something under the key. `waiters`: how many callers want the result. `event` is set when `result` is there; None
    while no thread waits for it. `salvaged`: the answer that the items make which could be read of the replies so far.
    """

    request: Request
    sample: int
    first_body: str
    key: str
    step: Step = "first"
    sent: str = ""
    limit: int = 0
    keys: list[str] = field(default_factory=list)
    fresh: bool = False
    replaces: bool = False
    result: Answer | Failure | LongformError | None = None
    event: threading.Event | None = None
    waiters: int = 0
    salvaged: Answer | None = None

    def __post_init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Go back to the first attempt, as if nothing had been sent."""
        self.step, self.sent, self.keys, self.limit = "first", self.first_body, [self.key], self.request.max_tokens
        self.salvaged = None

    def failed(self, kind: FailureKind, why: str, completion: Completion) -> Failure:
        """A Failure of this kind for the last attempt, with the text of its reply, or of the model's refusal."""
        detail = {"text": completion.text or completion.refusal}
        return Failure(kind, why, self.keys[-1], detail, self.sample)


class Shared(Protocol):
    """What all clients of a build share: the response store, a dispatcher for each endpoint, the rules of the offline
    model, which stored failures are to be asked again (`retry`), and the stages that may make no single calls, as
    their questions wait for batches (`batched`).
    """

    offline: offline.Rules
    retry: Retry
    batched: dict[str, Batched]

    @property
    def store(self) -> ResponseStore: ...
    def dispatcher(self, endpoint: Endpoint) -> Dispatcher: ...
    def check_keys(self, endpoint: Endpoint) -> None: ...


class PendingRequests:
    """Asks the questions of one stage to one endpoint, and waits for their results. Callers' threads use `begin`,
    `wait` and `withdraw`; replies are handled in the dispatcher's event loop.
    """

    def __init__(self, models: Shared, endpoint: Endpoint, stage: str, recipe: str) -> None:
        self.dispatcher = models.dispatcher(endpoint)
        self._models, self._endpoint, self._stage, self._recipe = models, endpoint, stage, recipe
        self._bodies, self._repeats = Bodies(endpoint), Repeats()

    def begin(self, chunk: Sequence[tuple[T, Request]]) -> list[tuple[T, PendingRequest]]:
        """For each item one (item, PendingRequest) per sample of its request, in order. Samples whose reply is neither
        stored nor in flight are submitted; this does not wait for their replies.

        UsageError where a request wants log-probabilities and the endpoint lacks that capability. EndpointError where
        something must be sent and the API key is missing. That error, or a StoreError, is also the result of the
        PendingRequests made here, because other callers may have joined them.
        """
        self._check_capabilities(request for _, request in chunk)
        found, new = self._joined(chunk)
        try:
            stored = self._models.store.replies([each.key for each in new]) if new else {}
            self._submit([each for each in new if not self._resolve_or_retry(each, stored.get(each.key), None)])
        except BaseException as error:  # whatever it is, others may have joined these
            for each in (each for each in new if each.result is None):
                self._resolve(each, self.dispatcher.as_ours(error))
            raise
        return found

    def _joined(
        self, chunk: Sequence[tuple[T, Request]]
    ) -> tuple[list[tuple[T, PendingRequest]], list[PendingRequest]]:
        """(all, new): an (item, PendingRequest) for every sample in the chunk, in order; and those PendingRequests
        that were made here, because no equal question is in flight. Puts the new ones into the dispatcher's `pending`,
        and adds a waiter to a PendingRequest each time that it is in `all`.
        """
        asked = [(item, request, sample) for item, request in chunk for sample in range(request.samples)]
        bodies = [self.dispatcher.clean(self._bodies.sent(request, n)) for _, request, n in asked]
        keys = [chat_key(self._endpoint, body, sample) for body, (_, _, sample) in zip(bodies, asked, strict=True)]
        found: list[tuple[T, PendingRequest]] = []
        new: list[PendingRequest] = []
        with self.dispatcher.lock:
            for (item, request, sample), body, key in zip(asked, bodies, keys, strict=True):
                pending = self.dispatcher.pending.get(key)
                if pending is None:
                    pending = self.dispatcher.pending[key] = PendingRequest(request, sample, body, key)
                    new.append(pending)
                pending.waiters += 1
                found.append((item, pending))
        return found, new

    def _check_capabilities(self, requests: Iterable[Request]) -> None:
        """Raise UsageError where a request wants log-probabilities and the endpoint does not have the capability
        `logprobs`.
        """
        name = self._endpoint.name
        if "logprobs" not in self._endpoint.capabilities and any(each.logprobs is not None for each in requests):
            raise UsageError(
                f'The endpoint "{name}" is not said to give log-probabilities, which this stage needs: '
                f'add "logprobs" to [endpoints.{name}] capabilities.'
            )

    def wait(self, pending: PendingRequest) -> Answer | Failure | LongformError:
        """Wait for the result, and return it, an error too; an Incomplete where the models are closed before it is
        there.
        """
        if pending.result is None:
            with self.dispatcher.lock:
                event = pending.event = pending.event or threading.Event()
                resolved = pending.result is not None
            if not resolved:
                self.dispatcher.wait(event)
        return broken_off() if pending.result is None else pending.result

    def withdraw(self, requests: Sequence[PendingRequest]) -> None:
        """Stop waiting for these requests. Those that nobody else waits for are dropped if they are not sent yet; for
        those in flight this waits until their reply is stored.
        """
        if not requests:
            return
        with self.dispatcher.lock:
            for each in requests:
                each.waiters -= 1
        self.dispatcher.drop_unwanted()
        for each in requests:
            if each.waiters <= 0:
                self.wait(each)

    def _resolve(self, pending: PendingRequest, result: Answer | Failure | LongformError) -> None:
        """Set the result of the request, remove it from the dispatcher's pending ones, and wake its waiters."""
        with self.dispatcher.lock:
            pending.result = result
            self.dispatcher.pending.pop(pending.key, None)
            event = pending.event
        if event:
            event.set()

    # replies

    def _resolve_or_retry(
        self, pending: PendingRequest, record: Record | None, facts: ReplyFacts | None, *, recent: bool = False
    ) -> bool:
        """Whether the record was used: it gave the request's result, or led to the next attempt. False where there is
        no record, or it cannot be read: then the present attempt is still to be sent. False also for a stored failure
        that is to be asked again: then the request is back at its first attempt, with `fresh` set.

        `facts` is what was read from a reply that has just arrived; None where the record comes from the store.
        `recent`: it was stored in this run, by this process or another one: a failure in it is not asked again.
        """
        if record is None:
            return False
        pending.replaces = True
        completion = facts if isinstance(facts, Completion) else _completion(record)
        result = _result(pending, record, completion, self._endpoint, cached=facts is None)
        if result is None:
            return False
        stored = facts is None and not (recent or pending.fresh)
        if stored and self._is_wanted_again(pending, result):
            pending.fresh = True
            pending.start_over()
            return False
        if completion is not None and isinstance(result, str):
            self._next_attempt(pending, completion, result)
        elif not isinstance(result, str):
            self._resolve(pending, result)
        return True

    def _is_wanted_again(self, pending: PendingRequest, result: Answer | Failure | str) -> bool:
        """Whether a stored result is to be asked again in this stage, and no batch has done that: failures of this kind
        are, or replies that repeat that to another question.
        """
        if isinstance(result, str) or not self._models.retry.chosen:
            return False
        wants, batched = partial(self._models.retry.wants, self._stage), self._models.batched.get(self._stage)
        if batched is not None and batched.has_asked_again(result.key):
            return False
        return self._repeats.is_wanted_again(pending.request, result, wants)

    def _next_attempt(self, pending: PendingRequest, completion: Completion, why: str) -> None:
        """Make the next attempt (see `next_attempt`). It is looked up in the store, unless stored replies are not to
        be read, and submitted if it is not there.
        """
        next_attempt(pending, completion, why, self._endpoint, self.dispatcher.clean)
        key = pending.keys[-1]
        pending.replaces = pending.fresh
        stored = {} if pending.fresh else self._models.store.replies([key])
        if not self._resolve_or_retry(pending, stored.get(key), None):
            self._submit([pending])

    # calls

    def _submit(self, requests: Sequence[PendingRequest]) -> None:
        """Submit the calls for these requests, of which there may be none. In a stage whose questions wait for batches
        they end with Incomplete instead. EndpointError where a key is missing.
        """
        batched = self._models.batched.get(self._stage)
        if batched is not None:
            for each in requests:
                self._resolve(each, Incomplete(batched.why(each.keys[-1], self._stage)))
        elif requests:
            self._models.check_keys(self._endpoint)
            self.dispatcher.submit(self._calls(requests))

    def _calls(self, requests: Sequence[PendingRequest]) -> list[Call]:
        """One call for each request. Where the endpoint has the capability `n`, requests with the same body at the
        same step (samples) share a call, unless the server has once returned too few replies.
        """
        if "n" not in self._endpoint.capabilities or self.dispatcher.one_by_one:
            return [self._call([each]) for each in requests]
        together: dict[tuple[str, str], list[PendingRequest]] = {}
        for each in requests:
            together.setdefault((each.sent, each.step), []).append(each)
        return [self._call(group) for group in together.values()]

    def _call(self, group: list[PendingRequest]) -> Call:
        """The call that sends these requests, which have the same body; with the field `n` if there are several."""
        first, number = group[0], len(group)
        sent = _with_own_seed(first, self._endpoint)
        sent = sent if number == 1 else f'{sent[:-1]},"n":{number}}}'
        base = self.dispatcher.base(first.sent, first.request.task, first.request.prompt, token_limit=first.limit)
        return Call(
            path=path_of(self._endpoint),
            sent=on_wire(self._endpoint, path_of(self._endpoint), sent, first.request.prompt),
            keys=[each.keys[-1] for each in group],
            bases=[base] * number,
            stage=self._stage,
            recipe=self._recipe,
            input_bound=upper_bound(sent),
            output_bound=first.limit * number,
            tokens=len(sent) // 4 + first.limit * number,
            most_bytes=chat_bound(first.limit, number, first.request.logprobs),
            read=_read_single if number == 1 else lambda body: read_choices(body, number),
            done=lambda result: self._receive(group, result),
            wanted=lambda: any(each.waiters > 0 for each in group),
            again=any(each.replaces for each in group),
        )

    def _receive(self, group: list[PendingRequest], result: Result) -> None:
        """Handle the result of a call for the requests of the group. Samples whose part of the reply is of no use are
        asked for again. Where it has fewer replies than samples were asked for, each remaining sample is sent in a call
        of its own, and from then on so are all samples of this endpoint. Where another process has stored some of the
        replies meanwhile, the others are asked for again.
        """
        if isinstance(result, LookAgain):
            try:
                stored = self._models.store.replies([each.keys[-1] for each in group])
            except LongformError as error:
                result = error
            else:
                there = [each for each in group if each.keys[-1] in stored]
                self._receive(there, [(stored[each.keys[-1]], None) for each in there])
                self._submit([each for each in group if each.keys[-1] not in stored])
                return
        parts = result if isinstance(result, list) else [result] * len(group)
        for pending, part in zip(group, parts, strict=False):
            try:
                if part is not None:
                    self._receive_one(pending, part)
            except Exception as error:  # whatever it is, those who wait must hear of it
                self._resolve(pending, self.dispatcher.as_ours(error))
        if len(parts) < len(group):
            self.dispatcher.one_by_one = True
        self._submit([pending for pending, part in zip_longest(group, parts) if part is None])

    def _receive_one(
        self, pending: PendingRequest, result: tuple[Record, ReplyFacts | None] | Fault | LongformError
    ) -> None:
        """Handle one request's part of a call's result. A record gives its result or leads to the next attempt. A
        Fault becomes a Failure, an error is the result itself, and for a record that cannot be read the result is
        Incomplete.
        """
        if isinstance(result, LongformError):
            self._resolve(pending, result)
        elif isinstance(result, Fault):
            failure = Failure(result.kind, result.message, pending.keys[-1], sample=pending.sample)
            self._resolve(pending, failure)
        elif not self._resolve_or_retry(pending, *result, recent=True):
            self._resolve(
                pending,
                Incomplete(f"{self.dispatcher.named} gave an answer that cannot be read: run the same command again."),
            )


def next_attempt(
    pending: PendingRequest, completion: Completion, why: str, endpoint: Endpoint, clean: Callable[[str], str] = str
) -> None:
    """Set the pending request to its next attempt, chosen by `why` the completion was of no use: "length": twice the
    limit; "whitespace" or "empty": no schema; anything else is what is wrong with its form: a request to repair it.
    `clean` takes the endpoint's key out of the body.
    """
    body = json.loads(pending.sent)
    messages, limit, form = fields_of(endpoint)
    attempt = 1
    if why == "length":
        pending.step, attempt = "longer", 0
        pending.limit *= 2
        body[limit] = pending.limit
    elif why in ("whitespace", "empty"):
        pending.step = "again"
        body.pop(form, None)
    else:
        from longform.llm.read.structured import form_of, repair_messages

        pending.step = "repair"
        request = pending.request
        repair = repair_messages(request.messages, completion.text, why, form_of(request))
        body[messages] = [{"role": role, "content": content} for role, content in repair]
    pending.sent = clean(canonical(body))
    pending.keys.append(chat_key(endpoint, pending.sent, pending.sample, attempt))


def stored_result(
    pending: PendingRequest,
    record: Record | None,
    endpoint: Endpoint,
    get: Callable[[Sequence[str]], Mapping[str, Record]],
    clean: Callable[[str], str] = str,
) -> Answer | Failure | None:
    """What the stored record under the request's key, and those of its later attempts (`get`), lead to; None where an
    attempt is still to be sent, at which the pending request then is. `clean` as in `next_attempt`.
    """
    while record is not None:
        key = pending.keys[-1]
        result = stored_step(pending, record, endpoint, clean)
        if result is not None or pending.keys[-1] == key:
            return result
        record = get(pending.keys[-1:]).get(pending.keys[-1])
    return None


def stored_step(
    pending: PendingRequest, record: Record | None, endpoint: Endpoint, clean: Callable[[str], str] = str
) -> Answer | Failure | None:
    """What the stored record of the present attempt leads to; None where an attempt is still to be sent: the next one,
    at which the pending request then is, or the present one if the record is missing or cannot be read.
    """
    completion = _completion(record) if record else None
    result = _result(pending, record, completion, endpoint, cached=True) if record else None
    if completion is not None and isinstance(result, str):
        next_attempt(pending, completion, result, endpoint, clean)
        return None
    assert not isinstance(result, str), "a record without a completion is a failure, or none"
    return result


def _completion(record: Record) -> Completion | None:
    """The completion in a record; None where it is a tombstone, or cannot be read."""
    return None if record.state == TOMBSTONE else read_completion(record.body)


def _result(
    pending: PendingRequest, record: Record, completion: Completion | None, endpoint: Endpoint, *, cached: bool
) -> Answer | Failure | str | None:
    """What a record with this completion means for the request: as `judge`; the Failure of a tombstone; None where
    the record cannot be read.
    """
    if record.state == TOMBSTONE:
        kind = TOMBSTONE_KINDS.get(record.code or "", "request")
        return Failure(kind, record.body.decode(), pending.keys[-1], sample=pending.sample)
    return None if completion is None else judge(pending, completion, endpoint, cached=cached)


def judge(
    pending: PendingRequest, completion: Completion, endpoint: Endpoint, *, cached: bool
) -> Answer | Failure | str:
    """As `judge_whole`; but where that is a Failure, and items of the list could be read in one of the replies, the
    answer that these make (`Request.salvage`).
    """
    found = judge_whole(pending, completion, endpoint, cached=cached)
    if pending.request.salvage and not isinstance(found, Answer):
        _salvage(pending, completion, endpoint, cached=cached)
        if isinstance(found, Failure) and found.kind in SALVAGED_KINDS:
            return pending.salvaged or found
    return found


def _salvage(pending: PendingRequest, completion: Completion, endpoint: Endpoint, *, cached: bool) -> None:
    """Note the answer that the readable items of this reply make, if it is better than those of the replies before:
    it has more items.
    """
    from longform.llm.read.salvage import salvaged, salvaged_items

    assert pending.request.reply is not None
    found = salvaged(completion.text, pending.request.reply)
    if found is None:
        return
    value, lost = found
    before = pending.salvaged
    if before is None or salvaged_items(value) > salvaged_items(before.value):
        pending.salvaged = _answer(pending, completion, endpoint, value, cached=cached, lost=lost)


def judge_whole(
    pending: PendingRequest, completion: Completion, endpoint: Endpoint, *, cached: bool
) -> Answer | Failure | str:
    """An Answer; a Failure that is final; or, where another attempt is due, a string that says what is wrong:
    "length", "whitespace", "empty", or in a phrase why the reply cannot be read in its form. `cached`: the reply comes
    from the store.

    Another attempt is due if the reply to the first one is cut off or empty, and if any but a repair cannot be read.
    After a refusal, by the server's field or by the reply's words, or a filter, none is due; the offline model never
    gets one.
    """
    request, text = pending.request, completion.text
    retries = pending.step == "first" and not endpoint.offline
    if completion.finish == "content_filter":
        return pending.failed("filter", "the reply was held back by a filter", completion)
    if completion.refusal:
        return pending.failed("refusal", scrub(completion.refusal), completion)
    if completion.finish == "length":
        return _judge_cut_off(pending, completion, endpoint, retries=retries)
    if not text.strip():
        return "empty" if retries else pending.failed("empty", "the reply is empty", completion)
    value: Any = None
    if request.reply is not None:
        from longform.llm.read.structured import form_of, read_reply

        value = read_reply(text, request.reply, form_of(request))
        if isinstance(value, str):
            if not (endpoint.offline or pending.step == "repair"):
                return value
            if refusal_in(text) is None:
                return pending.failed("invalid", value, completion)
            return pending.failed("refusal", DECLINES, completion)
    if not request.declines and _declines(text, value):
        return pending.failed("refusal", DECLINES, completion)
    if request.reply is None and request.whole:
        value = whole_reply(text)
        if value is None:
            return pending.failed("length", "the reply ends in the middle of a sentence", completion)
        if not value.strip():
            return pending.failed("empty", "the reply is empty", completion)
    if request.check and (flaw := request.check(value)):
        return pending.failed(*flaw, completion)
    if not endpoint.offline and (why := flaw_of(request, value)):
        return pending.failed("degenerate", f"the reply is {why}", completion)
    return _answer(pending, completion, endpoint, value, cached=cached)


def _answer(
    pending: PendingRequest, completion: Completion, endpoint: Endpoint, value: Any, *, cached: bool, lost: int = 0
) -> Answer:
    """The Answer of the present attempt, which was read into `value`."""
    return Answer(
        completion.text,
        pending.keys[-1],
        offline.recorded_name(endpoint, completion.served_model),
        completion.finish,
        completion.tokens[0],
        completion.tokens[2],
        cached,
        value,
        pending.sample,
        completion.logprobs,
        (completion.served_model or None, completion.fingerprint),
        lost,
    )


def _declines(text: str, value: Any) -> bool:
    """Whether a reply declines by its words: its text, or one of the texts of the model it was read into."""
    if value is None:
        return refusal_in(text) is not None
    for name in _free_fields(value.__class__):
        each = getattr(value, name)
        if isinstance(each, str) and refusal_in(each) is not None:
            return True
    return False


@cache
def _free_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of a model's fields, without those that are one of fixed choices."""
    return tuple(name for name, field in model.model_fields.items() if get_origin(field.annotation) is not Literal)


def _judge_cut_off(
    pending: PendingRequest, completion: Completion, endpoint: Endpoint, *, retries: bool
) -> Failure | str:
    """What a reply that reached its token limit leads to. With `retries` "whitespace", if its end is nearly all white
    space, else "length"; without, or for the offline model, the Failure. See `judge`.
    """
    if endpoint.offline:
        why = f"the reply is cut off at {pending.request.max_tokens} tokens"
        return pending.failed("length", why, completion)
    from longform.llm.read.structured import blank_tail

    kind: FailureKind = "whitespace" if blank_tail(completion.text) else "length"
    if retries:
        return kind
    cut_off = "the reply is cut off, also with twice the room"
    return pending.failed(kind, "the reply ran into white space" if kind == "whitespace" else cut_off, completion)


def _embedded(record: Record) -> Embedded:
    """The vector in a record, with what its reply said of itself."""
    return read_json(record.body).get("embedding"), record.served_model or None, record.fingerprint or None


def _with_own_seed(pending: PendingRequest, endpoint: Endpoint) -> str:
    """The body to send for the request. Where the endpoint has the capability `n`, all samples share a body; then the
    number of the sample is added to the body's seed, so that samples that are sent by themselves differ. Else, or
    without a seed, the body is unchanged.
    """
    if not pending.sample or "n" not in endpoint.capabilities:
        return pending.sent
    body = json.loads(pending.sent)
    if not isinstance(body.get("seed"), int):
        return pending.sent
    return canonical({**body, "seed": body["seed"] + pending.sample})


def _read_single(body: bytes) -> Replies | None:
    """The parts of the reply to a call for one sample: its body with its completion; None where it is no completion."""
    completion = read_completion(body)
    return None if completion is None else [(body, completion)]


class Client:
    """An endpoint as one stage uses it. `stage` and `recipe` (the fingerprint of its artifact) are written to the
    ledger. `note` is called with the store keys of the responses that were used.
    """

    def __init__(
        self, models: Shared, endpoint: Endpoint, stage: str, recipe: str, note: Callable[[Iterable[str]], None]
    ) -> None:
        self.models, self.endpoint, self.stage, self.recipe, self._note = models, endpoint, stage, recipe, note

    def ask(
        self, items: Iterable[tuple[T, Request]], *, room: Callable[[], int] = lambda: ALWAYS_ROOM
    ) -> Iterator[tuple[T, Answer | Failure]]:
        """Each item with its answer, in the order of the items; an item comes once for each sample of its request.
        `room`: how many further questions may be asked now. Where that is none, one is asked at a time, so that whoever
        collects all answers before looking at them gets them too.

        Raises EndpointError where the endpoint refuses to work at all, BudgetError where the budget is used up, and
        UsageError where the endpoint or the offline model cannot do what is asked. A request that got no answer for a
        passing reason is left out, and Incomplete is raised after all others were asked; at once where the endpoint is
        given up or the models are closed. Replies that arrived until then are stored.
        """
        if self.endpoint.offline:
            yield from ((item, self._offline(request, n)) for item, request in items for n in range(request.samples))
            return
        yield from self._ask_online(iter(items), room)

    def embed(
        self, texts: list[str], *, served: Callable[[str | None, str | None], None] = lambda *_: None
    ) -> list[list[float]]:
        """One vector for each text, in the order of the texts. Vectors are stored by text; missing ones are requested
        in calls of at most TEXTS_PER_CALL texts. `served` is called for each different text with the model and the
        fingerprint that its reply names.

        Raises EndpointError where the texts or the endpoint are refused, or vectors differ in length, BudgetError where
        the budget is used up, Incomplete where there was no answer for a passing reason, and UsageError for the offline
        model.
        """
        if self.endpoint.offline:
            raise UsageError(f"The endpoint {self.endpoint.name} has no embeddings: set one with a base_url for them.")
        dispatcher = self.models.dispatcher(self.endpoint)
        sent = {text: dispatcher.clean(embedding_sent(self.endpoint, text)) for text in texts}
        keys = {text: embedding_key(self.endpoint, body) for text, body in sent.items()}
        found: dict[str, Embedded] = {}
        while missing := [text for text in sent if text not in found]:  # again if others have asked for some
            found |= self._vectors(dispatcher, missing, keys, sent)
        self._note(keys.values())
        if len(lengths := {len(each[0]) for each in found.values()}) > 1:
            raise EndpointError(
                f"{dispatcher.named} gave vectors of {min(lengths):,} and of {max(lengths):,} numbers, which cannot be "
                "compared: give it another name, and all texts are embedded anew."
            )
        for text in sent:
            served(*found[text][1:])
        return [found[text][0] for text in texts]

    def _vectors(
        self, dispatcher: Dispatcher, texts: list[str], keys: dict[str, str], sent: dict[str, str]
    ) -> dict[str, Embedded]:
        """text -> its vector, stored or asked for now; without the texts that others ask for meanwhile, and those whose
        vector in the reply was of no use. `keys` and `sent`: text -> its key, its canonical body. The errors of
        `embed`.
        """
        vectors: dict[str, Embedded] = {}
        calls: list[_EmbeddingCall] = []
        others: set[_EmbeddingCall] = set()
        remaining = iter(texts)
        try:
            while chunk := list(islice(remaining, TEXTS_PER_CALL)):
                call = _EmbeddingCall(dispatcher, keys)
                calls.append(call)
                mine, theirs = call.claim(chunk)
                others |= theirs
                stored = self.models.store.replies([keys[text] for text in mine])
                found = {text: _embedded(stored[keys[text]]) for text in mine if keys[text] in stored}
                vectors |= {text: each for text, each in found.items() if isinstance(each[0], list)}
                call.ask(self, [text for text in mine if text not in vectors], sent)
            for call in calls:
                vectors |= call.result()
        except BaseException as error:  # whatever it is, others may wait for these
            for call in calls:
                call.give_up(dispatcher.as_ours(error))
            raise
        for other in others:
            other.wait()
        return vectors

    def _ask_online(
        self, items: Iterator[tuple[T, Request]], room: Callable[[], int]
    ) -> Iterator[tuple[T, Answer | Failure]]:
        """`ask` for an endpoint with an address. Requests are submitted ahead of the item whose answer is due: as many
        as there is room for, at most about four times the endpoint's concurrency, or 64 if that is more.
        """
        requests = PendingRequests(self.models, self.endpoint, self.stage, self.recipe)
        window: deque[tuple[T, PendingRequest]] = deque()
        most_ahead = max(4 * self.endpoint.concurrency, QUESTIONS_AT_ONCE)
        unanswered: list[Incomplete] = []
        more = True
        try:
            while more or window:
                number = min(QUESTIONS_AT_ONCE, room()) if more else 0
                if more and (number > 0 or not window):
                    chunk = list(islice(items, max(1, number)))
                    more = bool(chunk)
                    window.extend(requests.begin(chunk))
                    yield from self._results(requests, window, len(window) - most_ahead, unanswered)
                else:
                    least = 1 if more else min(len(window), QUESTIONS_AT_ONCE)
                    yield from self._results(requests, window, least, unanswered)
        except Incomplete as error:
            if not error.fault or error.unanswered:
                raise
            raise self._unanswered(error, len(unanswered) + len(window) + 1) from None
        finally:
            requests.withdraw([pending for _, pending in window])
        if unanswered:
            raise self._unanswered(unanswered[-1], len(unanswered))

    def _unanswered(self, last: Incomplete, number: int) -> Incomplete:
        """The error of the stage, so many of whose questions got no answer. A single one has its own sentence."""
        found = {self.stage: (number, last.fault or str(last).rstrip("."))}
        if number == 1:
            return Incomplete(str(last), fault=last.fault, step=last.step, unanswered=found)
        return unanswered_error(found, last.step)

    def _results(
        self,
        requests: PendingRequests,
        window: deque[tuple[T, PendingRequest]],
        least: int,
        unanswered: list[Incomplete],
    ) -> Iterator[tuple[T, Answer | Failure]]:
        """Take answered requests off the head of the window, and yield (item, result) of each, in order. Waits for at
        least the first `least` of them. Their keys are noted.

        A request that ended with Incomplete is not yielded: the error is added to `unanswered`, or raised if the
        endpoint was halted. Any other error is raised.
        """
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
        """The answer of the offline model's rules to one sample; nothing is stored or noted. UsageError where no rule
        answers the prompt.
        """
        key = chat_key(self.endpoint, canonical(body_of(self.endpoint, request, sample)), sample)
        effort = str(dict(self.endpoint.parameters).get("effort", ""))
        text, finish, input_tokens, output_tokens = offline.respond(self.models.offline, request, sample, effort)
        completion = Completion(finish, offline.MODEL, None, (input_tokens, 0, output_tokens), 0, text, "", None)
        result = judge(PendingRequest(request, sample, "", key), completion, self.endpoint, cached=False)
        assert not isinstance(result, str), "the offline model is asked once"
        return result


class _EmbeddingCall:
    """One call for the vectors of some texts, and its claim to them: while it is in the dispatcher's `pending`, other
    threads wait for it. `keys` maps a text to its key; it may have other texts as well.
    """

    def __init__(self, dispatcher: Dispatcher, keys: dict[str, str]) -> None:
        self._dispatcher, self._keys = dispatcher, keys
        self._claimed: list[str] = []
        self._texts: list[str] = []
        self._wanted, self._event = True, threading.Event()
        self._result: Result | None = None

    def claim(self, texts: list[str]) -> tuple[list[str], set[_EmbeddingCall]]:
        """(those of the texts that no other call of this process asks for, the calls that ask for the others)."""
        with self._dispatcher.lock:
            pending = {text: self._dispatcher.pending.get(self._keys[text]) for text in texts}
            self._claimed = [text for text in texts if pending[text] is None]
            self._dispatcher.pending |= {self._keys[text]: self for text in self._claimed}
        return self._claimed, {call for call in pending.values() if call is not None}

    def ask(self, client: Client, texts: list[str], sent: dict[str, str]) -> None:
        """Submit the call for these texts, of which there may be none. `sent`: text -> its canonical body."""
        if not texts:
            self._done([])
            return
        client.models.check_keys(client.endpoint)
        self._texts = texts
        body = self._dispatcher.clean(canonical(embedding_body(client.endpoint, texts)))
        call = Call(
            path=EMBEDDINGS,
            sent=on_wire(client.endpoint, EMBEDDINGS, body),
            keys=[self._keys[text] for text in texts],
            bases=[self._dispatcher.base(sent[text], "embeddings", "") for text in texts],
            stage=client.stage,
            recipe=client.recipe,
            input_bound=upper_bound(body),
            output_bound=0,
            tokens=len(body) // 4,
            most_bytes=embeddings_bound(len(texts), dict(client.endpoint.parameters).get("dimensions")),
            read=lambda reply: read_embeddings(reply, len(texts)),
            done=self._done,
            wanted=lambda: self._wanted,
        )
        self._dispatcher.submit([call])

    def _done(self, result: Result) -> None:
        """Keep the result of the call, give up its claim, and wake the threads that wait for it."""
        self._result = result
        with self._dispatcher.lock:
            for text in self._claimed:
                self._dispatcher.pending.pop(self._keys[text], None)
        self._event.set()

    def give_up(self, error: LongformError) -> None:
        """Nobody waits for the call here any more; if it was not submitted, it ends with the error."""
        self._wanted = False
        if not self._texts and not self._event.is_set():
            self._done(error)

    def wait(self) -> None:
        """Wait until the call has ended; Incomplete where the models are closed before."""
        self._dispatcher.wait(self._event)
        if self._result is None:
            raise broken_off()

    def result(self) -> dict[str, Embedded]:
        """Wait for the call, and return text -> vector, without those that were of no use; empty if another process has
        answered a part of it meanwhile. Raises the error that the call ended with, and EndpointError where the texts
        are refused.
        """
        self.wait()
        result = self._result
        assert result is not None
        if isinstance(result, LongformError):
            raise result
        if isinstance(result, list):
            parts = zip(self._texts, result, strict=True)
            return {text: _embedded(part[0]) for text, part in parts if part}
        if isinstance(result, LookAgain):
            return {}
        raise EndpointError(f"{self._dispatcher.named} embeds none of {len(self._texts)} texts: {result.message}.")
