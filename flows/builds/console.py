"""How progress and tables are shown on a terminal, and as plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from longform.llm.price import NANO
from longform.llm.send.secrets import without_secrets

if TYPE_CHECKING:
    from longform.artifacts.store import Artifact
    from longform.engine.build import StageRun, Watch

WIDTH = 100
SECONDS_BEFORE_A_WORD, SECONDS_BETWEEN_WORDS = 5, 30
LEAST_FRACTION = 0.01  # below this, the remaining time is not estimated
ALL_READ = 0.995
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")

_BREAKS = re.compile(r"[\t\n\u2028\u2029]")


def console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr: as wide as the terminal. Where the output is no terminal, it has WIDTH columns
    and no colour.

    Strings are never read as markup, and control characters in them are escaped (see `visible`). Objects of rich, such
    as Text, are printed as they are.
    """
    out = _Plain(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = WIDTH
    return out


class _Plain(Console):
    """A console that escapes control characters (see `visible`) in the strings that it prints."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that rich is handling, as `print` would: flows/cli/shared/outputs.py handles it."""
        raise  # the BrokenPipeError that is being handled


def visible(text: str) -> str:
    """The text without any secret that this process has read, and with some characters escaped as in JSON (\\u001b):
    those that control a terminal, change the writing direction or are invisible.

    Tabs and line feeds stay, carriage returns do not. The joiners U+200C and U+200D stay: Persian words and emoji need
    them.
    """
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", without_secrets(text))


def on_one_line(text: str) -> str:
    """As `visible`, with line ends and tabs escaped, too: a name cannot break a line, or forge one."""
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(text))


def print_line(text: str) -> None:
    """Print a line to stderr in one write, so that lines of stages that run at the same time do not mix. Control
    characters are escaped (see `visible`).
    """
    print(f"{visible(text)}\n", end="", file=sys.stderr, flush=True)


class Lines:
    """The progress of a build as plain lines on stderr, for logs, pipes and Prefect workers: one when a stage begins,
    one when it ends and, between them, its status after 5 seconds and then every 30.
    """

    def __init__(self) -> None:
        self.running: dict[str, threading.Event] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        print_line(f"{stage}: {start_phrase(units, calls, endpoint)}")
        finished = self.running[stage] = threading.Event()
        report_periodically(finished, StageStatus(calls, watch), lambda phrase: print_line(f"{stage}: {phrase}"))

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.running:
            self.running.pop(entry.stage).set()
        print_line(end_line(entry))

    def close(self) -> None:
        for finished in self.running.values():
            finished.set()

    def say(self, text: str) -> None:
        print_line(f"  {text}")


def report_periodically(finished: threading.Event, status: StageStatus, say: Callable[[str], None]) -> None:
    """Start a daemon thread that calls `say` with the phrase of the stage's status after 5 seconds and then every 30,
    until `finished` is set.
    """

    def tell() -> None:
        seconds = SECONDS_BEFORE_A_WORD
        while not finished.wait(seconds):
            say(status.phrase())
            seconds = SECONDS_BETWEEN_WORDS

    threading.Thread(target=copy_context().run, args=(tell,), daemon=True).start()


class Bars:
    """The progress of a build on a terminal: a bar for each running stage, with finished stages as lines above the
    bars. The display starts when the object is made; `close` ends it and removes the bars.
    """

    def __init__(self, out: Console) -> None:
        self.bar = Progress(
            SpinnerColumn("dots" if out.encoding.startswith("utf") else "line"),
            TextColumn("{task.description}"),
            BarColumn(30),
            TimeElapsedColumn(),
            _StatusColumn(),
            console=out,
            transient=True,
        )
        self.tasks: dict[str, Any] = {}
        self.bar.start()

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        description = f"{stage}  {start_phrase(units, calls, endpoint)}"
        self.tasks[stage] = self.bar.add_task(description, total=1.0, status=StageStatus(calls, watch))

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.tasks:
            self.bar.remove_task(self.tasks.pop(entry.stage))
        self.bar.console.print(end_line(entry))

    def close(self) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.bar.console.print(f"  {text}")


class _StatusColumn(ProgressColumn):
    """The column of a progress bar that shows the status of its stage; rendering it also advances the bar."""

    def render(self, task: Task) -> str:
        """The phrase of the stage's status; also sets the bar to the fraction that is done."""
        status: StageStatus = task.fields["status"]
        task.completed = status.watch()["fraction"]
        return status.phrase()


class StageStatus:
    """The status of a running stage, which `phrase` puts into words. `calls`: upper bound of the stage's calls of a
    model. `watch`: returns the present figures, `fraction` (done, from 0 to 1) and, for a stage that asks a model,
    those of `Models.status`.
    """

    def __init__(self, calls: int, watch: Watch) -> None:
        self.calls, self.watch = calls, watch
        self.started = time.monotonic()
        self.answered_before = watch().get("answered", 0)

    def phrase(self) -> str:
        """The present status, e.g. `40% done, about 3 min left`, without the time left up to LEAST_FRACTION (1
        percent); `at work for 5 s` while nothing is done, and `all read, at work for 5 s` from ALL_READ on, as what was
        read may still wait, e.g. for pages. Of a stage that asks a model: answers and their rate, time left at most,
        requests in flight, USD spent, and why it waits.
        """
        now, seconds = self.watch(), max(0.001, time.monotonic() - self.started)
        if "answered" in now:
            return ", ".join(self._calls(now, seconds))
        fraction = now["fraction"]
        if fraction >= ALL_READ:
            return f"all read, at work for {duration(seconds)}"
        left = [f"about {duration(seconds * (1 - fraction) / fraction)} left"] if fraction > LEAST_FRACTION else []
        return ", ".join([f"{fraction:.0%} done" if fraction else f"at work for {duration(seconds)}", *left])

    def _calls(self, now: dict[str, Any], seconds: float) -> list[str]:
        """The phrases for a stage that asks a model, by its figures `now`, `seconds` after its start: answers since
        then and their rate; time left at most (not without answers, or if the bound of calls is reached or unknown);
        requests in flight; USD booked (of the limit; not if there is neither), also for replies that
        were lost or of no use, as they may have been billed; why it waits (not if it does not).
        """
        answered = now["answered"] - self.answered_before
        rate = answered / seconds
        phrases = [f"{answered:,} answered, {rate:.{0 if rate >= 10 else 1}f}/s", f"{now['in_flight']} in flight"]
        if rate and self.calls > answered:
            phrases.insert(1, f"at most {duration((self.calls - answered) / rate)} left")
        if now["spent_nano"] or now["cap_nano"] is not None:
            cap = f" of {now['cap_nano'] / NANO:,.2f}" if now["cap_nano"] is not None else ""
            booked = " booked" if now["spent_nano"] else ""
            lost = ", for replies that were lost or of no use" if booked and not answered else ""
            phrases.append(f"USD {now['spent_nano'] / NANO:,.2f}{booked}{cap}{lost}")
        return phrases + ([now["waits"]] if now["waits"] else [])


def duration(seconds: float) -> str:
    """Seconds in words: `40 s` below 90 seconds, `12 min` below 90 minutes, else hours and minutes, `2 h 20`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d}"


def start_phrase(units: int, calls: int, endpoint: str | None) -> str:
    """What a stage is about to do: `12 parts, up to 3,400 calls of gpt`. `units`: its parts; `calls`: upper bound of
    its calls of the endpoint, 0 if there are none or the number is unknown. If it is 0: `12 parts, with calls of gpt`;
    only `12 parts` without an endpoint, and `0 parts` without parts.
    """
    parts = f"{units} part{'' if units == 1 else 's'}"
    if calls:
        return f"{parts}, up to {calls:,} calls of {endpoint}"
    return f"{parts}, with calls of {endpoint}" if units and endpoint else parts


def end_line(entry: StageRun) -> str:
    """The line for a finished stage: its name, number of rows, then seconds and how many parts were reused, or
    `reused` for the whole stage, and the phrase of `remarks`.
    """
    state = "" if entry.state == "run" else "   reused"
    if entry.state == "run" and entry.units_reused:
        state = f"   {entry.units_reused} of {entry.units_reused + entry.units_run} parts reused"
    took = f"{entry.seconds:7.1f} s" if entry.state == "run" else " " * 9
    return f"  {entry.stage:<20}{entry.artifact.rows:>10,} rows {took}{state}{remarks(entry.artifact)}"


def remarks(artifact: Artifact) -> str:
    """Filtered and rejected rows by reason, and the counters that are not zero, as one phrase after three blanks;
    empty if there are none.
    """
    from longform.engine.health import counter_phrase  # which takes a moment

    phrases = [
        f"{word}: {', '.join(f'{number:,} {reason}' for reason, number in reasons.items())}"
        for kind, word in (("filtered", "filtered"), ("defect", "rejected"))
        if (reasons := artifact.reasons(kind))
    ]
    phrases += [counter_phrase(name, number) for name, number in artifact.counts().items() if number]
    return f"   {'; '.join(phrases)}" if phrases else ""


def table(columns: dict[str, str], rows: Iterable[Iterable[object]]) -> Table:
    """A table without borders. `columns`: name -> `right` (justified right), `whole` (left, never wrapped) or anything
    else (left). Integers get thousands separators.
    """
    heads = (
        Column(name, justify="right" if how == "right" else "left", overflow="fold", no_wrap=how == "whole")
        for name, how in columns.items()
    )
    result = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        result.add_row(
            *(f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell) for cell in row)
        )
    return result
