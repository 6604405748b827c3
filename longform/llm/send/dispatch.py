"""Sending single requests, with their retries (those of batches are in longform/llm/batch/remote.py). Calls that wait
for the endpoint's gate or for money in the budget occupy no slot of its concurrency.

A reply is committed to the response store, with a line of the ledger, before it is handed on. A call that fails for a
passing reason is sent again: up to 20 times where the endpoint is busy (429), 6 times where it fails (5xx, no
connection), 3 times where the reply was lost on the way, as it may have been billed. A request that can never be
answered leaves a tombstone. A refused key, an empty account or an unknown model stops the endpoint; replies to requests
in flight are still waited for and stored.

The pause before a call is sent again is drawn in `_retry_later`. Retry-After is read in longform/llm/send/wire.py; the
pause of all calls is in longform/llm/gate/limits.py.

`submit`, `drop_unwanted`, `wake`, `wait`, `run` and `refuse` may be called from any thread. Sending and what follows it
run in the event loop of the models' thread.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from longform.errors import BudgetError, EndpointError, Incomplete, LongformError, StoreError
from longform.llm.ask.types import Endpoint, broken_off
from longform.llm.gate.limits import Gate
from longform.llm.gate.sharing import SharedGate
from longform.llm.price import NANO, Budget, cost_nano, price_of
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.responses.store import ResponseStore
from longform.llm.send.bodies import ReplyFacts
from longform.llm.send.faults import (
    Fault,
    fault_of,
    is_busy,
    remedy,
    status_within,
    unusable,
    without_question,
)
from longform.llm.send.secrets import cleaner_of
from longform.llm.send.wire import Outcome, Wire

if TYPE_CHECKING:
    import httpx2

TRIES = {"rate": 20, "server": 6, "unknown": 3}
LONGEST_CALL_PAUSE_SECONDS = 60.0
LONGEST_RETRY_AFTER_SECONDS = 900.0
UNSURE_AT_FIRST = 3
OTHER_PROCESS_SECONDS = 0.5
GRACE_SECONDS = 5.0
BREAK_OFF_SECONDS = 2.0  # after GRACE_SECONDS: for cancelled calls to end, then for connections to close
LOOK_SECONDS = 0.5

Replies = Sequence[tuple[bytes, ReplyFacts]]
Verdict = Literal["ok", "rate", "server", "unknown", "other"]
Result = list[tuple[Record, ReplyFacts | None]] | Fault | LongformError
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Call:
    """One request to send, and the records to be made from its reply: one for each key, or fewer where the reply has
    fewer parts.

    `bases`: what is known of each record beforehand. `input_bound` and `output_bound`: upper bounds of the tokens that
    are paid. `tokens`: about how many tokens the server's rate limit counts (prompt and longest reply). `read` splits
    the reply's body into (body, facts) for each record; None where it is malformed. `done` is called with the result:
    for each record (record, facts; None if it was stored before), a Fault (the request is refused for good) or an
    error (there is no reply now). `wanted`: whether anybody waits for it. `again`: send it also where a usable reply
    is stored, and replace that. `tries`: kind of failure -> attempts that failed so. `reserved`: money set aside for
    it, in billionths of a US dollar.
    """

    path: str
    sent: str
    keys: Sequence[str]
    bases: Sequence[dict[str, Any]]
    stage: str
    recipe: str
    input_bound: int
    output_bound: int
    tokens: int
    read: Callable[[bytes], Replies | None]
    done: Callable[[Result], None]
    wanted: Callable[[], bool]
    again: bool = False
    tries: dict[str, int] = field(default_factory=dict)
    reserved: int = 0


class Dispatcher:
    """Sends the calls of all users of an endpoint in this process. `halted` is the error that all waiting and later
    calls get, None while calls are sent. `over` is set when the models are closed.

    `pending`: store key -> the question that is being answered, which equal ones join; guarded by `lock`. `answered`
    counts replies. `one_by_one`: the server has returned fewer samples than were asked for in one call.
    `retry_errors`: questions whose stored result is a failure are to be asked again. `run` and `dataset` are written
    to the ledger.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        store: ResponseStore,
        budget: Budget,
        loop: asyncio.AbstractEventLoop,
        *,
        api_key: str | None,
        retry_errors: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
        first_pause_seconds: float = 1.0,
        run: str = "",
        dataset: str = "",
    ) -> None:
        self.endpoint, self.store, self.budget = endpoint, store, budget
        self.lock = threading.RLock()  # garbage may be collected, and let go of its questions, inside it
        self.over = threading.Event()
        self.pending: dict[str, Any] = {}  # key -> the request that is on its way; guarded by the lock
        self.cleaner = cleaner_of(api_key)
        self.price = price_of(endpoint)
        self.gate = Gate(endpoint.concurrency, rpm=endpoint.rpm, tpm=endpoint.tpm)
        self.halted: LongformError | None = None
        self.answered = 0
        self.one_by_one = False
        self.loop, self.api_key, self.retry_errors, self._transport = loop, api_key, retry_errors, transport
        self._first_pause_seconds, self._run, self._dataset = first_pause_seconds, run, dataset
        self._wire: Wire | None = None
        self._wiring = threading.Lock()
        self._inbox: deque[Call] = deque()
        self._queue: deque[Call] = deque()
        self._later: set[Call] = set()  # after a pause
        self._tasks: set[asyncio.Task[None]] = set()
        self._works: set[Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        self._worked = False
        self._unsure = self._storing = 0
        self._leases = not store.exclusive
        self._shared = (
            SharedGate(
                endpoint.name,
                endpoint.concurrency,
                self.gate,
                store.allowances,
                demand=lambda: len(self._queue) + len(self._inbox) + len(self._later) + self.gate.in_flight,
                changed=self._pump,
                failed=self._cannot_share,
            )
            if store.allowances
            else None
        )

    def _cannot_share(self, error: StoreError) -> None:
        """Halt the endpoint with this error of the store, where the processes' shares of the endpoint are kept."""
        self.halted = self.halted or error
        self._pump()

    def check_key(self) -> None:
        """Raise EndpointError where the endpoint names a variable for its API key and that is not set."""
        if self.endpoint.key_env and not self.api_key:
            raise EndpointError(
                f'The key {self.endpoint.key_env} of endpoint "{self.endpoint.name}" is not set. '
                "Set it, or use another endpoint."
            )

    # from any thread

    def submit(self, calls: Sequence[Call]) -> None:
        """Queue calls; returns at once. Each call's `done` is called later, in the event loop."""
        self._inbox.extend(calls)
        self.wake()

    def drop_unwanted(self) -> None:
        """Drop the calls that are not in flight (not sent yet, or to be sent again) and that nobody waits for any
        more; their `done` gets Incomplete. Returns at once.
        """
        self._soon(self._drop_unwanted)

    def wake(self) -> None:
        """Have the event loop send what may be sent; returns at once."""
        if not self._pumping:
            self._pumping = True
            self._soon(self._pump)

    def _soon(self, work: Callable[[], None]) -> None:
        """Run `work` in the event loop; where that is closed, refuse all calls."""
        try:
            self.loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop is closed
            self.refuse()

    def wait(self, answered: threading.Event) -> None:
        """Block until the event is set, or until the models are closed; then the event may not be set.

        Returns at once in the event loop's own thread, which must not wait for itself: garbage collection there may
        close a generator that still waits.
        """
        while not self._in_loop() and not self.over.is_set() and not answered.wait(LOOK_SECONDS):
            pass

    def _in_loop(self) -> bool:
        """Whether this is the thread of the event loop."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:  # no loop in this thread
            return False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the event loop, wait, and return its result; its errors are raised. Incomplete where
        the models are closed before it ends.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise broken_off() from None
        self._works.add(future)
        try:
            while not self.over.is_set() and not wait([future], LOOK_SECONDS).done:
                pass
            return future.result(0)
        except (CancelledError, TimeoutError):
            if future.done() and not future.cancelled():
                raise  # a time-out of the work's own
            raise broken_off() from None
        finally:
            self._works.discard(future)
            future.cancel()

    def refuse(self) -> None:
        """Once the models are closed: wake all who wait, and end the calls submitted since with the error that halted
        the endpoint, or Incomplete.
        """
        self.over.set()
        self._pumping = False
        with suppress(IndexError):
            while True:
                self._inbox.popleft().done(self.halted or broken_off())

    # in the loop

    async def close(self) -> None:
        """Refuse waiting calls, give those in flight five seconds to end and be stored, cancel the rest, and close the
        connections. Takes 9 seconds at most.
        """
        self.halted = self.halted or broken_off()
        self._pump()
        for work in list(self._works):
            work.cancel()
        for seconds in (GRACE_SECONDS, BREAK_OFF_SECONDS):
            if self._tasks:
                await asyncio.wait(set(self._tasks), timeout=seconds)
            for task in self._tasks:
                task.cancel()
        ends: list[SharedGate | Wire | None] = [self._shared, self._wire]
        with suppress(TimeoutError):
            async with asyncio.timeout(BREAK_OFF_SECONDS):
                await asyncio.gather(*(each.close() for each in ends if each))

    def wire(self) -> Wire:
        """The endpoint's connections, opened by the first caller; for any thread."""
        with self._wiring:
            self._wire = self._wire or Wire(self.endpoint, self.api_key, self._transport)
            return self._wire

    def _pump(self) -> None:
        """Send queued calls in their order, as far as gate and budget allow, and while fewer than the concurrency and
        a tenth are in flight or being stored. The rest is tried again at a set time, or when a call ends. Once the
        endpoint is halted, or the gate has given its server up (which halts it with Incomplete), all queued calls end
        with that error.
        """
        self._pumping = False
        self._move_submitted()
        if self._shared and self._queue:
            self._shared.need()
        most = self.endpoint.concurrency
        while self._queue:
            if self.halted is None and self.gate.broken:
                self.halted = Incomplete(
                    f"{self.named} keeps failing and is left alone: answers so far are stored, "
                    "run the same command again."
                )
            if self.halted is not None:
                self._queue.popleft().done(self.halted)
                continue
            call = self._queue[0]
            wait = self.gate.wait(call.tokens)
            # a kill loses replies that are not committed yet as well: no more than may be in flight, and a tenth
            if wait > 0 or self.gate.in_flight + self._storing >= most + most // 10:
                self._schedule_pump(wait)
                return
            if not self._afford(call):
                return
            self._queue.popleft()
            task = self.loop.create_task(self._attempt(call, self.gate.admit(call.tokens)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _move_submitted(self) -> None:
        """Move newly submitted calls to the end of the queue. Once halted, also move the calls that wait out a pause
        to its front.
        """
        while self._inbox:
            self._queue.append(self._inbox.popleft())
        if self.halted:
            self._queue.extendleft(self._later)
            self._later.clear()

    def _drop_unwanted(self) -> None:
        """Drop the calls that are not in flight and that nobody waits for: their `done` gets Incomplete. Then send
        what may be sent.
        """
        self._move_submitted()
        dropped = {call for call in (*self._queue, *self._later) if not call.wanted()}
        self._queue = deque(call for call in self._queue if call not in dropped)
        self._later.difference_update(dropped)
        for call in dropped:
            call.done(Incomplete("No longer wanted."))
        self._pump()

    def _schedule_pump(self, seconds: float) -> None:
        """Call `_pump` after so many seconds, in place of a time set before; not at all for 0 or infinity, as it is
        called when a call ends.
        """
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._pump) if 0 < seconds < math.inf else None

    def _afford(self, call: Call) -> bool:
        """Whether money for the call was reserved. If not: while other calls have money reserved, `wake` is called
        when some is freed; else the endpoint is halted with a BudgetError.
        """
        cost = self.cost(call.input_bound, 0, call.output_bound) or 0
        reserved = self.budget.reserve(cost)
        if reserved is not None:
            call.reserved = reserved
            return True
        if self.budget.has_reservations:
            self.budget.freed.append(self.wake)
        else:
            self.halted = BudgetError(self.out_of_money(cost))
            self.wake()
        return False

    async def _attempt(self, call: Call, ticket: int) -> None:
        """Send the call once, if this process gets the lease of its keys, and handle the outcome; an error of any kind
        ends the call. `ticket` is its number at the gate, where its slot is free as soon as the reply is here, before
        that is stored.
        """
        verdict: Verdict = "other"
        outcome: Outcome | None = None
        try:
            if self._leases and not await self._leased(call):
                self.wake()  # once the slot is free
                return
            outcome = await self.wire().post(call.path, call.sent)
            replies = _read(call, outcome)
            if replies is None and outcome.status == 200:
                outcome = replace(outcome, status=status_within(outcome.body))
            verdict = _verdict(outcome, replies)
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, the one who asked must hear of it
            self._settle(call, None)
            call.done(self.as_ours(error))
            self.wake()
            return
        finally:
            headers = outcome.headers if outcome else None
            self.gate.release(ticket, verdict, headers, outcome.retry_after if outcome else None)
            if verdict == "ok":
                self._storing += 1
                self._pump()
        try:
            await self._received(call, outcome, replies, verdict)
        except (Exception, asyncio.CancelledError) as error:
            call.done(self.as_ours(error))
        if verdict != "ok":
            self._pump()

    async def _leased(self, call: Call) -> bool:
        """Whether this process has the lease of all the call's keys, so that it may send the call. If not, another
        process is asking, or has asked: the call ends with the stored records if all are there (unless it is to be
        asked again), or is queued again after OTHER_PROCESS_SECONDS.
        """
        granted = await self.store.lease(call.keys, again=call.again)
        if len(granted) == len(call.keys):
            return True
        await self.store.release(sorted(granted))
        self._settle(call, None)
        found = {} if call.again else await asyncio.to_thread(self.store.get, call.keys)
        if len(found) == len(call.keys):
            call.done([(found[key], None) for key in call.keys])
        else:
            self._after(OTHER_PROCESS_SECONDS, call)
        return False

    async def _received(self, call: Call, outcome: Outcome, replies: Replies | None, verdict: Verdict) -> None:
        """Handle the outcome of an attempt. `replies`: stored, and the call ends with them.

        None (refused, lost or malformed): its money is settled, and by `Fault.then` the endpoint is halted ("stop");
        or the call ends with the Fault ("never", "unsure"), which is stored as a tombstone (a record that the request
        has failed for good), for "unsure" only if a call has worked before; or the call is sent again later, up to a
        number of tries ("again"). `verdict`: what `_verdict` says of the outcome.
        """
        if replies is not None:
            try:
                await self._keep(call, outcome, replies)
            finally:
                self._storing -= 1
                if self._queue:
                    self.wake()
            return
        fault = self._fault(outcome)
        fault = fault._replace(message=without_question(fault.message, call.sent))
        await self._book_loss(call, outcome, verdict)
        if fault.then == "stop":
            self.halted = self.halted or EndpointError(
                f"{self.named} refused a request for the model {self.endpoint.model} ({fault.message}): "
                f"{remedy(fault, self.endpoint)}. Answers so far are stored."
            )
            await self._end_with_error(call, self.halted)
            self._pump()
        elif fault.then in ("never", "unsure"):
            if fault.then == "never" or self._worked:
                stone: dict[str, Any] = {"state": TOMBSTONE, "code": fault.kind, "body": fault.message.encode()}
                pairs = zip(call.keys, call.bases, strict=True)
                await self.store.put([(key, Record(**base, **stone)) for key, base in pairs])
            call.done(fault)
        else:
            await self._retry_later(call, outcome, fault, verdict)

    async def _keep(self, call: Call, outcome: Outcome, replies: Replies) -> None:
        """Commit the replies and a line of the ledger, settle the money, then call `done` with the records. Where the
        server does not say how many tokens it used, the cost is the amount reserved.
        """
        self._worked = True
        self.answered += len(replies)
        pairs = zip(call.bases, replies, strict=False)
        records: list[tuple[Record, ReplyFacts | None]] = [
            (self._record(base, outcome, body, facts), facts) for base, (body, facts) in pairs
        ]
        used = [sum(facts.tokens[i] for _, facts in replies) for i in range(3)]
        cost = self.cost(*used) if any(used) else call.reserved if self.price else None
        paid = self.paid(call.keys[0], call.stage, call.recipe, used, cost, answered=True)
        await self.store.put([(key, record) for key, (record, _) in zip(call.keys, records, strict=False)], [paid])
        if self._leases and len(records) < len(call.keys):
            await self.store.release(list(call.keys[len(records) :]))
        self._settle(call, cost or 0)
        call.done(records)

    def base(self, sent: str, task: str, prompt: str, **columns: Any) -> dict[str, Any]:
        """Fields of a record that are known before there is a reply, by name. `sent` is the request's body; `columns`
        are further fields.
        """
        asked = {"task": task, "prompt": prompt, "request": sent.encode()}
        return {"endpoint": self.endpoint.name, "model": self.endpoint.model, **asked, **columns}

    def _record(self, base: dict[str, Any], outcome: Outcome, body: bytes, facts: ReplyFacts | None) -> Record:
        """The record of a reply; where `facts` is None, of a malformed one, with the code "unusable"."""
        stored = {**base, "body": body, "milliseconds": outcome.milliseconds}
        if facts is None:
            return Record(**stored, request_id=outcome.request_id, code="unusable")
        return Record(**stored, request_id=outcome.request_id, cost_nano=self.cost(*facts.tokens), **facts.columns())

    def cost(self, input_tokens: int, cached_tokens: int, output_tokens: int, *, batch: bool = False) -> int | None:
        """The cost in billionths of a US dollar, None where the price is unknown. `cached_tokens` are part of
        `input_tokens`. `batch`: at the price of a batch.
        """
        return cost_nano(self.price, input_tokens, cached_tokens, output_tokens, batch=batch) if self.price else None

    async def _book_loss(self, call: Call, outcome: Outcome, verdict: Verdict) -> None:
        """Settle the money of an attempt without a usable reply. A reply that was lost or malformed may have been
        billed: the amount reserved counts as spent, with a line of the ledger. A malformed reply to a call of one key
        is stored until a good one replaces it.
        """
        maybe = verdict == "unknown" or outcome.status == 200
        if maybe:
            came = outcome.status == 200 and len(call.keys) == 1
            kept = [(call.keys[0], self._record(call.bases[0], outcome, outcome.body, None))] if came else []
            cost = call.reserved if self.price else None
            paid = self.paid(call.keys[0], call.stage, call.recipe, (0, 0, 0), cost, answered=False)
            await self.store.put(kept, [paid])
        self._settle(call, call.reserved if maybe else None)

    def paid(
        self,
        key: str,
        stage: str,
        recipe: str,
        tokens: Sequence[int],
        cost: int | None,
        *,
        answered: bool,
        batch: bool = False,
    ) -> Paid:
        """A line of the ledger for one call; it is not written here. `tokens`: (of the prompt, of these cached, of the
        reply); `cost` in billionths of a US dollar, None if the price is unknown; `answered`: False for a call whose
        reply was lost or unusable.
        """
        return Paid(
            run=self._run,
            dataset=self._dataset,
            stage=stage,
            recipe=recipe,
            endpoint=self.endpoint.name,
            model=self.endpoint.model,
            key=key,
            answered=answered,
            input_tokens=tokens[0],
            cached_tokens=tokens[1],
            output_tokens=tokens[2],
            cost_nano=cost,
            batch=batch,
        )

    def _settle(self, call: Call, spent: int | None) -> None:
        """Replace the call's reserved money by what was `spent` (billionths of a US dollar); None: it was not billed,
        and does not count as a call.
        """
        reserved, call.reserved = call.reserved, 0
        self.budget.settle(reserved, spent or 0, calls=spent is not None, stage=call.stage)

    def _fault(self, outcome: Outcome) -> Fault:
        """What an outcome without a usable reply means: send again, if the status is 200. Refusals for an unknown
        reason stop the endpoint from the UNSURE_AT_FIRST-th on, if no call has worked yet.
        """
        if outcome.status == 200:
            return Fault("again", "request", unusable(outcome.body), 200)
        fault = fault_of(outcome.status, outcome.body, self.cleaner)
        self._unsure += fault.then == "unsure"
        if fault.then == "unsure" and not self._worked and self._unsure >= UNSURE_AT_FIRST:
            return fault._replace(then="stop")
        return fault

    async def _retry_later(self, call: Call, outcome: Outcome, fault: Fault, verdict: Verdict) -> None:
        """Send the call again after a pause, which is random and grows, up to LONGEST_CALL_PAUSE_SECONDS. With a
        Retry-After it is that and up to a quarter more; unless the server is busy (429), at least the random pause.

        After more failures of its kind than TRIES allows the call ends with Incomplete; a Retry-After of more than 15
        minutes halts the endpoint with Incomplete.
        """
        kind = verdict if verdict in TRIES else "server"
        tried = call.tries[kind] = call.tries.get(kind, 0) + 1
        asked = outcome.retry_after or 0
        if asked > LONGEST_RETRY_AFTER_SECONDS:
            self.halted = self.halted or Incomplete(
                f"{self.named} asks to be left alone for {asked / 3600:.1f} hours ({fault.message}): "
                "answers so far are stored, run the same command again then."
            )
            await self._end_with_error(call, self.halted)
            return
        if tried > TRIES[kind]:
            gave_up = (
                f"{self.named} gave no answer in {sum(call.tries.values())} tries (at last: {fault.message}): "
                "answers so far are stored, run the same command again."
            )
            await self._end_with_error(call, Incomplete(gave_up))
            return
        pause = random.uniform(0, min(LONGEST_CALL_PAUSE_SECONDS, self._first_pause_seconds * 2 ** (tried - 1)))
        if outcome.retry_after is not None:
            asked *= random.uniform(1, 1.25)
            pause = asked if kind == "rate" else max(pause, asked)
        self._after(pause, call)

    async def _end_with_error(self, call: Call, error: LongformError) -> None:
        """Release the leases of the call's keys, and end the call with this error."""
        if self._leases:
            await self.store.release(list(call.keys))
        call.done(error)

    def _after(self, seconds: float, call: Call) -> None:
        """Queue the call again after so many seconds, at the front. Sends what may be sent meanwhile."""
        self._later.add(call)
        self.loop.call_later(seconds, self._pause_is_over, call)
        self._pump()

    def _pause_is_over(self, call: Call) -> None:
        """Put the call at the front of the queue, unless it was dropped or ended during its pause, and send what may
        be sent.
        """
        if call in self._later:
            self._later.remove(call)
            self._queue.appendleft(call)
            self._pump()

    def clean(self, sent: str) -> str:
        """The body of a request without keys: a source's text might contain one."""
        return self.cleaner.sent(sent)

    # messages

    def as_ours(self, error: BaseException) -> LongformError:
        """The error itself if it is a LongformError, else the error that halted the endpoint, or an Incomplete with
        its type.
        """
        if isinstance(error, LongformError):
            return error
        return self.halted or Incomplete(
            f"{self.named}: a call failed ({type(error).__name__}), run the same command again."
        )

    @property
    def named(self) -> str:
        """The endpoint in messages: its name in quotes, after "The endpoint"."""
        return f'The endpoint "{self.endpoint.name}"'

    def out_of_money(self, cost: int) -> str:
        """The message of a BudgetError, where the next call may cost so many billionths of a US dollar."""
        cap = (self.budget.cap_nano or 0) / NANO
        spent = self.budget.spent_nano / NANO
        return (
            f"Stopped at USD {spent:,.{_digits(cap)}f} of {cap:,.{_digits(cap)}f}: the next call to "
            f'"{self.endpoint.name}" may cost up to USD {cost / NANO:.{_digits(cost / NANO)}f}. What was answered is '
            "stored; run the same command, or one with a higher --max-cost, to go on from there."
        )


def _digits(amount: float) -> int:
    """How many decimals of an amount in US dollars are shown."""
    return 2 if amount >= 1 else 4 if amount >= 0.01 else 6


def _read(call: Call, outcome: Outcome) -> Replies | None:
    """The reply's parts, by the call's `read`; None where the status is not 200, or the body is malformed in whatever
    way.
    """
    if outcome.status != 200:
        return None
    try:
        return call.read(outcome.body)
    except Exception:  # a shape nobody thought of is an unusable reply, not the end of the run
        return None


def _verdict(outcome: Outcome, replies: Replies | None) -> Verdict:
    """What the outcome tells the gate: "ok"; "rate" (the server is busy, or still loads the model); "server" (it
    failed, gave a malformed reply or could not be reached); "unknown" (a reply may be lost); or "other" (it refused
    this request).
    """
    if outcome.status == 200:
        return "ok" if replies is not None else "server"
    if outcome.status == 0:
        return "unknown" if outcome.sent else "server"
    if is_busy(outcome.status, outcome.body):
        return "rate"
    return "server" if outcome.status >= 500 or outcome.status in (408, 409, 425) else "other"
