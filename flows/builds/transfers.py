"""Progress of downloads: bars on a terminal, else plain lines with megabytes, rate and time left."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from flows.builds.console import duration, print_line, visible

EVERY_SECONDS = 10
WORTH_A_LINE_BYTES = 10_000_000


class TransferBars:
    """The progress of downloads: `begin` shows a bar for one, `advance` moves it, `end` removes it. Without a console
    nothing is shown, and only the bytes are counted. A download that begins again gets a new bar.
    """

    def __init__(self, out: Console | None = None) -> None:
        columns = (BarColumn(30), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        text = TextColumn("{task.description}", markup=False)
        self.bar = Progress(text, *columns, console=out, transient=True, disable=out is None)
        self.tasks: dict[str, TaskID] = {}
        self.bar.start()

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        self.end(name)
        self.tasks[name] = self.bar.add_task(visible(name), total=total_bytes, completed=done_bytes, before=done_bytes)

    def advance(self, name: str, bytes: int) -> None:
        self.bar.advance(self.tasks[name], bytes)

    def end(self, name: str) -> None:
        if name in self.tasks:
            self.bar.remove_task(self.tasks.pop(name))

    def close(self) -> None:
        self.bar.stop()


class TransferLines(TransferBars):
    """The progress of downloads as lines on stderr: at most one in ten seconds for all downloads together, and one at
    the end of each download that moved more than 10 MB.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last_line = time.monotonic()

    def advance(self, name: str, bytes: int) -> None:
        super().advance(name, bytes)
        if time.monotonic() - self.last_line > EVERY_SECONDS:
            self._say(name)

    def end(self, name: str) -> None:
        if name in self.tasks:
            self._say(name, worth_bytes=WORTH_A_LINE_BYTES, ended=True)
        super().end(name)

    def _say(self, name: str, worth_bytes: int = 0, *, ended: bool = False) -> None:
        """Print e.g. `a.zst: 120.5 of 300.0 MB (20.0 kept), 12.1 MB/s, 15 s left`, if this download moved more than
        `worth_bytes` bytes since it began. What was kept of an earlier run counts as done, not as moved: rate and time
        left are those of this run. No time is left of one that has `ended`, or that has all its bytes.
        """
        task = next(task for task in self.bar.tasks if task.id == self.tasks[name])
        moved = task.completed - task.fields["before"]
        if moved > worth_bytes:
            self.last_line = time.monotonic()
            rate = moved / max(0.001, task.elapsed or 0.0)
            of_total = f" of {task.total / 1e6:,.1f}" if task.total else ""
            kept = f" ({task.fields['before'] / 1e6:,.1f} kept)" if task.fields["before"] else ""
            missing = 0 if ended or not task.total else max(0, task.total - task.completed)
            left = f", {duration(max(1.0, missing / rate))} left" if missing else ""
            print_line(f"{name}: {task.completed / 1e6:,.1f}{of_total} MB{kept}, {rate / 1e6:,.1f} MB/s{left}")
