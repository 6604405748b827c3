"""Progress of downloads: a bar for each on a terminal, else plain lines with megabytes, rate and time left."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from flows.builds.console import duration, visible

EVERY_SECONDS = 10
WORTH_A_LINE_BYTES = 10_000_000


class TransferBars:
    def __init__(self, out: Console) -> None:
        columns = (BarColumn(30), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self.bar = Progress(TextColumn("{task.description}", markup=False), *columns, console=out, transient=True)
        self.tasks: dict[str, Any] = {}
        self.bar.start()

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        self.end(name)
        self.tasks[name] = self.bar.add_task(visible(name), total=total_bytes, completed=done_bytes)

    def advance(self, name: str, bytes: int) -> None:
        self.bar.advance(self.tasks[name], bytes)

    def end(self, name: str) -> None:
        if name in self.tasks:
            self.bar.remove_task(self.tasks.pop(name))

    def close(self) -> None:
        self.bar.stop()


class TransferLines:
    """A line every ten seconds, and one at the end of what is large; small files say nothing."""

    def __init__(self) -> None:
        self.going: dict[str, _Going] = {}
        self.said = time.monotonic()
        self.lock = threading.Lock()

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        with self.lock:
            self.going[name] = _Going(total_bytes, done_bytes)

    def advance(self, name: str, bytes: int) -> None:
        with self.lock:
            going = self.going[name]
            going.done += bytes
            if time.monotonic() - self.said > EVERY_SECONDS:
                self._say(f"{name}: {going.phrase()}")

    def end(self, name: str) -> None:
        with self.lock:
            going = self.going.pop(name, None)
            if going and going.done - going.before > WORTH_A_LINE_BYTES:
                self._say(f"{name}: {going.phrase()}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        sys.stderr.write(f"{visible(text)}\n")
        sys.stderr.flush()


class _Going:
    def __init__(self, total: int | None, done: int) -> None:
        self.total, self.done, self.before = total, done, done
        self.begun = time.monotonic()

    def phrase(self) -> str:
        """120.5 of 300.0 MB, 12.1 MB/s, 15 s left"""
        rate = (self.done - self.before) / max(0.001, time.monotonic() - self.begun)
        of = f" of {self.total / 1e6:,.1f}" if self.total else ""
        left = f", {duration((self.total - self.done) / rate)} left" if rate and self.total else ""
        return f"{self.done / 1e6:,.1f}{of} MB, {rate / 1e6:,.1f} MB/s{left}"
