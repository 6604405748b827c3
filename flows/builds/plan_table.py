"""A plan as a person reads it: the table of its stages, and below it the sum, time, batch prices, what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.table import Column, Table

from flows.builds.console import duration

if TYPE_CHECKING:
    from longform.engine.plan import Planned

A_MINUTE = 60
UNBATCHED = {
    "wait": "what a batch leaves unanswered, and what is asked again, waits for the next one; nothing goes online",
    "online": "what a batch leaves unanswered, and what is asked again, goes online at full price",
}
MOST_ONLINE = 3  # calls for a question

OF_WHICH = {"cached_tokens": "about {} tokens in cached", "reasoning_tokens": "about {} tokens out reasoning"}


def plan_table(stages: Iterable[Planned]) -> Table:
    """The plan as a table, one line for each stage. An exact figure is a bare number, `~` marks an estimate, `≤` an
    upper bound, `?` an unknown figure.

    It has columns for cached replies, tokens and USD only if some stage would ask a model other than the offline one.
    """
    stages = list(stages)
    priced = any(map(_online, stages))
    shown = _figure if priced else "{:,.0f}".format
    figures = ("rows", "calls", "cached", "tokens in/out", "USD") if priced else ("rows", "calls")
    texts = Column("stage", no_wrap=True), Column("state", no_wrap=True), Column("why", ratio=1, min_width=11)
    numbers = (Column(name, justify="right", no_wrap=True) for name in figures)
    table = Table(*texts, *numbers, box=None, pad_edge=False, header_style="bold")
    for planned in stages:
        why = (planned.why + ("; price unknown" if planned.unpriced else "")).removeprefix("; ")
        rows = _cell(planned.rows, planned.rows_about, planned.rows_at_most, shown)
        calls = _cell(planned.calls if planned.exact else None, planned.calls_about, planned.calls, shown)
        cells = rows, calls if planned.endpoint else "", *(_cost_cells(planned) if priced else ())
        table.add_row(planned.stage, planned.state, why, *cells)
    return table


def _cell(exact: float | None, about: float | None, most: float | None, shown: Callable[[float], str]) -> str:
    """The exact figure if it is known, else the estimate above the upper bound (`~ 12` above `≤ 30`, `?` without a
    bound). The bound alone if there is no estimate or both look the same. `shown` formats a figure.
    """
    if exact is not None:
        return shown(exact)
    bound = "?" if most is None else f"≤ {shown(most)}"
    if about is None or (most is not None and shown(about) == shown(most)):
        return bound
    return f"~ {shown(about)}\n{bound}"


def _online(planned: Planned) -> bool:
    """Whether the stage would ask a model other than the offline one, which may cost money."""
    return planned.endpoint is not None and planned.state != "reuse" and not planned.offline


def _cost_cells(planned: Planned) -> list[str]:
    """The cells (texts) of a stage for cached replies, tokens and USD. All three are empty if it asks no model that may
    cost money, the first if its figures are not exact, the second if it has no calls.
    """
    if not _online(planned):
        return ["", "", ""]
    if not planned.exact:
        return ["", _tokens(planned), _cell(None, planned.usd, planned.usd_at_most, usd_text)]
    cached = "" if planned.cached is None else f"{planned.cached:,}"
    return [cached, _tokens(planned) if planned.calls else "", _usd_range([planned], "usd_low", "usd_high")]


def _tokens(planned: Planned) -> str:
    """Tokens sent and received, e.g. `12.0 k / 3.1 k`. In an exact plan the received ones are an upper bound (`≤`)
    unless the length of replies is estimated from stored ones. Else the estimate, if there is one (`~`), and on the
    next line the bound (`≤`, or `?` if it is unknown).
    """
    if planned.exact:
        out = _figure(planned.output_tokens or 0) if planned.measured else f"≤ {_figure(planned.output_high or 0)}"
        return f"{_figure(planned.input_tokens or 0)} / {out}"
    about = _pair(planned.input_tokens, planned.output_tokens)
    most = _pair(planned.input_tokens_at_most, planned.output_tokens_at_most)
    return (f"~ {about}\n" if about else "") + (f"≤ {most}" if most else "?")


def _pair(sent: int | None, made: int | None) -> str:
    """`sent / received`, e.g. `12.0 k / 3.1 k`; empty if one of the two is None."""
    return "" if sent is None or made is None else f"{_figure(sent)} / {_figure(made)}"


def plan_foot(stages: Iterable[Planned], *, builds: bool = True) -> list[str]:
    """The lines below a plan's table, in this order, each only where it applies: the sum of calls, tokens and USD;
    time and batch price; which stages begin with a pilot; what becomes of questions that batches leave unanswered; that
    the length of replies is only bounded; the legend of signs; which stage to build first for exact figures; models of
    unknown price; stages that search the web. `builds`: whether `longform build` can be told to begin with a part.
    """
    stages = list(stages)
    online = [planned for planned in stages if _online(planned)]
    paid = [planned for planned in online if planned.exact and planned.calls]
    lines = _sum_lines(online)
    lines += [_time_and_batch(paid)] if any(planned.usd_high for planned in paid) else []
    lines += _pilot_lines(online) + _batch_lines(online)
    if builds and any(planned.usd_high for planned in paid) and not all(planned.measured for planned in paid):
        lines.append("replies are bounded by their limit only: a pilot (`build --limit 100`) tells what they take")
    lines += _signs(stages) + (_until_lines(stages) if builds else [])
    unpriced = {name: model for planned in online for name, model in (planned.unpriced or {}).items()}
    lines += [f"price of model {m} unknown: set [endpoints.{n}.price] input and output" for n, m in unpriced.items()]
    return lines + _web_lines(stages)


def _sum_lines(online: list[Planned]) -> list[str]:
    """A line with the sums of calls, tokens and USD over `online`, the stages that may cost money: upper bounds (calls
    exact if all are), estimates if there are any, and the stages that are not included. Unless there are no calls, a
    second line says that replies which are asked for again are not counted. Empty if `online` is.
    """
    from longform.engine.plan import total

    if not online:
        return []
    sums = total(online)
    calls, sent, received = (sums[name] for name in ("calls", "input_tokens_at_most", "output_tokens_at_most"))
    phrases = [f"{'' if sums['exact'] else 'at most '}{calls:,} calls"]
    phrases += [f"at most {tokens} tokens"] if (tokens := _pair(sent, received)) else []
    phrases += [f"USD {usd_text(sums['usd_at_most'])} at most"] if sums["usd_at_most"] is not None else []
    if sums["usd"] is not None and sums["calls_about"] is not None:
        phrases.append(f"about {sums['calls_about']:,} calls and USD {usd_text(sums['usd'])}")
    without = [f"{stage} (unknown{f' until {last}' if last else ''})" for stage, last in sums["without"].items()]
    phrases += [f"without {', '.join(without)}"] if without else []
    parts = [(sum(getattr(planned, name) or 0 for planned in online), words) for name, words in OF_WHICH.items()]
    if of_which := [words.format(_figure(number)) for number, words in parts if number]:
        phrases.append(f"of which {', '.join(of_which)}")
    again = "a reply that is cut off or cannot be read is asked for again, which no figure here holds"
    return [f"in all {', '.join(phrases)}", *([again] if calls else [])]


def _signs(stages: list[Planned]) -> list[str]:
    """The legend of the signs of figures that are not exact, as one line; empty if all are. With estimates it names up
    to five of the groups (e.g. sites) whose earlier builds they follow.
    """
    inexact = [planned for planned in stages if not planned.exact]
    legend = ["≤ at most"] if any(planned.known == "at most" for planned in inexact) else []
    if any(planned.rows_about is not None for planned in inexact):
        groups = sorted({name for planned in inexact for name in planned.rates_of})
        legend.append("~ about, by the rates of earlier builds" + (f" of {', '.join(groups[:5])}" if groups else ""))
    legend += ["? unknown until read"] if any(planned.known == "unknown until read" for planned in inexact) else []
    return [" · ".join(legend)] if legend else []


def _until_lines(stages: list[Planned]) -> list[str]:
    """A line that names the first stage with an endpoint and inexact figures, and the `build --until` command after
    which its figures are exact; empty if there is no such stage, or no stage that has to be built before it.
    """
    inexact = [(planned.stage, planned.waits_for) for planned in stages if planned.endpoint and not planned.exact]
    return [f"{stage} is exact once {last} is built: `build --until {last}`" for stage, last in inexact[:1] if last]


def _web_lines(stages: list[Planned]) -> list[str]:
    """A line that names the stages which send web requests; no line if there are none."""
    asking = ", ".join(planned.stage for planned in stages if planned.web)
    searches = "up to one web search a row, and the pages that it leads to or that are cited, in no price here"
    return [f"{asking}: {searches}; what was found before is not asked for again"] if asking else []


def _time_and_batch(asked: list[Planned]) -> str:
    """A line with the time that the calls of the stages `asked` take at the endpoints' limits (left out if it is
    unknown for one of them, or below a minute in all), their price as a batch (if an endpoint takes batches), and what
    --max-cost does.
    """
    seconds = [planned.seconds for planned in asked]
    total_seconds = 0 if None in seconds else sum(s or 0 for s in seconds)
    phrases = [f"online about {duration(total_seconds)} at the limits"] if total_seconds >= A_MINUTE else []
    if any(planned.batch for planned in asked):
        phrases.append(f"batch up to 24 h, USD {_usd_range(asked, 'usd_batch_low', 'usd_batch_high')}")
    return " · ".join([*phrases, "--max-cost stops before overspending"])


def _pilot_lines(online: list[Planned]) -> list[str]:
    """A line that names the stages which begin with a pilot, and its size; no line if there are none."""
    names = [planned.stage for planned in online if planned.pilot]
    if not names:
        return []
    size, of = max(planned.pilot or 0 for planned in online), "each of " if len(names) > 1 else ""
    what = f"the first {size} questions of {of}{', '.join(names)} are a pilot"
    return [f"{what}: more is asked once their replies are found to be of use, else the build ends with exit code 7"]


def _batch_lines(online: list[Planned]) -> list[str]:
    """For each setting of `unbatched` a line: the stages in batch mode that have it and may ask something, and what
    becomes of questions that a batch leaves unanswered; where they go online with the most calls that these may be, if
    that is known.
    """
    lines = []
    for then, what in UNBATCHED.items():
        stages = [planned for planned in online if planned.unbatched == then and planned.calls != 0]
        calls = [planned.calls for planned in stages]
        known = then == "online" and None not in calls
        bound = f", at most {sum(MOST_ONLINE * (number or 0) for number in calls):,} calls" if known else ""
        names = ", ".join(planned.stage for planned in stages)
        lines += [f'{names} in batches, unbatched = "{then}": {what}{bound}'] if stages else []
    return lines


def _usd_range(stages: list[Planned], low: str, high: str) -> str:
    """The sum of the prices of the stages, from low to high (`4.12-5.00`), or one amount if both look the same;
    `unknown` if a price of one stage is. `low`, `high`: the names of the attributes of Planned that hold the two ends.
    """
    ends = [[getattr(planned, name) for planned in stages] for name in (low, high)]
    if None in ends[0] + ends[1]:
        return "unknown"
    least, most = (usd_text(sum(end)) for end in ends)
    return least if least == most else f"{least}-{most}"


def usd_text(usd: float) -> str:
    """US dollars as text: from 100 on whole (`1,180`), from 0.1 on with two decimals (`4.12`), below that with two
    significant digits (`0.0042`). 0 is `0`; a positive amount below 0.0001 is shown as `0.0001`.
    """
    if usd == 0 or usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd >= 0.1 else f"{usd:.2g}" if usd >= 0.0001 else "0.0001"


def _figure(number: float) -> str:
    """A number as text: whole below 1,000, else in the unit k, M or G, with one decimal below 100 of the unit: 812,
    35.0 k, 710 M.
    """
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 100 * size else f"{number / size:,.0f} {unit}"
    return f"{number:.0f}"
