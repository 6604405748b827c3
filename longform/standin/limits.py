"""Rate limits on requests and tokens a minute, as LLM providers apply them: token buckets that refill continuously.

    x-ratelimit-limit-requests: 600
    x-ratelimit-remaining-requests: 597
    x-ratelimit-reset-requests: 300ms      (until the bucket is full again)

A request is charged when it arrives: the tokens of its prompt and the most that its reply may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class Bucket:
    """A token bucket: starts full with `capacity`, refills by `per_minute` a minute up to it. `clock` returns
    seconds.
    """

    def __init__(self, per_minute: float, capacity: float, clock: Callable[[], float]) -> None:
        self.capacity, self._rate, self._clock = float(capacity), per_minute / 60, clock
        self._level, self._at = self.capacity, clock()

    def level(self) -> float:
        """The amount in the bucket now; negative after `take` of more than was there."""
        now = self._clock()
        self._level = min(self.capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    def take(self, amount: float) -> None:
        """Take this amount out, also if less is there."""
        self._level -= amount

    def seconds_until(self, amount: float) -> float:
        """Seconds until the bucket has `amount` or more, 0 if it has now; infinite if its capacity is smaller."""
        return math.inf if amount > self.capacity else max(0.0, (amount - self.level()) / self._rate)

    def headers(self, name: str) -> dict[str, str]:
        """The x-ratelimit headers of this bucket: limit, what remains (rounded down), and the time until it is full
        again. `name` is requests or tokens.
        """
        level = self.level()
        return {
            f"x-ratelimit-limit-{name}": f"{self.capacity:.0f}",
            f"x-ratelimit-remaining-{name}": f"{math.floor(level)}",
            f"x-ratelimit-reset-{name}": go_duration((self.capacity - level) / self._rate),
        }


class Limits:
    """Rate limits: `rpm` requests and `tpm` tokens a minute, None or 0: unlimited. `burst` is how many requests may
    come at once, by default `rpm`; for tokens this is `tpm`. `clock` returns seconds.
    """

    def __init__(self, rpm: float | None, tpm: float | None, burst: float | None, clock: Callable[[], float]) -> None:
        given = {"requests": (rpm, burst or rpm), "tokens": (tpm, tpm)}
        self._buckets = {name: Bucket(rate, size, clock) for name, (rate, size) in given.items() if rate and size}

    def admit(self, tokens: int) -> tuple[str, float] | None:
        """Charge one request of so many tokens and return None; or, if a limit is used up, charge nothing and return
        (`requests` or `tokens`, seconds until there is enough; infinite if there never is).
        """
        costs = {"requests": 1, "tokens": tokens}
        for name, bucket in self._buckets.items():
            if bucket.level() < costs[name]:
                return name, bucket.seconds_until(costs[name])
        for name, bucket in self._buckets.items():
            bucket.take(costs[name])
        return None

    def headers(self) -> dict[str, str]:
        """The x-ratelimit headers of each limit that is set; {} if none is."""
        return {name: value for kind, bucket in self._buckets.items() for name, value in bucket.headers(kind).items()}


def go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration, rounded up to the millisecond: 12ms, 1.5s, 6m0s, 1h0m30s."""
    milliseconds = math.ceil(round(seconds * 1000, 6))
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{whole}{rest / 1000:g}s"
