"""Progress of downloads: bars on a terminal, else plain lines with megabytes, rate and time left."""

from __future__ import annotations

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

from flows.builds.console import duration, print_line, visible

EVERY_SECONDS = 10
WORTH_A_LINE_BYTES = 10_000_000


class TransferBars:
    """A progress bar for each download."""

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
    """A line every ten seconds, and one at the end of a large file; small files print nothing."""

    def __init__(self) -> None:
        self.transfers: dict[str, _Transfer] = {}
        self.last_line = time.monotonic()
        self.lock = threading.Lock()

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        with self.lock:
            self.transfers[name] = _Transfer(total_bytes, done_bytes)

    def advance(self, name: str, bytes: int) -> None:
        with self.lock:
            transfer = self.transfers[name]
            transfer.done += bytes
            if time.monotonic() - self.last_line > EVERY_SECONDS:
                self._say(f"{name}: {transfer.phrase()}")

    def end(self, name: str) -> None:
        with self.lock:
            transfer = self.transfers.pop(name, None)
            if transfer and transfer.done - transfer.done_before > WORTH_A_LINE_BYTES:
                self._say(f"{name}: {transfer.phrase()}")

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self.last_line = time.monotonic()
        print_line(text)


class _Transfer:
    """The progress of one download."""

    def __init__(self, total: int | None, done: int) -> None:
        self.total, self.done, self.done_before = total, done, done
        self.started = time.monotonic()

    def phrase(self) -> str:
        """E.g. `120.5 of 300.0 MB, 12.1 MB/s, 15 s left`."""
        rate = (self.done - self.done_before) / max(0.001, time.monotonic() - self.started)
        of_total = f" of {self.total / 1e6:,.1f}" if self.total else ""
        left = f", {duration((self.total - self.done) / rate)} left" if rate and self.total else ""
        return f"{self.done / 1e6:,.1f}{of_total} MB, {rate / 1e6:,.1f} MB/s{left}"
