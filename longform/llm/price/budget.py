"""What a build may spend. Money is reserved before a request is sent and settled when its reply has come.

So the sum of what was spent and of what is on its way never exceeds the cap. In billionths of a US dollar.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

NANO = 1_000_000_000


class Budget:
    """`cap_nano` None: no limit, only a count."""

    def __init__(self, cap_nano: int | None = None) -> None:
        self.cap_nano = cap_nano
        self.spent_nano = 0
        self.reserved_nano = 0
        self.calls = 0
        self._by_stage: Counter[str] = Counter()
        self.freed: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._excess = 1.0

    def reserve(self, nano: int) -> int | None:
        """What was set aside for a request that costs at most `nano`, or None where it does not fit now.

        Where a reply has once cost more than its bound, later ones are reserved that much higher.
        """
        with self._lock:
            wanted = round(nano * self._excess)
            if self.cap_nano is not None and self.spent_nano + self.reserved_nano + wanted > self.cap_nano:
                return None
            self.reserved_nano += wanted
            return wanted

    def settle(self, reserved: int, spent: int, *, calls: int = 1, stage: str = "") -> None:
        with self._lock:
            self._by_stage[stage] += spent
            if spent > reserved > 0:
                self._excess *= spent / reserved
            self.reserved_nano -= reserved
            self.spent_nano += spent
            self.calls += calls
            waiting, self.freed = self.freed, []
        for tell in waiting:
            tell()

    def spent_by(self, stage: str) -> int:
        """Of it what one stage spent."""
        with self._lock:
            return self._by_stage[stage]

    @property
    def waiting(self) -> bool:
        """Whether something is on its way that may cost less than was set aside for it."""
        return self.reserved_nano > 0
