"""Sending single requests (those of batches are in longform/llm/batch/remote.py): what the machine of
longform/llm/send/machine.py says, done with connections, the response store and timers.

A reply is committed to the response store, with a line of the ledger, before it is handed on. Retry-After is read in
longform/llm/send/wire.py; the pause of all calls is in longform/llm/gate/limits.py.

`submit`, `drop_unwanted`, `wake`, `wait`, `run` and `refuse` may be called from any thread. Sending and what follows it
run in the event loop of the models' thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from longform.errors import Incomplete, LongformError
from longform.llm.ask.types import Endpoint, broken_off
from longform.llm.gate.limits import Gate
from longform.llm.gate.sharing import SharedGate
from longform.llm.price import Budget, cost_nano, price_of
from longform.llm.responses.records import TOMBSTONE, Paid, Record
from longform.llm.responses.store import ResponseStore
from longform.llm.send.bodies import ReplyFacts
from longform.llm.send.calls import Call, Replies, Result
from longform.llm.send.faults import remedy, status_within
from longform.llm.send.machine import Actions, Claim, End, Keep, Machine, Note, Release, Send, Wake
from longform.llm.send.secrets import cleaner_of
from longform.llm.send.usage import bounded_usage, most_output
from longform.llm.send.wire import Outcome, Wire, address_of

if TYPE_CHECKING:
    from longform.llm.send.connections import Transport

GRACE_SECONDS = 5.0
BREAK_OFF_SECONDS = 2.0  # after GRACE_SECONDS: for cancelled calls to end, then for connections to close
LOOK_SECONDS = 0.5
UNUSABLE = "unusable"

T = TypeVar("T")
Facts = TypeVar("Facts", bound=ReplyFacts)


class Dispatcher:
    """Sends the calls of all users of an endpoint in this process. `halted` is the error that all waiting and later
    calls get, None while calls are sent. `over` is set when the models are closed.

    `pending`: store key -> the question that is being answered, which equal ones join; guarded by `lock`. `answered`
    counts replies. `one_by_one`: the server has returned fewer samples than were asked for in one call.
    `run` (`ledger_run`) and `dataset` are written to the ledger. `failed_runs`: in how many runs a call may fail before
    it counts as never answered. `say` is called with what the user should know, from the event loop.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        store: ResponseStore,
        budget: Budget,
        loop: asyncio.AbstractEventLoop,
        *,
        api_key: str | None,
        transport: Transport | None = None,
        first_pause_seconds: float = 1.0,
        failed_runs: int = 3,
        say: Callable[[str], None] = lambda _: None,
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
        self.answered = 0
        self.one_by_one = False
        self._say, self._told_of_usage = say, False
        self.loop, self.api_key, self._transport = loop, api_key, transport
        self.ledger_run, self._dataset, self.failed_runs = run, dataset, failed_runs
        self._machine = Machine(
            self.gate,
            budget,
            cost=self._bound,
            name=endpoint.name,
            address=address_of(endpoint.base_url or ""),
            model=endpoint.model,
            explain=partial(remedy, endpoint=endpoint),
            leases=not store.exclusive,
            most=endpoint.concurrency,
            failed_runs=failed_runs,
            freed=self.wake,
            first_pause_seconds=first_pause_seconds,
        )
        self._wire: Wire | None = None
        self._wiring = threading.Lock()
        self._inbox: deque[Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._works: set[Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._waking = False
        self._shared = (
            SharedGate(
                endpoint.name,
                endpoint.concurrency,
                self.gate,
                store.allowances,
                demand=lambda: len(self._inbox) + self._machine.demand,
                changed=self._look,
                failed=lambda error: self._do(self._machine.halt(error)),
            )
            if store.allowances
            else None
        )

    @property
    def halted(self) -> LongformError | None:
        """The error that all waiting and later calls get; None while calls are sent."""
        return self._machine.halted

    # from any thread

    def submit(self, calls: Sequence[Call]) -> None:
        """Queue calls; returns at once. Each call's `done` is called later, in the event loop."""
        if calls:  # waking the loop costs more than a stored answer
            self._inbox.extend(calls)
            self.wake()

    def drop_unwanted(self) -> None:
        """Drop the calls that are not in flight (not sent yet, or to be sent again) and that nobody waits for any
        more; their `done` gets Incomplete. Returns at once.
        """
        self._soon(self._drop_unwanted)

    def wake(self) -> None:
        """Have the event loop send what may be sent; returns at once."""
        if not self._waking:
            self._waking = True
            self._soon(self._look)

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
        self._waking = False
        with suppress(IndexError):
            while True:
                self._inbox.popleft().done(self.halted or broken_off())

    # in the loop

    async def close(self) -> None:
        """Refuse waiting calls, give those in flight five seconds to end and be stored, cancel the rest, and close the
        connections. Takes 9 seconds at most.
        """
        self._take_submitted()
        self._do(self._machine.halt(broken_off()))
        for work in list(self._works):
            work.cancel()
        for seconds in (GRACE_SECONDS, BREAK_OFF_SECONDS):
            if self._tasks:
                await asyncio.wait(set(self._tasks), timeout=seconds)
            for task in self._tasks:
                task.cancel()
        if self._timer:
            self._timer.cancel()
        ends: list[SharedGate | Wire | None] = [self._shared, self._wire]
        with suppress(TimeoutError):
            async with asyncio.timeout(BREAK_OFF_SECONDS):
                await asyncio.gather(*(each.close() for each in ends if each))

    def wire(self) -> Wire:
        """The endpoint's connections, opened by the first caller; for any thread."""
        with self._wiring:
            self._wire = self._wire or Wire(self.endpoint, self.api_key, self._transport)
            return self._wire

    def _look(self) -> None:
        """Take over what was submitted, and send what may be sent."""
        self._waking = False
        self._take_submitted()
        self._do(self._machine.look())

    def _take_submitted(self) -> None:
        """Give the calls that were submitted to the machine."""
        calls = []
        with suppress(IndexError):
            while True:
                calls.append(self._inbox.popleft())
        if calls:
            self._do(self._machine.submitted(calls))
            if self._shared:
                self._shared.need()

    def _drop_unwanted(self) -> None:
        self._take_submitted()
        self._do(self._machine.drop_unwanted())

    def _woke(self) -> None:
        self._timer = None
        self._do(self._machine.woke())

    def _do(self, actions: Actions) -> None:
        """Do what the machine says: start what takes time, each as a task of its own, and tell those whose calls have
        ended.
        """
        for action in actions:
            match action:
                case Send(call):
                    self._start(self._attempt(call))
                case End(call, result):
                    call.done(result)
                case Keep():
                    self._start(self._keep(action))
                case Claim():
                    self._start(self._claim(action))
                case Release():
                    self._start(self._release(action))
                case Note():
                    self._start(self._note(action))
                case Wake(seconds):
                    if self._timer:
                        self._timer.cancel()
                    self._timer = self.loop.call_later(seconds, self._woke)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, call: Call) -> None:
        """Send the call once. An error of any kind ends it. A process that slept since the gate admitted the call may
        have lost its share of the endpoint to others: then it is not sent.
        """
        if self.gate.expired:
            self._do(self._machine.put_back(call))
            return
        try:
            outcome, replies = await self._exchange(call)
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, the one who asked must hear of it
            self._do(self._machine.unsent(call, self.as_ours(error)))
            return
        actions = self._machine.replied(call, outcome, replies)
        keep = next((action for action in actions if isinstance(action, Keep) and action.call is call), None)
        if keep is not None:
            actions.remove(keep)
        self._do(actions)
        if keep is not None:
            await self._keep(keep)

    async def _exchange(self, call: Call) -> tuple[Outcome, Replies | None]:
        """Send the call once: (outcome, what was read from it, None if it is of no use). An error in the body of a
        reply with status 200 is the outcome's status.
        """
        once = self._idempotency_key(call) if "idempotency" in self.endpoint.capabilities else None
        outcome = await self.wire().post(call.path, call.sent, most_bytes=call.most_bytes, idempotency_key=once)
        replies = _read(call, outcome)
        if replies is None and outcome.status == 200:
            outcome = replace(outcome, status=status_within(outcome.body))
        return outcome, replies

    def _idempotency_key(self, call: Call) -> str:
        """A key by which the provider knows an attempt that it has answered before, so that a reply that was lost is
        not paid twice, also after a kill: another one after each reply that came and was of no use.
        """
        asked = [call.path, *call.keys, str(call.replies), self.ledger_run if call.again else "", call.sent]
        return hashlib.sha256("\n".join(asked).encode("utf-8", "surrogatepass")).hexdigest()

    async def _claim(self, claim: Claim) -> None:
        """Ask the store for leases, and look up what it has under the keys that were not granted."""
        keys = [key for call in claim.calls for key in call.keys]
        try:
            granted = await self.store.lease(keys, again=claim.again)
            missed = [key for key in keys if key not in granted]
            found = await asyncio.to_thread(self.store.get, missed) if missed else {}
        except (Exception, asyncio.CancelledError) as error:
            self._do(self._machine.unclaimed(claim.calls, self.as_ours(error)))
            return
        usable = {key: record for key, record in found.items() if record.code != UNUSABLE}
        self._do(self._machine.claimed(claim.calls, granted, usable))

    async def _release(self, release: Release) -> None:
        """Give leases back. An error of any kind halts the endpoint, else it would keep them as long as this process
        lives.
        """
        try:
            await self.store.release(release.keys)
        except (Exception, asyncio.CancelledError) as error:
            self._do(self._machine.halt(self.as_ours(error)))

    async def _note(self, note: Note) -> None:
        """Count the run as one in which the call failed."""
        try:
            if note.again and not await asyncio.to_thread(self.store.failing, note.call.keys):
                self._do(self._machine.noted(note.call, 0))
                return
            runs = await self.store.note_failed(dict.fromkeys(note.call.keys, note.fault.message), self.ledger_run)
        except (Exception, asyncio.CancelledError) as error:
            self._do(self._machine.halt(self.as_ours(error)))
            runs = {}
        self._do(self._machine.noted(note.call, min(runs.values(), default=0)))

    async def _keep(self, keep: Keep) -> None:
        """Commit what came of an attempt."""
        call, cost = keep.call, 0
        result: Result | None = None
        try:
            if keep.what == "tombstone":
                assert keep.fault
                stone: dict[str, Any] = {"state": TOMBSTONE, "code": keep.fault.kind}
                stone["body"] = keep.fault.message.encode()
                bases = zip(call.keys, call.bases, strict=True)
                await self.store.put([(key, Record(**base, **stone)) for key, base in bases])
                result = keep.fault
            elif keep.replies is None:
                cost = call.reserved
                await self._book_loss(call, keep.outcome)
            else:
                records, cost, paid = self._answered(call, keep.outcome, keep.replies)
                found = zip(call.keys, records, strict=False)
                await self.store.put([(key, part[0]) for key, part in found if part], [paid])
                result = records
        except (Exception, asyncio.CancelledError) as error:
            self._do(self._machine.unkept(keep, cost, self.as_ours(error)))
            return
        every = keep.replies is None or (len(keep.replies) >= len(call.keys) and all(keep.replies))
        self._do(self._machine.kept(call, cost, result, all_keys=every))

    def _answered(
        self, call: Call, outcome: Outcome, replies: Replies
    ) -> tuple[list[tuple[Record, ReplyFacts | None] | None], int, Paid]:
        """(records, what they cost, line of the ledger) of a reply; None for a part of no use. Where the server does
        not say how many tokens it used, the cost is the amount reserved.
        """
        records: list[tuple[Record, ReplyFacts | None] | None] = []
        used, thought = [0, 0, 0], 0
        for base, part in zip(call.bases, replies, strict=False):
            if part is None:
                records.append(None)
                continue
            facts = self.believable(part[1], call.input_bound, call.output_bound, len(call.keys))
            used = [sum(both) for both in zip(used, facts.tokens, strict=True)]
            thought += facts.reasoning_tokens
            records.append((self._record(base, outcome, part[0], facts), facts))
        self.answered += sum(map(bool, records))
        cost = self.cost(*used) if any(used) else call.reserved if self.price else None
        paid = self.paid(call.keys[0], call.stage, call.recipe, used, cost, answered=True, reasoning=thought)
        return records, cost or 0, paid

    def believable(self, facts: Facts, most_input: int, limit: int, number: int = 1) -> Facts:
        """The facts of a reply, their tokens bounded as in longform/llm/send/usage.py; the first untrue ones are told.
        `most_input` and `limit`: bounds of the prompt's tokens, and of those of all `number` choices together.
        """
        asked, cached, answered = facts.tokens
        likely = cached <= asked <= most_input and facts.reasoning_tokens <= answered <= limit
        if likely:
            return facts
        tokens, reasoning, untrue = bounded_usage(
            facts.tokens,
            facts.reasoning_tokens,
            endpoint=self.endpoint,
            most_input=most_input,
            limit=limit,
            number=number,
        )
        if untrue is None:
            return facts
        beside = facts.reasoning_tokens and "reasoning" not in self.endpoint.capabilities
        self.tell_untrue(
            untrue, '; if it thinks beside its limit, add "reasoning" to its capabilities' if beside else ""
        )
        return replace(facts, tokens=tokens, reasoning_tokens=reasoning)

    def tell_untrue(self, untrue: str, hint: str = "") -> None:
        """Tell the user, once, that the endpoint counts more tokens than can be."""
        if not self._told_of_usage:
            self._told_of_usage = True
            self._say(f"{self.named} counts more tokens than can be ({untrue}): the most that can be is booked{hint}")

    async def _book_loss(self, call: Call, outcome: Outcome) -> None:
        """Commit a line of the ledger for an attempt that was lost or gave nothing usable, and may have been billed. A
        malformed reply to a call of one key is stored until a good one replaces it.
        """
        came = outcome.status == 200 and len(call.keys) == 1
        kept = [(call.keys[0], self._record(call.bases[0], outcome, outcome.body, None))] if came else []
        cost = call.reserved if self.price else None
        paid = self.paid(call.keys[0], call.stage, call.recipe, (0, 0, 0), cost, answered=False)
        await self.store.put(kept, [paid])

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
            return Record(**stored, request_id=outcome.request_id, code=UNUSABLE)
        return Record(**stored, request_id=outcome.request_id, cost_nano=self.cost(*facts.tokens), **facts.columns())

    def cost(self, input_tokens: int, cached_tokens: int, output_tokens: int, *, batch: bool = False) -> int | None:
        """The cost in billionths of a US dollar, None where the price is unknown. `cached_tokens` are part of
        `input_tokens`. `batch`: at the price of a batch.
        """
        return cost_nano(self.price, input_tokens, cached_tokens, output_tokens, batch=batch) if self.price else None

    def most_cost(self, most_input: int, limit: int, number: int = 1, *, batch: bool = False) -> int:
        """The most that can be booked for a call with `number` replies of up to `limit` tokens together, in billionths
        of a US dollar; 0 where the price is unknown. Cached input may be the dearer one.
        """
        output = most_output(self.endpoint, limit, number)
        return max(self.cost(most_input, cached, output, batch=batch) or 0 for cached in (0, most_input))

    def _bound(self, call: Call) -> int:
        """The most that the call can cost, in billionths of a US dollar; 0 where the price is unknown."""
        return self.most_cost(call.input_bound, call.output_bound, len(call.keys))

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
        reasoning: int = 0,
    ) -> Paid:
        """A line of the ledger for one call; it is not written here. `tokens`: (of the prompt, of these cached, of the
        reply), of the last so many of `reasoning`; `cost` in billionths of a US dollar, None if the price is unknown;
        `answered`: False for a call whose reply was lost or unusable.
        """
        return Paid(
            run=self.ledger_run,
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
            reasoning_tokens=reasoning,
        )

    def clean(self, sent: str) -> str:
        """A request's body in canonical form without keys, which a source's text might contain."""
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
        return self.budget.refusal(self.endpoint.name, cost)


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
