"""Requests and tokens a minute, as providers grant them: token buckets that fill all the time.

    x-ratelimit-limit-requests: 600
    x-ratelimit-remaining-requests: 597
    x-ratelimit-reset-requests: 300ms      (until the bucket is full again)

A request costs its prompt and the most that its reply may be, when it comes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class Bucket:
    """Holds at most `capacity` and fills with `per_minute`."""

    def __init__(self, per_minute: float, capacity: float, clock: Callable[[], float]) -> None:
        self.capacity, self._rate, self._clock = float(capacity), per_minute / 60, clock
        self._level, self._at = self.capacity, clock()

    def level(self) -> float:
        now = self._clock()
        self._level = min(self.capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    def take(self, amount: float) -> None:
        self._level -= amount

    def seconds_until(self, amount: float) -> float:
        """Until it holds so much; infinite where it never will."""
        return math.inf if amount > self.capacity else max(0.0, (amount - self.level()) / self._rate)

    def headers(self, name: str) -> dict[str, str]:
        level = self.level()
        return {
            f"x-ratelimit-limit-{name}": f"{self.capacity:.0f}",
            f"x-ratelimit-remaining-{name}": f"{math.floor(level)}",
            f"x-ratelimit-reset-{name}": go_duration((self.capacity - level) / self._rate),
        }


class Limits:
    """Both buckets, where they are set. `burst` is how many requests may come at once."""

    def __init__(self, rpm: float | None, tpm: float | None, burst: float | None, clock: Callable[[], float]) -> None:
        given = {"requests": (rpm, burst or rpm), "tokens": (tpm, tpm)}
        self._buckets = {name: Bucket(rate, size, clock) for name, (rate, size) in given.items() if rate and size}

    def admit(self, tokens: int) -> tuple[str, float] | None:
        """None, and the request is charged; or what there is too little of, and for how many seconds."""
        costs = {"requests": 1, "tokens": tokens}
        for name, bucket in self._buckets.items():
            if bucket.level() < costs[name]:
                return name, bucket.seconds_until(costs[name])
        for name, bucket in self._buckets.items():
            bucket.take(costs[name])
        return None

    def headers(self) -> dict[str, str]:
        return {name: value for kind, bucket in self._buckets.items() for name, value in bucket.headers(kind).items()}


def go_duration(seconds: float) -> str:
    """As Go writes it: 12ms, 1.5s, 6m0s, 1h0m30s; to the millisecond, up."""
    milliseconds = math.ceil(round(seconds * 1000, 6))
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{whole}{rest / 1000:g}s"
