"""What a build, a plan and a version look like on a terminal, and as plain lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from longform.store import Artifact, Part
from tasks.build import StageRun
from tasks.plan import Planned

WIDTH = 100


def console(*, stderr: bool = False) -> Console:
    """100 columns, colour only on a terminal, nothing of a source's text read as markup."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=WIDTH)


class Lines:
    """Progress as plain lines on stderr: for logs, pipes and Prefect workers."""

    def __init__(self) -> None:
        self.said = time.monotonic()
        self.left: dict[str, int] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None) -> None:
        self.left[stage] = units
        self._say(f"{stage}: {begun(units, calls, endpoint)}")

    def advance(self, stage: str, parts: list[Part]) -> None:
        self.left[stage] -= 1
        if self.left[stage] and time.monotonic() - self.said > 10:
            self._say(f"{stage}: {self.left[stage]} parts left")

    def end(self, entry: StageRun) -> None:
        self._say(ended(entry))

    def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        print(text, file=sys.stderr, flush=True)


class Bars:
    """Progress as a bar for the stage at work, finished stages as lines above it."""

    def __init__(self, out: Console) -> None:
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=out,
            transient=True,
        )
        self.tasks: dict[str, Any] = {}
        self.bar.start()

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None) -> None:
        self.tasks[stage] = self.bar.add_task(f"{stage}  {begun(units, calls, endpoint)}", total=units)

    def advance(self, stage: str, parts: list[Part]) -> None:
        self.bar.advance(self.tasks[stage])

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.tasks:
            self.bar.remove_task(self.tasks.pop(entry.stage))
        self.bar.console.print(ended(entry))

    def close(self) -> None:
        self.bar.stop()


def begun(units: int, calls: int, endpoint: str | None) -> str:
    """What a stage is about to do."""
    parts = f"{units} part{'' if units == 1 else 's'}"
    return f"{parts}, up to {calls:,} calls of {endpoint}" if calls else parts


def ended(entry: StageRun) -> str:
    """One line on what a stage made."""
    state = "" if entry.state == "run" else "   reused"
    if entry.state == "run" and entry.units_reused:
        state = f"   {entry.units_reused} of {entry.units_reused + entry.units_run} parts reused"
    took = f"{entry.seconds:7.1f} s" if entry.state == "run" else " " * 9
    return f"  {entry.stage:<20}{entry.artifact.rows:>10,} rows {took}{state}{remarks(entry.artifact)}"


def remarks(artifact: Artifact) -> str:
    """Rows left out by reason, and counters, in one phrase."""
    kinds: dict[str, list[str]] = {"filtered": [], "defect": []}
    for (kind, reason), number in artifact.rejected().items():
        kinds[kind].append(f"{number:,} {reason}")
    said = [
        f"{word}: {', '.join(kinds[kind])}"
        for kind, word in (("filtered", "filtered"), ("defect", "rejected"))
        if kinds[kind]
    ]
    said += [f"{number:,} {name}" for name, number in artifact.counts().items() if number]
    return f"   {'; '.join(said)}" if said else ""


def plan_table(stages: Iterable[Planned]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("why", ratio=1)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    for planned in stages:
        table.add_row(planned.stage, planned.state, planned.why, planned.rows, calls(planned))
    return table


def calls(planned: Planned) -> str:
    """How many model calls a stage makes: a bound, exact only where its inputs are built."""
    if planned.endpoint is None:
        return ""
    if planned.calls is None:
        return "unknown"
    return f"{planned.calls:,}" if not planned.calls or planned.calls_exact else f"up to {planned.calls:,}"


def table(columns: dict[str, str], rows: Iterable[Iterable[object]]) -> Table:
    """A bare table; `columns` maps names to the justification of their cells."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in columns.items():
        made.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        made.add_row(
            *(f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell) for cell in row)
        )
    return made
