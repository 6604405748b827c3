"""A server's buckets as its headers show them: how much is left, and how fast they fill again.

A reply says how much remained at some moment between sending and receiving, and not which of the requests around it
were counted already: that bounds the level from both sides, and the copy moves only as far as it must.
"""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple

SOONEST_SECONDS = 1e-6


class Reading(NamedTuple):
    """What a reply says of one bucket, and what is known of the request that it answers.

    `after` was admitted after it; `unsure` may have overtaken it or been overtaken on the way.
    """

    limit: float
    remaining: float
    reset: tuple[float, float] | None
    cost: float
    after: float
    unsure: float
    sent: float
    refused: bool
    ticket: int
    newest: int


class Bucket:
    """A level that a request lowers by its cost and that rises by `rate` a second up to `size`.

    Made of a configured limit it is a plain token bucket. With `follow` it follows a server's: steadily filled, or
    filled at once when a window ends. A request that costs more than `size` is let through at a full bucket, and
    leaves a debt.
    """

    def __init__(self, rate: float, size: float, now: float) -> None:
        self.rate, self.size = rate, size
        self.level = size
        self._at = now
        self._top = size
        self._refill = Refill()
        self._window: Window | None = None
        self._follows = False

    def wait(self, cost: float, now: float) -> float:
        """Seconds until `cost` may be taken."""
        need = min(cost, self.size)
        self._top = max(self._top, need)
        self._fill(now)
        if self.level + 1e-9 >= need:
            return 0.0
        return self._window.ends - now if self._window and self._window.on else (need - self.level) / self.rate

    def take(self, cost: float, now: float) -> None:
        self._fill(now)
        self.level -= cost

    def resize(self, rate: float, size: float, now: float) -> None:
        """Make a configured bucket larger or smaller; what it holds stays, as far as it fits."""
        self._fill(now)
        self.rate, self.size, self._top = rate, size, size
        self.level = min(self.level, size)

    def thin(self, factor: float, now: float) -> None:
        """Leave the rest to others, until the next reply tells more."""
        self._fill(now)
        self.rate, self.level = self.rate * factor, min(self.level, self.level * factor)

    def _fill(self, now: float) -> None:
        window = self._window
        if window is not None and window.on:
            if window.over(now):
                self.level = self._top
        else:
            self.level = min(self._top, self.level + (now - self._at) * self.rate)
        self._at = now

    def follow(self, reading: Reading, now: float) -> None:
        """Move the level, as little as possible, to where it agrees with the reply; learn the rate from its reset."""
        if not self._follows or reading.limit != self.size:
            self._begin(reading)
        self._fill(now)
        window = self._window
        assert window is not None
        if window.on and reading.sent < window.began:
            return
        self._top = max(self._top, min(self.size, reading.remaining + (0 if reading.refused else reading.cost)))
        if reading.reset is not None:
            window.learn(reading, now)
            self._refill.learn(reading, self._top, now)
        self.rate = self._refill.rate(self.size)
        self._agree(reading, now)

    def _begin(self, reading: Reading) -> None:
        self.size = reading.limit
        self._top = reading.remaining
        self.level = reading.remaining - reading.after - reading.unsure
        self._refill, self._window = Refill(), Window()
        self._follows = True

    def _agree(self, reading: Reading, now: float) -> None:
        assert self._window is not None
        known = reading.remaining - reading.after
        refilled = 0.0 if self._window.on else self.rate * (now - reading.sent)
        least, most = known - reading.unsure, known + 1 + reading.unsure + refilled
        refused = reading.refused and reading.remaining < reading.cost
        if self.level > most or refused:
            self._refill.slower(reading)
        elif self.level < reading.cost and not reading.refused:
            full = reading.remaining + reading.cost >= self._top
            self._refill.faster(reading, seen=self.level < least, full=full)
        self.level = min(max(self.level, least), most)


class Refill:
    """The rate of a server's bucket, as its replies tell it.

    (size - remaining) / reset is the rate, if reset is the time until the bucket is full and its size is the limit
    in the header. Neither is certain: the limit is often that of a minute, whatever the bucket holds. So it is worked
    out for the limit and for the most that ever remained; of these and a sixtieth of the limit the middle one is
    believed.
    `remaining` is rounded down, so each figure is a bound, and the lowest is the best. Where reset is too coarse to
    tell (1s of a bucket that fills in 0.1 s), or the figure turns out too high and no lower bound is near it (a bucket
    of one, half full again before the reply), the rate is found by trying.
    """

    def __init__(self) -> None:
        self._fine: dict[str, float] = {}
        self._coarse: dict[str, float] = {}
        self._top = 0.0
        self._trim = 1.0
        self._growth, self._cut = 1.0, 0.02
        self._least = 0.0
        self._sure = self._loose = self._contradicted = False
        self._judged = 0

    def learn(self, reading: Reading, top: float, now: float) -> None:
        assert reading.reset is not None
        reset, step = reading.reset
        if top > self._top:
            self._top = top
            self._fine.pop("top", None)
        self._bound(reading, top, now)
        for name, size in (("limit", reading.limit), ("top", top)):
            used = size - reading.remaining
            if used <= 0 or reset + step <= 0:
                continue
            rate, least = used / (reset + step), (used - 1) / (reset + step)
            if reset < 4 * step:
                self._coarse[name] = max(self._coarse.get(name, 0.0), least, 1 / (reset + step))
            elif not self._fine:
                self._fine[name] = rate
                self._trim = min(self._trim, 1.0)
            else:
                self._fine[name] = min(self._fine.get(name, rate), rate)

    def _bound(self, reading: Reading, top: float, now: float) -> None:
        """What the rate is at least: the bucket is full at `reset`, and was not when this request was taken."""
        assert reading.reset is not None
        until = max(sum(reading.reset), SOONEST_SECONDS)
        taken = 0.0 if reading.refused else reading.cost / (now - reading.sent + until)
        self._least = max(self._least, taken, (top - reading.remaining - 1) / until)

    def rate(self, limit: float) -> float:
        """A second; slightly less than believed, as too little costs nothing while something remains."""
        known = self._fine or self._coarse or ({"least": self._least} if self._least > limit / 60 else {})
        figures = [*known.values(), limit / 60]
        believed = median(figures) if len(figures) == 3 else figures[0]
        self._loose = self._least < 0.8 * believed
        trusted = bool(self._fine) and not (self._loose and self._contradicted)
        self._sure = trusted or believed == limit / 60
        return 0.995 * believed * self._trim

    def slower(self, reading: Reading) -> None:
        """After a request that was refused, or when less remains than expected; once for all that were out then."""
        if reading.ticket <= self._judged:
            return
        self._judged = reading.newest
        if self._sure:
            self._contradicted = self._contradicted or (self._loose and self._trim == 0.8)
            self._trim = max(0.8, self._trim * (1 - self._cut))
        else:
            self._trim *= 1 - max(self._cut, self._growth / (1 + self._growth))
            self._growth = max(1e-5, self._growth / 8)
        self._cut = min(0.5, 2 * self._cut)

    def faster(self, reading: Reading, *, seen: bool, full: bool) -> None:
        """After a request that had to wait and was taken. `seen`: more remained than expected. `full`: the most."""
        if reading.ticket <= self._judged + 1 + self._top / reading.cost:
            return
        self._cut = 0.02
        if self._sure:
            self._trim = min(1.0, self._trim * (1.01 if seen else 1.00002))
        elif full:
            self._judged = reading.newest
            self._trim *= 1 + self._growth
            self._growth = max(self._growth, min(0.05, 1.01 * self._growth))


class Window:
    """Whether a server fills its bucket at once when a window ends, and when that is.

    The more is used of a steadily filled bucket, the later it is full; the end of a window stays where it is.
    """

    def __init__(self) -> None:
        self.on = False
        self.began = -math.inf
        self.ends = math.inf
        self._span = 1.0
        self._first: tuple[float, float] | None = None

    def over(self, now: float) -> bool:
        if now < self.ends:
            return False
        self.began, self.ends, self._first = now, now + self._span, None
        return True

    def learn(self, reading: Reading, now: float) -> None:
        assert reading.reset is not None
        reset, step = reading.reset
        ends = now + reset + step
        self._span = max(self._span, reset + step)
        self.ends = min(self.ends, ends) if self._first and self.on else ends
        if self._first is None or reading.remaining >= self._first[0]:
            self._first = reading.remaining, reading.sent + reset
            return
        used = max(1.0, reading.limit - reading.remaining)
        expected = (self._first[0] - reading.remaining) * reset / used
        if expected > 0.2 + 4 * step:
            self.on = ends - self._first[1] < expected / 4
