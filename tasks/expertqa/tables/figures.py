"""Figures 4, 5, 8, 9 and 10 of ExpertQA as plots: stacked bars, one panel for each property, on a light background."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pandas as pd

from longform.artifacts.rows import Row
from tasks.expertqa.tables.label_counts import (
    NO_LABEL,
    Labels,
    figure_5_by_system,
    figure_8_types_by_field,
    figures_9_and_10,
)
from tasks.expertqa.tables.paper_tables import TOTAL
from tasks.expertqa.tables.second_labelling import agreement_counts
from tasks.publishing.card import Figure
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = {
    2: ("#1b5e8a", "#d9813c"),
    3: ("#1b5e8a", "#f0c36d", "#b5482f"),
    4: ("#1b5e8a", "#6aaed6", "#f0c36d", "#b5482f"),
    5: ("#1b5e8a", "#6aaed6", "#f0c36d", "#d9813c", "#9c3d2e"),
    7: ("#1b5e8a", "#6aaed6", "#3f8f6b", "#a9c85a", "#f0c36d", "#d9813c", "#8a4f7d"),
}
APART = {"Missing": "#7a7a7a", "N/A": "#c9c9c9"}
BLACK_ABOVE = 0.5
WRITTEN_FROM = 0.1
LABEL_CHARACTERS = 30
COLUMNS = 3
BAR_INCHES, CHARACTER_INCHES = 0.22, 0.075
NARROW_INCHES, WIDE_INCHES, RIGHT_INCHES, BESIDE_INCHES = 2.4, 6.0, 0.65, 0.45
ABOVE_INCHES, BELOW_INCHES = 0.45, 0.95
SHARES = "Shares of the labelled; how many these are stands at the right of each bar."


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One panel of a plot: a stacked bar for each group, and a number at its right.

    `labels`: counts, a row for each group, a column for each label. `numbers`: the number of each group; `what` is the
    heading above these. `shares`: bars show counts as shares of that number, else the counts themselves.
    """

    title: str
    labels: pd.DataFrame
    what: str
    numbers: pd.Series[int]
    shares: bool = True


def of_labels(title: str, counts: pd.DataFrame, what: str) -> Panel:
    """A panel of the shares of each group's labels; the number of a group is how many labels it has.

    `counts`: a row for each group and one TOTAL, a column for each label and one NO_LABEL; these two are left out.
    `what`: heading of the numbers.
    """
    labels = counts.drop(columns=NO_LABEL, index=TOTAL)
    return Panel(title, labels, what, labels.sum(axis=1))


def plots(questions: pd.DataFrame, answers: pd.DataFrame, claims: pd.DataFrame, agreed: Iterable[Row]) -> list[Figure]:
    """Figures 4, 5, 8, 9 and 10, in this order; those with nothing to count are left out.

    `questions`: field, question_types. `answers`: system, usefulness. `claims`: system, field, question_types and
    labels. `agreed`: the rows of `agreement_with_second`.
    """
    asked = figure_8_types_by_field(questions).drop(index=TOTAL)
    types = Panel("Types of the questions", asked.drop(columns="questions"), "questions", asked.questions, shares=False)
    second = [of_labels(name, counts, "labels") for name, counts in agreement_counts(agreed).items()]
    both = "Of the labels that two people gave, shares; how many these are stands at the right of each bar."
    sums = "Each bar sums up how many questions of the field have each type: one may have several."
    by_system, by_field, by_type = (
        list(map(_panel, counted))
        for counted in (
            figure_5_by_system(answers, claims),
            figures_9_and_10(claims, "field"),
            figures_9_and_10(claims, "question_types"),
        )
    )
    drawn = (
        _drawn("figure-4-agreement", "Agreement with a second labelling (figure 4)", both, second),
        _drawn("figure-5-systems", "Labels by system (figure 5)", SHARES, by_system),
        _drawn("figure-8-question-types", "Question types by field (figure 8)", sums, [types]),
        _drawn("figure-9-fields", "Labels by field (figure 9)", SHARES, by_field),
        _drawn("figure-10-question-types", "Labels by question type (figure 10)", SHARES, by_type),
    )
    return [figure for figure in drawn if figure]


def _panel(labels: Labels) -> Panel:
    """The panel of one property's labels; its title is the property and, in brackets, what of it is counted."""
    which = labels.which or ("of answers" if labels.property == "usefulness" else "")
    title = f"{labels.property.capitalize()}{f' ({which})' if which else ''}"
    return of_labels(title, labels.counts, labels.what)


def _drawn(name: str, title: str, note: str, panels: Sequence[Panel]) -> Figure | None:
    """A figure of these panels as SVG; None if no panel has a label. `name`: that of its file, without ending. `note`:
    the words below it.
    """
    if not any(panel.labels.to_numpy().any() for panel in panels):
        return None
    return Figure(name, title, note, svg_of(partial(draw, aligned(panels)), title))


def aligned(panels: Sequence[Panel]) -> list[Panel]:
    """The panels, in their order, all with the same groups: those of the panel that has most, then the others. A group
    that a panel lacked gets zeros.
    """
    most_first = sorted(panels, key=lambda panel: -len(panel.labels))
    names = list(dict.fromkeys(group for panel in most_first for group in panel.labels.index))
    return [
        replace(
            panel,
            labels=panel.labels.reindex(names, fill_value=0),
            numbers=panel.numbers.reindex(names, fill_value=0),
        )
        for panel in panels
    ]


def draw(panels: Sequence[Panel]) -> Plot:
    """A matplotlib figure of the panels, at most COLUMNS (three) side by side. The panels must have the same groups
    (`aligned`); their names are written once a row, at the left. At least one panel.

    Positions are computed here, since matplotlib's own layout differs from run to run in the last digits.
    """
    from matplotlib.figure import Figure as Plot

    columns = min(COLUMNS, len(panels))
    groups = [str(name) for name in panels[0].labels.index]
    names = CHARACTER_INCHES * max(len(shown(name)) for name in groups) + 0.2
    bars = WIDE_INCHES if columns == 1 else NARROW_INCHES
    tall = BAR_INCHES * len(groups)
    wide = names + columns * (bars + RIGHT_INCHES)
    high = -(-len(panels) // columns) * (ABOVE_INCHES + tall + BELOW_INCHES)
    figure = Plot(figsize=(wide, high))
    for place, panel in enumerate(panels):
        line, column = divmod(place, columns)
        left = names + column * (bars + RIGHT_INCHES)
        bottom = high - line * (ABOVE_INCHES + tall + BELOW_INCHES) - ABOVE_INCHES - tall
        ax = figure.add_axes((left / wide, bottom / high, bars / wide, tall / high))
        _bars(ax, panel)
        _frame(ax, panel, inches=bars, named=column == 0)
    return figure


def _bars(ax: Axes, panel: Panel) -> None:
    """Draws a bar for each group, the first on top, with a segment for each label that was given. If bars show shares,
    those of at least 10 % are written in.
    """
    counts = panel.labels
    widths = counts.div(panel.numbers.clip(lower=1), axis=0) if panel.shares else counts.astype(float)
    ends = widths.cumsum(axis=1)
    for label in counts.columns[counts.any()]:
        fill, width, start = colour(list(counts.columns), label), widths[label], ends[label] - widths[label]
        ax.barh(range(len(counts)), width, left=start, color=fill, label=label, height=0.8)
        for place in range(len(counts)) if panel.shares else ():
            if width.iloc[place] >= WRITTEN_FROM:
                middle = start.iloc[place] + width.iloc[place] / 2
                _write(ax, f"{width.iloc[place]:.0%}", middle, place, color=ink(fill), ha="center")


def _write(ax: Axes, text: str, x: float, y: float, *, color: str, ha: Literal["center", "right"]) -> None:
    """Writes a text of 7 points at a position in data coordinates. `ha`: whether its centre or its right end is at
    `x`.
    """
    ax.text(x, y, text, color=color, ha=ha, va="center_baseline", fontsize=7)


def _frame(ax: Axes, panel: Panel, *, inches: float, named: bool) -> None:
    """Draws title, axes, legend (if there is a label), and the numbers at the right of the bars. `inches`: the width
    of the axes. `named`: whether the names of the groups are written.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    groups = [shown(str(name)) for name in panel.labels.index]
    ax.set_title(shown(panel.title), loc="left", fontweight="bold", pad=14)
    ax.set_yticks(range(len(groups)), groups if named else [""] * len(groups))
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if panel.shares:
        ax.set_xlim(0, 1)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        ax.xaxis.set_major_formatter(PercentFormatter(1))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    beside = ax.get_xlim()[1] * (1 + BESIDE_INCHES / inches)
    for place, text in enumerate([panel.what, *(f"{number:,}" for number in panel.numbers)], start=-1):
        _write(ax, text, beside, place, color="black", ha="right")
    if panel.labels.to_numpy().any():
        ax.legend(
            loc="upper left", bbox_to_anchor=(-0.25 / inches, 0), borderaxespad=2.4, frameon=False, fontsize=7.5,
            ncols=2 if inches == NARROW_INCHES else 7, handlelength=1, columnspacing=1, borderpad=0,
        )  # fmt: skip


def colour(labels: Sequence[str], label: str) -> str:
    """The fill colour (#rrggbb) of `label` by its position in `labels`, which go from good to bad (blue to red); grey
    for Missing and N/A. KeyError if COLOURS has none for so many labels.
    """
    if label in APART:
        return APART[label]
    ordered = [name for name in labels if name not in APART]
    return COLOURS[len(ordered)][ordered.index(label)]


def ink(fill: str) -> str:
    """The colour of text, "black" or "white", that is easier to read on this fill colour (#rrggbb)."""
    red, green, blue = (int(fill[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > BLACK_ABOVE else "white"


def shown(text: str) -> str:
    """A name as plots show it: on one line, cut to LABEL_CHARACTERS with a final `…`, without control characters and
    others that XML does not allow.
    """
    kept = "".join(
        char for char in " ".join(text.split()) if unicodedata.category(char) not in ("Cc", "Cs", "Cn", "Co")
    )
    return kept if len(kept) <= LABEL_CHARACTERS else f"{kept[: LABEL_CHARACTERS - 1]}…"
