"""What a build, a plan and a version look like on a terminal, and as plain lines where there is none."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from longform.llm.budget import NANO

if TYPE_CHECKING:
    from longform.store import Artifact, Part
    from tasks.build import StageRun, Watch
    from tasks.plan import Planned

WIDTH = 100
A_MINUTE = 60
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def console(*, stderr: bool = False) -> Console:
    """100 columns, colour only on a terminal, nothing of a source's text read as markup or obeyed by the terminal."""
    made = _Plain(stderr=stderr, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else _Plain(stderr=stderr, highlight=False, markup=False, emoji=False, width=WIDTH)


class _Plain(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def visible(text: str) -> str:
    """What would steer a terminal, turn the direction of writing, or not be seen is spelled out as in JSON: \\u001b.

    The joiners U+200C and U+200D stay: Persian words and emoji are made of them.
    """
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Lines:
    """Progress as plain lines on stderr: for logs, pipes and Prefect workers."""

    def __init__(self) -> None:
        self.said = time.monotonic()
        self.left: dict[str, int] = {}
        self.quiet = threading.Event()

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch | None = None) -> None:
        self.left[stage] = units
        self._say(f"{stage}: {begun(units, calls, endpoint)}")
        self.quiet.set()
        if watch is not None:
            self.quiet = threading.Event()
            threading.Thread(target=self._tell, args=(stage, calls, watch, self.quiet), daemon=True).start()

    def advance(self, stage: str, parts: list[Part]) -> None:
        self.left[stage] -= 1
        if self.left[stage] and time.monotonic() - self.said > 10:
            self._say(f"{stage}: {self.left[stage]} parts left")

    def end(self, entry: StageRun) -> None:
        self.quiet.set()
        self._say(ended(entry))

    def close(self) -> None:
        self.quiet.set()

    def say(self, text: str) -> None:
        self._say(f"  {text}")

    def _tell(self, stage: str, calls: int, watch: Watch, quiet: threading.Event) -> None:
        going = Going(calls, watch)
        while not quiet.wait(30):
            self._say(f"{stage}: {going.phrase()}")

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        print(visible(text), file=sys.stderr, flush=True)


class Bars:
    """Progress as a bar for the stage at work, finished stages as lines above it."""

    def __init__(self, out: Console) -> None:
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Calls(),
            console=out,
            transient=True,
        )
        self.tasks: dict[str, Any] = {}
        self.bar.start()

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch | None = None) -> None:
        going = Going(calls, watch) if watch is not None else None
        self.tasks[stage] = self.bar.add_task(f"{stage}  {begun(units, calls, endpoint)}", total=units, going=going)

    def advance(self, stage: str, parts: list[Part]) -> None:
        self.bar.advance(self.tasks[stage])

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.tasks:
            self.bar.remove_task(self.tasks.pop(entry.stage))
        self.bar.console.print(ended(entry))

    def close(self) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.bar.console.print(f"  {text}")


class _Calls(ProgressColumn):
    """How the calls of the stage at work go."""

    def render(self, task: Task) -> str:
        going = task.fields.get("going")
        return going.phrase() if going else ""


class Going:
    """How a stage's calls go, as a phrase: rate, time left, requests in flight, money, why it waits."""

    def __init__(self, calls: int, watch: Watch) -> None:
        self.calls, self.watch = calls, watch
        self.begun = time.monotonic()
        self.before = watch()["answered"]

    def phrase(self) -> str:
        now = self.watch()
        answered = now["answered"] - self.before
        rate = answered / max(0.001, time.monotonic() - self.begun)
        said = [f"{answered:,} answered, {rate:.{0 if rate >= 10 else 1}f}/s", f"{now['in_flight']} in flight"]
        if rate and self.calls > answered:
            said.insert(1, f"at most {duration((self.calls - answered) / rate)} left")
        if now["spent_nano"] or now["cap_nano"] is not None:
            cap = f" of {now['cap_nano'] / NANO:,.2f}" if now["cap_nano"] is not None else ""
            said.append(f"USD {now['spent_nano'] / NANO:,.2f}{cap}")
        return ", ".join(said + ([now["waits"]] if now["waits"] else []))


def duration(seconds: float) -> str:
    """As people say it: 40 s, 12 min, 2 h 20."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d}"


def begun(units: int, calls: int, endpoint: str | None) -> str:
    """What a stage is about to do."""
    parts = f"{units} part{'' if units == 1 else 's'}"
    if calls:
        return f"{parts}, up to {calls:,} calls of {endpoint}"
    return f"{parts}, with calls of {endpoint}" if units and endpoint else parts


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
    """Tokens and USD are columns only where something may be paid."""
    stages = list(stages)
    return _priced_table(stages) if any(map(_online, stages)) else _plain_table(stages)


def _plain_table(stages: list[Planned]) -> Table:
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


def _priced_table(stages: list[Planned]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("why", ratio=1, min_width=16)
    for name in ("rows", "calls", "cached", "tokens in/out", "USD"):
        table.add_column(name, justify="right", no_wrap=True)
    for planned in stages:
        why = planned.why + ("; price unknown" if planned.unpriced else "")
        table.add_row(planned.stage, planned.state, why.removeprefix("; "), _short(planned.rows), *_cost_cells(planned))
    asked = [planned for planned in stages if planned.exact and _online(planned)]
    if len(asked) > 1:
        calls, cached = (sum(getattr(planned, name) or 0 for planned in asked) for name in ("calls", "cached"))
        table.add_row("", "", "", "", f"{calls:,}", f"{cached:,}", "", _usd_range(asked, "usd_low", "usd_high"))
        if any(not planned.exact for planned in filter(_online, stages)):
            table.add_row("", "", "", "", "", "", "", "+ unknown")
    return table


def _online(planned: Planned) -> bool:
    return planned.endpoint is not None and planned.state != "reuse" and not planned.offline


def _cost_cells(planned: Planned) -> list[str]:
    if not _online(planned):
        return [_short(calls(planned)), "", "", ""]
    if not planned.exact:
        bound = "" if planned.usd_high is None else f"≤ {usd_text(planned.usd_high)}"
        return [_short(calls(planned)), "", "", bound]
    out = _figure(planned.output_tokens or 0) if planned.measured else f"≤ {_figure(planned.output_high or 0)}"
    tokens = f"{_figure(planned.input_tokens or 0)} / {out}" if planned.calls else ""
    return [f"{planned.calls:,}", f"{planned.cached:,}", tokens, _usd_range([planned], "usd_low", "usd_high")]


def plan_foot(stages: Iterable[Planned]) -> list[str]:
    """What the table cannot say: time, batch, what is not known, what the web is asked."""
    stages = list(stages)
    online = [planned for planned in stages if _online(planned)]
    asked = [planned for planned in online if planned.exact and planned.calls]
    said = [_time_and_batch(asked)] if any(planned.usd_high for planned in asked) else []
    if any(planned.usd_high for planned in asked) and not all(planned.measured for planned in asked):
        said.append("replies are bounded by their limit only: a pilot (`build --limit 100`) tells what they take")
    if waiting := next((planned for planned in online if not planned.exact), None):
        before = [each for each in stages[: stages.index(waiting)] if each.state != "reuse" and not _online(each)]
        said.append(
            "what comes after a stage that is not built is a bound, or unknown, until it is: "
            f"`build --until {before[-1].stage if before else 'STAGE'}`"
        )
    unpriced = {name: model for planned in online for name, model in (planned.unpriced or {}).items()}
    said += [f"price of model {m} unknown: set [endpoints.{n}.price] input and output" for n, m in unpriced.items()]
    return said + _web(stages)


def _web(stages: list[Planned]) -> list[str]:
    asking = [planned.stage for planned in stages if planned.web]
    if not asking:
        return []
    return [
        f"{', '.join(asking)}: up to one web search a row, and the pages it leads to, in no price here; "
        "what was found before is not asked for again"
    ]


def _time_and_batch(asked: list[Planned]) -> str:
    seconds = [planned.seconds for planned in asked]
    whole = 0 if None in seconds else sum(s or 0 for s in seconds)
    said = [f"online about {duration(whole)} at the limits"] if whole >= A_MINUTE else []
    if any(planned.batch for planned in asked):
        said.append(f"batch up to 24 h, USD {_usd_range(asked, 'usd_batch_low', 'usd_batch_high')}")
    return " · ".join([*said, "--max-cost stops before overspending"])


def _usd_range(stages: list[Planned], low: str, high: str) -> str:
    ends = [[getattr(planned, name) for planned in stages] for name in (low, high)]
    if None in ends[0] or None in ends[1]:
        return "unknown"
    least, most = (usd_text(sum(end)) for end in ends)
    return least if least == most else f"{least}-{most}"


def usd_text(usd: float) -> str:
    """As many digits as tell something: 0, 0.0042, 0.37, 4.12, 118."""
    if usd == 0 or usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd >= 0.1 else f"{usd:.2g}" if usd >= 0.0001 else "0.0001"


def _figure(number: int) -> str:
    """Two or three digits: 812, 35.0 k, 71 M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 100 * size else f"{number / size:,.0f} {unit}"
    return str(number)


def _short(text: str) -> str:
    return "?" if text.startswith("unknown") else text.replace("up to ", "≤ ")


def table(columns: dict[str, str], rows: Iterable[Iterable[object]]) -> Table:
    """A bare table; `columns` maps names to the justification of their cells, or to `whole`: never broken."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in columns.items():
        side: Literal["right", "left"] = "right" if justify == "right" else "left"
        made.add_column(name, justify=side, overflow="fold", no_wrap=justify == "whole")
    for row in rows:
        made.add_row(
            *(f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell) for cell in row)
        )
    return made
