"""Batch mode of a stage: its requests go through the provider's Batch API before the stage asks them itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from longform.errors import BudgetError
from longform.llm.ask.tokens import upper_bound
from longform.llm.ask.types import Endpoint, Request
from longform.llm.batch.batched import Batched
from longform.llm.batch.files import is_answered
from longform.llm.batch.jobs import Counts, Item, Reply, prefetch
from longform.llm.batch.replies import choices_of, limit_of
from longform.llm.client import PendingRequest, stored_result, stored_step
from longform.llm.read.repeated import Repeats
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.send.bodies import Bodies, Completion, chat_key, read_completion, read_json
from longform.llm.send.dispatch import Dispatcher
from longform.llm.send.faults import fault_of, without_question

REASONS_SHOWN = 3
MOST_TOKENS = 100_000_000  # of a reply to a request that is not known any more
REQUESTS_AT_ONCE = 64


def prefetch_stage(
    dispatcher: Dispatcher,
    endpoint: Endpoint,
    items: Iterable[Item],
    *,
    stage: str,
    recipe: str,
    folder: Path,
    say: Callable[[str], None],
    online: bool = False,
) -> tuple[dict[str, str], int]:
    """Have batch jobs answer the items that have no stored reply, and wait for the jobs to end. Returns (key -> a
    sentence for each one that has no answer now and may not be asked by a single call, how many replies were stored).
    With `online` it may, and the first is empty.

    A question whose reply was of no use in `Dispatcher.failed_runs` runs ends as a failure.

    `endpoint` is as this stage uses it: the dispatcher's own endpoint may have other parameters. BudgetError where the
    budget had no room for all requests; the replies until then are stored. EndpointError where the endpoint refuses,
    Incomplete where it gives no answer for an hour or the models are closed: the jobs go on at the provider.
    """

    async def work() -> Counts:
        counts = await prefetch(
            dispatcher.wire(),
            dispatcher.store,
            endpoint,
            items,
            partial(_to_store, dispatcher),
            budget=dispatcher.budget,
            folder=folder,
            context={"stage": stage, "recipe": recipe},
            online=online,
            api_key=dispatcher.api_key,
            say=say,
        )
        if counts.useless and not online:
            await _give_up(dispatcher, counts)
        return counts

    counts = dispatcher.run(work())  # where it is broken off, the jobs go on at the provider, and it says so
    if counts.short_nano:
        raise BudgetError(dispatcher.out_of_money(counts.short_nano))
    left = {} if online else dict.fromkeys(counts.unanswered, _waiting(counts, stage))
    return left, counts.stored


async def _give_up(dispatcher: Dispatcher, counts: Counts) -> None:
    """Count the run for those questions whose replies were of no use. Those for which it was the last one get a
    tombstone, and are not unanswered any more.
    """
    faults = {key: counts.unanswered[key] for key in counts.useless}
    runs = await dispatcher.store.note_failed(faults, dispatcher.ledger_run)
    over = [key for key in faults if runs.get(key, 0) >= dispatcher.failed_runs]
    stored = await asyncio.to_thread(dispatcher.store.get, over)
    stones = [
        (key, replace(record, state=TOMBSTONE, code="unanswered", body=faults[key].encode(), created=None))
        for key, record in stored.items()
    ]
    await dispatcher.store.put(stones)
    for key, _ in stones:
        del counts.unanswered[key]


def _waiting(counts: Counts, stage: str) -> str:
    """The sentence for questions of a stage that wait for the next run: how many, why, and what to set."""
    reasons = Counter(counts.unanswered.values()).most_common()
    why = "; ".join(f"{number:,}: {reason}" for reason, number in reasons[:REASONS_SHOWN])
    more = "; and other reasons" if len(reasons) > REASONS_SHOWN else ""
    return (
        f"No batch answered {len(counts.unanswered):,} of the questions of {stage} ({why}{more}): run the same command "
        'again, or set unbatched = "online" to have such questions asked singly, at full price.'
    )


def first_attempts(dispatcher: Dispatcher, endpoint: Endpoint, requests: Iterable[Request]) -> Iterator[Item]:
    """The first attempts at each sample of each request, from the first one on that has no stored reply or tombstone,
    or up to REQUESTS_AT_ONCE requests before that.
    """
    samples = _samples(dispatcher, endpoint, requests)
    while chunk := list(islice(samples, REQUESTS_AT_ONCE)):
        stored = dispatcher.store.replies([each.key for each in chunk])
        if not all(is_answered(stored.get(each.key)) for each in chunk):
            yield from (_item(dispatcher, endpoint, each) for each in chain(chunk, samples))


def due_attempts(
    dispatcher: Dispatcher,
    endpoint: Endpoint,
    requests: Iterable[Request],
    batched: Batched,
    wants: Callable[[str], bool],
) -> Iterator[Item]:
    """The attempts that are due at each sample of each request: the first, where it has no stored reply; the next,
    where the stored reply is cut off, empty or not in the form; those again that led to a stored failure of a kind
    that the user `wants` asked again, or to a reply that repeats one, which are added to `batched`. Without questions that the batches have left.
    """
    get, repeats = dispatcher.store.replies, Repeats()
    samples = _samples(dispatcher, endpoint, requests)
    while chunk := list(islice(samples, REQUESTS_AT_ONCE)):
        stored = get([each.key for each in chunk])
        for each in chunk:
            result = stored_result(each, stored.get(each.key), endpoint, get, dispatcher.clean)
            wanted = result is not None and repeats.is_wanted_again(each.request, result, wants)
            again = wanted and _go_back(each, batched, dispatcher, endpoint)
            if (result is None or again) and each.keys[-1] not in batched.left:
                batched.again |= {each.keys[-1]} if again else set()
                yield _item(dispatcher, endpoint, each, again=again)


def _go_back(pending: PendingRequest, batched: Batched, dispatcher: Dispatcher, endpoint: Endpoint) -> bool:
    """Set the pending request to its first attempt that was not asked again in this run; False where all were."""
    keys = pending.keys
    pending.start_over()
    for key in keys:
        if key not in batched.again:
            return True
        if key in batched.left:
            return False
        record = dispatcher.store.replies([key]).get(key)
        if stored_step(pending, record, endpoint, dispatcher.clean) is not None:
            return False
    return False


def _samples(dispatcher: Dispatcher, endpoint: Endpoint, requests: Iterable[Request]) -> Iterator[PendingRequest]:
    """Each sample of each request, at its first attempt."""
    bodies = Bodies(endpoint)
    for request in requests:
        for sample in range(request.samples):
            sent = dispatcher.clean(bodies.sent(request, sample))
            yield PendingRequest(request, sample, sent, chat_key(endpoint, sent, sample))


def _item(dispatcher: Dispatcher, endpoint: Endpoint, pending: PendingRequest, *, again: bool = False) -> Item:
    """The attempt at which the request is, with the most it can cost in a batch (0 where the price is unknown)."""
    most = dispatcher.most_cost(upper_bound(pending.sent), pending.limit, batch=True)
    return Item(pending.keys[-1], pending.sent, pending.request.task, pending.request.prompt, most, again)


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
    completion = None if reply.too_large else read_completion(body)
    completion = completion and _believable(dispatcher, item, completion)
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


def _believable(dispatcher: Dispatcher, item: Item, completion: Completion) -> Completion:
    """The completion with the tokens that can be, by what was asked. Where nobody knows that any more, tokens that
    cost more than the item's bound count as not said.
    """
    asked = read_json(item.sent.encode("utf-8", "surrogatepass"))
    if (limit := limit_of(asked)) is not None:
        number = choices_of(asked)
        return dispatcher.believable(completion, upper_bound(item.sent), limit * number, number)
    cost = dispatcher.cost(*completion.tokens, batch=True)
    if sum(completion.tokens) <= MOST_TOKENS and (cost is None or cost <= item.bound_nano):
        return completion
    dispatcher.tell_untrue("a reply is dearer than its request can be")
    return replace(completion, tokens=(0, 0, 0), reasoning_tokens=0)
