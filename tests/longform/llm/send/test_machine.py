"""The machine that decides what is sent, run in a simulated world: two processes, one store with leases, a server that
fails, a store that dies, processes that sleep or are killed, all drawn from a seed.

After every event, whoever has a call that has not ended must have an action under way or a time set: nothing hangs. At
the end no call is left, no money reserved, no lease held by the living, and every reply bought twice has an excuse.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from longform.errors import BudgetError, EndpointError, Incomplete, LongformError, StoreError
from longform.llm.gate.limits import Gate
from longform.llm.price import Budget
from longform.llm.responses.records import Record
from longform.llm.send.bodies import ReplyFacts
from longform.llm.send.calls import LOOK_AGAIN, Call, Result
from longform.llm.send.faults import Fault
from longform.llm.send.machine import Action, Actions, Claim, End, Keep, Machine, Note, Release, Send, Wake
from longform.llm.send.wire import Outcome

LEASE_SECONDS = 60.0
RENEW_SECONDS = 12.0
STORE_PATIENCE_SECONDS = 30.0
LONGEST_SECONDS = 3_600.0
PRICE = 1_000
MOST = 8
FACTS = ReplyFacts("stop", "m", None, (1, 0, 1), 0)


class World:
    """Time, the store, and how often each key was bought. `excused`: key -> how often it may be bought again."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.number = count()
        self.records: dict[str, Record] = {}
        self.leases: dict[str, tuple[Process, float]] = {}
        self.failed: Counter[str] = Counter()
        self.bought: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.store_dies_at = self.store_returns_at = float("inf")

    def at(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.number), work))

    def store_is_dead(self) -> bool:
        return self.store_dies_at <= self.now < self.store_returns_at

    def grant(self, process: Process, keys: list[str], again: bool) -> set[str]:
        granted = set()
        for key in keys:
            owner, until = self.leases.get(key, (process, 0.0))
            there = self.records.get(key)
            if (owner is process or until < self.now) and (again or there is None or there.code is not None):
                self.leases[key] = process, self.now + LEASE_SECONDS
                granted.add(key)
        return granted

    def run(self, processes: list[Process]) -> None:
        begun = self.now
        while self.events and self.now - begun < LONGEST_SECONDS:
            self.now, _, work = heapq.heappop(self.events)
            work()
            for process in processes:
                process.check()


class Process:
    """A process that asks: it does what its machine says, in simulated time."""

    def __init__(self, world: World, name: str, **settings: Any) -> None:
        self.world, self.name = world, name
        self.results: dict[Call, Result] = {}
        self.calls: list[Call] = []
        self.under_way = 0
        self.keeping: list[Keep] = []
        self.wake: object | None = None
        self.dead = False
        self.asleep_until = 0.0
        self.slow_server = False
        self.faults = world.rng.choice([0.0, 0.1, 0.5])
        self.gate = Gate(MOST, clock=lambda: world.now, rng=world.rng)
        self.budget = Budget(settings.pop("cap", None))
        self.machine = Machine(
            self.gate,
            self.budget,
            cost=lambda _: PRICE,
            leases=True,
            most=MOST,
            clock=lambda: world.now,
            wall=lambda: world.now,
            rng=world.rng,
            freed=lambda: self.soon(0.0, lambda: self.do(self.machine.look())),
            **settings,
        )
        self.renew()

    def soon(self, seconds: float, work: Callable[[], None]) -> None:
        """Do it after so many seconds, or when this process wakes up; never, if it was killed by then."""

        def awake() -> None:
            if self.dead:
                return
            if self.world.now < self.asleep_until:
                self.world.at(self.asleep_until - self.world.now, awake)
                return
            work()

        self.world.at(seconds, awake)

    def renew(self) -> None:
        for key, (owner, until) in self.world.leases.items():
            if owner is self and until >= self.world.now and not self.world.store_is_dead():
                self.world.leases[key] = self, self.world.now + LEASE_SECONDS
        if len(self.results) < len(self.calls) or not self.calls:
            self.soon(RENEW_SECONDS, self.renew)

    def submit(self, calls: list[Call]) -> None:
        self.calls += calls
        self.do(self.machine.submitted(calls))

    def do(self, actions: Actions) -> None:
        for action in actions:
            self.one(action)

    def one(self, action: Action) -> None:
        rng, world = self.world.rng, self.world
        match action:
            case End(call, result):
                assert call not in self.results, "a call ends once"
                self.results[call] = result
            case Wake(seconds):
                assert 0 <= seconds < 1_000
                mark = self.wake = object()
                self.soon(seconds, lambda: self.woke(mark))
            case Release(keys):
                for key in keys:
                    if world.leases.get(key, (None, 0))[0] is self:
                        del world.leases[key]
            case Claim(calls, again):
                self.start(rng.uniform(0.001, 0.05), lambda: self.claim(calls, again))
            case Send(call):
                self.attempt(call)
            case Keep():
                self.keeping.append(action)
                self.start(rng.uniform(0.001, 0.05), lambda: self.keep(action))
            case Note(call, _, again):
                self.start(0.01, lambda: self.note(call, again))

    def start(self, seconds: float, work: Callable[[], None]) -> None:
        self.under_way += 1

        def done() -> None:
            self.under_way -= 1
            work()

        self.soon(seconds, done)

    def woke(self, mark: object) -> None:
        if mark is self.wake:
            self.wake = None
            self.do(self.machine.woke())

    def claim(self, calls: list[Call], again: bool) -> None:
        if self.world.store_is_dead():
            self.start(STORE_PATIENCE_SECONDS, lambda: self.do(self.machine.unclaimed(calls, StoreError("gone"))))
            return
        keys = [key for call in calls for key in call.keys]
        granted = self.world.grant(self, keys, again)
        records = self.world.records
        found = {key: records[key] for key in keys if key not in granted and key in records}
        self.do(self.machine.claimed(calls, granted, found))

    def attempt(self, call: Call) -> None:
        rng, world = self.world.rng, self.world
        for key in call.keys:
            world.bought[key] += 1
        drawn = rng.random()
        kind = "ok" if drawn >= self.faults else rng.choice(["rate", "server", "unknown", "unusable", "filter"])
        if kind in ("rate", "server", "filter"):
            world.bought.subtract(call.keys)
        elif kind != "ok":
            world.excused.update(call.keys)
        outcome = {
            "ok": Outcome(200, b"{}", 50),
            "rate": Outcome(429, b"", 5, retry_after=rng.choice([None, 0.5, 20.0])),
            "server": Outcome(503, b"", 5),
            "unknown": Outcome(0, b"the connection was lost", 50),
            "unusable": Outcome(200, b"<html>", 5),
            "filter": Outcome(400, b'{"error": {"code": "content_filter"}}', 5),
        }[kind]
        replies = [(b"{}", FACTS)] * len(call.keys) if kind == "ok" else None
        self.start(rng.uniform(0.05, 2.0), lambda: self.do(self.machine.replied(call, outcome, replies)))

    def keep(self, keep: Keep) -> None:
        call, world = keep.call, self.world
        self.keeping.remove(keep)
        if world.store_is_dead():
            world.excused.update(call.keys)
            failed = lambda: self.do(self.machine.unkept(keep, PRICE, StoreError("gone")))  # noqa: E731
            self.start(STORE_PATIENCE_SECONDS, failed)
            return
        result: Result | None = None
        if keep.what != "loss":
            for key in call.keys:
                world.records[key] = record(world.now, state=0 if keep.replies else 1)
                world.leases.pop(key, None)
            result = [(world.records[key], FACTS) for key in call.keys] if keep.replies else keep.fault
        self.do(self.machine.kept(call, PRICE, result))

    def note(self, call: Call, again: bool) -> None:
        if self.world.failed[call.keys[0]] or not again:
            self.world.failed[call.keys[0]] += 1
        self.do(self.machine.noted(call, self.world.failed[call.keys[0]]))

    def kill(self) -> None:
        """kill -9: what is in flight, or not stored yet, may be bought again."""
        self.dead = True
        self.world.excused.update(key for call in self.calls if call not in self.results for key in call.keys)

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: leases run out, as nobody renews them."""
        self.asleep_until = self.world.now + seconds
        self.world.excused.update(key for call in self.calls if call not in self.results for key in call.keys)

    def check(self) -> None:
        storing = sum(isinstance(keep, Keep) and keep.what == "replies" for keep in self.keeping)
        assert self.gate.in_flight + storing <= MOST, "a kill may lose no more than was in flight"
        if not self.dead and len(self.results) < len(self.calls):
            assert self.under_way or self.wake, f"{self.name} hangs at {self.world.now}"


def record(now: float, state: int = 0) -> Record:
    return Record("e", "m", "t", "", b"{}", b"{}", state=state, created=now)


def call_of(*keys: str, again: bool = False) -> Call:
    return Call(
        path="/chat/completions",
        sent='{"messages": []}',
        keys=keys,
        bases=[{}] * len(keys),
        stage="s",
        recipe="r",
        input_bound=1,
        output_bound=1,
        tokens=1,
        read=lambda _: None,
        done=lambda _: None,
        wanted=lambda: True,
        again=again,
    )


def simulate(seed: int) -> World:
    """Two processes with overlapping questions, and what befalls them by the seed."""
    world = World(seed)
    rng = world.rng
    processes = [Process(world, name) for name in ("one", "two")]
    keys = [f"{n:02}" for n in range(40)]
    for process in processes:
        mine = rng.sample(keys, rng.randint(5, 40))
        while mine:
            size = min(len(mine), rng.choice([1, 1, 1, 2, 5]))
            call, mine = call_of(*mine[:size]), mine[size:]
            world.at(rng.uniform(0, 3), lambda process=process, call=call: process.submit([call]))
            process.calls.append(call)
        process.calls.clear()
    fate = rng.choice(["none", "none", "none", "kill", "sleep", "store dies", "store returns"])
    if fate == "kill":
        world.at(rng.uniform(0, 5), processes[0].kill)
    elif fate == "sleep":
        world.at(rng.uniform(0, 5), lambda: processes[0].sleep(rng.choice([5.0, 90.0])))
    elif fate.startswith("store"):
        world.store_dies_at = world.now + rng.uniform(0, 5)
        world.store_returns_at = world.store_dies_at + (rng.uniform(0, 100) if fate == "store returns" else 1e9)
    world.run(processes)
    for process in [each for each in processes if not each.dead]:
        assert len(process.results) == len(process.calls), f"{process.name} did not end, seed {seed}"
        assert process.gate.in_flight == 0
        assert process.budget.reserved_nano == 0
        if fate not in ("store dies", "store returns", "sleep"):
            assert not any(owner is process for owner, _ in world.leases.values())
        for call, result in process.results.items():
            check_result(process, call, result, fate)
    for key, times in world.bought.items():
        assert times <= 1 + world.excused[key], f"{key} was bought {times} times, seed {seed}"
    return world


def check_result(process: Process, call: Call, result: Result, fate: str) -> None:
    """An error only where something failed; a record for each key."""
    if isinstance(result, list):
        assert len(result) == len(call.keys)
    elif isinstance(result, StoreError):
        assert fate.startswith("store")
    elif result is LOOK_AGAIN:
        assert len(call.keys) > 1
    else:
        assert isinstance(result, Fault | Incomplete | EndpointError)
        assert process.faults or fate == "none" or process.machine.halted


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_nothing_hangs_and_nothing_is_bought_twice_whatever_happens(first: int) -> None:
    for seed in range(first, first + 50):
        simulate(seed)


@pytest.mark.soak
def test_nothing_hangs_in_twenty_thousand_worlds() -> None:
    for seed in range(1_000, 21_000):
        simulate(seed)


def test_the_same_seed_is_the_same_world() -> None:
    assert simulate(7).bought == simulate(7).bought


def test_two_processes_with_the_same_questions_and_a_sound_server_buy_each_once() -> None:
    world = World(1)
    processes = [Process(world, name) for name in ("one", "two")]
    for process in processes:
        process.faults = 0.0
        process.submit([call_of(f"{n:03}") for n in range(300)])
    world.run(processes)
    assert set(world.bought.values()) == {1}
    assert [len(process.results) for process in processes] == [300, 300]


def test_a_question_that_was_leased_by_a_killed_process_is_asked_when_its_lease_has_run_out() -> None:
    world = World(2)
    one, two = Process(world, "one"), Process(world, "two")
    one.faults = two.faults = 0.0
    one.submit([call_of("a")])
    world.at(0.06, one.kill)
    world.at(0.07, lambda: two.submit([call_of("a")]))
    world.run([one, two])
    assert len(two.results) == 1
    assert LEASE_SECONDS < world.now - 1_000.0 < LEASE_SECONDS + 10 + RENEW_SECONDS


def test_a_call_whose_keys_another_process_answered_in_part_is_looked_up_again() -> None:
    world = World(3)
    process = Process(world, "one")
    world.records["a"] = record(world.now)
    process.submit([call_of("a", "b")])
    world.run([process])
    assert list(process.results.values()) == [LOOK_AGAIN]


def test_a_call_that_is_not_wanted_any_more_gives_its_lease_back() -> None:
    world = World(4)
    one = Process(world, "one")
    one.faults = 0.0
    one.gate.set_share(0, world.now + 1_000)  # it may send nothing
    wanted = [True]
    call = call_of("a")
    call.wanted = lambda: wanted[0]
    one.submit([call])

    def unwanted() -> None:
        assert world.leases["a"][0] is one
        wanted[0] = False
        one.do(one.machine.drop_unwanted())

    world.at(1.0, unwanted)
    world.run([one])
    assert not world.leases
    assert isinstance(one.results[call], Incomplete)


@pytest.mark.parametrize(("cap", "answered"), [(10 * PRICE, 10), (3 * PRICE - 1, 2)])
def test_money_that_does_not_suffice_ends_the_run_when_nothing_in_flight_may_free_any(cap: int, answered: int) -> None:
    world = World(5)
    process = Process(world, "one", cap=cap)
    process.faults = 0.0
    process.submit([call_of(f"{n:03}") for n in range(50)])
    world.run([process])
    kinds = Counter(type(result) for result in process.results.values())
    assert kinds == {list: answered, BudgetError: 50 - answered}
    assert process.budget.spent_nano <= cap


def outcomes(*given: Outcome, worked: bool = False, runs: int = 1) -> tuple[LongformError | Result, int]:
    """(result of one call that meets these outcomes in turn, how often it was sent)."""
    world, sent = World(6), []
    process = Process(world, "one")
    process.machine.worked = worked
    process.world.failed["a"] = runs - 1

    def attempt(call: Call) -> None:
        outcome = given[min(len(sent), len(given) - 1)]
        sent.append(outcome)
        process.start(0.1, lambda: process.do(process.machine.replied(call, outcome, None)))

    process.attempt = attempt  # type: ignore[method-assign]
    call = call_of("a")
    process.submit([call])
    world.run([process])
    return process.results[call], len(sent)


def test_an_address_that_cannot_be_reached_stops_the_endpoint_at_once_and_says_why() -> None:
    refused = Outcome(0, b"nothing listens at 127.0.0.1:9", 1, sent=False, final=True)
    result, sent = outcomes(refused)
    assert sent == 1
    assert isinstance(result, EndpointError)
    assert "nothing listens at 127.0.0.1:9" in str(result)


def test_a_server_that_restarts_is_tried_again() -> None:
    refused = Outcome(0, b"nothing listens at 127.0.0.1:9", 1, sent=False, final=True)
    assert outcomes(refused, worked=True)[1] == 7


def test_a_question_that_failed_in_three_runs_is_never_answered() -> None:
    unreadable = Outcome(200, b"<html>", 1)
    result, sent = outcomes(unreadable, runs=2)
    assert isinstance(result, Incomplete)
    assert sent == 4
    result, _ = outcomes(unreadable, runs=3)
    assert isinstance(result, Fault)
    assert result.kind == "unanswered"
    assert result.message == "no answer in 3 runs, at last: 200 with a page"


def test_a_run_in_which_the_endpoint_was_down_does_not_count_against_a_question() -> None:
    down, busy = Outcome(503, b"", 1), Outcome(429, b"", 1)
    result, _ = outcomes(down)
    assert isinstance(result, Incomplete)
    assert "left out" not in str(result)
    assert isinstance(outcomes(busy, runs=3)[0], Incomplete)
    assert isinstance(outcomes(down, runs=3, worked=True)[0], Fault)


def test_a_question_that_alone_failed_before_is_counted_when_only_it_is_left_and_a_gateway_fails() -> None:
    result, _ = outcomes(Outcome(504, b"", 1), runs=2)
    assert isinstance(result, Incomplete)
    assert str(result).endswith(
        "run the same command again; after 3 runs without an answer, this was number 2, it is left out."
    )
    assert isinstance(outcomes(Outcome(504, b"", 1), runs=3)[0], Fault)


def test_a_reply_that_is_too_large_is_bought_once_and_ends_its_question() -> None:
    result, sent = outcomes(Outcome(200, b"200 with more than 4 bytes", 1, too_large=True))
    assert sent == 1
    assert isinstance(result, Fault)
    assert (result.kind, result.message) == ("oversized", "200 with more than 4 bytes")
