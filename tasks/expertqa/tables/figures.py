"""Figures 4, 5, 8, 9 and 10 of ExpertQA as plots: stacked bars, one panel a property, on a light ground."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from longform.artifacts.rows import Row
from tasks.expertqa.tables.distributions import (
    Counts,
    Distribution,
    agreements,
    by_property,
    cite_worthy,
    distribution,
    types_by_field,
)
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


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars of shares, or with `numbers` of counts; at their right how many of `what` they are of."""

    title: str
    found: Distribution
    what: str
    numbers: Mapping[str, int] | None = None

    def number(self, group: Counts) -> int:
        return group.labelled if self.numbers is None else self.numbers.get(group.group, 0)

    def width(self, group: Counts, label: str) -> float:
        return (group.share(label) or 0.0) if self.numbers is None else float(group.labels[label])


def plots(
    questions: Sequence[Row], answers: Sequence[Row], claims: Sequence[Row], agreed: Sequence[Row]
) -> list[Figure]:
    """Figures 4, 5, 8, 9 and 10; those without a single label are left out. `agreed` are rows of `agreement`."""
    systems = [
        Panel("Usefulness (of answers)", distribution(answers, "usefulness", "system"), "answers"),
        Panel("Support (cite-worthy claims)", distribution(cite_worthy(claims), "support", "system"), "claims"),
        Panel("Support (all claims)", distribution(claims, "support", "system"), "claims"),
        *(panel for panel in _titled(by_property(claims, "system")) if panel.found.property != "support"),
    ]
    fields = list(_titled(by_property(claims, "field")))
    types = list(_titled(by_property(claims, "question_types")))
    asked = Counter(row["field"] for row in questions)
    several = "Each bar sums up how many questions of the field have each type: one may have several."
    of_fields = [Panel("Types of the questions", types_by_field(questions), "questions", asked)]
    second = [Panel(found.property, found, "labels") for found in agreements(agreed)]
    both = "Of the labels that two people gave, shares; how many these are stands at the right of each bar."
    drawn = (
        _drawn("figure-4-agreement", "Agreement with a second labelling (figure 4)", both, second),
        _drawn("figure-5-systems", "Labels by system (figure 5)", SHARES, systems),
        _drawn("figure-8-question-types", "Question types by field (figure 8)", several, of_fields),
        _drawn("figure-9-fields", "Labels by field (figure 9)", SHARES, fields),
        _drawn("figure-10-question-types", "Labels by question type (figure 10)", SHARES, types),
    )
    return [figure for figure in drawn if figure]


def _titled(found: Iterable[Distribution]) -> Iterable[Panel]:
    return (Panel(one.property.capitalize(), one, "claims") for one in found)


def _drawn(name: str, title: str, note: str, given: Sequence[Panel]) -> Figure | None:
    if not any(panel.found.total.labelled for panel in given):
        return None
    return Figure(name, title, note, svg_of(partial(panels, aligned(given)), title))


def aligned(given: Sequence[Panel]) -> list[Panel]:
    """The panels with the groups of all of them, in the order of the one that has most."""
    most_first = sorted(given, key=lambda panel: -len(panel.found.groups))
    names = list(dict.fromkeys(group.group for panel in most_first for group in panel.found.groups))
    return [replace(panel, found=replace(panel.found, groups=_all_of(names, panel.found))) for panel in given]


def _all_of(names: Sequence[str], found: Distribution) -> list[Counts]:
    own = {group.group: group for group in found.groups}
    return [own.get(name) or Counts(name, Counter(), 0) for name in names]


def panels(given: Sequence[Panel]) -> Plot:
    """At most three side by side, with the names of their groups, which are the same, at the left of the first.

    Places are reckoned here: what matplotlib's own layout solves differs from run to run in the last digits.
    """
    from matplotlib.figure import Figure as Plot

    columns = min(COLUMNS, len(given))
    groups = [group.group for group in given[0].found.groups]
    names = CHARACTER_INCHES * max(len(shown(name)) for name in groups) + 0.2
    bars = WIDE_INCHES if columns == 1 else NARROW_INCHES
    tall = BAR_INCHES * len(groups)
    wide = names + columns * (bars + RIGHT_INCHES)
    high = -(-len(given) // columns) * (ABOVE_INCHES + tall + BELOW_INCHES)
    figure = Plot(figsize=(wide, high))
    for place, panel in enumerate(given):
        line, column = divmod(place, columns)
        left = names + column * (bars + RIGHT_INCHES)
        bottom = high - line * (ABOVE_INCHES + tall + BELOW_INCHES) - ABOVE_INCHES - tall
        ax = figure.add_axes((left / wide, bottom / high, bars / wide, tall / high))
        _bars(ax, panel)
        _frame(ax, panel, inches=bars, named=column == 0)
    return figure


def _bars(ax: Axes, panel: Panel) -> None:
    """A bar a group, the first on top: a piece for each label that was given, and how many it is of."""
    found = panel.found
    places = range(len(found.groups))
    ends = [0.0] * len(found.groups)
    for label in found.labels:
        if found.total.labels[label]:
            fill = colour(found, label)
            widths = [panel.width(group, label) for group in found.groups]
            ax.barh(places, widths, left=ends, color=fill, label=label, height=0.8)
            for place, width, end in zip(places, widths, ends, strict=True):
                if width >= WRITTEN_FROM and panel.numbers is None:
                    _write(ax, f"{width:.0%}", end + width / 2, place, color=ink(fill), ha="center")
            ends = [end + width for end, width in zip(ends, widths, strict=True)]


def _write(ax: Axes, text: str, x: float, y: float, *, color: str, ha: Literal["center", "right"]) -> None:
    ax.text(x, y, text, color=color, ha=ha, va="center_baseline", fontsize=7)


def _frame(ax: Axes, panel: Panel, *, inches: float, named: bool) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    groups = panel.found.groups
    ax.set_title(shown(panel.title), loc="left", fontweight="bold", pad=14)
    ax.set_yticks(range(len(groups)), [shown(group.group) for group in groups] if named else [""] * len(groups))
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if panel.numbers is None:
        ax.set_xlim(0, 1)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        ax.xaxis.set_major_formatter(PercentFormatter(1))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    beside = ax.get_xlim()[1] * (1 + BESIDE_INCHES / inches)
    for place, text in enumerate([panel.what, *(f"{panel.number(group):,}" for group in groups)], start=-1):
        _write(ax, text, beside, place, color="black", ha="right")
    if panel.found.total.labelled:
        ax.legend(
            loc="upper left", bbox_to_anchor=(-0.25 / inches, 0), borderaxespad=2.4, frameon=False, fontsize=7.5,
            ncols=2 if inches == NARROW_INCHES else 7, handlelength=1, columnspacing=1, borderpad=0,
        )  # fmt: skip


def colour(found: Distribution, label: str) -> str:
    """From good to bad in the order of the labels, greys for what is no judgement."""
    if label in APART:
        return APART[label]
    ordered = [name for name in found.labels if name not in APART]
    return COLOURS[len(ordered)][ordered.index(label)]


def ink(fill: str) -> str:
    """Black or white, whichever is read better on this colour."""
    red, green, blue = (int(fill[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > BLACK_ABOVE else "white"


def shown(text: str) -> str:
    """A group's name on one line, short, and without characters that no XML may hold."""
    kept = "".join(
        char for char in " ".join(text.split()) if unicodedata.category(char) not in ("Cc", "Cs", "Cn", "Co")
    )
    return kept if len(kept) <= LABEL_CHARACTERS else f"{kept[: LABEL_CHARACTERS - 1]}…"
