"""What a build, a plan and a version look like on a terminal, and as plain lines where there is none."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Literal

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
from rich.table import Table
from rich.text import Text

from longform.llm.price.budget import NANO

if TYPE_CHECKING:
    from longform.artifacts.store import Artifact, Part
    from longform.engine.build import StageRun, Watch
    from longform.engine.plan import Planned

WIDTH = 100
SECONDS_BEFORE_A_WORD, SECONDS_BETWEEN_WORDS = 5, 30
LEAST_FRACTION = 0.01  # of which a time left can be told
A_MINUTE = 60
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def console(*, stderr: bool = False) -> Console:
    """100 columns, colour only on a terminal, nothing of a source's text read as markup or obeyed by the terminal."""
    made = _Plain(stderr=stderr, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else _Plain(stderr=stderr, highlight=False, markup=False, emoji=False, width=WIDTH)


class _Plain(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        """As of `print`: flows/cli/shared/outputs.py says how it ends."""
        raise  # the BrokenPipeError that is being handled


def visible(text: str) -> str:
    """What would steer a terminal, turn the direction of writing, or not be seen is spelled out as in JSON: \\u001b.

    The joiners U+200C and U+200D stay: Persian words and emoji are made of them.
    """
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Lines:
    """Progress as plain lines on stderr: for logs, pipes and Prefect workers."""

    def __init__(self) -> None:
        self.at_work: dict[str, threading.Event] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        self._say(f"{stage}: {begun(units, calls, endpoint)}")
        over = self.at_work[stage] = threading.Event()
        tell_now_and_then(over, Going(calls, watch), lambda phrase: self._say(f"{stage}: {phrase}"))

    def advance(self, stage: str, parts: list[Part]) -> None: ...

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.at_work:
            self.at_work.pop(entry.stage).set()
        self._say(ended(entry))

    def close(self) -> None:
        for over in self.at_work.values():
            over.set()

    def say(self, text: str) -> None:
        self._say(f"  {text}")

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{visible(text)}\n")  # in one piece: stages say what they do at the same time
        sys.stderr.flush()


def tell_now_and_then(over: threading.Event, going: Going, say: Callable[[str], None]) -> None:
    """Say how a stage goes after five seconds, and then every half minute, until it is over."""

    def tell() -> None:
        seconds = SECONDS_BEFORE_A_WORD
        while not over.wait(seconds):
            say(going.phrase())
            seconds = SECONDS_BETWEEN_WORDS

    threading.Thread(target=copy_context().run, args=(tell,), daemon=True).start()


class Bars:
    """Progress as a bar for each stage at work, finished stages as lines above them."""

    def __init__(self, out: Console) -> None:
        self.bar = Progress(
            SpinnerColumn("dots" if out.encoding.startswith("utf") else "line"),
            TextColumn("{task.description}"),
            BarColumn(30),
            TimeElapsedColumn(),
            _HowItGoes(),
            console=out,
            transient=True,
        )
        self.tasks: dict[str, Any] = {}
        self.bar.start()

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        told = f"{stage}  {begun(units, calls, endpoint)}"
        self.tasks[stage] = self.bar.add_task(told, total=1.0, going=Going(calls, watch))

    def advance(self, stage: str, parts: list[Part]) -> None: ...

    def end(self, entry: StageRun) -> None:
        if entry.stage in self.tasks:
            self.bar.remove_task(self.tasks.pop(entry.stage))
        self.bar.console.print(ended(entry))

    def close(self) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.bar.console.print(f"  {text}")


class _HowItGoes(ProgressColumn):
    """Of a stage at work: time left, and how its calls go."""

    def render(self, task: Task) -> str:
        going: Going = task.fields["going"]
        task.completed = going.watch()["fraction"]
        return going.phrase()


class Going:
    """How a stage goes, as a phrase: how far, time left, rate, requests in flight, money, why it waits."""

    def __init__(self, calls: int, watch: Watch) -> None:
        self.calls, self.watch = calls, watch
        self.begun = time.monotonic()
        self.before = watch().get("answered", 0)

    def phrase(self) -> str:
        now, seconds = self.watch(), max(0.001, time.monotonic() - self.begun)
        return ", ".join(self._calls(now, seconds) if "answered" in now else self._far(now["fraction"], seconds))

    def _far(self, fraction: float, seconds: float) -> list[str]:
        left = [f"about {duration(seconds * (1 - fraction) / fraction)} left"] if fraction > LEAST_FRACTION else []
        return [f"{fraction:.0%} done" if fraction else f"at work for {duration(seconds)}", *left]

    def _calls(self, now: dict[str, Any], seconds: float) -> list[str]:
        answered = now["answered"] - self.before
        rate = answered / seconds
        said = [f"{answered:,} answered, {rate:.{0 if rate >= 10 else 1}f}/s", f"{now['in_flight']} in flight"]
        if rate and self.calls > answered:
            said.insert(1, f"at most {duration((self.calls - answered) / rate)} left")
        if now["spent_nano"] or now["cap_nano"] is not None:
            cap = f" of {now['cap_nano'] / NANO:,.2f}" if now["cap_nano"] is not None else ""
            said.append(f"USD {now['spent_nano'] / NANO:,.2f}{cap}")
        return said + ([now["waits"]] if now["waits"] else [])


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
    """What is exact is a bare number; `~` stands before an estimate, `≤` before a bound, `?` for what is unknown.

    Tokens and USD are columns only where something may be paid.
    """
    stages = list(stages)
    return _priced_table(stages) if any(map(_online, stages)) else _plain_table(stages)


def _plain_table(stages: list[Planned]) -> Table:
    table = _table_of(("rows", "calls"))
    for planned in stages:
        table.add_row(planned.stage, planned.state, planned.why, _rows(planned, _in_full), _calls_of(planned, _in_full))
    return table


def _priced_table(stages: list[Planned]) -> Table:
    table = _table_of(("rows", "calls", "cached", "tokens in/out", "USD"))
    for planned in stages:
        why = planned.why + ("; price unknown" if planned.unpriced else "")
        cells = _rows(planned, _figure), _calls_of(planned, _figure), *_cost_cells(planned)
        table.add_row(planned.stage, planned.state, why.removeprefix("; "), *cells)
    return table


def _table_of(figures: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("why", ratio=1, min_width=11)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rows(planned: Planned, shown: Callable[[float], str]) -> str:
    if planned.rows is not None:
        return shown(planned.rows)
    return _bounded(planned.rows_about, planned.rows_at_most, shown)


def _calls_of(planned: Planned, shown: Callable[[float], str]) -> str:
    """How many questions a stage asks: the number where it is exact, else an estimate and a bound."""
    if planned.endpoint is None:
        return ""
    if planned.exact and planned.calls is not None:
        return shown(planned.calls)
    return _bounded(planned.calls_about, planned.calls, shown)


def _bounded(about: float | None, most: float | None, shown: Callable[[float], str]) -> str:
    """`~12` above `≤ 30`; of two that look alike the bound alone."""
    bound = "?" if most is None else f"≤ {shown(most)}"
    if about is None or (most is not None and shown(about) == shown(most)):
        return bound
    return f"~ {shown(about)}\n{bound}"


def _online(planned: Planned) -> bool:
    return planned.endpoint is not None and planned.state != "reuse" and not planned.offline


def _cost_cells(planned: Planned) -> list[str]:
    """Cached replies, tokens and USD of a stage that asks a model."""
    if not _online(planned):
        return ["", "", ""]
    if not planned.exact:
        return ["", _tokens(planned), _bounded(planned.usd, planned.usd_at_most, usd_text)]
    cached = "" if planned.cached is None else f"{planned.cached:,}"
    return [cached, _tokens(planned) if planned.calls else "", _usd_range([planned], "usd_low", "usd_high")]


def _tokens(planned: Planned) -> str:
    """Those sent and those of the replies; where these are not measured, at most."""
    if planned.exact:
        out = _figure(planned.output_tokens or 0) if planned.measured else f"≤ {_figure(planned.output_high or 0)}"
        return f"{_figure(planned.input_tokens or 0)} / {out}"
    about = _pair(planned.input_tokens, planned.output_tokens)
    most = _pair(planned.input_tokens_at_most, planned.output_tokens_at_most)
    lines = [f"~ {about}"] if about else []
    return "\n".join([*lines, f"≤ {most}" if most else "?"])


def _pair(sent: int | None, made: int | None) -> str:
    return "" if sent is None or made is None else f"{_figure(sent)} / {_figure(made)}"


def plan_foot(stages: Iterable[Planned]) -> list[str]:
    """The sum, and what the table cannot say: time, batch, what is not known and how to know it, the web."""
    stages = list(stages)
    online = [planned for planned in stages if _online(planned)]
    asked = [planned for planned in online if planned.exact and planned.calls]
    said = _sum(online)
    said += [_time_and_batch(asked)] if any(planned.usd_high for planned in asked) else []
    if any(planned.usd_high for planned in asked) and not all(planned.measured for planned in asked):
        said.append("replies are bounded by their limit only: a pilot (`build --limit 100`) tells what they take")
    said += _signs(stages) + _until(stages)
    unpriced = {name: model for planned in online for name, model in (planned.unpriced or {}).items()}
    said += [f"price of model {m} unknown: set [endpoints.{n}.price] input and output" for n, m in unpriced.items()]
    return said + _web(stages)


def _sum(online: list[Planned]) -> list[str]:
    """What all stages that may cost something ask and cost at most, and about; what that is without."""
    from longform.engine.plan import total

    if not online:
        return []
    found = total(online)
    calls, sent, made = (found[name] for name in ("calls", "input_tokens_at_most", "output_tokens_at_most"))
    said = [f"{'' if found['exact'] else 'at most '}{calls:,} calls"]
    said += [f"at most {_figure(sent)} / {_figure(made)} tokens"] if sent is not None and made is not None else []
    said += [f"USD {usd_text(found['usd_at_most'])} at most"] if found["usd_at_most"] is not None else []
    if found["usd"] is not None and found["calls_about"] is not None:
        said.append(f"about {found['calls_about']:,} calls and USD {usd_text(found['usd'])}")
    without = [f"{stage} (unknown until {waits_for})" for stage, waits_for in found["without"].items()]
    left = [f"without {', '.join(without)}"] if without else []
    again = "a reply that is cut off or cannot be read is asked for again, which no figure here holds"
    return [f"in all {', '.join(said + left)}", *([again] if calls else [])]


def _signs(stages: list[Planned]) -> list[str]:
    """What the signs of the table mean, where it has them, and whose rates estimates go by."""
    left = [planned for planned in stages if not planned.exact]
    said = ["≤ at most"] if any(planned.known == "at most" for planned in left) else []
    if any(planned.rows_about is not None for planned in left):
        like = sorted({name for planned in left for name in planned.rates_of})
        said.append("~ about, by the rates of earlier builds" + (f" of {', '.join(like[:5])}" if like else ""))
    said += ["? unknown until read"] if any(planned.known == "unknown until read" for planned in left) else []
    return [" · ".join(said)] if said else []


def _until(stages: list[Planned]) -> list[str]:
    """What makes the first stage exact that asks a model and is not."""
    waiting = next((planned for planned in stages if planned.endpoint and not planned.exact), None)
    if waiting is None or waiting.waits_for is None:
        return []
    return [f"{waiting.stage} is exact once {waiting.waits_for} is built: `build --until {waiting.waits_for}`"]


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


def _figure(number: float) -> str:
    """Two or three digits: 812, 35.0 k, 71 M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 100 * size else f"{number / size:,.0f} {unit}"
    return f"{number:.0f}"


def _in_full(number: float) -> str:
    return f"{number:,.0f}"


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
