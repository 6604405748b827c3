"""A copy of a server's rate-limit buckets, kept by the headers of its replies: how much is left, how fast it is
refilled.

A reply says how much remained at some moment between sending and receiving, but not which of the other requests in
flight were counted by then. So it gives a lower and an upper bound of the level. The copy's level is moved only if it
is outside these bounds, and only up to the nearest one.
"""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple

SOONEST_SECONDS = 1e-6


class Reading(NamedTuple):
    """What a reply's headers say of one bucket, and about the request that the reply answers.

    `limit` and `remaining` are the headers' figures, times this process's share of the endpoint. `reset` is (seconds
    until the bucket is full, the precision in which they were written), None if not said. `cost` is what the request
    took from the bucket (1 request, or its tokens); `after` the cost of all requests sent after it; `unsure` the cost
    of those that the server may have counted before or after it. `sent` is when it was sent, `ticket` its number at
    the gate, and `newest` the highest number so far. `refused`: the reply was a 429.
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
    """A token bucket: each request lowers its level by a cost; the level rises by `rate` a second up to `size`.

    Made from a configured limit, it works by itself. Once `follow` is called, it copies a server's bucket, which is
    filled either steadily or all at once when a window ends. A request that costs more than `size` may be sent when the
    bucket is full; then the level becomes negative.
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
        """Seconds until a request of this cost may be sent; 0: now. The level is not lowered. Where the server fills
        its bucket when a window ends, these are the seconds until then.
        """
        need = min(cost, self.size)
        self._top = max(self._top, need)
        self._fill(now)
        if self.level + 1e-9 >= need:
            return 0.0
        return self._window.ends - now if self._window and self._window.on else (need - self.level) / self.rate

    def take(self, cost: float, now: float) -> None:
        """Lower the level by the cost of a request that is sent, also below 0; a negative cost gives it back."""
        self._fill(now)
        self.level -= cost

    def resize(self, rate: float, size: float, now: float) -> None:
        """Set the rate (a second) and size of a configured bucket; the level stays, but is at most the new size."""
        self._fill(now)
        self.rate, self.size, self._top = rate, size, size
        self.level = min(self.level, size)

    def scale_down(self, factor: float, now: float) -> None:
        """Multiply rate and level by `factor` (at most 1), because other processes now use the rest of the server's
        bucket; a negative level stays as it is. The next reply corrects both.
        """
        self._fill(now)
        self.rate, self.level = self.rate * factor, min(self.level, self.level * factor)

    def _fill(self, now: float) -> None:
        """Raise the level by what was refilled since the last call: steadily, or to the top if a window has ended."""
        window = self._window
        if window is not None and window.on:
            if window.over(now):
                self.level = self._top
        else:
            self.level = min(self._top, self.level + (now - self._at) * self.rate)
        self._at = now

    def follow(self, reading: Reading, now: float) -> None:
        """Bring the copy into line with a reply: move the level into the bounds that the reply gives, and learn the
        rate from its reset time. The first reply, and each change of the limit in the header, starts the copy anew. A
        reply to a request sent before the present window began is ignored.
        """
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
        """Start the copy anew from this reply: its limit is the size, and what was learnt of rate and windows is
        forgotten.
        """
        self.size = reading.limit
        self._top = reading.remaining
        self.level = reading.remaining - reading.after - reading.unsure
        self._refill, self._window = Refill(), Window()
        self._follows = True

    def _agree(self, reading: Reading, now: float) -> None:
        """Move the level into the bounds that the reply gives. Before that, have the estimated rate lowered if the
        level is above them, or the reply is a 429 and less remains than its request costs; else have it raised if the
        level is too low for another such request and the reply is no 429.
        """
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
    """The rate at which a server's bucket is refilled, estimated from its replies.

    The rate would be (size - remaining) / reset, if `reset` is the time until the bucket is full and `size` is the
    limit in the header. Neither is certain: often the limit is that of a minute, whatever the size of the bucket. So
    the rate is worked out twice, with the limit and with the most that ever remained, and the median of both and of
    limit / 60 is used.

    `remaining` is rounded down, so each rate is an upper bound, and the lowest is kept. Where the precision of reset is
    too low (1s of a bucket that fills in 0.1 s), or the estimate proves too high and no lower bound is near it (a
    bucket of one, half full again before the reply), the rate is found by trial: `slower` and `faster`.
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
        """Lower the two upper bounds of the rate by a reply with a reset time, or raise the lower bound. `top` is the
        most that ever remained in the bucket; where that has grown, the bound worked out with it starts anew. Where
        the reset time is below four times its precision, only a rough lower bound is kept.
        """
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
        """Raise the lower bound of the rate, by a reply that has a reset time: the bucket is full when that has
        passed, and was not when this request was taken.
        """
        assert reading.reset is not None
        until = max(sum(reading.reset), SOONEST_SECONDS)
        taken = 0.0 if reading.refused else reading.cost / (now - reading.sent + until)
        self._least = max(self._least, taken, (top - reading.remaining - 1) / until)

    def rate(self, limit: float) -> float:
        """The rate a second to use; `limit` is the limit in the header, which stands for a minute until replies say
        more. Slightly less than estimated: too low a rate costs nothing while something remains in the bucket. Also
        notes how far the estimate can be trusted, which decides how much `slower` and `faster` change it.
        """
        known = self._fine or self._coarse or ({"least": self._least} if self._least > limit / 60 else {})
        figures = [*known.values(), limit / 60]
        believed = median(figures) if len(figures) == 3 else figures[0]
        self._loose = self._least < 0.8 * believed
        trusted = bool(self._fine) and not (self._loose and self._contradicted)
        self._sure = trusted or believed == limit / 60
        return 0.995 * believed * self._trim

    def slower(self, reading: Reading) -> None:
        """Lower the estimated rate, after a 429 or where a reply says that less remains than was reckoned here.
        Replies to requests that were sent before the last correction are ignored, so that one burst lowers it once.
        """
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
        """Raise the estimated rate, after a reply that was no refusal while the copy has too little for another such
        request. `seen`: more remains than the copy had. `full`: the server's bucket was as full as it ever was when it
        took the request.

        Replies to requests sent before the last correction, or so soon after it that the bucket could have paid for
        them, are ignored.
        """
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
    """Whether a server fills its bucket all at once when a window ends (`on`), and when that is (`ends`).

    It is recognised by the reset times: the more is used of a steadily filled bucket, the later it is full; the end of
    a window stays the same.
    """

    def __init__(self) -> None:
        self.on = False
        self.began = -math.inf
        self.ends = math.inf
        self._span = 1.0
        self._first: tuple[float, float] | None = None

    def over(self, now: float) -> bool:
        """Whether the window has ended by `now`; if so, the next one begins."""
        if now < self.ends:
            return False
        self.began, self.ends, self._first = now, now + self._span, None
        return True

    def learn(self, reading: Reading, now: float) -> None:
        """Update `ends` from the reply's reset time, and decide by comparison with an earlier reply, after which more
        remained, whether there are windows. Without such a reply, or where their difference would be too small to
        tell, `on` stays.
        """
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
