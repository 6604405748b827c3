"""The gate against simulated servers, in virtual time: nothing here sleeps."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longform.llm.gate.buckets import Bucket
from longform.llm.gate.limits import Gate, duration

LATENCY = 0.05


def milliseconds(seconds: float) -> str:
    return f"{math.ceil(seconds * 1000)}ms"


def whole(seconds: float) -> str:
    return f"{math.ceil(seconds)}s"


def cut_down(seconds: float) -> str:
    return str(int(seconds))


def go(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3f}s" if minutes else f"{rest:.3f}s"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """A token bucket, or with `window` a fixed window, that tells its state in headers."""

    def __init__(
        self,
        rate: float,
        size: int,
        *,
        said: Callable[[float], str] = milliseconds,
        limit: int | None = None,
        unit: str = "requests",
        window: float | None = None,
        retry_after: float | None = 1.0,
        tells: bool = True,
    ) -> None:
        self.rate, self.size, self.said, self.unit = rate, size, said, unit
        self.limit, self.window, self.retry_after, self.tells = limit or size, window, retry_after, tells
        self.level, self.at = float(size), 0.0
        self.taken = self.refused = 0

    def fill(self, now: float) -> None:
        if self.window is None:
            self.level = min(self.size, self.level + (now - self.at) * self.rate)
        elif now // self.window != self.at // self.window:
            self.level = self.size
        self.at = now

    def take(self, now: float, tokens: int) -> bool:
        self.fill(now)
        cost = tokens if self.unit == "tokens" else 1
        if self.level + 1e-9 < cost:
            self.refused += 1
            return False
        self.level -= cost
        self.taken += cost
        return True

    def headers(self, now: float) -> dict[str, str]:
        if not self.tells:
            return {}
        self.fill(now)
        until = self.window - now % self.window if self.window else (self.size - self.level) / self.rate
        told = {"limit": str(self.limit), "remaining": str(int(self.level + 1e-9)), "reset": self.said(until)}
        return {f"x-ratelimit-{name}-{self.unit}": value for name, value in told.items()}


class Run:
    """Sends without end through a gate, as soon as it allows, and keeps what happened."""

    def __init__(self, server: Server, seed: int = 1, concurrency: int = 64, **own: int) -> None:
        self.server, self.clock, self.rng = server, Clock(), random.Random(seed)
        self.clock.now = 0.0
        self.gate = Gate(concurrency, clock=self.clock, rng=random.Random(seed + 1), **own)
        self.concurrency, self.most = concurrency, 0
        self.sent: list[float] = []
        self.pauses: list[tuple[float, float]] = []

    def go(
        self,
        seconds: float,
        *,
        tokens: Callable[[random.Random], int] = lambda _: 1,
        refusing: float = 0.0,
        failing: float = 0.0,
        slow: float = 0.0,
        latency: float = LATENCY,
        answer: Callable[[float, int], tuple[str, float | None]] | None = None,
    ) -> Run:
        events: list[tuple[float, int, str, Any]] = []
        number, cost, alarm = itertools.count(), tokens(self.rng), -1.0

        def at(moment: float, kind: str, what: Any = None) -> None:
            heapq.heappush(events, (moment, next(number), kind, what))

        def pump() -> None:
            nonlocal cost, alarm
            while not (wait := self.gate.wait(cost)):
                ticket = self.gate.admit(cost)
                self.sent.append(self.clock.now)
                self.most = max(self.most, self.gate.in_flight)
                at(self.clock.now + 0.4 * latency, "arrival", (ticket, cost))
                cost = tokens(self.rng)
            if wait < math.inf and alarm != self.clock.now + wait:
                alarm = self.clock.now + wait
                at(alarm, "alarm")

        pump()
        while events and events[0][0] < seconds:
            self.clock.now, _, kind, what = heapq.heappop(events)
            if kind == "alarm" and self.clock.now == alarm:
                pump()
            elif kind == "arrival":
                back = 0.6 * latency * (10 if self.rng.random() < slow else 1)
                at(self.clock.now + back, "reply", self._reply(*what, refusing, failing, answer))
            elif kind == "reply":
                self._release(*what)
                pump()
        return self

    def _reply(
        self,
        ticket: int,
        tokens: int,
        refusing: float,
        failing: float,
        answer: Callable[[float, int], tuple[str, float | None]] | None,
    ) -> tuple[int, str, dict[str, str], float | None]:
        now = self.clock.now
        if answer is not None:
            return (ticket, *_with(answer(now, self.gate.in_flight)))
        if self.rng.random() < refusing:
            return ticket, "rate", self.server.headers(now), 1.0
        if not self.server.take(now, tokens):
            return ticket, "rate", self.server.headers(now), self.server.retry_after
        if self.rng.random() < failing:
            return ticket, "server", {}, None
        return ticket, "ok", self.server.headers(now), None

    def _release(self, ticket: int, outcome: Any, headers: dict[str, str], retry_after: float | None) -> None:
        self.gate.release(ticket, outcome, headers, retry_after)
        remain = [value for name, value in headers.items() if "remaining" in name]
        if outcome == "rate" and retry_after and not (remain and all(float(value) > 0 for value in remain)):
            self.pauses.append((self.clock.now, self.clock.now + retry_after))

    def share(self, seconds: float) -> float:
        server = self.server
        allowed = server.size * seconds / server.window if server.window else server.size + server.rate * seconds
        return server.taken / allowed

    def refusals(self) -> float:
        return self.server.refused / len(self.sent)

    def sent_in_a_pause(self) -> list[float]:
        return [moment for moment in self.sent for start, end in self.pauses if start < moment < end - 1e-9]


def _with(answer: tuple[str, float | None]) -> tuple[str, dict[str, str], float | None]:
    return answer[0], {}, answer[1]


@pytest.mark.parametrize("said", [milliseconds, go, lambda seconds: f"{seconds:.3f}"])
@pytest.mark.parametrize("size", [1, 2, 10, 60, 600])
def test_the_rate_of_a_600_a_minute_bucket_is_reached(size: int, said: Callable[[float], str]):
    run = Run(Server(10, size, said=said)).go(180)
    assert run.share(180) >= 0.97
    assert run.refusals() <= 0.01


@pytest.mark.parametrize("said", [whole, cut_down])
@pytest.mark.parametrize("size", [3, 10, 60, 600])
def test_the_rate_is_reached_with_resets_in_whole_seconds(size: int, said: Callable[[float], str]):
    run = Run(Server(10, size, said=said)).go(180)
    assert run.share(180) >= 0.97
    assert run.refusals() <= 0.01


@pytest.mark.parametrize("said", [whole, cut_down])
def test_a_bucket_of_one_that_tells_nothing_useful_is_found_out_by_trying(said: Callable[[float], str]):
    run = Run(Server(10, 1, said=said)).go(900)
    late = [moment for moment in run.sent if moment > 300]
    assert len(late) / 600 >= 9.5
    assert run.refusals() <= 0.01


@pytest.mark.parametrize("size", [1, 10, 60])
def test_a_limit_a_minute_may_be_given_a_smaller_bucket(size: int):
    run = Run(Server(10, size, limit=600)).go(180)
    assert run.share(180) >= 0.97
    assert run.refusals() <= 0.01


class Late(Run):
    """A server that writes its headers when it answers, so that its bucket has filled meanwhile."""

    def _release(self, ticket: int, outcome: Any, headers: dict[str, str], retry_after: float | None) -> None:
        late = self.server.headers(self.clock.now) if outcome == "ok" else headers
        super()._release(ticket, outcome, late, retry_after)


@pytest.mark.parametrize(("size", "least"), [(1, 0.85), (2, 0.9), (10, 0.94), (60, 0.97), (600, 0.97)])
@pytest.mark.parametrize("rate", [10, 30])
@pytest.mark.parametrize("latency", [0.02, 0.05, 0.5])
def test_headers_written_after_the_bucket_has_filled_again_are_understood(
    latency: float, rate: float, size: int, least: float
):
    run = Late(Server(rate, size)).go(180, latency=latency)
    assert run.share(180) >= least
    assert run.refusals() <= 0.03
    assert Late(Server(rate, size)).go(180, latency=latency, refusing=0.05, failing=0.02).share(180) >= least - 0.12


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([3, 10, 60, 600]))
def test_the_rate_is_reached_among_faults_and_slow_answers(seed: int, size: int):
    run = Run(Server(10, size), seed).go(120, refusing=0.05, failing=0.02, slow=0.1)
    assert run.share(120) >= 0.97
    assert run.refusals() <= 0.01


@pytest.mark.parametrize("seed", range(5))
def test_a_bucket_makes_up_for_shared_pauses(seed: int):
    """429s that say nothing of what remains pause everybody; what gathers meanwhile is used afterwards."""
    server = Server(10, 60)
    told = server.headers
    run = Run(server, seed)
    refused = random.Random(seed)

    def answer(now: float, _: int) -> tuple[str, float | None]:
        if refused.random() < 0.05:
            return "rate", 1.0
        return ("ok", None) if server.take(now, 1) else ("rate", 1.0)

    def release(ticket: int, outcome: Any, headers: dict[str, str], retry_after: float | None) -> None:
        shown = told(run.clock.now) if outcome == "ok" else {}
        Run._release(run, ticket, outcome, shown, retry_after)

    run._release = release  # type: ignore[method-assign]
    run.go(180, answer=answer)
    assert run.share(180) >= 0.97
    assert run.sent_in_a_pause() == []


@settings(max_examples=10)
@given(
    size=st.integers(2, 600),
    rate=st.floats(1, 50),
    latency=st.floats(0.01, 1.0),
    concurrency=st.sampled_from([64, 200]),
)
def test_any_bucket_is_used_and_never_overrun(size: int, rate: float, latency: float, concurrency: int):
    run = Run(Server(rate, size), concurrency=concurrency).go(150, latency=latency)
    enough = rate * latency < concurrency and size > 2 * rate * 0.05
    assert run.share(150) >= (0.9 if enough else 0.5)
    assert run.refusals() <= 0.01 + 4 / len(run.sent)
    assert run.most <= concurrency


@pytest.mark.parametrize("said", [milliseconds, whole])
@pytest.mark.parametrize("retry_after", [1.0, None])
@pytest.mark.parametrize(("window", "size"), [(60.0, 600), (10.0, 100)])
def test_fixed_windows_are_used_up(window: float, size: int, retry_after: float | None, said: Callable[[float], str]):
    server = Server(0, size, window=window, retry_after=retry_after, said=said)
    run = Run(server).go(240)
    assert run.share(240) >= 0.9
    assert run.refusals() <= 0.02


@pytest.mark.parametrize("size", [3000, 60000])
def test_a_limit_of_tokens_is_reached(size: int):
    run = Run(Server(1000, size, unit="tokens")).go(240, tokens=lambda rng: rng.randint(100, 2000))
    assert run.share(240) >= 0.97
    assert run.refusals() <= 0.01


def test_limits_of_ones_own_hold_beside_the_servers():
    run = Run(Server(100, 100), rpm=600).go(60)
    assert 0.97 * 600 <= len(run.sent) <= 610
    run = Run(Server(100, 100), tpm=6000).go(60, tokens=lambda _: 40)
    assert 0.97 * 6000 <= 40 * len(run.sent) <= 6140


def test_a_request_over_the_limit_of_tokens_is_let_through_at_a_full_bucket_and_paid_for():
    clock = Clock()
    gate = Gate(4, tpm=600, clock=clock)
    assert gate.wait(1000) == 0
    gate.release(gate.admit(1000), "ok", {}, None)
    assert gate.wait(10) == pytest.approx(100)
    clock.now += 100
    assert gate.wait(10) == 0


def test_remaining_of_replies_that_crossed_is_not_counted_twice():
    """Nine at once: the one sent last was counted first, and its 8 are not there for others."""
    clock = Clock()
    gate = Gate(64, clock=clock)
    told = {"x-ratelimit-limit-requests": "10", "x-ratelimit-reset-requests": "1s"}
    gate.release(gate.admit(1), "ok", {**told, "x-ratelimit-remaining-requests": "9"}, None)
    clock.now += 0.1
    tickets = _admit_all(gate)
    assert len(tickets) == 9
    gate.release(tickets[-1], "ok", {**told, "x-ratelimit-remaining-requests": "8"}, None)
    assert gate.wait(1) > 0


@pytest.mark.parametrize("limit", ["-1", "0", "many", "nan", "inf", ""])
def test_limits_that_make_no_sense_are_ignored(limit: str):
    gate = Gate(8, clock=Clock())
    headers = {"x-ratelimit-limit-requests": limit, "x-ratelimit-remaining-requests": "-1"}
    gate.release(gate.admit(1), "ok", {**headers, "x-ratelimit-reset-requests": "?"}, None)
    gate.release(gate.admit(1), "ok", {"x-ratelimit-remaining-requests-1h": "0"}, None)
    assert len(_admit_all(gate)) == 8


def test_headers_of_any_case_are_read():
    gate = Gate(8, clock=Clock())
    told = {
        "X-RateLimit-Limit-Requests": "3",
        "X-RateLimit-Remaining-Requests": "2",
        "X-RateLimit-Reset-Requests": "1s",
    }
    gate.release(gate.admit(1), "ok", httpx2.Headers(told), None)
    assert len(_admit_all(gate)) == 2


# without headers


@pytest.mark.parametrize("retry_after", [None, 0.7])
@pytest.mark.parametrize("takes", [1, 5, 20, 100])
def test_the_concurrency_a_server_takes_is_found(takes: int, retry_after: float | None):
    server = Server(0, 1, tells=False)
    run = Run(server, concurrency=128)
    inside: list[float] = []

    def answer(now: float, _: int) -> tuple[str, float | None]:
        inside[:] = [end for end in inside if end > now]
        if len(inside) >= takes:
            return "rate", retry_after
        inside.append(now + 0.04)
        server.taken += 1
        return "ok", None

    run.go(120, answer=answer)
    assert run.sent_in_a_pause() == []
    assert server.taken >= 0.6 * 120 * takes / LATENCY
    assert 1 <= run.gate.limit <= max(2, 1.3 * takes)
    assert run.most <= 128


def test_concurrency_doubles_only_while_it_is_used():
    clock = Clock()
    gate = Gate(256, clock=clock)
    gate.release(gate.admit(1), "ok", {}, None)
    for _ in range(1000):
        gate.release(gate.admit(1), "ok", {}, None)
    assert gate.limit == 32
    for expected in (64, 128, 256):
        tickets = _admit_all(gate)
        for ticket in tickets:
            gate.release(ticket, "ok", {}, None)
        gate.release(gate.admit(1), "ok", {}, None)
        assert gate.limit == expected


def test_the_refusals_of_one_burst_count_once():
    clock = Clock()
    gate = Gate(32, clock=clock)
    gate.release(gate.admit(1), "ok", {}, None)
    for ticket in _admit_all(gate):
        gate.release(ticket, "rate", {}, None)
    assert gate.limit == 25
    assert 0.5 <= gate.wait(1) <= 0.625


def test_pauses_without_retry_after_double_up_to_half_a_minute_and_a_success_resets_them():
    clock = Clock()
    gate = Gate(1, clock=clock, rng=random.Random(3))
    for expected in (0.5, 1, 2, 4, 8, 16, 30, 30):
        gate.release(gate.admit(1), "rate", {}, None)
        pause = gate.wait(1)
        assert expected <= pause <= 1.25 * expected
        clock.now += pause
    gate.release(gate.admit(1), "ok", {}, None)
    gate.release(gate.admit(1), "rate", {}, None)
    assert 0.5 <= gate.wait(1) <= 0.625


def test_a_longer_pause_is_not_shortened():
    clock = Clock()
    gate = Gate(8, clock=clock)
    gate.release(gate.admit(1), "ok", {}, None)
    first, second = gate.admit(1), gate.admit(1)
    gate.release(first, "rate", {}, 20.0)
    before = gate.wait(1)
    gate.release(second, "rate", {}, 1.0)
    assert gate.wait(1) == before >= 20
    assert gate.state == f"paused {math.ceil(before)} s"
    clock.now += before
    assert gate.wait(1) == 0
    assert gate.state == ""


@pytest.mark.parametrize(("requests", "tokens", "paused"), [("5", "900", False), ("0", "900", True), ("5", "0", True)])
def test_a_refusal_while_all_limits_have_room_pauses_nobody(requests: str, tokens: str, paused: bool):
    gate = Gate(8, clock=Clock())
    told = {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": requests}
    told |= {"x-ratelimit-limit-tokens": "1000", "x-ratelimit-remaining-tokens": tokens}
    gate.release(gate.admit(1), "rate", told, 5.0)
    assert bool(gate.state) is paused


def test_nothing_is_sent_while_the_limit_is_out():
    gate = Gate(3, clock=Clock())
    gate.release(gate.admit(1), "ok", {}, None)
    assert len(_admit_all(gate)) == 3
    assert gate.wait(1) == math.inf


def test_the_first_request_goes_ahead_of_the_others_for_a_while():
    clock = Clock()
    gate = Gate(64, clock=clock)
    assert len(_admit_all(gate)) == 1
    assert gate.wait(1) == pytest.approx(0.5)
    counts = []
    for _ in range(5):
        clock.now += 0.5
        counts.append(len(_admit_all(gate)))
    assert list(itertools.accumulate(counts)) == [1, 3, 7, 15, 31]


# the breaker


def test_a_failing_server_is_left_alone_tried_and_given_up():
    clock = Clock()
    gate = Gate(64, clock=clock)
    for _ in range(20):
        gate.release(gate.admit(1), "server", {}, None)
    for pause in (5, 10, 20, 40):
        assert gate.wait(1) == pytest.approx(pause)
        assert not gate.broken
        clock.now += pause
        (probe,) = _admit_all(gate)
        assert gate.wait(1) == math.inf
        gate.release(probe, "unknown", {}, None)
    assert gate.broken
    assert gate.wait(1) == math.inf


def test_a_probe_that_works_closes_the_breaker():
    clock = Clock()
    gate = Gate(16, clock=clock)
    gate.release(gate.admit(1), "ok", {}, None)
    for ticket in [*_admit_all(gate), *(gate.admit(1) for _ in range(10))]:
        gate.release(ticket, "unknown", {}, None)
    clock.now += gate.wait(1)
    gate.release(gate.admit(1), "ok", {}, None)
    assert len(_admit_all(gate)) == 16
    assert gate.state == ""


def test_a_probe_that_was_never_sent_is_no_answer():
    clock = Clock()
    gate = Gate(16, clock=clock)
    for _ in range(20):
        gate.release(gate.admit(1), "server", {}, None)
    clock.now += 5
    gate.release(gate.admit(1), "other", None, None)
    assert gate.wait(1) == 0
    assert gate.state == "failing"


def test_refusals_and_rare_failures_do_not_open_the_breaker():
    clock = Clock()
    gate = Gate(16, clock=clock)
    for number in range(1000):
        gate.release(gate.admit(1), "rate" if number % 3 else "server", {}, 0.0)
    assert not gate.state.startswith("failing")


# details


@given(st.integers(0, 40), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_durations_are_read(hours: int, minutes: int, seconds: int, thousandths: int):
    total = 3600 * hours + 60 * minutes + seconds + thousandths / 1000
    assert duration(f"{hours}h{minutes}m{seconds}s{thousandths}ms") == pytest.approx((total, 0.001))
    assert duration(f"{total:.3f}") == pytest.approx((total, 0.001))


@pytest.mark.parametrize(
    ("text", "seconds_and_step"),
    [
        ("12ms", (0.012, 0.001)),
        ("1s", (1, 1)),
        ("6m0s", (360, 1)),
        ("1h2m", (3720, 60)),
        ("1m30.5s", (90.5, 0.1)),
        ("7", (7, 1)),
        ("250µs", (0.00025, 1e-6)),
    ],
)
def test_durations_as_providers_write_them(text: str, seconds_and_step: tuple[float, float]):
    assert duration(text) == pytest.approx(seconds_and_step)


@pytest.mark.parametrize("text", ["", "-1", "s", "1x", "1h2", "inf", "nan", "1 day", "2026-11-20T00:00:00Z"])
def test_what_is_no_duration_is_none(text: str):
    assert duration(text) is None


def test_a_plain_bucket_fills_at_its_rate_and_no_higher_than_its_size():
    bucket = Bucket(2.0, 4.0, 0.0)
    for _ in range(4):
        assert bucket.wait(1, 0.0) == 0
        bucket.take(1, 0.0)
    assert bucket.wait(1, 0.0) == pytest.approx(0.5)
    assert bucket.wait(3, 1.0) == pytest.approx(0.5)
    bucket.wait(1, 100.0)
    assert bucket.level == 4


def test_a_request_costs_microseconds():
    told = {f"x-ratelimit-{name}-requests": value for name, value in (("limit", "1000000"), ("remaining", "999999"))}
    for headers in ({}, {**told, "x-ratelimit-reset-requests": "12ms"}):
        gate = Gate(256)
        gate.release(gate.admit(9), "ok", headers, None)
        started = time.perf_counter()
        for _ in range(100_000):
            assert gate.wait(9) == 0
            gate.release(gate.admit(9), "ok", headers, None)
        print(f"{(time.perf_counter() - started) * 10:.1f} microseconds a request, {len(headers)} headers of limits")
        assert gate.in_flight == 0


def _admit_all(gate: Gate) -> list[int]:
    return list(_admitted(gate))


def _admitted(gate: Gate) -> Iterator[int]:
    while gate.wait(1) == 0:
        yield gate.admit(1)
