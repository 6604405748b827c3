"""How a training goes on: a line after each report and every half minute, on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flows.builds.console import duration, print_line

if TYPE_CHECKING:
    from tasks.axioms.training.loop import Report

EVERY_SECONDS = 30.0


class TrainingLines:
    """Progress of a training of `steps` steps, as lines: step, loss, steps per second and what remains; after each
    report the accuracy on held-out pairs. `name`: what is trained.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.steps = 0
        self._began: tuple[float, int] | None = None
        self._last = 0.0

    def begin(self, name: str, steps: int, done: int) -> None:
        """A training of so many steps begins, or goes on after `done` of them."""
        self.name, self.steps, self._began, self._last = name, steps, (time.monotonic(), done), time.monotonic()
        print_line(f"{name}: {steps:,} steps" + (f", goes on after {done:,}" if done else ""))

    def at(self, step: int, loss: float) -> None:
        if time.monotonic() - self._last >= EVERY_SECONDS:
            self._say(step, f"loss {loss:.3f}")

    def report(self, report: Report) -> None:
        self._say(int(report["step"]), f"loss {report['loss']:.3f}, held-out accuracy {100 * report['accuracy']:.1f} %")

    def _say(self, step: int, what: str) -> None:
        self._last = time.monotonic()
        began, done = self._began or (self._last, 0)
        rate = (step - done) / max(1e-9, self._last - began)
        left = f", {duration((self.steps - step) / rate)} left" if rate and step < self.steps else ""
        print_line(f"{self.name}: step {step:,} of {self.steps:,}, {what}, {rate:.2f} steps a second{left}")
