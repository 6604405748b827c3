"""A limit of requests in a window of time, as servers of sources have it: so many, then none until the window ends."""

from __future__ import annotations

from collections.abc import Callable


class Window:
    """So many requests (`limit`, None: any number) in windows of `seconds`, from the first one on. `clock`: seconds."""

    def __init__(self, limit: int | None, seconds: float, clock: Callable[[], float]) -> None:
        self.limit, self.seconds, self._clock = limit, seconds, clock
        self._start, self.used = clock(), 0

    def take(self) -> float | None:
        """Count a request; None if it is within the limit, else the seconds until the window ends."""
        if self._clock() - self._start >= self.seconds:
            self._start, self.used = self._clock(), 0
        self.used += 1
        return self.left() if self.limit is not None and self.used > self.limit else None

    def left(self) -> float:
        """Seconds until the window ends."""
        return max(0.0, self._start + self.seconds - self._clock())

    def headers(self) -> dict[str, str]:
        """The limit as headers x-ratelimit-*; empty without a limit."""
        if self.limit is None:
            return {}
        left = max(0, self.limit - self.used)
        return {
            "x-ratelimit-used": str(min(self.used, self.limit)),
            "x-ratelimit-remaining": f"{left:.1f}",
            "x-ratelimit-reset": str(round(self.left())),
        }
