"""Batch mode of a stage: its requests go through the provider's Batch API before the stage asks them itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from longform.errors import BudgetError
from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Endpoint, Request
from longform.llm.batch.files import is_answered
from longform.llm.batch.jobs import Counts, Item, Reply, prefetch
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.send.bodies import Bodies, chat_key, fields_of, read_completion, read_json
from longform.llm.send.dispatch import Dispatcher
from longform.llm.send.faults import fault_of, without_question

REASONS_SHOWN = 3

REQUESTS_AT_ONCE = 64


def prefetch_stage(
    dispatcher: Dispatcher,
    endpoint: Endpoint,
    requests: Iterable[Request],
    *,
    stage: str,
    recipe: str,
    folder: Path,
    say: Callable[[str], None],
    online: bool = False,
    at_most: int | None = None,
) -> dict[str, str]:
    """Have batch jobs answer the requests that have no stored reply, wait for the jobs to end, and return key -> a
    sentence for each one that has no answer now and may not be asked by a single call. With `online` it may, and
    the result is empty.

    `at_most`: only the first so many requests (a pilot), each sample counted as one.

    `endpoint` is as this stage uses it: the dispatcher's own endpoint may have other parameters. BudgetError where the
    budget had no room for all requests; the replies until then are stored. EndpointError where the endpoint refuses,
    Incomplete where it gives no answer for an hour or the models are closed: the jobs go on at the provider.
    """

    work = prefetch(
        dispatcher.wire(),
        dispatcher.store,
        endpoint,
        islice(_items(dispatcher, endpoint, requests), at_most),
        partial(_to_store, dispatcher),
        budget=dispatcher.budget,
        folder=folder,
        context={"stage": stage, "recipe": recipe},
        online=online,
        api_key=dispatcher.api_key,
        say=say,
    )
    counts = dispatcher.run(work)  # where it is broken off, the jobs go on at the provider, and it says so
    if counts.short_nano:
        raise BudgetError(dispatcher.out_of_money(counts.short_nano))
    return {} if online else dict.fromkeys(counts.unanswered, _waiting(counts, stage))


def _waiting(counts: Counts, stage: str) -> str:
    """The sentence for questions of a stage that wait for the next run: how many, why, and what to set."""
    reasons = Counter(counts.unanswered.values()).most_common()
    why = "; ".join(f"{number:,}: {reason}" for reason, number in reasons[:REASONS_SHOWN])
    more = "; and other reasons" if len(reasons) > REASONS_SHOWN else ""
    return (
        f"No batch answered {len(counts.unanswered):,} of the questions of {stage} ({why}{more}): run the same command "
        'again, or set unbatched = "online" to have such questions asked singly, at full price.'
    )


def from_first_unanswered(dispatcher: Dispatcher, endpoint: Endpoint, requests: Iterable[Request]) -> Iterator[Request]:
    """The requests from the first one on that has a sample without a stored reply or tombstone, or up to
    REQUESTS_AT_ONCE before that.
    """
    remaining = iter(requests)
    while chunk := list(islice(remaining, REQUESTS_AT_ONCE)):
        keys = [item.key for item in _items(dispatcher, endpoint, chunk)]
        stored = dispatcher.store.replies(keys)
        if not all(is_answered(stored.get(key)) for key in keys):
            yield from chain(chunk, remaining)


def _items(dispatcher: Dispatcher, endpoint: Endpoint, requests: Iterable[Request]) -> Iterator[Item]:
    """An item for each sample of each request: its key, its body, and the most it can cost in a batch (0 where the
    price is unknown).
    """
    bodies = Bodies(endpoint)
    for request in requests:
        for sample in range(request.samples):
            sent = dispatcher.clean(bodies.sent(request, sample))
            yield Item(
                chat_key(endpoint, sent, sample),
                sent,
                request.task,
                request.prompt,
                dispatcher.most_cost(upper_bound(sent), request.max_tokens, batch=True),
            )


def _to_store(
    dispatcher: Dispatcher, item: Item, context: Mapping[str, Any], reply: Reply
) -> tuple[Record | None, Paid | None]:
    """(record, line of the ledger) to be stored for a batch's reply. `context` has the names `stage` and `recipe` of
    who pays.

    A refusal for good gives a tombstone and no line, as does one that may be for good where other requests of the
    batch were answered; any other refusal gives neither. An unreadable reply gives both, the record with the code
    "unusable". Where the reply does not say its tokens, the item's bound is its cost; the cost is None where the price
    is unknown.
    """
    base = dispatcher.base(item.sent, item.task, item.prompt, request_id=reply.request_id, batch=True)
    if reply.status != 200:
        fault = fault_of(reply.status, reply.body, dispatcher.cleaner)
        if fault.then != "never" and not (fault.then == "unsure" and reply.others_answered):
            return None, None
        message = without_question(fault.message, item.sent)
        return Record(**base, state=TOMBSTONE, code=fault.kind, body=message.encode()), None
    body = dispatcher.cleaner.body(reply.body)
    completion = read_completion(body)
    if completion is not None:
        limit = read_json(item.sent.encode("utf-8", "surrogatepass")).get(fields_of(dispatcher.endpoint)[1])
        completion = dispatcher.believable(completion, upper_bound(item.sent), limit if type(limit) is int else 0)
    tokens = completion.tokens if completion else (0, 0, 0)
    cost = dispatcher.cost(*tokens, batch=True) if any(tokens) else item.bound_nano if dispatcher.price else None
    paid = dispatcher.paid(
        item.key,
        context.get("stage", ""),
        context.get("recipe", ""),
        tokens,
        cost,
        answered=completion is not None,
        batch=True,
        reasoning=completion.reasoning_tokens if completion else 0,
    )
    if completion is None:
        return Record(**base, body=body, code="unusable"), paid
    return Record(**base, body=body, cost_nano=cost, **completion.columns()), paid
