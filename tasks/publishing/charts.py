"""Charts of counts for reports, as matplotlib figures on a light background: bars, histograms, ranges.

Places are computed here, since matplotlib's own layout differs from run to run in the last digits. A chart is given to
`svg_of` (tasks/publishing/plots.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = ("#1b5e8a", "#d9813c", "#6aaed6", "#9c3d2e", "#7a8f3c", "#6b4c8a", "#c9a227", "#3b8f86", "#5d6470")
GREY = "#5d6470"
WIDE_INCHES = 9.0
BAR_INCHES, PANEL_INCHES = 0.3, 1.5
ABOVE_INCHES, BELOW_INCHES, RIGHT_INCHES = 0.55, 0.5, 0.2
CHARACTER_INCHES = 0.075
COLUMNS = 2


@dataclass(frozen=True, slots=True)
class Counts:
    """One panel: counts of each series, one for each group or bin. `counts`: series -> counts, in the same order.

    Of histograms also `means`: series -> where its mean is, the middle of bin n being at n; and `bins`, if the panel
    has bins of its own.
    """

    title: str
    counts: Mapping[str, Sequence[int]]
    means: Mapping[str, float] = field(default_factory=dict)
    bins: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """The percentiles 10, 25, 50, 75 and 90 of a series in a group."""

    group: str
    series: str
    percentiles: tuple[float, float, float, float, float]


def stacked_bars(groups: Sequence[str], panels: Sequence[Counts]) -> Plot:
    """A bar for each group, in which the series are stacked; panels side by side. The sum stands behind each bar."""
    names = _names_inches(groups)
    high = BAR_INCHES * len(groups)
    figure = _figure(WIDE_INCHES, ABOVE_INCHES + high + BELOW_INCHES)
    wide = (WIDE_INCHES - names) / len(panels) - RIGHT_INCHES
    for place, panel in enumerate(panels):
        axes = _axes(figure, names + place * (wide + RIGHT_INCHES), BELOW_INCHES, wide, high, panel.title)
        start = [0] * len(groups)
        colours = _colours(panel.counts)
        for series, counts in panel.counts.items():
            axes.barh(range(len(groups)), counts, left=start, color=colours[series], height=0.7, label=series)
            start = [a + b for a, b in zip(start, counts, strict=True)]
        for row, total in enumerate(start):
            axes.annotate(f" {total:,}", (total, row), va="center", fontsize=8, color=GREY)
        axes.set_xlim(0, 1.2 * max(*start, 1))
        _group_names(axes, groups if place == 0 else [""] * len(groups))
    _legend(figure)
    return figure


def histograms(bins: Sequence[str], panels: Sequence[Counts], what: str) -> Plot:
    """A panel of bars for each of `panels`: of each bin and series its share of the series, in percent; means
    are dashed lines. `what`: the words below the bins.
    """
    rows = -(-len(panels) // COLUMNS)
    step = ABOVE_INCHES + PANEL_INCHES + BELOW_INCHES
    colours = _colours(series for panel in panels for series in panel.counts)
    figure = _figure(WIDE_INCHES, rows * step)
    wide = WIDE_INCHES / COLUMNS - 0.7
    for place, panel in enumerate(panels):
        row, column = divmod(place, COLUMNS)
        left, bottom = 0.5 + column * WIDE_INCHES / COLUMNS, (rows - 1 - row) * step + BELOW_INCHES
        axes = _axes(figure, left, bottom, wide, PANEL_INCHES, panel.title)
        width = 0.8 / len(panel.counts)
        for number, (series, counts) in enumerate(panel.counts.items()):
            shares = [100 * count / max(sum(counts), 1) for count in counts]
            at = [bin_ - 0.4 + (number + 0.5) * width for bin_ in range(len(shares))]
            axes.bar(at, shares, width, color=colours[series], label=series)
        for series, mean in panel.means.items():
            axes.axvline(mean, color="white", linewidth=3)  # else a line is lost in bars of its colour
            axes.axvline(mean, color=colours[series], linestyle="--", linewidth=1.4)
        labels = panel.bins or bins
        axes.set_xticks(range(len(labels)), labels, fontsize=7)
        axes.set_xlabel(what, fontsize=8)
        axes.set_ylabel("%", fontsize=8)
    _legend(figure)
    return figure


@dataclass(frozen=True, slots=True)
class Points:
    """One panel: points of each series. `points`: series -> (across, up) of each."""

    title: str
    points: Mapping[str, Sequence[tuple[float, float]]]


def scatters(panels: Sequence[Points], across: str, up: str) -> Plot:
    """A panel of points for each of `panels`, two in a row. `across`, `up`: the words along its sides."""
    rows = -(-len(panels) // COLUMNS)
    step = ABOVE_INCHES + 1.6 * PANEL_INCHES + BELOW_INCHES
    colours = _colours(series for panel in panels for series in panel.points)
    figure = _figure(WIDE_INCHES, rows * step)
    wide = WIDE_INCHES / COLUMNS - 0.8
    for place, panel in enumerate(panels):
        row, column = divmod(place, COLUMNS)
        left, bottom = 0.6 + column * WIDE_INCHES / COLUMNS, (rows - 1 - row) * step + BELOW_INCHES
        axes = _axes(figure, left, bottom, wide, 1.6 * PANEL_INCHES, panel.title)
        for series, points in panel.points.items():
            x, y = zip(*points, strict=True) if points else ((), ())
            axes.plot(x, y, "o", color=colours[series], markersize=3, alpha=0.7, label=series)
        axes.set_xlabel(across, fontsize=8)
        axes.set_ylabel(up, fontsize=8)
    _legend(figure)
    return figure


def ranges(spreads: Sequence[Spread], what: str) -> Plot:
    """A line from the 10th to the 90th percentile for each group and series, thick in the middle half, with a dot at
    the median, on a logarithmic scale. `what`: the words below it.
    """
    groups = list(dict.fromkeys(each.group for each in spreads))
    colours = _colours(each.series for each in spreads)
    names = _names_inches(groups)
    high = 2 * BAR_INCHES * len(groups)
    figure = _figure(WIDE_INCHES, ABOVE_INCHES + high + BELOW_INCHES)
    axes = _axes(figure, names, BELOW_INCHES, WIDE_INCHES - names - RIGHT_INCHES, high, "")
    for each in spreads:
        colour = colours[each.series]
        at = groups.index(each.group) - 0.2 + 0.4 * COLOURS.index(colour) / max(len(colours) - 1, 1)
        low, first, middle, third, high_ = (max(value, 1) for value in each.percentiles)
        label = each.series if each.group == groups[0] else None
        axes.plot([low, high_], [at, at], color=colour, linewidth=1)
        axes.plot([first, third], [at, at], color=colour, linewidth=5, label=label)
        axes.plot([middle], [at], "o", color="white", markeredgecolor=colour, markersize=5)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    ticks = [step * 10**power for power in range(7) for step in (1, 2, 5) if least <= step * 10**power <= most]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(what, fontsize=8)
    _group_names(axes, groups)
    _legend(figure)
    return figure


def _colours(series: Iterable[str]) -> dict[str, str]:
    """series -> its colour, in the order in which they first come."""
    return dict(zip(dict.fromkeys(series), COLOURS, strict=False))


def _figure(wide: float, high: float) -> Plot:
    from matplotlib.figure import Figure as Plot

    return Plot(figsize=(wide, high))


def _axes(figure: Plot, left: float, bottom: float, wide: float, high: float, title: str) -> Axes:
    """Axes at this place, in inches from the lower left corner of the figure."""
    across, up = figure.get_size_inches()
    axes: Axes = figure.add_axes((left / across, bottom / up, wide / across, high / up))
    axes.set_title(title, loc="left", fontsize=9)
    axes.tick_params(labelsize=8)
    return axes


def _group_names(axes: Axes, groups: Sequence[str]) -> None:
    """Write the groups' names at the left, the first on top."""
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.4, -0.6)


def _names_inches(groups: Sequence[str]) -> float:
    return CHARACTER_INCHES * max(map(len, groups), default=0) + 0.2


def _legend(figure: Plot) -> None:
    """Name the series of all panels at the top right of the figure; nothing if there is only one."""
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    handles, labels = list(named.values()), list(named)
    if len(labels) > 1:
        across, up = figure.get_size_inches()
        at = ((across - RIGHT_INCHES) / across, 1 - 0.05 / up)
        figure.legend(
            handles, labels, loc="upper right", bbox_to_anchor=at, ncols=len(labels), fontsize=8, frameon=False
        )
