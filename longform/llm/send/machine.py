"""Which call to an endpoint is sent, stored, repeated or ended, and when: a state machine without network, store or
sleep. longform/llm/send/dispatch.py does what it says.

Events are methods. Each returns the actions to be done now, and what becomes of an action is the next event:

    submitted ─→ queued ── Claim ─→ claimed ─→ ready ── Send ─→ replied ── Keep ─→ kept ─→ End
                              │                  ↑                 │
             another process has the lease       │       failed for a passing reason
                              └─→ elsewhere      └──── paused ←────┘
                                  (claimed again every half second)

Where no other process writes the store, queued calls are ready at once. As long as a call has not ended, an action is
under way or a time is set (Wake): nothing waits for an event that may be lost.

A call that fails for a passing reason is sent again: up to 20 times where the endpoint is busy (429), 6 times where it
fails (5xx, no connection), 3 times where the reply was lost on the way or could not be read, as it may have been
billed. A request that can never be answered leaves a tombstone, and so does one whose reply is larger than any that was
asked for: it is paid, and the next would be. A refused key, an empty account, an unknown model or an
address where nobody listens halts the endpoint, as a store does that fails; replies to requests in flight are still
waited for and stored.
"""

from __future__ import annotations

import heapq
import math
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Literal, NamedTuple

from longform.errors import BudgetError, EndpointError, Incomplete, LongformError
from longform.llm.gate.limits import Gate
from longform.llm.gate.limits import Outcome as Verdict
from longform.llm.price import Budget
from longform.llm.responses.records import Record
from longform.llm.send.bodies import EMBEDDINGS
from longform.llm.send.calls import LOOK_AGAIN, Call, Replies, Result
from longform.llm.send.faults import Fault, fault_of, hint, is_busy, unusable, without_question
from longform.llm.send.wire import Outcome

TRIES = {"rate": 20, "server": 6, "unknown": 3, "unusable": 3}
LONGEST_CALL_PAUSE_SECONDS = 60.0
LONGEST_RETRY_AFTER_SECONDS = 900.0
UNSURE_AT_FIRST = 3
OTHER_PROCESS_SECONDS = 0.5
LOOK_SECONDS = 1.0
CLAIMED_AT_ONCE = 64
NOT_THE_QUESTIONS_FAULT = frozenset({0, 429, 502, 503, 504})
GATEWAYS = frozenset({502, 503, 504})


class Claim(NamedTuple):
    """Ask the store for the leases of these calls' keys (`again`: also of answered ones); then `claimed`."""

    calls: list[Call]
    again: bool


class Send(NamedTuple):
    """Send the call; then `replied`, `unsent` or `put_back`."""

    call: Call


class Keep(NamedTuple):
    """Commit what came of an attempt, with its line of the ledger; then `kept` or `unkept`. `what`: the replies; a
    "loss", which may have been billed; or a "tombstone", as the request is refused for good.
    """

    call: Call
    what: Literal["replies", "loss", "tombstone"]
    outcome: Outcome
    replies: Replies | None = None
    fault: Fault | None = None


class Note(NamedTuple):
    """Count this run as one in which the call failed; then `noted`. `again`: only if it failed in another one before,
    as the endpoint itself may be down.
    """

    call: Call
    fault: Fault
    again: bool = False


class Release(NamedTuple):
    """Give the leases of these keys back."""

    keys: list[str]


class End(NamedTuple):
    """Tell the one who asked."""

    call: Call
    result: Result


class Wake(NamedTuple):
    """Call `woke` after so many seconds, in place of a time set before."""

    seconds: float


Action = Claim | Send | Keep | Note | Release | End | Wake
Actions = list[Action]


class Machine:
    """The calls to one endpoint in this process. `name` and `address` are the endpoint in messages.

    `cost` gives the most that a call can cost, in billionths of a US dollar. `explain`: what to change after a refusal.
    `leases`: other processes write the store. `most`: the endpoint's concurrency. `failed_runs`: in how many runs a
    call may fail before it counts as one that is never answered. `freed` is called, from any thread, when money that
    was short is freed; it leads to `look`. `halted` is the error that all waiting and later calls get, None while calls
    are sent.
    """

    def __init__(
        self,
        gate: Gate,
        budget: Budget,
        *,
        cost: Callable[[Call], int],
        name: str = "",
        address: str = "",
        model: str = "",
        explain: Callable[[Fault], str] = lambda _: "",
        leases: bool = False,
        most: int = 16,
        failed_runs: int = 3,
        freed: Callable[[], None] | None = None,
        first_pause_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.gate, self.budget = gate, budget
        self.halted: LongformError | None = None
        self.worked = False
        self._name, self._named, self._address, self._model = name, f'The endpoint "{name}"', address, model
        self._cost, self._explain, self._leases = cost, explain, leases
        self._most, self._failed_runs, self._freed, self._first_pause = most, failed_runs, freed, first_pause_seconds
        self._clock, self._wall, self._rng = clock, wall, rng or random.Random()
        self._began = wall()
        self._queued: deque[Call] = deque()
        self._ready: deque[Call] = deque() if leases else self._queued
        self._claiming: list[Call] = []
        self._paused: list[tuple[float, int, Call]] = []
        self._elsewhere: list[tuple[float, int, Call]] = []
        self._number = count()
        self._faults: dict[Call, tuple[Outcome, Fault, str]] = {}  # the last: kind of failure, or what is said of it
        self._storing = self._unsure = 0
        self._last_fault, self._hint = "no answer", ""
        self._wake_at: float | None = None

    @property
    def demand(self) -> int:
        """How many calls could be in flight."""
        waiting = len(self._queued) + len(self._claiming) + len(self._paused) + len(self._elsewhere)
        return waiting + (len(self._ready) if self._leases else 0) + self.gate.in_flight

    # events

    def submitted(self, calls: Iterable[Call]) -> Actions:
        """New calls, to be sent in their order."""
        self._queued.extend(calls)
        return self._go_on([])

    def look(self) -> Actions:
        """Something has changed outside: the gate, or the money."""
        return self._go_on([])

    def woke(self) -> Actions:
        """The time that was set has come."""
        self._wake_at = None
        return self._go_on([])

    def halt(self, error: LongformError) -> Actions:
        """End all waiting and later calls with the error; those in flight are still waited for."""
        self.halted = self.halted or error
        return self._go_on([])

    def drop_unwanted(self) -> Actions:
        """End the calls that are not in flight and that nobody waits for, with Incomplete."""
        actions: Actions = []
        dropped = {call for call in self._waiting() if not call.wanted()}
        if dropped:
            for queue in {id(queue): queue for queue in (self._queued, self._ready)}.values():
                kept = [call for call in queue if call not in dropped]
                queue.clear()
                queue.extend(kept)
            for heap in (self._paused, self._elsewhere):
                heap[:] = [entry for entry in heap if entry[2] not in dropped]
                heapq.heapify(heap)
        for call in dropped:
            self._end(actions, call, Incomplete("No longer wanted."))
        return self._go_on(actions)

    def claimed(self, calls: list[Call], granted: Collection[str], found: Mapping[str, Record]) -> Actions:
        """These keys of the calls are leased by this process; under those `found` is a usable record. A call without
        the lease of all its keys gives back those that it got. It ends with the records if all are there, with
        LOOK_AGAIN if some are; else another process is asking, and it is claimed again later.
        """
        self._claiming = []
        actions: Actions = []
        for call in calls:
            mine = [key for key in call.keys if key in granted]
            call.leased = len(mine) == len(call.keys)
            if call.leased:
                self._ready.append(call)
                continue
            if mine:
                actions.append(Release(mine))
            there = [found[key] for key in call.keys if key in found and self._is_new(call, found[key])]
            if len(there) == len(call.keys):
                self._end(actions, call, [(record, None) for record in there])
            elif there and not call.again:
                self._end(actions, call, LOOK_AGAIN)
            else:
                call.waited = True
                self._later(self._elsewhere, OTHER_PROCESS_SECONDS, call)
        return self._go_on(actions)

    def unclaimed(self, calls: list[Call], error: LongformError) -> Actions:
        """The store could not be asked for leases: the endpoint is halted."""
        self._claiming = []
        self._queued.extendleft(reversed(calls))
        return self.halt(error)

    def replied(self, call: Call, outcome: Outcome, replies: Replies | None) -> Actions:
        """An attempt has ended; `replies` is None where it gave nothing usable."""
        verdict = verdict_of(outcome, replies)
        self.gate.release(call.ticket, verdict, outcome.headers, outcome.retry_after, again=bool(call.tries))
        call.replies += outcome.status != 0
        actions: Actions = []
        if replies is not None:
            self.worked = True
            self._storing += 1
            actions.append(Keep(call, "replies", outcome, replies))
        else:
            self._refused(actions, call, outcome, verdict)
        return self._go_on(actions)

    def unsent(self, call: Call, error: LongformError) -> Actions:
        """An attempt broke off without an outcome: the call ends with the error."""
        self.gate.release(call.ticket, "other", None, None)
        self._settle(call, None)
        actions: Actions = []
        self._end(actions, call, error)
        return self._go_on(actions)

    def put_back(self, call: Call) -> Actions:
        """The call was not sent, as the time of this process's share of the endpoint ran out: it is ready again."""
        self.gate.release(call.ticket, "other", None, None)
        self._settle(call, None)
        self._ready.appendleft(call)
        return self._go_on([])

    def kept(self, call: Call, spent: int, result: Result | None, *, all_keys: bool = True) -> Actions:
        """What came of the attempt is committed. `spent`: what it cost, in billionths of a US dollar. `result`: what
        the call ends with; None after a loss. `all_keys`: there is a record under each of its keys.
        """
        actions: Actions = []
        if result is None:
            self._settle(call, spent)
            self._after_refusal(actions, call, *self._faults.pop(call))
            return self._go_on(actions)
        if isinstance(result, list):
            self._storing -= 1
            self._settle(call, spent)
        self._faults.pop(call, None)
        call.leased = call.leased and not all_keys
        self._end(actions, call, result)
        return self._go_on(actions)

    def unkept(self, keep: Keep, spent: int, error: LongformError) -> Actions:
        """What came of the attempt could not be committed: the endpoint is halted. The money counts as spent."""
        if keep.what == "replies":
            self._storing -= 1
        self._settle(keep.call, spent if keep.what != "tombstone" else None)
        self._faults.pop(keep.call, None)
        self.halted = self.halted or error
        actions: Actions = []
        self._end(actions, keep.call, error)
        return self._go_on(actions)

    def noted(self, call: Call, runs: int) -> Actions:
        """The call has failed in so many runs, this one included (0: this one does not count): it ends with Incomplete
        or, if there were enough of them, as one that is never answered, which leaves a tombstone.
        """
        outcome, fault, gave_up = self._faults.pop(call)
        actions: Actions = []
        if runs >= self._failed_runs:
            why = f"no answer in {runs} runs, at last: {fault.message}"
            actions.append(Keep(call, "tombstone", outcome, fault=Fault("never", "unanswered", why, fault.status)))
        else:
            self._end(actions, call, self._gave_up(gave_up, fault, runs))
        return self._go_on(actions)

    # what follows

    def _go_on(self, actions: Actions) -> Actions:
        """Add what can be done now: claims, and sends as far as gate and money allow; or, once halted, the end of all
        calls that wait. Sets a time where something is left.
        """
        if self.halted is None and self.gate.broken:
            self.halted = Incomplete(
                f"{self._named} at {self._address} keeps failing and is left alone (at last: {self._last_fault}): "
                f"answers so far are stored; {self._next_step}.",
                fault=f"{self._at}, which keeps failing: {self._last_fault}",
                step=self._next_step,
            )
        if self.halted is not None:
            self._end_all(actions, self.halted)
            return actions
        now = self._clock()
        self._due(self._paused, self._ready, now)
        if self._leases:
            self._due(self._elsewhere, self._queued, now)
            self._claim(actions)
        wait = self._send(actions)
        if self.halted is not None:
            self._end_all(actions, self.halted)
            return actions
        times = [heap[0][0] for heap in (self._paused, self._elsewhere) if heap]
        if self._ready:
            times.append(now + min(wait, LOOK_SECONDS))
        if times and (self._wake_at is None or min(times) < self._wake_at - 1e-3):
            self._wake_at = min(times)
            actions.append(Wake(max(0.0, self._wake_at - now)))
        return actions

    def _claim(self, actions: Actions) -> None:
        """Claim the next calls of the queue, if few are ready and no claim is under way."""
        if self._claiming or not self._queued or len(self._ready) >= max(CLAIMED_AT_ONCE, self._most):
            return
        again = self._queued[0].again
        while self._queued and self._queued[0].again == again and len(self._claiming) < CLAIMED_AT_ONCE:
            self._claiming.append(self._queued.popleft())
        actions.append(Claim(self._claiming, again))

    def _send(self, actions: Actions) -> float:
        """Send ready calls while gate and money allow, and while fewer than the concurrency and a tenth are in flight
        or being stored, as a kill loses replies that are not committed, too. Returns after how many seconds the next
        may be sent; infinite where no time is known.
        """
        ready, gate = self._ready, self.gate
        while ready:
            call = ready[0]
            if gate.in_flight + self._storing >= self._most + self._most // 10:
                return math.inf
            wait = gate.wait(call.tokens)
            if wait > 0:
                return wait
            if not self._afford(call):
                return math.inf
            ready.popleft()
            call.ticket = gate.admit(call.tokens)
            actions.append(Send(call))
        return math.inf

    def _afford(self, call: Call) -> bool:
        """Whether money for the call was reserved. If none is left and no call has any reserved that might be freed,
        the endpoint is halted with a BudgetError.
        """
        cost = self._cost(call)
        reserved = self.budget.reserve(cost)
        if reserved is not None:
            call.reserved = reserved
            return True
        if not self.budget.has_reservations:
            self.halted = BudgetError(self.budget.refusal(self._name, cost))
        elif self._freed is not None and self._freed not in self.budget.freed:
            self.budget.freed.append(self._freed)
        return False

    def _refused(self, actions: Actions, call: Call, outcome: Outcome, verdict: Verdict) -> None:
        """An attempt gave nothing usable. Where it may have been billed (a lost or malformed reply), the amount
        reserved counts as spent, which is committed first.
        """
        fault = self._fault(call, outcome)
        fault = fault._replace(message=without_question(fault.message, call.sent))
        self._last_fault, self._hint = fault.message, outcome.hint or hint(fault)
        kind = "unusable" if outcome.status == 200 else verdict if verdict in TRIES else "server"
        if verdict == "unknown" or outcome.status == 200:
            self._faults[call] = outcome, fault, kind
            actions.append(Keep(call, "loss", outcome, fault=fault))
        else:
            self._settle(call, None)
            self._after_refusal(actions, call, outcome, fault, kind)

    def _fault(self, call: Call, outcome: Outcome) -> Fault:
        """What an outcome without a usable reply means: send again, if the status is 200, unless the reply was too
        large, which is no fault that passes (but a text without a vector is no row to be left out). Refusals for an
        unknown reason stop the endpoint from the UNSURE_AT_FIRST-th on, and an address that cannot be reached stops it
        at once, if no call has worked yet.
        """
        if outcome.status == 200:
            too_large = outcome.too_large and call.path != EMBEDDINGS
            return Fault(*(("never", "oversized") if too_large else ("again", "request")), unusable(outcome.body), 200)
        fault = fault_of(outcome.status, outcome.body)
        self._unsure += fault.then == "unsure"
        hopeless = outcome.final or (fault.then == "unsure" and self._unsure >= UNSURE_AT_FIRST)
        return fault._replace(then="stop") if hopeless and not self.worked else fault

    def _after_refusal(self, actions: Actions, call: Call, outcome: Outcome, fault: Fault, kind: str) -> None:
        """Do what the fault says, once its money is settled."""
        if fault.then == "stop":
            self.halted = self.halted or EndpointError(self._stopped(outcome, fault))
            self._end(actions, call, self.halted)
        elif fault.then == "again":
            self._retry_later(actions, call, outcome, fault, kind)
        elif fault.then == "never" or self.worked:
            actions.append(Keep(call, "tombstone", outcome, fault=fault))
        else:
            self._end(actions, call, fault)

    def _stopped(self, outcome: Outcome, fault: Fault) -> str:
        """The message after a fault that stops everything."""
        if outcome.final:
            return f"{self._named} at {self._address} cannot be reached ({fault.message}): {outcome.hint}."
        return (
            f"{self._named} at {self._address} refused a request for the model {self._model} ({fault.message}): "
            f"{self._explain(fault)}. Answers so far are stored."
        )

    def _retry_later(self, actions: Actions, call: Call, outcome: Outcome, fault: Fault, kind: str) -> None:
        """Send the call again after a pause, which is random and grows, up to LONGEST_CALL_PAUSE_SECONDS. With a
        Retry-After it is that and up to a quarter more; unless the server is busy (429), at least the random pause.

        After more failures of its kind than TRIES allows the call is given up for this run; a Retry-After of more than
        15 minutes halts the endpoint with Incomplete.
        """
        tried = call.tries[kind] = call.tries.get(kind, 0) + 1
        asked = outcome.retry_after or 0
        if asked > LONGEST_RETRY_AFTER_SECONDS:
            self.halted = self.halted or Incomplete(
                f"{self._named} at {self._address} asks to be left alone for {_in_words(asked)} ({fault.message}): "
                "answers so far are stored; run the same command again then.",
                fault=f"{self._at}, which asks to be left alone for {_in_words(asked)}: {fault.message}",
                step="run the same command again then",
            )
            self._end(actions, call, self.halted)
        elif tried > TRIES[kind]:
            self._give_up(actions, call, outcome, fault)
        else:
            longest = min(LONGEST_CALL_PAUSE_SECONDS, self._first_pause * 2 ** (tried - 1))
            pause = self._rng.uniform(0, longest)
            if outcome.retry_after is not None:
                asked *= self._rng.uniform(1, 1.25)
                pause = asked if kind == "rate" else max(pause, asked)
            self._later(self._paused, pause, call)

    def _give_up(self, actions: Actions, call: Call, outcome: Outcome, fault: Fault) -> None:
        """End the call with Incomplete. Unless the endpoint itself seems to be down, count the run as one in which it
        failed; also then if a gateway failed that gave no answer to it, but to others, in an earlier run.
        """
        gave_up = (
            f"{self._named} at {self._address} gave no answer in {sum(call.tries.values())} tries "
            f"(at last: {fault.message}): answers so far are stored"
        )
        down = outcome.status in NOT_THE_QUESTIONS_FAULT and not (outcome.status == 0 and outcome.sent)
        down = down and not self.worked
        if call.path == EMBEDDINGS or (
            down and outcome.status not in GATEWAYS
        ):  # a text without a vector is no row to be left out
            self._end(actions, call, self._gave_up(gave_up, fault))
            return
        self._faults[call] = outcome, fault, gave_up
        actions.append(Note(call, fault, again=down))

    def _gave_up(self, said: str, fault: Fault, runs: int = 0) -> Incomplete:
        """The error of a call that is given up for this run, the last of so many that count (0: it does not)."""
        step = self._next_step
        if runs:
            step += f"; after {self._failed_runs} runs without an answer, this was number {runs}, it is left out"
        return Incomplete(f"{said}; {step}.", fault=f"{self._at}: {fault.message}", step=step)

    @property
    def _at(self) -> str:
        """The endpoint in a few words."""
        return f'endpoint "{self._name}" at {self._address}'

    @property
    def _next_step(self) -> str:
        """What to do after a fault that may pass. What the address may lack is only said until something has worked."""
        again = "run the same command again"
        return f"{self._hint}, and {again}" if self._hint and not self.worked else again

    def _end_all(self, actions: Actions, error: LongformError) -> None:
        """End all calls that wait, with the error."""
        waiting = self._waiting()
        for each in (self._queued, self._ready, self._paused, self._elsewhere):
            each.clear()
        for call in waiting:
            self._end(actions, call, error)

    def _waiting(self) -> list[Call]:
        """The calls that are not in flight, claimed or stored now."""
        waiting = [*self._queued, *(self._ready if self._leases else ())]
        return waiting + [entry[2] for entry in (*self._paused, *self._elsewhere)]

    def _end(self, actions: Actions, call: Call, result: Result) -> None:
        """End the call, and give its leases back, if it has any."""
        if call.leased:
            call.leased = False
            actions.append(Release(list(call.keys)))
        actions.append(End(call, result))

    def _is_new(self, call: Call, record: Record) -> bool:
        """Whether the record may be the call's result: for a call that is to be asked again, only one that was stored
        since this run began.
        """
        return not call.again or (call.waited and (record.created or 0.0) >= self._began)

    def _later(self, heap: list[tuple[float, int, Call]], seconds: float, call: Call) -> None:
        heapq.heappush(heap, (self._clock() + seconds, next(self._number), call))

    def _due(self, heap: list[tuple[float, int, Call]], to: deque[Call], now: float) -> None:
        """Move the calls whose time has come to the front of a queue."""
        due = []
        while heap and heap[0][0] <= now:
            due.append(heapq.heappop(heap)[2])
        to.extendleft(reversed(due))

    def _settle(self, call: Call, spent: int | None) -> None:
        """Replace the call's reserved money by what was `spent` (billionths of a US dollar); None: it was not billed,
        and does not count as a call.
        """
        reserved, call.reserved = call.reserved, 0
        self.budget.settle(reserved, spent or 0, calls=spent is not None, stage=call.stage)


def _in_words(seconds: float) -> str:
    """A long time in words: `20 minutes`, `24 hours`, `3 days`."""
    for size, unit in ((2 * 86_400, "days"), (2 * 3_600, "hours")):
        if seconds >= size:
            return f"{seconds / (size // 2):.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def verdict_of(outcome: Outcome, replies: Replies | None) -> Verdict:
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
