"""When the next request to an endpoint may be sent. All callers of an endpoint share one gate. The gate only computes
how long to wait; it never sleeps.

If the server tells its limits (x-ratelimit-* headers), the gate keeps a copy of its buckets
(longform/llm/gate/buckets.py). Else the gate finds out how many requests the server takes at once. After a 429 nobody
sends for a while; a server that keeps failing is asked only now and then.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from longform.llm.gate.buckets import SOONEST_SECONDS, Bucket, Reading

Outcome = Literal["ok", "rate", "server", "unknown", "other"]

AT_FIRST = 32
ALONE_SECONDS = 0.5
OVERTAKING_SECONDS = 0.25
JITTER = 0.25
AN_INSTANT = 1e8
FIRST_PAUSE_SECONDS, LONGEST_GATE_PAUSE_SECONDS = 0.5, 30.0
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|μs|ns)")
DURATION = re.compile(rf"(?:{PART.pattern})+")
NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")


@lru_cache(maxsize=4096)
def duration(text: str) -> tuple[float, float] | None:
    """(seconds, precision) of a duration such as 12ms, 6m0s, 1h2m or 1.5 (a bare number is seconds); None for other
    text.

    The precision is the step of the last number: 0.001 for 12ms, 1.0 for 6m0s, 0.1 for 1.5.
    """
    text = text.strip()
    if NUMBER.fullmatch(text):
        return float(text), _step(text)
    if not DURATION.fullmatch(text):
        return None
    parts = PART.findall(text)
    number, unit = parts[-1]
    return math.fsum(float(amount) * UNITS[each] for amount, each in parts), _step(number) * UNITS[unit]


def _step(number: str) -> float:
    """The value of one unit of the number's last digit: 1.0 for "12", 0.1 for "1.5"."""
    _, _, decimals = number.partition(".")
    return math.pow(10, -len(decimals))


class Adaptive:
    """How many requests a server takes at once (`limit`), found by trial where the server does not tell its limits.
    `most`: the upper bound.

    The limit begins with at most AT_FIRST, and is doubled after each round without a 429, until the first 429. Then
    each burst of 429s lowers it by a fifth, and each round without one raises it by a twentieth. Until 15 seconds
    after a 429 and the pause that follows it, it stays below the number that was too high. A round is about the time
    from sending a request to its reply.
    """

    def __init__(self, most: int) -> None:
        self.limit = min(most, AT_FIRST)
        self._most = most
        self._doubling = True
        self._too_much, self._until = math.inf, 0.0
        self._cut = self._round = 0
        self._clean = True
        self._busiest = 0.0

    def admitted(self, in_flight: float) -> None:
        """Note how many requests are in flight: after a round in which the limit was not nearly reached, it is not
        raised.
        """
        self._busiest = max(self._busiest, in_flight)

    def refused(self, ticket: int, newest: int, now: float, pause: float) -> None:
        """Note a 429: ends the doubling, and lowers the limit by a fifth, to 1 at least, once for a burst (not for
        requests sent before it was last lowered). Until 15 seconds after the pause the limit stays below the number
        that was too high; a further 429 in this time does not extend it.

        `ticket` is the request's number, `newest` the highest number sent, `now` the time in seconds. `pause`: for how
        many seconds the gate sends nothing, which the caller sees to.
        """
        self._clean = self._doubling = False
        if ticket <= self._cut:
            return
        if now >= self._until:
            self._too_much, self._until = math.inf, now + 15.0 + pause
        self._too_much = min(self._too_much, self.limit)
        self._cut = self._round = newest
        self.limit = max(1, int(self.limit * 0.8))

    def answered(self, ticket: int, newest: int, now: float) -> None:
        """Note a reply. The first reply to a request sent in this round ends the round: the limit is raised if there
        was no 429 in the round and at least 80 % of the limit was used. `ticket` is the request's number, `newest` the
        highest sent.
        """
        if ticket <= self._round:
            return
        if self._clean and self._busiest >= 0.8 * self.limit:
            more = self.limit if self._doubling else max(1, self.limit // 20)
            below = 0.95 * self._too_much if now < self._until else self._most
            self.limit = max(self.limit, int(min(self._most, below, self.limit + more)))
        self._round, self._clean, self._busiest = newest, True, 0.0


class Breaker:
    """Stops requests to a server that keeps failing (`open`): when half of the last 200 replies, of at least 20, are
    failures. Of a request that is sent again only the first failure counts, as a few requests that never get an answer
    say nothing of the server.

    Then single requests test the server, after 5, 10, 20 and 40 seconds; `until` is when the next may be sent, `probe`
    the number of the one in flight. If all four fail, the server is given up (`broken`).
    """

    SEEN, ENOUGH, PROBES = 200, 20, 4

    def __init__(self) -> None:
        self.open = False
        self.broken = False
        self.until = 0.0
        self.probe: int | None = None
        self._failed = 0
        self._last: deque[bool] = deque(maxlen=self.SEEN)

    def count(self, ticket: int, outcome: Outcome, now: float, *, again: bool = False) -> None:
        """Count a reply, to a request that had failed before if `again`; "server" and "unknown" are failures. While the
        breaker is open only the test request counts: if it fails, the next must wait longer; if it succeeds, the
        breaker is closed again; a 429 changes nothing but that another test may follow.
        """
        failed = outcome in ("server", "unknown")
        if not self.open:
            if failed and again:
                return
            self._last.append(failed)
            if failed and len(self._last) >= self.ENOUGH and 2 * sum(self._last) >= len(self._last):
                self._leave_alone(now)
        elif ticket == self.probe:
            self.probe = None
            if failed:
                self._failed += 1
                self.broken = self._failed >= self.PROBES
                self._leave_alone(now)
            elif outcome != "rate":
                self.open, self._failed = False, 0
                self._last.clear()

    def forget(self, ticket: int) -> None:
        """Note that this request was not sent; if it was the test request, another test request may follow."""
        if ticket == self.probe:
            self.probe = None

    def _leave_alone(self, now: float) -> None:
        """Open the breaker, until the next test request may be sent: for 5 seconds, doubled for each test that failed,
        at most 60.
        """
        self.open = True
        self.until = now + min(60.0, 5.0 * 2**self._failed)


class Sent(NamedTuple):
    """A request in flight: when it was sent, and its tokens. `total`: tokens of all requests up to and with it. `near`
    and `near_tokens`: number and tokens of the requests sent in the quarter second before it, which it may overtake.
    """

    at: float
    tokens: int
    total: int
    near: int
    near_tokens: int


class Gate:
    """Decides when the next request to an endpoint may be sent. To be used in the thread of one event loop only.

    `concurrency`: the most requests in flight. `rpm` and `tpm`: configured limits of requests and tokens a minute, kept
    beside the server's own. Where several processes use the endpoint, `set_share` limits this one to its share of all
    these.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.in_flight = 0
        self._concurrency, self._clock, self._rng = concurrency, clock, rng or random.Random()
        self._most, self._share, self._until = concurrency, 1.0, math.inf
        self._adaptive = Adaptive(concurrency)
        self._breaker = Breaker()
        self._own = {kind: a_minute for kind, a_minute in (("requests", rpm), ("tokens", tpm)) if a_minute}
        self._buckets = [(kind, Bucket(*_each_second(a_minute), clock())) for kind, a_minute in self._own.items()]
        self._server_buckets: dict[str, Bucket] = {}
        self._newest = self._tokens = self._tokens_in_flight = 0
        self._sent: dict[int, Sent] = {}
        self._near: deque[tuple[float, int]] = deque()
        self._near_tokens = 0
        self._began: float | None = None
        self._answered = False
        self._paused_until = 0.0
        self._pauses = self._paused_at = 0

    @property
    def limit(self) -> int:
        """How many requests may be in flight now: the concurrency if the server tells its rate limits, else what was
        found by trial (at most the concurrency); of that this process's share. At least 1, unless the share is 0.
        """
        learnt = self._concurrency if self._server_buckets else self._adaptive.limit
        return min(self._most, max(1, math.floor(learnt * self._share + 1e-6)))

    def set_share(self, most: int, until: float) -> None:
        """Give this process `most` of the endpoint's concurrency, and the same share of all rate limits, from now until
        the time `until` of the gate's clock. After that it may send nothing.
        """
        now, part = self._clock(), most / self._concurrency
        self._most, self._until = most, until
        for (_, bucket), a_minute in zip(self._buckets, self._own.values(), strict=False):
            bucket.resize(*_each_second(part * a_minute), now)
        if most and part != self._share:
            for bucket in self._server_buckets.values():
                bucket.scale_down(min(1.0, part / self._share), now)
            self._share = part

    @property
    def expired(self) -> bool:
        """Whether the time of this process's share has run out, so that others may have it."""
        return self._clock() >= self._until

    @property
    def broken(self) -> bool:
        """Whether the server is given up, because all requests that tested it failed."""
        return self._breaker.broken

    @property
    def state(self) -> str:
        """Why the gate is closed, for progress: "given up", "failing, next try in 4 s", "failing" or "paused 3 s"; else
        empty, also while a bucket is refilled.
        """
        now, breaker = self._clock(), self._breaker
        if breaker.broken:
            return "given up"
        if breaker.open:
            return f"failing, next try in {math.ceil(breaker.until - now)} s" if now < breaker.until else "failing"
        return f"paused {math.ceil(self._paused_until - now)} s" if now < self._paused_until else ""

    def wait(self, tokens: int) -> float:
        """Seconds until a request of at most `tokens` tokens may be sent; 0: now. Infinite where no time is known:
        another request must end first, or the time of this process's share has run out, or the server is given up.
        """
        breaker = self._breaker
        if self.in_flight >= self.limit or breaker.broken or breaker.probe is not None:
            return math.inf
        if self.expired:
            return math.inf
        now = self._clock()
        seconds = self._paused_until - now
        if breaker.open:
            seconds = max(seconds, breaker.until - now)
        if not self._answered:
            seconds = max(seconds, self._alone(now))
        for kind, bucket in self._buckets:
            seconds = max(seconds, bucket.wait(tokens if kind == "tokens" else 1, now))
        return seconds if seconds > SOONEST_SECONDS else 0.0

    def _alone(self, now: float) -> float:
        """Seconds to wait before the next request while no reply has come, as the first one may tell limits: one
        request is sent, after half a second a second one, after another half there may be four in flight, and so on. 0
        where none is in flight; negative where that time is past.
        """
        if self._began is None or not self.in_flight:
            return 0.0
        return self._began + ALONE_SECONDS * math.floor(math.log2(self.in_flight) + 1) - now

    def admit(self, tokens: int) -> int:
        """Count a request as sent, without a check that it may be; its number (the ticket), which `release` takes."""
        now = self._clock()
        self._began = now if self._began is None else self._began
        for kind, bucket in self._buckets:
            bucket.take(tokens if kind == "tokens" else 1, now)
        near = self._near
        while near and near[0][0] < now - OVERTAKING_SECONDS:
            self._near_tokens -= near.popleft()[1]
        self._newest += 1
        self.in_flight += 1
        self._tokens += tokens
        self._tokens_in_flight += tokens
        self._sent[self._newest] = Sent(now, tokens, self._tokens, len(near), self._near_tokens)
        near.append((now, tokens))
        self._near_tokens += tokens
        self._adaptive.admitted(self.in_flight / self._share)
        if self._breaker.open:
            self._breaker.probe = self._newest
        return self._newest

    def release(
        self,
        ticket: int,
        outcome: Outcome,
        headers: Mapping[str, str] | None,
        retry_after: float | None,
        *,
        again: bool = False,
    ) -> None:
        """Note that a request has ended: with a reply, whose `headers` are read, or without one. `outcome` is "ok",
        "rate" (429), "server" (it failed), "unknown" (the reply was lost) or "other"; `retry_after` is in seconds.
        "other" without headers: the request was never sent, and what it took from the limits is given back. `again`:
        the same request had failed before.
        """
        sent = self._sent.pop(ticket)
        self.in_flight -= 1
        self._tokens_in_flight -= sent.tokens
        now = self._clock()
        if outcome == "other" and headers is None:
            self._breaker.forget(ticket)
            for kind, bucket in self._buckets:
                bucket.take(-sent.tokens if kind == "tokens" else -1, now)
            return
        self._breaker.count(ticket, outcome, now, again=again)
        self._answered = self._answered or outcome in ("ok", "other")
        left = self._learn(headers, ticket, sent, outcome == "rate", now) if headers else []
        if outcome == "rate":
            self._pause_everybody(ticket, retry_after, left, now)
        elif outcome == "ok" and ticket > self._paused_at:
            self._pauses = 0
        self._adaptive.answered(ticket, self._newest, now)

    def _learn(
        self, headers: Mapping[str, str], ticket: int, sent: Sent, refused: bool, now: float
    ) -> list[tuple[float, float]]:
        """Read the rate limits in the headers, each multiplied by this process's share, into the copies of the
        server's buckets. For each limit found: (what remains, seconds until the bucket is full, or infinite where not
        said). `refused`: the reply was a 429.
        """
        left = []
        for name in ("requests", "tokens"):
            if f"x-ratelimit-remaining-{name}" not in headers:
                continue
            found = _limits_in(headers, name)
            if found is None:
                continue
            limit, remaining, reset = found[0] * self._share, found[1] * self._share, found[2]
            left.append((remaining, reset[0] if reset else math.inf))
            if name == "requests":
                cost, after, unsure = 1, self._newest - ticket, min(sent.near, self.in_flight)
            else:
                cost, after = sent.tokens, self._tokens - sent.total
                unsure = min(sent.near_tokens, self._tokens_in_flight)
            reading = Reading(limit, remaining, reset, cost, after, unsure, sent.at, refused, ticket, self._newest)
            self._server_bucket(name, limit, now).follow(reading, now)
        return left

    def _server_bucket(self, name: str, limit: float, now: float) -> Bucket:
        """The copy of the server's bucket of this name ("requests" or "tokens"). The first time it is made: full, with
        `limit` as its size, refilled in a minute. From then on requests wait for it, and no longer for the first reply
        (`_alone`).
        """
        if name not in self._server_buckets:
            self._answered = True
            self._server_buckets[name] = Bucket(limit / 60, limit, now)
            self._buckets.append((name, self._server_buckets[name]))
        return self._server_buckets[name]

    def _pause_everybody(
        self, ticket: int, retry_after: float | None, left: list[tuple[float, float]], now: float
    ) -> None:
        """After a 429: let nobody send for a while, unless the headers show that something remains of every limit, so
        that the limits cannot be the reason. `left` is the result of `_learn`.

        The pause is `retry_after` seconds. Without that it is 0.5, 1, 2 ... seconds, by how many pauses came without a
        success between them, at most 30 and not beyond the time when all buckets are full. Where the server does not
        tell its limits, the pause is up to a quarter longer at random, and the number of requests at once is lowered.
        """
        if left and all(remaining > 0 for remaining, _ in left):
            return
        pause = retry_after
        if pause is None:
            if ticket > self._paused_at:
                self._pauses += 1
                self._paused_at = self._newest
            growing = math.ldexp(FIRST_PAUSE_SECONDS, min(self._pauses, 9) - 1)
            pause = min(LONGEST_GATE_PAUSE_SECONDS, growing, max((full for _, full in left), default=math.inf))
        if not self._server_buckets:  # a small bucket would be full before a longer pause is over
            pause *= 1 + JITTER * self._rng.random()
            self._adaptive.refused(ticket, self._newest, now, pause)
        self._paused_until = max(self._paused_until, now + pause)


def _each_second(a_minute: float) -> tuple[float, float]:
    """(rate, size) of a bucket for a limit a minute. Both are what a second allows; the size is at least 1."""
    return a_minute / 60, max(1.0, a_minute / 60)


def _limits_in(headers: Mapping[str, str], name: str) -> tuple[float, float, tuple[float, float] | None] | None:
    """(limit, remaining, reset) of `name`, "requests" or "tokens", from the headers; `reset` is (seconds, precision).
    None where limit or remaining is missing or no number, or the limit is 0. The reset alone is None where it is
    missing, a date (a number since 1970) or unreadable.
    """
    limit = _number(headers.get(f"x-ratelimit-limit-{name}", ""))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{name}", ""))
    if not limit or remaining is None:
        return None
    reset = duration(headers.get(f"x-ratelimit-reset-{name}", ""))
    return limit, remaining, reset if reset and reset[0] < AN_INSTANT else None


def _number(text: str) -> float | None:
    """The text as a number that is finite and not negative, else None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
